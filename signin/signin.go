// Package signin signs the gate in to servers that are reached over HTTP, and
// keeps it signed in.
//
// [Client.Login] finds who gives tokens for a server, lets a person sign in there
// with a browser, and keeps what comes back in a vault. [Session.Authorize] then
// gives the token for each request, renews it ahead of its end and after a
// refusal, once at a time for all processes of a home, and says who has to sign in
// when that is over. It is OAuth 2.1 as MCP has it: PKCE, metadata of the server
// (RFC 9728) and of the authorization server (RFC 8414), dynamic registration
// (RFC 7591), a resource indicator with every token (RFC 8707), the issuer in every
// answer that should have one (RFC 9207).
//
// What metadata says is not trusted: see guard. A token belongs to one server's
// address and is never sent to another; no token of a client's is ever passed on.
// The package logs nothing and no error has a token, a code or a secret in it.
package signin

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/mcp-gate/mcp-gate/internal/lazy"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
	"github.com/mcp-gate/mcp-gate/vault"
)

// A Server is what is signed in to.
type Server struct {
	Alias        string
	URL          string
	ClientID     string // the name the gate is registered under, or ""; an https address where the provider reads those
	ClientSecret string
	Scopes       []string // nil lets the server say
}

// Options are what a client is handed.
type Options struct {
	Vault  *vault.Vault
	Now    func() time.Time
	Random io.Reader
	Proxy  func(*http.Request) (*url.URL, error) // nil is none
	Name   string                                // what the gate calls itself where it registers
}

// A Client signs in. It is safe for concurrent use.
type Client struct{ o Options }

// New returns a client.
func New(o Options) *Client { return &Client{o} }

// A NeededError says that a person has to sign in to a server.
type NeededError struct {
	Alias string
	Why   string
}

func (e *NeededError) Error() string {
	return fmt.Sprintf("%s: run mcp-gate auth login %s", e.Why, e.Alias)
}

// Status is what is known about the sign-in to a server. It holds no secret.
type Status struct {
	Server   string    `json:"server"`
	URL      string    `json:"url"`
	SignedIn bool      `json:"signed_in"`
	Issuer   string    `json:"issuer,omitempty"`
	Scopes   []string  `json:"scopes,omitempty"`
	Expires  time.Time `json:"expires,omitzero"` // of the token there is; zero where it was not said
	Renews   bool      `json:"renews"`           // without a person
	Note     string    `json:"note,omitempty"`
}

// record is what is kept of a sign-in.
type record struct {
	URL          string     `json:"url"` // of the server, as canonical gives it: the only one that gets the token
	Resource     string     `json:"resource"`
	Issuer       string     `json:"issuer"`
	Token        string     `json:"token_endpoint"`
	Revocation   string     `json:"revocation_endpoint,omitempty"`
	Registration registered `json:"registration"`
	Scopes       []string   `json:"scopes,omitempty"`
	Wanted       []string   `json:"wanted,omitempty"` // scopes that the server asked for since
	Access       string     `json:"access_token"`
	Refresh      string     `json:"refresh_token,omitempty"`
	Obtained     time.Time  `json:"obtained"`
	Expires      time.Time  `json:"expires,omitzero"`
	Renewed      bool       `json:"renewed,omitempty"` // the token did not come from a person's sign-in
}

// registered is a client at an authorization server.
type registered struct {
	ID       string    `json:"client_id"`
	Secret   string    `json:"client_secret,omitempty"`
	Method   string    `json:"token_endpoint_auth_method"` // none, client_secret_basic or client_secret_post
	Redirect string    `json:"redirect_uri"`
	Expires  time.Time `json:"expires,omitzero"` // of the secret
	Own      bool      `json:"own,omitempty"`    // the owner's configuration has it
}

func (r registered) style() oauth2.AuthStyle {
	if r.Method == "client_secret_basic" {
		return oauth2.AuthStyleInHeader
	}
	return oauth2.AuthStyleInParams
}

// nameOf is where the sign-in of a server is kept.
func nameOf(alias string) string { return "signin/" + alias }

// load returns what is kept for a server, or nil. What was kept for another
// address under the same name counts for nothing.
func (c *Client) load(s Server) (*record, error) {
	b, err := c.o.Vault.Get(nameOf(s.Alias))
	if errors.Is(err, vault.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("read the sign-in of %s: %w", s.Alias, err)
	}
	u, err := url.Parse(s.URL)
	if err != nil || canonical(u) != r.URL {
		return nil, nil
	}
	return &r, nil
}

func (c *Client) save(s Server, r *record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return c.o.Vault.Put(nameOf(s.Alias), b)
}

