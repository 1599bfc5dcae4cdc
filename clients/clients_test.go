package clients

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write the golden parts of the archives instead of comparing them")

// TestFiles reads each archive under testdata/read: the first file is another
// program's, named as it is called there, "want" is what is made of it.
func TestFiles(t *testing.T) {
	archives, err := filepath.Glob("testdata/read/*.txtar")
	if err != nil || len(archives) < 10 {
		t.Fatalf("found %d archives, want all of them (%v)", len(archives), err)
	}
	for _, file := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			golden(t, file, func(a *txtar.Archive) string {
				o := Options{Executable: "/opt/bin/renamed-gate", GOOS: "linux", Secret: func(id string) string { return id + "-1" }}
				for line := range strings.Lines(string(a.Comment)) {
					if dir, ok := strings.CutPrefix(line, "folder: "); ok {
						o.Folder = strings.TrimSpace(dir)
					}
				}
				return describe(Read(a.Files[0].Name, a.Files[0].Data, o))
			})
		})
	}
}

// golden compares the part "want" of an archive, which is its last.
func golden(t *testing.T, file string, got func(*txtar.Archive) string) {
	t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out := got(a)
	last := &a.Files[len(a.Files)-1]
	if last.Name != "want" {
		a.Files = append(a.Files, txtar.File{Name: "want"})
		last = &a.Files[len(a.Files)-1]
	}
	if *update {
		last.Data = []byte(out)
		if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want := string(last.Data); out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
}

// describe writes a reading for a golden file.
func describe(r Reading, err error) string {
	if err != nil {
		return err.Error() + "\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "client %q\n", r.Client)
	for _, in := range r.Inputs {
		fmt.Fprintf(&b, "input %s %s password=%v default=%q options=%q\n", in.ID, in.Kind, in.Password, in.Default, in.Options)
	}
	for _, s := range r.Servers {
		fmt.Fprintf(&b, "%d:%d %s -> %s (%s)\n", s.Pos.Line, s.Pos.Col, s.Key, s.Preset, s.Why)
		if s.Scope != "" {
			fmt.Fprintf(&b, "  project %s\n", s.Scope)
		}
		for _, f := range fieldsOf(s, "") {
			fmt.Fprintf(&b, "  %s: %s\n", f.key, f.json)
		}
		if s.Startup > 0 {
			fmt.Fprintf(&b, "  startup: %v\n", s.Startup)
		}
		if len(s.Needs)+len(s.Vars) > 0 {
			fmt.Fprintf(&b, "  needs %q, variables %q\n", s.Needs, s.Vars)
		}
		for _, n := range s.Notes {
			fmt.Fprintf(&b, "  note: %s\n", n)
		}
	}
	for _, l := range r.Left {
		fmt.Fprintf(&b, "left (%s) %v\n", l.Kind, l)
	}
	return b.String()
}

// TestEdits applies each archive under testdata/edit: "ours" (or ours.yaml) is
// this product's file, "theirs.json" is imported; its comment may say replace.
func TestEdits(t *testing.T) {
	archives, err := filepath.Glob("testdata/edit/*.txtar")
	if err != nil || len(archives) < 6 {
		t.Fatalf("found %d archives, want all of them (%v)", len(archives), err)
	}
	for _, file := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			golden(t, file, func(a *txtar.Archive) string {
				out, err := imported(a.Files[0].Name, a.Files[0].Data, a.Files[1].Data, strings.Contains(string(a.Comment), "replace"))
				if err != nil {
					return "error: " + err.Error() + "\n"
				}
				again, err := imported(a.Files[0].Name, out, a.Files[1].Data, false)
				if err != nil || !bytes.Equal(again, out) {
					t.Errorf("a second import changes the file (%v):\n%s", err, again)
				}
				return string(out)
			})
		})
	}
}

func imported(name string, ours, theirs []byte, replace bool) ([]byte, error) {
	r, err := Read("theirs.json", theirs, Options{GOOS: "linux"})
	if err != nil {
		return nil, err
	}
	target, err := OpenTarget(name, ours)
	if err != nil {
		return nil, err
	}
	return target.Apply(target.Plan(r.Servers, PlanOptions{Replace: replace}))
}

