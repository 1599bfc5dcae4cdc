package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// abandonGrace is how long a call that is over may take to tell the server.
const abandonGrace = 200 * time.Millisecond

// maxQueuedProgress bounds what waits for a caller whose Progress is slow; the
// oldest goes first, since progress only ever grows.
const maxQueuedProgress = 4096

// conn carries messages to and from one server. All methods are safe for
// concurrent use; close is called once.
type conn interface {
	// send starts the exchange. Unless it returns an error, which says that no
	// byte went out, the connection settles p exactly once, unless abandon
	// comes first.
	send(ctx context.Context, p *pending) error
	// abandon lets go of p: what still comes for it is dropped. Unless silent,
	// the server is told that nobody waits.
	abandon(p *pending, reason string, silent bool)
	notify(ctx context.Context, method string, params json.RawMessage) error
	// lost is closed when the connection is over; then why says the reason.
	lost() <-chan struct{}
	why() error
	// close ends the connection and returns when nothing of it is left.
	close()
	pid() int // of the child, 0 where there is none
	// agreed is told the outcome of the handshake, before it is over.
	agreed(version string, modern bool)
	// listen begins to take what the server sends outside any exchange, where
	// that needs to be asked for. It is called once, after the handshake.
	listen()
}

// pending is one request that waits for its answer.
type pending struct {
	ctx      context.Context // the call's own
	id       string          // a decimal number of ours
	method   string
	params   json.RawMessage // as they go out
	progress bool            // a token was given

	done chan struct{} // closed when resp and err are final
	more chan struct{} // progress is queued; nil where none was asked for

	mu     sync.Mutex // guards what follows
	over   bool
	resp   Response
	err    *Error
	queued []json.RawMessage
}

func (p *pending) token() string { return "g" + p.id }

// settle gives p its outcome; only the first counts.
func (p *pending) settle(resp Response, err *Error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return false
	}
	p.over, p.resp, p.err = true, resp, err
	close(p.done)
	return true
}

// queue takes one progress notification and reports whether it is wanted.
func (p *pending) queue(params json.RawMessage) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || !p.progress {
		return false
	}
	if len(p.queued) >= maxQueuedProgress {
		p.queued = p.queued[1:]
	}
	p.queued = append(p.queued, params)
	poke(p.more)
	return true
}

func (p *pending) takeProgress() []json.RawMessage {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.queued
	p.queued = nil
	return q
}

// session is a connection after its handshake.
type session struct {
	s            *server
	conn         conn
	version      string
	modern       bool
	capabilities json.RawMessage
	serverInfo   json.RawMessage
	instructions string
	tasks        bool // it may answer a call with a task
}

// call sends one request and waits for its answer, for at most timeout
// without progress; 0 is for ever.
func (x *session) call(ctx context.Context, req Request, timeout time.Duration) (Response, *Error) {
	began := time.Now()
	fail := func(e *Error) (Response, *Error) {
		e.Server, e.Method, e.After = x.s.cfg.Alias, req.Method, time.Since(began)
		return Response{}, e
	}
	if ctx.Err() != nil {
		return fail(ended(ctx))
	}
	if timeout > 0 && req.Progress == nil { // without a token the server could not say that it is at work
		req.Progress = func(json.RawMessage) {}
	}
	p, err := x.prepare(ctx, req)
	if err != nil {
		return fail(&Error{Kind: BadRequest, Err: err})
	}
	if err := x.conn.send(ctx, p); err != nil {
		if ctx.Err() != nil {
			return fail(ended(ctx))
		}
		var e *Error
		if errors.As(err, &e) {
			return fail(e)
		}
		return fail(&Error{Kind: Lost, Err: err})
	}
	if e := x.waitFor(ctx, p, req.Progress, timeout); e != nil {
		return fail(e)
	}
	return p.resp, nil
}

// ended says that the caller's context is over.
func ended(ctx context.Context) *Error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &Error{Kind: Timeout, Err: context.Cause(ctx)}
	}
	return &Error{Kind: Cancelled, Err: context.Cause(ctx)}
}

// waitFor waits until p is settled, passing progress on, or gives it up.
func (x *session) waitFor(ctx context.Context, p *pending, progress func(json.RawMessage), timeout time.Duration) *Error {
	var expired <-chan time.Time
	var timer *time.Timer
	if timeout > 0 {
		timer = time.NewTimer(timeout)
		defer timer.Stop()
		expired = timer.C
		report := progress
		progress = func(params json.RawMessage) {
			report(params)
			timer.Reset(timeout)
		}
	}
	silent := p.method == "initialize" // the one request that must not be cancelled
	for {
		select {
		case <-p.done:
			for _, params := range p.takeProgress() {
				progress(params)
			}
			return p.err
		case <-p.more:
			for _, params := range p.takeProgress() {
				progress(params)
			}
		case <-expired:
			if x.s.waitsForUs() { // the time of whoever answers is not the server's
				timer.Reset(timeout)
				continue
			}
			x.conn.abandon(p, fmt.Sprintf("no answer within %v", timeout), silent)
			return &Error{Kind: Timeout, Sent: true, Hint: "raise the server's timeout if it needs longer"}
		case <-ctx.Done():
			x.conn.abandon(p, "the caller no longer waits", silent)
			e := ended(ctx)
			e.Sent = true
			return e
		}
	}
}

