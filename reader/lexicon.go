package reader

import (
	"embed"
	"fmt"
	"strings"

	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/enum"
)

//go:embed words/*.txt
var wordFiles embed.FS

// kind is what a thing that a request speaks of is, as far as it matters to
// what its verb means: creating a ticket operates, creating a report authors.
type kind uint8

const (
	kindCode kind = iota + 1
	kindConfig
	kindTest
	kindRepo
	kindIssue
	kindTicket
	kindCI
	kindFile
	kindDoc
	kindText
	kindMessage
	kindChannel
	kindPerson
	kindEvent
	kindWeb
	kindLive
	kindPlace
	kindData
	kindQuery
	kindMigration
	kindBusiness
	kindInfra
	kindObs
	kindRemember
	kindWorkflow
	kindRule
	kindDevice
	kindMedia
)

var kinds = enum.Of[kind]("kind",
	"code", "config", "test", "repo", "issue", "ticket", "ci", "file", "doc", "text",
	"message", "channel", "person", "event", "web", "live", "place", "data", "query",
	"migration", "business", "infra", "obs", "remember", "workflow", "rule", "device", "media")

type kindSet uint32

func kindsOf(ks ...kind) kindSet {
	var s kindSet
	for _, k := range ks {
		s |= 1 << k
	}
	return s
}

func (s kindSet) any(t kindSet) bool { return s&t != 0 }

// role is what a small word or set phrase does in a sentence.
type role uint8

const (
	roleFiller role = iota + 1
	roleOpener
	roleGerund
	roleAsking
	roleNegator
	roleConnector
	roleContrast
	roleTo
	roleWhere
	roleWhy
	roleFact
	roleYesNo
	roleProof
	roleProblem
	roleDeterminer
	rolePreposition
	roleBe
	roleWantBe
	rolePronoun
	roleSubject
	roleConverse
	roleGoAhead
	roleDurable
	roleSession
	roleImmediate
	roleUnattended
	roleSupervised
	roleCited
	roleVerified
	roleAudited
	roleVague
	roleAmbiguous
	roleProduction
	roleCostly
	roleIrreversible
	roleReadOnly
	roleStanding
	roleImage
	roleAudio
	roleVideo
	roleFileish
	roleRecurring
	roleAdverbial
	roleSaved
	roleDeontic
	roleRemedy
	roleCommon
)

var roles = enum.Of[role]("role",
	"filler", "opener", "gerund", "asking", "negator", "connector", "contrast", "to",
	"where", "why", "fact", "yesno", "proof", "problem", "determiner", "preposition",
	"be", "wantbe", "pronoun", "subject", "converse", "goahead", "durable", "session",
	"immediate", "unattended", "supervised", "cited", "verified", "audited", "vague",
	"ambiguous", "production", "costly", "irreversible", "readonly", "standing",
	"image", "audio", "video", "fileish", "recurring", "adverbial", "saved", "deontic", "remedy", "common")

type roleSet uint64

func rolesOf(rs ...role) roleSet {
	var s roleSet
	for _, r := range rs {
		s |= 1 << r
	}
	return s
}

func (s roleSet) has(r role) bool    { return s&(1<<r) != 0 }
func (s roleSet) any(t roleSet) bool { return s&t != 0 }

// meaning is what a verb asks for, of a given kind of object or of any.
type meaning struct {
	act     engagement.Act
	stakes  engagement.Stakes
	domains engagement.DomainSet
	also    engagement.ActSet // acts that it may mean as well
}

// frame is a meaning that holds where the object is of one of some kinds.
type frame struct {
	kinds kindSet
	meaning
}

// verbClass is a set of verbs that ask for the same.
type verbClass struct {
	name   string
	plain  meaning // the object says nothing
	frames []frame // tried in order
}

// form says how a verb is inflected; one spelling may be several forms.
type form uint8

const (
	formBase form = 1 << iota
	formS
	formIng
	formPast
)

// entry is all that the tables say of one word or phrase.
type entry struct {
	class   *verbClass // nil: no verb
	form    form
	foreign bool // a verb or noun of another language than English
	roles   roleSet
	kinds   kindSet
	domains engagement.DomainSet
}

