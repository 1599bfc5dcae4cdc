package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"
)

// clock is a handed-in clock that moves a second a reading.
func clock() func() time.Time {
	now := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	var mu sync.Mutex
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(time.Second)
		return now
	}
}

func open(t testing.TB, opts Options) *Log {
	t.Helper()
	if opts.Now == nil {
		opts.Now = clock()
	}
	if opts.Process == "" {
		opts.Process = "100-aa"
	}
	l, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func record(t testing.TB, l *Log, events ...Event) {
	t.Helper()
	for _, e := range events {
		if err := l.Record(e); err != nil {
			t.Fatal(err)
		}
	}
}

func shut(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func verify(t testing.TB, dir string, opts VerifyOptions) Report {
	t.Helper()
	r, err := Verify(os.DirFS(dir), opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func intent(call string) Event {
	return Event{Kind: Intent, Call: call, Tool: "files/read_file", Class: "read", Verdict: "run", ArgsDigest: strings.Repeat("ab", 32), ArgsSize: 41}
}

func outcome(call string) Event {
	return Event{Kind: Outcome, Call: call, Tool: "files/read_file", Outcome: OK, ResultSize: 512, Duration: 1500 * time.Microsecond}
}

// full has every field set, so that a field which the encoder forgets shows.
func full(t *testing.T) Event {
	t.Helper()
	var e Event
	v := reflect.ValueOf(&e).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Interface().(type) {
		case string:
			f.SetString("value of " + v.Type().Field(i).Name)
		case uint64:
			f.SetUint(uint64(i) + 7)
		case int64:
			f.SetInt(int64(i) + 1<<40)
		case time.Duration:
			f.SetInt(int64(1_234_567 * time.Microsecond))
		case time.Time:
			f.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, 678_901_000, time.UTC)))
		case json.RawMessage:
			f.Set(reflect.ValueOf(json.RawMessage(`{"a":[1.0,"\u00e9 \\n"]}`)))
		case []Mark:
			f.Set(reflect.ValueOf([]Mark{{"a", 1, "00"}, {"b", 2, "ff"}}))
		default:
			t.Fatalf("field %s has a type this test does not know", v.Type().Field(i).Name)
		}
	}
	return e
}

func TestEventRoundTrip(t *testing.T) {
	want := full(t)
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Event
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read back\n%+v\nwant\n%+v", got, want)
	}
}

// Arguments are foreign: what does not print is escaped in them, and what could
// break the line is not in it.
func TestArgumentsInALine(t *testing.T) {
	for args, want := range map[string]string{
		"{\"a\":\"\u202e\u009b\"}":                              `{"a":"\u202e\u009b"}`,
		`{"a":"` + strings.Repeat("\u200b", MaxArgs/3-4) + `"}`: `{"a":"` + strings.Repeat(`\u200b`, MaxArgs/3-4) + `"}`,
		`{"a":"` + strings.Repeat("x", MaxArgs) + `"}`:          "",
		`{"a":1}` + "\n" + `{"kind":"note"}`:                    "",
		`{"a":`:                                                 "",
	} {
		line, err := json.Marshal(Event{Kind: Intent, Args: json.RawMessage(args)})
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ Args json.RawMessage }
		if err := json.Unmarshal(line, &got); err != nil || string(got.Args) != want || len(line) > maxLine/2 {
			t.Errorf("%.40q: got %.80q, %v, want %.80q; %d bytes", args, got.Args, err, want, len(line))
		}
	}
}

func TestEmptyFieldsAreLeftOut(t *testing.T) {
	got, err := json.Marshal(Event{Seq: 3, Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600)), Kind: Note})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"seq":3,"time":"2026-01-02T02:04:05.000000Z","kind":"note"}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestUnknownFieldsAreSkipped(t *testing.T) {
	var e Event
	err := json.Unmarshal([]byte(`{"seq":1,"time":"2030-01-01T00:00:00Z","kind":"later-kind","weather":{"x":[1]},"tool":"a/b"}`), &e)
	if err != nil || e.Kind != "later-kind" || e.Tool != "a/b" {
		t.Errorf("got %+v, %v", e, err)
	}
}

