package artifacts

import (
	"bytes"
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
func MarkText(text []byte) Marks {
	var m Marks
	var prev rune
	for i := 0; i < len(text); {
		c := text[i]
		if c >= ' ' && c < 0x7f || c == '\n' || c == '\t' {
			prev = rune(c)
			i++
			continue
		}
		switch {
		case c == 0x1b:
			i += m.escape(text[i:])
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
		next, _ := utf8.DecodeRune(text[i+size:])
		m.character(prev, r, next, i == 0)
		prev = r
		i += size
	}
	m[MarkHiddenHTML] = hiddenHTML(text)
	m[MarkImitation] = imitations(text)
	return m
}

// isBreak reports whether the control character at i ends a line or page.
func isBreak(text []byte, i int) bool { return text[i] == '\r' || text[i] == '\f' }

// escape marks the sequence that begins text and returns its length.
func (m *Marks) escape(text []byte) int {
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
		if i < len(text) && text[i] == 'm' && !conceals(text[2:i]) || i < len(text) && text[i] == 'K' {
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

// conceals reports whether the parameters of a colour sequence hide text: the
// attribute for it, or the same colour for ground and letters.
func conceals(params []byte) bool {
	var fore, back string
	for _, p := range bytes.Split(params, []byte{';'}) {
		s := string(p)
		switch {
		case s == "8":
			return true
		case len(s) == 2 && s[0] == '3':
			fore = s[1:]
		case len(s) == 2 && s[0] == '4':
			back = s[1:]
		}
	}
	return fore != "" && fore == back && fore != "8" && fore != "9"
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
func (m *Marks) character(prev, r, next rune, first bool) {
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
		if !rightToLeft(prev) && !rightToLeft(next) {
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

// whiteLetters matches white letters, which are hidden only where no ground is
// set for them.
var whiteLetters = lazy.Regexp(`(?:^|[;"'])color:(?:white|#fff(?:fff)?|rgb\(255,255,255\))(?:[;"'!]|$)`)

// hiddenHTML counts comments of a sentence's length and elements hidden by an
// inline style. Short comments mark places; long ones talk to a reader of the source.
func hiddenHTML(text []byte) int {
	n := 0
	for rest := text; ; n++ {
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
	for rest := text; ; {
		i := bytes.Index(rest, []byte("style="))
		if i < 0 {
			return n
		}
		rest = rest[i+6:]
		window := rest[:min(len(rest), 256)]
		if end := bytes.IndexByte(window, '>'); end >= 0 {
			window = window[:end]
		}
		style := bytes.ToLower(bytes.ReplaceAll(window, []byte{' '}, nil))
		if hidingStyle().Match(style) || whiteLetters().Match(style) && !bytes.Contains(style, []byte("background")) {
			n++
		}
	}
}
