package artifacts

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mcp-gate/mcp-gate/engagement"
)

var all = engagement.AllEgress()

func (s *shop) read(t testing.TB, id string, q Query) Slice {
	t.Helper()
	got, err := s.Read(t.Context(), id, "local", all, q)
	if err != nil {
		t.Fatalf("%+v: %v", q, err)
	}
	return got
}

func ptr[T any](v T) *T { return &v }

func TestSlices(t *testing.T) {
	s := openShop(t, t.TempDir(), Options{})
	text := s.keep(t, "one\ntwo\nthree\nfour\nfive", Meta{}).ID
	doc := s.keep(t, `{"a":{"b/c":[10, 12345678901234567890, "x\ny"]},"items":[{"n":1,"p":12.50},{"n":2,"p":0.25}]}`, Meta{}).ID
	amounts := s.keep(t, `[1234567890123456.78,1e-400,0.10]`, Meta{}).ID
	sheet := s.keep(t, "id,name,city\n1,Ada,Oslo\n2,Ben,Rome\n3,\"Cleo, jr\",Lima\n", Meta{}).ID
	for name, tt := range map[string]struct {
		id    string
		q     Query
		want  string
		unit  string
		to    int64
		total int64
		more  bool
	}{
		"the beginning":               {text, Query{}, "one\ntwo\nthree\nfour\nfive", "bytes", 23, 23, false},
		"bytes":                       {text, Query{Bytes: &Span{4, 7}}, "two", "bytes", 7, 23, false},
		"bytes up to a bound":         {text, Query{Bytes: &Span{4, 0}, Max: 6}, "two\nth", "bytes", 10, 23, true},
		"lines":                       {text, Query{Lines: &Span{2, 3}}, "two\nthree\n", "lines", 3, 5, true},
		"the last line":               {text, Query{Lines: &Span{5, 9}}, "five", "lines", 5, 5, false},
		"lines up to a bound":         {text, Query{Lines: &Span{1, 0}, Max: 10}, "one\ntwo\n", "lines", 2, 5, true},
		"a line longer than a slice":  {text, Query{Lines: &Span{3, 0}, Max: 4}, "thre", "lines", 3, 5, true},
		"matches":                     {text, Query{Match: "^t"}, "2: two\n3: three\n", "matches", 2, 2, false},
		"matches with context":        {text, Query{Match: "four", Context: 1}, "3- three\n4: four\n5- five\n", "matches", 1, 1, false},
		"matches in some lines":       {text, Query{Match: "o", Lines: &Span{2, 3}}, "2: two\n", "matches", 1, 1, false},
		"no match":                    {text, Query{Match: "zebra"}, "", "matches", 0, 0, false},
		"matches up to a bound":       {text, Query{Match: "e", Max: 12}, "1: one\n", "matches", 1, 3, true},
		"the whole by a pointer":      {doc, Query{Pointer: ptr("/a")}, `{"b/c":[10, 12345678901234567890, "x\ny"]}`, "bytes", 42, 42, false},
		"a number by a pointer":       {doc, Query{Pointer: ptr("/a/b~1c/1")}, "12345678901234567890", "bytes", 20, 20, false},
		"a string by a pointer":       {doc, Query{Pointer: ptr("/a/b~1c/2")}, "x\ny", "bytes", 3, 3, false},
		"a pointer, bounded":          {doc, Query{Pointer: ptr("/a/b~1c/1"), Max: 8}, "12345678", "bytes", 8, 20, true},
		"a pointer, continued":        {doc, Query{Pointer: ptr("/a/b~1c/1"), After: 16}, "7890", "bytes", 20, 20, false},
		"a query":                     {doc, Query{Query: "items[?n>`1`].{total:p,n:n}"}, `[{"n":2,"total":0.25}]`, "bytes", 22, 22, false},
		"a query with a function":     {doc, Query{Query: "sum(items[].p)"}, `12.75`, "bytes", 5, 5, false},
		"a query keeps long integers": {doc, Query{Query: "a.\"b/c\"[1]"}, `12345678901234567890`, "bytes", 20, 20, false},
		"a query keeps long decimals": {amounts, Query{Query: "@"}, `[1234567890123456.78,1e-400,0.1]`, "bytes", 32, 32, false},
		"a query adds what floats do": {amounts, Query{Query: "sum([2:])"}, `0.1`, "bytes", 3, 3, false},
		"rows":                        {sheet, Query{Rows: &Span{2, 2}}, `{"columns":["id","name","city"],"rows":[["2","Ben","Rome"]]}`, "rows", 2, 3, false},
		"columns":                     {sheet, Query{Columns: []string{"city", "id"}}, `{"columns":["city","id"],"rows":[["Oslo","1"],["Rome","2"],["Lima","3"]]}`, "rows", 3, 3, false},
		"rows up to a bound":          {sheet, Query{Columns: []string{"id"}, Max: 40}, `{"columns":["id"],"rows":[["1"],["2"]]}`, "rows", 2, 3, true},
		"rows of JSON":                {doc, Query{Rows: &Span{1, 1}}, "", "", 0, 0, false},
	} {
		got, err := s.Read(t.Context(), tt.id, "local", all, tt.q)
		if tt.unit == "" {
			var q *QueryError
			if !errors.As(err, &q) { // two rows are no table
				t.Errorf("%s: %q, %v, want a *QueryError", name, got.Body, err)
			}
			continue
		}
		if err != nil || string(got.Body) != tt.want || got.Unit != tt.unit || got.To != tt.to || got.Total != tt.total || (got.Next != nil) != tt.more {
			t.Errorf("%s: %q, %s to %d of %d, more %v, %v;\nwant %q, %s to %d of %d, more %v", name, got.Body, got.Unit, got.To, got.Total, got.Next != nil, err, tt.want, tt.unit, tt.to, tt.total, tt.more)
		}
		if note := got.Note(tt.id); got.Next != nil && !strings.Contains(note, `read_artifact {"artifact":"`+tt.id+`","`) {
			t.Errorf("%s: the note does not say how to go on: %s", name, note)
		} else if got.Next == nil && strings.HasSuffix(note, "that is the end.") != (got.Left() == 0) {
			t.Errorf("%s: %d are left, and the note says: %s", name, got.Left(), note)
		}
	}
}

