package clients

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
	"github.com/tailscale/hujson"
)

// Bounds on another program's file. One client keeps its history beside its
// servers, so they are wider than those of this product's own file.
const (
	MaxFileBytes = 32 << 20
	maxDepth     = 200
	maxColons    = 10_000 // of a YAML file, whose parser takes the square of its keys
)

// A Pos is a line and a column, counted from 1, the column in characters. The
// zero Pos is no place.
type Pos struct {
	Line int `json:"line"`
	Col  int `json:"col"`
}

// A SyntaxError says that a file cannot be read as a whole, so that none of its
// servers is known. Text holds nothing of the file.
type SyntaxError struct {
	File string
	Pos  Pos
	Text string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Pos.Line, e.Pos.Col, e.Text)
}

type kind uint8

const (
	null kind = iota + 1
	boolean
	number
	text
	list
	object
)

func (k kind) noun() string {
	return [...]string{"nothing", "null", "a truth value", "a number", "text", "a list", "an object"}[k]
}

// A node is one value of a file in any of the languages.
type node struct {
	kind    kind
	pos     Pos
	text    string // of a text; the literal of a number or a truth value
	items   []*node
	members []member // in the order of the file
}

type member struct {
	key   string
	pos   Pos
	value *node
}

func (m member) name() string { return m.key }

