package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/lazy"
	"github.com/mcp-gate/mcp-gate/policy"
	"github.com/mcp-gate/mcp-gate/prefix"
)

// This file has every key of the configuration once, but for those of a server's
// entry, which are in server.go. The reader, the published schema and its
// descriptions are made of them.

// A file is the top level as it was written: zero and nil are "not said".
type file struct {
	schemaRef    string
	preset       policy.Preset
	servers      []*serverEntry
	policy       policyEntry
	authority    engagement.Authority
	gateFallback engagement.GateFallback
	slice        Slice
	exposure     placed[Exposure]
	accept       Accept
	profiles     []profileEntry
	approval     Approval
	audit        Audit
	bars         *engagement.Bars
	taint        policy.TaintMode
	secrets      Secrets
	artifacts    Artifacts
	clients      []Client
	roots        []string
	prefix       Prefix
	log          Log
}

type policyEntry struct {
	allowSourceWrites, allowDestructive bool
	allowWrites                         *bool
	egress                              *engagement.EgressSet
	onEgress                            policy.OnEgress
	rules                               ruleList
	spend                               engagement.Spend
}

var fileShape = object[file]{
	doc: "What one gate does: the servers behind it, and what may be done with them.",
	fields: []field[file]{
		key("$schema", "The JSON Schema that an editor checks this file with. The gate does not look at it.", text,
			func(f *file) *string { return &f.schemaRef }),
		key("preset", "Which results may leave where nothing else is said: strict (metadata, aggregates, rendered pixels) or workbench (records too).", word(policy.Presets()),
			func(f *file) *policy.Preset { return &f.preset }),
		key("servers", "The tool servers behind the gate, by the name people use for them. Preset strict where nothing is said.", serverMap(SectionServers),
			func(f *file) *[]*serverEntry { return &f.servers }),
		key("mcpServers", "The same, as another client's file has it: pasted unchanged. Preset workbench where nothing is said.", serverMap(SectionMCPServers),
			func(f *file) *[]*serverEntry { return &f.servers }),
		key("policy", "What callers may do.", policyShape.kind(),
			func(f *file) *policyEntry { return &f.policy }),
		key("authority", "How much a person has handed over to the agent, and how near that person is.", authorityShape.kind(),
			func(f *file) *engagement.Authority { return &f.authority }),
		key("gate_fallback", "What becomes of a question that nobody can answer.", word(engagement.GateFallbacks()),
			func(f *file) *engagement.GateFallback { return &f.gateFallback }),
		key("slice", "Whether a tool outside a session's domains may still be called (advise) or not (enforce).", word(Slices()),
			func(f *file) *Slice { return &f.slice }),
		key("exposure", "In which form a client sees the tools.", withPos(word(Exposures())),
			func(f *file) *placed[Exposure] { return &f.exposure }),
		key("accept", "Whether a definition that was never seen is accepted at first sight or waits for a person.", word(Accepts()),
			func(f *file) *Accept { return &f.accept }),
		key("profiles", "Named ways to start a session.", keyed("profile", profileShape.kind(), nameProfile),
			func(f *file) *[]profileEntry { return &f.profiles }),
		key("approval", "How a person is asked, and how well an answer must be proved.", approvalShape.kind(),
			func(f *file) *Approval { return &f.approval }),
		key("audit", "What the audit log keeps.", auditShape.kind(),
			func(f *file) *Audit { return &f.audit }),
		key("reader", "How sure the reader of prompts must be.", readerShape.kind(),
			func(f *file) **engagement.Bars { return &f.bars }),
		key("taint", "What becomes of a call that sends out after private and untrusted content was read.", word(policy.TaintModes()),
			func(f *file) *policy.TaintMode { return &f.taint }),
		key("secrets", "Whether secrets found in results are blacked out.", word(SecretsModes()),
			func(f *file) *Secrets { return &f.secrets }),
		key("artifacts", "How much is kept of large results.", artifactsShape.kind(),
			func(f *file) *Artifacts { return &f.artifacts }),
		key("clients", "What a client program bears, by the name given to serve --client.", keyed("client", clientShape.kind(), nameClient),
			func(f *file) *[]Client { return &f.clients }),
		key("roots", "Folders in which files may be copied before a call changes them, so that the call can be undone.", list(filledText),
			func(f *file) *[]string { return &f.roots }),
		key("prefix", "The bytes that every request begins with.", prefixShape.kind(),
			func(f *file) *Prefix { return &f.prefix }),
		key("log", "What is logged, on standard error.", logShape.kind(),
			func(f *file) *Log { return &f.log }),
	},
	foreign: []foreignKey{
		{"inputs", "the gate does not ask for values when it starts; use ${VAR}"},
	},
	stray: func(_ *decoder, m member) string {
		for _, inner := range m.value.members {
			if inner.key == "command" || slices.Contains(urlKeys, inner.key) {
				return `: a server goes under "servers" or "mcpServers"`
			}
		}
		return ""
	},
}

