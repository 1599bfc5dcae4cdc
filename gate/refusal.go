package gate

import (
	"encoding/json"
	"fmt"

	"github.com/mcp-gate/mcp-gate/internal/strictjson"
	"github.com/mcp-gate/mcp-gate/policy"
)

// refusal is the result a model gets in place of the tool's own: the code, one
// sentence that says what it may do instead, and the same for programs. Why adds
// facts that only the caller knew; it may be nil. It is
// a tool result, never shaped as an invalid request, so that a client shows it
// to the model and does not take it for its own mistake.
func refusal(d policy.Decision, ticket string, why error) json.RawMessage {
	sentence := d.ForModel()
	if why != nil {
		sentence += " (" + why.Error() + ")"
	}
	return refused(d.Code, d.Rule, sentence, ticket, d.Retryable())
}

func refused(code policy.Code, rule, sentence, ticket string, retryable bool) json.RawMessage {
	meta := []byte(`{"mcp-gate/refusal":{"code":`)
	meta = strictjson.AppendString(meta, code.String())
	meta = append(meta, `,"rule":`...)
	meta = strictjson.AppendString(meta, rule)
	if ticket != "" {
		meta = append(meta, `,"ticket":`...)
		meta = strictjson.AppendString(meta, ticket)
	}
	meta = fmt.Appendf(meta, `,"retryable":%t,"executed":false}}`, retryable)
	text := fmt.Sprintf("refused [%s]: %s", code, sentence)
	return textResult(true, []string{text}, member{"_meta", meta})
}

// wrongShape is the answer to a meta tool's arguments that do not fit it.
func wrongShape(tool, format string, args ...any) Outcome {
	text := fmt.Sprintf("refused [%s]: %s %s", policy.CodeArguments, tool, fmt.Sprintf(format, args...))
	meta := fmt.Appendf(nil, `{"mcp-gate/refusal":{"code":"%s","rule":"meta.%s","retryable":false,"executed":false}}`, policy.CodeArguments, tool)
	return Outcome{Result: textResult(true, []string{text}, member{"_meta", meta})}
}
