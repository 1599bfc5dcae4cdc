package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// A server that speaks 2026-07-28 and has the tasks extension may answer a call with a
// task, whose result comes later. The gate asks for it until it is there, so that the
// call is one call to policy, audit and whatever holds its result, as any other is.
// A client that has the extension is told meanwhile (see [Tasker]); any other waits.

const extTasks = "io.modelcontextprotocol/tasks"

// Tasker is the optional part of a [Client] that need not wait for the result.
type Tasker interface {
	// Task says that the server works on the call as a task, at first and whenever
	// the server was asked how it stands. It does not block.
	Task(Task)
}

// Task is how a task stands.
type Task struct {
	Message string        // the server's own words, "" for none
	Poll    time.Duration // how long the server wants to be left alone before it is asked again
}

// Bounds of the pause between two questions about a task. The server names the pause.
const (
	usualPoll = time.Second
	leastPoll = 50 * time.Millisecond
	mostPoll  = time.Minute
)

// maxUnheard is how many questions about a task in a row may stay without an answer.
// Asking again changes nothing, so one that is lost need not cost the result.
const maxUnheard = 5

const noWaiter = "nobody waits for it any more"

// awaited waits for the end of the task that a server answered a call with, and
// returns the result. If ctx ends, the server is told that nobody waits.
func (f *flight) awaited(ctx context.Context, task json.RawMessage) (result json.RawMessage, err error) {
	id := stringOf(task, "taskId")
	if id == "" {
		return nil, fmt.Errorf("server %s answered %s with a task that has no id", f.server, f.c.protocolMethod())
	}
	params, answered, wait := memberOnly("taskId", id), map[string]bool{}, pollOf(task)
	if stringOf(task, "status") != "working" { // more is known of it, which only the answer to a question holds
		wait = 0
	}
	f.told(task)
	for unheard := 0; ; {
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			f.giveUp(ctx, params)
			return nil, f.unknown(noWaiter)
		}
		next, err := f.s.g.opts.Caller.Call(ctx, f.server, "tasks/get", params, nil)
		_, said := errors.AsType[*jsonrpc.Error](err)
		switch {
		case said:
			return nil, f.taken(err)
		case err != nil:
			if unheard++; unheard == maxUnheard && ctx.Err() == nil {
				return nil, f.taken(err)
			}
			wait = max(wait, usualPoll)
			continue // if ctx is over, so is the next pause
		}
		task, wait, unheard = next, pollOf(next), 0
		over, result, err := f.stands(ctx, task, params, answered)
		if over {
			return result, err
		}
		if err != nil { // its task is of no use to anybody
			f.giveUp(ctx, params)
			if ctx.Err() != nil {
				err = f.unknown(noWaiter)
			}
			return nil, err
		}
	}
}

// stands deals with one state of a task. Over reports whether there is an outcome.
func (f *flight) stands(ctx context.Context, task, params json.RawMessage, answered map[string]bool) (over bool, result json.RawMessage, err error) {
	switch status := stringOf(task, "status"); status {
	case "working":
	case "input_required":
		if err := f.fed(ctx, task, params, answered); err != nil {
			return false, nil, err
		}
	case "completed":
		if result := memberOf(task, "result"); len(result) > 0 && result[0] == '{' {
			result, err := f.whole(result)
			return true, result, err
		}
		return true, nil, f.unknown("it is completed, and has no result")
	case "failed":
		if e := memberOf(task, "error"); len(e) > 0 && e[0] == '{' {
			return true, nil, jsonrpc.ParseError(e)
		}
		return true, nil, f.unknown("it failed, and does not say how")
	case "cancelled":
		return true, nil, f.unknown("the server cancelled it")
	default:
		return false, nil, f.unknown(fmt.Sprintf("its status is %.50q", f.words(status)))
	}
	f.told(task)
	return false, nil, nil
}

// told tells the client how a task stands.
func (f *flight) told(task json.RawMessage) {
	t, ok := f.c.client.(Tasker)
	if !ok {
		return
	}
	t.Task(Task{Message: f.words(stringOf(task, "statusMessage")), Poll: pollOf(task)})
}

// words are words of the server as far as they may leave, as with progress.
func (f *flight) words(text string) string {
	if text == "" {
		return ""
	}
	return stringOf(f.s.passing(f.c, memberOnly("message", text)), "message")
}

