package catalog

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"html"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/mcp-gate/mcp-gate/internal/lazy"
)

// mostShown is how much of a passage a finding shows.
const mostShown = 160

// display is a passage as a finding gives it: on one line, everything hidden in
// it made visible, at most n bytes.
func display(s string, n int) string {
	if len(s) > 4*n {
		s = strings.ToValidUTF8(s[:4*n], "")
	}
	s = strings.ReplaceAll(Visible(s), "\n", `\n`)
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n-len("…")], "") + "…"
	}
	return s
}

// invisible reports whether r takes no room or shows nothing though it is no
// space: the default-ignorable characters and the blank letters.
func invisible(r rune) bool {
	switch {
	case r == 0xad, r == 0x34f, r == 0x61c, r == 0x115f, r == 0x1160, r == 0x17b4, r == 0x17b5, r >= 0x180b && r <= 0x180f,
		r >= 0x200b && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2060 && r <= 0x206f, r == 0x2800, r == 0x3164, r == 0xfeff, r == 0xffa0,
		r >= 0xfe00 && r <= 0xfe0f, r >= 0xfff0 && r <= 0xfffb, r >= 0x1bca0 && r <= 0x1bca3, r >= 0x1d173 && r <= 0x1d17a, r >= 0xe0000 && r <= 0xe0fff:
		return true
	}
	return false
}

// controls looks for control characters in text that has nothing else hidden.
func (s *scanner) controls(where, text string) {
	for i := range len(text) {
		c := text[i]
		switch {
		case c == 0x1b:
			s.add(KindEscape, Block, where, around(text, i, i+8))
		case c == '\r' && i+1 < len(text) && text[i+1] != '\n' && text[i+1] != '\r', c == '\b', c == 0x7f:
			s.add(KindEscape, Block, where, around(text, i, i+8)) // what follows overprints what was read
		case c < 0x20 && (where == "/name" || c != '\n' && c != '\t' && c != '\r' && c != '\v' && c != '\f'): // a name is one line, or it could pass for lines of the gate's
			s.add(KindHidden, Block, where, around(text, i, i+8))
		}
	}
}

// hidden looks for characters that a person cannot see.
func (s *scanner) hidden(where, text string, isName bool) {
	s.controls(where, text)
	rs := []rune(text)
	rtl := false
	for _, r := range rs {
		rtl = rtl || unicode.In(r, unicode.Arabic, unicode.Hebrew, unicode.Syriac, unicode.Thaana, unicode.Nko)
	}
	for i := 0; i < len(rs); i++ {
		r := rs[i]
		if r >= 0x80 && r <= 0x9f && (r != 0x85 || where == "/name") {
			s.add(KindEscape, Block, where, near(rs, i))
			continue
		}
		if r == 0x1f3f4 { // a flag of a region is a black flag with tags
			i += flagTags(rs[i+1:])
			continue
		}
		if where == "/name" && (r == 0x2028 || r == 0x2029) {
			s.add(KindHidden, Block, where, near(rs, i))
			continue
		}
		if unicode.Is(unicode.Co, r) || r == 0x2028 || r == 0x2029 {
			s.add("unusual-characters", Show, where, near(rs, i))
			continue
		}
		if invisible(r) && (isName && r == 0xad || !joins(rs, i, rtl)) {
			s.add(KindHidden, Block, where, near(rs, i))
		}
	}
}

func near(rs []rune, i int) string {
	return string(rs[max(0, i-12):min(len(rs), i+40)])
}

// flagTags is how many of the next characters spell the region of a flag.
func flagTags(rs []rune) int {
	for i, r := range rs {
		switch {
		case r == 0xe007f && i > 0:
			return i + 1
		case i >= 7 || r < 0xe0030 || r > 0xe007a:
			return 0
		}
	}
	return 0
}

