package gate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/policy"
)

// parting is a Caller that notes whose connections were ended.
type parting struct {
	*scripted
	mu   sync.Mutex
	left []*Session
}

func (p *parting) Leave(s *Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = append(p.left, s)
}

func (p *parting) gone(s *Session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.left, s)
}

// ownRig is a gate whose server hub has a connection for each session.
func ownRig(t *testing.T) (*rig, *parting) {
	t.Helper()
	var p *parting
	r := newRig(t, func(o *Options) {
		o.Servers[0].Own = true
		p = &parting{scripted: o.Caller.(*scripted)}
		o.Caller = p
	})
	return r, p
}

// A session's process must end with the session, whenever its last call does.
func TestASessionLeavesItsConnection(t *testing.T) {
	r, p := ownRig(t)
	s := r.open(t, Identity{Principal: "local"})
	through(t, s, "hub/get_issue", `{"n":1}`)
	if p.gone(s) {
		t.Error("its connection ended while it lives")
	}
	begun, end := make(chan struct{}), make(chan struct{})
	p.answer = func(string, json.RawMessage) (json.RawMessage, error) {
		close(begun)
		<-end
		return json.RawMessage(`{"content":[]}`), nil
	}
	var call sync.WaitGroup
	call.Go(func() { through(t, s, "hub/get_issue", `{"n":2}`) })
	<-begun
	s.Close()
	if !p.gone(s) {
		t.Error("its connection stays open after it")
	}
	p.mu.Lock()
	p.left = nil
	p.mu.Unlock()
	close(end)
	call.Wait()
	if !p.gone(s) {
		t.Error("a call that outlived it may have opened another, which stays")
	}
}

// asker is a stream whose client says who it is.
func asker(s *Session, name string) func() {
	return s.Listen(&Listener{
		Tell: func(string, json.RawMessage) {},
		Ask: func(context.Context, string, json.RawMessage) (json.RawMessage, *jsonrpc.Error) {
			return json.RawMessage(`{"who":"` + name + `"}`), nil
		},
		Declared: json.RawMessage(`{"roots":{},"elicitation":{},"sampling":{}}`),
	})
}

func TestWhatComesOnAConnectionIsForItsSession(t *testing.T) {
	r, _ := ownRig(t)
	admin := Identity{Principal: "local", Scope: policy.ScopeAdmin}
	one, two := r.open(t, admin), r.open(t, admin)
	reader := r.open(t, Identity{Principal: "reader", Scope: policy.ScopeRead})
	defer asker(one, "one")()
	defer asker(two, "two")()
	defer asker(reader, "reader")()
	ask := func(s *Session, server, method string) string {
		ctx := t.Context()
		if s != nil {
			ctx = OnConnection(ctx, s)
		}
		result, e := r.gate.Answer(ctx, server, method, json.RawMessage(`{"message":"Which?"}`))
		if e != nil {
			return "error: " + e.Message
		}
		return string(result)
	}
	for _, tt := range []struct {
		what         string
		s            *Session
		server, want string
	}{
		{"roots/list", one, "hub", `"one"`},
		{"roots/list", two, "hub", `"two"`},
		{"elicitation/create", two, "hub", `"two"`},
		{"roots/list", reader, "hub", "no client offers"},   // who may not write says nothing of where to
		{"roots/list", nil, "hub", "several clients"},       // the connection that is nobody's
		{"elicitation/create", one, "mail", `"one"`},        // a server that all share, at work for that session alone
		{"roots/list", nil, "mail", "several clients"},      // or for several
		{"elicitation/create", nil, "mail", "which call"},   // the same
		{"tools/nonsense", one, "hub", "method not found:"}, // no client is bothered
	} {
		if got := ask(tt.s, tt.server, tt.what); !strings.Contains(got, tt.want) {
			t.Errorf("%s on a connection to %s: got %s, want %s", tt.what, tt.server, got, tt.want)
		}
	}
}

func TestUpdatesOnAConnectionReachItsSession(t *testing.T) {
	r, _ := ownRig(t)
	var mu sync.Mutex
	told := map[string]int{}
	listen := func(name string) *Session {
		s := r.open(t, Identity{Principal: "local", Scope: policy.ScopeAdmin})
		t.Cleanup(s.Listen(&Listener{Tell: func(method string, _ json.RawMessage) {
			mu.Lock()
			defer mu.Unlock()
			told[name+" "+method]++
		}}))
		s.side.follow(s.watch("hub", "x:1"))
		return s
	}
	one, _ := listen("one"), listen("two")
	ctx := OnConnection(t.Context(), one)
	r.gate.Notice(ctx, "hub", "notifications/resources/updated", json.RawMessage(`{"uri":"x:1"}`))
	r.gate.Notice(ctx, "hub", "notifications/message", json.RawMessage(`{"level":"error","data":"mine"}`))
	if len(told) != 2 || told["one notifications/resources/updated"] != 1 || told["one notifications/message"] != 1 {
		t.Errorf("told were %v", told)
	}
}

// A client without a stream that takes questions is asked through its calls: the newest,
// then the one before it when that is over.
func TestAQuestionAboutOneOfSeveralCalls(t *testing.T) {
	c, r, s := openShop(t, nil)
	over := make(chan struct{})
	asked := make(chan string, 3)
	client := func(name string, answers bool) *guest {
		return &guest{declared: anything, modern: true, input: func(ctx context.Context, requests string) (string, *jsonrpc.Error) {
			asked <- name
			if answers {
				return accept(requests)
			}
			<-ctx.Done()
			return "", &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "the call is over"}
		}}
	}
	var calls sync.WaitGroup
	ends := map[string]chan struct{}{"1": make(chan struct{}), "2": make(chan struct{})}
	begun := make(chan struct{})
	c.answers["hub tools/call"] = func(_ context.Context, params string) (string, error) {
		begun <- struct{}{}
		for n, end := range ends {
			if strings.Contains(params, `"n":`+n) {
				<-end
			}
		}
		return `{"content":[]}`, nil
	}
	for n, client := range []*guest{client("old", true), client("new", false)} {
		args := json.RawMessage(fmt.Sprintf(`{"name":"hub/get_issue","arguments":{"n":%d}}`, n+1))
		calls.Go(func() { s.Call(t.Context(), Request{Name: "call_tool", Args: args, Client: client}) })
		<-begun
	}
	var result json.RawMessage
	var e *jsonrpc.Error
	go func() {
		defer close(over)
		result, e = r.gate.Answer(OnConnection(t.Context(), s), "hub", "elicitation/create", json.RawMessage(`{"message":"Which?"}`))
	}()
	if who := <-asked; who != "new" {
		t.Errorf("the %s call's client was asked first", who)
	}
	close(ends["2"])
	if who := <-asked; who != "old" {
		t.Errorf("then the %s call's", who)
	}
	<-over
	if e != nil || !strings.Contains(string(result), `"accept"`) {
		t.Errorf("the server got %s %v", result, e)
	}
	close(ends["1"])
	calls.Wait()
}
