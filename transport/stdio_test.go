package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/mcp-gate/mcp-gate/gate"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
)

// TestSessions plays the conversations in testdata/session over real pipes. A
// line "> " is sent, a line "< " must arrive, in any order among those not yet
// asked for; "…" in it stands for any text. Nothing else may arrive. A file
// "options" may hold words that change the gate.
func TestSessions(t *testing.T) {
	files, err := filepath.Glob("../testdata/session/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no conversations: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			g := &fakeGate{}
			for _, f := range ar.Files {
				switch f.Name {
				case "capabilities":
					g.capabilities = strings.TrimSpace(string(f.Data))
				case "session":
					playSession(t, startStdio(t, g, Options{MaxMessage: 1 << 20}), string(f.Data))
				}
			}
		})
	}
}

func playSession(t *testing.T, p *peer, script string) {
	t.Helper()
	for n, line := range strings.Split(script, "\n") {
		switch {
		case strings.HasPrefix(line, "> "):
			if _, err := p.in.WriteString(line[2:] + "\n"); err != nil {
				t.Fatal(err)
			}
		case strings.HasPrefix(line, "< "):
			p.next(fmt.Sprintf("line %d: %s", n+1, line), func(got []byte) bool { return fits(string(got), line[2:]) })
		case line != "" && line[0] != '#':
			t.Fatalf("line %d: want > or < or #: %s", n+1, line)
		}
	}
	if left := p.rest(); len(left) > 0 {
		t.Errorf("lines nobody expected:\n%s", strings.Join(left, "\n"))
	}
	if err := <-p.done; err != nil {
		t.Errorf("ServeStdio: %v", err)
	}
}

// fits reports whether got is pattern, in which "…" stands for any text.
func fits(got, pattern string) bool {
	parts := strings.Split(pattern, "…")
	first, last := parts[0], parts[len(parts)-1]
	if len(parts) == 1 {
		return got == pattern
	}
	if !strings.HasPrefix(got, first) || !strings.HasSuffix(got[len(first):], last) {
		return false
	}
	got = strings.TrimSuffix(got[len(first):], last)
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(got, part)
		if at < 0 {
			return false
		}
		got = got[at+len(part):]
	}
	return true
}

func TestWaitingCallsDelayNobody(t *testing.T) {
	p := startStdio(t, &fakeGate{}, Options{})
	p.init(formCaps)
	for i := range 5 {
		p.send("%s", callLine(fmt.Sprint(i), "ask", `{}`))
	}
	var asks []jsonrpc.Message
	for range 5 {
		asks = append(asks, p.request("elicitation/create"))
	}
	p.send("%s", callLine("6", "echo", `{"n":6}`))
	p.send(`{"jsonrpc":"2.0","id":7,"method":"ping"}`)
	if got := p.reply("6"); !strings.Contains(got, `{\"n\":6}`) {
		t.Errorf("sixth call: %s", got)
	}
	p.reply("7")
	for _, a := range asks {
		p.send(`{"jsonrpc":"2.0","id":%s,"result":{"action":"decline"}}`, a.ID)
	}
	for i := range 5 {
		if got := p.reply(fmt.Sprint(i)); !strings.Contains(got, "not run: decline") && !strings.Contains(got, "ticket used") {
			t.Errorf("call %d: %s", i, got)
		}
	}
}

