package artifacts

import (
	"bytes"
	"encoding/ascii85"
	"encoding/base32"
	"hash/maphash"
	"html"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/mcp-gate/mcp-gate/internal/lazy"
)

// Lines of one make are rows whatever keeps their fields apart: they share the
// same words or signs in the same order, and two or more places between those
// hold something else each time. That is less certain than a delimiter that is
// meant as one, so that more lines are asked for.
const (
	madeWindow = 16 // lines that are held against each other
	madeLeast  = 6  // of one make, and three in four of the window
	madePeriod = 8  // lines of one record, at most
	maxMade    = 512
	maxTokens  = 96 // of one record
	maxField   = 6  // words; what has more is a sentence
)

// isMade reports whether text has lines, or runs of as many lines each, of one
// make.
func isMade(text []byte) bool {
	w := comparisons.Get().(*comparison)
	defer comparisons.Put(w)
	w.read(text)
	for period := 1; period <= madePeriod; period++ {
		if w.find(period) {
			return true
		}
		if len(w.lines) < (period+1)*madeLeast {
			break
		}
	}
	return false
}

var comparisons = sync.Pool{New: func() any { return &comparison{ids: map[uint64]int32{}} }}

// hasLines reports whether text may have so many lines, as [cutLine] cuts them.
func hasLines(text []byte, least int) bool {
	return bytes.Count(text, []byte{'\n'})+bytes.Count(text, []byte{'\r'})+1 >= least
}

// A large text is looked at in stretches: a table that fills it is in each.
const (
	stretch   = 4 << 10
	stretches = 64
)

// sample returns text, or of a large one whole lines from all over it.
func sample(text []byte) []byte {
	if len(text) <= stretch*stretches {
		return text
	}
	out := make([]byte, 0, stretch*stretches+stretches)
	for i := range stretches {
		part := text[len(text)/stretches*i:][:stretch]
		if from := bytes.IndexByte(part, '\n'); from >= 0 {
			part = part[from+1 : max(from, bytes.LastIndexByte(part, '\n'))+1]
		}
		out = append(append(out, part...), '\n')
	}
	return out
}

// A token is a word, or a sign that stands alone.
type token struct {
	id       int32 // equal tokens have the same
	from, to int32 // in the text of the comparison
	word     bool
}

// A madeLine is a line that was taken apart.
type madeLine struct {
	from, to    int // in the text of the comparison
	first, last int // token, and the one behind the last
}

// A record is one or more lines.
type record struct {
	from, to int
	tokens   []token
}

// comparison holds the lines of a text, and what is compared of them.
type comparison struct {
	text   []byte // the lines, with a line feed between them
	lines  []madeLine
	ids    map[uint64]int32 // by the hash of a token
	tokens []token          // of all lines, with a line break between them

	period  int
	records []record
	window  []record // those that are held against each other
	counts  []tally  // by the id of a token
	seen    []int32  // the ids in the window
	places  []place  // of one make; kept for the next
	look    uint32   // how often windows were counted
}

// The tokens that mean something have the first ids.
const (
	lineBreak = iota
	closingRound
	closingSquare
	closingCurly
	namingColon
	namingEquals
	knownTokens
)

var known = [knownTokens]string{"\n", ")", "]", "}", ":", "="}

// tally is how often a token stands in how many records of the window.
type tally struct {
	look    uint32
	record  uint8
	here    uint8
	settled uint8    // how often it stands in a record of this make; 0 where that varies
	per     [4]uint8 // records in which it stands 1, 2, 3, and 4 times
}

// read takes the lines of a text apart.
func (w *comparison) read(text []byte) {
	w.text, w.lines, w.tokens = w.text[:0], w.lines[:0], slices.Grow(w.tokens[:0], len(text)/3)
	clear(w.ids)
	for id, sign := range known {
		w.ids[maphash.String(seed, sign)] = int32(id)
	}
	for len(text) > 0 {
		var line []byte
		line, text = cutLine(text)
		line = bytes.TrimSpace(line)
		if len(line) == 0 || isRule(line) || isStatement(line) {
			continue
		}
		line = line[:min(len(line), maxMade)]
		if len(w.lines) > 0 {
			at := int32(len(w.text))
			w.text, w.tokens = append(w.text, '\n'), append(w.tokens, token{lineBreak, at, at + 1, false})
		}
		from, first := len(w.text), len(w.tokens)
		w.text = append(w.text, line...)
		w.tokenize(from)
		w.lines = append(w.lines, madeLine{from, len(w.text), first, len(w.tokens)})
	}
	if w.counts = slices.Grow(w.counts[:0], len(w.ids)); cap(w.counts) > 0 {
		w.counts = w.counts[:len(w.ids)]
		clear(w.counts)
	}
	w.look = 0
}

