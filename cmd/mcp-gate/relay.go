package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mcp-gate/mcp-gate/gate"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/upstream"
)

// relayed is what servers that begin with a handshake are told that clients can
// do. It is the same whoever is connected, since one connection serves all; a
// request that no client can take is refused at once. Servers that speak
// 2026-07-28 are told with each request what its own client can do.
var relayed = json.RawMessage(`{"roots":{"listChanged":true},"sampling":{"context":{},"tools":{}},"elicitation":{"form":{},"url":{}}}`)

// withRelay joins the servers' own requests and notifications to the gate.
func (e *engine) withRelay(o upstream.Options) upstream.Options {
	o.Capabilities = relayed
	o.OnRequest = func(ctx context.Context, alias, method string, params json.RawMessage) (json.RawMessage, *jsonrpc.Error) {
		return e.gate.Answer(onConnection(ctx), alias, method, params)
	}
	o.OnNotification = func(ctx context.Context, alias, method string, params json.RawMessage) {
		e.gate.Notice(onConnection(ctx), alias, method, params)
	}
	return o
}

// onConnection tells the gate on whose own connection a message came.
func onConnection(ctx context.Context) context.Context {
	if s, ok := upstream.OwnerOf(ctx).(*gate.Session); ok {
		return gate.OnConnection(ctx, s)
	}
	return ctx
}

// forOwner says on whose behalf a request is made that is no call.
func forOwner(ctx context.Context) context.Context {
	return upstream.WithOwner(ctx, sessionOf(ctx))
}

// sessionOf is the session whose request a context is of; nil for the gate's own.
func sessionOf(ctx context.Context) any {
	if s := gate.TermsOf(ctx).Session; s != nil {
		return s
	}
	return nil
}

var (
	_ gate.Standing = caller{}
	_ gate.Leaver   = caller{}
)

func (c caller) Leave(s *gate.Session) { c.pool.Leave(s) }

func (c caller) Subscribe(ctx context.Context, server, uri string) error {
	return c.answered(c.pool.Subscribe(forOwner(ctx), server, uri))
}

func (c caller) Unsubscribe(ctx context.Context, server, uri string) error {
	return c.answered(c.pool.Unsubscribe(forOwner(ctx), server, uri))
}

func (c caller) SetLogLevel(ctx context.Context, level string) { c.pool.SetLogLevel(ctx, level) }

func (c caller) Notify(ctx context.Context, server, method string, params json.RawMessage) {
	_ = c.pool.Notify(forOwner(ctx), server, method, params) // a server that does not run has nothing to learn
}

// answered turns a server's error, or the lack of an answer, into the error
// that the gate expects.
func (c caller) answered(resp upstream.Response, err error) error {
	if e, ok := errors.AsType[*upstream.Error](err); ok {
		return failure{e, c.discreet(e.Error())}
	}
	if err == nil && resp.Error != nil {
		return resp.Error
	}
	return err
}
