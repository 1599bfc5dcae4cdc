package main

import (
	"fmt"
	"io"

	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/reader"
	"github.com/spf13/cobra"
)

// lineWorker turns lines into lines and counts those it could not read.
type lineWorker func(r io.Reader, w io.Writer) (bad int, err error)

// lines runs a worker over the standard streams.
func (a *app) lines(work lineWorker) error {
	bad, err := work(a.in(), a.stdout)
	if err == nil && bad > 0 {
		err = fmt.Errorf("%d lines could not be read: their place holds the error", bad)
	}
	return err
}

func (a *app) engagementCommand() *cobra.Command {
	c := &cobra.Command{Use: "engagement", Short: "Derive and combine engagements, a JSON value a line"}
	var slice bool
	derive := &cobra.Command{
		Use: "derive", Short: `Turn {"reading":{...},"authority":{...}} lines into engagements`,
		Example: "  mcp-gate engagement derive < readings.jsonl",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.lines(func(r io.Reader, w io.Writer) (int, error) { return engagement.DeriveLines(r, w, slice) })
		},
	}
	derive.Flags().BoolVar(&slice, "slice", true, "let the reading take domains away; false leaves the floor only")
	c.AddCommand(derive,
		&cobra.Command{
			Use: "meet", Short: "Turn arrays of engagements into their meets",
			Example: "  mcp-gate engagement meet < engagements.jsonl",
			Args:    cobra.NoArgs,
			RunE:    func(*cobra.Command, []string) error { return a.lines(engagement.MeetLines) },
		},
		&cobra.Command{
			Use: "compose", Short: "Turn arrays of engagements into their compositions",
			Example: "  mcp-gate engagement compose < engagements.jsonl",
			Args:    cobra.NoArgs,
			RunE:    func(*cobra.Command, []string) error { return a.lines(engagement.ComposeLines) },
		})
	return c
}

func (a *app) readCommand() *cobra.Command {
	var batch bool
	c := &cobra.Command{
		Use:     "read [TEXT]",
		Example: "  mcp-gate read 'delete the old branches'",
		Short:   "Read a request as the gate would: act, stakes, domains",
		Long: `Read the text of a request into a reading, by its words alone: no model, no
network, the same answer every time. With --batch read {"id":..,"text":..}
lines from standard input.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := reader.New()
			if err != nil {
				return err
			}
			if batch {
				return a.lines(r.ReadLines)
			}
			if len(args) == 0 {
				return usage(fmt.Errorf("read needs a TEXT, or --batch and lines on standard input"))
			}
			b, err := r.Read(args[0]).MarshalJSON()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.stdout, "%s\n", b)
			return err
		},
	}
	c.Flags().BoolVar(&batch, "batch", false, "read lines from standard input")
	return c
}