// tokenize takes the last line apart. Signs that hold together paths, addresses,
// dates and numbers are parts of words.
func (w *comparison) tokenize(from int) {
	text := w.text
	for i, n := from, 0; i < len(text) && n < maxTokens; {
		c := text[i]
		if c == ' ' {
			i++
			continue
		}
		size := wordSize(text[i:])
		word := size > 0
		if !word {
			size = 1
			if c >= utf8.RuneSelf {
				_, size = utf8.DecodeRune(text[i:])
			}
		}
		hash := maphash.Bytes(seed, text[i:i+size])
		id, ok := w.ids[hash]
		if !ok {
			id = int32(len(w.ids))
			w.ids[hash] = id
		}
		w.tokens = append(w.tokens, token{id, int32(i), int32(i + size), word})
		i += size
		n++
	}
}

// find reports whether there are records of so many lines that are of one make.
func (w *comparison) find(period int) bool {
	w.period = period
	w.join()
	at := 0
	for ; at+madeWindow <= len(w.records); at += madeWindow / 2 {
		if w.window = w.records[at : at+madeWindow]; w.same() {
			return true
		}
	}
	w.window = w.records[at:]
	return len(w.window) >= madeLeast && w.same()
}

// join makes records of lines.
func (w *comparison) join() {
	w.records = w.records[:0]
	for i := 0; i+w.period <= len(w.lines); i += w.period {
		first, last := &w.lines[i], &w.lines[i+w.period-1]
		tokens := w.tokens[first.first:last.last]
		w.records = append(w.records, record{first.from, last.to, tokens[:min(len(tokens), maxTokens)]})
	}
}

// statements begin lines of programs, which repeat themselves without being
// records.
var statements = [][]byte{
	[]byte("import "), []byte("from "), []byte("use "), []byte("using "), []byte("#include"), []byte("export "), []byte("const "), []byte("let "), []byte("var "),
	[]byte("return "), []byte("case "), []byte("if "), []byte("at "), []byte("func "), []byte("def "), []byte("//"), []byte("# "), []byte("$ "), []byte("@"),
}

func isStatement(line []byte) bool {
	for _, s := range statements {
		if s[0] != line[0] {
			continue
		}
		if bytes.HasPrefix(line, s) {
			return true
		}
	}
	return bytes.Contains(line, []byte(" := ")) || line[0] == '[' && bytes.Contains(line, []byte("]: ")) || isCall(line)
}

// isCall reports whether a line calls a function, without a word on what each
// argument is.
func isCall(line []byte) bool {
	i := bytes.IndexByte(line, '(')
	return i > 0 && isWord(line[i-1]) && bytes.IndexByte(line[i:], '=') < 0 && bytes.IndexByte([]byte(");{,:"), line[len(line)-1]) >= 0
}

func wordSize(text []byte) int {
	n := 0
	for n < len(text) {
		c := text[n]
		switch {
		case isWord(c) && c != '_', c == '.' || c == '-' || c == '_' || c == '/' || c == '@' || c == '\'' || c == '%':
			if n == 0 && !isWord(c) {
				if len(text) < 2 || c == '\'' || !isWord(text[1]) && text[1] != '/' && text[1] != '.' {
					return 0
				}
			}
			n++
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRune(text[n:])
			if !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r) {
				return n
			}
			n += size
		default:
			return trimWord(text, n)
		}
	}
	return trimWord(text, n)
}

// trimWord leaves the end of a sentence or of quotes out of its last word.
func trimWord(text []byte, n int) int {
	for n > 1 && (text[n-1] == '.' || text[n-1] == '\'') {
		n--
	}
	return n
}

