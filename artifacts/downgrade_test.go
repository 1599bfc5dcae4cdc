package artifacts

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

var strict = engagement.EgressOf(engagement.Metadata, engagement.Aggregates, engagement.RenderedPixels)

// asJSON turns CSV into an array of objects.
func asJSON(csv string) string {
	lines := strings.Split(strings.TrimSpace(csv), "\n")
	names := strings.Split(lines[0], ",")
	var b strings.Builder
	for i, l := range lines[1:] {
		b.WriteString(map[bool]string{true: "[", false: ","}[i == 0] + "{")
		for j, v := range strings.SplitN(l, ",", len(names)) {
			if j > 0 {
				b.WriteByte(',')
			}
			b.WriteString(quote(names[j]) + ":")
			if names[j] == "id" || names[j] == "amount" {
				b.WriteString(v)
			} else {
				b.WriteString(quote(strings.Trim(v, `"`)))
			}
		}
		b.WriteByte('}')
	}
	return b.String() + "]"
}

// carried is one table in every way that a result can carry it.
func carried(csv string) map[string]json.RawMessage {
	rows := asJSON(csv)
	b64 := base64.StdEncoding.EncodeToString([]byte(csv))
	return map[string]json.RawMessage{
		"JSON text":          textResult(rows),
		"JSON after words":   textResult("Here they are:\n" + rows),
		"structured content": json.RawMessage(`{"content":[{"type":"text","text":"done"}],"structuredContent":{"customers":` + rows + `}}`),
		"an embedded CSV":    json.RawMessage(`{"content":[{"type":"resource","resource":{"uri":"crm://all.csv","mimeType":"text/csv","text":` + quote(csv) + `}}]}`),
		"an embedded blob":   json.RawMessage(`{"content":[{"type":"resource","resource":{"uri":"crm://all.csv","mimeType":"text/csv","blob":"` + b64 + `"}}]}`),
		"base64 in a field":  json.RawMessage(`{"content":[],"structuredContent":{"export":"` + b64 + `"}}`),
		"base64 in text":     textResult(`{"export":"` + b64 + `"}`),
	}
}

func TestNoRowLeavesAndTheAggregatesAreRight(t *testing.T) {
	const n = 10_000
	for name, result := range carried(customers(n)) {
		found := Inspect(result)
		if !found.Classes.Has(engagement.RowLevel) || found.Partial {
			t.Errorf("%s: found %v (partial %v)", name, found.Classes, found.Partial)
			continue
		}
		tables := Tables(result)
		cut := Downgrade(result, found, tables, engagement.EgressOf(engagement.RowLevel), strict)
		leaves := slicesOf(cut)
		noLeak(t, name, leaves, n)
		if cut.Stay == 0 || bytes.Contains(leaves, []byte("crm://")) {
			t.Errorf("%s: %d parts stay, %.300s", name, cut.Stay, leaves)
		}
		if len(tables) != 1 || tables[0].Rows != n || len(tables[0].Columns) != 6 {
			t.Errorf("%s: tables %+.600v", name, tables)
			continue
		}
		checkCustomers(t, name, tables[0], n)
		if !bytes.Contains(cut.Facts, []byte(`"rows":10000`)) {
			t.Errorf("%s: facts %.600s", name, cut.Facts)
		}
		bare := Downgrade(result, found, tables, engagement.EgressOf(engagement.RowLevel), engagement.EgressOf(engagement.Metadata))
		if bytes.Contains(bare.Facts, []byte("stats")) || !bytes.Contains(bare.Facts, []byte(`"name":"amount"`)) {
			t.Errorf("%s: with metadata only %.600s", name, bare.Facts)
		}
		if none := Downgrade(result, found, tables, engagement.EgressOf(engagement.RowLevel), 0); string(none.Facts) != "[]" || none.Blocks != nil || none.Structured != nil {
			t.Errorf("%s: with nothing allowed %.300s leaves", name, slicesOf(none))
		}
		whole := Downgrade(result, found, tables, engagement.EgressOf(engagement.RowLevel), all)
		if whole.Stay != 0 || len(whole.Blocks)+len(whole.Structured) == 0 {
			t.Errorf("%s: with all allowed %d parts stay", name, whole.Stay)
		}
	}
}

