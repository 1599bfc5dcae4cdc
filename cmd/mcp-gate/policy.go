package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/mcp-gate/mcp-gate/artifacts"
	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/config"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/gate"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
	"github.com/mcp-gate/mcp-gate/policy"
	"github.com/spf13/cobra"
)

func (a *app) policyCommand() *cobra.Command {
	c := &cobra.Command{Use: "policy", Short: "What the policy says, and what another one would"}
	var args, principal, scope, profile string
	explain := &cobra.Command{
		Use: "explain TOOL", Short: "Say what a call would meet, why, and the smallest change that would alter it",
		Long: `Say what a call of TOOL would meet, why, and the smallest change that would alter
it. Without --args nothing is known of the arguments: where a rule looks at them it
depends on them, and a way back or a grant is not counted on.`,
		Example: "  mcp-gate policy explain files/write_file --args '{\"path\":\"notes.md\",\"content\":\"\"}'",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, names []string) error {
			who := gate.Identity{Principal: principal, Profile: profile}
			if err := who.Scope.UnmarshalText([]byte(scope)); err != nil {
				return usage(err)
			}
			return a.policyExplain(c.Context(), names[0], args, who)
		},
	}
	explain.Flags().StringVar(&args, "args", "", "the call's arguments, a JSON object (default not known)")
	explain.Flags().StringVar(&principal, "principal", "local", "who calls")
	explain.Flags().StringVar(&scope, "scope", "admin", "scope of the caller's token")
	explain.Flags().StringVar(&profile, "profile", "", "profile of the session")
	var offline bool
	check := &cobra.Command{
		Use: "check", Short: "Check the rules: examples, unreachable and conflicting ones",
		Example: "  mcp-gate policy check --offline",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.policyCheck(c.Context(), offline) },
	}
	check.Flags().BoolVar(&offline, "offline", false, "compare the rules with each other only, start no server")
	var file string
	last := 1000
	replay := &cobra.Command{
		Use: "replay", Short: "Say what the last audited calls would get under another policy",
		Example: "  mcp-gate policy replay --config stricter.jsonc --last 500",
		Long: `Say what the last audited calls would get under another policy, each in a session
of the scope and the profile that it was made in: of the default profile where the
other configuration has none of that name. A row of which a rule looks at arguments
is judged by them where the audit log kept them (audit.keep_arguments) and no
secret was blacked out in them; else it depends on arguments. Paths in them are
taken to lead where they lead now.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.policyReplay(c.Context(), file, last) },
	}
	replay.Flags().StringVar(&file, "config", "", "the other configuration (default the present one)")
	replay.Flags().VarP(atLeast{&last, 1}, "last", "n", "how many calls")
	c.AddCommand(explain, check, replay)
	return c
}

func (a *app) policyExplain(ctx context.Context, name, args string, who gate.Identity) (err error) {
	var given json.RawMessage // nil: not known
	if args != "" {
		if _, _, err := strictjson.Get([]byte(args), ""); err != nil {
			return usage(fmt.Errorf("--args must be one JSON object: %w", err))
		}
		given = json.RawMessage(args)
	}
	only := ""
	if id, err := catalog.ParseToolID(name); err == nil {
		only = catalog.Alias(id.Server)
	}
	e, err := a.startSettled(ctx, engineOptions{only: only, exposure: gate.Meta, standing: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	entry, ok, err := e.gate.Tools().Find(name)
	if err == nil && !ok {
		if only != "" {
			if err := cmp.Or(noServer(e.cfg, only), e.settled(ctx, only)); err != nil {
				return err
			}
		}
		return usage(fmt.Errorf("there is no tool %q%s", name, nearest(e.gate.Tools(), name)))
	}
	s, err := e.gate.Open(ctx, who)
	if err != nil {
		return usage(err)
	}
	defer s.Close()
	why, err := s.Explain(ctx, name, given, true)
	if err != nil {
		return usage(err)
	}
	if a.json {
		err = a.print(why)
	} else {
		_, err = fmt.Fprint(a.stdout, why)
	}
	a.tellStanding(e.gate, entry.ID)
	return err
}

// findingDoc is a finding in JSON output.
type findingDoc struct {
	Kind  policy.FindingKind `json:"kind"`
	Rule  string             `json:"rule"`
	Other string             `json:"other,omitempty"`
	Text  string             `json:"text"`
}

func (a *app) policyCheck(ctx context.Context, offline bool) (err error) {
	_, cfg, _, err := a.load()
	if err != nil {
		return err
	}
	var targets []policy.Target
	if offline {
		(&engine{cfg: cfg}).tellLeftOut(a.stderr, engineOptions{})
	} else {
		e, err := a.startSettled(ctx, engineOptions{})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, e.Close()) }()
		for _, t := range e.gate.Tools().Entries() {
			targets = append(targets, policy.Target{Tool: t.ID, Class: t.Class.Permission, Egress: t.Class.Egress, Schema: t.InputSchema})
		}
	}
	docs := []findingDoc{}
	for _, f := range policy.Check(cfg.Policy.Rules, targets) {
		doc := findingDoc{Kind: f.Kind, Rule: f.Rule.String(), Text: f.Text}
		if f.Other.Set() {
			doc.Other = f.Other.String()
		}
		docs = append(docs, doc)
	}
	if a.json {
		err = a.print(map[string]any{"rules": cfg.Policy.Rules.Len(), "findings": docs})
	} else {
		for _, d := range docs {
			fmt.Fprintf(a.stdout, "%s: %s: %s\n", d.Rule, d.Kind, d.Text)
		}
		_, err = fmt.Fprintf(a.stdout, "%s, %s\n", many(cfg.Policy.Rules.Len(), "rule"), many(len(docs), "finding"))
	}
	if err == nil && len(docs) > 0 {
		return &exitError{3, nil}
	}
	return err
}

func (a *app) policyReplay(ctx context.Context, file string, last int) (err error) {
	h, cfg, _, err := a.load()
	if err != nil {
		return err
	}
	if file != "" {
		if cfg, _, err = config.Load(file, a.env); err != nil {
			return usage(err)
		}
	}
	calls, err := auditedCalls(h, last, cfg.Policy.Rules)
	if err != nil {
		return err
	}
	facts, err := replayFacts(ctx, h, cfg)
	if err != nil {
		return err
	}
	report := policy.Replay(calls, cfg.Policy.Rules, facts)
	if a.json {
		return a.print(report)
	}
	for _, s := range report.Shifts {
		fmt.Fprintf(a.stdout, "%6d  %s -> %s\n", s.Count, s.Then, s.Now)
	}
	more := ""
	if report.MayAsk > 0 {
		more = fmt.Sprintf(", and up to %d in all depend on arguments that were not kept", report.MayAsk)
	}
	_, err = fmt.Fprintf(a.stdout, "%s in %s; questions a day: %.1f then, %.1f under this policy%s\n",
		many(len(report.Rows), "call"), many(report.Days, "day"), report.WasADay, report.PerDay, more)
	return err
}

// beyondPolicy are the codes of refusals that no policy alters: there was no such
// tool, it could not be called, or what was asked before had come to its end.
var beyondPolicy = []string{
	policy.CodeUnknown.String(), policy.CodeHeld.String(), policy.CodeServerDown.String(), policy.CodeUnverified.String(), policy.CodeArguments.String(),
	policy.CodeExpired.String(), policy.CodeCancelled.String(), policy.CodeStale.String(), policy.CodeUnsettled.String(), policy.CodeAudit.String(),
}

// auditedCalls reads the last judged calls from the audit log.
func auditedCalls(h config.Home, last int, rules *policy.Rules) ([]policy.Audited, error) {
	judged := func(e audit.Event) bool {
		return e.Kind == audit.Intent || e.Kind == audit.Refusal || e.Kind == audit.Ask
	}
	records, err := audit.Tail(os.DirFS(h.Audit()), last, judged)
	if err != nil {
		return nil, err
	}
	asked := map[string]bool{} // a call that was asked about, and then ran or was put off, is one call
	var calls []policy.Audited
	for _, r := range records {
		id, err := catalog.ParseToolID(r.Event.Tool)
		if err != nil || asked[r.Event.Call] || slices.Contains(beyondPolicy, r.Event.Code) || r.Event.Rule == "review.undo" {
			continue // putting a call back is the person's own doing
		}
		asked[r.Event.Call] = r.Event.Kind == audit.Ask
		c := policy.Audited{At: r.Event.Time, Tool: id, NameUnique: true, Principal: r.Event.Principal, Profile: r.Event.Profile, Scope: policy.ScopeAdmin}
		if r.Event.Class != "" && c.Class.UnmarshalText([]byte(r.Event.Class)) != nil ||
			r.Event.Egress != "" && c.Egress.UnmarshalText([]byte(r.Event.Egress)) != nil ||
			r.Event.Scope != "" && c.Scope.UnmarshalText([]byte(r.Event.Scope)) != nil ||
			c.Verdict.UnmarshalText([]byte(r.Event.Verdict)) != nil {
			continue // written by a build with other words
		}
		c.Args, c.ArgsKept = argsOf(r.Event)
		c.Resolved = resolvedPaths(rules, c)
		calls = append(calls, c)
	}
	return calls, nil
}

// argsOf are the arguments of a recorded call, and whether they are known. Where
// a secret was blacked out they are not: a rule would be held against the mark.
func argsOf(e audit.Event) (args json.RawMessage, known bool) {
	if e.Args == nil {
		return nil, e.ArgsDigest != "" && e.ArgsSize == 0
	}
	return e.Args, !artifacts.HasRedaction(e.Args)
}

// resolvedPaths are the paths that the rules compare, as they lead now.
func resolvedPaths(rules *policy.Rules, c policy.Audited) map[string]string {
	resolved := map[string]string{}
	for _, path := range rules.Paths(policy.Request{Tool: c.Tool, NameUnique: c.NameUnique, Class: c.Class, Egress: c.Egress, Principal: c.Principal, Scope: c.Scope, Args: c.Args}) {
		if real, err := resolve(path); err == nil && !catalog.ServerFollows(path) {
			resolved[path] = real
		}
	}
	return resolved
}

// replayFacts judges calls as a session of their scope and profile would, without
// any server; of the default profile where there is none of that name.
func replayFacts(ctx context.Context, home config.Home, cfg config.Config) (func(policy.Audited) policy.Call, error) {
	g, err := offlineGate(home, cfg)
	if err != nil {
		return nil, err
	}
	type place struct {
		profile string
		scope   policy.Scope
	}
	sessions := map[place]*gate.Session{}
	for _, profile := range append([]config.Profile{{}}, cfg.Profiles...) {
		for _, scope := range policy.Scopes() {
			at := place{profile.Name, scope}
			if sessions[at], err = g.Open(ctx, gate.Identity{Principal: "local", Scope: scope, Profile: profile.Name}); err != nil {
				return nil, err
			}
		}
	}
	return func(c policy.Audited) policy.Call {
		class := catalog.Class{Permission: c.Class, Egress: c.Egress}
		if s, ok := cfg.Server(c.Tool.Server); ok { // what the other configuration says of the tool
			set := s.Tool(c.Tool.Tool)
			class.Permission = orElse(set.Permission, class.Permission)
			class.Egress = orElse(set.Egress, class.Egress)
		}
		s := sessions[place{c.Profile, c.Scope}]
		if s == nil {
			s = sessions[place{"", c.Scope}]
		}
		facts := s.Facts(c.Tool, class)
		// Who could be reached then, and whether there was a way back, is no
		// matter of the policy: what the call got tells.
		switch c.Verdict {
		case policy.Ask:
			facts.Reach = policy.L3
		case policy.Defer:
			facts.Reach = 0
		case policy.Review:
			facts.CanUndo = true
		}
		return facts
	}, nil
}

func orElse[T engagement.Permission | engagement.Egress](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}
