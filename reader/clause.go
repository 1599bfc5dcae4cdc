package reader

import (
	"strings"

	"github.com/mcp-gate/mcp-gate/engagement"
)

// mood is how the sentence at hand is meant.
type mood uint8

const (
	moodOpen     mood = iota // nothing was said yet
	moodAsked                // somebody is asked to do it
	moodQuestion             // a fact is asked for
	moodHow                  // it asks how, or whether, something would be done
	moodTold                 // something is told
)

// How surely a use of a verb asks for its act.
const (
	weak   = 1 // a verb in passing
	likely = 2 // a wish, a passive, a purpose
	sure   = 3 // an imperative, plain or polite
)

// use is a verb, or a question, at a place of the text.
type use struct {
	class    *verbClass // nil for a question
	act      engagement.Act
	at, end  int // tokens
	strength int
	negated  bool
	asked    bool // within a question: it is spoken of, not asked for
	meaning  meaning
	found    bool // an object decided the meaning
}

// parser walks over the tokens once and collects uses.
type parser struct {
	*page
	uses    []use
	buf     [16]use
	mood    mood
	expect  bool // a verb here is in its place
	purpose bool // ... after "to"
	gerund  bool // ... as a gerund
	passive bool // ... as a participle
	negated bool
	soft    bool // the place was opened by a comma or a connector
	polite  bool // the question began with "could" or the like
	timed   bool // the sentence began with a time: "every day at 9 ..."

	converse, goAhead, plain int // tokens that are pleasantries, assent, neither
}

// parse reads the moods and verbs of a page.
func (p *parser) parse() {
	p.uses = p.buf[:0]
	p.open()
	for i := 0; i < len(p.tokens); {
		i += max(1, p.step(i))
	}
	for i := range p.uses {
		p.settle(i)
	}
}

// open begins a sentence.
func (p *parser) open() {
	p.mood, p.expect, p.purpose, p.gerund, p.passive, p.negated, p.soft = moodOpen, true, false, false, false, false, false
	p.polite, p.timed = false, false
}

// step takes the token at i and returns how many tokens it used up.
func (p *parser) step(i int) int {
	t := &p.tokens[i]
	switch {
	case t.pause == pauseHard:
		p.open()
	case t.pause == pauseSoft:
		p.comma(i)
	}
	p.count(t)
	if t.quoted && !(p.timed && p.mood == moodOpen) {
		if p.mood == moodOpen && t.isObject {
			p.mood = moodTold
		}
		p.expect = p.expect && !t.isObject
		return 1
	}
	p.note(i)
	if t.foreign && t.class != nil {
		p.add(i, likely)
		return 1
	}
	if n := p.splitVerb(i); n > 0 {
		return n
	}
	if n := p.small(i); n > 0 {
		return n
	}
	if t.class != nil && !t.joined {
		if n := p.verb(i); n > 0 {
			return n
		}
	}
	if n := p.strange(i); n > 0 {
		return n
	}
	return p.content(i)
}

// comma may end a negation and opens a place for another verb.
func (p *parser) comma(i int) {
	p.expect, p.soft, p.purpose, p.passive = true, true, false, false
	if p.negated && !p.orAhead(i) {
		p.negated = false
	}
}

// orAhead reports whether the sentence goes on with an "or", which carries a
// negation on: "do not edit, move or delete anything".
func (p *parser) orAhead(i int) bool {
	for j := i; j < len(p.tokens) && j < i+8; j++ {
		if p.tokens[j].pause == pauseHard && j > i {
			return false
		}
		if string(p.text(&p.tokens[j])) == "or" {
			return true
		}
	}
	return false
}

// count keeps the balance of pleasantries and the rest.
func (p *parser) count(t *token) {
	switch {
	case t.roles.has(roleConverse):
		p.converse++
	case t.roles.has(roleGoAhead):
		p.goAhead++
	case !t.roles.has(roleFiller):
		p.plain++
	}
}

