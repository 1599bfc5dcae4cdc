package inbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-gate/mcp-gate/internal/ids"
)

// legal is the table of the specification, written a second time.
var legal = map[string]string{
	"pending":  "approved denied expired cancelled stale",
	"approved": "running expired stale",
	"running":  "done failed unknown",
	"unknown":  "done failed",
}

func TestStepsAreLegalExactlyByTheTable(t *testing.T) {
	for _, from := range States() {
		for _, to := range States() {
			ticket := Ticket{ID: "t_x", State: from}
			err := ticket.step(to, noon)
			want := slices.Contains(strings.Fields(legal[from.String()]), to.String())
			if (err == nil) != want {
				t.Errorf("%v -> %v: %v, want legal %v", from, to, err, want)
			}
			var e *StateError
			if err != nil && (!errors.As(err, &e) || ticket.State != from) {
				t.Errorf("%v -> %v: %v left %v", from, to, err, ticket.State)
			}
		}
		if from.Open() != (legal[from.String()] != "") {
			t.Errorf("%v: open %v", from, from.Open())
		}
	}
}

func TestBindingDigestCoversEveryField(t *testing.T) {
	seen := map[string]bool{}
	for _, edit := range []func(*Binding){
		func(*Binding) {},
		func(b *Binding) { b.Server = "x" }, func(b *Binding) { b.Tool = "x" }, func(b *Binding) { b.Definition = "x" },
		func(b *Binding) { b.Args = "x" }, func(b *Binding) { b.Principal = "x" }, func(b *Binding) { b.Policy = "x" },
		func(b *Binding) { b.Session = "x" }, func(b *Binding) { b.Expires = noon },
		func(b *Binding) { b.Server, b.Tool = "xy", "" }, func(b *Binding) { b.Server, b.Tool = "", "xy" },
	} {
		var b Binding
		edit(&b)
		if d := b.Digest(); seen[d] || len(d) != 64 {
			t.Errorf("%+v shares its digest %s", b, d)
		} else {
			seen[d] = true
		}
	}
}

func TestIDs(t *testing.T) {
	id, err := ids.New("t_", bytes.NewReader(make([]byte, 16)))
	if err != nil || id != "t_aaaaaaaaaaaaaaaaaaaaaaaaaa" || !ValidTicketID(id) {
		t.Errorf("id %q, %v", id, err)
	}
	for _, bad := range []string{"", "t_", "t_AAAAAAAAAAAAAAAAAAAAAAAAAA", id + "a", "t_aaaaaaaaaaaaaaaaaaaaaaaaa'"} {
		if ValidTicketID(bad) {
			t.Errorf("%q counts as an id", bad)
		}
	}
	if _, err := ids.New("t_", bytes.NewReader(nil)); err == nil {
		t.Error("an id without randomness")
	}
}

func FuzzParseDecision(f *testing.F) {
	good, err := json.Marshal(Decision{
		Ticket: "t_aaaaaaaaaaaaaaaaaaaaaaaaaa", Verdict: Allow, Binding: "b", View: "v", Level: L1, Channel: Terminal, Key: "k", At: noon, Signature: []byte{1},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"ticket":"t_x","verdict":"maybe"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := ParseDecision(b)
		if err != nil {
			return
		}
		again, err := json.Marshal(d)
		if err != nil {
			t.Fatalf("%+v was read and cannot be written: %v", d, err)
		}
		back, err := ParseDecision(again)
		if err != nil || !bytes.Equal(back.Message(), d.Message()) {
			t.Fatalf("%s became %s: %v", b, again, err)
		}
	})
}
