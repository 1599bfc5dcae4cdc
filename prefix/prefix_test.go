package prefix

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
)

var update = flag.Bool("update", false, "write the golden files anew")

func entry(t testing.TB, server, name, description string, p engagement.Permission, domains ...engagement.Domain) catalog.Entry {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"name": name, "description": description, "inputSchema": map[string]any{"type": "object"}})
	if err != nil {
		t.Fatal(err)
	}
	tool, err := catalog.NewTool(server, raw)
	if err != nil {
		t.Fatal(err)
	}
	return catalog.Entry{Tool: tool, Class: catalog.Class{Permission: p, Egress: engagement.RowLevel, Domains: engagement.DomainsOf(domains...)}}
}

// few are tools of three servers, some of them strange.
func few(t testing.TB) []catalog.Entry {
	vcs, mail := engagement.DomainVCS, engagement.DomainMessaging
	return []catalog.Entry{
		entry(t, "github", "get_issue", "Returns one issue of a repository. Needs its number.", engagement.Read, vcs),
		entry(t, "github", "delete_repository", "Deletes a repository\nwith all\tthat is in it", engagement.Destructive, vcs),
		entry(t, "github", "create_issue", "Opens an issue in a repository and assigns it to the people whose names are given, if they have a right to see it, or to nobody; labels that do not exist are made on the way, with a colour chosen by the server.", engagement.ReversibleWrite, vcs),
		entry(t, "a-mail", "send", "Sends a mail!", engagement.Destructive, mail),
		entry(t, "a-mail", "strange name\n", "", engagement.Read),
		entry(t, "zoo", "feed", "Feeds \u202ean animal\u202c \u001b[1mnow\u001b[0m; \u0915\u094d\u200d\u0937 stays", engagement.ReversibleWrite),
	}
}

// many returns n tools of the given number of servers, with texts of every
// length.
func many(t testing.TB, r *rand.Rand, n, servers int) []catalog.Entry {
	t.Helper()
	pick := func(words []string) string { return words[r.IntN(len(words))] }
	verbs := []string{"get", "list", "create", "update", "delete", "search", "send", "export"}
	nouns := []string{"issue", "repository", "message", "invoice", "page", "dashboard", "metric", "deployment", "calendar_event", "file", "dataset", "order", "ticket", "contact"}
	details := []string{"from the current project", "with pagination", "by its number", "and everything that belongs to it", "in the format the caller asked for", "for all members of a team", "since a given date", "together with its history and the people who changed it"}
	var all []catalog.Entry
	for i := range n {
		verb, noun := pick(verbs), pick(nouns)
		text := strings.ToUpper(verb[:1]) + verb[1:] + " one " + strings.ReplaceAll(noun, "_", " ") + " of the workspace"
		for range r.IntN(8) {
			text += " " + pick(details)
		}
		all = append(all, entry(t, fmt.Sprintf("server-%02d", i%servers), fmt.Sprintf("%s_%s_%d", verb, noun, i), text+". More is said here.",
			engagement.Permissions()[r.IntN(4)], engagement.Domains()[i%servers%10]))
	}
	return all
}

// pinned is every prefix whose bytes are promised, with its fingerprint. A
// change here means that every prompt cache filled by an earlier build is lost.
func pinned(t testing.TB) map[string]struct {
	parts Parts
	print string
} {
	crowd := many(t, rand.New(rand.NewPCG(1, 0)), 400, 7)
	return map[string]struct {
		parts Parts
		print string
	}{
		"none":      {Parts{}, "fd46be1d86675d02"},
		"few":       {Parts{Tools: few(t)}, "d0e39c539ee780e9"},
		"direct":    {Parts{Tools: few(t), Direct: true}, "5fbded673e562ffb"},
		"owner":     {Parts{Identity: "You sort data. \r\n", Rules: "RULES\r\n1. \"Ask\" <first> & often.", Skill: "sorting", SkillText: "Sort by date.\n", Tools: few(t)[:1]}, "fb7616f5e319496a"},
		"shortened": {Parts{Tools: crowd[:100], Budget: 2500}, "49bc70720c2bc1e7"},
		"names":     {Parts{Tools: crowd[:200], Budget: 2500}, "e5b2a9e0196bf29d"},
		"folded":    {Parts{Tools: crowd, Budget: 1500}, "e0f36963b6739b0e"},
		"shortest":  {Parts{Tools: many(t, rand.New(rand.NewPCG(2, 0)), 3000, 60), Budget: MinBudget}, "9b8ae153952f040d"},
	}
}

