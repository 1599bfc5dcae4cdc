package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/inbox"
	"github.com/mcp-gate/mcp-gate/internal/canonjson"
	"github.com/mcp-gate/mcp-gate/policy"
)

// Inbox is what the gate may do with questions: ask, wait, run what somebody
// else allowed, and finish. It has no way to approve. *inbox.Inbox is one.
type Inbox interface {
	Ask(ctx context.Context, q inbox.Question) (inbox.Asked, error)
	Wait(ctx context.Context, id string, while ...inbox.State) (inbox.Ticket, error)
	Ticket(ctx context.Context, id string) (inbox.Ticket, error)
	LastApproved(ctx context.Context, server, tool, principal string) (*inbox.LastCall, error)
	Silence(ctx context.Context, id string) (inbox.Ticket, error)
	Gone(ctx context.Context, id string) (inbox.Ticket, error)
	MarkStale(ctx context.Context, id, why string) (inbox.Ticket, error)
	Claim(ctx context.Context, id string, a inbox.Attempt) (inbox.Ticket, error)
	Finish(ctx context.Context, id string, r inbox.Receipt) (inbox.Ticket, error)
	Lose(ctx context.Context, id, why string) (inbox.Ticket, error)
	Deliver(ctx context.Context, id string) (inbox.Ticket, bool, error)
	Runnable(ctx context.Context) ([]inbox.Ticket, error)
	Recover(ctx context.Context) ([]inbox.Ticket, error)
	Covering(ctx context.Context, c inbox.Call, m inbox.Matcher, need inbox.Level) (inbox.Grant, bool, error)
	Spend(ctx context.Context, id string, c inbox.Call, m inbox.Matcher, need inbox.Level) (inbox.Grant, error)
}

// Forms turns what a client answered into a decision of the weakest level,
// and of no other. *inbox.Forms is one.
type Forms interface {
	Answer(ctx context.Context, id string, a inbox.Answer) (inbox.Ticket, error)
}

// Sessions keeps what other processes must know of a session: to run its calls
// later, to work for it, and to share what it may spend. *store.Store is one.
type Sessions interface {
	// ChargeCall takes one call off an account unless nothing of what limit
	// bounds is left; ChargeBytes takes off a result. Spent is both sums.
	ChargeCall(ctx context.Context, account string, limit engagement.Spend) (charged bool, err error)
	ChargeBytes(ctx context.Context, account string, n int64) error
	Spent(ctx context.Context, account string) (calls, resultBytes int64, err error)

	KeepSession(ctx context.Context, id string, record json.RawMessage, now time.Time) error
	Session(ctx context.Context, id string) (record json.RawMessage, updated time.Time, err error)
}

// binding is what an approval of the call would be bound to now. The inbox adds the
// digest of the arguments and the expiry.
func (s *Session) binding(c *call) inbox.Binding {
	return inbox.Binding{
		Server: s.g.server(c.entry.ID.Server).ID, Tool: c.entry.ID.Tool, Definition: c.entry.Digest,
		Principal: s.who.Principal, Policy: s.policyVersion(c), Session: s.id,
	}
}

// policyVersion is the digest of the policy that a ticket is bound to. What changes by
// itself, as what is left to spend and who is there, is not in it: that is judged
// again at dispatch.
func (s *Session) policyVersion(c *call) string {
	server := s.g.server(c.entry.ID.Server)
	b, err := json.Marshal([]any{s.g.ruling().PolicyVersion, server.Policy, server.OnEgress, c.entry.Class.Permission, c.entry.Class.Egress, s.who.Scope})
	if err != nil { // no approval holds for such a digest
		return "unknown: " + err.Error()
	}
	digest, err := canonjson.Digest(b)
	if err != nil {
		return "unknown: " + err.Error()
	}
	return digest
}

// inboxCall is the call as the inbox compares it with grants.
func (s *Session) inboxCall(c *call) inbox.Call {
	return inbox.Call{
		Tool: c.entry.ID, Server: s.g.server(c.entry.ID.Server).ID, Definition: c.entry.Digest,
		Principal: s.who.Principal, Session: s.id, Class: c.entry.Class.Permission, ArgsDigest: argsDigest(c.args),
	}
}

