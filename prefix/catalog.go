package prefix

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/cespare/xxhash/v2"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
)

// catalogHead and catalogIntro begin every catalogue.
const (
	catalogHead  = "TOOL CATALOG"
	catalogIntro = "One line a tool, under its server: name: purpose [class], or only name [class] where the name says it. Write a tool as SERVER/NAME. " +
		"Where a server's line only tells what its tools are about and how many there are, find_tools finds them."
)

// widths are the bytes that a purpose may have, tried in this order, then none.
// They are few, so that a change of one server seldom moves the others from one
// to the next: only then do the lines of a server change that did not itself.
var widths = []int{longestPurpose, 128, 104, 84, 68, 56, 46, 38, 31, 25}

const longestPurpose = 160

// subjectWords are how many words tell what a server is for that has one line.
var subjectWords = [...]int{10, 6, 3, 0}

// server is one server's part of the catalogue. All of it is put together once;
// a layout only chooses from it.
type server struct {
	alias string
	tools []toolLine // sorted by name
	size  int        // bytes of the tools' lines without purposes
	mark  string     // names the bytes of the definitions in 8 hex digits
	about []string   // what the tools are about, most common first
	count string     // how many there are, and which domains they serve
}

// toolLine is what can stand in a tool's line.
type toolLine struct {
	head, purpose, class string

	says int // bytes up to the end of the purpose's first word that the names do not say
}

// catalogText writes the catalogue as fully as the budget allows: with the
// widest purposes that fit, the same for all tools; without any; with one line
// for as many of the largest servers as it takes. A few tokens are the least.
func catalogText(p Parts) string {
	servers := grouped(p.Tools)
	estimate := p.Estimate
	if estimate == nil {
		estimate = EstimateTokens
	}
	budget := max(cmp.Or(p.Budget, DefaultBudget), MinBudget)
	fits := func(l layout) (string, bool) {
		text := l.text(servers, p.Direct)
		return text, estimate(text) <= budget
	}
	if text, ok := widest(layout{}, fits); ok {
		return text
	}
	order := bySize(servers)
	for _, n := range subjectWords {
		folded := func(k int) layout {
			l := layout{folded: map[string]bool{}, subjects: n}
			for _, i := range order[:k] {
				l.folded[servers[i].alias] = true
			}
			return l
		}
		if _, ok := fits(folded(len(order))); !ok {
			continue
		}
		least := 1 + sortSearch(len(order)-1, func(k int) bool { _, ok := fits(folded(k + 1)); return ok })
		if text, ok := widest(folded(least), fits); ok {
			return text
		}
	}
	return shortest(servers, p, func(s string) bool { return estimate(s) <= budget })
}

// sortSearch is the least k below n for which ok holds, else n. Ok holds from
// some k on.
func sortSearch(n int, ok func(int) bool) int {
	low, high := 0, n
	for low < high {
		if mid := (low + high) / 2; ok(mid) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}

// widest gives a layout the widest purposes with which it fits, or none.
func widest(l layout, fits func(layout) (string, bool)) (string, bool) {
	for _, w := range widths {
		l.width = w
		if text, ok := fits(l); ok {
			return text, true
		}
	}
	l.width = 0
	return fits(l)
}

// grouped sorts tools by server, then by name, bytewise, and of two with one ID
// keeps the one with the lesser bytes.
func grouped(tools []catalog.Entry) []server {
	sorted := slices.Clone(tools)
	slices.SortFunc(sorted, func(a, b catalog.Entry) int {
		return cmp.Or(strings.Compare(a.ID.Server, b.ID.Server), strings.Compare(a.ID.Tool, b.ID.Tool),
			strings.Compare(string(a.Raw), string(b.Raw)), strings.Compare(a.Description, b.Description),
			cmp.Compare(a.Class.Permission, b.Class.Permission))
	})
	sorted = slices.CompactFunc(sorted, func(a, b catalog.Entry) bool { return a.ID == b.ID })
	var servers []server
	for len(sorted) > 0 {
		n := 1
		for n < len(sorted) && sorted[n].ID.Server == sorted[0].ID.Server {
			n++
		}
		servers = append(servers, newServer(sorted[:n]))
		sorted = sorted[n:]
	}
	return servers
}

func newServer(tools []catalog.Entry) server {
	s := server{alias: oneLine(tools[0].ID.Server), about: subjects(tools), count: countOf(tools)}
	h := xxhash.New()
	for _, t := range tools {
		_, _ = fmt.Fprintf(h, "%d %s", len(t.Raw), t.Raw) // a hash takes everything
		l := toolLine{head: "\n- " + lineName(t.ID.Tool), purpose: oneLine(t.Purpose(longestPurpose)), class: " [" + t.Class.Permission.String() + "]"}
		l.says = saying(l.purpose, t.ID)
		s.tools = append(s.tools, l)
		s.size += len(l.head) + len(l.class)
	}
	s.mark = fmt.Sprintf("%08x", uint32(h.Sum64()))
	return s
}

// bySize returns the places of the servers, those first whose names take most.
func bySize(servers []server) []int {
	order := make([]int, len(servers))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(servers[j].size, servers[i].size), strings.Compare(servers[i].alias, servers[j].alias))
	})
	return order
}

