package artifacts

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// DefaultSlice is how many bytes a slice has at most where nothing else is said:
// about 10,000 tokens, the size at which the first client warns.
const DefaultSlice = 32 << 10

const (
	maxSlice   = 1 << 20  // bytes of any slice
	maxLoad    = 64 << 20 // bytes of a content that is parsed whole
	maxPattern = 1 << 10  // bytes of a regular expression or query
	maxContext = 20       // lines around a match
	maxPicture = 2048     // pixels of a side
)

// A Span is a range. Bytes count from 0 and To is the first not wanted; lines
// and rows count from 1 and To is the last wanted. A To of 0 is as far as a
// slice goes.
type Span struct {
	From int64 `json:"from"`
	To   int64 `json:"to,omitempty"`
}

// Size is the most that a picture may measure, in pixels; 0 leaves a side to
// the other.
type Size struct {
	Width  int `json:"width,omitempty"`
	Height int `json:"height,omitempty"`
}

// A Query says which slice of an artifact is wanted: one of Bytes, Lines,
// Pointer, Query, Rows, Match and Size, or none for its beginning.
type Query struct {
	Bytes   *Span    `json:"bytes,omitempty"`
	Lines   *Span    `json:"lines,omitempty"`   // also the lines that Match looks at
	Pointer *string  `json:"pointer,omitempty"` // RFC 6901
	Query   string   `json:"query,omitempty"`   // JMESPath; the order of names is not kept
	Rows    *Span    `json:"rows,omitempty"`    // of a table
	Columns []string `json:"columns,omitempty"` // of the rows; all where empty
	Table   int      `json:"table,omitempty"`   // which of several, from 0
	Match   string   `json:"match,omitempty"`   // RE2, line by line
	Context int      `json:"context,omitempty"` // lines around each match
	Size    *Size    `json:"size,omitempty"`    // of a picture
	After   int64    `json:"after,omitempty"`   // bytes of the answer to Pointer or Query that were read already
	Max     int      `json:"max,omitempty"`     // bytes of the slice, DefaultSlice where 0
}

// A QueryError says what about a query does not fit the artifact, in words for
// whoever wrote it.
type QueryError struct{ Reason string }

func (e *QueryError) Error() string { return e.Reason }

func bad(format string, args ...any) error { return &QueryError{fmt.Sprintf(format, args...)} }

// A Slice is a bounded part of an artifact.
type Slice struct {
	Body  []byte
	Media string // "text/plain" for UTF-8, "application/json", a picture's type, or "application/octet-stream"
	Unit  string // what From, To and Total count: bytes, lines, rows or matches
	From  int64  // as in [Span]
	To    int64
	Total int64
	Next  *Query // what goes on where this ends; nil at the end
}

// Left is how many units are behind the slice.
func (s Slice) Left() int64 {
	if s.Unit == "bytes" {
		return s.Total - s.To
	}
	return max(s.Total-s.To, 0)
}

// Note says in one line where the slice ends, how much is left and how to go on.
func (s Slice) Note(id string) string {
	note := fmt.Sprintf("%s %d to %d of %d", s.Unit, s.From, s.To, s.Total)
	switch left := s.Left(); {
	case s.Next == nil && left > 0: // no more was asked for
		return fmt.Sprintf("%s; %d are left.", note, left)
	case s.Next == nil:
		return note + "; that is the end."
	}
	b := bytes.TrimPrefix(encode(s.Next), []byte{'{'})
	return fmt.Sprintf(`%s; %d are left: read_artifact {"artifact":%s,%s`, note, s.Left(), encode(id), b)
}