func slicesOf(c Cut) []byte {
	return bytes.Join(append([][]byte{c.Facts, c.Structured}, rawBytes(c.Blocks)...), []byte{'\n'})
}

func rawBytes(list []json.RawMessage) [][]byte {
	var out [][]byte
	for _, b := range list {
		out = append(out, b)
	}
	return out
}

func checkCustomers(t *testing.T, name string, table Table, n int) {
	t.Helper()
	columns := map[string]Column{}
	for _, c := range table.Columns {
		columns[c.Name] = c
	}
	sum, free := 0.0, int64(0)
	for i := range n {
		sum += float64(i%97) + 0.5
		if i%3 == 0 {
			free++
		}
	}
	id, amount, plan, who := columns["id"], columns["amount"], columns["plan"], columns["name"]
	if id.Type != "integer" || id.Stats.Distinct != int64(n) || *id.Stats.Min != 1 || *id.Stats.Max != float64(n) {
		t.Errorf("%s: id is %+v", name, id.Stats)
	}
	if amount.Type != "number" || *amount.Stats.Min != 0.5 || *amount.Stats.Max != 96.5 || *amount.Stats.Mean != sum/float64(n) || amount.Stats.Distinct != 97 {
		t.Errorf("%s: amount is %+v", name, amount.Stats)
	}
	if plan.Type != "text" || len(plan.Stats.Frequent) != 3 || plan.Stats.Frequent[0] != (Group{"free", free}) {
		t.Errorf("%s: plan is %+v", name, plan.Stats)
	}
	if who.Type != "text" || who.Stats.Count != int64(n) || who.Stats.Frequent != nil || who.Stats.Min != nil {
		t.Errorf("%s: name is %+v", name, who.Stats)
	}
}

func TestSmallGroupsAreSuppressed(t *testing.T) {
	var b strings.Builder
	b.WriteString("team,phone,score,city,secret\n")
	for i := range 30 {
		team := "red"
		if i >= 26 {
			team = "blue" // four rows
		}
		score := ""
		if i < 4 {
			score = "7"
		}
		fmt.Fprintf(&b, "%s,%d,%s,%s,%s\n", team, 4790000000+i, score, "bob@example.com", "ghp_"+strings.Repeat("a1B2c3", 6))
	}
	tables := TablesOf([]byte(b.String()))
	if len(tables) != 1 {
		t.Fatalf("%d tables", len(tables))
	}
	got := string(encode(tables))
	for _, no := range []string{"blue", "47900", "bob@", "ghp_", `"min"`, `"mean"`} {
		if strings.Contains(got, no) {
			t.Errorf("%s leaves in %s", no, got)
		}
	}
	if !strings.Contains(got, `{"value":"red","rows":26}`) {
		t.Errorf("no frequent value in %s", got)
	}
	for _, c := range TablesOf([]byte("a,b\n1,2\n3,4\n5,6\n7,8\n"))[0].Columns {
		if c.Stats != nil {
			t.Errorf("four rows have aggregates: %+v", c.Stats)
		}
	}
}

