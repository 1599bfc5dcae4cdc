package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/inbox"
)

var update = flag.Bool("update", false, "write the golden files anew")

var noon = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// fakeClerk has tickets in memory and one passphrase.
type fakeClerk struct {
	tickets []inbox.Ticket
	said    []string
	failure error
}

func (c *fakeClerk) list(context.Context, []inbox.State) ([]inbox.Ticket, error) {
	return append([]inbox.Ticket(nil), c.tickets...), c.failure
}

func (c *fakeClerk) provable(t inbox.Ticket) error {
	if t.Level.AtLeast(inbox.L3) {
		return &inbox.LevelError{Ticket: t.ID, Have: inbox.L1, Need: t.Level}
	}
	return nil
}

func (c *fakeClerk) decideWith(_ context.Context, t inbox.Ticket, v inbox.Verdict, secret []byte) (string, error) {
	if string(secret) != "correct horse" {
		return "", inbox.ErrPassphrase
	}
	c.said = append(c.said, v.String()+" "+t.ID)
	c.tickets = c.tickets[1:]
	return "allowed once", nil
}

func (c *fakeClerk) deny(_ context.Context, t inbox.Ticket, note string) (inbox.Ticket, error) {
	c.said = append(c.said, "deny "+t.ID+" "+note)
	return t, nil
}

func ticket(id, tool string, class engagement.Permission, args string) inbox.Ticket {
	return inbox.Ticket{
		ID: "t_" + strings.Repeat(id, 26), State: inbox.Pending, Level: inbox.L1, Created: noon.Add(-3 * time.Minute),
		Binding: inbox.Binding{Principal: "local", Expires: noon.Add(23 * time.Hour)},
		View: inbox.View{
			Tool: catalog.ToolID{Server: "files", Tool: tool}, Class: class, Egress: []engagement.Egress{engagement.Metadata},
			Principal: "local", Client: "cursor", Session: "s_1", Args: args,
			Definition: inbox.Definition{State: inbox.DefinitionAccepted, Digest: "d1"},
			Rule:       inbox.Rule{Name: "step6", Reason: "the class needs a person."},
			Fallback:   engagement.FallbackDefer, Expires: noon.Add(23 * time.Hour), Level: inbox.L1,
		},
	}
}

func long() string {
	return `{"path":"notes.md","text":"` + strings.Repeat(`a line\n`, 30) + `"}`
}

// page is a model with what a test needs around it.
type page struct {
	t     *testing.T
	m     *inboxModel
	clerk *fakeClerk
	now   time.Time
}

func newPage(t *testing.T, tickets ...inbox.Ticket) *page {
	p := &page{t: t, clerk: &fakeClerk{tickets: tickets}, now: noon}
	p.m = newInboxModel(t.Context(), p.clerk, func() time.Time { return p.now }, false)
	p.send(tea.WindowSizeMsg{Width: 80, Height: 24})
	p.poll()
	return p
}

func (p *page) send(msg tea.Msg) tea.Cmd {
	_, cmd := p.m.Update(msg)
	return cmd
}

func (p *page) poll() { p.send(p.m.load()()) }

// press sends keys: a word is one key with that name, and what it leads to is
// carried out.
func (p *page) press(keys ...string) {
	codes := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "backspace": tea.KeyBackspace, "down": tea.KeyDown, "end": tea.KeyEnd}
	for _, key := range keys {
		msg := tea.KeyPressMsg{Code: []rune(key)[0], Text: key}
		if code, ok := codes[key]; ok {
			msg = tea.KeyPressMsg{Code: code}
		} else if key == "space" {
			msg = tea.KeyPressMsg{Code: tea.KeySpace, Text: " "}
		}
		cmd := p.send(msg)
		if p.m.busy { // only then is the command one of the clerk's
			p.send(cmd())
		}
	}
}

func (p *page) typed(text string) {
	for _, r := range text {
		p.press(string(r))
	}
}

