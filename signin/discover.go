package signin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/mcp-gate/mcp-gate/internal/lazy"
)

// A provider is who gives tokens for a server, as found by [discover]. Every
// address in it was checked.
type provider struct {
	Resource      string // what tokens are asked for, RFC 8707
	Issuer        string
	Authorization *url.URL
	Token         *url.URL
	Registration  *url.URL // nil where clients cannot register themselves
	Revocation    *url.URL // nil where tokens cannot be given back
	Scopes        []string // what to ask for where the owner named nothing
	Methods       []string // how a client may prove itself at the token endpoint
	Offline       bool     // a refresh token is to be asked for by a scope
	SaysIssuer    bool     // every answer names its issuer, RFC 9207
	Documents     bool     // an https address may serve as a client's name
}

// resourceDoc is RFC 9728's description of a protected resource.
type resourceDoc struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
}

// serverDoc is RFC 8414's description of an authorization server.
type serverDoc struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Registration  string   `json:"registration_endpoint"`
	Revocation    string   `json:"revocation_endpoint"`
	Scopes        []string `json:"scopes_supported"`
	Challenges    []string `json:"code_challenge_methods_supported"`
	Methods       []string `json:"token_endpoint_auth_methods_supported"`
	SaysIssuer    bool     `json:"authorization_response_iss_parameter_supported"`
	Documents     bool     `json:"client_id_metadata_document_supported"`
}

// errOpen says that a server asks for no sign-in.
var errOpen = errors.New("it answers without a sign-in")

// discover finds who gives tokens for the server: its challenge, its description
// as a resource (RFC 9728), then the description of the authorization server that
// this names (RFC 8414, OpenID Connect). A server without the former stands for
// its own authorization server, as servers of protocol 2025-03-26 did.
func discover(ctx context.Context, g *guard) (provider, error) {
	ch, err := g.probe(ctx)
	if err != nil {
		return provider{}, err
	}
	doc, found, err := g.resource(ctx, ch)
	if err != nil {
		return provider{}, err
	}
	resource, issuers := canonical(g.server), []string{originText(g.server)}
	if found {
		if resource, err = resourceOf(doc, g.server); err != nil {
			return provider{}, err
		}
		if issuers = doc.Servers; len(issuers) == 0 {
			return provider{}, errors.New("its description names no authorization server")
		}
	}
	var tried error
	for _, issuer := range issuers[:min(len(issuers), 4)] {
		p, err := g.provider(ctx, issuer)
		if err != nil {
			tried = errors.Join(tried, err)
			continue
		}
		p.Resource = resource
		p.Scopes = ch.scopes
		if p.Scopes == nil {
			p.Scopes = doc.Scopes
		}
		return p, nil
	}
	return provider{}, tried
}

// A challenge is what a server answers to a request without a token.
type challenge struct {
	metadata  string // address of its description, or ""
	scopes    []string
	tooLittle bool // the token that was sent has too little scope
}

// probe asks the server for something harmless without a token.
func (g *guard) probe(ctx context.Context) (challenge, error) {
	body := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.server.String(), body)
	if err != nil {
		return challenge{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := g.client.Do(r)
	if err != nil {
		return challenge{}, fmt.Errorf("ask the server: %w", withoutURL(err))
	}
	defer resp.Body.Close()                                     //nolint:errcheck // only read from
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 4096)) // a short answer lets the connection end well
	switch {
	case resp.StatusCode == http.StatusUnauthorized:
		return parseChallenge(resp.Header.Values("WWW-Authenticate")), nil
	case resp.StatusCode/100 == 2:
		return challenge{}, errOpen
	}
	return challenge{}, nil // it may still describe itself
}

var challengeParam = lazy.Regexp(`(?i)(?:^|[\s,])(resource_metadata|scope|error)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))`)

// parseChallenge reads the parameters of a Bearer challenge, RFC 9728 section 5.1.
// What it does not understand counts for nothing.
func parseChallenge(headers []string) challenge {
	var ch challenge
	for _, m := range challengeParam().FindAllStringSubmatch(strings.Join(headers, ", "), 8) {
		value := m[2] + m[3]
		switch strings.ToLower(m[1]) {
		case "scope":
			ch.scopes = plainScopes(strings.Fields(value))
		case "error":
			ch.tooLittle = value == "insufficient_scope"
		default:
			ch.metadata = value
		}
	}
	return ch
}

// scopeToken is RFC 6749's: nothing that would have to be quoted.
var scopeToken = lazy.Regexp(`^[\x21\x23-\x5b\x5d-\x7e]{1,200}$`)

func plainScopes(scopes []string) []string {
	scopes = slices.DeleteFunc(slices.Clone(scopes), func(s string) bool { return !scopeToken().MatchString(s) })
	return scopes[:min(len(scopes), 100)]
}