// lexicon is the compiled tables. It is immutable after compile.
type lexicon struct {
	entries map[string]*entry // words and phrases, lower case, single spaces
	longest map[string]int    // first word -> words in its longest phrase
	near    map[string]string // a spelling with one letter left out -> the word
	exts    map[string]*entry // file name extensions, without the dot
	classes map[string]*verbClass
	byKind  map[kind]engagement.DomainSet
	forms   map[string][2]string // irregular verbs: base -> past, participle
}

// compile reads the tables. An error names the file and line that is wrong.
func compile() (*lexicon, error) {
	lex := &lexicon{
		entries: make(map[string]*entry, 1<<14),
		longest: make(map[string]int, 1<<13),
		near:    make(map[string]string, 1<<15),
		exts:    map[string]*entry{},
		classes: map[string]*verbClass{},
		byKind:  map[kind]engagement.DomainSet{},
		forms:   map[string][2]string{},
	}
	for _, table := range []struct {
		name string
		read func(*lexicon) func(line string) error
	}{
		{"irregular.txt", readIrregular},
		{"objects.txt", readObjects},
		{"verbs.txt", readVerbs},
		{"cues.txt", readCues},
		{"other.txt", readOther},
	} {
		if err := readTable(table.name, table.read(lex)); err != nil {
			return nil, err
		}
	}
	lex.indexNear()
	return lex, nil
}

func readTable(name string, take func(line string) error) error {
	text, err := wordFiles.ReadFile("words/" + name)
	if err != nil {
		return fmt.Errorf("read word table %s: %w", name, err)
	}
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if err := take(line); err != nil {
			return fmt.Errorf("word table %s, line %d: %w", name, i+1, err)
		}
	}
	return nil
}

func readIrregular(lex *lexicon) func(string) error {
	return func(line string) error {
		f := strings.Fields(line)
		if len(f) != 3 {
			return fmt.Errorf("%q: want base, past and participle", line)
		}
		lex.forms[f[0]] = [2]string{f[1], f[2]}
		return nil
	}
}

func readObjects(lex *lexicon) func(string) error {
	var (
		set     kindSet
		domains engagement.DomainSet
	)
	return func(line string) error {
		if head, ok := header(line); ok {
			var err error
			set, domains, err = lex.objectHeader(head)
			return err
		}
		for _, phrase := range phrases(line) {
			if ext, ok := strings.CutPrefix(phrase, "."); ok && !strings.Contains(phrase, " ") {
				e := lex.exts[ext]
				if e == nil {
					e = &entry{}
					lex.exts[ext] = e
				}
				e.kinds |= set
				e.domains = e.domains.Union(domains)
				if phrase != ".env" {
					continue
				}
			}
			for _, spelling := range []string{phrase, plural(phrase)} {
				e := lex.entry(spelling)
				e.kinds |= set
				e.domains = e.domains.Union(domains)
			}
		}
		return nil
	}
}

// objectHeader reads "kind", "kind: domain ..." or "-: domain ...". A kind
// keeps the domains that its first header gave.
func (lex *lexicon) objectHeader(head string) (kindSet, engagement.DomainSet, error) {
	name, list, _ := strings.Cut(head, ":")
	domains, err := domainsOf(strings.Fields(list))
	if err != nil || name == "-" {
		return 0, domains, err
	}
	k, err := kinds.Parse(name)
	if err != nil {
		return 0, 0, err
	}
	lex.byKind[k] = lex.byKind[k].Union(domains)
	return kindsOf(k), lex.byKind[k], nil
}

func readVerbs(lex *lexicon) func(string) error {
	var class *verbClass
	return func(line string) error {
		switch {
		case strings.HasPrefix(line, "@ "):
			f := strings.Fields(line)
			m, err := readMeaning(f[2:])
			if err != nil {
				return err
			}
			class = &verbClass{name: f[1], plain: m}
			lex.classes[f[1]] = class
			return nil
		case class == nil:
			return fmt.Errorf("%q stands before the first class", line)
		case strings.HasPrefix(line, "> "):
			f, err := readFrame(line[2:])
			class.frames = append(class.frames, f)
			return err
		}
		for _, verb := range phrases(line) {
			for _, v := range lex.inflect(verb) {
				e := lex.entry(v.spelling)
				if e.class == nil || v.form&formBase != 0 && e.form&formBase == 0 {
					e.class, e.form = class, v.form
				} else if e.class == class {
					e.form |= v.form
				}
			}
		}
		return nil
	}
}

