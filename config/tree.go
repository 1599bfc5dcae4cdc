package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tailscale/hujson"
)

// Bounds on a configuration file. They are far above what a person writes and
// keep a hostile or mistaken file from costing more than a moment.
const (
	MaxFileBytes = 1 << 20 // bytes of one file
	maxDepth     = 32      // lists and objects inside one another
	maxNodes     = 100_000 // values of one file
	maxTextBytes = 32 << 10
)

// A Pos is a place in a configuration file: line and column, both counted from
// 1, the column in characters. The zero Pos is no place.
type Pos struct{ Line, Col int }

// nodeKind says what a node holds.
type nodeKind uint8

const (
	nullNode nodeKind = iota + 1
	boolNode
	numberNode
	textNode
	listNode
	objectNode
)

// noun names a kind as an error does: "want text, got a list".
func (k nodeKind) noun() string {
	return [...]string{"", "null", "a truth value", "a number", "text", "a list", "an object"}[k]
}

// A node is one value of a file, whichever language the file is written in.
type node struct {
	kind    nodeKind
	pos     Pos
	text    string   // what a text says, the literal of a number, "true" or "false"
	items   []*node  // of a list
	members []member // of an object, in the order of the file, repeated keys included
}

type member struct {
	key   string
	pos   Pos
	value *node
}

// json returns the value as JSON bytes: members in the order of the file,
// numbers as they were written.
func (n *node) json() json.RawMessage { return n.appendJSON(nil) }

func (n *node) appendJSON(b []byte) []byte {
	switch n.kind {
	case textNode:
		return append(b, hujson.String(n.text)...)
	case listNode:
		b = append(b, '[')
		for i, item := range n.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.appendJSON(b)
		}
		return append(b, ']')
	case objectNode:
		b = append(b, '{')
		for i, m := range n.members {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(append(b, hujson.String(m.key)...), ':')
			b = m.value.appendJSON(b)
		}
		return append(b, '}')
	case nullNode:
		return append(b, "null"...)
	default:
		return append(b, n.text...)
	}
}

// A syntaxError is the one fault that ends the reading of a file: what follows
// it cannot be told apart.
type syntaxError struct {
	pos Pos
	msg string
}

func (e *syntaxError) Error() string { return e.msg }

// isYAML reports whether a file's name says that it is YAML; any other is JSONC.
func isYAML(name string) bool {
	lower := strings.ToLower(name)
	return strings.HasSuffix(lower, ".yaml") || strings.HasSuffix(lower, ".yml")
}

// parseTree reads a whole file. A file without content is an empty object, so
// that a fresh one may hold nothing but comments.
func parseTree(name string, data []byte) (*node, *syntaxError) {
	if len(data) > MaxFileBytes {
		return nil, &syntaxError{Pos{1, 1}, fmt.Sprintf("the file is larger than %d bytes", MaxFileBytes)}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	data = bytes.ReplaceAll(data, []byte("\r"), []byte("\n"))
	if at := invalidUTF8(data); at >= 0 {
		return nil, &syntaxError{newPlaces(data).at(at), "the file is not UTF-8 from here on"}
	}
	var (
		root *node
		err  *syntaxError
	)
	if isYAML(name) {
		root, err = parseYAML(data)
	} else {
		root, err = parseJSONC(data)
	}
	if err != nil {
		return nil, err
	}
	if root == nil {
		root = &node{kind: objectNode, pos: Pos{1, 1}}
	}
	return root, nil
}

func invalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

// places turns byte offsets of one text into positions. It counts on from the
// place that was asked for last, so that a file of one long line stays cheap.
type places struct {
	data  []byte
	lines []int // offset of the first byte of each line

	last    int // offset that was asked for last
	lastPos Pos // and its position; zero before the first
}

func newPlaces(data []byte) *places {
	p := &places{data: data, lines: []int{0}}
	for i, b := range data {
		if b == '\n' {
			p.lines = append(p.lines, i+1)
		}
	}
	return p
}

func (p *places) at(offset int) Pos {
	line, found := slices.BinarySearch(p.lines, offset)
	if !found {
		line-- // the line that began before
	}
	from, col := p.lines[line], 1
	if p.lastPos.Line == line+1 && offset-from > p.last-offset {
		from, col = p.last, p.lastPos.Col
	}
	if from <= offset {
		col += utf8.RuneCount(p.data[from:offset])
	} else {
		col -= utf8.RuneCount(p.data[offset:from])
	}
	p.last, p.lastPos = offset, Pos{line + 1, col}
	return p.lastPos
}

// parseJSONC reads JSON with comments and trailing commas. It returns no node
// for a file that holds nothing but space and comments.
func parseJSONC(data []byte) (*node, *syntaxError) {
	data = append(bytes.Clone(data), '\n') // ends a comment on the last line
	where := newPlaces(data)
	content, deepAt := scanJSONC(data)
	if deepAt >= 0 {
		return nil, &syntaxError{where.at(deepAt), tooDeep}
	}
	root, err := hujson.Parse(data)
	if err != nil {
		if !content && !unclosedComment(err) {
			return nil, nil
		}
		return nil, jsoncError(err, where)
	}
	b := &jsoncBuilder{where: where}
	return b.build(root)
}

var tooDeep = fmt.Sprintf("more than %d lists and objects inside one another", maxDepth)

var tooMany = fmt.Sprintf("more than %d values in one file", maxNodes)

func unclosedComment(err error) bool { return strings.Contains(err.Error(), "parsing comment") }

// scanJSONC reports whether there is anything but space and comments, and where
// the nesting passes its bound, or -1. The library's parser recurses, so the
// bound has to be kept before it runs.
func scanJSONC(data []byte) (content bool, deepAt int) {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			continue
		case bytes.HasPrefix(data[i:], []byte("//")):
			i += skipTo(data[i:], "\n")
			continue
		case bytes.HasPrefix(data[i:], []byte("/*")):
			i += 2 + skipTo(data[i+2:], "*/") - 1
			continue
		case c == '"':
			i += skipString(data[i:])
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return true, i
			}
		case c == '}' || c == ']':
			depth--
		}
		content = true
	}
	return content, -1
}

