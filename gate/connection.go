package gate

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/policy"
)

// A server with Server.Own has a connection for each session that calls it, and
// one more that belongs to nobody, over which its lists are asked for. What it
// says and asks on a session's connection is for that session's client alone.

// Leaver is the optional part of a [Caller] that gives sessions connections of their
// own.
type Leaver interface {
	// Leave ends a session's own connections. It does not block.
	Leave(s *Session)
}

type connectionKey struct{}

// OnConnection returns the context for [Gate.Answer] and [Gate.Notice] of a message
// that came on a session's own connection, and for [Gate.Answer] of a request about one
// of several calls of a session.
func OnConnection(ctx context.Context, s *Session) context.Context {
	return context.WithValue(ctx, connectionKey{}, s)
}

// ownSession is the session on whose own connection a message came; nil where it came
// on the connection that all share.
func (g *Gate) ownSession(ctx context.Context, server string) *Session {
	if !g.server(server).Own {
		return nil
	}
	s, _ := ctx.Value(connectionKey{}).(*Session)
	return s
}

// onOwn is the context of a request that a session makes outside any call. The request
// goes over the session's own connection, if it has one.
func (s *Session) onOwn(ctx context.Context, server string) context.Context {
	if !s.g.server(server).Own {
		return ctx
	}
	return context.WithValue(ctx, flightKey{}, &flight{s: s, c: &call{entry: nothing}, server: server})
}

// answer answers a request of which it is known that it is for this session, but not to
// which call it belongs. It asks the client on a stream that takes questions, else
// through the newest call of the session that the server is working on: the next one
// where that ends before there is an answer.
func (s *Session) answer(ctx context.Context, server, method string, params json.RawMessage) (json.RawMessage, *jsonrpc.Error) {
	if carries[method] == 0 || method == "notifications/message" {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found: " + method}
	}
	if method == "roots/list" && s.who.Scope != policy.ScopeAdmin {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no client offers " + method}
	}
	if l := s.side.asker(method); l != nil {
		given, e := s.admit(l.Declared, server, method, params)
		if e != nil {
			return nil, e
		}
		s.g.relay.note(s.watch(server, stringOf(orEmpty(params), "elicitationId")), s)
		return l.Ask(ctx, method, given)
	}
	for _, f := range s.g.relay.over(server) {
		if f.s != s || f.c.client == nil {
			continue
		}
		asking, end := s.g.relay.during(ctx, f)
		result, e := f.ask(asking, method, params)
		end()
		if e == nil || ctx.Err() != nil || f.over.Err() == nil {
			return result, e
		}
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: fmt.Sprintf("the client whose call this belongs to cannot be asked for %s now", method)}
}

// leaveIfEnded ends the session's own connections where the session has ended. It is
// for calls that end later than their session: those that were under way, and those
// that are run for a session that is gone. Each may have opened a connection.
func (s *Session) leaveIfEnded(server string) {
	if !s.g.server(server).Own {
		return
	}
	s.g.mu.Lock()
	alive := s.g.live[s]
	s.g.mu.Unlock()
	if l, ok := s.g.opts.Caller.(Leaver); ok && !alive {
		l.Leave(s)
	}
}
