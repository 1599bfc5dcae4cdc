// Package reader turns the text of a request into an [engagement.Reading]: what
// kind of work it asks for, how much a slip would cost, which domains it names.
// It looks words up in tables and follows how a sentence is built: who asks whom,
// what is negated, what is only asked about, which object a verb has.
//
// It errs towards caution and towards more domains: a reading decides what is
// shown and how carefully, and a tool that is not shown costs a task, while one too
// many costs some room. It knows no session, no tools and no model, reaches
// nothing outside its arguments, and grants nothing. English is read well; of a few
// other languages it knows the commonest verbs, and says so by its confidence.
//
// To start: [New], then [Reader.Read] for one text or [Reader.ReadLines] for many.
// The tables are in words/.
package reader

import (
	"strings"

	"github.com/mcp-gate/mcp-gate/engagement"
)

// Reader reads requests. It is immutable and safe for concurrent use.
type Reader struct {
	lex *lexicon
}

// New returns a Reader with its word tables compiled, which takes some tens of
// milliseconds: make one and keep it. An error names the table and line that is wrong; it cannot happen
// in a build whose tests passed.
func New() (*Reader, error) {
	lex, err := compile()
	if err != nil {
		return nil, err
	}
	return &Reader{lex}, nil
}

// Read returns what a request asks for. It takes any bytes; of a text of more
// than 6 KiB it reads the first four and the last two. The result depends on
// nothing but the text, and every axis has a value.
//
// The confidence is below 0.2 where the words ask for nothing by themselves ("yes,
// go on") or cannot be read, at least 0.7 for a plain request or question, and
// between them 0.5 or more. Where nothing tells what a text is about the reading names
// every domain, so that it takes no tool away.
func (r *Reader) Read(text string) engagement.Reading {
	p := parser{page: scan(r.lex, text)}
	p.parse()
	d := decision{parser: &p, reading: engagement.NeutralReading()}
	d.decide()
	return d.reading
}

// decision turns what was found in a text into a reading.
type decision struct {
	*parser
	reading  engagement.Reading
	kinds    kindSet
	objects  int
	unknown  int // words that no table has
	primary  *use
	strong   int // uses that ask for something
	changing bool
}

func (d *decision) decide() {
	d.survey()
	switch {
	case d.smallTalk():
		return
	case d.unreadable():
		d.reading.Confidence = 0.1
		return
	}
	d.chooseAct()
	d.alternates()
	d.stakes()
	d.domains()
	d.otherAxes()
	d.confidence()
}

// survey counts objects and merges their kinds and domains.
func (d *decision) survey() {
	for i := range d.tokens {
		t := &d.tokens[i]
		if !t.known {
			d.unknown++
		}
		if t.isObject {
			d.objects++
			d.kinds |= t.kinds
			d.reading.Domains = d.reading.Domains.Union(t.domains)
		}
	}
	for i := range d.tokens {
		if t := &d.tokens[i]; t.class != nil && !t.quoted && d.namesDomain(i) {
			d.reading.Domains = d.reading.Domains.Union(t.class.plain.domains)
		}
	}
	for i := range d.uses {
		u := &d.uses[i]
		d.reading.Domains = d.reading.Domains.Union(u.meaning.domains)
		if !u.negated && !u.asked && u.strength >= likely {
			d.strong++
		}
	}
}

// namesDomain reports whether a verb that was used in passing, "did she answer my
// mail", tells the domain of its class all the same.
func (d *decision) namesDomain(i int) bool {
	switch d.tokens[i].class.name {
	case "send", "sendme", "vcs", "merge", "orchestrate", "browse", "forget", "remember":
		return d.tokens[i].form&(formPast|formS|formIng) != 0 || !d.afterNounMark(i)
	}
	return false
}

