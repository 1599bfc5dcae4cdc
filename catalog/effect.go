package catalog

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/lazy"
	"github.com/mcp-gate/mcp-gate/internal/sieve"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// features are a definition taken apart for the rules that class it.
type features struct {
	name    []string // words of the name without the server's own
	server  []string
	first   string // the description's first sentence
	text    string // the description, lower case, single spaces, at most maxRead bytes
	lead    clause
	params  []param
	rest    bool // the name is an HTTP method and a path
	notable map[string]bool
	context []string // words of the server's name and the first sentence, singular
}

type param struct {
	name, text string
	enum       []string
}

// clause is what a description's first sentence says: its verbs and what they
// govern.
type clause struct {
	verbs   []string
	objects []string
	weak    bool // no verb where one is expected; those found may be nouns
	plain   bool // the first verb has an object with an article, so it is no noun
	odd     bool // an unknown word stands where the verb is expected, and has an object
}

// maxRead is how much of a description is read for its class. The longest
// first sentences of real tools end well before it.
const maxRead = 4 << 10

func featuresOf(t Tool) features {
	f := features{server: serverWords(t.ID.Server)}
	f.name, f.rest = nameWords(t.ID.Tool, f.server)
	description := t.Description
	if description == "" {
		description = t.Title
	}
	if len(description) > maxRead {
		description = strings.ToValidUTF8(description[:maxRead], "")
	}
	f.text = strings.ToLower(strings.Join(strings.Fields(description), " "))
	f.first = firstSentence(description)
	f.lead = readClause(afterLabel(bracketed().ReplaceAllString(f.first, " ")))
	if f.lead.verbs == nil && t.Title != "" && t.Title != description {
		f.lead = readClause(strings.ToValidUTF8(t.Title[:min(len(t.Title), maxRead)], ""))
		f.lead.weak = true
	}
	f.params = readParams(t.InputSchema)
	for _, w := range slices.Concat(f.server, words(strings.ToLower(f.first))) {
		f.context = append(f.context, singular(w))
	}
	f.notable = map[string]bool{}
	for _, w := range f.name {
		f.notable[singular(w)] = true
	}
	for _, w := range f.lead.objects {
		f.notable[singular(w)] = true
	}
	return f
}

// prefixes stand before a tool's own name and say nothing of it.
var prefixes = map[string]bool{"api": true, "mcp": true, "tool": true, "tools": true, "server": true, "v1": true, "v2": true, "v3": true, "rest": true, "http": true}

// nameWords are the words of a tool's name after its namespace. rest reports a
// name made from an HTTP method and a path.
func nameWords(name string, server []string) (ws []string, rest bool) {
	ws = words(name)
	upper := false
	for _, m := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		upper = upper || strings.HasPrefix(name, m+"_") || strings.HasPrefix(name, m+" ") || strings.HasPrefix(name, m+"/")
	}
	for len(ws) > 1 && (prefixes[ws[0]] || slices.Contains(server, ws[0]) && !isVerb(ws[0])) {
		rest = rest || ws[0] == "api"
		ws = ws[1:]
	}
	// "QueryTool": that it is a tool goes without saying. "create_tool" makes one.
	if n := len(ws); n > 2 && ws[n-1] == "tool" {
		ws = ws[:n-1]
	}
	return compounded(ws), rest || upper
}

// compounded joins the words of things that are named by a verb, so that a
// merge request merges nothing.
func compounded(ws []string) []string {
	out := ws[:0:0]
	for i := 0; i < len(ws); i++ {
		if i+1 < len(ws) && compounds[ws[i]+"_"+singular(ws[i+1])] {
			out = append(out, ws[i]+"_"+singular(ws[i+1]))
			i++
			continue
		}
		out = append(out, ws[i])
	}
	return out
}

var compounds = wordSet("pin_map merge_request pull_request push_notification order_book command_line text_message test_case test_run change_request feature_request access_request call_log share_price stock_split release_note run_book post_office")

func isVerb(w string) bool { _, ok := lex().verbs[w]; return ok }

// firstSentence returns the first sentence of a description without the
// decorations that stand before it: markup, a bracketed mark, emoji.
func firstSentence(s string) string {
	s = strings.TrimSpace(s)
	for s != "" {
		r, n := utf8.DecodeRuneInString(s)
		if end := strings.IndexRune("])】>)", r); end >= 0 {
			s = s[n:]
			continue
		}
		closing := map[rune]string{'[': "]", '(': ")", '【': "】", '<': ">"}[r]
		if i := strings.Index(s, closing); closing != "" && i > 0 && i < 60 {
			s = strings.TrimSpace(s[i+len(closing):])
			continue
		}
		if r > 0x2e7f || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			break
		}
		if r >= '0' && r <= '9' {
			break
		}
		s = s[n:]
	}
	end := min(len(s), 400)
	for _, stop := range []string{". ", ".\n", "\n\n", "\n-", "\n*", "! ", "。", "\n#", "; "} {
		if i := strings.Index(s[:end], stop); i > 0 {
			end = i
		}
	}
	return strings.ToValidUTF8(s[:end], "")
}

