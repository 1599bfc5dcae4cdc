package gate

import (
	"context"
	"sync"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/policy"
)

// Taints keeps what conversations have read; *store.Store does. Marks are only
// ever added.
type Taints interface {
	// Taint adds marks, a set of bits, to an account and returns all that it
	// has. No marks only read.
	Taint(ctx context.Context, account string, marks uint8) (all uint8, err error)
}

// The marks of an account. Their bits are in databases: they never change.
const (
	markPrivate   uint8 = 1 << iota // it has read records or raw pixels
	markUntrusted                   // it has read what strangers may have written
	markBoth      = markPrivate | markUntrusted
)

// taint is what this session knows of the marks on its account. Other sessions of the
// same conversation add marks too.
type taint struct {
	mu    sync.Mutex // guards marks; never held across a look at the store
	marks uint8
}

func (t *taint) add(marks uint8) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.marks |= marks
}

func (t *taint) has() uint8 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.marks
}

// taintAccount is the key of the session's marks: its conversation, or its principal
// and profile where no conversation is known.
func (s *Session) taintAccount() string {
	if s.who.Conversation != "" {
		return s.who.Conversation
	}
	return "principal " + s.who.Principal + " " + s.who.Profile
}

// tracks reports whether it is recorded what sessions read.
func (s *Session) tracks() bool {
	return s.g.opts.Taints != nil && s.g.ruling().Taint != policy.TaintOff
}

// sendsOut reports whether a tool can carry data out.
func sendsOut(e *catalog.Entry) bool { return foreign(e) }

// foreign reports whether a tool deals with strangers: it reads what they may
// have written, and what it is given may reach them.
func foreign(e *catalog.Entry) bool {
	open := e.Hints.OpenWorld != nil && *e.Hints.OpenWorld
	return open || e.Class.Domains.Has(engagement.DomainWeb) || e.Class.Domains.Has(engagement.DomainMessaging)
}

// taintOf is what a decision depends on of the marks. The store is read only for a
// tool that sends out, and only while the session lacks a mark.
func (s *Session) taintOf(c *call) policy.Taint {
	if !s.tracks() {
		return policy.Taint{Mode: policy.TaintOff}
	}
	t := policy.Taint{Mode: s.g.ruling().Taint, SendsOut: sendsOut(c.entry)}
	marks := s.taint.has()
	if t.SendsOut && marks != markBoth && !c.unseen && s.g.opts.Stored() {
		all, err := s.g.opts.Taints.Taint(context.Background(), s.taintAccount(), 0)
		if err != nil {
			s.g.opts.Log.Error("what the session has read cannot be told: it is taken for the worst", "error", err)
			all = markBoth
		} else {
			s.taint.add(all)
		}
		marks |= all
	}
	t.Private, t.Untrusted = marks&markPrivate != 0, marks&markUntrusted != 0
	return t
}

// marksFor are the marks that a session gets by reading these classes from a tool.
func (s *Session) marksFor(c *call, classes engagement.EgressSet) (marks uint8) {
	if classes.Has(engagement.RowLevel) || classes.Has(engagement.RawPixels) {
		marks |= markPrivate
	}
	if foreign(c.source()) {
		marks |= markUntrusted
	}
	return marks
}

// source is the tool whose words a call brings.
func (c *call) source() *catalog.Entry {
	switch {
	case c.local == nil:
		return c.entry
	case c.origin == nil:
		return nothing
	}
	return c.origin
}

// wouldTaint reports whether what is found in a result could add a mark.
func (s *Session) wouldTaint(c *call) bool {
	return s.tracks() && s.taint.has()&markPrivate == 0 && !c.declared().Has(engagement.RowLevel)
}

// hasRead records what classes of data the client is about to be given. Call it before
// sending them. Nothing is written where the account has the marks already.
func (s *Session) hasRead(ctx context.Context, c *call, classes engagement.EgressSet) {
	if !s.tracks() || c.away {
		return
	}
	marks := s.marksFor(c, classes)
	if marks&^s.taint.has() == 0 {
		return
	}
	s.taint.add(marks)
	all, err := s.g.opts.Taints.Taint(context.WithoutCancel(ctx), s.taintAccount(), marks)
	if err != nil {
		s.g.opts.Log.Error("what the session has read is known to this process only", "error", err)
		return
	}
	s.taint.add(all)
}
