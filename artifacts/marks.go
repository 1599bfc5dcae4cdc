package artifacts

import (
	"bytes"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/mcp-gate/mcp-gate/internal/enum"
	"github.com/mcp-gate/mcp-gate/internal/lazy"
)

// A MarkKind says what in a text is not what it seems. The zero MarkKind is none.
type MarkKind uint8

// What is marked. Colours of a terminal are told from sequences that move,
// erase, hide or set something, since builds and tests print the former.
const (
	MarkANSI       MarkKind = iota + 1 // a terminal sequence that does more than colour
	MarkColour                         // terminal colours only
	MarkBidi                           // characters that reorder what is shown
	MarkInvisible                      // zero-width characters and the like, inside words
	MarkTags                           // tag characters or runs of variation selectors, which can spell a hidden text
	MarkControl                        // other control characters
	MarkHiddenHTML                     // markup that a page does not show: comments, hidden or invisibly small elements
	MarkImitation                      // words in the form of the gate's own
)

var markKinds = enum.Of[MarkKind]("kind of mark", "ansi", "ansi-colour", "bidi", "invisible", "tags", "control", "hidden-html", "imitation")

// MarkKinds returns every MarkKind, in order.
func MarkKinds() []MarkKind { return markKinds.All() }

func (k MarkKind) String() string                { return markKinds.Word(k) }
func (k MarkKind) MarshalText() ([]byte, error)  { return markKinds.Marshal(k) }
func (k *MarkKind) UnmarshalText(b []byte) error { return markKinds.Unmarshal(b, k) }

// Marks counts what was marked in a text, by kind.
type Marks [MarkImitation + 1]int

// Any reports whether anything was marked.
func (m Marks) Any() bool { return m != Marks{} }

// Has reports whether something of the kind was marked.
func (m Marks) Has(k MarkKind) bool { return m[k] > 0 }

// List returns the kinds that were marked, in order.
func (m Marks) List() []MarkKind {
	var list []MarkKind
	for _, k := range MarkKinds() {
		if m.Has(k) {
			list = append(list, k)
		}
	}
	return list
}

func (m Marks) plus(other Marks) Marks {
	for i, n := range other {
		m[i] += n
	}
	return m
}

// MarkText marks what text hides or imitates. Emoji, their joiners and flags,
// joiners in scripts that are written with them and direction marks beside
// letters that run from right to left are ordinary text.
func MarkText(text []byte) Marks { return markText(text, countBytes(text)) }

func markText(text []byte, has *census) Marks {
	var m Marks
	if has.wide() > 0 || has.controls() > 0 {
		m.characters(text)
	}
	m[MarkHiddenHTML] = hiddenHTML(text, has)
	m[MarkImitation] = imitations(text, has)
	return m
}