var fillers = wordSet("batch bulk this that which tool tools use used uses using to allows allow lets let enables enable you your users user's the a an can be for calls call helps api endpoint function method command utility ability able please now when want wants need needs will it is i we agent ai llm mcp server also optionally new first tool's one or more all any request action operation simple powerful quick provides~ deprecated capable of should only do must purpose description beta experimental important recommended helper operate operation's")

// stops end what a verb governs.
var stops = wordSet("in on for from with to by at using via that which where when as into within based through if so whose during across after before without against while because")

var conjunctions = wordSet("and or then , / & nor plus")

func wordSet(list string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(list) {
		m[w] = true
	}
	return m
}

// readClause finds the verbs at the head of a sentence. A sentence that is no
// command but a noun phrase gives the verbs that its words could be, marked
// weak.
func readClause(s string) clause {
	if v := chineseLead(s); v != "" {
		return clause{verbs: []string{v}}
	}
	tokens := sentenceTokens(s)
	var c clause
	expect, objects := true, false
	for i, w := range tokens {
		switch {
		case conjunctions[w]:
			if len(c.verbs) > 0 && i+1 < len(tokens) {
				c.addJoined(tokens, i+1, objects)
			}
		case len(c.verbs) == 0 && (fillers[w] || adverb(w)):
			expect = expect || w == "to" || w == "that" || w == "which" || w == "for" || w == "can"
		case len(c.verbs) == 0:
			if name, ok := leadVerb(tokens, i); ok && expect {
				c.verbs, objects = append(c.verbs, name), true
				c.plain = governs(tokens, i)
			} else {
				c.odd = c.odd || expect && governs(tokens, i) && !isVerbForm(w) && !stops[w] && !idle[w]
				expect = false
			}
		case stops[w]:
			objects = false
		case objects:
			c.objects = append(c.objects, w)
		}
	}
	if len(c.verbs) == 0 && !c.odd {
		c.guess(tokens)
	}
	if len(tokens) > 0 && (tokens[0] == "if" || tokens[0] == "when") { // what another does
		c.weak, c.plain = true, false
	}
	return c
}

// leadVerb takes the verb at the head of a sentence. "Logs the items" logs them;
// "logs of the service" are read.
func leadVerb(tokens []string, i int) (string, bool) {
	name, v, ok := lex().lemma(tokens[i])
	if !ok || i+1 >= len(tokens) || stops[tokens[i+1]] || tokens[i+1] == "of" {
		return name, ok
	}
	for _, form := range verbForms(tokens[i]) {
		if worse, known := lex().verbs[form]; known && worse.class > v.class {
			name, v = form, worse
		}
	}
	return name, true
}

// governs reports whether the word at i has an object with an article.
func governs(tokens []string, i int) bool { return i+1 < len(tokens) && articles[tokens[i+1]] }

// idle are words before an article that are no verbs.
var idle = wordSet("given per over about of both only not is are was were if than like but what how who each every per once after unlike on one two three")

var articles = wordSet("a an the all your their its this these one each every multiple several any")

// adverb reports whether a word says how something is done: "securely", not
// "apply".
func adverb(w string) bool { return strings.HasSuffix(w, "ly") && !isVerbForm(w) }

// addJoined takes up a verb that follows a conjunction: "create or update". Far
// from the first verb only one that always acts is taken for one.
func (c *clause) addJoined(tokens []string, i int, near bool) {
	w := tokens[i]
	if (w == "then" || w == "optionally" || w == "also" || adverb(w)) && i+1 < len(tokens) {
		w, i = tokens[i+1], i+1
	}
	name, v, ok := lex().lemma(w)
	if !ok || i > 0 && (tokens[i-1] == "not" || tokens[i-1] == "never") {
		return
	}
	adjacent := i >= 2 && isVerbForm(tokens[i-2])
	if near && !v.noun || adjacent || v.always || !v.noun && governs(tokens, i) {
		c.verbs = append(c.verbs, name)
	}
}

func isVerbForm(w string) bool { _, _, ok := lex().lemma(w); return ok }

func (c *clause) guess(tokens []string) {
	c.weak = true
	plain := false
	for _, w := range tokens {
		if stops[w] {
			break
		}
		if name, v, ok := lex().lemma(w); ok && !v.soft && (!plain || !v.noun) {
			if plain = !v.noun; plain {
				c.verbs = c.verbs[:0]
			}
			c.verbs = append(c.verbs, name)
		}
		c.objects = append(c.objects, w)
	}
	if len(c.verbs) == 0 && len(tokens) > 0 && telling[tokens[0]] {
		c.verbs = append(c.verbs, "get")
	}
}

// telling are words that a name or a sentence begins with when it tells of
// what there is.
var telling = wordSet("trending latest top current popular recent available upcoming nearby historical daily weekly monthly hot best live real realtime today detailed information data details statistics list facts company general comprehensive")

