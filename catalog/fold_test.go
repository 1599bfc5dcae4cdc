package catalog

import (
	"encoding/json"
	"testing"
)

func TestUnfoldedNamesTheImitation(t *testing.T) {
	tool, err := NewTool("s", json.RawMessage(`{"name":"t","inputSchema":{"properties":{"path":{},"Key":{},"key":{},"skip":{}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for args, fine := range map[string]bool{
		`{"path":1,"Key":2,"key":3}`:     true,
		`{"other":{"PATH":1}}`:           true,
		``:                               true,
		`{"Path":1}`:                     false,
		`{"path":1,"PATH":2}`:            false,
		`{"KEY":1}`:                      false,
		"{\"\u017fkip\":1}":              false,
		`{"p\u0061th":1,"\u0050ath":2}`:  false,
		`{"ke\u212a":1, "\u212aey" : 1}`: false,
	} {
		if got := tool.Unfolded(json.RawMessage(args)); (got == nil) != fine {
			t.Errorf("%s: %v", args, got)
		}
	}
}
