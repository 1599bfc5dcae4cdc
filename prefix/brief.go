package prefix

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mcp-gate/mcp-gate/internal/canonjson"
)

// Brief is the task of a sub-agent. It comes as the first message of the user,
// behind its parent's prefix, which stays as it is and so stays cached.
type Brief struct {
	Role   string          // may be empty
	For    string          // for whom it works; "" is the main conversation
	Task   string          // what it is to do
	Inputs json.RawMessage // a JSON value; nil, null, {}, [] and "" are left out
	Tools  []string        // what it may call, in this order; none: the read-only tools
}

// Text returns the message. Inputs that are no JSON are an error.
func (b Brief) Text() (string, error) {
	who := "You are a sub-agent"
	if role := oneLine(b.Role); role != "" {
		who += " in the role of " + role
	}
	lines := []string{
		fmt.Sprintf("%s, working for %s. Do this and nothing beyond it:", who, cmp.Or(oneLine(b.For), "the main conversation")),
		strings.TrimSpace(b.Task),
	}
	if len(b.Inputs) > 0 {
		inputs, err := canonjson.Append(nil, b.Inputs)
		if err != nil {
			return "", fmt.Errorf("brief a sub-agent: its inputs: %w", err)
		}
		switch string(inputs) {
		case "null", "{}", "[]", `""`:
		default:
			lines = append(lines, "Inputs: "+string(inputs))
		}
	}
	lines = append(lines,
		"You may call: "+cmp.Or(strings.Join(b.Tools, ", "), "the read-only tools")+".",
		`End with one JSON object and nothing else: {"summary": "two or three sentences", "findings": ["..."], "operation_ids": ["..."], "artifact_ids": ["..."]}`)
	return strings.Join(lines, "\n"), nil
}
