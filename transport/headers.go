package transport

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// foreign says why a request must not be served whatever its token: a web page
// may be behind it. "" means it may. Host comes first because a name that was
// made to resolve to this machine passes for the same origin.
func (h *HTTP) foreign(r *http.Request) string {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !h.expects(r.Host, local) {
		return fmt.Sprintf("host %q is not served here", r.Host)
	}
	for _, origin := range r.Header.Values("Origin") {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || !h.expects(u.Host, local) {
			return fmt.Sprintf("origin %q is not allowed", origin)
		}
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" {
		return "requests of other sites are not allowed"
	}
	return ""
}

// expects reports whether host, as a client wrote it, names this server.
func (h *HTTP) expects(host string, local net.Addr) bool {
	host = strings.ToLower(host)
	if slices.Contains(h.o.Hosts, host) {
		return true
	}
	tcp, ok := local.(*net.TCPAddr)
	if !ok {
		return false
	}
	name, port := host, "80" // the port that may be left out
	if at := strings.LastIndexByte(host, ':'); at > strings.LastIndexByte(host, ']') {
		name, port = host[:at], host[at+1:]
	}
	return port == strconv.Itoa(tcp.Port) && (name == "localhost" || name == "127.0.0.1" || name == "[::1]")
}

func mismatch(format string, a ...any) *jsonrpc.Error {
	return &jsonrpc.Error{Code: codeHeaderMismatch, Message: "header mismatch: " + fmt.Sprintf(format, a...)}
}

// header returns the one value of a header, which may stand in base64.
func header(headers http.Header, name string) (value string, present bool, e *jsonrpc.Error) {
	values := headers.Values(name)
	switch {
	case len(values) == 0:
		return "", false, nil
	case len(values) > 1:
		return "", true, mismatch("%s is given %d times", name, len(values))
	}
	value = strings.Trim(values[0], " \t")
	for i := range len(value) {
		if c := value[i]; c != '\t' && (c < 0x20 || c > 0x7e) {
			return "", true, mismatch("%s holds a character that no header may", name)
		}
	}
	if coded, ok := strings.CutPrefix(value, "=?base64?"); ok && strings.HasSuffix(coded, "?=") {
		plain, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(coded, "?="))
		if err != nil {
			return "", true, mismatch("%s is not valid base64", name)
		}
		return string(plain), true, nil
	}
	return value, true, nil
}

// checkVersion compares the version in the header with that in the body. Of a
// body that names none there is nothing to compare.
func checkVersion(headers http.Header, d declared) *jsonrpc.Error {
	const name = "MCP-Protocol-Version"
	value, present, e := header(headers, name)
	switch {
	case e != nil:
		return e
	case !present:
		return mismatch("%s is missing", name)
	case !d.has && !slices.Contains(supported, value):
		return unsupportedVersion(value)
	case d.has && value != d.version:
		return mismatch("%s is %q, the body says %q", name, value, d.version)
	}
	return nil
}

// mcpNames says of which member Mcp-Name is the value.
var mcpNames = map[string]string{"tools/call": "name", "prompts/get": "name", "resources/read": "uri",
	"tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId"}

// checkHeaders compares what a modern client repeats in headers with the body,
// which is what counts.
func checkHeaders(headers http.Header, m jsonrpc.Message, p params) *jsonrpc.Error {
	if e := checkHeader(headers, "Mcp-Method", m.Method); e != nil {
		return e
	}
	source, named := mcpNames[m.Method]
	if !named {
		return nil
	}
	want, e := p.text(source)
	if e != nil || want == "" {
		return nil // the body's own fault, which is told apart from here
	}
	return checkHeader(headers, "Mcp-Name", want)
}

func checkHeader(headers http.Header, name, want string) *jsonrpc.Error {
	value, present, e := header(headers, name)
	switch {
	case e != nil:
		return e
	case !present:
		return mismatch("%s is missing", name)
	case value != want:
		return mismatch("%s is %q, the body says %q", name, value, want)
	}
	return nil
}

// paramHeader says that an argument is repeated in a header.
type paramHeader struct {
	path   []string // member names that lead to the argument
	header string
}

