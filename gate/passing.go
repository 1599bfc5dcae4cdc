package gate

import (
	"encoding/json"

	"github.com/mcp-gate/mcp-gate/artifacts"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// passing returns the params of a progress notification as the client gets them: only
// the numbers where the rest may not leave.
func (s *Session) passing(c *call, params json.RawMessage) json.RawMessage {
	params, _ = cleaned(orEmpty(params))
	found := artifacts.InspectValue(params)
	if !within(c.declared().Union(found.Classes), s.allowed(c.entry.ID.Server)) {
		return numbers(params)
	}
	params = s.blackedOut(c.entry.ID.Server, params)
	if !found.Marks.Has(artifacts.MarkImitation) {
		return params
	}
	says := strictjson.AppendString(nil, c.entry.ID.Server+" says: "+stringOf(params, "message"))
	out, err := strictjson.Set(params, "message", says)
	if err != nil {
		return json.RawMessage("{}")
	}
	return out
}

// numbers are the members that count how far a call has come.
func numbers(params json.RawMessage) json.RawMessage {
	out := []byte{'{'}
	for m := range strictjson.Walk(params) {
		switch m.Name {
		case "progressToken", "progress", "total":
			if m.Value[0] == '{' || m.Value[0] == '[' || len(m.Value) > 64 {
				continue
			}
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(append(strictjson.AppendString(out, m.Name), ':'), m.Value...)
		}
	}
	return append(out, '}')
}

// tellProgress passes progress notifications on as far as they may leave.
func (s *Session) tellProgress(c *call) func(json.RawMessage) {
	if c.progress == nil {
		return nil
	}
	return func(params json.RawMessage) { c.progress(s.passing(c, params)) }
}

// mayPass reports whether the data in a message that is no result may leave, judged only
// by what is found in it.
func (s *Session) mayPass(server string, value json.RawMessage) bool {
	at := s.look()
	return at.mayPass(server, value)
}

func (at *sight) mayPass(server string, value json.RawMessage) bool {
	return within(artifacts.InspectValue(value).Classes, at.allowed(server))
}

// blackedOut is a log message without secrets, where the owner wants that.
func (s *Session) blackedOut(server string, params json.RawMessage) json.RawMessage {
	if s.g.server(server).Secrets {
		params, _ = artifacts.RedactJSON(params)
	}
	return params
}

// wordsMayPass is mayPass with each text in the value looked at by itself. Looked at
// together, texts side by side would count as rows.
func (s *Session) wordsMayPass(server string, value json.RawMessage) bool {
	return within(wordsCarry(value), s.allowed(server))
}

// wordsCarry are the classes found in the texts of a value, each looked at by itself.
func wordsCarry(value json.RawMessage) (classes engagement.EgressSet) {
	switch value[0] {
	case '{':
		for m := range strictjson.Walk(value) {
			if len(m.Name) > 64 {
				classes = classes.Union(wordsCarry(strictjson.AppendString(nil, m.Name)))
			}
			classes = classes.Union(wordsCarry(m.Value))
		}
	case '[':
		for e := range strictjson.Elements(value) {
			classes = classes.Union(wordsCarry(e))
		}
	case '"':
		classes = artifacts.InspectValue(value).Classes
	}
	return classes
}
