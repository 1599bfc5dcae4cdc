package policy

import (
	"slices"
	"strings"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
)

// Explanation is a decision in words, for the person. Its JSON form is stable:
// fields are added, never renamed.
type Explanation struct {
	Tool    string           `json:"tool"`
	Class   string           `json:"class"`
	Egress  string           `json:"egress"`
	Verdict Verdict          `json:"verdict"`
	Code    string           `json:"code,omitempty"`
	Rule    string           `json:"rule"`
	By      *ExplainedRule   `json:"by,omitempty"`
	Reason  string           `json:"reason"`
	Level   string           `json:"level,omitempty"` // least proof of a person's decision
	Notes   []string         `json:"notes,omitempty"`
	Change  *ExplainedChange `json:"change,omitempty"`
}

// ExplainedRule is a rule of the owner in an [Explanation].
type ExplainedRule struct {
	Index  int    `json:"index"`
	Do     Do     `json:"do"`
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	Note   string `json:"note,omitempty"`
}

// ExplainedChange is the smallest change that leads to another verdict: its steps
// are all needed, in this order.
type ExplainedChange struct {
	Steps   []string `json:"steps"`
	Verdict Verdict  `json:"verdict"` // what the call would get then
}

// Explain decides about a call under the rules and says why in words. The outcome
// of the rules is computed from the request; the one in the call is not used.
func Explain(rules *Rules, q Request, c Call) Explanation {
	c.Outcome = rules.Evaluate(q)
	d := Decide(c)
	out := Explanation{
		Tool: c.Tool.String(), Class: c.class().String(), Egress: c.egress().String(),
		Verdict: d.Verdict, Rule: d.Rule, Reason: d.Reason(), Notes: d.notes(c.Outcome),
		Change: smallestChange(rules, q, c, d),
	}
	if d.Code != 0 {
		out.Code = d.Code.String()
	}
	if d.Level != 0 {
		out.Level = d.Level.String()
	}
	if d.By.Set() {
		out.By = &ExplainedRule{d.By.Index, d.By.Do, d.By.Source.File, d.By.Source.Line, d.By.Source.Column, d.By.Note}
	}
	return out
}

// notes are what the person should know beside the reason.
func (d Decision) notes(o Outcome) []string {
	var notes []string
	for _, note := range []struct {
		holds bool
		text  string
	}{
		{d.OutsideSlice, "outside the slice, which is not enforced"},
		{d.Cut, "the result will be cut to what may leave"},
		{d.Checkpoint, "a copy is taken before it runs"},
		{d.NoWayBack, "there is no way back"},
		{d.Elevate, "goes beyond the policy's flags, this once"},
		{d.Grant != "", "spends grant " + d.Grant},
	} {
		if note.holds {
			notes = append(notes, note.text)
		}
	}
	for _, f := range o.Failed {
		effect := "counted as a match"
		if f.Rule.Do == DoAllow {
			effect = "counted as none"
		}
		notes = append(notes, f.String()+"; "+effect)
	}
	for _, ref := range o.Open {
		notes = append(notes, ref.String()+" looks at arguments that are not known")
	}
	return notes
}

// fix is one change that takes away the ground of a decision.
type fix struct {
	text string
	edit func(*world)
}

// world is what a change is tried on.
type world struct {
	rules *Rules
	q     Request
	call  Call
}

// smallestChange takes away the ground that decides until the verdict is another
// one. Steps are taken in a fixed order and the first that denies ends it, so
// nothing else could alter the verdict before that ground is gone. Nil where no
// policy would help, such as a tool that does not exist.
func smallestChange(rules *Rules, q Request, c Call, d Decision) *ExplainedChange {
	w := world{rules, q, c}
	change := &ExplainedChange{}
	for next := d; next.Verdict == d.Verdict; next = Decide(w.call) {
		f, ok := w.fixFor(next)
		if !ok {
			return nil
		}
		f.edit(&w)
		change.Steps = append(change.Steps, f.text)
		change.Verdict = Decide(w.call).Verdict
	}
	return change
}