var spacing = strings.NewReplacer(",", " , ", "/", " / ", "&", " & ", "'s", "")

func sentenceTokens(s string) []string {
	s = strings.ToLower(s)
	s = spacing.Replace(s)
	var out []string
	for _, field := range strings.Fields(s) {
		if conjunctions[field] {
			out = append(out, field)
			continue
		}
		out = append(out, words(field)...)
	}
	return compounded(out)
}

func chineseLead(s string) string {
	for _, p := range []string{"用于", "根据", "通过", "可以", "支持", "批量", "快速"} {
		s = strings.TrimPrefix(s, p)
	}
	best, which := -1, ""
	for _, c := range lex().chinese {
		if i := strings.Index(s, c.text); i >= 0 && i < 90 && (best < 0 || i < best) {
			best, which = i, c.verb
		}
	}
	return which
}

// bracketed is what a sentence says in passing.
var bracketed = lazy.Regexp(`\([^)]*\)`)

func readParams(schema json.RawMessage) []param {
	raw, ok, err := strictjson.Get(schema, "properties")
	if err != nil || !ok {
		return nil
	}
	var out []param
	for m, err := range strictjson.Object(raw) {
		if err != nil {
			return nil
		}
		if m.End > mostScanned { // the definition is held as too long
			break
		}
		p := param{name: m.Name}
		for k, err := range strictjson.Object(m.Value) {
			if err != nil {
				break
			}
			switch k.Name {
			case "description":
				p.text = strings.ToLower(text(k.Value))
			case "enum":
				_ = json.Unmarshal(k.Value, &p.enum) // an enum of other types names no operation
			}
		}
		out = append(out, p)
	}
	return out
}

func (f *features) hasParam(names map[string]bool) bool {
	return slices.ContainsFunc(f.params, func(p param) bool { return names[strings.Join(words(p.name), "_")] })
}

// enumerates reports whether one of the parameters offers its values.
func (f *features) enumerates(names map[string]bool) bool {
	return slices.ContainsFunc(f.params, func(p param) bool {
		return len(p.enum) > 0 && names[strings.Join(words(p.name), "_")]
	})
}

// finding is a class with the ground for it. A strong one rests on a plain
// verb; no annotation lowers it.
type finding struct {
	class  engagement.Permission
	verb   string
	why    string
	strong bool
	ruled  bool // its object decided
	ran    bool // it runs what it is given, so what comes back is anyone's guess
}

// effect says what a tool does to the world: by its name, else by its
// description, then by what its parameters admit to.
func (f *features) effect() finding {
	name, described := f.byName(), f.byDescription()
	if f.lead.odd && !name.strong && name.class == engagement.Read {
		name = finding{} // "ring_history: Ring the bell"
	}
	out := combine(name, described, f)
	if op, ok := f.byOperations(); ok && !(out.strong && out.class == engagement.Read) && (out.class == 0 || out.vague() || op.class > out.class) {
		out = op
	}
	if out.verb == "manage" && out.class < engagement.Destructive && !out.ruled && undoing().MatchString(f.text) {
		out = finding{class: engagement.Destructive, verb: out.verb, why: "one of the things that it manages is to delete"}
	}
	if ran, ok := f.byPayload(out); ok {
		out = ran
	}
	if out.class == engagement.Read && inPassing().MatchString(strings.ToLower(f.first)) {
		out = finding{class: engagement.Destructive, verb: out.verb, why: "what its description says that it does in passing"}
	}
	if out.class < engagement.Destructive && out.class != 0 && destructive().MatchString(f.text) {
		out = finding{class: engagement.Destructive, verb: out.verb, why: "it calls itself destructive"}
	}
	return f.byAdmission(f.byDestination(out))
}

// undoing is where a tool of many uses says that one of them takes away.
var undoing = sieve.Regexp(`\b(delet(e|es|ing)|remov(e|es|ing)|destroy(s|ing)?|purg(e|es|ing)|revok(e|es|ing))\b`)

// inPassing is an effect on others that stands behind a comma: ", posting a button to their chat".
var inPassing = sieve.Regexp(`, ?(and |then )?(posting|sending|emailing|messaging|notifying|publishing|deleting|removing) (a|an|the|it|them|its|any|all|every)\b`)

// destructive is where a tool says of itself what annotations may keep silent about.
var destructive = sieve.Regexp(`\bthis (tool |action |operation |call |command )?(is|will be) (a |an )?([a-z]+ and |highly |very |potentially )?destructive\b|\(destructive\b|\bdestructive (action|operation)[.!:]|^\W*destructive\b`)

// vague reports whether a finding rests on a verb that says little by itself.
func (f finding) vague() bool { return !f.ruled && (f.verb == "" || lex().verbs[f.verb].soft) }

