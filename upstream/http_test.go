package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
)

// site is a scripted server on HTTP. What a test sets answers; the rest is an
// older server that behaves.
type site struct {
	*httptest.Server
	t  *testing.T
	on map[string]func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) // by RPC method, or HTTP verb

	mu   sync.Mutex // guards what follows
	seen []string   // RPC methods and verbs, in order
	head []http.Header
	body []string
}

func newSite(t *testing.T, on map[string]func(http.ResponseWriter, *http.Request, jsonrpc.Message)) *site {
	s := &site{t: t, on: on}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m jsonrpc.Message
	what := r.Method
	b, _ := io.ReadAll(r.Body)
	if r.Method == http.MethodPost {
		var err error
		if m, err = jsonrpc.Parse(b); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if what = m.Method; what == "" {
			what = "answer"
		}
	}
	s.mu.Lock()
	s.seen = append(s.seen, what)
	s.head = append(s.head, r.Header)
	s.body = append(s.body, string(b))
	s.mu.Unlock()
	if f := s.on[what]; f != nil {
		f(w, r, m)
		return
	}
	switch {
	case what == "initialize":
		w.Header().Set("Mcp-Session-Id", "s1")
		reply(w, m, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"site","version":"1"}}`)
	case what == "tools/list":
		reply(w, m, `{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`)
	case what == "tools/call":
		reply(w, m, `{"params":`+string(m.Params)+`}`)
	case m.IsNotification() || what == "answer":
		w.WriteHeader(http.StatusAccepted)
	case r.Method == http.MethodDelete:
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func reply(w http.ResponseWriter, m jsonrpc.Message, result string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(jsonrpc.AppendResult(nil, m.ID, json.RawMessage(result)))
}

// sse answers with the stream text; ID in it stands for the id.
func sse(w http.ResponseWriter, m jsonrpc.Message, text string) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	_, _ = io.WriteString(w, strings.ReplaceAll(text, "ID", string(m.ID)))
	_ = http.NewResponseController(w).Flush()
}

func (s *site) count(what string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.seen {
		if x == what {
			n++
		}
	}
	return n
}

// last returns the headers and the body of the last request of a kind.
func (s *site) last(what string) (http.Header, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.seen) - 1; i >= 0; i-- {
		if s.seen[i] == what {
			return s.head[i], s.body[i]
		}
	}
	s.t.Fatalf("no %s among %v", what, s.seen)
	return nil, ""
}

func (s *site) server() Server {
	return Server{Alias: "a", URL: s.URL + "/mcp", StartTimeout: time.Minute}
}

type handlers = map[string]func(http.ResponseWriter, *http.Request, jsonrpc.Message)

func TestHTTPKeepsBytesAndFallsBackToInitialize(t *testing.T) {
	for _, status := range []int{400, 404, 405, 500} {
		s := newSite(t, handlers{"server/discover": func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) {
			http.Error(w, "what?", status)
		}})
		r := start(t, Options{}, s.server()).settled()
		args := `{ "z":12345678901234567890,"a":"<&>","e":1.0 }`
		if got, want := r.must("echo", args), `{"params":{"name":"echo","arguments":`+args+`}}`; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		h, _ := s.last("tools/call")
		if h.Get("Mcp-Session-Id") != "s1" || h.Get("MCP-Protocol-Version") != "2025-06-18" || h.Get("Mcp-Method") != "" {
			t.Errorf("headers %v", h)
		}
		if h, _ := s.last("initialize"); h.Get("MCP-Protocol-Version") != "" {
			t.Errorf("initialize has a version header: %v", h)
		}
		r.stop()
		if s.count("DELETE") != 1 {
			t.Error("the session was not ended")
		}
	}
}

func TestHTTPModern(t *testing.T) {
	schema := `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`
	s := newSite(t, handlers{
		"server/discover": func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
			reply(w, m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"instructions":"hi","ttlMs":0,"cacheScope":"public"}`)
		},
		"tools/list": func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
			reply(w, m, `{"tools":[{"name":"echo","inputSchema":`+schema+`},{"name":"bad","inputSchema":{"properties":{"o":{"type":"object","x-mcp-header":"O"}}}}]}`)
		},
	})
	r := start(t, Options{ClientVersion: "7"}, s.server()).settled()
	r.must("echo", `{"region":"Zürich"}`)
	h, body := s.last("tools/call")
	for name, want := range map[string]string{
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo",
		"Mcp-Param-Region": "=?base64?WsO8cmljaA==?=", "Mcp-Session-Id": "",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	contains(t, body, `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`, `"io.modelcontextprotocol/clientCapabilities":{}`,
		`"io.modelcontextprotocol/clientInfo":{"name":"mcp-gate","version":"7"}`)
	l, _ := r.Listing("a")
	if len(l.Tools) != 1 || l.Instructions != "hi" || l.Protocol != "2026-07-28" {
		t.Errorf("listing %+v", l)
	}
	if s.count("initialize") != 0 {
		t.Error("a modern server was asked to initialize")
	}
}

