package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// A server with PerOwner keeps something for whoever talks to it, so nobody
// may share a connection. The connection of the pool's own lists its tools and
// takes what is nobody's; each owner has another, for which a process of its
// own is started.

// maxOwn bounds the connections of owners to one server.
const maxOwn = 100

type ownerKey struct{}

// WithOwner returns a context for requests that [Pool.Subscribe],
// [Pool.Unsubscribe] and [Pool.Notify] make on behalf of an owner.
func WithOwner(ctx context.Context, owner any) context.Context {
	return context.WithValue(ctx, ownerKey{}, owner)
}

// OwnerOf returns whose connection a request or notification came on, as the
// context of [Options.OnRequest] and [Options.OnNotification] says it; nil
// where it is everybody's. On such a connection it is the owner of the calls
// that are under way, where a request belongs to one of several.
func OwnerOf(ctx context.Context) any { return ctx.Value(ownerKey{}) }

// serverOf returns the connection that an owner's requests go to, made at its
// first. It is not started yet.
func (p *Pool) serverOf(s *server, owner any, method string) (*server, *Error) {
	if !s.cfg.PerOwner || owner == nil {
		return s, nil
	}
	fail := func(err error, hint string) (*server, *Error) {
		return nil, &Error{Server: s.cfg.Alias, Method: method, Kind: NotRunning, Err: err, Hint: hint}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.own[s.cfg.Alias]
	switch {
	case p.find(s.cfg.Alias) != s:
		return nil, &Error{Server: s.cfg.Alias, Method: method, Kind: Withdrawn, Err: errChanged}
	case all[owner] != nil:
		return all[owner], nil
	case p.ctx == nil:
		return fail(errors.New("it is not started yet"), "")
	case p.ctx.Err() != nil:
		return fail(errStopped, "")
	case len(all) >= maxOwn:
		return fail(fmt.Errorf("%d sessions have a connection of their own to it, which is the most", maxOwn), "end sessions that nobody uses, or give it a shared connection")
	}
	return p.startOwn(s, owner), nil
}

// startOwn makes the connection of an owner. It is called as start is.
func (p *Pool) startOwn(s *server, owner any) *server {
	cfg := s.cfg
	cfg.Lazy = true // the first request starts it
	mine := newServer(cfg, &p.o)
	mine.owner, mine.base = owner, s
	mine.calls.own = true
	mine.open = func(ctx context.Context) (conn, error) { return p.open(ctx, mine) }
	mine.wishes.level = s.wishes.now().level
	if p.own[cfg.Alias] == nil {
		p.own[cfg.Alias] = map[any]*server{}
	}
	p.own[cfg.Alias][owner] = mine
	p.start(mine)
	return mine
}

// Leave ends the connections that an owner has for itself. It does not wait
// for that; [Pool.Run] does before it returns. What the owner asks for later
// begins anew.
func (p *Pool) Leave(owner any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for alias, all := range p.own {
		if s := all[owner]; s != nil {
			p.ending[s]()
			delete(p.ending, s)
			delete(all, owner)
		}
		if len(all) == 0 {
			delete(p.own, alias)
		}
	}
}

// owned are the connections of owners to a server.
func (p *Pool) owned(alias string) []*server {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []*server
	for _, s := range p.own[alias] {
		all = append(all, s)
	}
	return all
}

// same reports whether a tool is on an owner's connection what it is on the
// pool's: a definition that was accepted there says nothing of another. It
// waits for the listing of a connection that is new.
func (s *server) same(ctx context.Context, params json.RawMessage) *Error {
	if s.base == nil {
		return nil
	}
	tool := textMember(params, "name")
	fail := func(kind Kind, err error, hint string) *Error {
		return &Error{Server: s.cfg.Alias, Method: "tools/call", Kind: kind, Err: err, Hint: hint}
	}
	limit := time.NewTimer(s.cfg.StartTimeout + patience)
	defer limit.Stop()
	for {
		s.mu.Lock()
		listed, listing, changed, state, last, gone := s.listed, s.listing, s.changed, s.state, s.lastErr, s.gone
		s.mu.Unlock()
		switch {
		case gone != nil:
			return fail(Withdrawn, gone, "")
		case listed:
			if err := s.base.show(ctx); err != nil { // it may have taken another's place just now
				e := ended(ctx)
				return fail(e.Kind, e.Err, "")
			}
			theirs, _ := s.base.lastListing()
			mine, base := listing.tool(tool), theirs.tool(tool)
			if mine != nil && string(mine) != string(base) {
				return fail(Invalid, fmt.Errorf("%s is another tool on this session's connection than the one that is listed", tool), "give it a shared connection if its tools are to differ by session")
			}
			return nil
		case state == Stopped:
			return fail(NotRunning, errStopped, "")
		case state == Ready && last != nil && last.Kind == Invalid: // the listing failed
			return fail(last.Kind, last.Err, last.Hint)
		case state == Failed:
			return nil // the call says why
		}
		poke(s.wanted)
		select {
		case <-changed:
		case <-ctx.Done():
			e := ended(ctx)
			return fail(e.Kind, e.Err, "")
		case <-limit.C:
			return fail(NotRunning, errors.New("it has not listed its tools on this session's connection"), "try again later")
		}
	}
}

// tool returns the definition of a tool in a listing, or nil.
func (l Listing) tool(name string) []byte {
	for _, t := range l.Tools {
		if textMember(t, "name") == name {
			return t
		}
	}
	return nil
}
