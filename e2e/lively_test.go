package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
)

// A lively server speaks one revision over stdio, asks and tells of itself, and
// says with its tool heard what it was told.
type lively struct {
	modern bool
	out    io.Writer

	heard   []string
	level   string            // asked for with logging/setLevel
	changed bool              // its lists are others than at first
	streams map[string]string // id of a subscriptions/listen -> its params
	follows []string          // URIs, by resources/subscribe
	asked   map[string]asked  // id of a question to the client -> the call that waits
	held    map[string]asked  // id of a call that hangs
}

// asked is a call that waits.
type asked struct {
	id   json.RawMessage
	tool string
}

// livelyServer is its entry in a configuration.
func livelyServer(t *testing.T, modern bool) map[string]any {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{
		"command": self, "args": []string{"lively-mcp", strconv.FormatBool(modern)},
		"tools": map[string]any{"*": map[string]string{"permission": "read"}},
	}
}

// livelyMain is the program.
func livelyMain(modern bool, in io.Reader, out io.Writer) int {
	s := &lively{modern: modern, out: out, streams: map[string]string{}, asked: map[string]asked{}, held: map[string]asked{}}
	lines := jsonrpc.NewLineReader(in, 1<<20)
	for {
		line, err := lines.Next()
		if err != nil {
			return 0
		}
		m, err := jsonrpc.Parse(line)
		switch {
		case err != nil:
			return 1
		case m.IsResponse():
			s.answered(m)
		case m.IsNotification():
			s.noticed(m)
		default:
			s.request(m)
		}
	}
}

func (s *lively) write(line []byte) { _, _ = s.out.Write(append(line, '\n')) }

func (s *lively) tell(method, params string) {
	s.write(jsonrpc.AppendNotification(nil, method, json.RawMessage(params)))
}

func (s *lively) reply(id json.RawMessage, members string) {
	if s.modern && !strings.Contains(members, `"resultType"`) {
		members = strings.TrimSuffix(`"resultType":"complete",`+members, ",")
	}
	s.write(jsonrpc.AppendResult(nil, id, json.RawMessage("{"+members+"}")))
}

func (s *lively) fail(id json.RawMessage, e string) {
	s.write(jsonrpc.AppendError(nil, id, jsonrpc.ParseError(json.RawMessage(e))))
}

func (s *lively) say(id json.RawMessage, text string) {
	b, _ := json.Marshal(text) // a string always can
	s.reply(id, `"content":[{"type":"text","text":`+string(b)+`}]`)
}

// noticed takes a notification.
func (s *lively) noticed(m jsonrpc.Message) {
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	_ = json.Unmarshal(m.Params, &p) // those without params name no request
	id := string(p.RequestID)
	switch {
	case s.held[id].tool != "":
		s.heard = append(s.heard, "cancelled "+s.held[id].tool)
		delete(s.held, id)
	case s.streams[id] != "":
		s.heard = append(s.heard, "closed "+plain(s.streams[id]))
		delete(s.streams, id)
	default:
		s.heard = append(s.heard, m.Method)
	}
}

// answered takes what the client says to a question.
func (s *lively) answered(m jsonrpc.Message) {
	call, ok := s.asked[string(m.ID)]
	if !ok {
		return
	}
	delete(s.asked, string(m.ID))
	if call.tool == "visit" {
		s.tell("notifications/elicitation/complete", `{"elicitationId":"e1"}`)
	}
	s.say(call.id, string(m.Result)+string(m.Error))
}

// plain is a text that is the same in JSON.
func plain(text string) string { return strings.ReplaceAll(text, `"`, "") }

const livelyCapabilities = `"capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"logging":{}}`

