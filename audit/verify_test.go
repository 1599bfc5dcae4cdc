package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

var testKey = []byte("a key that the tamperer lacks")

const (
	firstFile  = "20261130T090001Z-100-aa.0001.jsonl"
	secondFile = "20261130T090001Z-100-aa.0002.jsonl"
	laterFile  = "20261201T000000Z-200-bb.0001.jsonl"
)

// twoChains is a folder with a chain of two files, closed, and a later chain
// of one file that is still open.
func twoChains(t *testing.T, key []byte) fstest.MapFS {
	t.Helper()
	dir := t.TempDir()
	l := open(t, Options{Dir: dir, Key: key})
	record(t, l, intent("c1"), outcome("c1"), Event{Kind: Refusal, Call: "c2", Code: "egress"}, intent("c3"), outcome("c3"))
	l.opts.MaxBytes = 1 // the next event starts a file
	record(t, l, Event{Kind: Note, Note: "n1"})
	l.opts.MaxBytes = 1 << 20
	record(t, l, Event{Kind: Note, Note: "n2"}, Event{Kind: Note, Note: "n3"})
	shut(t, l)
	now := clock()().AddDate(0, 0, 1)
	later := now.Add(-9*time.Hour - time.Second)
	l2 := open(t, Options{Dir: dir, Key: key, Process: "200-bb", Now: func() time.Time { later = later.Add(time.Second); return later.Add(-time.Second) }})
	record(t, l2, intent("c9"))
	return load(t, dir)
}

