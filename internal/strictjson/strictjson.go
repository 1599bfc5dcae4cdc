// Package strictjson reads JSON that strangers wrote, keeping its bytes.
//
// It accepts exactly one value a time: UTF-8 without lone surrogates, no
// duplicate member names at any depth, nothing after the value, bounded
// nesting. What it accepts has one meaning for every careful reader, so that
// policy, the view a person sees, the audit line and the upstream cannot each
// understand something else. Values are handed out as the raw bytes they came
// in; nothing is decoded and encoded again. It has no opinion on what the
// members mean.
//
// Start with [Check] for a whole value, [Object] to walk one level of it, and
// [Set] or [Delete] to change one member and keep every other byte.
package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is how many arrays and objects may be open at once. Real tool
// schemas and results stay under 60; the official Go SDK stops at 1,000.
const MaxDepth = 512

// ErrDepth is wrapped when a value is nested deeper than [MaxDepth].
var ErrDepth = fmt.Errorf("nested deeper than %d levels", MaxDepth)

// reading is a decoder and the buffer that it reads from.
type reading struct {
	*jsontext.Decoder
	from *bytes.Buffer
}

// readings are reused: a decoder's bookkeeping is most of what reading a small
// value by one would allocate.
var readings = sync.Pool{New: func() any {
	from := bytes.NewBuffer(nil)
	return &reading{jsontext.NewDecoder(from), from}
}}

func decoder(b []byte) *reading {
	d := readings.Get().(*reading)
	*d.from = *bytes.NewBuffer(b)
	d.Reset(d.from)
	return d
}

func release(d *reading) {
	*d.from = bytes.Buffer{} // lets go of the caller's bytes
	d.Reset(d.from)
	readings.Put(d)
}

// Check reports whether b is exactly one strict JSON value. The error says
// what is wrong and at which byte.
func Check(b []byte) error {
	s := newScan(false)
	ok := s.whole(b)
	if s.done(); ok {
		return nil
	}
	return decoded(b)
}

// decoded is Check by the decoder alone.
func decoded(b []byte) error {
	if err := checkDepth(b); err != nil {
		return err
	}
	d := decoder(b)
	defer release(d)
	if _, err := d.ReadValue(); err != nil {
		return plain(err)
	}
	return atEnd(d)
}

// Member is one name and value of an object. Value is a part of the object's
// own bytes without surrounding space; Start and End are its offsets there,
// and Key is where the quoted name begins.
type Member struct {
	Name            string
	Value           []byte
	Key, Start, End int
}

// Object yields the members of the object b in their order, checking the
// whole value on the way. The last pair has a non-nil error when b is not one
// strict JSON object; members before it were already yielded.
func Object(b []byte) iter.Seq2[Member, error] {
	return func(yield func(Member, error) bool) {
		s := newScan(false)
		defer s.done()
		if from := space(b, 0); from < len(b) && b[from] == '{' && s.whole(b) {
			for _, m := range s.top {
				if !yield(Member{Name: nameOf(b[m.key:m.keyEnd]), Value: b[m.start:m.end:m.end], Key: m.key, Start: m.start, End: m.end}, nil) {
					return
				}
			}
			return
		}
		decodedObject(b, yield)
	}
}

// decodedObject is Object by the decoder alone.
func decodedObject(b []byte, yield func(Member, error) bool) {
	if err := checkDepth(b); err != nil {
		yield(Member{}, err)
		return
	}
	d := decoder(b)
	defer release(d)
	if err := members(d, b, yield); err != nil && !errors.Is(err, errStopped) {
		yield(Member{}, plain(err))
	}
}

var errStopped = errors.New("stopped")