func TestHTTPSessionLoss(t *testing.T) {
	var mu sync.Mutex
	n := 0
	s := newSite(t, handlers{
		"initialize": func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
			mu.Lock()
			n++
			w.Header().Set("Mcp-Session-Id", fmt.Sprintf("s%d", n))
			mu.Unlock()
			reply(w, m, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}`)
		},
		"tools/call": func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
			if r.Header.Get("Mcp-Session-Id") == "s1" {
				w.WriteHeader(http.StatusNotFound)
				_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`)
				return
			}
			reply(w, m, `{"ok":1}`)
		},
	})
	r := start(t, Options{}, s.server()).settled()
	if got := r.must("echo", ""); got != `{"ok":1}` {
		t.Errorf("got %s", got)
	}
	if s.count("initialize") != 2 || s.count("tools/call") != 2 {
		t.Errorf("seen %v", s.seen)
	}
}

// Each of the calls that meet the loss at one time is told by its own answer that
// it did not run, and goes out again.
func TestHTTPSessionLossOfManyCalls(t *testing.T) {
	const calls = 8
	var inits atomic.Int32
	var all sync.WaitGroup
	all.Add(calls)
	s := newSite(t, handlers{
		"initialize": func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
			w.Header().Set("Mcp-Session-Id", fmt.Sprintf("s%d", inits.Add(1)))
			reply(w, m, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}`)
		},
		"tools/call": func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
			if r.Header.Get("Mcp-Session-Id") != "s1" {
				reply(w, m, `{"ok":1}`)
				return
			}
			all.Done()
			all.Wait()
			w.WriteHeader(http.StatusNotFound)
		},
	})
	r := start(t, Options{}, s.server()).settled()
	var wg sync.WaitGroup
	for range calls {
		wg.Go(func() {
			if resp, err := r.tool(t.Context(), "echo", ""); err != nil || string(resp.Result) != `{"ok":1}` {
				t.Errorf("%s, %v", resp.Result, err)
			}
		})
	}
	wg.Wait()
	if inits.Load() != 2 || s.count("tools/call") != 2*calls {
		t.Errorf("%d sessions, %d calls", inits.Load(), s.count("tools/call"))
	}
}

// A call that a server still answers after it forgot the session holds up the next
// session for a moment only.
func TestHTTPSessionLossWhileACallHangs(t *testing.T) {
	var inits atomic.Int32
	hangs := make(chan struct{})
	s := newSite(t, handlers{
		"initialize": func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
			w.Header().Set("Mcp-Session-Id", fmt.Sprintf("s%d", inits.Add(1)))
			reply(w, m, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}`)
		},
		"tools/call": func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
			switch {
			case r.Header.Get("Mcp-Session-Id") != "s1":
				reply(w, m, `{"ok":1}`)
			case strings.Contains(string(m.Params), "hang"):
				close(hangs)
				<-r.Context().Done()
			default:
				w.WriteHeader(http.StatusNotFound)
			}
		},
	})
	r := start(t, Options{}, s.server()).settled()
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := r.tool(t.Context(), "hang", "")
		var e *Error
		if !errors.As(err, &e) || e.Kind != Lost || !e.MayHaveRun() {
			t.Errorf("the call that hangs: %v", err)
		}
	})
	<-hangs
	if got := r.must("echo", ""); got != `{"ok":1}` {
		t.Errorf("got %s", got)
	}
	wg.Wait()
}