// fed asks the client for what a task needs, and gives it to the server. What was
// answered before is not asked again: a server may take a moment to notice.
func (f *flight) fed(ctx context.Context, task, params json.RawMessage, answered map[string]bool) error {
	requests := []byte{'{'}
	for m := range strictjson.Walk(orEmpty(memberOf(task, "inputRequests"))) {
		if answered[m.Name] {
			continue
		}
		if len(requests) > 1 {
			requests = append(requests, ',')
		}
		requests = append(strictjson.AppendString(requests, m.Name), ':')
		requests = append(requests, m.Value...)
	}
	if len(requests) == 1 {
		return nil
	}
	if f.c.client == nil {
		return f.cannot("input")
	}
	responses, e := f.input(ctx, append(requests, '}'))
	if e != nil {
		return e
	}
	some := false
	for m := range strictjson.Walk(orEmpty(responses)) {
		answered[m.Name], some = true, true
	}
	if !some {
		return nil
	}
	params, err := strictjson.Set(params, "inputResponses", responses)
	if err != nil {
		return err
	}
	if _, err = f.s.g.opts.Caller.Call(ctx, f.server, "tasks/update", params, nil); err != nil {
		return f.taken(err)
	}
	return nil
}

// runsAsTask reports whether a tool runs as a task of 2025-11-25 alone.
func (f *flight) runsAsTask() bool {
	if !bytes.Contains(f.c.entry.Raw, []byte(`"taskSupport"`)) {
		return false
	}
	execution, _, err := strictjson.Get(f.c.entry.Raw, "execution")
	if err != nil || stringOf(orEmpty(execution), "taskSupport") != "required" {
		return false
	}
	at := orEmpty(f.s.g.opts.Caller.About(f.server).Capabilities)
	for _, member := range []string{"tasks", "requests", "tools", "call"} {
		if at = memberOf(at, member); len(at) == 0 || at[0] != '{' {
			return false
		}
	}
	return true
}

// asTask makes such a call. The server keeps the answer to tasks/result back until the
// task is over, and asks what it needs meanwhile as in any other call.
func (f *flight) asTask(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	params, err := strictjson.Set(params, "task", []byte("{}"))
	if err != nil {
		return nil, err
	}
	made, err := f.s.g.opts.Caller.Call(ctx, f.server, f.c.protocolMethod(), params, f.s.tellProgress(f.c))
	if err != nil {
		return nil, translated(err, f)
	}
	id := stringOf(orEmpty(memberOf(made, "task")), "taskId")
	switch {
	case f.c.resultType(made) == "task": // it speaks 2026-07-28 after all
		return f.awaited(ctx, made)
	case id == "": // it did without
		return f.whole(made)
	}
	params = memberOnly("taskId", id)
	result, err := f.s.g.opts.Caller.Call(ctx, f.server, "tasks/result", params, nil)
	theirs, said := errors.AsType[*jsonrpc.Error](err)
	switch {
	case said && theirs.Code != jsonrpc.CodeInvalidParams: // what the call without a task would have ended in
		return nil, translated(err, f)
	case said: // it does not know the task any more
		return nil, f.taken(err)
	case err != nil:
		f.giveUp(ctx, params)
		return nil, f.taken(err)
	}
	if result, err = f.whole(result); err != nil {
		return nil, err
	}
	const related = "io.modelcontextprotocol/related-task" // of no use to who knows of no task
	meta := memberOf(result, "_meta")
	if kept, err := strictjson.Delete(orEmpty(meta), related); err == nil && meta != nil && len(kept) < len(meta) {
		return strictjson.Set(result, "_meta", kept)
	}
	return result, nil
}

// giveUp tells the server that nobody waits for a task.
func (f *flight) giveUp(ctx context.Context, params json.RawMessage) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), relistPause)
	defer cancel()
	if _, err := f.s.g.opts.Caller.Call(ctx, f.server, "tasks/cancel", params, nil); err != nil {
		f.s.g.opts.Log.Debug("a task was not cancelled", "server", f.server, "error", err)
	}
}

// taken is the error that a request about a task ended in, as that of the call: the call
// was taken, so it may have run whatever became of the request.
func (f *flight) taken(err error) error {
	if theirs, said := errors.AsType[*jsonrpc.Error](err); said {
		return f.unknown(fmt.Sprintf("asked about it, the server answers with error %d: %q", theirs.Code, f.words(theirs.Message)))
	}
	if known, ok := errors.AsType[Failure](err); ok && known.MayHaveRun() {
		return err
	}
	return f.unknown(err.Error())
}

// unknown says that a call was taken and that it is not known what came of it.
func (f *flight) unknown(why string) error {
	return fmt.Errorf("server %s took it as a task: %s", f.server, why)
}

// pollOf is the pause that a server wants before it is asked about a task again.
func pollOf(task json.RawMessage) time.Duration {
	var ms float64
	if raw := memberOf(task, "pollIntervalMs"); raw == nil || json.Unmarshal(raw, &ms) != nil || ms <= 0 {
		return usualPoll
	}
	return time.Duration(min(max(ms, float64(leastPoll.Milliseconds())), float64(mostPoll.Milliseconds()))) * time.Millisecond
}