func readFrame(line string) (frame, error) {
	names, rest, ok := strings.Cut(line, ":")
	if !ok {
		return frame{}, fmt.Errorf("%q: want kinds, a colon and a meaning", line)
	}
	var f frame
	for _, name := range phrases(names) {
		k, err := kinds.Parse(name)
		if err != nil {
			return frame{}, err
		}
		f.kinds |= kindsOf(k)
	}
	m, err := readMeaning(strings.Fields(rest))
	f.meaning = m
	return f, err
}

// readMeaning reads "act stakes [domain ...] [+act ...]".
func readMeaning(words []string) (meaning, error) {
	var m meaning
	if len(words) < 2 {
		return m, fmt.Errorf("%q: want an act and its stakes", words)
	}
	if err := m.act.UnmarshalText([]byte(words[0])); err != nil {
		return m, err
	}
	if err := m.stakes.UnmarshalText([]byte(words[1])); err != nil {
		return m, err
	}
	var domains []string
	for _, w := range words[2:] {
		also, isAct := strings.CutPrefix(w, "+")
		if !isAct {
			domains = append(domains, w)
			continue
		}
		var act engagement.Act
		if err := act.UnmarshalText([]byte(also)); err != nil {
			return m, err
		}
		m.also = m.also.With(act)
	}
	var err error
	m.domains, err = domainsOf(domains)
	return m, err
}

func readCues(lex *lexicon) func(string) error {
	var r role
	return func(line string) (err error) {
		if head, ok := header(line); ok {
			r, err = roles.Parse(head)
			return err
		}
		for _, phrase := range phrases(line) {
			lex.entry(phrase).roles |= rolesOf(r)
		}
		return nil
	}
}

// readOther reads words of other languages. What the English tables know under
// the same spelling stays as it is.
func readOther(lex *lexicon) func(string) error {
	return func(line string) error {
		var e entry
		head, list, ok := strings.Cut(line, ":")
		class, isVerb := strings.CutPrefix(head, "@ ")
		switch {
		case !ok:
			return fmt.Errorf("%q: want a class or kind, a colon and words", line)
		case isVerb:
			if lex.classes[class] == nil {
				return fmt.Errorf("no verb class %q", class)
			}
			e = entry{class: lex.classes[class], form: formBase, foreign: true}
		default:
			k, err := kinds.Parse(strings.Trim(head, "[]"))
			if err != nil {
				return err
			}
			e = entry{kinds: kindsOf(k), domains: lex.byKind[k], foreign: true}
		}
		for _, phrase := range phrases(list) {
			if lex.entries[normal(phrase)] == nil {
				*lex.entry(phrase) = e
			}
		}
		return nil
	}
}

// entry returns the entry of a phrase, made if need be.
func (lex *lexicon) entry(phrase string) *entry {
	key := normal(phrase)
	e := lex.entries[key]
	if e == nil {
		e = &entry{}
		lex.entries[key] = e
	}
	first, rest, _ := strings.Cut(key, " ")
	n := 1
	if rest != "" {
		n = 2 + strings.Count(rest, " ")
	}
	lex.longest[first] = max(lex.longest[first], n)
	return e
}

// indexNear files every single word of five letters or more under each spelling
// that leaves one letter out, so that a slip of one letter finds it again.
func (lex *lexicon) indexNear() {
	for word, e := range lex.entries {
		if len(word) < 5 || e.foreign || strings.Contains(word, " ") || !isASCII(word) {
			continue
		}
		if e.class == nil && e.kinds == 0 {
			continue
		}
		for i := 1; i < len(word); i++ {
			cut := word[:i] + word[i+1:]
			// Map order is random; the smallest word wins so that the result is not.
			if old, ok := lex.near[cut]; !ok || word < old {
				lex.near[cut] = word
			}
		}
	}
}

// correct returns the known word that an unknown one is most likely a slip of,
// or "". It allows one letter too few, too many, other or swapped, never the first.
func (lex *lexicon) correct(word string) string {
	if len(word) < 5 || len(word) > 24 || !isASCII(word) {
		return ""
	}
	if w, ok := lex.near[word]; ok {
		return w
	}
	var buf [24]byte
	for i := 1; i < len(word); i++ {
		cut := append(append(buf[:0], word[:i]...), word[i+1:]...)
		if _, ok := lex.entries[string(cut)]; ok && len(cut) >= 5 {
			if e := lex.entries[string(cut)]; e.class != nil || e.kinds != 0 {
				return string(cut)
			}
		}
		if w, ok := lex.near[string(cut)]; ok && len(w) == len(word) && len(word) >= 6 {
			return w
		}
	}
	return ""
}

