package transport

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mcp-gate/mcp-gate/gate"
	"github.com/mcp-gate/mcp-gate/internal/ids"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
)

// Tokens knows the bearer tokens that HTTP clients present.
type Tokens interface {
	// Lookup returns on whose behalf token acts, Principal and Scope only, and
	// the profiles that it may use: names, or "*" for every one. Of an unknown
	// token it reports false. It must compare in constant time.
	Lookup(token string) (who gate.Identity, profiles []string, ok bool)
}

// HTTPOptions are the settings of [Server.HTTP]. A zero field takes the
// default; Tokens has none.
type HTTPOptions struct {
	Tokens Tokens
	// Hosts are accepted in the Host and Origin headers beside localhost,
	// 127.0.0.1 and [::1] at the listener's port: "name:port", or "name" for a
	// name whose port the client leaves out.
	Hosts         []string
	Idle          time.Duration // a session without a request ends after it; default 30 min
	KeepAlive     time.Duration // between comments on a quiet stream; default 15 s
	HeaderTimeout time.Duration // for the headers of a request; default 10 s
	BodyTimeout   time.Duration // for its body; default 60 s
	// Unknown is told of each request that brings no token, or one that is not
	// known; nil for nobody. It must not wait.
	Unknown     func(reason, remote string)
	MaxSessions int // sessions at once, over all tokens; default 1,000
	PerToken    int // of those, legacy ones with one token: a further one ends that which it left unused for longest; default 100
}

// HTTP serves MCP's streamable HTTP at /mcp and /mcp/p/PROFILE. At /mcp a
// client gets the first profile that its token names, or the default one.
//
// Who may come in is checked in this order: Host, Origin and Sec-Fetch-Site
// (a web page must not reach a gate on its reader's own machine), then the
// bearer token, which is asked for on loopback too. Errors of a call travel
// with status 200; other statuses are for faults of the transport, and for the
// errors to which 2026-07-28 gives one.
type HTTP struct {
	srv      *Server
	o        HTTPOptions
	log      *slog.Logger
	sessions *sessions
	bodies   bodies
}

// HTTP returns the handler for HTTP clients. [HTTP.Serve] serves it, or another
// http.Server does, followed by [HTTP.Close].
func (s *Server) HTTP(o HTTPOptions) *HTTP {
	def(&o.Idle, 30*time.Minute)
	def(&o.KeepAlive, 15*time.Second)
	def(&o.HeaderTimeout, 10*time.Second)
	def(&o.BodyTimeout, 60*time.Second)
	def(&o.MaxSessions, 1000)
	def(&o.PerToken, 100)
	return &HTTP{srv: s, o: o, log: s.log, sessions: newSessions(o.Idle, o.MaxSessions, o.PerToken),
		bodies: bodies{max: s.o.ClientBytes, held: make(map[[sha256.Size]byte]int64)}}
}

// Listen opens a TCP listener for [HTTP.Serve]. Without a host in addr it is
// 127.0.0.1. An address that other machines reach is an error unless anywhere
// is set.
func Listen(ctx context.Context, addr string, anywhere bool) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w", addr, err)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	if ip := net.ParseIP(host); !anywhere && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("listen on %q: not a loopback address", addr)
	}
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", net.JoinHostPort(host, port))
}

// Serve serves on ln until ctx ends; then streams without an end are ended and
// calls in flight may finish for [Options.Grace]. It closes ln and h, and
// returns ctx's error or the listener's.
func (h *HTTP) Serve(ctx context.Context, ln net.Listener) error {
	defer h.Close()
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: h.o.HeaderTimeout,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		BaseContext:       func(net.Listener) context.Context { return work },
		ErrorLog:          slog.NewLogLogger(h.log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(ln) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve http: %w", err)
	case <-ctx.Done():
	}
	h.sessions.stop()
	if !shutdown(ctx, srv, h.srv.o.Grace) {
		cancel()
		if !shutdown(ctx, srv, unwind) {
			h.log.Warn("calls did not end when they were cancelled")
			_ = srv.Close() // what it could report was reported
		}
	}
	<-failed
	return ctx.Err()
}

func shutdown(ctx context.Context, srv *http.Server, d time.Duration) bool {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), d)
	defer stop()
	return srv.Shutdown(ctx) == nil
}

// Close ends all sessions.
func (h *HTTP) Close() { h.sessions.close() }

// caller is who sent an HTTP request, once that is known.
type caller struct {
	key [sha256.Size]byte // of the token
	who gate.Identity     // with the profile
}

