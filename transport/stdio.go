package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/mcp-gate/mcp-gate/gate"
	"github.com/mcp-gate/mcp-gate/internal/ids"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
)

// ServeStdio serves one client over a pair of streams, a message a line, until
// in ends or ctx does. Either way the calls in flight may finish and be
// answered for [Options.Grace], then they are cancelled; a question that waits
// for a person ends at once when in ends, since no answer can come. It returns
// nil after in ended, ctx's error after ctx did, and the stream's own error
// when reading or writing failed.
//
// If in can be closed it is, when ServeStdio returns. A stream whose Read does
// not end by that, such as a terminal, keeps one goroutine until its next line.
func (s *Server) ServeStdio(ctx context.Context, who gate.Identity, in io.Reader, out io.Writer) error {
	if who.SessionID == "" {
		id, err := ids.New("s_", s.o.Rand)
		if err != nil {
			return fmt.Errorf("make a session id: %w", err)
		}
		who.SessionID = id
	}
	lasting, end := context.WithCancel(context.WithoutCancel(ctx)) // what answers are sent under
	defer end()
	work, cancel := context.WithCancel(lasting)
	defer cancel()
	st := &stdio{c: s.newConn(who), w: jsonrpc.NewLineWriter(out), crew: newCrew(), patience: s.o.Grace}
	defer st.crew.end()
	defer st.close()
	read := make(chan error, 1)
	go func() { read <- st.read(work, lasting, jsonrpc.NewLineReader(in, s.o.MaxMessage)) }()

	var err error
	select {
	case err = <-read:
		st.c.asked.close()
	case <-ctx.Done():
		err = ctx.Err()
	case <-st.w.Done():
		cancel() // nobody reads: there is nothing to finish for
	}
	st.drain(cancel, s.o.Grace)
	if c, ok := in.(io.Closer); ok {
		_ = c.Close() // only to end a Read
	}
	last, stop := context.WithTimeout(lasting, s.o.Grace)
	defer stop()
	if werr := st.w.Close(last); err == nil {
		err = werr
	}
	return err
}

// stdio carries the messages of one pair of streams.
type stdio struct {
	c    *conn
	w    *jsonrpc.LineWriter
	crew *crew

	patience time.Duration // how long the reader waits for a client that does not read
	deaf     bool          // it has waited in vain; the reader's own

	mu      sync.Mutex // guards stopped, so that none is added to running after the wait began
	stopped bool
	running sync.WaitGroup // requests and the watch for changes
}

func (st *stdio) streams() bool { return true }

func (st *stdio) send(ctx context.Context, line []byte) error { return st.w.Send(ctx, line) }

func (st *stdio) answer(ctx context.Context, line jsonrpc.Line, _ *jsonrpc.Error) error {
	return st.w.Send(ctx, line[:]...)
}

// read takes messages until the stream ends, never waits for one to be served,
// and not for long for room to refuse one. The end of the stream is no error.
func (st *stdio) read(work, lasting context.Context, r *jsonrpc.LineReader) error {
	for {
		line, err := r.Next()
		if err == nil {
			st.take(work, lasting, line)
			continue
		}
		switch long, ok := errors.AsType[*jsonrpc.TooLongError](err); {
		case ok:
			st.refuse(lasting, long.ID(), &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: long.Error()})
		case errors.Is(err, io.EOF):
			return nil
		default:
			return fmt.Errorf("read from the client: %w", err)
		}
	}
}

func (st *stdio) take(work, lasting context.Context, line []byte) {
	m, err := jsonrpc.Parse(line)
	if err != nil {
		id, answers, e := refusal(line, err)
		if !st.c.asked.fail(answers, e) {
			st.refuse(lasting, id, e)
		}
		return
	}
	switch {
	case m.IsResponse():
		if !st.c.asked.deliver(m) {
			st.c.log.Debug("answer dropped: nothing waits for it")
		}
	case m.IsNotification():
		st.c.notice(m)
	default:
		if e := st.request(work, lasting, m); e != nil {
			st.refuse(lasting, m.ID, e)
		}
	}
}

