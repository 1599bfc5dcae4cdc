package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

// What is written in pieces, each of them a while after the other, is read once
// it is whole.
func TestAConfigurationIsReadOnceItLiesStill(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.jsonc")
	synctest.Test(t, func(t *testing.T) {
		written := make(chan time.Time, 1)
		go func() {
			for n := range 20 {
				if err := os.WriteFile(file, make([]byte, n), 0o600); err != nil {
					t.Error(err)
				}
				time.Sleep(reloadQuiet / 3)
			}
			written <- time.Now()
		}()
		synctest.Wait()
		seen := quiet(t.Context(), stamp(file), file)
		if last := (<-written).Add(-reloadQuiet / 3); time.Since(last) < reloadQuiet || seen != stamp(file) {
			t.Errorf("taken for whole %v after the last piece", time.Since(last))
		}
	})
}

func TestStampTellsSizesApart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large")
	at := time.Unix(1_800_000_000, 0)
	of := func(size int64) string {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Truncate(path, size), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
		return stamp(path)
	}
	if of(0x110000) == of(0x110001) || of(0xD800) == of(0xD801) {
		t.Error("files of different sizes are one state")
	}
}
