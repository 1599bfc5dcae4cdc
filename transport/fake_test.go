package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcp-gate/mcp-gate/gate"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeGate opens scripted sessions and keeps them for the test to look at.
type fakeGate struct {
	capabilities string        // default {"tools":{"listChanged":true}}
	wait         time.Duration // Ask.Wait; default 50 s
	refuse       error         // Open fails with it
	changed      chan struct{}

	mu       sync.Mutex
	sessions []*fakeSession
	used     sync.Map // tickets that were resumed
}

func (g *fakeGate) HasProfile(name string) bool { return name != "none" }

func (g *fakeGate) Open(_ context.Context, who gate.Identity) (Session, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refuse != nil {
		return nil, g.refuse
	}
	s := &fakeSession{g: g, who: who, gate: make(chan struct{}), started: make(chan string, 64), resumed: make(chan gate.Reply, 64), listening: make(chan *gate.Listener, 64)}
	g.sessions = append(g.sessions, s)
	return s, nil
}

// opened returns the n-th session that was opened, or nil.
func (g *fakeGate) opened(n int) *fakeSession {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n >= len(g.sessions) {
		return nil
	}
	return g.sessions[n]
}

// fakeSession does what the name of the tool says.
type fakeSession struct {
	g         *fakeGate
	who       gate.Identity
	gate      chan struct{}   // what "hold" waits for
	started   chan string     // the name of each call that began to wait
	resumed   chan gate.Reply // each Resume
	closed    atomic.Bool
	listening chan *gate.Listener
	calls     atomic.Int64
	rooting   atomic.Int64 // calls of RootsChanged under way
	overlap   atomic.Bool  // there were two at once
}

func (s *fakeSession) Instructions() string { return "Find <tools> & call them." }
func (s *fakeSession) ServerInfo() json.RawMessage {
	return json.RawMessage(`{"name":"fake","version":"0"}`)
}
func (s *fakeSession) Changed() <-chan struct{} { return s.g.changed }
func (s *fakeSession) Close()                   { s.closed.Store(true) }

func (s *fakeSession) Capabilities() json.RawMessage {
	if s.g.capabilities != "" {
		return json.RawMessage(s.g.capabilities)
	}
	return json.RawMessage(`{"tools":{"listChanged":true}}`)
}

// ListTools has another marked parameter once the list has changed. With the
// client "waits" it takes as long as its context.
func (s *fakeSession) ListTools(ctx context.Context) (json.RawMessage, error) {
	if s.who.Client == "waits" {
		s.started <- "list"
		<-ctx.Done()
		return nil, ctx.Err()
	}
	select {
	case <-s.g.changed:
		return json.RawMessage(`[{"name":"echo","inputSchema":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}}}]`), nil
	default:
	}
	return json.RawMessage(`[{"name":"echo","inputSchema":{"type":"object"}},` +
		`{"name":"sql","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},` +
		`"at":{"type":"object","properties":{"row":{"type":"integer","x-mcp-header":"Row"},"dry":{"type":"boolean","x-mcp-header":"Dry"}}}}}}]`), nil
}

func text(t string, isError bool) gate.Outcome {
	b := strictjson.AppendString([]byte(`{"content":[{"type":"text","text":`), t)
	b = append(b, `}]`...)
	if isError {
		b = append(b, `,"isError":true`...)
	}
	return gate.Outcome{Result: append(b, '}')}
}

