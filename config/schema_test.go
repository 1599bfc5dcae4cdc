package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mcp-gate/mcp-gate/policy"
)

// The published schema is kept in the repository, so that an editor can be
// pointed at it and a change of the configuration shows in a review.
func TestSchemaIsPublished(t *testing.T) {
	got := JSONSchema()
	if *update {
		if err := os.WriteFile("schema.json", got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("schema.json is not what JSONSchema returns: run go test ./config -update")
	}
	if !bytes.Equal(got, JSONSchema()) {
		t.Error("two calls of JSONSchema differ")
	}
}

func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(JSONSchema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(SchemaID, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(SchemaID)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validates(t *testing.T, s *jsonschema.Schema, data []byte) bool {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return s.Validate(v) == nil
}

// sound reports whether a file is read without any fault.
func sound(data []byte) bool {
	c, _, err := Parse("c.jsonc", data, fakeEnv("HOME=/home/p", "A=1"))
	return err == nil && len(c.Refused) == 0
}

// What the decoder takes, an editor must not mark as wrong; and what is wrong by
// its form is wrong to both.
func TestSchemaAndDecoderAgree(t *testing.T) {
	s := compiledSchema(t)
	g := newGenerator(1)
	taken := 0
	for range 600 {
		n := g.document()
		data := n.json()
		if sound(data) {
			taken++
			if !validates(t, s, data) {
				t.Fatalf("the decoder takes what the schema refuses: %s", data)
			}
		}
		for what, wrong := range g.mistakes(n) {
			if sound(wrong) {
				t.Fatalf("%s: the decoder takes %s", what, wrong)
			}
			if validates(t, s, wrong) {
				t.Fatalf("%s: the schema takes %s", what, wrong)
			}
		}
	}
	if taken < 60 {
		t.Errorf("only %d of the generated files were sound: the law was hardly tried", taken)
	}
}

func TestYAMLAndJSONCSayTheSame(t *testing.T) {
	g := newGenerator(2)
	for range 600 {
		n := g.document()
		if g.r.IntN(3) == 0 {
			for _, wrong := range g.mistakes(n) {
				n, _ = parseTree("c.json", wrong)
			}
		}
		asJSON, asYAML := n.json(), g.yaml(n)
		j, y := outcome("c.jsonc", asJSON), outcome("c.yaml", asYAML)
		if j != y {
			t.Fatalf("the two languages differ\njson:\n%s\n%s\nyaml:\n%s\n%s", asJSON, j, asYAML, y)
		}
	}
}

var lineNumber = regexp.MustCompile(`line \d+`)

// outcome is what came of a file, without positions.
func outcome(name string, data []byte) string {
	c, notes, err := Parse(name, data, fakeEnv("HOME=/home/p", "A=1"))
	var lines []string
	if list, ok := err.(ErrorList); ok {
		for _, e := range list {
			lines = append(lines, "error "+lineNumber.ReplaceAllString(e.Text, ""))
		}
	}
	for _, n := range notes {
		lines = append(lines, "note "+n.Text)
	}
	slices.Sort(lines)
	c.File = ""
	return strings.Join(lines, "\n") + "\n" + lineNumber.ReplaceAllString(plain(reflect.ValueOf(c)), "")
}

// plain writes a value out, without positions and compiled rules.
func plain(v reflect.Value) string {
	switch v.Interface().(type) {
	case Pos, policy.Source, *policy.Rules:
		return ""
	case *Error:
		return v.Interface().(*Error).Text
	case json.RawMessage:
		return string(v.Bytes())
	}
	var b strings.Builder
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return "&" + plain(v.Elem())
		}
		return "nil"
	case reflect.Struct:
		for i := range v.NumField() {
			fmt.Fprintf(&b, "%s:%s ", v.Type().Field(i).Name, plain(v.Field(i)))
		}
	case reflect.Slice, reflect.Array:
		fmt.Fprintf(&b, "%d", v.Len())
		for i := range v.Len() {
			b.WriteString(" " + plain(v.Index(i)))
		}
	case reflect.Map:
		for _, k := range slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }) {
			fmt.Fprintf(&b, "%q:%s ", k, plain(v.MapIndex(k)))
		}
	default:
		return fmt.Sprintf("%#v", v.Interface())
	}
	return "{" + b.String() + "}"
}

// A generator makes configurations out of the published schema.
type generator struct {
	r    *rand.Rand
	root map[string]any
}

