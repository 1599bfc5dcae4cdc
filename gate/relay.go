package gate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcp-gate/mcp-gate/artifacts"
	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
	"github.com/mcp-gate/mcp-gate/policy"
)

// Client is the client of one request while that is under way: what it can be
// asked for, and what it can be told. A transport gives one with each
// [Request]. Safe for concurrent use; what comes after the request is over
// goes nowhere.
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

// Standing is what a [Caller] can do besides, for as long as it is asked to.
// Without it nothing is followed, and no level of logs is asked for.
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

// flight is a call on its way, as what its server sends finds it.
type flight struct {
	s      *Session
	c      *call
	server string
}

type flightKey struct{}

// Terms are what a [Caller] has to know of the client of a call.
type Terms struct {
	Capabilities json.RawMessage // that it declared, for a modern server; "{}" where there is no client
	LogLevel     string          // the least it wants, for a modern server; "" is none
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

// wanted is the least level of log messages for a client that says it once for
// all requests, or never.
func (d *side) wanted() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.level == "" {
		return usualLevel
	}
	return d.level
}

// relay is what the gate knows of calls that are on their way, to tell whose
// are the messages that say nothing of it.
type relay struct {
	mu      sync.Mutex // guards what follows
	flights map[*flight]bool
	follows map[watch]*following // resources that are followed
	rooted  map[string]bool      // servers that asked for roots
	opened  []visit              // who was sent to a URL, in order
	rounds  int64                // for ids
}

// watch is a resource of a server, or another thing of its that has a name.
type watch struct {
	server, name string
	of           *Session // who alone is told of it; nil: whoever shares the connection
}

// following is a resource that is followed, or that its server is being asked
// about.
type following struct {
	n    int           // how often it was asked for
	busy chan struct{} // closed when the server has answered; nil when it has
}

// visit is what was sent to a person's browser, by its server and elicitation id.
type visit struct {
	watch
	s *Session
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

// over returns the calls that a server is working on.
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

// follow counts one more who follows a resource. The first has the server told;
// whoever comes meanwhile waits for what comes of it, and tells it himself where
// that failed.
func (r *relay) follow(ctx context.Context, w watch, tell func() *jsonrpc.Error) *jsonrpc.Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for f := r.follows[w]; f != nil; f = r.follows[w] {
		if f.busy == nil {
			f.n++
			return nil
		}
		r.mu.Unlock()
		select {
		case <-f.busy:
		case <-ctx.Done():
		}
		r.mu.Lock()
		if ctx.Err() != nil {
			return callError(ctx.Err())
		}
	}
	if r.follows == nil {
		r.follows = map[watch]*following{}
	}
	f := &following{n: 1}
	r.follows[w] = f
	e := r.busy(f, tell)
	if e != nil {
		delete(r.follows, w)
	}
	return e
}

// unfollow counts one less who follows a resource. The last has the server told.
func (r *relay) unfollow(w watch, tell func() *jsonrpc.Error) *jsonrpc.Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.follows[w]
	if f == nil || f.busy != nil {
		return nil
	}
	if f.n--; f.n > 0 {
		return nil
	}
	defer delete(r.follows, w)
	return r.busy(f, tell)
}

// busy tells the server something about a resource while others wait for it.
// Called with mu held, and not held meanwhile.
func (r *relay) busy(f *following, tell func() *jsonrpc.Error) *jsonrpc.Error {
	done := make(chan struct{})
	f.busy = done
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		f.busy = nil
		close(done) // who waited goes on once mu is free
	}()
	return tell()
}

// maxInputRounds is how often one call may come back with questions for the
// client; mcp-go's client has the same bound.
const maxInputRounds = 10

