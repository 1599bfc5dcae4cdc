package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/internal/canonjson"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
)

// callOf is a tools/call of peek that only reads, with these params.
func callOf(params string) string {
	return `{"jsonrpc":"2.0","id":"7","method":"tools/call","params":` + params + `}`
}

// smuggled are messages in which one reader sees a harmless call, or none, and
// another something else. Each would run if it were taken.
var smuggled = map[string]string{
	"method twice":                          `{"jsonrpc":"2.0","id":"7","method":"ping","method":"tools/call","params":{"name":"peek","arguments":{"nonce":"x"}}}`,
	"method twice, by an escape":            `{"jsonrpc":"2.0","id":"7","method":"ping","m\u0065thod":"tools/call","params":{"name":"peek","arguments":{"nonce":"x"}}}`,
	"a folded method":                       `{"jsonrpc":"2.0","id":"7","method":"tools/call","Method":"ping","params":{"name":"peek","arguments":{"nonce":"x"}}}`,
	"folded params":                         `{"jsonrpc":"2.0","id":"7","method":"tools/call","params":{"name":"peek","arguments":{"nonce":"x"}},"PARAMS":{"name":"erase"}}`,
	"params folded by Unicode":              `{"jsonrpc":"2.0","id":"7","method":"tools/call","params":{"name":"peek","arguments":{"nonce":"x"}},"param` + "\u017f" + `":{}}`,
	"a folded id":                           `{"jsonrpc":"2.0","id":"7","ID":"8","method":"tools/call","params":{"name":"peek","arguments":{"nonce":"x"}}}`,
	"a folded result":                       `{"jsonrpc":"2.0","id":"7","method":"tools/call","params":{"name":"peek","arguments":{"nonce":"x"}},"Result":{}}`,
	"name twice":                            callOf(`{"name":"erase","name":"peek","arguments":{"nonce":"x"}}`),
	"a folded name":                         callOf(`{"name":"peek","Name":"erase","arguments":{"nonce":"x"}}`),
	"arguments twice":                       callOf(`{"name":"peek","arguments":{"nonce":"y"},"arguments":{"nonce":"x"}}`),
	"folded arguments":                      callOf(`{"name":"peek","arguments":{"nonce":"x"},"Arguments":{"nonce":"y"}}`),
	"an argument twice":                     callOf(`{"name":"peek","arguments":{"nonce":"y","nonce":"x"}}`),
	"an argument twice, deep":               callOf(`{"name":"peek","arguments":{"nonce":"x","a":[{"b":1,"b":2}]}}`),
	"an argument's imitation":               callOf(`{"name":"peek","arguments":{"nonce":"y","Nonce":"x"}}`),
	"an argument's imitation, deep":         callOf(`{"name":"peek","arguments":{"nonce":"x","also":[{},{"nonce":"y","NONCE":"x"}]}}`),
	"an imitation by Unicode":               callOf(`{"name":"peek","arguments":{"nonce":"x","` + "ſ" + `ay":"y"}}`),
	"arguments that are a list":             callOf(`{"name":"peek","arguments":[{"nonce":"x"}]}`),
	"arguments that are text":               callOf(`{"name":"peek","arguments":"{\"nonce\":\"x\"}"}`),
	"a lone surrogate":                      callOf(`{"name":"peek","arguments":{"nonce":"x","a":"\ud800"}}`),
	"a lone surrogate in a name":            callOf(`{"name":"peek","arguments":{"nonce":"x","\udc00":1}}`),
	"NaN":                                   callOf(`{"name":"peek","arguments":{"nonce":"x","a":NaN}}`),
	"Infinity":                              callOf(`{"name":"peek","arguments":{"nonce":"x","a":-Infinity}}`),
	"a leading zero":                        callOf(`{"name":"peek","arguments":{"nonce":"x","a":010}}`),
	"a hexadecimal number":                  callOf(`{"name":"peek","arguments":{"nonce":"x","a":0x10}}`),
	"a trailing comma":                      callOf(`{"name":"peek","arguments":{"nonce":"x",}}`),
	"a comment":                             callOf(`{"name":"peek","arguments":{"nonce":"x"/* */}}`),
	"bytes that are no UTF-8":               callOf(`{"name":"peek","arguments":{"nonce":"x","a":"` + "\xff\xfe" + `"}}`),
	"overlong UTF-8":                        callOf(`{"name":"peek","arguments":{"nonce":"x","a":"` + "\xc0\xaf" + `"}}`),
	"a raw control byte":                    callOf(`{"name":"peek","arguments":{"nonce":"x","a":"` + "\x01" + `"}}`),
	"a second value":                        callOf(`{"name":"peek","arguments":{"nonce":"y"}}`) + callOf(`{"name":"peek","arguments":{"nonce":"x"}}`),
	"garbage behind":                        callOf(`{"name":"peek","arguments":{"nonce":"x"}}`) + `#`,
	"a byte order mark within":              "{\ufeff" + callOf(`{"name":"peek","arguments":{"nonce":"x"}}`)[1:],
	"a batch":                               `[` + callOf(`{"name":"peek","arguments":{"nonce":"x"}}`) + `]`,
	"params that are a list":                callOf(`["peek",{"nonce":"x"}]`),
	"another version":                       strings.Replace(callOf(`{"name":"peek","arguments":{"nonce":"x"}}`), "2.0", "2.00", 1),
	"an id that is an object":               strings.Replace(callOf(`{"name":"peek","arguments":{"nonce":"x"}}`), `"7"`, `{"a":1}`, 1),
	"an id that is null":                    strings.Replace(callOf(`{"name":"peek","arguments":{"nonce":"x"}}`), `"7"`, `null`, 1),
	"single quotes":                         `{'jsonrpc':'2.0','id':'7','method':'tools/call','params':{'name':'peek','arguments':{'nonce':'x'}}}`,
	"a method with space behind":            strings.Replace(callOf(`{"name":"peek","arguments":{"nonce":"x"}}`), "tools/call", "tools/call ", 1),
	"a method in capitals":                  strings.Replace(callOf(`{"name":"peek","arguments":{"nonce":"x"}}`), "tools/call", "TOOLS/CALL", 1),
	"a method with a NUL":                   strings.Replace(callOf(`{"name":"peek","arguments":{"nonce":"x"}}`), "tools/call", `tools/call\u0000`, 1),
	"a name in capitals":                    callOf(`{"name":"PEEK","arguments":{"nonce":"x"}}`),
	"a name with a NUL":                     callOf(`{"name":"peek\u0000","arguments":{"nonce":"x"}}`),
	"a list nested a hundred thousand deep": callOf(`{"name":"peek","arguments":{"nonce":"x","a":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}}`),
	"objects nested deep, never closed":     callOf(`{"name":"peek","arguments":{"nonce":"x","a":` + strings.Repeat(`{"a":`, 100_000)),
}

