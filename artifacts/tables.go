package artifacts

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"github.com/mcp-gate/mcp-gate/internal/lazy"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

const (
	maxTables  = 8  // of one result
	maxColumns = 64 // of one table
	maxJSONTry = 16 // values looked for between the words of a text
	maxLevels  = 48 // of arrays and objects around a table, each of which is read again
)

// A sheet is a table where it stands: its rows are read again each time.
type sheet struct {
	where  string // JSON pointer of the part of the result it stands in, "" for a text by itself
	format string // json, ndjson, csv, tsv, markdown, html
	names  []string
	each   func(see func(row []cell) bool)
}

// A cell is one field of a row.
type cell struct {
	kind cellKind
	text []byte // as written: raw JSON in sheets of JSON, else the field's text
	json bool
}

type cellKind uint8

const (
	cellNull cellKind = iota
	cellBool
	cellInteger
	cellNumber
	cellDate
	cellText
	cellJSON
)

func (k cellKind) String() string {
	return [...]string{"null", "boolean", "integer", "number", "date", "text", "json"}[k]
}

// finder collects the sheets of one value.
type finder struct {
	sheets []sheet
	at     string // the part at hand
	limit  int
	left   int // bytes that may still be decoded
}

func newFinder(size, limit int) *finder {
	return &finder{limit: limit, left: expansion*size + 1<<16}
}

func (f *finder) full() bool { return len(f.sheets) >= f.limit }

func (f *finder) add(s sheet) {
	if !f.full() && len(s.names) >= minFields {
		s.where = f.at
		f.sheets = append(f.sheets, s)
	}
}