var policyShape = object[policyEntry]{
	fields: []field[policyEntry]{
		key("allow_source_writes", "A standing yes to writes into files that a person owns, for calls that can be undone.", truth,
			func(p *policyEntry) *bool { return &p.allowSourceWrites }),
		key("allow_destructive", "A flag for programs that use the policy as a library; the gate itself asks a person in any case.", truth,
			func(p *policyEntry) *bool { return &p.allowDestructive }),
		key("allow_writes", "False leaves reading only.", optional(truth),
			func(p *policyEntry) **bool { return &p.allowWrites }),
		key("egress", "The classes of data that may leave, all of them; an empty list lets nothing out. It stands in for the preset.", optional(egressSet),
			func(p *policyEntry) **engagement.EgressSet { return &p.egress }),
		key("on_egress", "What to do about a tool whose class of result may not leave: refuse the call, or run it and cut the result.", word(policy.OnEgresses()),
			func(p *policyEntry) *policy.OnEgress { return &p.onEgress }),
		key("rules", "Rules about single tools and arguments. The strongest that matches decides, whatever the order: hide, deny, ask, defer, allow.", rules,
			func(p *policyEntry) *ruleList { return &p.rules }),
		key("spend", "Bounds on what one session may use.", spendShape.kind(),
			func(p *policyEntry) *engagement.Spend { return &p.spend }),
	},
}

var spendShape = object[engagement.Spend]{
	fields: []field[engagement.Spend]{
		key("calls", "Tool calls; null is unlimited.", orNull(optional(integer(0, engagement.MaxSpend))),
			func(s *engagement.Spend) **int64 { return &s.Calls }),
		key("result_bytes", "Bytes of results; null is unlimited.", orNull(optional(integer(0, engagement.MaxSpend))),
			func(s *engagement.Spend) **int64 { return &s.ResultBytes }),
	},
}

// rules is the list of rules: its form is read here, and package policy says
// whether the rules make sense and hold for their own examples.
var rules = kind[ruleList]{
	decode: func(d *decoder, n *node, into *ruleList) {
		if n.kind != listNode {
			d.want(n, "a list")
			return
		}
		var sound []*node
		for i, item := range n.items {
			var record policy.Record
			before := d.faults
			d.enter(fmt.Sprintf("[%d]", i), func() { ruleShape.decode(d, item, &record) })
			if d.faults == before {
				sound, into.records = append(sound, item), append(into.records, record)
			}
		}
		compiled, err := policy.Compile(into.records)
		into.compiled = compiled
		if problems := (*policy.CompileError)(nil); errors.As(err, &problems) {
			for _, p := range problems.Problems {
				d.ruleFault(slices.Index(n.items, sound[p.Index]), sound[p.Index], p)
			}
		} else if err != nil {
			d.here(n.pos, "%v", err)
		}
	},
	schema: func(b *schemaBook) schema { return schema{"type": "array", "items": ruleShape.schemaRef(b)} },
}

