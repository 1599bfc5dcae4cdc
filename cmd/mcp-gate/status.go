package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-gate/mcp-gate/config"
	"github.com/mcp-gate/mcp-gate/inbox"
)

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show the gates that run, their sessions and servers, and what a yes proves here",
		Example: "  mcp-gate status --json",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.status(c.Context()) },
	}
}

// configuredDoc is a server as the configuration has it.
type configuredDoc struct {
	Alias      string   `json:"alias"`
	Preset     string   `json:"preset,omitempty"`
	PresetFrom string   `json:"preset_from,omitempty"`
	Connection string   `json:"connection,omitempty"`
	Disabled   bool     `json:"disabled,omitempty"`
	Errors     []string `json:"errors,omitempty"`
}

func (a *app) status(ctx context.Context) error {
	h, cfg, _, err := a.load()
	if errors.Is(err, os.ErrPermission) {
		if proof, proofErr := a.proof(h); proofErr == nil && proof.Boundary {
			if a.json {
				return a.print(map[string]any{"home": h.Dir, "proof": proof})
			}
			proof.show(a.stdout)
			return nil
		}
	}
	if err != nil && h.Dir == "" {
		return err
	}
	fault := err // gates that run go on under what they read before
	live, err := gates(h)
	if err != nil {
		return errors.Join(fault, err)
	}
	docs := a.statusOf(ctx, live, cfg.Log)
	switch {
	case fault != nil && a.json:
		return errors.Join(a.print(map[string]any{"home": h.Dir, "gates": docs}), fault)
	case fault != nil:
		return errors.Join(a.showGates(docs), fault)
	}
	var attention *inbox.Stats
	if !slices.ContainsFunc(docs, func(d *statusDoc) bool { return d.Fault != "" }) {
		if attention, err = a.attention(h); err != nil {
			return err
		}
	}
	proof, err := a.proof(h)
	if err != nil {
		return err
	}
	if a.json {
		return a.print(map[string]any{"home": h.Dir, "gates": docs, "configured": configured(cfg), "attention": attention, "proof": proof})
	}
	fmt.Fprintf(a.stdout, "home  %s\n", h.Dir)
	if len(docs) == 0 {
		fmt.Fprintln(a.stdout, "no gate runs now; a client starts one with: mcp-gate serve")
	}
	if err := a.showGates(docs); err != nil {
		return err
	}
	if attention != nil {
		fmt.Fprintf(a.stdout, "asked %s in 30 days; %s ran by a grant and %d in review instead\n", many(attention.Asks, "time"), many(attention.Grants, "call"), attention.Reviews)
	}
	if proof.Level == inbox.L0 && len(docs)+len(cfg.Servers)+len(cfg.Refused)+len(cfg.Disabled) == 0 {
		proof.Within = "" // there is nothing yet that anybody could get at
	}
	proof.show(a.stdout)
	return a.showConfigured(configured(cfg), docs)
}

// statusOf asks gates for their status. One that does not answer is left out and told of.
func (a *app) statusOf(ctx context.Context, live []running, log config.Log) []*statusDoc {
	docs := []*statusDoc{}
	for _, r := range live {
		reply, err := r.ask(ctx, controlQuestion{Op: "status"})
		if err != nil {
			a.logger(log, false).Warn("a gate does not answer", "pid", r.PID, "error", err)
			continue
		}
		docs = append(docs, reply.Status)
	}
	return docs
}

func (a *app) showGates(docs []*statusDoc) error {
	for _, d := range docs {
		if err := a.showGate(d); err != nil {
			return err
		}
	}
	return nil
}

