package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
)

const (
	// noticeTimeout bounds a POST that nobody waits for: a cancellation, an
	// answer to the server, the end of the session.
	noticeTimeout = 1500 * time.Millisecond
	// maxResumes is how often in a row a stream is resumed without an event,
	// resumePause the pause before it where the server names none.
	maxResumes  = 5
	resumePause = time.Second
	// maxNotices bounds the POSTs that nobody waits for at one time.
	maxNotices = 16
	// lastAnswers is how long requests of a session that the server has forgotten
	// may still be answered.
	lastAnswers = time.Second
)

// web is a connection over streamable HTTP: one POST a message, answered by
// one JSON body or by a stream of events.
//
// It is our own and not mcp-go's client transport (v1.2.1), because that one
// marshals requests anew, which compacts them and escapes <, > and &; decodes
// notifications and error data into floats, so that 9007199254740993 arrives
// as ...992; accepts duplicate names; reads bodies of any size into memory;
// ends event lines at LF only; takes any answer on a stream for the answer,
// whatever its id; and follows redirects to wherever with the body.
type web struct {
	*table
	client  *http.Client
	in      *inbound
	ctx     context.Context // ends with the connection
	end     context.CancelFunc
	wg      sync.WaitGroup // exchanges, notices and the listening stream
	notices chan struct{}  // one for each notice under way

	mu      sync.Mutex // guards what follows
	version string     // agreed, or ""
	modern  bool
	session string // Mcp-Session-Id, or ""
	closed  bool   // nothing may join wg any more
	cancels map[string]context.CancelFunc
}

func openHTTP(s *server) (conn, error) {
	c := &web{table: newTable(s), notices: make(chan struct{}, maxNotices), cancels: map[string]context.CancelFunc{}}
	c.ctx, c.end = context.WithCancel(context.Background())
	c.client = &http.Client{
		Transport:     s.o.HTTP,
		CheckRedirect: sameOrigin,
	}
	c.in = newInbound(s, func(_ context.Context, line []byte) { c.notice(line) })
	return c, nil
}

// maxRedirects is how many redirects of one request are followed.
const maxRedirects = 3

// sameOrigin follows a redirect that repeats the request on the same origin, as servers
// do whose path lacks a slash. Any other would hand arguments and credentials to
// whoever the answer names.
func sameOrigin(req *http.Request, via []*http.Request) error {
	first, status := via[0], req.Response.StatusCode
	if status != http.StatusTemporaryRedirect && status != http.StatusPermanentRedirect || len(via) > maxRedirects ||
		req.URL.Scheme != first.URL.Scheme || req.URL.Host != first.URL.Host || req.URL.User != nil {
		return http.ErrUseLastResponse
	}
	return nil
}

func (c *web) agreed(version string, modern bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version, c.modern = version, modern
	c.batches.Store(version == batchVersion)
}

func (c *web) agreement() (session string, modern bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session, c.modern
}

func (c *web) pid() int { return 0 }

func (c *web) send(_ context.Context, p *pending) error {
	if err := c.add(p); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(c.ctx)
	c.mu.Lock()
	c.cancels[p.id] = cancel
	c.mu.Unlock()
	if !c.spawn(func() {
		defer c.stop(p.id)
		resp, err := c.exchange(ctx, p)
		c.finish(p, resp, err)
	}) {
		c.stop(p.id)
		c.take(p.id)
		return c.why()
	}
	return nil
}

// spawn runs f in a goroutine that close waits for, or not at all after it.
func (c *web) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.wg.Go(f)
	}
	return !c.closed
}

// finish settles p, unless something else did.
func (c *web) finish(p *pending, resp Response, e *Error) {
	if c.take(p.id) != nil {
		p.settle(resp, e)
	}
}

