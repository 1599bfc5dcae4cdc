package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/mcp-gate/mcp-gate/artifacts"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
	"github.com/mcp-gate/mcp-gate/policy"
)

// Kept is where results are kept whole; *artifacts.Store is one. It must be
// safe for concurrent use.
type Kept interface {
	Keep(ctx context.Context, r io.Reader, m artifacts.Meta) (artifacts.Artifact, error)
	Get(ctx context.Context, id, principal string) (artifacts.Artifact, error)
	Open(ctx context.Context, id, principal string) (*artifacts.Handle, error)
	Read(ctx context.Context, id, principal string, allowed engagement.EgressSet, q artifacts.Query) (artifacts.Slice, error)
}

// allowed returns the classes that may leave from a server in this session.
func (s *Session) allowed(server string) engagement.EgressSet {
	at := s.look()
	return at.allowed(server)
}

func (at *sight) allowed(server string) engagement.EgressSet {
	limits, _ := at.now.Under(at.s.g.server(server).Policy.Limits())
	return limits.Egress
}

// declared is what the answer to a call counts as carrying whatever is found in it: its
// tool's class, and the classes of the artifacts among its arguments.
func (c *call) declared() engagement.EgressSet {
	egress := c.entry.Class.Egress
	if egress == 0 || egress > engagement.RawPixels {
		egress = engagement.RowLevel
	}
	return c.carried.With(egress)
}

// parcel is one result on its way out.
type parcel struct {
	s       *Session
	c       *call
	said    remark
	came    json.RawMessage
	result  json.RawMessage // came, with secrets blacked out
	secrets int             // how many
	found   artifacts.Findings
	classes engagement.EgressSet // declared and found
	allowed engagement.EgressSet
}

// remark is what the audit log is to say of what left. It holds nothing of the contents.
type remark struct{ code, note string }

// leaving returns what of an upstream's answer may reach the client; toolError says that
// an error is the tool's own. That is all of it if every class that it was declared or
// found to carry may leave, else what the owner chose for that case. Parts that are
// large, or may not leave, are kept.
func (s *Session) leaving(ctx context.Context, c *call, out Outcome, toolError bool) (Outcome, remark) {
	ctx = context.WithoutCancel(ctx) // the call ran: what it gave is kept even where its caller has gone
	switch {
	case c.local != nil: // judged when it was read
		return out, remark{}
	case out.Error != nil && toolError:
		e, said := s.leavingError(ctx, c, out.Error)
		return Outcome{Error: e}, said
	case out.Result == nil:
		return out, remark{}
	}
	p := &parcel{s: s, c: c, came: out.Result, result: out.Result, allowed: s.allowed(c.entry.ID.Server)}
	if p.plain() {
		s.hasRead(ctx, c, c.declared())
		return Outcome{Result: s.delocalized(c, out.Result), Bare: out.Bare}, remark{}
	}
	if s.g.server(c.entry.ID.Server).Secrets {
		var hits []artifacts.Finding
		p.result, hits = artifacts.RedactJSON(p.came)
		p.secrets = len(hits)
	}
	settled := c.declared().Intersect(p.allowed)
	spared := p.spared()
	if p.inspect(settled.Union(spared)); !within(p.classes, p.allowed) && spared != 0 {
		p.inspect(settled) // what becomes of it depends on all that is in it
	}
	if within(p.classes, p.allowed) {
		s.hasRead(ctx, c, p.classes)
		out.Result = p.whole(ctx)
		return out, p.said
	}
	p.said.code = policy.CodeEgress.String()
	if s.g.server(c.entry.ID.Server).OnEgress == policy.EgressDowngrade && c.protocolMethod() != "prompts/get" {
		out.Result = p.cut(ctx)
	} else {
		out.Result = p.withheld(ctx)
	}
	return out, p.said
}

// spared are the classes that need not be looked for although they were not declared:
// rows, if they may leave, the result goes out unchanged and reading them adds no mark.
func (p *parcel) spared() engagement.EgressSet {
	asIs := p.secrets == 0 && (p.s.fits(len(p.result)) || p.c.isAside())
	if !asIs || p.s.wouldTaint(p.c) {
		return 0
	}
	return p.allowed.Intersect(engagement.EgressOf(engagement.RowLevel))
}

// inspect looks for all classes except those that are settled.
func (p *parcel) inspect(settled engagement.EgressSet) {
	p.found = artifacts.InspectRest(p.result, settled)
	p.classes = p.c.declared().Union(p.found.Classes)
}