// smallTalk settles pleasantries, and assent that only says to go on with what
// was under way: the former is read surely, the latter not at all.
func (d *decision) smallTalk() bool {
	if len(d.tokens) == 0 || len(d.tokens) > 24 || d.names > 0 || d.converse+d.goAhead == 0 {
		return false
	}
	asks := 0
	for _, u := range d.uses {
		t := &d.tokens[u.at]
		if t.roles.any(rolesOf(roleConverse, roleGoAhead)) && u.end-u.at <= t.roleLen || u.negated {
			continue
		}
		if u.class != nil && u.strength >= likely || u.class == nil {
			asks++
		}
	}
	if asks > 0 || d.plain > 2+d.converse*2 || d.converse == 0 && d.kinds.any(kindsOf(kindDevice, kindEvent)) {
		return false
	}
	d.reading.Domains = 0
	d.reading.Act = engagement.ActConverse
	d.reading.Horizon = engagement.HorizonImmediate
	d.reading.Confidence = 0.9
	if d.goAhead > 0 && d.converse == 0 {
		d.reading.Confidence = 0.15
	}
	return true
}

// unreadable reports whether the text has no letters to speak of, or none that
// the tables know anything about.
func (d *decision) unreadable() bool {
	if len(d.tokens) == 0 || d.letters < 2 || d.other*4 > d.letters {
		return true
	}
	for i := range d.tokens {
		if d.tokens[i].known {
			return false
		}
	}
	return len(d.uses) == 0
}

// chooseAct picks the use that the request turns on: the first that changes
// something, else the first that is not mere preparation for a later one.
func (d *decision) chooseAct() {
	if first := d.firstHarmless(); first != nil && first.act == engagement.ActOrchestrate {
		d.primary = first
	}
	for _, least := range []int{sure, likely} {
		if d.primary == nil {
			d.primary = d.firstEffect(least)
		}
	}
	if d.primary == nil {
		d.primary = d.firstHarmless()
	}
	if d.primary == nil {
		d.primary = d.firstEffect(weak)
	}
	d.reading.Act = d.fallbackAct()
	if d.primary != nil {
		d.reading.Act = d.primary.act
		broken := d.roles.has(roleProblem) && d.kinds.any(kindsOf(kindObs, kindInfra, kindCode))
		if d.primary.class == nil && d.reading.Act == engagement.ActAnswer && broken {
			d.reading.Act = engagement.ActAnalyze
		}
	}
	d.override()
	d.changing = effectful(d.reading.Act)
}

func (d *decision) firstEffect(least int) *use {
	for i := range d.uses {
		u := &d.uses[i]
		if u.strength >= least && !u.negated && !u.asked && effectful(u.act) {
			return u
		}
	}
	return nil
}

// firstHarmless returns the first use that asks for a result; looking something
// up, or being told, is preparation where analysis, writing or a check follows.
func (d *decision) firstHarmless() *use {
	var first, later *use
	for i := range d.uses {
		u := &d.uses[i]
		if u.negated || u.asked || u.strength < likely {
			continue
		}
		if first == nil {
			first = u
		}
		goal := u.act == engagement.ActAnalyze || u.act == engagement.ActAuthor ||
			u.act == engagement.ActVerify || u.act == engagement.ActOrchestrate
		if later == nil && goal {
			later = u
		}
	}
	if first == nil {
		return nil
	}
	prepares := first.act == engagement.ActLocate || first.act == engagement.ActAnswer
	if prepares && later != nil && later != first && (first.class != nil || first.class == nil && later.class != nil) {
		return later
	}
	if first.class != nil && first.class.name == "inform" {
		for i := range d.uses {
			if u := &d.uses[i]; u.class == nil && !u.negated && u.at > first.at {
				return u
			}
		}
	}
	return first
}

