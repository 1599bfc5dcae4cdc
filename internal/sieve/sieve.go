// Package sieve tries patterns only on texts that hold what every match of them
// holds.
//
// Most texts match none of a hundred patterns, and RE2 says so at some 50 ns a
// byte and pattern. But a pattern such as `\bdo not\b.{0,20}\btell\b` needs "do
// not" and, soon after, "tell". Those words are taken from the patterns
// themselves, and one pass over a text finds for all of them together which can
// match at all. What passes is still matched by the pattern: a sieve leaves out
// work, never a match.
package sieve

import (
	"math"
	"math/bits"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// Set is some patterns with what they need. Safe for concurrent use.
type Set struct {
	patterns []func() *regexp.Regexp
	chains   []chain
	needles  []needle
	heads    []uint16 // by the hash of its first three bytes, or two: 1 + the first needle
	shift    int      // what leaves as many bits of a hash as heads has
	always   []int    // the patterns of which nothing is known
	steps    int      // of all chains together
	short    bool     // there are needles of two bytes

	spare sync.Pool // of pass.reached
}

// chain is a way in which a pattern can match: one of its words of each step,
// in this order. A pattern with alternatives has several.
type chain struct {
	pattern int
	first   int   // the number of its first step among all
	within  []int // for each step but the first: how many bytes after the one before it starts at most
}

// needle is a literal that some steps look for.
type needle struct {
	text          string
	before, after bool // a word begins, a word ends with it
	next          uint16
	steps         []step
}

type step struct{ chain, at int }

// slot is where needles that begin with these bytes are found. Those of two
// bytes have no third.
func (s *Set) slot(a, b, c byte) *uint16 {
	h := (uint32(a) | uint32(b)<<8 | uint32(c)<<16) * 0x9e3779b1
	return &s.heads[h>>s.shift]
}

// New takes patterns apart. It panics where regexp.MustCompile would.
func New(exprs ...string) *Set {
	s := &Set{}
	known := map[needleKey]int{}
	for i, expr := range exprs {
		tree, err := syntax.Parse(expr, syntax.Perl)
		if err != nil {
			panic("sieve: " + err.Error())
		}
		s.patterns = append(s.patterns, sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) }))
		s.add(i, tree, known)
	}
	s.hash()
	return s
}

type needleKey struct {
	text          string
	before, after bool
}

// hash makes heads.
func (s *Set) hash() {
	bits := bits.Len(uint(4 * len(s.needles)))
	s.heads, s.shift = make([]uint16, 1<<bits), 32-bits
	for i := range s.needles {
		n := &s.needles[i]
		at := s.slot(n.text[0], n.text[1], third(n.text))
		n.next, *at = *at, uint16(i+1)
		s.short = s.short || len(n.text) == 2
	}
}

func third(text string) byte {
	if len(text) > 2 {
		return text[2]
	}
	return 0
}

func (s *Set) add(pattern int, tree *syntax.Regexp, known map[needleKey]int) {
	for _, way := range ways(tree) {
		c := chain{pattern: pattern, first: s.steps}
		n, since := 0, 0 // steps so far, bytes since the last began
		apart := false   // what is before ends in no letter
		for _, p := range way {
			p.before = p.before || apart
			apart = p.parts(apart)
			if !p.telling() {
				since = plus(since, p.most)
				continue
			}
			if n > 0 {
				c.within = append(c.within, since)
			}
			for _, text := range p.starts {
				s.look(needleKey{text, p.before && isWord(text[0]), p.after && isWord(text[len(text)-1])}, step{len(s.chains), n}, known)
			}
			n, since = n+1, p.most
		}
		if n == 0 {
			if !slices.Contains(s.always, pattern) {
				s.always = append(s.always, pattern)
			}
			continue
		}
		s.chains = append(s.chains, c)
		s.steps += n
	}
}

func (s *Set) look(k needleKey, st step, known map[needleKey]int) {
	i, ok := known[k]
	if !ok {
		i = len(s.needles)
		known[k] = i
		s.needles = append(s.needles, needle{text: k.text, before: k.before, after: k.after})
	}
	s.needles[i].steps = append(s.needles[i].steps, st)
}

// Regexp is the pattern of this number.
func (s *Set) Regexp(i int) *regexp.Regexp { return s.patterns[i]() }

