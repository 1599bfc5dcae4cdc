package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-gate/mcp-gate/internal/canonjson"
	"github.com/mcp-gate/mcp-gate/internal/fakemcp"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// built are the programs that the tests run.
var built struct{ gate, gosdk, counting, reciting, node string }

// TestMain makes the test binary the faulty server when it is told so by its
// first argument.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "fake-mcp" {
		os.Exit(fakemcp.Main(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	if len(os.Args) > 2 && os.Args[1] == "lively-mcp" {
		os.Exit(livelyMain(os.Args[2] == "true", os.Stdin, os.Stdout))
	}
	if built.gate = os.Getenv(gateVar); built.gate != "" {
		every := func(string, string) (bool, error) { return true, nil }
		testing.Main(every, []testing.InternalTest{{Name: "asTheSuitesClient", F: asTheSuitesClient}}, nil, nil)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "mcp-gate-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	built.gate, built.gosdk = filepath.Join(dir, "mcp-gate"), filepath.Join(dir, "everything-server")
	built.counting, built.reciting = filepath.Join(dir, "counting"), filepath.Join(dir, "reciting")
	here, err := os.Getwd()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	built.node = filepath.Join(here, "node_modules", ".bin", "node")
	if _, err := os.Stat(filepath.Join(here, "node_modules", ".installed")); err != nil {
		fmt.Fprintln(os.Stderr, "the npm packages of the end-to-end tests are not installed: run make test, which installs them")
		return 1
	}
	for _, b := range []struct{ dir, out, pkg string }{
		{"..", built.gate, "./cmd/mcp-gate"},
		{"..", built.counting, "./e2e/counting"},
		{"..", built.reciting, "./e2e/reciting"},
		{"gosdk", built.gosdk, "github.com/modelcontextprotocol/go-sdk/conformance/everything-server"},
	} {
		cmd := exec.Command("go", "build", "-o", b.out, b.pkg)
		cmd.Dir = b.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build %s: %v\n%s", b.pkg, err, out)
			return 1
		}
	}
	if err := lookAtSources(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// Tests that may run side by side wait for people and processes, and compute
	// little: the default of one a core would have them wait for each other.
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		if err := f.Value.Set("8"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

// lookAtSources looks at every file the binary is built from, so that go test
// does not take a result for fresh that an older binary gave.
func lookAtSources() error {
	return filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name == "node_modules" || name == ".git" || name == "bin" {
				return filepath.SkipDir
			}
			return nil
		}
		_, err = os.Stat(path)
		return err
	})
}

// script is the entry point of an npm package.
func script(t *testing.T, pkg string) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("node_modules", filepath.FromSlash(pkg)))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err != nil {
		t.Fatal(err)
	}
	var p struct{ Bin map[string]string }
	if err := json.Unmarshal(raw, &p); err != nil {
		t.Fatal(err)
	}
	for _, file := range p.Bin {
		return filepath.Join(dir, file)
	}
	t.Fatalf("%s has no program", pkg)
	return ""
}

// five are the real servers; files is the folder that one of them serves.
func five(t *testing.T, files string) map[string]any {
	server := func(args ...string) map[string]any {
		return map[string]any{"command": built.node, "args": args, "preset": "workbench"}
	}
	return map[string]any{
		"filesystem": server(script(t, "@modelcontextprotocol/server-filesystem"), files),
		"memory": map[string]any{"command": built.node, "args": []string{script(t, "@modelcontextprotocol/server-memory")}, "preset": "workbench",
			"env": map[string]string{"MEMORY_FILE_PATH": filepath.Join(t.TempDir(), "memory.json")}},
		"everything": server(script(t, "@modelcontextprotocol/server-everything")),
		"thinking":   server(script(t, "@modelcontextprotocol/server-sequential-thinking")),
		"gosdk":      map[string]any{"command": built.gosdk, "preset": "workbench"},
	}
}

// home writes a configuration into a fresh home.
func home(t *testing.T, cfg map[string]any) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "home")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.jsonc"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// patience is how long a test waits for what has to come: it bounds a hang and
// measures nothing. A question that nobody answers is waited for 50 s.
const patience = 4 * time.Minute

