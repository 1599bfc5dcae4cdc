package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
)

// What a server says beside the plainest, byte for byte.
const (
	richTool     = `{"name":"look","title":"Look","description":"Look it up.","inputSchema":{"type":"object","properties":{"q":{"type":"string"}}},"outputSchema":{"type":"object","properties":{"n":{"type":"number"}}},"annotations":{"readOnlyHint":true,"x-own":1},"icons":[{"src":"https://x.test/a.png","mimeType":"image/png","sizes":["48x48"],"theme":"dark"}],"_meta":{"vendor/x":{"a":1.0}},"x-vendor":[1,2]}`
	richPrompt   = `{"name":"p","title":"P","icons":[{"src":"https://x.test/p.png"}],"arguments":[{"name":"a","title":"A","required":true}],"_meta":{"vendor/x":1}}`
	richResource = `{"uri":"x:1","name":"one","title":"One","icons":[{"src":"data:image/png;base64,AA=="}],"size":12345678901,"annotations":{"audience":["user"],"priority":0.50,"lastModified":"2026-01-01T00:00:00Z"},"_meta":{"vendor/x":1}}`
	richTemplate = `{"uriTemplate":"x:{id}","name":"each","icons":[{"src":"https://x.test/t.png"}],"mimeType":"text/plain"}`
	richResult   = `"content":[{"type":"text","text":"7","annotations":{"audience":["assistant"]},"_meta":{"vendor/y":1}},{"type":"resource_link","uri":"x:1","name":"one","icons":[{"src":"https://x.test/r.png"}]}],"structuredContent":{"n":7.0},"_meta":{"vendor/z":true}`
	richError    = `{"code":-32050,"message":"no <such> row","data":{"n":12345678901234567890}}`
	trace        = `"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"a=1","baggage":"k=v","vendor/q":{"deep":[1.0]}`
)

// richServer speaks one revision over HTTP and keeps what it was asked.
type richServer struct {
	modern bool

	mu    sync.Mutex // guards what follows
	asked map[string]string
}

func (s *richServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if r.Method != "POST" || err != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	m, err := jsonrpc.Parse(raw)
	if err != nil || m.IsNotification() {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	s.mu.Lock()
	s.asked[m.Method] = string(m.Params)
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	result := s.result(m)
	if result == "" {
		e := jsonrpc.ParseError(json.RawMessage(`{"code":-32601,"message":"no such method"}`))
		if strings.Contains(string(m.Params), `"fail"`) {
			e = jsonrpc.ParseError(json.RawMessage(richError))
		}
		_, _ = w.Write(jsonrpc.AppendError(nil, m.ID, e))
		return
	}
	if s.modern {
		result = `"resultType":"complete",` + result
		if strings.HasSuffix(m.Method, "/list") {
			result += `,"ttlMs":60000,"cacheScope":"private"`
		}
	}
	_, _ = w.Write(jsonrpc.AppendResult(nil, m.ID, json.RawMessage("{"+result+"}")))
}

func (s *richServer) result(m jsonrpc.Message) string {
	const capabilities = `"capabilities":{"tools":{},"prompts":{},"resources":{},"completions":{},"tasks":{"list":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	switch m.Method {
	case "server/discover":
		if s.modern {
			return `"supportedVersions":["2026-07-28"],` + capabilities + `,"instructions":"Look first.","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"rich","version":"1","icons":[{"src":"https://x.test/s.png"}]}}`
		}
	case "initialize":
		if !s.modern {
			return `"protocolVersion":"2025-11-25",` + capabilities + `,"instructions":"Look first.","serverInfo":{"name":"rich","version":"1","icons":[{"src":"https://x.test/s.png"}]}`
		}
	case "tools/list":
		return `"tools":[` + richTool + `]`
	case "prompts/list":
		return `"prompts":[` + richPrompt + `]`
	case "resources/list":
		return `"resources":[` + richResource + `]`
	case "resources/templates/list":
		return `"resourceTemplates":[` + richTemplate + `]`
	case "prompts/get":
		return `"description":"d","messages":[{"role":"user","content":{"type":"text","text":"hi","_meta":{"vendor/y":1}}}]`
	case "resources/read":
		return `"contents":[{"uri":"x:1","text":"seven","_meta":{"vendor/y":1}}]`
	case "completion/complete":
		return `"completion":{"values":["a<b"],"total":1,"hasMore":false}`
	case "tools/call":
		if !strings.Contains(string(m.Params), `"fail"`) {
			return richResult
		}
	}
	return ""
}

