package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// An outlet carries the messages that belong to one request to its client.
// The exchange calls it one message at a time.
type outlet interface {
	// streams reports whether messages may precede the answer.
	streams() bool
	// send carries a message that precedes the answer.
	send(ctx context.Context, line []byte) error
	// answer carries the answer; failed is the error in it, or nil.
	answer(ctx context.Context, line jsonrpc.Line, failed *jsonrpc.Error) error
}

// exchange is one request being served.
type exchange struct {
	c      *conn
	msg    jsonrpc.Message
	params params
	terms  terms
	out    outlet
	key    string                                        // names it in c.ids
	check  func(context.Context, Session) *jsonrpc.Error // what a carrier has to say before it is served, or nil
	cancel context.CancelFunc
	silent atomic.Bool // the client cancelled: nothing more is sent

	mu       sync.Mutex // held while out is used, so that the answer is last
	answered bool

	notes notes // what goes out ahead of the next message
}

// begin admits a request. It must be called in the order in which requests
// arrived, so that a cancellation finds the one it means; run then serves it.
// The context it returns is what run takes.
func (c *conn) begin(ctx context.Context, m jsonrpc.Message, p params, t terms, out outlet) (*exchange, context.Context, *jsonrpc.Error) {
	s := c.srv
	if n := s.inFlight.Add(1); n > int64(s.o.MaxInFlight) {
		s.inFlight.Add(-1)
		return nil, nil, &jsonrpc.Error{Code: jsonrpc.CodeInternal,
			Message: fmt.Sprintf("%d requests are being served, which is the limit: wait for answers, then send it again", s.o.MaxInFlight)}
	}
	ctx, cancel := context.WithCancel(ctx)
	x := &exchange{c: c, msg: m, params: p, terms: t, out: out, cancel: cancel}
	if e := c.admit(x); e != nil {
		cancel()
		s.inFlight.Add(-1)
		return nil, nil, e
	}
	return x, ctx, nil
}

// run serves the request and sends its answer. The answer is sent under
// lasting, which outlives ctx: a call that was cut short by a stop still says so.
func (x *exchange) run(ctx, lasting context.Context) {
	defer x.c.srv.inFlight.Add(-1)
	defer x.c.leave(x)
	defer x.cancel()
	result, failed := x.serve(ctx)
	var line jsonrpc.Line
	if failed != nil {
		line[0] = jsonrpc.AppendError(nil, x.msg.ID, failed)
	} else {
		line = jsonrpc.Result(x.msg.ID, result)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.flush(lasting)
	x.answered = true
	if x.silent.Load() {
		return
	}
	x.c.release(x) // the client may use the id again once it sees the answer
	if err := x.out.answer(lasting, line, failed); err != nil {
		x.c.log.Debug("answer not delivered", "method", x.msg.Method, "err", err)
	}
}

// serve finds the method and runs it. A panic costs its own request only.
func (x *exchange) serve(ctx context.Context) (result json.RawMessage, failed *jsonrpc.Error) {
	defer x.c.caught(x.msg.Method, func(e *jsonrpc.Error) { result, failed = nil, e })
	m, ok := methods[x.msg.Method]
	if !ok || !m.in(x.terms.modern) {
		return nil, notFound(x.msg.Method)
	}
	if m.bare != nil {
		return m.bare(ctx, x)
	}
	ses, err := x.c.session(ctx, x.terms.client)
	if err != nil {
		return nil, internalError(err)
	}
	if m.needs != "" && !x.c.declares(ses, m.needs) {
		return nil, notFound(x.msg.Method)
	}
	if x.check != nil {
		if e := x.check(ctx, ses); e != nil {
			return nil, e
		}
	}
	return m.serve(ctx, x, ses)
}

// caught hands what takes the place of an outcome to failed after a panic. It
// is to be deferred by every goroutine that a Gate or a Session works on.
func (c *conn) caught(method string, failed func(*jsonrpc.Error)) {
	if p := recover(); p != nil {
		c.log.Error("panic while serving a request", "method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		failed(&jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "internal error"})
	}
}

func notFound(method string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found: " + method}
}

func internalError(err error) *jsonrpc.Error {
	var e *jsonrpc.Error
	if errors.As(err, &e) {
		return e
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: err.Error()}
}

func declares(ses Session, capability string) bool {
	raw, ok, err := strictjson.Get(ses.Capabilities(), capability)
	return err == nil && ok && string(raw) != "null"
}

// send carries a message of ours before the answer. It drops the message once
// the answer left or the client cancelled, and reports whether it left.
func (x *exchange) send(ctx context.Context, line []byte) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.flush(ctx)
	if x.answered || x.silent.Load() {
		return false
	}
	if err := x.out.send(ctx, line); err != nil {
		x.c.log.Log(ctx, slog.LevelDebug, "message not delivered", "method", x.msg.Method, "err", err)
		return false
	}
	return true
}

// progress returns the function that passes an upstream's progress on under
// the client's own token, or nil where the client asked for none.
func (x *exchange) progress(ctx context.Context, token json.RawMessage) func(json.RawMessage) {
	if token == nil || !x.out.streams() {
		return nil
	}
	return func(params json.RawMessage) {
		// Clients take a progress that is no number for a fault of the connection.
		if n, ok, _ := strictjson.Get(params, "progress"); !ok || n[0] != '-' && (n[0] < '0' || n[0] > '9') {
			x.c.log.Debug("progress dropped", "err", "it is no number")
			return
		}
		params, err := strictjson.Set(params, metaProgress, token)
		if err != nil {
			x.c.log.Warn("progress dropped", "err", err)
			return
		}
		x.send(ctx, jsonrpc.AppendNotification(nil, "notifications/progress", params))
	}
}
