package gate

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// flight is a call in progress. It travels in the context of the call, where it is
// found again when the server sends something.
type flight struct {
	s      *Session
	c      *call
	server string

	// What follows is guarded by relay.mu.
	flies        bool
	newer, older *flight         // of those that fly
	over         context.Context // ends with it; nil until somebody needs to know
	end          context.CancelFunc
}

type flightKey struct{}

// Terms tell a [Caller] about the client of a call.
type Terms struct {
	Capabilities json.RawMessage // what the client declared, for a modern server; "{}" where there is no client
	LogLevel     string          // the least level that the client wants, for a modern server; "" is no logs
	Session      *Session        // whose call it is; nil for the gate's own
	Launch       string          // Server.Launch of the server that it was judged for; "" for any
}

// TermsOf returns the terms of the call that a Caller was given ctx for.
func TermsOf(ctx context.Context) Terms {
	f, _ := ctx.Value(flightKey{}).(*flight)
	switch {
	case f == nil:
		return Terms{Capabilities: json.RawMessage("{}")}
	case f.c.client == nil:
		return Terms{json.RawMessage("{}"), "", f.s, f.c.launch}
	case f.c.client.Modern():
		return Terms{f.c.client.Declared(), f.c.client.LogLevel(), f.s, f.c.launch}
	}
	return Terms{f.c.client.Declared(), f.s.side.wanted(), f.s, f.c.launch}
}

// maxInputRounds is how often one call may ask its client for more input. The client
// of mcp-go has the same bound.
const maxInputRounds = 10

// send sends a call to its server and returns the result. A modern server that needs
// input of the client first says so in its result; then the client is asked and the
// call is sent again with the answers.
func (s *Session) send(ctx context.Context, c *call) (json.RawMessage, error) {
	if c.local != nil {
		return c.local(ctx)
	}
	f := &flight{s: s, c: c, server: c.entry.ID.Server}
	s.g.relay.enter(f)
	defer s.g.relay.leave(f)
	defer s.leaveIfEnded(f.server)
	ctx = context.WithValue(ctx, flightKey{}, f)
	params := c.params()
	if f.runsAsTask() {
		return f.asTask(ctx, params)
	}
	for range maxInputRounds {
		raw, err := s.g.opts.Caller.Call(ctx, f.server, c.protocolMethod(), params, s.tellProgress(c))
		if err != nil {
			requests, ok := s.mustOpen(f, err)
			if !ok {
				return nil, translated(err, f)
			}
			if _, e := f.input(ctx, requests); e != nil {
				return nil, e
			}
			continue // the client learns what came of it by trying again
		}
		switch kind := c.resultType(raw); {
		case kind == "task" && !c.isAside():
			return f.awaited(ctx, raw)
		case kind == "input_required":
			if params, err = f.answered(ctx, raw); err != nil {
				return nil, err
			}
		default:
			return f.whole(raw)
		}
	}
	return nil, fmt.Errorf("server %s still asked for more input after %d rounds", f.server, maxInputRounds)
}

// whole returns a result that is one: to a modern client any other type would say that
// the server asks it for something, which nobody judged.
func (f *flight) whole(raw json.RawMessage) (json.RawMessage, error) {
	if kind := f.c.resultType(raw); kind != "" && kind != "complete" {
		return nil, fmt.Errorf("server %s answered %s with a result of the unknown type %.50q", f.server, f.c.protocolMethod(), f.words(kind))
	}
	return raw, nil
}

// protocolMethod is the MCP method of a call. Policy and audit know a call of
// something other than a tool by its method, in the place of a tool's name.
func (c *call) protocolMethod() string {
	if c.isAside() {
		return c.entry.ID.Tool
	}
	return "tools/call"
}

// isAside reports whether a call is of something other than a tool: a resource, a
// prompt, or a message of a server.
func (c *call) isAside() bool {
	if c.entry.Raw != nil {
		return false
	}
	_, ok := carries[c.entry.ID.Tool]
	return ok
}

// resultType is what a modern server says that a result is, "" where it does not.
func (c *call) resultType(result json.RawMessage) string {
	kind := c.read(result).kind
	if len(kind) == 0 || kind[0] != '"' || result[0] != '{' {
		return ""
	}
	return string(strictjson.Unquote(nil, kind))
}

// answered asks the client for what a modern server needs, and returns the params
// with which the call is sent again.
func (f *flight) answered(ctx context.Context, result json.RawMessage) (json.RawMessage, error) {
	requests, _, err := strictjson.Get(result, "inputRequests")
	if err != nil {
		return nil, err
	}
	state, _, _ := strictjson.Get(result, "requestState")
	var responses json.RawMessage
	if f.c.client == nil {
		return nil, f.cannot("input")
	}
	if requests != nil {
		if requests, err = f.admitted(requests); err != nil {
			return nil, err
		}
	}
	responses, e := f.c.client.Input(ctx, requests)
	if e != nil {
		return nil, e
	}
	params := f.c.params()
	for _, m := range []member{{"inputResponses", responses}, {"requestState", state}} {
		if len(m.raw) == 0 {
			continue
		}
		if params, err = strictjson.Set(params, m.name, m.raw); err != nil {
			return nil, err
		}
	}
	return params, nil
}

// input judges requests of the server and puts them to the client.
func (f *flight) input(ctx context.Context, requests json.RawMessage) (json.RawMessage, *jsonrpc.Error) {
	requests, err := f.admitted(requests)
	if err != nil {
		return nil, callError(err)
	}
	return f.c.client.Input(ctx, requests)
}

// admitted judges the requests of a server and returns them as the client gets them.
// It is an error if one of them may not go to the client.
func (f *flight) admitted(requests json.RawMessage) (json.RawMessage, error) {
	out := []byte{'{'}
	for m, err := range strictjson.Object(requests) {
		if err != nil {
			return nil, fmt.Errorf("inputRequests of server %s: %w", f.server, err)
		}
		method := stringOf(m.Value, "method")
		params, _, err := strictjson.Get(m.Value, "params")
		if err != nil {
			return nil, fmt.Errorf("inputRequests of server %s: %w", f.server, err)
		}
		given, e := f.s.admit(f.c.client.Declared(), f.server, method, params)
		if e != nil {
			return nil, e
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = strictjson.AppendString(out, m.Name)
		out = append(append(out, ':'), appendRequest(nil, method, given)...)
	}
	return append(out, '}'), nil
}

func appendRequest(b []byte, method string, params json.RawMessage) []byte {
	b = strictjson.AppendString(append(b, `{"method":`...), method)
	if params != nil {
		b = append(append(b, `,"params":`...), params...)
	}
	return append(b, '}')
}

// cannot is the error for a request that the client does not offer to answer.
func (f *flight) cannot(method string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the client of this call does not offer " + method}
}
