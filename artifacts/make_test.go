package artifacts

import (
	"encoding/ascii85"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"

	"github.com/mcp-gate/mcp-gate/engagement"
)

// people are rows of four fields: a number, a name of two words, a city of one
// or two, and an amount that comes back.
func people(n int) (rows [][4]string) {
	first := []string{"Ada", "Bertha", "Chandra", "Dilip", "Eun-ji", "Fatima", "Guo"}
	city := []string{"Oslo", "Rome", "New York", "Lima", "São Paulo"}
	for i := range n {
		rows = append(rows, [4]string{fmt.Sprint(i + 1), fmt.Sprintf("%s Canary%d", first[i%7], i), city[i%5], fmt.Sprint((i * 37) % 500)})
	}
	return rows
}

// join writes forty people by one pattern.
func join(f func(r [4]string) string) string {
	var b strings.Builder
	for _, r := range people(40) {
		b.WriteString(f(r))
	}
	return b.String()
}

// separated writes them as lines whose fields sep keeps apart.
func separated(sep string) string {
	return strings.Join([]string{"id", "name", "city", "amount"}, sep) + "\n" + join(func(r [4]string) string { return strings.Join(r[:], sep) + "\n" })
}

// groups cuts a text into parts of so many bytes.
func groups(s string, n int) (parts []string) {
	for ; len(s) > n; s = s[n:] {
		parts = append(parts, s[:n])
	}
	return append(parts, s)
}

