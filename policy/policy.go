// Package policy settles what a caller may do before a call is made.
//
// It holds the owner's [Policy] and what a token's [Scope] leaves of it, the
// owner's [Rules], the way a session's authority is put together ([Sources]),
// and [Decide], which judges one call. Everything here is a function of plain
// values: no input or output, no clock, no session table, no protocol. What a
// decision depends on arrives as a fact in [Call]; how a person's approval is
// obtained, and that it was a person's, is the inbox's.
//
// To start: [Compile] the rules once, [Rules.Evaluate] them for a request, put
// the outcome and the other facts into a [Call], and [Decide]:
//
//	rules, err := policy.Compile(records)
//	...
//	call.Outcome = rules.Evaluate(request)
//	switch d := policy.Decide(call); d.Verdict {
//	case policy.Run: ...
//	}
package policy

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/enum"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// Policy is what the owner of the gate lets its callers do. The zero Policy lets
// nothing be written and nothing leave; [Default] is what an owner who said
// nothing has. Values are comparable with ==.
type Policy struct {
	AllowSourceWrites bool                 // the standing yes that review of source-file writes needs
	AllowDestructive  bool                 // for products that ask Permitted; Decide does not look at it
	AllowWrites       bool                 // false leaves reading only
	Egress            engagement.EgressSet // classes of data that may leave
	Principal         string               // who calls, where the transport knows; empty where it does not
}

// DefaultEgress returns the classes that leave where nobody said otherwise. The
// two raw classes, row_level and raw_pixels, are not among them.
func DefaultEgress() engagement.EgressSet {
	return engagement.EgressOf(engagement.Metadata, engagement.Aggregates, engagement.RenderedPixels)
}

// Default returns the policy of an owner who said nothing: reading and reversible
// writes, the [DefaultEgress], nobody in particular.
func Default() Policy {
	return Policy{AllowWrites: true, Egress: DefaultEgress()}
}

// FromFlags returns the default policy with the two flags set and the named
// egress classes added. White space around a word is dropped and a blank word
// skipped; any other word that is no class is an error which lists the classes.
func FromFlags(allowSourceWrites, allowDestructive bool, egress []string) (Policy, error) {
	p := Default()
	p.AllowSourceWrites, p.AllowDestructive = allowSourceWrites, allowDestructive
	for _, word := range egress {
		word = strings.TrimSpace(word)
		if word == "" {
			continue
		}
		var class engagement.Egress
		if err := class.UnmarshalText([]byte(word)); err != nil {
			return Policy{}, fmt.Errorf("read egress flags: %w", err)
		}
		p.Egress = p.Egress.With(class)
	}
	return p, nil
}

// Description is a policy as a record holds it. A nil field is one that the
// record lacks.
type Description struct {
	AllowSourceWrites *bool                `json:"allow_source_writes"`
	AllowDestructive  *bool                `json:"allow_destructive"`
	AllowWrites       *bool                `json:"allow_writes"`
	Egress            *[]engagement.Egress `json:"egress"` // in the order of the classes when Describe wrote it
	Principal         *string              `json:"principal"`
}

// Describe returns the record of a policy; [Description.Policy] reads it back.
func (p Policy) Describe() Description {
	egress := p.Egress.List()
	d := Description{&p.AllowSourceWrites, &p.AllowDestructive, &p.AllowWrites, &egress, nil}
	if p.Principal != "" {
		d.Principal = &p.Principal
	}
	return d
}

// Policy returns the policy that a record describes. What the record lacks is the
// safe default of [Default], where writes are off only if the record says so. A
// list of classes that is there and empty lets nothing leave.
func (d Description) Policy() Policy {
	p := Default()
	p.AllowSourceWrites = or(d.AllowSourceWrites, p.AllowSourceWrites)
	p.AllowDestructive = or(d.AllowDestructive, p.AllowDestructive)
	p.AllowWrites = or(d.AllowWrites, p.AllowWrites)
	p.Principal = or(d.Principal, p.Principal)
	if d.Egress != nil {
		p.Egress = engagement.EgressOf(*d.Egress...)
	}
	return p
}