// note collects the cues of the other axes; a negated one says nothing.
func (p *parser) note(i int) {
	t := &p.tokens[i]
	r := t.roles
	if p.negated {
		r &^= rolesOf(roleIrreversible, roleCostly)
	}
	if r.has(roleAdverbial) && i+1 < len(p.tokens) && p.tokens[i+1].pause == pauseNone && p.tokens[i+1].roles&between == 0 {
		r &^= rolesOf(roleAdverbial, roleUnattended, roleDurable)
	}
	p.roles |= r
}

// between are the roles of words that may follow an adverb of time; another word
// makes it an adjective: "the weekly report".
var between = rolesOf(rolePreposition, roleConnector, roleTo, roleFiller, roleContrast)

// small takes function words and set phrases. It returns 0 where the token is
// something else, or a verb in its place.
func (p *parser) small(i int) int {
	t := &p.tokens[i]
	r := t.roles
	if r == 0 {
		return 0
	}
	longer := t.verbLen > t.roleLen || t.verbLen == t.roleLen && t.class != nil && p.inPlace(i)
	switch {
	case r.has(roleAsking) && (p.expect || t.roleLen > 1) && t.verbLen <= t.roleLen:
		p.mood, p.expect = moodHow, true
		p.question(i, engagement.ActAnswer)
		return t.roleLen
	case r.has(roleOpener) && !longer:
		return p.opener(i)
	case longer:
		return 0
	case r.has(roleNegator):
		p.negated, p.expect = true, true
		return t.roleLen
	case r.has(roleWhere), r.has(roleWhy), r.has(roleFact), r.has(roleYesNo):
		if n := p.asks(i); n > 0 {
			return n
		}
	}
	return p.grammar(i)
}

// opener takes "could you", "I need to" and the like.
func (p *parser) opener(i int) int {
	t := &p.tokens[i]
	if n := len(p.uses); p.mood == moodQuestion && n > 0 && p.uses[n-1].class == nil && p.uses[n-1].end == i {
		return t.roleLen // "what would you change"
	}
	strong := t.roleLen > 1 || p.mood == moodOpen || p.expect
	if p.mood == moodHow && !p.expect || p.mood == moodQuestion && !strong {
		return t.roleLen
	}
	if p.mood != moodHow || t.pause != pauseNone {
		p.mood = moodAsked
	}
	p.expect, p.negated, p.soft = true, false, false
	return t.roleLen
}

// asks takes a question word where a question may begin.
func (p *parser) asks(i int) int {
	t := &p.tokens[i]
	start := p.mood == moodOpen || p.expect && (p.mood == moodAsked || p.soft)
	if !start && t.roleLen < 2 {
		return 0
	}
	if p.mood == moodHow && !p.soft {
		return 0
	}
	act := engagement.ActAnswer
	switch {
	case t.roles.has(roleWhere):
		act = engagement.ActLocate
	case t.roles.has(roleWhy):
		act = engagement.ActAnalyze
	case t.roles.has(roleFact):
	default: // is, does ...: a question only at the start of its sentence
		if p.mood != moodOpen || !p.inverted(i) {
			return 0
		}
		act = p.yesNo(i)
	}
	p.question(i, act)
	p.mood, p.expect = moodQuestion, false
	p.polite = t.roles.has(roleYesNo) && p.canDo(t)
	return t.roleLen
}

// canDo reports whether an auxiliary may ask for something in the passive: "could
// the header be moved".
func (p *parser) canDo(t *token) bool {
	switch string(p.text(t)) {
	case "can", "could", "would", "will", "should":
		return true
	}
	return false
}

// inverted reports whether an auxiliary at i opens a question: a subject follows.
func (p *parser) inverted(i int) bool {
	if i+1 >= len(p.tokens) || p.tokens[i+1].pause == pauseHard {
		return false
	}
	n := &p.tokens[i+1]
	return n.roles.any(rolesOf(roleDeterminer, roleSubject, rolePronoun, roleNegator)) || n.class == nil || n.form&formBase == 0 || n.isObject
}

