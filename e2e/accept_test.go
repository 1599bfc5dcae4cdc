package e2e

import (
	"os/exec"
	"strings"
	"testing"
)

// What a person accepts counts in the gates that run, not only in later ones.
func TestAnAcceptedDefinitionCountsAtOnce(t *testing.T) {
	t.Parallel()
	dir := home(t, map[string]any{"accept": "manual", "servers": map[string]any{
		"issues": map[string]any{"command": built.gate, "args": []string{"sample", "issues", "--dir", t.TempDir()}, "preset": "workbench"},
	}})
	c := connect(t, `{}`, built.gate, "--home", dir, "serve")
	read := func() string { return string(c.call("issues/list_issues", `{}`)) }
	if got := read(); !strings.Contains(got, "refused [held]") {
		t.Fatalf("before a person looked the call gives %s", got)
	}
	loaded := string(c.result(c.send("tools/call", `{"name":"load_tool","arguments":{"names":["issues/list_issues"]}}`)))
	if !strings.Contains(loaded, "refused [held]") || !strings.Contains(loaded, "because its definition is new") || strings.Contains(loaded, "inputSchema") {
		t.Errorf("before a person looked it is loaded: %s", loaded)
	}
	if out, err := exec.Command(built.gate, "--home", dir, "accept", "--yes", "issues/list_issues").CombinedOutput(); err != nil {
		t.Fatalf("accept: %v\n%s", err, out)
	}
	until(t, "the accepted tool", func() bool { return !strings.Contains(read(), "refused") })
	if got := string(c.call("issues/get_issue", `{"number":1}`)); !strings.Contains(got, "refused [held]") {
		t.Errorf("a tool that nobody accepted gives %s", got)
	}
}
