package engagement

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A record is how a struct is read and written as a JSON object.
type record[R any] struct {
	noun    string   // names the record in errors
	neutral func() R // the values of fields that are left out
	partial bool     // any field may be left out
	fields  []field[R]
}

// A field is one member of a record.
type field[R any] struct {
	name     string
	read     func(*jsontext.Decoder, *R) error
	append   func([]byte, *R) ([]byte, error)
	mayLack  bool          // it may be left out
	omitWhen func(*R) bool // it is not written then; nil is never
}

// optional returns the field as one that may be left out, and that is not written
// when omit says so.
func (f field[R]) optional(omit func(*R) bool) field[R] {
	f.mayLack, f.omitWhen = true, omit
	return f
}

func word[R any](name string, at func(*R) text) field[R] {
	return field[R]{
		name:   name,
		read:   func(d *jsontext.Decoder, r *R) error { return readWord(d, at(r)) },
		append: func(dst []byte, r *R) ([]byte, error) { return appendWord(dst, at(r)) },
	}
}

func part[R any](name string, at func(*R) value) field[R] {
	return field[R]{
		name:   name,
		read:   func(d *jsontext.Decoder, r *R) error { return at(r).readFrom(d) },
		append: func(dst []byte, r *R) ([]byte, error) { return at(r).appendTo(dst) },
	}
}

func nested[R, S any](name string, at func(*R) *S, inner *record[S]) field[R] {
	return field[R]{
		name:   name,
		read:   func(d *jsontext.Decoder, r *R) error { return inner.readFrom(d, at(r)) },
		append: func(dst []byte, r *R) ([]byte, error) { return inner.appendTo(dst, at(r)) },
	}
}

func bound[R any](name string, at func(*R) **int64) field[R] {
	return field[R]{
		name:   name,
		read:   func(d *jsontext.Decoder, r *R) (err error) { *at(r), err = readBound(d); return err },
		append: func(dst []byte, r *R) ([]byte, error) { return appendBound(dst, *at(r)) },
	}
}

// unmarshal stores in r the one record that b holds, and leaves r alone on error.
func (rec *record[R]) unmarshal(b []byte, r *R) error {
	fresh := rec.neutral()
	d := jsontext.NewDecoder(bytes.NewBuffer(b))
	if err := rec.readFrom(d, &fresh); err != nil {
		return fmt.Errorf("%s: %w", rec.noun, err)
	}
	if err := end(d); err != nil {
		return fmt.Errorf("%s: %w", rec.noun, err)
	}
	*r = fresh
	return nil
}

func (rec *record[R]) marshal(r *R) ([]byte, error) {
	dst, err := rec.appendTo(nil, r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", rec.noun, err)
	}
	return dst, nil
}

// readFrom reads an object over r, which holds the values of what is left out.
func (rec *record[R]) readFrom(d *jsontext.Decoder, r *R) error {
	if _, err := next(d, "an object", '{'); err != nil {
		return err
	}
	seen := make([]bool, len(rec.fields))
	for {
		token, err := d.ReadToken() // a name, the end, or an error: a name given twice is one
		if err != nil {
			return err
		}
		if token.Kind() == '}' {
			return rec.checkComplete(seen)
		}
		name := token.String()
		i := slices.IndexFunc(rec.fields, func(f field[R]) bool { return f.name == name })
		if i < 0 {
			return fmt.Errorf("unknown field %.64q: want one of %s", name, rec.names(func(int) bool { return true }))
		}
		if err := rec.fields[i].read(d, r); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		seen[i] = true
	}
}

func (rec *record[R]) checkComplete(seen []bool) error {
	if rec.partial {
		return nil
	}
	if missing := rec.names(func(i int) bool { return !seen[i] && !rec.fields[i].mayLack }); missing != "" {
		return fmt.Errorf("missing %s", missing)
	}
	return nil
}

// names returns the names of the fields whose index is wanted, with commas between.
func (rec *record[R]) names(wanted func(i int) bool) string {
	var names []string
	for i, f := range rec.fields {
		if wanted(i) {
			names = append(names, f.name)
		}
	}
	return strings.Join(names, ", ")
}

