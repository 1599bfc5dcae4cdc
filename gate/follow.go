package gate

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// watch names one thing of a server: the URI of a resource, or the id of an
// elicitation.
type watch struct {
	server, name string
	of           *Session // the session on whose own connection it is; nil where all share one
}

// watch names a thing of a server as this session's connection knows it.
func (s *Session) watch(server, name string) watch {
	w := watch{server: server, name: name}
	if s.g.server(server).Own {
		w.of = s
	}
	return w
}

// Subscribe has the client told of updates of a resource, until
// [Session.Unsubscribe] was called as often or the session ends.
func (s *Session) Subscribe(ctx context.Context, uri string) *jsonrpc.Error {
	req := Request{Method: "resources/subscribe", Name: uri, Args: append(strictjson.AppendString([]byte(`{"uri":`), uri), '}')}
	args, alias, e := s.localized(ctx, req)
	if e != nil {
		return e
	}
	c := s.aside(alias, req.Method, args)
	c.id = s.nextCall()
	if e := s.permitted(c); e != nil {
		return e
	}
	w := s.watch(alias, stringOf(args, "uri"))
	standing, ok := s.g.opts.Caller.(Standing)
	if !ok {
		return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "resources cannot be followed here"}
	}
	untell := func() *jsonrpc.Error { return callError(standing.Unsubscribe(s.onOwn(ctx, alias), alias, w.name)) }
	e = s.g.relay.follow(ctx, w, func() { s.side.follow(w) }, func() *jsonrpc.Error {
		return callError(standing.Subscribe(s.onOwn(ctx, alias), alias, w.name))
	}, untell)
	if e != nil { // if nobody took it back meanwhile
		_ = s.g.relay.unfollow(w, func() bool { return s.side.unfollow(w) }, untell)
	}
	return e
}

// Unsubscribe ends what [Session.Subscribe] began. One that was never begun is
// ended all the same.
func (s *Session) Unsubscribe(ctx context.Context, uri string) *jsonrpc.Error {
	_, alias, e := s.localized(ctx, Request{Method: "resources/unsubscribe", Name: uri, Args: append(strictjson.AppendString([]byte(`{"uri":`), uri), '}')})
	if e != nil {
		return e
	}
	own := uri
	if s.profile.Exposure != Transparent {
		own = strings.TrimPrefix(uri, uriScheme+alias+"/")
	}
	w := s.watch(alias, own)
	standing, ok := s.g.opts.Caller.(Standing)
	if !ok {
		return nil
	}
	return s.g.relay.unfollow(w, func() bool { return s.side.unfollow(w) }, func() *jsonrpc.Error {
		return callError(standing.Unsubscribe(s.onOwn(ctx, alias), alias, own))
	})
}

// following is a resource that is followed, or for which a request to its server is
// under way.
type following struct {
	n    int           // of subscriptions, also of those that wait for the server
	told bool          // the server was asked to tell of it
	busy chan struct{} // closed once the server has answered; nil while no request is under way
}

// follow counts one more subscription of a resource, which count notes for its session
// before anything is asked, since an update may come with the answer. The first one has
// tell ask the server. Others wait for its answer, and ask themselves if it failed. Was
// everything taken back meanwhile, untell asks. After an error [relay.unfollow] is due.
func (r *relay) follow(ctx context.Context, w watch, count func(), tell, untell func() *jsonrpc.Error) *jsonrpc.Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.follows == nil {
		r.follows = map[watch]*following{}
	}
	f := r.follows[w]
	if f == nil {
		f = &following{}
		r.follows[w] = f
	}
	f.n++
	count()
	for f.busy != nil {
		busy := f.busy
		r.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
		}
		r.mu.Lock()
		if ctx.Err() != nil {
			return callError(ctx.Err())
		}
	}
	if !f.told && f.n > 0 {
		if e := r.busy(f, tell); e != nil {
			return e
		}
		f.told = true
	}
	return r.settle(w, f, untell)
}

// unfollow counts one subscription less, if it was one. The last one has tell ask the
// server, unless whoever waits for the server just now will see to that.
func (r *relay) unfollow(w watch, was func() bool, tell func() *jsonrpc.Error) *jsonrpc.Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.follows[w]
	if !was() || f == nil {
		return nil
	}
	f.n--
	if f.busy != nil {
		return nil
	}
	return r.settle(w, f, tell)
}

// settle ends what nobody follows any more. Called with mu held.
func (r *relay) settle(w watch, f *following, untell func() *jsonrpc.Error) (e *jsonrpc.Error) {
	if f.n == 0 && f.told {
		e = r.busy(f, untell)
		f.told = false // and is told again if somebody came meanwhile
	}
	if f.n == 0 && f.busy == nil && r.follows[w] == f {
		delete(r.follows, w)
	}
	return e
}

// busy asks the server with tell, and has others wait meanwhile. It is called with mu
// held, and releases it while it waits.
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
	if n > 1 {
		d.follows[w] = n - 1
	} else {
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

// updated tells of a changed resource to the sessions that follow it, or that follow
// something it is a part of.
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

// memberOnly is an object with one member, a text.
func memberOnly(name, text string) json.RawMessage {
	b := append(strictjson.AppendString([]byte{'{'}, name), ':')
	return append(strictjson.AppendString(b, text), '}')
}

// partOf reports whether a URI is the same as another, or below it. A server may tell
// of a part of the resource that was subscribed to.
func partOf(uri, whole string) bool {
	rest, ok := strings.CutPrefix(uri, whole)
	return ok && (rest == "" || strings.HasSuffix(whole, "/") || strings.IndexByte("/?#", rest[0]) >= 0)
}

// update is what a server says of a resource that changed.
type update struct {
	uri    string // as the server has it
	params json.RawMessage
}

// updating holds back the changes of a resource that follow another too soon.
type updating struct {
	pause time.Duration
	next  *update // the change to tell after the pause; nil: none came
}

// How long a change is held back after another was told. The pause grows while the
// server goes on. The last change is always told.
const (
	updatePause    = 250 * time.Millisecond
	maxUpdatePause = 4 * time.Second
)

// update tells of a change at once. Where another was told just now, it tells after a
// pause, once for all changes of that time.
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
