package artifacts

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

var none engagement.EgressSet

func quote(s string) string { return string(strictjson.AppendString(nil, s)) }

// textResult is a result of text blocks.
func textResult(texts ...string) json.RawMessage {
	b := []byte(`{"content":[`)
	for i, t := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"type":"text","text":`+quote(t)+`}`...)
	}
	return append(b, `]}`...)
}

const (
	csvRows  = "id,name,city\n1,Ada,Oslo\n2,Ben,Rome\n3,Cleo,Lima\n"
	jsonRows = `[{"id":1,"name":"Ada"},{"id":2,"name":"Ben"},{"id":3,"name":"Cleo"}]`
)

func TestRecordsAreFoundInEveryEncoding(t *testing.T) {
	b64 := base64.StdEncoding.EncodeToString
	for name, text := range map[string]string{
		"JSON objects":                 jsonRows,
		"JSON arrays":                  `[[1,"Ada"],[2,"Ben"],[3,"Cleo"]]`,
		"JSON in a wrapper":            `{"count":3,"data":{"items":` + jsonRows + `}}`,
		"JSON in JSON":                 `{"result":` + quote(jsonRows) + `}`,
		"JSON in JSON in JSON":         `{"a":` + quote(`{"b":`+quote(jsonRows)+`}`) + `}`,
		"JSON after a sentence":        "Found these: " + jsonRows + " and no more.",
		"JSON in a fence":              "Result:\n```json\n" + jsonRows + "\n```\n",
		"rows under keys":              `{"u1":{"name":"Ada","city":"Oslo"},"u2":{"name":"Ben","city":"Rome"},"u3":{"name":"Cleo","city":"Lima"}}`,
		"rows under keys in a fence":   "here\n```\n" + `{"u1":{"name":"Ada","city":"Oslo"},"u2":{"city":"Rome","name":"Ben"},"u3":{"name":"Cleo","city":"Lima"}}` + "\n```",
		"columns":                      `{"name":["Ada","Ben","Cleo"],"city":["Oslo","Rome","Lima"]}`,
		"columns by row number":        `{"name":{"0":"Ada","1":"Ben","2":"Cleo"},"city":{"0":"Oslo","1":"Rome","2":"Lima"}}`,
		"short arrays under keys":      `{"u1":["Ada","Oslo"],"u2":["Ben","Rome"],"u3":["Cleo","Lima"]}`,
		"CSV lines in a JSON array":    `["1,Ada,Oslo","2,Ben,Rome","3,Cleo,Lima"]`,
		"objects in strings in JSON":   `["{\"a\":1,\"b\":2}","{\"a\":3,\"b\":4}","{\"a\":5,\"b\":6}"]`,
		"NDJSON":                       "{\"id\":1,\"n\":\"A\"}\n{\"id\":2,\"n\":\"B\"}\n{\"id\":3,\"n\":\"C\"}\n",
		"CSV":                          csvRows,
		"CSV, two columns, no head":    "1,Ada\n2,Ben\n3,Cleo",
		"CSV with spaces":              "Ada, 36\nBen, 41\nCleo, 29",
		"CSV with quotes":              "name,note\nAda,\"hi, there\"\nBen,\"a \"\"b\"\", c\"\nCleo,\"two\nlines\"\n",
		"CSV with CRLF":                "a,b\r\n1,2\r\n3,4\r\n5,6\r\n",
		"CSV with lone CR":             "a,b\r1,2\r3,4\r5,6\r",
		"CSV after prose":              "The export follows, as asked.\n\n" + csvRows + "\nDone.",
		"semicolons":                   "id;name\n1;Ada\n2;Ben\n3;Cleo",
		"TSV":                          "id\tname\n1\tAda\n2\tBen\n3\tCleo",
		"pipes of a database":          " id | name\n----+------\n  1 | Ada\n  2 | Ben\n  3 | Cleo\n(3 rows)",
		"a Markdown table":             "| id | name |\n|---|:--|\n| 1 | Ada |\n| 2 | Ben |\n| 3 | Cleo |\n",
		"a boxed table":                "+----+------+\n| id | name |\n+----+------+\n| 1 | Ada |\n| 2 | Ben |\n| 3 | Cleo |\n+----+------+",
		"an HTML table":                "<table><tr><th>id<th>name</tr><tr><td>1<td>Ada</tr><tr><td>2</td><td>Ben</td></tr><tr><td>3</td><td>Cleo</td></tr></table>",
		"an HTML table, ends left out": "<TABLE><TR><TD>1</TD><TD>Ada</TD></TR><TR><TD>2</TD><TD>B</TD></TR><TR><TD>3</TD><TD>C</TD></TR></TABLE>",
		"an HTML table without ends":   "<table><tr><td>Ada<td>Oslo\n<tr><td>Ben<td>Rome\n<tr><td>Cleo<td>Lima</table>",
		"XML elements":                 "<users><user><id>1</id><n>A</n></user><user><id>2</id><n>B</n></user><user><id>3</id><n>C</n></user></users>",
		"XML attributes":               `<users><user id="1" n="A"/><user id="2" n="B"/><user id="3" n="C"/></users>`,
		"XML attributes, spaced":       `<users><user id = '1' n = 'A'/><user id = '2' n = 'B'/><user id = '3' n = 'C'/></users>`,
		"Python dicts":                 `[{'id': 1, 'name': 'Ada'}, {'id': 2, 'name': "O'Neil"}, {'id': 3, 'name': None}]`,
		"Python tuples":                `[(1, 'Ada'), (2, 'Ben'), (3, 'Cleo')]`,
		"SQL values":                   "INSERT INTO users VALUES (1,'Ada'),(2,'Ben'),(3,'Cleo');",
		"tuples by line":               "(1, 'Ada')\n(2, 'Ben')\n(3, 'Cleo')",
		"aligned columns":              "ID   NAME   CITY\n1    Ada    Oslo\n2    Ben    Rome\n3    Cleo   Lima\n",
		"YAML":                         "- name: Ada\n  city: Oslo\n- name: Ben\n  city: Rome\n- name: Cleo\n  city: Lima\n",
		"blocks of pairs":              "Name: Ada\nCity: Oslo\n\nName: Ben\nCity: Rome\n\nName: Cleo\nCity: Lima\n",
		"a database's long form":       "-[ RECORD 1 ]\nid   | 1\nname | Ada\n-[ RECORD 2 ]\nid   | 2\nname | Ben\n-[ RECORD 3 ]\nid   | 3\nname | Cleo\n",
		"labelled fields":              "name: Ada, city: Oslo\nname: Ben, city: Rome\nname: Cleo, city: Lima\n",
		"accounts":                     "root:x:0:0:root\nada:x:1:1:Ada\nben:x:2:2:Ben\n",
		"LDIF":                         "dn: cn=Ada\nmail: a@example.com\n\ndn: cn=Ben\nmail: b@example.com\n\ndn: cn=Cleo\nmail: c@example.com\n",
		"sections":                     "[ada]\nmail=a\ncity=Oslo\n[ben]\nmail=b\ncity=Rome\n[cleo]\nmail=c\ncity=Lima\n",
		"titled blocks":                "## Ada\n**Mail:** a\n**City:** Oslo\n## Ben\n**Mail:** b\n**City:** Rome\n## Cleo\n**Mail:** c\n**City:** Lima\n",
		"nested bullets":               "- Ada\n  - mail: a\n  - city: Oslo\n- Ben\n  - mail: b\n  - city: Rome\n- Cleo\n  - mail: c\n  - city: Lima\n",
		"names and addresses":          "1. Ada L. <ada@example.com>\n2. Ben K. <ben@example.com>\n3. Cleo M. <cleo@example.org>\n",
		"dashes":                       "Ada - Oslo - 36\nBen - Rome - 41\nCleo - Lima - 29\n",
		"name=value":                   "id=1 name=Ada city=Oslo\nid=2 name=Ben city=Rome\nid=3 name=Cleo city=Lima\n",
		"words":                        "1 Ada Oslo\n2 Ben Rome\n3 Cleo Lima\n",
		"objects in a log":             "INFO got {\"id\":1,\"n\":\"A\"}\nINFO got {\"id\":2,\"n\":\"B\"}\nINFO got {\"id\":3,\"n\":\"C\"}\n",
		"a string's literal":           `'id,name\n1,Ada\n2,Ben\n3,Cleo\n'`,
		"percents":                     "id%2Cname%0A1%2CAda%0A2%2CBen%0A3%2CCleo",
		"base64 of CSV":                b64([]byte(csvRows)),
		"base64 in a field":            `{"export":"` + b64([]byte(jsonRows)) + `"}`,
		"base64 of base64":             `{"export":"` + b64([]byte(b64([]byte(jsonRows)))) + `"}`,
		"base64 in lines":              mime([]byte(strings.Repeat(csvRows, 8))),
		"base64 behind a name":         "export=" + b64([]byte(csvRows)),
		"base64 of a PDF, so called":   "a few words, then file=" + b64([]byte("%PDF-1.7\n"+strings.Repeat("x", 40))) + " and more",
		"base64 in lines, so called":   "export=" + mime([]byte(strings.Repeat(csvRows, 8))),
		"URL-safe base64":              base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat(csvRows+"?>~\n", 3))),
		"hexadecimal":                  fmt.Sprintf("%x", csvRows),
		"a data URI in base64":         "see data:text/csv;base64," + b64([]byte(csvRows)),
		"a data URI in percents":       "see data:text/csv,a%2Cb%0A1%2C2%0A3%2C4%0A5%2C6",
		"UTF-16 in base64":             b64(utf16le(csvRows)),
		"UTF-16 without a mark":        b64(utf16le(csvRows)[2:]),
		"gzip in base64":               b64(gzipped(csvRows)),
		"a PDF in base64":              `{"file":"` + b64([]byte("%PDF-1.7\n"+strings.Repeat("x", 40))) + `"}`,
		"addresses under names":        `{"Ann":"a@x","Ben":"b@x","Cleo":"c@x","Dan":"d@x","Eve":"e@x","Fay":"f@x"}`,
		"telephones under names":       `{"Ann":"+41 79 123 45 67","Ben":"+41 79 123 45 68","Cleo":"+41 79 123 45 69","Dan":"+1 (555) 010-9999","Eve":"+41 79 123 45 65","Fay":"+41 79 123 45 64"}`,
		"names and addresses by turns": `["Ann","ann@x.org","Ben","ben@y.org","Cleo","cleo@z.org"]`,
		"CSV in full width":            shifted(csvRows, 0xfee0),
		"commas in full width":         strings.ReplaceAll(csvRows, ",", "，"),
		"JSON in full width":           shifted(jsonRows, 0xfee0),
		"CSV in tags":                  shifted(csvRows, 0xe0000),
		"base64 with zero widths":      strings.Join(strings.Split(b64([]byte(csvRows)), ""), "\u200b"),
		"a large blob in base64":       `{"file":"` + b64(noise(2000)) + `"}`,
	} {
		for where, result := range map[string]json.RawMessage{
			"text":       textResult(text),
			"structured": json.RawMessage(`{"content":[],"structuredContent":{"out":` + quote(text) + `}}`),
			"_meta":      json.RawMessage(`{"content":[],"_meta":{"x":` + quote(text) + `}}`),
			"a link":     json.RawMessage(`{"content":[{"type":"resource_link","uri":"x://y","name":"n","description":` + quote(text) + `}]}`),
		} {
			if got := Inspect(result); !got.Classes.Has(engagement.RowLevel) || got.Partial {
				t.Errorf("%s in %s: found %v (partial %v), want row_level", name, where, got.Classes, got.Partial)
			}
		}
		if json.Valid([]byte(text)) {
			if got := Inspect(json.RawMessage(`{"content":[],"structuredContent":{"v":` + text + `}}`)); !got.Classes.Has(engagement.RowLevel) {
				t.Errorf("%s as structured content itself: found %v, want row_level", name, got.Classes)
			}
		}
	}
}

// shifted is text with its letters, digits and signs of ASCII moved in Unicode.
func shifted(text string, by rune) string {
	return strings.Map(func(r rune) rune {
		if r > ' ' && r < 0x7f {
			return r + by
		}
		return r
	}, text)
}

func TestARowBesideEachBlock(t *testing.T) {
	beside := func(member string, values ...string) json.RawMessage {
		var blocks []string
		for _, v := range values {
			blocks = append(blocks, `{"type":"text","text":"ok",`+quote(member)+`:`+v+`}`)
		}
		return json.RawMessage(`{"content":[` + strings.Join(blocks, ",") + `]}`)
	}
	for _, c := range []struct {
		what   string
		result json.RawMessage
		want   bool
	}{
		{"rows", beside("_meta", `{"name":"Ann","mail":"a@x"}`, `{"name":"Ben","mail":"b@x"}`, `{"name":"Cleo","mail":"c@x"}`), true},
		{"two of them", beside("_meta", `{"name":"Ann","mail":"a@x"}`, `{"name":"Ben","mail":"b@x"}`), false},
		{"one field", beside("_meta", `{"cache":"short"}`, `{"cache":"short"}`, `{"cache":"long"}`), false},
		{"annotations", beside("annotations", `{"audience":["user"],"priority":0.5}`, `{"audience":["user"],"priority":0.5}`, `{"audience":["user"],"priority":1}`), false},
	} {
		found := Inspect(c.result)
		if got := found.Classes.Has(engagement.RowLevel); got != c.want {
			t.Errorf("%s: rows %v, want %v", c.what, got, c.want)
		}
		for _, p := range found.Parts {
			if p.Classes.Has(engagement.RowLevel) != c.want {
				t.Errorf("%s: %s has %v", c.what, p.Pointer, p.Classes)
			}
		}
	}
}

func TestWhatIsNoTableIsNotTakenForOne(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":                   "",
		"a word":                    "ok",
		"an acknowledgement":        "Created issue #42 in acme/web: \"Login fails\".",
		"prose with commas":         "Well, the build is done,\nand, as you asked, the tests ran.\nNothing failed, so go on.\n",
		"a greeting":                "Dear Ada,\n\nthank you for the note, it helped.\n\nBest regards,\nBen",
		"a JSON object":             `{"id":42,"state":"open","url":"https://example.com/42","labels":["bug"]}`,
		"a pretty JSON object":      "{\n  \"id\": 42,\n  \"state\": \"open\",\n  \"a\": [1, 2],\n  \"b\": [3, 4, 5],\n  \"n\": 3\n}",
		"who did what in a commit":  `{"author":"a@x.org","committer":"b@x.org","reviewer":"c@x.org"}`,
		"versions of packages":      `{"a":"a@1.2.3","b":"b@4.0.1","c":"c@1.0.0","d":"d@2.1.0","e":"e@5.5.5","f":"f@0.1.0"}`,
		"prose in Chinese":          "今天早上，服务已经恢复，所有测试通过。\n如果还有问题，请联系我们，谢谢。\n明天下午，我们会更新文档，并通知大家。\n",
		"emoji that are joined":     "👩‍👩‍👧 👨‍👩‍👦 👩‍🔬 fine, 👩‍🚀 and, 👨‍🍳\nall of, 👩‍🎓 it, done\n",
		"two records":               `[{"id":1,"name":"Ada"},{"id":2,"name":"Ben"}]`,
		"a heading and two rows":    "| id | name |\n|---|---|\n| 1 | Ada |\n| 2 | Ben |\n",
		"a list of names":           `["ada","ben","cleo","dora"]`,
		"a list of single fields":   `[{"id":1},{"id":2},{"id":3},{"id":4}]`,
		"names by line":             "src/main.go\nsrc/call.go\nREADME.md\ndocs/index.md\n",
		"counts":                    "Total: 10, failed: 2\nPassed: 8, skipped: 0\nTime: 3 s, retries: 1\n",
		"sums with digits grouped":  "Revenue was 1,234 euros\nCosts were 2,345 euros\nProfit was 3,456 euros\n",
		"one record by line":        "Name: Ada\nCity: Oslo\nAge: 36\nState: active\n",
		"aligned names and values":  "Name:     Ada\nCity:     Oslo\nState:    active\n",
		"help of a command":         "  build      compile the packages named by the import paths\n  clean      remove object files and cached files\n  env        print information about the environment\n",
		"a JSON Schema":             `{"type":"object","properties":{"a":{"type":"string","description":"x"},"b":{"type":"string","description":"y"},"c":{"type":"integer","description":"z"}}}`,
		"code":                      "func main() {\n\tfmt.Println(\"a\", 1)\n\tx := f(1, g(2, 3), h(4, 5), i(6, 7))\n}\n",
		"Markdown":                  "# Title\n\n- one thing\n- another, longer thing\n- a third (see [here](https://example.com/a_b))\n\n> quoted\n",
		"a digest":                  "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		"a UUID and a token":        "request 550e8400-e29b-41d4-a716-446655440000, next eyJhbGciOiJub25lIn0abcdefghijklmnop",
		"a long path":               "/usr/local/share/some/very/long/path/that/goes/on/and/on/until/it/ends/somewhere",
		"a rule":                    strings.Repeat("-", 4000),
		"bases":                     strings.Repeat("GATTACA", 500),
		"emoji and languages":       "Fertig 🎉 – 完了しました، تم",
		"a short HTML page":         "<p>Hello <b>there</b></p><p>Bye</p>",
		"arguments of nested calls": "max(min(1, 2), min(3, 4), min(5, 6))",
		"a nested list":             `{"a":{"b":{"c":[1,2,3]}}}`,
		"steps that are done":       "Step 1 done\nStep 2 done\nStep 3 done\n",
		"a changelog":               "Added: search\nFixed: the login\nRemoved: old code\n\nThanks to all who helped with this release!\n",
		"notes in prose":            "Note: the cache is cold at first, so this takes a while.\nIt gets better.\n\nNote: nothing was deleted.\nYou can go on.\n",
		"a diff's summary":          "3 files changed, 10 insertions(+), 2 deletions(-)",
		"a status":                  "On branch main\nYour branch is up to date with 'origin/main'.\n\nnothing to commit, working tree clean\n",
		"questions":                 "What should the name be?\nWhere should it run?\nWho owns it?\n",
		"an error with a trace":     "Error: cannot open file\n    at open (file.js:10:5)\n    at main (main.js:3:1)\n",
		"settings":                  "name=web\nport=8080\nmode=fast\n",
		"a poem":                    "Roses are red,\nviolets are blue,\nsugar is sweet,\nand so are you.\n",
		"one address":               "Write to support@example.com for help.\nThe office is closed on Sundays.\nThank you.\n",
		"a trace of versions":       "go 1.26, linux/amd64",
	} {
		if got := Inspect(textResult(text)); got.Classes != none || got.Partial {
			t.Errorf("%s: found %v (partial %v), want nothing", name, got.Classes, got.Partial)
		}
	}
}

func TestEachPartHasItsClass(t *testing.T) {
	photo := base64.StdEncoding.EncodeToString(jpegOf(t, photograph(160, 120)))
	chart := base64.StdEncoding.EncodeToString(pngOf(t, drawnChart(320, 200)))
	rowsOnly, rawOnly := engagement.EgressOf(engagement.RowLevel), engagement.EgressOf(engagement.RawPixels)
	renderedOnly, both := engagement.EgressOf(engagement.RenderedPixels), engagement.EgressOf(engagement.RowLevel, engagement.RawPixels)
	for name, tt := range map[string]struct {
		block string
		want  engagement.EgressSet
		kind  PartKind
	}{
		"text":                           {`{"type":"text","text":"hi"}`, none, PartText},
		"a link":                         {`{"type":"resource_link","uri":"file:///a","name":"a"}`, none, PartLink},
		"an embedded text":               {`{"type":"resource","resource":{"uri":"a://b","text":"hi"}}`, rowsOnly, PartFile},
		"an embedded blob":               {`{"type":"resource","resource":{"uri":"a://b","blob":"AAEC/w=="}}`, rowsOnly, PartFile},
		"an embedded nothing":            {`{"type":"resource"}`, rowsOnly, PartFile},
		"a photograph":                   {`{"type":"image","mimeType":"image/jpeg","data":"` + photo + `"}`, rawOnly, PartImage},
		"a photograph called a chart":    {`{"type":"image","mimeType":"image/svg+xml","data":"` + photo + `"}`, rawOnly, PartImage},
		"a photograph as a blob":         {`{"type":"resource","resource":{"uri":"a://b","blob":"` + photo + `"}}`, rawOnly, PartFile},
		"a photograph in text":           {`{"type":"text","text":"{\"img\":\"` + photo + `\"}"}`, rawOnly, PartText},
		"a photograph in a data URI":     {`{"type":"text","text":"![x](data:image/jpeg;base64,` + photo + `)"}`, rawOnly, PartText},
		"a photograph behind a name":     {`{"type":"text","text":"photo=` + photo + `"}`, rawOnly, PartText},
		"a chart":                        {`{"type":"image","mimeType":"image/png","data":"` + chart + `"}`, renderedOnly, PartImage},
		"an image that is none":          {`{"type":"image","mimeType":"image/png","data":"aGVsbG8="}`, both, PartImage},
		"an image that is text":          {`{"type":"image","mimeType":"image/png","data":"hello, world!"}`, both, PartImage},
		"a PDF called an image":          {`{"type":"image","mimeType":"image/png","data":"` + base64.StdEncoding.EncodeToString([]byte("%PDF-1.4 x")) + `"}`, both, PartImage},
		"audio":                          {`{"type":"audio","mimeType":"audio/wav","data":"UklGRg=="}`, rawOnly, PartAudio},
		"an unknown type":                {`{"type":"hologram","data":"x"}`, rowsOnly, PartOther},
		"no type":                        {`{"text":"hi"}`, rowsOnly, PartOther},
		"a block that is no object":      {`"hi"`, rowsOnly, PartOther},
		"a text that is no string":       {`{"type":"text","text":{"a":1}}`, rowsOnly, PartText},
		"a text with a stray data field": {`{"type":"text","text":"hi","data":"` + photo + `"}`, rawOnly, PartText},
	} {
		got := Inspect(json.RawMessage(`{"content":[` + tt.block + `]}`))
		if got.Classes != tt.want || len(got.Parts) != 1 || got.Parts[0].Kind != tt.kind || got.Partial {
			t.Errorf("%s: found %v in %v (partial %v), want %v in one %v", name, got.Classes, got.Parts, got.Partial, tt.want, tt.kind)
		}
	}
}

// No member of a result is passed over, whatever the protocol has in its place,
// and no reader can find another text in a block than the one that was looked at.
func TestNoMemberIsPassedOver(t *testing.T) {
	for name, result := range map[string]string{
		"the flag":                  `{"content":[],"isError":` + jsonRows + `}`,
		"the type of the result":    `{"content":[],"resultType":` + quote(csvRows) + `}`,
		"a role":                    `{"messages":[{"role":` + quote(csvRows) + `,"content":{"type":"text","text":"x"}}]}`,
		"a link's media type":       `{"content":[{"type":"resource_link","uri":"x://y","name":"n","mimeType":` + quote(csvRows) + `}]}`,
		"a link's size":             `{"content":[{"type":"resource_link","uri":"x://y","name":"n","size":` + jsonRows + `}]}`,
		"a link's annotations":      `{"content":[{"type":"resource_link","uri":"x://y","name":"n","annotations":` + jsonRows + `}]}`,
		"a picture's media type":    `{"content":[{"type":"image","data":"","mimeType":` + quote(csvRows) + `}]}`,
		"the first text of two":     `{"content":[{"type":"text","text":` + quote(csvRows) + `,"text":"ok"}]}`,
		"the text of the two types": `{"content":[{"type":"text","type":"resource_link","text":"ok"}]}`,
		"names of members":          `{"content":[],"structuredContent":{"1,Ada,Oslo":true,"2,Ben,Rome":true,"3,Cleo,Lima":true}}`,
	} {
		if got := Inspect(json.RawMessage(result)); !got.Classes.Has(engagement.RowLevel) {
			t.Errorf("%s: found %v, want row_level", name, got.Classes)
		}
	}
	for name, result := range map[string]string{
		"flags and words":  `{"content":[{"type":"text","text":"ok","annotations":{"audience":["user"],"priority":1}}],"isError":false,"resultType":"complete"}`,
		"a link":           `{"content":[{"type":"resource_link","uri":"x://y","name":"n","mimeType":"text/csv","size":12,"annotations":{"audience":["user","assistant"],"priority":0.5,"lastModified":"2025-01-12T15:00:58Z"}}]}`,
		"a prompt":         `{"messages":[{"role":"assistant","content":{"type":"text","text":"x"}}]}`,
		"names of one row": `{"content":[],"structuredContent":{"a,b":1,"c,d,e":2}}`,
	} {
		if got := Inspect(json.RawMessage(result)); got.Classes.Has(engagement.RowLevel) {
			t.Errorf("%s: found %v", name, got.Classes)
		}
	}
}

func TestRowsInBlocksOfTheirOwnAreRows(t *testing.T) {
	for name, texts := range map[string][]string{
		"objects": {`{"id":1,"n":"A"}`, `{"id":2,"n":"B"}`, `{"id":3,"n":"C"}`},
		"lines":   {"1,Ada,Oslo", "2,Ben,Rome", "3,Cleo,Lima"},
	} {
		got := Inspect(textResult(texts...))
		if !got.Classes.Has(engagement.RowLevel) || !got.Parts[0].Classes.Has(engagement.RowLevel) {
			t.Errorf("%s: found %v, want row_level in the result and in its parts", name, got.Classes)
		}
	}
	if got := Inspect(textResult("one", "two, or so", "three.")); got.Classes != none {
		t.Errorf("three sentences: found %v", got.Classes)
	}
}

func TestOtherResultsAreLookedAtToo(t *testing.T) {
	for name, result := range map[string]string{
		"resources/read": `{"contents":[{"uri":"a://b","text":"hi"}]}`,
		"prompts/get":    `{"messages":[{"role":"user","content":{"type":"text","text":` + quote(csvRows) + `}}]}`,
		"an odd member":  `{"content":[],"rows":` + jsonRows + `}`,
	} {
		if got := Inspect(json.RawMessage(result)); !got.Classes.Has(engagement.RowLevel) {
			t.Errorf("%s: found %v, want row_level", name, got.Classes)
		}
	}
	if got := InspectValue(json.RawMessage(`{"error":` + jsonRows + `}`)); !got.Classes.Has(engagement.RowLevel) {
		t.Errorf("an error's data: found %v", got.Classes)
	}
}

func TestWhatCannotBeReadIsTakenForTheWorst(t *testing.T) {
	for name, result := range map[string]string{
		"nothing": ``, "no object": `[]`, "cut": `{"content":[{"type":"te`, "no JSON": `hello`, "a cut list": `{"content":[1,`,
		"deep": `{"content":[],"structuredContent":` + strings.Repeat(`{"a":`, 600) + `1` + strings.Repeat(`}`, 600) + `}`,
	} {
		got := Inspect(json.RawMessage(result))
		if !got.Partial || !got.Classes.Has(engagement.RowLevel) || !got.Classes.Has(engagement.RawPixels) {
			t.Errorf("%s: found %v (partial %v), want both raw-data classes", name, got.Classes, got.Partial)
		}
	}
}

func TestBlocksAndMembersOfTheProtocolSample(t *testing.T) {
	got := Inspect(json.RawMessage(`{"content":[{"type":"resource","resource":{"uri":"repo://a/readme.md","mimeType":"text/markdown","text":"# hi"}},{"type":"audio","data":"UklGRg==","mimeType":"audio/wav"}],"structuredContent":{"status":"available","count":3}}`))
	var kinds []string
	for _, p := range got.Parts {
		kinds = append(kinds, p.Pointer+" "+p.Kind.String()+" "+p.Classes.String())
	}
	want := "/content/0 file row_level; /content/1 audio raw_pixels; /structuredContent structured "
	if strings.Join(kinds, "; ") != want {
		t.Errorf("parts %q, want %q", strings.Join(kinds, "; "), want)
	}
}

// Nothing that is found in a part is missing from the whole, and rows put
// anywhere into a random value are found.
func TestFoundAnywhere(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	var wrap func(depth int, v string) string
	wrap = func(depth int, v string) string {
		if depth == 0 {
			return v
		}
		switch r.IntN(4) {
		case 0:
			return `{"k":` + wrap(depth-1, v) + `,"z":"` + strings.Repeat("w ", r.IntN(9)) + `"}`
		case 1:
			return `["a",` + wrap(depth-1, v) + `]`
		case 2:
			return `{"status":"ok","body":` + wrap(depth-1, v) + `}`
		}
		return `[` + wrap(depth-1, v) + `,null]`
	}
	for range 500 {
		value := wrap(r.IntN(6), jsonRows)
		switch r.IntN(3) {
		case 0:
			value = quote(value)
		case 1:
			value = `"` + base64.StdEncoding.EncodeToString([]byte(value)) + `"`
		}
		value = wrap(r.IntN(4), value)
		if got := Inspect(json.RawMessage(`{"content":[],"structuredContent":{"v":` + value + `}}`)); !got.Classes.Has(engagement.RowLevel) {
			t.Fatalf("no rows found in %s", value)
		}
	}
}

// What is built to be slow takes no more than a small multiple of what is not.
func TestTimeIsBounded(t *testing.T) {
	const size = 1 << 18
	for _, unit := range []string{
		"data:a/b,", "[", "{\"a\":", "[[1,", "<a", "<a><b>", "</x>", "\"", "\",", "\"\n", "['", "(\"", "a,\"b\n", "<!--", "<!-- --", "style=", "refused\n", "\x1b[", "\u200d", "eyJ",
		"A", "QUFB\n", "{\"a\":\"{\\\"a\\\":", "a:b\n", "- a: b\n", "a  b\n", "a|b", ";", "-----BEGIN PRIVATE KEY-----", "https://a:b", "sk-", "%2C", "<td>", "<tr><td", "mcp-gate/",
	} {
		text := strings.Repeat(unit, size/len(unit))
		begun := time.Now()
		Inspect(textResult(text))
		TablesOf([]byte(text))
		Redact(text)
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("%q repeated to 256 KiB takes %v", unit, took)
		}
	}
}

