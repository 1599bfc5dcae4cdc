package catalog

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mcp-gate/mcp-gate/internal/lazy"
)

// Purpose returns what the tool is for in one line of at most n bytes: the
// first sentence of the description, else the title, without what stands before
// it and says nothing, cut at a word.
func (t Tool) Purpose(n int) string {
	s := firstLine(t.Description)
	if s == "" {
		s = firstLine(t.Title)
	}
	s = t.withoutLabel(s)
	if at := introduction().FindStringIndex(s); at != nil && at[1] < len(s) {
		r, size := utf8.DecodeRuneInString(s[at[1]:])
		s = string(unicode.ToUpper(r)) + s[at[1]+size:]
	}
	if len(s) <= n {
		return s
	}
	cut := strings.LastIndexByte(s[:n-len("…")+1], ' ')
	if cut <= 0 {
		cut = 0
		for i := range s { // no word fits: cut between runes
			if i > n-len("…") {
				break
			}
			cut = i
		}
	}
	return s[:cut] + "…"
}

// mostFirst is how much of a description its first sentence is looked for in.
const mostFirst = 2 << 10

// firstLine is the first sentence of a text on one line, without the marks and
// pictures before it. A paragraph ends it, and a line that begins with a mark or
// a heading.
func firstLine(s string) string {
	s = strings.TrimLeftFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune("#*_`>-=", r) || unicode.Is(unicode.So, r) || r == '\ufe0f'
	})
	if len(s) > mostFirst {
		s = strings.ToValidUTF8(s[:mostFirst], "")
	}
	head, rest, more := strings.Cut(s, "\n")
	for more {
		var line string
		line, rest, more = strings.Cut(rest, "\n")
		line = strings.TrimSpace(line)
		if r, _ := utf8.DecodeRuneInString(line); line == "" || !unicode.IsLetter(r) && !unicode.IsDigit(r) || heading().MatchString(line) {
			break
		}
		head += "\n" + line
	}
	s = strings.Join(strings.Fields(strings.ReplaceAll(head, "**", "")), " ")
	if i := strings.IndexAny(s, "。！？"); i > 0 {
		s = s[:i]
	}
	for from := 0; ; {
		i := strings.IndexAny(s[from:], ".!?")
		if i < 0 {
			break
		}
		if from += i + 1; from < len(s) && s[from] == ' ' && (s[from-1] != '.' || !abbreviated(s[:from-1])) {
			s = s[:from]
			break
		}
	}
	return strings.TrimRight(s, ".:")
}

// heading is a line such as "Args:" or "Error Responses:".
var heading = lazy.Regexp(`^[A-Z]\w*( \w+){0,2}:`)

// abbreviated reports whether a text ends in an abbreviation: what follows its
// full stop is no new sentence.
func abbreviated(s string) bool {
	last := s[strings.LastIndexAny(s, " (/")+1:]
	return strings.ContainsRune(last, '.') && len(last) <= 4 || abbreviations[strings.ToLower(last)]
}

var abbreviations = wordSet("vs approx incl excl resp max min cf no nr st dr mr mrs inc")

// withoutLabel drops what only repeats whose tool it is: "Notion | ", or the
// tool's own name with a mark behind it.
func (t Tool) withoutLabel(s string) string {
	for _, mark := range []string{" | ", ": ", " - ", " – ", " — "} {
		label, rest, ok := strings.Cut(s, mark)
		if !ok || rest == "" || len(label) > 60 {
			continue
		}
		own := slices.Concat(words(t.ID.Server), words(t.ID.Tool))
		if said := words(label); len(said) > 0 && !slices.ContainsFunc(said, func(w string) bool { return !slices.Contains(own, w) && !prefixes[w] }) {
			return rest
		}
	}
	return s
}

// introduction says that there is a tool, which the line says already.
var introduction = lazy.Regexp(`^(?i)(this (\w+ )?(tool|function|endpoint|command|method) (` + uses + ` )?|(an? (\w+ )?tool|tool|use this( tool)?) ` + uses + ` )`)

const uses = `((is |can be |may be )?(used |useful |designed |meant )?(to|for)|that( can)?|which( can)?|(helps|allows|lets|enables)( you)?( to)?|will|can)`
