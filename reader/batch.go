package reader

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// maxLine bounds one line of a batch, in bytes.
const maxLine = 4 << 20

// request is one line of a batch. Keys beyond these two are let be.
type request struct {
	ID   json.RawMessage `json:"id"`
	Text *string         `json:"text"`
}

// ReadLines reads {"id":..,"text":".."} lines from in and writes one
// {"id":..,"reading":{..}} line for each to out, in order. The id may be any JSON
// value and is written as it came; blank lines are skipped. A line that cannot be
// read gives {"error":".."} in its place, with the id where there was one, and is
// counted in bad. An error means that in or out failed: what was written
// until then is whole lines.
func (r *Reader) ReadLines(in io.Reader, out io.Writer) (bad int, err error) {
	lines := bufio.NewReaderSize(in, 64<<10)
	w := bufio.NewWriter(out)
	for n := 1; ; n++ {
		line, tooLong, readErr := nextLine(lines)
		if readErr != nil && !errors.Is(readErr, io.EOF) {
			return bad, errors.Join(fmt.Errorf("read request on line %d: %w", n, readErr), w.Flush())
		}
		if tooLong || len(bytes.TrimSpace(line)) > 0 {
			answer, ok := r.answerLine(line, tooLong)
			if !ok {
				bad++
			}
			if _, err := w.Write(append(answer, '\n')); err != nil {
				return bad, fmt.Errorf("write reading of line %d: %w", n, err)
			}
		}
		if readErr != nil {
			break
		}
	}
	if err := w.Flush(); err != nil {
		return bad, fmt.Errorf("write readings: %w", err)
	}
	return bad, nil
}

// nextLine returns the next line without its end. Of one longer than maxLine it
// says so and drops the rest.
func nextLine(in *bufio.Reader) (line []byte, tooLong bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			tooLong, line = true, nil
		}
		if !tooLong {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimRight(line, "\r\n"), tooLong, err
		}
	}
}

func (r *Reader) answerLine(line []byte, tooLong bool) (answer []byte, ok bool) {
	if tooLong {
		return encode(failure{Error: fmt.Sprintf("line is longer than %d bytes", maxLine)}), false
	}
	var req request
	if err := json.Unmarshal(line, &req); err != nil {
		return encode(failure{Error: fmt.Sprintf("parse request: %v", strictjson.Misfit(err))}), false
	}
	if req.Text == nil {
		return encode(failure{ID: req.ID, Error: "request has no text"}), false
	}
	return encode(success{ID: req.ID, Reading: r.Read(*req.Text)}), true
}

type success struct {
	ID      json.RawMessage    `json:"id"`
	Reading engagement.Reading `json:"reading"`
}

type failure struct {
	ID    json.RawMessage `json:"id,omitempty"`
	Error string          `json:"error"`
}

// encode writes v on one line, with <, > and & as they are.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil { // a reading always marshals: its axes have values
		return []byte(`{"error":"the reading could not be written"}`)
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}
