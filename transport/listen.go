package transport

import (
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"

	"github.com/mcp-gate/mcp-gate/gate"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// maxTold is how many notifications may wait for a stream whose client does
// not read; further ones are lost to it.
const maxTold = 256

// told is a stream's queue of notifications.
type told chan note

type note struct {
	method string
	params json.RawMessage
}

// take queues one. It does not block. Of those that are lost the log is told at the
// first, the second, the fourth and so on: a server can send any number.
func (q told) take(c *conn) func(string, json.RawMessage) {
	var lost atomic.Uint64
	return func(method string, params json.RawMessage) {
		select {
		case q <- note{method, params}:
		default:
			if n := lost.Add(1); n&(n-1) == 0 {
				c.log.Warn("notifications are lost: the client does not read", "method", method, "lost", n)
			}
		}
	}
}

// line is the notification as a legacy client gets it.
func (n note) line() []byte {
	return jsonrpc.AppendNotification(nil, n.method, withoutSubscription(n.params))
}

// withoutSubscription takes out what a modern upstream put in for its own
// client, which is the gate.
func withoutSubscription(params json.RawMessage) json.RawMessage {
	meta, ok, err := strictjson.Get(orEmpty(params), "_meta")
	if err != nil || !ok || meta[0] != '{' {
		return params
	}
	kept, err := strictjson.Delete(meta, metaSubscription)
	if err != nil || len(kept) == len(meta) {
		return params
	}
	if out, err := strictjson.Set(params, "_meta", kept); err == nil {
		return out
	}
	return params
}

// tagged is the notification's params with the id of the subscription.
func (n note) tagged(id json.RawMessage) json.RawMessage {
	meta, ok, err := strictjson.Get(orEmpty(n.params), "_meta")
	if err != nil || !ok || meta[0] != '{' {
		meta = []byte("{}")
	}
	if meta, err = strictjson.Set(meta, metaSubscription, id); err != nil {
		return n.params
	}
	if out, err := strictjson.Set(orEmpty(n.params), "_meta", meta); err == nil {
		return out
	}
	return n.params
}

// listenAll gives a legacy client's stream, which send writes to, all that
// belongs to no request. It returns what queues up for it, and its end.
func (c *conn) listenAll(send func(context.Context, []byte) error) (told, func()) {
	c.mu.Lock()
	ses, t := c.ses, c.legacy
	c.mu.Unlock()
	if ses == nil || t == nil {
		return nil, func() {}
	}
	q := make(told, maxTold)
	return q, ses.Listen(&gate.Listener{
		Tell: q.take(c), Declared: t.declared, Ready: c.ready,
		Ask: func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, *jsonrpc.Error) {
			select {
			case <-c.ready:
			default:
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the client is not ready yet"}
			}
			return c.request(ctx, method, c.fitting(t.version, method, params), send)
		},
	})
}

// listen serves subscriptions/listen: it says what will be sent, then sends it
// until the client cancels or leaves, or the gate stops.
func listen(ctx context.Context, x *exchange, ses Session) (json.RawMessage, *jsonrpc.Error) {
	filter, e := x.params.object("notifications")
	if e != nil {
		return nil, e
	}
	if !x.out.streams() {
		return nil, invalidParams("subscriptions/listen needs an answer that streams: accept text/event-stream")
	}
	if filter.get("taskIds") != nil && !x.terms.takesTasks() {
		return nil, missingTasks() // who declares it is told of none all the same: it asks
	}
	g, e := x.grant(ctx, filter, ses)
	if e != nil {
		return nil, e
	}
	defer g.end()
	q := make(told, maxTold)
	defer ses.Listen(&gate.Listener{Tell: q.take(x.c), Only: &g.filter})()
	changed := g.changed
	select {
	case <-changed: // what the client lists from now on is what it will stay
		changed = nil
	default:
	}
	ack := note{params: append(append([]byte(`{"_meta":{},"notifications":`), g.words...), '}')}
	x.send(ctx, jsonrpc.AppendNotification(nil, "notifications/subscriptions/acknowledged", ack.tagged(x.msg.ID)))
	for {
		select {
		case <-changed:
			changed = nil
			x.send(ctx, jsonrpc.AppendNotification(nil, noticeToolsChanged, note{}.tagged(x.msg.ID)))
		case n := <-q:
			x.send(ctx, jsonrpc.AppendNotification(nil, n.method, n.tagged(x.msg.ID)))
		case <-x.c.stopped:
			return x.complete(note{}.tagged(x.msg.ID), ses)
		case <-ctx.Done():
			return nil, internalError(ctx.Err())
		}
	}
}

