package inbox_test

import (
	"encoding/json"
	"errors"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/inbox"
)

// matcher stands for the policy's words: globs, and one constraint.
type matcher struct {
	tool string
	args string
	lost bool
}

func (m matcher) Tool(pattern string) bool {
	ok, err := path.Match(pattern, m.tool)
	return err == nil && ok
}

func (m matcher) Args(c json.RawMessage) (bool, error) {
	if m.lost {
		return false, inbox.ErrArgsNotKept
	}
	return strings.Contains(string(c), m.args), nil
}

func terms() inbox.Terms {
	return inbox.Terms{
		Tools: []string{"github/create_*"}, Args: json.RawMessage(`{"/owner": {"eq": "<acme>"}}`), Principal: "local",
		Class: engagement.SourceFileWrite, Calls: 3, Until: noon.Add(time.Hour),
		Definitions: map[string]string{"github/create_issue": inbox.Pin("sid", "def")},
	}
}

func call() inbox.Call {
	return inbox.Call{
		Tool: catalog.ToolID{Server: "github", Tool: "create_issue"}, Server: "sid", Definition: "def",
		Principal: "local", Session: "s_1", Class: engagement.SourceFileWrite, ArgsDigest: "d",
	}
}

var fits = matcher{tool: "github/create_issue", args: "acme"}

func TestAGrantCoversWhatItsTermsSay(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*inbox.Grant, *inbox.Call, *matcher)
		want bool
	}{
		"the call itself":   {func(*inbox.Grant, *inbox.Call, *matcher) {}, true},
		"another principal": {func(_ *inbox.Grant, c *inbox.Call, _ *matcher) { c.Principal = "x" }, false},
		"all below a name":  {func(g *inbox.Grant, c *inbox.Call, _ *matcher) { g.Terms.Principal, c.Principal = "local/*", "local/x" }, true},
		"the name itself":   {func(g *inbox.Grant, _ *inbox.Call, _ *matcher) { g.Terms.Principal = "local/*" }, true},
		"a name that begins so": {func(g *inbox.Grant, c *inbox.Call, _ *matcher) {
			g.Terms.Principal, c.Principal = "local/*", "localhost"
		}, false},
		"below a single name":  {func(_ *inbox.Grant, c *inbox.Call, _ *matcher) { c.Principal = "local/x" }, false},
		"a changed definition": {func(_ *inbox.Grant, c *inbox.Call, _ *matcher) { c.Definition = "x" }, false},
		"another server":       {func(_ *inbox.Grant, c *inbox.Call, _ *matcher) { c.Server = "x" }, false},
		"a tool not pinned":    {func(_ *inbox.Grant, c *inbox.Call, _ *matcher) { c.Tool.Tool = "create_repo" }, false},
		"a higher class":       {func(_ *inbox.Grant, c *inbox.Call, _ *matcher) { c.Class = engagement.Destructive }, false},
		"a lower class":        {func(_ *inbox.Grant, c *inbox.Call, _ *matcher) { c.Class = engagement.Read }, true},
		"no class":             {func(_ *inbox.Grant, c *inbox.Call, _ *matcher) { c.Class = 0 }, false},
		"other arguments":      {func(_ *inbox.Grant, _ *inbox.Call, m *matcher) { m.args = "evil" }, false},
		"a pattern beside it":  {func(g *inbox.Grant, _ *inbox.Call, _ *matcher) { g.Terms.Tools = []string{"github/delete_*"} }, false},
		"its own session":      {func(g *inbox.Grant, _ *inbox.Call, _ *matcher) { g.Terms.Session = "s_1" }, true},
		"another session":      {func(g *inbox.Grant, _ *inbox.Call, _ *matcher) { g.Terms.Session = "s_2" }, false},
		"these very arguments": {func(g *inbox.Grant, _ *inbox.Call, _ *matcher) { g.Terms.ArgsDigest = "d" }, true},
		"others than these":    {func(g *inbox.Grant, _ *inbox.Call, _ *matcher) { g.Terms.ArgsDigest = "e" }, false},
		"a tool taken out":     {func(g *inbox.Grant, _ *inbox.Call, _ *matcher) { g.Narrowed.Without = []string{"github/create_issue"} }, false},
		"a constraint put in":  {func(g *inbox.Grant, _ *inbox.Call, _ *matcher) { g.Narrowed.Args = []json.RawMessage{[]byte(`"x"`)} }, false},
		"destructive by pattern": {func(g *inbox.Grant, c *inbox.Call, _ *matcher) {
			g.Terms.Class, c.Class = engagement.Destructive, engagement.Destructive
		}, false},
		"destructive by name": {func(g *inbox.Grant, c *inbox.Call, _ *matcher) {
			g.Terms.Class, c.Class, g.Terms.Tools = engagement.Destructive, engagement.Destructive, []string{"github/create_issue"}
		}, true},
	} {
		g, cl, m := inbox.Grant{Terms: terms()}, call(), fits
		c.edit(&g, &cl, &m)
		if got, err := g.Covers(cl, m); err != nil || got != c.want {
			t.Errorf("%s: covered %v, %v, want %v", name, got, err, c.want)
		}
	}
}

