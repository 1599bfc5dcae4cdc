package artifacts

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// minRows and minFields say from where on lines or values are records: three
// rows of two fields. Fewer is an answer, not a table.
const (
	minRows   = 3
	minFields = 2
)

// looksLikeRecords reports whether text holds records in an encoding that is
// not JSON: delimited lines, aligned columns, blocks of names and values,
// literals of a programming language, or markup.
func looksLikeRecords(text []byte, has *census) bool {
	if len(text) < 2*minRows {
		return false
	}
	if has.of("\r\n") > 0 {
		lines := text
		if has['\r'] == 0 {
			lines = text[sentencesSize(text, has):]
		}
		for _, delim := range delimiters {
			if has[delim] < minRows {
				continue
			}
			among := text
			if delim == ',' || delim == ';' {
				among = lines
			}
			if _, ok := findDelimited(among, delim); ok {
				return true
			}
		}
		words := text
		if has.of("=@") == 0 {
			words = lines
		}
		if has[gapless] == 0 && isAligned(text) || has.of(":|=") >= minFields*minRows && isPairs(text) || isWords(words) || isDashed(text, has) {
			return true
		}
	}
	return has.of("([{") >= minRows && isBrackets(text) || has['<'] >= minRows && isMarkup(text)
}

// unescaped returns text without one more layer of escapes, as programs leave
// that print a string's literal or put it into an address: "a,b\\n1,2" and
// "a%2Cb%0A1%2C2". It is nil where there is no such layer.
func unescaped(text []byte, has *census) []byte {
	switch {
	case has.of("\\%") < minRows-1:
	case bytes.Count(text, []byte(`\n`)) >= minRows-1 || bytes.Count(text, []byte(`\r`)) >= minRows-1:
		return []byte(literalEscapes.Replace(string(text)))
	case bytes.Count(text, []byte("%0A"))+bytes.Count(text, []byte("%0a"))+bytes.Count(text, []byte("%7B")) >= minRows-1:
		if plain, err := url.QueryUnescape(string(text)); err == nil {
			return []byte(plain)
		}
	}
	return nil
}

