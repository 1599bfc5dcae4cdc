package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/inbox"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
)

// A gate is killed at each step of an approved call's life, and the next gate
// of the home goes on from what is on the disk.
func TestKillAtEveryStep(t *testing.T) {
	t.Parallel()
	const plain, before, after = `{"nonce":"n"}`, `{"nonce":"n","hold":"before"}`, `{"nonce":"n","hold":"after"}`
	for _, step := range []struct {
		name  string
		args  string
		until func(r *rig, args string) // does what leads to the step, and kills the gate there
		left  inbox.State               // of the ticket; 0 is none
		ran   int                       // before the kill
		again string                    // what an equal call gets from the next gate
		state inbox.State               // of the ticket then
		total int                       // runs in the end
	}{
		{"before the question is durable", plain, killedAsking, 0, 0, "erase did n", inbox.Done, 1},
		{"while a person reads", plain, killedReading, inbox.Pending, 0, "erase did n", inbox.Done, 1},
		{"before the yes is durable", plain, killedDeciding, inbox.Pending, 0, "erase did n", inbox.Done, 1},
		{"after the yes and before the claim", plain, killedApproved, inbox.Approved, 0, "erase did n", inbox.Done, 1},
		{"after the claim, before its server read it", plain, killedRunning, inbox.Running, 0, "[unsettled]", inbox.Unknown, 0},
		{"while its server has it", before, killedHeld, inbox.Running, 0, "[unsettled]", inbox.Unknown, 0},
		{"after it happened", after, killedHeld, inbox.Running, 1, "[unsettled]", inbox.Unknown, 1},
		{"before the receipt is durable", after, killedReceiving, inbox.Running, 1, "[unsettled]", inbox.Unknown, 1},
		{"after the receipt, which nobody has heard of", plain, killedFinished, inbox.Done, 1, "erase did n", inbox.Done, 1},
	} {
		t.Run(step.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			step.until(r, step.args)
			r.orphans()
			if left := r.tickets(); step.left == 0 && len(left) != 0 || step.left != 0 && r.ticket("n").State != step.left {
				t.Fatalf("the killed gate left%s", r.summary())
			}
			if got := r.ran()["n"]; got != step.ran {
				t.Fatalf("it ran %d times before the kill, want %d", got, step.ran)
			}
			next := r.client(answering(allowOnce))
			if got := next.must("counting/erase", step.args); !strings.Contains(got, step.again) {
				t.Errorf("the equal call gives %s, want %q", got, step.again)
			}
			if got := r.ticket("n"); got.State != step.state {
				t.Errorf("the ticket is %v (%s), want %v", got.State, got.Note, step.state)
			}
			if got := r.ran()["n"]; got != step.total {
				t.Errorf("it ran %d times, want %d", got, step.total)
			}
			next.quick("after")
		})
	}
}

func killedAsking(r *rig, args string) {
	r.makeStore()
	defer r.lock()()
	a := r.client(nobody)
	a.begin("tools/call", callParams("counting/erase", args))
	a.quick("p") // the call before it is on its way
	a.kill()
}

// reading starts a call and returns once the person has the question.
func (r *rig) reading(args string) (*agent, question) {
	r.t.Helper()
	shown := make(chan question, 1)
	a := r.client(func(_ *agent, q question) { shown <- q })
	a.begin("tools/call", callParams("counting/erase", args))
	select {
	case q := <-shown:
		return a, q
	case <-time.After(patience):
		r.t.Fatalf("no question within %v", patience)
		return nil, question{}
	}
}

func killedReading(r *rig, args string) {
	a, _ := r.reading(args)
	a.kill()
}

func killedDeciding(r *rig, args string) {
	a, q := r.reading(args)
	defer r.lock()()
	a.reply(q, human, allowOnce)
	r.until("decision in the audit log", func() bool {
		return len(r.events(func(e audit.Event) bool { return e.Kind == audit.Decision })) > 0
	})
	a.kill()
}

func killedApproved(r *rig, args string) {
	a, _ := r.reading(args)
	a.kill()
	r.person().allow(r.ticket("n"))
}

func killedRunning(r *rig, args string) {
	a, q := r.reading(args)
	server := childOf(r.t, a.cmd.Process.Pid, r.runs)
	if err := syscall.Kill(server, syscall.SIGSTOP); err != nil {
		r.t.Fatal(err)
	}
	r.until("server that stands still", func() bool {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", server))
		return bytes.Contains(stat, []byte(") T ")) // its threads stop one by one
	})
	a.reply(q, human, allowOnce)
	r.state("n", inbox.Running)
	a.kill()
}

func killedHeld(r *rig, args string) {
	held := r.holding()
	a, q := r.reading(args)
	a.reply(q, human, allowOnce)
	held.next()
	a.kill()
	held.close()
}