func or[T any](field *T, without T) T {
	if field == nil {
		return without
	}
	return *field
}

// MarshalJSON writes the description of the policy, every field of it.
func (p Policy) MarshalJSON() ([]byte, error) { return json.Marshal(p.Describe()) }

// UnmarshalJSON reads a description as [Description.Policy] does. An unknown
// egress class is an error; the policy is then left as it was.
func (p *Policy) UnmarshalJSON(b []byte) error {
	var d Description
	if err := json.Unmarshal(b, &d); err != nil {
		return fmt.Errorf("read policy: %w", strictjson.Misfit(err))
	}
	*p = d.Policy()
	return nil
}

// NarrowedBy returns the policy as a token of this scope may use it, for the
// given principal. It is never wider than p: admin leaves it, write and bridge
// lose writes to source files and destructive calls, read and no scope at all
// lose every write.
func (p Policy) NarrowedBy(scope Scope, principal string) Policy {
	p.Principal = principal
	if scope == ScopeAdmin {
		return p
	}
	p.AllowSourceWrites, p.AllowDestructive = false, false
	if scope != ScopeWrite && scope != ScopeBridge {
		p.AllowWrites = false
	}
	return p
}

// Limits returns the policy as a ceiling. The two flags are no part of it: they
// stay facts of the policy, since an approved call may go beyond them once.
func (p Policy) Limits() engagement.Limits {
	limits := engagement.Unrestricted()
	limits.Egress = p.Egress
	if !p.AllowWrites {
		limits.Permission = engagement.Read
	}
	return limits
}

// Capability is what a tool can do, as far as [Permitted] looks at it.
type Capability struct {
	Permission engagement.Permission // zero is no class and never permitted
	Egress     engagement.Egress     // zero is no class and never permitted
}

// Permitted reports whether a call of this capability could run under the policy,
// given that it was confirmed. It is for products that embed the vocabulary
// alone; the gate itself asks [Decide].
func Permitted(c Capability, p Policy) bool {
	if !p.Egress.Has(c.Egress) {
		return false
	}
	switch c.Permission {
	case engagement.Read:
		return true
	case engagement.ReversibleWrite:
		return p.AllowWrites
	case engagement.SourceFileWrite:
		return p.AllowWrites && p.AllowSourceWrites
	case engagement.Destructive:
		return p.AllowWrites && p.AllowDestructive
	}
	return false
}

// Elevated returns a copy of the policy with only the flag of this class switched
// on, for one call of it that was approved. Classes without a flag change nothing.
func Elevated(p Policy, class engagement.Permission) Policy {
	switch class {
	case engagement.SourceFileWrite:
		p.AllowSourceWrites = true
	case engagement.Destructive:
		p.AllowDestructive = true
	}
	return p
}

// Scope is what a token was issued for. The order of the constants is no rank:
// bridge is what write is, for another application that may hold the same files
// open. The zero Scope is none and counts as read.
type Scope uint8

const (
	ScopeRead   Scope = iota + 1 // reading only
	ScopeWrite                   // and state that can be put back
	ScopeBridge                  // as write, for another application
	ScopeAdmin                   // whatever the owner's policy allows
)

var scopes = enum.Of[Scope]("scope", "read", "write", "bridge", "admin")

// Scopes returns every Scope.
func Scopes() []Scope { return scopes.All() }

func (s Scope) String() string                { return scopes.Word(s) }
func (s Scope) MarshalText() ([]byte, error)  { return scopes.Marshal(s) }
func (s *Scope) UnmarshalText(b []byte) error { return scopes.Unmarshal(b, s) }

