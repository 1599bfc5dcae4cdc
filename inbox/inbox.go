// Package inbox keeps the questions that only a person can answer.
//
// A call that needs a person becomes a [Ticket]: its arguments frozen, its
// [Binding] digested, its [View] kept as it is shown. A person's answer is a
// signed [Decision] over those digests, or a signed [Grant] made ahead of the
// call. Whoever runs a call claims its ticket; the package verifies signature,
// level, binding and expiry at that moment, and of any number of claims one
// succeeds. A call is promised to run at most once.
//
// The package knows neither MCP nor upstreams, nor what a tool does. It
// compares bindings and does not judge. What lasts is in a [Store] that it is
// handed; so are the clock, randomness and the knowledge which process lives.
//
// A gate is handed an [*Inbox], which can ask, wait, claim and finish, and has
// no way to approve. [*Forms] turns a client's answer into a decision of the
// weakest level, and no other. People's commands hold a [*Desk]. Start with
// [New].
package inbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/ids"
)

// ReplayFor is how long after its end a result that never reached its caller
// is given to an equal call.
const ReplayFor = 15 * time.Minute

// DefaultExpiry is how long a ticket lives where the configuration says nothing.
const DefaultExpiry = 24 * time.Hour

// ErrNotFound says that there is no ticket, grant or process of that id.
var ErrNotFound = errors.New("not found")

// ErrStoreGone says that what a store keeps lies somewhere else now, or nowhere:
// what it would keep for this process is seen by no other.
var ErrStoreGone = errors.New("the gate's database was deleted or replaced while it ran; a person has to restart mcp-gate")

// A Process is one gate process as others know it.
type Process struct {
	ID      string    `json:"id"`
	PID     int       `json:"pid"`
	Host    string    `json:"host"`    // where PID means something: host name and PID namespace
	Birth   string    `json:"birth"`   // tells the process from a later one with its PID
	Started time.Time `json:"started"` // when it registered
}

// Life says whether a process is still there.
type Life uint8

// The zero Life is no answer and counts as Unclear.
const (
	Alive   Life = iota + 1
	Dead         // it ended, or its PID belongs to another now
	Unclear      // it ran on another host or in another container
)

// A Query selects tickets; empty fields select all.
type Query struct {
	Prefix    string  // of the id
	States    []State // any of them
	Principal string
	Server    string // server id
	Tool      string
	Since     time.Time // created then or later
	Limit     int       // newest first; 0 is 1000
	Bare      bool      // without Args, View and Result, which may be large
}

// A Store keeps what must outlive a process, for all processes of one home. It
// keeps and locks, and decides nothing. *store.Store is one; its methods are
// safe for concurrent use, by processes too. An error leaves nothing changed,
// or, where the commit itself failed, leaves open whether the change happened:
// read back before acting.
type Store interface {
	// Admit returns, as one step, the newest ticket with t's call key that was
	// done at or after since and not delivered, else the open ticket with this
	// key, else t, which it durably inserts.
	Admit(ctx context.Context, t Ticket, since time.Time) (Ticket, error)
	// Ticket returns a ticket, or an error wrapping ErrNotFound.
	Ticket(ctx context.Context, id string) (Ticket, error)
	// Change durably writes the fields of t from State on, and d if it is not
	// nil, in one transaction; it does so only when the stored revision is
	// still t's, and reports whether.
	Change(ctx context.Context, t Ticket, d *Decision) (bool, error)
	// Record keeps a decision that changed nothing.
	Record(ctx context.Context, d Decision) error
	// Decision returns the decision that [Store.Change] stored last for a
	// ticket, or an error wrapping ErrNotFound.
	Decision(ctx context.Context, ticket string) (Decision, error)
	Tickets(ctx context.Context, q Query) ([]Ticket, error)

	Register(ctx context.Context, p Process) error
	Process(ctx context.Context, id string) (Process, error)

	AddGrant(ctx context.Context, g Grant) error
	Grant(ctx context.Context, id string) (Grant, error)
	// Grants returns all grants, oldest first.
	Grants(ctx context.Context) ([]Grant, error)
	// ChangeGrant durably writes what is not signed of g when the stored
	// revision is still g's, and reports whether.
	ChangeGrant(ctx context.Context, g Grant) (bool, error)

	// Stats counts what happened at or after since.
	Stats(ctx context.Context, since time.Time) (Stats, error)
}

