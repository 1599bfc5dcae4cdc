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
	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/policy"
)

// shop is a Caller with two servers that have more than tools, and a Standing.
type shop struct {
	mu       sync.Mutex
	sent     []string // "server method params" of each request, in order
	answers  map[string]func(ctx context.Context, params string) (string, error)
	declared map[string]string
	start    int

	leveling               func(level string) // while servers are told a level; nil: nothing
	following, unfollowing func() error       // how a server answers Subscribe and Unsubscribe; nil: as it likes
}

const everything = `{"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"completions":{},"logging":{}}`

func newShop() *shop {
	c := &shop{declared: map[string]string{"hub": everything, "mail": everything}, start: 1}
	c.answers = map[string]func(context.Context, string) (string, error){
		"hub prompts/list":              said(`{"prompts":[{"name":"summary", "title":"<Sum & up>","x":1e400},{"name":"dot.ted"}]}`),
		"mail prompts/list":             said(`{"prompts":[{"name":"summary"}]}`),
		"hub resources/list":            said(`{"resources":[{"uri":"doc://one","name":"one"},{"uri":"file:///a%20b?x#y","name":"two"}],"ttlMs":1000}`),
		"mail resources/list":           said(`{"resources":[{"uri":"doc://one","name":"mine"}]}`),
		"hub resources/templates/list":  said(`{"resourceTemplates":[{"uriTemplate":"doc://{id}/part","name":"part"}]}`),
		"mail resources/templates/list": said(`{"resourceTemplates":[{"uriTemplate":"mail://box/{id}","name":"mail"}]}`),
	}
	return c
}

func said(result string) func(context.Context, string) (string, error) {
	return func(context.Context, string) (string, error) { return result, nil }
}

func (c *shop) Call(ctx context.Context, server, method string, params json.RawMessage, _ func(json.RawMessage)) (json.RawMessage, error) {
	c.note(server, method, string(params))
	c.mu.Lock()
	answer := c.answers[server+" "+method]
	c.mu.Unlock()
	if answer == nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no " + method}
	}
	result, err := answer(ctx, string(params))
	return json.RawMessage(result), err
}

func (c *shop) note(parts ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = append(c.sent, strings.Join(parts, " "))
}

func (c *shop) set(of, result string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[of] = said(result)
}

// calls returns what was sent so far, beginning with prefix.
func (c *shop) calls(prefix string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var got []string
	for _, s := range c.sent {
		if strings.HasPrefix(s, prefix) {
			got = append(got, s)
		}
	}
	return got
}

func (c *shop) Up(string) error                    { return nil }
func (c *shop) Settled(context.Context, ...string) {}
func (c *shop) About(server string) About {
	c.mu.Lock()
	defer c.mu.Unlock()
	return About{Capabilities: json.RawMessage(c.declared[server]), Start: c.start}
}
func (c *shop) Subscribe(_ context.Context, server, uri string) error {
	c.note(server, "subscribe", uri)
	if c.following != nil {
		return c.following()
	}
	if uri == "doc://none" {
		return &jsonrpc.Error{Code: CodeNotFound, Message: "no such resource"}
	}
	return nil
}
func (c *shop) Unsubscribe(_ context.Context, server, uri string) error {
	c.note(server, "unsubscribe", uri)
	if c.unfollowing != nil {
		return c.unfollowing()
	}
	return nil
}
func (c *shop) SetLogLevel(_ context.Context, level string) {
	if c.leveling != nil {
		c.leveling(level)
	}
	c.note("level", level)
}
func (c *shop) Notify(_ context.Context, server, method string, _ json.RawMessage) {
	c.note(server, method)
}

func openShop(t *testing.T, edit func(*Options)) (*shop, *rig, *Session) {
	t.Helper()
	c := newShop()
	r := newRig(t, func(o *Options) {
		o.Caller = c
		if edit != nil {
			edit(o)
		}
	})
	return c, r, r.open(t, Identity{})
}

// theirs is a list without the gate's own entries, which stand first.
func theirs(s *Session, kind Kind, l List) string {
	items := string(l.Items)
	for _, own := range s.gateList(kind) {
		items = "[" + strings.TrimPrefix(strings.TrimPrefix(items, "["+string(own)), ",")
	}
	return items
}

