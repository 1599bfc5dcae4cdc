package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/ids"
)

// Forms turns what a client returned for a form into a decision of level L0,
// signed by the gate's own key. It can do no more than that level is worth.
type Forms struct{ o Options }

// NewForms returns the forms of a gate. Where no channel of level L0 is
// wanted, hand none to it.
func NewForms(o Options) *Forms { return &Forms{o.filled()} }

// SessionCalls is how often "allow for this session" lets the very same call
// run again.
const SessionCalls = 100

// Answer decides a ticket as a form's answer says. [AnswerLater] changes
// nothing. A yes to a ticket that needs more than L0 is a *[LevelError] and
// changes nothing.
func (f *Forms) Answer(ctx context.Context, id string, a Answer) (Ticket, error) {
	t, err := f.o.Store.Ticket(ctx, id)
	if err != nil || a == AnswerLater {
		return t, err
	}
	verdict := Allow
	switch a {
	case AnswerDeny:
		verdict = Deny
	case AnswerOnce:
	case AnswerSession:
		if t.View.Class == engagement.Destructive {
			return t, fmt.Errorf("answer %s: a destructive call is allowed one at a time", id)
		}
	default:
		return t, fmt.Errorf("answer %s: %v is no answer", id, a)
	}
	d, err := draft(t, verdict, L0, Elicitation, "", f.o.clock()).Sign(f.o.Ring.gate)
	if err != nil {
		return t, err
	}
	if t, err = f.o.decide(ctx, d); err != nil || a != AnswerSession {
		return t, err
	}
	// This call is allowed and may run already: without the grant the next one asks.
	if _, err := f.o.grant(ctx, SessionTerms(t, SessionCalls, t.Binding.Expires), L0, Elicitation, f.o.Ring.gate, t.Level); err != nil {
		f.o.Log.WarnContext(ctx, "a call is allowed, but not for the rest of its session", "ticket", id, "error", err)
	}
	return t, nil
}

func draft(t Ticket, v Verdict, l Level, c Channel, note string, now time.Time) Decision {
	return Decision{
		Ticket: t.ID, Verdict: v, Binding: t.Binding.Digest(), View: t.View.Digest(),
		Level: l, Channel: c, At: now, Note: note,
	}
}

// A Desk is where people's commands decide. It verifies proof before anything
// is stored; that executors verify it again is what holds. No agent's
// credential, socket or session may reach one.
type Desk struct{ o Options }

// NewDesk returns a desk.
func NewDesk(o Options) *Desk { return &Desk{o.filled()} }

// Ticket returns the one ticket whose id begins with prefix, expired if its
// time is over. Where several do, the error names them.
func (d *Desk) Ticket(ctx context.Context, prefix string) (Ticket, error) {
	ts, err := d.o.Store.Tickets(ctx, Query{Prefix: prefix, Limit: 5})
	switch {
	case err != nil:
		return Ticket{}, err
	case len(ts) == 0:
		return Ticket{}, fmt.Errorf("ticket %q: %w", prefix, ErrNotFound)
	case len(ts) > 1:
		ids := make([]string, len(ts))
		for i, t := range ts {
			ids[i] = t.ID
		}
		return Ticket{}, fmt.Errorf("ticket %q could be any of %q", prefix, ids)
	}
	return d.o.ticket(ctx, ts[0].ID)
}

// Tickets lists tickets, newest first.
func (d *Desk) Tickets(ctx context.Context, q Query) ([]Ticket, error) {
	return d.o.Store.Tickets(ctx, q)
}

// Stats counts what happened at or after since.
func (d *Desk) Stats(ctx context.Context, since time.Time) (Stats, error) {
	return d.o.Store.Stats(ctx, since)
}

// Draft returns the unsigned decision about the ticket as the person saw it.
// Sign it with [Decision.Sign] and hand it to [Desk.Decide] or [Desk.Settle].
func (d *Desk) Draft(t Ticket, v Verdict, l Level, c Channel, note string) Decision {
	return draft(t, v, l, c, note, d.o.clock())
}

