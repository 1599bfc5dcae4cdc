package gate

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
	"github.com/mcp-gate/mcp-gate/policy"
)

// Kind is a kind of list that a server offers beside its tools.
type Kind uint8

// The kinds of list.
const (
	Prompts Kind = iota + 1
	Resources
	Templates
)

// kinds says for each kind how it is asked for, which member of the result
// holds the list, which member of an entry names it, the capability that must
// have been declared, and the request by which an entry is used.
var kinds = map[Kind]struct{ method, list, key, capability, use string }{
	Prompts:   {"prompts/list", "prompts", "name", "prompts", "prompts/get"},
	Resources: {"resources/list", "resources", "uri", "resources", "resources/read"},
	Templates: {"resources/templates/list", "resourceTemplates", "uriTemplate", "resources", "resources/read"},
}

// item is one entry of a list, in the server's own bytes.
type item struct {
	key     string
	raw     json.RawMessage
	classes engagement.EgressSet // found in its texts, each by itself: entries side by side are rows
}

// shelf is the list of one kind that one server gave last.
type shelf struct {
	turn chan struct{} // held while the list is fetched

	mu    sync.Mutex // guards what follows
	items []item
	good  bool          // a list came
	stale bool          // it may have changed since
	start int           // About.Start of the server that gave it
	until time.Time     // when it is out of date, if the server said so; else zero
	ttl   time.Duration // how long it keeps, if the server said so; else negative
}

type shelfKey struct {
	server string
	kind   Kind
}

// features holds the lists of servers, other than their tools.
type features struct {
	mu      sync.Mutex // guards what follows; never held across a call
	shelves map[shelfKey]*shelf
	changed map[string]bool // servers with a list that may have changed
	wake    chan struct{}
}

func (f *features) shelf(k shelfKey) *shelf {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shelves == nil {
		f.shelves = map[shelfKey]*shelf{}
	}
	sh := f.shelves[k]
	if sh == nil {
		sh = &shelf{turn: make(chan struct{}, 1), ttl: -1}
		f.shelves[k] = sh
	}
	return sh
}

func (f *features) waker() chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wake == nil {
		f.wake = make(chan struct{}, 1)
	}
	return f.wake
}

// Bounds of one list of one server.
const (
	maxListPages = 1000
	maxEmptyList = 10 // pages in a row
	maxListBytes = 64 << 20
)

// items returns a server's list of a kind. Where the last list may be out of date a new
// one is fetched; if that fails it is the last one again. A server that does not declare
// the capability is not asked.
func (g *Gate) items(ctx context.Context, server string, kind Kind) []item {
	about := g.opts.Caller.About(server)
	declared, _, err := strictjson.Get(orEmpty(about.Capabilities), kinds[kind].capability)
	if err != nil || declared == nil || string(declared) == "null" {
		return nil
	}
	told, _, _ := strictjson.Get(orEmpty(declared), "listChanged")
	sh := g.features.shelf(shelfKey{server, kind})
	if items, ok := sh.fresh(about.Start, string(told) == "true", g.opts.Now()); ok {
		return items
	}
	select {
	case sh.turn <- struct{}{}:
		defer func() { <-sh.turn }()
	case <-ctx.Done():
		return sh.last()
	}
	if items, ok := sh.fresh(about.Start, string(told) == "true", g.opts.Now()); ok {
		return items // somebody else was faster
	}
	sh.mu.Lock()
	sh.stale = false // a change that is told from now on counts
	sh.mu.Unlock()
	items, ttl, err := g.fetch(ctx, server, kind)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if err != nil {
		sh.stale = true
		g.opts.Log.Warn("a list is not to be had", "server", server, "method", kinds[kind].method, "error", err)
		return sh.items
	}
	sh.items, sh.good, sh.start, sh.ttl, sh.until = items, true, about.Start, ttl, time.Time{}
	if ttl >= 0 {
		sh.until = g.opts.Now().Add(ttl)
	}
	return items
}