// Rows in the words of a list leave no more than those of a result do; entries
// side by side are no rows.
func TestAListWithholdsTheWordsThatMayNotLeave(t *testing.T) {
	const rows = `name,mail\nAnn,ann@example.com\nBob,bob@example.com\nCid,cid@example.com`
	lists := map[Kind]struct{ method, came, strict string }{
		Resources: {"hub resources/list", `{"resources":[{"uri":"doc://a","name":"a","description":"` + rows + `","mimeType":"text/plain"},{"uri":"doc://b","name":"` + rows + `"},{"uri":"doc://c","name":"c","title":"C"},{"uri":"doc://d","name":"d","title":"D"},{"uri":"doc://e","name":"e","title":"E"}]}`,
			`[{"uri":"mcp-gate://hub/doc://a","name":"a","mimeType":"text/plain"},{"uri":"mcp-gate://hub/doc://c","name":"c","title":"C"},{"uri":"mcp-gate://hub/doc://d","name":"d","title":"D"},{"uri":"mcp-gate://hub/doc://e","name":"e","title":"E"}]`},
		Templates: {"hub resources/templates/list", `{"resourceTemplates":[{"uriTemplate":"doc://{id}","name":"a","_meta":{"x":["` + rows + `"]}}]}`, `[{"uriTemplate":"mcp-gate://hub/doc://{id}","name":"a"}]`},
		Prompts:   {"hub prompts/list", `{"prompts":[{"name":"p","arguments":[{"name":"q","description":"` + rows + `","required":true},{"name":"r"}]}]}`, `[{"name":"hub_p","arguments":[{"name":"q","required":true},{"name":"r"}]}]`},
	}
	for _, egress := range []engagement.EgressSet{engagement.AllEgress(), engagement.EgressOf(engagement.Metadata, engagement.Aggregates)} {
		c, _, s := openShop(t, func(o *Options) {
			o.Profiles = map[string]Profile{"": {Servers: []string{"hub"}}}
			for i := range o.Servers {
				o.Servers[i].Policy.Egress = egress
			}
		})
		for kind, of := range lists {
			c.set(of.method, of.came)
			got := theirs(s, kind, s.List(t.Context(), kind))
			if whole := strings.Contains(got, "ann@"); whole != (egress == engagement.AllEgress()) {
				t.Errorf("%v: %s", egress, got)
			}
			if egress != engagement.AllEgress() && got != of.strict {
				t.Errorf("got  %s\nwant %s", got, of.strict)
			}
		}
	}
}

func TestListsOfSeveralServersNeverCollide(t *testing.T) {
	_, _, s := openShop(t, nil)
	tests := []struct {
		kind Kind
		want string
	}{
		{Prompts, `[{"name":"hub_dot_ted_HASH"},{"name":"hub_summary", "title":"<Sum & up>","x":1e400},{"name":"mail_summary"}]`},
		{Resources, `[{"uri":"mcp-gate://hub/doc://one","name":"one"},{"uri":"mcp-gate://hub/file:///a%20b?x#y","name":"two"},{"uri":"mcp-gate://mail/doc://one","name":"mine"}]`},
		{Templates, `[{"uriTemplate":"mcp-gate://hub/doc://{id}/part","name":"part"},{"uriTemplate":"mcp-gate://mail/mail://box/{id}","name":"mail"}]`},
	}
	for _, tt := range tests {
		want := strings.Replace(tt.want, "hub_dot_ted_HASH", s.outName("hub", Prompts, "dot.ted"), 1)
		if got := theirs(s, tt.kind, s.List(t.Context(), tt.kind)); got != want {
			t.Errorf("%d: got  %s\nwant %s", tt.kind, got, want)
		}
	}
	if ttl := s.List(t.Context(), Resources).TTL; ttl != time.Second {
		t.Errorf("the shortest age that a server gave counts: got %v", ttl)
	}
}

func TestATransparentServerIsShownAsItIs(t *testing.T) {
	c, _, s := openShop(t, func(o *Options) {
		o.Profiles[""] = Profile{Exposure: Transparent, Authority: engagement.DefaultAuthority(), Servers: []string{"hub"}}
	})
	if got := string(s.List(t.Context(), Resources).Items); got != `[{"uri":"doc://one","name":"one"},{"uri":"file:///a%20b?x#y","name":"two"}]` {
		t.Errorf("list: %s", got)
	}
	if got := string(s.Capabilities()); got != everything {
		t.Errorf("capabilities: %s", got)
	}
	c.mu.Lock()
	c.declared["hub"] = `{"tools":{},"tasks":{"list":{}},"resources":null,"prompts":{}}`
	c.mu.Unlock()
	if got := string(s.Capabilities()); got != `{"tools":{},"prompts":{}}` {
		t.Errorf("what the gate does not carry is not declared: %s", got)
	}
	c.mu.Lock()
	c.declared["hub"] = `{"logging":null}`
	c.mu.Unlock()
	if got := string(s.Capabilities()); got != `{"tools":{}}` {
		t.Errorf("a server that declares nothing may have tools: %s", got)
	}
}

