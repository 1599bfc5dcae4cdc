package catalog

import (
	"encoding/json"
	"strings"
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

func TestUnfoldedLooksAtEveryDepth(t *testing.T) {
	const node = `{"type":"object","properties":{"path":{},"left":{"$ref":"#/$defs/node"},"next":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/node"}]}}}`
	tool, err := NewTool("s", json.RawMessage(`{"name":"t","inputSchema":{"$defs":{"node":`+node+`,"loop":{"$ref":"#/$defs/loop"}},"properties":{
		"options":{"properties":{"path":{},"Mode":{},"mode":{}}},
		"files":{"type":"array","items":{"properties":{"path":{}}}},
		"pair":{"prefixItems":[{"properties":{"a":{}}},{"properties":{"b":{}}}],"items":{"properties":{"c":{}}}},
		"old":{"items":[{"properties":{"a":{}}}]},
		"any":{"oneOf":[{"type":"string"},{"properties":{"path":{}}}]},
		"map":{"type":"object","additionalProperties":{"properties":{"path":{}}}},
		"tree":{"$ref":"#/$defs/node"},"loop":{"$ref":"#/$defs/loop"},"free":{"type":"object"},"true":true
	},"allOf":[{"properties":{"extra":{}}}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	for args, fine := range map[string]bool{
		`{"options":{"path":1,"Mode":2,"mode":3,"more":4}}`:             true,
		`{"options":{"Path":1}}`:                                        false,
		"{\"options\":{\"\u0070ath\":1,\"PATH\":2}}":                    false,
		`{"files":[{"path":1},{"path":2}]}`:                             true,
		`{"files":[{"path":1},{"pAth":2}]}`:                             false,
		`{"pair":[{"a":1,"B":2},{"b":1,"A":2},{"c":1},{"c":1}]}`:        true,
		`{"pair":[{"A":1}]}`:                                            false,
		`{"pair":[{"a":1},{"B":1}]}`:                                    false,
		`{"pair":[{"a":1},{"b":1},{"c":1},{"C":1}]}`:                    false,
		`{"old":[{"A":1}]}`:                                             false,
		`{"any":{"Path":1}}`:                                            false,
		`{"map":{"Path":{"path":1},"path":{"path":1}}}`:                 true,
		`{"map":{"x":{"Path":1}}}`:                                      false,
		`{"tree":{"left":{"next":{"left":{"path":1,"Left":2}}}}}`:       false,
		`{"tree":{"left":{"next":{"left":{"path":1,"other":{}}}}}}`:     true,
		`{"loop":{"Path":1},"free":{"Path":1,"path":2},"true":{"A":1}}`: true,
		`{"Extra":1}`: false,
	} {
		if got := tool.Unfolded(json.RawMessage(args)); (got == nil) != fine {
			t.Errorf("%s: %v", args, got)
		}
	}
	if got, want := tool.Unfolded(json.RawMessage(`{"files":[{},{"Path":1}]}`)).Error(), `"Path" in /files/1 is spelled like "path" but is not it`; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q in it", got, want)
	}
}

// What refers to itself is taken apart once, however large the arguments are.
func TestUnfoldedOfALargeTree(t *testing.T) {
	tool, err := NewTool("s", json.RawMessage(`{"name":"t","inputSchema":{"properties":{"l":{"$ref":"#"},"r":{"$ref":"#"},"x":{"type":"string","description":"`+strings.Repeat("x", 10_000)+`"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	args := `{"x":""}`
	for range 12 {
		args = `{"l":` + args + `,"r":` + args + `}`
	}
	f := folds{tool, map[string]*shape{}}
	if err := f.value(f.expanded(tool.InputSchema), json.RawMessage(args), ""); err != nil || len(f.known) > 3 {
		t.Errorf("%v, %d shapes", err, len(f.known))
	}
}
