package transport

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
)

const asksName = `"name":"input:twice","arguments":{"q":{"method":"elicitation/create","params":{"message":"<Who>","requestedSchema":{"z":1,"a":2}}}}`

// parts reads an answer that asks for input.
func parts(t *testing.T, a answer) (requests, state string) {
	t.Helper()
	var m struct {
		Result struct {
			ResultType    string
			InputRequests json.RawMessage
			RequestState  string
		}
	}
	if err := json.Unmarshal([]byte(a.body), &m); err != nil || m.Result.ResultType != "input_required" || m.Result.RequestState == "" {
		t.Fatalf("no input is asked for: %+v", a)
	}
	return string(m.Result.InputRequests), m.Result.RequestState
}

func withState(state string) string { return `,"requestState":"` + state + `"` }

func TestAParkedRequestGoesOnWithTheAnswers(t *testing.T) {
	s := startHTTP(t, &fakeGate{}, Options{}, HTTPOptions{})
	requests, first := parts(t, s.modern("tools/call", asksName, formCaps))
	if want := `{"q":{"method":"elicitation/create","params":{"message":"<Who>","requestedSchema":{"z":1,"a":2}}}}`; requests != want {
		t.Errorf("asked for %s, want %s", requests, want)
	}
	_, other := parts(t, s.modern("tools/call", asksName, formCaps)) // another request of the same words
	requests, second := parts(t, s.modern("tools/call", asksName+withState(first)+`,"inputResponses":{"q":{"action":"accept"}}`, formCaps))
	if requests != "" {
		t.Errorf("asked for %s, want only to be sent again", requests)
	}
	if got := s.modern("tools/call", asksName+withState(second), formCaps); !strings.Contains(got.body, `"text":"answers "`) {
		t.Errorf("at the end: %+v", got)
	}
	parts(t, s.modern("tools/call", asksName+withState(other)+`,"inputResponses":{}`, formCaps))
}

func TestAStateLeadsBackOnce(t *testing.T) {
	s := startHTTP(t, &fakeGate{}, Options{}, HTTPOptions{})
	_, state := parts(t, s.modern("tools/call", asksName, formCaps))
	broken := []byte(state)
	broken[30] ^= 1
	const answers = `,"inputResponses":{"q":{"action":"accept"}}`
	tests := []struct{ name, params, token, want string }{
		{"changed on the way", asksName + withState(string(broken)) + answers, "laptop", "not one that this gate gave out"},
		{"for other arguments", `"name":"input:twice","arguments":{}` + withState(state) + answers, "laptop", "name or arguments differ"},
		{"for another tool", `"name":"input","arguments":{}` + withState(state) + answers, "laptop", "name or arguments differ"},
		{"from another principal", asksName + withState(state) + answers, "server", "another principal"},
		{"from another token of the same one", asksName + withState(state) + answers, "laptop-2", "used before, or what it was for is over"},
		{"with answers of no shape", asksName + withState(state) + `,"inputResponses":[]`, "laptop", "must be an object"},
		{"at last as it should be", asksName + withState(state) + answers, "laptop", "input_required"},
		{"a second time", asksName + withState(state) + answers, "laptop", "used before, or what it was for is over"},
	}
	for _, tt := range tests {
		got := s.modern("tools/call", tt.params, formCaps, "Authorization: Bearer "+tt.token)
		if got.status != 200 || !strings.Contains(got.body, tt.want) {
			t.Errorf("%s: %+v, want %s", tt.name, got, tt.want)
		}
	}
}

