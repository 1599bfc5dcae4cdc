package strictjson

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"sync"
	"unicode/utf8"
)

// scan finds where values end, eight bytes of a string at a time. What it takes,
// [jsontext] takes; what it does not, jsontext is asked about, which also has
// the words for what is wrong.
type scan struct {
	loose bool // names may be there twice, and bytes need not be UTF-8

	open  []int           // of each open array or object: -1, or where its names begin
	names []span          // of the open objects
	sets  map[int]nameSet // of those with many names, by depth
	top   []memberAt      // of the outermost object
}

type (
	span     struct{ from, to int }
	nameSet  map[string]struct{}
	memberAt struct{ key, keyEnd, start, end int }
)

// maxLinear is up to how many names are compared one by one.
const maxLinear = 16

// maxKept bounds what a scan keeps when it is put back.
const maxKept = 1 << 10

var scans = sync.Pool{New: func() any { return new(scan) }}

func newScan(loose bool) *scan {
	s := scans.Get().(*scan)
	s.loose = loose
	return s
}

func (s *scan) done() {
	if cap(s.names) > maxKept || cap(s.top) > maxKept || cap(s.open) > maxKept || s.sets != nil {
		return
	}
	scans.Put(s)
}

// whole reports whether b is one value and nothing else.
func (s *scan) whole(b []byte) bool {
	end := s.value(b, 0)
	return end >= 0 && space(b, end) == len(b)
}

// value returns the end of the value that begins at or after i, -1 where there
// is none that is taken.
func (s *scan) value(b []byte, i int) int {
	s.open, s.names, s.top = s.open[:0], s.names[:0], s.top[:0]
	limit := MaxDepth
	if s.loose {
		limit = maxLoose
	}
value:
	if i = space(b, i); i == len(b) {
		return -1
	}
	if len(s.open) == 1 && len(s.top) > 0 {
		s.top[len(s.top)-1].start = i
	}
	switch c := b[i]; c {
	case '"':
		i = stringEnd(b, i, s.loose)
	case '{', '[':
		if len(s.open) == limit {
			return -1
		}
		i = space(b, i+1)
		if c == '[' {
			if s.open = append(s.open, -1); i == len(b) || b[i] != ']' {
				goto value
			}
		} else {
			if s.open = append(s.open, len(s.names)); i == len(b) || b[i] != '}' {
				goto name
			}
		}
		i++
		s.open = s.open[:len(s.open)-1]
	default:
		i = plainEnd(b, i)
	}
after:
	if i < 0 || len(s.open) == 0 {
		return i
	}
	if len(s.open) == 1 && len(s.top) > 0 {
		s.top[len(s.top)-1].end = i
	}
	if i = space(b, i); i == len(b) {
		return -1
	}
	switch object := s.open[len(s.open)-1] >= 0; {
	case b[i] == ',' && object:
		i++
		goto name
	case b[i] == ',':
		i++
		goto value
	case b[i] == '}' && object:
		s.closeObject()
	case b[i] == ']' && !object:
		s.open = s.open[:len(s.open)-1]
	default:
		return -1
	}
	i++
	goto after
name:
	if i = space(b, i); i == len(b) || b[i] != '"' {
		return -1
	}
	from := i
	if i = stringEnd(b, i, s.loose); i < 0 || !s.loose && !s.isNew(b, from+1, i-1) {
		return -1
	}
	if len(s.open) == 1 {
		s.top = append(s.top, memberAt{key: from, keyEnd: i})
	}
	if i = space(b, i); i == len(b) || b[i] != ':' {
		return -1
	}
	i++
	goto value
}

// plainEnd returns the end of the word or number at i, or -1.
func plainEnd(b []byte, i int) int {
	switch b[i] {
	case 't':
		return wordEnd(b, i, "true")
	case 'f':
		return wordEnd(b, i, "false")
	case 'n':
		return wordEnd(b, i, "null")
	}
	return numberEnd(b, i)
}

// maxLoose is how deep a loose value may be, as jsontext has it.
const maxLoose = 10_000