// combine weighs the name against the description. A plain verb in the name
// stands; one that may be a noun gives way to a plain verb in the description.
func combine(name, described finding, f *features) finding {
	switch {
	case name.class == 0:
		return described
	case described.class == 0:
		return name
	case name.strong && name.class > engagement.Read:
		if described.class == engagement.Destructive && described.strong && (worse[described.verb] || f.sendsMessage(described)) {
			return described
		}
		return name
	case name.strong:
		if described.strong && described.class > engagement.Read && (described.class > engagement.ReversibleWrite || contradicting[described.verb] || f.lead.plain && described.verb == f.lead.verbs[0] && !making[described.verb] && !lex().verbs[described.verb].noun) && !described.vague() && !f.readsOnly() {
			return described
		}
		return name
	case name.vague() || described.strong && !runs[name.verb]:
		if described.vague() && name.class > described.class {
			return name
		}
		return described
	}
	if name.class < described.class && (!described.vague() || acts(described.verb) && !f.lead.weak) && name.verb != described.verb {
		return described
	}
	return name
}

// contradicting are the milder verbs of a description that outweigh a reading
// one in the name.
var contradicting = wordSet("send submit post activate create update modify insert store save add set change assign move rename enable disable upload register archive restore approve configure install")

// worse are verbs in a description that outweigh a milder one in the name.
var worse = wordSet("delete destroy purge erase wipe execute exec eval purchase buy pay overwrite")

func (f *features) sendsMessage(described finding) bool {
	return described.verb == "send" && slices.ContainsFunc(f.lead.objects, func(o string) bool { return messages[singular(o)] })
}

var messages = wordSet("message email mail sms notification invitation invite newsletter dm tweet fax letter whatsapp")

// runs are the verbs that execute what they are given. A description that
// says "returns the output" does not make them harmless.
var runs = wordSet("run execute exec eval evaluate invoke shell bash terminal command cmd sql script spawn interact call")

// readTails end a name that tells of a thing rather than acts on it.
var readTails = wordSet("status count counts history list log logs info information details detail archive stats statistics summary schema schemas get read search find query lookup view show fetch check metrics price prices overview docs documentation help names ids types options version versions results result preview analysis analytics forecast quote quotes book report reports events feed feeds activity url urls usage report trends position positions calculator calculation data metadata changes diff content contents items me guide state")

// "send_count" tells how often something was sent.
var (
	tallied = wordSet("send publish post run execute click open buy purchase share call deploy")
	tallies = wordSet("count counts stats statistics rate rates history status")
)

// byName reads the verbs of the name.
func (f *features) byName() finding {
	head, strong := -1, false
	for i, w := range f.name {
		v, ok := lex().verbs[w]
		if !ok {
			continue
		}
		if head >= 0 && acts(f.name[head]) && v.class == engagement.Read {
			continue // "manage_list": what a vague verb acts on
		}
		if !v.noun && !v.soft {
			head, strong = i, true
			break
		}
		if head < 0 || lex().verbs[f.name[head]].soft {
			head = i
		}
	}
	if head < 0 {
		if slices.ContainsFunc(f.name, func(w string) bool { return telling[w] }) {
			return finding{class: engagement.Read, verb: "get", why: "its name tells of what there is"}
		}
		if n := len(f.name); n > 0 && readTails[f.name[n-1]] {
			return finding{class: engagement.Read, verb: f.name[n-1], why: fmt.Sprintf("its name ends in %q", f.name[n-1]), strong: false}
		}
		return finding{}
	}
	if first := lex().verbs[f.name[0]]; lex().verbs[f.name[head]].class == engagement.Read && first.class > engagement.Read && !first.soft && len(f.lead.verbs) > 0 && f.lead.verbs[0] == f.name[0] && !f.lead.weak {
		head, strong = 0, true // "close_debug_session" closes one
	}
	if v := lex().verbs[f.name[head]]; v.class > engagement.Read && !v.always && f.readsOnly() {
		if i := slices.IndexFunc(f.name, func(w string) bool { return w == "get" || w == "fetch" || w == "retrieve" }); i > head && !joining[f.name[i-1]] {
			head, strong = i, true // "trigger_get" gets triggers
		}
	}
	last := len(f.name) - 1
	if first := lex().verbs[f.name[0]]; strong && head == last && last > 0 && readTails[f.name[last]] && first.class > engagement.Read && !first.soft {
		strong = false // "archive_list" may list or archive
	}
	if tallied[f.name[head]] && tallies[f.name[last]] {
		return finding{class: engagement.Read, verb: f.name[last], why: fmt.Sprintf("its name ends in %q", f.name[last])}
	}
	if v := lex().verbs[f.name[head]]; !strong && head != last && readTails[f.name[last]] && !v.soft && v.class > engagement.Read {
		return finding{class: engagement.Read, verb: f.name[last], why: fmt.Sprintf("its name ends in %q", f.name[last]), strong: false}
	}
	if !strong && last != head && isVerb(f.name[last]) && !readTails[f.name[last]] && (head > 0 || lex().verbs[f.name[0]].class == engagement.Read) {
		head = last // "monitor_run", "slack_post"
	}
	if v := lex().verbs[f.name[head]]; !strong && head == last && v.noun && readTails[f.name[last]] {
		return finding{class: engagement.Read, verb: f.name[last], why: fmt.Sprintf("its name ends in %q", f.name[last])}
	}
	out := f.refined(f.name[head], exceptAt(f.name, head))
	out.strong = strong
	out.why = fmt.Sprintf("the word %q in its name", f.name[head])
	return f.alsoActs(out, head)
}

