package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/config"
	"github.com/mcp-gate/mcp-gate/gate"
	"github.com/mcp-gate/mcp-gate/inbox"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
	"github.com/mcp-gate/mcp-gate/policy"
	"github.com/spf13/cobra"
)

func (a *app) callCommand() *cobra.Command {
	var profile string
	c := &cobra.Command{
		Use:   "call TOOL [JSON]",
		Short: "Call one tool through the gate, as a client would",
		Long: `Call one tool (server/tool) with a JSON object of arguments; "-" reads them from
standard input. The call is judged by the same policy and written into the same
audit log as a client's. Where a person is needed you are asked, if this is a
terminal: for a yes, or for the passphrase of your approver key where only that is
proof enough. Elsewhere the call waits a while for mcp-gate inbox approve. Only
the tool's own server is started, or all of them where TOOL is the tool's name
alone.`,
		Example:           `  mcp-gate call files/read_file '{"path":"notes.md"}'`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			raw := json.RawMessage(nil)
			if len(args) == 2 {
				text := []byte(args[1])
				if args[1] == "-" {
					var err error
					if text, err = readAll(a.in()); err != nil {
						return err
					}
				}
				if _, _, err := strictjson.Get(text, ""); err != nil {
					return usage(fmt.Errorf("the arguments must be one JSON object: %w", err))
				}
				raw = text
			}
			return a.call(c.Context(), args[0], raw, profile)
		},
	}
	c.Flags().StringVar(&profile, "profile", "", "profile of the configuration to call under")
	return c
}