// What readers understand differently reaches no server, over stdio or HTTP.
func TestSmuggledMessagesReachNoServer(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	a := r.client(nobody, "--exposure", "transparent")
	c := &replay{t: t}
	url, token, _ := startHTTP(t, r.home, "--exposure", "transparent")
	w := c.web(url, token)
	for name, line := range smuggled {
		if answer := a.say(line); !strings.Contains(answer, `"code"`) && !strings.Contains(answer, `"isError":true`) {
			t.Errorf("%s: stdio answers %.300s", name, answer)
		}
		if status, answer := w.post(line); status < 400 && !strings.Contains(answer, `"error"`) && !strings.Contains(answer, `"isError":true`) {
			t.Errorf("%s: HTTP answers %d %.300s", name, status, answer)
		}
	}
	for _, answer := range []string{a.say(callOf(`{"name":"peek","arguments":{"nonce":"last"}}`)), second(w.post(callOf(`{"name":"peek","arguments":{"nonce":"last"}}`)))} {
		if !strings.Contains(answer, "peek did last") {
			t.Errorf("afterwards a sound call gives %s", answer)
		}
	}
	if ran := r.ran(); len(ran) != 1 || ran["last"] != 2 {
		t.Errorf("what ran, by nonce: %v", ran)
	}
}

