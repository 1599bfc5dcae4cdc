package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/policy"
)

var update = flag.Bool("update", false, "rewrite golden files")

// fakeEnv is an environment of the given variables.
func fakeEnv(pairs ...string) Env {
	return func(name string) (string, bool) {
		for _, pair := range pairs {
			if k, v, _ := strings.Cut(pair, "="); k == name {
				return v, true
			}
		}
		return "", false
	}
}

// Each file holds a configuration, the environment it is read in, and what
// comes of it.
func TestParseGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/parse/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			got := dumpArchive(a)
			at := slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == "want" })
			if *update {
				if at >= 0 {
					a.Files = slices.Delete(a.Files, at, at+1)
				}
				a.Files = append(a.Files, txtar.File{Name: "want", Data: []byte(got)})
				if err := os.WriteFile(name, txtar.Format(a), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if at < 0 {
				t.Fatal("there is no section named want: run with -update")
			}
			if want := string(a.Files[at].Data); got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// dumpArchive reads every configuration of an archive and says what came of it.
func dumpArchive(a *txtar.Archive) string {
	var env []string
	var out strings.Builder
	for _, f := range a.Files {
		switch f.Name {
		case "env":
			env = strings.Fields(string(f.Data))
		case "want":
		default:
			c, notes, err := Parse(f.Name, f.Data, fakeEnv(env...))
			out.WriteString(dump(c, notes, err))
		}
	}
	return out.String()
}

func dump(c Config, notes []Note, err error) string {
	var b strings.Builder
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			fmt.Fprintf(&b, "error   %s\n", strings.TrimSuffix(line, "\n"))
		}
	}
	for _, n := range notes {
		fmt.Fprintf(&b, "note    %s\n", n)
	}
	for _, r := range c.Refused {
		for _, e := range r.Errors {
			fmt.Fprintf(&b, "refused %s: %s\n", r.Alias, e)
		}
	}
	for _, r := range c.Disabled {
		fmt.Fprintf(&b, "off     %s\n", r.Alias)
	}
	for _, s := range c.Servers {
		var launch bytes.Buffer
		enc := json.NewEncoder(&launch)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(s.Launch); err != nil {
			panic(err)
		}
		fmt.Fprintf(&b, "server  %s %s, %s by %s, timeout %s\n        %s", s.Alias, s.Transport, s.Preset, s.PresetFrom, s.Timeout, launch.String())
		for _, tool := range s.Tools {
			domains := "-"
			if tool.Domains != nil {
				domains = "[" + tool.Domains.String() + "]"
			}
			fmt.Fprintf(&b, "        tool %s: %d %d %s\n", tool.Glob, tool.Permission, tool.Egress, domains)
		}
	}
	return b.String()
}

