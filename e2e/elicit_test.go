package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/inbox"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
)

// What clients make of a question, and what becomes of the call. None of it
// holds up the calls beside and behind it.
func TestClientsThatAnswerBadly(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		ask      func(*agent, question)
		result   string      // a part of what the call gives
		state    inbox.State // of its ticket
		outcome  string      // of the decision in the audit log; "" is no decision
		unproven bool        // the client is not asked again in this session
	}{
		{"accepts at once", replying(0, allowOnce), "[deferred]", inbox.Pending, "nobody", true},
		{"accepts with nothing in it", replying(human, `{"action":"accept","content":{}}`), "[deferred]", inbox.Pending, "nobody", true},
		{"accepts without content", replying(human, `{"action":"accept"}`), "[deferred]", inbox.Pending, "nobody", true},
		{"accepts with a word that was not offered", replying(human, `{"action":"accept","content":{"decision":"allow-session"}}`), "[deferred]", inbox.Pending, "nobody", true},
		{"declines at once", replying(0, `{"action":"decline"}`), "[deferred]", inbox.Pending, "nobody", true},
		{"declines as a person does", replying(human, `{"action":"decline"}`), "[declined]", inbox.Denied, "deny", false},
		{"denies in the form", replying(human, denyForm), "[declined]", inbox.Denied, "deny", false},
		{"cancels", replying(human, `{"action":"cancel"}`), "[deferred]", inbox.Pending, "later", false},
		{"decides later", replying(human, laterForm), "[deferred]", inbox.Pending, "later", false},
		{"answers with an error", failing, "[deferred]", inbox.Pending, "", false},
		{"answers with no action", replying(human, `{"action":"allow","content":{"decision":"allow-once"}}`), "[deferred]", inbox.Pending, "", false},
		{"answers with an array", replying(human, `[]`), "[deferred]", inbox.Pending, "", false},
		{"allows as a person does", replying(human, allowOnce), "erase did n", inbox.Done, "allow-once", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var (
				r         *rig
				a         *agent
				m         jsonrpc.Message
				err       error
				decisions []audit.Event
			)
			for range 10 { // on a busy machine an answer at once may take as long as a person's
				r = newRig(t, nil)
				a = r.client(tt.ask)
				_, answer := a.begin("tools/call", callParams("counting/erase", `{"nonce":"n"}`))
				a.quick("beside")
				m, err = a.wait(answer)
				decisions = r.events(func(e audit.Event) bool { return e.Kind == audit.Decision })
				if !strings.HasSuffix(tt.name, "at once") || len(decisions) != 1 || decisions[0].Duration < inbox.MinHumanAnswer {
					break
				}
			}
			if got := string(m.Result); err != nil || !strings.Contains(got, tt.result) {
				t.Errorf("the call gives %s, %v, want %q", got, err, tt.result)
			}
			a.quick("behind")
			ticket := r.ticket("n")
			if ticket.State != tt.state {
				t.Errorf("the ticket is %v (%s), want %v", ticket.State, ticket.Note, tt.state)
			}
			if got, want := r.ran()["n"], map[bool]int{true: 1}[tt.state == inbox.Done]; got != want {
				t.Errorf("it ran %d times, want %d", got, want)
			}
			if len(decisions) != 0 && (tt.outcome == "" || decisions[0].Outcome != tt.outcome) || len(decisions) == 0 && tt.outcome != "" {
				t.Errorf("the audit log has %v, want outcome %q", decisions, tt.outcome)
			}
			before := a.questions()
			began := time.Now()
			a.mustErase("next")
			if asked := a.questions() > before; asked == tt.unproven {
				t.Errorf("the next question is shown: %v, want %v", asked, !tt.unproven)
			}
			if took := time.Since(began); took > atOnce {
				t.Errorf("the next call took %v", took)
			}
		})
	}
}

func replying(after time.Duration, result string) func(*agent, question) {
	return func(a *agent, q question) { a.reply(q, after, result) }
}

