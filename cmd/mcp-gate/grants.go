package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/config"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/gate"
	"github.com/mcp-gate/mcp-gate/inbox"
	"github.com/mcp-gate/mcp-gate/policy"
	"github.com/spf13/cobra"
)

func (a *app) grantsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "grants", Short: "What you allowed ahead, so that you are not asked each time",
		Long: `A grant lets calls run that would else be asked about: these tools, with such
arguments, so many calls, until then, while the definitions are unchanged. It is
signed with your approver key, counted, and can be taken back at once.`,
	}
	c.AddCommand(a.grantsListCommand(), a.grantsAddCommand(), a.grantsRevokeCommand(), a.grantsSimulateCommand())
	return c
}

// grantFlags are the terms as the command line gives them.
type grantFlags struct {
	tools              []string
	args               string
	calls              int
	within             time.Duration
	principal, session string
	class              string
	last               int
}

func (f *grantFlags) on(c *cobra.Command) {
	flags := c.Flags()
	flags.StringSliceVar(&f.tools, "tools", nil, "tools or patterns (server/tool); a destructive tool counts only by its own name")
	flags.StringVar(&f.args, "args", "", `what the arguments must fit, as in a rule: {"/repo":{"eq":"shop"}}`)
	flags.IntVar(&f.calls, "calls", 20, "how many calls in all")
	flags.DurationVar(&f.within, "for", time.Hour, "how long")
	flags.StringVar(&f.principal, "principal", "local/*", "for whose calls: local/* is you and every client of yours, local/NAME one client, else a token's name")
	flags.StringVar(&f.session, "session", "", "only in this session")
	flags.StringVar(&f.class, "class", "", "leave out tools above this class")
	f.last = 200
	flags.VarP(atLeast{&f.last, 1}, "last", "n", "how many recent calls to try it on")
}

func (a *app) grantsListCommand() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "ls", Short: "List grants, with what is left of them",
		Example: "  mcp-gate grants ls --all",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withDesk(c.Context(), func(ctx context.Context, d *desk) error { return a.grantsList(ctx, d, all) })
		},
	}
	c.Flags().BoolVar(&all, "all", false, "also those that are spent, over or revoked")
	return c
}

