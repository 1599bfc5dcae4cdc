package signin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

const (
	// maxBody bounds a document that a server describes itself with, and an
	// answer of a token endpoint.
	maxBody = 256 << 10
	// maxHops bounds the redirects of one document.
	maxHops = 3
	// requestTime bounds one request.
	requestTime = 30 * time.Second
)

// A guard makes requests to where metadata of a server points. That metadata is
// written by whoever runs the server, so it must not lead anywhere that the
// server itself could not have been asked to go: https only, public addresses
// only, each checked when it is dialled, so that a name that changes its mind
// gains nothing. Around a server on this machine or in a private network, what is
// as near as that server is allowed too.
type guard struct {
	client *http.Client
	server *url.URL
	near   nearness // of the server

	mu      sync.Mutex
	proxies map[string]bool // host:port; the owner's own, so dialled unchecked
}

// nearness is how far away an address is.
type nearness uint8

const (
	public   nearness = iota + 1
	private           // of a network such as a company's
	loopback          // this machine
)

func newGuard(ctx context.Context, server *url.URL, proxy func(*http.Request) (*url.URL, error)) *guard {
	g := &guard{server: server, near: nearnessOf(ctx, server.Hostname()), proxies: map[string]bool{}}
	g.client = &http.Client{
		Timeout:       requestTime,
		CheckRedirect: g.redirect,
		Transport: &http.Transport{
			DialContext: g.dial, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second,
			MaxResponseHeaderBytes: 64 << 10, DisableKeepAlives: true,
			Proxy: func(r *http.Request) (*url.URL, error) { return g.proxy(r, proxy) },
		},
	}
	return g
}

// nearnessOf looks where a server is. One that cannot be found is taken for
// public, which allows least.
func nearnessOf(ctx context.Context, host string) nearness {
	if ip, err := netip.ParseAddr(host); err == nil {
		return nearnessOfIP(ip)
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return loopback
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil || len(ips) == 0 {
		return public
	}
	nearest := private
	for _, ip := range ips {
		nearest = min(nearest, nearnessOfIP(ip)) // never more than the farthest of them
	}
	return nearest
}

// special are ranges that are not public though Go's own predicates do not say so
// (IANA's special-purpose registries): shared, benchmark, reserved and
// translated addresses, and those of link-local metadata services.
var special = func() (out []netip.Prefix) {
	for _, s := range []string{"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "198.18.0.0/15", "240.0.0.0/4", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "100::/64"} {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}()

func nearnessOfIP(ip netip.Addr) nearness {
	ip = ip.Unmap().WithZone("")
	switch {
	case ip.IsLoopback():
		return loopback
	case ip.IsPrivate():
		return private
	}
	return public
}

// allowed reports whether an address may be dialled for this server.
func (g *guard) allowed(ip netip.Addr) error {
	ip = ip.Unmap().WithZone("")
	for _, p := range special {
		if p.Contains(ip) {
			return fmt.Errorf("%v is a reserved address", ip)
		}
	}
	switch near := nearnessOfIP(ip); {
	case ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast():
		return fmt.Errorf("%v is a reserved address", ip)
	case near == loopback && g.near != loopback:
		return fmt.Errorf("%v is this machine, and the server is not on it", ip)
	case near == private && g.near == public:
		return fmt.Errorf("%v is in a private network, and the server is not", ip)
	}
	return nil
}

func (g *guard) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: 10 * time.Second}
	g.mu.Lock()
	trusted := g.proxies[addr] || addr == hostPort(g.server)
	g.mu.Unlock()
	if !trusted {
		d.Control = func(_, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			return g.allowed(at.Addr())
		}
	}
	return d.DialContext(ctx, network, addr)
}

func (g *guard) proxy(r *http.Request, find func(*http.Request) (*url.URL, error)) (*url.URL, error) {
	if find == nil {
		return nil, nil
	}
	u, err := find(r)
	if u != nil {
		g.mu.Lock()
		g.proxies[hostPort(u)] = true
		g.mu.Unlock()
	}
	return u, err
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// redirect follows a document within its own origin, and nothing that was posted.
func (g *guard) redirect(r *http.Request, via []*http.Request) error {
	if via[0].Method != http.MethodGet {
		return http.ErrUseLastResponse
	}
	if len(via) > maxHops {
		return fmt.Errorf("more than %d redirects", maxHops)
	}
	if !sameOrigin(r.URL, via[0].URL) {
		return fmt.Errorf("redirected to another origin, %s", originOf(r.URL))
	}
	return nil
}

func sameOrigin(a, b *url.URL) bool { return originOf(a) == originOf(b) }

func originOf(u *url.URL) string {
	return strings.ToLower(u.Scheme) + "://" + strings.ToLower(hostPort(u))
}

// errMissing says that a document is not there, so that the next place is tried.
var errMissing = errors.New("it is not there")

// document fetches one JSON object.
func (g *guard) document(ctx context.Context, at *url.URL) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("MCP-Protocol-Version", "2025-11-25")
	resp, err := g.client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", at.Redacted(), withoutURL(err))
	}
	defer resp.Body.Close() //nolint:errcheck // only read from
	if resp.StatusCode/100 == 4 {
		return nil, errMissing
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetch %s: HTTP %s", at.Redacted(), resp.Status)
	}
	return readObject(resp.Body, "fetch "+at.Redacted())
}

// readObject reads one JSON object of bounded size, without duplicate names.
func readObject(body io.Reader, doing string) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(body, maxBody+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", doing, err)
	case len(b) > maxBody:
		return nil, fmt.Errorf("%s: it is larger than %d bytes", doing, maxBody)
	}
	if err := strictjson.Check(b); err != nil {
		return nil, fmt.Errorf("%s: not JSON that can be relied on: %w", doing, err)
	}
	return b, nil
}

// withoutURL drops the URL that net/http puts before an error: it is said already,
// and may have a code in it.
func withoutURL(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// endpoint checks an address that metadata names. Around a server on this machine
// plain http is taken on this machine.
func (g *guard) endpoint(name, address string) (*url.URL, error) {
	u, err := parseAddress(address)
	if err != nil {
		return nil, fmt.Errorf("%s %.200q: %w", name, address, err)
	}
	if u.Scheme == "http" && !(g.near == loopback && isLoopback(u.Hostname())) {
		return nil, fmt.Errorf("%s %s: want https", name, u.Redacted())
	}
	return u, nil
}

// parseAddress takes http and https addresses that have nothing in them which
// somebody between here and a browser could take for anything else.
func parseAddress(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, errors.New("not an address")
	case u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "" || u.Host == "" || u.Hostname() == "":
		return nil, errors.New("want an address that begins with https://")
	case u.User != nil:
		return nil, errors.New("an address with a name or password in it is not used")
	case u.Fragment != "" || strings.HasSuffix(address, "#"):
		return nil, errors.New("an address with a fragment is not used")
	}
	for _, part := range []string{u.Host, u.EscapedPath()} {
		if i := strings.IndexFunc(part, func(r rune) bool { return !plainRune(r) }); i >= 0 {
			return nil, fmt.Errorf("%q does not belong into an address", part[i:i+1])
		}
	}
	if strings.HasPrefix(u.Hostname(), "-") {
		return nil, errors.New("not an address")
	}
	return u, nil
}

func plainRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._~/%:@+=,[]", r)
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
