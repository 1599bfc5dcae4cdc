package upstream

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
)

// holders counts what holds on to a context, which contexts tell those that do
// it themselves.
type holders struct {
	context.Context
	done chan struct{}
	n    atomic.Int64
}

func (h *holders) Done() <-chan struct{} { return h.done }

func (h *holders) AfterFunc(f func()) (stop func() bool) {
	h.n.Add(1)
	inner := context.AfterFunc(h.Context, f)
	return func() bool {
		stopped := inner()
		if stopped {
			h.n.Add(-1)
		}
		return stopped
	}
}

// TestRequestsOfAServerLeaveNothingBehind has a server ask in the middle of a
// call, more than once with one id, and outside any.
func TestRequestsOfAServerLeaveNothingBehind(t *testing.T) {
	release := make(chan struct{})
	o := &Options{Log: slog.New(slog.DiscardHandler), OnRequest: func(context.Context, string, string, json.RawMessage) (json.RawMessage, *jsonrpc.Error) {
		<-release
		return json.RawMessage(`{}`), nil
	}}
	in := newInbound(newServer(Server{Alias: "a"}, o), func(context.Context, []byte) {})
	connection := &holders{Context: in.ctx, done: make(chan struct{})}
	in.ctx = connection
	for _, call := range []context.Context{t.Context(), nil} {
		for _, id := range []string{"1", "1", "2"} {
			m, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"elicitation/create"}`))
			if err != nil {
				t.Fatal(err)
			}
			in.request(m, call)
		}
	}
	close(release)
	in.wg.Wait()
	if n := connection.n.Load(); n != 0 {
		t.Errorf("%d contexts of requests that are over are held until the connection ends", n)
	}
	in.close()
}
