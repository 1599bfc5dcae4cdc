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
	var n int
	var follow bool
	var tool string
	tail := &cobra.Command{
		Use: "tail", Short: "Show the last events of all gates of this home",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.auditTail(c.Context(), n, follow, tool) },
	}
	tail.Flags().IntVarP(&n, "lines", "n", 20, "how many events")
	tail.Flags().BoolVarP(&follow, "follow", "f", false, "go on with new events as they are written")
	tail.Flags().StringVar(&tool, "tool", "", "only events of this tool (server/tool)")
	c.AddCommand(tail, &cobra.Command{
		Use: "verify", Short: "Check that nothing in the audit log was changed",
		Long: `Check the hash chain of every log file of this home, and that every call that
was begun has an outcome. Exit code 3 if something was changed. What cannot be
found out this way is said in docs/audit.md.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.auditVerify() },
	})
	return c
}

func (a *app) auditTail(ctx context.Context, n int, follow bool, tool string) error {
	h, err := a.home()
	if err != nil {
		return err
	}
	f := audit.NewFollower(os.DirFS(h.Audit()), func(e audit.Event) bool { return tool == "" || e.Tool == tool })
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
	return strings.Join(parts, "  ")
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
		if err := a.print(report); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(a.stdout, "%d files, %d events\n", len(report.Files), report.Events)
		for _, d := range report.Dangling {
			fmt.Fprintf(a.stdout, "begun and never ended: %s\n", inbox.DisplayLine(fmt.Sprintf("%+v", d)))
		}
	}
	for _, d := range report.Damages() {
		fmt.Fprintf(a.stderr, "mcp-gate: %s\n", inbox.DisplayLine(fmt.Sprint(d)))
	}
	if !report.OK() {
		return &exitError{3, nil}
	}
	if !a.json {
		fmt.Fprintln(a.stdout, "nothing was changed, as far as a chain can tell")
	}
	return nil
}
