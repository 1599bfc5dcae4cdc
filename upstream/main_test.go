package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcp-gate/mcp-gate/internal/fakemcp"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
)

type jsonrpcError = jsonrpc.Error

// TestMain makes the test binary the fake server, and the gate that is killed,
// when it is told so by its first argument.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "fake-mcp":
			os.Exit(fakemcp.Main(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
		case "gate":
			os.Exit(runGate(fake("a", os.Args[2:]...)))
		case "gate-sh":
			os.Exit(runGate(Server{Alias: "a", Command: os.Args[2:], Env: os.Environ()}))
		}
	}
	goleak.VerifyTestMain(m)
}

// runGate runs a pool with one fake server until it is killed.
func runGate(s Server) int {
	p, err := NewPool([]Server{s}, Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go func() {
		if err := p.Settled(context.Background()); err == nil {
			fmt.Println("settled")
		}
	}()
	_ = p.Run(context.Background()) // it does not return
	return 0
}

// fake is a server of this very binary.
func fake(alias string, flags ...string) Server {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return Server{
		Alias: alias, Command: append([]string{self, "fake-mcp"}, flags...), StartTimeout: time.Minute,
		Env: []string{"PATH=" + os.Getenv("PATH")},
	}
}

// logs is a log that a test can read while it is written to.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// rig is a running pool.
type rig struct {
	*Pool
	t    *testing.T
	logs *logs
	stop func()
}

// start runs a pool until the test ends, and then checks that no child is
// left.
func start(t *testing.T, o Options, servers ...Server) *rig {
	t.Helper()
	r := &rig{t: t, logs: &logs{}}
	o.Log = slog.New(slog.NewTextHandler(r.logs, nil))
	if o.Backoff == nil {
		o.Backoff = func(int) time.Duration { return time.Millisecond }
	}
	p, err := NewPool(servers, o)
	if err != nil {
		t.Fatal(err)
	}
	r.Pool = p
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = p.Run(ctx)
	}()
	r.stop = sync.OnceFunc(func() {
		cancel()
		inTime(t, 30*time.Second, "the pool to end", ended)
	})
	t.Cleanup(func() {
		r.stop()
		if t.Failed() {
			t.Log(r.logs.String())
		}
	})
	return r
}

// inTime fails the test when c is not closed in time. The time is generous:
// it bounds a hang, it measures nothing.
func inTime(t *testing.T, d time.Duration, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(d):
		t.Fatalf("waited %v for %s", d, what)
	}
}

func (r *rig) settled() *rig {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	if err := r.Settled(ctx); err != nil {
		r.t.Fatal(err)
	}
	return r
}

// tool calls one tool of server a; args is a JSON object or "".
func (r *rig) tool(ctx context.Context, name, args string) (Response, error) {
	return r.Call(ctx, "a", toolCall(name, args))
}

func toolCall(name, args string) Request {
	params := fmt.Sprintf(`{"name":%q}`, name)
	if args != "" {
		params = fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, args)
	}
	return Request{Method: "tools/call", Params: json.RawMessage(params)}
}

// must returns the result of a call that has to work.
func (r *rig) must(name, args string) string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	resp, err := r.tool(ctx, name, args)
	if err != nil {
		r.t.Fatalf("%s: %v", name, err)
	}
	if resp.Error != nil {
		r.t.Fatalf("%s: %v", name, resp.Error)
	}
	return string(resp.Result)
}

// wrong returns the error of a call that has to fail with this kind.
func (r *rig) wrong(kind Kind, name, args string) *Error {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	resp, err := r.tool(ctx, name, args)
	return wantKind(r.t, kind, resp, err)
}

func wantKind(t *testing.T, kind Kind, resp Response, err error) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %s, %v, want an error of kind %v", resp.Result, err, kind)
	}
	if e.Kind != kind {
		t.Fatalf("got kind %v (%v), want %v", e.Kind, e, kind)
	}
	return e
}

// state waits until server a's status is as wanted and returns it.
func (r *rig) state(what string, ok func(Status) bool) Status {
	r.t.Helper()
	deadline := time.After(time.Minute)
	for {
		s := r.find("a")
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if st := r.Status()[0]; ok(st) {
			return st
		}
		select {
		case <-changed:
		case <-deadline:
			r.t.Fatalf("waited for %s: %+v", what, r.Status()[0])
		}
	}
}

func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func lines(t *testing.T, name string) []string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(b))
}

func contains(t *testing.T, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("got %q, want %q in it", got, w)
		}
	}
}
