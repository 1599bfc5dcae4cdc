package gate

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/inbox"
	"github.com/mcp-gate/mcp-gate/policy"
)

// rule tells the gate of other servers and profiles.
func (r *rig) rule(t *testing.T, edit func(*Options)) {
	t.Helper()
	o := r.first
	o.Servers = slices.Clone(o.Servers)
	edit(&o)
	if err := o.Check(); err != nil {
		t.Fatal(err)
	}
	r.gate.Rule(o.Settings)
}

func without(alias string) func(*Options) {
	return func(o *Options) {
		o.Servers = slices.DeleteFunc(o.Servers, func(s Server) bool { return s.Alias == alias })
	}
}

func (r *rig) found(t *testing.T, s *Session, query string) string {
	t.Helper()
	return decode(t, s.Call(t.Context(), Request{Name: "find_tools", Args: json.RawMessage(fmt.Sprintf(`{"query":%q}`, query))})).text()
}

func TestAServerThatCannotBeUsedSaysWhy(t *testing.T) {
	const why = "server crm cannot be used as its owner configured it: variable KEY is not set"
	for _, exposure := range []Exposure{Meta, Direct} {
		r := newRig(t, func(o *Options) {
			o.LeftOut = map[string]string{"crm": "variable KEY is not set"}
			o.Profiles = map[string]Profile{"": {Exposure: exposure, Servers: []string{"mail", "crm"}}, "hub": {Exposure: exposure, Servers: []string{"hub"}}}
		})
		said := func(s *Session) string {
			if exposure == Meta {
				return decode(t, through(t, s, "crm/get", `{}`)).text()
			}
			return s.Call(t.Context(), Request{Name: "crm_get"}).Error.Message
		}
		if got := said(r.open(t, Identity{})); !strings.Contains(got, why) {
			t.Errorf("%s: got %s", exposure, got)
		}
		if got := said(r.open(t, Identity{Profile: "hub"})); strings.Contains(got, "KEY") {
			t.Errorf("%s: a profile without it is told %s", exposure, got)
		}
	}
}

// A transparent profile whose only server is left out shows nothing and says why,
// and the server once it is back.
func TestATransparentServerThatIsLeftOut(t *testing.T) {
	const why = "server hub cannot be used as its owner configured it: variable KEY is not set"
	var hub Server
	for _, named := range [][]string{nil, {"hub"}} {
		r := newRig(t, func(o *Options) {
			hub = o.Servers[slices.IndexFunc(o.Servers, func(s Server) bool { return s.Alias == "hub" })]
			o.Servers, o.LeftOut = nil, map[string]string{"hub": "variable KEY is not set"}
			o.Profiles = map[string]Profile{"": {Exposure: Transparent, Servers: named, Authority: engagement.DefaultAuthority()}}
		})
		s := r.open(t, Identity{})
		if list, err := s.ListTools(t.Context()); err != nil || string(list) != "[]" {
			t.Errorf("its list is %s, %v", list, err)
		}
		if got := s.Instructions(); !strings.Contains(got, why) {
			t.Errorf("its instructions are %q", got)
		}
		if out := s.Call(t.Context(), Request{Name: "get_issue"}); out.Error == nil || !strings.Contains(out.Error.Message, why) {
			t.Errorf("a call gives %+v", out)
		}
		r.rule(t, func(o *Options) { o.Servers, o.LeftOut = []Server{hub}, nil })
		r.gate.Offer("hub", raws([]string{`{"name":"look","annotations":{"readOnlyHint":true}}`}))
		if out := s.Call(t.Context(), Request{Name: "look"}); out.Error != nil {
			t.Errorf("once it is back a call gives %v", out.Error)
		}
	}
}