// Candidates returns the numbers of the patterns that can match somewhere in the
// text, ascending. Every other one matches nowhere.
func (s *Set) Candidates(text string) []int {
	p := pass{set: s, text: text, out: slices.Clone(s.always)}
	for i := 0; i+1 < len(text); i++ {
		c := byte(0)
		if i+2 < len(text) {
			c = text[i+2]
		}
		if n := *s.slot(text[i], text[i+1], c); n != 0 {
			p.look(i, n)
		}
		if !s.short || c == 0 {
			continue
		}
		if n := *s.slot(text[i], text[i+1], 0); n != 0 {
			p.look(i, n)
		}
	}
	if p.reached != nil {
		s.spare.Put(&p.reached)
	}
	slices.Sort(p.out)
	return p.out
}

// scratch is a reached of nothing.
func (s *Set) scratch() []int32 {
	if old, ok := s.spare.Get().(*[]int32); ok {
		clear(*old)
		return *old
	}
	return make([]int32, s.steps)
}

// pass is one way through a text.
type pass struct {
	set     *Set
	text    string
	reached []int32 // by step: 1 + where its latest needle begins that goes on from the step before
	out     []int
}

// look takes up the needles from n on that stand at a place.
func (p *pass) look(at int, n uint16) {
	for n != 0 {
		d := &p.set.needles[n-1]
		n = d.next
		end := at + len(d.text)
		if !strings.HasPrefix(p.text[at:], d.text) || d.before && at > 0 && isWord(p.text[at-1]) || d.after && end < len(p.text) && isWord(p.text[end]) {
			continue
		}
		if p.reached == nil {
			p.reached = p.set.scratch()
		}
		for _, st := range d.steps {
			c := &p.set.chains[st.chain]
			if st.at > 0 {
				from := int(p.reached[c.first+st.at-1])
				if from == 0 || at-(from-1) > c.within[st.at-1] {
					continue
				}
			}
			p.reached[c.first+st.at] = int32(at + 1)
			if st.at == len(c.within) && !slices.Contains(p.out, c.pattern) {
				p.out = append(p.out, c.pattern)
			}
		}
	}
}

// Pattern is a Set of one.
type Pattern struct{ set *Set }

// Regexp returns a function that makes the pattern at its first call and gives
// the same ever after.
func Regexp(expr string) func() Pattern {
	return sync.OnceValue(func() Pattern { return Pattern{New(expr)} })
}

// MatchString is that of the regexp.
func (p Pattern) MatchString(text string) bool {
	return len(p.set.Candidates(text)) > 0 && p.set.Regexp(0).MatchString(text)
}

// part is a stretch of a match. Every text of it begins with one of starts.
type part struct {
	starts        []string
	whole         bool // they are all its texts, not beginnings of them
	most          int  // bytes
	before, after bool // a word boundary stands before it, after it
}

// telling reports whether a part is worth being looked for.
func (p part) telling() bool {
	return len(p.starts) > 0 && !slices.ContainsFunc(p.starts, func(s string) bool { return len(s) < 2 })
}

// parts reports whether what comes after a part is no going on of a word. apart
// says so of what comes before it.
func (p part) parts(apart bool) bool {
	return p.whole && !slices.ContainsFunc(p.starts, func(s string) bool { return s == "" && !apart || s != "" && isWord(s[len(s)-1]) })
}

const (
	mostStarts = 128 // of one part
	mostWays   = 64  // of one pattern
	endless    = math.MaxInt32
)

// ways takes a pattern apart into sequences of parts. A match goes by one of
// them.
func ways(re *syntax.Regexp) [][]part {
	switch re.Op {
	case syntax.OpCapture:
		return ways(re.Sub[0])
	case syntax.OpAlternate:
		if p := partOf(re); p.whole {
			return [][]part{{p}}
		}
		var all [][]part
		alike := part{whole: true} // the alternatives that are plain words, as one
		for _, sub := range re.Sub {
			p := partOf(sub)
			if !p.whole || !p.telling() {
				all = append(all, ways(sub)...)
				continue
			}
			alike.starts, alike.most = append(alike.starts, p.starts...), max(alike.most, p.most)
		}
		if alike.starts != nil {
			all = append(all, []part{alike})
		}
		if len(all) <= mostWays {
			return all
		}
	case syntax.OpConcat:
		return joined(re.Sub)
	case syntax.OpPlus: // once, and more of it
		if few := ways(re.Sub[0]); len(few) <= mostWays {
			for i := range few {
				few[i] = append(few[i], part{most: endless})
			}
			return few
		}
	}
	return [][]part{{partOf(re)}}
}

