package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
)

func TestACallWaitsForNoOtherServer(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Servers = append(o.Servers, Server{Alias: "late", ID: "late-id", Policy: o.Servers[0].Policy})
		o.Profiles[""] = Profile{Exposure: Direct, Authority: engagement.DefaultAuthority()}
		o.FirstList = time.Hour
	})
	r.caller.ready = make(chan struct{}) // one server never says what it has
	s := r.open(t, Identity{})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	s.Call(ctx, Request{Name: "hub_get_issue"})
	if ctx.Err() != nil || len(r.caller.calls()) != 1 {
		t.Errorf("a call of a tool that is known waited for another server; sent: %q", r.caller.calls())
	}
	close(r.caller.ready)
	if out := s.Call(t.Context(), Request{Name: "tool"}); out.Error == nil {
		t.Errorf("a name that nobody knows: %+v", out)
	}
}

// A server that has not listed its tools may have any: what is called of it
// waits, and then it is the server that is said to be missing, not the tool.
func TestAToolOfAServerThatStartsIsWaitedForAndNeverCalledUnknown(t *testing.T) {
	for _, c := range []struct {
		exposure   Exposure
		name, args string
	}{
		{Meta, "call_tool", `{"name":"late/look","arguments":{}}`},
		{Meta, "call_tool_read", `{"name":"late/look","arguments":{}}`},
		{Meta, "load_tool", `{"names":["late/look"]}`},
		{Direct, "late_look", `{}`},
		{Transparent, "look", `{}`},
	} {
		for _, record := range []Acceptance{nil, unfilled{}} { // unknown, and seen without tools
			start := func(wait time.Duration) *rig {
				return newRig(t, func(o *Options) {
					o.Servers = append(o.Servers, Server{Alias: "late", ID: "late-id", Policy: o.Servers[0].Policy})
					p := Profile{Exposure: c.exposure, Authority: engagement.DefaultAuthority()}
					if c.exposure == Transparent {
						p.Servers = []string{"late"}
					}
					o.Profiles[""], o.Acceptance, o.FirstList = p, record, wait
				})
			}
			call := func(r *rig) string {
				out := r.open(t, Identity{}).Call(t.Context(), Request{Name: c.name, Args: json.RawMessage(c.args)})
				if out.Error != nil {
					return out.Error.Message
				}
				return string(out.Result)
			}

			comes := start(time.Hour)
			comes.caller.waited = func() {
				comes.gate.Offer("late", raws([]string{`{"name":"look","annotations":{"readOnlyHint":true}}`}))
			}
			if got := call(comes); strings.Contains(got, "refused") || strings.Contains(got, "no tool") {
				t.Errorf("%s %s: it came, and a client is told: %s", c.name, c.args, got)
			}

			hangs := start(time.Millisecond)
			hangs.caller.ready = make(chan struct{})
			if got := call(hangs); !strings.Contains(got, "refused [server-down]") || !strings.Contains(got, "mcp-gate status") || strings.Contains(got, "no tool") {
				t.Errorf("%s %s: it did not come, and a client is told: %s", c.name, c.args, got)
			}

			ended := start(time.Hour)
			ended.caller.down = errors.New("its process ended")
			if got := call(ended); !strings.Contains(got, "refused [server-down]") || !strings.Contains(got, "its process ended") {
				t.Errorf("%s %s: it ended, and a client is told: %s", c.name, c.args, got)
			}
		}
	}
}

// A name without a server may be a tool of one that has not come.
func TestABareNameIsSaidToBePerhapsThatOfAServerThatIsNotUp(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Servers = append(o.Servers, Server{Alias: "late", ID: "late-id", Policy: o.Servers[0].Policy})
		o.FirstList = time.Millisecond
	})
	r.caller.ready = make(chan struct{})
	out := through(t, r.open(t, Identity{}), "look", `{}`)
	if got := string(out.Result); !strings.Contains(got, "unless server late has it") {
		t.Errorf("got %s", got)
	}
	out = through(t, r.open(t, Identity{}), "hub/look", `{}`)
	if got := string(out.Result); !strings.Contains(got, "there is no tool hub/look") || strings.Contains(got, "late") {
		t.Errorf("of a server that is up, got %s", got)
	}
}