func TestForeignTextStaysOneLine(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"line feeds", "a\nb\r\nc", "a\nb\r\nc"},
		{"quotes and backslashes", `"\ x`, `"\ x`},
		{"terminal escapes", "\x1b[31mred\x7f\u009b", "\x1b[31mred\x7f\u009b"},
		{"bidirectional and invisible characters", "a\u202eb\u200bc\U000e0041", "a\u202eb\u200bc\U000e0041"},
		{"line separators", "a\u2028b", "a\u2028b"},
		{"letters of any script", "größe 漢字 😀", "größe 漢字 😀"},
		{"bad UTF-8", "a\xffb", "a\ufffdb"},
		{"forged member", `x","kind":"stop`, `x","kind":"stop`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			line, err := json.Marshal(Event{Kind: Note, Client: tt.in})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range string(line) {
				if r < 0x20 || r >= 0x7f && r < 0xa0 || r == '\u202e' || r == '\u200b' || r == '\u2028' || r >= 0xe0000 {
					t.Errorf("%q holds %U as it is", line, r)
				}
			}
			var e Event
			if err := json.Unmarshal(line, &e); err != nil || e.Client != tt.want || e.Kind != Note {
				t.Errorf("read back %q as kind %q, %v, want %q", e.Client, e.Kind, err, tt.want)
			}
		})
	}
}

func TestLongTextIsCut(t *testing.T) {
	long := strings.Repeat("é\n", 100_000)
	line, err := json.Marshal(Event{Kind: Note, Client: long, Note: long})
	if err != nil {
		t.Fatal(err)
	}
	var e Event
	if err := json.Unmarshal(line, &e); err != nil {
		t.Fatal(err)
	}
	for field, text := range map[string]string{"client": e.Client, "note": e.Note} {
		limit := map[string]int{"client": maxText, "note": maxNote}[field]
		if len(text) > limit || len(text) < limit-4 || !strings.HasSuffix(text, "…") || !utf8.ValidString(text) {
			t.Errorf("%s has %d bytes and ends in %q, want just under %d", field, len(text), text[len(text)-6:], limit)
		}
	}
}

func TestLogFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home", "audit")
	l := open(t, Options{Dir: dir, Note: "mcp-gate test"})
	record(t, l, intent("c1"), outcome("c1"))
	shut(t, l)

	const name = "20261130T090001Z-100-aa.0001.jsonl"
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte("\n")); n != 4 || !bytes.HasSuffix(text, []byte("}\n")) {
		t.Errorf("file has %d lines, want start, intent, outcome, stop:\n%s", n, text)
	}
	if runtime.GOOS != "windows" {
		for path, want := range map[string]fs.FileMode{dir: 0o700, filepath.Join(dir, name): 0o600, filepath.Join(dir, headName(name)): 0o600} {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
				t.Errorf("%s has mode %v (%v), want %v", path, info.Mode().Perm(), err, want)
			}
		}
	}
	r := verify(t, dir, VerifyOptions{})
	if !r.OK() || r.Events != 4 || len(r.Files) != 1 || !r.Files[0].Ended || r.Files[0].Unanchored != 0 || len(r.Dangling) != 0 {
		t.Errorf("report %+v, want one ended file of 4 events", r)
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, process := range []string{"", "a/b", "../x", "A", "a.b"} {
		if l, err := Open(Options{Dir: t.TempDir(), Now: clock(), Process: process}); err == nil {
			t.Errorf("process name %q was accepted: %v", process, l.Head())
		}
	}
	dir := t.TempDir()
	fixed := func() time.Time { return time.Unix(0, 0) }
	shut(t, open(t, Options{Dir: dir, Now: fixed}))
	if _, err := Open(Options{Dir: dir, Now: fixed, Process: "100-aa"}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second chain of one name: %v, want that the file exists", err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Dir: file, Now: clock(), Process: "x"}); err == nil {
		t.Error("a file as the folder was accepted")
	}
}