// A Notifier tells a person that something waits. It must not block: the call
// that asks waits for it.
type Notifier interface {
	Waiting(t Ticket)
}

// Options is what the package is handed. Store, Ring, Now and Random are
// needed; an [Inbox] also needs Process and Life.
type Options struct {
	Store   Store
	Ring    *Ring
	Now     func() time.Time
	Random  io.Reader // cryptographic; safe for concurrent use
	Process Process   // this process; an empty ID is drawn
	Life    func(Process) Life
	Notify  Notifier      // may be nil
	Log     *slog.Logger  // may be nil
	Expiry  time.Duration // of tickets; 0 is DefaultExpiry
	// Alarm is how many tickets within AlarmWithin are too many for a person;
	// 0 is no bound. AlarmWithin 0 is ten minutes.
	Alarm       int
	AlarmWithin time.Duration
	Bell        *Bell // shared by what lives in one process; nil makes one
}

// A Bell lets the waiting in one process hear at once of what changes in it.
type Bell struct {
	mu   sync.Mutex
	rung chan struct{} // guarded by mu; closed and replaced at each ring
}

// NewBell returns a bell that nobody rang yet.
func NewBell() *Bell { return &Bell{rung: make(chan struct{})} }

func (b *Bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.rung)
	b.rung = make(chan struct{})
}

func (b *Bell) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rung
}

