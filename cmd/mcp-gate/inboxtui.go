package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/mcp-gate/mcp-gate/inbox"
)

// How the interactive inbox behaves in time.
const (
	pollEvery = time.Second
	// deadFor is how long keys that decide do nothing after a card appeared or
	// changed, so that nobody decides about a card with a key that was meant for
	// another one.
	deadFor = 400 * time.Millisecond
)

// clerk is what the interactive inbox does at the desk.
type clerk interface {
	list(ctx context.Context, states []inbox.State) ([]inbox.Ticket, error)
	provable(t inbox.Ticket) error
	// decideWith opens an approver key with the passphrase, which it clears, and
	// signs the verdict. The text says what happens next.
	decideWith(ctx context.Context, t inbox.Ticket, v inbox.Verdict, secret []byte) (text string, err error)
	deny(ctx context.Context, t inbox.Ticket, note string) (inbox.Ticket, error)
}

// decideWith implements clerk.
func (d *desk) decideWith(ctx context.Context, t inbox.Ticket, v inbox.Verdict, secret []byte) (string, error) {
	defer clear(secret)
	candidates, err := d.approvers("")
	if err != nil {
		return "", err
	}
	key, err := d.open(candidates, secret)
	if err != nil {
		return "", errors.Join(err, d.recordFailure([]inbox.Ticket{t}, v, err))
	}
	defer key.Forget()
	if v == inbox.Allow {
		after, err := d.allow(ctx, t, key)
		if err != nil {
			return "", err
		}
		return "allowed once: " + d.whoRuns(ctx, after), nil
	}
	dec, err := d.Draft(t, v, d.ring.Reach(), inbox.Terminal, "").Sign(key)
	if err != nil {
		return "", err
	}
	after, err := d.Settle(ctx, dec)
	return "settled: it is " + after.State.String(), errors.Join(err, d.recordDecision(t, dec, err))
}

func (a *app) inboxInteractive(ctx context.Context, d *desk) error {
	_, plain := a.env("NO_COLOR")
	m := newInboxModel(ctx, d, time.Now, !plain)
	_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(a.stdin), tea.WithOutput(a.stdout),
		tea.WithEnvironment(a.environ), tea.WithoutSignalHandler()).Run()
	if ctx.Err() != nil {
		return nil // ended from outside
	}
	return err
}

// screen is what the interactive inbox shows and to whom keys go.
type screen int

const (
	screenList screen = iota + 1
	screenCard
	screenSecret // the card, and a passphrase is being typed
	screenNote   // the card, and a note is being typed
	screenHelp
)

// inboxModel is the interactive inbox. Nothing in it decides: it shows cards
// and hands what the person said to the clerk.
type inboxModel struct {
	ctx    context.Context // of the program, which a model lives as long as
	clerk  clerk
	now    func() time.Time
	styled bool

	width, height int
	tickets       []inbox.Ticket // open ones, those that wait for a person first
	loaded        bool
	screen        screen
	back          screen // from help
	selected      string // ticket; by id, so that a new one moves nothing under the finger

	offset  int // first line of the card on the screen
	seen    int // lines of the card seen from its top, without a gap
	liveAt  time.Time
	verdict inbox.Verdict // what a passphrase is typed for
	input   []byte
	busy    bool
	status  string
}

func newInboxModel(ctx context.Context, c clerk, now func() time.Time, styled bool) *inboxModel {
	return &inboxModel{ctx: ctx, clerk: c, now: now, styled: styled, width: 80, height: 24, screen: screenList}
}

type (
	loadedMsg struct {
		tickets []inbox.Ticket
		err     error
	}
	pollMsg    struct{}
	awakeMsg   struct{} // keys may live again: draw anew
	decidedMsg struct {
		ticket string
		text   string
		err    error
	}
)

func (m *inboxModel) Init() tea.Cmd { return m.load() }

func (m *inboxModel) load() tea.Cmd {
	return func() tea.Msg {
		tickets, err := m.clerk.list(m.ctx, openStates())
		return loadedMsg{tickets, err}
	}
}

func (m *inboxModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = max(msg.Width, 20), max(msg.Height, 8)
		return m, m.appear()
	case pollMsg:
		return m, m.load()
	case loadedMsg:
		return m, tea.Batch(m.take(msg), tea.Tick(pollEvery, func(time.Time) tea.Msg { return pollMsg{} }))
	case decidedMsg:
		return m, m.decided(msg)
	case tea.PasteMsg: // only where text is typed: a pasted key decides nothing
		if !m.busy && (m.screen == screenSecret || m.screen == screenNote) {
			m.input = append(m.input, strings.TrimRight(msg.Content, "\r\n")...)
		}
	case tea.KeyPressMsg:
		return m, m.key(msg)
	}
	return m, nil
}