// Decide stores a person's signed yes or no. A yes that comes too late, or
// second, is a *[StateError]: it is written down and changes nothing. Errors
// of proof (*[ProofError], *[LevelError]) change nothing.
func (d *Desk) Decide(ctx context.Context, dec Decision) (Ticket, error) {
	if dec.Channel == Elicitation {
		return Ticket{}, &ProofError{dec.Ticket, "a client's answer is not given here"}
	}
	if dec.Verdict != Allow && dec.Verdict != Deny {
		return Ticket{}, &ProofError{dec.Ticket, fmt.Sprintf("%v does not decide a question", dec.Verdict)}
	}
	return d.o.decide(ctx, dec)
}

// Deny stores a person's no, which needs no proof. The note goes to the model.
func (d *Desk) Deny(ctx context.Context, id string, c Channel, note string) (Ticket, error) {
	t, err := d.o.Store.Ticket(ctx, id)
	if err != nil {
		return Ticket{}, err
	}
	return d.o.decide(ctx, draft(t, Deny, L0, c, note, d.o.clock()))
}

// decide moves a pending ticket to where the decision says.
func (o Options) decide(ctx context.Context, d Decision) (Ticket, error) {
	if err := d.check(); err != nil {
		return Ticket{}, err
	}
	if d.Verdict == Deny {
		// A no needs no proof, and must not claim one that it has not.
		if level, err := o.Ring.Verify(d); err != nil || level != d.Level {
			d.Level, d.Key, d.Signature = L0, "", nil
		}
	}
	t, err := o.change(ctx, d.Ticket, func(t *Ticket) (*Decision, error) {
		to := map[Verdict]State{Allow: Approved, Deny: Denied}[d.Verdict]
		now := o.clock()
		if expired(t, now) {
			return nil, &StateError{t.ID, Expired, to}
		}
		if d.Verdict == Allow {
			if err := o.Ring.allows(d, t, t.Level); err != nil {
				return nil, err
			}
		}
		if err := t.step(to, now); err != nil {
			return nil, err
		}
		t.Note = d.Note
		return &d, nil
	})
	var state *StateError
	if errors.As(err, &state) {
		if recordErr := o.Store.Record(ctx, d); recordErr != nil {
			return t, errors.Join(err, recordErr)
		}
	}
	return t, err
}

// Settle ends a call of which nobody knows whether it happened, as a person
// found by looking. It needs the proof that the call itself needed. A call
// that still counts as running is settled only when the process that ran it
// cannot be known to live, which life tells.
func (d *Desk) Settle(ctx context.Context, dec Decision) (Ticket, error) {
	to, ok := map[Verdict]State{SettleDone: Done, SettleFailed: Failed}[dec.Verdict]
	if !ok {
		return Ticket{}, &ProofError{dec.Ticket, fmt.Sprintf("%v does not settle anything", dec.Verdict)}
	}
	if err := dec.check(); err != nil {
		return Ticket{}, err
	}
	return d.o.change(ctx, dec.Ticket, func(t *Ticket) (*Decision, error) {
		if err := d.provesAbout(dec, t); err != nil {
			return nil, err
		}
		now := d.o.clock()
		if t.State == Running && d.o.Life != nil && d.o.life(ctx, t.Runner) != Alive {
			if err := t.step(Unknown, now); err != nil {
				return nil, err
			}
		}
		if t.State != Unknown { // done by a receipt is not done by a person
			return nil, &StateError{t.ID, t.State, to}
		}
		t.Note = dec.Note
		return &dec, t.step(to, now)
	})
}

func (d *Desk) provesAbout(dec Decision, t *Ticket) error {
	if dec.Ticket != t.ID || dec.Binding != t.Binding.Digest() || dec.View != t.View.Digest() {
		return &ProofError{t.ID, "the decision is about another call"}
	}
	level, err := d.o.Ring.Verify(dec)
	if err == nil && !level.AtLeast(t.Level) {
		err = &LevelError{t.ID, level, t.Level}
	}
	return err
}

// AddGrant makes a grant of the terms, signed by the person's key at the
// given level. Need is the level that its class needs.
func (d *Desk) AddGrant(ctx context.Context, terms Terms, l Level, c Channel, key Signer, need Level) (Grant, error) {
	if c == Elicitation {
		return Grant{}, &ProofError{"a grant", "a client's answer is not given here"}
	}
	return d.o.grant(ctx, terms, l, c, key, need)
}