// send sends a call to its server and goes on until there is a result. Where
// the server needs something of the client first, a modern one says so in its
// result and is sent the call again with the answers.
func (s *Session) send(ctx context.Context, c *call) (json.RawMessage, error) {
	if c.local != nil {
		return c.local(ctx)
	}
	f := &flight{s: s, c: c, server: c.entry.ID.Server}
	s.g.relay.enter(f)
	defer s.g.relay.leave(f)
	defer s.parted(f.server)
	ctx = context.WithValue(ctx, flightKey{}, f)
	params := c.params()
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
		switch kind := resultType(raw); kind {
		case "", "complete":
			return raw, nil
		case "input_required":
			if params, err = f.answered(ctx, raw); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("server %s answered %s with a result of the unknown type %q", f.server, c.protocolMethod(), kind)
		}
	}
	return nil, fmt.Errorf("server %s still asked for more input after %d rounds", f.server, maxInputRounds)
}

// protocolMethod is the MCP method of a call. What is no tool stands in the
// gate's books under its method.
func (c *call) protocolMethod() string {
	if c.isAside() {
		return c.entry.ID.Tool
	}
	return "tools/call"
}

// isAside reports whether a call is of something beside the tools.
func (c *call) isAside() bool {
	_, ok := carries[c.entry.ID.Tool]
	return ok && c.entry.Raw == nil
}

func resultType(result json.RawMessage) string {
	if !bytes.Contains(result, []byte(`"resultType"`)) {
		return ""
	}
	return stringOf(result, "resultType")
}

// answered puts what a modern server asks for to the client and returns the
// params of the next try.
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

// input puts requests to the client.
func (f *flight) input(ctx context.Context, requests json.RawMessage) (json.RawMessage, *jsonrpc.Error) {
	requests, err := f.admitted(requests)
	if err != nil {
		return nil, callError(err)
	}
	return f.c.client.Input(ctx, requests)
}

// admitted returns a server's requests as they may go to the client, or the
// error that one of them may not.
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

// cannot says that the client is unable to do what a server asks of it.
func (f *flight) cannot(method string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the client of this call does not offer " + method}
}

// admit judges one request of a server for a client that declared these
// capabilities, and returns its params as the client gets them.
func (s *Session) admit(declared json.RawMessage, server, method string, params json.RawMessage) (json.RawMessage, *jsonrpc.Error) {
	if !offers(declared, method, params) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the client does not offer " + method + " in this form"}
	}
	params, _ = cleaned(params)
	if method == "elicitation/create" && !visitable(params) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "a person is sent to http and https addresses only"}
	}
	c := s.aside(server, method, orEmpty(params))
	c.id = s.nextCall()
	if e := s.permitted(c); e != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: e.Message}
	}
	if method == "sampling/createMessage" {
		if e := s.samples(c); e != nil {
			return nil, e
		}
	}
	passes := s.mayPass
	if method == "elicitation/create" { // its schema may hold choices that look like records
		passes = s.wordsMayPass
	}
	if !passes(server, orEmpty(params)) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "refused [egress]: what " + method + " carries may not leave"}
	}
	if method != "elicitation/create" {
		return params, nil
	}
	return headed(server, params)
}

// wordsMayPass is mayPass for each text in a value by itself.
func (s *Session) wordsMayPass(server string, value json.RawMessage) bool {
	return within(wordsCarry(value), s.allowed(server))
}

// wordsCarry are the classes found in each text in a value by itself.
func wordsCarry(value json.RawMessage) (classes engagement.EgressSet) {
	switch value[0] {
	case '{':
		for m := range strictjson.Walk(value) {
			if len(m.Name) > 64 {
				classes = classes.Union(wordsCarry(strictjson.AppendString(nil, m.Name)))
			}
			classes = classes.Union(wordsCarry(m.Value))
		}
	case '[':
		for e := range strictjson.Elements(value) {
			classes = classes.Union(wordsCarry(e))
		}
	case '"':
		classes = artifacts.InspectValue(value).Classes
	}
	return classes
}

// offers reports whether declared capabilities hold what a request needs.
func offers(declared json.RawMessage, method string, params json.RawMessage) bool {
	name, _, _ := strings.Cut(method, "/")
	if _, ok := carries[method]; !ok || !slices.Contains([]string{"elicitation", "sampling", "roots"}, name) {
		return false
	}
	raw, ok, err := strictjson.Get(orEmpty(declared), name)
	if err != nil || !ok || raw[0] != '{' {
		return false
	}
	has := func(obj json.RawMessage, member string) bool {
		v, ok, err := strictjson.Get(orEmpty(obj), member)
		return err == nil && ok && string(v) != "null"
	}
	switch name {
	case "elicitation":
		if stringOf(orEmpty(params), "mode") == "url" {
			return has(raw, "url")
		}
		return has(raw, "form") || !has(raw, "url") // an empty object means forms
	case "sampling":
		return has(raw, "tools") || !has(params, "tools") && !has(params, "toolChoice")
	}
	return true
}

