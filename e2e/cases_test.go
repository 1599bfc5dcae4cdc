package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// differently says which cases are judged differently from what their input
// asks for, and why. testdata/cases/README.md has the same list.
var differently = map[string]string{
	"015": "exposure direct leaves the bad definition out and `tools ls` says why; transparent publishes one server's list as it came; the default exposure has only the gate's own tools in it",
	"038": "nothing is ever taken out of arguments: what runs is what a person was shown and the rules judged, so there is no list of keys to strip",
	"112": "there is no limit on how long a server may take to start, so the one that a client had is named in the preview and not used",
}

// slow stretches the waits of the scripted peers: on a machine that does much
// else, a second is soon over.
const slow = 6

// steady has what stands in place of scripts that take a machine's speed for
// granted. Each asks the same of a gate, in a time and an order that a busy
// machine keeps, too.
var steady = map[string]map[string]string{
	// A call that takes longer than a call may take without progress: no gap in it
	// comes near that.
	"053": {"stdio": `expect tools/call as a
every 700 8 {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":${a.token},"progress":1}}
send {"jsonrpc":"2.0","id":${a.id},"result":{"content":[{"type":"text","text":"late but fine"}]}}
pass
`},
	// A call is taken back once its server has it, not half a second after it was made.
	"054": {"client": `send {"jsonrpc":"2.0","id":"c-77","method":"tools/call","params":{@CALL slow {}@,"_meta":{"progressToken":1}}}
within 15000 expect notifications/progress
send {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"c-77","reason":"user"}}
sleep 1000
pass
`, "stdio": `expect tools/call as a
send {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":${a.token},"progress":1}}
within 4000 expect notifications/cancelled as x
assert ${x.requestId} == ${a.id}
pass
`},
	// Calls that are made 30 ms apart may arrive in another order: each is told by
	// its arguments.
	"057": {"stdio": `expect tools/call as a
expect tools/call as b
expect tools/call as d
expect tools/call as e
expect tools/call as f
send {"jsonrpc":"2.0","id":${e.id},"result":{"content":[],"structuredContent":${e.args}}}
send {"jsonrpc":"2.0","id":${a.id},"result":{"content":[],"structuredContent":${a.args}}}
send {"jsonrpc":"2.0","id":${f.id},"result":{"content":[],"structuredContent":${f.args}}}
send {"jsonrpc":"2.0","id":${b.id},"result":{"content":[],"structuredContent":${b.args}}}
send {"jsonrpc":"2.0","id":${d.id},"result":{"content":[],"structuredContent":${d.args}}}
pass
`, "client": `send {"jsonrpc":"2.0","id":21,"method":"tools/call","params":{@CALL echo {"n":1}@}}
send {"jsonrpc":"2.0","id":22,"method":"tools/call","params":{@CALL echo {"n":2}@}}
send {"jsonrpc":"2.0","id":23,"method":"tools/call","params":{@CALL echo {"n":3}@}}
send {"jsonrpc":"2.0","id":24,"method":"tools/call","params":{@CALL echo {"n":4}@}}
send {"jsonrpc":"2.0","id":25,"method":"tools/call","params":{@CALL echo {"n":5}@}}
within 8000 expect id 21 as r1
assert ${r1.result} contains {"n":1}
within 8000 expect id 22 as r2
assert ${r2.result} contains {"n":2}
within 8000 expect id 23 as r3
assert ${r3.result} contains {"n":3}
within 8000 expect id 24 as r4
assert ${r4.result} contains {"n":4}
within 8000 expect id 25 as r5
assert ${r5.result} contains {"n":5}
pass
`},
}

// A replay plays one case. Its folders are fresh.
type replay struct {
	t      *testing.T
	id     string
	python string
	inputs string // absolute
	dir    string
	took   time.Duration // the last play
}

// caseRow is a row of index.json.
type caseRow struct {
	ID     string   `json:"id"`
	Kind   string   `json:"kind"`
	Checks []string `json:"checks"`
}

