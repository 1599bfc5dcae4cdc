package upstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
)

// batchVersion is the one version that has batches: arrays of messages, sent as
// one. The gate sends none.
const batchVersion = "2025-03-26"

// maxBatch bounds what is taken of one batch. A server can hardly have more
// answers to give at once.
const maxBatch = 1000

// batch hands the messages of an array to take. Where the version that was
// agreed on has no batches, or the array is none that can be taken, the calls
// that it answers fail at once: nothing else is going to answer them.
func (t *table) batch(array []byte, take func(jsonrpc.Message)) {
	if !t.batches.Load() {
		t.bad(array, fmt.Errorf("%w; only protocol version %s has batches, and another one was agreed on", jsonrpc.ErrBatch, batchVersion))
		return
	}
	messages, err := unbatch(array)
	if err != nil {
		t.bad(array, err)
		return
	}
	for _, one := range messages {
		if m, err := jsonrpc.Parse(one); err != nil {
			t.bad(one, err)
		} else {
			take(m)
		}
	}
}

// unbatch takes an array apart. The parts are not looked at.
func unbatch(array []byte) (messages []json.RawMessage, err error) {
	parts := json.NewDecoder(bytes.NewReader(array))
	if _, err := parts.Token(); err != nil {
		return nil, err
	}
	for parts.More() {
		if len(messages) == maxBatch {
			return nil, fmt.Errorf("a batch of more than %d messages", maxBatch)
		}
		var one json.RawMessage
		if err := parts.Decode(&one); err != nil {
			return nil, err
		}
		messages = append(messages, one)
	}
	if _, err := parts.Token(); err != nil { // the end of the array
		return nil, err
	}
	if _, err := parts.Token(); err != io.EOF {
		return nil, errors.New("something follows the batch")
	}
	return messages, nil
}

// looseMessages are the objects of an array that is no acceptable JSON, or the
// message itself where it is no array. It looks at nesting and strings only.
func looseMessages(message []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if rest := bytes.TrimLeft(message, " \t\r\n"); len(rest) == 0 || rest[0] != '[' {
			yield(message)
			return
		}
		depth, from := 0, 0
		for i := 0; i < len(message); i++ {
			switch message[i] {
			case '"':
				i = stringEnd(message, i) - 1
			case '{', '[':
				if depth++; depth == 2 {
					from = i
				}
			case '}', ']':
				if depth--; depth == 1 && !yield(message[from:i+1]) {
					return
				}
			}
		}
		if depth > 1 { // it was cut off
			yield(message[from:])
		}
	}
}