// ScopeOf returns the scope a credential names. Anything that is not exactly one
// of the words, the empty string included, is read: a credential nobody
// understands must not open more. Configuration is read with UnmarshalText,
// where such a word is an error.
func ScopeOf(word string) Scope {
	if scope, err := scopes.Parse(word); err == nil {
		return scope
	}
	return ScopeRead
}

// Limits returns the scope as a ceiling: read for read and for no scope,
// reversible writes for write and bridge, everything for admin.
func (s Scope) Limits() engagement.Limits {
	limits := engagement.Unrestricted()
	switch s {
	case ScopeAdmin:
	case ScopeWrite, ScopeBridge:
		limits.Permission = engagement.ReversibleWrite
	default:
		limits.Permission = engagement.Read
	}
	return limits
}

// ScopeState is what a search for tools found one able to do, most able first. None
// of them is a failure. The zero ScopeState is none.
type ScopeState uint8

const (
	CanExecute    ScopeState = iota + 1 // a tool that may run here does it
	CanAnalyze                          // only tools that read match
	CanRecommend                        // a tool exists that may not run here: tell the person
	OutsideDomain                       // nothing matches
)

var scopeStates = enum.Of[ScopeState]("scope state", "can_execute", "can_analyze", "can_recommend", "outside_domain")

// ScopeStates returns every ScopeState, most able first.
func ScopeStates() []ScopeState { return scopeStates.All() }

func (s ScopeState) String() string                { return scopeStates.Word(s) }
func (s ScopeState) MarshalText() ([]byte, error)  { return scopeStates.Marshal(s) }
func (s *ScopeState) UnmarshalText(b []byte) error { return scopeStates.Unmarshal(b, s) }

// Preset is a ready choice of egress classes. The zero Preset lets nothing leave.
type Preset uint8

const (
	PresetStrict    Preset = iota + 1 // the default classes
	PresetWorkbench                   // and records, for servers that were used without a gate before
)

var presets = enum.Of[Preset]("preset", "strict", "workbench")

// Presets returns every Preset.
func Presets() []Preset { return presets.All() }

func (p Preset) String() string                { return presets.Word(p) }
func (p Preset) MarshalText() ([]byte, error)  { return presets.Marshal(p) }
func (p *Preset) UnmarshalText(b []byte) error { return presets.Unmarshal(b, p) }

// Egress returns the classes that the preset lets out.
func (p Preset) Egress() engagement.EgressSet {
	switch p {
	case PresetStrict:
		return DefaultEgress()
	case PresetWorkbench:
		return DefaultEgress().With(engagement.RowLevel)
	}
	return engagement.EgressOf()
}

// Level says how well it is proved that a person decided, weakest first. The zero
// Level is none and reaches nothing.
type Level uint8

const (
	L0 Level = iota + 1 // a client that said it can ask answered
	L1                  // a person's key signed
	L2                  // and gate, keys and store are out of the caller's reach
	L3                  // and an identity provider vouches for a person who is not the requester
)

var levels = enum.Of[Level]("level of proof", "L0", "L1", "L2", "L3")

// Levels returns every Level, weakest first.
func Levels() []Level { return levels.All() }

// Rank returns 0 for [L0] up to 3 for [L3], and -1 for none.
func (l Level) Rank() int { return int(l) - 1 }

// Reaches reports whether proof of level l is enough where least is asked for.
// None is never enough, and where nothing was asked for nothing is enough.
func (l Level) Reaches(least Level) bool { return least != 0 && l >= least }

func (l Level) String() string                { return levels.Word(l) }
func (l Level) MarshalText() ([]byte, error)  { return levels.Marshal(l) }
func (l *Level) UnmarshalText(b []byte) error { return levels.Unmarshal(b, l) }

// LeastLevel returns the proof that a class needs where the owner set none:
// [L1] for destructive and for what has no class, [L0] for the rest.
func LeastLevel(class engagement.Permission) Level {
	if class == 0 || class >= engagement.Destructive {
		return L1
	}
	return L0
}
