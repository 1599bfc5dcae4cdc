// Package catalog knows tools by their exact bytes.
//
// It gives a tool its identity and its names, keeps the definition as the
// upstream sent it, says what class a tool has and on which ground, finds
// tools for a request, and holds the set that a session may see. It does not
// know who is calling, what policy says, or how definitions arrive.
package catalog

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"

	"github.com/mcp-gate/mcp-gate/internal/canonjson"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// ToolID names one tool of one server. It is what policy, approvals, audit
// and people use; no two tools share one.
type ToolID struct {
	Server string // the server's alias, see [Alias]
	Tool   string // the tool's name as the upstream gave it
}

// String returns the form that people and models write: alias/tool, or the bare
// name where nobody knows whose it is.
func (id ToolID) String() string { return strings.TrimPrefix(id.Server+"/"+id.Tool, "/") }

// ParseToolID takes alias/tool apart at the first slash: an alias has none, a
// tool's own name may.
func ParseToolID(s string) (ToolID, error) {
	server, tool, ok := strings.Cut(s, "/")
	if !ok || server == "" || tool == "" {
		return ToolID{}, fmt.Errorf("%q is not a tool's name: want server/tool", s)
	}
	return ToolID{server, tool}, nil
}

// Alias turns a configuration key into the name its server goes by: lower
// case, everything but a-z and 0-9 turned into "-".
func Alias(key string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + ('a' - 'A')
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		}
		return '-'
	}, key)
}

// Tool is one definition as its upstream offered it. It is immutable: share
// it, never change what its slices hold.
type Tool struct {
	ID          ToolID
	Raw         json.RawMessage // the definition, byte for byte
	Digest      string          // SHA-256 of the canonical definition, 64 hex digits
	Title       string          // "title", else the annotations' title, else ""
	Description string
	Params      []string        // names of the input schema's top-level properties, sorted
	InputSchema json.RawMessage // a part of Raw; nil where there is none
	Hints       Hints

	unlisted *string // what Listable says, "" for nothing; nil where it was not asked
}

// Hints are what a server claims about its tool. A nil hint was not given.
type Hints struct {
	ReadOnly, Destructive, Idempotent, OpenWorld *bool
}

// maxName bounds a tool's name, in bytes. Clients take 64 to 128.
const maxName = 1024

// NewTool reads one entry of a server's tools/list. Members it does not know
// and members of the wrong type are left to whoever reads Raw; only a
// definition that is no strict JSON object, or has no name or one beyond all
// measure, is refused.
func NewTool(server string, raw json.RawMessage) (Tool, error) {
	t := Tool{Raw: raw}
	var annotations json.RawMessage
	for m, err := range strictjson.Object(raw) {
		if err != nil {
			return Tool{}, fmt.Errorf("definition of a tool of %s: %w", server, err)
		}
		switch m.Name {
		case "name":
			t.ID = ToolID{server, text(m.Value)}
		case "title":
			t.Title = text(m.Value)
		case "description":
			t.Description = text(m.Value)
		case "inputSchema":
			t.InputSchema = m.Value
		case "annotations":
			annotations = m.Value
		}
	}
	switch n := len(t.ID.Tool); {
	case n == 0:
		return Tool{}, fmt.Errorf("definition of a tool of %s: it has no name", server)
	case n > maxName:
		return Tool{}, fmt.Errorf("definition of a tool of %s: its name has %d bytes, more than %d", server, n, maxName)
	}
	t.readHints(annotations)
	t.Params = properties(t.InputSchema)
	digest, err := canonjson.Digest(raw)
	if err != nil {
		return Tool{}, fmt.Errorf("definition of %v: %w", t.ID, err)
	}
	t.Digest = digest
	return t, nil
}

func (t *Tool) readHints(annotations json.RawMessage) {
	for m, err := range strictjson.Object(annotations) {
		if err != nil { // absent, or no object: nothing is claimed
			return
		}
		switch m.Name {
		case "title":
			if t.Title == "" {
				t.Title = text(m.Value)
			}
		case "readOnlyHint":
			t.Hints.ReadOnly = flag(m.Value)
		case "destructiveHint":
			t.Hints.Destructive = flag(m.Value)
		case "idempotentHint":
			t.Hints.Idempotent = flag(m.Value)
		case "openWorldHint":
			t.Hints.OpenWorld = flag(m.Value)
		}
	}
}

func properties(schema json.RawMessage) []string {
	raw, _, err := strictjson.Get(schema, "properties")
	if err != nil {
		return nil
	}
	var names []string
	for m, err := range strictjson.Object(raw) {
		if err != nil {
			return nil
		}
		names = append(names, m.Name)
	}
	sort.Strings(names)
	return names
}

// text decodes a JSON string; anything else is no text.
func text(raw json.RawMessage) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	return string(strictjson.Unquote(nil, raw))
}

func flag(raw json.RawMessage) *bool {
	var b *bool
	if json.Unmarshal(raw, &b) != nil {
		return nil
	}
	return b
}
