package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/internal/sample"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

func (a *app) tryCommand() *cobra.Command {
	var yes, keep bool
	c := &cobra.Command{
		Use:     "try",
		Example: "  mcp-gate try --yes",
		Short:   "See the gate work: a real gate, three real servers, nothing to configure",
		Long: `Start a real gate over stdio in front of three real MCP servers that ship in this
program (files, issues, mail; with real state in a temporary folder), play a
client, and show what happens: the size of the toolbox, a search, a definition, a
read, a write, a call that cannot be undone and asks you first, one that is
refused, and what the audit log has of it.

Its configuration lowers the proof that a call which cannot be undone needs
(approval.least_level), so that an answer in this terminal is enough. The
default asks for more.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return (&demo{a: a, yes: yes, keep: keep}).run(c.Context())
		},
	}
	c.Flags().BoolVar(&yes, "yes", false, "answer the question with yes by itself, and say so")
	c.Flags().BoolVar(&keep, "keep", false, "keep the temporary folder, to look around in it")
	return c
}

// demo is one run of try.
type demo struct {
	a         *app
	yes, keep bool

	dir    string
	client *tryClient
	steps  []tryStep
	asked  []tryQuestion
}

// tryStep is one thing that was shown. OK is whether it did what it says.
type tryStep struct {
	Name   string          `json:"name"`
	Says   string          `json:"says"`
	Sent   json.RawMessage `json:"sent,omitempty"`
	Got    string          `json:"got"`
	OK     bool            `json:"ok"`
	Millis float64         `json:"ms"`
}

// tryQuestion is what a person was asked, and who answered.
type tryQuestion struct {
	Message  string `json:"message"`
	Decision string `json:"decision"`
	By       string `json:"by"` // person, or --yes
}

func (d *demo) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute) // most of it is the person's
	defer cancel()
	if d.dir, err = os.MkdirTemp("", "mcp-gate-try-"); err != nil {
		return err
	}
	if !d.keep {
		defer func() { err = errors.Join(err, os.RemoveAll(d.dir)) }()
	}
	if err := d.start(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context) (tryStep, error){
		d.toolbox, d.find, d.load, d.read, d.write, d.destroy, d.refused, d.audited,
	} {
		began := time.Now()
		s, err := step(ctx)
		if err != nil {
			return errors.Join(fmt.Errorf("try: %w", err), d.client.close(), d.client.stderrError())
		}
		s.Millis = float64(time.Since(began).Microseconds()) / 1000
		d.steps = append(d.steps, s)
		d.show(s)
	}
	if err := d.client.close(); err != nil {
		return err
	}
	return d.conclude()
}

// start writes the demonstration's configuration and starts the gate on it.
func (d *demo) start(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	servers := map[string]any{}
	for _, name := range sample.Names() {
		preset := "workbench"
		if name == "mail" {
			preset = "strict"
		}
		servers[name] = map[string]any{"command": self, "args": []string{"sample", name, "--dir", filepath.Join(d.dir, name)}, "preset": preset}
	}
	raw, err := json.MarshalIndent(map[string]any{
		"servers":  servers,
		"approval": map[string]any{"least_level": map[string]string{"destructive": "L0"}},
	}, "", "  ")
	if err != nil {
		return err
	}
	home := filepath.Join(d.dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(home, "config.jsonc"), raw, 0o600); err != nil {
		return err
	}
	d.tell("A gate in front of %d servers, started as a client would start it.\n", len(servers))
	d.client, err = startClient(ctx, self, []string{"--home", home, "--log-level", "warn", "serve", "--client", "try"}, d.answer)
	return err
}

func (d *demo) tell(format string, args ...any) {
	if !d.a.json {
		fmt.Fprintf(d.a.stdout, format, args...)
	}
}

func (d *demo) show(s tryStep) {
	if d.a.json {
		return
	}
	mark := "ok"
	if !s.OK {
		mark = "FAILED"
	}
	fmt.Fprintf(d.a.stdout, "\n%d. %s  [%s, %.0f ms]\n", len(d.steps), s.Says, mark, s.Millis)
	if s.Sent != nil {
		fmt.Fprintf(d.a.stdout, "   > %s\n", s.Sent)
	}
	for line := range strings.Lines(clipped(s.Got, 14, 180)) {
		fmt.Fprintf(d.a.stdout, "   %s\n", strings.TrimRight(line, "\n"))
	}
}

// clipped is at most so many lines of so many characters, and says what is
// missing.
func clipped(text string, lines, width int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	var b strings.Builder
	for i, line := range all {
		if i == lines {
			fmt.Fprintf(&b, "... %d more lines", len(all)-lines)
			break
		}
		if r := []rune(line); len(r) > width {
			line = string(r[:width]) + fmt.Sprintf("... (%d characters)", len(r))
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

func (d *demo) conclude() error {
	ok := true
	for _, s := range d.steps {
		ok = ok && s.OK
	}
	if d.a.json {
		doc := map[string]any{"ok": ok, "steps": d.steps, "asked": d.asked, "note": "the configuration of try lowers approval.least_level for destructive calls to L0"}
		if d.keep {
			doc["folder"] = d.dir
		}
		if err := d.a.print(doc); err != nil {
			return err
		}
	}
	if !ok {
		return errors.New("try: a step did not do what it says")
	}
	d.tell("\nEvery step did what it says (try's own configuration lowered the proof that the\nquestion needed: approval.least_level). Next: write your servers into a configuration and have a client start \"mcp-gate serve\".\n")
	if d.keep {
		d.tell("Look around: mcp-gate --home %s audit tail\n", filepath.Join(d.dir, "home"))
	}
	return nil
}

func (d *demo) toolbox(ctx context.Context) (tryStep, error) {
	s := tryStep{Name: "toolbox", Says: "What the client's model has to read before it can start"}
	list, err := d.client.request(ctx, "tools/list", json.RawMessage("{}"))
	if err != nil {
		return s, err
	}
	tools, _, err := strictjson.Get(list, "tools")
	if err != nil {
		return s, err
	}
	direct, count, err := d.directTokens(ctx)
	if err != nil {
		return s, err
	}
	gated := catalog.EstimateTokens(tools)
	s.Got = fmt.Sprintf("all %d tools listed directly: about %d tokens\nthe gate's toolbox:           about %d tokens (estimates)", count, direct, gated)
	s.OK = count > 30 && gated > 0 && gated < direct/4
	return s, nil
}

// directTokens asks each server itself what it would list.
func (d *demo) directTokens(ctx context.Context) (tokens, count int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, 0, err
	}
	for _, name := range sample.Names() {
		c, err := startClient(ctx, self, []string{"sample", name, "--dir", filepath.Join(d.dir, "direct-"+name)}, nil)
		if err != nil {
			return 0, 0, err
		}
		list, err := c.request(ctx, "tools/list", json.RawMessage("{}"))
		if err = errors.Join(err, c.close()); err != nil {
			return 0, 0, err
		}
		var l struct{ Tools []json.RawMessage }
		if err := json.Unmarshal(list, &l); err != nil {
			return 0, 0, err
		}
		count += len(l.Tools)
		for _, t := range l.Tools {
			tokens += catalog.EstimateTokens(t)
		}
	}
	return tokens, count, nil
}

// tool calls one of the gate's tools and fills in a step.
func (d *demo) tool(ctx context.Context, s tryStep, name string, args string) (tryStep, toolResult, error) {
	s.Sent = json.RawMessage(fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, args))
	raw, err := d.client.request(ctx, "tools/call", s.Sent)
	if err != nil {
		return s, toolResult{}, err
	}
	var r toolResult
	if err := json.Unmarshal(raw, &r); err != nil {
		return s, r, fmt.Errorf("read the result of %s: %w", name, err)
	}
	s.Got = r.text()
	return s, r, nil
}

// toolResult is the part of a result that try looks at.
type toolResult struct {
	Content []struct{ Text string }
	IsError bool
}

func (r toolResult) text() string {
	var texts []string
	for _, c := range r.Content {
		texts = append(texts, c.Text)
	}
	return strings.Join(texts, "\n")
}

func (d *demo) find(ctx context.Context) (tryStep, error) {
	s := tryStep{Name: "find", Says: "Find tools by what they do"}
	s, r, err := d.tool(ctx, s, "find_tools", `{"query":"comment on an issue","limit":4}`)
	s.OK = !r.IsError && strings.Contains(s.Got, "issues/add_comment | reversible_write | runs")
	return s, err
}

func (d *demo) load(ctx context.Context) (tryStep, error) {
	s := tryStep{Name: "load", Says: "Load one definition, byte for byte the server's own"}
	s, r, err := d.tool(ctx, s, "load_tool", `{"names":["issues/add_comment"]}`)
	s.OK = !r.IsError && strings.Contains(s.Got, `"inputSchema"`)
	return s, err
}

func (d *demo) read(ctx context.Context) (tryStep, error) {
	s := tryStep{Name: "read", Says: "A read runs at once"}
	s, r, err := d.tool(ctx, s, "call_tool_read", `{"name":"issues/list_issues","arguments":{}}`)
	s.OK = !r.IsError && strings.Contains(s.Got, "#22")
	return s, err
}

func (d *demo) write(ctx context.Context) (tryStep, error) {
	s := tryStep{Name: "write", Says: "A write that takes nothing away runs too"}
	s, r, err := d.tool(ctx, s, "call_tool", `{"name":"issues/add_comment","arguments":{"number":22,"body":"Looked at through the gate."}}`)
	if err != nil || r.IsError {
		return s, err
	}
	written, err := d.stored("issues", "Looked at through the gate.")
	s.OK = written
	return s, err
}

// stored reports whether a sample server's own files hold a text.
func (d *demo) stored(server, text string) (bool, error) {
	found := false
	root := filepath.Join(d.dir, server)
	err := filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		found = found || bytes.Contains(raw, []byte(text))
		return err
	})
	return found, err
}

func (d *demo) destroy(ctx context.Context) (tryStep, error) {
	s := tryStep{Name: "ask", Says: "A call that cannot be undone waits for a person"}
	asked := len(d.asked)
	s, r, err := d.tool(ctx, s, "call_tool", `{"name":"issues/delete_issue","arguments":{"number":22}}`)
	if err != nil {
		return s, err
	}
	if len(d.asked) != asked+1 {
		return s, nil // nobody was asked: the step failed
	}
	still, err := d.stored("issues", "Looked at through the gate.") // the comment goes with its issue
	if d.asked[asked].Decision == "allow-once" {
		s.OK = !r.IsError && !still
	} else {
		// A no that came within 300 ms is taken for nobody's: the question waits.
		s.OK = still && (strings.HasPrefix(s.Got, "refused [declined]") || strings.HasPrefix(s.Got, "deferred "))
	}
	return s, err
}

func (d *demo) refused(ctx context.Context) (tryStep, error) {
	s := tryStep{Name: "refuse", Says: "The mail server is strict: message bodies may not leave, and the model is told why"}
	s, r, err := d.tool(ctx, s, "call_tool_read", `{"name":"mail/list_messages","arguments":{}}`)
	s.OK = r.IsError && strings.HasPrefix(s.Got, "refused [egress]")
	return s, err
}

func (d *demo) audited(context.Context) (tryStep, error) {
	s := tryStep{Name: "audit", Says: "All of it is in the audit log: an intent before, an outcome after, no contents"}
	dir := os.DirFS(filepath.Join(d.dir, "home", "audit"))
	records, err := audit.Tail(dir, 10, func(e audit.Event) bool { return e.Call != "" && e.Class != "" })
	if err != nil {
		return s, err
	}
	kinds := map[string]int{}
	var lines []string
	for _, r := range records {
		kinds[r.Event.Kind]++
		lines = append(lines, eventLine(r.Event))
	}
	report, err := audit.Verify(dir, audit.VerifyOptions{})
	if err != nil {
		return s, err
	}
	s.Got = strings.Join(lines, "\n")
	s.OK = report.OK() && kinds[audit.Intent] >= 2 && kinds[audit.Outcome] >= 2 && kinds[audit.Refusal] >= 1 && kinds[audit.Ask] == 1
	return s, nil
}
