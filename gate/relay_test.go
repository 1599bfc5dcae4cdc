package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/policy"
)

// guest is a Client that answers as a test says and keeps what it is told.
type guest struct {
	declared string
	modern   bool
	level    string
	answer   func(requests string) (string, *jsonrpc.Error)
	input    func(ctx context.Context, requests string) (string, *jsonrpc.Error) // in place of answer
	deaf     bool                                                                // it cannot be told anything

	mu    sync.Mutex
	asked []string
	told  []string
}

func (g *guest) Declared() json.RawMessage { return json.RawMessage(g.declared) }
func (g *guest) Modern() bool              { return g.modern }
func (g *guest) LogLevel() string          { return g.level }
func (g *guest) Tell(method string, params json.RawMessage) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.told = append(g.told, string(params))
	return !g.deaf
}
func (g *guest) Input(ctx context.Context, requests json.RawMessage) (json.RawMessage, *jsonrpc.Error) {
	g.mu.Lock()
	g.asked = append(g.asked, string(requests))
	g.mu.Unlock()
	if g.input != nil {
		answer, e := g.input(ctx, string(requests))
		return json.RawMessage(answer), e
	}
	answer, e := g.answer(string(requests))
	return json.RawMessage(answer), e
}

const anything = `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`

// accept answers the one request of a round under its own name.
func accept(requests string) (string, *jsonrpc.Error) {
	name, _, _ := strings.Cut(strings.TrimPrefix(requests, `{"`), `"`)
	return `{"` + name + `":{"action":"accept","content":{"a":"<b>"}}}`, nil
}

// callWith makes a call of hub/get_issue for a client, whose server does what
// serve says.
func callWith(t *testing.T, edit func(*Options), client *guest, serve func(ctx context.Context, g *Gate, params string) (string, error)) (Outcome, *shop, *rig) {
	t.Helper()
	c, r, s := openShop(t, edit)
	c.answers["hub tools/call"] = func(ctx context.Context, params string) (string, error) { return serve(ctx, r.gate, params) }
	return s.Call(t.Context(), Request{Name: "call_tool", Args: json.RawMessage(`{"name":"hub/get_issue","arguments":{"n":1}}`), Client: client}), c, r
}