func (s *fakeSession) Call(ctx context.Context, r gate.Request) gate.Outcome {
	s.calls.Add(1)
	if r.Method != "" {
		return used(r)
	}
	kind, arg, _ := strings.Cut(r.Name, ":")
	switch kind {
	case "echo", "sql":
		return text(string(r.Args), false)
	case "meta":
		return text(string(r.Meta), false)
	case "raw":
		return gate.Outcome{Result: r.Args}
	case "canask":
		return text(strconv.FormatBool(r.CanAsk), false)
	case "error":
		return gate.Outcome{Error: &jsonrpc.Error{Code: -32010, Message: "row missing", Data: json.RawMessage(`{"n":12345678901234567890}`)}}
	case "panic":
		panic("tool went wrong")
	case "none":
		return gate.Outcome{}
	case "hold":
		s.started <- r.Name
		select {
		case <-s.gate:
			return text("held", false)
		case <-ctx.Done():
			s.started <- "cancelled"
			return text("cancelled", true)
		}
	case "deaf": // does not mind its context
		s.started <- r.Name
		<-s.gate
		return text("deaf", false)
	case "progress":
		n, _ := strconv.Atoi(arg)
		for i := range n {
			if r.Progress != nil {
				r.Progress(fmt.Appendf(nil, `{"progressToken":"upstream","progress":%d}`, i+1))
				r.Progress(json.RawMessage(`{"progressToken":"upstream","progress":"half"}`)) // never gets to a client
			}
		}
		return text("done", false)
	case "late": // reports progress after its outcome
		if r.Progress != nil {
			go func() {
				<-s.gate
				r.Progress(json.RawMessage(`{"progressToken":"u","progress":1}`))
				s.started <- "late progress"
			}()
		}
		return text("done", false)
	case "input": // puts its arguments to the client, and what came of that into its result
		if r.Progress != nil {
			r.Progress(json.RawMessage(`{"progressToken":"u","progress":1}`))
		}
		answers, e := r.Client.Input(ctx, r.Args)
		if e != nil {
			if arg == "slowly" {
				time.Sleep(unwind / 2) // of fake time
			}
			s.started <- "input ended"
			return gate.Outcome{Error: e}
		}
		if arg == "twice" {
			if answers, e = r.Client.Input(ctx, nil); e != nil {
				return gate.Outcome{Error: e}
			}
		}
		if r.Progress != nil {
			r.Progress(json.RawMessage(`{"progressToken":"u","progress":2}`))
		}
		return text("answers "+string(answers), false)
	case "task": // becomes a task that needs two answers
		if tasker, ok := r.Client.(gate.Tasker); ok {
			tasker.Task(gate.Task{Poll: time.Second})
		}
		answers, e := r.Client.Input(ctx, json.RawMessage(`{"a":{},"b":{}}`))
		if e != nil {
			return gate.Outcome{Error: e}
		}
		return text("answers "+string(answers), false)
	case "log":
		told := 0
		for i := range 3 {
			if r.Client.Tell("notifications/message", fmt.Appendf(nil, `{"level":"error","data":%d,"_meta":{"io.modelcontextprotocol/subscriptionId":9,"x":1}}`, i)) {
				told++
			}
		}
		return text(fmt.Sprintf("told %d, wants %q of %s", told, r.Client.LogLevel(), r.Client.Declared()), false)
	case "ask", "askagain":
		return s.question(r)
	}
	return gate.Outcome{Error: &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown tool " + r.Name}}
}

func (s *fakeSession) question(r gate.Request) gate.Outcome {
	wait := s.g.wait
	if wait == 0 {
		wait = 50 * time.Second
	}
	return gate.Outcome{Ask: &gate.Ask{
		Ticket:  "t_" + r.Name,
		Message: "Run " + r.Name + " with " + string(r.Args) + "?",
		Schema:  json.RawMessage(`{"type":"object","properties":{"decision":{"type":"string","enum":["deny","once"]}},"required":["decision"]}`),
		Wait:    wait,
		Expires: time.Now().Add(time.Hour),
	}}
}

func (s *fakeSession) Resume(_ context.Context, ticket string, reply gate.Reply, again gate.Request) gate.Outcome {
	s.resumed <- reply
	if ticket == "t_askagain" {
		return s.question(again)
	}
	if _, twice := s.g.used.LoadOrStore(ticket, true); twice && s.g.wait == 0 {
		return text("ticket used", true)
	}
	if reply.Action == gate.Accepted && reply.Decision == "once" {
		return text("ran "+ticket, false)
	}
	return text("not run: "+string(reply.Action)+" "+reply.Decision, true)
}

// peer is a client at the other end of real pipes.
type peer struct {
	t    testing.TB
	srv  *Server
	in   *os.File // what the gate reads
	out  *os.File // what the gate writes
	r    *jsonrpc.LineReader
	kept [][]byte // lines that were read and not yet asked for
	stop context.CancelFunc
	done chan error
}

var stdioIdentity = gate.Identity{Principal: "local", SessionID: "s_test"}

func startStdio(t testing.TB, g *fakeGate, o Options) *peer {
	t.Helper()
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	p := &peer{t: t, in: inW, out: outR, r: jsonrpc.NewLineReader(outR, 1<<30), stop: stop, done: make(chan error, 1)}
	p.srv = New(g, [32]byte{1}, o)
	go func() {
		p.done <- p.srv.ServeStdio(ctx, stdioIdentity, inR, outW)
		outW.Close()
	}()
	t.Cleanup(func() {
		stop()
		inW.Close()
		outR.Close()
		inR.Close()
	})
	return p
}

func (p *peer) send(format string, a ...any) {
	p.t.Helper()
	if _, err := fmt.Fprintf(p.in, format+"\n", a...); err != nil {
		p.t.Fatal(err)
	}
}

// next returns the next line for which ok, keeping the others for later.
func (p *peer) next(what string, ok func([]byte) bool) string {
	p.t.Helper()
	for i, line := range p.kept {
		if ok(line) {
			p.kept = append(p.kept[:i:i], p.kept[i+1:]...)
			return string(line)
		}
	}
	if err := p.out.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		p.t.Fatal(err)
	}
	for {
		line, err := p.r.Next()
		if err != nil {
			p.t.Fatalf("%s: no such line: %v; have:\n%s", what, err, bytes.Join(p.kept, []byte("\n")))
		}
		if ok(line) {
			return string(line)
		}
		p.kept = append(p.kept, line)
	}
}

