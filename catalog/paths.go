package catalog

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// pathWords are the words by which parameters that name local files go.
// Written for this project from the schemas of common file servers.
var pathWords = []string{"path", "paths", "file", "files", "filename", "filepath", "filenames", "dir", "directory", "folder", "source", "destination", "src", "dst", "target"}

// PathParams returns JSON pointers to the top-level arguments that, going by
// their names and types, are paths of local files: texts, or lists of texts.
func (t Tool) PathParams() []string {
	properties, _, err := strictjson.Get(t.InputSchema, "properties")
	if err != nil {
		return nil
	}
	var pointers []string
	for m, err := range strictjson.Object(properties) {
		if err != nil {
			return nil
		}
		if namesPath(m.Name) && holdsText(m.Value) {
			pointers = append(pointers, "/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(m.Name))
		}
	}
	return pointers
}

func namesPath(name string) bool {
	ws := words(name)
	return len(ws) > 0 && (slices.Contains(pathWords, ws[len(ws)-1]) || slices.Contains(pathWords, strings.ToLower(name)))
}

// holdsText reports whether a property is a text or a list of texts.
func holdsText(schema json.RawMessage) bool {
	var s struct {
		Type  any
		Items struct{ Type any }
	}
	if json.Unmarshal(schema, &s) != nil {
		return false
	}
	return s.Type == "string" || s.Type == "array" && s.Items.Type == "string"
}
