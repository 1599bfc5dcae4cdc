package policy_test

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-gate/mcp-gate/engagement"
	. "github.com/mcp-gate/mcp-gate/policy"
)

func TestTheSmallestChange(t *testing.T) {
	all := []string{
		`{"do":"hide","tools":"github/delete_repo","scope":"read"}`,
		`{"do":"deny","tools":"github/delete_repo","scope":"write"}`,
		`{"do":"deny","tools":"github/*","scope":["read","write"]}`,
		`{"do":"ask","tools":"github/*","scope":"admin"}`,
		`{"do":"defer","tools":"github/*","scope":"bridge"}`,
		`{"do":"allow","tools":"github/put_file","principal":"owner"}`,
		`{"do":"allow","tools":"github/*","principal":"owner"}`,
	}
	allow := func(tool string) string { return `{ "do": "allow", "tools": "github/` + tool + `" }` }
	const delegate, inbox = `"authority": { "autonomy": "delegated" }`, `"gate_fallback": "defer"`
	tests := []struct {
		name      string
		edit      func(*Call)
		scope     Scope
		principal string
		want      []string
		verdict   Verdict
	}{
		{"a reading call", func(*Call) {}, 0, "", []string{`edit or remove rules[2] (config.jsonc:12:3)`}, Run},
		{"an unknown tool", func(c *Call) { c.Known = false }, ScopeWrite, "", nil, 0},
		{"a hidden tool that is denied besides", destroy, 0, "", []string{"edit or remove rules[0] (config.jsonc:10:3)", "edit or remove rules[2] (config.jsonc:12:3)"}, Ask},
		{"a hidden tool that is not there", edits(destroy, func(c *Call) { c.Known = false }), 0, "", nil, 0},
		{"a tool that two rules deny", destroy, ScopeWrite, "", []string{"edit or remove rules[1] (config.jsonc:11:3)", "edit or remove rules[2] (config.jsonc:12:3)"}, Ask},
		{"an ask rule", func(*Call) {}, ScopeAdmin, "", []string{"edit or remove rules[3] (config.jsonc:13:3)"}, Run},
		{"a defer rule", func(*Call) {}, ScopeBridge, "", []string{"edit or remove rules[4] (config.jsonc:14:3)"}, Run},
		{"a held definition", func(c *Call) { c.Pin = PinNew }, ScopeBridge, "", []string{"mcp-gate accept github/get_issue"}, Defer},
		{"a tool that is gone", func(c *Call) { c.Pin = PinGone }, ScopeBridge, "", nil, 0},
	}
	for _, tt := range tests {
		check(t, compile(t, all...), tt.name, tt.edit, tt.scope, tt.principal, tt.want, tt.verdict)
	}
	for _, tt := range []struct {
		name    string
		edit    func(*Call)
		want    []string
		verdict Verdict
	}{
		{"a call that runs", func(*Call) {}, []string{`{ "do": "ask", "tools": "github/get_issue" }`}, Ask},
		{"a reviewed call", edits(reversible, review, func(c *Call) { c.Limits.ApprovalCeiling = engagement.Read }), []string{`{ "do": "ask", "tools": "github/get_issue" }`}, Ask},
		{"a granted call", edits(write, func(c *Call) { c.Grant = grant(L1) }), []string{"mcp-gate grants revoke g_1"}, Ask},
		{"outside the slice", func(c *Call) { c.InSlice, c.Enforce = false, true }, []string{`"slice": "advise"`}, Run},
		{"the token's ceiling", edits(reversible, func(c *Call) { c.Limits.Permission = engagement.Read }), []string{"mcp-gate token add PRINCIPAL --scope write"}, Run},
		{"the token's ceiling, for a file", edits(write, func(c *Call) { c.Limits.Permission = engagement.Read }), []string{"mcp-gate token add PRINCIPAL --scope admin"}, Ask},
		{"the owner's ceiling", edits(write, func(c *Call) { c.Limits.Permission, c.PermissionFrom = engagement.Read, OriginOwner }), []string{`"policy": { "allow_writes": true }`}, Ask},
		{"egress", func(c *Call) { c.Egress, c.Limits.Egress = engagement.RowLevel, DefaultEgress() }, []string{`in the entry of server github: "egress": ["metadata", "aggregates", "row_level", "rendered_pixels"]`}, Run},
		{"a class", write, []string{allow("put_file")}, Run},
		{"a destructive class", destroy, []string{allow("delete_repo")}, Run},
		{"manual autonomy", edits(write, func(c *Call) { c.Autonomy = engagement.AutonomyManual }), []string{delegate, allow("put_file")}, Run},
		{"taint", tainted, []string{allow("get_issue")}, Run},
		{"taint that denies", edits(tainted, func(c *Call) { c.Taint.Mode = TaintDeny }), []string{`"taint": "ask"`}, Ask},
		{"hil defer", edits(write, func(c *Call) { c.HIL = engagement.HILDefer }), []string{allow("put_file")}, Run},
		{"nobody there", edits(write, unattended), []string{inbox}, Defer},
		{"nobody there and parked", edits(write, unattended, fallsToInbox), []string{allow("put_file")}, Run},
		{"no channel", edits(destroy, func(c *Call) { c.Reach = L0 }), []string{"mcp-gate approver enroll"}, Ask},
		{"a server that is down", edits(write, func(c *Call) { c.Ready = ServerDown }), []string{"mcp-gate status"}, Ask},
		{"wrong arguments", edits(write, func(c *Call) { c.Ready = BadArguments }), nil, 0},
		{"spend", func(c *Call) { c.Left.Calls = new(int64) }, []string{`"policy": { "spend": { "calls": N, "result_bytes": N } }`}, Run},
		{"two things in the way", edits(reversible, func(c *Call) { c.InSlice, c.Enforce, c.Limits.Permission = false, true, engagement.Read }),
			[]string{`"slice": "advise"`, "mcp-gate token add PRINCIPAL --scope write"}, Run},
	} {
		check(t, nil, tt.name, tt.edit, 0, "", tt.want, tt.verdict)
	}
	// A standing yes is taken back by removing every rule that gives it.
	rules := compile(t, all[5:]...)
	check(t, rules, "an allowed write", write, 0, "owner", []string{"edit or remove rules[0] (config.jsonc:10:3)", "edit or remove rules[1] (config.jsonc:11:3)"}, Ask)
}

