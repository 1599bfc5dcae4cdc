package gate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/internal/ids"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
	"github.com/mcp-gate/mcp-gate/prefix"
)

// Session is one client's way through the gate: a pipe, a legacy HTTP session,
// or a token on a profile's path. Safe for concurrent use.
type Session struct {
	g       *Gate
	id      string // "s_" and 26 base32 characters
	who     Identity
	profile Profile
	sole    string        // the one server that transparent exposure shows
	changed chan struct{} // see Changed
	side    side          // what it keeps of features beside the tools
	taint   taint         // what it has read
	greeted sync.Once     // waits for the server; see server

	listing sync.Mutex      // guards list, prefix and given; held while the first ones are put together
	list    json.RawMessage // what was given, frozen
	prefix  *prefix.Prefix  // the same
	given   *catalog.Set    // what both are made of: of one moment, whichever is asked for first

	keeping sync.Mutex // held while its record is written, so that the newest comes last

	authority atomic.Pointer[authority] // changed with mu held
	wrote     atomic.Bool               // a write ran
	count     atomic.Int64              // of calls, for their ids

	mu       sync.Mutex  // guards what follows; never held across a call
	kept     bool        // its record is stored, and kept up to date
	lastView *clientView // what clientView returned last
	bare     []string    // servers that had listed nothing when the list was given
	unproven bool        // an answer came that no person gave
}

// Open starts a session. An unknown profile, or parent, is an error that names
// it. A session with a parent has the parent's profile and client.
func (g *Gate) Open(ctx context.Context, who Identity) (*Session, error) {
	id, err := ids.New("s_", g.opts.Rand)
	if err != nil {
		return nil, err
	}
	var given Given
	if who.Parent != "" {
		if who, given, err = g.join(ctx, who); err != nil {
			return nil, err
		}
	}
	s, err := g.newSession(id, who)
	if err != nil {
		return nil, err
	}
	s.take(given)
	note := fmt.Sprintf("opened: scope %v", who.Scope)
	if who.Profile != "" {
		note += fmt.Sprintf(", profile %q", who.Profile)
	}
	note += fmt.Sprintf(", exposure %s", s.profile.Exposure)
	if who.Parent != "" {
		note += ", for " + who.Parent
	}
	if err := g.opts.Audit.Record(audit.Event{Kind: audit.Session, Session: id, Principal: who.Principal, Client: who.Client, Note: note}); err != nil {
		return nil, fmt.Errorf("open a session: %w", err)
	}
	g.mu.Lock()
	g.live[s] = true
	g.mu.Unlock()
	return s, nil
}

func (g *Gate) newSession(id string, who Identity) (s *Session, err error) {
	now := g.ruling()
	p, ok := now.Profiles[who.Profile]
	if !ok {
		return nil, fmt.Errorf("there is no profile %q", who.Profile)
	}
	p.Exposure = cmp.Or(who.Exposure, p.Exposure, Meta)
	if p.Exposure == Transparent {
		if who.Sole != "" {
			if !p.includes(who.Sole) {
				return nil, fmt.Errorf("profile %q does not show server %q any more", who.Profile, who.Sole)
			}
			p.Servers = []string{who.Sole}
		}
		if who.Sole, err = now.sole(p); err != nil {
			return nil, fmt.Errorf("profile %q: %w", who.Profile, err)
		}
		p.Servers = []string{who.Sole}
	}
	who.Exposure = p.Exposure
	s = &Session{g: g, id: id, who: who, profile: p, sole: who.Sole, changed: make(chan struct{})}
	s.authority.Store(g.launch(p, who))
	return s, nil
}

// ID names the session in the audit log and in status.
func (s *Session) ID() string { return s.id }

// Principal is on whose behalf the session acts.
func (s *Session) Principal() string { return s.who.Principal }

// Parent is the id of the session that this one works for, "" for none.
func (s *Session) Parent() string { return s.who.Parent }

// Close ends the session. Questions that are open in it lead nowhere any more.
func (s *Session) Close() {
	if !s.g.forget(s) {
		return
	}
	s.leave()
	s.g.writeDown(audit.Event{Kind: audit.Session, Session: s.id, Principal: s.who.Principal, Note: "closed"})
}

// Instructions is the text that a client gives its model at the start.
func (s *Session) Instructions() string {
	if s.profile.Exposure == Transparent {
		return s.ownText()
	}
	return prefix.Instructions(instructions, s.texts())
}