// Status says whether the gate is signed in to a server, from what is kept here.
func (c *Client) Status(s Server) (Status, error) {
	st := Status{Server: s.Alias, URL: s.URL}
	r, err := c.load(s)
	if err != nil || r == nil {
		return st, err
	}
	st.Issuer, st.Scopes, st.Expires, st.Renews = r.Issuer, r.Scopes, r.Expires, r.Refresh != ""
	st.SignedIn = st.Renews || r.Access != "" && (r.Expires.IsZero() || c.o.Now().Before(r.Expires))
	if !st.SignedIn {
		st.Note = "the sign-in is over"
	}
	return st, nil
}

// Logout gives the token back, where the provider takes it, and forgets it. It
// reports whether there was one to forget. With true, the error is about giving it
// back only.
func (c *Client) Logout(ctx context.Context, s Server) (bool, error) {
	if c.o.Vault.Stamp(nameOf(s.Alias)).IsZero() {
		return false, nil // so that nothing is made where there is nothing
	}
	unlock, err := c.o.Vault.Lock(nameOf(s.Alias))
	if err != nil {
		return false, err
	}
	defer func() { _ = unlock() }() // only the descriptor's
	r, loadErr := c.load(s)
	if err := c.o.Vault.Delete(nameOf(s.Alias)); err != nil {
		return false, err
	}
	if loadErr != nil || r == nil || r.Revocation == "" {
		return true, nil
	}
	return true, c.revoke(ctx, s, r)
}

// revoke is RFC 7009.
func (c *Client) revoke(ctx context.Context, s Server, r *record) error {
	g, err := c.guard(ctx, s)
	if err != nil {
		return err
	}
	at, err := g.endpoint("revocation_endpoint", r.Revocation)
	if err != nil {
		return err
	}
	form := url.Values{"token": {r.Refresh}, "token_type_hint": {"refresh_token"}}
	if r.Refresh == "" {
		form = url.Values{"token": {r.Access}, "token_type_hint": {"access_token"}}
	}
	if r.Registration.Method != "client_secret_basic" {
		form.Set("client_id", r.Registration.ID)
		if r.Registration.Secret != "" {
			form.Set("client_secret", r.Registration.Secret)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if r.Registration.Method == "client_secret_basic" {
		req.SetBasicAuth(url.QueryEscape(r.Registration.ID), url.QueryEscape(r.Registration.Secret))
	}
	resp, err := g.client.Do(req)
	if err != nil {
		return fmt.Errorf("give the token back: %w", withoutURL(err))
	}
	defer resp.Body.Close() //nolint:errcheck // nothing is read
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("give the token back: HTTP %s", resp.Status)
	}
	return nil
}

// guard is what requests about a server are made with. The server itself has to
// be reached over https, or be on this machine.
func (c *Client) guard(ctx context.Context, s Server) (*guard, error) {
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("server %s: its url is no address", s.Alias)
	}
	g := newGuard(ctx, u, c.o.Proxy)
	if u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())) {
		return nil, fmt.Errorf("server %s: a token is only sent over https, or to this machine", s.Alias)
	}
	return g, nil
}

// exchange takes a code to the token endpoint.
func (c *Client) exchange(ctx context.Context, g *guard, p provider, r registered, code, verifier string) (*record, error) {
	conf := oauth2.Config{ClientID: r.ID, ClientSecret: r.Secret, RedirectURL: r.Redirect, Endpoint: oauth2.Endpoint{TokenURL: p.Token.String(), AuthStyle: r.style()}}
	began := c.o.Now()
	tok, err := conf.Exchange(tokenContext(ctx, g), code, oauth2.VerifierOption(verifier), oauth2.SetAuthURLParam("resource", p.Resource))
	if err != nil {
		return nil, fmt.Errorf("exchange the code for a token: %w", plainToken(err))
	}
	rec := &record{URL: canonical(g.server), Resource: p.Resource, Issuer: p.Issuer, Token: p.Token.String(), Registration: r}
	if p.Revocation != nil {
		rec.Revocation = p.Revocation.String()
	}
	return rec, rec.take(tok, began)
}

