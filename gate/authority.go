package gate

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
	"github.com/mcp-gate/mcp-gate/policy"
)

// authority is where a session's power comes from, and what that comes to. It is
// replaced whole.
type authority struct {
	sources  policy.Sources
	combined policy.Combined // of sources
}

// launch is the authority that a session starts with.
func (g *Gate) launch(p Profile, who Identity) *authority {
	a := &authority{sources: policy.Sources{Scope: who.Scope, Authority: p.Authority, Launch: p.Reading, Enforce: p.Enforce, Bars: g.ruling().Bars}}
	a.combined = a.sources.Combine()
	return a
}

// authorityNow returns the session's authority as it is at this moment.
func (s *Session) authorityNow() policy.Combined {
	now := s.authority.Load()
	if s.who.Parent != "" {
		return under(s.above(), now.sources)
	}
	return now.combined
}

// sight is the authority and spend of a session at one moment. It is read once for many
// calls that are judged together, as those of a list. One goroutine uses it.
type sight struct {
	s     *Session
	now   policy.Combined
	spent *spent // nil before it was looked at
}

func (s *Session) look() sight { return sight{s: s, now: s.authorityNow()} }

// launched is the sight of what the session was started for. What a prompt or the agent
// says later moves neither its list nor its prefix.
func (s *Session) launched() sight {
	from := s.authority.Load().sources
	from.Prompt, from.Engage = nil, nil
	return sight{s: s, now: from.Combine()}
}

// left is what remains of a limit. It is nothing where the account cannot be read.
func (at *sight) left(limit engagement.Spend) engagement.Spend {
	if !limited(limit) {
		return engagement.Spend{}
	}
	if at.spent == nil {
		at.spent = at.s.spent()
	}
	return at.spent.leaves(limit)
}

// Engagement is what holds in the session, without the owner's limits.
func (s *Session) Engagement() engagement.Engagement { return s.authorityNow().Engagement }

// Prompt takes the reading of a prompt in place of the last one's, which can only
// add caution to what holds besides. It reports whether the reading is in force: one
// that says nothing changes nothing. The audit log has the reading, not the prompt.
func (s *Session) Prompt(r engagement.Reading) bool {
	var inForce bool
	s.change(func(from policy.Sources) (to policy.Sources) {
		to, inForce = from.WithPrompt(r)
		return to
	})
	if inForce {
		e := audit.Event{Kind: audit.Note, Session: s.id, Principal: s.who.Principal, Client: s.who.Client, Rule: "prompt", Note: "a prompt was read: " + readAs(r)}
		s.g.writeDown(e)
	}
	return inForce
}

// readAs is a reading as one line of the audit log.
func readAs(r engagement.Reading) string {
	b, err := json.Marshal(r)
	if err != nil { // its words are those of closed sets
		return err.Error()
	}
	return string(b)
}

// declare takes the agent's own reading of the work, which can only add caution.
func (s *Session) declare(r engagement.Reading) (before, after policy.Combined) {
	before = s.authorityNow()
	s.change(func(from policy.Sources) policy.Sources { return from.WithEngage(r) })
	return before, s.authorityNow()
}

// change sets the sources of the session's authority, here and in its record, where the
// record is kept for other processes.
func (s *Session) change(to func(from policy.Sources) policy.Sources) {
	s.mu.Lock()
	sources := to(s.authority.Load().sources)
	s.authority.Store(&authority{sources, sources.Combine()})
	kept := s.kept
	s.mu.Unlock()
	if kept {
		if err := s.keep(context.Background()); err != nil {
			s.g.opts.Log.Error("what a session may do could not be recorded: those that work for it go by what it was", "session", s.id, "error", err)
		}
	}
}