func (h *HTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		// Of a refused request too: the server skips its body before the next.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.o.BodyTimeout)) // not every writer can
	}
	if reason := h.foreign(r); reason != "" {
		h.log.Warn("request refused", "reason", reason, "remote", r.RemoteAddr)
		refuse(w, http.StatusForbidden, reason)
		return
	}
	profile, ok := profileOf(r.URL.Path)
	if !ok {
		refuse(w, http.StatusNotFound, "there is nothing at this path: use /mcp or /mcp/p/PROFILE")
		return
	}
	c, status, reason := h.identify(r, profile)
	if status != 0 {
		if status == http.StatusUnauthorized {
			if h.o.Unknown != nil {
				h.o.Unknown(reason, r.RemoteAddr)
			}
			w.Header().Set("WWW-Authenticate", `Bearer realm="mcp-gate", error="invalid_token"`)
		}
		refuse(w, status, reason)
		return
	}
	switch r.Method {
	case http.MethodPost:
		h.post(w, r, c)
	case http.MethodGet:
		h.get(w, r, c)
	case http.MethodDelete:
		h.delete(w, r, c)
	default:
		notAllowed(w, "POST, GET, DELETE")
	}
}

// profileOf returns the profile that a path names; "" for /mcp.
func profileOf(path string) (string, bool) {
	if path == "/mcp" {
		return "", true
	}
	name, ok := strings.CutPrefix(path, "/mcp/p/")
	return name, ok && name != "" && !strings.Contains(name, "/")
}

// identify finds the caller by the bearer token. A status of 0 is success.
func (h *HTTP) identify(r *http.Request, profile string) (caller, int, string) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "bearer") || token == "" {
		return caller{}, http.StatusUnauthorized, "a bearer token is required: send it in the Authorization header"
	}
	who, profiles, ok := h.o.Tokens.Lookup(token)
	if !ok {
		return caller{}, http.StatusUnauthorized, "this token is not known"
	}
	switch any := slices.Contains(profiles, "*"); {
	case profile == "" && len(profiles) > 0 && profiles[0] != "*":
		profile = profiles[0]
	case profile != "" && !any && !slices.Contains(profiles, profile):
		return caller{}, http.StatusForbidden, "this token may not use this profile"
	}
	if !h.srv.gate.HasProfile(profile) {
		return caller{}, http.StatusNotFound, fmt.Sprintf("there is no profile %q: use /mcp, or /mcp/p/NAME with a name under \"profiles\" in the gate's configuration", profile)
	}
	who.Profile = profile
	return caller{key: sha256.Sum256([]byte(token)), who: who}, 0, ""
}

// refuse answers what is no call with a status and a JSON-RPC error without id.
func refuse(w http.ResponseWriter, status int, reason string) {
	writeError(w, status, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: reason})
}

func notAllowed(w http.ResponseWriter, allow string) {
	w.Header().Set("Allow", allow)
	refuse(w, http.StatusMethodNotAllowed, "method not allowed")
}

func writeError(w http.ResponseWriter, status int, id []byte, e *jsonrpc.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(jsonrpc.AppendError(nil, id, e)) // a client that is gone needs no answer
}

// post takes one message.
func (h *HTTP) post(w http.ResponseWriter, r *http.Request, c caller) {
	stream, plain := accepts(r.Header)
	if !stream && !plain {
		refuse(w, http.StatusNotAcceptable, "accept application/json and text/event-stream")
		return
	}
	in := &body{of: &h.bodies, key: c.key, r: r.Body}
	defer in.done()
	body, status, e := h.body(w, r, in)
	if e != nil {
		w.Header().Set("Connection", "close") // the rest of the body is not read
		writeError(w, status, nil, e)
		return
	}
	m, err := jsonrpc.Parse(body)
	if err != nil {
		id, _, e := refusal(body, err)
		writeError(w, http.StatusBadRequest, id, e)
		return
	}
	if m.IsRequest() {
		h.request(newPost(h, w, stream, plain), r, c, m)
		return
	}
	// Of what wants no answer only that of a legacy session means anything.
	if id := r.Header.Get("Mcp-Session-Id"); id != "" {
		s := h.sessions.find(id, c)
		if s == nil {
			refuse(w, http.StatusNotFound, "there is no such session")
			return
		}
		defer h.sessions.release(s)
		if m.IsNotification() {
			s.notice(m)
		} else {
			s.asked.deliver(m)
		}
	}
	w.WriteHeader(http.StatusAccepted)
}

