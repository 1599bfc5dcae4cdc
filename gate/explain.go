package gate

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/policy"
)

// Explain says what a call of a tool would meet in this session, and why. With
// nil args the arguments are not known, and it may depend on them. Nothing runs and nothing is recorded.
func (s *Session) Explain(ctx context.Context, name string, args json.RawMessage, canAsk bool) (policy.Explanation, error) {
	entry, known, err := s.set().Find(name)
	if err != nil {
		return policy.Explanation{}, fmt.Errorf("explain %s: %w", name, err)
	}
	c := &call{name: name, args: args, unseen: args == nil, canAsk: canAsk, entry: &entry, known: known && s.shows(entry.ID.Server)}
	if !c.known {
		c.entry = unknownEntry(name)
	}
	facts, _ := s.decide(ctx, c)
	facts.Reach = s.reach(c)
	return policy.Explain(s.g.ruling().Rules, s.request(c, s.rank()), facts), nil
}

// Facts returns what a call of a tool of the given class would be judged by
// in this session, the rules' outcome left to whoever judges it. It serves
// replays of calls whose tool may be gone.
func (s *Session) Facts(id catalog.ToolID, class catalog.Class) policy.Call {
	c := &call{name: id.String(), known: true, unseen: true, canAsk: true, entry: &catalog.Entry{Tool: catalog.Tool{ID: id}, Class: class}}
	facts := s.facts(c)
	facts.Reach = s.reach(c)
	return facts
}
