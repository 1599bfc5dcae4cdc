package gate

import (
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/checkpoint"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/inbox"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/policy"
	"github.com/mcp-gate/mcp-gate/store"
)

// scripted is a Caller that answers as a test says and keeps what it was sent.
type scripted struct {
	mu     sync.Mutex
	sent   []string // server and params of each call, in order
	answer func(server string, params json.RawMessage) (json.RawMessage, error)
	down   error
	about  About
	ready  chan struct{} // nil: settled at once
	waited func()        // a server is waited for
}

func (c *scripted) Call(_ context.Context, server, _ string, params json.RawMessage, _ func(json.RawMessage)) (json.RawMessage, error) {
	c.mu.Lock()
	c.sent = append(c.sent, server+" "+string(params))
	c.mu.Unlock()
	if c.answer == nil {
		return json.RawMessage(`{"content":[]}`), nil
	}
	return c.answer(server, params)
}
func (c *scripted) Up(string) error { return c.down }
func (c *scripted) About(string) About {
	return c.about
}
func (c *scripted) Settled(ctx context.Context, _ ...string) {
	if c.waited != nil {
		c.waited()
	}
	if c.ready != nil {
		select {
		case <-c.ready:
		case <-ctx.Done():
		}
	}
}
func (c *scripted) calls() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.sent)
}

// ledger is a Recorder that keeps events, and fails where a test says.
type ledger struct {
	mu     sync.Mutex
	events []audit.Event
	fail   func(audit.Event) bool
}

func (l *ledger) Record(e audit.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil && l.fail(e) {
		return errors.New("disk full")
	}
	l.events = append(l.events, e)
	return nil
}

func (l *ledger) kinds() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var kinds []string
	for _, e := range l.events {
		if e.Kind != audit.Session {
			kinds = append(kinds, e.Kind)
		}
	}
	return strings.Join(kinds, " ")
}

// rig is a gate with two servers, and what it is made of.
type rig struct {
	caller *scripted
	log    *ledger
	mu     sync.Mutex
	now    time.Time
	gate   *Gate
	store  *store.Store
	inbox  *inbox.Inbox
	ring   *inbox.Ring
	opts   inbox.Options
	first  Options // what the gate was made of
}

func (r *rig) clock() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *rig) later(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(d)
}

var definitions = map[string][]string{
	"hub": {
		`{"name":"get_issue","description":"Get one issue. With comments.","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}}}, "x-vendor" : 1e400}`,
		`{"name":"create_issue","description":"Create an issue","inputSchema":{"type":"object","properties":{"title":{"type":"string"}},"required":["title"]}}`,
		`{"name":"delete_issue","description":"Delete an issue for ever","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}`,
	},
	"mail": {
		`{"name":"get_mail","description":"Get a mail","inputSchema":{"type":"object"}}`,
		`{"name":"send_mail","description":"Send a mail","inputSchema":{"type":"object"}}`,
		`{"name":"get_issue","description":"Get the mail of an issue","inputSchema":{"type":"object"}}`,
	},
}

func newRig(t testing.TB, edit func(*Options)) *rig {
	t.Helper()
	r := &rig{caller: &scripted{}, log: &ledger{}, now: time.Unix(1_800_000_000, 0)}
	r.openInbox(t)
	owner := policy.Default()
	owner.Egress = policy.PresetWorkbench.Egress()
	o := Options{
		Name: "gate", Version: "1",
		Settings: Settings{
			Servers:  []Server{{Alias: "hub", ID: "hub-id", Launch: "hub-launch", Policy: owner}, {Alias: "mail", ID: "mail-id", Launch: "mail-launch", Policy: owner}},
			Profiles: map[string]Profile{"": {Authority: engagement.DefaultAuthority()}},
			Least:    map[engagement.Permission]policy.Level{engagement.Destructive: policy.L0},
			Bars:     engagement.DefaultBars(),

			PolicyVersion: "1",
		},
		Caller: r.caller, Audit: r.log, Resolve: func(p string) (string, error) { return p, nil },
		Log: slog.New(slog.DiscardHandler), Now: r.clock, Rand: newRand(),
		Inbox: r.inbox, Forms: inbox.NewForms(r.opts), Sessions: r.store, Reach: func() inbox.Level { return r.ring.Reach() },
		Stored: func() bool { return true },
		Wait:   time.Second, FirstList: time.Second, FirstFind: time.Second,
	}
	if edit != nil {
		edit(&o)
	}
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	for server, list := range definitions {
		g.Offer(server, raws(list))
	}
	r.gate, r.first = g, o
	return r
}

// openInbox opens a real store in a fresh folder.
func (r *rig) openInbox(t testing.TB) {
	t.Helper()
	dir := t.TempDir()
	r.store = store.New(dir + "/state.db")
	t.Cleanup(func() { _ = r.store.Close() })
	key, err := inbox.LoadGateKey(dir+"/keys", crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if r.ring, err = inbox.OpenRing(dir+"/keys", key, false, nil); err != nil {
		t.Fatal(err)
	}
	r.ring = r.ring.Follow() // enrolments come later
	r.opts = inbox.Options{Store: r.store, Ring: r.ring, Now: r.clock, Random: crand.Reader, Process: store.Self(), Life: store.Life, Expiry: time.Hour, Bell: inbox.NewBell()}
	if r.inbox, err = inbox.New(r.opts); err != nil {
		t.Fatal(err)
	}
}

func raws(list []string) []json.RawMessage {
	var out []json.RawMessage
	for _, d := range list {
		out = append(out, json.RawMessage(d))
	}
	return out
}

// newRand is a source of ids that is the same in each run.
func newRand() io.Reader { return rand.NewChaCha8([32]byte{1}) }

func (r *rig) open(t testing.TB, who Identity) *Session {
	t.Helper()
	if who.Principal == "" {
		who.Principal, who.Scope = "local", policy.ScopeAdmin
	}
	s, err := r.gate.Open(t.Context(), who)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// through calls a tool by call_tool with a client that can ask.
func through(t *testing.T, s *Session, name, args string) Outcome {
	t.Helper()
	return s.Call(t.Context(), Request{Name: "call_tool", Args: json.RawMessage(fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, args)), CanAsk: true})
}

// result is the part of a CallToolResult that tests look at.
type result struct {
	Content           []struct{ Text string }
	IsError           bool
	StructuredContent json.RawMessage
	Meta              map[string]json.RawMessage `json:"_meta"`
}

func decode(t *testing.T, out Outcome) result {
	t.Helper()
	var r result
	if out.Result == nil {
		t.Fatalf("no result: %+v", out)
	}
	if err := json.Unmarshal(out.Result, &r); err != nil {
		t.Fatalf("result %s: %v", out.Result, err)
	}
	return r
}

func (r result) text() string {
	var b strings.Builder
	for _, c := range r.Content {
		b.WriteString(c.Text + "\n")
	}
	return b.String()
}

// refusedAs checks that an outcome is a refusal of the given code and no
// upstream call was made.
func (r *rig) refusedAs(t *testing.T, out Outcome, code string) {
	t.Helper()
	got := decode(t, out)
	if !got.IsError || !strings.HasPrefix(got.text(), "refused ["+code+"]: ") {
		t.Errorf("got %s, want a refusal %q", out.Result, code)
	}
	if _, ok := got.Meta["mcp-gate/refusal"]; !ok {
		t.Errorf("no mcp-gate/refusal in %s", out.Result)
	}
	if sent := r.caller.calls(); len(sent) > 0 {
		t.Errorf("an upstream was called: %v", sent)
	}
}

func TestBytesPassUnchanged(t *testing.T) {
	const args = `{ "n":12345678901234567890,"x":1.0, "html":"<&>" }`
	const answer = `{"content":[{"type":"video","data":12345678901234567890}],"vendor":{"b":1,"a":2}}`
	r := newRig(t, nil)
	r.caller.answer = func(string, json.RawMessage) (json.RawMessage, error) { return json.RawMessage(answer), nil }
	out := through(t, r.open(t, Identity{}), "hub/get_issue", args)
	if string(out.Result) != answer {
		t.Errorf("result %s, want %s", out.Result, answer)
	}
	want := `hub {"name":"get_issue","arguments":` + args + `}`
	if got := r.caller.calls(); len(got) != 1 || got[0] != want {
		t.Errorf("sent %v, want %v", got, want)
	}
	if got := r.log.kinds(); got != "intent outcome" {
		t.Errorf("audit has %q", got)
	}
}

func TestAbsentArgumentsStayAbsentAndMetaGoesAlong(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Profiles[""] = Profile{Exposure: Direct, Authority: engagement.DefaultAuthority()}
	})
	s := r.open(t, Identity{})
	s.Call(t.Context(), Request{Name: "hub_get_issue", Meta: json.RawMessage(`{"traceparent":"t"}`)})
	if got, want := r.caller.calls()[0], `hub {"name":"get_issue","_meta":{"traceparent":"t"}}`; got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
}

