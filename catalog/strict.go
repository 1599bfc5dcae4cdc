package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/mcp-gate/mcp-gate/internal/lazy"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// Several model providers take a small part of JSON Schema only and refuse a
// whole request for one keyword that they do not know. Strict form is what all
// of them take:
//
//   - the root is of type object, has properties, and no anyOf;
//   - there is no $ref, oneOf, allOf, not, if, const, nor any keyword that is
//     not in strictKeys;
//   - a type is one word, an enum is of texts, the one format is date-time;
//   - an array says what its items are;
//   - an anyOf stands alone, and what is required has a property;
//   - a property's name is of strictProperty.

// strictKeys are the keywords of strict form.
var strictKeys = []string{
	"type", "title", "description", "default", "enum", "format", "properties", "required", "items", "anyOf",
	"minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "pattern",
}

// typeKeys are the keywords that speak of values of one type only; the others
// speak of all.
var typeKeys = map[string][]string{
	"object": {"properties", "required", "minProperties", "maxProperties"},
	"array":  {"items", "minItems", "maxItems"},
	"string": {"minLength", "maxLength", "pattern", "format", "enum"},
	"number": {"minimum", "maximum"}, "integer": {"minimum", "maximum"},
	"boolean": {},
}

// besideAnyOf are the keywords that may stand beside anyOf.
var besideAnyOf = []string{"anyOf", "title", "description", "default"}

// bounding are keywords that rule something out and have no place in strict
// form. Any other keyword is an annotation, and is dropped without loss.
var bounding = []string{
	"const", "oneOf", "allOf", "not", "if", "then", "else", "dependentSchemas", "dependentRequired", "dependencies",
	"patternProperties", "propertyNames", "additionalProperties", "unevaluatedProperties", "prefixItems", "additionalItems",
	"unevaluatedItems", "contains", "minContains", "maxContains", "uniqueItems", "multipleOf", "exclusiveMinimum", "exclusiveMaximum",
	"format", "$ref", "$dynamicRef", "$recursiveRef",
}

var strictProperty = lazy.Regexp(`^[a-zA-Z0-9_.-]{1,64}$`)

// Bounds on one schema's strict form: references can make a small schema
// endless.
const (
	maxStrictNodes = 5_000
	maxStrictDepth = 48
)

// An Alteration is one thing that is different in what a client gets.
type Alteration struct {
	At   string `json:"at"` // a JSON pointer into the input schema, or the member of the tool
	What string `json:"what"`
	// Looser says that the client's form lets through what the server's own
	// forbids. Arguments are checked against the server's own in any case.
	Looser bool `json:"looser,omitempty"`
}

// strictForm returns a schema in strict form, the same bytes where it is in
// that form already; what is different; sentences that say what the form
// cannot; and how the names of properties lead back. Root must be strict JSON.
func strictForm(root json.RawMessage) (out json.RawMessage, changes []Alteration, rules []string, back *names) {
	x := &strictener{root: root}
	if len(root) == 0 || root[0] != '{' {
		return json.RawMessage(`{"type":"object","properties":{}}`), []Alteration{{"", "an empty object in place of a schema that is none", true}}, nil, nil
	}
	out, back = x.schema(root, "", 0)
	return out, x.changes, x.rules, back
}

type strictener struct {
	root    json.RawMessage
	changes []Alteration
	rules   []string // of the root
	open    []string // references that are being followed
	nodes   int
}

// kv is one keyword with its value.
type kv struct {
	key string
	raw json.RawMessage
}

type keywords []kv

func (k keywords) index(key string) int {
	return slices.IndexFunc(k, func(m kv) bool { return m.key == key })
}

func (k keywords) get(key string) json.RawMessage {
	if i := k.index(key); i >= 0 {
		return k[i].raw
	}
	return nil
}

func (k keywords) without(keys ...string) keywords {
	return slices.DeleteFunc(slices.Clone(k), func(m kv) bool { return slices.Contains(keys, m.key) })
}

func (k keywords) with(key string, raw json.RawMessage) keywords {
	k = slices.Clone(k)
	if i := k.index(key); i >= 0 {
		k[i].raw = raw
		return k
	}
	return append(k, kv{key, raw})
}

// object writes keywords as an object.
func (k keywords) object() json.RawMessage {
	b := []byte{'{'}
	for i, m := range k {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(strictjson.AppendString(b, m.key), ':')
		b = append(b, m.raw...)
	}
	return append(b, '}')
}

