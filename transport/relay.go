package transport

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/mcp-gate/mcp-gate/internal/ids"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// maxNotes bounds what waits to go out ahead of an answer; the oldest goes
// first.
const maxNotes = 1000

// notes are notifications on their way into an exchange. Whoever sends next
// sends them first, so that they keep their place.
type notes struct {
	mu      sync.Mutex // guards what follows
	lines   [][]byte
	pumping bool
}

func (n *notes) add(line []byte) (pump bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.lines) >= maxNotes {
		n.lines = n.lines[1:]
	}
	n.lines = append(n.lines, line)
	pump, n.pumping = !n.pumping, true
	return pump
}

func (n *notes) next() []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.lines) == 0 {
		n.pumping = false
		return nil
	}
	line := n.lines[0]
	n.lines = n.lines[1:]
	return line
}

// note sends a notification soon, ahead of the answer, and reports whether it
// can. It does not block.
func (x *exchange) note(method string, params json.RawMessage) bool {
	if !x.out.streams() || x.silent.Load() || !x.c.hold() {
		return false
	}
	if !x.notes.add(jsonrpc.AppendNotification(nil, method, withoutSubscription(params))) {
		x.c.drop()
		return true
	}
	go func() {
		defer x.c.drop()
		x.mu.Lock()
		defer x.mu.Unlock()
		x.flush(context.Background()) // the outlet bounds how long it takes
	}()
	return true
}

// flush sends the notes. Called with mu held.
func (x *exchange) flush(ctx context.Context) {
	for line := x.notes.next(); line != nil; line = x.notes.next() {
		if x.answered || x.silent.Load() {
			continue
		}
		if err := x.out.send(ctx, line); err != nil {
			x.c.log.Debug("message not delivered", "method", x.msg.Method, "err", err)
		}
	}
}

// attached is the client of an exchange that stays with it until the answer: a
// legacy one, or a modern one that cannot be asked anything.
type attached struct{ x *exchange }

func (p attached) Declared() json.RawMessage                       { return orEmpty(p.x.terms.declared) }
func (p attached) Modern() bool                                    { return p.x.terms.modern }
func (p attached) LogLevel() string                                { return p.x.terms.logLevel }
func (p attached) Tell(method string, params json.RawMessage) bool { return p.x.note(method, params) }

// Input puts the requests to the client one after the other: a person sees one
// dialogue at a time.
func (p attached) Input(ctx context.Context, requests json.RawMessage) (json.RawMessage, *jsonrpc.Error) {
	if p.x.terms.modern || !p.x.out.streams() {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the client of this call cannot be asked anything"}
	}
	responses := []byte{'{'}
	for m, err := range strictjson.Object(orEmpty(requests)) {
		if err != nil {
			return nil, internalError(err)
		}
		request, err := parseParams(m.Value)
		if err != nil {
			return nil, internalError(err)
		}
		method, _ := request.text("method")
		result, e := p.x.c.request(ctx, method, p.x.c.fitting(p.x.terms.version, method, request.get("params")), p.x.deliver)
		if e != nil {
			return nil, e
		}
		if len(responses) > 1 {
			responses = append(responses, ',')
		}
		responses = append(strictjson.AppendString(responses, m.Name), ':')
		responses = append(responses, result...)
	}
	return append(responses, '}'), nil
}

// deliver sends a message ahead of the answer, even of one that is cancelled.
func (x *exchange) deliver(ctx context.Context, line []byte) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.flush(ctx)
	if x.answered {
		return errOver
	}
	return x.out.send(ctx, line)
}

// fitting gives the params of an elicitation the form of the client's
// revision: before 2025-11-25 there was no mode, and that revision wants an id
// for a URL.
func (c *conn) fitting(version, method string, params json.RawMessage) json.RawMessage {
	if method != "elicitation/create" {
		return params
	}
	p, err := parseParams(params)
	if err != nil {
		return params
	}
	mode, _ := p.text("mode")
	out := params
	switch {
	case mode == "form" && version < version2025:
		out, err = strictjson.Delete(params, "mode")
	case mode == "url" && p.get("elicitationId") == nil:
		var id string
		if id, err = ids.New("e_", c.srv.o.Rand); err == nil {
			out, err = strictjson.Set(params, "elicitationId", strictjson.AppendString(nil, id))
		}
	}
	if err != nil {
		return params
	}
	return out
}

// request sends a server's request to a legacy client over send and waits for
// the answer, which is passed on as it is. A request that nobody waits for any
// more is withdrawn.
func (c *conn) request(ctx context.Context, method string, params json.RawMessage, send func(context.Context, []byte) error) (json.RawMessage, *jsonrpc.Error) {
	gone := &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "the client is gone"}
	id, answer, ok := c.asked.add()
	if !ok {
		return nil, gone
	}
	defer c.asked.remove(id)
	if err := send(ctx, jsonrpc.AppendRequest(nil, strictjson.AppendString(nil, id), method, params)); err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "the client was not reached: " + err.Error()}
	}
	select {
	case m, ok := <-answer:
		switch {
		case !ok:
			return nil, gone
		case m.Error != nil:
			return nil, jsonrpc.ParseError(m.Error)
		case m.Result[0] != '{':
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "the client answered with what is no object"}
		}
		return m.Result, nil
	case <-ctx.Done():
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), unwind)
		defer stop()
		withdrawal := jsonrpc.AppendNotification(nil, "notifications/cancelled", withdrawn(id, "nobody waits for the answer any more"))
		if err := send(ctx, withdrawal); err != nil {
			c.log.Debug("request not withdrawn", "err", err)
		}
		return nil, internalError(context.Canceled)
	}
}
