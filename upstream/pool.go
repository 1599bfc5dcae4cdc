// Package upstream starts, watches, restarts and calls the real tool servers.
//
// It runs what it is told and reports faithfully: params go out and results,
// errors and tool definitions come back as the bytes they are, a call is sent
// at most once, and every way in which an answer can fail to come is an
// [*Error] that says whether the call may have run. Servers do not know of
// each other: one that is missing, slow, crashing or lying delays and hides
// no other. The package knows no policy, no session and no approval, and does
// not look at what a tool takes or gives.
//
// To start: [NewPool], then [Pool.Run] in a goroutine of its own, then
// [Pool.Call].
package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-gate/mcp-gate/internal/enum"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
)

// Server is one tool server: a command to run or a URL to talk to.
type Server struct {
	Alias string
	// Launch stands for all that says how the server is started or reached. Where
	// it is another, or "", [Pool.Renew] takes the server for another one, and a
	// [Request] for it is not sent.
	Launch string

	// Command is the program and its arguments. A name without a slash is
	// looked up in the PATH of Env. Exactly one of Command and URL is set.
	Command []string
	Dir     string   // working directory; "" is the gate's own
	Env     []string // the child's whole environment, KEY=VALUE
	// Environ returns Env where that takes a while to find out: it is called when
	// the child is started, and holds up no other. It may be nil.
	Environ func() []string

	URL    string      // http or https
	Header http.Header // sent with every request
	// Authorize returns the value of the Authorization header, or "" for none.
	// It is called before every request with "", and once more with the
	// WWW-Authenticate challenge after a 401; [RefusedAuthorization] tells then
	// what was refused. It may be nil, may be called concurrently, and should do
	// its own single flight.
	Authorize func(ctx context.Context, challenge string) (string, error)

	// CallTimeout is how long a call may go without answer or progress; 0 is
	// for ever. It does not hold for the handshake and listing, which have
	// StartTimeout each (0 means 30 s).
	CallTimeout, StartTimeout time.Duration

	Lazy bool // started by the first call, not by Run
	// PerOwner gives each Request.Owner a connection of its own, which its first
	// request starts and [Pool.Leave] ends.
	PerOwner bool
	Era      Era // zero: Legacy for a command, Auto for a URL
}

// Era says which family of protocol versions is spoken with a server.
type Era uint8

// Probing is not the rule for commands, since servers exist that end when the
// first message is not initialize.
const (
	Auto   Era = iota + 1 // ask server/discover first, else initialize
	Legacy                // initialize; 2024-11-05 to 2025-11-25
	Modern                // server/discover; 2026-07-28
)

var eras = enum.Of[Era]("era", "auto", "legacy", "modern")

func (e Era) String() string                { return eras.Word(e) }
func (e Era) MarshalText() ([]byte, error)  { return eras.Marshal(e) }
func (e *Era) UnmarshalText(b []byte) error { return eras.Unmarshal(b, e) }

// Options hold for all servers of a pool. The zero Options work.
type Options struct {
	Log  *slog.Logger      // nil: nothing is logged
	HTTP http.RoundTripper // nil: a copy of http.DefaultTransport

	ClientName, ClientVersion string // what servers are told; "" means mcp-gate and 0
	// Capabilities is the client capabilities object that servers are told,
	// nil for {}. It should declare no more than OnRequest answers.
	Capabilities json.RawMessage

	MaxMessage int64 // bytes of one message from a server; 0 means 64 MiB

	// Backoff returns the pause before another start after so many starts or
	// early crashes in a row, 1 or more. Nil means 250 ms doubling to 30 s, a
	// fifth up or down at random.
	Backoff func(failures int) time.Duration

	// OnRequest answers a request of a server, ping excepted. Its ctx ends with
	// the connection, when the server cancels, and with the call that the
	// request belongs to, whose values it then has, where that can be told: over
	// HTTP by the stream, else when only one call is running. Nil answers all
	// with -32601 at once.
	OnRequest func(ctx context.Context, alias, method string, params json.RawMessage) (json.RawMessage, *jsonrpc.Error)
	// OnNotification takes each notification of a server except progress and
	// cancellations. It runs on the goroutine that reads the server, before
	// any later answer is delivered, so it must not block. A server on HTTP
	// may have several such goroutines. Its ctx has the values of the call that
	// the notification belongs to where that can be told, as with OnRequest; it
	// is not ended by anything.
	OnNotification func(ctx context.Context, alias, method string, params json.RawMessage)
	// OnChange is told that a server's state or listing changed, never twice at
	// once for one server, and before Settled counts the server in. The server
	// is not watched meanwhile, so it should be quick.
	OnChange func(alias string)
	// OnBulk is told when a child has more to say at once than small answers come
	// to, each time, on the goroutine that reads it.
	OnBulk func()
}

