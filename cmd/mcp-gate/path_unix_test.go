//go:build unix

package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mcp-gate/mcp-gate/config"
)

// The login shell is asked when a program that needs its answer is started, and
// not before: a start-up file may take its time, and other servers need none.
func TestTheShellIsAskedWhenAProgramIsStarted(t *testing.T) {
	dir := t.TempDir()
	shell, asked := filepath.Join(dir, "shell"), filepath.Join(dir, "asked")
	if err := os.WriteFile(shell, []byte("#!/bin/sh\necho >> "+asked+"\necho PATH="+dir+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "runner"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	programs := newProgramFinder([]string{"PATH=/bin:/usr/bin", "SHELL=" + shell})
	server := func(command string) config.Server {
		return config.Server{Transport: config.TransportStdio, Launch: config.Endpoint{Command: command}}
	}
	runner, plain := upstreamOf(server("runner"), programs), upstreamOf(server("sh"), programs)
	plain.Environ()
	if _, err := os.Stat(asked); err == nil {
		t.Error("it was asked for nothing")
	}
	for range 2 {
		if env := runner.Environ(); !slices.ContainsFunc(env, func(kv string) bool { return len(kv) > 5 && kv[:5] == "PATH=" && isIn(kv[5:], "runner") }) {
			t.Errorf("the program is not in %q", env)
		}
	}
	if lines, err := os.ReadFile(asked); err != nil || len(lines) != 1 {
		t.Errorf("it was asked %d times, %v", len(lines), err)
	}
}