func TestARecordIsNeverTakenForNames(t *testing.T) {
	for name, text := range map[string]string{
		"words in every column": "Alice,Smith,London\nBob,Jones,Paris\nCarol,White,Rome\n",
		"numbers in every row":  "1,Alice\n2,Bob\n3,Carol\n",
		"arrays":                `[["Alice","Smith"],["Bob","Jones"],["Carol","White"]]`,
		"an address for a name": "alice@example.com,1\nbob@example.com,2\ncarol@example.com,3\n",
		"names of members":      `[{"alice@example.com":1,"b":2},{"bob@example.com":1,"b":2},{"c@example.com":1,"b":2}]`,
		"a name that is in few": `[` + strings.Repeat(`{"a":1,"b":2},`, 20) + `{"a":1,"Alice":1,"b":3}]`,
		"keys of rows":          `{"Alice":{"a":1,"b":2},"Bob":{"a":1,"b":2},"Carol":{"a":3,"b":4}}`,
	} {
		tables := TablesOf([]byte(text))
		if len(tables) != 1 {
			t.Errorf("%s: %d tables", name, len(tables))
			continue
		}
		if got := strings.ToLower(string(encode(tables))); strings.Contains(got, "alice") {
			t.Errorf("%s: a record leaves in %s", name, got)
		}
	}
	for name, text := range map[string]string{
		"typed columns": "Person,Years\nAda,36\nBen,41\nCleo,29\n", "usual names": "name,city\nAda,Oslo\nBen,Rome\nCleo,Lima\n",
		"a rule": " Wer | Wo \n-----+----\n Ada | Oslo\n Ben | Rome\n Cleo | Lima\n", "HTML": "<table><tr><th>Wer</th><th>Wo</th></tr>" + strings.Repeat("<tr><td>Ada</td><td>Oslo</td></tr>", 3) + "</table>",
	} {
		tables := TablesOf([]byte(text))
		if len(tables) != 1 || tables[0].Rows != 3 || strings.HasPrefix(tables[0].Columns[0].Name, "column") {
			t.Errorf("%s: the heading is not known for one: %+v", name, tables)
		}
	}
}

