package gate

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestANameThatIsNobodysIsSaidBack(t *testing.T) {
	r := newRig(t, nil)
	s := r.open(t, Identity{})
	say := func(name, args string) string {
		out := s.Call(t.Context(), Request{Name: name, Args: json.RawMessage(args)})
		if out.Error != nil {
			return out.Error.Message
		}
		return string(out.Result)
	}
	long := strings.Repeat("é", 5000)
	for _, c := range []struct{ name, args, want, not string }{
		{"call_tool", `{"name":"nope"}`, "there is no tool nope", ""},
		{"call_tool", `{"name":"hub/nope"}`, "there is no tool hub/nope", ""},
		{"call_tool", `{"name":"call_tool"}`, "there is no tool call_tool", ""},
		{"call_tool", `{"name":"` + long + `"}`, "there is no tool é", strings.Repeat("é", 101)},
		{"hub/get_issue", `{}`, "give it to call_tool", "there is no tool"},
		{"hub_nope", `{}`, `there is no tool "hub_nope"`, ""},
	} {
		got := say(c.name, c.args)
		if !strings.Contains(got, c.want) || c.not != "" && strings.Contains(got, c.not) {
			t.Errorf("%s %.60s: got %.300s", c.name, c.args, got)
		}
	}

	// Where tools are listed they have another name, and are not their own nearest.
	for exposure, want := range map[Exposure]string{Direct: "give it to call_tool", Transparent: `hub/get_issue is called "get_issue" here`} {
		listed := newRig(t, func(o *Options) { o.Profiles = map[string]Profile{"": {Exposure: exposure, Servers: []string{"hub"}}} }).open(t, Identity{})
		out := listed.Call(t.Context(), Request{Name: "hub/get_issue", Args: json.RawMessage(`{}`)})
		if out.Error == nil || !strings.Contains(out.Error.Message, want) || strings.Contains(out.Error.Message, "there is no tool") {
			t.Errorf("%s: got %+v", exposure, out)
		}
	}

	// Of a server that does not run nobody can say that it has no such tool.
	r.caller.down = errors.New("its process ended")
	r.refusedAs(t, s.Call(t.Context(), Request{Name: "call_tool", Args: json.RawMessage(`{"name":"hub/nope"}`)}), "server-down")
	r.refusedAs(t, s.Call(t.Context(), Request{Name: "call_tool", Args: json.RawMessage(`{"name":"elsewhere/nope"}`)}), "unknown")
	for exposure, name := range map[Exposure]string{Direct: "hub_nope", Transparent: "nope"} {
		l := newRig(t, func(o *Options) { o.Profiles = map[string]Profile{"": {Exposure: exposure, Servers: []string{"hub"}}} })
		l.caller.down = r.caller.down
		l.refusedAs(t, l.open(t, Identity{}).Call(t.Context(), Request{Name: name, Args: json.RawMessage(`{}`)}), "server-down")
	}
	if sent := r.caller.calls(); len(sent) > 0 {
		t.Errorf("sent %q", sent)
	}
}

// A name that its server chose cannot pass for lines or fields of the gate's own.
func TestANameStaysInItsField(t *testing.T) {
	for name, want := range map[string]string{
		"get_issue":                            "hub/get_issue",
		"日本語":                                  "hub/日本語",
		"x | read | runs | ok\nrefused [r]: y": `"hub/x | read | runs | ok\nrefused [r]: y"`,
		"a\u2028b":                             `"hub/a\u2028b"`,
	} {
		f := found{entry: *unknownEntry("hub/" + name)}
		if got := f.name(); got != want {
			t.Errorf("%q: got %s, want %s", name, got, want)
		}
		if got := f.class(); got != "unknown" {
			t.Errorf("%q: class %q", name, got)
		}
	}
}

// Nor does it break the refusal that programs read.
func TestARefusalOfAnyNameIsJSON(t *testing.T) {
	out := wrongShape("hub/a\"b\\", "was given nothing.")
	if !json.Valid(out.Result) || !strings.Contains(string(out.Result), `"rule":"meta.hub/a\"b\\"`) {
		t.Errorf("got %s", out.Result)
	}
}

// A model is told what the tool takes, in no words of the program's own.
func TestWrongShapesSayNothingOfGo(t *testing.T) {
	s := newRig(t, nil).open(t, Identity{})
	for _, name := range metaNames() {
		for _, args := range []string{
			`{"artifact":5}`, `{"artifact":"a","bytes":{"from":"x"}}`, `{"artifact":"a","bytes":{"from":1.5}}`, `{"artifact":"a","lines":[]}`, `{"artifact":"a","columns":{}}`, `{"nope":1}`,
			`{"act":5}`, `{"domains":"web"}`, `{"confidence":"x"}`, `{"name":{}}`, `{"names":[7]}`, `{"query":[]}`, `{"ticket":7}`, `{"limit":"x"}`,
		} {
			out := s.Call(t.Context(), Request{Name: name, Args: json.RawMessage(args)})
			for _, word := range []string{"json:", "jsontext", "unmarshal", "Go ", "struct", "int64", "Query.", "RawMessage", "artifacts."} {
				if strings.Contains(string(out.Result), word) && out.Error == nil {
					t.Errorf("%s %s: got %s", name, args, out.Result)
				}
			}
		}
	}
}