func TestWhatEachCallMeets(t *testing.T) {
	never := func(s policy.Scope) Identity { return Identity{Principal: "p", Scope: s} }
	tests := []struct {
		name, tool, args string
		who              Identity
		edit             func(*Options)
		code             string // "" runs, "ask" asks
	}{
		{"a read runs", "hub/get_issue", `{}`, Identity{}, nil, ""},
		{"a reversible write runs", "hub/create_issue", `{"title":"t"}`, Identity{}, nil, ""},
		{"a destructive call asks", "hub/delete_issue", `{"n":1}`, Identity{}, nil, "ask"},
		{"by default no client can prove enough for it", "hub/delete_issue", `{"n":1}`, Identity{}, func(o *Options) { o.Least = nil }, "no-person"},
		{"a bare name that is unique is enough", "create_issue", `{"title":"t"}`, Identity{}, nil, ""},
		{"a bare name of several servers is not", "get_issue", `{}`, Identity{}, nil, "arguments"},
		{"an unknown tool", "hub/get_isue", `{}`, Identity{}, nil, "unknown"},
		{"a read token cannot write", "hub/create_issue", `{"title":"t"}`, never(policy.ScopeRead), nil, "scope"},
		{"a write token cannot destroy", "hub/delete_issue", `{"n":1}`, never(policy.ScopeWrite), nil, "scope"},
		{"the owner allows reading only", "hub/create_issue", `{"title":"t"}`, Identity{}, func(o *Options) { o.Servers[0].Policy.AllowWrites = false }, "read-only"},
		{"a class that may not leave", "hub/get_issue", `{}`, Identity{}, func(o *Options) { o.Servers[0].Policy.Egress = policy.DefaultEgress() }, "egress"},
		{"arguments that do not fit are no question", "hub/delete_issue", `{"n":"one"}`, Identity{}, nil, "arguments"},
		{"where nobody is asked they are the server's to judge", "hub/create_issue", `{"title":7}`, Identity{}, nil, ""},
		{"manual autonomy asks about a write", "hub/create_issue", `{"title":"t"}`, Identity{}, func(o *Options) {
			o.Profiles[""] = Profile{Authority: engagement.Authority{Autonomy: engagement.AutonomyManual, Attendance: engagement.AttendanceInteractive}}
		}, "ask"},
		{"nobody attends", "hub/delete_issue", `{"n":1}`, Identity{}, func(o *Options) {
			o.Profiles[""] = Profile{Authority: engagement.Authority{Autonomy: engagement.AutonomyDelegated, Attendance: engagement.AttendanceUnattended}}
		}, "unattended"},
		{"a rule denies", "hub/get_issue", `{"n":7}`, Identity{}, rules(policy.Record{Do: "deny", Tools: policy.Words{"hub/*"}, Args: map[string]policy.ArgRecord{"/n": {Eq: json.RawMessage("7")}}}), "rule"},
		{"a rule hides", "hub/get_issue", `{}`, Identity{}, rules(policy.Record{Do: "hide", Tools: policy.Words{"hub/get_issue"}}), "unknown"},
		{"a rule allows outright", "hub/delete_issue", `{"n":1}`, Identity{}, rules(policy.Record{Do: "allow", Tools: policy.Words{"hub/delete_issue"}}), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, tt.edit)
			out := through(t, r.open(t, tt.who), tt.tool, tt.args)
			switch tt.code {
			case "":
				if out.Error != nil || out.Ask != nil || decode(t, out).IsError || len(r.caller.calls()) != 1 {
					t.Errorf("got %+v, want it to run", out)
				}
			case "ask":
				if out.Ask == nil || len(r.caller.calls()) != 0 {
					t.Errorf("got %+v, want a question", out)
				}
			default:
				r.refusedAs(t, out, tt.code)
			}
		})
	}
}

func rules(records ...policy.Record) func(*Options) {
	return func(o *Options) {
		compiled, err := policy.Compile(records)
		if err != nil {
			panic(err)
		}
		o.Rules = compiled
	}
}

func TestWhatAReplyIsWorth(t *testing.T) {
	tests := []struct {
		name  string
		reply Reply
		code  string // "" runs
		again bool   // a later question is still put to this client
	}{
		{"a person allows", Reply{Accepted, "allow-once", time.Second}, "", true},
		{"a person denies", Reply{Accepted, "deny", time.Second}, "declined", true},
		{"a person declines", Reply{Declined, "", time.Second}, "declined", true},
		{"later", Reply{Cancelled, "", time.Second}, "deferred", true},
		{"no answer", Reply{NoAnswer, "", time.Minute}, "no-answer", true},
		{"an empty accept is nobody's", Reply{Accepted, "", time.Second}, "no-answer", false},
		{"an unknown choice is nobody's", Reply{Accepted, "allow", time.Second}, "no-answer", false},
		{"a yes in 5 ms is nobody's", Reply{Accepted, "allow-once", 5 * time.Millisecond}, "no-answer", false},
		{"a decline in 5 ms is nobody's", Reply{Declined, "", 5 * time.Millisecond}, "no-answer", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, nil)
			s := r.open(t, Identity{})
			ask := through(t, s, "hub/delete_issue", `{"n":1}`).Ask
			if ask == nil || !strings.Contains(ask.Message, "hub/delete_issue") {
				t.Fatalf("asked %+v", ask)
			}
			out := s.Resume(t.Context(), ask.Ticket, tt.reply, Request{})
			switch tt.code {
			case "deferred":
				if got := decode(t, out); !strings.HasPrefix(got.text(), "deferred [deferred]: ") || got.Meta["mcp-gate/ticket"] == nil || len(r.caller.calls()) != 0 {
					t.Errorf("got %s", out.Result)
				}
			case "":
				if got := r.caller.calls(); len(got) != 1 || got[0] != `hub {"name":"delete_issue","arguments":{"n":1}}` {
					t.Errorf("sent %v", got)
				}
			default:
				r.refusedAs(t, out, tt.code)
			}
			if again := through(t, s, "hub/delete_issue", `{"n":2}`); (again.Ask != nil) != tt.again {
				t.Errorf("afterwards a question gives %+v", again)
			}
		})
	}
}

// Who called through call_tool was given no output schema, before a question and
// after it: a stub is an ordinary result.
func TestAStubIsNoErrorBehindAQuestion(t *testing.T) {
	r := newRig(t, nil)
	r.gate.Offer("hub", raws(append([]string{`{"name":"drop_issue","description":"Delete an issue for good","outputSchema":{"type":"object"},"annotations":{"destructiveHint":true}}`}, definitions["hub"]...)))
	s := r.open(t, Identity{})
	ask := through(t, s, "hub/drop_issue", `{"n":1}`).Ask
	if ask == nil {
		t.Fatal("nobody was asked")
	}
	later := s.Resume(t.Context(), ask.Ticket, Reply{Cancelled, "", time.Second}, Request{Name: "call_tool"})
	if got := decode(t, later); got.IsError || !strings.HasPrefix(got.text(), "deferred") {
		t.Errorf("got %s", later.Result)
	}
}

func TestATicketRunsOneCallOfItsPrincipal(t *testing.T) {
	r := newRig(t, nil)
	s, other := r.open(t, Identity{}), r.open(t, Identity{Principal: "other", Scope: policy.ScopeAdmin})
	yes := Reply{Accepted, "allow-once", time.Second}
	ask := through(t, s, "hub/delete_issue", `{"n":1}`).Ask
	r.refusedAs(t, other.Resume(t.Context(), ask.Ticket, yes, Request{}), "stale")
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if out := s.Resume(t.Context(), ask.Ticket, yes, Request{}); decode(t, out).IsError {
				t.Errorf("an answer that came with others gives %s", out.Result)
			}
		})
	}
	wg.Wait()
	if got := r.caller.calls(); len(got) != 1 {
		t.Errorf("16 answers ran %d calls", len(got))
	}
	late := through(t, s, "hub/delete_issue", `{"n":2}`).Ask
	r.later(2 * time.Hour)
	if got := decode(t, s.Resume(t.Context(), late.Ticket, yes, Request{})).text(); !strings.HasPrefix(got, "refused [expired]") {
		t.Errorf("after its end a ticket gives %s", got)
	}
}