// stop ends the exchange for the request with this id.
func (c *web) stop(id string) {
	c.mu.Lock()
	cancel := c.cancels[id]
	delete(c.cancels, id)
	c.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

func (c *web) abandon(p *pending, reason string, silent bool) {
	c.take(p.id)
	c.stop(p.id)
	if _, modern := c.agreement(); !modern && !silent { // else the closed stream says it
		c.notice(jsonrpc.AppendNotification(nil, "notifications/cancelled", cancelled(p, reason)))
	}
}

// notice posts a message that nobody waits for.
func (c *web) notice(line []byte) {
	select {
	case c.notices <- struct{}{}:
	case <-c.ctx.Done():
		return
	}
	if !c.spawn(func() {
		defer func() { <-c.notices }()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), noticeTimeout)
		defer cancel()
		if err := c.post(ctx, line); err != nil {
			c.s.log.Debug("notice not taken", "err", err)
		}
	}) {
		<-c.notices
	}
}

func (c *web) notify(ctx context.Context, method string, params json.RawMessage) error {
	return c.post(ctx, jsonrpc.AppendNotification(nil, method, params))
}

// post sends a message that has no answer.
func (c *web) post(ctx context.Context, line []byte) error {
	resp, e := c.do(ctx, http.MethodPost, line, nil)
	if e != nil {
		return e
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return c.refused(resp, "")
	}
	return nil
}

// close ends the connection, and the session where there is one.
func (c *web) close() {
	session, modern := c.agreement()
	alive := c.why() == nil
	c.fail(errors.New("mcp-gate ended it"))
	c.end()
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.in.close()
	c.wg.Wait()
	if session == "" || modern || !alive {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), noticeTimeout)
	defer cancel()
	if resp, e := c.do(ctx, http.MethodDelete, nil, nil); e == nil {
		_ = resp.Body.Close() // whatever it says, the session is over for us
	}
}