func TestAServersRequestGoesToTheClientOfItsCall(t *testing.T) {
	const form = `{"message":"Your name?","requestedSchema":{"type":"object","properties":{"z":{},"a":{}}}}`
	tests := []struct {
		name, declared, method, params string
		edit                           func(*Options)
		answer                         func(string) (string, *jsonrpc.Error)
		asked, got                     string // got: the server's answer, or code of the error
	}{
		{"a form, headed by the server's name", anything, "elicitation/create", form, nil, accept,
			`{"r1":{"method":"elicitation/create","params":{"message":"[hub] Your name?","requestedSchema":{"type":"object","properties":{"z":{},"a":{}}}}}}`, `{"action":"accept","content":{"a":"<b>"}}`},
		{"the client's own no", anything, "sampling/createMessage", `{"messages":[]}`, nil,
			func(string) (string, *jsonrpc.Error) { return "", &jsonrpc.Error{Code: -1, Message: "User rejected"} },
			`{"r1":{"method":"sampling/createMessage","params":{"messages":[]}}}`, "-1"},
		{"roots", anything, "roots/list", "", nil, func(string) (string, *jsonrpc.Error) { return `{"r1":{"roots":[]}}`, nil }, `{"r1":{"method":"roots/list"}}`, `{"roots":[]}`},
		{"an empty elicitation object means forms", `{"elicitation":{}}`, "elicitation/create", `{"mode":"form","message":"m"}`, nil, accept,
			`{"r1":{"method":"elicitation/create","params":{"mode":"form","message":"[hub] m"}}}`, `{"action":"accept","content":{"a":"<b>"}}`},
		{"and no URLs", `{"elicitation":{}}`, "elicitation/create", `{"mode":"url","message":"m"}`, nil, accept, "", "-32601"},
		{"forms that were not declared", `{"elicitation":{"url":{}}}`, "elicitation/create", form, nil, accept, "", "-32601"},
		{"sampling that was not declared", `{"elicitation":{}}`, "sampling/createMessage", `{}`, nil, accept, "", "-32601"},
		{"tools in sampling that were not declared", anything, "sampling/createMessage", `{"tools":[]}`, nil, accept, "", "-32601"},
		{"what no client has", anything, "tasks/get", `{}`, nil, accept, "", "-32601"},
		{"what is a request to servers", anything, "resources/read", `{}`, nil, accept, "", "-32601"},
		{"sampling that a rule denies", anything, "sampling/createMessage", `{"messages":[]}`, rules(policy.Record{Do: "deny", Tools: policy.Words{"*/sampling/*"}}), accept, "", "-32600"},
		{"a rule that asks, where nobody can be", anything, "elicitation/create", form, rules(policy.Record{Do: "ask", Tools: policy.Words{"hub/elicitation/create"}}), accept, "", "-32600"},
		{"records may not leave", anything, "sampling/createMessage", `{"messages":[]}`, func(o *Options) {
			o.Servers[0].Policy.Egress = policy.Default().Egress
			o.Servers[0].Owner = ownerSays("get_issue", engagement.Metadata)
		}, accept, "", "-32600"},
		{"a client that comes back without an answer", anything, "elicitation/create", form, nil, func(string) (string, *jsonrpc.Error) { return "{}", nil }, "*", "-32600"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client := &guest{declared: tt.declared, answer: tt.answer}
			var params json.RawMessage
			if tt.params != "" {
				params = json.RawMessage(tt.params)
			}
			got := ""
			out, _, r := callWith(t, tt.edit, client, func(ctx context.Context, g *Gate, _ string) (string, error) {
				result, e := g.Answer(ctx, "hub", tt.method, params)
				if got = string(result); e != nil {
					got = fmt.Sprint(e.Code)
				}
				return `{"content":[]}`, nil
			})
			if string(out.Result) != `{"content":[]}` {
				t.Fatalf("the call itself: %s %v", out.Result, out.Error)
			}
			if got != tt.got {
				t.Errorf("the server got %s, want %s", got, tt.got)
			}
			asked := strings.Join(client.asked, "\n")
			if tt.asked != "*" && asked != tt.asked {
				t.Errorf("the client was asked %s, want %s", asked, tt.asked)
			}
			if tt.asked != "" && len(r.log.about(audit.Note, "hub/"+tt.method)) != 1 {
				t.Errorf("the request is not in the audit log")
			}
		})
	}
}

func TestSamplingsAreBounded(t *testing.T) {
	client := &guest{declared: anything, answer: func(string) (string, *jsonrpc.Error) { return `{"r1":{}}`, nil }}
	const sampling = `{"messages":[]}`
	var went, refused int
	var last *jsonrpc.Error
	sample := func(ctx context.Context, g *Gate, server string) {
		given, e := (ctx.Value(flightKey{}).(*flight)).s.admit(json.RawMessage(anything), server, "sampling/createMessage", json.RawMessage(sampling))
		if e != nil {
			refused, last = refused+1, e
		} else if went++; string(given) != sampling {
			t.Errorf("it goes on as %s", given)
		}
	}
	_, _, r := callWith(t, nil, client, func(ctx context.Context, g *Gate, _ string) (string, error) {
		for range maxSamplings + 3 {
			sample(ctx, g, "hub")
		}
		sample(ctx, g, "mail") // another server's own
		return `{"content":[]}`, nil
	})
	if went != maxSamplings+1 || refused != 3 || !strings.Contains(last.Message, "at most 100 samplings in 10m0s") {
		t.Errorf("%d went on, %d were refused: %v", went, refused, last)
	}
	if n := len(r.log.about(audit.Refusal, "hub/sampling/createMessage")); n != 3 {
		t.Errorf("the audit log has %d refusals, want 3", n)
	}

	calls := int64(3) // the call itself is one
	went, refused = 0, 0
	callWith(t, func(o *Options) { o.Spend.Calls = &calls }, client, func(ctx context.Context, g *Gate, _ string) (string, error) {
		for range 5 {
			sample(ctx, g, "hub")
		}
		return `{"content":[]}`, nil
	})
	if went != 2 || !strings.Contains(last.Message, "[spend]") {
		t.Errorf("of a session with 2 calls left %d samplings went on: %v", went, last)
	}
}

