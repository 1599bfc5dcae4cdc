package gate

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/mcp-gate/mcp-gate/artifacts"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// metaPrefix begins the "_meta" keys that only the gate may write.
const metaPrefix = "mcp-gate/"

// textResult is a tool's result of text blocks.
func textResult(isError bool, texts []string, structured json.RawMessage, metas ...member) json.RawMessage {
	blocks := make([]json.RawMessage, len(texts))
	for i, text := range texts {
		blocks[i] = artifacts.TextBlock(text)
	}
	return resultOf(isError, blocks, structured, metas...)
}

// resultOf is a tool's result of content blocks. A nil structured is no structured
// content; metas are the members of its "_meta".
func resultOf(isError bool, blocks []json.RawMessage, structured json.RawMessage, metas ...member) json.RawMessage {
	b := append([]byte(`{"content":[`), bytes.Join(asBytes(blocks), []byte{','})...)
	b = append(b, ']')
	if structured != nil {
		b = append(append(b, `,"structuredContent":`...), structured...)
	}
	if isError {
		b = append(b, `,"isError":true`...)
	}
	return withMeta(append(b, '}'), metas)
}

// withMeta sets members of a result's "_meta".
func withMeta(result json.RawMessage, metas []member) json.RawMessage {
	if len(metas) == 0 {
		return result
	}
	meta := memberOf(result, "_meta")
	if len(meta) == 0 || meta[0] != '{' {
		meta = json.RawMessage("{}")
	}
	for _, m := range metas {
		next, err := strictjson.Set(meta, m.name, m.raw)
		if err != nil {
			return result
		}
		meta = next
	}
	out, err := strictjson.Set(result, "_meta", meta)
	if err != nil {
		return result
	}
	return out
}

// member is a member of a JSON object.
type member struct {
	name string
	raw  json.RawMessage
}

// cleaned returns what an upstream sent, a result or params, without the "_meta"
// keys that only the gate may write, and which keys were taken out. What has none
// is returned as it is.
func cleaned(theirs json.RawMessage) (json.RawMessage, []string) {
	return cleanedOf(theirs, memberOf(orEmpty(theirs), "_meta"))
}

// cleanedOf is cleaned where the "_meta" is known.
func cleanedOf(theirs, meta json.RawMessage) (json.RawMessage, []string) {
	kept, gone := withoutOurs(meta)
	if gone == nil {
		return theirs, nil
	}
	out, err := strictjson.Set(theirs, "_meta", kept)
	if err != nil {
		return theirs, nil
	}
	return out, gone
}

// cleanedError is the same for an upstream's error. The gate's own facts stand
// in an error's data, so nothing of theirs may look like them there either.
func cleanedError(theirs *jsonrpc.Error) (*jsonrpc.Error, []string) {
	raw, gone := withoutOurs(theirs.Raw())
	raw, more := cleaned(raw)
	gone = append(gone, more...)
	if data := memberOf(raw, "data"); data != nil && data[0] == '{' {
		kept, inData := withoutOurs(data)
		kept, inMeta := cleaned(kept)
		if more = append(inData, inMeta...); more != nil {
			out, err := strictjson.Set(raw, "data", kept)
			if err != nil {
				return theirs, nil
			}
			raw, gone = out, append(gone, more...)
		}
	}
	if gone == nil {
		return theirs, nil
	}
	return jsonrpc.ParseError(raw), gone
}

// withoutOurs returns an object without the members that only the gate may
// write, and their names. Anything else is returned as it is.
func withoutOurs(obj json.RawMessage) (kept json.RawMessage, gone []string) {
	if len(obj) == 0 || obj[0] != '{' {
		return obj, nil
	}
	kept = obj
	for m, err := range strictjson.Object(obj) {
		if err != nil {
			return obj, nil
		}
		if !strings.HasPrefix(strings.ToLower(m.Name), metaPrefix) {
			continue
		}
		if kept, err = strictjson.Delete(kept, m.Name); err != nil {
			return obj, nil
		}
		gone = append(gone, m.Name)
	}
	return kept, gone
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

// outer is what the gate reads of a server's result among its outermost members.
type outer struct {
	of                  json.RawMessage // the result
	kind, meta, isError json.RawMessage // its resultType, "_meta" and isError
}

// read returns it, of a result that has been checked. It is found by one walk, which
// takes time where a result is large, and kept for who asks next.
func (c *call) read(result json.RawMessage) outer {
	if of := c.outer.of; len(of) > 0 && len(of) == len(result) && &of[0] == &result[0] {
		return c.outer
	}
	c.outer = outer{of: result}
	for m := range strictjson.Walk(result) {
		switch m.Name {
		case "resultType":
			c.outer.kind = m.Value
		case "_meta":
			c.outer.meta = m.Value
		case "isError":
			c.outer.isError = m.Value
		}
	}
	return c.outer
}

func stringOf(obj json.RawMessage, member string) string {
	raw, ok, err := strictjson.Get(obj, member)
	var s string
	if err != nil || !ok || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

func asBytes(raws []json.RawMessage) [][]byte {
	out := make([][]byte, len(raws))
	for i, r := range raws {
		out[i] = r
	}
	return out
}