// Request is one request for a server.
type Request struct {
	Method string
	// Params is an object or nil. It goes out byte for byte, except that line
	// breaks between its tokens become spaces, and that keys of the protocol
	// are added to its _meta where needed.
	Params json.RawMessage
	// Progress, where not nil, asks the server for progress and takes the
	// params of each notification about it, in order, on the caller's
	// goroutine, before Call returns. It should not block for long: the call's
	// timeout and cancellation wait for it. The progressToken in it is the
	// pool's own.
	Progress func(params json.RawMessage)

	// Launch, where not "", is the Server.Launch that the request is meant for.
	Launch string

	// Owner is on whose behalf the request is made, any comparable value. While
	// a call of one owner waits for an answer to its server, what that server
	// asks further is not taken for another owner's.
	Owner any

	// Capabilities is the client capabilities object that a modern server is
	// told with this request; nil stands for Options.Capabilities. A server with
	// a handshake was told those at its start.
	Capabilities json.RawMessage
	// LogLevel is the least level of log messages about this request that a
	// modern server is asked for; "" asks for none.
	LogLevel string
}

// Response is a server's answer, in its own bytes: exactly one field is set.
// An Error is an answer, too: the server took the request and said no.
type Response struct {
	Result json.RawMessage
	Error  *jsonrpc.Error
}

// Pool keeps a connection to each of its servers. All methods are safe for
// concurrent use.
type Pool struct {
	o      Options
	launch *launcher
	open   func(context.Context, *server) (conn, error) // makes a new connection; immutable
	drain  time.Duration                                // see the constant; immutable
	roster atomic.Pointer[roster]                       // replaced whole, with mu held

	mu     sync.Mutex                     // guards what follows
	ctx    context.Context                // of Run; nil before it
	ending map[*server]context.CancelFunc // ends a server that runs
	own    map[string]map[any]*server     // the connections of owners, by alias and owner
	left   map[string]wish                // what was wished for of servers that were taken out
	level  string                         // of log messages, of every server there is or will be; "" says nothing
	wg     sync.WaitGroup                 // of what runs servers; its Add with mu held and while ctx lasts
}

// roster are the servers of a pool. It is immutable.
type roster struct {
	servers []*server // in the order they were given
	byAlias map[string]*server
}

// NewPool checks servers and prepares a pool that does nothing until Run.
func NewPool(servers []Server, o Options) (*Pool, error) {
	p := &Pool{o: o.withDefaults(), launch: newLauncher(), ending: map[*server]context.CancelFunc{}, own: map[string]map[any]*server{}, left: map[string]wish{}}
	p.open, p.drain = p.connect, drain
	p.roster.Store(&roster{})
	if _, err := p.Renew(servers); err != nil {
		return nil, err
	}
	return p, nil
}

// all returns the servers in the order they were given.
func (p *Pool) all() []*server { return p.roster.Load().servers }

// find returns the server called alias, or nil.
func (p *Pool) find(alias string) *server { return p.roster.Load().byAlias[alias] }

// connect makes a new connection to s.
func (p *Pool) connect(ctx context.Context, s *server) (conn, error) {
	if s.cfg.URL != "" {
		return openHTTP(s)
	}
	return openStdio(ctx, s, p.launch)
}

// Run starts all servers at once, each on its own, and keeps them running
// until ctx ends. When it returns, every child process has been ended and
// reaped together with what it had started, and every goroutine is gone; that
// takes under 4 s. A pool runs once.
func (p *Pool) Run(ctx context.Context) error {
	if !p.begin(ctx) {
		return errors.New("run upstreams: the pool has been run before")
	}
	launched := make(chan struct{})
	go func() {
		defer close(launched)
		p.launch.run()
	}()
	<-ctx.Done()
	p.waitAll()
	p.launch.close()
	<-launched
	if idle, ok := p.o.HTTP.(interface{ CloseIdleConnections() }); ok {
		idle.CloseIdleConnections()
	}
	return ctx.Err()
}

// begin starts all servers. It reports whether it was the first to do so.
func (p *Pool) begin(ctx context.Context) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx != nil {
		return false
	}
	p.ctx = ctx
	for _, s := range p.all() {
		p.start(s)
	}
	return true
}

// start runs a server until ctx ends or it is ended by itself. It is called
// with mu held, and while ctx lasts.
func (p *Pool) start(s *server) {
	ctx, cancel := context.WithCancel(p.ctx)
	p.ending[s] = cancel
	p.wg.Go(func() {
		defer cancel()
		s.run(ctx)
	})
}

// waitAll waits until no server runs. The context of Run has ended, so there
// will be no other.
func (p *Pool) waitAll() {
	p.mu.Lock()
	all := &p.wg // whoever was starting one has started it
	p.mu.Unlock()
	all.Wait()
}

