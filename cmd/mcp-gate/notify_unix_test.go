//go:build unix

package main

import (
	"os"
	"testing"

	"github.com/mcp-gate/mcp-gate/engagement"
)

func TestDesktopRunsItsCommand(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\nprintf '%s\\n' \"$@\" >" + dir + "/told\n"
	if err := os.WriteFile(dir+"/notify-send", []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	d, err := newDesktop("linux", func(name string) (string, error) { return dir + "/" + name, nil })
	if err != nil {
		t.Fatal(err)
	}
	q := ticket("a", "<b>x</b>", engagement.Destructive, `{"path":"secret.txt"}`)
	if err := d.tell(t.Context(), noticeOf(q)); err != nil {
		t.Fatal(err)
	}
	told, err := os.ReadFile(dir + "/told")
	if err != nil {
		t.Fatal(err)
	}
	want := "--app-name=mcp-gate\n--\nmcp-gate\ndestructive: files/‹b›x‹/b› waits for a person ()\n"
	if string(told) != want {
		t.Errorf("told %q, want %q", told, want)
	}
}