// visitable reports whether an elicitation leads a person to no address, or to
// one that opens as a page and not as a program or a file.
func visitable(elicitation json.RawMessage) bool {
	if stringOf(orEmpty(elicitation), "mode") != "url" {
		return true
	}
	u, err := url.Parse(stringOf(elicitation, "url"))
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

// headed puts the server's alias before the words it has for a person, who
// cannot tell them from the gate's own otherwise.
func headed(server string, params json.RawMessage) (json.RawMessage, *jsonrpc.Error) {
	out, err := strictjson.Set(params, "message", strictjson.AppendString(nil, "["+server+"] "+stringOf(params, "message")))
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	return out, nil
}

// Answer answers a request that a server sent to the gate as to a client. Ctx
// has the values of the call that it belongs to, where that is known; then the
// client of that call answers. A question about no call in particular, which
// roots/list is, goes to the one client that there is. In any other case there
// is an error at once, so that the server can do without.
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

// round names a request for a client, unlike any other of this process.
func (r *relay) round() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rounds++
	return "r" + strconv.FormatInt(r.rounds, 10)
}

// maxOpened is how many visits to a URL are remembered; older ones get no
// notice of their end, without which the protocol lives.
const maxOpened = 1000

// note remembers who was sent to a URL, for the notice that tells its end.
func (r *relay) note(w watch, s *Session) {
	if w.name == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opened = slices.DeleteFunc(r.opened, func(v visit) bool { return v.watch == w })
	if len(r.opened) >= maxOpened {
		r.opened = slices.Delete(r.opened, 0, 1)
	}
	r.opened = append(r.opened, visit{w, s})
}

// visited takes what is remembered of a visit; nil where that is nothing.
func (r *relay) visited(w watch) *Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.opened, func(v visit) bool { return v.watch == w })
	if i < 0 {
		return nil
	}
	s := r.opened[i].s
	r.opened = slices.Delete(r.opened, i, i+1)
	return s
}

// forget lets go of what is remembered for a session that is over.
func (r *relay) forget(s *Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opened = slices.DeleteFunc(r.opened, func(v visit) bool { return v.s == s })
}

// withoutElicitationID takes out what 2026-07-28 does not know any more.
func withoutElicitationID(params json.RawMessage) json.RawMessage {
	if out, err := strictjson.Delete(params, "elicitationId"); err == nil {
		return out
	}
	return params
}

// codeURLElicitation says that a person has to visit a URL first: 2025-11-25.
const codeURLElicitation = -32042

// mustOpen turns the error that a person has to visit a URL first into the
// requests that a modern client takes in its place.
func (s *Session) mustOpen(f *flight, err error) (json.RawMessage, bool) {
	var theirs *jsonrpc.Error
	if !errors.As(err, &theirs) || theirs.Code != codeURLElicitation || f.c.client == nil {
		return nil, false
	}
	var data struct {
		Elicitations []json.RawMessage `json:"elicitations"`
	}
	if json.Unmarshal(theirs.Data, &data) != nil || len(data.Elicitations) == 0 {
		return nil, false
	}
	if !f.c.client.Modern() {
		for _, e := range data.Elicitations {
			s.g.relay.note(s.watch(f.server, stringOf(e, "elicitationId")), s)
		}
		return nil, false // it knows what to do
	}
	requests := []byte{'{'}
	for _, e := range data.Elicitations {
		if len(requests) > 1 {
			requests = append(requests, ',')
		}
		requests = append(strictjson.AppendString(requests, s.g.relay.round()), ':')
		requests = appendRequest(requests, "elicitation/create", withoutElicitationID(e))
	}
	return append(requests, '}'), true
}