func TestRecordAfterClose(t *testing.T) {
	l := open(t, Options{Dir: t.TempDir()})
	shut(t, l)
	shut(t, l) // does nothing
	if err := l.Record(Event{Kind: Note}); !errors.Is(err, ErrClosed) {
		t.Errorf("Record after Close: %v, want ErrClosed", err)
	}
}

func TestCallerCannotSetTheChainsFields(t *testing.T) {
	dir := t.TempDir()
	l := open(t, Options{Dir: dir})
	record(t, l, Event{Kind: Note, Seq: 99, Time: time.Unix(1, 0), File: "x", Next: "y", Seen: []Mark{{"z", 1, "00"}}})
	got, err := Tail(os.DirFS(dir), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	e := got[0].Event
	if e.Seq != 2 || e.Time.Year() != 2026 || e.File != "" || e.Next != "" || e.Seen != nil {
		t.Errorf("event %+v kept what the caller set", e)
	}
}

func TestRotation(t *testing.T) {
	dir := t.TempDir()
	l := open(t, Options{Dir: dir, MaxBytes: 2000})
	for i := range 40 {
		record(t, l, intent(fmt.Sprint("c", i)), outcome(fmt.Sprint("c", i)))
	}
	head := l.Head()
	shut(t, l)
	r := verify(t, dir, VerifyOptions{Anchors: []Mark{head}})
	if !r.OK() || len(r.Files) < 5 || len(r.Dangling) != 0 {
		t.Fatalf("%d files, damages %v, dangling %v, want several, none, none", len(r.Files), r.Damages(), r.Dangling)
	}
	for _, f := range r.Files {
		if !f.Ended || f.Unanchored != 0 || f.Torn {
			t.Errorf("file %+v, want it ended and anchored", f)
		}
	}
	records, err := Tail(os.DirFS(dir), 1000, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, rec := range records {
		if rec.Event.Seq != uint64(i)+1 {
			t.Fatalf("event %d has number %d: numbers go on over files", i, rec.Event.Seq)
		}
	}
}

func TestConcurrentRecords(t *testing.T) {
	dir := t.TempDir()
	l := open(t, Options{Dir: dir, MaxBytes: 20_000})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 50 {
				call := fmt.Sprintf("g%d-%d", g, i)
				if err := errors.Join(l.Record(intent(call)), l.Record(outcome(call))); err != nil {
					t.Error(err)
				}
				l.Head()
			}
		})
	}
	wg.Wait()
	if r := verify(t, dir, VerifyOptions{}); !r.OK() || len(r.Dangling) != 0 || r.Events < 801 {
		t.Errorf("while open: damages %v, %d dangling, %d events", r.Damages(), len(r.Dangling), r.Events)
	}
	shut(t, l)
	if r := verify(t, dir, VerifyOptions{}); !r.OK() {
		t.Errorf("damages %v", r.Damages())
	}
}

// brittleFile lets a number of bytes through and then has no space left.
type brittleFile struct {
	*os.File
	left       *int // bytes
	noTruncate *bool
	syncs      *int
}

func (f brittleFile) Write(b []byte) (int, error) {
	if *f.left >= len(b) {
		*f.left -= len(b)
		return f.File.Write(b)
	}
	n, err := f.File.Write(b[:*f.left])
	*f.left = 0
	return n, errors.Join(err, syscall.ENOSPC)
}

func (f brittleFile) Truncate(size int64) error {
	if *f.noTruncate {
		return syscall.EIO
	}
	return f.File.Truncate(size)
}

func (f brittleFile) Sync() error {
	*f.syncs++
	return f.File.Sync()
}

type brittleHead struct {
	*os.File
	fail *bool
}

func (h brittleHead) WriteAt(b []byte, off int64) (int, error) {
	if *h.fail {
		return 0, syscall.EIO
	}
	return h.File.WriteAt(b, off)
}

type faults struct {
	left       int
	noTruncate bool
	noHead     bool
	noCreate   bool
	syncs      int
}

