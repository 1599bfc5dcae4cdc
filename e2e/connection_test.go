package e2e

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
)

// tallied has a counting server that says how often its very process was
// called, with a connection for each session.
func tallied(r *rig) func(cfg map[string]any) {
	return func(cfg map[string]any) {
		server := r.server()
		server["connection"] = "session"
		server["args"] = append(server["args"].([]string), "-tally")
		server["tools"] = map[string]any{"*": map[string]string{"permission": "read", "egress": "metadata"}}
		cfg["servers"] = map[string]any{"counting": server}
	}
}

// tally takes an answer of the tool apart.
func tally(t *testing.T, answer string) (pid, n int) {
	t.Helper()
	_, rest, ok := strings.Cut(answer, `"text":"process `)
	if _, err := fmt.Sscanf(rest, "%d, call %d", &pid, &n); !ok || err != nil {
		t.Fatalf("no tally in %s", answer)
	}
	return pid, n
}

func TestEachSessionHasAConnectionOverHTTP(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.configure(tallied(r))
	url, token, gate := startHTTP(t, r.home, "--exposure", "transparent")
	c := &replay{t: t}
	sessions := make([]*web, 5)
	pids := make([]int, len(sessions))
	var wg sync.WaitGroup
	for i := range sessions {
		wg.Go(func() {
			sessions[i] = c.web(url, token)
			for n := 1; n <= 5; n++ {
				_, answer := sessions[i].post(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"tally","arguments":{"nonce":"x"}}}`)
				pid, got := tally(t, answer)
				if got != n || pids[i] != 0 && pids[i] != pid {
					t.Errorf("call %d of session %d is call %d of process %d", n, i, got, pid)
				}
				pids[i] = pid
			}
		})
	}
	wg.Wait()
	seen := map[int]bool{}
	for i, pid := range pids {
		if seen[pid] {
			t.Errorf("session %d shares process %d", i, pid)
		}
		seen[pid] = true
	}
	if n := len(running(r.runs)); n != len(sessions)+1 {
		t.Errorf("%d processes serve %d sessions and the list of tools", n, len(sessions))
	}
	out, errs, code := command(t, r.home, "--json", "status")
	if !strings.Contains(out, `"sessions": 5`) {
		t.Errorf("status: exit %d, %s\n%s", code, out, errs)
	}

	// A session that ends takes its process along, and no other.
	req, err := http.NewRequest("DELETE", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Mcp-Session-Id", sessions[0].session)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	r.until("end of the session's process", func() bool { return len(running(r.runs)) == len(sessions) })
	_, answer := sessions[1].post(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"tally","arguments":{"nonce":"x"}}}`)
	if pid, n := tally(t, answer); pid != pids[1] || n != 6 {
		t.Errorf("another session goes on with call %d of process %d, not %d", n, pid, pids[1])
	}

	// A gate that is killed leaves nothing.
	if err := gate.Signal(os.Kill); err != nil {
		t.Fatal(err)
	}
	r.orphans()
}

func TestEachSessionHasAConnectionOverStdio(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.configure(tallied(r))
	one, two := r.client(nobody), r.client(nobody)
	pids := map[int]bool{}
	for n := 1; n <= 3; n++ {
		for _, a := range []*agent{one, two} {
			pid, got := tally(t, a.must("counting/tally", `{"nonce":"x"}`))
			if pids[pid] = true; got != n {
				t.Errorf("call %d is call %d of its process", n, got)
			}
		}
	}
	if len(pids) != 2 {
		t.Errorf("two sessions have the processes %v", pids)
	}
	one.close()
	two.kill()
	r.orphans()
}
