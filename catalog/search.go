package catalog

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/kljensen/snowball/english"
	"github.com/mcp-gate/mcp-gate/engagement"
)

// Hit is a tool found for a query. Scores of one query compare with each
// other and with nothing else.
type Hit struct {
	Entry Entry
	Score float64
}

// The fields of a tool that a word can be found in, each with its weight and
// how far its length counts (BM25F: Robertson and Zaragoza 2009, section 3.5).
const (
	fieldName = iota
	fieldServer
	fieldTitle
	fieldFirst // the first sentence of the description
	fieldRest
	fieldParam
	fields
)

var (
	fieldWeight = [fields]float32{3.2, 1.1, 1.6, 1.6, 0.7, 0.5}
	fieldLength = [fields]float32{0.3, 0.2, 0.3, 0.5, 0.75, 0.6}
)

const (
	saturation = 1.3 // BM25's k1

	pairWeight  = 0.2  // of two words found side by side, against one word
	nounWeight  = 0.55 // of a synonym of a noun, against the word itself
	verbWeight  = 0.30 // of a relative of a verb
	meansWeight = 0.30
	nameBonus   = 0.9 // for a name that the query spells out whole

	verbShare     = 0.6 // of a verb, which many tools have in other words
	otherClass    = 0.65
	otherVerb     = 0.85
	unknownWeight = 0.2 // of a word that no tool has: a name, a date

	leastCovered = 0.12 // of the query's weight that a hit must have
	leastOfBest  = 0.2  // of the best hit's score

	mostIndexed = 1500 // bytes of a description that are indexed
	mostQuery   = 2000 // bytes of a query that are read
	mostParts   = 6    // needs of one query
)

// index is an inverted index over the weighted words of a set.
type index struct {
	terms    map[string]int32
	pairs    map[[2]int32]int32 // of two terms side by side; numbered with the terms
	postings [][]posting
	idf      []float32
	names    [][]int32 // the terms of each entry's name, for the name bonus
	verbs    []string  // stems of what entries do; the first is "", where it cannot be told
	doing    []uint16  // the verb of each entry
	class    []uint8   // what each entry's class is for a wish: 0 not told, 1 reads, 2 has an effect
	spelled  map[string][]int32
	unknown  float32 // the weight of a word that no tool has
	scratch  sync.Pool
}

type posting struct {
	entry  int32
	weight float32 // of the term in the entry, lengths accounted for
}

// counted is one term of one entry before lengths are known.
type counted struct {
	term   int32
	counts [fields]float32
}

func newIndex(entries []Entry) *index {
	ix := &index{terms: map[string]int32{}, pairs: map[[2]int32]int32{}, spelled: map[string][]int32{}, names: make([][]int32, len(entries)), verbs: []string{""}, doing: make([]uint16, len(entries)), class: make([]uint8, len(entries))}
	ix.scratch.New = func() any { return newScores(len(entries)) }
	all := make([][]counted, len(entries))
	lengths := make([][fields]float32, len(entries))
	var average [fields]float32
	c := counter{ix: ix, analyzer: newAnalyzer(), verbs: map[string]uint16{"": 0}}
	for i, e := range entries {
		all[i] = c.count(e, int32(i), &lengths[i])
		ix.doing[i], ix.class[i] = c.verb(doing(e.Tool)), wishClass(e.Class.Permission)
		for f := range lengths[i] {
			average[f] += lengths[i][f] / float32(len(entries))
		}
	}
	ix.postings = make([][]posting, c.numbered)
	for i, terms := range all {
		for _, t := range terms {
			var w float32
			for f, n := range t.counts {
				if n > 0 {
					w += fieldWeight[f] * n / (1 - fieldLength[f] + fieldLength[f]*lengths[i][f]/average[f])
				}
			}
			ix.postings[t.term] = append(ix.postings[t.term], posting{int32(i), w})
		}
	}
	ix.weigh(len(entries))
	return ix
}

// counter takes the words of one entry after the other.
type counter struct {
	ix       *index
	analyzer *analyzer
	numbered int32
	out      []counted
	at       []int32 // where a term is in out, and for which entry that holds
	seen     []int32
	verbs    map[string]uint16
}