func bytesOf(s string) (list []int) {
	for _, c := range []byte(s) {
		list = append(list, int(c))
	}
	return list
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Whatever keeps the fields of forty rows apart, they are rows.
func TestRowsOfAnyMakeAreFound(t *testing.T) {
	objs := "[" + strings.TrimSuffix(join(func(r [4]string) string {
		return fmt.Sprintf(`{"id":%s,"name":%q,"city":%q,"amount":%s},`, r[0], r[1], r[2], r[3])
	}), ",") + "]"
	csv := separated(",")
	csv64 := base64.StdEncoding.EncodeToString([]byte(csv))
	table := "<table>" + join(func(r [4]string) string {
		return fmt.Sprintf("<tr><td>%s</td><td>%s</td><td>%s</td></tr>", r[0], r[1], r[2])
	}) + "</table>"
	csv85 := make([]byte, ascii85.MaxEncodedLen(len(csv)))
	csv85 = csv85[:ascii85.Encode(csv85, []byte(csv))]
	var list any
	if err := json.Unmarshal([]byte(objs), &list); err != nil {
		t.Fatal(err)
	}
	pretty, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	shapes := map[string]string{
		"toml": join(func(r [4]string) string {
			return fmt.Sprintf("[[customer]]\nid = %s\nname = %q\ncity = %q\n\n", r[0], r[1], r[2])
		}),
		"js literal":        join(func(r [4]string) string { return fmt.Sprintf("{id: %s, name: '%s', city: '%s'},\n", r[0], r[1], r[2]) }),
		"java toString":     join(func(r [4]string) string { return fmt.Sprintf("Customer(id=%s, name=%s, city=%s)\n", r[0], r[1], r[2]) }),
		"java list":         "[" + join(func(r [4]string) string { return fmt.Sprintf("Customer{id=%s, name=%s, city=%s}, ", r[0], r[1], r[2]) }) + "]",
		"java list parens":  "[" + join(func(r [4]string) string { return fmt.Sprintf("Customer(id=%s, name=%s, city=%s), ", r[0], r[1], r[2]) }) + "]",
		"python namedtuple": "[" + join(func(r [4]string) string { return fmt.Sprintf("Row(id=%s, name='%s', city='%s'), ", r[0], r[1], r[2]) }) + "]",
		"go %+v":            "[" + join(func(r [4]string) string { return fmt.Sprintf("{ID:%s Name:%s City:%s} ", r[0], r[1], r[2]) }) + "]",
		"go map":            "[" + join(func(r [4]string) string { return fmt.Sprintf("map[city:%s id:%s name:%s] ", r[2], r[0], r[1]) }) + "]",
		"ruby":              "[" + join(func(r [4]string) string { return fmt.Sprintf("{:id=>%s, :name=>%q, :city=>%q}, ", r[0], r[1], r[2]) }) + "]",
		"ruby struct": join(func(r [4]string) string {
			return fmt.Sprintf("#<Customer id: %s, name: %q, city: %q>\n", r[0], r[1], r[2])
		}),
		"proto text": join(func(r [4]string) string {
			return fmt.Sprintf("customer {\n  id: %s\n  name: %q\n  city: %q\n}\n", r[0], r[1], r[2])
		}),
		"proto oneline": join(func(r [4]string) string {
			return fmt.Sprintf("customer { id: %s name: %q city: %q }\n", r[0], r[1], r[2])
		}),
		"vcard": join(func(r [4]string) string {
			return fmt.Sprintf("BEGIN:VCARD\nVERSION:3.0\nFN:%s\nADR:;;;%s;;;\nEND:VCARD\n", r[1], r[2])
		}),
		"ical": join(func(r [4]string) string {
			return fmt.Sprintf("BEGIN:VEVENT\r\nUID:%s\r\nSUMMARY:%s\r\nLOCATION:%s\r\nEND:VEVENT\r\n", r[0], r[1], r[2])
		}),
		"latex":      join(func(r [4]string) string { return strings.Join(r[:], " & ") + " \\\\\n" }),
		"org":        join(func(r [4]string) string { return "| " + strings.Join(r[:], " | ") + " |\n" }),
		"rst simple": "===  ===================  ==========\n" + join(func(r [4]string) string { return fmt.Sprintf("%-3s  %-19s  %-10s\n", r[0], r[1], r[2]) }) + "===  ===================  ==========\n",
		"sql inserts": join(func(r [4]string) string {
			return fmt.Sprintf("INSERT INTO customers VALUES (%s, '%s', '%s');\n", r[0], r[1], r[2])
		}),
		"sql update": join(func(r [4]string) string {
			return fmt.Sprintf("UPDATE customers SET name='%s', city='%s' WHERE id=%s;\n", r[1], r[2], r[0])
		}),
		"copy":       "COPY customers (id, name, city) FROM stdin;\n" + separated("\t") + "\\.\n",
		"lisp":       "(" + join(func(r [4]string) string { return fmt.Sprintf("(%s %q %q) ", r[0], r[1], r[2]) }) + ")",
		"lisp plist": "(" + join(func(r [4]string) string { return fmt.Sprintf("(:id %s :name %q :city %q)\n", r[0], r[1], r[2]) }) + ")",
		"edn":        "[" + join(func(r [4]string) string { return fmt.Sprintf("{:id %s :name %q :city %q} ", r[0], r[1], r[2]) }) + "]",
		"edn commas": "[" + join(func(r [4]string) string { return fmt.Sprintf("{:id %s, :name %q, :city %q} ", r[0], r[1], r[2]) }) + "]",
		"php print_r": "Array\n(\n" + join(func(r [4]string) string {
			return fmt.Sprintf("    [%s] => Array\n        (\n            [id] => %s\n            [name] => %s\n            [city] => %s\n        )\n\n", r[0], r[0], r[1], r[2])
		}) + ")\n",
		"php var_dump": join(func(r [4]string) string {
			return fmt.Sprintf("array(2) {\n  [\"id\"]=>\n  int(%s)\n  [\"name\"]=>\n  string(11) %q\n}\n", r[0], r[1])
		}),
		"perl dumper": "$VAR1 = [\n" + join(func(r [4]string) string {
			return fmt.Sprintf("  {\n    'id' => %s,\n    'name' => '%s'\n  },\n", r[0], r[1])
		}) + "];",
		"hl7": join(func(r [4]string) string {
			return fmt.Sprintf("PID|1||%s^^^A||%s||19700101|F\r", r[0], strings.ReplaceAll(r[1], " ", "^"))
		}),
		"fix": join(func(r [4]string) string { return fmt.Sprintf("8=FIX.4.4\x0135=D\x0149=%s\x0155=%s\x01\n", r[1], r[2]) }),
		"sse": join(func(r [4]string) string { return fmt.Sprintf("data: {\"id\":%s,\"name\":%q}\n\n", r[0], r[1]) }),
		"query strings": join(func(r [4]string) string {
			return fmt.Sprintf("id=%s&name=%s&city=%s\n", r[0], url.QueryEscape(r[1]), url.QueryEscape(r[2]))
		}),
		"entities":             html.EscapeString(table),
		"entities json":        html.EscapeString(objs),
		"quoted-printable csv": strings.NewReplacer("\n", "=0A", ",", "=2C").Replace(csv),
		"unicode escapes":      strings.NewReplacer("{", `\u007b`, "}", `\u007d`, "[", `\u005b`, "]", `\u005d`, ",", `\u002c`, "\"", `\u0022`, ":", `\u003a`).Replace(objs),
		"base32":               base32.StdEncoding.EncodeToString([]byte(csv)),
		"ascii85":              "<~" + string(csv85) + "~>",
		"html list":            "<ul>" + join(func(r [4]string) string { return fmt.Sprintf("<li><b>%s</b> <i>%s</i></li>", r[1], r[2]) }) + "</ul>",
		"html li plain":        "<ul>" + join(func(r [4]string) string { return fmt.Sprintf("<li>%s, %s, %s</li>", r[0], r[1], r[2]) }) + "</ul>",
		"html dl":              "<dl>" + join(func(r [4]string) string { return fmt.Sprintf("<dt>%s<dd>%s", r[1], r[2]) }) + "</dl>",
		"html dl closed":       "<dl>" + join(func(r [4]string) string { return fmt.Sprintf("<dt>%s</dt><dd>%s</dd>", r[1], r[2]) }) + "</dl>",
		"html br":              join(func(r [4]string) string { return strings.Join(r[:], ", ") + "<br>" }),
		"html table":           table,
		"html divs": join(func(r [4]string) string {
			return fmt.Sprintf("<div class=row><span>%s</span><span>%s</span></div>\n", r[0], r[1])
		}),
		"bullets parens": join(func(r [4]string) string { return fmt.Sprintf("* %s (%s, %s)\n", r[1], r[2], r[3]) }),
		"numbered":       join(func(r [4]string) string { return fmt.Sprintf("%s. %s — %s\n", r[0], r[1], r[2]) }),
		"numbered colon": join(func(r [4]string) string { return fmt.Sprintf("%s. %s: %s\n", r[0], r[1], r[3]) }),
		"name colon":     join(func(r [4]string) string { return fmt.Sprintf("%s: %s\n", r[1], r[3]) }),
		"name in city":   join(func(r [4]string) string { return fmt.Sprintf("%s in %s owes %s\n", r[1], r[2], r[3]) }),
		"sentences": join(func(r [4]string) string {
			return fmt.Sprintf("Customer %s is %s from %s and owes %s euros.\n", r[0], r[1], r[2], r[3])
		}),
		"sentences one line":      join(func(r [4]string) string { return fmt.Sprintf("Customer %s is %s from %s. ", r[0], r[1], r[2]) }),
		"diff of csv":             join(func(r [4]string) string { return "+" + strings.Join(r[:], ",") + "\n" }),
		"csv quoted by > ":        join(func(r [4]string) string { return "> " + strings.Join(r[:], ",") + "\n" }),
		"csv one line |":          strings.ReplaceAll(csv, "\n", " | "),
		"csv one line ;":          strings.ReplaceAll(csv, "\n", "; "),
		"csv lines sep u2028":     strings.ReplaceAll(csv, "\n", "\u2028"),
		"csv lines nel":           strings.ReplaceAll(csv, "\n", "\u0085"),
		"csv lines vt":            strings.ReplaceAll(csv, "\n", "\v"),
		"csv lines ff":            strings.ReplaceAll(csv, "\n", "\f"),
		"csv lines rs":            strings.ReplaceAll(csv, "\n", "\x1e"),
		"yaml list":               join(func(r [4]string) string { return fmt.Sprintf("- id: %s\n  name: %s\n  city: %s\n", r[0], r[1], r[2]) }),
		"yaml flow":               join(func(r [4]string) string { return fmt.Sprintf("- {id: %s, name: %s, city: %s}\n", r[0], r[1], r[2]) }),
		"yaml keyed":              join(func(r [4]string) string { return fmt.Sprintf("c%s:\n  name: %s\n  city: %s\n", r[0], r[1], r[2]) }),
		"yaml columns":            "name:\n" + join(func(r [4]string) string { return "- " + r[1] + "\n" }) + "city:\n" + join(func(r [4]string) string { return "- " + r[2] + "\n" }),
		"yaml lists of lists":     join(func(r [4]string) string { return fmt.Sprintf("- - %s\n  - %s\n  - %s\n", r[0], r[1], r[2]) }),
		"fixed":                   join(func(r [4]string) string { return fmt.Sprintf("%-5s%-20s%-12s%6s\n", r[0], r[1], r[2], r[3]) }),
		"fixed tight":             join(func(r [4]string) string { return fmt.Sprintf("%05s%-16s%-9s%06s\n", r[0], r[1], r[2], r[3]) }),
		"lines by turns":          join(func(r [4]string) string { return r[1] + "\n" + r[2] + "\n" + r[3] + "\n\n" }),
		"lines by turns no blank": join(func(r [4]string) string { return r[1] + "\n" + r[2] + "\n" + r[3] + "\n" }),
		"markdown":                "| id | name | city |\n|---|---|---|\n" + join(func(r [4]string) string { return "| " + strings.Join(r[:3], " | ") + " |\n" }),
		"xml":                     "<cs>" + join(func(r [4]string) string { return fmt.Sprintf("<c><id>%s</id><name>%s</name></c>", r[0], r[1]) }) + "</cs>",
		"xml attr":                "<cs>" + join(func(r [4]string) string { return fmt.Sprintf("<c id='%s' name='%s'/>", r[0], r[1]) }) + "</cs>",
		"xml one attr":            "<cs>" + join(func(r [4]string) string { return fmt.Sprintf("<c id='%s'>%s</c>", r[0], r[1]) }) + "</cs>",
		"xml cdata":               "<x><![CDATA[" + csv + "]]></x>",
		"json ld graph":           `{"data":{"customers":{"edges":[` + strings.TrimSuffix(join(func(r [4]string) string { return fmt.Sprintf(`{"node":{"id":%s,"name":%q}},`, r[0], r[1]) }), ",") + `]}}}`,
		"json one key nested":     `[` + strings.TrimSuffix(join(func(r [4]string) string { return fmt.Sprintf(`{"c":{"id":%s,"name":%q}},`, r[0], r[1]) }), ",") + `]`,
		"json names map":          `{` + strings.TrimSuffix(join(func(r [4]string) string { return fmt.Sprintf(`%q:%q,`, r[1], r[2]) }), ",") + `}`,
		"json names numbers":      `{` + strings.TrimSuffix(join(func(r [4]string) string { return fmt.Sprintf(`%q:%s,`, r[1], r[3]) }), ",") + `}`,
		"json strings":            `[` + strings.TrimSuffix(join(func(r [4]string) string { return quote(r[1]+" ("+r[2]+")") + "," }), ",") + `]`,
		"json flat":               `[` + strings.TrimSuffix(join(func(r [4]string) string { return fmt.Sprintf(`%s,%q,%q,`, r[0], r[1], r[2]) }), ",") + `]`,
		"json flat dict":          `{` + strings.TrimSuffix(join(func(r [4]string) string { return fmt.Sprintf(`"id_%s":%s,"name_%s":%q,`, r[0], r[0], r[0], r[1]) }), ",") + `}`,
		"json cells":              `{` + strings.TrimSuffix(join(func(r [4]string) string { return fmt.Sprintf(`"A%s":%s,"B%s":%q,`, r[0], r[0], r[0], r[1]) }), ",") + `}`,
		"json columns of objs":    `{"columns":[{"name":"id","values":[1,2,3,4,5,6]},{"name":"n","values":["Ada","Ben","Cleo","Dora","Eve","Finn"]}]}`,
		"json double":             quote(objs),
		"json triple":             quote(quote(objs)),
		"json objs pretty":        string(pretty),
		"ndjson":                  join(func(r [4]string) string { return fmt.Sprintf("{\"id\":%s,\"name\":%q}\n", r[0], r[1]) }),
		"json concat":             join(func(r [4]string) string { return fmt.Sprintf("{\"id\":%s,\"name\":%q}", r[0], r[1]) }),
		"json seq":                join(func(r [4]string) string { return fmt.Sprintf("\x1e{\"id\":%s,\"name\":%q}\n", r[0], r[1]) }),
		"json cut":                objs[:len(objs)-20],
		"json variable keys":      `[` + strings.TrimSuffix(join(func(r [4]string) string { return fmt.Sprintf(`{"id":%s,"f%s":%q},`, r[0], r[0], r[1]) }), ",") + `]`,
		"jsonp":                   "callback(" + objs + ");",
		"base64 split spaces":     strings.Join(groups(csv64, 8), " "),
		"base64 short lines":      strings.Join(groups(csv64, 20), "\n"),
		"base64 in json array":    encoded(t, groups(csv64, 60)),
		"hex spaced":              fmt.Sprintf("% x", csv),
		"hex upper":               fmt.Sprintf("%X", csv),
		"hexdump":                 hexdump(csv),
		"bytes array":             encoded(t, bytesOf(csv)),
		"buffer":                  encoded(t, map[string]any{"type": "Buffer", "data": bytesOf(csv)}),
		"percent":                 url.QueryEscape(csv),
		"percent path":            url.PathEscape(csv),
		"data uri":                "data:text/csv;base64," + csv64,
		"gzip base64":             base64.StdEncoding.EncodeToString(gzipped(csv)),
		"tsv":                     separated("\t"),
		"mbox": join(func(r [4]string) string {
			return fmt.Sprintf("From: %s <c%s@example.com>\nSubject: Order %s\n\nHello, I am in %s.\n\n", r[1], r[0], r[3], r[2])
		}),
		"checkbox": join(func(r [4]string) string { return fmt.Sprintf("- [ ] %s @ %s\n", r[1], r[2]) }),
		"links":    join(func(r [4]string) string { return fmt.Sprintf("- [%s](https://crm.example.com/c/%s)\n", r[1], r[0]) }),
		"phones":   join(func(r [4]string) string { return fmt.Sprintf("%s +47 555 01%s\n", r[1], r[3]) }),
		"csv spaced words": join(func(r [4]string) string {
			return fmt.Sprintf("%s lives in the city of %s, customer since %s, number %s\n", r[1], r[2], r[3], r[0])
		}),
		"mermaid": "erDiagram\n" + join(func(r [4]string) string { return fmt.Sprintf("  %s --> %s\n", r[0], r[1]) }),
		"dot":     "digraph {\n" + join(func(r [4]string) string { return fmt.Sprintf("  %q -> %q;\n", r[1], r[2]) }) + "}",
		"properties": join(func(r [4]string) string {
			return fmt.Sprintf("customer.%s.name=%s\ncustomer.%s.city=%s\n", r[0], r[1], r[0], r[2])
		}),
		"ini": join(func(r [4]string) string { return fmt.Sprintf("[%s]\nname=%s\ncity=%s\n\n", r[0], r[1], r[2]) }),
		"env": join(func(r [4]string) string { return fmt.Sprintf("NAME_%s=%q\nCITY_%s=%q\n", r[0], r[1], r[0], r[2]) }),
		"redis": join(func(r [4]string) string {
			return fmt.Sprintf("%s) 1) \"id\"\n    2) \"%s\"\n    3) \"name\"\n    4) %q\n", r[0], r[0], r[1])
		}),
		"mysql \\G": join(func(r [4]string) string {
			return fmt.Sprintf("*************************** %s. row ***************************\n  id: %s\nname: %s\ncity: %s\n", r[0], r[0], r[1], r[2])
		}),
		"powershell": join(func(r [4]string) string { return fmt.Sprintf("Id   : %s\nName : %s\nCity : %s\n\n", r[0], r[1], r[2]) }),
		"mongo shell": join(func(r [4]string) string {
			return fmt.Sprintf("{ _id: ObjectId(\"65f%021s\"), name: '%s', city: '%s' }\n", r[0], r[1], r[2])
		}),
		"cypher": join(func(r [4]string) string { return fmt.Sprintf("(:Customer {id: %s, name: %q})\n", r[0], r[1]) }),
		"turtle": join(func(r [4]string) string {
			return fmt.Sprintf("<urn:c%s> <urn:name> %q .\n<urn:c%s> <urn:city> %q .\n", r[0], r[1], r[0], r[2])
		}),
		"gherkin": join(func(r [4]string) string { return fmt.Sprintf("      | %s | %s |\n", r[0], r[1]) }),
		"influx": join(func(r [4]string) string {
			return fmt.Sprintf("customer,city=%s name=%q 16%018s\n", strings.ReplaceAll(r[2], " ", "\\ "), r[1], r[0])
		}),
		"prom": join(func(r [4]string) string {
			return fmt.Sprintf("customer_amount{name=%q,city=%q} %s\n", r[1], r[2], r[3])
		}),
		"logfmt":             join(func(r [4]string) string { return fmt.Sprintf("level=info id=%s name=%q city=%q\n", r[0], r[1], r[2]) }),
		"semicolon one line": join(func(r [4]string) string { return r[1] + "," + r[2] + ";" }),
		"pairs one line":     join(func(r [4]string) string { return r[1] + ": " + r[2] + "; " }),
		"tuples one line":    join(func(r [4]string) string { return "(" + r[1] + ", " + r[2] + ") " }),
		"csv zero width":     strings.ReplaceAll(csv, ",", ",\u200b"),
		"csv homoglyph":      strings.ReplaceAll(csv, ",", "‚"),
		"bom csv":            "\ufeff" + csv,
		"ansi csv": join(func(r [4]string) string {
			return "\x1b[32m" + r[0] + "\x1b[0m,\x1b[1m" + r[1] + "\x1b[0m," + r[2] + "\n"
		}),
		"ansi aligned": join(func(r [4]string) string {
			return fmt.Sprintf("\x1b[32m%-5s\x1b[0m \x1b[1m%-20s\x1b[0m %s\n", r[0], r[1], r[2])
		}),
		"two rows a line": strings.ReplaceAll(csv, "\n1", ",1"),
	}
	for _, sep := range []string{"^", "~", "¦", "\x1f", "\x01", "||", "::", " ; ", "#", "$", "/", " / ", " · ", " • ", "，", "، ", "\u00a0", "\u2003", "\u2192", "@", "!", "*", "=", "+", "_", "、", "\x00", " │ ", " ║ "} {
		shapes["apart by "+sep] = separated(sep)
	}
	for name, text := range shapes {
		if got := Inspect(textResult(text)); !got.Classes.Has(engagement.RowLevel) {
			t.Errorf("%s: found %v, want row_level, in %.200q", name, got.Classes, text)
		}
	}
	var lines, cells []string
	for _, r := range people(40) {
		lines, cells = append(lines, `{"name":"`+r[1]+`","note":"`+strings.Repeat("x y ", 2000)+`"}`), append(cells, r[0], r[1], r[2])
	}
	for name, texts := range map[string][]string{
		"CSV cut into blocks": groups(csv, 10), "JSON cut into blocks": groups(objs, 20), "base64 cut into blocks": groups(csv64, 16),
		"a block each field": cells, "a block each large object": lines,
	} {
		if got := Inspect(textResult(texts...)); !got.Classes.Has(engagement.RowLevel) {
			t.Errorf("%s: found %v, want row_level", name, got.Classes)
		}
	}
}

func hexdump(s string) string {
	var b strings.Builder
	for i, part := range groups(s, 16) {
		fmt.Fprintf(&b, "%08x  % x  |%s|\n", i*16, part, strings.ReplaceAll(part, "\n", "."))
	}
	return b.String()
}

// A large table is found wherever its lines are looked at.
func TestALargeTableOfAnyMakeIsFound(t *testing.T) {
	var b strings.Builder
	for i := 0; b.Len() < 1<<20; i++ {
		fmt.Fprintf(&b, "Customer %d is Canary%d, born in %d.\n", i, i*7919%10007, 1950+i%50)
	}
	if got := Inspect(textResult(b.String())); !got.Classes.Has(engagement.RowLevel) {
		t.Errorf("found %v, want row_level", got.Classes)
	}
}

// What people read all day has lines that are alike and are no rows.
func TestOrdinaryTextsAreNoRows(t *testing.T) {
	for name, text := range map[string]string{
		"ls": "README.md\nsrc\ndocs\nMakefile\ngo.mod\n", "ls fs": "[FILE] README.md\n[DIR] src\n[DIR] docs\n[FILE] Makefile\n[FILE] go.mod\n",
		"tree":               ".\n├── src\n│   ├── a.go\n│   ├── b.go\n│   └── c.go\n└── docs\n    ├── d.md\n    └── e.md\n",
		"readme small table": "# Tool\n\nA tool.\n\n| flag | meaning |\n|---|---|\n| -a | all of it |\n| -b | less |\n\nUse it well.\n",

		"git oneline":  "1a2b3c4 Fix the login page\n2b3c4d5 Add search\n3c4d5e6 Remove the old code path for names\n",
		"test run":     "=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n--- PASS: TestB (0.01s)\nPASS\nok  \texample.com/a\t0.012s\n",
		"npm":          "added 120 packages in 3s\n\n12 packages are looking for funding\n  run `npm fund` for details\n",
		"grep":         "a.go:10:func main() {\nb.go:22:\tfmt.Println(x)\nc.go:7:import \"fmt\"\n",
		"status":       "On branch main\nChanges not staged for commit:\n\tmodified:   a.go\n\tmodified:   b.go\n\tmodified:   c.go\n",
		"weather":      "It is 21 °C in Oslo, sunny, wind 3 m/s from the north-west. Tomorrow 19 °C.",
		"recipe":       "Ingredients:\n- 2 eggs\n- 200 g flour\n- 1 pinch of salt\n\nMix, rest for 20 minutes, bake.\n",
		"steps":        "1. Open the file.\n2. Change the line.\n3. Save it.\n4. Run the tests.\n",
		"issue":        "Login fails on Safari\n\nSteps:\n1. open /login\n2. enter a password\n3. click\n\nExpected: a page. Actual: an error 500.\n",
		"changelog":    "## 1.2.0\n\n- Added: search by name\n- Fixed: login on Safari\n- Changed: the default is off\n\n## 1.1.0\n\n- Added: export\n",
		"dockerfile":   "FROM golang:1.26\nWORKDIR /src\nCOPY . .\nRUN go build -o /bin/x ./cmd/x\nCMD [\"/bin/x\"]\n",
		"yaml config":  "name: ci\non: [push]\njobs:\n  test:\n    runs-on: ubuntu-latest\n    steps:\n      - uses: actions/checkout@v4\n      - run: make test\n",
		"js imports":   "import a from './a';\nimport { b, c } from './b';\nimport d, { e } from './d';\nexport default a;\n",
		"json config":  "{\n  \"compilerOptions\": {\n    \"target\": \"es2022\",\n    \"module\": \"nodenext\",\n    \"strict\": true\n  },\n  \"include\": [\"src\", \"test\"]\n}",
		"package deps": "{\"name\":\"x\",\"dependencies\":{\"a\":\"^1.0.0\",\"b\":\"^2.0.0\",\"c\":\"~3\",\"d\":\"*\"}}",
		"search":       "Found 3 results:\n\n1. How to bake bread – a long guide\n   https://example.com/bread\n2. Bread in an hour\n   https://example.com/hour\n3. Sourdough for beginners\n   https://example.com/sour\n",
		"log":          "2024-01-01T12:00:00Z INFO server started\n2024-01-01T12:00:01Z WARN disk is nearly full, 5% left\n2024-01-01T12:00:05Z INFO request done in 12 ms\n",
		"poem":         "The woods are lovely, dark and deep,\nBut I have promises to keep,\nAnd miles to go before I sleep,\nAnd miles to go before I sleep.\n",
		"dialog":       "Alice: Hello!\nBob: Hi, how are you?\nAlice: Fine, thanks.\nBob: Good.\nAlice: Bye.\n",

		"go code":     "type A struct {\n\tX int\n\tY int\n}\n\nvar list = []A{\n\t{1, 2},\n\t{3, 4},\n}\n\nfunc f(a, b int) (int, error) {\n\treturn a + b, nil\n}\n",
		"python code": "import os\n\ndef f(a, b):\n    x = {'a': 1, 'b': 2}\n    return [i for i in range(3)]\n\nfor i, j in zip(a, b):\n    print(i, j)\n",
		"css":         "a { color: red; margin: 0; }\nb { color: blue; margin: 1px; }\n",
		"addresses":   "Ada Lovelace\n12 Street\nLondon\n",
		"man":         "NAME\n       ls - list directory contents\n\nSYNOPSIS\n       ls [OPTION]... [FILE]...\n",
	} {
		if got := Inspect(textResult(text)); got.Classes != none {
			t.Errorf("%s: found %v, want nothing", name, got.Classes)
		}
	}
}
