package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/mcp-gate/mcp-gate/vault"
)

// elsewhere are the cases that a plain replay cannot make: their scripts need
// what only beyond knows.
var elsewhere = []string{"047", "072"}

// beyond are the checks of each case that its scripts do not make themselves.
var beyond = map[string]func(*replay){
	"003": besideAnother, "006": strictProfile, "008": oddEntries, "015": badSchema, "019": longNames, "021": sameNames,
	"023": ambiguous, "026": repeatedCursor, "027": stableList, "036": argumentShapes, "038": nothingStripped,
	"045": keptResult, "047": wholeImage, "054": noLateAnswer, "060": noBatch, "062": errorOverHTTP, "068": changeStorm,
	"070": samePrefix, "072": emptyAtFirst, "074": noTools, "076": instructions, "081": lostSession, "084": eventStream,
	"086": expiredToken, "094": oneStart, "096": brokenServer, "098": diedMidCall, "100": notRetried, "101": twoSessions,
	"104": samePrompts, "105": logLevels,
	"108": editorVariables, "109": tilde, "112": remoteShapes, "113": comments, "115": byteOrderMark,
	"117": minimalPath, "118": smallEnvironment, "121": hotReload, "122": ownEntry,
	"124": policyCalls, "126": policyCalls, "128": explained, "129": nobodyAnswers, "131": hiddenCharacters, "133": sameDefinition,
}

// besideAnother lists and calls the tools of another server beside the case's.
func besideAnother(c *replay) {
	cfg := map[string]any{"up": c.upstream("up"), "plain": c.plain("plain")}
	client := c.client(c.home(cfg, nil), "direct")
	listed := c.listed(client)
	c.contains("the list", listed, `"up_`)
	c.contains("a call of the other server", string(client.call("plain/echo", "{}")), `"ok"`)
}

// plain is a scripted server without anything of the case.
func (c *replay) plain(record string) map[string]any {
	c.t.Helper()
	program, err := filepath.Abs(c.program())
	if err != nil {
		c.t.Fatal(err)
	}
	return map[string]any{
		"command": c.python, "args": []string{"-S", program, "serve", "--case", "000", "--record", c.at(record)},
		"egress": everything, "tools": map[string]any{"*": map[string]string{"permission": "read"}},
	}
}

// listed is the tools/list result in bytes.
func (c *replay) listed(client *client) string {
	c.t.Helper()
	return string(client.result(client.send("tools/list", `{}`)))
}

// names are those in a list that are not the gate's own.
func (c *replay) names(list string) []string {
	c.t.Helper()
	var r struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal([]byte(list), &r); err != nil {
		c.t.Fatal(err)
	}
	own := []string{"find_tools", "load_tool", "call_tool_read", "call_tool", "read_artifact", "check_deferred", "engage", "query_artifact"}
	var names []string
	for _, t := range r.Tools {
		if !slices.Contains(own, t.Name) {
			names = append(names, t.Name)
		}
	}
	return names
}