// keywordsOf takes an object apart; what is none has no keywords.
func keywordsOf(obj json.RawMessage) keywords {
	if !isObject(obj) {
		return nil
	}
	var k keywords
	for m := range strictjson.Walk(obj) {
		k = append(k, kv{m.Name, m.Value})
	}
	return k
}

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

func (x *strictener) note(at string, looser bool, format string, args ...any) {
	x.changes = append(x.changes, Alteration{at, fmt.Sprintf(format, args...), looser})
}

// schema returns one schema in strict form. Depth 0 is the root.
func (x *strictener) schema(raw json.RawMessage, at string, depth int) (json.RawMessage, *names) {
	x.nodes++
	switch {
	case string(raw) == "true":
		x.note(at, false, "true is written as {}")
		return json.RawMessage("{}"), nil
	case !isObject(raw):
		x.note(at, true, "%s is no schema that a provider takes", short(raw))
		return json.RawMessage("{}"), nil
	case x.nodes > maxStrictNodes || depth > maxStrictDepth:
		x.note(at, true, "left out: the schema is too large or too deep")
		return json.RawMessage("{}"), nil
	}
	mark := len(x.open)
	defer func() { x.open = x.open[:mark] }()
	own := keywordsOf(raw)
	k := x.flattened(own, at)
	said := len(x.rules)
	k = x.typed(k, at, depth == 0)
	k = x.chosen(k, at)
	k = x.branched(k, at, depth)
	var back *names
	k, back = x.members(k, at, depth)
	if depth > 0 && len(x.rules) > said {
		k = k.with("description", strictjson.AppendString(nil, sentences(text(k.get("description")), x.rules[said:])))
		x.rules = x.rules[:said]
	}
	if slices.EqualFunc(own, k, func(a, b kv) bool { return a.key == b.key && string(a.raw) == string(b.raw) }) {
		return raw, back
	}
	return k.object(), back
}

// sentences adds sentences to a description.
func sentences(description string, more []string) string {
	return strings.TrimSpace(strings.Join(append([]string{description}, more...), " "))
}

// short is a value as a change names it.
func short(raw json.RawMessage) string {
	const most = 60
	if len(raw) <= most {
		return string(raw)
	}
	return strings.ToValidUTF8(string(raw[:most]), "") + "…"
}

// flattened follows $ref and lays what allOf says over the schema itself.
func (x *strictener) flattened(k keywords, at string) keywords {
	if x.nodes++; x.nodes > maxStrictNodes {
		return k.without("$ref", "allOf")
	}
	if ref := k.get("$ref"); ref != nil {
		k = k.without("$ref")
		target, ok := resolve(x.root, text(ref))
		switch {
		case !ok:
			x.note(at, true, "$ref %s dropped: it leads nowhere in this schema", short(ref))
		case slices.Contains(x.open, text(ref)):
			x.note(at, true, "$ref %s dropped: the schema goes on in itself there", short(ref))
			if t, ok := single(keywordsOf(target).get("type")); ok && k.get("type") == nil {
				k = k.with("type", strictjson.AppendString(nil, t))
			}
		default:
			x.note(at, false, "$ref %s written out", short(ref))
			x.open = append(x.open, text(ref))
			k = x.merged(k, x.flattened(keywordsOf(target), at), at)
		}
	}
	all := k.get("allOf")
	if all == nil {
		return k
	}
	k = k.without("allOf")
	parts, ok := array(all)
	if !ok {
		x.note(at, true, "allOf dropped: it is no list")
		return k
	}
	x.note(at, false, "allOf written as one schema")
	for _, part := range parts {
		switch {
		case string(part) == "true":
		case !isObject(part):
			x.note(at, true, "a part of allOf dropped: %s", short(part))
		default:
			k = x.merged(k, x.flattened(keywordsOf(part), at), at)
		}
	}
	return k
}

