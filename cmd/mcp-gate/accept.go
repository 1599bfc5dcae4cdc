package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"log/slog"

	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/config"
	"github.com/mcp-gate/mcp-gate/inbox"
	"github.com/spf13/cobra"
)

// acceptance is the record of accepted definitions of this home, as the gate
// asks it.
type acceptance struct {
	ledger *catalog.Ledger
	log    *slog.Logger

	mu      sync.Mutex               // guards what follows
	servers map[string]config.Server // by alias
	lock    catalog.Lock
	broken  string                    // why it cannot be read, as it was told last
	judged  map[string]catalog.Record // by alias, the record that its offer was judged by
}

func newAcceptance(home config.Home, cfg config.Config, log *slog.Logger) *acceptance {
	a := &acceptance{ledger: catalog.NewLedger(home.Lock(), home.Catalog()), log: log, judged: map[string]catalog.Record{}}
	a.replace(cfg)
	a.reload()
	return a
}

// replace takes up what the owner says of the servers now.
func (a *acceptance) replace(cfg config.Config) {
	servers := map[string]config.Server{}
	for _, s := range cfg.Servers {
		servers[s.Alias] = s
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.servers = servers
}

func (a *acceptance) reload() catalog.Lock {
	lock, err := a.ledger.Load()
	if a.isNews(err) {
		a.log.Error("every tool is held: the record of what was accepted cannot be read", "error", err, "try", "mend the line, or put mcp-gate.lock back as it was, then mcp-gate accept")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lock = lock
	return lock
}

// isNews reports whether a lock cannot be read for another reason than last time: it is
// read for each server.
func (a *acceptance) isNews(err error) bool {
	why := ""
	if err != nil {
		why = err.Error()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	told := a.broken == why
	a.broken = why
	return err != nil && !told
}

func (a *acceptance) Known(alias string) (entries []catalog.Entry, text string, bare bool) {
	entries, text = a.recorded(alias, func(lock catalog.Lock, s config.Server) ([]catalog.Entry, error) {
		record, known := lock.Servers[s.Key]
		bare = lock.Broken == nil && (!known || record.Bare) && a.ledger.Bare(s.Key, s.ID())
		return a.ledger.Entries(lock, s.Key, s.ID(), ownerOf(s))
	})
	return entries, text, bare
}

func (a *acceptance) Silent(alias string) {
	a.mu.Lock()
	s := a.servers[alias]
	a.mu.Unlock()
	a.ledger.NoteSilent(s.Key, s.ID())
}

func (a *acceptance) recorded(alias string, entries func(catalog.Lock, config.Server) ([]catalog.Entry, error)) ([]catalog.Entry, string) {
	a.mu.Lock()
	lock, s := a.lock, a.servers[alias]
	a.mu.Unlock()
	found, err := entries(lock, s)
	if err != nil {
		a.log.Warn("an accepted definition is lost", "server", alias, "error", err)
	}
	record := lock.Servers[s.Key]
	if lock.Broken != nil || record.ServerID != s.ID() || record.Instructions == nil {
		return found, ""
	}
	return found, record.Instructions.Text
}

func (a *acceptance) Offer(alias string, o catalog.Offer) (catalog.Judgement, []catalog.Entry, string) {
	j, err := a.ledger.Take(o)
	lock := a.reload()
	if err != nil && lock.Broken == nil { // else it is told of already
		a.log.Error("what a server offers could not be recorded", "server", alias, "error", err)
	}
	a.mu.Lock()
	a.judged[alias] = lock.Servers[a.servers[alias].Key]
	a.mu.Unlock()
	entries, text := a.recorded(alias, func(lock catalog.Lock, s config.Server) ([]catalog.Entry, error) {
		return a.ledger.Shown(lock, o, ownerOf(s))
	})
	return j, entries, text
}

// changed reads the record anew and names the servers whose offers were judged
// by another: somebody accepted, or took back, in another process.
func (a *acceptance) changed() []string {
	lock := a.reload()
	a.mu.Lock()
	defer a.mu.Unlock()
	var aliases []string
	for alias, before := range a.judged {
		if !reflect.DeepEqual(lock.Servers[a.servers[alias].Key], before) {
			aliases = append(aliases, alias)
		}
	}
	return aliases
}

func (a *app) acceptCommand() *cobra.Command {
	var all, yes bool
	c := &cobra.Command{
		Use:     "accept [TOOL...]",
		Example: "  mcp-gate accept files/write_file",
		Short:   "Look at definitions that are held back, and accept them",
		Long: `Without a TOOL, show what is held back and why: definitions that changed since they
were accepted, tools that came later, findings of the scanner, and tools that are
gone. Exit code 3 if there is anything. A server that does not answer cannot be
looked at: it is named with the reason, and the exit code is 1 if nothing is held.

With TOOLs (server/tool, 'server/*' for all of a server, or just server for its
instructions), or --all, show them and accept what was shown, after a yes. Once an approver key is enrolled its
passphrase is the yes.`,
		RunE: func(c *cobra.Command, names []string) error { return a.accept(c.Context(), names, all, yes) },
	}
	c.Flags().BoolVar(&all, "all", false, "accept everything that is held back")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask, where no approver key is enrolled")
	return c
}

// heldDoc is a held definition in JSON output.
type heldDoc struct {
	Tool     string            `json:"tool"` // server/tool; server alone: its instructions
	State    catalog.State     `json:"state"`
	Why      string            `json:"why"`
	Changes  []string          `json:"changes,omitempty"`
	Findings []catalog.Finding `json:"findings,omitempty"`
}

// held is one thing that waits for a person, and how it would be accepted.
type held struct {
	heldDoc
	offer catalog.Offer
	pick  catalog.Pick
}

// isNamed reports whether an argument of the command means it.
func (h held) isNamed(name string) bool {
	server, _, _ := strings.Cut(h.Tool, "/")
	return name == h.Tool || name == server+"/*"
}

// isLike reports whether the same is to be said of both.
func (h held) isLike(o held) bool {
	return h.State == o.State && h.Why == o.Why && slices.Equal(h.Changes, o.Changes) && len(h.Findings)+len(o.Findings) == 0
}

func (a *app) accept(ctx context.Context, names []string, all, yes bool) (err error) {
	e, err := a.startSettled(ctx, engineOptions{standing: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	waiting, err := e.held()
	if err != nil {
		return err
	}
	unseen := e.unseen()
	if len(names) > 0 {
		for _, name := range names {
			server, _, _ := strings.Cut(name, "/")
			if i := slices.IndexFunc(unseen, func(u unseenDoc) bool { return u.Server == server }); i >= 0 {
				return fmt.Errorf("%s cannot be looked at: %s", name, unseen[i].Why)
			}
			if !slices.ContainsFunc(waiting, func(h held) bool { return h.isNamed(name) }) {
				return usage(fmt.Errorf("%q is not held back: mcp-gate accept lists what is", name))
			}
		}
		waiting = slices.DeleteFunc(waiting, func(h held) bool { return !slices.ContainsFunc(names, h.isNamed) })
	}
	if err := a.showHeld(waiting, unseen); err != nil {
		return err
	}
	if len(waiting) == 0 {
		if len(unseen) > 0 {
			return &exitError{exitFailed, nil}
		}
		return nil
	}
	if len(names) == 0 && !all {
		if first := waiting[0].Tool; !a.json {
			server, _, _ := strings.Cut(first, "/")
			fmt.Fprintf(a.stderr, "mcp-gate: to accept what you looked at: mcp-gate accept %s, or '%s/*', or --all\n", inbox.DisplayLine(first), inbox.DisplayLine(server))
		}
		return &exitError{3, nil}
	}
	if err := a.acceptYes(ctx, len(waiting), yes); err != nil {
		return err
	}
	if err := e.take(waiting); err != nil || a.json {
		return err
	}
	for _, h := range waiting {
		fmt.Fprintf(a.stdout, "accepted %s\n", inbox.DisplayLine(h.Tool))
	}
	return nil
}

// unseenDoc is a server of which nobody knows whether it changed.
type unseenDoc struct {
	Server string `json:"server"`
	Why    string `json:"why"`
}

// unseen are the servers that could not be looked at. Entries that are left out have
// been told of by then.
func (e *engine) unseen() []unseenDoc {
	docs := []unseenDoc{}
	for _, s := range e.pool.Status() {
		switch {
		case !s.Listed:
			docs = append(docs, unseenDoc{s.Alias, serverError(s).Error()})
		case s.Suspect != "":
			docs = append(docs, unseenDoc{s.Alias, "what it lists now was not taken: " + s.Suspect})
		}
	}
	return docs
}

func (a *app) showHeld(waiting []held, unseen []unseenDoc) error {
	if a.json {
		docs := []heldDoc{}
		for _, h := range waiting {
			docs = append(docs, h.heldDoc)
		}
		return a.print(map[string]any{"held": docs, "not_seen": unseen})
	}
	for _, u := range unseen {
		fmt.Fprintf(a.stderr, "mcp-gate: %s was not looked at: %s\n", inbox.DisplayLine(u.Server), inbox.DisplayLine(u.Why))
	}
	switch {
	case len(waiting) > 0:
	case len(unseen) > 0:
		fmt.Fprintln(a.stdout, "nothing is held back of the servers that were looked at")
	default:
		fmt.Fprintln(a.stdout, "nothing is held back")
	}
	alike := len(waiting) > 1 && !slices.ContainsFunc(waiting, func(h held) bool { return h.State != waiting[0].State || h.Why != waiting[0].Why })
	if alike {
		fmt.Fprintf(a.stdout, "all %d are %v: %s\n", len(waiting), waiting[0].State, inbox.DisplayLine(waiting[0].Why))
	}
	for i, h := range waiting {
		why := fmt.Sprintf("  %v: %s", h.State, inbox.DisplayLine(h.Why))
		if alike { // said above
			why = ""
		}
		fmt.Fprintf(a.stdout, "%s%s\n", inbox.DisplayLine(h.Tool), why)
		if i+1 < len(waiting) && h.isLike(waiting[i+1]) {
			continue // once, below the last of them
		}
		for _, c := range h.Changes {
			fmt.Fprintf(a.stdout, "    %s\n", strings.ReplaceAll(strings.TrimSuffix(c, "\n"), "\n", "\n    "))
		}
		for _, f := range h.Findings {
			fmt.Fprintf(a.stdout, "    %v %s at %s: %s\n", f.Tier, f.Kind, catalog.Visible(f.Where), catalog.Visible(f.Text))
		}
	}
	return nil
}

// acceptYes gets the person's yes: an approver's passphrase where a key is
// enrolled, else a typed yes.
func (a *app) acceptYes(ctx context.Context, n int, yes bool) (err error) {
	d, err := a.openDesk()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if len(d.ring.Approvers()) > 0 {
		_, err := a.unlock(ctx, d, "", fmt.Sprintf("Passphrase, to accept these %d: ", n))
		return err
	}
	if yes {
		return nil
	}
	fmt.Fprintf(a.stderr, "Accept these %d? Type yes to accept: ", n)
	line, _ := bufio.NewReader(a.in()).ReadString('\n')
	if strings.TrimSpace(line) != "yes" {
		return errors.New("nothing was accepted")
	}
	return nil
}

// held lists what waits, server by server.
func (e *engine) held() ([]held, error) {
	ledger := catalog.NewLedger(e.home.Lock(), e.home.Catalog())
	lock, err := ledger.Load()
	if err != nil {
		return nil, err
	}
	var all []held
	for _, s := range e.cfg.Servers {
		o, ok := e.offerOf(s)
		if !ok {
			continue // not up: what is accepted of it stays
		}
		j := lock.Judge(o)
		for _, st := range j.Tools {
			if st.State != catalog.Accepted {
				h := heldTool(ledger, o, st)
				if before := lock.Servers[s.Key].ServerID; before != "" && before != s.ID() {
					h.Changes = append([]string{"its server is now " + startedBy(s.Written)}, h.Changes...)
				}
				all = append(all, h)
			}
		}
		if t := j.Instructions; t.State != 0 && t.State != catalog.Accepted {
			all = append(all, heldText(o, s.Alias, t))
		}
	}
	return all, nil
}

// startedBy says how a server is started or reached, as its owner wrote it:
// variables keep their names.
func startedBy(e config.Endpoint) string {
	words := append([]string{cmp.Or(e.URL, e.Command)}, e.Args...)
	for i, w := range words {
		if words[i] = catalog.Visible(w); strings.ContainsAny(w, " \t\n") || w == "" {
			words[i] = strconv.Quote(words[i])
		}
	}
	return strings.Join(words, " ")
}

func heldTool(ledger *catalog.Ledger, o catalog.Offer, st catalog.Status) held {
	h := held{heldDoc{Tool: st.ID.String(), State: st.State, Why: st.Why}, o, catalog.Pick{Tool: st.ID.Tool}}
	if st.Offered == nil {
		return h
	}
	h.pick.Digest, h.Findings = st.Offered.Tool.Digest, st.Offered.Findings
	old, err := ledger.Definition(st.ID, st.Pinned)
	if err != nil { // never accepted, or lost: all of it is new
		h.Changes = []string{catalog.Visible(string(st.Offered.Tool.Raw))}
		return h
	}
	changes, err := catalog.Diff(old.Raw, st.Offered.Tool.Raw)
	if err != nil {
		h.Changes = []string{err.Error()}
	}
	if err == nil && len(changes) == 0 {
		h.Changes = append(h.Changes, "its definition is the accepted one")
	}
	for _, c := range changes {
		h.Changes = append(h.Changes, c.Text(nil))
	}
	return h
}

func heldText(o catalog.Offer, alias string, t catalog.TextStatus) held {
	h := held{heldDoc{Tool: alias, State: t.State, Why: t.Why}, o, catalog.Pick{Digest: t.Digest}}
	if t.Pinned != nil {
		h.Changes = append(h.Changes, "was: "+catalog.Visible(t.Pinned.Text))
	}
	h.Changes = append(h.Changes, "now: "+catalog.Visible(t.Text))
	return h
}

// offerOf is what a server shows now.
func (e *engine) offerOf(s config.Server) (catalog.Offer, bool) {
	listing, ok := e.pool.Listing(s.Alias)
	if !ok {
		return catalog.Offer{}, false
	}
	var tools, beside []catalog.Tool
	for _, raw := range listing.Tools {
		if t, err := catalog.NewTool(s.Alias, raw); err == nil { // the gate has reported the others
			tools = append(tools, t)
		}
	}
	for _, t := range e.gate.Tools().Entries() {
		if t.ID.Server != s.Alias && t.Raw != nil {
			beside = append(beside, t.Tool)
		}
	}
	o := catalog.NewOffer(tools, catalog.Trust(s.Trusted), listing.Instructions, beside)
	o.Key, o.ServerID, o.Manual = s.Key, s.ID(), s.Accept == config.AcceptManual
	return o, true
}

// take accepts what was shown, one server at a time, and writes it down.
func (e *engine) take(waiting []held) error {
	ledger := catalog.NewLedger(e.home.Lock(), e.home.Catalog())
	for _, h := range waiting {
		if _, err := ledger.Accept(h.offer, h.pick); err != nil {
			return err
		}
		if err := e.aud.Record(audit.Event{Kind: audit.Note, Tool: h.Tool, Principal: "local", Note: fmt.Sprintf("accepted: it was %v, now %s", h.State, h.pick.Digest)}); err != nil {
			return err
		}
	}
	return nil
}
