package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// maxDirectName is the longest name given to a client. Hosts put
// mcp__SERVER__ before it and several stop at 64 characters.
const maxDirectName = 48

// DirectName returns the name a tool has in direct exposure: alias_tool, with
// everything but A-Z a-z 0-9 _ - turned into "_". If anything had to be
// altered, the name is too long, or it is one of reserved, it is cut and ends
// in "_" and 8 hex digits of SHA-256(alias, NUL, tool). It depends on nothing
// else, so no server can cost another its name. A name never leads back by
// being taken apart; a [Set] keeps the map.
func DirectName(id ToolID, reserved ...string) string {
	plain := id.Server + "_" + id.Tool
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z', r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, plain)
	altered := name != plain || len(name) > maxDirectName
	for _, r := range reserved {
		altered = altered || name == r
	}
	if !altered {
		return name
	}
	sum := sha256.Sum256([]byte(id.Server + "\x00" + id.Tool))
	tail := "_" + hex.EncodeToString(sum[:4])
	return name[:min(len(name), maxDirectName-len(tail))] + tail
}

// Renamed returns the tool's definition with another name and every other
// byte as it came.
func (t Tool) Renamed(name string) (json.RawMessage, error) {
	for m := range strictjson.Walk(t.Raw) { // it was checked when it came, and by its pack's checksum
		if m.Name == "name" {
			return slices.Concat(t.Raw[:m.Start], strictjson.AppendString(nil, name), t.Raw[m.End:]), nil
		}
	}
	return nil, fmt.Errorf("rename %v: its definition has no name", t.ID)
}

// nameSpellings are how people and hosts write a tool's name, the gate's own first.
var nameSpellings = []func(string) (server, tool string, ok bool){
	func(s string) (string, string, bool) { return strings.Cut(s, "/") },
	func(s string) (string, string, bool) {
		s, ok := strings.CutPrefix(s, "mcp__")
		if !ok {
			return "", "", false
		}
		return strings.Cut(s, "__")
	},
	func(s string) (string, string, bool) { return strings.Cut(s, ":") },
}

// Spelled returns the tools that a name with a server in it may stand for: by
// alias/tool, whatever the case and signs of the alias, or by a host's spelling.
func Spelled(name string) []ToolID {
	var ids []ToolID
	for _, spelling := range nameSpellings {
		if server, tool, ok := spelling(name); ok && server != "" && tool != "" {
			ids = append(ids, ToolID{Alias(server), tool})
		}
	}
	return ids
}
