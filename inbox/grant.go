package inbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/canonjson"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// Terms are what a grant allows: calls that fit all of them run without a
// question. They are signed whole and never edited; [Narrowing] is what can
// happen to them later.
type Terms struct {
	// Tools are patterns over alias/tool. A destructive tool is covered only
	// by its own name.
	Tools []string `json:"tools"`
	// Args constrains the arguments in the words of the rules, as data that a
	// [Matcher] reads; nil is no constraint.
	Args json.RawMessage `json:"args,omitempty"`
	// ArgsDigest, where set, allows these very arguments and no others.
	ArgsDigest string `json:"args_digest,omitempty"`
	// Principal is whose calls it allows; "NAME/*" is NAME and every NAME/OTHER.
	Principal string `json:"principal"`
	// Session, where set, ends the grant with that session.
	Session string `json:"session,omitempty"`
	// Class is the highest class of tool that the grant covers.
	Class engagement.Permission `json:"class"`
	Calls int                   `json:"calls"` // at most, in all; from 1
	Until time.Time             `json:"until"`
	// Definitions pins alias/tool to its server id and definition digest, as
	// [Pin] writes them: a tool that is not pinned, or changed, is not covered.
	Definitions map[string]string `json:"definitions"`
}

// Pin is what [Terms.Definitions] holds for a tool.
func Pin(serverID, definition string) string { return serverID + " " + definition }

// MaxGrantCalls and MaxGrantTools bound what one grant may allow.
const (
	MaxGrantCalls = 10_000
	MaxGrantTools = 1_000
)

func (t Terms) check(now time.Time) error {
	switch {
	case len(t.Tools) == 0 || len(t.Tools) > MaxGrantTools || len(t.Definitions) > MaxGrantTools:
		return fmt.Errorf("grant: want 1 to %d tools", MaxGrantTools)
	case len(t.Definitions) == 0:
		return errors.New("grant: no definition is pinned, so it would cover nothing")
	case t.Principal == "":
		return errors.New("grant: it names no principal")
	case t.Calls < 1 || t.Calls > MaxGrantCalls:
		return fmt.Errorf("grant: %d calls, want 1 to %d", t.Calls, MaxGrantCalls)
	case !t.Until.After(now):
		return fmt.Errorf("grant: it would end %s, which is past", shownTime(t.Until))
	case t.Class == 0:
		return errors.New("grant: it names no class")
	}
	if t.Class == engagement.Destructive {
		for _, p := range t.Tools {
			if !outright(p) {
				return fmt.Errorf("grant: a destructive tool has to be named outright, %q is a pattern", p)
			}
		}
	}
	if t.Args != nil {
		if err := strictjson.Check(t.Args); err != nil {
			return fmt.Errorf("grant: constraint on arguments: %w", err)
		}
	}
	return nil
}

// outright reports whether the pattern is one tool's name.
func outright(pattern string) bool { return !strings.ContainsAny(pattern, `*?[]{}\!`) }

func (t Terms) message() message {
	m := newMessage("mcp-gate terms 1").list(t.Tools).
		add(canonical(t.Args), t.ArgsDigest, t.Principal, t.Session, t.Class.String(), strconv.Itoa(t.Calls)).
		time(t.Until)
	names := slices.Sorted(maps.Keys(t.Definitions))
	m = m.list(names)
	for _, name := range names {
		m = m.add(t.Definitions[name])
	}
	return m
}

// canonical spells a constraint in the one way that survives being stored.
func canonical(raw json.RawMessage) string {
	b, err := canonjson.Append(nil, raw)
	if err != nil { // none, or refused by check
		return string(raw)
	}
	return string(b)
}

// Sentence says in one sentence what the grant allows; it is what a person
// reads before making it and what lists show.
func (t Terms) Sentence() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s may use %s (%s at most)", t.who(), shownList(t.Tools), t.Class)
	switch {
	case t.ArgsDigest != "":
		fmt.Fprintf(&b, " with exactly the arguments of SHA-256 %s", DisplayLine(t.ArgsDigest))
	case t.Args != nil:
		fmt.Fprintf(&b, " where the arguments fit %s", DisplayLine(string(t.Args)))
	default:
		b.WriteString(" with any arguments")
	}
	fmt.Fprintf(&b, ", at most %d %s, until %s", t.Calls, plural(t.Calls, "call", "calls"), shownTime(t.Until))
	if t.Session != "" {
		fmt.Fprintf(&b, " or the end of session %s", DisplayLine(t.Session))
	}
	n := len(t.Definitions)
	fmt.Fprintf(&b, ", while the %s of %d %s unchanged.", plural(n, "definition", "definitions"), n, plural(n, "tool is", "tools are"))
	return b.String()
}

