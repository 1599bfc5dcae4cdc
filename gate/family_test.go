package gate

import (
	"context"
	crand "crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/policy"
)

// twoGates are of one home: what b is asked to work for lives in a.
func twoGates(t *testing.T, edit func(*Options)) (a, b *rig) {
	t.Helper()
	profiles := map[string]Profile{"": {Authority: engagement.DefaultAuthority()}, "post": {Authority: engagement.DefaultAuthority(), Exposure: Direct, Servers: []string{"mail"}}}
	a = newRig(t, func(o *Options) {
		o.Profiles = profiles
		if edit != nil {
			edit(o)
		}
	})
	b = newRig(t, func(o *Options) {
		o.Profiles, o.Rand, o.Sessions = profiles, crand.Reader, a.store
		if edit != nil {
			edit(o)
		}
		o.Adopt = func(ctx context.Context, id string) (Given, error) {
			for _, s := range a.gate.Sessions() {
				if s.ID() == id {
					return s.Adopt(ctx)
				}
			}
			return Given{}, nil
		}
	})
	return a, b
}

func TestASessionThatWorksForAnotherIsGivenWhatThatWas(t *testing.T) {
	a, b := twoGates(t, nil)
	parent := a.open(t, Identity{Profile: "post", Client: "desk", Conversation: "c1", Principal: "local/desk", Scope: policy.ScopeAdmin})
	want, _ := parent.ListTools(t.Context())
	b.gate.Offer("mail", raws(append(definitions["mail"], `{"name":"read_mail","description":"Read a mail"}`)))
	for _, g := range []*rig{a, b} {
		child, err := g.gate.Open(t.Context(), Identity{Scope: policy.ScopeAdmin, Parent: parent.ID()})
		if err != nil {
			t.Fatal(err)
		}
		list, _ := child.ListTools(t.Context())
		if string(list) != string(want) || child.Prefix() != parent.Prefix() {
			t.Errorf("the child has %s\nand the prefix %s", list, child.Prefix().Plain())
		}
		if w := child.who; w.Principal != "local/desk" || w.Client != "desk" || w.Conversation != "c1" || w.Profile != "post" {
			t.Errorf("the child is %+v", w)
		}
	}
	for _, who := range []Identity{{Parent: "s_nobody"}, {Parent: parent.ID(), Profile: "other"}} {
		if _, err := b.gate.Open(t.Context(), who); err == nil || !strings.Contains(err.Error(), who.Parent) {
			t.Errorf("%+v: %v", who, err)
		}
	}
}

// A parent's exposure may be its process's own: a child has it, whatever its own
// process would show, and also where only the parent's record is left.
func TestASessionIsShownInTheFormOfTheOneItWorksFor(t *testing.T) {
	a, b := twoGates(t, func(o *Options) {
		o.Servers = o.Servers[1:] // mail
		shown := o.Profiles[""]
		shown.Exposure = Transparent
		o.Profiles = map[string]Profile{"": shown}
	})
	rule := func(g *Gate, shown Profile) {
		now := g.ruling().Settings
		shown.Authority = engagement.DefaultAuthority()
		now.Profiles = map[string]Profile{"": shown}
		g.Rule(now)
	}
	rule(b.gate, Profile{}) // meta
	parent := a.open(t, Identity{Scope: policy.ScopeAdmin})
	check := func() {
		t.Helper()
		child, err := b.gate.Open(t.Context(), Identity{Scope: policy.ScopeAdmin, Parent: parent.ID()})
		if err != nil {
			t.Fatal(err)
		}
		if child.profile.Exposure != Transparent || child.sole != "mail" || string(child.Instructions()) != parent.Instructions() {
			t.Errorf("the child is shown %s of %q: %s", child.profile.Exposure, child.sole, child.Instructions())
		}
		if out := child.Call(t.Context(), Request{Name: "find_tools", Args: json.RawMessage(`{"query":"mail"}`)}); out.Error == nil {
			t.Errorf("a meta tool answers a child: %s", out.Result)
		}
		grandchild, err := b.gate.Open(t.Context(), Identity{Scope: policy.ScopeAdmin, Parent: child.ID()})
		if err != nil || grandchild.profile.Exposure != Transparent {
			t.Errorf("the grandchild: %v", err)
		}
	}
	check()
	parent.Close() // its record is what b reads now
	check()
	rule(b.gate, Profile{Servers: []string{}})
	if _, err := b.gate.Open(t.Context(), Identity{Parent: parent.ID()}); err == nil || !strings.Contains(err.Error(), `does not show server "mail" any more`) {
		t.Errorf("a server that the profile hides by now: %v", err)
	}
}