type ruleList struct {
	records  []policy.Record
	compiled *policy.Rules
}

// ruleFault records what package policy found wrong with a rule, at the key that
// it is about.
func (d *decoder) ruleFault(index int, at *node, p *policy.Problem) {
	at = at.below(p.Field)
	path := fmt.Sprintf("%s[%d]", d.path(), index)
	if p.Field != "" {
		path += "." + p.Field
	}
	choices := ""
	if len(p.Choices) > 0 {
		choices = ": want one of " + strings.Join(p.Choices, ", ")
	}
	d.fault(at.pos, "%s: %s%s", path, p.Text, choices)
}

// below returns the value at a path such as args./path.min or match[1], or the
// last one on the way to it that is there.
func (n *node) below(path string) *node {
	for path != "" {
		var index int
		if _, err := fmt.Sscanf(path, "[%d]", &index); err == nil && index < len(n.items) {
			_, path, _ = strings.Cut(path, "]")
			n, path = n.items[index], strings.TrimPrefix(path, ".")
			continue
		}
		i := slices.IndexFunc(n.members, func(m member) bool {
			rest, ok := strings.CutPrefix(path, m.key)
			return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
		})
		if i < 0 {
			break
		}
		path = strings.TrimPrefix(strings.TrimPrefix(path, n.members[i].key), ".")
		n = n.members[i].value
	}
	return n
}

// words is one word of a closed set, or a list of them, as package policy takes them.
func words[T enumWord](all []T) kind[policy.Words] {
	return mapped(oneOrMore(word(all)), func(_ *decoder, _ *node, l []T) policy.Words {
		var out policy.Words
		for _, w := range l {
			out = append(out, w.String())
		}
		return out
	})
}

// patterns is one pattern or a list of them.
var patterns = mapped(oneOrMore(filledText), func(_ *decoder, _ *node, l []string) policy.Words { return l })

// asText is a word of a closed set, kept as text.
func asText[T enumWord](all []T) kind[string] {
	return mapped(word(all), func(_ *decoder, _ *node, w T) string { return w.String() })
}

var ruleShape = object[policy.Record]{
	name: "rule",
	fields: []field[policy.Record]{
		key("do", "What happens to a call that matches.", asText(policy.Dos()),
			func(r *policy.Record) *string { return &r.Do }).must(),
		key("tools", `Patterns over server/tool, such as "github/*" or "*/delete_*".`, patterns,
			func(r *policy.Record) *policy.Words { return &r.Tools }),
		key("class", "Classes of the tool.", words(engagement.Permissions()),
			func(r *policy.Record) *policy.Words { return &r.Class }),
		key("egress", "Declared classes of the tool's result.", words(engagement.EgressClasses()),
			func(r *policy.Record) *policy.Words { return &r.Egress }),
		key("principal", `Who calls, as patterns: "local", "local/NAME", or a token's name.`, patterns,
			func(r *policy.Record) *policy.Words { return &r.Principal }),
		key("scope", "Scopes of the caller's token.", words(policy.Scopes()),
			func(r *policy.Record) *policy.Words { return &r.Scope }),
		key("args", `Tests on the arguments, by JSON pointer, such as "/path". All must hold.`, argTests,
			func(r *policy.Record) *map[string]policy.ArgRecord { return &r.Args }),
		key("match", "Calls that this rule must match; checked when the file is loaded.", oneOrMore(example),
			func(r *policy.Record) *[]policy.Example { return &r.Match }),
		key("not_match", "Calls that this rule must not match; checked when the file is loaded.", oneOrMore(example),
			func(r *policy.Record) *[]policy.Example { return &r.NotMatch }),
		key("note", "Why the rule is there; shown when it decides.", text,
			func(r *policy.Record) *string { return &r.Note }),
	},
	check: func(d *decoder, n *node, r *policy.Record) {
		r.Source = policy.Source{File: d.file, Line: n.pos.Line, Column: n.pos.Col}
	},
}

