package catalog

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestListable(t *testing.T) {
	tool := func(rest string) string { return `{"name":"x",` + rest + `}` }
	schema := func(s string) string { return tool(`"inputSchema":` + s) }
	for definition, want := range map[string]string{
		schema(`{"type":"object","properties":{"n":{"maximum":1e400}}}`):                                                                               "",
		schema(`{"type":"object"}`):                                                                                                                    "",
		schema(`{"type":"object","properties":{"a":{"type":["string","null"]}},"required":["a"]}`):                                                     "",
		schema(`{"type":"object","properties":{"a":{"$ref":"#/$defs/b~1c"}},"$defs":{"b/c":{"$ref":"#"}}}`):                                            "",
		schema(`{"$schema":"https://example.org/draft-99","type":"object","properties":{"a":{"kind":"strange"}}}`):                                     "",
		schema(`{"type":"object","properties":{"type":{"type":"string"},"$ref":{"type":"string"}},"default":{"$ref":"#/nope"}}`):                       "",
		schema(`{"type":"object","properties":{"a":{"$id":"https://example.org/a","$ref":"#/in/it","x":1}}}`):                                          "",
		schema(`{"type":"object","properties":{"a":{"$ref":"https://example.org/s.json"}}}`):                                                           "",
		schema(`{"type":"object","properties":` + strings.Repeat(`{"a":{"type":"object","properties":`, 200) + `{}` + strings.Repeat(`}}`, 200) + `}`): "",
		tool(`"title":"X"`):         "it has no inputSchema",
		schema(`"object"`):          "its inputSchema is no object",
		schema(`true`):              "its inputSchema is no object",
		schema(`null`):              "its inputSchema is null",
		schema(`{}`):                `its inputSchema does not say "type": "object"`,
		schema(`{"type":"string"}`): `its inputSchema does not say "type": "object"`,
		schema(`{"type":"object","properties":{"n":{"type":"int"}}}`):       `its inputSchema has the type "int", which is none`,
		schema(`{"type":"object","properties":{"n":{"items":{"type":7}}}}`): `its inputSchema has the type "7", which is none`,
		schema(`{"type":"object","properties":{"n":true}}`):                 `its inputSchema has a property "n" that is no object`,
		schema(`{"type":"object","properties":[]}`):                         `its inputSchema has properties that are no object`,
		schema(`{"type":"object","anyOf":[{"$ref":"#/$defs/gone"}]}`):       `its inputSchema refers to "#/$defs/gone", which is not in it`,
		schema(`{"type":"object"},"outputSchema":[]`):                       "its outputSchema is no object",
		schema(`{"type":"object"},"description":7`):                         "its description is of the wrong type",
		schema(`{"type":"object"},"annotations":{"readOnlyHint":"yes"}`):    "its annotations.readOnlyHint is of the wrong type",
		schema(`{"type":"object"},"_meta":[]`):                              "its _meta is of the wrong type",
	} {
		got := ""
		if err := Listable(json.RawMessage(definition)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%.200s: got %q, want %q", definition, got, want)
		}
	}
}
