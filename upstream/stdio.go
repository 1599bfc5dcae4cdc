package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
)

// lostGrace is how long the end of the output waits for the end of the
// process, to say how that ended, and the other way round.
const lostGrace = 300 * time.Millisecond

// stdio is a connection to a child process: one JSON-RPC message a line.
//
// It is our own and not mcp-go's client transport (v1.2.1), because that one
// ignores the caller's context while it writes, so that a child that does not
// read blocks every call; leaves grandchildren running, since it signals the
// child only; marshals requests anew, which compacts them and escapes <, >
// and &; sets no bound to a line; and matches ids by type, so that a child
// answering "7" to 7 hangs the call.
type stdio struct {
	s    *server
	proc *process // nil in tests that need no process
	w    *jsonrpc.LineWriter
	out  io.WriteCloser
	in   *inbound
	read chan struct{} // closed when the reader has ended
	over chan struct{} // closed by fail

	mu      sync.Mutex // guards what follows
	pending map[string]*pending
	err     error // why it is over
	garbage bool  // a garbage line has been logged
}

// openStdio starts the child of s and connects to it.
func openStdio(ctx context.Context, s *server, l *launcher) (conn, error) {
	proc, err := startProcess(ctx, s.cfg, l, s.stderr)
	if err != nil {
		return nil, err
	}
	c := newStdio(s, proc.stdout, proc.stdin)
	c.proc = proc
	go c.readAll(proc.stdout)
	go c.watchWriter()
	return c, nil
}

func newStdio(s *server, r io.Reader, w io.WriteCloser) *stdio {
	c := &stdio{
		s: s, w: jsonrpc.NewLineWriter(w), out: w,
		read: make(chan struct{}), over: make(chan struct{}), pending: map[string]*pending{},
	}
	c.in = newInbound(s, func(ctx context.Context, line []byte) { _ = c.w.Send(ctx, line) })
	return c
}

func (c *stdio) send(ctx context.Context, p *pending) error {
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return c.err
	}
	c.pending[p.id] = p
	c.mu.Unlock()
	err := c.w.Send(ctx, jsonrpc.AppendRequest(nil, json.RawMessage(p.id), p.method, p.params))
	if err != nil {
		c.take(p.id)
	}
	return err
}

func (c *stdio) abandon(p *pending, reason string, silent bool) {
	if c.take(p.id) == nil || silent {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), abandonGrace)
	defer cancel()
	_ = c.notify(ctx, "notifications/cancelled", cancelled(p, reason)) // best effort: nobody waits any more
}

func (c *stdio) notify(ctx context.Context, method string, params json.RawMessage) error {
	return c.w.Send(ctx, jsonrpc.AppendNotification(nil, method, params))
}

func (c *stdio) lost() <-chan struct{} { return c.over }

func (c *stdio) why() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *stdio) agreed(string, bool) {}

func (c *stdio) pid() int {
	if c.proc == nil {
		return 0
	}
	return c.proc.cmd.Process.Pid
}

// close ends the child and waits for everything that belongs to it.
func (c *stdio) close() {
	c.fail(errors.New("mcp-gate ended it"))
	ctx, cancel := context.WithTimeout(context.Background(), abandonGrace)
	_ = c.w.Close(ctx) // so that a cancellation still arrives
	cancel()
	if c.proc != nil {
		c.proc.end()
	} else {
		_ = c.out.Close()
	}
	<-c.read
	<-c.w.Done()
	c.in.close()
}

// fail ends every call that is waiting. The first reason counts.
func (c *stdio) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	close(c.over)
	for _, p := range c.pending {
		p.settle(Response{}, &Error{Kind: Lost, Sent: true, Err: err})
	}
	clear(c.pending)
	c.in.end()
}

// take removes the pending request with this id.
func (c *stdio) take(id string) *pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pending[id]
	delete(c.pending, id)
	return p
}