func (s *scan) closeObject() {
	depth := len(s.open) - 1
	s.names = s.names[:s.open[depth]]
	s.open = s.open[:depth]
	if s.sets != nil {
		delete(s.sets, depth)
	}
}

// isNew reports whether the innermost object has no other member of this name,
// and takes the name up. Names with escapes are left to jsontext.
func (s *scan) isNew(b []byte, from, to int) bool {
	name := b[from:to]
	if bytes.IndexByte(name, '\\') >= 0 {
		return false
	}
	depth := len(s.open) - 1
	others := s.names[s.open[depth]:]
	if len(others) < maxLinear {
		for _, o := range others {
			if o.to-o.from == len(name) && string(b[o.from:o.to]) == string(name) {
				return false
			}
		}
		s.names = append(s.names, span{from, to})
		return true
	}
	set := s.sets[depth]
	if set == nil {
		if s.sets == nil {
			s.sets = map[int]nameSet{}
		}
		set = nameSet{}
		for _, o := range others {
			set[string(b[o.from:o.to])] = struct{}{}
		}
		s.sets[depth] = set
	}
	if _, twice := set[string(name)]; twice {
		return false
	}
	set[string(name)] = struct{}{}
	return true
}

func space(b []byte, i int) int {
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	return i
}

func wordEnd(b []byte, i int, word string) int {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

func numberEnd(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	from := i
	if i = digits(b, i); i == from {
		return -1
	}
	if b[from] == '0' {
		i = from + 1 // what follows is another value, and wrong
	}
	if i < len(b) && b[i] == '.' {
		from = i + 1
		if i = digits(b, from); i == from {
			return -1
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		from = i
		if i = digits(b, from); i == from {
			return -1
		}
	}
	return i
}

func digits(b []byte, i int) int {
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	return i
}

const (
	ones = 0x0101010101010101
	high = 0x80 * ones
)

// special returns the first byte at or after i that is not plain in a string: a
// quote, a backslash, a control character, or one outside ASCII.
func special(b []byte, i int) int {
	for i+8 <= len(b) {
		w := binary.LittleEndian.Uint64(b[i:])
		// A byte that is looked for sets its high bit, and may set those behind it.
		if m := (w | (w - 0x20*ones) | (w ^ '"'*ones - ones) | (w ^ '\\'*ones - ones)) & high; m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
		i += 8
	}
	for i < len(b) && b[i] >= 0x20 && b[i] < 0x80 && b[i] != '"' && b[i] != '\\' {
		i++
	}
	return i
}

// stringEnd returns the end of the string whose quote is at i.
func stringEnd(b []byte, i int, loose bool) int {
	for i++; ; {
		if i = special(b, i); i >= len(b) {
			return -1
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			n := escapeSize(b[i:], loose)
			if n == 0 {
				return -1
			}
			i += n
		case c < 0x20:
			return -1
		default:
			for i < len(b) && b[i] >= utf8.RuneSelf {
				r, size := utf8.DecodeRune(b[i:])
				if r == utf8.RuneError && size == 1 && !loose {
					return -1
				}
				i += size
			}
		}
	}
}

// escapeSize is the length of the escape that b begins with, of both halves of
// a pair of surrogates; 0 where it is none.
func escapeSize(b []byte, loose bool) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
	default:
		return 0
	}
	unit, ok := hexUnit(b)
	switch {
	case !ok:
		return 0
	case loose || unit < 0xd800 || unit > 0xdfff:
		return 6
	}
	low, ok := hexUnit(b[6:])
	if !ok || unit > 0xdbff || low < 0xdc00 || low > 0xdfff {
		return 0
	}
	return 12
}

// hexUnit reads an escape of four digits.
func hexUnit(b []byte) (unit rune, ok bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	for _, c := range b[2:6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		unit = unit<<4 | rune(c)
	}
	return unit, true
}

// Loose returns where the first value of b ends, -1 where none begins or it is
// not whole. It takes what senders really send besides strict JSON: names twice,
// halves of surrogates, and bytes that are not UTF-8.
func Loose(b []byte) int {
	s := newScan(true)
	defer s.done()
	return s.value(b, 0)
}
