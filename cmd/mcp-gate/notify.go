package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-gate/mcp-gate/config"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/inbox"
	"github.com/mcp-gate/mcp-gate/internal/durable"
)

// How a person is told that something waits.
const (
	noticesQueued  = 64               // beyond it notices are dropped: the inbox has them all
	noticeAttempts = 3                // of a webhook
	noticeTimeout  = 10 * time.Second // of one attempt
	noticeBackoff  = time.Second      // before the second attempt, doubled before the third
	noticeDrain    = 3 * time.Second  // for what is queued when the gate ends
)

// notice is what leaves the gate about a question: nothing of its contents,
// since others relay it.
type notice struct {
	Schema  string                `json:"schema"`
	Ticket  string                `json:"ticket"`
	Tool    string                `json:"tool"`
	Class   engagement.Permission `json:"class"`
	Level   inbox.Level           `json:"level"`
	Expires time.Time             `json:"expires"`

	line string // for a person, in one line
}

func noticeOf(t inbox.Ticket) notice {
	return notice{
		Schema: "mcp-gate/waiting/v1", Ticket: t.ID, Tool: t.View.Tool.String(), Class: t.View.Class, Level: t.Level,
		Expires: t.Binding.Expires, line: t.View.Notice(),
	}
}

// teller is one way to tell a person.
type teller interface {
	tell(ctx context.Context, n notice) error
}

// notifier tells a person of questions, beside the calls that ask them. It is
// the inbox's Notifier: a question is queued and never waits. Run it beside
// the gate.
type notifier struct {
	queue   chan notice
	tellers []teller
	log     *slog.Logger
}

// newNotifier returns what the configuration asks for: nil where that is
// nothing.
func newNotifier(cfg config.Notify, home config.Home, log *slog.Logger) (*notifier, error) {
	n := &notifier{queue: make(chan notice, noticesQueued), log: log}
	if cfg.Desktop {
		d, err := newDesktop(runtime.GOOS, exec.LookPath)
		if err != nil {
			log.Warn("there will be no notices on this desktop", "error", err)
		} else {
			n.tellers = append(n.tellers, d)
		}
	}
	if cfg.Webhook != "" {
		w, err := newWebhook(cfg.Webhook, home)
		if err != nil {
			return nil, usage(fmt.Errorf("approval.notify.webhook: %w", err))
		}
		n.tellers = append(n.tellers, w)
	}
	if n.tellers == nil {
		return nil, nil
	}
	return n, nil
}

// Waiting implements [inbox.Notifier].
func (n *notifier) Waiting(t inbox.Ticket) {
	select {
	case n.queue <- noticeOf(t):
	default:
		n.log.Warn("too many questions to tell of each", "ticket", t.ID)
	}
}

// Run tells of what is queued until ctx ends, then of what is left, for a
// moment: a command that ends at once with a question is told of too.
func (n *notifier) Run(ctx context.Context) error {
	for {
		select {
		case q := <-n.queue:
			n.tellAll(ctx, q)
			continue
		case <-ctx.Done():
		}
		break
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), noticeDrain)
	defer cancel()
	for {
		select {
		case q := <-n.queue:
			n.tellAll(last, q)
		default:
			return nil
		}
	}
}

func (n *notifier) tellAll(ctx context.Context, q notice) {
	for _, t := range n.tellers {
		if err := t.tell(ctx, q); err != nil {
			n.log.Warn("nobody could be told of a question", "ticket", q.Ticket, "error", err)
		}
	}
}

// desktop shows a notice by the desktop's own command, which every desktop has
// or that is one package away; a library would bring D-Bus and toast bindings
// for one line of text.
type desktop struct {
	command string
	args    func(title, text string) []string
}

