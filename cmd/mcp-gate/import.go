package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/clients"
	"github.com/mcp-gate/mcp-gate/config"
	"github.com/mcp-gate/mcp-gate/internal/durable"
	"github.com/mcp-gate/mcp-gate/policy"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

const aboutImport = `Read the servers of another client's configuration: of a CLIENT such as cursor or
claude-desktop, wherever it keeps its files, or of one FILE. Without either, say
which clients have a file here.

Nothing is written but with --write, and then only into this gate's own
configuration, in place, after a preview and a question. The other file is never
touched. Importing twice changes nothing; an entry that is there already stays as
it is, but with --replace.

Each new server gets a preset, which says what of its results may leave:
workbench for one that was already in use, strict where its name suggests a
database, mail or people's records. --preset sets one for all of them; the line
"preset" in the entry changes it later.

Values are written as they stand in the other file, and not shown in the preview.
A variable stays a variable. What an editor asks for (${input:ID}) is asked for
once, or read from --answers, and kept encrypted in the home.`

type importOptions struct {
	as, folder, project, preset, answers string
	only                                 []string
	write, yes, replace                  bool
}

func (a *app) importCommand() *cobra.Command {
	var o importOptions
	c := &cobra.Command{
		Use: "import [CLIENT|FILE...]", Short: "Take over the servers of another client", Long: aboutImport,
		Example: "  mcp-gate import cursor\n  mcp-gate import --write --only github,files ~/.cursor/mcp.json",
		RunE:    func(_ *cobra.Command, args []string) error { return a.importServers(args, o) },
	}
	f := c.Flags()
	f.BoolVar(&o.write, "write", false, "write the servers into this gate's configuration, after a question")
	f.BoolVar(&o.yes, "yes", false, "do not ask before writing")
	f.BoolVar(&o.replace, "replace", false, "where an entry of the same name is there, take the other file's command or url")
	f.StringVar(&o.preset, "preset", "", "strict or workbench, for every server that is added")
	f.StringSliceVar(&o.only, "only", nil, "names of the servers to take, with commas between (default all)")
	f.StringVar(&o.folder, "folder", "", "the folder that ${workspaceFolder} stands for")
	f.StringVar(&o.project, "project", "", "the folder whose project files a CLIENT has (default the present one)")
	f.StringVar(&o.as, "as", "", "the client whose file a FILE is, where its name does not tell")
	f.StringVar(&o.answers, "answers", "", "a JSON object of answers to what an editor asks for, by input id; - is standard input")
	return c
}

// importing is one run of import.
type importing struct {
	a    *app
	o    importOptions
	home config.Home
	path string // of this gate's configuration
	text []byte // what is in it; nil where there is none

	readings []clients.Reading
	failed   []error           // files that could not be read, servers whose answers nobody could be asked for
	answers  map[string]string // by the name of the secret
	inputs   map[string]clients.Input
	plan     clients.Plan
	unset    map[string]string // servers that will be left out until something is set, by name
	next     []byte            // what would be in the configuration
}

func (a *app) importServers(args []string, o importOptions) error {
	if o.preset != "" {
		var p policy.Preset
		if err := p.UnmarshalText([]byte(o.preset)); err != nil {
			return usage(err)
		}
	}
	im := &importing{a: a, o: o, inputs: map[string]clients.Input{}, answers: map[string]string{}}
	if len(args) == 0 {
		return im.listClients()
	}
	for _, step := range []func() error{im.open, func() error { return im.read(args) }, im.narrow, im.readAnswers} {
		if err := step(); err != nil {
			return err
		}
	}
	if o.write {
		if err := im.confirm(); err != nil {
			return err
		}
	} else {
		if err := im.makePlan(nil); err != nil {
			return err
		}
		if err := im.show(false); err != nil {
			return err
		}
	}
	if len(im.failed) > 0 {
		return &exitError{exitUsage, errors.Join(im.failed...)}
	}
	return nil
}