// same reports whether three in four of the records in the window are of one
// make.
func (w *comparison) same() bool {
	least := max(madeLeast, len(w.window)*3/4)
	w.count()
	settled, varies := 0, false
	for _, id := range w.seen {
		t := &w.counts[id]
		for times, n := range t.per {
			if int(n) >= least {
				t.settled = uint8(times + 1)
				if id > closingCurly {
					settled++
				}
			}
		}
		varies = varies || t.settled == 0
	}
	// One sign in each line may be chance where lines are few.
	if !varies || settled < w.period || settled < minFields && len(w.window) < madeWindow {
		return false
	}
	var all [madeWindow]uint64
	keys := all[:len(w.window)]
	for i := range keys {
		keys[i] = w.key(&w.window[i])
	}
	varied, places := uint64(0), -1 // the make that was looked at last, and its places that vary
	for i := range len(keys) - least + 1 {
		alike := 0
		for _, k := range keys {
			if k == keys[i] {
				alike++
			}
		}
		if alike < least || w.isList(&w.window[i], keys, keys[i]) {
			continue
		}
		if places < 0 || varied != keys[i] {
			varied, places = keys[i], w.varying(keys, keys[i], alike)
		}
		if places >= minFields {
			return true
		}
	}
	return false
}

// count counts the tokens of the window.
func (w *comparison) count() {
	w.seen = w.seen[:0]
	w.look++
	for at := range w.window {
		i := uint8(at)
		for _, t := range w.window[at].tokens {
			c := &w.counts[t.id]
			if c.look != w.look {
				*c = tally{look: w.look, record: i}
				w.seen = append(w.seen, t.id)
			}
			if c.record != i {
				c.close()
				c.record, c.here = i, 0
			}
			c.here++
		}
	}
	for _, id := range w.seen {
		w.counts[id].close()
	}
}

func (t *tally) close() { t.per[min(int(t.here), len(t.per))-1]++ }

// key is the make of a record: its settled tokens in order, and where something
// stands between them.
func (w *comparison) key(r *record) uint64 {
	k, gap := uint64(14695981039346656037), false
	for _, t := range r.tokens {
		if w.counts[t.id].settled == 0 {
			if !gap {
				k = (k ^ 1) * 1099511628211
			}
			gap = true
			continue
		}
		k = (k ^ uint64(t.id+2)) * 1099511628211
		gap = false
	}
	return k
}

// isList reports whether a record is lines that are all of one make, with one
// place each, or is a name and its value.
func (w *comparison) isList(r *record, keys []uint64, key uint64) bool {
	if w.period == 1 {
		return w.isNamed(r) && !w.namesSay(keys, key)
	}
	lines := make([]uint64, 1, madePeriod)
	places, gap := 0, false
	for _, t := range r.tokens {
		switch {
		case t.id == lineBreak:
			lines = append(lines, 0)
			gap = false
		case w.counts[t.id].settled > 0:
			lines[len(lines)-1] = lines[len(lines)-1]*1099511628211 ^ uint64(t.id+1)
			gap = false
		case !gap:
			places++
			gap = true
		}
	}
	for _, k := range lines {
		if k != lines[0] {
			return false
		}
	}
	return places <= len(lines)
}

// isNamed reports whether what is settled in a record is no more than the sign
// between a name and its value.
func (w *comparison) isNamed(r *record) bool {
	names := 0
	for _, t := range r.tokens {
		switch {
		case w.counts[t.id].settled == 0:
		case t.id == namingColon || t.id == namingEquals:
			names++
		case t.word || bytes.IndexByte([]byte(`"',;?-*`), w.text[t.from]) < 0:
			return false
		}
	}
	return names == 1
}

// namesSay reports whether most names before the sign have two words: they are
// somebody's, not those of settings.
func (w *comparison) namesSay(keys []uint64, key uint64) bool {
	all, said := 0, 0
	for i := range keys {
		if keys[i] != key {
			continue
		}
		text := w.text[w.window[i].from:w.window[i].to]
		name := bytes.Trim(text[:max(bytes.IndexAny(text, ":="), 0)], "-*• \"'")
		all++
		if len(bytes.Fields(name)) >= minFields {
			said++
		}
	}
	return said*2 > all
}

// A place is what stands between settled tokens, in all records of one make.
type place struct {
	values [madeWindow]uint64 // the first n: the different ones
	times  [madeWindow]int    // of each
	n      int
	long   int // with sentences
	spoken int // with words
}

