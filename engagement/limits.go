package engagement

// Limits is all that grants or withholds power, and nothing else. Limits are
// combined by [Limits.Meet] alone, which can only take power away: they form a
// meet-semilattice whose top is [Unrestricted]. The zero Limits permits nothing,
// since no class of call is under its Permission.
//
// Limits are values. Compare them with [Limits.Equal]; what Spend points to is
// shared between copies and must not be changed.
type Limits struct {
	RequiredDomains    Required     // what is loaded; fewer is narrower
	RequiredModalities ModalitySet  // what must be perceived; more is narrower
	Permission         Permission   // highest class that may run at all; lower is narrower
	ApprovalCeiling    Permission   // highest class that may run unasked; lower is narrower
	Egress             EgressSet    // classes that may leave; fewer is narrower
	Spend              Spend        // what is left to use up; lower is narrower
	LeastSatisfaction  Satisfaction // weakest sign of being done that counts; higher is narrower
}

// Spend bounds what a session may use up. It is not renewed while the session
// lasts. A nil bound is unlimited. Bounds are whole numbers from 0 to [MaxSpend].
type Spend struct {
	Calls       *int64 `json:"calls"`        // tool calls
	ResultBytes *int64 `json:"result_bytes"` // bytes of results; charged after a call, so one call may overshoot
}

// MaxSpend is the highest bound of a [Spend], 2^53-1: beyond it canonical JSON
// (RFC 8785) cannot tell whole numbers apart.
const MaxSpend = 1<<53 - 1

// Unrestricted returns the top of the lattice: every domain, no required
// modality, every class of permission and egress, unlimited spend, and a mere
// assertion that satisfies.
func Unrestricted() Limits {
	return Limits{
		RequiredDomains:   AllDomains(),
		Permission:        Destructive,
		ApprovalCeiling:   Destructive,
		Egress:            AllEgress(),
		LeastSatisfaction: SatisfactionAsserted,
	}
}

// Meet returns the widest limits that exceed neither a nor b. It is commutative,
// associative and idempotent, and [Unrestricted] is its identity.
func (a Limits) Meet(b Limits) Limits {
	return Limits{
		RequiredDomains:    a.RequiredDomains.Intersect(b.RequiredDomains),
		RequiredModalities: a.RequiredModalities.Union(b.RequiredModalities),
		Permission:         min(a.Permission, b.Permission),
		ApprovalCeiling:    min(a.ApprovalCeiling, b.ApprovalCeiling),
		Egress:             a.Egress.Intersect(b.Egress),
		Spend:              a.Spend.Meet(b.Spend),
		LeastSatisfaction:  max(a.LeastSatisfaction, b.LeastSatisfaction),
	}
}

// IsAtMost reports whether a permits nothing that b does not.
func (a Limits) IsAtMost(b Limits) bool { return a.Meet(b).Equal(a) }

// Equal reports whether a and b permit the same; bounds of spend are compared by
// what they point to.
func (a Limits) Equal(b Limits) bool {
	spendIsEqual := a.Spend.Equal(b.Spend)
	a.Spend, b.Spend = Spend{}, Spend{}
	return spendIsEqual && a == b
}

// Meet returns the lower bound of a and b for each field.
func (a Spend) Meet(b Spend) Spend {
	return Spend{
		Calls:       lower(a.Calls, b.Calls),
		ResultBytes: lower(a.ResultBytes, b.ResultBytes),
	}
}

// Equal reports whether a and b have the same bounds.
func (a Spend) Equal(b Spend) bool {
	return sameBound(a.Calls, b.Calls) && sameBound(a.ResultBytes, b.ResultBytes)
}

// lower returns the lower of two bounds, of which nil is the highest.
func lower(a, b *int64) *int64 {
	if a == nil || b != nil && *b < *a {
		return b
	}
	return a
}

func sameBound(a, b *int64) bool {
	return a == b || a != nil && b != nil && *a == *b
}