// TestAnswersOfAClient has one row for each way in which a client treats a
// question; only the first runs the call.
func TestAnswersOfAClient(t *testing.T) {
	tests := []struct{ name, answer, want string }{
		{"an accept with a decision runs", `"result":{"action":"accept","content":{"decision":"once"}}`, "ran t_ask"},
		{"an empty accept is none", `"result":{"action":"accept","content":{}}`, "not run: accept "},
		{"an accept without content is none", `"result":{"action":"accept"}`, "not run: accept "},
		{"a decision that is no string is none", `"result":{"action":"accept","content":{"decision":["once"]}}`, "not run: accept "},
		{"a decline", `"result":{"action":"decline"}`, "not run: decline "},
		{"a decline with a decision", `"result":{"action":"decline","content":{"decision":"once"}}`, "not run: decline "},
		{"a cancel", `"result":{"action":"cancel"}`, "not run: cancel "},
		{"an unknown action", `"result":{"action":"Accept","content":{"decision":"once"}}`, "not run: no-answer "},
		{"a folded member", `"result":{"Action":"accept","content":{"decision":"once"}}`, "not run: no-answer "},
		{"a folded decision", `"result":{"action":"accept","content":{"Decision":"once"}}`, "not run: no-answer "},
		{"an answer that is broken JSON", `"result":{"action":"accept","action":"decline"}`, "not run: no-answer "},
		{"a result that is no object", `"result":true`, "not run: no-answer "},
		{"an error", `"error":{"code":-32601,"message":"no elicitation"}`, "not run: no-answer "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := startStdio(t, &fakeGate{}, Options{})
			p.init(formCaps)
			p.send("%s", callLine("1", "ask", `{}`))
			ask := p.request("elicitation/create")
			if string(ask.ID) != `"gate-1"` {
				t.Errorf("id of the question: %s", ask.ID)
			}
			p.send(`{"jsonrpc":"2.0","id":%s,%s}`, ask.ID, tt.answer)
			if got := p.reply("1"); !strings.Contains(got, `"`+tt.want+`"`) {
				t.Errorf("got %s, want %q", got, tt.want)
			}
			p.send(`{"jsonrpc":"2.0","id":%s,%s}`, ask.ID, tt.answer) // once more: too late
			p.send(`{"jsonrpc":"2.0","id":9,"method":"ping"}`)
			p.reply("9")
			if left := p.rest(); len(left) > 0 {
				t.Errorf("a late reply was answered: %v", left)
			}
		})
	}
}

// TestClientThatNeverAnswers uses fake time: on a busy machine the wait and the
// first tick before its end may be over at once.
func TestClientThatNeverAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(&fakeGate{wait: 20 * time.Second}, [32]byte{}, Options{Tick: 15 * time.Second}).newConn(stdioIdentity)
		defer c.close()
		out := &recorder{lines: make(chan string, 8)}
		x := exchangeOf(t, c, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","_meta":{"progressToken":"p"}}}`, out)
		x.run(t.Context(), t.Context())
		for _, want := range []string{
			`"id":"gate-1","method":"elicitation/create"`, `"progressToken":"p","progress":0.000001,`,
			`"method":"notifications/cancelled","params":{"requestId":"gate-1"`, "not run: no-answer",
		} {
			if got := <-out.lines; !strings.Contains(got, want) {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		late, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":"gate-1","error":{"code":-32000,"message":"too late"}}`))
		if err != nil || c.asked.deliver(late) {
			t.Errorf("an answer that came too late was taken, %v", err)
		}
		if len(out.lines) > 0 {
			t.Errorf("unexpected: %s", <-out.lines)
		}
	})
}

func TestClientThatCannotBeAskedIsNot(t *testing.T) {
	for _, capabilities := range []string{`{}`, `{"elicitation":{"url":{}}}`, `{"elicitation":null}`} {
		p := startStdio(t, &fakeGate{}, Options{})
		p.init(capabilities)
		p.send("%s", callLine("1", "ask", `{}`))
		if got := p.reply("1"); !strings.Contains(got, "not run: no-answer") {
			t.Errorf("%s: %s", capabilities, got)
		}
		if left := p.rest(); len(left) > 0 {
			t.Errorf("%s: asked all the same: %v", capabilities, left)
		}
	}
}

func TestCallThatAsksForEverEnds(t *testing.T) {
	p := startStdio(t, &fakeGate{}, Options{})
	p.init(`{}`)
	p.send("%s", callLine("1", "askagain", `{}`))
	if got := p.reply("1"); !strings.Contains(got, "-32603") {
		t.Errorf("got %s", got)
	}
}

