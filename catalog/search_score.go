package catalog

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// The numbers of a need's score; see fieldWeight for where they come from.
const (
	saturation = 1.8 // BM25's k1

	pairWeight   = 0.5  // of two words found side by side, against one word
	joinWeight   = 0.7  // of two words that a tool writes as one
	endingWeight = 0.5  // of a word that differs in its ending only
	nounWeight   = 0.4  // of a synonym of a noun, against the word itself
	verbWeight   = 0.45 // of a relative of a verb
	meansWeight  = 0.6
	tongueWeight = 0.8 // of the word in another language
	webWeight    = 0.5 // of what a search of the web is called
	webCovers    = 0.3 // of a need that it serves
	nameBonus    = 0.9 // for a name that the query spells out whole

	chatterShare = 0.5 // of a word that any request may have
	numberShare  = 0.3 // of a number, which is an argument
	quotedShare  = 0.3 // of a word in quotes, which is one as well
	unknownShare = 0.2 // of a word that no tool has: a name, a date
	otherClass   = 0.87
	otherAct     = 0.8

	leaders     = 3   // tools of a server that speak for it
	serverShare = 0.3 // of a tool's sum that it gains where they are the best of all
)

// word is a stem of a query, with the share of its weight that it keeps.
type word struct {
	stem string
	keep float32
}

// read appends the words of one need to sc.words, those in quotes for less.
func (sc *scores) read(text string) []word {
	sc.words = sc.words[:0]
	for text != "" {
		before, quoted, after := cutQuoted(text)
		for _, t := range sc.analyzer.terms(before) {
			sc.words = append(sc.words, word{t, keeps(t)})
		}
		for _, t := range sc.analyzer.terms(quoted) {
			sc.words = append(sc.words, word{t, keeps(t) * quotedShare})
		}
		text = after
	}
	return sc.words
}

// keeps is how much of its weight a word of a query keeps.
func keeps(t string) float32 {
	switch {
	case t[0] >= '0' && t[0] <= '9':
		return numberShare
	case kinds().chatter[t]:
		return chatterShare
	}
	return 1
}

// score sums what each tool has of one need.
func (ix *index) score(sc *scores, text string) {
	terms := sc.read(text)
	most := map[string]float32{} // what a word keeps that stands in quotes and out of them
	for _, t := range terms {
		most[t.stem] = max(most[t.stem], t.keep)
	}
	var total float32
	seen := map[string]bool{}
	for i, t := range terms {
		terms[i].keep = most[t.stem]
		if !seen[t.stem] {
			seen[t.stem] = true
			total += ix.weightOf(terms[i])
		}
	}
	if total == 0 {
		return
	}
	clear(seen)
	act := headVerb(terms)
	sc.object = false
	for j, t := range terms {
		if !seen[t.stem] {
			seen[t.stem] = true
			object := j != act && t.keep == 1
			sc.object = sc.object || object && !ix.isProper(t.stem, text)
			ix.group(sc, t, total, object)
		}
		if j > 0 && !seen[terms[j-1].stem+" "+t.stem] {
			seen[terms[j-1].stem+" "+t.stem] = true
			ix.together(sc, terms[j-1], t, total)
		}
	}
	ix.phrases(sc, terms, total)
	asks := asksTheWeb(text)
	for _, name := range kinds().web {
		if n, ok := ix.find(name); ok {
			if asks {
				ix.sum(sc, n, webWeight, webCovers)
			}
			for _, p := range ix.postings[n] {
				sc.about[p.entry] = sc.of[p.entry] > 0 // the web has something about anything
			}
		}
	}
	ix.nameBonus(sc)
	// Of two tools with equal sums, the one with more of the need is meant.
	for _, e := range sc.touched {
		sc.of[e] *= float32(math.Sqrt(float64(min(1, sc.covered[e]))))
	}
}

// headVerb is the place of the first verb among the words of a need, -1 for none.
func headVerb(terms []word) int {
	return slices.IndexFunc(terms, func(t word) bool { return actWord(t.stem) })
}

// actWord reports whether a stem is a verb's, or stands for one in another language.
func actWord(t string) bool {
	return kinds().verbStems[t] || slices.ContainsFunc(kinds().related[t], func(r relative) bool { return r.weight == tongueWeight && kinds().verbStems[r.stem] })
}

// isProper reports whether a word that no tool has is written as a name in the text:
// of a person or a place, which is an argument.
func (ix *index) isProper(stem, text string) bool {
	_, known := ix.terms[stem]
	return !known && stem[0] < utf8.RuneSelf && strings.Contains(text, " "+strings.ToUpper(stem[:1])+stem[1:max(1, len(stem)-1)])
}

// weightOf is how much a word of a query tells. One that no tool has tells what
// the best of its relatives does, or else little.
func (ix *index) weightOf(w word) float32 {
	if n, ok := ix.terms[w.stem]; ok {
		return ix.idf[n] * w.keep
	}
	most := ix.unknown * unknownShare
	if r, _ := utf8.DecodeRuneInString(w.stem); isIdeograph(r) {
		most *= unknownShare // most pairs of characters are of two words
	}
	for _, r := range kinds().related[w.stem] {
		if n, ok := ix.find(r.stem); ok {
			most = max(most, r.weight*ix.idf[n])
		}
	}
	return most * w.keep
}