// A server that refuses the version and names it among those it takes is asked
// again, once; one that goes on refusing is an older one.
func TestHTTPRefusedVersionThatIsTaken(t *testing.T) {
	for refusals, want := range map[int32]string{1: "2026-07-28", 2: "2025-06-18"} {
		var refused atomic.Int32
		s := newSite(t, handlers{"server/discover": func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
			if refused.Add(1) <= refusals {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"],"requested":"2026-07-28"}}}`)
				return
			}
			reply(w, m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"public"}`)
		}})
		r := start(t, Options{}, s.server()).settled()
		if l, _ := r.Listing("a"); l.Protocol != want || s.count("server/discover") != 2 {
			t.Errorf("%d refusals: %s after %d questions, want %s", refusals, l.Protocol, s.count("server/discover"), want)
		}
	}
}

func TestHTTPSessionThatIsNeverKnown(t *testing.T) {
	s := newSite(t, handlers{"tools/call": func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) { w.WriteHeader(http.StatusNotFound) }})
	r := start(t, Options{}, s.server()).settled()
	e := r.wrong(Lost, "echo", "")
	if e.MayHaveRun() {
		t.Error("a refused request has not run")
	}
	if n := s.count("tools/call"); n > 3 {
		t.Errorf("tried %d times", n)
	}
}

func TestHTTPStreamGrammar(t *testing.T) {
	note := `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":9007199254740993}}`
	for name, text := range map[string]string{
		"LF":               "data: " + note + "\n\ndata:{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"t\":\"héllo\"}}\n\n",
		"CRLF, two lines":  ": hello\r\n\r\nevent: message\r\nid: 1\r\ndata: " + note + "\r\n\r\nretry: 100\r\ndata: {\"jsonrpc\":\"2.0\",\"id\":ID,\r\ndata: \"result\":{\"t\":\"héllo\"}}\r\n\r\n",
		"CR":               "data: " + note + "\r\rdata: {\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"t\":\"héllo\"}}\r\r",
		"BOM, other event": "\ufeffdata: " + note + "\n\nevent: ping\ndata: x\n\nbogus\nid\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"ID\",\"result\":{\"t\":\"héllo\"}}\n\n",
		"no end":           "data: " + note + "\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"t\":\"héllo\"}}",
		"another's answer": "data: " + note + "\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":4711,\"result\":{}}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"t\":\"héllo\"}}\n\n",
		"a number alone":   "id: e1\ndata: \n\ndata: " + note + "\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"t\":\"héllo\"}}\n\n",
		"garbage between":  "data: " + note + "\n\ndata: pong\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"t\":\"héllo\"}}\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			var noted []string
			s := newSite(t, handlers{"tools/call": func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) { sse(w, m, text) }})
			r := start(t, Options{OnNotification: func(_ context.Context, _, _ string, params json.RawMessage) { noted = append(noted, string(params)) }}, s.server()).settled()
			if got, want := r.must("echo", ""), `{"t":"héllo"}`; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if len(noted) != 1 || noted[0] != `{"level":"info","data":9007199254740993}` {
				t.Errorf("noted %v", noted)
			}
			if d := r.Status()[0].Dropped; (d.Garbage > 0) != (name == "garbage between") {
				t.Errorf("%d events counted as garbage", d.Garbage)
			}
		})
	}
}

