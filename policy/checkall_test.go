package policy

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
)

// checkAll is Check with every rule held against every other.
func checkAll(c *checker) []Finding {
	var found []Finding
	for i := range c.rules.all {
		found = append(found, c.alone(i)...)
		weak := &c.rules.all[i]
		covered := slices.IndexFunc(c.rules.all, func(strong rule) bool { return strong.ref.Do < weak.ref.Do && c.covers(strong.ref.Index, i) })
		if covered >= 0 {
			found = append(found, Finding{Kind: FindUnreachable, Rule: weak.ref, Other: c.rules.all[covered].ref})
			continue
		}
		for j := range c.rules.all {
			strong := &c.rules.all[j]
			if weak.ref.Do == DoAllow && strong.ref.Do < DoAllow && len(strong.args) == 0 && !c.covers(i, j) && meetPeople(weak, strong) && len(c.shared(i, j)) > 0 {
				found = append(found, Finding{Kind: FindConflict, Rule: weak.ref, Other: strong.ref})
			}
		}
	}
	return found
}

func randomRecord(r *rand.Rand) Record {
	of := func(words ...string) Words {
		var some Words
		for range 1 + r.IntN(2) {
			some = append(some, words[r.IntN(len(words))])
		}
		return some
	}
	var rec Record
	rec.Do = of("hide", "deny", "ask", "defer", "allow", "allow", "allow")[0]
	if r.IntN(5) > 0 {
		rec.Tools = of("a/x", "a/y", "b/x", "b/*", "a/x*", "*/x", "*", "x", "y?", "a/?", "c/nope", "c/*", "a*/x", "a/y*")
	}
	if r.IntN(4) == 0 {
		rec.Class = of("read", "destructive")
	}
	if r.IntN(4) == 0 {
		rec.Egress = of("metadata", "row_level")
	}
	if r.IntN(3) == 0 {
		rec.Principal = of("p", "q", "p*", "*", "p?")
	}
	if r.IntN(4) == 0 {
		rec.Scope = of("read", "admin")
	}
	if r.IntN(2) == 0 {
		rec.Args = map[string]ArgRecord{}
		for range 1 + r.IntN(2) {
			n, most := json.RawMessage(fmt.Sprint(r.IntN(2))), r.IntN(2)
			rec.Args[[]string{"/m", "/n", "/n/o"}[r.IntN(3)]] = []ArgRecord{{Present: true}, {Absent: true}, {Eq: n}, {MaxLen: &most}, {Eq: n, MaxLen: &most}, {Glob: Words{"*"}}}[r.IntN(6)]
		}
	}
	return rec
}

func TestCheckFindsWhatComparingAllDoes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0))
	var few, lots []Target
	for _, server := range []string{"a", "b"} {
		for _, tool := range []string{"x", "y", "xy", "yz"} {
			few = append(few, Target{Tool: catalog.ToolID{Server: server, Tool: tool}, Class: []engagement.Permission{engagement.Read, engagement.Destructive}[len(few)%2]})
		}
	}
	lots = slices.Clone(few)
	for i := range 2 * many {
		lots = append(lots, Target{Tool: catalog.ToolID{Server: "b", Tool: fmt.Sprintf("x%d", i)}, Class: engagement.Read})
	}
	for round := range 600 {
		var records []Record
		for range 2 + r.IntN(10) {
			records = append(records, randomRecord(r))
		}
		rules, err := Compile(records)
		if err != nil {
			t.Fatal(err)
		}
		tools := [][]Target{nil, few, lots}[round%3]
		var got []string
		for _, f := range Check(rules, tools) {
			got = append(got, fmt.Sprintf("%v %d %v", f.Kind, f.Rule.Index, f.Other))
		}
		var want []string
		for _, f := range checkAll(newChecker(rules, tools)) {
			want = append(want, fmt.Sprintf("%v %d %v", f.Kind, f.Rule.Index, f.Other))
		}
		if !slices.Equal(got, want) {
			b, _ := json.Marshal(records)
			t.Fatalf("%s with %d tools:\ngot  %q\nwant %q", b, len(tools), got, want)
		}
	}
}

// Twenty thousand rules are checked in about the time that it takes to read them.
func TestCheckOfManyRules(t *testing.T) {
	const n = 20_000
	var tools []Target
	schema := json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"additionalProperties":false}`)
	for i := range 1000 {
		tools = append(tools, Target{Tool: catalog.ToolID{Server: fmt.Sprintf("s%d", i%20), Tool: fmt.Sprintf("t%d", i)}, Class: engagement.Read, Schema: schema})
	}
	shapes := map[string]func(i int) Record{
		"a tool each": func(i int) Record { return Record{Tools: Words{fmt.Sprintf("s%d/t%d", i%20, i)}} },
		"every tool, other arguments": func(i int) Record {
			return Record{Args: map[string]ArgRecord{"/path": {Glob: Words{fmt.Sprintf("/%d/*", i)}}}}
		},
		"one tool, other people":    func(i int) Record { return Record{Tools: Words{"s0/t0"}, Principal: Words{fmt.Sprintf("p%d", i)}} },
		"one tool, again and again": func(int) Record { return Record{Tools: Words{"s0/t0"}} },
		"a server, an argument nobody has": func(i int) Record {
			return Record{Tools: Words{fmt.Sprintf("s%d/*", i%20)}, Args: map[string]ArgRecord{fmt.Sprintf("/n%d", i): {Present: true}}}
		},
		"patterns of a server": func(i int) Record { return Record{Tools: Words{fmt.Sprintf("s%d/t%d*", i%20, i)}} },
	}
	for name, shape := range shapes {
		for _, known := range [][]Target{nil, tools} {
			records := make([]Record, n)
			for i := range records {
				records[i] = shape(i / 2)
				records[i].Do = []string{"allow", "deny"}[i%2]
			}
			rules, err := Compile(records)
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			found := Check(rules, known)
			took := time.Since(start)
			t.Logf("%s, %d tools: %d findings in %v", name, len(known), len(found), took)
			if took > time.Minute {
				t.Errorf("%s: %v", name, took)
			}
		}
	}
}
