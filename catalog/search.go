package catalog

import (
	"cmp"
	"encoding/json"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/kljensen/snowball/english"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
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
	fieldAbout // what the parameters are, and the values they may have
	fields
)

// The numbers below were set on public collections of tools and requests, one
// half of each (split by the tools asked for), and kept where the other half
// gained as well. None of them is sharp.
var (
	fieldWeight = [fields]float32{2.4, 1.6, 1.6, 1.1, 1, 0.8, 0.6}
	fieldLength = [fields]float32{0.3, 0.2, 0.3, 0.7, 0.75, 0.6, 0.6}
)

const (
	saturation = 1.8 // BM25's k1
	idfPower   = 0.8 // of how much a word tells

	pairWeight   = 0.5  // of two words found side by side, against one word
	joinWeight   = 0.7  // of two words that a tool writes as one
	endingWeight = 0.5  // of a word that differs in its ending only
	nounWeight   = 0.4  // of a synonym of a noun, against the word itself
	verbWeight   = 0.45 // of a relative of a verb
	meansWeight  = 0.6
	nameBonus    = 0.9 // for a name that the query spells out whole

	verbShare     = 0.9 // of a verb, which many tools have in other words
	chatterShare  = 0.5 // of a word that any request may have
	numberShare   = 0.3 // of a number, which is an argument
	quotedShare   = 0.3 // of a word in quotes, which is one as well
	otherClass    = 0.8
	otherAct      = 0.8
	unknownWeight = 0.2 // of a word that no tool has: a name, a date

	leastFound   = 0.15 // of a need's weight that its best hit must have, or nothing fits
	leastCovered = 0.03 // that every hit must have
	leastOfBest  = 0.1  // of the best hit's score

	mostIndexed = 1500 // bytes of a description that are indexed
	mostAbout   = 1500 // of what is said about parameters
	mostQuery   = 2000 // bytes of a query that are read
	mostParts   = 6    // needs of one query

	nameFound = 1e6 // what a tool gets that the query names, beyond any sum
)

// index is an inverted index over the weighted words of a set.
type index struct {
	terms    map[string]int32
	pairs    map[[2]int32]int32 // of two terms side by side; numbered with the terms
	postings [][]posting
	idf      []float32
	names    [][]int32 // the terms of each entry's name, for the name bonus
	class    []uint8   // what each entry's class is for a wish: 0 not told, 1 reads, 2 has an effect
	act      []uint8   // which act each entry is, 0 not told
	sorted   []string  // the terms, for those that differ in their endings
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
	ix := &index{terms: map[string]int32{}, pairs: map[[2]int32]int32{}, spelled: map[string][]int32{}, names: make([][]int32, len(entries)), class: make([]uint8, len(entries)), act: make([]uint8, len(entries))}
	ix.scratch.New = func() any { return newScores(len(entries), len(ix.postings)) }
	all := make([][]counted, len(entries))
	lengths := make([][fields]float32, len(entries))
	var average [fields]float32
	c := counter{ix: ix, analyzer: newAnalyzer()}
	for i, e := range entries {
		all[i] = c.count(e, int32(i), &lengths[i])
		ix.class[i], ix.act[i] = wishClass(e.Class.Permission), actOfTool(e)
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
	ix.sorted = slices.Sorted(maps.Keys(ix.terms))
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
	for text := range aboutParams(e.InputSchema) {
		c.add(fieldAbout, text, i, lengths)
	}
	key := strings.Join(words(e.ID.Tool), " ")
	c.ix.spelled[key] = append(c.ix.spelled[key], i)
	return slices.Clone(c.out)
}

// aboutParams goes through the first sentence on each parameter of a tool and
// the values it may have, as far as they are bounded.
func aboutParams(schema json.RawMessage) iter.Seq[string] {
	return func(yield func(string) bool) {
		properties, _, err := strictjson.Get(schema, "properties")
		if err != nil {
			return
		}
		left := mostAbout
		for param, err := range strictjson.Object(properties) {
			if err != nil || left <= 0 {
				return
			}
			for m, err := range strictjson.Object(param.Value) {
				if err != nil {
					break
				}
				var said string
				switch m.Name {
				case "description":
					said = firstSentence(text(m.Value))
				case "enum":
					said = string(m.Value) // brackets and quotes are between the words
				}
				said = strings.ToValidUTF8(said[:min(len(said), max(left, 0))], "")
				left -= len(said)
				if said != "" && !yield(said) {
					return
				}
			}
		}
	}
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
		ix.idf[t] = tells(n, df)
	}
	for stem := range kinds().verbStems {
		if t, ok := ix.terms[stem]; ok {
			ix.idf[t] *= verbShare
		}
	}
	ix.unknown = tells(n, 0)
}

