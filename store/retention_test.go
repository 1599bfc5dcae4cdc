package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/mcp-gate/mcp-gate/checkpoint"
	"github.com/mcp-gate/mcp-gate/inbox"
)

const month = 30 * 24 * time.Hour

func TestOldTicketsLoseWhatIsLargeAndNothingElse(t *testing.T) {
	s, ctx := newStore(t), t.Context()
	other := New(s.path) // another gate
	defer other.Close()
	later := noon.Add(2 * month)
	gone := json.RawMessage(`{"gone":true}`)
	var want []inbox.Ticket
	for n, state := range inbox.States() {
		for age, finished := range []time.Time{later.Add(-month - time.Hour), later.Add(-month + time.Hour)} {
			tick := ticket(2*n + age)
			tick.View.Last = &inbox.LastCall{At: noon, Args: "{}"}
			_, err := s.Admit(ctx, tick, noon)
			must(t, err)
			tick.State, tick.Finished, tick.Result = state, finished, json.RawMessage(`{"large":1}`)
			if state.Open() && state != inbox.Unknown {
				tick.Finished, tick.Result = time.Time{}, nil
			}
			d := inbox.Decision{Ticket: tick.ID, Verdict: inbox.Allow, Level: inbox.L1, Channel: inbox.Terminal, At: noon}
			if ok, err := s.Change(ctx, tick, &d); err != nil || !ok {
				t.Fatal(ok, err)
			}
			tick.Revision++
			want = append(want, tick)
		}
	}
	for n := range 2 * emptyAtOnce { // more than one transaction is for
		tick := ticket(1000 + n)
		tick.State, tick.Finished = inbox.Denied, noon
		_, err := s.Admit(ctx, tick, noon)
		must(t, err)
		tick.Args, tick.View.Args = nil, ""
		tick.Revision++
		want = append(want, tick)
	}
	stale := want[2*(inbox.Done-1)] // as somebody read it before
	var wg sync.WaitGroup
	for _, gate := range []*Store{s, other, s} {
		wg.Go(func() {
			if err := gate.Empty(ctx, later.Add(-month), gone); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i, tick := range want {
		if i < 2*len(inbox.States()) && i%2 == 0 && !tick.State.Open() {
			tick.Args, tick.Result, tick.View.Args, tick.View.Last = nil, gone, "", nil
			tick.Revision++
		}
		got, err := s.Ticket(ctx, tick.ID)
		must(t, err)
		if a, b := text(t, got), text(t, tick); a != b {
			t.Errorf("%v that ended %v:\ngot  %s\nwant %s", tick.State, tick.Finished, a, b)
		}
		if i < 2*len(inbox.States()) {
			if _, err := s.Decision(ctx, tick.ID); err != nil {
				t.Error(err)
			}
		}
	}
	stale.Delivered = true
	if ok, err := s.Change(ctx, stale, nil); err != nil || ok {
		t.Errorf("what was read before puts the result back: %v %v", ok, err)
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	must(t, err)
	return string(b)
}

func TestABareListHasNothingLarge(t *testing.T) {
	s := newStore(t)
	tick := ticket(1)
	tick.Result = json.RawMessage(`{"large":1}`)
	_, err := s.Admit(t.Context(), tick, noon)
	must(t, err)
	got, err := s.Tickets(t.Context(), inbox.Query{Bare: true})
	must(t, err)
	tick.Args, tick.Result, tick.View = nil, nil, inbox.View{}
	if len(got) != 1 || got[0].ID != tick.ID || got[0].State != inbox.Pending || got[0].Binding != tick.Binding ||
		got[0].Args != nil || got[0].Result != nil || got[0].View.Args != "" {
		t.Errorf("got  %+v\nwant %+v", got, tick)
	}
}

func TestSessionsInUseAreNotForgotten(t *testing.T) {
	s, ctx := newStore(t), t.Context()
	began := time.Now()
	for _, id := range []string{"s_live", "s_over"} {
		must(t, s.KeepSession(ctx, id, json.RawMessage(`{}`), began))
		must(t, s.ChargeBytes(ctx, id, 7))
	}
	must(t, s.Forget(ctx, began.Add(-month)))
	later := began.Add(2 * month)
	must(t, s.StillUsed(ctx, []string{"s_live", "s_nobody"}, later))
	must(t, s.Forget(ctx, later.Add(-month)))
	for id, want := range map[string]int64{"s_live": 7, "s_over": 0} {
		_, bytes, err := s.Spent(ctx, id)
		if err != nil || bytes != want {
			t.Errorf("%s has spent %d, %v, want %d", id, bytes, err, want)
		}
		if _, _, err := s.Session(ctx, id); errors.Is(err, inbox.ErrNotFound) != (want == 0) {
			t.Errorf("the record of %s: %v", id, err)
		}
	}
}

func TestOnlyDeadProcessesAreForgotten(t *testing.T) {
	s, ctx := newStore(t), t.Context()
	lives := map[string]inbox.Life{"p_dead": inbox.Dead, "p_alive": inbox.Alive, "p_elsewhere": inbox.Unclear, "p_new": inbox.Dead}
	for id := range lives {
		started := noon
		if id == "p_new" {
			started = noon.Add(month)
		}
		must(t, s.Register(ctx, inbox.Process{ID: id, PID: 1, Host: "h", Started: started}))
	}
	must(t, s.Bury(ctx, noon.Add(time.Hour), func(p inbox.Process) inbox.Life { return lives[p.ID] }))
	for id := range lives {
		if _, err := s.Process(ctx, id); errors.Is(err, inbox.ErrNotFound) != (id == "p_dead") {
			t.Errorf("%s: %v", id, err)
		}
	}
}

func TestTheJournalKeepsWhatIsNotSettled(t *testing.T) {
	s, ctx := newStore(t), t.Context()
	states := []checkpoint.EntryState{checkpoint.EntryOpen, checkpoint.EntryKept, checkpoint.EntryVoid, checkpoint.EntryUndone, checkpoint.EntryUndoing}
	stays := map[string]bool{}
	for _, state := range states {
		for _, at := range []time.Time{noon, noon.Add(month)} {
			id := fmt.Sprint(state, at.Month())
			must(t, s.AddEntry(ctx, checkpoint.Entry{ID: id, At: at, State: state, Copy: checkpoint.Copy{Files: []checkpoint.File{{Before: checkpoint.State{SHA256: id}}}}}))
			if at != noon || state == checkpoint.EntryOpen || state == checkpoint.EntryUndoing {
				stays[id] = true
			}
		}
	}
	copies, err := s.PruneJournal(ctx, noon.Add(time.Hour))
	must(t, err)
	left, err := s.Entries(ctx, "", "", 0)
	must(t, err)
	if len(left) != len(stays) || text(t, copies) != text(t, stays) {
		t.Errorf("%d entries and the copies %v stay, want %v", len(left), copies, stays)
	}
}

// TestAnOlderFormatIsBroughtUp has a database of the first format, in which
// nothing says when what was spent was spent.
func TestAnOlderFormatIsBroughtUp(t *testing.T) {
	all := migrations
	migrations = all[:1]
	t.Cleanup(func() { migrations = all })
	path := filepath.Join(t.TempDir(), "state.db")
	old := New(path)
	_, err := old.Admit(t.Context(), ticket(1), noon)
	must(t, err)
	_, err = old.write.Exec(`INSERT INTO spend (account, calls, bytes) VALUES ('s_1', 5, 0)`)
	must(t, err)
	must(t, old.Close())
	migrations = all
	s := New(path)
	defer s.Close()
	must(t, s.Forget(t.Context(), time.Now().Add(-time.Minute)))
	if calls, _, err := s.Spent(t.Context(), "s_1"); err != nil || calls != 5 {
		t.Errorf("%d calls, %v", calls, err)
	}
	if _, err := s.Ticket(t.Context(), ticket(1).ID); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}
