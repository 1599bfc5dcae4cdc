package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// answer is what a test says about a value. Tests that fail, because they cannot
// be put to that value, are neither a yes nor a no: what they count as depends on
// the rule.
type answer uint8

const (
	no      answer = iota
	open           // the arguments are not known
	failed         // the value is of another kind, or a fact is missing
	matches        // yes
)

// and joins the answers of tests that must all hold. A plain no decides, then what
// is not known, then what failed.
func (a answer) and(b answer) answer { return min(a, b) }

// argTest is the tests on one place in the arguments, found by its JSON pointer.
type argTest struct {
	pointer string
	tokens  []string
	absent  bool // the place must not exist; then there are no checks
	checks  []check
}

// check is one test of a value. A failed answer comes with a reason.
type check interface {
	judge(v any, resolved map[string]string) (answer, string)
	// key is equal for equal checks, and only for these.
	key() string
}

// judge puts the test to parsed arguments.
func (t *argTest) judge(args any, resolved map[string]string) (answer, string) {
	v, exists, problem := lookUp(args, t.tokens)
	switch {
	case problem != "":
		return failed, problem
	case t.absent || !exists:
		return yesIf(t.absent != exists), ""
	case len(t.checks) > 0 && standsIn(v):
		return failed, "is an artifact, which no rule looks into"
	}
	result, why := matches, ""
	for _, c := range t.checks {
		one, problem := c.judge(v, resolved)
		if result = result.and(one); problem != "" {
			why = problem
		}
	}
	return result, why
}

func yesIf(b bool) answer {
	if b {
		return matches
	}
	return no
}

// artifactKey is the only member of an object that stands for the content of an
// artifact. The server gets that content; here nobody sees more than its facts.
const artifactKey = "$artifact"

func standsIn(v any) bool {
	m, _ := v.(map[string]any)
	_, is := m[artifactKey]
	return is && len(m) == 1
}

// hasStandIn reports whether an artifact stands anywhere in a value.
func hasStandIn(v any) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, hasStandIn)
	case map[string]any:
		for _, e := range v {
			if hasStandIn(e) {
				return true
			}
		}
	}
	return standsIn(v)
}

// lookUp follows a pointer. A member or an element that is not there, and all
// that would be below a null, does not exist; a step into a string, a number, a
// boolean or an artifact, or into an array by a name, is a problem: the arguments
// are not of the shape that the rule was written for.
func lookUp(v any, tokens []string) (found any, exists bool, problem string) {
	for _, token := range tokens {
		switch parent := v.(type) {
		case nil:
			return nil, false, ""
		case map[string]any:
			if token != artifactKey && standsIn(parent) {
				return nil, false, fmt.Sprintf("has an artifact where %q is looked up", token)
			}
			if v, exists = parent[token]; !exists {
				return nil, false, ""
			}
		case []any:
			i, ok := arrayIndex(token)
			if !ok {
				return nil, false, fmt.Sprintf("has an array where %q is looked up", token)
			}
			if i >= len(parent) {
				return nil, false, ""
			}
			v = parent[i]
		default:
			return nil, false, fmt.Sprintf("has %s where %q is looked up", kindOf(v), token)
		}
	}
	return v, true, ""
}

func arrayIndex(token string) (int, bool) {
	if !allDigits(token) || len(token) > 1 && token[0] == '0' || len(token) > 9 {
		return 0, false
	}
	i, err := strconv.Atoi(token)
	return i, err == nil
}

// parsePointer reads an RFC 6901 JSON pointer.
func parsePointer(s string) ([]string, error) {
	if s == "" {
		return nil, nil
	}
	if s[0] != '/' {
		return nil, fmt.Errorf("%q is no JSON pointer: want /%s", s, s)
	}
	tokens := strings.Split(s[1:], "/")
	for i, token := range tokens {
		for j := range len(token) {
			if token[j] == '~' && (j+1 == len(token) || token[j+1] != '0' && token[j+1] != '1') {
				return nil, fmt.Errorf("%q is no JSON pointer: ~ is written ~0 and / is written ~1", s)
			}
		}
		tokens[i] = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
	}
	return tokens, nil
}

// parseValue reads one strict JSON value; numbers stay the literals they are.
func parseValue(raw []byte) (any, error) {
	if err := strictjson.Check(raw); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "an array"
	}
	return "an object"
}

// equal compares two values of whatever kind: strings by their characters, numbers
// by same, objects whatever their order.
func equal(a, b any, same func(a, b json.Number) bool) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		return ok && same(a, b)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, func(v, w any) bool { return equal(v, w, same) })
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name, v := range a {
			if w, ok := b[name]; !ok || !equal(v, w, same) {
				return false
			}
		}
		return true
	}
	return kindOf(a) == kindOf(b) && a == b
}

// sameNumber compares exact values, however they are spelled. It compares
// spellings first, so that a number whose exponent is beyond what is read still
// equals itself.
func sameNumber(a, b json.Number) bool {
	if a == b {
		return true
	}
	x, errA := parseDecimal(string(a))
	y, errB := parseDecimal(string(b))
	return errA == nil && errB == nil && x.compare(y) == 0
}

