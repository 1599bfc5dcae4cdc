package signin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-gate/mcp-gate/vault"
)

// world is a tool server and its authorization server, on one origin, and a
// person with a browser.
type world struct {
	*httptest.Server
	t     *testing.T
	now   atomic.Int64 // seconds; the clock of everybody
	vault *vault.Vault
	dir   string

	mu        sync.Mutex
	resource  map[string]any // RFC 9728; nil is none
	issuer    map[string]any // RFC 8414
	challenge string         // WWW-Authenticate; %s is the origin
	life      string         // expires_in, as JSON; "" says nothing
	refuse    string         // error code of the token endpoint
	status    int            // of the token endpoint, 0 is 200
	answerISS string         // iss of the answer
	answerErr string
	state     string // instead of the right one

	codes    map[string]url.Values // code -> the authorization request
	access   string                // the token that counts
	refresh  string
	issued   int
	forms    []url.Values // what the token endpoint got
	register int
	revoked  []url.Values
	visited  []string
	redirect func(http.ResponseWriter, *http.Request) bool
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, codes: map[string]url.Values{}, life: "3600", dir: filepath.Join(t.TempDir(), "keys")}
	w.now.Store(1_800_000_000)
	w.vault = vault.Open(vault.Options{Dir: w.dir})
	w.Server = httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(w.Close)
	w.challenge = `Bearer error="invalid_token", resource_metadata="%s/.well-known/oauth-protected-resource/mcp", scope="files:read"`
	w.resource = map[string]any{"resource": w.URL + "/mcp", "authorization_servers": []string{w.URL + "/as"}, "scopes_supported": []string{"all"}}
	w.issuer = map[string]any{
		"issuer": w.URL + "/as", "authorization_endpoint": w.URL + "/as/authorize?tenant=1", "token_endpoint": w.URL + "/as/token",
		"registration_endpoint": w.URL + "/as/register", "revocation_endpoint": w.URL + "/as/revoke", "code_challenge_methods_supported": []string{"S256"},
		"token_endpoint_auth_methods_supported": []string{"none"}, "scopes_supported": []string{"files:read", "offline_access"},
		"authorization_response_iss_parameter_supported": true,
	}
	w.answerISS = w.URL + "/as"
	return w
}

func (w *world) clock() time.Time { return time.Unix(w.now.Load(), 0) }

func (w *world) client() *Client {
	return New(Options{Vault: w.vault, Now: w.clock, Random: rand.Reader, Name: "mcp-gate"})
}

func (w *world) server() Server { return Server{Alias: "files", URL: w.URL + "/mcp"} }

func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.redirect != nil && w.redirect(rw, r) {
		return
	}
	body, _ := io.ReadAll(r.Body)
	form, _ := url.ParseQuery(string(body))
	switch r.Method + " " + r.URL.Path {
	case "POST /mcp":
		if got := r.Header.Get("Authorization"); w.access == "" || got != "Bearer "+w.access {
			if w.challenge != "" {
				rw.Header().Set("WWW-Authenticate", strings.ReplaceAll(w.challenge, "%s", w.URL))
			}
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(rw, `{}`)
	case "GET /.well-known/oauth-protected-resource/mcp":
		w.document(rw, w.resource)
	case "GET /.well-known/oauth-authorization-server/as":
		w.document(rw, w.issuer)
	case "POST /as/register":
		w.register++
		rw.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(rw, `{"client_id":"client-%d"}`, w.register)
	case "GET /as/authorize":
		w.authorize(rw, r)
	case "POST /as/token":
		w.forms = append(w.forms, form)
		w.token(rw, form)
	case "POST /as/revoke":
		w.revoked = append(w.revoked, form)
	default:
		http.NotFound(rw, r)
	}
}

func (w *world) document(rw http.ResponseWriter, doc map[string]any) {
	if doc == nil {
		rw.WriteHeader(http.StatusNotFound)
		return
	}
	_ = json.NewEncoder(rw).Encode(doc)
}