// varying counts the places between settled tokens that hold three or more
// different things, none of them in three of four records, and no sentences.
func (w *comparison) varying(keys []uint64, key uint64, alike int) int {
	places := 0
	for i := range keys {
		if keys[i] != key {
			continue
		}
		at, words, from, to := 0, 0, int32(-1), int32(0)
		r := &w.window[i]
		close := func() {
			if from < 0 {
				return
			}
			if at == places {
				if places++; places > len(w.places) {
					w.places = append(w.places, place{})
				}
				w.places[at].n, w.places[at].long, w.places[at].spoken = 0, 0, 0
			}
			p := &w.places[at]
			value := maphash.Bytes(seed, w.text[from:to])
			which := slices.Index(p.values[:p.n], value)
			if which < 0 {
				which = p.n
				p.n++
				p.values[which], p.times[which] = value, 0
			}
			p.times[which]++
			if words > maxField {
				p.long++
			}
			if words > 0 {
				p.spoken++
			}
			at, words, from = at+1, 0, -1
		}
		for _, t := range r.tokens {
			if w.counts[t.id].settled > 0 {
				close()
				continue
			}
			if from < 0 {
				from = t.from
			}
			to = t.to
			if t.word {
				words++
			}
		}
		close()
	}
	n := 0
	for i := range places {
		p := &w.places[i]
		if p.n >= minRows && slices.Max(p.times[:p.n])*4 <= alike*3 && p.long*4 <= alike && p.spoken*2 > alike {
			n++
		}
	}
	return n
}

// tightSigns keep the fields of some lines apart and the parts of words of
// others.
var tightSigns = []byte("/_@+.-:")

// isTight reports whether lines are rows whose fields one of the signs keeps
// apart that words have too: as many in each line, with a number first or last,
// or spaces in what they keep apart.
func isTight(text []byte) bool {
	for _, sign := range tightSigns {
		if bytes.Count(text, []byte{sign}) >= madeLeast*minFields && tight(text, sign) {
			return true
		}
	}
	return false
}

func tight(text []byte, sign byte) bool {
	run, last, spaced, first, end := 0, 0, 0, true, true
	for len(text) > 0 {
		var line []byte
		line, text = cutLine(text)
		line = bytes.TrimSpace(line)
		n := bytes.Count(line, []byte{sign})
		if len(line) == 0 {
			continue
		}
		if n < minFields || n != last || len(line) > maxMade || isStatement(line) || bytes.Contains(line, []byte("://")) {
			run, last, spaced, first, end = 0, n, 0, true, true
			continue
		}
		run++
		first = first && isNumber(line[:bytes.IndexByte(line, sign)])
		end = end && isNumber(line[bytes.LastIndexByte(line, sign)+1:])
		if bytes.IndexByte(line, ' ') > 0 && !hasWords(line, maxField*minFields+1) {
			spaced++
		}
		if run >= madeLeast && (first || end) && spaced*minFields >= run {
			return true
		}
	}
	return false
}

// hasWords reports whether a line has so many words, or more.
func hasWords(line []byte, n int) bool {
	for range bytes.FieldsSeq(line) {
		if n--; n == 0 {
			return true
		}
	}
	return false
}

// isByTurns reports whether lines are the fields of records by turns: a number
// at the same place of each.
func isByTurns(text []byte) bool {
	var kinds []bool
	for len(text) > 0 && len(kinds) < 4*madeWindow {
		var line []byte
		line, text = cutLine(text)
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if hasWords(line, maxField+1) {
			kinds = kinds[:0]
			continue
		}
		kinds = append(kinds, isNumber(bytes.TrimLeft(line, "-*• ")))
	}
	return periodic(kinds, madeLeast)
}

// periodic reports whether kinds repeat themselves at least so many times, with
// both kinds in each turn.
func periodic(kinds []bool, times int) bool {
	for period := minFields; period <= madePeriod && period*times <= len(kinds); period++ {
		same, both := true, false
		for i := period; i < len(kinds) && same; i++ {
			same = kinds[i] == kinds[i-period]
		}
		for _, kind := range kinds[:period] {
			both = both || kind != kinds[0]
		}
		if same && both {
			return true
		}
	}
	return false
}