// argTests is an object of tests by JSON pointer.
var argTests = func() kind[map[string]policy.ArgRecord] {
	type named struct {
		pointer string
		record  policy.ArgRecord
	}
	tests := kind[named]{
		decode: func(d *decoder, n *node, into *named) { argShape.decode(d, n, &into.record) },
		schema: argShape.schemaRef,
	}
	byPointer := keyed("JSON pointer", tests, func(_ *decoder, m member, t *named) { t.pointer = m.key })
	return mapped(byPointer, func(_ *decoder, _ *node, l []named) map[string]policy.ArgRecord {
		out := make(map[string]policy.ArgRecord, len(l))
		for _, t := range l {
			out[t.pointer] = t.record
		}
		return out
	})
}()

var argShape = object[policy.ArgRecord]{
	name: "argument",
	fields: []field[policy.ArgRecord]{
		key("eq", "The value is this one.", rawValue, func(a *policy.ArgRecord) *json.RawMessage { return &a.Eq }),
		key("in", "The value is one of these.", list(rawValue), func(a *policy.ArgRecord) *[]json.RawMessage { return &a.In }),
		key("glob", `The text fits a pattern; "*" is any run of characters.`, patterns, func(a *policy.ArgRecord) *policy.Words { return &a.Glob }),
		key("path_under", "The path, cleaned and resolved, is one of these folders or below it.", patterns, func(a *policy.ArgRecord) *policy.Words { return &a.PathUnder }),
		key("regex", "A regular expression (RE2) finds a match in the text.", filledText, func(a *policy.ArgRecord) *string { return &a.Regex }),
		key("min", "The number is at least this.", number, func(a *policy.ArgRecord) *json.RawMessage { return &a.Min }),
		key("max", "The number is at most this.", number, func(a *policy.ArgRecord) *json.RawMessage { return &a.Max }),
		key("present", "There is a value.", onlyTrue, func(a *policy.ArgRecord) *bool { return &a.Present }),
		key("absent", "There is no value.", onlyTrue, func(a *policy.ArgRecord) *bool { return &a.Absent }),
		key("max_len", "The text has at most so many characters, the list or object so many members.", mapped(integer(0, 1<<31-1), func(_ *decoder, _ *node, v int64) *int { i := int(v); return &i }),
			func(a *policy.ArgRecord) **int { return &a.MaxLen }),
	},
}

// number is any number, kept as it was written; one in quotes is a number too,
// for editors that would round it.
var number = kind[json.RawMessage]{
	decode: func(d *decoder, n *node, into *json.RawMessage) {
		if n.kind != numberNode && n.kind != textNode {
			d.want(n, "a number")
			return
		}
		*into = n.json()
	},
	schema: func(*schemaBook) schema { return schema{"type": []string{"number", "string"}} },
}

// onlyTrue is a test that is either asked for or left out.
var onlyTrue = kind[bool]{
	decode: func(d *decoder, n *node, into *bool) {
		if n.kind != boolNode || n.text != "true" {
			d.here(n.pos, "want true, or leave the key out")
			return
		}
		*into = true
	},
	schema: func(*schemaBook) schema { return schema{"const": true} },
}

// example is a call; a bare text is one without arguments.
var example = kind[policy.Example]{
	decode: func(d *decoder, n *node, into *policy.Example) {
		if n.kind == textNode {
			filledText.decode(d, n, &into.Tool)
			return
		}
		exampleShape.decode(d, n, into)
	},
	schema: func(b *schemaBook) schema {
		return schema{"anyOf": []schema{filledText.schema(b), exampleShape.schemaRef(b)}}
	},
}

