// Package fakemcp is a tool server over stdio that misbehaves on request.
//
// Tests and scripts start it in place of a real server: flags say how it
// starts, and each tool is one thing that servers have been seen to do, such
// as answering with NaN, answering twice, or ending in the middle of a line.
// It is no example of how to write a server, and nothing but tests uses it.
//
// To start: [Main] in a process of its own (see the tests of upstream), or
// [Serve] on a pair of pipes.
package fakemcp

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// Config says how the server starts and what it offers. The zero Config is a
// well-behaved server.
type Config struct {
	Fault   string // see [Main]
	Version string // the protocol version it answers; "" is 2025-06-18
	Extra   int    // tools listed besides its own, called extra_0000 and so on
	List    string // file with a raw result of tools/list in place of its own
	Pages   string // file with an object: cursor -> raw result of tools/list, "" the first
	Init    string // file with the raw result of initialize
	Starts  string // file that gets a line per start: the pid
	Stderr  int    // bytes written to stderr before anything else
}

// Main runs the server with flags as they stand on a command line and returns
// its exit status. The words of -fault, several with commas between:
//
//	exit        ends at once with status 3 and a line on stderr
//	exit-first  ends at once with status 3 where -starts tells of no start before
//	exit-init   ends with status 4 when initialize arrives
//	half-init   writes half an answer to initialize, then ends with status 5
//	hang-init   never answers initialize
//	stubborn    ignores SIGTERM and the end of its input
//	grandchild  starts a process that stays; its pid goes into -starts, too
//	noise       blank lines, CRLF, a byte order mark and garbage around its messages
//	modern      answers server/discover, refuses initialize
//	old         ends with status 1 when the first message is not initialize
//	no-tools    declares no tools capability and refuses tools/list
func Main(args []string, in io.Reader, out, errs io.Writer) int {
	var c Config
	f := flag.NewFlagSet("fake-mcp", flag.ContinueOnError)
	f.SetOutput(errs)
	f.StringVar(&c.Fault, "fault", "", "what is wrong with it, words with commas between")
	f.StringVar(&c.Version, "version", "", "protocol version")
	f.IntVar(&c.Extra, "extra", 0, "more tools to list")
	f.StringVar(&c.List, "list", "", "file with the result of tools/list")
	f.StringVar(&c.Pages, "pages", "", "file with the results of tools/list by cursor")
	f.StringVar(&c.Init, "init", "", "file with the result of initialize")
	f.StringVar(&c.Starts, "starts", "", "file that gets a line per start")
	f.IntVar(&c.Stderr, "stderr", 0, "bytes to write to stderr first")
	if err := f.Parse(args); err != nil {
		return 2
	}
	if err := Serve(c, in, out, errs); err != nil {
		fmt.Fprintln(errs, "fake-mcp:", err)
		return 1
	}
	return 0
}

// Serve answers requests until in ends. Faults that end the process end it.
func Serve(c Config, in io.Reader, out, errs io.Writer) error {
	s := &fake{c: c, in: in, out: out, errs: errs, asked: map[string]chan jsonrpc.Message{}, extra: c.Extra}
	if err := s.begin(); err != nil {
		return err
	}
	lines := jsonrpc.NewLineReader(in, 1<<30)
	for first := true; ; first = false {
		line, err := lines.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		m, err := jsonrpc.Parse(line)
		switch {
		case err != nil:
			return err
		case first && s.has("old") && m.Method != "initialize":
			return errors.New("the first message must be initialize")
		case m.IsRequest():
			s.request(m)
		case m.IsNotification():
			s.notification(m)
		default:
			s.mu.Lock()
			if c := s.asked[string(m.ID)]; c != nil {
				c <- m
			}
			s.mu.Unlock()
		}
	}
	if s.has("stubborn") {
		forever()
	}
	return nil
}

// forever blocks without looking like a deadlock to the runtime.
func forever() {
	never := make(chan os.Signal, 1)
	signal.Notify(never, os.Interrupt)
	for range never {
	}
}

type fake struct {
	c    Config
	in   io.Reader
	errs io.Writer

	mu        sync.Mutex // guards what follows
	out       io.Writer
	held      []jsonrpc.Message
	cancelled []string
	asked     map[string]chan jsonrpc.Message
	extra     int
	empty     bool
	lists     int
}

func (s *fake) has(fault string) bool {
	for word := range strings.SplitSeq(s.c.Fault, ",") {
		if word == fault {
			return true
		}
	}
	return false
}

