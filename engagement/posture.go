package engagement

import "github.com/mcp-gate/mcp-gate/internal/enum"

// Posture is how work is run, asked about and delivered. It carries no power: an
// error in it costs quality and not safety. Values are comparable with ==.
type Posture struct {
	Managed                bool // runs under a plan
	OpenCommitment         bool // what is owed outlives the session
	CheckpointBeforeEffect bool // take a copy before the first effect
	HIL                    HIL
	GateFallback           GateFallback
	Clarify                Clarify
	Delivery               Delivery
	Demand                 Demand
	Stop                   Stop
	Context                Context
	Stance                 Stance
	Note                   string // what the model is told, a line for each fact; empty when there is nothing to say
}

// Delivery is how a result reaches the person.
type Delivery struct {
	Shape   Shape   `json:"shape"`
	Cadence Cadence `json:"cadence"`
	Urgency Urgency `json:"urgency"`
}

// Demand is what the work asks of the model that does it.
type Demand struct {
	ReasoningRequired bool `json:"reasoning_required"`
	EvidenceRequired  bool `json:"evidence_required"`
	StructuredOutput  bool `json:"structured_output"`
}

// Meet returns the more cautious of a and b in each field, so that it is never
// less cautious than either. It is commutative but for what has no order: the
// delivery's shape and the stance are a's, and a's note comes first.
func (a Posture) Meet(b Posture) Posture {
	return Posture{
		Managed:                a.Managed || b.Managed,
		OpenCommitment:         a.OpenCommitment || b.OpenCommitment,
		CheckpointBeforeEffect: a.CheckpointBeforeEffect || b.CheckpointBeforeEffect,
		HIL:                    max(a.HIL, b.HIL),
		GateFallback:           min(a.GateFallback, b.GateFallback),
		Clarify:                max(a.Clarify, b.Clarify),
		Delivery:               a.Delivery.meet(b.Delivery),
		Demand:                 a.Demand.meet(b.Demand),
		Stop:                   max(a.Stop, b.Stop),
		Context:                max(a.Context, b.Context),
		Stance:                 a.Stance,
		Note:                   joinNotes(a.Note, b.Note),
	}
}

// Refine returns the posture of work that started with p and was read anew since.
// A new reading adds caution and never takes any away: the postures meet, except
// that shape, stance and context follow the new reading, and that the mode rises
// to least alone, which is what [LeastHIL] gives for that reading.
func (p Posture) Refine(newer Posture, least HIL) Posture {
	refined := p.Meet(newer)
	refined.HIL = max(p.HIL, least)
	refined.Delivery.Shape = newer.Delivery.Shape
	refined.Stance = newer.Stance
	refined.Context = newer.Context
	return refined
}

// meet keeps the least batched cadence, since what is held back can be lost.
func (a Delivery) meet(b Delivery) Delivery {
	return Delivery{
		Shape:   a.Shape,
		Cadence: max(a.Cadence, b.Cadence),
		Urgency: max(a.Urgency, b.Urgency),
	}
}

func (a Demand) meet(b Demand) Demand {
	return Demand{
		ReasoningRequired: a.ReasoningRequired || b.ReasoningRequired,
		EvidenceRequired:  a.EvidenceRequired || b.EvidenceRequired,
		StructuredOutput:  a.StructuredOutput || b.StructuredOutput,
	}
}

// joinNotes keeps both notes, since a fact that one side needed told is not
// untold by the other. Whole notes are compared, not their lines.
func joinNotes(a, b string) string {
	switch {
	case a == b || b == "":
		return a
	case a == "":
		return b
	}
	return a + "\n" + b
}

// HIL is how a person is kept in the loop, least cautious first. The zero HIL is
// no mode.
type HIL uint8

const (
	HILReview    HIL = iota + 1 // act, show the diff, offer a reversal; only where a checkpoint can restore
	HILEnvelope                 // run what a live grant covers, escalate the rest
	HILDefer                    // park the question, since nobody can answer now
	HILInterrupt                // block and ask now
)

var hilModes = enum.Of[HIL]("hil mode", "review", "envelope", "defer", "interrupt")

// HILs returns every HIL, least first.
func HILs() []HIL { return hilModes.All() }

// Rank returns the caution of the mode: 0 for [HILReview] up to 3 for [HILInterrupt], and
// -1 for no mode.
func (h HIL) Rank() int { return int(h) - 1 }

func (h HIL) String() string                { return hilModes.Word(h) }
func (h HIL) MarshalText() ([]byte, error)  { return hilModes.Marshal(h) }
func (h *HIL) UnmarshalText(b []byte) error { return hilModes.Unmarshal(b, h) }

// Clarify is what to do about a request that leaves something open, least cautious
// first. The zero Clarify is none.
type Clarify uint8

const (
	ClarifyProceed         Clarify = iota + 1 // nothing is missing
	ClarifyStateAssumption                    // take the likeliest reading and say which
	ClarifyAsk                                // put a question before acting
)

var clarifies = enum.Of[Clarify]("clarify policy", "proceed", "state-assumption", "ask")

// Clarifies returns every Clarify, least first.
func Clarifies() []Clarify { return clarifies.All() }