func (w *world) authorize(rw http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	back := url.Values{"state": {q.Get("state")}}
	if w.state != "" {
		back.Set("state", w.state)
	}
	if w.answerISS != "" {
		back.Set("iss", w.answerISS)
	}
	if w.answerErr != "" {
		back.Set("error", w.answerErr)
	} else {
		code := fmt.Sprintf("code-%d", len(w.codes)+1)
		w.codes[code] = q
		back.Set("code", code)
	}
	http.Redirect(rw, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

func (w *world) token(rw http.ResponseWriter, form url.Values) {
	bad := func(code string) {
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(rw, `{"error":%q,"error_description":"no"}`, code)
	}
	switch {
	case w.status != 0:
		rw.WriteHeader(w.status)
		return
	case w.refuse != "":
		bad(w.refuse)
		return
	case form.Get("resource") != w.URL+"/mcp":
		bad("invalid_target")
		return
	}
	switch form.Get("grant_type") {
	case "authorization_code":
		asked, ok := w.codes[form.Get("code")]
		sum := sha256.Sum256([]byte(form.Get("code_verifier")))
		if !ok || asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) || asked.Get("redirect_uri") != form.Get("redirect_uri") || asked.Get("client_id") != form.Get("client_id") {
			bad("invalid_grant")
			return
		}
		delete(w.codes, form.Get("code"))
	case "refresh_token":
		if form.Get("refresh_token") != w.refresh {
			bad("invalid_grant")
			return
		}
	default:
		bad("unsupported_grant_type")
		return
	}
	w.issued++
	w.access, w.refresh = fmt.Sprintf("access-%d", w.issued), fmt.Sprintf("refresh-%d", w.issued)
	rw.Header().Set("Content-Type", "application/json")
	answer := map[string]any{"access_token": w.access, "refresh_token": w.refresh, "token_type": "bearer"}
	if w.life != "" {
		answer["expires_in"] = json.RawMessage(w.life)
	}
	_ = json.NewEncoder(rw).Encode(answer)
}

// Visit is a browser: it goes where it is sent, on a goroutine of its own.
func (w *world) Visit(address string) {
	w.mu.Lock()
	w.visited = append(w.visited, address)
	w.mu.Unlock()
	go func() {
		resp, err := http.Get(address)
		if err != nil {
			w.t.Errorf("the browser: %v", err)
			return
		}
		_ = resp.Body.Close()
	}()
}

func (w *world) Pasted(context.Context) <-chan string { return nil }

func (w *world) login(s Server) (Status, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	return w.client().Login(ctx, s, w)
}

func (w *world) mustLogin() {
	w.t.Helper()
	if _, err := w.login(w.server()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func TestLogin(t *testing.T) {
	w := newWorld(t)
	st, err := w.login(w.server())
	if err != nil {
		t.Fatal(err)
	}
	if !st.SignedIn || !st.Renews || st.Issuer != w.URL+"/as" || !st.Expires.Equal(w.clock().Add(time.Hour)) {
		t.Errorf("got %+v", st)
	}
	asked, err := url.Parse(w.visited[0])
	if err != nil {
		t.Fatal(err)
	}
	q := asked.Query()
	for name, want := range map[string]string{"response_type": "code", "code_challenge_method": "S256", "resource": w.URL + "/mcp", "scope": "files:read offline_access", "tenant": "1", "client_id": "client-1"} {
		if q.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, q.Get(name), want)
		}
	}
	if redirect := q.Get("redirect_uri"); !strings.HasPrefix(redirect, "http://127.0.0.1:") || !strings.HasSuffix(redirect, "/callback") {
		t.Errorf("redirect is %s", redirect)
	}
	if got, err := w.client().Session(w.server()).Authorize(t.Context(), "", ""); err != nil || got != "Bearer access-1" {
		t.Errorf("got %q, %v", got, err)
	}
	entries, err := os.ReadDir(w.dir)
	if err != nil || len(entries) == 0 {
		t.Fatal(entries, err)
	}
	for _, e := range entries {
		if b, _ := os.ReadFile(filepath.Join(w.dir, e.Name())); strings.Contains(string(b), "access-1") || strings.Contains(string(b), "refresh-1") {
			t.Errorf("%s has a token in the clear", e.Name())
		}
	}
	w.mustLogin() // again, with the port and the registration of before
	if w.register != 1 {
		t.Errorf("registered %d times, want once", w.register)
	}
}

func TestATokenBelongsToOneAddress(t *testing.T) {
	w := newWorld(t)
	w.mustLogin()
	for _, other := range []string{"https://other.test/mcp", w.URL + "/other", strings.Replace(w.URL, "127.0.0.1", "localhost", 1) + "/mcp"} {
		s := Server{Alias: "files", URL: other}
		if got, err := w.client().Session(s).Authorize(t.Context(), "", ""); err != nil || got != "" {
			t.Errorf("%s gets %q, %v", other, got, err)
		}
		if st, err := w.client().Status(s); err != nil || st.SignedIn {
			t.Errorf("%s: got %+v, %v", other, st, err)
		}
	}
}

func TestRenewal(t *testing.T) {
	w := newWorld(t)
	w.mustLogin()
	s := w.client().Session(w.server())
	w.now.Add(3600 - 61)
	if got, err := s.Authorize(t.Context(), "", ""); err != nil || got != "Bearer access-1" {
		t.Errorf("61 s before its end: got %q, %v", got, err)
	}
	w.now.Add(2)
	if got, err := s.Authorize(t.Context(), "", ""); err != nil || got != "Bearer access-2" {
		t.Errorf("59 s before its end: got %q, %v", got, err)
	}
	if form := w.forms[1]; form.Get("resource") != w.URL+"/mcp" || form.Get("refresh_token") != "refresh-1" || form.Get("client_id") != "client-1" {
		t.Errorf("the token endpoint got %v", form)
	}
	// A provider that is away for a moment does not matter as long as the token holds.
	w.now.Add(3600 - 30)
	w.set(func() { w.status = http.StatusBadGateway })
	if got, err := s.Authorize(t.Context(), "", ""); err != nil || got != "Bearer access-2" {
		t.Errorf("got %q, %v", got, err)
	}
	w.now.Add(31)
	var needed *NeededError
	if _, err := s.Authorize(t.Context(), "", ""); err == nil || errors.As(err, &needed) || !strings.HasSuffix(err.Error(), "the token endpoint answers HTTP 502; a call after 5s tries again") {
		t.Errorf("got %v, want an error that is about the provider", err)
	}
	asked := len(w.forms)
	w.now.Add(2)
	if _, err := s.Authorize(t.Context(), "Bearer", "Bearer access-2"); err == nil || len(w.forms) != asked || !strings.HasSuffix(err.Error(), "a call after 3s tries again") {
		t.Errorf("a renewal that just failed is tried again (%v)", err)
	}
	w.set(func() { w.status = 0 })
	w.now.Add(4)
	if got, err := s.Authorize(t.Context(), "", ""); err != nil || got != "Bearer access-3" {
		t.Errorf("got %q, %v", got, err)
	}
}

// The life of a token is said in other ways than as a whole number.
func TestTheLifeOfAToken(t *testing.T) {
	for said, want := range map[string]time.Duration{
		`3600`: time.Hour, `"3600"`: time.Hour, `3600.9`: time.Hour, `"3600.9"`: time.Hour, `3.6e3`: time.Hour,
		`0`: 0, `null`: 0, ``: 0, `1000000000000`: 0,
	} {
		w := newWorld(t)
		w.life = said
		w.mustLogin()
		st, err := w.client().Status(w.server())
		if got := st.Expires; err != nil || (want == 0) != got.IsZero() || want != 0 && !got.Equal(w.clock().Add(want)) {
			t.Errorf("%s: until %v, %v", said, got, err)
		}
	}
}

func TestARefusedTokenIsRenewedOnce(t *testing.T) {
	w := newWorld(t)
	w.mustLogin()
	w.set(func() { w.access = "revoked" })
	sessions := []*Session{w.client().Session(w.server()), w.client().Session(w.server())} // two processes
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if got, err := sessions[i%2].Authorize(t.Context(), `Bearer error="invalid_token"`, "Bearer access-1"); err != nil || got != "Bearer access-2" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	wg.Wait()
	if len(w.forms) != 2 || len(w.visited) != 1 {
		t.Errorf("%d token requests and %d visits, want 2 and 1", len(w.forms), len(w.visited))
	}
	// A server that refuses the new one too does not make the gate ask for ever.
	for _, left := range []string{"10s", "9s", "8s"} {
		got, err := sessions[0].Authorize(t.Context(), "Bearer", "Bearer access-2")
		var needed *NeededError
		if !errors.As(err, &needed) || !strings.Contains(err.Error(), "a call after "+left+" asks for another") {
			t.Errorf("got %q, %v for a token that was just renewed", got, err)
		}
		w.now.Add(1)
	}
	if len(w.forms) != 2 {
		t.Errorf("%d token requests, want 2", len(w.forms))
	}
	w.now.Add(7)
	if got, err := sessions[0].Authorize(t.Context(), "Bearer", "Bearer access-2"); err != nil || got != "Bearer access-3" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestASignInThatIsOver(t *testing.T) {
	w := newWorld(t)
	s := w.client().Session(w.server())
	if got, err := s.Authorize(t.Context(), "", ""); err != nil || got != "" {
		t.Errorf("before: got %q, %v", got, err)
	}
	var needed *NeededError
	if _, err := s.Authorize(t.Context(), "Bearer", ""); !errors.As(err, &needed) || !strings.Contains(err.Error(), "mcp-gate auth login files") {
		t.Errorf("before: got %v", err)
	}
	w.mustLogin()
	w.now.Add(60)
	w.set(func() { w.refuse = "invalid_grant" })
	for range 2 {
		if _, err := s.Authorize(t.Context(), "Bearer", "Bearer access-1"); !errors.As(err, &needed) {
			t.Errorf("got %v", err)
		}
	}
	if len(w.forms) != 2 {
		t.Errorf("%d token requests, want 2: a refused one is not shown again", len(w.forms))
	}
	if st, err := w.client().Status(w.server()); err != nil || st.SignedIn {
		t.Errorf("got %+v, %v", st, err)
	}
	// A person signs in again while the session lives.
	w.set(func() { w.refuse = "" })
	w.mustLogin()
	if got, err := s.Authorize(t.Context(), "", ""); err != nil || got != "Bearer access-2" {
		t.Errorf("got %q, %v", got, err)
	}
	had, err := w.client().Logout(t.Context(), w.server())
	if err != nil || !had || len(w.revoked) != 1 || w.revoked[0].Get("token") != "refresh-2" {
		t.Errorf("got %v, %v, revoked %v", had, err, w.revoked)
	}
	if got, err := s.Authorize(t.Context(), "", ""); err != nil || got != "" {
		t.Errorf("after: got %q, %v", got, err)
	}
}

// A scope that a server asks for later is asked for at the next sign-in, beside
// what there was. A person is sent there once: what was granted and is refused all
// the same is for somebody else to settle.
func TestAScopeThatIsAskedForLater(t *testing.T) {
	w := newWorld(t)
	w.mustLogin()
	s := w.client().Session(w.server())
	const more = `Bearer error="insufficient_scope", scope="files:write", resource_metadata="https://as.test/x"`
	var needed *NeededError
	for range 2 {
		if _, err := s.Authorize(t.Context(), more, "Bearer access-1"); !errors.As(err, &needed) || !strings.Contains(err.Error(), "files:write") || !strings.Contains(err.Error(), "auth login files") {
			t.Errorf("got %v", err)
		}
	}
	if got, err := s.Authorize(t.Context(), "", ""); err != nil || got != "Bearer access-1" {
		t.Errorf("what needs no more scope gets %q, %v", got, err)
	}
	w.mustLogin()
	if q, _ := url.Parse(w.visited[1]); q.Query().Get("scope") != "files:read offline_access files:write" {
		t.Errorf("asked for %s", w.visited[1])
	}
	if got, err := s.Authorize(t.Context(), more, "Bearer access-1"); err != nil || got != "Bearer access-2" {
		t.Errorf("a request that was refused before the sign-in gets %q, %v", got, err)
	}
	for challenge, want := range map[string]string{more: "may not do this", `Bearer error="insufficient_scope"`: "--scope"} {
		if _, err := s.Authorize(t.Context(), challenge, "Bearer access-2"); err == nil || errors.As(err, &needed) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", challenge, err)
		}
	}
	if len(w.forms) != 2 {
		t.Errorf("%d token requests, want 2: a renewal brings no scope", len(w.forms))
	}
	// The owner's list is the end of it.
	narrow := w.server()
	narrow.Scopes = []string{"files:read"}
	if _, err := w.client().Session(narrow).Authorize(t.Context(), more, "Bearer access-2"); err == nil || errors.As(err, &needed) || !strings.Contains(err.Error(), "auth.scopes") {
		t.Errorf("got %v", err)
	}
}

func TestHostileMetadata(t *testing.T) {
	const evil = "http://evil.test"
	for name, c := range map[string]struct {
		edit func(*world)
		want string
	}{
		"a script as the page to sign in at":    {func(w *world) { w.issuer["authorization_endpoint"] = "javascript:alert(1)" }, "https://"},
		"a file":                                {func(w *world) { w.issuer["authorization_endpoint"] = "file:///etc/passwd" }, "https://"},
		"a command in the path":                 {func(w *world) { w.issuer["authorization_endpoint"] = w.URL + "/$(calc.exe)" }, "does not belong"},
		"a quote in the path":                   {func(w *world) { w.issuer["authorization_endpoint"] = w.URL + "/a'b" }, "does not belong"},
		"an option":                             {func(w *world) { w.issuer["authorization_endpoint"] = "--help" }, "https://"},
		"a password":                            {func(w *world) { w.issuer["authorization_endpoint"] = "https://u:p@evil.test/" }, "name or password"},
		"plain http elsewhere":                  {func(w *world) { w.issuer["authorization_endpoint"] = evil + "/a" }, "want https"},
		"plain http for tokens":                 {func(w *world) { w.issuer["token_endpoint"] = evil + "/t" }, "want https"},
		"no page at all":                        {func(w *world) { delete(w.issuer, "authorization_endpoint") }, "https://"},
		"another issuer":                        {func(w *world) { w.issuer["issuer"] = "https://evil.test" }, "describes itself as another"},
		"no PKCE":                               {func(w *world) { delete(w.issuer, "code_challenge_methods_supported") }, "PKCE"},
		"only plain PKCE":                       {func(w *world) { w.issuer["code_challenge_methods_supported"] = []string{"plain"} }, "PKCE"},
		"a description from elsewhere":          {func(w *world) { w.challenge = `Bearer resource_metadata="https://evil.test/x"` }, "another origin"},
		"a description from this machine":       {func(w *world) { w.challenge = `Bearer resource_metadata="http://127.0.0.1:1/x"` }, "another origin"},
		"a description by a script":             {func(w *world) { w.challenge = `Bearer resource_metadata="javascript:x"` }, "https://"},
		"another resource":                      {func(w *world) { w.resource["resource"] = "https://evil.test/mcp" }, "another resource"},
		"a resource beside this one":            {func(w *world) { w.resource["resource"] = w.URL + "/mc" }, "another resource"},
		"no authorization server":               {func(w *world) { w.resource["authorization_servers"] = []string{} }, "names no authorization server"},
		"an authorization server by a script":   {func(w *world) { w.resource["authorization_servers"] = []string{"data:text/html,x"} }, "https://"},
		"an answer from another issuer":         {func(w *world) { w.answerISS = "https://evil.test" }, "another issuer"},
		"an answer that names no issuer":        {func(w *world) { w.answerISS = "" }, "does not say who it is from"},
		"a refusal":                             {func(w *world) { w.answerErr = "access_denied" }, "access_denied"},
		"no registration":                       {func(w *world) { delete(w.issuer, "registration_endpoint") }, "auth.client_id"},
		"a token endpoint that refuses":         {func(w *world) { w.refuse = "invalid_client" }, "invalid_client"},
		"a redirect of the description":         {redirectTo("/.well-known/oauth-protected-resource/mcp", "http://127.0.0.1:1/x"), "another origin"},
		"a redirect of the token endpoint":      {redirectTo("/as/token", "/steal"), "HTTP 307"},
		"a redirect of the registration":        {redirectTo("/as/register", "/steal"), "HTTP 307"},
		"a description without end":             {endless("/.well-known/oauth-protected-resource/mcp"), "larger than"},
		"a description with a key twice":        {double("/.well-known/oauth-authorization-server/as"), "not JSON that can be relied on"},
		"a description that redirects for ever": {redirectTo("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource/mcp"), "redirects"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.set(func() { c.edit(w) })
			_, err := w.login(w.server())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if strings.Contains(fmt.Sprint(err), "code-1") || strings.Contains(fmt.Sprint(err), "access-") {
				t.Errorf("the error has a secret in it: %v", err)
			}
			if st, err := w.client().Status(w.server()); err != nil || st.SignedIn {
				t.Errorf("got %+v, %v", st, err)
			}
		})
	}
}

