package clients

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// entry reads one entry. The first thing that rules it out is kept in bad.
type entry struct {
	o      Options
	key    string
	t      translator
	s      Server
	inputs []Input
	bad    *Left

	word    string // the transport that it states, as it was written
	wordPos Pos
	urlPos  Pos
}

func (x *entry) refuse(kind string, pos Pos, format string, args ...any) {
	if x.bad == nil {
		x.bad = &Left{Key: x.key, Pos: pos, Kind: kind, Reason: fmt.Sprintf(format, args...)}
	}
}

func (x *entry) broken(pos Pos, format string, args ...any) { x.refuse("broken", pos, format, args...) }

func (x *entry) note(format string, args ...any) {
	x.s.Notes = append(x.s.Notes, fmt.Sprintf(format, args...))
}

// secret names what keeps the answer to an input, if there is such an input.
func (x *entry) secret(id string) (string, error) {
	i := slices.IndexFunc(x.inputs, func(in Input) bool { return in.ID == id })
	switch {
	case i < 0:
		return "", fmt.Errorf("the file has no input %q", id)
	case x.inputs[i].Kind == "command":
		return "", fmt.Errorf("the answer comes from an extension of the editor")
	case x.o.Secret == nil:
		return "", fmt.Errorf("it is asked for by the editor")
	}
	name := x.o.Secret(id)
	if !secretRef().MatchString(name) {
		return "", fmt.Errorf("%q cannot be the name of a secret", name)
	}
	return name, nil
}

// readers handle the keys that mean something; the rest is noted.
var readers = map[string]func(*entry, member){
	"command": (*entry).command, "cmd": (*entry).command,
	"args": (*entry).args,
	"env":  (*entry).env, "envs": (*entry).env, "environment": (*entry).env,
	"env_vars": (*entry).passedOn, "env_keys": (*entry).passedOn,
	"cwd": func(x *entry, m member) { x.s.Cwd = x.text(m) },
	"url": (*entry).address, "httpUrl": (*entry).address, "serverUrl": (*entry).address, "baseUrl": (*entry).address, "uri": (*entry).address,
	"headers": (*entry).headers, "http_headers": (*entry).headers, "env_http_headers": (*entry).headerVars,
	"bearer_token_env_var": (*entry).bearer,
	"bearer_token": func(x *entry, m member) {
		x.broken(m.pos, "a token written out as bearer_token is refused by that client too: use bearer_token_env_var")
	},
	"type": (*entry).kind, "transport": (*entry).kind, "transportType": (*entry).kind,
	"disabled":  func(x *entry, m member) { x.s.Disabled = x.s.Disabled || x.truth(m, false) },
	"enabled":   func(x *entry, m member) { x.s.Disabled = x.s.Disabled || !x.truth(m, true) },
	"isActive":  func(x *entry, m member) { x.s.Disabled = x.s.Disabled || !x.truth(m, true) },
	"timeout":   func(x *entry, m member) { x.s.Timeout = x.duration(m, "") },
	"timeoutMs": func(x *entry, m member) { x.s.Timeout = x.duration(m, "ms") }, "tool_timeout_sec": func(x *entry, m member) { x.s.Timeout = x.duration(m, "s") },
	"startup_timeout_sec": func(x *entry, m member) { x.startup(m, "s") }, "startup_timeout_ms": func(x *entry, m member) { x.startup(m, "ms") },
}

// unused says why a key of another program is not taken over. A key that is in
// neither table is noted by its name.
var unused = map[string]string{
	"autoApprove": "policy decides here what runs without a question", "alwaysAllow": "policy decides here what runs without a question",
	"autoAllow": "policy decides here what runs without a question", "trust": "policy decides here what runs without a question",
	"default_tools_approval_mode": "policy decides here what runs without a question",
	"includeTools":                "hide tools with a rule in policy.rules", "excludeTools": "hide tools with a rule in policy.rules",
	"enabledTools": "hide tools with a rule in policy.rules", "disabledTools": "hide tools with a rule in policy.rules",
	"enabled_tools": "hide tools with a rule in policy.rules", "disabled_tools": "hide tools with a rule in policy.rules",
	"tools":   "hide tools with a rule in policy.rules",
	"envFile": "a file of variables is not read: what the server needs of it must be listed in env",
	"oauth":   "sign in with mcp-gate auth login", "auth": "sign in with mcp-gate auth login", "scopes": "sign in with mcp-gate auth login",
	"sandbox": "a sandbox of that client's is not kept", "sandboxEnabled": "a sandbox of that client's is not kept",
}