// fallbackAct reads a text without a verb in place: "typo in README line 3",
// "logs for the worker, last hour", "release notes for 2.3".
func (d *decision) fallbackAct() engagement.Act {
	switch {
	case d.roles.has(roleDeontic) && d.kinds.any(kindsOf(kindRule, kindPerson)) && !d.endsAsking:
		return engagement.ActGovern
	case d.roles.has(roleProblem) && d.kinds.any(kindsOf(kindObs, kindInfra)):
		return engagement.ActAnalyze
	case d.roles.has(roleProblem) && d.kinds != 0, d.roles.has(roleDeontic) && !d.endsAsking, d.arrow && d.objects > 0:
		return engagement.ActModify
	case d.endsAsking && d.roles.has(roleProof):
		return engagement.ActVerify
	case d.picks():
		return engagement.ActLocate
	case d.startsWith(kindsOf(kindDoc, kindText, kindQuery, kindCode, kindMedia)), d.wants():
		return engagement.ActAuthor
	case d.kinds.any(kindsOf(kindEvent, kindDevice)) && !d.kinds.any(kindsOf(kindObs, kindMessage, kindFile, kindRepo)) && !d.endsAsking:
		return engagement.ActOperate
	case d.kinds != 0 && d.kinds&^kindsOf(kindLive, kindPlace, kindWeb) == 0:
		return engagement.ActAnswer
	case d.objects > 0:
		return engagement.ActLocate
	}
	return engagement.ActAnswer
}

// picks reports whether the text begins with which ones of many are meant: "every
// booking from June", "overdue invoices by customer".
func (d *decision) picks() bool {
	switch string(d.text(&d.tokens[0])) {
	case "every", "all", "any":
		return true
	}
	for i := 0; i+1 < min(4, len(d.tokens)) && d.tokens[i+1].pause == pauseNone; i++ {
		if d.tokens[i].isObject && strings.HasSuffix(string(d.text(&d.tokens[i])), "s") {
			switch string(d.text(&d.tokens[i+1])) {
			case "by", "from", "with", "without", "since", "before", "after", "over", "under":
				return true
			}
		}
	}
	return false
}

// startsWith reports whether an object of the kinds stands among the first words.
func (d *decision) startsWith(ks kindSet) bool {
	for i := 0; i < len(d.tokens) && i < 4; i++ {
		if d.tokens[i].pause == pauseHard && i > 0 {
			return false
		}
		switch string(d.text(&d.tokens[i])) {
		case "the", "my", "our", "your", "this", "that", "these", "those":
			return false
		}
		if d.tokens[i].kinds.any(ks) {
			return true
		}
	}
	return false
}

// wants reports whether the text begins with what is to be made: "a script
// that ...", "need a short bio".
func (d *decision) wants() bool {
	if d.endsAsking || !d.kinds.any(kindsOf(kindDoc, kindText, kindQuery, kindCode, kindMedia, kindCI, kindWorkflow)) {
		return false
	}
	for i := 0; i < min(3, len(d.tokens)); i++ {
		switch string(d.text(&d.tokens[i])) {
		case "a", "an":
			return true
		}
	}
	return false
}

// forbids reports whether all that the text asks for is that something be not
// done, which is a rule rather than a task.
func (d *decision) forbids() bool {
	ban := false
	for i := range d.uses {
		u := &d.uses[i]
		if u.class == nil || !u.negated {
			return false
		}
		ban = ban || u.strength >= weak
	}
	return ban
}

// bans reports whether the text is a rule in the form "no deploys on fridays".
func (d *decision) bans() bool {
	if len(d.tokens) < 4 || d.strong > 0 || string(d.text(&d.tokens[0])) != "no" || !d.named(1) && !d.named(2) {
		return false
	}
	for i := 2; i < len(d.tokens) && d.tokens[i].pause != pauseHard; i++ {
		switch string(d.text(&d.tokens[i])) {
		case "on", "before", "after", "during", "until", "without", "between", "to", "outside":
			return true
		}
	}
	return false
}

// named reports whether the word at i is a thing or a doing that the tables know.
func (d *decision) named(i int) bool { return d.tokens[i].isObject || d.tokens[i].class != nil }