func TestARequestOfNoKnownCallIsRefusedAtOnce(t *testing.T) {
	_, r, s := openShop(t, func(o *Options) { o.FirstFind = time.Millisecond })
	answer := func(method string) string {
		result, e := r.gate.Answer(t.Context(), "hub", method, nil)
		if e != nil {
			return fmt.Sprint(e.Code)
		}
		return string(result)
	}
	listen := func(s *Session, declared string) func() {
		return s.Listen(&Listener{Tell: func(string, json.RawMessage) {}, Declared: json.RawMessage(declared),
			Ask: func(_ context.Context, method string, _ json.RawMessage) (json.RawMessage, *jsonrpc.Error) {
				return json.RawMessage(`{"roots":[{"uri":"file:///w"}]}`), nil
			}})
	}
	if got := answer("elicitation/create"); got != "-32600" {
		t.Errorf("a form: %s", got)
	}
	if got := answer("roots/list"); got != "-32601" {
		t.Errorf("roots of nobody: %s", got)
	}
	end := listen(s, `{"roots":{}}`)
	if got := answer("roots/list"); got != `{"roots":[{"uri":"file:///w"}]}` {
		t.Errorf("roots of the one client: %s", got)
	}
	weak := r.open(t, Identity{Principal: "bot", Scope: policy.ScopeWrite})
	defer listen(weak, `{"roots":{}}`)()
	if got := answer("roots/list"); got != `{"roots":[{"uri":"file:///w"}]}` {
		t.Errorf("a client without the owner's powers does not count: %s", got)
	}
	other := r.open(t, Identity{})
	defer listen(other, `{"roots":{}}`)()
	if got := answer("roots/list"); got != "-32600" {
		t.Errorf("roots of two clients: %s", got)
	}
	end()
	if got := answer("roots/list"); got == "-32600" {
		t.Errorf("roots once one of them is gone: %s", got)
	}
}

// A server that asks while its client's handshake is under way gets that client's answer,
// and is not told of a change besides.
func TestRootsThatAreAskedForEarly(t *testing.T) {
	for _, tt := range []struct {
		name, declared string
		ready          bool // it says so later
		want           string
	}{
		{"a client with roots", `{"roots":{}}`, true, `{"roots":[]}`},
		{"one that is never ready", `{"roots":{}}`, false, "no client offers roots/list"},
		{"one without roots", `{}`, true, "no client offers roots/list"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, r, s := openShop(t, func(o *Options) { o.FirstFind = time.Second })
				began := time.Now()
				got := make(chan string)
				go func() {
					result, e := r.gate.Answer(t.Context(), "hub", "roots/list", nil)
					if e != nil {
						result = json.RawMessage(e.Message)
					}
					got <- string(result)
				}()
				synctest.Wait()
				ready := make(chan struct{})
				defer s.Listen(&Listener{Tell: func(string, json.RawMessage) {}, Declared: json.RawMessage(tt.declared), Ready: ready,
					Ask: func(context.Context, string, json.RawMessage) (json.RawMessage, *jsonrpc.Error) {
						return json.RawMessage(`{"roots":[]}`), nil
					}})()
				want := time.Duration(0)
				if tt.ready {
					synctest.Wait()
					close(ready)
					if tt.want == `{"roots":[]}` {
						s.RootsChanged(t.Context())
					}
				} else {
					want = time.Second
				}
				if got := <-got; got != tt.want {
					t.Errorf("the server got %s, want %s", got, tt.want)
				}
				if waited := time.Since(began); waited != want {
					t.Errorf("it waited %v, want %v", waited, want)
				}
				if told := c.calls(""); len(told) != 0 {
					t.Errorf("it was told %q", told)
				}
			})
		})
	}
}