// Some programs begin what they write with a byte order mark.
func TestHTTPAnswerBehindAByteOrderMark(t *testing.T) {
	s := newSite(t, handlers{"tools/call": func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "\ufeff"+`{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":{"t":"\ufeffx"}}`)
	}})
	r := start(t, Options{}, s.server()).settled()
	if got, want := r.must("echo", ""), `{"t":"\ufeffx"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestHTTPAnswersThatAreNone(t *testing.T) {
	say := func(status int, kind, text string) func(http.ResponseWriter, *http.Request, jsonrpc.Message) {
		return func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Location", "https://elsewhere.example/mcp")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, strings.ReplaceAll(text, "ID", string(m.ID)))
		}
	}
	const js = "application/json"
	big := strings.Repeat("x", 200_000)
	tests := []struct {
		name    string
		answer  func(http.ResponseWriter, *http.Request, jsonrpc.Message)
		kind    Kind
		mayHave bool
		want    string
	}{
		{"NaN", say(200, js, `{"jsonrpc":"2.0","id":ID,"result":{"x":NaN}}`), Invalid, true, "invalid character 'N'"},
		{"another id", say(200, js, `{"jsonrpc":"2.0","id":"x","result":{}}`), Invalid, true, "another request"},
		{"a batch", say(200, js, `[{"jsonrpc":"2.0","id":ID,"result":{}}]`), Invalid, true, "only protocol version 2025-03-26 has batches"},
		{"a batch of events", say(200, "text/event-stream", `data: [{"jsonrpc":"2.0","id":ID,"result":{}}]`+"\n\n"), Invalid, true, "only protocol version"},
		{"an empty batch", say(200, js, `[]`), Invalid, true, "without the answer"},
		{"empty", say(202, js, ""), Invalid, true, "without an answer"},
		{"a page", say(200, "text/html", "<p>hello"), Invalid, true, ""},
		{"too large", say(200, js, `{"jsonrpc":"2.0","id":ID,"result":{"x":"`+big+`"}}`), TooLarge, true, "100000 bytes"},
		{"too large an event", say(200, "text/event-stream", `data: {"jsonrpc":"2.0","id":ID,"result":{"x":"`+big+"\"}}\n\n"), TooLarge, true, "100000 bytes"},
		{"a stream that ends", say(200, "text/event-stream", ": nothing\n\n"), Lost, true, "stream of events ended"},
		{"half an event", say(200, "text/event-stream", `data: {"jsonrpc":"2.0","id":ID,"res`), Lost, true, "stream of events ended"},
		{"server error", say(503, "text/plain", "down for\n\x1b[1mrepair"), Refused, true, `503 Service Unavailable ("down for \\x1b[1mrepair")`},
		{"too many requests", say(429, "text/plain", ""), Refused, false, "HTTP 429"},
		{"redirect", say(307, "text/plain", ""), Refused, false, "a redirect to https://elsewhere.example/mcp"},
		{"sign-in", say(401, js, `{"jsonrpc":"2.0","id":ID,"error":{"code":1,"message":"no"}}`), Unauthorized, false, "wants a sign-in"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t, handlers{"tools/call": tt.answer})
			r := start(t, Options{MaxMessage: 100_000}, s.server()).settled()
			e := r.wrong(tt.kind, "echo", "")
			contains(t, e.Error(), tt.want)
			if e.MayHaveRun() != tt.mayHave {
				t.Errorf("may have run: %v", e.MayHaveRun())
			}
			if n := s.count("tools/call"); n != 1 {
				t.Errorf("asked %d times, want once", n)
			}
			if _, err := r.Call(t.Context(), "a", Request{Method: "tools/list"}); err != nil {
				t.Error("the connection did not live on:", err)
			}
		})
	}
	for _, status := range []int{200, 400, 404, 500} {
		s := newSite(t, handlers{
			"initialize": func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) { // no session
				reply(w, m, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}`)
			},
			"tools/call": say(status, js, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32010,"message":"row missing"}}`),
		})
		r := start(t, Options{}, s.server()).settled()
		resp, err := r.tool(t.Context(), "echo", "")
		if err != nil || resp.Error == nil || resp.Error.Code != -32010 {
			t.Errorf("HTTP %d: got %+v, %v, want the JSON-RPC error", status, resp, err)
		}
	}
}

func TestHTTPAnswersInABatch(t *testing.T) {
	asked := make(chan struct{}, 2)
	for kind, text := range map[string]string{
		"application/json":  `[{"jsonrpc":"2.0","method":"notifications/message","params":{}},{"jsonrpc":"2.0","id":ID,"result":{"ok":1}}]`,
		"text/event-stream": `data: [{"jsonrpc":"2.0","method":"notifications/message","params":{}},{"jsonrpc":"2.0","id":ID,"result":{"ok":1}}]` + "\n\n",
	} {
		s := newSite(t, handlers{
			"initialize": func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
				reply(w, m, `{"protocolVersion":"2025-03-26","capabilities":{"tools":{}}}`)
			},
			"tools/call": func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
				w.Header().Set("Content-Type", kind)
				_, _ = io.WriteString(w, strings.ReplaceAll(text, "ID", string(m.ID)))
			},
		})
		r := start(t, Options{OnNotification: func(context.Context, string, string, json.RawMessage) { asked <- struct{}{} }}, s.server()).settled()
		if got := r.must("echo", ""); got != `{"ok":1}` {
			t.Errorf("%s: got %s", kind, got)
		}
		<-asked
	}
}