func TestTablesInEveryFormat(t *testing.T) {
	for name, text := range map[string]string{
		"json":     `[{"id":1,"n":"A"},{"id":2,"n":"B"},{"id":3,"n":"C"}]`,
		"json ":    `{"id":[1,2,3],"n":["A","B","C"]}`,
		"ndjson":   "{\"id\":1,\"n\":\"A\"}\n{\"id\":2,\"n\":\"B\"}\n{\"id\":3,\"n\":\"C\"}",
		"csv":      "id,n\n1,A\n2,B\n3,C",
		"csv ":     "words before\n\nid;n\n1;A\n2;B\n3;C\n\nwords behind",
		"tsv":      "id\tn\n1\tA\n2\tB\n3\tC",
		"markdown": "| id | n |\n|---|---|\n| 1 | A |\n| 2 | B |\n| 3 | C |",
		"html":     "<table><tr><th>id</th><th>n</th></tr><tr><td>1</td><td>A</td></tr><tr><td>2</td><td>B</td></tr><tr><td>3</td><td>C</td></tr></table>",
	} {
		tables := TablesOf([]byte(text))
		if len(tables) != 1 {
			t.Errorf("%s: %d tables", name, len(tables))
			continue
		}
		got := tables[0]
		if got.Format != strings.TrimSpace(name) || got.Rows != 3 || len(got.Columns) != 2 || got.Columns[0].Name != "id" || got.Columns[0].Type != "integer" || got.Columns[1].Name != "n" || got.Columns[1].Type != "text" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestPicturesAreCutToThumbnails(t *testing.T) {
	photo := base64.StdEncoding.EncodeToString(jpegOf(t, photograph(800, 600)))
	result := json.RawMessage(`{"content":[{"type":"text","text":"a view"},{"type":"image","mimeType":"image/jpeg","data":"` + photo + `"}]}`)
	found := Inspect(result)
	cut := Downgrade(result, found, nil, engagement.EgressOf(engagement.RawPixels), strict)
	if len(cut.Blocks) != 1 || bytes.Contains(cut.Blocks[0], []byte(photo[:200])) || cut.Stay != 2 {
		t.Fatalf("%d blocks leave, %d parts stay", len(cut.Blocks), cut.Stay)
	}
	thumb, ok := PieceOf(Inspect(json.RawMessage(`{"content":[` + string(cut.Blocks[0]) + `]}`)).Parts[0])
	if !ok {
		t.Fatal("no picture leaves")
	}
	b, err := io.ReadAll(thumb.Reader())
	if m := Sniff(b); err != nil || m.Width != 256 || m.Height != 192 {
		t.Errorf("the thumbnail is %d by %d, %v", m.Width, m.Height, err)
	}
	if !bytes.Contains(cut.Facts, []byte(`"width":800,"height":600`)) {
		t.Errorf("facts %s", cut.Facts)
	}
	for name, tt := range map[string]struct{ declared, allowed engagement.EgressSet }{
		"a picture of rows":    {engagement.EgressOf(engagement.RowLevel), strict},
		"rendered pixels stay": {engagement.EgressOf(engagement.RawPixels), engagement.EgressOf(engagement.Metadata)},
	} {
		if cut := Downgrade(result, found, nil, tt.declared, tt.allowed); len(cut.Blocks) != 0 {
			t.Errorf("%s: %d blocks leave", name, len(cut.Blocks))
		}
	}
	if cut := Downgrade(result, found, nil, engagement.EgressOf(engagement.Metadata), strict); len(cut.Blocks) != 2 {
		t.Errorf("the words beside it stay: %d blocks leave", len(cut.Blocks))
	}
}

// Whatever a result is made of and whatever is allowed, a part leaves only with
// all its classes, and no word of a part that stays leaves with the facts.
func TestNothingLeavesBeyondWhatIsAllowed(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 8))
	photo := base64.StdEncoding.EncodeToString(jpegOf(t, photograph(64, 48)))
	csv := customers(12)
	makers := []func() string{
		func() string { return `{"type":"text","text":"plain words"}` },
		func() string { return `{"type":"text","text":` + quote(csv) + `}` },
		func() string { return `{"type":"text","text":` + quote(asJSON(csv)) + `}` },
		func() string {
			return `{"type":"resource","resource":{"uri":"x://canary1","mimeType":"canary2","text":` + quote(csv) + `}}`
		},
		func() string { return `{"type":"image","mimeType":"image/jpeg","data":"` + photo + `"}` },
		func() string { return `{"type":"canary3","canary4":"canary5"}` },
		func() string {
			return `{"type":"resource_link","uri":"x://y","name":"link","description":` + quote(csv) + `}`
		},
	}
	for range 2000 {
		var blocks []string
		for range r.IntN(5) {
			blocks = append(blocks, makers[r.IntN(len(makers))]())
		}
		result := json.RawMessage(`{"content":[` + strings.Join(blocks, ",") + `],"isError":` + fmt.Sprint(r.IntN(2) == 0) + `}`)
		if r.IntN(2) == 0 {
			result, _ = strictjson.Set(result, "structuredContent", []byte(`{"x":`+asJSON(csv)+`}`))
		}
		declared, allowed := engagement.EgressSet(r.IntN(32)), engagement.EgressSet(r.IntN(32))
		cut := Downgrade(result, Inspect(result), Tables(result), declared, allowed)
		for _, b := range cut.Blocks {
			again := Inspect(json.RawMessage(`{"content":[` + string(b) + `]}`))
			// A thumbnail is what leaves of raw pixels where rendered ones may.
			classes := again.Classes.Union(declared)
			if allowed.Has(engagement.RenderedPixels) && len(again.Parts) == 1 && again.Parts[0].Kind == PartImage {
				classes = classes.Intersect(engagement.EgressOf(engagement.Metadata, engagement.Aggregates, engagement.RowLevel, engagement.RenderedPixels))
			}
			if !within(classes, allowed) {
				t.Fatalf("a block of %v leaves where %v may (declared %v): %.200s", again.Classes, allowed, declared, b)
			}
		}
		if cut.Structured != nil && (!allowed.Has(engagement.RowLevel) || !within(declared, allowed)) {
			t.Fatalf("rows leave as structured content where %v may", allowed)
		}
		noLeak(t, "facts", cut.Facts, 12)
		if !allowed.Has(engagement.Metadata) && string(cut.Facts) != "[]" {
			t.Fatalf("facts leave where %v may: %s", allowed, cut.Facts)
		}
	}
}