// command runs the binary to its end.
func command(t *testing.T, home string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, built.gate, append([]string{"--home", home, "--log-level", "warn"}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("mcp-gate %v: %v", args, err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// client is a bare MCP client over a child's pipes. Requests may be in flight
// side by side.
type client struct {
	t       *testing.T
	cmd     *exec.Cmd
	stdin   io.Closer
	lines   chan jsonrpc.Message
	out     *jsonrpc.LineWriter
	waiting map[string]jsonrpc.Message
	asks    []jsonrpc.Message
	last    int
	heard   logged // every message that came, a line each
	rooted  bool   // it answers roots/list itself; else it has none
	stderr  logged
}

// connect starts a server and shakes hands with the given capabilities.
func connect(t *testing.T, capabilities, command string, args ...string) *client {
	t.Helper()
	c := launch(t, command, args...)
	c.shakeHands(capabilities)
	return c
}

// launch starts a server without a word to it.
func launch(t *testing.T, command string, args ...string) *client {
	t.Helper()
	c := &client{t: t, cmd: exec.Command(command, args...), lines: make(chan jsonrpc.Message, 100), waiting: map[string]jsonrpc.Message{}}
	c.cmd.Stderr = &c.stderr
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.stdin = stdin
	c.out = jsonrpc.NewLineWriter(stdin)
	go func() {
		defer close(c.lines)
		r := jsonrpc.NewLineReader(stdout, 256<<20)
		for {
			line, err := r.Next()
			if err != nil {
				return
			}
			_, _ = c.heard.Write(append(bytes.Clone(line), '\n'))
			m, err := jsonrpc.Parse(line)
			if err != nil {
				continue // a server may log to standard output
			}
			c.lines <- m
		}
	}()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = c.out.Close(ctx)
		_ = stdin.Close()
		timer := time.AfterFunc(10*time.Second, func() { _ = c.cmd.Process.Kill() })
		_ = c.cmd.Wait()
		timer.Stop()
		if t.Failed() {
			t.Logf("standard error of %s:\n%s", filepath.Base(command), c.stderr.String())
		}
	})
	return c
}

func (c *client) shakeHands(capabilities string) {
	c.t.Helper()
	c.result(c.send("initialize", `{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":{"name":"e2e","version":"1"}}`))
	c.write(jsonrpc.AppendNotification(nil, "notifications/initialized", nil))
}

func (c *client) write(line []byte) {
	c.t.Helper()
	if err := c.out.Send(context.Background(), line); err != nil {
		c.t.Fatal(err)
	}
}

// send begins a request and returns its id.
func (c *client) send(method, params string) string {
	c.t.Helper()
	c.last++
	id := strconv.Itoa(c.last)
	c.write(jsonrpc.AppendRequest(nil, json.RawMessage(id), method, json.RawMessage(params)))
	return id
}

// next reads messages until done holds, keeping answers and questions.
func (c *client) next(what string, done func() bool) {
	c.t.Helper()
	deadline := time.After(patience)
	for !done() {
		select {
		case m, ok := <-c.lines:
			switch {
			case !ok:
				c.t.Fatalf("the server ended while waiting for %s", what)
			case m.Method == "roots/list" && !c.rooted:
				c.write(jsonrpc.AppendResult(nil, m.ID, json.RawMessage(`{"roots":[]}`)))
			case m.IsRequest():
				c.asks = append(c.asks, m)
			case m.IsResponse():
				c.waiting[string(m.ID)] = m
			}
		case <-deadline:
			c.t.Fatalf("no %s within %v", what, patience)
		}
	}
}

// answer waits for the answer to a request.
func (c *client) answer(id string) jsonrpc.Message {
	c.t.Helper()
	c.next("answer to request "+id, func() bool { _, ok := c.waiting[id]; return ok })
	m := c.waiting[id]
	delete(c.waiting, id)
	return m
}

// result waits for the result of a request.
func (c *client) result(id string) json.RawMessage {
	c.t.Helper()
	m := c.answer(id)
	if m.Error != nil {
		c.t.Fatalf("request %s: %s", id, m.Error)
	}
	return m.Result
}

// call calls a tool by call_tool.
func (c *client) call(tool, args string) json.RawMessage {
	c.t.Helper()
	return c.result(c.begin(tool, args))
}

// ready is call where the tool's server may not be up: real ones may take longer
// to start than a call waits for them.
func (c *client) ready(tool, args string) (got json.RawMessage) {
	c.t.Helper()
	until(c.t, "the server of "+tool, func() bool {
		got = c.call(tool, args)
		return !bytes.Contains(got, []byte("refused [unknown]")) && !bytes.Contains(got, []byte("refused [server-down]"))
	})
	return got
}

func (c *client) begin(tool, args string) string {
	c.t.Helper()
	return c.send("tools/call", fmt.Sprintf(`{"name":"call_tool","arguments":{"name":%q,"arguments":%s}}`, tool, args))
}

func gate(t *testing.T, home string, more ...string) *client {
	t.Helper()
	return connect(t, `{"elicitation":{}}`, built.gate, append([]string{"--home", home, "--log-level", "warn", "serve"}, more...)...)
}

// theirs lists a server's tools without a gate in between.
func theirs(t *testing.T, server map[string]any) map[string]json.RawMessage {
	t.Helper()
	args, _ := server["args"].([]string)
	// A server may offer more to a client that can do more: the gate says it can.
	c := connect(t, `{"roots":{"listChanged":true},"sampling":{"context":{},"tools":{}},"elicitation":{"form":{},"url":{}}}`, server["command"].(string), args...)
	list, _, err := strictjson.Get(c.result(c.send("tools/list", `{}`)), "tools")
	if err != nil {
		t.Fatal(err)
	}
	var raws []json.RawMessage
	if err := json.Unmarshal(list, &raws); err != nil {
		t.Fatal(err)
	}
	tools := map[string]json.RawMessage{}
	for _, raw := range raws {
		var named struct{ Name string }
		if err := json.Unmarshal(raw, &named); err != nil {
			t.Fatal(err)
		}
		tools[named.Name] = raw
	}
	if len(tools) == 0 {
		t.Fatalf("%v lists no tools", server["command"])
	}
	_ = c.cmd.Process.Kill() // some go on for a while when their client has gone
	return tools
}

func TestEveryToolOfFiveRealServersIsThereByteForByte(t *testing.T) {
	servers := five(t, t.TempDir())
	dir := home(t, map[string]any{"servers": servers})
	var out, errs string
	var code int
	until(t, "servers that start in time", func() bool {
		out, errs, code = command(t, dir, "tools", "ls", "--json")
		return !strings.Contains(errs, "did not answer initialize within") // the machine has too much to do
	})
	if code != 0 || errs != "" {
		t.Fatalf("exit %d, %s", code, errs)
	}
	var listed struct {
		Tools []struct {
			ID         string
			Definition json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(out), &listed); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, tool := range listed.Tools {
		known[tool.ID] = true
	}
	c := gate(t, dir)
	count := 0
	for alias, server := range servers {
		for name, want := range theirs(t, server.(map[string]any)) {
			id := alias + "/" + name
			if !known[id] {
				t.Errorf("tools ls lacks %s", id)
			}
			count++
			load(t, c, id, want)
		}
	}
	if count != len(listed.Tools) || count < 40 {
		t.Errorf("%d tools listed, the servers have %d", len(listed.Tools), count)
	}
}

// load compares what load_tool gives for a tool with the upstream's own bytes.
func load(t *testing.T, c *client, id string, want json.RawMessage) {
	t.Helper()
	var got struct{ Content []struct{ Text string } }
	var definition string
	until(t, "the server of "+id, func() (ok bool) {
		raw := c.result(c.send("tools/call", fmt.Sprintf(`{"name":"load_tool","arguments":{"names":[%q]}}`, id)))
		if err := json.Unmarshal(raw, &got); err != nil || len(got.Content) != 1 {
			t.Fatalf("load_tool %s: %s", id, raw)
		}
		_, definition, ok = strings.Cut(got.Content[0].Text, "\n")
		return ok
	})
	a, err := canonjson.Append(nil, []byte(definition))
	b, err2 := canonjson.Append(nil, want)
	if err != nil || err2 != nil || !bytes.Equal(a, b) {
		t.Errorf("load_tool %s gives\n%s\nthe server\n%s", id, definition, want)
	}
}

func TestAKilledServerCostsOneCallAndComesBack(t *testing.T) {
	files := t.TempDir()
	dir := home(t, map[string]any{"servers": five(t, files)})
	c := gate(t, dir)
	for tool, args := range map[string]string{"everything/echo": `{"message":"up"}`, "filesystem/list_allowed_directories": `{}`, "memory/read_graph": `{}`} {
		c.ready(tool, args)
	}
	pid := childOf(t, c.cmd.Process.Pid, "server-everything")
	slow := c.send("tools/call", `{"name":"call_tool","arguments":{"name":"everything/trigger-long-running-operation","arguments":{"duration":30,"steps":60}},"_meta":{"progressToken":"slow"}}`)
	c.next("progress of the slow call", func() bool { return strings.Contains(c.heard.String(), `"progressToken":"slow"`) })
	began := time.Now()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	m := c.answer(slow)
	if m.Error == nil || !strings.Contains(string(m.Error), "unknown whether") {
		t.Errorf("the interrupted call gives %s%s", m.Result, m.Error)
	}
	if took := time.Since(began); took > atOnce { // it would have lasted 30 s
		t.Errorf("the caller heard of it after %v", took)
	}
	c.call("memory/read_graph", `{}`)
	c.call("filesystem/list_allowed_directories", `{}`)
	if got := c.ready("everything/echo", `{"message":"back"}`); !strings.Contains(string(got), "back") {
		t.Errorf("after its restart the server gives %s", got)
	}
}

// childOf finds a process whose parent is pid and whose command line has text.
func childOf(t *testing.T, parent int, text string) int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		line, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(line, []byte(text)) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		stat, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "stat"))
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			return pid
		}
	}
	t.Fatalf("process %d has no child %q", parent, text)
	return 0
}

