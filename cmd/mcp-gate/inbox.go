package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/inbox"
	"github.com/mcp-gate/mcp-gate/store"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func (a *app) inboxCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "inbox", Short: "The questions that only you can answer",
		Long: `Calls that need a person wait here. On a terminal, without a further word, this
is interactive: ? shows the keys. Elsewhere it is the same as inbox ls.
A unique beginning of a ticket is enough wherever one is named.`,
		Args: knownCommand,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withDesk(c.Context(), func(ctx context.Context, d *desk) error {
				if !a.json && isTerminal(a.stdin) && isTerminal(a.stdout) {
					return a.inboxInteractive(ctx, d)
				}
				return a.inboxList(ctx, d, "open")
			})
		},
	}
	c.AddCommand(a.inboxListCommand(), a.inboxShowCommand(), a.inboxApproveCommand(), a.inboxDenyCommand(),
		a.inboxSettleCommand(), a.inboxRunCommand(), a.inboxStatsCommand())
	return c
}

func (a *app) inboxListCommand() *cobra.Command {
	var states string
	c := &cobra.Command{
		Use: "ls", Short: "List what waits, newest first",
		Example: "  mcp-gate inbox ls --state all",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withDesk(c.Context(), func(ctx context.Context, d *desk) error { return a.inboxList(ctx, d, states) })
		},
	}
	c.Flags().StringVar(&states, "state", "open", "open, all, or states with commas between: "+strings.Join(stateWords(), ", "))
	return c
}

func (a *app) inboxShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show TICKET", Short: "Show one call in full, as it would run",
		Example: "  mcp-gate inbox show t_k3v",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withDesk(c.Context(), func(ctx context.Context, d *desk) error { return a.inboxShow(ctx, d, args[0]) })
		},
	}
}

func (a *app) inboxApproveCommand() *cobra.Command {
	var by string
	c := &cobra.Command{
		Use: "approve TICKET...", Short: "Allow a call once, with the passphrase of your approver key",
		Example: "  mcp-gate inbox approve t_k3v",
		Long: `Show each call in full and allow it once, signed with your approver key, whose
passphrase is typed at the terminal. Enter alone allows nothing. Several calls
at once must be of one tool and one class, and never destructive.

Exit codes: 5 the proof was refused, 6 nothing was decided and the call waits.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withDesk(c.Context(), func(ctx context.Context, d *desk) error { return a.inboxApprove(ctx, d, args, by) })
		},
	}
	c.Flags().StringVar(&by, "by", "", "the enrolled key that signs (default any that the passphrase opens)")
	return c
}

func (a *app) inboxDenyCommand() *cobra.Command {
	var note string
	c := &cobra.Command{
		Use: "deny TICKET...", Short: "Refuse a call; needs no proof",
		Example: "  mcp-gate inbox deny t_k3v --note 'use the test folder'",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withDesk(c.Context(), func(ctx context.Context, d *desk) error { return a.inboxDeny(ctx, d, args, note) })
		},
	}
	c.Flags().StringVar(&note, "note", "", "a sentence for the model: why, or what to do instead")
	return c
}

func (a *app) inboxSettleCommand() *cobra.Command {
	var done, failed bool
	var note, by string
	c := &cobra.Command{
		Use: "settle TICKET", Short: "Say, after looking, whether a call happened that nobody knows about",
		Example: "  mcp-gate inbox settle t_k3v --done --note 'the issue is there'",
		Long: `A call that was under way when its gate died may or may not have happened. Look
at the server, then say which; nothing runs the call again by itself.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if done == failed {
				return usage(errors.New("give one of --done and --failed"))
			}
			v := inbox.SettleDone
			if failed {
				v = inbox.SettleFailed
			}
			return a.withDesk(c.Context(), func(ctx context.Context, d *desk) error { return a.inboxSettle(ctx, d, args[0], v, note, by) })
		},
	}
	c.Flags().BoolVar(&done, "done", false, "it did happen")
	c.Flags().BoolVar(&failed, "failed", false, "it did not")
	c.Flags().StringVar(&note, "note", "", "what you found")
	c.Flags().StringVar(&by, "by", "", "the enrolled key that signs (default any that the passphrase opens)")
	return c
}