func redirectTo(path, to string) func(*world) {
	return func(w *world) {
		w.redirect = func(rw http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/steal" {
				w.t.Errorf("what was posted is posted again to %s", r.URL)
			}
			if r.URL.Path == path {
				http.Redirect(rw, r, to, http.StatusTemporaryRedirect)
			}
			return r.URL.Path == path
		}
	}
}

func endless(path string) func(*world) {
	return func(w *world) {
		w.redirect = func(rw http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == path {
				_, _ = rw.Write([]byte(`{"x":"` + strings.Repeat("x", maxBody) + `"}`))
			}
			return r.URL.Path == path
		}
	}
}

func double(path string) func(*world) {
	return func(w *world) {
		w.redirect = func(rw http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == path {
				_, _ = io.WriteString(rw, `{"issuer":"a","issuer":"b"}`)
			}
			return r.URL.Path == path
		}
	}
}

func TestAServerThatNeedsNoSignIn(t *testing.T) {
	w := newWorld(t)
	w.set(func() {
		w.redirect = func(rw http.ResponseWriter, r *http.Request) bool { _, _ = io.WriteString(rw, "{}"); return true }
	})
	if _, err := w.login(w.server()); !errors.Is(err, errOpen) {
		t.Errorf("got %v", err)
	}
	for _, address := range []string{"http://example.test/mcp", "ftp://x", "://", "http://10.0.0.1/mcp"} {
		if _, err := w.login(Server{Alias: "x", URL: address}); err == nil {
			t.Errorf("%s is signed in to", address)
		}
	}
}

