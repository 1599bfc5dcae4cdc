// Package jsonrpc reads and writes JSON-RPC 2.0 messages as MCP uses them,
// and frames them as lines.
//
// Both sides of the gate share it: what arrives from a client and what
// arrives from an upstream is taken apart into raw members ([Parse]) and put
// together again from raw members ([AppendRequest], [AppendResult], ...), so
// that arguments and results keep their bytes. It knows no MCP method and
// keeps no table of requests in flight.
package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// Codes of the JSON-RPC 2.0 specification, section 5.1.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
)

// Message is one JSON-RPC message taken apart. Every raw member is a part of
// the parsed bytes; an absent one is nil.
type Message struct {
	ID     json.RawMessage // as it was spelled: "1" and 1 are different ids
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  json.RawMessage
}

// IsRequest reports whether the message wants an answer.
func (m Message) IsRequest() bool { return m.Method != "" && m.ID != nil }

// IsNotification reports whether the message wants none.
func (m Message) IsNotification() bool { return m.Method != "" && m.ID == nil }

// IsResponse reports whether the message answers a request.
func (m Message) IsResponse() bool { return m.Method == "" }

// ErrBatch is returned for an array of messages: MCP has had none since
// 2025-06-18, and forwarding one would carry calls past the policy.
var ErrBatch = errors.New("a batch of messages is not accepted: send each message on its own")

// An InvalidError says why bytes are not an acceptable message. ID is the
// message's id where it could be read, so that the sender can be answered.
type InvalidError struct {
	Code int // CodeParse or CodeInvalidRequest
	ID   json.RawMessage
	Err  error
}

func (e *InvalidError) Error() string { return e.Err.Error() }
func (e *InvalidError) Unwrap() error { return e.Err }

var envelope = []string{"jsonrpc", "id", "method", "params", "result", "error"}

// Parse takes one message apart. It refuses with an [*InvalidError] what is
// not strict JSON, what is not JSON-RPC 2.0, and member names that differ
// from the envelope's only by case. Unknown members are ignored. In an answer,
// and nowhere else, a surrogate without its other half becomes U+FFFD: programs
// that cut texts at so many UTF-16 units write such halves, and one of them would
// cost a whole result or list.
func Parse(b []byte) (Message, error) {
	if first := bytes.TrimLeft(b, " \t\r\n"); len(first) > 0 && first[0] == '[' {
		return Message{}, &InvalidError{Code: CodeInvalidRequest, Err: ErrBatch}
	}
	var m Message
	var version, method []byte
	var folded error
	for member, err := range strictjson.Object(b) {
		if err != nil {
			if whole, ok := pairSurrogates(b); ok {
				if m, err := Parse(whole); err == nil && m.IsResponse() {
					return m, nil
				}
			}
			code := CodeParse
			if strictjson.Check(b) == nil {
				code = CodeInvalidRequest // it is JSON, but no object
			}
			return Message{}, &InvalidError{Code: code, Err: err}
		}
		switch member.Name {
		case "jsonrpc":
			version = member.Value
		case "id":
			m.ID = member.Value
		case "method":
			method = member.Value
		case "params":
			m.Params = member.Value
		case "result":
			m.Result = member.Value
		case "error":
			m.Error = member.Value
		default:
			if like, ok := strictjson.Folded(member.Name, envelope...); ok {
				folded = fmt.Errorf("member %q is spelled like %q but is not it", member.Name, like)
			}
		}
	}
	if folded == nil {
		folded = m.check(version, method)
	}
	if folded != nil {
		return Message{}, &InvalidError{Code: CodeInvalidRequest, ID: validID(m.ID), Err: folded}
	}
	return m, nil
}

// pairSurrogates returns a copy of b in which each escaped surrogate without its
// other half is \ufffd, and whether there was one.
func pairSurrogates(b []byte) (whole []byte, ok bool) {
	half := func(at int) (low, is bool) { // whether an escaped surrogate is at
		if at+6 > len(b) || b[at] != '\\' || b[at+1] != 'u' || b[at+2]|0x20 != 'd' {
			return false, false
		}
		switch b[at+3] | 0x20 {
		case '8', '9', 'a', 'b':
			return false, true
		case 'c', 'd', 'e', 'f':
			return true, true
		}
		return false, false
	}
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' {
			continue
		}
		low, is := half(i)
		if !is {
			i++ // what is escaped is no beginning of another one
			continue
		}
		if next, follows := half(i + 6); !low && follows && next {
			i += 11
			continue
		}
		if whole == nil {
			whole = bytes.Clone(b)
		}
		copy(whole[i:], `\ufffd`)
		i += 5
	}
	return whole, whole != nil
}

// check holds the rules between members, and decodes the method.
func (m *Message) check(version, method []byte) error {
	if string(version) != `"2.0"` {
		return errors.New(`"jsonrpc" must be "2.0"`)
	}
	if m.ID != nil && validID(m.ID) == nil && string(m.ID) != "null" {
		return errors.New(`"id" must be a string or a number`)
	}
	if method != nil {
		if m.Method = methodOf(method); m.Method == "" {
			return errors.New(`"method" must be a string that is not empty`)
		}
		if m.Result != nil || m.Error != nil {
			return errors.New(`a message has either "method" or "result" or "error"`)
		}
		if m.ID != nil && string(m.ID) == "null" {
			return errors.New(`"id" must not be null in a request`)
		}
		if m.Params != nil && m.Params[0] != '{' {
			if m.Params[0] != 'n' {
				return errors.New(`"params" must be an object`)
			}
			m.Params = nil // null counts as absent
		}
		return nil
	}
	if (m.Result == nil) == (m.Error == nil) {
		return errors.New(`a message has either "method" or "result" or "error"`)
	}
	if m.ID == nil {
		return errors.New(`an answer must carry the "id" of its request`)
	}
	if m.Error != nil && m.Error[0] != '{' {
		return errors.New(`"error" must be an object`)
	}
	return nil
}

