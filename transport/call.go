package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/mcp-gate/mcp-gate/gate"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// maxAsks is how often one legacy call may come to need a person. An approved
// call is asked about again only when what it was bound to has changed since.
const maxAsks = 8

// call is a tools/call, or another request for a server, taken apart.
type call struct {
	method string          // "" for tools/call
	name   string          // of the tool or prompt, the URI of a resource, or ""
	args   json.RawMessage // an object, or nil; what is not a tool's: all of the params but _meta
	meta   json.RawMessage // what is left of _meta for the gate, or nil
	token  json.RawMessage // progressToken, or nil
	state  string          // requestState, or ""
	inputs json.RawMessage // inputResponses, or nil
	answer json.RawMessage // the reply to our question among them, or nil
}

// parseCall judges the params of a tools/call. What it refuses never reaches
// the gate.
func parseCall(p params) (call, *jsonrpc.Error) {
	if e := p.unfolded("name", "arguments"); e != nil {
		return call{}, e
	}
	c, e := parseCommon(p)
	if e != nil {
		return call{}, e
	}
	if c.name, e = p.text("name"); e != nil {
		return call{}, e
	}
	if c.name == "" {
		return call{}, invalidParams(`"name" must be the name of a tool`)
	}
	if c.args = p.get("arguments"); c.args != nil && c.args[0] != '{' {
		return call{}, invalidParams(`"arguments" must be an object`)
	}
	return c, nil
}

// parseUse judges the params of another request for a server, which names its
// object in a member, unless that is "".
func parseUse(m jsonrpc.Message, p params, member string) (call, *jsonrpc.Error) {
	c, e := parseCommon(p)
	if e != nil {
		return call{}, e
	}
	c.method, c.args = m.Method, orEmpty(m.Params)
	if member != "" {
		if e := p.unfolded(member); e != nil {
			return call{}, e
		}
		if c.name, e = p.text(member); e != nil {
			return call{}, e
		}
		if c.name == "" {
			return call{}, invalidParams("%q must be a text that is not empty", member)
		}
	}
	for _, ours := range []string{"_meta", "inputResponses", "requestState"} {
		rest, err := strictjson.Delete(c.args, ours)
		if err != nil {
			return call{}, invalidParams("params: %v", err)
		}
		c.args = rest
	}
	return c, nil
}

// parseCommon reads what all requests for a server may have.
func parseCommon(p params) (call, *jsonrpc.Error) {
	if e := p.unfolded("_meta", "inputResponses", "requestState"); e != nil {
		return call{}, e
	}
	var c call
	var e *jsonrpc.Error
	if c.state, e = p.text("requestState"); e != nil {
		return call{}, e
	}
	responses, e := p.object("inputResponses")
	if e != nil {
		return call{}, e
	}
	c.inputs, c.answer = p.get("inputResponses"), responses.get(inputName)
	meta, e := p.object("_meta")
	if e != nil {
		return call{}, e
	}
	if c.token = meta.get(metaProgress); c.token != nil && !isToken(c.token) {
		return call{}, invalidParams("progressToken must be a string or a number")
	}
	c.meta = passedOn(meta)
	return c, nil
}

func isToken(raw []byte) bool {
	return raw[0] == '"' || raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9'
}

// passedOn builds the _meta object without the transport's own keys.
func passedOn(meta params) json.RawMessage {
	var b []byte
	for _, m := range meta {
		if m.Name == metaProgress || strings.HasPrefix(m.Name, metaPrefix) {
			continue
		}
		sep := byte(',')
		if b == nil {
			sep = '{'
		}
		b = strictjson.AppendString(append(b, sep), m.Name)
		b = append(append(b, ':'), m.Value...)
	}
	if b == nil {
		return nil
	}
	return append(b, '}')
}

func callTool(ctx context.Context, x *exchange, ses Session) (json.RawMessage, *jsonrpc.Error) {
	c, e := parseCall(x.params)
	if e != nil {
		return nil, e
	}
	return x.carry(ctx, c, ses)
}

// use serves another request that goes to a server.
func use(member string) func(context.Context, *exchange, Session) (json.RawMessage, *jsonrpc.Error) {
	return func(ctx context.Context, x *exchange, ses Session) (json.RawMessage, *jsonrpc.Error) {
		c, e := parseUse(x.msg, x.params, member)
		if e != nil {
			return nil, e
		}
		return x.carry(ctx, c, ses)
	}
}

// carry takes a request to the gate and brings back its outcome.
func (x *exchange) carry(ctx context.Context, c call, ses Session) (json.RawMessage, *jsonrpc.Error) {
	if x.terms.modern {
		return x.carryModern(ctx, c, ses)
	}
	r := x.request(ctx, c)
	r.Client = attached{x}
	out := ses.Call(ctx, r)
	for n := 0; out.Ask != nil && n < maxAsks; n++ {
		reply := gate.Reply{Action: gate.NoAnswer}
		if r.CanAsk {
			reply = x.ask(ctx, *out.Ask, c.token)
		}
		out = ses.Resume(ctx, out.Ask.Ticket, reply, r)
	}
	return x.outcome(out, c, ses)
}

