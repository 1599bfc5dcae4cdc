package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/inbox"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func (a *app) approverCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "approver", Short: "The keys with which you prove that you decided",
		Long: `An approver key signs what you allow. It lies in the home under a passphrase that
is typed at a terminal each time and is never an argument, a variable or a file.
What that proves, and what it does not, is said in docs/approval.md.`,
	}
	var label, by string
	enroll := &cobra.Command{
		Use: "enroll", Short: "Make a key under a passphrase; a second one needs the passphrase of the first",
		Example: "  mcp-gate approver enroll --label laptop",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withDesk(c.Context(), func(ctx context.Context, d *desk) error { return a.approverEnroll(ctx, d, label, by) })
		},
	}
	enroll.Flags().StringVar(&label, "label", "terminal", "what to call the key in lists")
	enroll.Flags().StringVar(&by, "by", "", "the enrolled key that signs (default any that the passphrase opens)")
	remove := &cobra.Command{
		Use: "remove KEY", Short: "Take a key off the list; any enrolled key may sign that",
		Example: "  mcp-gate approver remove laptop",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withDesk(c.Context(), func(ctx context.Context, d *desk) error { return a.approverRemove(ctx, d, args[0], by) })
		},
	}
	remove.Flags().StringVar(&by, "by", "", "the enrolled key that signs (default any that the passphrase opens)")
	c.AddCommand(enroll, remove, &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the enrolled keys",
		Example: "  mcp-gate approver list",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withDesk(c.Context(), func(_ context.Context, d *desk) error { return a.approverList(d) })
		},
	})
	return c
}

// errNoTerminal says that a passphrase would have to come from elsewhere than
// a terminal, where an agent could put it.
var errNoTerminal = errors.New("a passphrase is typed at a terminal, and this is none: run the command yourself in one")

// errNoApprover says that nobody can prove anything here yet.
var errNoApprover = errors.New("no approver key is enrolled, so nobody can prove that they allow anything: run mcp-gate approver enroll in a terminal")

// passphrase asks for one at the terminal, without echo. The caller clears it.
func (a *app) passphrase(ctx context.Context, prompt string) ([]byte, error) {
	if !isTerminal(a.stdin) {
		return nil, errNoTerminal
	}
	fd := int(a.stdin.(*os.File).Fd())
	// Echo has to be off before the prompt is there: who is quick would see what
	// they type. ReadPassword alone turns it off too late. A line that was typed
	// before the prompt is there counts.
	before, err := term.GetState(fd)
	if err == nil {
		err = echoOff(fd)
	}
	if err != nil {
		return nil, fmt.Errorf("read a passphrase: %w", err)
	}
	fmt.Fprint(a.stderr, prompt)
	type answer struct {
		text []byte
		err  error
	}
	answers := make(chan answer, 1)
	go func() { // ends with the line, or with the process
		text, err := term.ReadPassword(fd)
		answers <- answer{text, err}
	}()
	var got answer
	select {
	case <-ctx.Done():
		got.err = ctx.Err()
	case got = <-answers:
	}
	err = errors.Join(got.err, term.Restore(fd, before))
	fmt.Fprintln(a.stderr)
	if err != nil {
		clear(got.text)
		return nil, fmt.Errorf("read a passphrase: %w", err)
	}
	return got.text, nil
}

