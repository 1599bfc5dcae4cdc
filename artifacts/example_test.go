package artifacts_test

import (
	"fmt"

	"github.com/mcp-gate/mcp-gate/artifacts"
	"github.com/mcp-gate/mcp-gate/engagement"
)

func Example() {
	result := []byte(`{"content":[{"type":"text","text":"plan,amount\nfree,1\nfree,2\nfree,3\nfree,4\nfree,5\npro,90\n"}]}`)

	found := artifacts.Inspect(result)
	fmt.Println("found:", found.Classes)

	declared := engagement.EgressOf(engagement.RowLevel)
	allowed := engagement.EgressOf(engagement.Metadata, engagement.Aggregates)
	cut := artifacts.Downgrade(result, found, artifacts.Tables(result), declared, allowed)
	fmt.Println("blocks that leave:", len(cut.Blocks))
	for _, column := range artifacts.Tables(result)[0].Columns {
		fmt.Println(column.Name, column.Type, column.Stats.Count, column.Stats.Frequent)
	}

	// Output:
	// found: row_level
	// blocks that leave: 0
	// plan text 6 [{free 5}]
	// amount integer 6 []
}

func ExampleRedact() {
	text, found := artifacts.Redact("use token ghp_0a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R for it")
	fmt.Println(text)
	fmt.Println(found[0].Name)
	// Output:
	// use token [mcp-gate:redacted github-token] for it
	// github-token
}
