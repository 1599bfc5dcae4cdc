package gate

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/mcp-gate/mcp-gate/internal/strictjson"
	"github.com/mcp-gate/mcp-gate/policy"
)

// logLevels are MCP's, least first.
var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// usualLevel is the least level for a client that never named one. Debug messages are
// for the people who wrote the server.
const usualLevel = "info"

// loud reports whether a message's level is at least the level that is wanted.
func loud(level, wanted string) bool {
	return slices.Index(logLevels, level) >= slices.Index(logLevels, wanted)
}

// wanted is the least level of log messages for a client of an earlier revision, which
// names it once for all requests, or never.
func (d *side) wanted() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.level == "" {
		return usualLevel
	}
	return d.level
}

// SetLogLevel sets the least level of log messages that a client of an earlier revision
// wants from now on. Servers are asked for the least level that any client wants.
func (s *Session) SetLogLevel(ctx context.Context, level string) {
	s.side.mu.Lock()
	s.side.level = level
	s.side.mu.Unlock()
	s.g.relevel(ctx)
}

// logging is the level of logs that servers were asked for.
type logging struct {
	mu    sync.Mutex // held while they are asked, or an older level could be the last that they hear of
	level string
}

// relevel asks servers for the least level that any client wants, or for the usual
// level where no client names one.
func (g *Gate) relevel(ctx context.Context) {
	g.logging.mu.Lock()
	defer g.logging.mu.Unlock()
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
	if standing, ok := g.opts.Caller.(Standing); ok && g.logging.level != least {
		standing.SetLogLevel(ctx, least)
	}
	g.logging.level = least
}

// logged passes a log message on, to the client of the call that it belongs to. Where
// that call is not known, the message goes to the one client whose calls the server is
// working on. Where the server is working on none, it goes to all clients, provided
// that they are all one principal's: nobody else may read what may be about a call.
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

// log gives a log message to a session's client, if the client wants messages of that
// level and policy lets the message leave.
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

// namedLogger puts the server's alias before the name of the logger.
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
