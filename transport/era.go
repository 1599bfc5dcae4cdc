package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// The revisions of MCP, newest first. Names are dates, so they compare as text.
const (
	version2026 = "2026-07-28" // the only modern one
	version2025 = "2025-11-25" // the newest legacy one
)

var supported = []string{version2026, version2025, "2025-06-18", "2025-03-26", "2024-11-05"}

func isLegacy(version string) bool {
	return version != version2026 && slices.Contains(supported, version)
}

// Keys of _meta that are the transport's own (2026-07-28, basic, _meta).
const (
	metaPrefix       = "io.modelcontextprotocol/"
	metaVersion      = metaPrefix + "protocolVersion"
	metaCapabilities = metaPrefix + "clientCapabilities"
	metaClient       = metaPrefix + "clientInfo"
	metaServer       = metaPrefix + "serverInfo"
	metaSubscription = metaPrefix + "subscriptionId"
	metaLogLevel     = metaPrefix + "logLevel"
	metaProgress     = "progressToken"
)

// Error codes that 2026-07-28 defines beside those of JSON-RPC.
const (
	codeHeaderMismatch     = -32020
	codeMissingCapability  = -32021 // given by an upstream only: who cannot be asked is not
	codeUnsupportedVersion = -32022
)

// terms are what may be relied on while one request is served: from its own
// _meta when it is modern, from the handshake when not.
type terms struct {
	modern  bool
	version string
	client  string // what the client calls itself
	asks    bool   // it declared form elicitation

	declared json.RawMessage // its capabilities object
	logLevel string          // of messages about this request, "" for none; modern only
}

// refusal is the answer to bytes that are no message. Where a request's id
// could be read before the fault it is echoed, since a client that cannot tell
// which of its requests failed would wait for ever. An answer of the client's
// is never answered: id is nil then, and answers is its id.
func refusal(line []byte, err error) (id, answers json.RawMessage, e *jsonrpc.Error) {
	bad := &jsonrpc.InvalidError{Code: jsonrpc.CodeParse, Err: err}
	errors.As(err, &bad)
	id = bad.ID
	method := false
	if errors.Is(err, strictjson.ErrDepth) {
		line = shallow(line)
	}
	for m, err := range strictjson.Object(line) {
		if err != nil {
			break
		}
		switch {
		case m.Name == "id" && id == nil && isToken(m.Value):
			id = m.Value
		case m.Name == "method":
			method = true
		}
	}
	e = &jsonrpc.Error{Code: int64(bad.Code), Message: bad.Error()}
	if !method && bad.ID == nil {
		return nil, id, e
	}
	return id, nil, e
}

// shallow is the beginning of a line up to where it may be too deep.
func shallow(line []byte) []byte {
	depth := 0
	for i, c := range line {
		if c != '[' && c != '{' {
			continue
		}
		if depth++; depth == strictjson.MaxDepth {
			return line[:i]
		}
	}
	return line
}

func invalidParams(format string, a ...any) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf(format, a...)}
}

func unsupportedVersion(requested string) *jsonrpc.Error {
	data := []byte(`{"supported":`)
	data = append(data, supportedJSON()...)
	data = append(data, `,"requested":`...)
	data = append(strictjson.AppendString(data, requested), '}')
	return &jsonrpc.Error{Code: codeUnsupportedVersion, Message: "unsupported protocol version", Data: data}
}

func supportedJSON() []byte {
	return []byte(`["` + strings.Join(supported, `","`) + `"]`)
}

// params are the members of a request's params, taken apart once. The values
// are parts of the message.
type params []strictjson.Member

func parseParams(raw json.RawMessage) (params, error) {
	if raw == nil {
		return nil, nil
	}
	p := make(params, 0, 4) // few have more
	for m, err := range strictjson.Object(raw) {
		if err != nil {
			return nil, err
		}
		p = append(p, m)
	}
	return p, nil
}

// get returns the raw value of a member; nil when it is absent or null.
func (p params) get(name string) json.RawMessage {
	for _, m := range p {
		if m.Name == name && string(m.Value) != "null" {
			return m.Value
		}
	}
	return nil
}

// text returns a member that must be a string; "" when it is absent or null.
func (p params) text(name string) (string, *jsonrpc.Error) {
	raw := p.get(name)
	if raw == nil {
		return "", nil
	}
	s, ok := asString(raw)
	if !ok {
		return "", invalidParams("%q must be a string", name)
	}
	return s, nil
}

// object returns the members of a member that must be an object.
func (p params) object(name string) (params, *jsonrpc.Error) {
	raw := p.get(name)
	if raw == nil {
		return nil, nil
	}
	sub, err := parseParams(raw)
	if err != nil {
		return nil, invalidParams("%q must be an object", name)
	}
	return sub, nil
}

// unfolded refuses a member that differs from one of names by case only.
func (p params) unfolded(names ...string) *jsonrpc.Error {
	for _, m := range p {
		if like, ok := strictjson.Folded(m.Name, names...); ok {
			return invalidParams("member %q is spelled like %q but is not it", m.Name, like)
		}
	}
	return nil
}

// asString decodes a raw member that is a string.
func asString(raw []byte) (string, bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	if bytes.IndexByte(raw, '\\') < 0 { // raw is a part of a message that was checked
		return string(raw[1 : len(raw)-1]), true
	}
	var s string
	return s, json.Unmarshal(raw, &s) == nil
}

// declared are a request's own words about its revision, before they are
// judged.
type declared struct {
	meta    params
	version string // from _meta
	has     bool   // _meta names a version
}

func readDeclared(p params) (declared, *jsonrpc.Error) {
	meta, e := p.object("_meta")
	if e != nil {
		return declared{}, e
	}
	version, e := meta.text(metaVersion)
	if e != nil {
		return declared{}, e
	}
	return declared{meta: meta, version: version, has: meta.get(metaVersion) != nil}, nil
}

// modernTerms judges a request by the rules of 2026-07-28: it must name a
// version that is spoken here and the client's capabilities.
func (d declared) modernTerms() (terms, *jsonrpc.Error) {
	if !d.has {
		return terms{}, invalidParams("_meta lacks %q", metaVersion)
	}
	if !slices.Contains(supported, d.version) {
		return terms{}, unsupportedVersion(d.version)
	}
	if d.meta.get(metaCapabilities) == nil {
		return terms{}, invalidParams("_meta lacks %q", metaCapabilities)
	}
	capabilities, e := d.meta.object(metaCapabilities)
	if e != nil {
		return terms{}, e
	}
	client, e := d.meta.object(metaClient)
	if e != nil {
		return terms{}, e
	}
	level, e := d.meta.text(metaLogLevel)
	if e != nil {
		return terms{}, e
	}
	if level != "" && !slices.Contains(logLevels, level) {
		return terms{}, unknownLevel(level)
	}
	name, _ := client.text("name") // a label only
	return terms{
		modern: true, version: d.version, client: name, asks: declaresForm(capabilities),
		declared: d.meta.get(metaCapabilities), logLevel: level,
	}, nil
}

// declaresForm reports whether capabilities hold form elicitation: an
// elicitation object that is empty or has "form". One with "url" alone has not.
func declaresForm(capabilities params) bool {
	elicitation, e := capabilities.object("elicitation")
	if e != nil || capabilities.get("elicitation") == nil {
		return false
	}
	return elicitation.get("form") != nil || elicitation.get("url") == nil
}
