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
	for period := 1; period <= madePeriod; period++ {
		w.period = period
		if w.find(text) {
			return true
		}
		if w.lines < (period+1)*madeLeast {
			break
		}
	}
	return false
}

var comparisons = sync.Pool{New: func() any { return &comparison{counts: map[uint64]*tally{}} }}

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
	hash     uint64
	from, to int // in its record
	word     bool
}

// A record is one or more lines taken apart.
type record struct {
	text   []byte
	tokens []token
}

// comparison holds the records that are compared.
type comparison struct {
	period  int
	lines   int // seen in all
	records [madeWindow]record
	n       int
	counts  map[uint64]*tally
}

// tally is how often a token stands in how many records.
type tally struct {
	per     [4]int // records in which it stands 1, 2, 3, and 4 times
	record  int
	here    int
	settled int // how often it stands in a record of this make; 0 where that varies
}

func (w *comparison) find(text []byte) bool {
	w.n, w.lines = 0, 0
	var rec []byte
	in := 0
	add := func(line []byte) bool {
		if in > 0 {
			rec = append(rec, '\n')
		}
		rec = append(rec, line...)
		if in++; in < w.period {
			return false
		}
		w.records[w.n].read(rec)
		rec, in = rec[:0], 0
		if w.n++; w.n < madeWindow {
			return false
		}
		found := w.same()
		// The second half is the first of the next window.
		for i := range madeWindow / 2 {
			w.records[i], w.records[i+madeWindow/2] = w.records[i+madeWindow/2], w.records[i]
		}
		w.n = madeWindow / 2
		return found
	}
	for len(text) > 0 {
		var line []byte
		line, text = cutLine(text)
		line = bytes.TrimSpace(line)
		if len(line) == 0 || isRule(line) || isStatement(line) {
			continue
		}
		w.lines++
		if len(line) > maxMade {
			line = line[:maxMade]
		}
		if add(line) {
			return true
		}
	}
	return w.n >= madeLeast && w.same()
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

// read takes a record apart. Signs that hold together paths, addresses, dates
// and numbers are parts of words.
func (r *record) read(text []byte) {
	r.text = append(r.text[:0], text...)
	r.tokens = r.tokens[:0]
	text = r.text
	for i := 0; i < len(text) && len(r.tokens) < maxTokens; {
		c := text[i]
		if c == ' ' {
			i++
			continue
		}
		n := wordSize(text[i:])
		word := n > 0
		if !word {
			n = 1
			if c >= utf8.RuneSelf {
				_, n = utf8.DecodeRune(text[i:])
			}
		}
		r.tokens = append(r.tokens, token{maphash.Bytes(seed, text[i:i+n]), i, i + n, word})
		i += n
	}
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

// same reports whether three in four of the records are of one make.
func (w *comparison) same() bool {
	least := max(madeLeast, w.n*3/4)
	w.count()
	settled := 0
	for hash, t := range w.counts {
		t.settled = 0
		for times, n := range t.per {
			if n >= least {
				t.settled = times + 1
				switch hash {
				case lineBreak, closing[0], closing[1], closing[2]:
				default:
					settled++
				}
			}
		}
	}
	// One sign in each line may be chance where lines are few.
	if settled < w.period || settled < minFields && w.n < madeWindow {
		return false
	}
	var keys [madeWindow]uint64
	for i := range w.n {
		keys[i] = w.key(&w.records[i])
	}
	for i := range w.n - least + 1 {
		alike := 0
		for j := range w.n {
			if keys[j] == keys[i] {
				alike++
			}
		}
		if alike >= least && !w.isList(&w.records[i], keys[:w.n], keys[i]) && w.varying(keys[:w.n], keys[i], alike) >= minFields {
			return true
		}
	}
	return false
}

var (
	lineBreak = maphash.String(seed, "\n")
	closing   = [...]uint64{maphash.String(seed, ")"), maphash.String(seed, "]"), maphash.String(seed, "}")}
	naming    = [...]uint64{maphash.String(seed, ":"), maphash.String(seed, "=")}
)

func (w *comparison) count() {
	clear(w.counts)
	for i := range w.n {
		for _, t := range w.records[i].tokens {
			c := w.counts[t.hash]
			if c == nil {
				if len(w.counts) > 4*maxTokens*madeWindow {
					return
				}
				c = &tally{record: i}
				w.counts[t.hash] = c
			}
			if c.record != i {
				c.close()
				c.record, c.here = i, 0
			}
			c.here++
		}
	}
	for _, c := range w.counts {
		c.close()
	}
}

func (t *tally) close() {
	if t.here > 0 {
		t.per[min(t.here, len(t.per))-1]++
	}
}

// key is the make of a record: its settled tokens in order, and where something
// stands between them.
func (w *comparison) key(r *record) uint64 {
	k, gap := uint64(14695981039346656037), false
	for _, t := range r.tokens {
		if w.counts[t.hash] == nil || w.counts[t.hash].settled == 0 {
			if !gap {
				k = (k ^ 1) * 1099511628211
			}
			gap = true
			continue
		}
		k = (k ^ t.hash) * 1099511628211
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
		switch c := w.counts[t.hash]; {
		case t.hash == lineBreak:
			lines = append(lines, 0)
			gap = false
		case c != nil && c.settled > 0:
			lines[len(lines)-1] = lines[len(lines)-1]*1099511628211 ^ t.hash
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
		switch c := w.counts[t.hash]; {
		case c == nil || c.settled == 0:
		case slices.Contains(naming[:], t.hash):
			names++
		case t.word || bytes.IndexByte([]byte(`"',;?-*`), r.text[t.from]) < 0:
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
		text := w.records[i].text
		name := bytes.Trim(text[:max(bytes.IndexAny(text, ":="), 0)], "-*• \"'")
		all++
		if len(bytes.Fields(name)) >= minFields {
			said++
		}
	}
	return said*2 > all
}

// varying counts the places between settled tokens that hold three or more
// different things, none of them in three of four records, and no sentences.
func (w *comparison) varying(keys []uint64, key uint64, alike int) int {
	type place struct {
		values map[uint64]int
		long   int // with sentences
		spoken int // with words
	}
	var places []place
	for i := range keys {
		if keys[i] != key {
			continue
		}
		at, words, from, to := 0, 0, -1, 0
		r := &w.records[i]
		close := func() {
			if from < 0 {
				return
			}
			if at == len(places) {
				places = append(places, place{values: map[uint64]int{}})
			}
			p := &places[at]
			p.values[maphash.Bytes(seed, r.text[from:to])]++
			if words > maxField {
				p.long++
			}
			if words > 0 {
				p.spoken++
			}
			at, words, from = at+1, 0, -1
		}
		for _, t := range r.tokens {
			if c := w.counts[t.hash]; c != nil && c.settled > 0 {
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
	for _, p := range places {
		most := 0
		for _, times := range p.values {
			most = max(most, times)
		}
		if len(p.values) >= minRows && most*4 <= alike*3 && p.long*4 <= alike && p.spoken*2 > alike {
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
		if bytes.IndexByte(line, ' ') > 0 && len(bytes.Fields(line)) <= maxField*minFields {
			spaced++
		}
		if run >= madeLeast && (first || end) && spaced*minFields >= run {
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
		if len(bytes.Fields(line)) > maxField {
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
func isColumns(text []byte) bool {
	last, n := 0, 0
	for len(text) > 0 {
		var line []byte
		line, text = cutLine(text)
		switch line = bytes.TrimSpace(line); {
		case bytes.HasPrefix(line, []byte("- ")) && len(bytes.Fields(line)) <= maxField:
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
func relined(text []byte) []byte {
	var out []byte
	for _, end := range lineEnds {
		if bytes.Count(text, []byte(end)) < minRows-1 {
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
func flat(text []byte) []byte {
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
func plainer(text []byte) []byte {
	const least = 2 * minRows
	switch {
	case bytes.IndexByte(text, '&') >= 0 && len(entity().FindAllIndex(text, least)) == least:
		return []byte(html.UnescapeString(string(text)))
	case bytes.IndexByte(text, '\\') >= 0 && len(hexCodes().FindAllIndex(text, least)) == least:
		return decodedHex(text, hexCodes())
	case bytes.Contains(text, []byte("=0A")) && len(printed().FindAllIndex(text, least)) == least:
		return decodedHex(text, printed())
	}
	return nil
}

// from85 decodes Ascii85 between its own marks.
func from85(text []byte) ([]byte, bool) {
	i := bytes.Index(text, []byte("<~"))
	if i < 0 {
		return nil, false
	}
	j := bytes.Index(text[i:], []byte("~>"))
	if j < 0 {
		return nil, false
	}
	body := text[i+2 : i+j]
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