func (p *page) wait() { p.now = p.now.Add(deadFor) }

func (p *page) golden(name string) {
	p.t.Helper()
	got := p.m.View().Content + "\n"
	path := filepath.Join("testdata", "inbox", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			p.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		p.t.Fatal(err)
	}
	if got != string(want) {
		p.t.Errorf("%s: have\n%swant\n%s", name, got, want)
	}
}

func (p *page) shows(text string) {
	p.t.Helper()
	if got := p.m.View().Content; !strings.Contains(got, text) {
		p.t.Errorf("the screen does not show %q:\n%s", text, got)
	}
}

func (p *page) said(want ...string) {
	p.t.Helper()
	if got := strings.Join(p.clerk.said, "; "); got != strings.Join(want, "; ") {
		p.t.Errorf("the clerk was told %q, want %q", got, want)
	}
}

func TestInboxScreens(t *testing.T) {
	p := newPage(t, ticket("a", "delete_file", engagement.Destructive, `{"path":"a.txt"}`), ticket("b", "write_file", engagement.SourceFileWrite, long()))
	p.golden("list")
	p.press("?")
	p.golden("help")
	p.press("x", "enter")
	p.golden("card-dead")
	p.wait()
	p.golden("card")
	p.press("n")
	p.typed("close it instead")
	p.golden("note")
	p.press("esc", "a")
	p.typed("correct")
	p.golden("passphrase")
	p.press("esc", "]")
	p.wait()
	p.golden("long-card")
	p.press("space")
	p.golden("long-card-end")
	newPage(t).golden("empty")
}

func TestInboxDecides(t *testing.T) {
	a, b := ticket("a", "delete_file", engagement.Destructive, `{}`), ticket("b", "write_file", engagement.SourceFileWrite, `{}`)
	p := newPage(t, a, b)
	p.press("enter")
	p.wait()
	p.press("a")
	p.typed("wrong")
	p.press("enter")
	p.shows("the passphrase does not open this key")
	p.said()
	p.press("a")
	p.typed("correct horses")
	p.press("backspace", "enter")
	p.said("allow " + a.ID)
	p.shows("allowed once")
	p.press("enter")
	p.wait()
	p.press("n")
	p.typed("not now")
	p.press("enter")
	p.said("allow "+a.ID, "deny "+b.ID+" not now")
}

// A key that decides does nothing before a person can have read the card.
func TestInboxKeysAreDeadAtFirst(t *testing.T) {
	p := newPage(t, ticket("a", "delete_file", engagement.Destructive, `{}`))
	p.press("a") // in the list it only opens the card
	p.press("a", "n")
	if p.m.screen != screenCard {
		t.Error("a key decided the moment its card appeared")
	}
	p.now = p.now.Add(deadFor - time.Millisecond)
	p.press("a", "n")
	if p.m.screen != screenCard {
		t.Error("a key decided too early")
	}
	p.now = p.now.Add(time.Millisecond)
	p.press("a")
	if p.m.screen != screenSecret {
		t.Error("the key is dead for too long")
	}

	// What changes behind the person's back takes the keys away again.
	p.typed("correct ho")
	p.clerk.tickets[0].Revision++
	p.clerk.tickets[0].CallerGone = true
	p.poll()
	p.shows("the card has changed")
	p.press("a")
	if p.m.screen != screenCard || len(p.m.input) != 0 {
		t.Error("a card that changed can be decided at once, or kept what was typed")
	}
	p.send(tea.WindowSizeMsg{Width: 60, Height: 20})
	p.press("a")
	if p.m.screen != screenCard {
		t.Error("a card that was laid out anew can be decided at once")
	}
}