func failing(a *agent, q question) {
	if a.pause(human) {
		a.write(jsonrpc.AppendError(nil, q.id, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no such method"}))
	}
}

// A client that shows nothing costs its call the wait, and no other call
// anything; what it answers after that is nothing.
func TestAClientThatIsDeadOrLate(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	shown := make(chan question, 10)
	a := r.client(func(_ *agent, q question) { shown <- q })
	_, answer := a.begin("tools/call", callParams("counting/erase", `{"nonce":"n"}`))
	q := <-shown
	_, second := a.begin("tools/call", callParams("counting/erase", `{"nonce":"second"}`))
	<-shown
	began := time.Now()
	a.quick("beside")
	for nonce, c := range map[string]<-chan jsonrpc.Message{"n": answer, "second": second} {
		m, err := a.wait(c)
		if err != nil || !strings.Contains(string(m.Result), "[deferred]") {
			t.Errorf("the call of %s gives %s%s, %v", nonce, m.Result, m.Error, err)
		}
	}
	if took := time.Since(began); took > 58*time.Second {
		t.Errorf("the calls took %v, and clients give up after a minute", took)
	}
	a.reply(q, 0, allowOnce)
	a.quick("behind")
	if got := r.ticket("n"); got.State != inbox.Pending {
		t.Errorf("after a late yes the ticket is %v", got.State)
	}
	if ran := r.ran(); ran["n"]+ran["second"] != 0 {
		t.Errorf("ran %v", ran)
	}
}

// A client that hangs up while a person reads leaves the question behind; the
// next one finds it.
func TestAClientThatHangsUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	a, _ := r.reading(`{"nonce":"n"}`)
	a.close()
	left := r.ticket("n")
	if left.State != inbox.Pending || !left.CallerGone {
		t.Fatalf("it leaves the ticket %v, %s, caller gone: %v", left.State, left.Note, left.CallerGone)
	}
	r.saysGone(left.ID)
	next := r.client(answering(allowOnce))
	if got := next.mustErase("n"); !strings.Contains(got, "erase did n") {
		t.Errorf("the equal call gives %s", got)
	}
	if got := r.ticket("n"); got.ID != left.ID || got.State != inbox.Done {
		t.Errorf("the ticket is %s %v, want %s done", got.ID, got.State, left.ID)
	}
	if got := r.ran()["n"]; got != 1 {
		t.Errorf("it ran %d times", got)
	}
}

// saysGone checks that the audit log and the card say that the caller has gone.
func (r *rig) saysGone(ticket string) {
	r.t.Helper()
	var notes []audit.Event
	r.until("audit line of a caller that has gone", func() bool { // the ticket knows first
		notes = r.events(func(e audit.Event) bool {
			return e.Kind == audit.Note && e.Ticket == ticket && strings.Contains(e.Note, "caller has gone")
		})
		return len(notes) > 0
	})
	if len(notes) != 1 {
		r.t.Errorf("the audit log says %d times that the caller has gone, want once", len(notes))
	}
	card, err := exec.Command(built.gate, "--home", r.home, "inbox", "show", ticket).CombinedOutput()
	if err != nil || !strings.Contains(string(card), "has gone; nobody waits for the result") {
		r.t.Errorf("the card of a call whose caller has gone is\n%s%v", card, err)
	}
}

// Where the fallback is deny, nothing is left of a question whose client hung up.
func TestAClientThatHangsUpWhereTheFallbackIsDeny(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(cfg map[string]any) { cfg["gate_fallback"] = "deny" })
	a, _ := r.reading(`{"nonce":"n"}`)
	a.close()
	if left := r.ticket("n"); left.State != inbox.Cancelled {
		t.Errorf("it leaves the ticket %v, %s", left.State, left.Note)
	}
}

// The same over HTTP, where the stream that brought the question breaks: with a
// client that was asked, and with one that nobody can ask.
func TestAnHTTPClientThatHangsUp(t *testing.T) {
	t.Parallel()
	for capabilities, asked := range map[string]string{`{"elicitation":{}}`: "elicitation/create", `{}`: ""} {
		t.Run(capabilities, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			r.person() // or nothing could be waited for where the client cannot be asked
			url, token := serveHTTP(t, r.home)
			ctx, hangUp := context.WithCancel(t.Context())
			defer hangUp()
			post := func(session, body string) *http.Response {
				req, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				for k, v := range map[string]string{"Authorization": "Bearer " + token, "Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Session-Id": session} {
					if v != "" {
						req.Header.Set(k, v)
					}
				}
				resp, err := http.DefaultClient.Do(req)
				if err != nil && ctx.Err() == nil {
					t.Fatal(err)
				}
				return resp
			}
			first := post("", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":{"name":"c","version":"1"}}}`)
			session := first.Header.Get("Mcp-Session-Id")
			_ = first.Body.Close()
			_ = post(session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`).Body.Close()
			done := make(chan struct{})
			go func() {
				defer close(done)
				resp := post(session, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"erase","arguments":{"nonce":"n"}}}`)
				if resp == nil {
					return
				}
				defer resp.Body.Close()
				for lines := bufio.NewScanner(resp.Body); asked != "" && lines.Scan(); {
					if strings.Contains(lines.Text(), asked) {
						asked = ""
					}
				}
			}()
			if asked != "" {
				<-done
			}
			r.state("n", inbox.Pending)
			hangUp()
			<-done
			r.until("caller that is known to be gone", func() bool { return r.ticket("n").CallerGone })
			left := r.ticket("n")
			if left.State != inbox.Pending {
				t.Errorf("it leaves the ticket %v, %s", left.State, left.Note)
			}
			r.saysGone(left.ID)
		})
	}
}

