package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcp-gate/mcp-gate/gate"
	"github.com/mcp-gate/mcp-gate/inbox"
	"github.com/spf13/cobra"
)

// inboxRunCommand is inbox run.
func (a *app) inboxRunCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "run",
		Example: "  mcp-gate inbox run",
		Short:   "Run what was allowed and whose own gate is gone",
		Long: `Run the calls that people allowed and that nobody has run: the gate that admitted
them runs them while it lives, and any other gate of this home that starts the
server in the same way after it. This command is for when none does. Each call
runs at most once.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.inboxRun(c.Context()) },
	}
}

func (a *app) inboxRun(ctx context.Context) (err error) {
	e, err := a.startSettled(ctx, engineOptions{exposure: gate.Meta, person: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	ran := e.gate.RunAllowed(ctx)
	if a.json {
		return a.print(map[string]int{"taken_up": ran})
	}
	fmt.Fprintf(a.stdout, "%s run\n", many(ran, "call"))
	return a.withDesk(ctx, a.showLeft)
}

// showLeft says who runs the calls that are allowed and were not run here, and
// how many wait for an answer.
func (a *app) showLeft(ctx context.Context, d *desk) error {
	allowed, err := d.list(ctx, []inbox.State{inbox.Approved})
	if err != nil {
		return err
	}
	for _, t := range allowed {
		fmt.Fprintf(a.stdout, "%s is allowed and was not run here: %s\n", shortID(t.ID), d.whoRuns(ctx, t))
	}
	pending, err := d.list(ctx, []inbox.State{inbox.Pending})
	if err == nil && len(pending) > 0 {
		fmt.Fprintf(a.stdout, "for your answer: %s, see mcp-gate inbox\n", many(len(pending), "call"))
	}
	return err
}