// yesNo tells a check from a plain question: is it up, does it pass.
func (p *parser) yesNo(i int) engagement.Act {
	for j := i + 1; j < len(p.tokens) && p.tokens[j].pause != pauseHard; j++ {
		if p.tokens[j].roles.has(roleProof) {
			return engagement.ActVerify
		}
	}
	return engagement.ActAnswer
}

func (p *parser) question(i int, act engagement.Act) {
	u := use{act: act, at: i, end: i + max(1, p.tokens[i].roleLen), strength: likely}
	u.meaning = meaning{act: act, stakes: engagement.StakesInert}
	p.uses = append(p.uses, u)
}

// grammar takes the rest of the small words.
func (p *parser) grammar(i int) int {
	t := &p.tokens[i]
	r := t.roles
	switch {
	case r.has(roleGerund) && (p.expect || t.roleLen > 1 || r.has(roleWantBe) || p.mood == moodAsked):
		p.gerund, p.negated = true, false
		if r.has(roleWantBe) {
			p.passive = true
		}
		if p.mood == moodOpen && t.roleLen > 1 {
			p.mood = moodAsked
		}
		p.expect = p.expect && r.has(roleFiller)
		return t.roleLen
	case r.has(roleWantBe):
		p.passive, p.expect = true, false
		return t.roleLen
	case r.has(roleFiller):
		return t.roleLen
	case r.has(roleContrast):
		p.negated, p.expect, p.soft = false, true, true
		return t.roleLen
	case r.has(roleConnector):
		if string(p.text(t)) != "or" {
			p.negated = false
		}
		p.expect, p.soft = true, true
		return t.roleLen
	case r.has(roleBe) && p.polite:
		p.passive, p.mood = true, moodAsked
		return t.roleLen
	case r.has(roleTo):
		p.expect, p.purpose = true, true
		return 1
	case r.has(roleConverse) && t.roleLen > t.verbLen:
		return t.roleLen
	case r.any(rolesOf(roleConverse, roleGoAhead, roleRecurring, roleDurable)) && p.mood == moodOpen && !p.inPlace(i):
		p.timed = r.any(rolesOf(roleRecurring, roleDurable))
		return t.roleLen
	}
	return 0
}

// inPlace reports whether a verb at i stands where one is asked for.
func (p *parser) inPlace(i int) bool {
	t := &p.tokens[i]
	if t.class == nil || t.joined {
		return false
	}
	return p.expect && t.form&formBase != 0 && !p.nounHere(i) ||
		p.gerund && t.form&formIng != 0 || p.passive && t.form&formPast != 0
}

// nounHere reports whether a word that is verb and thing alike is the thing:
// "test results", "email from Bob", "look at blame and log".
func (p *parser) nounHere(i int) bool {
	t := &p.tokens[i]
	if !t.isObject || t.verbLen > 1 {
		return false
	}
	if i+1 >= len(p.tokens) || p.tokens[i+1].pause != pauseNone {
		return len(p.tokens) == 1 || p.soft && !doesAlone(t.class.name)
	}
	switch string(p.text(&p.tokens[i+1])) {
	case "is", "are", "was", "were", "has", "have", "from", "of", "failed", "fails", "failing", "results", "result", "keeps", "status":
		return true
	}
	return false
}

// doesAlone reports whether the verbs of a class stand without an object:
// "build, test and deploy".
func doesAlone(class string) bool {
	switch class {
	case "deploy", "run", "restart", "verify", "vcs", "merge":
		return true
	}
	return false
}

// verb takes a verb. It returns 0 where the word is no verb in this place.
func (p *parser) verb(i int) int {
	t := &p.tokens[i]
	if p.recalls(i) {
		return 0
	}
	strength := 0
	switch {
	case p.expect && t.form&formBase != 0 && !p.nounHere(i):
		strength = p.strengthHere(i)
	case p.gerund && t.form&formIng != 0, p.passive && t.form&formPast != 0:
		strength = likely
	case p.mood == moodTold && t.form&(formBase|formIng) != 0 && !p.afterNounMark(i) && !p.compound(i) && !p.told(i) && effectful(t.class.plain.act):
		strength = weak
	}
	if strength == 0 {
		return 0
	}
	if t.class.name == "inform" && strength >= likely && p.mood != moodHow {
		p.add(i, strength)
		p.mood, p.expect, p.soft = moodOpen, true, false
		return t.verbLen
	}
	p.add(i, strength)
	if p.mood == moodOpen {
		p.mood = moodAsked
	}
	p.expect, p.purpose, p.gerund, p.passive = false, false, false, false
	return t.verbLen
}