func TestAFileIsWrittenOnlyAfterAYes(t *testing.T) {
	files := t.TempDir()
	servers := five(t, files)
	// Its annotations call it destructive; here the owner knows better.
	servers["filesystem"].(map[string]any)["tools"] = map[string]any{"write_file": map[string]string{"permission": "source_file_write"}}
	c := gate(t, home(t, map[string]any{"servers": servers}))
	c.ready("filesystem/list_allowed_directories", `{}`)
	path := filepath.Join(files, "a.txt")
	args := fmt.Sprintf(`{"path":%q,"content":"through the gate"}`, path)
	for _, tt := range []struct {
		content string
		written bool
	}{{`{"action":"decline"}`, false}, {`{"action":"accept","content":{"decision":"allow-once"}}`, true}} {
		id := c.begin("filesystem/write_file", args)
		c.next("question", func() bool { return len(c.asks) > 0 || c.waiting[id].Result != nil })
		if len(c.asks) == 0 {
			t.Fatalf("nobody was asked: %s", c.waiting[id].Result)
		}
		ask := c.asks[0]
		c.asks = nil
		if ask.Method != "elicitation/create" || !strings.Contains(string(ask.Params), "a.txt") {
			t.Fatalf("asked %s %s", ask.Method, ask.Params)
		}
		<-time.After(350 * time.Millisecond) // an answer within 300 ms is no person's
		c.write(jsonrpc.AppendResult(nil, ask.ID, json.RawMessage(tt.content)))
		got := c.result(id)
		text, err := os.ReadFile(path)
		if (err == nil) != tt.written || tt.written && string(text) != "through the gate" {
			t.Errorf("after %s the call gives %s and the file is %q, %v", tt.content, got, text, err)
		}
	}
}