func load(t testing.TB, dir string) fstest.MapFS {
	t.Helper()
	m := fstest.MapFS{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(dir + "/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		m[e.Name()] = &fstest.MapFile{Data: b, Mode: 0o600}
	}
	return m
}

func lines(m fstest.MapFS, name string) []string {
	return strings.SplitAfter(strings.TrimSuffix(string(m[name].Data), "\n"), "\n")
}

func setLines(m fstest.MapFS, name string, lines []string) {
	text := strings.Join(lines, "")
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	m[name].Data = []byte(text)
}

func change(m fstest.MapFS, name string, edit func(l []string) []string) {
	setLines(m, name, edit(lines(m, name)))
}

var prevMember = regexp.MustCompile(`"prev":"[0-9a-f]*"`)

// rechain recomputes every digest from line i on, as a tamperer without the key
// would, and leaves macs as they are.
func rechain(l []string, i int) []string {
	for ; i < len(l); i++ {
		if i > 0 {
			sum := digestOf(l[i-1])
			l[i] = prevMember.ReplaceAllString(l[i], `"prev":"`+sum+`"`)
		}
	}
	return l
}

// forgeHead writes a head that fits the log as it now is.
func forgeHead(m fstest.MapFS, name string) {
	l := lines(m, name)
	sum, err := hex.DecodeString(digestOf(l[len(l)-1]))
	if err != nil {
		panic(err)
	}
	m[headName(name)] = &fstest.MapFile{Data: appendHead(nil, name, uint64(len(l)), sum, nil)}
}

func TestUntouched(t *testing.T) {
	m := twoChains(t, testKey)
	for name, key := range map[string][]byte{"with the key": testKey, "without": nil} {
		r, err := Verify(m, VerifyOptions{Key: key})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range r.Files {
			names = append(names, f.Name)
		}
		if !r.OK() || !slices.Equal(names, []string{firstFile, secondFile, laterFile}) || r.Keyed != (key != nil) {
			t.Errorf("%s: files %v, damages %v", name, names, r.Damages())
		}
		if len(r.Dangling) != 1 || r.Dangling[0].Event.Call != "c9" || r.Dangling[0].Line != 2 {
			t.Errorf("%s: dangling %+v, want the intent of c9", name, r.Dangling)
		}
		if r.Files[2].Ended || !r.Files[0].Ended || !r.Files[1].Ended {
			t.Errorf("%s: ended %v %v %v, want only the open chain not ended", name, r.Files[0].Ended, r.Files[1].Ended, r.Files[2].Ended)
		}
	}
}

func TestTampering(t *testing.T) {
	swap := func(i, j int) func([]string) []string {
		return func(l []string) []string { l[i], l[j] = l[j], l[i]; return l }
	}
	drop := func(i int) func([]string) []string {
		return func(l []string) []string { return slices.Delete(l, i, i+1) }
	}
	edit := func(i int, old, new string) func([]string) []string {
		return func(l []string) []string {
			if !strings.Contains(l[i], old) {
				panic("line " + l[i] + " has no " + old)
			}
			l[i] = strings.Replace(l[i], old, new, 1)
			return l
		}
	}
	on := func(name string, f func([]string) []string) func(fstest.MapFS) {
		return func(m fstest.MapFS) { change(m, name, f) }
	}
	tests := []struct {
		name   string
		tamper func(fstest.MapFS)
		file   string
		line   int
		kind   DamageKind
	}{
		{"a middle line edited", on(firstFile, edit(2, `"ok"`, `"ko"`)), firstFile, 3, Edited},
		{"the first line edited", on(firstFile, edit(0, `"start"`, `"start","x":1`)), firstFile, 1, Edited},
		{"the last line edited", on(secondFile, edit(4, `"stop"`, `"note"`)), secondFile, 5, Edited},
		{"white space added to a line", on(firstFile, edit(2, `{`, `{ `)), firstFile, 3, Edited},
		{"a line's number edited", on(firstFile, edit(2, `"seq":3`, `"seq":30`)), firstFile, 3, Edited},
		{"a line's prev edited", on(firstFile, edit(2, `"prev":"`, `"prev":"0`)), firstFile, 3, Edited},
		{"a line edited and its file chained again", on(firstFile, func(l []string) []string { return rechain(edit(2, `"ok"`, `"ko"`)(l), 3) }), firstFile, 7, Edited},
		{"the first line dropped", on(firstFile, drop(0)), firstFile, 1, Dropped},
		{"the first line of a further file dropped", on(secondFile, drop(0)), secondFile, 1, Dropped},
		{"a middle line dropped", on(firstFile, drop(3)), firstFile, 4, Dropped},
		{"two lines dropped", on(firstFile, func(l []string) []string { return slices.Delete(l, 2, 4) }), firstFile, 3, Dropped},
		{"the last line dropped", on(secondFile, drop(4)), secondFile, 5, CutTail},
		{"the last line of an earlier file dropped", on(firstFile, drop(6)), firstFile, 7, CutTail},
		{"all lines dropped", on(secondFile, func([]string) []string { return nil }), secondFile, 1, CutTail},
		{"the tail of an open chain dropped", on(laterFile, drop(1)), laterFile, 2, CutTail},
		{"neighbours swapped", on(firstFile, swap(2, 3)), firstFile, 3, Reordered},
		{"far lines swapped", on(firstFile, swap(1, 4)), firstFile, 2, Reordered},
		{"the first line moved down", on(firstFile, swap(0, 2)), firstFile, 1, Reordered},
		{"a line repeated", on(firstFile, func(l []string) []string { return slices.Insert(l, 3, l[2]) }), firstFile, 4, Inserted},
		{"a line put in", on(firstFile, func(l []string) []string {
			return slices.Insert(l, 3, `{"seq":2,"time":"2026-11-30T09:00:00Z","kind":"note","prev":"00"}`+"\n")
		}), firstFile, 4, Inserted},
		{"a line after the closing one", on(secondFile, func(l []string) []string {
			return rechain(append(l, "\n"+strings.Replace(l[3], `"seq":11`, `"seq":13`, 1)), 5)
		}), secondFile, 6, Inserted},
		{"a line that is no JSON", on(firstFile, edit(2, `{"seq"`, `{seq`)), firstFile, 3, Unreadable},
		{"a line that is no object", on(firstFile, func(l []string) []string { l[2] = "[]\n"; return l }), firstFile, 3, Unreadable},
		{"an empty line", on(firstFile, func(l []string) []string { l[2] = "\n"; return l }), firstFile, 3, Unreadable},
		{"a line without end", on(firstFile, func(l []string) []string { l[2] = strings.Repeat("x", maxLine+5) + "\n"; return l }), firstFile, 3, Unreadable},
		{"the head deleted", func(m fstest.MapFS) { delete(m, headName(secondFile)) }, secondFile, 0, BadHead},
		{"the head emptied", func(m fstest.MapFS) { m[headName(secondFile)].Data = nil }, secondFile, 0, BadHead},
		{"the head garbled", func(m fstest.MapFS) { m[headName(secondFile)].Data = []byte("{") }, secondFile, 0, BadHead},
		{"the head of another file", func(m fstest.MapFS) { m[headName(secondFile)] = m[headName(firstFile)] }, secondFile, 0, BadHead},
		{"a log deleted", func(m fstest.MapFS) { delete(m, secondFile) }, secondFile, 0, Missing},
		{"a log and its head deleted", func(m fstest.MapFS) { delete(m, secondFile); delete(m, headName(secondFile)) }, secondFile, 0, Missing},
		{"a chain's first file deleted with its head", func(m fstest.MapFS) { delete(m, firstFile); delete(m, headName(firstFile)) }, firstFile, 0, Missing},
		{"a log put under another name", func(m fstest.MapFS) {
			m["20260101T000000Z-1.0001.jsonl"], m["20260101T000000Z-1.0001.head"] = m[laterFile], m[headName(laterFile)]
			forgeHead(m, "20260101T000000Z-1.0001.jsonl")
		}, "20260101T000000Z-1.0001.jsonl", 1, Edited},
		{"an older chain rolled back with its head", func(m fstest.MapFS) {
			change(m, secondFile, drop(4))
			forgeHead(m, secondFile)
		}, secondFile, 5, CutTail},
		{"an older chain rewritten with its head", func(m fstest.MapFS) {
			change(m, secondFile, func(l []string) []string { return rechain(edit(1, "n1", "nX")(l), 2) })
			forgeHead(m, secondFile)
		}, secondFile, 5, Edited},
		{"an earlier file of a chain rewritten with its head", func(m fstest.MapFS) {
			change(m, firstFile, func(l []string) []string { return rechain(edit(2, `"ok"`, `"ko"`)(l), 3) })
			forgeHead(m, firstFile)
		}, firstFile, 7, Edited},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := twoChains(t, nil)
			tt.tamper(m)
			r, err := Verify(m, VerifyOptions{})
			if err != nil {
				t.Fatal(err)
			}
			got := r.Damages()
			if len(got) != 1 || got[0].File != tt.file || got[0].Line != tt.line || got[0].Kind != tt.kind || got[0].Detail == "" {
				t.Errorf("got %v, want %s:%d: %s", got, tt.file, tt.line, tt.kind)
			}
			if _, err := Tail(m, 100, nil); err != nil {
				t.Errorf("Tail of the damaged folder: %v", err)
			}
		})
	}
}

