package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// Unfolded returns an error for an argument, at any depth, that differs from one
// of the tool's own there by case alone. Servers whose decoder folds case would
// take it for that one, which no rule and no person has seen. Where the schema
// names nothing, names are the caller's data. Args must be strict JSON.
func (t Tool) Unfolded(args json.RawMessage) error {
	if len(args) == 0 || args[0] != '{' {
		return nil
	}
	if bytes.IndexByte(args[1:], '{') >= 0 || composed(t.InputSchema) {
		f := folds{t, map[string]*shape{}}
		return f.value(f.expanded(t.InputSchema), args, "")
	}
	for m := range strictjson.Walk(args) {
		if err := (&folds{t: t}).name(t.Params, m.Name, ""); err != nil {
			return err
		}
	}
	return nil
}

// composed reports whether names of a schema may stand elsewhere than among its
// own properties.
func composed(schema json.RawMessage) bool {
	return bytes.Contains(schema, []byte(`Of"`)) || bytes.Contains(schema, []byte(`$ref"`)) || bytes.Contains(schema, []byte(`"then"`))
}

// maxShapes bounds the schemas that are held against one value: references and
// choices can describe it in endlessly many ways.
const maxShapes = 64

// folds looks for names in the arguments of one call that imitate the tool's.
type folds struct {
	t     Tool
	known map[string]*shape // by the schemas that they are made of
}

func (f *folds) name(own []string, name, at string) error {
	if _, is := slices.BinarySearch(own, name); is {
		return nil
	}
	like, ok := strictjson.Folded(name, own...)
	switch {
	case !ok:
		return nil
	case at != "":
		return &FitError{f.t.ID, fmt.Errorf("%q in %s is spelled like %q but is not it", name, at, like)}
	}
	return &FitError{f.t.ID, fmt.Errorf("%q is spelled like %q but is not it", name, like)}
}

// value looks into one value; at is its JSON pointer.
func (f *folds) value(s *shape, value json.RawMessage, at string) error {
	if len(s.all) == 0 || bytes.IndexByte(value, '{') < 0 {
		return nil // nothing is known of its names, or there are none in it
	}
	if value[0] == '[' {
		elements, _ := array(value)
		for i, e := range elements {
			if err := f.value(f.element(s, i), e, fmt.Sprintf("%s/%d", at, i)); err != nil {
				return err
			}
		}
		return nil
	}
	for m := range strictjson.Walk(value) {
		if err := f.name(s.own, m.Name, at); err != nil {
			return err
		}
		if err := f.value(f.member(s, m.Name), m.Value, at+"/"+m.Name); err != nil {
			return err
		}
	}
	return nil
}

// shape is what schemas say of the names in one value, whichever of them it fits.
type shape struct {
	all     []keywords // the schemas, with those that they refer to or choose from
	own     []string   // the names of all properties, sorted
	tuple   int        // how many elements of an array are described one by one
	members map[string]*shape
	others  *shape // of a member that is none of own
	rest    *shape // of an element beyond tuple
}

// shape is made once for equal schemas, so that what refers to itself costs no
// more than what is written.
func (f *folds) shape(schemas ...json.RawMessage) *shape {
	schemas = slices.DeleteFunc(schemas, func(raw json.RawMessage) bool { return !isObject(raw) })
	key := string(bytes.Join(asBytes(schemas), []byte{0}))
	if s := f.known[key]; s != nil {
		return s
	}
	s := f.expanded(schemas...)
	f.known[key] = s
	return s
}

func (f *folds) expanded(schemas ...json.RawMessage) *shape {
	s := &shape{members: map[string]*shape{}}
	for i := 0; i < len(schemas) && i < maxShapes; i++ {
		k := keywordsOf(schemas[i])
		s.all = append(s.all, k)
		if to, ok := resolve(f.t.InputSchema, text(k.get("$ref"))); ok {
			schemas = append(schemas, to)
		}
		for _, of := range []string{"allOf", "anyOf", "oneOf"} {
			parts, _ := array(k.get(of))
			schemas = append(schemas, slices.DeleteFunc(parts, func(raw json.RawMessage) bool { return !isObject(raw) })...)
		}
		for _, of := range []string{"then", "else"} {
			if part := k.get(of); isObject(part) {
				schemas = append(schemas, part)
			}
		}
		for _, property := range keywordsOf(k.get("properties")) {
			s.own = append(s.own, property.key)
		}
		s.tuple = max(s.tuple, len(k.tuple()))
	}
	slices.Sort(s.own)
	s.own = slices.Compact(s.own)
	return s
}

func asBytes(raws []json.RawMessage) [][]byte {
	out := make([][]byte, len(raws))
	for i, raw := range raws {
		out[i] = raw
	}
	return out
}

// member is the shape of the member called name.
func (f *folds) member(s *shape, name string) *shape {
	if _, own := slices.BinarySearch(s.own, name); !own {
		if s.others == nil {
			s.others = f.below(s, func(k keywords) json.RawMessage { return k.get("additionalProperties") })
		}
		return s.others
	}
	if s.members[name] == nil {
		s.members[name] = f.below(s, func(k keywords) json.RawMessage {
			if of := keywordsOf(k.get("properties")).get(name); of != nil {
				return of
			}
			return k.get("additionalProperties")
		})
	}
	return s.members[name]
}

// element is the shape of an array's element i.
func (f *folds) element(s *shape, i int) *shape {
	if i < s.tuple {
		return f.below(s, func(k keywords) json.RawMessage {
			if one := k.tuple(); i < len(one) {
				return one[i]
			}
			return k.get("items")
		})
	}
	if s.rest == nil {
		s.rest = f.below(s, func(k keywords) json.RawMessage { return k.get("items") })
	}
	return s.rest
}

// tuple are the schemas of an array's first elements.
func (k keywords) tuple() []json.RawMessage {
	if list, ok := array(k.get("items")); ok { // before 2020-12
		return list
	}
	list, _ := array(k.get("prefixItems"))
	return list
}

func (f *folds) below(s *shape, part func(keywords) json.RawMessage) *shape {
	var schemas []json.RawMessage
	for _, k := range s.all {
		schemas = append(schemas, part(k))
	}
	return f.shape(schemas...)
}