func (o Options) filled() Options {
	if o.AlarmWithin == 0 {
		o.AlarmWithin = 10 * time.Minute
	}
	if o.Bell == nil {
		o.Bell = NewBell()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// clock returns the time to the microsecond, which is what stores keep.
func (o Options) clock() time.Time { return o.Now().UTC().Truncate(time.Microsecond) }

// change reads a ticket, lets edit change it, and writes it back, again and
// again until nobody else wrote in between. Edit may return a decision to
// store along, or an error to stop.
func (o Options) change(ctx context.Context, id string, edit func(*Ticket) (*Decision, error)) (Ticket, error) {
	for {
		t, err := o.Store.Ticket(ctx, id)
		if err != nil {
			return Ticket{}, err
		}
		before := t.State
		d, editErr := edit(&t)
		if editErr != nil && t.State == before {
			return t, editErr
		}
		ok, err := o.Store.Change(ctx, t, d)
		if err != nil {
			return t, err
		}
		if ok {
			t.Revision++
			o.Bell.ring()
			return t, editErr
		}
	}
}

// expired ends a ticket whose time is over and reports whether it was. Only
// states that can expire do.
func expired(t *Ticket, now time.Time) bool {
	if now.Before(t.Binding.Expires) || t.State != Pending && t.State != Approved {
		return false
	}
	t.Note = "nobody allowed it in time"
	if t.State == Approved {
		t.Note = "allowed, and not run in time"
	}
	return t.step(Expired, now) == nil
}

// An Inbox asks and runs; it cannot approve. Safe for concurrent use.
type Inbox struct {
	o Options // what may be told anew is in bounds

	bounds atomic.Pointer[bounds]

	register sync.Mutex // held while the process row is written
	known    bool       // guarded by register: the row is there
}

// New returns an inbox. It touches no store before it is used.
func New(o Options) (*Inbox, error) {
	if o.Process.ID == "" {
		id, err := ids.New("p_", o.Random)
		if err != nil {
			return nil, err
		}
		o.Process.ID = id
	}
	in := &Inbox{o: o.filled()}
	in.Bound(o.Expiry, o.Alarm)
	return in, nil
}

// bounds are what the owner may change while an inbox is used.
type bounds struct {
	expiry time.Duration
	alarm  int
}

// Bound sets anew what [Options] call Expiry and Alarm. Tickets that there are
// keep their time.
func (in *Inbox) Bound(expiry time.Duration, alarm int) {
	if expiry == 0 {
		expiry = DefaultExpiry
	}
	in.bounds.Store(&bounds{expiry, alarm})
}

// Process returns the id under which this process owns and runs tickets.
func (in *Inbox) Process() string { return in.o.Process.ID }

// Bell returns the bell to hand to the desk of the same process.
func (in *Inbox) Bell() *Bell { return in.o.Bell }

func (in *Inbox) registered(ctx context.Context) error {
	in.register.Lock()
	defer in.register.Unlock()
	if in.known {
		return nil
	}
	p := in.o.Process
	p.Started = in.o.clock()
	if err := in.o.Store.Register(ctx, p); err != nil {
		return fmt.Errorf("register this process: %w", err)
	}
	in.known = true
	return nil
}

// A Question is a call that needs a person. [Inbox.Ask] fills in what follows
// from the rest: the digest of the arguments, expiry, ticket and the view's
// copies of them.
type Question struct {
	Binding    Binding
	Args       json.RawMessage // strict JSON, or nil
	View       View
	Repeatable bool
	Launch     string // see [GateKey.Launch]
}

// Asked is what became of a question.
type Asked struct {
	Ticket Ticket
	// Attached says that an equal call had asked already.
	Attached bool
	// Replayed says that an equal call ran within the last [ReplayFor] and its
	// result never reached anyone: Ticket is done, and its result is this
	// caller's now.
	Replayed bool
	// Alarm says that more was asked lately than a person can answer well: show
	// no card, take the fallback.
	Alarm bool
}

// Ask freezes a call and makes a durable ticket of it, attaches it to the open
// ticket of an equal call, or hands out a result that an equal call never got.
func (in *Inbox) Ask(ctx context.Context, q Question) (Asked, error) {
	t, err := in.freeze(q)
	if err != nil {
		return Asked{}, fmt.Errorf("ask about %v: %w", q.View.Tool, err)
	}
	if err := in.registered(ctx); err != nil {
		return Asked{}, fmt.Errorf("ask about %v: %w", q.View.Tool, err)
	}
	for {
		asked, again, err := in.admit(ctx, t)
		if err != nil {
			return Asked{}, fmt.Errorf("ask about %v: %w", q.View.Tool, err)
		}
		if !again {
			return asked, nil
		}
	}
}

func (in *Inbox) freeze(q Question) (Ticket, error) {
	id, err := ids.New("t_", in.o.Random)
	if err != nil {
		return Ticket{}, err
	}
	argsDigest, err := ArgsDigest(q.Args)
	if err != nil {
		return Ticket{}, err
	}
	now := in.o.clock()
	b, v := q.Binding, q.View
	b.Args = argsDigest
	if b.Expires.IsZero() {
		b.Expires = now.Add(in.bounds.Load().expiry)
	}
	b.Expires = b.Expires.UTC().Truncate(time.Microsecond)
	v.Ticket, v.Args, v.Principal, v.Session, v.Expires = id, string(q.Args), b.Principal, b.Session, b.Expires
	if err := v.check(); err != nil {
		return Ticket{}, err
	}
	// The digest has to be that of the view as it will be read back.
	if v, err = reread(v); err != nil {
		return Ticket{}, err
	}
	return Ticket{
		ID: id, Binding: b, Args: q.Args, View: v, Level: v.Level, Repeatable: q.Repeatable, Fallback: v.Fallback,
		Launch: q.Launch, Owner: in.o.Process.ID, Created: now, State: Pending,
	}, nil
}

// reread returns the view as a store gives it back: bytes that are no UTF-8
// are replaced, times are cut.
func reread(v View) (View, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return View{}, err
	}
	var back View
	err = json.Unmarshal(b, &back)
	return back, err
}

// admit is one round of [Inbox.Ask]; again says that the ticket in the way was
// over and is closed now.
func (in *Inbox) admit(ctx context.Context, t Ticket) (asked Asked, again bool, err error) {
	kept, err := in.o.Store.Admit(ctx, t, t.Created.Add(-ReplayFor))
	if err != nil {
		return Asked{}, false, err
	}
	if kept.State == Done {
		ticket, first, err := in.Deliver(ctx, kept.ID)
		return Asked{Ticket: ticket, Replayed: true}, !first, err
	}
	if kept.ID != t.ID {
		kept, err = in.o.change(ctx, kept.ID, func(t *Ticket) (*Decision, error) {
			if expired(t, in.o.clock()) || !t.CallerGone {
				return nil, errUnchanged
			}
			t.CallerGone = false
			return nil, nil
		})
		if err != nil && !errors.Is(err, errUnchanged) {
			return Asked{}, false, err
		}
		return Asked{Ticket: kept, Attached: true}, !kept.State.Open(), nil
	}
	asked = Asked{Ticket: kept, Alarm: in.tooMany(ctx)}
	if in.o.Notify != nil && !asked.Alarm {
		in.o.Notify.Waiting(kept)
	}
	return asked, false, nil
}

// errUnchanged ends a change that has nothing to change. Callers of change do not
// return it.
var errUnchanged = errors.New("unchanged")

// tooMany reports whether more tickets were made lately than the bound. That
// it cannot be told is no reason to flood a person.
func (in *Inbox) tooMany(ctx context.Context) bool {
	alarm := in.bounds.Load().alarm
	if alarm == 0 {
		return false
	}
	recent, err := in.o.Store.Tickets(ctx, Query{Since: in.o.clock().Add(-in.o.AlarmWithin), Limit: alarm + 1})
	if err != nil {
		in.o.Log.WarnContext(ctx, "count recent questions", "error", err)
		return true
	}
	return len(recent) > alarm
}

// The pause between two looks at the store while waiting. Somebody may answer
// in another process, which cannot ring the bell.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
)

