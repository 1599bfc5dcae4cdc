package policy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/enum"
)

// Do is what a rule does to a call that it matches, strongest first. The zero Do
// is nothing: no rule matched.
type Do uint8

const (
	DoHide  Do = iota + 1 // the tool does not exist for this caller
	DoDeny                // refuse
	DoAsk                 // ask a person
	DoDefer               // park it for a person
	DoAllow               // the owner's standing yes
)

var dos = enum.Of[Do]("rule effect", "hide", "deny", "ask", "defer", "allow")

// Dos returns every Do, strongest first.
func Dos() []Do { return dos.All() }

func (d Do) String() string                { return dos.Word(d) }
func (d Do) MarshalText() ([]byte, error)  { return dos.Marshal(d) }
func (d *Do) UnmarshalText(b []byte) error { return dos.Unmarshal(b, d) }

// Ref names a rule for people and for the audit. The zero Ref is no rule.
type Ref struct {
	Do     Do
	Index  int // in the list of rules, from 0
	Source Source
	Note   string // the owner's remark
}

// Set reports whether there is a rule.
func (r Ref) Set() bool { return r.Do != 0 }

// String returns the rule's place, such as rules[3] (config.jsonc:12:5), or "no
// rule".
func (r Ref) String() string {
	if !r.Set() {
		return "no rule"
	}
	if at := r.Source.String(); at != "" {
		return fmt.Sprintf("rules[%d] (%s)", r.Index, at)
	}
	return fmt.Sprintf("rules[%d]", r.Index)
}

// Rules is a compiled list of rules. It is immutable and safe for concurrent use;
// the nil Rules has none.
type Rules struct {
	all []rule
	// Every rule that can match a tool is in exactly one of the three, by its
	// tool's ID, by its server, or for any server. Each list is in file order.
	byTool   map[catalog.ToolID][]int
	byServer map[string][]int
	anywhere []int
}

// rule is a compiled record. Nil and empty fields match everything.
type rule struct {
	ref        Ref
	tools      []pattern
	classes    []engagement.Permission
	egress     engagement.EgressSet
	principals []string
	scopes     []Scope
	args       []argTest // sorted by pointer
}

// Request is what the rules are held against: who calls which tool with what.
type Request struct {
	Tool catalog.ToolID
	// NameUnique says that no other server offers a tool of this name. An allow
	// rule that gives a tool without its server holds only then.
	NameUnique bool
	Class      engagement.Permission // zero is destructive
	Egress     engagement.Egress     // zero is row_level
	Principal  string
	Scope      Scope // zero is read

	Args        json.RawMessage // the object as the client sent it; nil is an empty one
	ArgsUnknown bool            // there are arguments, and they are not known
	// Resolved is the absolute, clean path with slashes, links followed as far as
	// they exist, for every string that [Rules.Paths] names.
	Resolved map[string]string
}

// Outcome is what the rules say about a request. The zero Outcome is that none
// matched.
type Outcome struct {
	Do        Do        // the strongest effect among the rules that matched
	By        Ref       // the first rule with it
	NamesTool bool      // allow: a rule that matched names the tool outright
	Failed    []Failure // rules that could not be put to the arguments, counted as said at Compile
	Open      []Ref     // rules that match if the arguments do, which are not known; they count for nothing else
}

// Failure is a rule that could not be put to a call, and why.
type Failure struct {
	Rule    Ref
	Pointer string // the place in the arguments; empty for all of them
	Text    string
}

func (f Failure) String() string {
	return fmt.Sprintf("%v: arguments%s: %s", f.Rule, f.Pointer, f.Text)
}

// Len returns how many rules there are.
func (r *Rules) Len() int {
	if r == nil {
		return 0
	}
	return len(r.all)
}

// Evaluate holds every rule that can match the tool against the request. The
// strongest effect wins wherever it stands: hide, deny, ask, defer, allow; among
// equals the first rule is named, for allow the first that names the tool
// outright. The arguments are parsed at most once, and only if a rule that
// otherwise matches looks at them.
func (r *Rules) Evaluate(q Request) Outcome {
	var out Outcome
	if r == nil {
		return out
	}
	q.Class, q.Egress, q.Scope = cmp.Or(q.Class, engagement.Destructive), cmp.Or(q.Egress, engagement.RowLevel), cmp.Or(q.Scope, ScopeRead)
	args := q.arguments()
	for _, list := range r.candidates(q.Tool) {
		for _, i := range list {
			if rule := &r.all[i]; rule.appliesTo(&q) {
				out.add(rule, &q, &args)
			}
		}
	}
	return out
}

// candidates returns the indexes of the rules whose patterns may match the tool.
func (r *Rules) candidates(id catalog.ToolID) [3][]int {
	return [3][]int{r.byTool[id], r.byServer[id.Server], r.anywhere}
}

