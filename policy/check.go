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
	c := checker{rules: rules, tools: tools, matched: make([][]int, len(rules.all))}
	for i := range rules.all {
		c.matched[i] = c.matches(&rules.all[i])
	}
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
	matched [][]int // for each rule, the tools it can match, in order
}

// matches returns the tools that a rule can match for somebody with some arguments.
func (c *checker) matches(r *rule) []int {
	anyone := *r
	anyone.principals, anyone.scopes = nil, nil
	var matched []int
	for i, t := range c.tools {
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
		if names := c.named(p); r.ref.Do == DoAllow && p.bare && isLiteral(p.tool) && len(names) > 1 {
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

// named returns the tools that a pattern matches.
func (c *checker) named(p pattern) []string {
	var names []string
	for _, t := range c.tools {
		if p.matches(t.Tool) {
			names = append(names, t.Tool.String())
		}
	}
	return names
}

// nobodyHas reports whether every tool of the rule has a closed schema without the
// place.
func (c *checker) nobodyHas(i int, tokens []string) bool {
	return !slices.ContainsFunc(c.matched[i], func(tool int) bool {
		schema, err := parseValue(c.tools[tool].Schema)
		return err != nil || mayHave(schema, tokens)
	})
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
	var found []Finding
	weak := &c.rules.all[i]
	for j := range c.rules.all {
		strong := &c.rules.all[j]
		switch {
		case strong.ref.Do >= weak.ref.Do:
		case c.covers(j, i):
			return []Finding{{FindUnreachable, weak.ref, strong.ref,
				fmt.Sprintf("%v matches wherever it does, and %v is stronger than %v", strong.ref, strong.ref.Do, weak.ref.Do)}}
		case weak.ref.Do == DoAllow && len(strong.args) == 0 && !c.covers(i, j) && meetPeople(weak, strong):
			if shared := c.shared(i, j); len(shared) > 0 {
				found = append(found, Finding{FindConflict, weak.ref, strong.ref,
					fmt.Sprintf("%v overlaps it, so it is %v and not allow for %s", strong.ref, strong.ref.Do, some(shared))})
			}
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
	if len(c.matched[narrow]) > 0 && !slices.ContainsFunc(c.matched[narrow], func(tool int) bool {
		return !slices.Contains(c.matched[wide], tool)
	}) {
		return true
	}
	return subset(n.tools, w.tools, patternCovers) && subset(n.classes, w.classes, same) &&
		(w.egress.Empty() || !n.egress.Empty() && n.egress.Intersect(w.egress) == n.egress)
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
	var names []string
	for _, tool := range c.matched[i] {
		if slices.Contains(c.matched[j], tool) {
			names = append(names, c.tools[tool].Tool.String())
		}
	}
	return names
}

// some returns the first three names and how many more there are.
func some(names []string) string {
	if len(names) <= 3 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
}
