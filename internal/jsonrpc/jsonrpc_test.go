package jsonrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

func TestParseTakesMessagesApart(t *testing.T) {
	tests := []struct {
		name, line string
		want       Message
	}{
		{"a request", `{"jsonrpc":"2.0","id":"1","method":"ping"}`, Message{ID: raw(`"1"`), Method: "ping"}},
		{"a large id is kept as spelled", `{"jsonrpc":"2.0","id":9007199254740993,"method":"m","params":{ "a" : 1.0 }}`,
			Message{ID: raw(`9007199254740993`), Method: "m", Params: raw(`{ "a" : 1.0 }`)}},
		{"a notification", `{"method":"n","jsonrpc":"2.0","params":null}`, Message{Method: "n"}},
		{"a result", `{"jsonrpc":"2.0","id":0,"result":null}`, Message{ID: raw(`0`), Result: raw(`null`)}},
		{"an error for an id nobody could read", `{"jsonrpc":"2.0","id":null,"error":{"code":1}}`, Message{ID: raw(`null`), Error: raw(`{"code":1}`)}},
		{"unknown members are passed over", `{"jsonrpc":"2.0","x":[],"method":"n"}`, Message{Method: "n"}},
	}
	for _, tt := range tests {
		got, err := Parse([]byte(tt.line))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if string(got.ID) != string(tt.want.ID) || got.Method != tt.want.Method || string(got.Params) != string(tt.want.Params) ||
			string(got.Result) != string(tt.want.Result) || string(got.Error) != string(tt.want.Error) {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }

func TestParseHalfSurrogates(t *testing.T) {
	for in, want := range map[string]string{
		`cut \ud83d`:                   `cut \ufffd`,
		`\udE00 \uD83D`:                `\ufffd \ufffd`,
		`\ud83d\ud83d\ude00\ude00`:     `\ufffd\ud83d\ude00\ufffd`,
		`\ud83dn\u0041\ud83d\u0041`:    `\ufffdn\u0041\ufffd\u0041`,
		`\\ud83d \\\ud83d \\\\ud83d\n`: `\\ud83d \\\ufffd \\\\ud83d\n`,
	} {
		line := `{"jsonrpc":"2.0","id":1,"result":{"x":"` + in + `"}}`
		m, err := Parse([]byte(line))
		if got := string(m.Result); err != nil || got != `{"x":"`+want+`"}` {
			t.Errorf("%s: got %s, %v", in, got, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	tests := []struct {
		name, line string
		code       int
		id         string
	}{
		{"what is not JSON", `{`, CodeParse, ""},
		{"a batch", ` [{"jsonrpc":"2.0","id":1,"method":"ping"}]`, CodeInvalidRequest, ""},
		{"a duplicate member", `{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}`, CodeParse, ""},
		{"a duplicate argument", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":{"y":1,"y":2}}}`, CodeParse, ""},
		{"a folded member", `{"jsonrpc":"2.0","id":1,"method":"a","Params":{}}`, CodeInvalidRequest, "1"},
		{"a member folded by Unicode", `{"jsonrpc":"2.0","id":1,"method":"a","param\u017f":{}}`, CodeInvalidRequest, "1"},
		{"another version", `{"jsonrpc":"1.0","id":1,"method":"a"}`, CodeInvalidRequest, "1"},
		{"no version", `{"id":1,"method":"a"}`, CodeInvalidRequest, "1"},
		{"an id that is an object", `{"jsonrpc":"2.0","id":{},"method":"a"}`, CodeInvalidRequest, ""},
		{"a null id of a request", `{"jsonrpc":"2.0","id":null,"method":"a"}`, CodeInvalidRequest, ""},
		{"a method that is a number", `{"jsonrpc":"2.0","id":1,"method":7}`, CodeInvalidRequest, "1"},
		{"params that are a list", `{"jsonrpc":"2.0","id":1,"method":"a","params":[]}`, CodeInvalidRequest, "1"},
		{"a method with a result", `{"jsonrpc":"2.0","id":1,"method":"a","result":1}`, CodeInvalidRequest, "1"},
		{"a result with an error", `{"jsonrpc":"2.0","id":1,"result":1,"error":{}}`, CodeInvalidRequest, "1"},
		{"neither", `{"jsonrpc":"2.0","id":1}`, CodeInvalidRequest, "1"},
		{"a result without an id", `{"jsonrpc":"2.0","result":1}`, CodeInvalidRequest, ""},
		{"an error that is no object", `{"jsonrpc":"2.0","id":1,"error":"x"}`, CodeInvalidRequest, "1"},
		{"a text", ` "hello"`, CodeInvalidRequest, ""},
		{"a number", `5`, CodeInvalidRequest, ""},
		{"null", `null`, CodeInvalidRequest, ""},
		{"words", `Server started`, CodeParse, ""},
		{"half a surrogate in a request", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":"\ud83d"}}`, CodeParse, ""},
		{"half a surrogate in a notification", `{"jsonrpc":"2.0","method":"a","params":{"x":"\ud83d"}}`, CodeParse, ""},
		{"half a surrogate and no end", `{"jsonrpc":"2.0","id":1,"result":"\ud83d`, CodeParse, ""},
		{"two values", `{"jsonrpc":"2.0","method":"n"}{}`, CodeParse, ""},
	}
	for _, tt := range tests {
		_, err := Parse([]byte(tt.line))
		var invalid *InvalidError
		if !errors.As(err, &invalid) {
			t.Errorf("%s: accepted or another error: %v", tt.name, err)
			continue
		}
		if invalid.Code != tt.code || string(invalid.ID) != tt.id {
			t.Errorf("%s: code %d id %s, want %d %s (%v)", tt.name, invalid.Code, invalid.ID, tt.code, tt.id, err)
		}
	}
}

func TestAppendKeepsBytesAndOneLine(t *testing.T) {
	got := string(AppendRequest(nil, raw(`7`), "tools/call", raw("{\n\t\"a<&>\": \"x\\n\",\r\n\"n\":12345678901234567890 }")))
	want := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{ ` + "\t" + `"a<&>": "x\n",  "n":12345678901234567890 }}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	e := ParseError(raw(`{"code":-32000,"message":"m","data":{"big":9007199254740993},"extra":1}`))
	if e.Code != -32000 || e.Message != "m" || string(e.Data) != `{"big":9007199254740993}` {
		t.Errorf("error read as %+v", e)
	}
	if got := string(AppendError(nil, nil, e)); got != `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"m","data":{"big":9007199254740993},"extra":1}}` {
		t.Errorf("a peer's error is not passed on as it came: %s", got)
	}
	if got := string((&Error{Code: -1, Message: "a \"b\"", Data: raw("[1]")}).Raw()); got != `{"code":-1,"message":"a \"b\"","data":[1]}` {
		t.Errorf("got %s", got)
	}
}

func TestLinesAreFramedHoweverTheyArrive(t *testing.T) {
	in := "\ufeff\r\n  {\"a\":1} \r\n\n\n{\"b\":2}\n" + strings.Repeat("x", 200<<10) + "\nlast"
	for name, r := range map[string]io.Reader{"whole": strings.NewReader(in), "a byte a time": iotest.OneByteReader(strings.NewReader(in))} {
		l := NewLineReader(r, 1<<20)
		for _, want := range []string{`{"a":1}`, `{"b":2}`, strings.Repeat("x", 200<<10), "last"} {
			got, err := l.Next()
			if err != nil || string(got) != want {
				t.Fatalf("%s: got %.40q, %v, want %.40q", name, got, err, want)
			}
		}
		if _, err := l.Next(); err != io.EOF {
			t.Errorf("%s: at the end: %v", name, err)
		}
	}
}

func TestALongLineIsSkippedAndNamed(t *testing.T) {
	big := strings.Repeat("y", 300<<10)
	for name, tt := range map[string]struct{ line, id string }{
		"the id first":          {`{"jsonrpc":"2.0","id":12,"result":"` + big + `"}`, "12"},
		"the id last":           {`{"result":"` + big + `","jsonrpc":"2.0","id":"a-1"}`, `"a-1"`},
		"no id":                 {`{"method":"` + big + `"}`, ""},
		"not JSON":              {big, ""},
		"an id inside the text": {`{"result":"` + big + `\"id\":5"}`, ""},
		"an id inside a member": {`{"method":"` + big + `","params":{"data":{"id":5}}}`, ""},
		"an id before the end":  {`{"method":"` + big + `","params":{"id":5},"jsonrpc":"2.0"}`, ""},
	} {
		l := NewLineReader(strings.NewReader(tt.line+"\nnext\n"), 100<<10)
		_, err := l.Next()
		var long *TooLongError
		if !errors.As(err, &long) || long.Size != int64(len(tt.line)+1) {
			t.Errorf("%s: %v, want a line of %d bytes", name, err, len(tt.line)+1)
			continue
		}
		if string(long.ID()) != tt.id {
			t.Errorf("%s: id %s, want %s", name, long.ID(), tt.id)
		}
		if got, err := l.Next(); string(got) != "next" || err != nil {
			t.Errorf("%s: after it: %q, %v", name, got, err)
		}
	}
}

// Where a long line is cut it may seem to end with an id, which is that of a row.
func TestALineThatGoesOnIsNamedByItsHeadAlone(t *testing.T) {
	rows := strings.Repeat(`{"id":4},`, 40_000) + `{"id":4}`
	for shift := range 16 { // where the line is cut
		for line, want := range map[string]string{
			`{"result":[` + strings.Repeat(" ", shift) + rows + `],"id":9}`:          "",
			`{"id":9,"result":[` + strings.Repeat(" ", shift) + rows + `],"more":1}`: "9",
		} {
			told := false
			l := NewLineReader(strings.NewReader(line+"\n"), 64<<10)
			l.Over = func(e *TooLongError) {
				if told = true; string(e.ID()) != want {
					t.Errorf("while it goes on its id is %s, want %q", e.ID(), want)
				}
			}
			_, err := l.Next()
			var long *TooLongError
			if !errors.As(err, &long) || string(long.ID()) != "9" || !told {
				t.Errorf("at its end: %v, told %v", err, told)
			}
			l = NewLineReader(strings.NewReader(line+"\n"), 64<<10)
			l.Most = 100 << 10
			if _, err := l.Next(); !errors.As(err, &long) || !long.Endless || string(long.ID()) != want {
				t.Errorf("without an end: %v, id %s, want %q", err, long.ID(), want)
			}
		}
	}
}

func TestTheWriterKeepsOrderAndEndsCleanly(t *testing.T) {
	r, w := io.Pipe()
	l := NewLineWriter(w)
	var want bytes.Buffer
	for i := range 1000 {
		line := []byte(strings.Repeat("z", i%37+1))
		want.Write(append(line, '\n'))
		if err := l.Send(context.Background(), line); err != nil {
			t.Fatal(err)
		}
	}
	got := make(chan []byte)
	go func() { b, _ := io.ReadAll(r); got <- b }()
	if err := l.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if b := <-got; !bytes.Equal(b, want.Bytes()) {
		t.Errorf("%d bytes arrived, want %d in order", len(b), want.Len())
	}
	if err := l.Send(context.Background(), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestTheWriterDoesNotHoldACallerPastItsContext(t *testing.T) {
	r, w := io.Pipe() // nobody reads
	l := NewLineWriter(w)
	line := make([]byte, maxQueued-1)
	for range 2 { // one is being written, one waits
		if err := l.Send(context.Background(), line); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := l.Send(ctx, line); !errors.Is(err, context.Canceled) {
		// The first line may not have been taken up yet; then this one found room.
		if err != nil {
			t.Errorf("got %v, want context.Canceled", err)
		}
	}
	r.CloseWithError(errors.New("reader gone"))
	<-l.Done()
	if err := l.Send(context.Background(), nil); err == nil {
		t.Error("Send after a failed write reports nothing")
	}
}

// A file that says when it is full takes lines from whoever sends them, and the
// rest waits without anybody: each sender's lines arrive whole and in order.
func TestTheWriterWaitsForNoFile(t *testing.T) {
	const senders, each = 8, 400
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	l := NewLineWriter(w)
	var all sync.WaitGroup
	for sender := range senders {
		all.Go(func() {
			for n := range each {
				line := fmt.Sprintf("%d %d %s", sender, n, strings.Repeat("z", (n*7919)%1000))
				if n == each/2 {
					line += strings.Repeat("y", batchSize)
				}
				if err := l.Send(context.Background(), []byte(line)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait() // nobody has read: more than a pipe holds is queued
	closed := make(chan error, 1)
	go func() { closed <- errors.Join(l.Close(context.Background()), w.Close()) }()
	next := map[string]int{}
	lines := NewLineReader(r, 1<<20)
	for {
		line, err := lines.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		words := strings.Fields(string(line) + " ")
		if got, want := words[1], fmt.Sprint(next[words[0]]); got != want {
			t.Fatalf("line %s of sender %s, want %s", got, words[0], want)
		}
		next[words[0]]++
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	for sender, n := range next {
		if n != each {
			t.Errorf("%d lines of sender %s, want %d", n, sender, each)
		}
	}
	if len(next) != senders {
		t.Errorf("lines of %d senders, want %d", len(next), senders)
	}
}

func TestTheWriterNoticesThatNobodyReads(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	l := NewLineWriter(w)
	r.Close()
	if err := l.Send(context.Background(), []byte("lost")); err != nil {
		t.Fatal(err)
	}
	<-l.Done()
	if err := l.Send(context.Background(), []byte("late")); err == nil {
		t.Error("Send after a failed write reports nothing")
	}
	if err := l.Close(context.Background()); err == nil {
		t.Error("Close after a failed write reports nothing")
	}
}

// A large result is sent as it lies, unless it needs other bytes.
func TestResultInParts(t *testing.T) {
	text := strings.Repeat("x", largeResult)
	for name, tt := range map[string]struct {
		result string
		copied bool
	}{
		"small":               {`{"a":1}`, true},
		"large":               {`{"a":"` + text + `"}`, false},
		"large, not one line": {"{\"a\":\n\"" + text + "\"}", true},
	} {
		t.Run(name, func(t *testing.T) {
			id, result := json.RawMessage("7"), json.RawMessage(tt.result)
			line := Result(id, result)
			whole := bytes.Join(line[:], nil)
			if want := AppendResult(nil, id, result); !bytes.Equal(whole, want) || line.Len() != len(want) {
				t.Errorf("%.60q of %d bytes, want %.60q of %d", whole, line.Len(), want, len(want))
			}
			if copied := line[1] == nil; copied != tt.copied {
				t.Errorf("copied %v, want %v", copied, tt.copied)
			}
			var out bytes.Buffer
			w := NewLineWriter(&out)
			if err := errors.Join(w.Send(t.Context(), line[:]...), w.Send(t.Context(), []byte("next")), w.Close(t.Context())); err != nil {
				t.Fatal(err)
			}
			if want := string(whole) + "\nnext\n"; out.String() != want {
				t.Errorf("sent %.60q of %d bytes, want %d", out.String(), out.Len(), len(want))
			}
		})
	}
}

// Whatever Parse accepts is put together again as a message that parses the same.
func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":[1,2]}}`, `{"jsonrpc":"2.0","id":"é","result":{}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Parse(b)
		if err != nil {
			return
		}
		var line []byte
		switch {
		case m.IsRequest():
			line = AppendRequest(nil, m.ID, m.Method, m.Params)
		case m.IsNotification():
			line = AppendNotification(nil, m.Method, m.Params)
		case m.Error != nil:
			line = AppendError(nil, m.ID, ParseError(m.Error))
		default:
			line = AppendResult(nil, m.ID, m.Result)
		}
		if bytes.ContainsAny(line, "\r\n") {
			t.Fatalf("a line break in %q", line)
		}
		again, err := Parse(line)
		if err != nil || again.Method != m.Method || !bytes.Equal(again.ID, m.ID) {
			t.Fatalf("%q became %q: %v", b, line, err)
		}
		if err := strictjson.Check(line); err != nil {
			t.Fatalf("%q is not strict: %v", line, err)
		}
	})
}

// A long line is the caller's, also where the system has no memory beside the heap to
// put it together in, as for a limit that is none.
func TestLongLinesAreTheCallers(t *testing.T) {
	for _, limit := range []int64{8 << 20, math.MaxInt64} {
		var in bytes.Buffer
		var want [][]byte
		for i, size := range []int{70 << 10, 3, 5 << 20, 6 << 20, 64 << 10, 8<<20 - 1} {
			line := bytes.Repeat([]byte{byte('a' + i)}, size)
			want = append(want, line)
			in.Write(line)
			in.WriteByte('\n')
		}
		in.Write(want[2]) // a last line without an end
		want = append(want, want[2])
		r := NewLineReader(&in, limit)
		var got [][]byte
		for {
			line, err := r.Next()
			if err != nil {
				if err != io.EOF {
					t.Fatal(err)
				}
				break
			}
			got = append(got, line)
		}
		if len(got) != len(want) {
			t.Fatalf("limit %d: %d lines, want %d", limit, len(got), len(want))
		}
		for i := range want {
			if !bytes.Equal(got[i], want[i]) {
				t.Errorf("limit %d: line %d is another, of %d bytes", limit, i, len(got[i]))
			}
		}
	}
}