var exampleShape = object[policy.Example]{
	name: "example",
	fields: []field[policy.Example]{
		key("tool", "The tool, as server/tool.", filledText, func(e *policy.Example) *string { return &e.Tool }).must(),
		key("class", "The class the tool is taken to have.", asText(engagement.Permissions()), func(e *policy.Example) *string { return &e.Class }),
		key("egress", "The class its result is taken to have.", asText(engagement.EgressClasses()), func(e *policy.Example) *string { return &e.Egress }),
		key("principal", "Who calls.", filledText, func(e *policy.Example) *string { return &e.Principal }),
		key("scope", "The scope of the caller's token.", asText(policy.Scopes()), func(e *policy.Example) *string { return &e.Scope }),
		key("args", "The arguments.", rawObject, func(e *policy.Example) *json.RawMessage { return &e.Args }),
	},
}

var authorityShape = object[engagement.Authority]{
	name: "authority",
	fields: []field[engagement.Authority]{
		key("autonomy", "manual: every call that changes anything is asked about; delegated: what can be put back is not; autonomous: shown afterwards.", word(engagement.Autonomies()),
			func(a *engagement.Authority) *engagement.Autonomy { return &a.Autonomy }),
		key("attendance", "Whether a person is at hand, looks in, or is away.", word(engagement.Attendances()),
			func(a *engagement.Authority) *engagement.Attendance { return &a.Attendance }),
	},
}

var readingShape = object[engagement.Reading]{
	name: "reading",
	doc:  "What the work is taken to be. What is left out is neutral.",
	fields: []field[engagement.Reading]{
		key("act", "What is done above all.", word(engagement.Acts()), func(r *engagement.Reading) *engagement.Act { return &r.Act }),
		key("alternate_acts", "What else the work may turn out to be.",
			mapped(list(word(engagement.Acts())), func(_ *decoder, _ *node, l []engagement.Act) engagement.ActSet { return engagement.ActsOf(l...) }),
			func(r *engagement.Reading) *engagement.ActSet { return &r.AlternateActs }),
		key("horizon", "How long the work lasts.", word(engagement.Horizons()), func(r *engagement.Reading) *engagement.Horizon { return &r.Horizon }),
		key("stakes", "What an error would cost.", word(engagement.AllStakes()), func(r *engagement.Reading) *engagement.Stakes { return &r.Stakes }),
		key("evidence", "How well results must be backed.", word(engagement.EvidenceLevels()), func(r *engagement.Reading) *engagement.Evidence { return &r.Evidence }),
		key("clarity", "How clear the task is.", word(engagement.Clarities()), func(r *engagement.Reading) *engagement.Clarity { return &r.Clarity }),
		key("attendance", "Whether a person is at hand.", word(engagement.Attendances()), func(r *engagement.Reading) *engagement.Attendance { return &r.Attendance }),
		key("modalities", "What the work must perceive.",
			mapped(list(word(engagement.Modalities())), func(_ *decoder, _ *node, l []engagement.Modality) engagement.ModalitySet {
				return engagement.ModalitiesOf(l...)
			}),
			func(r *engagement.Reading) *engagement.ModalitySet { return &r.Modalities }),
		key("domains", "Domains the work needs beyond what its acts imply.", domainSet, func(r *engagement.Reading) *engagement.DomainSet { return &r.Domains }),
		key("confidence", "From 0 to 1. A reading that is declared here counts as certain whatever this says.", fraction, func(r *engagement.Reading) *float64 { return &r.Confidence }),
	},
}

var domainSet = mapped(list(word(engagement.Domains())), func(_ *decoder, _ *node, l []engagement.Domain) engagement.DomainSet {
	return engagement.DomainsOf(l...)
})

// startingWith is a kind whose value, where it is said at all, begins as given.
func startingWith[T any](k kind[T], first T) kind[*T] {
	return kind[*T]{
		decode: func(d *decoder, n *node, into **T) {
			v := first
			k.decode(d, n, &v)
			*into = &v
		},
		schema: k.schema,
	}
}

// A profileEntry is a profile whose servers are still the owner's words for them.
type profileEntry struct {
	Profile
	servers *[]located
}