func members(d *reading, b []byte, yield func(Member, error) bool) error {
	open, err := d.ReadToken()
	if err != nil {
		return err
	}
	if open.Kind() != '{' {
		return fmt.Errorf("want an object, have %s", kindName(open.Kind()))
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadValue() // a string: the decoder refuses any other name
		if err != nil {
			return err
		}
		m := Member{Name: nameOf(name), Key: int(d.InputOffset()) - len(name)}
		value, err := d.ReadValue()
		if err != nil {
			return err
		}
		m.End = int(d.InputOffset())
		m.Start = m.End - len(value)
		m.Value = b[m.Start:m.End:m.End]
		if !yield(m, nil) {
			return errStopped
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	return atEnd(d)
}

// usual are the names that nearly every message has, so that they cost no
// allocation.
var usual = func() map[string]string {
	names := map[string]string{}
	for _, n := range []string{"jsonrpc", "id", "method", "params", "result", "error", "name", "arguments", "_meta", "content", "isError", "structuredContent"} {
		names[n] = n
	}
	return names
}()

// nameOf decodes a member's name, which has been checked.
func nameOf(quoted []byte) string {
	inside := quoted[1 : len(quoted)-1]
	if name, ok := usual[string(inside)]; ok {
		return name
	}
	if bytes.IndexByte(inside, '\\') < 0 {
		return string(inside)
	}
	name, _ := jsontext.AppendUnquote(nil, quoted) // it is valid
	return string(name)
}

// Walk yields the members of an object that has been checked before, as a part
// of what [Check] or [Object] accepted. It looks at brackets and quotes only,
// which makes it several times as fast, and bytes that were never checked may
// be taken apart in any way.
func Walk(checked []byte) iter.Seq[Member] {
	return func(yield func(Member) bool) {
		i := bytes.IndexByte(checked, '{') + 1
		for {
			for i < len(checked) && checked[i] != '"' {
				if checked[i] == '}' {
					return
				}
				i++ // space, and the comma between members
			}
			m := Member{Key: i}
			i = skipString(checked, i)
			if i >= len(checked) {
				return
			}
			m.Name = nameOf(checked[m.Key:i])
			for i < len(checked) && (checked[i] == ':' || isSpace(checked[i])) {
				i++
			}
			m.Start = i
			m.End = skipValue(checked, i)
			m.Value = checked[m.Start:m.End:m.End]
			if i = m.End; !yield(m) {
				return
			}
		}
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// skipString returns the end of the string that begins at i.
func skipString(b []byte, i int) int {
	for i++; ; i++ {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return len(b)
		}
		i += n
		k := i
		for b[k-1] == '\\' {
			k--
		}
		if (i-k)%2 == 0 {
			return i + 1
		}
	}
}

// skipValue returns the end of the value that begins at i.
func skipValue(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			if i = skipString(b, i); depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // of a number or a word
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return i
}

// Get returns the raw value of the member called name, and whether there is
// one. An error means that obj is not one strict JSON object.
func Get(obj []byte, name string) ([]byte, bool, error) {
	var found []byte
	ok := false
	for m, err := range Object(obj) {
		if err != nil {
			return nil, false, err
		}
		if m.Name == name {
			found, ok = m.Value, true
		}
	}
	return found, ok, nil
}

// Set returns obj with the value of the member called name replaced by value,
// or with the member added at the end. Every other byte stays. Value must be
// valid JSON; it is not looked at.
func Set(obj []byte, name string, value []byte) ([]byte, error) {
	empty := true
	for m, err := range Object(obj) {
		if err != nil {
			return nil, err
		}
		empty = false
		if m.Name == name {
			return splice(obj, m.Start, m.End, value), nil
		}
	}
	end := bytes.LastIndexByte(obj, '}')
	var add []byte
	if !empty {
		add = append(add, ',')
	}
	add = AppendString(add, name)
	add = append(add, ':')
	add = append(add, value...)
	return splice(obj, end, end, add), nil
}

// Delete returns obj without the member called name; obj itself when it has
// none. Every other member keeps its bytes.
func Delete(obj []byte, name string) ([]byte, error) {
	prevEnd, cutFrom, cutTo := -1, -1, -1
	for m, err := range Object(obj) {
		if err != nil {
			return nil, err
		}
		switch {
		case cutFrom >= 0 && cutTo < 0: // the first member goes up to the second
			cutTo = m.Key
		case m.Name == name && prevEnd < 0:
			cutFrom = m.Key
		case m.Name == name:
			cutFrom, cutTo = prevEnd, m.End
		}
		prevEnd = m.End
	}
	if cutFrom < 0 {
		return obj, nil
	}
	if cutTo < 0 {
		cutTo = prevEnd // it was the only one
	}
	return splice(obj, cutFrom, cutTo, nil), nil
}

// AppendString appends s as a JSON string. Only what JSON demands is escaped:
// <, > and & stay. Bytes that are not UTF-8 become U+FFFD.
func AppendString(dst []byte, s string) []byte {
	out, err := jsontext.AppendQuote(dst, s)
	if err != nil { // only invalid UTF-8 is an error, and out holds the repaired text
		out, _ = jsontext.AppendQuote(dst, strings.ToValidUTF8(s, "\uFFFD"))
	}
	return out
}

// Folded returns the name in want that name imitates: equal when case is
// ignored, yet not equal. Decoders that fold case would take one for the
// other (CVE-2026-27896), so a reader of envelopes refuses it.
func Folded(name string, want ...string) (string, bool) {
	for _, w := range want {
		if name != w && strings.EqualFold(name, w) {
			return w, true
		}
	}
	return "", false
}

func splice(b []byte, from, to int, with []byte) []byte {
	out := make([]byte, 0, len(b)-(to-from)+len(with))
	out = append(out, b[:from]...)
	out = append(out, with...)
	return append(out, b[to:]...)
}

func atEnd(d *reading) error {
	if _, err := d.ReadToken(); err != io.EOF {
		return fmt.Errorf("more than one value (at byte %d)", d.InputOffset())
	}
	return nil
}

// checkDepth walks the brackets only when there are enough of them to break
// the bound.
func checkDepth(b []byte) error {
	if bytes.Count(b, []byte{'['})+bytes.Count(b, []byte{'{'}) <= MaxDepth {
		return nil
	}
	depth, inString := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '[' || c == '{':
			if depth++; depth > MaxDepth {
				return fmt.Errorf("%w (at byte %d)", ErrDepth, i)
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return nil
}

// plain turns the decoder's error into one sentence without its package name.
func plain(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errors.New("the JSON ends too early")
	}
	var syn *jsontext.SyntacticError
	if errors.As(err, &syn) {
		if errors.Is(syn.Err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("the JSON ends too early (at byte %d)", syn.ByteOffset)
		}
		return fmt.Errorf("%v (at byte %d)", syn.Err, syn.ByteOffset)
	}
	return err
}

func kindName(k jsontext.Kind) string {
	switch k {
	case '[':
		return "an array"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	return "something else"
}
