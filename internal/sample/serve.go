package sample

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/jsonschema"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

const (
	maxLine = 16 << 20
	atOnce  = 5 // calls
)

// toolFunc runs a tool. An error is one of the protocol; what the tool itself
// has to say of a failure is a result.
type toolFunc func(ctx context.Context, args json.RawMessage) (*mcp.CallToolResult, error)

// server is a sample server as its clients have it, of either era of the
// protocol.
type server struct {
	about        json.RawMessage // name, version and title
	instructions string
	tools        []mcp.Tool // sorted by name
	handlers     map[string]toolFunc
	log          *slog.Logger
}

// listen answers until in ends or ctx is done.
func (s *server) listen(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.read(ctx, cancel, in, out) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done(): // a read cannot be called back: it is left behind
		return nil
	}
}

func (s *server) read(ctx context.Context, cancel func(), in io.Reader, out io.Writer) error {
	var writing sync.Mutex
	answer := func(line []byte) {
		writing.Lock()
		defer writing.Unlock()
		if _, err := out.Write(append(line, '\n')); err != nil {
			cancel() // nobody reads any more
		}
	}
	var calls sync.WaitGroup
	defer calls.Wait()
	places := make(chan struct{}, atOnce)
	lines := jsonrpc.NewLineReader(in, maxLine)
	for {
		line, err := lines.Next()
		if tooLong, ok := errors.AsType[*jsonrpc.TooLongError](err); ok && !tooLong.Endless {
			answer(jsonrpc.AppendError(nil, tooLong.ID(), &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error()}))
			continue
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		m, err := jsonrpc.Parse(line)
		if err != nil {
			answer(refusal(m.ID, err))
			continue
		}
		if !m.IsRequest() {
			continue
		}
		calls.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			result, err := s.answer(ctx, m)
			if err != nil {
				answer(refusal(m.ID, err))
				return
			}
			answer(jsonrpc.AppendResult(nil, m.ID, result))
		})
	}
}

// refusal is an answer that is an error.
func refusal(id json.RawMessage, err error) []byte {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		e = &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: err.Error()}
	}
	if invalid, ok := errors.AsType[*jsonrpc.InvalidError](err); ok {
		id, e.Code = invalid.ID, jsonrpc.CodeInvalidRequest
		if id == nil {
			e.Code = jsonrpc.CodeParse
		}
	}
	return jsonrpc.AppendError(nil, id, e)
}

// answer is the result of one request, as clients of its era want it.
func (s *server) answer(ctx context.Context, m jsonrpc.Message) (json.RawMessage, error) {
	var p struct {
		Meta struct {
			Version string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
		Version   string          `json:"protocolVersion"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if m.Params != nil {
		if err := json.Unmarshal(m.Params, &p); err != nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the parameters of " + m.Method + " cannot be read: " + err.Error()}
		}
	}
	modern := p.Meta.Version == mcp.LATEST_PROTOCOL_VERSION
	if p.Meta.Version != "" && !modern {
		data, err := json.Marshal(map[string]any{"supported": mcp.ValidProtocolVersions, "requested": p.Meta.Version})
		return nil, errors.Join(err, &jsonrpc.Error{Code: codeUnsupportedVersion, Message: "Unsupported protocol version", Data: data})
	}
	capabilities := map[string]any{"tools": struct{}{}}
	var result any
	switch {
	case m.Method == "ping":
		result = struct{}{}
	case m.Method == "initialize" && !modern:
		result = map[string]any{"protocolVersion": mcp.NegotiateLegacyVersion(p.Version), "capabilities": capabilities, "serverInfo": s.about, "instructions": s.instructions}
	case m.Method == "server/discover" && modern:
		result = map[string]any{"supportedVersions": mcp.ValidProtocolVersions, "capabilities": capabilities, "instructions": s.instructions, "ttlMs": 0, "cacheScope": "private"}
	case m.Method == "tools/list":
		list := map[string]any{"tools": s.tools}
		if modern {
			list["ttlMs"], list["cacheScope"] = 0, "private"
		}
		result = list
	case m.Method == "tools/call":
		r, err := s.call(ctx, p.Name, p.Arguments)
		if err != nil {
			return nil, err
		}
		result = r
	default:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method " + m.Method + " not found"}
	}
	raw, err := json.Marshal(result)
	if err != nil || !modern {
		return raw, err
	}
	if raw, err = strictjson.Set(raw, "resultType", []byte(`"complete"`)); err != nil {
		return nil, err
	}
	return strictjson.Set(raw, "_meta", slices.Concat([]byte(`{"io.modelcontextprotocol/serverInfo":`), s.about, []byte{'}'}))
}

// codeUnsupportedVersion is the specification's.
const codeUnsupportedVersion = -32022

// call runs a tool whose arguments fit its schema. A tool that panics costs this
// call alone.
func (s *server) call(ctx context.Context, name string, args json.RawMessage) (result *mcp.CallToolResult, err error) {
	i, ok := slices.BinarySearchFunc(s.tools, name, func(t mcp.Tool, name string) int { return strings.Compare(t.Name, name) })
	if !ok {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("there is no tool %q", name)}
	}
	t := s.tools[i]
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s failed: %v", name, r)
		}
		s.log.Debug("tool call", "tool", name, "failed", err != nil || result.IsError)
	}()
	if args == nil {
		args = json.RawMessage("{}")
	}
	if err := fits(t.RawInputSchema, args); err != nil {
		return mcp.NewToolResultErrorf("the arguments do not fit: %v", err), nil
	}
	result, err = s.handlers[name](ctx, args)
	if err != nil || result.IsError || result.StructuredContent == nil || t.RawOutputSchema == nil {
		return result, err
	}
	structured, err := json.Marshal(result.StructuredContent)
	if err != nil {
		return nil, err
	}
	if err := fits(t.RawOutputSchema, structured); err != nil {
		return mcp.NewToolResultErrorf("the result does not fit its schema: %v", err), nil
	}
	return result, nil
}

// fits holds a value against a schema.
func fits(schema, value json.RawMessage) error {
	const here = "tool:schema"
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(here, doc); err != nil {
		return err
	}
	compiled, err := c.Compile(here)
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return err
	}
	if err := compiled.Validate(v); err != nil {
		_, places, _ := strings.Cut(err.Error(), "\n- ") // behind what it was held against
		return errors.New(strings.ReplaceAll(places, "\n- ", "; "))
	}
	return nil
}

func newServer(name string, f *folder, log *slog.Logger) (*server, error) {
	k, ok := kinds[name]
	if !ok {
		return nil, &UnknownError{name}
	}
	tools, err := load(name)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(tools, func(a, b mcp.Tool) int { return strings.Compare(a.Name, b.Name) })
	about, err := json.Marshal(mcp.Implementation{Name: "sample-" + name, Version: version, Title: k.title})
	if err != nil {
		return nil, err
	}
	s := &server{about, k.instructions, tools, k.handlers(f), log}
	for _, t := range tools {
		if s.handlers[t.Name] == nil {
			return nil, fmt.Errorf("sample server %s: tool %s has no handler", name, t.Name)
		}
	}
	return s, nil
}
