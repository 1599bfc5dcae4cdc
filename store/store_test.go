package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/checkpoint"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/inbox"
)

var noon = time.Date(2026, 8, 12, 12, 0, 0, 0, time.UTC)

func newStore(t *testing.T) *Store {
	t.Helper()
	s := New(filepath.Join(t.TempDir(), "home", "state.db"))
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func ticket(n int) inbox.Ticket {
	args := fmt.Sprintf(`{ "n": %d, "html": "<a&b>" }`, n)
	digest, err := inbox.ArgsDigest(json.RawMessage(args))
	if err != nil {
		panic(err)
	}
	b := inbox.Binding{Server: "sid", Tool: "delete", Definition: "def", Args: digest, Principal: "local", Policy: "p", Session: "s", Expires: noon.Add(time.Hour)}
	id := fmt.Sprintf("t_%026d", n)
	id = strings.NewReplacer("0", "a", "1", "b", "8", "c", "9", "d").Replace(id)
	return inbox.Ticket{
		ID: id, Binding: b, Args: json.RawMessage(args), Level: inbox.L1, Fallback: engagement.FallbackDefer, Launch: "l", Owner: "p_1",
		View: inbox.View{
			Ticket: id, Tool: catalog.ToolID{Server: "files", Tool: "delete"}, Class: engagement.Destructive, Egress: []engagement.Egress{engagement.Metadata},
			Principal: "local", Args: args, Definition: inbox.Definition{State: inbox.DefinitionAccepted, Digest: "def"},
			Rule: inbox.Rule{Name: "ask", Reason: "r"}, Fallback: engagement.FallbackDefer, Level: inbox.L1, Expires: noon.Add(time.Hour),
		},
		Created: noon.Add(time.Duration(n) * time.Microsecond), State: inbox.Pending,
	}
}

func TestNothingIsOpenedBeforeItIsUsed(t *testing.T) {
	s := New(filepath.Join(t.TempDir(), "state.db"))
	if _, err := os.Stat(s.path); err == nil {
		t.Error("New made a file")
	}
	must(t, s.Close())
	if _, err := s.Ticket(t.Context(), "t"); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func TestNothingTouchesTheFilesOfAClosedStore(t *testing.T) {
	s, ctx := newStore(t), t.Context()
	_, err := s.Admit(ctx, ticket(1), noon)
	must(t, err)
	inUse, err := s.read.Conn(ctx)
	must(t, err)
	var given atomic.Bool
	closed := make(chan error)
	go func() {
		err := s.Close()
		if !given.Load() {
			err = errors.Join(err, errors.New("did not wait for a connection in use"))
		}
		closed <- err
	}()
	for err = nil; !errors.Is(err, ErrClosed); runtime.Gosched() {
		_, err = s.Ticket(ctx, ticket(1).ID)
	}
	given.Store(true)
	must(t, inUse.Close())
	must(t, <-closed)
	entries, err := os.ReadDir(filepath.Dir(s.path))
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the database: %v, %v", entries, err)
	}
}

func TestAFileThatWasReplacedKeepsNothing(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // an open file cannot be moved there
	}
	s, ctx := newStore(t), t.Context()
	_, err := s.Admit(ctx, ticket(1), noon)
	must(t, err)
	gone := func(when string) {
		t.Helper()
		if _, err := s.Admit(ctx, ticket(2), noon); !errors.Is(err, inbox.ErrStoreGone) {
			t.Errorf("%s, a ticket: %v", when, err)
		}
		if _, err := s.Ticket(ctx, ticket(1).ID); !errors.Is(err, inbox.ErrStoreGone) {
			t.Errorf("%s, a look: %v", when, err)
		}
		if err := s.Here(); !errors.Is(err, inbox.ErrStoreGone) {
			t.Errorf("%s: %v", when, err)
		}
	}
	must(t, os.Rename(s.path, s.path+".away"))
	gone("moved away")
	if _, err := New(s.path).Ticket(ctx, ticket(1).ID); err == nil || !strings.Contains(err.Error(), "put the file back") {
		t.Errorf("opened beside the log of another: %v", err)
	}
	must(t, os.WriteFile(s.path, nil, 0o600))
	gone("replaced")
	must(t, os.Rename(s.path+".away", s.path))
	if _, err := s.Admit(ctx, ticket(2), noon); err != nil {
		t.Errorf("put back: %v", err)
	}
}