func (a *app) inboxStatsCommand() *cobra.Command {
	var within time.Duration
	c := &cobra.Command{
		Use: "stats", Short: "How often you were asked, how long you took, what you were spared",
		Example: "  mcp-gate inbox stats --within 24h",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withDesk(c.Context(), func(ctx context.Context, d *desk) error { return a.inboxStats(ctx, d, within) })
		},
	}
	c.Flags().DurationVar(&within, "within", 7*24*time.Hour, "how far back to count")
	return c
}

func stateWords() []string {
	var words []string
	for _, s := range inbox.States() {
		words = append(words, s.String())
	}
	return words
}

// parseStates reads what --state takes. Nil is all of them.
func parseStates(text string) ([]inbox.State, error) {
	switch text {
	case "all":
		return nil, nil
	case "open":
		return openStates(), nil
	}
	var out []inbox.State
	for _, word := range strings.Split(text, ",") {
		var s inbox.State
		if err := s.UnmarshalText([]byte(strings.TrimSpace(word))); err != nil {
			return nil, usage(fmt.Errorf("--state: %w; or open, or all", err))
		}
		out = append(out, s)
	}
	return out, nil
}

// openStates are those in which a ticket still wants something.
func openStates() []inbox.State {
	return slices.DeleteFunc(inbox.States(), func(s inbox.State) bool { return !s.Open() })
}

// list returns the tickets in one of the states, newest first, each as it is
// now: what expired since it was last looked at is expired.
func (d *desk) list(ctx context.Context, states []inbox.State) ([]inbox.Ticket, error) {
	q := inbox.Query{States: states}
	if states != nil { // those that may have expired in the meantime
		q.States = append(slices.Clone(states), inbox.Pending, inbox.Approved)
	}
	stored, err := d.Tickets(ctx, q)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	var out []inbox.Ticket
	for _, t := range stored {
		if (t.State == inbox.Pending || t.State == inbox.Approved) && !now.Before(t.Binding.Expires) {
			if t, err = d.Ticket(ctx, t.ID); err != nil {
				return nil, err
			}
		}
		if states == nil || slices.Contains(states, t.State) {
			out = append(out, t)
		}
	}
	return out, nil
}

// find returns the ticket that a person named on the command line.
func (d *desk) find(ctx context.Context, name string) (inbox.Ticket, error) {
	if name == "" { // an unset variable of a script, not the one ticket there is
		return inbox.Ticket{}, usage(errors.New("no ticket is named: mcp-gate inbox ls lists them"))
	}
	if !strings.HasPrefix(name, "t_") {
		name = "t_" + name
	}
	t, err := d.Ticket(ctx, name)
	if errors.Is(err, inbox.ErrNotFound) {
		return t, usage(fmt.Errorf("%w: mcp-gate inbox ls --state all lists them", err))
	}
	return t, err
}

// ticketDoc is a ticket in lists of JSON output.
type ticketDoc struct {
	ID         string                `json:"id"`
	State      inbox.State           `json:"state"`
	Tool       string                `json:"tool"`
	Class      engagement.Permission `json:"class"`
	Level      inbox.Level           `json:"level"`
	Principal  string                `json:"principal"`
	Client     string                `json:"client,omitempty"`
	Session    string                `json:"session,omitempty"`
	Created    time.Time             `json:"created"`
	Expires    time.Time             `json:"expires"`
	Decided    time.Time             `json:"decided,omitzero"`
	Finished   time.Time             `json:"finished,omitzero"`
	CallerGone bool                  `json:"caller_gone,omitempty"`
	Note       string                `json:"note,omitempty"`
}

func ticketDocOf(t inbox.Ticket) ticketDoc {
	return ticketDoc{
		ID: t.ID, State: t.State, Tool: t.View.Tool.String(), Class: t.View.Class, Level: t.Level,
		Principal: t.Binding.Principal, Client: t.View.Client, Session: t.Binding.Session,
		Created: t.Created, Expires: t.Binding.Expires, Decided: t.Decided, Finished: t.Finished, CallerGone: t.CallerGone, Note: t.Note,
	}
}

