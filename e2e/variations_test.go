package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What follows are the kinds of fault that users of other gates have reported,
// as somebody else would have met them: another field, another revision, another
// place. The rows of the cases themselves are in TestCases.

// Each line is what a server answers with, ID standing for the id; want is what
// the client gets, as it came, or a part of what the gate says instead.
func TestAnswersAsOthersSendThem(t *testing.T) {
	t.Parallel()
	const text = `{"content":[{"type":"text","text":"x"}]}`
	tests := []struct{ name, line, want string }{
		{"an integer beyond a double, deep", `{"jsonrpc":"2.0","id":ID,"result":{"content":[],"structuredContent":{"a":[{"n":9007199254740993,"x":1e-400,"z":-0}]}}}`, `"structuredContent":{"a":[{"n":9007199254740993,"x":1e-400,"z":-0}]}`},
		{"structured content that is a list", `{"jsonrpc":"2.0","id":ID,"result":{"content":[],"structuredContent":[1.0]}}`, `{"content":[],"structuredContent":[1.0]}`},
		{"members in another order, and one nobody knows", `{"result":{"isError":false,"x-more":{"b":1,"a":2},"content":[]},"id":ID,"jsonrpc":"2.0"}`, `{"isError":false,"x-more":{"b":1,"a":2},"content":[]}`},
		{"an error of the tool without content", `{"jsonrpc":"2.0","id":ID,"result":{"isError":true,"content":[]}}`, `{"isError":true,"content":[]}`},
		{"line separators in a text", "{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"a\u2028b\u0085c\"}]}}", "a\u2028b\u0085c"},
		{"half a surrogate in a name", `{"jsonrpc":"2.0","id":ID,"result":{"content":[],"_meta":{"k\ud83d":1}}}`, `{"content":[],"_meta":{"k\ufffd":1}}`},
		{"an error with data that is null", `{"jsonrpc":"2.0","id":ID,"error":{"code":-32011,"message":"no","data":null}}`, `{"code":-32011,"message":"no","data":null}`},
		{"an error whose code is a text", `{"jsonrpc":"2.0","id":ID,"error":{"code":"E_NO","message":"no"}}`, `"message":"no"`},
		{"an answer in a list", `[{"jsonrpc":"2.0","id":ID,"result":{"content":[]}}]`, "batch of messages"},
		{"an answer beside a log line", "INFO done\n" + `{"jsonrpc":"2.0","id":ID,"result":` + text + `}`, text},
		{"an answer after a notification without params", `{"jsonrpc":"2.0","method":"notifications/message"}` + "\n" + `{"jsonrpc":"2.0","id":ID,"result":` + text + `}`, text},
		{"an answer after a request with params by place", `{"jsonrpc":"2.0","id":ID,"method":"roots/list","params":[]}` + "\n" + `{"jsonrpc":"2.0","id":ID,"result":` + text + `}`, text},
		{"an answer after progress nobody asked for", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}` + "\n" + `{"jsonrpc":"2.0","id":ID,"result":` + text + `}`, text},
		{"a result that is a text", `{"jsonrpc":"2.0","id":ID,"result":"done"}`, "not acceptable"},
		{"the id of an answer with a fraction", `{"jsonrpc":"2.0","id":ID.0,"result":` + text + `}`, text},
	}
	r := newRoster(t, nil, "a")
	c := connect(t, `{}`, built.gate, "--home", r.dir, "serve")
	url, token, _ := startHTTP(t, r.dir)
	w := (&replay{t: t}).web(url, token)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args, err := json.Marshal(map[string]string{"text": tt.line})
			if err != nil {
				t.Fatal(err)
			}
			m := c.answer(c.begin("a/answer", string(args)))
			if got := string(m.Result) + string(m.Error); !strings.Contains(got, tt.want) {
				t.Errorf("over stdio: got %s, want %s", got, tt.want)
			}
			_, got := w.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"call_tool","arguments":{"name":"a/answer","arguments":%s}}}`, args))
			if !strings.Contains(got, tt.want) {
				t.Errorf("over HTTP: got %s, want %s", got, tt.want)
			}
		})
	}
}