var literalEscapes = strings.NewReplacer(`\n`, "\n", `\r`, "\n", `\t`, "\t", `\"`, `"`, `\'`, `'`, `\\`, `\`)

// cutLine returns the first line of b without its end, and the rest. A lone
// carriage return ends a line too.
func cutLine(b []byte) (line, rest []byte) {
	i := lineBreakAt(b)
	if i < 0 {
		return b, nil
	}
	if b[i] == '\r' && i+1 < len(b) && b[i+1] == '\n' {
		return b[:i], b[i+2:]
	}
	return b[:i], b[i+1:]
}

// lineBreakAt returns where the first line break of b is, -1 without one. It
// looks no further than it has to for either kind.
func lineBreakAt(b []byte) int {
	for at := 0; at < len(b); at += maxMade {
		part := b[at:min(len(b), at+maxMade)]
		i := bytes.IndexByte(part, '\n')
		if i >= 0 {
			part = part[:i]
		}
		if j := bytes.IndexByte(part, '\r'); j >= 0 {
			return at + j
		}
		if i >= 0 {
			return at + i
		}
	}
	return -1
}

// delimiters separate the fields of a line, the surest first. A colon counts
// only in lines of four fields, as in a file of accounts.
var delimiters = []byte{'\t', '|', ',', ';', ':'}

// A block is a run of lines with the same number of fields.
type block struct {
	delim      byte
	start, end int // offsets in the text
	fields     int
	rows       int // lines but for rules and, where a rule follows it, the heading
	heading    bool
}

// maxQuotedLines bounds how many lines one quoted field may span.
const maxQuotedLines = 32

// findDelimited finds the first run of rows that delim separates.
func findDelimited(text []byte, delim byte) (block, bool) {
	if bytes.IndexByte(text, delim) < 0 {
		return block{}, false
	}
	var run block
	var key []byte // what a labelled first field is called
	prose := (delim == ',' || delim == ';') && bytes.IndexByte(text, '\r') < 0
	for at := 0; at < len(text); {
		if prose && run.rows < minRows {
			if size := sentenceSize(text[at:], delim); size > 0 {
				run, key = block{delim: delim, start: at, end: at + size}, nil
				at += size
				continue
			}
		}
		size := recordSize(text[at:], delim)
		line := bytes.TrimRight(text[at:at+size], "\r\n")
		switch n, label := fieldsOf(line, delim); {
		case len(bytes.TrimSpace(line)) == 0:
			if run.rows >= minRows {
				return run, true
			}
		case run.fields > 0 && isRule(line):
			if run.rows == 1 && !run.heading {
				run.heading, run.rows = true, 0
			}
			run.end = at + size
		case n == run.fields && n > 0 && bytes.Equal(key, label):
			run.rows++
			run.end = at + size
		case run.rows >= minRows:
			return run, true
		default:
			run, key = block{delim: delim, start: at, end: at + size, fields: n}, label
			if n > 0 {
				run.rows = 1
			} else if bytes.IndexByte(line, delim) < 0 {
				size += toDelimiter(text[at+size:], delim)
			}
		}
		at += size
	}
	return run, run.rows >= minRows
}

// sentencesSize returns how many bytes the lines take that a text begins with, up to
// the first of which it is not certain that it is no row of what commas or semicolons
// keep apart and begins none: each of them ends as a sentence does or is empty, each
// comma or semicolon has a space behind it, and no quote begins a field. Line feeds
// alone end lines. Such a line is no row of words either, where it has neither sign
// that [isWords] looks for.
func sentencesSize(text []byte, has *census) int {
	if len(text) == 0 || !inSentence('\n', text[0]) {
		return 0
	}
	at := 1
	if has[sentences] == 1 {
		at = len(text)
	}
	for ; at+8 <= len(text); at += 8 { // as inSentence, of eight at a time
		prev, here := binary.LittleEndian.Uint64(text[at-1:]), binary.LittleEndian.Uint64(text[at:])
		p, h := prev&^highBits, here&^highBits
		parts := (equal(p, ',') | equal(p, ';')) &^ prev
		quote := (equal(p, '"') | equal(p, '\n')) & equal(h, '"') &^ (prev | here)
		stops := (equal(p, '.') | equal(p, '!') | equal(p, '?') | equal(p, '\n')) &^ prev
		space, breaks := equal(h, ' ')&^here, equal(h, '\n')&^here
		if m := (parts&^space | quote | breaks&^stops) & highBits; m != 0 {
			return lastBreak(text[:at+bits.TrailingZeros64(m)/8])
		}
	}
	for ; at < len(text); at++ {
		if !inSentence(text[at-1], text[at]) {
			return lastBreak(text[:at])
		}
	}
	if isStop(text[at-1]) {
		return at
	}
	return lastBreak(text)
}

// equal sets the high bits of the bytes of w that are c. All are of ASCII.
func equal(w uint64, c byte) uint64 { return highBits - (w ^ uint64(c)*eachByte) }

// inSentence reports whether a byte may stand behind another in lines that
// [sentencesSize] knows.
func inSentence(prev, c byte) bool {
	switch {
	case prev == ',' || prev == ';':
		return c == ' '
	case c == '"':
		return prev != '"' && prev != '\n'
	case c == '\n':
		return prev == '\n' || isStop(prev)
	}
	return true
}

func isStop(c byte) bool { return c == '.' || c == '!' || c == '?' }

// sentenceSize returns how many bytes the first line takes with its end where it is
// certain that it is no row and begins none, 0 where that takes a closer look: it
// ends as a sentence does, has the delimiter with a space behind it each time, and
// no quote in it begins a field. Line feeds alone end lines.
func sentenceSize(text []byte, delim byte) int {
	end := nextByte(text, '\n', 0)
	line := text[:end]
	if end == 0 || !isStop(line[end-1]) {
		return 0
	}
	at := nextByte(line, delim, 0)
	if at == end {
		return 0
	}
	for ; at < end; at = nextByte(line, delim, at+1) {
		if line[at+1] != ' ' { // the last byte is none
			return 0
		}
	}
	for at = nextByte(line, '"', 0); at < end; at = nextByte(line, '"', at+1) {
		if at == 0 || line[at-1] == delim || line[at-1] == '"' {
			return 0
		}
	}
	return min(end+1, len(text))
}

// toDelimiter returns where the next line begins that has the delimiter, or a
// quote that may carry it on.
func toDelimiter(text []byte, delim byte) int {
	to := bytes.IndexByte(text, delim)
	if to < 0 {
		return len(text)
	}
	if delim != '|' && delim != ':' {
		if quote := bytes.IndexByte(text[:to], '"'); quote >= 0 {
			to = quote
		}
	}
	return lastBreak(text[:to])
}

// recordSize returns how many bytes the next line takes with its end, and with
// the lines that a quoted field carries on into.
func recordSize(b []byte, delim byte) int {
	line, rest := cutLine(b)
	first := len(b) - len(rest)
	if delim == '|' || delim == ':' || bytes.IndexByte(line, '"') < 0 {
		return first
	}
	open, size := quoteOpen(line, delim, false), first
	for range maxQuotedLines {
		if !open || size == len(b) {
			break
		}
		line, rest = cutLine(b[size:])
		open, size = quoteOpen(line, delim, true), len(b)-len(rest)
	}
	if open { // no field is that long: the quote meant nothing
		return first
	}
	return size
}

// quoteOpen reports whether a quoted field is open at the end of line.
func quoteOpen(line []byte, delim byte, open bool) bool {
	for i := 0; ; i++ {
		n := bytes.IndexByte(line[i:], '"')
		if n < 0 {
			return open
		}
		i += n
		open = !open && (i == 0 || line[i-1] == delim || line[i-1] == '"')
	}
}

// fieldsOf returns how many fields line has, 0 where it is no row, and, in a
// row whose fields carry their own names, the first name: rows of one table
// begin with the same one, sentences do not.
func fieldsOf(line []byte, delim byte) (n int, label []byte) {
	line = bytes.TrimSpace(line)
	if delim == '|' {
		line = bytes.TrimSuffix(bytes.TrimPrefix(line, []byte{'|'}), []byte{'|'})
		n = bytes.Count(line, []byte{'|'}) - bytes.Count(line, []byte("||"))*2 - bytes.Count(line, []byte(`\|`)) + 1
		return atLeast(n, minFields), nil
	}
	line = bytes.TrimSuffix(line, []byte{delim})
	seps, spaced := separators(line, delim)
	switch {
	case seps == 0:
		return 0, nil
	case delim == '\t':
		return seps + 1, nil
	case delim == unitSeparator:
		return atLeast(seps+1, 3), nil
	case delim == ':':
		if spaced > 0 || bytes.Contains(line, []byte("://")) {
			return 0, nil
		}
		return atLeast(seps+1, 4), nil
	case spaced < seps:
		return seps + 1, nil
	}
	return spacedFields(line, delim, seps)
}

func atLeast(n, least int) int {
	if n < least {
		return 0
	}
	return n
}

// spacedFields tells "Alice, 30, Oslo" from a sentence with commas.
func spacedFields(line []byte, delim byte, seps int) (int, []byte) {
	if bytes.IndexByte([]byte(".!?:"), line[len(line)-1]) >= 0 {
		return 0, nil
	}
	var label []byte
	for i, field := range bytes.Split(line, []byte{delim}) {
		if len(bytes.Fields(field)) > 4 {
			return 0, nil
		}
		if name, _, ok := bytes.Cut(field, []byte(": ")); ok && i == 0 {
			label = name
		}
	}
	return seps + 1, label
}

// separators counts delim outside quotes, and how often a space follows it.
// Commas that group the digits of a number in running text do not count.
func separators(line []byte, delim byte) (n, spaced int) {
	quote, at := nextByte(line, '"', 0), nextByte(line, delim, 0)
	for at < len(line) {
		if quote < at {
			if opensField(line, quote, delim) {
				end := nextByte(line, '"', quote+1)
				if end == len(line) {
					break
				}
				quote, at = end, nextByte(line, delim, end+1)
			}
			quote = nextByte(line, '"', quote+1)
			continue
		}
		if delim != ',' || !groupsDigits(line, at) {
			n++
			if at+1 < len(line) && line[at+1] == ' ' {
				spaced++
			}
		}
		at = nextByte(line, delim, at+1)
	}
	return n, spaced
}

// nextByte returns where c stands in b from i on, len(b) where it does not.
func nextByte(b []byte, c byte, i int) int {
	if n := bytes.IndexByte(b[i:], c); n >= 0 {
		return i + n
	}
	return len(b)
}

// opensField reports whether the quote at i is the first of a field.
func opensField(line []byte, i int, delim byte) bool {
	for i--; i >= 0; i-- {
		if line[i] != ' ' || delim == ' ' {
			return line[i] == delim || line[i] == '"'
		}
	}
	return true
}

// groupsDigits reports whether the comma at i is one as in "of 1,234 files".
func groupsDigits(line []byte, i int) bool {
	digits := 0
	for j := i + 1; j < len(line) && isDigit(line[j]); j++ {
		digits++
	}
	j := i - 1
	for j >= 0 && isDigit(line[j]) {
		j--
	}
	return digits == 3 && j < i-1 && j >= 0 && (line[j] == ' ' || line[j] == '$')
}

// isRule reports whether line only draws, as under the heading of a table.
func isRule(line []byte) bool {
	dashes := 0
	for i := 0; i < len(line); i++ {
		switch c := line[i]; c {
		case '-', '=':
			dashes++
		case '|', '+', ':', ' ', '\t', ',':
		default:
			if !bytes.HasPrefix(line[i:], []byte("─")) && !bytes.HasPrefix(line[i:], []byte("┼")) {
				return false
			}
			dashes++
			i += 2
		}
	}
	return dashes >= 2
}

// isAligned reports whether lines form columns that two or more spaces keep
// apart, as the tables of command lines do.
func isAligned(text []byte) bool {
	if !hasGap(text) {
		return false
	}
	rows := 0
	var last []column
	for len(text) > 0 {
		var line []byte
		line, text = cutLine(text)
		if isRule(line) && last != nil {
			continue
		}
		columns := columnsOf(line)
		switch {
		case columns == nil:
			rows = 0
		case !sameColumns(last, columns) || isHeading(line):
			rows = 1
			if isHeading(line) {
				rows = 0
			}
		default:
			rows++
		}
		if rows >= minRows {
			return true
		}
		last = columns
	}
	return false
}

// hasGap reports whether text has two spaces side by side.
func hasGap(text []byte) bool {
	i := 0
	for ; i+9 <= len(text); i += 8 {
		this, next := binary.LittleEndian.Uint64(text[i:]), binary.LittleEndian.Uint64(text[i+1:])
		x := (this ^ ' '*eachByte) | (next ^ ' '*eachByte)
		if (x-eachByte)&^x&highBits != 0 {
			return true
		}
	}
	return bytes.Contains(text[i:], []byte("  "))
}

type column struct{ start, end int } // in runes

// columnsOf splits a line at gaps of two or more spaces; nil where it is no row.
func columnsOf(line []byte) []column {
	body := bytes.TrimRight(line, " \t")
	if len(body) > 1<<12 || !bytes.Contains(bytes.TrimLeft(body, " \t"), []byte("  ")) {
		return nil
	}
	var columns []column
	var fields [][]byte
	pos := 0
	for len(body) > 0 {
		cut := len(body) - len(bytes.TrimLeft(body, " \t"))
		pos, body = pos+cut, body[cut:]
		field := body
		if i := bytes.Index(body, []byte("  ")); i >= 0 {
			field = body[:i]
		}
		width := utf8.RuneCount(field)
		columns = append(columns, column{pos, pos + width})
		fields = append(fields, field)
		pos, body = pos+width, body[len(field):]
	}
	// A name with a colon and its value is a line of one record; a word and a
	// sentence is a list of explanations; lines that only draw hold a tree.
	if len(columns) < minFields || said(fields) < minFields || bytes.HasSuffix(fields[0], []byte{':'}) ||
		len(columns) == minFields && len(bytes.Fields(fields[1])) > 3 {
		return nil
	}
	return columns
}

// said counts the fields that have a letter or a digit.
func said(fields [][]byte) int {
	n := 0
	for _, f := range fields {
		if bytes.ContainsFunc(f, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

func sameColumns(a, b []column) bool {
	if len(a) != len(b) {
		return false
	}
	for i := 1; i < len(a); i++ {
		if a[i].start != b[i].start && a[i].end != b[i].end {
			return false
		}
	}
	return true
}

// isHeading reports whether a line of columns is all capitals.
func isHeading(line []byte) bool {
	return bytes.Equal(line, bytes.ToUpper(line)) && !bytes.ContainsAny(line, "0123456789") && bytes.ContainsAny(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
}

// isPairs reports whether text is a list of blocks of names and values, as in
// YAML or in the long form of a database's output: a name comes back three
// times with another name in between each time.
func isPairs(text []byte) bool {
	if bytes.IndexByte(text, ':') < 0 && bytes.IndexByte(text, '|') < 0 && bytes.IndexByte(text, '=') < 0 {
		return false
	}
	var first []byte
	rows, fields := 0, 0
	for len(text) > 0 {
		var line []byte
		line, text = cutLine(text)
		name, ok := pairName(line)
		switch {
		case !ok && (len(line) == 0 || isIndented(line) || isTitle(line)):
		case !ok:
			first, rows, fields = nil, 0, 0
		case first == nil:
			first, rows, fields = name, 0, 1
		case !bytes.Equal(name, first):
			fields++
		case fields >= minFields:
			rows, fields = rows+1, 1
		default: // the same name again: the block begins here
			rows, fields = 0, 1
		}
		if rows == minRows-1 && fields >= minFields {
			return true
		}
	}
	return false
}

// isTitle reports whether a line may head a block: short, and no sentence.
func isTitle(line []byte) bool {
	line = bytes.TrimSpace(line)
	return len(line) == 0 || len(line) <= 64 && len(bytes.Fields(line)) <= 5 && bytes.IndexByte([]byte(".!?;,"), line[len(line)-1]) < 0
}

func isIndented(line []byte) bool { return len(line) > 0 && (line[0] == ' ' || line[0] == '\t') }

// pairName returns the name in "name: value", "- name: value", "name | value"
// or "name = value".
func pairName(line []byte) ([]byte, bool) {
	line = bytes.TrimSpace(line)
	line = bytes.TrimLeft(line, "-*• ")
	i := bytes.IndexAny(line[:min(len(line), 48)], ":|=")
	if i <= 0 || i+1 < len(line) && line[i] == ':' && line[i+1] != ' ' && line[i+1] != '*' {
		return nil, false
	}
	name := bytes.Trim(line[:i], " *\"'`")
	if bytes.IndexFunc(name, unicode.IsDigit) >= 0 && bytes.IndexFunc(name, unicode.IsLetter) >= 0 {
		name = bytes.Map(withoutDigits, name) // numbered: one of each row's
	}
	return name, len(name) > 0 && len(bytes.Fields(name)) <= 3
}