// take goes on with the tickets as they are now.
func (m *inboxModel) take(msg loadedMsg) tea.Cmd {
	if msg.err != nil {
		m.status = "the inbox cannot be read: " + msg.err.Error()
		return nil
	}
	before, had := m.current()
	m.loaded, m.tickets = true, msg.tickets
	slices.SortStableFunc(m.tickets, func(a, b inbox.Ticket) int { return order(a) - order(b) })
	after, has := m.current()
	switch {
	case !has && len(m.tickets) > 0 && m.screen == screenList:
		m.selected = m.tickets[0].ID
	case had && !has && m.screen != screenList && !m.busy:
		m.leave("this call does not wait any more: somebody decided it, or its time was over")
	case has && had && after.Revision != before.Revision && m.screen != screenList:
		if m.screen == screenSecret || m.screen == screenNote {
			m.leaveInput()
		}
		m.status = "the card has changed"
		return m.appear()
	}
	return nil
}

// order puts what needs a person before what runs by itself.
func order(t inbox.Ticket) int {
	switch t.State {
	case inbox.Pending:
		return 0
	case inbox.Unknown:
		return 1
	}
	return 2
}

func (m *inboxModel) index() int {
	return slices.IndexFunc(m.tickets, func(t inbox.Ticket) bool { return t.ID == m.selected })
}

func (m *inboxModel) current() (inbox.Ticket, bool) {
	if i := m.index(); i >= 0 {
		return m.tickets[i], true
	}
	return inbox.Ticket{}, false
}

// appear begins the dead time of a card that is new on the screen.
func (m *inboxModel) appear() tea.Cmd {
	m.offset, m.seen = 0, 0
	m.look()
	m.liveAt = m.now().Add(deadFor)
	return tea.Tick(deadFor, func(time.Time) tea.Msg { return awakeMsg{} })
}

// look notes which lines of the card are on the screen now.
func (m *inboxModel) look() {
	m.offset = max(min(m.offset, len(m.lines())-m.room()), 0)
	if m.offset <= m.seen {
		m.seen = max(m.seen, m.offset+m.room())
	}
}

// whole reports whether all of the card was on the screen.
func (m *inboxModel) whole() bool { return m.seen >= len(m.lines()) }

// awake reports whether keys that decide do anything.
func (m *inboxModel) awake() bool { return !m.now().Before(m.liveAt) && !m.busy }

// room is how many lines of a card the screen has room for: all but the title,
// the status and two of keys.
func (m *inboxModel) room() int { return max(m.height-4, 1) }

// lines are the lines of the selected card, none wider than the screen.
func (m *inboxModel) lines() []string {
	t, ok := m.current()
	if !ok {
		return nil
	}
	text := strings.TrimRight(t.Card().Render(m.width), "\n")
	return strings.Split(ansi.Hardwrap(text, m.width, true), "\n")
}

func (m *inboxModel) key(k tea.KeyPressMsg) tea.Cmd {
	name := k.String()
	if name == "ctrl+c" {
		m.leaveInput()
		return tea.Quit
	}
	switch m.screen {
	case screenSecret, screenNote:
		return m.keyInput(name, k.Key().Text)
	case screenHelp:
		m.screen = m.back
		return nil
	}
	if name == "?" {
		m.back, m.screen = m.screen, screenHelp
		return nil
	}
	m.status = ""
	if m.screen == screenList {
		return m.keyList(name)
	}
	return m.keyCard(name)
}

func (m *inboxModel) keyList(name string) tea.Cmd {
	switch name {
	case "q", "esc":
		return tea.Quit
	case "j", "down":
		m.move(1)
	case "k", "up":
		m.move(-1)
	case "g", "home":
		m.move(-len(m.tickets))
	case "G", "end":
		m.move(len(m.tickets))
	case "enter", "o", "space", "a", "n": // to decide, one has to see the card
		if _, ok := m.current(); ok {
			m.screen = screenCard
			return m.appear()
		}
	}
	return nil
}

func (m *inboxModel) move(by int) {
	if len(m.tickets) > 0 {
		m.selected = m.tickets[max(min(m.index()+by, len(m.tickets)-1), 0)].ID
	}
}

func (m *inboxModel) keyCard(name string) tea.Cmd {
	switch name {
	case "q", "esc":
		m.leave("")
		return nil
	case "l":
		m.leave("left for later")
		m.move(1)
		return nil
	case "j", "down":
		m.offset++
	case "k", "up":
		m.offset--
	case "space", "pgdown", "f", "ctrl+f":
		m.offset += m.room()
	case "pgup", "b", "ctrl+b":
		m.offset -= m.room()
	case "g", "home":
		m.offset = 0
	case "G", "end":
		m.offset = len(m.lines())
	case "]", "tab":
		m.move(1)
		return m.appear()
	case "[", "shift+tab":
		m.move(-1)
		return m.appear()
	case "a", "n", "y", "x":
		m.choose(name)
		return nil
	}
	m.look()
	return nil
}

