package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// uriScheme begins the URI of a resource where several servers may be shown:
// mcp-gate://ALIAS/ and then the server's own URI, character for character. So the URI
// depends on nothing else, is taken apart by cutting, and a template stays a template.
const uriScheme = "mcp-gate://"

// gateSchemes are the gate's own. A server's resource is never found by a URI of one.
var gateSchemes = []string{"gate", "artifact", "mcp-gate"}

// outName is what the client calls a prompt, a resource or a template.
func (s *Session) outName(alias string, kind Kind, key string) string {
	switch {
	case s.profile.Exposure == Transparent:
		return key
	case kind == Prompts:
		return catalog.DirectName(catalog.ToolID{Server: alias, Tool: key})
	}
	return uriScheme + alias + "/" + key
}

// prompt finds the prompt that the client calls name.
func (s *Session) prompt(ctx context.Context, name string) (alias, own string, ok bool) {
	if s.profile.Exposure == Transparent {
		return s.sole, name, true
	}
	aliases := s.aliases()
	find := func(lists [][]item) bool {
		for i, items := range lists {
			for _, it := range items {
				if s.outName(aliases[i], Prompts, it.key) == name {
					alias, own, ok = aliases[i], it.key, true
				}
			}
		}
		return ok
	}
	if find(s.known(aliases, Prompts)) {
		return alias, own, true
	}
	ctx, cancel := context.WithTimeout(ctx, s.g.opts.FirstList)
	defer cancel()
	s.g.opts.Caller.Settled(ctx, aliases...)
	find(s.gather(ctx, aliases, Prompts))
	return alias, own, ok
}

// known are the last lists of these servers, without asking them.
func (s *Session) known(aliases []string, kind Kind) [][]item {
	lists := make([][]item, len(aliases))
	for i, alias := range aliases {
		lists[i] = s.g.features.shelf(shelfKey{alias, kind}).last()
	}
	return lists
}

// resource finds the server of a URI as the client wrote it, and the server's own URI.
// Clients take URIs without the gate's prefix from the results of tools. Such a one is
// found if exactly one server lists it, or has a template that begins like it, or has
// resources at all.
func (s *Session) resource(ctx context.Context, uri string) (alias, own string, ok bool) {
	if s.profile.Exposure == Transparent {
		return s.sole, uri, true
	}
	if rest, gates := strings.CutPrefix(uri, uriScheme); gates {
		alias, own, ok = strings.Cut(rest, "/")
		return alias, own, ok && s.shows(alias) && own != ""
	}
	if scheme, _, _ := strings.Cut(strings.ToLower(uri), ":"); slices.Contains(gateSchemes, scheme) {
		return "", "", false
	}
	ctx, cancel := context.WithTimeout(ctx, s.g.opts.FirstList)
	defer cancel()
	aliases := s.aliases()
	s.g.opts.Caller.Settled(ctx, aliases...)
	for _, kind := range []Kind{Resources, Templates} {
		var has []string
		for i, items := range s.gather(ctx, aliases, kind) {
			for _, it := range items {
				if it.matches(kind, uri) {
					has = append(has, aliases[i])
					break
				}
			}
		}
		if len(has) > 0 {
			return has[0], uri, len(has) == 1
		}
	}
	var has []string
	for _, alias := range aliases {
		if declared, _, err := strictjson.Get(orEmpty(s.g.opts.Caller.About(alias).Capabilities), "resources"); err == nil && declared != nil {
			has = append(has, alias)
		}
	}
	if len(has) == 1 {
		return has[0], uri, true
	}
	return "", "", false
}

func (it item) matches(kind Kind, uri string) bool {
	if kind == Resources {
		return it.key == uri
	}
	fixed, _, _ := strings.Cut(it.key, "{")
	return fixed != "" && strings.HasPrefix(uri, fixed)
}

// CodeNotFound is what revisions before 2026-07-28 answer to the URI of no
// resource; later ones say invalid params.
const CodeNotFound = -32002