// ServerInfo is the gate's own, or in transparent exposure the server's.
func (s *Session) ServerInfo() json.RawMessage {
	if s.profile.Exposure == Transparent {
		if info := s.server().Info; info != nil {
			return info
		}
	}
	b := []byte(`{"name":`)
	b = strictjson.AppendString(b, s.g.opts.Name)
	b = append(b, `,"version":`...)
	b = strictjson.AppendString(b, s.g.opts.Version)
	return append(b, '}')
}

// server is what the one server of a transparent session says of itself. The first time
// it is waited for: as long as for a list, or, where the server is on record and only
// its name is missing, as long as for a search.
func (s *Session) server() About {
	s.greeted.Do(func() {
		s.g.want()
		s.g.mu.Lock()
		_, known := s.g.offered[s.sole]
		s.g.mu.Unlock()
		wait := s.g.opts.FirstList
		if known {
			wait = s.g.opts.FirstFind
		}
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		if s.g.opts.Caller.Shown(ctx, s.sole); !known && ctx.Err() != nil {
			s.g.noteSilent([]string{s.sole})
		}
	})
	return s.g.opts.Caller.About(s.sole)
}

// ownText is the accepted instructions of the one server of a transparent session as
// the server gave them, or why there are none.
func (s *Session) ownText() string {
	if gone := s.whyGone(s.sole); gone != nil {
		return "No tools are here: " + gone.Error() + "."
	}
	about := s.server()
	if s.g.opts.Acceptance == nil {
		return about.Instructions
	}
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	return s.g.offered[s.sole].whole
}

