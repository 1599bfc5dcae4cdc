package gate

import (
	"encoding/json"
	"sync"

	"github.com/mcp-gate/mcp-gate/catalog"
)

// wardrobe is how a client that does not bear every definition knows the tools
// of one set.
type wardrobe struct {
	limits catalog.Limits
	set    *catalog.Set
	names  map[catalog.ToolID]string
	byName map[string]catalog.Entry

	mu   sync.Mutex // guards what follows
	worn map[catalog.ToolID]catalog.Tailored
}

// wardrobe is nil for a client that bears everything.
func (s *Session) wardrobe() *wardrobe {
	limits := s.g.opts.Clients[s.who.Client]
	if limits == (catalog.Limits{}) {
		return nil
	}
	set := s.set()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wears == nil || s.wears.set != set {
		s.wears = newWardrobe(limits, set, s.profile.Exposure, s.shows)
	}
	return s.wears
}

func newWardrobe(limits catalog.Limits, set *catalog.Set, exposure Exposure, shows func(server string) bool) *wardrobe {
	w := &wardrobe{limits: limits, set: set, names: map[catalog.ToolID]string{}, byName: map[string]catalog.Entry{}, worn: map[catalog.ToolID]catalog.Tailored{}}
	var ids []catalog.ToolID
	var plain, reserved []string
	var entries []catalog.Entry
	for i, e := range set.Entries() {
		if !shows(e.ID.Server) {
			continue
		}
		name := e.ID.Tool
		if exposure != Transparent {
			name = set.DirectName(i)
		}
		ids, plain, entries = append(ids, e.ID), append(plain, name), append(entries, e)
	}
	if exposure != Transparent {
		reserved = metaNames()
	}
	for i, name := range limits.Names(ids, plain, reserved...) {
		w.names[ids[i]], w.byName[name] = name, entries[i]
	}
	return w
}

// tailored is a tool as the client gets it, under the name that it has there.
func (w *wardrobe) tailored(e catalog.Entry) (catalog.Tailored, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t, ok := w.worn[e.ID]; ok {
		return t, nil
	}
	raw := e.Raw
	if name := w.names[e.ID]; name != e.ID.Tool {
		var err error
		if raw, err = e.Renamed(name); err != nil {
			return catalog.Tailored{}, err
		}
	}
	t, err := w.limits.Tailor(e.Tool, raw)
	if err == nil {
		w.worn[e.ID] = t
	}
	return t, err
}

// listed is a definition for a session's list. What is different in it is
// logged once.
func (w *wardrobe) listed(s *Session, e catalog.Entry) (json.RawMessage, error) {
	t, err := w.tailored(e)
	if err != nil {
		return nil, err
	}
	if len(t.Alterations) > 0 || w.limits.Name > 0 {
		s.g.opts.Log.Debug("a definition is fitted to the client", "client", s.who.Client, "tool", e.ID.String(), "name", w.names[e.ID], "alterations", len(t.Alterations))
	}
	return t.Raw, nil
}

// called finds what a client means by a name, and its arguments as the server
// wants them.
func (w *wardrobe) called(name string, args json.RawMessage) (catalog.Entry, json.RawMessage, bool) {
	e, ok := w.byName[name]
	if !ok || !w.limits.Strict || args == nil {
		return e, args, ok
	}
	t, err := w.tailored(e)
	if err != nil { // then it was in no list either
		return e, args, ok
	}
	return e, t.Own(args), ok
}

// tailoredMeta is a meta tool as the client gets it.
func (w *wardrobe) tailoredMeta(t metaTool) (json.RawMessage, error) {
	tool, err := catalog.NewTool("", t.raw)
	if err != nil {
		return nil, err
	}
	fitted, err := w.limits.Tailor(tool, t.raw)
	return fitted.Raw, err
}

// A Fitting is what a client gets of one tool that is not as its server gave it.
type Fitting struct {
	ID          catalog.ToolID       `json:"-"`
	Tool        string               `json:"tool"`
	Name        string               `json:"name"` // that the client knows it by
	Alterations []catalog.Alteration `json:"alterations"`
	Definition  json.RawMessage      `json:"definition"`
}

// Fittings says for each tool of a profile what the client called name gets
// that is not as its server gave it, where the real tools are listed.
func (g *Gate) Fittings(client string, exposure Exposure) ([]Fitting, error) {
	fittings := []Fitting{}
	w := newWardrobe(g.opts.Clients[client], g.Tools(), exposure, func(server string) bool {
		_, ok := g.ruling().servers[server]
		return ok
	})
	for i, e := range w.set.Entries() {
		if e.Raw == nil {
			continue
		}
		t, err := w.tailored(e)
		if err != nil {
			return nil, err
		}
		f := Fitting{ID: e.ID, Tool: e.ID.String(), Name: w.names[e.ID], Alterations: t.Alterations, Definition: t.Raw}
		plain := e.ID.Tool
		if exposure != Transparent {
			plain = w.set.DirectName(i)
		}
		if f.Name != plain {
			f.Alterations = append([]catalog.Alteration{{At: "name", What: "cut from " + plain}}, f.Alterations...)
		}
		if len(f.Alterations) > 0 {
			fittings = append(fittings, f)
		}
	}
	return fittings, nil
}
