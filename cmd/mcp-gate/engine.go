package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/checkpoint"
	"github.com/mcp-gate/mcp-gate/config"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/gate"
	"github.com/mcp-gate/mcp-gate/inbox"
	"github.com/mcp-gate/mcp-gate/internal/canonjson"
	"github.com/mcp-gate/mcp-gate/policy"
	"github.com/mcp-gate/mcp-gate/prefix"
	"github.com/mcp-gate/mcp-gate/signin"
	"github.com/mcp-gate/mcp-gate/store"
	"github.com/mcp-gate/mcp-gate/upstream"
	"golang.org/x/sync/errgroup"
)

// How long a person and the servers are waited for.
const (
	askWait   = 50 * time.Second // clients' own limit is 60 s where they have one
	firstList = 10 * time.Second
	firstFind = 3 * time.Second
	// firstAnswer is how long servers on record are started later for the first
	// list's sake. A busy machine needs half of it to answer; nobody waits it out
	// but who lists no tools.
	firstAnswer = time.Second
	// firstWritten is how long the first list may take from where it is made until
	// it is written: it is a megabyte where servers have many tools, and whatever
	// starts before it is out holds it up.
	firstWritten = 20 * time.Millisecond
	workPause    = 2 * time.Second // between looks for calls that were allowed meanwhile
)

// engine is a running gate: servers, gate and audit log of one process.
type engine struct {
	home config.Home
	cfg  config.Config
	log  *slog.Logger
	pool *upstream.Pool
	gate *gate.Gate
	aud  *audit.Log
	db   *store.Store
	kept *kept

	o       engineOptions
	key     *inbox.GateKey
	signins *signin.Client
	reading atomic.Pointer[reading] // of the configuration that is in force

	acceptance *acceptance
	inbox      *inbox.Inbox
	notify     *notifier // nil: nobody is told that something waits

	working bool // it runs calls that were allowed after their caller had its stub

	cancel context.CancelFunc
	group  *errgroup.Group

	offers  sync.Mutex     // guards offered, and keeps a server's listings in order
	offered map[string]int // the generation of the listing that the gate has
}

// engineOptions narrow what an engine starts.
type engineOptions struct {
	only     string // alias of the one server to start; "" is all
	exposure gate.Exposure
	serving  bool // it goes on until its client ends it
	standing bool // the command says itself which tools are held
	person   bool // a person's command runs it: it may run what another gate left
}

// start brings a gate up. Nothing waits for the servers; Close ends it all.
func (a *app) start(ctx context.Context, o engineOptions) (*engine, error) {
	if _, err := config.Depth(a.env); err != nil {
		return nil, usage(err)
	}
	home, cfg, notes, err := a.load()
	if err != nil {
		return nil, err
	}
	if err := home.Ensure(); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cfg, more := cfg.WithoutSelf(self, home)
	e := &engine{home: home, cfg: cfg, o: o, log: a.logger(cfg.Log, o.serving), working: o.serving, offered: map[string]int{}}
	e.reading.Store(&reading{cfg: cfg, configDoc: configDoc{Read: time.Now()}})
	for _, n := range append(notes, more...) {
		e.log.Info(n.String())
	}
	e.tellLeftOut(a.stderr, o)
	servers := e.chosen(o.only)
	if e.aud, err = audit.Open(audit.Options{Dir: home.Audit(), Now: time.Now, Process: processName(), Note: "mcp-gate " + version(), Sync: true}); err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	if err := e.build(a, servers, o); err != nil {
		return nil, errors.Join(err, e.aud.Close())
	}
	e.run(ctx, a)
	return e, nil
}