func withoutDigits(r rune) rune {
	if r >= '0' && r <= '9' {
		return -1
	}
	return r
}

// unitSeparator takes the place of a dash or an arrow between spaces.
const unitSeparator = 0x1f

// isDashed reports whether lines are rows whose three or more fields dashes or
// arrows keep apart.
func isDashed(text []byte, has *census) bool {
	for _, sep := range []string{" - ", " – ", " — ", " -> ", " → ", " => "} {
		if has[sep[1]] < 2*minRows || bytes.Count(text, []byte(sep)) < 2*minRows {
			continue
		}
		if _, ok := findDelimited(bytes.ReplaceAll(text, []byte(sep), []byte{unitSeparator}), unitSeparator); ok {
			return true
		}
	}
	return false
}

// A wordLine is what is noted of a line of words apart by single spaces.
type wordLine struct {
	words [][]byte
	label []byte // the first name of name=value pairs, where there are two or more
	mail  bool   // it has an address, and more
}

// isWords reports whether lines of words are rows: three that begin with the
// same of several name=value pairs, that have an address each, or that have as
// many words each, with numbers first or last and three or more that vary.
func isWords(text []byte) bool {
	pairs, mails, same := 0, 0, 0
	var last, l wordLine
	var numeric, varying [maxWords]bool
	equals, mail := -1, -1 // where the next of these stands
	for at := 0; at < len(text); {
		line, rest := cutLine(text[at:])
		from := at
		at = len(text) - len(rest)
		if n := len(line); n > 0 && n <= maxWordLine && endsWords(line[n-1]) {
			if equals < from {
				equals = nextByte(text, '=', from)
			}
			if mail < from {
				mail = nextByte(text, '@', from)
			}
			if equals >= from+n && mail >= from+n { // as one word: it ends every run
				pairs, mails, same = 0, 0, 0
				continue
			}
		}
		if l.read(line); len(l.words) == 0 {
			continue
		}
		pairs = count(pairs, l.label != nil, bytes.Equal(l.label, last.label))
		mails = count(mails, l.mail, true)
		if same = count(same, len(l.words) >= 3, len(l.words) == len(last.words)); same <= 1 {
			numeric, varying = [maxWords]bool{}, [maxWords]bool{}
			for i := range l.words {
				numeric[i] = same == 1
			}
		}
		for i, w := range l.words {
			numeric[i] = numeric[i] && isNumber(w)
			varying[i] = varying[i] || same > 1 && !bytes.Equal(w, last.words[i])
		}
		if pairs >= minRows || mails >= minRows || same >= minRows && (numeric[0] || numeric[len(l.words)-1]) && anyOf(varying[:], 3) {
			return true
		}
		last, l = l, last // whose words are overwritten next
	}
	return false
}