func TestClosingWaitsNotForEver(t *testing.T) {
	s, ctx := newStore(t), t.Context()
	s.busy = 30 * time.Millisecond
	_, err := s.Admit(ctx, ticket(1), noon)
	must(t, err)
	inUse, err := s.read.Conn(ctx)
	must(t, err)
	defer inUse.Close()
	if err := s.Close(); err == nil || !strings.Contains(err.Error(), s.path) {
		t.Errorf("closed in spite of a call: %v", err)
	}
}

func TestFilesArePrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // modes say nothing there
	}
	s := newStore(t)
	_, err := s.Admit(t.Context(), ticket(1), noon)
	must(t, err)
	entries, err := os.ReadDir(filepath.Dir(s.path))
	must(t, err)
	if len(entries) < 2 { // the log is beside it as long as it is open
		t.Errorf("files: %v", entries)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), info.Mode(), err)
		}
	}
	open := New(filepath.Join(t.TempDir(), "state.db"))
	must(t, os.WriteFile(open.path, nil, 0o600))
	must(t, os.Chmod(open.path, 0o666))
	if _, err := open.Ticket(t.Context(), "t"); err == nil || !strings.Contains(err.Error(), "0666") {
		t.Errorf("a database that others can write: %v", err)
	}
	link := New(filepath.Join(t.TempDir(), "state.db"))
	must(t, os.Symlink(s.path, link.path))
	if _, err := link.Ticket(t.Context(), "t"); err == nil {
		t.Error("followed a link")
	}
}

