package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mcp-gate/mcp-gate/checkpoint"
	"github.com/mcp-gate/mcp-gate/gate"
	"github.com/mcp-gate/mcp-gate/inbox"
	"github.com/mcp-gate/mcp-gate/policy"
	"github.com/spf13/cobra"
)

func (a *app) reviewCommand() *cobra.Command {
	n := 20
	ls := &cobra.Command{
		Use: "ls", Short: "List what ran with a way back, newest first", Args: cobra.NoArgs,
		Example: "  mcp-gate review ls",
		RunE:    func(c *cobra.Command, _ []string) error { return a.reviewList(c.Context(), n) },
	}
	ls.Flags().VarP(atLeast{&n, 1}, "lines", "n", "how many entries")
	c := &cobra.Command{Use: "review", Short: "What calls changed without being asked about, and the way back", RunE: ls.RunE, Args: cobra.NoArgs}
	c.AddCommand(ls,
		&cobra.Command{
			Use: "show ID", Short: "Show what a call changed", Args: cobra.ExactArgs(1),
			Example: "  mcp-gate review show k3v",
			RunE:    func(c *cobra.Command, args []string) error { return a.reviewShow(c.Context(), args[0]) },
		},
		&cobra.Command{
			Use: "undo ID", Short: "Put back what a call changed, unless somebody has changed it since",
			Example: "  mcp-gate review undo k3v",
			Long: `Put back the files that a call changed: bytes, permission bits and absence. It
refuses, and touches nothing, when a file is no longer what the call left. Where
the owner declared an inverse, that call is made instead; it is judged like any.`,
			Args: cobra.ExactArgs(1),
			RunE: func(c *cobra.Command, args []string) error { return a.reviewUndo(c.Context(), args[0]) },
		})
	return c
}

// entry finds the one journal entry whose id begins with prefix.
func (d *desk) entry(ctx context.Context, prefix string) (checkpoint.Entry, error) {
	if prefix == "" {
		return checkpoint.Entry{}, usage(errors.New("no journal entry is named: mcp-gate review ls lists them"))
	}
	found, err := d.store.Entries(ctx, "", prefix, 2)
	switch {
	case err != nil:
		return checkpoint.Entry{}, err
	case len(found) == 0:
		return checkpoint.Entry{}, usage(fmt.Errorf("there is no journal entry %q: mcp-gate review ls lists them", prefix))
	case len(found) > 1:
		return checkpoint.Entry{}, usage(fmt.Errorf("several journal entries begin with %q: give more of the id", prefix))
	}
	return found[0], nil
}

func (a *app) reviewList(ctx context.Context, n int) (err error) {
	d, err := a.openDesk()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	entries, err := d.store.Entries(ctx, "", "", n)
	if err != nil {
		return err
	}
	if a.json {
		if entries == nil {
			entries = []checkpoint.Entry{}
		}
		return a.print(map[string]any{"entries": entries})
	}
	if len(entries) == 0 {
		_, err := fmt.Fprintln(a.stdout, "nothing ran in review yet: no session had that mode, or no write of it had a way back; docs/approval.md (In review) says how to turn it on")
		return err
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, e := range entries {
		var files []string
		for _, c := range e.Changes {
			files = append(files, inbox.DisplayLine(c.Path))
		}
		fmt.Fprintf(w, "%s\t%s\t%v\t%s\t%s\n", e.ID[:10], e.At.Local().Format(time.DateTime), e.State, e.Tool, strings.Join(files, ", "))
	}
	return w.Flush()
}

func (a *app) reviewShow(ctx context.Context, id string) (err error) {
	d, err := a.openDesk()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	e, err := d.entry(ctx, id)
	if err != nil {
		return err
	}
	if a.json {
		return a.print(e)
	}
	fmt.Fprintf(a.stdout, "entry    %s, %v\ntool     %s\nby       %s\nat       %s\n", e.ID, e.State, e.Tool, inbox.DisplayLine(e.Principal), e.At.Local().Format(time.DateTime))
	if e.Note != "" {
		fmt.Fprintf(a.stdout, "note     %s\n", inbox.DisplayLine(e.Note))
	}
	if e.Inverse != nil {
		fmt.Fprintf(a.stdout, "way back %s\n", inbox.DisplayLine(string(e.Inverse)))
	}
	for _, c := range e.Changes {
		fmt.Fprintf(a.stdout, "\n%s\n%s", inbox.DisplayLine(c.Path), inbox.Display(c.Diff))
	}
	return nil
}

func (a *app) reviewUndo(ctx context.Context, prefix string) (err error) {
	d, err := a.openDesk()
	if err != nil {
		return err
	}
	entry, err := d.entry(ctx, prefix)
	if err = errors.Join(err, d.Close()); err != nil {
		return err
	}
	server, _, _ := strings.Cut(entry.Tool, "/")
	e, err := a.start(ctx, engineOptions{only: server, exposure: gate.Meta, person: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	s, err := e.gate.Open(ctx, gate.Identity{Principal: "local", Scope: policy.ScopeAdmin, Client: "mcp-gate review"})
	if err != nil {
		return err
	}
	defer s.Close()
	asks, err := a.asks()
	if err != nil {
		return err
	}
	out, err := s.Undo(ctx, entry.ID, asks)
	if err != nil {
		return err
	}
	_, err = a.finish(ctx, e, s, out, gate.Request{CanAsk: true})
	return err
}
