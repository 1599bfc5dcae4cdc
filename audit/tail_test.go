package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

var update = flag.Bool("update", false, "rewrite golden files")

// interleaved writes three chains, one of several files, whose events alternate
// in time, and returns the calls in order of time.
func interleaved(t *testing.T, dir string) (calls []string, logs []*Log) {
	t.Helper()
	now := clock()
	for i := range 3 {
		o := Options{Dir: dir, Now: now, Process: fmt.Sprint("p", i)}
		if i == 1 {
			o.MaxBytes = 900
		}
		logs = append(logs, open(t, o))
	}
	for i := range 60 {
		call := fmt.Sprint("c", i)
		record(t, logs[i%3], Event{Kind: Intent, Call: call, Note: strings.Repeat("n", i*7)})
		calls = append(calls, call)
	}
	return calls, logs
}

func callsOf(records []Record) string {
	var calls []string
	for _, r := range records {
		calls = append(calls, r.Event.Call)
	}
	return strings.Join(calls, " ")
}

func intents(e Event) bool { return e.Kind == Intent }

func TestTail(t *testing.T) {
	dir := t.TempDir()
	calls, _ := interleaved(t, dir)
	for _, n := range []int{-1, 0, 1, 2, 7, 59, 60, 61, 1000} {
		got, err := Tail(os.DirFS(dir), n, intents)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Join(calls[max(0, 60-max(0, n)):], " ")
		if callsOf(got) != want {
			t.Errorf("Tail %d = %s, want %s", n, callsOf(got), want)
		}
	}
	got, err := Tail(os.DirFS(dir), 2, func(e Event) bool { return e.Call == "c4" || e.Call == "c40" || e.Call == "c41" })
	if err != nil || callsOf(got) != "c40 c41" {
		t.Errorf("filtered: %s, %v, want c40 c41", callsOf(got), err)
	}
	var e Event
	if err := json.Unmarshal(got[0].Raw, &e); err != nil || e.Call != "c40" || !strings.HasPrefix(got[0].File, "2026") {
		t.Errorf("raw line of c40 reads as %+v, %v, in file %s", e, err, got[0].File)
	}
}

func TestFollower(t *testing.T) {
	dir := t.TempDir()
	calls, logs := interleaved(t, dir)
	f := NewFollower(os.DirFS(dir), intents)
	last, err := f.Last(2)
	if err != nil || callsOf(last) != strings.Join(calls[58:], " ") {
		t.Fatalf("Last: %s, %v", callsOf(last), err)
	}
	next := func(want string) {
		t.Helper()
		got, err := f.Next()
		if err != nil || callsOf(got) != want {
			t.Errorf("Next = %q, %v, want %q", callsOf(got), err, want)
		}
	}
	next("")
	record(t, logs[0], intent("d1"))
	record(t, logs[2], intent("d2"), outcome("d2"))
	record(t, logs[1], intent("d3"), intent("d4"), intent("d5")) // over several files
	next("d1 d2 d3 d4 d5")
	next("")
	late := open(t, Options{Dir: dir, Process: "late"})
	record(t, late, intent("e1"))
	next("e1")
	all, err := NewFollower(os.DirFS(dir), nil).Next()
	if err != nil || len(all) < 67 {
		t.Errorf("a new follower gives %d events, %v, want all", len(all), err)
	}
}

func TestFollowerWaitsForTheEndOfALine(t *testing.T) {
	whole := `{"seq":1,"time":"2026-11-30T09:00:00Z","kind":"note","call":"a"}` + "\n"
	m := fstest.MapFS{"a.0001.jsonl": {Data: []byte(whole + whole[:20])}}
	for name, first := range map[string]func(*Follower) ([]Record, error){
		"after Last": func(f *Follower) ([]Record, error) { return f.Last(9) },
		"after Next": (*Follower).Next,
	} {
		m["a.0001.jsonl"].Data = []byte(whole + whole[:20])
		f := NewFollower(m, nil)
		if got, err := first(f); err != nil || callsOf(got) != "a" {
			t.Errorf("%s: first %q, %v, want the whole line only", name, callsOf(got), err)
		}
		m["a.0001.jsonl"].Data = []byte(whole + strings.Replace(whole, `"a"`, `"b"`, 1))
		if got, err := f.Next(); err != nil || callsOf(got) != "b" {
			t.Errorf("%s: then %q, %v, want b", name, callsOf(got), err)
		}
	}
}

