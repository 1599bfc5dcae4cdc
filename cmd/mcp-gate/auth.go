package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/config"
	"github.com/mcp-gate/mcp-gate/signin"
	"github.com/mcp-gate/mcp-gate/upstream"
	"github.com/mcp-gate/mcp-gate/vault"
	"github.com/spf13/cobra"
)

// loginTime is how long a person has to sign in.
const loginTime = 10 * time.Minute

// noKeychainVar keeps the gate away from the operating system's keychain: the key
// of secrets is then a file of the home.
const noKeychainVar = "MCP_GATE_NO_KEYCHAIN"

func (a *app) authCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "auth", Short: "Sign in to servers that are reached over HTTP",
		Long: `Sign in to servers that are reached over HTTP and want it (OAuth). A token is kept
encrypted in the home and renewed by itself; it goes to the one server that it is
for. Servers with an Authorization header in the configuration need none of this.`,
	}
	var o loginOptions
	login := &cobra.Command{
		Use: "login SERVER", Short: "Sign in to a server with a browser",
		Example: "  mcp-gate auth login linear",
		Long: `Sign in to SERVER. The address to sign in at is printed, and opened where there is a
browser. The browser then comes back to a page on this machine. If it runs on
another one, copy the address that it ends at and paste it here.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.authLogin(c.Context(), args[0], o) },
	}
	login.Flags().BoolVar(&o.noBrowser, "no-browser", false, "only print the address")
	login.Flags().BoolVar(&o.paste, "paste", false, "read the address that the browser ended at from standard input, even if that is no terminal")
	login.Flags().StringSliceVar(&o.scopes, "scope", nil, "what to ask for, instead of what the server says")
	c.AddCommand(login,
		&cobra.Command{
			Use: "status [SERVER]", Short: "Say where the gate is signed in",
			Example: "  mcp-gate auth status",
			Long:    "Say where the gate is signed in. With SERVER the exit code is 4 where it is not.",
			Args:    cobra.MaximumNArgs(1),
			RunE:    func(_ *cobra.Command, args []string) error { return a.authStatus(args) },
		},
		&cobra.Command{
			Use: "logout SERVER", Short: "Give a server's token back and forget it", Args: cobra.ExactArgs(1),
			Example: "  mcp-gate auth logout linear",
			RunE:    func(c *cobra.Command, args []string) error { return a.authLogout(c.Context(), args[0]) },
		})
	return c
}

type loginOptions struct {
	noBrowser, paste bool
	scopes           []string
}

// vault holds the secrets of a home. Nothing is made before one is kept.
func (a *app) vault(home config.Home) *vault.Vault {
	o := vault.Options{Dir: home.Keys(), Keychain: vault.OSKeychain{}}
	if _, off := a.env(noKeychainVar); off {
		o.Keychain = nil
	}
	return vault.Open(o)
}

// withSecrets answers for ${secret:NAME} out of the home's vault, and for all
// else out of the environment.
func (a *app) withSecrets(env config.Env) config.Env {
	var once sync.Once
	var held *vault.Vault
	return func(name string) (string, bool) {
		id, ok := strings.CutPrefix(name, config.SecretPrefix)
		if !ok {
			return env(name)
		}
		once.Do(func() {
			if home, err := a.home(); err == nil {
				held = a.vault(home)
			}
		})
		if held == nil {
			return "", false
		}
		secret, err := held.Get(secretName(id))
		if err != nil && !errors.Is(err, vault.ErrNotFound) {
			fmt.Fprintf(a.stderr, "mcp-gate: %v\n", err)
		}
		return string(secret), err == nil
	}
}

// secretName is where the secret ${secret:ID} is kept.
func secretName(id string) string { return "secret/" + id }

// signins signs in to the servers of a home.
func (a *app) signins(home config.Home) *signin.Client {
	return signin.New(signin.Options{Vault: a.vault(home), Now: time.Now, Random: rand.Reader, Proxy: http.ProxyFromEnvironment, Name: "mcp-gate"})
}

// authorizer gives the Authorization header of a server's requests, as
// upstream.Server takes it; nil where the owner gave one, or none can be.
func (a *app) authorizer(c *signin.Client, s config.Server) func(ctx context.Context, challenge string) (string, error) {
	if signsInItself(s) != nil {
		return nil
	}
	session := c.Session(signinServer(s))
	return func(ctx context.Context, challenge string) (string, error) {
		header, err := session.Authorize(ctx, challenge, upstream.RefusedAuthorization(ctx))
		if needed := (*signin.NeededError)(nil); errors.As(err, &needed) {
			a.needed.CompareAndSwap(nil, needed)
		}
		return header, err
	}
}

func signinServer(s config.Server) signin.Server {
	out := signin.Server{Alias: s.Alias, URL: s.Launch.URL}
	if s.Auth != nil {
		out.ClientID, out.ClientSecret, out.Scopes = s.Auth.ClientID, s.Auth.ClientSecret, s.Auth.Scopes
	}
	return out
}

// signsInItself says why the gate does not sign in to a server, or nil.
func signsInItself(s config.Server) error {
	if s.Transport == config.TransportStdio {
		return fmt.Errorf("server %s is a program: it signs in by itself, or with what is in its env", s.Alias)
	}
	for name := range s.Launch.Headers {
		if strings.EqualFold(name, "Authorization") {
			return fmt.Errorf("server %s has an Authorization header in the configuration: take it out to sign in", s.Alias)
		}
	}
	return nil
}

// signinTarget finds a server to sign in to.
func (a *app) signinTarget(name string) (*signin.Client, signin.Server, error) {
	home, cfg, _, err := a.load()
	if err != nil {
		return nil, signin.Server{}, err
	}
	alias := catalog.Alias(name)
	if err := noServer(cfg, alias); err != nil {
		return nil, signin.Server{}, err
	}
	s, _ := cfg.Server(alias)
	if err := signsInItself(s); err != nil {
		return nil, signin.Server{}, usage(err)
	}
	return a.signins(home), signinServer(s), nil
}

func (a *app) authLogin(ctx context.Context, name string, o loginOptions) error {
	client, server, err := a.signinTarget(name)
	if err != nil {
		return err
	}
	home, err := a.home()
	if err != nil {
		return err
	}
	if err := home.Ensure(); err != nil {
		return err
	}
	if o.scopes != nil {
		server.Scopes = o.scopes
	}
	ctx, cancel := context.WithTimeoutCause(ctx, loginTime, fmt.Errorf("no answer within %v", loginTime))
	defer cancel()
	st, err := client.Login(ctx, server, &browser{a: a, o: o})
	if err != nil {
		return &exitError{exitSignIn, err}
	}
	if a.json {
		return a.print(st)
	}
	_, err = fmt.Fprintf(a.stdout, "Signed in to %s at %s. %s.\n", st.Server, st.Issuer, lasts(st))
	return err
}

// lasts says for how long a sign-in holds.
func lasts(st signin.Status) string {
	switch {
	case st.Renews:
		return "It is renewed by itself"
	case st.Expires.IsZero():
		return "It holds until the server ends it"
	}
	return "It holds until " + st.Expires.Local().Format(time.DateTime)
}

// browser is the person at this terminal.
type browser struct {
	a *app
	o loginOptions
}

// Visit prints the address, and opens it where there is a desktop to open it on.
func (b *browser) Visit(address string) {
	fmt.Fprintf(b.a.stderr, "Sign in here:\n\n  %s\n\n", address)
	if b.o.noBrowser || b.a.headless() {
		fmt.Fprintln(b.a.stderr, "If the browser is on another machine, paste the address here that it ends at.")
		return
	}
	words, err := signin.Browser(runtime.GOOS, address)
	if err != nil {
		return // it is printed, which is all that can be done with it
	}
	cmd := exec.Command(words[0], words[1:]...)
	if cmd.Start() == nil {
		go func() { _ = cmd.Wait() }() // whether it found a browser cannot be told
	}
}

// headless reports whether there is no desktop to open a browser on.
func (a *app) headless() bool {
	has := func(name string) bool { v, _ := a.env(name); return v != "" }
	if has("SSH_CONNECTION") || has("CI") || !isTerminal(a.stderr) {
		return true
	}
	return runtime.GOOS != "darwin" && runtime.GOOS != "windows" && !has("DISPLAY") && !has("WAYLAND_DISPLAY")
}

// Pasted reads lines until the input ends. The reader stays behind where nothing
// is typed, and ends with the process.
func (b *browser) Pasted(ctx context.Context) <-chan string {
	if !b.o.paste && !isTerminal(b.a.stdin) {
		return nil
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		in := bufio.NewScanner(io.LimitReader(b.a.stdin, 1<<20))
		for in.Scan() {
			select {
			case lines <- in.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return lines
}

func (a *app) authStatus(args []string) error {
	home, cfg, _, err := a.load()
	if err != nil {
		return err
	}
	if len(args) == 1 {
		if _, _, err := a.signinTarget(args[0]); err != nil {
			return err
		}
	}
	client, held := a.signins(home), a.vault(home)
	all := []signin.Status{}
	for _, s := range cfg.Servers {
		if signsInItself(s) != nil || len(args) == 1 && s.Alias != catalog.Alias(args[0]) {
			continue
		}
		st, err := client.Status(signinServer(s))
		if err != nil {
			return err
		}
		all = append(all, st)
	}
	if len(args) == 0 {
		if all, err = withLeftovers(all, held); err != nil {
			return err
		}
	}
	if err := a.showSignins(all, held.Where()); err != nil {
		return err
	}
	if len(args) == 1 && !all[0].SignedIn {
		return &exitError{exitSignIn, &signin.NeededError{Alias: all[0].Server, Why: "not signed in"}}
	}
	return nil
}

// withLeftovers adds what is kept for servers that are no longer configured.
func withLeftovers(all []signin.Status, held *vault.Vault) ([]signin.Status, error) {
	names, err := held.List("signin")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		alias := strings.TrimPrefix(name, "signin/")
		if !slices.ContainsFunc(all, func(s signin.Status) bool { return s.Server == alias }) {
			all = append(all, signin.Status{Server: alias, Note: "kept for a server that is not configured: mcp-gate auth logout " + alias})
		}
	}
	return all, nil
}

func (a *app) showSignins(all []signin.Status, where string) error {
	if a.json {
		return a.print(map[string]any{"schema": "mcp-gate/auth/v1", "sign_ins": all, "key": where})
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(a.stdout, "No server is configured that the gate could sign in to.")
		return err
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, st := range all {
		state := "not signed in"
		detail := "mcp-gate auth login " + st.Server + ", if it wants it"
		switch {
		case st.SignedIn:
			state, detail = "signed in", lasts(st)+" ("+st.Issuer+")"
		case st.Note != "":
			detail = st.Note
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", st.Server, state, detail)
	}
	return w.Flush()
}

// authLogout works for a server that is no longer configured too.
func (a *app) authLogout(ctx context.Context, name string) error {
	client, server, err := a.signinTarget(name)
	if err != nil {
		home, homeErr := a.home()
		if homeErr != nil {
			return homeErr
		}
		client, server = a.signins(home), signin.Server{Alias: catalog.Alias(name)}
		if a.vault(home).Stamp("signin/" + server.Alias).IsZero() {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	had, err := client.Logout(ctx, server)
	switch {
	case !had && err == nil:
		_, err = fmt.Fprintf(a.stdout, "There was no sign-in to %s.\n", server.Alias)
	case had && err != nil:
		fmt.Fprintf(a.stderr, "mcp-gate: the token is forgotten here, but could not be given back: %v\n", err)
		err = nil
		fallthrough
	case err == nil:
		_, err = fmt.Fprintf(a.stdout, "Signed out of %s.\n", server.Alias)
	}
	return err
}
