package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/enum"
)

// Target is a tool as [Check] looks at it.
type Target struct {
	Tool   catalog.ToolID
	Class  engagement.Permission // zero is destructive
	Egress engagement.Egress     // zero is row_level
	Schema json.RawMessage       // of its arguments; nil where there is none
}

// FindingKind is what is odd about a rule. The zero FindingKind is none.
type FindingKind uint8

const (
	FindUnreachable FindingKind = iota + 1 // a stronger rule matches wherever this one does
	FindConflict                           // it and a stronger rule overlap, and neither is the other's exception
	FindNoTool                             // it matches no tool that is known
	FindAmbiguous                          // an allow rule gives a tool without its server, and several have it
	FindImpossible                         // it tests an argument that no tool it matches can have
)

var findingKinds = enum.Of[FindingKind]("finding", "unreachable", "conflict", "no-tool", "ambiguous", "impossible")

// FindingKinds returns every FindingKind.
func FindingKinds() []FindingKind { return findingKinds.All() }

func (k FindingKind) String() string                { return findingKinds.Word(k) }
func (k FindingKind) MarshalText() ([]byte, error)  { return findingKinds.Marshal(k) }
func (k *FindingKind) UnmarshalText(b []byte) error { return findingKinds.Unmarshal(b, k) }

// Finding is one thing about the rules that their owner may not have meant.
// Nothing in it stops the rules from working as they are written.
type Finding struct {
	Kind  FindingKind
	Rule  Ref
	Other Ref // the stronger rule, where there is one
	Text  string
}

// Check looks for rules that cannot do what they say, for the tools that are known
// now. Broken rules and examples that do not hold are [Compile]'s errors and never
// get here. Without tools it compares patterns alone.
//
// Two rules are held against each other as the lists they are: that two globs or
// two tests mean the same without being written the same is not seen.
func Check(rules *Rules, tools []Target) []Finding {
	if rules == nil {
		return nil
	}
	c := newChecker(rules, tools)
	var found []Finding
	for i := range rules.all {
		found = append(found, c.alone(i)...)
		found = append(found, c.against(i)...)
	}
	return found
}

type checker struct {
	rules   *Rules
	tools   []Target
	matched [][]int // for each rule, the tools it can match, in order; rules that say the same share one
	schemas []any   // of each tool, read when first asked for
	read    []bool

	all              []int            // the tools, in order
	byServer, byName map[string][]int // the same

	at    map[spot][]int // rules that may cover others, the first of those that are alike
	plain [][]int        // for each tool, the rules without arguments that match it and few others
	broad []int          // those that match many
}

// spot is where a rule is filed that may cover another: what it covers is found
// there again, so that not every rule is held against every other.
type spot struct {
	do    Do
	where string // a tool, a server, or everywhere
	test  string // its first test; "" for none
	who   string // one principal; "" for any
}

// many is how many tools a rule matches that is filed once and not under each.
const many = 32

func newChecker(rules *Rules, tools []Target) *checker {
	c := &checker{
		rules: rules, tools: tools, matched: make([][]int, len(rules.all)), schemas: make([]any, len(tools)), read: make([]bool, len(tools)),
		byServer: map[string][]int{}, byName: map[string][]int{}, at: map[spot][]int{}, plain: make([][]int, len(tools)),
	}
	known, seen := map[string][]int{}, map[string]bool{}
	for i, t := range tools {
		c.all = append(c.all, i)
		c.byServer[t.Tool.Server] = append(c.byServer[t.Tool.Server], i)
		c.byName[t.Tool.Tool] = append(c.byName[t.Tool.Tool], i)
	}
	for i := range rules.all {
		r := &rules.all[i]
		what := fmt.Sprintf("%v %v %v %v", r.ref.Do == DoAllow, r.tools, r.classes, r.egress)
		matched, ok := known[what]
		if !ok {
			matched = c.matches(r, c.near(r))
			known[what] = matched
		}
		c.matched[i] = matched
		if r.ref.Do != DoAllow && len(r.args) == 0 {
			c.filePlain(i)
		}
		if alike := fmt.Sprintf("%v %v %q %v %q", r.ref.Do, what, r.principals, r.scopes, testKeys(r.args)); !seen[alike] {
			seen[alike] = true
			c.file(i)
		}
	}
	return c
}

