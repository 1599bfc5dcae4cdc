package engagement

import "github.com/mcp-gate/mcp-gate/internal/enum"

// Authority is what the person who started the work has handed over, and how
// near that person is. It comes from the launch and not from a request. Values
// are comparable with ==. The zero Authority hands over nothing.
type Authority struct {
	Autonomy   Autonomy
	Attendance Attendance
}

// DefaultAuthority returns the authority where none was given: delegated, with a
// person at hand.
func DefaultAuthority() Authority {
	return Authority{AutonomyDelegated, AttendanceInteractive}
}

// GateFallback returns what becomes of a question that nobody can answer. It
// waits where nobody is there and the work outlives its session, so that there
// is somewhere to wait; otherwise it is denied.
func (a Authority) GateFallback(h Horizon) GateFallback {
	if a.Attendance == AttendanceUnattended && h.OpensCommitment() {
		return FallbackDefer
	}
	return FallbackDeny
}

// approvalCeilings is the highest class that runs unasked, by autonomy and
// stakes. None reaches Destructive.
var approvalCeilings = map[Autonomy]map[Stakes]Permission{
	AutonomyManual: {
		StakesInert: Read, StakesReversible: Read, StakesCostly: Read, StakesIrreversible: Read,
	},
	AutonomyDelegated: {
		StakesInert: ReversibleWrite, StakesReversible: ReversibleWrite, StakesCostly: ReversibleWrite, StakesIrreversible: Read,
	},
	AutonomyAutonomous: {
		StakesInert: SourceFileWrite, StakesReversible: SourceFileWrite, StakesCostly: ReversibleWrite, StakesIrreversible: Read,
	},
}

// ApprovalCeiling returns the highest class of call that this authority lets run
// unasked at these stakes; a class above it always needs a person. No authority
// puts [Destructive] under it. Without autonomy or stakes there is no class under it.
func (a Authority) ApprovalCeiling(s Stakes) Permission { return approvalCeilings[a.Autonomy][s] }

// Autonomy is how much of the deciding the person has handed over, least first.
// The zero Autonomy is none: no class of call is under its approval ceiling.
type Autonomy uint8

const (
	AutonomyManual     Autonomy = iota + 1 // propose only
	AutonomyDelegated                      // do what can be put back, ask for the rest
	AutonomyAutonomous                     // do, and show afterwards
)

var autonomies = enum.Of[Autonomy]("autonomy", "manual", "delegated", "autonomous")

// Autonomies returns every Autonomy, least first.
func Autonomies() []Autonomy { return autonomies.All() }

// Rank returns 0 for [AutonomyManual] up to 2 for [AutonomyAutonomous], and -1 for none.
func (a Autonomy) Rank() int { return int(a) - 1 }

func (a Autonomy) String() string                { return autonomies.Word(a) }
func (a Autonomy) MarshalText() ([]byte, error)  { return autonomies.Marshal(a) }
func (a *Autonomy) UnmarshalText(b []byte) error { return autonomies.Unmarshal(b, a) }

// GateFallback is what becomes of a question that nobody can answer. The zero
// GateFallback is none; treat it as deny.
type GateFallback uint8

const (
	FallbackDeny  GateFallback = iota + 1 // the call is refused
	FallbackDefer                         // the question waits
)

var gateFallbacks = enum.Of[GateFallback]("gate fallback", "deny", "defer")

// GateFallbacks returns every GateFallback, in the order of the vocabulary.
func GateFallbacks() []GateFallback { return gateFallbacks.All() }

func (f GateFallback) String() string                { return gateFallbacks.Word(f) }
func (f GateFallback) MarshalText() ([]byte, error)  { return gateFallbacks.Marshal(f) }
func (f *GateFallback) UnmarshalText(b []byte) error { return gateFallbacks.Unmarshal(b, f) }