// fresh returns the list, and whether it still holds: its server tells of changes and
// told of none, or said how long it keeps.
func (sh *shelf) fresh(start int, told bool, now time.Time) ([]item, bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	ok := sh.good && !sh.stale && sh.start == start && (told || now.Before(sh.until))
	return sh.items, ok
}

// clear drops the list because its server is gone or another. The next one has another
// start.
func (sh *shelf) clear() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.items, sh.good, sh.stale, sh.start, sh.ttl = nil, true, true, -1, -1
}

func (sh *shelf) last() []item {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.items
}

func (sh *shelf) keeps() time.Duration {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.ttl
}

// fetch asks for all pages of a list. An entry without a name is left out.
func (g *Gate) fetch(ctx context.Context, server string, kind Kind) (items []item, ttl time.Duration, err error) {
	k := kinds[kind]
	var params json.RawMessage
	keys, cursors := map[string]bool{}, map[string]bool{}
	size, empty, ttl := 0, 0, time.Duration(-1)
	for page := 1; ; page++ {
		result, err := g.opts.Caller.Call(ctx, server, k.method, params, nil)
		if _, said := errors.AsType[*jsonrpc.Error](err); said && string(params) == `{"cursor":""}` {
			return sorted(items), ttl, nil // by an empty cursor it meant that there is no further page
		}
		if err != nil {
			return nil, 0, err
		}
		if size += len(result); size > maxListBytes {
			return nil, 0, fmt.Errorf("%s of %s takes more than %d bytes", k.method, server, maxListBytes)
		}
		var r struct {
			Cursor *string      `json:"nextCursor"`
			TTL    *json.Number `json:"ttlMs"`
		}
		list, _, err := strictjson.Get(result, k.list)
		if err != nil {
			return nil, 0, err
		}
		var entries []json.RawMessage
		if json.Unmarshal(list, &entries) != nil || json.Unmarshal(result, &r) != nil {
			return nil, 0, fmt.Errorf("%s of %s holds no list %q", k.method, server, k.list)
		}
		if r.TTL != nil {
			if ms, err := r.TTL.Int64(); err == nil && ms >= 0 && (ttl < 0 || time.Duration(ms)*time.Millisecond < ttl) {
				ttl = time.Duration(min(ms, int64(time.Hour/time.Millisecond))) * time.Millisecond
			}
		}
		before := len(items)
		items = g.addPage(server, kind, items, entries, keys)
		if empty++; len(entries) > 0 {
			empty = 0
		}
		switch {
		case r.Cursor == nil: // an empty one is a cursor
			return sorted(items), ttl, nil
		case cursors[*r.Cursor] || len(items) == before && empty == 0 && page > 1 || empty == maxEmptyList || page == maxListPages:
			g.opts.Log.Warn("a list does not end: no further page was asked for", "server", server, "method", k.method, "pages", page)
			return sorted(items), ttl, nil
		}
		cursors[*r.Cursor] = true
		params = append(strictjson.AppendString([]byte(`{"cursor":`), *r.Cursor), '}')
	}
}

// sorted puts a list into the order of its keys, bytewise, as tools are: some
// servers give their own in another order at each start.
func sorted(items []item) []item {
	slices.SortFunc(items, func(a, b item) int { return strings.Compare(a.key, b.key) })
	return items
}

// addPage adds the entries of a page, without those that have no name or one that was
// there before.
func (g *Gate) addPage(server string, kind Kind, items []item, entries []json.RawMessage, keys map[string]bool) []item {
	for i, raw := range entries {
		key := ""
		if name, _, err := strictjson.Get(raw, kinds[kind].key); err == nil {
			_ = json.Unmarshal(name, &key) // a name that is no text is none
		}
		if key == "" || keys[key] {
			g.opts.Log.Warn("an entry is left out", "server", server, "method", kinds[kind].method, "index", i)
			continue
		}
		keys[key] = true
		raw, _ = cleaned(raw)
		items = append(items, item{key, raw, wordsCarry(raw)})
	}
	return items
}

