package catalog

import (
	"slices"
	"strings"

	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/sieve"
)

// returnsContent is where the description of a writing tool says that more
// than an acknowledgement comes back.
var returnsContent = sieve.Regexp(`\breturns? (the |a |an |all )?([a-z-]+ ){0,3}(diff|contents?|output|rows|records|results|stdout|transcript)\b`)

// carries says which class of data a tool's result holds, and why.
func (f *features) carries(did finding) (engagement.Egress, string) {
	if class, why, ok := f.pixels(did); ok {
		return class, why
	}
	if did.class > engagement.Read {
		if did.ran || runs[did.verb] && did.verb != "call" && did.class == engagement.Destructive || returnsContent().MatchString(f.text) {
			return engagement.RowLevel, "gives what was run or changed"
		}
		return engagement.Metadata, "answers with an acknowledgement"
	}
	if did.class == 0 {
		return engagement.RowLevel, "what it gives cannot be told"
	}
	if len(f.name) > 0 {
		if class, ok := lex().egress.verb[did.verb]; ok && !(did.verb == "check" && lex().egress.name[singular(f.name[len(f.name)-1])] == engagement.RowLevel) {
			return class, "by the word \"" + did.verb + "\""
		}
		if n := len(f.name); n > 1 {
			if class, ok := lex().egress.name[f.name[n-2]+"_"+singular(f.name[n-1])]; ok && class <= engagement.RowLevel {
				return class, "by the words \"" + f.name[n-2] + " " + f.name[n-1] + "\""
			}
		}
		if w := f.head(); w != "" && !(did.verb == "search" && w == singular(w) && w != "metadata") {
			if class, ok := lex().egress.name[singular(w)]; ok && class < engagement.RowLevel && !(class == engagement.Aggregates && (did.verb == "search" || did.verb == "find")) && !(f.opens(did.verb, w) && class == engagement.Metadata) {
				return class, "by the word \"" + w + "\""
			}
		}
	}
	first := strings.ToLower(f.first)
	for _, p := range lex().egress.text {
		if p.class <= engagement.Aggregates && strings.Contains(first, p.text) {
			return p.class, "by its description"
		}
	}
	return engagement.RowLevel, "gives records or contents"
}

// head is the noun that says what a result is made of: the last of the name,
// or the one before "by", "for", "in". What is asked of the past is records.
func (f *features) head() string {
	end := len(f.name) - 1
	for i, w := range f.name {
		if w == "historical" || w == "history" {
			return ""
		}
		if i > 0 && (stops[w] || w == "of") {
			end = i - 1
			break
		}
	}
	if end > 0 && trailing[f.name[end]] { // "sites_get"
		end--
	}
	last := end
	for last > 0 && listing[f.name[last]] {
		last--
	}
	w := f.name[last]
	if plainInfo[f.name[end]] && (described[w] || slices.Contains(f.server, w)) || f.name[0] != "grep" && named[singular(w)] && listsNames[f.name[0]] || f.name[0] == "list" && namedInLists[singular(w)] {
		return "metadata"
	}
	if last < end && f.name[end] != "list" {
		return "" // details of a thing, not its name
	}
	return w
}

// opens reports whether a verb gives what is behind a noun that is else a mere
// name: reading a URL gives the page, scanning a host what is wrong with it.
func (f *features) opens(verb, noun string) bool {
	return verb == "query" || verb == "scan" && noun != "keys" || contentsOf[verb] && address[noun]
}

var (
	contentsOf = wordSet("read fetch scrape crawl extract browse visit")
	address    = wordSet("url urls link links endpoint site website")
	listing    = wordSet("list info details information data detail")
	trailing   = wordSet("get fetch retrieve show describe")
	plainInfo  = wordSet("info information")
	described  = wordSet("file table server system directory folder version build platform environment device video audio image account_type connection presentation workbook app datastore instance session queue topic cluster workflow pipeline job source destination connector model plugin extension")
	named      = wordSet("file path object key repository")
	listsNames = wordSet("list search find ls glob")

	// A list of these gives their names; of messages or orders it gives them whole.
	namedInLists = wordSet("function procedure import class symbol method variable keyspace script agent run fetch datastore shard partition replica doc document notebook spreadsheet presentation queue child scan user_group secret certificate")
)

var (
	notPictures = sieve.Regexp(`\bdocker|\bcontainer image|\bvirtual machine|\bdisk image|\bvm\b|\bami\b|\bdocker image`)
	madeNow     = sieve.Regexp(`\brender|\bcharts?\b|\bdiagram|\bscreenshot|\bplot|\bgenerated?\b`)
	aboutIt     = sieve.Regexp(`\b([Ii]nformation|[Dd]etails|[Mm]etadata|[Ss]tatistics) (about|of|on|for)\b`)
	asPicture   = sieve.Regexp(`\bimage|\bpng\b|\bsvg\b|\bpicture|\bscreenshot|\brender|\bvisual`)
)

func pairsOf(ws []string) []string {
	var out []string
	for i := 1; i < len(ws); i++ {
		out = append(out, ws[i-1]+"_"+ws[i])
	}
	return out
}

