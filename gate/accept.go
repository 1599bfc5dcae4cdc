package gate

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/policy"
	"github.com/mcp-gate/mcp-gate/prefix"
)

// Acceptance is the record of the definitions that a person, or the first
// sight of a server, accepted. It must be safe for concurrent use.
type Acceptance interface {
	// Known returns what is on record for a server, without asking the server. No
	// entries: nothing was accepted yet. Bare: the server was seen and had no tools,
	// or was Silent.
	Known(server string) (entries []catalog.Entry, instructions string, bare bool)
	// Silent records that a list waited in vain for a server of which nothing is on
	// record, so that the next start does not wait for it again.
	Silent(server string)
	// Offer judges what a server shows now against the record, records a first
	// sight, and returns what Known returns after that.
	Offer(server string, o catalog.Offer) (j catalog.Judgement, entries []catalog.Entry, instructions string)
}

// offering is what the gate holds of one server.
type offering struct {
	entries      []catalog.Entry // accepted bytes; a tool that was never accepted has none
	states       map[catalog.ToolID]catalog.State
	why          map[catalog.ToolID]string // for a person, of what is not accepted
	moved        map[catalog.ToolID]bool   // accepted of this server as it was started before
	instructions string                    // accepted; of a long text what the record keeps
	whole        string                    // the same, all of it where the server has shown it
	live         bool                      // the server has listed its tools since this gate started
}

// recall loads what is on record for each server, so that lists and searches need no
// server to be up. Each definition is a file. The servers' are read side by side, since
// every start waits for them.
func (g *Gate) recall() {
	if g.opts.Acceptance == nil {
		return
	}
	var mu sync.Mutex // guards offered, which nobody else has yet
	var all sync.WaitGroup
	for alias := range g.ruling().servers {
		all.Go(func() {
			if known, ok := g.onRecord(alias); ok {
				mu.Lock()
				defer mu.Unlock()
				g.offered[alias] = known
			}
		})
	}
	all.Wait()
	g.renew()
}

// onRecord is what is accepted of a server that has not been looked at.
func (g *Gate) onRecord(alias string) (offering, bool) {
	if g.opts.Acceptance == nil {
		return offering{}, false
	}
	entries, text, bare := g.opts.Acceptance.Known(alias)
	return offering{entries: entries, instructions: text, whole: text}, bare || len(entries) > 0
}

// Offer takes the definitions a server lists now, in the server's order. An
// entry that is no definition is reported and left out; a tool that is not
// what was accepted is held. Neither costs the others anything.
func (g *Gate) Offer(server string, definitions []json.RawMessage) {
	s, ok := g.ruling().servers[server]
	if !ok {
		return
	}
	var tools []catalog.Tool
	left := 0 // servers exist that list thousands of things that are no tools, again and again
	for i, raw := range definitions {
		t, err := catalog.NewTool(server, raw)
		if _, taken := carries[t.ID.Tool]; err == nil && taken {
			err = errors.New("what it is called stands for something else")
		}
		if err == nil {
			tools = append(tools, t)
			continue
		}
		if left++; left <= toldOf {
			g.opts.Log.Warn("a tool is left out", "server", server, "index", i, "error", err)
		}
	}
	if left > toldOf {
		g.opts.Log.Warn("more tools are left out", "server", server, "tools", left-toldOf)
	}
	now := g.compared(s, tools)
	g.mu.Lock()
	g.offered[server] = now
	g.renew()
	g.mu.Unlock()
	if len(now.entries) > 0 {
		for _, s := range g.Sessions() {
			s.noLongerBare(server)
		}
	}
}

// bare returns the servers that have no tools now, but may have some later: those that
// answered with none, and those that were added while the gate runs and have not
// answered yet.
func (g *Gate) bare(servers []string) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(servers), func(alias string) bool {
		o, known := g.offered[alias]
		return !known && !g.settled || len(o.entries) > 0
	})
}

// toldOf is how many tools of one list the log says something of.
const toldOf = 20