// showConfigured shows the servers that no gate above has shown.
func (a *app) showConfigured(servers []configuredDoc, gates []*statusDoc) error {
	if len(servers) == 0 {
		_, err := fmt.Fprintln(a.stdout, "no server is configured: mcp-gate import takes over what your clients have")
		return err
	}
	servers = slices.DeleteFunc(servers, func(c configuredDoc) bool {
		return slices.ContainsFunc(gates, func(d *statusDoc) bool {
			return slices.ContainsFunc(d.Servers, func(s serverDoc) bool { return s.Alias == c.Alias }) && len(c.Errors) == 0
		})
	})
	if len(servers) == 0 {
		return nil
	}
	fmt.Fprintln(a.stdout, whether(len(gates) > 0, "configured, and in no gate that runs:", "configured:"))
	w := tabwriter.NewWriter(a.stdout, 2, 0, 2, ' ', 0)
	for _, c := range servers {
		switch {
		case len(c.Errors) > 0:
			fmt.Fprintf(w, "  %s\tleft out\t%s\n", c.Alias, c.Errors[0])
		case c.Disabled:
			fmt.Fprintf(w, "  %s\tdisabled\n", c.Alias)
		default:
			fmt.Fprintf(w, "  %s\tpreset %s\tby %s\n", c.Alias, c.Preset, c.PresetFrom)
		}
	}
	return w.Flush()
}

// attention is how often people were asked in the last 30 days, and how they
// answered; nil where nobody ever was.
func (a *app) attention(h config.Home) (stats *inbox.Stats, err error) {
	if _, err := os.Stat(h.DB()); err != nil {
		return nil, nil
	}
	d, err := a.openDesk()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	found, err := d.Stats(context.Background(), time.Now().AddDate(0, 0, -30))
	return &found, err
}

func (a *app) showGate(d *statusDoc) error {
	fmt.Fprintf(a.stdout, "gate %d, version %s, since %s, project %s\n", d.PID, d.Version, d.Started.Format(time.DateTime), d.Project)
	if d.Fault != "" {
		fmt.Fprintf(a.stdout, "  %s\n", inbox.DisplayLine(d.Fault))
	}
	if d.Config.Changes != "" {
		fmt.Fprintf(a.stdout, "  configuration read anew %s: %s\n", d.Config.Read.Format(time.DateTime), inbox.DisplayLine(d.Config.Changes))
	}
	for _, fault := range d.Config.Faults {
		fmt.Fprintf(a.stdout, "  configuration not taken up, the one of %s stays in force: %s\n", d.Config.Read.Format(time.DateTime), inbox.DisplayLine(fault))
	}
	for _, s := range d.Sessions {
		p := s.Engagement.Posture
		fmt.Fprintf(a.stdout, "  session %s  %s  in the loop: %v, runs unasked up to %v", s.ID, inbox.DisplayLine(s.Principal), p.HIL, s.Engagement.Limits.ApprovalCeiling)
		if s.Parent != "" {
			fmt.Fprintf(a.stdout, ", for %s", s.Parent)
		}
		fmt.Fprintln(a.stdout)
	}
	w := tabwriter.NewWriter(a.stdout, 2, 0, 2, ' ', 0)
	for _, s := range d.Servers {
		fmt.Fprintf(w, "  %s\t%s\t%s\tpreset %s", s.Alias, s.State, many(s.Tools, "tool"), s.Preset)
		if s.Connection == config.ConnectionSession.String() {
			fmt.Fprint(w, "\ta connection for each session")
		}
		if s.LastError != "" {
			fmt.Fprintf(w, "\t%s", inbox.DisplayLine(s.LastError))
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

func configured(cfg config.Config) []configuredDoc {
	docs := []configuredDoc{}
	for _, s := range cfg.Servers {
		docs = append(docs, configuredDoc{Alias: s.Alias, Preset: s.Preset.String(), PresetFrom: s.PresetFrom, Connection: s.Connection.String()})
	}
	for _, r := range cfg.Refused {
		doc := configuredDoc{Alias: r.Alias}
		for _, e := range r.Errors {
			doc.Errors = append(doc.Errors, e.Error())
		}
		docs = append(docs, doc)
	}
	for _, d := range cfg.Disabled {
		docs = append(docs, configuredDoc{Alias: d.Alias, Disabled: true})
	}
	return docs
}