// silent keys only describe a server.
var silent = []string{"name", "title", "description", "display_name", "displayName", "label", "icon", "iconUrl", "version", "gallery", "source", "tags", "id", "bundled", "$schema", "required", "settings", "available_tools", "alwaysLoad", "dev"}

func (x *entry) read(n *node) {
	if n.kind != object {
		x.broken(n.pos, "want an object, got %s", n.kind.noun())
		return
	}
	x.unsupported(n)
	for _, m := range lastOfEach(n.members, member.name) {
		if m.value.kind == null {
			continue
		}
		if read := readers[m.key]; read != nil {
			read(x, m)
		} else if why := unused[m.key]; why != "" && !empty(m.value) {
			x.note("%s is not used: %s", m.key, why)
		} else if why == "" && !slices.Contains(silent, m.key) && !empty(m.value) {
			x.note("%s is not used", m.key)
		}
	}
	x.settle(n)
}

func empty(n *node) bool {
	return n.kind == boolean && n.text == "false" || (n.kind == list || n.kind == object) && len(n.items)+len(n.members) == 0
}

// unsupported refuses entries that are part of their client.
func (x *entry) unsupported(n *node) {
	word := textOf(n.get("type"))
	if slices.Contains([]string{"builtin", "platform", "frontend", "inline_python"}, word) {
		x.refuse("unsupported", n.pos, "it is built into its client (type %s)", word)
	}
	if n.get("settings") != nil && n.get("command") == nil && n.get("url") == nil {
		x.refuse("unsupported", n.pos, "it is an extension of its client, which alone knows how to start it")
	}
}

func (x *entry) text(m member) string {
	if m.value.kind != text {
		x.broken(m.value.pos, "%s: want text, got %s", m.key, m.value.kind.noun())
		return ""
	}
	return x.translate(m.key, m.value.pos, m.value.text)
}

// scalar takes numbers and truth values for the text they are, as the clients
// that hand them to a process do.
func (x *entry) scalar(key string, n *node) string {
	if n.kind == number || n.kind == boolean {
		return n.text
	}
	return x.text(member{key, n.pos, n})
}

func (x *entry) translate(key string, pos Pos, s string) string {
	if strings.ContainsRune(s, 0) {
		x.broken(pos, "%s: holds a NUL character", key)
	}
	out, err := x.t.text(s)
	if err != nil {
		kind := "broken"
		if strings.Contains(err.Error(), "editor") {
			kind = "unsupported"
		}
		x.refuse(kind, pos, "%s: %v", key, err)
	}
	return out
}

func (x *entry) truth(m member, otherwise bool) bool {
	switch {
	case m.value.kind != boolean:
		x.broken(m.value.pos, "%s: want true or false, got %s", m.key, m.value.kind.noun())
		return otherwise
	}
	return m.value.text == "true"
}

// command is text, a list of a program and its arguments, or an object of them.
func (x *entry) command(m member) {
	switch m.value.kind {
	case list:
		for i, item := range m.value.items {
			word := x.scalar(fmt.Sprintf("%s[%d]", m.key, i), item)
			if i == 0 {
				x.s.Command = word
			} else {
				x.s.Args = append(x.s.Args, word)
			}
		}
	case object:
		for _, inner := range m.value.members {
			switch inner.key {
			case "path":
				x.s.Command = x.text(inner)
			case "args":
				x.args(inner)
			case "env":
				x.env(inner)
			}
		}
	default:
		x.s.Command = x.text(m)
		x.line()
	}
}