func TestServersThatAskedForRootsHearOfChanges(t *testing.T) {
	c, r, s := openShop(t, func(o *Options) { o.FirstFind = time.Millisecond })
	s.RootsChanged(t.Context())
	_, _ = r.gate.Answer(t.Context(), "hub", "roots/list", nil)
	s.RootsChanged(t.Context())
	r.open(t, Identity{Principal: "bot", Scope: policy.ScopeRead}).RootsChanged(t.Context())
	if got := c.calls(""); !slices.Equal(got, []string{"hub notifications/roots/list_changed"}) {
		t.Errorf("sent %q", got)
	}
	// One that asks in the middle of a call hears of changes as well.
	c, r, s = openShop(t, nil)
	c.answers["hub tools/call"] = func(ctx context.Context, _ string) (string, error) {
		_, _ = r.gate.Answer(ctx, "hub", "roots/list", nil)
		return `{"content":[]}`, nil
	}
	client := &guest{declared: anything, answer: func(string) (string, *jsonrpc.Error) { return `{"r1":{"roots":[]}}`, nil }}
	s.Call(t.Context(), Request{Name: "call_tool", Args: json.RawMessage(`{"name":"hub/get_issue","arguments":{"n":1}}`), Client: client})
	s.RootsChanged(t.Context())
	if got := c.calls(""); !slices.Contains(got, "hub notifications/roots/list_changed") {
		t.Errorf("sent %q", got)
	}
}

func TestAModernServersNeedsAreMetInRounds(t *testing.T) {
	client := &guest{declared: anything, answer: func(requests string) (string, *jsonrpc.Error) {
		if requests == "" {
			return "", nil
		}
		return `{"name":{"action":"accept"},"extra":1}`, nil
	}}
	var sent []string
	out, _, _ := callWith(t, nil, client, func(ctx context.Context, _ *Gate, params string) (string, error) {
		if of := TermsOf(ctx); string(of.Capabilities) != anything || of.LogLevel != "info" || of.Session == nil {
			t.Errorf("the server is told %s and %q", of.Capabilities, of.LogLevel)
		}
		sent = append(sent, params)
		switch len(sent) {
		case 1:
			return `{"resultType":"input_required","inputRequests":{"name":{"method":"elicitation/create","params":{"message":"Who?"}}},"requestState":"s<1>"}`, nil
		case 2:
			return `{"resultType":"input_required","requestState":"s2"}`, nil
		}
		return `{"resultType":"complete","content":[]}`, nil
	})
	want := []string{
		`{"name":"get_issue","arguments":{"n":1}}`,
		`{"name":"get_issue","arguments":{"n":1},"inputResponses":{"name":{"action":"accept"},"extra":1},"requestState":"s<1>"}`,
		`{"name":"get_issue","arguments":{"n":1},"requestState":"s2"}`,
	}
	if !slices.Equal(sent, want) || string(out.Result) != `{"resultType":"complete","content":[]}` {
		t.Errorf("sent %q, want %q; result %s %v", sent, want, out.Result, out.Error)
	}
	if want := []string{`{"name":{"method":"elicitation/create","params":{"message":"[hub] Who?"}}}`, ""}; !slices.Equal(client.asked, want) {
		t.Errorf("asked %q, want %q", client.asked, want)
	}
}

