// Package engagement is the vocabulary of authority. It settles, before any tool
// is touched, what a reading of the work and the authority in force mean: what is
// loaded, what must be asked, and how a result is delivered.
//
// An [Engagement] has two halves. [Limits] is all that grants or withholds power;
// limits combine by Meet, which can only narrow, so a review of safety may stop at
// limits.go. [Posture] is style and routing; an error in it costs quality and not
// safety.
//
// The package knows no tool, server, clock, file or protocol. Everything in it is
// a plain value or a pure function, safe for concurrent use, and small enough to
// be checked by enumeration; only lines.go moves bytes, between a reader and a
// writer that it is handed. It does not decide about a call (package policy) and
// does not read a request's text (package reader).
//
// To start, describe the work as a [Reading] and call [Derive]; combine what
// several origins allow with [Limits.Meet] or [Engagement.Meet].
package engagement

import "encoding"

// Engagement is what a reading of the work and the authority in force settle
// before a tool is touched. Compare engagements with [Engagement.Equal].
type Engagement struct {
	Limits  Limits
	Posture Posture
}

// General returns the engagement that changes nothing: the limits are
// [Unrestricted], a person is asked wherever policy says so, and a question that
// nobody answers is denied.
func General() Engagement {
	return Engagement{
		Limits: Unrestricted(),
		Posture: Posture{
			HIL:          HILInterrupt,
			GateFallback: FallbackDeny,
			Clarify:      ClarifyProceed,
			Delivery:     Delivery{ShapeProse, CadenceLive, UrgencyNotify},
			Stop:         StopMessage,
			Context:      ContextRecall,
			Stance:       StanceDirectAnswer,
		},
	}
}

// Orienting returns the engagement for a request that could not be read with
// confidence: [General], with no more loaded than the [Floor].
func Orienting() Engagement {
	e := General()
	e.Limits.RequiredDomains = OnlyDomains(Floor())
	return e
}

// Meet returns the engagement that both a and b allow: their limits meet and
// their postures meet.
func (a Engagement) Meet(b Engagement) Engagement {
	return Engagement{a.Limits.Meet(b.Limits), a.Posture.Meet(b.Posture)}
}

// Equal reports whether a and b are the same engagement.
func (a Engagement) Equal(b Engagement) bool {
	return a.Limits.Equal(b.Limits) && a.Posture == b.Posture
}

// Compose returns the engagement for work that has several strands, the primary
// one first; for none it is [General]. The strictest strand governs everything
// but the required domains. These are capacity and not power, so they are joined:
// a strand that browses and one that tests each keep their tools.
func Compose(strands ...Engagement) Engagement {
	if len(strands) == 0 {
		return General()
	}
	composed := strands[0]
	for _, strand := range strands[1:] {
		domains := composed.Limits.RequiredDomains.Union(strand.Limits.RequiredDomains)
		composed = composed.Meet(strand)
		composed.Limits.RequiredDomains = domains
	}
	return composed
}

// Parse returns the value of a vocabulary whose word is given, as in
// Parse[Egress]("row_level"). The error for any other word lists the valid ones.
func Parse[T any, P interface {
	*T
	encoding.TextUnmarshaler
}](word string) (T, error) {
	var v T
	err := P(&v).UnmarshalText([]byte(word))
	return v, err
}
