package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/mcp-gate/mcp-gate/artifacts"
	"github.com/mcp-gate/mcp-gate/config"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/gate"
	"github.com/mcp-gate/mcp-gate/inbox"
	"github.com/spf13/cobra"
)

// collectPause is how often a serving gate removes results that ran out.
const collectPause = time.Hour

// kept is the place where the results of a home are kept, opened at its first
// use, so that a gate that keeps nothing makes no folder.
type kept struct {
	dir  string
	o    artifacts.Options
	tidy func(ctx context.Context, now time.Time) error // removes what else is over

	mu    sync.Mutex // guards what follows
	rows  *artifacts.FileRows
	store *artifacts.Store
}

var _ gate.Kept = (*kept)(nil)

func newKept(home config.Home, cfg config.Artifacts, log *slog.Logger) *kept {
	return &kept{dir: home.Artifacts(), o: artifacts.Options{Quota: cfg.MaxBytes, Keep: cfg.Keep, Now: time.Now, Random: rand.Reader, Log: log}}
}

func (k *kept) open(ctx context.Context) (*artifacts.Store, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.store != nil {
		return k.store, nil
	}
	rows, err := artifacts.OpenFileRows(filepath.Join(k.dir, "rows"))
	if err != nil {
		return nil, err
	}
	store, err := artifacts.Open(ctx, k.dir, rows, k.o)
	if err != nil {
		return nil, errors.Join(err, rows.Close())
	}
	k.rows, k.store = rows, store
	return store, nil
}

// existing is open where something was ever kept, else [artifacts.ErrNotFound].
func (k *kept) existing(ctx context.Context) (*artifacts.Store, error) {
	if _, err := os.Stat(k.dir); errors.Is(err, fs.ErrNotExist) {
		return nil, artifacts.ErrNotFound
	}
	return k.open(ctx)
}

// Close closes what was opened.
func (k *kept) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.store == nil {
		return nil
	}
	return errors.Join(k.store.Close(), k.rows.Close())
}

func (k *kept) Keep(ctx context.Context, r io.Reader, m artifacts.Meta) (artifacts.Artifact, error) {
	s, err := k.open(ctx)
	if err != nil {
		return artifacts.Artifact{}, err
	}
	return s.Keep(ctx, r, m)
}

func (k *kept) Get(ctx context.Context, id, principal string) (artifacts.Artifact, error) {
	s, err := k.existing(ctx)
	if err != nil {
		return artifacts.Artifact{}, err
	}
	return s.Get(ctx, id, principal)
}

func (k *kept) Open(ctx context.Context, id, principal string) (*artifacts.Handle, error) {
	s, err := k.existing(ctx)
	if err != nil {
		return nil, err
	}
	return s.Open(ctx, id, principal)
}

func (k *kept) Read(ctx context.Context, id, principal string, allowed engagement.EgressSet, q artifacts.Query) (artifacts.Slice, error) {
	s, err := k.existing(ctx)
	if err != nil {
		return artifacts.Slice{}, err
	}
	defer threads.atWork()() // a query may walk all of it
	return s.Read(ctx, id, principal, allowed, q)
}

// collect removes what ran out, now and then, until ctx ends.
func (k *kept) collect(ctx context.Context) error {
	results, rest := time.NewTicker(collectPause), time.NewTimer(tidyFirst)
	defer results.Stop()
	defer rest.Stop()
	k.collectResults(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-results.C:
			k.collectResults(ctx)
		case <-rest.C:
			if err := k.tidy(ctx, time.Now()); err != nil && ctx.Err() == nil {
				k.o.Log.Warn("what is over could not all be removed", "error", err)
			}
			rest.Reset(tidyPause)
		}
	}
}

func (k *kept) collectResults(ctx context.Context) {
	s, err := k.existing(ctx)
	if err != nil {
		return
	}
	if _, err := s.Collect(ctx); err != nil && ctx.Err() == nil {
		k.o.Log.Warn("results that ran out could not be removed", "error", err)
	}
}

// results hands the gate what it keeps results and marks in.
func (e *engine) results(o *gate.Options) {
	e.kept = newKept(e.home, e.cfg.Artifacts, e.log)
	e.kept.tidy = (&tidier{e: e}).tidy
	o.Kept, o.Taints = e.kept, e.db
	o.Inline = map[string]int64{}
	if e.cfg.Artifacts.InlineBytes > 0 {
		o.Inline[""] = e.cfg.Artifacts.InlineBytes
	}
	for _, c := range e.cfg.Clients {
		if c.ResultSize > 0 {
			o.Inline[c.Name] = c.ResultSize
		}
	}
}

