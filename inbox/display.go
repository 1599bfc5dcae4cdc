package inbox

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Runs longer than these are padding that pushes text out of sight, and are
// shown as a count.
const (
	maxSpaces = 8
	maxBreaks = 3
	maxMarks  = 3 // combining marks on one letter; more overprint the lines around
)

// Display returns foreign text such that a person sees what is there: no byte
// below 0x20 but the line feed, none of 0x7f to 0x9f, and no character that is
// invisible, reorders its surroundings or is unassigned reaches the result.
// Each is written as its code point, ⟨U+202E⟩, a byte that is no UTF-8 as
// ⟨0x9B⟩, a tab as ⇥; repetitions and long runs of spaces are counted, and
// letters that imitate Latin ones within a Latin word are spelled out. The
// signs used for this are themselves spelled out, so that text cannot pretend
// to an escape.
//
// It is the one function by which foreign text gets onto a terminal, a page or
// a notice. Raw text belongs into JSON only.
func Display(s string) string { return display(s, false) }

// DisplayLine is [Display] for text that must stay on one line: a line feed is
// shown as ⏎.
func DisplayLine(s string) string { return display(s, true) }

func display(s string, oneLine bool) string {
	var b strings.Builder
	b.Grow(len(s))
	latin := latinWords(s)
	marks := 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if marks++; r < utf8.RuneSelf || !unicode.Is(unicode.Mn, r) {
			marks = 0
		}
		text, n := shown(s[i:], r, size, oneLine)
		if text == "" && r >= utf8.RuneSelf && (marks > maxMarks || inWord(latin, i) && strings.ContainsRune(lookalikes, r)) {
			text = codePoint(r)
		}
		if text == "" {
			text = s[i : i+n]
		}
		b.WriteString(text)
		i += n
	}
	return b.String()
}

// shown returns what stands for the first n bytes of s, which begins with r,
// or "" where they may be shown as they are.
func shown(s string, r rune, size int, oneLine bool) (text string, n int) {
	if r == '\n' {
		if breaks := blankBreaks(s); breaks > maxBreaks {
			blank := len(s) - len(strings.TrimLeftFunc(s, isBlank))
			return fmt.Sprintf("⟨%d line breaks in %d bytes of blanks⟩", breaks, blank), blank
		}
	}
	if isSpace(r) {
		if run := runLength(s, r, size); run > maxSpaces {
			return fmt.Sprintf("⟨%d spaces⟩", run), run * size
		}
	}
	text = visible(r, s[:size], oneLine)
	if bare, ok := strings.CutSuffix(text, "⟩"); ok {
		if run := runLength(s, r, size); run > 1 {
			return fmt.Sprintf("%s×%d⟩", bare, run), run * size
		}
	}
	return text, size
}

func codePoint(r rune) string { return fmt.Sprintf("⟨U+%04X⟩", r) }

// visible returns what stands for r, or "" where r may be shown as it is.
func visible(r rune, raw string, oneLine bool) string {
	switch {
	case r == utf8.RuneError && len(raw) == 1:
		return fmt.Sprintf("⟨0x%02X⟩", raw[0])
	case r == '\n' && oneLine:
		return "⏎"
	case r == '\n', ' ' <= r && r <= '~':
		return ""
	case r == '\t':
		return "⇥"
	case strings.ContainsRune("⟨⟩⏎⇥", r), hidden(r):
		return codePoint(r)
	}
	return ""
}

// hidden reports whether r is a control or format character, a separator of
// lines, private, unassigned, a lone surrogate, or by the Unicode standard
// drawn as nothing at all (variation selectors and fillers among them).
func hidden(r rune) bool {
	return !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r) ||
		unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) ||
		r == '\u2800' // BRAILLE PATTERN BLANK: a symbol by category, a space to the eye
}

// isSpace covers spaces of any kind and the tab, which pads as they do.
func isSpace(r rune) bool { return r == '\t' || unicode.Is(unicode.Zs, r) }

func isBlank(r rune) bool { return r == '\n' || isSpace(r) }

// blankBreaks counts the line feeds before the first character of s that is
// not blank: empty lines push text out of sight as well as spaces do.
func blankBreaks(s string) int {
	n := 0
	for _, r := range s {
		if !isBlank(r) {
			break
		}
		if r == '\n' {
			n++
		}
	}
	return n
}

// runLength counts how often r stands at the beginning of s. Spaces of all
// kinds of one size in bytes are one run.
func runLength(s string, r rune, size int) int {
	n := 0
	for i := 0; i < len(s); n++ {
		next, nextSize := utf8.DecodeRuneInString(s[i:])
		if nextSize != size || next != r && !(isSpace(r) && isSpace(next)) || next == utf8.RuneError && s[i:i+nextSize] != s[:size] {
			break
		}
		i += nextSize
	}
	return n
}

// lookalikes are the Cyrillic, Greek, Armenian and Cherokee letters that most
// fonts draw like a Latin one. They are spelled out only inside a word that
// also has Latin letters; a Russian word stays a Russian word.
const lookalikes = "аАВеЕіІјЈкКмМНоОрРсСтТуУхХѕЅԁԛԝһӏ" + "οΟαΑΒΕΖΗΙΚΜΝΡΤΥΧνυ" + "օսցհոզ" + "ᎪᏴᏟᎬᎻᎫᏦᏞᎷᏢᏒᏚᎢᏙᎳ"

// latinWords returns the byte ranges of the words in s that have an ASCII
// letter and a letter that is none.
func latinWords(s string) [][2]int {
	var words [][2]int
	start, ascii, other := -1, false, false
	end := func(i int) {
		if start >= 0 && ascii && other {
			words = append(words, [2]int{start, i})
		}
		start, ascii, other = -1, false, false
	}
	for i, r := range s {
		if !unicode.IsLetter(r) {
			end(i)
			continue
		}
		if start < 0 {
			start = i
		}
		ascii = ascii || r < utf8.RuneSelf
		other = other || r >= utf8.RuneSelf
	}
	end(len(s))
	return words
}

// inWord reports whether offset i is in one of the ranges, which are sorted.
func inWord(words [][2]int, i int) bool {
	lo, hi := 0, len(words)
	for lo < hi {
		if mid := (lo + hi) / 2; words[mid][1] <= i {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo < len(words) && words[lo][0] <= i
}

// A cut is how much of a long value is shown, in characters.
type cut struct{ head, tail int }

// apply shows s by show, whole or as its head, its tail, its length and its
// SHA-256, so that a change anywhere in it changes what is shown.
func (c cut) apply(s string, show func(string) string) string {
	total := utf8.RuneCountInString(s)
	// A few characters are not worth the remark that they are missing.
	if total <= c.head+c.tail+80 {
		return show(s)
	}
	headEnd, tailStart := runeOffset(s, c.head), runeOffset(s, total-c.tail)
	sum := sha256.Sum256([]byte(s))
	return fmt.Sprintf("%s ⟨… %d of %d characters not shown, %d bytes in all, SHA-256 %s …⟩ %s",
		show(s[:headEnd]), total-c.head-c.tail, total, len(s), hex.EncodeToString(sum[:]), show(s[tailStart:]))
}

// runeOffset returns the byte offset of the n-th character of s.
func runeOffset(s string, n int) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}

// width is how many columns of a terminal s takes, near enough to wrap by.
func width(s string) int {
	n := 0
	for _, r := range s {
		n++
		if r >= 0x1100 && (unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana) ||
			r >= 0xFF01 && r <= 0xFF60 || r >= 0x1F300 && r <= 0x1FAFF) {
			n++
		}
	}
	return n
}
