package transport

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
)

// post is the answer to one HTTP request, as an outlet. It is a JSON body
// until something has to precede the answer or the answer is long in coming;
// then it becomes an event stream, if the client takes one.
type post struct {
	w         http.ResponseWriter
	rc        *http.ResponseController
	keepAlive time.Duration
	stream    bool // the client takes text/event-stream
	plain     bool // the client takes application/json
	modern    bool

	mu     sync.Mutex // guards what follows and the writer
	began  bool       // the event stream
	over   bool       // nothing more is written
	quiet  *time.Timer
	failed *jsonrpc.Error // the error that was the answer
}

var (
	errNoStream = errors.New("the client does not take an event stream")
	errOver     = errors.New("the answer is complete")
)

func newPost(h *HTTP, w http.ResponseWriter, stream, plain bool) *post {
	return &post{w: w, rc: http.NewResponseController(w), keepAlive: h.o.KeepAlive, stream: stream, plain: plain}
}

func (p *post) streams() bool { return p.stream }

// start begins to watch for quiet.
func (p *post) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stream {
		p.quiet = time.AfterFunc(p.keepAlive, p.comment)
	}
}

// open starts the event stream at once.
func (p *post) open() {
	p.start()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beginStream()
	_ = p.rc.Flush() // a client that is gone shows in the request's context
}

// comment keeps a quiet stream alive, for the client and for what is between.
func (p *post) comment() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	p.beginStream()
	if p.write([]byte(": keep-alive\n\n")) == nil && p.rc.Flush() == nil {
		p.quiet.Reset(p.keepAlive)
	}
}

func (p *post) beginStream() {
	if p.began {
		return
	}
	p.began = true
	header := p.w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-cache, no-transform")
	header.Set("X-Accel-Buffering", "no") // or a reverse proxy may hold events back
	p.w.WriteHeader(http.StatusOK)
}

func (p *post) send(_ context.Context, line []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return errOver
	}
	if !p.stream {
		return errNoStream
	}
	return p.event(line)
}

func (p *post) event(line ...[]byte) error {
	p.beginStream()
	if p.quiet != nil {
		p.quiet.Reset(p.keepAlive)
	}
	parts := append(append([][]byte{[]byte("event: message\ndata: ")}, line...), []byte("\n\n"))
	if err := p.write(parts...); err != nil {
		return err
	}
	return p.rc.Flush()
}

func (p *post) answer(_ context.Context, line jsonrpc.Line, failed *jsonrpc.Error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return errOver
	}
	p.over, p.failed = true, failed
	if p.began || !p.plain {
		return p.event(line[:]...)
	}
	header := p.w.Header()
	if failed != nil {
		header.Del("Mcp-Session-Id") // an initialize that failed made none
	}
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(line.Len()))
	p.w.WriteHeader(statusOf(p.modern, failed))
	return p.write(line[:]...)
}

// statusOf is 200, but for the errors to which 2026-07-28 gives a status.
func statusOf(modern bool, e *jsonrpc.Error) int {
	if !modern || e == nil {
		return http.StatusOK
	}
	switch e.Code {
	case jsonrpc.CodeMethodNotFound:
		return http.StatusNotFound
	case codeHeaderMismatch, codeMissingCapability, codeUnsupportedVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// writeChunk and writeWait bound how slowly a client may read: a megabyte a
// minute, or its connection ends.
const (
	writeChunk = 1 << 20
	writeWait  = time.Minute
)

func (p *post) write(parts ...[]byte) error {
	for _, b := range parts {
		for len(b) > 0 {
			n := min(len(b), writeChunk)
			_ = p.rc.SetWriteDeadline(time.Now().Add(writeWait)) // not every writer can
			if _, err := p.w.Write(b[:n]); err != nil {
				return err
			}
			b = b[n:]
		}
	}
	return nil
}

// end ends an answer that was never given, because the client cancelled it.
func (p *post) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over && !p.began {
		p.w.WriteHeader(http.StatusNoContent)
	}
	p.over = true
}

// close makes sure that nothing is written once the handler returns.
func (p *post) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	if p.quiet != nil {
		p.quiet.Stop()
	}
	_ = p.rc.SetWriteDeadline(time.Now().Add(writeWait)) // for what net/http has held back; then it takes the deadline off
}