func argsDigest(args json.RawMessage) string {
	digest, err := inbox.ArgsDigest(args)
	if err != nil { // refused on the road before
		return ""
	}
	return digest
}

// A Matcher compares a grant's patterns and constraints with one call, as the owner's
// rules compare theirs.
type Matcher struct {
	Request policy.Request
	Server  Server // what relative paths are relative to
	Resolve func(path string) (string, error)
}

// resolved resolves paths for a rule's or a grant's tests; one that cannot be
// resolved is left out, which makes the test fail.
func (s Server) resolved(resolve func(string) (string, error), paths []string) map[string]string {
	found := map[string]string{}
	for _, path := range paths {
		at, ok := s.follow(path)
		if !ok {
			continue
		}
		if real, err := resolve(at); err == nil {
			found[path] = real
		}
	}
	return found
}

// follow returns the absolute form of a path that the server is given. It is false
// where only the server knows what the path is relative to.
func (s Server) follow(path string) (string, bool) {
	switch {
	case catalog.ServerFollows(path):
		return "", false
	case filepath.IsAbs(path):
		return path, true
	}
	return filepath.Join(s.Dir, path), !s.Folders
}

// Tool implements [inbox.Matcher].
func (m Matcher) Tool(pattern string) bool {
	ok, err := m.holds(policy.Record{Tools: policy.Words{pattern}})
	return err == nil && ok
}

// Args implements [inbox.Matcher].
func (m Matcher) Args(constraint json.RawMessage) (bool, error) {
	if m.Request.ArgsUnknown {
		return false, inbox.ErrArgsNotKept
	}
	var args map[string]policy.ArgRecord
	if err := json.Unmarshal(constraint, &args); err != nil {
		return false, fmt.Errorf("read a constraint: %w", err)
	}
	return m.holds(policy.Record{Args: args})
}

func (m Matcher) holds(r policy.Record) (bool, error) {
	r.Do = policy.DoAllow.String()
	rules, err := policy.Compile([]policy.Record{r})
	if err != nil {
		return false, err
	}
	q := m.Request
	q.Resolved = m.Server.resolved(m.Resolve, rules.Paths(q))
	return rules.Evaluate(q).Do == policy.DoAllow, nil
}

func (s *Session) matcher(c *call) Matcher {
	return Matcher{s.request(c, s.rank()), *s.g.server(c.entry.ID.Server), s.g.opts.Resolve}
}

// need is the least proof that a decision about the call must have.
func (s *Session) need(c *call) inbox.Level {
	least := s.g.ruling().Least[c.entry.Class.Permission]
	if least == 0 {
		least = policy.LeastLevel(c.entry.Class.Permission)
	}
	return inbox.Level(least)
}

// grant looks for one that covers the call.
func (s *Session) grant(ctx context.Context, c *call) policy.Grant {
	g, ok, err := s.g.opts.Inbox.Covering(ctx, s.inboxCall(c), s.matcher(c), s.need(c))
	if err != nil {
		s.g.opts.Log.Warn("not every grant could be looked at", "error", err)
	}
	if !ok {
		return policy.Grant{}
	}
	names := false
	for _, pattern := range g.Terms.Tools {
		names = names || pattern == c.entry.ID.String()
	}
	return policy.Grant{ID: g.ID, NamesTool: names, Level: policy.Level(g.Level)}
}

// question freezes the call for the inbox.
func (s *Session) question(ctx context.Context, c *call, d policy.Decision) inbox.Question {
	server := s.g.server(c.entry.ID.Server)
	return inbox.Question{
		Binding: s.binding(c), Args: c.args, View: s.view(ctx, c, d),
		Repeatable: c.entry.Class.Permission == engagement.Read || server.Idempotent != nil && server.Idempotent(c.entry.ID.Tool),
		Launch:     server.Launch,
	}
}

