// Package gate is the one road that every call takes.
//
// A [Session] looks a call up, puts together the facts about it, has
// [policy.Decide] judge them, asks a person where that is the verdict, writes
// down what is about to happen, makes the call, and writes down what came of
// it. Direct names, call_tool, and a call that a person said yes to later all
// go through the same few lines in call.go; nothing else calls an upstream.
//
// The package knows no transport, no socket, no SQL, and no way to approve.
// What it needs it is handed in [Options]; a test hands it a struct literal
// and a [Caller] of its own.
package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/inbox"
	"github.com/mcp-gate/mcp-gate/policy"
	"github.com/mcp-gate/mcp-gate/prefix"
)

// Caller reaches the upstream servers. It must be safe for concurrent use.
type Caller interface {
	// Call sends one request to a server and returns the raw result. A
	// *jsonrpc.Error is the server's own answer. Any other error means that no
	// answer arrived; it is a [Failure] where it can say whether the request
	// may have been carried out, and counts as one that may where it cannot.
	// Each progress notification for the request goes to progress, which may
	// be nil, in order and before Call returns.
	Call(ctx context.Context, server, method string, params json.RawMessage, progress func(params json.RawMessage)) (json.RawMessage, error)
	// Up returns nil when the server can take a call now, else why not.
	Up(server string) error
	// Settled waits until every server, or each of those named, has listed its
	// tools or failed once, or until ctx ends.
	Settled(ctx context.Context, servers ...string)
	// Shown is Settled for a server that is needed now: it starts one that waits
	// for its first call.
	Shown(ctx context.Context, server string)
	// About returns what a server said of itself when it was reached; zero
	// before that.
	About(server string) About
}

// About is a server's own description of itself.
type About struct {
	Info         json.RawMessage // serverInfo
	Instructions string
	Capabilities json.RawMessage
	Start        int // counts its starts: with another one everything it listed may be different
}

// Failure is an error of a [Caller] that knows what became of the request.
type Failure interface {
	error
	// MayHaveRun is false only when the request surely was not carried out.
	MayHaveRun() bool
	// Kind is one word for the audit line and for programs.
	Kind() string
}

// Recorder keeps the audit log; *audit.Log does.
type Recorder interface {
	Record(audit.Event) error
}

// Server is what the gate holds of one configured server.
type Server struct {
	Alias    string
	Key      string        // in the owner's configuration
	Manual   bool          // its definitions are accepted by hand
	ID       string        // the server id: what its tickets and grants are bound to
	Launch   string        // keyed digest of how it is started; only a gate with the same one runs its tickets
	Policy   policy.Policy // the owner's, with this server's own egress
	OnEgress policy.OnEgress
	Trust    catalog.Trust
	// Owner returns the owner's word on a tool of this server; nil: none.
	Owner func(tool string) catalog.Override
	// Idempotent reports whether the owner declared that a tool may be called
	// again after a crash; nil: none.
	Idempotent func(tool string) bool
	// Inverse returns the owner's declared way back for a tool; Paths the
	// declared pointers to arguments that name local files; nil: none.
	Inverse func(tool string) *Inverse
	Paths   func(tool string) []string
	Place   string // where it is, as a person is told: a host, or a program; may be empty
	Dir     string // what the server's relative paths are relative to; empty: the gate's own folder
	Folders bool   // the server was given folders to work in, so it is not known what they are relative to
	Secrets bool   // secrets in what it gives are blacked out
	Own     bool   // each session has a connection of its own to it
}

// Exposure is what a client sees of the tools.
type Exposure string

const (
	Meta        Exposure = "meta"        // a constant handful of meta tools
	Direct      Exposure = "direct"      // the real tools under their direct names, and the meta tools
	Transparent Exposure = "transparent" // one server as it is, no meta tools
)

// Profile is how a session is started. The zero Profile is exposed as meta,
// has read nothing, and hands over nothing.
type Profile struct {
	Exposure  Exposure
	Reading   *engagement.Reading  // what the work is, where the owner said so
	Authority engagement.Authority // who decides, and who attends
	Servers   []string             // aliases; nil is every server
	Enforce   bool                 // slice: enforce
}