func TestHTTPSignInIsRenewedOnce(t *testing.T) {
	var asked []string
	var mu sync.Mutex
	check := func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
		if r.Header.Get("Authorization") == "Bearer t2" {
			reply(w, m, `{"ok":1}`)
			return
		}
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		w.WriteHeader(http.StatusUnauthorized)
	}
	s := newSite(t, handlers{"tools/call": check})
	cfg := s.server()
	cfg.Authorize = func(ctx context.Context, challenge string) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		refused := RefusedAuthorization(ctx)
		if (challenge == "") != (refused == "") {
			t.Errorf("challenge %q, refused %q", challenge, refused)
		}
		if challenge != "" {
			asked = append(asked, challenge+" for "+refused)
			return "Bearer t2", nil
		}
		return "Bearer t1", nil
	}
	r := start(t, Options{}, cfg).settled()
	r.must("echo", "")
	if len(asked) != 1 || asked[0] != `Bearer error="invalid_token" for Bearer t1` || s.count("tools/call") != 2 {
		t.Errorf("asked %v, %d calls", asked, s.count("tools/call"))
	}
}

// A 403 that names a scope is a question for another token; one without is none.
func TestHTTPTooLittleScope(t *testing.T) {
	forbid := func(challenge string) func(http.ResponseWriter, *http.Request, jsonrpc.Message) {
		return func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
			if r.Header.Get("Authorization") == "Bearer wide" {
				reply(w, m, `{"ok":1}`)
				return
			}
			w.Header().Set("WWW-Authenticate", challenge)
			w.WriteHeader(http.StatusForbidden)
		}
	}
	for _, tt := range []struct {
		name, challenge, then string
		kind                  Kind // 0 is an answer
		calls                 int
	}{
		{"a wider token", `Bearer error="insufficient_scope", scope="w"`, "Bearer wide", 0, 2},
		{"nobody can help", `Bearer error="insufficient_scope", scope="w"`, "", Unauthorized, 1},
		{"no word of a scope", `Bearer error="access_denied"`, "Bearer wide", Refused, 1},
	} {
		s := newSite(t, handlers{"tools/call": forbid(tt.challenge)})
		cfg := s.server()
		cfg.Authorize = func(_ context.Context, challenge string) (string, error) {
			switch {
			case challenge == "":
				return "Bearer narrow", nil
			case tt.then == "":
				return "", errors.New("scope w is not granted")
			}
			return tt.then, nil
		}
		r := start(t, Options{}, cfg).settled()
		resp, err := r.tool(t.Context(), "echo", "")
		if tt.kind == 0 && err != nil {
			t.Errorf("%s: %v", tt.name, err)
		} else if tt.kind != 0 {
			wantKind(t, tt.kind, resp, err)
		}
		if n := s.count("tools/call"); n != tt.calls {
			t.Errorf("%s: %d calls, want %d", tt.name, n, tt.calls)
		}
	}
	s := newSite(t, handlers{"tools/call": forbid(`Bearer error="insufficient_scope"`)})
	r := start(t, Options{}, s.server()).settled() // with a token of the owner's, or none
	resp, err := r.tool(t.Context(), "echo", "")
	if e := wantKind(t, Refused, resp, err); e != nil && (!strings.Contains(e.Hint, "scope") || !strings.Contains(e.Error(), `insufficient_scope`)) {
		t.Errorf("got %v, hint %q", e, e.Hint)
	}
}

// A capability that is null is none. A server that declares none at all is asked
// for its tools, and may refuse.
func TestHTTPWhoIsAskedForTools(t *testing.T) {
	for capabilities, want := range map[string]int{
		`{"tools":{}}`:                1,
		`{}`:                          1,
		`{"tools":null}`:              1,
		`{"experimental":{"x":{}}}`:   1,
		`{"tools":null,"prompts":{}}`: 0,
		`{"resources":{}}`:            0,
	} {
		for _, refuses := range []bool{false, true} {
			s := newSite(t, handlers{
				"initialize": func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
					reply(w, m, `{"protocolVersion":"2025-06-18","capabilities":`+capabilities+`}`)
				},
			})
			declared := strings.HasPrefix(capabilities, `{"tools":{`)
			tools := want
			if refuses && !declared {
				tools = 0
				s.on["tools/list"] = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
					w.Header().Set("Content-Type", "application/json")
					_, _ = w.Write(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no"}))
				}
			}
			r := start(t, Options{}, s.server()).settled()
			l, listed := r.Listing("a")
			if !listed || len(l.Tools) != tools || s.count("tools/list") != want {
				t.Errorf("%s: listed %t, %d tools after %d questions", capabilities, listed, len(l.Tools), s.count("tools/list"))
			}
		}
	}
}

