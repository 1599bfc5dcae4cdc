package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/config"
	"github.com/mcp-gate/mcp-gate/inbox"
	"github.com/mcp-gate/mcp-gate/internal/ids"
	"github.com/mcp-gate/mcp-gate/policy"
	"github.com/mcp-gate/mcp-gate/transport"
	"github.com/spf13/cobra"
)

func (a *app) tokenCommand() *cobra.Command {
	c := &cobra.Command{Use: "token", Short: "Bearer tokens for serve --http"}
	var scope, parent string
	var profiles []string
	add := &cobra.Command{
		Use: "add PRINCIPAL", Short: "Make a token and print it, this once",
		Example: "  mcp-gate token add ci --scope read",
		Long: `Make a token for PRINCIPAL, the name that stands in the audit log. Its scope says
what it may do at most: read, write (state that can be put back), bridge (the
same, for another application) or admin. It opens /mcp, and with --profiles the
paths /mcp/p/NAME of these profiles.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := parentSaid(c, parent); err != nil {
				return err
			}
			var s policy.Scope
			if err := s.UnmarshalText([]byte(scope)); err != nil {
				return usage(err)
			}
			of, err := a.parentOf(c.Context(), parent)
			if err != nil {
				return err
			}
			return a.tokenAdd(transport.Token{Principal: args[0], Scope: s, Profiles: profiles, Parent: of})
		},
	}
	add.Flags().StringVar(&scope, "scope", "read", "read, write, bridge or admin")
	add.Flags().StringSliceVar(&profiles, "profiles", nil, "profiles that the token may use, * for every one (default the default one)")
	add.Flags().StringVar(&parent, "parent", "", "session (s_...) that sessions with this token work for, as a sub-agent's do")
	c.AddCommand(add,
		&cobra.Command{
			Use: "ls", Short: "List the tokens, without their secrets", Args: cobra.NoArgs,
			Example: "  mcp-gate token ls",
			RunE:    func(*cobra.Command, []string) error { return a.tokenList() },
		},
		&cobra.Command{
			Use: "rm ID", Short: "Remove a token", Args: cobra.ExactArgs(1),
			Example: "  mcp-gate token rm k3v2p7aq",
			RunE: func(_ *cobra.Command, args []string) error {
				t, err := a.tokens()
				if err != nil {
					return err
				}
				if err := t.Remove(args[0]); err != nil {
					if unknown := (*transport.UnknownTokenError)(nil); errors.As(err, &unknown) {
						err = usage(fmt.Errorf("%w: mcp-gate token ls lists them", err))
					}
					return err
				}
				return a.recordToken(tokenNote("removed", transport.Token{ID: args[0]}))
			},
		})
	return c
}

// parentOf is the session that a token is for, "" for none. One whose id is whole
// may be known later: a session leaves its record once others need it.
func (a *app) parentOf(ctx context.Context, begins string) (_ string, err error) {
	if begins == "" {
		return "", nil
	}
	h, err := a.home()
	if err != nil {
		return "", err
	}
	if err := h.Ensure(); err != nil {
		return "", usage(err)
	}
	db := storeOf(h)
	defer func() { err = errors.Join(err, db.Close()) }()
	id, err := sessionID(ctx, h, db, slog.New(slog.DiscardHandler), begins)
	switch {
	case err == nil:
		return id, nil
	case errors.Is(err, errNoSession) && ids.Valid("s_", begins):
		fmt.Fprintf(a.stderr, "mcp-gate: %v; until a gate knows it, the token opens no session\n", err)
		return begins, nil
	}
	return "", usage(err)
}

func (a *app) recordToken(e audit.Event) error {
	h, err := a.home()
	if err != nil {
		return err
	}
	return recordOnce(h, e)
}

func (a *app) tokens() (*transport.TokenFile, error) {
	h, err := a.home()
	if err != nil {
		return nil, err
	}
	if err := h.Ensure(); err != nil {
		return nil, usage(err)
	}
	return transport.OpenTokenFile(filepath.Join(h.Keys(), "tokens.json"), nil, nil, nil)
}

func (a *app) tokenAdd(token transport.Token) error {
	if err := callerName(token.Principal); err != nil {
		return err
	}
	t, err := a.tokens()
	if err != nil {
		return err
	}
	plain, id, err := t.Add(token)
	if err != nil {
		return err
	}
	token.ID = id
	if err := a.recordToken(tokenNote("added", token)); err != nil {
		return errors.Join(err, t.Remove(id)) // a token that nobody can see came about is none
	}
	a.tellNoProfile(token.Profiles)
	if a.json {
		return a.print(map[string]string{"id": id, "token": plain})
	}
	_, err = fmt.Fprintln(a.stdout, plain)
	return err
}

// tellNoProfile names profiles of a token that the configuration does not have.
func (a *app) tellNoProfile(names []string) {
	_, cfg, _, err := a.load()
	if err != nil {
		return // the gate that would serve them says what is wrong
	}
	for _, name := range names {
		if name != "*" && !slices.ContainsFunc(cfg.Profiles, func(p config.Profile) bool { return p.Name == name }) {
			fmt.Fprintf(a.stderr, "mcp-gate: there is no profile %q in the configuration; until there is, the token does not open /mcp/p/%[1]s\n", inbox.DisplayLine(name))
		}
	}
}

func (a *app) tokenList() error {
	t, err := a.tokens()
	if err != nil {
		return err
	}
	list, err := t.List()
	if err != nil {
		return err
	}
	if a.json {
		return a.print(map[string]any{"tokens": list})
	}
	if len(list) == 0 {
		fmt.Fprintln(a.stderr, "mcp-gate: there is no token: mcp-gate token add PRINCIPAL makes one, and the first serve --http another")
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, tok := range list {
		fmt.Fprintf(w, "%s\t%s\t%v\t%s\t%s\n", tok.ID, tok.Principal, tok.Scope, strings.Join(tok.Profiles, ","), tok.Created.Format(time.DateOnly))
	}
	return w.Flush()
}
