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
		schema(`{"$schema":"https://example.org/d","type":"object","properties":{"a":{"type":"strange"}}}`):                                            "",
		schema(`{"type":"object"},"outputSchema":{"type":"int"}`):                                                                                      "",
		schema(`{"type":"object","properties":{"a":{"enum":[1,null]},"enum":{"type":"string"},"required":{"type":"string"}},"required":["a"]}`):        "",
		schema(`{"type":"object"},"x-y":null,"outputSchema":null`):                                                                                     "",
		schema(`{"type":"object"},"title":null`):                                                                                                       "its title is null",
		schema(`{"type":"object"},"execution":null`):                                                                                                   "its execution is null",
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
		schema(`{"type":"object","required":"a"}`):                          `its inputSchema has "a" for required, which is no list`,
		schema(`{"type":"object","properties":{"a":{"required":true}}}`):    `its inputSchema has "true" for required, which is no list`,
		schema(`{"type":"object","required":[7]}`):                          `its inputSchema has "[7]" for required, which is no list`,
		schema(`{"type":"object","properties":{"a":{"enum":"b"}}}`):         `its inputSchema has "b" for enum, which is no list`,
		schema(`{"type":"object","properties":{"a":{"pattern":[]}}}`):       `its inputSchema has "[]" for a pattern`,
		schema(`{"type":"object","properties":{"a":{"minLength":"1"}}}`):    `its inputSchema has "1" for minLength, which is no number`,
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

func TestListed(t *testing.T) {
	const head, tail = `{"name":"x","inputSchema":{"type":"object"}`, `,"title":"T"}`
	for output, want := range map[string]bool{ // whether it stays
		`{"type":"object"}`: true,
		`{"type":"object","properties":{"a":{"type":"int"}}}`:  true,
		`{"properties":{"a":{"$ref":"#/no"}},"type":"object"}`: true,
		`{"type":"int"}`:                    false,
		`{}`:                                false,
		`[]`:                                false,
		`null`:                              false,
		`"object"`:                          false,
		`{"type":"object","properties":[]}`: false,
		`{"type":"object","properties":{"a":true}}`:                 false,
		`{"type":"object","properties":{},"required":"everything"}`: false,
	} {
		in := head + `,"outputSchema":` + output + tail
		out := head + tail
		if want {
			out = in
		}
		if got := string(Listed(json.RawMessage(in))); got != out {
			t.Errorf("%s: got %s", output, got)
		}
	}
}
