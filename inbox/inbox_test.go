package inbox_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/inbox"
	"github.com/mcp-gate/mcp-gate/store"
)

var noon = time.Date(2026, 8, 12, 12, 0, 0, 0, time.UTC)

// A home is one home with a first gate in it, and a person who enrolled a key.
type home struct {
	t     *testing.T
	ctx   context.Context
	store *store.Store
	ring  *inbox.Ring
	key   *inbox.ApproverKey
	mu    sync.Mutex
	now   time.Time             // guarded by mu
	life  map[string]inbox.Life // guarded by mu; alive where a process has no entry
	opts  func() inbox.Options  // of one more process
	asked []inbox.Ticket        // by the notifier; guarded by mu
	in    *inbox.Inbox
	desk  *inbox.Desk
	forms *inbox.Forms
}

func (h *home) Waiting(t inbox.Ticket) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, t)
}

func (h *home) clock() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *home) pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

func (h *home) ends(process string, l inbox.Life) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.life[process] = l
}

// person is made once: unlocking takes memory and time on purpose.
var person = sync.OnceValue(func() (p struct {
	key   *inbox.ApproverKey
	entry inbox.Approver
	err   error
}) {
	dir, err := filepath.Abs(filepath.Join(testDir, "person"))
	if err != nil {
		p.err = err
		return p
	}
	p.key, p.entry, p.err = inbox.NewApproverKey(dir, "laptop", []byte("correct horse"), rand.Reader, noon)
	return p
})

func newHome(t *testing.T) *home {
	t.Helper()
	h := &home{t: t, ctx: t.Context(), now: noon, life: map[string]inbox.Life{}}
	keys := filepath.Join(t.TempDir(), "keys")
	gate, err := inbox.LoadGateKey(keys, rand.Reader)
	h.must(err)
	p := person()
	h.must(p.err)
	empty, err := inbox.OpenRing(keys, gate, false, nil)
	h.must(err)
	h.must(empty.Enroll(p.entry, p.key, noon))
	h.ring, err = inbox.OpenRing(keys, gate, false, nil)
	h.must(err)
	h.key = p.key
	h.store = store.New(filepath.Join(t.TempDir(), "state.db"))
	t.Cleanup(func() { h.must(h.store.Close()) })
	h.opts = func() inbox.Options {
		return inbox.Options{
			Store: h.store, Ring: h.ring, Now: h.clock, Random: rand.Reader, Notify: h,
			Life: func(p inbox.Process) inbox.Life {
				h.mu.Lock()
				defer h.mu.Unlock()
				if l, ok := h.life[p.ID]; ok {
					return l
				}
				return inbox.Alive
			},
		}
	}
	h.in = h.gate()
	o := h.opts()
	o.Bell = h.in.Bell()
	h.desk, h.forms = inbox.NewDesk(o), inbox.NewForms(o)
	return h
}

// gate returns the inbox of one more process.
func (h *home) gate() *inbox.Inbox {
	in, err := inbox.New(h.opts())
	h.must(err)
	return in
}

func (h *home) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func question(level inbox.Level) inbox.Question {
	args := json.RawMessage(`{ "path": "a.txt", "n": 12345678901234567890 }`)
	return inbox.Question{
		Binding: inbox.Binding{Server: "sid", Tool: "delete", Definition: "def", Principal: "local", Policy: "pol", Session: "s_1"},
		Args:    args,
		View: inbox.View{
			Tool: catalog.ToolID{Server: "files", Tool: "delete"}, Class: engagement.Destructive,
			Egress: []engagement.Egress{engagement.Metadata}, Definition: inbox.Definition{State: inbox.DefinitionAccepted, Digest: "def"},
			Rule: inbox.Rule{Name: "ask", Reason: "the class needs a person"}, Fallback: engagement.FallbackDefer, Level: level,
		},
		Launch: "launch",
	}
}

func attempt(q inbox.Question) inbox.Attempt {
	b := q.Binding
	b.Args, _ = inbox.ArgsDigest(q.Args)
	return inbox.Attempt{Binding: b, Level: q.View.Level, Launch: q.Launch}
}

func (h *home) ask(q inbox.Question) inbox.Ticket {
	h.t.Helper()
	a, err := h.in.Ask(h.ctx, q)
	h.must(err)
	return a.Ticket
}

// allow lets the person allow the ticket at their terminal.
func (h *home) allow(t inbox.Ticket) inbox.Ticket {
	h.t.Helper()
	d, err := h.desk.Draft(t, inbox.Allow, inbox.L1, inbox.Terminal, "").Sign(h.key)
	h.must(err)
	t, err = h.desk.Decide(h.ctx, d)
	h.must(err)
	return t
}

