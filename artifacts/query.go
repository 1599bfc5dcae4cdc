package artifacts

import (
	"context"
	"fmt"
	"slices"

	"github.com/jmespath-community/go-jmespath/pkg/functions"
	"github.com/jmespath-community/go-jmespath/pkg/interpreter"
	"github.com/jmespath-community/go-jmespath/pkg/parsing"
)

// A query comes from a model, and the library runs one until it ends. So what
// could make its work or its answer grow beyond a small multiple of the content is
// refused before it runs: many projections, which nest; the root inside of one;
// literals that are lists; and functions that build strings.
const (
	maxProjections = 6
	maxNodes       = 100
	maxAnswer      = 8 << 20 // bytes
)

// queryFunctions are those whose answer is no larger than what they are given.
var queryFunctions = []string{
	"abs", "avg", "ceil", "contains", "ends_with", "find_first", "find_last", "floor", "group_by", "items", "keys", "length", "lower", "map",
	"max", "max_by", "min", "min_by", "not_null", "reverse", "sort", "sort_by", "starts_with", "sum", "to_array", "to_number",
	"to_string", "trim", "trim_left", "trim_right", "type", "upper", "values",
}

var queryCaller = func() interpreter.FunctionCaller {
	var kept []functions.FunctionEntry
	for _, f := range functions.GetDefaultFunctions() {
		if slices.Contains(queryFunctions, f.Name) {
			kept = append(kept, f)
		}
	}
	return interpreter.NewFunctionCaller(kept...)
}()

// query answers with what a JMESPath expression selects, as JSON.
func (h *Handle) query(ctx context.Context, q Query) (slice Slice, err error) {
	node, err := parsing.NewParser().Parse(q.Query)
	if err != nil {
		return Slice{}, bad("query: %v", err)
	}
	w := weight{}
	if err := w.add(node); err != nil {
		return Slice{}, err
	}
	b, err := h.load(ctx)
	if err != nil {
		return Slice{}, err
	}
	value, err := jsonOf(b)
	if err != nil {
		return Slice{}, err
	}
	answer, err := evaluate(node, value)
	if err != nil {
		return Slice{}, err
	}
	return window(answer, "application/json", q, func(after int64) *Query { return &Query{Query: q.Query, After: after, Max: q.Max} })
}

// evaluate runs a query that was weighed. The library is foreign code over
// foreign data; if it panics, the query is at fault, not the gate.
func evaluate(node parsing.ASTNode, value any) (answer []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			answer, err = nil, bad("query: %.200v", r)
		}
	}()
	found, err := interpreter.NewInterpreter(value, queryCaller, nil).Execute(node, value)
	if err != nil {
		return nil, bad("query: %.200v", err) // the library's words hold the whole value
	}
	answer, ok := appendAnswer(nil, found)
	if !ok {
		return nil, bad("query: the answer has more than %s: select less", sizeWords(maxAnswer))
	}
	return answer, nil
}

// weight is what was counted of a query.
type weight struct{ nodes, projections int }

func (w *weight) add(n parsing.ASTNode) error {
	w.nodes++
	switch n.NodeType {
	case parsing.ASTProjection, parsing.ASTValueProjection, parsing.ASTFilterProjection, parsing.ASTFlatten, parsing.ASTExpRef:
		w.projections++
	case parsing.ASTRootNode, parsing.ASTLetExpression, parsing.ASTVariable, parsing.ASTBinding, parsing.ASTBindings:
		return bad("query: $ and let are not supported")
	case parsing.ASTLiteral:
		switch n.Value.(type) {
		case []any, map[string]any:
			return bad("query: a literal is a string, a number, true, false or null")
		}
	case parsing.ASTFunctionExpression:
		if name, ok := n.Value.(string); ok && !slices.Contains(queryFunctions, name) {
			return bad("query: no function %.40q", name)
		}
	}
	if w.nodes > maxNodes || w.projections > maxProjections {
		return bad("query: more than %d steps or %d projections", maxNodes, maxProjections)
	}
	for _, c := range n.Children {
		if err := w.add(c); err != nil {
			return err
		}
	}
	return nil
}

// appendAnswer writes a value as JSON with sorted names. It is false once there
// is too much of it.
func appendAnswer(out []byte, v any) ([]byte, bool) {
	if len(out) > maxAnswer {
		return out, false
	}
	switch v := v.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for k := range v {
			names = append(names, k)
		}
		slices.Sort(names)
		out = append(out, '{')
		for i, k := range names {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(append(out, encode(k)...), ':')
			var ok bool
			if out, ok = appendAnswer(out, v[k]); !ok {
				return out, false
			}
		}
		return append(out, '}'), true
	case []any:
		out = append(out, '[')
		for i, e := range v {
			if i > 0 {
				out = append(out, ',')
			}
			var ok bool
			if out, ok = appendAnswer(out, e); !ok {
				return out, false
			}
		}
		return append(out, ']'), true
	case nil, bool, string, float64, fmt.Stringer: // json.Number is a Stringer
		out = append(out, encode(v)...)
	default:
		out = append(out, encode(fmt.Sprint(v))...)
	}
	return out, len(out) <= maxAnswer
}
