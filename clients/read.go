package clients

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Options say how a file is to be understood.
type Options struct {
	Client     *Client // whose file it is; nil guesses from its path and shape
	Folder     string  // what ${workspaceFolder} stands for; "" where nobody said
	Executable string  // this program's own path, to recognise its own entry
	GOOS       string
	// Secret names the secret that keeps the answer to an input of the file.
	// Nil refuses entries that refer to one.
	Secret func(input string) string
}

// A Reading is what one file says.
type Reading struct {
	File    string
	Client  string // an id of the table, or "" for a file that nobody is known to have written
	Servers []Server
	Left    []Left // entries that are not taken over, in the order of the file
	Inputs  []Input
}

// A Server is one entry, in this product's terms: references are those of this
// product's own file, and texts that only look like one are escaped.
type Server struct {
	Key      string `json:"key"`
	File     string `json:"file"`
	Pos      Pos    `json:"pos"`
	Scope    string `json:"scope,omitempty"` // the project's folder, where the entry is a project's
	Client   string `json:"client,omitempty"`
	Endpoint `json:"-"`
	Disabled bool          `json:"disabled,omitempty"`
	Timeout  time.Duration `json:"-"` // of a call; 0 where not said
	Startup  time.Duration `json:"-"` // that the client gives it to start; 0 where not said
	Preset   string        `json:"preset"`
	Why      string        `json:"why"`             // why that preset is proposed
	Notes    []string      `json:"notes,omitempty"` // what of the entry is not used, and why
	Needs    []string      `json:"needs,omitempty"` // inputs whose answers it refers to
	Vars     []string      `json:"variables,omitempty"`
}

// An Endpoint is how a server is started or reached.
type Endpoint struct {
	Command string
	Args    []string
	Env     []Pair
	Cwd     string
	URL     string
	Headers []Pair
	Type    string // "sse" where the entry says so, else ""
}

// A Pair is a variable or a header.
type Pair struct{ Name, Value string }

// Left is an entry that is not taken over.
type Left struct {
	Key    string `json:"key"`
	File   string `json:"file"`
	Pos    Pos    `json:"pos"`
	Kind   string `json:"kind"` // "own", "broken" or "unsupported"
	Reason string `json:"reason"`
}

func (l Left) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s: %s", l.File, l.Pos.Line, l.Pos.Col, l.Key, l.Reason)
}

// An Input is a question that an editor asks for a value, see VS Code's "inputs".
type Input struct {
	ID, Kind, Question string
	Default            string
	Options            []string // the only answers there are, where it has some
	Password           bool
}

// Read reads the servers of one file. The error is a *[SyntaxError] where the
// file cannot be read as a whole; the name then stands in it.
func Read(name string, data []byte, o Options) (Reading, error) {
	root, err := parse(name, data)
	if err != nil {
		return Reading{}, err
	}
	sections := sectionsOf(root)
	client, known := Client{dialect: anything}, false
	if o.Client != nil {
		client, known = *o.Client, true
	} else if client, known = guess(filepath.ToSlash(name)); !known {
		client, known = byShape(root, sections)
	}
	r := Reading{File: name, Inputs: inputsOf(root)}
	bundle := ""
	if s, inputs, ok := bundleOf(root); ok {
		sections, r.Inputs = []section{s}, inputs
		client, known = Client{dialect: dialect{plain: true}}, false
		if bundle, err = filepath.Abs(filepath.Dir(name)); err != nil {
			return Reading{}, err
		}
	}
	if known {
		r.Client = client.ID
	}
	if client.dialect.autoByFile && o.Folder == "" {
		o.Folder = projectOf(client, name)
	}
	e := &entries{r: &r, o: o, dialect: client.dialect, bundle: bundle}
	for _, s := range sections {
		e.section(s)
	}
	return r, nil
}

// bundleOf reads the manifest of an MCPB bundle, which is one server and asks for values
// of its own. Its folder holds the server.
func bundleOf(root *node) (section, []Input, bool) {
	server := root.at("server", "mcp_config")
	name := textOf(root.get("name"))
	if server == nil || name == "" || root.get("manifest_version") == nil && root.get("dxt_version") == nil {
		return section{}, nil, false
	}
	var inputs []Input
	if asks := root.get("user_config"); asks != nil {
		for _, m := range asks.members {
			in := Input{ID: m.key, Kind: "promptString", Question: textOf(m.value.get("title")), Default: textOf(m.value.get("default"))}
			if secret := m.value.get("sensitive"); secret != nil {
				in.Password = secret.text == "true"
			}
			inputs = append(inputs, in)
		}
	}
	servers := &node{kind: object, pos: server.pos, members: []member{{name, server.pos, server}}}
	return section{name: "mcp_config", value: servers}, inputs, true
}

// byShape tells a client by a section that only it has.
func byShape(root *node, sections []section) (Client, bool) {
	ids := map[string]string{"context_servers": "zed", "mcp_servers": "codex", "extensions": "goose", "mcp": "opencode"}
	for _, s := range sections {
		id := ids[s.name]
		if s.name == "servers" && root.get("inputs") != nil {
			id = "vscode"
		}
		if c, err := Find(id); err == nil {
			return c, true
		}
	}
	return Client{dialect: anything}, false
}

// projectOf returns the folder that a project's file belongs to, or "".
func projectOf(c Client, file string) string {
	file = filepath.ToSlash(file)
	for _, p := range c.files {
		tail, ok := strings.CutPrefix(p.path, "{PROJECT}/")
		if dir, is := strings.CutSuffix(file, "/"+tail); ok && is && filepath.IsAbs(filepath.FromSlash(dir)) {
			return filepath.FromSlash(dir)
		}
	}
	return ""
}