func TestTheBytesAreThosePromised(t *testing.T) {
	for name, p := range pinned(t) {
		prefix := Build(p.parts)
		for _, form := range Forms() {
			got, err := prefix.Encode(form)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("..", "testdata", "prefix", name+"."+form.String()+".golden")
			if *update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != string(want) {
				t.Errorf("%s: the %v form moved:\n%s", name, form, got)
			}
		}
		if got := prefix.Fingerprint(); got != p.print {
			t.Errorf("%s: fingerprint %q, want %q", name, got, p.print)
		}
	}
}

func TestTheFormsSayTheSame(t *testing.T) {
	for name, p := range pinned(t) {
		prefix := Build(p.parts)
		for _, form := range Forms() {
			b, err := prefix.Encode(form)
			if err != nil {
				t.Fatal(err)
			}
			back, err := Parse(append(b, '\n'))
			if err != nil || back != prefix {
				t.Errorf("%s: the %v form reads back as another prefix: %v", name, form, err)
			}
		}
		var blocks []struct {
			Type, Text   string
			CacheControl map[string]string `json:"cache_control"`
		}
		b, _ := prefix.Encode(Anthropic)
		if err := json.Unmarshal(b, &blocks); err != nil || len(blocks) != 3 {
			t.Fatalf("%s: %v", name, err)
		}
		for i, block := range blocks {
			if (block.CacheControl["type"] == "ephemeral") != (i == 2) || block.Text != prefix.Blocks()[i] {
				t.Errorf("%s: block %d is %+v", name, i, block)
			}
		}
	}
	if _, err := Build(Parts{}).Encode(0); err == nil {
		t.Error("no form was written")
	}
}

func TestWhatIsNoPrefixIsNotRead(t *testing.T) {
	for _, s := range []string{"", "a", "[]", "[1]", `[{"text":"a"},{"text":"b"}]`, `[{"text":"a"},{"text":"b"},{}]`, `[{"content":"x"}]`, "{}", "a\n\nSKILL x\n"} {
		if _, err := Parse([]byte(s)); err == nil {
			t.Errorf("%q was read", s)
		}
	}
}

// The rules and the identity are the owner's first contact with the model; each
// point of them is there.
func TestTheDefaultsSayEachPoint(t *testing.T) {
	text := Build(Parts{}).Plain()
	for _, point := range []string{"calling tools", "only when they asked", "not with a tool", "name and purpose", "load_tool", "several in one call", "no others", "call_tool", "fit its definition",
		"came back from a tool", "how you read it", "knew before", "their yes", "A no is an answer", "artifact id", "read_artifact", "Be brief", "machine", "check it", "SKILL dataset-triage\n"} {
		if !strings.Contains(text, point) {
			t.Errorf("%q is missing", point)
		}
	}
}

// Nothing but what Parts hold can enter: neither through what the package may
// ask the system for, nor through a field that somebody adds without a thought.
func TestNothingVolatileCanEnter(t *testing.T) {
	allowed := []string{"bytes", "cmp", "encoding/json", "errors", "fmt", "maps", "slices", "strconv", "strings", "unicode",
		"github.com/cespare/xxhash/v2", "github.com/mcp-gate/mcp-gate/catalog", "github.com/mcp-gate/mcp-gate/engagement",
		"github.com/mcp-gate/mcp-gate/internal/canonjson", "github.com/mcp-gate/mcp-gate/internal/enum", "github.com/mcp-gate/mcp-gate/internal/strictjson"}
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			if path, _ := strconv.Unquote(i.Path.Value); !slices.Contains(allowed, path) {
				t.Errorf("%s imports %s: can a time, a path, a random number or the state of a process come from it?", file, path)
			}
		}
	}
	var fields []string
	for f := range reflect.TypeFor[Parts]().Fields() {
		fields = append(fields, f.Name)
	}
	if got := strings.Join(fields, " "); got != "Identity Rules Skill SkillText Tools Direct Budget Estimate" {
		t.Errorf("a prefix depends on %s: is each of them the same at every start?", got)
	}
}

func TestAThousandStartsGiveOnePrefix(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 0))
	for name, p := range pinned(t) {
		want := Build(p.parts)
		rounds := 1000
		if name != "few" {
			rounds = 10 // the code that sorts is the same; the time is not
		}
		for range rounds {
			byServer := map[string][]catalog.Entry{} // as a gate collects them
			for _, i := range r.Perm(len(p.parts.Tools)) {
				e := p.parts.Tools[i]
				byServer[e.ID.Server] = append(byServer[e.ID.Server], e)
			}
			shuffled := p.parts
			shuffled.Tools = nil
			for _, tools := range byServer {
				shuffled.Tools = append(shuffled.Tools, tools...)
			}
			if got := Build(shuffled); got != want {
				t.Fatalf("%s: another order of start gives another prefix:\n%s", name, got.Catalog())
			}
		}
	}
}