func (s *lively) request(m jsonrpc.Message) {
	var p struct {
		Name, Cursor, URI, Level string
		InputResponses           json.RawMessage
		RequestState             string
		Notifications            json.RawMessage
		Meta                     map[string]json.RawMessage `json:"_meta"`
	}
	_ = json.Unmarshal(m.Params, &p) // not all have params
	switch m.Method {
	case "initialize":
		if !s.modern {
			s.reply(m.ID, `"protocolVersion":"2025-11-25",`+livelyCapabilities+`,"serverInfo":{"name":"lively","version":"1"}`)
			return
		}
	case "server/discover":
		if s.modern {
			s.reply(m.ID, `"supportedVersions":["2026-07-28"],`+livelyCapabilities+`,"ttlMs":0,"cacheScope":"private"`)
			return
		}
	case "tools/list", "prompts/list", "resources/list":
		s.reply(m.ID, s.page(strings.TrimSuffix(m.Method, "/list"), p.Cursor))
		return
	case "logging/setLevel":
		s.heard = append(s.heard, "level "+p.Level)
		s.level = p.Level
		s.reply(m.ID, "")
		return
	case "resources/subscribe", "resources/unsubscribe":
		s.heard = append(s.heard, m.Method+" "+p.URI)
		s.follows = slices.DeleteFunc(s.follows, func(uri string) bool { return uri == p.URI })
		if m.Method == "resources/subscribe" {
			s.follows = append(s.follows, p.URI)
		}
		s.reply(m.ID, "")
		return
	case "subscriptions/listen":
		s.heard = append(s.heard, "opened "+plain(string(p.Notifications)))
		s.streams[string(m.ID)] = string(p.Notifications)
		s.tell("notifications/subscriptions/acknowledged", `{"_meta":{"io.modelcontextprotocol/subscriptionId":`+string(m.ID)+`},"notifications":`+string(p.Notifications)+`}`)
		return
	case "tools/call":
		if level := string(p.Meta["io.modelcontextprotocol/logLevel"]); level != "" {
			s.level = strings.Trim(level, `"`)
			s.heard = append(s.heard, "level "+s.level)
		} else if s.modern {
			s.level = ""
		}
		s.call(m.ID, p.Name, string(p.Meta["progressToken"]), string(p.InputResponses), p.RequestState)
		return
	}
	s.fail(m.ID, `{"code":-32601,"message":"no such method"}`)
}

// page is a page of one entry.
func (s *lively) page(list, cursor string) string {
	names := map[string][]string{"tools": {"log", "hang", "visit", "first", "where", "change", "touch", "heard"}, "prompts": {"p1", "p2", "p3"}, "resources": {"x:1", "x:2", "x:3"}}[list]
	if s.changed {
		names = append(names, "x:added")
	}
	at := slices.Index(names, cursor) + 1 // "" is before all of them
	entry := map[string]string{"tools": `{"name":%q,"inputSchema":{"type":"object"}}`, "prompts": `{"name":%q}`, "resources": `{"uri":%q,"name":"r"}`}[list]
	out := fmt.Sprintf(`%q:[`+entry+`]`, list, names[at])
	if at+1 < len(names) {
		out += fmt.Sprintf(`,"nextCursor":%q`, names[at])
	}
	if s.modern {
		out += `,"ttlMs":0,"cacheScope":"private"`
	}
	return out
}

func (s *lively) call(id json.RawMessage, tool, progress, responses, state string) {
	switch tool {
	case "log":
		if s.level != "" || !s.modern {
			s.tell("notifications/message", `{"level":"info","logger":"own","data":"too quiet"}`)
			s.tell("notifications/message", `{"level":"warning","logger":"own","data":{"n":12345678901234567890}}`)
		}
		s.say(id, "logged")
	case "hang":
		s.held[string(id)] = asked{id, tool}
		s.tell("notifications/progress", `{"progressToken":`+progress+`,"progress":1}`)
	case "visit":
		s.ask(id, tool, responses, state, "elicitation/create", `{"mode":"url","message":"Sign here","url":"https://x.test/go"`, `,"elicitationId":"e1"`)
	case "where":
		s.ask(id, tool, responses, state, "roots/list", `{`, "")
	case "first":
		if !slices.Contains(s.heard, tool) {
			s.heard = append(s.heard, tool)
			s.fail(id, `{"code":-32042,"message":"visit first","data":{"elicitations":[{"mode":"url","message":"Sign here","url":"https://x.test/go","elicitationId":"e2"}]}}`)
			return
		}
		s.say(id, "visited")
	case "change":
		s.changed = true
		for _, list := range []string{"tools", "prompts", "resources"} {
			s.toStreams(list+"ListChanged", "notifications/"+list+"/list_changed", "")
		}
		s.say(id, "changed")
	case "touch":
		s.toStreams("x:1", "notifications/resources/updated", `"uri":"x:1"`)
		s.say(id, "touched")
	case "heard":
		s.say(id, strings.Join(s.heard, "\n"))
	}
}

// ask asks the client of a call, in the way of the revision.
func (s *lively) ask(id json.RawMessage, tool, responses, state, method, params, legacy string) {
	switch {
	case !s.modern:
		own := `"q-` + tool + `"`
		s.asked[own] = asked{id, tool}
		s.write(jsonrpc.AppendRequest(nil, json.RawMessage(own), method, json.RawMessage(params+legacy+"}")))
	case responses == "":
		s.reply(id, `"resultType":"input_required","inputRequests":{"k":{"method":"`+method+`","params":`+params+`}}},"requestState":"s 1"`)
	default:
		s.say(id, responses+" "+state)
	}
}

