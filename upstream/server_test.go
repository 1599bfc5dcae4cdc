package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-gate/mcp-gate/internal/fakemcp"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
)

// bubble runs f with a pool of one server in a synctest bubble. Each start
// calls open.
func bubble(t *testing.T, cfg Server, o Options, open func(*server) (conn, error), f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg.Alias, cfg.Command = "a", []string{"in-memory"}
		p, err := NewPool([]Server{cfg}, o)
		if err != nil {
			t.Fatal(err)
		}
		s := p.all()[0]
		s.open = func(context.Context) (conn, error) { return open(s) }
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
		f(t, &rig{Pool: p, t: t})
	})
}

// inMemory opens connections to fakes that are no process.
func inMemory(c fakemcp.Config) func(*server) (conn, error) {
	return func(s *server) (conn, error) {
		r, w := fakemcp.Dial(context.Background(), c)
		return newStdio(s, r, w, nil), nil
	}
}

// peer opens a connection to a server that shakes hands and lists one tool,
// and leaves every other message to f.
func peer(f func(say func(string), m jsonrpc.Message)) func(*server) (conn, error) {
	return rawPeer(func(out io.Writer, m jsonrpc.Message) {
		f(func(line string) { _, _ = io.WriteString(out, line+"\n") }, m)
	})
}

// rawPeer is peer with what the server says as it stands.
func rawPeer(f func(out io.Writer, m jsonrpc.Message)) func(*server) (conn, error) {
	return func(s *server) (conn, error) {
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		say := func(line string) { _, _ = io.WriteString(outW, line+"\n") }
		go func() {
			defer outW.Close()
			lines := jsonrpc.NewLineReader(inR, 1<<30)
			for {
				line, err := lines.Next()
				if err != nil {
					return
				}
				m, _ := jsonrpc.Parse(line)
				switch m.Method {
				case "initialize":
					say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}}`)
				case "tools/list":
					say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"tools":[{"name":"t"}]}}`)
				default:
					f(outW, m)
				}
			}
		}()
		return newStdio(s, outR, inW, nil), nil
	}
}

func TestBackoff(t *testing.T) {
	var tries []time.Duration
	var began time.Time
	open := func(*server) (conn, error) {
		if began.IsZero() {
			began = time.Now()
		}
		tries = append(tries, time.Since(began))
		return nil, errors.New("no luck")
	}
	bubble(t, Server{}, Options{}, open, func(t *testing.T, r *rig) {
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		want := 250 * time.Millisecond
		for i := 1; i < len(tries); i++ {
			pause := tries[i] - tries[i-1]
			if pause < want*8/10 || pause > want*12/10 {
				t.Errorf("pause %d was %v, want about %v", i, pause, want)
			}
			want = min(2*want, 30*time.Second)
		}
		if len(tries) < 12 {
			t.Errorf("%d tries in five minutes", len(tries))
		}
		// In a long pause a call fails at once.
		for time.Until(r.Status()[0].NextTry) <= patience {
			time.Sleep(time.Second)
		}
		began := time.Now()
		contains(t, r.Up("a").Error(), "server a did not start", "no luck")
		e := r.wrong(StartFailed, "x", "")
		contains(t, e.Error(), "server a did not start", "no luck")
		if d := time.Since(began); d != 0 {
			t.Errorf("it took %v to say so", d)
		}
	})
}

func TestCallWaitsThroughAShortPause(t *testing.T) {
	n := 0
	good := inMemory(fakemcp.Config{})
	open := func(s *server) (conn, error) {
		if n++; n < 3 {
			return nil, errors.New("no luck")
		}
		return good(s)
	}
	bubble(t, Server{}, Options{}, open, func(t *testing.T, r *rig) {
		e := r.wrong(StartFailed, "echo", "") // the first try, or the second
		contains(t, e.Error(), "no luck")
		time.Sleep(time.Second)
		r.must("echo", "")
	})
}