// get returns the member with that key, or nil. Of several it is the last one,
// as every JSON parser of these clients has it.
func (n *node) get(key string) *node {
	if n == nil || n.kind != object {
		return nil
	}
	for _, m := range slices.Backward(n.members) {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

// at follows keys down from n; nil where one is not there.
func (n *node) at(keys ...string) *node {
	for _, key := range keys {
		n = n.get(key)
	}
	return n
}

// parse reads a file in the language that its name says, JSON where it says
// none. A file without content is an empty object.
func parse(name string, data []byte) (*node, error) {
	fail := func(pos Pos, format string, args ...any) (*node, error) {
		return nil, &SyntaxError{name, pos, fmt.Sprintf(format, args...)}
	}
	if len(data) > MaxFileBytes {
		return fail(Pos{1, 1}, "the file is larger than %d bytes", MaxFileBytes)
	}
	data, err := decodeText(data)
	if err != nil {
		return fail(Pos{1, 1}, "%v", err)
	}
	if at := invalidUTF8(data); at >= 0 {
		return fail(placeOf(data, at), "the file is not UTF-8 from here on")
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return &node{kind: object, pos: Pos{1, 1}}, nil
	}
	var root *node
	var pos Pos
	switch strings.ToLower(filepath.Ext(name)) {
	case ".yaml", ".yml":
		root, pos, err = parseYAML(data)
	case ".toml":
		root, pos, err = parseTOML(data)
	default:
		root, pos, err = parseJSON(data)
	}
	if err != nil {
		return fail(pos, "%v", err)
	}
	return root, nil
}

// decodeText takes a byte order mark away, reads UTF-16 where one says so, as
// some shells write it, and makes every line end in LF.
func decodeText(data []byte) ([]byte, error) {
	for mark, order := range map[string]binary.ByteOrder{"\xff\xfe": binary.LittleEndian, "\xfe\xff": binary.BigEndian} {
		if rest, ok := bytes.CutPrefix(data, []byte(mark)); ok {
			if len(rest)%2 != 0 {
				return nil, errors.New("the file is UTF-16 and ends within a character")
			}
			units := make([]uint16, len(rest)/2)
			for i := range units {
				units[i] = order.Uint16(rest[2*i:])
			}
			data = []byte(string(utf16.Decode(units)))
			break
		}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	return bytes.ReplaceAll(data, []byte("\r"), []byte("\n")), nil
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

// placeOf turns one offset into a place.
func placeOf(data []byte, offset int) Pos {
	offset = min(max(offset, 0), len(data))
	before := data[:offset]
	line := bytes.LastIndexByte(before, '\n') + 1
	return Pos{1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[line:])}
}

// places turns ascending offsets into places, reading the text once in all.
type places struct {
	data []byte
	last int
	pos  Pos
}

func (p *places) at(offset int) Pos {
	if p.pos.Line == 0 || offset < p.last {
		p.last, p.pos = offset, placeOf(p.data, offset)
		return p.pos
	}
	between := p.data[p.last:offset]
	if nl := bytes.LastIndexByte(between, '\n'); nl >= 0 {
		p.pos.Line += bytes.Count(between, []byte("\n"))
		p.pos.Col = 1 + utf8.RuneCount(between[nl+1:])
	} else {
		p.pos.Col += utf8.RuneCount(between)
	}
	p.last = offset
	return p.pos
}

func parseJSON(data []byte) (*node, Pos, error) {
	data = append(bytes.Clone(data), '\n') // ends a comment on the last line
	if at := tooDeepAt(data); at >= 0 {
		return nil, placeOf(data, at), fmt.Errorf("more than %d lists and objects inside one another", maxDepth)
	}
	root, err := hujson.Parse(data)
	if err != nil {
		line, col := 1, 1
		_, _ = fmt.Sscanf(err.Error(), "hujson: line %d, column %d:", &line, &col)
		if inner := errors.Unwrap(err); inner != nil {
			err = inner
		}
		return nil, Pos{max(1, line), max(1, col)}, errors.New(strings.TrimPrefix(err.Error(), "hujson: "))
	}
	return fromJSON(root, &places{data: data}), Pos{}, nil
}

// tooDeepAt returns where nesting passes its bound, or -1: the parsers recurse.
func tooDeepAt(data []byte) int {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		case bytes.HasPrefix(data[i:], []byte("//")):
			for i < len(data) && data[i] != '\n' {
				i++
			}
		case bytes.HasPrefix(data[i:], []byte("/*")):
			end := bytes.Index(data[i+2:], []byte("*/"))
			if end < 0 {
				return -1
			}
			i += end + 3
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return i
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return -1
}

func fromJSON(v hujson.Value, where *places) *node {
	n := &node{pos: where.at(v.StartOffset)}
	switch v := v.Value.(type) {
	case *hujson.Object:
		n.kind = object
		for _, m := range v.Members {
			name := m.Name.Value.(hujson.Literal).String()
			pos := where.at(m.Name.StartOffset)
			n.members = append(n.members, member{name, pos, fromJSON(m.Value, where)})
		}
	case *hujson.Array:
		n.kind = list
		for _, e := range v.Elements {
			n.items = append(n.items, fromJSON(e, where))
		}
	case hujson.Literal:
		n.text = string(v)
		switch v.Kind() {
		case 'n':
			n.kind, n.text = null, ""
		case 't', 'f':
			n.kind = boolean
		case '0':
			n.kind = number
		default:
			n.kind, n.text = text, v.String()
		}
	}
	return n
}

func parseYAML(data []byte) (root *node, pos Pos, err error) {
	if at := deepYAML(data); at >= 0 {
		return nil, placeOf(data, at), errors.New("nested or indented too far")
	}
	if bytes.Count(data, []byte(":")) > maxColons {
		return nil, Pos{1, 1}, fmt.Errorf("more than %d colons in a YAML file", maxColons)
	}
	// The parser is known to panic on some malformed files.
	defer func() {
		if r := recover(); r != nil {
			root, pos, err = nil, Pos{1, 1}, errors.New("not YAML that can be read")
		}
	}()
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		if known := yaml.Error(nil); errors.As(err, &known) && known.GetToken() != nil {
			return nil, tokenPos(known.GetToken()), errors.New(known.GetMessage())
		}
		return nil, Pos{1, 1}, errors.New("not YAML that can be read")
	}
	b := yamlBuilder{anchors: map[string]*node{}}
	for _, doc := range file.Docs {
		if doc.Body != nil {
			return b.build(doc.Body, 0), Pos{}, nil // what follows the first document is another one
		}
	}
	return &node{kind: object, pos: Pos{1, 1}}, Pos{}, nil
}

// deepYAML returns where brackets nest or a line is indented beyond any file
// that a person wrote, or -1.
func deepYAML(data []byte) int {
	depth, lead, column := 0, true, 0
	for i, c := range data {
		column++
		switch c {
		case '\n':
			lead, column = true, 0
			continue
		case '[', '{':
			if depth++; depth > 8*maxDepth {
				return i
			}
		case ']', '}':
			depth = max(0, depth-1)
		}
		if !strings.ContainsRune(" -?\t", rune(c)) {
			lead = false
		}
		if lead && column > 4*maxDepth {
			return i
		}
	}
	return -1
}

func tokenPos(t *token.Token) Pos {
	if t == nil || t.Position == nil {
		return Pos{1, 1}
	}
	return Pos{max(1, t.Position.Line), max(1, t.Position.Column)}
}

// A yamlBuilder resolves aliases by sharing the node they name, so that a short
// file stays small however much it says.
type yamlBuilder struct{ anchors map[string]*node }

func (b *yamlBuilder) build(v ast.Node, depth int) *node {
	n := &node{kind: null, pos: tokenPos(v.GetToken())}
	if depth > maxDepth {
		return n
	}
	switch v := v.(type) {
	case *ast.MappingNode:
		return b.mapping(v.Values, n.pos, depth)
	case *ast.MappingValueNode:
		return b.mapping([]*ast.MappingValueNode{v}, n.pos, depth)
	case *ast.SequenceNode:
		n.kind = list
		for _, item := range v.Values {
			n.items = append(n.items, b.build(item, depth+1))
		}
	case *ast.AnchorNode:
		built := b.build(v.Value, depth+1)
		b.anchors[v.Name.GetToken().Value] = built
		return built
	case *ast.AliasNode:
		if named := b.anchors[v.Value.GetToken().Value]; named != nil {
			return named
		}
	case *ast.TagNode:
		return b.build(v.Value, depth+1)
	case *ast.StringNode:
		n.kind, n.text = text, v.Value
	case *ast.LiteralNode:
		n.kind, n.text = text, v.Value.Value
	case *ast.BoolNode:
		n.kind, n.text = boolean, strconv.FormatBool(v.Value)
	case *ast.IntegerNode, *ast.FloatNode:
		n.kind, n.text = number, v.GetToken().Value
	}
	return n
}

func (b *yamlBuilder) mapping(values []*ast.MappingValueNode, pos Pos, depth int) *node {
	n := &node{kind: object, pos: pos}
	for _, m := range values {
		value := b.build(m.Value, depth+1)
		if m.Key.IsMergeKey() {
			n.members = append(slices.Clone(value.members), n.members...) // a key of its own wins
			continue
		}
		key := m.Key.GetToken()
		n.members = append(n.members, member{key.Value, tokenPos(key), value})
	}
	if len(n.members) > 0 {
		n.pos = n.members[0].pos // the library's token is the colon
	}
	return n
}

func parseTOML(data []byte) (*node, Pos, error) {
	if at := deepYAML(data); at >= 0 {
		return nil, placeOf(data, at), errors.New("nested too far")
	}
	var values map[string]any
	if err := toml.Unmarshal(data, &values); err != nil {
		var bad *toml.DecodeError
		if errors.As(err, &bad) {
			line, col := bad.Position()
			return nil, Pos{max(1, line), max(1, col)}, errors.New(strings.TrimPrefix(bad.Error(), "toml: "))
		}
		return nil, Pos{1, 1}, errors.New("not TOML that can be read")
	}
	b := tomlBuilder{places: tomlPlaces(data)}
	return b.build(values, "", Pos{1, 1}), Pos{}, nil
}

// tomlPlaces finds where each table and key stands, by its path with NUL between
// the parts: the decoder that gives the values does not say.
func tomlPlaces(data []byte) map[string]Pos {
	found := map[string]Pos{}
	where := &places{data: data}
	var p unstable.Parser
	p.Reset(data)
	table := ""
	for p.NextExpression() {
		e := p.Expression()
		path, pos := "", Pos{}
		for it := e.Key(); it.Next(); {
			part := it.Node()
			if pos.Line == 0 {
				pos = where.at(int(part.Raw.Offset))
			}
			path += "\x00" + string(part.Data)
			full := path
			if e.Kind == unstable.KeyValue {
				full = table + path
			}
			if _, ok := found[full]; !ok {
				found[full] = pos
			}
		}
		if e.Kind == unstable.Table || e.Kind == unstable.ArrayTable {
			table = path
		}
	}
	return found
}

type tomlBuilder struct{ places map[string]Pos }

func (b tomlBuilder) build(v any, path string, pos Pos) *node {
	if known, ok := b.places[path]; ok {
		pos = known
	}
	n := &node{pos: pos, kind: text}
	switch v := v.(type) {
	case map[string]any:
		n.kind = object
		for key, value := range v {
			built := b.build(value, path+"\x00"+key, pos)
			n.members = append(n.members, member{key, built.pos, built})
		}
		slices.SortFunc(n.members, func(a, b member) int {
			if a.pos.Line != b.pos.Line {
				return a.pos.Line - b.pos.Line
			}
			if a.pos.Col != b.pos.Col {
				return a.pos.Col - b.pos.Col
			}
			return strings.Compare(a.key, b.key)
		})
	case []any:
		n.kind = list
		for _, item := range v {
			n.items = append(n.items, b.build(item, path+"\x00[]", pos))
		}
	case string:
		n.text = v
	case bool:
		n.kind, n.text = boolean, strconv.FormatBool(v)
	case int64, float64:
		n.kind, n.text = number, fmt.Sprint(v)
	case time.Time:
		n.text = v.Format(time.RFC3339)
	default:
		n.text = fmt.Sprint(v)
	}
	return n
}