// decide judges a call. Whether the call could be made at all, and whether a grant
// covers it, matters only where a person would be asked. Only then is it looked up, so
// that a call that needs nobody does not read the store.
func (s *Session) decide(ctx context.Context, c *call) (policy.Call, policy.Decision) {
	c.launch = s.g.server(c.entry.ID.Server).Launch
	facts := s.facts(c)
	if facts.HIL == engagement.HILReview || facts.CheckpointBefore && facts.FirstWrite {
		facts.CanUndo = s.wayBackOf(c).exists()
	}
	d := policy.Decide(facts)
	if d.Verdict != policy.Ask && d.Verdict != policy.Defer && d.Code != policy.CodeNoPerson && d.Code != policy.CodeUnattended {
		return facts, d
	}
	facts.Ready, c.unfit = s.readiness(c)
	facts.Reach = s.reach(c)
	if !c.unseen && !c.ungranted && c.allowed == 0 {
		facts.Grant = s.grant(ctx, c)
	}
	return facts, policy.Decide(facts)
}

// facts is what the decision about a call depends on, except for what matters only
// where a person would be asked; see decide.
func (s *Session) facts(c *call) policy.Call {
	at := c.at
	if at == nil {
		now := s.look()
		at = &now
	}
	server := s.g.server(c.entry.ID.Server)
	class := c.entry.Class
	facts := policy.Call{
		Tool: c.entry.ID, Known: c.known, Pin: s.g.pin(c.entry.ID),
		Enforce: s.profile.Enforce,
		Class:   class.Permission, Egress: class.Egress,
		OnEgress:          server.OnEgress,
		AllowSourceWrites: server.Policy.AllowSourceWrites,
		AllowDestructive:  server.Policy.AllowDestructive,
		Outcome:           s.ruled(c),
		OwnerFallback:     s.g.ruling().Fallback,
		Least:             s.g.ruling().Least[class.Permission],
		Ready:             policy.Ready,
		Taint:             s.taintOf(c),
	}
	if !c.known {
		again := *at // so that at need not lie on the heap for every call
		facts.Nearest = s.nearest(&again, c.name)
	}
	owner := server.Policy.Limits()
	owner.Spend = s.g.ruling().Spend
	at.now.Fill(&facts, owner)
	facts.InSlice = facts.Limits.RequiredDomains.Admits(class.Domains)
	facts.Left = at.left(facts.Limits.Spend)
	facts.FirstWrite = !s.wrote.Load()
	return facts
}

// reach is the best proof of a person that can be had now: by an enrolled key, else by
// a client that can ask.
func (s *Session) reach(c *call) policy.Level {
	s.mu.Lock()
	defer s.mu.Unlock()
	best := c.allowed
	if c.canAsk && !s.unproven {
		best = max(best, policy.L0)
	}
	if keys := policy.Level(s.g.opts.Reach()); keys > policy.L0 {
		best = max(best, keys)
	}
	return best
}

// ruled evaluates the owner's rules for the caller and for each session above it, and
// meets the outcomes.
func (s *Session) ruled(c *call) policy.Outcome {
	rules, own := s.g.ruling().Rules, s.rank()
	out := rules.Evaluate(s.request(c, own))
	for _, over := range s.who.Over {
		if over != own {
			out = out.Meet(rules.Evaluate(s.request(c, over)))
		}
	}
	return out
}

// rank is the session's principal and scope, by which the owner's rules tell callers
// apart.
func (s *Session) rank() Rank { return Rank{s.who.Principal, s.who.Scope} }

// request is what the owner's rules look at if a call is made by somebody of this rank.
func (s *Session) request(c *call, of Rank) policy.Request {
	q := policy.Request{
		Tool: c.entry.ID, NameUnique: s.set().Unique(c.entry.ID.Tool),
		Class: c.entry.Class.Permission, Egress: c.entry.Class.Egress,
		Principal: of.Principal, Scope: of.Scope,
		Args: c.args, ArgsUnknown: c.unseen,
	}
	if c.unseen {
		return q
	}
	if paths := s.g.ruling().Rules.Paths(q); len(paths) > 0 {
		q.Resolved = s.g.server(c.entry.ID.Server).resolved(s.g.opts.Resolve, paths)
	}
	return q
}