// begin does what happens before the first message.
func (s *fake) begin() error {
	if s.has("stubborn") {
		signal.Ignore(syscall.SIGTERM)
	}
	pids := fmt.Sprintf("%d\n", os.Getpid())
	if s.has("grandchild") {
		cmd := exec.Command("sleep", "1000")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr // it holds the pipes open
		if err := cmd.Start(); err != nil {
			return err
		}
		pids += fmt.Sprintf("%d\n", cmd.Process.Pid)
	}
	first := false
	if s.c.Starts != "" {
		f, err := os.OpenFile(s.c.Starts, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		before, err := f.Stat()
		if err != nil {
			return err
		}
		first = before.Size() == 0
		if _, err = f.WriteString(pids); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	s.flood(s.c.Stderr)
	if s.has("exit") || first && s.has("exit-first") {
		fmt.Fprintln(s.errs, "cannot open the \x1b[31mdatabase")
		os.Exit(3)
	}
	if s.has("noise") {
		s.raw("\ufeff\r\n\n  \nlistening on port 8080\n{\"level\":\"info\"}\n")
	}
	return nil
}

// flood writes n bytes without a line end.
func (s *fake) flood(n int) {
	chunk := strings.Repeat("x", 64<<10)
	for n > 0 {
		k := min(n, len(chunk))
		fmt.Fprint(s.errs, chunk[:k])
		n -= k
	}
}

func (s *fake) raw(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.WriteString(s.out, text)
}

func (s *fake) send(line []byte) {
	if s.has("noise") {
		s.raw("\r\n " + string(line) + " \r\ntrailing garbage\n")
		return
	}
	s.raw(string(line) + "\n")
}

func (s *fake) result(m jsonrpc.Message, result string) {
	s.send(jsonrpc.AppendResult(nil, m.ID, json.RawMessage(result)))
}

func (s *fake) fail(m jsonrpc.Message, code int64, text string) {
	s.send(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: code, Message: text, Data: json.RawMessage(`{"n":12345678901234567890}`)}))
}

func (s *fake) notification(m jsonrpc.Message) {
	if m.Method == "notifications/cancelled" {
		id, _, _ := strictjson.Get(m.Params, "requestId")
		s.mu.Lock()
		s.cancelled = append(s.cancelled, string(id))
		s.mu.Unlock()
	}
}

func (s *fake) request(m jsonrpc.Message) {
	switch {
	case s.has("modern") && m.Method == "initialize":
		s.fail(m, jsonrpc.CodeMethodNotFound, "no handshake here")
		return
	case s.has("modern") && m.Method == "server/discover":
		s.result(m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},`+
			`"instructions":"modern","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"fake","version":"2"}}}`)
		return
	}
	switch m.Method {
	case "initialize":
		s.initialize(m)
	case "ping":
		s.result(m, "{}")
	case "tools/list":
		s.list(m)
	case "tools/call":
		s.call(m)
	default:
		s.fail(m, jsonrpc.CodeMethodNotFound, "no method "+m.Method)
	}
}

func (s *fake) initialize(m jsonrpc.Message) {
	switch {
	case s.has("exit-init"):
		os.Exit(4)
	case s.has("half-init"):
		s.raw(`{"jsonrpc":"2.0","id":`)
		os.Exit(5)
	case s.has("hang-init"):
		return
	case s.c.Init != "":
		s.file(m, s.c.Init)
		return
	}
	version, caps := s.c.Version, `{"tools":{"listChanged":true}}`
	if version == "" {
		version = "2025-06-18"
	}
	if s.has("no-tools") {
		caps = `{"resources":{}}`
	}
	s.result(m, `{"protocolVersion":"`+version+`","capabilities":`+caps+
		`,"serverInfo":{"name":"fake","version":"1"},"instructions":"Use <echo> & friends."}`)
}

func (s *fake) file(m jsonrpc.Message, name string) {
	b, err := os.ReadFile(name)
	if err != nil {
		s.fail(m, jsonrpc.CodeInternal, err.Error())
		return
	}
	s.result(m, strings.TrimSpace(string(b)))
}