func TestAGrantNeedsProofAndSense(t *testing.T) {
	h := newHome(t)
	own := newPlainKey()
	for name, edit := range map[string]func(*inbox.Terms){
		"no tools":                  func(t *inbox.Terms) { t.Tools = nil },
		"no pins":                   func(t *inbox.Terms) { t.Definitions = nil },
		"no calls":                  func(t *inbox.Terms) { t.Calls = 0 },
		"too many calls":            func(t *inbox.Terms) { t.Calls = inbox.MaxGrantCalls + 1 },
		"past":                      func(t *inbox.Terms) { t.Until = noon },
		"no principal":              func(t *inbox.Terms) { t.Principal = "" },
		"no class":                  func(t *inbox.Terms) { t.Class = 0 },
		"destructive by pattern":    func(t *inbox.Terms) { t.Class = engagement.Destructive },
		"a constraint that is none": func(t *inbox.Terms) { t.Args = json.RawMessage(`{"a":1,"a":2}`) },
	} {
		bad := terms()
		edit(&bad)
		if _, err := h.desk.AddGrant(h.ctx, bad, inbox.L1, inbox.Terminal, h.key, inbox.L1); err == nil {
			t.Errorf("%s: granted", name)
		}
	}
	_, err := h.desk.AddGrant(h.ctx, terms(), inbox.L1, inbox.Terminal, own, inbox.L0)
	wantErr[*inbox.ProofError](t, err)
	_, err = h.desk.AddGrant(h.ctx, terms(), inbox.L1, inbox.Terminal, h.key, inbox.L2)
	wantErr[*inbox.LevelError](t, err)
	g, err := h.desk.AddGrant(h.ctx, terms(), inbox.L1, inbox.Terminal, h.key, inbox.L1)
	h.must(err)

	// What is stored is what was signed; what somebody stores is not.
	if _, ok, err := h.in.Covering(h.ctx, call(), fits, inbox.L1); !ok || err != nil {
		t.Fatalf("the grant does not hold after being stored: %v", err)
	}
	wide := g
	wide.ID, wide.Terms.Calls = "g_abcdefghijklmnopqrstuvwxyz", 1000
	h.must(h.store.AddGrant(h.ctx, wide))
	if _, err := h.in.Spend(h.ctx, wide.ID, call(), fits, inbox.L1); err == nil {
		t.Error("an unsigned grant was spent")
	}
}

func TestAGrantIsSpentExactly(t *testing.T) {
	h := newHome(t)
	few := terms()
	few.Calls = 20
	g, err := h.desk.AddGrant(h.ctx, few, inbox.L1, inbox.Terminal, h.key, inbox.L1)
	h.must(err)
	var spent atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		in := h.gate()
		wg.Go(func() {
			for range 5 {
				switch _, err := in.Spend(h.ctx, g.ID, call(), fits, inbox.L1); {
				case err == nil:
					spent.Add(1)
				case !errors.Is(err, inbox.ErrSpent):
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if spent.Load() != 20 {
		t.Errorf("%d calls of a grant for 20", spent.Load())
	}
}

func TestGrantsOnlyNarrow(t *testing.T) {
	h := newHome(t)
	g, err := h.desk.AddGrant(h.ctx, terms(), inbox.L1, inbox.Terminal, h.key, inbox.L1)
	h.must(err)
	more, later := 1000, noon.Add(24*time.Hour)
	g, err = h.desk.Narrow(h.ctx, g.ID, inbox.Narrowing{Calls: &more, Until: &later})
	h.must(err)
	if calls, until := g.Limit(); calls != 3 || !until.Equal(noon.Add(time.Hour)) {
		t.Errorf("an edit widened it to %d calls until %v", calls, until)
	}
	fewer := 1
	g, err = h.desk.Narrow(h.ctx, g.ID, inbox.Narrowing{Calls: &fewer})
	h.must(err)
	g, err = h.desk.Narrow(h.ctx, g.ID, inbox.Narrowing{Calls: &more})
	h.must(err)
	if g.Left(noon) != 1 || g.Left(noon.Add(time.Hour)) != 0 {
		t.Errorf("left %d", g.Left(noon))
	}
	_, err = h.in.Spend(h.ctx, g.ID, call(), fits, inbox.L1)
	h.must(err)
	if _, err = h.in.Spend(h.ctx, g.ID, call(), fits, inbox.L1); !errors.Is(err, inbox.ErrSpent) {
		t.Error(err)
	}
	other, err := h.desk.AddGrant(h.ctx, terms(), inbox.L1, inbox.Terminal, h.key, inbox.L1)
	h.must(err)
	_, err = h.desk.Revoke(h.ctx, other.ID)
	h.must(err)
	if _, err = h.in.Spend(h.ctx, other.ID, call(), fits, inbox.L1); !errors.Is(err, inbox.ErrSpent) {
		t.Error("a revoked grant was spent")
	}
	if all, err := h.desk.Grants(h.ctx); err != nil || len(all) != 2 {
		t.Errorf("listed %v, %v", all, err)
	}
}

func TestSimulate(t *testing.T) {
	other := call()
	other.Principal = "x"
	got := inbox.Simulate(terms(), []inbox.Call{call(), other, call()}, func(i int) inbox.Matcher {
		m := fits
		m.lost = i == 2
		return m
	})
	if want := []inbox.Coverage{inbox.Covered, inbox.NotCovered, inbox.DependsOnArgs}; got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("simulated %v, want %v", got, want)
	}
}
