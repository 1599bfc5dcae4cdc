package policy

import (
	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/enum"
)

// Call is every fact that a decision about one call depends on. A fact that was
// left out is taken the cautious way, field by field as said below, so the zero
// Call is denied. [Decide] changes none of it.
type Call struct {
	Tool    catalog.ToolID
	Known   bool     // the catalog has the tool, offered or held
	Nearest []string // names to offer when it has not; never a hidden one
	Pin     Pin      // state of its definition; zero is held

	InSlice bool // the session's required domains admit the tool
	Enforce bool // the owner configured that nothing outside the slice runs

	Class  engagement.Permission // zero, where it cannot be told, is destructive
	Egress engagement.Egress     // declared class of the result; zero is row_level

	// Limits is the meet of every origin, the owner's for this tool's server
	// included. The zero Limits permits nothing.
	Limits         engagement.Limits
	PermissionFrom Origin // who holds Limits.Permission down; zero counts as a scope
	OnEgress       OnEgress

	AllowSourceWrites bool // the owner's flag, before any scope: it opens review of file writes
	AllowDestructive  bool // decides nothing; tells whether an approved call must be elevated

	Outcome Outcome // what the owner's rules say, by Rules.Evaluate
	Taint   Taint

	HIL              engagement.HIL          // zero asks
	GateFallback     engagement.GateFallback // the posture's; zero denies
	OwnerFallback    engagement.GateFallback // replaces the posture's where set
	CheckpointBefore bool                    // the posture's checkpoint_before_effect
	Autonomy         engagement.Autonomy     // zero is manual
	Attendance       engagement.Attendance   // zero is unattended
	Stakes           engagement.Stakes       // the session's highest; zero is irreversible

	Grant      Grant // one that is live and covers these very arguments; zero is none
	CanUndo    bool  // a checkpoint, or the owner's inverse, can undo this very call
	FirstWrite bool  // no write ran in this session yet

	// Least is the proof a person's decision needs, as the owner set it; zero is
	// LeastLevel of the class. Reach is the best proof that some channel to a
	// person can give now; zero is that there is no channel.
	Least, Reach Level
	Ready        Readiness        // zero counts as a server that is down
	Left         engagement.Spend // what may still be spent; a nil field is unlimited
}

// Grant is what a decision needs to know of a person's standing consent. The
// caller has checked that it is live and that its patterns and argument
// constraints cover the call.
type Grant struct {
	ID        string // empty is no grant
	NamesTool bool   // the tool is named outright, not by a pattern
	Level     Level  // the proof it was made with
}

// Pin is the state of a tool's definition against what a person accepted. The
// zero Pin is none and held.
type Pin uint8

const (
	PinAccepted Pin = iota + 1
	PinNew          // not accepted yet
	PinChanged      // not what was accepted
	PinSuspect      // a scanner's finding holds it
	PinGone         // the server does not offer it any more
	PinMoved        // accepted of a server that was started in another way
)

var pins = enum.Of[Pin]("pin state", "accepted", "new", "changed", "suspect", "gone", "moved")

// Pins returns every Pin.
func Pins() []Pin { return pins.All() }

func (p Pin) String() string                { return pins.Word(p) }
func (p Pin) MarshalText() ([]byte, error)  { return pins.Marshal(p) }
func (p *Pin) UnmarshalText(b []byte) error { return pins.Unmarshal(b, p) }

// Origin is where a limit comes from.
type Origin uint8

const (
	OriginOwner  Origin = iota + 1 // the owner's policy
	OriginToken                    // the scope of the caller's token
	OriginLaunch                   // what the session was started with
	OriginPrompt                   // the latest prompt
	OriginEngage                   // the agent's own word
	OriginParent                   // the session that this one works for
)

var origins = enum.Of[Origin]("origin", "owner", "token", "launch", "prompt", "engage", "parent")

// Origins returns every Origin.
func Origins() []Origin { return origins.All() }

func (o Origin) String() string                { return origins.Word(o) }
func (o Origin) MarshalText() ([]byte, error)  { return origins.Marshal(o) }
func (o *Origin) UnmarshalText(b []byte) error { return origins.Unmarshal(b, o) }

// OnEgress is what to do about a tool whose declared class may not leave. The
// zero OnEgress blocks.
type OnEgress uint8

const (
	EgressBlock     OnEgress = iota + 1 // refuse the call
	EgressDowngrade                     // run it and cut the result to what may leave
)

var onEgress = enum.Of[OnEgress]("on_egress", "block", "downgrade")

// OnEgresses returns every OnEgress.
func OnEgresses() []OnEgress { return onEgress.All() }

func (o OnEgress) String() string                { return onEgress.Word(o) }
func (o OnEgress) MarshalText() ([]byte, error)  { return onEgress.Marshal(o) }
func (o *OnEgress) UnmarshalText(b []byte) error { return onEgress.Unmarshal(b, o) }