func (c *counter) verb(stem string) uint16 {
	n, ok := c.verbs[stem]
	if !ok && len(c.ix.verbs) < math.MaxUint16 {
		n = uint16(len(c.ix.verbs))
		c.ix.verbs = append(c.ix.verbs, stem)
		c.verbs[stem] = n
	}
	return n
}

func wishClass(p engagement.Permission) uint8 {
	switch {
	case p == 0:
		return 0
	case p == engagement.Read:
		return 1
	}
	return 2
}

func (c *counter) count(e Entry, i int32, lengths *[fields]float32) []counted {
	c.out = c.out[:0]
	description := e.Description
	if len(description) > mostIndexed {
		description = strings.ToValidUTF8(description[:mostIndexed], "")
	}
	first := firstSentence(description)
	c.add(fieldName, e.ID.Tool, i, lengths)
	c.add(fieldServer, e.ID.Server, i, lengths)
	c.add(fieldTitle, e.Title, i, lengths)
	c.add(fieldFirst, first, i, lengths)
	c.add(fieldRest, strings.Replace(description, first, "", 1), i, lengths)
	for _, p := range e.Params {
		c.add(fieldParam, p, i, lengths)
	}
	key := strings.Join(words(e.ID.Tool), " ")
	c.ix.spelled[key] = append(c.ix.spelled[key], i)
	return slices.Clone(c.out)
}

func (c *counter) add(f int, text string, i int32, lengths *[fields]float32) {
	before := int32(-1)
	for _, t := range c.analyzer.terms(text) {
		n, ok := c.ix.terms[t]
		if !ok {
			n = c.number()
			c.ix.terms[t] = n
		}
		lengths[f]++
		c.bump(n, f, i)
		if f == fieldName {
			c.ix.names[i] = append(c.ix.names[i], n)
		}
		if before >= 0 && f <= fieldFirst {
			pair, ok := c.ix.pairs[[2]int32{before, n}]
			if !ok {
				pair = c.number()
				c.ix.pairs[[2]int32{before, n}] = pair
			}
			c.bump(pair, f, i)
		}
		before = n
	}
}

func (c *counter) number() int32 {
	c.at, c.seen = append(c.at, 0), append(c.seen, -1)
	c.numbered++
	return c.numbered - 1
}

func (c *counter) bump(term int32, field int, entry int32) {
	if c.seen[term] != entry {
		c.seen[term], c.at[term] = entry, int32(len(c.out))
		c.out = append(c.out, counted{term: term})
	}
	c.out[c.at[term]].counts[field]++
}

