package catalog

import (
	"encoding/json"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

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

// The numbers here and in search_score.go were set on public collections of
// tools and requests, one half of each (split by the tools asked for), and kept
// where the other half gained as well. None of them is sharp.
var (
	fieldWeight = [fields]float32{2.4, 1.6, 1.6, 1.1, 1, 0.8, 0.6}
	fieldLength = [fields]float32{0.3, 0.2, 0.3, 0.7, 0.75, 0.6, 0.6}
)

const (
	idfPower  = 0.8 // of how much a word tells
	verbShare = 0.9 // of a verb, which many tools have in other words

	mostIndexed = 1500 // bytes of a description that are indexed
	mostAbout   = 1500 // of what is said about parameters
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
	server   []int32   // the number of each entry's server
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
	ix := &index{terms: map[string]int32{}, pairs: map[[2]int32]int32{}, spelled: map[string][]int32{}, names: make([][]int32, len(entries)), class: make([]uint8, len(entries)), act: make([]uint8, len(entries)), server: make([]int32, len(entries))}
	servers := map[string]int32{}
	ix.scratch.New = func() any { return newScores(len(entries), len(ix.postings), len(servers)) }
	all := make([][]counted, len(entries))
	lengths := make([][fields]float32, len(entries))
	var average [fields]float32
	c := counter{ix: ix, analyzer: newAnalyzer()}
	for i, e := range entries {
		all[i] = c.count(e, int32(i), &lengths[i])
		ix.class[i], ix.act[i] = wishClass(e.Class.Permission), actOfTool(e)
		if _, ok := servers[e.ID.Server]; !ok {
			servers[e.ID.Server] = int32(len(servers))
		}
		ix.server[i] = servers[e.ID.Server]
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
