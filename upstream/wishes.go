package upstream

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// grantWait bounds how long a server that starts is waited for while it is
// told what is wished for.
const grantWait = 2 * time.Second

// wish is what a server is told anew on every connection.
type wish struct {
	level string   // of log messages; "" says nothing
	uris  []string // resources whose updates are wanted, sorted
}

// wishes hold for a server whether it runs or not. Safe for concurrent use.
type wishes struct {
	mu      *sync.Mutex // guards what follows
	level   string
	uris    map[string]bool
	changed chan struct{} // closed, and made anew, whenever uris changes
}

func newWishes() wishes {
	return wishes{mu: new(sync.Mutex), uris: map[string]bool{}, changed: make(chan struct{})}
}

func (w *wishes) now() wish {
	w.mu.Lock()
	defer w.mu.Unlock()
	return wish{w.level, slices.Sorted(maps.Keys(w.uris))}
}

// watched returns the resources that are followed and what is closed when
// these change.
func (w *wishes) watched() (uris []string, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.uris)), w.changed
}

func (w *wishes) follow(uri string, on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.uris[uri] == on {
		return
	}
	if on {
		w.uris[uri] = true
	} else {
		delete(w.uris, uri)
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// SetLogLevel asks every server that can be asked, now and whenever it starts or
// is added, for log messages of at least this level; MCP's words. Servers that speak
// 2026-07-28 are asked with each request instead. It waits for the answers of
// those that run, until ctx ends; a refusal changes nothing.
func (p *Pool) SetLogLevel(ctx context.Context, level string) {
	var wg sync.WaitGroup
	for _, s := range p.setLevel(level) {
		if sess := s.current(); sess != nil {
			wg.Go(func() { sess.grant(ctx, wish{level: level}, wish{}) })
		}
	}
	wg.Wait()
}

// setLevel has a level wished for of all servers, and returns them.
func (p *Pool) setLevel(level string) []*server {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.level = level
	all := slices.Clone(p.all())
	for _, own := range p.own {
		all = slices.AppendSeq(all, maps.Values(own))
	}
	for _, s := range all {
		s.wishes.mu.Lock()
		s.wishes.level = level
		s.wishes.mu.Unlock()
	}
	return all
}

// Subscribe has the server called alias tell of updates of a resource, now and
// after every restart. A server that speaks 2026-07-28 has nothing to answer;
// of another one the response is its own, and an error leaves nothing wished
// for.
func (p *Pool) Subscribe(ctx context.Context, alias, uri string) (Response, error) {
	return p.follow(ctx, alias, uri, "resources/subscribe", true)
}

// Unsubscribe ends what [Pool.Subscribe] began.
func (p *Pool) Unsubscribe(ctx context.Context, alias, uri string) (Response, error) {
	return p.follow(ctx, alias, uri, "resources/unsubscribe", false)
}

func (p *Pool) follow(ctx context.Context, alias, uri, method string, on bool) (Response, error) {
	s := p.find(alias)
	if s == nil {
		if !on {
			p.forget(alias, uri)
		}
		return Response{}, &Error{Server: alias, Method: method, Kind: UnknownServer}
	}
	s, own := p.serverOf(s, OwnerOf(ctx), method)
	if own != nil {
		return Response{}, own
	}
	if !on {
		s.wishes.follow(uri, false)
	}
	sess, e := s.await(ctx, method, time.Now())
	if e != nil {
		return Response{}, e
	}
	resp := Response{Result: json.RawMessage("{}")}
	if !sess.modern {
		var err error
		if resp, err = s.call(ctx, Request{Method: method, Params: uriParams(uri)}); err != nil || resp.Error != nil {
			return resp, err
		}
	}
	if on {
		s.wishes.follow(uri, true)
	}
	return resp, nil
}

// forget has a server that was taken out not be asked about a resource when it
// comes back.
func (p *Pool) forget(alias, uri string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wish, ok := p.left[alias]; ok {
		wish.uris = slices.DeleteFunc(wish.uris, func(u string) bool { return u == uri })
		p.left[alias] = wish
	}
}

func uriParams(uri string) json.RawMessage {
	return append(strictjson.AppendString([]byte(`{"uri":`), uri), '}')
}

// Starts returns how often the server called alias has been started: with
// another number it is another connection, and what it said before may hold no
// more.
func (p *Pool) Starts(alias string) int {
	s := p.find(alias)
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.starts
}

func (s *server) current() *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sess
}

// grant tells a server with a handshake what is wished for beyond told, and
// returns what it knows then. It waits for the answers, but not for long.
func (x *session) grant(ctx context.Context, want, told wish) wish {
	if x.modern {
		return want
	}
	ctx, cancel := context.WithTimeout(ctx, grantWait)
	defer cancel()
	tell := func(method string, params json.RawMessage) {
		resp, e := x.call(ctx, Request{Method: method, Params: params}, 0)
		switch {
		case e != nil:
			x.s.log.Debug("wish not heard", "method", method, "err", e)
		case resp.Error != nil:
			x.s.log.Debug("wish refused", "method", method, "err", resp.Error)
		}
	}
	if want.level != "" && want.level != told.level && x.declares("logging") {
		tell("logging/setLevel", append(strictjson.AppendString([]byte(`{"level":`), want.level), '}'))
	}
	for _, uri := range want.uris {
		if !slices.Contains(told.uris, uri) {
			tell("resources/subscribe", uriParams(uri))
		}
	}
	return want
}

// declares reports whether the server declared a capability.
func (x *session) declares(capability string) bool {
	raw, ok, err := strictjson.Get(x.capabilities, capability)
	return err == nil && ok && string(raw) != "null"
}

// follow keeps a stream open for each resource that is followed, until ctx
// ends. A stream each, so that one more or less interrupts no other.
func (x *session) follow(ctx context.Context) {
	var streams sync.WaitGroup
	defer streams.Wait()
	open := map[string]context.CancelFunc{}
	for {
		uris, changed := x.s.wishes.watched()
		for uri, end := range open {
			if !slices.Contains(uris, uri) {
				end()
				delete(open, uri)
			}
		}
		for _, uri := range uris {
			if open[uri] != nil {
				continue
			}
			one, end := context.WithCancel(ctx)
			open[uri] = end
			filter := append(strictjson.AppendString([]byte(`{"notifications":{"resourceSubscriptions":[`), uri), `]}}`...)
			streams.Go(func() { x.subscribe(one, string(filter)) })
		}
		select {
		case <-changed:
		case <-ctx.Done():
			for _, end := range open {
				end()
			}
			return
		}
	}
}
