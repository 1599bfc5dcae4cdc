package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
)

// TestConformance runs the protocol's own suite through the gate, with the Go
// SDK's fixture server behind it: each revision against a server that speaks
// it, where every required scenario must pass, and across the two, where what
// cannot be is on a list with its reason.
func TestConformance(t *testing.T) {
	tests := []struct {
		name, revision, baseline string
		fixture                  []string // its flags; nil for stdio
		connection               string   // "" is shared
	}{
		{"2025-11-25 over stdio", "2025-11-25", "", nil, ""},
		{"2025-11-25 over HTTP", "2025-11-25", "", []string{"-stateless=false"}, ""},
		{"2026-07-28 over HTTP", "2026-07-28", "", []string{"-stateless=true"}, ""},
		{"a modern client and a legacy server", "2026-07-28", "modern-client-legacy-server.txt", nil, ""},
		{"a legacy client and a modern server", "2025-11-25", "legacy-client-modern-server.txt", []string{"-stateless=true"}, ""},
		{"2025-11-25, a process for each session", "2025-11-25", "", nil, "session"},
		{"2026-07-28 over HTTP, a connection for each session", "2026-07-28", "", []string{"-stateless=true"}, "session"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := map[string]any{"command": built.gosdk}
			if tt.fixture != nil {
				server = map[string]any{"url": fixture(t, tt.fixture...)}
			}
			if tt.connection != "" {
				server["connection"] = tt.connection
			}
			// Its tools are named for what the suite tests, not for what they do.
			server["tools"] = map[string]any{"*": map[string]string{"permission": "read", "egress": "metadata"}}
			url, token := serveHTTP(t, home(t, map[string]any{
				"mcpServers": map[string]any{"fixture": server},
				"policy":     map[string]any{"egress": []string{"metadata", "aggregates", "row_level", "rendered_pixels", "raw_pixels"}},
			}))
			conform(t, withToken(t, url, token), tt.revision, tt.baseline)
		})
	}
}

// TestTasks runs the suite's scenarios of the tasks extension, with a server behind the
// gate that answers calls with tasks. No revision requires them.
func TestTasks(t *testing.T) {
	server := filepath.Join(t.TempDir(), "tasking")
	if out, err := exec.Command("go", "build", "-o", server, "./tasking").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	url, token := serveHTTP(t, home(t, map[string]any{
		"mcpServers": map[string]any{"tasking": map[string]any{
			"command": server, "tools": map[string]any{"*": map[string]string{"permission": "read", "egress": "metadata"}},
		}},
	}))
	url = withToken(t, url, token)
	tests := map[string]string{ // what fails, and why
		"tasks-lifecycle": "", "tasks-capability-negotiation": "", "tasks-wire-fields": "", "tasks-request-state-removal": "",
		"tasks-mrtr-input": "", "tasks-request-headers": "", "tasks-dispatch-and-envelope": "", "tasks-status-notifications": "",
		"tasks-mrtr-composition": "",
		// The gate waits for the task of a client that takes none, instead of refusing.
		"tasks-required-task-error": "sep-2663-server-returns-missing-capability-when-required",
	}
	for scenario, want := range tests {
		t.Run(scenario, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			results := t.TempDir()
			out, _ := exec.CommandContext(ctx, built.node, suite, "server", "--url", url, "--scenario", scenario, "--output-dir", results).CombinedOutput()
			failed := failures(t, results, true)
			if reason, fails := failed[want]; fails {
				t.Log(reason)
				delete(failed, want)
			} else if want != "" {
				t.Errorf("%s passes now", want)
			}
			if len(failed) > 0 || !bytes.Contains(out, []byte("Passed:")) {
				t.Errorf("%v\n%s", failed, out)
			}
		})
	}
}

// suite is the program of the protocol's own tests.
var suite = filepath.Join("node_modules", "@modelcontextprotocol", "conformance", "dist", "index.js")

// conform runs the suite of a revision against a server. Without a baseline
// every required scenario must pass; with one, what fails is on it.
func conform(t *testing.T, url, revision, baseline string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	results := t.TempDir()
	out, err := exec.CommandContext(ctx, built.node, suite, "server", "--url", url, "--requirements", revision, "--output-dir", results).CombinedOutput()
	total := regexp.MustCompile(`Total: [1-9][0-9]+ passed.*`).FindString(string(out))
	if total == "" {
		t.Fatalf("the suite of %s did not run: %v\n%s", revision, err, out)
	}
	t.Log(total)
	failed := failures(t, results, false)
	if baseline == "" {
		if err != nil {
			t.Errorf("the suite of %s: %v\n%v", revision, err, failed)
		}
		return
	}
	raw, err := os.ReadFile(filepath.Join("testdata", baseline))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		when, rest, _ := strings.Cut(line, " ")
		check, _, _ := strings.Cut(rest, " ")
		if _, fails := failed[check]; !fails && when == "always" {
			t.Errorf("%s passes now: take it off the list", check)
		}
		delete(failed, check)
	}
	for check, why := range failed {
		t.Errorf("%s: %s", check, why)
	}
}

// failures are the checks of a run that failed, with what they say. Those of
// the tasks extension count where it is what was asked for: no revision requires
// them, and the fixture of the others has none.
func failures(t *testing.T, results string, tasks bool) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(results, "*", "checks.json"))
	if err != nil {
		t.Fatal(err)
	}
	failed := map[string]string{}
	for _, file := range files {
		scenario := filepath.Base(filepath.Dir(file))
		if !tasks && strings.HasPrefix(scenario, "server-tasks-") {
			continue
		}
		var checks []struct{ ID, Status, ErrorMessage string }
		raw, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(raw, &checks)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range checks {
			if c.Status == "FAILURE" {
				failed[c.ID] = scenario + ": " + c.ErrorMessage
			}
		}
	}
	return failed
}

