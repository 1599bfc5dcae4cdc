package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/mcp-gate/mcp-gate/internal/fakemcp"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"fake-mcp": func() { os.Exit(fakemcp.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
		"mcp-gate": func() { os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// TestScripts runs the binary as a person does, with a home of its own and the
// sample servers behind it.
func TestScripts(t *testing.T) { runScripts(t, "../../testdata/script") }

func runScripts(t *testing.T, dir string) {
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(e *testscript.Env) error {
			e.Setenv("MCP_GATE_HOME", e.WorkDir+"/home")
			e.Setenv("HOME", e.WorkDir)
			return os.MkdirAll(e.WorkDir+"/home", 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, // exits CODE COMMAND ...
		},
	})
}

// exits runs a command and checks its exit code, which exec cannot.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	code := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		code = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v: %v", args[1:], err)
	}
	if code != want {
		ts.Fatalf("%v: exit %d, want %d", args[1:], code, want)
	}
}
