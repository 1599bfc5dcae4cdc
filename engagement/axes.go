package engagement

import "github.com/mcp-gate/mcp-gate/internal/enum"

// The axes along which a request is read, and the words of each. A constant's
// rank is its place in its list wherever the list has an order.

// Act is what the work does. Acts have no order. The zero Act is no act.
type Act uint8

const (
	ActConverse    Act = iota + 1 // talk, with nothing to find out
	ActAnswer                     // produce a fact
	ActLocate                     // find where something is
	ActAnalyze                    // work out what something means
	ActAuthor                     // write something new
	ActModify                     // change something that exists
	ActOperate                    // act on the world beyond the workspace
	ActVerify                     // check against a criterion
	ActOrchestrate                // split work up and hand it out
	ActGovern                     // set the rules that other work runs under
)

var acts = enum.Of[Act]("act",
	"converse", "answer", "locate", "analyze", "author",
	"modify", "operate", "verify", "orchestrate", "govern")

// Acts returns every Act, in the order of the vocabulary.
func Acts() []Act { return acts.All() }

func (a Act) String() string                { return acts.Word(a) }
func (a Act) MarshalText() ([]byte, error)  { return acts.Marshal(a) }
func (a *Act) UnmarshalText(b []byte) error { return acts.Unmarshal(b, a) }

// Effectful reports whether the act is done to change something, so that it
// needs to execute and a checkpoint before it is worth taking.
func (a Act) Effectful() bool { return effectful.Has(a) }

var effectful = ActsOf(ActModify, ActOperate, ActGovern)

// ActSet is a set of acts.
type ActSet = Set[Act]

// ActsOf returns the set of the given acts.
func ActsOf(acts ...Act) ActSet { return ActSet(0).With(acts...) }

// Horizon is how long the work lasts, shortest first. The zero Horizon is none.
type Horizon uint8

const (
	HorizonImmediate Horizon = iota + 1 // this reply
	HorizonTurn                         // this request
	HorizonSession                      // several requests in a row
	HorizonDurable                      // longer than the session
)

var horizons = enum.Of[Horizon]("horizon", "immediate", "turn", "session", "durable")

// Horizons returns every Horizon, least first.
func Horizons() []Horizon { return horizons.All() }

// Rank returns 0 for [HorizonImmediate] up to 3 for [HorizonDurable], and -1 for none.
func (h Horizon) Rank() int { return int(h) - 1 }

func (h Horizon) String() string                { return horizons.Word(h) }
func (h Horizon) MarshalText() ([]byte, error)  { return horizons.Marshal(h) }
func (h *Horizon) UnmarshalText(b []byte) error { return horizons.Unmarshal(b, h) }

// OpensCommitment reports whether the work outlives its session, so that what it
// owes is written down and a question has somewhere to wait.
func (h Horizon) OpensCommitment() bool { return h == HorizonDurable }

// Stakes is what a mistake would cost, least first. The zero Stakes is unknown:
// no class of call is under its approval ceiling.
type Stakes uint8

const (
	StakesInert        Stakes = iota + 1 // nothing to lose
	StakesReversible                     // a mistake can be put back
	StakesCostly                         // it can be put back at a price
	StakesIrreversible                   // it cannot be put back
)

var allStakes = enum.Of[Stakes]("stakes", "inert", "reversible", "costly", "irreversible")

// AllStakes returns every Stakes, least first.
func AllStakes() []Stakes { return allStakes.All() }

// Rank returns 0 for [StakesInert] up to 3 for [StakesIrreversible], and -1 for unknown.
func (s Stakes) Rank() int { return int(s) - 1 }

func (s Stakes) String() string                { return allStakes.Word(s) }
func (s Stakes) MarshalText() ([]byte, error)  { return allStakes.Marshal(s) }
func (s *Stakes) UnmarshalText(b []byte) error { return allStakes.Unmarshal(b, s) }

// WantsCheckpoint reports whether a mistake is worth a copy to go back to.
func (s Stakes) WantsCheckpoint() bool { return s >= StakesReversible }

// Evidence is how well the result must be backed, least first. The zero Evidence
// is no level; [EvidenceNone] is the level that asks for nothing.
type Evidence uint8

const (
	EvidenceNone     Evidence = iota + 1 // the word of whoever did the work
	EvidenceCited                        // claims name their sources
	EvidenceVerified                     // somebody looked and saw that it holds
	EvidenceAudited                      // it is attested for a later reader
)

var evidenceLevels = enum.Of[Evidence]("evidence", "none", "cited", "verified", "audited")

// EvidenceLevels returns every Evidence, least first.
func EvidenceLevels() []Evidence { return evidenceLevels.All() }

// Rank returns 0 for [EvidenceNone] up to 3 for [EvidenceAudited], and -1 for no level.
func (e Evidence) Rank() int { return int(e) - 1 }

func (e Evidence) String() string                { return evidenceLevels.Word(e) }
func (e Evidence) MarshalText() ([]byte, error)  { return evidenceLevels.Marshal(e) }
func (e *Evidence) UnmarshalText(b []byte) error { return evidenceLevels.Unmarshal(b, e) }

