package config

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/lazy"
)

// A kind is one shape that a value may have. It decodes the value and describes
// it, so that the reader of a file and the published JSON Schema cannot come to
// differ: both are made of the same kinds, in schema.go.
type kind[T any] struct {
	decode func(d *decoder, n *node, into *T)
	schema func(b *schemaBook) schema
}

// A decoder walks the tree of one file. It collects faults and goes on.
type decoder struct {
	file  string
	steps []string     // the names on the way to the present value
	entry *serverEntry // the server entry that is being read, if one is
	errs  ErrorList
	notes []Note

	faults  int  // faults so far, those beyond maxFaults too
	costsIt bool // one of them costs the file
}

func (d *decoder) path() string {
	if len(d.steps) == 0 {
		return "the file"
	}
	var b strings.Builder
	for i, s := range d.steps {
		if i > 0 && !strings.HasPrefix(s, "[") {
			b.WriteByte('.')
		}
		b.WriteString(s)
	}
	return b.String()
}

// maxFaults bounds how many faults of one file are written down; what follows is
// counted.
const maxFaults = 200

// fault records a fault with the words as given.
func (d *decoder) fault(at Pos, format string, args ...any) {
	d.faults++
	e := &Error{File: d.file, Pos: at, Text: fmt.Sprintf(format, args...)}
	if d.entry != nil {
		e.Server = d.entry.key
		d.entry.broken = true
	} else {
		d.costsIt = true
	}
	if d.faults > maxFaults && (d.entry == nil || len(d.entry.faults) > 0) {
		return
	}
	d.errs = append(d.errs, e)
	if d.entry != nil {
		d.entry.faults = append(d.entry.faults, e)
	}
}

// here records a fault of the value at the present path.
func (d *decoder) here(at Pos, format string, args ...any) {
	d.fault(at, "%s: %s", d.path(), fmt.Sprintf(format, args...))
}

func (d *decoder) want(n *node, what string) {
	d.here(n.pos, "want %s, got %s", what, n.kind.noun())
}

func (d *decoder) note(at Pos, format string, args ...any) {
	n := Note{File: d.file, Pos: at, Text: fmt.Sprintf(format, args...)}
	if d.entry != nil {
		n.Server = d.entry.key
	}
	d.notes = append(d.notes, n)
}

// enter decodes one value under a further step of the path.
func (d *decoder) enter(step string, decode func()) {
	d.steps = append(d.steps, step)
	decode()
	d.steps = d.steps[:len(d.steps)-1]
}

// in names the object that the decoder is in, for errors about its keys.
func (d *decoder) in() string {
	if len(d.steps) == 0 {
		return ""
	}
	return " in " + d.path()
}

// members returns the members of an object, each key once; further ones are
// faults. A null counts as an object without members, which is what an emptied
// block is in YAML.
func (d *decoder) members(n *node) []member {
	var kept []member
	first := map[string]Pos{}
	for _, m := range n.members {
		if at, seen := first[m.key]; seen {
			d.fault(m.pos, "duplicate key %q%s: it is on line %d too", cut(m.key), d.in(), at.Line)
			continue
		}
		first[m.key] = m.pos
		kept = append(kept, m)
	}
	return kept
}

// A field is one key of an object that is decoded into a T.
type field[T any] struct {
	name, doc string
	required  bool
	decode    func(d *decoder, n *node, into *T)
	schema    func(b *schemaBook) schema
}

// key binds a key of an object to the place in T where its value goes.
func key[T, V any](name, doc string, k kind[V], at func(*T) *V) field[T] {
	return field[T]{
		name: name, doc: doc, schema: k.schema,
		decode: func(d *decoder, n *node, into *T) { k.decode(d, n, at(into)) },
	}
}

// must makes a key one that has to be there.
func (f field[T]) must() field[T] { f.required = true; return f }

// A foreignKey is a key of another program's file that is taken and not used.
type foreignKey struct{ name, why string }

// An object is the kind of a JSON object with known keys.
type object[T any] struct {
	name    string // of its definition in the schema; empty to have it in place
	doc     string
	fields  []field[T]
	foreign []foreignKey
	pos     func(*T) *Pos                      // where to keep the position; nil for nowhere
	check   func(d *decoder, n *node, into *T) // what holds between the fields; nil for nothing
	stray   func(d *decoder, m member) string  // a better hint for an unknown key; nil or empty for none
}

func (o object[T]) kind() kind[T] { return kind[T]{o.decode, o.schemaRef} }

func (o object[T]) decode(d *decoder, n *node, into *T) {
	if n.kind != objectNode && n.kind != nullNode {
		d.want(n, "an object")
		return
	}
	if o.pos != nil {
		*o.pos(into) = n.pos
	}
	missing := map[string]bool{}
	for _, f := range o.fields {
		if f.required {
			missing[f.name] = true
		}
	}
	for _, m := range d.members(n) {
		delete(missing, m.key)
		o.decodeMember(d, m, into)
	}
	for _, f := range o.fields {
		if missing[f.name] {
			d.fault(n.pos, "missing key %q%s", f.name, d.in())
		}
	}
	if o.check != nil {
		o.check(d, n, into)
	}
}