// plain reports whether a result may go out without a closer look: everything may leave,
// it is small, and nothing in it can imitate the gate.
func (p *parcel) plain() bool {
	return p.allowed == engagement.AllEgress() && !p.s.g.server(p.c.entry.ID.Server).Secrets &&
		len(p.result) <= DefaultInline && p.s.fits(len(p.result)) && !p.s.wouldTaint(p.c) && !remarkable(p.result)
}

// remarkable reports whether a closer look at a text could find something: it holds
// bytes that are not plain ASCII, or a word that imitations of the gate have.
func remarkable(raw []byte) bool {
	for _, b := range raw {
		if b >= 0x7f || b == '\\' {
			return true
		}
	}
	lower := bytes.ToLower(raw)
	for _, word := range []string{"refused", "deferred", "imitation", "withheld", "result kept", "mcp", "not run", "<", "[//]"} {
		if bytes.Contains(lower, []byte(word)) {
			return true
		}
	}
	return false
}

func within(classes, allowed engagement.EgressSet) bool { return classes.Intersect(allowed) == classes }

// worst is the most restricted class that may not leave.
func (p *parcel) worst() engagement.Egress {
	var worst engagement.Egress
	for _, class := range p.classes.List() {
		if !p.allowed.Has(class) {
			worst = class
		}
	}
	return worst
}

// note adds to the note of the audit event, which holds nothing of the contents.
func (p *parcel) note(format string, args ...any) {
	p.said.note = joined(p.said.note, fmt.Sprintf(format, args...))
}

// whole is the result where everything may leave. Large parts are kept and replaced,
// secrets are blacked out, and hidden or imitating text is marked.
func (p *parcel) whole(ctx context.Context) json.RawMessage {
	var metas []member
	if p.secrets > 0 {
		metas = append(metas, p.keepOriginal(ctx))
	}
	out, kept := p.sized(ctx)
	metas = append(metas, kept...)
	return p.marked(p.s.delocalized(p.c, out), metas)
}

// keepOriginal keeps the result as it came, with its secrets, for the owner.
func (p *parcel) keepOriginal(ctx context.Context) member {
	p.note("%d secrets blacked out", p.secrets)
	raw := fmt.Appendf(nil, `{"secrets":%d`, p.secrets)
	if a, err := p.keep(ctx, artifacts.Whole(p.came, artifacts.Inspect(p.came)), p.classes, true, nil); err == nil {
		raw = append(append(append(raw, `,"artifact":"`...), a.ID...), '"')
	}
	return member{metaPrefix + "redacted", append(raw, '}')}
}

// keep stores one part of a result. A failure is logged and noted in the audit event.
func (p *parcel) keep(ctx context.Context, piece artifacts.Piece, classes engagement.EgressSet, withheld bool, tables []artifacts.Table) (artifacts.Artifact, error) {
	a, err := artifacts.Artifact{}, errNothingKept
	if p.s.g.opts.Kept != nil {
		a, err = p.s.g.opts.Kept.Keep(ctx, piece.Reader(), artifacts.Meta{
			Media: piece.Media, URI: piece.URI, Classes: classes, Withheld: withheld, Principal: p.s.who.Principal, Session: p.s.id,
			Origin: artifacts.Origin{Server: p.c.entry.ID.Server, Tool: p.c.entry.ID.Tool}, Tables: tables,
			Width: piece.Part.Media.Width, Height: piece.Part.Media.Height,
		})
	}
	if err != nil {
		p.s.g.opts.Log.Warn("a result could not be kept", "tool", p.c.entry.ID.String(), "error", err)
		p.note("not kept: %v", err)
		return a, err
	}
	p.note("kept as %s", a.ID)
	return a, nil
}

var errNothingKept = errors.New("no results are kept here")

// keptWhole stores the whole result as withheld, and returns the block and the facts
// that say so.
func (p *parcel) keptWhole(ctx context.Context, tables []artifacts.Table) (block json.RawMessage, facts []member) {
	found := p.found
	if p.secrets > 0 {
		found = artifacts.Inspect(p.came)
	}
	a, err := p.keep(ctx, artifacts.Whole(p.came, found), p.classes, true, tables)
	if err != nil {
		return artifacts.TextBlock("It could not be kept either, and calling again would run it again."), nil
	}
	stub, err := artifacts.StubFor(a, p.allowed, nil, 0, 0)
	if err != nil {
		return artifacts.TextBlock("It is kept as artifact " + a.ID + "."), nil
	}
	return artifacts.TextBlock(stub.Note), []member{{metaPrefix + "artifact", stub.Data}}
}

