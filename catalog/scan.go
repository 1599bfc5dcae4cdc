package catalog

import (
	"encoding/json"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/enum"
	"github.com/mcp-gate/mcp-gate/internal/sieve"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// Tier is what a finding does. The zero Tier is none.
type Tier uint8

const (
	Block Tier = iota + 1 // the definition is held until a person has seen it
	Show                  // it is shown with the definition and holds nothing
)

var tiers = enum.Of[Tier]("tier", "block", "show")

func (t Tier) String() string                { return tiers.Word(t) }
func (t Tier) MarshalText() ([]byte, error)  { return tiers.Marshal(t) }
func (t *Tier) UnmarshalText(b []byte) error { return tiers.Unmarshal(b, t) }

// Finding is one thing in a definition that a person should look at. It is an
// alarm, not a wall: what no scan can find is held by pins, classes and
// approval.
type Finding struct {
	Kind  string `json:"kind"`
	Tier  Tier   `json:"tier"`
	Where string `json:"where"` // JSON pointer into the definition; "#" and a number after it for a member's own name
	Text  string `json:"text"`  // the passage with everything hidden in it made visible, at most 160 bytes
}

// The kinds of the blocking tier. A benign definition has none of them.
const (
	KindHidden    = "hidden-characters" // zero-width, bidirectional, tags, controls
	KindEscape    = "terminal-escape"
	KindHomoglyph = "homoglyph"
	KindEncoded   = "encoded-payload"
	KindLayout    = "hidden-layout"
	KindTooLong   = "too-long" // nobody looked at all of it
)

const (
	kindMismatch = "mismatch" // an effect that the name does not speak of
	kindAsked    = "asked"    // what a parameter asks for and the tool does not speak of
)

// mostScanned is how many bytes of a definition are looked at. The longest real
// ones known have a third of it; what a server hides behind it is held.
const mostScanned = 128 << 10

// mostFindings bounds what one definition can make a person read.
const mostFindings = 32

// Scan looks at every string of a definition, names and all, and returns what
// it finds in the definition's order. Peers are the other tools that stand
// beside it, for names that imitate one of theirs. Its time is linear in the
// size of the definition, of which it reads a bounded part, and of the peers'
// names. A definition that is longer is found too long, and so held.
func Scan(t Tool, peers []Tool) []Finding {
	f := featuresOf(t)
	return scan(t, &f, peers)
}

func scan(t Tool, f *features, peers []Tool) []Finding {
	name := f.byName()
	s := scanner{writes: name.class > engagement.Read, discloses: disclosing().MatchString(strings.Join(f.name, " ") + " " + strings.ToLower(f.first))}
	if len(t.Raw) > mostScanned {
		s.add(KindTooLong, Block, "", fmt.Sprintf("%d bytes, of which the first %d were looked at", len(t.Raw), mostScanned))
	}
	s.walk(t.Raw[:min(len(t.Raw), mostScanned)])
	s.name(t, peers)
	s.mismatch(t, f, name)
	return s.found
}

type scanner struct {
	found []Finding
	seen  map[seen]bool
	read  map[string]bool // texts that were graded: schemas repeat themselves

	writes    bool // the tool's name says that it has an effect
	discloses bool // its name or first sentence speaks of what a conversation or a sign-in holds
}

// disclosing are the tools that have a use for what was said, or for a secret.
var disclosing = sieve.Regexp(`conversation|chat|messag|dialog|memor|transcript|hand(ing)? ?(off|over)|agent|assistant|llm|model|prompt|feedback|summar|histor|context|reason|think|thought|bug|report|auth|log ?in|sign|secret|vault|key|token|password|credential|account|session|cookie|clipboard|system|host|environment`)

// seen is what one definition is told of once.
type seen struct{ kind, where string }

func (s *scanner) add(kind string, tier Tier, where, passage string) {
	key := seen{kind, where}
	if s.seen[key] || len(s.found) >= mostFindings && tier == Show {
		return
	}
	if len(s.found) >= mostFindings { // a blocking one is never crowded out
		i := slices.IndexFunc(s.found, func(f Finding) bool { return f.Tier == Show })
		if i < 0 {
			return
		}
		s.found = slices.Delete(s.found, i, i+1)
	}
	if s.seen == nil {
		s.seen = map[seen]bool{}
	}
	s.seen[key] = true
	s.found = append(s.found, Finding{kind, tier, where, display(passage, mostShown)})
}

// walk visits every string of a JSON value, member names included.
func (s *scanner) walk(raw json.RawMessage) {
	type level struct {
		object bool
		key    string
		n      int
		path   int // length of the pointer to it
	}
	var open []level
	var path, text []byte // path is the pointer to the innermost level, and what is made of it
	where := func() []byte {
		if len(open) == 0 {
			return path[:0]
		}
		top := open[len(open)-1]
		if path = append(path[:top.path], '/'); top.object {
			return append(path, pointerToken(top.key)...)
		}
		return strconv.AppendInt(path, int64(top.n), 10)
	}
	passed := func() { // a value ended
		if len(open) > 0 {
			open[len(open)-1].n++
		}
	}
	c := strictjson.NewCursor(raw)
	for {
		switch t := c.Next(); t.Kind {
		case 0:
			return
		case '{', '[':
			path = where()
			open = append(open, level{object: t.Kind == '{', path: len(path)})
		case '}', ']':
			open = open[:len(open)-1]
			passed()
		case '"':
			text = strictjson.Unquote(text[:0], t.Raw)
			if t.Name {
				open[len(open)-1].key = string(text)
				s.key(string(where()), open[len(open)-1].key)
				continue
			}
			s.text(string(where()), string(text))
			passed()
		default:
			passed()
		}
	}
}

func pointerToken(s string) string {
	if len(s) < 64 && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == '/' || r >= '~' }) {
		return s
	}
	return display(strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1"), 64)
}

