package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/upstream"
)

// gateVar names the gate for a copy of this test binary that the suite starts as
// the client it is to test.
const gateVar = "MCP_GATE_E2E_GATE"

// TestConformanceAsAClient lets the protocol's own suite be the server: a gate is
// configured with it, used, and signed in to it. What is to come of each scenario
// is in testdata/client-role.txt.
func TestConformanceAsAClient(t *testing.T) {
	want := clientRole(t)
	list, err := exec.Command(built.node, suite, "list", "--client").Output()
	if err != nil {
		t.Fatal(err)
	}
	known := regexp.MustCompile(`(?m)^  - (\S+)`).FindAllStringSubmatch(string(list), -1)
	for _, m := range known {
		if want[m[1]] == "" {
			t.Errorf("%s is not on the list", m[1])
		}
	}
	if len(known) != len(want) {
		t.Errorf("the suite has %d scenarios, the list %d", len(known), len(want))
	}
	for _, tt := range []struct{ name, flag, value string }{
		{"2025-11-25", "--requirements", "2025-11-25"},
		{"2026-07-28", "--requirements", "2026-07-28"},
		{"servers of 2025-03-26", "--suite", "backcompat"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := asClient(t, tt.flag, tt.value)
			if len(got) == 0 {
				t.Fatal("nothing was run")
			}
			for scenario, r := range got {
				word := want[scenario]
				if word != "fails" && r.failed != "" {
					// It may take the time, and where the suite, one process for
					// all of them, keeps silent for 15 s it is taken for an older server.
					t.Logf("once more, alone: %s failed %s", scenario, r.failed)
					r = asClient(t, "--scenario", scenario)[scenario]
				}
				switch {
				case word == "fails" && r.failed == "":
					t.Errorf("%s passes now: correct the list", scenario)
				case word != "fails" && r.failed != "", word != "fails" && (word == "passes") != r.served:
					t.Errorf("%s: want %s, served %t, checks that failed: %s\n%s", scenario, word, r.served, r.failed, r.said)
				}
			}
		})
	}
}

// clientRole reads the list: a scenario, a word, and a reason where it needs one.
func clientRole(t *testing.T) map[string]string {
	raw, err := os.ReadFile(filepath.Join("testdata", "client-role.txt"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0] == "#":
			continue
		case len(words) < 2 || want[words[0]] != "" || len(words) < 5 && words[1] != "passes":
			t.Fatalf("client-role.txt: a line twice, or without its reason: %s", line)
		}
		want[words[0]] = words[1]
	}
	return want
}

// A played scenario is what came of one.
type played struct {
	served bool   // the client got what it asked for
	failed string // the checks that say so
	said   string
}