// Check says what is wrong with a query by itself, as a *[QueryError].
func (q Query) Check() error {
	var ways []string
	for name, used := range map[string]bool{
		"bytes": q.Bytes != nil, "pointer": q.Pointer != nil, "query": q.Query != "", "rows": q.Rows != nil || len(q.Columns) > 0,
		"match": q.Match != "", "size": q.Size != nil, "lines": q.Lines != nil && q.Match == "",
	} {
		if used {
			ways = append(ways, name)
		}
	}
	slices.Sort(ways)
	for _, s := range []*Span{q.Bytes, q.Lines, q.Rows} {
		if s != nil && (s.From < 0 || s.To < 0 || s.To > 0 && s.To < s.From) {
			return bad("the range from %d to %d is none", s.From, s.To)
		}
	}
	switch {
	case len(ways) > 1:
		return bad("%s exclude each other: give one", strings.Join(ways, " and "))
	case q.Max < 0 || q.Max > maxSlice:
		return bad("max is between 0 and %d", maxSlice)
	case q.Context < 0 || q.Context > maxContext:
		return bad("context is between 0 and %d lines", maxContext)
	case len(q.Match) > maxPattern || len(q.Query) > maxPattern:
		return bad("match and query have at most %d bytes", maxPattern)
	case q.After < 0 || q.Table < 0:
		return bad("after and table are not negative")
	case q.Size != nil && (q.Size.Width < 0 || q.Size.Height < 0 || q.Size.Width > maxPicture || q.Size.Height > maxPicture):
		return bad("width and height are between 0 and %d", maxPicture)
	}
	return nil
}

func (q Query) max() int {
	if q.Max == 0 {
		return DefaultSlice
	}
	return max(q.Max, utf8.UTFMax)
}

// Read returns a slice of an artifact for a principal to whom the classes are
// allowed. Of one that is withheld, or whose classes are not all allowed (the
// owner may have changed his mind), only the aggregates are given, to a query
// for its beginning; all else is [ErrWithheld]. An unknown id is [ErrNotFound],
// a query that does not fit a *[QueryError].
func (s *Store) Read(ctx context.Context, id, principal string, allowed engagement.EgressSet, q Query) (Slice, error) {
	a, err := s.Get(ctx, id, principal)
	if err != nil {
		return Slice{}, err
	}
	if err := q.Check(); err != nil {
		return Slice{}, err
	}
	if a.Withheld || !within(a.Classes, allowed) {
		return aggregatesOf(a, allowed, q)
	}
	h, err := s.Open(ctx, id, principal)
	if err != nil {
		return Slice{}, err
	}
	slice, err := h.read(ctx, q)
	return slice, errors.Join(err, h.Close())
}

// aggregatesOf answers for what may not be read.
func aggregatesOf(a Artifact, allowed engagement.EgressSet, q Query) (Slice, error) {
	beginning := q.Bytes == nil && q.Lines == nil && q.Pointer == nil && q.Query == "" && q.Rows == nil && len(q.Columns) == 0 && q.Match == "" && q.Size == nil
	if !beginning || len(a.Tables) == 0 || !allowed.Has(engagement.Aggregates) || !allowed.Has(engagement.Metadata) {
		return Slice{}, ErrWithheld
	}
	body := encode(Without(a.Tables, allowed))
	return Slice{Body: body, Media: "application/json", Unit: "bytes", To: int64(len(body)), Total: int64(len(body))}, nil
}

func (h *Handle) read(ctx context.Context, q Query) (Slice, error) {
	switch {
	case q.Match != "":
		return h.match(ctx, q)
	case q.Lines != nil:
		return h.lines(ctx, q)
	case q.Pointer != nil:
		return h.pointer(ctx, q)
	case q.Query != "":
		return h.query(ctx, q)
	case q.Rows != nil || len(q.Columns) > 0:
		return h.table(ctx, q)
	case q.Size != nil:
		return h.picture(ctx, q)
	case q.Bytes != nil:
		return h.bytes(*q.Bytes, q)
	}
	return h.bytes(Span{}, q)
}

// load reads the whole content.
func (h *Handle) load(ctx context.Context) ([]byte, error) {
	if h.Size > maxLoad {
		return nil, bad("an artifact of %s is too large to be parsed: use bytes, lines or match", sizeWords(h.Size))
	}
	b := make([]byte, h.Size)
	if _, err := io.ReadFull(contextReader{ctx, h.Reader()}, b); err != nil {
		return nil, fmt.Errorf("read artifact %s: %w", h.ID, err)
	}
	return b, nil
}