// text finds the tables of a text.
func (f *finder) text(b []byte, layer int) {
	if f.left -= len(b); f.full() || layer > maxLayers || f.left < 0 {
		return
	}
	if wide, ok := fromUTF16(b); ok {
		b = wide
	}
	trimmed := bytes.TrimSpace(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")))
	before := len(f.sheets)
	switch {
	case len(trimmed) < 2*minRows:
		return
	case trimmed[0] == '{' || trimmed[0] == '[':
		values := leadingValues(trimmed)
		if len(values) == 1 && len(values[0]) == len(trimmed) {
			f.json(values[0], layer)
			return
		}
		if len(values) >= minRows {
			f.rowsOf(values, "ndjson")
		}
	}
	if len(f.sheets) == before {
		f.lines(b)
	}
	if len(f.sheets) == before {
		f.html(b)
	}
	if len(f.sheets) == before {
		f.between(b, layer)
	}
	if len(f.sheets) == before {
		f.base64(trimmed, layer)
	}
}

// base64 opens a text that is base64 as a whole, or the part behind a data:
// URI's comma.
func (f *finder) base64(b []byte, layer int) {
	if bytes.HasPrefix(b, []byte("data:")) {
		if i := bytes.IndexByte(b[:min(len(b), 128)], ','); i >= 0 {
			b = b[i+1:]
		}
	}
	if len(b) < minRun {
		return
	}
	if decoded, ok := fromBase64(b); ok && (isText(decoded) || bytes.HasPrefix(decoded, []byte("\xff\xfe"))) {
		f.text(decoded, layer+1)
	}
}

// leadingValues returns the JSON values that b begins with, apart by nothing
// but space.
func leadingValues(b []byte) [][]byte {
	var values [][]byte
	for {
		value, rest := first(b)
		if value == nil {
			return values
		}
		values, b = append(values, value), rest
	}
}

// between finds tables in JSON values that stand in a text.
func (f *finder) between(b []byte, layer int) {
	for tries, at := 0, 0; at < len(b) && tries < maxJSONTry && !f.full(); {
		i := bytes.IndexAny(b[at:], "{[")
		if i < 0 {
			return
		}
		at += i
		tries++
		value, _ := first(b[at:])
		if value == nil {
			at++
			continue
		}
		f.json(value, layer+1)
		at += len(value)
	}
}

// json finds the tables of a JSON value: arrays of objects or arrays, objects
// of such under keys, objects of columns. A table's cells are not looked into.
func (f *finder) json(b []byte, layer int) {
	if f.full() || len(b) == 0 || layer > maxLevels {
		return
	}
	switch b[0] {
	case '[':
		elements := elementsOf(b)
		if wideRows(elements) >= minRows {
			f.rowsOf(elements, "json")
			return
		}
		for _, e := range elements {
			f.json(e, layer+1)
		}
	case '{':
		names, values := membersOf(b)
		if f.keyed(names, values) || f.columns(names, values) {
			return
		}
		for _, v := range values {
			f.json(v, layer+1)
		}
	case '"':
		if len(b) >= minRun {
			f.text(strictjson.Unquote(nil, b), layer+1)
		}
	}
}

func elementsOf(checked []byte) [][]byte { return slices.Collect(strictjson.Elements(checked)) }

func membersOf(checked []byte) (names []string, values [][]byte) {
	eachMember(checked, func(name string, v []byte) { names, values = append(names, name), append(values, v) })
	return names, values
}

// wideRows counts the values of two or more fields.
func wideRows(values [][]byte) int {
	n := 0
	for _, v := range values {
		if fieldCount(v) >= minFields {
			n++
		}
	}
	return n
}

// fieldCount returns how many fields a value has, 2 for more.
func fieldCount(v []byte) int {
	if len(v) == 0 || v[0] != '{' && v[0] != '[' {
		return 0
	}
	n := 0
	if v[0] == '[' {
		for range strictjson.Elements(v) {
			if n++; n == minFields {
				break
			}
		}
		return n
	}
	for range strictjson.Walk(v) {
		if n++; n == minFields {
			break
		}
	}
	return n
}

// rowsOf makes a sheet of values that are objects or arrays.
func (f *finder) rowsOf(values [][]byte, format string) {
	s := sheet{format: format}
	seen := map[string]int{}
	width := 0
	for _, v := range values {
		switch {
		case v[0] == '{':
			names, _ := membersOf(v)
			for _, n := range names {
				if _, ok := seen[n]; !ok && len(s.names) < maxColumns {
					seen[n] = len(s.names)
					s.names = append(s.names, n)
				}
			}
		case v[0] == '[':
			width = max(width, min(len(elementsOf(v)), maxColumns))
		}
	}
	if len(s.names) > 0 {
		s.each = objectRows(values, seen, len(s.names))
	} else {
		s.each = arrayRows(values)
		s = withHeading(s, width)
	}
	f.add(s)
}

func objectRows(values [][]byte, at map[string]int, width int) func(func([]cell) bool) {
	return func(see func([]cell) bool) {
		row := make([]cell, width)
		for _, v := range values {
			if v[0] != '{' {
				continue
			}
			clear(row)
			eachMember(v, func(name string, value []byte) {
				if i, ok := at[name]; ok {
					row[i] = jsonCell(value)
				}
			})
			if !see(row) {
				return
			}
		}
	}
}

func arrayRows(values [][]byte) func(func([]cell) bool) {
	return func(see func([]cell) bool) {
		var row []cell
		for _, v := range values {
			if v[0] != '[' {
				continue
			}
			row = row[:0]
			for value := range strictjson.Elements(v) {
				if len(row) < maxColumns {
					row = append(row, jsonCell(value))
				}
			}
			if !see(row) {
				return
			}
		}
	}
}

// keyed finds rows under keys: three or more members that are objects of the
// same names. The key is a column of its own.
func (f *finder) keyed(names []string, values [][]byte) bool {
	n := 0
	var first []string
	for _, v := range values {
		if len(v) == 0 || v[0] != '{' || fieldCount(v) < minFields {
			continue
		}
		inner, _ := membersOf(v)
		if first == nil {
			first = inner
		}
		if sameNames(first, inner) {
			n++
		}
	}
	if n < minRows || isSchema(first) {
		return false
	}
	before := len(f.sheets)
	f.rowsOf(values, "json")
	if len(f.sheets) == before {
		return false
	}
	s := &f.sheets[before]
	inner := s.each
	s.names = append([]string{"(key)"}, s.names...)
	s.each = func(see func([]cell) bool) {
		keys := make([]string, 0, len(names))
		for i, v := range values {
			if v[0] == '{' {
				keys = append(keys, names[i])
			}
		}
		i := 0
		inner(func(row []cell) bool {
			key := cell{kind: cellText, text: jsonText(keys[i]), json: true}
			i++
			return see(append([]cell{key}, row...))
		})
	}
	return true
}

func sameNames(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	set := map[string]bool{}
	for _, n := range a {
		set[n] = true
	}
	for _, n := range b {
		if !set[n] {
			return false
		}
	}
	return true
}

func isSchema(names []string) bool {
	typed := false
	for _, n := range names {
		if !schemaWords[n] {
			return false
		}
		typed = typed || n == "type" || n == "$ref"
	}
	return typed
}

// columns finds an object whose members are the columns of a table: arrays of
// one length.
func (f *finder) columns(names []string, values [][]byte) bool {
	var cols [][][]byte
	var heads []string
	for i, v := range values {
		if len(v) == 0 || v[0] != '[' {
			continue
		}
		column := elementsOf(v)
		if len(column) >= minRows && wideRows(column) == 0 && (len(cols) == 0 || len(column) == len(cols[0])) && len(cols) < maxColumns {
			cols, heads = append(cols, column), append(heads, names[i])
		}
	}
	if len(cols) < minFields {
		return false
	}
	f.add(sheet{format: "json", names: heads, each: func(see func([]cell) bool) {
		row := make([]cell, len(cols))
		for r := range cols[0] {
			for c := range cols {
				row[c] = jsonCell(cols[c][r])
			}
			if !see(row) {
				return
			}
		}
	}})
	return true
}

// lines finds tables of delimited lines.
func (f *finder) lines(b []byte) {
	for _, delim := range delimiters {
		before := len(f.sheets)
		for rest := b; !f.full(); {
			run, ok := findDelimited(rest, delim)
			if !ok {
				break
			}
			f.delimited(rest[run.start:run.end], run)
			rest = rest[run.end:]
		}
		if len(f.sheets) > before {
			return
		}
	}
}

func (f *finder) delimited(b []byte, run block) {
	s := sheet{format: map[byte]string{'\t': "tsv", '|': "markdown"}[run.delim]}
	if s.format == "" {
		s.format = "csv"
	}
	if run.delim == '|' {
		s.each = pipeRows(b)
	} else {
		s.each = csvRowsOf(b, run.delim)
	}
	if run.heading {
		s = headed(s)
	} else {
		s = withHeading(s, run.fields)
	}
	f.add(s)
}

func csvRowsOf(b []byte, delim byte) func(func([]cell) bool) {
	return func(see func([]cell) bool) {
		b := b
		if bytes.IndexByte(b, '\n') < 0 {
			b = bytes.ReplaceAll(b, []byte{'\r'}, []byte{'\n'})
		}
		r := csv.NewReader(bytes.NewReader(b))
		r.Comma, r.FieldsPerRecord, r.LazyQuotes, r.ReuseRecord, r.TrimLeadingSpace = rune(delim), -1, true, true, delim != '\t'
		var row []cell
		for {
			record, err := r.Read()
			var syntax *csv.ParseError
			if errors.As(err, &syntax) {
				continue
			}
			if err != nil {
				return
			}
			row = row[:0]
			for _, field := range record[:min(len(record), maxColumns)] {
				row = append(row, textCell([]byte(field)))
			}
			if !see(row) {
				return
			}
		}
	}
}

func pipeRows(b []byte) func(func([]cell) bool) {
	return func(see func([]cell) bool) {
		var row []cell
		for rest := b; len(rest) > 0; {
			var line []byte
			line, rest = cutLine(rest)
			line = bytes.TrimSpace(line)
			if len(line) == 0 || isRule(line) || bytes.IndexByte(line, '|') < 0 {
				continue
			}
			line = bytes.TrimSuffix(bytes.TrimPrefix(line, []byte{'|'}), []byte{'|'})
			row = row[:0]
			for _, field := range bytes.Split(line, []byte{'|'}) {
				if len(row) < maxColumns {
					row = append(row, textCell(bytes.TrimSpace(field)))
				}
			}
			if !see(row) {
				return
			}
		}
	}
}

// html finds the first table of markup.
func (f *finder) html(b []byte) {
	if !bytes.Contains(b, []byte("<td")) && !bytes.Contains(b, []byte("<TD")) {
		return
	}
	s := sheet{format: "html", each: htmlRows(b)}
	n, width, headings := 0, 0, false
	s.each(func(row []cell) bool {
		n++
		width = max(width, len(row))
		return true
	})
	headings = bytes.Contains(b, []byte("<th>")) || bytes.Contains(b, []byte("<th "))
	if n < minRows {
		return
	}
	if headings {
		s = headed(s)
	} else {
		s = withHeading(s, width)
	}
	f.add(s)
}

func htmlRows(b []byte) func(func([]cell) bool) {
	return func(see func([]cell) bool) {
		var row []cell
		rest, cellStart := b, -1
		for {
			t, next, ok := nextTag(rest)
			at := len(b) - len(next) // behind the tag
			isCell, isRow := t.name == "td" || t.name == "th", t.name == "tr"
			if cellStart >= 0 && (!ok || isCell || isRow) {
				end := max(cellStart, bytes.LastIndexByte(b[:max(at-1, 0)], '<'))
				if len(row) < maxColumns {
					row = append(row, textCell(bytes.TrimSpace(b[cellStart:end])))
				}
				cellStart = -1
			}
			if (isRow || !ok) && len(row) > 0 {
				if !see(row) {
					return
				}
				row = row[:0]
			}
			if !ok {
				return
			}
			if isCell && !t.end {
				cellStart = at
			}
			rest = next
		}
	}
}

// headed takes the first row for the names.
func headed(s sheet) sheet {
	inner := s.each
	inner(func(row []cell) bool {
		for _, c := range row {
			s.names = append(s.names, c.plain())
		}
		return false
	})
	s.each = func(see func([]cell) bool) {
		first := true
		inner(func(row []cell) bool {
			if first {
				first = false
				return true
			}
			return see(row)
		})
	}
	return s
}

// withHeading takes the first row for the names only where that is certain: a
// name taken for data is a nuisance, a record taken for names leaves the gate.
func withHeading(s sheet, width int) sheet {
	if provesHeading(s) {
		return headed(s)
	}
	for i := range width {
		s.names = append(s.names, "column "+strconv.Itoa(i+1))
	}
	return s
}

// nameShape is how columns are called; placeNames are the usual ones.
var (
	nameShape  = lazy.Regexp(`^[\pL_][\pL\pN_ .%#()/-]{0,39}$`)
	placeNames = lazy.Regexp(`(?i)(?:^|[_ .-])(id|uuid|key|name|title|email|mail|phone|date|time|at|timestamp|status|state|type|kind|count|total|amount|price|cost|qty|quantity|city|country|address|region|zip|code|value|score|rank|url|path|size|age|note|notes|description|label|labels|category|user|author|owner|role|currency|year|month|day|level|message|version|number|no|gender|sex)s?$`)
)

// provesHeading compares the first row with up to 100 others. Every field must
// have the shape of a name, and either a column whose other fields are all
// numbers, dates or yes and no has a word in it, or most are usual names.
func provesHeading(s sheet) bool {
	var first []cell
	var typed []bool
	n, usual := 0, 0
	s.each(func(row []cell) bool {
		if n == 0 {
			first = append(first, row...)
			for i := range first {
				first[i].text = bytes.Clone(first[i].text)
			}
			for range first {
				typed = append(typed, true)
			}
		} else {
			for i := range typed {
				if i >= len(row) || row[i].kind == cellText || row[i].kind == cellJSON {
					typed[i] = false
				}
			}
		}
		n++
		return n <= 100
	})
	seen := map[string]bool{}
	proof := false
	for i, c := range first {
		name := c.plain()
		if c.kind != cellText || !nameShape().MatchString(name) || seen[name] {
			return false
		}
		seen[name] = true
		proof = proof || typed[i] && n > 1
		if placeNames().MatchString(name) {
			usual++
		}
	}
	return len(first) > 0 && (proof || usual*2 > len(first))
}

// plain is what the cell says as text.
func (c cell) plain() string {
	if c.json && len(c.text) > 0 && c.text[0] == '"' {
		return unquoted(c.text)
	}
	return string(c.text)
}

func jsonText(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil { // strings always marshal
		return []byte(`""`)
	}
	return b
}

var (
	integerShape = lazy.Regexp(`^[+-]?(?:0|[1-9][0-9]{0,17})$`)
	numberShape  = lazy.Regexp(`^[+-]?(?:0|[1-9][0-9]{0,17})?(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?$`)
	dateShape    = lazy.Regexp(`^[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9:.]{5,15}(?:Z|[+-][0-9:]{4,6})?)?$`)
)

func jsonCell(v []byte) cell {
	c := cell{text: v, json: true, kind: cellText}
	switch v[0] {
	case 'n':
		c.kind = cellNull
	case 't', 'f':
		c.kind = cellBool
	case '{', '[':
		c.kind = cellJSON
	case '"':
		if len(v) <= 37 && dateShape().Match(v[1:len(v)-1]) {
			c.kind = cellDate
		}
	default:
		c.kind = cellNumber
		if integerShape().Match(v) {
			c.kind = cellInteger
		}
	}
	return c
}

func textCell(v []byte) cell {
	c := cell{text: v, kind: cellText}
	switch string(v) {
	case "", "null", "NULL", "None", `\N`, "NaN", "NA", "n/a":
		c.kind = cellNull
		return c
	case "true", "false", "True", "False", "TRUE", "FALSE":
		c.kind = cellBool
		return c
	}
	if len(v) > 40 {
		return c
	}
	switch head := v[0]; {
	case !isDigit(head) && head != '-' && head != '+' && head != '.':
	case integerShape().Match(v):
		c.kind = cellInteger
	case numberShape().Match(v):
		c.kind = cellNumber
	case dateShape().Match(v):
		c.kind = cellDate
	}
	return c
}
