package transport

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcp-gate/mcp-gate/gate"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// inputName is the name of our one question in inputRequests.
const inputName = "approval"

// formParams builds the params of an elicitation/create. Revisions before
// 2025-11-25 know no mode.
func formParams(a gate.Ask, version string) json.RawMessage {
	b := []byte{'{'}
	if version >= version2025 {
		b = append(b, `"mode":"form",`...)
	}
	b = append(b, `"message":`...)
	b = strictjson.AppendString(b, a.Message)
	b = append(b, `,"requestedSchema":`...)
	b = append(b, a.Schema...)
	return append(b, '}')
}

// readReply reads the result of an elicitation. Anything but one of MCP's
// three actions, plainly spelled, is no answer; a decision that is no string
// is none.
func readReply(result json.RawMessage) gate.Reply {
	none := gate.Reply{Action: gate.NoAnswer}
	p, err := parseParams(result)
	if err != nil || p.unfolded("action", "content") != nil {
		return none
	}
	action, e := p.text("action")
	if e != nil {
		return none
	}
	reply := gate.Reply{Action: gate.ReplyAction(action)}
	switch reply.Action {
	case gate.Accepted:
	case gate.Declined, gate.Cancelled:
		return reply
	default:
		return none
	}
	content, e := p.object("content")
	if e != nil || content.unfolded("decision") != nil {
		return none
	}
	reply.Decision, _ = content.text("decision")
	return reply
}

// ask puts the question to the client of a legacy call and waits for the
// answer, at most a.Wait. A question that is given up is withdrawn.
func (x *exchange) ask(ctx context.Context, a gate.Ask, token json.RawMessage) gate.Reply {
	none, left := gate.Reply{Action: gate.NoAnswer}, gate.Reply{Action: gate.Left}
	if a.Wait <= 0 {
		return none // a question that cannot be answered would only flash by
	}
	id, answer, ok := x.c.asked.add()
	if !ok {
		return left
	}
	defer x.c.asked.remove(id)
	shown := time.Now()
	line := jsonrpc.AppendRequest(nil, strictjson.AppendString(nil, id), "elicitation/create", formParams(a, x.terms.version))
	if !x.send(ctx, line) {
		return none
	}
	over := time.NewTimer(a.Wait)
	defer over.Stop()
	tick := time.NewTicker(x.c.srv.o.Tick)
	defer tick.Stop()
	for ticks := 1; ; {
		select {
		case m, ok := <-answer:
			if !ok {
				return left
			}
			if m.Error != nil {
				return none
			}
			reply := readReply(m.Result)
			reply.After = time.Since(shown)
			return reply
		case <-a.Decided:
			x.withdraw(ctx, id, "it was answered elsewhere")
			return gate.Reply{Action: gate.Elsewhere}
		case <-over.C:
			x.withdraw(ctx, id, "the wait for an answer is over")
			return none
		case <-ctx.Done():
			x.withdraw(ctx, id, "the call was cancelled")
			return none
		case <-tick.C:
			x.tick(ctx, token, ticks)
			ticks++
		}
	}
}

// withdraw tells the client that a question needs no answer any more, so that
// its dialogue can close. It goes out although the call itself was cancelled.
func (x *exchange) withdraw(ctx context.Context, id, reason string) {
	params := withdrawn(id, reason)
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), unwind)
	defer stop()
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.out.send(ctx, jsonrpc.AppendNotification(nil, "notifications/cancelled", params)); err != nil {
		x.c.log.Debug("question not withdrawn", "err", err)
	}
}

func withdrawn(id, reason string) json.RawMessage {
	params := strictjson.AppendString([]byte(`{"requestId":`), id)
	params = append(params, `,"reason":`...)
	return append(strictjson.AppendString(params, reason), '}')
}

// tick shows a client that wants progress that the call still lives. The
// steps are so small that the upstream's own progress can only rise above them.
func (x *exchange) tick(ctx context.Context, token json.RawMessage, n int) {
	if token == nil {
		return
	}
	params := append([]byte(`{"progressToken":`), token...)
	params = fmt.Appendf(params, `,"progress":%s,"message":"waiting for a person"}`, strconv.FormatFloat(float64(n)/1e6, 'f', -1, 64))
	x.send(ctx, jsonrpc.AppendNotification(nil, "notifications/progress", params))
}

// askedPrefix begins the ids of our requests, so that none can be taken for an
// id of the client's.
const askedPrefix = "gate-"

// asked are the requests that we sent to a client and that it has not
// answered. The zero value is ready.
type asked struct {
	mu     sync.Mutex
	last   int
	wait   map[string]chan jsonrpc.Message
	closed bool
}

// add makes an id for a request. The answer comes on the channel; the channel
// is closed without one when no answer can come any more. It is not ok when
// that is so already.
func (a *asked) add() (id string, answer <-chan jsonrpc.Message, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return "", nil, false
	}
	if a.wait == nil {
		a.wait = make(map[string]chan jsonrpc.Message)
	}
	a.last++
	id = askedPrefix + strconv.Itoa(a.last)
	ch := make(chan jsonrpc.Message, 1)
	a.wait[id] = ch
	return id, ch, true
}

func (a *asked) remove(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.wait, id)
}

// deliver hands an answer to the one that waits for it. Any other answer is
// late or made up, and is dropped.
func (a *asked) deliver(m jsonrpc.Message) bool {
	id, ok := asString(m.ID)
	if !ok {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	ch, ok := a.wait[id]
	if !ok {
		return false
	}
	delete(a.wait, id)
	ch <- m
	return true
}

// fail ends the wait for an answer that came, but broken. It reports whether
// the id is one of ours.
func (a *asked) fail(id json.RawMessage, e *jsonrpc.Error) bool {
	if name, ok := asString(id); !ok || !strings.HasPrefix(name, askedPrefix) {
		return false
	}
	a.deliver(jsonrpc.Message{ID: id, Error: e.Raw()})
	return true
}

// close ends the wait for every answer: the client is gone.
func (a *asked) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for id, ch := range a.wait {
		delete(a.wait, id)
		close(ch)
	}
}
