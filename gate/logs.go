package gate

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/mcp-gate/mcp-gate/internal/strictjson"
	"github.com/mcp-gate/mcp-gate/policy"
)

// logLevels are MCP's, least first.
var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// usualLevel is what a client gets that never said what it wants: what servers
// tell for others to debug is not for it.
const usualLevel = "info"

// loud reports whether a message's level is at least the one that is wanted.
func loud(level, wanted string) bool {
	return slices.Index(logLevels, level) >= slices.Index(logLevels, wanted)
}

// wanted is the least level of log messages for a client that says it once for
// all requests, or never.
func (d *side) wanted() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.level == "" {
		return usualLevel
	}
	return d.level
}

// SetLogLevel is the least level of log messages that a client of an earlier
// revision wants from now on. Servers are asked for the least that any client
// wants.
func (s *Session) SetLogLevel(ctx context.Context, level string) {
	s.side.mu.Lock()
	s.side.level = level
	s.side.mu.Unlock()
	s.g.relevel(ctx)
}

// relevel asks servers for the least level that any client wants; where none
// says any more what it wants, for what such clients get.
func (g *Gate) relevel(ctx context.Context) {
	least := ""
	for _, other := range g.Sessions() {
		other.side.mu.Lock()
		if l := other.side.level; l != "" && (least == "" || loud(least, l)) {
			least = l
		}
		other.side.mu.Unlock()
	}
	if least == "" {
		least = usualLevel
	}
	g.features.mu.Lock()
	news := g.features.level != least
	g.features.level = least
	g.features.mu.Unlock()
	if standing, ok := g.opts.Caller.(Standing); ok && news {
		standing.SetLogLevel(ctx, least)
	}
}

// logged passes a log message on: to the client of the call it belongs to;
// where that cannot be told, to the one client whose calls the server works
// on, or, when it works on none, to all clients if these are all one
// principal's. Others must not read what may be about somebody's call.
func (g *Gate) logged(ctx context.Context, server string, params json.RawMessage) {
	level := stringOf(orEmpty(params), "level")
	if f, _ := ctx.Value(flightKey{}).(*flight); f != nil {
		f.s.log(f.c.client, server, level, params)
		return
	}
	var s *Session
	var client Client
	flights := g.relay.over(server)
	if own := g.ownSession(ctx, server); own != nil {
		flights = slices.DeleteFunc(flights, func(f *flight) bool { return f.s != own })
		if len(flights) == 0 {
			own.log(nil, server, level, params)
			return
		}
	}
	for _, f := range flights {
		if s != nil && s != f.s {
			g.opts.Log.Debug("a log message is not passed on: calls of several clients are under way", "server", server)
			return
		}
		s, client = f.s, f.c.client
	}
	if s != nil {
		if len(flights) > 1 && client != nil && client.Modern() {
			return // it would belong to one of its requests, and it cannot be told to which
		}
		s.log(client, server, level, params)
		return
	}
	var all []*Session
	for _, s := range g.Sessions() {
		if s.shows(server) {
			all = append(all, s)
		}
	}
	for _, s := range all {
		if s.who.Principal == all[0].who.Principal {
			continue
		}
		return
	}
	for _, s := range all {
		s.log(nil, server, level, params)
	}
}

// log gives a session's client a log message if it wants it and its server's
// records may leave.
func (s *Session) log(client Client, server, level string, params json.RawMessage) {
	if client != nil && client.Modern() {
		if wanted := client.LogLevel(); wanted == "" || !loud(level, wanted) {
			return
		}
	} else if !loud(level, s.side.wanted()) {
		return
	}
	c := s.aside(server, "notifications/message", params)
	c.at = s.lately()
	if d := policy.Decide(s.facts(c)); d.Verdict != policy.Run {
		s.g.opts.Log.Debug("a log message is withheld", "server", server, "code", d.Code)
		return
	}
	if !c.at.mayPass(server, params) {
		s.g.opts.Log.Debug("a log message is withheld for what is in it", "server", server)
		return
	}
	params = s.blackedOut(server, params)
	named, err := s.namedLogger(server, params)
	if err != nil {
		return
	}
	if client == nil || !client.Tell("notifications/message", named) {
		s.side.tell("notifications/message", named, "")
	}
}

// namedLogger says in the logger's name which server it is of.
func (s *Session) namedLogger(server string, params json.RawMessage) (json.RawMessage, error) {
	if s.profile.Exposure == Transparent {
		return params, nil
	}
	logger := server
	if own := stringOf(params, "logger"); own != "" {
		logger += "/" + own
	}
	return strictjson.Set(params, "logger", strictjson.AppendString(nil, logger))
}
