package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-gate/mcp-gate/internal/strictjson"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// strictFaults is what a provider that takes strict form only would refuse. It
// is written from the providers' side and shares nothing with strict.go.
func strictFaults(v any, at string, top bool) (faults []string) {
	bad := func(format string, args ...any) {
		faults = append(faults, at+": "+fmt.Sprintf(format, args...))
	}
	m, ok := v.(map[string]any)
	if !ok {
		bad("not an object: %v", v)
		return faults
	}
	known := strings.Fields("type title description default enum format properties required items anyOf minimum maximum minLength maxLength minItems maxItems minProperties maxProperties pattern")
	for key := range m {
		if !slices.Contains(known, key) {
			bad("keyword %s", key)
		}
	}
	kind, _ := m["type"].(string)
	if _, said := m["type"]; said && !slices.Contains(strings.Fields("object array string number integer boolean"), kind) {
		bad("type %v", m["type"])
	}
	if top && (kind != "object" || m["properties"] == nil || m["anyOf"] != nil) {
		bad("the root is no plain object")
	}
	if enum, said := m["enum"]; said {
		list, _ := enum.([]any)
		if len(list) == 0 || kind != "string" {
			bad("enum %v of type %q", enum, kind)
		}
		for _, e := range list {
			if _, ok := e.(string); !ok {
				bad("enum has %v", e)
			}
		}
	}
	if f, said := m["format"]; said && (f != "date-time" || kind != "string") {
		bad("format %v", f)
	}
	if kind == "array" && m["items"] == nil {
		bad("an array without items")
	}
	props, _ := m["properties"].(map[string]any)
	for name, p := range props {
		if len(name) == 0 || len(name) > 64 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != "" {
			bad("a property is called %q", name)
		}
		faults = append(faults, strictFaults(p, at+"/"+name, false)...)
	}
	if required, said := m["required"]; said {
		list, ok := required.([]any)
		if !ok {
			bad("required %v", required)
		}
		for _, r := range list {
			if name, ok := r.(string); !ok || props[name] == nil {
				bad("required %v has no property", r)
			}
		}
	}
	if items, said := m["items"]; said {
		faults = append(faults, strictFaults(items, at+"[]", false)...)
	}
	if choice, said := m["anyOf"]; said {
		for key := range m {
			if !slices.Contains(strings.Fields("anyOf title description default"), key) {
				bad("anyOf beside %s", key)
			}
		}
		list, ok := choice.([]any)
		if !ok {
			bad("anyOf %v", choice)
		}
		for i, b := range list {
			faults = append(faults, strictFaults(b, fmt.Sprintf("%s|%d", at, i), false)...)
		}
	}
	return faults
}

// schemaMaker makes schemas as servers write them, good and bad.
type schemaMaker struct {
	r    *rand.Rand
	defs int
}

func (m schemaMaker) chance(n int) bool { return m.r.IntN(n) == 0 }

func (m schemaMaker) pick(s ...string) string { return s[m.r.IntN(len(s))] }

func (m schemaMaker) name() string {
	return m.pick("a", "b", "c", "user id", "größe", "x.y", strings.Repeat("long", 20), "a/b", "$ref", "$filter", "d_1")
}