func (a *app) call(ctx context.Context, name string, args json.RawMessage, profile string) (err error) {
	id, _ := catalog.ParseToolID(name) // of a bare name every server may be the one
	id.Server = catalog.Alias(id.Server)
	e, err := a.start(ctx, engineOptions{only: id.Server, exposure: gate.Meta, standing: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	if id.Server == "" {
		if id, err = e.bare(ctx, name); err != nil {
			return err
		}
		name = id.String()
	}
	if err := noServer(e.cfg, id.Server); err != nil {
		return err
	}
	if err := e.settled(ctx, id.Server); err != nil {
		return err
	}
	s, err := e.gate.Open(ctx, gate.Identity{Principal: "local", Scope: policy.ScopeAdmin, Profile: profile, Client: "mcp-gate call", Conversation: a.conversation()})
	if err != nil {
		return usage(err)
	}
	defer s.Close()
	wrapped := append([]byte(`{"name":`), strictjson.AppendString(nil, name)...)
	if args != nil {
		wrapped = append(append(wrapped, `,"arguments":`...), args...)
	}
	asks, err := a.asks()
	if err != nil {
		return err
	}
	req := gate.Request{Name: "call_tool", Args: append(wrapped, '}'), CanAsk: asks}
	out, err := a.finish(ctx, e, s, s.Call(ctx, req), req)
	a.tellStanding(e.gate, id)
	a.tellWhy(out, id)
	return err
}

// tellWhy names the command that says more of a refusal: its words are for a
// model, which can alter nothing.
func (a *app) tellWhy(out gate.Outcome, id catalog.ToolID) {
	var r struct {
		Meta struct {
			Refusal struct {
				Code     policy.Code `json:"code"`
				Executed bool        `json:"executed"`
			} `json:"mcp-gate/refusal"`
		} `json:"_meta"`
	}
	_ = json.Unmarshal(out.Result, &r) // a result of another shape is no refusal
	if r.Meta.Refusal.Executed {
		return
	}
	switch r.Meta.Refusal.Code {
	case policy.CodeUnknown:
		fmt.Fprintf(a.stderr, "mcp-gate: to see which there are: mcp-gate tools ls %s\n", inbox.DisplayLine(id.Server))
	case policy.CodeRule, policy.CodeEgress, policy.CodeScope, policy.CodeReadOnly, policy.CodeOutsideSlice:
		fmt.Fprintf(a.stderr, "mcp-gate: to see what decided, and what would change it: mcp-gate policy explain %s --args '{...}'\n", inbox.DisplayLine(id.String()))
	}
}

// asks reports whether questions of a call are answered here: at a terminal, and
// wherever a key can prove a yes, since the gate then waits for one and that is
// said here.
func (a *app) asks() (bool, error) {
	enrolled, err := a.enrolled()
	return enrolled || isTerminal(a.stdin), err
}

// enrolled reports whether the home has an approver key.
func (a *app) enrolled() (bool, error) {
	d, err := a.openDesk()
	if err != nil {
		return false, err
	}
	return len(d.ring.Approvers()) > 0, d.Close()
}

// finish puts a call's questions to the person and shows what comes of it.
func (a *app) finish(ctx context.Context, e *engine, s *gate.Session, out gate.Outcome, req gate.Request) (gate.Outcome, error) {
	for out.Ask != nil {
		reply, err := a.answer(ctx, e, out.Ask)
		if err != nil {
			return out, err
		}
		out = s.Resume(ctx, out.Ask.Ticket, reply, req)
	}
	err := a.showOutcome(out)
	if id := waitingTicket(out); id != "" {
		first := ""
		if enrolled, err := a.enrolled(); err == nil && !enrolled {
			first = "mcp-gate approver enroll, once, then "
		}
		fmt.Fprintf(a.stderr, "mcp-gate: to decide, at a terminal: %smcp-gate inbox approve %s, or inbox deny %[2]s\n", first, shortID(id))
	}
	return out, err
}

// waitingTicket is the ticket whose stub an outcome is; "" for others.
func waitingTicket(out gate.Outcome) string {
	var r struct {
		Meta struct {
			Ticket struct {
				Ticket string `json:"ticket"`
				State  string `json:"state"`
			} `json:"mcp-gate/ticket"`
		} `json:"_meta"`
	}
	_ = json.Unmarshal(out.Result, &r) // a result of another shape is no stub
	if r.Meta.Ticket.State != inbox.Pending.String() {
		return ""
	}
	return r.Meta.Ticket.Ticket
}

// answer puts a question to the person: a yes is typed where that is proof
// enough, else the passphrase that is. Away from a terminal it is waited for as
// long as a client would.
func (a *app) answer(ctx context.Context, e *engine, ask *gate.Ask) (gate.Reply, error) {
	t, err := e.db.Ticket(ctx, ask.Ticket)
	switch {
	case err != nil:
		return gate.Reply{}, err
	case !isTerminal(a.stdin):
		return a.awaitAnswer(ctx, ask, t), nil
	case t.Level == inbox.L0:
		return a.askHere(ask), nil
	}
	err = a.withDesk(ctx, func(ctx context.Context, d *desk) error { return a.allowHere(ctx, d, t) })
	switch {
	case err == nil:
		return gate.Reply{Action: gate.Elsewhere}, nil
	case ctx.Err() == nil && !errors.Is(err, errNothingSaid):
		report(a.stderr, err, hint(err))
	}
	return gate.Reply{Action: gate.NoAnswer}, nil
}

// allowHere shows the call and allows it with the passphrase of the person's key.
func (a *app) allowHere(ctx context.Context, d *desk, t inbox.Ticket) error {
	key, err := a.askToAllow(ctx, d, []inbox.Ticket{t}, "")
	if err != nil {
		return errors.Join(err, d.recordFailure([]inbox.Ticket{t}, inbox.Allow, err))
	}
	defer key.Forget()
	_, err = d.allow(ctx, t, key)
	return err
}

// awaitAnswer says what is waited for and waits for somebody to decide.
func (a *app) awaitAnswer(ctx context.Context, ask *gate.Ask, t inbox.Ticket) gate.Reply {
	fmt.Fprintf(a.stderr, "mcp-gate: %s needs a person's yes: waiting up to %s for mcp-gate inbox approve %s at a terminal\n",
		inbox.DisplayLine(t.View.Tool.String()), ask.Wait, shortID(t.ID))
	over := time.NewTimer(ask.Wait)
	defer over.Stop()
	select {
	case <-ask.Decided:
		return gate.Reply{Action: gate.Elsewhere}
	case <-over.C:
	case <-ctx.Done():
	}
	return gate.Reply{Action: gate.NoAnswer}
}

// bare finds the one tool that has a name of another form than server/tool.
func (e *engine) bare(ctx context.Context, name string) (catalog.ToolID, error) {
	if err := e.pool.Settled(ctx); err != nil {
		return catalog.ToolID{}, err
	}
	entry, ok, err := e.gate.Tools().Find(name)
	if err == nil && !ok {
		err = fmt.Errorf("there is no tool %q%s", name, nearest(e.gate.Tools(), name))
	}
	if err != nil {
		return catalog.ToolID{}, usage(err)
	}
	return entry.ID, nil
}

// askHere puts a question to the person at the terminal. Enter alone never
// allows.
func (a *app) askHere(ask *gate.Ask) gate.Reply {
	fmt.Fprintf(a.stderr, "\n%s\nAllow this call once? Type yes to allow: ", ask.Message)
	start := time.Now()
	line, err := bufio.NewReader(a.in()).ReadString('\n')
	r := gate.Reply{Action: gate.Accepted, Decision: "deny", After: time.Since(start)}
	if err != nil {
		r.Action = gate.NoAnswer
	}
	if strings.TrimSpace(line) == "yes" {
		r.Decision = "allow-once"
	}
	return r
}

// showOutcome prints what came of a call and turns it into an exit code.
func (a *app) showOutcome(out gate.Outcome) error {
	if out.Error != nil {
		if a.json {
			fmt.Fprintf(a.stdout, "{\"error\":%s}\n", out.Error.Raw())
			return &exitError{exitFailed, nil}
		}
		return out.Error
	}
	if a.json {
		fmt.Fprintf(a.stdout, "%s\n", out.Result)
	} else if err := a.showContent(out.Result); err != nil {
		return err
	}
	var r struct {
		IsError bool                       `json:"isError"`
		Meta    map[string]json.RawMessage `json:"_meta"`
	}
	_ = json.Unmarshal(out.Result, &r) // a result of another shape is no error of ours
	var ticket struct{ Executed bool }
	_ = json.Unmarshal(r.Meta["mcp-gate/ticket"], &ticket) // no ticket: executed
	_, waits := r.Meta["mcp-gate/ticket"]
	switch _, refused := r.Meta["mcp-gate/refusal"]; {
	case waits && !ticket.Executed:
		return &exitError{exitWaits, nil}
	case refused:
		return &exitError{exitRefused, nil}
	case r.IsError:
		return &exitError{exitFailed, nil}
	}
	return nil
}

// showContent prints the text of a result and names what is no text.
func (a *app) showContent(result json.RawMessage) error {
	var r struct {
		Content    []json.RawMessage `json:"content"`
		Structured json.RawMessage   `json:"structuredContent"`
	}
	if err := json.Unmarshal(result, &r); err != nil {
		_, err := fmt.Fprintf(a.stdout, "%s\n", result)
		return err
	}
	for _, raw := range r.Content {
		var block struct{ Type, Text, Data, MimeType string }
		_ = json.Unmarshal(raw, &block) // an unknown block is printed as it is
		switch {
		case block.Type == "text":
			fmt.Fprintln(a.stdout, a.shown(block.Text))
		case block.Data != "":
			fmt.Fprintf(a.stdout, "[%s, %s, %d bytes]\n", inbox.DisplayLine(block.Type), inbox.DisplayLine(block.MimeType), base64.StdEncoding.DecodedLen(len(block.Data)))
		default:
			fmt.Fprintln(a.stdout, a.shown(string(raw)))
		}
	}
	if len(r.Content) == 0 && r.Structured != nil {
		fmt.Fprintln(a.stdout, a.shown(string(r.Structured)))
	}
	return nil
}

// settled waits until a server has listed its tools, and says why not.
func (e *engine) settled(ctx context.Context, alias string) error {
	if err := e.pool.Settled(ctx); err != nil {
		return err
	}
	for _, s := range e.pool.Status() {
		if s.Alias == alias && !s.Listed {
			return serverError(s)
		}
	}
	return nil
}

func serverNames(cfg config.Config) string {
	var names []string
	for _, s := range cfg.Servers {
		names = append(names, s.Alias)
	}
	if names == nil {
		return ": it has none yet"
	}
	return ": it has " + strings.Join(names, ", ")
}
