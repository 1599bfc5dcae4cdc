package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/inbox"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
	"github.com/mcp-gate/mcp-gate/policy"
)

// stub stands in for the result of a call that waits. It is an ordinary result, or an
// error where the client was offered the tool's own output schema: it would not fit.
func (s *Session) stub(c *call, t inbox.Ticket) Outcome {
	return s.stubOf(c, t, "It has not run yet.")
}

// stubOf is a stub that also says what an allowed call waits for.
func (s *Session) stubOf(c *call, t inbox.Ticket, waits string) Outcome {
	about := policy.About{Tool: t.View.Tool, Class: t.View.Class, Ticket: t.ID}
	meta := strictjson.AppendString([]byte(`{"ticket":`), t.ID)
	meta = fmt.Appendf(meta, `,"state":"%s","expires":"%s","code":"%s","executed":false}`, t.State, t.Binding.Expires.Format(time.RFC3339), policy.CodeDeferred)
	says := policy.CodeDeferred.ForModel(about)
	switch t.State {
	case inbox.Approved:
		says = fmt.Sprintf("a person has allowed this call of %v as %s. %s Do what does not depend on it.", t.View.Tool, t.ID, waits)
	case inbox.Running:
		says = fmt.Sprintf("a person has allowed this call of %v as %s, and it is running. Do what does not depend on it.", t.View.Tool, t.ID)
	}
	text := fmt.Sprintf("deferred [%s]: %s", policy.CodeDeferred, says)
	_, schema, _ := strictjson.Get(c.entry.Raw, "outputSchema")
	e := s.event(audit.Refusal, c, policy.Decision{Verdict: policy.Defer, Code: policy.CodeDeferred, Rule: "ticket"})
	s.g.writeDown(e)
	return Outcome{Result: textResult(c.front == "" && schema, []string{text}, nil, member{metaPrefix + "ticket", meta})}
}

// dispatch runs a call that a person allowed. The call is judged by what holds now, its
// ticket is claimed, which succeeds once, and then it runs like any other.
func (s *Session) dispatch(ctx context.Context, c *call, t inbox.Ticket) Outcome {
	c.allowed = policy.Level(t.Level)
	if err := s.insertArtifacts(ctx, c); err != nil {
		c.unfit = fmt.Errorf("an artifact among its arguments: %w", err)
		return s.endStale(ctx, c, t, policy.Decision{Verdict: policy.Deny, Code: policy.CodeStale, Rule: "artifact", About: policy.About{Tool: c.entry.ID}})
	}
	_, d := s.decide(ctx, c)
	if d.Verdict != policy.Deny {
		d = s.verified(ctx, c, d)
	}
	switch {
	case d.Verdict != policy.Deny:
	case t.Fallback == engagement.FallbackDefer && (d.Code == policy.CodeServerDown || d.Code == policy.CodeUnverified):
		return s.stubOf(c, t, "It runs once its server is there.") // see [Gate.Work]
	default:
		return s.endStale(ctx, c, t, d)
	}
	claimed, err := s.g.opts.Inbox.Claim(ctx, t.ID, inbox.Attempt{
		Binding: s.bound(c), Level: s.need(c), Launch: s.g.server(c.entry.ID.Server).Launch, Person: s.g.opts.Person,
	})
	if err != nil {
		return s.notClaimed(ctx, c, t, err)
	}
	c.args = claimed.Args
	d.Grant = ""
	return s.run(ctx, c, d)
}

// endStale refuses an allowed call that may not run any more, and ends its ticket.
func (s *Session) endStale(ctx context.Context, c *call, t inbox.Ticket, d policy.Decision) Outcome {
	if _, err := s.g.opts.Inbox.MarkStale(context.WithoutCancel(ctx), t.ID, "refused when it would have run: "+d.Code.String()); err != nil {
		s.g.opts.Log.Warn("a ticket could not be ended", "ticket", t.ID, "error", err)
	}
	return s.refuse(c, d)
}

// bound is the binding that a claim compares with the ticket's.
func (s *Session) bound(c *call) inbox.Binding {
	b := s.binding(c)
	b.Args = argsDigest(c.args)
	return b
}

// notClaimed says why an allowed call does not run here.
func (s *Session) notClaimed(ctx context.Context, c *call, t inbox.Ticket, err error) Outcome {
	var state *inbox.StateError
	var owner *inbox.NotOwnerError
	now, readErr := s.g.opts.Inbox.Ticket(context.WithoutCancel(ctx), t.ID)
	switch {
	case readErr != nil:
		return s.unrecorded(c, policy.Decision{}, errors.Join(err, readErr))
	case errors.As(err, &owner) && owner.Life == inbox.Dead:
		return s.stubOf(c, now, "The gate that asked is gone and this one starts the server in another way: a person runs it with mcp-gate inbox run.")
	case errors.As(err, &owner):
		return s.stubOf(c, now, "The gate that asked runs it.")
	case errors.As(err, &state) && now.State != inbox.Approved:
		return s.goOn(ctx, c, now, policy.Decision{Verdict: policy.Ask})
	case now.State == inbox.Stale:
		e := s.event(audit.Refusal, c, policy.Decision{Verdict: policy.Deny, Code: policy.CodeStale, Rule: "ticket"})
		e.Note = err.Error()
		s.g.writeDown(e)
		return s.ended(c, now)
	}
	return s.unrecorded(c, policy.Decision{}, err)
}