// Whatever a name is spelled like, it is its own server that is spoken of, or none.
func TestANameIsToldOfItsOwnServerInAnySpelling(t *testing.T) {
	const left = "server my-crm cannot be used as its owner configured it: variable KEY is not set"
	for _, exposure := range []Exposure{Meta, Direct} {
		r := newRig(t, func(o *Options) {
			o.LeftOut = map[string]string{"my-crm": "variable KEY is not set", "hub-b": "no program", "mai": "no program"}
			o.Servers = append(o.Servers, Server{Alias: "late", ID: "late-id", Policy: o.Servers[0].Policy}, Server{Alias: "hub-b-c", ID: "hub-b-c-id", Policy: o.Servers[0].Policy})
			o.Profiles = map[string]Profile{"": {Exposure: exposure, Authority: engagement.DefaultAuthority()}}
			o.FirstList = time.Millisecond
		})
		r.caller.ready = make(chan struct{}) // "late" never says what it has
		s := r.open(t, Identity{})
		for _, c := range []struct {
			name, want string
			not        []string
		}{
			{"my-crm/get", left, nil}, {"MY_CRM/get", left, nil}, {"my_crm_get", left, nil}, {"my-crm_get", left, nil},
			{"mcp__my_crm__get", left, nil}, {"my_crm:get", left, nil},
			{"nosuch/x", `there is no server \"nosuch\" here`, []string{"late", "KEY"}},
			{"hub_b_c_x", "", []string{"server hub-b cannot"}},
			{"LATE/look", "", []string{"no tool", "no server"}},
			{"mail_nothing", "", []string{"server mai cannot"}},
			{strings.Repeat("_", 1<<20), "", []string{"cannot be used"}},
		} {
			out := s.Call(t.Context(), Request{Name: "call_tool", Args: json.RawMessage(fmt.Sprintf(`{"name":%q,"arguments":{}}`, c.name))})
			got := string(out.Result)
			for _, not := range c.not {
				if strings.Contains(got, not) {
					t.Errorf("%s: %.40s is told %q: %.400s", exposure, c.name, not, got)
				}
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("%s: %.40s is told %.400s, want %q", exposure, c.name, got, c.want)
			}
		}
		if exposure == Direct {
			if got := s.Call(t.Context(), Request{Name: "nosuch_x"}).Error.Message; strings.Contains(got, "late") {
				t.Errorf("what can be of no server is told: %s", got)
			}
		}
		if out := decode(t, through(t, s, "HUB/get_issue", `{}`)); out.IsError {
			t.Errorf("%s: another spelling of a server that works: %s", exposure, out.text())
		}
	}
}

func TestServersThatComeAndGo(t *testing.T) {
	r := newRig(t, nil)
	s := r.open(t, Identity{})
	list, err := s.ListTools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	begins := s.Prefix().Plain()

	r.rule(t, without("mail"))
	out := through(t, s, "mail/get_mail", `{}`)
	r.refusedAs(t, out, "unknown")
	if got := decode(t, out).text(); !strings.Contains(got, "its owner took server mail out of the configuration") {
		t.Errorf("a tool of a server that is gone gives %s", got)
	}
	if got := r.found(t, s, "get a mail"); strings.Contains(got, "mail/") {
		t.Errorf("its tools are found: %s", got)
	}
	r.gate.Offer("mail", raws(definitions["mail"])) // late word of a server that is ended
	if got := r.found(t, s, "get a mail"); strings.Contains(got, "mail/") {
		t.Errorf("its tools are found again: %s", got)
	}
	if out := through(t, s, "hub/get_issue", `{"n":1}`); decode(t, out).IsError {
		t.Errorf("the one that stays gives %s", out.Result)
	}

	r.rule(t, func(*Options) {})
	r.gate.Offer("mail", raws(definitions["mail"]))
	if got := r.found(t, s, "get a mail"); !strings.Contains(got, "mail/get_mail") {
		t.Errorf("back again, its tools are not found: %s", got)
	}
	now, err := s.ListTools(t.Context())
	if err != nil || string(now) != string(list) || s.Prefix().Plain() != begins {
		t.Errorf("list or prefix of the session moved: %v", err)
	}
}

func TestADirectNameOfAServerThatIsGoneSaysSo(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Profiles = map[string]Profile{
			"":    {Exposure: Direct, Authority: engagement.DefaultAuthority()},
			"hub": {Exposure: Direct, Authority: engagement.DefaultAuthority(), Servers: []string{"hub"}},
		}
	})
	all, hub := r.open(t, Identity{}), r.open(t, Identity{Principal: "local", Scope: policy.ScopeAdmin, Profile: "hub"})
	r.rule(t, without("mail"))
	call := Request{Name: "mail_get_mail", Args: json.RawMessage(`{}`)}
	if out := all.Call(t.Context(), call); out.Error == nil || !strings.Contains(out.Error.Message, "took server mail out") {
		t.Errorf("got %+v", out)
	}
	if out := hub.Call(t.Context(), call); out.Error == nil || strings.Contains(out.Error.Message, "took") {
		t.Errorf("a session that never saw the server is told of it: %+v", out)
	}
}

// A server under a name that was accepted is another one where it is started in
// another way.
func TestAChangedServerHasToShowItself(t *testing.T) {
	r := newRig(t, nil)
	s := r.open(t, Identity{})
	r.rule(t, func(o *Options) { o.Servers[0].ID, o.Servers[0].Launch = "other-id", "other-launch" })
	r.refusedAs(t, through(t, s, "hub/get_issue", `{"n":1}`), "server-down")
	r.gate.Offer("hub", raws(definitions["hub"]))
	if out := through(t, s, "hub/get_issue", `{"n":1}`); decode(t, out).IsError {
		t.Errorf("once it has, it gives %s", out.Result)
	}
}