func TestPiecesAreTheContentAndCanBeReplaced(t *testing.T) {
	text := "a \"quoted\"\\ line\nwith ünïcödé 😀\tand <tags>\x00"
	blob := noise(70_000)
	encoded := base64.StdEncoding.EncodeToString(blob)
	escaped := `"a \"quoted\"\\ line\nwith \u00fcn\u00efc\u00f6d\u00e9 \ud83d\ude00\tand <tags>\u0000"`
	result := json.RawMessage(`{"content":[{"type":"text","text":` + escaped + `},{"type":"resource","resource":{"uri":"a://b","mimeType":"application/x-thing","blob":"` + encoded +
		`"}},{"type":"audio","mimeType":"audio/wav","data":"` + strings.TrimRight(encoded, "=") + `"},{"type":"resource_link","uri":"c://d","name":"n"}],"structuredContent":{"n":12345678901234567890 },"isError":false}`)
	found := Inspect(result)
	want := []string{text, string(blob), string(blob), "", `{"n":12345678901234567890 }`}
	for i, p := range found.Parts {
		piece, ok := PieceOf(p)
		if ok != (want[i] != "") {
			t.Errorf("%s: a piece %v", p.Pointer, ok)
			continue
		}
		if !ok {
			continue
		}
		b, err := io.ReadAll(piece.Reader())
		if err != nil || string(b) != want[i] || piece.Len() < len(b) {
			t.Errorf("%s: %d bytes (said %d), %v, want %d", p.Pointer, len(b), piece.Len(), err, len(want[i]))
		}
		one, err := io.ReadAll(oneByte{piece.Reader()})
		if err != nil || string(one) != want[i] {
			t.Errorf("%s byte by byte: %d bytes, %v", p.Pointer, len(one), err)
		}
	}
	got, err := Replace(result, map[string][]json.RawMessage{"/content/1": {TextBlock("kept")}, "/content/2": nil, "/structuredContent": {TextBlock("kept too")}})
	wanted := `{"content":[{"type":"text","text":` + escaped + `},{"type":"text","text":"kept"},{"type":"resource_link","uri":"c://d","name":"n"},{"type":"text","text":"kept too"}],"isError":false}`
	if err != nil || string(got) != wanted {
		t.Errorf("replaced: %s, %v,\nwant %s", got, err, wanted)
	}
}

func TestTheWholeOfAResult(t *testing.T) {
	for result, want := range map[string]string{
		`{"content":[{"type":"text","text":"a\nb"}]}`:                         "a\nb",
		`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`: `{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`,
		`{"content":[],"structuredContent":{"a": 1}}`:                         `{"a": 1}`,
		`{"content":[{"type":"resource_link","uri":"a://b","name":"n"}]}`:     `{"content":[{"type":"resource_link","uri":"a://b","name":"n"}]}`,
		`no JSON`: `no JSON`,
	} {
		got, err := io.ReadAll(Whole(json.RawMessage(result), Inspect(json.RawMessage(result))).Reader())
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", result, got, err, want)
		}
	}
}

type oneByte struct{ r io.Reader }

func (o oneByte) Read(b []byte) (int, error) { return o.r.Read(b[:min(len(b), 1)]) }

func TestStubs(t *testing.T) {
	s := openShop(t, t.TempDir(), Options{})
	content := strings.Repeat("line of text\n", 1000)
	a := s.keep(t, content, Meta{Media: "text/plain", URI: "a://b"})
	stub, err := StubFor(a, strict, strings.NewReader(content), 100, 50)
	if err != nil || stub.Head != strings.Repeat("line of text\n", 7) || stub.Tail != strings.Repeat("line of text\n", 3) {
		t.Errorf("head %q, tail %q, %v", stub.Head, stub.Tail, err)
	}
	for _, want := range []string{a.ID, a.Digest, "12.7 KiB", `read_artifact {"artifact":"` + a.ID + `","bytes":{"from":91}}`} {
		if !strings.Contains(stub.Note, want) {
			t.Errorf("the note lacks %q: %s", want, stub.Note)
		}
	}
	if err := strictjson.Check(stub.Data); err != nil || !bytes.Contains(stub.Data, []byte(`"uri":"a://b"`)) {
		t.Errorf("data %s, %v", stub.Data, err)
	}
	one := strings.Repeat("€", 100)
	if stub, err := StubFor(s.keep(t, one, Meta{}), strict, strings.NewReader(one), 10, 10); err != nil || stub.Head != "€€€" || stub.Tail != "€€€" {
		t.Errorf("one line: head %q, tail %q, %v", stub.Head, stub.Tail, err)
	}
	blob := string(noise(500))
	if stub, err := StubFor(s.keep(t, blob, Meta{}), strict, strings.NewReader(blob), 10, 10); err != nil || stub.Head != "" || stub.Tail != "" {
		t.Errorf("a blob: head %q, tail %q, %v", stub.Head, stub.Tail, err)
	}
	rows := customers(50)
	w := s.keep(t, rows, Meta{Media: "text/csv canary1", URI: "crm://canary2", Withheld: true, Tables: TablesOf([]byte(rows))})
	for _, allowed := range []engagement.EgressSet{0, engagement.EgressOf(engagement.Metadata), strict, all} {
		stub, err := StubFor(w, allowed, strings.NewReader(rows), 1000, 1000)
		if err != nil || stub.Head != "" || stub.Tail != "" || !strings.Contains(stub.Note, w.ID) {
			t.Errorf("withheld: %+v, %v", stub, err)
		}
		noLeak(t, "a stub", append(stub.Data, stub.Note...), 50)
		if bytes.Contains(stub.Data, []byte(w.Digest)) != allowed.Has(engagement.Metadata) || bytes.Contains(stub.Data, []byte("stats")) != allowed.Has(engagement.Aggregates) {
			t.Errorf("where %v may leave: %s", allowed, stub.Data)
		}
	}
}