func (h *home) state(id string) inbox.State {
	h.t.Helper()
	t, err := h.store.Ticket(h.ctx, id)
	h.must(err)
	return t.State
}

func wantErr[T error](t *testing.T, err error) T {
	t.Helper()
	var want T
	if !errors.As(err, &want) {
		t.Fatalf("error %v (%T), want a %T", err, err, want)
	}
	return want
}

func TestAnApprovedCallRunsOnceWithItsVeryBytes(t *testing.T) {
	h := newHome(t)
	q := question(inbox.L1)
	ticket := h.ask(q)
	if ticket.State != inbox.Pending || !inbox.ValidTicketID(ticket.ID) || len(h.asked) != 1 {
		t.Fatalf("asked: %+v, notified %d times", ticket, len(h.asked))
	}
	if _, err := h.in.Claim(h.ctx, ticket.ID, attempt(q)); wantErr[*inbox.StateError](t, err).Have != inbox.Pending {
		t.Fatal(err)
	}
	h.allow(ticket)
	claimed, err := h.in.Claim(h.ctx, ticket.ID, attempt(q))
	h.must(err)
	if string(claimed.Args) != string(q.Args) || claimed.State != inbox.Running || h.state(ticket.ID) != inbox.Running {
		t.Fatalf("claimed %+v with %s", claimed, claimed.Args)
	}
	_, err = h.in.Claim(h.ctx, ticket.ID, attempt(q))
	wantErr[*inbox.StateError](t, err)
	done, err := h.in.Finish(h.ctx, ticket.ID, inbox.Receipt{Result: json.RawMessage(`{"content":[] }`)})
	h.must(err)
	if done.State != inbox.Done || string(done.Result) != `{"content":[] }` {
		t.Fatalf("finished %+v", done)
	}
	_, err = h.in.Claim(h.ctx, ticket.ID, attempt(q))
	wantErr[*inbox.StateError](t, err)
}

func TestAnApprovalHoldsForNothingElse(t *testing.T) {
	for name, edit := range map[string]func(*inbox.Attempt){
		"server":     func(a *inbox.Attempt) { a.Binding.Server = "x" },
		"tool":       func(a *inbox.Attempt) { a.Binding.Tool = "x" },
		"definition": func(a *inbox.Attempt) { a.Binding.Definition = "x" },
		"arguments":  func(a *inbox.Attempt) { a.Binding.Args = "x" },
		"principal":  func(a *inbox.Attempt) { a.Binding.Principal = "x" },
		"policy":     func(a *inbox.Attempt) { a.Binding.Policy = "x" },
	} {
		h := newHome(t)
		q := question(inbox.L1)
		ticket := h.allow(h.ask(q))
		a := attempt(q)
		edit(&a)
		_, err := h.in.Claim(h.ctx, ticket.ID, a)
		if stale := wantErr[*inbox.StaleError](t, err); !reflect.DeepEqual(stale.Changed, []string{name}) {
			t.Errorf("changed %v, want %s", stale.Changed, name)
		}
		if got := h.state(ticket.ID); got != inbox.Stale {
			t.Errorf("%s: ticket is %v, want stale", name, got)
		}
		if again, err := h.in.Ask(h.ctx, q); err != nil || again.Attached || again.Ticket.ID == ticket.ID {
			t.Errorf("%s: an equal call does not ask anew: %+v, %v", name, again, err)
		}
	}
}

func TestTheLevelIsMetAsItIsAtDispatch(t *testing.T) {
	h := newHome(t)
	q := question(inbox.L1)
	ticket := h.allow(h.ask(q))
	a := attempt(q)
	a.Level = inbox.L2
	_, err := h.in.Claim(h.ctx, ticket.ID, a)
	if e := wantErr[*inbox.LevelError](t, err); e.Have != inbox.L1 || e.Need != inbox.L2 || h.state(ticket.ID) != inbox.Stale {
		t.Errorf("%v, ticket %v", e, h.state(ticket.ID))
	}
}

