package gate

import (
	"encoding/json"
	"sync"

	"github.com/mcp-gate/mcp-gate/catalog"
)

// clientView is one set of tools as a client with limits gets it: the owner set how
// long its names and descriptions may be, and whether its schemas are strict.
type clientView struct {
	limits catalog.Limits
	set    *catalog.Set
	names  map[catalog.ToolID]string // that the client knows the tools by
	byName map[string]catalog.Entry

	mu   sync.Mutex // guards what follows
	made map[catalog.ToolID]catalog.Tailored
}

// clientView returns how this session's client gets the tools that are known now;
// nil for a client without limits, which gets them as they are.
func (s *Session) clientView() *clientView {
	limits := s.g.opts.Clients[s.who.Client]
	if limits == (catalog.Limits{}) {
		return nil
	}
	set := s.set()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lastView == nil || s.lastView.set != set {
		s.lastView = newClientView(limits, set, s.profile.Exposure, s.shows)
	}
	return s.lastView
}

func newClientView(limits catalog.Limits, set *catalog.Set, exposure Exposure, shows func(server string) bool) *clientView {
	v := &clientView{limits: limits, set: set, names: map[catalog.ToolID]string{}, byName: map[string]catalog.Entry{}, made: map[catalog.ToolID]catalog.Tailored{}}
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
		v.names[ids[i]], v.byName[name] = name, entries[i]
	}
	return v
}

// tool returns a tool as the client gets it, under the client's name for it.
func (v *clientView) tool(e catalog.Entry) (catalog.Tailored, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if t, ok := v.made[e.ID]; ok {
		return t, nil
	}
	raw := e.Raw
	if name := v.names[e.ID]; name != e.ID.Tool {
		var err error
		if raw, err = e.Renamed(name); err != nil {
			return catalog.Tailored{}, err
		}
	}
	t, err := v.limits.Tailor(e.Tool, raw)
	if err == nil {
		v.made[e.ID] = t
	}
	return t, err
}

// listed returns a definition for a session's list and logs what was changed in it.
func (v *clientView) listed(s *Session, e catalog.Entry) (json.RawMessage, error) {
	t, err := v.tool(e)
	if err != nil {
		return nil, err
	}
	if len(t.Alterations) > 0 || v.limits.Name > 0 {
		s.g.opts.Log.Debug("a definition is fitted to the client", "client", s.who.Client, "tool", e.ID.String(), "name", v.names[e.ID], "alterations", len(t.Alterations))
	}
	return t.Raw, nil
}

// called finds what a client means by a name, and its arguments as the server
// wants them.
func (v *clientView) called(name string, args json.RawMessage) (catalog.Entry, json.RawMessage, bool) {
	e, ok := v.byName[name]
	if !ok || !v.limits.Strict || args == nil {
		return e, args, ok
	}
	t, err := v.tool(e)
	if err != nil { // then it was in no list either
		return e, args, ok
	}
	return e, t.Own(args), ok
}

// metaTool returns a meta tool as the client gets it.
func (v *clientView) metaTool(t metaTool) (json.RawMessage, error) {
	tool, err := catalog.NewTool("", t.raw)
	if err != nil {
		return nil, err
	}
	fitted, err := v.limits.Tailor(tool, t.raw)
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
	v := newClientView(g.opts.Clients[client], g.Tools(), exposure, func(server string) bool {
		_, ok := g.ruling().servers[server]
		return ok
	})
	for i, e := range v.set.Entries() {
		if e.Raw == nil {
			continue
		}
		t, err := v.tool(e)
		if err != nil {
			return nil, err
		}
		f := Fitting{ID: e.ID, Tool: e.ID.String(), Name: v.names[e.ID], Alterations: t.Alterations, Definition: t.Raw}
		plain := e.ID.Tool
		if exposure != Transparent {
			plain = v.set.DirectName(i)
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