// startSettled is start, and waits until every server has listed its tools or
// has failed to.
func (a *app) startSettled(ctx context.Context, o engineOptions) (*engine, error) {
	says := o.standing
	o.standing = true // told once below, not a line a tool
	e, err := a.start(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := e.pool.Settled(ctx); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	if !says {
		e.tellHeld(a.stderr)
	}
	return e, nil
}

// processName tells this process from all others in the audit log.
func processName() string {
	var b [3]byte
	_, _ = rand.Read(b[:]) // never fails, see crypto/rand
	return fmt.Sprintf("%d-%s", os.Getpid(), hex.EncodeToString(b[:]))
}

// chosen are the servers to start.
func (e *engine) chosen(only string) []config.Server {
	if only == "" {
		return e.cfg.Servers
	}
	if s, ok := e.cfg.Server(only); ok {
		return []config.Server{s}
	}
	return nil
}

func (e *engine) build(a *app, servers []config.Server, o engineOptions) error {
	db, ring, key, err := openStore(e.home)
	if err != nil {
		return err
	}
	e.db, e.key, e.signins = db, key, a.signins(e.home)
	e.acceptance = newAcceptance(e.home, e.cfg, e.log)
	ups, gated := e.servers(a, e.cfg, servers)
	e.setLazy(servers, ups)
	pool, err := upstream.NewPool(ups, e.withRelay(upstream.Options{Log: a.serverLogger(e.cfg.Log, o.serving), ClientName: "mcp-gate", ClientVersion: version(), OnChange: e.offer, OnBulk: threads.busy}))
	if err != nil {
		return err
	}
	e.pool = pool
	options := e.gateOptions(gated, o, flushing{e.aud})
	if err := e.questions(&options, ring.Follow()); err != nil {
		return err
	}
	options.Quiet = o.standing
	options.Person, options.Adopt = o.person, e.adopt
	options.Acceptance = e.acceptance
	e.results(&options)
	e.gate, err = gate.New(options)
	return err
}

// servers are the configured ones as the pool and the gate have them.
func (e *engine) servers(a *app, cfg config.Config, servers []config.Server) (ups []upstream.Server, gated []gate.Server) {
	programs := newProgramFinder(a.environ)
	for _, s := range servers {
		up, g := upstreamOf(s, programs), gatedOf(s, cfg.Policy.Policy)
		up.Launch = launchOf(e.key, s, up)
		g.Launch = up.Launch
		up.Authorize = a.authorizer(e.signins, s)
		ups, gated = append(ups, up), append(gated, g)
		e.log.Debug("server", "alias", s.Alias, "preset", s.Preset, "preset_from", s.PresetFrom, "connection", s.Connection)
	}
	return ups, gated
}

// setLazy has the servers wait for their first call that are to: one of which
// nothing is on record has to be seen once.
func (e *engine) setLazy(servers []config.Server, ups []upstream.Server) {
	for i, s := range servers {
		if e.o.serving && s.Start == config.StartLazy {
			known, _, _ := e.acceptance.Known(s.Alias)
			ups[i].Lazy = len(known) > 0
		}
	}
}

// questions hands the gate what it asks people through. The database is not
// opened before the first question.
func (e *engine) questions(options *gate.Options, ring *inbox.Ring) error {
	o := inboxOptions(e.db, ring)
	o.Expiry, o.Alarm, o.Log, o.Bell = e.cfg.Approval.Expires, int(e.cfg.Approval.Alarm), e.log, inbox.NewBell()
	n, err := newNotifier(e.cfg.Approval.Notify, e.home, e.log)
	if err != nil {
		return err
	}
	if e.notify = n; n != nil {
		o.Notify = n
	}
	box, err := inbox.New(o)
	if err != nil {
		return err
	}
	if options.Keeper, err = e.keeper(); err != nil {
		return err
	}
	e.inbox, options.Journal = box, e.db
	options.Inbox, options.Forms, options.Sessions, options.Reach = box, inbox.NewForms(o), e.db, ring.Reach
	options.Stored = func() bool {
		_, err := os.Stat(e.home.DB())
		return err == nil
	}
	return nil
}

// keeper is what undoes calls, nil for none. Files are copied only where the
// owner named the folders in which that may be done.
func (e *engine) keeper() (gate.Keeper, error) {
	if len(e.cfg.Roots) == 0 {
		return nil, nil
	}
	var roots []string
	for _, root := range e.cfg.Roots {
		if below, ok := strings.CutPrefix(root, "~/"); ok {
			home, err := os.UserHomeDir()
			if err != nil {
				return nil, fmt.Errorf("root %s: %w", root, err)
			}
			root = filepath.Join(home, below)
		}
		abs, err := filepath.Abs(root)
		if err != nil {
			return nil, fmt.Errorf("root %s: %w", root, err)
		}
		roots = append(roots, abs)
	}
	keeper, err := checkpoint.Open(filepath.Join(e.home.Dir, "checkpoints"), roots)
	if err != nil { // a nil *Keeper would be one
		return nil, err
	}
	return keeper, nil
}

// launchOf is a digest of how a server is started, with all that is expanded.
// It is keyed, since secrets are among it.
func launchOf(key *inbox.GateKey, s config.Server, up upstream.Server) string {
	parts := append([]string{s.ID(), up.Dir, up.URL}, up.Command...)
	parts = append(parts, slices.Sorted(maps.Keys(s.Launch.Env))...)
	for _, name := range slices.Sorted(maps.Keys(s.Launch.Env)) {
		parts = append(parts, s.Launch.Env[name])
	}
	for _, name := range slices.Sorted(maps.Keys(s.Launch.Headers)) {
		parts = append(parts, name, s.Launch.Headers[name])
	}
	if s.Auth != nil {
		parts = append(append(parts, s.Auth.ClientID, s.Auth.ClientSecret), s.Auth.Scopes...)
	}
	return key.Launch(parts...)
}

func (e *engine) gateOptions(servers []gate.Server, o engineOptions, rec gate.Recorder) gate.Options {
	return gate.Options{
		Name: "mcp-gate", Version: version(), Prefix: prefix.Parts{Budget: int(e.cfg.Prefix.Budget)},
		Settings: gate.Settings{
			Servers: servers, LeftOut: refusals(e.cfg), Profiles: e.profiles(o), Rules: e.cfg.Policy.Rules,
			Fallback: fallbackOf(e.cfg), Least: least(e.cfg.Approval), Spend: e.cfg.Policy.Spend, Bars: e.cfg.Bars,
			PolicyVersion: policyVersion(e.cfg), KeepArguments: e.cfg.Audit.KeepArguments, Waits: waitsOf(e.cfg), Taint: e.cfg.Taint,
		},
		Caller: caller{e.pool, e.discreet}, Audit: rec, Resolve: resolve, Log: e.log, Now: time.Now, Rand: rand.Reader,
		Wait: askWait, Clients: limitsOf(e.cfg), FirstList: firstList, FirstFind: firstFind,
	}
}

// waitsOf is how long the named clients bear to have a call held open.
func waitsOf(cfg config.Config) map[string]time.Duration {
	waits := map[string]time.Duration{}
	for _, c := range cfg.Clients {
		if c.Wait > 0 {
			waits[c.Name] = c.Wait
		}
	}
	return waits
}

// limitsOf is within which limits tools are listed to the named clients.
func limitsOf(cfg config.Config) map[string]catalog.Limits {
	limits := map[string]catalog.Limits{}
	for _, c := range cfg.Clients {
		limits[c.Name] = catalog.Limits{Name: int(c.NameLength), Description: int(c.DescriptionSize), Strict: c.Schemas == config.SchemasStrict}
	}
	return limits
}

// fallbackOf is what becomes of a question that nobody answers: it waits in
// the inbox where the owner said nothing.
func fallbackOf(cfg config.Config) engagement.GateFallback {
	if cfg.GateFallback == 0 {
		return engagement.FallbackDefer
	}
	return cfg.GateFallback
}

// policyVersion is a digest of the owner's policy, the same for every process
// that reads the same words.
func policyVersion(cfg config.Config) string {
	rules := slices.Clone(cfg.Policy.Records)
	for i := range rules {
		rules[i].Source = policy.Source{} // a rule says the same on another line
	}
	raw, err := json.Marshal([]any{cfg.Policy.Policy, rules, least(cfg.Approval), cfg.Preset})
	if err != nil {
		return "unknown: " + err.Error()
	}
	digest, err := canonjson.Digest(raw)
	if err != nil {
		return "unknown: " + err.Error()
	}
	return digest
}

// offer passes a server's new listing on to the gate. It is told of every
// change of a server's state; most leave the listing as it was.
func (e *engine) offer(alias string) {
	e.offers.Lock() // a listing of before a reload says nothing of the server after it
	defer e.offers.Unlock()
	listing, ok := e.pool.Listing(alias)
	if !ok {
		return
	}
	if e.offered[alias] < listing.Generation {
		threads.busy()
		e.gate.Offer(alias, listing.Tools)
		e.offered[alias] = listing.Generation
	}
	e.gate.Arrived(alias)
}

func (e *engine) run(ctx context.Context, a *app) {
	ctx, e.cancel = context.WithCancel(ctx)
	e.group, ctx = errgroup.WithContext(ctx)
	e.group.Go(func() error { return ignoreEnd(e.runServers(ctx)) })
	e.group.Go(func() error { return e.gate.Run(ctx) })
	if e.working {
		e.group.Go(func() error { return e.gate.Work(ctx, workPause) })
		e.group.Go(func() error { return e.watch(ctx, a) })
	}
	e.group.Go(func() error { return e.gate.RunFeatures(ctx) })
	if e.notify != nil {
		e.group.Go(func() error { return e.notify.Run(ctx) })
	}
	if e.working {
		e.group.Go(func() error { return e.kept.collect(ctx) })
	}
}

// startOver is how long after the servers have come what only the start needs is
// no longer needed.
const startOver = time.Second

// rest gives back the memory of the start once it is over.
func (e *engine) rest(ctx context.Context) {
	come, cancel := context.WithTimeout(ctx, firstList)
	_ = e.pool.Settled(come) // it is not waited longer for one that hangs
	cancel()
	over := time.NewTimer(startOver)
	defer over.Stop()
	select {
	case <-over.C:
	case <-ctx.Done():
		return
	}
	if err := giveBack(); err != nil {
		e.log.Debug("more memory stays in use than has to", "error", err)
	}
}

// runServers starts the servers and runs them until ctx ends. Where the first
// list needs none of them it goes first, if a client asks for it soon: twenty
// programs that start at once are what would delay it most.
func (e *engine) runServers(ctx context.Context) error {
	if e.working && e.gate.Recalled() {
		soon := time.NewTimer(firstAnswer)
		defer soon.Stop()
		select {
		case <-e.gate.Wanted():
			soon.Reset(firstWritten)
			select {
			case <-soon.C:
			case <-ctx.Done():
			}
		case <-soon.C:
		case <-ctx.Done():
		}
	}
	if e.working {
		collectAsUsual()
		e.group.Go(func() error { e.rest(ctx); return nil })
	}
	return e.pool.Run(ctx)
}

// Close ends the servers and closes the audit log.
func (e *engine) Close() error {
	e.cancel()
	return errors.Join(e.group.Wait(), e.kept.Close(), e.db.Close(), e.aud.Close())
}

func ignoreEnd(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func upstreamOf(s config.Server, programs *programFinder) upstream.Server {
	up := upstream.Server{Alias: s.Alias, CallTimeout: s.Timeout, PerOwner: s.Connection == config.ConnectionSession}
	if s.Transport == config.TransportStdio {
		up.Command = append([]string{s.Launch.Command}, s.Launch.Args...)
		up.Dir = s.Launch.Cwd
		up.Environ = func() []string { return config.ChildEnv(s.Launch.Env, programs.environFor(s)) }
		return up
	}
	up.URL, up.Header = s.Launch.URL, http.Header{}
	for name, value := range s.Launch.Headers {
		up.Header.Set(name, value)
	}
	return up
}

// entry is a tool as the catalog holds it.
type entry = catalog.Entry

// ownerOf is the owner's word on the tools of a server.
func ownerOf(s config.Server) func(tool string) catalog.Override {
	return func(tool string) catalog.Override {
		set := s.Tool(tool)
		return catalog.Override{Permission: set.Permission, Egress: set.Egress, Domains: set.Domains,
			From: fmt.Sprintf("your configuration (%q under servers.%s.tools)", set.Glob, s.Key)}
	}
}

// placeOf is where a server is, as a card tells it.
func placeOf(launch config.Endpoint) string {
	if u, err := url.Parse(launch.URL); err == nil && u.Host != "" {
		return u.Host
	}
	return "the program " + filepath.Base(launch.Command) + " on this machine, which may pass them on"
}

func gatedOf(s config.Server, owner policy.Policy) gate.Server {
	owner.Egress = s.Egress
	return gate.Server{
		Alias: s.Alias, ID: s.ID(), Policy: owner, OnEgress: s.OnEgress, Trust: catalog.Trust(s.Trusted), Place: placeOf(s.Launch), Dir: s.Launch.Cwd, Folders: namesFolder(s.Launch), Secrets: s.Secrets == config.SecretsRedact,
		Idempotent: s.MayRepeat,
		Paths:      func(tool string) []string { return s.Tool(tool).Paths },
		Inverse: func(tool string) *gate.Inverse {
			if undo := s.Tool(tool).Undo; undo != nil {
				return &gate.Inverse{Tool: undo.Tool, Args: undo.Args}
			}
			return nil
		},
		Owner: ownerOf(s), Key: s.Key, Manual: s.Accept == config.AcceptManual, Own: s.Connection == config.ConnectionSession,
	}
}

// profiles are the configured ones and the default one, which is what the gate
// itself says.
func (e *engine) profiles(o engineOptions) map[string]gate.Profile {
	exposure := func(x config.Exposure) gate.Exposure {
		if o.exposure != "" {
			return o.exposure
		}
		return gate.Exposure(x.String())
	}
	profiles := map[string]gate.Profile{"": {
		Exposure: exposure(e.cfg.Exposure), Authority: e.cfg.Authority, Enforce: e.cfg.Slice == config.SliceEnforce,
	}}
	for _, p := range e.cfg.Profiles {
		authority := e.cfg.Authority
		if p.Authority != nil {
			authority = *p.Authority
		}
		profiles[p.Name] = gate.Profile{
			Exposure: exposure(p.Exposure), Reading: p.Reading, Authority: authority,
			Servers: p.Servers, Enforce: p.Slice == config.SliceEnforce,
		}
	}
	return profiles
}

func least(approval config.Approval) map[engagement.Permission]policy.Level {
	levels := map[engagement.Permission]policy.Level{}
	for _, class := range engagement.Permissions() {
		levels[class] = approval.Least(class)
	}
	return levels
}

// namesFolder reports whether a server's arguments or its own variables name another
// folder than the one it is started in, as servers of files are told where they may
// work. They may name several at once, and relative ones.
func namesFolder(launch config.Endpoint) bool {
	own, err := filepath.Abs(launch.Cwd)
	if err != nil {
		return true
	}
	another := func(text string) bool {
		return slices.ContainsFunc(strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ';' || r == os.PathListSeparator }), func(path string) bool {
			if path = strings.TrimSpace(path); !filepath.IsAbs(path) {
				path = filepath.Join(own, path)
			}
			info, err := os.Stat(path)
			return err == nil && info.IsDir() && filepath.Clean(path) != own
		})
	}
	for _, arg := range launch.Args {
		_, value, _ := strings.Cut(arg, "=") // of a flag
		if another(arg) || another(value) {
			return true
		}
	}
	for name, value := range launch.Env {
		if !elsewhere[name] && another(value) {
			return true
		}
	}
	return false
}

