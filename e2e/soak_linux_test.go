package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// counter is compiled into the gate's command for a soak, and into no other
// build: on SIGUSR1 it writes down what there is in the process.
const counter = `package main

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
)

func init() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGUSR1)
	go func() {
		for range c {
			debug.FreeOSMemory()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			name := os.Getenv("SOAK_COUNTS")
			_ = os.WriteFile(name+".new", fmt.Appendf(nil, "%d %d", runtime.NumGoroutine(), m.HeapAlloc), 0o600)
			_ = os.Rename(name+".new", name)
		}
	}()
}
`

// counted builds the gate with the counter in it.
func counted(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	source, overlay, out := filepath.Join(dir, "counter.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "mcp-gate")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, "cmd", "mcp-gate", "zz_counter.go"): source}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{source: []byte(counter), overlay: replace} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "build", "-overlay", overlay, "-o", out, "./cmd/mcp-gate")
	cmd.Dir = root
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build a gate that counts: %v\n%s", err, said)
	}
	return out
}

// weight is what a gate has of everything that must come back to where it was.
type weight struct {
	goroutines, descriptors, children int
	heap, resident                    int64
}

func (w weight) String() string {
	return fmt.Sprintf("%d goroutines, %d descriptors, %d children, %.1f MB heap, %.1f MB resident", w.goroutines, w.descriptors, w.children, float64(w.heap)/1e6, float64(w.resident)/1e6)
}

// weigh has a gate count itself.
func (r *rig) weigh(gate *os.Process, counts string) weight {
	r.t.Helper()
	_ = os.Remove(counts) // of the last time
	if err := gate.Signal(syscall.SIGUSR1); err != nil {
		r.t.Fatal(err)
	}
	var w weight
	r.until("count of the gate", func() bool {
		raw, err := os.ReadFile(counts)
		if err != nil {
			return false
		}
		_, err = fmt.Sscanf(string(raw), "%d %d", &w.goroutines, &w.heap)
		return err == nil
	})
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", gate.Pid))
	if err != nil {
		r.t.Fatal(err)
	}
	w.descriptors, w.children = len(fds), len(running(r.runs))
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", gate.Pid))
	if err != nil {
		r.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	_, _ = fmt.Sscanf(rest, "%d kB", &w.resident)
	w.resident *= 1024
	return w
}

// caller is one client over HTTP, with a connection of its own.
type caller struct {
	http       http.Client
	url, token string
	session    string // "" speaks 2026-07-28
}

func (c *caller) send(verb, body string, headers ...string) (string, error) {
	req, err := http.NewRequest(verb, c.url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Authorization", "Bearer "+c.token)
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
		req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		c.session = id
	}
	raw, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("status %d: %s", resp.StatusCode, raw)
	}
	return string(raw), err
}

// open begins the session of an earlier revision.
func (c *caller) open() error {
	_, err := c.send("POST", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"soak","version":"1"}}}`)
	if err == nil {
		_, err = c.send("POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	return err
}

// tally calls a server's tool with a nonce and looks for it in the answer.
func (c *caller) tally(server, nonce string) error {
	call := fmt.Sprintf(`"name":"call_tool_read","arguments":{"name":"%s/tally","arguments":{"nonce":%q}}`, server, nonce)
	body, headers := fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{%s}}`, nonce, call), []string(nil)
	if c.session == "" {
		body = fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"soak","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`, nonce, call)
		headers = []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "call_tool_read"}
	}
	got, err := c.send("POST", body, headers...)
	if err == nil && (!strings.Contains(got, ", "+nonce+`"}`) || !strings.Contains(got, `"id":"`+nonce+`"`)) {
		err = fmt.Errorf("the answer to %s is %.400s", nonce, got)
	}
	return err
}

func (c *caller) close() {
	if c.session != "" {
		_, _ = c.send("DELETE", "") // it ends with the gate at the latest
	}
	c.http.CloseIdleConnections()
}