func TestLineEndsAndMarksOfOurFileStay(t *testing.T) {
	ours := "\ufeff{\r\n  // mine\r\n  \"servers\": {\r\n    \"a\": {\"command\": \"x\"}, // one\r\n  },\r\n}\r\n"
	out, err := imported("config.jsonc", []byte(ours), []byte(`{"mcpServers":{"b":{"command":"y"}}}`), false)
	if err != nil {
		t.Fatal(err)
	}
	want := "\ufeff{\r\n  // mine\r\n  \"servers\": {\r\n    \"a\": {\"command\": \"x\"}, // one\r\n    \"b\": {\r\n      \"command\": \"y\",\r\n      \"preset\": \"workbench\"\r\n    },\r\n  },\r\n}\r\n"
	if string(out) != want {
		t.Errorf("got\n%q\nwant\n%q", out, want)
	}
}

func TestEncodingsAreRead(t *testing.T) {
	plain := `{"mcpServers":{"a":{"command":"x","args":["ü"]}}}`
	utf16le := []byte{0xff, 0xfe}
	for _, r := range plain {
		utf16le = append(utf16le, byte(r), byte(r>>8))
	}
	for name, data := range map[string][]byte{
		"byte order mark": []byte("\ufeff" + plain), "CRLF": []byte(strings.ReplaceAll(plain, "{", "{\r\n")),
		"UTF-16": utf16le, "a comment that no line ends": []byte(plain + " // end"), "a trailing comma": []byte(strings.Replace(plain, "]}}", "],},}", 1)),
	} {
		r, err := Read("x.json", data, Options{})
		if err != nil || len(r.Servers) != 1 || !slices.Equal(r.Servers[0].Args, []string{"ü"}) {
			t.Errorf("%s: got %+v, %v", name, r.Servers, err)
		}
	}
}

func TestAFileThatCannotBeReadSaysWhere(t *testing.T) {
	for name, c := range map[string]struct {
		data string
		want string
	}{
		"x.json":       {"{\n  \"mcpServers\": {\n    \"a\" 1}}", "x.json:3:9: "},
		"x.toml":       {"a = 1\n[b\n", "x.toml:2:3: "},
		"x.yaml":       {"a:\n  - b\n c: [", "x.yaml:"},
		"deep.json":    {strings.Repeat("[", 5000), "deep.json:1:201: more than 200"},
		"deep.yaml":    {strings.Repeat("[", 5000), "deep.yaml:1:"},
		"deep.toml":    {"a = " + strings.Repeat("[", 5000), "deep.toml:1:"},
		"binary.json":  {"{\"a\": \"\xff\"}", "binary.json:1:8: the file is not UTF-8"},
		"odd.json":     {"\xff\xfea", "odd.json:1:1: the file is UTF-16"},
		"unclosed.md":  {"/* ", "unclosed.md:1:"},
		"secrets.json": {"{\"key\": \"hunter2hunter2\" \"b\"}", "secrets.json:1:"},
	} {
		_, err := Read(name, []byte(c.data), Options{})
		var bad *SyntaxError
		if !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error has a value in it: %v", name, err)
		}
	}
}

func TestNothingOfAnOwnFileThatCannotBeReadIsWritten(t *testing.T) {
	for _, data := range []string{"{", "[]", "{\"servers\": [1]", "\xff"} {
		if target, err := OpenTarget("config.jsonc", []byte(data)); err == nil {
			t.Errorf("%q is opened as %+v", data, target)
		}
	}
	target, err := OpenTarget("config.jsonc", []byte(`{"servers": "none"}`))
	if err != nil {
		t.Fatal(err)
	}
	plan := target.Plan([]Server{{Key: "a", Endpoint: Endpoint{Command: "x"}}}, PlanOptions{})
	if out, err := target.Apply(plan); err == nil {
		t.Errorf("got %s", out)
	}
}