// elsewhere are variables with folders in which no server is told to work.
var elsewhere = map[string]bool{"PATH": true, "HOME": true, "TMPDIR": true, "TMP": true, "TEMP": true, "NODE_PATH": true, "PYTHONPATH": true, "VIRTUAL_ENV": true}

// resolve makes a path absolute and clean, with every link followed as far as
// the path exists.
func resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	rest := ""
	for dir := abs; ; dir = filepath.Dir(dir) {
		real, err := filepath.EvalSymlinks(dir)
		if err == nil {
			return filepath.ToSlash(filepath.Join(real, rest)), nil
		}
		if !errors.Is(err, os.ErrNotExist) || dir == filepath.Dir(dir) {
			return "", fmt.Errorf("resolve path: %w", err)
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}

// caller lets the gate reach the servers.
type caller struct {
	pool     *upstream.Pool
	discreet func(string) string // of what is said about a failure
}

func (c caller) Call(ctx context.Context, server, method string, params json.RawMessage, progress func(json.RawMessage)) (json.RawMessage, error) {
	collectLess()
	threads.small()
	of := gate.TermsOf(ctx)
	req := upstream.Request{Method: method, Params: params, Progress: progress, Owner: sessionOf(ctx), Launch: of.Launch, Capabilities: of.Capabilities, LogLevel: of.LogLevel}
	resp, err := c.pool.Call(ctx, server, req)
	if size := max(len(resp.Result), len(params)); size >= largeAnswer {
		threads.large(size)
	}
	if err := c.answered(resp, err); err != nil {
		return nil, err
	}
	return resp.Result, nil
}

func (c caller) Up(server string) error {
	if e, ok := errors.AsType[*upstream.Error](c.pool.Up(server)); ok {
		return failure{e, c.discreet(e.Error())}
	}
	return nil
}

func (c caller) Settled(ctx context.Context, servers ...string) {
	_ = c.pool.Settled(ctx, servers...) // the gate looks at ctx
}

func (c caller) Shown(ctx context.Context, server string) {
	_ = c.pool.Shown(ctx, server) // the same
}

func (c caller) About(server string) gate.About {
	listing, _ := c.pool.Listing(server)
	return gate.About{Info: listing.ServerInfo, Instructions: listing.Instructions, Capabilities: listing.Capabilities, Start: c.pool.Starts(server)}
}

// failure tells the gate what became of a request.
type failure struct {
	up   *upstream.Error
	text string // of up, for a model
}

func (f failure) Error() string    { return f.text }
func (f failure) Unwrap() error    { return f.up }
func (f failure) MayHaveRun() bool { return f.up.MayHaveRun() }
func (f failure) Kind() string     { return f.up.Kind.String() }