func TestBadServersCostTheOthersNothing(t *testing.T) {
	servers := map[string]any{
		"good":    map[string]any{"command": built.node, "args": []string{script(t, "@modelcontextprotocol/server-everything")}, "preset": "workbench"},
		"missing": map[string]any{"command": "no-such-program-here"},
		"garbage": map[string]any{"command": "yes", "timeout": "1s"},
		"ends":    map[string]any{"command": "sh", "args": []string{"-c", "echo cannot find my key >&2; exit 3"}},
		"closed":  map[string]any{"url": "http://127.0.0.1:1/mcp"},
	}
	dir := home(t, map[string]any{"servers": servers})
	c := gate(t, dir)
	if got := c.ready("good/echo", `{"message":"here"}`); !strings.Contains(string(got), "here") {
		t.Errorf("got %s", got)
	}
	until(t, "word of what is wrong with each bad server, and of nothing else", func() bool { // none waits for the others
		out, _, code := command(t, dir, "status", "--json")
		var status struct {
			Gates []struct {
				Servers []struct {
					Alias     string
					LastError string `json:"last_error"`
				}
			}
		}
		if err := json.Unmarshal([]byte(out), &status); err != nil || code != 0 || len(status.Gates) != 1 {
			t.Fatalf("status: %v, exit %d: %s", err, code, out)
		}
		told := true
		for _, s := range status.Gates[0].Servers {
			if strings.Contains(s.LastError, "\n") {
				t.Errorf("%s: %q", s.Alias, s.LastError)
			}
			told = told && (s.Alias == "garbage" || (s.Alias != "good") == (s.LastError != ""))
		}
		return told
	})
	if _, errs, code := command(t, dir, "call", "ends/x", "{}"); code != 1 || !strings.Contains(errs, "cannot find my key") {
		t.Errorf("calling a server that ends: exit %d, %s", code, errs)
	}
	if _, errs, code := command(t, dir, "call", "nobody/x", "{}"); code != 2 || !strings.Contains(errs, `no server "nobody"`) {
		t.Errorf("calling an unknown server: exit %d, %s", code, errs)
	}
}