// toStreams tells whoever is to hear of it.
func (s *lively) toStreams(what, method, params string) {
	if !s.modern {
		if !strings.HasPrefix(what, "x:") || slices.Contains(s.follows, what) {
			s.tell(method, "{"+params+"}")
		}
		return
	}
	for id, filter := range s.streams {
		if strings.Contains(filter, `"`+what+`"`) {
			s.tell(method, strings.Replace(`{"_meta":{"io.modelcontextprotocol/subscriptionId":`+id+`},`+params+`}`, ",}", "}", 1))
		}
	}
}

// A talker is a client of one revision behind whose gate a lively server is.
type talker struct {
	*client
	modern bool
}

func newTalker(t *testing.T, modernServer, modern bool) *talker {
	dir := home(t, map[string]any{
		"servers": map[string]any{"lively": livelyServer(t, modernServer)},
		"policy":  map[string]any{"egress": []string{"metadata", "aggregates", "row_level", "rendered_pixels", "raw_pixels"}},
	})
	c := launch(t, built.gate, "--home", dir, "--log-level", "debug", "serve", "--exposure", "transparent")
	c.rooted = true
	k := &talker{client: c, modern: modern}
	if !modern {
		c.shakeHands(livelyClient)
	}
	return k
}

const livelyClient = `{"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true}}`