// resolve follows a reference within a document.
func resolve(root json.RawMessage, ref string) (json.RawMessage, bool) {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil, false
	}
	pointer, err := url.PathUnescape(pointer)
	if err != nil || pointer != "" && pointer[0] != '/' {
		return nil, false
	}
	at := root
	for i, step := range strings.Split(pointer, "/") {
		if i == 0 {
			continue // before the first slash
		}
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		if list, ok := array(at); ok {
			n, err := strconv.Atoi(step)
			if err != nil || n < 0 || n >= len(list) {
				return nil, false
			}
			at = list[n]
			continue
		}
		if !isObject(at) {
			return nil, false
		}
		if at = keywordsOf(at).get(step); at == nil {
			return nil, false
		}
	}
	return at, isObject(at)
}

func array(raw json.RawMessage) ([]json.RawMessage, bool) {
	var list []json.RawMessage
	if len(raw) == 0 || raw[0] != '[' || json.Unmarshal(raw, &list) != nil {
		return nil, false
	}
	return list, true
}

func list(items []json.RawMessage) json.RawMessage {
	b := []byte{'['}
	for i, item := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, item...)
	}
	return append(b, ']')
}

// single returns a type that is one word.
func single(raw json.RawMessage) (string, bool) {
	t := text(raw)
	_, known := typeKeys[t]
	return t, known
}

// merged is what says both a and b. Where both speak of the same and cannot be
// joined, a is kept.
func (x *strictener) merged(a, b keywords, at string) keywords {
	for _, m := range b {
		mine := a.get(m.key)
		switch {
		case mine == nil:
			a = a.with(m.key, m.raw)
		case string(mine) == string(m.raw):
		case m.key == "properties" && isObject(mine) && isObject(m.raw):
			props := keywordsOf(mine)
			for _, p := range keywordsOf(m.raw) {
				switch other := props.get(p.key); {
				case other == nil:
					props = props.with(p.key, p.raw)
				case string(other) != string(p.raw):
					props = props.with(p.key, slices.Concat(json.RawMessage(`{"allOf":[`), other, json.RawMessage(","), p.raw, json.RawMessage("]}")))
				}
			}
			a = a.with("properties", props.object())
		case m.key == "required":
			one, ok := array(mine)
			two, fine := array(m.raw)
			if !ok || !fine {
				x.note(at, true, "required dropped where two are joined: %s", short(m.raw))
				continue
			}
			for _, r := range two {
				if !slices.ContainsFunc(one, func(o json.RawMessage) bool { return text(o) == text(r) }) {
					one = append(one, r)
				}
			}
			a = a.with("required", list(one))
		case m.key == "title" || m.key == "description" || m.key == "default" || !slices.Contains(strictKeys, m.key) && !slices.Contains(bounding, m.key):
		default:
			x.note(at, true, "%s dropped where two are joined: %s", m.key, short(m.raw))
		}
	}
	return a
}

// typed makes the type one word, or several schemas of one each.
func (x *strictener) typed(k keywords, at string, top bool) keywords {
	raw := k.get("type")
	if top {
		if text(raw) != "object" {
			x.note(at, raw != nil && !strings.Contains(string(raw), `"object"`), "type object, which arguments are")
			k = append(keywords{{"type", json.RawMessage(`"object"`)}}, k.without("type")...)
		}
		return k
	}
	if raw == nil {
		return k
	}
	if _, ok := single(raw); ok {
		return k
	}
	words, ok := array(raw)
	if !ok {
		x.note(at, true, "type %s dropped", short(raw))
		return k.without("type")
	}
	var types []string
	for _, w := range words {
		switch t, known := single(w); {
		case known:
			types = append(types, t)
		case text(w) == "null":
			x.note(at, false, "null is not offered")
		default:
			x.note(at, true, "type %s dropped", short(w))
			return k.without("type")
		}
	}
	if slices.Contains(types, "number") {
		types = slices.DeleteFunc(types, func(t string) bool { return t == "integer" })
	}
	switch {
	case len(types) == 0:
		x.note(at, true, "type %s dropped", short(raw))
		return k.without("type")
	case len(types) == 1:
		return k.with("type", strictjson.AppendString(nil, types[0]))
	}
	if k.get("enum") != nil || k.get("const") != nil || k.get("anyOf") != nil || k.get("oneOf") != nil {
		x.note(at, true, "type %s dropped beside choices", short(raw))
		return k.without("type")
	}
	x.note(at, false, "types %s written as anyOf", strings.Join(types, ", "))
	var branches []json.RawMessage
	outer := keywords{}
	for _, m := range k {
		if slices.Contains(besideAnyOf, m.key) {
			outer = append(outer, m)
		}
	}
	inner := k.without(append([]string{"type"}, besideAnyOf...)...)
	for _, t := range types {
		branches = append(branches, append(keywords{{"type", strictjson.AppendString(nil, t)}}, ofType(inner, t)...).object())
	}
	return append(outer, kv{"anyOf", list(branches)})
}

