package sample

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// TestMain lets the test binary be a sample server, as the product's is.
func TestMain(m *testing.M) {
	if name := os.Getenv("SAMPLE_TEST_SERVER"); name != "" {
		log := slog.New(slog.NewTextHandler(os.Stderr, nil))
		if err := Run(context.Background(), name, os.Getenv("SAMPLE_TEST_DIR"), os.Stdin, os.Stdout, log); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// session is a client of a server that runs in this process, over pipes.
type session struct {
	t    testing.TB
	in   io.WriteCloser
	done chan error

	mu      sync.Mutex // guards waiting, and the order of writes
	next    int
	waiting map[int]chan json.RawMessage
}

var silent = slog.New(slog.DiscardHandler)

// connect starts a server by name; the session ends with the test.
func connect(t testing.TB, name, dir string) *session {
	t.Helper()
	return start(t, func(in io.Reader, out io.Writer) error {
		return Run(context.Background(), name, dir, in, out, silent)
	})
}

// connectAt is connect with a fixed clock.
func connectAt(t testing.TB, name, dir string, now time.Time) *session {
	t.Helper()
	if err := Seed(name, dir); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newServer(name, &folder{root: root, dir: dir, now: func() time.Time { return now }}, silent)
	if err != nil {
		t.Fatal(err)
	}
	return start(t, func(in io.Reader, out io.Writer) error {
		return errors.Join(server.NewStdioServer(s).Listen(context.Background(), in, out), root.Close())
	})
}

func start(t testing.TB, serve func(io.Reader, io.Writer) error) *session {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	s := &session{t: t, in: inW, done: make(chan error, 1), waiting: make(map[int]chan json.RawMessage)}
	go func() {
		err := serve(inR, outW)
		outW.Close()
		s.done <- err
	}()
	go s.receive(outR)
	t.Cleanup(func() {
		inW.Close()
		if err := <-s.done; err != nil {
			t.Errorf("server ended with %v", err)
		}
		s.done <- nil
	})
	result := s.request("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`)
	if !strings.Contains(string(result), `"serverInfo"`) {
		t.Fatalf("initialize: %s", result)
	}
	return s
}

func (s *session) receive(r io.Reader) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var m struct {
			ID     int
			Result json.RawMessage
			Error  json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			s.t.Errorf("line %q: %v", lines.Bytes(), err)
			continue
		}
		s.mu.Lock()
		answer := s.waiting[m.ID]
		delete(s.waiting, m.ID)
		s.mu.Unlock()
		if answer != nil {
			answer <- append(m.Result, m.Error...)
		}
	}
}

func (s *session) request(method, params string) json.RawMessage {
	answer := make(chan json.RawMessage, 1)
	s.mu.Lock()
	s.next++
	s.waiting[s.next] = answer
	_, err := fmt.Fprintf(s.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", s.next, method, params)
	s.mu.Unlock()
	if err != nil {
		s.t.Error(err)
		return nil
	}
	return <-answer
}

type answer struct {
	Content           []struct{ Type, Text string }
	StructuredContent json.RawMessage
	IsError           bool
}

func (s *session) call(tool, args string) answer {
	s.t.Helper()
	raw := s.request("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, args))
	var a answer
	if err := json.Unmarshal(raw, &a); err != nil || len(a.Content) != 1 || a.Content[0].Type != "text" {
		s.t.Fatalf("%s %s: %s (%v), want one text", tool, args, raw, err)
	}
	return a
}

// text calls a tool that must succeed.
func (s *session) text(tool, args string) string {
	s.t.Helper()
	a := s.call(tool, args)
	if a.IsError {
		s.t.Fatalf("%s %s failed: %s", tool, args, a.Content[0].Text)
	}
	return a.Content[0].Text
}

// fails calls a tool that must fail with a text that has want in it.
func (s *session) fails(tool, args, want string) {
	s.t.Helper()
	a := s.call(tool, args)
	if !a.IsError || !strings.Contains(a.Content[0].Text, want) {
		s.t.Errorf("%s %s: failed %v with %q, want a failure with %q", tool, args, a.IsError, a.Content[0].Text, want)
	}
}

// structured calls a tool and decodes its structured content.
func structured[T any](s *session, tool, args string) T {
	s.t.Helper()
	a := s.call(tool, args)
	var v T
	if err := json.Unmarshal(a.StructuredContent, &v); err != nil || a.IsError {
		s.t.Fatalf("%s %s: %q, structured %s (%v)", tool, args, a.Content[0].Text, a.StructuredContent, err)
	}
	return v
}

func TestDefinitions(t *testing.T) {
	for _, name := range Names() {
		tools, err := load(name)
		if err != nil {
			t.Fatal(err)
		}
		handlers := kinds[name].handlers(&folder{})
		var names []string
		for _, tool := range tools {
			names = append(names, tool.Name)
			checkDefinition(t, name+"/"+tool.Name, tool)
		}
		slices.Sort(names)
		if want := slices.Sorted(maps.Keys(handlers)); !slices.Equal(names, want) {
			t.Errorf("%s defines %v, handles %v", name, names, want)
		}
		if len(names) < 10 || len(names) > 14 {
			t.Errorf("%s has %d tools, want 10 to 14", name, len(names))
		}
	}
}

func checkDefinition(t *testing.T, id string, tool mcp.Tool) {
	t.Helper()
	if n := len(tool.Description); n < 60 || n > 2048 || tool.Title == "" {
		t.Errorf("%s: title %q, description of %d bytes", id, tool.Title, n)
	}
	a := tool.Annotations
	if a.ReadOnlyHint == nil || a.DestructiveHint == nil || a.IdempotentHint == nil || a.OpenWorldHint == nil {
		t.Errorf("%s: not all four hints are given", id)
	}
	var in struct {
		Properties           map[string]struct{ Description, Type string }
		AdditionalProperties *bool
		Required             []string
	}
	if err := json.Unmarshal(tool.RawInputSchema, &in); err != nil {
		t.Fatalf("%s: %v", id, err)
	}
	if in.AdditionalProperties == nil || *in.AdditionalProperties {
		t.Errorf("%s: unknown arguments are not refused", id)
	}
	for name, p := range in.Properties {
		if p.Description == "" || p.Type == "" {
			t.Errorf("%s: argument %s has no description or type", id, name)
		}
	}
	for _, name := range in.Required {
		if _, ok := in.Properties[name]; !ok {
			t.Errorf("%s: requires %s, which it does not define", id, name)
		}
	}
	for what, raw := range map[string]json.RawMessage{"input": tool.RawInputSchema, "output": tool.RawOutputSchema} {
		if raw == nil {
			continue
		}
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		c := jsonschema.NewCompiler()
		if err := errors.Join(c.AddResource("mem:schema", doc)); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		if _, err := c.Compile("mem:schema"); err != nil {
			t.Errorf("%s: %s schema: %v", id, what, err)
		}
	}
}

func TestHintsAreHonest(t *testing.T) {
	for _, name := range Names() {
		tools, err := load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range tools {
			verb, _, _ := strings.Cut(tool.Name, "_")
			a := tool.Annotations
			reads := slices.Contains([]string{"list", "get", "read", "search", "directory", "file", "issue"}, verb)
			if *a.ReadOnlyHint != reads {
				t.Errorf("%s/%s: readOnlyHint %v", name, tool.Name, *a.ReadOnlyHint)
			}
			if final := slices.Contains([]string{"delete", "send", "reply", "write", "edit"}, verb); final && !*a.DestructiveHint {
				t.Errorf("%s/%s is not marked destructive", name, tool.Name)
			}
			if leaves := verb == "send" || verb == "reply"; *a.OpenWorldHint != leaves {
				t.Errorf("%s/%s: openWorldHint %v", name, tool.Name, *a.OpenWorldHint)
			}
		}
	}
}

// The list over the wire is what the definitions say.
func TestListOverTheWire(t *testing.T) {
	for _, name := range Names() {
		s := connect(t, name, t.TempDir())
		var got struct {
			Tools []struct {
				Name, Title, Description  string
				InputSchema, OutputSchema json.RawMessage
			}
		}
		if err := json.Unmarshal(s.request("tools/list", `{}`), &got); err != nil {
			t.Fatal(err)
		}
		want, err := load(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Tools) != len(want) {
			t.Errorf("%s lists %d tools, defines %d", name, len(got.Tools), len(want))
		}
		for _, g := range got.Tools {
			i := slices.IndexFunc(want, func(w mcp.Tool) bool { return w.Name == g.Name })
			if i < 0 || g.Title != want[i].Title || g.Description != want[i].Description || !sameJSON(t, g.InputSchema, want[i].RawInputSchema) || !sameJSON(t, g.OutputSchema, want[i].RawOutputSchema) {
				t.Errorf("%s/%s differs from its definition", name, g.Name)
			}
		}
		s.in.Close()
		if err := <-s.done; err != nil {
			t.Errorf("%s: end of input gives %v, want a clean end", name, err)
		}
		s.done <- nil
	}
}

func sameJSON(t *testing.T, a, b json.RawMessage) bool {
	t.Helper()
	var x, y any
	for raw, into := range map[*json.RawMessage]*any{&a: &x, &b: &y} {
		if *raw == nil {
			continue
		}
		if err := json.Unmarshal(*raw, into); err != nil {
			t.Fatal(err)
		}
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return string(p) == string(q)
}

func TestUnknownServer(t *testing.T) {
	const want = `unknown sample server "calendar": want one of files, issues, mail`
	err := Run(context.Background(), "calendar", t.TempDir(), strings.NewReader(""), io.Discard, silent)
	if _, ok := errors.AsType[*UnknownError](err); !ok || err.Error() != want {
		t.Errorf("Run: %v, want %s", err, want)
	}
	if err := Seed("calendar", t.TempDir()); err == nil || err.Error() != want {
		t.Errorf("Seed: %v, want %s", err, want)
	}
	if _, err := newServer("calendar", nil, silent); err == nil || err.Error() != want {
		t.Errorf("newServer: %v, want %s", err, want)
	}
}

func TestSeed(t *testing.T) {
	for _, name := range Names() {
		dir := filepath.Join(t.TempDir(), "made", "here")
		if err := Seed(name, dir); err != nil {
			t.Fatal(err)
		}
		before := tree(t, dir)
		if len(before) == 0 {
			t.Fatalf("%s: nothing was written", name)
		}
		for p := range before {
			if err := os.WriteFile(filepath.Join(dir, p), []byte("mine"), 0o644); err != nil {
				t.Fatal(err)
			}
			break
		}
		changed := tree(t, dir)
		if err := Seed(name, dir); err != nil || !maps.Equal(tree(t, dir), changed) {
			t.Errorf("%s: a second Seed (%v) changed what was there", name, err)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Seed("files", file); err == nil {
		t.Error("a file as the folder was accepted")
	}
	if err := Run(context.Background(), "files", file, strings.NewReader(""), io.Discard, silent); err == nil {
		t.Error("Run accepted a file as the folder")
	}
}

func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		all[rel] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestCancelledContextIsACleanEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	inR, inW := io.Pipe()
	defer inW.Close()
	done := make(chan error, 1)
	go func() { done <- Run(ctx, "issues", t.TempDir(), inR, io.Discard, silent) }()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v, want a clean end", err)
	}
}

func TestArgumentsThatDoNotFit(t *testing.T) {
	s := connect(t, "issues", t.TempDir())
	s.fails("get_issue", `{}`, "number")
	s.fails("get_issue", `{"number":"eleven"}`, "number")
	s.fails("get_issue", `{"number":3,"colour":"red"}`, "colour")
	s.fails("get_issue", `{"number":3.0}`, "do not fit")
	s.fails("list_issues", `{"state":"maybe"}`, "state")
	s.fails("list_issues", `{"limit":0}`, "limit")
	if raw := s.request("tools/call", `{"name":"list_labels"}`); !strings.Contains(string(raw), "blocker") {
		t.Errorf("a call without arguments: %s", raw)
	}
	if raw := s.request("tools/call", `{"name":"no_such_tool","arguments":{}}`); !strings.Contains(string(raw), "-32602") {
		t.Errorf("an unknown tool: %s", raw)
	}
}

// Over real pipes, with the library's client, as a gate would have it.
func TestProcess(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			c := spawn(t, name, t.TempDir())
			ctx := t.Context()
			listed, err := c.ListTools(ctx, mcp.ListToolsRequest{})
			if err != nil || len(listed.Tools) < 10 {
				t.Fatalf("list: %v, %v", listed, err)
			}
			tool := map[string]string{"files": "list_directory", "issues": "issue_stats", "mail": "list_folders"}[name]
			result, err := c.CallTool(ctx, mcp.CallToolRequest{Params: mcp.CallToolParams{Name: tool}})
			if err != nil || result.IsError || result.StructuredContent == nil {
				t.Errorf("%s: %+v, %v", tool, result, err)
			}
		})
	}
}

// spawn starts a server as a process of its own and checks that it ends
// cleanly when its input does.
func spawn(t *testing.T, name, dir string) *client.Client {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var cmd *exec.Cmd
	tr := transport.NewStdioWithOptions(exe, nil, nil, transport.WithCommandFunc(
		func(_ context.Context, command string, _, args []string) (*exec.Cmd, error) {
			cmd = exec.Command(command, args...)
			cmd.Env = append(os.Environ(), "SAMPLE_TEST_SERVER="+name, "SAMPLE_TEST_DIR="+dir)
			return cmd, nil
		}))
	c := client.NewClient(tr)
	if err := c.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil || cmd.ProcessState.ExitCode() != 0 {
			t.Errorf("server ended with %v, %v, want exit 0", err, cmd.ProcessState)
		}
	})
	if _, err := c.Initialize(t.Context(), mcp.InitializeRequest{}); err != nil {
		t.Fatal(err)
	}
	return c
}