func FuzzInspect(f *testing.F) {
	for _, end := range []string{`"x"}]}`, `\q"}]}`, `\u000aa,b"}],"isError":false}`, "\n\"}]}", `"},{"type":"text","text":"}]}`} {
		f.Add([]byte(`{"content":[{"type":"text","text":"` + end))
	}
	f.Add([]byte(`{"content":[{"type":"text","text":"a,b\n1,2\n3,4\n5,6"}]}`))
	f.Add([]byte(`{"content":[{"type":"image","data":"iVBORw0KGgo=","mimeType":"image/png"}],"structuredContent":{"a":[[1,2],[3,4],[5,6]]}}`))
	f.Add([]byte(`{"contents":[{"uri":"x","blob":"AAEC"}],"messages":[{"role":"user","content":[1]}]}`))
	f.Add([]byte("\x1b[31m\u202e<table><tr><td>1</td></tr>"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got := Inspect(b)
		for _, p := range got.Parts {
			if p.Classes.Union(got.Classes) != got.Classes {
				t.Fatalf("part %s has %v, the whole only %v", p.Pointer, p.Classes, got.Classes)
			}
		}
		// The usual spelling of a result has a way of its own, with the same end.
		for _, usual := range [][]byte{b, textResult(string(b))} {
			if len(usual) == 0 || usual[0] != '{' {
				continue
			}
			short, long := Inspect(usual), Inspect(append([]byte{'{', ' '}, usual[1:]...))
			if short.Classes != long.Classes || short.Marks != long.Marks || short.Partial != long.Partial || len(short.Parts) != len(long.Parts) {
				t.Fatalf("spelt as usual %+v, with a space %+v", short, long)
			}
		}
		Sniff(b)
	})
}