// ofType leaves out the keywords that do not speak of values of a type.
func ofType(k keywords, t string) keywords {
	return slices.DeleteFunc(slices.Clone(k), func(m kv) bool {
		mine := slices.Contains(typeKeys[t], m.key)
		others := false
		for _, keys := range typeKeys {
			others = others || slices.Contains(keys, m.key)
		}
		return others && !mine
	})
}

// chosen turns const and enum into an enum of texts.
func (x *strictener) chosen(k keywords, at string) keywords {
	if c := k.get("const"); c != nil {
		k = k.without("const")
		if k.get("enum") == nil {
			x.note(at, false, "const %s written as enum", short(c))
			k = k.with("enum", list([]json.RawMessage{c}))
		} else {
			x.note(at, true, "const %s dropped beside enum", short(c))
		}
	}
	raw := k.get("enum")
	if raw == nil {
		return k
	}
	values, ok := array(raw)
	t, typed := single(k.get("type"))
	if !ok || len(values) == 0 || typed && t != "string" && allTexts(values) {
		x.note(at, true, "enum %s dropped", short(raw))
		return k.without("enum")
	}
	texts := slices.DeleteFunc(slices.Clone(values), func(v json.RawMessage) bool { return v[0] != '"' })
	if len(texts) > 0 && (!typed || t == "string") {
		if len(texts) < len(values) {
			x.note(at, false, "of enum %s only the texts are offered", short(raw))
			k = k.with("enum", list(texts))
		}
		if !typed {
			x.note(at, false, "type string added, which the values of enum are")
			k = append(keywords{{"type", json.RawMessage(`"string"`)}}, ofType(k.without("type"), "string")...)
		}
		return k
	}
	k = k.without("enum")
	if kind, ok := kindOfAll(values); ok && !typed {
		k = append(keywords{{"type", strictjson.AppendString(nil, kind)}}, ofType(k.without("type"), kind)...)
	}
	var words []string
	for _, v := range values {
		words = append(words, short(v))
	}
	if len(words) > 50 {
		words = append(words[:50], "…")
	}
	x.note(at, true, "enum %s dropped: its values are no texts", short(raw))
	x.rules = append(x.rules, "Allowed values: "+strings.Join(words, ", ")+".")
	return k
}

func allTexts(values []json.RawMessage) bool {
	return !slices.ContainsFunc(values, func(v json.RawMessage) bool { return v[0] != '"' })
}

// kindOfAll is the type of values that are all numbers, or all truth values.
func kindOfAll(values []json.RawMessage) (string, bool) {
	kind := ""
	for _, v := range values {
		k := "number"
		switch {
		case v[0] == 't' || v[0] == 'f':
			k = "boolean"
		case v[0] != '-' && (v[0] < '0' || v[0] > '9'):
			return "", false
		}
		if kind != "" && kind != k {
			return "", false
		}
		kind = k
	}
	return kind, kind != ""
}