// readiness says whether a call could be made if a person said yes. The error says why
// not.
func (s *Session) readiness(c *call) (policy.Readiness, error) {
	if err := s.g.opts.Caller.Up(c.entry.ID.Server); err != nil {
		return policy.ServerDown, err
	}
	if c.unseen {
		return policy.Ready, nil
	}
	if err := c.entry.Fits(c.toSend()); err != nil {
		return policy.BadArguments, err
	}
	return policy.Ready, nil
}

// engage is the meta tool: the agent says how it reads the work.
func (s *Session) engage(req Request) Outcome {
	r := engagement.NeutralReading()
	if err := json.Unmarshal(orEmpty(req.Args), &r); err != nil {
		return wrongShape(req.Name, "takes the fields of a reading: %v.", err)
	}
	before := s.authorityNow()
	after := before
	for range strictjson.Walk(orEmpty(req.Args)) { // an empty object declares nothing
		before, after = s.declare(r)
		break
	}
	changes := changed(before, after)
	e := audit.Event{Kind: audit.Session, Call: s.nextCall(), Session: s.id, Principal: s.who.Principal, Client: s.who.Client,
		Tool: req.Name, Note: "engage: " + strings.Join(changes, "; ")}
	s.g.writeDown(e)
	return Outcome{Result: s.engaged(after, changes)}
}

// engaged words the engagement for a model and gives it whole for programs.
func (s *Session) engaged(now policy.Combined, changes []string) json.RawMessage {
	var text strings.Builder
	if len(changes) == 0 {
		text.WriteString("Nothing changed.\n")
	}
	for _, c := range changes {
		text.WriteString(c + "\n")
	}
	if note := now.Engagement.Posture.Note; note != "" {
		text.WriteString(note + "\n")
	}
	names := s.inSlice(now)
	const most = 60
	fmt.Fprintf(&text, "Tools for this work (%d): %s", len(names), strings.Join(names[:min(most, len(names))], ", "))
	if len(names) > most {
		text.WriteString(", ... (find_tools finds the rest)")
	}
	structured := []byte(`{"engagement":`)
	whole, err := now.Engagement.AppendCanonical(structured)
	if err != nil { // an engagement that Combine made always has its words
		return textResult(true, []string{err.Error()}, nil)
	}
	whole = append(whole, `,"changed":[`...)
	for i, c := range changes {
		if i > 0 {
			whole = append(whole, ',')
		}
		whole = strictjson.AppendString(whole, c)
	}
	whole = fmt.Appendf(whole, `],"tools":%d}`, len(names))
	return textResult(false, []string{text.String()}, whole)
}

// inSlice lists the tools of the required domains.
func (s *Session) inSlice(now policy.Combined) []string {
	var names []string
	at := sight{s: s, now: now}
	for _, e := range s.set().Entries() {
		if now.Engagement.Limits.RequiredDomains.Admits(e.Class.Domains) && s.mayKnow(&at, e.ID) {
			names = append(names, e.ID.String())
		}
	}
	return names
}

// changed lists what a new engagement makes different, a line each.
func changed(before, after policy.Combined) []string {
	b, a := before.Engagement, after.Engagement
	var lines []string
	add := func(what string, was, is fmt.Stringer) {
		if was.String() != is.String() {
			lines = append(lines, fmt.Sprintf("%s: %v, was %v", what, is, was))
		}
	}
	add("a person is kept in the loop by", b.Posture.HIL, a.Posture.HIL)
	add("runs unasked up to", b.Limits.ApprovalCeiling, a.Limits.ApprovalCeiling)
	add("stakes", before.Stakes, after.Stakes)
	add("domains brought forward", b.Limits.RequiredDomains.Set(), a.Limits.RequiredDomains.Set())
	add("unclear requests", b.Posture.Clarify, a.Posture.Clarify)
	add("done means", b.Posture.Stop, a.Posture.Stop)
	add("result as", b.Posture.Delivery.Shape, a.Posture.Delivery.Shape)
	add("least evidence", b.Limits.LeastSatisfaction, a.Limits.LeastSatisfaction)
	if !b.Posture.CheckpointBeforeEffect && a.Posture.CheckpointBeforeEffect {
		lines = append(lines, "the first write is preceded by a copy where one can be taken")
	}
	return lines
}