// renew asks for a new token with the refresh token. The grant goes through the
// library's client credentials, which let the grant be named and the resource be
// given; its own refresh takes no further parameters.
func (c *Client) renew(ctx context.Context, s Server, old *record) (*record, error) {
	g, err := c.guard(ctx, s)
	if err != nil {
		return nil, err
	}
	at, err := g.endpoint("token_endpoint", old.Token)
	if err != nil {
		return nil, err
	}
	conf := clientcredentials.Config{
		ClientID: old.Registration.ID, ClientSecret: old.Registration.Secret, TokenURL: at.String(), AuthStyle: old.Registration.style(),
		EndpointParams: url.Values{"grant_type": {"refresh_token"}, "refresh_token": {old.Refresh}, "resource": {old.Resource}},
	}
	began := c.o.Now()
	tok, err := conf.Token(tokenContext(ctx, g))
	if err != nil {
		return nil, plainToken(err)
	}
	next := *old
	next.Renewed = true
	if err := next.take(tok, began); err != nil {
		return nil, err
	}
	return &next, nil
}

// tokenContext has the library make its requests with g, and read "expires_in" as a
// whole number, the only one that it takes.
func tokenContext(ctx context.Context, g *guard) context.Context {
	client := *g.client
	client.Transport = wholeSeconds{client.Transport}
	return context.WithValue(ctx, oauth2.HTTPClient, &client)
}

type wholeSeconds struct{ http.RoundTripper }

func (t wholeSeconds) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	_ = resp.Body.Close() // it is read
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(roundedLife(b)))
	return resp, nil
}

// roundedLife returns a token answer with its "expires_in" rounded down. Anything but
// a JSON object with a number there is left to the library.
func roundedLife(answer []byte) []byte {
	life, ok, err := strictjson.Get(answer, "expires_in")
	if err != nil || !ok {
		return answer
	}
	seconds, err := strconv.ParseFloat(strings.Trim(string(life), `"`), 64)
	if err != nil || !(seconds >= 0 && seconds <= math.MaxInt32) {
		return answer
	}
	if whole, err := strictjson.Set(answer, "expires_in", strconv.AppendInt(nil, int64(seconds), 10)); err == nil {
		return whole
	}
	return answer
}

// tokenText is what may stand in a header as a token, RFC 6750.
var tokenText = lazy.Regexp(`^[\x21-\x7e]+$`)

// take puts a token answer into the record. The life of a token counts from when
// it was asked for.
func (r *record) take(tok *oauth2.Token, began time.Time) error {
	switch {
	case len(tok.AccessToken) > 64<<10 || !tokenText().MatchString(tok.AccessToken):
		return errors.New("the token cannot stand in a header")
	case !strings.EqualFold(tok.Type(), "bearer"):
		return fmt.Errorf("a token of type %.40q is not understood: want Bearer", tok.Type())
	}
	r.Access, r.Obtained, r.Expires = tok.AccessToken, began, time.Time{}
	if tok.RefreshToken != "" {
		r.Refresh = tok.RefreshToken
	}
	if life := lifeOf(tok); life > 0 {
		r.Expires = began.Add(life)
	}
	if scope, ok := tok.Extra("scope").(string); ok && scope != "" {
		r.Scopes = plainScopes(strings.Fields(scope))
	}
	return nil
}

// lifeOf is a token's "expires_in", which some write as text.
func lifeOf(tok *oauth2.Token) time.Duration {
	const longest = 10 * 365 * 24 * time.Hour
	seconds := 0.0
	switch v := tok.Extra("expires_in").(type) {
	case float64:
		seconds = v
	case string:
		seconds, _ = strconv.ParseFloat(v, 64)
	case json.Number:
		seconds, _ = v.Float64()
	}
	if !(seconds > 0) || seconds > longest.Seconds() {
		return 0
	}
	return time.Duration(seconds * float64(time.Second))
}

// A tokenError is what a token endpoint refused with.
type tokenError struct {
	status int
	code   string
	text   string
}

func (e *tokenError) Error() string {
	switch {
	case e.code == "":
		return fmt.Sprintf("the token endpoint answers HTTP %d", e.status)
	case e.text == "":
		return fmt.Sprintf("the token endpoint refuses: %.60q", e.code)
	}
	return fmt.Sprintf("the token endpoint refuses: %.60q, %.200q", e.code, e.text)
}

// over reports whether asking again cannot help: a person has to sign in.
func (e *tokenError) over() bool {
	return e.code != "" && e.code != "temporarily_unavailable" && e.code != "server_error" && e.code != "slow_down" && e.status < 500
}

// plainToken takes the library's error apart, which has the whole answer in it.
func plainToken(err error) error {
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) {
		e := &tokenError{code: refused.ErrorCode, text: refused.ErrorDescription}
		if refused.Response != nil {
			e.status = refused.Response.StatusCode
		}
		return e
	}
	return withoutURL(err)
}

// random returns n random bytes as text for an address.
func (c *Client) random(n int) (string, error) {
	b := make([]byte, n)
	if _, err := io.ReadFull(c.o.Random, b); err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(b), nil
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