func TestQueriesThatDoNotFit(t *testing.T) {
	s := openShop(t, t.TempDir(), Options{})
	id := s.keep(t, `{"a":[1,2,{"k":"v"}]}`, Meta{}).ID
	text := s.keep(t, "plain words", Meta{}).ID
	long := s.keep(t, `["`+strings.Repeat("x", 9000)+`"]`, Meta{}).ID
	for name, tt := range map[string]struct {
		id   string
		q    Query
		want string
	}{
		"two ways":                {id, Query{Bytes: &Span{}, Match: "x"}, "bytes and match exclude each other"},
		"a range backwards":       {id, Query{Lines: &Span{5, 2}}, "from 5 to 2"},
		"behind the end":          {id, Query{Bytes: &Span{99, 0}}, "behind the end"},
		"lines behind the end":    {text, Query{Lines: &Span{2, 0}}, "the artifact has 1"},
		"too much":                {id, Query{Max: 1 << 30}, "max is between"},
		"a bad expression":        {id, Query{Match: "("}, "match:"},
		"a bad query":             {id, Query{Query: "a["}, "query:"},
		"a query of a wrong kind": {long, Query{Query: "sum(@)"}, "query:"},
		"no such member":          {id, Query{Pointer: ptr("/a/7")}, "an array of 3"},
		"no such name":            {id, Query{Pointer: ptr("/b")}, "an object of 1: a"},
		"into a string":           {id, Query{Pointer: ptr("/a/2/k/z")}, "neither object nor array"},
		"a pointer without slash": {id, Query{Pointer: ptr("a")}, "begins with a slash"},
		"a pointer into words":    {text, Query{Pointer: ptr("/a")}, "not JSON"},
		"no table":                {text, Query{Rows: &Span{1, 2}}, "0 tables"},
		"no picture":              {text, Query{Size: &Size{Width: 10}}, "not a picture"},
		"a list as a literal":     {id, Query{Query: "`[1,2,3]`[]"}, "a literal is"},
		"the root":                {id, Query{Query: "a[*].[$]"}, "not supported"},
		"a function that builds":  {id, Query{Query: "join('x', a)"}, "no function"},
		"too many projections":    {id, Query{Query: "a[].b[].c[].d[].e[].f[].g[].h"}, "projections"},
		"a huge answer":           {id, Query{Query: strings.Repeat("[@,@]|", 30) + "@"}, "query:"},
	} {
		got, err := s.Read(t.Context(), tt.id, "local", all, tt.q)
		var q *QueryError
		if !errors.As(err, &q) || !strings.Contains(q.Reason, tt.want) || len(q.Reason) > 400 {
			t.Errorf("%s: %q, %v, want %q, briefly", name, got.Body, err, tt.want)
		}
	}
}