// A server that has worked is not down while it is started again soon, so that
// a call that comes just then waits instead of being refused.
func TestAServerThatIsStartedAgainIsNotDown(t *testing.T) {
	bubble(t, Server{}, Options{}, inMemory(fakemcp.Config{}), func(t *testing.T, r *rig) {
		if err := r.Settled(t.Context()); err != nil {
			t.Fatal(err)
		}
		s := r.find("a")
		for range 2 { // the first time it is started again at once
			s.mu.Lock()
			c := s.sess.conn.(*stdio)
			s.mu.Unlock()
			c.fail(errors.New("gone"))
			synctest.Wait()
		}
		if st := r.Status()[0]; st.State != Failed {
			t.Fatalf("it is %v", st.State)
		}
		if err := r.Up("a"); err != nil {
			t.Error(err)
		}
		r.must("echo", "")
	})
}

func TestTheSecondStartIsWaitedForAndNoThird(t *testing.T) {
	for _, fails := range []int{1, 2} {
		for _, lazy := range []bool{false, true} {
			n := 0
			good := inMemory(fakemcp.Config{})
			open := func(s *server) (conn, error) {
				if n++; n <= fails {
					return nil, errors.New("no luck")
				}
				return good(s)
			}
			bubble(t, Server{Lazy: lazy}, Options{}, open, func(t *testing.T, r *rig) {
				wait := func(ctx context.Context) error { return r.Settled(ctx) }
				if lazy {
					wait = func(ctx context.Context) error { return r.Shown(ctx, "a") }
				}
				if err := wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				if _, listed := r.Listing("a"); listed != (fails == 1) || n != 2 {
					t.Errorf("%d starts fail, lazy %v: listed %v after %d", fails, lazy, listed, n)
				}
			})
		}
	}
}

// A program that is nowhere is nowhere a moment later.
func TestNobodyWaitsForAProgramThatIsNowhere(t *testing.T) {
	open := func(s *server) (conn, error) { return nil, notFound(s.cfg, "its PATH") }
	bubble(t, Server{Command: []string{"no-such-mcp"}}, Options{}, open, func(t *testing.T, r *rig) {
		if err := r.Settled(t.Context()); err != nil {
			t.Fatal(err)
		}
		if st := r.Status()[0]; st.Starts != 1 || st.State != Failed {
			t.Errorf("it is %v after %d starts", st.State, st.Starts)
		}
	})
}

// Who waited for all that a start may take does not wait for a second one.
func TestNobodyWaitsTwiceForAServerThatHangs(t *testing.T) {
	bubble(t, Server{}, Options{}, inMemory(fakemcp.Config{Fault: "hang-init"}), func(t *testing.T, r *rig) {
		began := time.Now()
		if err := r.Settled(t.Context()); err != nil {
			t.Fatal(err)
		}
		if st := r.Status()[0]; st.State != Failed || time.Since(began) > 31*time.Second {
			t.Errorf("it is %v after %v", st.State, time.Since(began))
		}
	})
}

func TestHealthForgivesWhatWasBefore(t *testing.T) {
	open := peer(func(func(string), jsonrpc.Message) {})
	bubble(t, Server{}, Options{Backoff: func(int) time.Duration { return time.Hour }}, open, func(t *testing.T, r *rig) {
		s := r.find("a")
		for i := range 5 {
			time.Sleep(healthy)
			s.mu.Lock()
			c := s.sess.conn.(*stdio)
			s.mu.Unlock()
			c.fail(errors.New("gone"))
			synctest.Wait()
			if st := r.Status()[0]; st.State != Ready || st.Starts != i+2 {
				t.Fatalf("after crash %d: %v, %d starts", i+1, st.State, st.Starts)
			}
		}
	})
}

