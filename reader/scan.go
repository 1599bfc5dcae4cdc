package reader

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mcp-gate/mcp-gate/engagement"
)

// A text longer than headBytes and tailBytes together is read at both ends: the
// request stands before or after what was pasted.
const (
	headBytes = 4 << 10
	tailBytes = 2 << 10
)

// maxCorrections bounds the unknown words that are compared with known ones.
const maxCorrections = 12

// pause is what separates a token from the one before it.
type pause uint8

const (
	pauseNone pause = iota
	pauseSoft       // a comma, a dash, an opening bracket
	pauseHard       // the end of a sentence, a list item, a paragraph
)

// token is one word of a request with all that the tables say of it.
type token struct {
	start, end int // of the word in page.norm
	pause      pause
	question   bool // the sentence that ends before this token asked
	quoted     bool // in quotation marks, code or a name: no ground for an act
	joined     bool // hyphenated to the word before

	class    *verbClass // of the longest verb that starts here
	form     form
	verbLen  int // words that the verb takes
	foreign  bool
	roles    roleSet // of the longest set phrase that starts here
	roleLen  int
	known    bool
	kinds    kindSet // of the longest object that starts here
	domains  engagement.DomainSet
	isObject bool

	objectLen int // words that the object takes
}

// page is a scanned request.
type page struct {
	lex     *lexicon
	norm    []byte // the words in lower case, one space between two
	tokens  []token
	letters int // of the whole text that was read
	other   int // runes that are neither letters, digits, space nor common marks

	endsAsking bool // the last sentence ends in a question mark
	code       bool // there is code in it
	money      bool // a sum of money is named
	arrow      bool // "old → new"
	names      int  // paths, addresses and references
	files      int  // of them, files and folders
	roles      roleSet

	next     pause
	question bool
}

// scan cuts a text into tokens and looks each one up.
func scan(lex *lexicon, text string) *page {
	text = bound(text)
	p := &page{lex: lex, norm: make([]byte, 0, len(text)+16), tokens: make([]token, 0, len(text)/5+4), next: pauseHard}
	fenced := false
	var before string
	for len(text) > 0 {
		line, rest, _ := strings.Cut(text, "\n")
		text = rest
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~") {
			fenced = !fenced
			p.code = true
			p.next = pauseHard
			trimmed = strings.Trim(trimmed, "`~")
			p.line(trimmed, true)
			continue
		}
		if breaks(before, trimmed) {
			p.next = pauseHard
		}
		code := fenced || looksLikeCode(trimmed)
		p.code = p.code || code || quotesCode(trimmed)
		p.line(trimmed, code)
		before = trimmed
	}
	p.endsAsking = p.question
	p.lookUp()
	return p
}

// bound keeps the two ends of a long text.
func bound(text string) string {
	if len(text) <= headBytes+tailBytes {
		return text
	}
	return strings.ToValidUTF8(text[:headBytes], "") + "\n\n" + strings.ToValidUTF8(text[len(text)-tailBytes:], "")
}

// breaks reports whether a line is a new sentence rather than a wrapped one.
func breaks(before, line string) bool {
	if line == "" || before == "" {
		return true
	}
	r, _ := utf8.DecodeRuneInString(line)
	return !unicode.IsLower(r)
}

// looksLikeCode reports whether a line is more likely pasted code or a log than
// prose, by the share of marks that prose hardly has.
func looksLikeCode(line string) bool {
	if strings.HasPrefix(line, "at ") && strings.Contains(line, ":") && strings.HasSuffix(line, ")") {
		return true
	}
	if plainWords(line, 3) {
		return false
	}
	marks := 0
	for i := range len(line) {
		if strings.IndexByte("{};=<>[]()|$\\+", line[i]) >= 0 {
			marks++
		}
	}
	return marks >= 4 && marks*9 >= len(line)
}

// quotesCode reports whether a line of prose has code or a fault of it in it.
func quotesCode(line string) bool {
	for _, mark := range [...]string{" => ", " == ", " != ", " += ", " = ", " && ", "()", ");", "Traceback (", "Error: ", "Exception: "} {
		if strings.Contains(line, mark) {
			return true
		}
	}
	return false
}

// plainWords reports whether a line begins with n words of letters alone.
func plainWords(line string, n int) bool {
	for word := range strings.FieldsSeq(line) {
		for i := range len(word) {
			if !isLetter(word[i]) && word[i] < 0x80 {
				return false
			}
		}
		if n--; n == 0 {
			return true
		}
	}
	return false
}

// line cuts a line into chunks at white space.
func (p *page) line(line string, code bool) {
	var quote rune
	for len(line) > 0 {
		i := strings.IndexFunc(line, func(r rune) bool { return !unicode.IsSpace(r) })
		if i < 0 {
			return
		}
		line = line[i:]
		end := strings.IndexFunc(line, unicode.IsSpace)
		if end < 0 {
			end = len(line)
		}
		quote = p.chunk(line[:end], quote, code, line[end:])
		line = line[end:]
	}
}

