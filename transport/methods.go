package transport

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"

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
	return terms{version: version, client: name, asks: declaresForm(capabilities)}, nil
}

// initialize answers the handshake; its terms were settled when the request
// was read, so that what follows it at once is served by them.
func initialize(_ context.Context, x *exchange, ses Session) (json.RawMessage, *jsonrpc.Error) {
	b := strictjson.AppendString([]byte(`{"protocolVersion":`), x.terms.version)
	b = appendMember(b, "capabilities", ses.Capabilities())
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
// its own: what is offered depends on the token and the profile.
func (x *exchange) appendCache(b []byte) []byte {
	if !x.terms.modern {
		return b
	}
	b = append(b, `,"ttlMs":`...)
	b = strconv.AppendInt(b, x.c.srv.o.ListTTL.Milliseconds(), 10)
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
	return x.complete(append(x.appendCache(b), '}'), ses)
}

var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

func setLevel(_ context.Context, x *exchange, _ Session) (json.RawMessage, *jsonrpc.Error) {
	level, e := x.params.text("level")
	if e != nil {
		return nil, e
	}
	if !slices.Contains(logLevels, level) {
		return nil, invalidParams("unknown level %q: want one of %v", level, logLevels)
	}
	x.c.mu.Lock()
	x.c.logLevel = level
	x.c.mu.Unlock()
	return json.RawMessage(`{}`), nil
}

// listen serves subscriptions/listen: it says what will be sent, then sends it
// until the client cancels or leaves, or the gate stops. Of the filter only
// toolsListChanged is granted; the rest needs capabilities that are not served.
func listen(ctx context.Context, x *exchange, ses Session) (json.RawMessage, *jsonrpc.Error) {
	filter, e := x.params.object("notifications")
	if e != nil {
		return nil, e
	}
	if !x.out.streams() {
		return nil, invalidParams("subscriptions/listen needs an answer that streams: accept text/event-stream")
	}
	granted := "{}"
	var changed <-chan struct{}
	if string(filter.get("toolsListChanged")) == "true" && listChanged(ses, "tools") {
		granted, changed = `{"toolsListChanged":true}`, ses.Changed()
	}
	select {
	case <-changed: // what the client lists from now on is what it will stay
		changed = nil
	default:
	}
	meta := append([]byte(`{"_meta":{"`+metaSubscription+`":`), x.msg.ID...)
	ack := append(slices.Clone(meta), `},"notifications":`+granted+`}`...)
	x.send(ctx, jsonrpc.AppendNotification(nil, "notifications/subscriptions/acknowledged", ack))
	for {
		select {
		case <-changed:
			x.send(ctx, jsonrpc.AppendNotification(nil, noticeToolsChanged, append(slices.Clone(meta), `}}`...)))
			changed = nil
		case <-x.c.stopped:
			return x.complete(append(slices.Clone(meta), `}}`...), ses)
		case <-ctx.Done():
			return nil, internalError(ctx.Err())
		}
	}
}

const noticeToolsChanged = "notifications/tools/list_changed"

// listChanged reports whether ses declares listChanged for a capability.
func listChanged(ses Session, capability string) bool {
	raw, _, err := strictjson.Get(ses.Capabilities(), capability)
	if err != nil {
		return false
	}
	on, _, err := strictjson.Get(raw, "listChanged")
	return err == nil && string(on) == "true"
}