// Rank returns 0 for [ClarifyProceed] up to 2 for [ClarifyAsk], and -1 for none.
func (c Clarify) Rank() int { return int(c) - 1 }

func (c Clarify) String() string                { return clarifies.Word(c) }
func (c Clarify) MarshalText() ([]byte, error)  { return clarifies.Marshal(c) }
func (c *Clarify) UnmarshalText(b []byte) error { return clarifies.Unmarshal(b, c) }

// Shape is the form a result takes. Shapes have no order. The zero Shape is none.
type Shape uint8

const (
	ShapeProse    Shape = iota + 1 // plain text
	ShapeSources                   // claims with what backs them
	ShapeFindings                  // ranked places
	ShapeDiff                      // a change set
	ShapeMatrix                    // pass or fail for each check
	ShapeTable                     // rows and columns
	ShapeArtifact                  // a produced file
	ShapeReport                    // what was done
)

var shapes = enum.Of[Shape]("delivery shape",
	"prose", "sources", "findings", "diff",
	"matrix", "table", "artifact", "report")

// Shapes returns every Shape, in the order of the vocabulary.
func Shapes() []Shape { return shapes.All() }

func (s Shape) String() string                { return shapes.Word(s) }
func (s Shape) MarshalText() ([]byte, error)  { return shapes.Marshal(s) }
func (s *Shape) UnmarshalText(b []byte) error { return shapes.Unmarshal(b, s) }

// Structured reports whether the shape has to be parsed by its reader.
func (s Shape) Structured() bool { return s == ShapeMatrix || s == ShapeTable || s == ShapeDiff }

// Cadence is when results reach the person, most batched first. The zero Cadence
// is none.
type Cadence uint8

const (
	CadenceDigest       Cadence = iota + 1 // one roll-up
	CadenceOnCompletion                    // once the unit of work is done
	CadenceLive                            // as it happens
)

var cadences = enum.Of[Cadence]("delivery cadence", "digest", "on-completion", "live")

// Cadences returns every Cadence, least first.
func Cadences() []Cadence { return cadences.All() }

// Rank returns 0 for [CadenceDigest] up to 2 for [CadenceLive], and -1 for none.
func (c Cadence) Rank() int { return int(c) - 1 }

func (c Cadence) String() string                { return cadences.Word(c) }
func (c Cadence) MarshalText() ([]byte, error)  { return cadences.Marshal(c) }
func (c *Cadence) UnmarshalText(b []byte) error { return cadences.Unmarshal(b, c) }

// Urgency is how hard a delivery may push for attention, least first. The zero
// Urgency is none.
type Urgency uint8

const (
	UrgencyQuiet     Urgency = iota + 1 // no notice
	UrgencyNotify                       // an ordinary notice
	UrgencyInterrupt                    // somebody is needed now
)

var urgencies = enum.Of[Urgency]("delivery urgency", "quiet", "notify", "interrupt")

// Urgencies returns every Urgency, least first.
func Urgencies() []Urgency { return urgencies.All() }

// Rank returns 0 for [UrgencyQuiet] up to 2 for [UrgencyInterrupt], and -1 for none.
func (u Urgency) Rank() int { return int(u) - 1 }

func (u Urgency) String() string                { return urgencies.Word(u) }
func (u Urgency) MarshalText() ([]byte, error)  { return urgencies.Marshal(u) }
func (u *Urgency) UnmarshalText(b []byte) error { return urgencies.Unmarshal(b, u) }

// Stop is what must have happened before the work may end, least first. The zero
// Stop is none.
type Stop uint8

const (
	StopMessage      Stop = iota + 1 // a message is enough
	StopInspection                   // something was looked at
	StopEffect                       // an effect can be observed
	StopVerification                 // a criterion was evaluated
)

var stops = enum.Of[Stop]("stop profile", "message", "inspection", "effect", "verification")

// Stops returns every Stop, least first.
func Stops() []Stop { return stops.All() }

// Rank returns 0 for [StopMessage] up to 3 for [StopVerification], and -1 for none.
func (s Stop) Rank() int { return int(s) - 1 }

func (s Stop) String() string                { return stops.Word(s) }
func (s Stop) MarshalText() ([]byte, error)  { return stops.Marshal(s) }
func (s *Stop) UnmarshalText(b []byte) error { return stops.Unmarshal(b, s) }

// Context is how much of the past the work is given, least first. The zero Context
// is none.
type Context uint8

const (
	ContextMinimal Context = iota + 1 // the conversation
	ContextRecall                     // with recall of sessions and memory
	ContextWorking                    // with what changed in the workspace since the start
	ContextFull                       // everything, from the ledger
)

var contexts = enum.Of[Context]("context profile", "minimal", "recall", "working", "full")

// Contexts returns every Context, least first.
func Contexts() []Context { return contexts.All() }

// Rank returns 0 for [ContextMinimal] up to 3 for [ContextFull], and -1 for none.
func (c Context) Rank() int { return int(c) - 1 }

func (c Context) String() string                { return contexts.Word(c) }
func (c Context) MarshalText() ([]byte, error)  { return contexts.Marshal(c) }
func (c *Context) UnmarshalText(b []byte) error { return contexts.Unmarshal(b, c) }