// line takes a program with its arguments in one text apart, as far as spaces
// and quotes alone tell them apart. The name of a program is one word here, and
// a path may have spaces in it.
func (x *entry) line() {
	if x.t.verbatim {
		return
	}
	x.s.Command = strings.TrimSpace(x.s.Command)
	program, rest, _ := strings.Cut(x.s.Command, " ")
	switch {
	case rest == "" || strings.ContainsAny(program, `/\~$"'`):
	case strings.ContainsAny(x.s.Command, "&|;<>`") || strings.Contains(program, "=") || strings.Contains(rest, "$("):
		x.note(`its command is a line for a shell, and none is started here: write "command": "sh" and "args": ["-c", "the line"]`)
	default:
		words := fields(x.s.Command)
		x.s.Command, x.s.Args = words[0], append(words[1:], x.s.Args...)
		x.note("its command was a program and arguments in one text: %s gets the rest as args", words[0])
	}
}

func (x *entry) args(m member) {
	if m.value.kind != list {
		x.broken(m.value.pos, "%s: want a list, got %s", m.key, m.value.kind.noun())
		return
	}
	for i, item := range m.value.items {
		x.s.Args = append(x.s.Args, x.scalar(fmt.Sprintf("%s[%d]", m.key, i), item))
	}
}

func (x *entry) pairs(m member, value func(member) (string, bool)) (out []Pair) {
	if m.value.kind != object {
		x.broken(m.value.pos, "%s: want an object, got %s", m.key, m.value.kind.noun())
		return nil
	}
	for _, v := range lastOfEach(m.value.members, member.name) {
		v.pos = v.value.pos
		if got, ok := value(v); ok {
			out = append(out, Pair{v.key, got})
		}
	}
	return out
}

func (x *entry) env(m member) {
	x.s.Env = append(x.s.Env, x.pairs(m, func(v member) (string, bool) {
		if v.value.kind == null {
			x.note("env.%s is null, which takes a variable away; only listed variables are passed on here", v.key)
			return "", false
		}
		return x.scalar("env."+v.key, v.value), true
	})...)
}

// passedOn are variables of the client's own environment, by name.
func (x *entry) passedOn(m member) {
	if m.value.kind != list {
		x.broken(m.value.pos, "%s: want a list, got %s", m.key, m.value.kind.noun())
		return
	}
	for _, item := range m.value.items {
		name := textOf(item)
		if item.kind == object {
			name = textOf(item.get("name"))
		}
		if !plainRef().MatchString(name) || strings.Contains(name, ":") {
			x.broken(item.pos, "%s: want the name of a variable", m.key)
			continue
		}
		if slices.ContainsFunc(x.s.Env, func(p Pair) bool { return p.Name == name }) {
			continue
		}
		if m.key == "env_keys" {
			x.note("%s is kept in that client's keychain: set the variable where the gate is started", name)
		}
		x.t.use(name)
		x.s.Env = append(x.s.Env, Pair{name, "${" + name + "}"})
	}
}

func (x *entry) address(m member) {
	address := x.text(m)
	if x.s.URL != "" && address != "" && x.s.URL != address {
		x.broken(m.pos, "it has two different addresses")
	}
	if address != "" {
		x.s.URL, x.urlPos = address, m.value.pos
	}
	if m.key == "url" && x.word == "" && x.s.Client == "gemini" {
		x.word, x.wordPos = "sse", m.pos // there, httpUrl is the newer transport and url the older
	}
}

func (x *entry) headers(m member) {
	x.s.Headers = append(x.s.Headers, x.pairs(m, func(v member) (string, bool) {
		return x.scalar(m.key+"."+v.key, v.value), v.value.kind != null
	})...)
}

func (x *entry) headerVars(m member) {
	x.s.Headers = append(x.s.Headers, x.pairs(m, func(v member) (string, bool) {
		name := textOf(v.value)
		if !plainRef().MatchString(name) {
			x.broken(v.pos, "%s.%s: want the name of a variable", m.key, v.key)
		}
		x.t.use(name)
		return "${" + name + "}", true
	})...)
}

func (x *entry) bearer(m member) {
	name := textOf(m.value)
	if !plainRef().MatchString(name) {
		x.broken(m.value.pos, "%s: want the name of a variable", m.key)
		return
	}
	x.t.use(name)
	x.s.Headers = append(x.s.Headers, Pair{"Authorization", "Bearer ${" + name + "}"})
}