func TestRelistIsCoalesced(t *testing.T) {
	bubble(t, Server{}, Options{}, inMemory(fakemcp.Config{}), func(t *testing.T, r *rig) {
		r.settled()
		for range 50 { // three times a second, for a while
			r.must("change", `{"n":7}`)
			time.Sleep(300 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		var got struct{ Lists int }
		if err := json.Unmarshal([]byte(r.must("lists", "")), &got); err != nil {
			t.Fatal(err)
		}
		if got.Lists < 3 || got.Lists > 10 {
			t.Errorf("listed %d times in 15 s", got.Lists)
		}
		if l, _ := r.Listing("a"); l.Generation != 2 {
			t.Errorf("generation %d, want 2", l.Generation)
		}
	})
}

func TestSuddenlyEmptyListing(t *testing.T) {
	bubble(t, Server{}, Options{}, inMemory(fakemcp.Config{}), func(t *testing.T, r *rig) {
		r.settled()
		before, _ := r.Listing("a")
		r.must("change", `{"n":-1}`)
		time.Sleep(10 * time.Second)
		if l, _ := r.Listing("a"); len(l.Tools) != len(before.Tools) || r.Status()[0].Suspect == "" {
			t.Fatalf("%d tools, suspect %q", len(l.Tools), r.Status()[0].Suspect)
		}
		r.must("change", `{"n":0}`)
		time.Sleep(10 * time.Second)
		if st := r.Status()[0]; st.Suspect != "" || st.Tools != len(before.Tools) {
			t.Fatalf("still suspect: %+v", st)
		}
		r.must("change", `{"n":-1}`)
		time.Sleep(time.Minute) // it means it
		if l, _ := r.Listing("a"); len(l.Tools) != 0 || l.Generation != 2 || r.Status()[0].Suspect != "" {
			t.Errorf("%d tools, generation %d", len(l.Tools), l.Generation)
		}
	})
}

func TestProgressRestartsTheTimeout(t *testing.T) {
	answer := func(say func(string), m jsonrpc.Message) {
		if m.Method != "tools/call" {
			return
		}
		if strings.Contains(string(m.Params), "silent") || !strings.Contains(string(m.Params), "progressToken") {
			return
		}
		for range 10 {
			time.Sleep(800 * time.Millisecond)
			say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"g` + string(m.ID) + `","progress":1}}`)
		}
		time.Sleep(800 * time.Millisecond)
		say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{}}`)
	}
	bubble(t, Server{CallTimeout: time.Second}, Options{}, peer(answer), func(t *testing.T, r *rig) {
		req := toolCall("t", "")
		n := 0
		req.Progress = func(json.RawMessage) { n++ }
		if _, err := r.Call(t.Context(), "a", req); err != nil || n != 10 {
			t.Errorf("%d notifications, %v", n, err)
		}
		r.must("t", "") // whose caller wants no progress
		e := r.wrong(Timeout, "silent", "")
		if e.After != time.Second {
			t.Errorf("after %v, want 1s", e.After)
		}
		time.Sleep(time.Minute)
	})
}

// A server that does not read holds up nobody past the end of their context.
func TestServerThatDoesNotRead(t *testing.T) {
	stuck := sync.OnceValue(func() chan struct{} { return make(chan struct{}) }) // made in the bubble
	answer := func(_ func(string), m jsonrpc.Message) {
		if m.Method == "tools/call" {
			<-stuck()
		}
	}
	bubble(t, Server{}, Options{}, peer(answer), func(t *testing.T, r *rig) {
		r.settled()
		big := strings.Repeat("x", 40<<20)
		defer close(stuck())
		for range 4 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			began := time.Now()
			resp, err := r.tool(ctx, "t", `"`+big+`"`)
			cancel()
			wantKind(t, Timeout, resp, err)
			if d := time.Since(began); d > time.Second+abandonGrace {
				t.Errorf("it took %v", d)
			}
		}
	})
}

func TestEras(t *testing.T) {
	tests := []struct {
		name  string
		era   Era
		fault string
		want  string // protocol, or part of the error
		opens int
	}{
		{"legacy does not probe", Legacy, "old", "2025-06-18", 1},
		{"auto finds a modern one", Auto, "modern", modernVersion, 1},
		{"auto falls back after a refusal", Auto, "", "2025-06-18", 1},
		{"auto starts one again that the probe has ended", Auto, "old", "2025-06-18", 2},
		{"modern accepts nothing else", Modern, "", "does not speak 2026-07-28", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			opens := 0
			good := inMemory(fakemcp.Config{Fault: tt.fault})
			open := func(s *server) (conn, error) { opens++; return good(s) }
			bubble(t, Server{Era: tt.era}, Options{Backoff: func(int) time.Duration { return time.Hour }}, open, func(t *testing.T, r *rig) {
				r.settled()
				st := r.Status()[0]
				if st.Protocol != tt.want && !strings.Contains(st.LastError, tt.want) {
					t.Errorf("status %+v, want %s", st, tt.want)
				}
				if opens != tt.opens {
					t.Errorf("started %d times, want %d", opens, tt.opens)
				}
			})
		})
	}
}

