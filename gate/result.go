package gate

import (
	"encoding/json"
	"strings"

	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// metaPrefix begins the "_meta" keys that only the gate may write.
const metaPrefix = "mcp-gate/"

// textResult is a CallToolResult of text blocks. More is appended as further
// members: pairs of a name and raw JSON.
func textResult(isError bool, texts []string, more ...member) json.RawMessage {
	b := []byte(`{"content":[`)
	for i, text := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"type":"text","text":`...)
		b = strictjson.AppendString(b, text)
		b = append(b, '}')
	}
	b = append(b, ']')
	if isError {
		b = append(b, `,"isError":true`...)
	}
	for _, m := range more {
		b = append(b, ',')
		b = strictjson.AppendString(b, m.name)
		b = append(b, ':')
		b = append(b, m.raw...)
	}
	return append(b, '}')
}

// member is one more member of a result.
type member struct {
	name string
	raw  json.RawMessage
}

// cleaned returns an upstream's result without the "_meta" keys that only the
// gate may write, and which keys were taken out. A result that has none is
// returned as it is.
func cleaned(result json.RawMessage) (json.RawMessage, []string) {
	meta := memberOf(result, "_meta")
	if meta == nil || meta[0] != '{' {
		return result, nil
	}
	kept := meta
	var gone []string
	for m, err := range strictjson.Object(meta) {
		if err != nil {
			return result, nil
		}
		if !strings.HasPrefix(strings.ToLower(m.Name), metaPrefix) {
			continue
		}
		if kept, err = strictjson.Delete(kept, m.Name); err != nil {
			return result, nil
		}
		gone = append(gone, m.Name)
	}
	if gone == nil {
		return result, nil
	}
	out, err := strictjson.Set(result, "_meta", kept)
	if err != nil {
		return result, nil
	}
	return out, gone
}

// failed reports whether a tool says of itself that it failed.
func failed(result json.RawMessage) bool {
	return string(memberOf(result, "isError")) == "true"
}

// memberOf returns a member of a result that has been checked; nil for none.
func memberOf(result json.RawMessage, name string) json.RawMessage {
	for m := range strictjson.Walk(result) {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}