func newDesktop(system string, find func(string) (string, error)) (*desktop, error) {
	name, args := "notify-send", func(title, text string) []string {
		return []string{"--app-name=mcp-gate", "--", title, text}
	}
	switch system {
	case "darwin":
		name, args = "osascript", func(title, text string) []string {
			// The words are arguments, never a part of the script.
			return []string{"-e", "on run argv", "-e", "display notification (item 2 of argv) with title (item 1 of argv)", "-e", "end run", title, text}
		}
	case "windows":
		return nil, errors.New("there is no command for that on Windows: a webhook can tell you")
	}
	command, err := find(name)
	if err != nil {
		return nil, fmt.Errorf("show a notice: %w", err)
	}
	return &desktop{command, args}, nil
}

func (d *desktop) tell(ctx context.Context, n notice) error {
	ctx, cancel := context.WithTimeout(ctx, noticeTimeout)
	defer cancel()
	text := strings.NewReplacer("<", "‹", ">", "›", "&", "+").Replace(n.line) // some desktops read markup
	out, err := exec.CommandContext(ctx, d.command, d.args("mcp-gate", text)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("show a notice: %w: %.200s", err, inbox.DisplayLine(string(out)))
	}
	return nil
}

// webhook posts notices to an address, signed with a key that the receiver
// shares.
type webhook struct {
	url     string
	key     []byte
	client  *http.Client
	backoff time.Duration
	now     func() time.Time
}

const webhookKeyFile = "webhook.key"

func newWebhook(address string, home config.Home) (*webhook, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, errors.New("want an address that begins with https:// or http://")
	}
	key, err := webhookKey(filepath.Join(home.Keys(), webhookKeyFile), rand.Reader)
	if err != nil {
		return nil, err
	}
	return &webhook{url: address, key: key, backoff: noticeBackoff, now: time.Now, client: &http.Client{
		Timeout: noticeTimeout,
		// What answers elsewhere is not whom the owner named.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// webhookKey reads the key, 32 bytes in hex, making it where there is none.
func webhookKey(path string, random io.Reader) ([]byte, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if text, err = makeWebhookKey(path, random); err != nil {
			return nil, fmt.Errorf("make the webhook's key: %w", err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the webhook's key: %w", err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) < sha256.Size {
		return nil, fmt.Errorf("read the webhook's key %s: want at least %d bytes in hex", path, sha256.Size)
	}
	return key, nil
}

func makeWebhookKey(path string, random io.Reader) ([]byte, error) {
	key := make([]byte, sha256.Size)
	if _, err := io.ReadFull(random, key); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	// It fails where another gate was first, whose key counts then.
	if err := durable.Create(path, []byte(hex.EncodeToString(key)+"\n")); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.ReadFile(path)
}

// tell posts the notice, up to three times where that may help.
func (w *webhook) tell(ctx context.Context, n notice) error {
	body, err := json.Marshal(n)
	if err != nil {
		return err
	}
	pause := w.backoff
	for attempt := 1; ; attempt++ {
		again, err := w.post(ctx, body)
		if err == nil {
			return nil
		}
		if !again || attempt == noticeAttempts {
			return fmt.Errorf("post a notice, attempt %d: %w", attempt, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("post a notice, attempt %d: %w", attempt, err)
		case <-time.After(pause):
			pause *= 2
		}
	}
}

// post makes one attempt and reports whether another one may do better.
func (w *webhook) post(ctx context.Context, body []byte) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	at := strconv.FormatInt(w.now().Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "mcp-gate")
	req.Header.Set("Mcp-Gate-Timestamp", at)
	req.Header.Set("Mcp-Gate-Signature", "sha256="+hex.EncodeToString(w.sign(at, body)))
	resp, err := w.client.Do(req)
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // without the address: it may hold a secret
	}
	if err != nil {
		return true, err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection is kept
	resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests, fmt.Errorf("answered %s", resp.Status)
	}
	return false, nil
}

// sign is the HMAC-SHA-256 of the time, a dot and the body, so that an old
// notice cannot be posted again.
func (w *webhook) sign(at string, body []byte) []byte {
	mac := hmac.New(sha256.New, w.key)
	mac.Write([]byte(at + "."))
	mac.Write(body)
	return mac.Sum(nil)
}