// A rewrite of the newest chain, head included, fits together. Only a key or an
// anchor tells.
func TestRewriteOfTheNewestChain(t *testing.T) {
	rewrite := func(m fstest.MapFS) {
		change(m, laterFile, func(l []string) []string {
			l[1] = strings.Replace(l[1], "files/read_file", "files/list_all!", 1)
			return l
		})
		forgeHead(m, laterFile)
	}
	rollBack := func(m fstest.MapFS) {
		change(m, laterFile, func(l []string) []string { return l[:1] })
		forgeHead(m, laterFile)
	}
	for name, tamper := range map[string]func(fstest.MapFS){"rewritten": rewrite, "rolled back": rollBack} {
		t.Run(name, func(t *testing.T) {
			m := twoChains(t, testKey)
			anchor, _, err := readHead(m, laterFile)
			if err != nil {
				t.Fatal(err)
			}
			tamper(m)
			for _, tt := range []struct {
				with  string
				opts  VerifyOptions
				found bool
			}{
				{"nothing", VerifyOptions{}, false},
				{"the key", VerifyOptions{Key: testKey}, true},
				{"an anchor", VerifyOptions{Anchors: []Mark{anchor}}, true},
			} {
				r, err := Verify(m, tt.opts)
				if err != nil {
					t.Fatal(err)
				}
				if found := !r.OK(); found != tt.found {
					t.Errorf("with %s: damages %v, found %v, want %v", tt.with, r.Damages(), found, tt.found)
				}
			}
		})
	}
}