func TestHTTPUnreachableServerComesBack(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	r := start(t, Options{}, Server{Alias: "a", URL: "http://" + addr + "/secret"}, fake("b")).settled()
	e := r.wrong(Unreachable, "echo", "")
	contains(t, e.Error(), "server a cannot be reached", "connection refused")
	if e.MayHaveRun() || strings.Contains(e.Error(), "secret") || e.Hint == "" {
		t.Errorf("%v, %+v", e, e)
	}
	if _, err := r.Call(t.Context(), "b", toolCall("echo", "")); err != nil {
		t.Error(err)
	}
	if l, err = net.Listen("tcp", addr); err != nil {
		t.Fatal(err)
	}
	s := &site{t: t}
	s.Server = &httptest.Server{Listener: l, Config: &http.Server{Handler: s}}
	s.Start()
	defer s.Close()
	r.state("it to be back", func(st Status) bool { return st.State == Ready && st.Listed })
	r.must("echo", "")
}

// TestHTTPOneFailedDialLosesNothingElse has a server that takes no connection for
// a while, as behind a balancer, answer a call that it had before.
func TestHTTPOneFailedDialLosesNothingElse(t *testing.T) {
	arrived, answer := make(chan struct{}), make(chan struct{})
	s := newSite(t, nil)
	s.on = handlers{"tools/call": func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
		if strings.Contains(string(m.Params), "slow") {
			close(arrived)
			<-answer
		}
		reply(w, m, `{"content":[]}`)
	}}
	var refuses atomic.Bool
	dialer := func(ctx context.Context, network, addr string) (net.Conn, error) {
		if refuses.Load() {
			return nil, errors.New("connection refused")
		}
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
	r := start(t, Options{HTTP: &http.Transport{DialContext: dialer, DisableKeepAlives: true}}, s.server()).settled()
	slow := make(chan error, 1)
	go func() {
		_, err := r.tool(t.Context(), "echo", `{"slow":true}`)
		slow <- err
	}()
	<-arrived
	refuses.Store(true)
	if e := r.wrong(Unreachable, "echo", ""); e.MayHaveRun() {
		t.Errorf("the call that could not be sent may have run: %v", e)
	}
	close(answer)
	if err := <-slow; err != nil {
		t.Errorf("the call that was being worked on: %v", err)
	}
	r.wrong(Unreachable, "echo", "")
	r.state("it to be found away", func(st Status) bool { return st.State == Failed })
	refuses.Store(false)
	r.state("it to be back", func(st Status) bool { return st.State == Ready && st.Listed })
	r.must("echo", "")
}

func TestHTTPCancel(t *testing.T) {
	arrived, closed := make(chan struct{}), make(chan struct{})
	told := make(chan string, 1)
	s := newSite(t, handlers{
		"tools/call": func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
			sse(w, m, ": wait\n\n")
			close(arrived)
			<-r.Context().Done()
			close(closed)
		},
		"notifications/cancelled": func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
			told <- string(m.Params)
			w.WriteHeader(http.StatusAccepted)
		},
	})
	r := start(t, Options{}, s.server()).settled()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	resp, err := r.tool(ctx, "echo", "")
	wantKind(t, Cancelled, resp, err)
	inTime(t, time.Minute, "the stream to be closed", closed)
	contains(t, <-told, `"requestId":`)
}

func TestHTTPProgressRequestsAndResumption(t *testing.T) {
	type key struct{}
	answered := make(chan string, 1)
	s := newSite(t, handlers{
		"tools/call": func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
			sse(w, m, "id: e1\nretry: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"gID\",\"progress\":1.0}}\n\n"+
				"data: {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"roots/list\"}\n\n")
		},
		"answer": func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
			answered <- string(m.ID) + string(m.Result)
			w.WriteHeader(http.StatusAccepted)
		},
	})
	s.on["GET"] = func(w http.ResponseWriter, r *http.Request, _ jsonrpc.Message) {
		if r.Header.Get("Last-Event-ID") != "e1" {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		_, body := s.last("tools/call")
		m, _ := jsonrpc.Parse([]byte(body))
		sse(w, m, "id: e2\ndata: {\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"resumed\":true}}\n\n")
	}
	r := start(t, Options{OnRequest: func(ctx context.Context, _, method string, _ json.RawMessage) (json.RawMessage, *jsonrpc.Error) {
		return fmt.Appendf(nil, `{"for":%q}`, ctx.Value(key{})), nil
	}}, s.server()).settled()
	req := toolCall("echo", "")
	var progress []string
	req.Progress = func(params json.RawMessage) { progress = append(progress, string(params)) }
	resp, err := r.Call(context.WithValue(t.Context(), key{}, "me"), "a", req)
	if err != nil || string(resp.Result) != `{"resumed":true}` {
		t.Fatalf("got %s, %v", resp.Result, err)
	}
	if len(progress) != 1 || !strings.Contains(progress[0], `"progress":1.0`) {
		t.Errorf("progress %v", progress)
	}
	if got, want := <-answered, `7{"for":"me"}`; got != want {
		t.Errorf("the server got %s, want %s", got, want)
	}
}

