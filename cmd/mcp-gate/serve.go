package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"

	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/gate"
	"github.com/mcp-gate/mcp-gate/policy"
	"github.com/mcp-gate/mcp-gate/transport"
	"github.com/spf13/cobra"
)

type serveFlags struct {
	http, client, profile, exposure, parent string
}

func (a *app) serveCommand() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:     "serve",
		Example: "  mcp-gate serve --client cursor --profile work",
		Short:   "Be the MCP server: over stdio, or over HTTP with --http",
		Long: `Serve MCP. Over stdio, which is how clients start it, the session is the person's
own: principal "local" (or local/NAME with --client NAME), scope admin.

With --http ADDR it listens for streamable HTTP on ADDR, on the loopback
interface unless ADDR says otherwise. Every request needs a bearer token. The
first one is made and printed once; mcp-gate token makes more. The path /mcp
is the default profile, /mcp/p/NAME another one.

With --parent ID the session works for another one, which mcp-gate status shows
while it lives: it has that one's principal, profile, exposure, tools and prefix,
takes what it spends off the same account, and may at no moment do more.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := parentSaid(c, f.parent); err != nil {
				return err
			}
			return a.serve(c.Context(), f)
		},
	}
	c.Flags().StringVar(&f.http, "http", "", "listen on this address, such as 127.0.0.1:8377, instead of stdio")
	c.Flags().StringVar(&f.client, "client", "", "name of the client, for principal, audit and questions")
	c.Flags().StringVar(&f.profile, "profile", "", "profile of the configuration to serve")
	c.Flags().StringVar(&f.exposure, "exposure", "", "meta, direct or transparent, instead of what the configuration says")
	c.Flags().StringVar(&f.parent, "parent", "", "session (s_...) that this one works for, as a sub-agent does")
	for _, own := range []string{"http", "client", "profile", "exposure"} {
		c.MarkFlagsMutuallyExclusive("parent", own)
	}
	return c
}

// parentSaid refuses a --parent without a value, such as a script's variable that
// is not set: what was to be held by another session would be held by none.
func parentSaid(c *cobra.Command, parent string) error {
	if c.Flags().Changed("parent") && parent == "" {
		return usage(errors.New("--parent is empty: name the session, or leave the flag out for a session that works for none"))
	}
	return nil
}

func (a *app) serve(ctx context.Context, f serveFlags) (err error) {
	exposure := gate.Exposure(f.exposure)
	switch exposure {
	case "", gate.Meta, gate.Direct, gate.Transparent:
	default:
		return usage(fmt.Errorf("unknown exposure %q: want one of meta, direct, transparent", f.exposure))
	}
	if f.client != "" {
		if err := callerName(f.client); err != nil {
			return fmt.Errorf("--client: %w", err)
		}
	}
	setGarbage(garbageAtStart)
	e, err := a.start(ctx, engineOptions{exposure: exposure, serving: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	if f.profile != "" {
		if _, ok := e.cfg.Profile(f.profile); !ok {
			return usage(fmt.Errorf("there is no profile %q in the configuration", f.profile))
		}
	}
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails, see crypto/rand
	server := transport.New(opener{e.gate}, key, transport.Options{Log: e.log})
	control, err := e.control(a)
	if err != nil {
		e.log.Warn("status and hooks will not reach this gate", "error", err)
	} else {
		defer control.Close()
	}
	if f.http != "" {
		return e.serveHTTP(ctx, a, server, f.http)
	}
	who := gate.Identity{Principal: "local", Scope: policy.ScopeAdmin, Profile: f.profile, Client: f.client, Conversation: a.conversation()}
	switch {
	case f.parent != "":
		who.Principal = "" // the parent's
		if who.Parent, err = sessionID(ctx, e.home, e.db, e.log, f.parent); err != nil {
			return usage(err)
		}
	case f.client != "":
		who.Principal += "/" + f.client
	}
	in, out, end := a.clientStreams()
	defer end()
	return ignoreEnd(server.ServeStdio(ctx, who, in, out))
}

// opener opens the gate's sessions for the transport.
type opener struct{ g *gate.Gate }

func (o opener) HasProfile(name string) bool { return o.g.HasProfile(name) }

func (o opener) Open(ctx context.Context, who gate.Identity) (transport.Session, error) {
	return o.g.Open(ctx, who)
}

func (e *engine) serveHTTP(ctx context.Context, a *app, server *transport.Server, addr string) error {
	if strings.HasPrefix(addr, ":") {
		addr = "127.0.0.1" + addr // never all interfaces by leaving something out
	}
	tokens, err := transport.OpenTokenFile(e.tokenPath(), e.log, nil, nil)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return usage(fmt.Errorf("%w: give --http another address", err))
	}
	if err := a.firstToken(tokens, e.aud.Record); err != nil { // after what can fail: it is shown once
		return errors.Join(err, listener.Close())
	}
	fmt.Fprintf(a.stderr, "mcp-gate: listening on http://%s/mcp\n", listener.Addr())
	k := &knocks{record: e.aud.Record, failed: func(err error) { e.log.Error("refused requests could not be written down", "error", err) }}
	defer k.flush()
	return ignoreEnd(server.HTTP(transport.HTTPOptions{Tokens: tokens, Unknown: k.refused}).Serve(ctx, listener))
}

// firstToken makes the first token of a home and prints it, this once.
func (a *app) firstToken(tokens *transport.TokenFile, record func(audit.Event) error) error {
	list, err := tokens.List()
	if err != nil || len(list) > 0 {
		return err
	}
	t := transport.Token{Principal: "local", Scope: policy.ScopeAdmin, Profiles: []string{"*"}}
	plain, id, err := tokens.Add(t)
	if err != nil {
		return err
	}
	t.ID = id
	if err := record(tokenNote("added", t)); err != nil {
		return errors.Join(err, tokens.Remove(id))
	}
	_, err = fmt.Fprintf(a.stderr, "mcp-gate: bearer token, shown this once (mcp-gate token add makes others):\n%s\n", plain)
	return err
}

func (e *engine) tokenPath() string { return filepath.Join(e.home.Keys(), "tokens.json") }
