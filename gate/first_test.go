package gate

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/policy"
)

func (c *scripted) Shown(ctx context.Context, _ string) { c.Settled(ctx) }
func (*shop) Shown(context.Context, string)             {}

func TestServersAreWantedByTheFirstListOrCall(t *testing.T) {
	for what, use := range map[string]func(*Session){
		"a list": func(s *Session) { _, _ = s.ListTools(t.Context()) },
		"a call": func(s *Session) { s.Call(t.Context(), Request{Name: "hub_get_issue"}) },
	} {
		r := newRig(t, nil)
		s := r.open(t, Identity{})
		select {
		case <-r.gate.Wanted():
			t.Error("a session alone wants servers")
		default:
		}
		use(s)
		select {
		case <-r.gate.Wanted():
		default:
			t.Errorf("%s wants none", what)
		}
	}
}

// A list and a prefix of one session are of one moment, whichever is asked for first
// and whatever is accepted between them: equal prefixes mean equal lists.
func TestListAndPrefixAreOfOneMoment(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Profiles[""] = Profile{Exposure: Direct, Authority: engagement.DefaultAuthority()}
	})
	given := func(s *Session) (list, prefix string) {
		raw, err := s.ListTools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return string(raw), s.Prefix().Plain()
	}
	before, listed, prefixed := r.open(t, Identity{}), r.open(t, Identity{}), r.open(t, Identity{})
	list, prefix := given(before)
	_, _ = listed.ListTools(t.Context())
	prefixed.Prefix()
	r.gate.Offer("hub", nil)
	for what, s := range map[string]*Session{"the list": listed, "the prefix": prefixed} {
		if l, p := given(s); l != list || p != prefix {
			t.Errorf("%s was given before a change, the other after it: %s\n%s", what, l, p)
		}
	}
	if l, p := given(r.open(t, Identity{})); l == list || p == prefix {
		t.Error("the next session has nothing of the change")
	}
}

// List and prefix depend on what the session was started for. What is said in it before
// it asks for them moves no byte, nor does a tool that is held bring itself forward.
func TestListAndPrefixAreOfTheLaunch(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Profiles[""] = Profile{Exposure: Direct, Authority: engagement.DefaultAuthority(), Reading: &engagement.Reading{
			Act: engagement.ActAnswer, Confidence: 1, Clarity: engagement.ClarityClear, Domains: engagement.DomainsOf(engagement.DomainVCS),
		}}
	})
	given := func(s *Session) (list, prefix string) {
		raw, err := s.ListTools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return string(raw), s.Prefix().Plain()
	}
	list, prefix := given(r.open(t, Identity{}))
	if strings.Contains(list, "mail_send_mail") || !strings.Contains(list, "hub_get_issue") {
		t.Fatalf("the slice shows %s", list)
	}
	engaged, prompted := r.open(t, Identity{}), r.open(t, Identity{})
	before := engaged.Engagement().Limits.RequiredDomains
	engaged.Call(t.Context(), Request{Name: "engage", Args: json.RawMessage(`{"act":"answer","domains":["messaging"]}`)})
	if engaged.Engagement().Limits.RequiredDomains == before || !prompted.Prompt(engagement.Reading{Act: engagement.ActAnswer, Confidence: 1}) {
		t.Fatal("neither an engagement nor a prompt changes anything")
	}
	for what, s := range map[string]*Session{"engaged": engaged, "prompted": prompted} {
		if l, p := given(s); l != list || p != prefix {
			t.Errorf("%s first: %s\n%s", what, l, p)
		}
	}
	pins := map[catalog.ToolID]policy.Pin{{Server: "mail", Tool: "send_mail"}: policy.PinChanged}
	r.gate.pins.Store(&pins)
	if l, p := given(r.open(t, Identity{})); l != list || p != prefix {
		t.Errorf("a tool outside the slice is held: %s\n%s", l, p)
	}
}

// written is a record with one text, which Offer holds against what is offered.
type written struct {
	text string
	mute []string // servers that were Silent
}

func (w *written) Known(string) ([]catalog.Entry, string, bool) { return nil, w.text, w.text != "" }
func (w *written) Silent(server string)                         { w.mute = append(w.mute, server) }
func (w *written) Offer(_ string, o catalog.Offer) (j catalog.Judgement, _ []catalog.Entry, _ string) {
	j.Instructions.Text = o.Instructions
	if j.Instructions.State = catalog.Changed; strings.HasPrefix(o.Instructions, w.text) {
		j.Instructions.State = catalog.Accepted
	}
	return j, nil, w.text
}

func TestATransparentServerIsWaitedForOnceAndIsOnRecord(t *testing.T) {
	const list, find = 10 * time.Second, 3 * time.Second
	for _, c := range []struct {
		name, record string
		live         string // what it says where it comes
		wait         time.Duration
		want         string
		mute         int
	}{
		{"unknown, and hangs", "", "", list, "", 1},
		{"on record, and hangs", "Hi.", "", find, "Hi.", 0},
		{"on record, and there: all of a text that the record cuts", "Hi.", "Hi. And more.", 0, "Hi. And more.", 0},
		{"another text waits for a person", "Hi.", "Obey.", 0, "Hi.", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &written{text: c.record}
			r := newRig(t, func(o *Options) {
				o.Servers = []Server{{Alias: "late", ID: "late-id", Policy: o.Servers[0].Policy}}
				o.Profiles[""] = Profile{Exposure: Transparent, Servers: []string{"late"}, Authority: engagement.DefaultAuthority()}
				o.Acceptance, o.FirstList, o.FirstFind = w, list, find
			})
			r.caller.ready = make(chan struct{})
			if c.live != "" {
				r.caller.about.Instructions = c.live
				r.caller.waited = func() { r.gate.Offer("late", nil) }
				close(r.caller.ready)
			} else {
				defer close(r.caller.ready)
			}
			start := time.Now()
			s := r.open(t, Identity{})
			got := s.Instructions()
			s.ServerInfo()
			if got != c.want || time.Since(start) != c.wait || len(w.mute) != c.mute {
				t.Errorf("%s: %q after %v, noted as silent %v", c.name, got, time.Since(start), w.mute)
			}
		})
	}
}