func (f *faults) create(dir, name string) (logFile, headFile, error) {
	if f.noCreate {
		return nil, nil, syscall.ENOSPC
	}
	file, head, err := createFiles(dir, name)
	if err != nil {
		return nil, nil, err
	}
	return brittleFile{file.(*os.File), &f.left, &f.noTruncate, &f.syncs}, brittleHead{head.(*os.File), &f.noHead}, nil
}

func TestDiskFull(t *testing.T) {
	for _, room := range []int{0, 1, 150, 200} {
		t.Run(fmt.Sprint(room, " bytes left"), func(t *testing.T) {
			dir, f := t.TempDir(), &faults{left: 1 << 20}
			l := open(t, Options{Dir: dir, create: f.create})
			record(t, l, intent("c1"))
			f.left = room
			if err := l.Record(outcome("c1")); !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("Record on a full disk: %v, want no space", err)
			}
			if r := verify(t, dir, VerifyOptions{}); !r.OK() || r.Files[0].Torn || len(r.Dangling) != 1 {
				t.Errorf("after the failure: %+v, want a whole file with one dangling intent", r)
			}
			f.left = 1 << 20
			record(t, l, outcome("c1"))
			shut(t, l)
			if r := verify(t, dir, VerifyOptions{}); !r.OK() || len(r.Dangling) != 0 {
				t.Errorf("after there was space again: %+v", r)
			}
		})
	}
}

func TestPartOfALineThatCannotBeTakenBack(t *testing.T) {
	dir, f := t.TempDir(), &faults{left: 1 << 20}
	l := open(t, Options{Dir: dir, create: f.create})
	f.left, f.noTruncate = 100, true
	if err := l.Record(intent("c1")); !errors.Is(err, syscall.EIO) || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("Record: %v, want both errors", err)
	}
	f.left = 1 << 20
	if err := l.Record(intent("c2")); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Record behind half a line: %v, want an error", err)
	}
	if r := verify(t, dir, VerifyOptions{}); !r.OK() || !r.Files[0].Torn {
		t.Errorf("report %+v, want a torn last line and no damage", r)
	}
	f.noTruncate = false
	record(t, l, intent("c3"))
	if r := verify(t, dir, VerifyOptions{}); !r.OK() || r.Files[0].Torn {
		t.Errorf("report %+v, want a mended file", r)
	}
}

func TestHeadThatCannotBeWritten(t *testing.T) {
	dir, f := t.TempDir(), &faults{left: 1 << 20}
	l := open(t, Options{Dir: dir, create: f.create})
	f.noHead = true
	for range 2 {
		if err := l.Record(intent("c1")); !errors.Is(err, syscall.EIO) {
			t.Fatalf("Record: %v, want an error: nothing vouches for the line", err)
		}
	}
	if r := verify(t, dir, VerifyOptions{}); !r.OK() || r.Files[0].Unanchored != 2 {
		t.Errorf("report %+v, want two unanchored lines", r)
	}
	f.noHead = false
	record(t, l, outcome("c1"))
	if r := verify(t, dir, VerifyOptions{}); !r.OK() || r.Files[0].Unanchored != 0 {
		t.Errorf("report %+v, want all anchored again", r)
	}
}

func TestRotationThatFails(t *testing.T) {
	tests := []struct {
		name    string
		failing func(*faults)
	}{
		{"no new file", func(f *faults) { f.noCreate = true }},
		{"no room for the last line", func(f *faults) { f.left = 0 }},
		{"room for the last line only", func(f *faults) { f.left = 300 }},
		{"no head for the last line", func(f *faults) { f.noHead = true }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir, f := t.TempDir(), &faults{left: 1 << 20}
			l := open(t, Options{Dir: dir, create: f.create, MaxBytes: 1000})
			for l.size < 1000 {
				record(t, l, intent("c1"), outcome("c1"))
			}
			tt.failing(f)
			if err := l.Record(intent("c2")); err == nil {
				t.Fatal("Record gave no error")
			}
			*f = faults{left: 1 << 20}
			record(t, l, intent("c3"), outcome("c3"))
			shut(t, l)
			if r := verify(t, dir, VerifyOptions{}); !r.OK() || len(r.Dangling) != 0 {
				t.Errorf("damages %v, dangling %v", r.Damages(), r.Dangling)
			}
		})
	}
}