func TestNothingIsLeftBehind(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "marker")
	dir := home(t, map[string]any{"servers": map[string]any{
		"nested": map[string]any{"command": "sh", "args": []string{"-c", "exec sh -c '" + built.node + " " + script(t, "@modelcontextprotocol/server-everything") + " stdio " + marker + "; true'"}, "preset": "workbench"},
	}})
	for name, end := range map[string]func(*client){
		"the client closes": func(c *client) {},
		"a signal":          func(c *client) { _ = c.cmd.Process.Signal(syscall.SIGTERM) },
		"a kill":            func(c *client) { _ = c.cmd.Process.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			c := gate(t, dir)
			c.ready("nested/echo", `{"message":"up"}`)
			if len(running(marker)) == 0 {
				t.Fatal("the server does not run")
			}
			end(c)
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			_ = c.out.Close(ctx)
			_ = c.stdin.Close()
			_ = c.cmd.Wait()
			until(t, "end of what the gate started", func() bool { return len(running(marker)) == 0 })
		})
	}
}

// running lists the processes whose command line has text.
func running(text string) []string {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var found []string
	for _, file := range all {
		if line, err := os.ReadFile(file); err == nil && bytes.Contains(line, []byte(text)) {
			found = append(found, file)
		}
	}
	return found
}

func TestInspectorAsAClient(t *testing.T) {
	dir := home(t, map[string]any{"servers": map[string]any{
		"everything": map[string]any{"command": built.node, "args": []string{script(t, "@modelcontextprotocol/server-everything")}, "preset": "workbench"},
	}})
	if out, errs, code := command(t, dir, "tools", "ls"); code != 0 { // so that its gates know what the server has before it is up
		t.Fatalf("exit %d, %s%s", code, out, errs)
	}
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "inspector.json")
			raw, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"gate": map[string]any{
				"type": "stdio", "command": built.gate, "args": []string{"--home", dir, "--log-level", "error", "serve"}, "protocolEra": era}}})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, raw, 0o600); err != nil {
				t.Fatal(err)
			}
			list := inspect(t, 0, file, "--method", "tools/list")
			for _, want := range []string{"find_tools", "load_tool", "call_tool_read", "call_tool"} {
				if !strings.Contains(list, want) {
					t.Errorf("tools/list lacks %s: %s", want, list)
				}
			}
			echo := inspect(t, 0, file, "--method", "tools/call", "--tool-name", "call_tool", "--tool-args-json", `{"name":"everything/echo","arguments":{"message":"by the inspector"}}`)
			if !strings.Contains(echo, "by the inspector") {
				t.Errorf("tools/call gives %s", echo)
			}
			inspect(t, 5, file, "--method", "tools/call", "--tool-name", "call_tool", "--tool-args-json", `{"name":"everything/nothing"}`)
		})
	}
}

// inspect runs the Inspector's command line and returns what it printed.
func inspect(t *testing.T, code int, config string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	bin, err := filepath.Abs("node_modules/.bin")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "mcp-inspector"), append([]string{"--cli", "--config", config, "--server", "gate", "--format", "json"}, args...)...)
	cmd.Env = append(os.Environ(), "MCP_INSPECTOR_SECRET_STORE=memory", "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // the exit code is looked at
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("inspector %v: exit %d, want %d\n%s%s", args, got, code, out.String(), errs.String())
	}
	return out.String()
}