// recalls reports whether "never" or "always" tells of the past rather than lays
// down a rule: "never thought of that".
func (p *parser) recalls(i int) bool {
	switch string(p.text(&p.tokens[i])) {
	case "never", "always":
		next := i + 1
		return next < len(p.tokens) && p.tokens[next].form&(formPast|formBase) == formPast
	}
	return false
}

// split is a verb whose meaning hangs on a word after its object, as in "let the
// customer know" or "put the page live".
type split struct {
	tail, class string
	others      bool // it does something for others: "let me know" is none
}

var splits = map[string][]split{
	"let":    {{"know", "send", true}},
	"tear":   {{"down", "destroy", false}},
	"clock":  {{"in", "ticket", false}, {"out", "ticket", false}},
	"tick":   {{"off", "ticket", false}},
	"cross":  {{"off", "ticket", false}},
	"keep":   {{"posted", "send", true}, {"updated", "send", true}, {"informed", "send", true}, {"in the loop", "send", true}},
	"loop":   {{"in", "send", true}},
	"hit":    {{"up", "send", true}},
	"copy":   {{"in", "send", true}},
	"give":   {{"heads up", "send", true}, {"shout", "send", true}, {"ring", "send", true}, {"call", "send", true}, {"nudge", "send", true}, {"once over", "verify", false}, {"money back", "pay", false}, {"refund", "pay", false}, {"spin", "run", false}, {"try", "run", false}, {"whirl", "run", false}, {"go", "run", false}},
	"bring":  {{"up to speed", "send", true}, {"live", "post", false}, {"down", "restart", false}, {"back up", "restart", false}},
	"get":    {{"out", "deploy", false}, {"up to speed", "send", true}, {"back up", "restart", false}, {"running", "code", false}, {"working", "code", false}, {"fixed", "code", false}, {"sorted", "code", false}},
	"drop":   {{"line", "send", true}, {"note", "send", true}},
	"put":    {{"live", "post", false}, {"in maintenance mode", "deploy", false}, {"into maintenance mode", "deploy", false}, {"on hold", "ticket", false}, {"on ice", "ticket", false}, {"in the picture", "send", true}},
	"set":    {{"live", "post", false}},
	"take":   {{"live", "post", false}, {"offline", "restart", false}, {"out of service", "restart", false}, {"down", "restart", false}},
	"push":   {{"live", "post", false}},
	"pull":   {{"forward", "schedule", false}, {"out into", "code", false}, {"apart", "code", false}},
	"move":   {{"forward", "schedule", false}},
	"shift":  {{"over", "deploy", false}},
	"switch": {{"over", "deploy", false}},
}

// splitVerb takes a verb whose other part follows its object.
func (p *parser) splitVerb(i int) int {
	if !p.expect {
		return 0
	}
	for _, s := range splits[string(p.text(&p.tokens[i]))] {
		if s.others && p.toMe(i+1) {
			continue
		}
		if n := p.tailOf(i, s.tail); n > 0 {
			class := p.lex.classes[s.class]
			p.uses = append(p.uses, use{
				class: class, act: class.plain.act, at: i, end: i + n, strength: p.strengthHere(i),
				negated: p.negated, asked: p.mood == moodHow || p.mood == moodQuestion && (!p.soft || p.purpose),
			})
			if p.mood == moodOpen {
				p.mood = moodAsked
			}
			p.expect = false
			return n
		}
	}
	return 0
}

