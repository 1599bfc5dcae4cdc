package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// lateServer builds the server of e2e/late, once.
var lateServer = sync.OnceValues(func() (string, error) {
	out := filepath.Join(filepath.Dir(built.gate), "late")
	cmd := exec.Command("go", "build", "-o", out, "./e2e/late")
	cmd.Dir = ".."
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./e2e/late: %w\n%s", err, text)
	}
	return out, nil
})

// A stand is a home whose servers start when the test says, or not at all.
// The servers are the same ones in every way that the gate can tell.
type stand struct {
	*rig
	dir     string // has what the servers need
	program string
	servers map[string]standing // by key
	random  *rand.Rand
	token   string
}

// standing is a server of a stand.
type standing struct {
	alias string
	args  []string
	read  string // a tool that can be called without asking anybody
}

func newStand(t *testing.T) *stand {
	t.Helper()
	program, err := lateServer()
	if err != nil {
		t.Fatal(err)
	}
	s := &stand{rig: &rig{t: t}, dir: t.TempDir(), program: program, servers: map[string]standing{}, random: rand.New(rand.NewPCG(4, 2))}
	return s
}

func (s *stand) at(name string) string { return filepath.Join(s.dir, name) }

// put writes a file of a server's.
func (s *stand) put(name, text string) string {
	s.t.Helper()
	if err := os.WriteFile(s.at(name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return s.at(name)
}

// sample adds one of the sample servers.
func (s *stand) sample(key, alias, kind, read string) {
	s.add(key, alias, read, "-sample", kind, "-dir", s.at(alias))
}

// fake adds a server whose definitions and instructions are files.
func (s *stand) fake(key, alias, read, tools, instructions string) {
	s.add(key, alias, read, "--", "-list", s.put(alias+".list", tools), "-init", s.put(alias+".init", handshakeOf(instructions)))
}

func handshakeOf(instructions string) string {
	return string(strictjson.AppendString([]byte(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"fake","version":"1"},"instructions":`), instructions)) + "}"
}

func (s *stand) add(key, alias, read string, args ...string) {
	s.servers[key] = standing{alias, append([]string{"-when", s.at(alias + ".when"), "-starts", s.at(alias + ".starts")}, args...), read}
	s.present(alias, true)
}

// present says whether the server's program is there.
func (s *stand) present(alias string, there bool) {
	s.t.Helper()
	file := s.at(alias + ".program")
	err := os.Remove(file)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	if err == nil && there {
		err = os.Symlink(s.program, file)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// when says how late a server starts: a duration, or never.
func (s *stand) when(alias, text string) { s.put(alias+".when", text) }

// keys are the servers' keys in an order of their own each time.
func (s *stand) keys() []string {
	var keys []string
	for key := range s.servers {
		keys = append(keys, key)
	}
	slices.Sort(keys) // what the seed says is what happens
	s.random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}

// write writes the same configuration with its keys in another order.
func (s *stand) write() {
	s.t.Helper()
	quoted := func(v any) string {
		raw, err := json.Marshal(v)
		if err != nil {
			s.t.Fatal(err)
		}
		return string(raw)
	}
	object := func(members []string) string {
		s.random.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		return "{" + strings.Join(members, ",") + "}"
	}
	var servers []string
	for key, server := range s.servers {
		servers = append(servers, quoted(key)+":"+object([]string{
			`"command":` + quoted(s.at(server.alias+".program")), `"args":` + quoted(server.args), `"preset":"workbench"`, `"env":{"B":"1","A":"2"}`,
		}))
	}
	slices.Sort(servers)
	config := object([]string{
		`"servers":` + object(servers),
		`"profiles":` + object([]string{`"meta":{"exposure":"meta"}`, `"direct":{"exposure":"direct"}`}),
	})
	if err := os.WriteFile(filepath.Join(s.home, "config.jsonc"), []byte(config), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// disturb shuffles what may not matter: the order of the configuration, how
// late each server starts, and where down is set, whether it starts at all. It
// returns the keys of those that will answer, at least one of them.
func (s *stand) disturb(down bool) (up []string) {
	s.write()
	for i, key := range s.keys() {
		alias := s.servers[key].alias
		s.when(alias, fmt.Sprintf("%dms", []int{0, 0, 20, 80, 250}[s.random.IntN(5)]*s.random.IntN(100)/100))
		s.present(alias, true)
		switch n := s.random.IntN(6); {
		case !down || i == 0 || n > 1:
			up = append(up, key)
		case n == 0:
			s.when(alias, "never")
		default:
			s.present(alias, false)
		}
	}
	return up
}

// freshHome has the servers seen for the first time, in whatever order they
// come, and everything accepted by that.
func (s *stand) freshHome() {
	s.t.Helper()
	s.home = home(s.t, map[string]any{})
	s.disturb(false)
	s.print("tools", "ls")
	if out, errs, code := command(s.t, s.home, "accept"); code != 0 {
		s.t.Fatalf("something is held at first sight: %s%s", out, errs)
	}
	s.token = strings.TrimSpace(s.print("token", "add", "test", "--scope", "admin", "--profiles", "*"))
}

// print is what a command of the home prints.
func (s *stand) print(args ...string) string {
	s.t.Helper()
	out, errs, code := command(s.t, s.home, args...)
	if code != 0 {
		s.t.Fatalf("mcp-gate %v: exit %d, %s", args, code, errs)
	}
	return out
}

// lock is the home's record of what was accepted.
func (s *stand) lock() string {
	s.t.Helper()
	raw, err := os.ReadFile(filepath.Join(s.home, "mcp-gate.lock"))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(raw)
}

// asker asks a running gate, and has the result.
type asker func(method, params string) json.RawMessage

// sights are the bytes that a client pays for.
type sights struct{ instructions, list, prefix string }

const (
	hello      = `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"e2e","version":"1"}}`
	prefixText = `{"name":"prefix"}`
)

// look takes them from a session that begins.
func (s *stand) look(ask asker) sights {
	s.t.Helper()
	var begun struct{ Instructions string }
	if err := json.Unmarshal(ask("initialize", hello), &begun); err != nil {
		s.t.Fatal(err)
	}
	return sights{begun.Instructions, string(ask("tools/list", `{}`)), s.prefix(ask)}
}

// prefix is what the prompt and the resource both give.
func (s *stand) prefix(ask asker) string {
	s.t.Helper()
	var prompt struct {
		Messages []struct{ Content struct{ Text string } }
	}
	var resource struct{ Contents []struct{ Text string } }
	err := errors.Join(json.Unmarshal(ask("prompts/get", prefixText), &prompt), json.Unmarshal(ask("resources/read", `{"uri":"gate://prefix"}`), &resource))
	if err != nil || len(prompt.Messages) != 1 || len(resource.Contents) != 1 {
		s.t.Fatalf("no prefix: %v", err)
	}
	text := prompt.Messages[0].Content.Text
	if text != resource.Contents[0].Text {
		s.t.Errorf("prompt and resource give different prefixes:\n%s\n%s", text, resource.Contents[0].Text)
	}
	return text
}

// overPipe starts a gate for one client.
func (s *stand) overPipe(profile string) (asker, func()) {
	s.t.Helper()
	a := s.spawn(nobody, built.gate, "--profile", profile)
	ask := func(method, params string) json.RawMessage {
		s.t.Helper()
		m, err := a.request(method, params)
		if err != nil || m.Error != nil {
			s.t.Fatalf("%s: %v%s\n%s", method, err, m.Error, a.log)
		}
		if method == "initialize" {
			a.write(jsonrpc.AppendNotification(nil, "notifications/initialized", nil))
		}
		return m.Result
	}
	return ask, a.finish
}

// overHTTP starts a gate for many; open opens a session in a profile.
func (s *stand) overHTTP() (open func(profile string) asker, end func()) {
	s.t.Helper()
	a := s.spawn(nobody, built.gate, "--http", "127.0.0.1:0")
	var url string
	s.until("gate that listens", func() bool {
		m := listening.FindStringSubmatch(a.log.String())
		if m != nil {
			url = m[1]
		}
		return m != nil
	})
	open = func(profile string) asker {
		session := ""
		return func(method, params string) json.RawMessage {
			return s.post(url+"/mcp/p/"+profile, &session, method, params)
		}
	}
	return open, func() {
		_ = a.cmd.Process.Signal(os.Interrupt) // it may have ended
		a.finish()
	}
}

func (s *stand) post(url string, session *string, method, params string) json.RawMessage {
	s.t.Helper()
	req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(jsonrpc.AppendRequest(nil, json.RawMessage("1"), method, json.RawMessage(params))))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Authorization", "Bearer "+s.token)
	if *session != "" {
		req.Header.Set("Mcp-Session-Id", *session)
		req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		*session = id
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		_, data, _ := strings.Cut(string(raw), "data: {")
		line, _, _ := strings.Cut(data, "\n")
		raw = []byte("{" + line)
	}
	m, err := jsonrpc.Parse(raw)
	if err != nil || m.Error != nil || m.Result == nil {
		s.t.Fatalf("%s: %s: %s, %v", method, resp.Status, raw, err)
	}
	return m.Result
}

// restart starts a gate, looks at once in the given profiles or in one of
// them, waits for a server to be up, and looks again.
func (s *stand) restart(i int, want map[string]sights) {
	s.t.Helper()
	up := s.disturb(true)
	wake := func(ask asker) {
		ask("tools/call", callParams(s.servers[up[0]].read, `{}`)) // whatever becomes of it, its server has shown its tools by then
	}
	check := func(when, profile string, got sights) {
		s.t.Helper()
		if w := want[profile]; got != w {
			s.t.Fatalf("restart %d, %s, %s, %d servers up: other bytes\n%s", i, profile, when, len(up), difference(w, got))
		}
	}
	if i%2 == 0 {
		open, end := s.overHTTP()
		defer end()
		first := open("direct")
		check("first", "direct", s.look(first))
		check("first", "meta", s.look(open("meta")))
		wake(first)
		check("then", "direct", s.look(open("direct")))
		check("then", "meta", s.look(open("meta")))
		return
	}
	profile := []string{"direct", "meta"}[i/2%2]
	ask, end := s.overPipe(profile)
	defer end()
	got := s.look(ask)
	check("first", profile, got)
	wake(ask)
	check("then", profile, sights{got.instructions, string(ask("tools/list", `{}`)), s.prefix(ask)})
}

// difference shows what differs, by lines.
func difference(was, now sights) string {
	var b strings.Builder
	for _, part := range []struct{ name, was, now string }{
		{"instructions", was.instructions, now.instructions}, {"tools/list", strings.Join(definitions(was.list), "\n"), strings.Join(definitions(now.list), "\n")}, {"prefix", was.prefix, now.prefix},
	} {
		gone, came := changes(strings.Split(part.was, "\n"), strings.Split(part.now, "\n"))
		fmt.Fprintf(&b, "%s (%d and %d bytes):\n-%s\n+%s\n", part.name, len(part.was), len(part.now), strings.Join(gone, "\n-"), strings.Join(came, "\n+"))
	}
	return b.String()
}

// definitions are the elements of a list of tools, as they stand in it.
func definitions(list string) []string {
	var l struct{ Tools []json.RawMessage }
	_ = json.Unmarshal([]byte(list), &l) // what is no list differs from every list
	all := make([]string, len(l.Tools))
	for i, raw := range l.Tools {
		all[i] = string(raw)
	}
	return all
}

// changes are the lines that are in one text only.
func changes(was, now []string) (gone, came []string) {
	without := func(from, of []string) []string {
		return slices.DeleteFunc(slices.Clone(from), func(line string) bool { return slices.Contains(of, line) })
	}
	return without(was, now), without(now, was)
}

// Tools of the fake server that reads: the names are its own.
const notesTools = `{"tools":[{"name":"lists","description":"Count the lists of notes","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},` +
	`{"name":"echo","description":"Read a note out","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"x-kept": 1.0}]}`

// sixServers is a stand of six, of which two have the same tools and two have
// keys that are no aliases.
func sixServers(t *testing.T) *stand {
	s := newStand(t)
	s.sample("files", "files", "files", "files/list_directory")
	s.sample("papers", "papers", "files", "papers/list_directory")
	s.sample("example.com/Tracker", "example-com-tracker", "issues", "example-com-tracker/list_issues")
	s.sample("mail", "mail", "mail", "mail/list_messages")
	s.fake("notes", "notes", "notes/lists", notesTools, "Notes have numbers.")
	s.fake("Style Guide", "style-guide", "style-guide/pid", `{"tools":[{"name":"pid","description":"Tell which page of the style guide is open","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}`, "The house style is British spelling.")
	return s
}

// stableRestarts is how often the gate is started.
func stableRestarts() int {
	if soaking() {
		return 1000
	}
	return 25
}

// Whatever the order, the delays and the failures of a start, the bytes that
// clients are given are the same.
func TestSoakRestartsMoveNoByte(t *testing.T) {
	t.Parallel()
	s := sixServers(t)
	s.freshHome()
	lock := s.lock()
	for range 3 { // nor does it matter who was seen first
		s.freshHome()
		if now := s.lock(); now != lock {
			t.Fatalf("the same servers make another record\n%s\n%s", lock, now)
		}
	}
	want := s.settledSights()
	if n := len(definitions(want["direct"].list)); n < 14+14+14+13+2+1 {
		t.Fatalf("direct exposure lists %d tools, fewer than the servers have", n)
	}
	for _, server := range s.servers {
		if !strings.Contains(want["meta"].instructions, "\n"+server.alias+": ") || !strings.Contains(want["meta"].prefix, "\n## "+server.alias+"\n") {
			t.Errorf("nothing of %s in\n%s\n%s", server.alias, want["meta"].instructions, want["meta"].prefix)
		}
	}
	for i := range stableRestarts() {
		s.restart(i, want)
	}
	for profile, w := range want {
		if printed := s.print("prefix", "--profile", profile, "--fingerprint"); printed != fmt.Sprintf("%016x\n", xxhash.Sum64String(w.prefix)) {
			t.Errorf("the fingerprint of %s is %s, and not that of the prefix", profile, printed)
		}
	}
	if now := s.lock(); now != lock {
		t.Errorf("restarts change the record of what was accepted\n%s\n%s", lock, now)
	}
}

// settledSights are the bytes of a gate whose servers all start at once.
func (s *stand) settledSights() map[string]sights {
	s.t.Helper()
	s.disturb(false)
	open, end := s.overHTTP()
	defer end()
	waker := open("direct")
	waker("initialize", hello)
	for _, server := range s.servers {
		waker("tools/call", callParams(server.read, `{}`))
	}
	return map[string]sights{"direct": s.look(open("direct")), "meta": s.look(open("meta"))}
}

// A definition that changes, a tool that comes later and another text of a
// server hold these alone, and move no byte until a person accepts them; then
// only what is that server's differs.
func TestOneServersChangeMovesItsOwnLinesOnly(t *testing.T) {
	t.Parallel()
	s := sixServers(t)
	s.freshHome()
	before := s.settledSights()
	s.put("notes.list", changedNotes)
	s.put("notes.init", handshakeOf("Notes have numbers, and colours."))
	for i := range 4 {
		s.restart(i, before)
	}
	if now := s.settledSights(); !maps.Equal(now, before) {
		t.Errorf("a change that nobody accepted moves bytes\n%s%s", difference(before["direct"], now["direct"]), difference(before["meta"], now["meta"]))
	}
	s.checkHeld()
	s.print("accept", "--all", "--yes")
	after := s.settledSights()
	for profile := range before {
		s.checkOwn(profile, before[profile], after[profile])
	}
	for i := range 4 {
		s.restart(i, after)
	}
}

const changedNotes = `{"tools":[{"name":"release","description":"Read all notes out that were put by","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},` +
	`{"name":"lists","description":"Count the lists of notes","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},` +
	`{"name":"echo","description":"Read a note out aloud","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"x-kept": 1.0}]}`

// checkHeld looks at what waits for a person, and calls on both sides of it.
func (s *stand) checkHeld() {
	s.t.Helper()
	out, errs, code := command(s.t, s.home, "accept", "--json")
	var waiting struct {
		Held []struct{ Tool, State string }
	}
	if err := json.Unmarshal([]byte(out), &waiting); err != nil || code != 3 {
		s.t.Fatalf("accept: exit %d, %v, %s%s", code, err, out, errs)
	}
	var held []string
	for _, h := range waiting.Held {
		held = append(held, h.Tool+" "+h.State)
	}
	slices.Sort(held)
	if want := []string{"notes changed", "notes/echo changed", "notes/release new"}; !slices.Equal(held, want) {
		s.t.Errorf("held are %q, want %q", held, want)
	}
	ask, end := s.overPipe("meta")
	defer end()
	ask("initialize", hello)
	for _, tool := range []string{"notes/echo", "notes/release"} {
		if got := ask("tools/call", callParams(tool, `{}`)); !bytes.Contains(got, []byte("refused [held]")) {
			s.t.Errorf("%s gives %s", tool, got)
		}
	}
	for _, server := range s.servers { // notes/lists among them
		if got := ask("tools/call", callParams(server.read, `{}`)); bytes.Contains(got, []byte("refused")) {
			s.t.Errorf("%s is held by the change of another tool: %s", server.read, got)
		}
	}
}

// checkOwn reports a difference that is not one of the server notes.
func (s *stand) checkOwn(profile string, was, now sights) {
	s.t.Helper()
	gone, came := changes(strings.Split(was.instructions, "\n"), strings.Split(now.instructions, "\n"))
	if !slices.Equal(gone, []string{"notes: Notes have numbers."}) || !slices.Equal(came, []string{"notes: Notes have numbers, and colours."}) {
		s.t.Errorf("%s: the instructions lose %q and gain %q", profile, gone, came)
	}
	gone, came = changes(outside(was.prefix, "notes"), outside(now.prefix, "notes"))
	if len(gone)+len(came) > 0 || was.prefix == now.prefix {
		s.t.Errorf("%s: beside notes the catalogue loses %q and gains %q", profile, gone, came)
	}
	gone, came = changes(definitions(was.list), definitions(now.list))
	if profile == "meta" {
		if len(gone)+len(came) > 0 {
			s.t.Errorf("the meta tools lose %q and gain %q", gone, came)
		}
		return
	}
	if len(gone) != 1 || len(came) != 2 {
		s.t.Errorf("the list loses %q and gains %q", gone, came)
	}
	for _, d := range append(gone, came...) {
		if !strings.Contains(d, `"notes_`) {
			s.t.Errorf("a definition differs that is not of notes: %s", d)
		}
	}
}

// outside is a prefix without the part of one server, by lines.
func outside(prefix, alias string) []string {
	var lines []string
	own := false
	for _, line := range strings.Split(prefix, "\n") {
		if head, ok := strings.CutPrefix(line, "## "); ok {
			name, _, _ := strings.Cut(head, " ") // the mark of its bytes follows
			own = name == alias
		}
		if !own {
			lines = append(lines, line)
		}
	}
	return lines
}

// What was accepted is answered with before any server is up: one that never
// answers its handshake and one that is gone cost the first list nothing, and
// neither do all of them.
func TestAColdStartAnswersFromTheRecord(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	const servers = 20
	for i := range servers {
		alias := fmt.Sprintf("s%02d", i)
		s.fake(alias, alias, alias+"/lists", strings.ReplaceAll(notesTools, "note", alias+" note"), "Serves "+alias+".")
	}
	s.freshHome()
	want := s.settledSights()
	if n := strings.Count(want["direct"].list, `{"name":"s`); n != 2*servers {
		t.Fatalf("%d definitions in the list of %d servers with two tools each", n, servers)
	}
	for _, tt := range []struct {
		name  string
		never int // servers that never answer; one more is gone
	}{{"one hangs and one is gone", 1}, {"no server is ever up", servers - 1}} {
		for _, profile := range []string{"direct", "meta"} {
			s.write()
			for i := range servers {
				alias := fmt.Sprintf("s%02d", i)
				s.present(alias, i != 0)
				s.when(alias, "0s")
				if 0 < i && i <= tt.never {
					s.when(alias, "never")
				}
				if err := os.Remove(s.at(alias + ".starts")); err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
			}
			s.checkCold(tt.name+", "+profile, profile, want[profile])
			if begun, err := filepath.Glob(s.at("*.starts")); err != nil || tt.never == servers-1 && len(begun) > 0 {
				t.Errorf("%s, %s: %q are up, which should not be, %v", tt.name, profile, begun, err)
			}
		}
	}
}

// checkCold asks a gate that has just started. A call of a server that never
// answers was there first and waits for it as long as a gate waits for any
// server: who is answered before it has not waited.
func (s *stand) checkCold(name, profile string, want sights) {
	s.t.Helper()
	a := s.spawn(nobody, built.gate, "--profile", profile)
	defer a.kill()
	var call <-chan jsonrpc.Message
	ask := func(method, params string) json.RawMessage {
		s.t.Helper()
		m, err := a.request(method, params)
		if err != nil || m.Error != nil {
			s.t.Fatalf("%s: %s: %v%s\n%s", name, method, err, m.Error, a.log)
		}
		if method == "initialize" {
			a.write(jsonrpc.AppendNotification(nil, "notifications/initialized", nil))
			_, call = a.begin("tools/call", callParams("s01/lists", `{}`))
		}
		return m.Result
	}
	got := s.look(ask)
	select {
	case m := <-call:
		s.t.Errorf("%s: a list waited for a server as long as a call did, which gives %s%s", name, m.Result, m.Error)
	default:
	}
	if got != want {
		s.t.Errorf("%s: other bytes\n%s", name, difference(want, got))
	}
}