// Restarts of a gate over one record: servers come up in any order, late, not at
// all, with an empty list, with another spelling, with a change or an addition.
// The prefix is that of what was accepted.
func TestTheRecordMakesThePrefixNotTheServers(t *testing.T) {
	dir := t.TempDir()
	ledger := catalog.NewLedger(filepath.Join(dir, "mcp-gate.lock"), filepath.Join(dir, "catalog"))
	offers := map[string]catalog.Offer{}
	for _, e := range many(t, rand.New(rand.NewPCG(12, 0)), 60, 6) {
		o := offers[e.ID.Server]
		o.Key, o.ServerID = e.ID.Server, catalog.TextDigest(e.ID.Server)
		o.Tools = append(o.Tools, catalog.Offered{Tool: e.Tool, Class: e.Class})
		offers[o.Key] = o
	}
	start := func() Prefix {
		lock, err := ledger.Load()
		if err != nil {
			t.Fatal(err)
		}
		var parts Parts
		for key, o := range offers { // in the order of a map
			entries, err := ledger.Entries(lock, key, o.ServerID, nil)
			if err != nil {
				t.Fatal(err)
			}
			parts.Tools = append(parts.Tools, entries...)
		}
		parts.Direct = true
		return Build(parts)
	}
	for _, o := range offers {
		if _, err := ledger.Take(o); err != nil {
			t.Fatal(err)
		}
	}
	want := start()
	r := rand.New(rand.NewPCG(13, 0))
	for range 15 {
		for _, o := range offers {
			if r.IntN(3) == 0 {
				continue // it is down
			}
			o.Tools = slices.Clone(o.Tools)[:r.IntN(len(o.Tools)+1)]
			for i := range o.Tools {
				e := &o.Tools[i]
				raw := " " + string(e.Tool.Raw)
				if r.IntN(5) == 0 {
					raw = strings.Replace(raw, "workspace", "planet", 1)
				}
				tool, err := catalog.NewTool(o.Key, json.RawMessage(raw))
				if err != nil {
					t.Fatal(err)
				}
				e.Tool = tool
			}
			o.Tools = append(o.Tools, catalog.Offered{Tool: entry(t, o.Key, "added", "Comes later.", engagement.Read).Tool})
			if _, err := ledger.Take(o); err != nil {
				t.Fatal(err)
			}
		}
		if got := start(); got != want {
			t.Fatalf("a restart moved the prefix: %v", Diff(want, got))
		}
	}
}

func TestAPrefixKnowsNoPlace(t *testing.T) {
	want := Build(Parts{Tools: few(t)})
	t.Chdir(t.TempDir())
	for _, v := range []string{"HOME", "TZ", "LANG", "LC_ALL", "USER"} {
		t.Setenv(v, "tr_TR.UTF-8")
	}
	if Build(Parts{Tools: few(t)}) != want {
		t.Error("the surroundings changed the prefix")
	}
}

// What a model does not read does not move the bytes: a schema, a reason, an
// egress class, another spelling of the same definition.
func TestWhatIsNotShownDoesNotMoveTheBytes(t *testing.T) {
	want := Build(Parts{Tools: few(t)})
	direct := Build(Parts{Tools: few(t), Direct: true})
	tools := few(t)
	for i := range tools {
		e := &tools[i]
		raw := strings.Replace(string(e.Raw), `"type":"object"`, `"type" : "object", "x":1`, 1)
		tool, err := catalog.NewTool(e.ID.Server, json.RawMessage(raw))
		if err != nil {
			t.Fatal(err)
		}
		e.Tool, e.Class.Why, e.Class.Egress = tool, "another reason", engagement.Metadata
	}
	if got := Build(Parts{Tools: tools}); got != want {
		t.Errorf("got\n%s", got.Catalog())
	}
	if Build(Parts{Tools: tools, Direct: true}) == direct {
		t.Error("a list with another definition in it shares a fingerprint with the one before")
	}
	if Build(Parts{Tools: tools[:1], Direct: true, Budget: 1}).Catalog() == Build(Parts{Tools: few(t)[:1], Direct: true, Budget: 1}).Catalog() {
		t.Error("so it does in the shortest layout")
	}
}

