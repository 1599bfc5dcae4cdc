package gate

import (
	"context"
	"testing"
	"time"

	"github.com/mcp-gate/mcp-gate/engagement"
)

func TestACallWaitsForNoOtherServer(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Servers = append(o.Servers, Server{Alias: "late", ID: "late-id", Policy: o.Servers[0].Policy})
		o.Profiles[""] = Profile{Exposure: Direct, Authority: engagement.DefaultAuthority()}
		o.FirstList = time.Hour
	})
	r.caller.ready = make(chan struct{}) // one server never says what it has
	s := r.open(t, Identity{})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	s.Call(ctx, Request{Name: "hub_get_issue"})
	if ctx.Err() != nil || len(r.caller.calls()) != 1 {
		t.Errorf("a call of a tool that is known waited for another server; sent: %q", r.caller.calls())
	}
	close(r.caller.ready)
	if out := s.Call(context.Background(), Request{Name: "late_tool"}); out.Error == nil {
		t.Errorf("a name that nobody knows: %+v", out)
	}
}
