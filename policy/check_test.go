package policy_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
	. "github.com/mcp-gate/mcp-gate/policy"
)

func targets() []Target {
	closed := json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"opts":{"type":"object","properties":{"n":{}},"additionalProperties":false}},"additionalProperties":false}`)
	return []Target{
		{catalog.ToolID{Server: "fs", Tool: "read"}, engagement.Read, engagement.RowLevel, closed},
		{catalog.ToolID{Server: "fs", Tool: "write"}, engagement.SourceFileWrite, engagement.Metadata, closed},
		{catalog.ToolID{Server: "github", Tool: "search"}, engagement.Read, engagement.RowLevel, nil},
		{catalog.ToolID{Server: "github", Tool: "delete_repo"}, 0, 0, json.RawMessage(`{"type":"object","properties":{"repo":{}}}`)},
		{catalog.ToolID{Server: "github", Tool: "delete_issue"}, engagement.Destructive, engagement.Metadata, nil},
		{catalog.ToolID{Server: "jira", Tool: "search"}, engagement.Read, engagement.RowLevel, json.RawMessage(`{"anyOf":[{}],"additionalProperties":false}`)},
	}
}

func TestCheck(t *testing.T) {
	tests := []struct {
		name  string
		rules []string
		want  []string // kind, rule and other
	}{
		{"rules that do what they say", []string{`{"do":"allow","tools":"fs/*"}`, `{"do":"deny","tools":"github/delete_*"}`}, nil},
		{"an exception is no conflict", []string{`{"do":"allow","tools":"github/*"}`, `{"do":"deny","tools":"github/delete_*"}`}, nil},
		{"a stronger rule over the same set", []string{`{"do":"allow","tools":"github/search"}`, `{"do":"ask","tools":"github/search"}`}, []string{"unreachable 0 1"}},
		{"a stronger rule over a wider set", []string{`{"do":"deny"}`, `{"do":"allow","tools":"github/search"}`}, []string{"unreachable 1 0"}},
		{"a stronger rule that covers it by class", []string{`{"do":"allow","tools":"github/delete_*"}`, `{"do":"deny","class":"destructive"}`}, []string{"unreachable 0 1"}},
		{"a stronger rule for others only", []string{`{"do":"allow","tools":"github/search"}`, `{"do":"ask","tools":"github/search","scope":"read"}`}, nil},
		{"a stronger rule for wider people", []string{`{"do":"allow","tools":"github/search","scope":"read","principal":"local/a"}`, `{"do":"ask","tools":"github/*","scope":["read","write"],"principal":"local/*"}`}, []string{"unreachable 0 1"}},
		{"a stronger rule for other principals", []string{`{"do":"allow","tools":"fs/*","principal":"a"}`, `{"do":"ask","tools":"*/write","principal":"b"}`}, nil},
		{"a question mark covers only itself", []string{`{"do":"allow","tools":"fs/read","principal":"a?"}`, `{"do":"ask","tools":"fs/*","principal":"a?"}`, `{"do":"ask","tools":"fs/*","principal":"?*"}`}, []string{"unreachable 0 1"}},
		{"a stronger rule with arguments of its own", []string{`{"do":"allow","tools":"fs/read"}`, `{"do":"deny","tools":"fs/read","args":{"/path":{"glob":"*.pem"}}}`}, nil},
		{"a stronger rule with the same arguments", []string{`{"do":"allow","tools":"fs/read","args":{"/path":{"glob":"*.pem","max_len":9},"/opts":{"absent":true}}}`, `{"do":"deny","tools":"fs/*","args":{"/path":{"glob":"*.pem"}}}`}, []string{"unreachable 0 1"}},
		{"other arguments at the same place", []string{`{"do":"allow","tools":"fs/read","args":{"/path":{"glob":"*.pem"}}}`, `{"do":"deny","tools":"fs/*","args":{"/path":{"glob":"*.key"}}}`}, nil},
		{"rules that overlap", []string{`{"do":"allow","tools":["fs/*","github/*"]}`, `{"do":"ask","tools":"*/search"}`}, []string{"conflict 0 1"}},
		{"rules that overlap for the same people", []string{`{"do":"allow","tools":["fs/*","github/*"],"principal":"local/x","scope":"admin"}`, `{"do":"ask","tools":"*/search","principal":"local/*","scope":["admin","read"]}`}, []string{"conflict 0 1"}},
		{"rules that overlap for other people", []string{`{"do":"allow","tools":["fs/*","github/*"],"scope":"admin"}`, `{"do":"ask","tools":"*/search","scope":"read"}`}, nil},
		{"a pattern that no tool has", []string{`{"do":"deny","tools":"gihtub/*"}`}, []string{"no-tool 0"}},
		{"a bare name of several servers", []string{`{"do":"allow","tools":["search","read"]}`, `{"do":"deny","tools":"search","class":"destructive"}`}, []string{"ambiguous 0", "no-tool 1"}},
		{"an argument that a closed schema lacks", []string{`{"do":"deny","tools":"fs/*","args":{"/pth":{"glob":"*"},"/path":{"glob":"*"}}}`}, []string{"impossible 0"}},
		{"one that it lacks further in", []string{`{"do":"deny","tools":"fs/*","args":{"/opts/m":{"eq":1},"/opts/n":{"eq":1},"/opts/n/deep":{"eq":1}}}`}, []string{"impossible 0"}},
		{"one that must be absent", []string{`{"do":"deny","tools":"fs/*","args":{"/pth":{"absent":true}}}`}, nil},
		{"one that some tool may have", []string{`{"do":"deny","args":{"/repo":{"eq":"x"}}}`, `{"do":"ask","tools":"*/search","args":{"/x":{"eq":1}}}`, `{"do":"ask","tools":"jira/*","args":{"/x":{"eq":1}}}`, `{"do":"ask","tools":"github/delete_repo","args":{"/x":{"eq":1}}}`}, nil},
	}
	for _, tt := range tests {
		var got []string
		for _, f := range Check(compile(t, tt.rules...), targets()) {
			line := fmt.Sprintf("%v %d", f.Kind, f.Rule.Index)
			if f.Other.Set() {
				line += fmt.Sprintf(" %d", f.Other.Index)
			}
			got = append(got, line)
			if f.Text == "" {
				t.Errorf("%s: a finding without a text", tt.name)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestCheckWithoutToolsComparesPatterns(t *testing.T) {
	tests := []struct {
		weak, strong string
		covered      bool
	}{
		{`"tools":"github/delete_repo"`, `"tools":"github/delete_*"`, true}, {`"tools":"github/delete_*"`, `"tools":"*/delete_*"`, true},
		{`"tools":"github/*"`, `"tools":"github/delete_*"`, false}, {`"tools":"a/b"`, ``, true}, {``, `"tools":"a/b"`, false},
		{`"tools":["a/b","c/d"]`, `"tools":["c/*","a/*"]`, true}, {`"tools":["a/b","c/d"]`, `"tools":"a/*"`, false},
		{`"class":"read"`, `"class":"read"`, true}, {`"class":"read"`, `"class":"destructive"`, false},
		{`"scope":["read","write"]`, `"scope":["read","write"]`, true}, {`"scope":"read"`, `"scope":["write","admin"]`, false},
		{`"class":"read"`, `"class":["read","destructive"]`, true}, {`"class":["read","destructive"]`, `"class":"read"`, false}, {``, `"class":"read"`, false},
		{`"egress":"metadata"`, `"egress":["metadata","row_level"]`, true}, {`"egress":["metadata","row_level"]`, `"egress":"metadata"`, false}, {``, `"egress":"metadata"`, false},
	}
	for _, tt := range tests {
		join := func(do, fields string) string {
			if fields != "" {
				fields = "," + fields
			}
			return `{"do":"` + do + `"` + fields + `}`
		}
		found := Check(compile(t, join("allow", tt.weak), join("deny", tt.strong)), nil)
		if got := len(found) == 1 && found[0].Kind == FindUnreachable; got != tt.covered || len(found) > 1 {
			t.Errorf("%s under %s: %v, want covered %v", tt.weak, tt.strong, found, tt.covered)
		}
	}
	if Check(nil, targets()) != nil {
		t.Error("no rules have findings")
	}
}

func TestTheSameTestsAreToldFromOthers(t *testing.T) {
	tests := []string{
		`{"eq":1}`, `{"eq":2}`, `{"in":[1,2]}`, `{"glob":"a"}`, `{"glob":"b"}`, `{"regex":"a"}`, `{"regex":"b"}`, `{"min":1}`, `{"max":1}`, `{"min":1,"max":2}`,
		`{"max_len":1}`, `{"max_len":2}`, `{"path_under":"/a"}`, `{"path_under":"/b"}`, `{"absent":true}`,
	}
	for i, a := range tests {
		for j, b := range tests {
			rules := compile(t, `{"do":"allow","args":{"/p":`+a+`}}`, `{"do":"deny","args":{"/p":`+b+`}}`)
			if got := len(Check(rules, nil)) == 1; got != (i == j) {
				t.Errorf("%s and %s: taken for the same: %v", a, b, got)
			}
		}
	}
}

func TestAConflictNamesTheTools(t *testing.T) {
	rules := compile(t, `{"do":"allow","tools":["*/search","*/delete_*","a/b"]}`, `{"do":"ask","tools":["github/*","jira/*","c/d"]}`)
	tools := append(targets(), Target{Tool: catalog.ToolID{Server: "a", Tool: "b"}}, Target{Tool: catalog.ToolID{Server: "c", Tool: "d"}})
	found := Check(rules, tools)
	want := "rules[1] (config.jsonc:11:3) overlaps it, so it is ask and not allow for github/search, github/delete_repo, github/delete_issue and 1 more"
	if len(found) != 1 || found[0].Text != want {
		t.Errorf("got %v, want %s", found, want)
	}
}
