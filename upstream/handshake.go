package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// What is spoken with servers: specification 2026-07-28, basic/versioning.
const (
	modernVersion = "2026-07-28"
	offered       = "2025-11-25" // in initialize

	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaClient       = "io.modelcontextprotocol/clientInfo"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaLogLevel     = "io.modelcontextprotocol/logLevel"

	codeUnsupportedVersion = -32022

	// probeTimeout is how long a server over stdio may keep silent about
	// server/discover before it is taken for an older one.
	probeTimeout = 5 * time.Second
)

// legacyVersions are the versions an initialize may be answered with.
var legacyVersions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}

// errNotModern says that a server does not know 2026-07-28.
var errNotModern = errors.New("the server does not speak " + modernVersion)

func (o *Options) clientInfo() json.RawMessage {
	b := strictjson.AppendString([]byte(`{"name":`), o.ClientName)
	b = strictjson.AppendString(append(b, `,"version":`...), o.ClientVersion)
	return append(b, '}')
}

// connect opens a connection and settles the protocol on it. Where the probe
// for a modern server cost an older one its life, a second connection goes
// straight to initialize.
func (s *server) connect(ctx context.Context) (conn, *session, error) {
	c, sess, err := s.connectAs(ctx, s.cfg.Era)
	var e *Error
	if s.cfg.Era == Auto && s.cfg.URL == "" && errors.As(err, &e) && e.Kind == Lost {
		c.close()
		return s.connectAs(ctx, Legacy)
	}
	return c, sess, err
}

func (s *server) connectAs(ctx context.Context, era Era) (conn, *session, error) {
	c, err := s.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	sess := &session{s: s, conn: c}
	if err := sess.shakeHands(ctx, era); err != nil {
		return c, nil, err
	}
	return c, sess, nil
}

func (x *session) shakeHands(ctx context.Context, era Era) error {
	if era != Legacy {
		err := x.discover(ctx)
		if err == nil || era == Modern || !errors.Is(err, errNotModern) {
			return err
		}
		return x.initialize(ctx)
	}
	err := x.initialize(ctx)
	var no *jsonrpc.Error
	if errors.As(err, &no) && (no.Code == jsonrpc.CodeMethodNotFound || no.Code == codeUnsupportedVersion) && x.discover(ctx) == nil {
		return nil // it knows no handshake any more
	}
	return err
}

// discover asks for a modern server. An error that wraps errNotModern means
// that an older one is there.
func (x *session) discover(ctx context.Context) error {
	probe, cancel := context.WithTimeout(ctx, x.s.probe())
	defer cancel()
	x.modern = true
	x.conn.agreed(modernVersion, true)
	resp, err := x.call(probe, Request{Method: "server/discover"}, 0)
	if err == nil && resp.Error != nil && takesModern(resp.Error) {
		resp, err = x.call(probe, Request{Method: "server/discover"}, 0)
	}
	if err == nil && resp.Error == nil {
		err := x.takeDiscovery(resp.Result)
		if err == nil {
			return nil
		}
		resp.Error = &jsonrpc.Error{Message: err.Error()}
	}
	x.modern = false
	x.conn.agreed("", false)
	switch {
	case err == nil:
		return fmt.Errorf("%w: %w", errNotModern, resp.Error)
	case err.Kind == Timeout && ctx.Err() == nil, err.Kind == Refused, err.Kind == Invalid:
		return fmt.Errorf("%w: %w", errNotModern, err)
	}
	return err
}

// probe is how long a server may keep silent about server/discover. Over HTTP
// every request has a response, an older server's as well, so that silence says
// no more than that the server is busy; it leaves as much time for initialize.
func (s *server) probe() time.Duration {
	if s.cfg.URL != "" {
		return max(probeTimeout, s.cfg.StartTimeout/2)
	}
	return probeTimeout
}

// takesModern reports whether a refusal of the version names the very version
// among those that are taken. The specification has a client try again then.
func takesModern(e *jsonrpc.Error) bool {
	var data struct{ Supported []string }
	return e.Code == codeUnsupportedVersion && json.Unmarshal(e.Data, &data) == nil && slices.Contains(data.Supported, modernVersion)
}

func (x *session) takeDiscovery(result json.RawMessage) error {
	var r struct {
		SupportedVersions []string        `json:"supportedVersions"`
		Capabilities      json.RawMessage `json:"capabilities"`
		Instructions      string          `json:"instructions"`
		Meta              json.RawMessage `json:"_meta"`
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return err
	}
	if !slices.Contains(r.SupportedVersions, modernVersion) {
		return fmt.Errorf("it supports %s", strings.Join(r.SupportedVersions, ", "))
	}
	x.version, x.capabilities, x.instructions = modernVersion, r.Capabilities, r.Instructions
	if extensions, ok, err := strictjson.Get(r.Capabilities, "extensions"); err == nil && ok && extensions[0] == '{' {
		_, x.tasks, _ = strictjson.Get(extensions, extTasks)
	}
	if r.Meta != nil {
		x.serverInfo, _, _ = strictjson.Get(r.Meta, "io.modelcontextprotocol/serverInfo")
	}
	return nil
}

// initialize is the handshake up to 2025-11-25.
func (x *session) initialize(ctx context.Context) error {
	b := append([]byte(`{"protocolVersion":"`+offered+`","capabilities":`), x.s.o.Capabilities...)
	b = append(append(b, `,"clientInfo":`...), x.s.o.clientInfo()...)
	resp, e := x.call(ctx, Request{Method: "initialize", Params: append(b, '}')}, 0)
	if e != nil {
		return e
	}
	if resp.Error != nil {
		return fmt.Errorf("it refused initialize: %w", resp.Error)
	}
	var r struct {
		ProtocolVersion string          `json:"protocolVersion"`
		Capabilities    json.RawMessage `json:"capabilities"`
		ServerInfo      json.RawMessage `json:"serverInfo"`
		Instructions    string          `json:"instructions"`
	}
	if err := json.Unmarshal(resp.Result, &r); err != nil {
		return fmt.Errorf("its answer to initialize: %w", err)
	}
	if !slices.Contains(legacyVersions, r.ProtocolVersion) {
		return &Error{
			Server: x.s.cfg.Alias, Kind: StartFailed,
			Hint: "use another version of the server, or update mcp-gate",
			Err: fmt.Errorf("it answered protocol version %q to the offered %q, and only %s are known",
				r.ProtocolVersion, offered, strings.Join(legacyVersions, ", ")),
		}
	}
	x.version, x.capabilities, x.serverInfo, x.instructions = r.ProtocolVersion, r.Capabilities, r.ServerInfo, r.Instructions
	x.conn.agreed(x.version, false)
	return x.notify(ctx, "notifications/initialized", nil)
}

// hasTools reports whether tools/list may be sent. A server that says nothing at
// all about its capabilities, or that it has nothing, is asked, and may refuse:
// some declare nothing and list tools all the same.
func (x *session) hasTools() (has, sure bool) {
	if x.declares("tools") {
		return true, true
	}
	return !slices.ContainsFunc([]string{"resources", "prompts", "completions", "logging"}, x.declares), false
}

// startStuck says that a start took too long.
type startStuck struct {
	method string
	after  time.Duration
}

func (e *startStuck) Error() string {
	if e.method == "" {
		return fmt.Sprintf("it was not up after %v", rounded(e.after))
	}
	return fmt.Sprintf("it did not answer %s within %v", e.method, rounded(e.after))
}
