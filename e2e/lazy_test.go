package e2e

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A server on record that is to start lazily is a process from its first call
// on, and a call that cannot start it says why.
func TestALazyServerStartsAtItsFirstCall(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, starts := filepath.Join(t.TempDir(), "server"), filepath.Join(t.TempDir(), "starts")
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	dir := home(t, map[string]any{"servers": map[string]any{"fake": map[string]any{
		"command": program, "args": []string{"fake-mcp", "-starts", starts}, "start": "lazy", "preset": "workbench",
		"tools": map[string]any{"*": map[string]string{"permission": "read", "egress": "row_level"}},
	}}})
	started := func() int {
		t.Helper()
		text, err := os.ReadFile(starts)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return strings.Count(string(text), "\n")
	}
	first := connect(t, `{}`, built.gate, "--home", dir, "serve")
	if got := string(first.call("fake/echo", `{"text":"hello"}`)); !strings.Contains(got, "hello") || started() != 1 {
		t.Fatalf("never seen, it gives %s after %d starts", got, started())
	}
	c := connect(t, `{}`, built.gate, "--home", dir, "serve", "--exposure", "direct")
	if list := string(c.result(c.send("tools/list", `{}`))); !strings.Contains(list, "fake_echo") {
		t.Errorf("the list lacks its tools: %s", list)
	}
	if found := string(c.result(c.send("tools/call", `{"name":"find_tools","arguments":{"query":"echo"}}`))); !strings.Contains(found, "fake/echo") {
		t.Errorf("its tools are not found: %s", found)
	}
	if n := started(); n != 1 {
		t.Errorf("on record, it is started %d times more before it is called", n-1)
	}
	for range 2 {
		if got := string(c.call("fake/echo", `{"text":"again"}`)); !strings.Contains(got, "again") || started() != 2 {
			t.Errorf("it gives %s after %d starts", got, started())
		}
	}
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	gone := connect(t, `{}`, built.gate, "--home", dir, "serve")
	if got := string(gone.call("fake/echo", `{"text":"hello"}`)); !strings.Contains(got, "refused [server-down]") || !strings.Contains(got, "did not start") {
		t.Errorf("with its program gone, a call gives %s", got)
	}
}
