package main

import (
	"bytes"
	"context"
	"io"
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
