package inbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/canonjson"
	"github.com/mcp-gate/mcp-gate/internal/enum"
	"github.com/mcp-gate/mcp-gate/internal/ids"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// A Binding is one call, frozen. A person approves its digest; whoever runs the
// call states the binding again as things are then, and runs only what is equal.
type Binding struct {
	Server     string    `json:"server"`     // server id, not its name
	Tool       string    `json:"tool"`       // the upstream's own name for it
	Definition string    `json:"definition"` // SHA-256 of the accepted definition, hex
	Args       string    `json:"args"`       // SHA-256 of the canonical arguments, hex
	Principal  string    `json:"principal"`
	Policy     string    `json:"policy"`  // digest of all that the decision read
	Session    string    `json:"session"` // recorded; equal calls of other sessions attach
	Expires    time.Time `json:"expires"` // to the microsecond
}

// Digest returns the SHA-256 of the binding as 64 hex digits.
func (b Binding) Digest() string {
	d := newDigest("mcp-gate binding 1")
	d.add(b.Server, b.Tool, b.Definition, b.Args, b.Principal, b.Policy, b.Session, stamp(b.Expires))
	return d.sum()
}

// CallKey returns what equal calls share: server, tool, definition, arguments
// and principal.
func (b Binding) CallKey() string {
	d := newDigest("mcp-gate call 1")
	d.add(b.Server, b.Tool, b.Definition, b.Args, b.Principal)
	return d.sum()
}

// Differences names the fields in which two bindings differ, for the sentence
// that says why an approval does not hold any more.
func (b Binding) Differences(now Binding) []string {
	var out []string
	for _, f := range []struct{ name, a, b string }{
		{"server", b.Server, now.Server}, {"tool", b.Tool, now.Tool},
		{"definition", b.Definition, now.Definition}, {"arguments", b.Args, now.Args},
		{"principal", b.Principal, now.Principal}, {"policy", b.Policy, now.Policy},
		{"session", b.Session, now.Session}, {"expiry", stamp(b.Expires), stamp(now.Expires)},
	} {
		if f.a != f.b {
			out = append(out, f.name)
		}
	}
	return out
}

// ArgsDigest returns the digest that a binding holds for raw arguments: of
// their canonical form, or of no bytes where the call has none. Raw must be
// strict JSON.
func ArgsDigest(raw json.RawMessage) (string, error) {
	if len(raw) == 0 {
		return hexSHA256(nil), nil
	}
	return canonjson.Digest(raw)
}

// A State is where a ticket is in its life.
type State uint8

const (
	Pending   State = iota + 1 // waits for a person
	Approved                   // may run once
	Denied                     // a person said no
	Expired                    // nobody said yes in time
	Cancelled                  // the caller gave up and the fallback is deny
	Stale                      // something it was bound to is no longer so
	Running                    // committed before the first byte to the upstream
	Done                       // a receipt is there
	Failed                     // a receipt is there, and it says that the tool failed
	Unknown                    // it may or may not have happened
)

var states = enum.Of[State]("ticket state", "pending", "approved", "denied", "expired",
	"cancelled", "stale", "running", "done", "failed", "unknown")

// States returns every State.
func States() []State { return states.All() }

func (s State) String() string                { return states.Word(s) }
func (s State) MarshalText() ([]byte, error)  { return states.Marshal(s) }
func (s *State) UnmarshalText(b []byte) error { return states.Unmarshal(b, s) }

// next lists every legal step. A state that is absent is final.
var next = map[State][]State{
	Pending:  {Approved, Denied, Expired, Cancelled, Stale},
	Approved: {Running, Expired, Stale},
	Running:  {Done, Failed, Unknown},
	Unknown:  {Done, Failed}, // a person settles it; nothing re-runs it
}

// Open reports whether a ticket in this state has steps left, so that an equal
// call attaches to it instead of asking anew.
func (s State) Open() bool { return len(next[s]) > 0 }

// A StateError says that a ticket is not where a step needs it to be.
type StateError struct {
	Ticket   string
	Have, To State
}

func (e *StateError) Error() string {
	return fmt.Sprintf("ticket %s is %s and cannot become %s", e.Ticket, e.Have, e.To)
}

// A Ticket is one call that needs a person, from admission to its receipt.
// Everything above State is frozen at admission.
type Ticket struct {
	ID      string          `json:"id"`
	Binding Binding         `json:"binding"`
	Args    json.RawMessage `json:"-"` // the raw bytes that are forwarded; nil where the call has none
	View    View            `json:"view"`
	// Level is the least proof that a yes needs.
	Level Level `json:"level"`
	// Repeatable marks a call that may run again after a crash: its tool is
	// classed read, or the owner declared it idempotent.
	Repeatable bool                    `json:"repeatable,omitempty"`
	Fallback   engagement.GateFallback `json:"fallback"`
	Launch     string                  `json:"-"`     // keyed digest of how the server is started
	Owner      string                  `json:"owner"` // id of the process that admitted the call
	Created    time.Time               `json:"created"`

	State    State           `json:"state"`
	Runner   string          `json:"runner,omitempty"` // id of the process that runs it
	Claim    string          `json:"-"`                // of the one claim that won, so that its maker knows it again
	Decided  time.Time       `json:"decided,omitzero"`
	Started  time.Time       `json:"started,omitzero"`
	Finished time.Time       `json:"finished,omitzero"` // when it reached a final state, or unknown
	Note     string          `json:"note,omitempty"`    // a person's note, or why it ended
	Result   json.RawMessage `json:"-"`                 // the upstream's own bytes
	// Delivered reports whether the result reached a caller once.
	Delivered  bool `json:"delivered,omitempty"`
	CallerGone bool `json:"caller_gone,omitempty"`
	// Revision counts changes; a store changes a row only from the revision
	// that its caller has read.
	Revision int64 `json:"revision"`
}

// step moves the ticket to the state and stamps the time. It is the only place
// that changes a state; an illegal step is a *[StateError] and changes nothing.
func (t *Ticket) step(to State, at time.Time) error {
	if !slices.Contains(next[t.State], to) {
		return &StateError{t.ID, t.State, to}
	}
	t.State = to
	switch to {
	case Approved, Denied:
		t.Decided = at
	case Running:
		t.Started = at
	}
	if to != Approved && to != Running {
		t.Finished = at
	}
	return nil
}

// Card returns the card of the ticket's view, with what happened since.
func (t Ticket) Card() Card {
	c := t.View.Card()
	if t.State != Pending { // it was answered, or nobody can any more
		c.Rows = slices.DeleteFunc(c.Rows, func(r Row) bool { return !r.Argument && r.Label == "silence" })
	}
	state := t.State.String()
	if t.Note != "" {
		state += ": " + Display(t.Note)
	}
	c.Rows = append([]Row{{Label: "ticket", Text: t.ID + ", " + state}}, c.Rows...)
	if t.CallerGone {
		c.Rows = append(c.Rows, Row{Label: "caller", Text: "has gone; nobody waits for the result"})
	}
	return c
}

// ValidTicketID reports whether s has the form of a ticket's id.
func ValidTicketID(s string) bool { return ids.Valid("t_", s) }

// strictUnmarshal decodes exactly one strict JSON value without unknown names.
func strictUnmarshal(b []byte, v any) error {
	if err := strictjson.Check(b); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.More() {
		return errors.New("more than one value")
	}
	return nil
}
