package transport

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	mcptransport "github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// answering accepts every question of the gate, and counts them.
type answering struct{ asked atomic.Int64 }

func (a *answering) Elicit(_ context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	a.asked.Add(1)
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{
		Action: mcp.ElicitationResponseActionAccept, Content: map[string]any{"decision": "once"},
	}}, nil
}

// TestForeignClient has a client that nobody here wrote speak each era over
// each carrier: handshake or discovery, list, call, progress, question, error.
func TestForeignClient(t *testing.T) {
	for name, open := range map[string]func(*testing.T, *answering) *client.Client{
		"stdio": stdioClient, "http": httpClient,
	} {
		for _, version := range []string{version2025, version2026} {
			t.Run(name+" "+version, func(t *testing.T) {
				a := &answering{}
				c := open(t, a)
				defer c.Close()
				playClient(t, c, version)
				if a.asked.Load() != 1 {
					t.Errorf("asked %d times, want once", a.asked.Load())
				}
			})
		}
	}
}

func playClient(t *testing.T, c *client.Client, version string) {
	ctx := t.Context()
	var progress atomic.Int64
	c.OnNotification(func(n mcp.JSONRPCNotification) {
		if n.Method == "notifications/progress" {
			progress.Add(1)
		}
	})
	init := mcp.InitializeRequest{}
	init.Params.ProtocolVersion = version
	init.Params.ClientInfo = mcp.Implementation{Name: "foreign", Version: "1"}
	res, err := c.Initialize(ctx, init)
	if err != nil {
		t.Fatal(err)
	}
	if res.ProtocolVersion != version || res.ServerInfo.Name != "fake" {
		t.Errorf("initialize: %+v", res)
	}
	list, err := c.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil || len(list.Tools) != 2 {
		t.Fatalf("list: %+v, %v", list, err)
	}
	call := func(name string, meta *mcp.Meta) string {
		t.Helper()
		r := mcp.CallToolRequest{}
		r.Params.Name, r.Params.Arguments, r.Params.Meta = name, map[string]any{"x": 1}, meta
		res, err := c.CallTool(ctx, r)
		if err != nil {
			return "error: " + err.Error()
		}
		return res.Content[0].(mcp.TextContent).Text
	}
	if got := call("echo", nil); got != `{"x":1}` {
		t.Errorf("echo: %s", got)
	}
	if got := call("progress:3", &mcp.Meta{ProgressToken: "p"}); got != "done" {
		t.Errorf("progress: %s", got)
	}
	waitFor(t, "progress", func() bool { call("echo", nil); return progress.Load() == 3 })
	if got := call("ask", nil); got != "ran t_ask" {
		t.Errorf("ask: %s", got)
	}
	if got := call("error", nil); !strings.Contains(got, "row missing") {
		t.Errorf("error: %s", got)
	}
}

func stdioClient(t *testing.T, a *answering) *client.Client {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- New(&fakeGate{}, [32]byte{}, Options{}).ServeStdio(t.Context(), stdioIdentity, inR, outW)
		outW.Close()
	}()
	t.Cleanup(func() {
		inW.Close()
		<-done
	})
	c := client.NewClient(mcptransport.NewIO(outR, inW, io.NopCloser(strings.NewReader(""))), client.WithElicitationHandler(a))
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

func httpClient(t *testing.T, a *answering) *client.Client {
	s := startHTTP(t, &fakeGate{}, Options{}, HTTPOptions{})
	tr, err := mcptransport.NewStreamableHTTP("http://"+s.addr+"/mcp",
		mcptransport.WithHTTPHeaders(map[string]string{"Authorization": "Bearer laptop"}), mcptransport.WithHTTPBasicClient(s.client))
	if err != nil {
		t.Fatal(err)
	}
	c := client.NewClient(tr, client.WithElicitationHandler(a))
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}