// Capabilities are those of the one server of a transparent session, as far as
// the gate carries them. Any other session has the gate's own, which are the same
// whichever servers are up.
func (s *Session) Capabilities() json.RawMessage {
	const all = `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"completions":{},"logging":{},"extensions":{"` + extTasks + `":{}}}`
	if s.profile.Exposure != Transparent {
		return json.RawMessage(all)
	}
	theirs := s.server().Capabilities
	if len(theirs) == 0 || theirs[0] != '{' {
		return json.RawMessage(all)
	}
	b := []byte{'{'}
	for m, err := range strictjson.Object(theirs) {
		if err != nil {
			return json.RawMessage(all)
		}
		if m.Name == "extensions" && m.Value[0] == '{' { // what else a server has is between it and its own client
			if _, has, _ := strictjson.Get(m.Value, extTasks); has {
				m.Value = json.RawMessage(`{"` + extTasks + `":{}}`)
			} else {
				continue
			}
		} else if !slices.Contains([]string{"tools", "resources", "prompts", "completions", "logging"}, m.Name) || string(m.Value) == "null" {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(strictjson.AppendString(b, m.Name), ':')
		b = append(b, m.Value...)
	}
	if len(b) == 1 { // it is asked for its tools all the same
		b = append(b, `"tools":{}`...)
	}
	return append(b, '}')
}

// instructions lead a model to the tools. At most 1 KB; a change of it changes
// every client's prompt.
const instructions = `This server is a gate in front of all the tools the person has. The tools themselves are not listed here: find_tools finds them by what they do, load_tool gives their exact definitions, call_tool_read calls one that only reads, call_tool calls any.

Begin with the question, not with a tool. Load only what you need, several at once. Every call is judged by the owner's policy: it runs, a person is asked about exactly these arguments, or it is refused with a reason in the form "refused [code]: ...". A refusal or a person's no is final: do not look for a way round it, say what is left undone. State only what came back from tools.`

// ListTools returns the array of definitions that the client is given. It
// depends on configuration, definitions and launch alone, and stays the same
// for the life of the session. Where real tools are shown it waits, up to
// Options.FirstList, for the servers to have answered once.
func (s *Session) ListTools(ctx context.Context) (json.RawMessage, error) {
	s.listing.Lock()
	defer s.listing.Unlock()
	if s.list == nil {
		s.list = s.newList(ctx)
	}
	s.g.want()
	return s.list, nil
}

func (s *Session) newList(ctx context.Context) json.RawMessage {
	list := []byte{'['}
	add := func(raw json.RawMessage) {
		if len(list) > 1 {
			list = append(list, ',')
		}
		list = append(list, raw...)
	}
	exposure := s.profile.Exposure
	if exposure != Meta {
		if late := s.g.await(ctx, s.g.opts.FirstList, s.aliases()...); late {
			s.g.tellWhenSettled(s)
			if ctx.Err() == nil { // it was waited for to the end
				s.g.noteSilent(s.aliases())
			}
		}
		bare := s.g.bare(s.aliases())
		s.mu.Lock()
		s.bare = bare
		s.mu.Unlock()
		size := 16 << 10 // of the gate's own tools
		for _, e := range s.givenSet().Entries() {
			if s.shows(e.ID.Server) {
				size += len(e.Raw) + 64
			}
		}
		list = slices.Grow(list, size)
		s.addReal(exposure, add)
	}
	if exposure != Transparent {
		s.addMeta(add)
	}
	return append(list, ']')
}

// addReal adds the definitions of the servers' own tools.
func (s *Session) addReal(exposure Exposure, add func(json.RawMessage)) {
	set, v, left, at := s.givenSet(), s.clientView(), 0, s.launched()
	for i, e := range set.Entries() {
		f, known := s.judged(&at, e, true)
		if !known || e.Raw == nil || f.aside && exposure == Direct {
			continue
		}
		raw, err := e.Raw, error(nil)
		switch first, _ := set.ByDirectName(set.DirectName(i)); {
		case exposure == Direct && first.ID != e.ID: // two of one name cost a client the whole list
			err = fmt.Errorf("%v has the same direct name", first.ID)
		case v != nil:
			raw, err = v.listed(s, e)
		case exposure == Direct:
			raw, err = e.Renamed(set.DirectName(i))
		}
		switch {
		case err != nil || exposure != Direct:
		case v != nil:
			err = catalog.Listable(raw)
		default:
			err = e.Listable()
		}
		if err == nil {
			if exposure == Direct {
				raw = catalog.Listed(raw)
			}
			add(raw)
			continue
		}
		if left++; left <= toldOf {
			s.g.opts.Log.Warn("a tool is left out of the list", "tool", e.ID.String(), "error", err)
		}
	}
	if left > toldOf {
		s.g.opts.Log.Warn("more tools are left out of the list", "tools", left-toldOf, "try", "mcp-gate tools ls")
	}
}

// addMeta adds the definitions of the gate's own tools.
func (s *Session) addMeta(add func(json.RawMessage)) {
	v := s.clientView()
	for _, t := range metaTools {
		raw := t.raw
		if v != nil {
			var err error
			if raw, err = v.metaTool(t); err != nil {
				s.g.opts.Log.Warn("a tool is left out of the list", "tool", t.name, "error", err)
				continue
			}
		}
		add(raw)
	}
}

// Changed is closed, at most once, when a list that was given before all servers had
// answered is out of date. The next list is complete. A server that listed nothing, and
// of which nothing is on record, may still be warming up: it counts as one that has not
// answered.
func (s *Session) Changed() <-chan struct{} { return s.changed }

// outdated drops the list that was given too early. It does so once in a session.
func (s *Session) outdated() {
	s.listing.Lock()
	defer s.listing.Unlock()
	select {
	case <-s.changed:
	default:
		s.list, s.prefix, s.given = nil, nil, nil
		close(s.changed)
	}
}

// noLongerBare notes that a server lists tools now. Where it had none in the list
// that the client was given, that list is given anew.
func (s *Session) noLongerBare(server string) {
	s.mu.Lock()
	early := slices.Contains(s.bare, server)
	s.bare = slices.DeleteFunc(s.bare, func(alias string) bool { return alias == server })
	s.mu.Unlock()
	if early {
		s.outdated()
	}
}

func (s *Session) set() *catalog.Set { return s.g.set.Load() }

// givenSet is the set that list and prefix are made of. Called with listing held.
func (s *Session) givenSet() *catalog.Set {
	if s.given == nil {
		s.given = s.set()
	}
	return s.given
}

// shows reports whether a server is configured and the session's profile includes it.
func (s *Session) shows(alias string) bool {
	_, ok := s.g.ruling().servers[alias]
	return ok && s.profile.includes(alias)
}

// aliases are the servers that the session shows now, sorted. Where its profile
// names none they come and go with the owner's configuration.
func (s *Session) aliases() []string { return s.g.ruling().of(s.profile) }

// tool returns a tool of a server that the session shows.
func (s *Session) tool(id catalog.ToolID) (*catalog.Entry, bool) {
	if !s.shows(id.Server) {
		return nothing, false
	}
	if _, beside := carries[id.Tool]; beside {
		return s.aside(id.Server, id.Tool, nil).entry, true
	}
	if entry, ok := s.set().ByID(id); ok {
		return entry, true
	}
	return nothing, false
}

// nextCall names a call in the audit log.
func (s *Session) nextCall() string {
	var room [32]byte
	id := append(append(room[:0], s.id[:10]...), '.')
	return string(strconv.AppendInt(id, s.count.Add(1), 10))
}

// distrust records that this client answers without a person.
func (s *Session) distrust() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unproven = true
}
