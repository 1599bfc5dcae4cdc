package main

import (
	"testing"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/config"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/policy"
)

// The rule that an explanation suggests is one as it stands, and does what it
// was suggested for.
func TestASuggestedRuleCanBePasted(t *testing.T) {
	for _, tool := range []string{"delete_issue", `say"hi"`, "a:b/c.d-e", "größe", "two words"} {
		id := catalog.ToolID{Server: "notes", Tool: tool}
		for _, class := range []engagement.Permission{engagement.Read, engagement.Destructive} {
			q := policy.Request{Tool: id, NameUnique: true, Class: class, Egress: engagement.Metadata, Scope: policy.ScopeAdmin}
			c := policy.Call{
				Tool: id, Known: true, Pin: policy.PinAccepted, InSlice: true, Class: class, Egress: engagement.Metadata,
				Limits: engagement.Unrestricted(), HIL: engagement.HILInterrupt, Autonomy: engagement.AutonomyDelegated, Attendance: engagement.AttendanceInteractive,
				AllowSourceWrites: true, AllowDestructive: true, Ready: policy.Ready, Reach: policy.L1, Least: policy.L0,
			}
			why := policy.Explain(nil, q, c)
			if tool == "two words" && class == engagement.Destructive {
				if why.Change != nil {
					t.Errorf("a yes is suggested for a tool that no rule can name outright: %+v", why.Change)
				}
				continue
			}
			if why.Change == nil || len(why.Change.Steps) != 1 {
				t.Fatalf("%s, %v: no single rule is suggested: %+v", tool, class, why)
			}
			text := []byte(`{"policy": {"rules": [` + why.Change.Steps[0] + `]}}`)
			cfg, _, err := config.Parse("config.jsonc", text, nil)
			if err != nil {
				t.Errorf("%s cannot be pasted: %v", why.Change.Steps[0], err)
				continue
			}
			if got := policy.Explain(cfg.Policy.Rules, q, c).Verdict; got != why.Change.Verdict || got == why.Verdict {
				t.Errorf("%s: with %s it gets %v, was promised %v", tool, text, got, why.Change.Verdict)
			}
		}
	}
}