func mustParse(t *testing.T, name, data string, env ...string) Config {
	t.Helper()
	c, _, err := Parse(name, []byte(data), fakeEnv(env...))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAnEmptyFileIsTheDefault(t *testing.T) {
	want := Default()
	for name, data := range map[string]string{
		"nothing": "", "an object": "{}", "null": "null", "a comment": "// later", "a byte order mark": "\ufeff{}", "space": " \r\n\t",
	} {
		got := mustParse(t, "", data)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	for name, data := range map[string]string{"nothing": "", "a comment": "# later\n", "a document of nothing": "---\n", "null": "~\n"} {
		want.File = "c.yaml"
		if got := mustParse(t, "c.yaml", data); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("yaml, %s: got %+v, want %+v", name, got, want)
		}
	}
}

func TestWholeFile(t *testing.T) {
	c := mustParse(t, "c.jsonc", `{
	  "preset": "workbench",
	  "servers": {"files": {"command": "f", "egress": ["metadata"], "trusted": true, "timeout": "90s", "tools": {"rm_*": {"permission": "destructive", "egress": "metadata", "domains": ["filesystem"]}}}},
	  "policy": {"allow_writes": false, "allow_source_writes": true, "egress": [], "spend": {"calls": 10, "result_bytes": null},
	    "rules": [{"do": "deny", "tools": "files/*", "args": {"/path": {"path_under": "/etc", "max_len": 9}, "/n": {"min": 12345678901234567890.5}}, "match": [{"tool": "files/rm", "args": {"path": "/etc/x", "n": 12345678901234567890.6}}], "not_match": "files/rm"}]},
	  "authority": {"autonomy": "manual"}, "gate_fallback": "deny", "exposure": "direct",
	  "profiles": {"review": {"reading": {"act": "verify", "domains": ["vcs"]}, "authority": {"attendance": "unattended"}, "servers": ["files"], "exposure": "transparent"}},
	  "approval": {"least_level": {"destructive": "L0"}}, "audit": {"keep_arguments": true}, "reader": {"bars": {"slice": 0.75}}, "log": {"level": "debug", "format": "json"}
	}`)
	check := func(what string, got, want any) {
		t.Helper()
		if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
			t.Errorf("%s: got %s, want %s", what, g, w)
		}
	}
	s, ok := c.Server("files")
	check("server", ok, true)
	check("its preset", s.Preset, policy.PresetWorkbench)
	check("its egress", s.Egress, engagement.EgressOf(engagement.Metadata))
	check("trusted, timeout", []any{s.Trusted, s.Timeout}, []any{true, 90 * time.Second})
	check("tool", s.Tool("rm_all").Permission, engagement.Destructive)
	check("egress", c.Policy.Egress.Empty(), true)
	check("writes", []bool{c.Policy.AllowWrites, c.Policy.AllowSourceWrites, c.Policy.AllowDestructive}, []bool{false, true, false})
	check("spend", []any{*c.Policy.Spend.Calls, c.Policy.Spend.ResultBytes == nil}, []any{10, true})
	check("rules", c.Policy.Rules.Len(), 1)
	check("a bound", string(c.Policy.Records[0].Args["/n"].Min), "12345678901234567890.5")
	check("where a rule stands", c.Policy.Records[0].Source, "c.jsonc:5:16")
	check("authority", c.Authority, engagement.Authority{Autonomy: engagement.AutonomyManual, Attendance: engagement.AttendanceInteractive})
	check("exposure, fallback", []any{c.Exposure, c.GateFallback}, []any{ExposureDirect, engagement.FallbackDeny})
	p, ok := c.Profile("review")
	check("profile", ok, true)
	check("its reading", []any{p.Reading.Act, p.Reading.Domains, p.Reading.Horizon}, []any{engagement.ActVerify, "vcs", engagement.HorizonTurn})
	check("its authority", *p.Authority, engagement.Authority{Autonomy: engagement.AutonomyManual, Attendance: engagement.AttendanceUnattended})
	check("its exposure, slice, servers", []any{p.Exposure, p.Slice, p.Servers}, []any{ExposureTransparent, SliceAdvise, []string{"files"}})
	check("levels", []policy.Level{c.Approval.Least(engagement.Destructive), c.Approval.Least(engagement.Read)}, []policy.Level{policy.L0, policy.L0})
	check("audit, bars, log", []any{c.Audit.KeepArguments, c.Bars, c.Log}, []any{true, engagement.Bars{Slice: 0.75, Orient: 0.2}, Log{LogDebug, LogJSON}})
}

func TestDestructiveNeedsProofUnlessLowered(t *testing.T) {
	for data, want := range map[string]policy.Level{
		`{}`:                                  policy.L1,
		`{"approval": {"least_level": "L0"}}`: policy.L0,
		`{"approval": {"least_level": {"read": "L2"}}}`:        policy.L1,
		`{"approval": {"least_level": {"destructive": "L3"}}}`: policy.L3,
	} {
		if got := mustParse(t, "c.jsonc", data).Approval.Least(engagement.Destructive); got != want {
			t.Errorf("%s: got %v, want %v", data, got, want)
		}
	}
}