// Wait returns the ticket once its state is none of the given ones, or the
// ticket as it is and the context's error when that ends first. A ticket whose
// time is over expires.
func (in *Inbox) Wait(ctx context.Context, id string, while ...State) (Ticket, error) {
	pause := firstPause
	for {
		rung := in.o.Bell.next()
		t, err := in.Ticket(ctx, id)
		if err != nil || !slices.Contains(while, t.State) {
			return t, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return t, ctx.Err()
		case <-rung:
			timer.Stop()
		case <-timer.C:
			pause = min(pause*3/2, lastPause)
		}
	}
}

// Ticket returns a ticket as it is now: one whose time is over expires first.
func (in *Inbox) Ticket(ctx context.Context, id string) (Ticket, error) { return in.o.ticket(ctx, id) }

func (o Options) ticket(ctx context.Context, id string) (Ticket, error) {
	t, err := o.Store.Ticket(ctx, id)
	if err != nil || !expired(&t, o.clock()) {
		return t, err
	}
	t, err = o.change(ctx, id, func(t *Ticket) (*Decision, error) {
		if !expired(t, o.clock()) {
			return nil, errUnchanged
		}
		return nil, nil
	})
	if errors.Is(err, errUnchanged) {
		err = nil
	}
	return t, err
}

// LastApproved returns the last call of a tool that a person allowed and that
// ran, to compare a new one with, or nil.
func (in *Inbox) LastApproved(ctx context.Context, server, tool, principal string) (*LastCall, error) {
	ts, err := in.o.Store.Tickets(ctx, Query{Server: server, Tool: tool, Principal: principal, States: []State{Done}, Limit: 1})
	if err != nil || len(ts) == 0 {
		return nil, err
	}
	if digest, err := ArgsDigest(ts[0].Args); err != nil || digest != ts[0].Binding.Args {
		return nil, err // it is so old that they are gone
	}
	return &LastCall{ts[0].Decided, string(ts[0].Args)}, nil
}

// Silence takes the fallback for a call that nobody answered in time: where it
// is deny, the ticket expires; where it is defer, it stays as it is.
func (in *Inbox) Silence(ctx context.Context, id string) (Ticket, error) {
	return in.end(ctx, id, func(t *Ticket) error {
		if t.Fallback == engagement.FallbackDefer || t.State != Pending {
			return errUnchanged
		}
		t.Note = "nobody answered in time"
		return t.step(Expired, in.o.clock())
	})
}

// Gone says that the caller gave up: the ticket ends where its fallback is
// deny, and stays otherwise, marked.
func (in *Inbox) Gone(ctx context.Context, id string) (Ticket, error) {
	return in.end(ctx, id, func(t *Ticket) error {
		deny := t.Fallback == engagement.FallbackDeny
		switch {
		case deny && t.State == Pending:
			t.Note = "the caller gave up"
			return t.step(Cancelled, in.o.clock())
		case deny && t.State == Approved:
			t.Note = "the caller gave up"
			return t.step(Stale, in.o.clock())
		case t.CallerGone || !t.State.Open():
			return errUnchanged
		}
		t.CallerGone = true
		return nil
	})
}