// isColumns reports whether text has two lists of as many lines each, under a
// name of their own: the columns of a table.
func isColumns(text []byte, has *census) bool {
	if has['-'] < minFields*madeLeast || has[':'] == 0 {
		return false
	}
	last, n := 0, 0
	for len(text) > 0 {
		var line []byte
		line, text = cutLine(text)
		switch line = bytes.TrimSpace(line); {
		case bytes.HasPrefix(line, []byte("- ")) && !hasWords(line, maxField+1):
			n++
			if n == last && n >= madeLeast && (len(text) == 0 || !bytes.HasPrefix(bytes.TrimSpace(text), []byte("- "))) {
				return true
			}
		case bytes.HasSuffix(line, []byte{':'}):
			last, n = n, 0
		default:
			last, n = 0, 0
		}
	}
	return false
}

// splits are what records of one line are apart by.
var splits = []string{"; ", ";", " | ", "><", "} ", "}", ") ", "), ", "] ", ". ", "<br>", "<br/>"}

// isMadeInLine reports whether text of one or two lines has rows of one make
// that signs or brackets keep apart.
func isMadeInLine(text []byte) bool {
	if bytes.Count(bytes.TrimSpace(text), []byte{'\n'}) >= minRows {
		return false
	}
	for _, s := range splits {
		if bytes.Count(text, []byte(s)) < madeLeast {
			continue
		}
		lines := bytes.ReplaceAll(text, []byte(s), []byte(s[:1]+"\n"))
		if _, ok := findDelimited(bytes.ReplaceAll(text, []byte(s), []byte{'\n'}), ','); ok {
			return true
		}
		if isMade(lines) {
			return true
		}
	}
	return false
}

// lineEnds are what some programs end lines with besides a line feed.
var lineEnds = []string{"\u2028", "\u2029", "\u0085", "\v", "\f", "\x1e"}

// relined returns text with all line ends the same, nil where they are.
func relined(text []byte, has *census) []byte {
	var out []byte
	for _, end := range lineEnds {
		if has[end[0]] < minRows-1 || bytes.Count(text, []byte(end)) < minRows-1 {
			continue
		}
		if out == nil {
			out = text
		}
		out = bytes.ReplaceAll(out, []byte(end), []byte{'\n'})
	}
	return out
}

var (
	rowTags  = lazy.Regexp(`(?i)<br ?/?>|</(?:li|tr|p|div|h[1-6]|option)>|<(?:dt|tr|li)\b[^>]*>`)
	cellTags = lazy.Regexp(`(?i)</(?:td|th|dt|span|b|i|strong|em)>|<dd\b[^>]*>`)
	anyTag   = lazy.Regexp(`<[/!a-zA-Z][^<>]{0,400}>`)
	entity   = lazy.Regexp(`&(?:[a-zA-Z]{2,8}|#[0-9]{1,6}|#[xX][0-9a-fA-F]{1,5});`)
	hexCodes = lazy.Regexp(`(?:\\u00|\\x)([0-9a-fA-F]{2})`)
	printed  = lazy.Regexp(`=([0-9A-F]{2})|=\r?\n`)
)

// flat returns what a page of text shows, a line each row and a tab between
// cells; nil where text has no markup.
func flat(text []byte, has *census) []byte {
	if has['<'] < minRows {
		return nil
	}
	text = sample(text)
	if bytes.Count(text, []byte{'<'}) < minRows {
		return nil
	}
	out := rowTags().ReplaceAll(text, []byte("\n"))
	out = cellTags().ReplaceAll(out, []byte("\t"))
	if bytes.Equal(out, text) {
		return nil
	}
	out = anyTag().ReplaceAll(out, nil)
	var b []byte
	for len(out) > 0 {
		var line []byte
		line, out = cutLine(out)
		if line = bytes.Trim(line, " \t"); len(line) > 0 {
			b = append(append(b, line...), '\n')
		}
	}
	return b
}

// decodedHex is for the codes of characters in a text.
func decodedHex(text []byte, codes *regexp.Regexp) []byte {
	return codes.ReplaceAllFunc(text, func(code []byte) []byte {
		if len(code) < 3 || code[len(code)-1] == '\n' {
			return nil
		}
		n, err := strconv.ParseUint(string(code[len(code)-2:]), 16, 8)
		if err != nil {
			return code
		}
		return []byte{byte(n)}
	})
}

