package catalog

import (
	"embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/mcp-gate/mcp-gate/engagement"
)

//go:embed words/*.txt
var wordFiles embed.FS

// lexicon is all that the embedded word lists say. It is read once and never
// changed.
type lexicon struct {
	verbs   map[string]verb
	effects map[string][]effectRule // by verb, in the file's order
	chinese []chineseVerb
	egress  egressWords
	domains map[string][]domainWeight
	begins  map[string]bool // what a word of domains that is made of several begins with
}

// verb is what one verb says about a tool's effect, see words/verbs.txt.
type verb struct {
	class              engagement.Permission
	noun, always, soft bool
}

// effectRule is a line of words/effects.txt for one of its verbs.
type effectRule struct {
	class       engagement.Permission
	any         bool // the object is "*"
	with, minus map[string]bool
	context     map[string]bool // empty: any
}

type chineseVerb struct{ text, verb string }

type egressWords struct {
	name, verb map[string]engagement.Egress
	text       []egressPhrase
}

type egressPhrase struct {
	text  string
	class engagement.Egress
}

type domainWeight struct {
	domain engagement.Domain
	weight float64
}

// lex is what the word lists say. They are read when a tool is first judged: most commands do neither, and reading them takes some 10 ms.
var lex = sync.OnceValue(func() *lexicon {
	l := mustLexicon()
	return &l
})

// mustLexicon reads the embedded lists. It panics on a line it does not
// understand, which the first test run of any build shows.
func mustLexicon() lexicon {
	l := lexicon{verbs: map[string]verb{}, effects: map[string][]effectRule{}, domains: map[string][]domainWeight{}, begins: map[string]bool{}}
	l.egress.name, l.egress.verb = map[string]engagement.Egress{}, map[string]engagement.Egress{}
	for _, f := range []struct {
		name string
		read func(head, body string) error
	}{
		{"verbs", l.readVerbs}, {"effects", l.readEffects}, {"chinese", l.readChinese},
		{"egress", l.readEgress}, {"domains", l.readDomains},
	} {
		eachLine(f.name, f.read)
	}
	l.prefixed()
	return l
}

// eachLine reads "head: body" lines of an embedded list.
func eachLine(name string, read func(head, body string) error) {
	file, err := wordFiles.ReadFile("words/" + name + ".txt")
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(file)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		head, body, ok := strings.Cut(line, ":")
		if !ok {
			panic(fmt.Sprintf("catalog/words/%s.txt: line %q has no colon", name, line))
		}
		if err := read(strings.TrimSpace(head), body); err != nil {
			panic(fmt.Sprintf("catalog/words/%s.txt: line %q: %v", name, line, err))
		}
	}
}

func (l *lexicon) readVerbs(head, body string) error {
	var class engagement.Permission
	if err := class.UnmarshalText([]byte(head)); err != nil {
		return err
	}
	for _, w := range strings.Fields(body) {
		v := verb{class: class}
		bare := strings.TrimRight(w, "?!~")
		v.noun = strings.Contains(w, "?")
		v.always = strings.Contains(w, "!")
		v.soft = strings.Contains(w, "~")
		if old, ok := l.verbs[bare]; ok && old.class >= class { // the worse of two readings
			continue
		}
		l.verbs[bare] = v
	}
	return nil
}

// rules are the lines of words/effects.txt for a verb. What is undone or done
// again with a file changes the file, as doing it did.
func (l *lexicon) rules(verb string) []effectRule {
	if own, ok := l.effects[verb]; ok || len(verb) < 5 {
		return own
	}
	if verb[:2] != "un" && verb[:2] != "re" {
		return nil
	}
	var out []effectRule
	for _, r := range l.effects[verb[2:]] {
		if r.class == engagement.SourceFileWrite {
			out = append(out, r)
		}
	}
	return out
}

// prefixed adds what verbs become with "re" and "un" before them: doing it
// again does the same, undoing it can be done again.
func (l *lexicon) prefixed() {
	more := map[string]verb{}
	for w, v := range l.verbs {
		if v.class > engagement.Read && len(w) > 3 {
			more["re"+w] = verb{class: v.class, noun: true} // "replays", "returns"
			more["un"+w] = verb{class: engagement.ReversibleWrite}
		}
	}
	for w, v := range more {
		if _, ok := l.verbs[w]; !ok {
			l.verbs[w] = v
		}
	}
}

func (l *lexicon) readEffects(head, body string) error {
	var r effectRule
	if err := r.class.UnmarshalText([]byte(head)); err != nil {
		return err
	}
	verbs, objects, ok := strings.Cut(body, " + ")
	if !ok {
		return fmt.Errorf("no objects")
	}
	objects, context, _ := strings.Cut(objects, " @ ")
	r.context = singulars(context)
	with, minus, _ := strings.Cut(objects, " - ")
	r.any = strings.TrimSpace(with) == "*"
	r.with, r.minus = singulars(with), singulars(minus)
	for _, v := range strings.Fields(verbs) {
		if _, known := l.verbs[v]; !known {
			return fmt.Errorf("%q is no verb of words/verbs.txt", v)
		}
		l.effects[v] = append(l.effects[v], r)
	}
	return nil
}