func joined(subs []*syntax.Regexp) [][]part {
	all := [][]part{nil}
	for i, sub := range subs {
		few := ways(sub)
		if len(all)*len(few) > mostWays {
			few = [][]part{{partOf(sub)}}
		}
		before := i > 0 && subs[i-1].Op == syntax.OpWordBoundary
		after := i+1 < len(subs) && subs[i+1].Op == syntax.OpWordBoundary
		var longer [][]part
		for _, way := range all {
			for _, more := range few {
				more = slices.Clone(more)
				if last := len(more) - 1; last >= 0 {
					more[0].before = more[0].before || before
					more[last].after = more[last].after || after && more[last].whole
				}
				longer = append(longer, slices.Concat(way, more))
			}
		}
		all = longer
	}
	return all
}

// partOf is a pattern as one part.
func partOf(re *syntax.Regexp) part {
	p := part{most: most(re)}
	p.starts, p.whole = starts(re)
	return p
}

// starts returns what every match begins with one of; whole says that these are
// the matches. "" among them says that nothing is known.
func starts(re *syntax.Regexp) (list []string, whole bool) {
	unknown := []string{""}
	switch re.Op {
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return unknown, true
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 {
			return unknown, false
		}
		return []string{string(re.Rune)}, true
	case syntax.OpCharClass:
		for i := 0; i+1 < len(re.Rune); i += 2 {
			if len(list)+int(re.Rune[i+1]-re.Rune[i]) >= 16 {
				return unknown, false
			}
			for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
				list = append(list, string(r))
			}
		}
		return list, true
	case syntax.OpCapture:
		return starts(re.Sub[0])
	case syntax.OpPlus:
		list, _ = starts(re.Sub[0])
		return list, false
	case syntax.OpRepeat:
		if re.Min == 0 {
			return unknown, false
		}
		list, _ = starts(re.Sub[0])
		return list, false
	case syntax.OpQuest:
		list, whole = starts(re.Sub[0])
		return append(slices.Clone(list), ""), whole
	case syntax.OpAlternate:
		whole = true
		for _, sub := range re.Sub {
			few, all := starts(sub)
			list, whole = append(list, few...), whole && all
		}
		if len(list) > mostStarts {
			return unknown, false
		}
		return list, whole
	case syntax.OpConcat:
		list, whole = unknown, true
		for _, sub := range re.Sub {
			if !whole {
				break
			}
			few, all := starts(sub)
			if len(list)*len(few) > mostStarts {
				return list, false
			}
			var longer []string
			for _, a := range list {
				for _, b := range few {
					longer = append(longer, a+b)
				}
			}
			list, whole = longer, all
		}
		return list, whole
	}
	return unknown, false
}

// most is how many bytes a match has at most.
func most(re *syntax.Regexp) int {
	switch re.Op {
	case syntax.OpLiteral:
		n := 0
		for _, r := range re.Rune {
			if n += utf8.UTFMax; re.Flags&syntax.FoldCase == 0 {
				n += utf8.RuneLen(r) - utf8.UTFMax
			}
		}
		return n
	case syntax.OpCharClass:
		if n := len(re.Rune); n > 0 && re.Rune[n-1] < utf8.RuneSelf {
			return 1
		}
		return utf8.UTFMax
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return utf8.UTFMax
	case syntax.OpCapture, syntax.OpQuest:
		return most(re.Sub[0])
	case syntax.OpStar, syntax.OpPlus:
		return endless
	case syntax.OpRepeat:
		n := most(re.Sub[0])
		if re.Max < 0 || n > 0 && re.Max > endless/n {
			return endless
		}
		return n * re.Max
	case syntax.OpConcat:
		n := 0
		for _, sub := range re.Sub {
			n = plus(n, most(sub))
		}
		return n
	case syntax.OpAlternate:
		n := 0
		for _, sub := range re.Sub {
			n = max(n, most(sub))
		}
		return n
	}
	return 0
}

func plus(a, b int) int { return min(a+b, endless) }

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}
