package gate

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
	"github.com/mcp-gate/mcp-gate/prefix"
)

// The gate's own prompts and its resource stand first in the lists, where no
// server is shown as it is.
const (
	promptPrefix = "prefix"
	promptBrief  = "subagent_brief"
	uriPrefix    = "gate://prefix"
)

var gateEntries = map[Kind][]json.RawMessage{
	Prompts: {
		json.RawMessage(`{"name":"prefix","title":"Rules and tool catalogue","description":"The bytes a conversation begins with: who the assistant is, the house rules, and every tool by name and purpose. They stay the same, so that a prompt cache pays."}`),
		json.RawMessage(`{"name":"subagent_brief","title":"Brief for a sub-agent","description":"The first message of a sub-agent that works behind its parent's prefix.","arguments":[{"name":"task","description":"What it is to do.","required":true},{"name":"role","description":"In which role."},{"name":"for","description":"For whom it works; the main conversation if left out."},{"name":"inputs","description":"A JSON value that it is given."},{"name":"tools","description":"Names of the tools it may call, with commas between; the read-only ones if left out."}]}`),
	},
	Resources: {
		json.RawMessage(`{"uri":"gate://prefix","name":"prefix","title":"Rules and tool catalogue","description":"The bytes a conversation begins with.","mimeType":"text/plain"}`),
	},
}

// gateList is what the gate itself has of a kind.
func (s *Session) gateList(kind Kind) []json.RawMessage {
	if s.profile.Exposure == Transparent {
		return nil
	}
	return gateEntries[kind]
}

// firstPrefix is [Session.Prefix], which waits before it is first given as a first list
// does: the one of a home that is new would name no tools for the life of the session.
func (s *Session) firstPrefix(ctx context.Context) prefix.Prefix {
	s.listing.Lock()
	given := s.prefix != nil
	s.listing.Unlock()
	if !given && s.g.await(ctx, s.g.opts.FirstList, s.aliases()...) && ctx.Err() == nil {
		s.g.noteSilent(s.aliases())
	}
	return s.Prefix()
}

// gateAnswer answers for the gate's own prompts and resource.
func (s *Session) gateAnswer(ctx context.Context, req Request) (Outcome, bool) {
	if s.profile.Exposure == Transparent {
		return Outcome{}, false
	}
	switch {
	case req.Method == "resources/read" && req.Name == uriPrefix:
		b := strictjson.AppendString([]byte(`{"contents":[{"uri":"gate://prefix","mimeType":"text/plain","text":`), s.firstPrefix(ctx).Plain())
		return Outcome{Result: append(b, `}]}`...)}, true
	case req.Method == "prompts/get" && req.Name == promptPrefix:
		return Outcome{Result: promptResult(s.firstPrefix(ctx).Plain())}, true
	case req.Method == "prompts/get" && req.Name == promptBrief:
		text, err := briefOf(req.Args)
		if err != nil {
			return Outcome{Error: &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}}, true
		}
		return Outcome{Result: promptResult(text)}, true
	}
	return Outcome{}, false
}

func promptResult(text string) json.RawMessage {
	b := strictjson.AppendString([]byte(`{"messages":[{"role":"user","content":{"type":"text","text":`), text)
	return append(b, `}}]}`...)
}

// briefOf reads the arguments of the prompt; params are those of prompts/get.
func briefOf(params json.RawMessage) (string, error) {
	var p struct {
		Arguments struct{ Task, Role, For, Inputs, Tools string }
	}
	if err := json.Unmarshal(orEmpty(params), &p); err != nil {
		return "", fmt.Errorf("arguments of %s must be texts: %w", promptBrief, strictjson.Misfit(err))
	}
	a := p.Arguments
	if strings.TrimSpace(a.Task) == "" {
		return "", fmt.Errorf("%s needs a task", promptBrief)
	}
	brief := prefix.Brief{Role: a.Role, For: a.For, Task: a.Task}
	if a.Inputs != "" {
		brief.Inputs = json.RawMessage(a.Inputs)
	}
	for _, tool := range strings.Split(a.Tools, ",") {
		if tool = strings.TrimSpace(tool); tool != "" {
			brief.Tools = append(brief.Tools, tool)
		}
	}
	return brief.Text()
}