func TestWhoSettlesAServersEgress(t *testing.T) {
	none, strict, workbench := engagement.EgressOf(), policy.PresetStrict.Egress(), policy.PresetWorkbench.Egress()
	for name, tt := range map[string]struct {
		top, section, entry string
		want                engagement.EgressSet
	}{
		"servers are strict":                         {``, "servers", ``, strict},
		"mcpServers are workbench":                   {``, "mcpServers", ``, workbench},
		"the gate's preset replaces the section's":   {`"preset":"strict",`, "mcpServers", ``, strict},
		"the entry's preset replaces the gate's":     {`"preset":"workbench",`, "servers", `"preset":"strict",`, strict},
		"the gate's list replaces the section's":     {`"policy":{"egress":[]},`, "mcpServers", ``, none},
		"the entry's preset replaces a list":         {`"policy":{"egress":[]},`, "mcpServers", `"preset":"strict",`, strict},
		"the entry's list replaces all":              {`"policy":{"egress":[]},`, "servers", `"preset":"strict","egress":["row_level"],`, engagement.EgressOf(engagement.RowLevel)},
		"an empty list of the entry lets none out":   {``, "mcpServers", `"egress":[],`, none},
		"the gate's list replaces the gate's preset": {`"preset":"workbench","policy":{"egress":[]},`, "servers", ``, none},
	} {
		c := mustParse(t, "c.jsonc", fmt.Sprintf(`{%s"%s":{"s":{%s"command":"x"}}}`, tt.top, tt.section, tt.entry))
		if got := c.Servers[0].Egress; got != tt.want {
			t.Errorf("%s: got [%v], want [%v]", name, got, tt.want)
		}
	}
}

func TestEveryFaultIsReported(t *testing.T) {
	_, _, err := Parse("c.jsonc", []byte(`{"taint": 1, "nope": 2, "servers": {"a": {"comand": "x", "args": [1]}}, "policy": {"rules": [{"do": "no"}, {"do": "deny", "tools": "a b"}]}}`), nil)
	var list ErrorList
	if !errors.As(err, &list) || len(list) != 6 {
		t.Fatalf("got %d faults, want 6: %v", len(list), err)
	}
	var one *Error
	if !errors.As(err, &one) || one.Pos != (Pos{1, 11}) || one.Server != "" {
		t.Errorf("got first fault %+v, want the one at 1:11", one)
	}
	if list[2].Server != "a" {
		t.Errorf("got server %q for %v, want a", list[2].Server, list[2])
	}
}

// What package policy finds wrong with a rule is reported at the key that it is
// about, for every rule; the words are that package's own.
func TestFaultsOfRulesHaveTheirPlace(t *testing.T) {
	_, _, err := Parse("c.yaml", []byte(`policy:
  rules:
    - {do: nonsense}
    - {do: deny, tools: "a b"}
    - do: deny
      args:
        path: {eq: 1}
        /empty: {}
        /regex: {regex: "("}
        /range: {min: 2, max: 1}
        /path: {path_under: relative}
    - do: deny
      tools: files/delete_*
      args: {/path: {path_under: [/etc]}}
      match:
        - {tool: files/delete_file, args: {path: /etc/passwd}}
        - {tool: files/delete_file, args: {path: /tmp/x}}
    - {do: hide, tools: files/*, not_match: files/read_file}
`), nil)
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{
		"c.yaml:3:12: policy.rules[0].do: ",
		"c.yaml:4:25: policy.rules[1].tools: ",
		"c.yaml:7:15: policy.rules[2].args.path: ",
		"c.yaml:8:17: policy.rules[2].args./empty: ",
		"c.yaml:9:25: policy.rules[2].args./regex.regex: ",
		"c.yaml:10:23: policy.rules[2].args./range.min: ",
		"c.yaml:11:29: policy.rules[2].args./path.path_under: ",
		"c.yaml:17:11: policy.rules[3].match[1]: ",
		"c.yaml:18:45: policy.rules[4].not_match",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("there is no fault %q in\n%v", want, err)
		}
	}
}

func TestFaultsAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, `"k%d":1,`, i)
	}
	_, _, err := Parse("c.jsonc", []byte("{"+b.String()+"}"), nil)
	var list ErrorList
	if !errors.As(err, &list) || len(list) != maxFaults+1 || list[maxFaults].Text != "and 4800 faults more" {
		t.Errorf("got %d faults ending in %v, want %d and a count of the rest", len(list), list[len(list)-1], maxFaults)
	}
	// Every entry keeps a fault of its own, however many there are.
	b.Reset()
	for i := range 1000 {
		fmt.Fprintf(&b, `"k%d":1,`, i)
	}
	c := mustParse(t, "c.jsonc", `{"servers":{`+b.String()+`}}`)
	for _, r := range c.Refused {
		if len(r.Errors) != 1 {
			t.Fatalf("%s: got %d faults, want 1", r.Key, len(r.Errors))
		}
	}
	if len(c.Refused) != 1000 {
		t.Errorf("got %d refused entries, want 1000", len(c.Refused))
	}
}

func TestBounds(t *testing.T) {
	deep := func(open, end string, n int) string { return strings.Repeat(open, n) + strings.Repeat(end, n) }
	for name, tt := range map[string]struct{ file, data, want string }{
		"too large":         {"c.jsonc", strings.Repeat(" ", MaxFileBytes+1), "c.jsonc:1:1: the file is larger"},
		"too deep":          {"c.jsonc", deep("[", "]", 100_000), "c.jsonc:1:33: more than 32 lists"},
		"too deep in yaml":  {"c.yaml", deep("[", "]", 100_000), "c.yaml:1:257: more than 32 lists"},
		"deep but parsed":   {"c.yaml", deep("[", "]", 40), "more than 32 lists"},
		"deep by indenting": {"c.yaml", strings.Repeat("- ", 10_000) + "a", "more than 32 lists"},
		"too many keys":     {"c.yaml", strings.Repeat("k: v\n", maxYAMLColons+1), "more than 10000 colons"},
		"too many values":   {"c.jsonc", "[" + strings.Repeat("0,", maxNodes) + "]", "more than 100000 values"},
		"brackets in text":  {"c.jsonc", `{"nope": "` + strings.Repeat("[", 1000) + `"}`, `unknown key "nope"`},
		"long text":         {"c.jsonc", `{"$schema": "` + strings.Repeat("x", maxTextBytes+1) + `"}`, "longer than 32768 bytes"},
	} {
		_, _, err := Parse(tt.file, []byte(tt.data), nil)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %.200v, want %q", name, err, tt.want)
		}
	}
}

func TestCRLFAndBOMChangeNothing(t *testing.T) {
	for name, data := range map[string]string{
		"c.jsonc": "{ // a\n  \"servers\": {\n    \"é\": 1,\n    \"a\": {\"command\": \"x\", \"nope\": 1}, /* b\n */ }, \n}",
		"c.yaml":  "# a\nservers:\n  é: 1\n  a:\n    command: x\n    nope: |\n      1\n      2\n",
	} {
		plain, _, _ := Parse(name, []byte(data), nil)
		dressed, _, err := Parse(name, []byte("\ufeff"+strings.ReplaceAll(data, "\n", "\r\n")), nil)
		if err != nil || fmt.Sprint(plain) != fmt.Sprint(dressed) {
			t.Errorf("%s: got %+v (%v), want %+v", name, dressed, err, plain)
		}
	}
}

func TestWhatAsksForNothing(t *testing.T) {
	for _, data := range []string{
		`{"taint": "off", "secrets": "off", "accept": "first-sight", "slice": "advise", "gate_fallback": "deny"}`,
		`{"artifacts": {}, "clients": {"cursor": {}}, "roots": [], "prefix": {"budget": 0}, "approval": {"alarm": 0, "notify": {"desktop": false}}}`,
		`{"servers": {"a": {"command": "x", "start": "lazy", "connection": "session", "idempotent": []}}}`,
	} {
		c, _, err := Parse("c.jsonc", []byte(data), nil)
		if err != nil || len(c.Refused) > 0 {
			t.Errorf("%s: got %v %v, want what asks for nothing to pass", data, err, c.Refused)
		}
	}
}

func TestLoadSaysWhichFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mine.yaml")
	if _, _, err := Load(path, nil); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want that %s does not exist", err, path)
	}
	if err := os.WriteFile(path, []byte("servers:\n  a: {command: x}\nnope: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := Load(path, nil)
	if want := path + `:3:1: unknown key "nope"`; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestToolSettings(t *testing.T) {
	s := mustParse(t, "c.yaml", `
servers:
  a:
    command: x
    tools:
      "*": {permission: destructive, egress: row_level, domains: [web]}
      get_*: {permission: read}
      get_secret: {egress: raw_pixels, domains: []}
      "*_x?": {permission: reversible_write}
`).Servers[0]
	for name, want := range map[string]string{
		"other":      "* destructive row_level web",
		"get_thing":  "get_* read row_level web",
		"get_secret": "get_secret read raw_pixels ",
		"a_xy":       "*_x? reversible_write row_level web",
		"get_a_xy":   "get_* read row_level web",
	} {
		got := s.Tool(name)
		if said := fmt.Sprint(got.Glob, " ", got.Permission, " ", got.Egress, " ", got.Domains.String()); said != want {
			t.Errorf("%s: got %q, want %q", name, said, want)
		}
	}
	if got := (Server{}).Tool("x"); got.Glob != "" || got.Permission != 0 {
		t.Errorf("got %+v, want nothing said", got)
	}
}

func TestGlobFits(t *testing.T) {
	for _, tt := range []struct {
		glob, name string
		want       bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "a/b", true}, {"a*", "ba", false}, {"*a", "ba", true}, {"a?c", "abc", true},
		{"a?c", "ac", false}, {"a*b*c", "axxbyyc", true}, {"a*b*c", "axxbyy", false}, {"**", "x", true}, {"?", "", false}, {"ab", "a", false},
		{"[a]", "a", false}, {"[a]", "[a]", true}, {"*b*a", "aaabaaab", false},
	} {
		if got := globFits(tt.glob, tt.name); got != tt.want {
			t.Errorf("%q on %q: got %v, want %v", tt.glob, tt.name, got, tt.want)
		}
	}
}

func TestServerID(t *testing.T) {
	id := func(entry string, env ...string) string {
		t.Helper()
		return mustParse(t, "c.jsonc", `{"servers":{"a":`+entry+`}}`, env...).Servers[0].ID()
	}
	base := id(`{"command":"x","args":["a","b"],"env":{"A":"1","B":"2"}}`)
	for name, entry := range map[string]string{
		"values of variables":     `{"command":"x","args":["a","b"],"env":{"B":"9","A":"8"}}`,
		"policy":                  `{"command":"x","args":["a","b"],"env":{"A":"1","B":"2"},"trusted":true,"timeout":"1s","cwd":"/"}`,
		"a stated type":           `{"type":"stdio","command":"x","args":["a","b"],"env":{"A":"1","B":"2"}}`,
		"a variable's own value ": `{"command":"x","args":["a","b"],"env":{"A":"${A}","B":"2"}}`,
	} {
		if got := id(entry, "A=1"); got != base {
			t.Errorf("%s changed the id", name)
		}
	}
	seen := map[string]string{"": base}
	for _, entry := range []string{
		`{"command":"y","args":["a","b"],"env":{"A":"1","B":"2"}}`,
		`{"command":"x","args":["b","a"],"env":{"A":"1","B":"2"}}`,
		`{"command":"x","args":["ab"],"env":{"A":"1","B":"2"}}`,
		`{"command":"x","args":["a"],"env":{"b":"1","A":"1","B":"2"}}`,
		`{"command":"x","args":["a","b"],"env":{"A":"1"}}`,
		`{"command":"x","args":["a","b","A","B"]}`,
		`{"command":"xa","args":["b"],"env":{"A":"1","B":"2"}}`,
		`{"command":"~/x"}`, `{"command":"${X:-x}"}`,
		`{"url":"http://x/a"}`, `{"url":"http://x/b"}`, `{"url":"http://x/a","type":"sse"}`,
	} {
		got := id(entry)
		for other, known := range seen {
			if got == known {
				t.Errorf("%s and %s have one id", entry, other)
			}
		}
		seen[entry] = got
	}
	if got := id(`{"command":"${X}"}`, "X=1"); got != id(`{"command":"${X}"}`, "X=2") {
		t.Error("the id depends on a variable's value")
	}
	if len(base) != 64 {
		t.Errorf("got an id of %d digits, want 64", len(base))
	}
}