var profileShape = object[profileEntry]{
	name: "profile",
	pos:  func(p *profileEntry) *Pos { return &p.Pos },
	fields: []field[profileEntry]{
		key("reading", "What the work of such a session is.", startingWith(readingShape.kind(), engagement.NeutralReading()),
			func(p *profileEntry) **engagement.Reading { return &p.Reading }),
		key("authority", "Instead of the gate's authority, key by key.", startingWith(authorityShape.kind(), engagement.Authority{}),
			func(p *profileEntry) **engagement.Authority { return &p.Authority }),
		key("exposure", "Instead of the gate's exposure.", word(Exposures()), func(p *profileEntry) *Exposure { return &p.Exposure }),
		key("slice", "Instead of the gate's slice.", word(Slices()), func(p *profileEntry) *Slice { return &p.Slice }),
		key("servers", "The servers of such a session, by key or alias; all where nothing is said.", optional(list(locatedText)),
			func(p *profileEntry) **[]located { return &p.servers }),
	},
}

func nameProfile(d *decoder, m member, p *profileEntry) {
	p.Name = m.key
	if !profileName().MatchString(m.key) {
		d.here(m.pos, "a profile's name is part of an address: use a-z, 0-9, - and _, at most 64")
	}
}

var profileName = lazy.Regexp(`^[a-z0-9][a-z0-9_-]{0,63}$`)

var approvalShape = object[Approval]{
	fields: []field[Approval]{
		key("least_level", "The least proof that a decision was a person's: one level for every class, or one for each. L1 for destructive and L0 for the rest where nothing is said.", levelsByClass,
			func(a *Approval) *[1 + int(engagement.Destructive)]policy.Level { return &a.LeastLevel }),
		key("expires", "How long a question waits for an answer.", duration(90*24*time.Hour), func(a *Approval) *time.Duration { return &a.Expires }),
		key("notify", "Who is told that a question waits.", notifyShape.kind(), func(a *Approval) *Notify { return &a.Notify }),
		key("alarm", "Questions in ten minutes above which an alarm is raised and no more are shown; 0 is no bound.", integer(0, 10_000), func(a *Approval) *int64 { return &a.Alarm }),
	},
}

// levelsByClass is one level for every class, or an object with a level for some.
var levelsByClass = func() kind[[1 + int(engagement.Destructive)]policy.Level] {
	type levels = [1 + int(engagement.Destructive)]policy.Level
	one := word(policy.Levels())
	byClass := object[levels]{}
	for _, class := range engagement.Permissions() {
		byClass.fields = append(byClass.fields, key(class.String(), "The least proof for this class.", one,
			func(l *levels) *policy.Level { return &l[class] }))
	}
	return kind[levels]{
		decode: func(d *decoder, n *node, into *levels) {
			if n.kind == objectNode {
				byClass.decode(d, n, into)
				return
			}
			var every policy.Level
			one.decode(d, n, &every)
			for _, class := range engagement.Permissions() {
				into[class] = every
			}
		},
		schema: func(b *schemaBook) schema {
			several := byClass.schemaOf(b)
			several["type"] = "object"
			return schema{"anyOf": []schema{one.schema(b), several}}
		},
	}
}()

var notifyShape = object[Notify]{
	fields: []field[Notify]{
		key("desktop", "A notice on this desktop.", truth, func(n *Notify) *bool { return &n.Desktop }),
		key("webhook", "An address that a notice is posted to, without arguments of the call.", filledText, func(n *Notify) *string { return &n.Webhook }),
	},
}

var auditShape = object[Audit]{
	fields: []field[Audit]{
		key("keep_arguments", "Keep the arguments of calls in the audit log, up to 64 KiB a call and with secrets blacked out; else only their digests.", truth, func(a *Audit) *bool { return &a.KeepArguments }),
	},
}

var readerShape = object[*engagement.Bars]{
	fields: []field[*engagement.Bars]{
		key("bars", "Confidence below which a reading is used less.", startingWith(barsShape.kind(), engagement.DefaultBars()),
			func(b **engagement.Bars) **engagement.Bars { return b }),
	},
}