// bytes cuts a slice by offsets. One that ends inside a character of text ends
// before it, so that slices put together are the content.
func (h *Handle) bytes(span Span, q Query) (Slice, error) {
	to := h.Size
	if span.To > 0 {
		to = min(to, span.To)
	}
	if span.From > to {
		return Slice{}, bad("byte %d is behind the end, the artifact has %d", span.From, h.Size)
	}
	end := min(to, span.From+int64(q.max()))
	b, err := readSpan(h, span.From, end)
	if err != nil {
		return Slice{}, fmt.Errorf("read artifact %s: %w", h.ID, err)
	}
	if end < h.Size {
		if whole := cutRune(b); len(whole) > 0 && utf8.Valid(whole) {
			b = whole
		}
	}
	s := Slice{Body: b, Media: textMedia(b), Unit: "bytes", From: span.From, To: span.From + int64(len(b)), Total: h.Size}
	if s.To < to && len(b) > 0 {
		s.Next = &Query{Bytes: &Span{From: s.To, To: span.To}, Max: q.Max}
	}
	return s, nil
}

// textMedia says whether a slice is text.
func textMedia(b []byte) string {
	if utf8.Valid(b) {
		return "text/plain"
	}
	return "application/octet-stream"
}

// lines cuts a slice of whole lines. A first line that is longer than a slice is
// cut at a character, and goes on by bytes.
func (h *Handle) lines(ctx context.Context, q Query) (Slice, error) {
	from := max(q.Lines.From, 1)
	at, end, total, err := h.findLines(ctx, from, q.Lines.To)
	if err != nil {
		return Slice{}, err
	}
	if at < 0 {
		return Slice{}, bad("line %d is behind the end, the artifact has %d", from, total)
	}
	b, err := readSpan(h, at, min(end, at+int64(q.max())))
	if err != nil {
		return Slice{}, fmt.Errorf("read artifact %s: %w", h.ID, err)
	}
	s := Slice{Unit: "lines", From: from, Total: total}
	if at+int64(len(b)) < end {
		if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
			b = b[:i+1]
			s.Next = &Query{Lines: &Span{From: from + int64(bytes.Count(b, []byte{'\n'})), To: q.Lines.To}, Max: q.Max}
		} else {
			if whole := cutRune(b); len(whole) > 0 {
				b = whole
			}
			s.Next = &Query{Bytes: &Span{From: at + int64(len(b))}, Max: q.Max}
		}
	}
	s.Body, s.Media = b, textMedia(b)
	s.To = from + int64(bytes.Count(b, []byte{'\n'})) - 1
	if len(b) > 0 && b[len(b)-1] != '\n' {
		s.To++
	}
	if s.Next == nil && end < h.Size {
		s.Next = &Query{Lines: &Span{From: s.To + 1}, Max: q.Max}
	}
	return s, nil
}

// findLines returns the offsets where line from begins (-1 where there is none)
// and behind line to (0 for the end), and how many lines there are.
func (h *Handle) findLines(ctx context.Context, from, to int64) (at, end, total int64, err error) {
	at, end = -1, h.Size
	line, offset := int64(1), int64(0)
	if from == 1 && h.Size > 0 {
		at = 0
	}
	r := contextReader{ctx, h.Reader()}
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		chunk := buf[:n]
		for base := 0; ; {
			i := bytes.IndexByte(chunk[base:], '\n')
			if i < 0 {
				break
			}
			base += i + 1
			if line == to {
				end = offset + int64(base)
			}
			line++
			if line == from && offset+int64(base) < h.Size {
				at = offset + int64(base)
			}
		}
		offset += int64(n)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, 0, 0, fmt.Errorf("read artifact %s: %w", h.ID, err)
		}
	}
	total = line
	if last, err := readSpan(h, max(h.Size-1, 0), h.Size); err == nil && (len(last) == 0 || last[0] == '\n') {
		total-- // what follows the last line end is no line
	}
	return at, end, total, nil
}

// window cuts a slice of an answer, which may have been read up to after.
func window(body []byte, media string, q Query, next func(after int64) *Query) (Slice, error) {
	if q.After > int64(len(body)) {
		return Slice{}, bad("after %d is behind the end, the answer has %d bytes", q.After, len(body))
	}
	b := body[q.After:min(len(body), int(q.After)+q.max())]
	s := Slice{Unit: "bytes", From: q.After, Total: int64(len(body))}
	if int(q.After)+len(b) < len(body) {
		if whole := cutRune(b); len(whole) > 0 {
			b = whole
		}
		media = textMedia(b)
		s.Next = next(q.After + int64(len(b)))
	} else if q.After > 0 {
		media = textMedia(b)
	}
	s.Body, s.Media, s.To = b, media, q.After+int64(len(b))
	return s, nil
}