func singulars(list string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(list) {
		set[singular(w)] = true
	}
	return set
}

func (l *lexicon) readChinese(head, body string) error {
	for _, w := range strings.Fields(body) {
		l.chinese = append(l.chinese, chineseVerb{w, head})
	}
	return nil
}

func (l *lexicon) readEgress(head, body string) error {
	word, place, ok := strings.Cut(head, " ")
	var class engagement.Egress
	if err := class.UnmarshalText([]byte(word)); err != nil || !ok {
		return fmt.Errorf("want class and place: %w", err)
	}
	for _, w := range strings.Fields(body) {
		switch place {
		case "name":
			l.egress.name[singular(w)] = class
		case "verb":
			l.egress.verb[w] = class
		default:
			l.egress.text = append(l.egress.text, egressPhrase{strings.ReplaceAll(w, "_", " "), class})
		}
	}
	return nil
}

func (l *lexicon) readDomains(head, body string) error {
	word, weight, _ := strings.Cut(head, " ")
	var d engagement.Domain
	if err := d.UnmarshalText([]byte(word)); err != nil {
		return err
	}
	n, err := strconv.ParseFloat(weight, 64)
	if err != nil {
		return err
	}
	for _, w := range strings.Fields(body) {
		w = singular(w)
		for i := range len(w) {
			if w[i] == '_' {
				l.begins[w[:i]] = true
			}
		}
		i := slices.IndexFunc(l.domains[w], func(x domainWeight) bool { return x.domain == d })
		if i < 0 {
			l.domains[w] = append(l.domains[w], domainWeight{d, n})
		} else {
			l.domains[w][i].weight = max(l.domains[w][i].weight, n)
		}
	}
	return nil
}

// words takes an identifier or a text apart into lower-case words: at
// everything that is no letter or digit, and where camelCase goes up.
func words(s string) []string {
	out := make([]string, 0, 8)
	start := -1
	flush := func(end int) {
		if start >= 0 {
			out = append(out, strings.ToLower(s[start:end]))
			start = -1
		}
	}
	var before rune
	for i, r := range s {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			flush(i)
		} else {
			if start >= 0 && unicode.IsUpper(r) {
				next, _ := utf8.DecodeRuneInString(s[i+utf8.RuneLen(r):])
				if !unicode.IsUpper(before) || unicode.IsLower(next) && next != 's' {
					flush(i)
				}
			}
			if start < 0 {
				start = i
			}
		}
		before = r
	}
	flush(len(s))
	return out
}

// singular takes the plural off an English noun. Words that only look like
// plurals come out changed the same way wherever they are met.
func singular(w string) string {
	switch {
	case len(w) < 4 || !strings.HasSuffix(w, "s") || strings.HasSuffix(w, "ss") || strings.HasSuffix(w, "us") || strings.HasSuffix(w, "is"):
		return w
	case strings.HasSuffix(w, "ies") && len(w) > 4:
		return w[:len(w)-3] + "y"
	case strings.HasSuffix(w, "sses"), strings.HasSuffix(w, "shes"), strings.HasSuffix(w, "ches"), strings.HasSuffix(w, "xes"):
		return w[:len(w)-2]
	}
	return w[:len(w)-1]
}

// lemma finds the verb that w is a form of: "retrieves" and "retrieving" are
// "retrieve". A past form is none: "deleted items" says nothing of deleting.
func (l *lexicon) lemma(w string) (string, verb, bool) {
	for _, c := range verbForms(w) {
		if v, ok := l.verbs[c]; ok {
			return c, v, true
		}
	}
	return "", verb{}, false
}

func verbForms(w string) []string {
	forms := []string{w}
	switch {
	case strings.HasSuffix(w, "ies") && len(w) > 4:
		forms = append(forms, w[:len(w)-3]+"y")
	case strings.HasSuffix(w, "es") && len(w) > 3:
		forms = append(forms, w[:len(w)-1], w[:len(w)-2])
	case strings.HasSuffix(w, "s") && len(w) > 3 && !strings.HasSuffix(w, "ss"):
		forms = append(forms, w[:len(w)-1])
	case strings.HasSuffix(w, "ing") && len(w) > 5:
		stem := w[:len(w)-3]
		forms = append(forms, stem, stem+"e")
		if n := len(stem); stem[n-1] == stem[n-2] {
			forms = append(forms, stem[:n-1])
		}
	}
	return forms
}