func second(_ int, s string) string { return s }

// say sends a line with the id "7", or one whose id cannot be read, as it
// stands and returns its answer.
func (a *agent) say(line string) string {
	a.t.Helper()
	answer := make(chan jsonrpc.Message, 1)
	a.mu.Lock()
	a.waiting[`"7"`], a.waiting["null"] = answer, answer
	a.mu.Unlock()
	a.write([]byte(line))
	m, err := a.wait(answer)
	if err != nil {
		a.t.Fatalf("%.300s: %v\n%s", line, err, a.log)
	}
	return string(m.Result) + string(m.Error)
}

// However a value is spelled, policy, the person, the audit log and the server
// have the same one.
func TestOneValueHoweverItIsSpelled(t *testing.T) {
	t.Parallel()
	same := []struct{ value, args string }{
		{"plain", `{"nonce":"plain"}`},
		{"é", `{"nonce":"\u00e9"}`},
		{"éé", `{"nonce":"é\u00E9"}`},
		{"😀", `{"nonce":"\ud83d\ude00"}`},
		{"a/b", `{"nonce":"a\/b"}`},
		{"a\\b", `{"nonce":"a\u005cb"}`},
		{"key", `{"n\u006fnce":"key"}`},
		{"spaced", "{ \t\"nonce\" :\r \"spaced\" }"},
		{"last", `{"say":"","nonce":"last"}`},
		{"big", `{"nonce":"big","n":123456789012345678901234567890}`},
		{"small", `{"nonce":"small","n":[1e400,-0,0.1000,1E+2]}`},
		{"proto", `{"nonce":"proto","__proto__":{"nonce":"x"},"":1}`},
		{"deep", `{"nonce":"deep","a":` + strings.Repeat("[", 400) + strings.Repeat("]", 400) + `}`},
	}
	var values []string
	for _, s := range same {
		values = append(values, s.value)
	}
	r := newRig(t, func(cfg map[string]any) {
		cfg["policy"] = map[string]any{"rules": []any{
			map[string]any{"do": "deny", "tools": "counting/erase_other", "args": map[string]any{"/nonce": map[string]any{"in": values}}},
			map[string]any{"do": "defer", "tools": "counting/erase"},
		}}
		cfg["audit"] = map[string]any{"keep_arguments": true}
	})
	a := r.client(nobody, "--exposure", "direct")
	for _, s := range same {
		t.Run(s.value, func(t *testing.T) {
			call := func(tool string) string {
				return a.say(callOf(fmt.Sprintf(`{"name":"counting_%s","arguments":%s}`, tool, s.args)))
			}
			if got := call("erase_other"); !strings.Contains(got, "refused [rule]") {
				t.Errorf("a rule does not see %q in %.80s: %s", s.value, s.args, got)
			}
			if got := call("erase"); !strings.Contains(got, "deferred [deferred]") {
				t.Fatalf("the call gives %s", got)
			}
			ticket := r.ticket(s.value)
			want, err := canonjson.Digest(json.RawMessage(s.args))
			if err != nil || ticket.Binding.Args != want {
				t.Errorf("the ticket is bound to %s, want %s, %v", ticket.Binding.Args, want, err)
			}
			for _, e := range r.events(func(e audit.Event) bool { return e.Ticket == ticket.ID && e.ArgsDigest != "" }) {
				if e.ArgsDigest != want {
					t.Errorf("the audit log has %s, want %s", e.ArgsDigest, want)
				}
			}
		})
	}
	r.person().allow(r.tickets()...)
	r.until("end of all that was approved", func() bool { return len(r.ran()) >= len(same) })
	for _, s := range same {
		if n := r.ran()[s.value]; n != 1 {
			t.Errorf("%q ran %d times: %v", s.value, n, r.ran())
		}
	}
}