// Settings is what the owner says and a running gate may be told anew; see
// [Gate.Rule]. Every field without "may" must be set.
type Settings struct {
	Servers  []Server
	LeftOut  map[string]string  // why, of servers that cannot be used as they are configured; a profile may name them
	Profiles map[string]Profile // "" is the default one
	Rules    *policy.Rules      // may be nil: no rules
	Fallback engagement.GateFallback
	Least    map[engagement.Permission]policy.Level // may lack classes: their default
	Spend    engagement.Spend                       // for each session
	Bars     engagement.Bars
	// PolicyVersion is a digest of the owner's policy; an approval holds only
	// while it stays.
	PolicyVersion string
	// KeepArguments has the audit log keep the arguments of calls, without what
	// looks like a secret; else only their digests are in it.
	KeepArguments bool
	Waits         map[string]time.Duration // by the name a client was started under, instead of Options.Wait
	// Taint is what becomes of a call that sends out of a conversation that read
	// private and foreign content, which Options.Taints keeps.
	Taint  policy.TaintMode
	Keeper Keeper // may be nil: no copies are taken
}

// Options is everything a [Gate] is handed. Every field without "may" must be
// set; the gate changes none of them.
type Options struct {
	Name, Version string // how the gate names itself to clients
	Settings

	Caller     Caller
	Audit      Recorder
	Acceptance Acceptance   // may be nil: every definition is accepted
	Prefix     prefix.Parts // what the owner set of it; Tools and Direct are filled in
	Inbox      Inbox
	Forms      Forms
	Sessions   Sessions
	Journal    Journal
	// Reach returns the best proof that an enrolled key can give now, L0 where
	// there is none.
	Reach func() inbox.Level
	// Adopt has another process of the home keep the record of a session that
	// lives there; see [Session.Adopt]. Nothing is given where none has it. It
	// may be nil: there is no other.
	Adopt func(ctx context.Context, id string) (Given, error)
	// Stored reports whether there is anything in the store to look at, so that
	// a gate that never asked opens none.
	Stored func() bool
	// Quiet says that whoever runs the gate tells of tools that are held, so that
	// the log need not.
	Quiet bool
	// Person says that a person's command runs this gate, so that it may run
	// tickets whose own gate is gone, however the server is started.
	Person bool
	// Resolve makes a path absolute and clean with every link followed as far
	// as it exists. An error makes the rules that look at the path fail.
	Resolve func(path string) (string, error)
	Log     *slog.Logger
	Now     func() time.Time
	Rand    io.Reader // for ids; crypto/rand.Reader outside tests

	Wait      time.Duration // how long a person is waited for while a call is held open
	Expires   time.Duration // how long a question lasts where nothing is held open
	FirstList time.Duration // how long a list, and a call of a tool nobody knows yet, waits for servers that start
	FirstFind time.Duration // how long a search does

	// Kept is where results are kept that are large or may not leave. It may be
	// nil: what may not leave is gone then, and what is large passes.
	Kept Kept
	// Inline is how many bytes of text a result brings to a client, by
	// Identity.Client, "" for every other. Where nothing is said it is
	// DefaultInline, and without a bound in transparent exposure.
	Inline map[string]int64
	// Clients are the limits within which tools are listed, by Identity.Client.
	// A client that is not among them is given definitions as they are.
	Clients map[string]catalog.Limits
	Taints  Taints // may be nil: Taint is off then
}

// Gate is what all sessions of a process share. Safe for concurrent use.
type Gate struct {
	opts  Options // without its Settings: those that hold are in owner
	owner atomic.Pointer[ruling]
	set   atomic.Pointer[catalog.Set] // of every server; replaced whole
	pins  atomic.Pointer[map[catalog.ToolID]policy.Pin]

	features features
	relay    relay
	logging  logging

	wanted chan struct{} // see Wanted
	want   func()        // closes it

	mu      sync.Mutex // guards what follows; never held across a call upstream
	offered map[string]offering
	live    map[*Session]bool
	taken   map[string]bool // tickets that Work has taken up
	early   []*Session      // that were given a list before all servers had answered
	settled bool
}

// New returns a gate that knows no tools yet; [Gate.Offer] brings them.
func New(opts Options) (*Gate, error) {
	g := &Gate{opts: opts, offered: map[string]offering{}, live: map[*Session]bool{}, wanted: make(chan struct{})}
	g.want = sync.OnceFunc(func() { close(g.wanted) })
	if err := opts.Check(); err != nil {
		return nil, err
	}
	g.owner.Store(opts.ruling())
	g.opts.Settings = Settings{}
	g.renew()
	g.recall()
	return g, nil
}

// Check says what is wrong with the servers and profiles, which [New] and
// [Gate.Rule] need to be in order.
func (o Settings) Check() error {
	now := o.ruling()
	if len(now.servers) < len(o.Servers) {
		return errors.New("two servers go by one name")
	}
	for name, p := range o.Profiles {
		if name == "" && len(o.Profiles) > 1 {
			continue // no session need be of the default one
		}
		if err := now.check(p); err != nil {
			return fmt.Errorf("profile %q: %w", name, err)
		}
	}
	return nil
}

