package gate

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/policy"
)

// Listener is a stream to a session's client that stays open between requests.
type Listener struct {
	// Tell sends a notification. It must not block.
	Tell func(method string, params json.RawMessage)
	// Only is what a modern client listens for. Nil is everything that is due to
	// the session; of such streams only the first gets it.
	Only *Filter
	// Ask puts a server's request that belongs to no call to the client; nil where
	// the client cannot be asked. Declared is the client's capabilities object. Ready
	// is closed once the client takes requests, which [Session.RootsChanged] follows;
	// nil where it does from the start.
	Ask      func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, *jsonrpc.Error)
	Declared json.RawMessage
	Ready    <-chan struct{}
}

// Filter names notifications.
type Filter struct {
	Prompts, Resources bool     // changes of the lists
	URIs               []string // resources, as the client names them
}

// side is a session's state for resources, prompts, logs and subscriptions.
type side struct {
	mu        sync.Mutex                 // guards what follows
	level     string                     // of logs, "" where the client never said
	gave      map[Kind][sha256.Size]byte // digests of the lists that the client was given
	above     *policy.Combined           // of the session that it works for, at read; see [Session.lately]
	read      time.Time
	follows   map[watch]int // number of subscriptions
	updates   map[watch]*updating
	listeners []*Listener
	samplings map[string][]time.Time // of the last samplingsWithin, by server
}

// Listen gives a stream the messages of servers that belong to no request, until end
// is called.
func (s *Session) Listen(l *Listener) (end func()) {
	s.side.mu.Lock()
	defer s.side.mu.Unlock()
	s.side.listeners = append(s.side.listeners, l)
	defer s.g.relay.someoneListens()
	return func() {
		s.side.mu.Lock()
		defer s.side.mu.Unlock()
		s.side.listeners = slices.DeleteFunc(s.side.listeners, func(other *Listener) bool { return other == l })
	}
}

// tell sends a notification to the streams that listen for it: to the first one that
// takes everything, and to each modern one that named it. Of is the resource that the
// client follows, "" if the notification is about none.
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

// asker returns a stream whose client answers a method outside any call; nil for none.
func (d *side) asker(method string) *Listener {
	l, _ := d.askerSoon(method)
	return l
}

// askerSoon is asker; soon reports whether there may be one once the client is ready.
func (d *side) askerSoon(method string) (l *Listener, soon bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	soon = len(d.listeners) == 0
	for _, l := range d.listeners {
		if l.Ask == nil || !offers(l.Declared, method, nil) {
			continue
		}
		if l.isReady() {
			return l, false
		}
		soon = true
	}
	return nil, soon
}

func (l *Listener) isReady() bool {
	if l.Ready == nil {
		return true
	}
	select {
	case <-l.Ready:
		return true
	default:
		return false
	}
}

// leave ends the session's subscriptions, and the connections of its own.
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
			if e := s.g.relay.unfollow(w, func() bool { return true }, func() *jsonrpc.Error {
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