func (w *world) fixFor(d Decision) (fix, bool) {
	change := d.Code.Change(d.About)
	switch d.Rule {
	case ruleUnknown:
		return fix{"edit or remove " + d.By.String(), dropRule}, d.By.Set() && w.call.Known
	case ruleDeny, ruleDefer, ruleAsk, ruleAllow:
		return fix{"edit or remove " + d.By.String(), dropRule}, true
	case ruleHeld:
		return fix{change, func(w *world) { w.call.Pin = PinAccepted }}, w.call.Pin != PinGone
	case ruleSlice:
		return fix{change, func(w *world) { w.call.Enforce = false }}, true
	case ruleCeiling:
		return fix{change, func(w *world) { w.call.Limits.Permission = engagement.Destructive }}, true
	case ruleEgress:
		return fix{change, func(w *world) { w.call.Limits.Egress = w.call.Limits.Egress.With(w.call.egress()) }}, true
	case ruleReady:
		return fix{change, func(w *world) { w.call.Ready = Ready }}, change != ""
	case ruleSpend:
		return fix{change, func(w *world) { w.call.Left = engagement.Spend{} }}, true
	case ruleFallback:
		return w.fixFallback(d, change), true
	case ruleRun, ruleReview:
		return fix{`{ "do": "ask", "tools": "` + d.About.Tool.String() + `" }`, addRule(DoAsk)}, true
	case ruleGrant:
		return fix{"mcp-gate grants revoke " + d.Grant, func(w *world) { w.call.Grant = Grant{} }}, true
	}
	return w.fixQuestion(d), true
}

// fixFallback is for a question that nobody can answer: let it wait, or, where it
// waits already, answer it beforehand.
func (w *world) fixFallback(d Decision, change string) fix {
	switch {
	case d.Verdict == Defer:
		return w.fixQuestion(d)
	case d.Code == CodeNoPerson:
		return fix{change, func(w *world) { w.call.Reach = w.call.least() }}
	}
	return fix{change, func(w *world) { w.call.OwnerFallback = engagement.FallbackDefer }}
}

// fixQuestion is for a call that needs a person: the owner's standing yes, which
// holds only where something was handed over.
func (w *world) fixQuestion(d Decision) fix {
	switch {
	case d.Code == CodeTaint:
		return fix{`"taint": "ask"`, func(w *world) { w.call.Taint.Mode = TaintAsk }}
	case w.call.Outcome.Do == DoAsk:
		return fix{"edit or remove " + w.call.Outcome.By.String(), dropRule}
	case !w.call.handsOver():
		return fix{`"authority": { "autonomy": "delegated" }`, func(w *world) {
			w.call.Autonomy = engagement.AutonomyDelegated
		}}
	}
	return fix{`{ "do": "allow", "tools": "` + d.About.Tool.String() + `" }`, addRule(DoAllow)}
}

// addRule adds a rule that names the tool outright.
func addRule(do Do) func(*world) {
	return func(w *world) {
		w.call.Outcome.Do, w.call.Outcome.NamesTool = do, do == DoAllow
		w.call.Outcome.By = Ref{Do: do, Index: w.rules.Len()}
	}
}

// dropRule takes the deciding rule away and lets the others speak.
func dropRule(w *world) {
	w.rules = w.rules.without(w.call.Outcome.By.Index)
	w.call.Outcome = w.rules.Evaluate(w.q)
}

// without returns the rules with one of them never matching.
func (r *Rules) without(index int) *Rules {
	drop := func(list []int) []int {
		return slices.DeleteFunc(slices.Clone(list), func(i int) bool { return i == index })
	}
	out := &Rules{all: r.all, byTool: map[catalog.ToolID][]int{}, byServer: map[string][]int{}, anywhere: drop(r.anywhere)}
	for id, list := range r.byTool {
		out.byTool[id] = drop(list)
	}
	for server, list := range r.byServer {
		out.byServer[server] = drop(list)
	}
	return out
}

// String returns the explanation as lines for a terminal.
func (e Explanation) String() string {
	var b strings.Builder
	line := func(name, text string) {
		if text != "" {
			b.WriteString(name + strings.Repeat(" ", max(1, 9-len(name))) + text + "\n")
		}
	}
	line("tool", e.Tool+" ("+e.Class+", "+e.Egress+")")
	line("verdict", e.Verdict.String())
	line("code", e.Code)
	line("rule", e.Rule)
	if e.By != nil {
		line("by", Ref{e.By.Do, e.By.Index, Source{e.By.File, e.By.Line, e.By.Column}, ""}.String())
		line("", e.By.Note)
	}
	line("reason", e.Reason)
	line("proof", e.Level)
	for _, note := range e.Notes {
		line("note", note)
	}
	if e.Change != nil {
		line("change", strings.Join(e.Change.Steps, "; then ")+" -> "+e.Change.Verdict.String())
	}
	return b.String()
}