func (r *ruling) check(p Profile) error {
	for _, alias := range p.Servers {
		_, ok := r.servers[alias]
		if _, left := r.LeftOut[alias]; !ok && !left {
			return fmt.Errorf("there is no server %q", alias)
		}
	}
	if p.Exposure == Transparent {
		_, err := r.sole(p)
		return err
	}
	return nil
}

// sole is the one server that a transparent profile shows. It may be one that is left
// out: a session then says why it shows nothing.
func (r *ruling) sole(p Profile) (alias string, err error) {
	shown := r.of(p)
	if len(shown) == 0 {
		for alias := range r.LeftOut {
			if p.includes(alias) {
				shown = append(shown, alias)
			}
		}
	}
	if len(shown) != 1 {
		return "", errors.New("exposure transparent shows one server as it is: name one under \"servers\" of a profile")
	}
	return shown[0], nil
}

// of returns the aliases of the servers that a profile shows, as far as they
// are there, sorted. It must not be changed.
func (r *ruling) of(p Profile) []string {
	if p.Servers == nil {
		return r.aliases
	}
	return slices.DeleteFunc(slices.Sorted(slices.Values(p.Servers)), func(alias string) bool {
		_, ok := r.servers[alias]
		return !ok
	})
}

// includes reports whether a profile shows a server, if it is there.
func (p Profile) includes(alias string) bool {
	return p.Servers == nil || slices.Contains(p.Servers, alias)
}

// HasProfile reports whether [Gate.Open] knows a profile.
func (g *Gate) HasProfile(name string) bool {
	_, ok := g.ruling().Profiles[name]
	return ok
}

// Tools returns every tool that is known now.
func (g *Gate) Tools() *catalog.Set { return g.set.Load() }

// await waits for those of the servers of which nothing is known yet. It reports whether
// one of them had not answered in time.
func (g *Gate) await(ctx context.Context, wait time.Duration, servers ...string) (late bool) {
	var missing []string
	g.mu.Lock()
	for _, alias := range servers {
		if _, ok := g.offered[alias]; !ok {
			missing = append(missing, alias)
		}
	}
	g.mu.Unlock()
	if missing == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	g.opts.Caller.Settled(ctx, missing...)
	return ctx.Err() != nil
}

// noteSilent records which servers have not answered in all the time that a first list
// has. Those that failed are not among them.
func (g *Gate) noteSilent(servers []string) {
	if g.opts.Acceptance == nil {
		return
	}
	g.mu.Lock()
	silent := slices.DeleteFunc(slices.Clone(servers), func(alias string) bool {
		_, known := g.offered[alias]
		return known
	})
	g.mu.Unlock()
	for _, alias := range silent {
		if g.opts.Caller.Up(alias) == nil {
			g.opts.Acceptance.Silent(alias)
			g.opts.Log.Warn("a server has not answered yet: the list is given without it, and the next start does not wait for it", "server", alias, "waited", g.opts.FirstList)
		}
	}
}

// Run waits until every server has answered once and tells the sessions that
// could not wait for it. It returns then, or when ctx ends.
func (g *Gate) Run(ctx context.Context) error {
	g.opts.Caller.Settled(ctx)
	if ctx.Err() != nil {
		return nil
	}
	g.mu.Lock()
	early := g.early
	g.early, g.settled = nil, true
	g.mu.Unlock()
	for _, s := range early {
		s.outdated()
	}
	return nil
}

// tellWhenSettled has a session told when its early list is out of date.
func (g *Gate) tellWhenSettled(s *Session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.settled && !slices.Contains(g.early, s) {
		g.early = append(g.early, s)
	}
}

// forget drops an ended session. It reports whether it was alive.
func (g *Gate) forget(s *Session) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.live[s] {
		return false
	}
	delete(g.live, s)
	g.early = slices.DeleteFunc(g.early, func(e *Session) bool { return e == s })
	return true
}

// Sessions returns the sessions that are open, in no order.
func (g *Gate) Sessions() []*Session {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Keys(g.live))
}

// Wanted is closed once the servers should run: a session was given its first
// list of tools, or needs a server before that.
func (g *Gate) Wanted() <-chan struct{} { return g.wanted }

// Recalled reports whether every server was seen before, so that the first list
// needs none of them.
func (g *Gate) Recalled() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for alias := range g.ruling().servers {
		if _, known := g.offered[alias]; !known {
			return false
		}
	}
	return true
}