func TestWhatAServerMustNotAnswer(t *testing.T) {
	tests := []struct{ name, declared, result, want string }{
		{"a type that nobody knows", anything, `{"resultType":"job","task":{}}`, "unknown type"},
		{"input that was not declared", `{}`, `{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}`, "does not offer roots/list"},
		{"input without end", anything, `{"resultType":"input_required","requestState":"x"}`, "10 rounds"},
		{"input that is none", anything, `{"resultType":"input_required","inputRequests":[]}`, "inputRequests of server hub"},
	}
	for _, tt := range tests {
		client := &guest{declared: tt.declared, answer: func(string) (string, *jsonrpc.Error) { return "", nil }}
		out, _, _ := callWith(t, nil, client, func(context.Context, *Gate, string) (string, error) { return tt.result, nil })
		if out.Error == nil || !strings.Contains(out.Error.Message, tt.want) {
			t.Errorf("%s: got %s %v, want an error with %q", tt.name, out.Result, out.Error, tt.want)
		}
	}
}

func TestAURLToVisitFirst(t *testing.T) {
	first := true
	const offered = `{"mode":"url","message":"Sign in","url":"https://x.test/","elicitationId":"e1"}`
	visit := &jsonrpc.Error{Code: codeURLElicitation, Message: "visit", Data: json.RawMessage(`{"elicitations":[` + offered + `]}`)}
	serve := func(context.Context, *Gate, string) (string, error) {
		if first {
			first = false
			return "", visit
		}
		return `{"content":[]}`, nil
	}
	modern := &guest{declared: anything, modern: true, answer: accept}
	out, _, _ := callWith(t, nil, modern, serve)
	if string(out.Result) != `{"content":[]}` || !slices.Equal(modern.asked, []string{`{"r1":{"method":"elicitation/create","params":{"mode":"url","message":"[hub] Sign in","url":"https://x.test/"}}}`}) {
		t.Errorf("a modern client: %s %v, asked %q", out.Result, out.Error, modern.asked)
	}
	first = true
	legacy := &guest{declared: anything}
	visit.Data = json.RawMessage(`{"elicitations":[{"mode":"url","message":"m","url":"javascript:alert(1)"}, ` + offered + `],"n":9007199254740993}`)
	out, _, r := callWith(t, nil, legacy, serve)
	want := `{"elicitations":[` + strings.Replace(offered, "Sign in", "[hub] Sign in", 1) + `],"n":9007199254740993}`
	if out.Error == nil || out.Error.Code != codeURLElicitation || string(out.Error.Data) != want {
		t.Errorf("a legacy client: %s %v", out.Result, out.Error)
	}
	for _, address := range []string{"javascript:alert(1)", "file:///etc/passwd", "vscode://x/y", "//x.test", ""} {
		_, e := r.gate.Sessions()[0].admit(json.RawMessage(anything), "hub", "elicitation/create", json.RawMessage(`{"mode":"url","message":"m","url":"`+address+`"}`))
		if e == nil || !strings.Contains(e.Message, "http and https") {
			t.Errorf("%q: %v", address, e)
		}
	}
	s := r.gate.Sessions()[0]
	var told []string
	defer s.Listen(&Listener{Tell: func(_ string, params json.RawMessage) { told = append(told, string(params)) }})()
	r.gate.Notice(t.Context(), "mail", "notifications/elicitation/complete", json.RawMessage(`{"elicitationId":"e1"}`))
	r.gate.Notice(t.Context(), "hub", "notifications/elicitation/complete", json.RawMessage(`{"elicitationId":"e1"}`))
	if !slices.Equal(told, []string{`{"elicitationId":"e1"}`}) {
		t.Errorf("told %q", told)
	}
	first = true
	plain := &guest{declared: `{"elicitation":{}}`, modern: true, answer: accept}
	if out, _, _ := callWith(t, nil, plain, serve); out.Error == nil || out.Error.Code == codeURLElicitation {
		t.Errorf("a modern client that opens no URLs: %s %v", out.Result, out.Error)
	}
}

