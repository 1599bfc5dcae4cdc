package reader_test

import (
	"fmt"

	"github.com/mcp-gate/mcp-gate/reader"
)

func ExampleReader_Read() {
	r, err := reader.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	reading := r.Read("Could you please deploy the api to production?")
	fmt.Println(reading.Act, reading.Stakes, reading.Confidence >= 0.7)
	fmt.Println(reading.Domains)
	// Output:
	// operate irreversible true
	// live-data, code-exec, orchestration, observability
}
