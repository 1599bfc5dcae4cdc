package gate

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// watch is a resource of a server, or another thing of its that has a name.
type watch struct {
	server, name string
	of           *Session // who alone is told of it; nil: whoever shares the connection
}

// watch is something that a server may speak of to this session.
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
	s.side.follow(w) // before, since an update may come with the answer
	e = s.g.relay.follow(ctx, w, func() *jsonrpc.Error {
		return callError(standing.Subscribe(s.onOwn(ctx, alias), alias, w.name))
	})
	if e != nil {
		s.side.unfollow(w)
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
	if !ok || !s.side.unfollow(w) {
		return nil
	}
	return s.g.relay.unfollow(w, func() *jsonrpc.Error {
		return callError(standing.Unsubscribe(s.onOwn(ctx, alias), alias, own))
	})
}

// following is a resource that is followed, or that its server is being asked
// about.
type following struct {
	n    int           // how often it was asked for
	busy chan struct{} // closed when the server has answered; nil when it has
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