func TestApprovalsEnd(t *testing.T) {
	h := newHome(t)
	q := question(inbox.L1)
	ticket := h.allow(h.ask(q))
	h.pass(inbox.DefaultExpiry)
	_, err := h.in.Claim(h.ctx, ticket.ID, attempt(q))
	if e := wantErr[*inbox.StateError](t, err); e.Have != inbox.Expired || h.state(ticket.ID) != inbox.Expired {
		t.Errorf("%v, ticket %v", e, h.state(ticket.ID))
	}
	pending := h.ask(q)
	h.pass(inbox.DefaultExpiry)
	d, err := h.desk.Draft(pending, inbox.Allow, inbox.L1, inbox.Terminal, "").Sign(h.key)
	h.must(err)
	_, err = h.desk.Decide(h.ctx, d)
	if e := wantErr[*inbox.StateError](t, err); e.Have != inbox.Expired {
		t.Error(e)
	}
	// An equal call does not attach to what is over.
	third := h.ask(q)
	h.pass(inbox.DefaultExpiry)
	if again, err := h.in.Ask(h.ctx, q); err != nil || again.Attached || again.Ticket.ID == third.ID {
		t.Errorf("attached to an expired ticket: %+v, %v", again, err)
	}
}

func TestOnlyProofApproves(t *testing.T) {
	h := newHome(t)
	gate, err := inbox.LoadGateKey(filepath.Join(t.TempDir(), "other"), rand.Reader)
	h.must(err)
	q := question(inbox.L1)
	ticket := h.ask(q)
	other := q
	other.Binding.Principal = "somebody"
	otherTicket := h.ask(other)
	good := h.desk.Draft(ticket, inbox.Allow, inbox.L1, inbox.Terminal, "")
	signed, err := good.Sign(h.key)
	h.must(err)
	for name, edit := range map[string]func(*inbox.Decision){
		"no signature":       func(d *inbox.Decision) { d.Signature = nil },
		"changed note":       func(d *inbox.Decision) { d.Note = "x" },
		"raised level":       func(d *inbox.Decision) { d.Level = inbox.L3 },
		"another ticket":     func(d *inbox.Decision) { d.Ticket = otherTicket.ID },
		"another binding":    func(d *inbox.Decision) { d.Binding = otherTicket.Binding.Digest() },
		"another view":       func(d *inbox.Decision) { d.View = otherTicket.View.Digest() },
		"unknown key":        func(d *inbox.Decision) { *d, _ = good.Sign(gate) },
		"a no turned around": func(d *inbox.Decision) { d.Verdict = inbox.SettleDone },
		"a client's channel": func(d *inbox.Decision) { d.Channel = inbox.Elicitation },
		"moved wholesale": func(d *inbox.Decision) {
			d.Ticket, d.Binding, d.View = otherTicket.ID, otherTicket.Binding.Digest(), otherTicket.View.Digest()
		},
	} {
		d := signed
		edit(&d)
		_, err := h.desk.Decide(h.ctx, d)
		wantErr[*inbox.ProofError](t, err)
		if a, b := h.state(ticket.ID), h.state(otherTicket.ID); a != inbox.Pending || b != inbox.Pending {
			t.Fatalf("%s: tickets are %v and %v", name, a, b)
		}
	}
	// The gate's own key cannot speak for a person at a terminal, at any level.
	own, err := inbox.LoadGateKey(h.ring.Dir(), rand.Reader)
	h.must(err)
	for _, l := range []inbox.Level{inbox.L0, inbox.L1} {
		d, err := h.desk.Draft(ticket, inbox.Allow, l, inbox.Terminal, "").Sign(own)
		h.must(err)
		_, err = h.desk.Decide(h.ctx, d)
		wantErr[*inbox.ProofError](t, err)
	}
	_, err = h.forms.Answer(h.ctx, ticket.ID, inbox.AnswerOnce)
	if e := wantErr[*inbox.LevelError](t, err); e.Have != inbox.L0 || h.state(ticket.ID) != inbox.Pending {
		t.Errorf("a form's yes: %v", err)
	}
}

