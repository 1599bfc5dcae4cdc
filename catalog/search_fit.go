package catalog

import (
	"slices"
	"strconv"
	"strings"
)

// needSet is a set of the needs of a query by their place in what needs gives:
// the whole query first, then its parts.
type needSet uint8

const wholeQuery needSet = 1

// met are the needs that a tool fits, and those that it has half of.
type met struct{ some, half needSet }

// Fit says how well the tools found for a query serve it.
type Fit struct {
	Fits   bool     // whether any of them fits; if not, they are only the nearest there are
	Unsaid []string // where none has half of a need: words of the query that none of them has
	Unmet  []string // of a query of several needs of which one is met: those that are not
	NoTool bool     // whether the query is a name, and no tool's
	Cut    bool     // whether the query is longer than what is read of it
}

// Notes are sentences on what the tools found leave out, for a person or a model.
func (f Fit) Notes() []string {
	var notes []string
	if len(f.Unsaid) > 0 {
		notes = append(notes, "none of these mentions "+inQuotes(f.Unsaid))
	}
	if len(f.Unmet) > 0 {
		notes = append(notes, "no tool here fits "+inQuotes(f.Unmet))
	}
	if f.Cut {
		notes = append(notes, "only the beginning of the query was read: say it shorter")
	}
	return notes
}

func inQuotes(all []string) string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = strconv.Quote(s)
	}
	return strings.Join(out, ", ")
}

const (
	mostJudged = 10 // hits
	mostUnsaid = 3
	mostUnmet  = 3
	mostWord   = 40 // bytes
	mostQuoted = 80 // of a need
)

// FitOf judges what was found for a query, all of it or the part that somebody may
// see.
func (s *Set) FitOf(query string, hits []Hit) Fit {
	f := Fit{Cut: len(query) > mostQuery, NoTool: isName(query)}
	query, hits = asRead(query), hits[:min(len(hits), mostJudged)]
	var all met
	for _, h := range hits {
		f.NoTool = f.NoTool && h.Score < nameFound
		all.some |= h.fits.some
		all.half |= h.fits.half
	}
	if f.Fits = all.some != 0; all.half == 0 && len(hits) > 0 {
		least := 3 // letters of a word that tells something
		if f.Fits {
			least = 5
		}
		plain, names := s.unsaid(query, hits, least)
		if f.Unsaid = plain; !f.Fits && len(plain) == 0 {
			f.Unsaid = names
		}
	}
	if all.some&^wholeQuery == 0 { // nothing is met, or the parts say too little by themselves
		return f
	}
	parts, asWritten, a := needs(plainly(query))[1:], splitNeeds(query), newAnalyzer()
	for i, p := range parts {
		if all.some&(wholeQuery<<(i+1)) == 0 && len(f.Unmet) < mostUnmet && standsAlone(a, p.text) {
			text := p.text
			if len(asWritten) == len(parts) { // with its names and addresses
				text = asWritten[i]
			}
			f.Unmet = append(f.Unmet, cutText(strings.Join(strings.Fields(text), " "), mostQuoted))
		}
	}
	return f
}

// isName reports whether a query is written as a tool's name is.
func isName(query string) bool {
	query = strings.TrimSpace(query)
	return strings.ContainsAny(query, "/_") && len(query) <= 200 && !strings.ContainsAny(query, " \t\n") && argumentKind(query) == ""
}

// asRead is what is read of a query.
func asRead(query string) string {
	if len(query) <= mostQuery {
		return query
	}
	return strings.ToValidUTF8(query[:mostQuery], "")
}

// unsaid are the words of a query, as they are written there, that none of the
// hits has, nor anything that they stand for. Verbs, numbers and what any
// request may say are not among them; names, which are mostly arguments, stand apart.
func (s *Set) unsaid(query string, hits []Hit, least int) (plain, names []string) {
	ix := s.index()
	sc := ix.scratch.Get().(*scores)
	defer ix.scratch.Put(sc)
	for _, h := range hits {
		sc.fits[s.byID[h.Entry.ID]].some = wholeQuery
	}
	among := func(t string) bool {
		n, ok := ix.find(t)
		return ok && slices.ContainsFunc(ix.postings[n], func(p posting) bool { return sc.fits[p.entry].some != 0 })
	}
	has := func(t string) bool {
		return among(t) || slices.ContainsFunc(kinds().related[t], func(r relative) bool { return !actWord(r.stem) && among(r.stem) })
	}
	tells := func(t string) bool { return len(t) >= least && keeps(t) == 1 }
	for query != "" {
		before, _, after := cutQuoted(query)
		for i, w := range strings.Fields(before) {
			w = strings.Trim(w, "'`\"(),.;:!?<>[]{}")
			terms := sc.analyzer.terms(w)
			if _, v, verb := lex().lemma(strings.ToLower(w)); verb && !v.noun || len(w) > mostWord || argumentKind(w) != "" || !slices.ContainsFunc(terms, tells) || slices.ContainsFunc(terms, has) {
				continue
			}
			list := &plain
			if i > 0 && w[0] >= 'A' && w[0] <= 'Z' {
				list = &names
			}
			if len(*list) < mostUnsaid && !slices.Contains(*list, w) {
				*list = append(*list, w)
			}
		}
		query = after
	}
	for _, h := range hits {
		sc.fits[s.byID[h.Entry.ID]] = met{}
	}
	return plain, names
}