func TestOpenThatFails(t *testing.T) {
	for name, f := range map[string]*faults{
		"no file":  {noCreate: true},
		"no head":  {noHead: true},
		"no space": {left: 10},
	} {
		if _, err := Open(Options{Dir: t.TempDir(), Now: clock(), Process: "x", create: f.create}); err == nil {
			t.Errorf("%s: Open gave no error", name)
		}
	}
}

func TestSyncIsForIntentsAboveRead(t *testing.T) {
	write := intent("c2")
	write.Class = "destructive"
	for _, tt := range []struct {
		name string
		sync bool
		e    Event
		want int
	}{
		{"off by default", false, write, 0},
		{"a reading intent does not wait", true, intent("c1"), 0},
		{"an outcome does not wait", true, outcome("c1"), 0},
		{"an intent above read waits", true, write, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &faults{left: 1 << 20}
			l := open(t, Options{Dir: t.TempDir(), Sync: tt.sync, create: f.create})
			record(t, l, tt.e)
			if f.syncs != tt.want {
				t.Errorf("%d syncs, want %d", f.syncs, tt.want)
			}
		})
	}
}

// heldFile lets nothing through before it is released, and counts.
type heldFile struct {
	logFile
	writes, syncs         atomic.Int64
	holdWrites, holdSyncs chan struct{} // nil: nothing is held
}

func (f *heldFile) Write(b []byte) (int, error) {
	f.writes.Add(1)
	if f.holdWrites != nil {
		<-f.holdWrites
	}
	return f.logFile.Write(b)
}

func (f *heldFile) Sync() error {
	f.syncs.Add(1)
	if f.holdSyncs != nil {
		<-f.holdSyncs
	}
	return f.logFile.Sync()
}

// held opens a log on a heldFile that holds nothing yet.
func held(t *testing.T, opts Options) (*Log, *heldFile) {
	t.Helper()
	f := &heldFile{}
	opts.create = func(dir, name string) (logFile, headFile, error) {
		file, head, err := createFiles(dir, name)
		f.logFile = file
		return f, head, err
	}
	return open(t, opts), f
}

// eventually waits for what other goroutines are about to do.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("never happened: " + what)
		}
	}
}

func (l *Log) waits() int {
	l.queue.Lock()
	defer l.queue.Unlock()
	return len(l.waiting)
}

func TestEventsThatWaitShareAWrite(t *testing.T) {
	dir := t.TempDir()
	l, f := held(t, Options{Dir: dir})
	f.holdWrites = make(chan struct{})
	const n = 20
	var wg sync.WaitGroup
	errs := make(chan error, n+1)
	wg.Go(func() { errs <- l.Record(intent("first")) })
	eventually(t, "the first write", func() bool { return f.writes.Load() == 2 }) // the file's first line is one
	for i := range n {
		wg.Go(func() { errs <- l.Record(intent(fmt.Sprint("c", i))) })
	}
	eventually(t, "the others wait", func() bool { return l.waits() == n })
	close(f.holdWrites)
	wg.Wait()
	for range n + 1 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if got := f.writes.Load(); got != 3 {
		t.Errorf("%d writes, want 3", got)
	}
	if r := verify(t, dir, VerifyOptions{}); !r.OK() || r.Events != n+2 {
		t.Errorf("damages %v, %d events", r.Damages(), r.Events)
	}
}