// shortID is enough of a ticket's id for a person to name it by.
func shortID(id string) string { return id[:min(len(id), 10)] }

func (a *app) inboxList(ctx context.Context, d *desk, states string) error {
	wanted, err := parseStates(states)
	if err != nil {
		return err
	}
	tickets, err := d.list(ctx, wanted)
	if err != nil {
		return err
	}
	if a.json {
		docs := []ticketDoc{}
		for _, t := range tickets {
			docs = append(docs, ticketDocOf(t))
		}
		return a.print(map[string]any{"tickets": docs})
	}
	if len(tickets) == 0 {
		_, err := fmt.Fprintln(a.stdout, "nothing waits for you")
		return err
	}
	now := time.Now()
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, t := range tickets {
		fmt.Fprintf(w, "%s\t%v\t%v\t%s\t%s\t%s\n", shortID(t.ID), t.State, t.View.Class, inbox.DisplayLine(t.View.Tool.String()),
			inbox.DisplayLine(t.Binding.Principal), ticketTime(t, now))
	}
	return w.Flush()
}

// ticketTime says in a few words what time means for a ticket now.
func ticketTime(t inbox.Ticket, now time.Time) string {
	switch {
	case t.State == inbox.Pending || t.State == inbox.Approved:
		return "asked " + span(now.Sub(t.Created)) + " ago, " + span(t.Binding.Expires.Sub(now)) + " left"
	case t.State == inbox.Running:
		return "runs for " + span(now.Sub(t.Started))
	}
	return span(now.Sub(t.Finished)) + " ago"
}

// span is a duration in its largest unit.
func span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}

// columns is how wide the person's terminal is; 100 where there is none.
func (a *app) columns(stream any) int {
	if f, ok := stream.(*os.File); ok && isTerminal(stream) {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return min(w, 160)
		}
	}
	return 100
}

// cardDoc is a card in JSON output: the strings are fit to be seen.
type cardDoc struct {
	Sentence string   `json:"sentence"`
	Rows     []rowDoc `json:"rows"`
}

type rowDoc struct {
	Label    string `json:"label"`
	Text     string `json:"text"`
	Argument bool   `json:"argument,omitempty"`
	Changed  bool   `json:"changed,omitempty"`
}

func cardDocOf(c inbox.Card) cardDoc {
	doc := cardDoc{Sentence: c.Sentence, Rows: []rowDoc{}}
	for _, r := range c.Rows {
		doc.Rows = append(doc.Rows, rowDoc{r.Label, r.Text, r.Argument, r.Changed})
	}
	return doc
}

func (a *app) inboxShow(ctx context.Context, d *desk, name string) error {
	t, err := d.find(ctx, name)
	if err != nil {
		return err
	}
	if !a.json {
		_, err := fmt.Fprint(a.stdout, t.Card().Render(a.columns(a.stdout)))
		return err
	}
	doc := map[string]any{"ticket": t, "card": cardDocOf(t.Card())}
	dec, err := d.store.Decision(ctx, t.ID)
	if err == nil {
		doc["decision"] = dec
	} else if !errors.Is(err, inbox.ErrNotFound) {
		return err
	}
	return a.print(doc)
}

// waits marks an error that leaves the ticket waiting for a person.
func waits(err error) error { return &exitError{exitWaits, err} }

// refusedProof marks an error of proof: the answer did not count.
func refusedProof(err error) error { return &exitError{exitRefused, err} }

// provable reports why no key of this home could prove a yes to the ticket.
func (d *desk) provable(t inbox.Ticket) error {
	if len(d.ring.Approvers()) == 0 {
		return waits(errNoApprover)
	}
	if reach := d.ring.Reach(); !reach.AtLeast(t.Level) {
		return refusedProof(&inbox.LevelError{Ticket: t.ID, Have: reach, Need: t.Level})
	}
	return nil
}

