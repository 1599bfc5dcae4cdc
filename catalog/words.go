package catalog

import (
	_ "embed"
	"fmt"
	"strings"
	"unicode"

	"github.com/mcp-gate/mcp-gate/engagement"
)

//go:embed words/verbs.txt
var verbsFile string

// verbs says what each word of a name gives away about a tool's effect.
var verbs = mustVerbs(verbsFile)

// mustVerbs reads the embedded table. It panics on a line it does not
// understand, which the first test run of any build shows.
func mustVerbs(file string) map[string]engagement.Permission {
	table := map[string]engagement.Permission{}
	for line := range strings.Lines(file) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		class, words, ok := strings.Cut(line, ":")
		var p engagement.Permission
		if err := p.UnmarshalText([]byte(class)); !ok || err != nil {
			panic(fmt.Sprintf("catalog/words/verbs.txt: line %q: %v", line, err))
		}
		for _, w := range strings.Fields(words) {
			table[w] = max(table[w], p)
		}
	}
	return table
}

// words takes an identifier or a text apart into lower-case words: at
// everything that is no letter or digit, and where camelCase goes up.
func words(s string) []string {
	var out []string
	var word []rune
	flush := func() {
		if len(word) > 0 {
			out = append(out, string(word))
			word = word[:0]
		}
	}
	rs := []rune(s)
	for i, r := range rs {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			flush()
			continue
		case unicode.IsUpper(r) && i > 0 && (unicode.IsLower(rs[i-1]) || unicode.IsDigit(rs[i-1])):
			flush()
		case unicode.IsUpper(r) && i > 0 && i+1 < len(rs) && unicode.IsUpper(rs[i-1]) && unicode.IsLower(rs[i+1]):
			flush()
		}
		word = append(word, unicode.ToLower(r))
	}
	flush()
	return out
}