// pixels looks for a result that is a picture.
func (f *features) pixels(did finding) (engagement.Egress, string, bool) {
	if notPictures().MatchString(f.text) {
		return 0, "", false
	}
	for _, w := range append(f.name, pairsOf(f.name)...) {
		class, ok := lex().egress.name[singular(w)]
		if !ok || class < engagement.RenderedPixels {
			continue
		}
		if !f.givesPicture(did, w) {
			continue
		}
		if class == engagement.RawPixels && (did.class > engagement.Read || did.verb == "generate" || did.verb == "create" || madeNow().MatchString(f.text)) {
			class = engagement.RenderedPixels // made just now, not as stored
		}
		return class, "gives a picture", true
	}
	for _, p := range lex().egress.text {
		if p.class >= engagement.RenderedPixels && did.class <= engagement.ReversibleWrite && strings.Contains(strings.ToLower(f.first), p.text) {
			return p.class, "gives a picture", true
		}
	}
	return 0, "", false
}

// givesPicture reports whether a word such as "image" or "chart" is what the
// tool gives, not what it looks up, counts or changes.
func (f *features) givesPicture(did finding, w string) bool {
	if did.class >= engagement.SourceFileWrite {
		return false
	}
	if (did.verb == "get" || did.verb == "fetch") && !asPicture().MatchString(f.text) && lex().egress.name[singular(w)] == engagement.RenderedPixels && w != "screenshot" {
		return false // a chart's numbers
	}
	if w != "screenshot" && aboutIt().MatchString(f.first) {
		return false
	}
	switch did.verb {
	case "list", "search", "find", "count", "analyze", "describe", "detect", "extract", "ocr", "delete", "update", "upload", "tag", "read_text", "classify", "summarize", "transcribe", "query":
		return w == "screenshot"
	case "get", "fetch", "download", "view", "read", "show", "capture", "take", "render", "generate", "create", "make", "draw", "plot", "display", "export", "visualize", "screenshot", "build", "edit", "resize", "convert", "crop", "snapshot", "rotate", "upscale", "chart":
		for i, n := range f.name { // of "get_image_metadata", "get_video_comments"
			if n == w && i+1 < len(f.name) && !stops[f.name[i+1]] && f.name[i+1] != "url" && f.name[i+1] != "data" && f.name[i+1] != "content" && f.name[i+1] != "file" && f.name[i+1] != "image" {
				return false
			}
		}
		return true
	}
	return w == "screenshot" || did.class == engagement.Read && f.name[len(f.name)-1] == w
}

// Where a word stands says how surely it names the work a tool is for.
const (
	domainName, domainServer, domainTitle, domainFirst, domainRest, domainParam = 3.0, 2.5, 1.5, 1.5, 0.4, 0.4

	domainFloor  = 5.0 // a word of weight 2 in the name, or of 3 in two lesser places
	domainShare  = 0.5
	domainBeside = 2.0 // beside what the server's own name says
	domainsMost  = 2
)

// serves says which kinds of work a tool is for: the domains its words speak
// of, at most two.
func (f *features) serves(t Tool) engagement.DomainSet {
	var score [16]float64
	add := func(ws []string, place float64) {
		var seen map[string]bool
		for i := 0; i < len(ws); i++ {
			longest := 1
			if lex().begins[ws[i]] {
				longest = min(3, len(ws)-i)
			}
			for n := longest; n > 0; n-- { // the longest that is known
				w := singular(strings.Join(ws[i:i+n], "_"))
				ds, ok := lex().domains[w]
				if !ok {
					continue
				}
				for _, d := range ds {
					if !seen[w] {
						score[d.domain] += place * d.weight
					}
				}
				if seen == nil {
					seen = map[string]bool{}
				}
				seen[w] = true
				i += n - 1
				break
			}
		}
	}
	add(f.server, domainServer)
	own := slices.Index(score[:], max(3*domainServer, slices.Max(score[:]))) // -1 where the server's name does not say
	add(f.name, domainName)
	add(words(t.Title), domainTitle)
	add(words(strings.ToLower(f.first)), domainFirst)
	if rest := strings.ToLower(f.first); len(f.text) > len(rest) {
		add(words(f.text[len(rest):]), domainRest)
	}
	for _, p := range f.params {
		add(words(p.name), domainParam)
	}
	if own >= 0 { // the others must be meant twice as much
		for i := range score {
			if i != own && score[i] < domainBeside*score[own] {
				score[i] = 0
			}
		}
		score[own] = slices.Max(score[:])
	}
	return strongest(score[:])
}

func strongest(score []float64) engagement.DomainSet {
	best := slices.Max(score)
	var out engagement.DomainSet
	for range domainsMost {
		top, at := 0.0, -1
		for i, s := range score {
			if s > top && s >= domainFloor && s >= domainShare*best && !out.Has(engagement.Domain(i)) {
				top, at = s, i
			}
		}
		if at < 0 {
			break
		}
		out = out.With(engagement.Domain(at))
	}
	return out
}
