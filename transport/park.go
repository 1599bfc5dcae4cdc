package transport

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/mcp-gate/mcp-gate/gate"
	"github.com/mcp-gate/mcp-gate/internal/ids"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// flight is a modern request that outlives the message which brought it. When
// its server needs something of the client, the message is answered with what
// is needed and the flight is parked, whatever it holds upstream included; the
// client sends the request again with the answers, and the flight goes on.
// It is in one place at a time: in the hands of one exchange, or parked.
type flight struct {
	c      *conn
	id     string
	size   int64 // of its params
	cancel context.CancelFunc
	out    chan gate.Outcome // the end; capacity 1
	needs  chan *need        // what is to be put to the client
	begun  chan struct{}     // closed when it is a task

	mu     sync.Mutex  // guards what follows
	expire *time.Timer // ends a flight whose client does not come back
	x      *exchange   // who waits for it; nil while it is parked
	tell   func(json.RawMessage)
	terms  terms
	open   *need // what the client was asked
	round  int
	task   *task // once the client asks for the outcome; else nil
}

// need is one set of requests for the client.
type need struct {
	requests json.RawMessage      // nil: the request is only to be sent again
	given    json.RawMessage      // of a task: the answers so far
	answers  chan json.RawMessage // capacity 1
}

// asksAnything reports whether a client declared anything that servers ask for.
func (t terms) asksAnything() bool {
	p, err := parseParams(t.declared)
	if err != nil {
		return false
	}
	return p.get("elicitation") != nil || p.get("sampling") != nil || p.get("roots") != nil
}

// fly starts a request. Run gets the client it is for and returns when there
// is an outcome; its context ends when the flight is given up.
func (x *exchange) fly(ctx context.Context, token json.RawMessage, run func(context.Context, *flight) gate.Outcome) (*flight, *jsonrpc.Error) {
	id, err := ids.New("f_", x.c.srv.o.Rand)
	if err != nil {
		return nil, internalError(err)
	}
	f := &flight{c: x.c, id: id, size: int64(len(x.msg.Params)), out: make(chan gate.Outcome, 1), needs: make(chan *need), begun: make(chan struct{})}
	ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	f.board(x, token)
	f.expire = time.AfterFunc(x.c.srv.o.Park, f.cancel)
	f.expire.Stop()
	if !x.c.admitFlight(f) {
		f.cancel()
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "too many requests wait for this client's answers, or the session is over"}
	}
	go func() {
		defer x.c.drop()
		var out gate.Outcome
		defer func() {
			if !f.keep(out) {
				f.out <- out
				x.c.endFlight(f)
			}
		}()
		defer x.c.caught(x.msg.Method, func(e *jsonrpc.Error) { out = gate.Outcome{Error: e} })
		out = run(ctx, f)
	}()
	return f, nil
}

func (c *conn) admitFlight(f *flight) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.srv.o
	if c.closed || len(c.flights) >= o.PerClient || len(c.flights) > 0 && c.aloft+f.size > o.ClientBytes {
		return false
	}
	c.flights[f.id] = f
	c.aloft += f.size
	c.running++
	return true
}

func (c *conn) endFlight(f *flight) {
	f.cancel()
	f.mu.Lock()
	f.expire.Stop()
	f.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flights[f.id] == f { // a task's end may be asked for twice
		delete(c.flights, f.id)
		c.aloft -= f.size
	}
}

// board has the flight's messages go to x from now on.
func (f *flight) board(x *exchange, token json.RawMessage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.x, f.terms = x, x.terms
	f.tell = x.progress(context.Background(), token)
}

// wait returns the outcome, or what the client is needed for: then the flight
// is parked. When it is a task there is neither. When ctx ends it is given up.
func (f *flight) wait(ctx context.Context) (gate.Outcome, *need) {
	select {
	case out := <-f.out:
		return out, nil
	case <-f.begun:
		return gate.Outcome{}, nil
	case n := <-f.needs:
		f.mu.Lock()
		defer f.mu.Unlock()
		f.x, f.tell, f.open = nil, nil, n
		f.round++
		f.expire.Reset(f.c.srv.o.Park)
		return gate.Outcome{}, n
	case <-ctx.Done():
		f.cancel()
		select {
		case out := <-f.out:
			return out, nil
		case <-f.begun:
			return gate.Outcome{}, nil
		}
	}
}

func (f *flight) isTask() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.task != nil
}

// parked returns the flight that waits under id since the given round, in the
// hands of the caller; nil when there is none.
func (c *conn) parked(id string, round int) (*flight, *need) {
	c.mu.Lock()
	f := c.flights[id]
	c.mu.Unlock()
	if f == nil {
		return nil, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.open
	if n == nil || f.task != nil || f.round != round || !f.expire.Stop() {
		return nil, nil
	}
	f.open = nil
	return f, n
}

func (f *flight) Declared() json.RawMessage {
	f.mu.Lock()
	defer f.mu.Unlock()
	return orEmpty(f.terms.declared)
}

func (f *flight) Modern() bool { return true }

func (f *flight) LogLevel() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.terms.logLevel
}

// Input parks the flight with what the client is asked.
func (f *flight) Input(ctx context.Context, requests json.RawMessage) (json.RawMessage, *jsonrpc.Error) {
	n := &need{requests: requests, answers: make(chan json.RawMessage, 1)}
	if !f.ask(n) {
		select {
		case f.needs <- n:
		case <-ctx.Done():
			return nil, internalError(context.Canceled)
		}
	}
	select {
	case answers := <-n.answers:
		return answers, nil
	case <-ctx.Done():
		return nil, internalError(context.Canceled)
	}
}

func (f *flight) Tell(method string, params json.RawMessage) bool {
	f.mu.Lock()
	x := f.x
	f.mu.Unlock()
	return x != nil && x.note(method, params)
}

// progress passes progress on to whoever waits now. While nobody does it is
// lost, as everything older than the next report is.
func (f *flight) progress(params json.RawMessage) {
	f.mu.Lock()
	tell := f.tell
	f.mu.Unlock()
	if tell != nil {
		tell(params)
	}
}

// needed answers a request with what the client is needed for.
func (f *flight) needed(x *exchange, n *need, c call, ses Session) (json.RawMessage, *jsonrpc.Error) {
	f.mu.Lock()
	round := f.round
	f.mu.Unlock()
	sealed, e := x.sealed(state{Flight: f.id, Round: round, Expires: time.Now().Add(x.c.srv.o.Park).UnixMilli()}, c)
	if e != nil {
		return nil, e
	}
	b := []byte(`{"resultType":"input_required"`)
	if n.requests != nil {
		b = append(append(b, `,"inputRequests":`...), n.requests...)
	}
	b = append(b, `,"requestState":`...)
	b = append(strictjson.AppendString(b, sealed), '}')
	return x.complete(b, ses)
}