// A row that somebody wrote into the store proves nothing.
func TestExecutorsDoNotTrustARow(t *testing.T) {
	for name, forge := range map[string]func(h *home, ticket inbox.Ticket) *inbox.Decision{
		"no decision": func(*home, inbox.Ticket) *inbox.Decision { return nil },
		"unsigned": func(h *home, ticket inbox.Ticket) *inbox.Decision {
			d := h.desk.Draft(ticket, inbox.Allow, inbox.L1, inbox.Terminal, "")
			return &d
		},
		"a signed no": func(h *home, ticket inbox.Ticket) *inbox.Decision {
			d, err := h.desk.Draft(ticket, inbox.Deny, inbox.L1, inbox.Terminal, "").Sign(h.key)
			h.must(err)
			return &d
		},
		"a yes to an earlier ticket": func(h *home, ticket inbox.Ticket) *inbox.Decision {
			q := question(inbox.L1)
			q.Binding.Session = "other"
			q.Args = json.RawMessage(`{}`)
			d, err := h.desk.Draft(h.ask(q), inbox.Allow, inbox.L1, inbox.Terminal, "").Sign(h.key)
			h.must(err)
			d.Ticket = ticket.ID
			return &d
		},
	} {
		h := newHome(t)
		q := question(inbox.L1)
		ticket := h.ask(q)
		ticket.State = inbox.Approved
		if ok, err := h.store.Change(h.ctx, ticket, forge(h, ticket)); err != nil || !ok {
			t.Fatal(ok, err)
		}
		_, err := h.in.Claim(h.ctx, ticket.ID, attempt(q))
		wantErr[*inbox.ProofError](t, err)
		if got := h.state(ticket.ID); got != inbox.Stale {
			t.Errorf("%s: ticket is %v, want stale", name, got)
		}
	}
}

func TestEqualCallsShareATicket(t *testing.T) {
	h := newHome(t)
	q := question(inbox.L1)
	first := h.ask(q)
	q.Binding.Session = "s_2"                                                  // another session
	q.Args = json.RawMessage(`{"n":12345678901234567890,"path":"\u0061.txt"}`) // other bytes of an equal value
	second, err := h.gate().Ask(h.ctx, q)
	h.must(err)
	if !second.Attached || second.Ticket.ID != first.ID || len(h.asked) != 1 {
		t.Errorf("attached %v to %s, want %s; %d notices", second.Attached, second.Ticket.ID, first.ID, len(h.asked))
	}
	q.Args = json.RawMessage(`{"n":12345678901234567891,"path":"a.txt"}`)
	if other := h.ask(q); other.ID == first.ID {
		t.Error("a different number attached")
	}
	// Of a running call and one that may have happened, too.
	h.allow(first)
	q = question(inbox.L1)
	_, err = h.in.Claim(h.ctx, first.ID, attempt(q))
	h.must(err)
	_, err = h.in.Lose(h.ctx, first.ID, "the connection broke")
	h.must(err)
	if again := h.ask(q); again.ID != first.ID || again.State != inbox.Unknown {
		t.Errorf("an equal call of an unknown one got %s (%v)", again.ID, again.State)
	}
}

func (h *home) runs(q inbox.Question) inbox.Ticket {
	h.t.Helper()
	ticket := h.allow(h.ask(q))
	_, err := h.in.Claim(h.ctx, ticket.ID, attempt(q))
	h.must(err)
	ticket, err = h.in.Finish(h.ctx, ticket.ID, inbox.Receipt{Result: json.RawMessage(`{"n":1}`)})
	h.must(err)
	return ticket
}

func TestAResultNobodyGotIsGivenOnce(t *testing.T) {
	h := newHome(t)
	q := question(inbox.L1)
	first := h.runs(q)
	h.pass(inbox.ReplayFor)
	got, err := h.in.Ask(h.ctx, q)
	h.must(err)
	if !got.Replayed || got.Ticket.ID != first.ID || string(got.Ticket.Result) != `{"n":1}` {
		t.Fatalf("replayed %v: %+v", got.Replayed, got.Ticket)
	}
	if again := h.ask(q); again.ID == first.ID {
		t.Error("given twice")
	}

	h = newHome(t)
	first = h.runs(q)
	if _, once, err := h.in.Deliver(h.ctx, first.ID); err != nil || !once {
		t.Fatal(once, err)
	}
	if _, once, err := h.in.Deliver(h.ctx, first.ID); err != nil || once {
		t.Fatal("delivered first twice", err)
	}
	if again := h.ask(q); again.ID == first.ID {
		t.Error("given although it was delivered")
	}

	h = newHome(t)
	first = h.runs(q)
	h.pass(inbox.ReplayFor + time.Microsecond)
	if again := h.ask(q); again.ID == first.ID {
		t.Error("given too late")
	}
}