// Call sends one request to the server called alias and returns its answer.
// Where the server is starting or about to be started again it waits for
// that, at most for the server's StartTimeout. The error is an [*Error]. A
// request is never sent a second time once a byte of it may have arrived. When
// ctx ends the server is told so, and Call returns.
func (p *Pool) Call(ctx context.Context, alias string, req Request) (Response, error) {
	s := p.find(alias)
	if s == nil {
		return Response{}, &Error{Server: alias, Method: req.Method, Kind: UnknownServer}
	}
	if req.Launch != "" && req.Launch != s.cfg.Launch {
		return Response{}, &Error{Server: alias, Method: req.Method, Kind: Withdrawn, Err: errChanged}
	}
	s, e := p.serverOf(s, req.Owner, req.Method)
	if e == nil && req.Method == "tools/call" {
		e = s.same(ctx, req.Params)
	}
	if e != nil {
		return Response{}, e
	}
	return s.call(ctx, req)
}

// Notify sends a notification to the server called alias if it is running.
func (p *Pool) Notify(ctx context.Context, alias, method string, params json.RawMessage) error {
	s := p.find(alias)
	if s == nil {
		return &Error{Server: alias, Method: method, Kind: UnknownServer}
	}
	s, e := p.serverOf(s, OwnerOf(ctx), method)
	if e != nil {
		return e
	}
	return s.notify(ctx, method, params)
}

// Listing returns the last good listing of the server called alias, and
// whether there was one.
func (p *Pool) Listing(alias string) (Listing, bool) {
	s := p.find(alias)
	if s == nil {
		return Listing{}, false
	}
	return s.lastListing()
}

// Status returns the state of every server in the order they were given.
func (p *Pool) Status() []Status {
	servers := p.all()
	all := make([]Status, len(servers))
	for i, s := range servers {
		all[i] = s.status()
		all[i].Sessions = len(p.owned(s.cfg.Alias))
	}
	return all
}

// Up returns nil when the server called alias takes a call now, or has worked
// and is started again in a moment; else the [*Error] that a call would end in.
// It is cheap, unlike Status.
func (p *Pool) Up(alias string) error {
	s := p.find(alias)
	if s == nil {
		return &Error{Server: alias, Kind: UnknownServer}
	}
	if e := s.down(); e != nil {
		return e
	}
	return nil
}

// Settled returns nil once every server, or every one of those named, has
// listed its tools or failed, or waits for its first call because it is lazy,
// and OnChange has been told so; else ctx's error. A first start that fails is
// followed by the second where that comes soon and nobody has to sign in.
// Unknown names are passed over.
func (p *Pool) Settled(ctx context.Context, aliases ...string) error {
	for _, s := range p.all() {
		if len(aliases) > 0 && !slices.Contains(aliases, s.cfg.Alias) {
			continue
		}
		if err := p.now(s, func(s *server) error { return s.settle(ctx) }); err != nil {
			return err
		}
	}
	return nil
}

// now calls do with a server. If a change of the configuration has put another in its
// place by then, it calls do with that one too.
func (p *Pool) now(s *server, do func(*server) error) error {
	for s != nil {
		if err := do(s); err != nil {
			return err
		}
		next := p.find(s.cfg.Alias)
		if next == s {
			return nil
		}
		s = next
	}
	return nil
}

// Shown is Settled for one server that is needed now: one that waits for its
// first call is started.
func (p *Pool) Shown(ctx context.Context, alias string) error {
	return p.now(p.find(alias), func(s *server) error { return s.show(ctx) })
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.HTTP == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConnsPerHost = 64 // the default of 2 makes parallel calls dial anew each time
		o.HTTP = t
	}
	if o.ClientName == "" {
		o.ClientName = "mcp-gate"
	}
	if o.ClientVersion == "" {
		o.ClientVersion = "0"
	}
	if o.Capabilities == nil {
		o.Capabilities = json.RawMessage("{}")
	}
	if o.MaxMessage == 0 {
		o.MaxMessage = 64 << 20
	}
	if o.Backoff == nil {
		o.Backoff = backoff
	}
	if o.OnNotification == nil {
		o.OnNotification = func(context.Context, string, string, json.RawMessage) {}
	}
	if o.OnChange == nil {
		o.OnChange = func(string) {}
	}
	if o.OnBulk == nil {
		o.OnBulk = func() {}
	}
	return o
}

// backoff is 250 ms doubling to 30 s, a fifth up or down so that servers that
// fell together do not rise together.
func backoff(failures int) time.Duration {
	d := min(250*time.Millisecond<<min(failures-1, 10), 30*time.Second)
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}

func (s Server) check() error {
	switch {
	case s.Alias == "":
		return errors.New("it has no alias")
	case s.URL == "" && (len(s.Command) == 0 || s.Command[0] == ""):
		return errors.New("it has neither a command nor a URL")
	case s.URL != "" && len(s.Command) > 0:
		return errors.New("it has both a command and a URL")
	case s.URL == "":
		return nil
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return err
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return fmt.Errorf("%q is not an http or https URL", u.Redacted())
	}
	return nil
}

func (s Server) withDefaults() Server {
	if s.StartTimeout == 0 {
		s.StartTimeout = 30 * time.Second
	}
	if s.Era == 0 {
		s.Era = Legacy
		if s.URL != "" {
			s.Era = Auto
		}
	}
	return s
}