// schema returns any schema, strict or not.
func (m schemaMaker) schema(depth int) map[string]any {
	s := map[string]any{}
	if m.chance(3) {
		s["description"] = m.pick("Something.", "A <b> & \"c\".", "é")
	}
	if m.chance(12) {
		s["default"] = []any{nil, "x", 3}[m.r.IntN(3)]
	}
	if m.chance(8) && m.defs > 0 {
		s["$ref"] = fmt.Sprintf("#/$defs/d%d", m.r.IntN(m.defs+1)) // the last one is not there
		return s
	}
	kinds := []string{"string", "integer", "number", "boolean", "array", "object", "choice", "const", "types", "any", "enum"}
	if depth <= 0 {
		kinds = []string{"string", "integer", "boolean", "enum", "const"}
	}
	switch kind := m.pick(kinds...); kind {
	case "string":
		s["type"] = "string"
		m.some(s, map[string]any{"minLength": 1, "maxLength": 3, "format": m.pick("uri", "date-time"), "pattern": "^[a-z]*$"})
	case "integer", "number":
		s["type"] = kind
		m.some(s, map[string]any{"minimum": -2, "maximum": 3, "exclusiveMinimum": -3, "exclusiveMaximum": 4, "multipleOf": 2})
	case "boolean":
		s["type"] = "boolean"
	case "array":
		s["type"] = "array"
		if !m.chance(3) {
			s["items"] = m.schema(depth - 1)
		}
		m.some(s, map[string]any{"minItems": 1, "maxItems": 2, "uniqueItems": true, "prefixItems": []any{m.schema(0)}, "contains": m.schema(0)})
	case "object":
		m.object(s, depth)
	case "choice":
		var list []any
		for range 1 + m.r.IntN(3) {
			list = append(list, m.schema(depth-1))
		}
		if m.chance(4) {
			list = append(list, map[string]any{"type": "null"})
		}
		s[m.pick("anyOf", "oneOf", "allOf")] = list
		if m.chance(4) {
			s["type"] = m.pick("string", "object")
		}
	case "const":
		s["const"] = []any{"x", 1, nil, true}[m.r.IntN(4)]
	case "types":
		s["type"] = [][]string{{"string", "null"}, {"integer", "string"}, {"object", "array", "null"}, {"null"}}[m.r.IntN(4)]
		m.some(s, map[string]any{"minLength": 1, "maximum": 3, "items": m.schema(0), "properties": map[string]any{"a": m.schema(0)}})
	case "enum":
		s["enum"] = [][]any{{"a", "b"}, {1, 2}, {"a", nil}, {"a", 1, true}, {true, false}}[m.r.IntN(5)]
		if m.chance(2) {
			s["type"] = m.pick("string", "integer")
		}
	}
	return s
}

func (m schemaMaker) some(s, from map[string]any) {
	for _, key := range slices.Sorted(keysOf(from)) {
		if m.chance(4) {
			s[key] = from[key]
		}
	}
}

func keysOf(m map[string]any) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func (m schemaMaker) object(s map[string]any, depth int) {
	s["type"] = "object"
	props, required := map[string]any{}, []any{}
	for range m.r.IntN(4) {
		name := m.name()
		props[name] = m.schema(depth - 1)
		if m.chance(3) {
			required = append(required, name)
		}
	}
	if m.chance(10) {
		required = append(required, "not there")
	}
	if len(props) > 0 || m.chance(2) {
		s["properties"] = props
	}
	if len(required) > 0 {
		s["required"] = slices.CompactFunc(required, func(a, b any) bool { return a == b })
	}
	m.some(s, map[string]any{"additionalProperties": m.chance(2), "minProperties": 1, "maxProperties": 3,
		"patternProperties": map[string]any{"^a": m.schema(0)}, "anyOf": []any{map[string]any{"required": []any{"a"}}, map[string]any{"required": []any{"b"}}}})
}

func (m schemaMaker) root() json.RawMessage {
	s := map[string]any{}
	switch {
	case m.chance(20):
		s["$ref"] = "#/$defs/d0"
	case m.chance(10):
		s["oneOf"] = []any{m.schema(2), m.schema(2)}
	default:
		m.object(s, 3)
	}
	defs := map[string]any{}
	for i := range m.defs {
		defs[fmt.Sprintf("d%d", i)] = m.schema(2)
	}
	s["$defs"] = defs
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return raw
}

// value makes a value that tends to fit a schema in strict form.
func (m schemaMaker) value(s any, depth int) any {
	o, _ := s.(map[string]any)
	if list, ok := o["anyOf"].([]any); ok && len(list) > 0 {
		return m.value(list[m.r.IntN(len(list))], depth)
	}
	if list, ok := o["enum"].([]any); ok {
		return list[m.r.IntN(len(list))]
	}
	kind, _ := o["type"].(string)
	if kind == "" {
		kind = m.pick("string", "integer", "boolean", "object", "array")
	}
	switch kind {
	case "string":
		return m.pick("", "a", "ab", "x", "2026-01-02T03:04:05Z")
	case "integer":
		return m.r.IntN(8) - 3
	case "number":
		return float64(m.r.IntN(16)-6) / 2
	case "boolean":
		return m.chance(2)
	case "array":
		list := []any{}
		for range m.r.IntN(3) {
			list = append(list, m.value(o["items"], depth-1))
		}
		return list
	}
	out := map[string]any{}
	props, _ := o["properties"].(map[string]any)
	required := fmt.Sprint(o["required"])
	for _, name := range slices.Sorted(keysOf(props)) {
		if depth > 0 && (m.chance(2) || strings.Contains(required, name)) {
			out[name] = m.value(props[name], depth-1)
		}
	}
	if m.chance(10) {
		out["more"] = "x"
	}
	return out
}