func TestLogsReachWhoWantsThem(t *testing.T) {
	const debug, failed = `{"level":"debug","data":"d"}`, `{"level":"error","logger":"db","data":{"k":"<v>"}}`
	tests := []struct {
		name   string
		client *guest
		level  string // by logging/setLevel
		edit   func(*Options)
		want   []string
	}{
		{"who never said gets no debugging", &guest{}, "", nil, []string{`{"level":"error","logger":"hub/db","data":{"k":"<v>"}}`}},
		{"who wants all gets all", &guest{}, "debug", nil, []string{`{"level":"debug","data":"d","logger":"hub"}`, `{"level":"error","logger":"hub/db","data":{"k":"<v>"}}`}},
		{"who wants little", &guest{}, "alert", nil, nil},
		{"a modern request that asked", &guest{modern: true, level: "error"}, "", nil, []string{`{"level":"error","logger":"hub/db","data":{"k":"<v>"}}`}},
		{"a modern request that did not", &guest{modern: true}, "debug", nil, nil},
		{"records may not leave", &guest{}, "", func(o *Options) {
			o.Servers[0].Policy.Egress = policy.Default().Egress
			o.Servers[0].Owner = ownerSays("get_issue", engagement.Metadata)
		}, nil},
		{"a rule denies them", &guest{}, "", rules(policy.Record{Do: "deny", Tools: policy.Words{"hub/notifications/message"}}), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.client.declared = "{}"
			c, r, s := openShop(t, tt.edit)
			if tt.level != "" {
				s.SetLogLevel(t.Context(), tt.level)
				if got := c.calls("level "); !slices.Equal(got, []string{"level " + tt.level}) {
					t.Errorf("servers were asked for %q", got)
				}
			}
			c.answers["hub tools/call"] = func(ctx context.Context, _ string) (string, error) {
				r.gate.Notice(ctx, "hub", "notifications/message", json.RawMessage(debug))
				r.gate.Notice(t.Context(), "hub", "notifications/message", json.RawMessage(failed)) // it is the only call
				return `{"content":[]}`, nil
			}
			s.Call(t.Context(), Request{Name: "call_tool", Args: json.RawMessage(`{"name":"hub/get_issue"}`), Client: tt.client})
			if !slices.Equal(tt.client.told, tt.want) {
				t.Errorf("told %q, want %q", tt.client.told, tt.want)
			}
		})
	}
}

func TestLogsOfNobodysCallStayAmongOnePrincipals(t *testing.T) {
	_, r, s := openShop(t, nil)
	var told []string
	listen := func(s *Session) func() {
		return s.Listen(&Listener{Tell: func(_ string, params json.RawMessage) { told = append(told, s.Principal()) }})
	}
	defer listen(s)()
	say := func() {
		r.gate.Notice(t.Context(), "hub", "notifications/message", json.RawMessage(`{"level":"error","data":1}`))
	}
	say()
	other := r.open(t, Identity{Principal: "other", Scope: policy.ScopeAdmin})
	defer listen(other)()
	say() // it may be about the other's last call
	if !slices.Equal(told, []string{"local"}) {
		t.Errorf("told %q", told)
	}
}

func TestTheLeastLevelThatAnyoneWantsIsAskedFor(t *testing.T) {
	c, r, s := openShop(t, nil)
	other := r.open(t, Identity{})
	s.SetLogLevel(t.Context(), "warning")
	other.SetLogLevel(t.Context(), "error")
	other.SetLogLevel(t.Context(), "debug")
	if got, want := c.calls("level"), []string{"level warning", "level debug"}; !slices.Equal(got, want) {
		t.Errorf("asked for %q, want %q", got, want)
	}
}

// What is lost on the way is told as lost, whatever was being done.
func TestAReadingThatIsLost(t *testing.T) {
	c, _, s := openShop(t, nil)
	c.answers["hub resources/read"] = func(context.Context, string) (string, error) { return "", errors.New("pipe broke") }
	out := s.Call(t.Context(), Request{Method: "resources/read", Name: "mcp-gate://hub/doc://one", Args: json.RawMessage(`{"uri":"mcp-gate://hub/doc://one"}`)}).AsError()
	if out.Error == nil || out.Error.Code != CodeUpstream || !strings.Contains(out.Error.Message, "pipe broke") {
		t.Errorf("got %s %v", out.Result, out.Error)
	}
}