// view is what the person is shown.
func (s *Session) view(ctx context.Context, c *call, d policy.Decision) inbox.View {
	last, err := s.g.opts.Inbox.LastApproved(ctx, s.g.server(c.entry.ID.Server).ID, c.entry.ID.Tool, s.who.Principal)
	if err != nil {
		s.g.opts.Log.Warn("the last approved call could not be read", "error", err)
	}
	fallback := d.Fallback
	if d.Verdict == policy.Defer {
		fallback = engagement.FallbackDefer
	}
	v := inbox.View{
		Tool: c.entry.ID, Class: c.entry.Class.Permission, Egress: []engagement.Egress{c.entry.Class.Egress},
		Principal: s.who.Principal, Client: s.who.Client,
		Definition: inbox.Definition{State: inbox.DefinitionAccepted, Digest: c.entry.Digest},
		Last:       last,
		Rule:       inbox.Rule{Name: d.Rule, Where: d.By.Source.String(), Reason: d.Reason()},
		Undo:       s.undoText(c, d), Undoes: c.undoes,
		Fallback: fallback, Wait: s.wait(),
		Level: s.need(c),
	}
	if c.local == nil { // else the gate answers, and its server hears nothing of it
		v.GoesTo = s.g.server(c.entry.ID.Server).Place
	}
	if usual := inbox.Level(policy.LeastLevel(c.entry.Class.Permission)); v.Level < usual {
		v.LoweredFrom = usual
	}
	return v
}

// undoText is the way back that a call will have; "" where none.
func (s *Session) undoText(c *call, d policy.Decision) string {
	if !d.Checkpoint {
		return ""
	}
	return s.wayBackOf(c).String()
}

// ask makes a ticket of the call, or finds the ticket of an equal call, and goes on from
// the state of that ticket.
func (s *Session) ask(ctx context.Context, c *call, d policy.Decision) Outcome {
	if err := s.keep(ctx); err != nil {
		return s.unrecorded(c, d, err)
	}
	asked, err := s.g.opts.Inbox.Ask(ctx, s.question(ctx, c, d))
	if err != nil {
		return s.unrecorded(c, d, err)
	}
	c.ticket = asked.Ticket.ID
	if asked.Replayed {
		return s.deliver(c, asked.Ticket)
	}
	e := s.event(audit.Ask, c, d)
	e.Level = asked.Ticket.Level.String()
	if asked.Attached {
		e.Note = "an equal call had asked already"
	}
	if err := s.g.opts.Audit.Record(e); err != nil {
		return s.unrecorded(c, d, err)
	}
	if asked.Alarm {
		return s.unanswered(ctx, c, policy.CodeAlarm)
	}
	return s.goOn(ctx, c, asked.Ticket, d)
}

// unrecorded refuses a call because it cannot be written down.
func (s *Session) unrecorded(c *call, d policy.Decision, err error) Outcome {
	s.g.opts.Log.Error("nothing runs that cannot be written down", "tool", c.entry.ID.String(), "error", err)
	d.Verdict, d.Code, d.Rule = policy.Deny, policy.CodeAudit, "audit"
	var why error
	if errors.Is(err, inbox.ErrStoreGone) {
		why = inbox.ErrStoreGone
	}
	return Outcome{Result: refusal(d, c.ticket, why)}
}

// goOn takes a call on from the state of its ticket.
func (s *Session) goOn(ctx context.Context, c *call, t inbox.Ticket, d policy.Decision) Outcome {
	switch t.State {
	case inbox.Pending:
		if d.Verdict == policy.Defer {
			return s.stub(c, t)
		}
		return s.put(ctx, c, t)
	case inbox.Approved:
		return s.dispatch(ctx, c, t)
	case inbox.Running:
		wait, cancel := context.WithTimeout(ctx, s.wait())
		defer cancel()
		after, err := s.g.opts.Inbox.Wait(wait, t.ID, inbox.Running)
		if after.State == inbox.Running || err != nil {
			return s.stub(c, after)
		}
		return s.goOn(ctx, c, after, d)
	case inbox.Done, inbox.Failed:
		return s.deliver(c, t)
	}
	return s.ended(c, t)
}

// endings are the codes of tickets that came to nothing.
var endings = map[inbox.State]policy.Code{
	inbox.Denied: policy.CodeDeclined, inbox.Expired: policy.CodeExpired, inbox.Cancelled: policy.CodeCancelled,
	inbox.Stale: policy.CodeStale, inbox.Unknown: policy.CodeUnsettled,
}