var barsShape = object[engagement.Bars]{
	fields: []field[engagement.Bars]{
		key("slice", "Below it a reading takes no tools away.", fraction, func(b *engagement.Bars) *float64 { return &b.Slice }),
		key("orient", "Below it a reading is not used.", fraction, func(b *engagement.Bars) *float64 { return &b.Orient }),
	},
	check: func(d *decoder, n *node, b *engagement.Bars) {
		if b.Orient > b.Slice {
			d.here(n.pos, "orient (%v) must not be above slice (%v)", b.Orient, b.Slice)
		}
	},
}

var artifactsShape = object[Artifacts]{
	fields: []field[Artifacts]{
		key("keep", "How long a result is kept.", duration(365*24*time.Hour), func(a *Artifacts) *time.Duration { return &a.Keep }),
		key("max_bytes", "Bytes of all kept results together.", integer(0, engagement.MaxSpend), func(a *Artifacts) *int64 { return &a.MaxBytes }),
		key("inline_bytes", "Bytes above which a result is kept and given in parts.", integer(0, engagement.MaxSpend), func(a *Artifacts) *int64 { return &a.InlineBytes }),
	},
}

var clientShape = object[Client]{
	name: "client",
	pos:  func(c *Client) *Pos { return &c.Pos },
	fields: []field[Client]{
		key("wait", "How long a call may be held before this client gives up on it.", duration(24*time.Hour), func(c *Client) *time.Duration { return &c.Wait }),
		key("limits", "What this client bears.", clientLimits.kind(), func(c *Client) *Client { return c }),
		key("schemas", "Whether tool schemas are cut to what strict providers take.", word(SchemasModes()), func(c *Client) *Schemas { return &c.Schemas }),
	},
}

var clientLimits = object[Client]{
	fields: []field[Client]{
		key("name_length", "Characters of a tool's name.", integer(16, 1024), func(c *Client) *int64 { return &c.NameLength }),
		key("description_bytes", "Bytes of a tool's description.", integer(64, 1<<20), func(c *Client) *int64 { return &c.DescriptionSize }),
		key("result_bytes", "Bytes of one result.", integer(1024, engagement.MaxSpend), func(c *Client) *int64 { return &c.ResultSize }),
	},
}

func nameClient(_ *decoder, m member, c *Client) { c.Name = m.key }

var prefixShape = object[Prefix]{
	fields: []field[Prefix]{
		key("budget", "Estimated tokens that the catalogue of tools may take.", integer(0, 1_000_000), func(p *Prefix) *int64 { return &p.Budget }),
		key("form", "The form in which mcp-gate prefix prints them, where --form says none.", word(prefix.Forms()), func(p *Prefix) *prefix.Form { return &p.Form }),
	},
}

var logShape = object[Log]{
	fields: []field[Log]{
		key("level", "The least grave message that is written.", word(LogLevels()), func(l *Log) *LogLevel { return &l.Level }),
		key("format", "Text on a terminal and JSON elsewhere (auto), or always one of them.", word(LogFormats()), func(l *Log) *LogFormat { return &l.Format }),
	},
}