// Slices put together are the content, byte for byte, whatever it is and
// however they are bounded.
func TestSlicesPutTogetherAreTheContent(t *testing.T) {
	s := openShop(t, t.TempDir(), Options{})
	r := rand.New(rand.NewPCG(4, 4))
	contents := []string{"", "\n", "a", strings.Repeat("ä€😀\n", 300), strings.Repeat("x", 5000), string(noise(3000)), strings.Repeat("line\r\n", 500), "\n\n\n", "no end\nof line"}
	for range 30 {
		var b strings.Builder
		for range r.IntN(80) {
			b.WriteString(strings.Repeat([]string{"word ", "ß", "😀", "\n", "0"}[r.IntN(5)], r.IntN(40)))
		}
		contents = append(contents, b.String())
	}
	for i, content := range contents {
		id := s.keep(t, content, Meta{}).ID
		for _, first := range []Query{{Max: 7}, {Max: 64}, {Lines: &Span{From: 1}, Max: 50}, {Lines: &Span{From: 1}, Max: 999}} {
			if content == "" && first.Lines != nil {
				continue
			}
			var whole []byte
			steps := 0
			for q := &first; q != nil; steps++ {
				got := s.read(t, id, *q)
				if len(got.Body) > q.max() || steps > 2*len(content)+2 {
					t.Fatalf("content %d: a slice of %d bytes at step %d, bound %d", i, len(got.Body), steps, q.max())
				}
				if got.Media == "text/plain" && !utf8.Valid(got.Body) {
					t.Fatalf("content %d: a slice of text is none: %q", i, got.Body)
				}
				whole = append(whole, got.Body...)
				q = got.Next
			}
			if string(whole) != content {
				t.Fatalf("content %d by %+v: %d bytes, want %d", i, first, len(whole), len(content))
			}
		}
	}
}

func TestPicturesAtASize(t *testing.T) {
	s := openShop(t, t.TempDir(), Options{})
	chart := s.keep(t, string(pngOf(t, drawnChart(640, 400))), Meta{Media: "image/png"}).ID
	photo := s.keep(t, string(jpegOf(t, photograph(640, 400))), Meta{Media: "image/jpeg"}).ID
	drawing := s.keep(t, string(gifOf(t, paletted(drawnChart(640, 400)))), Meta{Media: "image/gif"}).ID
	sticker := s.keep(t, string(webpOf(64, 40)), Meta{Media: "image/webp"}).ID
	for name, tt := range map[string]struct {
		id    string
		size  Size
		w, h  int
		media string
	}{
		"a GIF":                  {drawing, Size{Width: 320}, 320, 200, "image/png"},
		"a WebP":                 {sticker, Size{Width: 32}, 32, 20, "image/png"},
		"a chart by width":       {chart, Size{Width: 320}, 320, 200, "image/png"},
		"a photograph by height": {photo, Size{Height: 100}, 160, 100, "image/jpeg"},
		"both bounds":            {photo, Size{Width: 64, Height: 64}, 64, 40, "image/jpeg"},
		"never larger":           {chart, Size{Width: 2000}, 640, 400, "image/png"},
		"no bound":               {chart, Size{}, 512, 320, "image/png"},
	} {
		got := s.read(t, tt.id, Query{Size: &tt.size})
		m := Sniff(got.Body)
		if got.Media != tt.media || m.Type != tt.media || m.Width != tt.w || m.Height != tt.h {
			t.Errorf("%s: %s of %d by %d, want %s of %d by %d", name, m.Type, m.Width, m.Height, tt.media, tt.w, tt.h)
		}
	}
	huge := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\xff\xff\x00\x00\xff\xff\x08\x02\x00\x00\x00\x00\x00\x00\x00")
	if _, _, err := Thumbnail(huge, 10, 10); !errors.Is(err, ErrPicture) {
		t.Errorf("a picture of 4 billion pixels: %v, want %v", err, ErrPicture)
	}
}

// webpOf is a lossless WebP of one colour: each of its five codes has one
// symbol, so that pixels take no bits.
func webpOf(w, h int) []byte {
	var bits []byte
	n := 0
	put := func(v, width int) {
		for i := range width {
			if n%8 == 0 {
				bits = append(bits, 0)
			}
			bits[n/8] |= byte(v>>i&1) << (n % 8)
			n++
		}
	}
	put(0x2f, 8)
	put(w-1, 14)
	put(h-1, 14)
	put(0, 1+3+1+1+1) // no alpha, version, transforms, cache of colours, groups of codes
	for _, channel := range []int{0x80, 0x20, 0xc0, 0xff} {
		put(1, 1) // simple
		put(0, 1) // one symbol
		put(1, 1) // of eight bits
		put(channel, 8)
	}
	put(1, 1) // the code of distances
	put(0, 1+1+1)
	if len(bits)%2 == 1 {
		bits = append(bits, 0)
	}
	size := func(n int) string { return string(binary.LittleEndian.AppendUint32(nil, uint32(n))) }
	return []byte("RIFF" + size(12+len(bits)) + "WEBPVP8L" + size(len(bits)) + string(bits))
}