// choose begins a decision about the card, unless its key is dead.
func (m *inboxModel) choose(name string) {
	t, ok := m.current()
	if !ok || !m.awake() {
		return
	}
	verdict := map[string]inbox.Verdict{"a": inbox.Allow, "n": inbox.Deny, "y": inbox.SettleDone, "x": inbox.SettleFailed}[name]
	wants := inbox.Pending
	if name == "y" || name == "x" {
		wants = inbox.Unknown
	}
	if t.State != wants {
		m.status = fmt.Sprintf("this call is %v: that key does nothing here", t.State)
		return
	}
	m.verdict, m.input = verdict, nil
	if verdict == inbox.Deny {
		m.screen = screenNote
		return
	}
	if !m.whole() {
		m.status = "read the whole card first: space goes on"
		return
	}
	if err := m.clerk.provable(t); err != nil {
		m.status = strings.TrimPrefix(err.Error(), "decide ")
		return
	}
	m.screen = screenSecret
}

func (m *inboxModel) keyInput(name, text string) tea.Cmd {
	switch {
	case m.busy:
	case name == "esc":
		m.leaveInput()
		m.status = "nothing was decided"
	case name == "enter":
		return m.submit()
	case name == "backspace":
		_, size := utf8.DecodeLastRune(m.input)
		m.input = m.input[:len(m.input)-size]
	case name == "ctrl+u":
		clear(m.input)
		m.input = m.input[:0]
	case m.screen == screenNote && len(m.input)+len(text) > inbox.MaxNote:
	default:
		m.input = append(m.input, text...)
	}
	return nil
}

// submit hands what was typed to the clerk. An empty passphrase decides
// nothing.
func (m *inboxModel) submit() tea.Cmd {
	t, ok := m.current()
	if !ok || m.screen == screenSecret && len(m.input) == 0 {
		m.leaveInput()
		m.status = "nothing was decided"
		return nil
	}
	input, verdict := m.input, m.verdict
	m.input, m.busy = nil, true
	return func() tea.Msg {
		if verdict == inbox.Deny {
			_, err := m.clerk.deny(m.ctx, t, string(input))
			return decidedMsg{t.ID, "denied", err}
		}
		text, err := m.clerk.decideWith(m.ctx, t, verdict, input)
		return decidedMsg{t.ID, text, err}
	}
}

func (m *inboxModel) decided(msg decidedMsg) tea.Cmd {
	m.busy = false
	if msg.err != nil {
		m.leaveInput()
		m.status = msg.err.Error()
		return nil
	}
	m.leaveInput()
	at := m.index()
	m.tickets = slices.DeleteFunc(m.tickets, func(t inbox.Ticket) bool { return t.ID == msg.ticket })
	if m.selected = ""; len(m.tickets) > 0 {
		m.selected = m.tickets[max(min(at, len(m.tickets)-1), 0)].ID
	}
	m.leave(shortID(msg.ticket) + " " + msg.text)
	return nil
}

// leave goes back to the list.
func (m *inboxModel) leave(status string) {
	m.leaveInput()
	m.screen, m.status = screenList, status
	if _, ok := m.current(); !ok && len(m.tickets) > 0 {
		m.selected = m.tickets[0].ID
	}
}

// leaveInput forgets what was typed and goes back to the card.
func (m *inboxModel) leaveInput() {
	clear(m.input)
	m.input = nil
	if m.screen == screenSecret || m.screen == screenNote {
		m.screen = screenCard
	}
}

// View draws the screen: a title, a body, a status and the keys.
func (m *inboxModel) View() tea.View {
	var body []string
	switch m.screen {
	case screenList:
		body = m.listBody()
	case screenHelp:
		body = strings.Split(inboxHelp, "\n")
	default:
		lines := m.lines()
		body = lines[min(m.offset, len(lines)):min(m.offset+m.room(), len(lines))]
	}
	rows := []string{m.style("7", m.fit(m.title()))}
	for i := range m.room() {
		line := ""
		if i < len(body) {
			line = ansi.Truncate(body[i], m.width, "…")
		}
		rows = append(rows, line)
	}
	rows = append(rows, m.style("1", ansi.Truncate(inbox.DisplayLine(m.status), m.width, "…")))
	keys := m.keys()
	rows = append(rows, ansi.Truncate(keys[0], m.width, "…"), ansi.Truncate(keys[1], m.width, "…"))
	v := tea.NewView(strings.Join(rows, "\n"))
	v.AltScreen = true
	return v
}