// joins reports whether an invisible character does its proper work: joining
// letters of a script that needs it, holding an emoji together, choosing a
// glyph, or turning direction in text that has two.
func joins(rs []rune, i int, rtl bool) bool {
	var before, after rune
	if i > 0 {
		before = rs[i-1]
	}
	if i+1 < len(rs) {
		after = rs[i+1]
	}
	switch r := rs[i]; {
	case r == 0x200c || r == 0x200d:
		if shaped(before) && (shaped(after) || !unicode.IsLetter(after) && !invisible(after)) {
			return true
		}
		return r == 0x200d && emoji(before) && emoji(after)
	case r >= 0xfe00 && r <= 0xfe0f:
		return emoji(before) || unicode.In(before, unicode.Han, unicode.Mongolian, unicode.Myanmar, unicode.Phags_Pa) || unicode.Is(unicode.S, before)
	case r >= 0xe0100 && r <= 0xe01ef:
		return unicode.Is(unicode.Han, before)
	case r >= 0x180b && r <= 0x180f:
		return unicode.Is(unicode.Mongolian, before)
	case r == 0x17b4 || r == 0x17b5:
		return unicode.Is(unicode.Khmer, before)
	case r == 0x200e || r == 0x200f || r == 0x61c:
		return rtl && !invisible(after)
	case r == 0xfeff:
		return i == 0
	case r == 0xad: // a hyphen where a line may break, between letters
		return unicode.IsLetter(before) && unicode.IsLetter(after)
	case r == 0x2060: // a word joiner, likewise
		return !invisible(before) && !invisible(after) && before > 0x7f && after > 0x7f
	case r == 0x115f || r == 0x1160:
		return unicode.Is(unicode.Hangul, before) || unicode.Is(unicode.Hangul, after)
	case r == 0x2800:
		return before >= 0x2800 && before <= 0x28ff || after > 0x2800 && after <= 0x28ff
	}
	return false
}

// shaped reports whether r is of a script whose letters join.
func shaped(r rune) bool {
	return unicode.In(r, unicode.Arabic, unicode.Devanagari, unicode.Bengali, unicode.Gurmukhi, unicode.Gujarati, unicode.Oriya, unicode.Tamil,
		unicode.Telugu, unicode.Kannada, unicode.Malayalam, unicode.Sinhala, unicode.Syriac, unicode.Mongolian, unicode.Khmer, unicode.Myanmar, unicode.Tibetan, unicode.Thai, unicode.Lao, unicode.Nko)
}

func emoji(r rune) bool {
	return r >= 0x1f000 && r <= 0x1faff || r >= 0x2190 && r <= 0x2bff || r == 0xfe0f || r == 0xa9 || r == 0xae || r == 0x203c || r == 0x2049 || r == 0x2122 || r == 0x2139 ||
		r >= '0' && r <= '9' || r == '#' || r == '*' || r == 0x3030 || r == 0x303d || r == 0x3297 || r == 0x3299 || r == 0x20e3
}

// likeLatin folds letters that look like Latin ones onto them.
var likeLatin = map[rune]rune{}

func init() {
	from := []rune("аАвВеЕкКмМнНоОрРсСтТуУхХіІјЈѕЅһҺԁԛԜԝѵгҮүӏԍ" + "οΟαΑΒΕΖΗΙΚΜΝΡΤΥΧνυιρκτ" + "ոսհցօԼՍΟ" + "ᴀᴄᴅᴇɡɩɑıℓ")
	to := []rune("aAbBeEkKmMhHoOpPcCtTyYxXiIjJsShHdqWwvrYylG" + "oOaABEZHIKMNPTYXvuipkt" + "nuhgoLUO" + "acdegiail")
	for i, r := range from {
		likeLatin[r] = to[i]
	}
}

// latin folds one letter: look-alikes, full width, and the alphabets of
// mathematics.
func latin(r rune) rune {
	if l, ok := likeLatin[r]; ok {
		return l
	}
	switch {
	case r >= 0xff01 && r <= 0xff5e:
		return r - 0xff01 + '!'
	case r >= 0x1d400 && r <= 0x1d6a3:
		n := (r - 0x1d400) % 52
		if n < 26 {
			return 'A' + n
		}
		return 'a' + n - 26
	case r >= 0x1d7ce && r <= 0x1d7ff:
		return '0' + (r-0x1d7ce)%10
	case r >= 0x24b6 && r <= 0x24cf:
		return 'A' + r - 0x24b6
	case r >= 0x24d0 && r <= 0x24e9:
		return 'a' + r - 0x24d0
	}
	return r
}

