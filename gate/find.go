package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
	"github.com/mcp-gate/mcp-gate/policy"
)

// callMeta answers a call of a meta tool.
func (s *Session) callMeta(ctx context.Context, req Request) Outcome {
	switch req.Name {
	case "find_tools":
		return s.findTools(ctx, req)
	case "load_tool":
		return s.loadTools(ctx, req)
	case "engage":
		return s.engage(req)
	case "check_deferred":
		return s.checkDeferred(ctx, req)
	case "read_artifact":
		return s.readArtifact(ctx, req)
	}
	return s.callTool(ctx, req)
}

// arguments reads the members that a meta tool takes, refusing any other.
func arguments(req Request, into map[string]any) error {
	for m, err := range strictjson.Object(orEmpty(req.Args)) {
		if err != nil {
			return err
		}
		v, ok := into[m.Name]
		if !ok {
			return fmt.Errorf("%q is none of its arguments", m.Name)
		}
		if raw, ok := v.(*json.RawMessage); ok {
			*raw = m.Value
		} else if err := json.Unmarshal(m.Value, v); err != nil {
			return fmt.Errorf("%q is of the wrong type", m.Name)
		}
	}
	return nil
}

// callTool unwraps call_tool and call_tool_read.
func (s *Session) callTool(ctx context.Context, req Request) Outcome {
	var name string
	var args json.RawMessage
	if err := arguments(req, map[string]any{"name": &name, "arguments": &args}); err != nil {
		return wrongShape(req.Name, `takes {"name": "server/tool", "arguments": {...}}: %v.`, err)
	}
	if name == "" {
		return wrongShape(req.Name, `takes {"name": "server/tool", "arguments": {...}}: the name is missing. find_tools gives names.`)
	}
	if string(args) == "null" {
		args = nil
	}
	if args != nil && args[0] != '{' {
		return wrongShape(req.Name, "takes an object as arguments: the tool's own, as load_tool shows them.")
	}
	c := s.newCall(name, args, req)
	c.front, c.readOnly = req.Name, req.Name == "call_tool_read"
	entry, known, err := s.find(ctx, name)
	var ambiguous *catalog.AmbiguousError
	if errors.As(err, &ambiguous) {
		return wrongShape(req.Name, "%s", s.ambiguous(ambiguous))
	}
	c.entry, c.known = &entry, known && s.shows(entry.ID.Server)
	if !c.known {
		id := s.meant(name)
		if _, err := s.unheard(id.Server); err != nil {
			return s.unknowable(c, id, err)
		}
		c.entry, c.unfit = unknownEntry(name), s.whyUnknown(name)
	}
	return s.road(ctx, c)
}

// unknownEntry stands in the log and in refusals for a tool that does not exist. The
// name is the client's and may be of any length, so it is cut.
func unknownEntry(name string) *catalog.Entry {
	name = strings.ToValidUTF8(name[:min(len(name), 200)], "")
	id, err := catalog.ParseToolID(name)
	if err != nil {
		id = catalog.ToolID{Tool: name}
	}
	return &catalog.Entry{Tool: catalog.Tool{ID: id}}
}

// meant reads a name, in whatever spelling, as a tool of a server that the session
// shows. Where it fits no such server it is taken as it was written.
func (s *Session) meant(name string) catalog.ToolID {
	written := unknownEntry(name).ID
	for _, id := range append([]catalog.ToolID{written}, catalog.Spelled(name[:min(len(name), 200)])...) {
		if s.shows(id.Server) {
			return id
		}
	}
	return written
}

// find looks a name up. Where there is no such tool yet, its server is given time to
// list its tools.
func (s *Session) find(ctx context.Context, name string) (catalog.Entry, bool, error) {
	entry, known, err := s.set().Find(name)
	if known || err != nil {
		return entry, known, err
	}
	var servers []string
	if id := s.meant(name); s.shows(id.Server) {
		servers = []string{id.Server}
	}
	s.listed(ctx, servers...)
	return s.set().Find(name)
}

// ownersOf are the servers that could have a tool of that direct name.
func (s *Session) ownersOf(name string) []string {
	if s.profile.Exposure == Transparent {
		return s.aliases()
	}
	return slices.DeleteFunc(slices.Clone(s.aliases()), func(alias string) bool { return !strings.HasPrefix(name, alias+"_") })
}

// listed waits, up to Options.FirstList, until these servers have listed their tools to
// this gate. Where none is named it waits until something is known of each server that
// the session shows.
func (s *Session) listed(ctx context.Context, servers ...string) {
	if len(servers) == 0 {
		s.g.await(ctx, s.g.opts.FirstList, s.aliases()...)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.g.opts.FirstList)
	defer cancel()
	for _, alias := range servers {
		s.g.verify(ctx, alias)
	}
}

