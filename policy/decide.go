package policy

import (
	"slices"

	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/enum"
)

// Verdict is what becomes of a call. The order is no rank. The zero Verdict is
// none; treat it as deny.
type Verdict uint8

const (
	Run    Verdict = iota + 1 // make the call
	Review                    // take a checkpoint, make the call, journal it with a way back
	Ask                       // put it to a person now
	Defer                     // park it in the inbox
	Deny                      // refuse it
)

var verdicts = enum.Of[Verdict]("verdict", "run", "review", "ask", "defer", "deny")

// Verdicts returns every Verdict.
func Verdicts() []Verdict { return verdicts.All() }

func (v Verdict) String() string                { return verdicts.Word(v) }
func (v Verdict) MarshalText() ([]byte, error)  { return verdicts.Marshal(v) }
func (v *Verdict) UnmarshalText(b []byte) error { return verdicts.Unmarshal(b, v) }

// Decision is what [Decide] says about one call. What follows the verdict holds
// for the call once it may run: at once, or after a person's yes.
type Decision struct {
	Verdict Verdict
	Code    Code   // of a deny or a defer; none otherwise
	Rule    string // the step that settled it, such as "step6.ceiling"; the same words for ever
	By      Ref    // the owner's rule that decided or answered; see Ref.Set

	OutsideSlice bool // it goes on although it is outside the slice: say so in the audit line
	Cut          bool // cut the result to the classes that may leave
	Checkpoint   bool // take a copy before the call
	Journal      bool // write a journal entry with the way back after it
	NoWayBack    bool // a copy was wanted and none is possible: card and audit say so
	Elevate      bool // the call goes beyond a flag of the owner's policy, this once

	Grant    string                  // the grant to spend; empty for none
	Level    Level                   // ask, defer: the least proof of a person's decision
	Fallback engagement.GateFallback // ask: what silence means
	About    About                   // what the sentences of the code speak of
}

// Reason returns why, in a sentence for the person.
func (d Decision) Reason() string {
	if d.Verdict == Deny || d.Verdict == Defer && d.Rule != ruleDefer {
		return d.Code.ForPerson(d.About)
	}
	return d.About.fill(reasons[d.Rule])
}

// ForModel returns what a model reads about a deny or a defer; empty otherwise.
func (d Decision) ForModel() string { return d.Code.ForModel(d.About) }

// Retryable reports whether the very same call may get another answer later.
func (d Decision) Retryable() bool { return d.Code.Retryable() }

// The rules of the decision, one for each way in which a step can settle a call.
const (
	ruleUnknown  = "step1.unknown"
	ruleHeld     = "step1.held"
	ruleSlice    = "step2.slice"
	ruleCeiling  = "step3.permission"
	ruleEgress   = "step4.egress"
	ruleDeny     = "step5.deny"
	ruleDefer    = "step6.defer-rule"
	ruleAsk      = "step6.ask-rule"
	ruleTaint    = "step6.taint"
	ruleClass    = "step6.class"
	ruleApproval = "step6.ceiling"
	ruleReady    = "step6.ready"
	ruleGrant    = "step6.grant"
	ruleReview   = "step6.review"
	ruleParked   = "step6.hil-defer"
	ruleFallback = "step6.fallback"
	ruleAllow    = "step6.allow-rule"
	ruleRun      = "step7.run"
	ruleSpend    = "step8.spend"
)

// reasons are the sentences of what is no refusal.
var reasons = map[string]string{
	ruleDefer:    "{rule} parks this call of {tool} for you.",
	ruleAsk:      "{rule} asks you about this call of {tool}.",
	ruleTaint:    "{tool} sends data out, and the session has read private data and content that strangers may have written.",
	ruleClass:    "{tool} is of class {class}, which needs a person's yes.",
	ruleApproval: "{tool} is of class {class}, above what this session may do without a person.",
	ruleGrant:    "a grant that you made covers this call of {tool}.",
	ruleReview:   "{tool} runs with a copy taken before it; you see what it changed and can put it back.",
	ruleAllow:    "{rule} is your standing yes to this call of {tool}.",
	ruleRun:      "{tool} is of class {class}, which needs no person here.",
}

