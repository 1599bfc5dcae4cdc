package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/config"
	"github.com/mcp-gate/mcp-gate/inbox"
	"github.com/mcp-gate/mcp-gate/store"
)

// openStore opens what all gates of a home share about questions: the
// database, which is made at its first use, the keys whose signatures count,
// and the gate's own key, which is made where there is none. Close the store
// when done.
func openStore(home config.Home) (*store.Store, *inbox.Ring, *inbox.GateKey, error) {
	if err := home.Ensure(); err != nil {
		return nil, nil, nil, usage(err)
	}
	key, err := inbox.LoadGateKey(home.Keys(), rand.Reader)
	if err != nil {
		return nil, nil, nil, err
	}
	ring, err := inbox.OpenRing(home.Keys(), key, false, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	return storeOf(home), ring, key, nil
}

// storeOf is the database of a home.
func storeOf(home config.Home) *store.Store {
	s := store.New(home.DB())
	s.Guard = func(ctx context.Context) error { return stranded(ctx, home) }
	s.OnChange = threads.busy
	return s
}

// inboxOptions is what every holder of questions is handed: an inbox, forms
// and desks add what is theirs.
func inboxOptions(s *store.Store, ring *inbox.Ring) inbox.Options {
	return inbox.Options{Store: s, Ring: ring, Now: time.Now, Random: rand.Reader, Process: store.Self(), Life: store.Life}
}

// desk is where a person's command decides. It writes down every decision that
// it makes, since the gate that runs the call may never hear how it came about.
type desk struct {
	*inbox.Desk
	home  config.Home
	store *store.Store
	ring  *inbox.Ring
	gate  *inbox.GateKey
	aud   *audit.Log // nil until the first event
}

// openDesk opens the desk of the home. Close it when done.
func (a *app) openDesk() (*desk, error) {
	home, err := a.home()
	if err != nil {
		return nil, err
	}
	s, ring, key, err := openStore(home)
	if err != nil {
		return nil, err
	}
	return &desk{Desk: inbox.NewDesk(inboxOptions(s, ring)), home: home, store: s, ring: ring, gate: key}, nil
}

// stranded returns an error where another gate of the home still holds a database
// that is no longer at its place: what is decided here would not get there, and
// the write-ahead log of the one belongs not to the other.
func stranded(ctx context.Context, home config.Home) error {
	live, err := gates(home)
	if err != nil {
		return err
	}
	for _, r := range live {
		if r.PID == os.Getpid() {
			continue
		}
		// One that does not answer is no reason to keep a person from deciding.
		if reply, err := r.ask(ctx, controlQuestion{Op: "status"}); err == nil && reply.Status.Fault != "" {
			return fmt.Errorf("gate %d: %w", r.PID, inbox.ErrStoreGone)
		}
	}
	return nil
}

// Close closes the store and the audit log.
func (d *desk) Close() error {
	err := d.store.Close()
	if d.aud != nil {
		err = errors.Join(err, d.aud.Close())
	}
	return err
}

// record writes an event into the audit log of the home, in a chain of this
// command's own.
func (d *desk) record(e audit.Event) error {
	if d.aud == nil {
		aud, err := audit.Open(audit.Options{
			Dir: d.home.Audit(), Now: time.Now, Process: processName(), Note: "mcp-gate " + version() + ", a person's command", Sync: true,
		})
		if err != nil {
			return fmt.Errorf("open the audit log: %w", err)
		}
		d.aud = aud
	}
	return d.aud.Record(e)
}

// recordDecision writes down what a person decided, or tried to, about a
// ticket; failure is why it changed nothing, or nil.
func (d *desk) recordDecision(t inbox.Ticket, dec inbox.Decision, failure error) error {
	e := audit.Event{
		Kind: audit.Decision, Ticket: dec.Ticket, Session: t.Binding.Session, Principal: t.Binding.Principal,
		Tool: t.View.Tool.String(), Class: t.View.Class.String(), Binding: dec.Binding, ArgsDigest: t.Binding.Args,
		Level: dec.Level.String(), Channel: dec.Channel.String(), Outcome: dec.Verdict.String(), Note: "key " + dec.Key,
	}
	if dec.Key == "" {
		e.Note = ""
	}
	if waited := dec.At.Sub(t.Created); waited > 0 {
		e.Duration = waited
	}
	if failure != nil {
		e.Outcome, e.ErrorCode, e.Note = audit.Error, dec.Verdict.String(), failure.Error()
	}
	return d.record(e)
}

// withDesk runs f at the desk of the home.
func (a *app) withDesk(ctx context.Context, f func(context.Context, *desk) error) (err error) {
	d, err := a.openDesk()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return f(ctx, d)
}
