package gate

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/policy"
)

// wide offers tools that only some providers take.
var wide = []string{
	`{"name":"put.row","description":"Put a row.","inputSchema":{"type":"object","properties":{"row id":{"type":"string"},"n":{"type":"integer","exclusiveMinimum":0}},"required":["row id"],"anyOf":[{"required":["n"]},{"required":["m"]}]}}`,
	`{"name":"plain","description":"Plain.","inputSchema":{"type":"object","properties":{"a":{"type":"string"}}}}`,
}

// listed are the definitions of a session, by name.
func listed(t *testing.T, s *Session) map[string]json.RawMessage {
	t.Helper()
	raw, err := s.ListTools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all []json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	byName := map[string]json.RawMessage{}
	for _, d := range all {
		byName[stringOf(d, "name")] = d
	}
	return byName
}

func TestAClientGetsWhatItBears(t *testing.T) {
	for _, exposure := range []Exposure{Direct, Transparent} {
		t.Run(string(exposure), func(t *testing.T) {
			r := newRig(t, func(o *Options) {
				o.Profiles = map[string]Profile{"": {Authority: engagement.DefaultAuthority(), Exposure: exposure, Servers: []string{"hub"}}}
				o.Clients = map[string]catalog.Limits{"strict": {Strict: true}, "short": {Name: 14}}
			})
			r.gate.Offer("hub", raws(wide))
			plain, strict := r.open(t, Identity{Principal: "local", Scope: policy.ScopeAdmin}), r.open(t, Identity{Principal: "local/strict", Client: "strict", Scope: policy.ScopeAdmin})
			for name, d := range listed(t, plain) {
				if exposure == Transparent && !slices.Contains(wide, string(d)) {
					t.Errorf("%s is not as it came: %s", name, d)
				}
			}
			given := listed(t, strict)
			var name, id string
			for n, d := range given {
				if strings.Contains(n, "put") {
					name = n
					if !strings.Contains(string(d), `Put a row. Give at least one of: \"n\"; or \"m\".`) || strings.Contains(string(d), "anyOf") {
						t.Errorf("a strict client gets %s", d)
					}
					rest := string(d)[strings.Index(string(d), `"row_id_`)+1:]
					id, _, _ = strings.Cut(rest, `"`)
				}
			}
			if name == "" || strings.Contains(name, ".") {
				t.Fatalf("a strict client's tools are %v", given)
			}
			if again := listed(t, r.open(t, Identity{Principal: "local/strict", Client: "strict", Scope: policy.ScopeAdmin})); string(again[name]) != string(given[name]) {
				t.Errorf("the next session gets %s, not %s", again[name], given[name])
			}
			out := strict.Call(t.Context(), Request{Name: name, Args: json.RawMessage(`{"` + id + `": "7", "n":1}`), CanAsk: true})
			if sent := r.caller.calls(); out.Error != nil || len(sent) != 1 || !strings.Contains(sent[0], `{"row id": "7", "n":1}`) {
				t.Fatalf("got %s %v, and sent %v", out.Result, out.Error, sent)
			}
			r.caller.mu.Lock()
			r.caller.sent = nil
			r.caller.mu.Unlock()
			// What only the server's own schema forbids is refused all the same.
			r.refusedAs(t, strict.Call(t.Context(), Request{Name: name, Args: json.RawMessage(`{"` + id + `":"7","n":0}`), CanAsk: true}), "arguments")
			r.refusedAs(t, strict.Call(t.Context(), Request{Name: name, Args: json.RawMessage(`{"` + id + `":"7"}`), CanAsk: true}), "arguments")
		})
	}
}

func TestShortNamesLeadBack(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Profiles = map[string]Profile{"": {Authority: engagement.DefaultAuthority(), Exposure: Direct}}
		o.Clients = map[string]catalog.Limits{"short": {Name: 14}}
	})
	s := r.open(t, Identity{Principal: "local", Client: "short", Scope: policy.ScopeAdmin})
	tools := map[string]bool{}
	for name := range listed(t, s) {
		if len(name) > 14 {
			t.Errorf("%q is longer than the client bears", name)
		}
		if isMeta(name) {
			continue
		}
		before := len(r.caller.calls())
		out := s.Call(t.Context(), Request{Name: name, Args: json.RawMessage(`{"n":1,"title":"x"}`), CanAsk: true})
		switch {
		case out.Error != nil:
			t.Errorf("%q: %v", name, out.Error)
		case len(r.caller.calls()) > before:
			tools[r.caller.calls()[before]] = true
		default:
			tools[out.Ask.Message] = true
		}
	}
	if len(tools) != 6 {
		t.Errorf("six tools answer as %d: %v", len(tools), tools)
	}
	if f, err := r.gate.Fittings("short", Direct); err != nil || len(f) == 0 || f[0].Alterations[0].At != "name" {
		t.Errorf("what was changed is %v, %v", f, err)
	}
	if f, err := r.gate.Fittings("any", Direct); err != nil || len(f) != 0 {
		t.Errorf("nothing was changed, and it says %v, %v", f, err)
	}
}

func TestMetaToolsAreInStrictFormToo(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Clients = map[string]catalog.Limits{"strict": {Strict: true}} })
	s := r.open(t, Identity{Principal: "local", Client: "strict", Scope: policy.ScopeAdmin})
	for name, d := range listed(t, s) {
		for _, gone := range []string{"additionalProperties", "oneOf", "anyOf", "const", "$ref"} {
			if strings.Contains(string(d), `"`+gone+`"`) {
				t.Errorf("%s has %s: %s", name, gone, d)
			}
		}
	}
	if out := through(t, s, "hub/get_issue", `{"n":1}`); out.Error != nil || len(r.caller.calls()) != 1 {
		t.Errorf("got %s %v", out.Result, out.Error)
	}
}