// Many clients over HTTP, of both eras, call many servers at once: no answer
// goes to another caller, and what the gate holds comes back to where it was.
func TestSoakManyClientsOverHTTP(t *testing.T) {
	clients, servers, long := 60, 5, 3*time.Second
	if soaking() {
		clients, servers, long = 1000, 50, 2*time.Minute
	}
	r := newRig(t, func(cfg map[string]any) {
		all := map[string]any{}
		for i := range servers {
			all[fmt.Sprintf("s%02d", i)] = map[string]any{
				"command": built.counting, "args": []string{"-tally", "-runs", "RUNS"}, "preset": "workbench",
				"tools": map[string]any{"*": map[string]string{"permission": "read", "egress": "metadata"}},
			}
		}
		cfg["servers"] = all
	})
	r.configure(func(cfg map[string]any) { // the folder is known by now, and names the processes
		for _, s := range cfg["servers"].(map[string]any) {
			s.(map[string]any)["args"] = []string{"-tally", "-runs", r.runs}
		}
	})
	counts := filepath.Join(filepath.Dir(r.runs), "counts")
	t.Setenv("SOAK_COUNTS", counts)
	var tokens []string
	for i := range 1 + clients/90 {
		out, errs, code := command(t, r.home, "token", "add", fmt.Sprintf("soak-%d", i))
		if code != 0 {
			t.Fatalf("token add: %s", errs)
		}
		for _, word := range strings.Fields(out) {
			if len(word) > 30 {
				tokens = append(tokens, word)
			}
		}
	}
	if len(tokens) != 1+clients/90 {
		t.Fatalf("%d tokens were made", len(tokens))
	}
	url, gate := spawnHTTP(t, counted(t), r.home)
	one := &caller{http: http.Client{Transport: &http.Transport{}}, url: url, token: tokens[0]}
	if err := one.open(); err != nil {
		t.Fatal(err)
	}
	for i := range servers {
		if err := one.tally(fmt.Sprintf("s%02d", i), "warm"); err != nil {
			t.Fatal(err)
		}
	}
	for _, token := range tokens { // a session of the newest revision is a token's, and stays for a while
		if err := (&caller{http: http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, url: url, token: token}).tally("s00", "warm"); err != nil {
			t.Fatal(err)
		}
	}
	one.close()
	before := r.weigh(gate, counts)
	var calls, wrong atomic.Int64
	var peak weight
	until := time.Now().Add(long)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			c := &caller{http: http.Client{Transport: &http.Transport{}}, url: url, token: tokens[i%len(tokens)]}
			defer c.close()
			if i%2 == 0 {
				if err := c.open(); err != nil {
					t.Errorf("client %d: %v", i, err)
					return
				}
			}
			for n := 0; n == 0 || time.Now().Before(until); n++ { // opening alone may take as long
				if err := c.tally(fmt.Sprintf("s%02d", (i+n)%servers), fmt.Sprintf("n-%d-%d", i, n)); err != nil {
					if wrong.Add(1) < 10 {
						t.Errorf("client %d, call %d: %v", i, n, err)
					}
				}
				calls.Add(1)
			}
		})
	}
	half := time.NewTimer(long / 2)
	<-half.C
	peak = r.weigh(gate, counts)
	wg.Wait()
	var after weight
	r.until("return to where it was", func() bool {
		after = r.weigh(gate, counts)
		return after.goroutines <= before.goroutines+2 && after.descriptors <= before.descriptors+1 && after.heap <= before.heap+8<<20
	})
	t.Logf("%d clients, %d servers, %v: %d calls, %d wrong", clients, servers, long, calls.Load(), wrong.Load())
	t.Logf("before: %v", before)
	t.Logf("amid:   %v", peak)
	t.Logf("after:  %v", after)
	if after.children != servers || calls.Load() < int64(clients) {
		t.Errorf("%d children and %d calls", after.children, calls.Load())
	}
}

// faults are what one server of ten does, in turn: arguments of fake-mcp, what
// it is called for again and again, and how many times more seldom than the
// others where that is much to compute for anybody.
var faults = []struct {
	name   string
	args   []string
	tool   string
	with   string
	seldom int
}{
	{"ends at once", []string{"-fault", "exit"}, "echo", `{}`, 1},
	{"ends in the handshake", []string{"-fault", "exit-init"}, "echo", `{}`, 1},
	{"half an answer to the handshake", []string{"-fault", "half-init"}, "echo", `{}`, 1},
	{"never answers the handshake", []string{"-fault", "hang-init"}, "echo", `{}`, 1},
	{"never answers", nil, "hang", `{}`, 1},
	{"ends in every call", nil, "exit", `{"n":1}`, 1},
	{"half an answer", nil, "half", `{}`, 1},
	{"garbage around its messages", []string{"-fault", "noise"}, "echo", `{}`, 1},
	{"garbage for an answer", nil, "answer", `{"text":"{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":NaN}"}`, 1},
	{"wrong ids", nil, "answer", `{"text":"{\"jsonrpc\":\"2.0\",\"id\":999999,\"result\":{}}\n{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"content\":[]}}"}`, 1},
	{"answers twice", nil, "answer", `{"text":"{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"content\":[]}}\n{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"content\":[]}}"}`, 1},
	{"a flood on stderr", nil, "stderr", `{"n":1048576}`, 1},
	{"large answers", nil, "long", `{"n":4000000}`, 1},
	{"a storm of progress", nil, "progress", `{"n":500}`, 10},
	{"a storm of changes", nil, "change", `{"n":3}`, 1},
	{"closes its output", nil, "mute", `{}`, 1},
	{"closes its input", nil, "deaf", `{}`, 1},
}