// accepts reports what the answer may be. A client that does not say takes all.
func accepts(header http.Header) (stream, plain bool) {
	accept := strings.Join(header.Values("Accept"), ",")
	if accept == "" {
		return true, true
	}
	for part := range strings.SplitSeq(accept, ",") {
		media := mediaOf(part)
		stream = stream || media == "text/event-stream" || media == "text/*" || media == "*/*"
		plain = plain || media == "application/json" || media == "application/*" || media == "*/*"
	}
	return stream, plain
}

// mediaOf is the media type that a header names, without its parameters; "" where
// it names none.
func mediaOf(value string) string {
	value = strings.TrimSpace(value)
	if value == "application/json" || value == "text/event-stream" {
		return value // nearly always; anything else costs a map
	}
	media, _, err := mime.ParseMediaType(value)
	if err != nil {
		return ""
	}
	return media
}

// body reads the message, within its limits of size and time. [HTTP.ServeHTTP]
// has set the deadline.
func (h *HTTP) body(w http.ResponseWriter, r *http.Request, in io.Reader) ([]byte, int, *jsonrpc.Error) {
	if kind := r.Header.Get("Content-Type"); kind != "" && mediaOf(kind) != "application/json" {
		return nil, http.StatusUnsupportedMediaType, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the body must be application/json"}
	}
	limit := h.srv.o.MaxMessage
	if r.ContentLength > limit {
		return nil, http.StatusRequestEntityTooLarge, tooLarge("", r.ContentLength, limit)
	}
	body, err := readBody(in, r.ContentLength, limit+1)
	switch {
	case errors.Is(err, errCrowded):
		return nil, http.StatusTooManyRequests, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: fmt.Sprintf(
			"messages with this token that are being read and served have more than %d bytes together: read the answers, then send it again", h.bodies.max)}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, http.StatusRequestTimeout, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf("the body did not arrive within %v", h.o.BodyTimeout)}
	case err != nil:
		return nil, http.StatusBadRequest, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "read the body: " + err.Error()}
	case int64(len(body)) > limit:
		return nil, http.StatusRequestEntityTooLarge, tooLarge("more than ", limit, limit)
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // it came; after a fault the deadline stays
	return bytes.TrimPrefix(body, []byte("\ufeff")), 0, nil        // a byte order mark, as at the start of a stream of lines
}

// smallBody is up to where a body has room made for it before it came.
const smallBody = 16 << 10

// readBody reads a body of a length, less than 0 where that is not known, and no more
// than most bytes of it.
func readBody(in io.Reader, length, most int64) ([]byte, error) {
	if length < 0 || length > smallBody {
		return io.ReadAll(io.LimitReader(in, most))
	}
	body := make([]byte, length+1) // one more, so that its end is read
	n, err := io.ReadFull(in, body)
	if int64(n) == length && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
		err = nil
	}
	return body[:n], err
}

func tooLarge(atLeast string, size, limit int64) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
		Message: fmt.Sprintf("message of %s%d bytes is over the limit of %d bytes", atLeast, size, limit)}
}

// request serves one request in the caller's goroutine.
func (h *HTTP) request(out *post, r *http.Request, c caller, m jsonrpc.Message) {
	defer out.close()
	p, err := parseParams(m.Params)
	if err != nil {
		writeError(out.w, http.StatusBadRequest, m.ID, invalidParams("params: %v", err))
		return
	}
	d, e := readDeclared(p)
	if e != nil {
		writeError(out.w, http.StatusBadRequest, m.ID, e)
		return
	}
	version := r.Header.Get("Mcp-Protocol-Version")
	switch modern := d.has && !isLegacy(d.version) || version != "" && !isLegacy(version); {
	case m.Method == "initialize" && !d.has:
		h.initialize(out, r, c, m, p)
	case modern || d.has && isModernOnly(m.Method):
		h.modern(out, r, c, m, p, d)
	default:
		h.legacy(out, r, c, m, p)
	}
}

func isModernOnly(name string) bool { return methods[name].modern && !methods[name].legacy }

func (h *HTTP) initialize(out *post, r *http.Request, c caller, m jsonrpc.Message, p params) {
	t, e := readInitialize(p)
	if e != nil {
		writeError(out.w, http.StatusOK, m.ID, e)
		return
	}
	s := h.sessions.add(c, func() *conn { return h.newConn(c.who) })
	if s == nil {
		writeError(out.w, http.StatusServiceUnavailable, m.ID, busy)
		return
	}
	defer h.sessions.release(s)
	s.handshake(t)
	out.w.Header().Set("Mcp-Session-Id", s.name)
	h.run(out, r, s, m, p, t)
	if out.failed != nil {
		h.sessions.end(s)
	}
}

