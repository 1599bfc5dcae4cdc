package gate

import (
	"context"
	"testing"
)

// What one era alone has in a result is known to be there or not.
func TestABareResultIsKnown(t *testing.T) {
	for result, bare := range map[string]bool{
		`{"content":[]}`: true,
		`{"content":[{"type":"text","text":"\"_meta\":{}"}],"isError":false}`: true,
		`{"content":[],"structuredContent":{"_meta":{},"resultType":"x"}}`:    true,
		`{"resultType":"complete","content":[]}`:                              false,
		`{"content":[],"_meta":{"io.modelcontextprotocol/serverInfo":{}}}`:    false,
		`{"content":[],"_me\u0074a":{}}`:                                      false,
	} {
		out, _, _ := callWith(t, nil, nil, func(context.Context, *Gate, string) (string, error) { return result, nil })
		if string(out.Result) != result || out.Bare != bare {
			t.Errorf("%s: bare %v; result %s, error %v", result, out.Bare, out.Result, out.Error)
		}
	}
}