// prepare gives a request its id, and its params what the protocol needs in
// _meta.
func (x *session) prepare(ctx context.Context, req Request) (*pending, error) {
	p := &pending{
		ctx: ctx, id: strconv.FormatInt(x.s.ids.Add(1), 10), method: req.Method, params: req.Params,
		progress: req.Progress != nil, done: make(chan struct{}),
	}
	if p.progress {
		p.more = make(chan struct{}, 1)
	}
	if !p.progress && !x.modern {
		return p, nil
	}
	params := []byte(p.params)
	if params == nil {
		params = []byte("{}")
	}
	meta, ok, err := strictjson.Get(params, "_meta")
	if err != nil {
		return nil, fmt.Errorf("params: %w", err)
	}
	if !ok {
		meta = []byte("{}")
	}
	if p.progress {
		if meta, err = strictjson.Set(meta, "progressToken", strictjson.AppendString(nil, p.token())); err != nil {
			return nil, fmt.Errorf("_meta: %w", err)
		}
	}
	if x.modern {
		if meta, err = x.stamp(meta, req); err != nil {
			return nil, fmt.Errorf("_meta: %w", err)
		}
	}
	if p.params, err = strictjson.Set(params, "_meta", meta); err != nil {
		return nil, fmt.Errorf("params: %w", err)
	}
	return p, nil
}

// stamp puts what every modern request says about its sender into meta.
func (x *session) stamp(meta []byte, req Request) ([]byte, error) {
	meta, err := strictjson.Set(meta, metaVersion, strictjson.AppendString(nil, modernVersion))
	if err != nil {
		return nil, err
	}
	if meta, err = strictjson.Set(meta, metaClient, x.s.o.clientInfo()); err != nil {
		return nil, err
	}
	if req.LogLevel != "" {
		if meta, err = strictjson.Set(meta, metaLogLevel, strictjson.AppendString(nil, req.LogLevel)); err != nil {
			return nil, err
		}
	}
	capabilities := req.Capabilities
	if capabilities == nil {
		capabilities = x.s.o.Capabilities
	}
	if capabilities, err = x.withTasks(capabilities, req.Method); err != nil {
		return nil, err
	}
	return strictjson.Set(meta, metaCapabilities, capabilities)
}

// extTasks is the extension by which a server answers a call with a task.
const extTasks = "io.modelcontextprotocol/tasks"

// withTasks says in capabilities that a task is taken in place of a result, for a call
// of a server that has tasks and for what is asked about them. Nothing else may be
// answered with one, whatever the client of the call declared.
func (x *session) withTasks(capabilities json.RawMessage, method string) (json.RawMessage, error) {
	takes := x.tasks && (method == "tools/call" || strings.HasPrefix(method, "tasks/"))
	extensions, ok, err := strictjson.Get(capabilities, "extensions")
	switch {
	case err != nil || !takes && !ok:
		return capabilities, err
	case !ok || extensions[0] != '{':
		extensions = json.RawMessage("{}")
	}
	if takes {
		extensions, err = strictjson.Set(extensions, extTasks, []byte("{}"))
	} else {
		extensions, err = strictjson.Delete(extensions, extTasks)
	}
	if err != nil {
		return nil, err
	}
	return strictjson.Set(capabilities, "extensions", extensions)
}

// listen has the server send what belongs to no request, until ctx ends or
// the function it returns is called, which waits for that.
func (x *session) listen(ctx context.Context) (stop func()) {
	if !x.modern {
		x.conn.listen()
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var streams sync.WaitGroup
	streams.Go(func() {
		x.subscribe(ctx, `{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}}`)
	})
	streams.Go(func() { x.follow(ctx) })
	return func() {
		cancel()
		streams.Wait()
	}
}

// listenMethod is the method of the one request that is not meant to be answered.
const listenMethod = "subscriptions/listen"

// subscribe keeps a subscription to what filter names open. A server that
// refuses it has none.
func (x *session) subscribe(ctx context.Context, filter string) {
	for pause := time.Second; ctx.Err() == nil; pause = min(2*pause, time.Minute) {
		began := time.Now()
		resp, e := x.call(ctx, Request{Method: listenMethod, Params: json.RawMessage(filter)}, 0)
		if resp.Error != nil || (e != nil && (e.Kind == Refused || e.Kind == Invalid)) {
			return
		}
		if time.Since(began) > healthy {
			pause = time.Second
		}
		wait(ctx, pause)
	}
}

func (x *session) notify(ctx context.Context, method string, params json.RawMessage) error {
	return x.conn.notify(ctx, method, params)
}

// cancelled returns the params of the notice that nobody waits for p.
func cancelled(p *pending, reason string) json.RawMessage {
	b := append([]byte(`{"requestId":`), p.id...)
	b = append(b, `,"reason":`...)
	return append(strictjson.AppendString(b, reason), '}')
}

// answer turns a message that answers p into its outcome.
func answer(m jsonrpc.Message) (Response, *Error) {
	if m.Error != nil {
		return Response{Error: jsonrpc.ParseError(m.Error)}, nil
	}
	if m.Result[0] != '{' {
		return Response{}, &Error{Kind: Invalid, Sent: true, Err: errors.New(`"result" must be an object`)}
	}
	return Response{Result: m.Result}, nil
}