// key scans a member's name. Names of parameters reach the model as its
// descriptions do.
func (s *scanner) key(where, name string) {
	if !strings.Contains(where, "/properties/") && len(name) < 24 && isASCII(name) {
		return
	}
	s.deterministic(where, name, true)
	s.graded(where, strings.ReplaceAll(name, "_", " "))
	s.graded(where, name)
}

func (s *scanner) text(where, text string) {
	isName := where == "/name"
	s.deterministic(where, text, isName)
	if !isName {
		s.graded(where, text)
	}
}

func (s *scanner) deterministic(where, text string, isName bool) {
	if isASCII(text) {
		s.controls(where, text)
	} else {
		s.hidden(where, text, isName)
		s.homoglyphs(where, text, isName)
	}
	if len(text) >= shortestEncoded {
		s.encoded(where, text)
	}
	s.layout(where, text)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// poisons are the graded patterns of words/poison.txt, with the kind of each,
// and after them those that lead to a look at each sentence.
type poison struct {
	kinds    []string
	patterns *sieve.Set
}

var poisons = sync.OnceValue(mustPoisons)

func mustPoisons() poison {
	var p poison
	var exprs []string
	eachLine("poison", func(kind, expr string) error {
		p.kinds, exprs = append(p.kinds, kind), append(exprs, strings.TrimSpace(strings.Map(foldedLetter, expr)))
		return nil
	})
	p.patterns = sieve.New(append(exprs, steers().leads...)...)
	return p
}

// mostGraded bounds how much of one string the graded patterns read; longer
// ones are read at both ends, where a reader's attention is paid for.
const mostGraded = 32 << 10

// graded looks for text that is addressed to the model.
func (s *scanner) graded(where, text string) {
	if len(text) < 8 {
		return
	}
	if len(text) > mostGraded {
		text = strings.ToValidUTF8(text[:mostGraded/2], "") + " " + strings.ToValidUTF8(text[len(text)-mostGraded/2:], "")
	}
	plain := folded(text)
	if s.read[plain] {
		return
	}
	if s.read == nil {
		s.read = map[string]bool{}
	}
	s.read[plain] = true
	before := len(s.found)
	for kind, at := range poisonsIn(plain) {
		switch {
		case kind == kindSteering:
			if len(s.found) == before { // no phrase says it better
				s.steering(where, plain)
			}
		case kind == kindMismatch && s.writes:
		case kind != kindAsked:
			s.add(kind, Show, where, around(plain, at[0], at[1]))
		case !s.discloses && strings.HasPrefix(where, "/inputSchema/"):
			s.add("exfiltration", Show, where, around(plain, at[0], at[1]))
		}
	}
}

// poisonsIn yields the kinds of graded patterns that a folded text has, and where.
// Where its sentences are worth a look, the last is [kindSteering], without a place.
func poisonsIn(plain string) iter.Seq2[string, []int] {
	return func(yield func(string, []int) bool) {
		known := poisons()
		for _, i := range known.patterns.Candidates(plain) {
			if i >= len(known.kinds) {
				yield(kindSteering, nil)
				return
			}
			at := known.patterns.Regexp(i).FindStringIndex(plain)
			if at != nil && known.kinds[i] == kindMismatch {
				at = unless(plain, known.patterns.Regexp(i), denial())
			}
			if at != nil && !yield(known.kinds[i], at) {
				return
			}
		}
	}
}

// denial is what an effect is denied with: "but does not execute it".
var denial = sieve.Regexp(`\b(not|never|cannot|\w+n.t)\b`)

// unless is where a pattern first matches without a denial in it, nil for nowhere.
func unless(plain string, pattern *regexp.Regexp, denial sieve.Pattern) []int {
	for _, at := range pattern.FindAllStringIndex(plain, -1) {
		if !denial.MatchString(plain[at[0]:at[1]]) {
			return at
		}
	}
	return nil
}

// speaksToModel reports whether a text has a graded pattern, wherever it stands.
func speaksToModel(text string) bool {
	for kind := range poisonsIn(folded(text)) {
		if kind != kindAsked && kind != kindSteering {
			return true
		}
	}
	return false
}

// around is a passage with a little of what surrounds it.
func around(s string, from, to int) string {
	from, to = max(0, from-16), min(len(s), max(to, from+40)+24)
	return strings.ToValidUTF8(s[from:to], "")
}

// name looks for a name that imitates a peer's, and for another server's tool
// that the description gives orders about.
func (s *scanner) name(t Tool, peers []Tool) {
	own := skeleton(t.ID.Tool)
	plain := ""
	for _, p := range peers {
		if p.ID == t.ID || p.ID.Server == t.ID.Server && p.ID.Tool == t.ID.Tool {
			continue
		}
		switch {
		case p.ID.Server != t.ID.Server && p.ID.Tool == t.ID.Tool:
			s.add("name-collision", Show, "/name", p.ID.String())
		case p.ID.Tool != t.ID.Tool && skeleton(p.ID.Tool) == own:
			s.add(KindHomoglyph, Block, "/name", t.ID.Tool+" looks like "+p.ID.Tool)
		}
		if p.ID.Server == t.ID.Server || len(p.ID.Tool) < 4 || !strings.ContainsAny(p.ID.Tool, "_-.") {
			continue
		}
		if plain == "" {
			plain = folded(strings.ToValidUTF8(t.Description[:min(len(t.Description), mostScanned)], ""))
		}
		if i := strings.Index(plain, strings.ToLower(p.ID.Tool)); i >= 0 && ordering().MatchString(plain) {
			s.add("shadowing", Show, "/description", around(plain, i, i+len(p.ID.Tool)))
		}
	}
}

var ordering = sieve.Regexp(`\b(must|always|instead|before|never|do not|don't|replace|override|first|whenever|every time|also)\b`)

// carrying are verbs that also say where a reading tool takes its results.
var carrying = wordSet("send push run call share execute")

// mismatch looks for a name that promises to read where the description
// destroys, sends or runs, and for claims of the same kind.
func (s *scanner) mismatch(t Tool, f *features, name finding) {
	described := f.byDescription()
	if name.class == engagement.Read && name.strong && described.class >= engagement.SourceFileWrite && described.strong && !described.vague() && (!carrying[described.verb] || f.sendsMessage(described)) {
		s.add(kindMismatch, Show, "/description", f.first)
	}
	if is(t.Hints.ReadOnly, true) && name.strong && name.class == engagement.Destructive && lex().verbs[name.verb].always {
		s.add(kindMismatch, Show, "/annotations/readOnlyHint", t.ID.Tool+" claims to be read-only")
	}
}
