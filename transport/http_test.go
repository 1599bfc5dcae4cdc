package transport

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-gate/mcp-gate/gate"
	"github.com/mcp-gate/mcp-gate/policy"
)

// fakeTokens knows tokens by their name.
type fakeTokens map[string][]string // profiles

func (f fakeTokens) Lookup(token string) (gate.Identity, []string, bool) {
	profiles, ok := f[token]
	principal, _, _ := strings.Cut(token, "-")
	return gate.Identity{Principal: principal, Scope: policy.ScopeAdmin}, profiles, ok
}

// site is a gate served on a real loopback socket.
type site struct {
	t      testing.TB
	g      *fakeGate
	h      *HTTP
	addr   string
	client *http.Client
	stop   context.CancelFunc
	done   chan error
}

func startHTTP(t testing.TB, g *fakeGate, o Options, ho HTTPOptions) *site {
	t.Helper()
	if ho.Tokens == nil {
		ho.Tokens = fakeTokens{"laptop": {"*"}, "server": {"*"}, "laptop-2": {"*"}, "build": {"home", "work"}, "guest": nil}
	}
	ctx, stop := context.WithCancel(t.Context())
	ln, err := Listen(ctx, "127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	s := &site{t: t, g: g, addr: ln.Addr().String(), client: &http.Client{Transport: transport}, stop: stop, done: make(chan error, 1)}
	s.h = New(g, [32]byte{2}, o).HTTP(ho)
	go func() { s.done <- s.h.Serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		transport.CloseIdleConnections()
		<-s.done
	})
	return s
}

// request makes a POST of body with token "laptop"; headers are "Name: value".
func (s *site) request(body string, headers ...string) *http.Request {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), "POST", "http://"+s.addr+"/mcp", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer laptop")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	set(r, headers...)
	return r
}

func set(r *http.Request, headers ...string) {
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		switch {
		case name == "Host":
			r.Host = value
		case name == "Path":
			r.URL.Path = value
		case name == "Method":
			r.Method = value
		case value == "":
			r.Header.Del(name)
		default:
			r.Header.Set(name, value)
		}
	}
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (s *site) do(r *http.Request) answer {
	s.t.Helper()
	res, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, string(b)}
}

func (s *site) post(body string, headers ...string) answer {
	s.t.Helper()
	return s.do(s.request(body, headers...))
}

// init opens a legacy session and returns the header that names it.
func (s *site) init(capabilities string, headers ...string) string {
	s.t.Helper()
	a := s.post(fmt.Sprintf(legacyInit, capabilities), headers...)
	id := a.header.Get("Mcp-Session-Id")
	if a.status != 200 || id == "" {
		s.t.Fatalf("initialize: %+v", a)
	}
	if got := s.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, append(headers, "Mcp-Session-Id: "+id)...); got.status != 202 {
		s.t.Fatalf("initialized: %+v", got)
	}
	return "Mcp-Session-Id: " + id
}

// modern returns the body and headers of a modern request.
func modern(method, params, capabilities string) (string, []string) {
	sep := ","
	if params == "" {
		sep = ""
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"%s","params":{%s%s`+modernMeta+`}}`, method, params, sep, capabilities)
	headers := []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: " + method}
	for _, member := range []string{"name", "taskId"} {
		if name, ok := strings.CutPrefix(params, `"`+member+`":"`); ok {
			name, _, _ = strings.Cut(name, `"`)
			headers = append(headers, "Mcp-Name: "+name)
		}
	}
	return body, headers
}

func (s *site) modern(method, params, capabilities string, headers ...string) answer {
	s.t.Helper()
	body, standard := modern(method, params, capabilities)
	return s.post(body, append(standard, headers...)...)
}

// events reads an event stream.
type events struct {
	t testing.TB
	r *bufio.Reader
	c io.Closer
}

func (s *site) stream(r *http.Request) *events {
	s.t.Helper()
	res, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	if got := res.Header.Get("Content-Type"); res.StatusCode != 200 || got != "text/event-stream" {
		b, _ := io.ReadAll(res.Body)
		s.t.Fatalf("want an event stream, have %d %s %s", res.StatusCode, got, b)
	}
	if res.Header.Get("X-Accel-Buffering") != "no" {
		s.t.Error("X-Accel-Buffering is not set")
	}
	s.t.Cleanup(func() { res.Body.Close() })
	return &events{s.t, bufio.NewReader(res.Body), res.Body}
}

// next returns the next event's data, or a comment; "" at the end.
func (e *events) next() string {
	e.t.Helper()
	for {
		line, err := e.r.ReadString('\n')
		if err != nil {
			return ""
		}
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "data: "):
			return line[6:]
		case strings.HasPrefix(line, ":"):
			return line
		}
	}
}