// branched brings anyOf and oneOf into a form that providers take: an anyOf
// that stands alone, else a sentence.
func (x *strictener) branched(k keywords, at string, depth int) keywords {
	key, exactly := "anyOf", false
	if k.get("anyOf") == nil {
		if k.get("oneOf") == nil {
			return k
		}
		key, exactly = "oneOf", true
	} else if one := k.get("oneOf"); one != nil {
		x.note(at, true, "oneOf dropped beside anyOf: %s", short(one))
		k = k.without("oneOf")
	}
	raw := k.get(key)
	all, ok := array(raw)
	var branches []json.RawMessage
	for _, b := range all {
		switch {
		case string(b) == "false":
		case !isObject(b):
			ok = false
		case isNull(b):
			x.note(at, false, "null is not offered")
		default:
			branches = append(branches, b)
		}
	}
	if !ok || len(branches) == 0 {
		x.note(at, true, "%s dropped: %s", key, short(raw))
		return k.without(key)
	}
	if exactly && len(branches) > 1 {
		x.note(at, true, "oneOf written as anyOf: more than one may fit")
	}
	alone := true
	for _, m := range k {
		alone = alone && (m.key == key || slices.Contains(besideAnyOf, m.key) || m.key == "type" || !slices.Contains(strictKeys, m.key) && !slices.Contains(bounding, m.key))
	}
	if depth > 0 && len(branches) == 1 {
		if len(all) > 1 || exactly {
			x.note(at, false, "the one branch of %s written out", key)
		} else {
			x.note(at, false, "%s of one branch written out", key)
		}
		only := x.merged(k.without(key), x.flattened(keywordsOf(branches[0]), at), at)
		only = x.typed(only, at, false)
		return x.branched(x.chosen(only, at), at, depth)
	}
	if depth > 0 && alone {
		if t := k.get("type"); t != nil { // each branch says it for itself
			for i, b := range branches {
				if own := keywordsOf(b); own.get("type") == nil && own.get("$ref") == nil {
					branches[i] = append(keywords{{"type", t}}, own...).object()
				} else if string(own.get("type")) != string(t) {
					x.note(at, true, "type %s dropped beside %s", short(t), key)
				}
			}
			k = k.without("type")
		}
		if !exactly && sameList(all, branches) {
			return k
		}
		i := k.index(key)
		k = slices.Clone(k)
		k[i] = kv{"anyOf", list(branches)}
		return k
	}
	return x.absorbed(k.without(key), branches, at, exactly)
}

func sameList(a, b []json.RawMessage) bool {
	return slices.EqualFunc(a, b, func(x, y json.RawMessage) bool { return string(x) == string(y) })
}

func isNull(schema json.RawMessage) bool {
	k := keywordsOf(schema)
	return text(k.get("type")) == "null" || string(k.get("const")) == "null" || string(k.get("enum")) == "[null]"
}

// absorbed says in a sentence what branches ask for, and takes their
// properties in.
func (x *strictener) absorbed(k keywords, branches []json.RawMessage, at string, exactly bool) keywords {
	var choices []string
	for i, b := range branches {
		mark := len(x.open)
		branch := x.flattened(keywordsOf(b), at)
		x.open = x.open[:mark]
		var words []string
		if names, ok := array(branch.get("required")); ok {
			for _, n := range names {
				if text(n) != "" {
					words = append(words, strconv.Quote(text(n)))
				}
			}
		}
		props := keywordsOf(k.get("properties"))
		if theirs := branch.get("properties"); isObject(theirs) {
			for _, p := range keywordsOf(theirs) {
				if words == nil || !slices.Contains(words, strconv.Quote(p.key)) && len(p.raw) < 200 && keywordsOf(p.raw).get("const") != nil {
					words = append(words, strconv.Quote(p.key))
				}
				switch other := props.get(p.key); {
				case other == nil:
					props = props.with(p.key, p.raw)
				case string(other) != string(p.raw) && i > 0 && isObject(other) && isObject(p.raw):
					props = props.with(p.key, slices.Concat(json.RawMessage(`{"anyOf":[`), other, json.RawMessage(","), p.raw, json.RawMessage("]}")))
				}
			}
			k = k.with("properties", props.object())
		}
		if len(words) > 8 {
			words = append(words[:8], "…")
		}
		if words != nil {
			choices = append(choices, strings.Join(words, " and "))
		}
	}
	x.note(at, true, "choices between %d schemas taken out of an object, and said in words", len(branches))
	many := "at least"
	if exactly {
		many = "exactly"
	}
	if len(choices) > 0 {
		x.rules = append(x.rules, fmt.Sprintf("Give %s one of: %s.", many, strings.Join(slices.Compact(choices), "; or ")))
	}
	return k
}