// holding is an Acceptance that holds everything.
type holding struct{}

func (holding) Known(string) ([]catalog.Entry, string, bool) { return nil, "", false }
func (holding) Silent(string)                                {}
func (onFile) Silent(string)                                 {}
func (holding) Offer(_ string, o catalog.Offer) (j catalog.Judgement, _ []catalog.Entry, _ string) {
	for _, t := range o.Tools {
		j.Tools = append(j.Tools, catalog.Status{ID: t.Tool.ID, State: catalog.New})
	}
	return j, nil, ""
}

func TestAListThatIsHeldIsToldOfOnceAndInPart(t *testing.T) {
	var text bytes.Buffer
	r := newRig(t, func(o *Options) {
		o.Acceptance = holding{}
		o.Log = slog.New(slog.NewTextHandler(&text, nil))
	})
	var list []json.RawMessage
	for i := range 500 {
		list = append(list, fmt.Appendf(nil, `{"name":"t%d"}`, i), json.RawMessage(`{"name":7}`))
	}
	for i, want := range []int{toldOf + 2, toldOf + 1} { // what is no tool is told of again
		text.Reset()
		r.gate.Offer("hub", list)
		if lines := bytes.Count(text.Bytes(), []byte("\n")); lines != want {
			t.Errorf("list %d: %d lines, want %d:\n%.500s", i+1, lines, want, text.Bytes())
		}
		if got := strings.Contains(text.String(), `msg="tools are held back" server=hub tools=500 first=hub/t0 state=new`); got != (i == 0) {
			t.Errorf("list %d: told of what is held: %v", i+1, got)
		}
	}
}

// unfilled is an Acceptance for which every server was seen without tools.
type unfilled struct{}

func (unfilled) Known(string) ([]catalog.Entry, string, bool) { return nil, "", true }
func (unfilled) Silent(string)                                {}
func (unfilled) Offer(_ string, o catalog.Offer) (j catalog.Judgement, entries []catalog.Entry, _ string) {
	for _, t := range o.Tools {
		entries = append(entries, catalog.Entry{Tool: t.Tool, Class: t.Class})
	}
	return j, entries, ""
}

func TestAServerSeenWithoutToolsIsNotWaitedForAgain(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Servers = append(o.Servers, Server{Alias: "notes", ID: "notes-id", Policy: o.Servers[0].Policy})
		o.Profiles[""] = Profile{Exposure: Direct, Authority: engagement.DefaultAuthority()}
		o.Acceptance = unfilled{}
		o.FirstList = time.Hour
	})
	r.caller.ready = make(chan struct{}) // it has not started yet
	if !r.gate.Recalled() {
		t.Error("the first list is said to need a server")
	}
	s := r.open(t, Identity{})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	list, err := s.ListTools(ctx)
	if err != nil || ctx.Err() != nil || !bytes.Contains(list, []byte("hub_get_issue")) {
		t.Fatalf("%v, %v: %s", err, ctx.Err(), list)
	}
	r.gate.Offer("notes", []json.RawMessage{json.RawMessage(`{"name":"add","inputSchema":{"type":"object"}}`)})
	select {
	case <-s.Changed():
	default:
		t.Error("nothing tells that it has tools now")
	}
}

// forgetful is an Acceptance that knows nothing but who was silent.
type forgetful struct {
	unfilled
	silent map[string]bool
}

func (f forgetful) Known(server string) ([]catalog.Entry, string, bool) {
	return nil, "", f.silent[server]
}
func (f forgetful) Silent(server string) { f.silent[server] = true }