func TestWhoMayComeIn(t *testing.T) {
	s := startHTTP(t, &fakeGate{}, Options{}, HTTPOptions{Hosts: []string{"gate.example.com", "lab:8443"}})
	_, port, _ := net.SplitHostPort(s.addr)
	tests := []struct {
		headers string
		want    int
	}{
		{"", 200},
		{"Host: localhost:" + port, 200},
		{"Host: LOCALHOST:" + port, 200},
		{"Host: [::1]:" + port, 200},
		{"Host: gate.example.com", 200},
		{"Host: lab:8443", 200},
		{"Host: localhost", 403}, // port 80 is meant
		{"Host: localhost:1", 403},
		{"Host: lab:8444", 403},
		{"Host: evil.example.com", 403},
		{"Host: evil.example.com:" + port, 403},
		{"Host: 0.0.0.0:" + port, 403},
		{"Host: localhost.evil.com:" + port, 403},
		{"Host: localhost.:" + port, 403},
		{"Origin: http://localhost:" + port, 200},
		{"Origin: http://127.0.0.1:" + port, 200},
		{"Origin: http://[::1]:" + port, 200},
		{"Origin: https://gate.example.com", 200},
		{"Origin: http://localhost:1", 403},
		{"Origin: http://evil.example.com", 403},
		{"Origin: http://localhost:" + port + ".evil.com", 403},
		{"Origin: null", 403},
		{"Origin: file://localhost:" + port, 403},
		{"Origin: %zz", 403},
		{"Sec-Fetch-Site: same-origin", 200},
		{"Sec-Fetch-Site: none", 200},
		{"Sec-Fetch-Site: cross-site", 403},
		{"Authorization: ", 401},
		{"Authorization: Bearer", 401},
		{"Authorization: Bearer  ", 401},
		{"Authorization: Bearer forged", 401},
		{"Authorization: Basic laptop", 401},
		{"Authorization: laptop", 401},
		{"Authorization: bearer laptop", 200},
		{"Path: /mcp/p/work", 200},
		{"Path: /mcp/", 404},
		{"Path: /mcp/p/", 404},
		{"Path: /mcp/p/a/b", 404},
		{"Path: /", 404},
		{"Content-Type: application/json; charset=utf-8", 200},
		{"Content-Type: ", 200},
		{"Content-Type: text/plain", 415},
		{"Accept: ", 200},
		{"Accept: */*", 200},
		{"Accept: application/json", 200},
		{"Accept: text/event-stream;q=1", 200},
		{"Accept: text/html", 406},
		{"Method: OPTIONS", 405},
		{"Method: PUT", 405},
		{"Method: GET", 405},    // there is no session
		{"Method: DELETE", 405}, // nor here
	}
	for _, tt := range tests {
		got := s.post(fmt.Sprintf(legacyInit, `{}`), tt.headers)
		if got.status != tt.want {
			t.Errorf("%s: status %d, want %d: %s", tt.headers, got.status, tt.want, got.body)
		}
		if got.status == 401 && !strings.HasPrefix(got.header.Get("WWW-Authenticate"), "Bearer ") {
			t.Errorf("%s: no WWW-Authenticate", tt.headers)
		}
		if got.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: CORS is open", tt.headers)
		}
	}
}

func TestProfilesOfATokens(t *testing.T) {
	tests := []struct {
		token, path, profile string
		status               int
	}{
		{"laptop", "/mcp", "", 200},
		{"laptop", "/mcp/p/any", "any", 200},
		{"laptop", "/mcp/p/none", "", 404},
		{"build", "/mcp", "home", 200},
		{"build", "/mcp/p/work", "work", 200},
		{"build", "/mcp/p/other", "", 403},
		{"guest", "/mcp", "", 200},
		{"guest", "/mcp/p/home", "", 403},
	}
	for _, tt := range tests {
		g := &fakeGate{}
		s := startHTTP(t, g, Options{}, HTTPOptions{})
		got := s.post(fmt.Sprintf(legacyInit, `{}`), "Authorization: Bearer "+tt.token, "Path: "+tt.path)
		if got.status != tt.status {
			t.Errorf("%s at %s: status %d, want %d", tt.token, tt.path, got.status, tt.status)
			continue
		}
		if tt.status != 200 {
			continue
		}
		who := g.opened(0).who
		if who.Principal != tt.token || who.Profile != tt.profile || who.Client != "probe" || who.Scope != policy.ScopeAdmin || len(who.SessionID) != 28 {
			t.Errorf("%s at %s: identity %+v", tt.token, tt.path, who)
		}
	}
}