func TestRequestsFindTheirWayBack(t *testing.T) {
	c, r, s := openShop(t, nil)
	c.set("hub prompts/get", `{"messages":[]}`)
	c.set("mail prompts/get", `{"messages":[1]}`)
	c.set("hub resources/read", `{"contents":[{"uri":"doc://one", "text":"<a>"},{"uri":"doc://one/2","blob":""}]}`)
	c.set("mail resources/read", `{"contents":[{"uri":"mail://box/7"}]}`)
	c.set("mail resources/templates/list", `{"resourceTemplates":[{"uriTemplate":"mail://box/{id}","name":"mail"},{"uriTemplate":"Gate://{x}","name":"imitation"}]}`)
	c.set("hub completion/complete", `{"completion":{"values":["a"]}}`)
	tests := []struct {
		name      string
		req       Request
		sent, got string // sent is empty where nothing may be
	}{
		{"a prompt under its own name, arguments as they came", Request{Method: "prompts/get", Name: "hub_summary", Args: json.RawMessage(`{"name":"hub_summary","arguments":{"t":"a&b" }}`)},
			`hub prompts/get {"name":"summary","arguments":{"t":"a&b" }}`, `{"messages":[]}`},
		{"the other server's prompt of that name", Request{Method: "prompts/get", Name: "mail_summary", Args: json.RawMessage(`{"name":"mail_summary"}`), Meta: json.RawMessage(`{"traceparent":"00-1"}`)},
			`mail prompts/get {"name":"summary","_meta":{"traceparent":"00-1"}}`, `{"messages":[1]}`},
		{"a prompt that nobody has", Request{Method: "prompts/get", Name: "summary", Args: json.RawMessage(`{"name":"summary"}`)}, "", `-32602 there is no prompt "summary"`},
		{"a resource, and its name in the answer", Request{Method: "resources/read", Name: "mcp-gate://hub/doc://one", Args: json.RawMessage(`{"uri":"mcp-gate://hub/doc://one"}`)},
			`hub resources/read {"uri":"doc://one"}`, `{"contents":[{"uri":"mcp-gate://hub/doc://one", "text":"<a>"},{"uri":"mcp-gate://hub/doc://one/2","blob":""}]}`},
		{"one that is in no list", Request{Method: "resources/read", Name: "mcp-gate://mail/x:y", Args: json.RawMessage(`{"uri":"mcp-gate://mail/x:y"}`)},
			`mail resources/read {"uri":"x:y"}`, `{"contents":[{"uri":"mcp-gate://mail/mail://box/7"}]}`},
		{"a bare URI that two servers list", Request{Method: "resources/read", Name: "doc://one", Args: json.RawMessage(`{"uri":"doc://one"}`)}, "", "-32002 "},
		{"a bare URI that fits one template", Request{Method: "resources/read", Name: "mail://box/7", Args: json.RawMessage(`{"uri":"mail://box/7"}`)},
			`mail resources/read {"uri":"mail://box/7"}`, `{"contents":[{"uri":"mail://box/7"}]}`},
		{"a bare URI of the gate's own", Request{Method: "resources/read", Name: "Gate://rules", Args: json.RawMessage(`{"uri":"Gate://rules"}`)}, "", "-32002 "},
		{"a server that is not shown", Request{Method: "resources/read", Name: "mcp-gate://nobody/x", Args: json.RawMessage(`{"uri":"mcp-gate://nobody/x"}`)}, "", "-32002 "},
		{"a completion for a prompt", Request{Method: "completion/complete", Args: json.RawMessage(`{"ref":{"type":"ref/prompt","name":"hub_summary"},"argument":{"name":"t","value":"<"}}`)},
			`hub completion/complete {"ref":{"type":"ref/prompt","name":"summary"},"argument":{"name":"t","value":"<"}}`, `{"completion":{"values":["a"]}}`},
		{"a completion for a template", Request{Method: "completion/complete", Args: json.RawMessage(`{"ref":{"type":"ref/resource","uri":"mcp-gate://hub/doc://{id}/part"},"argument":{}}`)},
			`hub completion/complete {"ref":{"type":"ref/resource","uri":"doc://{id}/part"},"argument":{}}`, `{"completion":{"values":["a"]}}`},
		{"a completion for nothing known", Request{Method: "completion/complete", Args: json.RawMessage(`{"ref":{"type":"ref/tool"}}`)}, "", `-32602 unknown kind`},
		{"a method that is not carried", Request{Method: "tasks/get", Args: json.RawMessage(`{}`)}, "", "-32601 "},
	}
	for _, tt := range tests {
		before := len(c.calls(""))
		out := s.Call(t.Context(), tt.req)
		got := string(out.Result)
		if out.Error != nil {
			got = fmt.Sprintf("%d %s", out.Error.Code, out.Error.Message)
		}
		if got != tt.got && (out.Error == nil || !strings.HasPrefix(got, tt.got)) {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.got)
		}
		var sent []string
		for _, line := range c.calls("")[before:] {
			if !strings.Contains(line, "/list ") {
				sent = append(sent, line)
			}
		}
		if want := tt.sent; strings.Join(sent, "\n") != want {
			t.Errorf("%s: sent %q, want %q", tt.name, sent, want)
		}
	}
	if got, want := r.log.kinds(), "intent outcome"; !strings.HasPrefix(got, want) {
		t.Errorf("audit: %s, want it to begin with %s", got, want)
	}
}

