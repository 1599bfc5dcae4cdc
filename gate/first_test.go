package gate

import (
	"context"
	"testing"
)

func (c *scripted) Shown(ctx context.Context, _ string) { c.Settled(ctx) }
func (*shop) Shown(context.Context, string)             {}

func TestServersAreWantedByTheFirstListOrCall(t *testing.T) {
	for what, use := range map[string]func(*Session){
		"a list": func(s *Session) { _, _ = s.ListTools(t.Context()) },
		"a call": func(s *Session) { s.Call(t.Context(), Request{Name: "hub_get_issue"}) },
	} {
		r := newRig(t, nil)
		s := r.open(t, Identity{})
		select {
		case <-r.gate.Wanted():
			t.Error("a session alone wants servers")
		default:
		}
		use(s)
		select {
		case <-r.gate.Wanted():
		default:
			t.Errorf("%s wants none", what)
		}
	}
}