func TestAYesDoesNotOutliveWhatItWasGivenFor(t *testing.T) {
	r := newRig(t, nil)
	s := r.open(t, Identity{})
	ask := through(t, s, "hub/delete_issue", `{"n":1}`).Ask
	r.caller.down = errors.New("gone")
	r.refusedAs(t, s.Resume(t.Context(), ask.Ticket, Reply{Accepted, "allow-once", time.Second}, Request{}), "server-down")
	r.caller.down = nil
	ask = through(t, s, "hub/delete_issue", `{"n":1}`).Ask
	r.gate.Offer("hub", raws([]string{strings.Replace(definitions["hub"][2], "for ever", "for ever and ever", 1)}))
	r.refusedAs(t, s.Resume(t.Context(), ask.Ticket, Reply{Accepted, "allow-once", time.Second}, Request{}), "stale")
}

func TestACardWithoutRoomOffersNoYes(t *testing.T) {
	r := newRig(t, nil)
	s := r.open(t, Identity{})
	members := []string{`"n":1`}
	for i := range 2000 {
		members = append(members, fmt.Sprintf(`"key_%04d":"value"`, i))
	}
	ask := through(t, s, "hub/delete_issue", "{"+strings.Join(members, ",")+"}").Ask
	if ask == nil || strings.Contains(string(ask.Schema), "allow") {
		t.Fatalf("a card that shows not everything offers %+v", ask)
	}
	r.refusedAs(t, s.Resume(t.Context(), ask.Ticket, Reply{Accepted, "allow-once", time.Second}, Request{}), "no-answer")
}

func TestNothingRunsUnrecorded(t *testing.T) {
	for _, kind := range []string{audit.Intent, audit.Ask} {
		r := newRig(t, nil)
		s := r.open(t, Identity{})
		r.log.fail = func(e audit.Event) bool { return e.Kind == kind }
		tool := map[string]string{audit.Intent: "hub/get_issue", audit.Ask: "hub/delete_issue"}[kind]
		r.refusedAs(t, through(t, s, tool, `{"n":1}`), "audit")
	}
	r := newRig(t, nil)
	s := r.open(t, Identity{})
	r.log.fail = func(e audit.Event) bool { return e.Kind == audit.Outcome }
	if out := through(t, s, "hub/get_issue", `{}`); out.Error == nil || !strings.Contains(out.Error.Message, "ran, but") {
		t.Errorf("an outcome that was not recorded gives %+v", out)
	}
}

type broken struct{ ran bool }

func (b broken) Error() string    { return "exit status 7" }
func (b broken) MayHaveRun() bool { return b.ran }
func (b broken) Kind() string     { return "lost" }

func TestWhatGoesWrongUpstreamIsNoRefusal(t *testing.T) {
	theirs := jsonrpc.ParseError(json.RawMessage(`{"code":-32042,"message":"m","data":{"n":9007199254740993}}`))
	tests := []struct {
		name    string
		err     error
		code    int64
		holds   string
		outcome string
	}{
		{"the server's own error passes as it came", theirs, -32042, "9007199254740993", audit.ToolError},
		{"lost on the way", broken{true}, CodeUpstream, `"executed":"unknown"`, audit.Unknown},
		{"never sent", broken{false}, CodeUpstream, `"executed":false`, audit.Error},
		{"anything else may have run", errors.New("odd"), CodeUpstream, `"executed":"unknown"`, audit.Unknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, nil)
			r.caller.answer = func(string, json.RawMessage) (json.RawMessage, error) { return nil, tt.err }
			out := through(t, r.open(t, Identity{}), "hub/get_issue", `{}`)
			if out.Error == nil || out.Error.Code != tt.code || !strings.Contains(string(out.Error.Raw()), tt.holds) {
				t.Fatalf("got %+v", out)
			}
			last := r.log.events[len(r.log.events)-1]
			if last.Kind != audit.Outcome || last.Outcome != tt.outcome {
				t.Errorf("audit ends with %+v", last)
			}
		})
	}
}

func TestOnlyTheGateSpeaksForTheGate(t *testing.T) {
	r := newRig(t, nil)
	for _, key := range []string{"mcp-gate/refusal", "MCP-Gate/ticket", `mcp\u002dgate/x`} {
		r.caller.answer = func(string, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`{"_meta":{"a":1,"` + key + `":{}},"content":[]}`), nil
		}
		if out := through(t, r.open(t, Identity{}), "hub/get_issue", `{}`); string(out.Result) != `{"_meta":{"a":1},"content":[]}` {
			t.Errorf("%s: got %s", key, out.Result)
		}
		for sent, want := range map[string]string{
			`{"code": -5, "message":"a\u0062", "data":{"n":1.50,"` + key + `":{"code":"declined"}}}`: `{"code": -5, "message":"a\u0062", "data":{"n":1.50}}`,
			`{"code":-5,"message":"x","data":{"_meta":{"` + key + `":1,"a": 1}}}`:                    `{"code":-5,"message":"x","data":{"_meta":{"a": 1}}}`,
			`{"code":-5,"message":"x","_meta":{"` + key + `":1},"` + key + `":2}`:                    `{"code":-5,"message":"x","_meta":{}}`,
			`{"code":-5 ,"message":"x","data":["` + key + `"]}`:                                      `{"code":-5 ,"message":"x","data":["` + key + `"]}`,
		} {
			r.caller.answer = func(string, json.RawMessage) (json.RawMessage, error) {
				return nil, jsonrpc.ParseError(json.RawMessage(sent))
			}
			if out := through(t, r.open(t, Identity{}), "hub/get_issue", `{}`); out.Error == nil || string(out.Error.Raw()) != want {
				t.Errorf("%s: got %+v", sent, out)
			}
		}
	}
	params := json.RawMessage(`{"_meta":{"mcp-gate/refusal":{}},"progress":1}`)
	s := r.open(t, Identity{})
	entry, _ := s.tool(catalog.ToolID{Server: "hub", Tool: "get_issue"})
	if got := string(s.passing(&call{entry: entry}, params)); got != `{"_meta":{},"progress":1}` {
		t.Errorf("progress passes as %s", got)
	}
}

func TestAHiddenToolDoesNotExist(t *testing.T) {
	r := newRig(t, rules(policy.Record{Do: "hide", Tools: policy.Words{"mail/*"}}))
	s := r.open(t, Identity{})
	outs := map[string]Outcome{
		"find":      s.Call(t.Context(), Request{Name: "find_tools", Args: json.RawMessage(`{"query":"mail get send"}`)}),
		"load":      s.Call(t.Context(), Request{Name: "load_tool", Args: json.RawMessage(`{"names":["mail/send_mail","get_issue","mail/get_mial"]}`)}),
		"call":      through(t, s, "mail/send_mail", `{}`),
		"ambiguous": through(t, s, "get_issue", `{}`),
		"near":      through(t, s, "mail/get_mial", `{}`),
	}
	for name, out := range outs {
		text := strings.NewReplacer(`"mail/send_mail"`, "", `"mail/get_mial"`, "", "no tool mail/send_mail.", "", "no tool mail/get_mial.", "").Replace(decode(t, out).text())
		if strings.Contains(text, "mail/") {
			t.Errorf("%s tells of a hidden tool: %s", name, text)
		}
	}
	if unknown := decode(t, through(t, s, "mail/nothing", `{}`)); len(unknown.text()) == 0 ||
		strings.ReplaceAll(decode(t, outs["call"]).text(), "send_mail", "nothing") != unknown.text() {
		t.Errorf("a hidden tool is refused otherwise than one that is not there:\n%s%s", decode(t, outs["call"]).text(), unknown.text())
	}
}

func TestCallToolReadOnlyReads(t *testing.T) {
	r := newRig(t, nil)
	s := r.open(t, Identity{})
	read := func(tool string) Outcome {
		return s.Call(t.Context(), Request{Name: "call_tool_read", Args: json.RawMessage(`{"name":"` + tool + `","arguments":{"title":"t"}}`), CanAsk: true})
	}
	r.refusedAs(t, read("hub/create_issue"), "arguments")
	r.refusedAs(t, read("hub/delete_issue"), "arguments")
	if out := read("hub/get_issue"); out.Result == nil || len(r.caller.calls()) != 1 {
		t.Errorf("a reading tool gives %+v", out)
	}
}