// add puts the rule to the arguments and keeps what follows.
func (out *Outcome) add(rule *rule, q *Request, args *lazyArgs) {
	switch result, failure := rule.judgeArgs(args); result {
	case open:
		out.Open = append(out.Open, rule.ref)
		return
	case failed:
		out.Failed = append(out.Failed, *failure)
		if rule.ref.Do == DoAllow {
			return
		}
	case no:
		return
	}
	outright := rule.ref.Do == DoAllow && rule.names(q.Tool)
	stronger := out.Do == 0 || rule.ref.Do < out.Do
	equal := rule.ref.Do == out.Do
	first := rule.ref.Index < out.By.Index
	if stronger || equal && (outright && !out.NamesTool || outright == out.NamesTool && first) {
		out.Do, out.By, out.NamesTool = rule.ref.Do, rule.ref, outright
	}
}

// Meet returns what holds where both outcomes do: the stronger one, and no yes
// unless both are.
func (out Outcome) Meet(other Outcome) Outcome {
	weak, strong := out, other
	if strong.weakness() > weak.weakness() {
		weak, strong = strong, weak
	}
	strong.NamesTool = out.NamesTool && other.NamesTool
	strong.Failed, strong.Open = slices.Concat(strong.Failed, weak.Failed), slices.Concat(strong.Open, weak.Open)
	return strong
}

// weakness orders outcomes, the strongest first: that no rule matched is less
// than any but a yes.
func (out Outcome) weakness() Do {
	switch out.Do {
	case 0:
		return DoAllow
	case DoAllow:
		return DoAllow + 1
	}
	return out.Do
}

// appliesTo reports whether everything but the arguments matches.
func (r *rule) appliesTo(q *Request) bool {
	return r.matchesTool(q.Tool, q.NameUnique) &&
		(r.classes == nil || slices.Contains(r.classes, q.Class)) &&
		(r.egress.Empty() || r.egress.Has(q.Egress)) &&
		(r.principals == nil || anyGlob(r.principals, q.Principal)) &&
		(r.scopes == nil || slices.Contains(r.scopes, q.Scope))
}

func (r *rule) matchesTool(id catalog.ToolID, unique bool) bool {
	if r.tools == nil {
		return true
	}
	for _, p := range r.tools {
		if p.matches(id) && (!p.bare || unique || r.ref.Do != DoAllow) {
			return true
		}
	}
	return false
}

// names reports whether one of the rule's patterns is the tool's name.
func (r *rule) names(id catalog.ToolID) bool {
	return slices.ContainsFunc(r.tools, func(p pattern) bool { return p.outright() && p.matches(id) })
}

// judgeArgs puts the rule's tests to the arguments. A failure is given where the
// answer is failed, and only then.
func (r *rule) judgeArgs(args *lazyArgs) (answer, *Failure) {
	if len(r.args) == 0 {
		return matches, nil
	}
	if args.unknown {
		return open, nil
	}
	v, err := args.parsed()
	if err != nil {
		return failed, &Failure{Rule: r.ref, Text: err.Error()}
	}
	result, failure := matches, (*Failure)(nil)
	for i := range r.args {
		one, why := r.args[i].judge(v, args.resolved)
		if result = result.and(one); one == failed && failure == nil {
			failure = &Failure{r.ref, r.args[i].pointer, why}
		}
	}
	if result != failed {
		failure = nil // another test settled it
	}
	return result, failure
}

// lazyArgs parses the arguments of one request when they are first needed.
type lazyArgs struct {
	raw      json.RawMessage
	unknown  bool
	resolved map[string]string
	done     bool
	value    any
	err      error
}

func (q *Request) arguments() lazyArgs {
	return lazyArgs{raw: q.Args, unknown: q.ArgsUnknown, resolved: q.Resolved}
}

func (a *lazyArgs) parsed() (any, error) {
	if a.done {
		return a.value, a.err
	}
	a.done = true
	if len(a.raw) == 0 {
		a.value = map[string]any{}
		return a.value, nil
	}
	a.value, a.err = parseValue(a.raw)
	return a.value, a.err
}

// Paths returns every string that a path_under test of a rule for this request
// would compare: the folders that the rules give and the arguments that they look
// at, each once. Their resolved forms belong into Request.Resolved; one that is
// missing there makes the test fail. Nil where no such test is reached.
func (r *Rules) Paths(q Request) []string {
	if r == nil {
		return nil
	}
	var paths []string
	args := q.arguments()
	for _, list := range r.candidates(q.Tool) {
		for _, i := range list {
			if rule := &r.all[i]; rule.appliesTo(&q) {
				paths = append(paths, rule.paths(&args)...)
			}
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

func (r *rule) paths(args *lazyArgs) []string {
	var paths []string
	for _, test := range r.args {
		for _, c := range test.checks {
			roots, ok := c.(under)
			if !ok {
				continue
			}
			paths = append(paths, roots.roots...)
			if v, err := args.parsed(); err == nil {
				found, _, _ := lookUp(v, test.tokens)
				if s, ok := found.(string); ok {
					paths = append(paths, s)
				}
			}
		}
	}
	return paths
}