func (c *checker) filePlain(i int) {
	if len(c.matched[i]) > many {
		c.broad = append(c.broad, i)
		return
	}
	for _, tool := range c.matched[i] {
		c.plain[tool] = append(c.plain[tool], i)
	}
}

// file puts a rule wherever couldCover looks for it.
func (c *checker) file(i int) {
	r := &c.rules.all[i]
	where := map[string]bool{}
	if len(c.matched[i]) > many {
		where[toolSpot(-1)] = true
	} else {
		for _, tool := range c.matched[i] {
			where[toolSpot(tool)] = true
		}
	}
	for _, p := range r.tools {
		where[spotOf(p)] = true
	}
	if r.tools == nil {
		where[everywhere] = true
	}
	who := r.principals
	if who == nil || slices.ContainsFunc(who, func(p string) bool { return strings.ContainsAny(p, `*?\`) }) {
		who = []string{""}
	}
	test := ""
	if len(r.args) > 0 {
		test = testKeys(r.args[:1])[min(1, len(r.args[0].checks))]
	}
	for w := range where {
		for _, p := range who {
			at := spot{r.ref.Do, w, test, p}
			c.at[at] = append(c.at[at], i)
		}
	}
}

const everywhere = "/"

// toolSpot is one of the tools; -1 is many of them.
func toolSpot(tool int) string { return fmt.Sprintf("#%d", tool) }

// spotOf is where a pattern is that covers others: an outright name covers only
// itself, and one of a server only what is of it.
func spotOf(p pattern) string {
	switch {
	case !isLiteral(p.server):
		return everywhere
	case !isLiteral(p.tool):
		return p.server + everywhere
	}
	return p.server + everywhere + p.tool
}

// couldCover returns the stronger rules that may match wherever a rule does, in
// their order. One that does is among them, if only as the first of its like.
func (c *checker) couldCover(i int) []int {
	r := &c.rules.all[i]
	where := []string{everywhere}
	switch {
	case len(c.matched[i]) > 0: // what covers the rule matches the first of its tools
		where = []string{toolSpot(c.matched[i][0]), toolSpot(-1)}
	case len(r.tools) > 0:
		p := r.tools[0]
		where = append(where, p.server+everywhere, spotOf(p))
	}
	tests, who := append(testKeys(r.args), ""), []string{""}
	if len(r.principals) > 0 {
		who = append(who, r.principals[0])
	}
	var all []int
	for do := range r.ref.Do {
		for _, w := range where {
			for _, test := range tests {
				for _, p := range who {
					all = append(all, c.at[spot{do, w, test, p}]...)
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// testKeys returns the key of each test's place, and after it of each check
// there. A rule that is covered has the key of the other's first test: of its
// first check, or of its place where it has none.
func testKeys(tests []argTest) []string {
	var keys []string
	for _, t := range tests {
		place := fmt.Sprintf("%q %v ", t.pointer, t.absent)
		keys = append(keys, place)
		for _, check := range t.checks {
			keys = append(keys, place+check.key())
		}
	}
	return keys
}

// near returns the tools that a rule's patterns can match, and few others.
func (c *checker) near(r *rule) []int {
	var some []int
	for _, p := range r.tools {
		switch {
		case isLiteral(p.tool):
			some = append(some, c.byName[p.tool]...)
		case isLiteral(p.server):
			some = append(some, c.byServer[p.server]...)
		default:
			return c.all
		}
	}
	if r.tools == nil {
		return c.all
	}
	slices.Sort(some)
	return slices.Compact(some)
}

// matches returns which of some tools a rule can match for somebody with some
// arguments.
func (c *checker) matches(r *rule, some []int) []int {
	anyone := *r
	anyone.principals, anyone.scopes = nil, nil
	var matched []int
	for _, i := range some {
		t := &c.tools[i]
		call := Call{Class: t.Class, Egress: t.Egress}
		if anyone.appliesTo(&Request{Tool: t.Tool, NameUnique: true, Class: call.class(), Egress: call.egress()}) {
			matched = append(matched, i)
		}
	}
	return matched
}

// alone returns what is odd about a rule whatever the others say.
func (c *checker) alone(i int) []Finding {
	r := &c.rules.all[i]
	if len(c.tools) == 0 {
		return nil
	}
	if len(c.matched[i]) == 0 {
		return []Finding{{FindNoTool, r.ref, Ref{}, fmt.Sprintf("matches none of the %d tools known now", len(c.tools))}}
	}
	var found []Finding
	for _, p := range r.tools {
		if r.ref.Do != DoAllow || !p.bare || !isLiteral(p.tool) {
			continue
		}
		if names := c.names(c.byName[p.tool]); len(names) > 1 {
			found = append(found, Finding{FindAmbiguous, r.ref, Ref{},
				fmt.Sprintf("%s is a tool of several servers, so it allows none of them: %s", p.tool, strings.Join(names, ", "))})
		}
	}
	for _, test := range r.args {
		if !test.absent && c.nobodyHas(i, test.tokens) {
			found = append(found, Finding{FindImpossible, r.ref, Ref{},
				fmt.Sprintf("args.%s: no tool it matches takes this argument", test.pointer)})
		}
	}
	return found
}

func (c *checker) names(tools []int) []string {
	var names []string
	for _, tool := range tools {
		names = append(names, c.tools[tool].Tool.String())
	}
	return names
}

// nobodyHas reports whether every tool of the rule has a closed schema without the
// place.
func (c *checker) nobodyHas(i int, tokens []string) bool {
	return !slices.ContainsFunc(c.matched[i], func(tool int) bool {
		schema, known := c.schema(tool)
		return !known || mayHave(schema, tokens)
	})
}

// schema returns a tool's schema, where it has one that can be read.
func (c *checker) schema(tool int) (schema any, known bool) {
	if !c.read[tool] {
		c.read[tool] = true
		if v, err := parseValue(c.tools[tool].Schema); err == nil {
			c.schemas[tool] = &v
		}
	}
	v, known := c.schemas[tool].(*any)
	if !known {
		return nil, false
	}
	return *v, true
}

// mayHave reports whether arguments that fit a schema can have the place. It says
// yes wherever the schema uses more than plain properties.
func mayHave(schema any, tokens []string) bool {
	s, ok := schema.(map[string]any)
	if !ok || len(tokens) == 0 {
		return true
	}
	for _, keyword := range []string{"$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties", "items", "prefixItems"} {
		if _, has := s[keyword]; has {
			return true
		}
	}
	properties, _ := s["properties"].(map[string]any)
	if property, has := properties[tokens[0]]; has {
		return mayHave(property, tokens[1:])
	}
	return s["additionalProperties"] != false
}

// against returns the stronger rules that take a rule's effect away.
func (c *checker) against(i int) []Finding {
	weak := &c.rules.all[i]
	for _, j := range c.couldCover(i) {
		if c.covers(j, i) {
			strong := &c.rules.all[j]
			return []Finding{{FindUnreachable, weak.ref, strong.ref,
				fmt.Sprintf("%v matches wherever it does, and %v is stronger than %v", strong.ref, strong.ref.Do, weak.ref.Do)}}
		}
	}
	if weak.ref.Do != DoAllow {
		return nil
	}
	overlapping := slices.Clone(c.broad)
	for _, tool := range c.matched[i] {
		overlapping = append(overlapping, c.plain[tool]...)
	}
	slices.Sort(overlapping)
	var found []Finding
	for _, j := range slices.Compact(overlapping) {
		strong := &c.rules.all[j]
		if c.covers(i, j) || !meetPeople(weak, strong) {
			continue
		}
		if shared := c.shared(i, j); len(shared) > 0 {
			found = append(found, Finding{FindConflict, weak.ref, strong.ref,
				fmt.Sprintf("%v overlaps it, so it is %v and not allow for %s", strong.ref, strong.ref.Do, some(shared))})
		}
	}
	return found
}

// covers reports whether rule wide matches every call that rule narrow does.
func (c *checker) covers(wide, narrow int) bool {
	w, n := &c.rules.all[wide], &c.rules.all[narrow]
	people := subset(n.principals, w.principals, globCovers) && subset(n.scopes, w.scopes, same)
	if !people || !argsCover(w.args, n.args) {
		return false
	}
	if within, all := c.matched[narrow], c.matched[wide]; len(within) > 0 {
		if len(within) <= len(all) && !slices.ContainsFunc(within, func(tool int) bool { return !has(all, tool) }) {
			return true
		}
	}
	return subset(n.tools, w.tools, patternCovers) && subset(n.classes, w.classes, same) &&
		(w.egress.Empty() || !n.egress.Empty() && n.egress.Intersect(w.egress) == n.egress)
}

// has reports whether a sorted list has a number.
func has(sorted []int, n int) bool {
	_, ok := slices.BinarySearch(sorted, n)
	return ok
}

// subset reports whether each of the narrow is covered by one of the wide. Nil
// stands for everything.
func subset[T any](narrow, wide []T, covers func(wide, narrow T) bool) bool {
	if wide == nil {
		return true
	}
	return narrow != nil && !slices.ContainsFunc(narrow, func(n T) bool {
		return !slices.ContainsFunc(wide, func(w T) bool { return covers(w, n) })
	})
}

func same[T comparable](a, b T) bool { return a == b }

func patternCovers(wide, narrow pattern) bool {
	return globCovers(wide.server, narrow.server) && globCovers(wide.tool, narrow.tool)
}

// globCovers reports whether one glob matches all that another does. Only a star
// may stand for the special characters of the other.
func globCovers(wide, narrow string) bool {
	return wide == narrow || !strings.ContainsAny(wide, `?\`) && glob(wide, narrow)
}

// argsCover reports whether the wide tests are all among the narrow ones, so that
// what passes the narrow passes the wide.
func argsCover(wide, narrow []argTest) bool {
	return !slices.ContainsFunc(wide, func(w argTest) bool {
		return !slices.ContainsFunc(narrow, func(n argTest) bool { return testCovers(w, n) })
	})
}

func testCovers(wide, narrow argTest) bool {
	return wide.pointer == narrow.pointer && wide.absent == narrow.absent &&
		!slices.ContainsFunc(wide.checks, func(w check) bool {
			return !slices.ContainsFunc(narrow.checks, func(n check) bool { return w.key() == n.key() })
		})
}

// meetPeople reports whether two rules can speak of the same caller.
func meetPeople(a, b *rule) bool {
	scopes := a.scopes == nil || b.scopes == nil || slices.ContainsFunc(a.scopes, func(s Scope) bool { return slices.Contains(b.scopes, s) })
	people := a.principals == nil || b.principals == nil || slices.ContainsFunc(a.principals, func(p string) bool {
		return slices.ContainsFunc(b.principals, func(q string) bool { return glob(p, q) || glob(q, p) })
	})
	return scopes && people
}

// shared returns the tools that both rules can match.
func (c *checker) shared(i, j int) []string {
	var both []int
	for _, tool := range c.matched[i] {
		if has(c.matched[j], tool) {
			both = append(both, tool)
		}
	}
	return c.names(both)
}

// some returns the first three names and how many more there are.
func some(names []string) string {
	if len(names) <= 3 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
}
