package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Programs exist that end at their first start and come up at the next, a moment
// later: their tools are in the first list, and can be called before it.
func TestAServerThatFailsAtItsFirstStartIsWaitedFor(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	serve := func(exposure string) (c *client, starts string) {
		starts = filepath.Join(t.TempDir(), "starts")
		dir := home(t, map[string]any{"servers": map[string]any{"fake": map[string]any{
			"command": self, "args": []string{"fake-mcp", "-fault", "exit-first", "-starts", starts}, "preset": "workbench",
			"tools": map[string]any{"*": map[string]string{"permission": "read", "egress": "row_level"}},
		}}})
		return connect(t, `{}`, built.gate, "--home", dir, "serve", "--exposure", exposure), starts
	}
	for _, exposure := range []string{"direct", "transparent"} {
		c, starts := serve(exposure)
		if list := string(c.result(c.send("tools/list", `{}`))); !strings.Contains(list, "echo") {
			text, _ := os.ReadFile(starts)
			t.Errorf("%s: after %d starts the list is %s", exposure, strings.Count(string(text), "\n"), list)
		}
	}
	c, _ := serve("meta")
	if got := string(c.call("fake/echo", `{"text":"hello"}`)); !strings.Contains(got, "hello") {
		t.Errorf("call_tool gives %s", got)
	}
}