func TestSilenceAndCancelling(t *testing.T) {
	deny := question(inbox.L1)
	deny.View.Fallback = engagement.FallbackDeny
	h := newHome(t)
	ticket := h.ask(question(inbox.L1))
	silent, err := h.in.Silence(h.ctx, ticket.ID)
	h.must(err)
	if silent.State != inbox.Pending {
		t.Errorf("with fallback defer silence made it %v", silent.State)
	}
	gone, err := h.in.Gone(h.ctx, ticket.ID)
	h.must(err)
	if gone.State != inbox.Pending || !gone.CallerGone || !strings.Contains(gone.Card().Render(80), "has gone") {
		t.Errorf("with fallback defer a cancelled call is %+v", gone)
	}
	if back := h.ask(question(inbox.L1)); back.ID != ticket.ID || back.CallerGone {
		t.Errorf("a caller who is back gets %+v", back)
	}

	h = newHome(t)
	ticket = h.ask(deny)
	silent, err = h.in.Silence(h.ctx, ticket.ID)
	h.must(err)
	d, err := h.desk.Draft(ticket, inbox.Allow, inbox.L1, inbox.Terminal, "").Sign(h.key)
	h.must(err)
	_, err = h.desk.Decide(h.ctx, d)
	if e := wantErr[*inbox.StateError](t, err); silent.State != inbox.Expired || e.Have != inbox.Expired {
		t.Errorf("with fallback deny silence made it %v, a late yes %v", silent.State, e)
	}
	ticket = h.ask(deny)
	gone, err = h.in.Gone(h.ctx, ticket.ID)
	h.must(err)
	if gone.State != inbox.Cancelled {
		t.Errorf("with fallback deny a cancelled call is %v", gone.State)
	}
}

// A clock that is set back makes nothing last longer: what is dated after it waits
// for it, or is asked anew.
func TestAClockThatGoesBackProlongsNothing(t *testing.T) {
	h := newHome(t)
	q := question(inbox.L1)
	ticket := h.allow(h.ask(q))
	b := ticket.Binding
	c := inbox.Call{
		Tool: q.View.Tool, Server: b.Server, Definition: b.Definition, Principal: b.Principal,
		Session: b.Session, Class: q.View.Class, ArgsDigest: b.Args,
	}
	terms := inbox.SessionTerms(ticket, 5, h.clock().Add(time.Hour))
	g, err := h.desk.AddGrant(h.ctx, terms, inbox.L1, inbox.Terminal, h.key, inbox.L1)
	h.must(err)
	covers := func() bool {
		_, ok, err := h.in.Covering(h.ctx, c, matcher{}, inbox.L1)
		h.must(err)
		return ok
	}
	h.pass(-time.Second)
	if !covers() {
		t.Error("a clock that is set right ends a grant")
	}
	h.pass(30 * time.Minute)
	_, err = h.in.Spend(h.ctx, g.ID, c, matcher{}, inbox.L1)
	h.must(err)
	h.pass(-20 * time.Minute)
	if _, err := h.in.Spend(h.ctx, g.ID, c, matcher{}, inbox.L1); covers() || !errors.Is(err, inbox.ErrSpent) {
		t.Errorf("the clock is behind the last use, and the grant holds: %v", err)
	}
	h.pass(-time.Hour)
	if covers() {
		t.Error("the clock is behind the grant, and it holds")
	}
	var stale *inbox.StaleError
	if _, err := h.in.Claim(h.ctx, ticket.ID, attempt(q)); !errors.As(err, &stale) || h.state(ticket.ID) != inbox.Stale {
		t.Errorf("the clock is behind the decision, and the call is claimed: %v, %v", err, h.state(ticket.ID))
	}
	h.pass(time.Hour + 20*time.Minute)
	if !covers() {
		t.Error("the clock is right again, and the grant does not hold")
	}
}

// A call that is allowed runs: nobody hears that it does not because the grant
// beside it could not be kept.
func TestAYesHoldsWithoutItsGrant(t *testing.T) {
	h := newHome(t)
	q := question(inbox.L0)
	q.View.Class = engagement.ReversibleWrite
	ticket := h.ask(q)
	o := h.opts()
	o.Store = grantless{h.store}
	got, err := inbox.NewForms(o).Answer(h.ctx, ticket.ID, inbox.AnswerSession)
	if err != nil || got.State != inbox.Approved {
		t.Errorf("for the session: %v, %v", got.State, err)
	}
}

// grantless is a store that keeps no grant.
type grantless struct{ inbox.Store }

func (grantless) AddGrant(context.Context, inbox.Grant) error { return errors.New("the disk is full") }

