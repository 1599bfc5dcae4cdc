package main

import (
	"context"
	"slices"
	"strings"

	"github.com/mcp-gate/mcp-gate/clients"
	"github.com/mcp-gate/mcp-gate/inbox"
	"github.com/spf13/cobra"
)

// completions tells the shell what may follow: words of what the home has on
// record. No server is started, and what cannot be read offers nothing.
func (a *app) completions(root *cobra.Command) {
	for path, words := range map[string]func(context.Context) []string{
		"call": a.toolWords, "tools show": a.toolWords, "policy explain": a.toolWords,
		"tools ls": a.serverWords, "auth login": a.serverWords, "auth logout": a.serverWords,
		"token rm":   a.tokenWords,
		"inbox show": a.ticketWords, "inbox approve": a.ticketWords, "inbox deny": a.ticketWords, "inbox settle": a.ticketWords,
	} {
		if c, _, err := root.Find(strings.Fields(path)); err == nil {
			c.ValidArgsFunction = first(words)
		}
	}
	if c, _, err := root.Find([]string{"import"}); err == nil {
		names := first(importable)
		c.ValidArgsFunction = func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			found, _ := names(c, args, typed)
			return found, cobra.ShellCompDirectiveDefault // a file may be named, too
		}
	}
	for path, flags := range map[string]map[string]func(context.Context) []string{
		"serve":    {"client": a.clientWords, "profile": a.profileWords},
		"tools ls": {"client": a.clientWords}, "tools show": {"client": a.clientWords},
		"grants add": {"tools": a.toolWords}, "grants simulate": {"tools": a.toolWords}, "audit tail": {"tool": a.toolWords},
	} {
		c, _, err := root.Find(strings.Fields(path))
		for flag, words := range flags {
			if err == nil && c.Flags().Lookup(flag) != nil {
				_ = c.RegisterFlagCompletionFunc(flag, first(words)) // fails only for a flag that is not there
			}
		}
	}
}

// first offers the words that go on with what is typed, each once on a line.
func first(words func(context.Context) []string) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		found := slices.DeleteFunc(words(c.Context()), func(w string) bool { return !strings.HasPrefix(w, typed) || slices.Contains(args, w) })
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

func (a *app) toolWords(context.Context) []string {
	g, err := a.offline()
	if err != nil {
		return nil
	}
	var words []string
	for _, e := range g.Tools().Entries() {
		words = append(words, inbox.DisplayLine(e.ID.String()))
	}
	return words
}

func (a *app) serverWords(context.Context) []string {
	_, cfg, _, err := a.load()
	if err != nil {
		return nil
	}
	var words []string
	for _, s := range cfg.Servers {
		words = append(words, s.Alias)
	}
	return words
}

func (a *app) clientWords(context.Context) []string {
	_, cfg, _, err := a.load()
	if err != nil {
		return nil
	}
	var words []string
	for _, c := range cfg.Clients {
		words = append(words, c.Name)
	}
	return words
}

func (a *app) ticketWords(ctx context.Context) (words []string) {
	_ = a.withDesk(ctx, func(ctx context.Context, d *desk) error { // none where it cannot be read
		tickets, err := d.list(ctx, openStates())
		for _, t := range tickets {
			words = append(words, shortID(t.ID))
		}
		return err
	})
	return words
}

func (a *app) profileWords(context.Context) []string {
	_, cfg, _, err := a.load()
	if err != nil {
		return nil
	}
	var words []string
	for _, p := range cfg.Profiles {
		words = append(words, p.Name)
	}
	return words
}

// tokenWords are ids, each with whom the token is for.
func (a *app) tokenWords(context.Context) []string {
	t, err := a.tokens()
	if err != nil {
		return nil
	}
	list, err := t.List()
	if err != nil {
		return nil
	}
	var words []string
	for _, tok := range list {
		words = append(words, tok.ID+"\t"+inbox.DisplayLine(tok.Principal))
	}
	return words
}

// importable are the clients whose files import finds by itself.
func importable(context.Context) []string {
	var words []string
	for _, c := range clients.All() {
		words = append(words, c.ID)
	}
	return words
}