// skipTo returns how far it is to the end of the first mark, or to the last
// byte where there is none.
func skipTo(data []byte, mark string) int {
	if i := bytes.Index(data, []byte(mark)); i >= 0 {
		return i + len(mark)
	}
	return len(data)
}

// skipString returns the offset of the closing quote of the string that data
// begins with, or of the last byte where it is not closed.
func skipString(data []byte) int {
	for i := 1; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(data) - 1
}

// jsoncError takes the place out of the library's message, which it gives in
// bytes and in words only.
func jsoncError(err error, where *places) *syntaxError {
	var line, col int
	msg := err.Error()
	if n, _ := fmt.Sscanf(msg, "hujson: line %d, column %d:", &line, &col); n != 2 || line > len(where.lines) {
		return &syntaxError{Pos{1, 1}, msg}
	}
	offset := min(where.lines[line-1]+col-1, len(where.data))
	if inner := errors.Unwrap(err); inner != nil {
		msg = inner.Error()
	}
	if strings.HasPrefix(msg, `invalid literal: "`) { // then all of the text, which may be a secret
		msg = `a text with a line break or another control character, or an escape that JSON does not have: write \n for a line break, \\ for \`
	}
	return &syntaxError{where.at(offset), msg}
}

type jsoncBuilder struct {
	where *places
	count int
}

func (b *jsoncBuilder) build(v hujson.Value) (*node, *syntaxError) {
	pos := b.where.at(v.StartOffset)
	if b.count++; b.count > maxNodes {
		return nil, &syntaxError{pos, tooMany}
	}
	switch v := v.Value.(type) {
	case *hujson.Object:
		n := &node{kind: objectNode, pos: pos}
		for _, m := range v.Members {
			value, err := b.build(m.Value)
			if err != nil {
				return nil, err
			}
			key := m.Name.Value.(hujson.Literal).String()
			n.members = append(n.members, member{key, b.where.at(m.Name.StartOffset), value})
		}
		return n, nil
	case *hujson.Array:
		n := &node{kind: listNode, pos: pos}
		for _, e := range v.Elements {
			item, err := b.build(e)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, item)
		}
		return n, nil
	case hujson.Literal:
		return jsonLiteral(v, pos), nil
	}
	return nil, &syntaxError{pos, "not a JSON value"}
}

func jsonLiteral(v hujson.Literal, pos Pos) *node {
	n := &node{pos: pos, text: string(v)}
	switch v.Kind() {
	case 'n':
		n.kind, n.text = nullNode, ""
	case 't', 'f':
		n.kind = boolNode
	case '0':
		n.kind = numberNode
	default:
		n.kind, n.text = textNode, v.String()
	}
	return n
}

// quoteKey writes one step of a path, in quotes where a dot or a space in it
// would mislead.
func quoteKey(key string) string {
	if key == "" || strings.ContainsFunc(key, func(r rune) bool { return r == '.' || r == ' ' || r == '"' || !unicode.IsPrint(r) }) {
		return strconv.Quote(cut(key))
	}
	return cut(key)
}
