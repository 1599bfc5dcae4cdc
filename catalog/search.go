package catalog

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Weights of the fields a word can be found in, and BM25's own two constants
// (Robertson and Zaragoza 2009, section 3.4).
const (
	weightName, weightTitle, weightText, weightParam = 4.0, 3.0, 1.0, 0.6
	bm25K, bm25B                                     = 1.2, 0.6
)

// Hit is a tool found for a query. Scores of one query compare with each
// other and with nothing else.
type Hit struct {
	Entry Entry
	Score float64
}

// index is an inverted index over the weighted words of a set.
type index struct {
	postings map[string][]posting
	length   []float64 // weighted words of each entry
	average  float64
}

type posting struct {
	entry  int
	weight float64
}

func newIndex(entries []Entry) *index {
	ix := &index{postings: map[string][]posting{}, length: make([]float64, len(entries))}
	var total float64
	for i, e := range entries {
		weights := map[string]float64{}
		add := func(text string, w float64) {
			for _, word := range words(text) {
				weights[stem(word)] += w
				ix.length[i] += w
			}
		}
		add(e.ID.Tool, weightName)
		add(e.ID.Server, weightName/2)
		add(e.Title, weightTitle)
		add(e.Description, weightText)
		for _, p := range e.Params {
			add(p, weightParam)
		}
		for word, w := range weights {
			ix.postings[word] = append(ix.postings[word], posting{i, w})
		}
		total += ix.length[i]
	}
	ix.average = total / max(1, float64(len(entries)))
	return ix
}

// Search returns the tools that fit the query, best first; ties go by the
// set's order, so equal sets give equal answers. A tool whose name is the
// query is always first. Nothing that shares no word with the query is found.
func (s *Set) Search(query string) []Hit {
	scores := map[int]float64{}
	n := float64(len(s.entries))
	seen := map[string]bool{}
	for _, word := range words(query) {
		word = stem(word)
		if seen[word] || stopWords[word] {
			continue
		}
		seen[word] = true
		list := s.index.postings[word]
		idf := math.Log(1 + (n-float64(len(list))+0.5)/(float64(len(list))+0.5))
		for _, p := range list {
			norm := bm25K * (1 - bm25B + bm25B*s.index.length[p.entry]/s.index.average)
			scores[p.entry] += idf * p.weight * (bm25K + 1) / (p.weight + norm)
		}
	}
	if e, ok, _ := s.Find(strings.TrimSpace(query)); ok {
		scores[s.byID[e.ID]] = math.Inf(1)
	}
	hits := make([]int, 0, len(scores))
	for i := range scores {
		hits = append(hits, i)
	}
	slices.SortFunc(hits, func(a, b int) int { return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(a, b)) })
	out := make([]Hit, len(hits))
	for i, h := range hits {
		out[i] = Hit{s.entries[h], scores[h]}
	}
	return out
}

// stem takes the commonest endings off an English word, so that "issues" and
// "issue", "listing" and "list" meet.
func stem(w string) string {
	for _, ending := range []string{"ies", "ing", "es", "ed", "s"} {
		if len(w) > len(ending)+2 && strings.HasSuffix(w, ending) {
			switch ending {
			case "ies":
				return w[:len(w)-3] + "y"
			case "s":
				if strings.HasSuffix(w, "ss") {
					return w
				}
			case "es":
				if !strings.HasSuffix(w, "shes") && !strings.HasSuffix(w, "ches") && !strings.HasSuffix(w, "xes") && !strings.HasSuffix(w, "sses") {
					return w[:len(w)-1]
				}
			}
			return w[:len(w)-len(ending)]
		}
	}
	return w
}

var stopWords = map[string]bool{
	"a": true, "an": true, "the": true, "of": true, "to": true, "in": true, "on": true, "for": true, "and": true,
	"or": true, "with": true, "my": true, "me": true, "i": true, "it": true, "is": true, "be": true, "this": true,
	"that": true, "all": true, "please": true, "can": true, "you": true, "from": true, "by": true, "at": true,
}