// pointer resolves a JSON pointer. A string is given as what it says, any other
// value as the bytes that came.
func (h *Handle) pointer(ctx context.Context, q Query) (Slice, error) {
	b, err := h.load(ctx)
	if err != nil {
		return Slice{}, err
	}
	value, err := resolve(b, *q.Pointer)
	if err != nil {
		return Slice{}, err
	}
	media := "application/json"
	if value[0] == '"' {
		value, media = []byte(unquoted(value)), "text/plain"
	}
	return window(value, media, q, func(after int64) *Query { return &Query{Pointer: q.Pointer, After: after, Max: q.Max} })
}

func resolve(b []byte, p string) ([]byte, error) {
	value, _ := first(b)
	if value == nil {
		return nil, bad("the artifact is not JSON: use bytes, lines or match")
	}
	if p == "" {
		return value, nil
	}
	if p[0] != '/' {
		return nil, bad("a pointer is empty or begins with a slash")
	}
	done := ""
	for token := range strings.SplitSeq(p[1:], "/") {
		next := step(value, strings.NewReplacer("~1", "/", "~0", "~").Replace(token))
		if next == nil {
			return nil, bad("nothing is at %s/%.64s: %s is %s", done, token, orWhole(done), outline(value))
		}
		value, done = next, done+"/"+token
	}
	return value, nil
}

func orWhole(p string) string {
	if p == "" {
		return "the whole"
	}
	return p
}

// step returns the member or element that a token of a pointer names.
func step(value []byte, token string) []byte {
	switch value[0] {
	case '{':
		return memberOf(value, token)
	case '[':
		want, err := strconv.Atoi(token)
		if err != nil || want < 0 || token != strconv.Itoa(want) {
			return nil
		}
		i := 0
		for v := range strictjson.Elements(value) {
			if i == want {
				return v
			}
			i++
		}
	}
	return nil
}

// outline says what a value is, to somebody who looked for something else in it.
func outline(value []byte) string {
	switch value[0] {
	case '{':
		names, _ := membersOf(value)
		shown := names[:min(len(names), 20)]
		return fmt.Sprintf("an object of %d: %.600s", len(names), strings.Join(shown, ", "))
	case '[':
		return fmt.Sprintf("an array of %d", len(elementsOf(value)))
	}
	return "neither object nor array"
}

// table answers with rows, as JSON.
func (h *Handle) table(ctx context.Context, q Query) (Slice, error) {
	b, err := h.load(ctx)
	if err != nil {
		return Slice{}, err
	}
	f := newFinder(len(b), q.Table+1)
	f.text(b, 0)
	if len(f.sheets) == 0 {
		f.result(b)
	}
	if q.Table >= len(f.sheets) {
		return Slice{}, bad("the artifact has %d tables", len(f.sheets))
	}
	return f.sheets[q.Table].slice(q)
}

func (s sheet) slice(q Query) (Slice, error) {
	pick, err := s.pick(q.Columns)
	if err != nil {
		return Slice{}, err
	}
	from, to := int64(1), int64(0)
	if q.Rows != nil {
		from, to = max(q.Rows.From, 1), q.Rows.To
	}
	names := make([]string, len(pick))
	for i, p := range pick {
		names[i] = s.names[p]
	}
	out := append([]byte(`{"columns":`), encode(names)...)
	out = append(out, `,"rows":[`...)
	n, last := int64(0), from-1
	full := false
	s.each(func(row []cell) bool {
		n++
		if n < from || to > 0 && n > to || full {
			return true
		}
		line := appendRow(nil, row, pick, q.max()/(len(pick)+1))
		if last >= from && len(out)+len(line) > q.max() {
			full = true
			return true
		}
		if last >= from {
			out = append(out, ',')
		}
		out, last = append(out, line...), n
		return true
	})
	if from > n {
		return Slice{}, bad("row %d is behind the end, the table has %d", from, n)
	}
	slice := Slice{Body: append(out, `]}`...), Media: "application/json", Unit: "rows", From: from, To: last, Total: n}
	if last < n && (to == 0 || last < to) {
		slice.Next = &Query{Rows: &Span{From: last + 1, To: to}, Columns: q.Columns, Table: q.Table, Max: q.Max}
	}
	return slice, nil
}

