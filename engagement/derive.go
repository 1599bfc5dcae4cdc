package engagement

import (
	"strings"

	"github.com/mcp-gate/mcp-gate/internal/enum"
)

// Derive returns what a reading means under an authority. With slice, the
// required domains are those that the reading needs; without it, because the
// reading is too unsure to take tools away on its word, they are the [Floor].
//
// A reading chooses what is loaded and how careful to be. It does not choose what
// may be done: permission, egress and spend stay at the top and are for policy to
// narrow. Confidence is not looked at here; see [Bars].
//
// What a field of the reading leaves unknown stays without a value in the
// engagement, which then cannot be written as a record.
func Derive(r Reading, a Authority, slice bool) Engagement {
	limits := Unrestricted()
	limits.RequiredDomains = requiredDomains(r, slice)
	limits.RequiredModalities = r.Modalities
	limits.LeastSatisfaction = r.Evidence.LeastSatisfaction()

	hil := deriveHIL(r, a)
	delivery := deriveDelivery(r)
	posture := Posture{
		Managed:                r.Horizon >= HorizonSession,
		OpenCommitment:         r.Horizon.OpensCommitment(),
		CheckpointBeforeEffect: r.anyEffectful() && r.Stakes.WantsCheckpoint(),
		HIL:                    hil,
		Clarify:                deriveClarify(r),
		Delivery:               delivery,
		Demand: Demand{
			ReasoningRequired: actTraits[r.Act].reasoned || r.Horizon >= HorizonSession,
			EvidenceRequired:  r.needsSources(),
			StructuredOutput:  delivery.Shape.Structured(),
		},
		Stop:    deriveStop(r),
		Context: deriveContext(r),
		Stance:  deriveStance(r),
		Note:    deriveNote(r, hil),
	}
	return ApplyAuthority(Engagement{limits, posture}, a, r.Horizon, r.Stakes)
}

// ApplyAuthority returns e under an authority: the approval ceiling for these
// stakes is met in, and the fallback for this horizon is set. It is the one place
// for every path, since authority does not depend on how well a request was read:
// manual asks whether or not the words were understood.
func ApplyAuthority(e Engagement, a Authority, h Horizon, s Stakes) Engagement {
	e.Limits.ApprovalCeiling = min(e.Limits.ApprovalCeiling, a.ApprovalCeiling(s))
	e.Posture.GateFallback = a.GateFallback(h)
	return e
}

// Bars are how sure a [SourceLexical] reading has to be before its word is taken,
// each from 0 to 1. They are the project's own choice.
type Bars struct {
	Slice  float64 // below it the reading takes no tools away: slice is false
	Orient float64 // below it the reading is not used at all: [Orienting]
}

// DefaultBars returns the bars where the owner set none: 0.5 and 0.2.
func DefaultBars() Bars { return Bars{Slice: 0.5, Orient: 0.2} }

// Source is where a reading comes from. The zero Source is unknown and trusted no
// more than the lexical reader.
type Source uint8

const (
	SourceLexical  Source = iota + 1 // guessed from the words of a request
	SourceDeclared                   // stated outright, by a launch or by the agent
)

var sources = enum.Of[Source]("source", "lexical", "declared")

// Sources returns every Source, in the order of the vocabulary.
func Sources() []Source { return sources.All() }

func (s Source) String() string                { return sources.Word(s) }
func (s Source) MarshalText() ([]byte, error)  { return sources.Marshal(s) }
func (s *Source) UnmarshalText(b []byte) error { return sources.Unmarshal(b, s) }

// Engage returns the engagement for a reading of this source, as far as the bars
// let its confidence carry. A declared reading counts as certain. Authority is
// applied in every case, at the reading's own horizon and stakes.
func (b Bars) Engage(r Reading, a Authority, source Source) Engagement {
	confidence := r.Confidence
	if source == SourceDeclared {
		confidence = 1
	}
	// Asked this way round, a confidence that is not a number clears no bar.
	if !(confidence >= b.Orient) {
		return ApplyAuthority(Orienting(), a, r.Horizon, r.Stakes)
	}
	return Derive(r, a, confidence >= b.Slice)
}

// Unread returns the engagement where there is no reading at all: [General] under
// the authority, at the horizon and the stakes of the [NeutralReading].
func Unread(a Authority) Engagement {
	neutral := NeutralReading()
	return ApplyAuthority(General(), a, neutral.Horizon, neutral.Stakes)
}

// actTraits is what follows from the primary act where no other axis says otherwise.
var actTraits = map[Act]struct {
	shape    Shape
	stance   Stance
	reasoned bool // the act is not done well without reasoning
}{
	ActConverse:    {ShapeProse, StanceConversational, false},
	ActAnswer:      {ShapeProse, StanceDirectAnswer, false},
	ActLocate:      {ShapeFindings, StanceExploratory, false},
	ActAnalyze:     {ShapeProse, StanceAnalytical, true},
	ActAuthor:      {ShapeArtifact, StanceGenerative, true},
	ActModify:      {ShapeDiff, StanceOperational, true},
	ActOperate:     {ShapeReport, StanceOperational, false},
	ActVerify:      {ShapeMatrix, StanceDiagnostic, false},
	ActOrchestrate: {ShapeReport, StanceExploratory, true},
	ActGovern:      {ShapeReport, StanceOperational, false},
}