// count is a run's new length: one more where the line is one and goes on with
// it, 1 where it begins another, else 0.
func count(run int, is, goesOn bool) int {
	switch {
	case !is:
		return 0
	case goesOn:
		return run + 1
	}
	return 1
}

func anyOf(list []bool, least int) bool {
	n := 0
	for _, is := range list {
		if is {
			n++
		}
	}
	return n >= least
}

const (
	maxWords    = 16      // of a line that may be a row
	maxWordLine = 1 << 10 // bytes of one
)

// endsWords reports whether a line that ends so is a sentence or code.
func endsWords(c byte) bool { return bytes.IndexByte([]byte(".!?:;,{}()"), c) >= 0 }

// read notes a line, in the place of another. A sentence, a line of code and a
// long line are no row of words: of those it keeps the first.
func (l *wordLine) read(line []byte) {
	l.words, l.label, l.mail = l.words[:0], nil, false
	line = bytes.TrimSpace(line)
	if len(line) == 0 || len(line) > maxWordLine {
		return
	}
	ends := endsWords(line[len(line)-1])
	if ends && bytes.IndexByte(line, '=') < 0 && bytes.IndexByte(line, '@') < 0 {
		l.words = append(l.words, line)
		return
	}
	l.mail = hasAddress(line)
	named := 0
	for w := range bytes.FieldsSeq(line) {
		if len(l.words) < maxWords {
			l.words = append(l.words, w)
		}
		if i := bytes.IndexByte(w, '='); i > 0 && isName(w[:i]) {
			if named++; named == 1 {
				l.label = w[:i]
			}
		}
	}
	if named < minFields {
		l.label = nil
	}
	if len(l.words) == maxWords || ends {
		l.words = l.words[:1]
	}
}