// override lets standing wishes and recurring work name the act.
func (d *decision) override() {
	asked := d.reading.Act
	acts := d.primary != nil && d.primary.class != nil && effectful(d.primary.act) && d.primary.strength == sure
	if (d.roles.has(roleStanding) || d.forbids() || d.bans()) && !d.endsAsking && !acts {
		d.reading.Act = engagement.ActGovern
	}
	recurs := d.roles.has(roleRecurring) || d.roles.has(roleAdverbial) && d.strong > 0
	if recurs && d.primary != nil && d.primary.class != nil && d.primary.strength >= likely && d.reading.Act != engagement.ActGovern {
		d.reading.Act = engagement.ActOrchestrate
	}
	if asked != d.reading.Act && d.primary != nil {
		d.reading.AlternateActs = d.reading.AlternateActs.With(asked)
	}
}

// alternates adds the acts that the words may mean as well.
func (d *decision) alternates() {
	alt := d.reading.AlternateActs
	for i := range d.uses {
		u := &d.uses[i]
		if u.negated || u.asked {
			continue
		}
		if u.strength >= likely || effectful(u.act) && u.class != nil && !d.roles.has(roleReadOnly) && d.strong == 0 {
			if effectful(u.act) || u == d.primary || u.act == engagement.ActOrchestrate || u.act == engagement.ActVerify || u.act == engagement.ActAuthor {
				alt = alt.With(u.act)
			}
			alt = alt.Union(u.meaning.also)
		}
	}
	if d.primary == nil && d.roles.has(roleProblem) && d.kinds != 0 && !d.endsAsking {
		alt = alt.With(engagement.ActModify)
	}
	if d.roles.has(roleDeontic) && !d.changing && !d.endsAsking && !d.roles.has(roleReadOnly) {
		alt = alt.With(engagement.ActModify)
		if d.kinds.any(kindsOf(kindRule)) {
			alt = alt.With(engagement.ActGovern)
		}
	}
	if d.strong >= 4 {
		alt = alt.With(engagement.ActOrchestrate)
	}
	if d.roles.has(roleRemedy) && d.roles.has(roleWantBe) && (d.primary == nil || d.primary.class != nil && d.primary.class.name == "get") {
		alt = alt.With(engagement.ActOperate)
	}
	if d.writesFile() || d.primary == nil && d.reading.Act == engagement.ActAuthor && d.wish() {
		alt = alt.With(engagement.ActModify)
	}
	d.reading.AlternateActs = alt &^ engagement.ActsOf(d.reading.Act)
	d.changing = d.changing || alt.Has(engagement.ActModify) || alt.Has(engagement.ActOperate) || alt.Has(engagement.ActGovern)
}

// wish reports whether a text without a verb in place is about the code at hand
// as it should be: "we need paging on the list endpoint".
func (d *decision) wish() bool {
	return !d.endsAsking && d.kinds.any(kindsOf(kindCode, kindConfig, kindTest)) && (d.wordsOf("need") || d.wordsOf("todo") || d.files > 0)
}

// wordsOf reports whether a word is in the text.
func (d *decision) wordsOf(w string) bool {
	for i := range d.tokens {
		if string(d.text(&d.tokens[i])) == w {
			return true
		}
	}
	return false
}

// writesFile reports whether the text names a file to write: it asks for
// something to be made and a file is named, or a file stands where results go.
func (d *decision) writesFile() bool {
	if d.roles.has(roleReadOnly) {
		return false
	}
	makes := false
	for i := range d.uses {
		u := &d.uses[i]
		makes = makes || !u.negated && !u.asked && u.act == engagement.ActAuthor
	}
	if makes && (d.files > 0 || d.kinds.any(kindsOf(kindFile))) {
		return true
	}
	return d.files > 0 && d.roles.has(roleSaved) || d.putsInto()
}

// putsInto reports whether what is found is to be put into a file or document:
// "pull the orders into a spreadsheet".
func (d *decision) putsInto() bool {
	if d.primary == nil || d.primary.class == nil {
		return false
	}
	for i := d.primary.end; i+1 < len(d.tokens); i++ {
		if string(d.text(&d.tokens[i])) != "into" {
			continue
		}
		for j := i + 1; j < min(i+4, len(d.tokens)); j++ {
			if d.tokens[j].kinds.any(kindsOf(kindDoc, kindFile)) {
				return true
			}
		}
	}
	return false
}