func TestHTTPListChangedOnTheListeningStream(t *testing.T) {
	listed := make(chan struct{}, 10)
	s := newSite(t, handlers{
		"GET": func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
			<-listed
			sse(w, m, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")
			<-r.Context().Done()
		},
	})
	s.on["tools/list"] = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
		reply(w, m, fmt.Sprintf(`{"tools":[{"name":"t%d"}]}`, s.count("tools/list")))
		listed <- struct{}{}
	}
	r := start(t, Options{}, s.server()).settled()
	r.state("another listing", func(Status) bool {
		l, _ := r.Listing("a")
		return l.Generation == 2 && string(l.Tools[0]) == `{"name":"t2"}`
	})
}

// A server that nobody here wrote, in both eras.
func TestHTTPWithMCPGo(t *testing.T) {
	for _, era := range []Era{Auto, Legacy, Modern} {
		t.Run(era.String(), func(t *testing.T) {
			m := mcpserver.NewMCPServer("real", "1", mcpserver.WithToolCapabilities(true), mcpserver.WithInstructions("be kind"))
			m.AddTool(mcp.NewTool("greet"), func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return mcp.NewToolResultText("hello " + req.GetString("name", "")), nil
			})
			web := httptest.NewServer(mcpserver.NewStreamableHTTPServer(m))
			defer web.Close()
			r := start(t, Options{}, Server{Alias: "a", URL: web.URL + "/mcp", Era: era, StartTimeout: time.Minute}).settled()
			contains(t, r.must("greet", `{"name":"you"}`), "hello you")
			l, _ := r.Listing("a")
			want := "2026-07-28"
			if era == Legacy {
				want = "2025-11-25"
			}
			if l.Protocol != want || len(l.Tools) != 1 || l.Instructions != "be kind" {
				t.Errorf("listing %+v", l)
			}
			r.stop()
		})
	}
}

// A line that never ends costs its call at once, and no more of it is read.
func TestHTTPStreamWithoutEnd(t *testing.T) {
	for name, part := range map[string]string{
		"a line": "data: ", "a comment": ": ", "many lines": "data: 0123456789\ndata: ",
	} {
		t.Run(name, func(t *testing.T) {
			written := make(chan int, 1)
			s := newSite(t, handlers{"tools/call": func(w http.ResponseWriter, r *http.Request, _ jsonrpc.Message) {
				w.Header().Set("Content-Type", "text/event-stream")
				n := 0
				text := []byte(part)
				if strings.Contains(part, "\n") {
					text = bytes.Repeat(text, 1000)
				}
				for r.Context().Err() == nil {
					m, err := w.Write(text)
					if n += m; err != nil {
						break
					}
					if !strings.Contains(part, "\n") {
						text = bytes.Repeat([]byte("x"), 16<<10)
					}
				}
				written <- n
			}})
			r := start(t, Options{MaxMessage: 100_000}, s.server()).settled()
			e := r.wrong(TooLarge, "echo", "")
			contains(t, e.Error(), "over the limit of 100000 bytes")
			if n := <-written; n > 64<<20 { // what the sockets hold goes unread
				t.Errorf("%d bytes were taken", n)
			}
			if _, err := r.Call(t.Context(), "a", Request{Method: "tools/list"}); err != nil {
				t.Error("the connection did not live on:", err)
			}
		})
	}
}

