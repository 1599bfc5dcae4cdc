package policy

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/canonjson"
	"github.com/mcp-gate/mcp-gate/internal/enum"
)

// A CompileError holds everything that is wrong with a list of rules.
type CompileError struct{ Problems []*Problem }

func (e *CompileError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Compile checks the rules, runs their examples and prepares them for matching.
// On any problem there are no rules and the error is a *[CompileError].
//
// A rule fails when one of its tests meets a value of another kind than it was
// written for, when the arguments do not parse, or when a path was not resolved,
// while everything else about it matches. It then counts as a match if it would
// hide, deny, ask or defer, and as none if it would allow, and is listed in
// [Outcome.Failed]. A rule of which some other part does not match never fails.
func Compile(records []Record) (*Rules, error) {
	c := compiler{}
	rules := &Rules{byTool: map[catalog.ToolID][]int{}, byServer: map[string][]int{}}
	for i, record := range records {
		c.index, c.source = i, record.Source
		rules.all = append(rules.all, c.rule(record))
	}
	if len(c.problems) > 0 {
		return nil, &CompileError{c.problems}
	}
	for i := range rules.all {
		rules.index(i)
	}
	return rules, nil
}

// index files a rule under each tool, each server, or once for all.
func (r *Rules) index(i int) {
	patterns := r.all[i].tools
	everywhere := func(p pattern) bool { return !isLiteral(p.server) }
	if patterns == nil || slices.ContainsFunc(patterns, everywhere) {
		r.anywhere = append(r.anywhere, i)
		return
	}
	wholeServers := map[string]bool{}
	for _, p := range patterns {
		if !p.outright() && !wholeServers[p.server] {
			wholeServers[p.server] = true
			r.byServer[p.server] = append(r.byServer[p.server], i)
		}
	}
	for _, p := range patterns {
		id := catalog.ToolID{Server: p.server, Tool: p.tool}
		if p.outright() && !wholeServers[p.server] && !slices.Contains(r.byTool[id], i) {
			r.byTool[id] = append(r.byTool[id], i)
		}
	}
}

// compiler collects the problems of all rules.
type compiler struct {
	index    int
	source   Source
	problems []*Problem
}

func (c *compiler) add(field, text string, choices ...string) {
	c.problems = append(c.problems, &Problem{c.index, field, text, choices, c.source})
}

// addError adds an error; one about a word comes with the valid words.
func (c *compiler) addError(field string, err error) {
	var unknown *enum.UnknownWordError
	if errors.As(err, &unknown) {
		c.add(field, fmt.Sprintf("unknown %s %q", unknown.Noun, unknown.Word), unknown.Want...)
		return
	}
	c.add(field, err.Error())
}

func (c *compiler) rule(r Record) rule {
	before := len(c.problems)
	out := rule{ref: Ref{Index: c.index, Source: r.Source, Note: r.Note}}
	if err := out.ref.Do.UnmarshalText([]byte(r.Do)); err != nil {
		c.addError("do", err)
	}
	for _, word := range c.given("tools", r.Tools) {
		p, err := parsePattern(word)
		if err != nil {
			c.addError("tools", err)
		}
		out.tools = append(out.tools, p)
	}
	out.classes = compileWords[engagement.Permission](c, "class", r.Class)
	out.egress = engagement.EgressOf(compileWords[engagement.Egress](c, "egress", r.Egress)...)
	out.principals = c.globs("principal", r.Principal)
	out.scopes = compileWords[Scope](c, "scope", r.Scope)
	out.args = c.args(r.Args)
	if len(c.problems) == before {
		c.examples(&out, "match", r.Match, true)
		c.examples(&out, "not_match", r.NotMatch, false)
	}
	return out
}

// given refuses a list that is there and empty: it can match nothing, and whoever
// wrote it meant something else.
func (c *compiler) given(field string, words Words) Words {
	if words != nil && len(words) == 0 {
		c.add(field, "an empty list matches nothing; leave the field out to match everything")
	}
	return words
}

func compileWords[T any, P interface {
	*T
	encoding.TextUnmarshaler
}](c *compiler, field string, words Words) []T {
	var out []T
	for _, word := range c.given(field, words) {
		var v T
		if err := P(&v).UnmarshalText([]byte(word)); err != nil {
			c.addError(field, err)
		}
		out = append(out, v)
	}
	return out
}

func (c *compiler) globs(field string, patterns Words) []string {
	for _, p := range c.given(field, patterns) {
		if p == "" || len(p) > maxPattern {
			c.add(field, fmt.Sprintf("want a pattern of 1 to %d bytes", maxPattern))
		}
	}
	return patterns
}

func (c *compiler) args(records map[string]ArgRecord) []argTest {
	if records != nil && len(records) == 0 {
		c.add("args", "an empty map tests nothing; leave the field out")
	}
	var tests []argTest
	for pointer, record := range records {
		tokens, err := parsePointer(pointer)
		if err != nil {
			c.addError("args."+pointer, err)
			continue
		}
		tests = append(tests, c.argTest("args."+pointer, argTest{pointer: pointer, tokens: tokens}, record))
	}
	slices.SortFunc(tests, func(a, b argTest) int { return strings.Compare(a.pointer, b.pointer) })
	return tests
}

func (c *compiler) argTest(field string, t argTest, r ArgRecord) argTest {
	t.absent = r.Absent
	t.checks = slices.Concat(
		c.oneOf(field+".eq", r.Eq != nil, []json.RawMessage{r.Eq}),
		c.oneOf(field+".in", r.In != nil, r.In),
		c.stringTests(field, r),
		c.bounds(field, r.Min, r.Max),
	)
	if r.MaxLen != nil {
		if *r.MaxLen < 0 {
			c.add(field+".max_len", "want a number of 0 or more")
		}
		t.checks = append(t.checks, atMost{*r.MaxLen})
	}
	switch tested := len(t.checks) > 0 || r.Present; {
	case !tested && !r.Absent:
		c.add(field, "nothing is tested", "eq", "in", "glob", "path_under", "regex", "min", "max", "present", "absent", "max_len")
	case tested && r.Absent:
		c.add(field+".absent", "what must not be there cannot be tested")
	}
	return t
}

func (c *compiler) oneOf(field string, given bool, values []json.RawMessage) []check {
	if !given {
		return nil
	}
	if len(values) == 0 {
		c.add(field, "an empty list matches nothing")
	}
	out := oneOf{}
	for _, raw := range values {
		v, err := parseValue(raw)
		if err != nil {
			c.addError(field, err)
			continue
		}
		// What parses strictly has a canonical form.
		canonical, _ := canonjson.Append(nil, raw)
		out.values, out.raw = append(out.values, v), out.raw+string(canonical)+" "
	}
	return []check{out}
}

func (c *compiler) stringTests(field string, r ArgRecord) []check {
	var checks []check
	if r.Glob != nil {
		checks = append(checks, globs{c.globs(field+".glob", r.Glob)})
	}
	if r.PathUnder != nil {
		for _, root := range c.given(field+".path_under", r.PathUnder) {
			if !isAbsolute(root) {
				c.add(field+".path_under", fmt.Sprintf("%q is not absolute", root))
			}
		}
		checks = append(checks, under{r.PathUnder})
	}
	if r.Regex != "" {
		re, err := regexp.Compile(r.Regex)
		if err != nil {
			c.add(field+".regex", err.Error())
		}
		checks = append(checks, matchesRegex{re})
	}
	return checks
}

func (c *compiler) bounds(field string, least, most json.RawMessage) []check {
	if least == nil && most == nil {
		return nil
	}
	out := between{c.bound(field+".min", least), c.bound(field+".max", most)}
	if out.min != nil && out.max != nil && out.min.compare(*out.max) > 0 {
		c.add(field+".min", "is more than max, so nothing is between them")
	}
	return []check{out}
}

func (c *compiler) bound(field string, raw json.RawMessage) *decimal {
	if raw == nil {
		return nil
	}
	literal := string(raw)
	if quoted := ""; json.Unmarshal(raw, &quoted) == nil && quoted != "" {
		literal = quoted
	}
	d, err := parseDecimal(literal)
	if err != nil {
		c.add(field, fmt.Sprintf("%.40s: %v", literal, err))
	}
	return &d
}

// examples holds a rule against the calls that its owner wrote beside it.
func (c *compiler) examples(r *rule, field string, list []Example, want bool) {
	for i, e := range list {
		at := fmt.Sprintf("%s[%d]", field, i)
		got, err := r.judgeExample(e)
		switch {
		case err != nil:
			c.addError(at, err)
		case got != want && want:
			c.add(at, fmt.Sprintf("the rule does not match %s", e.Tool))
		case got != want:
			c.add(at, fmt.Sprintf("the rule matches %s", e.Tool))
		}
	}
}

// judgeExample reports whether the rule matches the call. Paths are resolved by
// their text alone, since an example names no file that has to exist.
func (r *rule) judgeExample(e Example) (bool, error) {
	p, err := parsePattern(e.Tool)
	if err != nil || !p.outright() {
		return false, fmt.Errorf("%q is not the name of one tool: want server/tool", e.Tool)
	}
	q := Request{Tool: catalog.ToolID{Server: p.server, Tool: p.tool}, NameUnique: true, Principal: e.Principal, Args: e.Args}
	suiting := *r
	if err := errors.Join(
		suits(e.Class, &q.Class, func() { suiting.classes = nil }),
		suits(e.Egress, &q.Egress, func() { suiting.egress = 0 }),
		suits(e.Scope, &q.Scope, func() { suiting.scopes = nil }),
	); err != nil {
		return false, err
	}
	if e.Principal == "" {
		suiting.principals = nil
	}
	if !suiting.appliesTo(&q) {
		return false, nil
	}
	args := q.arguments()
	args.resolved = map[string]string{}
	for _, p := range suiting.paths(&args) {
		args.resolved[p] = p
	}
	result, failure := suiting.judgeArgs(&args)
	if failure != nil {
		return false, errors.New(failure.String())
	}
	return result == matches, nil
}

// suits reads a word of an example, or lifts the rule's condition where there is
// none.
func suits[P encoding.TextUnmarshaler](word string, into P, lift func()) error {
	if word == "" {
		lift()
		return nil
	}
	return into.UnmarshalText([]byte(word))
}