func TestKeyFindsTheLine(t *testing.T) {
	m := twoChains(t, testKey)
	change(m, firstFile, func(l []string) []string {
		l[2] = strings.Replace(l[2], `"ok"`, `"ko"`, 1)
		return rechain(l, 3)
	})
	r, err := Verify(m, VerifyOptions{Key: testKey})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Damages(); len(got) != 1 || got[0].Line != 3 || got[0].Kind != Edited {
		t.Errorf("got %v, want line 3 edited", got)
	}
	bare := twoChains(t, nil)
	if r, err := Verify(bare, VerifyOptions{Key: testKey}); err != nil || len(r.Damages()) != 3 {
		t.Errorf("a bare folder under a key: %v, %v, want every file refused", r.Damages(), err)
	}
}

func TestAnchorOfAFileThatIsGone(t *testing.T) {
	m := twoChains(t, nil)
	anchor, _, err := readHead(m, laterFile)
	if err != nil {
		t.Fatal(err)
	}
	delete(m, laterFile)
	delete(m, headName(laterFile))
	if r, err := Verify(m, VerifyOptions{}); err != nil || !r.OK() {
		t.Errorf("without the anchor: %v, %v: nothing is left that could tell", r.Damages(), err)
	}
	r, err := Verify(m, VerifyOptions{Anchors: []Mark{anchor}})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Damages(); len(got) != 1 || got[0].Kind != Missing || got[0].File != laterFile {
		t.Errorf("with the anchor: %v, want %s missing", got, laterFile)
	}
}

// Cut at any byte, with the head as it was: always found, and never called a
// crash. Cut at any byte with the head that a crash would leave: never called
// tampering.
func TestEveryTruncation(t *testing.T) {
	whole := twoChains(t, nil)
	text := whole[laterFile].Data
	tail := whole[laterFile].Data[:0:0]
	var ends []int
	for i, c := range text {
		if c == '\n' {
			ends = append(ends, i+1)
		}
	}
	for at := range text {
		m := fstest.MapFS{laterFile: {Data: append(tail, text[:at]...)}, headName(laterFile): {Data: whole[headName(laterFile)].Data}}
		r, err := Verify(m, VerifyOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var d *Damage
		for _, f := range r.Files {
			if f.Name == laterFile {
				d = f.Damage
			}
		}
		if d == nil || d.Kind != CutTail {
			t.Fatalf("cut at byte %d of %d: %v, want cut-tail", at, len(text), d)
		}
		wantLine := 1 + len(slices.DeleteFunc(slices.Clone(ends), func(end int) bool { return end > at }))
		if d.Line != wantLine {
			t.Fatalf("cut at byte %d: line %d, want %d", at, d.Line, wantLine)
		}
		crashed(t, whole, text, ends, at)
	}
}

func crashed(t *testing.T, whole fstest.MapFS, text []byte, ends []int, at int) {
	t.Helper()
	n := 0
	for n < len(ends) && ends[n] <= at {
		n++
	}
	sum := make([]byte, 32)
	if n > 0 {
		start := 0
		if n > 1 {
			start = ends[n-2]
		}
		sum, _ = hex.DecodeString(digestOf(string(text[start:ends[n-1]])))
	}
	m := fstest.MapFS{}
	for name, f := range whole {
		m[name] = f
	}
	m[laterFile] = &fstest.MapFile{Data: text[:at]}
	m[headName(laterFile)] = &fstest.MapFile{Data: appendHead(nil, laterFile, uint64(n), sum, nil)}
	r, err := Verify(m, VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	inLine := n == 0 && at > 0 || n > 0 && at > ends[n-1]
	if torn := r.Files[len(r.Files)-1].Torn; !r.OK() || torn != inLine {
		t.Fatalf("crash at byte %d: damages %v, torn %v, want none, %v", at, r.Damages(), torn, inLine)
	}
}

func TestCrashBeforeTheFirstLine(t *testing.T) {
	const name = "20270101T000000Z-1.0001.jsonl"
	empty := appendHead(nil, name, 0, make([]byte, 32), nil)
	for what, m := range map[string]fstest.MapFS{
		"only an empty head":   {headName(name): {}},
		"only a fresh head":    {headName(name): {Data: empty}},
		"head and empty log":   {headName(name): {Data: empty}, name: {}},
		"both empty":           {headName(name): {}, name: {}},
		"part of a first line": {headName(name): {Data: empty}, name: {Data: []byte(`{"seq":1,`)}},
		"nothing at all":       {},
		"a folder of the name": {name + "/x": {}},
	} {
		if r, err := Verify(m, VerifyOptions{}); err != nil || !r.OK() || r.Events != 0 {
			t.Errorf("%s: %+v, %v, want no events and no damage", what, r, err)
		}
	}
}

// Whatever one flips, in a log or a head, verification says so.
func TestEveryByteFlipped(t *testing.T) {
	for _, name := range []string{firstFile, headName(firstFile)} {
		m := twoChains(t, nil)
		text := m[name].Data
		for i := range text {
			changed := bytes.Clone(text)
			changed[i] ^= 1
			m[name] = &fstest.MapFile{Data: changed}
			if r, err := Verify(m, VerifyOptions{}); err != nil || r.OK() {
				// White space in the head carries nothing.
				if bytes.Equal(bytes.TrimSpace(changed), bytes.TrimSpace(text)) {
					continue
				}
				t.Fatalf("byte %d of %s flipped (%q): %v, nothing found", i, name, text[max(0, i-10):i+1], err)
			}
		}
	}
}

func TestVerifyThatCannotRead(t *testing.T) {
	if _, err := Verify(os.DirFS(t.TempDir()+"/none"), VerifyOptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
}

func TestReportAsJSON(t *testing.T) {
	m := twoChains(t, nil)
	change(m, firstFile, func(l []string) []string { return slices.Delete(l, 3, 4) })
	r, err := Verify(m, VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"kind":"dropped"`, `"line":4`, `"dangling":[{"file":"` + laterFile, `"ended":false`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%s lacks %s", b, want)
		}
	}
	if got, want := r.Damages()[0].String(), firstFile+":4: dropped: events 4 to 4 before it are missing"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := (Damage{File: "x\x1b[2J", Kind: Missing, Detail: "d"}).String(); got != `x\u001b[2J: missing: d` {
		t.Errorf("foreign file name printed as %q", got)
	}
}

func digestOf(line string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.TrimSuffix(line, "\n"))))
}