// style sets an attribute (SGR) for the text, where attributes are wanted.
func (m *inboxModel) style(attribute, text string) string {
	if !m.styled || text == "" || attribute == "" {
		return text
	}
	return "\x1b[" + attribute + "m" + text + "\x1b[0m"
}

// fit cuts or pads the text to the width of the screen.
func (m *inboxModel) fit(text string) string {
	text = ansi.Truncate(text, m.width, "…")
	return text + strings.Repeat(" ", max(m.width-ansi.StringWidth(text), 0))
}

func (m *inboxModel) title() string {
	waiting := 0
	for _, t := range m.tickets {
		if t.State == inbox.Pending || t.State == inbox.Unknown {
			waiting++
		}
	}
	t, ok := m.current()
	if m.screen == screenList || m.screen == screenHelp || !ok {
		if waiting == 1 {
			return "mcp-gate inbox: 1 waits for you"
		}
		return fmt.Sprintf("mcp-gate inbox: %d wait for you", waiting)
	}
	part := ""
	if n := len(m.lines()); n > m.room() {
		part = fmt.Sprintf(" [lines %d to %d of %d]", m.offset+1, min(m.offset+m.room(), n), n)
	}
	return fmt.Sprintf("%d of %d%s: %s %v, %s", m.index()+1, len(m.tickets), part, shortID(t.ID), t.State, ticketTime(t, m.now()))
}

func (m *inboxModel) listBody() []string {
	if len(m.tickets) == 0 {
		if !m.loaded {
			return []string{"", "  ..."}
		}
		return []string{"", "  Nothing waits for you. This page looks every second."}
	}
	first := max(m.index()-m.room()+1, 0)
	var rows []string
	for _, t := range m.tickets[first:min(first+m.room(), len(m.tickets))] {
		mark, attribute := "  ", ""
		if t.ID == m.selected {
			mark, attribute = "> ", "1"
		}
		rows = append(rows, m.style(attribute, mark+m.listRow(t)))
	}
	return rows
}

// listRow is a ticket in one line, without the mark before it.
func (m *inboxModel) listRow(t inbox.Ticket) string {
	facts := fmt.Sprintf("%s  %-9s%-17s", shortID(t.ID), t.State, t.View.Class)
	when := fmt.Sprintf("%12s", span(t.Binding.Expires.Sub(m.now()))+" left")
	if t.State != inbox.Pending && t.State != inbox.Approved {
		when = ""
	}
	room := max(m.width-2-len(facts)-2-12, 8)
	tool := ansi.Truncate(inbox.DisplayLine(t.View.Tool.String()), room, "…")
	pad := strings.Repeat(" ", max(room-ansi.StringWidth(tool), 0))
	return ansi.Truncate(facts+" "+tool+pad+" "+when, m.width-2, "…")
}

// keys are the two lines below the status: what is typed, and what keys do.
func (m *inboxModel) keys() [2]string {
	switch m.screen {
	case screenList:
		return [2]string{"", "j k move  enter open  ? help  q quit"}
	case screenHelp:
		return [2]string{"", "any key goes back"}
	case screenSecret:
		what := "to ALLOW this call once"
		if m.verdict != inbox.Allow {
			what = "to settle this call"
		}
		if m.busy {
			return [2]string{"looking at the passphrase ...", ""}
		}
		return [2]string{"Passphrase " + what + " (not shown): ", "enter go on  esc decide nothing"}
	case screenNote:
		// The end of a long note is what is being typed.
		text := inbox.DisplayLine(string(m.input))
		return [2]string{"Note to the model: " + ansi.TruncateLeft(text, max(ansi.StringWidth(text)-m.width+22, 0), "…") + "_", "enter DENY with this note, or with none  esc decide nothing"}
	}
	return [2]string{"", m.cardKeys()}
}

func (m *inboxModel) cardKeys() string {
	t, _ := m.current()
	move := "space scroll  ] next  ? help  q back"
	switch {
	case !m.awake():
		return move
	case t.State == inbox.Pending && m.whole():
		return "a allow once  n deny  l later  " + move
	case t.State == inbox.Pending:
		return "n deny  l later  space on: read it all to allow  ? help  q back"
	case t.State == inbox.Unknown:
		return "y it happened  x it did not  " + move
	}
	return move
}

const inboxHelp = `
  In the list
    j k, arrows      move
    enter            open the card: what exactly would run
    q                quit

  On a card
    a                allow this call once; asks for the passphrase of your key
    n                deny, with a note to the model if you like
    l                later: leave it waiting
    y x              a call of which nobody knows: it happened, it did not
    j k space b      scroll; a card must have been seen whole to allow it
    [ ]              the card before, the next card

  Keys that decide do nothing for the first 0.4 s of a card and after it
  changed. Enter alone never allows anything.`
