package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-gate/mcp-gate/internal/fakemcp"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
)

// The caller of a message that is too large is told as soon as that is plain, and
// a server whose message never ends is started anew.
func TestAMessageWithoutEnd(t *testing.T) {
	var went chan int
	open := rawPeer(func(out io.Writer, m jsonrpc.Message) {
		switch m.Method {
		case "endless":
			_, err := io.WriteString(out, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":{"x":"`)
			n := 0
			for block := strings.Repeat("x", 1<<20); err == nil; n++ {
				if n == 1 {
					time.Sleep(time.Hour) // the limit is passed: its caller knows
				}
				_, err = io.WriteString(out, block)
			}
			went <- n
		case "silent":
		default:
			_, _ = io.WriteString(out, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":{}}`+"\n")
		}
	})
	bubble(t, Server{}, Options{MaxMessage: 1 << 16}, open, func(t *testing.T, r *rig) {
		went = make(chan int, 1) // of the bubble
		other := make(chan error, 1)
		go func() {
			_, err := r.Call(t.Context(), "a", Request{Method: "silent"})
			other <- err
		}()
		synctest.Wait()
		began := time.Now()
		resp, err := r.Call(t.Context(), "a", Request{Method: "endless"})
		e := wantKind(t, TooLarge, resp, err)
		contains(t, e.Error(), "and more is over the limit of 65536 bytes")
		if took := time.Since(began); took > time.Second {
			t.Errorf("its caller waited for %v", took)
		}
		if n := <-went; n < endless>>20 || n > endless>>20+2 {
			t.Errorf("%d MiB were read of a message that does not end", n)
		}
		contains(t, wantKind(t, Lost, Response{}, <-other).Error(), "a message has no end after")
		if _, err := r.Call(t.Context(), "a", Request{Method: "any"}); err != nil || r.Starts("a") != 2 {
			t.Errorf("after it: %v, at start %d", err, r.Starts("a"))
		}
	})
}

func TestBytesGoThroughUnchanged(t *testing.T) {
	r := start(t, Options{}, fake("a", "-fault", "noise")).settled()
	params := `{ "name":"echo", "arguments":{"z": 12345678901234567890, "a":"<&>\u00e9\/", "e":1.0 } , "_meta":{"x/y":1e2}}`
	resp, err := r.Call(t.Context(), "a", Request{Method: "tools/call", Params: json.RawMessage(params)})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"content":[{"type":"hologram","n":12345678901234567890}],"params":` + params + `}`
	if got := string(resp.Result); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	l, ok := r.Listing("a")
	if !ok || len(l.Tools) == 0 || l.Instructions != "Use <echo> & friends." {
		t.Fatalf("listing %v %+v", ok, l)
	}
	if got, want := string(l.Tools[0]), `{"name":"answer","inputSchema":{"type":"object"},"x-kept": "a<b & 1.0"}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if d := r.Status()[0].Dropped; d.Garbage == 0 {
		t.Error("garbage lines were not counted")
	}
	if n := strings.Count(r.logs.String(), "that is skipped"); n != 1 {
		t.Errorf("got %d lines in the log about garbage, want 1", n)
	}
}

