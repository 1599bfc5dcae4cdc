package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/checkpoint"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/inbox"
	"github.com/mcp-gate/mcp-gate/internal/canonjson"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
	"github.com/mcp-gate/mcp-gate/policy"
)

// CodeUpstream is the JSON-RPC code of an answer that never arrived. It lies
// outside the range that JSON-RPC and MCP keep for themselves.
const CodeUpstream = -31001

// call is one call in progress. The bytes that a person says yes to are the bytes that
// are judged and sent.
type call struct {
	id       string          // for the audit
	name     string          // the tool as it was written
	front    string          // the meta tool it came through; "" for a direct name
	args     json.RawMessage // the very bytes that are judged, shown and sent; nil for none
	digest   string          // SHA-256 of the canonical arguments
	meta     json.RawMessage // the client's own _meta keys; nil for none
	client   Client          // who waits for it; nil where nobody can be asked or told
	ownURI   bool            // a resource was named by its server's own URI
	progress func(json.RawMessage)
	canAsk   bool
	readOnly bool   // it came through call_tool_read
	strict   bool   // its client was given a schema that may say less than the server's
	unseen   bool   // a question about the tool in general: there are no arguments yet
	at       *sight // what it is judged by beside itself; nil: what holds at that moment

	entry  *catalog.Entry // of the tool, not to be changed; what stands for it where known is false
	known  bool
	launch string // of its server, when the call was judged: it goes to no other
	unfit  error  // more about a refusal than its code says

	way       wayBack      // taken before it ran
	undoes    string       // the journal entry that it takes back; "" for none
	noWayBack bool         // a checkpoint was tried and could not be taken
	ungranted bool         // its grant was used up by another call
	ticket    string       // the inbox's, once there is one
	allowed   policy.Level // a person allowed it with this proof
	later     bool         // a person wants to decide later
	away      bool         // nobody waits for the result

	local    func(context.Context) (json.RawMessage, error) // answers it from what the gate keeps; nil for an upstream's
	origin   *catalog.Entry                                 // of local: the tool whose result is read; nil where there is none any more
	expanded json.RawMessage                                // args with the contents of the artifacts that they name; nil for none
	carried  engagement.EgressSet                           // the classes of those artifacts
	outer    outer                                          // by the result that was read last
}

// Call judges and makes one call, or says what stands in its way. It returns
// when there is an answer, when a person has to be asked, or soon after ctx
// ends. It is the only way in: what reaches an upstream went through here.
func (s *Session) Call(ctx context.Context, req Request) Outcome {
	s.g.want()
	if req.Method != "" {
		return s.use(ctx, req)
	}
	if s.profile.Exposure != Transparent && isMeta(req.Name) {
		return s.callMeta(ctx, req)
	}
	c := s.newCall(req.Name, req.Args, req)
	if s.lookUp(c); !c.known && s.profile.Exposure != Meta {
		// A name that is known waits for no other server.
		servers := s.ownersOf(c.name)
		s.listed(ctx, servers...)
		if s.lookUp(c); !c.known {
			if alias, err := s.unheard(servers...); err != nil {
				id := catalog.ToolID{Server: alias, Tool: c.name}
				if s.profile.Exposure != Transparent {
					id.Tool = strings.TrimPrefix(c.name, alias+"_")
				}
				return s.unknowable(c, id, err)
			}
		}
	}
	if !c.known {
		at := s.look()
		return Outcome{Error: &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: s.unknownName(&at, req.Name)}}
	}
	return s.road(ctx, c)
}

// lookUp finds the tool that a call names directly, and gives the arguments the form
// that the server wants.
func (s *Session) lookUp(c *call) {
	switch v := s.clientView(); {
	case s.profile.Exposure == Meta: // no tool is called by its name
	case v != nil:
		entry, args, known := v.called(c.name, c.args)
		c.entry, c.args, c.known = &entry, args, known
		c.strict = v.limits.Strict
	case s.profile.Exposure == Transparent:
		c.entry, c.known = s.tool(catalog.ToolID{Server: s.sole, Tool: c.name})
	default:
		if entry, ok := s.set().ByDirectName(c.name); ok {
			c.entry, c.known = entry, s.shows(entry.ID.Server)
		}
	}
}

