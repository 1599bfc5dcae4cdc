package policy_test

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/policy"
)

// A product that has its own tools can use the vocabulary alone: a policy from
// flags, what a token leaves of it, and one approved call beyond it.
func ExamplePolicy() {
	p, err := policy.FromFlags(false, false, []string{"row_level"})
	if err != nil {
		fmt.Println(err)
		return
	}
	export := policy.Capability{Permission: engagement.SourceFileWrite, Egress: engagement.RowLevel}
	fmt.Println("export:", policy.Permitted(export, p))
	fmt.Println("once approved:", policy.Permitted(export, policy.Elevated(p, export.Permission)))
	fmt.Println("for a token that reads:", policy.Permitted(export, p.NarrowedBy(policy.ScopeRead, "token-1")))
	// Output:
	// export: false
	// once approved: true
	// for a token that reads: false
}

func ExampleDecide() {
	session := policy.Sources{Scope: policy.ScopeAdmin, Authority: engagement.DefaultAuthority(), Bars: engagement.DefaultBars()}
	call := policy.Call{
		Tool: catalog.ToolID{Server: "github", Tool: "delete_repo"}, Known: true, Pin: policy.PinAccepted, InSlice: true,
		Class: engagement.Destructive, Egress: engagement.Metadata, Reach: policy.L1, Ready: policy.Ready,
	}
	session.Combine().Fill(&call, policy.Default().Limits())
	d := policy.Decide(call)
	fmt.Println(d.Verdict, "by", d.Rule, "at", d.Level)
	fmt.Println(d.Reason())
	// Output:
	// ask by step6.class at L1
	// github/delete_repo is of class destructive, which needs a person's yes.
}

func ExampleCompile() {
	var record policy.Record
	err := json.Unmarshal([]byte(`{
		"do": "deny", "tools": "*/shell", "args": {"/command": {"glob": "rm -rf*"}},
		"match": {"tool": "sh/shell", "args": {"command": "rm -rf /"}}, "not_match": "sh/echo"
	}`), &record)
	if err != nil {
		fmt.Println(err)
		return
	}
	rules, err := policy.Compile([]policy.Record{record})
	if err != nil {
		fmt.Println(err)
		return
	}
	out := rules.Evaluate(policy.Request{
		Tool: catalog.ToolID{Server: "sh", Tool: "shell"},
		Args: json.RawMessage(`{"command":"rm -rf /tmp/x"}`),
	})
	fmt.Println(out.Do, "by", out.By)

	record.Class = policy.Words{"dangerous"}
	_, err = policy.Compile([]policy.Record{record})
	fmt.Println(err)
	// Output:
	// deny by rules[0]
	// rules[0].class: unknown permission class "dangerous": want one of read, reversible_write, source_file_write, destructive
}

func ExampleExplain() {
	call := policy.Call{
		Tool: catalog.ToolID{Server: "db", Tool: "query"}, Known: true, Pin: policy.PinAccepted, InSlice: true,
		Class: engagement.Read, Egress: engagement.RowLevel, Limits: policy.Default().Limits(),
	}
	fmt.Fprint(os.Stdout, policy.Explain(nil, policy.Request{Tool: call.Tool}, call))
	// Output:
	// tool     db/query (read, row_level)
	// verdict  deny
	// code     egress
	// rule     step4.egress
	// reason   results of db/query carry row_level data, which its server's egress classes do not hold.
	// change   in the entry of server db: "egress": ["metadata", "aggregates", "row_level", "rendered_pixels"] -> run
}
