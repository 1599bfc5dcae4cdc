// Command mcp-gate is one MCP server in front of all the others a person has.
//
// It joins the packages: it reads flags, the environment and the
// configuration, builds what the packages are handed, and prints. It decides
// nothing about a call.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes, as documented in --help.
const (
	exitFailed  = 1
	exitUsage   = 2
	exitSignIn  = 4
	exitRefused = 5
	exitWaits   = 6
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal does not wait for an orderly end
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole command: it reads nothing but what it is handed and the
// environment, and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, env: os.LookupEnv, environ: os.Environ()}
	a.env, a.interrupted = a.withSecrets(os.LookupEnv), ctx.Done()
	root := a.command()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	var e *exitError
	if !errors.As(err, &e) {
		e = &exitError{exitFailed, err}
	}
	if ctx.Err() != nil && errors.Is(e.err, context.Canceled) {
		e.err = errors.New("interrupted")
	}
	try := ""
	if e.err != nil {
		try = hint(e.err)
	}
	if needed := a.needed.Load(); needed != nil && e.code == exitFailed {
		e.code, try = exitSignIn, "mcp-gate auth login "+needed.Alias
	}
	if a.json || slices.Contains(args, "--json") { // which a wrong flag before it keeps from being read
		reportJSON(stderr, e, try)
	} else {
		report(stderr, e.err, try)
	}
	return e.code
}

// exitError ends the command with a code. A nil err was already reported.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return fmt.Sprint(e.err) }
func (e *exitError) Unwrap() error { return e.err }

// usage marks an error as one of usage or configuration.
func usage(err error) error { return &exitError{exitUsage, err} }

// version is the module's version, or the revision it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return versionOf(info)
}

// versionOf is what go install and a build in a checkout know. A build without
// version control, such as of a test, knows nothing.
func versionOf(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	v := "devel"
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			v += "-" + s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true": // comes after the revision
			v += "+dirty"
		}
	}
	return v
}

const about = `mcp-gate stands between an AI client and all the tool servers you have.

The client gets a small toolbox whose bytes never move. Every call takes one
road: it is looked up, judged by your policy, and then run, put to you, or
refused with a sentence that helps. Everything is written down.

  mcp-gate try                  see it work, with nothing to configure
  mcp-gate serve                be the MCP server (what a client starts)
  mcp-gate tools ls             what is behind the gate, and what it may do

Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 drift found,
4 sign-in needed, 5 refused by policy, 6 waiting for a person.`

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:           "mcp-gate",
		Short:         "One MCP server in front of all the others",
		Long:          about,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          knownCommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		text, _, _ := strings.Cut(err.Error(), ": strconv.") // which says in Go's words what is said already
		return usage(fmt.Errorf("%s: see %s --help", text, c.CommandPath()))
	})
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		fmt.Fprintf(c.OutOrStdout(), "%s.\n\n", c.Short)
		if c.Long != "" {
			fmt.Fprintf(c.OutOrStdout(), "%s\n\n", strings.TrimSpace(c.Long))
		}
		fmt.Fprint(c.OutOrStdout(), c.UsageString())
	})
	flags := root.PersistentFlags()
	flags.StringVar(&a.homeFlag, "home", "", "folder with configuration and state (default $MCP_GATE_HOME, else mcp-gate in your configuration folder)")
	flags.BoolVar(&a.json, "json", false, "print one JSON document; an error is the last line of standard error, as JSON")
	flags.Func("log-level", "debug, info, warn or error (default from the configuration)", a.setLogLevel)
	root.AddCommand(
		a.serveCommand(), a.tryCommand(), a.callCommand(), a.toolsCommand(), a.statusCommand(),
		a.engagementCommand(), a.readCommand(), a.hookCommand(), a.policyCommand(), a.reviewCommand(), a.artifactsCommand(), a.acceptCommand(), a.prefixCommand(),
		a.inboxCommand(), a.approverCommand(), a.grantsCommand(),
		a.authCommand(), a.importCommand(),
		a.auditCommand(), a.tokenCommand(), a.sampleCommand(), a.schemaCommand(), a.versionCommand(),
	)
	a.completions(root)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Args = func(_ *cobra.Command, args []string) error { // else a wrong word shows the help of all
			if c, rest, err := root.Find(args); err != nil || c.HasSubCommands() {
				return knownCommand(c, rest)
			}
			return nil
		}
	}
	markUsage(root)
	return root
}

// atLeast is the value of a flag that says how many of something.
type atLeast struct {
	n     *int
	least int
}

func (f atLeast) Type() string   { return "int" }
func (f atLeast) String() string { return strconv.Itoa(*f.n) }
func (f atLeast) Set(text string) error {
	v, err := strconv.Atoi(text)
	if err != nil || v < f.least {
		return fmt.Errorf("want a whole number, %d or more", f.least)
	}
	*f.n = v
	return nil
}

// knownCommand refuses a word that is no command, with the nearest one.
func knownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	c.SuggestionsMinimumDistance = 2
	near := c.SuggestionsFor(args[0])
	slices.SortStableFunc(near, func(x, y string) int { // what begins so comes first
		return cmp.Compare(strings.Index(y, args[0]), strings.Index(x, args[0]))
	})
	if len(near) > 0 {
		return fmt.Errorf("unknown command %q: did you mean %q?", args[0], near[0])
	}
	return fmt.Errorf("unknown command %q", args[0])
}

// markUsage makes wrong arguments of every command count as usage.
func markUsage(c *cobra.Command) {
	if c.HasSubCommands() { // a group: a wrong word is a fault
		c.Args = knownCommand
		if !c.Runnable() {
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		}
	}
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				if text := err.Error(); strings.Contains(text, "arg(s)") || strings.Contains(text, `" for "`) { // which does not say what is wanted
					err = fmt.Errorf("%s where %q is wanted", many(len(args), "argument"), strings.TrimSuffix(c.UseLine(), " [flags]"))
				}
				return usage(fmt.Errorf("%w: see %s --help", err, c.CommandPath()))
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		markUsage(sub)
	}
}