// receipt stores the outcome of a call with its ticket.
func (s *Session) receipt(c *call, out Outcome, e audit.Event) error {
	ctx := context.Background() // a receipt outlives its caller
	var err error
	switch {
	case e.Outcome == audit.Unknown:
		_, err = s.g.opts.Inbox.Lose(ctx, c.ticket, "no answer came: "+e.ErrorCode)
	case out.Error != nil:
		text := fmt.Sprintf("%v failed: %v", c.entry.ID, out.Error)
		_, err = s.g.opts.Inbox.Finish(ctx, c.ticket, inbox.Receipt{Failed: true, Result: textResult(true, []string{text}, nil)})
	default:
		_, err = s.g.opts.Inbox.Finish(ctx, c.ticket, inbox.Receipt{Failed: e.Outcome == audit.ToolError, Result: out.Result})
	}
	return err
}

// deliver hands out a stored result. What may leave is decided by what holds
// now, not by what held when it ran.
func (s *Session) deliver(c *call, t inbox.Ticket) Outcome {
	classes, leaves := s.mayDeliver(c, t.Result)
	if !c.known || !leaves {
		d := policy.Decision{Verdict: policy.Deny, Code: policy.CodeEgress, Rule: "step4.egress", About: policy.About{Tool: t.View.Tool, Egress: c.entry.Class.Egress}}
		text := fmt.Sprintf("ran, result withheld [%s]: %s", d.Code, d.ForModel())
		return Outcome{Result: textResult(true, []string{text}, nil, ranMeta(d.Code, d.Rule, t.ID))}
	}
	s.hasRead(context.Background(), c, classes)
	if _, _, err := s.g.opts.Inbox.Deliver(context.Background(), t.ID); err != nil {
		s.g.opts.Log.Warn("a delivery could not be noted", "ticket", t.ID, "error", err)
	}
	s.note("check_deferred", fmt.Sprintf("result of %s delivered, %d bytes", t.ID, len(t.Result)))
	return Outcome{Result: withTicket(t)}
}

// withTicket is the stored result, marked with when it ran.
func withTicket(t inbox.Ticket) json.RawMessage {
	mark := fmt.Appendf(nil, `{"ticket":"%s","state":"%s","ran":"%s","executed":true}`, t.ID, t.State, t.Started.Format(time.RFC3339))
	return withMeta(t.Result, []member{{metaPrefix + "ticket", mark}})
}

// checkDeferred is the meta tool: what became of a ticket, or its result.
func (s *Session) checkDeferred(ctx context.Context, req Request) Outcome {
	var id string
	if err := arguments(req, map[string]any{"ticket": &id}); err != nil || id == "" {
		return wrongShape(req.Name, `takes {"ticket": "t_..."}, as a deferred call gave it%s.`, because(err))
	}
	t, err := s.g.opts.Inbox.Ticket(ctx, id)
	if err != nil || t.Binding.Principal != s.who.Principal {
		return Outcome{Result: refused(policy.CodeUnknown, "ticket", fmt.Sprintf("there is no ticket %q.", id), id, false)}
	}
	c := s.frozen(t)
	if t.State == inbox.Done || t.State == inbox.Failed {
		return s.deliver(c, t)
	}
	text := fmt.Sprintf("%s: %s", t.ID, t.State)
	if t.Note != "" {
		text += ": " + inbox.DisplayLine(t.Note)
	}
	structured := fmt.Appendf(nil, `{"ticket":"%s","state":"%s","expires":"%s","note":`, t.ID, t.State, t.Binding.Expires.Format(time.RFC3339))
	structured = append(strictjson.AppendString(structured, t.Note), '}')
	s.note(req.Name, text)
	return Outcome{Result: textResult(false, []string{text}, structured)}
}

// sessionRecord is what another process must know of a session to run its calls.
type sessionRecord struct {
	Identity Identity            `json:"identity"`
	Prompt   *engagement.Reading `json:"prompt,omitempty"`
	Engage   *engagement.Reading `json:"engage,omitempty"`
}

// keep stores the session's record, which is kept up to date from then on. It is
// stored before the first question is, and when another session works for this one.
func (s *Session) keep(ctx context.Context) error {
	s.keeping.Lock()
	defer s.keeping.Unlock()
	s.mu.Lock()
	s.kept = true
	sources := s.authority.Load().sources
	s.mu.Unlock()
	record := sessionRecord{s.who, sources.Prompt, sources.Engage}
	raw, err := json.Marshal(record)
	if err != nil {
		return err
	}
	return s.g.opts.Sessions.KeepSession(ctx, s.id, raw, s.g.opts.Now())
}