// approvable reports why the tickets cannot be allowed together.
func (d *desk) approvable(tickets []inbox.Ticket) error {
	for _, t := range tickets {
		if t.State != inbox.Pending {
			return &inbox.StateError{Ticket: t.ID, Have: t.State, To: inbox.Approved}
		}
		if err := d.provable(t); err != nil {
			return err
		}
		if len(tickets) == 1 {
			continue
		}
		if t.View.Class == engagement.Destructive {
			return usage(fmt.Errorf("%s is destructive: such calls are allowed one at a time", t.ID))
		}
		if t.View.Tool != tickets[0].View.Tool || t.View.Class != tickets[0].View.Class {
			return usage(errors.New("several calls at once must be of one tool and one class"))
		}
	}
	return nil
}

func (a *app) inboxApprove(ctx context.Context, d *desk, names []string, by string) error {
	tickets := make([]inbox.Ticket, len(names))
	for i, name := range names {
		var err error
		if tickets[i], err = d.find(ctx, name); err != nil {
			return err
		}
	}
	key, err := a.askToAllow(ctx, d, tickets, by)
	if err != nil {
		return errors.Join(err, d.recordFailure(tickets, inbox.Allow, err))
	}
	defer key.Forget()
	var docs []ticketDoc
	for _, t := range tickets {
		after, err := d.allow(ctx, t, key)
		if err != nil {
			return err
		}
		docs = append(docs, ticketDocOf(after))
		if !a.json {
			fmt.Fprintf(a.stdout, "allowed %s once: %s\n", shortID(t.ID), d.whoRuns(ctx, after))
		}
	}
	if a.json {
		return a.print(map[string]any{"tickets": docs})
	}
	return nil
}

// askToAllow shows the calls in full and returns the key that the person
// unlocked to allow them.
func (a *app) askToAllow(ctx context.Context, d *desk, tickets []inbox.Ticket, by string) (*inbox.ApproverKey, error) {
	if err := d.approvable(tickets); err != nil {
		return nil, err
	}
	for _, t := range tickets {
		fmt.Fprintf(a.stderr, "%s\n", t.Card().Render(a.columns(a.stderr)))
	}
	what := "this call"
	if len(tickets) > 1 {
		what = fmt.Sprintf("these %d calls", len(tickets))
	}
	return a.unlock(ctx, d, by, "Passphrase to ALLOW "+what+" once (Enter alone allows nothing): ")
}

// allow signs a yes to the ticket as it was shown, and stores it.
func (d *desk) allow(ctx context.Context, t inbox.Ticket, key inbox.Signer) (inbox.Ticket, error) {
	dec, err := d.Draft(t, inbox.Allow, d.ring.Reach(), inbox.Terminal, "").Sign(key)
	if err != nil {
		return t, err
	}
	after, err := d.Decide(ctx, dec)
	return after, errors.Join(err, d.recordDecision(t, dec, err))
}

// deny stores a no, which needs no proof.
func (d *desk) deny(ctx context.Context, t inbox.Ticket, note string) (inbox.Ticket, error) {
	dec := d.Draft(t, inbox.Deny, inbox.L0, inbox.Terminal, note)
	after, err := d.Deny(ctx, t.ID, inbox.Terminal, note)
	return after, errors.Join(err, d.recordDecision(t, dec, err))
}

// recordFailure writes down that somebody tried to decide and could not. A
// change of mind is no attempt.
func (d *desk) recordFailure(tickets []inbox.Ticket, v inbox.Verdict, failure error) error {
	if errors.Is(failure, errNothingSaid) {
		return nil
	}
	var errs []error
	for _, t := range tickets {
		errs = append(errs, d.recordDecision(t, d.Draft(t, v, inbox.L0, inbox.Terminal, ""), failure))
	}
	return errors.Join(errs...)
}

// whoRuns says who will run an allowed call.
func (d *desk) whoRuns(ctx context.Context, t inbox.Ticket) string {
	if t.State != inbox.Approved {
		return "it is " + t.State.String()
	}
	p, err := d.store.Process(ctx, t.Owner)
	switch {
	case err == nil && store.Life(p) == inbox.Alive:
		return fmt.Sprintf("its gate (process %d) runs it now", p.PID)
	case err == nil && store.Life(p) == inbox.Unclear:
		return "its gate is on another host and runs it if it lives"
	}
	if live, err := gates(d.home); err == nil && len(live) > 0 {
		return fmt.Sprintf("its gate is gone: another one (process %d) runs it if it has the server, else mcp-gate inbox run", live[0].PID)
	}
	return "its gate is gone and no other runs: mcp-gate inbox run runs it now, else the next mcp-gate serve does"
}