// compiled returns a schema's validator, nil where it cannot be compiled.
func compiled(raw json.RawMessage) *jsonschema.Schema {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if c.AddResource("x:in", doc) != nil {
		return nil
	}
	s, err := c.Compile("x:in")
	if err != nil {
		return nil
	}
	return s
}

func fits(s *jsonschema.Schema, raw json.RawMessage) bool {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	return err == nil && s.Validate(v) == nil
}

func decoded(raw json.RawMessage) (v any) {
	if err := json.Unmarshal(raw, &v); err != nil {
		panic(fmt.Sprintf("%v: %s", err, raw))
	}
	return v
}

func TestStrictFormLaws(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 0))
	kept, checked, loose := 0, 0, 0
	for i := range 2000 {
		m := schemaMaker{r, r.IntN(3)}
		in := m.root()
		out, alterations, _, back := strictForm(in)
		if err := strictjson.Check(out); err != nil {
			t.Fatalf("%d: %v\nin  %s\nout %s", i, err, in, out)
		}
		if faults := strictFaults(decoded(out), "", true); faults != nil {
			t.Fatalf("%d: a strict provider refuses it: %v\nin  %s\nout %s", i, faults, in, out)
		}
		if again, more, _, _ := strictForm(out); string(again) != string(out) || len(more) > 0 {
			t.Fatalf("%d: what is strict did not stay: %v\nin    %s\nout   %s\nagain %s", i, more, in, out, again)
		}
		if second, _, _, _ := strictForm(in); string(second) != string(out) {
			t.Fatalf("%d: not the same twice\n%s\n%s", i, out, second)
		}
		if len(strictFaults(decoded(in), "", true)) == 0 && string(in) != string(out) && string(decodedDefault(in)) != "null" {
			t.Fatalf("%d: a strict schema was changed: %v\nin  %s\nout %s", i, alterations, in, out)
		}
		if string(in) != string(out) && len(alterations) == 0 {
			t.Fatalf("%d: nothing is said of a change\nin  %s\nout %s", i, in, out)
		}
		whole := !slices.ContainsFunc(alterations, func(a Alteration) bool { return a.Looser })
		theirs, ours := compiled(in), compiled(out)
		if ours == nil {
			t.Fatalf("%d: does not compile: %s", i, out)
		}
		if theirs == nil {
			continue
		}
		for range 20 {
			args, err := json.Marshal(m.value(decoded(out), 4))
			if err != nil {
				t.Fatal(err)
			}
			if !fits(ours, args) {
				continue
			}
			checked++
			if own := back.back(args); fits(theirs, own) {
				kept++
			} else if whole {
				t.Fatalf("%d: arguments fit the client's schema and not the server's, and nothing was said\nin   %s\nout  %s\nargs %s\nback %s\n%v", i, in, out, args, own, alterations)
			} else {
				loose++
			}
		}
	}
	if checked < 5_000 || loose > checked/2 {
		t.Errorf("%d arguments looked at, %d fit the server's schema, %d do not: the test sees too little", checked, kept, loose)
	}
	t.Logf("%d arguments, %d fit the server's schema, %d break a rule that was said to be lost", checked, kept, loose)
}

// decodedDefault is null where a schema has null as a default anywhere, which
// strict form drops.
func decodedDefault(raw json.RawMessage) json.RawMessage {
	if bytes.Contains(raw, []byte(`"default":null`)) {
		return json.RawMessage("null")
	}
	return nil
}

