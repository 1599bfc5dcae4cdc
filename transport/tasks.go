package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/mcp-gate/mcp-gate/gate"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// The tasks extension of 2026-07-28: a call whose server answers with a task is
// answered with a task of the gate's, where the client takes one. It is the flight of
// the call, which goes on; the id of the flight is the task's.
const extTasks = "io.modelcontextprotocol/tasks"

const (
	// taskKept is how long an outcome waits for its client, and a question for its answer.
	taskKept = 15 * time.Minute
	// taskRead is how long an outcome is kept once the client has had it.
	taskRead = time.Minute
)

// task is a flight that its client asks about. Guarded by flight.mu.
type task struct {
	gate.Task
	created, updated time.Time
	out              *gate.Outcome // the end; nil while it goes on
	cancelled        bool          // by the client
}

// takesTasks reports whether the client of a request takes a task in place of a result.
func (t terms) takesTasks() bool {
	if !t.modern || !bytes.Contains(t.declared, []byte(extTasks)) {
		return false
	}
	extensions, ok, err := strictjson.Get(t.declared, "extensions")
	if err != nil || !ok || extensions[0] != '{' {
		return false
	}
	_, ok, err = strictjson.Get(extensions, extTasks)
	return err == nil && ok
}

// Task has the client, if it takes tasks, ask for the outcome from now on.
func (f *flight) Task(now gate.Task) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := time.Now()
	switch {
	case f.task != nil:
		if f.task.Task != now {
			f.task.Task, f.task.updated = now, at
		}
	case f.terms.takesTasks():
		f.task = &task{Task: now, created: at, updated: at}
		f.x, f.tell = nil, nil
		close(f.begun)
	}
}

// ask opens what a task needs, and reports whether f is one.
func (f *flight) ask(n *need) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.task == nil {
		return false
	}
	f.open, f.task.updated = n, time.Now()
	f.expire.Reset(taskKept)
	return true
}

// keep has the outcome of a task wait for its client, and reports whether f is one.
func (f *flight) keep(out gate.Outcome) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.task == nil {
		return false
	}
	f.open, f.task.out, f.task.updated = nil, &out, time.Now()
	f.c.weigh(f, int64(len(out.Result)))
	f.expire.Stop()
	f.expire = time.AfterFunc(taskKept, func() { f.c.endFlight(f) })
	return true
}

// weigh counts an outcome that is kept among what the client's flights take.
func (c *conn) weigh(f *flight, size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.size += size
	c.aloft += size
}

// created answers a call with the task that its server made of it.
func (f *flight) created(x *exchange, ses Session) (json.RawMessage, *jsonrpc.Error) {
	f.mu.Lock()
	b := f.appendTask([]byte(`{"resultType":"task",`), "working")
	f.mu.Unlock()
	return x.complete(append(b, '}'), ses)
}

// appendTask appends how the task stands, without what belongs to one status only.
// Called with mu held.
func (f *flight) appendTask(b []byte, status string) []byte {
	t := f.task
	b = append(b, `"taskId":"`+f.id+`","status":"`+status+`"`...)
	if t.Message != "" {
		b = strictjson.AppendString(append(b, `,"statusMessage":`...), t.Message)
	}
	kept := taskKept
	if t.out != nil { // it is being read
		kept = taskRead
	}
	b = append(b, `,"createdAt":"`+stamp(t.created)+`","lastUpdatedAt":"`+stamp(t.updated)+`","ttlMs":`...)
	b = strconv.AppendInt(b, (time.Since(t.created) + kept).Milliseconds(), 10)
	b = append(b, `,"pollIntervalMs":`...)
	return strconv.AppendInt(b, t.Poll.Milliseconds(), 10)
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// taskOf finds the task that a request is about.
func (x *exchange) taskOf() (*flight, *jsonrpc.Error) {
	if !x.terms.takesTasks() {
		return nil, missingTasks()
	}
	id, e := x.params.text("taskId")
	if e != nil {
		return nil, e
	}
	x.c.mu.Lock()
	f := x.c.flights[id]
	x.c.mu.Unlock()
	if f != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.task != nil {
			return f, nil
		}
	}
	return nil, invalidParams("there is no such task of yours: it was never made, or is over")
}

// missingTasks is the error for who asks about tasks and does not take any.
func missingTasks() *jsonrpc.Error {
	return &jsonrpc.Error{Code: codeMissingCapability, Message: "the request does not declare the extension " + extTasks,
		Data: json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + extTasks + `":{}}}}`)}
}

func getTask(_ context.Context, x *exchange, ses Session) (json.RawMessage, *jsonrpc.Error) {
	f, e := x.taskOf()
	if e != nil {
		return nil, e
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	b, status, name, value := []byte{'{'}, "working", "", json.RawMessage(nil)
	switch out := f.task.out; {
	case out == nil && f.open != nil && f.open.requests != nil:
		status, name, value = "input_required", "inputRequests", f.open.requests
	case out == nil:
	case f.task.cancelled && out.Result == nil:
		status = "cancelled"
	case out.Result != nil:
		status, name = "completed", "result"
		var err error
		if value, err = legacyResult(out.Result); err != nil {
			return nil, internalError(err)
		}
	default:
		failed := out.Error
		if failed == nil {
			failed = &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "the call has no outcome"}
		}
		failed = x.fittingError(failed)
		status, name, value, f.task.Message = "failed", "error", failed.Raw(), failed.Message
	}
	b = f.appendTask(b, status)
	if name != "" {
		b = appendMember(b, name, value)
	}
	if f.task.out != nil {
		f.expire.Reset(taskRead)
	}
	return x.complete(append(b, '}'), ses)
}

func updateTask(_ context.Context, x *exchange, ses Session) (json.RawMessage, *jsonrpc.Error) {
	f, e := x.taskOf()
	if e != nil {
		return nil, e
	}
	given, e := x.params.object("inputResponses")
	if e != nil {
		return nil, e
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.open; n != nil {
		if err := n.answered(given); err != nil {
			return nil, internalError(err)
		}
		if string(n.requests) == "{}" && f.expire.Stop() {
			f.open, f.task.updated = nil, time.Now()
			n.answers <- n.given
		}
	}
	return x.complete(json.RawMessage(`{}`), ses)
}

// answered moves what is answered from the requests to the answers. What nobody asked
// for, or was answered before, is dropped.
func (n *need) answered(given params) (err error) {
	for _, m := range given {
		if _, asked, _ := strictjson.Get(orEmpty(n.requests), m.Name); !asked {
			continue
		}
		if n.given, err = strictjson.Set(orEmpty(n.given), m.Name, m.Value); err != nil {
			return err
		}
		if n.requests, err = strictjson.Delete(n.requests, m.Name); err != nil {
			return err
		}
	}
	return nil
}

func cancelTask(_ context.Context, x *exchange, ses Session) (json.RawMessage, *jsonrpc.Error) {
	f, e := x.taskOf()
	if e != nil {
		return nil, e
	}
	f.mu.Lock()
	f.task.cancelled = f.task.cancelled || f.task.out == nil
	f.mu.Unlock()
	f.cancel()
	return x.complete(json.RawMessage(`{}`), ses)
}
