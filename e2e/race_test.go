package e2e

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/inbox"
	"github.com/mcp-gate/mcp-gate/internal/canonjson"
)

// parked has every erasing call wait in the inbox at once, so that its client
// has a stub and nobody is waited for.
func parked(cfg map[string]any) {
	cfg["policy"] = map[string]any{"rules": []any{map[string]any{"do": "defer", "tools": "counting/erase*"}}}
}

// strict has parked calls need the proof that destructive ones need by default.
func strict(cfg map[string]any) {
	parked(cfg)
	delete(cfg, "approval")
}

// Two gates of a home, and 32 callers of each, race for approved calls of a
// third one that is gone; each runs once.
func TestSoakTwoGatesRunEachApprovedCallOnce(t *testing.T) {
	t.Parallel()
	n := 200
	if soaking() {
		n = 1000
	}
	r := newRig(t, parked)
	nonces := make([]string, n)
	first := r.client(nobody)
	var wg sync.WaitGroup
	for i := range nonces {
		nonces[i] = fmt.Sprintf("n%d", i)
		wg.Go(func() {
			if got, err := first.erase(nonces[i]); err != nil || !strings.Contains(got, "deferred [deferred]") {
				t.Errorf("the call gives %s, %v", got, err)
			}
		})
	}
	wg.Wait()
	first.kill()
	r.orphans()
	r.person().allow(r.tickets()...)
	gates := []*agent{r.client(nobody), r.client(nobody)}
	for i := range 64 {
		order := rand.New(rand.NewPCG(uint64(i), 64)).Perm(n)
		wg.Go(func() {
			for _, j := range order[:n/8] {
				got, err := gates[i%2].erase(nonces[j])
				if err != nil || !strings.Contains(got, "erase did "+nonces[j]) && !strings.Contains(got, "deferred [deferred]") {
					t.Errorf("%s gives %s, %v", nonces[j], got, err)
				}
			}
		})
	}
	wg.Wait()
	r.until("end of all that was approved", func() bool { return len(r.tickets(inbox.Approved, inbox.Running)) == 0 })
	for _, g := range gates {
		g.close()
	}
	ran := r.ran()
	for _, nonce := range nonces {
		if ran[nonce] != 1 {
			t.Errorf("%s ran %d times", nonce, ran[nonce])
		}
	}
	if done := len(r.tickets(inbox.Done)); done != n || len(ran) != n {
		t.Errorf("%d tickets are done and %d calls ran, want %d", done, len(ran), n)
	}
	share := map[string]int{}
	for _, t := range r.tickets(inbox.Done) {
		share[t.Runner]++
	}
	t.Logf("%d tickets, run by %v", n, share)
	r.unlocked(gates...)
}

// unlocked looks for a gate that gave up at the other's lock.
func (r *rig) unlocked(gates ...*agent) {
	r.t.Helper()
	for _, g := range gates {
		if log := g.log.String(); strings.Contains(log, "locked") || strings.Contains(log, "SQLITE_BUSY") {
			r.t.Errorf("a gate's log speaks of locks:\n%s", log)
		}
	}
}

// sql changes the database as another program would that has the right to.
func (r *rig) sql(query string, args ...any) {
	r.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(r.home, "state.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		r.t.Fatal(err)
	}
	defer db.Close()
	result, err := db.Exec(query, args...)
	if err != nil {
		r.t.Fatalf("%s: %v", query, err)
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		r.t.Fatalf("%s changed nothing: %v", query, err)
	}
}

// moved is a home with an allowed call "n", and one "other" beside it about
// which nobody decided. No gate lives.
func moved(t *testing.T, edit func(map[string]any)) (r *rig, allowed, other inbox.Ticket, p *person) {
	t.Helper()
	r = newRig(t, edit)
	p = r.person()
	a := r.client(nobody)
	for _, nonce := range []string{"n", "other"} {
		if got := a.mustErase(nonce); !strings.Contains(got, "deferred [deferred]") {
			t.Fatalf("the call of %s gives %s", nonce, got)
		}
	}
	a.kill()
	r.orphans()
	p.allow(r.ticket("n"))
	return r, r.ticket("n"), r.ticket("other"), p
}