func TestReadingIsJudged(t *testing.T) {
	read := Request{Method: "resources/read", Name: "mcp-gate://hub/doc://one", Args: json.RawMessage(`{"uri":"mcp-gate://hub/doc://one"}`)}
	tests := []struct {
		name string
		edit func(*Options)
		want string // beginning of the refusal; "" runs
	}{
		{"records may leave", func(*Options) {}, ""},
		{"records may not leave", func(o *Options) { o.Servers[0].Policy.Egress = policy.Default().Egress }, "refused [egress]"},
		{"the owner says what it carries", func(o *Options) {
			o.Servers[0].Policy.Egress = policy.Default().Egress
			o.Servers[0].Owner = ownerSays("resources/read", engagement.Metadata)
		}, ""},
		{"a rule denies the method", rules(policy.Record{Do: "deny", Tools: policy.Words{"hub/resources/read"}}), "refused [rule]"},
		{"a rule denies one URI", rules(policy.Record{Do: "deny", Tools: policy.Words{"hub/**"}, Args: map[string]policy.ArgRecord{"/uri": argGlob("doc://o*")}}), "refused [rule]"},
		{"a rule about another URI", rules(policy.Record{Do: "deny", Tools: policy.Words{"hub/**"}, Args: map[string]policy.ArgRecord{"/uri": argGlob("doc://x*")}}), ""},
		{"a hidden one is unknown", rules(policy.Record{Do: "hide", Tools: policy.Words{"hub/resources/*"}}), "refused [unknown]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, _, s := openShop(t, tt.edit)
			c.set("hub resources/read", `{"contents":[]}`)
			out := s.Call(t.Context(), read).AsError()
			switch {
			case tt.want == "" && (out.Error != nil || len(c.calls("hub resources/read")) != 1):
				t.Errorf("did not run: %+v", out)
			case tt.want != "" && (out.Error == nil || out.Error.Code != CodeRefused || !strings.HasPrefix(out.Error.Message, tt.want)):
				t.Errorf("got %s %+v, want an error that begins with %s", out.Result, out.Error, tt.want)
			case tt.want != "" && len(c.calls("hub resources/read")) != 0:
				t.Errorf("sent: %q", c.calls(""))
			}
		})
	}
}

func TestWhatARuleHidesIsNotListed(t *testing.T) {
	_, _, s := openShop(t, rules(
		policy.Record{Do: "hide", Tools: policy.Words{"mail/prompts/get"}},
		policy.Record{Do: "hide", Tools: policy.Words{"hub/prompts/get"}, Args: map[string]policy.ArgRecord{"/name": argGlob("dot*")}},
	))
	if got := theirs(s, Prompts, s.List(t.Context(), Prompts)); got != `[{"name":"hub_summary", "title":"<Sum & up>","x":1e400}]` {
		t.Errorf("got %s", got)
	}
}

