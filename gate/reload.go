package gate

import (
	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/policy"
)

// ruling is what the owner says, as far as a running gate may be told anew. It
// is immutable and replaced whole.
type ruling struct {
	rules    *policy.Rules
	fallback engagement.GateFallback
	least    map[engagement.Permission]policy.Level
	spend    engagement.Spend
	version  string
	servers  map[string]Server
}

func (o Options) ruling() *ruling {
	r := &ruling{rules: o.Rules, fallback: o.Fallback, least: o.Least, spend: o.Spend, version: o.PolicyVersion, servers: map[string]Server{}}
	for _, s := range o.Servers {
		r.servers[s.Alias] = s
	}
	return r
}

func (g *Gate) ruling() *ruling { return g.owner.Load() }

// server is what the owner says of a server; zero for an unknown one, which
// permits nothing.
func (g *Gate) server(alias string) Server { return g.ruling().servers[alias] }

// Rule tells a running gate what the owner says now: rules, flags, spend,
// proof, fallback, and what is said of each server that it has. A call that
// was judged before goes on as it was judged; an approval of before is stale.
// Servers that are new or gone are not looked at: which ones run is settled at
// the start.
func (g *Gate) Rule(o Options) {
	next := o.ruling()
	for alias, s := range g.ruling().servers {
		now, ok := next.servers[alias]
		if !ok {
			now = s
		}
		now.ID, now.Launch, now.Dir = s.ID, s.Launch, s.Dir // of the one that runs
		next.servers[alias] = now
	}
	for alias := range next.servers {
		if _, runs := g.ruling().servers[alias]; !runs {
			delete(next.servers, alias)
		}
	}
	g.owner.Store(next)
	g.mu.Lock()
	defer g.mu.Unlock()
	for alias, offered := range g.offered {
		entries := make([]catalog.Entry, len(offered.entries))
		classes := g.accepted(next.servers[alias])
		for i, e := range offered.entries {
			entries[i] = reclassed(next.servers[alias], e, classes)
		}
		offered.entries = entries
		g.offered[alias] = offered
	}
	g.renew()
}

// accepted are the classes of a server's accepted tools under the owner's
// present word; nil where nothing is accepted.
func (g *Gate) accepted(s Server) map[catalog.ToolID]catalog.Class {
	if g.opts.Acceptance == nil {
		return nil
	}
	classes := map[catalog.ToolID]catalog.Class{}
	known, _, _ := g.opts.Acceptance.Known(s.Alias)
	for _, e := range known {
		classes[e.ID] = e.Class
	}
	return classes
}

// reclassed is an entry under the owner's present word, over the class that was
// accepted with it.
func reclassed(s Server, e catalog.Entry, accepted map[catalog.ToolID]catalog.Class) catalog.Entry {
	if e.Raw == nil {
		return e
	}
	class, ok := accepted[e.ID]
	if !ok {
		class = catalog.Classify(e.Tool, s.Trust, s.owner(e.ID.Tool))
	}
	e.Class = class
	return e
}