// ended refuses a call whose ticket came to nothing. A person's note on a no
// goes along.
func (s *Session) ended(c *call, t inbox.Ticket) Outcome {
	d := policy.Decision{Verdict: policy.Deny, Code: endings[t.State], Rule: "ticket", About: policy.About{Tool: t.View.Tool, Class: t.View.Class, Ticket: t.ID}}
	if t.State == inbox.Denied && t.Note != "" {
		c.unfit = errors.New("they say: " + inbox.DisplayLine(t.Note))
	}
	return s.refuse(c, d)
}

// put waits for a person's answer. The question is in the inbox; where the client can
// ask, it is put to its person as well, and the first answer counts.
func (s *Session) put(ctx context.Context, c *call, t inbox.Ticket) Outcome {
	if !s.canAsk(c) {
		wait, cancel := context.WithTimeout(ctx, s.wait())
		defer cancel()
		after, err := s.g.opts.Inbox.Wait(wait, t.ID, inbox.Pending)
		if err == nil && after.State != inbox.Pending {
			return s.goOn(ctx, c, after, policy.Decision{Verdict: policy.Ask})
		}
		return s.unanswered(ctx, c, policy.CodeNoAnswer)
	}
	message, offered := form(t)
	if !s.grantable(c) {
		offered = slices.DeleteFunc(offered, func(a inbox.Answer) bool { return a == inbox.AnswerSession })
	}
	decided := make(chan struct{})
	go func() { // ends with ctx, which is the request's
		if after, err := s.g.opts.Inbox.Wait(ctx, t.ID, inbox.Pending); err == nil && after.State != inbox.Pending {
			close(decided)
		}
	}()
	return Outcome{Ask: &Ask{
		Ticket: t.ID, Message: message, Schema: inbox.FormSchema(offered),
		Wait: s.wait(), Expires: t.Binding.Expires, Decided: decided,
	}}
}

// grantable reports whether a yes for the rest of the session would let an equal call
// run. If the next call would be asked about all the same, such a yes is not offered.
func (s *Session) grantable(c *call) bool {
	facts := s.facts(c)
	facts.Grant = policy.Grant{ID: "for the session", NamesTool: true, Level: policy.L0}
	return policy.Decide(facts).Grant != ""
}

// form is what a client shows for a ticket, and the answers that it may offer. Where
// the message has no room for the whole call there is no yes among them.
func form(t inbox.Ticket) (message string, offered []inbox.Answer) {
	message, whole := t.View.Elicitation()
	return message, inbox.Offered(t.Level, inbox.L0, whole, t.View.Class == engagement.Destructive)
}

// wait is how long a call of this client is held open for a person's answer.
func (s *Session) wait() time.Duration {
	if wait, ok := s.g.ruling().Waits[s.who.Client]; ok {
		return wait
	}
	return s.g.opts.Wait
}

// canAsk reports whether this client's answers are still taken for a person's.
func (s *Session) canAsk(c *call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.canAsk && !s.unproven
}

// Resume goes on with a call that a person was asked about. What was frozen is
// what runs: of again only what belongs to the waiting client counts. The call
// is judged again by what holds now; only the person's yes is taken from the
// ticket, and of any number of answers one runs it.
func (s *Session) Resume(ctx context.Context, ticket string, r Reply, again Request) Outcome {
	stale := Outcome{Result: refused(policy.CodeStale, "ticket", "there is no open question under this ticket. Call the tool again if it is still needed.", ticket, true)}
	t, err := s.g.opts.Inbox.Ticket(context.WithoutCancel(ctx), ticket) // a caller that has gone is noted
	if err != nil || t.Binding.Principal != s.who.Principal {
		return stale
	}
	c := s.frozen(t)
	c.progress, c.meta, c.client, c.canAsk = again.Progress, again.Meta, again.Client, true // the client was asked, so it can ask
	if s.profile.Exposure != Transparent && isMeta(again.Name) {
		c.front = again.Name
	}
	if ctx.Err() != nil || r.Action == Left {
		return s.gone(ctx, c, t)
	}
	if t, err = s.heard(ctx, c, t, r); err != nil {
		return s.unrecorded(c, policy.Decision{}, err)
	}
	if t.State != inbox.Pending {
		return s.goOn(ctx, c, t, policy.Decision{Verdict: policy.Ask})
	}
	if c.later {
		return s.stub(c, t)
	}
	return s.unanswered(ctx, c, policy.CodeNoAnswer)
}

