package strictjson

import (
	"encoding/binary"
	"iter"
	"math/bits"
	"slices"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// A Token is one step of a [Cursor].
type Token struct {
	// Kind is the byte that an array or object begins or ends with, '"' for a
	// string, '0' for a number, the first letter of true, false and null, and 0
	// where the value ends or is none.
	Kind byte
	Name bool   // it is the name of a member
	Raw  []byte // of a string, number or word: as written
}

// A Cursor walks the first JSON value of some bytes, as loosely as [Loose]. It
// keeps no more than a bit for each open array or object.
type Cursor struct {
	b       []byte
	at      int // behind the last token
	depth   int
	objects [MaxDepth/64 + 1]uint64 // whether what is open is an object
	state   cursorState
}

type cursorState uint8

const (
	wantValue   cursorState = iota
	wantFirst               // behind what opens
	wantColon               // behind a name
	wantAnother             // behind a value
	wantNothing
)

// NewCursor starts before the first value of b.
func NewCursor(b []byte) Cursor { return Cursor{b: b} }

// Offset is where the last token ends.
func (c *Cursor) Offset() int { return c.at }

// Depth is how many arrays and objects are open.
func (c *Cursor) Depth() int { return c.depth }

func (c *Cursor) inObject() bool {
	return c.depth > 0 && c.objects[(c.depth-1)/64]>>((c.depth-1)%64)&1 == 1
}

// Next reads the next token. Once it has returned the zero Token it does so
// always: the value is over, or what follows is no part of one, or it is nested
// deeper than [MaxDepth] and a bit.
func (c *Cursor) Next() Token {
	b := c.b
	i := space(b, c.at)
	if i == len(b) || c.state == wantNothing {
		return c.stop()
	}
	object := c.inObject()
	isName := false
	switch c.state {
	case wantColon:
		if b[i] != ':' {
			return c.stop()
		}
		if i = space(b, i+1); i == len(b) {
			return c.stop()
		}
	case wantAnother:
		if b[i] == '}' || b[i] == ']' {
			return c.close(i, object)
		}
		if b[i] != ',' {
			return c.stop()
		}
		if i = space(b, i+1); i == len(b) {
			return c.stop()
		}
		isName = object
	case wantFirst:
		if b[i] == '}' || b[i] == ']' {
			return c.close(i, object)
		}
		isName = object
	}
	if isName && b[i] != '"' {
		return c.stop()
	}
	kind, end := b[i], -1
	switch kind {
	case '{', '[':
		return c.push(i)
	case '"':
		end = stringEnd(b, i, true)
	case 't':
		end = wordEnd(b, i, "true")
	case 'f':
		end = wordEnd(b, i, "false")
	case 'n':
		end = wordEnd(b, i, "null")
	default:
		kind, end = '0', numberEnd(b, i)
	}
	if end < 0 {
		return c.stop()
	}
	c.at = end
	if c.state = wantColon; !isName {
		c.valueOver()
	}
	return Token{kind, isName, b[i:end:end]}
}

func (c *Cursor) stop() Token {
	c.state = wantNothing
	return Token{}
}

func (c *Cursor) valueOver() {
	if c.state = wantAnother; c.depth == 0 {
		c.state = wantNothing
	}
}

func (c *Cursor) push(i int) Token {
	if c.depth == 64*len(c.objects) {
		return c.stop()
	}
	word, bit := &c.objects[c.depth/64], uint64(1)<<(c.depth%64)
	if *word &^= bit; c.b[i] == '{' {
		*word |= bit
	}
	c.depth, c.at, c.state = c.depth+1, i+1, wantFirst
	return Token{Kind: c.b[i]}
}

func (c *Cursor) close(i int, object bool) Token {
	if object != (c.b[i] == '}') {
		return c.stop()
	}
	c.depth, c.at = c.depth-1, i+1
	c.valueOver()
	return Token{Kind: c.b[i]}
}

// Elements yields the elements of an array that has been checked before, none of
// anything else; see [Walk].
func Elements(checked []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		i := space(checked, 0)
		if i == len(checked) || checked[i] != '[' {
			return
		}
		i++
		for {
			for i < len(checked) && (checked[i] == ',' || isSpace(checked[i])) {
				i++
			}
			if i >= len(checked) || checked[i] == ']' {
				return
			}
			end := skipValue(checked, i)
			if !yield(checked[i:end:end]) {
				return
			}
			i = end
		}
	}
}