// conversation names what this process is started for: the client's session
// where that says its id, else the project's folder.
func (a *app) conversation() string {
	if id, _ := a.env("CLAUDE_CODE_SESSION_ID"); id != "" {
		return "client session " + id
	}
	project, _ := a.env("CLAUDE_PROJECT_DIR")
	if project == "" {
		project, _ = os.Getwd()
	}
	if project == "" {
		return ""
	}
	return "project " + filepath.Clean(project)
}

func (a *app) artifactsCommand() *cobra.Command {
	ls := &cobra.Command{
		Use: "ls", Short: "List what is kept, newest first", Args: cobra.NoArgs,
		Example: "  mcp-gate artifacts ls",
		RunE:    func(c *cobra.Command, _ []string) error { return a.artifactsList(c.Context()) },
	}
	var content bool
	show := &cobra.Command{
		Use: "show ID", Short: "Show what a kept result is, its tables, and how it begins", Args: cobra.ExactArgs(1),
		Long: `Show what a kept result is: where it comes from, its classes, what may be said of
its tables, and how it begins; on a terminal a picture is drawn. --content writes
the whole of it, byte for byte, to standard output. A unique beginning of the id is
enough.`,
		Example: "  mcp-gate artifacts show a_k3v --content > photo.png",
		RunE:    func(c *cobra.Command, args []string) error { return a.artifactsShow(c.Context(), args[0], content) },
	}
	show.Flags().BoolVar(&content, "content", false, "write the content itself")
	rm := &cobra.Command{
		Use: "rm ID...", Short: "Remove kept results", Args: cobra.MinimumNArgs(1),
		Example: "  mcp-gate artifacts rm a_k3v",
		RunE:    func(c *cobra.Command, args []string) error { return a.artifactsRemove(c.Context(), args) },
	}
	c := &cobra.Command{Use: "artifacts", Short: "Results that were kept: large ones, and what might not leave", RunE: ls.RunE, Args: cobra.NoArgs}
	c.AddCommand(ls, show, rm)
	return c
}

// withKept runs f on what the home keeps; nil where it never kept anything.
func (a *app) withKept(ctx context.Context, f func(*artifacts.Store) error) (err error) {
	home, cfg, _, err := a.load()
	if err != nil {
		return err
	}
	k := newKept(home, cfg.Artifacts, a.logger(cfg.Log, false))
	defer func() { err = errors.Join(err, k.Close()) }()
	s, err := k.existing(ctx)
	if err != nil && !errors.Is(err, artifacts.ErrNotFound) {
		return err
	}
	return f(s)
}

func (a *app) artifactsList(ctx context.Context) error {
	return a.withKept(ctx, func(s *artifacts.Store) error {
		list, used, quota := []artifacts.Artifact{}, artifacts.Usage{}, int64(0)
		if s != nil {
			found, err := s.List(ctx, "")
			if err != nil {
				return err
			}
			list = append(list, found...)
			if used, quota, err = s.Usage(ctx); err != nil {
				return err
			}
		}
		if a.json {
			return a.print(map[string]any{"artifacts": list, "used": used.Bytes, "quota": quota})
		}
		if len(list) == 0 {
			fmt.Fprintln(a.stderr, "mcp-gate: no artifact is kept: large results and those that may not leave become one")
		}
		w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
		for _, x := range list {
			fmt.Fprintf(w, "%s\t%s\t%s\t%d B\t%s\t%v\t%s\n", x.ID[:10], x.Created.Local().Format(time.DateTime), inbox.DisplayLine(x.Origin.Server+"/"+x.Origin.Tool),
				x.Size, inbox.DisplayLine(x.Media), x.Classes, whether(x.Withheld, "withheld", "readable"))
		}
		return w.Flush()
	})
}

func whether(b bool, yes, no string) string {
	if b {
		return yes
	}
	return no
}

// findKept finds the one artifact, of whatever principal, whose id begins so.
func findKept(ctx context.Context, s *artifacts.Store, beginning string) (artifacts.Artifact, error) {
	none := usage(fmt.Errorf("there is no artifact %q, or several: mcp-gate artifacts ls lists them", beginning))
	if s == nil || len(beginning) < 3 {
		return artifacts.Artifact{}, none
	}
	list, err := s.List(ctx, "")
	if err != nil {
		return artifacts.Artifact{}, err
	}
	var found []artifacts.Artifact
	for _, x := range list {
		if strings.HasPrefix(x.ID, beginning) {
			found = append(found, x)
		}
	}
	if len(found) != 1 {
		return artifacts.Artifact{}, none
	}
	return found[0], nil
}

