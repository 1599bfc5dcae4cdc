package artifacts

import (
	"bytes"
	"cmp"
	"encoding/json"
	"hash/maphash"
	"math"
	"slices"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/lazy"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// minGroup is the fewest rows that a number or a value shown must stand for.
// Under it one row could be told from the others.
const minGroup = 5

const (
	maxFrequent  = 5       // values shown of a column
	maxValue     = 40      // runes of a value shown
	maxDistinct  = 1 << 18 // values counted, over all columns of a table
	maxCategory  = 20      // distinct values that any column may have and still be one of categories
	perCategory  = 20      // rows to a distinct value in a longer column of categories
	maxPlainID   = 1_000_000
	minNameShare = 10 // a name that fewer than one row in so many has is not shown
)

// A Table is what may be said about a table without its rows.
type Table struct {
	Where   string   `json:"where,omitempty"` // JSON pointer of the part of the result, "" for a text by itself
	Format  string   `json:"format"`          // json, ndjson, csv, tsv, markdown or html
	Rows    int64    `json:"rows"`
	Columns []Column `json:"columns"`
	More    int      `json:"more_columns,omitempty"` // whose names are rare or look like data
}

// A Column is one column. The fields behind Type are aggregates; Stats is nil
// where those may not leave or stand for fewer than five rows.
type Column struct {
	Name  string `json:"name"`
	Type  string `json:"type"` // integer, number, boolean, date, text, json, mixed, null
	Stats *Stats `json:"stats,omitempty"`
}

// Stats are the aggregates of a column. Numbers are there for numeric columns of
// five values or more that do not number persons or things; values are there
// for columns of categories.
type Stats struct {
	Count    int64    `json:"count"` // values that are not null
	Nulls    int64    `json:"nulls"`
	Distinct int64    `json:"distinct"`
	AtLeast  bool     `json:"distinct_at_least,omitempty"` // there were too many to count
	Min      *float64 `json:"min,omitempty"`
	Max      *float64 `json:"max,omitempty"`
	Mean     *float64 `json:"mean,omitempty"`
	Frequent []Group  `json:"frequent,omitempty"` // the most frequent first; each five rows or more
}

// A Group is a value and how many rows have it.
type Group struct {
	Value string `json:"value"`
	Rows  int64  `json:"rows"`
}

// Tables returns what may be said of the tables of a result, with aggregates.
// At most eight are described, each with at most 64 columns.
func Tables(result json.RawMessage) []Table {
	f := newFinder(len(result), maxTables)
	f.result(result)
	return f.facts()
}

// TablesOf is [Tables] for a text or JSON value by itself.
func TablesOf(text []byte) []Table {
	f := newFinder(len(text), maxTables)
	f.text(text, 0)
	return f.facts()
}

func (f *finder) facts() []Table {
	var tables []Table
	for _, s := range f.sheets {
		if t := describe(s); t.Rows > 0 {
			tables = append(tables, t)
		}
	}
	return tables
}

// Without returns the tables as far as the classes let them leave: nothing
// without metadata, names and types with it, and the rest with aggregates.
func Without(tables []Table, allowed engagement.EgressSet) []Table {
	if !allowed.Has(engagement.Metadata) {
		return nil
	}
	if allowed.Has(engagement.Aggregates) {
		return tables
	}
	bare := slices.Clone(tables)
	for i := range bare {
		bare[i].Columns = slices.Clone(bare[i].Columns)
		for j := range bare[i].Columns {
			bare[i].Columns[j].Stats = nil
		}
	}
	return bare
}

// counter is what is counted of one column.
type counter struct {
	present  int64 // rows that have the field at all, null or not
	nulls    int64
	kinds    [cellJSON + 1]int64
	sum      float64
	lost     float64 // what rounding took from sum (Kahan)
	min, max float64
	values   map[uint64]int64
	atLeast  bool
}

func describe(s sheet) Table {
	t := Table{Where: s.where, Format: s.format}
	counters := make([]counter, len(s.names))
	for i := range counters {
		counters[i] = counter{values: map[uint64]int64{}, min: math.Inf(1), max: math.Inf(-1)}
	}
	budget := maxDistinct
	s.each(func(row []cell) bool {
		t.Rows++
		for i := range counters {
			if i < len(row) {
				counters[i].see(row[i], &budget)
			} else {
				counters[i].nulls++
			}
		}
		return true
	})
	for i := range counters {
		c := &counters[i]
		name, ok := shownName(s.names[i])
		if !ok || s.format != "csv" && c.present*minNameShare < t.Rows {
			t.More++
			continue
		}
		column := Column{Name: name, Type: c.typ()}
		if t.Rows >= minGroup {
			column.Stats = c.stats(s.names[i], column.Type)
			if c.isCategories(column.Type) {
				column.Stats.Frequent = frequent(s, i, c.values)
			}
		}
		t.Columns = append(t.Columns, column)
	}
	return t
}

func (c *counter) see(v cell, budget *int) {
	if v.text != nil {
		c.present++
	}
	c.kinds[v.kind]++
	switch v.kind {
	case cellNull:
		c.nulls++
		return
	case cellInteger, cellNumber:
		if n, err := strconv.ParseFloat(string(v.text), 64); err == nil {
			c.min, c.max = min(c.min, n), max(c.max, n)
			y := n - c.lost
			sum := c.sum + y
			c.lost = (sum - c.sum) - y
			c.sum = sum
		}
	}
	key := maphash.Bytes(seed, v.text)
	if _, ok := c.values[key]; !ok {
		if *budget == 0 {
			c.atLeast = true
			return
		}
		*budget--
	}
	c.values[key]++
}

// typ names the one kind that all values have.
func (c *counter) typ() string {
	kind, kinds := cellNull, 0
	for k := cellBool; k <= cellJSON; k++ {
		if c.kinds[k] > 0 {
			kind, kinds = k, kinds+1
		}
	}
	switch {
	case kinds <= 1:
		return kind.String()
	case kinds == 2 && c.kinds[cellInteger] > 0 && c.kinds[cellNumber] > 0:
		return cellNumber.String()
	case c.kinds[cellText] > 0 && c.kinds[cellJSON] == 0:
		return cellText.String()
	}
	return "mixed"
}

func (c *counter) count() int64 {
	var n int64
	for k := cellBool; k <= cellJSON; k++ {
		n += c.kinds[k]
	}
	return n
}

func (c *counter) stats(name, typ string) *Stats {
	s := &Stats{Count: c.count(), Nulls: c.nulls, Distinct: int64(len(c.values)), AtLeast: c.atLeast}
	numeric := typ == "integer" || typ == "number"
	if numeric && s.Count >= minGroup && !c.identifies(name, typ) && !math.IsInf(c.sum, 0) && !math.IsNaN(c.sum) {
		low, high, mean := c.min, c.max, c.sum/float64(s.Count)
		s.Min, s.Max, s.Mean = &low, &high, &mean
	}
	return s
}

// identifierNames are names of columns whose numbers stand for a person or an
// account, of which the least and the greatest are one each.
var identifierNames = lazy.Regexp(`(?i)phone|mobile|fax|ssn|social|passport|iban|account|card|tax|national|licen[cs]e|patient|zip|postal|post_?code|latitude|longitude|^lat$|^l(on|ng)$`)

// identifies reports whether the numbers of a column name somebody or
// something: by its name, or because all are different and long.
func (c *counter) identifies(name, typ string) bool {
	if identifierNames().MatchString(name) {
		return true
	}
	distinct := !c.atLeast && int64(len(c.values)) == c.count() || c.atLeast
	return typ == "integer" && distinct && max(math.Abs(c.max), math.Abs(c.min)) >= maxPlainID
}

// isCategories reports whether a column's values are words that many rows share.
func (c *counter) isCategories(typ string) bool {
	n := int64(len(c.values))
	return (typ == "text" || typ == "boolean") && !c.atLeast && n > 0 && n <= max(maxCategory, c.count()/perCategory)
}

// frequent reads the rows again for the words of the most frequent values.
func frequent(s sheet, column int, values map[uint64]int64) []Group {
	type candidate struct {
		key  uint64
		rows int64
	}
	var most []candidate
	for key, n := range values {
		if n >= minGroup {
			most = append(most, candidate{key, n})
		}
	}
	if len(most) == 0 {
		return nil
	}
	words := map[uint64]string{}
	s.each(func(row []cell) bool {
		if column < len(row) && row[column].kind != cellNull {
			key := maphash.Bytes(seed, row[column].text)
			if _, ok := words[key]; !ok && values[key] >= minGroup {
				words[key] = row[column].plain()
			}
		}
		return len(words) < len(most)
	})
	slices.SortFunc(most, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.rows, a.rows), cmp.Compare(words[a.key], words[b.key]))
	})
	var groups []Group
	for _, c := range most {
		if word := words[c.key]; isCategory(word) && len(groups) < maxFrequent {
			groups = append(groups, Group{word, c.rows})
		}
	}
	return groups
}

