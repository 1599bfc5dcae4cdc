package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A gate that runs takes up what its owner writes, and goes on under the old
// words where the new ones have a fault.
func TestTheConfigurationIsReadAnew(t *testing.T) {
	t.Parallel()
	servers := map[string]any{"issues": map[string]any{"command": built.gate, "args": []string{"sample", "issues", "--dir", t.TempDir()}, "preset": "workbench"}}
	dir := home(t, map[string]any{"servers": servers})
	c := connect(t, `{}`, built.gate, "--home", dir, "serve")
	read := func() string { return string(c.call("issues/list_issues", `{}`)) }
	if got := read(); strings.Contains(got, "refused") {
		t.Fatalf("at first the call gives %s", got)
	}
	write := func(cfg any) {
		t.Helper()
		raw, err := json.Marshal(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "config.jsonc"), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	deny := map[string]any{"do": "deny", "tools": "issues/*"}
	write(map[string]any{"servers": servers, "policy": map[string]any{"rules": []any{deny}}})
	until(t, "the new rule", func() bool { return strings.Contains(read(), "refused [rule]") })
	write(map[string]any{"servers": servers, "policy": map[string]any{"rules": []any{map[string]any{"do": "permit"}}}})
	until(t, "the fault in the log", func() bool { return strings.Contains(c.stderr.String(), "the old one stays in force") })
	if got := c.stderr.String(); !strings.Contains(got, "config.jsonc:1:") || !strings.Contains(got, "hide, deny, ask, defer, allow") {
		t.Errorf("the log does not say where and what: %s", got)
	}
	if got := read(); !strings.Contains(got, "refused [rule]") {
		t.Errorf("after a fault the call gives %s", got)
	}
	write(map[string]any{"servers": servers})
	until(t, "the rule's end", func() bool { return !strings.Contains(read(), "refused") })
}

// until looks again and again until something holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come", what)
		}
	}
}