// plainer returns text in which characters that are written as codes stand as
// themselves: entities of HTML, escapes of programs, quoted-printable.
func plainer(text []byte, has *census) []byte {
	const least = 2 * minRows
	switch {
	case has['&'] >= least && len(entity().FindAllIndex(text, least)) == least:
		return []byte(html.UnescapeString(string(text)))
	case has['\\'] >= least && len(hexCodes().FindAllIndex(text, least)) == least:
		return decodedHex(text, hexCodes())
	case has['='] >= least && bytes.Contains(text, []byte("=0A")) && len(printed().FindAllIndex(text, least)) == least:
		return decodedHex(text, printed())
	}
	return nil
}

// revealed returns text with the letters, digits and signs of ASCII in the place of
// those that only look or hide like them, and without what is not seen at all: full
// width, tags, zero width. It is nil where there are few of them. A full-width sign
// between letters of another script is that script's own.
func revealed(text []byte, has *census) []byte {
	const least = 2 * minRows
	unseen := has.of("\x8b\x8c\x8d\x8e\x8f\xa0\xa1\xa2\xa3\xa4\xaa\xab\xac\xad\xae")
	if int(has[0xef]) < least && int(has[0xf3]) < least && (int(has[0xe2]) < least || unseen < least) {
		return nil
	}
	var out []byte
	changed, kept := 0, 0
	for i := unusual(text, 0); i < len(text); i = unusual(text, i) {
		r, size := utf8.DecodeRune(text[i:])
		var plain byte
		switch {
		case r >= 0xff01 && r <= 0xff5e:
			plain = byte(r - 0xfee0)
			if !isWord(plain) && (i == 0 || i+size == len(text) || !latin(text[:i], true) || !latin(text[i+size:], false)) {
				plain = 0
			}
		case r >= 0xe0020 && r <= 0xe007e:
			plain = byte(r - 0xe0000)
		case r >= 0x200b && r <= 0x200f, r >= 0x2060 && r <= 0x2064, r >= 0x202a && r <= 0x202e, r == 0xfeff:
		default:
			i += size
			continue
		}
		if plain == 0 && r >= 0xff01 && r <= 0xff5e {
			i += size
			continue
		}
		changed++
		out = append(out, text[kept:i]...)
		if plain != 0 {
			out = append(out, plain)
		}
		i += size
		kept = i
	}
	if changed < least {
		return nil
	}
	return append(out, text[kept:]...)
}

// latin reports whether text ends, or begins, with a letter, digit or sign of ASCII
// or one of its full width.
func latin(text []byte, end bool) bool {
	r, _ := utf8.DecodeRune(text)
	if end {
		r, _ = utf8.DecodeLastRune(text)
	}
	return r < utf8.RuneSelf || r >= 0xff01 && r <= 0xff5e
}

// from85 decodes Ascii85 between its own marks.
func from85(text []byte) ([]byte, bool) {
	i := bytes.Index(text, []byte("<~"))
	if i < 0 {
		return nil, false
	}
	body := text[i+2:]
	j := bytes.Index(body, []byte("~>"))
	if j < 0 {
		return nil, false
	}
	body = body[:j]
	out := make([]byte, 4*len(body)+4)
	n, _, err := ascii85.Decode(out, body, true)
	return out[:n], err == nil
}

func from32(digits []byte) ([]byte, bool) {
	digits = bytes.TrimRight(digits, "=")
	for _, c := range digits {
		if (c < 'A' || c > 'Z') && (c < '2' || c > '7') {
			return nil, false
		}
	}
	out := make([]byte, len(digits))
	n, err := base32.StdEncoding.WithPadding(base32.NoPadding).Decode(out, digits)
	return out[:n], err == nil
}

// squeezed returns text without space where it is nothing but digits of base64
// or hexadecimal in short groups; nil where it is not.
func squeezed(text []byte) []byte {
	n := 0
	for _, c := range text {
		switch {
		case digit[c] || c == '=':
			n++
		case c != ' ' && c != '\n' && c != '\r' && c != '\t':
			return nil
		}
	}
	if n < minRun || n == len(bytes.TrimSpace(text)) {
		return nil
	}
	out := make([]byte, 0, n)
	for _, c := range text {
		if digit[c] || c == '=' {
			out = append(out, c)
		}
	}
	return out
}
