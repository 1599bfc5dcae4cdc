package sieve

import (
	"math/rand/v2"
	"os"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"
)

// patterns have every construct that is taken apart; those of the scanner, which
// stand in catalog/words/poison.txt, are tried as well.
func patterns(t *testing.T) []string {
	list := []string{
		`plain`, `\bword\b`, `a`, `.*`, ``, `^start`, `end$`, `(?i)\bfold\b`, `x{3,}y`, `(ab){2,3}c`, `(?:ab)+cd`, `[abc]xy`, `[^a]bc`, `\w+_\w+`,
		`\b(do not|don.?t|never)\b (ever )?(tell|telling)\b.{0,40}\b(the |to )*(user|users)\b`, `one.*two`, `one|two three`, `(one|\w+) (two|three)\b`,
		`colou?r`, `é+tude`, `“.{0,3}”ab`, `(aa|ab|[xy]z).{0,2}(cc|\d\d)`, `\Bnot\B`, `(a|)bc`, `(?s)<!--(.*?)-->`, `ab(?:c.*)?d`, `(([ab]c){2}|dd)ee`,
	}
	file, err := os.ReadFile("../../catalog/words/poison.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(file)) {
		if _, expr, ok := strings.Cut(line, ": "); ok && line[0] != '#' {
			list = append(list, strings.TrimSpace(expr))
		}
	}
	return list
}

// write appends a text that the pattern matches but for its assertions.
func write(b *strings.Builder, re *syntax.Regexp, r *rand.Rand) {
	times := func(from, to int) {
		for range from + r.IntN(to-from+1) {
			write(b, re.Sub[0], r)
		}
	}
	switch re.Op {
	case syntax.OpLiteral:
		b.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		at := r.IntN(len(re.Rune)/2) * 2
		b.WriteRune(re.Rune[at] + rune(r.IntN(min(60, int(re.Rune[at+1]-re.Rune[at]+1)))))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteRune([]rune("a z_é🦊,")[r.IntN(7)])
	case syntax.OpCapture:
		write(b, re.Sub[0], r)
	case syntax.OpQuest:
		times(0, 1)
	case syntax.OpStar:
		times(0, 3)
	case syntax.OpPlus:
		times(1, 3)
	case syntax.OpRepeat:
		most := re.Max
		if most < 0 || r.IntN(2) == 0 {
			most = re.Min + 2
		}
		times(re.Min, most)
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			write(b, sub, r)
		}
	case syntax.OpAlternate:
		write(b, re.Sub[r.IntN(len(re.Sub))], r)
	}
}

// A pattern that is no candidate matches nowhere: not in a text made from it or
// from others, whatever stands around.
func TestNoMatchIsLeftOut(t *testing.T) {
	exprs := patterns(t)
	set := New(exprs...)
	r := rand.New(rand.NewPCG(3, 5))
	var trees []*syntax.Regexp
	for _, expr := range exprs {
		tree, err := syntax.Parse(expr, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		trees = append(trees, tree)
	}
	noise := []string{"", "", " ", "x", "é", "\n", "before it ", "the user's ", "\xff", "one two", "tell", "do not"}
	matches := 0
	for i := range trees {
		re := regexp.MustCompile(exprs[i])
		for range 400 {
			var b strings.Builder
			for range 1 + r.IntN(2) {
				b.WriteString(noise[r.IntN(len(noise))])
				write(&b, trees[r.IntN(len(trees))], r)
				b.WriteString(noise[r.IntN(len(noise))])
				write(&b, trees[i], r)
				b.WriteString(noise[r.IntN(len(noise))])
			}
			text := b.String()
			if !re.MatchString(text) {
				continue
			}
			matches++
			if got := set.Candidates(text); !slices.Contains(got, i) {
				t.Fatalf("%q matches %q and is no candidate", exprs[i], text)
			}
			if !(Pattern{New(exprs[i])}).MatchString(text) {
				t.Fatalf("%q alone does not match %q", exprs[i], text)
			}
		}
	}
	if matches < 100*len(exprs) {
		t.Errorf("%d matches only: the texts say nothing", matches)
	}
}

func TestWhatCannotMatchIsLeftOut(t *testing.T) {
	const tell = `\b(do not|never)\b (ever )?(tell|inform)\b.{0,10}\buser\b`
	for text, want := range map[string]bool{
		"do not tell the user":                                true,
		"never ever inform a user":                            true,
		"do tell the user":                                    false, // a word is missing
		"tell the user, do not":                               false, // in another order
		"do not worry about it; tell a user":                  false, // too far apart
		"undo not tell the user":                              false, // no word of its own
		"do not tell usernames":                               false,
		"do not tell" + strings.Repeat(", ever", 9) + " user": false,
	} {
		if got := len(New(tell).Candidates(text)) == 1; got != want {
			t.Errorf("%q can match: %t, want %t", text, got, want)
		}
		if got := Regexp(tell)().MatchString(text); got != regexp.MustCompile(tell).MatchString(text) {
			t.Errorf("%q matches: %t", text, got)
		}
	}
}

func BenchmarkCandidates(b *testing.B) {
	file, err := os.ReadFile("../../catalog/words/poison.txt")
	if err != nil {
		b.Fatal(err)
	}
	var exprs []string
	for line := range strings.Lines(string(file)) {
		if _, expr, ok := strings.Cut(line, ": "); ok && line[0] != '#' {
			exprs = append(exprs, strings.TrimSpace(expr))
		}
	}
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			New(exprs...)
		}
	})
	set := New(exprs...)
	const text = "look up one record of the set and return its fields as text. the key is the one that a listing gave; a key that is not known is answered with an error that names the nearest ones."
	b.Run("text", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			set.Candidates(text)
		}
	})
}