func TestMetaToolsSayTheRightShape(t *testing.T) {
	r := newRig(t, nil)
	s := r.open(t, Identity{})
	for _, req := range []Request{
		{Name: "call_tool"}, {Name: "call_tool", Args: json.RawMessage(`{"tool":"x"}`)}, {Name: "call_tool", Args: json.RawMessage(`{"name":1}`)},
		{Name: "call_tool", Args: json.RawMessage(`{"name":"hub/get_issue","arguments":[]}`)},
		{Name: "call_tool_read", Args: json.RawMessage(`{"name":"hub/get_issue","arguments":"{}"}`)},
		{Name: "find_tools"}, {Name: "find_tools", Args: json.RawMessage(`{"query":" "}`)}, {Name: "find_tools", Args: json.RawMessage(`{"query":"x","cursor":"-1"}`)},
		{Name: "load_tool", Args: json.RawMessage(`{"names":[]}`)}, {Name: "load_tool", Args: json.RawMessage(`{"names":"hub/get_issue"}`)},
		{Name: "engage", Args: json.RawMessage(`{"act":"fly"}`)}, {Name: "engage", Args: json.RawMessage(`{"permission":"destructive"}`)},
	} {
		r.refusedAs(t, s.Call(t.Context(), req), "arguments")
	}
	if out := s.Call(t.Context(), Request{Name: "no_such"}); out.Error == nil || out.Error.Code != jsonrpc.CodeInvalidParams {
		t.Errorf("an unknown top-level tool gives %+v", out)
	}
	if out := s.Call(t.Context(), Request{Name: "hub_get_issue"}); out.Error == nil {
		t.Error("meta exposure calls by a direct name")
	}
}

func TestLoadToolGivesTheVeryBytes(t *testing.T) {
	r := newRig(t, nil)
	out := r.open(t, Identity{}).Call(t.Context(), Request{Name: "load_tool", Args: json.RawMessage(`{"names":["hub/get_issue","nobody/nothing","hub/delete_issue"]}`), CanAsk: true})
	got := decode(t, out)
	if got.IsError || len(got.Content) != 3 {
		t.Fatalf("got %s", out.Result)
	}
	if want := "hub/get_issue | read | gives row_level | a call runs at once | use call_tool_read\n" + definitions["hub"][0]; got.Content[0].Text != want {
		t.Errorf("got  %s\nwant %s", got.Content[0].Text, want)
	}
	if !strings.HasPrefix(got.Content[1].Text, "refused [unknown]: ") || !strings.Contains(got.Content[2].Text, "waits for a person's yes") {
		t.Errorf("got %s", out.Result)
	}
}

func TestFindToolsStaysSmallAndPagesOverAll(t *testing.T) {
	r := newRig(t, nil)
	var many []string
	for i := range 300 {
		many = append(many, fmt.Sprintf(`{"name":"get_thing_%03d","description":"Get a thing %s"}`, i, strings.Repeat("of great length ", 20)))
	}
	r.gate.Offer("hub", raws(many))
	s := r.open(t, Identity{})
	seen := map[string]bool{}
	cursor := ""
	for pages := 0; ; pages++ {
		out := s.Call(t.Context(), Request{Name: "find_tools", Args: json.RawMessage(fmt.Sprintf(`{"query":"thing","limit":50,"cursor":%q}`, cursor))})
		if len(out.Result) > 5<<10 {
			t.Fatalf("an answer of %d bytes", len(out.Result))
		}
		var page struct {
			Tools []struct{ ID string }
			Scope string
			Next  string `json:"next_cursor"`
			Total int
		}
		if err := json.Unmarshal(decode(t, out).StructuredContent, &page); err != nil || page.Total != 300 || page.Scope != "can_analyze" {
			t.Fatalf("got %s: %v", out.Result, err)
		}
		for _, tool := range page.Tools {
			if seen[tool.ID] {
				t.Fatalf("%s is there twice", tool.ID)
			}
			seen[tool.ID] = true
		}
		if cursor = page.Next; cursor == "" || pages > 300 {
			break
		}
	}
	if len(seen) != 300 {
		t.Errorf("%d of 300 tools were found", len(seen))
	}
}

func TestScopeStates(t *testing.T) {
	r := newRig(t, rules(policy.Record{Do: "deny", Tools: policy.Words{"mail/send_mail"}}))
	s := r.open(t, Identity{})
	for query, want := range map[string]string{
		"create issue": "can_execute", "mail/get_mail": "can_analyze", "send": "can_recommend", "zebra": "outside_domain",
	} {
		out := s.Call(t.Context(), Request{Name: "find_tools", Args: json.RawMessage(fmt.Sprintf(`{"query":%q,"limit":1}`, query))})
		if got := decode(t, out).text(); !strings.Contains(got, want+": ") {
			t.Errorf("%q gives %s, want %s", query, got, want)
		}
	}
}

func TestListsDependOnDefinitionsAlone(t *testing.T) {
	var lists []string
	for i := range 20 {
		r := newRig(t, func(o *Options) {
			o.Profiles[""] = Profile{Exposure: Direct, Authority: engagement.DefaultAuthority()}
		})
		order := []string{"hub", "mail"}
		if i%2 == 1 {
			slices.Reverse(order)
		}
		for _, server := range order {
			list := slices.Clone(definitions[server])
			rand.New(rand.NewPCG(uint64(i), 0)).Shuffle(len(list), func(a, b int) { list[a], list[b] = list[b], list[a] })
			r.gate.Offer(server, raws(list))
		}
		s := r.open(t, Identity{})
		list, err := s.ListTools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r.gate.Offer("hub", nil) // what comes later does not move a list that was given
		again, _ := s.ListTools(t.Context())
		lists = append(lists, string(list), string(again))
	}
	for _, l := range lists {
		if l != lists[0] {
			t.Fatalf("two lists:\n%s\n%s", lists[0], l)
		}
	}
	for _, want := range []string{`"name":"hub_get_issue"`, `"x-vendor" : 1e400`, `"name":"find_tools"`} {
		if !strings.Contains(lists[0], want) {
			t.Errorf("%s is not in the list", want)
		}
	}
}

func TestMetaListIsConstantAndSmall(t *testing.T) {
	a, _ := newRig(t, nil).open(t, Identity{}).ListTools(t.Context())
	empty := newRig(t, nil)
	empty.gate.Offer("hub", nil)
	empty.gate.Offer("mail", nil)
	b, _ := empty.open(t, Identity{}).ListTools(t.Context())
	if string(a) != string(b) {
		t.Error("the meta list moves with the tools")
	}
	if n := catalog.EstimateTokens(a); n >= 1500 {
		t.Errorf("the meta list has about %d tokens in %d bytes", n, len(a))
	}
	var tools []struct {
		Name, Description string
		InputSchema       struct{ Type string }
		Annotations       map[string]bool
		Meta              map[string]bool `json:"_meta"`
	}
	if err := json.Unmarshal(a, &tools); err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools {
		if len(tool.Annotations) != 4 || tool.InputSchema.Type != "object" || len(tool.Description) > 2048 || !tool.Meta["anthropic/alwaysLoad"] {
			t.Errorf("%s: %+v", tool.Name, tool)
		}
	}
}

func TestTransparentShowsOneServerAsItIs(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Profiles[""] = Profile{Exposure: Transparent, Servers: []string{"hub"}, Authority: engagement.DefaultAuthority()}
	})
	r.caller.about = About{Info: json.RawMessage(`{"name":"their own","x":1}`), Instructions: "read me"}
	s := r.open(t, Identity{})
	list, _ := s.ListTools(t.Context())
	hub := definitions["hub"] // listed by name
	if want := "[" + strings.Join([]string{hub[1], hub[2], hub[0]}, ",") + "]"; string(list) != want {
		t.Errorf("list %s\nwant %s", list, want)
	}
	if s.Instructions() != "read me" || string(s.ServerInfo()) != `{"name":"their own","x":1}` {
		t.Errorf("instructions %q, info %s", s.Instructions(), s.ServerInfo())
	}
	s.Call(t.Context(), Request{Name: "get_issue"})
	if got := r.caller.calls(); len(got) != 1 || got[0] != `hub {"name":"get_issue"}` {
		t.Errorf("sent %v", got)
	}
	if out := s.Call(t.Context(), Request{Name: "find_tools"}); out.Error == nil {
		t.Error("a meta tool answers in transparent exposure")
	}
	out := s.Call(t.Context(), Request{Name: "get_isue"})
	if out.Error == nil || !strings.Contains(out.Error.Message, "get_issue") || strings.Contains(out.Error.Message, "find_tools") {
		t.Errorf("an unknown tool is answered with %+v", out)
	}
	if _, err := New(Options{Settings: Settings{Servers: []Server{{Alias: "a"}, {Alias: "b"}}, Profiles: map[string]Profile{"": {Exposure: Transparent}}}}); err == nil {
		t.Error("transparent takes two servers")
	}
}

