package gate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/canonjson"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
	"github.com/mcp-gate/mcp-gate/policy"
)

// What servers have beside tools is judged under names that stand where a
// tool's name would: ALIAS/resources/read, ALIAS/prompts/get and so on. Rules
// match them, and the owner's "tools" globs declare what they carry out; their
// class is always read. A rule's args look at the request's own params: /uri,
// /name, /arguments/....

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
	start int           // of the server that gave it
	until time.Time     // what the server said of its age; zero: nothing
	ttl   time.Duration // the same; negative: nothing
}

type shelfKey struct {
	server string
	kind   Kind
}

// features is what the gate holds of what servers have beside tools.
type features struct {
	mu      sync.Mutex // guards what follows; never held across a call
	shelves map[shelfKey]*shelf
	changed map[string]bool // servers with a list that is to be looked at again
	wake    chan struct{}
	level   string // the least that any session wants to read of logs
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

// listings that may be asked for and held of one server and kind.
const (
	maxListPages = 1000
	maxEmptyList = 10 // pages in a row
	maxListBytes = 64 << 20
)

// items returns the list of a kind that a server has now: the last one where
// nothing says that it changed, else a new one, else, where none is to be had,
// the last one again. A server that declares no such thing is not asked.
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

// fresh returns the list where it still holds: its server tells of changes and
// told of none, or said how long it keeps.
func (sh *shelf) fresh(start int, told bool, now time.Time) ([]item, bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	ok := sh.good && !sh.stale && sh.start == start && (told || now.Before(sh.until))
	return sh.items, ok
}

// clear drops the list: what gave it is not there any more. Whatever is in its
// place has another start.
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

// fetch asks for all pages of a list. An entry that is none is left out and
// costs the others nothing.
func (g *Gate) fetch(ctx context.Context, server string, kind Kind) (items []item, ttl time.Duration, err error) {
	k := kinds[kind]
	var params json.RawMessage
	keys, cursors := map[string]bool{}, map[string]bool{}
	size, empty, ttl := 0, 0, time.Duration(-1)
	for page := 1; ; page++ {
		result, err := g.opts.Caller.Call(ctx, server, k.method, params, nil)
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

// addPage adds the entries of a page that have a name nobody had before.
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

// List returns the list of a kind, of all servers that the session shows, in
// the order of their aliases and each in the order of its keys. It waits, up to
// Options.FirstList, for servers that start; one that does not answer in that
// time is there with its last list.
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
	for _, raw := range s.ownList(kind) {
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

// leavingEntry is an entry of a list without the members whose words may not
// leave; nil where its name or address is among them.
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

func (sh *shelf) keeps() time.Duration {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.ttl
}

// gather asks servers side by side.
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

// uriScheme begins the URI of a resource where several servers may be shown:
// mcp-gate://ALIAS/ and then the server's own URI, character for character. It
// depends on nothing else, leads back by cutting, and leaves a template a
// template.
const uriScheme = "mcp-gate://"

// ownSchemes are the gate's: no server speaks for it by listing a URI of one.
var ownSchemes = []string{"gate", "artifact", "mcp-gate"}

// outName is what the client calls a prompt, a resource or a template.
func (s *Session) outName(alias string, kind Kind, key string) string {
	switch {
	case s.profile.exposure() == Transparent:
		return key
	case kind == Prompts:
		return catalog.DirectName(catalog.ToolID{Server: alias, Tool: key})
	}
	return uriScheme + alias + "/" + key
}

// prompt finds the prompt that the client calls name.
func (s *Session) prompt(ctx context.Context, name string) (alias, own string, ok bool) {
	if s.profile.exposure() == Transparent {
		return s.sole, name, true
	}
	aliases := s.aliases()
	find := func(lists [][]item) bool {
		for i, items := range lists {
			for _, it := range items {
				if s.outName(aliases[i], Prompts, it.key) == name {
					alias, own, ok = aliases[i], it.key, true
				}
			}
		}
		return ok
	}
	if find(s.known(aliases, Prompts)) {
		return alias, own, true
	}
	ctx, cancel := context.WithTimeout(ctx, s.g.opts.FirstList)
	defer cancel()
	s.g.opts.Caller.Settled(ctx, aliases...)
	find(s.gather(ctx, aliases, Prompts))
	return alias, own, ok
}

// known are the lists that servers gave last, as far as they gave any.
func (s *Session) known(aliases []string, kind Kind) [][]item {
	lists := make([][]item, len(aliases))
	for i, alias := range aliases {
		lists[i] = s.g.features.shelf(shelfKey{alias, kind}).last()
	}
	return lists
}

// resource finds the server of a URI as the client wrote it, and the server's
// own URI. One without the gate's prefix, which tools' results are full of, is
// taken where exactly one server lists it, has a template that begins like it,
// or has resources at all.
func (s *Session) resource(ctx context.Context, uri string) (alias, own string, ok bool) {
	if s.profile.exposure() == Transparent {
		return s.sole, uri, true
	}
	if rest, gates := strings.CutPrefix(uri, uriScheme); gates {
		alias, own, ok = strings.Cut(rest, "/")
		return alias, own, ok && s.shows(alias) && own != ""
	}
	if scheme, _, _ := strings.Cut(strings.ToLower(uri), ":"); slices.Contains(ownSchemes, scheme) {
		return "", "", false
	}
	ctx, cancel := context.WithTimeout(ctx, s.g.opts.FirstList)
	defer cancel()
	aliases := s.aliases()
	s.g.opts.Caller.Settled(ctx, aliases...)
	for _, kind := range []Kind{Resources, Templates} {
		var has []string
		for i, items := range s.gather(ctx, aliases, kind) {
			for _, it := range items {
				if it.matches(kind, uri) {
					has = append(has, aliases[i])
					break
				}
			}
		}
		if len(has) > 0 {
			return has[0], uri, len(has) == 1
		}
	}
	var has []string
	for _, alias := range aliases {
		if declared, _, err := strictjson.Get(orEmpty(s.g.opts.Caller.About(alias).Capabilities), "resources"); err == nil && declared != nil {
			has = append(has, alias)
		}
	}
	if len(has) == 1 {
		return has[0], uri, true
	}
	return "", "", false
}

func (it item) matches(kind Kind, uri string) bool {
	if kind == Resources {
		return it.key == uri
	}
	fixed, _, _ := strings.Cut(it.key, "{")
	return fixed != "" && strings.HasPrefix(uri, fixed)
}

// aside is a call of something beside the tools, under the name that stands
// for it in policy and audit. It has no id yet: it may be a mere question.
func (s *Session) aside(alias, method string, args json.RawMessage) *call {
	entry := catalog.Entry{Tool: catalog.Tool{ID: catalog.ToolID{Server: alias, Tool: method}}}
	entry.Class = catalog.Class{Permission: engagement.Read, Egress: carries[method], Why: "read by the protocol"}
	if owner := s.g.server(alias).Owner; owner != nil {
		o := owner(method)
		if o.Egress != 0 {
			entry.Class.Egress = o.Egress
		}
		if o.Domains != nil {
			entry.Class.Domains = *o.Domains
		}
	}
	return &call{name: entry.ID.String(), args: args, entry: entry, known: true}
}

// carries is what the answer to each method takes out, unless the owner says
// something else. For what a server asks the client for, it is what reaches
// the client: a form's words go to a person, the messages of a sampling into a
// model.
var carries = map[string]engagement.Egress{
	"resources/read":         engagement.RowLevel,
	"prompts/get":            engagement.RowLevel,
	"completion/complete":    engagement.Metadata,
	"resources/subscribe":    engagement.Metadata,
	"notifications/message":  engagement.RowLevel,
	"elicitation/create":     engagement.Metadata,
	"sampling/createMessage": engagement.RowLevel,
	"roots/list":             engagement.Metadata,
	artifactsRead:            engagement.RowLevel, // the gate's own; see Session.local
}

// CodeNotFound is what revisions before 2026-07-28 answer to the URI of no
// resource; later ones say invalid params.
const CodeNotFound = -32002

// use takes a request that is not a tool's along the road.
func (s *Session) use(ctx context.Context, req Request) Outcome {
	if out, ok := s.artifactResource(ctx, req); ok {
		return out
	}
	if out, ok := s.useOwn(req); ok {
		return out
	}
	args, alias, e := s.localized(ctx, req)
	if e != nil {
		return Outcome{Error: e}
	}
	c := s.aside(alias, req.Method, args)
	c.id, c.meta, c.progress, c.canAsk, c.client = s.nextCall(), req.Meta, req.Progress, req.CanAsk, req.Client
	c.bare = !strings.HasPrefix(req.Name, uriScheme)
	return s.road(ctx, c)
}

// localized returns the params with the server's own name in place of the
// client's, and whose it is.
func (s *Session) localized(ctx context.Context, req Request) (args json.RawMessage, alias string, e *jsonrpc.Error) {
	args = orEmpty(req.Args)
	var own string
	var ok bool
	var err error
	switch req.Method {
	case "prompts/get":
		if alias, own, ok = s.prompt(ctx, req.Name); !ok {
			return nil, "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("there is no prompt %q", req.Name)}
		}
		args, err = renamed(args, "name", req.Name, own)
	case "resources/read", "resources/subscribe", "resources/unsubscribe":
		if alias, own, ok = s.resource(ctx, req.Name); !ok {
			return nil, "", noResource(req.Name)
		}
		args, err = renamed(args, "uri", req.Name, own)
	case "completion/complete":
		return s.localizedRef(ctx, args)
	default:
		return nil, "", &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found: " + req.Method}
	}
	if err != nil {
		return nil, "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	return args, alias, nil
}

func noResource(uri string) *jsonrpc.Error {
	data := append(strictjson.AppendString([]byte(`{"uri":`), uri), '}')
	return &jsonrpc.Error{Code: CodeNotFound, Message: "Resource not found: there is no resource of this URI, or several servers could have it (then put " + uriScheme + "SERVER/ before it)", Data: data}
}

func renamed(obj json.RawMessage, member, from, to string) (json.RawMessage, error) {
	if from == to {
		return obj, nil
	}
	return strictjson.Set(obj, member, strictjson.AppendString(nil, to))
}

// localizedRef does the same for what a completion is for.
func (s *Session) localizedRef(ctx context.Context, args json.RawMessage) (json.RawMessage, string, *jsonrpc.Error) {
	invalid := func(text string) (json.RawMessage, string, *jsonrpc.Error) {
		return nil, "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: text}
	}
	raw, ok, err := strictjson.Get(args, "ref")
	var ref struct{ Type, Name, URI string }
	if err != nil || !ok || json.Unmarshal(raw, &ref) != nil {
		return invalid(`"ref" must name a prompt or a resource`)
	}
	var alias, own string
	switch ref.Type {
	case "ref/prompt":
		if alias, own, ok = s.prompt(ctx, ref.Name); !ok {
			return invalid(fmt.Sprintf("there is no prompt %q", ref.Name))
		}
		raw, err = renamed(raw, "name", ref.Name, own)
	case "ref/resource":
		if alias, own, ok = s.resource(ctx, ref.URI); !ok {
			return invalid(fmt.Sprintf("there is no resource %q", ref.URI))
		}
		raw, err = renamed(raw, "uri", ref.URI, own)
	default:
		return invalid(fmt.Sprintf("unknown kind of reference %q: want ref/prompt or ref/resource", ref.Type))
	}
	if err == nil {
		args, err = strictjson.Set(args, "ref", raw)
	}
	if err != nil {
		return invalid(err.Error())
	}
	return args, alias, nil
}

// asideParams are the params of a request that is not a tool's: the caller's
// own bytes but for the name in them.
func (c *call) asideParams() json.RawMessage {
	if c.meta == nil {
		return c.args
	}
	params, err := strictjson.Set(c.args, "_meta", c.meta)
	if err != nil { // the arguments were read before
		return c.args
	}
	return params
}

// delocalized gives the URIs in the answer to a resources/read the names that
// the client knows them by.
func (s *Session) delocalized(c *call, result json.RawMessage) json.RawMessage {
	if c.protocolMethod() != "resources/read" || c.bare || s.profile.exposure() == Transparent {
		return result
	}
	contents, ok, err := strictjson.Get(result, "contents")
	var parts []json.RawMessage
	if err != nil || !ok || json.Unmarshal(contents, &parts) != nil {
		return result
	}
	for i, part := range parts {
		raw, ok, err := strictjson.Get(part, "uri")
		var uri string
		if err != nil || !ok || json.Unmarshal(raw, &uri) != nil {
			continue
		}
		if part, err = strictjson.Set(part, "uri", strictjson.AppendString(nil, s.outName(c.entry.ID.Server, Resources, uri))); err == nil {
			parts[i] = part
		}
	}
	joined := append([]byte{'['}, bytes.Join(asBytes(parts), []byte{','})...)
	if out, err := strictjson.Set(result, "contents", append(joined, ']')); err == nil {
		return out
	}
	return result
}

func asBytes(raws []json.RawMessage) [][]byte {
	out := make([][]byte, len(raws))
	for i, r := range raws {
		out[i] = r
	}
	return out
}

// CodeRefused is the JSON-RPC code of a refusal where an answer has no form to
// carry one. It lies outside the range that JSON-RPC and MCP keep for
// themselves.
const CodeRefused = -31003

// AsError turns the gate's own words, which have the form of a tool's result,
// into an error, for requests that are not a tool's.
func (o Outcome) AsError() Outcome {
	if o.Result == nil || !failed(o.Result) {
		return o
	}
	var said struct {
		Content []struct{ Text string } `json:"content"`
	}
	meta, _, err := strictjson.Get(o.Result, "_meta")
	if err != nil || !bytes.Contains(meta, []byte(`"`+metaPrefix)) || json.Unmarshal(o.Result, &said) != nil || len(said.Content) == 0 {
		return o
	}
	return Outcome{Error: &jsonrpc.Error{Code: CodeRefused, Message: said.Content[0].Text, Data: meta}}
}

func callError(err error) *jsonrpc.Error {
	var theirs *jsonrpc.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &theirs):
		theirs, _ = cleanedError(theirs)
		return theirs
	}
	return &jsonrpc.Error{Code: CodeUpstream, Message: err.Error()}
}

func stringOf(obj json.RawMessage, member string) string {
	raw, ok, err := strictjson.Get(obj, member)
	var s string
	if err != nil || !ok || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// permitted judges what runs without a way to ask anybody, and writes it down:
// it runs, or there is an error.
func (s *Session) permitted(c *call) *jsonrpc.Error {
	digest, err := canonjson.Digest(orEmpty(c.args))
	if err != nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	c.digest, c.ungranted = digest, true // no grant is for what nobody is asked about
	_, d := s.decide(context.Background(), c)
	kind := audit.Note
	runs := d.Verdict == policy.Run || d.Verdict == policy.Review
	if !runs {
		kind = audit.Refusal
	}
	if err := s.g.opts.Audit.Record(s.event(kind, c, d)); err != nil {
		s.g.opts.Log.Error("nothing is passed on while the audit log cannot be written", "error", err)
		return &jsonrpc.Error{Code: CodeRefused, Message: "refused [audit]: what happens cannot be written down now"}
	}
	switch {
	case runs:
		return nil
	case d.Verdict != policy.Deny:
		return &jsonrpc.Error{Code: CodeRefused, Message: fmt.Sprintf("refused [%s]: %v needs a person's yes, which cannot be had for it", policy.CodeNoPerson, c.entry.ID)}
	}
	return &jsonrpc.Error{Code: CodeRefused, Message: fmt.Sprintf("refused [%s]: %s", d.Code, d.ForModel())}
}

// RunFeatures looks again at lists that servers say have changed, and tells the
// clients whose own list is a different one now. It returns when ctx ends.
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

// relistPause is the least time between two looks at lists that changed.
const relistPause = 2 * time.Second

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

// relist tells the client which of the lists that it was given are different
// now that some servers have changed theirs.
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