// resource fetches the server's description of itself, which only its own origin
// may give (RFC 9728 section 7.7 on requests that others could steer).
func (g *guard) resource(ctx context.Context, ch challenge) (resourceDoc, bool, error) {
	var places []*url.URL
	if ch.metadata != "" {
		u, err := g.endpoint("resource_metadata", ch.metadata)
		if err != nil {
			return resourceDoc{}, false, err
		}
		if !sameOrigin(u, g.server) {
			return resourceDoc{}, false, fmt.Errorf("resource_metadata %s is of another origin than the server", u.Redacted())
		}
		places = append(places, u)
	} else {
		const wellKnown = "/.well-known/oauth-protected-resource"
		if p := strings.TrimSuffix(g.server.Path, "/"); p != "" {
			places = append(places, &url.URL{Scheme: g.server.Scheme, Host: g.server.Host, Path: wellKnown + p})
		}
		places = append(places, &url.URL{Scheme: g.server.Scheme, Host: g.server.Host, Path: wellKnown})
	}
	for _, at := range places {
		b, err := g.document(ctx, at)
		if errors.Is(err, errMissing) {
			continue
		}
		if err != nil {
			return resourceDoc{}, false, err
		}
		var doc resourceDoc
		if err := json.Unmarshal(b, &doc); err != nil {
			return doc, false, fmt.Errorf("read %s: %w", at, err)
		}
		doc.Scopes = plainScopes(doc.Scopes)
		return doc, true, nil
	}
	return resourceDoc{}, false, nil
}

// resourceOf checks that a description is of this server: the same origin, and a
// path that the server's own begins with.
func resourceOf(doc resourceDoc, server *url.URL) (string, error) {
	u, err := parseAddress(doc.Resource)
	if err != nil {
		return "", fmt.Errorf("its description is of resource %.200q: %w", doc.Resource, err)
	}
	below := strings.TrimSuffix(u.Path, "/")
	inside := below == "" || server.Path == below || strings.HasPrefix(server.Path, below+"/")
	if !sameOrigin(u, server) || !inside {
		return "", fmt.Errorf("its description is of another resource, %s", u.Redacted())
	}
	return doc.Resource, nil
}

// provider fetches an authorization server's description from the places that it
// may be at. It counts only if it names the issuer that was asked for.
func (g *guard) provider(ctx context.Context, issuer string) (provider, error) {
	u, err := g.endpoint("authorization server", issuer)
	if err != nil {
		return provider{}, err
	}
	if u.RawQuery != "" {
		return provider{}, fmt.Errorf("authorization server %s: an issuer has no query", u.Redacted())
	}
	under := strings.TrimSuffix(u.Path, "/")
	at := func(p string) *url.URL { return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: path.Clean(p)} }
	places := []*url.URL{at("/.well-known/oauth-authorization-server" + under), at("/.well-known/openid-configuration" + under)}
	if under != "" {
		places = append(places, at(under+"/.well-known/openid-configuration"))
	}
	for _, place := range places {
		b, err := g.document(ctx, place)
		if errors.Is(err, errMissing) {
			continue
		}
		if err != nil {
			return provider{}, err
		}
		var doc serverDoc
		if err := json.Unmarshal(b, &doc); err != nil {
			return provider{}, fmt.Errorf("read %s: %w", place, err)
		}
		return g.checked(doc, issuer)
	}
	return provider{}, fmt.Errorf("authorization server %s does not describe itself: if the server takes a token that you have, write it into headers.Authorization of its entry", u.Redacted())
}

// checked holds an authorization server's description to what signing in needs.
func (g *guard) checked(doc serverDoc, issuer string) (provider, error) {
	if strings.TrimSuffix(doc.Issuer, "/") != strings.TrimSuffix(issuer, "/") {
		return provider{}, fmt.Errorf("authorization server %s describes itself as another, %.200q", issuer, doc.Issuer)
	}
	if !slices.Contains(doc.Challenges, "S256") {
		return provider{}, fmt.Errorf("authorization server %s does not say that it checks PKCE (S256), without which a code could be stolen", issuer)
	}
	p := provider{Issuer: doc.Issuer, Methods: doc.Methods, SaysIssuer: doc.SaysIssuer, Documents: doc.Documents, Offline: slices.Contains(doc.Scopes, "offline_access")}
	for _, e := range []struct {
		name, address string
		into          **url.URL
		must          bool
	}{
		{"authorization_endpoint", doc.Authorization, &p.Authorization, true},
		{"token_endpoint", doc.Token, &p.Token, true},
		{"registration_endpoint", doc.Registration, &p.Registration, false},
		{"revocation_endpoint", doc.Revocation, &p.Revocation, false},
	} {
		if e.address == "" && !e.must {
			continue
		}
		u, err := g.endpoint(e.name, e.address)
		if err != nil {
			return provider{}, fmt.Errorf("authorization server %s: %w", issuer, err)
		}
		*e.into = u
	}
	return p, nil
}

// canonical is the name of a server as a resource: lower-case scheme and host, no
// default port, no query, no fragment, no slash that stands alone (RFC 8707).
func canonical(u *url.URL) string {
	return originText(u) + strings.TrimSuffix(u.EscapedPath(), "/")
}

// originText writes an origin as people do, without a default port.
func originText(u *url.URL) string {
	host := strings.ToLower(u.Host)
	switch u.Scheme {
	case "https":
		host = strings.TrimSuffix(host, ":443")
	case "http":
		host = strings.TrimSuffix(host, ":80")
	}
	return u.Scheme + "://" + host
}
