package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/mcp-gate/mcp-gate/engagement"
)

const serverA, serverB = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

func offered(t testing.TB, server, definition string, blocking ...string) Offered {
	t.Helper()
	tool, err := NewTool(Alias(server), json.RawMessage(definition))
	if err != nil {
		t.Fatal(err)
	}
	return Offered{Tool: tool, Class: Class{Permission: engagement.Read, Egress: engagement.RowLevel}, Blocking: blocking}
}

func offer(t testing.TB, definitions ...string) Offer {
	t.Helper()
	o := Offer{Key: "Git Hub", ServerID: serverA}
	for _, d := range definitions {
		o.Tools = append(o.Tools, offered(t, o.Key, d))
	}
	return o
}

// after is the lock once an offer was judged and recorded.
func after(l Lock, o Offer) Lock {
	next := Lock{Servers: map[string]Record{}, Broken: l.Broken}
	for key, r := range l.Servers {
		next.Servers[key] = r
	}
	if j := l.Judge(o); j.Record != nil {
		next.Servers[o.Key] = *j.Record
	}
	return next
}

func standings(j Judgement) string {
	var all []string
	for _, s := range j.Tools {
		all = append(all, s.ID.Tool+" "+s.State.String())
	}
	return strings.Join(all, ", ")
}

const (
	toolA  = `{"name":"a","description":"A.","inputSchema":{"type":"object"}}`
	toolA2 = `{"name":"a","description":"A!","inputSchema":{"type":"object"}}`
	toolAr = `{ "inputSchema": {"type":"object"}, "description":"\u0041.", "name":"a" }`
	toolB  = `{"name":"b","inputSchema":{"type":"object"}}`
	toolC  = `{"name":"c","inputSchema":{"type":"object"}}`
)

func TestWhatBecomesOfAnOffer(t *testing.T) {
	accepted := after(Lock{}, offer(t, toolA, toolB))
	suspect := func(o Offer, i int, kinds ...string) Offer { o.Tools[i].Blocking = kinds; return o }
	manual := func(o Offer) Offer { o.Manual = true; return o }
	swapped := func(o Offer) Offer { o.ServerID = serverB; return o }
	broken := Lock{Broken: errors.New("line 3")}
	tests := []struct {
		name    string
		lock    Lock
		offer   Offer
		want    string
		records bool
	}{
		{"first sight is accepted", Lock{}, offer(t, toolB, toolA), "a accepted, b accepted", true},
		{"first sight holds what looks unsafe, and only that", Lock{}, suspect(offer(t, toolA, toolB), 0, "bidi"), "a suspect, b accepted", true},
		{"first sight by hand is held", Lock{}, manual(offer(t, toolA, toolB)), "a new, b new", false},
		{"an empty first answer is no sight", Lock{}, offer(t), "", false},
		{"of two definitions of one name the first counts", Lock{}, offer(t, toolA, toolA2), "a accepted", true},
		{"what was accepted stays", accepted, offer(t, toolB, toolA), "a accepted, b accepted", false},
		{"by hand or not", accepted, manual(offer(t, toolB, toolA)), "a accepted, b accepted", false},
		{"another order of members is no change", accepted, offer(t, toolAr, toolB), "a accepted, b accepted", false},
		{"a changed text holds that tool only", accepted, offer(t, toolA2, toolB), "a changed, b accepted", false},
		{"an addition holds that tool only", accepted, offer(t, toolA, toolB, toolC), "a accepted, b accepted, c new", false},
		{"a later finding holds that tool only", accepted, suspect(offer(t, toolA, toolB), 1, "ansi"), "a accepted, b suspect", false},
		{"a rename is one gone and one new", accepted, offer(t, toolA, toolC), "a accepted, b gone, c new", false},
		{"an empty answer erases nothing", accepted, offer(t), "a gone, b gone", false},
		{"another command voids everything", accepted, swapped(offer(t, toolA, toolB)), "a new, b new", false},
		{"and still tells what looks unsafe", accepted, swapped(suspect(offer(t, toolA), 0, "ansi")), "a suspect, b gone", false},
		{"an unreadable lock holds everything", broken, offer(t, toolA, toolB), "a new, b new", false},
		{"an unreadable lock holds a new server too", broken, manual(offer(t, toolC)), "c new", false},
	}
	for _, tt := range tests {
		j := tt.lock.Judge(tt.offer)
		if got := standings(j); got != tt.want || (j.Record != nil) != tt.records {
			t.Errorf("%s: got %s (recorded: %t), want %s", tt.name, got, j.Record != nil, tt.want)
		}
		for _, s := range j.Tools {
			if (s.Why == "") != (s.State == Accepted) {
				t.Errorf("%s: %v is %v because %q", tt.name, s.ID, s.State, s.Why)
			}
		}
	}
}

