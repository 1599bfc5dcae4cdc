package gate

import (
	"encoding/json"
	"fmt"

	"github.com/mcp-gate/mcp-gate/internal/strictjson"
	"github.com/mcp-gate/mcp-gate/policy"
)

// refusal is the result that a model gets in place of the tool's own: the code, one
// sentence that says what it may do instead, and the same for programs. Why adds facts
// that only the caller knew; it may be nil. It is the result of a tool and no protocol
// error, so that the client shows it to the model.
func refusal(d policy.Decision, ticket string, why error) json.RawMessage {
	sentence := d.ForModel()
	if why != nil {
		sentence += " (" + why.Error() + ")"
	}
	return refused(d.Code, d.Rule, sentence, ticket, d.Retryable())
}

func refused(code policy.Code, rule, sentence, ticket string, retryable bool) json.RawMessage {
	text := fmt.Sprintf("refused [%s]: %s", code, sentence)
	return textResult(true, []string{text}, nil, refusalMeta(code, rule, ticket, retryable, false))
}

// refusalMeta is the member of "_meta" that tells programs of a refusal. An executed
// call ran, and only its result was refused. Ticket may be "".
func refusalMeta(code policy.Code, rule, ticket string, retryable, executed bool) member {
	raw := strictjson.AppendString([]byte(`{"code":`), code.String())
	raw = strictjson.AppendString(append(raw, `,"rule":`...), rule)
	if ticket != "" {
		raw = strictjson.AppendString(append(raw, `,"ticket":`...), ticket)
	}
	raw = fmt.Appendf(raw, `,"retryable":%t,"executed":%t}`, retryable, executed)
	return member{metaPrefix + "refusal", raw}
}

// ranMeta is refusalMeta for a call that ran. Calling again would run it again.
func ranMeta(code policy.Code, rule, ticket string) member {
	return refusalMeta(code, rule, ticket, false, true)
}

// wrongShape is the answer to a meta tool's arguments that do not fit it.
func wrongShape(tool, format string, args ...any) Outcome {
	sentence := tool + " " + fmt.Sprintf(format, args...)
	return Outcome{Result: refused(policy.CodeArguments, "meta."+tool, sentence, "", false)}
}