func TestOwnEntryIsKnownThroughItsWrappers(t *testing.T) {
	dir := t.TempDir()
	self := filepath.Join(dir, "renamed")
	if err := os.WriteFile(self, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	e := func(words ...string) Endpoint { return Endpoint{Command: words[0], Args: words[1:]} }
	own := []Endpoint{
		e("mcp-gate", "serve"), e("mcp-gate"), e("/usr/local/bin/mcp-gate", "--home", "/x", "serve"), e(`C:\Tools\mcp-gate.exe`, "serve"),
		e(self, "serve"), e(link, "serve", "--config", "x"),
		e("npx", "-y", "mcp-gate", "serve"), e("npx", "-y", "@acme/mcp-gate@1.2.3", "serve"), e("npx", "--package=mcp-gate", "mcp-gate", "serve"),
		e("npx", "-p", "mcp-gate", "-c", "mcp-gate serve"), e("pnpm", "dlx", "mcp-gate"), e("uvx", "--from", "mcp-gate"), e("go", "run", "github.com/mcp-gate/mcp-gate/cmd/mcp-gate@latest", "serve"),
		e("docker", "run", "-i", "--rm", "-v", "/a:/b", "ghcr.io/mcp-gate/mcp-gate:1.0", "serve"), e("podman", "run", "localhost:5000/mcp-gate"),
		e("cmd", "/c", "npx", "-y", "mcp-gate"), e("cmd.exe", "/C", "mcp-gate.cmd", "serve"), e("sh", "-c", "cd /tmp && exec mcp-gate serve"), e("bash", "-lc", "HOME=/x 'mcp-gate' serve"),
		e("env", "A=b", "mcp-gate", "serve"), e("sudo", "-n", "mcp-gate", "serve"), e("sudo", "-u", "me", "mcp-gate"), e("nice", "-n", "10", "mcp-gate", "serve"),
		e("nohup", "mcp-gate", "serve"), e("/usr/bin/nohup", self, "serve"), e("timeout", "-k", "5", "1h", "npx", "mcp-gate"),
		e("ssh", "-p", "22", "-T", "me@host", "mcp-gate", "serve"), e("ssh", "host", "cd /x && exec mcp-gate serve"), e("nohup", "ssh", "-i", "~/.ssh/id", "host", "/opt/mcp-gate serve"),
		{Command: "python3", Args: []string{"wrapper.py"}, Env: []Pair{{"MCP_GATE_HOME", "/x"}}},
	}
	for _, o := range own {
		if !isOwn(o, self) {
			t.Errorf("%v is not recognised", append([]string{o.Command}, o.Args...))
		}
	}
	others := []Endpoint{
		e("npx", "-y", "@modelcontextprotocol/server-filesystem", "/home/me/mcp-gate"), e("python3", "server.py", "serve", "mcp-gate"),
		e("docker", "run", "-v", "/src/mcp-gate:/data", "mcp/files"), e("docker", "run", "--name", "mcp-gate", "other/image"),
		e("mcp-gate", "sample", "issues"), e("mcp-gateway", "run"), e("sh", "-c", "cat mcp-gate.log; other"), e("git", "-C", "mcp-gate", "log"),
		e("ssh", "mcp-gate", "other"), e("ssh", "-l", "mcp-gate", "host", "other"), e("sudo", "-u", "mcp-gate", "other"), e("nohup", "cat", "mcp-gate"), {URL: "https://mcp-gate.example/mcp"},
	}
	for _, o := range others {
		if isOwn(o, self) {
			t.Errorf("%v %v is taken for the gate", o.Command, o.Args)
		}
	}
}

func TestPreviewHidesSecrets(t *testing.T) {
	const secret = "hunter2"
	for _, args := range [][]string{
		{"--api-key", secret}, {"--token=" + secret}, {"-e", "ANY=" + secret}, {"--header", "X-Key: " + secret}, {"-H", "Authorization: Bearer " + secret},
		{"Authorization:" + secret}, {"https://me:" + secret + "@h.test/x"}, {"https://h.test/mcp?key=" + secret}, {"postgresql://u:" + secret + "@db/x"},
		{"--url=postgres://u:" + secret + "@db/x"}, {"sk-" + secret + "aaaaaaaa"}, {"ghp_" + secret + "0000000"}, {secret + "0123456789abcdefghijk"}, {"PASSWORD=" + secret}, {"--password", secret},
		{"--dsn", "server=" + secret}, {"--config={\"k\":\"sk-" + secret + "aaaa\"}"},
	} {
		if shown := strings.Join(ShownArgs(args), " "); strings.Contains(shown, secret) {
			t.Errorf("%q is shown as %q", args, shown)
		}
	}
	for _, c := range []struct{ in, want string }{
		{"-y", "-y"}, {"@modelcontextprotocol/server-github", "@modelcontextprotocol/server-github"}, {"/home/me/data", "/home/me/data"}, {"--port=8080", "--port=8080"},
		{"https://h.test/mcp", "https://h.test/mcp"}, {"--token=${TOKEN}", "--token=${TOKEN}"}, {"a~b", "a~b"},
	} {
		if got := ShownArgs([]string{c.in})[0]; got != c.want {
			t.Errorf("%q is shown as %q, want %q", c.in, got, c.want)
		}
	}
	for in, want := range map[string]string{"${T}": "${T}", "Bearer ${env:T}": "Bearer ${env:T}", "plain": hidden, "${T:-secret}": hidden, "x${T}": hidden} {
		if got := ShownValue(in); got != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
}

func TestPresets(t *testing.T) {
	for _, c := range []struct {
		s    Server
		want string
	}{
		{Server{Key: "files", Endpoint: Endpoint{Command: "npx", Args: []string{"-y", "@modelcontextprotocol/server-filesystem", "/data/mail"}}}, Workbench},
		{Server{Key: "pg", Endpoint: Endpoint{Command: "npx", Args: []string{"-y", "@modelcontextprotocol/server-postgres", "postgres://x"}}}, Strict},
		{Server{Key: "x", Endpoint: Endpoint{Command: "uvx", Args: []string{"mcp-server-sqlite", "--db-path", "/x"}}}, Strict},
		{Server{Key: "x", Endpoint: Endpoint{URL: "https://mcp.hubspot.com/mcp"}}, Strict},
		{Server{Key: "Gmail"}, Strict},
		{Server{Key: "playwright", Endpoint: Endpoint{Command: "npx", Args: []string{"@playwright/mcp@latest"}}}, Workbench},
		{Server{Key: "context7", Endpoint: Endpoint{URL: "https://mcp.context7.com/mcp"}}, Workbench},
		{Server{Key: "thread", Endpoint: Endpoint{Command: "hrtool"}}, Workbench},
	} {
		if got, why := propose(c.s); got != c.want {
			t.Errorf("%+v: got %s (%s), want %s", c.s, got, why, c.want)
		}
	}
}

func TestPlacesOfEveryClient(t *testing.T) {
	env := func(name string) (string, bool) {
		v, ok := map[string]string{"HOME": "/h", "USERPROFILE": "/h", "APPDATA": "/ad", "LOCALAPPDATA": "/lad", "CODEX_HOME": "/cx"}[name]
		return v, ok
	}
	for _, goos := range []string{"linux", "darwin", "windows"} {
		for _, c := range All() {
			if c.Checked == "" || c.Name == "" {
				t.Errorf("%s: who it is and when that was checked is not said", c.ID)
			}
			files := c.Files(env, goos, "/p")
			if len(files) == 0 && !(c.ID == "amp") {
				t.Errorf("%s has no file on %s", c.ID, goos)
			}
			for _, f := range files {
				if strings.ContainsAny(f.Path, "{}") || !strings.HasPrefix(f.Path, "/") {
					t.Errorf("%s on %s: %s", c.ID, goos, f.Path)
				}
			}
		}
	}
	codex, err := Find("codex")
	if err != nil {
		t.Fatal(err)
	}
	want := []File{{"/cx/config.toml", "user"}, {"/h/.codex/config.toml", "user"}, {"/p/.codex/config.toml", "project"}}
	if got := codex.Files(env, "linux", "/p"); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if _, err := Find("netscape"); err == nil || !strings.Contains(err.Error(), "cursor, vscode") {
		t.Errorf("got %v", err)
	}
	for _, c := range All() { // in the home folder the two are one
		seen := map[string]bool{}
		for _, f := range c.Files(env, "linux", "/h") {
			if seen[f.Path] {
				t.Errorf("%s: %s would be read twice", c.ID, f.Path)
			}
			seen[f.Path] = true
		}
	}
}

func TestPlan(t *testing.T) {
	ours := `{"servers": {"gh": {"command": "npx", "args": ["gh"], "env": {"T": "${T}"}}, "old": {"command": "a"}}}`
	target, err := OpenTarget("config.jsonc", []byte(ours))
	if err != nil {
		t.Fatal(err)
	}
	servers := []Server{
		{Key: "GH", File: "0", Client: "cursor", Endpoint: Endpoint{Command: "npx", Args: []string{"gh"}, Env: []Pair{{"T", "${T}"}}}},
		{Key: "github", File: "0", Client: "cursor", Endpoint: Endpoint{Command: "npx", Args: []string{"gh"}, Env: []Pair{{"T", "${T}"}}}},
		{Key: "old", Client: "cursor", Endpoint: Endpoint{Command: "b"}},
		{Key: "new", Client: "cursor", File: "1", Endpoint: Endpoint{Command: "n", Env: []Pair{{"A", "1"}}}},
		{Key: "new", Client: "vscode", File: "2", Endpoint: Endpoint{Command: "n", Env: []Pair{{"A", "2"}}}},
		{Key: "new", Client: "zed", File: "3", Endpoint: Endpoint{Command: "n", Env: []Pair{{"A", "1"}}}},
		{Key: "--", File: "4", Endpoint: Endpoint{Command: "m"}},
		{Key: "one", File: "5", Endpoint: Endpoint{Command: "o"}},
		{Key: "two", File: "5", Endpoint: Endpoint{Command: "o"}},
		{Key: "three", File: "6", Endpoint: Endpoint{Command: "o"}},
	}
	var got []string
	for _, i := range target.Plan(servers, PlanOptions{}).Items {
		got = append(got, i.Name+" "+string(i.Action))
	}
	want := []string{"gh same", "github same", "old keep", "new add", "new-vscode add", "new same", "-- skip", "one add", "two add", "three same"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	p := target.Plan(servers, PlanOptions{Replace: true, Preset: Strict})
	if p.Items[2].Action != Replace || p.Items[2].Server.Preset != Strict {
		t.Errorf("got %+v", p.Items)
	}
}

func FuzzRead(f *testing.F) {
	for _, name := range []string{"a.json", "a.toml", "a.yaml"} {
		f.Add(name, []byte(`{"mcpServers":{"a":{"command":"x","args":["${input:a}","~"],"env":{"A":1}}},"inputs":[{"id":"a"}]}`))
	}
	f.Add("config.toml", []byte("[mcp_servers.a]\ncommand='x'\nenv_vars=['A']\n[mcp_servers.b]\nurl='http://x'"))
	f.Add("g.yaml", []byte("extensions:\n  a: &x {cmd: b, type: stdio}\n  c: *x\n"))
	f.Add("z.json", []byte(`{"context_servers":{"a":{"command":{"path":"x"}}}}`))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		r, err := Read(name, data, Options{GOOS: "linux", Secret: func(string) string { return "s" }})
		if err != nil {
			return
		}
		target, err := OpenTarget("config.jsonc", []byte("{ // mine\n  \"servers\": {\"x\": {\"command\": \"y\"}} }"))
		if err != nil {
			t.Fatal(err)
		}
		plan := target.Plan(r.Servers, PlanOptions{})
		out, err := target.Apply(plan)
		if err != nil {
			t.Fatal(err)
		}
		next, err := OpenTarget("config.jsonc", out)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, out)
		}
		if again := next.Plan(r.Servers, PlanOptions{}); again.Changes() {
			t.Fatalf("importing twice changes the file:\n%s\n%+v", out, again)
		}
	})
}
