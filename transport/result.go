package transport

import (
	"bytes"
	"encoding/json"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// complete gives a result the form of the client's era. A modern one names its
// type and, in _meta, the server; what an upstream said of itself there is
// replaced. A legacy one has neither. Every other byte stays.
func (x *exchange) complete(result json.RawMessage, ses Session) (json.RawMessage, *jsonrpc.Error) {
	var err error
	if x.terms.modern {
		result, err = modernResult(result, ses.ServerInfo())
	} else {
		result, err = legacyResult(result)
	}
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "the result is not a JSON object: " + err.Error()}
	}
	return result, nil
}

func modernResult(result, server json.RawMessage) (json.RawMessage, error) {
	var meta, last strictjson.Member
	typed, stamped := false, []byte(nil)
	for m, err := range strictjson.Object(result) {
		if err != nil {
			return nil, err
		}
		switch m.Name {
		case "resultType":
			typed = true
		case "_meta":
			meta = m
		}
		last = m
	}
	if meta.Value != nil && meta.Value[0] == '{' {
		var err error
		if stamped, err = strictjson.Set(meta.Value, metaServer, server); err != nil {
			return nil, err
		}
	} else {
		stamped = append(strictjson.AppendString([]byte{'{'}, metaServer), ':')
		stamped = append(append(stamped, server...), '}')
	}
	out := append(make([]byte, 0, len(result)+len(stamped)+64), '{')
	if !typed {
		out = append(out, `"resultType":"complete",`...)
	}
	rest := result[bytes.IndexByte(result, '{')+1:]
	if meta.Value != nil {
		at := len(result) - len(rest)
		out = append(append(out, rest[:meta.Start-at]...), stamped...)
		return append(out, rest[meta.End-at:]...), nil
	}
	out = append(append(out, `"_meta":`...), stamped...)
	if last.Value != nil {
		out = append(out, ',')
	}
	return append(out, rest...), nil
}

// legacyResult takes out what a modern upstream put in for a modern client.
// A walk over the outermost members is what makes any other result cheap,
// however large.
func legacyResult(result json.RawMessage) (json.RawMessage, error) {
	var meta []byte
	typed := false
	for m := range strictjson.Walk(result) {
		switch m.Name {
		case "resultType":
			typed = true
		case "_meta":
			meta = m.Value
		}
	}
	var err error
	if typed {
		if result, err = strictjson.Delete(result, "resultType"); err != nil {
			return nil, err
		}
	}
	if meta == nil || meta[0] != '{' || !bytes.Contains(meta, []byte(metaServer)) {
		return result, nil
	}
	if meta, err = strictjson.Delete(meta, metaServer); err != nil {
		return nil, err
	}
	for range strictjson.Object(meta) {
		return strictjson.Set(result, "_meta", meta)
	}
	return strictjson.Delete(result, "_meta") // there was nothing else in it
}