func (c *replay) same(what string, got, want any) {
	c.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		c.t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func (c *replay) served() []string { return strings.Fields(c.read("c/names")) }

func strictProfile(c *replay) {
	home := c.home(map[string]any{"up": c.upstream("s")}, func(cfg map[string]any) {
		cfg["clients"] = map[string]any{"probe": map[string]string{"schemas": "strict"}}
	})
	client := connect(c.t, `{}`, built.gate, append(serving(home, "transparent")[1:], "--client", "probe")...)
	var r struct {
		Tools []struct{ InputSchema map[string]json.RawMessage }
	}
	list := c.listed(client)
	if err := json.Unmarshal([]byte(list), &r); err != nil || len(r.Tools) != 1 {
		c.t.Fatalf("list: %v %s", err, list)
	}
	for _, gone := range []string{"anyOf", "oneOf", "allOf"} {
		if r.Tools[0].InputSchema[gone] != nil {
			c.t.Errorf("a strict client's list has %s at the root: %s", gone, list)
		}
	}
	for _, kept := range []string{"properties", "required"} {
		if r.Tools[0].InputSchema[kept] == nil {
			c.t.Errorf("a strict client's list has no %s at the root: %s", kept, list)
		}
	}
}

func oddEntries(c *replay) {
	home := c.home(map[string]any{"up": c.upstream("up"), "plain": c.plain("plain")}, nil)
	client := c.client(home, "direct")
	c.contains("the list", c.listed(client), `"up_ok"`)
	c.contains("a call of the other server", string(client.call("plain/echo", "{}")), `"ok"`)
	out, _, _ := c.run(nil, "--home", home, "--json", "status")
	c.contains("status", out, "entry 1 has no name or is no object")
}

func badSchema(c *replay) {
	home := c.transparent(nil)
	c.play(home)
	c.contains("the list", c.read("c/names"), "good")
	// Another definition's fault costs the good one nothing in the default exposure.
	client := c.client(home, "meta")
	if names := c.names(c.listed(client)); len(names) > 0 {
		c.t.Errorf("the default exposure lists %v", names)
	}
	c.contains("the call", string(client.call("up/good", `{"n":1}`)), `"ok"`)
	// Beside others it is set aside, and can be called yet.
	home = c.home(map[string]any{"up": c.upstream("beside")}, func(cfg map[string]any) { cfg["exposure"] = "direct" })
	client = c.client(home, "direct")
	c.same("the list beside others", c.names(c.listed(client)), []string{"up_good"})
	c.contains("the call of the bad one", string(client.call("up/bad", `{"n":1}`)), `"ok"`)
	_, errs, _ := c.run(nil, "--home", home, "tools", "ls")
	c.contains("tools ls", errs, `up/bad is left out of lists beside others`)
	c.contains("tools ls", errs, `has the type "int", which is none`)
}

func longNames(c *replay) {
	var want struct {
		ClientPrefix string `json:"client_prefix"`
		MaxLen       int    `json:"max_len"`
	}
	c.expect(&want)
	name := "enterprise-database-management-service"
	var lists []string
	for range 2 {
		client := c.client(c.home(map[string]any{name: c.upstream("s", "--as", name)}, nil), "direct")
		lists = append(lists, c.listed(client))
	}
	names := c.names(lists[0])
	for _, n := range names {
		if len(want.ClientPrefix+n) > want.MaxLen {
			c.t.Errorf("%s%s is longer than %d", want.ClientPrefix, n, want.MaxLen)
		}
	}
	if len(names) != 2 || names[0] == names[1] {
		c.t.Errorf("the names are %v", names)
	}
	c.same("the names of another start", c.names(lists[1]), names)
}

// sameNames calls each tool by the name it has, with the server's list in either order.
func sameNames(c *replay) {
	var all [2][]string
	for i := range all {
		client := c.client(c.home(map[string]any{"files": c.upstream("s", "--as", "files")}, nil), "direct")
		names := c.names(c.listed(client))
		var routes []string
		for _, n := range names {
			routes = append(routes, n+" "+string(client.result(client.send("tools/call", fmt.Sprintf(`{"name":%q,"arguments":{}}`, n)))))
		}
		slices.Sort(routes)
		all[i] = routes
		var servers []struct {
			Name  string            `json:"name"`
			Tools []json.RawMessage `json:"tools"`
		}
		if err := json.Unmarshal(c.input("servers.json"), &servers); err != nil {
			c.t.Fatal(err)
		}
		slices.Reverse(servers[0].Tools)
		raw, err := json.Marshal(servers)
		if err != nil {
			c.t.Fatal(err)
		}
		c.with("servers.json", string(raw))
	}
	c.same("what the names lead to, with the list reversed", all[1], all[0])
	text := strings.Join(all[0], "\n")
	for _, own := range []string{"files/read-file", "files/read_file", "files/read.file"} {
		if strings.Count(text, `"`+own+`"`) != 1 {
			c.t.Errorf("%s is not called once: %s", own, text)
		}
	}
}

func ambiguous(c *replay) {
	home := c.home(map[string]any{"east": c.upstream("east", "--as", "east"), "west": c.upstream("west", "--as", "west")}, nil)
	client := c.client(home, "meta")
	for _, server := range []string{"east", "west"} {
		c.contains("the call of "+server, string(client.call(server+"/execute_sql", "{}")), server+"/execute_sql")
	}
	m := client.answer(client.begin("execute_sql", "{}"))
	answer := string(m.Result) + string(m.Error)
	c.contains("the answer to a bare name", answer, "east")
	c.contains("the answer to a bare name", answer, "west")
	c.same("calls that reached east and west", []int{c.calls("east"), c.calls("west")}, []int{1, 1})
}

func repeatedCursor(c *replay) {
	c.play(c.transparent(nil))
	c.same("the names", c.served(), []string{"only"})
	if n := c.requests("s", "tools/list"); n == 0 || n > 3 {
		c.t.Errorf("%d requests for the list", n)
	}
}

// late starts a server's command after some time.
func late(entry map[string]any, seconds string) map[string]any {
	args := append([]string{"-c", `sleep "$0"; exec "$@"`, seconds, entry["command"].(string)}, entry["args"].([]string)...)
	entry["command"], entry["args"] = "/bin/sh", args
	return entry
}

func stableList(c *replay) {
	first := ""
	for restart := range 3 {
		a, b := c.upstream("a", "--as", "a"), c.upstream("b", "--as", "b")
		switch restart {
		case 1:
			a = late(a, "0.7")
		case 2:
			b = late(b, "0.7")
		}
		client := c.client(c.home(map[string]any{"a": a, "b": b}, nil), "direct")
		for range 20 {
			list := c.listed(client)
			if first == "" {
				first = list
			}
			if list != first {
				c.t.Fatalf("start %d gave another list:\n%s\n%s", restart, first, list)
			}
		}
	}
	c.same("the number of tools", len(c.names(first)), 5)
}

func argumentShapes(c *replay) {
	c.same("calls that reached the server", c.calls("s"), 1)
	if got := c.read("s/call-01.args"); got == "null" {
		c.t.Error("the server got null for its arguments")
	}
}

func nothingStripped(c *replay) {
	c.same("the arguments that reached the server", c.read("s/call-01.args"), strings.TrimSuffix(string(c.input("args.json")), "\n"))
}

// keptResult has a large result kept and reads it back in parts.
func keptResult(c *replay) {
	if !strings.Contains(c.read("c/in.raw"), strings.Repeat("x", 300_000)) {
		c.t.Error("without a bound on results something is missing from a large one")
	}
	if c.later("artifacts") {
		return
	}
	client := c.client(c.home(map[string]any{"up": c.upstream("kept")}, func(cfg map[string]any) {
		cfg["artifacts"] = map[string]any{"inline_bytes": 8192}
	}), "meta")
	short := string(client.call("up/echo", "{}"))
	id := regexp.MustCompile(`a_[a-z2-7]{26}`).FindString(short)
	if len(short) > 32_768 || id == "" {
		c.t.Fatalf("a result of 300,000 characters comes as %d bytes: %.600s", len(short), short)
	}
	whole := ""
	for len(whole) < 300_000 {
		page := client.result(client.send("tools/call", fmt.Sprintf(
			`{"name":"read_artifact","arguments":{"artifact":%q,"bytes":{"from":%d,"to":%d},"max":120000}}`, id, len(whole), len(whole)+100_000)))
		part := strings.Repeat("x", 100_000)
		if !bytes.Contains(page, []byte(part)) {
			c.t.Fatalf("a page of 100,000 characters after %d: %.600s", len(whole), page)
		}
		whole += part
	}
}

func wholeImage(c *replay) {
	client := c.client(c.transparent(nil), "transparent")
	var r struct {
		Content []struct{ Type, Text, MimeType, Data string }
	}
	raw := client.result(client.send("tools/call", `{"name":"echo","arguments":{}}`))
	if err := json.Unmarshal(raw, &r); err != nil || len(r.Content) != 2 {
		c.t.Fatalf("%v %.300s", err, raw)
	}
	c.same("the first item", r.Content[0].Type+" "+r.Content[0].Text, "text screenshot")
	c.same("the image", r.Content[1].Type+" "+r.Content[1].MimeType, "image image/png")
	if r.Content[1].Data != strings.Repeat("x", 400_000) {
		c.t.Errorf("%d of 400,000 characters of the image", len(r.Content[1].Data))
	}
	c.until("verdict of the server", func() bool { return c.has("s/verdict") })
	c.check("script")
	if c.later("artifacts") {
		return
	}
	client = c.client(c.home(map[string]any{"up": c.upstream("kept")}, func(cfg map[string]any) {
		cfg["artifacts"] = map[string]any{"inline_bytes": 8192}
	}), "meta")
	short := string(client.call("up/echo", "{}"))
	c.contains("what stands for the image", short, `"text":"screenshot"`)
	c.contains("what stands for the image", short, "image/png")
	c.lacks("what stands for the image", short, strings.Repeat("x", 16))
}

func noLateAnswer(c *replay) { c.lacks("what the client got", c.read("c/in.raw"), `"id":"c-77"`) }

func noBatch(c *replay) {
	c.same("calls that reached the server", c.calls("s"), 0)
	for line := range strings.Lines(c.read("s/in.raw")) {
		if strings.HasPrefix(line, "[") {
			c.t.Errorf("the server got %s", line)
		}
	}
}

// webServer starts the scripted server over HTTP and returns its entry.
func (c *replay) webServer() map[string]any {
	c.t.Helper()
	cmd := c.fake("http", "--port", "0", "--record", c.at("s"))
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	port, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	return map[string]any{
		"url": "http://127.0.0.1:" + strings.TrimSpace(port) + "/mcp", "egress": everything,
		"tools": map[string]any{"*": map[string]string{"permission": "read"}},
	}
}

// A web is a session over HTTP with a gate.
type web struct {
	c                   *replay
	url, token, session string
}

func (c *replay) web(url, token string) *web {
	c.t.Helper()
	w := &web{c: c, url: url, token: token}
	if status, body := w.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"probe","version":"1"}}}`); status != 200 {
		c.t.Fatalf("initialize gives %d %s", status, body)
	}
	w.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return w
}

// post sends one message and returns the status and the first answer in the body.
func (w *web) post(message string) (int, string) {
	w.c.t.Helper()
	req, err := http.NewRequest("POST", w.url, strings.NewReader(message))
	if err != nil {
		w.c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Authorization", "Bearer "+w.token)
	if w.session != "" {
		req.Header.Set("Mcp-Session-Id", w.session)
		req.Header.Set("Mcp-Protocol-Version", "2025-06-18")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.c.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.c.t.Fatal(err)
	}
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		w.session = id
	}
	for line := range bytes.Lines(body) {
		if data, ok := bytes.CutPrefix(line, []byte("data: {")); ok {
			return resp.StatusCode, "{" + string(data)
		}
	}
	return resp.StatusCode, string(body)
}

func (w *web) call(tool string) (int, string) {
	w.c.t.Helper()
	return w.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":%q,"arguments":{}}}`, tool))
}

