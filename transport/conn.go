package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/mcp-gate/mcp-gate/gate"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// errClosed is the end of whatever still ran when a conn closed.
var errClosed = errors.New("the connection is closed")

// conn is what lasts between the messages of one client: a stdio process, a
// legacy HTTP session, or all modern HTTP requests with one token and profile.
type conn struct {
	srv     *Server
	who     gate.Identity // immutable but for Client, which is set before Open
	log     *slog.Logger
	stop    func()        // closes stopped; any number of times
	stopped chan struct{} // closed when streams without an end are to end
	begun   func()        // closes ready; any number of times
	ready   chan struct{} // closed when the legacy client said that it is ready
	ended   chan struct{} // closed once the conn and its session are, and nothing of it runs any more
	asked   asked         // requests of ours that wait for the client's answer
	told    atomic.Bool   // the legacy client knows that the list has changed

	mu       sync.Mutex // guards what follows; never held while a Session works
	legacy   *terms     // what the handshake settled; nil before it
	ses      Session
	declared map[string]bool // of ses: which capabilities it has, as far as that was looked up
	opening  *opening        // the attempt that is under way, or nil
	closed   bool
	private  bool                 // ids of different requests may be equal: no cancelling by id
	running  int                  // requests, parked ones too, and what else keeps the session open
	serving  int                  // requests that were admitted and have not left
	bytes    int64                // of their params
	count    int                  // requests ever admitted
	ids      map[string]*exchange // those that can be cancelled
	flights  map[string]*flight   // modern requests that may wait for their client to come back, by id
	aloft    int64                // bytes of the params of flights
	rooting  bool                 // servers are being told of roots
	reroot   bool                 // they are to be told once more
}

// opening is one attempt to open the session, which all who wait share.
type opening struct {
	done   chan struct{}
	cancel context.CancelFunc
	ses    Session
	err    error
}

func (s *Server) newConn(who gate.Identity) *conn {
	stopped, ready := make(chan struct{}), make(chan struct{})
	return &conn{
		srv: s, who: who, log: s.log.With("session", who.SessionID),
		ids: make(map[string]*exchange), flights: make(map[string]*flight),
		stopped: stopped, stop: sync.OnceFunc(func() { close(stopped) }),
		ready: ready, begun: sync.OnceFunc(func() { close(ready) }), ended: make(chan struct{}),
	}
}

// session returns the session, opening it if this is the first need of it.
// The label names the client in logs and audit lines.
func (c *conn) session(ctx context.Context, label string) (Session, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, errClosed
	}
	if c.ses != nil {
		defer c.mu.Unlock()
		return c.ses, nil
	}
	o := c.opening
	if o == nil {
		// Not under ctx alone: others may come to wait for this attempt.
		octx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		o = &opening{done: make(chan struct{}), cancel: cancel}
		c.opening = o
		if c.who.Client == "" {
			c.who.Client = label
		}
		c.running++
		go c.open(octx, o, c.who)
	}
	c.mu.Unlock()
	select {
	case <-o.done:
		return o.ses, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// declares reports whether the session has a capability. It is asked with each
// request, so the answer is kept.
func (c *conn) declares(ses Session, capability string) bool {
	c.mu.Lock()
	has, known := c.declared[capability]
	c.mu.Unlock()
	if known {
		return has
	}
	has = declares(ses, capability)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.declared == nil {
		c.declared = map[string]bool{}
	}
	c.declared[capability] = has
	return has
}

func (c *conn) open(ctx context.Context, o *opening, who gate.Identity) {
	defer c.drop()
	defer o.cancel()
	defer close(o.done)
	ses, err := c.openSession(ctx, who)
	c.mu.Lock()
	c.opening = nil
	late := c.closed && err == nil
	if late {
		o.err = errClosed
	} else if o.ses, o.err = ses, err; err == nil {
		c.ses = ses
	}
	c.mu.Unlock()
	if late {
		ses.Close()
	}
}

func (c *conn) openSession(ctx context.Context, who gate.Identity) (ses Session, err error) {
	defer c.caught("", func(e *jsonrpc.Error) { ses, err = nil, e })
	if ses, err = c.srv.gate.Open(ctx, who); err != nil {
		return nil, fmt.Errorf("open a session: %w", err)
	}
	return ses, nil
}

// close cancels what runs, ends the wait for every answer, and closes the
// session once the last request has left it: then c.ended is closed. It may be
// called more than once.
func (c *conn) close() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	for _, x := range c.ids {
		x.cancel()
	}
	for _, f := range c.flights {
		f.cancel()
	}
	o, idle := c.opening, c.running == 0
	c.mu.Unlock()
	c.stop()
	c.asked.close()
	if o != nil {
		o.cancel()
	}
	if idle {
		c.endSession()
	}
}