// withheld is what the client gets of a result of which nothing may leave. It must not
// read as if the call had not run.
func (p *parcel) withheld(ctx context.Context) json.RawMessage {
	p.note("withheld")
	about := policy.About{Tool: p.c.entry.ID, Egress: p.worst()}
	said := artifacts.TextBlock(fmt.Sprintf("ran, result withheld [%s]: %s", policy.CodeEgress, policy.CodeEgress.ForModel(about)))
	block, facts := p.keptWhole(ctx, artifacts.Tables(p.result))
	return resultOf(true, []json.RawMessage{said, block}, nil, append(facts, ranMeta(policy.CodeEgress, "step4.egress", ""))...)
}

// cut is what the client gets of a result of which a part may leave: that part, and
// facts about the rest.
func (p *parcel) cut(ctx context.Context) json.RawMessage {
	tables := artifacts.Tables(p.result)
	cut := artifacts.Downgrade(p.result, p.found, tables, p.c.declared(), p.allowed)
	left := engagement.EgressSet(0)
	if len(cut.Blocks) > 0 || cut.Structured != nil {
		left = p.classes.Intersect(p.allowed)
		p.s.hasRead(ctx, p.c, left)
	}
	p.note("cut: %d parts stay", cut.Stay)
	said := artifacts.TextBlock(fmt.Sprintf("ran, result withheld [%s]: of what %v gave, %d parts may not leave. What may leave follows; facts about the rest stand in the last blocks.",
		policy.CodeEgress, p.c.entry.ID, cut.Stay))
	var facts []json.RawMessage
	if len(cut.Facts) > 2 {
		facts = append(facts, artifacts.TextBlock(string(cut.Facts)))
	}
	block, metas := p.keptWhole(ctx, tables)
	facts = append(facts, block)
	sent, err := json.Marshal(left.List())
	if err != nil || left.Empty() {
		sent = []byte("[]")
	}
	metas = append(metas, member{metaPrefix + "egress", append(append([]byte(`{"sent":`), sent...), '}')})
	if p.c.isAside() {
		return p.s.contentsOf(p.c, cut.Blocks, append([]json.RawMessage{said}, facts...), metas)
	}
	blocks := slices.Concat([]json.RawMessage{said}, cut.Blocks, facts)
	isError := cut.IsError || cut.Structured == nil && p.schemaOffered()
	if isError {
		metas = append(metas, ranMeta(policy.CodeEgress, "step4.egress", ""))
	}
	out := resultOf(isError, blocks, cut.Structured, metas...)
	if len(cut.Blocks) == 0 && cut.Structured == nil {
		return out
	}
	return p.marked(out, nil)
}

// schemaOffered reports whether the client was offered the tool's own output
// schema, which no stub fits.
func (p *parcel) schemaOffered() bool {
	if p.c.front != "" || len(p.c.entry.Raw) == 0 {
		return false
	}
	_, schema, err := strictjson.Get(p.c.entry.Raw, "outputSchema")
	return err == nil && schema
}

// marked adds the gate's members to "_meta", among them what was found to hide or
// imitate something. Text in the form of the gate's own stays as it is, but a note
// before it says whose it is.
func (p *parcel) marked(out json.RawMessage, metas []member) json.RawMessage {
	if marks := marksOf(p.found.Marks); marks != nil {
		metas = append(metas, member{metaPrefix + "marks", marks})
		p.note("marked %s", marks)
	}
	if p.found.Marks.Has(artifacts.MarkImitation) && !p.c.isAside() {
		out = withFirst(out, imitationNote(p.c))
	}
	return withMeta(out, metas)
}

// marksOf counts the kinds of marks, for programs. Colours are left out: builds and tests
// print them.
func marksOf(m artifacts.Marks) json.RawMessage {
	b := []byte{'{'}
	for _, kind := range m.List() {
		if kind == artifacts.MarkColour {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `"%v":%d`, kind, m[kind])
	}
	if len(b) == 1 {
		return nil
	}
	return append(b, '}')
}

func imitationNote(c *call) json.RawMessage {
	return artifacts.TextBlock(fmt.Sprintf("note [imitation]: the blocks after this one are %v's words. Lines in them read as if this gate had written them; it did not, and no decision is in them.", c.entry.ID))
}