// acts reports whether a verb changes something, though it says little of what.
func acts(w string) bool { v := lex().verbs[w]; return v.soft && v.class == engagement.ReversibleWrite }

var joining = wordSet("and or then")

// alsoActs looks for a second verb after a reading one: after a conjunction,
// or one that acts wherever it stands, unless the name or the description
// tells of a state.
func (f *features) alsoActs(out finding, head int) finding {
	for i := head + 1; i < len(f.name); i++ {
		v, ok := lex().verbs[f.name[i]]
		joined := joining[f.name[i-1]]
		if !ok || v.class <= out.class || !(joined || v.always && (out.class == engagement.Read || i == head+1)) {
			continue
		}
		if !joined && (readTails[f.name[len(f.name)-1]] || f.readsOnly()) {
			continue
		}
		second := f.refined(f.name[i], exceptAt(f.name, i))
		if second.class > out.class {
			out = finding{class: second.class, verb: f.name[i], why: fmt.Sprintf("the word %q in its name", f.name[i]), strong: true}
		}
	}
	return out
}

// readsOnly reports whether the description's verbs are all plain reading.
func (f *features) readsOnly() bool {
	if f.lead.weak || len(f.lead.verbs) == 0 {
		return false
	}
	for _, w := range f.lead.verbs {
		if v := lex().verbs[w]; v.class != engagement.Read || v.soft {
			return false
		}
	}
	return true
}

func exceptAt(ws []string, i int) []string {
	out := slices.Clone(ws[:i])
	return append(out, ws[i+1:]...)
}

// refined is the class of a verb with its objects: those of the name first,
// then what the description says it governs.
func (f *features) refined(word string, objects []string) finding {
	v := lex().verbs[word]
	out := finding{class: v.class, verb: word, strong: !v.noun && !v.soft}
	if f.rest && (word == "post" || word == "put" || word == "patch") {
		out.class = engagement.ReversibleWrite
		return out
	}
	for _, reach := range [][]string{nil, f.lead.objects, slices.Concat(f.lead.objects, f.server)} {
		if reach != nil && !f.speaksOf(word) || len(reach) > len(f.lead.objects) && v.class == engagement.Read {
			break
		}
		if class, ok := f.ruled(word, slices.Concat(objects, reach)); ok {
			out.class, out.ruled = class, true
			break
		}
	}
	return out
}

// speaksOf reports whether the description's verb is this one or says as
// little, so that what it governs is this verb's object too.
func (f *features) speaksOf(word string) bool {
	return len(f.lead.verbs) == 0 || slices.Contains(f.lead.verbs, word) || lex().verbs[f.lead.verbs[0]].soft || making[word] && making[f.lead.verbs[0]]
}

// making are verbs that names and descriptions use for one another.
var making = wordSet("create add make write new update edit modify set change insert append save generate post put patch")

// ruled looks for the line of words/effects.txt that decides.
func (f *features) ruled(word string, objects []string) (engagement.Permission, bool) {
	for _, r := range lex().rules(word) {
		has, not, placed := r.any, false, len(r.context) == 0
		for _, o := range objects {
			o = singular(o)
			has = has || r.with[o]
			not = not || r.minus[o]
		}
		for _, o := range f.context {
			not = not || r.minus[o] && slices.Contains(f.server, o)
			placed = placed || r.context[o]
		}
		if has && !not && placed {
			return r.class, true
		}
	}
	return 0, false
}

// byDescription reads the verbs of the description's first sentence.
func (f *features) byDescription() finding {
	var out finding
	for i, w := range f.lead.verbs {
		one := f.refined(w, f.lead.objects)
		if f.lead.weak {
			one.strong = false
		} else if i == 0 && f.lead.plain && one.class > engagement.Read && !lex().verbs[w].soft {
			one.strong = true
		}
		if i > 0 && !one.strong && one.class > engagement.Read && f.lead.weak && out.class == engagement.Read {
			continue // in "search for orders", orders is no verb
		}
		if one.class > out.class {
			one.why = fmt.Sprintf("the word %q in its description", w)
			out = one
		}
	}
	return out
}

var operationParams = wordSet("action operation operations op method command subcommand mode action_type operation_type request_type http_method verb")