func (rec *record[R]) appendTo(dst []byte, r *R) ([]byte, error) {
	dst = append(dst, '{')
	first := true
	for i := range rec.fields {
		f := &rec.fields[i]
		if f.omitWhen != nil && f.omitWhen(r) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(append(append(dst, '"'), f.name...), `":`...)
		var err error
		if dst, err = f.append(dst, r); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return append(dst, '}'), nil
}

// unmarshalValue stores in v the one value that b holds, and leaves v alone on error.
func unmarshalValue[V any, P interface {
	*V
	readFrom(*jsontext.Decoder) error
}](b []byte, v P) error {
	var fresh V
	d := jsontext.NewDecoder(bytes.NewBuffer(b))
	if err := P(&fresh).readFrom(d); err != nil {
		return err
	}
	if err := end(d); err != nil {
		return err
	}
	*v = fresh
	return nil
}

// next reads a token that is of one of the kinds, which want describes.
func next(d *jsontext.Decoder, want string, kinds ...jsontext.Kind) (jsontext.Token, error) {
	token, err := d.ReadToken()
	switch {
	case err == io.EOF:
		return token, fmt.Errorf("want %s, found nothing", want)
	case err != nil:
		return token, err
	case !slices.Contains(kinds, token.Kind()):
		return token, fmt.Errorf("want %s, found %.64q", want, token)
	}
	return token, nil
}

// end returns an error unless nothing is left to read.
func end(d *jsontext.Decoder) error {
	if _, err := d.ReadToken(); err != io.EOF {
		return errors.New("something follows the value")
	}
	return nil
}

func readWord(d *jsontext.Decoder, w encoding.TextUnmarshaler) error {
	token, err := next(d, "a word", '"')
	if err != nil {
		return err
	}
	return w.UnmarshalText([]byte(token.String()))
}

// appendWord quotes a word as it is: none of a vocabulary needs escaping.
func appendWord(dst []byte, w encoding.TextMarshaler) ([]byte, error) {
	word, err := w.MarshalText()
	if err != nil {
		return nil, err
	}
	return append(append(append(dst, '"'), word...), '"'), nil
}

func (s *Set[T]) readFrom(d *jsontext.Decoder) error {
	if _, err := next(d, "an array of words", '['); err != nil {
		return err
	}
	return s.readRest(d)
}

// readRest reads the words of a set whose opening bracket is gone.
func (s *Set[T]) readRest(d *jsontext.Decoder) error {
	set := Set[T](0)
	for {
		token, err := next(d, "a word", '"', ']')
		if err != nil {
			return err
		}
		if token.Kind() == ']' {
			*s = set
			return nil
		}
		var v T
		if err := any(&v).(encoding.TextUnmarshaler).UnmarshalText([]byte(token.String())); err != nil {
			return err
		}
		set = set.With(v)
	}
}

func (s Set[T]) appendTo(dst []byte) ([]byte, error) {
	dst = append(dst, '[')
	for i, v := range s.List() {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendWord(dst, v); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

func (r *Required) readFrom(d *jsontext.Decoder) error {
	token, err := next(d, `"all" or an array of domains`, '"', '[')
	switch {
	case err != nil:
		return err
	case token.Kind() == '[':
		return r.set.readRest(d)
	case token.String() != "all":
		return fmt.Errorf(`want "all" or an array of domains, found %.64q`, token.String())
	}
	*r = AllDomains()
	return nil
}

func (r Required) appendTo(dst []byte) ([]byte, error) {
	if r.All() {
		return append(dst, `"all"`...), nil
	}
	return r.set.appendTo(dst)
}

// flag is a bool as a field holds it.
type flag bool

func (f *flag) readFrom(d *jsontext.Decoder) error {
	token, err := next(d, "true or false", 't', 'f')
	*f = token.Kind() == 't'
	return err
}

func (f flag) appendTo(dst []byte) ([]byte, error) { return strconv.AppendBool(dst, bool(f)), nil }

// note is free text as a field holds it.
type note string

func (n *note) readFrom(d *jsontext.Decoder) error {
	token, err := next(d, "a string", '"')
	if err != nil {
		return err
	}
	*n = note(token.String())
	return nil
}

func (n note) appendTo(dst []byte) ([]byte, error) { return jsontext.AppendQuote(dst, n) }

// confidence is a number from 0 to 1 as a field holds it.
type confidence float64

func (c *confidence) readFrom(d *jsontext.Decoder) error {
	token, err := next(d, confidenceRange, '0')
	if err != nil {
		return err
	}
	number, err := token.Float()
	if err != nil || !inConfidenceRange(number) {
		return fmt.Errorf("want %s, found %.64q", confidenceRange, token)
	}
	*c = confidence(math.Abs(number)) // -0 is in the range and is 0
	return nil
}

func (c confidence) appendTo(dst []byte) ([]byte, error) {
	if !inConfidenceRange(float64(c)) {
		return nil, fmt.Errorf("want %s, found %v", confidenceRange, float64(c))
	}
	return jsontext.AppendFloat(dst, math.Abs(float64(c)), 64), nil
}

const confidenceRange = "a number from 0 to 1"

func inConfidenceRange(number float64) bool { return number >= 0 && number <= 1 }

func readBound(d *jsontext.Decoder) (*int64, error) {
	token, err := next(d, boundRange, '0', 'n')
	if err != nil || token.Kind() == 'n' {
		return nil, err
	}
	number, err := token.Int()
	if err != nil || !inBoundRange(number) {
		return nil, fmt.Errorf("want %s, found %.64q", boundRange, token)
	}
	return &number, nil
}

func appendBound(dst []byte, bound *int64) ([]byte, error) {
	switch {
	case bound == nil:
		return append(dst, "null"...), nil
	case !inBoundRange(*bound):
		return nil, fmt.Errorf("want %s, found %d", boundRange, *bound)
	}
	return strconv.AppendInt(dst, *bound, 10), nil
}

const boundRange = "null or a whole number from 0 to 9007199254740991"

func inBoundRange(number int64) bool { return number >= 0 && number <= MaxSpend }