// newConn returns a conn with a session id of its own, or nil when there is no
// randomness to make one from.
func (h *HTTP) newConn(who gate.Identity) *conn {
	id, err := ids.New("s_", h.srv.o.Rand)
	if err != nil {
		h.log.Error("no session id", "err", err)
		return nil
	}
	who.SessionID = id
	return h.srv.newConn(who)
}

var busy = &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "there are too many sessions, all of this token's or all of the gate's, or the gate is stopping: end one with DELETE, or try again later"}

func (h *HTTP) legacy(out *post, r *http.Request, c caller, m jsonrpc.Message, p params) {
	id := r.Header.Get("Mcp-Session-Id")
	if id == "" {
		writeError(out.w, http.StatusBadRequest, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
			Message: "the Mcp-Session-Id header is required: send initialize first"})
		return
	}
	s := h.sessions.find(id, c)
	if s == nil {
		writeError(out.w, http.StatusNotFound, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
			Message: "there is no such session: send initialize again"})
		return
	}
	defer h.sessions.release(s)
	t, _ := s.legacyTerms()
	h.run(out, r, s, m, p, t)
}

// modern serves a request by what it carries. Its ids are its own: two clients
// with one token may use the same, and leaving is how they cancel.
func (h *HTTP) modern(out *post, r *http.Request, c caller, m jsonrpc.Message, p params, d declared) {
	t, e := d.modernTerms()
	if mismatch := checkVersion(r.Header, d); mismatch != nil {
		e = mismatch
	}
	if e == nil {
		e = checkHeaders(r.Header, m, p)
	}
	if e != nil {
		writeError(out.w, http.StatusBadRequest, m.ID, e)
		return
	}
	s := h.sessions.share(c, func() *conn { return h.newConn(c.who) })
	if s == nil {
		writeError(out.w, http.StatusServiceUnavailable, m.ID, busy)
		return
	}
	defer h.sessions.release(s)
	h.run(out, r, s, m, p, t)
}

func (h *HTTP) run(out *post, r *http.Request, s *session, m jsonrpc.Message, p params, t terms) {
	out.modern = t.modern
	x, work, e := s.begin(r.Context(), m, p, t, out)
	if e != nil {
		writeError(out.w, http.StatusOK, m.ID, e)
		return
	}
	if t.modern && m.Method == "tools/call" {
		x.check = func(ctx context.Context, ses Session) *jsonrpc.Error {
			return s.checkParamHeaders(ctx, ses, r.Header, p)
		}
	}
	out.start()
	x.run(work, work)
	out.end()
}

// get gives a legacy session its stream for messages that belong to no
// request.
func (h *HTTP) get(w http.ResponseWriter, r *http.Request, c caller) {
	id := r.Header.Get("Mcp-Session-Id")
	version := r.Header.Get("Mcp-Protocol-Version")
	if id == "" || version != "" && !isLegacy(version) {
		notAllowed(w, "POST")
		return
	}
	s := h.sessions.find(id, c)
	if s == nil {
		refuse(w, http.StatusNotFound, "there is no such session")
		return
	}
	defer h.sessions.release(s)
	if stream, _ := accepts(r.Header); !stream {
		refuse(w, http.StatusNotAcceptable, "accept text/event-stream")
		return
	}
	out := newPost(h, w, true, false)
	defer out.close()
	out.open()
	changed := s.changed()
	q, end := s.listenAll(out.send)
	defer end()
	for {
		select {
		case <-changed:
			changed = nil
			if s.announce() {
				_ = out.send(r.Context(), note{method: noticeToolsChanged}.line()) // a stream that broke ends below
			}
		case n := <-q:
			_ = out.send(r.Context(), n.line())
		case <-s.stopped:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// delete ends a legacy session.
func (h *HTTP) delete(w http.ResponseWriter, r *http.Request, c caller) {
	id := r.Header.Get("Mcp-Session-Id")
	if id == "" {
		notAllowed(w, "POST")
		return
	}
	s := h.sessions.find(id, c)
	if s == nil {
		refuse(w, http.StatusNotFound, "there is no such session")
		return
	}
	h.sessions.end(s)
	h.sessions.release(s)
	w.WriteHeader(http.StatusNoContent)
}