// nothing stands for a tool that is not known yet.
var nothing = new(catalog.Entry)

func (s *Session) newCall(name string, args json.RawMessage, req Request) *call {
	return &call{id: s.nextCall(), name: name, entry: nothing, args: args, meta: req.Meta, progress: req.Progress, canAsk: req.CanAsk, client: req.Client}
}

// road judges a call and does what the decision says: refuse it, ask a person, or run it.
func (s *Session) road(ctx context.Context, c *call) Outcome {
	if out, ok := s.withArtifacts(ctx, c); !ok {
		return out
	}
	digest, err := canonjson.Digest(orEmpty(c.args))
	if err != nil {
		return wrongShape(c.name, "was given arguments that are no strict JSON: %v.", err)
	}
	c.digest = digest
	_, d := s.decide(ctx, c)
	if d.Verdict != policy.Deny {
		d = s.verified(ctx, c, d)
	}
	switch {
	case d.Verdict == policy.Deny:
		return s.refuse(c, d)
	case c.readOnly && c.entry.Class.Permission != engagement.Read:
		return s.refuseClass(c)
	}
	if c.unfit = c.entry.Unfolded(c.args); c.unfit == nil && c.strict {
		c.unfit = c.entry.Fits(c.toSend())
	}
	if c.unfit != nil {
		return s.refuse(c, policy.Decision{Verdict: policy.Deny, Code: policy.CodeArguments, Rule: "step6.ready", About: d.About})
	}
	if out, ok := s.overwrites(c); ok {
		return out
	}
	if d.Verdict == policy.Ask || d.Verdict == policy.Defer {
		return s.ask(ctx, c, d)
	}
	return s.run(ctx, c, d)
}

// verified waits until the call's server has shown its definitions to this gate, since
// the definition on record must be the one that runs. If the definition is another now,
// the call is judged anew. If the server shows none, the call is refused.
func (s *Session) verified(ctx context.Context, c *call, d policy.Decision) policy.Decision {
	if c.local != nil {
		return d
	}
	if !s.g.verify(ctx, c.entry.ID.Server) {
		code := policy.CodeUnverified
		if c.unfit = s.g.opts.Caller.Up(c.entry.ID.Server); c.unfit != nil {
			code = policy.CodeServerDown
		}
		return policy.Decision{Verdict: policy.Deny, Code: code, Rule: "step6.ready", About: d.About}
	}
	before := c.entry.Digest
	now, ok := s.tool(c.entry.ID)
	if !ok { // its server is another one now, or gone
		c.known, c.unfit = false, s.whyGone(c.entry.ID.String())
		_, d = s.decide(ctx, c)
		return d
	}
	c.entry = now
	if c.entry.Digest != before || s.g.pin(c.entry.ID) != policy.PinAccepted {
		_, d = s.decide(ctx, c)
	}
	return d
}

// writeDown records an event of something that did not run. If it cannot be recorded
// the client's answer stays the same.
func (g *Gate) writeDown(e audit.Event) {
	if err := g.opts.Audit.Record(e); err != nil {
		g.opts.Log.Error("an event could not be written down", "kind", e.Kind, "code", e.Code, "ticket", e.Ticket, "error", err)
	}
}

// refuse records a refusal and returns it as the client's result.
func (s *Session) refuse(c *call, d policy.Decision) Outcome {
	e := s.event(audit.Refusal, c, d)
	if d.Code == policy.CodeHeld {
		e.Note = "definition " + word(d.About.Pin)
	}
	s.g.writeDown(e)
	return Outcome{Result: refusal(d, c.ticket, c.unfit)}
}

