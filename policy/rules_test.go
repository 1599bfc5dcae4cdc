package policy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
	. "github.com/mcp-gate/mcp-gate/policy"
)

// compile reads rules as JSON; each stands on the line of its place in the list.
func compile(t testing.TB, records ...string) *Rules {
	t.Helper()
	rules, err := Compile(read(t, records...))
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func read(t testing.TB, records ...string) []Record {
	t.Helper()
	out := make([]Record, len(records))
	for i, r := range records {
		if err := json.Unmarshal([]byte(r), &out[i]); err != nil {
			t.Fatalf("%s: %v", r, err)
		}
		out[i].Source = Source{File: "config.jsonc", Line: 10 + i, Column: 3}
	}
	return out
}

func request(tool, args string) Request {
	id, err := catalog.ParseToolID(tool)
	if err != nil {
		panic(err)
	}
	return Request{Tool: id, Class: engagement.ReversibleWrite, Egress: engagement.Metadata, Principal: "local/editor", Scope: ScopeWrite, Args: json.RawMessage(args)}
}

func TestTheStrongestRuleWinsWhereverItStands(t *testing.T) {
	words := []string{"allow", "defer", "ask", "deny", "hide"} // weakest first
	for _, strongest := range []int{0, 1, 2, 3, 4} {
		list := words[:strongest+1]
		for _, order := range [][]string{list, reversed(list)} {
			var records []string
			for _, do := range order {
				records = append(records, fmt.Sprintf(`{"do":%q,"tools":"github/*"}`, do))
			}
			out := compile(t, records...).Evaluate(request("github/x", ""))
			if out.Do.String() != words[strongest] || out.By.Do != out.Do || order[out.By.Index] != words[strongest] {
				t.Errorf("%v: got %v by %v, want %s", order, out.Do, out.By, words[strongest])
			}
		}
	}
}

func reversed(list []string) []string {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

func TestAmongEqualsTheFirstRuleIsNamed(t *testing.T) {
	rules := compile(t, `{"do":"ask","tools":"*/x"}`, `{"do":"ask","tools":"github/x"}`, `{"do":"ask","tools":"github/*"}`)
	if out := rules.Evaluate(request("github/x", "")); out.By.Index != 0 {
		t.Errorf("named %v, want the first", out.By)
	}
	rules = compile(t, `{"do":"allow","tools":"github/*"}`, `{"do":"allow","tools":["a/b","github/x"]}`, `{"do":"allow","tools":"github/x"}`)
	out := rules.Evaluate(request("github/x", ""))
	if out.By.Index != 1 || !out.NamesTool {
		t.Errorf("named %v, outright %v, want the first that names the tool", out.By, out.NamesTool)
	}
	if out := rules.Evaluate(request("github/y", "")); out.By.Index != 0 || out.NamesTool {
		t.Errorf("named %v, outright %v, want the pattern", out.By, out.NamesTool)
	}
}

func TestEveryFieldOfARuleMustMatch(t *testing.T) {
	rules := compile(t, `{"do":"deny","tools":["github/*","files/*"],"class":["reversible_write","destructive"],"egress":"metadata",
		"principal":["local/*","token-1"],"scope":["write","bridge"],"args":{"/n":{"min":3}}}`)
	tests := []struct {
		name string
		edit func(*Request)
		want Do
	}{
		{"all match", func(*Request) {}, DoDeny},
		{"another server", func(q *Request) { q.Tool.Server = "gitlab" }, 0},
		{"another class", func(q *Request) { q.Class = engagement.Read }, 0},
		{"no class is destructive", func(q *Request) { q.Class = 0 }, DoDeny},
		{"another egress class", func(q *Request) { q.Egress = engagement.RowLevel }, 0},
		{"no egress class is row_level", func(q *Request) { q.Egress = 0 }, 0},
		{"another principal", func(q *Request) { q.Principal = "token-2" }, 0},
		{"a literal principal", func(q *Request) { q.Principal = "token-1" }, DoDeny},
		{"another scope", func(q *Request) { q.Scope = ScopeAdmin }, 0},
		{"no scope is read", func(q *Request) { q.Scope = 0 }, 0},
		{"other arguments", func(q *Request) { q.Args = json.RawMessage(`{"n":2}`) }, 0},
		{"no arguments", func(q *Request) { q.Args = nil }, 0},
	}
	for _, tt := range tests {
		q := request("github/x", `{"n":3}`)
		tt.edit(&q)
		if out := rules.Evaluate(q); out.Do != tt.want || len(out.Failed) > 0 {
			t.Errorf("%s: got %d, %v", tt.name, out.Do, out.Failed)
		}
	}
}

func TestARuleWithoutMatchersMatchesEverything(t *testing.T) {
	if out := compile(t, `{"do":"ask"}`).Evaluate(Request{}); out.Do != DoAsk {
		t.Errorf("got %v", out.Do)
	}
}

func TestNoRulesSayNothing(t *testing.T) {
	var none *Rules
	q := request("github/x", "")
	if !reflect.DeepEqual(none.Evaluate(q), Outcome{}) || none.Len() != 0 || none.Paths(q) != nil {
		t.Error("the nil rules say something")
	}
	if rules := compile(t); rules.Len() != 0 || rules.Evaluate(q).Do != 0 {
		t.Error("an empty list says something")
	}
}

func TestABareNameAllowsOnlyWhereItIsUnique(t *testing.T) {
	rules := compile(t, `{"do":"allow","tools":"create_issue"}`)
	q := request("github/create_issue", "")
	if out := rules.Evaluate(q); out.Do != 0 {
		t.Errorf("allowed a name that another server may have: %v", out.Do)
	}
	q.NameUnique = true
	if out := rules.Evaluate(q); out.Do != DoAllow || out.NamesTool {
		t.Errorf("got %v, outright %v, want an allow that names no server's tool", out.Do, out.NamesTool)
	}
	q.NameUnique = false
	if out := compile(t, `{"do":"deny","tools":"create_issue"}`).Evaluate(q); out.Do != DoDeny {
		t.Error("a denied name got through because another server has it too")
	}
}

func TestArgumentTests(t *testing.T) {
	const yes, no, fails = "yes", "no", "fails"
	tests := []struct {
		test, args, want string
	}{
		{`{"eq":"x"}`, `{"a":"x"}`, yes}, {`{"eq":"x"}`, `{"a":"X"}`, no}, {`{"eq":"x"}`, `{"a":1}`, fails}, {`{"eq":"x"}`, `{}`, no}, {`{"eq":"x"}`, ``, no},
		{`{"eq":1}`, `{"a":1.0}`, yes}, {`{"eq":12345678901234567890}`, `{"a":12345678901234567891}`, no}, {`{"eq":null}`, `{"a":null}`, yes}, {`{"eq":null}`, `{"a":0}`, fails},
		{`{"eq":{"b":[1]}}`, `{"a":{"b":[1.0]}}`, yes}, {`{"eq":[1]}`, `{"a":[2]}`, no},
		{`{"eq":42}`, `{"a":42.00000000000000000001}`, fails}, {`{"eq":42}`, `{"a":42.000000000001}`, no}, {`{"eq":0}`, `{"a":1e-400}`, fails}, {`{"in":[{"b":[1]},7]}`, `{"a":{"b":[0.99999999999999999999]}}`, fails},
		{`{"max_len":9}`, `{"a":{"$artifact":{"id":"a_x","size":7}}}`, fails}, {`{"eq":["x"]}`, `{"a":[{"b":{"$artifact":{}}}]}`, fails}, {`{"eq":["x"]}`, `{"a":[{"b":{"$artifact":1,"c":2}}]}`, no},
		{`{"present":true}`, `{"a":{"$artifact":{}}}`, yes}, {`{"absent":true}`, `{"a":{"$artifact":{}}}`, no}, {`{"absent":true}`, `{"$artifact":{}}`, fails},
		{`{"eq":1.5}`, `{"a":2}`, no}, {`{"eq":0}`, `{"a":-1e-99999999999999999999}`, fails},
		{`{"in":["x",1]}`, `{"a":1}`, yes}, {`{"in":["x",1]}`, `{"a":2}`, no}, {`{"in":["x",1]}`, `{"a":true}`, fails},
		{`{"glob":"rm -rf*"}`, `{"a":"rm -rf /tmp/x"}`, yes}, {`{"glob":["a*","b*"]}`, `{"a":"bc"}`, yes}, {`{"glob":"a*"}`, `{"a":"bc"}`, no}, {`{"glob":"*"}`, `{"a":["x"]}`, fails},
		{`{"regex":"^v[0-9]+$"}`, `{"a":"v12"}`, yes}, {`{"regex":"^v[0-9]+$"}`, `{"a":"v12\n"}`, no}, {`{"regex":"b"}`, `{"a":"abc"}`, yes}, {`{"regex":"."}`, `{"a":7}`, fails},
		{`{"min":3}`, `{"a":3}`, yes}, {`{"min":3}`, `{"a":2.999999999999999999999}`, no}, {`{"max":"0.1"}`, `{"a":0.1}`, yes}, {`{"max":0.1}`, `{"a":0.10000000000000001}`, no},
		{`{"min":1,"max":5}`, `{"a":6}`, no}, {`{"min":1,"max":5}`, `{"a":5e0}`, yes}, {`{"min":1200}`, `{"a":"9"}`, fails}, {`{"min":1}`, `{"a":1e2000000000000000}`, fails},
		{`{"present":true}`, `{"a":null}`, yes}, {`{"present":true}`, `{"b":1}`, no},
		{`{"absent":true}`, `{"b":1}`, yes}, {`{"absent":true}`, `{"a":null}`, no}, {`{"absent":true}`, ``, yes},
		{`{"max_len":2}`, `{"a":"éé"}`, yes}, {`{"max_len":2}`, `{"a":"abc"}`, no}, {`{"max_len":1}`, `{"a":[1,2]}`, no}, {`{"max_len":0}`, `{"a":{}}`, yes}, {`{"max_len":2}`, `{"a":5}`, fails},
		{`{"max_len":9,"glob":"b*"}`, `{"a":"abc"}`, no}, {`{"max_len":1,"min":1}`, `{"a":"abc"}`, no}, {`{"max_len":3,"min":1}`, `{"a":"abc"}`, fails},
		{`{"eq":1}`, `{"a":1,"a":2}`, fails}, {`{"eq":1}`, `{"a":1} x`, fails}, {`{"eq":1}`, `{`, fails},
	}
	for _, tt := range tests {
		for _, do := range Dos() {
			rules := compile(t, fmt.Sprintf(`{"do":%q,"tools":"s/t","args":{"/a":%s}}`, do, tt.test))
			out := rules.Evaluate(request("s/t", tt.args))
			want := Do(0)
			if tt.want == yes || tt.want == fails && do != DoAllow {
				want = do
			}
			if out.Do != want || (len(out.Failed) == 1) != (tt.want == fails) {
				t.Errorf("%v %s on %s: got %d, failed %v, want %s", do, tt.test, tt.args, out.Do, out.Failed, tt.want)
			}
		}
	}
}

func TestSeveralTestsMustAllHold(t *testing.T) {
	rules := compile(t, `{"do":"deny","args":{"/a":{"eq":1},"/b/c":{"glob":"x*"},"/z":{"absent":true}}}`)
	for args, want := range map[string]string{
		`{"a":1,"b":{"c":"xy"}}`:         "matched",
		`{"a":2,"b":{"c":"xy"}}`:         "",
		`{"a":1,"b":{"c":"y"}}`:          "",
		`{"a":1,"b":{"c":"xy"},"z":0}`:   "",
		`{"a":"1","b":{"c":"xy"}}`:       "failed /a",
		`{"a":"1","b":"c"}`:              "failed /a",
		`{"a":1,"b":"c"}`:                "failed /b/c",
		`{"a":"1","b":{"c":"y"}}`:        "", // a plain no settles it
		`{"a":2,"b":{"c":1}}`:            "",
		`{"a":"1","b":{"c":"xy"},"z":0}`: "",
	} {
		out := rules.Evaluate(request("s/t", args))
		got := ""
		if out.Do == DoDeny {
			got = "matched"
		}
		if len(out.Failed) > 0 {
			got = "failed " + out.Failed[0].Pointer
		}
		if got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}

// A rule about what an artifact holds cannot be put to a call; one about its facts can.
func TestRulesDoNotLookIntoArtifacts(t *testing.T) {
	rules := compile(t, `{"do":"deny","args":{"/o/path":{"glob":"/etc/*"}}}`, `{"do":"ask","args":{"/o/$artifact/size":{"min":100}}}`)
	for args, want := range map[string]Do{
		`{"o":{"$artifact":{"size":7}}}`: DoDeny, `{"o":{"path":"/tmp"}}`: 0, `{"o":{"$artifact":7,"path":"/tmp"}}`: DoAsk, // such an object is an ordinary one
	} {
		if out := rules.Evaluate(request("s/t", args)); out.Do != want {
			t.Errorf("%s: %v, want %v (%v)", args, out.Do, want, out.Failed)
		}
	}
	rules = compile(t, `{"do":"ask","args":{"/o/$artifact/size":{"min":100}}}`)
	for args, want := range map[string]Do{`{"o":{"$artifact":{"size":100}}}`: DoAsk, `{"o":{"$artifact":{"size":99}}}`: 0} {
		if out := rules.Evaluate(request("s/t", args)); out.Do != want || len(out.Failed) > 0 {
			t.Errorf("%s: %v, want %v (%v)", args, out.Do, want, out.Failed)
		}
	}
}

func TestFailuresSayWhatIsWrong(t *testing.T) {
	rules := compile(t, `{"do":"deny","args":{"/n":{"max":3}}}`)
	for args, want := range map[string]string{
		`{"n":"3"}`: "rules[0] (config.jsonc:10:3): arguments/n: is a string, not a number",
		`{"n":3`:    "rules[0] (config.jsonc:10:3): arguments: ",
		`[]`:        `rules[0] (config.jsonc:10:3): arguments/n: has an array where "n" is looked up`,
		`true`:      `rules[0] (config.jsonc:10:3): arguments/n: has a boolean where "n" is looked up`,
	} {
		out := rules.Evaluate(request("s/t", args))
		if len(out.Failed) != 1 || !strings.HasPrefix(out.Failed[0].String(), want) {
			t.Errorf("%s: %v, want %s", args, out.Failed, want)
		}
	}
}

func TestPathsAreComparedAsTheyResolve(t *testing.T) {
	rules := compile(t, `{"do":"deny","tools":"fs/*","args":{"/path":{"path_under":["/home/me/.ssh","/srv"]}}}`)
	resolved := map[string]string{
		"/home/me/.ssh": "/home/me/.ssh", "/srv": "/mnt/data/srv",
		"/home/me/.ssh/id": "/home/me/.ssh/id", "/home/me/.sshx/id": "/home/me/.sshx/id", "/home/me/repo/../.ssh": "/home/me/.ssh",
		"link": "/home/me/.ssh/id", "/srv/x": "/mnt/data/srv/x", "/srv-x": "/srv-x", "untidy": "/home/me/.ssh/../x", "relative": "home/me/.ssh",
	}
	for path, want := range map[string]string{
		"/home/me/.ssh/id": "deny", "/home/me/.ssh": "deny", "/home/me/.sshx/id": "", "/home/me/repo/../.ssh": "deny", "link": "deny",
		"/srv/x": "deny", "/srv-x": "", "untidy": "", "relative": "failed", "not resolved": "failed",
	} {
		args, _ := json.Marshal(map[string]string{"path": path})
		q := request("fs/read", string(args))
		q.Resolved = resolved
		out := rules.Evaluate(q)
		got := ""
		switch {
		case len(out.Failed) > 0:
			got = "failed"
		case out.Do == DoDeny:
			got = "deny"
		}
		if got != want {
			t.Errorf("%s: %q, want %q (%v)", path, got, want, out.Failed)
		}
	}
	q := request("fs/read", `{"path":"link"}`)
	q.Resolved = map[string]string{"link": "/x/y"}
	if out := rules.Evaluate(q); out.Do != DoDeny || len(out.Failed) != 1 || !strings.Contains(out.Failed[0].Text, "/home/me/.ssh, which") && !strings.Contains(out.Failed[0].Text, "/srv, which") {
		t.Errorf("folders that were not resolved: %v %v", out.Do, out.Failed)
	}
	q.Args, q.Resolved = json.RawMessage(`{"path":["link"]}`), resolved
	if out := rules.Evaluate(q); out.Do != DoDeny || len(out.Failed) != 1 {
		t.Errorf("a list of paths: %v %v", out.Do, out.Failed)
	}
}

func TestRootsOfEveryKind(t *testing.T) {
	for root, paths := range map[string]map[string]bool{
		"/":         {"/": true, "/x": true},
		"C:/":       {"C:/": true, "C:/x": true, "D:/x": false},
		"C:/Users":  {"C:/Users/me": true, "C:/Usersx": false},
		"/a/b/":     {"/a/b": true, "/a/b/c": true, "/a/bc": false},
		"/a/./b/..": {"/a/x": true, "/x": false},
	} {
		rules := compile(t, fmt.Sprintf(`{"do":"allow","args":{"/p":{"path_under":%q}}}`, root))
		for path, want := range paths {
			q := request("s/t", fmt.Sprintf(`{"p":%q}`, path))
			q.Resolved = map[string]string{root: root, path: path}
			if out := rules.Evaluate(q); (out.Do == DoAllow) != want {
				t.Errorf("%s under %s: %v %v, want %v", path, root, out.Do, out.Failed, want)
			}
		}
	}
}

func TestPathsNamesWhatMustBeResolved(t *testing.T) {
	rules := compile(t,
		`{"do":"deny","tools":"fs/*","args":{"/path":{"path_under":["/b","/a"],"max_len":9},"/other":{"glob":"*"}}}`,
		`{"do":"allow","tools":"fs/*","args":{"/path":{"path_under":"/a"}}}`,
		`{"do":"deny","tools":"web/*","args":{"/path":{"path_under":"/never"}}}`)
	for args, want := range map[string][]string{
		`{"path":"x/y"}`: {"/a", "/b", "x/y"}, `{"path":7}`: {"/a", "/b"}, `{}`: {"/a", "/b"}, `{"path":"/a"}`: {"/a", "/b"}, `{`: {"/a", "/b"},
	} {
		if got := rules.Paths(request("fs/read", args)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
	if got := rules.Paths(request("github/x", `{"path":"x"}`)); got != nil {
		t.Errorf("paths for a tool without such rules: %q", got)
	}
}

func TestUnknownArgumentsLeaveRulesOpen(t *testing.T) {
	rules := compile(t, `{"do":"deny","tools":"s/t","args":{"/a":{"eq":1}}}`, `{"do":"ask","tools":"s/*"}`, `{"do":"deny","tools":"s/u","args":{"/a":{"eq":1}}}`)
	q := request("s/t", "")
	q.ArgsUnknown = true
	out := rules.Evaluate(q)
	if out.Do != DoAsk || len(out.Open) != 1 || out.Open[0].Index != 0 || len(out.Failed) != 0 {
		t.Errorf("got %+v", out)
	}
}

// Arguments that no rule looks at are not even parsed: broken ones fail nothing.
func TestArgumentsAreParsedOnlyWhereNeeded(t *testing.T) {
	rules := compile(t, `{"do":"ask","tools":"s/t"}`, `{"do":"deny","tools":"s/other","args":{"/a":{"eq":1}}}`,
		`{"do":"deny","class":"destructive","args":{"/a":{"eq":1}}}`)
	if out := rules.Evaluate(request("s/t", `{broken`)); out.Do != DoAsk || len(out.Failed) != 0 {
		t.Errorf("got %v, failed %v", out.Do, out.Failed)
	}
}

// The three reported faults in which rules were misjudged, as the rules of this
// package would be written.
func TestReportedFaults(t *testing.T) {
	hide := compile(t, `{"do":"hide","tools":"s/delete_*"}`)
	if out := hide.Evaluate(request("s/delete_entity", "")); out.Do != DoHide {
		t.Errorf("124: got %v, want hide", out.Do)
	}
	classes := compile(t, `{"do":"allow","class":"read"}`, `{"do":"ask","class":["reversible_write","source_file_write"]}`, `{"do":"deny","class":"destructive"}`)
	for class, want := range map[engagement.Permission]Do{
		engagement.Read: DoAllow, engagement.ReversibleWrite: DoAsk, engagement.SourceFileWrite: DoAsk, engagement.Destructive: DoDeny,
	} {
		if out := classes.Evaluate(Request{Class: class}); out.Do != want {
			t.Errorf("126: %v gets %v, want %v", class, out.Do, want)
		}
	}
	unrelated := compile(t,
		`{"do":"deny","tools":"*/shell","args":{"/command":{"glob":"rm -rf*"}}}`,
		`{"do":"allow","tools":["jira/confluence_search","jira/jira_get_issue","jira/jira_search"]}`,
		`{"do":"allow","tools":"*/editor_context"}`)
	for _, tt := range []struct {
		tool, args string
		want       Do
	}{
		{"ed/editor_context", `{}`, DoAllow}, {"jira/jira_search", `{"q":"x"}`, DoAllow},
		{"sh/shell", `{"command":"rm -rf /tmp/x"}`, DoDeny}, {"sh/shell", `{"command":"ls"}`, 0},
		{"ed/editor_context", `{"command":7}`, DoAllow}, // the test does not fit, and neither does the tool
	} {
		if out := unrelated.Evaluate(request(tt.tool, tt.args)); out.Do != tt.want || len(out.Failed) > 0 {
			t.Errorf("128: %s %s gets %d, failed %v, want %d", tt.tool, tt.args, out.Do, out.Failed, tt.want)
		}
	}
}

func TestCompileSaysWhatIsWrongAndWhere(t *testing.T) {
	long := strings.Repeat("a", 1025)
	tests := []struct {
		record string
		want   []string // for each problem: field: text [choices]
	}{
		{`{}`, []string{`do: unknown rule effect "" [hide deny ask defer allow]`}},
		{`{"do":"block"}`, []string{`do: unknown rule effect "block" [hide deny ask defer allow]`}},
		{`{"do":"deny","tools":[]}`, []string{`tools: an empty list matches nothing; leave the field out to match everything []`}},
		{`{"do":"deny","tools":["a/b","a["]}`, []string{`tools: pattern "a[": only * and ? are special, and [ ] { } \ ! and space are in no pattern []`}},
		{`{"do":"deny","class":"write"}`, []string{`class: unknown permission class "write" [read reversible_write source_file_write destructive]`}},
		{`{"do":"deny","egress":"rows"}`, []string{`egress: unknown egress class "rows" [metadata aggregates row_level rendered_pixels raw_pixels]`}},
		{`{"do":"deny","scope":["admin","root"]}`, []string{`scope: unknown scope "root" [read write bridge admin]`}},
		{`{"do":"deny","principal":""}`, []string{`principal: want a pattern of 1 to 1024 bytes []`}},
		{`{"do":"deny","args":{}}`, []string{`args: an empty map tests nothing; leave the field out []`}},
		{`{"do":"deny","args":{"path":{"eq":1}}}`, []string{`args.path: "path" is no JSON pointer: want /path []`}},
		{`{"do":"deny","args":{"/p":{}}}`, []string{`args./p: nothing is tested [eq in glob path_under regex min max present absent max_len]`}},
		{`{"do":"deny","args":{"/p":{"absent":true,"eq":1}}}`, []string{`args./p.absent: what must not be there cannot be tested []`}},
		{`{"do":"deny","args":{"/p":{"in":[]}}}`, []string{`args./p.in: an empty list matches nothing []`}},
		{`{"do":"deny","args":{"/p":{"glob":"` + long + `"}}}`, []string{`args./p.glob: want a pattern of 1 to 1024 bytes []`}},
		{`{"do":"deny","args":{"/p":{"path_under":"src"}}}`, []string{`args./p.path_under: "src" is not absolute []`}},
		{`{"do":"deny","args":{"/p":{"regex":"("}}}`, []string{"args./p.regex: error parsing regexp: missing closing ): `(` []"}},
		{`{"do":"deny","args":{"/p":{"min":"three"}}}`, []string{`args./p.min: three: not a decimal number []`}},
		{`{"do":"deny","args":{"/p":{"min":null}}}`, []string{`args./p.min: null: not a decimal number []`}},
		{`{"do":"deny","args":{"/p":{"max":1e9999999999999999}}}`, []string{`args./p.max: 1e9999999999999999: exponent out of bounds []`}},
		{`{"do":"deny","args":{"/p":{"min":2,"max":1.99}}}`, []string{`args./p.min: is more than max, so nothing is between them []`}},
		{`{"do":"deny","args":{"/p":{"max_len":-1}}}`, []string{`args./p.max_len: want a number of 0 or more []`}},
		{`{"do":"stop","class":"x","args":{"p":{"eq":1}}}`, []string{
			`do: unknown rule effect "stop" [hide deny ask defer allow]`,
			`class: unknown permission class "x" [read reversible_write source_file_write destructive]`,
			`args.p: "p" is no JSON pointer: want /p []`}},
		{`{"do":"deny","tools":"github/*","match":["github/x","files/x"],"not_match":["github/y","files/y"]}`, []string{
			`match[1]: the rule does not match files/x []`, `not_match[0]: the rule matches github/y []`}},
		{`{"do":"deny","match":["shell","a/*"]}`, []string{
			`match[0]: "shell" is not the name of one tool: want server/tool []`, `match[1]: "a/*" is not the name of one tool: want server/tool []`}},
		{`{"do":"deny","match":{"tool":"a/b","class":"x"}}`, []string{`match[0]: unknown permission class "x" [read reversible_write source_file_write destructive]`}},
		{`{"do":"deny","args":{"/n":{"min":3}},"match":{"tool":"a/b","args":{"n":"3"}}}`, []string{
			`match[0]: rules[0] (config.jsonc:10:3): arguments/n: is a string, not a number []`}},
	}
	for _, tt := range tests {
		rules, err := Compile(read(t, tt.record))
		var compileError *CompileError
		if rules != nil || !errors.As(err, &compileError) {
			t.Errorf("%s: got %v, %v", tt.record, rules, err)
			continue
		}
		var got []string
		for _, p := range compileError.Problems {
			got = append(got, fmt.Sprintf("%s: %s %v", p.Field, p.Text, p.Choices))
			if p.Index != 0 || p.Source.Line != 10 {
				t.Errorf("%s: problem is at rule %d, line %d", tt.record, p.Index, p.Source.Line)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%.80s:\ngot  %q\nwant %q", tt.record, got, tt.want)
		}
	}
}

func TestBrokenValuesInRecordsBuiltByHand(t *testing.T) {
	_, err := Compile([]Record{{Do: "deny", Args: map[string]ArgRecord{"/p": {Eq: json.RawMessage(`{"a":1,"a":2}`)}}}})
	if err == nil || !strings.Contains(err.Error(), "rules[0].args./p.eq: ") {
		t.Errorf("got %v", err)
	}
}

func TestAProblemReadsLikeACompilersError(t *testing.T) {
	_, err := Compile(append(read(t, `{"do":"deny"}`, `{"do":"no"}`), Record{Do: "deny", Scope: Words{"x"}}))
	want := `config.jsonc:11:3: rules[1].do: unknown rule effect "no": want one of hide, deny, ask, defer, allow
rules[2].scope: unknown scope "x": want one of read, write, bridge, admin`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	for source, want := range map[Source]string{{}: "", {File: "f"}: "f", {File: "f", Line: 2}: "f:2", {"f", 2, 3}: "f:2:3"} {
		if got := source.String(); got != want {
			t.Errorf("%+v reads %q, want %q", source, got, want)
		}
	}
	if got := (&Problem{Index: 1, Text: "x"}).Error(); got != "rules[1]: x" {
		t.Errorf("got %s", got)
	}
	if (Ref{}).String() != "no rule" || (Ref{Do: DoAsk, Index: 2}).String() != "rules[2]" {
		t.Error("a rule without a place is not named")
	}
}

func TestThePatternsOfTheLargestSizeAreRead(t *testing.T) {
	longest := strings.Repeat("a", 1024)
	compile(t, `{"do":"deny","tools":"`+longest+`","principal":"`+longest+`"}`)
}

func TestExamplesHold(t *testing.T) {
	compile(t, `{"do":"deny","tools":"fs/*","class":"destructive","egress":"row_level","principal":"local*","scope":"write","args":{"/path":{"path_under":"/home"}},
		"match":[{"tool":"fs/rm","args":{"path":"/home/me"}},{"tool":"mcp__fs__rm","class":"destructive","egress":"row_level","principal":"local/x","scope":"write","args":{"path":"/home/x/../me"}}],
		"not_match":["fs/rm",{"tool":"fs/rm","args":{"path":"/home/../etc"}},{"tool":"fs/rm","class":"read","args":{"path":"/home/me"}},
			{"tool":"fs/rm","egress":"metadata","args":{"path":"/home/me"}},{"tool":"fs/rm","scope":"read","args":{"path":"/home/me"}},
			{"tool":"fs/rm","principal":"token","args":{"path":"/home/me"}}]}`)
}

func TestRecordsAreReadStrictly(t *testing.T) {
	for in, want := range map[string]string{
		`{"do":"deny","tool":"x"}`:                    "rules[0].tool: unknown field: want one of do, tools, class, egress, principal, scope, args, match, not_match, note",
		`{"do":"deny","args":{"/p":{"equals":1}}}`:    "rules[0].args./p.equals: unknown field: want one of eq, in, glob, path_under, regex, min, max, present, absent, max_len",
		`{"do":"deny","match":{"tools":"x"}}`:         "rules[0].match.tools: unknown field: want one of tool, class, egress, principal, scope, args",
		`{"do":"deny","match":[{"tools":"x"}]}`:       "rules[0].match.tools: unknown field: want one of tool, class, egress, principal, scope, args",
		`{"do":"deny","do":"allow"}`:                  "rules[0]: duplicate",
		`{"do":"deny","args":{"/p":{"eq":1,"eq":1}}}`: "rules[0]: duplicate",
		`{"do":"deny","args":[]}`:                     "rules[0].args: want an object, have an array",
		`{"do":"deny","args":{"/p":3}}`:               "rules[0].args./p: want an object, have a number",
		`{"do":"deny","tools":3}`:                     "rules[0].tools: want a word or a list of words, have 3",
		`{"do":"deny","tools":null}`:                  "rules[0].tools: want a word or a list of words, have null",
		`{"do":"deny","tools":["x",3]}`:               `rules[0].tools: want a word or a list of words, have ["x",3]`,
		`{"do":7}`:                                    "rules[0].do: takes a string, not a number",
		`[]`:                                          "rules[0]: want an object, have an array",
	} {
		r := Record{Note: "kept"}
		err := json.Unmarshal([]byte(in), &r)
		var problem *Problem
		if !errors.As(err, &problem) || !strings.HasPrefix(problem.Error(), want) || r.Note != "kept" {
			t.Errorf("%s: %v\nwant %s", in, err, want)
		}
	}
	var r Record
	in := `{"do":"allow","tools":"a/b","class":["read"],"args":{"/p":{"eq":null,"in":[1],"max_len":3}},"match":"a/b","not_match":[{"tool":"a/c","args":{}}],"note":"n"}`
	if err := json.Unmarshal([]byte(in), &r); err != nil {
		t.Fatal(err)
	}
	three := 3
	want := Record{
		Do: "allow", Tools: Words{"a/b"}, Class: Words{"read"}, Note: "n",
		Args:  map[string]ArgRecord{"/p": {Eq: json.RawMessage("null"), In: []json.RawMessage{json.RawMessage("1")}, MaxLen: &three}},
		Match: []Example{{Tool: "a/b"}}, NotMatch: []Example{{Tool: "a/c", Args: json.RawMessage("{}")}},
	}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("got  %+v\nwant %+v", r, want)
	}
}

// FuzzEvaluate checks that no arguments upset the matchers, and that what cannot be
// judged is never allowed and never let through by a deny.
func FuzzEvaluate(f *testing.F) {
	tests := `{"/a":{"eq":1},"/b/0":{"glob":"x*"},"/c":{"min":1,"max":2},"/d":{"path_under":"/x"},"/e":{"regex":"a+"},"/f":{"max_len":3},"/g":{"in":["p",2]}}`
	rules := map[Do]*Rules{}
	for _, do := range Dos() {
		rules[do] = compile(f, fmt.Sprintf(`{"do":%q,"args":%s}`, do, tests))
	}
	f.Add([]byte(`{"a":1,"b":["x"],"c":1.5,"d":"/x/y","e":"aa","f":"abc","g":2}`))
	f.Add([]byte(`{"a":"1"}`))
	f.Fuzz(func(t *testing.T, args []byte) {
		q := Request{Args: args, Resolved: map[string]string{"/x": "/x", "/x/y": "/x/y"}}
		allow, deny := rules[DoAllow].Evaluate(q), rules[DoDeny].Evaluate(q)
		if len(allow.Failed) > 0 && allow.Do != 0 || len(deny.Failed) > 0 && deny.Do != DoDeny {
			t.Fatalf("a failed rule counted the wrong way: %+v %+v", allow, deny)
		}
		if allow.Do == DoAllow && deny.Do != DoDeny || len(allow.Failed) != len(deny.Failed) {
			t.Fatalf("the same tests gave different answers: %+v %+v", allow, deny)
		}
		var parsed map[string]any
		if allow.Do == DoAllow && json.Unmarshal(args, &parsed) != nil {
			t.Fatalf("allowed on arguments that are no object: %s", args)
		}
	})
}

// hundredRules are rules of every kind of pattern, of which the last so many match.
func hundredRules(b testing.TB, matching int, more ...string) *Rules {
	var records []string
	for i := range 100 - matching {
		records = append(records, fmt.Sprintf([]string{
			`{"do":"deny","tools":"server%d/*","args":{"/path":{"glob":"*"}}}`,
			`{"do":"ask","tools":"*/delete_%d_*"}`,
			`{"do":"allow","tools":["github/tool_%d","files/read"]}`,
			`{"do":"deny","tools":"github/x%d_*","class":"destructive"}`,
		}[i%4], i))
	}
	for i := range matching {
		records = append(records, fmt.Sprintf(`{"do":"ask","tools":"github/create_*","args":{"/labels/0":{"eq":"urgent"},"/n":{"min":%d}}}`, i))
	}
	return compile(b, append(records, more...)...)
}

const benchArgs = `{"owner":"someone","repo":"something","title":"It does not work","labels":["urgent","bug"],"n":150,"body":"When I press the button, nothing happens."}`

func BenchmarkEvaluate(b *testing.B) {
	for _, matching := range []int{0, 1, 100} {
		rules, q := hundredRules(b, matching), request("github/create_issue", benchArgs)
		b.Run(fmt.Sprintf("%d of 100 rules match", matching), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				rules.Evaluate(q)
			}
		})
	}
}

func BenchmarkDecide(b *testing.B) {
	rules, q, c := hundredRules(b, 1), request("github/create_issue", benchArgs), base()
	b.ReportAllocs()
	for b.Loop() {
		c.Outcome = rules.Evaluate(q)
		Decide(c)
	}
}

// The rule that matches looks at no arguments here: what parsing them allocates is
// not the rules' doing, and varies with the pools of the parser.
func TestRulesThatDoNotMatchAllocateNothing(t *testing.T) {
	q := request("github/create_issue", benchArgs)
	for name, rules := range map[string]*Rules{
		"no rule of 100 matches":  hundredRules(t, 0),
		"one rule of 101 matches": hundredRules(t, 0, `{"do":"ask","tools":"github/create_*"}`),
	} {
		if got := testing.AllocsPerRun(100, func() { rules.Evaluate(q) }); got != 0 {
			t.Errorf("%s: %v allocations, want none", name, got)
		}
	}
}

func TestOutcomesMeetInTheStronger(t *testing.T) {
	hide, deny, ask, wait, none := Outcome{Do: DoHide}, Outcome{Do: DoDeny}, Outcome{Do: DoAsk}, Outcome{Do: DoDefer}, Outcome{}
	allow, named := Outcome{Do: DoAllow}, Outcome{Do: DoAllow, NamesTool: true}
	order := []Outcome{hide, deny, ask, wait, none, allow}
	for i, a := range order {
		for j, b := range order {
			if got := a.Meet(b); !reflect.DeepEqual(got, order[min(i, j)]) {
				t.Errorf("%v and %v meet in %v", a, b, got)
			}
		}
	}
	if got := named.Meet(allow); got.NamesTool {
		t.Error("only one of the two names the tool")
	}
	if got := named.Meet(named); !got.NamesTool {
		t.Error("both name the tool")
	}
}
