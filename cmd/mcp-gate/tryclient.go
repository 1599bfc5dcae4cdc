package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
)

// tryClient is a small MCP client over a child's pipes: one request at a time,
// and forms put to whoever answers.
type tryClient struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  *jsonrpc.LineReader
	stderr bytes.Buffer
	answer func(message string) (decision string, err error) // nil: forms are not declared
	last   int
}

// startClient starts a server and shakes hands with it.
func startClient(ctx context.Context, command string, args []string, answer func(string) (string, error)) (*tryClient, error) {
	c := &tryClient{cmd: exec.CommandContext(ctx, command, args...), answer: answer}
	c.cmd.Stderr = &c.stderr
	c.cmd.WaitDelay = 5 * time.Second
	var err error
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.lines = jsonrpc.NewLineReader(stdout, maxInput)
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", command, err)
	}
	capabilities := "{}"
	if answer != nil {
		capabilities = `{"elicitation":{}}`
	}
	_, err = c.request(ctx, "initialize", json.RawMessage(`{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":{"name":"mcp-gate try","version":"1"}}`))
	if err == nil {
		err = c.send(jsonrpc.AppendNotification(nil, "notifications/initialized", nil))
	}
	if err != nil {
		return nil, errors.Join(err, c.close(), c.stderrError())
	}
	return c, nil
}

func (c *tryClient) send(line []byte) error {
	_, err := c.stdin.Write(append(line, '\n'))
	return err
}

// request sends a request and reads until its answer, answering forms that
// come in between.
func (c *tryClient) request(_ context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	c.last++
	id := fmt.Appendf(nil, "%d", c.last)
	if err := c.send(jsonrpc.AppendRequest(nil, id, method, params)); err != nil {
		return nil, fmt.Errorf("send %s: %w", method, err)
	}
	for {
		line, err := c.lines.Next()
		if err != nil {
			return nil, fmt.Errorf("wait for the answer to %s: %w", method, err)
		}
		m, err := jsonrpc.Parse(line)
		switch {
		case err != nil:
			return nil, fmt.Errorf("read the answer to %s: %w", method, err)
		case m.IsRequest():
			if err := c.form(m); err != nil {
				return nil, err
			}
		case m.IsResponse() && bytes.Equal(m.ID, id):
			if m.Error != nil {
				return nil, fmt.Errorf("%s: %w", method, jsonrpc.ParseError(m.Error))
			}
			return m.Result, nil
		}
	}
}

// form answers a server's question.
func (c *tryClient) form(m jsonrpc.Message) error {
	if m.Method != "elicitation/create" || c.answer == nil {
		return c.send(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "not offered"}))
	}
	var p struct{ Message string }
	if err := json.Unmarshal(m.Params, &p); err != nil {
		return fmt.Errorf("read a question: %w", err)
	}
	decision, err := c.answer(p.Message)
	if err != nil {
		return err
	}
	return c.send(jsonrpc.AppendResult(nil, m.ID, fmt.Appendf(nil, `{"action":"accept","content":{"decision":%q}}`, decision)))
}

// close ends the server and waits for it.
func (c *tryClient) close() error {
	if c.cmd.ProcessState != nil {
		return nil
	}
	_ = c.stdin.Close()
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(c.cmd.Args[1:], " "), err)
	}
	return nil
}

// stderrError is what the server said on standard error, as an error; nil
// where it said nothing.
func (c *tryClient) stderrError() error {
	if text := strings.TrimSpace(c.stderr.String()); text != "" {
		return errors.New(text)
	}
	return nil
}

// answer puts the gate's question to the person at the terminal, or says yes
// by itself where --yes was given.
func (d *demo) answer(message string) (string, error) {
	q := tryQuestion{Message: message, Decision: "deny", By: "person"}
	d.tell("\n   The gate asks:\n")
	for line := range strings.Lines(strings.TrimRight(message, "\n")) {
		d.tell("   | %s\n", strings.TrimRight(line, "\n"))
	}
	if d.yes {
		// The gate takes an answer within 300 ms for a machine's, which it is.
		time.Sleep(500 * time.Millisecond)
		q.Decision, q.By = "allow-once", "--yes"
		d.tell("   answered yes by --yes, by no person\n")
	} else {
		fmt.Fprint(d.a.stderr, "   Allow this call once? Type yes to allow: ")
		line, err := bufio.NewReader(d.a.in()).ReadString('\n')
		if errors.Is(err, context.Canceled) {
			return "", err
		}
		if err != nil && line == "" {
			fmt.Fprintln(d.a.stderr) // the prompt has a line of its own
			return "", fmt.Errorf("nobody answered: run try in a terminal, or with --yes")
		}
		if strings.TrimSpace(line) == "yes" {
			q.Decision = "allow-once"
		}
	}
	d.asked = append(d.asked, q)
	return q.Decision, nil
}
