package e2e

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite" // a foreign program that holds the database

	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/inbox"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/store"
)

// soaking reports whether the long forms of the tests are wanted.
func soaking() bool { return os.Getenv("MCP_GATE_SOAK") != "" }

// human is how long the person of these tests takes to answer: an answer
// within 300 ms is no person's.
const human = 310 * time.Millisecond

// atOnce is long for a machine that does much else, and short beside what a
// call that had to wait would take: that of a person's answer ends after 50 s.
const atOnce = 20 * time.Second

// The answers of a form as clients send them.
const (
	allowOnce = `{"action":"accept","content":{"decision":"allow-once"}}`
	denyForm  = `{"action":"accept","content":{"decision":"deny"}}`
	laterForm = `{"action":"accept","content":{"decision":"later"}}`
)

// A rig is a home with a counting server behind its gates.
type rig struct {
	t    *testing.T
	home string
	runs string // the counting server's file
	hold string // socket on which its held calls are told
	text string // file with the description of its tool erase
}

// newRig makes a rig whose destructive calls need no more than a client's
// answer. Edit may change the configuration.
func newRig(t *testing.T, edit func(cfg map[string]any)) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "rig") // short, since it holds a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	r := &rig{t: t, runs: filepath.Join(dir, "runs"), hold: filepath.Join(dir, "hold"), text: filepath.Join(dir, "text")}
	cfg := map[string]any{
		"servers":  map[string]any{"counting": r.server()},
		"approval": map[string]any{"least_level": map[string]string{"destructive": "L0"}},
	}
	if edit != nil {
		edit(cfg)
	}
	r.home = home(t, cfg)
	return r
}

// server is the counting server's entry in a configuration.
func (r *rig) server() map[string]any {
	return map[string]any{
		"command": built.counting, "args": []string{"-runs", r.runs, "-hold", r.hold, "-definition", r.text}, "preset": "workbench",
		"tools": map[string]any{"peek": map[string]string{"permission": "read"}, "erase*": map[string]string{"permission": "destructive", "egress": "metadata"}},
	}
}

// configure changes the configuration of gates to come.
func (r *rig) configure(edit func(cfg map[string]any)) {
	r.t.Helper()
	file := filepath.Join(r.home, "config.jsonc")
	raw, err := os.ReadFile(file)
	if err != nil {
		r.t.Fatal(err)
	}
	var cfg map[string]any
	if err := json.Unmarshal(raw, &cfg); err != nil {
		r.t.Fatal(err)
	}
	edit(cfg)
	if raw, err = json.Marshal(cfg); err != nil {
		r.t.Fatal(err)
	}
	// A gate that runs reads it, too: half of it is no configuration.
	if err := errors.Join(os.WriteFile(file+".new", raw, 0o600), os.Rename(file+".new", file)); err != nil {
		r.t.Fatal(err)
	}
}

// describe changes the definition of erase that servers to come offer.
func (r *rig) describe(text string) {
	r.t.Helper()
	if err := os.WriteFile(r.text, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// ran says how often each nonce was counted, by any tool.
func (r *rig) ran() map[string]int {
	r.t.Helper()
	raw, err := os.ReadFile(r.runs)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.t.Fatal(err)
	}
	n := map[string]int{}
	for line := range strings.Lines(string(raw)) {
		_, nonce, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !ok {
			r.t.Fatalf("a torn line in the counting file: %q", line)
		}
		n[nonce]++
	}
	return n
}

// db returns the home's database as another process of the home sees it.
func (r *rig) db() *store.Store {
	s := store.New(filepath.Join(r.home, "state.db"))
	r.t.Cleanup(func() { _ = s.Close() })
	return s
}

// tickets returns all tickets, newest first. A home in which nobody was asked
// has none.
func (r *rig) tickets(states ...inbox.State) []inbox.Ticket {
	r.t.Helper()
	if _, err := os.Stat(filepath.Join(r.home, "state.db")); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	s := store.New(filepath.Join(r.home, "state.db"))
	defer s.Close()
	all, err := s.Tickets(context.Background(), inbox.Query{States: states, Limit: 100_000})
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

// ticket returns the one ticket of a nonce.
func (r *rig) ticket(nonce string) inbox.Ticket {
	r.t.Helper()
	var found []inbox.Ticket
	for _, t := range r.tickets() {
		if nonceOf(t) == nonce {
			found = append(found, t)
		}
	}
	if len(found) != 1 {
		r.t.Fatalf("%d tickets for %q, want one: %v", len(found), nonce, found)
	}
	return found[0]
}

func nonceOf(t inbox.Ticket) string {
	var args struct{ Nonce string }
	_ = json.Unmarshal(t.Args, &args) // "" is nobody's nonce
	return args.Nonce
}

// until looks again and again until done holds.
func (r *rig) until(what string, done func() bool) {
	r.t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			r.t.Fatalf("no %s within %v; tickets: %s", what, patience, r.summary())
		}
	}
}