// What a server says reaches the client as it was said, and what a client says
// the server, from each revision to each.
func TestNothingIsLostOnTheWay(t *testing.T) {
	t.Parallel()
	for _, modernServer := range []bool{false, true} {
		for _, modernClient := range []bool{false, true} {
			t.Run(fmt.Sprintf("server modern %t, client modern %t", modernServer, modernClient), func(t *testing.T) {
				server := &richServer{modern: modernServer, asked: map[string]string{}}
				web := httptest.NewServer(server)
				t.Cleanup(web.Close)
				all := []string{"metadata", "aggregates", "row_level", "rendered_pixels", "raw_pixels"}
				r := newRig(t, func(cfg map[string]any) {
					cfg["servers"] = map[string]any{"rich": map[string]any{"url": web.URL + "/mcp", "tools": map[string]any{"*": map[string]string{"permission": "read"}}}}
					cfg["policy"] = map[string]any{"egress": all}
				})
				a := r.spawn(nobody, built.gate, "--exposure", "transparent")
				meta := trace
				if modernClient {
					meta += `,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"e2e","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}`
				} else if err := a.handshake(`{}`); err != nil {
					t.Fatalf("%v\n%s", err, a.log)
				}
				ask := func(method, params string) string {
					t.Helper()
					if params != "" {
						params += ","
					}
					m, err := a.request(method, "{"+params+`"_meta":{`+meta+`}}`)
					if err != nil {
						t.Fatalf("%s: %v\n%s", method, err, a.log)
					}
					return string(m.Result) + string(m.Error)
				}
				for _, q := range []struct{ method, params, want string }{
					{"tools/list", "", `"tools":[` + richTool + `]`},
					{"prompts/list", "", `"prompts":[` + richPrompt + `]`},
					{"resources/list", "", `"resources":[` + richResource + `]`},
					{"resources/templates/list", "", `"resourceTemplates":[` + richTemplate + `]`},
					{"tools/call", `"name":"look","arguments":{"q":"a<b"}`, strings.TrimSuffix(richResult, "}")}, // to which the server's name is added
					{"tools/call", `"name":"look","arguments":{"q":"fail"}`, richError},
					{"prompts/get", `"name":"p","arguments":{"a":"x"}`, `{"type":"text","text":"hi","_meta":{"vendor/y":1}}`},
					{"resources/read", `"uri":"x:1"`, `"contents":[{"uri":"x:1","text":"seven","_meta":{"vendor/y":1}}]`},
					{"completion/complete", `"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"x"}`, `"completion":{"values":["a<b"],"total":1,"hasMore":false}`},
				} {
					got := ask(q.method, q.params)
					if !strings.Contains(got, q.want) {
						t.Errorf("%s: got  %s\nwant %s", q.method, got, q.want)
					}
					if strings.HasSuffix(q.method, "/list") && modernClient && !strings.Contains(got, `"ttlMs":`) {
						t.Errorf("%s says nothing of how long it keeps: %s", q.method, got)
					}
					if strings.HasSuffix(q.method, "/list") {
						continue
					}
					server.mu.Lock()
					asked := server.asked[q.method]
					server.mu.Unlock()
					if !strings.Contains(asked, q.params) || !strings.Contains(asked, trace) {
						t.Errorf("%s reached the server as %s", q.method, asked)
					}
				}
				// Tasks of 2025-11-25 are of the two sides' own, and not declared. The
				// extension is one of 2026-07-28, and the gate keeps tasks itself.
				about := ask("server/discover", "")
				if !modernClient {
					about = ask("initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"e2e","version":"1"}`)
				} else if !strings.Contains(about, `"icons":[{"src":"https://x.test/s.png"}]`) || !strings.Contains(about, "Look first.") {
					t.Errorf("the server is told of as %s", about)
				}
				if strings.Contains(about, `"tasks":`) || strings.Contains(about, `"extensions":{"io.modelcontextprotocol/tasks":{}}`) != modernClient {
					t.Errorf("tasks are declared: %s", about)
				}
			})
		}
	}
}
