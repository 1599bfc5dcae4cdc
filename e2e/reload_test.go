package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A gate that runs takes up what its owner writes, and goes on under the old
// words where the new ones have a fault.
func TestTheConfigurationIsReadAnew(t *testing.T) {
	t.Parallel()
	servers := map[string]any{"issues": map[string]any{"command": built.gate, "args": []string{"sample", "issues", "--dir", t.TempDir()}, "preset": "workbench"}}
	dir := home(t, map[string]any{"servers": servers})
	c := connect(t, `{}`, built.gate, "--home", dir, "serve")
	read := func() string { return string(c.call("issues/list_issues", `{}`)) }
	if got := read(); strings.Contains(got, "refused") {
		t.Fatalf("at first the call gives %s", got)
	}
	write := func(cfg any) {
		t.Helper()
		raw, err := json.Marshal(cfg)
		if err != nil {
			t.Fatal(err)
		}
		(&roster{t: t, dir: dir}).put(raw)
	}
	deny := map[string]any{"do": "deny", "tools": "issues/*"}
	write(map[string]any{"servers": servers, "policy": map[string]any{"rules": []any{deny}}})
	until(t, "the new rule", func() bool { return strings.Contains(read(), "refused [rule]") })
	write(map[string]any{"servers": servers, "policy": map[string]any{"rules": []any{map[string]any{"do": "permit"}}}})
	until(t, "the fault in the log", func() bool { return strings.Contains(c.stderr.String(), "the old one stays in force") })
	if got := c.stderr.String(); !strings.Contains(got, "config.jsonc:1:") || !strings.Contains(got, "hide, deny, ask, defer, allow") {
		t.Errorf("the log does not say where and what: %s", got)
	}
	if got := read(); !strings.Contains(got, "refused [rule]") {
		t.Errorf("after a fault the call gives %s", got)
	}
	write(map[string]any{"servers": servers})
	until(t, "the rule's end", func() bool { return !strings.Contains(read(), "refused") })
}

// What is no server holds from the next call on, too; what does not is named.
func TestAllElseIsReadAnew(t *testing.T) {
	t.Parallel()
	r := newRoster(t, map[string]any{"tools": map[string]any{"*": map[string]any{"permission": "read", "egress": "row_level", "domains": []string{"web"}}}}, "a")
	r.write(map[string]any{"servers": r.servers, "log": map[string]string{"level": "error"}})
	r.c = connect(t, `{}`, built.gate, "--home", r.dir, "serve")
	for range 2 { // what reads strangers' words may pass on, too
		r.pid("a")
	}
	if got := r.c.stderr.String(); strings.Contains(got, `"level":"INFO"`) {
		t.Fatalf("the log is full of trifles: %s", got)
	}
	r.write(map[string]any{
		"servers": r.servers, "taint": "deny", "log": map[string]string{"level": "info", "format": "json"}, "prefix": map[string]int{"budget": 3000},
		"approval": map[string]any{"expires": "1h", "notify": map[string]any{}}, "roots": []string{t.TempDir()}, "clients": map[string]any{"x": map[string]string{"wait": "1m"}},
	})
	until(t, "word of what waits", func() bool {
		return strings.Contains(r.c.stderr.String(), `from the next start on: log.format, prefix"`)
	})
	r.c.call("a/pid", `{}`)
	if got := string(r.c.call("a/pid", `{}`)); !strings.Contains(got, "refused [taint]") {
		t.Errorf("what reads the web after the web and private rows gives %s", got)
	}
	if got := r.status(); !strings.Contains(got, "from the next start on: log.format, prefix") {
		t.Errorf("status does not say what waits: %s", got)
	}
}

// until looks again and again until something holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come", what)
		}
	}
}

// roster is a home of fake servers whose configuration is written while its
// gate runs.
type roster struct {
	t       *testing.T
	dir     string
	c       *client
	servers map[string]map[string]any
}

func newRoster(t *testing.T, more map[string]any, aliases ...string) *roster {
	t.Helper()
	r := &roster{t: t, servers: map[string]map[string]any{}}
	for _, alias := range aliases {
		r.servers[alias] = r.fake(more)
	}
	r.dir = home(t, map[string]any{"servers": r.servers})
	return r
}

// fake is an entry of a server of this very binary.
func (r *roster) fake(more map[string]any) map[string]any {
	r.t.Helper()
	self, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	s := map[string]any{
		"command": self, "args": []string{"fake-mcp"}, "env": map[string]string{"WHICH": "1"}, "preset": "workbench",
		"tools": map[string]any{"*": map[string]string{"permission": "read", "egress": "row_level"}},
	}
	maps.Copy(s, more)
	return s
}

// write puts the configuration in place as editors do.
func (r *roster) write(config any) {
	r.t.Helper()
	raw, err := json.Marshal(config)
	if err != nil {
		r.t.Fatal(err)
	}
	r.put(raw)
}