func TestStrictForm(t *testing.T) {
	tests := []struct{ name, in, out, said string }{
		{"strict already", `{ "type": "object", "properties": {"a": {"type":"string"}} }`, `{ "type": "object", "properties": {"a": {"type":"string"}} }`, ""},
		{"a reference is written out", `{"type":"object","properties":{"item":{"$ref":"#/definitions/Item"}},"definitions":{"Item":{"type":"string","minLength":1}}}`,
			`{"type":"object","properties":{"item":{"type":"string","minLength":1}}}`, ""},
		{"a schema in itself stops", `{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"object","properties":{"kid":{"$ref":"#/$defs/n"}}}}}`,
			`{"type":"object","properties":{"n":{"type":"object","properties":{"kid":{"type":"object"}}}}}`, ""},
		{"a choice at the root is said in words", `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"anyOf":[{"required":["p"]},{"required":["q"]}]}`,
			`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`, `Give at least one of: "p"; or "q".`},
		{"an array without items", `{"type":"object","properties":{"rows":{"type":"array","description":"Rows."}},"required":["rows"]}`,
			`{"type":"object","properties":{"rows":{"type":"array","description":"Rows.","items":{}}},"required":["rows"]}`, ""},
		{"keywords that providers do not know", `{"type":"object","additionalProperties":false,"properties":{"url":{"type":"string","format":"uri"},"n":{"type":"integer","exclusiveMinimum":0,"exclusiveMaximum":1000000,"default":5000}},"required":["url"]}`,
			`{"type":"object","properties":{"url":{"type":"string"},"n":{"type":"integer","default":5000,"minimum":1,"maximum":999999}},"required":["url"]}`, ""},
		{"null beside a type", `{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}],"default":null}}}`,
			`{"type":"object","properties":{"a":{"type":"string"}}}`, ""},
		{"two types", `{"type":"object","properties":{"a":{"type":["string","integer"],"minimum":1,"description":"A."}}}`,
			`{"type":"object","properties":{"a":{"description":"A.","anyOf":[{"type":"string"},{"type":"integer","minimum":1}]}}}`, ""},
		{"numbers to choose from", `{"type":"object","properties":{"a":{"enum":[1,2]}}}`,
			`{"type":"object","properties":{"a":{"type":"number","description":"Allowed values: 1, 2."}}}`, ""},
		{"a const", `{"type":"object","properties":{"a":{"const":"x"}}}`, `{"type":"object","properties":{"a":{"type":"string","enum":["x"]}}}`, ""},
		{"no schema at all", ``, `{"type":"object","properties":{}}`, ""},
		{"an unknown type", `{"type":"object","properties":{"a":{"type":"int"}}}`, `{"type":"object","properties":{"a":{}}}`, ""},
		{"required and never described", `{"type":"object","required":["a"]}`, `{"type":"object","properties":{"a":{}},"required":["a"]}`, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			out, alterations, rules, _ := strictForm(json.RawMessage(test.in))
			if string(out) != test.out || strings.Join(rules, " ") != test.said {
				t.Errorf("got  %s %q\nwant %s %q", out, rules, test.out, test.said)
			}
			if (test.in == test.out) != (len(alterations) == 0) {
				t.Errorf("it is said: %v", alterations)
			}
		})
	}
}

// A few references can stand for more than any memory holds.
func TestStrictFormIsBounded(t *testing.T) {
	var defs []string
	for i := range 60 {
		defs = append(defs, fmt.Sprintf(`"d%d":{"type":"object","properties":{"a":{"$ref":"#/$defs/d%d"},"b":{"$ref":"#/$defs/d%d"},"c":{"$ref":"#/$defs/d%d"}}}`, i, i+1, i+1, i+2))
	}
	all := func(i int) string {
		return fmt.Sprintf(`"e%d":{"allOf":[{"$ref":"#/$defs/e%d"},{"$ref":"#/$defs/e%d"}]}`, i, i+1, i+1)
	}
	for i := range 60 {
		defs = append(defs, all(i))
	}
	in := `{"type":"object","properties":{"x":{"$ref":"#/$defs/d0"},"y":{"$ref":"#/$defs/e0"}},"$defs":{` + strings.Join(defs, ",") + `}}`
	out, alterations, _, _ := strictForm(json.RawMessage(in))
	if len(out) > 1<<20 || len(alterations) > 100_000 {
		t.Errorf("%d bytes of schema became %d, with %d alterations", len(in), len(out), len(alterations))
	}
	if faults := strictFaults(decoded(out), "", true); faults != nil {
		t.Error(faults[0])
	}
}