// Each list is one server's. What is wrong in it costs the good one neither its
// place nor a byte; a name that ends in _ stands for one with digits behind.
func TestListsAsOthersSendThem(t *testing.T) {
	t.Parallel()
	good := `{"name":"good","inputSchema":{"type":"object","properties":{"p":{"$ref":"#/$defs/a~1b"}},"$defs":{"a/b":{"type":"string"}}}}`
	tests := []struct {
		name, list string
		listed     []string
	}{
		{"a type that is none, in the elements of a list", `{"tools":[` + good + `,{"name":"bad","inputSchema":{"type":"object","properties":{"n":{"type":"array","items":{"type":"str"}}}}}]}`, []string{"good"}},
		{"a type that is none, in a choice", `{"tools":[{"name":"bad","inputSchema":{"type":"object","properties":{"n":{"anyOf":[{"type":"int"},{"type":"null"}]}}}},` + good + `]}`, []string{"good"}},
		{"a root that is a list", `{"tools":[{"name":"bad","inputSchema":{"type":"array","items":{}}},` + good + `]}`, []string{"good"}},
		{"no schema at all", `{"tools":[{"name":"bad"},` + good + `]}`, []string{"good"}},
		{"a cursor that is a number", `{"tools":[` + good + `],"nextCursor":2}`, []string{"good"}},
		{"names that differ in what cannot stand in a name", `{"tools":[` + good + `,{"name":"x.y","inputSchema":{"type":"object"}},{"name":"x/y","inputSchema":{"type":"object"}},{"name":"x_y","inputSchema":{"type":"object"}}]}`,
			[]string{"good", "x_y", "x_y_", "x_y_"}},
		{"a name of the gate's", `{"tools":[{"name":"find_tools","inputSchema":{"type":"object"}},` + good + `]}`, []string{"find_tools", "good"}},
		{"annotations and a title that are no objects", `{"tools":[{"name":"bad","title":7,"annotations":"readOnly","inputSchema":{"type":"object"}},` + good + `]}`, []string{"good"}},
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "list.json")
			if err := os.WriteFile(file, []byte(tt.list), 0o600); err != nil {
				t.Fatal(err)
			}
			entry := map[string]any{"command": self, "args": []string{"fake-mcp", "-list", file}, "preset": "workbench", "tools": map[string]any{"*": map[string]string{"permission": "read"}}}
			c := connect(t, `{}`, built.gate, "--home", home(t, map[string]any{"servers": map[string]any{"a": entry}}), "serve", "--exposure", "direct")
			var list struct{ Tools []struct{ Name string } }
			raw := c.result(c.send("tools/list", `{}`))
			if err := json.Unmarshal(raw, &list); err != nil {
				t.Fatal(err)
			}
			var names []string
			seen := map[string]bool{}
			for _, tool := range list.Tools {
				if seen[tool.Name] {
					t.Errorf("%q is there twice", tool.Name)
				}
				seen[tool.Name] = true
				if own, of := strings.CutPrefix(tool.Name, "a_"); of {
					names = append(names, own)
				}
			}
			for _, want := range tt.listed {
				at := -1
				for i, name := range names {
					if name == want || strings.HasSuffix(want, "_") && strings.HasPrefix(name, want) {
						at = i
						break
					}
				}
				if at < 0 {
					t.Fatalf("%s is not listed: %s", want, raw)
				}
				names = append(names[:at], names[at+1:]...)
			}
			if !strings.Contains(string(raw), good[len(`{"name":"good",`):]) {
				t.Errorf("the good one is not as it came: %s", raw)
			}
			if len(names) > 0 {
				t.Errorf("%q are listed, too", names)
			}
		})
	}
}