// folded is text as a reader takes it: hidden characters out, look-alikes
// folded, lower case, single spaces.
func folded(s string) string {
	if isASCII(s) {
		return foldedASCII(s)
	}
	var b strings.Builder
	b.Grow(len(s))
	space := true
	for _, r := range s {
		switch {
		case unicode.IsSpace(r) || r < 0x20:
			if !space {
				b.WriteByte(' ')
			}
			space = true
			continue
		case invisible(r):
			continue
		}
		b.WriteRune(unicode.ToLower(foldedLetter(r)))
		space = false
	}
	return b.String()
}

func foldedLetter(r rune) rune {
	switch {
	case r < 0x80:
		return r
	case r == '’':
		return '\''
	}
	return latin(r)
}

func foldedASCII(s string) string {
	b := make([]byte, 0, len(s))
	space := true
	for i := range len(s) {
		switch c := s[i]; {
		case c <= ' ':
			if !space {
				b = append(b, ' ')
			}
			space = true
			continue
		case c >= 'A' && c <= 'Z':
			b = append(b, c+'a'-'A')
		default:
			b = append(b, c)
		}
		space = false
	}
	return string(b)
}

// skeleton is what a name looks like: folded, with the digits and letters
// that are taken for each other made one.
func skeleton(name string) string {
	if b, plain := plainSkeleton(name); plain {
		return b
	}
	return strings.Map(func(r rune) rune {
		switch r {
		case '0':
			return 'o'
		case '1', 'i', '|':
			return 'l'
		case '-', '.', ' ':
			return '_'
		}
		return r
	}, strings.ReplaceAll(folded(name), "rn", "m"))
}

// plainSkeleton is skeleton for a name of letters, digits, "_", "-" and ".", which
// is nearly every one.
func plainSkeleton(name string) (string, bool) {
	buf := make([]byte, 0, 64)
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '_':
		case c == '-' || c == '.':
			c = '_'
		default:
			return "", false
		}
		switch {
		case c == '0':
			c = 'o'
		case c == '1' || c == 'i':
			c = 'l'
		case c == 'n' && len(buf) > 0 && buf[len(buf)-1] == 'r':
			buf, c = buf[:len(buf)-1], 'm'
		}
		buf = append(buf, c)
	}
	return string(buf), true
}

// homoglyphs looks for words that mix Latin letters with look-alikes of
// another script, and for names that are made of them.
func (s *scanner) homoglyphs(where, text string, isName bool) {
	var foreign, letters int
	accents := false
	for _, r := range text {
		if unicode.IsLetter(r) {
			letters++
			if unicode.In(r, unicode.Cyrillic, unicode.Greek, unicode.Armenian) {
				foreign++
			}
			accents = accents || r >= 0x80 && unicode.Is(unicode.Latin, r) && latin(r) == r
		}
	}
	native := !isName && foreign*5 > letters // text of that script, which may inflect a Latin word
	accents = accents && !isName             // text of a language, or a phonetic script, that has more than ASCII
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) }) {
		plain, alike, other, styled, alone := 0, 0, 0, 0, 0
		for _, r := range word {
			switch {
			case r < 0x80 || unicode.Is(unicode.Latin, r) && (accents && r < 0x300 || latin(r) == r):
				plain++
			case unicode.In(r, unicode.Cherokee, unicode.Coptic, unicode.Lisu, unicode.Canadian_Aboriginal, unicode.Deseret, unicode.Gothic, unicode.Runic, unicode.Tifinagh, unicode.Osage):
				alone++ // no language writes it and Latin in one word
			case r >= 0x1d400 && r <= 0x1d7ff || r >= 0xff21 && r <= 0xff5a || r >= 0x24b6 && r <= 0x24e9:
				styled++
			case latin(r) != r:
				alike++
			default:
				other++
			}
		}
		switch {
		case isName && alike+styled > 0 && other == 0:
			s.add(KindHomoglyph, Block, where, text)
		case alone > 0 && plain > 0:
			s.add(KindHomoglyph, Block, where, word)
		case !native && alike > 0 && plain > 1 && other == 0 && !science(word):
			s.add(KindHomoglyph, Block, where, word)
		case !native && alike > 2 && plain == 0 && other == 0 && foreign*10 < letters:
			s.add(KindHomoglyph, Block, where, word) // a word all of look-alikes amid Latin text
		case styled > 3 && plain+other+alike == 0 && styled < 0xffff && !wide(word):
			s.add("styled-letters", Show, where, word)
		}
	}
	if isName && !isASCII(text) {
		s.add("name-not-ascii", Show, where, text)
	}
}

