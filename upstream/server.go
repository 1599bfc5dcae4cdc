package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// patience is the longest pause before another start that a call waits
	// through; during a longer one it fails at once.
	patience = 2 * time.Second
	// healthy is how long a connection must last for what went wrong before to
	// be forgotten.
	healthy = 30 * time.Second
	// relistPause is the least time between two listings: servers exist that
	// announce a change three times a second.
	relistPause = 2 * time.Second
	// confirmEmpty is how long a listing must stay empty to be believed after
	// one that was not.
	confirmEmpty = 30 * time.Second
)

// server keeps one server running: it owns the connection, and run owns every
// goroutine that the connection needs.
type server struct {
	cfg    Server   // immutable
	o      *Options // immutable
	log    *slog.Logger
	open   func(context.Context) (conn, error)
	tally  tally
	stderr *ring
	ids    atomic.Int64  // ids of requests never repeat, not even after a restart
	wanted chan struct{} // a call waits for a server that is not running
	relist chan struct{} // the listing may have changed
	calls  calls
	wishes wishes
	pace   pace
	owner  any          // whose own connection it is; nil for the pool's
	base   *server      // the pool's connection beside an owner's
	asking atomic.Int64 // requests of the server that are being answered
	terms  atomic.Pointer[terms]

	mu        sync.Mutex // guards what follows; never held while waiting for the server
	changed   chan struct{}
	state     State
	since     time.Time
	nextTry   time.Time
	starts    int
	failures  int // starts that failed, ever
	sess      *session
	lastErr   *Error
	settled   bool // it has listed its tools, or will not do so soon
	told      bool // and the owner of the pool has been told
	listed    bool
	unlisted  bool // the last listing on this connection failed
	shown     bool // and the owner of the pool has been told
	listing   Listing
	problems  []string
	suspect   string
	garbage   string        // how the first message began that was none
	emptyFrom time.Time     // first of the empty listings that were not believed
	gone      error         // why it takes no calls any more; nil while it does
	inFlight  int           // calls that came before that and are not over
	idle      chan struct{} // closed once it is gone and none of them is left
}

// terms are what may be told a server that runs.
type terms struct {
	timeout time.Duration // of a call
	lazy    bool
}

func newServer(cfg Server, o *Options) *server {
	s := &server{
		cfg: cfg, o: o, log: o.Log.With("server", cfg.Alias), stderr: newRing(stderrKept),
		wanted: make(chan struct{}, 1), relist: make(chan struct{}, 1),
		calls: newCalls(), wishes: newWishes(), changed: make(chan struct{}), state: Idle, since: time.Now(),
		idle: make(chan struct{}),
	}
	s.terms.Store(&terms{cfg.CallTimeout, cfg.Lazy})
	return s
}

// timeout is that of a call.
func (s *server) timeout() time.Duration {
	if s.base != nil {
		return s.base.timeout()
	}
	return s.terms.Load().timeout
}

func (s *server) lazy() bool { return s.terms.Load().lazy }