// definitions are the digests of the counting server's tools.
func (r *rig) definitions() map[string]string {
	r.t.Helper()
	out, errs, code := command(r.t, r.home, "tools", "ls", "--json")
	var listed struct {
		Tools []struct {
			ID         string
			Definition json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(out), &listed); err != nil || code != 0 {
		r.t.Fatalf("tools ls: %v, exit %d, %s", err, code, errs)
	}
	digests := map[string]string{}
	for _, tool := range listed.Tools {
		digest, err := canonjson.Digest(tool.Definition)
		if err != nil {
			r.t.Fatal(err)
		}
		digests[strings.TrimPrefix(tool.ID, "counting/")] = digest
	}
	return digests
}

// An approval is of one call. Whatever it is moved to does not run, and the
// audit log says why.
func TestAnApprovalIsForOneCallOnly(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		move  func(r *rig, allowed, other inbox.Ticket)
		moved string // the nonce of the ticket that must not run
		state inbox.State
		why   string // in the audit line
	}{
		{"to another ticket", func(r *rig, allowed, other inbox.Ticket) {
			r.sql(`INSERT INTO decisions (ticket, counted, at, body, channel, level, verdict) SELECT ?, counted, at, body, channel, level, verdict FROM decisions WHERE ticket = ?`, other.ID, allowed.ID)
			r.sql(`UPDATE tickets SET state = 'approved' WHERE id = ?`, other.ID)
		}, "other", inbox.Stale, "another call"},
		{"to another ticket, with its name changed", func(r *rig, allowed, other inbox.Ticket) {
			r.sql(`INSERT INTO decisions (ticket, counted, at, body, channel, level, verdict) SELECT ?, counted, at, replace(body, ?, ?), channel, level, verdict FROM decisions WHERE ticket = ?`,
				other.ID, allowed.ID, other.ID, allowed.ID)
			r.sql(`UPDATE decisions SET body = replace(body, ?, ?) WHERE ticket = ?`, allowed.Binding.Digest(), other.Binding.Digest(), other.ID)
			r.sql(`UPDATE decisions SET body = replace(body, ?, ?) WHERE ticket = ?`, allowed.View.Digest(), other.View.Digest(), other.ID)
			r.sql(`UPDATE tickets SET state = 'approved' WHERE id = ?`, other.ID)
		}, "other", inbox.Stale, "signature"},
		{"to other arguments", func(r *rig, allowed, other inbox.Ticket) {
			r.sql(`UPDATE tickets SET args = ? WHERE id = ?`, []byte(other.Args), allowed.ID)
		}, "other", inbox.Stale, "arguments"},
		{"to other arguments and their digest", func(r *rig, allowed, other inbox.Ticket) {
			r.sql(`UPDATE tickets SET args = ?, binding = replace(binding, ?, ?) WHERE id = ?`, []byte(other.Args), allowed.Binding.Args, other.Binding.Args, allowed.ID)
		}, "other", inbox.Stale, "another call"},
		{"to another tool", func(r *rig, allowed, _ inbox.Ticket) {
			r.sql(`UPDATE tickets SET tool = 'erase_other', binding = replace(binding, '"erase"', '"erase_other"'), view = replace(view, '"erase"', '"erase_other"') WHERE id = ?`, allowed.ID)
		}, "n", inbox.Stale, "definition"},
		{"to another tool and its definition", func(r *rig, allowed, _ inbox.Ticket) {
			definitions := r.definitions()
			r.sql(`UPDATE tickets SET tool = 'erase_other', binding = replace(replace(binding, '"erase"', '"erase_other"'), ?, ?), view = replace(view, '"erase"', '"erase_other"') WHERE id = ?`,
				definitions["erase"], definitions["erase_other"], allowed.ID)
		}, "n", inbox.Stale, "another call"},
		{"to another principal", func(r *rig, allowed, _ inbox.Ticket) {
			r.sql(`UPDATE tickets SET principal = 'somebody', binding = replace(binding, '"local"', '"somebody"') WHERE id = ?`, allowed.ID)
		}, "n", inbox.Stale, "principal"},
		{"to another definition", func(r *rig, _, _ inbox.Ticket) { r.describe("Erases for good, and mails it to somebody.") }, "n", inbox.Stale, "definition"},
		{"to another policy", func(r *rig, _, _ inbox.Ticket) {
			r.configure(func(cfg map[string]any) {
				cfg["policy"] = map[string]any{"allow_destructive": true, "rules": []any{map[string]any{"do": "defer", "tools": "counting/*"}}}
			})
		}, "n", inbox.Stale, "policy"},
		{"to a policy that denies it", func(r *rig, _, _ inbox.Ticket) {
			r.configure(func(cfg map[string]any) {
				cfg["policy"] = map[string]any{"rules": []any{map[string]any{"do": "deny", "tools": "counting/erase"}}}
			})
		}, "n", inbox.Stale, "rule"},
		{"to a later hour", func(r *rig, allowed, _ inbox.Ticket) {
			past := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339Nano)
			r.sql(`UPDATE tickets SET binding = json_set(binding, '$.expires', ?) WHERE id = ?`, past, allowed.ID)
		}, "n", inbox.Expired, "expired"},
		{"to a row without a decision", func(r *rig, _, other inbox.Ticket) {
			r.sql(`UPDATE tickets SET state = 'approved' WHERE id = ?`, other.ID)
		}, "other", inbox.Stale, "no decision"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, allowed, other, _ := moved(t, strict)
			tt.move(r, allowed, other)
			ticket := allowed.ID
			if tt.moved == "other" && !strings.Contains(tt.name, "arguments") {
				ticket = other.ID
			}
			next := r.client(nobody)
			r.until("end of the moved ticket", func() bool {
				for _, t := range r.tickets() {
					if t.ID == ticket {
						return !t.State.Open()
					}
				}
				return false
			})
			next.close()
			if got := r.ran()[tt.moved]; got != 0 {
				t.Errorf("%s ran %d times", tt.moved, got)
			}
			for _, got := range r.tickets() {
				if got.ID == ticket && got.State != tt.state {
					t.Errorf("the ticket is %v (%s), want %v", got.State, got.Note, tt.state)
				}
			}
			lines := r.events(func(e audit.Event) bool {
				return e.Ticket == ticket && (e.Kind == audit.Refusal || e.Kind == audit.Note) && strings.Contains(e.Code+" "+e.Note+" "+e.Rule, tt.why)
			})
			if len(lines) == 0 {
				t.Errorf("no audit line says %q:\n%v", tt.why, r.events(func(e audit.Event) bool { return e.Ticket == ticket }))
			}
		})
	}
}

