package clients

import (
	_ "embed"
	"net/url"
	"strings"
	"sync"
	"unicode"
)

// The presets that an import proposes, see package policy. A server that a
// client already used keeps working; one whose results are people's records,
// mail or a database starts with the cautious one.
const (
	Workbench = "workbench"
	Strict    = "strict"
)

//go:embed words/strict.txt
var strictFile string

var strictWords = sync.OnceValue(func() []string {
	var words []string
	for line := range strings.Lines(strictFile) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			words = append(words, line)
		}
	}
	return words
})

// propose returns a preset and why, for a person.
func propose(s Server) (preset, why string) {
	for _, word := range wordsOf(s) {
		for _, known := range strictWords() {
			stem, open := strings.CutSuffix(known, "*")
			if word == stem || open && strings.HasPrefix(word, stem) {
				return Strict, "“" + word + "” suggests records, mail or a database"
			}
		}
	}
	return Workbench, "it was already in use without a gate"
}

// wordsOf are the words of a server's name, program, package and host. Folders
// and other arguments are left out: a path called "mail" says nothing.
func wordsOf(s Server) []string {
	texts := []string{s.Key, baseOf(s.Command)}
	words := s.Args
	if _, isRunner := map[string]bool{"npx": true, "bunx": true, "uvx": true, "pnpx": true, "pipx": true, "uv": true, "bun": true, "pnpm": true, "yarn": true, "npm": true}[baseOf(s.Command)]; isRunner {
		words = runnerWords(words)
	}
	for _, w := range words {
		isPath := strings.HasPrefix(w, "/") || strings.HasPrefix(w, "~") || strings.HasPrefix(w, ".") || strings.Contains(w, `:\`)
		if !strings.HasPrefix(w, "-") && !isPath && !strings.Contains(w, "=") {
			texts = append(texts, w)
			if len(texts) > 4 {
				break // a package comes first, its own arguments after it
			}
		}
	}
	if u, err := url.Parse(s.URL); err == nil {
		texts = append(texts, u.Hostname())
	}
	var out []string
	for _, t := range texts {
		if scheme, _, ok := strings.Cut(t, "://"); ok {
			t = scheme // postgres://... says what it is; the rest may be a secret
		}
		out = append(out, strings.FieldsFunc(strings.ToLower(t), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })...)
	}
	return out
}