// members brings the rest of the keywords into strict form, one by one.
func (x *strictener) members(k keywords, at string, depth int) (keywords, *names) {
	var out keywords
	var back names
	t, _ := single(k.get("type"))
	k = x.bounds(k, at, t)
	for _, m := range k {
		below := at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(m.key)
		switch m.key {
		case "properties":
			if !isObject(m.raw) {
				x.note(below, true, "dropped: no object")
				continue
			}
			var given json.RawMessage
			given, back = x.properties(m.raw, below, depth)
			out = append(out, kv{m.key, given})
		case "items":
			given := json.RawMessage("{}")
			if isObject(m.raw) && k.get("prefixItems") == nil {
				given, back.items = x.schema(m.raw, below, depth+1)
			} else if string(m.raw) != "true" {
				x.note(below, true, "items of several forms are not described")
			} else {
				x.note(below, false, "true is written as {}")
			}
			out = append(out, kv{m.key, given})
		case "anyOf":
			branches, _ := array(m.raw)
			given := make([]json.RawMessage, len(branches))
			same := true
			for i, b := range branches {
				var n *names
				given[i], n = x.schema(b, fmt.Sprintf("%s/%d", below, i), depth+1)
				same = same && string(given[i]) == string(b)
				if n != nil {
					back.also = append(back.also, n)
				}
			}
			if !same {
				m.raw = list(given)
			}
			out = append(out, m)
		default:
			if x.keeps(m, t, below) {
				out = append(out, m)
			}
		}
	}
	if t == "array" && out.get("items") == nil {
		x.note(at, k.get("prefixItems") != nil, "items added, which are not described")
		out = append(out, kv{"items", json.RawMessage("{}")})
	}
	if depth == 0 && out.get("properties") == nil {
		x.note(at, false, "properties added, of which there are none")
		i := out.index("type") + 1
		out = slices.Insert(out, i, kv{"properties", json.RawMessage("{}")})
	}
	out = x.required(out, &back, at)
	return out, back.orNil()
}

// bounds writes exclusive bounds as others.
func (x *strictener) bounds(k keywords, at, t string) keywords {
	for _, b := range []struct {
		from, to string
		step     int64
	}{{"exclusiveMinimum", "minimum", 1}, {"exclusiveMaximum", "maximum", -1}} {
		raw := k.get(b.from)
		if raw == nil {
			continue
		}
		k = k.without(b.from)
		n, err := strconv.ParseInt(string(raw), 10, 52)
		switch {
		case raw[0] == 'f': // draft 4: the bound is included
		case k.get(b.to) != nil || raw[0] == 't' || raw[0] != '-' && (raw[0] < '0' || raw[0] > '9'):
			x.note(at, true, "%s %s dropped", b.from, short(raw))
		case t == "integer" && err == nil:
			x.note(at, false, "%s %s written as %s %d", b.from, raw, b.to, n+b.step)
			k = k.with(b.to, strconv.AppendInt(nil, n+b.step, 10))
		default:
			x.note(at, true, "%s %s written as %s %s", b.from, raw, b.to, raw)
			k = k.with(b.to, raw)
		}
	}
	return k
}

// keeps reports whether a keyword that holds no schema stays, and notes why
// where it does not.
func (x *strictener) keeps(m kv, t, at string) bool {
	number := m.raw[0] == '-' || m.raw[0] >= '0' && m.raw[0] <= '9'
	ok := false
	switch m.key {
	case "title", "description":
		if m.raw[0] != '"' {
			x.note(at, false, "dropped: no text")
			return false
		}
		return true
	case "default":
		if string(m.raw) == "null" {
			x.note(at, false, "null dropped")
			return false
		}
		return true
	case "type", "enum", "required": // seen to elsewhere
		return true
	case "format":
		ok = string(m.raw) == `"date-time"` && t == "string"
	case "pattern":
		ok = m.raw[0] == '"'
	case "minimum", "maximum":
		ok = number
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
		_, err := strconv.ParseUint(string(m.raw), 10, 52)
		ok = err == nil
	case "additionalProperties", "unevaluatedProperties", "additionalItems", "unevaluatedItems":
		if string(m.raw) == "true" || string(m.raw) == "{}" {
			x.note(at, false, "%s dropped", short(m.raw))
			return false
		}
	case "$defs", "definitions":
		x.note(at, false, "dropped: what refers to it is written out")
		return false
	}
	if !ok {
		x.note(at, slices.Contains(strictKeys, m.key) || slices.Contains(bounding, m.key), "%s dropped", short(m.raw))
	}
	return ok
}

// properties brings an object's properties into strict form and gives them
// names that providers take.
func (x *strictener) properties(raw json.RawMessage, at string, depth int) (json.RawMessage, names) {
	props := keywordsOf(raw)
	var back names
	out := make(keywords, 0, len(props))
	same := true
	for _, p := range props {
		below := at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(p.key)
		given, n := x.schema(p.raw, below, depth+1)
		name := p.key
		if !strictProperty().MatchString(name) {
			name = strictName(p.key, func(name string) bool { return props.index(name) >= 0 || out.index(name) >= 0 })
			x.note(below, false, "called %s", name)
			back.call(name, p.key)
		}
		if n != nil {
			back.put(name, n)
		}
		same = same && name == p.key && string(given) == string(p.raw)
		out = append(out, kv{name, given})
	}
	if same {
		return raw, back
	}
	return out.object(), back
}