// update changes the guarded fields, wakes everyone who waits for one, and
// tells the owner of the pool. Only run and what it calls does it.
func (s *server) update(f func()) {
	s.mu.Lock()
	before := s.state
	f()
	if s.state != before {
		s.since = time.Now()
	}
	s.wake()
	settled, gone := s.settled, s.gone
	s.mu.Unlock()
	if s.base == nil && gone == nil {
		s.o.OnChange(s.cfg.Alias)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if settled && !s.told {
		s.told = true
		s.wake()
	}
}

// wake is called with mu held.
func (s *server) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// run starts the server, keeps its connection until that is lost, and starts
// it again, until ctx ends.
func (s *server) run(ctx context.Context) {
	defer s.update(func() { s.state, s.settled, s.sess = Stopped, true, nil })
	failures := 0
	for ctx.Err() == nil {
		if s.lazy() && !s.waitWanted(ctx) {
			return
		}
		c, sess, err := s.start(ctx)
		pause := time.Duration(0)
		if err == nil {
			began := time.Now()
			err = s.serve(ctx, sess)
			if time.Since(began) >= healthy {
				failures = 0
			}
		} else {
			failures++
		}
		if failures > 0 {
			pause = s.o.Backoff(failures)
		}
		if sess != nil {
			failures++ // one restart is free: the next end soon after it is not
		}
		next := time.Now().Add(pause)
		if ctx.Err() == nil {
			s.log.Warn("server ended", "err", err, "pause", pause)
			s.fall(err, next)
		}
		if c != nil { // those who wait know by now: ending a child can take its time
			c.close()
		}
		wait(ctx, time.Until(next))
	}
}

// fall records that the server is down and when it is started again.
func (s *server) fall(err *Error, next time.Time) {
	s.update(func() {
		crashed := s.sess != nil
		s.lastErr, s.sess, s.nextTry = err, nil, next
		// Programs exist that end at their first start and come up at the next.
		s.settled = s.settled || s.starts > 1 || hopeless(err, next)
		switch soon := time.Until(next) <= 0; {
		case crashed && soon && s.lazy():
			s.state = Idle
		case crashed && soon:
			s.state = Starting
		default:
			s.state = Failed
			s.failures++
		}
	})
}

// hopeless reports whether a server that went away with err is not worth a wait
// for its next start.
func hopeless(err *Error, next time.Time) bool {
	var stuck *startStuck // the next start may take as long again
	return err.Kind == Unauthorized || errors.Is(err.Err, errNoProgram) || errors.As(err.Err, &stuck) || time.Until(next) > patience
}

// waitWanted waits until a call needs a lazy server.
func (s *server) waitWanted(ctx context.Context) bool {
	select {
	case <-s.wanted: // perhaps from a call that has been served since; others ask again when woken
	default:
	}
	s.update(func() { s.settled = true })
	select {
	case <-s.wanted:
		return true
	case <-ctx.Done():
		return false
	}
}

// start makes a connection and shakes hands on it. The connection is the
// caller's to close, also where there is an error beside it.
func (s *server) start(ctx context.Context) (conn, *session, *Error) {
	s.update(func() { s.state = Starting; s.starts++ })
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StartTimeout)
	defer cancel()
	c, sess, err := s.connect(ctx)
	if err == nil {
		return c, sess, nil
	}
	return c, nil, s.startError(err, time.Since(began))
}

// startError makes err a statement about the server as a whole.
func (s *server) startError(err error, after time.Duration) *Error {
	kind, hint := StartFailed, "see what it wrote to stderr, and run its command by hand"
	if s.cfg.URL != "" {
		hint = "check its URL, and that it is running"
	}
	var e *Error
	if errors.As(err, &e) {
		if e.Kind == Unauthorized || e.Kind == Unreachable {
			kind = e.Kind
		}
		if e.Kind == Unauthorized {
			hint = "" // the error names the way
		}
		if e.Hint != "" {
			hint = e.Hint
		}
		switch {
		case e.Kind == Timeout || e.Kind == Cancelled:
			err = &startStuck{e.Method, after}
		case err != error(e) || e.Err == nil: // it says more than e.Err
		case e.Kind == Invalid || e.Kind == TooLarge:
			err = fmt.Errorf("its answer to %s is not acceptable: %w", e.Method, e.Err)
		case e.Kind == Refused:
			err = fmt.Errorf("it refused %s: %w", e.Method, e.Err)
		default:
			err = e.Err
		}
	}
	if kind == StartFailed {
		err = s.lastWords(err)
	}
	return &Error{Server: s.cfg.Alias, Kind: kind, After: after, Hint: hint, Err: err}
}

// lastWords adds to err what the server said in place of MCP.
func (s *server) lastWords(err error) error {
	s.mu.Lock()
	garbage := s.garbage
	s.mu.Unlock()
	if garbage != "" {
		err = fmt.Errorf("%w; it writes to stdout what is no MCP message, such as \"%s\"", err, garbage)
	}
	if tail := s.stderr.lastLines(3); tail != "" {
		err = fmt.Errorf("%w; its last words on stderr: \"%s\"", err, tail)
	}
	return err
}

// serve lists the tools, now and whenever they may have changed, until the
// connection is lost or ctx ends.
func (s *server) serve(ctx context.Context, sess *session) *Error {
	defer sess.listen(ctx)()
	told := sess.grant(ctx, s.wishes.now(), wish{})
	var late wish
	s.update(func() { s.state, s.sess, s.unlisted, late = Ready, sess, false, s.wishes.now() })
	sess.grant(ctx, late, told) // what was wished for while nobody could be told; whoever wishes now says so
	s.log.Info("server ready", "protocol", sess.version)
	due := time.NewTimer(0)
	defer due.Stop()
	last, retry := time.Time{}, relistPause
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-sess.conn.lost():
			return &Error{Server: s.cfg.Alias, Kind: Lost, Err: sess.conn.why(), Hint: "it is started again by itself"}
		case <-s.relist:
			due.Reset(max(0, time.Until(last.Add(relistPause))))
		case <-due.C:
			again, ok := s.list(ctx, sess)
			last = time.Now()
			switch {
			case ok && again > 0:
				due.Reset(again)
			case !ok:
				due.Reset(retry)
				retry = min(2*retry, time.Minute)
			default:
				retry = relistPause
			}
		}
	}
}

