package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/lazy"
	"github.com/mcp-gate/mcp-gate/policy"
)

// A Server is one tool server that can be started or reached.
type Server struct {
	Key       string // as the owner wrote it
	Alias     string // what people and models call it, see [catalog.Alias]
	Section   Section
	Pos       Pos
	Transport Transport
	Written   Endpoint // as the file has it: variables and tildes are not expanded
	Launch    Endpoint // as it is to be started: holds secrets, never log it

	Trusted    bool // its annotations may lower a class
	Preset     policy.Preset
	PresetFrom string               // who said so: the entry, the gate, or the section's default
	Egress     engagement.EgressSet // what the owner lets out of this server's results
	OnEgress   policy.OnEgress
	Secrets    Secrets
	Accept     Accept
	Start      Start
	Connection Connection
	Timeout    time.Duration // of one call; 0 where the owner set none
	Idempotent []string      // patterns of tools whose calls may be repeated
	Auth       *Auth         // nil where the owner said nothing
	Tools      []ToolSetting // what the owner says about tools, by pattern, in alphabetical order
}

// An Endpoint is how a server is started (Command and what follows it) or
// reached (URL and Headers).
type Endpoint struct {
	Command string
	Args    []string
	Env     map[string]string // nil where there is none
	Cwd     string            // empty is the gate's own folder, and what a relative one is relative to
	URL     string
	Headers map[string]string // nil where there is none
}

// Auth is how the gate signs in to a server.
type Auth struct {
	ClientID     string
	ClientSecret string
	Scopes       []string
}

// A ToolSetting is what the owner says about the tools of one server whose name
// fits a pattern. A zero field says nothing.
type ToolSetting struct {
	Glob       string // "*" is any run of characters, "?" any one
	Pos        Pos
	Permission engagement.Permission
	Egress     engagement.Egress
	Domains    *engagement.DomainSet // an empty set is "none", nil is "not said"
	Undo       *Undo
	Paths      []string // JSON pointers to arguments that name local files
}

// Undo is the call that takes another one back.
type Undo struct {
	Tool string
	Args json.RawMessage
}

// Tool returns what the owner says about the tool of that name: key by key, the
// word of the most exact pattern that fits, which is the one with the most
// characters besides "*" and "?". Pos is that of the most exact pattern of all.
func (s Server) Tool(name string) ToolSetting {
	fitting := slices.DeleteFunc(slices.Clone(s.Tools), func(t ToolSetting) bool { return !globFits(t.Glob, name) })
	slices.SortStableFunc(fitting, func(a, b ToolSetting) int { return cmp.Compare(exactness(b.Glob), exactness(a.Glob)) })
	var out ToolSetting
	for _, t := range fitting {
		if out.Glob == "" {
			out.Glob, out.Pos = t.Glob, t.Pos
		}
		out.Permission = cmp.Or(out.Permission, t.Permission)
		out.Egress = cmp.Or(out.Egress, t.Egress)
		out.Domains = cmp.Or(out.Domains, t.Domains)
		out.Undo = cmp.Or(out.Undo, t.Undo)
		if out.Paths == nil {
			out.Paths = t.Paths
		}
	}
	return out
}

// MayRepeat reports whether the owner declared that a call of the tool may be
// made again when nobody knows whether it happened.
func (s Server) MayRepeat(tool string) bool {
	return slices.ContainsFunc(s.Idempotent, func(glob string) bool { return globFits(glob, tool) })
}

// exactness counts the characters of a pattern that fit only themselves; a
// pattern without any that fits more comes before one of equal count.
func exactness(glob string) int {
	wild := strings.Count(glob, "*") + strings.Count(glob, "?")
	exact := 2 * (len(glob) - wild)
	if wild == 0 {
		exact++
	}
	return exact
}