func TestWaitForTheDiskHoldsUpNoReading(t *testing.T) {
	l, f := held(t, Options{Dir: t.TempDir(), Sync: true})
	f.holdSyncs = make(chan struct{})
	write := intent("w")
	write.Class = "destructive"
	var wg sync.WaitGroup
	var done atomic.Int64
	record1 := func() {
		if err := l.Record(write); err != nil {
			t.Error(err)
		}
		done.Add(1)
	}
	wg.Go(record1)
	eventually(t, "the first wait", func() bool { return f.syncs.Load() == 1 })
	for range 8 {
		wg.Go(record1)
	}
	record(t, l, intent("r"), outcome("r"))
	eventually(t, "the others are written", func() bool { return l.Head().Events == 12 })
	if done.Load() != 0 {
		t.Error("an intent above read did not wait for the disk")
	}
	close(f.holdSyncs)
	wg.Wait()
	if got := f.syncs.Load(); got != 2 {
		t.Errorf("%d waits for the disk, want one for the first and one for those that came meanwhile", got)
	}
}

// nowhere takes all and keeps nothing, so that a benchmark measures the
// package and not the disk.
type nowhere struct{ io.Writer }

func (nowhere) Truncate(int64) error                       { return nil }
func (nowhere) Sync() error                                { return nil }
func (nowhere) Close() error                               { return nil }
func (nowhere) WriteAt(b []byte, _ int64) (n int, _ error) { return len(b), nil }

func benchmarkRecord(b *testing.B, opts Options) {
	opts.Dir, opts.Now, opts.Process, opts.MaxBytes = b.TempDir(), time.Now, "bench", 1<<60
	l, err := Open(opts)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	e := intent("c_0123456789abcdefghijklmnop")
	e.Session, e.Principal, e.Client, e.Egress, e.Rule = "s_0123456789", "local/claude", "claude-code", "row_level", "policy.rules[3]"
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Record(e); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRecord(b *testing.B) {
	sink := func(string, string) (logFile, headFile, error) { return nowhere{io.Discard}, nowhere{}, nil }
	b.Run("without the system calls", func(b *testing.B) { benchmarkRecord(b, Options{create: sink}) })
	b.Run("keyed, without the system calls", func(b *testing.B) {
		benchmarkRecord(b, Options{create: sink, Key: []byte("0123456789abcdef0123456789abcdef")})
	})
	b.Run("to a file", func(b *testing.B) { benchmarkRecord(b, Options{}) })
}

func TestRecordAllocatesNothing(t *testing.T) {
	sink := func(string, string) (logFile, headFile, error) { return nowhere{io.Discard}, nowhere{}, nil }
	l := open(t, Options{Dir: t.TempDir(), Key: []byte("k"), create: sink, Now: func() time.Time { return time.Unix(1e9, 0) }})
	e := intent("c1")
	if n := testing.AllocsPerRun(200, func() { record(t, l, e) }); n > 2 {
		t.Errorf("%v allocations an event, want at most 2", n)
	}
}

// A file that somebody moved away takes no more events: they go on in the next,
// which names it, so that Verify misses it until it is back.
func TestAFileThatWasMovedAwayTakesNoMore(t *testing.T) {
	for name, moveAway := range map[string]func(dir string) error{
		"the folder": func(dir string) error { return os.Rename(dir, dir+".old") },
		"the files": func(dir string) error {
			if err := os.Rename(dir, dir+".old"); err != nil {
				return err
			}
			return os.Mkdir(dir, 0o700)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "audit")
			l := open(t, Options{Dir: dir})
			record(t, l, intent("c1"), outcome("c1"))
			if err := moveAway(dir); err != nil {
				t.Fatal(err)
			}
			record(t, l, intent("c2"), outcome("c2"))
			shut(t, l)
			if r := verify(t, dir, VerifyOptions{}); r.OK() || r.Events == 0 {
				t.Errorf("%d events in %d files, and nothing is missed", r.Events, len(r.Files))
			}
			old, err := os.ReadDir(dir + ".old")
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range old {
				if err := os.Rename(filepath.Join(dir+".old", f.Name()), filepath.Join(dir, f.Name())); err != nil {
					t.Fatal(err)
				}
			}
			if r := verify(t, dir, VerifyOptions{}); !r.OK() || len(r.Files) != 2 {
				t.Errorf("put back, %d files have the damages %v", len(r.Files), r.Damages())
			}
		})
	}
}