// isCategory reports whether a value may be shown: short, and nothing that
// reaches or names one person or opens a door, however many rows repeat it.
func isCategory(s string) bool {
	if s == "" || utf8.RuneCountInString(s) > maxValue || looksPersonal(s) {
		return false
	}
	_, found := Redact(s)
	return len(found) == 0
}

// looksPersonal reports whether s could be an address, a number or a link of
// somebody.
func looksPersonal(s string) bool {
	digits := 0
	for _, r := range s {
		switch {
		case r == '@' || unicode.IsControl(r):
			return true
		case unicode.IsDigit(r):
			digits++
		}
	}
	return digits >= 6 || regexpURL().MatchString(s)
}

var regexpURL = lazy.Regexp(`(?i)^[a-z][a-z0-9+.-]*://`)

// shownName returns a column's name where it is one, and not data that stands
// where names do.
func shownName(name string) (string, bool) {
	if name == "" || utf8.RuneCountInString(name) > maxValue || looksPersonal(name) || !utf8.ValidString(name) {
		return "", false
	}
	_, found := Redact(name)
	return name, len(found) == 0
}

// result finds the tables of a result's parts.
func (f *finder) result(result json.RawMessage) {
	value, _ := first(result)
	eachMember(value, func(name string, value []byte) {
		switch {
		case (name == "content" || name == "contents") && value[0] == '[':
			var texts [][]byte
			for i, block := range elementsOf(value) {
				f.at = "/" + name + "/" + strconv.Itoa(i)
				if text := f.block(block); text != nil {
					texts = append(texts, text)
				}
			}
			f.at = "/" + name
			f.together(texts)
		case name == "isError" || name == "_meta":
		default:
			f.at = pointer("", name)
			f.json(value, 1)
		}
	})
}

