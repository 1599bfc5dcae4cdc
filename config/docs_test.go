package config

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"
)

const docs = "../docs/configuration.md"

var codeBlock = regexp.MustCompile("(?s)```(jsonc|yaml)\n(.*?)```")

// Every example in the documentation is a whole file that works as it stands.
func TestExamplesInTheDocsWork(t *testing.T) {
	page, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	s := compiledSchema(t)
	examples := codeBlock.FindAllSubmatch(page, -1)
	if len(examples) < 6 {
		t.Fatalf("found %d examples, want all of them", len(examples))
	}
	for _, example := range examples {
		name, data := "example."+string(example[1]), example[2]
		c, _, err := Parse(name, data, nil)
		if err != nil || len(c.Refused) > 0 {
			t.Errorf("%s\n%v %v", data, err, c.Refused)
			continue
		}
		root, bad := parseTree(name, data)
		if bad != nil {
			t.Fatal(bad)
		}
		if !validates(t, s, root.json()) {
			t.Errorf("the schema refuses\n%s", data)
		}
	}
}

// The first example says the same in both languages.
func TestExampleInBothLanguages(t *testing.T) {
	page, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	examples := codeBlock.FindAllSubmatch(page, 2)
	if j, y := outcome("c.jsonc", examples[0][2]), outcome("c.yaml", examples[1][2]); j != y {
		t.Errorf("got\n%s\nin JSONC and\n%s\nin YAML", j, y)
	}
}

func TestEveryKeyIsDocumented(t *testing.T) {
	page, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	var root any
	if err := json.Unmarshal(JSONSchema(), &root); err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	collectKeys(root, keys)
	if len(keys) < 80 {
		t.Fatalf("found %d keys in the schema, want all of them", len(keys))
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if !bytes.Contains(page, []byte("`"+k+"`")) && !bytes.Contains(page, []byte(`"`+k+`"`)) {
			t.Errorf("%s is not in %s", k, docs)
		}
	}
}

// collectKeys gathers the names of all properties that are used.
func collectKeys(v any, keys map[string]bool) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			collectKeys(item, keys)
		}
	case map[string]any:
		properties, _ := v["properties"].(map[string]any)
		for name, p := range properties {
			if s, ok := p.(map[string]any); ok && s["description"] != nil && s["deprecated"] == nil {
				keys[name] = true
			}
		}
		for _, inner := range v {
			collectKeys(inner, keys)
		}
	}
}
