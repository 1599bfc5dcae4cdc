package artifacts

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

var errNotThis = errors.New("not the kind of JSON value that was looked for")

// reading is a decoder and the buffer that it reads from.
type reading struct {
	*jsontext.Decoder
	from *bytes.Buffer
}

// readings are reused: most of what reading a small value would allocate is a
// decoder's bookkeeping. They take what upstreams really send: names twice, and
// bytes that are not UTF-8.
var readings = sync.Pool{New: func() any {
	from := bytes.NewBuffer(nil)
	return &reading{jsontext.NewDecoder(from), from}
}}

func decoder(b []byte) *reading {
	d := readings.Get().(*reading)
	*d.from = *bytes.NewBuffer(b)
	d.Reset(d.from, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	return d
}

func release(d *reading) {
	*d.from = bytes.Buffer{} // lets go of the caller's bytes
	d.Reset(d.from)
	readings.Put(d)
}

// eachMember hands over the members of the object b; the values are parts of b.
func eachMember(b []byte, see func(name string, value []byte)) error {
	d := decoder(b)
	defer release(d)
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return errors.Join(errNotThis, err)
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		text := name.String()
		value, err := readIn(d, b)
		if err != nil {
			return err
		}
		see(text, value)
	}
	return closed(d)
}

// eachElement hands over the elements of the array b.
func eachElement(b []byte, see func(value []byte)) error {
	d := decoder(b)
	defer release(d)
	if t, err := d.ReadToken(); err != nil || t.Kind() != '[' {
		return errors.Join(errNotThis, err)
	}
	for k := d.PeekKind(); k != ']' && k != 0; k = d.PeekKind() {
		value, err := readIn(d, b)
		if err != nil {
			return err
		}
		see(value)
	}
	return closed(d)
}

// readIn reads the next value as a part of b, which outlives the decoder.
func readIn(d *reading, b []byte) ([]byte, error) {
	value, err := d.ReadValue()
	if err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	end := int(d.InputOffset())
	return b[end-len(value) : end : end], nil
}

func closed(d *reading) error {
	if _, err := d.ReadToken(); err != nil {
		return fmt.Errorf("read JSON: %w", err)
	}
	return nil
}

// A frame is an array or object that is open while a value is walked, and what
// tells whether it is a table.
type frame struct {
	object  bool
	start   int // offset of what opens it
	n       int // elements or members
	strings int // elements that are strings
	scalars int // elements that are neither array nor object
	rows    int // elements of two or more fields

	names   uint64 // of its members, whatever their order
	ordinal bool   // all names are numbers
	schema  bool   // all names are words of JSON Schema, "type" among them
	typed   bool

	kinds  uint64 // which of the first 64 elements are strings
	leaves int    // scalars inside, at any depth
	longer int    // elements that are objects with a column of one length, and that length
	column int
	said   int      // names of two or more words
	stems  []string // names with their digits taken out, and how often each came
	times  []int

	kids, kidFields int    // members that are objects with one set of names, and how many names
	kidNames        uint64 // that set
	columns, length int    // members that are arrays of one length, and that length
}

var seed = maphash.MakeSeed()

// schemaWords are the keywords that a description of a field is made of. An
// object whose members are all such descriptions is a schema, no table.
var schemaWords = map[string]bool{
	"type": true, "description": true, "title": true, "format": true, "items": true, "properties": true, "required": true,
	"additionalProperties": true, "minimum": true, "maximum": true, "minLength": true, "maxLength": true, "pattern": true,
	"anyOf": true, "oneOf": true, "allOf": true, "$ref": true, "minItems": true, "maxItems": true, "uniqueItems": true,
}

// json walks the first JSON value of b and returns how far it got. Each
// string in it is looked at as text.
func (in *inspector) json(b []byte, layer int) int {
	d := decoder(b)
	defer release(d)
	base := len(in.frames)
	defer func() { in.frames = in.frames[:base] }()
	name := false // what comes next is the name of a member
	for {
		kind := d.PeekKind()
		switch kind {
		case '{', '[':
			if _, err := d.ReadToken(); err != nil {
				return in.spent(d)
			}
			if len(in.frames)-base == maxNesting {
				in.partial = true
				return in.spent(d)
			}
			in.frames = append(in.frames, frame{object: kind == '{', start: int(d.InputOffset()) - 1, ordinal: true, schema: true})
			name = kind == '{'
			continue
		case '}', ']':
			if _, err := d.ReadToken(); err != nil || len(in.frames) == base {
				return in.spent(d)
			}
			closed := in.frames[len(in.frames)-1]
			in.frames = in.frames[:len(in.frames)-1]
			if in.closeFrame(closed, b[closed.start:d.InputOffset()], base, layer) {
				in.found = in.found.Union(rows)
			}
		default:
			value, err := d.ReadValue()
			if err != nil {
				return in.spent(d)
			}
			if name {
				in.frames[len(in.frames)-1].member(value)
				if isGateKey(value) {
					in.marks[MarkImitation]++
				}
				if len(value) > 64 {
					in.str(value, layer)
				}
				name = false
				continue
			}
			in.scalar(value, kind, base, layer)
		}
		if len(in.frames) == base {
			return in.spent(d)
		}
		name = in.frames[len(in.frames)-1].object
	}
}

func (in *inspector) spent(d *reading) int {
	n := int(d.InputOffset())
	in.afford(n)
	return n
}

// isGateKey reports whether the quoted name is one that only the gate may write.
func isGateKey(quoted []byte) bool {
	if bytes.IndexByte(quoted, '\\') >= 0 {
		quoted = []byte(strconv.Quote(unquoted(quoted)))
	}
	const gate = "mcp-gate/"
	return len(quoted) > len(gate)+1 && bytes.EqualFold(quoted[1:len(gate)+1], []byte(gate))
}