func wide(word string) bool {
	r, _ := utf8.DecodeRuneInString(word)
	return r >= 0xff01 && r <= 0xff5e
}

// science reports whether a word is a Greek symbol beside Latin ones, such as
// "Δt" or "αBeta": the Greek letter is at an end and none of the capitals and
// small letters that only imitate.
func science(word string) bool {
	for _, r := range word {
		if r >= 0x80 && (!unicode.Is(unicode.Greek, r) || strings.ContainsRune("οΟνΑΒΕΖΗΙΚΜΝΡΤΥΧυικ", r)) {
			return false
		}
	}
	return true
}

const shortestEncoded = 20

var (
	base64Run  = lazy.Regexp(`[A-Za-z0-9+/_-]{20,}={0,2}`)
	hexRun     = lazy.Regexp(`(?:[0-9a-fA-F]{2}){10,}|(?:(?:\\x|0x|%)[0-9a-fA-F]{2}[ ,;]{0,2}){6,}|(?:[0-9a-fA-F]{2}[ :]){9,}[0-9a-fA-F]{2}`)
	wrappedRun = lazy.Regexp(`(?:[A-Za-z0-9+/_-]{16,76}\r?\n[ \t]*)+[A-Za-z0-9+/_-]{2,76}={0,2}`)
	spacedRun  = lazy.Regexp(`(?:^|[\s"'])([^\s"'%/?&=#]+(?:%20[^\s"'%/?&=#]+){3,})`)
	octalRun   = lazy.Regexp(`(?:\\[0-7]{3}){6,}`)
	escapeRun  = lazy.Regexp(`(?:\\u\{?[0-9a-fA-F]{2,6}\}?){6,}`)
	entityRun  = lazy.Regexp(`(?:&#x?[0-9a-fA-F]{2,6};){6,}`)
	decimalRun = lazy.Regexp(`(?:[0-9]{2,3}[ ,]{1,2}){9,}[0-9]{2,3}`)
	binaryRun  = lazy.Regexp(`(?:[01]{8} ?){8,}`)
	base32Run  = lazy.Regexp(`[A-Z2-7]{24,}={0,6}`)
	dataURI    = lazy.Regexp(`(?i)data:([a-z]+/[a-z0-9.+-]+)?(;[a-z0-9=-]+)*,([^\s"'<>)]*)`)

	// orders are what a decoded text holds when it is meant for the model.
	orders = lazy.Regexp(`(?i)\b(ignore|instructions?|system|secrets?|passwords?|credentials?|send|read|upload|exfiltrat\w*|execute|curl|wget|bash|delete|always|never|do not|don't|must|before|user|tools?|assistant|forward|token|api.?key|ssh|https?:|rm -|eval|script|override|previous|private|file|call|include|admin|bcc|prompt|hidden|transfer|approve|output|reveal|leak|copy|run)\b`)
)

