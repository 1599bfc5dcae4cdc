package store_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/inbox"
	"github.com/mcp-gate/mcp-gate/store"
)

// A gate process of these tests is this test binary, started anew with a role
// and a home.
const (
	roleVariable = "STORE_TEST_ROLE"
	homeVariable = "STORE_TEST_HOME"
	stepVariable = "STORE_TEST_STEP"
)

var roles = map[string]func(*gate, context.Context) error{
	"race":  (*gate).race,
	"crash": (*gate).crash,
	"steps": (*gate).crash, // with a store that ends the process at a step
}

func TestMain(m *testing.M) {
	role, ok := roles[os.Getenv(roleVariable)]
	if !ok {
		os.Exit(m.Run())
	}
	g, err := newGate(os.Getenv(homeVariable))
	if err == nil {
		err = role(g, context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A gate is what one process holds of a home: an inbox, forms, and an upstream
// that counts, which is a file with a line for each call that reached it.
type gate struct {
	home  string
	in    *inbox.Inbox
	forms *inbox.Forms
	store *store.Store
	runs  *os.File // appended to by single writes, so that processes can share it
}

func newGate(home string) (*gate, error) {
	key, err := inbox.LoadGateKey(filepath.Join(home, "keys"), rand.Reader)
	if err != nil {
		return nil, err
	}
	ring, err := inbox.OpenRing(filepath.Join(home, "keys"), key, false, nil)
	if err != nil {
		return nil, err
	}
	g := &gate{home: home, store: store.New(filepath.Join(home, "state.db"))}
	var kept inbox.Store = g.store
	if step := os.Getenv(stepVariable); step != "" {
		if kept, err = newDeadly(g.store, step); err != nil {
			return nil, err
		}
	}
	o := inbox.Options{Store: kept, Ring: ring, Now: time.Now, Random: rand.Reader, Process: store.Self(), Life: store.Life}
	if g.in, err = inbox.New(o); err != nil {
		return nil, err
	}
	o.Bell = g.in.Bell()
	g.forms = inbox.NewForms(o)
	g.runs, err = os.OpenFile(filepath.Join(home, "runs"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	return g, err
}

func question(n string) inbox.Question {
	return inbox.Question{
		Binding: inbox.Binding{Server: "sid", Tool: "count", Definition: "def", Principal: "local", Policy: "p", Session: "s"},
		Args:    json.RawMessage(fmt.Sprintf(`{"n":%q}`, n)),
		View: inbox.View{
			Tool: catalog.ToolID{Server: "counter", Tool: "count"}, Class: engagement.ReversibleWrite,
			Egress: []engagement.Egress{engagement.Metadata}, Definition: inbox.Definition{State: inbox.DefinitionAccepted, Digest: "def"},
			Rule: inbox.Rule{Name: "ask", Reason: "a test"}, Fallback: engagement.FallbackDefer, Level: inbox.L0,
		},
		Launch: "launch",
	}
}

// run claims a ticket, lets the upstream count, and keeps the receipt.
func (g *gate) run(ctx context.Context, t inbox.Ticket) (bool, error) {
	a := inbox.Attempt{Binding: t.Binding, Level: inbox.L0, Launch: "launch"}
	claimed, err := g.in.Claim(ctx, t.ID, a)
	var state *inbox.StateError
	var owner *inbox.NotOwnerError
	if errors.As(err, &state) || errors.As(err, &owner) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if _, err := fmt.Fprintf(g.runs, "%s\n", claimed.ID); err != nil {
		return false, err
	}
	_, err = g.in.Finish(ctx, t.ID, inbox.Receipt{Result: json.RawMessage(`{"content":[]}`)})
	return true, err
}

// start runs this binary in a role and returns it with its output.
func start(t *testing.T, role, home string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), roleVariable+"="+role, homeVariable+"="+home)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	return cmd, bufio.NewReader(out)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func lines(t *testing.T, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	must(t, err)
	return strings.Fields(string(b))
}

func counts(words []string) map[string]int {
	n := map[string]int{}
	for _, w := range words {
		n[w]++
	}
	return n
}

const racers = 64

// soaking reports whether the long forms of the tests are wanted.
func soaking() bool { return os.Getenv("MCP_GATE_SOAK") != "" }

// race lets many executors of one process try every ticket.
func (g *gate) race(ctx context.Context) error {
	tickets, err := g.in.Runnable(ctx)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	errs := make([]error, racers)
	var wg sync.WaitGroup
	for i := range racers {
		wg.Go(func() {
			r := mathrand.New(mathrand.NewPCG(uint64(i), uint64(os.Getpid())))
			for _, n := range r.Perm(len(tickets)) {
				if _, err := g.run(ctx, tickets[n]); err != nil {
					errs[i] = err
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Approved tickets of a process that is gone are raced for by 64 executors in
// each of two processes; each runs exactly once.
func TestSoakTwoProcessesRunEachApprovedCallOnce(t *testing.T) {
	n := 50
	if soaking() {
		n = 1000
	}
	home := t.TempDir()
	gone, err := newGate(home)
	must(t, err)
	want := map[string]int{}
	for i := range n {
		asked, err := gone.in.Ask(t.Context(), question(fmt.Sprint(i)))
		must(t, err)
		_, err = gone.forms.Answer(t.Context(), asked.Ticket.ID, inbox.AnswerOnce)
		must(t, err)
		want[asked.Ticket.ID] = 1
	}
	gone.bury(t)

	var cmds []*exec.Cmd
	var starts []io.WriteCloser
	for range 2 {
		exe, err := os.Executable()
		must(t, err)
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), roleVariable+"=race", homeVariable+"="+home)
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		must(t, err)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
			t.Fatalf("%q, %v", line, err)
		}
		cmds, starts = append(cmds, cmd), append(starts, in)
	}
	for _, in := range starts {
		must(t, in.Close())
	}
	for _, cmd := range cmds {
		must(t, cmd.Wait())
	}
	got := counts(lines(t, filepath.Join(home, "runs")))
	for id := range want {
		if got[id] != 1 {
			t.Errorf("%s ran %d times", id, got[id])
		}
	}
	if len(got) != n {
		t.Errorf("%d calls ran, want %d", len(got), n)
	}
	after := store.New(filepath.Join(home, "state.db"))
	defer after.Close()
	done, err := after.Tickets(t.Context(), inbox.Query{States: []inbox.State{inbox.Done}, Limit: n + 1})
	if err != nil || len(done) != n {
		t.Errorf("%d tickets done, %v", len(done), err)
	}
}

// bury closes the gate and makes its process one that ended: this test's own
// process lives on and would be asked to run its tickets.
func (g *gate) bury(t *testing.T) {
	t.Helper()
	must(t, errors.Join(g.store.Close(), g.runs.Close()))
	db := openRaw(t, filepath.Join(g.home, "state.db"))
	_, err := db.Exec(`UPDATE processes SET birth = 'before', pid = 1 WHERE id = ?`, g.in.Process())
	must(t, errors.Join(err, db.Close()))
}

// crash asks, lets a person allow, and runs, for ever; before that it takes
// care of what dead processes left. What was promised is told on stdout, after
// the promise is durable.
func (g *gate) crash(ctx context.Context) error {
	if _, err := g.in.Recover(ctx); err != nil {
		return err
	}
	left, err := g.in.Runnable(ctx)
	if err != nil {
		return err
	}
	for _, t := range left {
		if _, err := g.run(ctx, t); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	for i := 0; ; i++ {
		asked, err := g.in.Ask(ctx, question(fmt.Sprintf("%s %d", g.in.Process(), i)))
		if err != nil {
			return err
		}
		fmt.Println("asked", asked.Ticket.ID)
		t, err := g.forms.Answer(ctx, asked.Ticket.ID, inbox.AnswerOnce)
		if err != nil {
			return err
		}
		fmt.Println("approved", t.ID)
		ran, err := g.run(ctx, t)
		if err != nil {
			return err
		}
		if !ran {
			return fmt.Errorf("%s could not be run", t.ID)
		}
		fmt.Println("done", t.ID)
	}
}

// A gate is killed at random moments, again and again, in one home. Nothing
// that was promised is lost, nothing runs twice, and what was running is
// unknown afterwards or done.
func TestKilledGatesLoseNothingAndRunNothingTwice(t *testing.T) {
	kills := 50
	if soaking() {
		kills = 500
	}
	home := t.TempDir()
	r := mathrand.New(mathrand.NewPCG(5, 0))
	promised := map[string]string{} // ticket -> the last promise about it
	for n := range kills {
		cmd, out := start(t, "crash", home)
		if line, err := out.ReadString('\n'); err != nil || line != "ready\n" {
			t.Fatalf("%q, %v", line, err)
		}
		if n == 0 { // on a slow disk it may be the only one in which a call is done
			for range 3 { // asked, approved, done
				hear(out, promised)
			}
		}
		kill := time.AfterFunc(time.Duration(r.IntN(30_000))*time.Microsecond, func() { _ = cmd.Process.Kill() })
		listen(out, promised)
		kill.Stop()
		_ = cmd.Wait() // killed
		if cmd.ProcessState.Exited() {
			t.Fatalf("the gate ended by itself: %v", cmd.ProcessState)
		}
	}
	takeCare(t, home, promised)
}

// A deadly store kills its process at the n-th of the points before and after
// each write.
type deadly struct {
	inbox.Store
	mu   sync.Mutex
	left int // guarded by mu
}

func newDeadly(s inbox.Store, step string) (*deadly, error) {
	n, err := strconv.Atoi(step)
	return &deadly{Store: s, left: n}, err
}

func (d *deadly) point() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left--; d.left == 0 {
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		panic(err) // the kill is on its way
	}
}

func (d *deadly) Admit(ctx context.Context, t inbox.Ticket, since time.Time) (inbox.Ticket, error) {
	d.point()
	kept, err := d.Store.Admit(ctx, t, since)
	d.point()
	return kept, err
}

func (d *deadly) Change(ctx context.Context, t inbox.Ticket, dec *inbox.Decision) (bool, error) {
	d.point()
	won, err := d.Store.Change(ctx, t, dec)
	d.point()
	return won, err
}

// A gate is killed before and after every write of two calls' lives: admitting,
// approving, claiming and finishing.
func TestKilledAtEveryStep(t *testing.T) {
	home := t.TempDir()
	promised := map[string]string{}
	const writes = 4
	for step := 1; step <= 2*2*writes; step++ {
		t.Setenv(stepVariable, strconv.Itoa(step))
		cmd, out := start(t, "steps", home)
		listen(out, promised)
		_ = cmd.Wait() // killed
		if cmd.ProcessState.Exited() {
			t.Fatalf("step %d: the gate ended by itself: %v", step, cmd.ProcessState)
		}
	}
	t.Setenv(stepVariable, "")
	takeCare(t, home, promised)
}

// listen notes what a gate promises until it ends.
func listen(out *bufio.Reader, promised map[string]string) {
	for hear(out, promised) {
	}
}

// hear notes the next promise. A line that is cut short promises nothing.
func hear(out *bufio.Reader, promised map[string]string) bool {
	line, err := out.ReadString('\n')
	if err != nil {
		return false
	}
	if what, id, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
		promised[id] = what
	}
	return true
}

// takeCare does what the next gate does with what is left, after which nothing
// is approved or running, and checks it all.
func takeCare(t *testing.T, home string, promised map[string]string) {
	t.Helper()
	last, err := newGate(home)
	must(t, err)
	_, err = last.in.Recover(t.Context())
	must(t, err)
	left, err := last.in.Runnable(t.Context())
	must(t, err)
	for _, ticket := range left {
		_, err := last.run(t.Context(), ticket)
		must(t, err)
	}
	checkHistory(t, last, promised)
	must(t, errors.Join(last.store.Close(), last.runs.Close()))
}

func checkHistory(t *testing.T, g *gate, promised map[string]string) {
	t.Helper()
	runs := counts(lines(t, filepath.Join(g.home, "runs")))
	tickets, err := g.store.Tickets(t.Context(), inbox.Query{Limit: 100_000})
	must(t, err)
	states := map[inbox.State]int{}
	known := map[string]bool{}
	for _, ticket := range tickets {
		states[ticket.State]++
		known[ticket.ID] = true
		n := runs[ticket.ID]
		ok := map[inbox.State]bool{
			inbox.Pending: n == 0 && promised[ticket.ID] != "approved" && promised[ticket.ID] != "done",
			inbox.Done:    n == 1,
			inbox.Unknown: n <= 1 && promised[ticket.ID] != "done",
		}
		if !ok[ticket.State] {
			t.Errorf("%s is %v, ran %d times, and its last promise was %q", ticket.ID, ticket.State, n, promised[ticket.ID])
		}
	}
	for id, what := range promised {
		if !known[id] {
			t.Errorf("%s was promised (%s) and is lost", id, what)
		}
	}
	for id, n := range runs {
		if n > 1 || !known[id] {
			t.Errorf("%s ran %d times, known %v", id, n, known[id])
		}
	}
	if states[inbox.Done] == 0 {
		t.Error("no call was done; the test shows nothing")
	}
	t.Logf("tickets by state: %v", states)
}