func TestAnEarlyListIsFollowedByOneNotice(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.FirstList = time.Nanosecond
		o.Profiles[""] = Profile{Exposure: Direct, Authority: engagement.DefaultAuthority()}
	})
	r.caller.ready = make(chan struct{})
	s := r.open(t, Identity{})
	delete(r.gate.offered, "mail")
	r.gate.renew()
	early, _ := s.ListTools(t.Context())
	done := make(chan error)
	go func() { done <- r.gate.Run(t.Context()) }()
	r.gate.Offer("mail", raws(definitions["mail"]))
	close(r.caller.ready)
	<-s.Changed()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	whole, _ := s.ListTools(t.Context())
	if string(early) == string(whole) || !strings.Contains(string(whole), "mail_send_mail") {
		t.Errorf("after the notice the list is %s", whole)
	}
}

func TestAServerThatListsItsToolsLateIsFollowedByOneNotice(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Profiles[""] = Profile{Exposure: Direct, Authority: engagement.DefaultAuthority()}
	})
	r.gate.Offer("mail", nil)
	s := r.open(t, Identity{})
	early, _ := s.ListTools(t.Context())
	r.gate.Offer("mail", nil)
	select {
	case <-s.Changed():
		t.Fatal("a notice without a change")
	default:
	}
	r.gate.Offer("mail", raws(definitions["mail"]))
	<-s.Changed()
	whole, _ := s.ListTools(t.Context())
	if strings.Contains(string(early), "mail_send_mail") || !strings.Contains(string(whole), "mail_send_mail") {
		t.Errorf("first the list is %s\nand then %s", early, whole)
	}
	r.gate.Offer("mail", nil)
	r.gate.Offer("mail", raws(definitions["mail"]))
	if again, _ := s.ListTools(t.Context()); string(again) != string(whole) {
		t.Errorf("a list that was given moved: %s", again)
	}
}

func TestSpendIsNeverExceededByCallsSideBySide(t *testing.T) {
	seven := int64(7)
	r := newRig(t, func(o *Options) { o.Spend.Calls = &seven })
	s := r.open(t, Identity{})
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { through(t, s, "hub/get_issue", `{}`) })
	}
	wg.Wait()
	if got := len(r.caller.calls()); got != 7 {
		t.Errorf("%d calls ran, want 7", got)
	}
	if got := decode(t, through(t, s, "hub/get_issue", `{}`)).text(); !strings.HasPrefix(got, "refused [spend]") {
		t.Errorf("got %s", got)
	}
}

func TestAnEmptyEngageChangesNothing(t *testing.T) {
	s := newRig(t, nil).open(t, Identity{})
	engage := func(args json.RawMessage) string {
		return decode(t, s.Call(t.Context(), Request{Name: "engage", Args: args})).text()
	}
	for range 2 { // before and after it said something
		before := s.Engagement()
		for _, empty := range []json.RawMessage{nil, json.RawMessage(`{}`), json.RawMessage(` { } `)} {
			if got := engage(empty); !strings.HasPrefix(got, "Nothing changed.") || !reflect.DeepEqual(s.Engagement(), before) {
				t.Errorf("engage %q: got %s", empty, got)
			}
		}
		engage(json.RawMessage(`{"act":"operate","domains":["messaging"]}`))
	}
}

func TestTheAgentCanOnlyAddCaution(t *testing.T) {
	r := newRig(t, nil)
	s := r.open(t, Identity{})
	before := s.Engagement().Limits
	out := s.Call(t.Context(), Request{Name: "engage", Args: json.RawMessage(`{"act":"operate","stakes":"irreversible","domains":["messaging"]}`)})
	if got := decode(t, out); got.IsError || !strings.Contains(got.text(), "irreversible") {
		t.Fatalf("got %s", out.Result)
	}
	after := s.Engagement().Limits
	before.RequiredDomains, after.RequiredDomains = engagement.Required{}, engagement.Required{}
	if !after.IsAtMost(before) {
		t.Errorf("engage widened %+v to %+v", before, after)
	}
	if out := through(t, s, "hub/create_issue", `{"title":"t"}`); out.Ask == nil {
		t.Errorf("with irreversible stakes a write gives %+v", out)
	}
	if s.Prompt(engagement.NeutralReading()) {
		t.Error("a prompt without confidence is in force")
	}
}

func TestAToolThatIsNoneCostsTheOthersNothing(t *testing.T) {
	r := newRig(t, nil)
	r.gate.Offer("hub", raws([]string{`null`, `{"description":"no name"}`, `{"name":"a","name":"b"}`, `{"name":"get_good"}`, `[]`}))
	if _, ok := r.gate.Tools().ByID(catalog.ToolID{Server: "hub", Tool: "get_good"}); !ok || len(r.gate.Tools().Entries()) != 4 {
		t.Errorf("known are %v", r.gate.Tools().Entries())
	}
}

// One definition that clients cannot read costs the others nothing: it is left
// out of the list, and called by call_tool.
func TestAListIsOneThatClientsCanRead(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Profiles[""] = Profile{Exposure: Direct, Servers: []string{"hub"}, Authority: engagement.DefaultAuthority()}
	})
	r.gate.Offer("hub", raws([]string{
		`{"name":"get_good","inputSchema":{"type":"object"}}`, `{"name":"get_none"}`, `{"name":"get_text","inputSchema":"object"}`,
		`{"name":"get_ref","inputSchema":{"type":"object","properties":{"a":{"$ref":"#/$defs/gone"}}}}`, `{"name":"get_int","inputSchema":{"type":"object","properties":{"a":{"type":"int"}}}}`,
		`{"name":"get_draft","inputSchema":{"$schema":"draft-99","type":"object"}}`, `{"name":"get_null","inputSchema":{"type":"object"},"description":null}`,
	}))
	s := r.open(t, Identity{})
	list, err := s.ListTools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, listed := range map[string]bool{"good": true, "none": false, "text": false, "ref": false, "int": false, "draft": true, "null": false} {
		if strings.Contains(string(list), `"hub_get_`+name+`"`) != listed {
			t.Errorf("%s: want it listed %v", name, listed)
		}
		if out := s.Call(t.Context(), Request{Name: "call_tool", Args: json.RawMessage(`{"name":"hub/get_` + name + `","arguments":{}}`)}); out.Result == nil || decode(t, out).IsError {
			t.Errorf("%s: a call gives %+v", name, out)
		}
	}
}

func TestACallWaitsForAServerThatStarts(t *testing.T) {
	r := newRig(t, nil)
	delete(r.gate.offered, "hub")
	r.gate.Offer("mail", nil)
	r.caller.ready = make(chan struct{})
	s := r.open(t, Identity{})
	done := make(chan Outcome)
	go func() { done <- through(t, s, "hub/get_issue", `{}`) }()
	r.gate.Offer("hub", raws(definitions["hub"]))
	close(r.caller.ready)
	if out := <-done; out.Result == nil || len(r.caller.calls()) != 1 {
		t.Errorf("got %+v", out)
	}
}

