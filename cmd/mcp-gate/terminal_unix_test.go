//go:build unix

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/config"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/inbox"
)

// terminal runs the command on a pseudo-terminal, as a person's shell does.
type terminal struct {
	t    *testing.T
	ctrl *os.File
	code chan int

	mu   sync.Mutex
	out  bytes.Buffer  // all that was shown; guarded by mu
	more chan struct{} // something was
	at   int           // what [terminal.until] has looked at
}

func onTerminal(t *testing.T, ctx context.Context, args ...string) *terminal {
	t.Helper()
	ctrl, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(ctrl, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	w := &terminal{t: t, ctrl: ctrl, code: make(chan int, 1), more: make(chan struct{}, 1)}
	go func() { // ends when ctrl is closed
		_, _ = io.Copy(w, ctrl)
	}()
	// Its end of the terminal is not closed: a reader of the library may still be
	// about to look at it. Closing ours ends that one too.
	go func() { w.code <- run(ctx, args, tty, tty, tty) }()
	t.Cleanup(func() { ctrl.Close() })
	return w
}

func (w *terminal) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case w.more <- struct{}{}:
	default:
	}
	return w.out.Write(b)
}

// until waits for text after what was waited for before.
func (w *terminal) until(text string) {
	w.t.Helper()
	timeout := time.After(time.Minute)
	for {
		w.mu.Lock()
		got := w.out.String()
		i := strings.Index(got[w.at:], text)
		if i >= 0 {
			w.at += i + len(text)
		}
		w.mu.Unlock()
		if i >= 0 {
			return
		}
		select {
		case <-w.more:
		case <-timeout:
			w.t.Fatalf("the terminal never showed %q, but\n%s", text, got)
		}
	}
}

// insists types a key that may be dead at first, until text is shown.
func (w *terminal) insists(key, text string) {
	w.t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for range 1200 { // a minute
		w.types(key)
		if strings.Contains(w.shown(), text) {
			w.until(text)
			return
		}
		<-again.C
	}
	w.t.Fatalf("%q never leads to %q:\n%s", key, text, w.shown())
}

func (w *terminal) types(text string) {
	w.t.Helper()
	if _, err := w.ctrl.WriteString(text); err != nil {
		w.t.Fatal(err)
	}
}

func (w *terminal) exits(want int) {
	w.t.Helper()
	select {
	case code := <-w.code:
		if code != want {
			w.t.Fatalf("exit %d, want %d:\n%s", code, want, w.shown())
		}
	case <-time.After(time.Minute):
		w.t.Fatalf("the command does not end:\n%s", w.shown())
	}
}

func (w *terminal) shown() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.String()
}

const secret = "correct horse"

// homeWithKey makes a home, at which a person enrolled a key, and a ticket.
func homeWithKey(t *testing.T) (home config.Home, id string) {
	t.Helper()
	home = config.Home{Dir: t.TempDir()}
	w := onTerminal(t, t.Context(), "--home", home.Dir, "approver", "enroll")
	w.until("New passphrase")
	w.types(secret + "\n")
	w.until("The same again")
	w.types(secret + "\n")
	w.exits(0)
	if strings.Contains(w.shown(), secret) {
		t.Errorf("the passphrase was shown:\n%s", w.shown())
	}
	return home, ask(t, home)
}

// ask puts a question into the inbox of the home.
func ask(t *testing.T, home config.Home) string {
	t.Helper()
	s, ring, _, err := openStore(home)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	box, err := inbox.New(inboxOptions(s, ring))
	if err != nil {
		t.Fatal(err)
	}
	asked, err := box.Ask(t.Context(), inbox.Question{
		Binding: inbox.Binding{Server: "sid", Tool: "delete", Definition: "def", Principal: "local", Policy: "pol", Session: "s_" + rand.Text()},
		Args:    json.RawMessage(`{"path":"` + rand.Text() + `"}`),
		View: inbox.View{
			Tool: catalog.ToolID{Server: "files", Tool: "delete"}, Class: engagement.Destructive, Egress: []engagement.Egress{engagement.Metadata},
			Definition: inbox.Definition{State: inbox.DefinitionAccepted, Digest: "def"},
			Rule:       inbox.Rule{Name: "step6", Reason: "the class needs a person."}, Fallback: engagement.FallbackDefer, Level: inbox.L1,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return asked.Ticket.ID
}

func stateOf(t *testing.T, home config.Home, id string) inbox.State {
	t.Helper()
	s, _, _, err := openStore(home)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ticket, err := s.Ticket(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return ticket.State
}

// A person at a real terminal: Enter alone allows nothing, the passphrase does,
// and is never shown.
func TestApproveAtATerminal(t *testing.T) {
	home, id := homeWithKey(t)
	w := onTerminal(t, t.Context(), "--home", home.Dir, "inbox", "approve", id)
	w.until("CANNOT BE UNDONE")
	w.until("Passphrase to ALLOW")
	w.types("\n")
	w.exits(exitWaits)
	if got := stateOf(t, home, id); got != inbox.Pending {
		t.Fatalf("Enter alone made it %v", got)
	}
	w = onTerminal(t, t.Context(), "--home", home.Dir, "inbox", "approve", id)
	w.until("Passphrase to ALLOW")
	w.types(secret + "\n")
	w.until("allowed")
	w.exits(0)
	if strings.Contains(w.shown(), secret) {
		t.Errorf("the passphrase was shown:\n%s", w.shown())
	}
	if got := stateOf(t, home, id); got != inbox.Approved {
		t.Fatalf("the passphrase made it %v", got)
	}
}

// What a person types before a prompt is there is neither lost nor left waiting,
// at the first prompt nor at the next.
func TestTypedAhead(t *testing.T) {
	for range 20 { // the moment at which the line comes is another each time
		home := config.Home{Dir: t.TempDir()}
		w := onTerminal(t, t.Context(), "--home", home.Dir, "approver", "enroll")
		w.types(secret + "\r")
		w.types(secret + "\r")
		w.until("enrolled k_")
		w.exits(0)
	}
}

// The interactive inbox on a real terminal, from the list to a yes, with a
// question that arrives while it is open.
func TestInteractiveAtATerminal(t *testing.T) {
	home, first := homeWithKey(t)
	w := onTerminal(t, t.Context(), "--home", home.Dir, "inbox")
	// Only what changed is drawn: what is waited for stands where nothing was.
	w.until(shortID(first))
	second := ask(t, home)
	w.until(shortID(second))
	w.types("G\r")
	w.until("a yes needs level L1")
	w.insists("a", "Passphrase")
	w.types("\x15" + secret + "\r") // without the keys that came too often
	w.until("allowed once")
	w.types("q")
	w.exits(0)
	if strings.Contains(w.shown(), secret) {
		t.Errorf("the passphrase was shown:\n%s", w.shown())
	}
	if got := stateOf(t, home, first); got != inbox.Approved {
		t.Errorf("the older call is %v", got)
	}
	if got := stateOf(t, home, second); got != inbox.Pending {
		t.Errorf("the newer call is %v", got)
	}
}

// A command that waits for a passphrase ends when it is told to, and leaves the
// terminal as it was.
func TestInterruptAtAPassphrase(t *testing.T) {
	home, id := homeWithKey(t)
	ctx, interrupt := context.WithCancel(t.Context())
	w := onTerminal(t, ctx, "--home", home.Dir, "inbox", "approve", id)
	w.until("Passphrase to ALLOW")
	interrupt()
	w.exits(exitFailed)
	if got := stateOf(t, home, id); got != inbox.Pending {
		t.Fatalf("an interrupt made it %v", got)
	}
}
