// Package config reads what the owner of a gate wrote down: the configuration
// file, and the folder (the [Home]) that it lives in.
//
// A file is JSON with comments and trailing commas, or YAML. Either becomes one
// tree in which every key and value knows its line and column, and that tree is
// decoded strictly: a key nobody knows, a word outside its set or a value of the
// wrong type is a fault with its place, and every fault of a file is reported,
// not only the first. Every key stands once, as a value of kind, in schema.go and
// (those of a server) in server.go; the decoder and the published JSON Schema
// ([JSONSchema]) are both made of these.
//
// A fault inside one server's entry costs that entry alone: it is listed in
// [Config.Refused] and the others work. Any other fault costs the file.
//
// The package starts nothing, decides nothing and reads no environment of its
// own: variables arrive as a function, and files are only read. It does not edit
// other programs' files (package clients).
//
// To start:
//
//	home, err := config.FindHome(flagHome, env)
//	...
//	c, notes, err := home.Load(env)
//	for _, s := range c.Servers { ... s.Launch.Command ... }
package config

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/policy"
	"github.com/mcp-gate/mcp-gate/prefix"
)

// A Config is what one file says, with every default filled in. It is a plain
// value: nothing in it refers to the file or changes later.
type Config struct {
	File         string // as it was given; empty where there is none
	Preset       policy.Preset
	Servers      []Server  // sorted by alias; only those that can be started
	Refused      []Refused // entries that have faults, sorted by alias
	Disabled     []Refused // entries that are switched off, sorted by alias; Errors is empty
	Policy       Policy
	Authority    engagement.Authority
	GateFallback engagement.GateFallback // zero where the owner set none
	Slice        Slice
	Exposure     Exposure
	Accept       Accept
	Profiles     []Profile // sorted by name
	Approval     Approval
	Audit        Audit
	Bars         engagement.Bars
	Taint        policy.TaintMode
	Secrets      Secrets
	Artifacts    Artifacts
	Clients      []Client // sorted by name
	Roots        []string // as written
	Prefix       Prefix
	Log          Log
}

// A Refused is a server entry that is not used.
type Refused struct {
	Key, Alias string
	Section    Section
	Pos        Pos
	Errors     ErrorList // in the order of the file, at least one in Config.Refused
}

// Policy is the owner's policy for the whole gate.
type Policy struct {
	policy.Policy // Egress is the gate's own list, else its preset's
	OnEgress      policy.OnEgress
	Spend         engagement.Spend
	Records       []policy.Record // the rules, in the order of the file
	Rules         *policy.Rules   // the same, compiled; nil where there are none
}

// A Profile is a named way to start a session.
type Profile struct {
	Name      string
	Pos       Pos
	Reading   *engagement.Reading   // nil where not said; what it leaves out is neutral
	Authority *engagement.Authority // nil where not said; what it leaves out is the gate's
	Exposure  Exposure              // the gate's where not said
	Slice     Slice                 // the gate's where not said
	Servers   []string              // aliases, sorted; nil is all
}

// Approval is how a person is asked.
type Approval struct {
	LeastLevel [1 + int(engagement.Destructive)]policy.Level // by class; zero where the owner set none
	Expires    time.Duration                                 // life of a ticket
	Notify     Notify
	Alarm      int64 // asks in ten minutes above which no more cards are shown; 0 is no bound
}

// Least returns the proof that a decision about a call of this class needs.
func (a Approval) Least(class engagement.Permission) policy.Level {
	if int(class) < len(a.LeastLevel) && a.LeastLevel[class] != 0 {
		return a.LeastLevel[class]
	}
	return policy.LeastLevel(class)
}

// Notify is who is told that something waits.
type Notify struct {
	Desktop bool
	Webhook string
}

// Audit is what the audit log keeps beyond facts.
type Audit struct{ KeepArguments bool }

// Artifacts bounds what is kept of large results.
type Artifacts struct {
	Keep        time.Duration // 0 where not said
	MaxBytes    int64         // of all of them; 0 where not said
	InlineBytes int64         // of the largest result that is not kept as one; 0 where not said
}