// strictName is a name for a property whose own is not taken: its own as far
// as it may stay, and a digest of it.
func strictName(own string, taken func(string) bool) string {
	sum := sha256.Sum256([]byte(own))
	digits := hex.EncodeToString(sum[:])
	plain := strings.Map(func(r rune) rune {
		if r < 0x80 && strictProperty().MatchString(string(r)) {
			return r
		}
		return '_'
	}, own)
	for n := 8; ; n += 8 {
		name := plain[:min(len(plain), 63-n)] + "_" + digits[:n]
		if !taken(name) || n+8 > 56 {
			return name
		}
	}
}

// required names what has to be there by the names that it has now, and gives
// what has no property one.
func (x *strictener) required(k keywords, back *names, at string) keywords {
	raw := k.get("required")
	if raw == nil {
		return k
	}
	wanted, ok := array(raw)
	if !ok {
		x.note(at+"/required", true, "dropped: no list")
		return k.without("required")
	}
	props := keywordsOf(k.get("properties"))
	var out []json.RawMessage
	same := true
	for _, w := range wanted {
		own := text(w)
		if w[0] != '"' {
			x.note(at+"/required", true, "%s dropped", short(w))
			same = false
			continue
		}
		name := back.given(own)
		if slices.ContainsFunc(out, func(o json.RawMessage) bool { return text(o) == name }) {
			x.note(at+"/required", false, "%q dropped, which is there twice", own)
			same = false
			continue
		}
		if props.index(name) < 0 {
			if !strictProperty().MatchString(name) {
				name = strictName(own, func(n string) bool { return props.index(n) >= 0 })
				back.call(name, own)
			}
			x.note(at+"/properties", false, "%q added, which is required", own)
			props = props.with(name, json.RawMessage("{}"))
			k = k.with("properties", props.object())
		}
		same = same && name == own
		out = append(out, strictjson.AppendString(nil, name))
	}
	if !same {
		k = k.with("required", list(out))
	}
	return k
}

// names lead from the names of properties that a client was given back to the
// server's own. Nil changes nothing.
type names struct {
	own   map[string]string
	below map[string]*names // by the name that was given
	items *names
	also  []*names // of schemas that the value may fit instead
}

func (n *names) orNil() *names {
	if n.own == nil && n.below == nil && n.items == nil && n.also == nil {
		return nil
	}
	return n
}

func (n *names) call(given, own string) {
	if n.own == nil {
		n.own = map[string]string{}
	}
	n.own[given] = own
}

func (n *names) put(given string, below *names) {
	if n.below == nil {
		n.below = map[string]*names{}
	}
	n.below[given] = below
}

// given is the name that a property was given.
func (n *names) given(own string) string {
	for given, o := range n.own {
		if o == own {
			return given
		}
	}
	return own
}

// back returns a value with the server's own names in it; every other byte
// stays. Value must be strict JSON.
func (n *names) back(value json.RawMessage) json.RawMessage {
	if n == nil || len(value) == 0 {
		return value
	}
	for _, other := range n.also {
		value = other.back(value)
	}
	switch value[0] {
	case '{':
		var out []byte
		from := 0
		for m := range strictjson.Walk(value) {
			out = append(out, value[from:m.Key]...)
			if own, ok := n.own[m.Name]; ok {
				out = strictjson.AppendString(out, own)
				out = append(out, value[nameEnd(value, m.Key):m.Start]...)
			} else {
				out = append(out, value[m.Key:m.Start]...)
			}
			out = append(out, n.below[m.Name].back(m.Value)...)
			from = m.End
		}
		return append(out, value[from:]...)
	case '[':
		if n.items == nil {
			return value
		}
		items, ok := array(value)
		if !ok {
			return value
		}
		for i := range items {
			items[i] = n.items.back(items[i])
		}
		return list(items)
	}
	return value
}

// nameEnd is where the quoted name that begins at i ends.
func nameEnd(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}
