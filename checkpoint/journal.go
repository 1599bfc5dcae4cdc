package checkpoint

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/mcp-gate/mcp-gate/internal/enum"
)

// An Entry is one line of the journal of changes that ran without being asked
// about: what a call did, and what puts it back.
type Entry struct {
	ID        string    `json:"id"`
	At        time.Time `json:"at"`
	Principal string    `json:"principal"`
	Session   string    `json:"session,omitempty"`
	Ticket    string    `json:"ticket,omitempty"`
	Tool      string    `json:"tool"` // alias/tool
	Args      string    `json:"args"` // SHA-256 of the canonical arguments, hex
	Copy      Copy      `json:"copy"`
	Changes   []Change  `json:"changes,omitempty"`
	// Inverse is the owner's declared way back where there are no copies:
	// {"tool": alias/tool, "args": {...}}, with its values filled in.
	Inverse json.RawMessage `json:"inverse,omitempty"`
	Note    string          `json:"note,omitempty"`

	State EntryState `json:"state"`
	// Revision counts changes; a store changes an entry only from the revision
	// that its caller has read.
	Revision int64 `json:"revision"`
}

// An EntryState says where an entry is in its life.
type EntryState uint8

const (
	EntryOpen    EntryState = iota + 1 // the copy is taken; the call has not ended
	EntryKept                          // the call ended; it can be undone
	EntryVoid                          // the call changed nothing, or it cannot be undone
	EntryUndone                        // it was put back
	EntryUndoing                       // the call that takes it back is on its way, or nobody knows what came of it
)

var entryStates = enum.Of[EntryState]("journal state", "open", "kept", "void", "undone", "undoing")

func (s EntryState) String() string                { return entryStates.Word(s) }
func (s EntryState) MarshalText() ([]byte, error)  { return entryStates.Marshal(s) }
func (s *EntryState) UnmarshalText(b []byte) error { return entryStates.Unmarshal(b, s) }

// nextEntry lists every legal step.
var nextEntry = map[EntryState][]EntryState{
	EntryOpen:    {EntryKept, EntryVoid},
	EntryKept:    {EntryUndone, EntryUndoing},
	EntryUndoing: {EntryUndone, EntryKept},
}

// Step moves the entry to the state; an illegal step is an error and changes
// nothing.
func (e *Entry) Step(to EntryState) error {
	if !slices.Contains(nextEntry[e.State], to) {
		return fmt.Errorf("journal entry %s is %v and cannot become %v", e.ID, e.State, to)
	}
	e.State = to
	return nil
}
