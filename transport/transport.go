// Package transport serves MCP to clients, over stdio and over streamable
// HTTP. It identifies who is there and carries messages; it decides nothing:
// each call goes to a [Session] as raw bytes and its outcome goes back as raw
// bytes.
//
// There is one dispatcher, which works on whole messages, under two carriers.
// It speaks the revisions with a handshake (2024-11-05 to 2025-11-25, "legacy"
// below) and the one without (2026-07-28, "modern"), side by side: a request
// that names its revision in _meta is served from what it carries, and an
// initialize selects the legacy rules for that stdio process or HTTP session.
//
// The dispatcher is own code because mcp-go's server (v1.2.1) cannot give what
// a gate owes: five workers stand still behind five calls that wait for a
// person, progress overtakes or follows its answer, a late reply is answered
// as if it were a request, cancelled calls are answered, and a message is
// parsed about six times and encoded anew. Here a request has its own
// goroutine, nothing holds up reading, one writer keeps the order, and
// arguments and results keep their bytes.
//
// A method is one row of the table in methods.go. What a server asks of the
// client while it works on a request goes out ahead of the answer (relay.go),
// or, to a modern client, in place of it: then the request is parked until the
// client sends it again with the answers (park.go).
//
// Start with [New], then [Server.ServeStdio] or [Server.HTTP]; [TokenFile]
// keeps the tokens that HTTP asks for.
package transport

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/mcp-gate/mcp-gate/gate"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
)

// Gate opens sessions.
type Gate interface {
	// Open starts a session on behalf of who. The session lasts until its
	// Close; ctx bounds the opening only. After an error there is no session,
	// and the next request of the same client tries again.
	Open(ctx context.Context, who gate.Identity) (Session, error)
	// HasProfile reports whether Open knows a profile; "" is the default one.
	HasProfile(name string) bool
}

// Session is one client's session with the gate. Its methods are called from
// many goroutines at once.
type Session interface {
	// Instructions is the text for the model, or "".
	Instructions() string
	// ServerInfo is the gate's own Implementation object, {"name","version",...}.
	ServerInfo() json.RawMessage
	// Capabilities is the server capabilities object, such as
	// {"tools":{"listChanged":true}}. A method whose capability is absent is
	// answered as an unknown one.
	Capabilities() json.RawMessage
	// ListTools returns the JSON array of the tool definitions, the same bytes
	// each time. It may wait for servers that start.
	ListTools(ctx context.Context) (json.RawMessage, error)
	// Call takes one tools/call, or another request that goes to a server, all
	// the way. When ctx ends the client has
	// cancelled the call or is gone, and nobody reads the outcome.
	Call(ctx context.Context, r gate.Request) gate.Outcome
	// Resume goes on with the call that ticket names, with a person's reply.
	// Of again only Meta, Progress and Client count: name and arguments are the
	// ones that were frozen. A ticket that was used before runs nothing again. Ctx
	// may have ended already, when the client went away before the answer.
	Resume(ctx context.Context, ticket string, reply gate.Reply, again gate.Request) gate.Outcome
	// List returns one of the lists beside the tools. It may wait for servers
	// that start.
	List(ctx context.Context, kind gate.Kind) gate.List
	// Subscribe and Unsubscribe begin and end that a Listener is told of
	// updates of a resource.
	Subscribe(ctx context.Context, uri string) *jsonrpc.Error
	Unsubscribe(ctx context.Context, uri string) *jsonrpc.Error
	// SetLogLevel is the least level of log messages that a legacy client wants;
	// one of MCP's words.
	SetLogLevel(ctx context.Context, level string)
	// Listen has a stream told what belongs to no request, until end is called.
	Listen(l *gate.Listener) (end func())
	// RootsChanged says that the client has other roots than before, or any.
	RootsChanged(ctx context.Context)
	// Changed is closed once the list that ListTools gave is out of date, at
	// most once in a session; nil means that it never is.
	Changed() <-chan struct{}
	// Close ends the session; no other method is called after it. The server
	// waits for it before it returns, a second at most.
	Close()
}

// Options are the settings of a [Server]. A zero field takes the default.
type Options struct {
	Log         *slog.Logger  // default: none
	Rand        io.Reader     // source of session ids; default crypto/rand
	MaxMessage  int64         // bytes of one message from a client; default 64 MiB
	MaxInFlight int           // requests being served at once, all clients together; default 10,000
	PerClient   int           // of one client, until their answers are on the way to it; default 1,000
	ClientBytes int64         // of the params of those; default twice MaxMessage. One alone always fits
	Grace       time.Duration // how long calls may finish after a client's end of input or a stop; default 5 s
	Tick        time.Duration // between progress notices while a person is asked; default 10 s
	ListTTL     time.Duration // ttlMs of lists for modern clients; default 5 min
	Park        time.Duration // how long a modern request waits for its client to come back with answers; default 5 min
}

// Server serves the sessions of one gate. It is safe for concurrent use, and
// may serve stdio and HTTP at once.
type Server struct {
	gate     Gate
	seal     *sealer
	o        Options
	log      *slog.Logger
	inFlight atomic.Int64
}

// New returns a server for g. The key seals what modern clients carry between
// a question and its answer; make it at random for each process.
func New(g Gate, key [32]byte, o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	def(&o.MaxMessage, 64<<20)
	def(&o.MaxInFlight, 10_000)
	def(&o.PerClient, 1000)
	def(&o.ClientBytes, 2*o.MaxMessage)
	def(&o.Grace, 5*time.Second)
	def(&o.Tick, 10*time.Second)
	def(&o.ListTTL, 5*time.Minute)
	def(&o.Park, 5*time.Minute)
	return &Server{gate: g, seal: newSealer(key), o: o, log: o.Log}
}

func def[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

var base32Lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
