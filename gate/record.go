package gate

import (
	"encoding/json"
	"fmt"

	"github.com/mcp-gate/mcp-gate/artifacts"
	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/internal/canonjson"
	"github.com/mcp-gate/mcp-gate/policy"
)

// event is the audit line of a decision about a call.
func (s *Session) event(kind string, c *call, d policy.Decision) audit.Event {
	e := audit.Event{Kind: kind, Verdict: word(d.Verdict), Code: word(d.Code), Rule: d.Rule}
	if d.By.Set() {
		e.Rule += " " + d.By.String()
	}
	if d.OutsideSlice {
		e.Slice = "outside"
	}
	if d.NoWayBack && kind == audit.Intent {
		e.Note = "a copy was wanted and none is possible: there is no way back"
	}
	if kind == audit.Intent || kind == audit.Ask || kind == audit.Refusal {
		e.Args = s.g.keptArgs(c)
		e.Profile = s.who.Profile
		if s.who.Scope != policy.ScopeAdmin {
			e.Scope = word(s.who.Scope)
		}
	}
	s.about(&e, c)
	return e
}

// keptArgs are the arguments of a call for the audit log, if the owner has it keep them:
// without what looks like a secret. Arguments that are too long are left out, since a
// rule could judge a part of them in another way than the whole.
func (g *Gate) keptArgs(c *call) json.RawMessage {
	if !g.ruling().KeepArguments || len(c.args) > audit.MaxArgs {
		return nil
	}
	clean, _ := artifacts.RedactJSON(orEmpty(c.args))
	kept, err := canonjson.Append(nil, clean)
	if err != nil || len(kept) > audit.MaxArgs { // not strict JSON, or longer by the marks for secrets
		return nil
	}
	return kept
}

// about adds to an event who called what, and the digest and size of the arguments.
func (s *Session) about(e *audit.Event, c *call) {
	e.Call, e.Session, e.Principal, e.Client, e.Ticket = c.id, s.id, s.who.Principal, s.who.Client, c.ticket
	e.Tool, e.ArgsDigest, e.ArgsSize = c.entry.ID.String(), c.digest, int64(len(c.args))
	if !c.known {
		e.Tool = c.name
	}
	e.Class, e.Egress = word(c.entry.Class.Permission), word(c.entry.Class.Egress)
}

// word is the word of an enum, empty for its zero value.
func word[T interface {
	comparable
	fmt.Stringer
}](v T) string {
	var none T
	if v == none {
		return ""
	}
	return v.String()
}