// visits are the data of an error that sends a person to URLs first, each headed
// by the server's alias, without those that nobody is sent to.
func visits(server string, data json.RawMessage) json.RawMessage {
	raw, ok, err := strictjson.Get(orEmpty(data), "elicitations")
	var all []json.RawMessage
	if err != nil || !ok || json.Unmarshal(raw, &all) != nil {
		return data
	}
	list := []byte{'['}
	for _, e := range all {
		given, bad := headed(server, e)
		if bad != nil || !visitable(e) {
			continue
		}
		if len(list) > 1 {
			list = append(list, ',')
		}
		list = append(list, given...)
	}
	if out, err := strictjson.Set(data, "elicitations", append(list, ']')); err == nil {
		data = out
	}
	return data
}

// translated turns a server's error into one that the client's revision has.
func translated(err error, f *flight) error {
	var theirs *jsonrpc.Error
	if !errors.As(err, &theirs) || f.c.client == nil {
		return err
	}
	if f.c.client.Modern() && theirs.Code == codeURLElicitation {
		return &jsonrpc.Error{Code: CodeUpstream, Message: theirs.Message, Data: theirs.Data}
	}
	if theirs.Code == codeURLElicitation {
		return &jsonrpc.Error{Code: theirs.Code, Message: theirs.Message, Data: visits(f.server, theirs.Data)}
	}
	return err
}

// askAnyone puts a request that belongs to no call to the one client that
// offers it. Only a client with the owner's own powers says where the owner's
// servers may work.
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

// RootsChanged tells servers that asked for roots that a client has others
// now, or has any.
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

// Notice takes a notification of a server; ctx as in [Gate.Answer]. It waits for
// no client and no server, and looks at the store once a second at most.
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

// Arrived notes that a server may have been started anew.
func (g *Gate) Arrived(server string) {
	start := g.opts.Caller.About(server).Start
	for kind := range kinds {
		sh := g.features.shelf(shelfKey{server, kind})
		sh.mu.Lock()
		other := sh.good && sh.start != start
		sh.mu.Unlock()
		if other {
			g.listChanged(server, Prompts, Resources, Templates)
			return
		}
	}
}

// visited passes on that a visit to a URL is over, to whoever was sent there.
func (g *Gate) visited(server string, of *Session, params json.RawMessage) {
	w := watch{server, stringOf(orEmpty(params), "elicitationId"), of}
	if s := g.relay.visited(w); s != nil {
		if !s.lately().mayPass(server, orEmpty(params)) {
			params = memberOnly("elicitationId", w.name)
		}
		s.side.tell("notifications/elicitation/complete", params, "")
	}
}

// updated passes on that a resource is a new one, to those who follow it or
// what it is a part of.
func (g *Gate) updated(server string, of *Session, params json.RawMessage) {
	uri := stringOf(orEmpty(params), "uri")
	if uri == "" {
		return
	}
	for _, s := range g.Sessions() {
		if !s.shows(server) || of != nil && of != s {
			continue
		}
		for _, w := range s.side.followed() {
			if w.server != server || !partOf(uri, w.name) {
				continue
			}
			told := update{uri: w.name, params: memberOnly("uri", w.name)} // tells enough to who follows it
			if s.lately().mayPass(server, params) {
				told = update{uri, params}
			}
			s.side.update(w, told, func(u update) {
				if out, err := renamed(u.params, "uri", u.uri, s.outName(server, Resources, u.uri)); err == nil {
					s.side.tell("notifications/resources/updated", out, s.outName(server, Resources, w.name))
				}
			})
		}
	}
}

// memberOnly is an object of one text.
func memberOnly(name, text string) json.RawMessage {
	b := append(strictjson.AppendString([]byte{'{'}, name), ':')
	return append(strictjson.AppendString(b, text), '}')
}

// partOf reports whether a URI is another or something below it: servers may
// tell of a part of what was subscribed to.
func partOf(uri, whole string) bool {
	rest, ok := strings.CutPrefix(uri, whole)
	return ok && (rest == "" || strings.HasSuffix(whole, "/") || strings.IndexByte("/?#", rest[0]) >= 0)
}