func (p *parser) toMe(i int) bool {
	if i >= len(p.tokens) {
		return false
	}
	w := string(p.text(&p.tokens[i]))
	return w == "me" || w == "us"
}

// tailOf returns how many tokens a split verb takes up whose tail ends its
// clause, or 0: "take the server down" and not "take down the old server".
func (p *parser) tailOf(i int, tail string) int {
	n := 1 + strings.Count(tail, " ")
	for j := i + 1; j+n <= min(len(p.tokens), i+11) && p.tokens[j].pause == pauseNone; j++ {
		if j == i+1 || string(p.norm[p.tokens[j].start:p.tokens[j+n-1].end]) != tail {
			continue
		}
		after := j + n
		if after >= len(p.tokens) || p.tokens[after].pause != pauseNone ||
			p.tokens[after].kinds == 0 && p.tokens[after].roles != 0 || string(p.text(&p.tokens[after])) == "again" {
			return after - i
		}
	}
	return 0
}

func (p *parser) strengthHere(i int) int {
	switch p.mood {
	case moodOpen, moodAsked:
		if p.purpose && p.mood == moodAsked {
			return likely
		}
		return sure
	case moodTold:
		if p.purpose {
			return likely
		}
		if p.tokens[i].pause == pauseSoft || p.soft {
			return sure
		}
		return likely
	case moodQuestion:
		if p.soft && !p.purpose {
			return sure
		}
	}
	return likely
}

// afterNounMark reports whether the word before makes this one a noun.
func (p *parser) afterNounMark(i int) bool {
	if i == 0 || p.tokens[i].pause != pauseNone {
		return false
	}
	before := &p.tokens[i-1]
	if before.roles.any(rolesOf(roleDeterminer, rolePreposition)) {
		return true
	}
	// "the signed copy": what stands between is no thing that could be done something to.
	return i > 1 && before.pause == pauseNone && !before.isObject && !before.roles.any(rolesOf(roleSubject, rolePronoun, roleTo)) &&
		p.tokens[i-2].roles.has(roleDeterminer)
}

// told reports whether the word before makes this one what somebody does already:
// "the sheet where we assign desks".
func (p *parser) told(i int) bool {
	return i > 0 && p.tokens[i].pause == pauseNone && p.tokens[i-1].roles.has(roleSubject)
}

// compound reports whether a word that is verb and thing alike ends a noun of two
// words: "the Notion page".
func (p *parser) compound(i int) bool {
	t := &p.tokens[i]
	if t.verbLen > 1 || t.pause != pauseNone || i == 0 {
		return false
	}
	for j := max(0, i-4); j < i; j++ {
		if n := p.tokens[j].objectLen; n > 1 && j+n > i {
			return true
		}
	}
	next := i + 1
	noun := t.isObject || next < len(p.tokens) && p.tokens[next].pause == pauseNone && p.tokens[next].roles.has(rolePreposition)
	return noun && p.tokens[i-1].isObject
}

func (p *parser) add(i, strength int) {
	t := &p.tokens[i]
	p.uses = append(p.uses, use{
		class: t.class, act: t.class.plain.act, at: i, end: i + t.verbLen, strength: strength,
		negated: p.negated, asked: p.mood == moodHow || p.mood == moodQuestion && (!p.soft || p.purpose),
	})
}

// strange takes an unknown word in a verb's place before an object, "yeet the
// pods", for a verb that may do anything.
func (p *parser) strange(i int) int {
	t := &p.tokens[i]
	if t.known && !p.madeVerb(t) || t.joined || !p.expect || p.soft || p.mood == moodTold || i+1 >= len(p.tokens) {
		return 0
	}
	n := &p.tokens[i+1]
	if n.pause != pauseNone || !n.roles.any(rolesOf(roleDeterminer, rolePronoun)) {
		return 0
	}
	p.uses = append(p.uses, use{
		class: unknownVerb, act: engagement.ActOperate, at: i, end: i + 1, strength: likely,
		negated: p.negated, asked: p.mood == moodHow,
	})
	p.mood, p.expect = moodAsked, false
	return 1
}