// shared are the kinds of things whose rules bind other people too.
var shared = kindsOf(kindRule, kindRepo, kindInfra, kindBusiness, kindPerson, kindChannel, kindData, kindObs)

// stakes takes the highest that a use asks for and raises them for production,
// money and what cannot be taken back.
func (d *decision) stakes() {
	s := engagement.StakesInert
	for i := range d.uses {
		u := &d.uses[i]
		if u.negated || u.asked || u.strength < likely && !d.reading.Acts().Has(u.act) {
			continue
		}
		s = max(s, u.meaning.stakes)
	}
	if d.changing || d.reading.Act == engagement.ActOrchestrate {
		s = max(s, engagement.StakesReversible)
		if d.roles.any(rolesOf(roleProduction, roleCostly)) || d.money {
			s = max(s, engagement.StakesCostly)
		}
		if d.roles.has(roleIrreversible) || s == engagement.StakesCostly && d.roles.has(roleProduction) {
			s = engagement.StakesIrreversible
		}
	}
	if d.changing && d.kinds.any(kindsOf(kindInfra, kindMigration)) ||
		d.reading.Act == engagement.ActGovern && d.kinds.any(shared) {
		s = max(s, engagement.StakesCostly)
	}
	if d.reading.Act == engagement.ActAuthor {
		s = max(s, engagement.StakesReversible)
		if d.objects == 0 {
			s = engagement.StakesInert
		}
	}
	d.reading.Stakes = s
}

// Kinds of things that need nothing from outside to be worked on, and kinds that
// say by themselves where an answer is kept.
var (
	here    = kindsOf(kindCode, kindConfig, kindTest, kindRepo, kindFile, kindDoc, kindText, kindMedia, kindRemember)
	telling = kindsOf(kindLive, kindPlace, kindDevice, kindObs, kindRepo, kindInfra, kindEvent, kindWeb)
)

// domains adds what a request of its act most often needs without naming it.
func (d *decision) domains() {
	set := d.reading.Domains
	switch d.reading.Act {
	case engagement.ActAuthor:
		if d.kinds.any(kindsOf(kindRepo)) {
			set = set.With(engagement.DomainCodeExec) // the history is read by running git
		}
	case engagement.ActModify, engagement.ActGovern:
		if d.kinds == 0 || d.kinds&^here != 0 {
			set = set.With(engagement.DomainLiveData, engagement.DomainOrchestration) // the thing is kept in some service, or planned
		}
		if d.reading.Act == engagement.ActModify && d.kinds.any(kindsOf(kindEvent, kindPerson)) {
			set = set.With(engagement.DomainMessaging) // others are told
		}
	case engagement.ActVerify:
		set = set.With(engagement.DomainLiveData)
	}
	if looksUp.Has(d.reading.Act) && d.unplaced() {
		set = set.With(engagement.DomainDocuments)
		if d.kinds == 0 && d.reading.Domains&^anywhere == 0 && d.points() { // nothing says what it is about: it may be kept anywhere
			set = set.With(engagement.DomainCodeExec, engagement.DomainMessaging, engagement.DomainOrchestration, engagement.DomainVCS, engagement.DomainObservability)
		}
	}
	if d.code {
		set = set.With(engagement.DomainCodeExec)
	}
	if d.roles.has(roleProblem) && !d.kinds.any(here&^kindsOf(kindRemember)) {
		set = set.With(engagement.DomainObservability) // something out there is broken
	}
	d.reading.Domains = set
}

// anywhere are the domains that a text with a number or a day in it names, which
// tell no place.
var anywhere = engagement.DomainsOf(engagement.DomainLiveData, engagement.DomainWeb)

// looksUp are the acts that read what is kept somewhere.
var looksUp = engagement.ActsOf(engagement.ActAnswer, engagement.ActLocate, engagement.ActAnalyze, engagement.ActVerify)