// usual are the methods that most messages have, so that they cost no
// allocation.
var usual = map[string]string{"tools/call": "tools/call", "notifications/progress": "notifications/progress", "ping": "ping"}

// methodOf decodes a method's name, "" where it is none.
func methodOf(raw []byte) string {
	if raw[0] != '"' {
		return ""
	}
	inside := raw[1 : len(raw)-1]
	if m, ok := usual[string(inside)]; ok {
		return m
	}
	if bytes.IndexByte(raw, '\\') < 0 { // it has been checked
		return string(inside)
	}
	var s string
	_ = json.Unmarshal(raw, &s) // what is no string stays empty
	return s
}

func validID(id json.RawMessage) json.RawMessage {
	if len(id) > 0 && (id[0] == '"' || id[0] == '-' || (id[0] >= '0' && id[0] <= '9')) {
		return id
	}
	return nil
}

// Error is a JSON-RPC error. Data is kept as raw bytes and may be absent. It
// is an error in Go's sense too, so a layer can return it.
type Error struct {
	Code    int64
	Message string
	Data    json.RawMessage
	raw     json.RawMessage // as it came from a peer
}

func (e *Error) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

// Raw returns the error object: the bytes it came in, where it came from a
// peer, else the members encoded.
func (e *Error) Raw() json.RawMessage {
	if e.raw != nil {
		return e.raw
	}
	b := fmt.Appendf(nil, `{"code":%d,"message":`, e.Code)
	b = strictjson.AppendString(b, e.Message)
	if e.Data != nil {
		b = append(b, `,"data":`...)
		b = append(b, e.Data...)
	}
	return append(b, '}')
}

// ParseError reads the raw error member of a [Message]. A code that is no
// integer reads as CodeInternal; the raw bytes are kept in any case.
func ParseError(raw json.RawMessage) *Error {
	e := &Error{Code: CodeInternal, raw: raw}
	for m, err := range strictjson.Object(raw) {
		if err != nil {
			break
		}
		switch m.Name {
		case "code":
			if json.Unmarshal(m.Value, &e.Code) != nil {
				e.Code = CodeInternal
			}
		case "message":
			_ = json.Unmarshal(m.Value, &e.Message) // a message that is no text stays empty
		case "data":
			e.Data = m.Value
		}
	}
	return e
}

// AppendRequest appends a request as one line without its line end. A nil
// params is left out. Line breaks between the tokens of params become spaces:
// the framing of stdio allows none.
func AppendRequest(dst []byte, id json.RawMessage, method string, params json.RawMessage) []byte {
	dst = slices.Grow(dst, len(id)+len(method)+len(params)+64)
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	return appendMethod(dst, method, params)
}

// AppendNotification appends a notification as one line; see [AppendRequest].
func AppendNotification(dst []byte, method string, params json.RawMessage) []byte {
	return appendMethod(append(dst, `{"jsonrpc":"2.0"`...), method, params)
}

func appendMethod(dst []byte, method string, params json.RawMessage) []byte {
	dst = append(dst, `,"method":`...)
	dst = strictjson.AppendString(dst, method)
	if params != nil {
		dst = append(dst, `,"params":`...)
		dst = appendOneLine(dst, params)
	}
	return append(dst, '}')
}

// AppendResult appends an answer as one line; see [AppendRequest].
func AppendResult(dst []byte, id, result json.RawMessage) []byte {
	return append(appendOneLine(appendResultHead(dst, id), result), '}')
}

func appendResultHead(dst []byte, id json.RawMessage) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	return append(dst, `,"result":`...)
}

// Line is a message as one line, in parts: a large result need not be copied
// to be sent.
type Line [3][]byte

// Len is how many bytes the line has, without its line end.
func (l Line) Len() int { return len(l[0]) + len(l[1]) + len(l[2]) }

// largeResult is the size from which a result is a part by itself.
const largeResult = 64 << 10

// Result makes an answer; see [AppendRequest].
func Result(id, result json.RawMessage) Line {
	if len(result) < largeResult || bytes.IndexByte(result, '\n') >= 0 || bytes.IndexByte(result, '\r') >= 0 {
		return Line{AppendResult(make([]byte, 0, len(result)+len(id)+40), id, result)}
	}
	return Line{appendResultHead(nil, id), result, []byte{'}'}}
}

// AppendError appends an error answer as one line. A nil id becomes null, as
// JSON-RPC asks for where the id could not be read.
func AppendError(dst []byte, id json.RawMessage, e *Error) []byte {
	if id == nil {
		id = json.RawMessage("null")
	}
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"error":`...)
	dst = appendOneLine(dst, e.Raw())
	return append(dst, '}')
}

// appendOneLine copies valid JSON, turning the line breaks that can only
// stand between its tokens into spaces.
func appendOneLine(dst, raw []byte) []byte {
	from := len(dst)
	dst = append(dst, raw...)
	if bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(raw, '\r') < 0 {
		return dst
	}
	for i := from; i < len(dst); i++ {
		if dst[i] == '\n' || dst[i] == '\r' {
			dst[i] = ' '
		}
	}
	return dst
}