func (s *fake) list(m jsonrpc.Message) {
	s.mu.Lock()
	s.lists++
	extra, empty := s.extra, s.empty
	s.mu.Unlock()
	switch {
	case s.has("no-tools"):
		s.fail(m, jsonrpc.CodeMethodNotFound, "no tools here")
		return
	case s.c.List != "":
		s.file(m, s.c.List)
		return
	case s.c.Pages != "":
		s.page(m)
		return
	case empty:
		s.result(m, `{"tools":[]}`)
		return
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		fmt.Fprintf(&b, `{"name":%q,"inputSchema":{"type":"object"},"x-kept": "a<b & 1.0"},`, name)
	}
	for i := range extra {
		fmt.Fprintf(&b, `{"name":"extra_%04d","inputSchema":{"type":"object"}},`, i)
	}
	s.result(m, `{"tools":[`+strings.TrimSuffix(b.String(), ",")+`]}`)
}

func (s *fake) page(m jsonrpc.Message) {
	b, err := os.ReadFile(s.c.Pages)
	if err != nil {
		s.fail(m, jsonrpc.CodeInternal, err.Error())
		return
	}
	var pages map[string]json.RawMessage
	var p struct{ Cursor string }
	if err := json.Unmarshal(b, &pages); err != nil {
		s.fail(m, jsonrpc.CodeInternal, err.Error())
		return
	}
	if m.Params != nil {
		_ = json.Unmarshal(m.Params, &p) // no cursor is the first page
	}
	if result, ok := pages[p.Cursor]; ok {
		s.result(m, string(result))
		return
	}
	s.fail(m, jsonrpc.CodeInvalidParams, "no such page")
}

// args are what the tools take; each uses some of it.
type args struct {
	N      int
	Text   string
	Method string
}

// tools is what the server can do, by name.
var tools map[string]func(*fake, jsonrpc.Message, args)

func init() { // tools refers to itself through list
	tools = map[string]func(*fake, jsonrpc.Message, args){
		"echo":      (*fake).echo,
		"pid":       func(s *fake, m jsonrpc.Message, _ args) { s.result(m, fmt.Sprintf(`{"pid":%d}`, os.Getpid())) },
		"env":       (*fake).env,
		"error":     func(s *fake, m jsonrpc.Message, _ args) { s.fail(m, -32010, "row missing") },
		"hang":      func(*fake, jsonrpc.Message, args) {},
		"exit":      func(_ *fake, _ jsonrpc.Message, a args) { os.Exit(a.N) },
		"kill":      func(*fake, jsonrpc.Message, args) { kill() },
		"half":      (*fake).half,
		"answer":    (*fake).answer, // with text as the whole line, ID in it standing for the id
		"long":      (*fake).long,
		"stderr":    func(s *fake, m jsonrpc.Message, a args) { s.flood(a.N); s.result(m, `{"content":[]}`) },
		"progress":  (*fake).progress,
		"hold":      func(s *fake, m jsonrpc.Message, _ args) { s.mu.Lock(); s.held = append(s.held, m); s.mu.Unlock() },
		"release":   (*fake).release,
		"cancelled": (*fake).cancelledIDs,
		"ask":       func(s *fake, m jsonrpc.Message, a args) { go s.ask(m, a) },
		"change":    (*fake).change,
		"lists":     (*fake).countLists,
		"notify":    (*fake).notify,
		"deaf":      (*fake).deaf,
		"mute":      (*fake).mute,
	}
}

func (s *fake) call(m jsonrpc.Message) {
	var p struct {
		Name      string
		Arguments json.RawMessage
	}
	var a args
	if err := json.Unmarshal(m.Params, &p); err != nil {
		s.fail(m, jsonrpc.CodeInvalidParams, err.Error())
		return
	}
	tool := tools[p.Name]
	if tool == nil {
		s.fail(m, jsonrpc.CodeInvalidParams, "Unknown tool: "+p.Name)
		return
	}
	_ = json.Unmarshal(p.Arguments, &a) // echo takes any shape
	tool(s, m, a)
}

// echo answers with the very bytes of the params.
func (s *fake) echo(m jsonrpc.Message, _ args) {
	s.result(m, `{"content":[{"type":"hologram","n":12345678901234567890}],"params":`+string(m.Params)+`}`)
}

func (s *fake) env(m jsonrpc.Message, _ args) {
	b, _ := json.Marshal(os.Environ()) // strings always marshal
	s.result(m, `{"env":`+string(b)+`}`)
}

// kill ends the process as an out-of-memory killer would.
func kill() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill()
	}
	forever()
}

// deaf answers, closes its input, and lives on.
func (s *fake) deaf(m jsonrpc.Message, _ args) {
	s.result(m, `{"content":[]}`)
	if c, ok := s.in.(io.Closer); ok {
		_ = c.Close()
	}
	forever()
}

