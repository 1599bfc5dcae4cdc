package gate

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// visit is what was sent to a person's browser, by its server and elicitation id.
type visit struct {
	watch
	s *Session
}

// maxOpened is how many visits to a URL are remembered; older ones get no
// notice of their end, without which the protocol lives.
const maxOpened = 1000

// note remembers who was sent to a URL, for the notice that tells its end.
func (r *relay) note(w watch, s *Session) {
	if w.name == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opened = slices.DeleteFunc(r.opened, func(v visit) bool { return v.watch == w })
	if len(r.opened) >= maxOpened {
		r.opened = slices.Delete(r.opened, 0, 1)
	}
	r.opened = append(r.opened, visit{w, s})
}

// visited takes what is remembered of a visit; nil where that is nothing.
func (r *relay) visited(w watch) *Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.opened, func(v visit) bool { return v.watch == w })
	if i < 0 {
		return nil
	}
	s := r.opened[i].s
	r.opened = slices.Delete(r.opened, i, i+1)
	return s
}

// forget lets go of what is remembered for a session that is over.
func (r *relay) forget(s *Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opened = slices.DeleteFunc(r.opened, func(v visit) bool { return v.s == s })
}

// codeURLElicitation says that a person has to visit a URL first: 2025-11-25.
const codeURLElicitation = -32042

// mustOpen turns the error that a person has to visit a URL first into the
// requests that a modern client takes in its place.
func (s *Session) mustOpen(f *flight, err error) (json.RawMessage, bool) {
	var theirs *jsonrpc.Error
	if !errors.As(err, &theirs) || theirs.Code != codeURLElicitation || f.c.client == nil {
		return nil, false
	}
	var data struct {
		Elicitations []json.RawMessage `json:"elicitations"`
	}
	if json.Unmarshal(theirs.Data, &data) != nil || len(data.Elicitations) == 0 {
		return nil, false
	}
	if !f.c.client.Modern() {
		for _, e := range data.Elicitations {
			s.g.relay.note(s.watch(f.server, stringOf(e, "elicitationId")), s)
		}
		return nil, false // it knows what to do
	}
	requests := []byte{'{'}
	for _, e := range data.Elicitations {
		if len(requests) > 1 {
			requests = append(requests, ',')
		}
		requests = append(strictjson.AppendString(requests, s.g.relay.round()), ':')
		requests = appendRequest(requests, "elicitation/create", withoutElicitationID(e))
	}
	return append(requests, '}'), true
}

// withoutElicitationID takes out what 2026-07-28 does not know any more.
func withoutElicitationID(params json.RawMessage) json.RawMessage {
	if out, err := strictjson.Delete(params, "elicitationId"); err == nil {
		return out
	}
	return params
}

// translated turns a server's error into one that the client's revision has.
func translated(err error, f *flight) error {
	var theirs *jsonrpc.Error
	if !errors.As(err, &theirs) || f.c.client == nil {
		return err
	}
	if f.c.client.Modern() && theirs.Code == codeURLElicitation {
		return &jsonrpc.Error{Code: CodeUpstream, Message: theirs.Message, Data: theirs.Data}
	}
	if theirs.Code == codeURLElicitation {
		return &jsonrpc.Error{Code: theirs.Code, Message: theirs.Message, Data: visits(f.server, theirs.Data)}
	}
	return err
}

// visits are the data of an error that sends a person to URLs first, each headed
// by the server's alias, without those that nobody is sent to.
func visits(server string, data json.RawMessage) json.RawMessage {
	raw, ok, err := strictjson.Get(orEmpty(data), "elicitations")
	var all []json.RawMessage
	if err != nil || !ok || json.Unmarshal(raw, &all) != nil {
		return data
	}
	list := []byte{'['}
	for _, e := range all {
		given, bad := headed(server, e)
		if bad != nil || !visitable(e) {
			continue
		}
		if len(list) > 1 {
			list = append(list, ',')
		}
		list = append(list, given...)
	}
	if out, err := strictjson.Set(data, "elicitations", append(list, ']')); err == nil {
		data = out
	}
	return data
}

// visited passes on that a visit to a URL is over, to whoever was sent there.
func (g *Gate) visited(server string, of *Session, params json.RawMessage) {
	w := watch{server, stringOf(orEmpty(params), "elicitationId"), of}
	if s := g.relay.visited(w); s != nil {
		if !s.lately().mayPass(server, orEmpty(params)) {
			params = memberOnly("elicitationId", w.name)
		}
		s.side.tell("notifications/elicitation/complete", params, "")
	}
}