func TestFormsDecideTheWeakestLevelOnly(t *testing.T) {
	h := newHome(t)
	q := question(inbox.L0)
	q.View.Class = engagement.ReversibleWrite
	ticket := h.ask(q)
	if got, err := h.forms.Answer(h.ctx, ticket.ID, inbox.AnswerLater); err != nil || got.State != inbox.Pending {
		t.Errorf("later: %v, %v", got.State, err)
	}
	if got, err := h.forms.Answer(h.ctx, ticket.ID, inbox.AnswerSession); err != nil || got.State != inbox.Approved {
		t.Errorf("for the session: %v, %v", got.State, err)
	}
	_, err := h.in.Claim(h.ctx, ticket.ID, attempt(q))
	h.must(err)
	b := ticket.Binding
	c := inbox.Call{
		Tool: q.View.Tool, Server: b.Server, Definition: b.Definition, Principal: b.Principal,
		Session: b.Session, Class: engagement.ReversibleWrite, ArgsDigest: b.Args,
	}
	g, ok, err := h.in.Covering(h.ctx, c, matcher{}, inbox.L0)
	if err != nil || !ok {
		t.Fatalf("no grant for the session: %v", err)
	}
	if _, err := h.in.Spend(h.ctx, g.ID, c, matcher{}, inbox.L0); err != nil {
		t.Error(err)
	}
	if _, _, err := h.in.Covering(h.ctx, c, matcher{}, inbox.L1); err == nil {
		t.Error("a form's grant reaches L1")
	}
	c.Session = "s_2"
	if _, ok, _ := h.in.Covering(h.ctx, c, matcher{}, inbox.L0); ok {
		t.Error("the grant holds for another session")
	}
	denied := question(inbox.L1)
	denied.Args = nil
	if got, err := h.forms.Answer(h.ctx, h.ask(denied).ID, inbox.AnswerDeny); err != nil || got.State != inbox.Denied {
		t.Errorf("a no above the channel's level: %v, %v", got.State, err)
	}
}

func TestWhatAClientReturnedIsJudged(t *testing.T) {
	offered := inbox.Offered(inbox.L0, inbox.L0, true, false)
	slow := time.Second
	for name, c := range map[string]struct {
		action, decision string
		after            time.Duration
		answer           inbox.Answer
		person           bool
	}{
		"a yes":                {"accept", "allow-once", slow, inbox.AnswerOnce, true},
		"a yes in 299 ms":      {"accept", "allow-once", 299 * time.Millisecond, inbox.AnswerLater, false},
		"an empty accept":      {"accept", "", slow, inbox.AnswerLater, false},
		"an unknown word":      {"accept", "yes", slow, inbox.AnswerLater, false},
		"a no":                 {"accept", "deny", slow, inbox.AnswerDeny, true},
		"a decline":            {"decline", "", slow, inbox.AnswerDeny, true},
		"a decline at once":    {"decline", "", 5 * time.Millisecond, inbox.AnswerLater, false},
		"a cancel":             {"cancel", "", slow, inbox.AnswerLater, true},
		"nothing":              {"no-answer", "", 50 * time.Second, inbox.AnswerLater, false},
		"a decline with a yes": {"decline", "allow-once", slow, inbox.AnswerDeny, true},
	} {
		if answer, person := inbox.Heard(c.action, c.decision, c.after, offered); answer != c.answer || person != c.person {
			t.Errorf("%s: %v, person %v, want %v, %v", name, answer, person, c.answer, c.person)
		}
	}
	if weak := inbox.Offered(inbox.L1, inbox.L0, true, true); !reflect.DeepEqual(weak, []inbox.Answer{inbox.AnswerDeny, inbox.AnswerLater}) {
		t.Errorf("a weak channel offers %v", weak)
	}
	if answer, _ := inbox.Heard("accept", "allow-once", slow, inbox.Offered(inbox.L1, inbox.L0, true, true)); answer != inbox.AnswerLater {
		t.Error("what was not offered was taken")
	}
	want := `{"type":"object","properties":{"decision":{"type":"string","title":"Decision","enum":["deny","later","allow-once","allow-session"],` +
		`"enumNames":["Deny","Decide later","Allow once","Allow exactly this for the session"]}},"required":["decision"]}`
	if got := string(inbox.FormSchema(offered)); got != want {
		t.Errorf("form %s, want %s", got, want)
	}
}