// Where the owner wants a question that leads nowhere to end, it ends; a late
// yes is written down and runs nothing.
func TestAClientThatGivesUpWhereTheFallbackIsDeny(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(cfg map[string]any) { cfg["gate_fallback"] = "deny" })
	a, q := r.reading(`{"nonce":"n"}`)
	a.cancel(a.last)
	r.state("n", inbox.Cancelled)
	a.reply(q, human, allowOnce)
	a.quick("behind")
	if got := r.ran()["n"]; got != 0 {
		t.Errorf("it ran %d times", got)
	}
}

// cancel takes a request back.
func (a *agent) cancel(id int) {
	a.write(jsonrpc.AppendNotification(nil, "notifications/cancelled", fmt.Appendf(nil, `{"requestId":%d,"reason":"it took too long"}`, id)))
}

// A client that gives up and repeats its call finds the same question, whoever
// answers it meanwhile; the call runs once, and its result is delivered.
func TestAClientThatGivesUpAndAsksAgain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		answer func(*rig, *agent) // what happens between giving up and asking again
		asked  int                // questions that the client has seen in the end
	}{
		{"and nobody has answered", func(*rig, *agent) {}, 2},
		{"and a person has allowed it elsewhere", func(r *rig, _ *agent) { r.person().allow(r.ticket("n")) }, 1},
		{"and it has run", func(r *rig, _ *agent) {
			r.person().allow(r.ticket("n"))
			r.state("n", inbox.Done)
		}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			shown := make(chan question, 10)
			a := r.client(func(_ *agent, q question) { shown <- q })
			a.begin("tools/call", callParams("counting/erase", `{"nonce":"n"}`))
			<-shown
			a.cancel(a.last)
			r.until("caller that is known to be gone", func() bool { return r.ticket("n").CallerGone })
			first := r.ticket("n")
			tt.answer(r, a)
			_, answer := a.begin("tools/call", callParams("counting/erase", `{"nonce":"n"}`))
			if tt.asked > 1 {
				a.reply(<-shown, human, allowOnce)
			}
			m, err := a.wait(answer)
			if err != nil || !strings.Contains(string(m.Result), "erase did n") {
				t.Errorf("the repeated call gives %s%s, %v", m.Result, m.Error, err)
			}
			if got := r.ticket("n"); got.ID != first.ID || got.State != inbox.Done || !got.Delivered || got.CallerGone && tt.asked > 1 {
				t.Errorf("the ticket is %s %v, delivered %v, caller gone %v; want %s done and delivered", got.ID, got.State, got.Delivered, got.CallerGone, first.ID)
			}
			if got := r.ran()["n"]; got != 1 {
				t.Errorf("it ran %d times", got)
			}
			if got := a.questions(); got != tt.asked {
				t.Errorf("the client was asked %d times, want %d", got, tt.asked)
			}
		})
	}
}

// Five calls that wait for a person hold up none that needs nobody, nor one
// that a person answers at once.
func TestFiveThatWaitHoldUpNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	a := r.client(func(a *agent, q question) {
		if q.nonce() == "answered" {
			a.reply(q, human, allowOnce)
		}
	})
	for i := range 5 {
		a.begin("tools/call", callParams("counting/erase", fmt.Sprintf(`{"nonce":"w%d"}`, i)))
	}
	r.until("five questions", func() bool { return a.questions() == 5 })
	for i := range 20 {
		a.quick(fmt.Sprintf("p%d", i))
	}
	began := time.Now()
	if got := a.mustErase("answered"); !strings.Contains(got, "erase did answered") {
		t.Errorf("the call that was allowed gives %s", got)
	}
	if took := time.Since(began); took > atOnce {
		t.Errorf("it took %v", took)
	}
	if got := len(r.tickets(inbox.Pending)); got != 5 {
		t.Errorf("%d wait, want 5", got)
	}
}

// Two gates of a home under many calls at once, half of which a person allows.
func TestTwoGatesUnderLoad(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	gates := []*agent{r.client(answering(allowOnce)), r.client(answering(allowOnce))}
	answers := make(chan string)
	const calls = 200
	for i := range calls {
		go func() {
			a, tool, nonce := gates[i%2], []string{"erase", "peek"}[i/2%2], fmt.Sprintf("n%d", i)
			got, err := a.call("counting/"+tool, fmt.Sprintf(`{"nonce":%q}`, nonce))
			if err == nil && strings.Contains(got, tool+" did "+nonce) {
				got = ""
			}
			answers <- got
		}()
	}
	for range calls {
		if got := <-answers; got != "" {
			t.Errorf("a call gives %s", got)
		}
	}
	for _, g := range gates {
		g.close()
	}
	ran := r.ran()
	for i := range calls {
		if n := ran[fmt.Sprintf("n%d", i)]; n != 1 {
			t.Errorf("call %d ran %d times", i, n)
		}
	}
	if done := len(r.tickets(inbox.Done)); done != calls/2 {
		t.Errorf("%d tickets are done, want %d", done, calls/2)
	}
	r.unlocked(gates...)
}
