package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
)

// renewable runs f with a pool of servers a and b in a bubble. Each answers
// tools/call with its launch, "slow" after five seconds, "stuck" never.
func renewable(t *testing.T, o Options, f func(t *testing.T, p *Pool)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p, err := NewPool([]Server{inPlace("a", "1"), inPlace("b", "1")}, o)
		if err != nil {
			t.Fatal(err)
		}
		p.open = func(_ context.Context, s *server) (conn, error) {
			return peer(func(say func(string), m jsonrpc.Message) {
				if m.Method != "tools/call" {
					return
				}
				answer := func() { say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"launch":"` + s.cfg.Launch + `"}}`) }
				switch textMember(m.Params, "name") {
				case "slow":
					time.AfterFunc(5*time.Second, answer)
				case "stuck":
				default:
					answer()
				}
			})(s)
		}
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			_ = p.Run(ctx)
		}()
		defer func() {
			cancel()
			<-over
		}()
		if err := p.Settled(ctx); err != nil {
			t.Fatal(err)
		}
		f(t, p)
	})
}

func inPlace(alias, launch string) Server {
	return Server{Alias: alias, Launch: launch, Command: []string{"in-memory"}}
}

// began makes a call and returns what will come of it.
func began(t *testing.T, p *Pool, alias, tool string) func() (Response, time.Duration, error) {
	t.Helper()
	type end struct {
		resp Response
		err  error
		took time.Duration
	}
	ended, start := make(chan end, 1), time.Now()
	go func() {
		resp, err := p.Call(t.Context(), alias, toolCall(tool, ""))
		ended <- end{resp, err, time.Since(start)}
	}()
	synctest.Wait()
	return func() (Response, time.Duration, error) {
		e := <-ended
		return e.resp, e.took, e.err
	}
}

func renew(t *testing.T, p *Pool, servers ...Server) Renewed {
	t.Helper()
	done, err := p.Renew(servers)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func launchOf(t *testing.T, p *Pool, alias string) string {
	t.Helper()
	resp, err := p.Call(t.Context(), alias, toolCall("t", ""))
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Launch string }
	if err := json.Unmarshal(resp.Result, &got); err != nil {
		t.Fatal(err)
	}
	return got.Launch
}

func TestServersComeAndGo(t *testing.T) {
	renewable(t, Options{}, func(t *testing.T, p *Pool) {
		stays := p.find("a")
		done := renew(t, p, inPlace("c", "1"), inPlace("a", "1"), inPlace("b", "2"))
		if got := [3]string{strings.Join(done.Added, " "), strings.Join(done.Changed, " "), strings.Join(done.Removed, " ")}; got != [3]string{"c", "b", ""} {
			t.Errorf("got %q", got)
		}
		if p.find("a") != stays {
			t.Error("a server that stays was started anew")
		}
		for alias, want := range map[string]string{"a": "1", "b": "2", "c": "1"} {
			if got := launchOf(t, p, alias); got != want {
				t.Errorf("%s was launched as %q, want %q", alias, got, want)
			}
		}
		var order []string
		for _, st := range p.Status() {
			order = append(order, st.Alias)
		}
		if !slices.Equal(order, []string{"c", "a", "b"}) {
			t.Errorf("the order is %v", order)
		}
		if done := renew(t, p, inPlace("a", "1")); len(done.Removed) != 2 {
			t.Errorf("got %+v", done)
		}
		resp, err := p.Call(t.Context(), "b", toolCall("t", ""))
		wantKind(t, UnknownServer, resp, err)
		if _, ok := p.Listing("b"); ok {
			t.Error("a server that was taken out still lists tools")
		}
	})
}

// Who follows a resource goes on following it when its server was taken out and
// comes back.
func TestWishesOutliveAServersAbsence(t *testing.T) {
	renewable(t, Options{}, func(t *testing.T, p *Pool) {
		for _, uri := range []string{"x:1", "x:2"} {
			p.find("b").wishes.follow(uri, true)
		}
		renew(t, p, inPlace("a", "1"))
		if _, err := p.Unsubscribe(t.Context(), "b", "x:2"); err == nil {
			t.Error("a server that is not there takes an unsubscription")
		}
		renew(t, p, inPlace("a", "1"))
		renew(t, p, inPlace("a", "1"), inPlace("b", "1"))
		if got := p.find("b").wishes.now().uris; !slices.Equal(got, []string{"x:1"}) {
			t.Errorf("%q are followed", got)
		}
		if len(p.left) != 0 {
			t.Errorf("%v is kept of servers that are there", p.left)
		}
	})
}

// The level of log messages that clients want is asked of servers that are added,
// put back or replaced, too.
func TestALogLevelIsWantedOfServersThatCome(t *testing.T) {
	renewable(t, Options{}, func(t *testing.T, p *Pool) {
		p.SetLogLevel(t.Context(), "warning")
		renew(t, p, inPlace("a", "2"))
		p.SetLogLevel(t.Context(), "error")
		renew(t, p, inPlace("a", "3"), inPlace("b", "1"), inPlace("c", "1"))
		for _, s := range p.all() {
			if got := s.wishes.now().level; got != "error" {
				t.Errorf("%s is asked for %q", s.cfg.Alias, got)
			}
		}
	})
}

// Calls that a server works on when another one takes its place end as they
// would have, or in an error once their time is over.
func TestCallsOutliveTheirServersEntry(t *testing.T) {
	renewable(t, Options{}, func(t *testing.T, p *Pool) {
		slow, stuck, other := began(t, p, "a", "slow"), began(t, p, "a", "stuck"), began(t, p, "b", "slow")
		renew(t, p, inPlace("a", "2"), inPlace("b", "1"))
		if got := launchOf(t, p, "a"); got != "2" {
			t.Errorf("a new call went to launch %q", got)
		}
		for name, end := range map[string]func() (Response, time.Duration, error){"a": slow, "b": other} {
			if resp, took, err := end(); err != nil || string(resp.Result) != `{"launch":"1"}` || took != 5*time.Second {
				t.Errorf("%s gave %s, %v after %v", name, resp.Result, err, took)
			}
		}
		resp, took, err := stuck()
		e := wantKind(t, Withdrawn, resp, err)
		if took != drain || !e.MayHaveRun() {
			t.Errorf("it ended after %v: %v", took, e)
		}
		contains(t, e.Error(), "was ended before it answered tools/call", "its owner changed its entry in the configuration", "may or may not have run")

		stuck = began(t, p, "b", "stuck")
		renew(t, p, inPlace("a", "2"))
		resp, took, err = stuck()
		e = wantKind(t, Withdrawn, resp, err)
		if took != drain {
			t.Errorf("it ended after %v", took)
		}
		contains(t, e.Error(), "its owner took it out of the configuration")
	})
}

func TestACallGoesToNoOtherServerThanItWasMeantFor(t *testing.T) {
	renewable(t, Options{}, func(t *testing.T, p *Pool) {
		meant := toolCall("t", "")
		meant.Launch = "1"
		if _, err := p.Call(t.Context(), "a", meant); err != nil {
			t.Fatal(err)
		}
		renew(t, p, inPlace("a", "2"), inPlace("b", "1"))
		resp, err := p.Call(t.Context(), "a", meant)
		if e := wantKind(t, Withdrawn, resp, err); e.MayHaveRun() {
			t.Errorf("it may have run: %v", e)
		} else {
			contains(t, e.Error(), "was not asked to tools/call", "changed its entry")
		}
	})
}

func TestARefusedListOfServersChangesNothing(t *testing.T) {
	renewable(t, Options{}, func(t *testing.T, p *Pool) {
		before := p.find("a")
		for _, servers := range [][]Server{
			{inPlace("a", "2"), {Alias: "b"}},
			{inPlace("a", "2"), inPlace("a", "3")},
		} {
			if _, err := p.Renew(servers); err == nil {
				t.Errorf("%+v was taken", servers)
			}
		}
		if p.find("a") != before || launchOf(t, p, "a") != "1" || launchOf(t, p, "b") != "1" {
			t.Error("something changed")
		}
	})
}

// What a server may be told while it runs does not end it.
func TestTimeoutAndLazinessNeedNoNewServer(t *testing.T) {
	renewable(t, Options{}, func(t *testing.T, p *Pool) {
		before := p.find("a")
		patient := inPlace("a", "1")
		patient.CallTimeout = time.Second
		idle := inPlace("c", "1")
		idle.Lazy = true
		renew(t, p, patient, idle)
		resp, took, err := began(t, p, "a", "stuck")()
		wantKind(t, Timeout, resp, err)
		if took != time.Second || p.find("a") != before {
			t.Errorf("it took %v", took)
		}
		synctest.Wait()
		if st := p.Status()[1]; st.State != Idle {
			t.Fatalf("a lazy server is %v", st.State)
		}
		idle.Lazy = false
		renew(t, p, patient, idle)
		synctest.Wait()
		if st := p.Status()[1]; st.State != Ready || st.Starts != 1 {
			t.Errorf("it is %v after %d starts", st.State, st.Starts)
		}
	})
}

// A server that never comes up holds up nobody once it is taken out.
func TestWhoWaitsForAServerHearsThatItIsGone(t *testing.T) {
	renewable(t, Options{Backoff: func(int) time.Duration { return time.Hour }}, func(t *testing.T, p *Pool) {
		open := p.open
		p.open = func(ctx context.Context, s *server) (conn, error) {
			if s.cfg.Launch == "never" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return open(ctx, s)
		}
		renew(t, p, inPlace("a", "never"), inPlace("b", "1"))
		settled := make(chan error, 1)
		go func() { settled <- p.Settled(t.Context(), "a") }()
		waits := began(t, p, "a", "t")
		renew(t, p, inPlace("a", "2"), inPlace("b", "1"))
		if err := <-settled; err != nil {
			t.Error(err)
		}
		if _, ok := p.Listing("a"); !ok {
			t.Error("settled before the server in its place had listed its tools")
		}
		resp, took, err := waits()
		if e := wantKind(t, Withdrawn, resp, err); took != 0 || e.MayHaveRun() {
			t.Errorf("after %v: %v", took, e)
		}
	})
}

// Calls side by side with changes go to the server that was there when they
// began, or nowhere; those of a server that stays all come back.
func TestChangesSideBySideWithCalls(t *testing.T) {
	renewable(t, Options{}, func(t *testing.T, p *Pool) {
		over := make(chan struct{})
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-over:
						return
					default:
					}
					if resp, err := p.Call(t.Context(), "b", toolCall("t", "")); err != nil {
						t.Errorf("the server that stays gave %s, %v", resp.Result, err)
						return
					}
					meant := toolCall("t", "")
					meant.Launch = strconv.Itoa(n % 3)
					resp, err := p.Call(t.Context(), "a", meant)
					if e, gone := errors.AsType[*Error](err); err == nil && string(resp.Result) != `{"launch":"`+meant.Launch+`"}` || err != nil && (!gone || e.Kind != Withdrawn) {
						t.Errorf("a call meant for launch %s gave %s, %v", meant.Launch, resp.Result, err)
						return
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		for n := range 100 {
			renew(t, p, inPlace("a", strconv.Itoa(n%3)), inPlace("b", "1"))
			time.Sleep(3 * time.Millisecond)
		}
		close(over)
		wg.Wait()
	})
}

// A pool that ends waits for no withdrawn server's calls.
func TestThePoolEndsWithWithdrawnServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := NewPool([]Server{inPlace("a", "1")}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		p.open = func(_ context.Context, s *server) (conn, error) {
			return peer(func(func(string), jsonrpc.Message) {})(s)
		}
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			_ = p.Run(ctx)
		}()
		stuck := began(t, p, "a", "stuck")
		renew(t, p)
		synctest.Wait()
		cancel()
		<-over
		resp, took, err := stuck()
		wantKind(t, Withdrawn, resp, err)
		if took != 0 {
			t.Errorf("it took %v", took)
		}
		if _, err := p.Renew([]Server{inPlace("b", "1")}); err != nil {
			t.Error(err) // it starts nothing
		}
	})
}