// A Client is what one client program bears.
type Client struct {
	Name            string
	Pos             Pos
	Wait            time.Duration // that a call may be held; 0 where not said
	NameLength      int64         // of a tool's name; 0 where not said
	DescriptionSize int64         // bytes of a tool's description; 0 where not said
	ResultSize      int64         // bytes of one result; 0 where not said
	Schemas         Schemas
}

// Prefix shapes the bytes that every request begins with.
type Prefix struct {
	Budget int64       // estimated tokens of the catalogue; 0 where not said
	Form   prefix.Form // in which the prefix command prints it
}

// Log is what is logged, on standard error.
type Log struct {
	Level  LogLevel
	Format LogFormat
}

// Env looks up a variable of the gate's own environment; os.LookupEnv is one.
type Env func(name string) (value string, ok bool)

// Default returns the configuration of an owner who wrote nothing: no servers
// and the cautious side of every choice.
func Default() Config {
	return Config{
		Preset:    policy.PresetStrict,
		Policy:    Policy{Policy: policy.Default(), OnEgress: policy.EgressBlock},
		Authority: engagement.DefaultAuthority(),
		Slice:     SliceAdvise,
		Exposure:  ExposureMeta,
		Accept:    AcceptFirstSight,
		Approval:  Approval{Expires: 24 * time.Hour},
		Bars:      engagement.DefaultBars(),
		Taint:     policy.TaintOff,
		Secrets:   SecretsOff,
		Prefix:    Prefix{Form: prefix.Plain},
		Log:       Log{Level: LogInfo, Format: LogAuto},
	}
}

// Load reads a configuration file; its extension says whether it is YAML. See
// [Parse] for what it returns. Nothing is checked about who may write the file:
// [Home.Load] does that.
func Load(path string, env Env) (Config, []Note, error) {
	f, err := os.Open(path)
	if err != nil {
		return Config{}, nil, fmt.Errorf("read configuration: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read from
	data, err := readBounded(f)
	if err != nil {
		return Config{}, nil, fmt.Errorf("read configuration %s: %w", path, err)
	}
	return Parse(path, data, env)
}

// Parse reads a configuration from its bytes. The name says the language and
// stands in faults and notes. Variables are looked up with env; nil knows none.
//
// The error is nil or an [ErrorList]. It is nil as long as all faults are inside
// server entries: those are in [Config.Refused]. Otherwise it holds every fault
// of the file, and the Config must not be used. Notes come in either case.
func Parse(name string, data []byte, env Env) (Config, []Note, error) {
	if env == nil {
		env = func(string) (string, bool) { return "", false }
	}
	root, bad := parseTree(name, data)
	if bad != nil {
		return Config{}, nil, ErrorList{{File: name, Pos: bad.pos, Text: bad.msg}}
	}
	d := &decoder{file: name}
	var f file
	fileShape.decode(d, root, &f)
	c := f.config(d, env)
	slices.SortStableFunc(d.notes, func(a, b Note) int { return byPlace(a.Pos, b.Pos) })
	if d.costsIt {
		return Config{}, d.notes, d.all()
	}
	return c, d.notes, nil
}

// all returns every fault in the order of the file, and a count of those that
// were too many.
func (d *decoder) all() ErrorList {
	slices.SortStableFunc(d.errs, func(a, b *Error) int { return byPlace(a.Pos, b.Pos) })
	if more := d.faults - len(d.errs); more > 0 {
		d.errs = append(d.errs, &Error{File: d.file, Text: fmt.Sprintf("and %d faults more", more)})
	}
	return d.errs
}

// Server returns the server of that alias, if there is one that can be started.
func (c Config) Server(alias string) (Server, bool) {
	i, ok := slices.BinarySearchFunc(c.Servers, alias, func(s Server, a string) int { return strings.Compare(s.Alias, a) })
	if !ok {
		return Server{}, false
	}
	return c.Servers[i], true
}

// Profile returns the profile of that name.
func (c Config) Profile(name string) (Profile, bool) {
	for _, p := range c.Profiles {
		if p.Name == name {
			return p, true
		}
	}
	return Profile{}, false
}