// layout is how much of each server is written.
type layout struct {
	width    int             // bytes of a purpose; 0: none
	folded   map[string]bool // servers with one line
	subjects int             // words about each of those
}

func (l layout) text(servers []server, direct bool) string {
	var b strings.Builder
	b.WriteString(catalogHead + "\n" + catalogIntro)
	if len(servers) == 0 {
		b.WriteString("\nThere are no tools.")
	}
	for _, s := range servers {
		b.WriteString("\n## " + s.alias)
		if direct {
			b.WriteString(" " + s.mark)
		}
		if summary := s.summary(l.subjects); l.folded[s.alias] && len(summary) < s.size {
			b.WriteString(": " + summary)
			continue
		}
		for _, t := range s.tools {
			b.WriteString(t.head)
			if purpose := shortened(t.purpose, l.width); len(strings.TrimSuffix(purpose, "…")) >= t.says {
				b.WriteString(": " + purpose)
			}
			b.WriteString(t.class)
		}
	}
	return b.String()
}

// summary is what a server's one line says of it.
func (s server) summary(subjects int) string {
	about := strings.Join(s.about[:min(subjects, len(s.about))], ", ")
	if about == "" {
		return s.count
	}
	return about + " (" + s.count + ")"
}

// lineName is a tool's name as it can stand in a line: as it is, or in quotes
// where it holds a space or something that cannot be seen.
func lineName(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsGraphic(r) || r == '"' }) {
		return strconv.QuoteToASCII(name)
	}
	return name
}

// connectives say nothing at the end of a purpose that was cut.
var connectives = map[string]bool{
	"a": true, "all": true, "an": true, "and": true, "any": true, "are": true, "as": true, "at": true, "be": true, "but": true, "by": true,
	"each": true, "for": true, "from": true, "has": true, "if": true, "in": true, "into": true, "is": true, "it": true, "its": true,
	"of": true, "on": true, "one": true, "or": true, "that": true, "the": true, "this": true, "to": true, "when": true, "where": true,
	"which": true, "whose": true, "with": true,
}

// shortened cuts a purpose to a width and then back to a word that means
// something.
func shortened(purpose string, width int) string {
	if width == 0 {
		return ""
	}
	s, wasCut := strings.CutSuffix(cutAtWord(purpose, width), "…")
	if !wasCut {
		return s
	}
	for {
		rest, last, ok := cutLast(s)
		if !ok || !connectives[strings.ToLower(last)] {
			return strings.TrimRight(s, " ,;:-") + "…"
		}
		s = rest
	}
}

// saying returns how many bytes of a purpose it takes to say what the names of the
// tool and its server do not, more than there are where none of it does.
func saying(purpose string, id catalog.ToolID) int {
	said := map[string]bool{}
	for _, w := range append(nameWords(id.Tool), nameWords(id.Server)...) {
		said[stem(w)] = true
	}
	first := true
	at := 0
	for w := range strings.SplitSeq(purpose, " ") {
		at += len(w)
		parts := nameWords(w)
		if said[stem(strings.Join(parts, ""))] { // "GitHub"
			parts = nil
		}
		for _, part := range parts {
			// What a sentence begins with is a verb, and the name has one.
			if verb := first && (commonVerbs[part] || commonVerbs[singular(part)] || commonVerbs[strings.TrimSuffix(part, "es")]); !verb && !said[stem(part)] && !connectives[part] && !empty[part] {
				return at
			}
			first = false
		}
		at++
	}
	return len(purpose) + 1
}

// empty are words that tell nothing of a tool.
var empty = wordSet("new existing specific specified given single multiple several various certain active current available accessible complete entire details detailed information info your their")

func wordSet(list string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		m[w] = true
	}
	return m
}

// stem joins the forms of a word in a name and in a sentence about it: "list"
// and "Lists", "create" and "Creating".
func stem(w string) string {
	w = singular(w)
	for _, end := range []string{"ing", "es", "ed", "e"} {
		if s, ok := strings.CutSuffix(w, end); ok && len(s) > 2 {
			return s
		}
	}
	return w
}

