package e2e

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// A sub-agent's gate is another process: it shows the tools and the prefix of
// the session that it works for, spends from the same account, and may not do
// more than that one may now, nor once that one is gone.
func TestASubAgentWorksUnderItsParentsSession(t *testing.T) {
	t.Parallel()
	servers := map[string]any{}
	for _, kind := range []string{"issues", "mail"} {
		servers[kind] = map[string]any{"command": built.gate, "args": []string{"sample", kind, "--dir", t.TempDir()}, "preset": "workbench"}
	}
	dir := home(t, map[string]any{
		"servers": servers, "policy": map[string]any{"spend": map[string]any{"calls": 6}},
		"profiles": map[string]any{"desk": map[string]any{"exposure": "direct", "servers": []string{"issues"}}},
	})
	parent := gate(t, dir, "--client", "editor", "--profile", "desk")
	shown := func(c *client) string {
		return string(c.result(c.send("tools/list", `{}`))) + string(c.result(c.send("resources/read", `{"uri":"gate://prefix"}`)))
	}
	want := shown(parent)
	var status struct {
		Gates []struct {
			Sessions []struct{ ID, Principal, Parent string }
		}
	}
	out, errs, code := command(t, dir, "--json", "status")
	if err := json.Unmarshal([]byte(out), &status); err != nil || code != 0 || len(status.Gates) != 1 {
		t.Fatalf("status: %s %s %v", out, errs, err)
	}
	id := status.Gates[0].Sessions[0].ID

	child := gate(t, dir, "--parent", id[:12])
	if got := shown(child); got != want || !strings.Contains(got, "issues_create_issue") {
		t.Errorf("the sub-agent is shown\n%s\nand its parent\n%s", got, want)
	}
	if out, _, _ := command(t, dir, "status"); !strings.Contains(out, "for "+id) || strings.Count(out, "local/editor") != 2 {
		t.Errorf("status says %s", out)
	}
	runs := func(c *client) bool {
		got := string(c.call("issues/add_comment", `{"number":22,"body":"b"}`))
		return !strings.Contains(got, "mcp-gate/refusal") && !strings.Contains(got, "mcp-gate/ticket")
	}
	if !runs(parent) || !runs(child) {
		t.Fatal("a comment needs nobody yet")
	}
	parent.result(parent.send("tools/call", `{"name":"engage","arguments":{"act":"operate","stakes":"irreversible"}}`))
	if runs(child) {
		t.Error("the sub-agent may more than its parent")
	}
	if err := parent.cmd.Process.Signal(os.Kill); err != nil {
		t.Fatal(err)
	}
	if runs(child) {
		t.Error("the sub-agent may more than its parent might, that is gone")
	}
	read := func() string { return string(child.call("issues/list_issues", `{}`)) }
	for range 4 {
		if got := read(); strings.Contains(got, "refused") {
			t.Errorf("a call within the limit: %s", got)
		}
	}
	if got := read(); !strings.Contains(got, "refused [spend]") {
		t.Errorf("the seventh call of six: %s", got)
	}
	if _, errs, code := command(t, dir, "serve", "--parent", "s_nobody"); code != 2 || !strings.Contains(errs, `there is no session "s_nobody"`) {
		t.Errorf("exit %d: %s", code, errs)
	}
}
