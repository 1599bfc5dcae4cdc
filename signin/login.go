package signin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

// A Person is who signs in.
type Person interface {
	// Visit shows the address to sign in at, and opens it where that is possible.
	Visit(address string)
	// Pasted gives the address that a browser on another machine ended at, for
	// as long as ctx lasts; it may never give one.
	Pasted(ctx context.Context) <-chan string
}

// Login signs in to a server, within the time that ctx has. It returns an error
// that says so where the server asks for no sign-in.
func (c *Client) Login(ctx context.Context, s Server, person Person) (Status, error) {
	fail := func(err error) (Status, error) { return Status{}, fmt.Errorf("sign in to %s: %w", s.Alias, err) }
	g, err := c.guard(ctx, s)
	if err != nil {
		return fail(err)
	}
	p, err := discover(ctx, g)
	if err != nil {
		return fail(err)
	}
	old, err := c.load(s)
	if err != nil {
		old = nil // it is written anew
	}
	back, err := listen(old)
	if err != nil {
		return fail(err)
	}
	defer back.close()
	client, err := c.register(ctx, g, s, p, old, back.redirect)
	if err != nil {
		return fail(err)
	}
	if old != nil && old.Issuer == p.Issuer { // what there was stays, and what was asked for since comes to it
		p.Scopes = union(p.Scopes, old.Scopes, old.Wanted)
	}
	if s.Scopes != nil {
		p.Scopes = plainScopes(s.Scopes)
	} else if p.Offline && !slices.Contains(p.Scopes, "offline_access") {
		p.Scopes = append(slices.Clip(p.Scopes), "offline_access")
	}
	rec, err := c.authorize(ctx, g, p, client, back, person)
	if err != nil {
		return fail(err)
	}
	unlock, err := c.o.Vault.Lock(nameOf(s.Alias))
	if err != nil {
		return fail(err)
	}
	defer func() { _ = unlock() }() // only the descriptor's
	if err := c.save(s, rec); err != nil {
		return fail(err)
	}
	return c.Status(s)
}

// union returns what is in any of the lists, in their order.
func union(lists ...[]string) (all []string) {
	for _, list := range lists {
		for _, s := range list {
			if !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	return all
}

// authorize sends the person to the provider and takes the code that comes back.
func (c *Client) authorize(ctx context.Context, g *guard, p provider, client registered, back *callback, person Person) (*record, error) {
	state, err := c.random(24)
	if err != nil {
		return nil, err
	}
	verifier, err := c.random(48)
	if err != nil {
		return nil, err
	}
	conf := oauth2.Config{ClientID: client.ID, RedirectURL: client.Redirect, Scopes: p.Scopes, Endpoint: oauth2.Endpoint{AuthURL: clean(p.Authorization)}}
	address := conf.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier), oauth2.SetAuthURLParam("resource", p.Resource))
	if err := Openable(address); err != nil {
		return nil, err
	}
	back.expect(state, p)
	person.Visit(address)
	code, err := back.wait(ctx, person)
	if err != nil {
		return nil, err
	}
	rec, err := c.exchange(ctx, g, p, client, code, verifier)
	if err != nil {
		return nil, err
	}
	if rec.Scopes == nil {
		rec.Scopes = p.Scopes // RFC 6749 section 5.1: what was asked for, where nothing is said
	}
	return rec, nil
}

// clean writes an address anew, with every character of its query escaped.
func clean(u *url.URL) string {
	c := *u
	c.RawQuery = u.Query().Encode()
	return c.String()
}

// register finds what the gate is called at the provider: what the owner
// configured, what was registered before for this very redirect, else a new
// registration.
func (c *Client) register(ctx context.Context, g *guard, s Server, p provider, old *record, redirect string) (registered, error) {
	if s.ClientID != "" {
		if strings.HasPrefix(s.ClientID, "https://") && !p.Documents {
			return registered{}, fmt.Errorf("%s takes no address as auth.client_id", p.Issuer)
		}
		return registered{ID: s.ClientID, Secret: s.ClientSecret, Method: methodFor(p.Methods, s.ClientSecret != ""), Redirect: redirect, Own: true}, nil
	}
	if old != nil && old.Issuer == p.Issuer && !old.Registration.Own && old.Registration.Redirect == redirect &&
		(old.Registration.Expires.IsZero() || c.o.Now().Before(old.Registration.Expires)) {
		return old.Registration, nil
	}
	if p.Registration == nil {
		return registered{}, fmt.Errorf("%s lets no client register itself: register this gate there, with the redirect http://127.0.0.1/callback on any port, and write its name as auth.client_id", p.Issuer)
	}
	return c.registerAnew(ctx, g, p, redirect)
}

// methodFor chooses how a client proves itself. RFC 8414: basic, where the
// provider says nothing.
func methodFor(methods []string, secret bool) string {
	switch {
	case !secret:
		return "none"
	case len(methods) == 0 || slices.Contains(methods, "client_secret_basic"):
		return "client_secret_basic"
	}
	return "client_secret_post"
}