func TestAnOlderServerStandsForItsOwnProvider(t *testing.T) {
	w := newWorld(t)
	w.set(func() {
		w.challenge, w.resource, w.answerISS = "", nil, w.URL
		w.issuer["issuer"] = w.URL
		w.redirect = func(rw http.ResponseWriter, r *http.Request) bool {
			is := r.URL.Path == "/.well-known/oauth-authorization-server"
			if is {
				w.document(rw, w.issuer)
			}
			return is
		}
	})
	if st, err := w.login(w.server()); err != nil || st.Issuer != w.URL {
		t.Errorf("got %+v, %v", st, err)
	}
}

func TestAClientThatTheOwnerRegistered(t *testing.T) {
	for name, c := range map[string]struct {
		methods []string
		inForm  bool
	}{"basic": {[]string{"client_secret_basic"}, false}, "nothing said": {nil, false}, "post": {[]string{"client_secret_post"}, true}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.set(func() { w.issuer["token_endpoint_auth_methods_supported"] = c.methods })
			s := w.server()
			s.ClientID, s.ClientSecret, s.Scopes = "mine", "s3cret", []string{"one", "two"}
			var basic string
			w.set(func() {
				w.redirect = func(_ http.ResponseWriter, r *http.Request) bool {
					if r.URL.Path == "/as/token" {
						id, secret, _ := r.BasicAuth()
						basic = id + ":" + secret
					}
					return false
				}
			})
			_, err := w.login(s)
			if c.inForm {
				if err != nil || w.forms[0].Get("client_secret") != "s3cret" {
					t.Errorf("got %v, %v", err, w.forms)
				}
			} else if basic != "mine:s3cret" {
				t.Errorf("got %q, %v", basic, err)
			}
			if w.register != 0 || !strings.Contains(w.visited[0], "scope=one+two") || strings.Contains(w.visited[0], "s3cret") {
				t.Errorf("registered %d times, visited %v", w.register, w.visited)
			}
		})
	}
}

