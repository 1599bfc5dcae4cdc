package catalog

import (
	"strings"
	"sync"
	"unicode"

	"github.com/kljensen/snowball/english"
)

// analyzer turns text into terms: lower-case stems, without words that every
// text has. It remembers stems, since few words make up most texts. The terms
// it returns are good until it is asked again.
type analyzer struct {
	stems map[string]string // "" for a word that is left out
	out   []string
}

func newAnalyzer() *analyzer { return &analyzer{stems: map[string]string{}} }

func (a *analyzer) terms(s string) []string {
	a.out = a.out[:0]
	for field := range strings.FieldsFuncSeq(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if isPlain(field) {
			a.add(field)
			continue
		}
		pieces := words(field)
		if len(pieces) > 1 && len(field) <= 12 { // "GitHub" is one word as well as two
			a.add(strings.ToLower(field))
		}
		for _, w := range pieces {
			a.add(w)
		}
	}
	return a.out
}

// isPlain reports whether a word is one word in lower case as it stands.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 || s[i] >= 'A' && s[i] <= 'Z' {
			return false
		}
	}
	return true
}

func (a *analyzer) add(w string) {
	s, ok := a.stems[w]
	if !ok {
		if r := []rune(w); isIdeograph(r[0]) && len(r) > 2 { // in pairs of characters
			for i := range len(r) - 1 {
				a.out = append(a.out, string(r[i:i+2]))
			}
			return
		}
		if !stopWords[w] {
			s = stem(w)
		}
		a.stems[strings.Clone(w)] = s
	}
	if s != "" {
		a.out = append(a.out, s)
	}
}

// isIdeograph reports whether a character is of Chinese or its like, which
// write no spaces.
func isIdeograph(r rune) bool { return r > 0x2e7f }

// stem is the Porter2 stem, but for the words of words/stems.txt, which its
// rules take apart or run together.
func stem(w string) string {
	if len(w) < 4 || len(w) > 40 {
		return w
	}
	w = oneSpelling(w)
	if s, ok := oddStems()[w]; ok {
		return s
	}
	return english.Stem(w, false)
}

// oneSpelling writes a word the American way. Words that only look British
// come out changed the same way wherever they are met.
func oneSpelling(w string) string {
	for _, s := range spellings {
		if head, ok := strings.CutSuffix(w, s[0]); ok && len(head) > 2 { // "hours" is no "hors"
			return head + s[1]
		}
	}
	return w
}

var spellings = func() (all [][2]string) {
	for _, s := range [][2]string{{"ise", "ize"}, {"yse", "yze"}, {"our", "or"}, {"tre", "ter"}, {"ogue", "og"}} {
		for _, end := range []string{"", "s", "d", "r"} {
			all = append(all, [2]string{s[0] + end, s[1] + end})
		}
	}
	return append(all, [][2]string{{"ising", "izing"}, {"isation", "ization"}, {"isations", "izations"}, {"ysing", "yzing"}, {"oured", "ored"}, {"ouring", "oring"}, {"ourite", "orite"}, {"ourites", "orites"}}...)
}()

// oddStems are the stems of words/stems.txt.
var oddStems = sync.OnceValue(func() map[string]string {
	odd := map[string]string{}
	eachLine("stems", func(head, body string) error {
		ws := strings.Fields(body)
		of := ws[0]
		if head == "same" {
			of = english.Stem(of, false)
		}
		for _, w := range ws {
			odd[w] = of
		}
		return nil
	})
	return odd
})

var stopWords = wordSet(`a an the of to in on for and or with my me i it its is be been was were are am do does did this that these those there
	all any some please can could would should will may might must you your we our us he she they them their from by at as if so not no into onto out up about than then
	want wants wanted need needs needed help like using use used via e g i.e eg etc just also s t re ve ll d let get's lets i'm im have has had having what how which who whom whose
	tool tools api given based provided specific specified using various allows allow provides provide support supports new one two`)
