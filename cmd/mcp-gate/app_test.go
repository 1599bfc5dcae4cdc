package main

import (
	"bytes"
	"context"
	"io"
	"runtime/debug"
	"strings"
	"testing"
)

// A command that waits for a line nobody types ends when it is told to.
func TestASignalEndsACommandThatReads(t *testing.T) {
	t.Setenv("MCP_GATE_HOME", t.TempDir())
	for _, args := range [][]string{
		{"engagement", "derive"}, {"read", "--batch"}, {"hook", "user-prompt-submit"}, {"call", "files/read_file", "-"},
	} {
		silent, input := io.Pipe()
		ctx, interrupt := context.WithCancel(context.Background())
		var out, errs bytes.Buffer
		code := make(chan int)
		go func() { code <- run(ctx, args, silent, &out, &errs) }()
		interrupt()
		if got := <-code; got == 0 && args[0] != "hook" {
			t.Errorf("%v: exit 0 after an interrupt", args)
		}
		if args[0] != "hook" && !strings.Contains(errs.String(), "interrupted") {
			t.Errorf("%v: said %q", args, errs.String())
		}
		input.Close()
	}
}

func TestInputPassesUnchangedUntilTheInterrupt(t *testing.T) {
	done := make(chan struct{})
	a := &app{stdin: strings.NewReader("one\ntwo\n"), interrupted: done}
	if got, err := io.ReadAll(a.in()); err != nil || string(got) != "one\ntwo\n" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestVersionSaysWhatWasBuilt(t *testing.T) {
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "024a1f7a95a290fb29ff8c46638147be9060e8fb"}
	modified := debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	for _, tt := range []struct {
		module   string
		settings []debug.BuildSetting
		want     string
	}{
		{"v1.2.3", nil, "v1.2.3"},
		{"v0.0.0-20261130083803-024a1f7a95a2+dirty", []debug.BuildSetting{revision, modified}, "v0.0.0-20261130083803-024a1f7a95a2+dirty"},
		{"(devel)", []debug.BuildSetting{revision}, "devel-024a1f7a95a2"},
		{"(devel)", []debug.BuildSetting{revision, modified}, "devel-024a1f7a95a2+dirty"},
		{"(devel)", nil, "devel"},
	} {
		info := &debug.BuildInfo{Main: debug.Module{Version: tt.module}, Settings: tt.settings}
		if got := versionOf(info); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.module, got, tt.want)
		}
	}
}