func TestCancelledCallIsNotAnswered(t *testing.T) {
	g := &fakeGate{}
	p := startStdio(t, g, Options{})
	p.init(formCaps)
	ses := g.opened(0)
	p.send("%s", callLine(`"c-77"`, "hold", `{}`))
	<-ses.started
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"c-77","reason":"user"}}`)
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"nobody"}}`)
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"init"}}`)
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`)
	p.send("%s", callLine(`"c-77"`, "echo", `{}`)) // the id is free again
	if got := p.reply(`"c-77"`); !strings.Contains(got, `"{}"`) {
		t.Errorf("got %s", got)
	}
	p.send("%s", callLine(`2`, "ask", `{}`))
	p.request("elicitation/create")
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	p.request("notifications/cancelled")
	if reply := <-ses.resumed; reply.Action != gate.NoAnswer {
		t.Errorf("reply after a cancel: %+v", reply)
	}
	if left := p.rest(); len(left) > 0 {
		t.Errorf("answered after a cancel: %v", left)
	}
}

func TestProgressPrecedesItsAnswer(t *testing.T) {
	const n = 10_000
	p := startStdio(t, &fakeGate{}, Options{})
	p.init(`{}`)
	p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"progress:%d","_meta":{"progressToken":12345678901234567890}}}`, n)
	p.kept = nil
	for i := range n {
		line, err := p.r.Next()
		if want := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":12345678901234567890,"progress":%d}}`, i+1); err != nil || string(line) != want {
			t.Fatalf("line %d: %s, %v; want %s", i, line, err, want)
		}
	}
	if line, err := p.r.Next(); err != nil || !strings.Contains(string(line), `"id":1,"result"`) {
		t.Fatalf("after the progress: %s, %v", line, err)
	}
}