// A section is one map of servers.
type section struct {
	name  string
	scope string
	value *node
}

// sectionsOf finds the servers of a file by the shapes that clients use. Where
// two of them are there both count, and an entry of the first wins.
func sectionsOf(root *node) []section {
	var out []section
	add := func(name, scope string, value *node) {
		if value != nil && value.kind != null {
			out = append(out, section{name, scope, value})
		}
	}
	for _, keys := range [][]string{
		{"mcpServers"}, {"mcp", "servers"}, {"servers"}, {"context_servers"}, {"mcp_servers"}, {"amp.mcpServers"},
		{"mcp", "mcpServers"}, {"customizations", "vscode", "mcp", "servers"}, {"experimental", "modelContextProtocolServers"},
	} {
		add(keys[len(keys)-1], "", root.at(keys...))
		if keys[0] == "mcp" && len(out) > 0 && out[len(out)-1].value == root.at(keys...) {
			out[len(out)-1].name = "mcp" + "." + keys[1]
		}
	}
	if m := root.get("mcp"); m != nil && m.get("servers") == nil && anyEntry(m) {
		add("mcp", "", m)
	}
	if ext := root.get("extensions"); ext != nil && ext.kind == object {
		add("extensions", "", ext)
	}
	if projects := root.get("projects"); projects != nil {
		for _, p := range projects.members {
			add("mcpServers", p.key, p.value.get("mcpServers"))
		}
	}
	if len(out) == 0 && anyEntry(root) {
		add("", "", root)
	}
	return out
}

// anyEntry reports whether an object is a bare map of servers.
func anyEntry(n *node) bool {
	return n.kind == object && slices.ContainsFunc(n.members, func(m member) bool {
		return slices.ContainsFunc([]string{"command", "cmd", "url", "httpUrl", "serverUrl"}, func(key string) bool { return m.value.get(key) != nil })
	})
}

func inputsOf(root *node) []Input {
	var out []Input
	lists := []*node{root.get("inputs"), root.at("mcp", "inputs")}
	for _, l := range lists {
		if l == nil {
			continue
		}
		for _, item := range l.items {
			in := Input{ID: textOf(item.get("id")), Kind: textOf(item.get("type")), Question: textOf(item.get("description")), Default: textOf(item.get("default"))}
			in.Password = item.get("password") != nil && item.get("password").text == "true"
			if options := item.get("options"); options != nil {
				for _, o := range options.items {
					if value := o.get("value"); value != nil {
						o = value
					}
					in.Options = append(in.Options, textOf(o))
				}
			}
			if in.ID != "" {
				out = append(out, in)
			}
		}
	}
	return out
}

func textOf(n *node) string {
	if n == nil || n.kind != text {
		return ""
	}
	return n.text
}

// entries reads the entries of one file.
type entries struct {
	r       *Reading
	o       Options
	dialect dialect
	bundle  string             // the folder of the bundle that the file describes, or ""
	seen    map[[2]string]bool // scope and key
}

func (e *entries) section(s section) {
	members := s.value.members
	switch s.value.kind {
	case object:
	case list:
		members = nil
		for i, item := range s.value.items {
			inner := item
			if t := item.get("transport"); t != nil && t.kind == object && item.get("command") == nil && item.get("url") == nil {
				inner = &node{kind: object, pos: item.pos, members: append(slices.Clone(t.members), item.members...)}
			}
			key := textOf(item.get("name"))
			if key == "" {
				key = fmt.Sprintf("%s-%d", s.name, i+1)
			}
			members = append(members, member{key, item.pos, inner})
		}
	default:
		e.left(Left{Key: s.name, Pos: s.value.pos, Kind: "broken", Reason: "want an object with a key for each server, got " + s.value.kind.noun()})
		return
	}
	if e.seen == nil {
		e.seen = map[[2]string]bool{}
	}
	for _, m := range lastOfEach(members, member.name) {
		if e.seen[[2]string{s.scope, m.key}] {
			continue
		}
		e.seen[[2]string{s.scope, m.key}] = true
		e.entry(s, m)
	}
}

// lastOfEach keeps the last of each name, as the clients' parsers do.
func lastOfEach[T any](all []T, name func(T) string) []T {
	last := map[string]int{}
	for i, v := range all {
		last[name(v)] = i
	}
	var out []T
	for i, v := range all {
		if last[name(v)] == i {
			out = append(out, v)
		}
	}
	return out
}

func (e *entries) left(l Left) {
	l.File = e.r.File
	e.r.Left = append(e.r.Left, l)
}

func (e *entries) entry(s section, m member) {
	if s.name == "" && m.value.kind != object {
		return // beside a bare map there may be anything
	}
	x := &entry{o: e.o, key: m.key, inputs: e.r.Inputs}
	x.t = translator{dialect: e.dialect, bundle: e.bundle, folder: e.o.Folder, goos: e.o.GOOS, secret: x.secret}
	x.s = Server{Key: m.key, File: e.r.File, Pos: m.pos, Scope: s.scope, Client: e.r.Client}
	x.read(m.value)
	switch {
	case x.bad != nil:
		e.left(*x.bad)
	case isOwn(x.s.Endpoint, e.o.Executable):
		e.left(Left{Key: m.key, Pos: m.pos, Kind: "own", Reason: "it starts this gate itself"})
	default:
		x.s.Needs, x.s.Vars = x.t.needs, x.t.vars
		x.s.Preset, x.s.Why = propose(x.s)
		e.r.Servers = append(e.r.Servers, x.s)
	}
}
