package policy

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
)

// Audited is a call as the audit remembers it.
type Audited struct {
	At         time.Time // when it was made
	Tool       catalog.ToolID
	NameUnique bool // see Request
	Class      engagement.Permission
	Egress     engagement.Egress
	Principal  string
	Profile    string // of the session; "" is the default one
	Scope      Scope
	Args       json.RawMessage   // where they were kept
	ArgsKept   bool              // false is that nobody knows what they were
	Resolved   map[string]string // see Request
	Verdict    Verdict           // what it got then
}

// DependsOnArguments is what a replayed call gets where a rule looks at arguments
// that were not kept and they would make a difference.
const DependsOnArguments = "depends on arguments"

// Replayed is an audited call under another policy.
type Replayed struct {
	Row  int    `json:"row"` // its place in the list
	Tool string `json:"tool"`
	Then string `json:"then"`
	Now  string `json:"now"`            // a verdict, or DependsOnArguments
	Rule string `json:"rule,omitempty"` // that settles it now, where something does
}

// Shift counts the calls that went from one verdict to another.
type Shift struct {
	Then  string `json:"then"`
	Now   string `json:"now"`
	Count int    `json:"count"`
}

// ReplayReport is what a list of calls would get under another policy.
type ReplayReport struct {
	Rows    []Replayed `json:"rows"`
	Shifts  []Shift    `json:"shifts"` // most frequent first
	Days    int        `json:"days"`   // calendar days, in UTC, from the first call to the last
	Asked   int        `json:"asked"`  // questions, now or parked, that were put then
	Asks    int        `json:"asks"`   // that would be put
	MayAsk  int        `json:"may_ask"`
	PerDay  float64    `json:"asks_per_day"`
	WasADay float64    `json:"asked_per_day"`
}

// Replay decides anew about calls that were made. The facts of a call under
// the other policy come from the given function, which leaves Outcome alone; the
// rules are those of the other policy. A question is a call that is put to a
// person, at once or in the inbox; MayAsk counts those of which it depends on
// arguments that were not kept.
func Replay(calls []Audited, rules *Rules, facts func(Audited) Call) ReplayReport {
	out := ReplayReport{Rows: []Replayed{}, Shifts: []Shift{}, Days: daysOf(calls)}
	shifts := map[Shift]int{}
	for i, a := range calls {
		q := Request{
			Tool: a.Tool, NameUnique: a.NameUnique, Class: a.Class, Egress: a.Egress, Principal: a.Principal, Scope: a.Scope,
			Args: a.Args, ArgsUnknown: !a.ArgsKept, Resolved: a.Resolved,
		}
		row := Replayed{Row: i, Tool: a.Tool.String(), Then: a.Verdict.String(), Now: DependsOnArguments}
		possible := Forecast(rules, q, facts(a))
		if len(possible) == 1 {
			row.Now, row.Rule = possible[0].Verdict.String(), possible[0].Rule
		}
		out.count(a, possible)
		out.Rows = append(out.Rows, row)
		shifts[Shift{Then: row.Then, Now: row.Now}]++
	}
	for s, n := range shifts {
		out.Shifts = append(out.Shifts, Shift{s.Then, s.Now, n})
	}
	slices.SortFunc(out.Shifts, compareShifts)
	out.PerDay, out.WasADay = perDay(out.Asks, out.Days), perDay(out.Asked, out.Days)
	return out
}

func (r *ReplayReport) count(a Audited, possible []Decision) {
	if isQuestion(a.Verdict) {
		r.Asked++
	}
	switch asks := slices.ContainsFunc(possible, func(d Decision) bool { return isQuestion(d.Verdict) }); {
	case asks && len(possible) == 1:
		r.Asks++
	case asks:
		r.MayAsk++
	}
}

func isQuestion(v Verdict) bool { return v == Ask || v == Defer }

// daysOf counts the calendar days that the calls span, at least one.
func daysOf(calls []Audited) int {
	if len(calls) == 0 {
		return 1
	}
	byTime := func(a, b Audited) int { return a.At.Compare(b.At) }
	day := func(a Audited) time.Time { return a.At.UTC().Truncate(24 * time.Hour) }
	return int(day(slices.MaxFunc(calls, byTime)).Sub(day(slices.MinFunc(calls, byTime)))/(24*time.Hour)) + 1
}

// perDay returns a rate with one decimal.
func perDay(n, days int) float64 { return float64((10*n+days/2)/days) / 10 }

func compareShifts(a, b Shift) int {
	if a.Count != b.Count {
		return b.Count - a.Count
	}
	return slices.Compare([]string{a.Then, a.Now}, []string{b.Then, b.Now})
}

// Forecast returns the decisions that a call may get, one for each verdict, as far
// as its arguments are known: a single one unless a rule looks at arguments that
// are not and they matter. The first is that of arguments which no such rule
// matches.
func Forecast(rules *Rules, q Request, c Call) []Decision {
	certain := rules.Evaluate(q)
	c.Outcome = certain
	out := []Decision{Decide(c)}
	for _, ref := range certain.Open {
		if certain.Do != 0 && ref.Do > certain.Do {
			continue // a stronger rule settles it whatever the arguments are
		}
		c.Outcome.Do, c.Outcome.By = ref.Do, ref
		c.Outcome.NamesTool = ref.Do == DoAllow && (rules.all[ref.Index].names(q.Tool) || certain.NamesTool)
		d := Decide(c)
		if !slices.ContainsFunc(out, func(o Decision) bool { return o.Verdict == d.Verdict }) {
			out = append(out, d)
		}
	}
	return out
}