// An approval is used up by the run that it allowed: the same signed yes
// changes nothing, and an equal call, of whomever, is a question of its own.
func TestAnApprovalIsUsedUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, strict)
	a := r.client(nobody)
	a.mustErase("n")
	p := r.person()
	first := r.ticket("n")
	yes, err := p.desk.Draft(first, inbox.Allow, inbox.L1, inbox.Terminal, "").Sign(p.key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.desk.Decide(context.Background(), yes); err != nil {
		t.Fatal(err)
	}
	r.state("n", inbox.Done)
	other := r.client(nobody, "--client", "other")
	if got := other.mustErase("n"); !strings.Contains(got, "deferred [deferred]") || strings.Contains(got, first.ID) {
		t.Errorf("another principal's equal call gives %s", got)
	}
	if got := a.mustErase("n"); !strings.Contains(got, "erase did n") {
		t.Errorf("the equal call gives %s, want the result that nobody got yet", got)
	}
	if got := a.mustErase("n"); !strings.Contains(got, "deferred [deferred]") || strings.Contains(got, first.ID) {
		t.Errorf("the equal call after that gives %s, want a question of its own", got)
	}
	var state *inbox.StateError
	if _, err := p.desk.Decide(context.Background(), yes); !errors.As(err, &state) {
		t.Errorf("the same yes again gives %v", err)
	}
	if got := r.ran()["n"]; got != 1 {
		t.Errorf("it ran %d times, want 1", got)
	}
}

// A yes does not outlive its ticket, and none can be given after it.
func TestAnApprovalExpires(t *testing.T) {
	t.Parallel()
	r, allowed, other, p := moved(t, func(cfg map[string]any) {
		strict(cfg)
		cfg["approval"] = map[string]any{"expires": "1m"} // time enough for what comes before, on any machine
	})
	timer := time.NewTimer(time.Until(allowed.Binding.Expires) + time.Second)
	defer timer.Stop()
	<-timer.C // nothing but time makes it late
	yes, err := p.desk.Draft(other, inbox.Allow, inbox.L1, inbox.Terminal, "").Sign(p.key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.desk.Decide(context.Background(), yes); err == nil {
		t.Error("a yes after the end of the ticket is taken")
	}
	r.client(nobody)
	r.state("n", inbox.Expired)
	r.state("other", inbox.Expired)
	r.until("audit line of the expiry", func() bool {
		return len(r.events(func(e audit.Event) bool { return e.Ticket == allowed.ID && e.Code == "expired" })) > 0
	})
	if ran := r.ran(); len(ran) != 0 {
		t.Errorf("ran %v", ran)
	}
}