func TestAllHeldAtFirstSightIsStillTheFirstSight(t *testing.T) {
	o := offer(t, toolA)
	o.Tools[0].Blocking = []string{"bidi"}
	l := after(Lock{}, o)
	if got := standings(l.Judge(offer(t, toolA))); got != "a new" {
		t.Errorf("a definition that was made harmless later is %s", got)
	}
}

func TestInstructionsAreHeldLikeATool(t *testing.T) {
	say := func(text string, blocking ...string) Offer {
		o := offer(t, toolA)
		o.Instructions, o.Blocking = text, blocking
		return o
	}
	silent, spoken := after(Lock{}, say("")), after(Lock{}, say("Hi."))
	swapped := say("Hi.")
	swapped.ServerID = serverB
	for _, tt := range []struct {
		name  string
		lock  Lock
		offer Offer
		want  State
	}{
		{"first sight", Lock{}, say("Hi."), Accepted},
		{"first sight of something unsafe", Lock{}, say("Hi.", "bidi"), Suspect},
		{"none", Lock{}, say(""), 0},
		{"the same", spoken, say("Hi."), Accepted},
		{"another", spoken, say("Ho."), Changed},
		{"first words later", silent, say("Hi."), New},
		{"no words any more", spoken, say(""), Gone},
		{"of another server", spoken, swapped, New},
	} {
		if got := tt.lock.Judge(tt.offer).Instructions; got.State != tt.want {
			t.Errorf("%s: got %v", tt.name, got.State)
		}
	}
	if got := spoken.Servers["Git Hub"].Instructions.Text; got != "Hi." {
		t.Errorf("kept %q", got)
	}
	if l := after(Lock{}, say("Hi.", "bidi")); l.Servers["Git Hub"].Instructions != nil {
		t.Error("an unsafe text was recorded at first sight")
	}
	long := after(Lock{}, say(strings.Repeat("é", 5000)))
	if got := long.Servers["Git Hub"].Instructions.Text; got != strings.Repeat("é", 2048) {
		t.Errorf("a long text is kept with %d bytes", len(got))
	}
	if got := long.Judge(say(strings.Repeat("é", 5000) + "!")).Instructions.State; got != Changed {
		t.Errorf("a change behind what is kept is %v", got)
	}
}