func TestTheOwnerRunsWhileItLives(t *testing.T) {
	h := newHome(t)
	q := question(inbox.L1)
	ticket := h.allow(h.ask(q))
	second := h.gate()
	_, err := second.Claim(h.ctx, ticket.ID, attempt(q))
	if e := wantErr[*inbox.NotOwnerError](t, err); e.Life != inbox.Alive || h.state(ticket.ID) != inbox.Approved {
		t.Fatal(e)
	}
	h.ends(h.in.Process(), inbox.Unclear)
	_, err = second.Claim(h.ctx, ticket.ID, attempt(q))
	wantErr[*inbox.NotOwnerError](t, err)
	h.ends(h.in.Process(), inbox.Dead)
	other := attempt(q)
	other.Launch = "another environment"
	_, err = second.Claim(h.ctx, ticket.ID, other)
	wantErr[*inbox.NotOwnerError](t, err)
	if can, err := second.Runnable(h.ctx); err != nil || len(can) != 1 {
		t.Fatalf("runnable: %v, %v", can, err)
	}
	claimed, err := second.Claim(h.ctx, ticket.ID, attempt(q))
	h.must(err)
	if claimed.Runner != second.Process() {
		t.Errorf("runner %s", claimed.Runner)
	}
	_, err = h.in.Finish(h.ctx, ticket.ID, inbox.Receipt{})
	wantErr[*inbox.NotRunnerError](t, err)
}

func TestWhatADeadProcessRanIsUnknown(t *testing.T) {
	h := newHome(t)
	q := question(inbox.L1)
	ticket := h.allow(h.ask(q))
	_, err := h.in.Claim(h.ctx, ticket.ID, attempt(q))
	h.must(err)
	second := h.gate()
	if changed, err := second.Recover(h.ctx); err != nil || len(changed) != 0 {
		t.Fatalf("recovered a living process's call: %v, %v", changed, err)
	}
	h.ends(h.in.Process(), inbox.Dead)
	changed, err := second.Recover(h.ctx)
	h.must(err)
	if len(changed) != 1 || changed[0].State != inbox.Unknown {
		t.Fatalf("recovered %+v", changed)
	}
	_, err = second.Claim(h.ctx, ticket.ID, attempt(q))
	wantErr[*inbox.StateError](t, err)

	// A person settles it, with the proof that the call itself needed.
	weak := h.desk.Draft(changed[0], inbox.SettleDone, inbox.L1, inbox.Terminal, "looked")
	_, err = h.desk.Settle(h.ctx, weak)
	wantErr[*inbox.ProofError](t, err)
	d, err := weak.Sign(h.key)
	h.must(err)
	settled, err := h.desk.Settle(h.ctx, d)
	h.must(err)
	if settled.State != inbox.Done || settled.Note != "looked" {
		t.Errorf("settled %+v", settled)
	}
}

func TestARepeatableCallIsTakenOver(t *testing.T) {
	h := newHome(t)
	q := question(inbox.L1)
	q.Repeatable = true
	ticket := h.allow(h.ask(q))
	_, err := h.in.Claim(h.ctx, ticket.ID, attempt(q))
	h.must(err)
	_, err = h.in.Claim(h.ctx, ticket.ID, attempt(q)) // the runner itself does not get it twice
	wantErr[*inbox.NotOwnerError](t, err)
	second, third := h.gate(), h.gate()
	_, err = second.Claim(h.ctx, ticket.ID, attempt(q))
	wantErr[*inbox.NotOwnerError](t, err)
	h.ends(h.in.Process(), inbox.Dead)
	if changed, err := second.Recover(h.ctx); err != nil || len(changed) != 0 {
		t.Fatalf("recovered %v, %v", changed, err)
	}
	_, err = second.Claim(h.ctx, ticket.ID, attempt(q))
	h.must(err)
	_, err = third.Claim(h.ctx, ticket.ID, attempt(q))
	wantErr[*inbox.NotOwnerError](t, err)
	h.ends(second.Process(), inbox.Dead)
	a := attempt(q)
	a.Binding.Policy = "changed"
	_, err = third.Claim(h.ctx, ticket.ID, a)
	wantErr[*inbox.StaleError](t, err)
	if got := h.state(ticket.ID); got != inbox.Unknown {
		t.Errorf("a call that ran and cannot be run again is %v, want unknown", got)
	}
}

func TestWaitHearsAnswers(t *testing.T) {
	h := newHome(t)
	q := question(inbox.L1)
	ticket := h.ask(q)
	got := make(chan inbox.Ticket)
	for _, in := range []*inbox.Inbox{h.in, h.gate()} { // by the bell, and by asking the store
		go func() {
			t, err := in.Wait(h.ctx, ticket.ID, inbox.Pending)
			if err == nil {
				got <- t
			}
		}()
	}
	_, err := h.desk.Deny(h.ctx, ticket.ID, inbox.Terminal, "use the trash instead")
	h.must(err)
	for range 2 {
		if heard := <-got; heard.State != inbox.Denied || heard.Note != "use the trash instead" {
			t.Errorf("heard %+v", heard)
		}
	}
	ctx, cancel := context.WithCancel(h.ctx)
	cancel()
	pending := h.ask(question(inbox.L1))
	if still, err := h.in.Wait(ctx, pending.ID, inbox.Pending); !errors.Is(err, context.Canceled) {
		t.Errorf("waited to %v, %v", still.State, err)
	}
}