// refuseClass refuses a call through call_tool_read of a tool that does not only read.
func (s *Session) refuseClass(c *call) Outcome {
	d := policy.Decision{Verdict: policy.Deny, Code: policy.CodeArguments, Rule: "meta.call_tool_read"}
	s.g.writeDown(s.event(audit.Refusal, c, d))
	return wrongShape("call_tool_read", "runs only tools of class read, and %v is %s. If the change is wanted, use call_tool.", c.entry.ID, c.entry.Class.Permission)
}

// run makes a call that policy or a person allowed. Until the intent event is recorded
// it can still be stopped; from then on it counts as run.
func (s *Session) run(ctx context.Context, c *call, d policy.Decision) Outcome {
	if d.Grant != "" {
		if _, err := s.g.opts.Inbox.Spend(ctx, d.Grant, s.inboxCall(c), s.matcher(c), s.need(c)); err != nil {
			s.g.opts.Log.Info("a grant does not cover a call any more", "grant", d.Grant, "error", err)
			c.ungranted = true
			return s.road(ctx, c) // without it
		}
	}
	back, err := s.checkpointed(ctx, c, d)
	if err != nil {
		s.g.opts.Log.Warn("no checkpoint could be taken", "tool", c.entry.ID.String(), "error", err)
		c.noWayBack = true
		if d.Verdict == policy.Review && c.allowed == 0 { // nobody said yes: it was to run only with a checkpoint
			return s.road(ctx, c)
		}
		d.Checkpoint, d.Journal, d.NoWayBack = false, false, true
	}
	if !s.charge(ctx) {
		return s.stopped(c, back, s.refuse(c, policy.Decision{Verdict: policy.Deny, Code: policy.CodeSpend, Rule: "step8.spend", About: d.About}))
	}
	if c.unfit = s.reserve(ctx, c); c.unfit != nil {
		return s.stopped(c, back, s.refuse(c, policy.Decision{Verdict: policy.Deny, Code: policy.CodeStale, Rule: "review.undo", About: d.About}))
	}
	if err := s.g.opts.Audit.Record(s.event(audit.Intent, c, d)); err != nil {
		s.tookBack(c, audit.Error)
		return s.stopped(c, back, s.unrecorded(c, d, err))
	}
	if c.entry.Class.Permission > engagement.Read {
		s.wrote.Store(true)
	}
	start := s.g.opts.Now()
	raw, err := s.send(ctx, c)
	took := s.g.opts.Now().Sub(start)
	s.chargeBytes(int64(len(raw)))
	return s.conclude(ctx, c, back, took, raw, err)
}

// stopped ends what was begun for a call that did not run after all: its journal entry,
// and its ticket, which was claimed.
func (s *Session) stopped(c *call, back *checkpoint.Entry, out Outcome) Outcome {
	if back != nil {
		s.close(back, checkpoint.EntryVoid, "it did not run")
	}
	if c.ticket != "" {
		if _, err := s.g.opts.Inbox.Finish(context.Background(), c.ticket, inbox.Receipt{Failed: true, Result: out.Result}); err != nil {
			s.g.opts.Log.Error("a ticket could not be ended", "ticket", c.ticket, "error", err)
		}
	}
	return out
}

// conclude records the outcome of a call that was sent, and returns what of its result
// may leave.
func (s *Session) conclude(ctx context.Context, c *call, back *checkpoint.Entry, took time.Duration, raw json.RawMessage, err error) Outcome {
	out, done := s.outcome(c, raw, err)
	came := out.Result
	out, said := s.leaving(ctx, c, out, done.Outcome == audit.ToolError)
	done.Kind, done.Duration, done.Code, done.Note = audit.Outcome, took, said.code, joined(done.Note, said.note)
	s.about(&done, c)
	if back != nil {
		s.journal(c, back, came)
	}
	s.tookBack(c, done.Outcome)
	var kept error
	if c.ticket != "" {
		kept = s.receipt(c, out, done)
	}
	if err := errors.Join(kept, s.g.opts.Audit.Record(done)); err != nil {
		s.g.opts.Log.Error("an outcome could not be written down", "error", err)
		return Outcome{Error: &jsonrpc.Error{Code: CodeUpstream, Message: fmt.Sprintf("%v ran, but what came of it could not be written down, so it is not given out: the owner has to look at the audit log", c.entry.ID)}}
	}
	if c.ticket != "" && out.Result != nil && !c.away && ctx.Err() == nil {
		if _, _, err := s.g.opts.Inbox.Deliver(context.WithoutCancel(ctx), c.ticket); err != nil {
			s.g.opts.Log.Warn("a delivery could not be noted", "ticket", c.ticket, "error", err)
		}
	}
	return out
}