// List is a list as a client gets it.
type List struct {
	Items json.RawMessage // a JSON array
	TTL   time.Duration   // how long a client may keep it; negative: nothing is known
}

// List returns the list of a kind, of all servers that the session shows, in the order
// of their aliases and each in the order of its keys. It waits up to Options.FirstList
// for servers that start. Of one that does not answer in that time it has the last list.
func (s *Session) List(ctx context.Context, kind Kind) List {
	list := s.newFeatureList(ctx, kind)
	s.side.mu.Lock()
	defer s.side.mu.Unlock()
	if s.side.gave == nil {
		s.side.gave = map[Kind][sha256.Size]byte{}
	}
	s.side.gave[kind] = sha256.Sum256(list.Items)
	return list
}

func (s *Session) newFeatureList(ctx context.Context, kind Kind) List {
	ctx, cancel := context.WithTimeout(ctx, s.g.opts.FirstList)
	defer cancel()
	aliases := s.aliases()
	s.g.opts.Caller.Settled(ctx, aliases...)
	lists := s.gather(ctx, aliases, kind)
	out := List{Items: []byte{'['}, TTL: -1}
	at := s.look()
	for _, raw := range s.gateList(kind) {
		if len(out.Items) > 1 {
			out.Items = append(out.Items, ',')
		}
		out.Items = append(out.Items, raw...)
	}
	for i, alias := range aliases {
		if ttl := s.g.features.shelf(shelfKey{alias, kind}).keeps(); ttl >= 0 && (out.TTL < 0 || ttl < out.TTL) {
			out.TTL = ttl
		}
		allowed, withheld := at.allowed(alias), 0
		for _, it := range lists[i] {
			if !s.mayList(&at, alias, kind, it.key) {
				continue
			}
			if !within(it.classes, allowed) {
				withheld++
				if it.raw = s.leavingEntry(alias, kind, it.raw); it.raw == nil {
					continue
				}
			}
			raw, err := s.published(alias, kind, it)
			if err != nil {
				s.g.opts.Log.Warn("an entry is left out", "server", alias, "method", kinds[kind].method, "error", err)
				continue
			}
			if len(out.Items) > 1 {
				out.Items = append(out.Items, ',')
			}
			out.Items = append(out.Items, raw...)
		}
		if withheld > 0 {
			s.g.opts.Log.Warn("a list holds words that may not leave: they are left out of it", "server", alias, "method", kinds[kind].method, "entries", withheld)
		}
	}
	out.Items = append(out.Items, ']')
	return out
}

// leavingEntry is an entry of a list without the members that may not leave. It is nil
// where the name or the URI may not.
func (s *Session) leavingEntry(alias string, kind Kind, raw json.RawMessage) json.RawMessage {
	out := raw
	for m := range strictjson.Walk(raw) {
		value := m.Value
		switch {
		case s.wordsMayPass(alias, m.Value) && (len(m.Name) <= 64 || s.mayPass(alias, strictjson.AppendString(nil, m.Name))):
			continue
		case m.Name == "name", m.Name == kinds[kind].key:
			return nil
		case m.Name == "arguments" && value[0] == '[': // a prompt is used by their names
			args := []byte{'['}
			for arg := range strictjson.Elements(value) {
				if arg = s.leavingEntry(alias, kind, arg); arg == nil {
					return nil
				}
				if len(args) > 1 {
					args = append(args, ',')
				}
				args = append(args, arg...)
			}
			value = append(args, ']')
		default:
			value = nil
		}
		var err error
		if value == nil {
			out, err = strictjson.Delete(out, m.Name)
		} else {
			out, err = strictjson.Set(out, m.Name, value)
		}
		if err != nil {
			return nil
		}
	}
	return out
}