func errorOverHTTP(c *replay) {
	url, token := serveHTTP(c.t, c.home(map[string]any{"up": c.webServer()}, nil))
	w := c.web(url, token)
	for range 2 { // the session lives on
		status, body := w.call("echo")
		var m struct {
			Error struct {
				Code    int
				Message string
			}
		}
		if err := json.Unmarshal([]byte(body), &m); err != nil {
			c.t.Fatalf("%v: %s", err, body)
		}
		c.same("the answer", fmt.Sprint(status, m.Error.Code, m.Error.Message), fmt.Sprint(200, -32010, "row missing"))
	}
	if n := strings.Count(c.read("s/http.raw"), `"initialize"`); n != 1 {
		c.t.Errorf("the server was initialised %d times", n)
	}
}

func changeStorm(c *replay) {
	if n, most := c.requests("s", "tools/list"), 3+int(c.took/(2*time.Second)); n > most { // one in two seconds, and the first
		c.t.Errorf("%d requests for the list in %v, want %d at most", n, c.took, most)
	}
}

func samePrefix(c *replay) {
	home := c.home(map[string]any{"up": c.plain("s"), "tardy": late(c.plain("tardy"), "1.5")}, nil)
	client := c.client(home, "meta")
	first := c.listed(client)
	hello := string(client.result(client.send("prompts/list", `{}`)))
	client.result(client.send("tools/call", `{"name":"find_tools","arguments":{"query":"echo"}}`))
	client.result(client.send("tools/call", `{"name":"load_tool","arguments":{"names":["up/echo"]}}`))
	c.contains("the call", string(client.call("up/echo", "{}")), `"ok"`)
	c.contains("the call of the late server", string(client.call("tardy/echo", "{}")), `"ok"`)
	c.same("the last list", c.listed(client), first)
	c.same("the last list of prompts", string(client.result(client.send("prompts/list", `{}`))), hello)
	another := c.client(home, "meta")
	c.same("the list of a new session", c.listed(another), first)
	c.same("what a session is told first", c.hello(home, "meta"), c.hello(home, "meta"))
}