func (a *app) approverEnroll(ctx context.Context, d *desk, label, by string) error {
	if !isTerminal(a.stdin) {
		return errors.Join(waits(errNoTerminal), d.recordApprover("was not enrolled", "", "", errNoTerminal))
	}
	var old *inbox.ApproverKey
	if len(d.ring.Approvers()) > 0 {
		var err error
		if old, err = a.unlock(ctx, d, by, "Passphrase of an enrolled key, which has to sign for the new one: "); err != nil {
			return errors.Join(err, d.recordApprover("was not enrolled", "", "", err))
		}
		defer old.Forget()
	} else {
		fmt.Fprintln(a.stderr, "This is the first key of this home: nobody can check who enrols it. Do it before an agent runs here.")
	}
	secret, err := a.newPassphrase(ctx)
	if err != nil {
		return err
	}
	defer clear(secret)
	now := time.Now().UTC()
	key, approver, err := inbox.NewApproverKey(d.ring.Dir(), label, secret, rand.Reader, now)
	if err != nil {
		return err
	}
	defer key.Forget()
	signer := key
	if old != nil {
		signer = old
	}
	err = d.ring.Enroll(approver, signer, now)
	what := "was enrolled"
	if err != nil {
		what = "was not enrolled"
	}
	if err := errors.Join(err, d.recordApprover(what, approver.Key, signer.KeyID(), err)); err != nil {
		return err
	}
	if a.json {
		return a.print(approverDocOf(approver))
	}
	_, err = fmt.Fprintf(a.stdout, "enrolled %s (%s)\nWho knows the passphrase can allow calls from any terminal of this account; nothing can recover it.\n",
		approver.Key, inbox.DisplayLine(approver.Label))
	return err
}

// newPassphrase asks for a passphrase twice.
func (a *app) newPassphrase(ctx context.Context) ([]byte, error) {
	first, err := a.passphrase(ctx, fmt.Sprintf("New passphrase (at least %d characters): ", inbox.MinPassphrase))
	if err != nil {
		return nil, err
	}
	if len(first) < inbox.MinPassphrase {
		clear(first)
		return nil, fmt.Errorf("a passphrase needs at least %d bytes: nothing was enrolled", inbox.MinPassphrase)
	}
	second, err := a.passphrase(ctx, "The same again: ")
	if err == nil && subtle.ConstantTimeCompare(first, second) != 1 {
		err = errors.New("the two passphrases differ: nothing was enrolled")
	}
	clear(second)
	if err != nil {
		clear(first)
		return nil, err
	}
	return first, nil
}

// unlock asks for a passphrase and opens the enrolled key that name says, or
// without a name the first one that it opens. An empty passphrase is a change
// of mind: [errNothingSaid]. The error has the exit code of a decision.
func (a *app) unlock(ctx context.Context, d *desk, name, prompt string) (*inbox.ApproverKey, error) {
	key, err := a.tryPassphrases(ctx, d, name, prompt)
	switch {
	case errors.Is(err, inbox.ErrPassphrase):
		return nil, refusedProof(err)
	case errors.Is(err, errNothingSaid), errors.Is(err, errNoTerminal), errors.Is(err, errNoApprover):
		return nil, waits(err)
	}
	return key, err
}

// passphraseTries is how often a person may mistype.
const passphraseTries = 3

func (a *app) tryPassphrases(ctx context.Context, d *desk, name, prompt string) (*inbox.ApproverKey, error) {
	candidates, err := d.approvers(name)
	if err != nil {
		return nil, err
	}
	var wrong error // of the tries before: what is recorded, whatever comes after
	for try := 1; ; try++ {
		secret, err := a.passphrase(ctx, prompt)
		if err != nil {
			return nil, cmp.Or(wrong, err)
		}
		key, err := d.open(candidates, secret)
		clear(secret)
		switch {
		case errors.Is(err, errNothingSaid):
			return nil, cmp.Or(wrong, err)
		case !errors.Is(err, inbox.ErrPassphrase) || try == passphraseTries:
			return key, err
		}
		wrong = err
		// At once, since who guesses may end the command before the last try.
		if err := d.record(audit.Event{Kind: audit.Note, Channel: inbox.Terminal.String(), Outcome: audit.Error, Note: "a passphrase was typed that opens no enrolled key"}); err != nil {
			return nil, err
		}
		fmt.Fprintf(a.stderr, "That passphrase opens no key; %d of %d tries are left.\n", passphraseTries-try, passphraseTries)
	}
}

// errNothingSaid says that the person pressed Enter and nothing else.
var errNothingSaid = errors.New("no passphrase, so nothing was decided")