// logLevels are MCP's, least first.
var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// usualLevel is what a client gets that never said what it wants: what servers
// tell for others to debug is not for it.
const usualLevel = "info"

// loud reports whether a message's level is at least the one that is wanted.
func loud(level, wanted string) bool {
	return slices.Index(logLevels, level) >= slices.Index(logLevels, wanted)
}

// SetLogLevel is the least level of log messages that a client of an earlier
// revision wants from now on. Servers are asked for the least that any client
// wants.
func (s *Session) SetLogLevel(ctx context.Context, level string) {
	s.side.mu.Lock()
	s.side.level = level
	s.side.mu.Unlock()
	s.g.relevel(ctx)
}

// relevel asks servers for the least level that any client wants; where none
// says any more what it wants, for what such clients get.
func (g *Gate) relevel(ctx context.Context) {
	least := ""
	for _, other := range g.Sessions() {
		other.side.mu.Lock()
		if l := other.side.level; l != "" && (least == "" || loud(least, l)) {
			least = l
		}
		other.side.mu.Unlock()
	}
	if least == "" {
		least = usualLevel
	}
	g.features.mu.Lock()
	news := g.features.level != least
	g.features.level = least
	g.features.mu.Unlock()
	if standing, ok := g.opts.Caller.(Standing); ok && news {
		standing.SetLogLevel(ctx, least)
	}
}

// logged passes a log message on: to the client of the call it belongs to;
// where that cannot be told, to the one client whose calls the server works
// on, or, when it works on none, to all clients if these are all one
// principal's. Others must not read what may be about somebody's call.
func (g *Gate) logged(ctx context.Context, server string, params json.RawMessage) {
	level := stringOf(orEmpty(params), "level")
	if f, _ := ctx.Value(flightKey{}).(*flight); f != nil {
		f.s.log(f.c.client, server, level, params)
		return
	}
	var s *Session
	var client Client
	flights := g.relay.over(server)
	if own := g.ownSession(ctx, server); own != nil {
		flights = slices.DeleteFunc(flights, func(f *flight) bool { return f.s != own })
		if len(flights) == 0 {
			own.log(nil, server, level, params)
			return
		}
	}
	for _, f := range flights {
		if s != nil && s != f.s {
			g.opts.Log.Debug("a log message is not passed on: calls of several clients are under way", "server", server)
			return
		}
		s, client = f.s, f.c.client
	}
	if s != nil {
		if len(flights) > 1 && client != nil && client.Modern() {
			return // it would belong to one of its requests, and it cannot be told to which
		}
		s.log(client, server, level, params)
		return
	}
	var all []*Session
	for _, s := range g.Sessions() {
		if s.shows(server) {
			all = append(all, s)
		}
	}
	for _, s := range all {
		if s.who.Principal == all[0].who.Principal {
			continue
		}
		return
	}
	for _, s := range all {
		s.log(nil, server, level, params)
	}
}

// log gives a session's client a log message if it wants it and its server's
// records may leave.
func (s *Session) log(client Client, server, level string, params json.RawMessage) {
	if client != nil && client.Modern() {
		if wanted := client.LogLevel(); wanted == "" || !loud(level, wanted) {
			return
		}
	} else if !loud(level, s.side.wanted()) {
		return
	}
	c := s.aside(server, "notifications/message", params)
	c.at = s.lately()
	if d := policy.Decide(s.facts(c)); d.Verdict != policy.Run {
		s.g.opts.Log.Debug("a log message is withheld", "server", server, "code", d.Code)
		return
	}
	if !c.at.mayPass(server, params) {
		s.g.opts.Log.Debug("a log message is withheld for what is in it", "server", server)
		return
	}
	params = s.blackedOut(server, params)
	named, err := s.namedLogger(server, params)
	if err != nil {
		return
	}
	if client == nil || !client.Tell("notifications/message", named) {
		s.side.tell("notifications/message", named, "")
	}
}

