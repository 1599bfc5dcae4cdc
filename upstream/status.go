package upstream

import (
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/mcp-gate/mcp-gate/internal/enum"
)

// State says how far a server is. The zero State is no state.
type State uint8

// The states of a server. All calls go to a server that is Ready.
const (
	Idle     State = iota + 1 // waits for its first call, or for Run
	Starting                  // being started; calls wait
	Ready                     // the handshake is done
	Failed                    // did not start, or went away too often; tried again at NextTry
	Stopped                   // Run has ended
)

var states = enum.Of[State]("server state", "idle", "starting", "ready", "failed", "stopped")

func (s State) String() string                { return states.Word(s) }
func (s State) MarshalText() ([]byte, error)  { return states.Marshal(s) }
func (s *State) UnmarshalText(b []byte) error { return states.Unmarshal(b, s) }

// Status is what is known about a server at one moment.
type Status struct {
	Alias     string    `json:"alias"`
	Transport string    `json:"transport"` // stdio or http
	State     State     `json:"state"`
	Since     time.Time `json:"since"`
	NextTry   time.Time `json:"next_try,omitzero"` // when a failed server is started again
	Starts    int       `json:"starts"`            // attempts so far; all but the first are restarts
	PID       int       `json:"pid,omitempty"`     // of the running child
	Protocol  string    `json:"protocol,omitempty"`
	Listed    bool      `json:"listed"` // a listing came; false with State Ready: see LastError
	Tools     int       `json:"tools"`
	Sessions  int       `json:"sessions,omitempty"` // that have a connection of their own
	// LastError is one sentence about the last thing that went wrong with the
	// server itself, Hint one about what to do; both "" after a good listing.
	LastError string `json:"last_error,omitempty"`
	Hint      string `json:"hint,omitempty"`
	// Suspect says why the last listing was not taken; "" when it was.
	Suspect string `json:"suspect,omitempty"`
	// Problems are entries of the listing that were left out, by index.
	Problems []string `json:"problems,omitempty"`
	// Stderr is the end of what the server wrote there, at most 64 KiB, with
	// control characters escaped.
	Stderr  string  `json:"stderr,omitempty"`
	Dropped Dropped `json:"dropped"`
}

// Dropped counts what servers sent that fits nothing and was skipped.
type Dropped struct {
	Garbage  int64 `json:"garbage"`  // lines or events that are no JSON-RPC message
	Oversize int64 `json:"oversize"` // messages over the size limit
	Late     int64 `json:"late"`     // answers to calls that were over: late or twice
	Unknown  int64 `json:"unknown"`  // answers with an id that was never given out
	Progress int64 `json:"progress"` // progress nobody asked for, or after the answer
	Quoted   int64 `json:"quoted"`   // not dropped: answers whose id differed only in quoting
}

// tally is Dropped while it is being counted.
type tally struct {
	garbage, oversize, late, unknown, progress, quoted atomic.Int64
}

func (t *tally) dropped() Dropped {
	return Dropped{t.garbage.Load(), t.oversize.Load(), t.late.Load(), t.unknown.Load(), t.progress.Load(), t.quoted.Load()}
}

// Listing is what a server offers, in its own bytes.
type Listing struct {
	Tools        []json.RawMessage // objects with distinct names, in the server's order; not to be changed
	Instructions string
	ServerInfo   json.RawMessage // nil where it gave none
	Capabilities json.RawMessage
	Protocol     string // the version spoken
	// Generation is 1 for the first listing and grows by one whenever a later
	// one differs in any byte.
	Generation int
}