// group adds a word and what it stands for. A tool is paid for the best of
// them only, so that one with five synonyms does not beat one with the word.
func (ix *index) group(sc *scores, asked word, total float32, object bool) {
	covers, own := ix.weightOf(asked)/total, asked.keep
	for _, w := range ix.ways(asked.stem) {
		sc.want(w.term, w.weight)
		for _, p := range ix.postings[w.term] {
			if object {
				sc.about[p.entry] = true
			}
			v := own * w.weight * ix.idf[w.term] * p.weight * (saturation + 1) / (p.weight + saturation)
			before := sc.paid[p.entry]
			if v > before {
				cover := float32(0)
				if before == 0 {
					cover = covers * w.weight
					sc.payees = append(sc.payees, p.entry)
				}
				sc.add(p.entry, v-before, cover)
				sc.paid[p.entry] = v
			}
		}
	}
	for _, e := range sc.payees {
		sc.paid[e] = 0
	}
	sc.payees = sc.payees[:0]
}

// way is a term that a word is found by.
type way struct {
	term   int32
	weight float32
}

// ways are the word itself, what it stands for, or else its other endings.
func (ix *index) ways(t string) []way {
	var ways []way
	if n, ok := ix.terms[t]; ok {
		ways = append(ways, way{n, 1})
	}
	for _, r := range kinds().related[t] {
		if n, ok := ix.find(r.stem); ok {
			ways = append(ways, way{n, r.weight})
		}
	}
	if len(ways) == 0 {
		for _, n := range ix.otherEndings(t) {
			ways = append(ways, way{n, endingWeight})
		}
	}
	return ways
}

// otherEndings are terms that differ from t in their last letters only, for a
// word that no tool has: "reimbursing" finds "reimbursement".
func (ix *index) otherEndings(t string) []int32 {
	const least, ending, most = 5, 4, 8
	if len(t) < least {
		return nil
	}
	var out []int32
	head := t[:max(least, len(t)-3)]
	i, _ := slices.BinarySearch(ix.sorted, head)
	for ; i < len(ix.sorted) && strings.HasPrefix(ix.sorted[i], head) && len(out) < most; i++ {
		if len(ix.sorted[i]) <= len(t)+ending {
			out = append(out, ix.terms[ix.sorted[i]])
		}
	}
	return out
}

// together adds what two words side by side find as such: the two of them in
// a tool's text, or the one word that the tool writes.
func (ix *index) together(sc *scores, first, second word, total float32) {
	if n, ok := ix.pair(first.stem, second.stem); ok {
		ix.sum(sc, n, pairWeight*min(first.keep, second.keep), 0)
	}
	if n, ok := ix.terms[first.stem+second.stem]; ok {
		sc.want(n, joinWeight)
		ix.sum(sc, n, joinWeight, joinWeight*(ix.weightOf(first)+ix.weightOf(second))/total)
	}
}

// phrases adds what two words of the query stand for together.
func (ix *index) phrases(sc *scores, terms []word, total float32) {
	for j := 1; j < len(terms); j++ {
		for _, r := range kinds().related[terms[j-1].stem+" "+terms[j].stem] {
			n, ok := ix.find(r.stem)
			if !ok || sc.wanted[n] >= r.weight {
				continue
			}
			sc.want(n, r.weight)
			ix.sum(sc, n, r.weight, r.weight*(ix.weightOf(terms[j-1])+ix.weightOf(terms[j]))/total)
		}
	}
}

func (ix *index) sum(sc *scores, term int32, weight, cover float32) {
	for _, p := range ix.postings[term] {
		sc.add(p.entry, weight*ix.idf[term]*p.weight*(saturation+1)/(p.weight+saturation), cover)
	}
}

// nameBonus pays for names of which the query says much: of two tools with
// the same words in their texts, the one named for the need is meant.
func (ix *index) nameBonus(sc *scores) {
	best, _ := sc.best()
	for _, e := range sc.touched {
		if sc.of[e] < leastOfBest*best {
			continue
		}
		var has, all float32
		for _, t := range ix.names[e] {
			all += ix.idf[t]
			has += ix.idf[t] * sc.wanted[t]
		}
		if all > 0 {
			sc.of[e] += nameBonus * has * has / all
		}
	}
}

// favour takes a little off tools of the other class than the one wished for,
// and off those that do something else with the thing: "which containers run"
// is not answered by running one, nor "remove the label" by adding it.
func (ix *index) favour(sc *scores, class, act uint8) {
	for _, e := range sc.touched {
		if class > 0 && ix.class[e] == 3-class {
			sc.of[e] *= otherClass
		}
		if act > 0 && ix.act[e] > 0 && ix.act[e] != act {
			sc.of[e] *= otherAct
		}
	}
}

// gather favours tools of servers that have more for a query of several needs:
// what one task takes is mostly of one server, and then also the tool that the
// query says little of.
func (ix *index) gather(sc *scores) {
	var best float64
	for _, e := range sc.merged {
		v := sc.sum[e]
		best = max(best, v)
		for i, led := range sc.leading[ix.server[e]] {
			if v > led {
				sc.leading[ix.server[e]][i], v = v, led
			}
		}
	}
	for _, e := range sc.merged {
		var all float64
		for _, v := range sc.leading[ix.server[e]] {
			all += v
		}
		sc.sum[e] *= 1 + serverShare*all/(leaders*best)
	}
	clear(sc.leading)
}
