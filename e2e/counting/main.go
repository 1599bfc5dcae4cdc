// Command counting is an MCP server over stdio that counts: each call that
// reaches it is a line in a file, synced before the answer, so that after any
// number of kills the file says how often each call ran.
//
// It stands behind the gate in the tests of e2e and is of no use elsewhere.
// A call's "hold" stops it before or after it is counted until the test, which
// listens on the socket of -hold, lets it go on.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

func main() {
	var s server
	flag.StringVar(&s.runs, "runs", "", "file that gets a line per call that ran: tool and nonce")
	flag.StringVar(&s.socket, "hold", "", "socket on which a test is told of calls that are held")
	flag.BoolVar(&s.tallies, "tally", false, "offer a tool more, which says how often this very process was called")
	definition := flag.String("definition", "", "file whose text is the description of erase, if it is there")
	flag.Parse()
	s.description = "Erases for good what the nonce names."
	if text, err := os.ReadFile(*definition); err == nil {
		s.description = string(text)
	}
	if err := s.serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "counting:", err)
		os.Exit(1)
	}
}

type server struct {
	runs, socket, description string
	tallies                   bool

	tally atomic.Int64
	out   *jsonrpc.LineWriter
}

func (s *server) serve(in io.Reader, out io.Writer) error {
	s.out = jsonrpc.NewLineWriter(out)
	lines := jsonrpc.NewLineReader(in, 1<<20)
	for {
		line, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return nil // what is under way has nobody left to answer to
		}
		if err != nil {
			return err
		}
		m, err := jsonrpc.Parse(line)
		if err != nil {
			return err
		}
		if m.IsRequest() {
			go s.request(m) // held calls hold up no other
		}
	}
}

func (s *server) request(m jsonrpc.Message) {
	result, err := s.result(m)
	line := jsonrpc.AppendResult(nil, m.ID, result)
	if err != nil {
		line = jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()})
	}
	_ = s.out.Send(context.Background(), line) // a gate that is gone is the tests' subject
}

func (s *server) result(m jsonrpc.Message) (json.RawMessage, error) {
	switch m.Method {
	case "initialize":
		return json.RawMessage(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"counting","version":"1"}}`), nil
	case "ping":
		return json.RawMessage(`{}`), nil
	case "tools/list":
		return s.tools(), nil
	case "tools/call":
		return s.call(m.Params)
	}
	return nil, fmt.Errorf("there is no method %q", m.Method)
}

// tools are two that erase, one that reads, and one whose name is the gate's.
func (s *server) tools() json.RawMessage {
	var b strings.Builder
	b.WriteString(`{"tools":[`)
	names := []string{"erase", "erase_other", "peek", "call_tool"}
	if s.tallies {
		names = append(names, "tally")
	}
	for i, name := range names {
		if i > 0 {
			b.WriteByte(',')
		}
		description := s.description
		if name != "erase" {
			description = "Does what its name says, with a nonce."
		}
		fmt.Fprintf(&b, `{"name":%q,"description":%s,"inputSchema":{"type":"object","properties":{`+
			`"nonce":{"type":"string"},"hold":{"type":"string"},"say":{"type":"string"},`+
			`"also":{"type":"array","items":{"type":"object","properties":{"nonce":{"type":"string"}}}}},"required":["nonce"]},"annotations":{"readOnlyHint":%t}}`,
			name, strictjson.AppendString(nil, description), name == "peek")
	}
	return json.RawMessage(b.String() + `]}`)
}

func (s *server) call(params json.RawMessage) (json.RawMessage, error) {
	var p struct {
		Name      string
		Arguments struct{ Nonce, Hold, Say string }
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, err
	}
	a := p.Arguments
	if p.Name == "tally" {
		return fmt.Appendf(nil, `{"content":[{"type":"text","text":"process %d, call %d, %s"}]}`, os.Getpid(), s.tally.Add(1), a.Nonce), nil
	}
	if err := s.held(a.Hold == "before", a.Nonce); err != nil {
		return nil, err
	}
	if err := s.count(p.Name, a.Nonce); err != nil {
		return nil, err
	}
	if err := s.held(a.Hold == "after", a.Nonce); err != nil {
		return nil, err
	}
	if a.Say == "" {
		a.Say = p.Name + " did " + a.Nonce
	}
	return append(strictjson.AppendString([]byte(`{"content":[{"type":"text","text":`), a.Say), `}]}`...), nil
}

// held tells the test, if it listens, and waits for its word or its hanging up.
func (s *server) held(hold bool, nonce string) error {
	if !hold {
		return nil
	}
	conn, err := net.Dial("unix", s.socket)
	if err != nil {
		return nil // nobody listens any more
	}
	defer conn.Close()
	if _, err := fmt.Fprintln(conn, nonce); err != nil {
		return err
	}
	_, err = bufio.NewReader(conn).ReadString('\n')
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// count makes the call's line durable. One write of few bytes at the end of a
// file is whole, whoever else writes.
func (s *server) count(tool, nonce string) error {
	f, err := os.OpenFile(s.runs, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "%s %s\n", tool, nonce); err != nil {
		return err
	}
	return f.Sync()
}