func TestLinesThatAreNoEventsArePassedOver(t *testing.T) {
	good := `{"seq":1,"time":"2026-11-30T09:00:00Z","kind":"note","call":"a"}` + "\n"
	for name, text := range map[string]string{
		"garbage between":       good + "garbage\n\n" + good,
		"a line without end":    good + strings.Repeat("x", 2*maxLine) + "\n" + good,
		"a tail without end":    good + good + strings.Repeat("x", 3*maxLine),
		"a beginning that long": strings.Repeat("x", maxLine+1) + "\n" + good + good,
	} {
		m := fstest.MapFS{"a.0001.jsonl": {Data: []byte(text)}}
		if got, err := Tail(m, 10, nil); err != nil || callsOf(got) != "a a" {
			t.Errorf("%s: Tail %q, %v, want both events", name, callsOf(got), err)
		}
	}
	// Forward, a line beyond the bound hides what was behind it at that time.
	m := fstest.MapFS{"a.0001.jsonl": {Data: []byte(good + strings.Repeat("x", 2*maxLine) + "\n")}}
	f := NewFollower(m, nil)
	if got, err := f.Next(); err != nil || callsOf(got) != "a" {
		t.Errorf("Next %q, %v, want a", callsOf(got), err)
	}
	m["a.0001.jsonl"].Data = append(m["a.0001.jsonl"].Data, good...)
	if got, err := f.Next(); err != nil || callsOf(got) != "a" {
		t.Errorf("Next behind it %q, %v, want a", callsOf(got), err)
	}
}

// sequential hides that its files can be read at an offset.
type sequential struct{ fstest.MapFS }

func (s sequential) Open(name string) (fs.File, error) {
	f, err := s.MapFS.Open(name)
	if err != nil || name == "." {
		return f, err
	}
	return struct{ fs.File }{f}, nil
}

// vanishing lists files that are gone when they are opened.
type vanishing struct{ fstest.MapFS }

func (v vanishing) Open(name string) (fs.File, error) {
	if name != "." {
		return nil, fs.ErrNotExist
	}
	return v.MapFS.Open(name)
}

func TestTailThatCannotRead(t *testing.T) {
	m := fstest.MapFS{"a.0001.jsonl": {Data: []byte("x\n")}}
	if _, err := Tail(os.DirFS(t.TempDir()+"/none"), 1, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
	if _, err := NewFollower(os.DirFS(t.TempDir()+"/none"), nil).Next(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there, followed: %v", err)
	}
	if _, err := Tail(sequential{m}, 1, nil); err == nil {
		t.Error("files that cannot be read at an offset: no error")
	}
	if got, err := Tail(vanishing{m}, 1, nil); err != nil || len(got) != 0 {
		t.Errorf("a file that has gone meanwhile: %v, %v", got, err)
	}
	if got, err := NewFollower(vanishing{m}, nil).Next(); err != nil || len(got) != 0 {
		t.Errorf("a file that has gone meanwhile, followed: %v, %v", got, err)
	}
}

func TestEventForPeople(t *testing.T) {
	at := time.Date(2026, 11, 30, 9, 5, 7, 123_456_000, time.UTC)
	events := []Event{
		{Kind: Start, Note: "mcp-gate 1.0"},
		{Kind: Intent, Tool: "issues/create_issue", Verdict: "run", Class: "reversible_write", Principal: "local", Call: "c_1"},
		{Kind: Outcome, Tool: "issues/create_issue", Outcome: OK, ResultSize: 211, Duration: 12_345 * time.Microsecond, Egress: "metadata", Call: "c_1"},
		{Kind: Outcome, Tool: "mail/send_message", Outcome: Error, ErrorCode: "timeout", Call: "c_2"},
		{Kind: Refusal, Tool: "files/read_file", Verdict: "deny", Code: "egress", Rule: "preset strict", Call: "c_3"},
		{Kind: Decision, Tool: "mail/send_message", Verdict: "approved", Ticket: "t_1", Level: "L1", Channel: "terminal"},
		{Kind: Note, Tool: "evil/\x1b[2J\u202e", Note: "line\nbreak"},
		{Kind: Rotate, Next: "b.0002.jsonl"},
	}
	var got bytes.Buffer
	for _, e := range events {
		e.Time = at
		got.WriteString(e.String() + "\n")
	}
	const golden = "testdata/people.golden"
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("got\n%swant\n%s", got.Bytes(), want)
	}
}
