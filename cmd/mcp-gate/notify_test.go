package main

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-gate/mcp-gate/config"
	"github.com/mcp-gate/mcp-gate/engagement"
)

// receiver is an address that notices are posted to.
type receiver struct {
	*httptest.Server
	statuses []int // of the answers, in order; then 200
	got      chan *http.Request
	bodies   chan []byte
}

func newReceiver(t *testing.T, statuses ...int) *receiver {
	r := &receiver{statuses: statuses, got: make(chan *http.Request, 10), bodies: make(chan []byte, 10)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		r.got <- req
		r.bodies <- body
		if len(r.statuses) > 0 {
			status := r.statuses[0]
			r.statuses = r.statuses[1:]
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func hook(t *testing.T, address string) *webhook {
	t.Helper()
	w, err := newWebhook(address, config.Home{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	w.backoff = time.Microsecond
	w.now = func() time.Time { return noon }
	return w
}

func TestWebhookIsSignedAndTellsNoContents(t *testing.T) {
	r := newReceiver(t)
	w := hook(t, r.URL)
	q := ticket("a", "delete_file", engagement.Destructive, `{"path":"secret.txt"}`)
	q.View.GoesTo = "api.example.com"
	if err := w.tell(t.Context(), noticeOf(q)); err != nil {
		t.Fatal(err)
	}
	req, body := <-r.got, <-r.bodies
	var doc map[string]any
	if err := json.Unmarshal(body, &doc); err != nil {
		t.Fatal(err)
	}
	want := `{"schema":"mcp-gate/waiting/v1","ticket":"` + q.ID + `","tool":"files/delete_file","class":"destructive","level":"L1","expires":"2026-08-02T11:00:00Z"}`
	if string(body) != want {
		t.Errorf("posted %s, want %s", body, want)
	}
	mac := hmac.New(sha256.New, w.key)
	mac.Write([]byte(req.Header.Get("Mcp-Gate-Timestamp") + "." + string(body)))
	if got := req.Header.Get("Mcp-Gate-Signature"); got != "sha256="+hex.EncodeToString(mac.Sum(nil)) {
		t.Errorf("signature %q does not fit", got)
	}
}

func TestWebhookTriesAgainWhereThatMayHelp(t *testing.T) {
	for _, c := range []struct {
		statuses []int
		attempts int
		ok       bool
	}{
		{[]int{500}, 2, true},
		{[]int{503, 429}, 3, true},
		{[]int{500, 502, 503}, 3, false},
		{[]int{404}, 1, false},
		{[]int{302}, 1, false}, // nobody is followed elsewhere
	} {
		r := newReceiver(t, c.statuses...)
		err := hook(t, r.URL).tell(t.Context(), noticeOf(ticket("a", "x", engagement.Read, "")))
		if (err == nil) != c.ok || len(r.got) != c.attempts {
			t.Errorf("answers %v: %d attempts, %v; want %d", c.statuses, len(r.got), err, c.attempts)
		}
	}
}

// An address may hold a secret; what is logged about it must not.
func TestWebhookErrorsDoNotTellTheAddress(t *testing.T) {
	r := newReceiver(t)
	r.Close()
	err := hook(t, r.URL+"/hook/s3cret").tell(t.Context(), noticeOf(ticket("a", "x", engagement.Read, "")))
	if err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("have %v", err)
	}
}

func TestWebhookKeyIsMadeOnce(t *testing.T) {
	home := config.Home{Dir: t.TempDir()}
	first, err := newWebhook("https://example.org", home)
	if err != nil {
		t.Fatal(err)
	}
	second, err := newWebhook("https://example.org", home)
	if err != nil || string(first.key) != string(second.key) {
		t.Errorf("a second gate has another key: %v", err)
	}
	path := filepath.Join(home.Keys(), webhookKeyFile)
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if err := os.WriteFile(path, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := webhookKey(path, rand.Reader); err == nil {
		t.Error("a key of five letters is taken")
	}
	for _, address := range []string{"", "example.org", "ftp://example.org", "https://", "://"} {
		if _, err := newWebhook(address, home); err == nil {
			t.Errorf("%q is taken for an address", address)
		}
	}
}

// blocked is a teller that waits until it is let go.
type blocked struct {
	begun chan string
	free  chan struct{}
}

func (b *blocked) tell(ctx context.Context, n notice) error {
	b.begun <- n.Ticket
	select {
	case <-b.free:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestNotifierNeverBlocksTheCall(t *testing.T) {
	b := &blocked{begun: make(chan string), free: make(chan struct{})}
	n := &notifier{queue: make(chan notice, 2), tellers: []teller{b}, log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- n.Run(ctx) }()
	q := ticket("a", "x", engagement.Read, "")
	n.Waiting(q)
	<-b.begun
	for range 100 { // two are queued, the others are dropped, and nobody waits
		n.Waiting(q)
	}
	cancel()
	close(b.free)
	for range 2 { // what is queued is told of, even at the end
		if got := <-b.begun; got != q.ID {
			t.Errorf("told of %q", got)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestNotifierIsWhatTheOwnerAskedFor(t *testing.T) {
	home, log := config.Home{Dir: t.TempDir()}, slog.New(slog.DiscardHandler)
	if n, err := newNotifier(config.Notify{}, home, log); n != nil || err != nil {
		t.Errorf("nothing was asked for: %v, %v", n, err)
	}
	n, err := newNotifier(config.Notify{Webhook: "https://example.org/x"}, home, log)
	if err != nil || len(n.tellers) != 1 {
		t.Errorf("one was asked for: %+v, %v", n, err)
	}
	var code *exitError
	if _, err := newNotifier(config.Notify{Webhook: "nowhere"}, home, log); !errors.As(err, &code) || code.code != exitUsage {
		t.Errorf("a bad address: %v", err)
	}
}

func TestDesktopNotices(t *testing.T) {
	found := func(name string) (string, error) { return "/bin/" + name, nil }
	for system, want := range map[string]string{"linux": "/bin/notify-send", "freebsd": "/bin/notify-send", "darwin": "/bin/osascript"} {
		d, err := newDesktop(system, found)
		if err != nil || d.command != want {
			t.Errorf("%s: %+v, %v", system, d, err)
			continue
		}
		// A hostile name stays one argument and never becomes an option.
		args := d.args("mcp-gate", `--" & (do shell script "x")`)
		if at := slices.Index(args, `--" & (do shell script "x")`); at != len(args)-1 {
			t.Errorf("%s: %q", system, args)
		}
	}
	if _, err := newDesktop("windows", found); err == nil {
		t.Error("Windows has no command for it")
	}
	missing := func(string) (string, error) { return "", os.ErrNotExist }
	if _, err := newDesktop("linux", missing); err == nil {
		t.Error("a desktop without the command")
	}
}
