package clients

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mcp-gate/mcp-gate/catalog"
)

// A Target is this product's own configuration file, as it is now.
type Target struct {
	name string
	text []byte // as it is in the file
	root *node
	own  map[string]existing // by alias
}

type existing struct {
	section, key string
	server       Server
	value        *node
}

// OpenTarget reads this product's own file from its text; an empty text is a file
// that is not there yet. A file that cannot be read is a *[SyntaxError], and then
// nothing may be written to it.
func OpenTarget(name string, data []byte) (*Target, error) {
	root, err := parse(name, data)
	if err != nil {
		return nil, err
	}
	if root.kind != object {
		return nil, &SyntaxError{name, root.pos, "want an object, got " + root.kind.noun()}
	}
	t := &Target{name: name, text: data, root: root, own: map[string]existing{}}
	for _, sec := range []string{"mcpServers", "servers"} {
		if s := root.get(sec); s != nil {
			for _, m := range s.members {
				t.own[catalog.Alias(m.key)] = existing{sec, m.key, asWritten(m), m.value}
			}
		}
	}
	return t, nil
}

// asWritten reads an entry of this product's own: nothing in it is translated.
func asWritten(m member) Server {
	x := &entry{key: m.key, t: translator{verbatim: true}}
	x.read(m.value)
	return x.s
}

// A Plan is what an import would do, in the order of the files.
type Plan struct {
	Items []Item
}

// An Item is one server of a plan.
type Item struct {
	Name   string // its key in this product's file
	Server Server
	Action Action
	Reason string // where the action is not Add
	preset string // the one that the owner's file will have
}

// Action says what becomes of a server. The zero Action is none.
type Action string

// The actions of a plan.
const (
	Add     Action = "add"     // a new entry
	Replace Action = "replace" // an entry of this name gets the endpoint of the source
	Same    Action = "same"    // it is there already, and nothing changes
	Keep    Action = "keep"    // an entry of this name says something else, and stays
	Skip    Action = "skip"    // something it needs is missing, or it has no name that could be used
)

// Writes reports whether the file is changed by it.
func (a Action) Writes() bool { return a == Add || a == Replace }

// PlanOptions say how a plan is made.
type PlanOptions struct {
	Replace bool   // an entry of the same name gets the endpoint of the source
	Preset  string // for every server, instead of what is proposed
	Missing func(Server) string
}

// Plan compares servers with the file. A server that is there already under any
// name is left alone, so that importing twice changes nothing. Where two of the
// servers have one name and are not the same, the second is named for its client
// too.
func (t *Target) Plan(servers []Server, o PlanOptions) Plan {
	taken := map[string]Server{}
	for alias, e := range t.own {
		taken[alias] = e.server
	}
	var p Plan
	for _, s := range servers {
		item := t.item(s, o, taken)
		if item.Action.Writes() {
			taken[catalog.Alias(item.Name)] = s
		}
		p.Items = append(p.Items, item)
	}
	return p
}

func (t *Target) item(s Server, o PlanOptions, taken map[string]Server) Item {
	item := Item{Name: s.Key, Server: s, Action: Add, preset: cmp.Or(o.Preset, s.Preset)}
	if o.Preset != "" && o.Preset != s.Preset {
		item.Server.Preset, item.Server.Why = o.Preset, "you said so"
	}
	skip := func(action Action, reason string) Item {
		item.Action, item.Reason = action, reason
		return item
	}
	alias := catalog.Alias(s.Key)
	if strings.Trim(alias, "-") == "" || len(s.Key) > 128 {
		return skip(Skip, "its name has no letter a-z and no digit, or is longer than 128 bytes: rename it in the other file")
	}
	if own, ok := t.own[alias]; ok && own.server.Endpoint.equal(s.Endpoint) {
		item.Name = own.key
		return skip(Same, "it is there already")
	}
	for _, other := range slices.Sorted(maps.Keys(taken)) {
		// Two names of one server in one file are its owner's wish.
		if taken[other].Endpoint.equal(s.Endpoint) && other != alias && taken[other].File != s.File {
			return skip(Same, fmt.Sprintf("it is there already, as %s", other))
		}
	}
	if o.Missing != nil {
		if why := o.Missing(s); why != "" {
			return skip(Skip, why)
		}
	}
	first, used := taken[alias]
	own, isOwn := t.own[alias]
	switch {
	case !used:
	case isOwn && first.File == "" && o.Replace:
		item.Name = own.key
		return skip(Replace, "its endpoint is taken from the other file, your own settings of it stay")
	case isOwn && first.File == "":
		return skip(Keep, "your file has another server of that name: --replace takes the other file's")
	case first.Endpoint.equal(s.Endpoint):
		return skip(Same, fmt.Sprintf("it is the same as in %s", first.File))
	default:
		item.Name = freeName(s, taken)
	}
	return item
}

// freeName names a server whose own name is taken, for its client or a number.
func freeName(s Server, taken map[string]Server) string {
	for i := 1; ; i++ {
		suffix := cmp.Or(s.Client, "2")
		if i > 1 {
			suffix = fmt.Sprint(i)
		}
		name := s.Key + "-" + suffix
		if _, used := taken[catalog.Alias(name)]; !used {
			return name
		}
	}
}

// Changes reports whether there is anything to write.
func (p Plan) Changes() bool {
	return slices.ContainsFunc(p.Items, func(i Item) bool { return i.Action.Writes() })
}

// equal compares what starts or reaches a server; the order of variables and
// headers, and the case of a header's name, do not count.
func (e Endpoint) equal(o Endpoint) bool {
	return e.Command == o.Command && slices.Equal(e.Args, o.Args) && e.Cwd == o.Cwd && e.URL == o.URL && e.Type == o.Type &&
		samePairs(e.Env, o.Env, false) && samePairs(e.Headers, o.Headers, true)
}

func samePairs(a, b []Pair, fold bool) bool {
	values := func(pairs []Pair) map[string]string {
		m := map[string]string{}
		for _, p := range pairs {
			name := p.Name
			if fold {
				name = strings.ToLower(name)
			}
			m[name] = p.Value
		}
		return m
	}
	return maps.Equal(values(a), values(b))
}

// timeoutText is a duration as this product's own file has it.
func timeoutText(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return d.String()
}