// exchange posts p and reads until its answer is there.
func (c *web) exchange(ctx context.Context, p *pending) (Response, *Error) {
	body := jsonrpc.AppendRequest(nil, json.RawMessage(p.id), p.method, p.params)
	session, _ := c.agreement()
	resp, e := c.do(ctx, http.MethodPost, body, p)
	if e != nil {
		if e.Kind == Unreachable {
			c.finish(p, Response{}, e)
			c.unreached(p.method, e)
		}
		return Response{}, e
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound && session != "" && p.method != "initialize" {
		// The request was refused, not run: it goes out again on the next
		// session. So will others that are under way: each is told by its own
		// answer that it did not run.
		err := errors.New("it no longer knows the session")
		c.finish(p, Response{}, &Error{Kind: Lost, Err: err})
		if c.shut(err) {
			time.AfterFunc(lastAnswers, func() { c.fail(err) })
		}
		return Response{}, nil
	}
	if p.method == "initialize" && resp.StatusCode == http.StatusOK {
		c.mu.Lock()
		c.session = resp.Header.Get("Mcp-Session-Id")
		c.mu.Unlock()
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode/100 == 2 && kind == "text/event-stream" {
		return c.stream(ctx, resp.Body, p)
	}
	return c.body(resp, p)
}

// unreached ends the connection, so that the supervisor finds out when the server
// is back, unless it still works on something: that may yet be answered, and one
// connection that could not be made says little. Then the tools are listed, and
// listed again until that works or nothing waits any more.
func (c *web) unreached(method string, e *Error) {
	if !c.failIdle(fmt.Errorf("it cannot be reached: %w", e.Err)) && method != "tools/list" {
		c.s.listAgain()
	}
}

// body reads an answer that is one JSON body. A JSON-RPC error counts with
// any status.
func (c *web) body(resp *http.Response, p *pending) (Response, *Error) {
	good := resp.StatusCode/100 == 2
	if resp.StatusCode/100 == 3 || resp.StatusCode == http.StatusUnauthorized {
		return Response{}, c.refused(resp, p.method)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, c.s.o.MaxMessage+1))
	switch {
	case int64(len(b)) > c.s.o.MaxMessage:
		c.s.tally.oversize.Add(1)
		return Response{}, &Error{Kind: TooLarge, Sent: true, Err: fmt.Errorf("its answer is over the limit of %d bytes", c.s.o.MaxMessage)}
	case err != nil && good:
		return Response{}, &Error{Kind: Lost, Sent: true, Err: err}
	case good && len(bytes.TrimSpace(b)) == 0:
		return Response{}, &Error{Kind: Invalid, Sent: true, Err: fmt.Errorf("HTTP %s without an answer", resp.Status)}
	}
	m, err := jsonrpc.Parse(bytes.TrimPrefix(b, []byte("\ufeff")))
	switch {
	case err != nil && !good, err == nil && !good && m.Error == nil:
		resp.Body = io.NopCloser(bytes.NewReader(b))
		return Response{}, c.refused(resp, p.method)
	case errors.Is(err, jsonrpc.ErrBatch):
		c.batch(b, func(m jsonrpc.Message) { c.route(m, p.ctx) })
		select {
		case <-p.done:
			return p.resp, p.err
		default:
			return Response{}, &Error{Kind: Invalid, Sent: true, Err: errors.New("a batch of messages without the answer")}
		}
	case err != nil:
		return Response{}, &Error{Kind: Invalid, Sent: true, Err: err}
	case !m.IsResponse():
		return Response{}, &Error{Kind: Invalid, Sent: true, Err: errors.New("a request, not an answer")}
	}
	if id, loose, err := ourID(m.ID); (err != nil || id != p.id) && (string(m.ID) != "null" || m.Error == nil) {
		return Response{}, &Error{Kind: Invalid, Sent: true, Err: errors.New("the answer is to another request")}
	} else if loose {
		c.s.tally.quoted.Add(1)
	}
	return answer(m)
}

// stream reads events until the answer to p is there, and resumes a stream
// that ends before it where the server numbers its events.
func (c *web) stream(ctx context.Context, body io.ReadCloser, p *pending) (Response, *Error) {
	lastID, retry := "", resumePause
	for tries := 0; ; tries++ {
		ev := newEvents(body, c.s.o.MaxMessage)
		ev.lastID, ev.retry = lastID, retry
		err := c.readEvents(ctx, ev, p)
		_ = body.Close()
		select {
		case <-p.done:
			return p.resp, p.err
		default:
		}
		if ev.lastID != lastID {
			tries = 0
		}
		lastID, retry = ev.lastID, ev.retry
		_, modern := c.agreement()
		if lastID == "" || modern || tries >= maxResumes || ctx.Err() != nil {
			return Response{}, &Error{Kind: Lost, Sent: true, Err: fmt.Errorf("its stream of events ended: %w", err)}
		}
		wait(ctx, max(retry, 10*time.Millisecond))
		var e *Error
		if body, e = c.get(ctx, lastID); e != nil {
			return Response{}, &Error{Kind: Lost, Sent: true, Err: fmt.Errorf("its stream of events ended and could not be resumed: %w", e)}
		}
	}
}

// readEvents handles the messages of a stream until p is settled, where there
// is one, or the stream ends.
func (c *web) readEvents(ctx context.Context, ev *events, p *pending) error {
	var call context.Context
	var done chan struct{}
	if p != nil {
		call, done = p.ctx, p.done
	}
	for {
		e, err := ev.next()
		switch {
		case errors.Is(err, errEventSize):
			c.s.tally.oversize.Add(1)
			c.s.log.Warn("message too large", "limit", c.s.o.MaxMessage)
			if p != nil { // on its own stream, whose else?
				c.finish(p, Response{}, &Error{Kind: TooLarge, Sent: true, Err: err})
			}
			return err
		case err != nil:
			return err
		case e.name == "" || e.name == "message":
			c.message(e, call)
		}
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
	}
}

func (c *web) message(e event, call context.Context) {
	if len(e.data) == 0 {
		return // it only numbers the stream, for a resumption
	}
	m, err := jsonrpc.Parse(e.data)
	switch {
	case err != nil && e.unfinished:
		c.s.tally.garbage.Add(1)
	case errors.Is(err, jsonrpc.ErrBatch):
		c.batch(e.data, func(m jsonrpc.Message) { c.route(m, call) })
	case err != nil:
		c.bad(e.data, err)
	default:
		c.route(m, call)
	}
}

func (c *web) route(m jsonrpc.Message, call context.Context) {
	switch {
	case m.IsRequest():
		c.in.request(m, call)
	case m.IsNotification():
		c.in.notification(m, c.byToken, call)
	default:
		c.answered(m)
	}
}

// openWait is how long calls wait for a server to say that its stream is open.
// Some say so with the first event only.
const openWait = 500 * time.Millisecond

// listen keeps the stream open on which an older server sends what belongs to
// no exchange. Servers need not have one. What some ask in the middle of a call
// goes there as well, and is lost where nobody listens: listen returns once the
// stream is open or will not be, after openWait at most.
func (c *web) listen() {
	if _, modern := c.agreement(); modern {
		return
	}
	ctx, first := context.WithTimeout(c.ctx, openWait)
	defer func() { <-ctx.Done() }()
	c.spawn(func() {
		defer first()
		lastID, pause := "", time.Second
		for c.ctx.Err() == nil {
			body, e := c.get(c.ctx, lastID)
			first()
			if e != nil && e.Kind != Unreachable && e.Kind != Lost {
				return
			}
			if e == nil {
				ev := newEvents(body, c.s.o.MaxMessage)
				ev.lastID = lastID
				began := time.Now()
				_ = c.readEvents(c.ctx, ev, nil) // however it ended, it is opened again
				_ = body.Close()
				lastID = ev.lastID
				if time.Since(began) > healthy {
					pause = time.Second
				}
				pause = max(pause, ev.retry)
			}
			wait(c.ctx, pause)
			pause = min(2*pause, time.Minute)
		}
	})
}

// get opens a stream of events, after the event lastID where it is not "".
func (c *web) get(ctx context.Context, lastID string) (io.ReadCloser, *Error) {
	resp, e := c.do(ctx, http.MethodGet, []byte(lastID), nil)
	if e != nil {
		return nil, e
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode != http.StatusOK || kind != "text/event-stream" {
		defer resp.Body.Close()
		return nil, c.refused(resp, "")
	}
	return resp.Body, nil
}

// do sends one HTTP request, and once more where another token may help. For a
// GET, body is the Last-Event-ID.
func (c *web) do(ctx context.Context, verb string, body []byte, p *pending) (*http.Response, *Error) {
	challenge := ""
	for {
		resp, e := c.once(ctx, verb, body, p, challenge)
		if e != nil || !wantsToken(resp) || c.s.cfg.Authorize == nil || challenge != "" {
			return resp, e
		}
		if challenge = resp.Header.Get("WWW-Authenticate"); challenge == "" {
			challenge = "Bearer"
		}
		ctx = context.WithValue(ctx, refusedKey{}, resp.Request.Header.Get("Authorization"))
		_ = resp.Body.Close() // it is asked again
	}
}

// wantsToken reports whether a server asks for another token: with a 401, or with
// a 403 that says that this one has too little scope (RFC 6750).
func wantsToken(resp *http.Response) bool {
	return resp.StatusCode == http.StatusUnauthorized ||
		resp.StatusCode == http.StatusForbidden && strings.Contains(resp.Header.Get("WWW-Authenticate"), "insufficient_scope")
}

type refusedKey struct{}

// RefusedAuthorization returns the value of the Authorization header that a server
// refused with the challenge that [Server.Authorize] is being called with; "" where
// there was none. Several requests may be refused at once, some of them with a
// token that is already replaced.
func RefusedAuthorization(ctx context.Context) string {
	value, _ := ctx.Value(refusedKey{}).(string)
	return value
}

func (c *web) once(ctx context.Context, verb string, body []byte, p *pending, challenge string) (*http.Response, *Error) {
	sent := false
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent = true }})
	var reader io.Reader
	if verb == http.MethodPost {
		reader = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, verb, c.s.cfg.URL, reader)
	if err != nil {
		return nil, &Error{Kind: BadRequest, Err: err}
	}
	if err := c.headers(ctx, req, body, p, challenge); err != nil {
		return nil, &Error{Kind: Unauthorized, Err: err}
	}
	resp, err := c.client.Do(req)
	switch {
	case err == nil:
		return resp, nil
	case sent:
		return nil, &Error{Kind: Lost, Sent: true, Err: plainHTTP(err)}
	}
	return nil, &Error{Kind: Unreachable, Err: plainHTTP(err), Hint: "check its URL, and that it is running"}
}