// Over HTTP a server that is slow to answer is not an older one.
func TestABusyServerOverHTTPIsNoOlderOne(t *testing.T) {
	busy := peer(func(say func(string), m jsonrpc.Message) {
		if m.Method == "server/discover" {
			time.Sleep(2 * probeTimeout)
			say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}}`)
		}
	})
	open := func(s *server) (conn, error) {
		s.cfg.URL = "http://in-memory/mcp"
		return busy(s)
	}
	bubble(t, Server{Era: Auto}, Options{}, open, func(t *testing.T, r *rig) {
		r.settled()
		if st := r.Status()[0]; st.Protocol != modernVersion || st.Starts != 1 {
			t.Errorf("%+v", st)
		}
	})
}

func TestSilenceAboutTheProbe(t *testing.T) {
	var began time.Time
	open := peer(func(_ func(string), m jsonrpc.Message) {
		if m.Method == "server/discover" {
			began = time.Now()
		}
	})
	bubble(t, Server{Era: Auto}, Options{}, open, func(t *testing.T, r *rig) {
		r.settled()
		if st := r.Status()[0]; st.Protocol != "2025-11-25" || time.Since(began) != probeTimeout {
			t.Errorf("%+v after %v", st, time.Since(began))
		}
	})
}

func TestListings(t *testing.T) {
	page := func(cursor, next string, names ...string) string {
		var tools []string
		for _, n := range names {
			tools = append(tools, fmt.Sprintf(`{"name":%q}`, n))
		}
		return fmt.Sprintf(`%q:{"tools":[%s]%s}`, cursor, strings.Join(tools, ","), next)
	}
	tests := []struct {
		name     string
		config   func(t *testing.T) fakemcp.Config
		want     string // names of the tools
		problems []string
	}{
		{"pages, one with an empty cursor", func(t *testing.T) fakemcp.Config {
			// "" leads to the first page again, which adds nothing.
			return fakemcp.Config{Pages: file(t, "{"+page("", `,"nextCursor":"b"`, "1", "2")+","+page("b", `,"nextCursor":""`, "3")+"}")}
		}, "1 2 3", []string{"page 3 repeats"}},
		{"a cursor that repeats", func(t *testing.T) fakemcp.Config {
			return fakemcp.Config{Pages: file(t, "{"+page("", `,"nextCursor":"same"`, "only")+","+page("same", `,"nextCursor":"same"`, "only")+"}")}
		}, "only", []string{"page 2 repeats"}},
		{"empty pages in between", func(t *testing.T) fakemcp.Config {
			return fakemcp.Config{Pages: file(t, "{"+page("", `,"nextCursor":"a"`)+","+page("a", `,"nextCursor":"b"`)+","+
				page("b", `,"nextCursor":"c"`, "1")+","+page("c", `,"nextCursor":"d"`)+","+page("d", ``, "2")+"}")}
		}, "1 2", nil},
		{"empty pages that lead back", func(t *testing.T) fakemcp.Config {
			return fakemcp.Config{Pages: file(t, "{"+page("", `,"nextCursor":"a"`, "1")+","+page("a", `,"nextCursor":"b"`)+","+page("b", `,"nextCursor":"a"`)+"}")}
		}, "1", []string{"page 3 repeats"}},
		{"empty pages without end", func(t *testing.T) fakemcp.Config {
			pages := page("", `,"nextCursor":"1"`, "1")
			for i := range 2 * maxEmptyPages {
				pages += "," + page(fmt.Sprint(i+1), fmt.Sprintf(`,"nextCursor":"%d"`, i+2))
			}
			return fakemcp.Config{Pages: file(t, "{"+pages+"}")}
		}, "1", []string{"10 pages in a row are empty"}},
		{"a page of what came before", func(t *testing.T) fakemcp.Config {
			return fakemcp.Config{Pages: file(t, "{"+page("", `,"nextCursor":"a"`, "1", "2")+","+page("a", `,"nextCursor":"b"`, "2")+","+page("b", ``, "3")+"}")}
		}, "1 2", []string{"page 2 repeats"}},
		{"a null cursor", func(t *testing.T) fakemcp.Config {
			return fakemcp.Config{Pages: file(t, "{"+page("", `,"nextCursor":null`, "1")+"}")}
		}, "1", nil},
		{"entries that are no tools", func(t *testing.T) fakemcp.Config {
			return fakemcp.Config{List: file(t, `{"tools":[{"name":"ok"},null,"x",{"name":7},{"description":"d"},{"name":"ok","x":1},{"name":"chat","inputSchema":{"$ref":"#/c"}}]}`)}
		}, "ok chat", []string{"entry 1 ", "entry 2 ", "entry 3 ", "entry 4 ", `entry 5 repeats the name "ok"`}},
		{"entries without end that are no tools", func(t *testing.T) fakemcp.Config {
			return fakemcp.Config{List: file(t, `{"tools":[{"name":"ok"}`+strings.Repeat(",{}", maxEntries)+`]}`)}
		}, "ok", append(slices.Repeat([]string{"no name"}, maxProblems), "and 19979 more entries", "more than 20000 entries")},
		{"only resources", func(*testing.T) fakemcp.Config { return fakemcp.Config{Fault: "no-tools"} }, "", nil},
		{"no word about capabilities, and a refusal", func(t *testing.T) fakemcp.Config {
			return fakemcp.Config{Fault: "no-tools", Init: file(t, `{"protocolVersion":"2024-11-05"}`)}
		}, "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, Server{}, Options{}, inMemory(tt.config(t)), func(t *testing.T, r *rig) {
				r.settled()
				l, ok := r.Listing("a")
				var names []string
				for _, tool := range l.Tools {
					names = append(names, textMember(tool, "name"))
				}
				if got := strings.Join(names, " "); !ok || got != tt.want {
					t.Errorf("got %q, %v, want %q", got, ok, tt.want)
				}
				st := r.Status()[0]
				if st.State != Ready || len(st.Problems) != len(tt.problems) {
					t.Fatalf("status %+v", st)
				}
				for i, want := range tt.problems {
					contains(t, st.Problems[i], want)
				}
				r.must("echo", "")
			})
		})
	}
}

func TestListingThatFails(t *testing.T) {
	bubble(t, Server{}, Options{}, inMemory(fakemcp.Config{List: "/no/such"}), func(t *testing.T, r *rig) {
		r.settled()
		st := r.Status()[0]
		if st.State != Ready || st.Listed || !strings.Contains(st.LastError, "refused tools/list") {
			t.Errorf("status %+v", st)
		}
		r.must("echo", "") // calls work all the same
	})
	// Half a list is none: what came later would count as new.
	for _, init := range []string{"", `{"protocolVersion":"2024-11-05"}`} {
		c := fakemcp.Config{Pages: file(t, `{"":{"tools":[{"name":"1"}],"nextCursor":"gone"}}`)}
		if init != "" {
			c.Init = file(t, init)
		}
		bubble(t, Server{}, Options{}, inMemory(c), func(t *testing.T, r *rig) {
			r.settled()
			st := r.Status()[0]
			if st.State != Ready || st.Listed || !strings.Contains(st.LastError, "page 2 of its tools did not come (1 on the pages before): it refused tools/list") {
				t.Errorf("status %+v", st)
			}
		})
	}
}

func TestSettledCountsOnlyWhatWasTold(t *testing.T) {
	var told atomic.Bool
	var p *Pool
	o := Options{OnChange: func(alias string) {
		if l, ok := p.Listing(alias); ok && len(l.Tools) > 0 {
			time.Sleep(time.Minute) // it is slow to take it in
			told.Store(true)
		}
	}}
	synctest.Test(t, func(t *testing.T) {
		var err error
		if p, err = NewPool([]Server{{Alias: "a", Command: []string{"in-memory"}}}, o); err != nil {
			t.Fatal(err)
		}
		s := p.all()[0]
		s.open = func(context.Context) (conn, error) { return inMemory(fakemcp.Config{})(s) }
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() { _ = p.Run(ctx); close(over) }()
		if err := p.Settled(ctx); err != nil || !told.Load() {
			t.Errorf("settled with %v, told %v", err, told.Load())
		}
		cancel()
		<-over
	})
}

func TestUnknownServerAndBadParams(t *testing.T) {
	bubble(t, Server{}, Options{}, inMemory(fakemcp.Config{}), func(t *testing.T, r *rig) {
		resp, err := r.Call(t.Context(), "nobody", toolCall("echo", ""))
		wantKind(t, UnknownServer, resp, err)
		wantKind(t, UnknownServer, Response{}, r.Up("nobody"))
		if err := r.Up("a"); err != nil {
			t.Error(err)
		}
		resp, err = r.Call(t.Context(), "a", Request{Method: "tools/call", Params: json.RawMessage(`{"_meta":7}`), Progress: func(json.RawMessage) {}})
		if e := wantKind(t, BadRequest, resp, err); e.MayHaveRun() {
			t.Error("it cannot have run")
		}
	})
	for _, bad := range [][]Server{
		{{Alias: "a"}}, {{Command: []string{"x"}}}, {{Alias: "a", Command: []string{"x"}, URL: "http://x"}},
		{{Alias: "a", URL: "ftp://x"}}, {{Alias: "a", Command: []string{"x"}}, {Alias: "a", Command: []string{"y"}}},
	} {
		if _, err := NewPool(bad, Options{}); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

func TestRing(t *testing.T) {
	r := newRing(8)
	for _, s := range []string{"ab\n", "cdefgh\n", "i", "0123456789"} {
		if n, err := r.Write([]byte(s)); n != len(s) || err != nil {
			t.Fatal(n, err)
		}
	}
	if got, want := r.text(), "23456789"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	r = newRing(100)
	_, _ = r.Write([]byte("a\x1b[1m\u202eb\r\nlast \xff\U000e0041\n\n"))
	if got, want := r.text(), "a\\x1b[1m\\u{202e}b\nlast \ufffd\\u{e0041}\n\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := r.lastLines(1), "last \ufffd\\u{e0041}"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func FuzzLooseID(f *testing.F) {
	f.Add([]byte(`{"result":{"id":1,"x":NaN},"id": 27 }`))
	f.Add([]byte(`{"id":"5`))
	f.Fuzz(func(t *testing.T, b []byte) {
		loose := looseID(b)
		m, err := jsonrpc.Parse(b)
		if err != nil || m.ID == nil || !m.IsResponse() {
			return
		}
		// On what is acceptable it agrees with the strict reader.
		id, _, err := ourID(m.ID)
		if err != nil {
			return
		}
		if got, _, err := ourID(loose); err != nil || got != id {
			t.Errorf("got %s, want %s", loose, m.ID)
		}
	})
}

// A server says what it likes, and as much as it likes at no more than its rate.
func TestPaceOfNotices(t *testing.T) {
	var p pace
	start := time.Now()
	now := start
	for range noticeBurst {
		if pause := p.next(now); pause > 0 {
			t.Fatalf("a burst waits %v", pause)
		}
	}
	for range 10 * noticeRate {
		now = now.Add(p.next(now))
	}
	if took := now.Sub(start); took < 9*time.Second || took > 11*time.Second {
		t.Errorf("%d notices took %v", 10*noticeRate, took)
	}
	if pause := p.next(now.Add(time.Hour)); pause > 0 {
		t.Errorf("after an hour one waits %v", pause)
	}
}