// namedLogger says in the logger's name which server it is of.
func (s *Session) namedLogger(server string, params json.RawMessage) (json.RawMessage, error) {
	if s.profile.exposure() == Transparent {
		return params, nil
	}
	logger := server
	if own := stringOf(params, "logger"); own != "" {
		logger += "/" + own
	}
	return strictjson.Set(params, "logger", strictjson.AppendString(nil, logger))
}

// Listener is a stream to a session's client that is open longer than a
// request.
type Listener struct {
	// Tell sends a notification. It must not block.
	Tell func(method string, params json.RawMessage)
	// Only is what a modern client listens for; nil is everything that is due
	// to the session, which only one stream gets at a time.
	Only *Filter
	// Ask puts a server's request that belongs to no call to the client, which
	// Declared its capabilities; nil where nothing can be asked.
	Ask      func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, *jsonrpc.Error)
	Declared json.RawMessage
}

// Filter names notifications.
type Filter struct {
	Prompts, Resources bool     // changes of the lists
	URIs               []string // resources, as the client names them
}

// side is what a session keeps of features beside the tools.
type side struct {
	mu        sync.Mutex                 // guards what follows
	level     string                     // of logs, "" where the client never said
	gave      map[Kind][sha256.Size]byte // digests of the lists
	above     *policy.Combined           // of the session that it works for, at read; see [Session.lately]
	read      time.Time
	follows   map[watch]int
	updates   map[watch]*updating
	listeners []*Listener
	samplings map[string][]time.Time // of the last samplingsWithin, by server
}

// What a server may have a client's model say: a client that shows none of it
// to a person pays for all.
const (
	maxSamplings    = 100
	samplingsWithin = 10 * time.Minute
)

// samples counts one sampling of a server, against its bound in the session and
// against what the session may spend, or says why it does not go on.
func (s *Session) samples(c *call) *jsonrpc.Error {
	server, now := c.entry.ID.Server, s.g.opts.Now()
	s.side.mu.Lock()
	recent := slices.DeleteFunc(s.side.samplings[server], func(at time.Time) bool { return now.Sub(at) >= samplingsWithin })
	full := len(recent) >= maxSamplings
	if !full {
		recent = append(recent, now)
	}
	if s.side.samplings == nil {
		s.side.samplings = map[string][]time.Time{}
	}
	s.side.samplings[server] = recent
	s.side.mu.Unlock()
	var why string
	switch d := (policy.Decision{Verdict: policy.Deny, Rule: "samplings"}); {
	case full:
		why = fmt.Sprintf("refused: of one server at most %d samplings in %v go to a client; wait", maxSamplings, samplingsWithin)
		s.g.writeDown(s.event(audit.Refusal, c, d))
	case !s.charge(context.Background()):
		d.Code = policy.CodeSpend
		why = "refused [spend]: the session has used up its calls"
		s.g.writeDown(s.event(audit.Refusal, c, d))
	default:
		return nil
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: why}
}

// Listen has a stream get what servers say outside any request, until end is
// called.
func (s *Session) Listen(l *Listener) (end func()) {
	s.side.mu.Lock()
	defer s.side.mu.Unlock()
	s.side.listeners = append(s.side.listeners, l)
	return func() {
		s.side.mu.Lock()
		defer s.side.mu.Unlock()
		s.side.listeners = slices.DeleteFunc(s.side.listeners, func(other *Listener) bool { return other == l })
	}
}

// tell sends a notification to whoever listens for it: the first stream that
// takes all, and each modern one that named it. Of is the resource that the
// client follows, "" where it is about none.
func (d *side) tell(method string, params json.RawMessage, of string) {
	d.mu.Lock()
	listeners := slices.Clone(d.listeners)
	d.mu.Unlock()
	told := false
	for _, l := range listeners {
		switch {
		case l.Only == nil && !told:
			told = true
			l.Tell(method, params)
		case l.Only != nil && l.Only.wants(method, of):
			l.Tell(method, params)
		}
	}
}

func (f *Filter) wants(method, of string) bool {
	switch method {
	case "notifications/prompts/list_changed":
		return f.Prompts
	case "notifications/resources/list_changed":
		return f.Resources
	case "notifications/resources/updated":
		return slices.Contains(f.URIs, of)
	}
	return false
}