// A call carries for which server it was judged.
func TestACallSaysForWhichServerItWasJudged(t *testing.T) {
	r := newRig(t, nil)
	launched := &launches{scripted: r.caller}
	r.gate.opts.Caller = launched
	s := r.open(t, Identity{})
	through(t, s, "hub/get_issue", `{"n":1}`)
	r.rule(t, func(o *Options) { o.Servers[0].Launch = "other-launch" })
	r.gate.Offer("hub", raws(definitions["hub"]))
	through(t, s, "hub/get_issue", `{"n":1}`)
	if want := []string{"hub-launch", "other-launch"}; !slices.Equal(launched.seen, want) {
		t.Errorf("got %v, want %v", launched.seen, want)
	}
}

type launches struct {
	*scripted
	seen []string
}

func (l *launches) Call(ctx context.Context, server, method string, params json.RawMessage, progress func(json.RawMessage)) (json.RawMessage, error) {
	l.seen = append(l.seen, TermsOf(ctx).Launch)
	return l.scripted.Call(ctx, server, method, params, progress)
}

// A yes does not outlive the entry of the server that it was given for, whoever
// waits for what comes of it.
func TestAYesDoesNotOutliveTheServersEntry(t *testing.T) {
	for name, edit := range map[string]func(*Options){
		"another command":  func(o *Options) { o.Servers[0].ID, o.Servers[0].Launch = "other-id", "other-launch" },
		"another variable": func(o *Options) { o.Servers[0].Launch = "other-launch" },
		"gone":             without("hub"),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(o *Options) { o.Fallback = engagement.FallbackDefer })
			s := r.open(t, Identity{})
			waits := through(t, s, "hub/delete_issue", `{"n":1}`).Ask
			left := through(t, s, "hub/delete_issue", `{"n":2}`).Ask
			s.Resume(t.Context(), left.Ticket, Reply{Action: NoAnswer}, Request{})
			shared := through(t, s, "hub/delete_issue", `{"n":3}`).Ask
			r.rule(t, edit)
			r.gate.Offer("hub", raws(definitions["hub"]))
			if out := r.open(t, Identity{}).Resume(t.Context(), shared.Ticket, Reply{Accepted, "allow-once", time.Second}, Request{}); !decode(t, out).IsError {
				t.Errorf("another session gets %s", out.Result)
			}
			out := s.Resume(t.Context(), waits.Ticket, Reply{Accepted, "allow-once", time.Second}, Request{})
			if got := decode(t, out); !got.IsError {
				t.Errorf("the one that waited gives %s", out.Result)
			}
			if _, err := inbox.NewForms(r.opts).Answer(t.Context(), left.Ticket, inbox.AnswerOnce); err != nil {
				t.Fatal(err)
			}
			r.gate.RunAllowed(t.Context())
			r.gate.RunAllowed(t.Context())
			for _, id := range []string{waits.Ticket, left.Ticket, shared.Ticket} {
				if ticket, err := r.inbox.Ticket(t.Context(), id); err != nil || ticket.State != inbox.Stale {
					t.Errorf("a ticket is %v: %s, %v", ticket.State, ticket.Note, err)
				}
			}
			if sent := r.caller.calls(); len(sent) > 0 {
				t.Errorf("%v was sent", sent)
			}
		})
	}
}

// A server that is not touched keeps all that was allowed of it.
func TestAYesStaysWhereTheServersEntryDoes(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Fallback = engagement.FallbackDefer })
	s := r.open(t, Identity{})
	left := through(t, s, "hub/delete_issue", `{"n":2}`).Ask
	s.Resume(t.Context(), left.Ticket, Reply{Action: NoAnswer}, Request{})
	r.rule(t, without("mail"))
	if _, err := inbox.NewForms(r.opts).Answer(t.Context(), left.Ticket, inbox.AnswerOnce); err != nil {
		t.Fatal(err)
	}
	r.gate.RunAllowed(t.Context())
	if sent := r.caller.calls(); len(sent) != 1 {
		t.Errorf("%v was sent", sent)
	}
}