// attendedCadences holds back what nobody would read as it comes.
var attendedCadences = map[Attendance]Cadence{
	AttendanceInteractive: CadenceLive,
	AttendanceSupervised:  CadenceOnCompletion,
	AttendanceUnattended:  CadenceDigest,
}

// workspaceActs are the acts that have to know what changed in the workspace.
var workspaceActs = ActsOf(ActModify, ActVerify, ActOperate)

func requiredDomains(r Reading, slice bool) Required {
	domains := Floor()
	if !slice {
		return OnlyDomains(domains)
	}
	for _, act := range r.Acts().List() {
		domains = domains.Union(act.Domains())
	}
	if r.needsSources() {
		// What must be cited cannot come from memory, whatever the act.
		domains = domains.With(DomainLiveData, DomainWeb)
	}
	return OnlyDomains(domains.Union(r.Domains))
}

// LeastHIL returns the mode that a reading insists on whatever was handed over:
// defer where a costly question can only wait, interrupt where a step cannot be
// taken back or nothing was handed over. It returns no mode where the reading
// does not insist.
func LeastHIL(r Reading, a Authority) HIL {
	switch {
	case r.Stakes >= StakesCostly && a.GateFallback(r.Horizon) == FallbackDefer:
		return HILDefer
	case r.Stakes == StakesIrreversible, a.Autonomy == AutonomyManual:
		return HILInterrupt
	}
	return 0
}

// deriveHIL never gives envelope: that mode comes of a live grant, which only the
// decision about one call can see.
func deriveHIL(r Reading, a Authority) HIL {
	if least := LeastHIL(r, a); least != 0 {
		return least
	}
	canBePutBack := r.Stakes == StakesInert || r.Stakes == StakesReversible
	if a.Autonomy == AutonomyAutonomous || canBePutBack && r.anyEffectful() {
		return HILReview
	}
	return HILInterrupt
}

// deriveClarify asks only where a wrong guess would hurt.
func deriveClarify(r Reading) Clarify {
	switch {
	case r.Clarity == ClarityClear:
		return ClarifyProceed
	case r.Stakes >= StakesCostly:
		return ClarifyAsk
	}
	return ClarifyStateAssumption
}

func deriveDelivery(r Reading) Delivery {
	return Delivery{Shape: deriveShape(r), Cadence: attendedCadences[r.Attendance], Urgency: deriveUrgency(r)}
}

func deriveShape(r Reading) Shape {
	shape := actTraits[r.Act].shape
	if shape == ShapeProse && r.needsSources() {
		return ShapeSources
	}
	return shape
}

func deriveUrgency(r Reading) Urgency {
	switch {
	case r.Stakes == StakesIrreversible:
		return UrgencyInterrupt
	case r.Stakes == StakesCostly:
		return UrgencyNotify
	case r.Attendance == AttendanceUnattended:
		return UrgencyQuiet
	}
	return UrgencyNotify
}

// deriveStop looks at the primary act alone: an alternate may be a noun that is
// elsewhere a verb, and a question about deployments owes no effect.
func deriveStop(r Reading) Stop {
	switch {
	case r.Evidence >= EvidenceVerified:
		return StopVerification
	case r.Act.Effectful():
		return StopEffect
	case r.Act == ActConverse, r.Act == ActAnswer:
		return StopMessage
	}
	return StopInspection
}

func deriveContext(r Reading) Context {
	switch {
	case r.Horizon.OpensCommitment():
		return ContextFull
	case !r.Acts().Intersect(workspaceActs).Empty():
		return ContextWorking
	case r.Act == ActConverse:
		return ContextMinimal
	}
	return ContextRecall
}

func deriveStance(r Reading) Stance {
	switch {
	case r.Act == ActAnswer && r.needsSources():
		return StanceAnalytical
	case r.Act == ActOrchestrate && r.anyEffectful():
		return StanceOperational
	}
	return actTraits[r.Act].stance
}

// deriveNote says the few facts that the model cannot see otherwise, a line each.
func deriveNote(r Reading, hil HIL) string {
	var lines []string
	switch deriveClarify(r) {
	case ClarifyStateAssumption:
		lines = append(lines, "Something was left open: take the likeliest meaning and say which assumption you took.")
	case ClarifyAsk:
		lines = append(lines, "Something was left open and a wrong guess is costly: put one specific question first.")
	}
	switch {
	case r.Evidence >= EvidenceVerified:
		lines = append(lines, "The runtime decides when this is complete, and it needs "+
			r.Evidence.LeastSatisfaction().String()+" evidence: leave something that can be checked.")
	case r.needsSources():
		lines = append(lines, "Give the source of each claim.")
	}
	if hil == HILDefer {
		lines = append(lines, "Nobody can answer now: name what you need decided, then stop.")
	}
	switch {
	case r.Stakes == StakesIrreversible && hil == HILDefer:
		lines = append(lines, "A step here cannot be undone: finish what comes before it, then name what awaits a yes.")
	case r.Stakes == StakesIrreversible:
		lines = append(lines, "A step here cannot be undone: have it confirmed before you take it.")
	}
	return strings.Join(lines, "\n")
}