func noResource(uri string) *jsonrpc.Error {
	data := append(strictjson.AppendString([]byte(`{"uri":`), uri), '}')
	return &jsonrpc.Error{Code: CodeNotFound, Message: "Resource not found: there is no resource of this URI, or several servers could have it (then put " + uriScheme + "SERVER/ before it)", Data: data}
}

// localized returns the params of a request with the server's own name in place of the
// client's, and the server.
func (s *Session) localized(ctx context.Context, req Request) (args json.RawMessage, alias string, e *jsonrpc.Error) {
	args = orEmpty(req.Args)
	var own string
	var ok bool
	var err error
	switch req.Method {
	case "prompts/get":
		if alias, own, ok = s.prompt(ctx, req.Name); !ok {
			return nil, "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("there is no prompt %q", req.Name)}
		}
		args, err = renamed(args, "name", req.Name, own)
	case "resources/read", "resources/subscribe", "resources/unsubscribe":
		if alias, own, ok = s.resource(ctx, req.Name); !ok {
			return nil, "", noResource(req.Name)
		}
		args, err = renamed(args, "uri", req.Name, own)
	case "completion/complete":
		return s.localizedRef(ctx, args)
	default:
		return nil, "", &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found: " + req.Method}
	}
	if err != nil {
		return nil, "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	return args, alias, nil
}

// localizedRef does the same for completion/complete.
func (s *Session) localizedRef(ctx context.Context, args json.RawMessage) (json.RawMessage, string, *jsonrpc.Error) {
	invalid := func(text string) (json.RawMessage, string, *jsonrpc.Error) {
		return nil, "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: text}
	}
	raw, ok, err := strictjson.Get(args, "ref")
	var ref struct{ Type, Name, URI string }
	if err != nil || !ok || json.Unmarshal(raw, &ref) != nil {
		return invalid(`"ref" must name a prompt or a resource`)
	}
	var alias, own string
	switch ref.Type {
	case "ref/prompt":
		if alias, own, ok = s.prompt(ctx, ref.Name); !ok {
			return invalid(fmt.Sprintf("there is no prompt %q", ref.Name))
		}
		raw, err = renamed(raw, "name", ref.Name, own)
	case "ref/resource":
		if alias, own, ok = s.resource(ctx, ref.URI); !ok {
			return invalid(fmt.Sprintf("there is no resource %q", ref.URI))
		}
		raw, err = renamed(raw, "uri", ref.URI, own)
	default:
		return invalid(fmt.Sprintf("unknown kind of reference %q: want ref/prompt or ref/resource", ref.Type))
	}
	if err == nil {
		args, err = strictjson.Set(args, "ref", raw)
	}
	if err != nil {
		return invalid(err.Error())
	}
	return args, alias, nil
}

func renamed(obj json.RawMessage, member, from, to string) (json.RawMessage, error) {
	if from == to {
		return obj, nil
	}
	return strictjson.Set(obj, member, strictjson.AppendString(nil, to))
}

// delocalized puts the client's URIs in the place of the server's in the answer to a
// resources/read.
func (s *Session) delocalized(c *call, result json.RawMessage) json.RawMessage {
	if c.protocolMethod() != "resources/read" || c.ownURI || s.profile.Exposure == Transparent {
		return result
	}
	contents, ok, err := strictjson.Get(result, "contents")
	var parts []json.RawMessage
	if err != nil || !ok || json.Unmarshal(contents, &parts) != nil {
		return result
	}
	for i, part := range parts {
		raw, ok, err := strictjson.Get(part, "uri")
		var uri string
		if err != nil || !ok || json.Unmarshal(raw, &uri) != nil {
			continue
		}
		if part, err = strictjson.Set(part, "uri", strictjson.AppendString(nil, s.outName(c.entry.ID.Server, Resources, uri))); err == nil {
			parts[i] = part
		}
	}
	joined := append([]byte{'['}, bytes.Join(asBytes(parts), []byte{','})...)
	if out, err := strictjson.Set(result, "contents", append(joined, ']')); err == nil {
		return out
	}
	return result
}