// byOperations reads the operations a tool of many uses offers in an enum.
func (f *features) byOperations() (finding, bool) {
	var out finding
	for _, p := range f.params {
		if len(p.enum) < 2 || !operationParams[strings.Join(words(p.name), "_")] {
			continue
		}
		for _, value := range p.enum {
			one := features{name: words(value), rest: true, lead: clause{objects: f.lead.objects}}
			for _, w := range one.name {
				if _, ok := lex().verbs[w]; !ok {
					continue
				}
				got := one.refined(w, append(exceptAt(one.name, 0), f.name...))
				if got.class > out.class {
					out = finding{class: got.class, verb: w, why: fmt.Sprintf("its %s %q", p.name, value), strong: true}
				}
				break
			}
		}
	}
	return out, out.class != 0
}

var (
	payloadParams  = wordSet("cli_command sql statement code script command cmd shell javascript js source_code commands statements shell_command bash python_code query_string_sql sql_query python cypher expression_js function_js")
	queryParams    = wordSet("query sql statement cypher")
	anyCall        = wordSet("call invoke execute run")
	callParams     = wordSet("operation api_operation operation_name api_name api_method action_name function_name tool_name")
	argumentParams = wordSet("params parameters api_params arguments args input payload kwargs tool_args tool_arguments")
	methodParams   = wordSet("method http_method")
	addressParams  = wordSet("url endpoint path uri")
	bodyParams     = wordSet("body data payload json headers")
	payloadVerbs   = wordSet("run execute exec eval evaluate invoke interact use query call perform process send start test shell bash terminal sql script spawn command cmd")
	sqlParams      = wordSet("sql sql_query cypher gremlin sparql")
	querying       = sieve.Regexp(`\b(sql|cypher|graphql|gremlin|sparql|cql|aql|n1ql|surrealql|plsql)\b`)
	readingTongue  = sieve.Regexp(`\b(promql|logql|traceql|nrql|kql|jql|soql|sosl|odata|lucene|search(es)?|metrics?|logs?|traces?|time[- ]series|natural language|semantic|dns|whois)\b`)
	stored         = sieve.Regexp(`\b(database|warehouse|graph|tables?|collection|cluster|schema|engine)\b`)
	writesToo      = sieve.Regexp(`\bread[-/ ]?(and[- ])?write (mode|operations|access|queries)|\bwrite (mode|operations) (is|are) (allowed|enabled|supported)|\bsupports? (all )?(ddl|dml|insert|update|delete|write)`)
	readOnlyText   = sieve.Regexp(`\bread[- ]?only\b|\bonly (select|read|allows? select)|\bselect[- ]only\b|\b(a|an) (sql )?select (query|queries|statement)|\bselect (queries|statements|query)\b`)
	notReadOnly    = sieve.Regexp(`(not|non)[- ]read[- ]?only|(unless|disable|except|if) [a-z ]{0,20}read[- ]?only|insert|update|delete|drop|modif|mutation`)
	negated        = sieve.Regexp(`\b(no|not|never|without|block|reject|forbid|prevent|disallow|cannot|won't|don't)\b[a-z /,()'-]{0,60}(insert|update|delete|drop|modif|mutation|write)`)
)

// byPayload looks for a tool that runs what it is given: code, a command, a
// statement. Saying that it only reads makes a query a reading one; nothing
// makes running code one.
func (f *features) byPayload(now finding) (finding, bool) {
	verb := now.verb
	if anyCall[verb] && f.hasParam(callParams) && f.hasParam(argumentParams) && !f.enumerates(callParams) {
		return finding{class: engagement.Destructive, verb: verb, why: "it calls any operation it is given", strong: true, ran: true}, true
	}
	if f.hasParam(methodParams) && f.hasParam(addressParams) && f.hasParam(bodyParams) {
		return finding{class: engagement.Destructive, verb: verb, why: "it sends any request it is given", strong: true, ran: true}, true
	}
	running := runs[verb] || slices.ContainsFunc(f.name, func(w string) bool { return runs[w] && w != "call" })
	running = running || !f.lead.weak && len(f.lead.verbs) > 0 && runs[f.lead.verbs[0]] && f.lead.verbs[0] != "call"
	if !payloadVerbs[verb] && !running && now.class != 0 {
		return now, false
	}
	says := readOnlyText().MatchString(f.text) || slices.Contains(f.name, "readonly") || slices.Contains(f.name, "select") || slices.Contains(f.name, "read")
	says = says && !writesToo().MatchString(f.text) && (!notReadOnly().MatchString(f.text) || negated().MatchString(f.text) || slices.Contains(f.name, "read"))
	sql := querying().MatchString(f.text) || slices.ContainsFunc(f.name, func(w string) bool { return querying().MatchString(w) }) || f.hasParam(sqlParams)
	sql = sql || running && f.runsQueries()
	switch {
	case sql && (f.hasParam(queryParams) || payloadVerbs[verb]) && says:
		return finding{class: engagement.Read, verb: verb, why: "its description says that it only reads", strong: false}, true
	case sql && f.hasParam(queryParams):
		return finding{class: engagement.Destructive, verb: verb, why: "it runs the statement it is given", strong: true, ran: true}, true
	case f.hasParam(payloadParams) && (running || now.class == 0) && !(says && now.strong && now.class == engagement.Read):
		return finding{class: engagement.Destructive, verb: verb, why: "it runs what it is given", strong: true, ran: true}, true
	}
	return now, false
}