func TestTheFallbackKeepsTheQuestion(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Fallback = engagement.FallbackDefer })
	s := r.open(t, Identity{})
	ask := through(t, s, "hub/delete_issue", `{"n":1}`).Ask
	out := s.Resume(t.Context(), ask.Ticket, Reply{Action: NoAnswer}, Request{})
	if got := decode(t, out); got.IsError || got.Meta["mcp-gate/ticket"] == nil {
		t.Fatalf("silence gives %s", out.Result)
	}
	again := through(t, s, "hub/delete_issue", `{"n":1}`).Ask
	if again == nil || again.Ticket != ask.Ticket {
		t.Fatalf("the same call asks anew: %+v", again)
	}
	check := func() string {
		return decode(t, s.Call(t.Context(), Request{Name: "check_deferred", Args: json.RawMessage(`{"ticket":"` + ask.Ticket + `"}`)})).text()
	}
	if got := check(); !strings.Contains(got, "pending") {
		t.Errorf("check_deferred gives %s", got)
	}
	if _, err := inbox.NewForms(r.opts).Answer(t.Context(), ask.Ticket, inbox.AnswerOnce); err != nil {
		t.Fatal(err)
	}
	<-again.Decided // its watcher saw it
	r.gate.RunAllowed(t.Context())
	if got := r.caller.calls(); len(got) != 1 {
		t.Fatalf("after a late yes %v was sent", got)
	}
	r.gate.RunAllowed(t.Context())
	if got := check(); strings.Contains(got, "pending") || len(r.caller.calls()) != 1 {
		t.Errorf("then check_deferred gives %s, and %v was sent", got, r.caller.calls())
	}
}

func TestAResultThatNobodyGotIsGivenOnce(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Fallback = engagement.FallbackDefer })
	r.caller.answer = func(string, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(`{"content":[{"type":"text","text":"gone for ever"}]}`), nil
	}
	s := r.open(t, Identity{})
	ask := through(t, s, "hub/delete_issue", `{"n":1}`).Ask
	s.Resume(t.Context(), ask.Ticket, Reply{Action: NoAnswer}, Request{})
	if _, err := inbox.NewForms(r.opts).Answer(t.Context(), ask.Ticket, inbox.AnswerOnce); err != nil {
		t.Fatal(err)
	}
	r.gate.RunAllowed(t.Context())
	got := decode(t, through(t, s, "hub/delete_issue", `{"n":1}`))
	if !strings.Contains(got.text(), "gone for ever") || got.Meta["mcp-gate/ticket"] == nil || len(r.caller.calls()) != 1 {
		t.Errorf("the repeated call gives %s", got.text())
	}
	if out := through(t, s, "hub/delete_issue", `{"n":1}`); out.Ask == nil {
		t.Errorf("the third one gives %+v", out)
	}
}

func TestAnotherGateRunsWhatADeadOneLeft(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Fallback = engagement.FallbackDefer })
	s := r.open(t, Identity{})
	ask := through(t, s, "hub/delete_issue", `{"n":1}`).Ask
	s.Resume(t.Context(), ask.Ticket, Reply{Action: NoAnswer}, Request{})
	if _, err := inbox.NewForms(r.opts).Answer(t.Context(), ask.Ticket, inbox.AnswerOnce); err != nil {
		t.Fatal(err)
	}
	for runs, launch := range []string{"another-launch", "hub-launch"} {
		o := r.opts
		o.Process = store.Self()
		o.Life = func(inbox.Process) inbox.Life { return inbox.Dead } // the first gate
		box, err := inbox.New(o)
		if err != nil {
			t.Fatal(err)
		}
		options := r.first
		options.Inbox = box
		options.Servers = slices.Clone(options.Servers)
		options.Servers[0].Launch = launch
		second, err := New(options)
		if err != nil {
			t.Fatal(err)
		}
		second.Offer("hub", raws(definitions["hub"]))
		before := len(r.caller.calls())
		second.RunAllowed(t.Context())
		if got := len(r.caller.calls()) - before; got != runs {
			t.Errorf("a gate that starts the server by %s ran %d calls, want %d", launch, got, runs)
		}
		again, err := second.Open(t.Context(), Identity{Principal: s.Principal(), Scope: policy.ScopeAdmin})
		if err != nil {
			t.Fatal(err)
		}
		said := decode(t, through(t, again, "hub/delete_issue", `{"n":1}`)).text()
		if strings.Contains(said, "a person runs it with mcp-gate inbox run") != (runs == 0) {
			t.Errorf("whoever asks a gate that starts the server by %s again is told: %s", launch, said)
		}
	}
}

func TestForThisSessionHoldsForTheseArguments(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Profiles[""] = Profile{Authority: engagement.DefaultAuthority(), Reading: &engagement.Reading{Act: engagement.ActOperate, Horizon: engagement.HorizonTurn,
			Stakes: engagement.StakesCostly, Evidence: engagement.EvidenceNone, Clarity: engagement.ClarityClear, Attendance: engagement.AttendanceInteractive}}
	})
	r.gate.ruling().servers["hub"].Owner = func(string) catalog.Override {
		return catalog.Override{Permission: engagement.SourceFileWrite, Egress: engagement.Metadata, From: "a test"}
	}
	r.gate.Offer("hub", raws(definitions["hub"]))
	s := r.open(t, Identity{})
	ask := through(t, s, "hub/create_issue", `{"title":"t"}`).Ask
	if ask == nil || !strings.Contains(string(ask.Schema), "allow-session") {
		t.Fatalf("asked %+v", ask)
	}
	s.Resume(t.Context(), ask.Ticket, Reply{Accepted, "allow-session", time.Second}, Request{})
	if out := through(t, s, "hub/create_issue", `{"title":"t"}`); out.Ask != nil || decode(t, out).IsError {
		t.Errorf("the same call again gives %+v", out)
	}
	if out := through(t, s, "hub/create_issue", `{"title":"other"}`); out.Ask == nil {
		t.Errorf("other arguments give %+v", out)
	}
	if out := through(t, r.open(t, Identity{}), "hub/create_issue", `{"title":"t"}`); out.Ask == nil {
		t.Errorf("another session gives %+v", out)
	}
	if got := len(r.caller.calls()); got != 2 {
		t.Errorf("%d calls ran, want 2", got)
	}
}