// Work runs the calls that people allowed after the caller got a stub, and settles the
// tickets of processes that died. It looks for them every pause, and returns once ctx
// has ended and all calls that it began are over. It may run in every process of a
// home at once, since a claim succeeds once.
func (g *Gate) Work(ctx context.Context, pause time.Duration) error {
	var running sync.WaitGroup
	defer running.Wait()
	timer := time.NewTicker(pause)
	defer timer.Stop()
	for {
		if g.opts.Stored() {
			g.takeUp(ctx, &running)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
	}
}

// RunAllowed runs the calls that people allowed and nobody has run yet, as far as this
// gate may run them. It waits for them and returns how many it ran.
func (g *Gate) RunAllowed(ctx context.Context) int {
	var running sync.WaitGroup
	ran := g.takeUp(ctx, &running)
	running.Wait()
	return int(ran.Load())
}

// takeUp starts every call that this gate may run, each in a goroutine of its own, so
// that a long one does not hold up the others. When running is done, ran is how many.
func (g *Gate) takeUp(ctx context.Context, running *sync.WaitGroup) (ran *atomic.Int64) {
	ran = new(atomic.Int64)
	lost, err := g.opts.Inbox.Recover(ctx)
	for _, t := range lost {
		g.opts.Log.Warn("a ticket was left by a process that died, or its time is over", "ticket", t.ID, "state", t.State)
		g.recordEnd(t)
	}
	if err != nil && ctx.Err() == nil {
		g.opts.Log.Warn("tickets could not be looked through", "error", err)
	}
	runnable, err := g.opts.Inbox.Runnable(ctx)
	if err != nil {
		return ran // said already
	}
	for _, t := range runnable {
		if !g.begin(t.ID) {
			continue
		}
		running.Go(func() {
			defer g.end(t.ID)
			if ctx.Err() == nil && g.runTicket(ctx, t) {
				ran.Add(1)
			}
		})
	}
	return ran
}

// begin notes that a ticket is being taken up, unless it is already.
func (g *Gate) begin(ticket string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.taken[ticket] {
		return false
	}
	if g.taken == nil {
		g.taken = map[string]bool{}
	}
	g.taken[ticket] = true
	return true
}

func (g *Gate) end(ticket string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.taken, ticket)
}

// recordEnd writes down how a ticket ended for which nobody was waiting, or that it is
// not known how it ended.
func (g *Gate) recordEnd(t inbox.Ticket) {
	e := audit.Event{
		Kind: audit.Note, Code: word(endings[t.State]), Rule: "ticket", Ticket: t.ID, Session: t.Binding.Session, Principal: t.Binding.Principal,
		Tool: t.View.Tool.String(), Class: word(t.View.Class), Binding: t.Binding.Digest(), ArgsDigest: t.Binding.Args, Note: t.Note,
	}
	g.writeDown(e)
}

// endIfServerChanged ends an allowed call that a session of this process asked for:
// its server is not started as it was then. A call of another process's session is
// left to that process. It reports whether it ended the call.
func (g *Gate) endIfServerChanged(ctx context.Context, t inbox.Ticket) bool {
	s, err := g.session(ctx, t.Binding.Session)
	if err != nil || !s.here() {
		return false
	}
	s.endStale(ctx, s.frozen(t), t, serverChanged(t))
	return true
}

// serverChanged refuses an allowed call whose server is started in another way than
// when a person was asked. They said yes to the server of that time.
func serverChanged(t inbox.Ticket) policy.Decision {
	return policy.Decision{Verdict: policy.Deny, Code: policy.CodeStale, Rule: "ticket", About: policy.About{Tool: t.View.Tool, Class: t.View.Class, Ticket: t.ID}}
}

// runTicket runs one allowed call on behalf of the session that asked. It
// reports whether the call was this gate's to take up.
func (g *Gate) runTicket(ctx context.Context, t inbox.Ticket) bool {
	server, ok := g.ruling().servers[t.View.Tool.Server]
	if !ok || server.ID != t.Binding.Server || server.Launch != t.Launch && !g.opts.Person {
		return g.endIfServerChanged(ctx, t)
	}
	if t.View.Tool.Tool != artifactsRead && !g.verify(ctx, server.Alias) {
		return false // its server has not shown what would run; later
	}
	s, err := g.session(ctx, t.Binding.Session)
	if err != nil {
		g.opts.Log.Warn("an allowed call cannot be run: its session is not known", "ticket", t.ID, "error", err)
		return false
	}
	c := s.frozen(t)
	c.away = true
	if !c.known {
		return false // its server has not listed it yet; later
	}
	s.dispatch(ctx, c, t)
	return true
}