// unplaced reports whether nothing says where what is asked about is kept, though
// it is not a question of general knowledge.
func (d *decision) unplaced() bool {
	if d.mood == moodHow {
		return false
	}
	return d.kinds == 0 || d.objects <= 1 && d.unknown > 0 && !d.kinds.any(telling)
}

// points reports whether a text means something of its own, "did it finish", and
// not what anyone could look up, "which sort is stable".
func (d *decision) points() bool {
	for i := range d.tokens {
		switch string(d.text(&d.tokens[i])) {
		case "my", "our", "we", "us", "i", "me", "the", "this", "that", "these", "those", "it", "its", "they", "them", "he", "she",
			"anyone", "anybody", "someone", "everyone", "nobody", "anything", "everything", "all", "any", "here", "there",
			"did", "has", "was", "were", "still", "yet", "back", "last", "next":
			return true
		}
	}
	return d.mood != moodQuestion
}

// otherAxes reads horizon, evidence, clarity, attendance and modalities.
func (d *decision) otherAxes() {
	r := &d.reading
	switch {
	case d.roles.any(rolesOf(roleDurable, roleRecurring)) || d.roles.has(roleAdverbial) && d.strong > 0,
		r.Act == engagement.ActGovern && d.roles.has(roleStanding):
		if r.Act != engagement.ActAnswer && r.Act != engagement.ActLocate {
			r.Horizon = engagement.HorizonDurable
		}
	case d.strong >= 3 || d.roles.has(roleSession) && d.strong > 0 || r.Act == engagement.ActOrchestrate:
		r.Horizon = engagement.HorizonSession
	case d.roles.has(roleImmediate) && !d.changing:
		r.Horizon = engagement.HorizonImmediate
	}
	switch {
	case d.roles.has(roleAudited):
		r.Evidence = engagement.EvidenceAudited
	case d.roles.has(roleVerified):
		r.Evidence = engagement.EvidenceVerified
	case d.roles.has(roleCited):
		r.Evidence = engagement.EvidenceCited
	}
	switch {
	case d.roles.has(roleUnattended):
		r.Attendance = engagement.AttendanceUnattended
	case d.roles.has(roleSupervised):
		r.Attendance = engagement.AttendanceSupervised
	}
	switch {
	case d.roles.has(roleAmbiguous):
		r.Clarity = engagement.ClarityAmbiguous
	case d.objects == 0 && r.Act != engagement.ActAnswer, d.roles.has(roleVague) && d.objects < 2:
		r.Clarity = engagement.ClarityUnderspecified
	}
	for _, m := range []struct {
		cue      role
		modality engagement.Modality
	}{
		{roleImage, engagement.ModalityImage}, {roleAudio, engagement.ModalityAudio},
		{roleVideo, engagement.ModalityVideo}, {roleFileish, engagement.ModalityFile},
	} {
		if d.roles.has(m.cue) {
			r.Modalities = r.Modalities.With(m.modality)
		}
	}
	if d.files > 0 {
		r.Modalities = r.Modalities.With(engagement.ModalityFile)
	}
}

// confidence grades how much of the request was understood.
func (d *decision) confidence() {
	c := 0.0
	foreign := false
	for i := range d.uses {
		u := &d.uses[i]
		foreign = foreign || u.class != nil && d.tokens[u.at].foreign
		switch {
		case u.class == unknownVerb:
			c = max(c, 0.55)
		case u.class == nil || u.asked:
			c = max(c, 0.7)
		case u.strength == sure:
			c = max(c, 0.75)
		case u.strength == likely:
			c = max(c, 0.65)
		default:
			c = max(c, 0.55)
		}
	}
	switch {
	case c == 0 && d.objects > 0:
		c = 0.55
	case c == 0: // it asks for something, who knows what: see unplaced
		c = 0.5
	case foreign:
		c = 0.55
	case c >= 0.7 && d.objects > 0:
		c += 0.1
		if d.primary != nil && d.primary.found {
			c += 0.05
		}
	}
	if d.reading.Clarity == engagement.ClarityAmbiguous && c > 0.7 {
		c -= 0.1
	}
	d.reading.Confidence = c
}