// pick returns the places of the named columns.
func (s sheet) pick(columns []string) ([]int, error) {
	var at []int
	for _, c := range columns {
		i := slices.Index(s.names, c)
		if i < 0 {
			return nil, bad("no column %.64q: there are %.600s", c, strings.Join(s.names, ", "))
		}
		at = append(at, i)
	}
	if len(columns) == 0 {
		for i := range s.names {
			at = append(at, i)
		}
	}
	return at, nil
}

// appendRow appends the picked cells as a JSON array. Cells of more than most
// bytes become strings that are cut.
func appendRow(out []byte, row []cell, pick []int, most int) []byte {
	out = append(out, '[')
	for i, p := range pick {
		if i > 0 {
			out = append(out, ',')
		}
		switch {
		case p >= len(row) || row[p].text == nil:
			out = append(out, "null"...)
		case len(row[p].text) > most:
			out = append(out, encode(string(cutRune(row[p].text[:max(most, 16)]))+"…")...)
		case row[p].json:
			out = append(out, row[p].text...)
		default:
			out = append(out, encode(string(row[p].text))...)
		}
	}
	return append(out, ']')
}

// match answers with the lines that a regular expression matches, numbered, and
// with those around them, as grep does.
func (h *Handle) match(ctx context.Context, q Query) (Slice, error) {
	re, err := regexp.Compile(q.Match)
	if err != nil {
		return Slice{}, bad("match: %v", err)
	}
	g := grep{re: re, context: q.Context, max: q.max(), from: 1}
	if q.Lines != nil {
		g.from, g.to = max(q.Lines.From, 1), q.Lines.To
	}
	r := bufio.NewReaderSize(contextReader{ctx, h.Reader()}, 64<<10)
	for line := int64(1); ; line++ {
		text, err := readLine(r)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Slice{}, fmt.Errorf("read artifact %s: %w", h.ID, err)
		}
		g.see(line, text)
	}
	s := Slice{Body: g.out, Media: textMedia(g.out), Unit: "matches", From: min(1, g.shown), To: g.shown, Total: g.found}
	if g.next > 0 {
		s.Next = &Query{Match: q.Match, Context: q.Context, Lines: &Span{From: g.next, To: g.to}, Max: q.Max}
	}
	return s, nil
}

// maxMatchLine bounds what of a line is searched.
const maxMatchLine = 1 << 20