func TestASessionMayNeverMoreThanTheOneItWorksFor(t *testing.T) {
	a, b := twoGates(t, nil)
	parent := a.open(t, Identity{})
	child, err := b.gate.Open(t.Context(), Identity{Scope: policy.ScopeAdmin, Parent: parent.ID()})
	if err != nil {
		t.Fatal(err)
	}
	grandchild, err := a.gate.Open(t.Context(), Identity{Scope: policy.ScopeAdmin, Parent: child.ID()})
	if err == nil {
		t.Fatalf("a session of a process that was not asked: %v", grandchild)
	}
	grandchild, err = b.gate.Open(t.Context(), Identity{Scope: policy.ScopeAdmin, Parent: child.ID()})
	if err != nil {
		t.Fatal(err)
	}
	asks := func(s *Session) bool { return through(t, s, "hub/create_issue", `{"title":"x"}`).Ask != nil }
	if asks(child) || asks(grandchild) {
		t.Fatal("nothing narrows yet")
	}
	// What the parent takes on narrows the others in the same moment, and still
	// does once it is gone.
	out := parent.Call(t.Context(), Request{Name: "engage", Args: json.RawMessage(`{"act":"operate","stakes":"irreversible"}`)})
	if !asks(parent) {
		t.Fatalf("the parent is not narrowed: %s", out.Result)
	}
	if !asks(child) || !asks(grandchild) {
		t.Error("a session may more than the one it works for")
	}
	parent.Close()
	if !asks(child) || !asks(grandchild) {
		t.Error("a session may more than the one it works for, now gone")
	}
	if err := a.store.KeepSession(t.Context(), parent.ID(), json.RawMessage(`{"identity":7}`), a.clock()); err != nil {
		t.Fatal(err)
	}
	if got := decode(t, through(t, child, "hub/get_issue", `{}`)).text(); !strings.HasPrefix(got, "refused") {
		t.Errorf("under a parent that cannot be read: %s", got)
	}
}