// config turns what was written into what holds, default by default, and checks
// what only the whole file can tell.
func (f *file) config(d *decoder, env Env) Config {
	c := Default()
	c.File = d.file
	setWord(&c.Preset, f.preset)
	setWord(&c.GateFallback, f.gateFallback)
	setWord(&c.Slice, f.slice)
	setWord(&c.Exposure, f.exposure.v)
	setWord(&c.Accept, f.accept)
	setWord(&c.Taint, f.taint)
	setWord(&c.Secrets, f.secrets)
	setWord(&c.Authority.Autonomy, f.authority.Autonomy)
	setWord(&c.Authority.Attendance, f.authority.Attendance)
	setWord(&c.Log.Level, f.log.Level)
	setWord(&c.Log.Format, f.log.Format)
	setWord(&c.Prefix.Form, f.prefix.Form)
	c.Prefix.Budget = f.prefix.Budget
	c.Policy = f.policy.policy(c.Preset)
	c.Approval.LeastLevel, c.Approval.Notify, c.Approval.Alarm = f.approval.LeastLevel, f.approval.Notify, f.approval.Alarm
	c.Approval.Expires = cmp.Or(f.approval.Expires, c.Approval.Expires)
	c.Audit, c.Artifacts, c.Roots = f.audit, f.artifacts, f.roots
	if f.bars != nil {
		c.Bars = *f.bars
	}
	c.Clients = slices.SortedFunc(slices.Values(f.clients), func(a, b Client) int { return cmp.Compare(a.Name, b.Name) })
	for i := range c.Clients {
		setWord(&c.Clients[i].Schemas, cmp.Or(c.Clients[i].Schemas, SchemasAsIs))
	}
	f.finishServers(d, env, &c)
	f.finishProfiles(d, &c)
	return c
}

// setWord replaces a default by what was said.
func setWord[T enumWord](into *T, said T) {
	if said != 0 {
		*into = said
	}
}

func (p *policyEntry) policy(preset policy.Preset) Policy {
	out := Policy{Policy: policy.Default(), OnEgress: policy.EgressBlock, Spend: p.spend, Records: p.rules.records, Rules: p.rules.compiled}
	out.AllowSourceWrites, out.AllowDestructive = p.allowSourceWrites, p.allowDestructive
	if p.allowWrites != nil {
		out.AllowWrites = *p.allowWrites
	}
	out.Egress = preset.Egress()
	if p.egress != nil {
		out.Egress = *p.egress
	}
	setWord(&out.OnEgress, p.onEgress)
	return out
}

// finishProfiles fills in what a profile leaves to the gate and turns its
// servers into aliases.
func (f *file) finishProfiles(d *decoder, c *Config) {
	known := map[string]string{} // key or alias -> alias
	for _, e := range f.servers {
		known[e.key], known[e.alias] = e.alias, e.alias
	}
	for _, p := range f.profiles {
		setWord(&p.Exposure, cmp.Or(p.Exposure, c.Exposure))
		setWord(&p.Slice, cmp.Or(p.Slice, c.Slice))
		if p.Authority != nil {
			p.Authority.Autonomy = cmp.Or(p.Authority.Autonomy, c.Authority.Autonomy)
			p.Authority.Attendance = cmp.Or(p.Authority.Attendance, c.Authority.Attendance)
		}
		if p.servers != nil {
			p.Servers = d.aliases(p.Name, *p.servers, known)
			if p.Exposure == ExposureTransparent && len(p.Servers) != 1 {
				d.fault(p.Pos, "profiles.%s: exposure transparent shows exactly one server, not %d", quoteKey(p.Name), len(p.Servers))
			}
		}
		c.Profiles = append(c.Profiles, p.Profile)
	}
	slices.SortFunc(c.Profiles, func(a, b Profile) int { return cmp.Compare(a.Name, b.Name) })
	if c.Exposure == ExposureTransparent && len(c.Servers) > 1 && len(c.Profiles) == 0 {
		d.fault(f.exposure.pos, "exposure: transparent shows exactly one server, and there are %d: name one in a profile", len(c.Servers))
	}
}

// aliases turns the words of a profile for its servers into their aliases,
// sorted, each once.
func (d *decoder) aliases(profile string, named []located, known map[string]string) []string {
	aliases := []string{}
	for _, s := range named {
		alias, ok := known[s.text]
		if !ok {
			d.fault(s.pos, "profiles.%s.servers: there is no server %q%s", quoteKey(profile), cut(s.text), didYouMean(s.text, slices.Sorted(maps.Keys(known))))
			continue
		}
		aliases = append(aliases, alias)
	}
	slices.Sort(aliases)
	return slices.Compact(aliases)
}
