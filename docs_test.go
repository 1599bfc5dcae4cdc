package mcpgate_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/policy"
)

var update = flag.Bool("update", false, "write the generated pages instead of comparing them")

// TestEveryRefusalHasItsPage holds docs/refusals against the list of codes, so
// that no code is without a page and no page says another thing than the gate.
func TestEveryRefusalHasItsPage(t *testing.T) {
	about := policy.About{
		Tool: catalog.ToolID{Server: "server", Tool: "tool"}, Class: engagement.Destructive, Egress: engagement.RowLevel,
		Leaves: policy.DefaultEgress(), Pin: policy.PinChanged, Nearest: []string{"server/tools"},
	}
	var index strings.Builder
	index.WriteString("# Refusals\n\nA refused call comes back as a tool result with `isError`, the text `refused [code]: sentence`, and\n`_meta[\"mcp-gate/refusal\"]` with the code, the rule, and whether the same call may get another answer later. Nothing was\nexecuted. A code is never renamed. `mcp-gate policy explain` says which rule decided, and what would change it.\n\n| code | what the model reads |\n|---|---|\n")
	for _, code := range policy.Codes() {
		fmt.Fprintf(&index, "| [%s](%s.md) | %s |\n", code, code, code.ForModel(about))
		page(t, code.String(), refusalPage(code, about))
	}
	page(t, "README", index.String())
}

func refusalPage(code policy.Code, about policy.About) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# refused [%s]\n\n", code)
	fmt.Fprintf(&b, "The model reads:\n\n> refused [%s]: %s\n\n", code, code.ForModel(about))
	fmt.Fprintf(&b, "For the person: %s\n\n", code.ForPerson(about))
	if change := code.Change(about); change != "" {
		fmt.Fprintf(&b, "What would change it: `%s`\n\n", change)
	}
	if code.Retryable() {
		b.WriteString("The same call may get another answer later.\n")
	} else {
		b.WriteString("The same call gets the same answer until something is changed.\n")
	}
	return b.String()
}

func page(t *testing.T, name, want string) {
	t.Helper()
	file := filepath.Join("docs", "refusals", name+".md")
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil || string(got) != want {
		t.Errorf("%s is not what the codes say: go test -run Refusal -update . (%v)", file, err)
	}
}