// A result passes with less than three times its size held beside it.
func TestMemoryOfALargeResult(t *testing.T) {
	s := openShop(t, t.TempDir(), Options{})
	text := strings.Repeat("He said \"no\", and then he left the room.\n", 10<<20/41)
	result := textResult(text)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	found := Inspect(result)
	piece, ok := PieceOf(found.Parts[0])
	if !ok {
		t.Fatal("no content")
	}
	a, err := s.Keep(t.Context(), piece.Reader(), Meta{Principal: "local", Media: piece.Media})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := StubFor(a, strict, nil, 0, 0); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 3*uint64(len(result)) {
		t.Errorf("%d bytes were allocated for a result of %d", grown, len(result))
	}
	if a.Size != int64(len(text)) {
		t.Errorf("kept %d bytes of %d", a.Size, len(text))
	}
}

// A content that is larger than what should be held is streamed, and one that
// does not fit is refused; the store lives on either way.
func TestALargeContentIsStreamed(t *testing.T) {
	const size = 200 << 20
	s := openShop(t, t.TempDir(), Options{Quota: 256 << 20})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	a, err := s.Keep(t.Context(), io.LimitReader(endless{}, size), Meta{Principal: "local"})
	if err != nil {
		t.Fatal(err)
	}
	last := s.read(t, a.ID, Query{Bytes: &Span{From: size - 3}})
	found := s.read(t, a.ID, Query{Match: "nowhere"})
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; a.Size != size || string(last.Body) != "xxx" || found.Total != 0 || grown > 16<<20 {
		t.Errorf("%d bytes kept, the last %q, %d allocated", a.Size, last.Body, grown)
	}
	if _, err := s.Keep(t.Context(), io.LimitReader(endless{}, size), Meta{Principal: "local"}); err == nil || !strings.Contains(err.Error(), "artifacts rm") {
		t.Errorf("a second one: %v", err)
	}
	if got := s.read(t, a.ID, Query{Max: 4}); string(got.Body) != "xxxx" {
		t.Errorf("afterwards %q", got.Body)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

func BenchmarkKeep10MB(b *testing.B) {
	s := openShop(b, b.TempDir(), Options{Quota: 1 << 40})
	result := textResult(strings.Repeat("a line of some text\n", 10<<20/20))
	b.SetBytes(int64(len(result)))
	b.ReportAllocs()
	for b.Loop() {
		piece, _ := PieceOf(Inspect(result).Parts[0])
		if _, err := s.Keep(b.Context(), piece.Reader(), Meta{Principal: "local"}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTables10kRows(b *testing.B) {
	result := textResult(asJSON(customers(10_000)))
	b.SetBytes(int64(len(result)))
	b.ReportAllocs()
	for b.Loop() {
		Tables(result)
	}
}