// block finds the tables of a content block, and returns its text where it is
// short.
func (f *finder) block(block []byte) []byte {
	var short []byte
	eachMember(block, func(name string, value []byte) {
		switch {
		case name == "resource" && value[0] == '{':
			f.block(value)
		case (name == "text" || name == "blob") && value[0] == '"':
			text := strictjson.Unquote(nil, value)
			if name == "blob" {
				f.base64(text, 0)
				return
			}
			f.text(text, 0)
			if len(text) <= 1<<12 {
				short = text
			}
		case name == "data" || name == "type" || name == "mimeType" || name == "uri":
		default:
			f.json(value, 1)
		}
	})
	return short
}

// together looks at blocks of one row each as at one table.
func (f *finder) together(texts [][]byte) {
	if len(f.sheets) > 0 || len(texts) < minRows {
		return
	}
	f.text(bytes.Join(texts, []byte{'\n'}), 0)
}

// maxFacts bounds what is kept of tables beside a content, as JSON.
const maxFacts = 64 << 10

// boundTables drops tables from the end until they fit.
func boundTables(tables []Table) []Table {
	for len(tables) > 0 {
		if b, err := json.Marshal(tables); err == nil && len(b) <= maxFacts {
			return tables
		}
		tables = tables[:len(tables)-1]
	}
	return nil
}