// Ten servers, one of them faulty in each way in turn: the other nine do what
// they did before it was called. The load is a steady one, so that what is
// measured is whether they are held up and not what the faulty one computes.
func TestSoakNineOfTenServersGoOn(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	long, pace, least := 300*time.Millisecond, 25*time.Millisecond, 0.0 // so short a time says nothing of rates
	if soaking() {
		long, pace, least = 10*time.Second, 10*time.Millisecond, 0.95
	}
	for _, f := range faults {
		if !soaking() && (f.name == "never answers the handshake" || f.name == "closes its input") {
			continue // it takes long to end them
		}
		t.Run(f.name, func(t *testing.T) {
			r := newRig(t, nil)
			r.configure(func(cfg map[string]any) {
				all := map[string]any{"bad": map[string]any{"command": self, "args": append([]string{"fake-mcp"}, f.args...), "timeout": "2s", "preset": "workbench",
					"tools": map[string]any{"*": map[string]string{"permission": "read", "egress": "metadata"}}}}
				for i := range 9 {
					all[fmt.Sprintf("s%d", i)] = map[string]any{"command": built.counting, "args": []string{"-tally", "-runs", r.runs}, "preset": "workbench",
						"tools": map[string]any{"*": map[string]string{"permission": "read", "egress": "metadata"}}}
				}
				cfg["servers"] = all
			})
			a := r.client(nobody)
			for i := range 9 {
				tally(t, a.must(fmt.Sprintf("s%d/tally", i), `{"nonce":"warm"}`))
			}
			steady := func() float64 {
				var good sync.WaitGroup
				var done atomic.Int64
				end := time.Now().Add(long)
				for i := range 9 {
					good.Go(func() {
						tick := time.NewTicker(pace)
						defer tick.Stop()
						for n := 0; time.Now().Before(end); n++ {
							got, err := a.call(fmt.Sprintf("s%d/tally", i), fmt.Sprintf(`{"nonce":"n%d-%d"}`, i, n))
							if err != nil || !strings.Contains(got, fmt.Sprintf(", n%d-%d", i, n)) {
								t.Errorf("server %d, call %d: %.200s %v", i, n, got, err)
								return
							}
							done.Add(1)
							<-tick.C
						}
					})
				}
				good.Wait()
				return float64(done.Load()) / long.Seconds()
			}
			base := steady()
			over := make(chan struct{})
			var bad sync.WaitGroup
			for range 2 {
				bad.Go(func() {
					tick := time.NewTicker(pace * time.Duration(f.seldom))
					defer tick.Stop()
					for {
						select {
						case <-over:
							return
						case <-tick.C:
							_, _ = a.call("bad/"+f.tool, f.with) // whatever comes of it
						}
					}
				})
			}
			rate := steady()
			close(over)
			bad.Wait()
			t.Logf("%.0f calls a second before, %.0f beside the fault: %.0f %%", base, rate, 100*rate/base)
			if rate < least*base {
				t.Errorf("the nine fell to %.0f %%", 100*rate/base)
			}
		})
	}
}

// spawnHTTP starts a gate on HTTP that has tokens already.
func spawnHTTP(t *testing.T, program, home string) (url string, gate *os.Process) {
	t.Helper()
	cmd := exec.Command(program, "--home", home, "--log-level", "warn", "serve", "--http", "127.0.0.1:0")
	log := &logged{}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the gate said:\n%.4000s", log)
		}
	})
	(&rig{t: t, home: home}).until("gate that listens", func() bool {
		_, at, ok := strings.Cut(log.String(), "listening on ")
		url, _, _ = strings.Cut(at, "\n")
		return ok && bytes.Contains([]byte(at), []byte("\n"))
	})
	return strings.TrimSpace(url), cmd.Process
}