func (x *exchange) request(ctx context.Context, c call) gate.Request {
	return gate.Request{
		Method: c.method, Name: c.name, Args: c.args, Meta: c.meta,
		// A legacy question precedes its answer, so the reply has to stream.
		CanAsk:   x.terms.asks && (x.terms.modern || x.out.streams()),
		Progress: x.progress(ctx, c.token),
	}
}

// carryModern serves a request that may have been here before: with the state
// it was given then it goes on where it was.
func (x *exchange) carryModern(ctx context.Context, c call, ses Session) (json.RawMessage, *jsonrpc.Error) {
	r := x.request(ctx, c)
	run := ses.Call
	var f *flight
	if c.state != "" {
		st, e := x.opened(c)
		switch {
		case e != nil:
			return nil, e
		case st.Flight != "":
			var n *need
			if f, n = x.c.parked(st.Flight, st.Round); f == nil {
				return nil, invalidParams("requestState was used before, or what it was for is over: send the request again without it")
			}
			f.board(x, c.token)
			n.answers <- c.inputs
		case c.answer != nil:
			reply := readReply(c.answer)
			reply.After = st.age()
			run = func(ctx context.Context, r gate.Request) gate.Outcome { return ses.Resume(ctx, st.Ticket, reply, r) }
		} // without an answer the gate finds the question still open
	}
	var out gate.Outcome
	if f == nil && !x.terms.asksAnything() && !x.terms.takesTasks() {
		r.Client = attached{x}
		out = x.settle(ctx, r, run(ctx, r), ses)
		return x.modernOutcome(out, c, r, ses)
	}
	if f == nil {
		var e *jsonrpc.Error
		if f, e = x.fly(ctx, c.token, func(ctx context.Context, f *flight) gate.Outcome {
			r.Client, r.Progress = f, f.progress
			return x.settle(ctx, r, run(ctx, r), ses)
		}); e != nil {
			return nil, e
		}
	}
	out, n := f.wait(ctx)
	switch {
	case n != nil:
		return f.needed(x, n, c, ses)
	case f.isTask():
		return f.created(x, ses)
	}
	return x.modernOutcome(out, c, r, ses)
}

// settle answers for a person whom this client cannot ask.
func (x *exchange) settle(ctx context.Context, r gate.Request, out gate.Outcome, ses Session) gate.Outcome {
	for n := 0; out.Ask != nil && !r.CanAsk && n < maxAsks; n++ {
		out = ses.Resume(ctx, out.Ask.Ticket, gate.Reply{Action: gate.NoAnswer}, r)
	}
	return out
}

func (x *exchange) modernOutcome(out gate.Outcome, c call, r gate.Request, ses Session) (json.RawMessage, *jsonrpc.Error) {
	if out.Ask != nil && r.CanAsk {
		return x.inputRequired(*out.Ask, c, ses)
	}
	return x.outcome(out, c, ses)
}

func (x *exchange) outcome(out gate.Outcome, c call, ses Session) (json.RawMessage, *jsonrpc.Error) {
	if c.method != "" {
		out = out.AsError()
	}
	switch {
	case out.Error != nil:
		return nil, x.fittingError(out.Error)
	case out.Result != nil:
		result, err := x.aged(c, out.Result)
		if err != nil {
			return nil, internalError(err)
		}
		if out.Bare && !x.terms.modern {
			return result, nil // as complete would
		}
		return x.complete(result, ses)
	case out.Ask != nil:
		x.c.log.Error("a call kept asking", "ticket", out.Ask.Ticket)
	default:
		x.c.log.Error("a call had no outcome")
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "the call has no outcome"}
}

// fittingError gives an error the code that the client's revision has for it.
func (x *exchange) fittingError(e *jsonrpc.Error) *jsonrpc.Error {
	if x.terms.modern && e.Code == gate.CodeNotFound {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: e.Message, Data: e.Data}
	}
	return e
}

// aged sees to what a modern client wants to know of the age of a resource,
// and to what a legacy one has no name for. What an earlier upstream gave is
// old at once; whatever it is, it is this client's own.
func (x *exchange) aged(c call, result json.RawMessage) (json.RawMessage, error) {
	if c.method != "resources/read" {
		return result, nil
	}
	_, has, err := strictjson.Get(result, "ttlMs")
	switch {
	case err != nil:
		return nil, err
	case x.terms.modern && !has:
		if result, err = strictjson.Set(result, "ttlMs", []byte("0")); err != nil {
			return nil, err
		}
		fallthrough
	case x.terms.modern:
		return strictjson.Set(result, "cacheScope", []byte(`"private"`))
	}
	if result, err = strictjson.Delete(result, "ttlMs"); err != nil {
		return nil, err
	}
	return strictjson.Delete(result, "cacheScope")
}

// opened reads the sealed state that came back with a request, once it is
// shown to be for this principal, profile, name and these arguments.
func (x *exchange) opened(c call) (state, *jsonrpc.Error) {
	st, err := x.c.srv.seal.open(c.state)
	if err != nil {
		return state{}, invalidParams("%v: send the call again without requestState", err)
	}
	if st.Principal != x.c.who.Principal || st.Profile != x.c.who.Profile {
		return state{}, invalidParams("requestState belongs to another principal or profile: send the call again without it")
	}
	if !bytes.Equal(st.Digest, c.digest()) {
		return state{}, invalidParams("name or arguments differ from those a person was asked about: " +
			"repeat them unchanged, or send a new call without requestState")
	}
	return st, nil
}