func TestAPersonIsAskedAboutAReading(t *testing.T) {
	c, r, s := openShop(t, rules(policy.Record{Do: "ask", Tools: policy.Words{"hub/resources/read"}}))
	c.set("hub resources/read", `{"contents":[]}`)
	req := Request{Method: "resources/read", Name: "mcp-gate://hub/doc://one", Args: json.RawMessage(`{"uri":"mcp-gate://hub/doc://one"}`), CanAsk: true}
	out := s.Call(t.Context(), req)
	if out.Ask == nil || !strings.Contains(out.Ask.Message, "doc://one") {
		t.Fatalf("nobody was asked: %+v %s", out, out.Result)
	}
	r.later(2 * time.Second)
	out = s.Resume(t.Context(), out.Ask.Ticket, Reply{Action: Accepted, Decision: "allow-once", After: 2 * time.Second}, req)
	if string(out.Result) != `{"contents":[]}` {
		t.Errorf("after the yes: %s %v", out.Result, out.Error)
	}
	if got := c.calls("hub resources/read"); len(got) != 1 || got[0] != `hub resources/read {"uri":"doc://one"}` {
		t.Errorf("sent %q", got)
	}
}

func TestListsAreFollowedToTheirEnd(t *testing.T) {
	pages := func(of map[string]string) func(context.Context, string) (string, error) {
		return func(_ context.Context, params string) (string, error) {
			if page, ok := of[params]; ok {
				return page, nil
			}
			return "", errors.New("no page for " + params)
		}
	}
	tests := []struct {
		name, want string
		of         map[string]string
	}{
		{"an empty cursor is one", "a b", map[string]string{"": `{"prompts":[{"name":"a"}],"nextCursor":""}`, `{"cursor":""}`: `{"prompts":[{"name":"b"}]}`}},
		{"a cursor that stands still", "a", map[string]string{"": `{"prompts":[{"name":"a"}],"nextCursor":"x"}`, `{"cursor":"x"}`: `{"prompts":[{"name":"a"}],"nextCursor":"x"}`}},
		{"an empty page in between, and the order of names", "a b c", map[string]string{"": `{"prompts":[{"name":"c"},{"name":"b"}],"nextCursor":"x"}`,
			`{"cursor":"x"}`: `{"prompts":[],"nextCursor":"y"}`, `{"cursor":"y"}`: `{"prompts":[{"name":"a"}]}`}},
		{"a page of what came before", "a", map[string]string{"": `{"prompts":[{"name":"a"}],"nextCursor":"x"}`, `{"cursor":"x"}`: `{"prompts":[{"name":"a"}],"nextCursor":"y"}`}},
		{"entries that are none", "a", map[string]string{"": `{"prompts":[null,{"name":""},{"title":"x"},{"name":7},{"name":"a"},{"name":"a"}]}`}},
		{"keys of the gate are taken out", "a", map[string]string{"": `{"prompts":[{"name":"a","_meta":{"mcp-gate/ticket":1}}]}`}},
		{"what is no list", "", map[string]string{"": `{"prompts":{}}`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, r, _ := openShop(t, nil)
			c.answers["hub prompts/list"] = pages(tt.of)
			var names []string
			for _, it := range r.gate.items(t.Context(), "hub", Prompts) {
				names = append(names, it.key)
				if strings.Contains(string(it.raw), "mcp-gate/") {
					t.Errorf("kept: %s", it.raw)
				}
			}
			if got := strings.Join(names, " "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestEmptyPagesWithoutEnd(t *testing.T) {
	c, r, _ := openShop(t, nil)
	asked := 0
	c.answers["hub prompts/list"] = func(context.Context, string) (string, error) {
		asked++
		return fmt.Sprintf(`{"prompts":[],"nextCursor":"%d"}`, asked), nil
	}
	if items := r.gate.items(t.Context(), "hub", Prompts); len(items) != 0 || asked != maxEmptyList {
		t.Errorf("got %v after %d pages, want none after %d", items, asked, maxEmptyList)
	}
}

func TestAListIsAskedForWhenItMayHaveChanged(t *testing.T) {
	c, r, s := openShop(t, nil)
	asked := func(server string) int { return len(c.calls(server + " prompts/list")) }
	step := func(what string, hub, mail int) {
		t.Helper()
		s.List(t.Context(), Prompts)
		if asked("hub") != hub || asked("mail") != mail {
			t.Errorf("%s: asked %d and %d times, want %d and %d", what, asked("hub"), asked("mail"), hub, mail)
		}
	}
	step("at first", 1, 1)
	step("nothing happened", 1, 1)
	r.gate.Notice(t.Context(), "hub", "notifications/prompts/list_changed", nil)
	step("one said so", 2, 1)
	c.mu.Lock()
	c.start++
	c.mu.Unlock()
	step("both were started anew", 3, 2)
	c.mu.Lock()
	c.declared["mail"] = `{"prompts":{}}`
	c.mu.Unlock()
	step("one never says so", 3, 3)
	step("and is asked each time", 3, 4)
	c.answers["mail prompts/list"] = func(context.Context, string) (string, error) { return "", errors.New("gone") }
	if got := string(s.List(t.Context(), Prompts).Items); !strings.Contains(got, "mail_summary") {
		t.Errorf("the last list stays when a server does not answer: %s", got)
	}
	c.mu.Lock()
	c.declared["mail"] = `{"tools":{}}`
	c.mu.Unlock()
	step("one has none any more", 3, 5)
}

func TestChangesAreToldOnceAndOnlyWhenSomethingIsDifferent(t *testing.T) {
	c, r, s := openShop(t, nil)
	synctest.Test(t, func(t *testing.T) {
		r.gate.features.wake = nil // of this bubble
		var told []string
		defer s.Listen(&Listener{Tell: func(method string, _ json.RawMessage) { told = append(told, method) }})()
		s.List(t.Context(), Prompts)
		before := len(c.calls("hub prompts/list"))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.gate.RunFeatures(ctx) }()
		for range 100 { // a flood that means nothing
			r.gate.Notice(ctx, "hub", "notifications/prompts/list_changed", nil)
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if len(told) != 0 {
			t.Errorf("told of no change: %q", told)
		}
		if n := len(c.calls("hub prompts/list")) - before; n == 0 || n > 3 {
			t.Errorf("the list was asked for %d times in 2 s of notifications", n)
		}
		c.set("hub prompts/list", `{"prompts":[{"name":"new"}]}`)
		r.gate.Notice(ctx, "hub", "notifications/prompts/list_changed", nil)
		r.gate.Notice(ctx, "hub", "notifications/resources/list_changed", nil) // never given out
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if !slices.Equal(told, []string{"notifications/prompts/list_changed"}) {
			t.Errorf("told %q", told)
		}
		stop()
		<-done
	})
}

func TestUpdatesGoToThoseWhoFollow(t *testing.T) { synctest.Test(t, updatesGoToThoseWhoFollow) }

func updatesGoToThoseWhoFollow(t *testing.T) {
	c, r, s := openShop(t, nil)
	other := r.open(t, Identity{Principal: "other", Scope: policy.ScopeRead})
	var mine, theirs []string
	listen := func(s *Session, into *[]string, only *Filter) {
		t.Cleanup(s.Listen(&Listener{Only: only, Tell: func(_ string, params json.RawMessage) { *into = append(*into, string(params)) }}))
	}
	listen(s, &mine, nil)
	listen(s, &mine, nil) // a second stream gets nothing twice
	listen(other, &theirs, &Filter{URIs: []string{"mcp-gate://hub/doc://one"}})
	for _, s := range []*Session{s, other} {
		if e := s.Subscribe(t.Context(), "mcp-gate://hub/doc://one"); e != nil {
			t.Fatal(e)
		}
	}
	if e := s.Subscribe(t.Context(), "mcp-gate://hub/doc://none"); e == nil || e.Code != CodeNotFound {
		t.Errorf("a server's no: %v", e)
	}
	r.gate.Notice(t.Context(), "hub", "notifications/resources/updated", json.RawMessage(`{"uri":"doc://one/part", "x":1}`))
	r.gate.Notice(t.Context(), "hub", "notifications/resources/updated", json.RawMessage(`{"uri":"doc://onerous"}`))
	r.gate.Notice(t.Context(), "mail", "notifications/resources/updated", json.RawMessage(`{"uri":"doc://one"}`))
	want := []string{`{"uri":"mcp-gate://hub/doc://one/part", "x":1}`}
	if !slices.Equal(mine, want) || !slices.Equal(theirs, want) {
		t.Errorf("got %q and %q, want %q each", mine, theirs, want)
	}
	if e := s.Unsubscribe(t.Context(), "mcp-gate://hub/doc://one"); e != nil {
		t.Error(e)
	}
	time.Sleep(time.Second)
	r.gate.Notice(t.Context(), "hub", "notifications/resources/updated", json.RawMessage(`{"uri":"doc://one"}`))
	if len(mine) != 1 || len(theirs) != 2 {
		t.Errorf("after one left: %q and %q", mine, theirs)
	}
	other.Close()
	want = []string{"hub subscribe doc://one", "hub subscribe doc://none", "hub unsubscribe doc://one"}
	var got []string
	for _, line := range c.calls("hub ") {
		if strings.Contains(line, "subscribe") {
			got = append(got, line)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("servers were told %q, want %q", got, want)
	}
}

// A server that tells of a change without a pause costs the client a few notices,
// and the last of them comes after the last change.
func TestUpdatesWithoutEndAreToldNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, r, s := openShop(t, nil)
		heard := make(chan string, 100)
		t.Cleanup(s.Listen(&Listener{Tell: func(_ string, params json.RawMessage) { heard <- string(params) }}))
		told := func() (all []string) {
			synctest.Wait()
			for len(heard) > 0 {
				all = append(all, <-heard)
			}
			return all
		}
		if e := s.Subscribe(t.Context(), "mcp-gate://hub/doc://one"); e != nil {
			t.Fatal(e)
		}
		changed := func(uri string) {
			r.gate.Notice(t.Context(), "hub", "notifications/resources/updated", json.RawMessage(`{"uri":"`+uri+`"}`))
		}
		const one, part = `{"uri":"mcp-gate://hub/doc://one"}`, `{"uri":"mcp-gate://hub/doc://one/a"}`
		for range 10_000 {
			changed("doc://one/a")
			time.Sleep(time.Millisecond)
		}
		if got := told(); len(got) < 4 || len(got) > 8 || got[0] != part {
			t.Errorf("told %q in 10 s", got)
		}
		time.Sleep(maxUpdatePause)
		if got := told(); !slices.Equal(got, []string{part}) {
			t.Errorf("the last change gave %q", got)
		}
		time.Sleep(2 * maxUpdatePause)
		for _, uri := range []string{"doc://one/a", "doc://one/a", "doc://one/b"} {
			changed(uri)
		}
		time.Sleep(updatePause)
		if got := told(); !slices.Equal(got, []string{part, one}) {
			t.Errorf("two parts gave %q", got)
		}
		changed("doc://one")
		if e := s.Unsubscribe(t.Context(), "mcp-gate://hub/doc://one"); e != nil {
			t.Error(e)
		}
		time.Sleep(time.Minute)
		if got := told(); len(got) != 0 {
			t.Errorf("told of what is not followed any more: %q", got)
		}
	})
}

func ownerSays(tool string, e engagement.Egress) func(string) (o catalog.Override) {
	return func(name string) (o catalog.Override) {
		if name == tool {
			o.Egress = e
		}
		return o
	}
}

func argGlob(pattern string) policy.ArgRecord { return policy.ArgRecord{Glob: policy.Words{pattern}} }

// notes returns the audit lines of a kind about a tool.
func (l *ledger) about(kind, tool string) (found []audit.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		if e.Kind == kind && e.Tool == tool {
			found = append(found, e)
		}
	}
	return found
}

// Whoever wants to follow a resource while its server is asked about it gets what
// comes of that, and asks himself where it failed.
func TestSubscriptionsSideBySide(t *testing.T) {
	tests := []struct {
		name  string
		first error
		same  bool // both are of one session
		want  []string
	}{
		{"the first succeeds", nil, false, []string{"hub subscribe doc://one"}},
		{"the first fails", errors.New("it went away"), false, []string{"hub subscribe doc://one", "hub subscribe doc://one"}},
		{"the first of one session fails", errors.New("it went away"), true, []string{"hub subscribe doc://one", "hub subscribe doc://one"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, r, a := openShop(t, nil)
				b := a
				if !tt.same {
					b = r.open(t, Identity{})
				}
				asked, answer := make(chan bool, 1), make(chan error, 1)
				c.following = func() error {
					asked <- true
					return <-answer
				}
				done := make(chan *jsonrpc.Error, 2)
				follow := func(s *Session) { done <- s.Subscribe(t.Context(), "mcp-gate://hub/doc://one") }
				go follow(a)
				<-asked
				go follow(b)
				synctest.Wait()
				if len(done) > 0 {
					t.Fatal("one that follows was told so before the server had answered")
				}
				answer <- tt.first
				if e := <-done; (e != nil) != (tt.first != nil) {
					t.Errorf("the first: %v", e)
				}
				if tt.first != nil {
					<-asked
					answer <- nil
				}
				if e := <-done; e != nil {
					t.Errorf("the second: %v", e)
				}
				if got := c.calls("hub subscribe"); !slices.Equal(got, tt.want) {
					t.Errorf("the server was told %q, want %q", got, tt.want)
				}
				a.Close()
				b.Close()
				if got := c.calls("hub unsubscribe"); len(got) != 1 {
					t.Errorf("in the end the server was told %q", got)
				}
			})
		})
	}
}