func killedReceiving(r *rig, args string) {
	held := r.holding()
	a, q := r.reading(args)
	a.reply(q, human, allowOnce)
	release := held.next()
	defer r.lock()()
	release()
	for range 3 {
		a.quick("p") // its answer comes behind the one that was held
	}
	a.kill()
	held.close()
}

func killedFinished(r *rig, args string) {
	a, q := r.reading(args)
	a.write(jsonrpc.AppendNotification(nil, "notifications/cancelled", []byte(fmt.Sprintf(`{"requestId":%d}`, a.last))))
	r.until("caller that is known to be gone", func() bool { return r.ticket("n").CallerGone })
	a.reply(q, human, allowOnce) // too late to be heard
	r.person().allow(r.ticket("n"))
	r.state("n", inbox.Done)
	a.kill()
}

// A read that a person allowed may run again after a crash: nothing is lost by
// it, and its caller would wait for ever otherwise.
func TestKillWhileAReadRunsRepeatsIt(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(cfg map[string]any) {
		cfg["policy"] = map[string]any{"rules": []any{map[string]any{"do": "ask", "tools": "counting/peek"}}}
	})
	held := r.holding()
	a := r.client(answering(allowOnce))
	const args = `{"nonce":"n","hold":"after"}`
	a.begin("tools/call", callParams("counting/peek", args))
	held.next()
	a.kill()
	held.close()
	r.orphans()
	if got := r.client(nobody).must("counting/peek", args); !strings.Contains(got, "peek did n") {
		t.Errorf("the equal call gives %s", got)
	}
	if got := r.ticket("n"); got.State != inbox.Done {
		t.Errorf("the ticket is %v, %s", got.State, got.Note)
	}
	if got := r.ran()["n"]; got != 2 {
		t.Errorf("it ran %d times, want 2", got)
	}
}

// Gates are killed at random moments while a person allows calls through them;
// what they accepted is all there in the end, and no call ran twice.
func TestKillAtRandomMoments(t *testing.T) {
	t.Parallel()
	kills, homes := 40, 4
	if soaking() {
		kills = 500
	}
	seen := map[inbox.State]int{}
	var mu sync.Mutex
	t.Run("homes", func(t *testing.T) {
		for i := range homes {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				m := &mortal{rig: newRig(t, nil), random: rand.New(rand.NewPCG(uint64(i), 500)), seen: map[inbox.State]int{},
					asked: map[string]bool{}, got: map[string]bool{}, allowed: map[string]string{}}
				for range kills / homes {
					m.round()
				}
				m.settle()
				m.check()
				mu.Lock()
				defer mu.Unlock()
				for state, n := range m.seen {
					seen[state] += n
				}
			})
		}
	})
	t.Logf("%d kills; tickets after each of them: %v", kills, seen)
	for _, state := range []inbox.State{inbox.Pending, inbox.Approved, inbox.Running, inbox.Done, inbox.Unknown} {
		if (soaking() || state == inbox.Done) && seen[state] == 0 {
			t.Errorf("no kill left a ticket %v: the moments are badly chosen", state)
		}
	}
}

// A mortal is a home whose gates are killed one after the other, with a client
// that repeats what it has no answer to.
type mortal struct {
	*rig
	random *rand.Rand
	begun  int                 // calls
	open   []string            // nonces without an answer
	seen   map[inbox.State]int // tickets after each kill

	mu    sync.Mutex      // guards what follows
	last  bool            // nobody is killed any more
	hears func()          // the person has answered in this round
	asked map[string]bool // a person saw the question, so its ticket is durable
	got   map[string]bool // its result came
	// allowed is the ticket of each nonce that the person said yes to. They
	// allow nothing twice: for all the gate can tell, a result was given out to
	// a client that was gone by then, and an equal call is a new one.
	allowed map[string]string
}

// person answers after the usual time; of one call in ten they decide only
// when the killing is over.
func (m *mortal) person(a *agent, q question) {
	nonce := q.nonce()
	m.mu.Lock()
	m.asked[nonce] = true
	undecided := strings.HasSuffix(nonce, "7") && !m.last
	m.mu.Unlock()
	if undecided || !a.pause(human) {
		return
	}
	ticket := ""
	for _, t := range m.tickets(inbox.Pending) {
		if nonceOf(t) == nonce {
			ticket = t.ID
		}
	}
	m.mu.Lock()
	first, again := m.allowed[nonce]
	if !again {
		m.allowed[nonce] = ticket
	}
	hears := m.hears
	m.mu.Unlock()
	defer hears()
	if again && first != ticket {
		a.reply(q, 0, denyForm)
		return
	}
	a.reply(q, 0, allowOnce)
}