func (a *app) artifactsShow(ctx context.Context, beginning string, content bool) error {
	return a.withKept(ctx, func(s *artifacts.Store) error {
		x, err := findKept(ctx, s, beginning)
		if err != nil {
			return err
		}
		if a.json && !content {
			return a.print(x)
		}
		h, err := s.Open(ctx, x.ID, x.Principal)
		if err != nil {
			return err
		}
		defer h.Close()
		if !content {
			return a.describeKept(h)
		}
		if isTerminal(a.stdout) && !strings.HasPrefix(x.Media, "text/") && x.Media != "application/json" {
			return usage(fmt.Errorf("%s is no text: send it to a file (> FILE)", x.Media))
		}
		out := io.Writer(a.stdout)
		if isTerminal(a.stderr) && !isTerminal(a.stdout) && x.Size > 32<<20 {
			out = io.MultiWriter(a.stdout, &progress{to: a.stderr, total: x.Size})
			defer fmt.Fprintln(a.stderr)
		}
		_, err = io.Copy(out, h.Reader())
		return err
	})
}

// progress counts what is written through it and says so, by the percent.
type progress struct {
	to          io.Writer
	done, total int64
	said        int64
}

func (p *progress) Write(b []byte) (int, error) {
	p.done += int64(len(b))
	if percent := p.done * 100 / p.total; percent != p.said {
		p.said = percent
		fmt.Fprintf(p.to, "\r%d%%", percent)
	}
	return len(b), nil
}

// shownHead is how much of a text is shown of an artifact.
const shownHead = 2 << 10

// maxDrawn is the size of a file above which a picture is not drawn.
const maxDrawn = 32 << 20

func (a *app) describeKept(h *artifacts.Handle) error {
	x := h.Artifact
	fmt.Fprintf(a.stdout, "artifact  %s, %s\nfrom      %s\nof        %s, session %s\nmedia     %s, %d bytes\nsha256    %s\nclasses   %v\nkept      %s until %s\n",
		x.ID, whether(x.Withheld, "withheld: no client reads its content", "clients read it in parts"), inbox.DisplayLine(x.Origin.Server+"/"+x.Origin.Tool),
		inbox.DisplayLine(x.Principal), x.Session, inbox.DisplayLine(x.Media), x.Size, x.Digest, x.Classes,
		x.Created.Local().Format(time.DateTime), x.Expires.Local().Format(time.DateTime))
	if x.Width > 0 {
		fmt.Fprintf(a.stdout, "picture   %d by %d pixels\n", x.Width, x.Height)
	}
	for _, t := range x.Tables {
		if err := a.showTable(t); err != nil {
			return err
		}
	}
	if x.Width > 0 && isTerminal(a.stdout) && x.Size <= maxDrawn {
		content, err := io.ReadAll(h.Reader())
		if err != nil {
			return err
		}
		if draw(a.stdout, content) == nil {
			return nil
		}
	}
	b := make([]byte, min(x.Size, shownHead))
	if _, err := h.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for i := 0; i < utf8.UTFMax && len(b) > 0 && !utf8.Valid(b); i++ {
		b = b[:len(b)-1] // a character that was cut
	}
	if !utf8.Valid(b) || len(b) == 0 {
		_, err := fmt.Fprintf(a.stdout, "\nThe content is no text: mcp-gate artifacts show %s --content > FILE\n", x.ID[:10])
		return err
	}
	_, err := fmt.Fprintf(a.stdout, "\n%s\n", inbox.Display(string(b)))
	return err
}

// showTable shows what may be said of a table.
func (a *app) showTable(t artifacts.Table) error {
	fmt.Fprintf(a.stdout, "\ntable of %d rows\n", t.Rows)
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	number := func(n *float64) string {
		if n == nil {
			return "-"
		}
		return strconv.FormatFloat(*n, 'g', 6, 64)
	}
	fmt.Fprintln(w, "column\ttype\tmin\tmax\tmean")
	for _, c := range t.Columns {
		stats := artifacts.Stats{}
		if c.Stats != nil {
			stats = *c.Stats
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", inbox.DisplayLine(c.Name), c.Type, number(stats.Min), number(stats.Max), number(stats.Mean))
	}
	return w.Flush()
}

func (a *app) artifactsRemove(ctx context.Context, ids []string) error {
	return a.withKept(ctx, func(s *artifacts.Store) error {
		removed := []string{}
		for _, id := range ids {
			x, err := findKept(ctx, s, id)
			if err != nil {
				return err
			}
			if err := s.Remove(ctx, x.ID, x.Principal); err != nil {
				return err
			}
			removed = append(removed, x.ID)
		}
		if a.json {
			return a.print(map[string]any{"removed": removed})
		}
		_, err := fmt.Fprintf(a.stdout, "removed %s\n", strings.Join(removed, ", "))
		return err
	})
}