// params are those of the upstream's tools/call: its own name for the tool and
// the caller's bytes.
func (c *call) params() json.RawMessage {
	if c.isAside() {
		return c.asideParams()
	}
	b := append(make([]byte, 0, len(c.entry.ID.Tool)+len(c.toSend())+len(c.meta)+64), `{"name":`...)
	b = strictjson.AppendString(b, c.entry.ID.Tool)
	if args := c.toSend(); args != nil {
		b = append(b, `,"arguments":`...)
		b = append(b, args...)
	}
	if c.meta != nil {
		b = append(b, `,"_meta":`...)
		b = append(b, c.meta...)
	}
	return append(b, '}')
}

// outcome turns the upstream's answer, or the error that there was none, into the
// client's answer and an audit event.
func (s *Session) outcome(c *call, raw json.RawMessage, err error) (Outcome, audit.Event) {
	theirs, said := errors.AsType[*jsonrpc.Error](err)
	switch {
	case said:
		theirs, gone := cleanedError(theirs)
		return Outcome{Error: theirs}, audit.Event{Outcome: audit.ToolError, ErrorCode: fmt.Sprint(theirs.Code), Note: metaNote(gone)}
	case err != nil:
		return s.lost(c, err)
	}
	result, gone := raw, []string(nil)
	has := c.read(raw)
	c.outer = outer{}
	if c.local == nil {
		result, gone = cleanedOf(raw, has.meta)
	}
	e := audit.Event{Outcome: audit.OK, ResultSize: int64(len(raw))}
	if string(has.isError) == "true" {
		e.Outcome = audit.ToolError
	}
	e.Note = metaNote(gone)
	return Outcome{Result: result, Bare: has.kind == nil && has.meta == nil}, e
}

// joined is two notes as one; either may be empty.
func joined(a, b string) string {
	if a != "" && b != "" {
		a += "; "
	}
	return a + b
}

func metaNote(gone []string) string {
	if gone == nil {
		return ""
	}
	return fmt.Sprintf("taken out of _meta: %q", gone)
}

// lost is the outcome of a call without an answer. It never looks like a refusal, since
// the call may have been carried out.
func (s *Session) lost(c *call, err error) (Outcome, audit.Event) {
	kind, ran := "failed", true
	var f Failure
	if errors.As(err, &f) {
		kind, ran = f.Kind(), f.MayHaveRun()
	}
	e := audit.Event{Outcome: audit.Error, ErrorCode: kind}
	executed, text := "false", fmt.Sprintf("%v did not run: %v", c.entry.ID, err)
	if ran {
		e.Outcome, executed = audit.Unknown, `"unknown"`
		text = fmt.Sprintf("it is unknown whether %v ran, and it was not repeated: %v", c.entry.ID, err)
	}
	data := []byte(`{"server":`)
	data = strictjson.AppendString(data, c.entry.ID.Server)
	data = append(data, `,"kind":`...)
	data = strictjson.AppendString(data, kind)
	data = fmt.Appendf(data, `,"executed":%s}`, executed)
	return Outcome{Error: &jsonrpc.Error{Code: CodeUpstream, Message: text, Data: data}}, e
}

func orEmpty(args json.RawMessage) json.RawMessage {
	if args == nil {
		return json.RawMessage("{}")
	}
	return args
}