// weigh sets how much each term tells: one that few tools have tells most.
func (ix *index) weigh(entries int) {
	n := float64(entries)
	ix.idf = make([]float32, len(ix.postings))
	for t, list := range ix.postings {
		df := float64(len(list))
		ix.idf[t] = float32(math.Log(1 + (n-df+0.5)/(df+0.5)))
	}
	for stem := range lex().verbStems {
		if t, ok := ix.terms[stem]; ok {
			ix.idf[t] *= verbShare
		}
	}
	ix.unknown = float32(math.Log(1 + (n+0.5)/0.5))
}

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
		if r := []rune(w); r[0] > 0x2e7f && len(r) > 2 { // Chinese and its like: pairs of characters
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

// stem is the Porter2 stem, with the few words put right that it takes apart
// or runs together.
func stem(w string) string {
	if s, ok := odd[w]; ok {
		return s
	}
	if len(w) < 4 || len(w) > 40 {
		return w
	}
	return english.Stem(w, false)
}

var odd = map[string]string{"news": "news", "organization": "organiz", "organisation": "organiz", "analysis": "analyz", "analyse": "analyz", "analytics": "analyt", "summarise": "summar", "summarize": "summar", "summary": "summar", "summaries": "summar", "translation": "translat", "calculation": "calcul", "statistics": "statist", "stats": "statist", "communities": "communiti"}

// Search returns the tools that fit the query, best first; ties go by the
// set's order, so equal sets give equal answers. A tool that the query names
// is always first. A query of several needs finds tools for each of them. What
// shares too little with the query is not found: nothing fits is an answer.
func (s *Set) Search(query string) []Hit {
	if len(query) > mostQuery {
		query = strings.ToValidUTF8(query[:mostQuery], "")
	}
	ix := s.index()
	sc := ix.scratch.Get().(*scores)
	defer ix.scratch.Put(sc)
	parts := needs(query)
	for _, p := range parts {
		ix.score(sc, p.text)
		ix.favour(sc, wishOf(p.text))
		best := sc.best()
		for _, e := range sc.touched {
			if v := sc.of[e]; sc.covered[e] >= leastCovered && v >= leastOfBest*best {
				sc.merge(e, p.merge(float64(v), float64(best), len(parts)))
			}
		}
		sc.reset()
	}
	for e, bonus := range s.named(query) {
		sc.merge(e, bonus)
	}
	hits := sc.merged
	slices.SortFunc(hits, func(a, b int32) int { return cmp.Or(cmp.Compare(sc.sum[b], sc.sum[a]), cmp.Compare(a, b)) })
	out := make([]Hit, len(hits))
	for i, e := range hits {
		out[i] = Hit{s.entries[e], sc.sum[e]}
		sc.sum[e] = 0
	}
	sc.merged = hits[:0]
	return out
}

// scores are one query's sums, kept between queries so that none allocates
// for every tool. All are zero between uses.
type scores struct {
	of, covered []float32 // of the need at hand
	touched     []int32
	paid        []float32 // of the word at hand
	payees      []int32
	sum         []float64 // of the query
	merged      []int32
	analyzer    *analyzer
}

func newScores(n int) *scores {
	return &scores{of: make([]float32, n), covered: make([]float32, n), paid: make([]float32, n), sum: make([]float64, n), analyzer: newAnalyzer()}
}

func (sc *scores) merge(e int32, v float64) {
	if sc.sum[e] == 0 {
		sc.merged = append(sc.merged, e)
	}
	sc.sum[e] += v
}

func (sc *scores) add(e int32, v, cover float32) {
	if sc.of[e] == 0 {
		sc.touched = append(sc.touched, e)
	}
	sc.of[e] += v
	sc.covered[e] += cover
}

func (sc *scores) best() float32 {
	var best float32
	for _, e := range sc.touched {
		best = max(best, sc.of[e])
	}
	return best
}

func (sc *scores) reset() {
	for _, e := range sc.touched {
		sc.of[e], sc.covered[e] = 0, 0
	}
	sc.touched = sc.touched[:0]
	if len(sc.analyzer.stems) > 4096 { // words of queries are anyone's
		sc.analyzer = newAnalyzer()
	}
}

// score sums what each tool has of one need.
func (ix *index) score(sc *scores, text string) {
	terms := sc.analyzer.terms(text)
	var total float32
	seen := map[string]bool{}
	wanted := map[int32]float32{}
	for _, t := range terms {
		if seen[t] {
			continue
		}
		seen[t] = true
		total += ix.weightOf(t)
	}
	if total == 0 {
		return
	}
	clear(seen)
	for j, t := range terms {
		if !seen[t] {
			seen[t] = true
			ix.group(sc, t, wanted, total)
		}
		if j > 0 {
			if n, ok := ix.pair(terms[j-1], t); ok && !seen[terms[j-1]+" "+t] {
				seen[terms[j-1]+" "+t] = true
				ix.sum(sc, n, pairWeight, 0)
			}
		}
	}
	ix.phrases(sc, terms, wanted, total)
	ix.nameBonus(sc, wanted)
}

// pair is the number of two terms side by side.
func (ix *index) pair(first, second string) (int32, bool) {
	a, ok := ix.terms[first]
	b, also := ix.terms[second]
	if !ok || !also {
		return 0, false
	}
	n, ok := ix.pairs[[2]int32{a, b}]
	return n, ok
}

// find is the number of a term, or of two with a space between them.
func (ix *index) find(t string) (int32, bool) {
	if first, second, ok := strings.Cut(t, " "); ok {
		return ix.pair(first, second)
	}
	n, ok := ix.terms[t]
	return n, ok
}

func (ix *index) weightOf(t string) float32 {
	if n, ok := ix.terms[t]; ok {
		return ix.idf[n]
	}
	return ix.unknown * unknownWeight
}

// group adds a word and what it stands for. A tool is paid for the best of
// them only, so that one with five synonyms does not beat one with the word.
func (ix *index) group(sc *scores, t string, wanted map[int32]float32, total float32) {
	share := ix.weightOf(t) / total
	type way struct {
		term   int32
		weight float32
	}
	var ways []way
	if n, ok := ix.terms[t]; ok {
		ways = append(ways, way{n, 1})
	}
	for _, r := range lex().related[t] {
		if n, ok := ix.find(r.stem); ok {
			ways = append(ways, way{n, r.weight})
		}
	}
	for _, w := range ways {
		wanted[w.term] = max(wanted[w.term], w.weight)
		for _, p := range ix.postings[w.term] {
			v := w.weight * ix.idf[w.term] * p.weight * (saturation + 1) / (p.weight + saturation)
			before := sc.paid[p.entry]
			if v > before {
				cover := float32(0)
				if before == 0 {
					cover = share * w.weight
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

// phrases adds what two words of the query stand for together.
func (ix *index) phrases(sc *scores, terms []string, wanted map[int32]float32, total float32) {
	for j := 1; j < len(terms); j++ {
		for _, r := range lex().related[terms[j-1]+" "+terms[j]] {
			n, ok := ix.find(r.stem)
			if !ok || wanted[n] >= r.weight {
				continue
			}
			wanted[n] = r.weight
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
func (ix *index) nameBonus(sc *scores, wanted map[int32]float32) {
	least := sc.best() * leastOfBest
	for _, e := range sc.touched {
		if sc.of[e] < least {
			continue
		}
		var has, all float32
		for _, t := range ix.names[e] {
			all += ix.idf[t]
			has += ix.idf[t] * wanted[t]
		}
		if all > 0 {
			sc.of[e] += nameBonus * has * has / all
		}
	}
}

// doing is the stem of the verb of a tool's name.
func doing(t Tool) string {
	ws, _ := nameWords(t.ID.Tool, words(t.ID.Server))
	best := ""
	for _, w := range ws {
		if v, ok := lex().verbs[w]; ok && !v.soft && (best == "" || !v.noun) {
			if best = stem(w); !v.noun {
				break
			}
		}
	}
	return best
}

// wish is what a need is put as: a question or a reading verb asks for
// reading, another verb for an effect, anything else for either.
type wish struct {
	class engagement.Permission // 0: not told
	verb  string                // its stem, "" for a question
}

func wishOf(text string) wish {
	for i, w := range words(strings.ToLower(text)) {
		if i > 6 {
			break
		}
		if asking[w] {
			return wish{class: engagement.Read}
		}
		if polite[w] {
			continue
		}
		if name, v, ok := lex().lemma(w); ok && !v.soft {
			return wish{min(v.class, engagement.ReversibleWrite), stem(name)}
		}
		if lex().verbStems[stem(w)] {
			return wish{verb: stem(w)}
		}
	}
	return wish{}
}

var (
	asking = wordSet("what which who whose when where why how is are does did will has any tell whats")
	polite = wordSet("please can could would you i want need would like to help me us my we the a an let lets now then and also just your use using for in on")
)

// favour takes a little off tools that do another thing than the one wished
// for: "which containers run" is not answered by running one, and "compare
// branches" not by making one.
func (ix *index) favour(sc *scores, w wish) {
	byVerb := make([]float32, len(ix.verbs))
	for i, does := range ix.verbs {
		byVerb[i] = 1
		if w.verb != "" && does != "" && does != w.verb && !lex().kin(w.verb, does) {
			byVerb[i] = otherVerb
		}
	}
	byClass, wanted := [3]float32{1, 1, 1}, wishClass(w.class)
	if wanted > 0 {
		byClass[3-wanted] = otherClass
	}
	for _, e := range sc.touched {
		sc.of[e] *= byVerb[ix.doing[e]] * byClass[ix.class[e]]
	}
}

// named gives a bonus beyond any score to tools that the query names: as a
// whole, in whatever spelling, or by an identifier within it.
func (s *Set) named(query string) map[int32]float64 {
	const whole, spelled, within = 4e6, 2e6, 1e6
	bonus := map[int32]float64{}
	put := func(e int32, v float64) { bonus[e] = max(bonus[e], v) }
	query = strings.TrimSpace(query)
	if e, ok, _ := s.Find(query); ok {
		put(int32(s.byID[e.ID]), whole)
	}
	for _, i := range s.byBare[query] {
		put(int32(i), whole)
	}
	for _, i := range s.index().spelled[strings.Join(words(query), " ")] {
		put(i, spelled)
	}
	for i, token := range strings.Fields(query) {
		token = strings.Trim(token, "`'\"()[]{}<>,.;:!?")
		if i > 64 || len(token) < 4 || !strings.ContainsAny(token, "_/-:.") && len(words(token)) < 2 {
			continue
		}
		if e, ok, _ := s.Find(token); ok {
			put(int32(s.byID[e.ID]), within)
		}
		for _, i := range s.byBare[token] {
			put(int32(i), within)
		}
	}
	return bonus
}

// need is one of the things a query asks for.
type need struct {
	text  string
	whole bool // the query as it stands
}

// merge is what a tool's score for one need is worth in the query's ranking.
// Needs count relative to their best hit, so that a wordy one does not drown
// the others; the whole query keeps tools together that serve several.
func (n need) merge(v, best float64, parts int) float64 {
	if parts == 1 || best == 0 {
		return v
	}
	if n.whole {
		return 0.9 * v / best
	}
	return math.Pow(v/best, 2)
}

// needs takes a query apart at sentences, commas and words such as "then". A
// part that says too little to search for stays with its neighbour.
func needs(query string) []need {
	parts := splitNeeds(query)
	out := []need{{query, true}}
	if len(parts) < 2 {
		return out
	}
	for _, p := range parts[:min(len(parts), mostParts)] {
		out = append(out, need{p, false})
	}
	return out
}

var breaks = strings.NewReplacer(
	". ", "\n", "! ", "\n", "? ", "\n", "; ", "\n", ", and then ", "\n", " and then ", "\n", ", then ", "\n", " then ", "\n",
	", and ", "\n", ", ", "\n", " and also ", "\n", " and ", "\n", " as well as ", "\n", " after that ", "\n", " before ", "\n", " plus ", "\n", " also ", "\n")

func splitNeeds(query string) []string {
	var parts []string
	a := newAnalyzer()
	for piece := range strings.SplitSeq(breaks.Replace(query), "\n") {
		if strings.TrimSpace(piece) == "" {
			continue
		}
		if len(parts) > 0 && !standsAlone(a, piece) {
			parts[len(parts)-1] += " " + piece
			continue
		}
		parts = append(parts, piece)
	}
	return parts
}

// standsAlone reports whether a part of a query is a need of its own: it has a
// verb at its head and something for it to act on.
func standsAlone(a *analyzer, piece string) bool {
	ws := words(strings.ToLower(piece))
	for i, w := range ws {
		if i > 2 {
			break
		}
		if v, ok := lex().verbs[w]; ok && (!v.noun || i == 0) {
			return len(a.terms(piece)) >= 2
		}
	}
	return false
}

var stopWords = wordSet(`a an the of to in on for and or with my me i it its is be been was were are am do does did this that these those there
	all any some please can could would should will may might must you your we our us he she they them their from by at as if so not no into onto out up about than then
	want wants wanted need needs needed help like using use used via e g i.e eg etc just also s t re ve ll d let get's lets i'm im have has had having what how which who whom whose
	tool tools api given based provided specific specified using various allows allow provides provide support supports new one two`)