func TestForThisSessionIsOfferedOnlyWhereItHolds(t *testing.T) {
	reading := func(edit func(*engagement.Reading)) Profile {
		r := engagement.Reading{Act: engagement.ActOperate, Horizon: engagement.HorizonTurn, Stakes: engagement.StakesCostly,
			Evidence: engagement.EvidenceNone, Clarity: engagement.ClarityClear, Attendance: engagement.AttendanceInteractive}
		edit(&r)
		return Profile{Authority: engagement.DefaultAuthority(), Reading: &r}
	}
	manual := reading(func(*engagement.Reading) {})
	manual.Authority.Autonomy = engagement.AutonomyManual
	asks, err := policy.Compile([]policy.Record{{Do: "ask", Tools: policy.Words{"hub/*"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		profile Profile
		rules   *policy.Rules
		want    bool
	}{
		{"costly work that was delegated", reading(func(*engagement.Reading) {}), nil, true},
		{"work that cannot be put back", reading(func(r *engagement.Reading) { r.Stakes = engagement.StakesIrreversible }), nil, false},
		{"manual autonomy", manual, nil, false},
		{"a rule that asks", reading(func(*engagement.Reading) {}), asks, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, func(o *Options) {
				o.Profiles[""] = c.profile
				if c.rules != nil {
					o.Rules = c.rules
				}
				for i := range o.Servers {
					o.Servers[i].Owner = func(string) catalog.Override {
						return catalog.Override{Permission: engagement.SourceFileWrite, Egress: engagement.Metadata, From: "a test"}
					}
				}
			})
			s := r.open(t, Identity{})
			ask := through(t, s, "hub/create_issue", `{"title":"t"}`).Ask
			if ask == nil || strings.Contains(string(ask.Schema), "allow-session") != c.want {
				t.Fatalf("asked %+v, want a yes for the session: %t", ask, c.want)
			}
			if out := s.Resume(t.Context(), ask.Ticket, Reply{Accepted, "allow-session", time.Second}, Request{}); decode(t, out).IsError {
				t.Fatalf("the answer gives %+v", out)
			}
			out := through(t, s, "hub/create_issue", `{"title":"t"}`)
			if asked := out.Ask != nil; asked == c.want {
				t.Errorf("the same call again gives %+v", out)
			}
		})
	}
}

func TestACrashLeavesAnUnknownThatNobodyRepeats(t *testing.T) {
	r := newRig(t, nil)
	r.caller.answer = func(string, json.RawMessage) (json.RawMessage, error) { return nil, broken{true} }
	s := r.open(t, Identity{})
	ask := through(t, s, "hub/delete_issue", `{"n":1}`).Ask
	out := s.Resume(t.Context(), ask.Ticket, Reply{Accepted, "allow-once", time.Second}, Request{})
	if out.Error == nil || !strings.Contains(string(out.Error.Data), `"unknown"`) {
		t.Fatalf("got %+v", out)
	}
	if got := decode(t, through(t, s, "hub/delete_issue", `{"n":1}`)).text(); !strings.HasPrefix(got, "refused [unsettled]") || len(r.caller.calls()) != 1 {
		t.Errorf("the same call again gives %s", got)
	}
}

// reviewing is a rig whose hub writes files for real, in review mode.
func reviewing(t *testing.T, edit func(*Options)) (*rig, *Session, string) {
	t.Helper()
	root := t.TempDir()
	r := newRig(t, func(o *Options) {
		keeper, err := checkpoint.Open(t.TempDir(), []string{root})
		if err != nil {
			t.Fatal(err)
		}
		o.Keeper = keeper
		o.Servers[0].Policy.AllowSourceWrites = true
		o.Profiles[""] = Profile{Authority: engagement.Authority{Autonomy: engagement.AutonomyAutonomous, Attendance: engagement.AttendanceInteractive},
			Reading: &engagement.Reading{Act: engagement.ActModify, Horizon: engagement.HorizonTurn, Stakes: engagement.StakesReversible,
				Evidence: engagement.EvidenceNone, Clarity: engagement.ClarityClear, Attendance: engagement.AttendanceInteractive}}
		o.Least = nil
		if edit != nil {
			edit(o)
		}
	})
	r.gate.opts.Journal = r.store
	r.caller.answer = func(_ string, params json.RawMessage) (json.RawMessage, error) {
		var p struct{ Arguments struct{ Path, Text string } }
		if err := json.Unmarshal(params, &p); err != nil {
			return nil, err
		}
		if p.Arguments.Path == "" {
			return json.RawMessage(`{"content":[],"structuredContent":{"number":7}}`), nil
		}
		return json.RawMessage(`{"content":[]}`), os.WriteFile(p.Arguments.Path, []byte(p.Arguments.Text), 0o600)
	}
	r.gate.Offer("hub", raws([]string{
		`{"name":"save_file","inputSchema":{"type":"object","properties":{"path":{"type":"string"},"text":{"type":"string"}}}}`,
		definitions["hub"][1],
	}))
	hub := r.gate.ruling().servers["hub"]
	*hub = withClass(*hub, "save_file", engagement.SourceFileWrite)
	r.gate.Offer("hub", raws([]string{
		`{"name":"save_file","inputSchema":{"type":"object","properties":{"path":{"type":"string"},"text":{"type":"string"}}}}`,
		definitions["hub"][1],
	}))
	return r, r.open(t, Identity{}), root
}

func withClass(s Server, tool string, class engagement.Permission) Server {
	s.Owner = func(name string) catalog.Override {
		if name != tool {
			return catalog.Override{}
		}
		return catalog.Override{Permission: class, Egress: engagement.Metadata, From: "a test"}
	}
	return s
}

// entries are the journal's, oldest first.
func (r *rig) entries(t *testing.T) []checkpoint.Entry {
	t.Helper()
	all, err := r.store.Entries(t.Context(), "", "", 10)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(all)
	return all
}

func TestReviewActsShowsAndPutsBack(t *testing.T) {
	r, s, root := reviewing(t, nil)
	path := filepath.Join(root, "a.txt")
	write := func(text string) Outcome {
		return through(t, s, "hub/save_file", fmt.Sprintf(`{"path":%q,"text":%q}`, path, text))
	}
	if out := write("one\n"); out.Ask != nil || decode(t, out).IsError {
		t.Fatalf("in review a write gives %+v", out)
	}
	r.later(time.Second)
	write("one\ntwo\n")
	journal := r.entries(t)
	if len(journal) != 2 || len(journal[1].Changes) != 1 || !strings.Contains(journal[1].Changes[0].Diff, "+two") {
		t.Fatalf("the journal has %+v", journal)
	}
	if _, err := s.Undo(t.Context(), journal[0].ID, true); err == nil {
		t.Error("an entry is undone though a later call changed the file")
	}
	if _, err := s.Undo(t.Context(), journal[1].ID, true); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); string(got) != "one\n" {
		t.Errorf("after the undo the file holds %q", got)
	}
	if _, err := s.Undo(t.Context(), journal[1].ID, true); err == nil {
		t.Error("an entry is undone twice")
	}
	if _, err := s.Undo(t.Context(), journal[0].ID, true); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file that was not there before is there: %v", err)
	}
}

func TestReviewNeedsAWayBack(t *testing.T) {
	for name, tt := range map[string]struct {
		path func(root string) string
		edit func(*Options)
	}{
		"a file outside the roots":  {func(root string) string { return filepath.Join(root, "..", "outside.txt") }, nil},
		"a link in the way":         {func(root string) string { return filepath.Join(root, "link", "a.txt") }, nil},
		"no flag for source writes": {func(root string) string { return filepath.Join(root, "a.txt") }, func(o *Options) { o.Servers[0].Policy.AllowSourceWrites = false }},
		"a rule asks":               {func(root string) string { return filepath.Join(root, "a.txt") }, rules(policy.Record{Do: "ask", Tools: policy.Words{"hub/save_file"}})},
	} {
		t.Run(name, func(t *testing.T) {
			r, s, root := reviewing(t, func(o *Options) {
				o.Spend.Calls = new(int64(5))
				if tt.edit != nil {
					tt.edit(o)
				}
			})
			if err := os.Symlink(t.TempDir(), filepath.Join(root, "link")); err != nil {
				t.Fatal(err)
			}
			out := through(t, s, "hub/save_file", fmt.Sprintf(`{"path":%q,"text":"x"}`, tt.path(root)))
			if out.Ask == nil || len(r.caller.calls()) != 0 {
				t.Fatalf("got %+v, want a question", out)
			}
			ticket := out.Ask.Ticket
			out = s.Resume(t.Context(), ticket, Reply{Accepted, "allow-once", time.Second}, Request{})
			if out.Result == nil || decode(t, out).IsError || len(r.caller.calls()) != 1 {
				t.Errorf("after a yes: %+v, and %d calls", out, len(r.caller.calls()))
			}
			if calls, _, err := r.store.Spent(t.Context(), s.spendAccount()); err != nil || calls != 1 {
				t.Errorf("%d calls were charged, %v", calls, err)
			}
			if now, err := r.store.Ticket(t.Context(), ticket); err != nil || now.State != inbox.Done {
				t.Errorf("the ticket is %v, %v", now.State, err)
			}
		})
	}
}

// An allowed call that something stops behind its claim ends its ticket, and
// leaves no promise of a way back.
func TestWhatStopsAClaimedCallEndsItsTicket(t *testing.T) {
	r, s, root := reviewing(t, func(o *Options) {
		o.Servers[0].Policy.AllowSourceWrites = false
		o.Spend.Calls = new(int64(1))
	})
	out := through(t, s, "hub/save_file", fmt.Sprintf(`{"path":%q,"text":"x"}`, filepath.Join(root, "a.txt")))
	if out.Ask == nil {
		t.Fatalf("got %+v, want a question", out)
	}
	// The last call is spent between the judgement and the charge.
	r.gate.opts.Sessions = spentMeanwhile{r.gate.opts.Sessions}
	r.refusedAs(t, s.Resume(t.Context(), out.Ask.Ticket, Reply{Accepted, "allow-once", time.Second}, Request{}), "spend")
	if now, err := r.store.Ticket(t.Context(), out.Ask.Ticket); err != nil || now.State != inbox.Failed || len(r.caller.calls()) != 0 {
		t.Errorf("the ticket is %v, %v, and %d calls ran", now.State, err, len(r.caller.calls()))
	}
	if journal := r.entries(t); len(journal) != 1 || journal[0].State != checkpoint.EntryVoid {
		t.Errorf("the journal has %+v", journal)
	}
}

// spentMeanwhile is an account that somebody else empties just before a charge.
type spentMeanwhile struct{ Sessions }

func (s spentMeanwhile) ChargeCall(ctx context.Context, account string, limit engagement.Spend) (bool, error) {
	for {
		if charged, err := s.Sessions.ChargeCall(ctx, account, limit); err != nil || !charged {
			return charged, err
		}
	}
}

