package inbox

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mcp-gate/mcp-gate/internal/ids"
)

// An Attempt states a call anew, as things are at the moment of dispatch.
type Attempt struct {
	// Binding is the call as it would be frozen now. Session and Expires are
	// the ticket's and need not be set.
	Binding Binding
	// Level is what the call needs now; the ticket's own level holds too.
	Level Level
	// Launch is how this process starts the server, see [GateKey.Launch]: the
	// ticket has to be for the same.
	Launch string
	// Person says that a person's command runs it, whatever Launch is.
	Person bool
}

// A StaleError says that something changed since a person decided. The ticket
// is over; an equal call asks anew.
type StaleError struct {
	Ticket  string
	Changed []string // such as "definition", "policy"
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("ticket %s is stale: %s changed since it was approved", e.Ticket, strings.Join(e.Changed, ", "))
}

// A NotOwnerError says that another process has to run the ticket.
type NotOwnerError struct {
	Ticket, Owner string
	Life          Life // of the owner
}

func (e *NotOwnerError) Error() string {
	return fmt.Sprintf("ticket %s belongs to process %s", e.Ticket, e.Owner)
}

// Claim takes an approved ticket for running. When it returns without an
// error, "running" is durable, no other process or goroutine has it or will
// get it, and the caller must forward exactly the ticket's Args and then call
// [Inbox.Finish] or [Inbox.Lose]. Otherwise nothing may be run:
//
//   - *[StaleError], *[ProofError], *[LevelError]: the approval does not hold
//     for this call; the ticket is over.
//   - *[NotOwnerError]: the process that admitted the call runs it while it
//     lives, and then only one that starts the server in the same way.
//   - *[StateError]: it is not approved (any more), or its time is over;
//     somebody else may have claimed it.
//
// A call whose runner died is claimed again only where it is repeatable.
func (in *Inbox) Claim(ctx context.Context, id string, a Attempt) (Ticket, error) {
	if err := in.registered(ctx); err != nil {
		return Ticket{}, fmt.Errorf("claim %s: %w", id, err)
	}
	token, err := ids.New("c_", in.o.Random)
	if err != nil {
		return Ticket{}, fmt.Errorf("claim %s: %w", id, err)
	}
	t, err := in.o.change(ctx, id, func(t *Ticket) (*Decision, error) { return nil, in.take(ctx, t, a, token) })
	if err == nil {
		return t, nil
	}
	// A commit that failed, or whose caller gave up, may have happened. If the
	// claim is there, it is ours and nobody else will run it.
	if now, readErr := in.o.Store.Ticket(context.WithoutCancel(ctx), id); readErr == nil && now.State == Running && now.Claim == token {
		return now, nil
	}
	return t, fmt.Errorf("claim: %w", err)
}

// take moves the ticket to running, or to where it belongs with an error that
// says why.
func (in *Inbox) take(ctx context.Context, t *Ticket, a Attempt, token string) error {
	now := in.o.clock()
	again := t.State == Running && t.Repeatable
	if t.State != Approved && !again {
		return &StateError{t.ID, t.State, Running}
	}
	if err := in.mayRun(ctx, t, a, again); err != nil {
		return err
	}
	over := Stale
	if again {
		over = Unknown // a call that ran cannot become stale
	} else if expired(t, now) {
		return &StateError{t.ID, t.State, Running}
	}
	if err := in.holds(ctx, t, a); err != nil {
		var stale *StaleError
		var proof *ProofError
		var level *LevelError
		if errors.As(err, &stale) || errors.As(err, &proof) || errors.As(err, &level) {
			t.Note = err.Error()
			if stepErr := t.step(over, now); stepErr != nil {
				return stepErr
			}
		}
		return err
	}
	t.Runner, t.Claim, t.Started = in.o.Process.ID, token, now
	if again {
		return nil // it stays running, in other hands
	}
	return t.step(Running, now)
}

// mayRun checks that it is this process's turn.
func (in *Inbox) mayRun(ctx context.Context, t *Ticket, a Attempt, again bool) error {
	owner := t.Owner
	if again {
		owner = t.Runner
	}
	if owner == in.o.Process.ID && !again {
		return nil
	}
	if life := in.o.life(ctx, owner); life != Dead || !a.Person && a.Launch != t.Launch {
		return &NotOwnerError{t.ID, owner, life}
	}
	// The one that ran it is dead; the one that admitted it comes first still.
	if again && t.Owner != in.o.Process.ID && t.Owner != owner && in.o.life(ctx, t.Owner) == Alive {
		return &NotOwnerError{t.ID, t.Owner, Alive}
	}
	return nil
}

