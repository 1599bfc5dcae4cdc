package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// guarded is a tool server that wants a sign-in, and who gives tokens for it.
type guarded struct {
	*httptest.Server

	mu      sync.Mutex
	access  string // the token that counts
	refresh string
	issued  int
	grants  map[string]int // token requests by grant
	codes   map[string]url.Values
	over    bool     // no refresh token counts any more
	seen    []string // every Authorization header that reached it
	waiting int      // calls to hold until there are as many, where it is not 0
	held    int
	all     chan struct{}
}

func newGuarded(t *testing.T) *guarded {
	g := &guarded{grants: map[string]int{}, codes: map[string]url.Values{}, all: make(chan struct{})}
	g.Server = httptest.NewServer(http.HandlerFunc(g.serve))
	t.Cleanup(g.Close)
	return g
}

func (g *guarded) serve(w http.ResponseWriter, r *http.Request) {
	say := func(v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	switch r.URL.Path {
	case "/.well-known/oauth-protected-resource":
		say(map[string]any{"resource": g.URL + "/mcp", "authorization_servers": []string{g.URL}})
	case "/.well-known/oauth-authorization-server":
		say(map[string]any{
			"issuer": g.URL, "authorization_endpoint": g.URL + "/authorize", "token_endpoint": g.URL + "/token",
			"registration_endpoint": g.URL + "/register", "code_challenge_methods_supported": []string{"S256"},
		})
	case "/register":
		w.WriteHeader(http.StatusCreated)
		say(map[string]string{"client_id": "gate", "client_secret": "registered-secret"})
	case "/authorize":
		g.mu.Lock()
		g.codes["code"] = r.URL.Query()
		g.mu.Unlock()
		http.Redirect(w, r, r.URL.Query().Get("redirect_uri")+"?code=code&state="+r.URL.Query().Get("state"), http.StatusFound)
	case "/token":
		g.token(w, r, say)
	case "/mcp":
		g.tool(w, r, say)
	default:
		http.NotFound(w, r)
	}
}

func (g *guarded) token(w http.ResponseWriter, r *http.Request, say func(any)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	grant := r.PostFormValue("grant_type")
	g.grants[grant]++
	id, secret, _ := r.BasicAuth()
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	good := id == "gate" && secret == "registered-secret" && r.PostFormValue("resource") == g.URL+"/mcp"
	if grant == "authorization_code" {
		good = good && g.codes[r.PostFormValue("code")].Get("code_challenge") == base64.RawURLEncoding.EncodeToString(sum[:])
	} else {
		good = good && r.PostFormValue("refresh_token") == g.refresh && !g.over
	}
	if !good {
		w.WriteHeader(http.StatusBadRequest)
		say(map[string]string{"error": "invalid_grant"})
		return
	}
	g.issued++
	g.access, g.refresh = fmt.Sprintf("access-%d", g.issued), fmt.Sprintf("refresh-%d", g.issued)
	say(map[string]any{"access_token": g.access, "refresh_token": g.refresh, "token_type": "Bearer", "expires_in": 3600})
}

func (g *guarded) tool(w http.ResponseWriter, r *http.Request, say func(any)) {
	var m struct {
		ID     json.RawMessage
		Method string
	}
	_ = json.NewDecoder(r.Body).Decode(&m)
	g.mu.Lock()
	got := r.Header.Get("Authorization")
	g.seen = append(g.seen, got)
	good := g.access != "" && got == "Bearer "+g.access
	wait := m.Method == "tools/call" && !good && g.waiting > 0
	if wait {
		if g.held++; g.held == g.waiting {
			close(g.all)
		}
	}
	g.mu.Unlock()
	if wait {
		<-g.all // until as many are refused at once
	}
	if !good {
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	result := map[string]string{
		"initialize": `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"g","version":"1"}}`,
		"tools/list": `{"tools":[{"name":"get_note","description":"Get a note","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}`,
		"tools/call": `{"content":[{"type":"text","text":"the note"}]}`,
	}[m.Method]
	switch {
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case len(m.ID) == 0:
		w.WriteHeader(http.StatusAccepted)
	case result == "":
		say(map[string]any{"jsonrpc": "2.0", "id": m.ID, "error": map[string]any{"code": -32601, "message": "no"}})
	default:
		say(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": json.RawMessage(result)})
	}
}

// gateHome makes a home with one server, and keeps the keychain out of it.
func (g *guarded) gateHome(t *testing.T) string {
	home := filepath.Join(t.TempDir(), "home")
	t.Setenv("MCP_GATE_HOME", home)
	t.Setenv(noKeychainVar, "1")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`{"servers": {"Notes": {"url": %q, "preset": "workbench", "auth": {}}}}`, g.URL+"/mcp")
	if err := os.WriteFile(filepath.Join(home, "config.jsonc"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return home
}

// command runs mcp-gate and returns its exit code and what it printed.
func command(t *testing.T, args ...string) (int, string, string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// login signs in as a person does who copies the address into a browser.
func (g *guarded) login(t *testing.T) {
	t.Helper()
	r, w := io.Pipe()
	done := make(chan int, 1)
	var stdout bytes.Buffer
	go func() {
		code := run(t.Context(), []string{"auth", "login", "notes"}, strings.NewReader(""), &stdout, w)
		_ = w.Close()
		done <- code
	}()
	var said strings.Builder
	for lines := bufio.NewScanner(r); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		said.WriteString(line + "\n")
		if strings.HasPrefix(line, g.URL+"/authorize?") {
			resp, err := http.Get(line)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
		}
	}
	if code := <-done; code != 0 || !strings.Contains(stdout.String(), "Signed in to notes") {
		t.Fatalf("exit %d\n%s%s", code, stdout.String(), said.String())
	}
}

func TestSigningIn(t *testing.T) {
	g := newGuarded(t)
	home := g.gateHome(t)
	if code, _, stderr := command(t, "auth", "status", "notes"); code != exitSignIn || !strings.Contains(stderr, "mcp-gate auth login notes") {
		t.Errorf("status before: exit %d, %s", code, stderr)
	}
	if code, _, stderr := command(t, "call", "notes/get_note"); code != exitSignIn || strings.Count(stderr, "mcp-gate auth login notes") != 1 {
		t.Errorf("a call before: exit %d, %s", code, stderr)
	}
	g.login(t)
	if code, stdout, stderr := command(t, "call", "notes/get_note"); code != 0 || !strings.Contains(stdout, "the note") {
		t.Errorf("a call: exit %d, %s%s", code, stdout, stderr)
	}
	// The token ends before its time: one silent renewal, and nobody notices.
	g.mu.Lock()
	g.access = "revoked"
	g.mu.Unlock()
	if code, stdout, stderr := command(t, "call", "notes/get_note"); code != 0 || !strings.Contains(stdout, "the note") {
		t.Errorf("a call with an ended token: exit %d, %s%s", code, stdout, stderr)
	}
	if g.grants["refresh_token"] != 1 || g.grants["authorization_code"] != 1 {
		t.Errorf("token requests: %v", g.grants)
	}
	code, stdout, _ := command(t, "auth", "status", "--json")
	if code != 0 || !strings.Contains(stdout, `"signed_in": true`) || !strings.Contains(stdout, `"key": "file"`) {
		t.Errorf("status: exit %d, %s", code, stdout)
	}
	// The provider has had enough: a person is needed again, and told how.
	g.mu.Lock()
	g.access, g.over = "revoked", true
	g.mu.Unlock()
	if code, _, stderr := command(t, "call", "notes/get_note"); code != exitSignIn || strings.Count(stderr, "mcp-gate auth login notes") != 1 || strings.Contains(stderr, "unknown") {
		t.Errorf("a call after the end: exit %d, %s", code, stderr)
	}
	g.leaks(t, home)
	if code, stdout, _ := command(t, "auth", "logout", "notes"); code != 0 || !strings.Contains(stdout, "Signed out") {
		t.Errorf("logout: exit %d, %s", code, stdout)
	}
	if code, stdout, _ := command(t, "auth", "logout", "notes"); code != 0 || !strings.Contains(stdout, "no sign-in") {
		t.Errorf("logout again: exit %d, %s", code, stdout)
	}
}

// leaks fails if any file of the home has a token or a secret in the clear.
func (g *guarded) leaks(t *testing.T, home string) {
	t.Helper()
	err := filepath.WalkDir(home, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		for _, secret := range []string{"access-1", "access-2", "refresh-1", "refresh-2", "registered-secret"} {
			if bytes.Contains(data, []byte(secret)) {
				t.Errorf("%s has %s in it", path, secret)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A gate that serves a client: two calls are refused at once, one renewal serves
// both, and no header of anybody else's reaches the server.
func TestTwoCallsRefusedAtOnce(t *testing.T) {
	g := newGuarded(t)
	g.gateHome(t)
	g.login(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	in, toGate := io.Pipe()
	fromGate, out := io.Pipe()
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"serve"}, in, out, io.Discard)
		_ = out.Close()
	}()
	send := func(line string) {
		if _, err := io.WriteString(toGate, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	replies := bufio.NewScanner(fromGate)
	replies.Buffer(nil, 1<<20)
	next := func(id int) string {
		for replies.Scan() {
			if strings.Contains(replies.Text(), fmt.Sprintf(`"id":%d`, id)) {
				return replies.Text()
			}
		}
		t.Fatalf("no answer to %d: %v", id, replies.Err())
		return ""
	}
	const call = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"call_tool_read","arguments":{"name":"notes/get_note","arguments":{}}}}`
	send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	next(1)
	send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	send(fmt.Sprintf(call, 2))
	if got := next(2); !strings.Contains(got, "the note") {
		t.Fatalf("got %s", got)
	}
	g.mu.Lock()
	g.access, g.waiting = "revoked", 2
	g.mu.Unlock()
	send(fmt.Sprintf(call, 3))
	send(fmt.Sprintf(call, 4))
	answers := map[string]string{} // in either order, with notices among them
	for answers["3"] == "" || answers["4"] == "" {
		if !replies.Scan() {
			t.Fatal(replies.Err())
		}
		var m struct{ ID json.RawMessage }
		if err := json.Unmarshal(replies.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		answers[string(m.ID)] = replies.Text()
	}
	for _, id := range []string{"3", "4"} {
		if !strings.Contains(answers[id], "the note") {
			t.Errorf("call %s gives %s", id, answers[id])
		}
	}
	_ = toGate.Close()
	if code := <-done; code != 0 {
		t.Errorf("serve: exit %d", code)
	}
	if g.grants["refresh_token"] != 1 {
		t.Errorf("%d renewals, want 1", g.grants["refresh_token"])
	}
	for _, header := range g.seen {
		if header != "" && header != "Bearer access-1" && header != "Bearer access-2" {
			t.Errorf("the server got %q", header)
		}
	}
}