// Decide judges one call. It is a pure function: equal facts, equal decision. The
// steps are taken in this order, and the first that denies ends it:
//
//  1. the tool is known, shown to this caller, and its definition accepted
//  2. it is inside the slice, where the slice is enforced
//  3. its class is under the permission ceiling, which no approval widens
//  4. its declared egress may leave, or the result will be cut
//  5. no rule of the owner denies it
//  6. does it need a person, and what stands in for one
//  7. a copy before a write
//  8. something is left to spend
//
// A call that needs nobody is not held up by [Call.Ready]: whoever dispatches it
// meets the same obstacle and reports it.
func Decide(c Call) Decision {
	d := Decision{About: About{Tool: c.Tool, Class: c.class(), Egress: c.egress(), Leaves: c.Limits.Egress, Pin: c.Pin}}
	_ = d.isKnown(&c) && d.isAccepted(&c) &&
		d.isInSlice(&c) &&
		d.isUnderCeiling(&c) &&
		d.mayLeave(&c) &&
		d.isNotDenied(&c) &&
		d.hasItsYes(&c) &&
		d.hasWayBack(&c) &&
		d.canBePaid(&c)
	return d
}

// The steps below return whether the next one is to be taken.

// deny settles the call and returns false, as no step is taken after it. What
// would have held for the call's run does not any more.
func (d *Decision) deny(code Code, rule string) bool {
	*d = Decision{Verdict: Deny, Code: code, Rule: rule, By: d.By, OutsideSlice: d.OutsideSlice, About: d.About}
	return false
}

// by names the owner's rule that decides or answers.
func (d *Decision) by(ref Ref) { d.By, d.About.By = ref, ref }

// isKnown treats a hidden tool in every word as one that does not exist; only
// By, which the person sees, tells them apart.
func (d *Decision) isKnown(c *Call) bool {
	if c.Known && c.Outcome.Do != DoHide {
		return true
	}
	if c.Outcome.Do == DoHide {
		d.by(c.Outcome.By)
	}
	own := c.Tool.String()
	d.About.Nearest = slices.DeleteFunc(slices.Clone(c.Nearest), func(name string) bool { return name == own })
	return d.deny(CodeUnknown, ruleUnknown)
}

func (d *Decision) isAccepted(c *Call) bool {
	return c.Pin == PinAccepted || d.deny(CodeHeld, ruleHeld)
}

func (d *Decision) isInSlice(c *Call) bool {
	d.OutsideSlice = !c.InSlice
	return c.InSlice || !c.Enforce || d.deny(CodeOutsideSlice, ruleSlice)
}

func (d *Decision) isUnderCeiling(c *Call) bool {
	switch {
	case c.class().AtMost(c.Limits.Permission):
		return true
	case c.PermissionFrom == OriginOwner:
		return d.deny(CodeReadOnly, ruleCeiling)
	}
	return d.deny(CodeScope, ruleCeiling)
}

func (d *Decision) mayLeave(c *Call) bool {
	d.Cut = !c.Limits.Egress.Has(c.egress())
	return !d.Cut || c.OnEgress == EgressDowngrade || d.deny(CodeEgress, ruleEgress)
}

func (d *Decision) isNotDenied(c *Call) bool {
	if c.Outcome.Do != DoDeny {
		return true
	}
	d.by(c.Outcome.By)
	return d.deny(CodeRule, ruleDeny)
}