// open reads this gate's own configuration. One that has faults is not written to.
func (im *importing) open() (err error) {
	if im.home, err = im.a.home(); err != nil {
		return err
	}
	if err := im.home.Check(); err != nil {
		return usage(err)
	}
	if im.path, err = im.home.ConfigFile(); err != nil {
		return usage(err)
	}
	if im.path == "" {
		im.path = im.home.Config()
		return nil
	}
	if im.text, err = os.ReadFile(im.path); err != nil {
		return fmt.Errorf("read this gate's configuration: %w", err)
	}
	if _, _, err := config.Parse(im.path, im.text, im.a.env); err != nil {
		return usage(err)
	}
	return nil
}

// read reads every file that the arguments name. A client's files that are not
// there are passed over as long as one is.
func (im *importing) read(args []string) error {
	for _, arg := range args {
		client, clientErr := clients.Find(arg)
		if clientErr == nil && !strings.ContainsAny(arg, `/\`) {
			if err := im.readClient(client); err != nil {
				return err
			}
			continue
		}
		if _, err := os.Stat(arg); err != nil {
			if errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(arg, `/\.`) {
				return usage(clientErr)
			}
			return usage(fmt.Errorf("import: %w", err))
		}
		var as *clients.Client
		if im.o.as != "" {
			named, err := clients.Find(im.o.as)
			if err != nil {
				return usage(err)
			}
			as = &named
		}
		im.readFile(arg, as)
	}
	return nil
}

// narrow leaves what --only names of what was read. It refuses a name that no file
// has, or whose entry cannot be taken over: it would be taken for one that was.
func (im *importing) narrow() error {
	if im.o.only == nil {
		return nil
	}
	if len(im.o.only) == 0 {
		return usage(errors.New("--only names no server: leave it out to take all"))
	}
	var names []string
	left := map[string]clients.Left{}
	for _, r := range im.readings {
		for _, s := range r.Servers {
			names = append(names, s.Key)
		}
		for _, l := range r.Left {
			left[l.Key] = l
		}
	}
	asked := map[string]bool{}
	for _, name := range im.o.only {
		name = strings.TrimSpace(name)
		meant := sameName(names, name)
		for _, key := range meant {
			asked[key] = true
		}
		broken := sameName(slices.Sorted(maps.Keys(left)), name)
		for _, key := range broken {
			asked[key] = true
		}
		switch {
		case len(meant) > 0 || len(im.failed) > 0:
		case len(broken) > 0:
			return usage(fmt.Errorf("--only: %q cannot be taken over: %s", name, printable(left[broken[0]].Error())))
		case len(names) == 0:
			return usage(fmt.Errorf("--only: there is no server %q to import: there is none", name))
		default:
			return usage(fmt.Errorf("--only: there is no server %q to import: there are %s", name, strings.Join(names, ", ")))
		}
	}
	for i := range im.readings {
		r := &im.readings[i]
		r.Servers = slices.DeleteFunc(r.Servers, func(s clients.Server) bool { return !asked[s.Key] })
		r.Left = slices.DeleteFunc(r.Left, func(l clients.Left) bool { return !asked[l.Key] })
	}
	im.readings = slices.DeleteFunc(im.readings, func(r clients.Reading) bool { return len(r.Servers)+len(r.Left) == 0 })
	return nil
}

// sameName are those of the keys that a name stands for: the key itself, else all
// that have its alias.
func sameName(keys []string, name string) []string {
	if slices.Contains(keys, name) {
		return []string{name}
	}
	var same []string
	for _, key := range keys {
		if catalog.Alias(key) == catalog.Alias(name) {
			same = append(same, key)
		}
	}
	return same
}

func (im *importing) readClient(c clients.Client) error {
	project := im.o.project
	if project == "" {
		var err error
		if project, err = os.Getwd(); err != nil {
			return err
		}
	}
	var looked []string
	found := false
	for _, f := range c.Files(im.a.env, runtime.GOOS, project) {
		looked = append(looked, f.Path)
		if _, err := os.Stat(f.Path); err == nil {
			found = true
			im.readFile(f.Path, &c)
		}
	}
	if !found {
		return fmt.Errorf("%s has no configuration here: looked for %s", c.Name, strings.Join(looked, ", "))
	}
	return nil
}

func (im *importing) readFile(path string, as *clients.Client) {
	data, err := readFileBounded(path)
	if err != nil {
		im.failed = append(im.failed, fmt.Errorf("import: %w", err))
		return
	}
	full, err := filepath.Abs(path)
	if err != nil {
		full = path
	}
	if own, err := filepath.Abs(im.path); err == nil && own == full {
		im.failed = append(im.failed, fmt.Errorf("import: %s is this gate's own configuration", path))
		return
	}
	self, err := os.Executable()
	if err != nil {
		self = ""
	}
	folder := im.o.folder
	if folder != "" {
		if folder, err = filepath.Abs(folder); err != nil {
			folder = im.o.folder
		}
	}
	o := clients.Options{Client: as, Folder: folder, Executable: self, GOOS: runtime.GOOS, Secret: func(id string) string { return secretID(full, id) }}
	r, err := clients.Read(full, data, o)
	if err != nil {
		im.failed = append(im.failed, err)
		return
	}
	for _, in := range r.Inputs {
		im.inputs[secretID(full, in.ID)] = in
	}
	im.readings = append(im.readings, r)
}

// secretID names the answer to a file's input: readable, and of that file alone,
// since another file may mean something else by the same word.
func secretID(file, input string) string {
	sum := sha256.Sum256([]byte(filepath.ToSlash(file) + "\x00" + input))
	plain := strings.Map(func(r rune) rune {
		if r < 0x80 && (r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_') {
			return r
		}
		return '-'
	}, strings.ToLower(input))
	return strings.TrimLeft(plain[:min(len(plain), 60)]+"-"+hex.EncodeToString(sum[:4]), "-")
}

func readFileBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read from
	return io.ReadAll(io.LimitReader(f, clients.MaxFileBytes+1))
}

// readAnswers reads --answers: by the id of an input, for every file that has one.
func (im *importing) readAnswers() error {
	if im.o.answers == "" {
		return nil
	}
	var data []byte
	var err error
	if im.o.answers == "-" {
		data, err = readAll(im.a.in())
	} else {
		data, err = readFileBounded(im.o.answers)
	}
	if err != nil {
		return fmt.Errorf("read the answers: %w", err)
	}
	var given map[string]string
	if err := json.Unmarshal(bytes.TrimPrefix(data, []byte("\ufeff")), &given); err != nil {
		return usage(errors.New("read the answers: want a JSON object of texts by input id"))
	}
	for name, in := range im.inputs {
		value, ok := given[in.ID]
		if !ok {
			continue
		}
		if err := allowed(in, value); err != nil {
			return usage(err)
		}
		im.answers[name] = value
	}
	return nil
}

func allowed(in clients.Input, value string) error {
	if in.Options != nil && !slices.Contains(in.Options, value) {
		return fmt.Errorf("the answer to %q must be one of %s", in.ID, strings.Join(in.Options, ", "))
	}
	if strings.ContainsAny(value, "\x00\r\n") {
		return fmt.Errorf("the answer to %q has a line break in it", in.ID)
	}
	return nil
}

// makePlan compares what was read with the configuration and proves what would be
// written: every server that was there is what it was, and the new ones can be
// read. A server that could never work is left out.
func (im *importing) makePlan(missing func(clients.Server) string) error {
	target, err := clients.OpenTarget(im.path, im.text)
	if err != nil {
		return usage(err)
	}
	var servers []clients.Server
	for _, r := range im.readings {
		servers = append(servers, r.Servers...)
	}
	hopeless := map[string]string{}
	for range 2 { // the second time without what the first one showed to be hopeless
		im.plan = target.Plan(servers, clients.PlanOptions{
			Replace: im.o.replace, Preset: im.o.preset,
			Missing: func(s clients.Server) string {
				if why := hopeless[s.File+"\x00"+s.Scope+"\x00"+s.Key]; why != "" || missing == nil {
					return why
				}
				return missing(s)
			},
		})
		if im.next, err = target.Apply(im.plan); err != nil {
			return usage(err)
		}
		bad, err := im.prove()
		if err != nil {
			return err
		}
		if len(bad) == 0 {
			return nil
		}
		for _, item := range im.plan.Items {
			if why := bad[catalog.Alias(item.Name)]; why != "" && item.Action != clients.Keep {
				hopeless[item.Server.File+"\x00"+item.Server.Scope+"\x00"+item.Server.Key] = why
			}
		}
	}
	return fmt.Errorf("import: what would be written into %s cannot be read back", im.path)
}

// prove reads what would be written. It returns the new servers that no value of
// a variable could make work, and sets those that wait for one.
func (im *importing) prove() (bad map[string]string, err error) {
	before, _, err := config.Parse(im.path, im.text, im.a.env)
	if err != nil {
		return nil, usage(err)
	}
	after, _, err := config.Parse(im.path, im.next, im.envWithAnswers)
	if err != nil {
		return nil, fmt.Errorf("import: what would be written into %s is no configuration: %w", im.path, err)
	}
	replaced := map[string]bool{}
	for _, item := range im.plan.Items {
		replaced[catalog.Alias(item.Name)] = item.Action == clients.Replace
	}
	for _, s := range before.Servers {
		now, ok := after.Server(s.Alias)
		if !replaced[s.Alias] && (!ok || now.ID() != s.ID() || now.Preset != s.Preset) {
			return nil, fmt.Errorf("import: server %s of %s would be changed: add the servers by hand", s.Alias, im.path)
		}
	}
	bad, im.unset = map[string]string{}, map[string]string{}
	known := refusals(before)
	for alias, why := range refusals(after) {
		if known[alias] == "" {
			im.unset[alias] = why
		}
	}
	// With some value for every variable a server that is still refused is refused
	// for what it is. Two values are tried, since one may be no host and the
	// other no part of an address.
	var whole [2]map[string]string
	for i, value := range []string{"x", "http://x"} {
		c, _, err := config.Parse(im.path, im.next, func(string) (string, bool) { return value, true })
		if err != nil {
			return nil, err
		}
		whole[i] = refusals(c)
	}
	for alias, why := range im.unset {
		if whole[0][alias] != "" && whole[1][alias] != "" {
			bad[alias] = why
		}
	}
	return bad, nil
}

func refusals(c config.Config) map[string]string {
	out := map[string]string{}
	for _, r := range c.Refused {
		out[r.Alias] = r.Errors[0].Text
	}
	return out
}

// envWithAnswers knows the answers that are not kept yet.
func (im *importing) envWithAnswers(name string) (string, bool) {
	if id, ok := strings.CutPrefix(name, config.SecretPrefix); ok {
		if value, ok := im.answers[id]; ok {
			return value, true
		}
	}
	return im.a.env(name)
}

// confirm shows the plan, asks what has to be asked, and writes.
func (im *importing) confirm() error {
	tty := isTerminal(im.a.stdin)
	if !im.o.yes && !tty {
		return usage(errors.New("nobody can be asked here: add --yes to write without a question"))
	}
	in := bufio.NewReader(im.a.in())
	person := tty && im.o.answers != "-"
	if err := im.ask(in, person); err != nil {
		return err
	}
	if err := im.makePlan(im.unanswered); err != nil {
		return err
	}
	for _, item := range im.plan.Items {
		if why := im.unanswered(item.Server); why != "" && item.Action == clients.Skip && !person { // a person left it out
			im.failed = append(im.failed, fmt.Errorf("import: %s is left out: %s", item.Name, why))
		}
	}
	if !im.plan.Changes() {
		return im.show(false)
	}
	if !im.o.yes {
		if err := im.show(false); err != nil {
			return err
		}
		fmt.Fprintf(im.a.stderr, "\nWrite this into %s? Type yes to write: ", im.path)
		line, err := in.ReadString('\n')
		if err != nil || strings.TrimSpace(line) != "yes" {
			return &exitError{exitFailed, errors.New("nothing was written")}
		}
	}
	if err := im.write(); err != nil {
		return err
	}
	if im.a.json || im.o.yes {
		return im.show(true)
	}
	_, err := fmt.Fprintf(im.a.stdout, "Written into %s.\nNext: mcp-gate tools ls\n", im.path)
	return err
}

// ask asks for what the servers that are taken need and nobody answered yet. What
// an editor has a default for is answered by that where nobody can be asked.
func (im *importing) ask(in *bufio.Reader, person bool) error {
	if err := im.makePlan(nil); err != nil {
		return err
	}
	held := im.a.vault(im.home)
	for _, item := range im.plan.Items {
		if !item.Action.Writes() {
			continue
		}
		for _, id := range item.Server.Needs {
			name := secretID(item.Server.File, id)
			if _, ok := im.answers[name]; ok || !held.Stamp(secretName(name)).IsZero() {
				continue
			}
			question := im.inputs[name]
			if !person {
				if question.Default != "" && !question.Password {
					im.answers[name] = question.Default
				}
				continue
			}
			value, err := im.askOne(in, item.Name, question)
			if err != nil {
				return err
			}
			if value != "" {
				im.answers[name] = value
			}
		}
	}
	return nil
}

func (im *importing) askOne(in *bufio.Reader, server string, q clients.Input) (string, error) {
	what := q.ID
	if q.Question != "" {
		what = q.Question + " (" + q.ID + ")"
	}
	if q.Options != nil {
		what += ", one of " + strings.Join(q.Options, ", ")
	}
	fmt.Fprintf(im.a.stderr, "%s asks for: %s. Nothing leaves the server out: ", server, printable(what))
	var value string
	if f, ok := im.a.stdin.(*os.File); ok && (q.Password || q.Options == nil) {
		secret, err := term.ReadPassword(int(f.Fd()))
		fmt.Fprintln(im.a.stderr)
		if err != nil {
			return "", fmt.Errorf("read the answer: %w", err)
		}
		value = string(secret)
	} else {
		line, err := in.ReadString('\n')
		if err != nil {
			return "", fmt.Errorf("read the answer: %w", err)
		}
		value = strings.TrimRight(line, "\r\n")
	}
	if value == "" {
		return q.Default, nil
	}
	return value, allowed(q, value)
}

// printable drops what would steer a terminal, or turn the order of what it shows.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Cf) {
			return -1
		}
		return r
	}, s)
}

// unanswered leaves out a server that needs an answer which nobody gave.
func (im *importing) unanswered(s clients.Server) string {
	held := im.a.vault(im.home)
	for _, id := range s.Needs {
		name := secretID(s.File, id)
		if _, ok := im.answers[name]; !ok && held.Stamp(secretName(name)).IsZero() {
			return fmt.Sprintf("it needs ${input:%s}: answer it at a terminal, or with --answers", id)
		}
	}
	return ""
}

// write keeps the answers, then replaces the configuration at once, unless it was
// changed meanwhile.
func (im *importing) write() error {
	if err := im.home.Ensure(); err != nil {
		return err
	}
	held := im.a.vault(im.home)
	for _, item := range im.plan.Items {
		if !item.Action.Writes() {
			continue
		}
		for _, id := range item.Server.Needs {
			name := secretID(item.Server.File, id)
			if value, ok := im.answers[name]; ok {
				if err := held.Put(secretName(name), []byte(value)); err != nil {
					return err
				}
			}
		}
	}
	return replaceFile(im.path, im.text, im.next)
}

// replaceFile writes a file at once or not at all. It keeps its mode, and the
// file that a link leads to; one that no longer has the text it had is left.
func replaceFile(path string, was, next []byte) error {
	mode := fs.FileMode(0o600)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	now, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && was == nil:
	case err != nil:
		return fmt.Errorf("write %s: %w", path, err)
	case was == nil || !bytes.Equal(now, was):
		return fmt.Errorf("write %s: it was changed meanwhile, and nothing was written", path)
	default:
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		mode = info.Mode().Perm()
	}
	if err := errors.Join(durable.Write(path, next, mode), durable.SyncDir(filepath.Dir(path))); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// importDoc is what import --json prints.
type importDoc struct {
	Schema  string         `json:"schema"`
	Config  string         `json:"config"`
	Written bool           `json:"written"`
	Servers []importedDoc  `json:"servers"`
	Left    []clients.Left `json:"left_out"`
	Errors  []string       `json:"errors"`
}

// importedDoc is one server of a preview. Values are there only where they are
// references, see package clients.
type importedDoc struct {
	Name   string         `json:"name"`
	Action clients.Action `json:"action"`
	Reason string         `json:"reason,omitempty"`
	clients.Server
	Transport string            `json:"transport"`
	Command   string            `json:"command,omitempty"`
	Args      []string          `json:"args,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Cwd       string            `json:"cwd,omitempty"`
	URL       string            `json:"url,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
	Timeout   string            `json:"timeout,omitempty"`
	Startup   string            `json:"start_timeout,omitempty"`
	Waits     string            `json:"waits_for,omitempty"` // what has to be set before it starts
}

func (im *importing) docOf(item clients.Item) importedDoc {
	s := item.Server
	shown := func(pairs []clients.Pair) map[string]string {
		out := map[string]string{}
		for _, p := range pairs {
			out[p.Name] = clients.ShownValue(p.Value)
		}
		return out
	}
	text := func(d time.Duration) string {
		if d == 0 {
			return ""
		}
		return d.String()
	}
	doc := importedDoc{
		Name: item.Name, Action: item.Action, Reason: item.Reason, Server: s, Transport: "stdio",
		Args: clients.ShownArgs(s.Args), Env: shown(s.Env), Cwd: s.Cwd, Headers: shown(s.Headers), Timeout: text(s.Timeout), Startup: text(s.Startup),
	}
	if s.Command != "" {
		doc.Command = clients.ShownArgs([]string{s.Command})[0]
	}
	if s.URL != "" {
		doc.Transport, doc.URL = "http", clients.ShownURL(s.URL)
		if s.Type != "" {
			doc.Transport = s.Type
		}
	}
	if item.Action == clients.Add || item.Action == clients.Replace {
		doc.Waits = im.unset[catalog.Alias(item.Name)]
		if len(s.Needs) > 0 && strings.Contains(doc.Waits, "secret ") {
			doc.Waits = "it wants answers to " + strings.Join(s.Needs, ", ")
		}
	}
	return doc
}

func (im *importing) show(written bool) error {
	doc := importDoc{Schema: "mcp-gate/import/v1", Config: im.path, Written: written, Servers: []importedDoc{}, Left: []clients.Left{}, Errors: []string{}}
	for _, item := range im.plan.Items {
		doc.Servers = append(doc.Servers, im.docOf(item))
	}
	for _, r := range im.readings {
		doc.Left = append(doc.Left, r.Left...)
	}
	for _, err := range im.failed {
		doc.Errors = append(doc.Errors, err.Error())
	}
	if im.a.json {
		return im.a.print(doc)
	}
	return im.showText(doc)
}

func (im *importing) showText(doc importDoc) error {
	var b strings.Builder
	for _, r := range im.readings {
		fmt.Fprintf(&b, "%s\n", r.File)
		for _, s := range doc.Servers {
			if s.File == r.File {
				showServer(&b, s)
			}
		}
		for _, l := range r.Left {
			fmt.Fprintf(&b, "  ! %s  left out: %s (%d:%d)\n", printable(l.Key), printable(l.Reason), l.Pos.Line, l.Pos.Col)
		}
		if len(r.Servers)+len(r.Left) == 0 {
			b.WriteString("  no servers\n")
		}
	}
	switch {
	case doc.Written:
		fmt.Fprintf(&b, "Written into %s.\nNext: mcp-gate tools ls\n", doc.Config)
	case !im.plan.Changes():
		fmt.Fprintf(&b, "Nothing to write into %s.\n", doc.Config)
	case !im.o.write:
		fmt.Fprintf(&b, "Nothing was written. To write it into %s: the same with --write.\nAnother preset: --preset strict, or the line \"preset\" of an entry.\n", doc.Config)
	}
	_, err := io.WriteString(im.a.stdout, b.String())
	return err
}

// showServer prints one server: what starts it, where its results may go, and what
// of the other file is not used.
func showServer(b *strings.Builder, s importedDoc) {
	mark := map[clients.Action]string{clients.Add: "+", clients.Replace: "~", clients.Same: "=", clients.Keep: "=", clients.Skip: "!"}[s.Action]
	fmt.Fprintf(b, "  %s %s", mark, printable(s.Name))
	if s.Scope != "" {
		fmt.Fprintf(b, "  (project %s)", printable(s.Scope))
	}
	if !s.Action.Writes() {
		fmt.Fprintf(b, "  %s\n", printable(s.Reason))
		return
	}
	line := strings.Join(append([]string{s.Command}, s.Args...), " ")
	if s.URL != "" {
		line = s.URL
	}
	fmt.Fprintf(b, "  %s", printable(line))
	for _, set := range []struct {
		word string
		of   map[string]string
	}{{"env", s.Env}, {"headers", s.Headers}} {
		for i, name := range sortedKeys(set.of) {
			if i == 0 {
				fmt.Fprintf(b, "  %s", set.word)
			}
			fmt.Fprintf(b, " %s=%s", printable(name), printable(set.of[name]))
		}
	}
	if s.Disabled {
		b.WriteString("  switched off")
	}
	fmt.Fprintf(b, "\n      preset %s: %s\n", s.Preset, s.Why)
	for _, note := range append(slices.Clone(s.Notes), s.Reason) {
		if note != "" {
			fmt.Fprintf(b, "      %s\n", printable(note))
		}
	}
	if s.Waits != "" {
		fmt.Fprintf(b, "      it will not start yet: %s\n", printable(s.Waits))
	}
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// listClients says which clients have a file here. No file is opened.
func (im *importing) listClients() error {
	project, err := os.Getwd()
	if err != nil {
		return err
	}
	type clientDoc struct {
		ID      string   `json:"id"`
		Name    string   `json:"name"`
		Checked string   `json:"checked"`
		Files   []string `json:"files"`
	}
	docs := []clientDoc{}
	for _, c := range clients.All() {
		doc := clientDoc{c.ID, c.Name, c.Checked, []string{}}
		for _, f := range c.Files(im.a.env, runtime.GOOS, project) {
			if _, err := os.Stat(f.Path); err == nil {
				doc.Files = append(doc.Files, f.Path)
			}
		}
		docs = append(docs, doc)
	}
	if im.a.json {
		return im.a.print(map[string]any{"schema": "mcp-gate/clients/v1", "clients": docs})
	}
	w := tabwriter.NewWriter(im.a.stdout, 0, 0, 2, ' ', 0)
	for _, d := range docs {
		where := "-"
		if len(d.Files) > 0 {
			where = strings.Join(d.Files, ", ")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", d.ID, d.Name, where)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if slices.ContainsFunc(docs, func(d clientDoc) bool { return len(d.Files) > 0 }) {
		_, err = fmt.Fprintln(im.a.stdout, "Next: mcp-gate import CLIENT shows what would be taken over.")
	} else {
		_, err = fmt.Fprintln(im.a.stdout, "None of them has a file here: mcp-gate import FILE reads one wherever it is.")
	}
	return err
}