func newGenerator(seed uint64) *generator {
	g := &generator{r: rand.New(rand.NewPCG(seed, 0))}
	if err := json.Unmarshal(JSONSchema(), &g.root); err != nil {
		panic(err)
	}
	return g
}

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

// document makes a whole file.
func (g *generator) document() *node { return g.object(g.root) }

func (g *generator) value(s map[string]any) *node {
	if ref, ok := s["$ref"].(string); ok {
		name := strings.TrimPrefix(ref, "#/$defs/")
		return g.value(g.root["$defs"].(map[string]any)[name].(map[string]any))
	}
	if all, ok := s["allOf"].([]any); ok { // an entry of a list of servers
		n := g.value(all[0].(map[string]any))
		n.members = slices.DeleteFunc(n.members, func(m member) bool { return m.key == "name" })
		n.members = append(n.members, member{key: "name", value: textOf(pick(g.r, someKeys))})
		return n
	}
	if either, ok := s["anyOf"].([]any); ok {
		return g.value(pick(g.r, either).(map[string]any))
	}
	if words, ok := s["enum"].([]any); ok {
		return textOf(pick(g.r, words).(string))
	}
	if s["const"] == true {
		return &node{kind: boolNode, text: "true"}
	}
	return g.ofType(s)
}

func (g *generator) ofType(s map[string]any) *node {
	kind, ok := s["type"].(string)
	if several, is := s["type"].([]any); is {
		kind, ok = several[0].(string), true
		if len(several) > 1 && g.r.IntN(20) == 0 {
			kind = several[1].(string)
		}
	}
	if !ok {
		return g.anything()
	}
	switch kind {
	case "object":
		return g.object(s)
	case "array":
		n := &node{kind: listNode}
		least, _ := s["minItems"].(float64)
		for range int(least) + g.r.IntN(3) {
			items, _ := s["items"].(map[string]any)
			n.items = append(n.items, g.value(items))
		}
		return n
	case "boolean":
		return &node{kind: boolNode, text: strconv.FormatBool(g.r.IntN(2) == 0)}
	case "integer":
		least, _ := s["minimum"].(float64)
		return numberOf(strconv.Itoa(int(least) + g.r.IntN(3)))
	case "number":
		return numberOf(pick(g.r, []string{"0.5", "1", "0.25", "1e0"}))
	case "null":
		return &node{kind: nullNode}
	}
	if _, ok := s["pattern"]; ok {
		return textOf(pick(g.r, []string{"30s", "5m", "1h30m", "0s"}))
	}
	return textOf(pick(g.r, someTexts))
}

func (g *generator) object(s map[string]any) *node {
	n := &node{kind: objectNode}
	properties, _ := s["properties"].(map[string]any)
	required := fmt.Sprint(s["required"])
	for _, name := range sortedKeys(properties) {
		p := properties[name].(map[string]any)
		odds := 3
		if p["deprecated"] == true || slices.Contains(urlKeys, name) || slices.Contains([]string{"type", "transport", "disabled", "enabled", "isActive", "match", "not_match"}, name) {
			odds = 30
		}
		if name == "command" && g.r.IntN(4) > 0 || strings.Contains(required, name) {
			odds = 1
		}
		if g.r.IntN(odds) == 0 {
			n.members = append(n.members, member{key: name, value: g.value(p)})
		}
	}
	if extra, ok := s["additionalProperties"].(map[string]any); ok {
		for _, name := range someKeys {
			if g.r.IntN(4) == 0 {
				n.members = append(n.members, member{key: name, value: g.value(extra)})
			}
		}
	}
	return n
}

func (g *generator) anything() *node {
	switch g.r.IntN(6) {
	case 0:
		return &node{kind: nullNode}
	case 1:
		return numberOf(pick(g.r, []string{"0", "-1.5", "12345678901234567890", "1E+3"}))
	case 2:
		return &node{kind: listNode, items: []*node{g.anything(), textOf("x")}}
	case 3:
		return &node{kind: objectNode, members: []member{{key: pick(g.r, someTexts), value: g.anything()}}}
	case 4:
		return &node{kind: boolNode, text: "true"}
	}
	return textOf(pick(g.r, someTexts))
}

func textOf(s string) *node   { return &node{kind: textNode, text: s} }
func numberOf(s string) *node { return &node{kind: numberNode, text: s} }

func sortedKeys(m map[string]any) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