func (o object[T]) decodeMember(d *decoder, m member, into *T) {
	for _, f := range o.fields {
		if f.name == m.key {
			d.enter(m.key, func() { f.decode(d, m.value, into) })
			return
		}
	}
	for _, f := range o.foreign {
		if f.name == m.key {
			d.note(m.pos, "%q%s is not used: %s", m.key, d.in(), f.why)
			return
		}
	}
	hint := ""
	if o.stray != nil {
		hint = o.stray(d, m)
	}
	if hint == "" {
		hint = didYouMean(m.key, o.names())
	}
	d.fault(m.pos, "unknown key %q%s%s", cut(m.key), d.in(), hint)
}

func (o object[T]) names() []string {
	var names []string
	for _, f := range o.fields {
		names = append(names, f.name)
	}
	return names
}

// keyed is the kind of an object whose keys are the owner's: each member is
// decoded into a T that learns its own key. The order is the file's.
func keyed[T any](noun string, k kind[T], named func(d *decoder, m member, into *T)) kind[[]T] {
	return kind[[]T]{
		decode: func(d *decoder, n *node, into *[]T) {
			if n.kind != objectNode && n.kind != nullNode {
				d.want(n, "an object with a key for each "+noun)
				return
			}
			for _, m := range d.members(n) {
				var v T
				d.enter(quoteKey(m.key), func() {
					named(d, m, &v)
					k.decode(d, m.value, &v)
				})
				*into = append(*into, v)
			}
		},
		schema: func(b *schemaBook) schema {
			return schema{"type": []string{"object", "null"}, "additionalProperties": k.schema(b)}
		},
	}
}

// list is the kind of a JSON list.
func list[T any](k kind[T]) kind[[]T] {
	return kind[[]T]{
		decode: func(d *decoder, n *node, into *[]T) {
			if n.kind != listNode {
				d.want(n, "a list")
				return
			}
			*into = make([]T, len(n.items))
			for i, item := range n.items {
				d.enter(fmt.Sprintf("[%d]", i), func() { k.decode(d, item, &(*into)[i]) })
			}
		},
		schema: func(b *schemaBook) schema { return schema{"type": "array", "items": k.schema(b)} },
	}
}

// oneOrMore is a list that may be written as its single element.
func oneOrMore[T any](k kind[T]) kind[[]T] {
	many := list(k)
	return kind[[]T]{
		decode: func(d *decoder, n *node, into *[]T) {
			if n.kind == listNode {
				many.decode(d, n, into)
				if len(n.items) == 0 {
					d.here(n.pos, "want at least one, or leave the key out")
				}
				return
			}
			*into = make([]T, 1)
			k.decode(d, n, &(*into)[0])
		},
		schema: func(b *schemaBook) schema {
			several := many.schema(b)
			several["minItems"] = 1
			return schema{"anyOf": []schema{k.schema(b), several}}
		},
	}
}

// orNull makes a kind accept null as "not set", where exporters write it so.
func orNull[T any](k kind[T]) kind[T] {
	return kind[T]{
		decode: func(d *decoder, n *node, into *T) {
			if n.kind != nullNode {
				k.decode(d, n, into)
			}
		},
		schema: func(b *schemaBook) schema {
			return schema{"anyOf": []schema{k.schema(b), {"type": "null"}}}
		},
	}
}

// mapped turns a kind into one of another type. The function may add a fault.
func mapped[A, B any](k kind[A], turn func(d *decoder, n *node, a A) B) kind[B] {
	return kind[B]{
		decode: func(d *decoder, n *node, into *B) {
			var a A
			before := d.faults
			k.decode(d, n, &a)
			if d.faults == before {
				*into = turn(d, n, a)
			}
		},
		schema: k.schema,
	}
}

// optional is a kind that tells "not set" from the zero value.
func optional[T any](k kind[T]) kind[*T] {
	return mapped(k, func(_ *decoder, _ *node, v T) *T { return &v })
}

// placed is a value and where it stands, for faults that only show later.
type placed[T any] struct {
	v   T
	pos Pos
}

func withPos[T any](k kind[T]) kind[placed[T]] {
	return mapped(k, func(_ *decoder, n *node, v T) placed[T] { return placed[T]{v, n.pos} })
}

// described adds words of JSON Schema to a kind.
func described[T any](k kind[T], more schema) kind[T] {
	return kind[T]{decode: k.decode, schema: func(b *schemaBook) schema {
		s := k.schema(b)
		for word, v := range more {
			s[word] = v
		}
		return s
	}}
}

var truth = kind[bool]{
	decode: func(d *decoder, n *node, into *bool) {
		if n.kind != boolNode {
			d.want(n, "true or false")
			return
		}
		*into = n.text == "true"
	},
	schema: func(*schemaBook) schema { return schema{"type": "boolean"} },
}

// A located is a text and where it stands, for faults that only show later.
type located struct {
	text string
	pos  Pos
}

