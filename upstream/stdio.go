package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"io"
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
	*table
	proc *process // nil in tests that need no process
	w    *jsonrpc.LineWriter
	out  io.WriteCloser
	in   *inbound
	read chan struct{} // closed when the reader has ended
}

// openStdio starts the child of s and connects to it.
func openStdio(ctx context.Context, s *server, l *launcher) (conn, error) {
	proc, err := startProcess(ctx, s.cfg, l, &talk{s.stderr, s.o.OnBulk})
	if err != nil {
		return nil, err
	}
	return newStdio(s, proc.stdout, proc.stdin, proc), nil
}

// newStdio connects to a child, or to any pair of pipes where proc is nil.
func newStdio(s *server, r io.ReadCloser, w io.WriteCloser, proc *process) *stdio {
	c := &stdio{table: newTable(s), proc: proc, w: jsonrpc.NewLineWriter(w), out: w, read: make(chan struct{})}
	c.in = newInbound(s, func(ctx context.Context, line []byte) { _ = c.w.Send(ctx, line) })
	go c.readAll(r)
	go c.watchWriter()
	return c
}

func (c *stdio) send(ctx context.Context, p *pending) error {
	if err := c.add(p); err != nil {
		return err
	}
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

func (c *stdio) agreed(version string, _ bool) { c.batches.Store(version == batchVersion) }
func (c *stdio) listen()                       {}

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
		if within(c.proc.exited, lostGrace) {
			err = c.proc.how()
			within(c.proc.closed, lostGrace) // its last words
		} else if errors.Is(err, io.EOF) {
			err = errors.New("it closed its standard output")
		}
	}
	c.fail(err)
}

func (c *stdio) readLines(r io.Reader) error {
	ended := &endNoting{r: r, bulk: c.s.o.OnBulk}
	lines := jsonrpc.NewLineReader(ended, c.s.o.MaxMessage)
	lines.Most = endless
	tooLarge := func(long *jsonrpc.TooLongError) {
		c.failCall(long.ID(), &Error{Kind: TooLarge, Sent: true, Err: long})
	}
	lines.Over = tooLarge // its caller need not wait for its end
	for {
		line, err := lines.Next()
		if err == nil {
			c.message(line, ended.end)
			continue
		}
		long, ok := errors.AsType[*jsonrpc.TooLongError](err)
		if !ok {
			return err
		}
		c.s.tally.oversize.Add(1)
		c.s.log.Warn("message too large", "bytes", long.Size, "limit", long.Limit)
		if tooLarge(long); long.Endless {
			return long
		}
	}
}

// endless is how long a message may become that is skipped. A child that goes on
// after that answers nobody any more, and is started anew.
const endless = 256 << 20

// bulk is how much a child has to say at once for there to be more than small
// answers: half of what a pipe holds.
const bulk = 32 << 10

// endNoting notes that its reader has ended: a line that comes after that was
// not finished. It tells when it was given much at once.
type endNoting struct {
	r    io.Reader
	bulk func()
	end  bool
}

func (e *endNoting) Read(b []byte) (int, error) {
	n, err := e.r.Read(b)
	e.end = e.end || err != nil
	if n >= bulk {
		e.bulk()
	}
	return n, err
}

// talk tells when a child says much at once on its standard error.
type talk struct {
	w    io.Writer
	bulk func()
}

func (t *talk) Write(b []byte) (int, error) {
	if len(b) >= bulk/2 {
		t.bulk()
	}
	return t.w.Write(b)
}

// message handles one line of the child; unfinished says that it has no end.
func (c *stdio) message(line []byte, unfinished bool) {
	m, err := jsonrpc.Parse(line)
	switch {
	case err != nil && unfinished: // the call it was for is lost with the rest
		c.s.tally.garbage.Add(1)
	case errors.Is(err, jsonrpc.ErrBatch):
		c.batch(line, c.route)
	case err != nil:
		c.bad(line, err)
	default:
		c.route(m)
	}
}

func (c *stdio) route(m jsonrpc.Message) {
	switch {
	case m.IsRequest():
		c.in.request(m, nil)
	case m.IsNotification():
		c.in.notification(m, c.byToken, nil)
	default:
		c.answered(m)
	}
}
