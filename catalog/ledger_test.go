package catalog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-gate/mcp-gate/engagement"
)

func newLedger(t *testing.T) (*Ledger, string) {
	t.Helper()
	dir := t.TempDir()
	return NewLedger(filepath.Join(dir, "mcp-gate.lock"), filepath.Join(dir, "catalog")), dir
}

func take(t *testing.T, d *Ledger, o Offer) Judgement {
	t.Helper()
	j, err := d.Take(o)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func entries(t *testing.T, d *Ledger, o Offer) string {
	t.Helper()
	l, err := d.Load()
	if err != nil {
		t.Fatal(err)
	}
	all, err := d.Entries(l, o.Key, o.ServerID, nil)
	if err != nil {
		t.Fatal(err)
	}
	var raws []string
	for _, e := range all {
		raws = append(raws, fmt.Sprintf("%v %v %s", e.ID, e.Class.Permission, e.Raw))
	}
	return strings.Join(raws, "\n")
}

func TestTheAcceptedCatalogueNeedsNoServer(t *testing.T) {
	d, dir := newLedger(t)
	first := offer(t, toolB, toolA)
	take(t, d, first)
	want := "git-hub/a read " + toolA + "\ngit-hub/b read " + toolB
	for name, next := range map[string]Offer{
		"the same":         offer(t, toolA, toolB),
		"nothing":          offer(t),
		"a change":         offer(t, toolA2, toolB),
		"an addition":      offer(t, toolA, toolB, toolC),
		"another spelling": offer(t, toolAr, toolB),
	} {
		before, err := os.Stat(filepath.Join(dir, "mcp-gate.lock"))
		if err != nil {
			t.Fatal(err)
		}
		take(t, d, next)
		if got := entries(t, d, first); got != want {
			t.Errorf("after %s: got\n%s\nwant\n%s", name, got, want)
		}
		after, err := os.Stat(filepath.Join(dir, "mcp-gate.lock"))
		if err != nil || !os.SameFile(before, after) || !before.ModTime().Equal(after.ModTime()) {
			t.Errorf("after %s the lock was written again", name)
		}
	}
	swapped := first
	swapped.ServerID = serverB
	if got := entries(t, d, swapped); got != "" {
		t.Errorf("another command has the accepted tools: %s", got)
	}
}

func TestAServerWithoutToolsIsRememberedAndStillNew(t *testing.T) {
	d, _ := newLedger(t)
	bare := func() bool {
		again := NewLedger(d.lock, d.dir)
		return again.Bare(offer(t).Key, offer(t).ServerID)
	}
	if bare() {
		t.Error("a server that nobody saw is on record as one without tools")
	}
	take(t, d, offer(t))
	if !bare() || d.Bare(offer(t).Key, "another way to start it") {
		t.Error("a server without tools is not remembered, or not as it was started")
	}
	j := take(t, d, offer(t, toolA)) // it has warmed up, or was updated
	if j.State("a") != Accepted || bare() {
		t.Errorf("its first tools are %v; still without tools: %v", j.State("a"), bare())
	}
	take(t, d, offer(t))
	if bare() {
		t.Error("a server whose tools are on record is one without tools")
	}
}

func TestTheOwnersWordIsInTheEntries(t *testing.T) {
	d, _ := newLedger(t)
	o := offer(t, toolA)
	take(t, d, o)
	l, err := d.Load()
	if err != nil {
		t.Fatal(err)
	}
	all, err := d.Entries(l, o.Key, o.ServerID, func(tool string) Override {
		return Override{Permission: engagement.Destructive, From: "the rule for " + tool}
	})
	if err != nil || len(all) != 1 || all[0].Class.Permission != engagement.Destructive || all[0].Class.Why != "destructive by the rule for a" {
		t.Errorf("got %+v, %v", all, err)
	}
}

func TestAnUnreadableLockHoldsEverythingAndStaysAsItIs(t *testing.T) {
	d, dir := newLedger(t)
	o := offer(t, toolA)
	take(t, d, o)
	path := filepath.Join(dir, "mcp-gate.lock")
	const text = "mcp-gate lock 1\n<<<<<<< HEAD\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := d.Load()
	var at *LockError
	if !errors.As(err, &at) || at.Line != 2 || !strings.Contains(err.Error(), path) || l.Broken == nil {
		t.Errorf("load: %v", err)
	}
	j, err := d.Take(o)
	if err == nil || standings(j) != "a new" || j.Record != nil {
		t.Errorf("take: %s, %v", standings(j), err)
	}
	if all, _ := d.Entries(l, o.Key, o.ServerID, nil); all != nil {
		t.Errorf("it has entries: %v", all)
	}
	if _, err := d.Accept(o, Pick{"a", o.Tools[0].Tool.Digest}); !errors.As(err, &at) {
		t.Errorf("accept: %v", err)
	}
	if got, _ := os.ReadFile(path); string(got) != text {
		t.Errorf("the file was written: %s", got)
	}
}

func TestALedgerThatCannotBeWrittenHoldsAFirstSight(t *testing.T) {
	d := NewLedger(filepath.Join(t.TempDir(), "none", "mcp-gate.lock"), t.TempDir())
	j, err := d.Take(offer(t, toolA))
	if err == nil || standings(j) != "a new" {
		t.Errorf("got %s, %v", standings(j), err)
	}
}

func TestDefinitionsAreCheckedAgainstTheirName(t *testing.T) {
	d, _ := newLedger(t)
	o := offer(t, toolA, toolB)
	take(t, d, o)
	l, err := d.Load()
	if err != nil {
		t.Fatal(err)
	}
	a, b := o.Tools[0].Tool, o.Tools[1].Tool
	for name, damage := range map[string]func() error{
		"altered": func() error { return os.WriteFile(d.file(a.Digest), []byte(toolA2), 0o600) },
		"swapped": func() error { return os.WriteFile(d.file(a.Digest), []byte(toolB), 0o600) },
		"cut":     func() error { return os.WriteFile(d.file(a.Digest), []byte(toolA[:20]), 0o600) },
		"lost":    func() error { return os.Remove(d.file(a.Digest)) },
	} {
		if err := errors.Join(damage(), os.Remove(d.packFile("git-hub"))); err != nil {
			t.Fatal(err)
		}
		all, err := d.Entries(l, o.Key, o.ServerID, nil)
		if err == nil || len(all) != 1 || all[0].ID != b.ID {
			t.Errorf("%s: got %v, %v", name, all, err)
		}
		if errors.Is(err, fs.ErrNotExist) != (name == "lost") {
			t.Errorf("%s: %v", name, err)
		}
		take(t, d, offer(t, toolAr, toolB)) // its server brings it back, in its own spelling
		if all, err := d.Entries(l, o.Key, o.ServerID, nil); err != nil || len(all) != 2 || string(all[0].Raw) != toolAr {
			t.Errorf("%s and brought back: got %v, %v", name, all, err)
		}
	}
	if _, err := d.Definition(a.ID, "../mcp-gate"); err == nil {
		t.Error("a path counts as a digest")
	}
	if _, err := d.Definition(ToolID{"git-hub", "b"}, a.Digest); err == nil {
		t.Error("a definition of another tool was given")
	}
}

func TestWhatIsAcceptedByHandHasItsBytes(t *testing.T) {
	d, _ := newLedger(t)
	o := offer(t, toolA, toolB)
	o.Manual = true
	if j := take(t, d, o); standings(j) != "a new, b new" {
		t.Errorf("got %s", standings(j))
	}
	if _, err := d.Accept(o, Pick{"b", o.Tools[1].Tool.Digest}); err != nil {
		t.Fatal(err)
	}
	if got := entries(t, d, o); got != "git-hub/b read "+toolB {
		t.Errorf("got %s", got)
	}
}

func TestOnlyTheOwnerCanReadTheFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // modes say nothing there
	}
	d, dir := newLedger(t)
	take(t, d, offer(t, toolA))
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		if strings.HasPrefix(e.Name(), ".new-") {
			t.Errorf("%s was left behind", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Many gates that start at once on one home: each sees its own server first and
// a shared one at the same time, and nothing that one recorded is lost.
func TestSeveralProcessesShareOneLedger(t *testing.T) {
	_, dir := newLedger(t)
	const gates = 12
	var wg sync.WaitGroup
	for n := range gates {
		wg.Go(func() {
			d := NewLedger(filepath.Join(dir, "mcp-gate.lock"), filepath.Join(dir, "catalog"))
			own := offer(t, toolA, toolB)
			own.Key = fmt.Sprint("own ", n)
			shared := offer(t, fmt.Sprintf(`{"name":"a","description":"seen by %d"}`, n%3))
			shared.Key = "shared"
			for _, o := range []Offer{own, shared} {
				for i := range o.Tools {
					o.Tools[i] = offered(t, o.Key, string(o.Tools[i].Tool.Raw))
				}
				j, err := d.Take(o)
				if err != nil {
					t.Error(err)
				}
				if o.Key == own.Key && standings(j) != "a accepted, b accepted" {
					t.Errorf("gate %d: %s", n, standings(j))
				}
			}
		})
	}
	wg.Wait()
	d := NewLedger(filepath.Join(dir, "mcp-gate.lock"), filepath.Join(dir, "catalog"))
	l, err := d.Load()
	if err != nil || len(l.Servers) != gates+1 {
		t.Fatalf("%d servers, %v", len(l.Servers), err)
	}
	for key := range l.Servers {
		if all, err := d.Entries(l, key, serverA, nil); err != nil || len(all) == 0 {
			t.Errorf("%s: %d entries, %v", key, len(all), err)
		}
	}
}
