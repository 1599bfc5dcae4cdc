package gate

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/policy"
)

// prompt is a Caller that answers at once.
type prompt struct {
	*scripted
	result json.RawMessage
}

func (p prompt) Call(context.Context, string, string, json.RawMessage, func(json.RawMessage)) (json.RawMessage, error) {
	return p.result, nil
}

// What the gate adds to one allowed call of a tool that reads, the audit log's two
// lines on disk included; without transport and server.
func BenchmarkCall(b *testing.B) {
	for name, text := range map[string]string{
		"words":  "The issue is open and nobody works on it.",
		"digits": "0000000000000042000000000000004200000000000000420000000000000042",
	} {
		b.Run(name, func(b *testing.B) {
			log, err := audit.Open(audit.Options{Dir: b.TempDir(), Now: time.Now, Process: "bench"})
			if err != nil {
				b.Fatal(err)
			}
			defer log.Close()
			r := newRig(b, func(o *Options) {
				o.Audit, o.Now = log, time.Now
				o.Caller = prompt{&scripted{}, json.RawMessage(`{"content":[{"type":"text","text":"` + text + `"}]}`)}
				hub := &o.Servers[0]
				hub.Policy = policy.Default()
				hub.Owner = func(string) catalog.Override {
					return catalog.Override{Permission: engagement.Read, Egress: engagement.Metadata}
				}
				o.Profiles[""] = Profile{Exposure: Transparent, Servers: []string{"hub"}, Authority: engagement.DefaultAuthority()}
			})
			s := r.open(b, Identity{Principal: "local", Scope: policy.ScopeAdmin, Client: "bench", SessionID: "s_0123456789abcdef"})
			args := json.RawMessage(`{"n":42}`)
			b.ReportAllocs()
			for b.Loop() {
				if out := s.Call(context.Background(), Request{Name: "get_issue", Args: args}); out.Error != nil || len(out.Result) == 0 {
					b.Fatalf("%s %v", out.Result, out.Error)
				}
			}
		})
	}
}
