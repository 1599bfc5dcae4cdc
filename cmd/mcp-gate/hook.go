package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mcp-gate/mcp-gate/gate"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
	"github.com/mcp-gate/mcp-gate/policy"
	"github.com/mcp-gate/mcp-gate/reader"
	"github.com/spf13/cobra"
)

func (a *app) hookCommand() *cobra.Command {
	c := &cobra.Command{Use: "hook", Short: "Hooks that a client runs"}
	c.AddCommand(&cobra.Command{
		Use:     "user-prompt-submit",
		Example: "  mcp-gate hook user-prompt-submit < hook-input.json",
		Short:   "Read the person's prompt and tell the running gate",
		Long: `Reads the JSON that Claude Code gives its UserPromptSubmit hook, reads the prompt
by its words, tells the gate of that session, and hands the note back as context.
It can only add caution, and whatever goes wrong never stops the prompt: the exit
code is 0, and the reason is on standard error.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := a.promptHook(c.Context()); err != nil {
				fmt.Fprintf(a.stderr, "mcp-gate: the prompt changed nothing: %v\n", err)
			}
			return nil
		},
	})
	c.AddCommand(&cobra.Command{
		Use:     "session-start",
		Example: "  mcp-gate hook session-start",
		Short:   "Hand the tool catalogue to a session that starts",
		Long: `Prints what Claude Code's SessionStart hook takes: the catalogue of accepted tools
as context, so that the model knows their names from the start. No server is
started: in a home whose servers no gate has seen yet it prints nothing. Whatever goes wrong never stops the session.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := a.startHook(c.Context()); err != nil {
				fmt.Fprintf(a.stderr, "mcp-gate: no catalogue was handed over: %v\n", err)
			}
			return nil
		},
	})
	return c
}

func (a *app) startHook(ctx context.Context) error {
	g, err := a.offline()
	if err != nil {
		return err
	}
	if len(g.Tools().Entries()) == 0 { // a catalogue that says so would be believed after the servers have come
		return errors.New("no tool is on record yet: the first session records what the servers have")
	}
	s, err := g.Open(ctx, gate.Identity{Principal: "local", Scope: policy.ScopeAdmin})
	if err != nil {
		return err
	}
	defer s.Close()
	out := []byte(`{"hookSpecificOutput":{"hookEventName":"SessionStart","additionalContext":`)
	out = strictjson.AppendString(out, s.Prefix().Catalog())
	_, err = fmt.Fprintf(a.stdout, "%s}}\n", out)
	return err
}

// promptInput is the part of the hook's input that counts.
type promptInput struct {
	SessionID string `json:"session_id"`
	Cwd       string `json:"cwd"`
	Prompt    string `json:"prompt"`
}

func (a *app) promptHook(ctx context.Context) error {
	raw, err := readAll(a.in())
	if err != nil {
		return err
	}
	var in promptInput
	if err := json.Unmarshal(raw, &in); err != nil {
		return fmt.Errorf("read the hook's input: %w", strictjson.Misfit(err))
	}
	h, err := a.home()
	if err != nil {
		return err
	}
	live, err := gates(h)
	if err != nil {
		return err
	}
	found, how := match(live, in)
	if found == nil {
		return fmt.Errorf("no running gate belongs to this session")
	}
	words, err := reader.New()
	if err != nil {
		return err
	}
	reading := words.Read(in.Prompt)
	reply, err := found.ask(ctx, controlQuestion{Op: "prompt", Reading: &reading})
	if err != nil {
		return err
	}
	if a.json {
		return a.print(map[string]any{"gate": found.PID, "matched_by": how, "reading": reading, "in_force": reply.InForce, "note": reply.Note})
	}
	if reply.Note == "" {
		return nil
	}
	out := []byte(`{"hookSpecificOutput":{"hookEventName":"UserPromptSubmit","additionalContext":`)
	out = strictjson.AppendString(out, reply.Note)
	_, err = fmt.Fprintf(a.stdout, "%s}}\n", out)
	return err
}

// match finds the gate of a client's session: by the id the client gave it
// when it was started, else by the process that started both, else by the
// project's folder. More than one match of the same kind is no match.
func match(live []running, in promptInput) (*running, string) {
	parent := os.Getppid()
	for _, by := range []struct {
		how  string
		fits func(r running) bool
	}{
		{"session id", func(r running) bool { return in.SessionID != "" && r.Client == in.SessionID }},
		{"parent process", func(r running) bool { return r.Client == "" && (r.Parent == parent || r.Parent == parentOf(parent)) }},
		{"project folder", func(r running) bool {
			return r.Client == "" && in.Cwd != "" && filepath.Clean(r.Project) == filepath.Clean(in.Cwd)
		}},
	} {
		var fit []running
		for _, r := range live {
			if by.fits(r) {
				fit = append(fit, r)
			}
		}
		if len(fit) == 1 {
			return &fit[0], by.how
		}
	}
	return nil, ""
}

// parentOf is the parent of a process, where the system tells; else -1. A
// client may run its hooks through a shell.
func parentOf(pid int) int {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return -1
	}
	var parent int
	end := len(raw) - 1
	for end > 0 && raw[end] != ')' { // the name before it may hold anything
		end--
	}
	var state string
	if _, err := fmt.Sscanf(string(raw[end+1:]), "%s %d", &state, &parent); err != nil {
		return -1
	}
	return parent
}