// TestCases replays faults that users of MCP proxies reported, with a scripted
// client before the gate and a scripted server behind it. testdata/cases/README.md
// says what each is.
func TestCases(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal("the replayed cases need Python 3 as python3: install it (Debian: apt-get install python3) and run make test again")
	}
	root, err := filepath.Abs(filepath.Join("..", "testdata", "cases"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []caseRow
	raw, err := os.ReadFile(filepath.Join(root, "index.json"))
	if err == nil {
		err = json.Unmarshal(raw, &rows)
	}
	if err != nil || len(rows) < 69 {
		t.Fatalf("index.json has %d rows: %v", len(rows), err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for id, why := range differently {
		if !strings.Contains(string(readme), "| "+id+" | "+why+" |") {
			t.Errorf("testdata/cases/README.md does not say why case %s is judged differently", id)
		}
	}
	slots := make(chan struct{}, 4) // a case is three or more processes
	for _, row := range rows {
		t.Run(row.ID+"-"+row.Kind, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			t.Cleanup(func() { <-slots }) // the first one made is the last one run
			c := &replay{t: t, id: row.ID, python: python, inputs: filepath.Join(root, "inputs"), dir: t.TempDir()}
			c.judge(row)
		})
	}
}

// wired are the checks that a scripted client and a scripted server make by
// themselves, with what compares their records; the others need more.
var wired = []string{"tool-exact", "args-exact", "args-length", "result-exact", "script", "client"}

func (c *replay) judge(row caseRow) {
	c.t.Helper()
	if why := differently[c.id]; why != "" {
		c.t.Log("judged differently: " + why)
	}
	for suffix, text := range steady[c.id] {
		c.with(suffix, text)
	}
	more := beyond[c.id]
	plain, rest := false, false
	for _, check := range row.Checks {
		if slices.Contains(wired, check) {
			plain = true
		} else {
			rest = true
		}
	}
	if rest && more == nil {
		c.t.Fatalf("nothing looks at %v", row.Checks)
	}
	if plain && !slices.Contains(elsewhere, c.id) {
		c.play(c.transparent(nil))
		for _, check := range row.Checks {
			c.check(check)
		}
	}
	if more != nil {
		more(c)
	}
}

// check makes one of the wired checks on the records of [replay.play].
func (c *replay) check(name string) {
	c.t.Helper()
	switch name {
	case "script":
		if got := c.read("s/verdict"); got != "PASS" {
			c.t.Errorf("the server says %q", got)
		}
	case "args-length":
		if got := len(c.read("s/call-01.args")); got < 150_000 {
			c.t.Errorf("%d bytes of the arguments reached the server", got)
		}
	case "tool-exact", "args-exact", "result-exact":
		out, err := c.fake("compare", "--server", c.at("s"), "--client", c.at("c")).CombinedOutput()
		word := strings.TrimSuffix(name, "-exact")
		if err != nil || !strings.Contains("\n"+string(out), "\n"+word+" ") {
			c.t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

func (c *replay) at(parts ...string) string {
	return filepath.Join(append([]string{c.dir}, parts...)...)
}

// read returns what a record has; "" where it has no such file.
func (c *replay) read(path string) string {
	c.t.Helper()
	raw, err := os.ReadFile(c.at(filepath.FromSlash(path)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.t.Fatal(err)
	}
	return string(raw)
}

// has reports whether a record has a file.
func (c *replay) has(path string) bool {
	_, err := os.Stat(c.at(filepath.FromSlash(path)))
	return err == nil
}

// input returns a file of the case.
func (c *replay) input(suffix string) []byte {
	c.t.Helper()
	raw, err := os.ReadFile(filepath.Join(c.inputs, c.id+"."+suffix))
	if err != nil {
		c.t.Fatal(err)
	}
	return raw
}

// expect reads the facts of the case into a struct.
func (c *replay) expect(into any) {
	c.t.Helper()
	if err := json.Unmarshal(c.input("expect.json"), into); err != nil {
		c.t.Fatal(err)
	}
}

// with gives the case a file it does not have, or another one than it has.
func (c *replay) with(suffix, text string) {
	c.t.Helper()
	dir, err := os.MkdirTemp(c.dir, "inputs")
	if err != nil {
		c.t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(c.inputs, c.id+".*"))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			c.t.Fatal(err)
		}
		c.write(filepath.Join(dir, filepath.Base(file)), string(raw))
	}
	c.write(filepath.Join(dir, c.id+"."+suffix), text)
	c.inputs = dir
}

func (c *replay) write(path, text string) {
	c.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

func (c *replay) program() string {
	return filepath.Join("..", "testdata", "cases", "fakeserver", "fakeserver.py")
}

// fake is a scripted peer that is yet to be started.
func (c *replay) fake(role string, args ...string) *exec.Cmd {
	args = append([]string{"-S", c.program(), role, "--case", c.id, "--inputs", c.inputs}, args...)
	cmd := exec.Command(c.python, args...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("FAKE_SLOW=%d", slow))
	return cmd
}

// upstream is the entry of a scripted server that records into a folder.
// Everything it offers may be called without a question.
func (c *replay) upstream(record string, more ...string) map[string]any {
	c.t.Helper()
	program, err := filepath.Abs(c.program())
	if err != nil {
		c.t.Fatal(err)
	}
	args := append([]string{"-S", program, "serve", "--case", c.id, "--inputs", c.inputs, "--record", c.at(record)}, more...)
	return map[string]any{
		"command": c.python, "args": args, "env": map[string]string{"FAKE_SLOW": fmt.Sprint(slow)},
		"egress": everything, "tools": map[string]any{"*": map[string]string{"permission": "read"}},
	}
}

// everything lets all results out: what may leave is another matter than these.
var everything = []string{"metadata", "aggregates", "row_level", "rendered_pixels", "raw_pixels"}

// home is one with these servers.
func (c *replay) home(servers map[string]any, edit func(cfg map[string]any)) string {
	c.t.Helper()
	cfg := map[string]any{"servers": servers}
	if edit != nil {
		edit(cfg)
	}
	return home(c.t, cfg)
}

// transparent is a home whose one server is the case's.
func (c *replay) transparent(edit func(cfg map[string]any)) string {
	c.t.Helper()
	server := c.upstream("s")
	if c.id == "053" {
		// Longer than the case says, since a machine that is busy keeps a
		// message back; the call still takes longer than that.
		server["timeout"] = "5s"
	}
	return c.home(map[string]any{"up": server}, edit)
}

// serving is the command line of a gate.
func serving(home, exposure string) []string {
	return []string{built.gate, "--home", home, "--log-level", "warn", "serve", "--exposure", exposure}
}

// play has the scripted client start a gate that shows one server as it is, and
// play its part. Env is the gate's environment beside the test's own.
func (c *replay) play(home string, env ...string) {
	c.t.Helper()
	c.playIn(home, "transparent", env...)
}

func (c *replay) playIn(home, exposure string, env ...string) {
	c.t.Helper()
	if err := os.RemoveAll(c.at("c")); err != nil {
		c.t.Fatal(err)
	}
	cmd := c.fake("client", append([]string{"--record", c.at("c"), "--"}, serving(home, exposure)...)...)
	cmd.Env = append(cmd.Env, env...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	began := time.Now()
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	timer.Stop()
	c.took = time.Since(began)
	if verdict := c.read("c/verdict"); err != nil || verdict != "PASS" {
		c.t.Errorf("the client says %q (%v)\n%s", verdict, err, said.String())
	}
}

// run runs the gate to its end, with an environment beside the test's own.
func (c *replay) run(env []string, args ...string) (stdout, stderr string, code int) {
	c.t.Helper()
	cmd := exec.Command(built.gate, args...)
	cmd.Env = append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.t.Fatalf("mcp-gate %v: %v", args, err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// client is a Go client of a gate in some exposure.
func (c *replay) client(home, exposure string) *client {
	c.t.Helper()
	line := serving(home, exposure)
	return connect(c.t, `{"elicitation":{}}`, line[0], line[1:]...)
}

// requests counts the requests of a method that reached a scripted server.
func (c *replay) requests(record, method string) int {
	c.t.Helper()
	n := 0
	for line := range strings.Lines(c.read(record + "/in.raw")) {
		var m struct{ Method string }
		if json.Unmarshal([]byte(line), &m) == nil && m.Method == method {
			n++
		}
	}
	return n
}

// calls is how many calls reached a scripted server.
func (c *replay) calls(record string) int {
	c.t.Helper()
	files, err := filepath.Glob(c.at(record, "call-*.params"))
	if err != nil {
		c.t.Fatal(err)
	}
	return len(files)
}

// until waits for something that a process does in its own time.
func (c *replay) until(what string, done func() bool) {
	c.t.Helper()
	until(c.t, what, done)
}

// contains is an error of the test where a text is not there, or is.
func (c *replay) contains(what, got, want string) {
	c.t.Helper()
	if !strings.Contains(got, want) {
		c.t.Errorf("%s lacks %q: %.1500s", what, want, got)
	}
}

func (c *replay) lacks(what, got, unwanted string) {
	c.t.Helper()
	if strings.Contains(got, unwanted) {
		c.t.Errorf("%s has %q in it: %.1500s", what, unwanted, got)
	}
}

// later reports whether this version of the gate says of a setting, or of what is
// in it, that it is not there yet. Then the part of a case that needs it cannot be replayed; the
// list is checked against the gate itself by the tests of config.
func (c *replay) later(setting string) bool {
	c.t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "docs", "configuration.md"))
	if err != nil {
		c.t.Fatal(err)
	}
	if !strings.Contains(string(raw), "\n- `"+setting) {
		return false
	}
	c.t.Logf("the gate has no %s yet: that part is not replayed", setting)
	return true
}