func TestInstructionsOfAServerWithoutToolsAreOnRecord(t *testing.T) {
	say := func(text string, definitions ...string) Offer {
		o := offer(t, definitions...)
		o.Instructions = text
		return o
	}
	change := func(o Offer, edit func(*Offer)) Offer { edit(&o); return o }
	bare := after(Lock{}, say("Hi."))
	if r := bare.Servers["Git Hub"]; !r.Bare || r.Instructions == nil || r.Instructions.Text != "Hi." {
		t.Fatalf("recorded %+v", r)
	}
	for _, tt := range []struct {
		name  string
		lock  Lock
		offer Offer
		want  string // how text and tools stand, and what the record says then
	}{
		{"nothing new", bare, say("Hi."), "accepted [] Hi. bare"},
		{"its tools are seen for the first time", bare, say("Hi.", toolA), "accepted [a accepted] Hi."},
		{"the text was not", bare, say("Ho.", toolA), "changed [a accepted] Hi."},
		{"nor is another one", bare, say("Ho."), "changed [] Hi. bare"},
		{"tools later are no first sight", after(bare, say("Hi.", toolA)), say("Hi.", toolA, toolB), "accepted [a accepted, b new] Hi."},
		{"tools are accepted by hand", bare, change(say("Hi.", toolA), func(o *Offer) { o.Manual = true }), "accepted [a new] Hi. bare"},
		{"all by hand", Lock{}, change(say("Hi."), func(o *Offer) { o.Manual = true }), "new [] -"},
		{"an unsafe text", Lock{}, change(say("Hi."), func(o *Offer) { o.Blocking = []string{"bidi"} }), "suspect [] -"},
		{"another server is another first sight", bare, change(say("Ho.", toolA), func(o *Offer) { o.ServerID = serverB }), "accepted [a accepted] Ho."},
		{"no record that can be read", Lock{Broken: errors.New("line 3")}, say("Hi.", toolA), "new [a new] -"},
	} {
		j, record := tt.lock.Judge(tt.offer), "-"
		if r, ok := after(tt.lock, tt.offer).Servers["Git Hub"]; ok {
			if record = r.Instructions.Text; r.Bare {
				record += " bare"
			}
		}
		if got := fmt.Sprintf("%v [%s] %s", j.Instructions.State, standings(j), record); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
	text, err := bare.Encode()
	if err != nil || !strings.Contains(string(text), " bare\n") {
		t.Fatalf("%v: %s", err, text)
	}
	seen := strings.Replace(string(text), " bare\n", "\n", 1)
	for _, both := range []string{string(text) + seen[len(lockHeader)+1:], seen + string(text)[len(lockHeader)+1:]} {
		if l, err := ParseLock([]byte(both)); err != nil || l.Servers["Git Hub"].Bare {
			t.Errorf("whoever has seen tools is right after a merge: %v, %+v", err, l.Servers)
		}
	}
}

func TestAnAcceptedTextOfAServerWithoutToolsIsNoSightOfTools(t *testing.T) {
	o := offer(t)
	o.Instructions, o.Blocking = "Hi.", []string{"bidi"}
	var l Lock
	if err := l.Accept(o, Pick{Digest: TextDigest("Hi.")}); err != nil {
		t.Fatal(err)
	}
	if got := standings(l.Judge(offer(t, toolA))); got != "a accepted" {
		t.Errorf("its first tool is %s", got)
	}
}

func TestAPersonAcceptsWhatTheyWereShown(t *testing.T) {
	base := after(Lock{}, offer(t, toolA, toolB))
	now := offer(t, toolA2, toolC)
	now.Tools[0].Blocking = []string{"bidi", "ansi", "bidi"}
	digest := func(i int) string { return now.Tools[i].Tool.Digest }

	l := clone(t, base)
	if err := l.Accept(now, Pick{"a", digest(0)}, Pick{"b", ""}); err != nil {
		t.Fatal(err)
	}
	if got := standings(l.Judge(now)); got != "a accepted, c new" {
		t.Errorf("after a yes to a and to the end of b: %s", got)
	}
	if got := fmt.Sprint(l.Servers["Git Hub"].Tools["a"].Despite); got != "[ansi bidi]" {
		t.Errorf("the findings it was taken with: %s", got)
	}
	now.Tools[0].Blocking = []string{"ansi", "tag-block"}
	if s := l.Judge(now).Tools[0]; s.State != Suspect || fmt.Sprint(s.Unwaived) != "[tag-block]" {
		t.Errorf("with a kind of finding nobody saw: %v %v", s.State, s.Unwaived)
	}

	for _, p := range []Pick{{"a", digest(1)}, {"a", ""}, {"b", digest(0)}, {"z", ""}, {"", serverA}} {
		l := clone(t, base)
		err := l.Accept(now, Pick{"c", digest(1)}, p)
		var moved *MovedError
		if !errors.As(err, &moved) || !l.Equal(base) {
			t.Errorf("pick %+v: %v", p, err)
		}
	}
}

func TestAYesToASwappedServerForgetsTheFormerOne(t *testing.T) {
	l := after(Lock{}, offer(t, toolA, toolB))
	o := offer(t, toolA, toolB)
	o.ServerID = serverB
	if err := l.Accept(o, Pick{"a", o.Tools[0].Tool.Digest}); err != nil {
		t.Fatal(err)
	}
	if got := standings(l.Judge(o)); got != "a accepted, b new" {
		t.Errorf("got %s", got)
	}
	if got := standings(l.Judge(offer(t, toolA))); got != "a new" {
		t.Errorf("the former command is %s", got)
	}
	broken := Lock{Broken: errors.New("x")}
	if err := broken.Accept(o, Pick{"a", o.Tools[0].Tool.Digest}); err == nil {
		t.Error("a lock that cannot be read took a yes")
	}
}

// Whatever a server does after its first sight, no definition is accepted that
// was not there then, and nothing is forgotten.
func TestNoSequenceOfOffersAcceptsAnythingNew(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 0))
	for range 500 {
		l, first := Lock{}, map[string]bool{}
		for step := range 6 {
			o := Offer{Key: "s", ServerID: []string{serverA, serverB}[r.IntN(8)/7]}
			for n := range r.IntN(5) {
				of := offered(t, "s", fmt.Sprintf(`{"name":"t%d","description":"%d"}`, n, r.IntN(2)))
				if r.IntN(6) == 0 {
					of.Blocking = []string{"bidi"}
				}
				o.Tools = append(o.Tools, of)
			}
			_, seen := l.Servers["s"]
			j := l.Judge(o)
			for _, s := range j.Tools {
				if s.State != Accepted {
					continue
				}
				if seen && !first[s.Offered.Tool.Digest] {
					t.Fatalf("step %d accepted %s", step, s.Offered.Tool.Raw)
				}
				if len(s.Offered.Blocking) > 0 || (seen && o.ServerID != l.Servers["s"].ServerID) {
					t.Fatalf("step %d accepted what is to be held: %+v", step, s)
				}
				first[s.Offered.Tool.Digest] = first[s.Offered.Tool.Digest] || !seen
			}
			next := after(l, o)
			if seen && !next.Equal(l) {
				t.Fatalf("step %d changed what was accepted", step)
			}
			l = next
		}
	}
}

func TestTheOwnersWordIsHeldOverAPin(t *testing.T) {
	p := Pin{Permission: engagement.Destructive, Egress: engagement.RowLevel, Domains: engagement.DomainsOf(engagement.DomainWeb)}
	if c := p.Under(Override{}); c.Permission != p.Permission || c.Egress != p.Egress || c.Domains != p.Domains || c.Why == "" {
		t.Errorf("without a word: %+v", c)
	}
	none := engagement.DomainSet(0)
	c := p.Under(Override{Permission: engagement.Read, Egress: engagement.Metadata, Domains: &none, From: "the configuration"})
	if c.Permission != engagement.Read || c.Egress != engagement.Metadata || !c.Domains.Empty() || !strings.Contains(c.Why, "the configuration") {
		t.Errorf("with one: %+v", c)
	}
}

func TestStatesHaveWords(t *testing.T) {
	for i, want := range []string{"accepted", "new", "changed", "suspect", "gone"} {
		var s State
		if err := s.UnmarshalText([]byte(want)); err != nil || s != States()[i] || s.String() != want {
			t.Errorf("%s: %v %v", want, s, err)
		}
	}
	if _, err := State(0).MarshalText(); err == nil {
		t.Error("no state has a word")
	}
}