// runsQueries reports whether a tool that runs something runs a query of a
// language that could change what is stored, for all that is said of it.
func (f *features) runsQueries() bool {
	n := len(f.name)
	named := slices.Contains(f.lead.objects, "query") && f.hasParam(queryParams) || n > 1 && (f.name[n-1] == "query" || f.name[n-1] == "queries" || f.name[n-1] == "statement")
	about := strings.ToLower(f.first) + " " + strings.Join(f.name, " ")
	for _, w := range f.server {
		about += " " + w
		if slices.ContainsFunc(lex().domains[singular(w)], func(d domainWeight) bool { return d.domain == engagement.DomainLiveData && d.weight >= 3 }) {
			about += " database"
		}
	}
	return named && stored().MatchString(about) && !readingTongue().MatchString(about)
}

var (
	localParams  = wordSet("path file_path filepath filename file_name output_path output_file output save_path save_to destination dest_path local_path absolute_path target_path output_dir output_directory download_path destination_path dir directory save_dir file target_file outputpath export_path local_file_path folder_path")
	contentParam = wordSet("content contents text data edits new_text new_string new_str file_text changes patch lines old_string")
	savers       = wordSet("download export convert generate create render save capture screenshot record extract transform transcribe trace")
	handsOver    = sieve.Regexp(`\b(returns?|gets?|retrieves?|contents?|base64|urls?|links?|text|transcript|json|csv|string|bytes|logs?|data)\b`)
	toDisk       = sieve.Regexp(`\b(saves?|writes?|downloads?|exports?|saved|written|exported|downloaded) (it |them |the |a |an |[a-z]+ ){0,4}(to|into|as|in|on) (a |an |the |your |local |[a-z]+'s? )*([a-z]+ ){0,2}(local|disk|file|directory|folder|path|filesystem|specified|workspace|computer)|\bto (an? )?(local )?([a-z]+ )?(file|disk)\b|\bto (an?|the|your) local (directory|folder)\b|\blocal (file )?path\b`)
	changesFiles = sieve.Regexp(`\b(updates|overwrites|modifies|rewrites|edits) (the |existing |your )?files?\b|\bwrites? (the|its|all) [a-z]+ (back )?(to|into) (the|your) ([a-z]+ )?files?\b`)
	alsoSaves    = sieve.Regexp(`\b(and|then) (saves?|writes?|stores?) [a-z ]{0,30}(to|into|in|as) [a-z' ]{0,24}(file|disk|folder|directory)\b`)
)

// byDestination looks for a tool that leaves a file on the user's disk.
func (f *features) byDestination(now finding) finding {
	if now.class >= engagement.SourceFileWrite || now.class == 0 {
		return now
	}
	disk := toDisk().MatchString(f.text)
	switch {
	case now.verb == "download" && now.class == engagement.Read && !now.ruled && !handsOver().MatchString(f.text):
		return finding{class: engagement.SourceFileWrite, verb: now.verb, why: "\"download\" of what it does not hand over", strong: now.strong}
	case savers[now.verb] && now.verb != "screenshot" && now.verb != "capture" && f.hasParam(outputParams):
		return finding{class: engagement.SourceFileWrite, verb: now.verb, why: fmt.Sprintf("%q with a place to save to", now.verb), strong: now.strong}
	case savers[now.verb] && now.class == engagement.Read && f.hasParam(nameParams) && (f.hasParam(contentParam) || making[now.verb]):
		return finding{class: engagement.SourceFileWrite, verb: now.verb, why: fmt.Sprintf("%q with what to put under which name", now.verb), strong: now.strong}
	case now.verb != "screenshot" && now.verb != "capture" && f.hasParam(savingParams):
		return finding{class: engagement.SourceFileWrite, verb: now.verb, why: "it takes a place to save to", strong: now.strong}
	case disk && savers[now.verb] && now.verb != "screenshot" && now.verb != "capture" && f.hasParam(localParams) && toDisk().MatchString(strings.ToLower(f.first)),
		alsoSaves().MatchString(strings.ToLower(f.first)):
		return finding{class: engagement.SourceFileWrite, verb: now.verb, why: "it says that it leaves a file", strong: now.strong}
	case now.class == engagement.Read && changesFiles().MatchString(f.text):
		return finding{class: engagement.SourceFileWrite, verb: now.verb, why: "it says that it changes files", strong: now.strong}
	case now.verb == "export" && now.class == engagement.Read && f.takesPlace():
		return finding{class: engagement.SourceFileWrite, verb: now.verb, why: "\"export\" with a place for a file", strong: now.strong}
	case reworks[now.verb] && f.hasParam(fileParams):
		return finding{class: engagement.SourceFileWrite, verb: now.verb, why: "it changes the file that it is given", strong: now.strong}
	case (now.verb == "download" || now.verb == "export" || now.verb == "save") && (disk || f.hasParam(localParams) && now.verb != "export"):
		return finding{class: engagement.SourceFileWrite, verb: now.verb, why: fmt.Sprintf("%q to a file", now.verb), strong: now.strong}
	case now.class == engagement.ReversibleWrite && f.hasParam(pathParams) && f.hasParam(contentParam) && !f.notable["comment"] && !f.notable["issue"] && !f.notable["memory"]:
		return finding{class: engagement.SourceFileWrite, verb: now.verb, why: "it takes a path and what to put there", strong: now.strong}
	case now.class == engagement.ReversibleWrite && !opening[now.verb] && f.hasParam(fileParams) && officeFile().MatchString(f.text):
		return finding{class: engagement.SourceFileWrite, verb: now.verb, why: "it changes the file that it is given", strong: now.strong}
	}
	return now
}

