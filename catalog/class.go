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
// name and its annotations give away. What cannot be told is destructive and
// row_level, in no domain.
func Classify(t Tool, trust Trust, owner Override) Class {
	p, why := infer(t, trust)
	c := Class{Permission: p, Egress: engagement.RowLevel, Why: why}
	if p == engagement.ReversibleWrite || p == engagement.SourceFileWrite {
		c.Egress = engagement.Metadata // a write answers with an acknowledgement
	}
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

// infer reads the name's verbs and the annotations.
func infer(t Tool, trust Trust) (engagement.Permission, string) {
	p, verb := verbClass(t.ID.Tool)
	effect := p > engagement.Read
	why := fmt.Sprintf("%s by the word %q in its name", p, verb)
	if p == 0 {
		p, why = engagement.Destructive, "destructive because nothing tells what it does"
		if t.Hints.ReadOnly != nil && *t.Hints.ReadOnly && trust == Trusted {
			return engagement.Read, "read by the annotation of a trusted server"
		}
		return p, why
	}
	if raised, claim := claimed(t.Hints); raised > p {
		return raised, fmt.Sprintf("%s by its annotation %s", raised, claim)
	}
	if effect && p == engagement.Destructive && trust == Trusted && t.Hints.Destructive != nil && !*t.Hints.Destructive && !sends(verb) {
		return engagement.ReversibleWrite, "reversible_write by the annotation of a trusted server"
	}
	return p, why
}

// claimed is the least class that the annotations admit to.
func claimed(h Hints) (engagement.Permission, string) {
	switch {
	case h.ReadOnly != nil && *h.ReadOnly:
		return 0, ""
	case h.Destructive != nil && *h.Destructive:
		return engagement.Destructive, "destructiveHint"
	case h.ReadOnly != nil && !*h.ReadOnly:
		return engagement.ReversibleWrite, "readOnlyHint false"
	}
	return 0, ""
}

// sends reports whether a verb has an effect that no annotation lowers.
func sends(verb string) bool { return verbs[verb] == engagement.Destructive }

// verbClass is the most severe class of the words of a name, and the word. Two
// words that stand together in the table ("write_file") count as one. A noun
// that is also a verb ("order", "call") says nothing after a reading verb:
// list_orders reads.
func verbClass(name string) (engagement.Permission, string) {
	ws := words(name)
	var best engagement.Permission
	var which string
	for i, w := range ws {
		p, known := verbs[w]
		if i > 0 && known && verbs[ws[0]] == engagement.Read && !alwaysActs[w] {
			continue
		}
		if i+1 < len(ws) {
			if pair, ok := verbs[w+"_"+ws[i+1]]; ok {
				p = max(p, pair)
			}
		}
		if p > best {
			best, which = p, w
		}
	}
	return best, which
}

// alwaysActs are words that name an effect wherever they stand in a name.
var alwaysActs = map[string]bool{
	"delete": true, "remove": true, "send": true, "destroy": true, "purge": true, "drop": true,
	"create": true, "update": true, "write": true, "execute": true, "exec": true, "overwrite": true,
}