func (r *roster) put(raw []byte) {
	r.t.Helper()
	file := filepath.Join(r.dir, "config.jsonc")
	if err := os.WriteFile(file+".new", raw, 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		r.t.Fatal(err)
	}
}

// change writes the servers and waits for the log to say what that changed.
func (r *roster) change(want string) {
	r.t.Helper()
	r.write(map[string]any{"servers": r.servers})
	until(r.t, "word of "+want, func() bool { return strings.Contains(r.c.stderr.String(), want) })
}

func (r *roster) pid(alias string) int {
	r.t.Helper()
	var got struct{ PID int }
	raw := r.c.call(alias+"/pid", `{}`)
	if err := json.Unmarshal(raw, &got); err != nil || got.PID == 0 {
		r.t.Fatalf("%s: %s, %v", alias, raw, err)
	}
	return got.PID
}

// intents counts the calls that went to a server.
func (r *roster) intents() (n int) {
	r.t.Helper()
	files, err := filepath.Glob(filepath.Join(r.dir, "audit", "*.jsonl"))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			r.t.Fatal(err)
		}
		n += bytes.Count(raw, []byte(`"kind":"intent"`))
	}
	return n
}

func (r *roster) status() string {
	r.t.Helper()
	out, _, _ := command(r.t, r.dir, "status")
	return out
}

// One of three servers is changed while twenty calls are under way on each. The
// two others lose nothing, and are the processes that they were.
func TestAServerIsReplacedWhileOthersWork(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]map[string]any{
		"shared": {}, "a connection for each session": {"connection": "session"}, "lazy": {"start": "lazy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoster(t, more, "a", "b", "c")
			r.c = connect(t, `{}`, built.gate, "--home", r.dir, "serve")
			list := string(r.c.result(r.c.send("tools/list", `{}`)))
			before := map[string]int{}
			held := map[string][]string{}
			for alias := range r.servers {
				before[alias] = r.pid(alias)
			}
			for alias := range r.servers {
				for range 20 {
					held[alias] = append(held[alias], r.c.begin(alias+"/hold", `{}`))
				}
			}
			until(t, "sixty calls", func() bool { return r.intents() == len(r.servers)*21 })
			r.servers["b"]["env"] = map[string]string{"WHICH": "2"}
			r.change("servers changed: b")
			if got := r.status(); !strings.Contains(got, "configuration read anew") || !strings.Contains(got, "servers changed: b") {
				t.Errorf("status does not say so: %s", got)
			}
			if env := string(r.c.call("b/env", `{}`)); !strings.Contains(env, "WHICH=2") {
				t.Errorf("the new entry is not in force: %s", env)
			}
			if r.pid("b") == before["b"] {
				t.Error("the changed server is the old process")
			}
			for _, alias := range []string{"a", "c"} {
				if got := r.pid(alias); got != before[alias] {
					t.Errorf("%s went from process %d to %d", alias, before[alias], got)
				}
				r.c.call(alias+"/release", `{}`)
				for _, id := range held[alias] {
					r.c.result(id)
				}
			}
			lost := 0
			for _, id := range held["b"] {
				said := string(r.c.answer(id).Error)
				switch {
				case !strings.Contains(said, "its owner changed its entry in the configuration"):
					t.Errorf("a call of the changed server ended in %s", said)
				case strings.Contains(said, `"executed":"unknown"`):
					lost++
				case !strings.Contains(said, `"executed":false`): // it was written down, and had not left yet
					t.Errorf("a call of the changed server ended in %s", said)
				}
			}
			if lost == 0 {
				t.Error("no call was under way on the changed server")
			}
			until(t, "the old process to end", func() bool { return !lives(before["b"]) })
			if now := string(r.c.result(r.c.send("tools/list", `{}`))); now != list {
				t.Error("the session's list changed")
			}
		})
	}
}

func lives(pid int) bool {
	state, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err == nil && !bytes.Contains(state, []byte(") Z "))
}

