//go:build unix

package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
)

// pidOf is the process that answers a call of a server.
func (r *rig) pidOf(alias string, owner any) int {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	req := toolCall("pid", "")
	req.Owner = owner
	resp, err := r.Call(ctx, alias, req)
	var got struct{ PID int }
	if err == nil {
		err = json.Unmarshal(resp.Result, &got)
	}
	if err != nil || got.PID == 0 {
		r.t.Fatalf("%s for %v: %s %v", alias, owner, resp.Result, err)
	}
	return got.PID
}

// One of three servers is replaced, and then taken out, while twenty calls are
// under way on each, for owners' own connections as for shared ones.
func TestUntouchedServersLoseNothing(t *testing.T) {
	for _, own := range []bool{false, true} {
		t.Run(fmt.Sprintf("own connections %v", own), func(t *testing.T) {
			server := func(alias, launch string) Server {
				s := fake(alias)
				s.Launch, s.PerOwner = launch, own
				return s
			}
			r := start(t, Options{}, server("a", "1"), server("b", "1"), server("c", "1")).settled()
			before := map[string]int{}
			ended := map[string]chan error{}
			for _, alias := range []string{"a", "b", "c"} {
				before[alias] = r.pidOf(alias, "ann")
				ended[alias] = make(chan error, 20)
				for range 20 {
					go func() {
						req := toolCall("hold", "")
						req.Owner = "ann"
						_, err := r.Call(t.Context(), alias, req)
						ended[alias] <- err
					}()
				}
				for held := 0; held < 20; { // the fake holds what it has read
					s := r.find(alias)
					if own {
						s, _ = r.serverOf(s, "ann", "")
					}
					s.mu.Lock()
					held = s.inFlight
					s.mu.Unlock()
					runtime.Gosched()
				}
			}
			r.Pool.drain = time.Second
			renew(t, r.Pool, server("a", "1"), server("b", "2"), server("c", "1"))
			after := r.pidOf("b", "ann")
			if after == before["b"] {
				t.Error("the changed one has its old process")
			}
			var wg sync.WaitGroup
			for _, alias := range []string{"a", "c"} {
				if got := r.pidOf(alias, "ann"); got != before[alias] {
					t.Errorf("%s went from process %d to %d", alias, before[alias], got)
				}
				wg.Go(func() {
					for done := 0; done < 20; {
						req := toolCall("release", "")
						req.Owner = "ann"
						if _, err := r.Call(t.Context(), alias, req); err != nil {
							t.Error(err)
							return
						}
						for range len(ended[alias]) {
							if err := <-ended[alias]; err != nil {
								t.Errorf("%s lost a call: %v", alias, err)
							}
							done++
						}
					}
				})
			}
			for range 20 {
				err := <-ended["b"]
				wantKind(t, Withdrawn, Response{}, err)
			}
			wg.Wait()
			gone(t, before["b"])
			renew(t, r.Pool, server("a", "1"), server("c", "1"))
			gone(t, after)
			for _, alias := range []string{"a", "c"} {
				if got := r.pidOf(alias, "ann"); got != before[alias] {
					t.Errorf("%s went from process %d to %d", alias, before[alias], got)
				}
			}
		})
	}
}

// A server that is reached over HTTP is let go of with its session, and what it
// has not answered by then ends.
func TestAServerOverHTTPIsReplaced(t *testing.T) {
	asked, hung, deleted := make(chan struct{}), make(chan struct{}), make(chan struct{})
	old := newSite(t, map[string]func(http.ResponseWriter, *http.Request, jsonrpc.Message){
		"tools/call": func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
			close(asked)
			<-r.Context().Done()
			close(hung)
		},
		http.MethodDelete: func(http.ResponseWriter, *http.Request, jsonrpc.Message) { close(deleted) },
	})
	next := newSite(t, nil)
	at := func(url string) Server { return Server{Alias: "a", URL: url, Launch: url, Era: Legacy} }
	r := start(t, Options{}, at(old.URL)).settled()
	ended := make(chan error, 1)
	go func() {
		_, err := r.tool(t.Context(), "echo", "")
		ended <- err
	}()
	inTime(t, time.Minute, "the call", asked)
	r.Pool.drain = time.Second
	renew(t, r.Pool, at(next.URL))
	r.must("echo", "")
	wantKind(t, Withdrawn, Response{}, <-ended)
	inTime(t, time.Minute, "the old server to see the end of the call", hung)
	inTime(t, time.Minute, "the end of its session", deleted)
}