// madeVerb reports whether a noun at the head of a request is one that English
// makes a verb of as it stands: "discount the order".
func (p *parser) madeVerb(t *token) bool {
	if p.mood != moodOpen || !t.isObject || t.class != nil || t.roles != 0 || t.foreign {
		return false
	}
	w := string(p.text(t))
	return isWord(w) && !strings.HasSuffix(w, "s") && !strings.HasSuffix(w, "ing")
}

var unknownVerb = &verbClass{name: "unknown", plain: meaning{act: engagement.ActOperate, stakes: engagement.StakesReversible}}

// content takes any other word: the place for a verb is gone.
func (p *parser) content(i int) int {
	t := &p.tokens[i]
	if p.timed && p.mood == moodOpen {
		if first := p.norm[t.start]; t.roles.has(rolePreposition) || first >= '0' && first <= '9' {
			return 1
		}
	}
	if p.mood == moodOpen && !t.roles.has(roleFiller) {
		p.mood = moodTold
	}
	p.expect, p.purpose, p.soft = false, false, p.soft && !p.expect
	return 1
}

// settle gives a use the meaning that its object asks for: the head of the first
// noun phrase after the verb, or what was named before it where nothing follows.
func (p *parser) settle(n int) {
	u := &p.uses[n]
	if u.class == nil {
		return
	}
	u.meaning = u.class.plain
	p.object(n)
	if u.class.name == "make" && p.compares(u.end) { // what there is, otherwise
		u.act, u.meaning.act = engagement.ActModify, engagement.ActModify
	}
	if strings.HasPrefix(u.class.name, "light") && !u.found { // how to go about it, where anything else is asked
		u.strength = weak
	}
}

// compares reports whether a clause from i on says how a thing is to be made
// otherwise: "make slide 4 less crowded", not "make a shorter version".
func (p *parser) compares(i int) bool {
	for j := i; j < min(len(p.tokens), i+8) && (j == i || p.tokens[j].pause == pauseNone); j++ {
		switch w := string(p.text(&p.tokens[j])); w {
		case "a", "an", "some", "for", "with", "of", "from", "about":
			return false
		case "more", "less", "smaller", "bigger", "larger", "shorter", "longer", "wider", "narrower", "darker", "lighter", "brighter",
			"bolder", "faster", "slower", "louder", "quieter", "simpler", "clearer", "cleaner", "easier", "safer", "tighter",
			"friendlier", "nicer", "better", "stricter", "prettier":
			return j > i
		}
	}
	return false
}

// object finds the object of a use.
func (p *parser) object(n int) {
	u := &p.uses[n]
	end := len(p.tokens)
	if n+1 < len(p.uses) {
		end = p.uses[n+1].at
	}
	if p.fit(u, p.tokens[u.at].kinds) && u.end-u.at > 1 {
		return
	}
	for j := u.end; j < min(end, u.end+14) && (j == u.end || p.tokens[j].pause != pauseHard); j++ {
		if head := p.head(j, end); head >= 0 {
			p.fit(u, p.tokens[head].kinds)
			return
		}
	}
	for j := u.at - 1; j >= 0 && j > u.at-24; j-- {
		if p.fit(u, p.tokens[j].kinds) {
			return
		}
	}
}

// head returns the last of the objects that stand side by side from j on, as the
// ticket in "Jira ticket", or -1 where j is none.
func (p *parser) head(j, end int) int {
	head := -1
	for ; j < end; j++ {
		t := &p.tokens[j]
		if t.kinds == 0 || head >= 0 && t.pause != pauseNone {
			break
		}
		head = j
	}
	return head
}

// fit takes the first frame of the class that has one of the kinds.
func (p *parser) fit(u *use, ks kindSet) bool {
	if ks == 0 {
		return false
	}
	for _, f := range u.class.frames {
		if f.kinds.any(ks) {
			u.meaning, u.act, u.found = f.meaning, f.act, true
			return true
		}
	}
	return false
}

func effectful(a engagement.Act) bool { return a.Effectful() }