// A stream that belongs to no call is opened again after what was too large.
func TestEventThatIsTooLargeIsNotAskedForAgain(t *testing.T) {
	ev := newEvents(strings.NewReader("id: 7\ndata: "+strings.Repeat("x", 1000)), 64)
	if _, err := ev.next(); !errors.Is(err, errEventSize) || ev.lastID != "7" {
		t.Errorf("got %v, resumes after %q", err, ev.lastID)
	}
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte("data: a\r\ndata: b\n\nid: 1\revent: x\rdata\r\r"), 3)
	f.Add([]byte("\ufeffdata: {}\n\n"), 1)
	f.Fuzz(func(t *testing.T, b []byte, chunk int) {
		read := func(r io.Reader) (all []string) {
			ev := newEvents(r, 64)
			for {
				e, err := ev.next()
				if err == nil {
					if len(e.data) > 64 {
						t.Fatalf("%d bytes of data are over the limit", len(e.data))
					}
					all = append(all, fmt.Sprintf("%s %s %v", e.name, e.data, e.unfinished))
				} else if err == io.EOF {
					return all
				} else {
					return append(all, err.Error()) // no more is read
				}
			}
		}
		// However the bytes arrive, the events are the same.
		whole := read(bytes.NewReader(b))
		cut := read(&slow{b, max(1, min(chunk, 50))})
		if fmt.Sprint(whole) != fmt.Sprint(cut) {
			t.Errorf("got %q and %q", whole, cut)
		}
	})
}

// slow gives n bytes a time.
type slow struct {
	b []byte
	n int
}

func (s *slow) Read(p []byte) (int, error) {
	if len(s.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.b[:min(s.n, len(s.b))])
	s.b = s.b[n:]
	return n, nil
}

// What a server asks in the middle of a call may come on the stream that
// belongs to none: it is open before anything is asked of the server.
func TestTheStreamIsOpenBeforeACall(t *testing.T) {
	listed := make(chan struct{})
	var early atomic.Bool
	s := newSite(t, map[string]func(http.ResponseWriter, *http.Request, jsonrpc.Message){
		http.MethodGet: func(w http.ResponseWriter, r *http.Request, _ jsonrpc.Message) {
			select {
			case <-listed:
				early.Store(true)
			case <-time.After(openWait / 5):
			}
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
		"tools/list": func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
			close(listed)
			reply(w, m, `{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`)
		},
	})
	start(t, Options{}, Server{Alias: "a", URL: s.URL, Launch: s.URL, Era: Legacy}).settled().must("echo", "")
	if early.Load() {
		t.Error("the tools were asked for before the stream was open")
	}
}

// Servers exist whose path wants a slash at its end, and say so with a redirect.
func TestARedirectIsFollowedOnTheSameOriginAlone(t *testing.T) {
	s := newSite(t, handlers{})
	tests := []struct {
		name   string
		status int
		to     string
		starts bool
	}{
		{"to another path", 307, "/mcp/", true},
		{"for good", 308, s.URL + "/mcp/", true},
		{"that forgets the body", 302, "/mcp/", false},
		{"to another port", 307, "http://127.0.0.1:1/mcp", false},
		{"to another scheme", 308, "https://" + strings.TrimPrefix(s.URL, "http://") + "/mcp/", false},
		{"to itself", 307, "/mcp", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			asked := 0
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked++
				if r.URL.Path == "/mcp" {
					http.Redirect(w, r, strings.Replace(tt.to, s.URL, "", 1), tt.status)
					return
				}
				s.ServeHTTP(w, r)
			}))
			defer front.Close()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, front.URL+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer x")
			before := s.count("tools/call")
			resp, err := (&http.Client{CheckRedirect: sameOrigin}).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if got := s.count("tools/call") > before; got != tt.starts || asked > maxRedirects+1 {
				t.Errorf("reached it: %v after %d requests, status %d", got, asked, resp.StatusCode)
			}
			if h, _ := s.last("tools/call"); tt.starts && h.Get("Authorization") != "Bearer x" {
				t.Error("the token was left out")
			}
		})
	}
}

// Some servers have an empty cursor where there is no further page, and refuse it.
func TestAnEmptyCursorThatIsRefusedEndsTheList(t *testing.T) {
	s := newSite(t, handlers{"tools/list": func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
		if strings.Contains(string(m.Params), "cursor") {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"Invalid cursor"}}`, m.ID)
			return
		}
		reply(w, m, `{"tools":[{"name":"echo"}],"nextCursor":""}`)
	}})
	r := start(t, Options{}, s.server()).settled()
	if l, ok := r.Listing("a"); !ok || len(l.Tools) != 1 {
		t.Errorf("got %+v", l)
	}
}