func TestProfilesHoldForNewSessions(t *testing.T) {
	r := newRig(t, nil)
	before := r.open(t, Identity{})
	r.rule(t, func(o *Options) {
		o.Profiles = map[string]Profile{
			"":     {Authority: engagement.DefaultAuthority(), Servers: []string{"hub"}},
			"mail": {Authority: engagement.DefaultAuthority(), Servers: []string{"mail"}},
		}
	})
	if !r.gate.HasProfile("mail") {
		t.Error("a new profile is not known")
	}
	for name, of := range map[string]struct {
		s    *Session
		hub  bool
		mail bool
	}{
		"open before": {before, true, true},
		"default":     {r.open(t, Identity{}), true, false},
		"new profile": {r.open(t, Identity{Principal: "local", Scope: policy.ScopeAdmin, Profile: "mail"}), false, true},
	} {
		if of.s.shows("hub") != of.hub || of.s.shows("mail") != of.mail {
			t.Errorf("%s: shows %v", name, of.s.aliases())
		}
	}
	for name, edit := range map[string]func(*Options){
		"a profile of a server that is gone": without("mail"),
		"transparent over two":               func(o *Options) { o.Profiles = map[string]Profile{"": {Exposure: Transparent}} },
		"one name twice":                     func(o *Options) { o.Servers = append(o.Servers, o.Servers[0]) },
	} {
		o := r.first
		o.Servers = slices.Clone(o.Servers)
		o.Profiles = r.gate.ruling().Profiles
		edit(&o)
		if err := o.Check(); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// What is on record of a server counts after a change only where it is the
// record of what the server is now.
func TestTheRecordOfAServerCountsWhereItIsTheSame(t *testing.T) {
	known := map[string][]catalog.Entry{}
	r := newRig(t, func(o *Options) { o.Acceptance = onFile(known) })
	s := r.open(t, Identity{})
	tool, err := catalog.NewTool("hub", json.RawMessage(definitions["hub"][0]))
	if err != nil {
		t.Fatal(err)
	}
	known["hub"] = []catalog.Entry{{Tool: tool, Class: catalog.Classify(tool, false, catalog.Override{})}}
	r.rule(t, func(o *Options) { o.Servers[0].Launch = "other-launch" })
	if got := r.found(t, s, "get one issue"); !strings.Contains(got, "hub/get_issue") {
		t.Errorf("what is on record is not found: %s", got)
	}
	r.refusedAs(t, through(t, s, "hub/get_issue", `{"n":1}`), "unverified") // it has not shown itself
}

type onFile map[string][]catalog.Entry

func (k onFile) Known(server string) ([]catalog.Entry, string, bool) { return k[server], "", false }

func (k onFile) Offer(server string, _ catalog.Offer) (catalog.Judgement, []catalog.Entry, string) {
	return catalog.Judgement{}, k[server], ""
}

// The owner may take the way back away, or name other folders, while a gate runs.
func TestRootsThatComeAndGo(t *testing.T) {
	r, s, root := reviewing(t, nil)
	path := root + "/a.txt"
	write := func(text string) Outcome {
		t.Helper()
		return through(t, s, "hub/save_file", fmt.Sprintf(`{"path":%q,"text":%q}`, path, text))
	}
	if out := write("one\n"); out.Ask != nil || decode(t, out).IsError {
		t.Fatalf("in review a write gives %+v", out)
	}
	keeper, hub := r.first.Keeper, *r.gate.server("hub")
	r.rule(t, func(o *Options) { o.Servers[0], o.Keeper = hub, nil })
	if out := write("two\n"); out.Ask == nil {
		t.Errorf("without a way back a write gives %+v", out)
	}
	entry := r.entries(t)[0].ID
	if _, err := s.Undo(t.Context(), entry, true); err == nil || !strings.Contains(err.Error(), "names no roots any more") {
		t.Errorf("without roots an undo gives %v", err)
	}
	r.rule(t, func(o *Options) { o.Servers[0], o.Keeper = hub, keeper })
	if _, err := s.Undo(t.Context(), entry, true); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the file of the call that was undone is there")
	}
}

func TestTaintIsTakenUp(t *testing.T) {
	r := tainted(t, policy.TaintOff, nil)
	s := r.open(t, Identity{Principal: "local", Scope: policy.ScopeAdmin, Conversation: "client session 1"})
	ran := func() bool { return !decode(t, through(t, s, "mail/send_mail", `{}`)).IsError }
	for _, tool := range []string{"hub/get_issue", "web/fetch"} {
		through(t, s, tool, `{}`)
	}
	if !ran() {
		t.Fatal("while taint is off a sending tool does not run")
	}
	r.rule(t, func(o *Options) { o.Taint = policy.TaintDeny })
	for _, tool := range []string{"hub/get_issue", "web/fetch"} {
		through(t, s, tool, `{}`)
	}
	if ran() {
		t.Error("what was read since taint is denied does not count")
	}
	r.rule(t, func(o *Options) { o.Taint = policy.TaintOff })
	if !ran() {
		t.Error("taint is still denied")
	}
}
