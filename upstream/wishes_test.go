package upstream

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
)

// heard is a server that notes what it is asked beside the handshake, and says
// yes to all of it. "die" ends it.
type heard struct {
	lines  []string
	refuse int // code that initialize is refused with; 0: it is not
}

func (h *heard) open(s *server) (conn, error) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	go func() {
		defer outW.Close()
		defer inR.Close()
		lines := jsonrpc.NewLineReader(inR, 1<<30)
		for {
			line, err := lines.Next()
			if err != nil {
				return
			}
			m, _ := jsonrpc.Parse(line)
			answer := `{}`
			switch m.Method {
			case "initialize":
				if h.refuse != 0 {
					_, _ = fmt.Fprintf(outW, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"no"}}`+"\n", m.ID, h.refuse)
					continue
				}
				answer = `{"protocolVersion":"2025-11-25","capabilities":{"logging":{},"resources":{"subscribe":true}}}`
			case "server/discover":
				answer = `{"supportedVersions":["2026-07-28"],"capabilities":{"resources":{"subscribe":true}}}`
			case "die":
				return
			case "subscriptions/listen":
				filter, _, _ := strings.Cut(string(m.Params), `,"_meta"`)
				h.lines = append(h.lines, filter)
				continue // open until it is cancelled
			case "notifications/cancelled":
				h.lines = append(h.lines, m.Method)
				continue
			case "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
				h.lines = append(h.lines, m.Method+" "+string(m.Params))
				if strings.Contains(string(m.Params), "none:") {
					_, _ = fmt.Fprintf(outW, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32002,"message":"no such"}}`+"\n", m.ID)
					continue
				}
			}
			if m.ID != nil {
				_, _ = fmt.Fprintf(outW, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, answer)
			}
		}
	}()
	return newStdio(s, outR, inW, nil), nil
}

func (h *heard) take() []string {
	synctest.Wait()
	lines := h.lines
	h.lines = nil
	slices.Sort(lines)
	return lines
}

func TestWishesOutliveARestart(t *testing.T) {
	h := &heard{}
	bubble(t, Server{Lazy: true}, Options{}, h.open, func(t *testing.T, r *rig) {
		r.SetLogLevel(t.Context(), "warning") // nobody is there to hear it
		if resp, err := r.Subscribe(t.Context(), "a", "x:1"); err != nil || resp.Error != nil {
			t.Fatal(resp, err)
		}
		if resp, err := r.Subscribe(t.Context(), "a", "none:"); err != nil || resp.Error == nil || resp.Error.Code != -32002 {
			t.Errorf("a server's no: %+v %v", resp, err)
		}
		if got, want := h.take(), []string{`logging/setLevel {"level":"warning"}`, `resources/subscribe {"uri":"none:"}`, `resources/subscribe {"uri":"x:1"}`}; !slices.Equal(got, want) {
			t.Errorf("heard %q, want %q", got, want)
		}
		r.SetLogLevel(t.Context(), "debug")
		if got, want := h.take(), []string{`logging/setLevel {"level":"debug"}`}; !slices.Equal(got, want) {
			t.Errorf("heard %q, want %q", got, want)
		}
		starts := r.Starts("a")
		_, _ = r.Call(t.Context(), "a", Request{Method: "die"})
		_, err := r.Call(t.Context(), "a", Request{Method: "anything"})
		if err != nil || r.Starts("a") == starts {
			t.Fatalf("not started again: %v", err)
		}
		if got, want := h.take(), []string{`logging/setLevel {"level":"debug"}`, `resources/subscribe {"uri":"x:1"}`}; !slices.Equal(got, want) {
			t.Errorf("heard %q after the restart, want %q", got, want)
		}
		if _, err := r.Unsubscribe(t.Context(), "a", "x:1"); err != nil {
			t.Error(err)
		}
		if got, want := h.take(), []string{`resources/unsubscribe {"uri":"x:1"}`}; !slices.Equal(got, want) {
			t.Errorf("heard %q, want %q", got, want)
		}
	})
}

// A program is greeted in the older way; one that has no handshake any more is
// spoken to in the new one.
func TestAProgramThatKnowsNoHandshake(t *testing.T) {
	for refuse, want := range map[int]string{0: "2025-11-25", -32601: "2026-07-28", -32022: "2026-07-28", -32603: ""} {
		h := &heard{refuse: refuse}
		bubble(t, Server{}, Options{}, h.open, func(t *testing.T, r *rig) {
			if l, _ := r.settled().Listing("a"); l.Protocol != want {
				t.Errorf("initialize refused with %d: got %q, want %q", refuse, l.Protocol, want)
			}
		})
	}
}

func TestAModernServerIsListenedToForEachResource(t *testing.T) {
	h := &heard{}
	bubble(t, Server{Era: Modern}, Options{}, h.open, func(t *testing.T, r *rig) {
		const lists = `{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`
		r.SetLogLevel(t.Context(), "debug") // it is asked with each request instead
		if _, err := r.Subscribe(t.Context(), "a", "x:1"); err != nil {
			t.Fatal(err)
		}
		if got, want := h.take(), []string{`{"notifications":{"resourceSubscriptions":["x:1"]}`, lists}; !slices.Equal(got, want) {
			t.Errorf("heard %q, want %q", got, want)
		}
		if _, err := r.Unsubscribe(t.Context(), "a", "x:1"); err != nil {
			t.Fatal(err)
		}
		if got, want := h.take(), []string{"notifications/cancelled"}; !slices.Equal(got, want) {
			t.Errorf("heard %q, want %q", got, want)
		}
	})
}

func TestAModernServerIsToldOfTheRequestsOwnClient(t *testing.T) {
	x := &session{s: &server{o: &Options{Capabilities: json.RawMessage(`{"all":{}}`)}}, modern: true}
	for _, tt := range []struct {
		req  Request
		want string
	}{
		{Request{}, `"io.modelcontextprotocol/clientCapabilities":{"all":{}}}`},
		{Request{Capabilities: json.RawMessage(`{"roots":{}}`), LogLevel: "error"}, `"io.modelcontextprotocol/logLevel":"error","io.modelcontextprotocol/clientCapabilities":{"roots":{}}}`},
	} {
		got, err := x.stamp([]byte(`{"traceparent":"00"}`), tt.req)
		if err != nil || !strings.HasPrefix(string(got), `{"traceparent":"00",`) || !strings.HasSuffix(string(got), tt.want) {
			t.Errorf("got %s %v, want it to end in %s", got, err, tt.want)
		}
	}
}