func TestTooManyQuestionsRaiseAnAlarm(t *testing.T) {
	h := newHome(t)
	o := h.opts()
	o.Alarm = 2
	in, err := inbox.New(o)
	h.must(err)
	for i, want := range []bool{false, false, true, true} {
		q := question(inbox.L1)
		q.Args = json.RawMessage(`{"i":` + string(rune('0'+i)) + `}`)
		a, err := in.Ask(h.ctx, q)
		h.must(err)
		if a.Alarm != want {
			t.Errorf("question %d: alarm %v, want %v", i, a.Alarm, want)
		}
	}
	if len(h.asked) != 2 {
		t.Errorf("%d notices, want 2", len(h.asked))
	}
	h.pass(11 * time.Minute)
	q := question(inbox.L1)
	q.Args = json.RawMessage(`{"i":9}`)
	if a, err := in.Ask(h.ctx, q); err != nil || a.Alarm {
		t.Errorf("alarm after ten quiet minutes: %v, %v", a.Alarm, err)
	}
	in.Bound(time.Minute, 1) // the owner thinks of something else
	q.Args = json.RawMessage(`{"i":10}`)
	a, err := in.Ask(h.ctx, q)
	h.must(err)
	if left := a.Ticket.Binding.Expires.Sub(h.clock()); !a.Alarm || left > time.Minute {
		t.Errorf("under other bounds: alarm %v, %v left", a.Alarm, left)
	}
}

func TestAttentionFigures(t *testing.T) {
	h := newHome(t)
	ticket := h.ask(question(inbox.L1))
	h.pass(3 * time.Second)
	h.allow(ticket)
	q := question(inbox.L1)
	q.Args = json.RawMessage(`{}`)
	_, err := h.desk.Deny(h.ctx, h.ask(q).ID, inbox.Page, "")
	h.must(err)
	got, err := h.in.Stats(h.ctx, noon)
	h.must(err)
	want := inbox.Stats{
		Asks: 2, States: map[string]int{"approved": 1, "denied": 1}, Took: map[string]int64{"p50": 0, "p90": 0},
		Answers: []inbox.AnswerCount{{inbox.Page, inbox.L0, inbox.Deny, 1}, {inbox.Terminal, inbox.L1, inbox.Allow, 1}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("stats %+v, want %+v", got, want)
	}
}

// A doubtful store commits and then says that it did not, as a disk or a
// cancelled context may.
type doubtful struct {
	inbox.Store
	doubts int // changes that are still to be doubted
}

var errDoubt = errors.New("the commit may or may not have happened")

func (d *doubtful) Change(ctx context.Context, t inbox.Ticket, dec *inbox.Decision) (bool, error) {
	ok, err := d.Store.Change(ctx, t, dec)
	if d.doubts--; err == nil && d.doubts >= 0 {
		return false, errDoubt
	}
	return ok, err
}

func TestADoubtfulCommitIsReadBack(t *testing.T) {
	h := newHome(t)
	d := &doubtful{Store: h.store}
	o := h.opts()
	o.Store = d
	in, err := inbox.New(o)
	h.must(err)
	q := question(inbox.L1)
	asked, err := in.Ask(h.ctx, q)
	h.must(err)
	h.allow(asked.Ticket)
	d.doubts = 1
	claimed, err := in.Claim(h.ctx, asked.Ticket.ID, attempt(q))
	if err != nil || claimed.State != inbox.Running {
		t.Fatalf("claimed %v, %v", claimed.State, err)
	}
	// Another claim is another, and must not take this one's for its own.
	d.doubts = 1
	_, err = in.Claim(h.ctx, asked.Ticket.ID, attempt(q))
	wantErr[*inbox.StateError](t, err)
	d.doubts = 1
	done, err := in.Finish(h.ctx, asked.Ticket.ID, inbox.Receipt{Result: json.RawMessage(`{"n":1}`)})
	if err != nil || done.State != inbox.Done || string(done.Result) != `{"n":1}` {
		t.Fatalf("finished %v with %s, %v", done.State, done.Result, err)
	}
}