// member notes the name of a member.
func (f *frame) member(quoted []byte) {
	f.n++
	f.names += maphash.Bytes(seed, quoted)
	word := quoted[1 : len(quoted)-1]
	for _, c := range word {
		if !isDigit(c) {
			f.ordinal = false
			break
		}
	}
	f.named(word)
	if f.schema {
		f.schema = schemaWords[string(word)]
		f.typed = f.typed || string(word) == "type" || string(word) == "$ref"
	}
}

// named notes what names of members say by themselves: two words are somebody's
// or something's name, and numbered ones are the columns of numbered rows.
func (f *frame) named(word []byte) {
	if i := bytes.IndexByte(word, ' '); i > 0 && i+1 < len(word) {
		f.said++
	}
	if f.ordinal || !bytes.ContainsAny(word, "0123456789") {
		return
	}
	stem := string(bytes.Map(withoutDigits, word))
	i := slices.Index(f.stems, stem)
	if i < 0 {
		if len(f.stems) == maxStems {
			return
		}
		i, f.stems, f.times = len(f.stems), append(f.stems, stem), append(f.times, 0)
	}
	f.times[i]++
}

// flatRows reports whether a closed array or object of scalars holds the fields
// of rows one after another.
func (f *frame) flatRows() bool {
	if f.object {
		wide := 0
		for _, n := range f.times {
			if n >= minRows {
				wide++
			}
		}
		return wide >= minFields || f.n >= madeLeast && f.scalars == f.n && f.said*2 >= f.n
	}
	if f.strings == 0 || f.strings == f.n || f.scalars != f.n || f.n < minFields*madeLeast {
		return false
	}
	kinds := make([]bool, min(f.n, 64))
	for i := range kinds {
		kinds[i] = f.kinds>>i&1 == 1
	}
	return periodic(kinds, madeLeast)
}

// asBytes returns what an array of numbers is that are all bytes.
func asBytes(array []byte) ([]byte, bool) {
	var out []byte
	n, digits := 0, 0
	for _, c := range array[1:] {
		switch {
		case isDigit(c):
			if n, digits = n*10+int(c-'0'), digits+1; n > 255 {
				return nil, false
			}
		case c == ',' || c == ']':
			if digits == 0 {
				return nil, false
			}
			out = append(out, byte(n))
			n, digits = 0, 0
		case c != ' ' && c != '\n' && c != '\r' && c != '\t':
			return nil, false
		}
	}
	return out, true
}

// scalar notes a value that is no array or object.
func (in *inspector) scalar(value []byte, kind jsontext.Kind, base, layer int) {
	if len(in.frames) > base {
		f := &in.frames[len(in.frames)-1]
		f.scalars++
		f.leaves++
		if !f.object {
			if kind == '"' {
				f.strings++
				f.kinds |= 1 << min(f.n, 64) // none of those behind
			}
			f.n++
		}
	}
	if kind == '"' {
		in.str(value, layer)
	}
}

// closeFrame notes a closed array or object in the one around it, and reports
// whether either is a table.
func (in *inspector) closeFrame(c frame, whole []byte, base, layer int) bool {
	if !c.object && c.strings >= minRows && c.strings == c.n {
		in.lines(whole, layer)
	}
	if !c.object && c.strings == 0 && c.scalars == c.n && c.n >= minRun && layer < maxLayers && in.afford(c.n) {
		if b, ok := asBytes(whole); ok && isText(b) {
			in.text(b, layer+1)
		}
	}
	if c.rows >= minRows || c.flatRows() {
		return true
	}
	if len(in.frames) == base {
		in.fields = c.n
		return false
	}
	p := &in.frames[len(in.frames)-1]
	p.leaves += c.leaves
	switch {
	case !p.object:
		p.n++
		if c.n >= minFields || c.object && c.leaves >= minFields {
			p.rows++
		}
		if c.object && c.columns > 0 && c.length >= madeLeast {
			if p.column != c.length {
				p.longer, p.column = 0, c.length
			}
			p.longer++
		}
		return p.rows >= minRows || p.longer >= minFields
	case c.object:
		return p.kid(c)
	}
	return p.columnOf(c)
}

// kid notes a member that is an object: three with the same names are rows
// under a key, two or more whose names are numbers are columns.
func (f *frame) kid(c frame) bool {
	if c.n < minFields || c.schema && c.typed {
		return false
	}
	if f.kids == 0 || f.kidNames != c.names {
		f.kids, f.kidNames, f.kidFields = 0, c.names, c.n
	}
	f.kids++
	return f.kids >= minRows || c.ordinal && f.kids >= minFields && c.n >= minRows
}

// columnOf notes a member that is an array: two of one length are columns, three
// short ones rows under a key.
func (f *frame) columnOf(c frame) bool {
	if c.n < minFields {
		return false
	}
	if f.columns == 0 || f.length != c.n {
		f.columns, f.length = 0, c.n
	}
	f.columns++
	return f.columns >= minRows || c.scalars == c.n && c.n >= minRows && f.columns >= minFields
}

// maxStems bounds the columns that are told apart by their names' digits.
const maxStems = 8

// maxLines bounds the text that an array of strings is joined to.
const maxLines = 1 << 20

// lines looks at an array of strings as at the lines of a text.
func (in *inspector) lines(array []byte, layer int) {
	if len(array) > maxLines || in.found.Has(rowLevel) || layer >= maxLayers || !in.afford(len(array)) {
		return
	}
	var text []byte
	_ = eachElement(array, func(value []byte) {
		if line, err := jsontext.AppendUnquote(text, value); err == nil {
			text = append(line, '\n')
		}
	})
	in.records(text, layer+1)
	in.encoded(text, layer+1)
}