func TestLegacySessionOverHTTP(t *testing.T) {
	g := &fakeGate{}
	s := startHTTP(t, g, Options{}, HTTPOptions{})
	id := s.init(`{}`)
	got := s.post(callLine(`9007199254740993`, "echo", `{"n":12345678901234567890}`), id, "MCP-Protocol-Version: 2025-06-18")
	if want := `{"jsonrpc":"2.0","id":9007199254740993,"result":{"content":[{"type":"text","text":"{\"n\":12345678901234567890}"}]}}`; got.status != 200 || got.body != want {
		t.Errorf("call: %+v", got)
	}
	if got := s.post(callLine("1", "error", `{}`), id); got.status != 200 || !strings.Contains(got.body, `"code":-32010,"message":"row missing","data":{"n":12345678901234567890}`) {
		t.Errorf("error: %+v", got)
	}
	for _, tt := range []struct {
		name, body string
		headers    []string
		status     int
		want       string
	}{
		{"another token", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, []string{id, "Authorization: Bearer server"}, 404, "no such session"},
		{"another token of the same principal", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, []string{id, "Authorization: Bearer laptop-2"}, 404, "no such session"},
		{"another profile", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, []string{id, "Path: /mcp/p/x"}, 404, "no such session"},
		{"an unknown session", `{"jsonrpc":"2.0","id":7,"method":"ping"}`, []string{"Mcp-Session-Id: s_x"}, 404, `"id":7`},
		{"an unknown session's notification", `{"jsonrpc":"2.0","method":"x"}`, []string{"Mcp-Session-Id: s_x"}, 404, "no such session"},
		{"no session", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, nil, 400, "Mcp-Session-Id"},
		{"a notification without a session", `{"jsonrpc":"2.0","method":"x"}`, nil, 202, ""},
		{"a batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, []string{id}, 400, `"id":null,"error":{"code":-32600`},
		{"no JSON", `{`, []string{id}, 400, `"id":null,"error":{"code":-32700`},
		{"no message", `{"jsonrpc":"2.0","id":3}`, []string{id}, 400, `"id":3,"error":{"code":-32600`},
		{"an unknown method", `{"jsonrpc":"2.0","id":3,"method":"x/y"}`, []string{id}, 200, `"code":-32601`},
		{"a bad initialize", `{"jsonrpc":"2.0","id":3,"method":"initialize","params":{"capabilities":[]}}`, nil, 200, `"code":-32602`},
		{"a made-up answer", `{"jsonrpc":"2.0","id":"gate-1","result":{}}`, []string{id}, 202, ""},
		{"a version that is none", `{"jsonrpc":"2.0","id":3,"method":"ping"}`, []string{id, "MCP-Protocol-Version: 1.0"}, 400, `"code":-32022`},
	} {
		if got := s.post(tt.body, tt.headers...); got.status != tt.status || !strings.Contains(got.body, tt.want) {
			t.Errorf("%s: %+v, want %d %s", tt.name, got, tt.status, tt.want)
		}
	}
	if got := s.post("", id, "Method: DELETE"); got.status != 204 {
		t.Errorf("DELETE: %+v", got)
	}
	if !g.opened(0).closed.Load() {
		t.Error("the session was not closed")
	}
	if got := s.post(callLine("1", "echo", `{}`), id); got.status != 404 {
		t.Errorf("after DELETE: %+v", got)
	}
}

func TestProgressAndQuestionOverHTTP(t *testing.T) {
	g := &fakeGate{}
	s := startHTTP(t, g, Options{}, HTTPOptions{})
	id := s.init(formCaps)
	e := s.stream(s.request(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"progress:500","_meta":{"progressToken":"p"}}}`, id))
	for i := range 500 {
		if got, want := e.next(), fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":%d}}`, i+1); got != want {
			t.Fatalf("event %d: %s, want %s", i, got, want)
		}
	}
	if got := e.next(); !strings.Contains(got, `"id":1,"result"`) {
		t.Errorf("answer: %s", got)
	}
	if got := e.next(); got != "" {
		t.Errorf("after the answer: %s", got)
	}

	e = s.stream(s.request(callLine("2", "ask", `{}`), id))
	if got := e.next(); !strings.Contains(got, `"id":"gate-1","method":"elicitation/create"`) {
		t.Fatalf("question: %s", got)
	}
	if got := s.post(`{"jsonrpc":"2.0","id":"gate-1","result":{"action":"accept","content":{"decision":"once"}}}`, id); got.status != 202 || got.body != "" {
		t.Errorf("reply: %+v", got)
	}
	if got := e.next(); !strings.Contains(got, `ran t_ask`) {
		t.Errorf("answer: %s", got)
	}

	// A client that takes no stream cannot be asked, and gets no progress.
	if got := s.post(callLine("3", "canask", `{}`), id, "Accept: application/json"); !strings.Contains(got.body, `"false"`) {
		t.Errorf("canask: %+v", got)
	}
	got := s.post(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"progress:5","_meta":{"progressToken":"p"}}}`, id, "Accept: application/json")
	if got.header.Get("Content-Type") != "application/json" || !strings.Contains(got.body, `"id":4`) {
		t.Errorf("progress: %+v", got)
	}
	// One that takes nothing else gets a stream.
	if got := s.stream(s.request(callLine("5", "echo", `{}`), id, "Accept: text/event-stream")).next(); !strings.Contains(got, `"id":5`) {
		t.Errorf("stream: %s", got)
	}
}

func TestCancelOverHTTP(t *testing.T) {
	g := &fakeGate{}
	s := startHTTP(t, g, Options{}, HTTPOptions{})
	id := s.init(`{}`)
	ses := g.opened(0)

	// By a notification: the request ends without an answer.
	done := make(chan answer, 1)
	r := s.request(callLine("1", "hold", `{}`), id)
	go func() { done <- s.do(r) }()
	<-ses.started
	s.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, id)
	if got := <-done; got.body != "" || got.status != 204 {
		t.Errorf("cancelled: %+v", got)
	}
	if got := <-ses.started; got != "cancelled" {
		t.Errorf("the call says %q", got)
	}

	// By leaving: the call's context ends, and the id is free again.
	ctx, leave := context.WithCancel(t.Context())
	r = s.request(callLine("1", "hold", `{}`), id).WithContext(ctx)
	gone := make(chan error, 1)
	go func() {
		_, err := s.client.Do(r)
		gone <- err
	}()
	<-ses.started
	if got := s.post(callLine("1", "echo", `{}`), id); !strings.Contains(got.body, "-32600") {
		t.Errorf("id in flight twice: %+v", got)
	}
	leave()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("Do: %v", err)
	}
	waitFor(t, "the call to end", func() bool {
		got := s.post(callLine("1", "echo", `{}`), id)
		return !strings.Contains(got.body, "-32600")
	})
}

// waitFor tries again until ok; each try takes a round trip, so it is no spin.
func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if ok() {
			return
		}
	}
	t.Fatalf("waited in vain for %s", what)
}

func TestModernOverHTTP(t *testing.T) {
	const call = `"name":"echo","arguments":{}`
	tests := []struct {
		name, method, params, capabilities string
		headers                            []string
		status                             int
		want                               string
	}{
		{"discover", "server/discover", "", `{}`, nil, 200, `"supportedVersions":["2026-07-28",`},
		{"list", "tools/list", "", `{}`, nil, 200, `"ttlMs":300000,"cacheScope":"private"`},
		{"call", "tools/call", call, `{}`, nil, 200, `"resultType":"complete"`},
		{"an error of a call", "tools/call", `"name":"error"`, `{}`, nil, 200, `-32010`},
		{"an unknown tool", "tools/call", `"name":"nosuch"`, `{}`, nil, 200, `-32602`},
		{"an unknown method", "unknown/method", "", `{}`, nil, 404, `"id":1,"error":{"code":-32601`},
		{"ping is gone", "ping", "", `{}`, nil, 404, `-32601`},
		{"initialize is gone", "initialize", "", `{}`, nil, 404, `-32601`},
		{"setLevel is gone", "logging/setLevel", "", `{}`, nil, 404, `-32601`},
		{"no version header", "tools/list", "", `{}`, []string{"MCP-Protocol-Version: "}, 400, `"id":1,"error":{"code":-32020`},
		{"another version in the header", "tools/list", "", `{}`, []string{"MCP-Protocol-Version: 2025-11-25"}, 400, `-32020`},
		{"an unknown version in the header", "tools/list", "", `{}`, []string{"MCP-Protocol-Version: v9"}, 400, `-32020`},
		{"capabilities of the wrong shape", "tools/list", "", `[]`, nil, 400, `-32602`},
		{"no method header", "tools/list", "", `{}`, []string{"Mcp-Method: "}, 400, `-32020`},
		{"another method", "tools/list", "", `{}`, []string{"Mcp-Method: prompts/list"}, 400, `-32020`},
		{"the method in capitals", "tools/list", "", `{}`, []string{"Mcp-Method: TOOLS/LIST"}, 400, `-32020`},
		{"a header in another case", "tools/list", "", `{}`, []string{"Mcp-Method: ", "MCP-METHOD: tools/list"}, 200, `"tools"`},
		{"no name", "tools/call", call, `{}`, []string{"Mcp-Name: "}, 400, `-32020`},
		{"another name", "tools/call", call, `{}`, []string{"Mcp-Name: other"}, 400, `-32020`},
		{"space around the name", "tools/call", call, `{}`, []string{"Mcp-Name:   echo  "}, 200, `"complete"`},
		{"the name in base64", "tools/call", call, `{}`, []string{"Mcp-Name: =?base64?ZWNobw==?="}, 200, `"complete"`},
		{"broken base64", "tools/call", call, `{}`, []string{"Mcp-Name: =?base64?ZWNobw?="}, 400, `-32020`},
		{"raw bytes", "tools/call", call, `{}`, []string{"Mcp-Name: \xe9cho"}, 400, `-32020`},
		{"a session id means nothing", "tools/list", "", `{}`, []string{"Mcp-Session-Id: s_x"}, 200, `"tools"`},
		{"a marked parameter", "tools/call", `"name":"sql","arguments":{"region":"eu","at":{"row":42}}`, `{}`, []string{"Mcp-Param-Region: eu", "Mcp-Param-Row: 42.0"}, 200, `"complete"`},
		{"a marked parameter in base64", "tools/call", `"name":"sql","arguments":{"region":"eu"}`, `{}`, []string{"Mcp-Param-Region: =?base64?ZXU=?="}, 200, `"complete"`},
		{"a marked parameter that differs", "tools/call", `"name":"sql","arguments":{"region":"eu"}`, `{}`, []string{"Mcp-Param-Region: us"}, 400, `-32020`},
		{"a marked parameter without header", "tools/call", `"name":"sql","arguments":{"region":"eu"}`, `{}`, nil, 400, `-32020`},
		{"a null parameter has none", "tools/call", `"name":"sql","arguments":{"region":null,"at":{"dry":true}}`, `{}`, []string{"Mcp-Param-Dry: true"}, 200, `"complete"`},
		{"a header without parameter", "tools/call", `"name":"sql","arguments":{"at":7}`, `{}`, []string{"Mcp-Param-Row: 7"}, 400, `-32020`},
		{"a number that is none", "tools/call", `"name":"sql","arguments":{"at":{"row":42}}`, `{}`, []string{"Mcp-Param-Row: x"}, 400, `-32020`},
		{"a parameter that is not marked", "tools/call", call, `{}`, []string{"Mcp-Param-Region: us"}, 200, `"complete"`},
	}
	g := &fakeGate{}
	s := startHTTP(t, g, Options{}, HTTPOptions{})
	for _, tt := range tests {
		got := s.modern(tt.method, tt.params, tt.capabilities, tt.headers...)
		if got.status != tt.status || !strings.Contains(got.body, tt.want) {
			t.Errorf("%s: %d %s, want %d %s", tt.name, got.status, got.body, tt.status, tt.want)
		}
		if got.header.Get("Mcp-Session-Id") != "" {
			t.Errorf("%s: a session id was given out", tt.name)
		}
	}
	for _, tt := range []struct {
		name, params string
		headers      []string
		want         string
	}{
		{"no _meta", ``, []string{"MCP-Protocol-Version: 2026-07-28"}, `-32602`},
		{"no version in _meta", `"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}`, []string{"MCP-Protocol-Version: 2026-07-28"}, `-32602`},
		{"an unknown version", `"_meta":{"io.modelcontextprotocol/protocolVersion":"v999.0.0"}`, []string{"MCP-Protocol-Version: v999.0.0"}, `"requested":"v999.0.0"`},
		{"an unknown version in the header only", ``, []string{"MCP-Protocol-Version: v999.0.0"}, `-32022`},
		{"_meta is no object", `"_meta":1`, []string{"MCP-Protocol-Version: 2026-07-28"}, `-32602`},
	} {
		body := `{"jsonrpc":"2.0","id":101,"method":"server/discover","params":{` + tt.params + `}}`
		if got := s.post(body, append(tt.headers, "Mcp-Method: server/discover")...); got.status != 400 || !strings.Contains(got.body, tt.want) || !strings.Contains(got.body, `"id":101`) {
			t.Errorf("%s: %+v, want 400 %s", tt.name, got, tt.want)
		}
	}
	for _, verb := range []string{"GET", "DELETE"} {
		if got := s.post("", "Method: "+verb, "MCP-Protocol-Version: 2026-07-28"); got.status != 405 || got.header.Get("Allow") == "" {
			t.Errorf("%s: %+v", verb, got)
		}
	}
}

func TestModernSessionIsTokenAndProfile(t *testing.T) {
	g := &fakeGate{}
	s := startHTTP(t, g, Options{}, HTTPOptions{})
	for _, headers := range [][]string{
		nil, nil, {"Path: /mcp/p/work"}, {"Path: /mcp/p/work"}, {"Authorization: Bearer server"}, {"Authorization: Bearer laptop-2"}, nil,
	} {
		if got := s.modern("tools/call", `"name":"echo"`, `{}`, headers...); got.status != 200 {
			t.Fatalf("%v: %+v", headers, got)
		}
	}
	for i, want := range []struct {
		principal, profile string
		calls              int64
	}{{"laptop", "", 3}, {"laptop", "work", 2}, {"server", "", 1}, {"laptop", "", 1}} {
		ses := g.opened(i)
		if ses == nil || ses.who.Principal != want.principal || ses.who.Profile != want.profile || ses.calls.Load() != want.calls {
			t.Errorf("session %d: %+v, want %+v", i, ses, want)
		}
	}
	if g.opened(4) != nil {
		t.Error("a session too many")
	}
}

// TestModernQuestion plays the rounds of a question that a modern client
// carries, and every way in which the sealed state must not be accepted.
func TestModernQuestion(t *testing.T) {
	g := &fakeGate{}
	s := startHTTP(t, g, Options{}, HTTPOptions{})
	const args = `"name":"ask","arguments":{"to":"team","n":3}`
	const yes = `,"inputResponses":{"approval":{"action":"accept","content":{"decision":"once"}}}`
	ask := func(token string) string {
		t.Helper()
		got := s.modern("tools/call", args, formCaps, "Authorization: Bearer "+token)
		var m struct {
			Result struct {
				ResultType   string                             `json:"resultType"`
				Requests     map[string]struct{ Method string } `json:"inputRequests"`
				RequestState string                             `json:"requestState"`
			} `json:"result"`
		}
		if err := json.Unmarshal([]byte(got.body), &m); err != nil || got.status != 200 ||
			m.Result.ResultType != "input_required" || m.Result.Requests["approval"].Method != "elicitation/create" {
			t.Fatalf("question: %v %+v", err, got)
		}
		return m.Result.RequestState
	}
	state := ask("laptop")
	with := func(state string) string { return `,"requestState":"` + state + `"` }
	broken := []byte(state)
	broken[20] ^= 1
	tests := []struct{ name, params, token, want string }{
		{"a changed state", args + with(string(broken)) + yes, "laptop", "not one that this gate gave out"},
		{"no base64", args + with("!") + yes, "laptop", "not one that this gate gave out"},
		{"changed arguments", `"name":"ask","arguments":{"to":"all","n":3}` + with(state) + yes, "laptop", "name or arguments differ"},
		{"a number of another spelling", `"name":"ask","arguments":{"to":"team","n":3.0}` + with(state) + yes, "laptop", "name or arguments differ"},
		{"no arguments", `"name":"ask"` + with(state) + yes, "laptop", "name or arguments differ"},
		{"another tool", `"name":"echo","arguments":{"to":"team","n":3}` + with(state) + yes, "laptop", "name or arguments differ"},
		{"another principal", args + with(state) + yes, "server", "another principal"},
		{"no answer asks again", args + with(state), "laptop", "input_required"},
		{"an answer of another name asks again", args + with(state) + `,"inputResponses":{"other":{"action":"accept"}}`, "laptop", "input_required"},
		{"an answer without state asks", args + yes, "laptop", "input_required"},
		{"a state that is no string", args + `,"requestState":{}` + yes, "laptop", "-32602"},
		{"the same in another order and spacing runs", `"name":"ask","arguments":{ "n":3,"to":"te\u0061m" }` + with(state) + yes, "laptop-2", "ran t_ask"},
		{"a replay runs nothing", args + with(state) + yes, "laptop", "ticket used"},
	}
	for _, tt := range tests {
		got := s.modern("tools/call", tt.params, formCaps, "Authorization: Bearer "+tt.token)
		if got.status != 200 || !strings.Contains(got.body, tt.want) {
			t.Errorf("%s: %+v, want %s", tt.name, got, tt.want)
		}
	}
	if got := s.modern("tools/call", args, `{}`); !strings.Contains(got.body, "ticket used") && !strings.Contains(got.body, "not run: no-answer") {
		t.Errorf("a client that cannot be asked was: %+v", got)
	}
}

func TestListenAndGetStreams(t *testing.T) {
	g := &fakeGate{changed: make(chan struct{})}
	s := startHTTP(t, g, Options{}, HTTPOptions{KeepAlive: 20 * time.Millisecond})
	id := s.init(`{}`)
	r := s.request("", id, "Method: GET")
	get := s.stream(r)
	if got := get.next(); got != ": keep-alive" {
		t.Errorf("a quiet stream: %q", got)
	}
	body, headers := modern("subscriptions/listen", `"notifications":{"toolsListChanged":true,"resourcesListChanged":true}`, `{}`)
	listen := s.stream(s.request(body, headers...))
	if got, want := listen.next(), `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1},"notifications":{"toolsListChanged":true}}}`; got != want {
		t.Errorf("acknowledgement: %s", got)
	}
	body, headers = modern("subscriptions/listen", `"notifications":{"promptsListChanged":true}`, `{}`)
	other := s.stream(s.request(body, headers...))
	if got := other.next(); !strings.Contains(got, `"notifications":{}}`) {
		t.Errorf("acknowledgement: %s", got)
	}
	close(g.changed)
	event := func(e *events) string {
		for {
			if got := e.next(); !strings.HasPrefix(got, ":") {
				return got
			}
		}
	}
	if got, want := event(get), `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`; got != want {
		t.Errorf("GET stream: %s", got)
	}
	if got, want := event(listen), `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}`; got != want {
		t.Errorf("listen stream: %s", got)
	}
	s.stop() // ends all streams, the modern ones with an answer
	if got := event(get); got != "" {
		t.Errorf("GET stream: %s", got)
	}
	for _, e := range []*events{listen, other} {
		if got, want := event(e), `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":1,"io.modelcontextprotocol/serverInfo":{"name":"fake","version":"0"}}}}`; got != want {
			t.Errorf("end: %s", got)
		}
	}
}

func TestLongCallBecomesAStream(t *testing.T) {
	g := &fakeGate{}
	s := startHTTP(t, g, Options{}, HTTPOptions{KeepAlive: time.Millisecond})
	id := s.init(`{}`)
	r := s.request(callLine("1", "hold", `{}`), id)
	e := s.stream(r)
	if got := e.next(); got != ": keep-alive" {
		t.Errorf("got %q", got)
	}
	close(g.opened(0).gate)
	for {
		got := e.next()
		if got == ": keep-alive" {
			continue
		}
		if !strings.Contains(got, `"id":1,"result"`) {
			t.Errorf("got %q", got)
		}
		return
	}
}

// TestMarkedParametersChangeWithTheList has a session whose first list was
// given too early.
func TestMarkedParametersChangeWithTheList(t *testing.T) {
	g := &fakeGate{changed: make(chan struct{})}
	s := startHTTP(t, g, Options{}, HTTPOptions{})
	const call = `"name":"echo","arguments":{"n":1}`
	if got := s.modern("tools/call", call, `{}`); got.status != 200 {
		t.Errorf("before: %d %s", got.status, got.body)
	}
	close(g.changed)
	if got := s.modern("tools/call", call, `{}`); got.status != 400 || !strings.Contains(got.body, "Mcp-Param-N is missing") {
		t.Errorf("without the header: %d %s", got.status, got.body)
	}
	if got := s.modern("tools/call", call, `{}`, "Mcp-Param-N: 1"); got.status != 200 {
		t.Errorf("with it: %d %s", got.status, got.body)
	}
}

// TestACallerGivesUpWhileAListIsMade has two calls wait for one list.
func TestACallerGivesUpWhileAListIsMade(t *testing.T) {
	ses := &fakeSession{g: &fakeGate{}, who: gate.Identity{Client: "waits"}, started: make(chan string, 2)}
	var ph paramHeaders
	first, end := context.WithCancel(t.Context())
	defer end()
	done := make(chan error)
	go func() {
		_, err := ph.of(first, ses)
		done <- err
	}()
	<-ses.started
	second, leave := context.WithCancel(t.Context())
	leave()
	if _, err := ph.of(second, ses); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	end()
	<-done
}

func TestIdleSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &fakeGate{}
		h := New(g, [32]byte{}, Options{}).HTTP(HTTPOptions{})
		defer h.Close()
		c := caller{who: gate.Identity{Principal: "laptop"}}
		s := h.sessions.add(c, func() *conn { return h.newConn(c.who) })
		shared := h.sessions.share(c, func() *conn { return h.newConn(c.who) })
		for _, s := range []*session{s, shared} {
			if _, err := s.session(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(24 * time.Hour) // both are in use: a stream may be open all day
		h.sessions.release(shared)
		h.sessions.release(s)
		time.Sleep(29 * time.Minute)
		if h.sessions.find(s.name, c) != s {
			t.Fatal("a session ended before its time")
		}
		h.sessions.release(s)
		time.Sleep(29 * time.Minute) // since it was used last
		synctest.Wait()
		if !g.opened(1).closed.Load() || g.opened(0).closed.Load() {
			t.Errorf("closed: legacy %v, modern %v; want only the modern one", g.opened(0).closed.Load(), g.opened(1).closed.Load())
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if !g.opened(0).closed.Load() || h.sessions.find(s.name, c) != nil {
			t.Error("an idle session did not end")
		}
		if again := h.sessions.share(c, func() *conn { return h.newConn(c.who) }); again == nil || again == shared {
			t.Error("no new session after the idle one")
		}
	})
}

func TestTooManySessions(t *testing.T) {
	s := startHTTP(t, &fakeGate{}, Options{}, HTTPOptions{MaxSessions: 1})
	id := s.init(`{}`)
	if got := s.post(fmt.Sprintf(legacyInit, `{}`)); got.status != 503 || !strings.Contains(got.body, "too many sessions") {
		t.Errorf("second: %+v", got)
	}
	s.post("", id, "Method: DELETE")
	s.init(`{}`)
}

// TestOneTokensSessions: a token that opens sessions without end costs its own,
// the one left unused for longest first, and never one that is in use.
func TestOneTokensSessions(t *testing.T) {
	g := &fakeGate{}
	s := startHTTP(t, g, Options{}, HTTPOptions{MaxSessions: 4, PerToken: 2})
	status := func(id string, headers ...string) int {
		return s.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, append(headers, id)...).status
	}
	first, second := s.init(`{}`), s.init(`{}`)
	status(first) // now second is the one unused for longest
	third := s.init(`{}`)
	if a, b, c := status(first), status(second), status(third); a != 200 || b != 404 || c != 200 {
		t.Errorf("statuses %d, %d, %d, want the second to be gone", a, b, c)
	}
	if !g.opened(1).closed.Load() {
		t.Error("what a further one replaced was not closed")
	}
	var using sync.WaitGroup
	for n, id := range []string{first, third} {
		using.Go(func() { s.post(callLine("2", "hold", `{}`), id) })
		<-g.opened(2 * n).started
	}
	if got := s.post(fmt.Sprintf(legacyInit, `{}`)); got.status != 503 || !strings.Contains(got.body, "end one with DELETE") {
		t.Errorf("a third while two are in use: %+v", got)
	}
	if got := s.post(fmt.Sprintf(legacyInit, `{}`), "Authorization: Bearer build"); got.status != 200 {
		t.Errorf("another token: %+v", got)
	}
	close(g.opened(0).gate)
	close(g.opened(2).gate)
	using.Wait()
}

