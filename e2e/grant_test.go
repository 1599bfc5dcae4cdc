package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/inbox"
)

// A grant of ten calls is good for ten, however many gates spend it side by side,
// and for the arguments that it was made for.
func TestAGrantIsSpentOnceByAnyNumberOfGates(t *testing.T) {
	t.Parallel()
	const calls, gates, each = 10, 4, 8
	r := newRig(t, func(cfg map[string]any) {
		cfg["profiles"] = map[string]any{"work": map[string]any{"reading": map[string]string{"act": "modify", "stakes": "costly"}}}
	})
	p := r.person()
	agents := make([]*agent, gates)
	for i := range agents {
		agents[i] = r.client(answering(laterForm), "--profile", "work")
	}
	agents[0].mustErase("first")
	asked := r.state("first", inbox.Pending)
	terms := inbox.Terms{
		Tools: []string{"counting/erase"}, Principal: asked.Binding.Principal, Class: engagement.Destructive, Calls: calls,
		Args:  json.RawMessage(`{"/nonce":{"glob":"ok*"}}`),
		Until: time.Now().Add(time.Hour), Definitions: map[string]string{"counting/erase": inbox.Pin(asked.Binding.Server, asked.Binding.Definition)},
	}
	if _, err := p.desk.AddGrant(context.Background(), terms, inbox.L1, inbox.Terminal, p.key, inbox.L1); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i, a := range agents {
		for j := range each {
			all.Go(func() {
				nonce := fmt.Sprintf("ok-%d-%d", i, j)
				if j == 0 {
					nonce = fmt.Sprintf("other-%d", i)
				}
				if got, err := a.erase(nonce); err != nil || !strings.Contains(got, "erase did") && !strings.Contains(got, "[deferred]") {
					t.Errorf("%s gives %s, %v", nonce, got, err)
				}
			})
		}
	}
	all.Wait()
	ran := r.ran()
	for nonce := range ran {
		if !strings.HasPrefix(nonce, "ok") {
			t.Errorf("%s ran", nonce)
		}
	}
	if len(ran) != calls {
		t.Errorf("%d calls ran by a grant of %d", len(ran), calls)
	}
}