// gather returns the lists of several servers, fetched side by side.
func (s *Session) gather(ctx context.Context, aliases []string, kind Kind) [][]item {
	lists := make([][]item, len(aliases))
	var all sync.WaitGroup
	for i, alias := range aliases {
		all.Go(func() { lists[i] = s.g.items(ctx, alias, kind) })
	}
	all.Wait()
	return lists
}

// published is an entry as the session shows it.
func (s *Session) published(alias string, kind Kind, it item) (json.RawMessage, error) {
	name := s.outName(alias, kind, it.key)
	if name == it.key {
		return it.raw, nil
	}
	return strictjson.Set(it.raw, kinds[kind].key, strictjson.AppendString(nil, name))
}

// mayList reports whether the session may know of an entry: no rule hides it.
func (s *Session) mayList(at *sight, alias string, kind Kind, key string) bool {
	member := "uri"
	if kind == Prompts {
		member = "name"
	}
	args := append(strictjson.AppendString([]byte(`{"`+member+`":`), key), '}')
	c := s.aside(alias, kinds[kind].use, args)
	c.at, c.ungranted = at, true // whether a person said yes before decides nothing here
	_, d := s.decide(context.Background(), c)
	return d.Code != policy.CodeUnknown
}

// Arrived is told when a server may have been restarted. The lists of the one before are
// out of date then.
func (g *Gate) Arrived(server string) {
	start := g.opts.Caller.About(server).Start
	for kind := range kinds {
		sh := g.features.shelf(shelfKey{server, kind})
		sh.mu.Lock()
		other := sh.good && sh.start != start
		sh.mu.Unlock()
		if other {
			g.listChanged(server, Prompts, Resources, Templates)
			return
		}
	}
}

// listChanged notes that a server's lists of some kinds may have changed.
func (g *Gate) listChanged(server string, of ...Kind) {
	for _, kind := range of {
		sh := g.features.shelf(shelfKey{server, kind})
		sh.mu.Lock()
		sh.stale = true
		sh.mu.Unlock()
	}
	wake := g.features.waker()
	g.features.mu.Lock()
	if g.features.changed == nil {
		g.features.changed = map[string]bool{}
	}
	g.features.changed[server] = true
	g.features.mu.Unlock()
	select {
	case wake <- struct{}{}:
	default:
	}
}

// relistPause is the least time between two looks at lists that changed.
const relistPause = 2 * time.Second

// RunFeatures fetches the lists that servers say have changed, and tells the clients
// whose own list is different now. It returns when ctx ends.
func (g *Gate) RunFeatures(ctx context.Context) error {
	wake := g.features.waker()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		}
		g.features.mu.Lock()
		changed := g.features.changed
		g.features.changed = nil
		g.features.mu.Unlock()
		for _, s := range g.Sessions() {
			s.relist(ctx, changed)
		}
		// Servers exist that tell of a change three times a second.
		pause := time.NewTimer(relistPause)
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil
		case <-pause.C:
		}
	}
}

// relist tells the client which of its lists are different now that these servers have
// changed theirs.
func (s *Session) relist(ctx context.Context, changed map[string]bool) {
	concerned := false
	for alias := range changed { // one that is gone was in a list, too
		concerned = concerned || s.profile.includes(alias)
	}
	if !concerned {
		return
	}
	tell := map[string]bool{}
	for kind := range kinds {
		s.side.mu.Lock()
		gave, asked := s.side.gave[kind]
		s.side.mu.Unlock()
		if !asked {
			continue
		}
		now := sha256.Sum256(s.newFeatureList(ctx, kind).Items)
		if now == gave || ctx.Err() != nil {
			continue
		}
		s.side.mu.Lock()
		s.side.gave[kind] = now // told once, however often it is looked at
		s.side.mu.Unlock()
		tell["notifications/"+kinds[kind].capability+"/list_changed"] = true
	}
	for method := range tell {
		s.side.tell(method, nil, "")
	}
}
