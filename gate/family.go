package gate

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mcp-gate/mcp-gate/policy"
	"github.com/mcp-gate/mcp-gate/prefix"
)

// A session may work for another, its parent, as a sub-agent's does. Its
// authority is met with the parent's as it is at each call, rules about the
// parent's principal and scope hold for it too, its spend comes off the parent's
// account, what it reads marks the parent's conversation, and it is given the
// parent's list and prefix. The two
// need not share a process: a change of the parent's is in the store before it is
// answered, and the last record stands once the parent is gone.

// Given is what a session was given at its start and shares with those that
// work for it.
type Given struct {
	List   json.RawMessage `json:"list"`   // of tools
	Prefix [3]string       `json:"prefix"` // its blocks
}

// Adopt has the session's record kept from now on, and returns what a session
// that works for it is given.
func (s *Session) Adopt(ctx context.Context) (Given, error) {
	list, err := s.ListTools(ctx)
	if err != nil {
		return Given{}, err
	}
	return Given{list, s.Prefix().Blocks()}, s.keep(ctx)
}

// join returns the identity of a new session that works for another, and what the parent
// was given. Client, conversation, profile and exposure are the parent's, and so is the
// principal if the caller names none.
func (g *Gate) join(ctx context.Context, who Identity) (Identity, Given, error) {
	var given Given
	parent, err := g.session(ctx, who.Parent)
	switch {
	case err == nil && parent.here():
		given, err = parent.Adopt(ctx)
	case g.opts.Adopt != nil:
		// Another process may have it. If none has, its record stands.
		if given, err = g.opts.Adopt(ctx, who.Parent); err == nil {
			parent, err = g.session(ctx, who.Parent)
		}
	}
	if err != nil {
		return who, given, fmt.Errorf("work for session %s: %w", who.Parent, err)
	}
	of := parent.who
	if who.Profile != "" && who.Profile != of.Profile {
		return who, given, fmt.Errorf("a session that works for %s has its profile, %q, not %q", who.Parent, of.Profile, who.Profile)
	}
	who.Profile, who.Client, who.Conversation = of.Profile, of.Client, parent.taintAccount()
	if who.Principal == "" {
		who.Principal = of.Principal
	}
	who.Exposure, who.Sole = of.Exposure, of.Sole
	who.Account = parent.spendAccount()
	who.Over = append(slices.Clone(of.Over), parent.rank())
	return who, given, nil
}

// Kin are the ids of the sessions of this process and of the given ones, and of all that
// they work for. Their records and accounts are in use.
func (g *Gate) Kin(ctx context.Context, more ...string) []string {
	kin := map[string]bool{}
	add := func(id string) {
		for id != "" && !kin[id] {
			kin[id] = true
			s, err := g.session(ctx, id)
			if err != nil {
				return // it has left no record
			}
			kin[s.spendAccount()] = true
			id = s.who.Parent
		}
	}
	for _, s := range g.Sessions() {
		add(s.id)
	}
	for _, id := range more {
		add(id)
	}
	return slices.Sorted(maps.Keys(kin))
}

// here reports whether the session lives in this process.
func (s *Session) here() bool {
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	return s.g.live[s]
}

// spendAccount is the account that the session's spend is taken off.
func (s *Session) spendAccount() string {
	if s.who.Account != "" {
		return s.who.Account
	}
	return s.id
}

// take has the session start with what its parent was given.
func (s *Session) take(given Given) {
	if given.List != nil {
		p := prefix.Of(given.Prefix)
		s.list, s.prefix = given.List, &p
	}
}

// above is the parent's authority as it is now.
func (s *Session) above() policy.Combined {
	parent, err := s.g.session(context.Background(), s.who.Parent)
	if err != nil {
		s.g.opts.Log.Error("the session that this one works for is not known: nothing is allowed", "session", s.id, "parent", s.who.Parent, "error", err)
		return policy.Combined{} // permits nothing
	}
	return parent.authorityNow()
}

// under combines a session's authority with the parent's.
func under(above policy.Combined, sources policy.Sources) policy.Combined {
	sources.Parent = &above
	return sources.Combine()
}

// lately is like look, but the parent's authority may be as old as a second. It is for
// messages that are judged on the goroutine that reads a server, which must not wait
// for the store each time, and that use nothing up.
func (s *Session) lately() *sight {
	own := s.authority.Load()
	at := &sight{s: s, now: own.combined, spent: &spent{}}
	if s.who.Parent == "" {
		return at
	}
	now := s.g.opts.Now()
	s.side.mu.Lock()
	above := s.side.above
	if age := now.Sub(s.side.read); age < 0 || age >= time.Second {
		above = nil
	}
	s.side.mu.Unlock()
	if above == nil {
		above = new(s.above())
		s.side.mu.Lock()
		s.side.above, s.side.read = above, now
		s.side.mu.Unlock()
	}
	at.now = under(*above, own.sources)
	return at
}

// session returns a session of this process, or one made from the record of a session
// that lives elsewhere or has ended.
func (g *Gate) session(ctx context.Context, id string) (*Session, error) {
	for _, s := range g.Sessions() {
		if s.id == id {
			return s, nil
		}
	}
	raw, _, err := g.opts.Sessions.Session(ctx, id)
	if err != nil {
		return nil, err
	}
	var record sessionRecord
	if err := json.Unmarshal(raw, &record); err != nil {
		return nil, fmt.Errorf("read session %s: %w", id, err)
	}
	s, err := g.newSession(id, record.Identity)
	if err != nil {
		return nil, err
	}
	s.change(func(from policy.Sources) policy.Sources {
		from.Prompt, from.Engage = record.Prompt, record.Engage
		return from
	})
	return s, nil
}