// compared is what a server shows, held against the record.
func (g *Gate) compared(s *Server, tools []catalog.Tool) offering {
	g.mu.Lock()
	before := g.offered[s.Alias].states
	g.mu.Unlock()
	now := offering{states: map[catalog.ToolID]catalog.State{}, why: map[catalog.ToolID]string{}, moved: map[catalog.ToolID]bool{}, live: true}
	if g.opts.Acceptance == nil {
		for _, t := range tools {
			now.entries = append(now.entries, catalog.Entry{Tool: t, Class: catalog.Classify(t, s.Trust, s.owner(t.ID.Tool))})
		}
		return now
	}
	o := catalog.NewOffer(tools, s.Trust, g.opts.Caller.About(s.Alias).Instructions, g.acceptedTools())
	o.Key, o.ServerID, o.Manual = s.Key, s.ID, s.Manual
	j, entries, text := g.opts.Acceptance.Offer(s.Alias, o)
	now.entries, now.instructions, now.whole = entries, text, text
	if j.Instructions.State == catalog.Accepted {
		now.whole = j.Instructions.Text
	}
	var fresh []catalog.Status // tools that are held now and were not held before
	known := map[catalog.ToolID]bool{}
	for _, e := range entries {
		known[e.ID] = true
	}
	for _, st := range j.Tools {
		now.states[st.ID] = st.State
		if st.State != catalog.Accepted {
			now.why[st.ID] = st.Why
			now.moved[st.ID] = st.State == catalog.New && st.Pinned != ""
		}
		if st.State != catalog.Accepted && st.State != before[st.ID] {
			fresh = append(fresh, st)
		}
		if !known[st.ID] {
			// Its name may be told; no other word of a stranger's.
			now.entries = append(now.entries, catalog.Entry{Tool: catalog.Tool{ID: st.ID}})
		}
	}
	if len(fresh) > 0 && !g.opts.Quiet { // accept says of each why
		g.opts.Log.Warn("tools are held back", "server", s.Alias, "tools", len(fresh), "first", fresh[0].ID.String(), "state", fresh[0].State, "why", fresh[0].Why, "try", "mcp-gate accept")
	}
	return now
}

func (s Server) owner(tool string) catalog.Override {
	if s.Owner == nil {
		return catalog.Override{}
	}
	return s.Owner(tool)
}

// acceptedTools are the accepted tools of all servers.
func (g *Gate) acceptedTools() []catalog.Tool {
	g.mu.Lock()
	defer g.mu.Unlock()
	var accepted []catalog.Tool
	for _, o := range g.offered {
		for _, e := range o.entries {
			if e.Raw != nil {
				accepted = append(accepted, e.Tool)
			}
		}
	}
	return accepted
}

// renew makes the set of all tools anew. Called with mu held.
func (g *Gate) renew() {
	var all []catalog.Entry
	pins := map[catalog.ToolID]policy.Pin{}
	for _, o := range g.offered {
		all = append(all, o.entries...)
		for id, state := range o.states {
			if pins[id] = policy.Pin(state); o.moved[id] {
				pins[id] = policy.PinMoved
			}
		}
	}
	g.pins.Store(&pins)
	g.set.Store(catalog.NewSet(all, metaNames()...))
}

// pin says whether a tool's definition is the accepted one. It is taken to be until the
// server has shown another.
func (g *Gate) pin(id catalog.ToolID) policy.Pin {
	if pin, ok := (*g.pins.Load())[id]; ok {
		return pin
	}
	return policy.PinAccepted
}

// StateOf is the state of a tool's definition, and for a person the reason why it is
// not accepted. The state is 0 while the server has shown nothing yet.
func (g *Gate) StateOf(id catalog.ToolID) (state catalog.State, why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	o := g.offered[id.Server]
	return o.states[id], o.why[id]
}

// verify waits until a server has shown its definitions to this gate, and reports
// whether it has. Nothing runs before: it must be what was accepted.
func (g *Gate) verify(ctx context.Context, server string) bool {
	if g.offering(server).live {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, g.opts.FirstList)
	defer cancel()
	g.opts.Caller.Shown(ctx, server)
	return g.offering(server).live
}

func (g *Gate) offering(server string) offering {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.offered[server]
}

// texts are the accepted instructions of the servers that a session shows.
func (s *Session) texts() []prefix.ServerText {
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	var texts []prefix.ServerText
	for _, alias := range s.aliases() {
		if text := s.g.offered[alias].instructions; text != "" {
			texts = append(texts, prefix.ServerText{Server: alias, Text: text})
		}
	}
	return texts
}

// Prefix is the bytes that a conversation in this session begins with. It
// depends on the build, the configuration, the accepted definitions and the
// launch, and on nothing that moves. Once given it stays the same for the life
// of the session.
func (s *Session) Prefix() prefix.Prefix {
	s.listing.Lock()
	defer s.listing.Unlock()
	if s.prefix == nil {
		p := s.newPrefix()
		s.prefix = &p
	}
	return *s.prefix
}

func (s *Session) newPrefix() prefix.Prefix {
	parts := s.g.opts.Prefix
	parts.Direct = s.profile.Exposure == Direct
	at := s.launched()
	for _, e := range s.givenSet().Entries() {
		if f, known := s.judged(&at, e, true); known && !f.aside && e.Raw != nil {
			parts.Tools = append(parts.Tools, e)
		}
	}
	return prefix.Build(parts)
}