// reply returns the answer to the request with this raw id.
func (p *peer) reply(id string) string {
	p.t.Helper()
	return p.next("answer to "+id, func(line []byte) bool {
		m, err := jsonrpc.Parse(line)
		return err == nil && m.IsResponse() && string(m.ID) == id
	})
}

// request returns the next request or notification of this method.
func (p *peer) request(method string) jsonrpc.Message {
	p.t.Helper()
	line := p.next(method, func(line []byte) bool {
		m, err := jsonrpc.Parse(line)
		return err == nil && m.Method == method
	})
	m, _ := jsonrpc.Parse([]byte(line))
	return m
}

// rest ends the input and returns every line that comes until the gate ends.
func (p *peer) rest() []string {
	p.t.Helper()
	p.in.Close()
	return p.remaining()
}

func (p *peer) remaining() []string {
	p.t.Helper()
	var lines []string
	for _, line := range p.kept {
		lines = append(lines, string(line))
	}
	p.kept = nil
	_ = p.out.SetReadDeadline(time.Now().Add(time.Minute))
	for {
		line, err := p.r.Next()
		if err != nil {
			return lines
		}
		lines = append(lines, string(line))
	}
}

const (
	legacyInit = `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":%s,"clientInfo":{"name":"probe","version":"1"}}}`
	formCaps   = `{"elicitation":{}}`
	modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":%s}`
)

func (p *peer) init(capabilities string) {
	p.t.Helper()
	p.send(legacyInit, capabilities)
	p.reply(`"init"`)
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func callLine(id, name, args string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + name + `","arguments":` + args + `}}`
}

func (s *fakeSession) List(_ context.Context, kind gate.Kind) gate.List {
	items := map[gate.Kind]string{gate.Prompts: `[{"name":"p", "x" : 1}]`, gate.Resources: `[{"uri":"mcp-gate://a/b:c","name":"c"}]`, gate.Templates: `[]`}
	return gate.List{Items: json.RawMessage(items[kind]), TTL: time.Second}
}

func (s *fakeSession) Subscribe(_ context.Context, uri string) *jsonrpc.Error {
	if uri == "none:" {
		return &jsonrpc.Error{Code: gate.CodeNotFound, Message: "no such resource"}
	}
	return nil
}
func (s *fakeSession) Unsubscribe(context.Context, string) *jsonrpc.Error { return nil }
func (s *fakeSession) SetLogLevel(context.Context, string)                {}
func (s *fakeSession) RootsChanged(context.Context) {
	if s.rooting.Add(1) > 1 {
		s.overlap.Store(true)
	}
	defer s.rooting.Add(-1)
	select {
	case s.started <- "roots":
	default: // no test waits for that many
	}
}

func (s *fakeSession) Listen(l *gate.Listener) (end func()) {
	s.listening <- l
	return func() {}
}

// used answers what is not a tool's with what arrived.
func used(r gate.Request) gate.Outcome {
	switch r.Name {
	case "gone:":
		return gate.Outcome{Error: &jsonrpc.Error{Code: gate.CodeNotFound, Message: "Resource not found", Data: json.RawMessage(`{"uri":"gone:"}`)}}
	case "refused:":
		return gate.Outcome{Result: json.RawMessage(`{"content":[{"type":"text","text":"refused [egress]: no"}],"isError":true,"_meta":{"mcp-gate/refusal":{"code":"egress"}}}`)}
	case "aged:":
		return gate.Outcome{Result: json.RawMessage(`{"contents":[],"ttlMs":7,"cacheScope":"public"}`)}
	}
	b := append([]byte(`{"got":`), r.Args...)
	if r.Meta != nil {
		b = append(append(b, `,"meta":`...), r.Meta...)
	}
	return gate.Outcome{Result: append(b, '}')}
}