func TestInitializeThatFailsLeavesNoSession(t *testing.T) {
	g := &fakeGate{refuse: errors.New("home is locked")}
	s := startHTTP(t, g, Options{}, HTTPOptions{MaxSessions: 1})
	for range 2 {
		got := s.post(fmt.Sprintf(legacyInit, `{}`))
		if got.status != 200 || !strings.Contains(got.body, "home is locked") || got.header.Get("Mcp-Session-Id") != "" {
			t.Errorf("got %+v", got)
		}
	}
}

func TestBodyBehindAByteOrderMark(t *testing.T) {
	s := startHTTP(t, &fakeGate{}, Options{}, HTTPOptions{})
	if a := s.post("\ufeff" + fmt.Sprintf(legacyInit, `{}`)); a.status != 200 || !strings.Contains(a.body, `"serverInfo"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := s.post("\ufeff\ufeff" + fmt.Sprintf(legacyInit, `{}`)); a.status != 400 {
		t.Errorf("two marks: %d %s", a.status, a.body)
	}
}

func TestOversizeBody(t *testing.T) {
	s := startHTTP(t, &fakeGate{}, Options{MaxMessage: 1000}, HTTPOptions{})
	big := callLine("1", "echo", `{"x":"`+strings.Repeat("y", 2000)+`"}`)
	if got := s.post(big); got.status != 413 || !strings.Contains(got.body, fmt.Sprintf("message of %d bytes is over the limit of 1000 bytes", len(big))) {
		t.Errorf("known length: %+v", got)
	}
	r := s.request("")
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(big)), -1
	if got := s.do(r); got.status != 413 || !strings.Contains(got.body, "message of more than 1000 bytes is over the limit of 1000 bytes") {
		t.Errorf("unknown length: %+v", got)
	}
	s.init(`{}`)
}

func TestSlowClients(t *testing.T) {
	const short = 20 * time.Millisecond // a busy machine may take longer for all that does come
	for _, tt := range []struct {
		name, token, rest, want string
		o                       HTTPOptions
	}{
		{"in the headers", "laptop", "", "", HTTPOptions{HeaderTimeout: short}},
		{"in the body", "laptop", "Content-Length: 100\r\n\r\n{", "408", HTTPOptions{HeaderTimeout: time.Minute, BodyTimeout: short}},
		{"in a refused body", "forged", "Content-Length: 100\r\n\r\n{", "401", HTTPOptions{HeaderTimeout: time.Minute, BodyTimeout: short}},
	} {
		s := startHTTP(t, &fakeGate{}, Options{}, tt.o)
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n%s", s.addr, tt.token, tt.rest)
		got, err := io.ReadAll(c)                                                              // ends when the gate hangs up
		if errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(string(got), tt.want) { // what came too late may reset the connection
			t.Errorf("slow %s: %q, %v", tt.name, got, err)
		}
	}
}

func TestConcurrentCallsDoNotMixUp(t *testing.T) {
	const clients = 1000
	g := &fakeGate{}
	s := startHTTP(t, g, Options{}, HTTPOptions{})
	sessions := []string{s.init(`{}`), s.init(`{}`, "Authorization: Bearer server")}
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			nonce := fmt.Sprintf("nonce-%d", i)
			var got answer
			switch i % 3 {
			case 0: // the same ids in two legacy sessions
				got = s.post(callLine(fmt.Sprint(i), "echo", `{"nonce":"`+nonce+`"}`), sessions[0])
			case 1:
				got = s.post(callLine(fmt.Sprint(i-1), "echo", `{"nonce":"`+nonce+`"}`), sessions[1], "Authorization: Bearer server")
			case 2: // the same id in all
				got = s.modern("tools/call", `"name":"echo","arguments":{"nonce":"`+nonce+`"}`, `{}`)
			}
			if got.status != 200 || !strings.Contains(got.body, `{\"nonce\":\"`+nonce+`\"}`) {
				t.Errorf("call %d: %+v", i, got)
			}
		})
	}
	wg.Wait()
}