// sameFloat reports whether a number of a call is not told from that of a rule by a
// server that reads 64-bit floats, as most do. An integer is compared exactly:
// long ones are identifiers, and what reads floats has no use for them.
func sameFloat(got, want json.Number) bool {
	if !strings.ContainsAny(string(got), ".eE") {
		return sameNumber(got, want)
	}
	x, _ := strconv.ParseFloat(string(got), 64) // what is out of range is an infinity or 0, there as here
	y, _ := strconv.ParseFloat(string(want), 64)
	return x == y
}

func wrongKind(v any, want string) (answer, string) {
	return failed, fmt.Sprintf("is %s, not %s", kindOf(v), want)
}

// oneOf is eq and in.
type oneOf struct {
	values []any
	raw    string // canonical, for key
}

func (c oneOf) judge(v any, _ map[string]string) (answer, string) {
	sameKind := false
	for _, want := range c.values {
		if equal(v, want, sameNumber) {
			return matches, ""
		}
		sameKind = sameKind || kindOf(v) == kindOf(want)
	}
	if !sameKind {
		return wrongKind(v, kindOf(c.values[0]))
	}
	switch {
	case hasStandIn(v):
		return failed, "has an artifact in it, which no rule looks into"
	case slices.ContainsFunc(c.values, func(want any) bool { return equal(v, want, sameFloat) }):
		return failed, "has a number that is another one, but not to a server that reads 64-bit floats"
	}
	return no, ""
}

func (c oneOf) key() string { return "in " + c.raw }

type globs struct{ patterns []string }

func (c globs) judge(v any, _ map[string]string) (answer, string) {
	s, ok := v.(string)
	if !ok {
		return wrongKind(v, "a string")
	}
	return yesIf(anyGlob(c.patterns, s)), ""
}

func (c globs) key() string { return fmt.Sprintf("glob %q", c.patterns) }

func anyGlob(patterns []string, s string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return glob(p, s) })
}

type matchesRegex struct{ re *regexp.Regexp }

func (c matchesRegex) judge(v any, _ map[string]string) (answer, string) {
	s, ok := v.(string)
	if !ok {
		return wrongKind(v, "a string")
	}
	return yesIf(c.re.MatchString(s)), ""
}

func (c matchesRegex) key() string { return "regex " + c.re.String() }

// between is min and max, both inclusive; a nil bound is none.
type between struct{ min, max *decimal }

func (c between) judge(v any, _ map[string]string) (answer, string) {
	n, ok := v.(json.Number)
	if !ok {
		return wrongKind(v, "a number")
	}
	d, err := parseDecimal(string(n))
	if err != nil {
		return failed, "is a number whose " + err.Error()
	}
	return yesIf((c.min == nil || d.compare(*c.min) >= 0) && (c.max == nil || d.compare(*c.max) <= 0)), ""
}

func (c between) key() string { return fmt.Sprintf("between %+v %+v", orNone(c.min), orNone(c.max)) }

func orNone(d *decimal) any {
	if d == nil {
		return "none"
	}
	return *d
}

// atMost is max_len: characters of a string, elements of an array, members of an
// object.
type atMost struct{ n int }

func (c atMost) judge(v any, _ map[string]string) (answer, string) {
	switch v := v.(type) {
	case string:
		return yesIf(utf8.RuneCountInString(v) <= c.n), ""
	case []any:
		return yesIf(len(v) <= c.n), ""
	case map[string]any:
		return yesIf(len(v) <= c.n), ""
	}
	return wrongKind(v, "a string, an array or an object")
}

func (c atMost) key() string { return "max_len " + strconv.Itoa(c.n) }

// under is path_under. Both sides are compared as they were resolved, component
// by component, so that neither .. nor a link nor a name that begins like the
// root's gets around it. Without both facts it fails.
type under struct{ roots []string }

func (c under) judge(v any, resolved map[string]string) (answer, string) {
	s, ok := v.(string)
	if !ok {
		return wrongKind(v, "a string")
	}
	at, ok := absolute(resolved, s)
	if !ok {
		return failed, "is a path that could not be resolved"
	}
	result, why := no, ""
	for _, root := range c.roots {
		dir, ok := absolute(resolved, root)
		switch {
		case !ok:
			result, why = max(result, failed), fmt.Sprintf("is held against %s, which could not be resolved", root)
		case within(dir, at):
			return matches, ""
		}
	}
	return result, why
}

func (c under) key() string { return fmt.Sprintf("path_under %q", c.roots) }

func absolute(resolved map[string]string, written string) (string, bool) {
	p, ok := resolved[written]
	return path.Clean(p), ok && isAbsolute(p)
}

// isAbsolute takes slashes for separators and, besides a leading one, a drive.
func isAbsolute(p string) bool {
	drive := len(p) > 2 && p[1] == ':' && p[2] == '/'
	return strings.HasPrefix(p, "/") || drive
}

// within reports whether the clean path p is dir or below it.
func within(dir, p string) bool {
	rest, ok := strings.CutPrefix(p, dir)
	return ok && (rest == "" || rest[0] == '/' || strings.HasSuffix(dir, "/"))
}
