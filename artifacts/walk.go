package artifacts

import (
	"bytes"
	"hash/maphash"
	"slices"
	"strconv"

	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// eachMember hands over the members of an object that has been checked, if only
// loosely; the values are parts of it. Anything else has none.
func eachMember(checked []byte, see func(name string, value []byte)) {
	if len(checked) == 0 || checked[0] != '{' {
		return
	}
	for m := range strictjson.Walk(checked) {
		see(m.Name, m.Value)
	}
}

// first returns the JSON value that b begins with, nil where it does not begin
// with one, and what is behind it. What upstreams really send is taken: names
// twice, and bytes that are not UTF-8.
func first(b []byte) (value, rest []byte) {
	end := strictjson.Loose(b)
	if end < 0 {
		return nil, b
	}
	return bytes.TrimLeft(b[:end:end], " \t\r\n"), b[end:]
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

	kinds   uint64 // which of the first 64 elements are strings
	reach   uint64 // which of them say how somebody is reached
	reached int    // elements that do, or values of members
	leaves  int    // scalars inside, at any depth
	longer  int    // elements that are objects with a column of one length, and that length
	column  int
	said    int      // names of two or more words
	listed  int      // names that hold what keeps fields apart
	stems   []string // names with their digits taken out, and how often each came
	times   []int

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
	base := len(in.frames)
	defer func() { in.frames = in.frames[:base] }()
	c := strictjson.NewCursor(b)
	for {
		t := c.Next()
		switch t.Kind {
		case 0:
			return in.spent(c.Offset())
		case '{', '[':
			if len(in.frames)-base == maxNesting {
				in.partial = true
				return in.spent(c.Offset())
			}
			in.frames = append(in.frames, frame{object: t.Kind == '{', start: c.Offset() - 1, ordinal: true, schema: true})
		case '}', ']':
			closed := in.frames[len(in.frames)-1]
			in.frames = in.frames[:len(in.frames)-1]
			if in.closeFrame(closed, b[closed.start:c.Offset()], base, layer) {
				in.found = in.found.Union(rows)
			}
		default:
			if !t.Name {
				in.scalar(t.Raw, t.Kind, base, layer)
				break
			}
			if f := &in.frames[len(in.frames)-1]; in.found.Has(rowLevel) {
				f.n++ // names tell of rows alone
			} else {
				f.member(t.Raw)
			}
			if isGateKey(t.Raw) {
				in.marks[MarkImitation]++
			}
			if len(t.Raw) > 64 {
				in.str(t.Raw, layer)
			}
		}
		if c.Depth() == 0 {
			return in.spent(c.Offset())
		}
	}
}

func (in *inspector) spent(n int) int {
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
	if bytes.ContainsAny(word, ",;|\\") {
		f.listed++
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
		return wide >= minFields || f.n >= madeLeast && f.scalars == f.n && (f.said*2 >= f.n || f.reached == f.n)
	}
	if f.reached >= minRows && f.strings == f.n && f.n == f.scalars && f.turns(f.reach, minRows) {
		return true
	}
	if f.strings == 0 || f.strings == f.n || f.scalars != f.n || f.n < minFields*madeLeast {
		return false
	}
	return f.turns(f.kinds, madeLeast)
}

// turns reports whether elements are of one kind and of the other by turns, as
// often as that.
func (f *frame) turns(bits uint64, least int) bool {
	kinds := make([]bool, min(f.n, 64))
	for i := range kinds {
		kinds[i] = bits>>i&1 == 1
	}
	return periodic(kinds, least)
}

// isReach reports whether a string is all of an address or a telephone number.
func isReach(quoted []byte) bool {
	const longest = 80
	if len(quoted) < 5 || len(quoted) > longest {
		return false
	}
	text := quoted[1 : len(quoted)-1]
	if text[0] == '+' {
		digits := 0
		for _, c := range text[1:] {
			if isDigit(c) {
				digits++
			} else if bytes.IndexByte([]byte(" -./()"), c) < 0 {
				return false
			}
		}
		return digits >= 7
	}
	at := bytes.IndexByte(text, '@')
	if at <= 0 || at+1 == len(text) || isDigit(text[at+1]) { // name@1.2 is a version
		return false
	}
	for i, c := range text {
		if i != at && !isWord(c) && bytes.IndexByte([]byte(".+-"), c) < 0 {
			return false
		}
	}
	return true
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
func (in *inspector) scalar(value []byte, kind byte, base, layer int) {
	if len(in.frames) > base {
		f := &in.frames[len(in.frames)-1]
		f.scalars++
		f.leaves++
		if kind == '"' && isReach(value) {
			f.reached++
			if !f.object {
				f.reach |= 1 << min(f.n, 64)
			}
		}
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
	if !c.object && c.strings >= minRows && c.strings == c.n || c.listed >= minRows {
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

// lines looks at the strings of an array, or the names of an object's members, as
// at the lines of a text.
func (in *inspector) lines(whole []byte, layer int) {
	if len(whole) > maxLines || in.found.Has(rowLevel) || layer >= maxLayers || !in.afford(len(whole)) {
		return
	}
	var text []byte
	if whole[0] == '{' {
		eachMember(whole, func(name string, _ []byte) { text = append(append(text, name...), '\n') })
	} else {
		for value := range strictjson.Elements(whole) {
			text = append(strictjson.Unquote(text, value), '\n')
		}
	}
	has := countBytes(text)
	in.records(text, has, layer+1)
	in.encoded(text, has, layer+1)
}
