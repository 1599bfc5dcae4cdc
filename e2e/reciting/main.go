// Command reciting is an MCP server over stdio that answers with what stands in
// files, byte for byte, so that a test can have a server say anything.
//
// It stands behind the gate in the tests of e2e and is of no use elsewhere. In
// the folder of -from, NAME.json is the result of a call of the tool recite
// with that name, of reading recite:NAME, and of the prompt recite; NAME.error
// is an error in its place; NAME.before holds messages that go out first, a
// line each, in which $token stands for the call's progress token. NAME.size
// holds a number of bytes, and a text of so many is the result. tools.json is a
// list of other tools, each of which recites what its own name says.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
)

func main() {
	from := flag.String("from", "", "folder with what is said")
	flag.Parse()
	if err := serve(*from, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "reciting:", err)
		os.Exit(1)
	}
}

const own = `{"tools":[{"name":"recite","description":"Says what stands under a name.","inputSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]},"annotations":{"readOnlyHint":true}}]}`

func serve(from string, in io.Reader, out io.Writer) error {
	lines := jsonrpc.NewLineReader(in, 64<<20)
	for {
		line, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		m, err := jsonrpc.Parse(line)
		if err != nil {
			return err
		}
		if !m.IsRequest() {
			continue
		}
		if err := answer(from, m, out); err != nil {
			return err
		}
	}
}

func answer(from string, m jsonrpc.Message, out io.Writer) error {
	send := func(line []byte) error {
		_, err := out.Write(append(line, '\n'))
		return err
	}
	switch m.Method {
	case "initialize":
		return send(jsonrpc.AppendResult(nil, m.ID, json.RawMessage(
			`{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"resources":{},"prompts":{},"logging":{}},"serverInfo":{"name":"reciting","version":"1"}}`)))
	case "tools/list":
		list, err := read(from, "tools.json")
		if err != nil {
			return err
		}
		if list == nil {
			list = []byte(own)
		}
		return send(jsonrpc.AppendResult(nil, m.ID, list))
	case "resources/list":
		return send(jsonrpc.AppendResult(nil, m.ID, json.RawMessage(`{"resources":[]}`)))
	case "prompts/list":
		return send(jsonrpc.AppendResult(nil, m.ID, json.RawMessage(`{"prompts":[{"name":"recite","arguments":[{"name":"name"}]}]}`)))
	case "tools/call", "resources/read", "prompts/get":
		return recite(from, m, out, send)
	}
	return send(jsonrpc.AppendResult(nil, m.ID, json.RawMessage(`{}`)))
}

func recite(from string, m jsonrpc.Message, out io.Writer, send func([]byte) error) error {
	var p struct {
		Name, URI string
		Arguments struct{ Name string }
		Meta      struct{ ProgressToken json.RawMessage } `json:"_meta"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		return err
	}
	name := p.Arguments.Name
	if name == "" {
		name = p.Name
	}
	if uri, ok := strings.CutPrefix(p.URI, "recite:"); ok {
		name = uri
	}
	before, err := read(from, name+".before")
	if err != nil {
		return err
	}
	for line := range bytes.Lines(before) {
		if bytes.Contains(line, []byte("$token")) && len(p.Meta.ProgressToken) == 0 {
			continue
		}
		if err := send(bytes.ReplaceAll(bytes.TrimSpace(line), []byte(`"$token"`), p.Meta.ProgressToken)); err != nil {
			return err
		}
	}
	failure, err := read(from, name+".error")
	if err != nil {
		return err
	}
	if failure != nil {
		return send(append(append(append([]byte(`{"jsonrpc":"2.0","id":`), m.ID...), `,"error":`...), append(failure, '}')...))
	}
	size, err := read(from, name+".size")
	if err != nil {
		return err
	}
	if size != nil {
		return long(m.ID, size, out)
	}
	result, err := read(from, name+".json")
	if err != nil {
		return err
	}
	if result == nil {
		result = []byte(`{"content":[]}`)
	}
	return send(jsonrpc.AppendResult(nil, m.ID, result))
}

// long answers with a text of so many bytes, none of which it holds.
func long(id json.RawMessage, size []byte, out io.Writer) error {
	left, err := strconv.Atoi(string(size))
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, id); err != nil {
		return err
	}
	part := bytes.Repeat([]byte("lorem ipsum "), 1<<12)
	for left > 0 {
		n, err := out.Write(part[:min(left, len(part))])
		if err != nil {
			return err
		}
		left -= n
	}
	_, err = io.WriteString(out, `"}]}}`+"\n")
	return err
}

// read returns a file of the folder, nil where it has none of that name.
func read(from, name string) ([]byte, error) {
	b, err := os.ReadFile(filepath.Join(from, filepath.Base(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return bytes.TrimSpace(b), err
}