// hasItsYes is step 6: who says yes, a person or something that a person or the
// owner said beforehand.
func (d *Decision) hasItsYes(c *Call) bool {
	why, byRule := whyAsk(c)
	switch {
	case why == "" && needsAnswer(c):
		d.by(c.Outcome.By)
		return d.settle(Run, ruleAllow)
	case why == "":
		return d.settle(Run, ruleRun)
	case why == ruleTaint && c.Taint.Mode == TaintDeny:
		return d.deny(CodeTaint, ruleTaint)
	}
	if c.Outcome.Do == DoAsk || c.Outcome.Do == DoDefer {
		d.by(c.Outcome.By)
	}
	if code := c.unready(); code != 0 {
		return d.deny(code, ruleReady)
	}
	switch {
	case why == ruleDefer:
		return d.park(c, ruleDefer)
	case c.granted() && !byRule && c.handsOver() && c.stakesAtMost(engagement.StakesCostly):
		d.Grant = c.Grant.ID
		return d.settle(Run, ruleGrant)
	case !byRule && reviewable(c):
		return d.settle(Review, ruleReview)
	case c.HIL == engagement.HILDefer:
		return d.park(c, ruleParked)
	case !c.attended():
		return d.fallBack(c, CodeUnattended)
	case !c.Reach.Reaches(c.least()):
		return d.fallBack(c, CodeNoPerson)
	}
	d.Level, d.Fallback = c.least(), c.fallback()
	return d.settle(Ask, why)
}

func (d *Decision) settle(v Verdict, rule string) bool {
	d.Verdict, d.Rule = v, rule
	return true
}

// whyAsk returns the rule by which the call needs a person, empty if it needs
// none, and whether that is an ask rule, which no grant and no review answers.
// Taint counts as one. A rule to park is the owner's word on where the question
// goes, so it stands before everything else.
func whyAsk(c *Call) (why string, askRule bool) {
	switch {
	case c.Taint.Mode == TaintDeny && c.taintAsks():
		return ruleTaint, true
	case c.Outcome.Do == DoDefer:
		return ruleDefer, false
	case c.Outcome.Do == DoAsk:
		return ruleAsk, true
	case c.taintAsks():
		return ruleTaint, true
	case c.standing() || !needsAnswer(c):
		return "", false
	case c.class().NeedsApproval():
		return ruleClass, false
	}
	return ruleApproval, false
}

// needsAnswer reports whether the class alone asks for a yes.
func needsAnswer(c *Call) bool {
	return c.class().NeedsApproval() || !c.class().AtMost(c.Limits.ApprovalCeiling)
}

// reviewable reports whether acting and showing may stand in for a yes: the mode
// says so, a mistake can be put back and so can this very call. Writes to the
// person's files need the owner's flag besides.
func reviewable(c *Call) bool {
	class := c.class()
	return c.HIL == engagement.HILReview && c.handsOver() && c.stakesAtMost(engagement.StakesReversible) && c.CanUndo &&
		(class == engagement.ReversibleWrite || class == engagement.SourceFileWrite && c.AllowSourceWrites)
}

// unready returns why nobody should be asked about the call, or no code.
func (c *Call) unready() Code {
	switch c.Ready {
	case Ready:
		return 0
	case Unverified:
		return CodeUnverified
	case BadArguments:
		return CodeArguments
	}
	return CodeServerDown
}

// park sends the question to the inbox, where it needs the same proof.
func (d *Decision) park(c *Call, rule string) bool {
	d.Code, d.Level, d.Fallback = CodeDeferred, c.least(), 0
	return d.settle(Defer, rule)
}

// fallBack is what becomes of a question that nobody can answer.
func (d *Decision) fallBack(c *Call, why Code) bool {
	if c.fallback() == engagement.FallbackDefer {
		return d.park(c, ruleFallback)
	}
	return d.deny(why, ruleFallback)
}

// hasWayBack is step 7: the copies that a write is owed, and the elevation that
// an approved one is.
func (d *Decision) hasWayBack(c *Call) bool {
	class := c.class()
	d.Elevate = class == engagement.SourceFileWrite && !c.AllowSourceWrites ||
		class == engagement.Destructive && !c.AllowDestructive
	wanted := class > engagement.Read && (c.HIL == engagement.HILReview || c.CheckpointBefore && c.FirstWrite)
	d.Checkpoint = wanted && c.CanUndo
	d.Journal = d.Checkpoint
	d.NoWayBack = wanted && !c.CanUndo
	return true
}

// canBePaid is step 8. The charge itself is made last, in one transaction; here
// a person is spared a question about a call that could not be paid for.
func (d *Decision) canBePaid(c *Call) bool {
	return !c.broke() || d.deny(CodeSpend, ruleSpend)
}