// Rules about a parent's principal or scope hold for whoever works for it under
// another one, and what the two read taints one conversation.
func TestASessionIsUnderTheRulesOfTheOneItWorksFor(t *testing.T) {
	rules, err := policy.Compile([]policy.Record{
		{Do: "deny", Tools: policy.Words{"hub/get_issue"}, Principal: policy.Words{"editor"}},
		{Do: "deny", Tools: policy.Words{"hub/*"}, Scope: policy.Words{"write"}, Args: map[string]policy.ArgRecord{"/path": {PathUnder: policy.Words{"/etc"}}}},
		{Do: "ask", Tools: policy.Words{"hub/create_issue"}, Principal: policy.Words{"editor"}},
		{Do: "allow", Tools: policy.Words{"hub/create_issue"}, Principal: policy.Words{"helper"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	a, b := twoGates(t, func(o *Options) { o.Rules = rules })
	parent := a.open(t, Identity{Principal: "editor", Scope: policy.ScopeWrite})
	for _, g := range []*rig{a, b} {
		child, err := g.gate.Open(t.Context(), Identity{Principal: "helper", Scope: policy.ScopeAdmin, Parent: parent.ID()})
		if err != nil {
			t.Fatal(err)
		}
		grandchild, err := g.gate.Open(t.Context(), Identity{Principal: "other", Scope: policy.ScopeAdmin, Parent: child.ID()})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []*Session{parent, child, grandchild} {
			g.refusedAs(t, through(t, s, "hub/get_issue", `{"n":1}`), "rule")
			g.refusedAs(t, through(t, s, "hub/create_issue", `{"path":"/etc/passwd"}`), "rule")
			if out := through(t, s, "hub/create_issue", `{"title":"x"}`); out.Ask == nil {
				t.Errorf("%s is not asked about: %s", s.Principal(), out.Result)
			}
			if s.taintAccount() != parent.taintAccount() {
				t.Errorf("what %s reads taints %q, not %q", s.Principal(), s.taintAccount(), parent.taintAccount())
			}
		}
	}
}

func TestAFamilySpendsFromOneAccount(t *testing.T) {
	five := int64(5)
	a, b := twoGates(t, func(o *Options) { o.Spend.Calls = &five })
	parent := a.open(t, Identity{})
	through(t, parent, "hub/get_issue", `{}`)
	child, err := b.gate.Open(t.Context(), Identity{Scope: policy.ScopeAdmin, Parent: parent.ID()})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		through(t, child, "hub/get_issue", `{}`)
	}
	through(t, parent, "hub/get_issue", `{}`)
	if ofA, ofB := len(a.caller.calls()), len(b.caller.calls()); ofA+ofB != 5 || ofA != 1 {
		t.Errorf("the parent made %d calls and the child %d, want 5 in all", ofA, ofB)
	}
}

// looks counts the looks at a store that a search or a list could do for each
// tool.
type looks struct {
	Sessions
	spent, records atomic.Int64
}

func (c *looks) Spent(ctx context.Context, account string) (int64, int64, error) {
	c.spent.Add(1)
	return c.Sessions.Spent(ctx, account)
}

func (c *looks) Session(ctx context.Context, id string) (json.RawMessage, time.Time, error) {
	c.records.Add(1)
	return c.Sessions.Session(ctx, id)
}

func TestASearchOrAListLooksOnceWhatHolds(t *testing.T) {
	var store *looks
	a, b := twoGates(t, func(o *Options) {
		o.Spend.Calls = new(int64(1000))
		store = &looks{Sessions: o.Sessions} // in the end it is b's
		o.Sessions = store
	})
	for _, profile := range []string{"", "post"} {
		parent := a.open(t, Identity{Profile: profile})
		child, err := b.gate.Open(t.Context(), Identity{Scope: policy.ScopeAdmin, Parent: parent.ID()})
		if err != nil {
			t.Fatal(err)
		}
		for what, do := range map[string]func(){
			"find_tools": func() {
				child.Call(t.Context(), Request{Name: "find_tools", Args: json.RawMessage(`{"query":"mail issue"}`)})
			},
			"load_tool": func() {
				child.Call(t.Context(), Request{Name: "load_tool", Args: json.RawMessage(`{"names":["mail/red_mail"]}`)})
			},
			"a list": func() { child.newList(t.Context()) },
			"a server that goes on saying things": func() {
				for n := range 50 {
					b.gate.Notice(t.Context(), "mail", "notifications/message", fmt.Appendf(nil, `{"level":"error","data":%d}`, n))
				}
			},
			"a prefix": func() { child.newPrefix() },
			"an unknown name": func() {
				child.unknownName(new(child.look()), "mail_sent_mail")
			},
		} {
			store.spent.Store(0)
			store.records.Store(0)
			do()
			if spent, records := store.spent.Load(), store.records.Load(); spent > 1 || records > 1 {
				t.Errorf("%s looks %d times at what is spent and %d times at the parent's record", what, spent, records)
			}
		}
	}
}
