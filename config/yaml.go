package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxYAMLColons bounds the keys of a YAML file, without looking at what a colon is
// for. The parser's time grows with the square of the keys of one mapping: 10,000
// take it one or two seconds, 40,000 half a minute.
const maxYAMLColons = 10_000

// parseYAML reads one YAML document into the same tree that JSONC gives.
// Anchors, aliases, merge keys and tags are refused: they would let a short
// file say a great deal, and an error could no longer point at one place.
func parseYAML(data []byte) (root *node, bad *syntaxError) {
	if at := deepYAML(data); at >= 0 {
		return nil, &syntaxError{newPlaces(data).at(at), tooDeep}
	}
	if bytes.Count(data, []byte(":")) > maxYAMLColons {
		return nil, &syntaxError{Pos{1, 1}, fmt.Sprintf("more than %d colons in a YAML file: write it as JSONC", maxYAMLColons)}
	}
	// The parser is known to panic on some malformed files; a panic there is a
	// fault of the file and must not take the program down.
	defer func() {
		if r := recover(); r != nil {
			root, bad = nil, &syntaxError{Pos{1, 1}, "not YAML that can be read: write it as JSONC, or simplify it"}
		}
	}()
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, yamlError(err)
	}
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if body != nil {
			return nil, &syntaxError{tokenPos(doc.Body.GetToken()), "a second document: a configuration is one"}
		}
		body = doc.Body
	}
	if body == nil {
		return nil, nil
	}
	b := &yamlBuilder{}
	root, bad = b.build(body, 1)
	if bad == nil && root.kind == nullNode {
		return nil, nil
	}
	return root, bad
}

// deepYAML returns where brackets nest, or a line is indented, far beyond any
// file that would pass the bound on the tree itself, or -1. It knows nothing of
// quotes: it only keeps the parser's recursion short.
func deepYAML(data []byte) int {
	const brackets, indent = 8 * maxDepth, 16 * maxDepth
	depth, column, lead := 0, 0, true
	for i, c := range data {
		switch c {
		case '\n':
			column, lead = 0, true
			continue
		case '[', '{':
			if depth++; depth > brackets {
				return i
			}
		case ']', '}':
			depth = max(0, depth-1)
		}
		column++
		switch c {
		case ' ', '-', '?', '\t':
		default:
			lead = false
		}
		if lead && column > indent {
			return i
		}
	}
	return -1
}

func yamlError(err error) *syntaxError {
	if known := yaml.Error(nil); errors.As(err, &known) && known.GetToken() != nil {
		return &syntaxError{tokenPos(known.GetToken()), known.GetMessage()}
	}
	return &syntaxError{Pos{1, 1}, err.Error()}
}

func tokenPos(t *token.Token) Pos {
	if t == nil || t.Position == nil {
		return Pos{1, 1}
	}
	return Pos{max(1, t.Position.Line), max(1, t.Position.Column)}
}

type yamlBuilder struct{ count int }

func (b *yamlBuilder) build(v ast.Node, depth int) (*node, *syntaxError) {
	pos := tokenPos(v.GetToken())
	if b.count++; b.count > maxNodes {
		return nil, &syntaxError{pos, tooMany}
	}
	if depth > maxDepth+1 {
		return nil, &syntaxError{pos, tooDeep}
	}
	switch v := v.(type) {
	case *ast.MappingNode:
		return b.mapping(v.Values, pos, v.IsFlowStyle, depth)
	case *ast.MappingValueNode:
		return b.mapping([]*ast.MappingValueNode{v}, pos, v.IsFlowStyle, depth)
	case *ast.SequenceNode:
		n := &node{kind: listNode, pos: pos}
		for _, item := range v.Values {
			built, err := b.build(item, depth+1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, built)
		}
		return n, nil
	}
	return yamlScalar(v, pos)
}

func (b *yamlBuilder) mapping(values []*ast.MappingValueNode, pos Pos, flow bool, depth int) (*node, *syntaxError) {
	n := &node{kind: objectNode, pos: pos}
	for i, m := range values {
		key, err := yamlKey(m.Key)
		if err != nil {
			return nil, err
		}
		if i == 0 && !flow {
			n.pos = key.pos // the library's token is the colon
		}
		value, err := b.build(m.Value, depth+1)
		if err != nil {
			return nil, err
		}
		n.members = append(n.members, member{key.text, key.pos, value})
	}
	return n, nil
}

// yamlKey reads a key: text, or a whole number taken as text, since a server
// may well be called 8080.
func yamlKey(k ast.MapKeyNode) (*node, *syntaxError) {
	pos := tokenPos(k.GetToken())
	if k.IsMergeKey() {
		return nil, &syntaxError{pos, `merge keys ("<<") are not read: write the entries out`}
	}
	n, err := yamlScalar(k, pos)
	if err != nil {
		return nil, err
	}
	if n.kind != textNode && n.kind != numberNode {
		return nil, &syntaxError{pos, fmt.Sprintf("a key must be text, not %s: put it in quotes", n.kind.noun())}
	}
	return n, nil
}

func yamlScalar(v ast.Node, pos Pos) (*node, *syntaxError) {
	switch v := v.(type) {
	case *ast.StringNode:
		if v.Token.Type == token.StringType && isNumber(v.Value) { // the library takes 1e3 for text
			return &node{kind: numberNode, pos: pos, text: v.Value}, nil
		}
		return &node{kind: textNode, pos: pos, text: v.Value}, nil
	case *ast.LiteralNode:
		return &node{kind: textNode, pos: pos, text: v.Value.Value}, nil
	case *ast.BoolNode:
		return &node{kind: boolNode, pos: pos, text: fmt.Sprint(v.Value)}, nil
	case *ast.NullNode:
		return &node{kind: nullNode, pos: pos}, nil
	case *ast.IntegerNode, *ast.FloatNode:
		text := v.GetToken().Value
		if !isNumber(text) {
			return nil, &syntaxError{pos, fmt.Sprintf("%s is a number only in YAML: write it in decimal, or in quotes where text is meant", text)}
		}
		return &node{kind: numberNode, pos: pos, text: text}, nil
	case *ast.AnchorNode, *ast.AliasNode:
		return nil, &syntaxError{pos, "anchors and aliases are not read: write the value out"}
	case *ast.TagNode:
		return nil, &syntaxError{pos, "tags are not read: leave it out"}
	}
	return nil, &syntaxError{pos, "not a value that a configuration can hold"}
}

// isNumber reports whether a word is a number as JSON writes it.
func isNumber(s string) bool {
	return s != "" && strings.ContainsAny(s[:1], "-0123456789") && json.Valid([]byte(s))
}
