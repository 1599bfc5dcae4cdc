package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// A stage is a gate in front of a server that says what the test writes down.
type stage struct {
	t    *testing.T
	home string
	dir  string // of what is said
}

// newStage makes one whose tool recite is declared to give no more than
// aggregates. Edit may change the server's entry and the configuration.
func newStage(t *testing.T, edit func(server, cfg map[string]any)) *stage {
	t.Helper()
	s := &stage{t: t, dir: t.TempDir()}
	server := s.server("aggregates")
	cfg := map[string]any{"servers": map[string]any{"crm": server}}
	if edit != nil {
		edit(server, cfg)
	}
	s.home = home(t, cfg)
	return s
}

func (s *stage) server(egress string) map[string]any {
	return map[string]any{"command": built.reciting, "args": []string{"-from", s.dir},
		"tools": map[string]any{"*": map[string]string{"permission": "read", "egress": egress}}}
}

// says writes down what the server answers under a name.
func (s *stage) says(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// A reply is a tool's result as a client reads it.
type reply struct {
	Content []struct {
		Type, Text, Data, MimeType string
		Resource                   struct{ URI, Text, Blob string }
	}
	StructuredContent json.RawMessage
	IsError           bool
	Meta              map[string]json.RawMessage `json:"_meta"`
}

func replyOf(t *testing.T, raw json.RawMessage) (r reply) {
	t.Helper()
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatalf("%v in %.300s", err, raw)
	}
	return r
}

func (r reply) text() string {
	var b strings.Builder
	for _, c := range r.Content {
		b.WriteString(c.Text + "\n")
	}
	return b.String()
}

// kept is the id of the first part of the type that a result says was kept.
func (r reply) kept(t *testing.T, media string) string {
	t.Helper()
	var list []struct{ Artifact, MimeType string }
	if err := json.Unmarshal(r.Meta["mcp-gate/artifacts"], &list); err != nil {
		t.Fatalf("nothing says that a part was kept: %.600s", r.text())
	}
	for _, a := range list {
		if a.MimeType == media {
			return a.Artifact
		}
	}
	t.Fatalf("no part of %s was kept: %v", media, list)
	return ""
}

// reassembled reads an artifact to its end by slices.
func (c *client) reassembled(id string) []byte {
	c.t.Helper()
	var whole []byte
	for {
		raw := c.meta("read_artifact", fmt.Sprintf(`{"artifact":%q,"bytes":{"from":%d},"max":1048576}`, id, len(whole)))
		r := replyOf(c.t, raw)
		var at struct{ From, To, Left int }
		if err := json.Unmarshal(r.Meta["mcp-gate/slice"], &at); err != nil || len(r.Content) != 2 || at.From != len(whole) {
			c.t.Fatalf("a slice from %d: %.300s", len(whole), raw)
		}
		part := []byte(r.Content[1].Text)
		if blob := r.Content[1].Resource.Blob; blob != "" {
			var err error
			if part, err = base64.StdEncoding.DecodeString(blob); err != nil {
				c.t.Fatal(err)
			}
		}
		if whole = append(whole, part...); at.Left == 0 {
			return whole
		}
	}
}

