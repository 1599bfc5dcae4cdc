package gate

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
	"github.com/mcp-gate/mcp-gate/policy"
)

// Client asks and tells the client of one request while that request is under way.
// A transport gives one with each [Request]. It is safe for concurrent use. Once the
// request is over, nothing reaches the client any more.
type Client interface {
	// Declared is the client's capabilities object, of which elicitation,
	// sampling and roots count.
	Declared() json.RawMessage
	// Modern reports whether it speaks 2026-07-28.
	Modern() bool
	// LogLevel is the least level of log messages that this very request asked
	// for, as a modern one may; "" is none.
	LogLevel() string
	// Input puts requests to the client and returns its answers. Both are
	// objects with a member for each request, as inputRequests and
	// inputResponses of 2026-07-28 are; responses may lack members, and be nil.
	// An error is the client's own answer to one of them, or says why there is
	// none.
	Input(ctx context.Context, requests json.RawMessage) (responses json.RawMessage, err *jsonrpc.Error)
	// Tell sends a notification ahead of the answer and reports whether it
	// could. It does not block.
	Tell(method string, params json.RawMessage) bool
}

// Standing is the optional part of a [Caller]: requests that hold until they are
// withdrawn. Without it no resource is followed and no level of logs is asked for.
type Standing interface {
	// Subscribe has a server tell of updates of a resource, until Unsubscribe
	// or the end of the process. The error is as that of Call.
	Subscribe(ctx context.Context, server, uri string) error
	Unsubscribe(ctx context.Context, server, uri string) error
	// SetLogLevel asks all servers, now and whenever they start, for log
	// messages of at least this level. It waits a moment for those that run.
	SetLogLevel(ctx context.Context, level string)
	// Notify sends a notification to a server if it is running.
	Notify(ctx context.Context, server, method string, params json.RawMessage)
}

// relay tracks the calls in progress. A message of a server does not always name the
// call that it belongs to; then relay finds whom it is for.
type relay struct {
	mu      sync.Mutex           // guards what follows
	newest  *flight              // of the calls in progress
	follows map[watch]*following // resources that are followed
	rooted  map[string]bool      // servers that asked for roots
	opened  []visit              // who was sent to a URL, the oldest first
	rounds  int64                // counts requests to clients, for their ids
	news    chan struct{}        // where somebody waits for a client that answers: closed when there may be one; else nil
}

func (r *relay) enter(f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.flies, f.older = true, r.newest
	if f.older != nil {
		f.older.newer = f
	}
	r.newest = f
}

func (r *relay) leave(f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.flies = false
	if f.older != nil {
		f.older.newer = f.newer
	}
	if f.newer != nil {
		f.newer.older = f.older
	} else {
		r.newest = f.older
	}
	f.newer, f.older = nil, nil // or who still holds f would hold all that came after it
	if f.end != nil {
		f.end()
	}
}