// unheard returns the first of these servers that is not up or has not listed its tools
// to this gate, and why: nobody can say yet which tools it has.
func (s *Session) unheard(servers ...string) (alias string, err error) {
	for _, alias := range servers {
		if !s.shows(alias) {
			continue
		}
		if err := s.g.opts.Caller.Up(alias); err != nil {
			return alias, err
		}
		if !s.g.offering(alias).live {
			return alias, errUnlisted
		}
	}
	return "", nil
}

var errUnlisted = errors.New("it has not listed its tools yet: a person sees with mcp-gate status how far it is")

// unknowable refuses a call of a name that may be a tool of a server that is not up.
func (s *Session) unknowable(c *call, id catalog.ToolID, why error) Outcome {
	c.entry, c.unfit = &catalog.Entry{Tool: catalog.Tool{ID: id}}, why
	return s.refuse(c, policy.Decision{Verdict: policy.Deny, Code: policy.CodeServerDown, Rule: "step6.ready", About: policy.About{Tool: id}})
}

// whyUnknown says why a name is no tool's: its server was taken out, or there is no
// such server, or it may be a tool of a server of which nothing is known yet. It is
// nil where there is no more to say.
func (s *Session) whyUnknown(name string) error {
	if gone := s.whyGone(name); gone != nil {
		return gone
	}
	may := append(s.ownersOf(name), s.aliases()...) // the likeliest first
	switch id := s.meant(name); {
	case s.profile.Exposure == Transparent:
	case s.shows(id.Server):
		may = []string{id.Server}
	case id.Server != "":
		return fmt.Errorf("there is no server %q here", id.Server)
	case s.profile.Exposure == Direct:
		may = s.ownersOf(name)
	}
	unknown := slices.DeleteFunc(may, func(alias string) bool { return len(s.g.offering(alias).entries) > 0 })
	if alias, err := s.unheard(unknown...); err != nil {
		return fmt.Errorf("unless server %s has it, which does not answer: %w", alias, err)
	}
	return nil
}

// ambiguous names the servers that have a bare name, as far as this session
// may know of them.
func (s *Session) ambiguous(e *catalog.AmbiguousError) string {
	var ids []string
	at := s.look()
	for _, id := range e.IDs {
		if s.mayKnow(&at, id) {
			ids = append(ids, id.String())
		}
	}
	return fmt.Sprintf("was given %q, which several servers have. Say which: %s.", e.Name, strings.Join(ids, ", "))
}

const (
	findLimit, findMost = 10, 50
	findBytes           = 4 << 10 // of text; a model pays for each
	purposeBytes        = 160
)

// found is one line of find_tools.
type found struct {
	entry catalog.Entry
	state string // runs, asks, held or refused
	aside bool   // outside the slice
}

// name is the tool's name in a line: in quotes where something in it could pass
// for another field, another line, or nothing at all.
func (f found) name() string {
	id := f.entry.ID.String()
	if strings.ContainsFunc(id, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsGraphic(r) || strings.ContainsRune(`"|`, r) }) {
		return strconv.QuoteToASCII(id)
	}
	return id
}

// class is the word for the tool's class. A tool that was never accepted has none.
func (f found) class() string {
	if f.entry.Class.Permission == 0 {
		return "unknown"
	}
	return f.entry.Class.Permission.String()
}