func TestTailorLeadsBack(t *testing.T) {
	raw := json.RawMessage(`{"name":"t","description":"D.","inputSchema":{"type":"object","properties":{"user id":{"type":"string"},"list":{"type":"array","items":{"type":"object","properties":{"größe":{"type":"integer"}}}}},"required":["user id"]},"x":1}`)
	tool, err := NewTool("s", raw)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Limits{Strict: true}.Tailor(tool, raw)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		InputSchema struct {
			Properties map[string]json.RawMessage
			Required   []string
		}
	}
	if err := json.Unmarshal(got.Raw, &d); err != nil || len(d.InputSchema.Required) != 1 || d.InputSchema.Properties[d.InputSchema.Required[0]] == nil {
		t.Fatalf("%v %s", err, got.Raw)
	}
	user := d.InputSchema.Required[0]
	var inner string
	for _, a := range got.Alterations {
		if name, ok := strings.CutPrefix(a.What, "called "); ok && name != user {
			inner = name
		}
	}
	args := fmt.Sprintf(`{ "%s" : "é", "list":[{"%s": 1.0}], "free":{"a" : 2}}`, user, inner)
	if own, want := string(got.Own(json.RawMessage(args))), `{ "user id" : "é", "list":[{"größe": 1.0}], "free":{"a" : 2}}`; own != want {
		t.Errorf("got %s, want %s", own, want)
	}
	if same, err := (Limits{}).Tailor(tool, raw); err != nil || string(same.Raw) != string(raw) || same.Alterations != nil {
		t.Errorf("without limits: %s %v %v", same.Raw, same.Alterations, err)
	}
}

func TestTailorCutsDescriptions(t *testing.T) {
	raw := json.RawMessage(`{"name":"t","description":"` + strings.Repeat("é", 100) + `","inputSchema":{"type":"object","properties":{}}}`)
	tool, err := NewTool("s", raw)
	if err != nil {
		t.Fatal(err)
	}
	for n := 16; n < 220; n++ {
		got, err := Limits{Description: n}.Tailor(tool, raw)
		if err != nil {
			t.Fatal(err)
		}
		after, err := NewTool("s", got.Raw)
		if err != nil || len(after.Description) > n || n >= 200 && string(got.Raw) != string(raw) || n < 200 && len(got.Alterations) != 1 || strings.Contains(after.Description, "\ufffd") {
			t.Errorf("at %d: %v %s %v", n, err, got.Raw, got.Alterations)
		}
	}
}

func TestNamesFitAndDiffer(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 0))
	for _, limits := range []Limits{{Name: 16}, {Name: 24}, {Name: 64, Strict: true}, {Strict: true}} {
		var ids []ToolID
		var plain []string
		for i := range 2000 {
			id := ToolID{fmt.Sprintf("server-%d", i%7), fmt.Sprintf("%s.%d%s", strings.Repeat("tool", r.IntN(20)), i, strings.Repeat("é", r.IntN(3)))}
			ids, plain = append(ids, id), append(plain, id.Tool)
		}
		names := limits.Names(ids, plain, "find_tools")
		seen := map[string]bool{"find_tools": true}
		most := limits.Name
		if most == 0 {
			most = 64
		}
		for i, name := range names {
			if seen[name] || len(name) > most || limits.Strict && !strictToolName().MatchString(name) {
				t.Errorf("%+v: %v is called %q", limits, ids[i], name)
			}
			seen[name] = true
		}
		for i := range 20 { // no place in a list counts
			if got := limits.Names(ids[i:i+1], plain[i:i+1])[0]; got != names[i] {
				t.Errorf("%+v: alone %v is called %q, among others %q", limits, ids[i], got, names[i])
			}
		}
	}
	ids := []ToolID{{"a", "x"}, {"b", "y"}}
	if got := (Limits{}).Names(ids, []string{"a_x", "b y"}); got[0] != "a_x" || got[1] != "b y" {
		t.Errorf("without limits names are %q", got)
	}
}
