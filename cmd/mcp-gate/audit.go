package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/inbox"
	"github.com/spf13/cobra"
)

func (a *app) auditCommand() *cobra.Command {
	c := &cobra.Command{Use: "audit", Short: "Read and verify the audit log"}
	n := 20
	var follow, calls bool
	var tool string
	tail := &cobra.Command{
		Use: "tail", Short: "Show the last events of all gates of this home",
		Example: "  mcp-gate audit tail --calls --follow",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.auditTail(c.Context(), n, follow, wanted(tool, calls))
		},
	}
	tail.Flags().VarP(atLeast{&n, 0}, "lines", "n", "how many events")
	tail.Flags().BoolVarP(&follow, "follow", "f", false, "go on with new events as they are written")
	tail.Flags().BoolVar(&calls, "calls", false, "only events of calls: not of processes, sessions, keys or tokens")
	tail.Flags().StringVar(&tool, "tool", "", "only events of this tool (server/tool)")
	c.AddCommand(tail, &cobra.Command{
		Use: "verify", Short: "Check that nothing in the audit log was changed",
		Example: "  mcp-gate audit verify",
		Long: `Check the hash chain of every log file of this home, and that every call that
was begun has an outcome. Exit code 3 if something was changed. What cannot be
found out this way is said in docs/audit.md.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.auditVerify() },
	})
	return c
}

// wanted picks events: of one tool where it is named, of calls where only they are
// asked for.
func wanted(tool string, calls bool) func(audit.Event) bool {
	return func(e audit.Event) bool {
		return (tool == "" || e.Tool == tool) && (!calls || e.Tool != "" && e.Kind != audit.Note)
	}
}

func (a *app) auditTail(ctx context.Context, n int, follow bool, want func(audit.Event) bool) error {
	h, err := a.home()
	if err != nil {
		return err
	}
	f := audit.NewFollower(os.DirFS(h.Audit()), want)
	records, err := f.Last(n)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("there is no audit log in %s yet: nothing has run", h.Dir)
	}
	for {
		if err != nil {
			return err
		}
		for _, r := range records {
			a.showRecord(r)
		}
		if !follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(300 * time.Millisecond):
		}
		records, err = f.Next()
	}
}

func (a *app) showRecord(r audit.Record) {
	if a.json {
		fmt.Fprintf(a.stdout, "%s\n", r.Raw)
		return
	}
	fmt.Fprintln(a.stdout, inbox.DisplayLine(eventLine(r.Event)))
}

// eventLine is an event in one line for a person.
func eventLine(e audit.Event) string {
	parts := []string{e.Time.Local().Format("15:04:05.000"), fmt.Sprintf("%-8s", e.Kind)}
	add := func(format string, v any, on bool) {
		if on {
			parts = append(parts, fmt.Sprintf(format, v))
		}
	}
	add("%s", e.Tool, e.Tool != "")
	add("%s", e.Class, e.Class != "")
	add("%s", e.Verdict, e.Verdict != "")
	add("[%s]", e.Code, e.Code != "")
	add("%s", e.Outcome, e.Outcome != "")
	add("error %s", e.ErrorCode, e.ErrorCode != "")
	add("%s", e.Duration.Round(100*time.Microsecond), e.Duration > 0)
	add("%d bytes", e.ResultSize, e.ResultSize > 0)
	add("by %s", e.Rule, e.Rule != "" && e.Verdict != "")
	add("(%s)", e.Note, e.Note != "")
	return strings.TrimRight(strings.Join(parts, "  "), " ")
}

func (a *app) auditVerify() error {
	h, err := a.home()
	if err != nil {
		return err
	}
	if _, err := os.Stat(h.Audit()); err != nil {
		return fmt.Errorf("there is no audit log in %s yet: nothing has run", h.Dir)
	}
	report, err := audit.Verify(os.DirFS(h.Audit()), audit.VerifyOptions{})
	if err != nil {
		return err
	}
	if a.json {
		err = a.print(report)
	} else {
		a.showReport(report)
	}
	if err == nil && !report.OK() {
		return &exitError{3, nil}
	}
	return err
}

// showReport says in a line what was looked at and whether it is whole, and on
// further lines what else there is to tell.
func (a *app) showReport(report audit.Report) {
	found, faults := "nothing was changed, as far as a chain can tell", report.Damages()
	if len(faults) > 0 {
		found = "first fault " + inbox.DisplayLine(faults[0].String())
	}
	fmt.Fprintf(a.stdout, "%s, %s: %s\n", many(len(report.Files), "file"), many(report.Events, "event"), found)
	for _, d := range faults[min(1, len(faults)):] {
		fmt.Fprintf(a.stdout, "also %s\n", inbox.DisplayLine(d.String()))
	}
	for _, d := range report.Dangling {
		fmt.Fprintln(a.stdout, inbox.DisplayLine(fmt.Sprintf("begun and never ended: %s:%d: %s at %s", d.File, d.Line, d.Event.Tool, d.Event.Time.Local().Format(time.DateTime))))
	}
}