// granted is the part of a client's filter that is served.
type granted struct {
	filter  gate.Filter
	words   json.RawMessage // the filter that is acknowledged
	changed <-chan struct{} // the list of tools
	end     func()
}

// grant takes from the filter what capabilities allow, and follows the
// resources in it. One that cannot be followed is left out.
func (x *exchange) grant(ctx context.Context, filter params, ses Session) (granted, *jsonrpc.Error) {
	g := granted{words: []byte{'{'}}
	add := func(name string, value []byte) {
		if len(g.words) > 1 {
			g.words = append(g.words, ',')
		}
		g.words = append(strictjson.AppendString(g.words, name), ':')
		g.words = append(g.words, value...)
	}
	wants := func(name, capability string) bool {
		if string(filter.get(name)) != "true" || !listChanged(ses, capability) {
			return false
		}
		add(name, []byte("true"))
		return true
	}
	if wants("toolsListChanged", "tools") {
		g.changed = ses.Changed()
	}
	g.filter.Prompts = wants("promptsListChanged", "prompts")
	g.filter.Resources = wants("resourcesListChanged", "resources")
	var uris []string
	if raw := filter.get("resourceSubscriptions"); raw != nil && json.Unmarshal(raw, &uris) != nil {
		return g, invalidParams(`"resourceSubscriptions" must be a list of URIs`)
	}
	for _, uri := range uris {
		if slices.Contains(g.filter.URIs, uri) || !flagged(ses, "resources", "subscribe") {
			continue
		}
		if e := ses.Subscribe(ctx, uri); e != nil {
			x.c.log.Debug("resource not followed", "err", e)
			continue
		}
		g.filter.URIs = append(g.filter.URIs, uri)
	}
	if g.filter.URIs != nil {
		list := []byte{'['}
		for i, uri := range g.filter.URIs {
			if i > 0 {
				list = append(list, ',')
			}
			list = strictjson.AppendString(list, uri)
		}
		add("resourceSubscriptions", append(list, ']'))
	}
	g.words = append(g.words, '}')
	g.end = func() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), unwind)
		defer stop()
		for _, uri := range g.filter.URIs {
			if e := ses.Unsubscribe(ctx, uri); e != nil {
				x.c.log.Debug("resource still followed", "err", e)
			}
		}
	}
	return g, nil
}

const noticeToolsChanged = "notifications/tools/list_changed"

// listChanged reports whether ses declares listChanged for a capability.
func listChanged(ses Session, capability string) bool { return flagged(ses, capability, "listChanged") }

// flagged reports whether ses declares a capability with a member that is true.
func flagged(ses Session, capability, member string) bool {
	raw, ok, err := strictjson.Get(ses.Capabilities(), capability)
	if err != nil || !ok {
		return false
	}
	on, _, err := strictjson.Get(raw, member)
	return err == nil && string(on) == "true"
}

// follow serves resources/subscribe and resources/unsubscribe.
func follow(do func(Session, context.Context, string) *jsonrpc.Error) func(context.Context, *exchange, Session) (json.RawMessage, *jsonrpc.Error) {
	return func(ctx context.Context, x *exchange, ses Session) (json.RawMessage, *jsonrpc.Error) {
		uri, e := x.params.text("uri")
		if e == nil && uri == "" {
			e = invalidParams(`"uri" must be the URI of a resource`)
		}
		if e == nil && !flagged(ses, "resources", "subscribe") {
			e = notFound(x.msg.Method)
		}
		if e == nil {
			e = do(ses, ctx, uri)
		}
		if e != nil {
			return nil, e
		}
		return json.RawMessage(`{}`), nil
	}
}

// list serves one of the lists beside the tools. It has one page.
func list(member string, kind gate.Kind) func(context.Context, *exchange, Session) (json.RawMessage, *jsonrpc.Error) {
	return func(ctx context.Context, x *exchange, ses Session) (json.RawMessage, *jsonrpc.Error) {
		if x.params.get("cursor") != nil {
			return nil, invalidParams("unknown cursor: the list has one page")
		}
		l := ses.List(ctx, kind)
		b := append(strictjson.AppendString([]byte{'{'}, member), ':')
		b = append(b, l.Items...)
		return x.complete(append(x.appendCache(b, l.TTL), '}'), ses)
	}
}
