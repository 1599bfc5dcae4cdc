package catalog

import (
	"cmp"
	"slices"
	"strings"
)

// How a query finds tools. query.go puts kinds in the place of paths and
// addresses and takes the query apart into needs. search_score.go scores each
// need against the index that search_index.go builds of a set's tools: by the
// words of stem.go, what families.go knows them to stand for, and what kind of
// act is wished for. Search here leaves out what fits too little, adds up,
// favours servers that have more for a query of several needs, and says which
// of the needs each tool fits. search_fit.go puts what fits none into words.

// Hit is a tool found for a query. Scores of one query compare with each
// other and with nothing else.
type Hit struct {
	Entry Entry
	Score float64
	fits  met
}

const (
	leastFound   = 0.17 // of a need's weight that its best hit must have, or nothing fits
	leastCovered = 0.03 // that every hit must have
	leastOfBest  = 0.1  // of the best hit's score

	// A tool fits a need that it has half of, or so much of in words that tell
	// something. One that has less is the nearest there is, and may be far.
	halfCovered = 0.5
	leastScore  = 2.5

	mostQuery = 2000 // bytes of a query that are read

	nameFound = 1e6 // what a tool gets that the query names, beyond any sum
)

// Search returns the tools that fit the query, best first; ties go by the
// set's order, so equal sets give equal answers. A tool that the query names
// is always first. A query of several needs finds tools for each of them. What
// shares too little with the query is not found: nothing fits is an answer.
func (s *Set) Search(query string) []Hit {
	query = asRead(query)
	ix := s.index()
	sc := ix.scratch.Get().(*scores)
	defer ix.scratch.Put(sc)
	parts := needs(plainly(query))
	for i, p := range parts {
		ix.score(sc, p.text)
		ix.favour(sc, wishClass(wishOf(p.text)), actOf(p.text))
		best, found := sc.best()
		for _, e := range sc.touched {
			if v := sc.of[e]; found >= leastFound && sc.covered[e] >= leastCovered && v >= leastOfBest*best {
				sc.merge(e, p.merge(float64(v), float64(best), len(parts)))
				half := sc.covered[e] >= halfCovered
				if (half || v >= leastScore) && (sc.about[e] || !sc.object) {
					sc.fits[e].some |= 1 << i
					if half {
						sc.fits[e].half |= 1 << i
					}
				}
			}
		}
		sc.reset()
	}
	if len(parts) > 1 {
		ix.gather(sc)
	}
	for e, bonus := range s.named(query) {
		sc.merge(e, bonus)
		sc.fits[e].some |= wholeQuery
		sc.fits[e].half |= wholeQuery
	}
	hits := sc.top()
	slices.SortFunc(hits, func(a, b int32) int { return cmp.Or(cmp.Compare(sc.sum[b], sc.sum[a]), cmp.Compare(a, b)) })
	out := make([]Hit, len(hits))
	for i := range out {
		out[i] = Hit{s.entries[hits[i]], sc.sum[hits[i]], sc.fits[hits[i]]}
	}
	for _, e := range sc.merged {
		sc.sum[e], sc.fits[e] = 0, met{}
	}
	sc.merged = sc.merged[:0]
	return out
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

// scores are one query's sums, kept between queries so that none allocates
// for every tool. All are zero between uses.
type scores struct {
	of, covered []float32 // of the need at hand
	about       []bool    // whether a tool has more of it than its verb
	object      bool      // whether there is more
	touched     []int32
	wanted      []float32 // how much the need at hand is for a term
	asked       []int32   // the terms that it is for
	paid        []float32 // of the word at hand
	payees      []int32
	sum         []float64 // of the query
	merged      []int32
	fits        []met
	leading     [][leaders]float64 // a server's highest sums, highest first
	words       []word             // of the need at hand
	analyzer    *analyzer
}

func newScores(n, terms, servers int) *scores {
	return &scores{of: make([]float32, n), covered: make([]float32, n), about: make([]bool, n), paid: make([]float32, n), wanted: make([]float32, terms), sum: make([]float64, n), fits: make([]met, n), leading: make([][leaders]float64, servers), analyzer: newAnalyzer()}
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
		sc.of[e], sc.covered[e], sc.about[e] = 0, 0, false
	}
	for _, t := range sc.asked {
		sc.wanted[t] = 0
	}
	sc.touched, sc.asked = sc.touched[:0], sc.asked[:0]
	if len(sc.analyzer.stems) > 4096 { // words of queries are anyone's
		sc.analyzer = newAnalyzer()
	}
}