// findTools searches what this session may see. A hidden tool is not found.
func (s *Session) findTools(ctx context.Context, req Request) Outcome {
	var query, cursor string
	limit := findLimit
	err := arguments(req, map[string]any{"query": &query, "limit": &limit, "cursor": &cursor})
	if err != nil || strings.TrimSpace(query) == "" {
		return wrongShape(req.Name, `takes {"query": "what is to be done"} and optionally limit (1 to 50) and cursor%s.`, because(err))
	}
	from := 0
	if cursor != "" {
		if from, err = strconv.Atoi(cursor); err != nil || from < 0 {
			return wrongShape(req.Name, "does not know the cursor %q: use the one its last answer gave, or none.", cursor)
		}
	}
	s.g.await(ctx, s.g.opts.FirstFind, s.aliases()...)
	var hits []found
	var seen []catalog.Hit
	near := 0 // how many fit about as well as the best; only these count for the scope
	var best float64
	at := s.look()
	set := s.set()
	for _, h := range set.Search(query) {
		if f, ok := s.judged(&at, h.Entry, req.CanAsk); ok {
			seen = append(seen, h)
			if hits = append(hits, f); len(hits) == 1 {
				best = h.Score
			}
			if h.Score >= best/2 {
				near++
			}
		}
	}
	fit := set.FitOf(query, seen)
	state := policy.OutsideDomain
	if fit.Fits {
		state = scopeState(hits[:near])
	}
	says := fitSentence(state, fit, len(hits) > 0)
	if fit.NoTool {
		says += ". " + s.noTool(&at, query)
	}
	page := hits[min(from, len(hits)):]
	page = page[:min(len(page), max(1, min(limit, findMost)))]
	out := findResult(page, from, len(hits), state, fit, says)
	s.note("find_tools", fmt.Sprintf("%d found, %s", len(hits), state))
	return Outcome{Result: out}
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

// judged says what would become of a call of a tool now, as far as that can be told
// without arguments. It is false where the session must not know of the tool.
func (s *Session) judged(at *sight, e catalog.Entry, canAsk bool) (found, bool) {
	if !s.shows(e.ID.Server) {
		return found{}, false
	}
	facts, d := s.decide(context.Background(), &call{entry: &e, known: true, canAsk: canAsk, unseen: true, at: at})
	f := found{entry: e, aside: !facts.InSlice} // also of one that is held: what is shown does not depend on it
	switch {
	case d.Code == policy.CodeUnknown:
		return found{}, false
	case d.Code == policy.CodeHeld:
		f.state = "held"
		f.entry.Tool = catalog.Tool{ID: e.ID} // no word of what is held
	case d.Verdict == policy.Run || d.Verdict == policy.Review:
		f.state = "runs"
	case d.Verdict == policy.Ask || d.Verdict == policy.Defer:
		f.state = "asks"
	default:
		f.state = "refused"
	}
	return f, true
}

// scopeState sums up what can be done about a query.
func scopeState(hits []found) policy.ScopeState {
	reads := false
	for _, h := range hits {
		switch able := h.state == "runs" || h.state == "asks"; {
		case able && h.entry.Class.Permission > engagement.Read:
			return policy.CanExecute
		case able:
			reads = true
		}
	}
	switch {
	case reads:
		return policy.CanAnalyze
	case len(hits) > 0:
		return policy.CanRecommend
	}
	return policy.OutsideDomain
}

// scopeSentences tell a model what each state means for it.
var scopeSentences = map[policy.ScopeState]string{
	policy.CanExecute:    "a tool that may run does it",
	policy.CanAnalyze:    "only reading tools match",
	policy.CanRecommend:  "a tool exists but may not run here: tell the person about it",
	policy.OutsideDomain: "no tool here fits: say so, or try other words",
}

// fitSentence tells a model what the tools found are to it.
func fitSentence(state policy.ScopeState, fit catalog.Fit, found bool) string {
	says := scopeSentences[state]
	if found && !fit.Fits {
		says = "no tool here clearly fits; these are the nearest: use one only if its definition does what you need, else say so, or try other words"
	}
	return strings.Join(append([]string{says}, fit.Notes()...), ". ")
}

// findResult writes one page, as text and as structured content, within the bound. A
// page that is not the last has the cursor of the next.
func findResult(page []found, from, total int, state policy.ScopeState, fit catalog.Fit, says string) json.RawMessage {
	var text strings.Builder
	list := []byte(`{"tools":[`)
	n := 0
	for _, f := range page {
		purpose := f.entry.Purpose(purposeBytes)
		class := f.class()
		line := fmt.Sprintf("%s | %s | %s | %s", f.name(), class, f.state, purpose)
		if f.aside {
			line += " (outside the work at hand)"
		}
		if n > 0 && text.Len()+len(line)+len(says) > findBytes/2 { // the other half is the same again, structured
			break
		}
		text.WriteString(line + "\n")
		if n++; n > 1 {
			list = append(list, ',')
		}
		list = append(list, `{"id":`...)
		list = strictjson.AppendString(list, f.entry.ID.String())
		list = fmt.Appendf(list, `,"class":"%s","state":"%s","outside":%t,"purpose":`, class, f.state, f.aside)
		list = strictjson.AppendString(list, purpose)
		list = append(list, '}')
	}
	fmt.Fprintf(&text, "%s: %s", state, says)
	list = fmt.Appendf(list, `],"scope":"%s","fits":%t,"total":%d`, state, fit.Fits, total)
	list = appendStrings(list, "unsaid", fit.Unsaid)
	list = appendStrings(list, "unmet", fit.Unmet)
	if next := from + n; next < total {
		fmt.Fprintf(&text, ". %d more: cursor %q", total-next, strconv.Itoa(next))
		list = fmt.Appendf(list, `,"next_cursor":"%d"`, next)
	}
	return textResult(false, []string{text.String()}, append(list, '}'))
}

// appendStrings appends a member with a list, where there is one.
func appendStrings(to []byte, member string, all []string) []byte {
	for i, s := range all {
		if i == 0 {
			to = fmt.Appendf(to, `,"%s":[`, member)
		} else {
			to = append(to, ',')
		}
		to = strictjson.AppendString(to, s)
	}
	if len(all) > 0 {
		to = append(to, ']')
	}
	return to
}

// loadTools gives definitions byte for byte, each under a line that says what becomes of
// a call.
func (s *Session) loadTools(ctx context.Context, req Request) Outcome {
	var names []string
	err := arguments(req, map[string]any{"names": &names})
	if err != nil || len(names) == 0 || len(names) > findMost {
		return wrongShape(req.Name, `takes {"names": ["server/tool", ...]}, one to 50 of them%s.`, because(err))
	}
	var blocks []string
	loaded := 0
	wait, cancel := context.WithTimeout(ctx, s.g.opts.FirstList) // for all names
	defer cancel()
	for _, name := range names {
		entry, known, err := s.find(wait, name)
		var ambiguous *catalog.AmbiguousError
		if errors.As(err, &ambiguous) {
			blocks = append(blocks, fmt.Sprintf("refused [%s]: load_tool %s", policy.CodeArguments, s.ambiguous(ambiguous)))
			continue
		}
		f, mayKnow, at := found{}, false, s.look()
		if known {
			f, mayKnow = s.judged(&at, entry, req.CanAsk)
		}
		id := s.meant(name)
		_, down := s.unheard(id.Server)
		switch {
		case !known && down != nil:
			blocks = append(blocks, fmt.Sprintf("refused [%s]: %s (%v)", policy.CodeServerDown, policy.CodeServerDown.ForModel(policy.About{Tool: id}), down))
		case !mayKnow:
			blocks = append(blocks, fmt.Sprintf("refused [%s]: %s", policy.CodeUnknown, s.unknownName(&at, name)))
		case f.state == "held":
			blocks = append(blocks, fmt.Sprintf("refused [%s]: %s", policy.CodeHeld, policy.CodeHeld.ForModel(policy.About{Tool: entry.ID, Pin: s.g.pin(entry.ID)})))
		default:
			blocks = append(blocks, loadHeader(f)+"\n"+string(entry.Raw))
			loaded++
		}
	}
	s.note("load_tool", fmt.Sprintf("%d of %d given", loaded, len(names)))
	return Outcome{Result: textResult(loaded == 0, blocks, nil)}
}

// needs says what each state of a tool means for a call.
var needs = map[string]string{
	"runs":    "a call runs at once",
	"asks":    "a call waits for a person's yes",
	"refused": "a call is refused here",
}

func loadHeader(f found) string {
	with := "call_tool"
	if f.entry.Class.Permission == engagement.Read {
		with = "call_tool_read"
	}
	return fmt.Sprintf("%s | %s | gives %s | %s | use %s", f.name(), f.entry.Class.Permission, f.entry.Class.Egress, needs[f.state], with)
}

// unknownName says that there is no tool of a name, and names the nearest.
func (s *Session) unknownName(at *sight, name string) string {
	if e, ok, _ := s.set().Find(name); ok && s.mayKnow(at, e.ID) {
		if s.profile.Exposure == Transparent { // there is no call_tool
			return fmt.Sprintf("%v is called %q here", e.ID, e.ID.Tool)
		}
		return fmt.Sprintf("%v is not called by its own name here: give it to call_tool, or to call_tool_read, as \"name\"", e.ID)
	}
	text := s.noTool(at, name)
	if s.profile.Exposure == Transparent {
		return text + ". tools/list names those there are"
	}
	return text + ". find_tools finds one by what it does"
}

// noTool says that nothing has a name, why, and what has one like it.
func (s *Session) noTool(at *sight, name string) string {
	text := fmt.Sprintf("there is no tool %q", name)
	if why := s.whyUnknown(name); why != nil {
		text += ": " + why.Error()
	}
	if near := s.nearest(at, name); len(near) > 0 {
		text += ". The nearest are " + strings.Join(near, ", ")
	}
	return text
}

// nearest are the nearest names among those that this session may know of.
func (s *Session) nearest(at *sight, name string) []string {
	var near []string
	for _, id := range s.set().Nearest(name, 8) {
		if s.mayKnow(at, id) && len(near) < 3 {
			near = append(near, id.String())
		}
	}
	return near
}

// mayKnow reports whether the session may learn that a tool exists.
func (s *Session) mayKnow(at *sight, id catalog.ToolID) bool {
	e, ok := s.tool(id)
	if !ok {
		return false
	}
	_, ok = s.judged(at, *e, false)
	return ok
}

// note writes a line about a meta tool that ended without a call.
func (s *Session) note(tool, text string) {
	e := audit.Event{Kind: audit.Note, Call: s.nextCall(), Session: s.id, Principal: s.who.Principal, Client: s.who.Client, Tool: tool, Note: text}
	s.g.writeDown(e)
}
