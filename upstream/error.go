package upstream

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mcp-gate/mcp-gate/internal/enum"
)

// Kind says what went wrong with a call. The zero Kind is no kind.
type Kind uint8

// The kinds of an [Error]. Which of them leave open whether the call happened
// is said by [Error.MayHaveRun], call by call.
const (
	UnknownServer Kind = iota + 1 // no server has this alias
	NotRunning                    // stopped, or still starting when the wait was over
	StartFailed                   // the last attempt to start it ended in Err
	Timeout                       // no answer, and no progress, in time
	Lost                          // process or connection ended before the answer came
	Invalid                       // an answer came that is not acceptable JSON or JSON-RPC
	TooLarge                      // an answer came that is over the size limit
	Unreachable                   // no connection could be made
	Unauthorized                  // HTTP 401: it wants a sign-in or another token; or there is no token for it
	Refused                       // another HTTP status without a JSON-RPC answer
	Cancelled                     // the caller's context ended
	BadRequest                    // the caller's params cannot be sent
	Withdrawn                     // another server, or none, is in its place since
	Busy                          // calls of another owner kept it from being asked
)

var kinds = enum.Of[Kind]("kind of upstream error", "unknown-server", "not-running", "start-failed", "timeout",
	"lost", "invalid", "too-large", "unreachable", "unauthorized", "refused", "cancelled", "bad-request", "withdrawn", "busy")

func (k Kind) String() string                { return kinds.Word(k) }
func (k Kind) MarshalText() ([]byte, error)  { return kinds.Marshal(k) }
func (k *Kind) UnmarshalText(b []byte) error { return kinds.Unmarshal(b, k) }

// Error says that a call brought no answer, and what is known about it. An
// error that the server answered with is not one: see [Response].
type Error struct {
	Server string        // alias
	Method string        // "" where the error is about the server itself
	Kind   Kind          // never zero
	After  time.Duration // from the call to the error
	Sent   bool          // the request, or a part of it, may have reached the server
	Hint   string        // what a person can do about it; may be ""
	Err    error         // what was found; may be nil
}

// MayHaveRun reports whether the call may have happened all the same. Where
// it is false, no byte of the request reached the server, or the server said
// that it did not take it; repeating the call is safe then.
func (e *Error) MayHaveRun() bool { return e.Sent }

// Unwrap returns what was found, context.Canceled for a cancelled call.
func (e *Error) Unwrap() error { return e.Err }

// Error is one sentence: which server, which method, what happened, after how
// long, and whether the call may have run.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Kind == Cancelled {
		fmt.Fprintf(&b, "the call%s on ", e.of())
	}
	fmt.Fprintf(&b, "server %s", e.Server)
	switch e.Kind {
	case UnknownServer:
		b.WriteString(" is not known")
	case NotRunning:
		b.WriteString(" is not running")
	case StartFailed:
		b.WriteString(" did not start")
	case Timeout:
		fmt.Fprintf(&b, " gave no answer%s", e.to())
	case Lost:
		fmt.Fprintf(&b, " went away before it answered%s", e.method())
	case Invalid:
		fmt.Fprintf(&b, " answered%s with something that is not acceptable", e.method())
	case TooLarge:
		fmt.Fprintf(&b, " answered%s with too much", e.method())
	case Unreachable:
		b.WriteString(" cannot be reached")
	case Unauthorized:
		if challenge := (*ChallengeError)(nil); e.Err == nil || errors.As(e.Err, &challenge) {
			b.WriteString(" wants a sign-in")
		} else { // Err says why there is no token, and whether a person has to sign in
			b.WriteString(" cannot be asked")
		}
	case Refused:
		fmt.Fprintf(&b, " refused%s", e.method())
	case Cancelled:
		b.WriteString(" was cancelled by its caller")
	case BadRequest:
		fmt.Fprintf(&b, " was not asked%s: the request cannot be sent", e.to())
	case Withdrawn:
		if e.Sent {
			fmt.Fprintf(&b, " was ended before it answered%s", e.method())
		} else {
			fmt.Fprintf(&b, " was not asked%s", e.to())
		}
	case Busy:
		fmt.Fprintf(&b, " was not asked%s", e.to())
	}
	if e.After > 0 && e.Method != "" {
		fmt.Fprintf(&b, " after %v", rounded(e.After))
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if e.Sent && e.Method == "tools/call" { // lists and reads leave nothing behind
		b.WriteString("; the call may or may not have run")
	}
	if e.Kind == TooLarge {
		b.WriteString("; where the tool has a way to, ask for smaller parts: a range, a page, a filter")
	}
	return b.String()
}

func (e *Error) method() string {
	if e.Method == "" {
		return ""
	}
	return " " + e.Method
}

func (e *Error) of() string {
	if e.Method == "" {
		return ""
	}
	return " of " + e.Method
}

func (e *Error) to() string {
	if e.Method == "" {
		return ""
	}
	return " to " + e.Method
}

// rounded drops the digits that nobody reads.
func rounded(d time.Duration) time.Duration {
	switch {
	case d > 10*time.Second:
		return d.Round(time.Second)
	case d > 10*time.Millisecond:
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Microsecond)
}
