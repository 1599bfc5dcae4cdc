package gate

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/policy"
)

// What a rule, a card and the check of names go by is there before a content is
// put in. So none is put in where all of the arguments would be one.
func TestAnArtifactIsNeverAllArguments(t *testing.T) {
	r := keeping(t, func(o *Options) {
		letsOut(engagement.AllEgress(), engagement.RowLevel, policy.EgressBlock)(o)
	})
	r.says(json.RawMessage(`{"content":[],"structuredContent":{"n":7,"pad":"` + strings.Repeat("long ", 50_000) + `"}}`))
	s := r.open(t, Identity{})
	var facts []struct{ Artifact string }
	if err := json.Unmarshal(decode(t, through(t, s, "hub/get_issue", `{}`)).Meta["mcp-gate/artifacts"], &facts); err != nil || len(facts) != 1 {
		t.Fatalf("kept %v, %v", facts, err)
	}
	before := len(r.caller.calls())
	for _, args := range []string{`{"$artifact":"` + facts[0].Artifact + `"}`, ` { "\u0024artifact" : "` + facts[0].Artifact + `" } `} {
		out := through(t, s, "hub/create_issue", args)
		if strings.Contains(args, `\u`) { // which stands for nothing
			if got := r.caller.calls(); len(got) != before+1 || !strings.Contains(got[before], facts[0].Artifact) {
				t.Errorf("sent %v", got[before:])
			}
			continue
		}
		if got := decode(t, out).text(); !strings.HasPrefix(got, "refused [arguments]: hub/create_issue cannot be given this artifact") || len(r.caller.calls()) != before {
			t.Errorf("%s gives %s after %d calls", args, got, len(r.caller.calls())-before)
		}
	}
}