// asClient runs the suite with [asTheSuitesClient] as the client.
func asClient(t *testing.T, flags ...string) map[string]played {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(ctx, built.node, append([]string{suite, "client", "--command", self, "--output-dir", dir, "--timeout", "120000"}, flags...)...)
	cmd.Env = append(os.Environ(), gateVar+"="+built.gate, "MCP_GATE_NO_KEYCHAIN=1")
	if out, err := cmd.CombinedOutput(); err != nil && !strings.Contains(string(out), "OVERALL") && !strings.Contains(string(out), "SUITE SUMMARY") {
		t.Fatalf("the suite did not run: %v\n%s", err, out)
	}
	got := map[string]played{}
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.Name() != "checks.json" {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		said, err := os.ReadFile(filepath.Join(filepath.Dir(path), "stdout.txt"))
		if err != nil {
			return err
		}
		var checks []struct{ ID, Status, Description, ErrorMessage string }
		if err := json.Unmarshal(raw, &checks); err != nil {
			return err
		}
		r := played{served: strings.HasSuffix(string(said), "PASS\n"), said: string(said)}
		for _, c := range checks {
			if c.Status == "FAILURE" || c.Status == "WARNING" {
				r.failed += fmt.Sprintf("%s (%s%s) ", c.ID, c.Description, c.ErrorMessage)
			}
		}
		in, err := filepath.Rel(dir, filepath.Dir(path))
		got[stamped.ReplaceAllString(filepath.ToSlash(in), "")] = r
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// stamped is what the suite puts behind a scenario's name in its folders.
var stamped = regexp.MustCompile(`-\d{4}-\d{2}-\d{2}T[-\dZ]+$`)

// asTheSuitesClient is that client: a gate whose one upstream is the suite's server,
// used as a person and an agent would. It is all that this binary tests where
// the suite starts it.
func asTheSuitesClient(t *testing.T) {
	// The suite starts its scenarios all at once; four are at work at a time, so
	// that none finds a server that has no time for it.
	turn, err := os.OpenFile(filepath.Join(filepath.Dir(built.gate), fmt.Sprintf("turn%d", os.Getpid()%4)), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = syscall.Flock(int(turn.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer turn.Close()
	scenario := os.Getenv("MCP_CONFORMANCE_SCENARIO")
	var given struct {
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
		ToolCalls    []struct {
			Name      string
			Arguments json.RawMessage
		}
	}
	if raw := os.Getenv("MCP_CONFORMANCE_CONTEXT"); raw != "" {
		if err := json.Unmarshal([]byte(raw), &given); err != nil {
			t.Fatal(err)
		}
	}
	server := map[string]any{"url": os.Args[len(os.Args)-1], "tools": map[string]any{"*": map[string]string{"permission": "read", "egress": "metadata"}}}
	switch {
	case given.ClientID != "":
		server["auth"] = map[string]string{"client_id": given.ClientID, "client_secret": given.ClientSecret}
	case scenario == "auth/basic-cimd":
		server["auth"] = map[string]string{"client_id": "https://conformance-test.local/client-metadata.json"}
	}
	r := &rig{t: t, home: home(t, map[string]any{
		"servers": map[string]any{"suite": server},
		"policy":  map[string]any{"egress": []string{"metadata", "aggregates", "row_level", "rendered_pixels", "raw_pixels"}},
	})}
	if strings.HasPrefix(scenario, "auth/") {
		r.signInAndCall()
		return
	}
	s := &suiteClient{agent: r.spawn(applyDefaults, built.gate, "--exposure", "transparent"), modern: os.Getenv("MCP_CONFORMANCE_PROTOCOL_VERSION") == "2026-07-28"}
	if !s.modern {
		if err := s.handshake(`{"elicitation":{}}`); err != nil {
			t.Fatalf("%v\n%s", err, s.log)
		}
	}
	var suite upstream.Status
	r.until("server that is up or failed", func() bool { // a list waits for it only so long
		var status struct {
			Gates []struct{ Servers []upstream.Status }
		}
		out, _, _ := command(t, r.home, "status", "--json")
		if err := json.Unmarshal([]byte(out), &status); err != nil || len(status.Gates) != 1 || len(status.Gates[0].Servers) != 1 {
			return false
		}
		suite = status.Gates[0].Servers[0]
		return suite.Listed || suite.Starts > 3
	})
	var listed struct {
		Tools []struct {
			Name        string
			InputSchema json.RawMessage
		}
		Prompts   []struct{ Name string }
		Resources []struct{ URI string }
	}
	look := func(list string) {
		if found := s.do(list, `{}`); found != nil {
			if err := json.Unmarshal(found, &listed); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.until("tools of the server", func() bool { // which the gate looks at first
		look("tools/list")
		return suite.Tools == 0 || len(listed.Tools) > 0
	})
	look("prompts/list")
	look("resources/list")
	for _, tool := range listed.Tools {
		switch {
		case len(given.ToolCalls) > 0 || tool.Name == "json_schema_2020_12_tool":
		case tool.Name == "json_schema_echo":
			s.do("tools/call", fmt.Sprintf(`{"name":%q,"arguments":{"schema":%s}}`, tool.Name, listed.Tools[0].InputSchema))
		default:
			s.do("tools/call", fmt.Sprintf(`{"name":%q,"arguments":{"a":2,"b":3}}`, tool.Name))
		}
	}
	for _, call := range given.ToolCalls {
		s.do("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, call.Name, call.Arguments))
	}
	for _, p := range listed.Prompts {
		s.do("prompts/get", fmt.Sprintf(`{"name":%q}`, p.Name))
	}
	for _, p := range listed.Resources {
		s.do("resources/read", fmt.Sprintf(`{"uri":%q}`, p.URI))
	}
}

// signInAndCall calls a tool, and signs in whenever the gate says that this is
// needed: three times at the most, as a person would.
func (r *rig) signInAndCall() {
	for tries := 0; ; tries++ {
		out, errs, code := command(r.t, r.home, "call", "suite/test-tool", `{}`)
		fmt.Printf("call: exit %d\n%s%s", code, out, errs)
		const signIn = 4
		switch {
		case code == 0:
			return
		case code != signIn || tries == 3:
			r.t.Fatalf("the call ended with %d: %s", code, errs)
		}
		r.signIn()
	}
}

// signIn is a browser that says yes to everything.
func (r *rig) signIn() {
	cmd := exec.Command(built.gate, "--home", r.home, "auth", "login", "suite", "--no-browser")
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		r.t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		fmt.Println("login:", lines.Text())
		if at := strings.TrimSpace(lines.Text()); strings.HasPrefix(at, "http") {
			resp, err := http.Get(at)
			if err != nil {
				r.t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	}
	if err := cmd.Wait(); err != nil {
		r.t.Fatal(err)
	}
}

type suiteClient struct {
	*agent
	modern bool
}

// do makes a request, and again with what it asks for in between.
func (s *suiteClient) do(method, params string) json.RawMessage {
	if s.modern {
		params = strings.TrimSuffix(params, "}")
		if params != "{" {
			params += ","
		}
		params += `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"e2e","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}`
	}
	m, err := s.request(method, params)
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", method, err, s.log)
	}
	fmt.Printf("%s %s\n-> %s%s\n", method, params, m.Result, m.Error)
	var wants struct {
		ResultType    string
		InputRequests map[string]struct{ Params json.RawMessage }
		RequestState  *string
	}
	if m.Result == nil || json.Unmarshal(m.Result, &wants) != nil || wants.ResultType != "input_required" {
		return m.Result
	}
	more := `"inputResponses":{`
	for name := range wants.InputRequests {
		more += fmt.Sprintf(`%q:{"action":"accept","content":{"confirmed":true}},`, name)
	}
	more = strings.TrimSuffix(more, ",") + "}"
	if wants.RequestState != nil {
		state, _ := json.Marshal(*wants.RequestState)
		more += `,"requestState":` + string(state)
	}
	m, err = s.request(method, strings.TrimSuffix(params, "}")+","+more+"}")
	fmt.Printf("again with %s\n-> %s%s %v\n", more, m.Result, m.Error, err)
	return m.Result
}

// applyDefaults is a client that sends a form back as it came.
func applyDefaults(a *agent, q question) {
	var form struct {
		RequestedSchema struct {
			Properties map[string]struct{ Default json.RawMessage }
		}
	}
	_ = json.Unmarshal(q.params, &form) // one without fields has no defaults
	content := map[string]json.RawMessage{}
	for name, field := range form.RequestedSchema.Properties {
		if field.Default != nil {
			content[name] = field.Default
		}
	}
	raw, _ := json.Marshal(map[string]any{"action": "accept", "content": content})
	a.write(jsonrpc.AppendResult(nil, q.id, raw))
}