// admitting are parameters that only a tool which changes something takes.
var admitting = wordSet("dry_run dryrun confirm confirmed confirmation user_confirmed overwrite overwrite_existing fix auto_fix autofix apply apply_fix apply_changes if_exists commit_message new_name new_title new_value new_content new_text new_status new_parent in_place inplace replace_existing skip_confirmation add_labels remove_labels add_tags remove_tags")

// byAdmission looks for a parameter that a tool which only reads has no use for,
// and for a place where a result is put.
func (f *features) byAdmission(now finding) finding {
	if now.class == 0 {
		return now
	}
	for _, p := range f.params {
		ws := words(p.name)
		switch name := strings.Join(ws, "_"); {
		case outlet(ws) && !remote[ws[len(ws)-1]] && now.class < engagement.SourceFileWrite && now.verb != "screenshot" && now.verb != "capture":
			return finding{class: engagement.SourceFileWrite, verb: now.verb, why: fmt.Sprintf("its parameter %q, a place to write to", p.name), strong: now.strong}
		case now.class > engagement.Read:
		case outlet(ws), admitting[name], now.vague() && given[name]:
			return finding{class: engagement.ReversibleWrite, verb: now.verb, why: fmt.Sprintf("its parameter %q, which only a change needs", p.name)}
		}
	}
	return now
}

// outlet reports whether the words of a parameter name where a result is put:
// "output_bucket", "destination_uri".
func outlet(ws []string) bool {
	return len(ws) > 1 && outward[ws[0]] && place[ws[len(ws)-1]]
}

var (
	outward = wordSet("output out save dest destination export")
	place   = wordSet("path dir directory folder file filename filepath bucket uri to")
	remote  = wordSet("bucket uri")
	given   = wordSet("answer content message body note comment feedback value") // what a vague verb hands over
)

// takesPlace reports whether a parameter names a file or a folder.
func (f *features) takesPlace() bool {
	return f.hasParam(nameParams) || slices.ContainsFunc(f.params, func(p param) bool {
		ws := words(p.name)
		return len(ws) > 0 && place[ws[len(ws)-1]] && !remote[ws[len(ws)-1]]
	})
}

var (
	outputParams = wordSet("output_path output_file save_path save_to save_dir output_dir output_directory download_path local_path destination_path target_path dest_path export_path outputpath local_file_path")
	savingParams = wordSet("output_path output_file save_path save_dir output_dir output_directory export_path outputpath")
	reworks      = wordSet("format sort clean normalize center align crop resize rotate")
	nameParams   = wordSet("filename file_name output_filename output_name out_file")
	fileParams   = wordSet("filename file_name file_path filepath pptx_path docx_path xlsx_path document_path presentation_path workbook_path stl_path svg_path pdf_path csv_path image_path audio_path video_path model_path gcode_path dxf_path")
	officeFile   = sieve.Regexp(`\b(docx?|pptx?|xlsx?|word documents?|workbooks?|powerpoint|(svg|stl|dxf|dwg|gcode|g-code|csv|pdf|audio|video|image) files?)\b`)
	pathParams   = wordSet("path file_path filepath absolute_path target_file output_path relative_path file")
)

// opening are verbs that leave the file that they are given as it is.
var opening = wordSet("open close load select switch connect start stop use initialize")

// generic are words of a server's name that say nothing of what it is for.
var generic = wordSet("server servers mcp modelcontextprotocol official client api tool tools my the local remote node js py python npm com io dev ai app test github-mcp")

func serverWords(alias string) []string {
	return slices.DeleteFunc(words(alias), func(w string) bool { return generic[w] })
}

// afterLabel drops a label such as "Notion | " or "Tool: " before a sentence.
func afterLabel(s string) string {
	for _, mark := range []string{" | ", ": ", " - ", " – ", " — "} {
		label, rest, ok := strings.Cut(s, mark)
		if !ok || rest == "" || len(strings.Fields(label)) > 3 {
			continue
		}
		if first := words(strings.ToLower(label)); len(first) == 0 || !isVerbForm(first[0]) {
			return rest
		}
	}
	return s
}