// isOf reports whether the grant is for the calls of a principal.
func (t Terms) isOf(principal string) bool {
	if base, all := strings.CutSuffix(t.Principal, "/*"); all {
		return principal == base || strings.HasPrefix(principal, base+"/")
	}
	return principal == t.Principal
}

func (t Terms) who() string {
	if base, all := strings.CutSuffix(t.Principal, "/*"); all {
		return fmt.Sprintf("%[1]s, and every client served as %[1]s/NAME,", DisplayLine(base))
	}
	return DisplayLine(t.Principal)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// A Narrowing takes from a grant. It needs no proof, since it gives nothing;
// the zero Narrowing takes nothing.
type Narrowing struct {
	Calls   *int              `json:"calls,omitempty"`   // at most so many in all
	Until   *time.Time        `json:"until,omitempty"`   // not later than
	Without []string          `json:"without,omitempty"` // alias/tool that are taken out
	Args    []json.RawMessage `json:"args,omitempty"`    // further constraints, all of which must hold
}

// Meet returns what both narrowings leave.
func (n Narrowing) Meet(m Narrowing) Narrowing {
	out := Narrowing{
		Calls:   earlier(n.Calls, m.Calls, func(a, b int) bool { return a < b }),
		Until:   earlier(n.Until, m.Until, time.Time.Before),
		Without: slices.Concat(n.Without, m.Without),
		Args:    slices.Concat(n.Args, m.Args),
	}
	slices.Sort(out.Without)
	out.Without = slices.Compact(out.Without)
	return out
}

func earlier[T any](a, b *T, less func(a, b T) bool) *T {
	if a == nil || b != nil && less(*b, *a) {
		return b
	}
	return a
}

// A Grant is a person's signed terms and what has become of them since.
type Grant struct {
	ID        string    `json:"id"`
	Terms     Terms     `json:"terms"`
	Level     Level     `json:"level"`
	Channel   Channel   `json:"channel"`
	Key       string    `json:"key"`
	At        time.Time `json:"at"`
	Signature []byte    `json:"signature"`

	// What follows is not signed: it can only take away.
	Narrowed Narrowing `json:"narrowed"`
	Used     int       `json:"used"`
	LastUsed time.Time `json:"last_used,omitzero"`
	Revoked  time.Time `json:"revoked,omitzero"`
	// Revision counts changes, as a ticket's does.
	Revision int64 `json:"revision"`
}

// Message returns the bytes that are signed.
func (g Grant) Message() []byte {
	return newMessage("mcp-gate grant 1").
		add(g.ID, string(g.Terms.message()), g.Level.String(), g.Channel.String(), g.Key).time(g.At)
}

// Sign returns g signed by the given key.
func (g Grant) Sign(key Signer) (Grant, error) {
	g.Key = key.KeyID()
	g.At = g.At.Truncate(time.Microsecond)
	signature, err := key.Sign(g.Message())
	if err != nil {
		return Grant{}, fmt.Errorf("sign grant %s: %w", g.ID, err)
	}
	g.Signature = signature
	return g, nil
}

// VerifyGrant checks a grant's signature and returns the level that it proves,
// as [Ring.Verify] does for decisions.
func (r *Ring) VerifyGrant(g Grant) (Level, error) {
	if g.Key == r.gate.KeyID() && (g.Channel != Elicitation || g.Terms.Session == "" || g.Terms.ArgsDigest == "") {
		return 0, &ProofError{g.ID, "the gate's own key proves a client's \"for this session\" and nothing else"}
	}
	level, err := r.proves(g.Key, g.Level, g.Message(), g.Signature)
	if err != nil {
		return 0, &ProofError{g.ID, err.Error()}
	}
	return level, nil
}

// Limit returns how many calls the grant allows in all, and until when.
func (g Grant) Limit() (calls int, until time.Time) {
	calls, until = g.Terms.Calls, g.Terms.Until
	if n := g.Narrowed.Calls; n != nil {
		calls = min(calls, *n)
	}
	if u := g.Narrowed.Until; u != nil && u.Before(until) {
		until = *u
	}
	return max(calls, 0), until
}

// Left returns how many calls are left at the given time; 0 where the grant is
// spent, over or revoked, and where the clock is behind it.
func (g Grant) Left(now time.Time) int {
	calls, until := g.Limit()
	if !g.Revoked.IsZero() || !now.Before(until) || g.Early(now) {
		return 0
	}
	return max(calls-g.Used, 0)
}

// clockSlack is how far a clock may go back, as one that is set right does.
const clockSlack = time.Minute

// wentBack reports whether the clock is behind something that has happened: it
// cannot tell then when something is over.
func wentBack(now, happened time.Time) bool { return now.Before(happened.Add(-clockSlack)) }

// Early reports whether the clock is behind the making or the last use of the grant.
func (g Grant) Early(now time.Time) bool { return wentBack(now, g.At) || wentBack(now, g.LastUsed) }

// Call is what a grant is held against: the facts of one call.
type Call struct {
	Tool       catalog.ToolID
	Server     string // server id
	Definition string // digest
	Principal  string
	Session    string
	Class      engagement.Permission
	ArgsDigest string
}

// A Matcher knows one call's name and arguments in the words of the rules.
type Matcher interface {
	// Tool reports whether the pattern covers the call's tool.
	Tool(pattern string) bool
	// Args reports whether the call's arguments fit the constraint. An error
	// counts as no, and is reported.
	Args(constraint json.RawMessage) (bool, error)
}

// ErrArgsNotKept is what a [Matcher] returns for a recorded call whose
// arguments were not kept; [Grant.Covers] wraps it.
var ErrArgsNotKept = errors.New("depends on arguments that were not kept")

// Covers reports whether the grant's terms, as they are narrowed, allow the
// call. It looks neither at the signature nor at what is left. An error means
// no, and says what could not be matched.
func (g Grant) Covers(c Call, m Matcher) (bool, error) {
	t := g.Terms
	switch {
	case !t.isOf(c.Principal),
		t.Session != "" && t.Session != c.Session,
		!c.Class.AtMost(t.Class),
		t.ArgsDigest != "" && t.ArgsDigest != c.ArgsDigest,
		t.Definitions[c.Tool.String()] != Pin(c.Server, c.Definition),
		slices.Contains(g.Narrowed.Without, c.Tool.String()),
		!slices.ContainsFunc(t.Tools, func(p string) bool { return covers(p, c, m) }):
		return false, nil
	}
	constraints := g.Narrowed.Args
	if t.Args != nil {
		constraints = append([]json.RawMessage{t.Args}, constraints...)
	}
	for _, constraint := range constraints {
		if ok, err := m.Args(constraint); err != nil || !ok {
			if err != nil {
				err = fmt.Errorf("grant %s: %w", g.ID, err)
			}
			return false, err
		}
	}
	return true, nil
}

func covers(pattern string, c Call, m Matcher) bool {
	if c.Class == engagement.Destructive || outright(pattern) {
		return pattern == c.Tool.String()
	}
	return m.Tool(pattern)
}

// SessionTerms returns the terms of "for this session": this tool with these
// very arguments, for the session that asked, at most calls times, until the
// given time.
func SessionTerms(t Ticket, calls int, until time.Time) Terms {
	b := t.Binding
	return Terms{
		Tools: []string{t.View.Tool.String()}, ArgsDigest: b.Args,
		Principal: b.Principal, Session: b.Session, Class: t.View.Class, Calls: calls, Until: until,
		Definitions: map[string]string{t.View.Tool.String(): Pin(b.Server, b.Definition)},
	}
}

// Coverage is what [Simulate] says about one recorded call.
type Coverage uint8

// The three answers of a simulation.
const (
	NotCovered Coverage = iota + 1
	Covered
	DependsOnArgs
)

// Simulate tells for each of the recorded calls whether the terms would have
// covered it, ignoring time and number. A call whose arguments were not kept
// is [DependsOnArgs] where a constraint would have to look at them.
func Simulate(t Terms, calls []Call, matcher func(i int) Matcher) []Coverage {
	out := make([]Coverage, len(calls))
	g := Grant{Terms: t}
	for i, c := range calls {
		ok, err := g.Covers(c, matcher(i))
		switch {
		case errors.Is(err, ErrArgsNotKept):
			out[i] = DependsOnArgs
		case ok:
			out[i] = Covered
		default:
			out[i] = NotCovered
		}
	}
	return out
}