// Taint is what a session has read that makes sending risky, and what the owner
// wants done about it.
type Taint struct {
	Private   bool // it has read records or raw pixels
	Untrusted bool // it has read what strangers may have written
	SendsOut  bool // this tool can carry data out: messaging, web, or an open world
	Mode      TaintMode
}

// both reports whether the call could carry private data out at a stranger's word.
func (t Taint) both() bool { return t.Private && t.Untrusted && t.SendsOut && t.Mode != TaintOff }

// TaintMode is what becomes of a call that sends out of a tainted session. The
// zero TaintMode asks.
type TaintMode uint8

const (
	TaintOff  TaintMode = iota + 1 // nothing
	TaintAsk                       // as if an ask rule matched
	TaintDeny                      // refuse
)

var taintModes = enum.Of[TaintMode]("taint mode", "off", "ask", "deny")

// TaintModes returns every TaintMode.
func TaintModes() []TaintMode { return taintModes.All() }

func (m TaintMode) String() string                { return taintModes.Word(m) }
func (m TaintMode) MarshalText() ([]byte, error)  { return taintModes.Marshal(m) }
func (m *TaintMode) UnmarshalText(b []byte) error { return taintModes.Unmarshal(b, m) }

// Readiness is whether a call could be made at all if a person said yes. The zero
// Readiness counts as [ServerDown].
type Readiness uint8

const (
	Ready        Readiness = iota + 1
	ServerDown             // its server does not run or does not answer
	Unverified             // its definition was not seen on this connection yet
	BadArguments           // the arguments do not fit its schema
)

var readinesses = enum.Of[Readiness]("readiness", "ready", "server-down", "unverified", "bad-arguments")

// Readinesses returns every Readiness.
func Readinesses() []Readiness { return readinesses.All() }

func (r Readiness) String() string                { return readinesses.Word(r) }
func (r Readiness) MarshalText() ([]byte, error)  { return readinesses.Marshal(r) }
func (r *Readiness) UnmarshalText(b []byte) error { return readinesses.Unmarshal(b, r) }

// class returns the permission class of the call, the worst where it has none or
// a number that is none.
func (c *Call) class() engagement.Permission {
	if c.Class == 0 || c.Class > engagement.Destructive {
		return engagement.Destructive
	}
	return c.Class
}

// egress returns the declared class of the result, records where it has none or a
// number that is none.
func (c *Call) egress() engagement.Egress {
	if c.Egress == 0 || c.Egress > engagement.RawPixels {
		return engagement.RowLevel
	}
	return c.Egress
}

// handsOver reports whether the person let the agent decide anything at all. It
// is false under manual autonomy and under a value that is no autonomy.
func (c *Call) handsOver() bool {
	return c.Autonomy == engagement.AutonomyDelegated || c.Autonomy == engagement.AutonomyAutonomous
}

// attended reports whether somebody may be there to answer.
func (c *Call) attended() bool {
	return c.Attendance == engagement.AttendanceInteractive || c.Attendance == engagement.AttendanceSupervised
}

// stakesAtMost reports whether the session's stakes are known and no higher.
func (c *Call) stakesAtMost(most engagement.Stakes) bool { return c.Stakes != 0 && c.Stakes <= most }

// least returns the proof that a person's decision on this call needs.
func (c *Call) least() Level {
	if c.Least == 0 {
		return LeastLevel(c.class())
	}
	return c.Least
}

// granted reports whether the grant at hand may answer for this call: made with
// enough proof and, for what cannot be undone, naming the tool.
func (c *Call) granted() bool {
	return c.Grant.ID != "" && c.Grant.Level.Reaches(c.least()) &&
		(c.class() != engagement.Destructive || c.Grant.NamesTool)
}

// standing reports whether an allow rule speaks for the owner in the class and
// ceiling questions. For what cannot be undone it must name the tool.
func (c *Call) standing() bool {
	return c.Outcome.Do == DoAllow && c.handsOver() &&
		(c.class() != engagement.Destructive || c.Outcome.NamesTool)
}

// taintAsks reports whether the session's taint stands in the way. Only an allow
// rule that names the tool lifts it.
func (c *Call) taintAsks() bool {
	lifted := c.standing() && c.Outcome.NamesTool
	return c.Taint.both() && !lifted
}

// fallback returns what becomes of the call when nobody answers.
func (c *Call) fallback() engagement.GateFallback {
	fallback := c.GateFallback
	if c.OwnerFallback != 0 {
		fallback = c.OwnerFallback
	}
	if fallback != engagement.FallbackDefer {
		return engagement.FallbackDeny
	}
	return fallback
}

// broke reports whether nothing is left to spend. The bytes of one call may
// overshoot, so a call runs as long as any are left.
func (c *Call) broke() bool {
	return c.Left.Calls != nil && *c.Left.Calls <= 0 || c.Left.ResultBytes != nil && *c.Left.ResultBytes <= 0
}