func (c *stdio) byToken(token string) *pending {
	if len(token) < 2 || token[0] != 'g' {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pending[token[1:]]
}

// watchWriter notices a child that closed its stdin.
func (c *stdio) watchWriter() {
	select {
	case <-c.w.Done():
	case <-c.over:
		return
	}
	select { // what it said before it went counts
	case <-c.over:
	case <-time.After(lostGrace):
		c.fail(errors.New("it closed its standard input"))
	}
}

// readAll reads the child's output to its end and then ends the connection.
func (c *stdio) readAll(r io.ReadCloser) {
	defer close(c.read)
	defer r.Close()
	err := c.readLines(r)
	if c.proc != nil {
		if c.proc.gone(lostGrace) {
			err = c.proc.how()
		} else if errors.Is(err, io.EOF) {
			err = errors.New("it closed its standard output")
		}
	}
	c.fail(err)
}

func (c *stdio) readLines(r io.Reader) error {
	ended := &endNoting{r: r}
	lines := jsonrpc.NewLineReader(ended, c.s.o.MaxMessage)
	for {
		line, err := lines.Next()
		var long *jsonrpc.TooLongError
		switch {
		case errors.As(err, &long):
			c.s.tally.oversize.Add(1)
			c.s.log.Warn("message too large", "bytes", long.Size, "limit", long.Limit)
			c.failCall(long.ID(), &Error{Kind: TooLarge, Sent: true, Err: long})
		case err != nil:
			return err
		default:
			c.message(line, ended.end)
		}
	}
}

// endNoting notes that its reader has ended: a line that comes after that was
// not finished.
type endNoting struct {
	r   io.Reader
	end bool
}

func (e *endNoting) Read(b []byte) (int, error) {
	n, err := e.r.Read(b)
	e.end = e.end || err != nil
	return n, err
}

// message handles one line of the child; unfinished says that it has no end.
func (c *stdio) message(line []byte, unfinished bool) {
	m, err := jsonrpc.Parse(line)
	switch {
	case err != nil && unfinished: // the call it was for is lost with the rest
		c.s.tally.garbage.Add(1)
	case err != nil:
		c.bad(line, err)
	case m.IsRequest():
		c.in.request(m, nil)
	case m.IsNotification():
		c.in.notification(m, c.byToken)
	default:
		if p := c.claim(m.ID); p != nil {
			p.settle(answer(m))
		}
	}
}

// bad handles a line that is no acceptable message: the call it answers fails,
// the connection lives on.
func (c *stdio) bad(line []byte, err error) {
	if c.failCall(looseID(line), &Error{Kind: Invalid, Sent: true, Err: err}) {
		return
	}
	c.s.tally.garbage.Add(1)
	c.mu.Lock()
	first := !c.garbage
	c.garbage = true
	c.mu.Unlock()
	if first {
		c.s.log.Warn("server writes to stdout what is no message; such lines are skipped",
			"line", printable(string(line[:min(len(line), 200)])), "err", err)
	}
}

// failCall ends the call with this id and reports whether there was one.
func (c *stdio) failCall(raw json.RawMessage, e *Error) bool {
	id, _, err := ourID(raw)
	if err != nil {
		return false
	}
	p := c.take(id)
	if p == nil {
		return false
	}
	p.settle(Response{}, e)
	return true
}

// claim returns the pending request that an id names and removes it; nil, and
// counted, where there is none.
func (c *stdio) claim(raw json.RawMessage) *pending {
	id, loose, err := ourID(raw)
	if err != nil {
		c.s.tally.unknown.Add(1)
		return nil
	}
	p := c.take(id)
	switch {
	case p != nil && loose:
		if c.s.tally.quoted.Add(1) == 1 {
			c.s.log.Warn("server spells the ids of its answers differently; they are taken all the same")
		}
	case p == nil && c.s.gaveOut(id):
		c.s.tally.late.Add(1)
	case p == nil:
		c.s.tally.unknown.Add(1)
	}
	return p
}

// gaveOut reports whether a request has had this id.
func (s *server) gaveOut(id string) bool {
	n, err := strconv.ParseInt(id, 10, 64)
	return err == nil && n > 0 && n <= s.ids.Load()
}