func TestFiveQuestionsOverHTTPDelayNobody(t *testing.T) {
	s := startHTTP(t, &fakeGate{}, Options{}, HTTPOptions{})
	id := s.init(formCaps)
	var asked []*events
	for i := range 5 {
		e := s.stream(s.request(callLine(fmt.Sprint(i), "ask", `{}`), id))
		e.next()
		asked = append(asked, e)
	}
	if got := s.post(callLine("6", "echo", `{}`), id); got.status != 200 {
		t.Errorf("sixth: %+v", got)
	}
	for i, e := range asked {
		s.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":"gate-%d","result":{"action":"cancel"}}`, i+1), id)
		if got := e.next(); !strings.Contains(got, fmt.Sprintf(`"id":%d,"result"`, i)) {
			t.Errorf("call %d: %s", i, got)
		}
	}
}

func TestStopOverHTTP(t *testing.T) {
	g := &fakeGate{}
	s := startHTTP(t, g, Options{Grace: 20 * time.Millisecond}, HTTPOptions{})
	id := s.init(`{}`)
	done := make(chan answer, 1)
	r := s.request(callLine("1", "hold", `{}`), id)
	go func() { done <- s.do(r) }()
	<-g.opened(0).started
	s.stop()
	if got := <-done; !strings.Contains(got.body, `"text":"cancelled"`) {
		t.Errorf("a call over the grace: %+v", got)
	}
	waitFor(t, "the session to close", g.opened(0).closed.Load)
}

