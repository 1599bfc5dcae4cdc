package main

import (
	"strings"
	"testing"

	"github.com/mcp-gate/mcp-gate/config"
)

// A policy version tells one policy from another, whatever the owner left out.
func TestPolicyVersion(t *testing.T) {
	seen := map[string]string{}
	for _, text := range []string{
		`{}`, `{"preset": "workbench"}`, `{"approval": {"least_level": {"read": "L1"}}}`,
		`{"policy": {"allow_destructive": true}}`, `{"policy": {"rules": [{"do": "deny", "tools": "a/*"}]}}`,
		`{"policy": {"rules": [{"do": "deny", "tools": "b/*"}]}}`,
	} {
		cfg, _, err := config.Parse("c.jsonc", []byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		v := policyVersion(cfg)
		if strings.HasPrefix(v, "unknown") {
			t.Errorf("%s: %s", text, v)
		}
		if other, ok := seen[v]; ok {
			t.Errorf("%s and %s have one version", text, other)
		}
		seen[v] = text
		moved, _, err := config.Parse("c.jsonc", []byte("// a comment\n\n  "+text), nil)
		if err != nil {
			t.Fatal(err)
		}
		if policyVersion(moved) != v {
			t.Errorf("%s has another version two lines further down", text)
		}
	}
}
