package transport

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/mcp-gate/mcp-gate/gate"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// method is how one JSON-RPC method is served. Exactly one of bare and serve
// is set.
type method struct {
	legacy, modern bool
	needs          string // the server capability without which it does not exist
	// bare serves without a session.
	bare func(context.Context, *exchange) (json.RawMessage, *jsonrpc.Error)
	// serve returns the whole result, in the form that x.terms ask for.
	serve func(context.Context, *exchange, Session) (json.RawMessage, *jsonrpc.Error)
}

func (m method) in(modern bool) bool {
	if modern {
		return m.modern
	}
	return m.legacy
}

// methods is all that is served; any other method is -32601.
var methods = map[string]method{
	"initialize":           {legacy: true, serve: initialize},
	"ping":                 {legacy: true, bare: ping},
	"server/discover":      {modern: true, serve: discover},
	"subscriptions/listen": {modern: true, serve: listen},
	"logging/setLevel":     {legacy: true, needs: "logging", serve: setLevel},
	"tools/list":           {legacy: true, modern: true, needs: "tools", serve: listTools},
	"tools/call":           {legacy: true, modern: true, needs: "tools", serve: callTool},

	"prompts/list":             {legacy: true, modern: true, needs: "prompts", serve: list("prompts", gate.Prompts)},
	"prompts/get":              {legacy: true, modern: true, needs: "prompts", serve: use("name")},
	"resources/list":           {legacy: true, modern: true, needs: "resources", serve: list("resources", gate.Resources)},
	"resources/templates/list": {legacy: true, modern: true, needs: "resources", serve: list("resourceTemplates", gate.Templates)},
	"resources/read":           {legacy: true, modern: true, needs: "resources", serve: use("uri")},
	"resources/subscribe":      {legacy: true, needs: "resources", serve: follow(Session.Subscribe)},
	"resources/unsubscribe":    {legacy: true, needs: "resources", serve: follow(Session.Unsubscribe)},
	"tasks/get":                {modern: true, needs: "extensions", serve: getTask},
	"tasks/update":             {modern: true, needs: "extensions", serve: updateTask},
	"tasks/cancel":             {modern: true, needs: "extensions", serve: cancelTask},
	"completion/complete":      {legacy: true, modern: true, needs: "completions", serve: use("")},
}

func ping(context.Context, *exchange) (json.RawMessage, *jsonrpc.Error) {
	return json.RawMessage(`{}`), nil
}

// readInitialize judges the params of an initialize. An unknown version is
// answered with the newest legacy one, which the client may take or leave.
func readInitialize(p params) (terms, *jsonrpc.Error) {
	if e := p.unfolded("protocolVersion", "capabilities", "clientInfo"); e != nil {
		return terms{}, e
	}
	version, e := p.text("protocolVersion")
	if e != nil {
		return terms{}, e
	}
	capabilities, e := p.object("capabilities")
	if e != nil {
		return terms{}, e
	}
	client, e := p.object("clientInfo")
	if e != nil {
		return terms{}, e
	}
	name, _ := client.text("name") // a label only
	if !isLegacy(version) {
		version = version2025
	}
	return terms{version: version, client: name, asks: declaresForm(capabilities), declared: p.get("capabilities")}, nil
}

// initialize answers the handshake; its terms were settled when the request
// was read, so that what follows it at once is served by them.
func initialize(_ context.Context, x *exchange, ses Session) (json.RawMessage, *jsonrpc.Error) {
	capabilities, err := strictjson.Delete(ses.Capabilities(), "extensions") // of 2026-07-28
	if err != nil {
		return nil, internalError(err)
	}
	b := strictjson.AppendString([]byte(`{"protocolVersion":`), x.terms.version)
	b = appendMember(b, "capabilities", capabilities)
	b = appendMember(b, "serverInfo", ses.ServerInfo())
	b = appendInstructions(b, ses)
	return append(b, '}'), nil
}

func discover(_ context.Context, x *exchange, ses Session) (json.RawMessage, *jsonrpc.Error) {
	b := append([]byte(`{"supportedVersions":`), supportedJSON()...)
	b = appendMember(b, "capabilities", ses.Capabilities())
	b = appendInstructions(b, ses)
	return x.complete(append(x.appendCache(b), '}'), ses)
}

func appendInstructions(b []byte, ses Session) []byte {
	if text := ses.Instructions(); text != "" {
		b = append(b, `,"instructions":`...)
		b = strictjson.AppendString(b, text)
	}
	return b
}

func appendMember(b []byte, name string, raw json.RawMessage) []byte {
	b = append(b, `,"`...)
	b = append(b, name...)
	b = append(b, `":`...)
	return append(b, raw...)
}

// appendCache says how long a modern client may keep a list, and that it is
// its own: what is offered depends on the token and the profile. The shortest
// of what is known of the list's own age counts.
func (x *exchange) appendCache(b []byte, ttls ...time.Duration) []byte {
	if !x.terms.modern {
		return b
	}
	ttl := x.c.srv.o.ListTTL
	for _, t := range ttls {
		if t >= 0 {
			ttl = min(ttl, t)
		}
	}
	b = append(b, `,"ttlMs":`...)
	b = strconv.AppendInt(b, ttl.Milliseconds(), 10)
	return append(b, `,"cacheScope":"private"`...)
}

func listTools(ctx context.Context, x *exchange, ses Session) (json.RawMessage, *jsonrpc.Error) {
	if x.params.get("cursor") != nil {
		return nil, invalidParams("unknown cursor: the list has one page")
	}
	tools, err := ses.ListTools(ctx)
	if err != nil {
		return nil, internalError(err)
	}
	b := make([]byte, 0, len(tools)+512)
	b = append(b, `{"tools":`...)
	b = append(b, tools...)
	if !x.terms.modern {
		return append(b, '}'), nil // nothing in it is for another era
	}
	return x.complete(append(x.appendCache(b), '}'), ses)
}

var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

func unknownLevel(level string) *jsonrpc.Error {
	return invalidParams("unknown level %q: want one of %v", level, logLevels)
}

func setLevel(ctx context.Context, x *exchange, ses Session) (json.RawMessage, *jsonrpc.Error) {
	level, e := x.params.text("level")
	if e != nil {
		return nil, e
	}
	if !slices.Contains(logLevels, level) {
		return nil, unknownLevel(level)
	}
	ses.SetLogLevel(ctx, level)
	return json.RawMessage(`{}`), nil
}