func TestListenRefusesOtherAddresses(t *testing.T) {
	for addr, ok := range map[string]bool{"127.0.0.1:0": true, ":0": true, "localhost:0": true, "0.0.0.0:0": false, "192.0.2.1:0": false, "example.com:0": false, "x": false} {
		ln, err := Listen(t.Context(), addr, false)
		if (err == nil) != ok {
			t.Errorf("Listen(%q): %v", addr, err)
		}
		if ln != nil {
			if !ln.Addr().(*net.TCPAddr).IP.IsLoopback() {
				t.Errorf("Listen(%q) listens on %v", addr, ln.Addr())
			}
			ln.Close()
		}
	}
}

func TestLargeResultOverHTTP(t *testing.T) {
	s := startHTTP(t, &fakeGate{}, Options{}, HTTPOptions{})
	id := s.init(`{}`)
	big := `{"blob":"` + strings.Repeat("0123456789abcdef", 1<<18) + `"}`
	got := s.post(callLine("1", "raw", big), id)
	if want := `{"jsonrpc":"2.0","id":1,"result":` + big + `}`; !bytes.Equal([]byte(got.body), []byte(want)) {
		t.Errorf("%d bytes, want %d", len(got.body), len(want))
	}
}

func TestLargeMessagesSideBySideAreBounded(t *testing.T) {
	s := startHTTP(t, &fakeGate{}, Options{ClientBytes: 1000}, HTTPOptions{})
	notice := `{"jsonrpc":"2.0","method":"n","params":{"x":"` + strings.Repeat("y", 500) + `"}}`
	slow, end := io.Pipe()
	first := s.request("")
	first.Body = slow
	answered := make(chan int, 1)
	go func() {
		res, err := s.client.Do(first)
		if err != nil {
			answered <- 0
			return
		}
		_ = res.Body.Close()
		answered <- res.StatusCode
	}()
	_, _ = io.WriteString(end, notice+strings.Repeat(" ", 400)) // its end is still to come
	waitFor(t, "the first message", func() bool {               // which would be refused beside one that is there before it
		s.h.bodies.mu.Lock()
		defer s.h.bodies.mu.Unlock()
		for _, held := range s.h.bodies.held {
			return held == int64(len(notice))+400
		}
		return false
	})
	until := func(status int) answer {
		t.Helper()
		for late := time.Now().Add(time.Minute); ; {
			if a := s.post(notice); a.status == status {
				return a
			} else if time.Now().After(late) {
				t.Fatalf("status %d: %s", a.status, a.body)
			}
		}
	}
	if a := until(http.StatusTooManyRequests); !strings.Contains(a.body, "1000 bytes") {
		t.Errorf("it says %s", a.body)
	}
	if a := s.post(notice, "Authorization: Bearer server"); a.status != http.StatusAccepted {
		t.Errorf("another token: status %d: %s", a.status, a.body)
	}
	_ = end.Close()
	if status := <-answered; status != http.StatusAccepted {
		t.Errorf("the first message: status %d", status)
	}
	until(http.StatusAccepted)
}