// paramHeaders are the x-mcp-header annotations of the tools that a session
// offers, by tool. They are read once, and again after the one change that its
// list may go through.
type paramHeaders struct {
	mu      sync.Mutex // guards what follows; not held while a list is made
	read    bool
	changed bool // it is the list after the change
	tools   map[string][]paramHeader
}

func (ph *paramHeaders) of(ctx context.Context, ses Session) (map[string][]paramHeader, error) {
	changed := false
	select {
	case <-ses.Changed():
		changed = true
	default:
	}
	ph.mu.Lock()
	tools, good := ph.tools, ph.read && ph.changed == changed
	ph.mu.Unlock()
	if good {
		return tools, nil
	}
	list, err := ses.ListTools(ctx)
	if err != nil {
		return nil, err
	}
	tools = readParamHeaders(list)
	ph.mu.Lock()
	defer ph.mu.Unlock()
	if changed || !ph.changed { // else somebody read the later one meanwhile
		ph.read, ph.changed, ph.tools = true, changed, tools
	}
	return tools, nil
}

// checkParamHeaders compares the Mcp-Param headers of a tools/call with the
// arguments, for the parameters that the tool's schema marks.
func (s *session) checkParamHeaders(ctx context.Context, ses Session, headers http.Header, p params) *jsonrpc.Error {
	name, e := p.text("name")
	if e != nil {
		return nil // refused with the rest of the params
	}
	tools, err := s.lists.of(ctx, ses)
	if err != nil {
		return internalError(err)
	}
	for _, ph := range tools[name] {
		if e := ph.check(headers, p.get("arguments")); e != nil {
			return e
		}
	}
	return nil
}

func readParamHeaders(list json.RawMessage) map[string][]paramHeader {
	if !bytes.Contains(list, []byte(`"x-mcp-header"`)) {
		return nil
	}
	var tools []json.RawMessage
	if json.Unmarshal(list, &tools) != nil {
		return nil
	}
	found := make(map[string][]paramHeader)
	for _, raw := range tools {
		tool, err := parseParams(raw)
		if err != nil {
			continue
		}
		name, _ := tool.text("name")
		if phs := annotated(tool.get("inputSchema"), nil); len(phs) > 0 {
			found[name] = phs
		}
	}
	return found
}

// annotated finds the marked properties that are reached through "properties"
// alone; any other place has no meaning (2026-07-28, streamable HTTP).
func annotated(schema json.RawMessage, path []string) []paramHeader {
	node, err := parseParams(schema)
	if err != nil {
		return nil
	}
	var found []paramHeader
	if name, e := node.text("x-mcp-header"); e == nil && name != "" && len(path) > 0 {
		found = append(found, paramHeader{slices.Clone(path), "Mcp-Param-" + name})
	}
	properties, e := node.object("properties")
	if e != nil {
		return found
	}
	for _, m := range properties {
		found = append(found, annotated(m.Value, append(path, m.Name))...)
	}
	return found
}

func (ph paramHeader) check(headers http.Header, args json.RawMessage) *jsonrpc.Error {
	value := args
	for _, name := range ph.path {
		if value == nil || value[0] != '{' {
			value = nil
			break
		}
		value, _, _ = strictjson.Get(value, name) // the whole message was checked
	}
	got, present, e := header(headers, ph.header)
	absent := value == nil || string(value) == "null"
	switch {
	case e != nil:
		return e
	case absent && present:
		return mismatch("%s is given, but the body has no such argument", ph.header)
	case absent:
		return nil
	case !present:
		return mismatch("%s is missing", ph.header)
	case !sameValue(got, value):
		return mismatch("%s does not match the argument", ph.header)
	}
	return nil
}

// sameValue compares a header with a string, boolean or number of the body.
// Numbers are compared as such: annotated ones fit a double.
func sameValue(header string, body json.RawMessage) bool {
	if s, ok := asString(body); ok {
		return header == s
	}
	if header == string(body) {
		return true
	}
	a, err := strconv.ParseFloat(header, 64)
	b, err2 := strconv.ParseFloat(string(body), 64)
	return err == nil && err2 == nil && a == b
}
