// Command tasking is an MCP server over stdio that speaks 2026-07-28 alone and
// answers calls with tasks where its client takes them: the tools that the protocol's
// own suite wants for its scenarios of the tasks extension.
//
// It stands behind the gate in the tests of e2e and is of no use elsewhere.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

const ext = "io.modelcontextprotocol/tasks"

type object = map[string]any

type message struct {
	ID     json.RawMessage
	Method string
	Params struct {
		Name           string
		Arguments      map[string]any
		TaskID         string
		InputResponses map[string]struct{ Content map[string]any }
		Meta           struct {
			Capabilities struct{ Extensions map[string]any } `json:"io.modelcontextprotocol/clientCapabilities"`
		} `json:"_meta"`
	}
}

// task is one call that goes on. What it waits for, it has until it is answered.
type task struct {
	id     string
	made   time.Time
	ends   time.Time // it is over then, unless it waits for something
	waits  object
	given  []string
	result object
	failed object
	ended  bool // cancelled
}

var (
	mu    sync.Mutex
	tasks = map[string]*task{}
)

func main() {
	out := bufio.NewWriter(os.Stdout)
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var m message
		if err := json.Unmarshal(in.Bytes(), &m); err != nil || m.ID == nil {
			continue
		}
		reply := object{"jsonrpc": "2.0", "id": m.ID}
		if result, failed := answer(m); failed != nil {
			reply["error"] = failed
		} else {
			if result["resultType"] == nil {
				result["resultType"] = "complete"
			}
			reply["result"] = result
		}
		line, err := json.Marshal(reply)
		if err != nil {
			fmt.Fprintln(os.Stderr, "tasking:", err)
			os.Exit(1)
		}
		_, _ = out.Write(append(line, '\n'))
		if out.Flush() != nil {
			return
		}
	}
}

func text(words string) object {
	return object{"content": []object{{"type": "text", "text": words}}}
}

func form(message, field string) object {
	return object{"method": "elicitation/create", "params": object{"mode": "form", "message": message,
		"requestedSchema": object{"type": "object", "properties": object{field: object{"type": "string"}}}}}
}

func answer(m message) (result, failed object) {
	switch m.Method {
	case "server/discover":
		return object{"supportedVersions": []string{"2026-07-28"}, "ttlMs": 0, "cacheScope": "public",
			"capabilities": object{"tools": object{}, "extensions": object{ext: object{}}}}, nil
	case "tools/list":
		list := []object{}
		for _, name := range []string{"greet", "slow_compute", "failing_job", "protocol_error_job", "confirm_delete", "multi_input", "test_tool_with_task"} {
			list = append(list, object{"name": name, "inputSchema": object{"type": "object"}})
		}
		return object{"tools": list, "ttlMs": 0, "cacheScope": "public"}, nil
	case "tools/call":
		return call(m)
	case "tasks/get", "tasks/update", "tasks/cancel":
		return about(m)
	}
	return nil, object{"code": -32601, "message": "method not found: " + m.Method}
}

func call(m message) (result, failed object) {
	t := &task{made: time.Now()}
	t.ends = t.made.Add(time.Second)
	switch m.Params.Name {
	case "greet":
		return text(fmt.Sprintf("Hello, %v!", m.Params.Arguments["name"])), nil
	case "slow_compute":
		seconds, _ := m.Params.Arguments["seconds"].(float64)
		t.ends = t.made.Add(time.Duration(seconds * float64(time.Second)))
		t.result = text("computed")
	case "failing_job":
		t.result = text("the job failed")
		t.result["isError"] = true
	case "protocol_error_job":
		t.failed = object{"code": -32050, "message": "the job panicked", "data": object{"n": json.Number("9007199254740993")}}
	case "confirm_delete":
		t.waits, t.result = object{"sure": form("Delete it?", "confirm")}, text("deleted")
	case "multi_input":
		t.waits, t.result = object{"first": form("One?", "name"), "second": form("Two?", "name")}, text("both are there")
	case "test_tool_with_task":
		who, ok := m.Params.InputResponses["user_name"]
		if !ok {
			return object{"resultType": "input_required", "requestState": "mine", "inputRequests": object{"user_name": form("Your name?", "name")}}, nil
		}
		t.result = text(fmt.Sprint(who.Content["name"]))
	default:
		return nil, object{"code": -32602, "message": "unknown tool"}
	}
	if _, takes := m.Params.Meta.Capabilities.Extensions[ext]; !takes {
		return nil, object{"code": -32021, "message": "it takes no tasks", "data": object{"requiredCapabilities": object{"extensions": object{ext: object{}}}}}
	}
	mu.Lock()
	defer mu.Unlock()
	t.id = fmt.Sprintf("task %d é", len(tasks)+1)
	tasks[t.id] = t
	result = t.stands()
	result["resultType"] = "task"
	return result, nil
}

func about(m message) (result, failed object) {
	mu.Lock()
	defer mu.Unlock()
	t := tasks[m.Params.TaskID]
	if t == nil {
		return nil, object{"code": -32602, "message": "no such task"}
	}
	switch m.Method {
	case "tasks/cancel":
		t.ended = t.ended || t.stands()["status"] != "completed"
		return object{}, nil
	case "tasks/update":
		for name, response := range m.Params.InputResponses {
			if t.waits[name] != nil {
				delete(t.waits, name)
				t.given = append(t.given, fmt.Sprint(response.Content))
			}
		}
		return object{}, nil
	}
	o := t.stands()
	switch o["status"] {
	case "completed":
		if o["result"] = t.result; len(t.given) > 0 {
			o["result"] = text(strings.Join(t.given, " "))
		}
	case "failed":
		o["error"] = t.failed
	case "input_required":
		o["inputRequests"] = t.waits
	}
	return o, nil
}

func (t *task) stands() object {
	status := "working"
	switch over := !time.Now().Before(t.ends); {
	case t.ended:
		status = "cancelled"
	case len(t.waits) > 0:
		status = "input_required"
	case over && t.failed != nil:
		status = "failed"
	case over:
		status = "completed"
	}
	return object{"taskId": t.id, "status": status, "createdAt": t.made.UTC().Format(time.RFC3339), "lastUpdatedAt": t.made.UTC().Format(time.RFC3339),
		"ttlMs": 60000, "pollIntervalMs": 100}
}
