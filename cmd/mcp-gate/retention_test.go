package main

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mcp-gate/mcp-gate/checkpoint"
	"github.com/mcp-gate/mcp-gate/config"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/gate"
	"github.com/mcp-gate/mcp-gate/inbox"
	"github.com/mcp-gate/mcp-gate/policy"
	"github.com/mcp-gate/mcp-gate/store"
	"github.com/mcp-gate/mcp-gate/transport"
)

// tidying is a gate of a home that holds nothing yet.
func tidying(t *testing.T) *tidier {
	t.Helper()
	e := &engine{home: config.Home{Dir: t.TempDir()}, log: slog.New(slog.DiscardHandler)}
	e.db = store.New(e.home.DB())
	t.Cleanup(func() { _ = e.db.Close() })
	g, err := gate.New(gate.Options{
		Settings: gate.Settings{Profiles: map[string]gate.Profile{"": {Authority: engagement.DefaultAuthority()}}}, Caller: nobody{}, Audit: discard{},
		Sessions: e.db, Log: e.log, Now: time.Now, Rand: rand.Reader,
	})
	if err != nil {
		t.Fatal(err)
	}
	e.gate = g
	return &tidier{e: e}
}

func TestAHomeIsTidied(t *testing.T) {
	tidy, ctx := tidying(t), t.Context()
	db, home := tidy.e.db, tidy.e.home
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	old := now.Add(-keptFor - time.Hour)
	must(tidy.tidy(ctx, now))
	if _, err := os.Stat(home.DB()); err == nil {
		t.Error("a home in which nobody is asked got a database")
	}
	tidy.last = time.Time{}

	live, err := tidy.e.gate.Open(ctx, gate.Identity{Principal: "local", Scope: policy.ScopeAdmin})
	must(err)
	_, err = live.Adopt(ctx)
	must(err)
	record, _, err := db.Session(ctx, live.ID())
	must(err)
	for _, id := range []string{live.ID(), "s_token", "s_old"} {
		must(db.KeepSession(ctx, id, record, old))
	}
	tokens, err := transport.OpenTokenFile(tidy.e.tokenPath(), nil, nil, nil)
	must(err)
	_, _, err = tokens.Add(transport.Token{Principal: "local", Scope: policy.ScopeRead, Parent: "s_token"})
	must(err)

	root := t.TempDir()
	keeper, err := checkpoint.Open(filepath.Join(home.Dir, "checkpoints"), []string{root})
	must(err)
	copied := map[string]string{}
	for name, at := range map[string]time.Time{"old": old, "new": now} {
		file := filepath.Join(root, name)
		must(os.WriteFile(file, []byte(name), 0o600))
		c, err := keeper.Take([]string{file})
		must(err)
		copied[name] = filepath.Join(home.Dir, "checkpoints", c.Files[0].Before.SHA256)
		must(os.Chtimes(copied[name], old, old))
		must(db.AddEntry(ctx, checkpoint.Entry{ID: name, At: at, State: checkpoint.EntryKept, Copy: c}))
	}

	sessions := func(oldStays bool) {
		t.Helper()
		for _, id := range []string{live.ID(), "s_token", "s_old"} {
			_, _, err := db.Session(ctx, id)
			stays := id != "s_old" || oldStays
			if errors.Is(err, inbox.ErrNotFound) == stays {
				t.Errorf("the record of %s: %v", id, err)
			}
		}
	}
	must(tidy.tidy(ctx, now))
	sessions(true) // others may not have said yet which they use
	must(tidy.tidy(ctx, now.Add(tidyPause)))
	sessions(false)
	if _, err := os.Stat(copied["old"]); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the copy of an old entry: %v", err)
	}
	if _, err := os.Stat(copied["new"]); err != nil {
		t.Errorf("the copy of an entry that stays: %v", err)
	}
	if left, err := db.Entries(ctx, "", "", 0); err != nil || len(left) != 1 || left[0].ID != "new" {
		t.Errorf("entries: %+v, %v", left, err)
	}

	// The machine sleeps for long: another gate that wakes as well keeps its
	// sessions, although it comes to say so later.
	must(db.KeepSession(ctx, "s_old", record, now))
	must(tidy.tidy(ctx, now.Add(2*keptFor)))
	sessions(true)
}