func TestErrorReplyIsAnAnswer(t *testing.T) {
	starts := file(t, "")
	r := start(t, Options{}, fake("a", "-starts", starts)).settled()
	for range 2 {
		resp, err := r.tool(t.Context(), "error", "")
		if err != nil || resp.Error == nil {
			t.Fatalf("got %+v, %v", resp, err)
		}
		if got, want := string(resp.Error.Raw()), `{"code":-32010,"message":"row missing","data":{"n":12345678901234567890}}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := lines(t, starts); len(got) != 1 {
		t.Errorf("started %d times, want once", len(got))
	}
}

func TestManyCallsAtOnceKeepTheirAnswers(t *testing.T) {
	r := start(t, Options{}, fake("a")).settled()
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			nonce := fmt.Sprintf(`"nonce":"n%d."`, i)
			resp, err := r.tool(t.Context(), "hold", "{"+nonce+"}")
			if err != nil || !strings.Contains(string(resp.Result), nonce) {
				t.Errorf("call %d got %s, %v", i, resp.Result, err)
			}
		})
	}
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }()
	released := 0
	for released < 200 {
		var got struct{ Released int }
		if err := json.Unmarshal([]byte(r.must("release", "")), &got); err != nil {
			t.Fatal(err)
		}
		released += got.Released
	}
	inTime(t, time.Minute, "200 answers", ended)
}

// Each line is what a server was seen to answer with; ID stands for the id.
func TestAnswersThatAreNone(t *testing.T) {
	r := start(t, Options{MaxMessage: 100_000}, fake("a")).settled()
	say := func(text string) string {
		b, _ := json.Marshal(map[string]string{"text": text})
		return string(b)
	}
	for name, line := range map[string]string{
		"NaN":                     `{"jsonrpc":"2.0","id":ID,"result":{"mean":NaN}}`,
		"NaN, id last":            `{"result":{"mean":NaN,"id":0},"jsonrpc":"2.0","id":ID}`,
		"a name twice":            `{"jsonrpc":"2.0","id":ID,"result":{"a":1,"a":2}}`,
		"result and error":        `{"jsonrpc":"2.0","id":ID,"result":{},"error":{"code":1,"message":""}}`,
		"neither":                 `{"jsonrpc":"2.0","id":ID}`,
		"result is no object":     `{"jsonrpc":"2.0","id":ID,"result":null}`,
		"a folded member":         `{"jsonrpc":"2.0","id":ID,"Result":{},"result":{}}`,
		"an error that is a text": `{"jsonrpc":"2.0","id":ID,"error":"no"}`,
		"a batch":                 `[{"jsonrpc":"2.0","id":ID,"result":{}}]`,
		"a batch with NaN":        ` [ {"jsonrpc":"2.0","id":999999,"result":{}},{"jsonrpc":"2.0","id":ID,"result":{"x":NaN}}]`,
		"half a batch":            `[{"jsonrpc":"2.0","id":ID,"result":{"x":[1`,
	} {
		t.Run(name, func(t *testing.T) {
			e := r.wrong(Invalid, "answer", say(line))
			contains(t, e.Error(), "server a answered tools/call")
			if !e.MayHaveRun() {
				t.Error("it may have run")
			}
		})
	}
	e := r.wrong(TooLarge, "long", `{"n":3000000}`)
	contains(t, e.Error(), "limit of 100000 bytes")
	for name, line := range map[string]string{
		"the id quoted":          `{"jsonrpc":"2.0","id":"ID","result":{"ok":1}}`,
		"the id as a float":      `{"jsonrpc":"2.0","id":ID.0,"result":{"ok":1}}`,
		"after another's answer": "{\"jsonrpc\":\"2.0\",\"id\":999999,\"result\":{}}\n{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"ok\":1}}",
		"twice":                  "{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"ok\":1}}\n{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"ok\":2}}",
		"after garbage":          "\x00\xff\n[1,2]\n\"x\"\n{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"ok\":1}}",
		"after an answer to null": "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"\"}}\n" +
			"{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"ok\":1}}",
	} {
		t.Run("answered "+name, func(t *testing.T) {
			if got, want := r.must("answer", say(line)), `{"ok":1}`; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
	r.must("echo", "")
	d := r.Status()[0].Dropped
	if d.Garbage < 3 || d.Unknown != 2 || d.Late != 1 || d.Quoted != 2 || d.Oversize != 1 {
		t.Errorf("dropped %+v", d)
	}
	if st := r.Status()[0]; st.Starts != 1 {
		t.Errorf("started %d times: the connection should have lived on", st.Starts)
	}
}

// Only 2025-03-26 has batches.
func TestAnswersInABatch(t *testing.T) {
	r := start(t, Options{}, fake("a", "-version", batchVersion)).settled()
	say := func(text string) string {
		b, _ := json.Marshal(map[string]string{"text": text})
		return string(b)
	}
	const mine = `{"jsonrpc":"2.0","id":ID,"result":{"ok":1}}`
	for name, line := range map[string]string{
		"alone":                       `[` + mine + `]`,
		"after another's answer":      `[{"jsonrpc":"2.0","id":999999,"result":{}} , ` + mine + `]`,
		"between notifications":       `[{"jsonrpc":"2.0","method":"notifications/message","params":{}},` + mine + `,{"jsonrpc":"2.0","method":"x"}]`,
		"after what is no message":    `[7,{"a":1},` + mine + `]`,
		"beside a request of its own": `[{"jsonrpc":"2.0","id":1,"method":"ping"},` + mine + `]`,
		"after a bad request":         `{"jsonrpc":"2.0","id":ID,"method":"x","params":[1]}` + "\n" + mine,
	} {
		t.Run(name, func(t *testing.T) {
			if got, want := r.must("answer", say(line)), `{"ok":1}`; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
	for name, line := range map[string]string{
		"too many":             `[` + strings.Repeat(`{},`, maxBatch) + mine + `]`,
		"a batch in a batch":   `[[` + mine + `]]`,
		"something follows":    `[` + mine + `] {}`,
		"the answer is no one": `[{"jsonrpc":"2.0","id":ID,"result":{},"error":{}}]`,
	} {
		t.Run(name, func(t *testing.T) { r.wrong(Invalid, "answer", say(line)) })
	}
	if st := r.Status()[0]; st.Starts != 1 {
		t.Errorf("started %d times: the connection should have lived on", st.Starts)
	}
}

func TestProgress(t *testing.T) {
	r := start(t, Options{}, fake("a")).settled()
	var got []string
	req := toolCall("progress", `{"n":50}`)
	req.Params = json.RawMessage(`{"name":"progress","arguments":{"n":50},"_meta":{"k":1.0}}`)
	req.Progress = func(params json.RawMessage) { got = append(got, string(params)) }
	if _, err := r.Call(t.Context(), "a", req); err != nil {
		t.Fatal(err)
	}
	if len(got) != 50 || !strings.HasSuffix(got[0], `"progress":1}`) || !strings.HasSuffix(got[49], `"progress":50}`) {
		t.Errorf("got %d notifications: %v", len(got), got)
	}
	r.must("progress", `{"n":2}`) // nobody asked
	r.must("echo", "")
	if d := r.Status()[0].Dropped; d.Progress != 50+1+2+2+1 {
		t.Errorf("dropped %+v", d)
	}
}

// In fake time: a busy machine may take longer than this to send a call at all.
func TestCancelAndTimeoutTellTheServer(t *testing.T) {
	bubble(t, Server{CallTimeout: 300 * time.Millisecond}, Options{}, inMemory(fakemcp.Config{}), func(t *testing.T, r *rig) {
		r.settled()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		resp, err := r.tool(ctx, "hang", "")
		e := wantKind(t, Cancelled, resp, err)
		if !e.MayHaveRun() {
			t.Error("it may have run")
		}
		e = r.wrong(Timeout, "hang", "")
		contains(t, e.Error(), "server a gave no answer to tools/call after")
		var got struct{ IDs []int }
		if err := json.Unmarshal([]byte(r.must("cancelled", "")), &got); err != nil {
			t.Fatal(err)
		}
		if len(got.IDs) != 2 {
			t.Errorf("the server was told of %v, want two calls", got.IDs)
		}
	})
}

func TestRequestsOfTheServer(t *testing.T) {
	r := start(t, Options{}, fake("a")).settled()
	contains(t, r.must("ask", `{"method":"ping"}`), `{"answered":{}}`)
	contains(t, r.must("ask", `{"method":"sampling/createMessage"}`), `{"refused":{"code":-32601`)

	type key struct{}
	var note atomic.Value
	r = start(t, Options{
		OnRequest: func(ctx context.Context, alias, method string, params json.RawMessage) (json.RawMessage, *jsonrpcError) {
			return fmt.Appendf(nil, `{"of":%q,"by":%q,"for":%q,"params":%s}`, method, alias, ctx.Value(key{}), params), nil
		},
		OnNotification: func(_ context.Context, alias, method string, params json.RawMessage) {
			note.Store(alias + method + string(params))
		},
	}, fake("a")).settled()
	resp, err := r.tool(context.WithValue(t.Context(), key{}, "me"), "ask", `{"method":"elicitation/create"}`)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(resp.Result), `{"answered":{"of":"elicitation/create","by":"a","for":"me","params":{"message":"a<b"}}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	r.must("notify", `{"text":"hi"}`)
	if got, want := note.Load(), `anotifications/message{"level":"info","data":"hi"}`; got != want {
		t.Errorf("got %v before the answer, want %v", got, want)
	}
}
