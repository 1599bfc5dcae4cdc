package gate

import (
	"encoding/json"
	"time"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/policy"
)

// Identity says on whose behalf a session acts. It comes from the transport's
// own knowledge (a pipe, a token), never from what a client calls itself.
type Identity struct {
	Principal string       // "local", "local/NAME", or a token's principal
	Scope     policy.Scope // a token's scope; a stdio session has admin
	Profile   string       // launch profile; "" is the default one
	Client    string       // the client's own name, a label for logs only
	SessionID string       // the transport's session id, recorded in the audit
	// Conversation is what the session's taint belongs to: the client's own
	// session id where it gave one at the start, else the project's folder; ""
	// where neither is known.
	Conversation string
	// Parent is the session that this one works for; "" for none. Principal may
	// be left out then, and Profile has to be; see [Gate.Open].
	Parent string
	// Account is what the session's spend is taken off: the parent's; "" is its
	// own. [Gate.Open] sets it.
	Account string
	// Over are those whom it works for, whose rules hold for it too; [Gate.Open]
	// sets it.
	Over []Rank
	// Exposure and Sole are what the session is shown and, in transparent exposure,
	// the one server: the parent's. A session with none has the profile's.
	// [Gate.Open] sets them.
	Exposure Exposure
	Sole     string
}

// A Rank is what the owner's rules tell callers apart by.
type Rank struct {
	Principal string
	Scope     policy.Scope
}

// Request is one tools/call, or another request that goes to a server, as the
// transport took it from the wire.
type Request struct {
	// Method is "" for tools/call, else resources/read, prompts/get or
	// completion/complete. Args are its whole params then, without "_meta".
	Method string
	Name   string // of the tool or prompt; the URI of the resource
	// Args are the raw bytes of "arguments": an object, or nil where the
	// client sent none or null. Any other shape is refused by the transport.
	Args json.RawMessage
	// Meta is the client's "_meta" object without the keys that the
	// transport answers for itself (progressToken, io.modelcontextprotocol/*),
	// or nil.
	Meta json.RawMessage
	// CanAsk reports whether a person can be asked through this client now:
	// it declared form elicitation.
	CanAsk bool
	// Progress takes the params of each progress notification of the
	// upstream, in order, before the outcome is returned. Its progressToken is
	// not the client's. Nil where the client asked for no progress.
	Progress func(params json.RawMessage)
	// Client is who sent the request, to be asked and told things while it is
	// under way; nil for nobody.
	Client Client
}

// Outcome is what became of a call: exactly one of Result, Error and Ask is set. A
// refusal and a failed tool are results with isError, not errors.
type Outcome struct {
	Result json.RawMessage // a CallToolResult, the upstream's own bytes where it ran
	Error  *jsonrpc.Error  // a protocol error: the upstream's own, or an unknown top-level name
	Ask    *Ask            // a person has to be asked; then call Resume

	// Bare says that the server gave neither a resultType nor a "_meta" with the
	// result, so that there is nothing in it of one era alone.
	Bare bool
}

// Ask is a question for a person about one frozen call. The transport puts it
// to the client as a form elicitation and hands the answer to
// [Session.Resume]; it adds nothing to it.
type Ask struct {
	Ticket  string          // names the frozen call; "t_" and 26 base32 characters
	Message string          // what the person is shown, plain text
	Schema  json.RawMessage // the form's requestedSchema: one required enum "decision"
	Wait    time.Duration   // how long a blocking transport may wait for the answer
	Expires time.Time       // when the ticket ends, for a transport that does not block
	// Decided is closed when somebody answered elsewhere before the client
	// did: withdraw the question and call Resume with [Elsewhere].
	Decided <-chan struct{}
}

// Reply is what came back for an [Ask].
type Reply struct {
	Action   ReplyAction
	Decision string        // the form's "decision"; "" where it was left out
	After    time.Duration // time between the question leaving and the answer arriving
}

// ReplyAction says how a question ended.
type ReplyAction string

// The first three are MCP's own words for an elicitation's action.
const (
	Accepted  ReplyAction = "accept"
	Declined  ReplyAction = "decline"
	Cancelled ReplyAction = "cancel"
	// NoAnswer: the wait was over, or the client failed the request.
	NoAnswer ReplyAction = "no-answer"
	// Elsewhere: the ticket was decided through another channel.
	Elsewhere ReplyAction = "elsewhere"
	// Left: the client is not there any more, and nobody waits for the call.
	Left ReplyAction = "left"
)