// encoded looks for instructions that were written so that only a machine
// reads them.
func (s *scanner) encoded(where, text string) {
	if stretch(text, base64Bytes, shortestEncoded) {
		for _, run := range base64Run().FindAllString(text, 64) {
			s.decoded(where, run, fromBase64(run, 2))
		}
	}
	if strings.Contains(text, "\n") && stretch(text, base64Bytes, 16) {
		for _, run := range wrappedRun().FindAllString(text, 16) {
			run = strings.Join(strings.Fields(run), "")
			s.decoded(where, run, fromBase64(run, 2))
		}
	}
	if strings.Contains(text, "%20") {
		for _, m := range spacedRun().FindAllStringSubmatch(text, 16) {
			s.decoded(where, m[1], strings.ReplaceAll(m[1], "%20", " "))
		}
	}
	if stretch(text, base32Bytes, 24) {
		for _, run := range base32Run().FindAllString(text, 16) {
			b, _ := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.TrimRight(run, "="))
			s.decoded(where, run, string(b))
		}
	}
	if stretch(text, hexBytes, 18) {
		for _, run := range hexRun().FindAllString(text, 64) {
			s.decoded(where, run, fromHex(run))
		}
	}
	if strings.Contains(text, `\u`) {
		for _, run := range escapeRun().FindAllString(text, 16) {
			s.decoded(where, run, fromNumbers(run, `\u{}`, 16))
		}
	}
	if strings.Contains(text, `\`) {
		for _, run := range octalRun().FindAllString(text, 16) {
			s.decoded(where, run, fromNumbers(run, `\`, 8))
		}
	}
	if strings.Contains(text, "&#") {
		for _, run := range entityRun().FindAllString(text, 16) {
			s.decoded(where, run, html.UnescapeString(run))
		}
	}
	if stretch(text, decimalBytes, 29) {
		for _, run := range decimalRun().FindAllString(text, 16) {
			s.decoded(where, run, fromNumbers(run, " ,", 10))
		}
	}
	if stretch(text, binaryBytes, 64) {
		for _, run := range binaryRun().FindAllString(text, 16) {
			s.decoded(where, run, fromBinary(run))
		}
	}
	if strings.Contains(text, "data:") {
		for _, m := range dataURI().FindAllStringSubmatch(text, 16) {
			s.data(where, m[0], strings.ToLower(m[1]), m[3])
		}
	}
	s.rotated(where, text)
}

// The bytes that a match of the pattern of the same name is made of, wholly or
// for as many bytes as stretch is asked for.
var (
	base64Bytes  = bytesOf("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-")
	base32Bytes  = bytesOf("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")
	hexBytes     = bytesOf("0123456789abcdefABCDEF" + `\x%` + " ,;:")
	decimalBytes = bytesOf("0123456789 ,")
	binaryBytes  = bytesOf("01 ")
	gapBytes     = bytesOf(" \t\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000")
)

func bytesOf(s string) *[256]bool {
	set := new([256]bool)
	for i := range len(s) {
		set[s[i]] = true
	}
	return set
}

// stretch reports whether n bytes of the set stand side by side. It looks at
// every n-th byte of a text that has few of them.
func stretch(s string, set *[256]bool, n int) bool {
	for end := n - 1; end < len(s); {
		i := end
		for i > end-n && set[s[i]] {
			i--
		}
		if i == end-n {
			return true
		}
		end = i + n
	}
	return false
}

// decoded reports a run that reads as text. One that gives orders blocks.
func (s *scanner) decoded(where, run, plain string) {
	if !readable(plain) {
		return
	}
	switch found := orders().FindAllString(plain, 3); {
	case len(found) > 1, len(found) == 1 && strings.Count(plain, " ") >= 2:
		s.add(KindEncoded, Block, where, run[:min(len(run), 40)]+" = "+plain)
	case strings.Count(plain, " ") >= 3:
		s.add("encoded-text", Show, where, run[:min(len(run), 40)]+" = "+plain)
	}
}

// readable reports whether decoded bytes are text: letters and spaces in the
// shares that words have.
func readable(s string) bool {
	if len(s) < 8 || !utf8.ValidString(s) {
		return false
	}
	letters, spaces := 0, 0
	for _, r := range s {
		switch {
		case r == ' ' || r == '\n':
			spaces++
		case r < 0x20 || r == 0x7f || r > 0x2fff:
			return false
		case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z':
			letters++
		}
	}
	n := utf8.RuneCountInString(s)
	return letters*10 >= n*6 && (spaces > 0 || n < 60)
}

func fromBase64(run string, deep int) string {
	bare := strings.TrimRight(run, "=")
	for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for _, cut := range []int{0, len(bare) % 4} { // a run may have caught a letter too many
			b, err := e.DecodeString(bare[:len(bare)-cut])
			if err != nil || len(b) < 8 {
				continue
			}
			plain := strings.ReplaceAll(string(b), "\x00", "") // UTF-16
			if deep > 0 && base64Run().FindString(plain) == plain {
				if inner := fromBase64(plain, deep-1); readable(inner) {
					return inner
				}
			}
			if readable(plain) {
				return plain
			}
		}
	}
	return ""
}

func fromHex(run string) string {
	if strings.HasPrefix(run, "%") {
		plain, _ := url.PathUnescape(run)
		return plain
	}
	bare := strings.NewReplacer(`\x`, "", "0x", "", " ", "", ",", "", ";", "", ":", "", "%", "").Replace(run)
	b, _ := hex.DecodeString(bare[:len(bare)&^1])
	return string(b)
}

func fromNumbers(run, marks string, base int) string {
	var b strings.Builder
	for field := range strings.FieldsFuncSeq(run, func(r rune) bool { return strings.ContainsRune(marks, r) }) {
		if n, err := strconv.ParseInt(field, base, 32); err == nil {
			b.WriteRune(rune(n))
		}
	}
	return b.String()
}

func fromBinary(run string) string {
	bare := strings.ReplaceAll(run, " ", "")
	var b strings.Builder
	for i := 0; i+8 <= len(bare); i += 8 {
		n, _ := strconv.ParseUint(bare[i:i+8], 2, 8)
		b.WriteByte(byte(n))
	}
	return b.String()
}

// data looks into a data: address. Pictures and fonts are what they are for.
func (s *scanner) data(where, whole, kind, payload string) {
	plain := fromBase64(payload, 1)
	if plain == "" {
		plain, _ = url.PathUnescape(payload)
	}
	switch active := strings.Contains(kind, "html") || strings.Contains(kind, "script") || strings.Contains(kind, "svg"); {
	case active && len(payload) >= 16 && (strings.Contains(plain, "<script") || orders().MatchString(plain)):
		s.add(KindEncoded, Block, where, whole)
	case strings.HasPrefix(kind, "text/") && readable(plain) && len(orders().FindAllString(plain, 2)) > 1:
		s.add(KindEncoded, Block, where, whole)
	case active && len(payload) >= 16:
		s.add("encoded-text", Show, where, whole)
	}
}

// disguised are the words of a text that was rotated by 13 or reversed, as they
// stand in it: telling are those that betray it, small those that every English
// sentence has.
var disguised = sync.OnceValue(func() map[string][2]disguise {
	all := map[string][2]disguise{}
	for _, list := range []struct {
		kind  disguise
		words string
	}{
		{small, "user send read file files must before the and this with tool your all any from into not to"},
		{telltale, "ignore instruction instructions system secret secrets password passwords credential credentials execute delete always assistant forward previous private exfiltrate override command reveal contents prompt token tokens"},
	} {
		for _, w := range strings.Fields(list.words) {
			for i, hide := range disguises {
				kinds := all[hide(w)]
				kinds[i] = list.kind
				all[hide(w)] = kinds
			}
		}
	}
	return all
})

type disguise uint8

const (
	small disguise = iota + 1
	telltale
)

// disguises undo themselves.
var disguises = [2]func(string) string{rot13, reversed}

// rotated looks for words that were rotated by 13 letters or reversed.
func (s *scanner) rotated(where, text string) {
	if len(text) > mostGraded {
		text = text[:mostGraded]
	}
	var telling, common [2]int
	lower, words := strings.ToLower(text), disguised()
	for start, i := 0, 0; i <= len(lower); i++ {
		if i < len(lower) && lower[i] >= 'a' && lower[i] <= 'z' {
			continue
		}
		if n := i - start; n >= 2 && n <= 16 {
			for i, kind := range words[lower[start:i]] {
				switch kind {
				case telltale:
					telling[i]++
				case small:
					common[i]++
				}
			}
		}
		start = i + 1
	}
	for i, decode := range disguises {
		if telling[i] >= 2 && telling[i]+common[i] >= 3 {
			s.add(KindEncoded, Block, where, decode(lower))
		}
	}
}

func rot13(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'a' && c <= 'z' {
			b[i] = 'a' + (c-'a'+13)%26
		}
	}
	return string(b)
}

func reversed(s string) string {
	b := []byte(s)
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	return string(b)
}

var (
	farRight   = lazy.Regexp(`[ \t\x{a0}\x{2000}-\x{200a}\x{202f}\x{205f}\x{3000}]{48,}\S`)
	aside      = lazy.Regexp(`\S[ \t\x{a0}\x{2000}-\x{200a}\x{3000}]{30,}\S`)
	farDown    = lazy.Regexp(`(?:[ \t]*\r?\n){12,}[ \t]*\S`)
	downward   = lazy.Regexp(`(?:[ \t]*\r?\n){7,}[ \t]*\S`)
	comment    = lazy.Regexp(`(?s)<!--(.*?)(?:-->|$)|\[//\]: ?#? ?\(([^)]*)\)|\[comment\]: ?<> ?\(([^)]*)\)|/\*(.*?)\*/`)
	styledAway = lazy.Regexp(`(?is)(?:<[a-z]+(?: [^<>]{0,100})? hidden(?: [^<>]{0,100})?|style\s*=\s*["'][^"']{0,200}(display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0|opacity\s*:\s*0[^.]|color\s*:\s*(white|#fff(fff)?|transparent))[^<>]{0,200})>`)
)

// layout looks for text that is placed where nobody reads.
func (s *scanner) layout(where, text string) {
	if stretch(text, gapBytes, 30) {
		s.gaps(where, text)
	}
	if strings.Contains(text, "<!--") || strings.Contains(text, "]:") || strings.Contains(text, "/*") {
		s.comments(where, text)
	}
	if strings.Contains(text, "<") {
		s.styled(where, text)
	}
	if strings.Count(text, "\n") < 8 {
		return
	}
	if at := farDown().FindStringIndex(text); at != nil {
		s.add(KindLayout, Block, where, squeezed(text[at[1]-1:]))
	} else if at := downward().FindStringIndex(text); at != nil {
		s.add("wide-gap", Show, where, squeezed(text[at[1]-1:]))
	}
}

// styled looks for text in an element that is not drawn. An example of one holds
// no orders.
func (s *scanner) styled(where, text string) {
	for _, at := range styledAway().FindAllStringIndex(text, 16) {
		inner := inside(text, strings.LastIndexByte(text[:at[0]+1], '<')+1, at[1])
		if orders().MatchString(inner) {
			s.add(KindLayout, Block, where, text[at[0]:at[1]]+inner)
		} else if len(inner) > 20 {
			s.add("comment", Show, where, text[at[0]:at[1]]+inner)
		}
	}
}

// inside is what stands in an element, its own elements too, whose name begins at one
// place and whose tag ends at another. One that is not closed takes all of the rest.
func inside(text string, name, from int) string {
	nameOf := func(s string) string {
		if i := strings.IndexFunc(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }); i >= 0 {
			return s[:i]
		}
		return s
	}
	own, depth := nameOf(text[name:from]), 1
	for i := from; i < len(text); i++ {
		if text[i] != '<' {
			continue
		}
		tag, closes := strings.CutPrefix(text[i+1:], "/")
		switch same := strings.EqualFold(nameOf(tag), own); {
		case same && !closes:
			depth++
		case same:
			if depth--; depth == 0 {
				return text[from:i]
			}
		}
	}
	return text[from:]
}

func (s *scanner) gaps(where, text string) {
	if at := farRight().FindStringIndex(text); at != nil {
		s.add(KindLayout, Block, where, squeezed(text[at[1]-1:]))
	} else if at := aside().FindStringIndex(text); at != nil {
		s.add("wide-gap", Show, where, squeezed(text[at[1]-1:]))
	}
}

func (s *scanner) comments(where, text string) {
	for _, m := range comment().FindAllStringSubmatch(text, 16) {
		inner := strings.Join(m[1:], "")
		code := strings.HasPrefix(m[0], "/*") // nothing that draws a text leaves it out, and examples have it
		if code && !speaksToModel(inner) {
			continue
		}
		if code || len(orders().FindAllString(inner, 2)) > 1 && strings.Count(inner, " ") >= 3 {
			s.add(KindLayout, Block, where, m[0])
		} else if len(inner) > 20 {
			s.add("comment", Show, where, m[0])
		}
	}
}

func squeezed(s string) string {
	if len(s) > 400 {
		s = strings.ToValidUTF8(s[:400], "")
	}
	return strings.Join(strings.Fields(s), " ")
}