// headers sets what the owner configured, then what the protocol demands.
func (c *web) headers(ctx context.Context, req *http.Request, body []byte, p *pending, challenge string) error {
	h := req.Header
	h.Set("User-Agent", c.s.o.ClientName+"/"+c.s.o.ClientVersion)
	for name, values := range c.s.cfg.Header {
		h[http.CanonicalHeaderKey(name)] = values
		if strings.EqualFold(name, "Host") && len(values) > 0 {
			req.Host = values[0]
		}
	}
	h.Set("Accept", "application/json, text/event-stream")
	switch req.Method {
	case http.MethodPost:
		h.Set("Content-Type", "application/json")
	case http.MethodGet:
		h.Set("Accept", "text/event-stream")
		if len(body) > 0 {
			h.Set("Last-Event-ID", string(body))
		}
	}
	c.mu.Lock()
	version, modern, session := c.version, c.modern, c.session
	c.mu.Unlock()
	if p != nil && p.method == "initialize" {
		version, session = "", ""
	}
	if version != "" {
		h.Set("MCP-Protocol-Version", version)
	}
	if session != "" && !modern {
		h.Set("Mcp-Session-Id", session)
	}
	if modern && req.Method == http.MethodPost {
		c.mirror(h, body, p)
	}
	if c.s.cfg.Authorize == nil {
		return nil
	}
	authorization, err := c.s.cfg.Authorize(ctx, challenge)
	if err == nil && authorization != "" {
		h.Set("Authorization", authorization)
	}
	return err
}