// registerAnew is RFC 7591.
func (c *Client) registerAnew(ctx context.Context, g *guard, p provider, redirect string) (registered, error) {
	method := methodFor(p.Methods, len(p.Methods) > 0 && !slices.Contains(p.Methods, "none"))
	body, err := json.Marshal(map[string]any{
		"client_name": c.o.Name, "redirect_uris": []string{redirect}, "grant_types": []string{"authorization_code", "refresh_token"},
		"response_types": []string{"code"}, "token_endpoint_auth_method": method, "application_type": "native",
	})
	if err != nil {
		return registered{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.Registration.String(), bytes.NewReader(body))
	if err != nil {
		return registered{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	resp, err := g.client.Do(r)
	if err != nil {
		return registered{}, fmt.Errorf("register with %s: %w", p.Issuer, withoutURL(err))
	}
	defer resp.Body.Close() //nolint:errcheck // only read from
	if resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusOK {
		return registered{}, fmt.Errorf("register with %s: HTTP %s", p.Issuer, resp.Status)
	}
	b, err := readObject(resp.Body, "register with "+p.Issuer)
	if err != nil {
		return registered{}, err
	}
	var answer struct {
		ID      string  `json:"client_id"`
		Secret  string  `json:"client_secret"`
		Method  string  `json:"token_endpoint_auth_method"`
		Expires float64 `json:"client_secret_expires_at"`
	}
	if err := json.Unmarshal(b, &answer); err != nil || answer.ID == "" {
		return registered{}, fmt.Errorf("register with %s: the answer has no client_id", p.Issuer)
	}
	out := registered{ID: answer.ID, Secret: answer.Secret, Method: answer.Method, Redirect: redirect}
	if out.Method == "" || out.Secret == "" {
		out.Method = methodFor(p.Methods, out.Secret != "")
	}
	if !slices.Contains([]string{"none", "client_secret_basic", "client_secret_post"}, out.Method) {
		return registered{}, fmt.Errorf("register with %s: a client is to prove itself by %.60q, which is not spoken here", p.Issuer, out.Method)
	}
	if answer.Expires > 0 && answer.Expires < 1e12 {
		out.Expires = time.Unix(int64(answer.Expires), 0)
	}
	return out, nil
}

// A callback is a page on this machine that a browser comes back to.
type callback struct {
	redirect string
	server   *http.Server
	done     chan struct{} // closed when the server has ended
	want     chan expected
	result   chan outcome
}

type expected struct {
	state string
	p     provider
}

type outcome struct {
	code string
	err  error
}

// listen opens the page, at the port of an earlier registration if that is free.
func listen(old *record) (*callback, error) {
	address := "127.0.0.1:0"
	if old != nil && !old.Registration.Own {
		if u, err := url.Parse(old.Registration.Redirect); err == nil && u.Hostname() == "127.0.0.1" {
			address = u.Host
		}
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return nil, fmt.Errorf("open a page to come back to: %w", err)
	}
	b := &callback{
		redirect: "http://" + l.Addr().String() + "/callback", done: make(chan struct{}),
		want: make(chan expected, 1), result: make(chan outcome, 1),
	}
	b.server = &http.Server{Handler: b, ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10}
	go func() {
		defer close(b.done)
		_ = b.server.Serve(l) // ends when close closes it
	}()
	return b, nil
}

func (b *callback) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if b.server.Shutdown(ctx) != nil {
		_ = b.server.Close() // a browser that does not hang up
	}
	<-b.done
}

func (b *callback) expect(state string, p provider) { b.want <- expected{state, p} }

// ServeHTTP takes the answer of the provider. Anything that does not bring the
// state that was sent changes nothing: another page may have sent the browser.
func (b *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodGet || r.URL.Path != "/callback" || "http://"+r.Host+"/callback" != b.redirect {
		http.NotFound(w, r)
		return
	}
	text, ok := b.take(r.URL.Query())
	if !ok {
		w.WriteHeader(http.StatusBadRequest)
	}
	_, _ = fmt.Fprintf(w, "<!doctype html><title>mcp-gate</title><p>%s</p>\n", text) // the browser may be gone
}

// take judges an answer, and passes it on if it is the one that is waited for.
func (b *callback) take(q url.Values) (page string, ok bool) {
	var want expected
	select {
	case want = <-b.want:
	default:
		return "No sign-in is under way.", false
	}
	if !same(q.Get("state"), want.state) {
		b.want <- want
		return "This answer belongs to no sign-in that is under way.", false
	}
	code, err := want.judge(q)
	b.result <- outcome{code, err}
	if err != nil {
		return "The sign-in failed. The terminal says why.", false
	}
	return "Signed in. You can close this page.", true
}

// judge reads an answer whose state is right.
func (e expected) judge(q url.Values) (string, error) {
	issuer := q.Get("iss")
	switch {
	case issuer == "" && e.p.SaysIssuer:
		return "", errors.New("the answer does not say who it is from, though its provider always does")
	case issuer != "" && issuer != e.p.Issuer:
		return "", fmt.Errorf("the answer is from another issuer, %.200q", issuer)
	case q.Get("error") != "":
		return "", fmt.Errorf("the provider refused: %.60q %.200q", q.Get("error"), q.Get("error_description"))
	case q.Get("code") == "":
		return "", errors.New("the answer has no code in it")
	}
	return q.Get("code"), nil
}

// wait waits for the browser, or for the address that a browser elsewhere ended at.
func (b *callback) wait(ctx context.Context, person Person) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pasted := person.Pasted(ctx)
	for {
		select {
		case o := <-b.result:
			return o.code, o.err
		case line, open := <-pasted:
			if !open {
				pasted = nil
				continue
			}
			u, err := url.Parse(strings.TrimSpace(line))
			if err != nil || u.Query().Get("state") == "" {
				continue
			}
			b.take(u.Query())
		case <-ctx.Done():
			return "", fmt.Errorf("nobody came back from the browser: %w", context.Cause(ctx))
		}
	}
}