// globFits reports whether a name fits a pattern. Its cost is bounded by the
// product of the two lengths.
func globFits(glob, name string) bool {
	star, mark := -1, 0
	g, n := 0, 0
	for n < len(name) {
		switch {
		case g < len(glob) && glob[g] == '*':
			star, mark = g, n
			g++
		case g < len(glob) && (glob[g] == '?' || glob[g] == name[n]):
			g++
			n++
		case star >= 0:
			mark++
			g, n = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(glob[g:], "*") == ""
}

// ID returns the server's identity, against which its accepted definitions are
// held: the SHA-256, in hex, of its transport, its command or URL, its arguments
// and the names of its environment variables, all as written, so that a new
// value of a variable changes nothing and another program does. Each part has its
// length before it, so no two servers share one by moving text between parts.
func (s Server) ID() string {
	h := sha256.New()
	put := func(part string) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	put("mcp-gate server v1")
	put(s.Transport.String())
	put(cmp.Or(s.Written.Command, s.Written.URL))
	put(strconv.Itoa(len(s.Written.Args)))
	for _, arg := range s.Written.Args {
		put(arg)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Written.Env)) {
		put(name)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// A serverEntry is one entry as it was written: zero and nil are "not said".
type serverEntry struct {
	key, alias string
	pos        Pos
	section    Section
	broken     bool
	faults     ErrorList

	command, cwd                located
	url, httpURL, sURL, baseURL located
	args                        []located
	env, headers                []variable
	kind                        located
	transport                   transportEntry
	disabled                    bool
	enabled, active             *bool
	trusted                     bool
	preset                      policy.Preset
	egress                      *engagement.EgressSet
	onEgress                    policy.OnEgress
	secrets                     Secrets
	accept                      Accept
	start                       Start
	connection                  Connection
	timeout                     time.Duration
	idempotent                  []string
	auth                        *Auth
	tools                       []ToolSetting
}

type variable struct {
	name  string
	pos   Pos
	value located
}

// A transportEntry is "transport": a word, or an object that some clients write.
type transportEntry struct {
	kind, url located
	headers   []variable
}

// urlKeys are the spellings of an address that clients use.
var urlKeys = []string{"url", "httpUrl", "serverUrl", "baseUrl"}

var serverShape = object[serverEntry]{
	name: "server",
	fields: []field[serverEntry]{
		key("command", "The program to start, found on PATH unless it is a path. ${VAR}, ${VAR:-default} and a leading ~ are expanded here and in args, env, cwd, url and headers.", orNull(locatedText),
			func(e *serverEntry) *located { return &e.command }),
		key("args", "Its arguments, each passed as it stands: no shell is involved.", orNull(list(locatedText)),
			func(e *serverEntry) *[]located { return &e.args }),
		key("env", "Variables of its environment, beside a short standard list. Nothing else is passed on.", variables("variable"),
			func(e *serverEntry) *[]variable { return &e.env }),
		key("cwd", "The folder it is started in.", orNull(locatedText),
			func(e *serverEntry) *located { return &e.cwd }),
		key("url", "The address of a server that is reached over HTTP, instead of a command.", orNull(locatedText),
			func(e *serverEntry) *located { return &e.url }),
		key("headers", "Headers of every request to it.", variables("header"),
			func(e *serverEntry) *[]variable { return &e.headers }),
		key("auth", "How to sign in to it.", optional(authShape.kind()),
			func(e *serverEntry) **Auth { return &e.auth }),
		key("trusted", "Whether its annotations may make a tool's class lower than its name and text suggest.", truth,
			func(e *serverEntry) *bool { return &e.trusted }),
		key("preset", "Which of its results may leave: strict or workbench.", word(policy.Presets()),
			func(e *serverEntry) *policy.Preset { return &e.preset }),
		key("egress", "The classes of its results that may leave, all of them, instead of a preset.", optional(egressSet),
			func(e *serverEntry) **engagement.EgressSet { return &e.egress }),
		key("on_egress", "Instead of policy.on_egress.", word(policy.OnEgresses()),
			func(e *serverEntry) *policy.OnEgress { return &e.onEgress }),
		key("secrets", "Instead of the gate's secrets.", word(SecretsModes()),
			func(e *serverEntry) *Secrets { return &e.secrets }),
		key("start", "When it is started: with the gate (eager) or at the first call (lazy).", word(Starts()),
			func(e *serverEntry) *Start { return &e.start }),
		key("connection", "Whether all sessions share a connection to it or each has its own.", word(Connections()),
			func(e *serverEntry) *Connection { return &e.connection }),
		key("timeout", `How long one call may go without an answer or progress, such as "30s". A bare number is taken in mcpServers only: milliseconds, or seconds if below 1000.`, callTimeout,
			func(e *serverEntry) *time.Duration { return &e.timeout }),
		key("accept", "Instead of the gate's accept.", word(Accepts()),
			func(e *serverEntry) *Accept { return &e.accept }),
		key("idempotent", "Patterns of tools whose calls may be repeated without harm.", list(filledText),
			func(e *serverEntry) *[]string { return &e.idempotent }),
		key("tools", `What its tools are, by name or pattern, such as "delete_*". The most exact pattern counts, key by key.`, toolSettings,
			func(e *serverEntry) *[]ToolSetting { return &e.tools }),
		key("type", "How it is reached, as other clients write it: stdio, http, streamable-http or sse. Not needed.", orNull(locatedText),
			func(e *serverEntry) *located { return &e.kind }),
		key("transport", "The same as type, or an object of type, url and headers.", transportKind,
			func(e *serverEntry) *transportEntry { return &e.transport }),
		key("httpUrl", "Another spelling of url.", orNull(locatedText), func(e *serverEntry) *located { return &e.httpURL }),
		key("serverUrl", "Another spelling of url.", orNull(locatedText), func(e *serverEntry) *located { return &e.sURL }),
		key("baseUrl", "Another spelling of url.", orNull(locatedText), func(e *serverEntry) *located { return &e.baseURL }),
		key("disabled", "True leaves the server out.", truth, func(e *serverEntry) *bool { return &e.disabled }),
		key("enabled", "False leaves the server out.", optional(truth), func(e *serverEntry) **bool { return &e.enabled }),
		key("isActive", "False leaves the server out.", optional(truth), func(e *serverEntry) **bool { return &e.active }),
	},
	foreign: foreignServerKeys,
}

// foreignServerKeys are keys of other clients' files that mean nothing here.
var foreignServerKeys = func() []foreignKey {
	because := func(why string, names ...string) (keys []foreignKey) {
		for _, name := range names {
			keys = append(keys, foreignKey{name, why})
		}
		return keys
	}
	return slices.Concat(
		because("what runs without a question is settled by policy here",
			"autoApprove", "alwaysAllow", "autoAllow", "trust", "default_tools_approval_mode"),
		because("hide tools with a rule in policy.rules",
			"includeTools", "excludeTools", "enabledTools", "disabledTools", "enabled_tools", "disabled_tools"),
		because("files of variables are not read; list them in env", "envFile"),
		because("signing in is not taken over from another program", "oauth", "scopes", "authProviderType"),
		because("it only describes the server",
			"name", "title", "description", "displayName", "label", "icon", "iconUrl", "logoUrl", "version", "provider",
			"providerUrl", "gallery", "source", "tags", "id", "registryUrl", "installSource", "reference"),
		because("it is a switch of another program",
			"sandbox", "sandboxEnabled", "dev", "alwaysLoad", "watchPaths", "required", "shouldConfig", "dxtPath", "longRunning"),
		because("a server may take its time to start; timeout is that of a call",
			"startup_timeout_sec", "startup_timeout_ms", "initTimeout", "connectTimeout", "tool_timeout_sec", "networkTimeout"),
	)
}()

var authShape = object[Auth]{
	fields: []field[Auth]{
		key("client_id", "The name this gate is registered under, where it is.", filledText, func(a *Auth) *string { return &a.ClientID }),
		key("client_secret", "Its secret, as a variable: ${NAME}.", filledText, func(a *Auth) *string { return &a.ClientSecret }),
		key("scopes", "What to ask for.", list(filledText), func(a *Auth) *[]string { return &a.Scopes }),
	},
}

var toolShape = object[ToolSetting]{
	name: "tool",
	pos:  func(t *ToolSetting) *Pos { return &t.Pos },
	fields: []field[ToolSetting]{
		key("permission", "What a call may do: read; reversible_write (can be put back); source_file_write (changes the owner's files); destructive (cannot be undone).", word(engagement.Permissions()),
			func(t *ToolSetting) *engagement.Permission { return &t.Permission }),
		key("egress", "What a result carries: metadata, aggregates, row_level (records, contents), rendered_pixels (screenshots, charts), raw_pixels (photos, scans).", word(engagement.EgressClasses()),
			func(t *ToolSetting) *engagement.Egress { return &t.Egress }),
		key("domains", "The kinds of work it serves; a tool of none is never left out of a slice.", optional(domainSet),
			func(t *ToolSetting) **engagement.DomainSet { return &t.Domains }),
		key("undo", "The call that takes this one back.", optional(undoShape.kind()),
			func(t *ToolSetting) **Undo { return &t.Undo }),
		key("paths", "JSON pointers to arguments that name local files.", list(filledText),
			func(t *ToolSetting) *[]string { return &t.Paths }),
	},
}

var undoShape = object[Undo]{
	name: "undo",
	fields: []field[Undo]{
		key("tool", "A tool of the same server.", filledText, func(u *Undo) *string { return &u.Tool }).must(),
		key("args", "Its arguments.", rawObject, func(u *Undo) *json.RawMessage { return &u.Args }),
	},
}

// toolSettings is "tools": ours is an object; a list is another client's filter
// and is not used.
var toolSettings = func() kind[[]ToolSetting] {
	ours := keyed("pattern of tool names", toolShape.kind(), func(d *decoder, m member, t *ToolSetting) {
		if t.Glob = m.key; m.key == "" {
			d.here(m.pos, "a pattern must not be empty")
		}
	})
	return kind[[]ToolSetting]{
		decode: func(d *decoder, n *node, into *[]ToolSetting) {
			if n.kind == listNode {
				d.note(n.pos, "%s: a list of tools is not used: hide tools with a rule in policy.rules", d.path())
				return
			}
			ours.decode(d, n, into)
			slices.SortFunc(*into, func(a, b ToolSetting) int { return cmp.Compare(a.Glob, b.Glob) })
		},
		schema: func(b *schemaBook) schema {
			return schema{"anyOf": []schema{ours.schema(b), {"type": "array", "deprecated": true}}}
		},
	}
}()

// variables is an object of texts, by the name of a variable or a header.
func variables(noun string) kind[[]variable] {
	value := kind[variable]{
		decode: func(d *decoder, n *node, into *variable) { locatedText.decode(d, n, &into.value) },
		schema: locatedText.schema,
	}
	return keyed(noun, value, func(_ *decoder, m member, v *variable) { v.name, v.pos = m.key, m.pos })
}

// transportKind is "transport": the word of "type", or an object that says more.
var transportKind = func() kind[transportEntry] {
	nested := object[transportEntry]{fields: []field[transportEntry]{
		key("type", "How the server is reached.", orNull(locatedText), func(t *transportEntry) *located { return &t.kind }),
		key("url", "Its address.", orNull(locatedText), func(t *transportEntry) *located { return &t.url }),
		key("headers", "Headers of every request to it.", variables("header"), func(t *transportEntry) *[]variable { return &t.headers }),
	}}
	return kind[transportEntry]{
		decode: func(d *decoder, n *node, into *transportEntry) {
			if n.kind == objectNode {
				nested.decode(d, n, into)
				return
			}
			orNull(locatedText).decode(d, n, &into.kind)
		},
		schema: func(b *schemaBook) schema {
			return schema{"anyOf": []schema{{"type": "string"}, nested.schemaOf(b)}}
		},
	}
}()

// maxTimeout bounds the time that one call may be given.
const maxTimeout = 24 * time.Hour

// callTimeout is a duration or, in an entry pasted from a client, a number.
// Clients differ in its unit: most write milliseconds, some seconds. Nobody wants
// less than a second, so a number below 1000 is seconds; a note says which was
// taken.
var callTimeout = func() kind[time.Duration] {
	written := duration(maxTimeout)
	return kind[time.Duration]{
		decode: func(d *decoder, n *node, into *time.Duration) {
			if n.kind != numberNode {
				written.decode(d, n, into)
				return
			}
			v, err := strconv.ParseFloat(n.text, 64)
			switch {
			case d.entry == nil || d.entry.section != SectionMCPServers:
				d.here(n.pos, "want %s, got a number", durationHint)
				return
			case err != nil || v <= 0 || v > float64(maxTimeout/time.Millisecond):
				d.here(n.pos, "want more than 0 and at most %s", maxTimeout)
				return
			case v < 1000:
				*into = time.Duration(v * float64(time.Second))
			default:
				*into = time.Duration(v * float64(time.Millisecond))
			}
			d.note(n.pos, "%s: %s is taken as %s", d.path(), n.text, *into)
		},
		schema: func(b *schemaBook) schema {
			return schema{"anyOf": []schema{written.schema(b), {"type": "number", "exclusiveMinimum": 0}}}
		},
	}
}()

// serverMap is a section of servers: an object by key or, as one client writes
// it, a list of entries that have a name. Each entry is read on its own.
func serverMap(section Section) kind[[]*serverEntry] {
	return kind[[]*serverEntry]{
		decode: func(d *decoder, n *node, into *[]*serverEntry) {
			byKey := map[string]*serverEntry{}
			for _, m := range d.serverMembers(n, section) {
				if first := byKey[m.key]; first != nil {
					d.entry = first
					d.fault(m.pos, "duplicate key %q%s: it is on line %d too", cut(m.key), d.in(), first.pos.Line)
					d.entry = nil
					continue
				}
				e := &serverEntry{key: m.key, alias: catalog.Alias(m.key), pos: m.pos, section: section}
				byKey[m.key] = e
				*into = append(*into, e)
				d.entry = e
				d.enter(quoteKey(m.key), func() {
					if m.value.kind == nullNode {
						d.want(m.value, "an object")
						return
					}
					serverShape.decode(d, m.value, e)
				})
				d.entry = nil
			}
		},
		schema: func(b *schemaBook) schema {
			entries := serverShape.schemaRef(b)
			byKey := schema{"type": []string{"object", "null"}, "additionalProperties": entries}
			if section == SectionServers {
				return byKey
			}
			named := schema{"allOf": []schema{entries}, "required": []string{"name"}}
			return schema{"anyOf": []schema{byKey, {"type": "array", "items": named}}}
		},
	}
}

// serverMembers gives the entries of a section with their keys.
func (d *decoder) serverMembers(n *node, section Section) []member {
	if n.kind == listNode && section == SectionMCPServers {
		var members []member
		for i, item := range n.items {
			at := slices.IndexFunc(item.members, func(m member) bool { return m.key == "name" && m.value.kind == textNode })
			if at < 0 {
				d.fault(item.pos, "%s[%d]: an entry of a list needs a name", d.path(), i)
				continue
			}
			named := *item
			named.members = slices.Delete(slices.Clone(item.members), at, at+1)
			members = append(members, member{item.members[at].value.text, item.pos, &named})
		}
		return members
	}
	if n.kind != objectNode && n.kind != nullNode {
		d.want(n, "an object with a key for each server")
	}
	return n.members
}

// maxServerKey bounds a server's key: it becomes part of file names, log lines
// and what a model reads.
const maxServerKey = 128

// finishServers settles what each entry is, sorts them and takes the faulty ones
// out.
func (f *file) finishServers(d *decoder, env Env, c *Config) {
	f.refuseSharedAliases(d)
	for _, e := range f.servers {
		d.entry = e
		d.checkKey(e)
		off := e.off()
		s := Server{Key: e.key, Alias: e.alias, Section: e.section, Pos: e.pos}
		d.endpoint(e, &s)
		if !off {
			d.expand(e, &s, env)
		}
		d.entry = nil
		as := Refused{Key: e.key, Alias: e.alias, Section: e.section, Pos: e.pos}
		switch {
		case e.broken:
			slices.SortStableFunc(e.faults, func(a, b *Error) int { return byPlace(a.Pos, b.Pos) })
			as.Errors = e.faults
			c.Refused = append(c.Refused, as)
		case off:
			d.notes = append(d.notes, Note{d.file, e.pos, e.key, fmt.Sprintf("%s.%s is switched off", e.section, quoteKey(e.key))})
			c.Disabled = append(c.Disabled, as)
		default:
			e.settle(&s, c, f)
			c.Servers = append(c.Servers, s)
		}
	}
	slices.SortFunc(c.Servers, func(a, b Server) int { return cmp.Compare(a.Alias, b.Alias) })
	byAlias := func(a, b Refused) int { return cmp.Or(cmp.Compare(a.Alias, b.Alias), byPlace(a.Pos, b.Pos)) }
	slices.SortFunc(c.Refused, byAlias)
	slices.SortFunc(c.Disabled, byAlias)
}

// refuseSharedAliases refuses every entry whose alias is another one's too: which
// of them a name means could not be told. An entry that is switched off takes no
// name.
func (f *file) refuseSharedAliases(d *decoder) {
	byAlias := map[string][]*serverEntry{}
	for _, e := range f.servers {
		if !e.off() {
			byAlias[e.alias] = append(byAlias[e.alias], e)
		}
	}
	for _, e := range f.servers {
		for _, other := range byAlias[e.alias] {
			if other == e || e.off() {
				continue
			}
			d.entry = e
			d.fault(e.pos, "%s.%s and %s.%s (line %d) are both called %q: rename one",
				e.section, quoteKey(e.key), other.section, quoteKey(other.key), other.pos.Line, e.alias)
			break
		}
	}
	d.entry = nil
}

func (d *decoder) checkKey(e *serverEntry) {
	if len(e.key) > maxServerKey {
		d.fault(e.pos, "%s: the name %q is longer than %d bytes", e.section, cut(e.key), maxServerKey)
	}
	if strings.Trim(e.alias, "-") == "" {
		d.fault(e.pos, "%s: the name %q has no letter a-z and no digit, so nothing could be called by it", e.section, cut(e.key))
	}
}

func (e *serverEntry) off() bool {
	return e.disabled || e.enabled != nil && !*e.enabled || e.active != nil && !*e.active
}

// endpoint tells a program from an address, whatever spelling was used, and
// keeps the entry as it was written.
func (d *decoder) endpoint(e *serverEntry, s *Server) {
	where := e.path()
	address := d.address(e)
	stated, pos := d.statedTransport(e)
	switch {
	case e.command.text != "" && address.text != "":
		d.fault(address.pos, "%s has both a command and a url: keep the one that is meant", where)
	case e.command.text != "":
		s.Transport = TransportStdio
		if stated != 0 && stated != TransportStdio {
			d.fault(pos, "%s is of type %s but has a command: give its url, or leave the type out", where, stated)
		}
	case address.text != "":
		s.Transport = cmp.Or(stated, TransportHTTP)
		if stated == TransportStdio {
			d.fault(pos, "%s is of type stdio but has a url: give its command, or leave the type out", where)
		}
	case !e.broken:
		d.fault(e.pos, "%s has neither a command nor a url", where)
	}
	if e.transport.headers != nil {
		if e.headers != nil {
			d.fault(e.transport.headers[0].pos, "%s has headers twice: keep those beside the url", where)
		}
		e.headers = e.transport.headers
	}
	e.url = address
	s.Written = Endpoint{Command: e.command.text, Args: texts(e.args), Env: byName(e.env), Cwd: e.cwd.text, URL: address.text, Headers: byName(e.headers)}
}

func (e *serverEntry) path() string { return e.section.String() + "." + quoteKey(e.key) }

// address returns the one address of an entry. Several spellings of the same one
// are no fault.
func (d *decoder) address(e *serverEntry) located {
	var found located
	for _, u := range []located{e.url, e.httpURL, e.sURL, e.baseURL, e.transport.url} {
		switch {
		case u.text == "":
		case found.text == "":
			found = u
		case found.text != u.text:
			d.fault(u.pos, "%s has two different addresses: keep the one that is meant", e.path())
		}
	}
	return found
}

// statedTransport reads what an entry says about its transport, if anything.
func (d *decoder) statedTransport(e *serverEntry) (Transport, Pos) {
	var stated Transport
	var pos Pos
	for _, t := range []located{e.kind, e.transport.kind} {
		if t.text == "" {
			continue
		}
		pos = t.pos
		switch foldWord(t.text) {
		case "stdio", "local":
			stated = TransportStdio
		case "http", "https", "streamablehttp", "httpstream", "remote":
			stated = TransportHTTP
		case "sse":
			stated = TransportSSE
		default:
			d.fault(t.pos, "%s: unknown transport %q: want one of stdio, http, streamable-http, sse", e.path(), cut(t.text))
		}
	}
	return stated, pos
}

func texts(l []located) []string {
	out := make([]string, len(l))
	for i, t := range l {
		out[i] = t.text
	}
	return out
}

func byName(l []variable) map[string]string {
	if len(l) == 0 {
		return nil
	}
	out := make(map[string]string, len(l))
	for _, v := range l {
		out[v.name] = v.value.text
	}
	return out
}

// settle fills in what an entry leaves to its section or to the gate.
func (e *serverEntry) settle(s *Server, c *Config, f *file) {
	s.Trusted, s.Timeout, s.Idempotent, s.Auth, s.Tools = e.trusted, e.timeout, e.idempotent, e.auth, e.tools
	s.OnEgress = cmp.Or(e.onEgress, c.Policy.OnEgress)
	s.Secrets = cmp.Or(e.secrets, c.Secrets)
	s.Accept = cmp.Or(e.accept, c.Accept)
	s.Start = cmp.Or(e.start, StartEager)
	s.Connection = cmp.Or(e.connection, ConnectionShared)
	switch {
	case e.preset != 0:
		s.Preset, s.PresetFrom = e.preset, "the entry"
	case f.preset != 0:
		s.Preset, s.PresetFrom = f.preset, "the gate"
	case e.section == SectionMCPServers:
		s.Preset, s.PresetFrom = policy.PresetWorkbench, "mcpServers"
	default:
		s.Preset, s.PresetFrom = policy.PresetStrict, "servers"
	}
	switch {
	case e.egress != nil:
		s.Egress = *e.egress
	case e.preset == 0 && f.policy.egress != nil:
		s.Egress = *f.policy.egress
	default:
		s.Egress = s.Preset.Egress()
	}
}

// checkURL refuses what no server can be reached at. It never repeats the
// address: a variable in it may be a secret.
func checkURL(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("want an address that begins with http:// or https://")
	case u.User != nil:
		return fmt.Errorf("a name or password in an address ends up in logs: use headers")
	}
	return nil
}

var (
	headerName = lazy.Regexp("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
	envName    = lazy.Regexp(`^[^=\x00]+$`)
)
