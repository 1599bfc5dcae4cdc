package catalog

import (
	"math"
	"strings"

	"github.com/mcp-gate/mcp-gate/engagement"
)

// plainly puts its kind in the place of what is no word of the need but an
// argument, and writes as one word what tools do.
func plainly(query string) string {
	fields := strings.Fields(runTogether.Replace(" " + query + " "))
	for i, f := range fields {
		bare := strings.Trim(f, "'`\"(),.;:!?<>[]{}")
		kind := argumentKind(bare)
		if kind == "" {
			continue
		}
		if f[len(f)-1] != bare[len(bare)-1] { // what ends a sentence still ends it
			kind += f[len(f)-1:]
		}
		fields[i] = kind
	}
	return strings.Join(fields, " ")
}

// argumentKind is what an address or a path is one of, "" for other words.
// Of a path, the ending tells more than the names in it.
func argumentKind(s string) string {
	switch {
	case strings.Contains(s, "://"), strings.HasPrefix(s, "www."):
		return "url"
	case strings.Contains(s, "@") && strings.Contains(s, "."):
		return "email"
	case len(s) > 1 && s[0] == '/', strings.HasPrefix(s, "./"), strings.HasPrefix(s, "~/"), strings.Contains(s, `:\`), strings.Count(s, "/") > 2:
		if dot := strings.LastIndexByte(s, '.'); dot > 0 && len(s)-dot <= 5 {
			return "file " + s[dot+1:]
		}
		return "file"
	}
	if dot := strings.LastIndexByte(s, '.'); dot > 0 {
		switch name, ending := s[:dot], strings.ToLower(s[dot+1:]); {
		case fileEndings[ending]:
			return "file " + ending
		case siteEndings[ending]: // "booking.com" says what is looked for as well
			return "url " + name
		}
	}
	return ""
}

// The endings of names that are hardly anything else: "js" is one of programs.
var (
	fileEndings = wordSet("md txt csv tsv json jsonl yaml yml toml xml html htm css ts jsx tsx py go rs java cpp rb php sh sql ini cfg conf log pdf doc docx xls xlsx ppt pptx png jpg jpeg gif svg webp mp3 wav mp4 mov zip tar gz parquet ipynb env lock")
	siteEndings = wordSet("com org net io gov edu dev app ai co")
)

var runTogether = strings.NewReplacer(
	" log in ", " login ", " Log in ", " login ", " log into ", " login ", " Log into ", " login ", " logged in ", " login ", " logging in ", " login ", " sign in ", " login ", " Sign in ", " login ",
	" log out ", " logout ", " sign out ", " logout ", " sign up ", " register ", " look up ", " lookup ", " Look up ", " lookup ", " set up ", " setup ", " Set up ", " setup ",
	" back up ", " backup ", " Back up ", " backup ", " check out ", " checkout ", " turn on ", " switch ", " Turn on ", " switch ", " turn off ", " switch ", " Turn off ", " switch ", " how many ", " count how many ", " How many ", " count how many ", " up to date ", " latest ")

// cutQuoted takes a text apart around the first words in quotes. An apostrophe
// opens none.
func cutQuoted(text string) (before, quoted, after string) {
	for i := range len(text) {
		if text[i] != '"' && text[i] != '\'' || i > 0 && strings.IndexByte(" ([:=", text[i-1]) < 0 {
			continue
		}
		for j := i + 2; j < len(text); j++ {
			if text[j] == text[i] && (j+1 == len(text) || strings.IndexByte(" .,;:!?)]\"'", text[j+1]) >= 0) {
				return text[:i], text[i+1 : j], text[j+1:]
			}
		}
	}
	return text, "", ""
}

// wishOf is what a need is put as: a question or a reading verb asks for
// reading, another verb for an effect, anything else (zero) for either.
func wishOf(text string) engagement.Permission {
	for i, w := range words(strings.ToLower(text)) {
		if i > 6 {
			break
		}
		if asking[w] {
			return engagement.Read
		}
		if polite[w] {
			continue
		}
		if _, v, ok := lex().lemma(w); ok && !v.soft {
			return v.class
		}
		if kinds().verbStems[stem(w)] {
			return 0
		}
	}
	return 0
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

// actOf is which of the acts of words/synonyms.txt a need begins with, zero
// for a question or another verb.
func actOf(text string) uint8 {
	for i, w := range words(strings.ToLower(text)) {
		if i > 8 || asking[w] && w != "tell" {
			return 0
		}
		if polite[w] || w == "able" || w == "trying" || w == "looking" {
			continue
		}
		return kinds().act(w)
	}
	return 0
}

// actOfTool is the same of a tool: by the first verb of its name, else by the
// one that its description begins with.
func actOfTool(e Entry) uint8 {
	for i, w := range words(e.ID.Tool) {
		if v, _, ok := lex().lemma(w); ok && i < 4 && kinds().verbStems[stem(v)] {
			return kinds().act(v)
		}
	}
	for i, w := range words(e.Description[:min(len(e.Description), 80)]) {
		if i < 2 && kinds().act(w) > 0 {
			return kinds().act(w)
		}
	}
	return 0
}

var (
	asking = wordSet("what which who whose when where why how is are does did will has any tell whats")
	polite = wordSet("please can could would you i want need would like to help me us my we the a an let lets now then and also just your use using for in on")
)

const mostParts = 6 // needs of one query

// asksTheWeb reports whether a need is for what people publish about some
// subject: "find articles about tulips", "recent photos of comets".
func asksTheWeb(text string) bool {
	ws := words(strings.ToLower(text))
	seeks := false
	for i := 0; i+1 < len(ws); i++ {
		seeks = seeks || i < 8 && seeking[ws[i]]
		if !seeks || !kinds().published[stem(ws[i])] {
			continue
		}
		if onSubject[ws[i+1]] || i > 0 && fresh[ws[i-1]] && loosely[ws[i+1]] {
			return true
		}
	}
	return false
}

var (
	seeking   = wordSet("find search look looking show get give what which where are is any tell fetch retrieve discover explore locate gather browse know learn latest recent")
	onSubject = wordSet("about on regarding concerning related covering discussing featuring explaining")
	fresh     = wordSet("latest recent newest new current")
	loosely   = wordSet("of in for from") // of what is fresh only: "the content of the file" is no subject
)

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
		return 1.5 * v / best
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