// chunk reads what stands between two spaces. It returns the quotation mark
// that is open after it; a mark that rest does not close opens nothing.
func (p *page) chunk(chunk string, quote rune, code bool, rest string) rune {
	switch chunk {
	case "-", "–", "—", "*", "•", "·", "--":
		p.next = max(p.next, pauseSoft)
		return quote
	case "&", "+":
		p.word("and", false, false)
		return quote
	case "→", "->":
		p.arrow = p.arrow || !code
		return quote
	}
	core := strings.TrimLeftFunc(chunk, opens)
	lead := chunk[:len(chunk)-len(core)]
	if strings.ContainsAny(lead, "([{") {
		p.next = max(p.next, pauseSoft)
	}
	if quote == 0 {
		quote = opened(lead, core, rest)
	}
	quoted := quote != 0 || code
	body := strings.TrimRightFunc(core, closes)
	tail := core[len(body):]
	if body != "" {
		p.body(body, quoted, tail)
	}
	if quote != 0 && strings.ContainsRune(tail, quote) {
		quote = 0
	}
	p.punctuate(tail, body)
	return quote
}

func opens(r rune) bool {
	switch r {
	case '(', '[', '{', '<', '"', '\'', '`', '“', '‘', '«', '*', '_', '¿', '¡', '>', '„':
		return true
	}
	return false
}

func closes(r rune) bool {
	switch r {
	case '.', ',', ';', ':', '!', '?', ')', ']', '}', '>', '"', '\'', '`', '”', '’', '»', '*', '_',
		'…', '。', '，', '；', '：', '！', '？', '、':
		return true
	}
	return false
}

// opened returns the mark that closes the quotation which lead opens, or 0 where
// neither the chunk nor the rest of the line has it.
func opened(lead, chunk, rest string) rune {
	for _, r := range lead {
		var end rune
		switch r {
		case '"', '`', '\'':
			end = r
		case '“', '„':
			end = '”'
		case '«':
			end = '»'
		default:
			continue
		}
		if strings.ContainsRune(chunk, end) || strings.ContainsRune(rest, end) {
			return end
		}
	}
	return 0
}

// punctuate takes the marks after a word for the pause before the next one.
func (p *page) punctuate(tail, body string) {
	for _, r := range tail {
		switch r {
		case '?', '？':
			p.next, p.question = pauseHard, true
		case '.', '!', ';', ':', '…', '。', '；', '！', '：':
			if r == '.' && isAbbreviation(body) {
				continue
			}
			p.next = pauseHard
		case ',', ')', ']', '，', '、':
			p.next = max(p.next, pauseSoft)
		}
	}
}

func isAbbreviation(body string) bool {
	switch strings.ToLower(body) {
	case "e.g", "i.e", "eg", "ie", "vs", "etc", "approx", "no", "dr", "mr", "mrs", "ms", "incl", "resp", "z.b", "ca":
		return true
	}
	return false
}

// body reads a chunk without the marks around it: a name of some kind, or words.
func (p *page) body(body string, quoted bool, tail string) {
	if e, words := p.name(body, tail); e != nil {
		p.names++
		if e.kinds.any(kindsOf(kindFile)) {
			p.files++
		}
		if !words {
			p.mark(body, e)
			return
		}
		at := len(p.tokens)
		p.words(body, true)
		if at < len(p.tokens) {
			t := &p.tokens[at]
			t.kinds, t.domains, t.isObject = t.kinds|e.kinds, t.domains.Union(e.domains), true
			return
		}
		p.mark(body, e)
		return
	}
	p.words(body, quoted)
}

// mark adds a name as one opaque token.
func (p *page) mark(body string, e *entry) {
	t := p.push(strings.ToLower(body))
	t.quoted, t.known, t.isObject = true, true, true
	t.kinds, t.domains = e.kinds, e.domains
	p.letters += len(body)
}

// words cuts at everything that is neither letter nor digit.
func (p *page) words(body string, quoted bool) {
	if p.simple(body, quoted) {
		return
	}
	joined := false
	start := -1
	flush := func(end int) {
		if start >= 0 {
			p.word(strings.ToLower(body[start:end]), quoted, joined)
			joined = true
		}
		start = -1
	}
	for i, r := range body {
		switch {
		case unicode.Is(unicode.Han, r), r >= 0x3040 && r < 0x3100:
			flush(i)
			if skip := p.han(body[i:], quoted); skip {
				p.letters++
			}
		case unicode.IsLetter(r), unicode.IsDigit(r), unicode.Is(unicode.Mn, r):
			if start < 0 {
				start = i
			}
			p.letters++
		case (r == '\'' || r == '’') && start >= 0:
		case r == utf8.RuneError || unicode.IsControl(r) || unicode.Is(unicode.Co, r):
			p.other++
			flush(i)
		case r == '€', r == '$', r == '£':
			p.money = true
			flush(i)
		default:
			flush(i)
		}
	}
	flush(len(body))
}