var locatedText = kind[located]{
	decode: func(d *decoder, n *node, into *located) {
		if n.kind != textNode {
			hint := ""
			if n.kind == numberNode || n.kind == boolNode {
				hint = ": put it in quotes"
			}
			d.here(n.pos, "want text, got %s%s", n.kind.noun(), hint)
			return
		}
		switch {
		case len(n.text) > maxTextBytes:
			d.here(n.pos, "longer than %d bytes", maxTextBytes)
		case strings.ContainsRune(n.text, 0):
			d.here(n.pos, "holds a NUL character")
		}
		*into = located{n.text, n.pos}
	},
	schema: func(*schemaBook) schema { return schema{"type": "string"} },
}

var text = mapped(locatedText, func(_ *decoder, _ *node, t located) string { return t.text })

// filledText is a text that says something.
var filledText = described(mapped(locatedText, func(d *decoder, n *node, t located) string {
	if strings.TrimSpace(t.text) == "" {
		d.here(n.pos, "must not be empty")
	}
	return t.text
}), schema{"minLength": 1})

// enumWord is a value of a closed set of words.
type enumWord interface {
	~uint8
	String() string
}

// word is the kind of one word of a closed set.
func word[T enumWord](all []T) kind[T] {
	words := make([]string, len(all))
	for i, v := range all {
		words[i] = v.String()
	}
	return kind[T]{
		decode: func(d *decoder, n *node, into *T) {
			if n.kind != textNode {
				d.want(n, "one of "+strings.Join(words, ", "))
				return
			}
			i := slices.Index(words, n.text)
			if i < 0 {
				d.here(n.pos, "unknown word %q: want one of %s", cut(n.text), strings.Join(words, ", "))
				return
			}
			*into = all[i]
		},
		schema: func(*schemaBook) schema { return schema{"enum": words} },
	}
}

// egressSet is a list of egress classes; an empty one lets nothing out.
var egressSet = mapped(list(word(engagement.EgressClasses())), func(_ *decoder, _ *node, l []engagement.Egress) engagement.EgressSet {
	return engagement.EgressOf(l...)
})

// integer is a whole number within bounds.
func integer(least, most int64) kind[int64] {
	return kind[int64]{
		decode: func(d *decoder, n *node, into *int64) {
			if n.kind != numberNode {
				d.want(n, "a whole number")
				return
			}
			v, err := strconv.ParseInt(n.text, 10, 64)
			if err != nil || v < least || v > most {
				d.here(n.pos, "want a whole number from %d to %d, got %s", least, most, cut(n.text))
				return
			}
			*into = v
		},
		schema: func(*schemaBook) schema {
			return schema{"type": "integer", "minimum": least, "maximum": most}
		},
	}
}

// fraction is a number from 0 to 1.
var fraction = kind[float64]{
	decode: func(d *decoder, n *node, into *float64) {
		v, err := strconv.ParseFloat(n.text, 64)
		if n.kind != numberNode || err != nil || math.IsNaN(v) || v < 0 || v > 1 {
			d.here(n.pos, "want a number from 0 to 1")
			return
		}
		*into = v
	},
	schema: func(*schemaBook) schema { return schema{"type": "number", "minimum": 0, "maximum": 1} },
}

const durationHint = `a duration such as "30s", "5m" or "24h"`

// durationPattern is what Go's parser of durations takes, without a sign.
const durationPattern = `^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`

var durationForm = lazy.Regexp(durationPattern)

// duration is a Go duration above zero and at most the given one.
func duration(most time.Duration) kind[time.Duration] {
	return kind[time.Duration]{
		decode: func(d *decoder, n *node, into *time.Duration) {
			if n.kind != textNode {
				d.want(n, durationHint)
				return
			}
			v, err := time.ParseDuration(n.text)
			if err != nil || !durationForm().MatchString(n.text) {
				d.here(n.pos, "%q is not %s", cut(n.text), durationHint)
				return
			}
			if v <= 0 || v > most {
				d.here(n.pos, "want more than 0 and at most %s, got %s", most, v)
				return
			}
			*into = v
		},
		schema: func(*schemaBook) schema { return schema{"type": "string", "pattern": durationPattern} },
	}
}

// rawValue is any value, kept as JSON.
var rawValue = kind[json.RawMessage]{
	decode: func(d *decoder, n *node, into *json.RawMessage) {
		d.uniqueKeys(n)
		*into = n.json()
	},
	schema: func(*schemaBook) schema { return schema{} },
}

// uniqueKeys refuses repeated keys in a value that nothing else looks into.
func (d *decoder) uniqueKeys(n *node) {
	d.members(n)
	for _, m := range n.members {
		d.uniqueKeys(m.value)
	}
	for _, item := range n.items {
		d.uniqueKeys(item)
	}
}

// rawObject is any object, kept as JSON.
var rawObject = kind[json.RawMessage]{
	decode: func(d *decoder, n *node, into *json.RawMessage) {
		if n.kind != objectNode {
			d.want(n, "an object")
			return
		}
		rawValue.decode(d, n, into)
	},
	schema: func(*schemaBook) schema { return schema{"type": "object"} },
}

// cut shortens a foreign word for an error of one line.
func cut(s string) string {
	const most = 60
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "..."
}
