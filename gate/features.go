package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/canonjson"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
	"github.com/mcp-gate/mcp-gate/policy"
)

// Requests for resources and prompts, and messages of servers, are judged as if they
// were calls of tools named by their method: ALIAS/resources/read, ALIAS/prompts/get and
// so on. Rules match these names, and the owner's "tools" globs declare what they carry
// out. Their class is always read. A rule's args look at the request's own params: /uri,
// /name, /arguments/....

// aside is a call of something other than a tool, under the name that policy and audit
// know it by. It has no id yet, since it may be judged without being made.
func (s *Session) aside(alias, method string, args json.RawMessage) *call {
	entry := &catalog.Entry{Tool: catalog.Tool{ID: catalog.ToolID{Server: alias, Tool: method}}}
	entry.Class = catalog.Class{Permission: engagement.Read, Egress: carries[method], Why: "read by the protocol"}
	if owner := s.g.server(alias).Owner; owner != nil {
		o := owner(method)
		if o.Egress != 0 {
			entry.Class.Egress = o.Egress
		}
		if o.Domains != nil {
			entry.Class.Domains = *o.Domains
		}
	}
	return &call{name: entry.ID.String(), args: args, entry: entry, known: true}
}

// carries is the class of what the answer to each method takes out, unless the owner
// declares another. For a request of a server it is the class of what reaches the
// client: a form's text goes to a person, the messages of a sampling go into a model.
var carries = map[string]engagement.Egress{
	"resources/read":         engagement.RowLevel,
	"prompts/get":            engagement.RowLevel,
	"completion/complete":    engagement.Metadata,
	"resources/subscribe":    engagement.Metadata,
	"notifications/message":  engagement.RowLevel,
	"elicitation/create":     engagement.Metadata,
	"sampling/createMessage": engagement.RowLevel,
	"roots/list":             engagement.Metadata,
	artifactsRead:            engagement.RowLevel, // the gate's own; see Session.local
}

// use judges and makes a request that is not a call of a tool.
func (s *Session) use(ctx context.Context, req Request) Outcome {
	if out, ok := s.artifactResource(ctx, req); ok {
		return out
	}
	if out, ok := s.gateAnswer(ctx, req); ok {
		return out
	}
	args, alias, e := s.localized(ctx, req)
	if e != nil {
		return Outcome{Error: e}
	}
	c := s.aside(alias, req.Method, args)
	c.id, c.meta, c.progress, c.canAsk, c.client = s.nextCall(), req.Meta, req.Progress, req.CanAsk, req.Client
	c.ownURI = !strings.HasPrefix(req.Name, uriScheme)
	return s.road(ctx, c)
}

// asideParams are the params of a request that is not a call of a tool: the caller's own
// bytes, except for the name.
func (c *call) asideParams() json.RawMessage {
	if c.meta == nil {
		return c.args
	}
	params, err := strictjson.Set(c.args, "_meta", c.meta)
	if err != nil { // the arguments were read before
		return c.args
	}
	return params
}

// CodeRefused is the JSON-RPC code of a refusal of a request that is not a call of a
// tool. It lies outside the range that JSON-RPC and MCP keep for themselves.
const CodeRefused = -31003

// AsError turns a refusal, which has the form of a tool's result, into an error. It is
// for requests that are not calls of tools.
func (o Outcome) AsError() Outcome {
	if o.Result == nil || !failed(o.Result) {
		return o
	}
	var said struct {
		Content []struct{ Text string } `json:"content"`
	}
	meta, _, err := strictjson.Get(o.Result, "_meta")
	if err != nil || !bytes.Contains(meta, []byte(`"`+metaPrefix)) || json.Unmarshal(o.Result, &said) != nil || len(said.Content) == 0 {
		return o
	}
	return Outcome{Error: &jsonrpc.Error{Code: CodeRefused, Message: said.Content[0].Text, Data: meta}}
}

func callError(err error) *jsonrpc.Error {
	var theirs *jsonrpc.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &theirs):
		theirs, _ = cleanedError(theirs)
		return theirs
	}
	return &jsonrpc.Error{Code: CodeUpstream, Message: err.Error()}
}

// permitted judges and records what runs at once or not at all: nobody can be asked about
// it. An error says why it must not run.
func (s *Session) permitted(c *call) *jsonrpc.Error {
	digest, err := canonjson.Digest(orEmpty(c.args))
	if err != nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	c.digest, c.ungranted = digest, true // grants are only for what a person is asked about
	_, d := s.decide(context.Background(), c)
	kind := audit.Note
	runs := d.Verdict == policy.Run || d.Verdict == policy.Review
	if !runs {
		kind = audit.Refusal
	}
	if err := s.g.opts.Audit.Record(s.event(kind, c, d)); err != nil {
		s.g.opts.Log.Error("nothing is passed on while the audit log cannot be written", "error", err)
		return &jsonrpc.Error{Code: CodeRefused, Message: "refused [audit]: what happens cannot be written down now"}
	}
	switch {
	case runs:
		return nil
	case d.Verdict != policy.Deny:
		return &jsonrpc.Error{Code: CodeRefused, Message: fmt.Sprintf("refused [%s]: %v needs a person's yes, which cannot be had for it", policy.CodeNoPerson, c.entry.ID)}
	}
	return &jsonrpc.Error{Code: CodeRefused, Message: fmt.Sprintf("refused [%s]: %s", d.Code, d.ForModel())}
}