var someKeys = []string{"a", "b-c", "/path", "get_*", "é", "8080", "yes", "#x", "a: b"}

var someTexts = []string{
	"x", "", "a b", "${HOME}", "${A}", "${NOT_SET}", "~/x", "local", "http://h.test/a?b#c", "/path", "é\n", "tab\t", "yes", "null", "true", "1",
	"a: b", "# no", "'q\"", "- x", "{", "&a", "*", "!t", "%d", "@", "`", "0x10", "1e3", "~", "|", ">", " lead", "trail ", "\u2028", "\u0001", "a/*", "\\", "stdio",
	"two\nlines\n", "2020-01-01", ".inf", "=", "<<", "?", ":", "a:", "[x]", "😀", "\u0085", "\u00a0",
}

// mistakes gives the document with one mistake of form in it each time: a key
// nobody knows, a word outside its set.
func (g *generator) mistakes(n *node) map[string][]byte {
	out := map[string][]byte{}
	try := func(what string, edit func(*node) bool) {
		tree, bad := parseTree("c.json", n.json())
		if bad == nil && edit(tree) {
			out[what] = tree.json()
		}
	}
	try("an unknown key", func(tree *node) bool {
		objects := knownObjects(tree)
		at := pick(g.r, objects)
		at.members = append(at.members, member{key: "unheard_of", value: textOf("x")})
		return true
	})
	try("a wrong type", func(tree *node) bool {
		at := pick(g.r, knownObjects(tree))
		for i := range at.members {
			switch at.members[i].key {
			case "permission", "preset", "do", "act", "exposure", "trusted", "audit", "least_level", "policy", "log", "timeout", "spend":
				at.members[i].value = &node{kind: listNode, items: []*node{textOf("x")}}
				return true
			}
		}
		return false
	})
	try("an unknown word", func(tree *node) bool {
		at := pick(g.r, knownObjects(tree))
		for i := range at.members {
			switch at.members[i].key {
			case "permission", "preset", "do", "act", "exposure", "autonomy", "level", "on_egress", "slice", "accept", "stakes":
				at.members[i].value = textOf("unheard-of")
				return true
			}
		}
		return false
	})
	return out
}

// knownObjects lists the objects whose keys are ours, not the owner's.
func knownObjects(root *node) []*node {
	found := []*node{root}
	for _, m := range root.members {
		switch m.key {
		case "policy", "log", "audit", "authority", "reader":
			if m.value.kind == objectNode {
				found = append(found, m.value)
			}
		case "servers", "mcpServers", "profiles":
			for _, e := range m.value.members {
				if e.value.kind == objectNode {
					found = append(found, e.value)
				}
			}
		}
		if m.key != "policy" {
			continue
		}
		for _, p := range m.value.members {
			if p.key == "rules" {
				found = append(found, p.value.items...)
			}
		}
	}
	return found
}

// yaml writes a tree as YAML, in a mixture of its styles.
func (g *generator) yaml(n *node) []byte {
	var b strings.Builder
	g.writeYAML(&b, n, 0)
	return []byte(b.String())
}

func (g *generator) writeYAML(b *strings.Builder, n *node, indent int) {
	pad := strings.Repeat("  ", indent)
	switch {
	case n.kind == listNode && len(n.items) > 0 && g.r.IntN(4) > 0:
		for _, item := range n.items {
			b.WriteString("\n" + pad + "- ")
			g.writeYAML(b, item, indent+1)
		}
	case n.kind == objectNode && len(n.members) > 0 && g.r.IntN(6) > 0:
		for _, m := range n.members {
			b.WriteString("\n" + pad)
			b.WriteString(g.scalar(m.key) + ": ")
			g.writeYAML(b, m.value, indent+1)
			if g.r.IntN(10) == 0 {
				b.WriteString(" # a comment")
			}
		}
	case n.kind == textNode:
		b.WriteString(g.scalar(n.text))
	default:
		b.Write(n.json()) // flow style: YAML takes JSON as it is
	}
}

var plainScalar = regexp.MustCompile(`^[b-mo-su-xz/][a-z /_]*[a-z_]$`)

func (g *generator) scalar(s string) string {
	if plainScalar.MatchString(s) && g.r.IntN(2) == 0 {
		return s
	}
	if !strings.ContainsAny(s, "\n\t\\\u0001\u0085\u2028") && g.r.IntN(3) == 0 {
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	return string(textOf(s).json())
}
