package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
)

// BenchmarkServe is one small call of a client over pipes to a server that is a
// child, with so many in flight, with all checks and audit lines. What the client
// does is in it; of the server's work nothing is but the time.
func BenchmarkServe(b *testing.B) {
	for _, inFlight := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(inFlight), func(b *testing.B) {
			c := serveCalls(b)
			b.ReportAllocs()
			b.ResetTimer()
			sent, answered := 0, 0
			for ; sent < min(inFlight, b.N); sent++ {
				c.call(b)
			}
			for ; answered < b.N; answered++ {
				c.answer(b)
				if sent < b.N {
					c.call(b)
					sent++
				}
			}
		})
	}
}

// lean is a client that is as lean as it can be.
type lean struct {
	in    io.Writer
	lines *jsonrpc.LineReader
	sent  int
}

func (c *lean) call(b *testing.B) {
	c.sent++
	c.write(b, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"long","arguments":{"n":64}}}`, c.sent))
}

func (c *lean) write(b *testing.B, line string) {
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		b.Fatal(err)
	}
}

// answer returns the next answer.
func (c *lean) answer(b *testing.B) []byte {
	for {
		line, err := c.lines.Next()
		if err != nil {
			b.Fatal(err)
		}
		if bytes.Contains(line, []byte(`"id":`)) {
			return line
		}
	}
}

// serveCalls starts serve with one server whose tools are declared to read, and
// calls until small calls have what they are given after the start.
func serveCalls(b *testing.B) *lean {
	home := b.TempDir()
	config := `{"servers":{"s0":{"command":"fake-mcp","tools":{"*":{"permission":"read","egress":"metadata"}}}},"log":{"level":"error"}}`
	if err := os.WriteFile(filepath.Join(home, "config.jsonc"), []byte(config), 0o600); err != nil {
		b.Fatal(err)
	}
	theirs, in, err1 := os.Pipe()
	out, ours, err2 := os.Pipe()
	if err1 != nil || err2 != nil {
		b.Fatal(err1, err2)
	}
	before := runtime.GOMAXPROCS(0)
	ended := make(chan int, 1)
	go func() {
		ended <- run(context.Background(), []string{"--home", home, "serve", "--exposure", "transparent"}, theirs, ours, os.Stderr)
	}()
	b.Cleanup(func() {
		in.Close()
		if code := <-ended; code != 0 {
			b.Errorf("serve ended with %d", code)
		}
		out.Close()
		threads.set(int32(before))
	})
	c := &lean{in: in, lines: jsonrpc.NewLineReader(out, 1<<20)}
	c.write(b, `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`)
	c.answer(b)
	c.write(b, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for began := time.Now(); time.Since(began) < 2*calm; {
		c.call(b)
		if got := c.answer(b); !bytes.Contains(got, []byte(`"content"`)) || bytes.Contains(got, []byte("isError")) {
			b.Fatalf("no result: %s", got)
		}
	}
	return c
}