func isName(b []byte) bool {
	for _, c := range b {
		if !isWord(c) && c != '.' && c != '-' {
			return false
		}
	}
	return true
}

// isNumber reports whether a word is a number, a date, a time or a size.
func isNumber(w []byte) bool {
	digits := 0
	for _, c := range w {
		switch {
		case isDigit(c):
			digits++
		case bytes.IndexByte([]byte(".,:-+/%$#KMGTBZ"), c) < 0:
			return false
		}
	}
	return digits > 0
}

// hasAddress reports whether a line has a mail address and something beside it.
func hasAddress(line []byte) bool {
	at := bytes.IndexByte(line, '@')
	if at <= 0 || at+3 >= len(line) {
		return false
	}
	from, to := at, at+1
	for from > 0 && (isWord(line[from-1]) || bytes.IndexByte([]byte(".+-"), line[from-1]) >= 0) {
		from--
	}
	for to < len(line) && (isWord(line[to]) || line[to] == '.' || line[to] == '-') {
		to++
	}
	return from < at && bytes.IndexByte(line[at+1:max(to-1, at+1)], '.') > 0 && len(bytes.Trim(line[:from], " -*<(\t"))+len(bytes.Trim(line[to:], " >)\t")) > 1
}

// A group is an open bracket of a literal.
type group struct {
	open        byte
	commas      int
	rows        int  // groups of two parts inside
	empty, call bool // nothing in it; the arguments of a call
}

