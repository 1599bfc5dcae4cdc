package gate

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"

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
	mu      sync.Mutex // guards what follows
	flights map[*flight]bool
	follows map[watch]*following // resources that are followed
	rooted  map[string]bool      // servers that asked for roots
	opened  []visit              // who was sent to a URL, the oldest first
	rounds  int64                // counts requests to clients, for their ids
}

func (r *relay) enter(f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.flights == nil {
		r.flights = map[*flight]bool{}
	}
	r.flights[f] = true
}

func (r *relay) leave(f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.flights, f)
}

// over returns the calls in progress that a server is working on.
func (r *relay) over(server string) []*flight {
	r.mu.Lock()
	defer r.mu.Unlock()
	var fs []*flight
	for f := range r.flights {
		if f.server == server {
			fs = append(fs, f)
		}
	}
	return fs
}

// Answer answers a request of a server. The gate is that server's client, so it asks
// one of its own clients. Where ctx has the values of a call, that call's client is
// asked. A roots/list is about no call, so it goes to the one client that offers
// roots. In any other case there is an error at once, so that the server can do
// without an answer.
func (g *Gate) Answer(ctx context.Context, server, method string, params json.RawMessage) (json.RawMessage, *jsonrpc.Error) {
	f, _ := ctx.Value(flightKey{}).(*flight)
	if method == "roots/list" {
		g.relay.mu.Lock()
		if g.relay.rooted == nil {
			g.relay.rooted = map[string]bool{}
		}
		g.relay.rooted[server] = true
		g.relay.mu.Unlock()
	}
	switch {
	case f != nil && f.c.client != nil:
		return f.ask(ctx, method, params)
	case method == "roots/list":
		if s := g.ownSession(ctx, server); s != nil {
			return s.answer(ctx, server, method, params)
		}
		return g.askAnyone(ctx, server, method, params)
	case g.ownSession(ctx, server) != nil:
		return g.ownSession(ctx, server).answer(ctx, server, method, params)
	case carries[method] == 0 || method == "notifications/message":
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found: " + method}
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "it cannot be told which call " + method +
		" belongs to: from now on calls come one at a time"}
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
// owner's own powers is asked.
func (g *Gate) askAnyone(ctx context.Context, server, method string, params json.RawMessage) (json.RawMessage, *jsonrpc.Error) {
	var who []*Session
	var l *Listener
	for _, s := range g.Sessions() {
		if !s.shows(server) || s.who.Scope != policy.ScopeAdmin {
			continue
		}
		if found := s.side.asker(method); found != nil {
			who, l = append(who, s), found
		}
	}
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

// RootsChanged tells the servers that asked for roots that the client's roots have
// changed, or that there is a client with roots now.
func (s *Session) RootsChanged(ctx context.Context) {
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