// state waits until the ticket of a nonce is in the state.
func (r *rig) state(nonce string, want inbox.State) inbox.Ticket {
	r.t.Helper()
	var got inbox.Ticket
	r.until(fmt.Sprintf("ticket of %s that is %v", nonce, want), func() bool {
		for _, t := range r.tickets() {
			if nonceOf(t) == nonce && t.State == want {
				got = t
				return true
			}
		}
		return false
	})
	return got
}

func (r *rig) summary() string {
	var b strings.Builder
	for _, t := range r.tickets() {
		fmt.Fprintf(&b, "\n%s %s %v %s", t.ID, nonceOf(t), t.State, t.Note)
	}
	return b.String()
}

// events returns the audit lines that keep wants, oldest first.
func (r *rig) events(keep func(audit.Event) bool) []audit.Event {
	r.t.Helper()
	records, err := audit.Tail(os.DirFS(filepath.Join(r.home, "audit")), 1_000_000, keep)
	if err != nil {
		r.t.Fatal(err)
	}
	events := make([]audit.Event, len(records))
	for i, rec := range records {
		events[i] = rec.Event
	}
	return events
}

// lock holds the database as a foreign program would that is in the middle of
// a write: gates wait at their next one. Release ends it.
func (r *rig) lock() (release func()) {
	r.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(r.home, "state.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		r.t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("BEGIN IMMEDIATE"); err != nil {
		r.t.Fatal(err)
	}
	return sync.OnceFunc(func() {
		if _, err := db.Exec("ROLLBACK"); err != nil {
			r.t.Error(err)
		}
		if err := db.Close(); err != nil {
			r.t.Error(err)
		}
	})
}

// makeStore makes the database, which a gate does at its first question.
func (r *rig) makeStore() {
	r.t.Helper()
	if _, err := r.db().Tickets(context.Background(), inbox.Query{}); err != nil {
		r.t.Fatal(err)
	}
}

// A person decides at a desk of the home, with an enrolled key.
type person struct {
	r    *rig
	desk *inbox.Desk
	key  *inbox.ApproverKey
}

const passphrase = "correct horse battery"

