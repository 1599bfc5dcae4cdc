package transport

import (
	"strings"
	"testing"
	"time"
)

const taskCaps = `{"extensions":{"io.modelcontextprotocol/tasks":{}},"elicitation":{}}`

func TestATaskBelongsToWhoMadeIt(t *testing.T) {
	s := startHTTP(t, &fakeGate{capabilities: `{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`}, Options{}, HTTPOptions{})
	made := s.modern("tools/call", `"name":"task","arguments":{}`, taskCaps)
	_, rest, ok := strings.Cut(made.body, `"taskId":"`)
	id, _, _ := strings.Cut(rest, `"`)
	if !ok || !strings.Contains(made.body, `"resultType":"task"`) {
		t.Fatalf("no task: %+v", made)
	}
	about := `"taskId":"` + id + `"`
	tests := []struct{ name, method, params, caps, token, want string }{
		{"how it stands", "tasks/get", about, taskCaps, "laptop", `"status":"input_required"`},
		{"by another principal", "tasks/get", about, taskCaps, "server", `-32602`},
		{"by another token of the same one", "tasks/cancel", about, taskCaps, "laptop-2", `-32602`},
		{"undeclared", "tasks/get", about, formCaps, "laptop", `-32021`},
		{"unknown", "tasks/update", `"taskId":"f_x","inputResponses":{}`, taskCaps, "laptop", `-32602`},
		{"told of, undeclared", "subscriptions/listen", `"notifications":{"taskIds":["x"]}`, formCaps, "laptop", `-32021`},
		{"as if it were parked", "tools/call", `"name":"task","arguments":{},"requestState":"x"`, taskCaps, "laptop", `-32602`},
		{"answers to nothing", "tasks/update", about + `,"inputResponses":{"z":{}}`, taskCaps, "laptop", `"resultType":"complete"`},
		{"the first answer", "tasks/update", about + `,"inputResponses":{"a":{"n":1}}`, taskCaps, "laptop", `"resultType":"complete"`},
		{"what is left", "tasks/get", about, taskCaps, "laptop", `"inputRequests":{"b":{}}`},
		{"the last answer", "tasks/update", about + `,"inputResponses":{"b":{"n":2}}`, taskCaps, "laptop", `"resultType":"complete"`},
	}
	for _, tt := range tests {
		got := s.modern(tt.method, tt.params, tt.caps, "Authorization: Bearer "+tt.token)
		if !strings.Contains(got.body, tt.want) {
			t.Errorf("%s: %+v, want %s", tt.name, got, tt.want)
		}
	}
	waitFor(t, "the end of the task", func() bool {
		got := s.modern("tasks/get", about, taskCaps).body
		return strings.Contains(got, `"status":"completed"`) && strings.Contains(got, `"text":"answers {\"a\":{\"n\":1},\"b\":{\"n\":2}}"`)
	})
	if got := s.modern("tasks/cancel", about, taskCaps); !strings.Contains(got.body, `"resultType":"complete"`) {
		t.Errorf("cancelled when it was over: %+v", got)
	}
	if got := s.modern("tools/call", `"name":"task","arguments":{}`, formCaps); strings.Contains(got.body, "taskId") {
		t.Errorf("a task for who takes none: %+v", got)
	}
}

// A task that is asked about in the moment in which its time is over ends once.
func TestATaskEndsOnce(t *testing.T) {
	c := &conn{flights: map[string]*flight{}, aloft: 5}
	f := &flight{c: c, id: "f", size: 3, cancel: func() {}, expire: time.NewTimer(time.Hour)}
	c.flights[f.id] = f
	c.endFlight(f)
	if c.endFlight(f); c.aloft != 2 || len(c.flights) != 0 {
		t.Errorf("%d bytes of %d flights are left", c.aloft, len(c.flights))
	}
}