func (a *app) inboxDeny(ctx context.Context, d *desk, names []string, note string) error {
	if len(note) > inbox.MaxNote {
		return usage(fmt.Errorf("a note of %d bytes is longer than %d", len(note), inbox.MaxNote))
	}
	var docs []ticketDoc
	for _, name := range names {
		t, err := d.find(ctx, name)
		if err != nil {
			return err
		}
		after, err := d.deny(ctx, t, note)
		if err != nil {
			return err
		}
		docs = append(docs, ticketDocOf(after))
		if !a.json {
			fmt.Fprintf(a.stdout, "denied %s: %s\n", shortID(t.ID), inbox.DisplayLine(t.View.Tool.String()))
		}
	}
	if a.json {
		return a.print(map[string]any{"tickets": docs})
	}
	return nil
}

func (a *app) inboxSettle(ctx context.Context, d *desk, name string, v inbox.Verdict, note, by string) error {
	t, err := d.find(ctx, name)
	if err != nil {
		return err
	}
	key, err := a.askToSettle(ctx, d, t, v, by)
	if err != nil {
		return errors.Join(err, d.recordFailure([]inbox.Ticket{t}, v, err))
	}
	dec, err := d.Draft(t, v, d.ring.Reach(), inbox.Terminal, note).Sign(key)
	if err != nil {
		return err
	}
	after, err := d.Settle(ctx, dec)
	if err := errors.Join(err, d.recordDecision(t, dec, err)); err != nil {
		return err
	}
	if a.json {
		return a.print(ticketDocOf(after))
	}
	_, err = fmt.Fprintf(a.stdout, "%s is %v\n", shortID(t.ID), after.State)
	return err
}

// askToSettle shows the call and returns the key that signs what the person
// found: an approver's, or the gate's own where no key is enrolled and the call
// needed none.
func (a *app) askToSettle(ctx context.Context, d *desk, t inbox.Ticket, v inbox.Verdict, by string) (inbox.Signer, error) {
	if t.State != inbox.Unknown && t.State != inbox.Running {
		to := map[inbox.Verdict]inbox.State{inbox.SettleDone: inbox.Done, inbox.SettleFailed: inbox.Failed}[v]
		return nil, &inbox.StateError{Ticket: t.ID, Have: t.State, To: to}
	}
	if len(d.ring.Approvers()) == 0 && t.Level == inbox.L0 {
		return d.gate, nil
	}
	if err := d.provable(t); err != nil {
		return nil, err
	}
	what := map[inbox.Verdict]string{inbox.SettleDone: "DID happen", inbox.SettleFailed: "did NOT happen"}[v]
	fmt.Fprintf(a.stderr, "%s\n", t.Card().Render(a.columns(a.stderr)))
	return a.unlock(ctx, d, by, "Passphrase to say that this call "+what+": ")
}

func (a *app) inboxStats(ctx context.Context, d *desk, within time.Duration) error {
	st, err := d.Stats(ctx, time.Now().Add(-within))
	if err != nil {
		return err
	}
	if a.json {
		return a.print(st)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "asked\t%s in %s\n", many(st.Asks, "time"), span(within))
	for _, state := range slices.Sorted(maps.Keys(st.States)) {
		fmt.Fprintf(w, "  %s\t%d\n", state, st.States[state])
	}
	for _, c := range st.Answers {
		fmt.Fprintf(w, "answered\t%d %v, by %v at %v\n", c.Count, c.Verdict, c.Channel, c.Level)
	}
	if len(st.Took) > 0 {
		fmt.Fprintf(w, "took you\t%s as a rule, %s for the slowest tenth\n", millis(st.Took["p50"]), millis(st.Took["p90"]))
	}
	fmt.Fprintf(w, "spared\t%d by grants, %d by review\n", st.Grants, st.Reviews)
	return w.Flush()
}

func millis(n int64) string { return span(time.Duration(n) * time.Millisecond) }