// literals is the state of [isBrackets]. The group at the bottom is the text.
type literals struct {
	stack []group
	prev  byte // the last byte that is no space
}

// isBrackets reports whether text holds rows as a literal that need not be
// JSON: Python's or Ruby's print of a list, values of SQL, lines of arrays. Three
// groups of two parts must stand beside each other, inside one bracket or at
// the top, and none may be the arguments of a call.
func isBrackets(text []byte) bool {
	l := literals{stack: []group{{}}, prev: ' '}
	for i := 0; i < len(text); i++ {
		c := text[i]
		top := &l.stack[len(l.stack)-1]
		switch c {
		case ' ', '\t', '\n', '\r':
			continue
		case '(', '[', '{':
			if len(l.stack) == maxNesting {
				return true // too deep to tell
			}
			call := i > 0 && (isWord(text[i-1]) || text[i-1] == ']' || text[i-1] == ')')
			l.stack = append(l.stack, group{open: c, empty: true, call: call})
		case ')', ']', '}':
			if l.close() {
				return true
			}
		case ',', ';':
			top.commas++
		default:
			top.empty = false
			if top.open == 0 {
				top.rows = 0 // what stands beside is no list
			} else if (c == '"' || c == '\'') && bytes.IndexByte([]byte("([{,:=>"), l.prev) >= 0 {
				i = skipQuoted(text, i)
			}
		}
		l.prev = c
	}
	return false
}