// hello is the answer to initialize.
func (c *replay) hello(home, exposure string) string {
	c.t.Helper()
	c.playIn(home, exposure)
	return c.read("c/init.result")
}

// emptyAtFirst has a server list nothing at first. Its tool is there in the end,
// and in a session that begins while it lists nothing again.
func emptyAtFirst(c *replay) {
	c.with("client", `send {"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}
within 15000 expect id 2 as a
within 15000 expect notifications/tools/list_changed
send {"jsonrpc":"2.0","id":3,"method":"tools/list","params":{}}
within 15000 expect id 3 as b
assert ${b.result} contains "echo"
send {"jsonrpc":"2.0","id":4,"method":"tools/call","params":{@CALL echo {}@}}
within 15000 expect id 4 as r
assert ${r.result} contains content
pass
`)
	home := c.transparent(nil)
	c.play(home)
	c.check("script")
	c.with("client", `send {"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}
within 1000 expect id 2 as a
assert ${a.result} contains "echo"
pass
`)
	c.play(home)
}

func noTools(c *replay) {
	c.with("client", `send {"jsonrpc":"2.0","id":2,"method":"resources/list","params":{}}
within 15000 expect id 2 as l
assert ${l.result} contains doc://one
send {"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"doc://one"}}
within 15000 expect id 3 as r
assert ${r.result} contains "hello"
send {"jsonrpc":"2.0","id":4,"method":"prompts/list","params":{}}
within 15000 expect id 4 as p
assert ${p.result} contains "sum"
pass
`)
	c.play(c.transparent(nil))
	c.same("requests for tools", c.requests("s", "tools/list"), 0)
}

func instructions(c *replay) {
	var want struct {
		Contains string `json:"client_instructions_contains"`
	}
	c.expect(&want)
	home := c.transparent(nil)
	told := func() string {
		var hello struct{ Instructions string } // the server's name is not there where it takes more than 3 s to start
		if err := json.Unmarshal([]byte(c.hello(home, "transparent")), &hello); err != nil {
			c.t.Fatal(err)
		}
		return hello.Instructions
	}
	first := told()
	c.contains("what the client is told", first, want.Contains)
	c.same("what another session is told", told(), first)
}

func lostSession(c *replay) {
	c.with("client", `send {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{@CALL echo {}@}}
within 15000 expect id 2 as r
assert ${r.result} contains new session
pass
`)
	c.play(c.home(map[string]any{"up": c.webServer()}, nil))
	raw := c.read("s/http.raw")
	c.same("initialisations and calls", []int{strings.Count(raw, `"initialize"`), strings.Count(raw, `"tools/call"`)}, []int{2, 2})
}

func eventStream(c *replay) {
	c.with("client", `send {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{@CALL echo {}@}}
within 15000 expect notifications/message as m
assert ${m.params} contains working
within 15000 expect id 2 as r
assert ${r.result} contains "héllo"
pass
`)
	c.play(c.home(map[string]any{"up": c.webServer()}, nil))
}

