package gate

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// visit is a URL that a session's person was sent to. The watch holds the server and
// the elicitation id.
type visit struct {
	watch
	s *Session
}

// maxOpened is how many visits are remembered. The client is not told of the end of
// older ones; the protocol does not need it.
const maxOpened = 1000

// note remembers which session was sent to a URL, to tell it when the visit is over.
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

// visited forgets a visit and returns its session; nil if it is not remembered.
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

// forget drops the visits of a session that has ended.
func (r *relay) forget(s *Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opened = slices.DeleteFunc(r.opened, func(v visit) bool { return v.s == s })
}

// codeURLElicitation is the error of 2025-11-25 that a person has to visit a URL first.
const codeURLElicitation = -32042

// mustOpen turns the error that a person has to visit a URL first into requests, which
// a modern client gets instead. An older client gets the error itself.
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

// withoutElicitationID removes the elicitation id, which 2026-07-28 no longer has.
func withoutElicitationID(params json.RawMessage) json.RawMessage {
	if out, err := strictjson.Delete(params, "elicitationId"); err == nil {
		return out
	}
	return params
}

// translated turns a server's error into one that the client's protocol version knows.
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

// visits rewrites the data of the error that a person has to visit URLs first: each
// message begins with the server's alias, and URLs that nobody may be sent to are left
// out.
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

// visited tells the session that was sent to a URL that the visit is over.
func (g *Gate) visited(server string, of *Session, params json.RawMessage) {
	w := watch{server, stringOf(orEmpty(params), "elicitationId"), of}
	if s := g.relay.visited(w); s != nil {
		if !s.lately().mayPass(server, orEmpty(params)) {
			params = memberOnly("elicitationId", w.name)
		}
		s.side.tell("notifications/elicitation/complete", params, "")
	}
}