func check(t *testing.T, rules *Rules, name string, edit func(*Call), scope Scope, principal string, want []string, verdict Verdict) {
	t.Helper()
	c := base()
	edit(&c)
	q := Request{Tool: c.Tool, Class: c.Class, Egress: c.Egress, Scope: scope, Principal: principal}
	got := Explain(rules, q, c).Change
	if got == nil {
		got = &ExplainedChange{}
	}
	if !slices.Equal(got.Steps, want) || got.Verdict != verdict {
		t.Errorf("%s: %q -> %d, want %q -> %d", name, got.Steps, got.Verdict, want, verdict)
	}
}

// Every change that is named leads to another verdict, and only what no policy
// could mend has none.
func TestEveryChangeChangesTheVerdict(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 0))
	axes := append(coreAxes(), otherAxes()...)
	rules := compile(t, `{"do":"hide","scope":"read","principal":"a"}`, `{"do":"deny","scope":"write"}`, `{"do":"ask","principal":["a","b"]}`,
		`{"do":"defer","scope":"bridge"}`, `{"do":"allow","tools":"github/get_issue"}`, `{"do":"allow"}`)
	for range 20_000 {
		c := base()
		for _, a := range axes {
			a[r.IntN(len(a))](&c)
		}
		q := Request{Tool: c.Tool, Class: c.Class, Egress: c.Egress, Scope: Scopes()[r.IntN(4)], Principal: []string{"a", "b", "c"}[r.IntN(3)]}
		e := Explain(rules, q, c)
		hopeless := e.Code == "unknown" && (e.By == nil || !c.Known) || e.Code == "held" && c.Pin == PinGone || e.Code == "arguments"
		if e.Change == nil {
			// A later step may be the hopeless one, once the first is out of the way.
			if !hopeless && c.Known && c.Pin != PinGone && c.Ready != BadArguments {
				t.Fatalf("no change for %+v of %+v", e, c)
			}
			continue
		}
		if e.Change.Verdict == e.Verdict || len(e.Change.Steps) == 0 || slices.Contains(e.Change.Steps, "") {
			t.Fatalf("a change that changes nothing: %+v", e)
		}
	}
}