// LeastSatisfaction returns the weakest satisfaction that closes work of this
// evidence: asserted for none, cited for cited, observed for verified and
// attested for audited. The two scales run in step.
func (e Evidence) LeastSatisfaction() Satisfaction { return Satisfaction(e) }

// Clarity is how well the request says what is wanted, clearest first. The zero
// Clarity is unknown and treated as unclear.
type Clarity uint8

const (
	ClarityClear          Clarity = iota + 1
	ClarityUnderspecified         // something needed was left out
	ClarityAmbiguous              // it can be read in ways that differ
)

var clarities = enum.Of[Clarity]("clarity", "clear", "underspecified", "ambiguous")

// Clarities returns every Clarity, least first.
func Clarities() []Clarity { return clarities.All() }

// Rank returns 0 for [ClarityClear] up to 2 for [ClarityAmbiguous], and -1 for unknown.
func (c Clarity) Rank() int { return int(c) - 1 }

func (c Clarity) String() string                { return clarities.Word(c) }
func (c Clarity) MarshalText() ([]byte, error)  { return clarities.Marshal(c) }
func (c *Clarity) UnmarshalText(b []byte) error { return clarities.Unmarshal(b, c) }

// Attendance is how near a person is, nearest first. The zero Attendance is unknown.
type Attendance uint8

const (
	AttendanceInteractive Attendance = iota + 1 // a person reads along
	AttendanceSupervised                        // a person looks in
	AttendanceUnattended                        // nobody is there
)

var attendances = enum.Of[Attendance]("attendance", "interactive", "supervised", "unattended")

// Attendances returns every Attendance, least first.
func Attendances() []Attendance { return attendances.All() }

// Rank returns 0 for [AttendanceInteractive] up to 2 for [AttendanceUnattended], and -1
// for unknown.
func (a Attendance) Rank() int { return int(a) - 1 }

func (a Attendance) String() string                { return attendances.Word(a) }
func (a Attendance) MarshalText() ([]byte, error)  { return attendances.Marshal(a) }
func (a *Attendance) UnmarshalText(b []byte) error { return attendances.Unmarshal(b, a) }

// Modality is a kind of input that the work has to perceive. Modalities have no
// order. The zero Modality is none and is in no set.
type Modality uint8

const (
	ModalityText Modality = iota + 1
	ModalityImage
	ModalityAudio
	ModalityVideo
	ModalityFile
)

var modalities = enum.Of[Modality]("modality", "text", "image", "audio", "video", "file")

// Modalities returns every Modality, in the order of the vocabulary.
func Modalities() []Modality { return modalities.All() }

func (m Modality) String() string                { return modalities.Word(m) }
func (m Modality) MarshalText() ([]byte, error)  { return modalities.Marshal(m) }
func (m *Modality) UnmarshalText(b []byte) error { return modalities.Unmarshal(b, m) }

// ModalitySet is a set of modalities.
type ModalitySet = Set[Modality]

// ModalitiesOf returns the set of the given modalities.
func ModalitiesOf(modalities ...Modality) ModalitySet { return ModalitySet(0).With(modalities...) }

// Satisfaction is how a finished piece of work is shown to be done, weakest first.
// The zero Satisfaction satisfies nothing.
type Satisfaction uint8

const (
	SatisfactionAsserted Satisfaction = iota + 1 // somebody says so
	SatisfactionCited                            // sources are named
	SatisfactionObserved                         // it was looked at
	SatisfactionAttested                         // a party other than the doer vouches for it
)

var satisfactions = enum.Of[Satisfaction]("satisfaction", "asserted", "cited", "observed", "attested")

// Satisfactions returns every Satisfaction, least first.
func Satisfactions() []Satisfaction { return satisfactions.All() }

// Rank returns 0 for [SatisfactionAsserted] up to 3 for [SatisfactionAttested], and -1
// for none.
func (s Satisfaction) Rank() int { return int(s) - 1 }

func (s Satisfaction) String() string                { return satisfactions.Word(s) }
func (s Satisfaction) MarshalText() ([]byte, error)  { return satisfactions.Marshal(s) }
func (s *Satisfaction) UnmarshalText(b []byte) error { return satisfactions.Unmarshal(b, s) }

// Satisfies reports whether s is at least as strong as least. A requirement that
// was never set is met by nothing.
func (s Satisfaction) Satisfies(least Satisfaction) bool { return least != 0 && s >= least }

// Stance is the attitude towards knowing that suits the work. Stances have no
// order. The zero Stance is none.
type Stance uint8

const (
	StanceConversational Stance = iota + 1
	StanceDirectAnswer
	StanceExploratory
	StanceAnalytical
	StanceGenerative
	StanceOperational
	StanceDiagnostic
)

var stances = enum.Of[Stance]("epistemic stance",
	"conversational", "direct-answer", "exploratory", "analytical",
	"generative", "operational", "diagnostic")

// Stances returns every Stance, in the order of the vocabulary.
func Stances() []Stance { return stances.All() }

func (s Stance) String() string                { return stances.Word(s) }
func (s Stance) MarshalText() ([]byte, error)  { return stances.Marshal(s) }
func (s *Stance) UnmarshalText(b []byte) error { return stances.Unmarshal(b, s) }