// refuse answers a message that is not served. A client that reads nothing holds
// up the reading of what it sends, but only for a while: that its input ended is
// seen only behind all of that. Then what is refused stays unanswered until
// there is room again.
func (st *stdio) refuse(ctx context.Context, id []byte, e *jsonrpc.Error) {
	wait := st.patience
	if st.deaf {
		wait = 0
	}
	ctx, stop := context.WithTimeout(ctx, wait)
	defer stop()
	err := st.w.Send(ctx, jsonrpc.AppendError(nil, id, e))
	st.deaf = errors.Is(err, context.DeadlineExceeded)
	if err != nil {
		st.c.log.Debug("answer not delivered", "err", err)
	}
}

// request starts serving a request, in a goroutine of its own.
func (st *stdio) request(work, lasting context.Context, m jsonrpc.Message) *jsonrpc.Error {
	p, err := parseParams(m.Params)
	if err != nil {
		return invalidParams("params: %v", err)
	}
	t, e := st.terms(m.Method, p)
	if e != nil {
		return e
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.stopped {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "the gate is stopping"}
	}
	x, work, e := st.c.begin(work, m, p, t, st)
	if e != nil {
		return e
	}
	st.running.Add(1)
	st.crew.do(func() {
		defer st.running.Done()
		x.run(work, lasting)
		if x.msg.Method == "initialize" {
			st.watch(lasting)
		}
	})
	return nil
}

// terms finds the rules for a request. One that names a modern revision, or
// that only modern revisions have, brings its own, unless the handshake was made
// and it brings none. For any other the handshake comes first; before it only
// ping is served, as the legacy revisions say.
func (st *stdio) terms(method string, p params) (terms, *jsonrpc.Error) {
	d, e := readDeclared(p)
	if e != nil {
		return terms{}, e
	}
	t, ok := st.c.legacyTerms()
	if isModernOnly(method) && (d.has || !ok) || d.has && !isLegacy(d.version) {
		return d.modernTerms()
	}
	if method == "initialize" {
		t, e := readInitialize(p)
		if e == nil {
			st.c.handshake(t)
		}
		return t, e
	}
	if !ok && method != "ping" {
		return terms{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
			Message: "send initialize first, or name the protocol version in _meta as " + version2026 + " does"}
	}
	return t, nil
}

// watch tells a legacy client what belongs to no request.
func (st *stdio) watch(ctx context.Context) {
	q, end := st.c.listenAll(st.send)
	defer end()
	changed := st.c.changed()
	for {
		var line []byte
		select {
		case <-changed:
			if changed = nil; !st.c.announce() {
				continue
			}
			line = note{method: noticeToolsChanged}.line()
		case n := <-q:
			line = n.line()
		case <-st.c.stopped:
			return
		}
		if err := st.w.Send(ctx, line); err != nil {
			st.c.log.Debug("notification not delivered", "err", err)
		}
	}
}

// drain lets no further request in, ends what has no end of its own, and waits
// for the rest: for the grace, then for what cancelling it takes.
func (st *stdio) drain(cancel context.CancelFunc, grace time.Duration) {
	st.mu.Lock()
	st.stopped = true
	st.mu.Unlock()
	st.c.stop()
	idle := make(chan struct{})
	go func() {
		st.running.Wait()
		close(idle)
	}()
	if within(idle, grace) {
		return
	}
	cancel()
	if !within(idle, unwind) {
		st.c.log.Warn("calls did not end when they were cancelled")
	}
}

// close ends what of the client is left, parked requests for one, and waits for
// it: whoever serves closes what sessions write to next.
func (st *stdio) close() {
	st.c.close()
	if !within(st.c.ended, unwind) {
		st.c.log.Warn("the session did not end when it was closed")
	}
}

// unwind is how long a cancelled call may take to return.
const unwind = time.Second

func within(done <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}
