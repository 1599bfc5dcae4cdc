package catalog

import (
	"fmt"

	"github.com/mcp-gate/mcp-gate/engagement"
)

// Class is what a tool may do, what its result carries out, and which kinds
// of work it serves, each with the ground for it.
type Class struct {
	Permission engagement.Permission
	Egress     engagement.Egress
	Domains    engagement.DomainSet // empty: it declares none and is never sliced away
	Why        string               // one line for people
}

// Override is the owner's word on a tool. A zero field leaves its part to
// inference.
type Override struct {
	Permission engagement.Permission
	Egress     engagement.Egress
	Domains    *engagement.DomainSet // an empty set says that it serves none
	From       string                // where the owner said so, for Class.Why
}

// Trust says how far a server's own annotations are believed.
type Trust bool

// Claims of an untrusted server raise a class and never lower it.
const (
	Untrusted Trust = false
	Trusted   Trust = true
)

// Classify says what class a tool has: the owner's word first, then what its
// name, title, description, schema and annotations give away. What cannot be
// told is destructive and row_level, in no domain.
//
// Annotations are claims. They raise a class; they lower one only for a
// trusted server, and never against a verb that has an effect.
func Classify(t Tool, trust Trust, owner Override) Class {
	f := featuresOf(t)
	return owner.over(classify(t, &f, trust))
}

func classify(t Tool, f *features, trust Trust) Class {
	did := f.effect()
	egress, gives := f.carries(did)
	permission, why := judged(did, t.Hints, trust)
	c := Class{Permission: permission, Egress: egress, Domains: f.serves(t)}
	c.Why = fmt.Sprintf("%s by %s; %s: %s", permission, why, egress, gives)
	return c
}

// over returns a class with the owner's word in place of what was found.
func (owner Override) over(c Class) Class {
	if owner.Permission != 0 {
		c.Permission, c.Why = owner.Permission, fmt.Sprintf("%s by %s", owner.Permission, owner.From)
	}
	if owner.Egress != 0 {
		c.Egress = owner.Egress
	}
	if owner.Domains != nil {
		c.Domains = *owner.Domains
	}
	return c
}

// judged weighs what a tool was found to do against what it claims.
func judged(did finding, claims Hints, trust Trust) (engagement.Permission, string) {
	if v := lex().verbs[did.verb]; trust == Trusted && !did.strong && !did.ran && !v.always && !runs[did.verb] {
		switch {
		case is(claims.ReadOnly, true):
			return engagement.Read, "the annotation of a trusted server"
		case is(claims.Destructive, false) && did.class == 0:
			return engagement.ReversibleWrite, "the annotation of a trusted server"
		}
	}
	if did.class == 0 {
		return engagement.Destructive, "default, since nothing tells what it does"
	}
	if raised, claim := claimed(claims); raised > did.class {
		return raised, "its annotation " + claim
	}
	return did.class, did.why
}

// claimed is the least class that the annotations admit to.
func claimed(h Hints) (engagement.Permission, string) {
	switch {
	case is(h.ReadOnly, true):
		return 0, ""
	case is(h.Destructive, true):
		return engagement.Destructive, "destructiveHint"
	case is(h.ReadOnly, false):
		return engagement.ReversibleWrite, "readOnlyHint false"
	}
	return 0, ""
}

func is(hint *bool, value bool) bool { return hint != nil && *hint == value }