// frozen is the call that a ticket holds.
func (s *Session) frozen(t inbox.Ticket) *call {
	c := &call{id: s.nextCall(), name: t.View.Tool.String(), args: t.Args, digest: t.Binding.Args, ticket: t.ID, undoes: t.View.Undoes}
	if s.profile.Exposure == Meta { // no client of it has the tool's own schema
		c.front = "call_tool"
	}
	c.entry, c.known = s.tool(t.View.Tool)
	if !c.known {
		c.entry = &catalog.Entry{Tool: catalog.Tool{ID: t.View.Tool}}
	}
	if t.View.Tool.Tool == artifactsRead {
		_, c.known = s.toSlice(context.Background(), c)
	}
	return c
}

// heard records what a client answered and returns the ticket as it is then. An answer
// that no person gave decides nothing.
func (s *Session) heard(ctx context.Context, c *call, t inbox.Ticket, r Reply) (inbox.Ticket, error) {
	if r.Action == Elsewhere || r.Action == NoAnswer {
		return t, nil
	}
	_, offered := form(t)
	answer, person := inbox.Heard(string(r.Action), r.Decision, r.After, offered)
	if !person {
		s.distrust()
	}
	if answer == inbox.AnswerSession && !s.grantable(c) { // it could when it was offered, or a client says it unasked
		answer = inbox.AnswerOnce
	}
	c.later = person && answer == inbox.AnswerLater
	e := s.event(audit.Decision, c, policy.Decision{})
	e.Level, e.Channel, e.Duration, e.Outcome = inbox.L0.String(), inbox.Elicitation.String(), r.After, answer.String()
	if !person {
		e.Outcome = "nobody"
	}
	if err := s.g.opts.Audit.Record(e); err != nil {
		return t, err
	}
	if !person || answer == inbox.AnswerLater {
		return t, nil
	}
	after, err := s.g.opts.Forms.Answer(ctx, t.ID, answer)
	var state *inbox.StateError
	var proof *inbox.ProofError
	if errors.As(err, &state) || errors.As(err, &proof) { // somebody else was first, or it came too late
		return s.g.opts.Inbox.Ticket(ctx, t.ID)
	}
	return after, err
}

// gone notes that nobody waits for the call any more.
func (s *Session) gone(ctx context.Context, c *call, t inbox.Ticket) Outcome {
	after, err := s.g.opts.Inbox.Gone(context.WithoutCancel(ctx), t.ID)
	if err != nil {
		s.g.opts.Log.Warn("a caller that has gone could not be noted", "ticket", t.ID, "error", err)
		after = t
	}
	if after.State.Open() {
		e := s.event(audit.Note, c, policy.Decision{Rule: "ticket"})
		e.Note = "the caller has gone; the question stays"
		s.g.writeDown(e)
		return s.stub(c, after)
	}
	return s.ended(c, after)
}

// unanswered takes the fallback: the ticket ends, or waits in the inbox.
func (s *Session) unanswered(ctx context.Context, c *call, why policy.Code) Outcome {
	if ctx.Err() != nil {
		if t, err := s.g.opts.Inbox.Ticket(context.WithoutCancel(ctx), c.ticket); err == nil {
			return s.gone(ctx, c, t)
		}
	}
	t, err := s.g.opts.Inbox.Silence(context.WithoutCancel(ctx), c.ticket)
	switch {
	case err != nil:
		return s.unrecorded(c, policy.Decision{}, err)
	case t.State == inbox.Pending:
		return s.stub(c, t)
	case t.State != inbox.Expired: // answered at the last moment
		return s.goOn(ctx, c, t, policy.Decision{Verdict: policy.Ask})
	}
	return s.refuse(c, policy.Decision{Verdict: policy.Deny, Code: why, Rule: "step6.fallback", About: policy.About{Tool: c.entry.ID, Class: c.entry.Class.Permission}})
}