// life tells whether a process lives. One without a row never wrote anything
// durable and is not there; a row that cannot be read says nothing.
func (o Options) life(ctx context.Context, id string) Life {
	if id == o.Process.ID {
		return Alive
	}
	p, err := o.Store.Process(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		return Dead
	case err != nil:
		return Unclear
	}
	return o.Life(p)
}

// holds checks that a person allowed this very call, as it is now.
func (in *Inbox) holds(ctx context.Context, t *Ticket, a Attempt) error {
	now := a.Binding
	now.Session, now.Expires = t.Binding.Session, t.Binding.Expires
	changed := t.Binding.Differences(now)
	if stored, err := ArgsDigest(t.Args); err != nil || stored != t.Binding.Args {
		changed = append(changed, "stored arguments")
	}
	if a.Launch != t.Launch && !a.Person {
		changed = append(changed, "how its server is started")
	}
	if len(changed) > 0 {
		return &StaleError{t.ID, changed}
	}
	d, err := in.o.Store.Decision(ctx, t.ID)
	if errors.Is(err, ErrNotFound) {
		return &ProofError{t.ID, "no decision is kept"}
	}
	if err != nil {
		return err
	}
	if wentBack(in.o.clock(), d.At) {
		return &StaleError{t.ID, []string{"the clock"}}
	}
	return in.o.Ring.allows(d, t, max(t.Level, a.Level))
}

// allows checks that d is a yes to t that proves at least the level.
func (r *Ring) allows(d Decision, t *Ticket, need Level) error {
	switch {
	case d.Verdict != Allow:
		return &ProofError{t.ID, "the decision is not a yes"}
	case d.Ticket != t.ID || d.Binding != t.Binding.Digest():
		return &ProofError{t.ID, "the decision is about another call"}
	case d.View != t.View.Digest():
		return &ProofError{t.ID, "the decision is about another card"}
	case !d.At.Before(t.Binding.Expires):
		return &ProofError{t.ID, "the decision came after the ticket's end"}
	}
	level, err := r.Verify(d)
	if err != nil {
		return err
	}
	if !level.AtLeast(need) {
		return &LevelError{t.ID, level, need}
	}
	return nil
}

// Runnable returns approved tickets, and repeatable ones whose runner died,
// that this process may try to claim: its own, and those of dead processes.
// Which of them it can run, the caller knows.
func (in *Inbox) Runnable(ctx context.Context) ([]Ticket, error) {
	ts, err := in.o.Store.Tickets(ctx, Query{States: []State{Approved, Running}})
	if err != nil {
		return nil, err
	}
	lives := map[string]Life{}
	dead := func(id string) bool {
		if _, ok := lives[id]; !ok {
			lives[id] = in.o.life(ctx, id)
		}
		return lives[id] == Dead
	}
	var out []Ticket
	for _, t := range ts {
		if t.State == Approved && (t.Owner == in.o.Process.ID || dead(t.Owner)) ||
			t.State == Running && t.Repeatable && dead(t.Runner) {
			out = append(out, t)
		}
	}
	return out, nil
}

// Recover marks what dead processes left: a running call without a receipt
// becomes unknown, unless it is repeatable. It also ends tickets whose time is
// over. It returns those that it changed. Every process may call it at any
// time.
func (in *Inbox) Recover(ctx context.Context) ([]Ticket, error) {
	ts, err := in.o.Store.Tickets(ctx, Query{States: []State{Pending, Approved, Running}, Limit: 100_000, Bare: true})
	if err != nil {
		return nil, fmt.Errorf("recover: %w", err)
	}
	var changed []Ticket
	for _, t := range ts {
		if t.State != Running && !expired(&t, in.o.clock()) {
			continue // most wait, and need no second look
		}
		after, err := in.o.change(ctx, t.ID, func(t *Ticket) (*Decision, error) {
			if expired(t, in.o.clock()) {
				return nil, nil
			}
			if t.State != Running || t.Repeatable || in.o.life(ctx, t.Runner) != Dead {
				return nil, errUnchanged
			}
			t.Note = "the gate that ran it ended without a receipt"
			return nil, t.step(Unknown, in.o.clock())
		})
		switch {
		case errors.Is(err, errUnchanged):
		case err != nil:
			return changed, fmt.Errorf("recover %s: %w", t.ID, err)
		default:
			changed = append(changed, after)
		}
	}
	return changed, nil
}