// Servers come, go and become others, and what was accepted of one is not
// accepted of another.
func TestServersAreAddedAndRemovedWhileTheGateRuns(t *testing.T) {
	t.Parallel()
	r := newRoster(t, nil, "a", "b")
	r.c = connect(t, `{}`, built.gate, "--home", r.dir, "serve")
	a := r.pid("a")
	r.pid("b")

	r.servers["d"] = r.fake(nil)
	r.change("servers added: d")
	if found := string(r.c.result(r.c.send("tools/call", `{"name":"find_tools","arguments":{"query":"pid","limit":50}}`))); !strings.Contains(found, "d/pid") {
		t.Errorf("its tools are not found: %s", found)
	}
	r.pid("d")

	delete(r.servers, "d")
	delete(r.servers, "b")
	r.change("servers removed: b, d")
	if got := string(r.c.call("b/pid", `{}`)); !strings.Contains(got, "refused [unknown]") || !strings.Contains(got, "its owner took server b out of the configuration") {
		t.Errorf("a tool of a server that is gone gives %s", got)
	}
	if got := string(r.c.result(r.c.send("tools/call", `{"name":"load_tool","arguments":{"names":["b/pid"]}}`))); !strings.Contains(got, "took server b out") {
		t.Errorf("it is loaded as %s", got)
	}
	if found := string(r.c.result(r.c.send("tools/call", `{"name":"find_tools","arguments":{"query":"pid","limit":50}}`))); strings.Contains(found, "b/pid") {
		t.Errorf("its tools are found: %s", found)
	}

	// Another command under a name that was accepted is another server.
	r.servers["b"] = r.fake(map[string]any{"args": []string{"fake-mcp", "-extra", "1"}})
	r.change("servers added: b")
	if got := string(r.c.call("b/pid", `{}`)); !strings.Contains(got, "refused [held]") {
		t.Errorf("a tool of another command gives %s", got)
	}
	if _, errs, code := command(t, r.dir, "accept", "--all", "--yes"); code != 0 {
		t.Fatalf("accept: %s", errs)
	}
	until(t, "what was accepted", func() bool { return strings.Contains(string(r.c.call("b/pid", `{}`)), `"pid"`) })
	if got := r.pid("a"); got != a {
		t.Errorf("the one that nobody touched went from process %d to %d", a, got)
	}
}

// A new server that cannot be used is left out and says why; all else that was
// written holds.
func TestANewServerThatCannotBeUsedCostsNothingElse(t *testing.T) {
	t.Parallel()
	r := newRoster(t, nil, "a")
	r.c = connect(t, `{}`, built.gate, "--home", r.dir, "serve")
	a := r.pid("a")
	r.servers["my_crm"] = r.fake(map[string]any{"env": map[string]string{"KEY": "${NOWHERE_SET}"}})
	r.servers["d"] = r.fake(nil)
	r.change("servers added: d; servers left out: my-crm")
	if got := r.c.stderr.String(); !strings.Contains(got, "a server is left out") || !strings.Contains(got, "NOWHERE_SET") {
		t.Errorf("the log does not say why: %s", got)
	}
	r.pid("d")
	if got := r.pid("a"); got != a {
		t.Errorf("the one that nobody touched went from process %d to %d", a, got)
	}
	for _, name := range []string{"my-crm/pid", "my_crm/pid", "MY-CRM/pid"} {
		if got := string(r.c.call(name, `{}`)); !strings.Contains(got, "server my-crm cannot be used as its owner configured it") {
			t.Errorf("%s gives %s", name, got)
		}
	}
	if got := r.status(); !strings.Contains(got, "left out") || strings.Contains(got, "not taken up") {
		t.Errorf("status says %s", got)
	}
	r.servers["my_crm"] = r.fake(nil)
	r.change("servers added: my-crm")
	r.pid("my-crm")
}

// What an editor leaves on its way is no configuration, and a bad one changes
// nothing at all.
func TestABadConfigurationKeepsTheOldOneWhole(t *testing.T) {
	t.Parallel()
	r := newRoster(t, nil, "a", "b")
	r.c = connect(t, `{}`, built.gate, "--home", r.dir, "serve")
	a, b := r.pid("a"), r.pid("b")
	same := func() {
		t.Helper()
		if r.pid("a") != a || r.pid("b") != b {
			t.Error("a server was started anew")
		}
	}
	file := filepath.Join(r.dir, "config.jsonc")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	kept := func() int { return strings.Count(r.c.stderr.String(), "the old one stays in force") }
	for i, bad := range []string{
		"", string(good[:len(good)/2]),
		`{"servers": {"a": {"command": "x", "args": 7}, "c": {"command": "y"}}}`, // one bad entry
		`{"servers": {"a": {"command": "x"}}, "exposure": "transparent", "profiles": {"p": {"servers": ["b"]}}}`,
	} {
		r.put([]byte(bad))
		until(t, fmt.Sprintf("word of fault %d", i), func() bool { return kept() == i+1 })
		same()
		if got := r.status(); !strings.Contains(got, "configuration not taken up") {
			t.Errorf("status does not tell of fault %d: %s", i, got)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	until(t, "word of the missing file", func() bool { return strings.Contains(r.c.stderr.String(), "there is no config.jsonc any more") })
	same()
	said := kept()
	r.put(good)
	until(t, "the good one", func() bool { return strings.Contains(r.c.stderr.String(), `changes":"no server`) })
	if kept() != said {
		t.Error("what had no fault gave one")
	}
	same()
	if got := r.status(); strings.Contains(got, "not taken up") {
		t.Errorf("status tells of faults that are gone: %s", got)
	}
}
