package policy_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
	. "github.com/mcp-gate/mcp-gate/policy"
)

func audited(day int, tool string, class engagement.Permission, args string, then Verdict) Audited {
	return Audited{
		At:   time.Date(2026, 3, day, 23, 30, 0, 0, time.FixedZone("", -3600)), // already the next day in UTC
		Tool: catalog.ToolID{Server: "github", Tool: tool}, Class: class, Egress: engagement.Metadata, Principal: "local", Scope: ScopeAdmin,
		Args: json.RawMessage(args), ArgsKept: args != "", Verdict: then,
	}
}

// facts are those of a call that is asked about when it writes files.
func facts(a Audited) Call {
	c := base()
	c.Tool, c.Class, c.Egress = a.Tool, a.Class, a.Egress
	c.Limits.ApprovalCeiling = engagement.ReversibleWrite
	return c
}

func TestReplay(t *testing.T) {
	rules := compile(t,
		`{"do":"allow","tools":"github/put_file","args":{"/path":{"glob":"docs/*"}}}`,
		`{"do":"deny","tools":"github/delete_repo"}`,
		`{"do":"ask","tools":"github/delete_repo","args":{"/repo":{"eq":"x"}}}`)
	calls := []Audited{
		audited(3, "put_file", engagement.SourceFileWrite, `{"path":"docs/a"}`, Ask),
		audited(1, "put_file", engagement.SourceFileWrite, `{"path":"src/a"}`, Ask),
		audited(2, "put_file", engagement.SourceFileWrite, "", Ask),
		audited(4, "get_issue", engagement.Read, "", Run),
		audited(4, "delete_repo", engagement.Destructive, "", Defer), // denied whatever its arguments were
	}
	got, err := json.MarshalIndent(Replay(calls, rules, facts), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want := `{
 "rows": [
  {
   "row": 0,
   "tool": "github/put_file",
   "then": "ask",
   "now": "run",
   "rule": "step6.allow-rule"
  },
  {
   "row": 1,
   "tool": "github/put_file",
   "then": "ask",
   "now": "ask",
   "rule": "step6.class"
  },
  {
   "row": 2,
   "tool": "github/put_file",
   "then": "ask",
   "now": "depends on arguments"
  },
  {
   "row": 3,
   "tool": "github/get_issue",
   "then": "run",
   "now": "run",
   "rule": "step7.run"
  },
  {
   "row": 4,
   "tool": "github/delete_repo",
   "then": "defer",
   "now": "deny",
   "rule": "step5.deny"
  }
 ],
 "shifts": [
  {
   "then": "ask",
   "now": "ask",
   "count": 1
  },
  {
   "then": "ask",
   "now": "depends on arguments",
   "count": 1
  },
  {
   "then": "ask",
   "now": "run",
   "count": 1
  },
  {
   "then": "defer",
   "now": "deny",
   "count": 1
  },
  {
   "then": "run",
   "now": "run",
   "count": 1
  }
 ],
 "days": 4,
 "asked": 4,
 "asks": 1,
 "may_ask": 1,
 "asks_per_day": 0.3,
 "asked_per_day": 1
}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestReplayCountsTheMostFrequentShiftFirst(t *testing.T) {
	read := audited(1, "get_issue", engagement.Read, "{}", Ask)
	got := Replay([]Audited{audited(1, "put_file", engagement.SourceFileWrite, "{}", Run), read, read}, nil, facts)
	want := []Shift{{"ask", "run", 2}, {"run", "ask", 1}}
	if !reflect.DeepEqual(got.Shifts, want) || got.Days != 1 || got.PerDay != 1 || got.WasADay != 2 {
		t.Errorf("got %+v", got)
	}
	empty := Replay(nil, nil, facts)
	if b, _ := json.Marshal(empty); string(b) != `{"rows":[],"shifts":[],"days":1,"asked":0,"asks":0,"may_ask":0,"asks_per_day":0,"asked_per_day":0}` {
		t.Errorf("no calls give %s", b)
	}
}

func TestForecast(t *testing.T) {
	rules := compile(t,
		`{"do":"ask","tools":"github/create"}`,
		`{"do":"deny","tools":"github/create","args":{"/a":{"eq":1}}}`,
		`{"do":"allow","tools":"github/create","args":{"/a":{"eq":1}}}`,
		`{"do":"allow","tools":"github/delete_repo","args":{"/a":{"eq":1}}}`,
		`{"do":"allow","tools":"github/delete_*"}`,
		`{"do":"ask","tools":"github/look","args":{"/a":{"eq":1}}}`,
		`{"do":"ask","tools":"github/look","args":{"/b":{"eq":1}}}`)
	for _, tt := range []struct {
		tool  string
		class engagement.Permission
		want  []Verdict
	}{
		{"create", engagement.ReversibleWrite, []Verdict{Ask, Deny}},
		{"delete_repo", engagement.Destructive, []Verdict{Ask, Run}},
		{"delete_issue", engagement.Destructive, []Verdict{Ask}},
		{"look", engagement.Read, []Verdict{Run, Ask}},
		{"other", engagement.Read, []Verdict{Run}},
	} {
		a := audited(1, tt.tool, tt.class, "", Run)
		var got []Verdict
		for _, d := range Forecast(rules, Request{Tool: a.Tool, Class: a.Class, Egress: a.Egress, ArgsUnknown: true}, facts(a)) {
			got = append(got, d.Verdict)
		}
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s may get %v, want %v", tt.tool, got, tt.want)
		}
	}
}