// inflection is a verb as it is spelled in one of its forms.
type inflection struct {
	spelling string
	form     form
}

// inflect returns the spellings of a verb. In a phrasal verb the first word is
// the one that changes.
func (lex *lexicon) inflect(verb string) []inflection {
	head, tail, phrasal := strings.Cut(verb, " ")
	if phrasal {
		tail = " " + tail
	}
	out := make([]inflection, 0, 5)
	for _, h := range spellings(head) {
		past, participle := withEd(h), ""
		if irregular, ok := lex.forms[h]; ok {
			past, participle = irregular[0], irregular[1]
		}
		out = append(out, inflection{h + tail, formBase}, inflection{withS(h) + tail, formS},
			inflection{withIng(h) + tail, formIng}, inflection{past + tail, formPast})
		if participle != "" && participle != past {
			out = append(out, inflection{participle + tail, formPast})
		}
	}
	return out
}

// spellings returns a verb as it is written on both sides of the Atlantic.
func spellings(verb string) []string {
	if s, ok := strings.CutSuffix(verb, "ize"); ok && len(verb) > 5 {
		return []string{verb, s + "ise"}
	}
	return []string{verb}
}

func withS(verb string) string { return plural(verb) }

func withIng(verb string) string {
	switch {
	case strings.HasSuffix(verb, "ee"), strings.HasSuffix(verb, "ye"), len(verb) < 3:
		return verb + "ing"
	case strings.HasSuffix(verb, "e"):
		return verb[:len(verb)-1] + "ing"
	case doubles(verb):
		return verb + verb[len(verb)-1:] + "ing"
	}
	return verb + "ing"
}

func withEd(verb string) string {
	n := len(verb)
	switch {
	case strings.HasSuffix(verb, "e"):
		return verb + "d"
	case n > 1 && verb[n-1] == 'y' && !isVowel(verb[n-2]):
		return verb[:n-1] + "ied"
	case doubles(verb):
		return verb + verb[n-1:] + "ed"
	}
	return verb + "ed"
}

// doubles reports whether a verb doubles its last letter: short ones of
// consonant, vowel, consonant, and a few longer ones stressed on the end.
func doubles(verb string) bool {
	n := len(verb)
	if n < 3 || isVowel(verb[n-1]) || strings.IndexByte("wxy", verb[n-1]) >= 0 {
		return false
	}
	if !isVowel(verb[n-2]) || isVowel(verb[n-3]) && verb[n-3] != 'u' {
		return false
	}
	return n <= 4 || strings.HasSuffix(verb, "mit") || strings.HasSuffix(verb, "fer")
}

// plural returns a noun's plural, or a verb's third person: the same rule.
func plural(word string) string {
	n := len(word)
	switch {
	case n < 2:
		return word + "s"
	case strings.HasSuffix(word, "s"), strings.HasSuffix(word, "x"), strings.HasSuffix(word, "z"),
		strings.HasSuffix(word, "ch"), strings.HasSuffix(word, "sh"):
		return word + "es"
	case word[n-1] == 'y' && !isVowel(word[n-2]):
		return word[:n-1] + "ies"
	}
	return word + "s"
}

func isVowel(b byte) bool { return strings.IndexByte("aeiou", b) >= 0 }

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

func header(line string) (string, bool) {
	if !strings.HasPrefix(line, "[") || !strings.HasSuffix(line, "]") {
		return "", false
	}
	return line[1 : len(line)-1], true
}

func phrases(line string) []string {
	var out []string
	for p := range strings.SplitSeq(line, ",") {
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, p)
		}
	}
	return out
}

func domainsOf(words []string) (engagement.DomainSet, error) {
	var set engagement.DomainSet
	for _, w := range words {
		var d engagement.Domain
		if err := d.UnmarshalText([]byte(w)); err != nil {
			return set, err
		}
		set = set.With(d)
	}
	return set, nil
}