// endSession ends the last of a conn that is closed. It is called once.
func (c *conn) endSession() {
	c.mu.Lock()
	ses := c.ses
	c.ses = nil
	c.mu.Unlock()
	if ses != nil {
		ses.Close()
	}
	close(c.ended)
}

// admit takes a request in, unless its id is in use.
func (c *conn) admit(x *exchange) *jsonrpc.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return internalError(errClosed)
	}
	size := int64(len(x.msg.Params))
	if o := c.srv.o; c.serving >= o.PerClient || c.serving > 0 && c.bytes+size > o.ClientBytes {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternal,
			Message: fmt.Sprintf("%d requests of yours with %d bytes are being served; the limit is %d requests or %d bytes: read the answers, then send it again",
				c.serving, c.bytes, o.PerClient, o.ClientBytes)}
	}
	x.key = string(x.msg.ID)
	if c.count++; c.private {
		x.key = "#" + strconv.Itoa(c.count)
	}
	if _, taken := c.ids[x.key]; taken {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "a request with this id is still being served"}
	}
	c.ids[x.key] = x
	c.running++
	c.serving++
	c.bytes += size
	return nil
}

// release frees the id of a request.
func (c *conn) release(x *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ids[x.key] == x {
		delete(c.ids, x.key)
	}
}

// leave ends a request. The last to leave a closed conn closes the session.
func (c *conn) leave(x *exchange) {
	c.mu.Lock()
	c.serving--
	c.bytes -= int64(len(x.msg.Params))
	c.mu.Unlock()
	c.release(x)
	c.drop()
}

// hold keeps the session from ending until drop, unless it has ended.
func (c *conn) hold() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.running++
	}
	return !c.closed
}

func (c *conn) drop() {
	c.mu.Lock()
	c.running--
	last := c.closed && c.running == 0
	c.mu.Unlock()
	if last {
		c.endSession()
	}
}

// cancelled ends a request at the client's wish: it is never answered. An
// initialize cannot be cancelled (every legacy revision, cancellation).
func (c *conn) cancelled(id json.RawMessage) {
	c.mu.Lock()
	x := c.ids[string(id)]
	if x == nil || x.msg.Method == "initialize" {
		c.mu.Unlock()
		return
	}
	delete(c.ids, x.key)
	c.mu.Unlock()
	x.silent.Store(true)
	x.cancel()
}

// handshake is what initialize settles.
func (c *conn) handshake(t terms) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.legacy = &t
	if c.ses == nil && c.opening == nil && c.who.Client == "" { // the owner's word comes first
		c.who.Client = t.client
	}
}

func (c *conn) legacyTerms() (terms, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.legacy == nil {
		return terms{}, false
	}
	return *c.legacy, true
}

// changed returns what is closed when the list of tools a legacy client has is
// out of date; nil when there is no session or it never says so.
func (c *conn) changed() <-chan struct{} {
	c.mu.Lock()
	ses := c.ses
	c.mu.Unlock()
	if ses == nil || !listChanged(ses, "tools") {
		return nil
	}
	return ses.Changed()
}

// announce reports whether the change is still to be told, and takes it as told.
func (c *conn) announce() bool { return c.told.CompareAndSwap(false, true) }

// notice takes a notification of the client. Unknown ones are dropped, as
// JSON-RPC asks for.
func (c *conn) notice(m jsonrpc.Message) {
	switch m.Method {
	case "notifications/cancelled":
		if p, err := parseParams(m.Params); err == nil {
			if id := p.get("requestId"); id != nil {
				c.cancelled(id)
			}
		}
	case "notifications/initialized":
		c.begun()
		c.rooted()
	case "notifications/roots/list_changed":
		c.rooted()
	}
}

// rooted has servers that want to know told that the client has roots, or
// others than before, if it declared any.
func (c *conn) rooted() {
	c.mu.Lock()
	ses, t := c.ses, c.legacy
	c.mu.Unlock()
	if ses == nil || t == nil {
		return
	}
	if roots, ok, err := strictjson.Get(orEmpty(t.declared), "roots"); err != nil || !ok || string(roots) == "null" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reroot = true
	if c.closed || c.rooting {
		return // many changes in a row are told as one
	}
	c.rooting = true
	c.running++
	go c.tellRoots(ses)
}

func (c *conn) tellRoots(ses Session) {
	defer c.drop()
	for {
		c.mu.Lock()
		again := c.reroot && !c.closed
		c.reroot, c.rooting = false, again
		c.mu.Unlock()
		if !again {
			return
		}
		c.rootsChanged(ses)
	}
}

func (c *conn) rootsChanged(ses Session) {
	defer c.caught("notifications/roots/list_changed", func(*jsonrpc.Error) {}) // it has no answer
	ctx, stop := context.WithTimeout(context.Background(), unwind)
	defer stop()
	ses.RootsChanged(ctx)
}

func orEmpty(obj json.RawMessage) json.RawMessage {
	if obj == nil {
		return json.RawMessage("{}")
	}
	return obj
}