// Unquote appends what a string says that has been checked before, if only
// loosely: bytes that are not UTF-8 and halves of surrogates become U+FFFD.
func Unquote(dst, quoted []byte) []byte {
	in := quoted[1 : len(quoted)-1]
	from := len(dst)
	dst = append(dst, in...) // an escape is longer than what it stands for
	out := dst[from:]
	i, j, wide := 0, 0, uint64(0)
	for i < len(in) {
		for i+8 <= len(in) {
			w := binary.LittleEndian.Uint64(in[i:])
			binary.LittleEndian.PutUint64(out[j:], w)
			wide |= w
			x := w ^ '\\'*ones
			m := (x - ones) &^ x & high
			if m == 0 {
				i, j = i+8, j+8
				continue
			}
			n := bits.TrailingZeros64(m) / 8
			i, j = i+n, j+n
			break
		}
		if i == len(in) {
			break
		}
		if in[i] != '\\' {
			wide |= uint64(in[i])
			out[j] = in[i]
			i, j = i+1, j+1
			continue
		}
		r, size := escaped(in[i:])
		i += size
		j += utf8.EncodeRune(out[j:j+min(size, utf8.UTFMax)], r)
	}
	out = out[:j]
	if wide&high != 0 && !utf8.Valid(out) {
		dst, _ = jsontext.AppendUnquote(dst[:from], quoted) // what it calls an error is made U+FFFD
		return dst
	}
	return dst[:from+j]
}

// shortEscapes has what the escapes of two bytes stand for.
var shortEscapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// UnquoteWhole appends what b says where b is one string and nothing else, as
// loosely as [Loose] has it. One pass tells and does it, for strings that are large.
func UnquoteWhole(dst, b []byte) (out []byte, ok bool) {
	if len(b) < 2 || b[0] != '"' || b[len(b)-1] != '"' {
		return dst, false
	}
	in := b[1 : len(b)-1]
	from := len(dst)
	dst = slices.Grow(dst, len(in))[:from+len(in)] // an escape is longer than what it stands for
	i, j, wide := 0, from, uint64(0)
	for i < len(in) {
		for i+8 <= len(in) {
			w := binary.LittleEndian.Uint64(in[i:])
			binary.LittleEndian.PutUint64(dst[j:], w) // as many bytes are left in dst, or more
			wide |= w
			// As in special, but for bytes outside ASCII, which are only copied.
			m := ((w - 0x20*ones) | (w ^ '"'*ones - ones) | (w ^ '\\'*ones - ones)) &^ w & high
			if m == 0 {
				i, j = i+8, j+8
				continue
			}
			n := bits.TrailingZeros64(m) / 8
			i, j = i+n, j+n
			break
		}
		if i == len(in) {
			break
		}
		switch c := in[i]; {
		case c == '\\':
			if i+1 < len(in) {
				if short := shortEscapes[in[i+1]]; short != 0 {
					dst[j] = short
					i, j = i+2, j+1
					continue
				}
			}
			if escapeSize(in[i:], true) == 0 {
				return dst[:from], false
			}
			r, size := escaped(in[i:])
			i += size
			if r < utf8.RuneSelf {
				dst[j] = byte(r)
				j++
				continue
			}
			j += utf8.EncodeRune(dst[j:j+min(size, utf8.UTFMax)], r)
		case c == '"' || c < 0x20:
			return dst[:from], false
		default:
			wide |= uint64(c)
			dst[j] = c
			i, j = i+1, j+1
		}
	}
	if wide&high != 0 && !utf8.Valid(dst[from:j]) {
		dst, _ = jsontext.AppendUnquote(dst[:from], b) // what it calls an error is made U+FFFD
		return dst, true
	}
	return dst[:j], true
}

// escaped decodes the escape that b begins with.
func escaped(b []byte) (r rune, size int) {
	switch c := b[1]; c {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
	default:
		return rune(c), 2
	}
	r, _ = hexUnit(b)
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	low, _ := hexUnit(b[6:])
	if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
		return pair, 12
	}
	return utf8.RuneError, 6
}