// readLine reads the next line without its end, and of a long one its beginning.
func readLine(r *bufio.Reader) ([]byte, error) {
	var long []byte
	for {
		part, err := r.ReadSlice('\n')
		if err == nil || errors.Is(err, io.EOF) && len(part)+len(long) > 0 {
			part = bytes.TrimRight(part, "\r\n")
			if long == nil {
				return part, nil
			}
			return append(long, part[:min(len(part), max(maxMatchLine-len(long), 0))]...), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		long = append(long, part[:min(len(part), max(maxMatchLine-len(long), 0))]...)
	}
}

// grep collects matches until the slice is full, and counts the rest.
type grep struct {
	re       *regexp.Regexp
	context  int
	max      int
	from, to int64

	out          []byte
	found, shown int64
	before       []numbered
	after        int   // lines still to be shown behind a match
	last         int64 // last line shown
	next         int64 // first matching line that did not fit
}

type numbered struct {
	n    int64
	text []byte
}

func (g *grep) see(n int64, text []byte) {
	if n < g.from || g.to > 0 && n > g.to {
		return
	}
	at := g.re.FindIndex(text)
	switch {
	case at != nil:
		g.found++
		if g.next > 0 {
			return
		}
		if need := len(text) + 16; g.shown > 0 && len(g.out)+min(need, maxShownLine+32) > g.max {
			g.next = n
			return
		}
		g.shown++
		g.around()
		g.show(n, ':', excerpt(text, at))
		g.after = g.context
	case g.next == 0 && g.after > 0:
		g.after--
		g.show(n, '-', excerpt(text, nil))
	case g.next == 0 && g.context > 0:
		g.before = append(g.before, numbered{n, bytes.Clone(excerpt(text, nil))})
		if len(g.before) > g.context {
			g.before = g.before[1:]
		}
	}
}

// around shows the lines before a match.
func (g *grep) around() {
	first := g.last + 1
	if len(g.before) > 0 {
		first = g.before[0].n
	}
	if g.context > 0 && g.last > 0 && first > g.last+1 {
		g.out = append(g.out, "--\n"...)
	}
	for _, b := range g.before {
		if len(g.out)+len(b.text)+16 < g.max {
			g.show(b.n, '-', b.text)
		}
	}
	g.before = nil
}

func (g *grep) show(n int64, sign byte, text []byte) {
	if sign == '-' && len(g.out)+len(text)+16 > g.max {
		return
	}
	g.out = strconv.AppendInt(g.out, n, 10)
	g.out = append(g.out, sign, ' ')
	g.out = append(append(g.out, text...), '\n')
	g.last = n
}

// maxShownLine bounds what of a line is shown, in bytes.
const maxShownLine = 400

// excerpt returns a line, or of a long one the part around the match.
func excerpt(text []byte, at []int) []byte {
	if len(text) <= maxShownLine {
		return text
	}
	from := 0
	if at != nil {
		from = max(0, min(at[0]-maxShownLine/4, len(text)-maxShownLine))
	}
	cut := cutRune(text[from : from+maxShownLine])
	for len(cut) > 0 && !utf8.RuneStart(cut[0]) {
		cut = cut[1:]
	}
	return slices.Concat([]byte("… "), cut, []byte(" …"))
}

// picture answers with a picture at a size.
func (h *Handle) picture(ctx context.Context, q Query) (Slice, error) {
	b, err := h.load(ctx)
	if err != nil {
		return Slice{}, err
	}
	width, height := q.Size.Width, q.Size.Height
	if width == 0 && height == 0 {
		width, height = 512, 512
	}
	small, m, err := Thumbnail(b, width, height)
	if errors.Is(err, ErrPicture) {
		return Slice{}, bad("%v", err)
	}
	if err != nil {
		return Slice{}, fmt.Errorf("read artifact %s: %w", h.ID, err)
	}
	if len(small) > maxSlice {
		return Slice{}, bad("at this size the picture has %s, more than %s: ask for a smaller one", sizeWords(int64(len(small))), sizeWords(maxSlice))
	}
	return Slice{Body: small, Media: m.Type, Unit: "bytes", To: int64(len(small)), Total: int64(len(small))}, nil
}

// jsonOf returns the JSON value of a content for a query.
func jsonOf(b []byte) (any, error) {
	if strictjson.Check(b) == nil {
		var v any
		d := json.NewDecoder(bytes.NewReader(b))
		d.UseNumber()
		if err := d.Decode(&v); err == nil {
			return exact(v), nil
		}
	}
	return nil, bad("the artifact is not JSON: use bytes, lines or match")
}

// exact turns numbers into float64s, for the functions of a query, but for
// those that one does not hold exactly: they stay as they are written.
func exact(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = exact(v[k])
		}
	case []any:
		for i := range v {
			v[i] = exact(v[i])
		}
	case json.Number:
		f, err := v.Float64()
		if err != nil || !holds(f, v.String()) {
			return v
		}
		return f
	}
	return v
}

// holds reports whether a float64 is written as the number that it was read
// from. One with at most 15 digits always is, unless it became 0.
func holds(f float64, number string) bool {
	if f != 0 && len(number) <= 15 {
		return true
	}
	d, exp := decimal(number)
	got, gotExp := decimal(strconv.FormatFloat(f, 'e', -1, 64))
	return d == got && exp == gotExp
}

// decimal returns the digits of a number without zeros at either end, and the
// power of ten that they are multiplied by; not its sign.
func decimal(number string) (digits string, exp int) {
	mantissa, power, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(number, "-")), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits = strings.TrimLeft(whole+fraction, "0")
	exp, _ = strconv.Atoi(power) // absent is 0, and one that is too long is no float64's
	exp += len(digits) - len(strings.TrimRight(digits, "0")) - len(fraction)
	if digits = strings.TrimRight(digits, "0"); digits == "" {
		return "", 0
	}
	return digits, exp
}