// asker returns a stream whose client answers a method outside any call.
func (d *side) asker(method string) *Listener {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.listeners {
		if l.Ask != nil && offers(l.Declared, method, nil) {
			return l
		}
	}
	return nil
}

func (d *side) follow(w watch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.follows == nil {
		d.follows = map[watch]int{}
	}
	d.follows[w]++
}

// unfollow reports whether the session followed w.
func (d *side) unfollow(w watch) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, ok := d.follows[w]
	if d.follows[w] = n - 1; n <= 1 {
		delete(d.follows, w)
	}
	return ok
}

func (d *side) followed() []watch {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []watch
	for w := range d.follows {
		all = append(all, w)
	}
	return all
}

// update is what a server says of a resource that changed.
type update struct {
	uri    string // as the server has it
	params json.RawMessage
}

// updating is what is told of a resource that has changed a moment ago.
type updating struct {
	pause time.Duration
	next  *update // what came since
}

// How long a change is kept back where another was just told. A server that goes
// on costs its client less and less; the last change is always told.
const (
	updatePause    = 250 * time.Millisecond
	maxUpdatePause = 4 * time.Second
)

// update tells of a change at once, or, where one was told just now, after a pause
// and together with what comes until then.
func (d *side) update(w watch, u update, tell func(update)) {
	d.mu.Lock()
	now := d.updates[w]
	if now != nil {
		if now.next != nil && now.next.uri != u.uri { // of several parts: the whole
			u = update{w.name, memberOnly("uri", w.name)}
		}
		now.next = &u
		d.mu.Unlock()
		return
	}
	if d.updates == nil {
		d.updates = map[watch]*updating{}
	}
	now = &updating{pause: updatePause}
	d.updates[w] = now
	d.mu.Unlock()
	tell(u)
	var next func()
	next = func() {
		d.mu.Lock()
		u := now.next
		if now.next = nil; u == nil || d.follows[w] == 0 {
			delete(d.updates, w)
			d.mu.Unlock()
			return
		}
		now.pause = min(2*now.pause, maxUpdatePause)
		time.AfterFunc(now.pause, next)
		d.mu.Unlock()
		tell(*u)
	}
	time.AfterFunc(updatePause, next)
}

// leave ends what the session followed, and the connections that it had for
// itself.
func (s *Session) leave() {
	if l, ok := s.g.opts.Caller.(Leaver); ok {
		defer l.Leave(s)
	}
	standing, ok := s.g.opts.Caller.(Standing)
	s.side.mu.Lock()
	follows, level := s.side.follows, s.side.level
	s.side.follows = nil
	s.side.mu.Unlock()
	s.g.relay.forget(s)
	ctx, cancel := context.WithTimeout(context.Background(), relistPause)
	defer cancel()
	if level != "" {
		s.g.relevel(ctx)
	}
	for w, n := range follows {
		for range n {
			if e := s.g.relay.unfollow(w, func() *jsonrpc.Error {
				if !ok || w.of != nil { // what is followed on a connection ends with it
					return nil
				}
				return callError(standing.Unsubscribe(ctx, w.server, w.name))
			}); e != nil {
				s.g.opts.Log.Debug("a resource is still followed", "server", w.server, "error", e)
			}
		}
	}
}

// capabilities are those of the one server of a transparent session, as far as
// the gate carries them, else of the gate: the same whichever servers are up.
func (s *Session) capabilities() json.RawMessage {
	const all = `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"completions":{},"logging":{}}`
	if s.profile.exposure() != Transparent {
		return json.RawMessage(all)
	}
	theirs := s.server().Capabilities
	if len(theirs) == 0 || theirs[0] != '{' {
		return json.RawMessage(all)
	}
	b := []byte{'{'}
	for m, err := range strictjson.Object(theirs) {
		if err != nil {
			return json.RawMessage(all)
		}
		if !slices.Contains([]string{"tools", "resources", "prompts", "completions", "logging"}, m.Name) {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(strictjson.AppendString(b, m.Name), ':')
		b = append(b, m.Value...)
	}
	return append(b, '}')
}