// Two processes over one folder lose nothing to each other.
func TestTwoProcesses(t *testing.T) {
	dir := t.TempDir()
	a, b := spawn(t, "issues", dir), spawn(t, "issues", dir)
	const each = 25
	var numbers sync.Map
	var wg sync.WaitGroup
	var made atomic.Int64
	for _, c := range []*client.Client{a, b} {
		for i := range each {
			wg.Go(func() {
				r := mcp.CallToolRequest{Params: mcp.CallToolParams{Name: "create_issue", Arguments: map[string]any{"title": fmt.Sprint("from a process ", i)}}}
				result, err := c.CallTool(t.Context(), r)
				if err != nil || result.IsError {
					t.Errorf("create: %+v, %v", result, err)
					return
				}
				number := result.StructuredContent.(map[string]any)["number"]
				if _, twice := numbers.LoadOrStore(number, true); twice {
					t.Errorf("number %v was given twice", number)
				}
				made.Add(1)
			})
		}
	}
	wg.Wait()
	var all tracker
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := (&folder{root: root}).readState(trackerFile, &all); err != nil {
		t.Fatal(err)
	}
	if want := 23 + int(made.Load()); made.Load() != 2*each || all.Next != want {
		t.Errorf("%d made, next number %d, want %d and %d", made.Load(), all.Next, 2*each, want)
	}
}
