package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// drain is how long calls that a server is working on may take to end once
// another server, or none, is in its place.
const drain = 10 * time.Second

var (
	errChanged = errors.New("its owner changed its entry in the configuration")
	errRemoved = errors.New("its owner took it out of the configuration")
)

// Renewed says by alias what [Pool.Renew] did, each list in the order of the
// servers.
type Renewed struct{ Added, Changed, Removed []string }

// Renew has the pool run these servers, in this order, whether it runs already
// or not. One whose Launch and PerOwner are what they were goes on as it is,
// with its process and its calls, under its new timeout and laziness. Any other
// that there was takes no calls from now on; those that it is working on have
// ten seconds to end, and those that have not ended by then end in an [Error].
// What is in its place is started beside it, as a client would start one of its
// own. Where it returns an error nothing has changed.
func (p *Pool) Renew(servers []Server) (Renewed, error) {
	next := &roster{byAlias: map[string]*server{}}
	servers = slices.Clone(servers)
	for i, cfg := range servers {
		if err := cfg.check(); err != nil {
			return Renewed{}, fmt.Errorf("server %q: %w", cfg.Alias, err)
		}
		servers[i] = cfg.withDefaults()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var done Renewed
	was := p.roster.Load()
	var fresh []*server
	for _, cfg := range servers {
		if next.byAlias[cfg.Alias] != nil {
			return Renewed{}, fmt.Errorf("server %q is there twice", cfg.Alias)
		}
		s := was.byAlias[cfg.Alias]
		switch {
		case s == nil:
			done.Added = append(done.Added, cfg.Alias)
		case !s.cfg.same(cfg):
			done.Changed = append(done.Changed, cfg.Alias)
		}
		if s == nil || !s.cfg.same(cfg) {
			s = newServer(cfg, &p.o)
			s.open = func(ctx context.Context) (conn, error) { return p.open(ctx, s) }
			fresh = append(fresh, s)
			if wish, back := p.left[cfg.Alias]; back {
				s.wishes.adopt(wish)
			}
			s.wishes.level = p.level
		}
		next.servers = append(next.servers, s)
		next.byAlias[cfg.Alias] = s
	}
	p.roster.Store(next)
	for _, s := range fresh {
		delete(p.left, s.cfg.Alias)
	}
	for i, s := range next.servers {
		if s == was.byAlias[s.cfg.Alias] {
			s.retune(servers[i])
		}
	}
	for _, s := range was.servers {
		if now := next.byAlias[s.cfg.Alias]; now == nil {
			done.Removed = append(done.Removed, s.cfg.Alias)
			p.replace(s, nil, errRemoved)
		} else if now != s {
			p.replace(s, now, errChanged)
		}
	}
	if p.ctx != nil && p.ctx.Err() == nil {
		for _, s := range fresh {
			p.start(s)
		}
	}
	return done, nil
}

// same reports whether a server that runs by s is what t asks for.
func (s Server) same(t Server) bool {
	return s.Launch == t.Launch && s.Launch != "" && s.PerOwner == t.PerOwner
}

// replace withdraws a server and the connections that owners have to it. What
// was wished for of it is wished for of next, or, where that is nil, of the one
// that may come back. It is called with mu held.
func (p *Pool) replace(s, next *server, why error) {
	own := p.own[s.cfg.Alias]
	delete(p.own, s.cfg.Alias)
	p.withdraw(s, why)
	if wish := s.wishes.now(); next != nil {
		next.wishes.adopt(wish)
	} else if len(wish.uris) > 0 {
		p.left[s.cfg.Alias] = wish
	}
	for owner, mine := range own {
		p.withdraw(mine, why)
		wish := mine.wishes.now()
		if len(wish.uris) == 0 || next == nil || !next.cfg.PerOwner || p.ctx.Err() != nil {
			continue // its next request begins anew
		}
		mine = p.startOwn(next, owner)
		mine.wishes.adopt(wish)
		poke(mine.wanted)
	}
}

// withdraw ends a server once the calls that it is working on have ended, or
// their time is over. It is called with mu held.
func (p *Pool) withdraw(s *server, why error) {
	idle, end := s.withdraw(why), p.ending[s]
	delete(p.ending, s)
	if end == nil || p.ctx.Err() != nil {
		return // it was never started, or ends with all the others
	}
	p.wg.Go(func() {
		bound := time.NewTimer(p.drain)
		defer bound.Stop()
		select {
		case <-idle:
		case <-bound.C:
		case <-p.ctx.Done():
		}
		end()
	})
}

// withdraw has the server take no calls any more. What it returns is closed
// once none is left.
func (s *server) withdraw(why error) (idle <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = why
	if s.inFlight == 0 {
		close(s.idle)
	}
	s.wake()
	return s.idle
}

// enter counts a call in, unless none is taken any more.
func (s *server) enter() *Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone != nil {
		return &Error{Server: s.cfg.Alias, Kind: Withdrawn, Err: s.gone}
	}
	s.inFlight++
	return nil
}

func (s *server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight--
	if s.inFlight == 0 && s.gone != nil {
		close(s.idle)
	}
}

// withdrew says of a call that was lost with a server that was withdrawn why
// that was.
func (s *server) withdrew(e *Error) *Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone != nil && e.Kind == Lost {
		e.Kind, e.Err, e.Hint = Withdrawn, s.gone, ""
	}
	return e
}

// retune tells a server that goes on what does not need another one.
func (s *server) retune(cfg Server) {
	s.terms.Store(&terms{cfg.CallTimeout, cfg.Lazy})
	if !cfg.Lazy {
		poke(s.wanted) // it may wait for its first call
	}
}

// adopt takes over what was wished for.
func (w *wishes) adopt(wish wish) {
	w.mu.Lock()
	w.level = wish.level
	w.mu.Unlock()
	for _, uri := range wish.uris {
		w.follow(uri, true)
	}
}