func TestNoProgressAfterTheAnswer(t *testing.T) {
	g := &fakeGate{}
	p := startStdio(t, g, Options{})
	p.init(`{}`)
	p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"late","_meta":{"progressToken":1}}}`)
	p.reply("1")
	close(g.opened(0).gate)
	<-g.opened(0).started
	if left := p.rest(); len(left) > 0 {
		t.Errorf("after the answer: %v", left)
	}
}

func TestIDInFlightTwice(t *testing.T) {
	g := &fakeGate{}
	p := startStdio(t, g, Options{})
	p.init(`{}`)
	p.send("%s", callLine("1", "hold", `{}`))
	<-g.opened(0).started
	p.send("%s", callLine("1", "echo", `{}`))
	if got := p.reply("1"); !strings.Contains(got, "-32600") {
		t.Errorf("second: %s", got)
	}
	p.send("%s", callLine(`"1"`, "echo", `{}`)) // another id
	p.reply(`"1"`)
	close(g.opened(0).gate)
	if got := p.reply("1"); !strings.Contains(got, "held") {
		t.Errorf("first: %s", got)
	}
}

func TestTooManyInFlight(t *testing.T) {
	g := &fakeGate{}
	p := startStdio(t, g, Options{MaxInFlight: 3})
	p.init(`{}`)
	for i := range 3 {
		p.send("%s", callLine(fmt.Sprint(i), "hold", `{}`))
		<-g.opened(0).started
	}
	p.send("%s", callLine("9", "echo", `{}`))
	if got := p.reply("9"); !strings.Contains(got, "-32603") || !strings.Contains(got, "3 requests are being served") {
		t.Errorf("got %s", got)
	}
	close(g.opened(0).gate)
	for i := range 3 {
		p.reply(fmt.Sprint(i))
	}
	p.send("%s", callLine("10", "echo", `{}`))
	p.reply("10")
}

func TestMessageOverTheLimit(t *testing.T) {
	p := startStdio(t, &fakeGate{}, Options{MaxMessage: 1000})
	p.init(`{}`)
	p.send("%s", callLine("5", "echo", `{"x":"`+strings.Repeat("y", 2000)+`"}`))
	if got := p.reply("5"); !strings.Contains(got, "-32600") || !strings.Contains(got, "over the limit of 1000 bytes") {
		t.Errorf("got %s", got)
	}
	p.send("%s", callLine("6", "echo", `{}`))
	p.reply("6")
}

func TestFraming(t *testing.T) {
	p := startStdio(t, &fakeGate{}, Options{})
	fmt.Fprintf(p.in, "\ufeff\r\n\n  "+legacyInit+" \r\n\r\n", `{}`)
	p.reply(`"init"`)
	fmt.Fprint(p.in, callLine("2", "echo", `{"last":"line without an end"}`))
	left := p.rest()
	if len(left) != 1 || !strings.Contains(left[0], "without an end") {
		t.Errorf("got %v", left)
	}
}

func TestEndOfInputLetsCallsFinish(t *testing.T) {
	g := &fakeGate{}
	p := startStdio(t, g, Options{})
	p.init(formCaps)
	ses := g.opened(0)
	p.send("%s", callLine("1", "hold", `{}`))
	p.send("%s", callLine("2", "ask", `{}`))
	<-ses.started
	p.request("elicitation/create")
	p.in.Close()
	if got := p.reply("2"); !strings.Contains(got, "not run: left") {
		t.Errorf("a question after the end of input: %s", got)
	}
	close(ses.gate)
	if got := p.reply("1"); !strings.Contains(got, "held") {
		t.Errorf("got %s", got)
	}
	if err := <-p.done; err != nil {
		t.Error(err)
	}
	if !ses.closed.Load() {
		t.Error("the session was not closed")
	}
}

func TestGraceIsOver(t *testing.T) {
	g := &fakeGate{}
	p := startStdio(t, g, Options{Grace: time.Second}) // what is said after it has as long to leave
	p.init(`{}`)
	p.send("%s", callLine("1", "hold", `{}`))
	<-g.opened(0).started
	p.in.Close()
	if got := p.reply("1"); !strings.Contains(got, `"text":"cancelled"`) {
		t.Errorf("got %s", got)
	}
	if err := <-p.done; err != nil {
		t.Error(err)
	}
}

func TestStop(t *testing.T) {
	g := &fakeGate{}
	p := startStdio(t, g, Options{})
	p.init(`{}`)
	p.send("%s", callLine("1", "hold", `{}`))
	<-g.opened(0).started
	p.stop()
	// The stop has been seen once a further request is refused.
	for i := 0; ; i++ {
		id := fmt.Sprint("9", i)
		p.send("%s", callLine(id, "echo", `{}`))
		if strings.Contains(p.reply(id), "the gate is stopping") {
			break
		}
	}
	close(g.opened(0).gate)
	if got := p.reply("1"); !strings.Contains(got, "held") {
		t.Errorf("got %s", got)
	}
	if err := <-p.done; !errors.Is(err, context.Canceled) {
		t.Errorf("ServeStdio: %v", err)
	}
}

func TestClientThatDoesNotReadHoldsNobody(t *testing.T) {
	g := &fakeGate{}
	p := startStdio(t, g, Options{Grace: 50 * time.Millisecond})
	p.init(`{}`)
	p.out.Close()
	p.send("%s", callLine("1", "echo", `{}`))
	if err := <-p.done; err == nil {
		t.Error("want the error of the write")
	}
	if !g.opened(0).closed.Load() {
		t.Error("the session was not closed")
	}
}

func TestListChangedOnce(t *testing.T) {
	g := &fakeGate{changed: make(chan struct{})}
	p := startStdio(t, g, Options{})
	p.init(`{}`)
	p.send(legacyInit, `{}`) // again: still one notice
	p.reply(`"init"`)
	p.send(`{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"promptsListChanged":true},`+modernMeta+`}}`, `{}`)
	p.request("notifications/subscriptions/acknowledged")
	close(g.changed)
	p.request("notifications/tools/list_changed")
	p.request("notifications/tools/list_changed")
	var ends int
	for _, line := range p.rest() {
		if !strings.Contains(line, `"id":"l","result"`) || !strings.Contains(line, `"io.modelcontextprotocol/subscriptionId":"l"`) {
			t.Errorf("unexpected: %s", line)
		}
		ends++
	}
	if ends != 1 {
		t.Errorf("the stream ended %d times", ends)
	}
}

func TestSessionThatDoesNotOpen(t *testing.T) {
	g := &fakeGate{refuse: errors.New("home is locked")}
	p := startStdio(t, g, Options{})
	p.send(legacyInit, `{}`)
	if got := p.reply(`"init"`); !strings.Contains(got, `"code":-32603,"message":"open a session: home is locked"`) {
		t.Errorf("got %s", got)
	}
	g.mu.Lock()
	g.refuse = nil
	g.mu.Unlock()
	p.send("%s", callLine("1", "echo", `{}`))
	p.reply("1")
	if who := g.opened(0).who; who.Client != "probe" || who.Principal != "local" || who.SessionID != "s_test" {
		t.Errorf("identity: %+v", who)
	}
}

// TestWaitIsMeasured uses fake time: the reply says how long a person took.
func TestWaitIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &fakeGate{}
		s := New(g, [32]byte{}, Options{})
		c := s.newConn(stdioIdentity)
		defer c.close()
		out := &recorder{lines: make(chan string, 8)}
		x := exchangeOf(t, c, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","_meta":{"progressToken":"p"}}}`, out)
		go x.run(t.Context(), t.Context())
		<-out.lines
		time.Sleep(3 * time.Second)
		m, _ := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":"gate-1","result":{"action":"accept","content":{"decision":"once"}}}`))
		if !c.asked.deliver(m) {
			t.Fatal("the answer was not taken")
		}
		<-out.lines
		if reply := <-g.opened(0).resumed; reply.After != 3*time.Second {
			t.Errorf("After = %v, want 3s", reply.After)
		}
	})
}