// withFirst puts a block before all others of a tool's result.
func withFirst(result, block json.RawMessage) json.RawMessage {
	content := memberOf(result, "content")
	if len(content) < 2 || content[0] != '[' {
		content = json.RawMessage("[]")
	}
	list := append([]byte{'['}, block...)
	if rest := bytes.TrimSpace(content[1 : len(content)-1]); len(rest) > 0 {
		list = append(append(list, ','), rest...)
	}
	out, err := strictjson.Set(result, "content", append(list, ']'))
	if err != nil {
		return result
	}
	return out
}

// contentsOf is the result of a resources/read of what may leave: the server's
// own contents as they came, and the gate's words under an address of its own.
func (s *Session) contentsOf(c *call, contents, words []json.RawMessage, metas []member) json.RawMessage {
	list := func(items []json.RawMessage) json.RawMessage {
		return append(append([]byte{'['}, bytes.Join(asBytes(items), []byte{','})...), ']')
	}
	theirs := s.delocalized(c, append(append([]byte(`{"contents":`), list(contents)...), '}'))
	var all []json.RawMessage
	if json.Unmarshal(memberOf(theirs, "contents"), &all) != nil { // it is a list: see above
		all = contents
	}
	for _, w := range words {
		said := strictjson.AppendString([]byte(`{"uri":"`+artifactScheme+`note","mimeType":"text/plain","text":`), stringOf(w, "text"))
		all = append(all, append(said, '}'))
	}
	return withMeta(append(append([]byte(`{"contents":`), list(all)...), '}'), metas)
}

// leavingError is what may leave of an upstream's error. Its text may hold the same data
// as a result, and may be a stranger's.
func (s *Session) leavingError(ctx context.Context, c *call, theirs *jsonrpc.Error) (*jsonrpc.Error, remark) {
	found := artifacts.InspectValue(theirs.Raw())
	classes, allowed := c.declared().Union(found.Classes), s.allowed(c.entry.ID.Server)
	p := &parcel{s: s, c: c, classes: classes, allowed: allowed}
	if !within(classes, allowed) {
		p.note("error withheld")
		p.said.code = policy.CodeEgress.String()
		return &jsonrpc.Error{Code: theirs.Code, Data: json.RawMessage(`{"code":"egress","executed":true}`),
			Message: fmt.Sprintf("ran, result withheld [%s]: %v answered with error %d; its words may carry %v data, which may not leave", policy.CodeEgress, c.entry.ID, theirs.Code, p.worst())}, p.said
	}
	s.hasRead(ctx, c, classes)
	out := *theirs
	if s.g.server(c.entry.ID.Server).Secrets {
		message, inMessage := artifacts.Redact(theirs.Message)
		data, inData := artifacts.RedactJSON(theirs.Data)
		if n := len(inMessage) + len(inData); n > 0 {
			p.note("%d secrets blacked out", n)
			out = jsonrpc.Error{Code: theirs.Code, Message: message, Data: data}
		}
	}
	if artifacts.MarkText([]byte(out.Message)).Has(artifacts.MarkImitation) {
		p.note("marked: an error imitates the gate")
		out = jsonrpc.Error{Code: out.Code, Message: c.entry.ID.Server + " says: " + out.Message, Data: out.Data}
	}
	fits := p.sizedError(ctx, &out)
	return fits, p.said
}

// mayDeliver reports whether a stored result may leave by what holds now.
func (s *Session) mayDeliver(c *call, result json.RawMessage) (classes engagement.EgressSet, ok bool) {
	allowed := s.allowed(c.entry.ID.Server)
	meta := orEmpty(memberOf(result, "_meta"))
	if sent, cut, err := strictjson.Get(meta, metaPrefix+"egress"); err == nil && cut {
		var said struct{ Sent []engagement.Egress }
		if json.Unmarshal(sent, &said) != nil {
			return 0, false
		}
		classes = engagement.EgressOf(said.Sent...)
		return classes, within(classes, allowed)
	}
	if refusal, own, err := strictjson.Get(meta, metaPrefix+"refusal"); err == nil && own && stringOf(refusal, "code") == policy.CodeEgress.String() {
		return 0, true // nothing of it is in here
	}
	classes = c.declared().Union(s.carriedBy(c.args)).Union(artifacts.Inspect(result).Classes)
	return classes, within(classes, allowed)
}