// One that begins to follow while the last one is ending it waits, so that the
// server hears of it afterwards.
func TestASubscriptionComesAfterTheEndOfTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r, a := openShop(t, nil)
		b := r.open(t, Identity{})
		if e := a.Subscribe(t.Context(), "mcp-gate://hub/doc://one"); e != nil {
			t.Fatal(e)
		}
		asked, answer := make(chan bool, 1), make(chan error, 1)
		c.unfollowing = func() error {
			asked <- true
			return <-answer
		}
		done := make(chan *jsonrpc.Error, 2)
		go func() { done <- a.Unsubscribe(t.Context(), "mcp-gate://hub/doc://one") }()
		<-asked
		go func() { done <- b.Subscribe(t.Context(), "mcp-gate://hub/doc://one") }()
		synctest.Wait()
		if got := c.calls("hub subscribe"); len(got) != 1 {
			t.Errorf("the server was told %q while it was told the end", got)
		}
		answer <- nil
		if a, b := <-done, <-done; a != nil || b != nil {
			t.Errorf("%v, %v", a, b)
		}
		if got := c.calls("hub subscribe"); len(got) != 2 {
			t.Errorf("the server was told %q", got)
		}
		c.unfollowing = nil
	})
}

// Of more visits than are remembered the oldest are forgotten, and those of a
// session that is over.
func TestVisitsAreForgottenFromTheOldestOn(t *testing.T) {
	var r relay
	a, b := &Session{}, &Session{}
	visit := func(n int) watch { return watch{server: "hub", name: fmt.Sprint(n)} }
	for n := range maxOpened + 2 {
		s := a
		if n%2 == 1 {
			s = b
		}
		r.note(visit(n), s)
	}
	if r.visited(visit(1)) != nil || r.visited(visit(2)) != a || r.visited(visit(maxOpened+1)) != b || r.visited(visit(2)) != nil {
		t.Error("not the oldest were forgotten")
	}
	r.forget(b)
	if r.visited(visit(3)) != nil || r.visited(visit(4)) != a {
		t.Error("what a session leaves behind is not what is forgotten")
	}
}