func TestProgressGoesToWhoeverWaitsNow(t *testing.T) {
	s := startHTTP(t, &fakeGate{}, Options{}, HTTPOptions{})
	const args = `"name":"input","arguments":{"q":{"method":"roots/list"}}`
	play := func(more, token string) (progress, result string) {
		body, headers := modern("tools/call", args+more, `{"roots":{}}`)
		body = strings.Replace(body, `"_meta":{`, `"_meta":{"progressToken":"`+token+`",`, 1)
		e := s.stream(s.request(body, headers...))
		return e.next(), e.next()
	}
	progress, result := play("", "one")
	if !strings.Contains(progress, `{"progressToken":"one","progress":1}`) {
		t.Errorf("first: %s", progress)
	}
	_, state := parts(t, answer{body: result})
	progress, result = play(withState(state)+`,"inputResponses":{"q":{"roots":[]}}`, "two")
	if !strings.Contains(progress, `{"progressToken":"two","progress":2}`) || !strings.Contains(result, `answers {\"q\":{\"roots\":[]}}`) {
		t.Errorf("second: %s %s", progress, result)
	}
}

func TestAParkedRequestEnds(t *testing.T) {
	tests := []struct {
		name string
		o    Options
		end  func(*site)
	}{
		{"when its client does not come back", Options{Park: time.Second}, func(*site) {}},
		{"when the gate stops", Options{}, func(s *site) { s.stop() }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := &fakeGate{}
			s := startHTTP(t, g, tt.o, HTTPOptions{})
			_, state := parts(t, s.modern("tools/call", asksName, formCaps))
			tt.end(s)
			if got := <-g.opened(0).started; got != "input ended" {
				t.Errorf("got %q", got)
			}
			if tt.o.Park > 0 {
				got := s.modern("tools/call", asksName+withState(state)+`,"inputResponses":{}`, formCaps)
				if !strings.Contains(got.body, "-32602") {
					t.Errorf("a late answer: %+v", got)
				}
			}
		})
	}
}

func TestAClientThatLeavesCancelsItsFlight(t *testing.T) {
	g := &fakeGate{}
	s := startHTTP(t, g, Options{}, HTTPOptions{})
	body, headers := modern("tools/call", `"name":"hold"`, formCaps)
	r := s.request(body, headers...)
	ctx, leave := context.WithCancel(r.Context())
	gone := make(chan error)
	go func() {
		res, err := s.client.Do(r.WithContext(ctx))
		if err == nil {
			res.Body.Close()
		}
		gone <- err
	}()
	waitFor(t, "a session", func() bool { return g.opened(0) != nil })
	if got := <-g.opened(0).started; got != "hold" {
		t.Fatalf("got %q", got)
	}
	leave()
	if got := <-g.opened(0).started; got != "cancelled" {
		t.Errorf("got %q", got)
	}
	<-gone
}

func TestWhatBelongsToNoRequestOverHTTP(t *testing.T) {
	g := &fakeGate{}
	s := startHTTP(t, g, Options{}, HTTPOptions{})
	a := s.post(fmt.Sprintf(legacyInit, `{"roots":{}}`))
	id := "Mcp-Session-Id: " + a.header.Get("Mcp-Session-Id")
	get := s.stream(s.request("", id, "Method: GET"))
	l := <-g.opened(0).listening
	if _, e := l.Ask(t.Context(), "roots/list", nil); e == nil || e.Code != jsonrpc.CodeMethodNotFound {
		t.Errorf("asked before the client was ready: %v", e)
	}
	s.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, id)
	if got := <-g.opened(0).started; got != "roots" {
		t.Errorf("got %q, want word of the client's roots", got)
	}
	l.Tell("notifications/resources/updated", json.RawMessage(`{"uri":"a:","_meta":{"io.modelcontextprotocol/subscriptionId":3}}`))
	if got, want := get.next(), `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:","_meta":{}}}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	answered := make(chan string)
	go func() {
		result, e := l.Ask(t.Context(), "roots/list", nil)
		answered <- fmt.Sprint(string(result), e)
	}()
	if got, want := get.next(), `{"jsonrpc":"2.0","id":"gate-1","method":"roots/list"}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	s.post(`{"jsonrpc":"2.0","id":"gate-1","result":{"roots":[]}}`, id)
	if got := <-answered; got != `{"roots":[]}<nil>` {
		t.Errorf("answer: %s", got)
	}
	s.post(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, id)
	if got := <-g.opened(0).started; got != "roots" {
		t.Errorf("got %q, want word of other roots", got)
	}
}

