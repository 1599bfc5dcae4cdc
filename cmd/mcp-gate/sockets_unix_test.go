//go:build unix

package main

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// Of the temporary files a gate takes away what a killed one left, and nothing else.
func TestOnlyFoldersOfDeadGatesAreSwept(t *testing.T) {
	temp, err := os.MkdirTemp("", "s") // short, since it holds sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(temp) })
	folder := func(name string, listening bool) string {
		t.Helper()
		dir := filepath.Join(temp, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false) // as where it is killed
		if listening {
			t.Cleanup(func() { _ = l.Close() })
		} else if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	folder("mcp-gate-1", false)
	folder("mcp-gate-2", true)
	folder("mcp-gate-try-3", false)
	folder("other-4", false)
	if err := os.WriteFile(filepath.Join(folder("mcp-gate-5", false), "more"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(folder("mcp-gate-6", false), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(temp, "mcp-gate-7"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(folder("dead", false), filepath.Join(temp, "mcp-gate-8")); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(folder("mcp-gate-10", false), 12345, -1); err != nil {
			t.Fatal(err)
		}
	}
	names := func() (names []string) {
		t.Helper()
		all, err := os.ReadDir(temp)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			names = append(names, f.Name())
		}
		return names
	}
	before, old := names(), time.Now().Add(-time.Hour)
	for _, name := range before {
		if err := os.Chtimes(filepath.Join(temp, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	folder("mcp-gate-9", false) // one that may be about to listen
	sweepSockets(temp)
	want := append(slices.DeleteFunc(before, func(name string) bool { return name == "mcp-gate-1" }), "mcp-gate-9")
	slices.Sort(want)
	if got := names(); !slices.Equal(got, want) {
		t.Errorf("left are %v, want %v", got, want)
	}
}