// A grant is spent once, though a copy that was owed could not be taken and the
// call goes on without a way back, as a person's yes to it would let it.
func TestAGrantIsSpentOnceWhereNoCopyCanBeTaken(t *testing.T) {
	r, s, root := reviewing(t, func(o *Options) { o.Servers[0].Policy.AllowSourceWrites = false })
	if err := os.Symlink(t.TempDir(), filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "link", "a.txt") // inside the roots by its name, and no link is followed
	save, _ := s.set().ByID(catalog.ToolID{Server: "hub", Tool: "save_file"})
	key, approver, err := inbox.NewApproverKey(r.ring.Dir(), "a person", []byte("correct horse"), crand.Reader, r.clock())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.ring.Enroll(approver, key, r.clock()); err != nil {
		t.Fatal(err)
	}
	g, err := inbox.NewDesk(r.opts).AddGrant(t.Context(), inbox.Terms{
		Tools: []string{"hub/save_file"}, Principal: "local", Class: engagement.SourceFileWrite, Calls: 2, Until: r.clock().Add(time.Hour),
		Definitions: map[string]string{"hub/save_file": inbox.Pin("hub-id", save.Digest)},
	}, inbox.L1, inbox.Terminal, key, inbox.L0)
	if err != nil {
		t.Fatal(err)
	}
	for calls := 1; calls <= 3; calls++ {
		out := through(t, s, "hub/save_file", fmt.Sprintf(`{"path":%q,"text":"%d"}`, path, calls))
		if spent := calls > 2; (out.Ask != nil) != spent || !spent && decode(t, out).IsError {
			t.Fatalf("call %d gives %+v", calls, out)
		}
		ran := min(calls, 2)
		if now, err := r.store.Grant(t.Context(), g.ID); err != nil || now.Used != ran || len(r.caller.calls()) != ran {
			t.Fatalf("after %d calls the grant was used %d times, and %d ran, %v", calls, now.Used, len(r.caller.calls()), err)
		}
	}
	if journal := r.entries(t); len(journal) != 0 {
		t.Errorf("the journal promises a way back: %+v", journal)
	}
	said := 0
	for _, e := range r.log.events {
		if e.Kind == audit.Intent && strings.Contains(e.Note, "no way back") {
			said++
		}
	}
	if said != 2 {
		t.Errorf("%d calls are written down as without a way back, want 2", said)
	}
}

func TestADeclaredInverseTakesACallBack(t *testing.T) {
	r, s, _ := reviewing(t, nil)
	hub := r.gate.ruling().servers["hub"]
	hub.Inverse = func(tool string) *Inverse {
		if tool != "create_issue" {
			return nil
		}
		return &Inverse{Tool: "save_file", Args: json.RawMessage(`{"path":"","n":["$result/structuredContent/number"],"was":"$args/title"}`)}
	}
	if out := through(t, s, "hub/create_issue", `{"title":"t"}`); out.Result == nil || decode(t, out).IsError {
		t.Fatalf("got %+v", out)
	}
	journal := r.entries(t)
	if len(journal) != 1 || string(journal[0].Inverse) != `{"tool":"hub/save_file","args":{"path":"","n":[7],"was":"t"}}` {
		t.Fatalf("the journal has %+v", journal)
	}
	id := journal[0].ID
	undo := func() Outcome {
		t.Helper()
		out, err := s.Undo(t.Context(), id, true)
		if err != nil || out.Ask == nil { // the inverse is a source-file write without a copy: it asks
			t.Fatalf("undo gives %+v, %v", out, err)
		}
		if kept := r.entries(t)[0]; kept.State != checkpoint.EntryKept {
			t.Errorf("before a yes the entry is %v", kept.State)
		}
		if asked, err := r.store.Ticket(t.Context(), out.Ask.Ticket); err != nil || !strings.Contains(asked.View.Render(80), id) {
			t.Errorf("the card does not name the entry: %s, %v", asked.View.Render(80), err)
		}
		return out
	}
	yes := Reply{Accepted, "allow-once", time.Second}

	works := r.caller.answer
	r.caller.answer = func(string, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(`{"content":[],"isError":true}`), nil
	}
	if out := s.Resume(t.Context(), undo().Ask.Ticket, yes, Request{}); !decode(t, out).IsError {
		t.Fatalf("an inverse that fails gives %+v", out)
	}
	first := undo()
	r.caller.answer = works
	r.gate.opts.Audit = twice{r.gate.opts.Audit, func() { // while the first is on its way
		if _, err := s.Undo(t.Context(), id, true); err == nil || !strings.Contains(err.Error(), "no answer is on record") {
			t.Errorf("an undo beside another gives %v", err)
		}
	}}
	if out := s.Resume(t.Context(), first.Ask.Ticket, yes, Request{}); out.Result == nil || decode(t, out).IsError {
		t.Fatalf("after a yes: %+v", out)
	}
	r.gate.opts.Audit = r.gate.opts.Audit.(twice).Recorder
	if undone := r.entries(t)[0]; undone.State != checkpoint.EntryUndone {
		t.Errorf("the entry is %v", undone.State)
	}
	sent := len(r.caller.calls())
	if _, err := s.Undo(t.Context(), id, true); err == nil || len(r.caller.calls()) != sent {
		t.Errorf("an entry is undone twice")
	}
}

// twice does something beside each intent.
type twice struct {
	Recorder
	beside func()
}

func (w twice) Record(e audit.Event) error {
	if e.Kind == audit.Intent {
		w.beside()
	}
	return w.Recorder.Record(e)
}

func TestAnInverseIsFilledWholeOrNotAtAll(t *testing.T) {
	i := &Inverse{Args: json.RawMessage(`{"a":"$args/x~1y/1","b":"plain $args","c":{"d":"$result"}}`)}
	got, err := i.argsFor(json.RawMessage(`{"x/y":[0,12345678901234567890]}`), json.RawMessage(`{"r":1}`))
	if err != nil || string(got) != `{"a":12345678901234567890,"b":"plain $args","c":{"d":{"r":1}}}` {
		t.Errorf("got %s, %v", got, err)
	}
	if got, err := i.argsFor(json.RawMessage(`{}`), nil); err == nil {
		t.Errorf("a reference to nothing gives %s", got)
	}
}

func TestTheGatesOwnPromptsAndResource(t *testing.T) {
	r := newRig(t, nil)
	s := r.open(t, Identity{})
	ask := func(method, name, args string) Outcome {
		return s.use(t.Context(), Request{Method: method, Name: name, Args: json.RawMessage(args)})
	}
	for _, out := range []Outcome{ask("prompts/get", "prefix", `{"name":"prefix"}`), ask("resources/read", "gate://prefix", `{"uri":"gate://prefix"}`)} {
		if !strings.Contains(string(out.Result), "create_issue") || !strings.Contains(string(out.Result), "load_tool") {
			t.Errorf("got %s %v", out.Result, out.Error)
		}
	}
	if a, b := s.Prefix().Fingerprint(), r.open(t, Identity{Client: "another"}).Prefix().Fingerprint(); a != b {
		t.Errorf("two sessions have the fingerprints %s and %s", a, b)
	}
	before := s.Prefix().Fingerprint()
	r.gate.Offer("hub", raws(append(definitions["hub"], `{"name":"close_issue","description":"Close an issue"}`)))
	if now, next := s.Prefix().Fingerprint(), r.open(t, Identity{}).Prefix().Fingerprint(); now != before || next == before {
		t.Errorf("after a change the session has %s, the next one %s; it began with %s", now, next, before)
	}
	brief := ask("prompts/get", "subagent_brief", `{"name":"subagent_brief","arguments":{"task":" count them ","inputs":"{\"b\":1,\"a\":2}"}}`)
	if !strings.Contains(string(brief.Result), `count them`) || !strings.Contains(string(brief.Result), `{\"a\":2,\"b\":1}`) {
		t.Errorf("got %s %v", brief.Result, brief.Error)
	}
	if out := ask("prompts/get", "subagent_brief", `{"name":"subagent_brief"}`); out.Error == nil {
		t.Errorf("a brief without a task gives %s", out.Result)
	}
}

// A card says where the arguments go, and of what the gate answers itself that they go
// nowhere.
func TestACardSaysWhereTheArgumentsGo(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Servers[0].Place = "api.example.com" })
	s := r.open(t, Identity{})
	c := s.newCall("x", nil, Request{})
	c.entry, c.known = s.tool(catalog.ToolID{Server: "hub", Tool: "get_issue"})
	if got := s.view(t.Context(), c, policy.Decision{}).GoesTo; got != "api.example.com" {
		t.Errorf("a call goes to %q", got)
	}
	c.local = func(context.Context) (json.RawMessage, error) { return nil, nil }
	if got := s.view(t.Context(), c, policy.Decision{}).GoesTo; got != "" {
		t.Errorf("what is read from what is kept goes to %q", got)
	}
}
