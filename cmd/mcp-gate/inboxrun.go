package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcp-gate/mcp-gate/gate"
	"github.com/spf13/cobra"
)

// inboxRunCommand is inbox run.
func (a *app) inboxRunCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Run what was allowed and whose own gate is gone",
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
	_, err = fmt.Fprintf(a.stdout, "%d calls taken up\n", ran)
	return err
}