// open returns the first of the keys that the passphrase opens.
func (d *desk) open(candidates []inbox.Approver, secret []byte) (*inbox.ApproverKey, error) {
	if len(secret) == 0 {
		return nil, errNothingSaid
	}
	for _, c := range candidates {
		key, err := d.ring.Unlock(c.Key, secret)
		if err == nil {
			return key, nil
		}
		if !errors.Is(err, inbox.ErrPassphrase) {
			return nil, err
		}
	}
	if len(candidates) == 1 {
		return nil, fmt.Errorf("unlock %s: %w", candidates[0].Key, inbox.ErrPassphrase)
	}
	return nil, fmt.Errorf("unlock one of %d keys: %w", len(candidates), inbox.ErrPassphrase)
}

// approvers returns the enrolled keys that a passphrase can open: the one whose
// label is name or whose id begins with it, or all.
func (d *desk) approvers(name string) ([]inbox.Approver, error) {
	var out []inbox.Approver
	for _, k := range d.ring.Approvers() {
		if k.Kind == inbox.KeyPassphrase && (name == "" || k.Label == name || strings.HasPrefix(k.Key, name)) {
			out = append(out, k)
		}
	}
	switch {
	case name == "" && len(out) == 0:
		return nil, errNoApprover
	case len(out) == 0:
		return nil, usage(fmt.Errorf("no enrolled key is called %q: mcp-gate approver list shows them", name))
	case name != "" && len(out) > 1:
		return nil, usage(fmt.Errorf("%q could be any of %d keys", name, len(out)))
	}
	return out, nil
}

func (a *app) approverRemove(ctx context.Context, d *desk, name, by string) error {
	goes, err := d.approvers(name)
	if err != nil {
		return err
	}
	key := goes[0]
	signer, err := a.unlock(ctx, d, by, fmt.Sprintf("Passphrase of an enrolled key, to remove %s (%s): ", key.Key, inbox.DisplayLine(key.Label)))
	if err != nil {
		return errors.Join(err, d.recordApprover("was not removed", key.Key, "", err))
	}
	defer signer.Forget()
	err = d.ring.Remove(key.Key, signer, time.Now())
	what := "was removed"
	if err != nil {
		what = "was not removed"
	}
	if err := errors.Join(err, d.recordApprover(what, key.Key, signer.KeyID(), err)); err != nil {
		return err
	}
	if a.json {
		return a.print(approverDocOf(key))
	}
	fmt.Fprintf(a.stdout, "removed %s\n", key.Key)
	if len(d.ring.Approvers()) == 1 {
		fmt.Fprintln(a.stderr, "mcp-gate: that was the last key: whatever needs one waits until another is enrolled")
	}
	return nil
}

// recordApprover writes down what became of a key, or of an attempt.
func (d *desk) recordApprover(what, key, by string, failure error) error {
	if errors.Is(failure, errNothingSaid) {
		return nil
	}
	note := "approver key " + what
	if key != "" {
		note = "approver key " + key + " " + what
	}
	e := audit.Event{Kind: audit.Note, Channel: inbox.Terminal.String(), Outcome: audit.OK, Note: note}
	if by != "" {
		e.Note += ", signed by " + by
	}
	if failure != nil {
		e.Outcome, e.Note = audit.Error, note+": "+failure.Error()
	}
	return d.record(e)
}

// approverDoc is an enrolled key in JSON output.
type approverDoc struct {
	Key     string        `json:"key"`
	Kind    inbox.KeyKind `json:"kind"`
	Label   string        `json:"label"`
	Created time.Time     `json:"created"`
}

func approverDocOf(k inbox.Approver) approverDoc {
	return approverDoc{k.Key, k.Kind, k.Label, k.Created}
}

func (a *app) approverList(d *desk) error {
	docs := []approverDoc{}
	for _, k := range d.ring.Approvers() {
		docs = append(docs, approverDocOf(k))
	}
	if a.json {
		return a.print(map[string]any{"approvers": docs, "reach": d.ring.Reach()})
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, k := range docs {
		fmt.Fprintf(w, "%s\t%v\t%s\t%s\n", k.Key, k.Kind, k.Created.UTC().Format(time.DateOnly), inbox.DisplayLine(k.Label))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(docs) == 0 {
		fmt.Fprintln(a.stderr, "mcp-gate: no approver key is enrolled: calls that need one wait. mcp-gate approver enroll makes one")
	}
	return nil
}