// person enrols the first key of the home and sits down.
func (r *rig) person() *person {
	r.t.Helper()
	ring := r.ring()
	key, approver, err := inbox.NewApproverKey(ring.Dir(), "test", []byte(passphrase), crand.Reader, time.Now())
	if err == nil {
		err = ring.Enroll(approver, key, time.Now())
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return &person{r, r.desk(), key}
}

// desk is one of the home, as the person's commands have it.
func (r *rig) desk() *inbox.Desk {
	r.t.Helper()
	return inbox.NewDesk(inbox.Options{Store: r.db(), Ring: r.ring(), Now: time.Now, Random: crand.Reader, Process: store.Self(), Life: store.Life})
}

func (r *rig) ring() *inbox.Ring {
	r.t.Helper()
	keys := filepath.Join(r.home, "keys")
	gate, err := inbox.LoadGateKey(keys, crand.Reader)
	if err != nil {
		r.t.Fatal(err)
	}
	ring, err := inbox.OpenRing(keys, gate, false, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return ring
}

// allow signs a yes to each ticket.
func (p *person) allow(tickets ...inbox.Ticket) {
	p.r.t.Helper()
	for _, t := range tickets {
		d, err := p.desk.Draft(t, inbox.Allow, inbox.L1, inbox.Terminal, "").Sign(p.key)
		if err == nil {
			_, err = p.desk.Decide(context.Background(), d)
		}
		if err != nil {
			p.r.t.Fatal(err)
		}
	}
}

// holding listens for calls that the counting server holds.
func (r *rig) holding() *holds {
	r.t.Helper()
	l, err := net.Listen("unix", r.hold)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { l.Close() })
	return &holds{r.t, l}
}

type holds struct {
	t *testing.T
	l net.Listener
}

// close lets go of what is held, and of all calls to come.
func (h *holds) close() { _ = h.l.Close() }

// next waits for a call to be held; release lets it go on, and returns once
// the server has taken that.
func (h *holds) next() (release func()) {
	h.t.Helper()
	if err := h.l.(*net.UnixListener).SetDeadline(time.Now().Add(patience)); err != nil {
		h.t.Fatal(err)
	}
	conn, err := h.l.Accept()
	if err != nil {
		h.t.Fatalf("wait for a held call: %v", err)
	}
	h.t.Cleanup(func() { conn.Close() })
	return func() {
		_, _ = io.WriteString(conn, "go on\n") // a server that is gone is some tests' subject
		_, _ = io.Copy(io.Discard, conn)
	}
}

// orphans waits until no counting server of a killed gate is left.
func (r *rig) orphans() {
	r.t.Helper()
	r.until("end of the killed gate's servers", func() bool { return len(running(r.runs)) == 0 })
}

// A question is an elicitation that reached a client.
type question struct {
	id      json.RawMessage
	params  json.RawMessage
	message string
	began   time.Time
}

var noncePattern = regexp.MustCompile(`(?m)^(?:\* )?/nonce: "(.*)"`)

func (q question) nonce() string {
	if m := noncePattern.FindStringSubmatch(q.message); m != nil {
		return m[1]
	}
	return ""
}

// errGone says that the gate ended before it answered.
var errGone = errors.New("the gate is gone")

// An agent is a client that many goroutines use at once and that outlives its
// gate: every wait ends with it.
type agent struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.Closer
	out   *jsonrpc.LineWriter
	log   *logged
	gone  chan struct{} // closed when the gate's output has ended

	ask func(*agent, question) // in a goroutine of its own

	mu      sync.Mutex // guards what follows
	last    int
	waiting map[string]chan jsonrpc.Message
	asked   int
	ended   bool
}

// logged is what a gate wrote to standard error.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A person who is asked nothing answers nothing.
func nobody(*agent, question) {}

// answering is a person who takes the usual time to say the same thing.
func answering(result string) func(*agent, question) {
	return func(a *agent, q question) { a.reply(q, human, result) }
}

// client starts a gate over stdio, with a client that can ask, and shakes hands.
func (r *rig) client(ask func(*agent, question), args ...string) *agent {
	r.t.Helper()
	a, err := r.start(`{"elicitation":{}}`, ask, args...)
	if err != nil {
		r.t.Fatalf("%v\n%s", err, a.log)
	}
	return a
}

// start returns errGone when the gate was killed meanwhile; the agent is never nil.
func (r *rig) start(capabilities string, ask func(*agent, question), args ...string) (*agent, error) {
	r.t.Helper()
	a := r.spawn(ask, built.gate, args...)
	return a, a.handshake(capabilities)
}

// spawn starts a gate without a word to it.
func (r *rig) spawn(ask func(*agent, question), program string, args ...string) *agent {
	r.t.Helper()
	args = append([]string{"--home", r.home, "--log-level", "info", "serve"}, args...)
	a := &agent{t: r.t, cmd: exec.Command(program, args...), ask: ask, log: &logged{}, gone: make(chan struct{}), waiting: map[string]chan jsonrpc.Message{}}
	a.cmd.Stderr = a.log
	stdin, err := a.cmd.StdinPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	stdout, err := a.cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := a.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	a.stdin, a.out = stdin, jsonrpc.NewLineWriter(stdin)
	go a.read(stdout)
	r.t.Cleanup(a.close)
	return a
}

func (a *agent) handshake(capabilities string) error {
	_, err := a.request("initialize", `{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":{"name":"e2e","version":"1"}}`)
	if err != nil {
		return err
	}
	a.write(jsonrpc.AppendNotification(nil, "notifications/initialized", nil))
	return nil
}

func (a *agent) read(stdout io.Reader) {
	defer close(a.gone)
	lines := jsonrpc.NewLineReader(stdout, 256<<20)
	for {
		line, err := lines.Next()
		if err != nil {
			return
		}
		m, err := jsonrpc.Parse(line)
		switch {
		case err != nil:
			return // a line that the kill cut short
		case m.IsRequest():
			a.mu.Lock()
			a.asked++
			a.mu.Unlock()
			var p struct{ Message string }
			_ = json.Unmarshal(m.Params, &p) // a message that is none fits no test
			go a.ask(a, question{m.ID, m.Params, p.Message, time.Now()})
		case m.IsResponse():
			a.mu.Lock()
			c := a.waiting[string(m.ID)]
			delete(a.waiting, string(m.ID))
			a.mu.Unlock()
			if c != nil {
				c <- m
			}
		}
	}
}