// list takes a new listing and publishes it where it may be believed. It
// returns when to look again, 0 for not unless something happens.
func (s *server) list(ctx context.Context, sess *session) (again time.Duration, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StartTimeout)
	defer cancel()
	found, err := sess.listTools(ctx)
	if err != nil {
		if ctx.Err() == context.Canceled {
			return 0, false
		}
		e := &Error{Server: s.cfg.Alias, Kind: Invalid, Err: err, Hint: "its tools are asked for again by itself; the last whole list stays, if there was one"}
		if refused := (*Error)(nil); errors.As(err, &refused) && refused.Kind == Unauthorized {
			e = refused
		}
		s.log.Warn("tools not listed", "err", err)
		s.update(func() { s.lastErr, s.settled, s.unlisted = e, true, true })
		return 0, false
	}
	s.update(func() { again = s.publish(found, sess) })
	s.update(func() { s.settled, s.shown = true, true }) // only now: OnChange has passed the listing on
	for _, p := range found.problems {
		s.log.Warn("tool left out", "why", p)
	}
	return again, true
}

// publish is called with mu held.
func (s *server) publish(found found, sess *session) (again time.Duration) {
	if len(found.tools) == 0 && len(s.listing.Tools) > 0 {
		if s.emptyFrom.IsZero() {
			s.emptyFrom = time.Now()
		}
		if left := confirmEmpty - time.Since(s.emptyFrom); left > 0 {
			s.suspect = "it suddenly lists no tools; the listing before stays until that is confirmed"
			return left
		}
	}
	l := Listing{
		Tools: found.tools, Instructions: sess.instructions, ServerInfo: sess.serverInfo,
		Capabilities: sess.capabilities, Protocol: sess.version, Generation: s.listing.Generation,
	}
	if !s.listed || !l.equal(s.listing) {
		l.Generation++
	}
	s.listed, s.listing, s.problems = true, l, found.problems
	s.suspect, s.emptyFrom, s.lastErr, s.unlisted = "", time.Time{}, nil, false
	return 0
}

func (l Listing) equal(m Listing) bool {
	if len(l.Tools) != len(m.Tools) || l.Instructions != m.Instructions || l.Protocol != m.Protocol ||
		string(l.ServerInfo) != string(m.ServerInfo) || string(l.Capabilities) != string(m.Capabilities) {
		return false
	}
	for i := range l.Tools {
		if string(l.Tools[i]) != string(m.Tools[i]) {
			return false
		}
	}
	return true
}

// call waits for the server, sends req, and waits for the answer.
func (s *server) call(ctx context.Context, req Request) (Response, error) {
	began := time.Now()
	if err := s.enter(); err != nil {
		err.Method = req.Method
		return Response{}, err
	}
	defer s.leave()
	for tries := 1; ; tries++ {
		sess, err := s.await(ctx, req.Method, began)
		if err != nil {
			return Response{}, err
		}
		mine, err := s.calls.enter(ctx, req.Owner)
		if err != nil {
			err.Server, err.Method, err.After = s.cfg.Alias, req.Method, time.Since(began)
			return Response{}, err
		}
		resp, err := sess.call(ctx, req, s.timeout())
		s.calls.leave(mine)
		if err == nil {
			return resp, nil
		}
		// Where the connection was gone before the first byte, or the server
		// refused a request of a session it has forgotten, this is still the
		// first try.
		if err.Kind == Lost && !err.Sent && tries < 3 && s.forget(ctx, sess) {
			continue
		}
		return Response{}, s.withdrew(err)
	}
}