// fixture starts the Go SDK's server on HTTP and returns its URL once somebody
// listens there. The port was free a moment before: who else may have taken it is
// got out of the way of.
func fixture(t *testing.T, flags ...string) (url string) {
	t.Helper()
	until(t, "fixture that listens", func() (ok bool) {
		url, ok = tryFixture(t, flags)
		return ok
	})
	return url
}

func tryFixture(t *testing.T, flags []string) (url string, ok bool) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	free.Close()
	cmd := exec.Command(built.gosdk, append([]string{"-http", addr}, flags...)...)
	logged, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, logged) // it says that it listens just before it does
		_ = cmd.Wait()                     // killed, which is no news
		logged.Close()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	until(t, "fixture that listens or has ended", func() bool {
		select {
		case <-ended:
			return true
		default:
		}
		c, err := net.Dial("tcp", addr)
		if ok = err == nil; ok {
			c.Close()
		}
		return ok
	})
	return "http://" + addr + "/mcp", ok
}

// serveHTTP starts a gate that shows its one server as it is, and returns its
// URL and token.
func serveHTTP(t *testing.T, home string) (url, token string) {
	t.Helper()
	url, token, _ = startHTTP(t, home, "--exposure", "transparent")
	return url, token
}

// startHTTP starts a gate on HTTP; it is ended with the test at the latest.
func startHTTP(t *testing.T, home string, args ...string) (url, token string, gate *os.Process) {
	t.Helper()
	cmd := exec.Command(built.gate, append([]string{"--home", home, "--log-level", "warn", "serve", "--http", "127.0.0.1:0"}, args...)...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var rest bytes.Buffer
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		<-done
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the gate said:\n%s", rest.String())
		}
	})
	lines := bufio.NewReader(stderr)
	for url == "" || token == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			close(done)
			t.Fatalf("the gate did not begin to listen: %v\n%s", err, rest.String())
		}
		rest.WriteString(line)
		line = strings.TrimSpace(line)
		if _, at, ok := strings.Cut(line, "listening on "); ok {
			url = at
		} else if line != "" && !strings.ContainsAny(line, " {") {
			token = line
		}
	}
	go func() {
		defer close(done)
		_, _ = io.Copy(&rest, lines)
	}()
	return url, token, cmd.Process
}

// withToken is a reverse proxy that adds the token, which the suite cannot
// send. A host or origin that is not the proxy's own stays as it is: the gate
// has to refuse it.
func withToken(t *testing.T, url, token string) string {
	t.Helper()
	gate := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp")
	var self string
	forward := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = "http", gate
		r.Out.Host = strings.Replace(r.In.Host, self, gate, 1)
		if origin := r.In.Header.Get("Origin"); origin != "" {
			r.Out.Header.Set("Origin", strings.Replace(origin, self, gate, 1))
		}
		r.Out.Header.Set("Authorization", "Bearer "+token)
	}, ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
		http.Error(w, err.Error(), http.StatusBadGateway)
	}}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// An answer that comes while the body is still being forwarded would
		// end both: net/http does not read on once it writes.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	self = strings.TrimPrefix(proxy.URL, "http://")
	return proxy.URL + "/mcp"
}

// TestAModernServersInputIsAskedOfALegacyClient runs what the suite cannot: it
// has no legacy scenario for tools that ask for input in their result.
func TestAModernServersInputIsAskedOfALegacyClient(t *testing.T) {
	dir := home(t, map[string]any{
		"mcpServers": map[string]any{"fixture": map[string]any{
			"url": fixture(t, "-stateless=true"), "tools": map[string]any{"*": map[string]string{"permission": "read", "egress": "metadata"}},
		}},
	})
	c := connect(t, `{"elicitation":{},"sampling":{},"roots":{}}`, built.gate, "--home", dir, "--log-level", "warn", "serve", "--exposure", "transparent")
	answers := map[string]string{
		"elicitation/create":     `{"action":"accept","content":{"name":"Ann","color":"red"}}`,
		"sampling/createMessage": `{"role":"assistant","model":"m","content":{"type":"text","text":"Paris"}}`,
	}
	tests := []struct{ method, name, want string }{
		{"tools/call", "test_input_required_result_elicitation", "Hello, Ann!"},
		{"tools/call", "test_input_required_result_sampling", "Sampling response: Paris"},
		{"tools/call", "test_input_required_result_list_roots", "Client exposed 0 root(s)"},
		{"tools/call", "test_input_required_result_request_state", "state-ok"},
		{"tools/call", "test_input_required_result_multiple_inputs", "Paris Ann"},
		{"tools/call", "test_input_required_result_multi_round", "Multi-round complete: Ann likes red"},
		{"prompts/get", "test_input_required_result_prompt", `"messages"`},
	}
	for _, tt := range tests {
		id := c.send(tt.method, `{"name":"`+tt.name+`"}`)
		for {
			c.next("answer or question", func() bool { _, ok := c.waiting[id]; return ok || len(c.asks) > 0 })
			if len(c.asks) == 0 {
				break
			}
			ask := c.asks[0]
			c.asks = c.asks[1:]
			if ask.Method == "elicitation/create" && !bytes.Contains(ask.Params, []byte(`"message":"[fixture] `)) {
				t.Errorf("%s: the form does not say whose it is: %s", tt.name, ask.Params)
			}
			c.write(jsonrpc.AppendResult(nil, ask.ID, json.RawMessage(answers[ask.Method])))
		}
		if got := string(c.result(id)); !strings.Contains(got, tt.want) || strings.Contains(got, "resultType") {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