// kind is a word, or an object that says more.
func (x *entry) kind(m member) {
	if m.value.kind == object {
		for _, inner := range m.value.members {
			switch inner.key {
			case "type":
				x.kind(inner)
			case "url":
				x.address(inner)
			case "headers":
				x.headers(inner)
			}
		}
		return
	}
	if word := x.text(m); word != "" {
		x.word, x.wordPos = word, m.value.pos
	}
}

func (x *entry) duration(m member, unit string) time.Duration {
	if m.value.kind == text {
		d, err := time.ParseDuration(m.value.text)
		if err != nil || d <= 0 {
			x.note("%s is not used: it is no time", m.key)
			return 0
		}
		return d
	}
	v, err := strconv.ParseFloat(m.value.text, 64)
	if m.value.kind != number || err != nil || math.IsNaN(v) || v <= 0 {
		x.note("%s is not used: it is no time", m.key)
		return 0
	}
	if unit == "" {
		unit = "ms"
		if x.t.unitKnown && x.t.seconds || !x.t.unitKnown && v < 1000 {
			unit = "s"
		}
	}
	scale := map[string]time.Duration{"s": time.Second, "ms": time.Millisecond}[unit]
	const longest = 24 * time.Hour // the most that this product's own file takes
	if v > float64(longest/scale) {
		x.note("%s is cut to %v", m.key, longest)
		return longest
	}
	return time.Duration(v * float64(scale)).Round(time.Millisecond)
}

func (x *entry) startup(m member, unit string) {
	if x.s.Startup = x.duration(m, unit); x.s.Startup > 0 {
		x.note("%s (%v) is not used: a server may take its time to start here", m.key, x.s.Startup)
	}
}

// settle judges the entry as a whole.
func (x *entry) settle(n *node) {
	word := strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(x.word))
	remote := map[string]bool{"http": true, "streamablehttp": true, "sse": true, "remote": true}
	switch {
	case x.bad != nil:
	case x.s.Command != "" && x.s.URL != "":
		x.broken(x.urlPos, "it has both a command and a url, so which is meant cannot be told")
	case x.s.Command == "" && x.s.URL == "":
		x.broken(n.pos, "it has neither a command nor a url")
	case x.s.Command != "" && remote[word]:
		x.broken(x.wordPos, "it is of type %s but has a command", x.word)
	case x.s.URL != "" && (word == "stdio" || word == "local"):
		x.broken(x.wordPos, "it is of type %s but has a url", x.word)
	case word != "" && !remote[word] && word != "stdio" && word != "local":
		x.refuse("unsupported", x.wordPos, "type %q is not spoken here: want stdio, http or sse", x.word)
	}
	if x.s.URL != "" {
		x.checkURL()
		if word == "sse" {
			x.s.Type = "sse"
		}
	}
	x.bridge()
}

// checkURL refuses what no MCP client of this product could reach. An address
// with a variable in it is only known when that has its value.
func (x *entry) checkURL() {
	if strings.Contains(x.s.URL, "${") {
		return
	}
	u, err := url.Parse(x.s.URL)
	switch {
	case err != nil || u.Host == "" && u.Scheme != "unix" && u.Scheme != "pipe":
		x.broken(x.urlPos, "its url is no address")
	case u.Scheme != "http" && u.Scheme != "https":
		x.refuse("unsupported", x.urlPos, "addresses of scheme %s are not reached", u.Scheme)
	case u.User != nil:
		x.broken(x.urlPos, "its url has a password in it: put it into headers")
	}
}

// bridge says where a program only passes on to an address that could be reached
// without it.
func (x *entry) bridge() {
	words := runnerWords(x.s.Args)
	if len(words) < 2 || baseOf(words[0]) != "mcp-remote" || x.bad != nil {
		return
	}
	for _, w := range words[1:] {
		if u, err := url.Parse(w); err == nil && u.Scheme == "https" && u.Host != "" {
			x.note("mcp-remote is only a bridge to %s: an entry with that url, and mcp-gate auth login, does without it", shownURL(w))
			return
		}
	}
}