func TestAServerThatNeverAnswersIsWaitedForOnce(t *testing.T) {
	record := forgetful{silent: map[string]bool{}}
	start := func(wait time.Duration) *rig {
		r := newRig(t, func(o *Options) {
			o.Servers = append(o.Servers, Server{Alias: "hung", ID: "hung-id", Policy: o.Servers[0].Policy})
			o.Profiles[""] = Profile{Exposure: Direct, Authority: engagement.DefaultAuthority()}
			o.Acceptance = record
			o.FirstList = wait
		})
		r.caller.ready = make(chan struct{})
		return r
	}
	gaveUp, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := start(time.Hour).open(t, Identity{}).ListTools(gaveUp); err != nil || len(record.silent) > 0 {
		t.Fatalf("%v: %v are noted for a client that did not wait", err, record.silent)
	}
	failed := start(time.Millisecond)
	failed.caller.down = errors.New("no such program")
	if _, err := failed.open(t, Identity{}).ListTools(t.Context()); err != nil || len(record.silent) > 0 {
		t.Fatalf("%v: %v are noted that failed, which nobody waits for", err, record.silent)
	}
	if _, err := start(time.Millisecond).open(t, Identity{}).ListTools(t.Context()); err != nil || !record.silent["hung"] {
		t.Fatalf("%v: noted are %v", err, record.silent)
	}
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	if _, err := start(time.Hour).open(t, Identity{}).ListTools(ctx); err != nil || ctx.Err() != nil {
		t.Errorf("it is waited for again: %v", err)
	}
}

func TestAQuestionIsHeldOpenAsLongAsItsClientBears(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Waits = map[string]time.Duration{"patient": 3 * time.Minute} })
	for client, want := range map[string]time.Duration{"patient": 3 * time.Minute, "another": time.Second, "": time.Second} {
		if ask := through(t, r.open(t, Identity{Client: client}), "hub/delete_issue", `{"n":1}`).Ask; ask == nil || ask.Wait != want {
			t.Errorf("%q: %+v, want %v", client, ask, want)
		}
	}
}

func TestToolsThatNoListCanHoldAreToldOfInPart(t *testing.T) {
	var text bytes.Buffer
	r := newRig(t, func(o *Options) {
		o.Profiles[""] = Profile{Exposure: Direct, Authority: engagement.DefaultAuthority()}
		o.Log = slog.New(slog.NewTextHandler(&text, nil))
	})
	var list []json.RawMessage
	for i := range 500 {
		list = append(list, fmt.Appendf(nil, `{"name":"t%d","inputSchema":7}`, i))
	}
	r.gate.Offer("hub", list)
	text.Reset()
	if _, err := r.open(t, Identity{}).ListTools(t.Context()); err != nil {
		t.Fatal(err)
	}
	if lines := bytes.Count(text.Bytes(), []byte("\n")); lines != toldOf+1 {
		t.Errorf("%d lines, want %d:\n%.500s", lines, toldOf+1, text.Bytes())
	}
}

// A server can name its tools so that two would have one name in a client's
// list, which clients refuse whole.
func TestNoNameStandsTwiceInAList(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Profiles = map[string]Profile{"": {Exposure: Direct, Authority: engagement.DefaultAuthority()}}
	})
	twin := strings.TrimPrefix(catalog.DirectName(catalog.ToolID{Server: "mail", Tool: "get!"}), "mail_")
	r.gate.Offer("mail", raws([]string{`{"name":"get!","inputSchema":{"type":"object"}}`, `{"name":"` + twin + `","inputSchema":{"type":"object"}}`}))
	raw, err := r.open(t, Identity{}).ListTools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var list []struct{ Name string }
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, tool := range list {
		if seen[tool.Name] {
			t.Errorf("%q is there twice", tool.Name)
		}
		seen[tool.Name] = true
	}
	if !seen["mail_"+twin] {
		t.Errorf("%s is not there at all: %s", twin, raw)
	}
}

// The first prefix of a home names the tools of servers that nobody has seen yet.
func TestTheFirstPrefixWaitsForServersThatAreNew(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Servers = append(o.Servers, Server{Alias: "late", ID: "late-id", Policy: o.Servers[0].Policy})
		o.FirstList = time.Hour
	})
	r.caller.ready = make(chan struct{})
	r.caller.waited = func() {
		r.gate.Offer("late", raws([]string{`{"name":"look_after","description":"Looks after it"}`}))
		close(r.caller.ready)
	}
	out := r.open(t, Identity{}).use(t.Context(), Request{Method: "prompts/get", Name: "prefix", Args: json.RawMessage(`{"name":"prefix"}`)})
	if !strings.Contains(string(out.Result), "look_after") {
		t.Errorf("got %s %v", out.Result, out.Error)
	}
}