func cutLast(s string) (rest, last string, ok bool) {
	i := strings.LastIndexByte(s, ' ')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// oneLine drops what would break a line or cannot be seen. Joiners stay: some
// scripts are spelled with them.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\u200c', r == '\u200d', unicode.IsSpace(r):
			return r
		case !unicode.IsGraphic(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	return strings.Join(strings.Fields(s), " ")
}

// countOf says how many tools there are and which domains they serve.
func countOf(tools []catalog.Entry) string {
	count := fmt.Sprintf("%d tools", len(tools))
	if len(tools) == 1 {
		count = "1 tool"
	}
	var domains engagement.DomainSet
	for _, t := range tools {
		domains = domains.Union(t.Class.Domains)
	}
	if !domains.Empty() {
		count += "; " + domains.String()
	}
	return count
}

// commonVerbs are words of tools' names that do not tell servers apart.
var commonVerbs = map[string]bool{
	"api": true, "analyze": true, "connect": true, "disconnect": true, "drag": true, "drop": true, "emulate": true, "explain": true, "force": true,
	"give": true, "handle": true, "interact": true, "kill": true, "manage": true, "perform": true, "select": true, "take": true, "trigger": true,
	"add": true, "all": true, "and": true, "apply": true, "batch": true, "build": true, "bulk": true, "by": true, "call": true, "cancel": true,
	"check": true, "clear": true, "click": true, "close": true, "complete": true, "convert": true, "copy": true, "count": true, "create": true,
	"delete": true, "deploy": true, "describe": true, "disable": true, "download": true, "edit": true, "enable": true, "execute": true, "export": true,
	"fetch": true, "filter": true, "find": true, "for": true, "from": true, "generate": true, "get": true, "import": true, "info": true, "insert": true,
	"join": true, "list": true, "load": true, "lookup": true, "make": true, "mcp": true, "merge": true, "modify": true, "move": true, "multiple": true,
	"new": true, "open": true, "patch": true, "post": true, "preview": true, "publish": true, "put": true, "query": true, "read": true,
	"register": true, "remove": true, "rename": true, "reply": true, "reset": true, "resolve": true, "restore": true, "retrieve": true, "return": true,
	"run": true, "save": true, "search": true, "send": true, "set": true, "show": true, "start": true, "stop": true, "submit": true, "sync": true,
	"test": true, "the": true, "to": true, "tool": true, "update": true, "upload": true, "upsert": true, "use": true, "validate": true, "verify": true,
	"view": true, "with": true, "write": true,
}

// fewSubjects are enough words that several tools share.
const fewSubjects = 3

// longestSubject bounds a word, in bytes.
const longestSubject = 24

// subjects returns the words that most of the tools' names share, the server's
// own name and common verbs left out.
func subjects(tools []catalog.Entry) []string {
	own := map[string]bool{}
	for _, w := range nameWords(tools[0].ID.Server) {
		own[w] = true
	}
	count := map[string]int{}
	for _, t := range tools {
		seen := map[string]bool{}
		for _, w := range nameWords(t.ID.Tool) {
			if !seen[w] && !own[w] && !commonVerbs[w] && len(w) > 1 && len(w) <= longestSubject {
				seen[w] = true
				count[w]++
			}
		}
	}
	for _, w := range slices.Sorted(maps.Keys(count)) {
		if one := singular(w); one != w && count[one] > 0 {
			count[one] += count[w]
			delete(count, w)
		}
	}
	words := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), strings.Compare(a, b))
	})
	// What one tool of many has in its name says little of the server.
	if shared := slices.IndexFunc(words, func(w string) bool { return count[w] < 2 }); shared >= fewSubjects {
		words = words[:shared]
	}
	return words[:min(subjectWords[0], len(words))]
}

func singular(w string) string {
	if stem, ok := strings.CutSuffix(w, "ies"); ok {
		return stem + "y"
	}
	return strings.TrimSuffix(w, "s")
}

// nameWords takes a name apart at what is no letter and where a capital follows
// a small letter.
func nameWords(name string) []string {
	var words []string
	var word strings.Builder
	flush := func() {
		if word.Len() > 0 {
			words = append(words, strings.ToLower(word.String()))
			word.Reset()
		}
	}
	small := false
	for _, r := range name {
		if !unicode.IsLetter(r) || (small && unicode.IsUpper(r)) {
			flush()
		}
		if unicode.IsLetter(r) {
			word.WriteRune(r)
		}
		small = unicode.IsLower(r)
	}
	flush()
	return words
}

// shortest is what is left to say where a line a server is too much: as many
// names of servers as fit.
func shortest(servers []server, p Parts, fits func(string) bool) string {
	tools := 0
	var all strings.Builder
	for _, s := range servers {
		tools += len(s.tools)
		all.WriteString(s.mark)
	}
	head := fmt.Sprintf("%s\n%s\n%d tools of %d servers", catalogHead, catalogIntro, tools, len(servers))
	if p.Direct {
		head += fmt.Sprintf(" %08x", uint32(xxhash.Sum64String(all.String())))
	}
	named := func(k int) string {
		var names []string
		for _, s := range servers[:k] {
			names = append(names, s.alias)
		}
		more := ""
		if k < len(servers) {
			more = ", …"
		}
		return head + ": " + strings.Join(names, ", ") + more
	}
	k := sortSearch(len(servers), func(k int) bool { return !fits(named(k + 1)) })
	if k == 0 {
		return head + "."
	}
	return named(k)
}