func TestInboxAllowsOnlyWhatWasSeenWhole(t *testing.T) {
	p := newPage(t, ticket("a", "write_file", engagement.SourceFileWrite, long()))
	p.press("enter")
	p.wait()
	p.press("a")
	p.shows("read the whole card first")
	p.press("end", "a")
	p.shows("read the whole card first") // the middle was never on the screen
	p.press("g", "space", "space", "space", "a")
	if p.m.screen != screenSecret {
		t.Error("a card that was read whole cannot be allowed")
	}
	p.said()
}

// Enter alone, a paste and a key of another state decide nothing.
func TestInboxNeverDecidesByAccident(t *testing.T) {
	unknown := ticket("b", "write_file", engagement.SourceFileWrite, `{}`)
	unknown.State = inbox.Unknown
	tall := ticket("c", "write_file", engagement.SourceFileWrite, `{}`)
	tall.Level = inbox.L3
	p := newPage(t, ticket("a", "delete_file", engagement.Destructive, `{}`), tall, unknown)
	p.press("enter")
	p.wait()
	p.press("enter", "enter")
	p.send(tea.PasteMsg{Content: "a\ncorrect horse\n"})
	p.press("enter", "y", "x")
	p.shows("that key does nothing here")
	p.press("a", "enter")
	p.shows("nothing was decided")
	p.press("]")
	p.wait()
	p.press("a")
	p.shows("needs proof of level L3")
	p.press("]")
	p.wait()
	p.press("a")
	p.shows("this call is unknown")
	p.said()
	p.press("x")
	p.send(tea.PasteMsg{Content: "correct horse\r"})
	p.press("enter")
	p.said("settle-failed " + unknown.ID)
}

func TestInboxSeesOthersDecide(t *testing.T) {
	a, b := ticket("a", "delete_file", engagement.Destructive, `{}`), ticket("b", "write_file", engagement.SourceFileWrite, `{}`)
	p := newPage(t, b)
	p.clerk.tickets = []inbox.Ticket{a, b}
	p.poll()
	if p.m.selected != b.ID {
		t.Error("a new call moved the mark off the one that a person looks at")
	}
	p.press("enter")
	p.wait()
	p.press("a")
	p.clerk.tickets = []inbox.Ticket{a}
	p.poll()
	p.shows("does not wait any more")
	p.clerk.failure = errors.New("disk on fire")
	p.poll()
	p.shows("cannot be read: disk on fire")
}

// Nothing foreign reaches the terminal as a control byte, and no line is wider
// than the screen, which would hide its end.
func TestInboxIsSafeForATerminal(t *testing.T) {
	evil := "x\x1b]0;owned\a\x1b[2J\r\u202e\u009b31m 漢字🙂" + strings.Repeat("w", 200)
	v := ticket("a", evil, engagement.Destructive, `{"\u001b[2Jk":"\u001b[2Jv 漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字"}`)
	v.View.Client, v.View.GoesTo, v.View.Principal, v.Note = evil, evil, evil, evil
	for _, size := range [][2]int{{80, 24}, {40, 10}, {200, 60}, {20, 8}, {1, 1}} {
		p := newPage(t, v)
		p.send(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		for range 3 {
			for i, line := range strings.Split(p.m.View().Content, "\n") {
				if at := strings.IndexFunc(line, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u202e' }); at >= 0 {
					t.Fatalf("%v: line %d has a control character at %d: %q", size, i, at, line)
				}
				if w := ansi.StringWidth(line); w > max(size[0], 20) {
					t.Errorf("%v: line %d is %d columns wide: %q", size, i, w, line)
				}
			}
			p.press("enter")
			p.wait()
			p.press("n")
			p.typed(evil)
		}
	}
}

func TestInboxWithoutColour(t *testing.T) {
	p := newPage(t, ticket("a", "delete_file", engagement.Destructive, `{}`))
	if strings.Contains(p.m.View().Content, "\x1b") {
		t.Error("NO_COLOR, and there is an escape sequence")
	}
	p.m.styled = true
	p.shows("\x1b[1m> t_aaaaaaaa")
}
