package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// maxPages bounds one listing; the largest catalogue known has 10,000 tools.
const maxPages = 1000

// maxEmptyPages bounds the pages in a row that hold nothing. Servers that filter
// after they have cut a page have some; others never leave the cursor out.
const maxEmptyPages = 10

// maxEntries bounds what is taken of one listing: each tool is scanned, kept and
// searched, which takes seconds in all, and other servers share the machine.
// maxProblems bounds what is said about entries that are no tools.
const (
	maxEntries  = 20_000
	maxProblems = 20
)

// found is what one listing gave.
type found struct {
	tools    []json.RawMessage
	problems []string // entries that were left out, and pages that were not asked for
	entries  int      // seen so far, over all pages
	unsaid   int      // problems beyond maxProblems
	cut      bool     // there are entries beyond maxEntries
}

func (f *found) problem(format string, a ...any) {
	if len(f.problems) == maxProblems {
		f.unsaid++
		return
	}
	f.problems = append(f.problems, fmt.Sprintf(format, a...))
}

// end has the problems that were not said counted, and says why no more is asked
// for; "" where there is no more.
func (f *found) end(why string) {
	if f.unsaid > 0 {
		f.problems = append(f.problems, fmt.Sprintf("and %d more entries", f.unsaid))
	}
	if why != "" {
		f.problems = append(f.problems, why)
	}
}

// emptyCursor asks for the page after an empty cursor. It is one by the protocol, but
// some servers mean by it that there is no further page, and refuse it.
const emptyCursor = `{"cursor":""}`

// listTools asks for all pages of tools/list.
func (x *session) listTools(ctx context.Context) (found, error) {
	var f found
	has, sure := x.hasTools()
	if !has {
		return f, nil
	}
	var params json.RawMessage
	names, cursors := map[string]bool{}, map[string]bool{}
	size, empty := int64(0), 0
	for page := 1; ; page++ {
		resp, e := x.call(ctx, Request{Method: "tools/list", Params: params}, 0)
		err := error(nil)
		switch {
		case e != nil:
			err = e
		case resp.Error != nil && page == 1 && !sure && resp.Error.Code == jsonrpc.CodeMethodNotFound:
			return f, nil
		case resp.Error != nil && string(params) == emptyCursor:
			f.end("")
			return f, nil
		case resp.Error != nil:
			err = fmt.Errorf("it refused tools/list: %w", resp.Error)
		}
		if err != nil && page > 1 {
			err = fmt.Errorf("page %d of its tools did not come (%d on the pages before): %w", page, len(f.tools), err)
		}
		if err != nil {
			return f, err
		}
		if size += int64(len(resp.Result)); size > x.s.o.MaxMessage {
			return f, fmt.Errorf("its tools take more than %d bytes", x.s.o.MaxMessage)
		}
		before, unsaid, entries := len(f.problems), f.unsaid, f.entries
		added, cursor, err := x.takePage(&f, resp.Result, names)
		if empty++; f.entries > entries {
			empty = 0
		}
		switch {
		case err != nil:
			return f, fmt.Errorf("page %d of its tools: %w", page, err)
		case f.cut:
			f.end(fmt.Sprintf("more than %d entries: the rest was not looked at", maxEntries))
			return f, nil
		case cursor == nil:
			f.end("")
			return f, nil
		case cursors[string(cursor)] || (added == 0 && empty == 0 && page > 1):
			f.problems, f.unsaid = f.problems[:before], unsaid
			f.end(fmt.Sprintf("page %d repeats what came before: no further page was asked for", page))
			return f, nil
		case empty == maxEmptyPages:
			f.end(fmt.Sprintf("%d pages in a row are empty: no further page was asked for", empty))
			return f, nil
		case page == maxPages:
			f.end(fmt.Sprintf("more than %d pages: the rest was not asked for", maxPages))
			return f, nil
		}
		cursors[string(cursor)] = true
		params = append(append([]byte(`{"cursor":`), cursor...), '}')
	}
}

// takePage adds the tools of one page to f and returns how many were new, and the
// cursor of the next page, nil for none. An empty string is a cursor.
func (x *session) takePage(f *found, result json.RawMessage, names map[string]bool) (added int, cursor json.RawMessage, err error) {
	raw, ok, err := strictjson.Get(result, "tools")
	if err != nil {
		return 0, nil, err
	}
	if !ok || raw[0] != '[' {
		return 0, nil, errors.New(`"tools" is not an array`)
	}
	entries := json.NewDecoder(bytes.NewReader(raw)) // one by one: there may be millions
	if _, err := entries.Token(); err != nil {
		return 0, nil, err
	}
	for entries.More() {
		if f.cut = f.entries == maxEntries; f.cut {
			break
		}
		var entry json.RawMessage
		if err := entries.Decode(&entry); err != nil {
			return 0, nil, err
		}
		name, ok := toolName(entry)
		switch {
		case !ok:
			f.problem("entry %d has no name or is no object", f.entries)
		case names[name]:
			f.problem("entry %d repeats the name %.100q: the first one counts", f.entries, name)
		case x.modern && x.s.cfg.URL != "" && mcp.ValidateParamHeaderAnnotations(&mcp.Tool{RawInputSchema: schemaOf(entry)}) != nil:
			// 2026-07-28 has clients leave such a tool out.
			f.problem("entry %d (%.100q) has an x-mcp-header that is not valid", f.entries, name)
		default:
			names[name] = true
			f.tools = append(f.tools, entry)
			added++
		}
		f.entries++
	}
	cursor, ok, _ = strictjson.Get(result, "nextCursor")
	if !ok || cursor[0] != '"' {
		return added, nil, nil
	}
	return added, cursor, nil
}

func toolName(entry json.RawMessage) (string, bool) {
	if len(entry) == 0 || entry[0] != '{' {
		return "", false
	}
	name := textMember(entry, "name")
	return name, name != ""
}

func schemaOf(entry json.RawMessage) json.RawMessage {
	schema, _, _ := strictjson.Get(entry, "inputSchema")
	return schema
}
