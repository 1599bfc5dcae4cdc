package gate

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
	"github.com/mcp-gate/mcp-gate/policy"
)

// admit judges one request of a server for a client that declared these
// capabilities, and returns its params as the client gets them.
func (s *Session) admit(declared json.RawMessage, server, method string, params json.RawMessage) (json.RawMessage, *jsonrpc.Error) {
	if !offers(declared, method, params) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the client does not offer " + method + " in this form"}
	}
	params, _ = cleaned(params)
	if method == "elicitation/create" && !visitable(params) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "a person is sent to http and https addresses only"}
	}
	c := s.aside(server, method, orEmpty(params))
	c.id = s.nextCall()
	if e := s.permitted(c); e != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: e.Message}
	}
	if method == "sampling/createMessage" {
		if e := s.samples(c); e != nil {
			return nil, e
		}
	}
	passes := s.mayPass
	if method == "elicitation/create" { // its schema may hold choices that look like records
		passes = s.wordsMayPass
	}
	if !passes(server, orEmpty(params)) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "refused [egress]: what " + method + " carries may not leave"}
	}
	if method != "elicitation/create" {
		return params, nil
	}
	return headed(server, params)
}

// offers reports whether a client that declared these capabilities answers a request.
func offers(declared json.RawMessage, method string, params json.RawMessage) bool {
	name, _, _ := strings.Cut(method, "/")
	if _, ok := carries[method]; !ok || !slices.Contains([]string{"elicitation", "sampling", "roots"}, name) {
		return false
	}
	raw, ok, err := strictjson.Get(orEmpty(declared), name)
	if err != nil || !ok || raw[0] != '{' {
		return false
	}
	has := func(obj json.RawMessage, member string) bool {
		v, ok, err := strictjson.Get(orEmpty(obj), member)
		return err == nil && ok && string(v) != "null"
	}
	switch name {
	case "elicitation":
		if stringOf(orEmpty(params), "mode") == "url" {
			return has(raw, "url")
		}
		return has(raw, "form") || !has(raw, "url") // an empty object means forms
	case "sampling":
		return has(raw, "tools") || !has(params, "tools") && !has(params, "toolChoice")
	}
	return true
}

// visitable reports whether a person may be shown an elicitation: either it has no
// URL, or its URL opens a web page rather than a program or a file.
func visitable(elicitation json.RawMessage) bool {
	if stringOf(orEmpty(elicitation), "mode") != "url" {
		return true
	}
	u, err := url.Parse(stringOf(elicitation, "url"))
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

// headed puts the server's alias before its words for a person, who could not tell
// them from the gate's own words otherwise.
func headed(server string, params json.RawMessage) (json.RawMessage, *jsonrpc.Error) {
	out, err := strictjson.Set(params, "message", strictjson.AppendString(nil, "["+server+"] "+stringOf(params, "message")))
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	return out, nil
}

// How much a server may use the client's model. A client that does not show samplings
// to a person pays for all of them.
const (
	maxSamplings    = 100
	samplingsWithin = 10 * time.Minute
)

// samples counts one sampling of a server against the server's bound in the session
// and against what the session may spend. An error says which of them is used up.
func (s *Session) samples(c *call) *jsonrpc.Error {
	server, now := c.entry.ID.Server, s.g.opts.Now()
	s.side.mu.Lock()
	recent := slices.DeleteFunc(s.side.samplings[server], func(at time.Time) bool { return now.Sub(at) >= samplingsWithin })
	full := len(recent) >= maxSamplings
	if !full {
		recent = append(recent, now)
	}
	if s.side.samplings == nil {
		s.side.samplings = map[string][]time.Time{}
	}
	s.side.samplings[server] = recent
	s.side.mu.Unlock()
	var why string
	switch d := (policy.Decision{Verdict: policy.Deny, Rule: "samplings"}); {
	case full:
		why = fmt.Sprintf("refused: of one server at most %d samplings in %v go to a client; wait", maxSamplings, samplingsWithin)
		s.g.writeDown(s.event(audit.Refusal, c, d))
	case !s.charge(context.Background()):
		d.Code = policy.CodeSpend
		why = "refused [spend]: the session has used up its calls"
		s.g.writeDown(s.event(audit.Refusal, c, d))
	default:
		return nil
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: why}
}
