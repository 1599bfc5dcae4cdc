package policy

import (
	"slices"
	"strings"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
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
	// Possible is every verdict that the call may get where that depends on
	// arguments which are not known. The first is Verdict, that of arguments
	// which no rule matches that looks at them.
	Possible []Verdict `json:"possible,omitempty"`
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
	if c.Known && c.Class == 0 && c.Pin != PinAccepted {
		out.Notes = append(out.Notes, "held: its definition does not count yet, so it is taken for "+out.Class+" and "+out.Egress+"; once accepted: it is judged by what its definition says")
	}
	if possible := Forecast(rules, q, c); len(possible) > 1 {
		out.Change = nil // what would alter one verdict is no answer to which it is
		for _, d := range possible {
			out.Possible = append(out.Possible, d.Verdict)
		}
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
		{d.Elevate, "the policy does not open class " + d.About.Class.String() + " (" + flagOf(d.About.Class) + "): a yes opens it for this call alone"},
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

// flagOf is the key of the policy's flag that opens a class.
func flagOf(class engagement.Permission) string {
	if class == engagement.SourceFileWrite {
		return "allow_source_writes"
	}
	return "allow_destructive"
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
		if d.Code == CodeScope && d.About.Class == engagement.ReversibleWrite {
			return fix{strings.Replace(change, "admin", "write", 1), func(w *world) { w.call.Limits.Permission = engagement.ReversibleWrite }}, true
		}
		return fix{change, func(w *world) { w.call.Limits.Permission = engagement.Destructive }}, true
	case ruleEgress:
		return fix{change, func(w *world) { w.call.Limits.Egress = w.call.Limits.Egress.With(w.call.egress()) }}, true
	case ruleReady:
		return fix{change, func(w *world) { w.call.Ready = Ready }}, change != ""
	case ruleSpend:
		return fix{change, func(w *world) { w.call.Left = engagement.Spend{} }}, true
	case ruleFallback:
		return w.fixFallback(d, change)
	case ruleRun, ruleReview:
		return fix{ruleFor(DoAsk, d.About.Tool), addRule(DoAsk)}, true
	case ruleGrant:
		return fix{"mcp-gate grants revoke " + d.Grant, func(w *world) { w.call.Grant = Grant{} }}, true
	}
	return w.fixQuestion(d)
}

// fixFallback is for a question that nobody can answer: let it wait, or, where it
// waits already, answer it beforehand.
func (w *world) fixFallback(d Decision, change string) (fix, bool) {
	switch {
	case d.Verdict == Defer:
		return w.fixQuestion(d)
	case d.Code == CodeNoPerson:
		return fix{change, func(w *world) { w.call.Reach = w.call.least() }}, true
	}
	return fix{change, func(w *world) { w.call.OwnerFallback = engagement.FallbackDefer }}, true
}

// fixQuestion is for a call that needs a person: the owner's standing yes, which
// holds only where something was handed over and the tool can be named outright.
func (w *world) fixQuestion(d Decision) (fix, bool) {
	switch {
	case d.Code == CodeTaint:
		return fix{`"taint": "ask"`, func(w *world) { w.call.Taint.Mode = TaintAsk }}, true
	case w.call.Outcome.Do == DoAsk:
		return fix{"edit or remove " + w.call.Outcome.By.String(), dropRule}, true
	case !w.call.handsOver():
		return fix{`"authority": { "autonomy": "delegated" }`, func(w *world) {
			w.call.Autonomy = engagement.AutonomyDelegated
		}}, true
	}
	return fix{ruleFor(DoAllow, d.About.Tool), addRule(DoAllow)}, !strings.ContainsAny(d.About.Tool.String(), inNoPattern+"*?")
}

// ruleFor is a rule about one tool as it can be pasted into policy.rules. What no
// pattern may hold stands for itself as ?.
func ruleFor(do Do, id catalog.ToolID) string {
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune(inNoPattern, r) {
			return '?'
		}
		return r
	}, id.String())
	return ruleStart + do.String() + `", "tools": ` + string(strictjson.AppendString(nil, name)) + ` }`
}

const ruleStart = `{ "do": "`

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
	if e.Possible == nil {
		e.lineVerdict(line)
	} else {
		var words []string
		for _, v := range e.Possible {
			words = append(words, v.String())
		}
		line("verdict", DependsOnArguments+": "+strings.Join(words, ", or "))
		line("reason", "where no rule matches that looks at them: "+e.Reason)
	}
	line("proof", e.Level)
	for _, note := range e.Notes {
		line("note", note)
	}
	if e.Change != nil {
		var steps []string
		for _, step := range e.Change.Steps {
			if strings.HasPrefix(step, ruleStart) {
				step = "add to policy.rules " + step
			}
			steps = append(steps, step)
		}
		line("change", strings.Join(steps, "; then ")+" -> "+e.Change.Verdict.String())
	}
	return b.String()
}

func (e Explanation) lineVerdict(line func(name, text string)) {
	line("verdict", e.Verdict.String())
	line("code", e.Code)
	line("rule", e.Rule)
	if e.By != nil {
		line("by", Ref{e.By.Do, e.By.Index, Source{e.By.File, e.By.Line, e.By.Column}, ""}.String())
		line("", e.By.Note)
	}
	line("reason", e.Reason)
}