// simple adds a chunk that is one word of ASCII letters and digits, as most are.
func (p *page) simple(body string, quoted bool) bool {
	upper := false
	for i := range len(body) {
		c := body[i]
		if !isLetter(c) && (c < '0' || c > '9') {
			return false
		}
		upper = upper || c <= 'Z' && c >= 'A'
	}
	p.letters += len(body)
	if upper {
		body = strings.ToLower(body)
	}
	p.push(body).quoted = quoted
	return true
}

// word adds one word. Apostrophes go: "don't" is looked up as "dont", and a
// possessive loses its ending.
func (p *page) word(w string, quoted, joined bool) {
	if strings.ContainsAny(w, "'’") {
		w = strings.ReplaceAll(w, "’", "'")
		if owner, ok := strings.CutSuffix(w, "'s"); ok && !contracts(owner) {
			w = owner
		}
		w = strings.ReplaceAll(w, "'", "")
	}
	if w == "" {
		return
	}
	t := p.push(w)
	t.quoted, t.joined = quoted, joined
}

// contracts reports whether 's after the word stands for "is" or "us".
func contracts(w string) bool {
	switch w {
	case "what", "who", "where", "when", "how", "why", "it", "that", "there", "let", "here", "he", "she":
		return true
	}
	return false
}

func (p *page) push(w string) *token {
	if len(p.norm) > 0 {
		p.norm = append(p.norm, ' ')
	}
	start := len(p.norm)
	p.norm = append(p.norm, w...)
	p.tokens = append(p.tokens, token{start: start, end: len(p.norm), pause: p.next, question: p.question && p.next == pauseHard})
	p.next, p.question = pauseNone, false
	return &p.tokens[len(p.tokens)-1]
}

// han adds the longest known word of a script without spaces that starts here.
// It reports whether there was none.
func (p *page) han(rest string, quoted bool) bool {
	ends := [4]int{}
	n := 0
	for i, r := range rest {
		if n == len(ends) {
			break
		}
		ends[n] = i + utf8.RuneLen(r)
		n++
	}
	for ; n > 0; n-- {
		if end := ends[n-1]; end <= len(rest) {
			if e := p.lex.entries[rest[:end]]; e != nil {
				p.push(rest[:end]).quoted = quoted
				return false
			}
		}
	}
	return true
}

// lookUp gives every token what the tables say of the longest phrases that
// start there. A verb or an object inside a longer one is not seen on its own.
func (p *page) lookUp() {
	corrections := 0
	objectEnd := 0
	for i := range p.tokens {
		t := &p.tokens[i]
		word := p.text(t)
		n, ok := p.lex.longest[string(word)]
		if !ok && !t.quoted && !t.known && corrections < maxCorrections {
			corrections++
			if better := p.lex.correct(string(word)); better != "" {
				p.take(t, p.lex.entries[better], 1, &objectEnd, i)
				t.known = true
			}
			continue
		}
		for ; n > 0; n-- {
			j := i + n - 1
			if j >= len(p.tokens) || p.parted(i, j) {
				continue
			}
			e := p.lex.entries[string(p.norm[t.start:p.tokens[j].end])]
			if e != nil {
				p.take(t, e, n, &objectEnd, i)
			}
		}
	}
}

// take notes an entry that covers n words from token i on. Longer ones come first.
func (p *page) take(t *token, e *entry, n int, objectEnd *int, i int) {
	t.known = true
	if e.class != nil && t.class == nil {
		t.class, t.form, t.verbLen, t.foreign = e.class, e.form, n, e.foreign
	}
	switch {
	case e.roles != 0 && t.roles == 0:
		t.roles, t.roleLen = e.roles, n
	case t.roles.has(roleReadOnly) && e.roles.any(rolesOf(roleNegator, roleContrast)):
		t.roles, t.roleLen = t.roles|e.roles, n // "do not edit" is a cue as a whole, and negates
	}
	if e.domains != 0 && !t.isObject && i >= *objectEnd {
		t.kinds, t.domains, t.isObject, t.objectLen = e.kinds, e.domains, true, n
		*objectEnd = i + n
	}
}

// parted reports whether a sentence ends between tokens i and j.
func (p *page) parted(i, j int) bool {
	for k := i + 1; k <= j; k++ {
		if p.tokens[k].pause == pauseHard {
			return true
		}
	}
	return false
}

func (p *page) text(t *token) []byte { return p.norm[t.start:t.end] }

// isPlain reports whether scan would leave a phrase as it is.
func isPlain(phrase string) bool {
	for i := range len(phrase) {
		if c := phrase[i]; c != ' ' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// normal returns a phrase of the tables as scan would write it.
func normal(phrase string) string {
	if isPlain(phrase) {
		return phrase
	}
	p := &page{lex: &lexicon{}}
	for chunk := range strings.FieldsSeq(phrase) {
		p.words(chunk, false)
	}
	if len(p.norm) == 0 { // a word of a script that scan looks up as it stands
		return phrase
	}
	return string(p.norm)
}