// The page that a browser comes back to takes nothing but the answer it waits for.
func TestCallback(t *testing.T) {
	b, err := listen(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	get := func(method, address, host string) int {
		r, err := http.NewRequestWithContext(t.Context(), method, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	if got := get("GET", b.redirect+"?state=s&code=c", ""); got != 400 {
		t.Errorf("before anything is expected: %d", got)
	}
	b.expect("s", provider{Issuer: "https://as.test"})
	for _, c := range []struct {
		method, query, host string
		want                int
	}{
		{"GET", "?state=wrong&code=c", "", 400}, {"GET", "", "", 400}, {"POST", "?state=s&code=c", "", 404}, {"GET", "?state=s&code=c", "evil.test", 404},
		{"GET", "?state=s&code=c", "", 200}, {"GET", "?state=s&code=c2", "", 400},
	} {
		if got := get(c.method, b.redirect+c.query, c.host); got != c.want {
			t.Errorf("%s %s for %q: got %d, want %d", c.method, c.query, c.host, got, c.want)
		}
	}
	if o := <-b.result; o.code != "c" || o.err != nil {
		t.Errorf("got %+v", o)
	}
}

// paster is a person whose browser is on another machine.
type paster struct {
	w    *world
	line chan string
}

func (p paster) Visit(address string) {
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Get(address)
	if err != nil {
		p.w.t.Error(err)
		return
	}
	_ = resp.Body.Close()
	p.line <- "what is this?"
	p.line <- " " + resp.Header.Get("Location") + "\n"
}

func (p paster) Pasted(context.Context) <-chan string { return p.line }

func TestTheAnswerMayBePasted(t *testing.T) {
	w := newWorld(t)
	st, err := w.client().Login(t.Context(), w.server(), paster{w, make(chan string, 2)})
	if err != nil || !st.SignedIn {
		t.Errorf("got %+v, %v", st, err)
	}
}

func TestNobodyComesBack(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := w.client().Login(ctx, w.server(), idle(cancel))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

type idle context.CancelFunc

func (f idle) Visit(string)                         { f() }
func (f idle) Pasted(context.Context) <-chan string { return nil }

func TestWhatIsHandedToABrowser(t *testing.T) {
	for _, address := range []string{
		"javascript:alert(1)", "file:///etc/passwd", "-h", "--help", " https://a.test", "https://a.test/`id`", "https://a.test/$(id)", "https://a.test/;id", "https://a.test/|id",
		"https://a.test/?q='", "https://a.test/?q=\"", "https://a.test/?a=b;c", "https://a.test/?q=$(id)", "https://a.test/\n", "https://-x.test/", "https://a b/", "ssh://a.test", "https:a", "//a.test", "https://u:p@a.test/", "https://a.test/#x", "",
		"vscode://x", "https://a.test\\@b.test/", "ms-msdt:/id",
	} {
		for _, goos := range []string{"linux", "darwin", "windows"} {
			if words, err := Browser(goos, address); err == nil {
				t.Errorf("%q is opened by %q", address, words)
			}
		}
	}
	const good = "https://as.test/authorize?client_id=a&redirect_uri=http%3A%2F%2F127.0.0.1%3A1%2Fcallback&scope=a+b"
	for goos, want := range map[string]string{"linux": "xdg-open", "darwin": "open", "windows": "rundll32"} {
		words, err := Browser(goos, good)
		if err != nil || words[0] != want || words[len(words)-1] != good {
			t.Errorf("%s: got %q, %v", goos, words, err)
		}
	}
}

func TestWhereMetadataMayLead(t *testing.T) {
	for _, c := range []struct {
		near nearness
		ip   string
		want bool
	}{
		{public, "93.184.216.34", true}, {public, "2606:4700::1111", true},
		{public, "127.0.0.1", false}, {public, "::1", false}, {public, "::ffff:127.0.0.1", false}, {public, "10.1.2.3", false}, {public, "192.168.0.1", false}, {public, "172.16.0.1", false},
		{public, "fd00:ec2::254", false}, {public, "169.254.169.254", false}, {public, "::ffff:169.254.169.254", false}, {public, "fe80::1", false}, {public, "0.0.0.0", false}, {public, "::", false}, {public, "100.64.0.1", false}, {public, "64:ff9b::7f00:1", false},
		{public, "224.0.0.1", false}, {public, "255.255.255.255", false}, {public, "2002:7f00:1::", false},
		{private, "10.1.2.3", true}, {private, "127.0.0.1", false}, {private, "169.254.169.254", false},
		{loopback, "127.0.0.1", true}, {loopback, "::1", true}, {loopback, "169.254.169.254", false}, {loopback, "10.0.0.1", true},
	} {
		g := &guard{near: c.near}
		if err := g.allowed(netip.MustParseAddr(c.ip)); (err == nil) != c.want {
			t.Errorf("%s from nearness %d: got %v, want allowed=%v", c.ip, c.near, err, c.want)
		}
	}
	// The same, where a name leads to this machine: the address counts, not the name.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // a listener nobody uses
	server, _ := url.Parse("https://203.0.113.1/mcp")
	g := newGuard(t.Context(), server, nil)
	at, _ := url.Parse("http://localhost:" + strings.Split(l.Addr().String(), ":")[1] + "/x")
	if _, err := g.document(t.Context(), at); err == nil || !strings.Contains(err.Error(), "this machine") {
		t.Errorf("got %v", err)
	}
}

func TestChallenge(t *testing.T) {
	for header, want := range map[string]challenge{
		`Bearer`: {}, `Bearer resource_metadata="https://a.test/x"`: {metadata: "https://a.test/x"},
		`Basic realm="x", Bearer realm="resource_metadata=no",resource_metadata=https://a.test/y`: {metadata: "https://a.test/y"},
		`Bearer scope="a b", Resource_Metadata = "u"`:                                             {metadata: "u", scopes: []string{"a", "b"}},
	} {
		if got := parseChallenge([]string{header}); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got %+v, want %+v", header, got, want)
		}
	}
}

func FuzzMetadata(f *testing.F) {
	f.Add(`Bearer resource_metadata="http://127.0.0.1/x", scope="a"`, `{"issuer":"http://127.0.0.1","authorization_endpoint":"https://a.test/x?y='","code_challenge_methods_supported":["S256"]}`)
	server, _ := url.Parse("https://a.test/mcp")
	g := &guard{server: server, near: public}
	f.Fuzz(func(t *testing.T, header, doc string) {
		ch := parseChallenge([]string{header})
		for _, s := range ch.scopes {
			if strings.ContainsAny(s, "\" \n") {
				t.Errorf("scope %q", s)
			}
		}
		var d serverDoc
		if json.Unmarshal([]byte(doc), &d) != nil {
			return
		}
		p, err := g.checked(d, d.Issuer)
		if err != nil {
			return
		}
		if p.Authorization.Scheme != "https" || p.Token.Scheme != "https" {
			t.Errorf("got %v %v", p.Authorization, p.Token)
		}
		if err := Openable(clean(p.Authorization)); err != nil {
			t.Errorf("%s passed and is not opened: %v", p.Authorization, err)
		}
	})
}