// begin sends a request with what the revision wants in it; meta is more of that.
func (k *talker) begin(method, params, meta string) string {
	k.t.Helper()
	if k.modern {
		meta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"e2e","version":"1"},"io.modelcontextprotocol/clientCapabilities":` + livelyClient + meta
	}
	if params != "" {
		params += ","
	}
	return k.send(method, "{"+params+`"_meta":{`+strings.TrimPrefix(meta, ",")+`}}`)
}

// do sends a request and returns what comes of it.
func (k *talker) do(method, params, meta string) string {
	k.t.Helper()
	m := k.answer(k.begin(method, params, meta))
	return string(m.Result) + string(m.Error)
}

func (k *talker) tool(name string) string {
	k.t.Helper()
	return k.do("tools/call", `"name":"`+name+`"`, "")
}

// hears waits until something has come.
func (k *talker) hears(what string) {
	k.t.Helper()
	k.next(what, func() bool { return strings.Contains(k.heard.String(), what) })
}

// serverHeard asks the server until it was told something.
func (k *talker) serverHeard(what string) {
	k.t.Helper()
	(&rig{t: k.t}).until("server that heard "+what, func() bool { return strings.Contains(k.tool("heard"), what) })
}

// asks calls a tool that asks for input, gives it, and returns the question and
// what came of it.
func (k *talker) asks(tool, input string) (question, result string) {
	k.t.Helper()
	if k.modern {
		var r struct {
			InputRequests map[string]json.RawMessage
			RequestState  json.RawMessage
		}
		first := k.tool(tool)
		if err := json.Unmarshal([]byte(first), &r); err != nil || len(r.InputRequests) != 1 {
			k.t.Fatalf("%s: %s", tool, first)
		}
		for key, q := range r.InputRequests {
			return string(q), k.do("tools/call", fmt.Sprintf(`"name":%q,"inputResponses":{%q:%s},"requestState":%s`, tool, key, input, r.RequestState), "")
		}
	}
	id := k.begin("tools/call", `"name":"`+tool+`"`, "")
	k.next("question of "+tool, func() bool { return len(k.client.asks) > 0 })
	q := k.client.asks[0]
	k.client.asks = nil
	k.write(jsonrpc.AppendResult(nil, q.ID, json.RawMessage(input)))
	m := k.answer(id)
	return q.Method + string(q.Params), string(m.Result) + string(m.Error)
}

// What belongs to no request, what a server asks for, and what ends early cross
// the gate, from each revision to each.
func TestWhatServersTellAndAskOfThemselves(t *testing.T) {
	t.Parallel()
	for _, modernServer := range []bool{false, true} {
		for _, modernClient := range []bool{false, true} {
			t.Run(fmt.Sprintf("server modern %t, client modern %t", modernServer, modernClient), func(t *testing.T) {
				t.Parallel()
				k := newTalker(t, modernServer, modernClient)
				has := func(what, got string, want ...string) {
					t.Helper()
					for _, w := range want {
						if !strings.Contains(got, w) {
							t.Errorf("%s: got  %s\nwant %s", what, got, w)
						}
					}
				}
				// Pages.
				tools := k.do("tools/list", "", "")
				has("tools/list", tools, `"log"`, `"hang"`, `"heard"`, `"touch"`)
				has("prompts/list", k.do("prompts/list", "", ""), `"prompts":[{"name":"p1"},{"name":"p2"},{"name":"p3"}]`)
				has("resources/list", k.do("resources/list", "", ""), `"resources":[{"uri":"x:1","name":"r"},{"uri":"x:2","name":"r"},{"uri":"x:3","name":"r"}]`)
				has("a cursor that nobody gave", k.do("resources/list", `"cursor":"x:1"`, ""), `-32602`)

				// Logs.
				const loud = `"method":"notifications/message","params":{"level":"warning","logger":"own","data":{"n":12345678901234567890}}`
				if modernClient {
					has("a call without a level", k.tool("log"), "logged")
					if strings.Contains(k.heard.String(), "notifications/message") {
						t.Error("a client that asked for no logs gets them")
					}
					has("log", k.do("tools/call", `"name":"log"`, `,"io.modelcontextprotocol/logLevel":"warning"`), "logged")
				} else {
					has("setLevel", k.do("logging/setLevel", `"level":"warning"`, ""), "{}")
					has("log", k.tool("log"), "logged")
				}
				k.hears(loud)
				if strings.Contains(k.heard.String(), "too quiet") {
					t.Error("a client gets logs below its level")
				}
				if modernServer || !modernClient {
					k.serverHeard("level warning")
				}

				// A call that its client gives up.
				id := k.begin("tools/call", `"name":"hang"`, `,"progressToken":"t"`)
				k.hears(`"progressToken":"t"`)
				k.write(jsonrpc.AppendNotification(nil, "notifications/cancelled", json.RawMessage(`{"requestId":`+id+`,"reason":"enough"}`)))
				k.serverHeard("cancelled hang")

				// A visit to an address.
				q, got := k.asks("visit", `{"action":"accept"}`)
				has("visit", q, "elicitation/create", `"mode":"url"`, `"url":"https://x.test/go"`, `"[lively] Sign here"`)
				has("visit", got, `{\"action\":\"accept\"}`)
				if modernServer {
					has("the state", got, "s 1")
				}
				if legacyID := strings.Contains(q, `"elicitationId"`); legacyID == modernClient {
					t.Errorf("visit: the question is %s", q)
				}
				if !modernServer && !modernClient {
					k.hears(`"method":"notifications/elicitation/complete","params":{"elicitationId":"e1"}`)
				}
				if !modernServer && modernClient {
					q, got = k.asks("first", `{"action":"accept"}`)
					has("first", q, `"url":"https://x.test/go"`)
					has("first", got, "visited")
				} else if !modernServer {
					has("first", k.tool("first"), `"code":-32042`, `"elicitationId":"e2"`, `"url":"https://x.test/go"`)
				}

				// Roots.
				q, got = k.asks("where", `{"roots":[{"uri":"file:///a b","name":"A"}]}`)
				has("where", q, "roots/list")
				has("where", got, `file:///a b`)
				if !modernClient && !modernServer {
					k.write(jsonrpc.AppendNotification(nil, "notifications/roots/list_changed", nil))
					k.serverHeard("notifications/roots/list_changed")
				}

				// Resources that are followed, and lists that change.
				stream := ""
				if modernClient {
					stream = k.begin("subscriptions/listen", `"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["x:1"]}`, "")
					k.hears("notifications/subscriptions/acknowledged")
					k.hears(`"resourceSubscriptions":["x:1"]`)
				} else {
					has("subscribe", k.do("resources/subscribe", `"uri":"x:1"`, ""), "{}")
				}
				followed := "resources/subscribe x:1"
				if modernServer {
					followed = "opened {resourceSubscriptions:[x:1]}"
				}
				k.serverHeard(followed)
				k.tool("touch")
				k.tool("change")
				for _, notice := range []string{"resources/updated", "resources/list_changed", "prompts/list_changed"} {
					k.hears(`"method":"notifications/` + notice + `"`)
				}
				for line := range strings.Lines(k.heard.String()) {
					about := strings.Contains(line, "/list_changed") || strings.Contains(line, "resources/updated")
					if tagged := strings.Contains(line, `"io.modelcontextprotocol/subscriptionId":`+stream); about && (modernClient && !tagged || !modernClient && strings.Contains(line, "subscriptionId")) {
						t.Errorf("a notice of no stream, or of the gate's own: %s", line)
					}
				}
				if got := k.do("tools/list", "", ""); got != tools {
					t.Errorf("a tool that nobody accepted changes the list: %s", got)
				}
				for _, list := range []string{"prompts", "resources"} {
					has(list+"/list", k.do(list+"/list", "", ""), `"x:added"`)
				}
				if modernClient {
					k.write(jsonrpc.AppendNotification(nil, "notifications/cancelled", json.RawMessage(`{"requestId":`+stream+`}`)))
				} else {
					has("unsubscribe", k.do("resources/unsubscribe", `"uri":"x:1"`, ""), "{}")
				}
				if modernServer {
					k.serverHeard("closed {resourceSubscriptions:[x:1]}")
				} else {
					k.serverHeard("resources/unsubscribe x:1")
				}
			})
		}
	}
}