// during returns a context that ends with ctx and with f, and its end. It has ended
// where f has.
func (r *relay) during(ctx context.Context, f *flight) (context.Context, func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.over == nil {
		f.over, f.end = context.WithCancel(context.Background())
		if !f.flies {
			f.end()
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(f.over, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// over returns the calls in progress that a server is working on, the newest first.
func (r *relay) over(server string) []*flight {
	r.mu.Lock()
	defer r.mu.Unlock()
	var fs []*flight
	for f := r.newest; f != nil; f = f.older {
		if f.server == server {
			fs = append(fs, f)
		}
	}
	return fs
}

// Answer answers a request of a server. The gate is that server's client, so it asks
// one of its own clients. Where ctx has the values of a call, that call's client is
// asked; where it has a session alone, that session's. A roots/list is about no call,
// so it goes to the one client that offers roots. In any other case there is an error at
// once, so that the server can do without an answer.
func (g *Gate) Answer(ctx context.Context, server, method string, params json.RawMessage) (json.RawMessage, *jsonrpc.Error) {
	f, _ := ctx.Value(flightKey{}).(*flight)
	s, _ := ctx.Value(connectionKey{}).(*Session)
	switch {
	case f != nil && f.c.client != nil:
		g.relay.asks(server, method)
		return f.ask(ctx, method, params)
	case s != nil:
		g.relay.asks(server, method)
		return s.answer(ctx, server, method, params)
	case method == "roots/list":
		return g.askAnyone(ctx, server, method, params)
	case carries[method] == 0 || method == "notifications/message":
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found: " + method}
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "it cannot be told which call " + method +
		" belongs to: from now on calls of different sessions do not overlap"}
}

// asks notes that a server wants to know of other roots from now on, if it asks for them.
func (r *relay) asks(server, method string) {
	if method != "roots/list" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rooted == nil {
		r.rooted = map[string]bool{}
	}
	r.rooted[server] = true
}

// ask puts one request of a server with a handshake to the client of the call.
func (f *flight) ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, *jsonrpc.Error) {
	given, e := f.s.admit(f.c.client.Declared(), f.server, method, params)
	if e != nil {
		return nil, e
	}
	if f.c.client.Modern() && method == "elicitation/create" {
		given = withoutElicitationID(given)
	}
	f.s.g.relay.note(f.s.watch(f.server, stringOf(orEmpty(params), "elicitationId")), f.s)
	key := f.s.g.relay.round()
	requests := append(strictjson.AppendString([]byte{'{'}, key), ':')
	requests = append(appendRequest(requests, method, given), '}')
	for range maxInputRounds {
		responses, e := f.c.client.Input(ctx, requests)
		if e != nil {
			return nil, e
		}
		if response, ok, err := strictjson.Get(orEmpty(responses), key); err == nil && ok && response[0] == '{' {
			return response, nil
		}
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the client gave no answer to " + method}
}

// round returns the id of a new request to a client. No other request of this process
// has it.
func (r *relay) round() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rounds++
	return "r" + strconv.FormatInt(r.rounds, 10)
}

// askAnyone puts a request that belongs to no call to the one client that offers it.
// The answer says where the owner's servers may work, so only a client with the
// owner's own powers is asked. A server may ask before the handshake of a client that has
// just started it is over: so where no client can be asked yet, the answer is held, for as
// long as a search waits for a server.
func (g *Gate) askAnyone(ctx context.Context, server, method string, params json.RawMessage) (json.RawMessage, *jsonrpc.Error) {
	var who []*Session
	var l *Listener
	for over := time.After(g.opts.FirstFind); ; {
		news, soon := g.relay.listening(), false
		if who, l, soon = g.offer(server, method); !soon {
			break
		}
		select {
		case <-news:
			continue
		case <-over:
		case <-ctx.Done():
		}
		break
	}
	g.relay.asks(server, method) // now: who waited needs not be told of the client that came
	switch {
	case len(who) == 0:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no client offers " + method}
	case len(who) > 1:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "several clients offer " + method + ": it cannot be told which is meant"}
	}
	given, e := who[0].admit(l.Declared, server, method, params)
	if e != nil {
		return nil, e
	}
	return l.Ask(ctx, method, given)
}

// offer returns the sessions whose clients can be asked for a method of a server outside
// any call, and a stream of the last one. Where there are none, soon reports whether one
// may come: a session that has no call yet may still be in its handshake.
func (g *Gate) offer(server, method string) (who []*Session, l *Listener, soon bool) {
	soon = true
	for _, s := range g.Sessions() {
		if !s.shows(server) || s.who.Scope != policy.ScopeAdmin {
			continue
		}
		found, may := s.side.askerSoon(method)
		if found != nil {
			who, l = append(who, s), found
		}
		soon = soon && may && s.count.Load() == 0
	}
	return who, l, soon && len(who) == 0
}

// listening returns what is closed when a client is there that may be asked outside any
// call.
func (r *relay) listening() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.news == nil {
		r.news = make(chan struct{})
	}
	return r.news
}

func (r *relay) someoneListens() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.news != nil {
		close(r.news)
		r.news = nil
	}
}

// RootsChanged tells the servers that asked for roots that the client's roots have
// changed, or that there is a client with roots now.
func (s *Session) RootsChanged(ctx context.Context) {
	defer s.g.relay.someoneListens() // after it is settled who is told
	standing, ok := s.g.opts.Caller.(Standing)
	if !ok || s.who.Scope != policy.ScopeAdmin {
		return
	}
	s.g.relay.mu.Lock()
	var servers []string
	for _, alias := range s.aliases() {
		if s.g.relay.rooted[alias] {
			servers = append(servers, alias)
		}
	}
	s.g.relay.mu.Unlock()
	for _, alias := range servers {
		standing.Notify(s.onOwn(ctx, alias), alias, "notifications/roots/list_changed", nil)
	}
}

// Notice takes a notification of a server. Ctx is as in [Gate.Answer]. It does not
// wait for a client or a server, and reads the store at most once a second.
func (g *Gate) Notice(ctx context.Context, server, method string, params json.RawMessage) {
	params, _ = cleaned(params)
	switch method {
	case "notifications/message":
		g.logged(ctx, server, params)
	case "notifications/resources/updated":
		g.updated(server, g.ownSession(ctx, server), params)
	case "notifications/resources/list_changed":
		g.listChanged(server, Resources, Templates)
	case "notifications/prompts/list_changed":
		g.listChanged(server, Prompts)
	case "notifications/elicitation/complete":
		g.visited(server, g.ownSession(ctx, server), params)
	}
}