// expiredToken holds a token that the server does not take any more, and what
// renews it.
func expiredToken(c *replay) {
	server := c.webServer()
	home := c.home(map[string]any{"up": server}, nil)
	url := server["url"].(string)
	origin := strings.TrimSuffix(url, "/mcp")
	record, err := json.Marshal(map[string]any{
		"url": url, "resource": url, "issuer": origin, "token_endpoint": origin + "/token",
		"registration": map[string]string{"client_id": "gate", "token_endpoint_auth_method": "none"},
		"access_token": "t1", "refresh_token": "r1", "obtained": time.Now(), "expires": time.Now().Add(time.Hour),
	})
	if err == nil {
		err = vault.Open(vault.Options{Dir: filepath.Join(home, "keys")}).Put("signin/up", record)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.with("client", `send {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{@CALL echo {}@}}
within 15000 expect id 2 as r
assert ${r.result} contains fresh token
send {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{@CALL echo {}@}}
within 15000 expect id 3 as s
assert ${s.result} contains fresh token
pass
`)
	c.play(home)
	c.same("requests for a token", strings.Count(c.read("s/http.raw"), "POST /token"), 1)
}

func oneStart(c *replay) {
	entry := c.plain("s")
	if !c.later("servers.*.start=lazy") {
		entry["start"] = "lazy"
	}
	client := c.client(c.home(map[string]any{"up": entry}, nil), "meta")
	var ids []string
	for range 20 {
		ids = append(ids, client.begin("up/echo", "{}"))
	}
	for _, id := range ids {
		c.contains("a call", string(client.result(id)), `"ok"`)
	}
	c.same("starts", c.read("s/starts"), "1\n")
}

func brokenServer(c *replay) {
	home := c.written("config.json", "s")
	client := c.client(home, "direct")
	client.call("ok/echo", "{}") // it is up
	began := time.Now()
	c.same("the names", c.names(c.listed(client)), []string{"ok_echo"})
	if took := time.Since(began); took > slow*2*time.Second {
		c.t.Errorf("the list took %v", took)
	}
	// The gate tries again and again, so its state is one of two.
	out, _, _ := c.run(nil, "--home", home, "status")
	c.contains("status", out, `server broken did not start: command "/nonexistent/binary"`)
}

// filled returns a configuration of the case with its blanks filled in.
func (c *replay) filled(suffix, record, config string) string {
	c.t.Helper()
	program, err := filepath.Abs(c.program())
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.NewReplacer("{FAKESERVER}", program, "{RECORD}", c.at(record), "{GATE}", built.gate, "{CONFIG}", config).Replace(string(c.input(suffix)))
}

// written is a home that has a configuration of the case as its own.
func (c *replay) written(suffix, record string) string {
	c.t.Helper()
	dir := home(c.t, nil)
	c.write(filepath.Join(dir, "config.jsonc"), c.filled(suffix, record, filepath.Join(dir, "config.jsonc")))
	return dir
}

func diedMidCall(c *replay) {
	c.same("calls that reached the server", c.calls("s"), 1)
	c.contains("what the client got", c.read("c/in.raw"), "exit status 7")
	c.contains("what the client got", c.read("c/in.raw"), `"executed":"unknown"`)
}

func notRetried(c *replay) {
	c.same("calls and starts", fmt.Sprint(c.calls("s"), c.read("s/starts")), fmt.Sprint(1, "1\n"))
}

// twoSessions are two clients of one server that counts.
func twoSessions(c *replay) {
	for _, connection := range []string{"shared", "session"} {
		want := []string{"counter 1", "counter 2"}
		entry := c.upstream(connection)
		if connection == "session" {
			if c.later("servers.*.connection=session") {
				return
			}
			entry["connection"], want = "session", []string{"counter 1", "counter 1"}
		}
		url, token := serveHTTP(c.t, c.home(map[string]any{"up": entry}, nil))
		a, b := c.web(url, token), c.web(url, token)
		for i, w := range []*web{a, b} {
			_, body := w.call("echo")
			c.contains(connection, body, want[i])
		}
	}
}

func samePrompts(c *replay) {
	var want struct {
		Arguments string `json:"upstream_arguments"`
	}
	c.expect(&want)
	home := c.home(map[string]any{"logs": c.upstream("logs", "--as", "logs"), "metrics": c.upstream("metrics", "--as", "metrics")}, nil)
	client := c.client(home, "direct")
	var r struct{ Prompts []struct{ Name string } }
	list := client.result(client.send("prompts/list", `{}`))
	if err := json.Unmarshal(list, &r); err != nil {
		c.t.Fatal(err)
	}
	var texts []string
	for _, p := range r.Prompts {
		if !strings.Contains(p.Name, "documentation") {
			continue // the gate's own
		}
		got := string(client.result(client.send("prompts/get", fmt.Sprintf(`{"name":%q,"arguments":%s}`, p.Name, want.Arguments))))
		for _, text := range []string{"LOGS", "METRICS"} {
			if strings.Contains(got, text) {
				texts = append(texts, text)
			}
		}
	}
	slices.Sort(texts)
	c.same("what the prompts gave", texts, []string{"LOGS", "METRICS"})
	for _, server := range []string{"logs", "metrics"} {
		raw := c.read(server + "/in.raw")
		c.contains("what reached "+server, raw, `"name":"documentation"`)
		c.contains("what reached "+server, raw, `"arguments":`+want.Arguments)
	}
}

func logLevels(c *replay) { c.lacks("what the client got", c.read("c/in.raw"), "noise") }

// imported is a home into which the gate imported a configuration of the case,
// and the JSON document it printed. The file it came from is as it was.
func (c *replay) imported(suffix string, env []string, args ...string) (string, imports) {
	c.t.Helper()
	dir := home(c.t, nil)
	if err := os.Remove(filepath.Join(dir, "config.jsonc")); err != nil {
		c.t.Fatal(err)
	}
	file := c.at("theirs." + suffix)
	text := c.filled(suffix, "s", filepath.Join(dir, "config.jsonc"))
	c.write(file, text)
	args = append([]string{"--home", dir, "--json", "import", "--write", "--yes", file}, args...)
	out, errs, code := c.run(env, args...)
	var doc imports
	if err := json.Unmarshal([]byte(out), &doc); err != nil || code != 0 {
		c.t.Fatalf("import ends with %d: %v\n%s%s", code, err, out, errs)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != text {
		c.t.Errorf("the file that was read is not as it was: %v", err)
	}
	return dir, doc
}

// imports is what import prints.
type imports struct {
	Servers []struct {
		Name, Transport, URL string
		Headers              map[string]string
		StartTimeout         string `json:"start_timeout"`
	}
	Left []struct{ Key, Kind string } `json:"left_out"`
}

func (i imports) names() (in, left []string) {
	for _, s := range i.Servers {
		in = append(in, s.Name)
	}
	for _, l := range i.Left {
		left = append(left, l.Key)
	}
	return in, left
}

// argv, environ and cwd are what a scripted server was started with.
func (c *replay) argv() []string { return strings.Split(c.read("s/argv"), "\x00") }

func (c *replay) environ() map[string]string {
	env := map[string]string{}
	for _, kv := range strings.Split(c.read("s/env"), "\x00") {
		name, value, _ := strings.Cut(kv, "=")
		env[name] = value
	}
	return env
}

func (c *replay) tail(want ...string) {
	c.t.Helper()
	argv := c.argv()
	c.same("the last arguments", fmt.Sprintf("%q", argv[max(0, len(argv)-len(want)):]), fmt.Sprintf("%q", want))
}

func editorVariables(c *replay) {
	answers := c.at("answers")
	c.write(answers, `{"tok":"t1"}`)
	dir, _ := c.imported("config.jsonc", nil, "--as", "vscode", "--folder", "/tmp/w s", "--answers", answers)
	written, err := os.ReadFile(filepath.Join(dir, "config.jsonc"))
	if err != nil {
		c.t.Fatal(err)
	}
	c.lacks("the configuration", string(written), `"t1"`)
	c.lacks("the configuration", string(written), `"k1"`)
	c.play(dir, "KEY=k1")
	c.tail("--root", "/tmp/w s/sub dir")
	c.same("the variables", []string{c.environ()["K"], c.environ()["T"]}, []string{"k1", "t1"})
}

func tilde(c *replay) {
	person := c.at("home x")
	if err := os.Mkdir(person, 0o700); err != nil {
		c.t.Fatal(err)
	}
	dir, _ := c.imported("config.json", []string{"HOME=" + person})
	c.play(dir, "HOME="+person)
	c.tail(person+"/data", person, "a~b", "--x=~/y", "~bob/z")
	c.same("the working directory", c.read("s/cwd"), person)
}

func remoteShapes(c *replay) {
	_, doc := c.imported("config.json", []string{"T=x"})
	in, left := doc.names()
	c.same("the servers", in, []string{"g", "w", "c", "z"})
	c.same("what is left out", left, []string{"bad"})
	for _, s := range doc.Servers {
		if s.Transport == "stdio" || !strings.HasPrefix(s.URL, "http://127.0.0.1:1/") {
			c.t.Errorf("%s is %s at %q", s.Name, s.Transport, s.URL)
		}
	}
	c.same("the header", doc.Servers[0].Headers["Authorization"], "Bearer ${T}")

	dir, doc := c.imported("config.toml", nil)
	in, _ = doc.names()
	c.same("the servers", in, []string{"ide", "tool"})
	c.same("their transports", []string{doc.Servers[0].Transport, doc.Servers[1].Transport}, []string{"http", "stdio"})
	c.same("the time to start", doc.Servers[1].StartTimeout, "2m0s")
	c.client(dir, "meta").call("tool/echo", "{}")
	c.same("a variable with a dot", c.environ()["A.B"], "1")
}

func comments(c *replay) {
	dir, doc := c.imported("config.jsonc", nil)
	in, _ := doc.names()
	c.same("the servers", in, []string{"a"})
	c.play(dir)
	c.tail("http://x.test/a//b", "/* not a comment */")
	c.play(c.written("config.jsonc", "s")) // and as the gate's own
	c.tail("http://x.test/a//b", "/* not a comment */")
}

func byteOrderMark(c *replay) {
	dir, doc := c.imported("config.bom.json", nil)
	in, _ := doc.names()
	c.same("the servers", in, []string{"a"})
	c.play(dir)
	c.tail("bom")
}

// minimalPath is a gate that a desktop started: what a terminal finds is not in
// its PATH.
func minimalPath(c *replay) {
	bin := c.at("tools", "bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		c.t.Fatal(err)
	}
	program, err := filepath.Abs(c.program())
	if err != nil {
		c.t.Fatal(err)
	}
	path := bin + ":/usr/bin:/bin"
	stub := func(name, text string) string {
		file := filepath.Join(bin, name)
		c.write(file, "#!/bin/sh\n"+text+"\n")
		if err := os.Chmod(file, 0o700); err != nil {
			c.t.Fatal(err)
		}
		return file
	}
	stub("uvx", fmt.Sprintf("exec %q -S %q serve --case 117 --record %q", c.python, program, c.at("s")))
	shell := stub("shell", fmt.Sprintf(`PATH=%q; export PATH; for last; do :; done; eval "$last"`, path))
	dir, _ := c.imported("config.json", nil)
	c.play(dir, "PATH=/usr/bin:/bin", "SHELL="+shell)
	c.contains("the PATH of the server", c.environ()["PATH"], bin)
}

func smallEnvironment(c *replay) {
	dir, _ := c.imported("config.json", nil)
	c.play(dir, "SECRET_OF_OTHERS=x", "AWS_SECRET_ACCESS_KEY=y", "HOME=/tmp/h", "LANG=C.UTF-8", "HTTPS_PROXY=http://p.test:1")
	var want struct {
		Has   []string `json:"child_has"`
		Lacks []string `json:"child_lacks"`
	}
	c.expect(&want)
	env := c.environ()
	for _, name := range want.Has {
		if env[name] == "" {
			c.t.Errorf("the server has no %s", name)
		}
	}
	for _, name := range want.Lacks {
		if _, ok := env[name]; ok {
			c.t.Errorf("the server has %s", name)
		}
	}
}

// hotReload changes one server's entry, and the order of both, while the other
// runs a call.
func hotReload(c *replay) {
	dir := home(c.t, nil)
	file := filepath.Join(dir, "config.jsonc")
	fill := func(suffix string) string {
		var cfg struct {
			Servers map[string]struct {
				Command string   `json:"command"`
				Args    []string `json:"args"`
			} `json:"mcpServers"`
		}
		if err := json.Unmarshal([]byte(c.filled(suffix, "s", file)), &cfg); err != nil {
			c.t.Fatal(err)
		}
		for name, s := range cfg.Servers {
			for i, a := range s.Args {
				if a == c.at("s") {
					s.Args[i] = c.at(name)
				}
			}
		}
		raw, err := json.Marshal(cfg)
		if err != nil {
			c.t.Fatal(err)
		}
		return string(raw)
	}
	c.write(file, fill("config.json"))
	var want struct {
		Starts   map[string]int
		Contains string `json:"call_a_result_contains"`
	}
	c.expect(&want)
	client := c.client(dir, "meta")
	c.until("start of both", func() bool { return c.has("a/starts") && c.has("b/starts") })
	running := client.begin("a/echo", "{}")
	c.until("call of a", func() bool { return c.calls("a") == 1 })
	put := func(text string) {
		c.write(file+".new", text)
		if err := os.Rename(file+".new", file); err != nil {
			c.t.Fatal(err)
		}
	}
	put(fill("config2.json"))
	c.until("new entry of b", func() bool { return strings.HasSuffix(c.read("b/argv"), "\x00v2") })
	c.contains("the call", string(client.result(running)), want.Contains)
	put("// the same again\n" + fill("config2.json"))
	c.until("word that this is no change", func() bool {
		out, _, _ := c.run(nil, "--home", dir, "status")
		return strings.Contains(out, "no server")
	})
	for name, n := range want.Starts {
		c.same("starts of "+name, strings.Count(c.read(name+"/starts"), "\n"), n)
	}
	client.result(client.send("tools/list", `{}`)) // the same session goes on
}

func ownEntry(c *replay) {
	dir, doc := c.imported("config.json", nil)
	in, left := doc.names()
	c.same("what is imported", in, []string{"real"})
	c.same("what is left out", left, []string{"gate", "gate-abs"})
	c.play(dir)

	dir = c.written("config.json", "own")
	client := c.client(dir, "meta")
	client.call("real/echo", "{}")
	out, _, _ := c.run(nil, "--home", dir, "--json", "status")
	var status struct {
		Gates []struct {
			Servers []struct{ Alias, State string }
		}
	}
	if err := json.Unmarshal([]byte(out), &status); err != nil {
		c.t.Fatal(err)
	}
	c.same("gates of the home", len(status.Gates), 1)
	for _, s := range status.Gates[0].Servers {
		if s.Alias == "gate-abs" && s.State == "ready" {
			c.t.Errorf("the gate started itself: %s", out)
		}
	}
	c.same("starts of the real one", c.read("own/starts"), "1\n")
}

// neutral are the rules and calls of a policy case.
type neutral struct {
	Rules []struct {
		Do, Server, Class string
		Tool              any
		When              json.RawMessage
	}
	Calls []struct {
		Meta, Server, Name, Want string
		Args, Arguments          json.RawMessage
		Upstream                 *int     `json:"upstream_calls"`
		Mentions                 []string `json:"text_mentions"`
	}
}

// rules are the neutral ones as the gate has them.
func (c *replay) rules() (neutral, []map[string]any) {
	c.t.Helper()
	var n neutral
	if err := json.Unmarshal(c.input("policy.json"), &n); err != nil {
		c.t.Fatal(err)
	}
	var rules []map[string]any
	for _, r := range n.Rules {
		rule := map[string]any{"do": r.Do}
		server := r.Server
		if server == "" {
			server = "*"
			for _, call := range n.Calls {
				// A pattern over servers lets nothing run that nobody knows to
				// be harmless: the rule has to name the tool.
				if r.Do == "allow" && call.Name == r.Tool {
					server = call.Server
				}
			}
		}
		switch tool := r.Tool.(type) {
		case string:
			rule["tools"] = server + "/" + tool
		case []any:
			var all []string
			for _, t := range tool {
				all = append(all, server+"/"+t.(string))
			}
			rule["tools"] = all
		}
		if r.When != nil {
			var when map[string]json.RawMessage
			if err := json.Unmarshal(r.When, &when); err != nil {
				c.t.Fatal(err)
			}
			args := map[string]any{}
			for name, test := range when {
				args["/"+name] = test
			}
			rule["args"] = args
		}
		switch r.Class {
		case "":
		case "write":
			rule["class"] = []string{"reversible_write", "source_file_write"}
		default:
			rule["class"] = r.Class
		}
		rules = append(rules, rule)
	}
	return n, rules
}

// policyCalls makes each call through the meta tool that the case names.
func policyCalls(c *replay) {
	n, rules := c.rules()
	entry := c.upstream("policy")
	delete(entry, "tools")
	entry["trusted"] = true // its hints are the case
	// Sending cannot be taken back, so the gate itself classes it as it does
	// purging; the owner of the case calls it a write.
	entry["tools"] = map[string]any{"mail_send": map[string]string{"permission": "reversible_write"}}
	client := c.client(c.home(map[string]any{"s": entry}, func(cfg map[string]any) {
		cfg["policy"] = map[string]any{"rules": rules}
	}), "meta")
	ran := 0
	for _, call := range n.Calls {
		args := string(call.Args)
		if call.Meta == "load_tool" {
			var one struct{ Name string }
			if err := json.Unmarshal(call.Args, &one); err != nil {
				c.t.Fatal(err)
			}
			args = fmt.Sprintf(`{"names":[%q]}`, one.Name)
		}
		asked := len(client.asks)
		id := client.send("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, call.Meta, args))
		if call.Want == "ask" {
			client.next("question", func() bool { return len(client.asks) > asked })
			for _, word := range call.Mentions {
				c.contains("the question", string(client.asks[asked].Params), word)
			}
			c.same("calls that reached the server", c.calls("policy"), ran)
			continue
		}
		m := client.answer(id)
		answer := string(m.Result) + string(m.Error)
		switch call.Want {
		case "allow":
			ran++
			c.contains(call.Meta, answer, `"ok"`)
		case "deny":
			c.contains(call.Meta, answer, "refused [")
		case "unknown":
			c.contains(call.Meta, answer, "unknown")
			c.lacks(call.Meta, answer, "Delete an entity")
		case "no delete_*":
			c.lacks(call.Meta, answer, "delete_entity")
		default:
			c.t.Errorf("nothing looks at %q", call.Want)
		}
		c.same("calls that reached the server", c.calls("policy"), ran)
	}
}

// explained asks the gate what each call would meet.
func explained(c *replay) {
	n, rules := c.rules()
	servers := map[string]any{}
	var all []map[string]any
	for _, call := range n.Calls {
		if servers[call.Server] != nil {
			continue
		}
		servers[call.Server] = nil
		all = append(all, map[string]any{"name": call.Server, "tools": []map[string]any{{"name": call.Name, "inputSchema": map[string]string{"type": "object"}}}})
		servers[call.Server] = true
	}
	raw, err := json.Marshal(all)
	if err != nil {
		c.t.Fatal(err)
	}
	c.with("servers.json", string(raw))
	for name := range servers {
		entry := c.upstream(name, "--as", name)
		delete(entry, "tools")
		servers[name] = entry
	}
	home := c.home(servers, func(cfg map[string]any) { cfg["policy"] = map[string]any{"rules": rules} })
	for _, call := range n.Calls {
		tool := call.Server + "/" + call.Name
		out, errs, _ := c.run(nil, "--home", home, "--json", "policy", "explain", tool, "--args", string(call.Arguments))
		var doc struct {
			Verdict, Code, Rule string
			By                  *struct{ Do string }
		}
		if err := json.Unmarshal([]byte(out), &doc); err != nil {
			c.t.Fatalf("explain %s: %v\n%s", tool, err, errs)
		}
		by := "default"
		switch {
		case doc.Verdict == "run":
			by = "allow"
		case doc.By != nil:
			by = doc.By.Do
		}
		c.same("what becomes of "+tool+" "+string(call.Arguments), by, call.Want)
	}
}

// nobodyAnswers puts a call to a person who does not answer in time.
func nobodyAnswers(c *replay) {
	entry := c.upstream("s")
	c.play(c.home(map[string]any{"up": entry}, func(cfg map[string]any) {
		cfg["policy"] = map[string]any{"rules": []map[string]any{{"do": "ask", "tools": "up/echo"}}}
		cfg["approval"] = map[string]any{"expires": "1500ms"}
	}))
	c.same("calls that reached the server", c.calls("s"), 0)
}

func hiddenCharacters(c *replay) {
	var want struct {
		Contains []string `json:"view_contains"`
	}
	c.expect(&want)
	args := strings.TrimSuffix(string(c.input("args.json")), "\n")
	client := c.client(c.home(map[string]any{"up": c.upstream("asked")}, func(cfg map[string]any) {
		cfg["policy"] = map[string]any{"rules": []map[string]any{{"do": "ask", "tools": "up/echo"}}}
	}), "transparent")
	id := client.send("tools/call", `{"name":"echo","arguments":`+args+`}`)
	client.next("question", func() bool { return len(client.asks) == 1 })
	ask := client.asks[0]
	began := time.Now()
	var view struct{ Message string }
	if err := json.Unmarshal(ask.Params, &view); err != nil {
		c.t.Fatal(err)
	}
	for _, escape := range want.Contains {
		c.contains("the question", strings.ToUpper(view.Message), escape)
	}
	for _, r := range view.Message {
		if r != '\n' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Variation_Selector)) {
			c.t.Errorf("the question has %U in it", r)
		}
	}
	c.lacks("the question", view.Message, strings.Repeat(" ", 40))
	pause := time.NewTimer(human - time.Since(began))
	<-pause.C
	client.write(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, ask.ID, allowOnce))
	c.contains("the result", string(client.result(id)), `"ok"`)
	c.same("the arguments that reached the server", c.read("asked/call-01.args"), args)
}

// sameDefinition offers one tool in three spellings: the second one means the
// same, the third one does not. Then nothing can be read of what was accepted.
func sameDefinition(c *replay) {
	var tools []json.RawMessage
	if err := json.Unmarshal(c.input("tools.json"), &tools); err != nil {
		c.t.Fatal(err)
	}
	c.with("tools.json", "[]") // the case's own copy, so that the server stays the same one
	dir := c.home(map[string]any{"up": c.upstream("s")}, nil)
	call := func(tool json.RawMessage) string {
		c.write(filepath.Join(c.inputs, c.id+".tools.json"), "["+string(tool)+"]")
		client := c.client(dir, "meta")
		m := client.answer(client.begin("up/a", `{"x":1,"y":"z"}`))
		return string(m.Result) + string(m.Error)
	}
	c.contains("the first definition", call(tools[0]), `"ok"`)
	c.contains("the same one in another order", call(tools[1]), `"ok"`)
	c.contains("another one", call(tools[2]), "refused [held]")
	c.contains("the first one again", call(tools[0]), `"ok"`)
	c.write(filepath.Join(dir, "mcp-gate.lock"), "{")
	c.contains("what was accepted, where that cannot be read", call(tools[0]), "refused [held]")
}