func (o Options) grant(ctx context.Context, terms Terms, l Level, c Channel, key Signer, need Level) (Grant, error) {
	now := o.clock()
	terms.Until = terms.Until.UTC().Truncate(time.Microsecond)
	if err := terms.check(now); err != nil {
		return Grant{}, err
	}
	id, err := ids.New("g_", o.Random)
	if err != nil {
		return Grant{}, err
	}
	g, err := Grant{ID: id, Terms: terms, Level: l, Channel: c, At: now}.Sign(key)
	if err != nil {
		return Grant{}, err
	}
	level, err := o.Ring.VerifyGrant(g)
	if err == nil && !level.AtLeast(need) {
		err = &LevelError{g.ID, level, need}
	}
	if err != nil {
		return Grant{}, err
	}
	return g, o.Store.AddGrant(ctx, g)
}

// Grants lists all grants, oldest first.
func (d *Desk) Grants(ctx context.Context) ([]Grant, error) {
	return d.o.Store.Grants(ctx)
}

// Narrow takes from a grant, at once and for good. It needs no proof.
func (d *Desk) Narrow(ctx context.Context, id string, n Narrowing) (Grant, error) {
	return d.o.changeGrant(ctx, id, func(g *Grant) error {
		g.Narrowed = g.Narrowed.Meet(n)
		return nil
	})
}

// Revoke ends a grant at once. It needs no proof.
func (d *Desk) Revoke(ctx context.Context, id string) (Grant, error) {
	return d.o.changeGrant(ctx, id, func(g *Grant) error {
		if g.Revoked.IsZero() {
			g.Revoked = d.o.clock()
		}
		return nil
	})
}

func (o Options) changeGrant(ctx context.Context, id string, edit func(*Grant) error) (Grant, error) {
	for {
		g, err := o.Store.Grant(ctx, id)
		if err != nil {
			return Grant{}, err
		}
		if err := edit(&g); err != nil {
			return g, err
		}
		ok, err := o.Store.ChangeGrant(ctx, g)
		if err != nil {
			return Grant{}, err
		}
		if ok {
			g.Revision++
			return g, nil
		}
	}
}

// Covering returns a live grant that allows the call and proves at least the
// level, the one with the earliest end first; false where there is none. What
// kept grants from being matched is joined in the error, which is no reason
// against the one found.
func (in *Inbox) Covering(ctx context.Context, c Call, m Matcher, need Level) (Grant, bool, error) {
	grants, err := in.o.Store.Grants(ctx) // a grant may be for more than one principal
	if err != nil {
		return Grant{}, false, fmt.Errorf("find a grant for %v: %w", c.Tool, err)
	}
	var best Grant
	var problems []error
	for _, g := range grants {
		if err := in.live(g, c, m, need); err != nil {
			if !errors.Is(err, errUnchanged) {
				problems = append(problems, err)
			}
			continue
		}
		_, until := g.Limit()
		if _, bestUntil := best.Limit(); best.ID == "" || until.Before(bestUntil) {
			best = g
		}
	}
	return best, best.ID != "", errors.Join(problems...)
}

// live reports why a grant does not allow the call; errUnchanged where that is
// nothing to speak of.
func (in *Inbox) live(g Grant, c Call, m Matcher, need Level) error {
	if g.Left(in.o.clock()) == 0 {
		return errUnchanged
	}
	ok, err := g.Covers(c, m)
	if err != nil {
		return err
	}
	if !ok {
		return errUnchanged
	}
	level, err := in.o.Ring.VerifyGrant(g)
	if err != nil {
		return err
	}
	if !level.AtLeast(need) {
		return &LevelError{g.ID, level, need}
	}
	return nil
}

// ErrSpent says that a grant has no call left, is over, revoked, or does not
// cover the call any more.
var ErrSpent = errors.New("the grant does not allow this call any more")

// Spend takes one call from a grant, durably, or returns an error wrapping
// [ErrSpent]. Of any number of processes no more succeed than calls are left.
func (in *Inbox) Spend(ctx context.Context, id string, c Call, m Matcher, need Level) (Grant, error) {
	g, err := in.o.changeGrant(ctx, id, func(g *Grant) error {
		if err := in.live(*g, c, m, need); err != nil {
			if errors.Is(err, errUnchanged) {
				err = ErrSpent
			}
			return err
		}
		g.Used++
		g.LastUsed = in.o.clock()
		return nil
	})
	if err != nil {
		return g, fmt.Errorf("spend %s: %w", id, err)
	}
	return g, nil
}