// characters marks what hides in single characters and sequences of them.
func (m *Marks) characters(text []byte) {
	var prev rune
	var shown colours
	var mixed func() bool // whether a script of the text runs from right to left
	for i := 0; i < len(text); {
		c := text[i]
		if c >= ' ' && c < 0x7f {
			i = unusual(text, i+1)
			prev = rune(text[i-1])
			continue
		}
		if c == '\n' || c == '\t' {
			prev = rune(c)
			i++
			continue
		}
		switch {
		case c == 0x1b:
			i += m.escape(text[i:], &shown)
			continue
		case c < utf8.RuneSelf:
			if !isBreak(text, i) {
				m[MarkControl]++
			}
			prev = rune(c)
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if r == 0x1f3f4 {
			if n := flagSize(text[i+size:]); n > 0 {
				i += size + n
				continue
			}
		}
		if mixed == nil {
			mixed = sync.OnceValue(func() bool { return bytes.ContainsFunc(text, rightToLeft) })
		}
		next, _ := utf8.DecodeRune(text[i+size:])
		m.character(prev, r, next, i == 0, mixed)
		prev = r
		i += size
	}
}

// isBreak reports whether the control character at i ends a line or page.
func isBreak(text []byte, i int) bool { return text[i] == '\r' || text[i] == '\f' }

// escape marks the sequence that begins text and returns its length.
func (m *Marks) escape(text []byte, shown *colours) int {
	if len(text) < 2 {
		m[MarkControl]++
		return len(text)
	}
	switch text[1] {
	case '[':
		i := 2
		for i < len(text) && i < 64 && (text[i] >= 0x20 && text[i] <= 0x3f) {
			i++
		}
		if i < len(text) && text[i] == 'm' && !shown.conceal(text[2:i]) || i < len(text) && text[i] == 'K' {
			m[MarkColour]++
		} else {
			m[MarkANSI]++
		}
		return min(i+1, len(text))
	default:
		m[MarkANSI]++
		return 2
	}
}

// colours are those of letters and ground after the sequences so far, "" where
// they are the terminal's own.
type colours struct{ letters, ground string }

// conceal takes up the parameters of a colour sequence and reports whether text
// is hidden by them: by the attribute for it, or by letters of the ground's colour.
func (c *colours) conceal(params []byte) bool {
	list := strings.Split(strings.ReplaceAll(string(params), ":", ";"), ";")
	hidden := false
	for i := 0; i < len(list); i++ {
		s := list[i]
		switch {
		case s == "" || s == "0":
			*c = colours{}
		case s == "8":
			hidden = true
		case s == "38" || s == "48":
			n := 0
			if i+1 < len(list) {
				n = map[string]int{"2": 4, "5": 2}[list[i+1]]
			}
			if n = min(n, len(list)-i-1); s == "38" {
				c.letters = strings.Join(list[i+1:i+1+n], ";")
			} else {
				c.ground = strings.Join(list[i+1:i+1+n], ";")
			}
			i += n
		case s == "39":
			c.letters = ""
		case s == "49":
			c.ground = ""
		case len(s) == 2 && s[0] == '3':
			c.letters = "basic " + s[1:]
		case len(s) == 2 && s[0] == '4':
			c.ground = "basic " + s[1:]
		}
	}
	return hidden || c.letters != "" && c.letters == c.ground
}

// flagSize is the length of the tags that spell the flag of a region after a
// black flag, 0 where they spell anything else.
func flagSize(text []byte) int {
	n := 0
	for i := 0; i < len(text) && n <= 8; n++ {
		r, size := utf8.DecodeRune(text[i:])
		i += size
		switch {
		case r == 0xe007f && n >= 3:
			return i
		case r < 0xe0030 || r > 0xe007a:
			return 0
		}
	}
	return 0
}

// character marks r, which stands between prev and next.
func (m *Marks) character(prev, r, next rune, first bool, mixed func() bool) {
	switch {
	case r >= 0xe0000 && r <= 0xe007f, r >= 0xe0100 && r <= 0xe01ef:
		m[MarkTags]++
	case r >= 0xfe00 && r <= 0xfe0f:
		if prev >= 0xfe00 && prev <= 0xfe0f || prev < 0x80 && !isDigit(byte(prev)) && prev != '#' && prev != '*' {
			m[MarkTags]++
		}
	case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		if !rightToLeft(prev) && !rightToLeft(next) || r == 0x202d || r == 0x202e {
			m[MarkBidi]++
		}
	case r == 0x200e || r == 0x200f || r == 0x061c:
		if !rightToLeft(prev) && !rightToLeft(next) && !mixed() {
			m[MarkBidi]++
		}
	case r == 0x200d || r == 0x200c:
		if !joins(prev) {
			m[MarkInvisible]++
		}
	case r == 0xfeff:
		if !first {
			m[MarkInvisible]++
		}
	case r == 0x200b, r == 0x2060, r >= 0x2061 && r <= 0x2064, r == 0x180e, r == 0x034f, r == 0x115f, r == 0x1160, r == 0x3164, r == 0xffa0, r == 0x2800:
		if isLatin(prev) || isLatin(next) || invisible(prev) {
			m[MarkInvisible]++
		}
	case r >= 0x80 && r < 0xa0 && r != 0x85:
		m[MarkControl]++
	}
}

func rightToLeft(r rune) bool {
	return unicode.In(r, unicode.Arabic, unicode.Hebrew, unicode.Syriac, unicode.Thaana, unicode.Nko)
}

// joins reports whether a joiner may follow r: in an emoji, or in a script
// whose letters change shape.
func joins(r rune) bool {
	return r >= 0x1f000 || r >= 0x2190 && r <= 0x2bff || r >= 0xfe00 && r <= 0xfe0f || rightToLeft(r) || r >= 0x0900 && r <= 0x0dff || r >= 0x1780 && r <= 0x18af || r >= 0x0f00 && r <= 0x109f
}

func isLatin(r rune) bool { return r < 0x250 && unicode.IsLetter(r) }

func invisible(r rune) bool { return r >= 0x200b && r <= 0x200d || r >= 0x2060 && r <= 0x2064 }

// hidingStyle matches what takes an element out of sight. Spaces were removed.
var hidingStyle = lazy.Regexp(`display:none|visibility:hidden|font-size:0(?:px|pt|em|%)?(?:[;"'!]|$)|opacity:0(?:\.0+)?(?:[;"'!]|$)|(?:left|top|text-indent):-[0-9]{4,}`)

// hiddenTag matches an element with the attribute that hides it.
var hiddenTag = lazy.Regexp(`<[a-zA-Z][a-zA-Z0-9-]*(?:\s[^<>]{0,200})?\shidden(?:="[^"]{0,20}")?(?:\s[^<>]{0,200})?/?>`)

// whiteLetters matches white letters, which are hidden only where no ground is
// set for them.
var whiteLetters = lazy.Regexp(`(?:^|[;"'])color:(?:white|#fff(?:fff)?|rgb\(255,255,255\))(?:[;"'!]|$)`)

// hiddenHTML counts comments of a sentence's length and elements hidden by an
// inline style. Short comments mark places; long ones talk to a reader of the source.
func hiddenHTML(text []byte, has *census) int {
	n := 0
	for rest := text; has['<'] > 0; n++ {
		i := bytes.Index(rest, []byte("<!--"))
		if i < 0 {
			break
		}
		rest = rest[i+4:]
		end := bytes.Index(rest, []byte("-->"))
		if end < 0 {
			break
		}
		if len(bytes.Fields(rest[:min(end, 1<<12)])) < 6 {
			n--
		}
		rest = rest[end+3:]
	}
	if has['<'] > 0 && bytes.Contains(text, []byte(" hidden")) {
		n += len(hiddenTag().FindAllIndex(text, -1))
	}
	for rest := text; has['['] > 0; {
		i := bytes.Index(rest, []byte("[//]: # "))
		if i < 0 {
			break
		}
		rest = rest[i+8:]
		line, _ := cutLine(rest)
		if len(bytes.Fields(line)) >= 6 {
			n++
		}
	}
	for rest := text; has['='] > 0; {
		i := bytes.Index(rest, []byte("style="))
		if i < 0 {
			break
		}
		rest = rest[i+6:]
		window := rest[:min(len(rest), 256)]
		if end := bytes.IndexByte(window, '>'); end >= 0 {
			window = window[:end]
		}
		if bytes.IndexByte(window, ':') < 0 {
			continue
		}
		style := bytes.ToLower(bytes.ReplaceAll(window, []byte{' '}, nil))
		if hidingStyle().Match(style) || whiteLetters().Match(style) && !bytes.Contains(style, []byte("background")) {
			n++
		}
	}
	return n
}
