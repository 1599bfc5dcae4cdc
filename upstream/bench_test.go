package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
)

// What one call through a real child costs, the child's own work included.
func BenchmarkCall(b *testing.B) {
	for _, size := range []int{100, 10 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			p, err := NewPool([]Server{fake("a")}, Options{})
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan struct{})
			go func() { _ = p.Run(ctx); close(ended) }()
			defer func() { cancel(); <-ended }()
			req := Request{Method: "tools/call", Params: json.RawMessage(fmt.Sprintf(`{"name":"long","arguments":{"n":%d}}`, size))}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Call(ctx, "a", req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
