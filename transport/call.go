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

// call is a tools/call taken apart.
type call struct {
	name   string
	args   json.RawMessage // an object, or nil
	meta   json.RawMessage // what is left of _meta for the gate, or nil
	token  json.RawMessage // progressToken, or nil
	state  string          // requestState, or ""
	answer json.RawMessage // the reply to our question in inputResponses, or nil
}

// parseCall judges the params of a tools/call. What it refuses never reaches
// the gate.
func parseCall(p params) (call, *jsonrpc.Error) {
	if e := p.unfolded("name", "arguments", "_meta", "inputResponses", "requestState"); e != nil {
		return call{}, e
	}
	var c call
	var e *jsonrpc.Error
	if c.name, e = p.text("name"); e != nil {
		return call{}, e
	}
	if c.name == "" {
		return call{}, invalidParams(`"name" must be the name of a tool`)
	}
	if c.args = p.get("arguments"); c.args != nil && c.args[0] != '{' {
		return call{}, invalidParams(`"arguments" must be an object`)
	}
	if c.state, e = p.text("requestState"); e != nil {
		return call{}, e
	}
	responses, e := p.object("inputResponses")
	if e != nil {
		return call{}, e
	}
	c.answer = responses.get(inputName)
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
	r := gate.Request{
		Name: c.name, Args: c.args, Meta: c.meta,
		// A legacy question precedes its answer, so the reply has to stream.
		CanAsk:   x.terms.asks && (x.terms.modern || x.out.streams()),
		Progress: x.progress(ctx, c.token),
	}
	var out gate.Outcome
	if x.terms.modern && c.state != "" {
		if out, e = x.resume(ctx, ses, c, r); e != nil {
			return nil, e
		}
	} else {
		out = ses.Call(ctx, r)
	}
	for n := 0; out.Ask != nil && n < maxAsks; n++ {
		if x.terms.modern && r.CanAsk {
			return x.inputRequired(*out.Ask, c, ses)
		}
		reply := gate.Reply{Action: gate.NoAnswer}
		if r.CanAsk {
			reply = x.ask(ctx, *out.Ask, c.token)
		}
		out = ses.Resume(ctx, out.Ask.Ticket, reply, r)
	}
	return x.outcome(out, ses)
}

func (x *exchange) outcome(out gate.Outcome, ses Session) (json.RawMessage, *jsonrpc.Error) {
	switch {
	case out.Error != nil:
		return nil, out.Error
	case out.Result != nil:
		return x.complete(out.Result, ses)
	case out.Ask != nil:
		x.c.log.Error("a call kept asking", "ticket", out.Ask.Ticket)
	default:
		x.c.log.Error("a call had no outcome")
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "the call has no outcome"}
}

// resume goes on with the call whose sealed state came back, once it is shown
// to be for this principal, profile, tool and these arguments. Without an
// answer in it the call is put to the gate again, which finds the question
// still open.
func (x *exchange) resume(ctx context.Context, ses Session, c call, r gate.Request) (gate.Outcome, *jsonrpc.Error) {
	st, err := x.c.srv.seal.open(c.state)
	if err != nil {
		return gate.Outcome{}, invalidParams("%v: send the call again without requestState", err)
	}
	if st.Principal != x.c.who.Principal || st.Profile != x.c.who.Profile {
		return gate.Outcome{}, invalidParams("requestState belongs to another principal or profile: send the call again without it")
	}
	if !bytes.Equal(st.Digest, callDigest(c.name, c.args)) {
		return gate.Outcome{}, invalidParams("name or arguments differ from those a person was asked about: " +
			"repeat them unchanged, or send a new call without requestState")
	}
	if c.answer == nil {
		return ses.Call(ctx, r), nil
	}
	reply := readReply(c.answer)
	reply.After = st.age()
	return ses.Resume(ctx, st.Ticket, reply, r), nil
}