// close ends the innermost group and reports whether that makes its parent a
// table.
func (l *literals) close() bool {
	if len(l.stack) == 1 {
		l.stack[0].rows = 0
		return false
	}
	g := l.stack[len(l.stack)-1]
	l.stack = l.stack[:len(l.stack)-1]
	parent := &l.stack[len(l.stack)-1]
	parent.empty = false
	fields := g.commas + 1
	if l.prev == ',' || g.empty {
		fields--
	}
	// A list inside a mapping is one of its values, not a row.
	if fields >= minFields && !g.call && !(parent.open == '{' && g.open == '[') {
		parent.rows++
	}
	return parent.rows >= minRows
}

// maxNesting bounds every stack kept while looking at foreign bytes.
const maxNesting = 512

// skipQuoted returns the offset of the quote that closes the one at i, or i
// where none does within 64 KiB.
func skipQuoted(text []byte, i int) int {
	for j := i + 1; j < len(text) && j < i+1<<16; j++ {
		switch text[j] {
		case '\\':
			j++
		case text[i]:
			return j
		}
	}
	return i
}

func isWord(c byte) bool {
	return c == '_' || isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'z'
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// An element is an open tag.
type element struct {
	name   string
	fields int // attributes, and elements inside
	rows   int
}

// isMarkup reports whether text has, inside one element, three elements of two
// parts each: the rows of an HTML table, or repeated elements of XML.
func isMarkup(text []byte) bool {
	if bytes.IndexByte(text, '<') < 0 || !bytes.Contains(text, []byte("</")) && !bytes.Contains(text, []byte("/>")) {
		return false
	}
	stack := []element{{}}
	for {
		tag, rest, ok := nextTag(text)
		if !ok {
			return false
		}
		text = rest
		for inner := stack[len(stack)-1].name; !tag.end && impliesEnd(inner, tag.name); inner = stack[len(stack)-1].name {
			stack = closeElement(stack, inner)
		}
		switch {
		case tag.end:
			stack = closeElement(stack, tag.name)
		case tag.single:
			stack = append(stack, element{name: tag.name, fields: tag.attributes})
			stack = closeElement(stack, tag.name)
		case len(stack) >= maxNesting:
			return true
		default:
			stack = append(stack, element{name: tag.name, fields: tag.attributes})
		}
		if stack[len(stack)-1].rows >= minRows {
			return true
		}
	}
}

// impliesEnd reports whether the open element ends where next begins: HTML lets
// the ends of rows and cells be left out.
func impliesEnd(open, next string) bool {
	cell := open == "td" || open == "th"
	return cell && (next == "td" || next == "th" || next == "tr") || open == "tr" && next == "tr"
}

// closeElement ends the innermost element called name, and with it those
// inside that were never ended.
func closeElement(stack []element, name string) []element {
	at := len(stack) - 1
	for at > 0 && stack[at].name != name {
		at--
	}
	if at == 0 {
		return stack
	}
	for len(stack) > at {
		e := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		parent := &stack[len(stack)-1]
		parent.fields++
		if e.fields >= minFields {
			parent.rows++
		}
		parent.rows = max(parent.rows, 0)
		if parent.rows >= minRows {
			break
		}
	}
	return stack
}

type tag struct {
	name        string
	end, single bool
	attributes  int
}

// nextTag finds the next tag of text.
func nextTag(text []byte) (tag, []byte, bool) {
	for {
		i := bytes.IndexByte(text, '<')
		if i < 0 || i+1 >= len(text) {
			return tag{}, nil, false
		}
		text = text[i+1:]
		var t tag
		if text[0] == '/' {
			t.end = true
			text = text[1:]
		}
		n := 0
		for n < len(text) && n < 64 && (isWord(text[n]) || text[n] == '-' || text[n] == ':' || text[n] == '.') {
			n++
		}
		if n == 0 || isDigit(text[0]) {
			continue
		}
		t.name = lowerName(text[:n])
		window := text[n:min(len(text), n+1<<12)]
		end := bytes.IndexByte(window, '>')
		if end < 0 {
			continue
		}
		body := window[:end]
		t.attributes = attributesOf(body)
		t.single = bytes.HasSuffix(body, []byte{'/'}) || voidTags[t.name]
		return t, text[n+end+1:], true
	}
}

// attributesOf counts the attributes in a tag that have a value, in quotes or not.
func attributesOf(body []byte) (n int) {
	for {
		i := bytes.IndexByte(body, '=')
		if i < 0 {
			return n
		}
		n++
		body = bytes.TrimLeft(body[i+1:], " \t\r\n")
		end := -1
		if len(body) > 0 && (body[0] == '"' || body[0] == '\'') {
			end = bytes.IndexByte(body[1:], body[0]) + 1
		} else {
			end = bytes.IndexAny(body, " \t\r\n")
		}
		if end <= 0 {
			return n
		}
		body = body[end:]
	}
}

// lowerName avoids an allocation for the names that tables are made of.
func lowerName(b []byte) string {
	switch string(b) {
	case "td", "TD":
		return "td"
	case "tr", "TR":
		return "tr"
	case "th", "TH":
		return "th"
	}
	return string(bytes.ToLower(b))
}

// voidTags are never ended; the presentation they stand for is no field.
var voidTags = map[string]bool{"br": true, "hr": true, "img": true, "input": true, "meta": true, "link": true, "wbr": true, "col": true}