func TestAnExplanationIsAStableDocument(t *testing.T) {
	rules := compile(t,
		`{"do":"ask","tools":"github/*","args":{"/n":{"max":3}},"note":"few at a time"}`,
		`{"do":"allow","args":{"/n":{"max":3}}}`)
	c := base()
	reversible(&c)
	c.InSlice = false
	got, err := json.MarshalIndent(Explain(rules, Request{Tool: c.Tool, Class: c.Class, Egress: c.Egress, Args: json.RawMessage(`{"n":"9"}`)}, c), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want := `{
 "tool": "github/get_issue",
 "class": "reversible_write",
 "egress": "metadata",
 "verdict": "ask",
 "rule": "step6.ask-rule",
 "by": {
  "index": 0,
  "do": "ask",
  "file": "config.jsonc",
  "line": 10,
  "column": 3,
  "note": "few at a time"
 },
 "reason": "rules[0] (config.jsonc:10:3) asks you about this call of github/get_issue.",
 "level": "L0",
 "notes": [
  "outside the slice, which is not enforced",
  "rules[0] (config.jsonc:10:3): arguments/n: is a string, not a number; counted as a match",
  "rules[1] (config.jsonc:11:3): arguments/n: is a string, not a number; counted as none"
 ],
 "change": {
  "steps": [
   "edit or remove rules[0] (config.jsonc:10:3)"
  ],
  "verdict": "run"
 }
}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAnExplanationForATerminal(t *testing.T) {
	rules := compile(t, `{"do":"deny","tools":"github/*","args":{"/n":{"max":3}},"note":"few at a time"}`)
	c := base()
	q := Request{Tool: c.Tool, Args: json.RawMessage(`{"n":1}`)}
	got := Explain(rules, q, c).String()
	want := `tool     github/get_issue (read, metadata)
verdict  deny
code     rule
rule     step5.deny
by       rules[0] (config.jsonc:10:3)
         few at a time
reason   rules[0] (config.jsonc:10:3) refuses this call of github/get_issue.
change   edit or remove rules[0] (config.jsonc:10:3) -> run
`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	q.ArgsUnknown = true
	destroy(&c)
	c.Egress, c.Limits.Egress, c.OnEgress, c.Grant = engagement.RowLevel, DefaultEgress(), EgressDowngrade, grant(L1)
	c.CheckpointBefore, c.FirstWrite = true, true
	got = Explain(rules, q, c).String()
	for _, want := range []string{
		"note     the result will be cut to what may leave\n", "note     there is no way back\n",
		"note     the policy does not open class destructive (allow_destructive): a yes opens it for this call alone\n",
		"note     spends grant g_1\n", "note     rules[0] (config.jsonc:10:3) looks at arguments that are not known\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("missing %q in\n%s", want, got)
		}
	}
	c.CanUndo = true
	if got := Explain(rules, q, c); !slices.Contains(got.Notes, "a copy is taken before it runs") {
		t.Errorf("the copy is not noted: %q", got.Notes)
	}
}

func TestAnExplanationWithoutArguments(t *testing.T) {
	rules := compile(t, `{"do":"deny","tools":"github/*","args":{"/n":{"max":3}}}`)
	c := base()
	got := Explain(rules, Request{Tool: c.Tool, ArgsUnknown: true}, c)
	want := `tool     github/get_issue (read, metadata)
verdict  depends on arguments: run, or deny
reason   where no rule matches that looks at them: ` + got.Reason + `
note     rules[0] (config.jsonc:10:3) looks at arguments that are not known
`
	if got.String() != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if want := []Verdict{Run, Deny}; got.Verdict != Run || !slices.Equal(got.Possible, want) {
		t.Errorf("it may get %v, want %v", got.Possible, want)
	}
	if got := Explain(compile(t), Request{Tool: c.Tool, ArgsUnknown: true}, c); got.Possible != nil || got.Change == nil {
		t.Errorf("where no rule looks at arguments: %+v", got)
	}
}

func TestExplainingChangesNothing(t *testing.T) {
	rules := compile(t, `{"do":"deny","tools":"github/get_issue"}`, `{"do":"deny","tools":"github/*"}`, `{"do":"ask"}`)
	q := request("github/get_issue", "")
	before := rules.Evaluate(q)
	Explain(rules, q, base())
	if after := rules.Evaluate(q); !reflect.DeepEqual(before, after) {
		t.Errorf("the rules say %+v, and said %+v", after, before)
	}
}

func TestARuleToPasteNamesWhatAPatternMayHold(t *testing.T) {
	c := base()
	c.Tool.Tool = "get[issue]"
	got := Explain(compile(t), Request{Tool: c.Tool, Args: json.RawMessage(`{}`)}, c).String()
	if want := `change   add to policy.rules { "do": "ask", "tools": "github/get?issue?" } -> ask`; !strings.Contains(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	compile(t, `{"do":"ask","tools":"github/get?issue?"}`)
}