func (a *app) grantsAddCommand() *cobra.Command {
	var f grantFlags
	var by string
	c := &cobra.Command{
		Use: "add --tools TOOL,...", Short: "Allow calls ahead, after seeing which of the recent ones it would have covered",
		Example: `  mcp-gate grants add --tools issues/add_comment --calls 20 --for 1h
  mcp-gate grants add --tools 'files/*' --class read --args '{"/path":{"path_under":"/home/me/notes"}}'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withDesk(c.Context(), func(ctx context.Context, d *desk) error { return a.grantsAdd(ctx, d, f, by) })
		},
	}
	f.on(c)
	c.Flags().StringVar(&by, "by", "", "the enrolled key that signs (default any that the passphrase opens)")
	return c
}

func (a *app) grantsRevokeCommand() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "revoke GRANT...", Short: "End grants at once; needs no proof",
		Example: "  mcp-gate grants revoke g_k3v",
		Args: func(_ *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return errors.New("name grants, or give --all")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return a.withDesk(c.Context(), func(ctx context.Context, d *desk) error { return a.grantsRevoke(ctx, d, args, all) })
		},
	}
	c.Flags().BoolVar(&all, "all", false, "every grant")
	return c
}

func (a *app) grantsSimulateCommand() *cobra.Command {
	var f grantFlags
	c := &cobra.Command{
		Use: "simulate [GRANT]", Short: "Tell which of the recent calls a grant would have covered, without making it",
		Example: "  mcp-gate grants simulate --tools issues/add_comment --calls 20",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withDesk(c.Context(), func(ctx context.Context, d *desk) error {
				var terms inbox.Terms
				if len(args) == 1 {
					g, err := d.grant(ctx, args[0])
					if err != nil {
						return err
					}
					terms = g.Terms
				} else {
					p, err := a.propose(ctx, f)
					if err != nil {
						return err
					}
					terms = p.terms
				}
				return a.grantsSimulate(ctx, d, terms, f.last)
			})
		},
	}
	f.on(c)
	return c
}

// grantDoc is a grant in JSON output.
type grantDoc struct {
	inbox.Grant
	Sentence string `json:"sentence"`
	Left     int    `json:"left"`
}

func grantDocOf(g inbox.Grant, now time.Time) grantDoc {
	return grantDoc{g, g.Terms.Sentence(), g.Left(now)}
}

func (a *app) grantsList(ctx context.Context, d *desk, all bool) error {
	grants, err := d.Grants(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	docs := []grantDoc{}
	for _, g := range grants {
		if doc := grantDocOf(g, now); all || doc.Left > 0 {
			docs = append(docs, doc)
		}
	}
	if a.json {
		return a.print(map[string]any{"grants": docs})
	}
	if len(docs) == 0 {
		fmt.Fprintln(a.stdout, "no grant is alive")
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, g := range docs {
		fmt.Fprintf(w, "%s\t%s\t%v\t%s\n", shortID(g.ID), grantLeft(g.Grant, now), g.Level, g.Sentence)
	}
	return w.Flush()
}

// grantLeft says what is left of a grant.
func grantLeft(g inbox.Grant, now time.Time) string {
	calls, until := g.Limit()
	switch {
	case !g.Revoked.IsZero():
		return "revoked"
	case !now.Before(until):
		return "over"
	case g.Early(now):
		return "the clock is behind it"
	case g.Left(now) == 0:
		return "spent"
	}
	return fmt.Sprintf("%d of %d left, %s", g.Left(now), calls, span(until.Sub(now)))
}

// grant returns the one grant whose id begins with prefix.
func (d *desk) grant(ctx context.Context, prefix string) (inbox.Grant, error) {
	if prefix == "" {
		return inbox.Grant{}, usage(errors.New("no grant is named: mcp-gate grants ls lists them"))
	}
	if !strings.HasPrefix(prefix, "g_") {
		prefix = "g_" + prefix
	}
	all, err := d.Grants(ctx)
	if err != nil {
		return inbox.Grant{}, err
	}
	var found []inbox.Grant
	for _, g := range all {
		if strings.HasPrefix(g.ID, prefix) {
			found = append(found, g)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return inbox.Grant{}, usage(fmt.Errorf("there is no grant %q: mcp-gate grants ls --all lists them", prefix))
	}
	return inbox.Grant{}, usage(fmt.Errorf("%q could be any of %d grants", prefix, len(found)))
}

// proposal is a grant before anybody allowed it.
type proposal struct {
	terms inbox.Terms
	need  inbox.Level     // of proof
	tools []catalog.Entry // that it would cover
}

// propose makes terms of the flags, with the definitions that the servers offer
// now.
func (a *app) propose(ctx context.Context, f grantFlags) (p proposal, err error) {
	highest := engagement.Destructive
	if f.class != "" {
		if err := highest.UnmarshalText([]byte(f.class)); err != nil {
			return p, usage(fmt.Errorf("--class: %w", err))
		}
	}
	if len(f.tools) == 0 {
		return p, usage(errors.New("--tools names no tool: say which, as in --tools issues/add_comment"))
	}
	if f.calls < 1 || f.within <= 0 {
		return p, usage(errors.New("a grant of no call, or of no time, allows nothing: --calls is at least 1 and --for more than 0"))
	}
	terms := inbox.Terms{
		Principal: f.principal, Session: f.session, Calls: f.calls, Until: time.Now().Add(f.within).UTC().Truncate(time.Second),
		Definitions: map[string]string{},
	}
	if f.args != "" {
		terms.Args = json.RawMessage(f.args)
		if err := checkConstraint(terms.Args); err != nil {
			return p, usage(fmt.Errorf("--args: %w", err))
		}
	}
	e, err := a.startSettled(ctx, engineOptions{})
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	a.tellFailures(a.stderr, e.pool.Status())
	return pinned(terms, f.tools, highest, e.gate.Tools(), e.cfg)
}

// pinned completes the terms with the tools that they cover among those there
// are, none of them above the given class.
func pinned(terms inbox.Terms, patterns []string, highest engagement.Permission, set *catalog.Set, cfg config.Config) (proposal, error) {
	p := proposal{terms: terms}
	for _, pattern := range patterns {
		if !strings.ContainsAny(pattern, "*?[{") { // a tool by its name, which may be the bare one
			entry, ok, err := set.Find(pattern)
			if err == nil && !ok {
				err = fmt.Errorf("there is no tool %q%s", pattern, nearest(set, pattern))
			}
			if err != nil {
				return p, usage(fmt.Errorf("--tools: %w", err))
			}
			if entry.Raw == nil {
				return p, usage(fmt.Errorf("--tools: %v is held back, and a grant is for definitions that were accepted: mcp-gate accept %[1]v", entry.ID))
			}
			pattern = entry.ID.String()
		}
		p.terms.Tools = append(p.terms.Tools, pattern)
		before := len(p.tools)
		for _, entry := range set.Entries() {
			id := entry.ID.String()
			m := gate.Matcher{Request: policy.Request{Tool: entry.ID, Class: entry.Class.Permission}}
			named := pattern == id
			if !named && (entry.Class.Permission == engagement.Destructive || !m.Tool(pattern)) || !entry.Class.Permission.AtMost(highest) {
				continue
			}
			server, _ := cfg.Server(entry.ID.Server)
			if _, twice := p.terms.Definitions[id]; !twice {
				p.tools = append(p.tools, entry)
			}
			p.terms.Definitions[id] = inbox.Pin(server.ID(), entry.Digest)
			p.terms.Class = max(p.terms.Class, entry.Class.Permission)
			p.need = max(p.need, inbox.Level(cfg.Approval.Least(entry.Class.Permission)))
		}
		if len(p.tools) == before {
			return p, usage(fmt.Errorf("--tools: %q covers no tool that the other patterns leave; a destructive one has to be named outright", pattern))
		}
	}
	return p, nil
}

// checkConstraint reports what is wrong with a constraint on arguments, which is
// written as in a rule, without a word of that rule, which nobody wrote.
func checkConstraint(raw json.RawMessage) error {
	if !json.Valid(raw) {
		return errors.New(`want JSON: constraints by JSON pointer, as in {"/number":{"eq":22}}`)
	}
	var rule policy.Record
	err := json.Unmarshal(slices.Concat([]byte(`{"args":`), raw, []byte(`}`)), &rule)
	if err == nil {
		rule.Do = policy.DoAllow.String()
		_, err = policy.Compile([]policy.Record{rule})
	}
	var problem *policy.Problem
	if many, ok := errors.AsType[*policy.CompileError](err); ok {
		problem = many.Problems[0]
	} else if !errors.As(err, &problem) {
		return err
	}
	return errors.New(strings.TrimPrefix(strings.TrimPrefix(problem.Within(), "args."), "args: "))
}

func (a *app) grantsAdd(ctx context.Context, d *desk, f grantFlags, by string) error {
	p, err := a.propose(ctx, f)
	if err != nil {
		return err
	}
	sim, err := d.simulate(ctx, p.terms, f.last)
	if err != nil {
		return err
	}
	key, err := a.askToGrant(ctx, d, p, sim, by)
	if err != nil {
		return errors.Join(err, d.recordGrant(inbox.Grant{Terms: p.terms, Level: p.need}, "was not added", err))
	}
	defer key.Forget()
	g, err := d.AddGrant(ctx, p.terms, d.ring.Reach(), inbox.Terminal, key, p.need)
	what := "was added"
	if err != nil {
		g, what = inbox.Grant{Terms: p.terms, Level: p.need}, "was not added"
	}
	if err := errors.Join(err, d.recordGrant(g, what, err)); err != nil {
		return err
	}
	if a.json {
		return a.print(map[string]any{"grant": grantDocOf(g, time.Now()), "simulation": sim})
	}
	_, err = fmt.Fprintf(a.stdout, "added %s\n", g.ID)
	return err
}

// askToGrant shows what would be allowed and returns the key that the person
// unlocked for it.
func (a *app) askToGrant(ctx context.Context, d *desk, p proposal, sim simulation, by string) (*inbox.ApproverKey, error) {
	fmt.Fprintln(a.stderr, p.terms.Sentence())
	for _, t := range p.tools {
		fmt.Fprintf(a.stderr, "  %s (%v)\n", inbox.DisplayLine(t.ID.String()), t.Class.Permission)
	}
	fmt.Fprintln(a.stderr, sim)
	if len(d.ring.Approvers()) == 0 {
		return nil, waits(errNoApprover)
	}
	if reach := d.ring.Reach(); !reach.AtLeast(p.need) {
		return nil, refusedProof(&inbox.LevelError{Ticket: "a grant", Have: reach, Need: p.need})
	}
	return a.unlock(ctx, d, by, "Passphrase to allow this (Enter alone allows nothing): ")
}

// recordGrant writes down what became of a grant, or of an attempt.
func (d *desk) recordGrant(g inbox.Grant, what string, failure error) error {
	if errors.Is(failure, errNothingSaid) {
		return nil
	}
	e := audit.Event{
		Kind: audit.Decision, Principal: g.Terms.Principal, Session: g.Terms.Session, Class: g.Terms.Class.String(),
		Level: g.Level.String(), Channel: inbox.Terminal.String(), Outcome: audit.OK,
		Note: strings.TrimSpace("grant "+g.ID) + " " + what + ": " + g.Terms.Sentence(),
	}
	if g.Key != "" {
		e.Note += " Key " + g.Key + "."
	}
	if failure != nil {
		e.Outcome, e.Note = audit.Error, e.Note+" "+failure.Error()
	}
	return d.record(e)
}

func (a *app) grantsRevoke(ctx context.Context, d *desk, names []string, all bool) error {
	var grants []inbox.Grant
	if all {
		var err error
		if grants, err = d.Grants(ctx); err != nil {
			return err
		}
	}
	for _, name := range names {
		g, err := d.grant(ctx, name)
		if err != nil {
			return err
		}
		grants = append(grants, g)
	}
	docs := []grantDoc{}
	for _, g := range grants {
		if !g.Revoked.IsZero() {
			continue
		}
		after, err := d.Revoke(ctx, g.ID)
		if err := errors.Join(err, d.recordGrant(g, "was revoked", err)); err != nil {
			return err
		}
		docs = append(docs, grantDocOf(after, time.Now()))
		if !a.json {
			fmt.Fprintf(a.stdout, "revoked %s\n", shortID(g.ID))
		}
	}
	if a.json {
		return a.print(map[string]any{"grants": docs})
	}
	return nil
}

// coverages are the words for what a simulation says about one call.
var coverages = map[inbox.Coverage]string{
	inbox.NotCovered: "no", inbox.Covered: "yes", inbox.DependsOnArgs: policy.DependsOnArguments,
}

// simulation is which of the recent calls a grant would have covered.
type simulation struct {
	Calls   []simulatedCall `json:"calls"`
	Covered int             `json:"covered"`
	Depends int             `json:"depends_on_arguments"`
	Asked   int             `json:"asked"` // of the calls, those that were put to a person
	Spared  int             `json:"spared"`
}

type simulatedCall struct {
	At        time.Time `json:"at"`
	Tool      string    `json:"tool"`
	Principal string    `json:"principal"`
	Verdict   string    `json:"verdict"` // what the call got then
	Covered   string    `json:"covered"` // yes, no, or depends on arguments
}

func (s simulation) String() string {
	if len(s.Calls) == 0 {
		return "No call was recorded yet, so nothing can be said of what it would have covered."
	}
	text := fmt.Sprintf("It would have covered %d of the last %d calls", s.Covered, len(s.Calls))
	if s.Depends > 0 {
		text += fmt.Sprintf(" (%d more depend on arguments that were not kept)", s.Depends)
	}
	return text + fmt.Sprintf(", and spared %d of %d questions.", s.Spared, s.Asked)
}

func (a *app) grantsSimulate(ctx context.Context, d *desk, terms inbox.Terms, last int) error {
	sim, err := d.simulate(ctx, terms, last)
	if err != nil {
		return err
	}
	if a.json {
		return a.print(map[string]any{"terms": terms, "sentence": terms.Sentence(), "simulation": sim})
	}
	fmt.Fprintln(a.stdout, terms.Sentence())
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, c := range sim.Calls {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", c.At.Local().Format("Jan 02 15:04:05"), inbox.DisplayLine(c.Tool), inbox.DisplayLine(c.Principal), c.Verdict, c.Covered)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.stdout, sim)
	return err
}

// simulate tries the terms on the last audited calls. Definitions are taken to
// have been as they are pinned; the arguments of a call are known where it had
// a ticket, or the audit log kept them.
func (d *desk) simulate(ctx context.Context, terms inbox.Terms, last int) (simulation, error) {
	events, err := recentCalls(d.home, last)
	if err != nil {
		return simulation{}, err
	}
	var calls []inbox.Call
	var matchers []gate.Matcher
	sim := simulation{Calls: []simulatedCall{}}
	for _, e := range events {
		c, m, ok := d.replayed(ctx, e, terms)
		if !ok {
			continue
		}
		calls, matchers = append(calls, c), append(matchers, m)
		sim.Calls = append(sim.Calls, simulatedCall{At: e.Time, Tool: e.Tool, Principal: e.Principal, Verdict: e.Verdict})
	}
	for i, covered := range inbox.Simulate(terms, calls, func(i int) inbox.Matcher { return matchers[i] }) {
		c := &sim.Calls[i]
		c.Covered = coverages[covered]
		asked := c.Verdict == policy.Ask.String() || c.Verdict == policy.Defer.String()
		sim.Covered += count(covered == inbox.Covered)
		sim.Depends += count(covered == inbox.DependsOnArgs)
		sim.Asked += count(asked)
		sim.Spared += count(asked && covered == inbox.Covered)
	}
	return sim, nil
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// replayed is a recorded call as a grant is held against it; false where the
// event was written by a build with other words.
func (d *desk) replayed(ctx context.Context, e audit.Event, terms inbox.Terms) (inbox.Call, gate.Matcher, bool) {
	id, err := catalog.ParseToolID(e.Tool)
	c := inbox.Call{Tool: id, Principal: e.Principal, Session: e.Session, ArgsDigest: e.ArgsDigest}
	if err != nil || c.Class.UnmarshalText([]byte(e.Class)) != nil {
		return c, gate.Matcher{}, false
	}
	c.Server, c.Definition, _ = strings.Cut(terms.Definitions[e.Tool], " ")
	args, known := argsOf(e)
	q := policy.Request{Tool: id, NameUnique: true, Class: c.Class, Principal: e.Principal, Args: args, ArgsUnknown: !known && e.ArgsSize > 0}
	if e.Ticket != "" {
		if t, err := d.store.Ticket(ctx, e.Ticket); err == nil {
			q.Args, q.ArgsUnknown = t.Args, false
		}
	}
	return c, gate.Matcher{Request: q, Resolve: resolve}, true
}

// recentCalls returns the first event of each of the last calls of a home that
// were judged, oldest first.
func recentCalls(home config.Home, last int) ([]audit.Event, error) {
	seen := map[string]bool{}
	records, err := audit.Tail(os.DirFS(home.Audit()), 2*last, func(e audit.Event) bool {
		return e.Tool != "" && (e.Kind == audit.Intent || e.Kind == audit.Refusal || e.Kind == audit.Ask)
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var out []audit.Event
	for _, r := range records {
		if e := r.Event; e.Call == "" || !seen[e.Call] {
			seen[e.Call] = true
			out = append(out, e)
		}
	}
	return out[max(len(out)-last, 0):], nil
}