// questions is how many have come.
func (a *agent) questions() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

func (a *agent) write(line []byte) {
	_ = a.out.Send(context.Background(), line) // who waits for an answer learns that the gate is gone
}

// reply answers a question after some time, unless the gate is gone by then.
func (a *agent) reply(q question, after time.Duration, result string) {
	if !a.pause(after - time.Since(q.began)) {
		return
	}
	a.write(jsonrpc.AppendResult(nil, q.id, json.RawMessage(result)))
}

// pause waits as a person does. It is false when the gate ended meanwhile.
func (a *agent) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-a.gone:
		return false
	}
}

// begin sends a request; the answer comes on the channel.
func (a *agent) begin(method, params string) (id string, answer <-chan jsonrpc.Message) {
	c := make(chan jsonrpc.Message, 1)
	a.mu.Lock()
	a.last++
	id = strconv.Itoa(a.last)
	a.waiting[id] = c
	a.mu.Unlock()
	a.write(jsonrpc.AppendRequest(nil, json.RawMessage(id), method, json.RawMessage(params)))
	return id, c
}

func (a *agent) request(method, params string) (jsonrpc.Message, error) {
	_, answer := a.begin(method, params)
	return a.wait(answer)
}

func (a *agent) wait(answer <-chan jsonrpc.Message) (jsonrpc.Message, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case m := <-answer:
		return m, nil
	case <-a.gone:
		select {
		case m := <-answer: // it was read before the end
			return m, nil
		default:
			return jsonrpc.Message{}, errGone
		}
	case <-timer.C:
		return jsonrpc.Message{}, fmt.Errorf("no answer within %v", patience)
	}
}

// callParams are those of a call through call_tool.
func callParams(tool, args string) string {
	return fmt.Sprintf(`{"name":"call_tool","arguments":{"name":%q,"arguments":%s}}`, tool, args)
}

// call calls a tool and returns what came: a result, or an error object.
func (a *agent) call(tool, args string) (string, error) {
	m, err := a.request("tools/call", callParams(tool, args))
	return string(m.Result) + string(m.Error), err
}

// must is call where the gate has to answer.
func (a *agent) must(tool, args string) string {
	a.t.Helper()
	got, err := a.call(tool, args)
	if err != nil {
		a.t.Fatalf("call %s %s: %v\n%s", tool, args, err, a.log)
	}
	return got
}

// erase calls erase with a nonce.
func (a *agent) erase(nonce string) (string, error) {
	return a.call("counting/erase", fmt.Sprintf(`{"nonce":%q}`, nonce))
}

// mustErase is erase where the gate has to answer.
func (a *agent) mustErase(nonce string) string {
	a.t.Helper()
	return a.must("counting/erase", fmt.Sprintf(`{"nonce":%q}`, nonce))
}

// quick calls what needs nobody and is an error when that takes long.
func (a *agent) quick(nonce string) {
	a.t.Helper()
	began := time.Now()
	got := a.must("counting/peek", fmt.Sprintf(`{"nonce":%q}`, nonce))
	if !strings.Contains(got, "peek did "+nonce) {
		a.t.Errorf("a call that needs nobody gives %s", got)
	}
	if took := time.Since(began); took > atOnce {
		a.t.Errorf("a call that needs nobody took %v", took)
	}
}

// kill ends the gate as a power cut would, and waits for its end.
func (a *agent) kill() {
	_ = a.cmd.Process.Kill() // it may have ended
	<-a.gone
	a.finish()
}

// close ends the gate as clients do.
func (a *agent) close() {
	a.finish()
	if a.t.Failed() {
		a.t.Logf("standard error of process %d:\n%s", a.cmd.Process.Pid, a.log)
	}
}

func (a *agent) finish() {
	a.mu.Lock()
	ended := a.ended
	a.ended = true
	a.mu.Unlock()
	if ended {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = a.out.Close(ctx) // a gate that was killed reads nothing
	_ = a.stdin.Close()
	timer := time.AfterFunc(20*time.Second, func() { _ = a.cmd.Process.Kill() })
	<-a.gone
	_ = a.cmd.Wait() // how it ended is the tests' doing
	timer.Stop()
}