// MarkStale ends a ticket that can no longer be run as it was approved, such
// as one whose session is gone.
func (in *Inbox) MarkStale(ctx context.Context, id, why string) (Ticket, error) {
	return in.end(ctx, id, func(t *Ticket) error {
		t.Note = why
		return t.step(Stale, in.o.clock())
	})
}

func (in *Inbox) end(ctx context.Context, id string, edit func(*Ticket) error) (Ticket, error) {
	t, err := in.o.change(ctx, id, func(t *Ticket) (*Decision, error) { return nil, edit(t) })
	if errors.Is(err, errUnchanged) {
		err = nil
	}
	return t, err
}

// Deliver marks the result of a ticket as handed out and reports whether this
// was the first time.
func (in *Inbox) Deliver(ctx context.Context, id string) (t Ticket, first bool, err error) {
	t, err = in.o.change(ctx, id, func(t *Ticket) (*Decision, error) {
		if t.Delivered || t.State != Done && t.State != Failed {
			return nil, errUnchanged
		}
		t.Delivered = true
		return nil, nil
	})
	if errors.Is(err, errUnchanged) {
		return t, false, nil
	}
	return t, err == nil, err
}

// A Receipt is what came back from the upstream.
type Receipt struct {
	Failed bool            // the tool said that it failed
	Result json.RawMessage // the upstream's own bytes
}

// Finish durably keeps the receipt of a call that this process ran.
func (in *Inbox) Finish(ctx context.Context, id string, r Receipt) (Ticket, error) {
	to := Done
	if r.Failed {
		to = Failed
	}
	return in.finish(ctx, id, to, func(t *Ticket) { t.Result = r.Result })
}

// Lose says that a call which this process ran may or may not have happened.
// It becomes unknown, and only a person settles it.
func (in *Inbox) Lose(ctx context.Context, id, why string) (Ticket, error) {
	return in.finish(ctx, id, Unknown, func(t *Ticket) { t.Note = why })
}

// A NotRunnerError says that another process runs the ticket, or nobody.
type NotRunnerError struct{ Ticket, Runner string }

func (e *NotRunnerError) Error() string {
	return fmt.Sprintf("ticket %s is run by %q, not by this process", e.Ticket, e.Runner)
}

func (in *Inbox) finish(ctx context.Context, id string, to State, keep func(*Ticket)) (Ticket, error) {
	// A receipt must not get lost because its caller has gone.
	ctx = context.WithoutCancel(ctx)
	t, err := in.o.change(ctx, id, func(t *Ticket) (*Decision, error) {
		if t.Runner != in.o.Process.ID {
			return nil, &NotRunnerError{id, t.Runner}
		}
		keep(t)
		return nil, t.step(to, in.o.clock())
	})
	if err == nil {
		return t, nil
	}
	// A commit that failed may have happened; nobody else finishes our calls.
	if now, readErr := in.o.Store.Ticket(ctx, id); readErr == nil && now.Runner == in.o.Process.ID && now.State == to && bytes.Equal(now.Result, t.Result) {
		return now, nil
	}
	return t, err
}

// Stats counts what happened at or after since.
func (in *Inbox) Stats(ctx context.Context, since time.Time) (Stats, error) {
	return in.o.Store.Stats(ctx, since)
}

// Stats are the attention figures of a time.
type Stats struct {
	Asks    int              `json:"asks"`
	States  map[string]int   `json:"states"`    // tickets by state
	Answers []AnswerCount    `json:"answers"`   // by channel, level and verdict
	Took    map[string]int64 `json:"took_ms"`   // time to answer: "p50", "p90"
	Grants  int              `json:"by_grant"`  // calls that a grant allowed without a question
	Reviews int              `json:"by_review"` // calls that the journal keeps instead of a question
}

// An AnswerCount is how often people decided so, in that way.
type AnswerCount struct {
	Channel Channel `json:"channel"`
	Level   Level   `json:"level"`
	Verdict Verdict `json:"verdict"`
	Count   int     `json:"count"`
}