func TestATicketComesBackAsItWas(t *testing.T) {
	s := newStore(t)
	for n, edit := range []func(*inbox.Ticket){
		func(*inbox.Ticket) {},
		func(t *inbox.Ticket) { t.Args = nil },
		func(t *inbox.Ticket) { t.Repeatable, t.Delivered, t.CallerGone = true, true, true },
		func(t *inbox.Ticket) {
			t.State, t.Runner, t.Note, t.Result = inbox.Done, "p_2", "n\x00\x1b", json.RawMessage(`{ "x" : "<" }`)
			t.Decided, t.Started, t.Finished = noon, noon.Add(1000), noon.Add(2000)
		},
	} {
		want := ticket(n)
		edit(&want)
		if kept, err := s.Admit(t.Context(), want, noon.Add(time.Hour)); err != nil || kept.ID != want.ID {
			t.Fatal(kept.ID, err)
		}
		got, err := s.Ticket(t.Context(), want.ID)
		must(t, err)
		if !reflect.DeepEqual(got, want) || got.View.Digest() != want.View.Digest() || got.Binding.Digest() != want.Binding.Digest() {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	if _, err := s.Ticket(t.Context(), "t_none"); !errors.Is(err, inbox.ErrNotFound) {
		t.Error(err)
	}
	got, err := s.Tickets(t.Context(), inbox.Query{Prefix: ticket(3).ID[:20], States: []inbox.State{inbox.Done, inbox.Failed}, Principal: "local", Server: "sid", Tool: "delete", Since: noon, Limit: 5})
	if err != nil || len(got) != 1 || got[0].ID != ticket(3).ID {
		t.Errorf("listed %+v, %v", got, err)
	}
}

func TestOneOpenTicketACall(t *testing.T) {
	s := newStore(t)
	var made atomic.Int32
	var wg sync.WaitGroup
	for n := range 16 {
		wg.Go(func() {
			mine := ticket(7)
			mine.ID = ticket(100 + n).ID
			kept, err := s.Admit(t.Context(), mine, noon)
			if err != nil {
				t.Error(err)
			}
			if kept.ID == mine.ID {
				made.Add(1)
			}
		})
	}
	wg.Wait()
	if made.Load() != 1 {
		t.Errorf("%d tickets of one call", made.Load())
	}
}

// Equal calls are asked while the one ticket is run and ended: each finds it,
// waiting or done, and none makes a second.
func TestATicketThatEndsIsFoundAllTheSame(t *testing.T) {
	s := newStore(t)
	for n := range 50 {
		first := ticket(n)
		first.State = inbox.Running
		_, err := s.Admit(t.Context(), first, noon)
		must(t, err)
		var wg sync.WaitGroup
		wg.Go(func() {
			done := first
			done.State, done.Finished, done.Result = inbox.Done, noon.Add(time.Second), json.RawMessage("{}")
			if won, err := s.Change(t.Context(), done, nil); err != nil || !won {
				t.Error(won, err)
			}
		})
		for i := range 4 {
			wg.Go(func() {
				again := first
				again.ID = ticket(1000*(n+1) + i).ID
				if kept, err := s.Admit(t.Context(), again, noon); err != nil || kept.ID != first.ID {
					t.Errorf("got %s (%v), %v, want %s", kept.ID, kept.State, err, first.ID)
				}
			})
		}
		wg.Wait()
	}
	// What ended too long ago is asked about anew.
	late := ticket(7)
	late.ID = ticket(70000).ID
	if kept, err := s.Admit(t.Context(), late, noon.Add(time.Minute)); err != nil || kept.ID != late.ID {
		t.Errorf("got %s, %v", kept.ID, err)
	}
}

func TestOpenStatesAreTheInboxs(t *testing.T) {
	for _, state := range inbox.States() {
		if got := strings.Contains(openStates, "'"+state.String()+"'"); got != state.Open() {
			t.Errorf("%v is open here: %v, want %v", state, got, state.Open())
		}
	}
	if !strings.Contains(migrations[0], openStates) {
		t.Error("the index knows other open states")
	}
}

func TestALostRaceChangesNothing(t *testing.T) {
	s := newStore(t)
	tick := ticket(1)
	_, err := s.Admit(t.Context(), tick, noon)
	must(t, err)
	d := inbox.Decision{Ticket: tick.ID, Verdict: inbox.Allow, Level: inbox.L1, Channel: inbox.Terminal, At: noon}
	first, second := tick, tick
	first.State, second.State = inbox.Denied, inbox.Approved
	if ok, err := s.Change(t.Context(), first, nil); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if ok, err := s.Change(t.Context(), second, &d); err != nil || ok {
		t.Fatal(ok, err)
	}
	if got, err := s.Ticket(t.Context(), tick.ID); err != nil || got.State != inbox.Denied {
		t.Errorf("%v, %v", got.State, err)
	}
	if _, err := s.Decision(t.Context(), tick.ID); !errors.Is(err, inbox.ErrNotFound) {
		t.Errorf("the loser's decision counts: %v", err)
	}
	must(t, s.Record(t.Context(), d))
	if _, err := s.Decision(t.Context(), tick.ID); !errors.Is(err, inbox.ErrNotFound) {
		t.Errorf("a late decision counts: %v", err)
	}
	bad := tick
	bad.State = 0
	if _, err := s.Change(t.Context(), bad, nil); err == nil {
		t.Error("stored a ticket without a state")
	}
}

// Two stores on one file stand for two processes.
func TestTwoStoresWriteWithoutBeingLockedOut(t *testing.T) {
	a := newStore(t)
	b := New(a.path)
	defer b.Close()
	var wg sync.WaitGroup
	for n := range 200 {
		s := []*Store{a, b}[n%2]
		wg.Go(func() {
			tick := ticket(n)
			kept, err := s.Admit(t.Context(), tick, noon)
			if err == nil {
				kept.State = inbox.Denied
				_, err = s.Change(t.Context(), kept, nil)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got, err := a.Tickets(t.Context(), inbox.Query{States: []inbox.State{inbox.Denied}})
	if err != nil || len(got) != 200 {
		t.Errorf("%d tickets, %v", len(got), err)
	}
}

func TestAForeignLockIsWaitedForOrNamed(t *testing.T) {
	s := newStore(t)
	_, err := s.Admit(t.Context(), ticket(1), noon)
	must(t, err)
	foreign, err := sql.Open("sqlite", "file:"+s.path+"?_txlock=exclusive")
	must(t, err)
	defer foreign.Close()
	lock := func() *sql.Tx {
		tx, err := foreign.Begin()
		must(t, err)
		return tx
	}
	held := lock()
	done := make(chan error)
	go func() {
		_, err := s.Admit(t.Context(), ticket(2), noon)
		done <- err
	}()
	must(t, held.Rollback())
	if err := <-done; err != nil {
		t.Errorf("after the lock was gone: %v", err)
	}

	held = lock()
	short := New(s.path)
	short.busy = 30 * time.Millisecond
	defer short.Close()
	if _, err := short.Admit(t.Context(), ticket(3), noon); !isBusy(err) {
		t.Errorf("under a foreign lock: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Admit(ctx, ticket(3), noon); err == nil {
		t.Error("a cancelled call wrote")
	}
	must(t, held.Rollback())
	if _, err := short.Admit(t.Context(), ticket(3), noon); err != nil {
		t.Errorf("it does not recover: %v", err)
	}
}

func TestFormats(t *testing.T) {
	s := newStore(t)
	_, err := s.Admit(t.Context(), ticket(1), noon)
	must(t, err)
	set := func(statement string) {
		_, err := s.write.Exec(statement)
		must(t, err)
	}
	again := func() error {
		other := New(s.path)
		defer other.Close()
		_, err := other.Ticket(t.Context(), ticket(1).ID)
		return err
	}
	must(t, again())
	set("PRAGMA user_version = 99")
	var newer *NewerError
	if err := again(); !errors.As(err, &newer) || newer.Have != 99 {
		t.Errorf("a newer format: %v", err)
	}
	set(fmt.Sprintf("PRAGMA user_version = %d; PRAGMA application_id = 5", len(migrations)))
	if err := again(); err == nil || !strings.Contains(err.Error(), "another program") {
		t.Errorf("another program's: %v", err)
	}
	garbage := New(filepath.Join(t.TempDir(), "state.db"))
	must(t, os.WriteFile(garbage.path, []byte(strings.Repeat("no database ", 1000)), 0o600))
	if _, err := garbage.Ticket(t.Context(), "t"); err == nil || !strings.Contains(err.Error(), garbage.path) {
		t.Errorf("garbage: %v", err)
	}
}

func TestManyOpenAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			s := New(path)
			defer s.Close()
			if _, err := s.Admit(t.Context(), ticket(n), noon); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestChargesStayWithinTheLimit(t *testing.T) {
	s, ctx := newStore(t), t.Context()
	ten, bytes := int64(10), int64(1000)
	limit := engagement.Spend{Calls: &ten, ResultBytes: &bytes}
	var charged atomic.Int32
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			ok, err := s.ChargeCall(ctx, "s_1", limit)
			if err != nil {
				t.Error(err)
			}
			if ok {
				charged.Add(1)
			}
		})
	}
	wg.Wait()
	if calls, n, err := s.Spent(ctx, "s_1"); err != nil || charged.Load() != 10 || calls != 10 || n != 0 {
		t.Errorf("%d charged, account %d and %d, %v", charged.Load(), calls, n, err)
	}
	if calls, n, err := s.Spent(ctx, "s_2"); err != nil || calls != 0 || n != 0 {
		t.Errorf("another account: %d, %d, %v", calls, n, err)
	}
	for _, c := range []struct {
		add  int64
		want bool
	}{{0, true}, {999, true}, {1, false}, {5000, false}} {
		if err := s.ChargeBytes(ctx, "s_2", c.add); err != nil {
			t.Fatal(err)
		}
		if ok, err := s.ChargeCall(ctx, "s_2", limit); ok != c.want || err != nil {
			t.Errorf("after %d more bytes: %v, %v, want %v", c.add, ok, err, c.want)
		}
	}
	if ok, err := s.ChargeCall(ctx, "s_2", engagement.Spend{}); !ok || err != nil {
		t.Errorf("without a limit: %v, %v", ok, err)
	}
}

func TestTaintSessionsAndProcesses(t *testing.T) {
	s, ctx := newStore(t), t.Context()
	for _, c := range []struct{ add, want uint8 }{{0, 0}, {1, 1}, {2, 3}, {1, 3}, {0, 3}} {
		if got, err := s.Taint(ctx, "a", c.add); err != nil || got != c.want {
			t.Errorf("taint %d: %d, %v, want %d", c.add, got, err, c.want)
		}
	}
	must(t, s.KeepSession(ctx, "s_1", json.RawMessage(`{"a":1}`), noon))
	must(t, s.KeepSession(ctx, "s_1", json.RawMessage(`{"a":2}`), noon.Add(time.Second)))
	if got, at, err := s.Session(ctx, "s_1"); err != nil || string(got) != `{"a":2}` || !at.Equal(noon.Add(time.Second)) {
		t.Errorf("session %s at %v, %v", got, at, err)
	}
	if _, _, err := s.Session(ctx, "s_2"); !errors.Is(err, inbox.ErrNotFound) {
		t.Error(err)
	}
	me := Self()
	me.ID, me.Started = "p_1", noon
	must(t, s.Register(ctx, me))
	if got, err := s.Process(ctx, "p_1"); err != nil || got != me || Life(got) != inbox.Alive {
		t.Errorf("process %+v, %v, life %v", got, err, Life(got))
	}
	if elsewhere := (inbox.Process{PID: me.PID, Host: "elsewhere"}); Life(elsewhere) != inbox.Unclear {
		t.Error("a process elsewhere is not unclear")
	}
	if reused := me; runtime.GOOS == "linux" {
		if reused.Birth = "1"; Life(reused) != inbox.Dead {
			t.Error("a number that was given out again counts as alive")
		}
	}
}

func TestJournal(t *testing.T) {
	s, ctx := newStore(t), t.Context()
	e := checkpoint.Entry{
		ID: "j_1", At: noon, Principal: "local", Tool: "files/write", Args: "d", State: checkpoint.EntryOpen,
		Copy:    checkpoint.Copy{Files: []checkpoint.File{{Root: "/r", Path: "a", Before: checkpoint.State{Absent: true}, After: &checkpoint.State{Mode: 0o644, Size: 1}}}},
		Inverse: json.RawMessage(`{"tool":"x","args":{"a":"<"}}`),
	}
	must(t, s.AddEntry(ctx, e))
	if got, err := s.Entry(ctx, "j_1"); err != nil || !reflect.DeepEqual(got, e) {
		t.Errorf("got %+v, %v, want %+v", got, err, e)
	}
	stale := e
	must(t, e.Step(checkpoint.EntryKept))
	if ok, err := s.ChangeEntry(ctx, e); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if ok, err := s.ChangeEntry(ctx, stale); err != nil || ok {
		t.Error("an old revision won", err)
	}
	got, err := s.Entries(ctx, "local", "j_", 0)
	if err != nil || len(got) != 1 || got[0].State != checkpoint.EntryKept || got[0].Revision != 1 {
		t.Errorf("listed %+v, %v", got, err)
	}
	if got, err := s.Entries(ctx, "somebody", "", 0); err != nil || len(got) != 0 {
		t.Errorf("somebody else's: %+v, %v", got, err)
	}
	if _, err := s.Entry(ctx, "j_2"); !errors.Is(err, inbox.ErrNotFound) {
		t.Error(err)
	}
}
