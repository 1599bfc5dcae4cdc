package policy_test

import (
	"strings"
	"testing"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
	. "github.com/mcp-gate/mcp-gate/policy"
)

func about() About {
	return About{
		Tool: catalog.ToolID{Server: "github", Tool: "delete_repo"}, Class: engagement.Destructive, Egress: engagement.RowLevel,
		Pin: PinChanged, Nearest: []string{"github/get_repo", "github/list_repos"}, Ticket: "t_abc", By: ref(DoDeny),
	}
}

func TestEveryCodeHasItsSentences(t *testing.T) {
	seen := map[string]Code{}
	for _, c := range Codes() {
		model, person, change := c.ForModel(about()), c.ForPerson(about()), c.Change(about())
		if model == "" || person == "" {
			t.Errorf("%v has no sentence for the model or the person", c)
		}
		if strings.ContainsAny(model+person, "{}") || strings.Contains(change, "{tool}") || strings.Contains(change, "{egress}") || strings.Contains(change, "{rule}") {
			t.Errorf("%v has a place that nothing fills:\n%s\n%s\n%s", c, model, person, change)
		}
		if other, ok := seen[model]; ok {
			t.Errorf("%v and %v say the same to the model: %s", c, other, model)
		}
		seen[model] = c
	}
}

// What a model reads must be of no use for getting round the person.
func TestNoSentenceTellsAModelHowToApproveOrReconfigure(t *testing.T) {
	for _, c := range Codes() {
		model := strings.ToLower(c.ForModel(about()))
		for _, word := range []string{
			"mcp-gate", "approve", "approval", "accept", "grant", "config", "policy", "allow_", "preset", "enroll", "command", "flag",
			"rules[", ".jsonc", "elevat", "autonomy", "inbox", "token", "scope", "setting", "console",
		} {
			if strings.Contains(model, word) {
				t.Errorf("%v tells the model about %q: %s", c, word, model)
			}
		}
	}
}

func TestCodesThatAreNone(t *testing.T) {
	for _, c := range []Code{0, 255} {
		if c.ForModel(about()) != "" || c.ForPerson(about()) != "" || c.Change(about()) != "" || c.Retryable() {
			t.Errorf("%v says something", c)
		}
	}
}

func TestSentencesLeaveOutWhatIsNotKnown(t *testing.T) {
	a := About{Tool: catalog.ToolID{Server: "s", Tool: "t"}, Pin: 99}
	for code, want := range map[Code]string{
		CodeUnknown:  "there is no tool s/t. Search for what you want to do instead.",
		CodeDeferred: "this call of s/t waits for a person's decision. Do what does not depend on it, then stop and say what it waits for.",
		CodeHeld:     "s/t is held back because the state of its definition is not known. Use another tool, or tell the person what it is needed for.",
	} {
		if got := code.ForModel(a); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if got := CodeHeld.ForModel(About{Tool: a.Tool}); !strings.Contains(got, "state of its definition is not known") {
		t.Errorf("without a pin: %s", got)
	}
}

// A name that holds a placeholder is not filled in again.
func TestForeignNamesAreNotTemplates(t *testing.T) {
	a := About{Tool: catalog.ToolID{Server: "s", Tool: "{rule}"}, By: ref(DoDeny)}
	if got := CodeRule.ForModel(a); !strings.Contains(got, "s/{rule}") {
		t.Errorf("got %s", got)
	}
}

func TestRetryable(t *testing.T) {
	want := map[Code]bool{
		CodeServerDown: true, CodeUnverified: true, CodeNoAnswer: true, CodeExpired: true, CodeCancelled: true, CodeStale: true, CodeAudit: true,
	}
	for _, c := range Codes() {
		if c.Retryable() != want[c] {
			t.Errorf("%v retryable: %v, want %v", c, c.Retryable(), want[c])
		}
	}
}
