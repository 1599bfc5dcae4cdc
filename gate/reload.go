package gate

import (
	"fmt"
	"maps"
	"slices"

	"github.com/mcp-gate/mcp-gate/catalog"
)

// ruling is the owner's settings that hold now, and what follows from them. It
// is immutable and replaced whole.
type ruling struct {
	Settings
	servers map[string]*Server // Settings.Servers, by their aliases
	aliases []string           // of servers, sorted
	gone    map[string]string  // servers that were taken out, by their aliases and their tools' direct names
}

func (o Settings) ruling() *ruling {
	r := &ruling{Settings: o, servers: map[string]*Server{}}
	for _, s := range o.Servers {
		r.servers[s.Alias] = &s
	}
	r.aliases = slices.Sorted(maps.Keys(r.servers))
	return r
}

func (g *Gate) ruling() *ruling { return g.owner.Load() }

// server is what the owner says of a server; zero for an unknown one, which
// permits nothing. It must not be changed.
func (g *Gate) server(alias string) *Server {
	if s := g.ruling().servers[alias]; s != nil {
		return s
	}
	return new(Server)
}

// Rule tells a running gate what the owner says now; [Settings.Check] has to have
// passed it. A call that was judged before goes on as it was judged; an approval
// of before is stale. Of a server that is started in another way than before, and
// of a new one, nothing counts but what is on record for what it is now. Sessions
// keep their lists and profiles.
func (g *Gate) Rule(o Settings) {
	next := o.ruling()
	g.mu.Lock()
	was := g.ruling()
	next.gone = g.missing(was, next)
	g.owner.Store(next)
	var moved []string
	for alias := range was.servers {
		if _, ok := next.servers[alias]; !ok {
			delete(g.offered, alias)
			moved = append(moved, alias)
		}
	}
	for alias, s := range next.servers {
		before, ok := was.servers[alias]
		if !ok || before.ID != s.ID || before.Launch != s.Launch {
			delete(g.offered, alias)
			if known, ok := g.onRecord(alias); ok {
				g.offered[alias] = known
			}
			moved = append(moved, alias)
			continue
		}
		if offered, ok := g.offered[alias]; ok {
			entries, classes := make([]catalog.Entry, len(offered.entries)), g.accepted(s)
			for i, e := range offered.entries {
				entries[i] = reclassed(s, e, classes)
			}
			offered.entries = entries
			g.offered[alias] = offered
		}
	}
	g.renew()
	g.mu.Unlock()
	for _, alias := range moved {
		for kind := range kinds {
			g.features.shelf(shelfKey{alias, kind}).clear()
		}
		g.listChanged(alias)
	}
}

// missing are the aliases of servers that were taken out, and the direct names of their
// tools, each with the alias: a client that still uses one is told why it is gone.
// Called with mu held.
func (g *Gate) missing(was, next *ruling) map[string]string {
	gone := map[string]string{}
	for name, alias := range was.gone {
		if _, back := next.servers[alias]; !back {
			gone[name] = alias
		}
	}
	for alias := range was.servers {
		if _, stays := next.servers[alias]; !stays {
			gone[alias] = alias
		}
	}
	set := g.set.Load()
	for i, e := range set.Entries() {
		if _, left := gone[e.ID.Server]; left {
			gone[set.DirectName(i)] = e.ID.Server
		}
	}
	return gone
}

// whyGone says why there is no tool of a name, as a client wrote it: its server was
// taken out of the configuration, or cannot be used as it is configured. It is nil
// where neither is so.
func (s *Session) whyGone(name string) error {
	now := s.g.ruling()
	alias := now.gone[name]
	switch {
	case s.sole != "":
		alias = s.sole
	case alias == "":
		alias = now.missingOf(name)
	}
	if !s.profile.includes(alias) {
		return nil
	}
	if why, ok := now.LeftOut[alias]; ok {
		return fmt.Errorf("server %s cannot be used as its owner configured it: %s", alias, why)
	}
	if _, ok := now.gone[alias]; ok {
		return fmt.Errorf("its owner took server %s out of the configuration", alias)
	}
	return nil
}

// missingOf is the server of a tool's name in any spelling, if that server is left out or
// gone; else "".
func (r *ruling) missingOf(name string) string {
	missing := func(alias string) bool {
		_, left := r.LeftOut[alias]
		return left || r.gone[alias] == alias
	}
	for _, id := range catalog.Spelled(name) {
		if missing(id.Server) {
			return id.Server
		}
	}
	for i := min(len(name), 200); i > 0; i-- { // a direct name, of which no tool was ever known
		if i < len(name) && name[i] != '_' {
			continue
		}
		alias := catalog.Alias(name[:i])
		if _, there := r.servers[alias]; there {
			return ""
		}
		if missing(alias) {
			return alias
		}
	}
	return ""
}

// accepted are the classes of a server's accepted tools under the owner's settings of
// now; nil where acceptance is off.
func (g *Gate) accepted(s *Server) map[catalog.ToolID]catalog.Class {
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

// reclassed is an entry with its class under the owner's settings of now.
func reclassed(s *Server, e catalog.Entry, accepted map[catalog.ToolID]catalog.Class) catalog.Entry {
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