func TestAStreamOfSubscriptions(t *testing.T) {
	g := &fakeGate{capabilities: `{"tools":{},"resources":{"subscribe":true}}`}
	s := startHTTP(t, g, Options{}, HTTPOptions{})
	body, headers := modern("subscriptions/listen", `"notifications":{"resourceSubscriptions":["a:"]}`, `{}`)
	e := s.stream(s.request(body, headers...))
	if got := e.next(); !strings.Contains(got, `"notifications":{"resourceSubscriptions":["a:"]}`) {
		t.Errorf("acknowledged: %s", got)
	}
	l := <-g.opened(0).listening
	if l.Only == nil || len(l.Only.URIs) != 1 || l.Only.Prompts || l.Only.Resources || l.Ask != nil {
		t.Errorf("listens for %+v", l.Only)
	}
	l.Tell("notifications/resources/updated", json.RawMessage(`{"uri":"a:","_meta":{"io.modelcontextprotocol/subscriptionId":3,"x":1}}`))
	if got, want := e.next(), `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:","_meta":{"io.modelcontextprotocol/subscriptionId":1,"x":1}}}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestAPanicCostsItsOwnRequest has a client that could be asked something, whose
// requests run on goroutines of their own.
func TestAPanicCostsItsOwnRequest(t *testing.T) {
	for _, capabilities := range []string{`{}`, formCaps} {
		s := startHTTP(t, &fakeGate{}, Options{}, HTTPOptions{})
		if got := s.modern("tools/call", `"name":"panic"`, capabilities); !strings.Contains(got.body, `"message":"internal error"`) {
			t.Errorf("%s: %+v", capabilities, got)
		}
		if got := s.modern("tools/call", `"name":"echo","arguments":{}`, capabilities); !strings.Contains(got.body, `"text":"{}"`) {
			t.Errorf("%s, the next: %+v", capabilities, got)
		}
	}
}

// TestAParkedRequestIsWaitedForAtTheEnd has one that takes half a second of fake
// time to end: what it still writes then must not be closed before.
func TestAParkedRequestIsWaitedForAtTheEnd(t *testing.T) {
	const slowly = `"name":"input:slowly","arguments":{"q":{"method":"roots/list"}}`
	body, headers := modern("tools/call", slowly, `{"roots":{}}`)
	t.Run("stdio", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := &fakeGate{}
			in, client := io.Pipe()
			answers, out := io.Pipe()
			done := make(chan error, 1)
			go func() { done <- New(g, [32]byte{}, Options{}).ServeStdio(t.Context(), stdioIdentity, in, out) }()
			_, _ = io.WriteString(client, body+"\n") // else there is no answer
			line, err := bufio.NewReader(answers).ReadString('\n')
			if err != nil || !strings.Contains(line, "input_required") {
				t.Fatalf("got %s, %v", line, err)
			}
			_ = client.Close()
			if err := <-done; err != nil || !g.opened(0).closed.Load() {
				t.Errorf("ServeStdio returned %v, its session is closed: %v", err, g.opened(0).closed.Load())
			}
			synctest.Wait()
		})
	})
	t.Run("http", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := &fakeGate{}
			h := New(g, [32]byte{}, Options{}).HTTP(HTTPOptions{Tokens: fakeTokens{"laptop": {"*"}}, Hosts: []string{"gate"}})
			r := httptest.NewRequest("POST", "http://gate/mcp", strings.NewReader(body))
			set(r, append(headers, "Authorization: Bearer laptop")...)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if !strings.Contains(w.Body.String(), "input_required") {
				t.Fatalf("got %s", w.Body)
			}
			h.Close()
			if !g.opened(0).closed.Load() {
				t.Error("Close returned before a session was closed")
			}
		})
	})
}