// forget waits until run has noticed that sess is over.
func (s *server) forget(ctx context.Context, sess *session) bool {
	for {
		s.mu.Lock()
		current, changed := s.sess, s.changed
		s.mu.Unlock()
		if current != sess {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// await returns the session to use, waiting for a start that is under way or
// due soon.
func (s *server) await(ctx context.Context, method string, began time.Time) (*session, *Error) {
	fail := func(kind Kind, err error, hint string) (*session, *Error) {
		return nil, &Error{Server: s.cfg.Alias, Method: method, Kind: kind, After: time.Since(began), Hint: hint, Err: err}
	}
	s.mu.Lock()
	if s.state == Ready {
		defer s.mu.Unlock()
		return s.sess, nil
	}
	seen := s.failures
	limit := time.NewTimer(s.cfg.StartTimeout + patience)
	defer limit.Stop()
	for {
		state, sess, changed, gone := s.state, s.sess, s.changed, s.gone
		var down *Error
		if s.state == Failed && (s.failures > seen || time.Until(s.nextTry) > patience) {
			down = s.standing()
		}
		s.mu.Unlock()
		switch {
		case state == Ready:
			return sess, nil
		case gone != nil:
			return fail(Withdrawn, gone, "")
		case state == Stopped:
			return fail(NotRunning, errStopped, "")
		case down != nil:
			return fail(down.Kind, down.Err, down.Hint)
		}
		poke(s.wanted)
		select {
		case <-changed:
		case <-ctx.Done():
			e := ended(ctx)
			return fail(e.Kind, e.Err, "")
		case <-limit.C:
			return fail(NotRunning, errors.New("it is still being started"), "try again later")
		}
		s.mu.Lock()
	}
}

// down returns why a call would fail at once, or nil. A server that has worked
// and is started again soon is not down; of one that never has, nobody knows.
func (s *server) down() *Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.state == Stopped:
		return &Error{Server: s.cfg.Alias, Kind: NotRunning, Err: errStopped}
	case s.state == Failed && (!s.listed || time.Until(s.nextTry) > patience):
		return s.standing()
	}
	return nil
}

// standing is the last error as it concerns calls that come now. It is called
// with mu held.
func (s *server) standing() *Error {
	e := *s.lastErr
	e.Sent = false
	if e.Kind == Lost {
		e.Kind = NotRunning
	}
	return &e
}

var errStopped = errors.New("mcp-gate is shutting down")

func (s *server) notify(ctx context.Context, method string, params json.RawMessage) error {
	s.mu.Lock()
	sess := s.sess
	s.mu.Unlock()
	if sess == nil {
		return &Error{Server: s.cfg.Alias, Method: method, Kind: NotRunning}
	}
	if err := sess.notify(ctx, method, params); err != nil {
		return &Error{Server: s.cfg.Alias, Method: method, Kind: Lost, Err: err}
	}
	return nil
}

// inputSchema returns the schema of the tool called name in the last listing,
// or nil.
func (s *server) inputSchema(name string) json.RawMessage {
	l, _ := s.lastListing()
	for _, tool := range l.Tools {
		if textMember(tool, "name") == name {
			return schemaOf(tool)
		}
	}
	return nil
}

// waitsForUs reports whether the server has asked something that is not
// answered yet.
func (s *server) waitsForUs() bool { return s.asking.Load() > 0 }

func (s *server) listAgain() { poke(s.relist) }

func (s *server) lastListing() (Listing, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listing, s.listed
}

func (s *server) settle(ctx context.Context) error {
	for {
		s.mu.Lock()
		told, changed := s.told || s.gone != nil, s.changed
		s.mu.Unlock()
		if told {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// show waits until the server has listed its tools, or will not do so soon, and
// starts one that waits for its first call.
func (s *server) show(ctx context.Context) error {
	s.mu.Lock()
	borne := max(s.failures, 1)
	for {
		changed := s.changed
		done := s.gone != nil || s.shown || s.state == Stopped || s.failures > borne ||
			s.state == Ready && s.unlisted || s.state == Failed && hopeless(s.lastErr, s.nextTry)
		s.mu.Unlock()
		if done {
			return nil
		}
		poke(s.wanted)
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
		s.mu.Lock()
	}
}

func (s *server) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{
		Alias: s.cfg.Alias, Transport: "stdio", State: s.state, Since: s.since, Starts: s.starts,
		Listed: s.listed, Tools: len(s.listing.Tools), Suspect: s.suspect, Problems: s.problems,
		Stderr: s.stderr.text(), Dropped: s.tally.dropped(),
	}
	if s.cfg.URL != "" {
		st.Transport = "http"
	}
	if s.state == Failed {
		st.NextTry = s.nextTry
	}
	if s.sess != nil {
		st.PID, st.Protocol = s.sess.conn.pid(), s.sess.version
	}
	if s.lastErr != nil {
		st.LastError, st.Hint = s.lastErr.Error(), s.lastErr.Hint
	}
	return st
}

// poke leaves one nudge in a channel of capacity 1.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// wait waits for d or the end of ctx.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