// mute closes its output and lives on.
func (s *fake) mute(jsonrpc.Message, args) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.out.(io.Closer); ok {
		_ = c.Close()
	}
}

// half writes the first half of an answer and ends.
func (s *fake) half(m jsonrpc.Message, _ args) {
	s.raw(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"content":[{"type":"te`)
	os.Exit(6)
}

// answer writes each line of the text as it stands.
func (s *fake) answer(m jsonrpc.Message, a args) {
	s.raw(strings.ReplaceAll(a.Text, "ID", string(m.ID)) + "\n")
}

func (s *fake) long(m jsonrpc.Message, a args) {
	s.result(m, `{"content":[{"type":"text","text":"`+strings.Repeat("x", a.N)+`"}]}`)
}

// progress reports n times before its answer, with a token that nobody gave
// in between, and once after it.
func (s *fake) progress(m jsonrpc.Message, a args) {
	meta, _, _ := strictjson.Get(m.Params, "_meta")
	token := []byte(`"none"`)
	if meta != nil {
		if t, ok, _ := strictjson.Get(meta, "progressToken"); ok {
			token = t
		}
	}
	report := func(token []byte, n int) {
		s.send(jsonrpc.AppendNotification(nil, "notifications/progress", fmt.Appendf(nil, `{"progressToken":%s,"progress":%d}`, token, n)))
	}
	for i := range a.N {
		report([]byte(`"tool-call-2"`), i)
		report(token, i+1)
	}
	s.result(m, `{"content":[]}`)
	report(token, a.N+1)
}

// release answers everything that is held, in random order, and then itself.
func (s *fake) release(m jsonrpc.Message, _ args) {
	s.mu.Lock()
	held := s.held
	s.held = nil
	s.mu.Unlock()
	rand.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
	for _, h := range held {
		s.echo(h, args{})
	}
	s.result(m, fmt.Sprintf(`{"released":%d}`, len(held)))
}

func (s *fake) cancelledIDs(m jsonrpc.Message, _ args) {
	s.mu.Lock()
	ids := strings.Join(s.cancelled, ",")
	s.mu.Unlock()
	s.result(m, `{"ids":[`+ids+`]}`)
}

// ask sends a request of its own and answers with what came back.
func (s *fake) ask(m jsonrpc.Message, a args) {
	id := `"ask-` + strings.Trim(string(m.ID), `"`) + `"`
	back := make(chan jsonrpc.Message, 1)
	s.mu.Lock()
	s.asked[id] = back
	s.mu.Unlock()
	s.send(jsonrpc.AppendRequest(nil, json.RawMessage(id), a.Method, json.RawMessage(`{"message":"a<b"}`)))
	r := <-back
	if r.Error != nil {
		s.result(m, `{"refused":`+string(r.Error)+`}`)
		return
	}
	s.result(m, `{"answered":`+string(r.Result)+`}`)
}

// change changes the list to n extra tools, or to none at all where n is
// negative, and says so three times.
func (s *fake) change(m jsonrpc.Message, a args) {
	s.mu.Lock()
	s.extra, s.empty = max(0, a.N), a.N < 0
	s.mu.Unlock()
	for range 3 {
		s.send(jsonrpc.AppendNotification(nil, "notifications/tools/list_changed", nil))
	}
	s.result(m, `{"content":[]}`)
}

func (s *fake) countLists(m jsonrpc.Message, _ args) {
	s.mu.Lock()
	n := s.lists
	s.mu.Unlock()
	s.result(m, fmt.Sprintf(`{"lists":%d}`, n))
}

// notify sends one log message before its answer.
func (s *fake) notify(m jsonrpc.Message, a args) {
	s.send(jsonrpc.AppendNotification(nil, "notifications/message", fmt.Appendf(nil, `{"level":"info","data":%q}`, a.Text)))
	s.result(m, `{"content":[]}`)
}

// Dial runs Serve on pipes and returns the near ends of them; tests that need
// no process use it. The server ends with ctx or when w is closed.
func Dial(ctx context.Context, c Config) (r io.ReadCloser, w io.WriteCloser) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	context.AfterFunc(ctx, func() { _ = inR.Close() })
	go func() {
		err := Serve(c, inR, outW, io.Discard)
		_ = outW.CloseWithError(err)
	}()
	return outR, inW
}