func mime(b []byte) string {
	s := base64.StdEncoding.EncodeToString(b)
	var out strings.Builder
	for len(s) > 76 {
		out.WriteString(s[:76] + "\r\n")
		s = s[76:]
	}
	return out.String() + s
}

func utf16le(s string) []byte {
	b := []byte{0xff, 0xfe}
	for _, c := range []byte(s) {
		b = append(b, c, 0)
	}
	return b
}

func gzipped(s string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	fmt.Fprint(z, s)
	z.Close()
	return b.Bytes()
}

func noise(n int) []byte {
	r := rand.New(rand.NewPCG(3, 3))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.UintN(256))
	}
	return b
}

func BenchmarkInspectSmallText(b *testing.B) {
	result := textResult(strings.Repeat("The issue was closed by a merge. ", 6))
	b.SetBytes(int64(len(result)))
	b.ReportAllocs()
	for b.Loop() {
		Inspect(result)
	}
}

func BenchmarkInspectRestOfSmallText(b *testing.B) {
	result := textResult(strings.Repeat("The issue was closed by a merge. ", 6))
	b.SetBytes(int64(len(result)))
	b.ReportAllocs()
	for b.Loop() {
		InspectRest(result, rows)
	}
}

func BenchmarkInspect10MB(b *testing.B) {
	for name, line := range map[string]string{
		"prose":  "Well, this is a line of a longer text; it says (nearly) nothing at all.\n",
		"quoted": "He said \"no\" and\tleft.\nThen — after a while — \"yes\".\n",
		"lines":  "main.go\n",
	} {
		result := textResult(strings.Repeat(line, 10<<20/len(line)))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(result)))
			b.ReportAllocs()
			for b.Loop() {
				Inspect(result)
			}
		})
		b.Run(name+"-rest", func(b *testing.B) {
			b.SetBytes(int64(len(result)))
			for b.Loop() {
				InspectRest(result, rows)
			}
		})
	}
}

// What is settled spares the look for rows, and for nothing else.
func TestTheRestIsStillLookedFor(t *testing.T) {
	picture := base64.StdEncoding.EncodeToString(jpegOf(t, photograph(160, 120)))
	for _, text := range []string{`{"photo":"` + picture + `"}`, "id,name,city\n1,Ada,Bern\n2,Bo,Oslo\n3,Cy,Rome\n" + picture, "see " + picture, `note: {"a":{"photo":"` + picture + `"}} end`} {
		result := textResult(text)
		whole, rest := Inspect(result).Classes, InspectRest(result, rows).Classes
		if !whole.Has(engagement.RawPixels) || rest != whole.Union(rows) {
			t.Errorf("%.40s: whole %v, rest %v", text, whole, rest)
		}
	}
}