// tells is how much a word tells that df of n tools have. In a small set a
// rare word is rare by chance, so the rarest count less than BM25 has them.
func tells(n, df float64) float32 {
	return float32(math.Pow(math.Log(1+(n-df+0.5)/(df+0.5)), idfPower))
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
	if len(w) < 4 || len(w) > 40 {
		return w
	}
	w = oneSpelling(w)
	if s, ok := odd[w]; ok {
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

var odd = map[string]string{"news": "news", "organization": "organiz", "analysis": "analyz", "analytics": "analyt", "summarize": "summar", "summary": "summar", "summaries": "summar", "translation": "translat", "calculation": "calcul", "statistics": "statist", "stats": "statist", "communities": "communiti",
	"metre": "meter", "metres": "meter", "litre": "liter", "litres": "liter", "licence": "licens", "programme": "program", "programmes": "program"}

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
	parts := needs(plainly(query))
	for _, p := range parts {
		ix.score(sc, p.text)
		ix.favour(sc, wishClass(wishOf(p.text)), actOf(p.text))
		best, found := sc.best()
		for _, e := range sc.touched {
			if v := sc.of[e]; found >= leastFound && sc.covered[e] >= leastCovered && v >= leastOfBest*best {
				sc.merge(e, p.merge(float64(v), float64(best), len(parts)))
			}
		}
		sc.reset()
	}
	for e, bonus := range s.named(query) {
		sc.merge(e, bonus)
	}
	hits := sc.top()
	slices.SortFunc(hits, func(a, b int32) int { return cmp.Or(cmp.Compare(sc.sum[b], sc.sum[a]), cmp.Compare(a, b)) })
	out := make([]Hit, len(hits))
	for i := range out {
		out[i] = Hit{s.entries[hits[i]], sc.sum[hits[i]]}
	}
	for _, e := range sc.merged {
		sc.sum[e] = 0
	}
	sc.merged = sc.merged[:0]
	return out
}

// scores are one query's sums, kept between queries so that none allocates
// for every tool. All are zero between uses.
type scores struct {
	of, covered []float32 // of the need at hand
	touched     []int32
	wanted      []float32 // how much the need at hand is for a term
	asked       []int32   // the terms that it is for
	paid        []float32 // of the word at hand
	payees      []int32
	sum         []float64 // of the query
	merged      []int32
	words       []word // of the need at hand
	analyzer    *analyzer
}

func newScores(n, terms int) *scores {
	return &scores{of: make([]float32, n), covered: make([]float32, n), paid: make([]float32, n), wanted: make([]float32, terms), sum: make([]float64, n), analyzer: newAnalyzer()}
}

func (sc *scores) merge(e int32, v float64) {
	if sc.sum[e] == 0 {
		sc.merged = append(sc.merged, e)
	}
	sc.sum[e] += v
}

func (sc *scores) want(term int32, weight float32) {
	if sc.wanted[term] == 0 {
		sc.asked = append(sc.asked, term)
	}
	sc.wanted[term] = max(sc.wanted[term], weight)
}

func (sc *scores) add(e int32, v, cover float32) {
	if sc.of[e] == 0 {
		sc.touched = append(sc.touched, e)
	}
	sc.of[e] += v
	sc.covered[e] += cover
}

// best is the highest score, and the most of the need that a tool has.
func (sc *scores) best() (score, found float32) {
	for _, e := range sc.touched {
		score, found = max(score, sc.of[e]), max(found, sc.covered[e])
	}
	return score, found
}

// top leaves out what is far behind the best, before anything is sorted.
func (sc *scores) top() []int32 {
	var best float64
	for _, e := range sc.merged {
		if v := sc.sum[e]; v < nameFound { // a named tool is no measure for the others
			best = max(best, v)
		}
	}
	var out []int32
	for _, e := range sc.merged {
		if sc.sum[e] >= leastOfBest*best {
			out = append(out, e)
		}
	}
	return out
}

func (sc *scores) reset() {
	for _, e := range sc.touched {
		sc.of[e], sc.covered[e] = 0, 0
	}
	for _, t := range sc.asked {
		sc.wanted[t] = 0
	}
	sc.touched, sc.asked = sc.touched[:0], sc.asked[:0]
	if len(sc.analyzer.stems) > 4096 { // words of queries are anyone's
		sc.analyzer = newAnalyzer()
	}
}

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
	for j, t := range terms {
		if !seen[t.stem] {
			seen[t.stem] = true
			ix.group(sc, t, total)
		}
		if j > 0 && !seen[terms[j-1].stem+" "+t.stem] {
			seen[terms[j-1].stem+" "+t.stem] = true
			ix.together(sc, terms[j-1], t, total)
		}
	}
	ix.phrases(sc, terms, total)
	ix.nameBonus(sc)
	// Of two tools with equal sums, the one with more of the need is meant.
	for _, e := range sc.touched {
		sc.of[e] *= float32(math.Sqrt(float64(min(1, sc.covered[e]))))
	}
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

func (ix *index) weightOf(w word) float32 {
	if n, ok := ix.terms[w.stem]; ok {
		return ix.idf[n] * w.keep
	}
	return ix.unknown * unknownWeight * w.keep
}

// group adds a word and what it stands for. A tool is paid for the best of
// them only, so that one with five synonyms does not beat one with the word.
func (ix *index) group(sc *scores, asked word, total float32) {
	t, covers, own := asked.stem, ix.weightOf(asked)/total, asked.keep
	type way struct {
		term   int32
		weight float32
	}
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
	for _, w := range ways {
		sc.want(w.term, w.weight)
		for _, p := range ix.postings[w.term] {
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

// named gives a bonus beyond any score to tools that the query names: as a
// whole, in whatever spelling, or by an identifier within it.
func (s *Set) named(query string) map[int32]float64 {
	const whole, spelled, within = 4 * nameFound, 2 * nameFound, nameFound
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

var stopWords = wordSet(`a an the of to in on for and or with my me i it its is be been was were are am do does did this that these those there
	all any some please can could would should will may might must you your we our us he she they them their from by at as if so not no into onto out up about than then
	want wants wanted need needs needed help like using use used via e g i.e eg etc just also s t re ve ll d let get's lets i'm im have has had having what how which who whom whose
	tool tools api given based provided specific specified using various allows allow provides provide support supports new one two`)
