// Package catalog knows tools by their exact bytes.
//
// It gives a tool its identity and its names, keeps the definition as the
// upstream sent it, says what class a tool has and on which ground, finds
// tools for a request, and holds the set that a session may see. It does not
// know who is calling, what policy says, or how definitions arrive.
package catalog

import (
	"fmt"
	"strings"
)

// ToolID names one tool of one server. It is what policy, approvals, audit
// and people use; no two tools share one.
type ToolID struct {
	Server string // the server's alias, see [Alias]
	Tool   string // the tool's name as the upstream gave it
}

// String returns the form that people and models write: alias/tool.
func (id ToolID) String() string { return id.Server + "/" + id.Tool }

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