// A change of one server alters lines of that server and no others.
func TestOneServersChangeAltersItsOwnLines(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 0))
	for _, direct := range []bool{false, true} {
		for range 40 {
			tools := many(t, r, 20+r.IntN(40), 1+r.IntN(6))
			before := Build(Parts{Tools: tools, Direct: direct, Budget: 100_000})
			changed := tools[r.IntN(len(tools))].ID.Server
			var after []catalog.Entry
			for _, e := range tools {
				switch {
				case e.ID.Server != changed || r.IntN(2) == 0:
					after = append(after, e)
				case r.IntN(2) == 0:
					after = append(after, entry(t, changed, e.ID.Tool, "Does something else now.", engagement.Destructive))
				}
			}
			after = append(after, entry(t, changed, "brand_new", "Is new.", engagement.Read))
			for _, c := range Diff(before, Build(Parts{Tools: after, Direct: direct, Budget: 100_000})) {
				if c.Server != changed {
					t.Fatalf("a change of %s moved %+v", changed, c)
				}
			}
		}
	}
}

func TestABriefIsATask(t *testing.T) {
	full := Brief{Role: "reviewer", For: "the release team", Task: "\n Read the diff.\nSay what is wrong. ", Inputs: json.RawMessage(`{ "z": 12345678901234567890, "a": "<é>" }`), Tools: []string{"github/get_diff", "files/read"}}
	got, err := full.Text()
	want := `You are a sub-agent in the role of reviewer, working for the release team. Do this and nothing beyond it:
Read the diff.
Say what is wrong.
Inputs: {"a":"<é>","z":12345678901234567890}
You may call: github/get_diff, files/read.
End with one JSON object and nothing else: {"summary": "two or three sentences", "findings": ["..."], "operation_ids": ["..."], "artifact_ids": ["..."]}`
	if err != nil || got != want {
		t.Errorf("got %v\n%s", err, got)
	}
	for _, empty := range []string{"", "null", "{}", " [ ] ", `""`} {
		got, err := Brief{Task: "x", Inputs: json.RawMessage(empty)}.Text()
		if err != nil || strings.Contains(got, "Inputs") || !strings.Contains(got, "the main conversation") || !strings.Contains(got, "the read-only tools") {
			t.Errorf("inputs %q: %v\n%s", empty, err, got)
		}
	}
	if _, err := (Brief{Task: "x", Inputs: json.RawMessage(`{"a":1,"a":2}`)}).Text(); err == nil {
		t.Error("inputs with two meanings were passed on")
	}
}

func TestInstructionsStayWithinTheirBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 0))
	for range 60 {
		var servers []ServerText
		for n := range r.IntN(70) {
			servers = append(servers, ServerText{fmt.Sprintf("s%02d", n), strings.Repeat("wörd \n", r.IntN(300))})
		}
		gate := strings.Repeat("gate ", r.IntN(400))
		got := Instructions(gate, servers)
		if len(got) > 2048 {
			t.Fatalf("%d bytes", len(got))
		}
		if own, _, _ := strings.Cut(got, instructionsHead); len(own) > 1024 {
			t.Fatalf("the gate takes %d bytes", len(own))
		}
		r.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
		if again := Instructions(gate, servers); again != got {
			t.Fatalf("another order gives\n%s\nnot\n%s", again, got)
		}
	}
	got := Instructions("Use find_tools.\r\n", []ServerText{{"b", "Second.\n\n\x1b[1mBold"}, {"c", " \n"}, {"a", "First."}})
	if want := "Use find_tools.\n\nWhat the servers say of themselves:\na: First.\nb: Second. [1mBold"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Instructions("Only mine.", nil); got != "Only mine." {
		t.Errorf("got %q", got)
	}
	crowd := make([]ServerText, 200)
	for i := range crowd {
		crowd[i] = ServerText{fmt.Sprintf("server-%03d", i), strings.Repeat("word ", 50)}
	}
	if got := Instructions("Mine.", crowd); !strings.HasSuffix(got, " more)") || !strings.Contains(got, "server-000: word") {
		t.Errorf("got %s", got)
	}
}

func TestFormsHaveWords(t *testing.T) {
	var f Form
	if err := f.UnmarshalText([]byte("openai")); err != nil || f != OpenAI {
		t.Error(f, err)
	}
	if err := f.UnmarshalText([]byte("gemini")); err == nil || errors.Unwrap(err) != nil {
		t.Error(err)
	}
}