// recorder is an outlet that keeps its lines.
type recorder struct{ lines chan string }

func (r *recorder) streams() bool { return true }
func (r *recorder) send(_ context.Context, line []byte) error {
	r.lines <- string(line)
	return nil
}
func (r *recorder) answer(ctx context.Context, line jsonrpc.Line, _ *jsonrpc.Error) error {
	return r.send(ctx, bytes.Join(line[:], nil))
}

func exchangeOf(t *testing.T, c *conn, line string, out outlet) *exchange {
	t.Helper()
	m, err := jsonrpc.Parse([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	p, err := parseParams(m.Params)
	if err != nil {
		t.Fatal(err)
	}
	x, _, e := c.begin(t.Context(), m, p, terms{version: version2025, asks: true}, out)
	if e != nil {
		t.Fatal(e)
	}
	return x
}

func TestLargeMessages(t *testing.T) {
	p := startStdio(t, &fakeGate{}, Options{})
	p.init(`{}`)
	big := `{"blob":"` + strings.Repeat("0123456789abcdef", 1<<18) + `"}` // 4 MiB
	go p.send("%s", callLine("1", "raw", big))
	if got, want := p.reply("1"), `{"jsonrpc":"2.0","id":1,"result":`+big+`}`; got != want {
		t.Errorf("a large result came back with %d bytes, want %d", len(got), len(want))
	}
}

// BenchmarkStdio is one client's echo call, there and back over real pipes.
func BenchmarkStdio(b *testing.B) {
	for _, size := range []int{100, 10_000, 1_000_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			p := startStdio(b, &fakeGate{}, Options{})
			p.init(`{}`)
			line := callLine("1", "raw", `{"content":[{"type":"text","text":"`+strings.Repeat("x", size)+`"}]}`) + "\n"
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				go func() { _, _ = p.in.WriteString(line) }() // a pipe holds less than the largest
				if _, err := p.r.Next(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestClientThatReadsNothing floods the gate over real pipes and reads only
// once the gate reads no more: until then no more was taken in than the bounds
// allow, and after it every message is answered.
func TestClientThatReadsNothing(t *testing.T) {
	const answer = 64 << 10
	g := &fakeGate{}
	p := startStdio(t, g, Options{PerClient: 10, Grace: time.Minute}) // so long it waits before a refusal is dropped
	p.init(`{}`)
	if err := p.out.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	args := `{"x":"` + strings.Repeat("y", answer) + `"}`
	sent := 0
	for ; sent < 1000; sent++ { // 64 MB, if nothing stops it
		line := callLine(fmt.Sprint(sent), "raw", args) + "\n"
		if err := p.in.SetWriteDeadline(time.Now().Add(500 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if n, err := p.in.WriteString(line); err != nil {
			rest := line[n:]
			_ = p.in.SetWriteDeadline(time.Time{})
			go func() { _, _ = p.in.WriteString(rest) }() // once there is room
			sent++
			break
		}
	}
	// Two queues of 4 MiB (one is on its way) and the calls that wait for room in them. What is
	// refused fills the rest of a queue with small lines, then the gate reads no more.
	if served, bound := g.opened(0).calls.Load(), int64(2*(4<<20)/answer+10); served > bound || sent == 1000 {
		t.Errorf("%d calls of %d that were sent were served for a client that reads nothing, want at most %d", served, sent, bound)
	}
	for i := range sent {
		p.reply(fmt.Sprint(i))
	}
	p.send(`{"jsonrpc":"2.0","id":"after","method":"ping"}`)
	p.reply(`"after"`)
}

// TestFloodThatNobodyReads floods the gate with what it refuses, never reads, and
// hangs up: the end of its input is behind all that it sent.
func TestFloodThatNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inR, inW := io.Pipe()
		outR, outW := io.Pipe() // nobody reads it
		defer outR.Close()
		s := New(&fakeGate{}, [32]byte{1}, Options{})
		began := time.Now()
		done := make(chan error, 1)
		go func() { done <- s.ServeStdio(t.Context(), stdioIdentity, inR, outW) }()
		line := []byte("no JSON " + strings.Repeat("x", 100) + "\n")
		for range 100_000 { // twice what a queue holds, and more
			if _, err := inW.Write(line); err != nil {
				t.Fatal(err)
			}
		}
		inW.Close()
		<-done
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("the gate lived on for %v", took)
		}
	})
}

func TestOneClientsShare(t *testing.T) {
	g := &fakeGate{}
	p := startStdio(t, g, Options{PerClient: 3, ClientBytes: 1000})
	p.init(formCaps)
	waitFor(t, "the handshake to be over", func() bool { return p.srv.inFlight.Load() == 0 })
	// A single one may be over the bytes. What waits for a person counts.
	p.send("%s", callLine("0", "ask", `{"x":"`+strings.Repeat("y", 2000)+`"}`))
	ask := p.request("elicitation/create")
	p.send("%s", callLine("1", "echo", `{}`))
	if got := p.reply("1"); !strings.Contains(got, "-32603") || !strings.Contains(got, "or 1000 bytes: read the answers") {
		t.Errorf("over the bytes: %s", got)
	}
	p.send(`{"jsonrpc":"2.0","id":%s,"result":{"action":"decline"}}`, ask.ID)
	p.reply("0")
	waitFor(t, "its share to be free", func() bool { return p.srv.inFlight.Load() == 0 }) // a moment after its answer
	for i := range 3 {
		p.send("%s", callLine(fmt.Sprint("1", i), "hold", `{}`))
		<-g.opened(0).started
	}
	p.send("%s", callLine("20", "echo", `{}`))
	if got := p.reply("20"); !strings.Contains(got, "the limit is 3 requests") {
		t.Errorf("over the count: %s", got)
	}
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":11}}`)
	if got := <-g.opened(0).started; got != "cancelled" {
		t.Errorf("a cancellation at the limit: %s", got)
	}
	close(g.opened(0).gate)
	p.reply("10")
	p.reply("12")
}

func TestChangesOfRootsAreToldOneAtATime(t *testing.T) {
	g := &fakeGate{}
	p := startStdio(t, g, Options{})
	p.init(`{"roots":{"listChanged":true}}`) // says initialized
	p.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	p.reply("1")
	<-g.opened(0).started
	for range 1000 {
		p.send(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
	}
	<-g.opened(0).started // at least once more
	p.rest()
	if g.opened(0).overlap.Load() {
		t.Error("two at once")
	}
}

func TestALineThatIsTooDeepKeepsItsID(t *testing.T) {
	line := []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":` + strings.Repeat(`{"a":[`, 300) + strings.Repeat(`]}`, 300) + `}`)
	_, err := jsonrpc.Parse(line)
	if id, answers, e := refusal(line, err); string(id) != "7" || answers != nil || !strings.Contains(e.Message, "512") {
		t.Errorf("id %s, answers %s, %v", id, answers, e)
	}
}