// round lets a gate live for a moment: one in four dies while it starts, the
// others while questions go out or answers come in and calls run.
func (m *mortal) round() {
	for len(m.open) < 6 {
		m.begun++
		m.open = append(m.open, fmt.Sprintf("c%d", m.begun))
	}
	a := m.spawn(m.person, built.gate)
	after := func(from, span time.Duration) {
		timer := time.AfterFunc(from+time.Duration(m.random.Int64N(int64(span))), func() { _ = a.cmd.Process.Kill() })
		m.t.Cleanup(func() { timer.Stop() })
	}
	moment := m.random.IntN(4)
	if moment == 0 {
		after(0, 120*time.Millisecond)
	}
	hears := func() {}
	if moment > 1 { // however long a busy machine takes until then
		hears = sync.OnceFunc(func() { after(0, 150*time.Millisecond) })
	}
	m.mu.Lock()
	m.hears = hears
	m.mu.Unlock()
	if a.handshake(`{"elicitation":{}}`) == nil {
		if moment == 1 {
			after(0, human)
		} else {
			after(10*human, human) // all that is open may be what they decide later
		}
		m.callAll(a)
	}
	a.kill()
	m.orphans()
	for _, t := range m.tickets() {
		m.seen[t.State]++
	}
}

// callAll makes every open call and returns when each has its answer or the
// gate is gone.
func (m *mortal) callAll(a *agent) {
	answers := make([]string, len(m.open))
	var wg sync.WaitGroup
	for i, nonce := range m.open {
		wg.Go(func() { answers[i], _ = a.erase(nonce) }) // one without an answer stays open
	}
	wg.Wait()
	var still []string
	for i, nonce := range m.open {
		switch got := answers[i]; {
		case got == "":
			still = append(still, nonce)
		case strings.Contains(got, "erase did "+nonce):
			m.got[nonce] = true
		case !strings.Contains(got, "[unsettled]") && !strings.Contains(got, "[declined]"):
			m.t.Errorf("the call of %s gives %s", nonce, got)
		}
	}
	m.open = still
}

// settle lets a last gate live until nothing is left to do.
func (m *mortal) settle() {
	m.t.Helper()
	m.mu.Lock()
	m.last, m.hears = true, func() {}
	m.mu.Unlock()
	a := m.client(m.person)
	m.callAll(a)
	if len(m.open) > 0 {
		m.t.Errorf("no answer to %v", m.open)
	}
	m.until("end of what was approved and running", func() bool {
		return len(m.tickets(inbox.Approved, inbox.Running)) == 0
	})
	a.close()
}

// check holds what is on the disk against what ran and what the client saw.
func (m *mortal) check() {
	m.t.Helper()
	done, unknown, known := map[string]int{}, map[string]int{}, map[string]bool{}
	for _, t := range m.tickets() {
		nonce := nonceOf(t)
		known[nonce] = true
		switch t.State {
		case inbox.Done:
			done[nonce]++
		case inbox.Unknown:
			unknown[nonce]++
		case inbox.Denied, inbox.Pending:
		default:
			m.t.Errorf("ticket %s of %s is left %v: %s", t.ID, nonce, t.State, t.Note)
		}
	}
	ran := m.ran()
	for nonce := range m.asked {
		if !known[nonce] {
			m.t.Errorf("%s was asked about and has no ticket", nonce)
		}
	}
	for nonce := range known {
		if n := ran[nonce]; n > 1 || n < done[nonce] || n > done[nonce]+unknown[nonce] {
			m.t.Errorf("%s ran %d times, with %d tickets done and %d unknown", nonce, n, done[nonce], unknown[nonce])
		}
	}
	for nonce := range m.got {
		if ran[nonce] != 1 || done[nonce] != 1 {
			m.t.Errorf("%s was answered; it ran %d times and has %d tickets that are done", nonce, ran[nonce], done[nonce])
		}
	}
	m.checkAudit(ran)
}

// checkAudit holds the log against what ran: nothing runs that was not written
// down before, and no kill looks like tampering.
func (m *mortal) checkAudit(ran map[string]int) {
	m.t.Helper()
	var intents []string
	for _, e := range m.events(func(e audit.Event) bool { return e.Kind == audit.Intent }) {
		intents = append(intents, e.ArgsDigest)
	}
	for nonce := range ran {
		digest, err := inbox.ArgsDigest([]byte(fmt.Sprintf(`{"nonce":%q}`, nonce)))
		if err != nil || !slices.Contains(intents, digest) {
			m.t.Errorf("%s ran, and the audit log has no intent of it: %v", nonce, err)
		}
	}
	if out, errs, code := command(m.t, m.home, "audit", "verify"); code != 0 {
		m.t.Errorf("audit verify: exit %d\n%s%s", code, out, errs)
	}
}