func TestServersEndAtTheLevelThatWasWantedLast(t *testing.T) {
	c, _, a := openShop(t, nil)
	asking, late := make(chan struct{}), make(chan struct{})
	c.leveling = func(level string) {
		if level == "error" {
			close(late)
			return
		}
		close(asking)
		select { // the next level is told meanwhile, if it can be
		case <-late:
		case <-time.After(50 * time.Millisecond):
		}
	}
	var both sync.WaitGroup
	both.Go(func() { a.SetLogLevel(t.Context(), "debug") })
	<-asking
	both.Go(func() { a.SetLogLevel(t.Context(), "error") })
	both.Wait()
	if got, want := c.calls("level "), []string{"level debug", "level error"}; !slices.Equal(got, want) {
		t.Errorf("servers were told %q, want %q", got, want)
	}
}

func TestTheLogLevelFallsWithWhoWantedIt(t *testing.T) {
	c, r, a := openShop(t, nil)
	b := r.open(t, Identity{})
	a.SetLogLevel(t.Context(), "error")
	b.SetLogLevel(t.Context(), "debug")
	b.Close()
	a.Close()
	want := []string{"level error", "level debug", "level error", "level info"}
	if got := c.calls("level "); !slices.Equal(got, want) {
		t.Errorf("servers were told %q, want %q", got, want)
	}
}