// mirror repeats in headers what the body says, as 2026-07-28 asks for.
func (c *web) mirror(h http.Header, body []byte, p *pending) {
	if p == nil {
		if m, err := jsonrpc.Parse(body); err == nil && m.Method != "" {
			h.Set(mcp.HeaderMethod, m.Method)
		}
		return
	}
	for name, value := range mcp.StandardHeaders(modernVersion, mcp.MCPMethod(p.method), p.params) {
		h.Set(name, value)
	}
	if strings.HasPrefix(p.method, "tasks/") {
		if name, ok := mcp.EncodeHeaderValue(textMember(p.params, "taskId")); ok {
			h.Set(mcp.HeaderName, name)
		}
	}
	if p.method != "tools/call" {
		return
	}
	if schema := c.s.inputSchema(textMember(p.params, "name")); schema != nil {
		for name, value := range mcp.GenerateParamHeaders(&mcp.Tool{RawInputSchema: schema}, p.params) {
			h.Set(name, value)
		}
	}
}

// refused says what an HTTP status without a JSON-RPC answer means.
func (c *web) refused(resp *http.Response, method string) *Error {
	e := &Error{Server: c.s.cfg.Alias, Kind: Refused, Sent: resp.StatusCode >= 500 || resp.StatusCode == http.StatusRequestTimeout}
	text := "HTTP " + resp.Status
	switch {
	case resp.StatusCode == http.StatusUnauthorized:
		e.Kind, e.Hint = Unauthorized, "sign in to it, or correct its token"
		e.Err = &ChallengeError{resp.Header.Values("WWW-Authenticate")}
		return e
	case wantsToken(resp):
		text += fmt.Sprintf(", %.300s", printable(resp.Header.Get("WWW-Authenticate"))) // it names the scope
		e.Hint = "its token has too little scope for this: get one that has more"
	case resp.StatusCode/100 == 3:
		text += ", a redirect to " + printable(resp.Header.Get("Location"))
		e.Hint = "put the URL it redirects to into the configuration, if you trust it"
	case method == "initialize" && resp.StatusCode/100 == 4:
		e.Hint = "check the path of its URL; a server that only has the older HTTP+SSE transport is not supported"
	}
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 200)) // a hint for people, as far as it goes
	if said := strings.Join(strings.Fields(printable(string(b))), " "); said != "" {
		text += fmt.Sprintf(" (%q)", said)
	}
	e.Err = errors.New(text)
	return e
}

// ChallengeError is a 401 with the WWW-Authenticate headers that came with it.
type ChallengeError struct{ Challenges []string }

func (e *ChallengeError) Error() string { return "HTTP 401 Unauthorized" }

// plainHTTP takes the URL off a client's error: it may hold a secret.
func plainHTTP(err error) error {
	type wrapper interface{ Unwrap() error }
	if u, ok := err.(wrapper); ok && u.Unwrap() != nil {
		return u.Unwrap()
	}
	return err
}
