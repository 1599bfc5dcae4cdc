// Package audit writes down what the gate did, in a form in which a later
// change shows, and reads it back.
//
// A process writes one chain: JSON lines, one event a line, in files of one
// folder (0700, files 0600). Every line carries the SHA-256 of the line before
// it, and a small head file beside each log file counts the lines and names the
// digest of the last one. The words in an event (verdicts, codes, classes) are
// plain strings, so that a later build reads what an earlier one wrote; a field
// that a reader does not know is skipped. There is no field for results: of
// them only sizes are ever stored. Arguments are, where whoever writes the event
// hands them over.
//
// # What verification finds, and what it does not
//
// Found: a line edited, dropped, put in, moved or made unreadable; a tail that
// was cut off, at any byte; a log or head file that was removed, as long as its
// partner, the next file of its chain or the first line of a later chain (which
// notes the state of the newest chains it found) is still there. A last line
// without its end that the head never vouched for is named as torn by a crash,
// not as tampering.
//
// With [Options.Key] every line and every head is also authenticated
// (HMAC-SHA-256, 128 bits), so that whoever lacks the key cannot recompute a
// chain after changing it.
//
// Not found: whoever can write the folder and read the key (without a key:
// whoever can write the folder) can rewrite the newest chain whole, head
// included, or roll it back to an earlier state. Against that only a copy of
// [Log.Head] outside that person's reach helps: hand it to [Verify] as an
// anchor. The chain does not prove that an event was true, only that it was
// written then and has stayed. Deleting old files on purpose shows as missing.
//
// # Durability
//
// An event is written, with those that wait beside it in one write(2), before
// [Log.Record] returns: it survives the death of the process at any point. It survives the death of the machine only once
// the kernel has written it out, unless [Options.Sync] is set. After a power
// cut the head may be newer than the log; verification then says cut-tail,
// which is what it is.
//
// Start with [Open] and [Log.Record]; read with [Verify] and [Tail]. The
// package decides nothing, deletes nothing and knows neither MCP nor policy.
package audit

import (
	"encoding/json"
	"errors"
	"time"
)

// Kinds of events. The set is open: a reader passes over kinds it does not
// know. Start, Stop, Continue and Rotate are written by [Log] itself.
const (
	Start    = "start"    // first line of a chain
	Stop     = "stop"     // last line of a chain that was closed
	Continue = "continue" // first line of a further file of a chain
	Rotate   = "rotate"   // last line of a file that has a successor
	Intent   = "intent"   // about to call upstream; an Outcome follows, or the call may have happened
	Outcome  = "outcome"  // what came of an Intent
	Refusal  = "refusal"  // refused before anything was sent
	Ask      = "ask"      // a person was asked
	Decision = "decision" // a person's answer, or its absence
	Session  = "session"  // a session began or ended, or its limits changed
	Note     = "note"     // anything else worth keeping
)

// Words of [Event.Outcome].
const (
	OK        = "ok"
	ToolError = "tool-error" // the tool answered and said that it failed
	Error     = "error"      // no result, and the call did not happen
	Unknown   = "unknown"    // no result; the call may or may not have happened
	Withheld  = "withheld"   // the call ran, its result did not leave
)

// Event is one line. Kind is required; an empty or zero field is left out of
// the line and reads back as zero. Text is cut to 512 bytes (Note: 2048) and
// made valid UTF-8; characters that do not print are escaped in the line.
type Event struct {
	Seq  uint64    `json:"seq"`  // from 1, per chain; set by Record
	Time time.Time `json:"time"` // microseconds, UTC; set by Record: one for all that are written together
	Kind string    `json:"kind"`

	Call      string `json:"call,omitempty"` // one id for all events of a call
	Session   string `json:"session,omitempty"`
	Principal string `json:"principal,omitempty"`
	Client    string `json:"client,omitempty"`  // what the client calls itself: a claim
	Profile   string `json:"profile,omitempty"` // of the session, where the call was judged; "" is the default one
	Scope     string `json:"scope,omitempty"`   // of the caller, where the call was judged; "" is admin
	Tool      string `json:"tool,omitempty"`    // alias/tool

	Class   string `json:"class,omitempty"`   // permission class
	Egress  string `json:"egress,omitempty"`  // class or classes of the result
	Verdict string `json:"verdict,omitempty"` // run, review, ask, defer, deny
	Code    string `json:"code,omitempty"`    // why it was refused
	Rule    string `json:"rule,omitempty"`    // which rule decided, with its place
	Slice   string `json:"slice,omitempty"`   // a note when the tool is outside the slice

	Ticket  string `json:"ticket,omitempty"`
	Level   string `json:"level,omitempty"`   // level of proof of a decision
	Channel string `json:"channel,omitempty"` // where a decision was made

	Binding    string `json:"binding,omitempty"`     // SHA-256 of what a person approved, hex
	ArgsDigest string `json:"args_sha256,omitempty"` // of the canonical arguments, hex
	ArgsSize   int64  `json:"args_bytes,omitempty"`
	// Args are the arguments, as one JSON value: canonical bytes, which have no
	// line feed. More than [MaxArgs] are left out.
	Args       json.RawMessage `json:"args,omitempty"`
	ResultSize int64           `json:"result_bytes,omitempty"`

	Duration  time.Duration `json:"-"` // duration_ms in the line, to the microsecond
	Outcome   string        `json:"outcome,omitempty"`
	ErrorCode string        `json:"error,omitempty"`
	Note      string        `json:"note,omitempty"`

	// What follows ties files together and is written by Log only.
	File string `json:"file,omitempty"` // Start, Continue: the name this file was made under
	Next string `json:"next,omitempty"` // Rotate: the file that goes on
	Seen []Mark `json:"seen,omitempty"` // Start: newest chains found; Continue: the file before
}

// Mark says how far a file had come: it had Events lines, the last of which
// had this SHA-256 (hex, over the line without its line feed).
type Mark struct {
	File   string `json:"file"`
	Events uint64 `json:"events"`
	Digest string `json:"digest"`
}

// wire is a line as it is read. fields has no methods, so that embedding it
// does not bring Event's own decoding along.
type fields Event

type wire struct {
	fields
	Millis float64 `json:"duration_ms"`
	Prev   string  `json:"prev"`
}

// MarshalJSON writes the event as its line has it, without the chain's fields.
func (e Event) MarshalJSON() ([]byte, error) {
	place := appendPlace(nil, e.Seq, appendTime(nil, e.Time))
	return append(appendBody(place, &e), '}'), nil
}

// UnmarshalJSON reads an event from its line; unknown fields are skipped.
func (e *Event) UnmarshalJSON(b []byte) error {
	w, err := parseLine(b)
	if err != nil {
		return err
	}
	*e = Event(w.fields)
	return nil
}

func parseLine(b []byte) (wire, error) {
	var w wire
	if err := json.Unmarshal(b, &w); err != nil {
		return wire{}, err
	}
	if w.Kind == "" {
		return wire{}, errors.New("it has no kind")
	}
	w.Duration = time.Duration(w.Millis * float64(time.Millisecond)).Round(time.Microsecond)
	return w, nil
}