// meta calls one of the gate's own tools.
func (c *client) meta(tool, args string) json.RawMessage {
	c.t.Helper()
	return c.result(c.send("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, args)))
}

func quote(s string) string { return string(strictjson.AppendString(nil, s)) }

func textOf(s string) string { return `{"content":[{"type":"text","text":` + quote(s) + `}]}` }

// prose is so many bytes of lines that are no rows.
func prose(size int) []byte {
	r := rand.New(rand.NewPCG(3, 4))
	words := strings.Fields("the gate keeps what is large and hands it out in parts so that nothing is lost on the way to whoever asked for it, “quoted” or not")
	var b bytes.Buffer
	for b.Len() < size {
		for range 4 + r.IntN(9) {
			b.WriteString(words[r.IntN(len(words))] + " ")
		}
		b.WriteString("\n")
	}
	return b.Bytes()[:size:size]
}

// scan is a PNG of noise, which no compression makes smaller.
func scan(t *testing.T, size int) []byte {
	t.Helper()
	r := rand.New(rand.NewPCG(5, 6))
	side := int(math.Sqrt(float64(size) / 3))
	m := image.NewNRGBA(image.Rect(0, 0, side, side))
	for i := range m.Pix {
		m.Pix[i] = byte(r.Uint32())
		if i%4 == 3 {
			m.Pix[i] = 255
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Results of megabytes from servers that nobody here wrote come as stubs, and
// their slices put together are what the servers gave.
func TestLargeResultsOfRealServersComeInParts(t *testing.T) {
	files := t.TempDir()
	text, picture := prose(10_000_000), scan(t, 5_000_000)
	for name, b := range map[string][]byte{"long.txt": text, "scan.png": picture} {
		if err := os.WriteFile(filepath.Join(files, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	servers := map[string]any{}
	for alias, server := range five(t, files) {
		if alias == "filesystem" || alias == "everything" {
			server.(map[string]any)["egress"] = []string{"metadata", "aggregates", "row_level", "rendered_pixels", "raw_pixels"}
			server.(map[string]any)["tools"] = map[string]any{"gzip-*": map[string]string{"permission": "read"}}
			servers[alias] = server
		}
	}
	c := gate(t, home(t, map[string]any{"servers": servers}))
	data := "data:image/png;base64," + base64.StdEncoding.EncodeToString(picture)
	for _, tt := range []struct {
		name, tool, args string
		want             []byte
		media            string
	}{
		{"a file of text", "filesystem/read_text_file", fmt.Sprintf(`{"path":%q}`, filepath.Join(files, "long.txt")), text, "text/plain"},
		{"a picture", "filesystem/read_media_file", fmt.Sprintf(`{"path":%q}`, filepath.Join(files, "scan.png")), picture, "image/png"},
		{"an echo", "everything/echo", `{"message":` + quote(string(text)) + `}`, append([]byte("Echo: "), text...), "text/plain"},
		{"a blob", "everything/gzip-file-as-resource", fmt.Sprintf(`{"name":"a.gz","data":%q,"outputType":"resource"}`, data), picture, "application/gzip"},
	} {
		raw := c.ready(tt.tool, tt.args)
		if len(raw) > 100_000 {
			t.Errorf("%s comes as %d bytes: %.300s", tt.name, len(raw), raw)
			continue
		}
		got := c.reassembled(replyOf(t, raw).kept(t, tt.media))
		if tt.name == "a blob" {
			got = gunzipped(t, got)
		}
		if !bytes.Equal(got, tt.want) {
			t.Errorf("%s: %d bytes came together, want the %d that the server gave", tt.name, len(got), len(tt.want))
		}
	}
}

func gunzipped(t *testing.T, b []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// resident is the memory of a process in bytes, and the most since the last
// call; false where the system does not say.
func resident(pid int) (now, most int, ok bool) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, false
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
		switch name {
		case "VmHWM":
			most = n << 10
		case "VmRSS":
			now = n << 10
		}
	}
	return now, most, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0) == nil
}

// A result that is larger than a message may be is refused with what to do,
// without being held, and the gate and the server live on.
func TestAResultThatIsTooLargeCostsOneCall(t *testing.T) {
	s := newStage(t, nil)
	s.says("huge.size", "200000000")
	s.says("small.json", textOf("here"))
	c := gate(t, s.home)
	c.call("crm/recite", `{"name":"small"}`)
	_, _, told := resident(c.cmd.Process.Pid)
	m := c.answer(c.begin("crm/recite", `{"name":"huge"}`))
	if m.Error == nil || !strings.Contains(string(m.Error), "limit of 67108864 bytes") || !strings.Contains(string(m.Error), "smaller parts") {
		t.Errorf("200 MB give %.300s%s", m.Result, m.Error)
	}
	if _, most, ok := resident(c.cmd.Process.Pid); told && ok && most > 200_000_000 {
		t.Errorf("the gate took %d bytes of memory", most)
	}
	if got := c.call("crm/recite", `{"name":"small"}`); !strings.Contains(string(got), "here") {
		t.Errorf("afterwards %s", got)
	}
}

const customers = 10_000

// crm is the same customers in many forms, each a result.
func crm(t *testing.T) map[string]string {
	t.Helper()
	var csv, list strings.Builder
	csv.WriteString("id,name,plan,amount\n")
	list.WriteByte('[')
	for i := range customers {
		plan := []string{"free", "team", "enterprise"}[i%3]
		if i < 4 {
			plan = "founder"
		}
		fmt.Fprintf(&csv, "%d,Person%05d Doe,%s,%d\n", i+1, i, plan, i%100)
		if i > 0 {
			list.WriteByte(',')
		}
		fmt.Fprintf(&list, `{"id":%d,"name":"Person%05d Doe","plan":"%s","amount":%d}`, i+1, i, plan, i%100)
	}
	list.WriteByte(']')
	rows := list.String()
	return map[string]string{
		"JSON text":          textOf(rows),
		"structured content": `{"content":[],"structuredContent":{"customers":` + rows + `}}`,
		"CSV in a file":      `{"content":[{"type":"resource","resource":{"uri":"crm://all.csv","mimeType":"text/csv","text":` + quote(csv.String()) + `}}]}`,
		"base64 in a field":  textOf(`{"ok":true,"data":"` + base64.StdEncoding.EncodeToString([]byte(rows)) + `"}`),
	}
}

// photograph is a JPEG of a smooth scene with a sensor's noise.
func photograph(t *testing.T) string {
	t.Helper()
	noise := rand.New(rand.NewPCG(1, 2))
	m := image.NewRGBA(image.Rect(0, 0, 400, 300))
	for y := range 300 {
		for x := range 400 {
			v := 128 + 90*math.Sin(float64(x)/31)*math.Cos(float64(y)/23)
			n := func() uint8 { return uint8(max(0, min(255, v+noise.NormFloat64()*4))) }
			m.Set(x, y, color.RGBA{n(), n(), n(), 255})
		}
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, m, nil); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// leaked matches what no client may hear of the customers: their names, as they
// are, in base64 at any offset, and in hexadecimal.
var leaked = regexp.MustCompile(`Person\d|UGVyc29u|BlcnNvb|QZXJzb2|706572736f6e|506572736f6e`)

func (c *client) checkNoLeak(what string) {
	c.t.Helper()
	heard := c.heard.String()
	if at := leaked.FindStringIndex(heard); at != nil {
		c.t.Fatalf("%s reaches the client: %.200s", what, heard[max(0, at[0]-80):])
	}
}

func TestNoCustomerReachesAClientUnlessTheyMay(t *testing.T) {
	photo := photograph(t)
	results := crm(t)
	for name, result := range map[string]string{
		"a photograph":             `{"content":[{"type":"image","mimeType":"image/png","data":"` + photo + `"}]}`,
		"a photograph as a blob":   `{"content":[{"type":"resource","resource":{"uri":"x://a","mimeType":"application/octet-stream","blob":"` + photo + `"}}]}`,
		"a photograph in a field":  textOf(`{"scan":"` + photo + `"}`),
		"a picture of the records": `{"content":[{"type":"image","mimeType":"image/jpeg","data":"` + photo + `"}]}`,
	} {
		results[name] = result
	}
	all := []string{"metadata", "aggregates", "row_level", "rendered_pixels", "raw_pixels"}
	for mode, edit := range map[string]func(server, cfg map[string]any){
		"block":     nil,
		"downgrade": func(server, _ map[string]any) { server["on_egress"] = "downgrade" },
		"allowed": func(server, cfg map[string]any) {
			server["egress"] = all
			cfg["artifacts"] = map[string]any{"inline_bytes": 16 << 20}
		},
	} {
		t.Run(mode, func(t *testing.T) {
			s := newStage(t, func(server, cfg map[string]any) {
				server["tools"].(map[string]any)["picture"] = map[string]string{"permission": "read", "egress": "row_level"}
				if edit != nil {
					edit(server, cfg)
				}
			})
			s.says("tools.json", `{"tools":[{"name":"recite","inputSchema":{"type":"object"}},{"name":"picture","inputSchema":{"type":"object"}}]}`)
			c := gate(t, s.home)
			for name, result := range results {
				s.says("said.json", result)
				tool := "crm/recite"
				if name == "a picture of the records" {
					tool = "crm/picture"
				}
				raw := c.call(tool, `{"name":"said"}`)
				if mode == "allowed" {
					if string(raw) != result {
						t.Errorf("%s: it may leave and is %.300s", name, raw)
					}
					continue
				}
				c.checkNoLeak(name)
				if strings.Contains(string(raw), photo[len(photo)/2:][:60]) {
					t.Errorf("%s reaches the client", name)
				}
				checkStaysBack(t, c, name, mode, raw)
			}
		})
	}
}

// checkStaysBack holds what a client gets in place of a result against what may
// leave of it.
func checkStaysBack(t *testing.T, c *client, name, mode string, raw json.RawMessage) {
	t.Helper()
	r := replyOf(t, raw)
	picture := strings.Contains(name, "p") && (strings.HasPrefix(name, "a p"))
	switch {
	case mode == "block" && name == "a picture of the records":
		if !strings.HasPrefix(r.text(), "refused [egress]") {
			t.Errorf("%s: %.300s", name, raw)
		}
		return
	case !strings.HasPrefix(r.text(), "ran, result withheld [egress]"):
		t.Errorf("%s: %.300s", name, raw)
		return
	}
	var kept struct{ Artifact string }
	if err := json.Unmarshal(r.Meta["mcp-gate/artifact"], &kept); err != nil {
		t.Fatalf("%s: nothing is kept: %.300s", name, raw)
	}
	said := r.text()
	if mode == "block" {
		said = replyOf(t, c.meta("read_artifact", fmt.Sprintf(`{"artifact":%q}`, kept.Artifact))).text()
	}
	for _, how := range []string{`"bytes":{"from":0}`, `"match":"Person"`, `"rows":{"from":1}`, `"query":"@"`, `"size":{"width":64}`} {
		slice := replyOf(t, c.meta("read_artifact", fmt.Sprintf(`{"artifact":%q,%s}`, kept.Artifact, how))).text()
		if !strings.HasPrefix(slice, "refused [egress]") {
			t.Errorf("%s by %s: %.300s", name, how, slice)
		}
	}
	c.checkNoLeak("a slice of " + name)
	if picture {
		return
	}
	for _, want := range []string{`"rows":10000`, `"mean":49.5`, `"value":"team","rows":3332`} {
		if !strings.Contains(said, want) {
			t.Errorf("%s: the aggregates lack %s: %.2000s", name, want, said)
		}
	}
	if strings.Contains(said, "founder") {
		t.Errorf("%s: a group of four is told", name)
	}
}

// forms are the customers' rows as texts.
func forms(n int) map[string]string {
	write := func(f func(i int, name, plan string) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(f(i+1, fmt.Sprintf("Person%05d Doe", i), []string{"free", "team", "enterprise"}[i*7%3]))
		}
		return b.String()
	}
	objects := "[" + strings.TrimSuffix(write(func(i int, name, plan string) string {
		return fmt.Sprintf(`{"id":%d,"name":%q,"plan":%q},`, i, name, plan)
	}), ",") + "]"
	csv := write(func(i int, name, plan string) string { return fmt.Sprintf("%d,%s,%s\n", i, name, plan) })
	column := func(f func(i int, name, plan string) string) string {
		return "[" + strings.TrimSuffix(write(f), ",") + "]"
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write([]byte(csv)) // into memory
	_ = z.Close()
	return map[string]string{
		"NDJSON":   write(func(i int, name, plan string) string { return fmt.Sprintf("{\"id\":%d,\"name\":%q}\n", i, name) }),
		"TSV":      strings.ReplaceAll(csv, ",", "\t"),
		"Markdown": "| id | name | plan |\n|---|---|---|\n" + write(func(i int, name, plan string) string { return fmt.Sprintf("| %d | %s | %s |\n", i, name, plan) }),
		"HTML":     "<table>" + write(func(i int, name, plan string) string { return fmt.Sprintf("<tr><td>%d</td><td>%s</td></tr>", i, name) }) + "</table>",
		"XML": "<all>" + write(func(i int, name, plan string) string {
			return fmt.Sprintf("<c><id>%d</id><name>%s</name></c>", i, name)
		}) + "</all>",
		"YAML": write(func(i int, name, plan string) string {
			return fmt.Sprintf("- id: %d\n  name: %s\n  plan: %s\n", i, name, plan)
		}),
		"fixed width": write(func(i int, name, plan string) string { return fmt.Sprintf("%-6d%-20s%-12s\n", i, name, plan) }),
		"columns":     `{"name":` + column(func(i int, name, plan string) string { return fmt.Sprintf("%q,", name) }) + `,"plan":` + column(func(i int, name, plan string) string { return fmt.Sprintf("%q,", plan) }) + `}`,
		"keyed by id": `{` + strings.TrimSuffix(write(func(i int, name, plan string) string {
			return fmt.Sprintf(`"%d":{"name":%q,"plan":%q},`, i, name, plan)
		}), ",") + `}`,
		"encoded twice": quote(quote(objects)),
		"gzip, base64":  base64.StdEncoding.EncodeToString(zipped.Bytes()),
		"a data: URI":   "data:text/csv;base64," + base64.StdEncoding.EncodeToString([]byte(csv)),
		"hexadecimal":   fmt.Sprintf("%x", csv),
		"sentences": write(func(i int, name, plan string) string {
			return fmt.Sprintf("Customer %d is %s on plan %s.\n", i, name, plan)
		}),
		"another sign":   strings.ReplaceAll(csv, ",", " ~ "),
		"literals":       write(func(i int, name, plan string) string { return fmt.Sprintf("Customer(id=%d, name=%s)\n", i, name) }),
		"bullets":        write(func(i int, name, plan string) string { return fmt.Sprintf("* %s (%s, %d)\n", name, plan, i) }),
		"names as keys":  `{` + strings.TrimSuffix(write(func(i int, name, plan string) string { return fmt.Sprintf("%q:%q,", name, plan) }), ",") + `}`,
		"JSON":           objects,
		"fields by turn": write(func(i int, name, plan string) string { return fmt.Sprintf("%d\n%s\n%s\n", i, name, plan) }),
	}
}

// Rows stay, whatever they are written as and whichever way they are sent.
func TestRowsStayWhicheverWayTheyAreSent(t *testing.T) {
	s := newStage(t, nil)
	open := newStage(t, func(server, _ map[string]any) { server["preset"] = "workbench" })
	c, free := gate(t, s.home), gate(t, open.home)
	for _, c := range []*client{c, free} {
		c.result(c.send("logging/setLevel", `{"level":"debug"}`))
	}
	carriers := map[string]func(text string) (file, content string){
		"a text": func(text string) (string, string) { return "said.json", textOf(text) },
		"a file": func(text string) (string, string) {
			return "said.json", `{"content":[{"type":"resource","resource":{"uri":"x://a","text":` + quote(text) + `}}]}`
		},
		"a blob": func(text string) (string, string) {
			return "said.json", `{"content":[{"type":"resource","resource":{"uri":"x://a","blob":"` + base64.StdEncoding.EncodeToString([]byte(text)) + `"}}]}`
		},
		"_meta": func(text string) (string, string) {
			return "said.json", `{"content":[],"_meta":{"x/y":` + quote(text) + `}}`
		},
		"a field": func(text string) (string, string) {
			return "said.json", `{"content":[],"structuredContent":{"out":` + quote(text) + `}}`
		},
		"a link": func(text string) (string, string) {
			return "said.json", `{"content":[{"type":"resource_link","uri":"x://a","name":"n","description":` + quote(text) + `}]}`
		},
		"an error result": func(text string) (string, string) { return "said.json", `{"isError":true,` + textOf(text)[1:] },
		"several blocks": func(text string) (string, string) {
			var blocks []string
			for len(text) > 0 {
				n := min(len(text), 40)
				blocks, text = append(blocks, `{"type":"text","text":`+quote(text[:n])+`}`), text[n:]
			}
			return "said.json", `{"content":[` + strings.Join(blocks, ",") + `]}`
		},
		"an error's message": func(text string) (string, string) {
			return "said.error", `{"code":-32000,"message":` + quote(text) + `}`
		},
		"an error's data": func(text string) (string, string) {
			return "said.error", `{"code":-32000,"message":"no","data":{"x":` + quote(text) + `}}`
		},
		"a log message": func(text string) (string, string) {
			return "said.before", `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":` + quote(text) + `}}`
		},
		"progress": func(text string) (string, string) {
			return "said.before", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"$token","progress":1,"message":` + quote(text) + `}}`
		},
		"a prompt": func(text string) (string, string) {
			return "prompt.json", `{"messages":[{"role":"user","content":{"type":"text","text":` + quote(text) + `}}]}`
		},
		"a resource": func(text string) (string, string) {
			return "resource.json", `{"contents":[{"uri":"recite:resource","text":` + quote(text) + `}]}`
		},
	}
	for form, text := range forms(60) {
		for carrier, write := range carriers {
			if carrier == "several blocks" && form == "gzip, base64" {
				continue // each block says nothing, and together they are bytes without a meaning
			}
			s.send(c, carrier, text, write)
			c.checkNoLeak(form + " in " + carrier)
			if form == "NDJSON" { // they do go that way, where they may
				before := len(free.heard.String())
				open.send(free, carrier, text, write)
				if !leaked.MatchString(free.heard.String()[before:]) {
					t.Errorf("%s: rows that may leave do not: %.300s", carrier, free.heard.String()[before:])
				}
			}
		}
	}
}

// send has the server send a text in a carrier.
func (s *stage) send(c *client, carrier, text string, write func(string) (string, string)) {
	s.t.Helper()
	file, content := write(text)
	if carrier == "progress" {
		content = strings.ReplaceAll(content, "\n", " ")
	}
	s.says(file, content)
	switch carrier {
	case "a prompt":
		c.answer(c.send("prompts/get", `{"name":"crm_recite","arguments":{"name":"prompt"}}`))
	case "a resource":
		c.answer(c.send("resources/read", `{"uri":"mcp-gate://crm/recite:resource"}`))
	default:
		c.answer(c.send("tools/call", `{"name":"call_tool","arguments":{"name":"crm/recite","arguments":{"name":"said"}},"_meta":{"progressToken":"p"}}`))
	}
	if err := os.Remove(filepath.Join(s.dir, file)); err != nil {
		s.t.Fatal(err)
	}
}

// While a large result passes, the memory of the gate grows by less than three
// times as much.
func TestMemoryWhileALargeResultPasses(t *testing.T) {
	for name, result := range map[string]string{
		"text":    textOf(string(prose(10_000_000))),
		"picture": `{"content":[{"type":"image","mimeType":"image/png","data":"` + base64.StdEncoding.EncodeToString(scan(t, 5_000_000)) + `"}]}`,
	} {
		s := newStage(t, func(server, _ map[string]any) {
			server["egress"] = []string{"metadata", "aggregates", "row_level", "rendered_pixels", "raw_pixels"}
		})
		s.says("small.json", textOf("here"))
		s.says("large.json", result)
		c := gate(t, s.home)
		c.call("crm/recite", `{"name":"small"}`)
		before, _, ok := resident(c.cmd.Process.Pid)
		if !ok {
			t.Log("this system does not say what memory a process has had")
			return
		}
		if raw := c.call("crm/recite", `{"name":"large"}`); !bytes.Contains(raw, []byte("mcp-gate/artifacts")) {
			t.Fatalf("%s is not kept: %.300s", name, raw)
		}
		_, most, _ := resident(c.cmd.Process.Pid)
		grown := float64(most-before) / float64(len(result))
		t.Logf("%s: from %d by %.2f times the %d bytes of the result", name, before, grown, len(result))
		if grown > 3 {
			t.Errorf("%s: the gate grew by %.2f times the result", name, grown)
		}
	}
}

// Words that are no rows leave as they came, under the default policy.
func TestOrdinaryWordsLeaveAsTheyCame(t *testing.T) {
	s := newStage(t, nil)
	c := gate(t, s.home)
	for name, text := range map[string]string{
		"a readme":      "# Tool\n\nA tool.\n\n| flag | meaning |\n|---|---|\n| -a | all of it |\n| -b | less |\n\nUse it well. It was made for a purpose, and it is still used for that.\n",
		"a directory":   "[FILE] README.md\n[DIR] src\n[DIR] docs\n[FILE] Makefile\n[FILE] go.mod\n[FILE] go.sum\n[DIR] testdata\n",
		"paths":         "src/main.go\nsrc/call.go\nsrc/list.go\ndocs/index.md\ndocs/more.md\ntestdata/a/b.txt\ntestdata/a/c.txt\n",
		"a tree":        ".\n├── src\n│   ├── a.go\n│   ├── b.go\n│   └── c.go\n└── docs\n    ├── d.md\n    └── e.md\n",
		"a program":     "package main\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\nfunc main() {\n\tname := os.Args[1]\n\tif name == \"\" {\n\t\tname = \"you\"\n\t}\n\tfmt.Println(\"hello\", name)\n}\n",
		"a script":      "import os\nimport sys\n\ndef main(path):\n    for name in sorted(os.listdir(path)):\n        print(name, file=sys.stderr)\n    return 0\n",
		"a setting":     "{\n  \"compilerOptions\": {\n    \"target\": \"es2022\",\n    \"strict\": true\n  },\n  \"include\": [\"src\", \"test\"]\n}",
		"a build":       "added 120 packages in 3s\n\n12 packages are looking for funding\n  run `npm fund` for details\n",
		"a summary":     "Revenue was 1,234 euros\nCosts were 2,345 euros\nProfit was 3,456 euros\n",
		"a note":        "Dear Ada,\n\nthank you for the note, it helped.\n\nBest regards,\nBen",
		"one object":    `{"id":42,"state":"open","url":"https://example.com/42","labels":["bug"]}`,
		"a page":        "<h1>Hello</h1><p>This is a page.</p><ul><li>one</li><li>two</li><li>three</li><li>four</li><li>five</li><li>six</li></ul>",
		"a status line": "On branch main\nYour branch is up to date with 'origin/main'.\n\nnothing to commit, working tree clean\n",
	} {
		result := textOf(text)
		s.says("said.json", result)
		if got := c.call("crm/recite", `{"name":"said"}`); string(got) != result {
			t.Errorf("%s leaves as %s", name, got)
		}
	}
}

// Reading what is private and then what strangers wrote makes sending ask, also
// after a restart.
func TestReadingAcrossServersMakesSendingAsk(t *testing.T) {
	notes, web, mail := &stage{t: t, dir: t.TempDir()}, &stage{t: t, dir: t.TempDir()}, &stage{t: t, dir: t.TempDir()}
	tool := func(s *stage, name string, class map[string]any) map[string]any {
		s.says("tools.json", fmt.Sprintf(`{"tools":[{"name":%q,"inputSchema":{"type":"object"}}]}`, name))
		s.says(name+".json", textOf("words"))
		entry := s.server("")
		entry["preset"], entry["tools"] = "workbench", map[string]any{name: class}
		return entry
	}
	dir := home(t, map[string]any{"taint": "ask", "servers": map[string]any{
		"notes": tool(notes, "read_note", map[string]any{"permission": "read", "egress": "row_level", "domains": []string{"memory"}}),
		"web":   tool(web, "fetch", map[string]any{"permission": "read", "egress": "metadata", "domains": []string{"web"}}),
		"mail":  tool(mail, "send", map[string]any{"permission": "reversible_write", "egress": "metadata", "domains": []string{"messaging"}}),
	}})
	sends := func(c *client) (asked bool) {
		t.Helper()
		id := c.begin("mail/send", `{}`)
		c.next("question or answer", func() bool { _, answered := c.waiting[id]; return answered || len(c.asks) > 0 })
		if asked = len(c.asks) > 0; asked {
			c.asks = nil
			c.write([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`))
			return true
		}
		if r := replyOf(t, c.answer(id).Result); r.IsError {
			t.Fatalf("sending gives %s", r.text())
		}
		return false
	}
	t.Setenv("CLAUDE_CODE_SESSION_ID", "one")
	c := gate(t, dir)
	c.call("notes/read_note", `{}`)
	c.call("web/fetch", `{}`)
	if !sends(c) {
		t.Error("sending runs after private and foreign reading")
	}
	if !sends(gate(t, dir)) {
		t.Error("after a restart it is forgotten")
	}
	for _, one := range []string{"notes/read_note", "web/fetch"} {
		t.Setenv("CLAUDE_CODE_SESSION_ID", "only "+one)
		c := gate(t, dir)
		c.call(one, `{}`)
		if sends(c) {
			t.Errorf("sending asks after %s alone", one)
		}
	}
}

// Whatever is wrong with an artifact's id, the answer is one and the same.
func TestOneAnswerForEveryIDThatLeadsNowhere(t *testing.T) {
	s := newStage(t, func(server, cfg map[string]any) {
		server["preset"] = "workbench"
		cfg["artifacts"] = map[string]any{"inline_bytes": 1000, "keep": "1s"}
	})
	s.says("long.json", textOf(string(prose(20_000))))
	mine, other := gate(t, s.home, "--client", "mine"), gate(t, s.home, "--client", "other")
	keep := func(c *client) string {
		return replyOf(t, c.call("crm/recite", `{"name":"long"}`)).kept(t, "text/plain")
	}
	ask := func(c *client, id string) string {
		return string(c.meta("read_artifact", `{"artifact":`+quote(id)+`}`))
	}
	id := keep(mine)
	want := ask(mine, "a_aaaaaaaaaaaaaaaaaaaaaaaaaa")
	if !strings.Contains(want, "refused [unknown]") {
		t.Fatalf("a forged id gives %s", want)
	}
	for name, bad := range map[string]string{
		"a path": "../../config.jsonc", "a path behind an id": id + "/../x", "an id in capitals": strings.ToUpper(id), "a short id": id[:10],
		"a digest": strings.Repeat("0", 64), "NUL": id + "\x00", "an id with a slash": "a_/" + id[3:], "spaces": " " + id,
	} {
		if got := ask(mine, bad); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := ask(other, keep(mine)); got != want {
		t.Errorf("somebody else's: %s", got)
	}
	deadline := time.Now().Add(time.Minute)
	for ask(mine, id) != want {
		if time.Now().After(deadline) {
			t.Fatal("an artifact that is kept for a second is there after a minute")
		}
	}
	uri := mine.answer(mine.send("resources/read", `{"uri":"artifact://`+id+`"}`))
	forged := mine.answer(mine.send("resources/read", `{"uri":"artifact://a_aaaaaaaaaaaaaaaaaaaaaaaaaa"}`))
	if strings.ReplaceAll(string(uri.Error), id, "") != strings.ReplaceAll(string(forged.Error), "a_aaaaaaaaaaaaaaaaaaaaaaaaaa", "") || forged.Error == nil {
		t.Errorf("as a resource: %s, forged %s", uri.Error, forged.Error)
	}
}

// Killed while it keeps a result, a gate leaves a home that opens clean, in
// which everything that can be read is right.
func TestKilledWhileAResultIsKept(t *testing.T) {
	rounds := 8
	if soaking() {
		rounds = 200
	}
	s := newStage(t, func(server, cfg map[string]any) {
		server["preset"] = "workbench"
		cfg["artifacts"] = map[string]any{"inline_bytes": 1000, "max_bytes": 4 << 30}
	})
	text := prose(2_000_000)
	s.says("long.json", textOf(string(text)))
	r := rand.New(rand.NewPCG(11, 12))
	promised := map[string]bool{}
	for round := range rounds {
		c := gate(t, s.home)
		s.says("long.json", textOf(fmt.Sprintf("%06d", round)+string(text)))
		c.call("crm/recite", `{"name":"none"}`) // its server is up
		began := time.Now()
		promised[replyOf(t, c.call("crm/recite", `{"name":"long"}`)).kept(t, "text/plain")] = true
		took := time.Since(began)
		s.says("long.json", textOf(fmt.Sprintf("%06d", 999_999-round)+string(text)))
		c.begin("crm/recite", `{"name":"long"}`)
		<-time.After(time.Duration(r.Int64N(int64(took) * 5 / 4))) // anywhere in the call
		_ = c.cmd.Process.Kill()
		for range c.lines { // until its output has ended
		}
	}
	out, errs, code := command(t, s.home, "artifacts", "ls", "--json")
	var list struct {
		Artifacts []struct {
			ID   string
			Size int
		}
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 || errs != "" {
		t.Fatalf("artifacts ls: exit %d, %v, %s%.300s", code, err, errs, out)
	}
	c := gate(t, s.home)
	there := map[string]bool{}
	for _, a := range list.Artifacts {
		there[a.ID] = true
		if a.Size != len(text)+6 {
			t.Errorf("%s has %d bytes, want %d", a.ID, a.Size, len(text)+6)
		}
		if got := c.reassembled(a.ID); !bytes.Equal(got[6:], text) {
			t.Errorf("%s is not what a server gave", a.ID)
		}
	}
	for id := range promised {
		if !there[id] {
			t.Errorf("%s was given to the client and is not there", id)
		}
	}
	t.Logf("%d kills, %d kept, %d of which the client knew", rounds, len(there), len(promised))
}
