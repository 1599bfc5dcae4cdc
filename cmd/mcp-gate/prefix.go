package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/gate"
	"github.com/mcp-gate/mcp-gate/policy"
	"github.com/mcp-gate/mcp-gate/prefix"
)

type prefixFlags struct {
	form, diff, profile string
	fingerprint, tokens bool
}

func (a *app) prefixCommand() *cobra.Command {
	var f prefixFlags
	c := &cobra.Command{
		Use:     "prefix",
		Example: "  mcp-gate prefix --diff prefix-of-yesterday.txt",
		Short:   "Print the bytes that a conversation begins with: rules and tool catalogue",
		Long: `Print identity, rules and the catalogue of tools as one text whose bytes stay the
same as long as build, configuration and accepted definitions do, so that a prompt
cache pays. --diff OLD says what changed since an earlier print, and which server
changed it; exit code 3 if anything did.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.prefix(c.Context(), f) },
	}
	c.Flags().StringVar(&f.form, "form", "", "anthropic, openai or plain (default prefix.form of the configuration, else plain)")
	c.Flags().StringVar(&f.diff, "diff", "", "file with an earlier prefix, in any form")
	c.Flags().StringVar(&f.profile, "profile", "", "profile of the session")
	c.Flags().BoolVar(&f.fingerprint, "fingerprint", false, "print only the fingerprint (xxhash64 of the plain form)")
	c.Flags().BoolVar(&f.tokens, "tokens", false, "print only the estimated number of tokens, and what direct exposure would cost")
	return c
}

func (a *app) prefix(ctx context.Context, f prefixFlags) (err error) {
	var form prefix.Form
	if f.form != "" {
		if err := form.UnmarshalText([]byte(f.form)); err != nil {
			return usage(err)
		}
	}
	e, err := a.start(ctx, engineOptions{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	if err := e.firstSight(ctx); err != nil {
		return err
	}
	s, err := e.gate.Open(ctx, gate.Identity{Principal: "local", Scope: policy.ScopeAdmin, Profile: f.profile})
	if err != nil {
		return usage(err)
	}
	defer s.Close()
	if form == 0 {
		form = e.cfg.Prefix.Form
	}
	p := s.Prefix()
	switch {
	case f.diff != "":
		return a.prefixDiff(f.diff, p)
	case a.json && (f.fingerprint || form == prefix.Plain && !f.tokens): // the other forms are JSON as they are
		doc := map[string]string{"fingerprint": p.Fingerprint()}
		if !f.fingerprint {
			doc["form"], doc["text"] = form.String(), p.Plain()
		}
		return a.print(doc)
	case f.fingerprint:
		_, err = fmt.Fprintln(a.stdout, p.Fingerprint())
		return err
	case f.tokens:
		return a.prefixTokens(e, p)
	}
	b, err := p.Encode(form)
	if err != nil {
		return err
	}
	_, err = a.stdout.Write(b)
	return err
}

// firstSight waits for servers of which nothing is on record yet; the others
// need not be up.
func (e *engine) firstSight(ctx context.Context) error {
	var unknown []string
	known := e.gate.Tools().Entries()
	for _, s := range e.cfg.Servers {
		if !slices.ContainsFunc(known, func(t entry) bool { return t.ID.Server == s.Alias }) {
			unknown = append(unknown, s.Alias)
		}
	}
	if unknown == nil {
		return nil
	}
	return e.pool.Settled(ctx, unknown...)
}

func (a *app) prefixDiff(file string, now prefix.Prefix) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return usage(err)
	}
	was, err := prefix.Parse(raw)
	if err != nil {
		return usage(fmt.Errorf("%s is no prefix: %w", file, err))
	}
	changes := prefix.Diff(was, now)
	if a.json {
		err = a.print(map[string]any{"was": was.Fingerprint(), "now": now.Fingerprint(), "changes": changes})
	} else {
		for _, c := range changes {
			fmt.Fprintln(a.stdout, c)
		}
	}
	if err == nil && len(changes) > 0 {
		return &exitError{3, nil}
	}
	return err
}

func (a *app) prefixTokens(e *engine, p prefix.Prefix) error {
	direct := 0
	for _, t := range e.gate.Tools().Entries() {
		direct += catalog.EstimateTokens(t.Raw)
	}
	gated := catalog.EstimateTokens([]byte(p.Plain()))
	if a.json {
		return a.print(map[string]any{"prefix_tokens": gated, "direct_tokens": direct, "estimate": true})
	}
	_, err := fmt.Fprintf(a.stdout, "prefix  about %d tokens\ndirect  about %d tokens (all definitions)\nestimates\n", gated, direct)
	return err
}