func FuzzVerify(f *testing.F) {
	f.Add([]byte(`{"seq":1,"time":"2026-11-30T09:00:00Z","kind":"start","file":"a.0001.jsonl","prev":""}`+"\n"), []byte(`{"file":"a.0001.jsonl","events":1,"digest":"`+strings.Repeat("0", 64)+`"}`))
	f.Add([]byte(`{"seq":1,"kind":"continue","file":"a.0001.jsonl","seen":[{"file":"b","events":9}]}`+"\nx"), []byte(``))
	f.Add([]byte("\n\n{}\nnull\n"), []byte(`{`))
	f.Fuzz(func(t *testing.T, log, head []byte) {
		m := fstest.MapFS{"a.0001.jsonl": {Data: log}, "a.0001.head": {Data: head}}
		r, err := Verify(m, VerifyOptions{Key: testKey})
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(log, []byte("\n")); r.Events != n {
			t.Fatalf("%d events reported, the log has %d lines", r.Events, n)
		}
		if r.OK() && r.Events > 0 {
			t.Fatalf("lines without a mac passed under a key")
		}
		for _, d := range r.Damages() {
			_ = d.String()
		}
		forward, err := NewFollower(m, nil).Next()
		if err != nil {
			t.Fatal(err)
		}
		back, err := Tail(m, len(log)+1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(forward) != len(back) {
			t.Fatalf("read forward %d events, backward %d", len(forward), len(back))
		}
		for _, rec := range back {
			again, err := json.Marshal(rec.Event)
			if err != nil || bytes.ContainsAny(again, "\n\x1b") || strings.ContainsAny(rec.Event.String(), "\n\x1b") {
				t.Fatalf("event %q written again as %q, %v", rec.Raw, again, err)
			}
		}
	})
}