// Of what is withheld, or no longer allowed, only aggregates leave, whatever is
// asked.
func TestWhatIsWithheldStaysWithheld(t *testing.T) {
	s := openShop(t, t.TempDir(), Options{})
	content := customers(200)
	row := engagement.EgressOf(engagement.RowLevel)
	strict := engagement.EgressOf(engagement.Metadata, engagement.Aggregates, engagement.RenderedPixels)
	withheld := s.keep(t, content, Meta{Classes: row, Withheld: true, Tables: TablesOf([]byte(content))}).ID
	narrowed := s.keep(t, content, Meta{Classes: row, Tables: TablesOf([]byte(content))}).ID
	queries := []Query{
		{Bytes: &Span{}}, {Lines: &Span{From: 1}}, {Pointer: ptr("")}, {Query: "@"}, {Rows: &Span{From: 1}}, {Columns: []string{"name"}}, {Match: "."}, {Size: &Size{}},
	}
	for name, tt := range map[string]struct {
		id      string
		allowed engagement.EgressSet
	}{"withheld, all allowed": {withheld, all}, "withheld": {withheld, strict}, "narrowed": {narrowed, strict}} {
		for _, q := range queries {
			if got, err := s.Read(t.Context(), tt.id, "local", tt.allowed, q); err != ErrWithheld || got.Body != nil {
				t.Errorf("%s, %+v: %q, %v, want %v", name, q, got.Body, err, ErrWithheld)
			}
		}
		got, err := s.Read(t.Context(), tt.id, "local", tt.allowed, Query{})
		if err != nil || !bytes.Contains(got.Body, []byte(`"rows":200`)) {
			t.Errorf("%s: aggregates %s, %v", name, got.Body, err)
		}
		noLeak(t, name, got.Body, 200)
	}
	if _, err := s.Read(t.Context(), withheld, "local", engagement.EgressOf(engagement.Metadata), Query{}); err != ErrWithheld {
		t.Errorf("without aggregates allowed: %v", err)
	}
	if got := s.read(t, narrowed, Query{Bytes: &Span{0, 7}}); string(got.Body) != content[:7] {
		t.Errorf("allowed again: %q", got.Body)
	}
}

// customers are n rows whose names, addresses and notes are nobody's else.
func customers(n int) string {
	var b strings.Builder
	b.WriteString("id,name,email,plan,amount,note\n")
	for i := range n {
		fmt.Fprintf(&b, "%d,Canary%dName,canary%d@example.com,%s,%d.50,\"note canary%d, private\"\n", i+1, i, i, []string{"free", "pro", "team"}[i%3], i%97, i)
	}
	return b.String()
}

func noLeak(t *testing.T, name string, leaves []byte, n int) {
	t.Helper()
	lower := bytes.ToLower(leaves)
	for i := range n {
		if bytes.Contains(lower, fmt.Appendf(nil, "canary%d", i)) {
			t.Fatalf("%s: row %d leaves in %.2000s", name, i, leaves)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("a,b\n1,2\n3,4\n5,6\n", `{"lines":{"from":2},"max":5}`)
	f.Add(`{"a":[1,{"b":2}]}`, `{"pointer":"/a/1/b"}`)
	f.Add(`[{"a":1,"b":2},{"a":1,"b":2},{"a":1,"b":2}]`, `{"query":"[].a | max(@)"}`)
	f.Add("x\ny\nz", `{"match":"y","context":2}`)
	file, err := os.Create(filepath.Join(f.TempDir(), "content"))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = file.Close() })
	f.Fuzz(func(t *testing.T, content, query string) {
		var q Query
		if json.Unmarshal([]byte(query), &q) != nil || q.Check() != nil {
			return
		}
		if _, err := file.WriteAt([]byte(content), 0); err != nil {
			t.Fatal(err)
		}
		h := Handle{Artifact: Artifact{Size: int64(len(content))}, f: file}
		got, err := h.read(t.Context(), q)
		var wrong *QueryError
		if err != nil && !errors.As(err, &wrong) {
			t.Fatalf("%s of %q: %v", query, content, err)
		}
		if err == nil && len(got.Body) > 8*q.max()+8<<10 {
			t.Fatalf("%s of %q: %d bytes", query, content, len(got.Body))
		}
	})
}
