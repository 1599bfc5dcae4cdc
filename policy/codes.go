package policy

import (
	"strings"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/enum"
)

// Code names the ground of a refusal, or of a stub that stands in for a result.
// It is the one list for the whole gate: also what happens later on the way of a
// call, while a person is asked or when it is charged, has its code here. A code
// is never renamed and never reused; new ones go to the end. The zero Code is
// none.
type Code uint8

const (
	CodeUnknown      Code = iota + 1 // no such tool, or one that is hidden
	CodeHeld                         // its definition waits for a person
	CodeOutsideSlice                 // not among the tools this session is for
	CodeScope                        // above what the caller's token or parent allows
	CodeReadOnly                     // the owner allows reading only
	CodeEgress                       // its data may not leave
	CodeRule                         // one of the owner's rules
	CodeTaint                        // it would send out of a session that read private and foreign data
	CodeSpend                        // nothing is left to spend
	CodeServerDown                   // its server does not run
	CodeUnverified                   // its definition was not seen on this connection yet
	CodeArguments                    // the arguments do not fit
	CodeUnattended                   // needs a person, and the session has none
	CodeNoPerson                     // needs a person, and no channel proves enough
	CodeNoAnswer                     // a person was asked and did not answer in time
	CodeDeclined                     // a person said no
	CodeDeferred                     // it waits in the inbox
	CodeExpired                      // it waited too long
	CodeCancelled                    // the caller took it back
	CodeStale                        // what was approved is not what would run now
	CodeUnsettled                    // nobody knows whether it ran
	CodeAlarm                        // too many questions in a short time
	CodeAudit                        // it could not be written down
	CodeSize                         // it ran; its result is kept and has to be read in parts
)

var codes = enum.Of[Code]("refusal code",
	"unknown", "held", "outside-slice", "scope", "read-only", "egress", "rule", "taint", "spend",
	"server-down", "unverified", "arguments", "unattended", "no-person", "no-answer", "declined",
	"deferred", "expired", "cancelled", "stale", "unsettled", "alarm", "audit", "size")

// Codes returns every Code, in the order they were given out.
func Codes() []Code { return codes.All() }

func (c Code) String() string                { return codes.Word(c) }
func (c Code) MarshalText() ([]byte, error)  { return codes.Marshal(c) }
func (c *Code) UnmarshalText(b []byte) error { return codes.Unmarshal(b, c) }

// Retryable reports whether the very same call may get another answer later
// without anybody's decision.
func (c Code) Retryable() bool { return c > 0 && int(c) < len(codeTexts) && codeTexts[c].retryable }

// About is what the sentences of a code speak of. Empty fields are left out.
type About struct {
	Tool    catalog.ToolID
	Class   engagement.Permission
	Egress  engagement.Egress
	Leaves  engagement.EgressSet // what may leave of its server's results now
	Pin     Pin
	Nearest []string // for CodeUnknown
	Ticket  string   // for CodeDeferred and its kin
	By      Ref      // the owner's rule, where one decided
}

// ForModel returns the sentence that a model reads: what was refused, on what
// ground, what it may do instead. It never says how to approve or reconfigure,
// nor which rule hides a tool. Empty for no code.
func (c Code) ForModel(a About) string { return a.fill(c.text().model) }

// ForPerson returns the sentence that the person reads, with the owner's rule
// and where it stands.
func (c Code) ForPerson(a About) string { return a.fill(c.text().person) }

// Change returns the one line of configuration, or the command, that would
// change the refusal; empty where only other arguments or another moment would.
func (c Code) Change(a About) string { return a.fill(c.text().change) }

func (c Code) text() codeText {
	if int(c) >= len(codeTexts) {
		return codeText{}
	}
	return codeTexts[c]
}

func (a About) fill(template string) string {
	nearest := ""
	if len(a.Nearest) > 0 {
		nearest = " Nearest: " + strings.Join(a.Nearest, ", ") + "."
	}
	ticket := ""
	if a.Ticket != "" {
		ticket = " as " + a.Ticket
	}
	pin := pinTexts[0]
	if int(a.Pin) < len(pinTexts) {
		pin = pinTexts[a.Pin]
	}
	return strings.NewReplacer(
		"{tool}", a.Tool.String(), "{server}", a.Tool.Server, "{class}", a.Class.String(), "{egress}", a.Egress.String(),
		"{leaves}", listed(a.Leaves.With(a.Egress)), "{pin}", pin, "{nearest}", nearest, "{ticket}", ticket, "{rule}", a.By.String(),
	).Replace(template)
}

// listed is a list of classes as it stands in the configuration.
func listed(classes engagement.EgressSet) string {
	var words []string
	for _, e := range classes.List() {
		words = append(words, `"`+e.String()+`"`)
	}
	return "[" + strings.Join(words, ", ") + "]"
}

// pinTexts says why a definition is held, after "because".
var pinTexts = [...]string{
	"the state of its definition is not known",
	PinAccepted: "its definition waits",
	PinNew:      "its definition is new",
	PinChanged:  "its definition changed",
	PinSuspect:  "its definition looks unsafe",
	PinGone:     "its server no longer offers it",
	PinMoved:    "its server is started or reached in another way than when it was accepted",
}

// codeText is the sentences of a code. Those for the model are about the call
// and the work; those for the person may name configuration and commands.
type codeText struct {
	model, person, change string
	retryable             bool
}

var codeTexts = [...]codeText{
	CodeUnknown: {
		model:  "there is no tool {tool}.{nearest} Search for what you want to do instead.",
		person: "no tool {tool} is offered to this caller ({rule}).{nearest}",
		change: "mcp-gate tools ls",
	},
	CodeHeld: {
		model:  "{tool} is held back because {pin}. Use another tool, or tell the person what it is needed for.",
		person: "{tool} is held back because {pin}.",
		change: "mcp-gate accept {tool}",
	},
	CodeOutsideSlice: {
		model:  "{tool} is outside what this session is for. Use a tool that is inside, or tell the person that the work needs this one.",
		person: "{tool} serves none of the domains that this session was started for, and the slice is enforced.",
		change: `"slice": "advise"`,
	},
	CodeScope: {
		model:  "{tool} is of class {class}, above what this session may do. Use a tool of a lower class, or leave the step to the person.",
		person: "{tool} is of class {class}, above the ceiling of the caller's token or of the session it works for.",
		change: "mcp-gate token add PRINCIPAL --scope admin",
	},
	CodeReadOnly: {
		model:  "{tool} is of class {class}, and only reading is allowed here. Use a tool that reads, or leave the step to the person.",
		person: "{tool} is of class {class}, and the policy allows no writes.",
		change: `"policy": { "allow_writes": true }`,
	},
	CodeEgress: {
		model:  "results of {tool} carry {egress} data, which may not leave. Ask for less, such as names or counts, or tell the person what is missing.",
		person: "results of {tool} carry {egress} data, which its server's egress classes do not hold.",
		change: `in the entry of server {server}: "egress": {leaves}`,
	},
	CodeRule: {
		model:  "a rule of the owner refuses this call of {tool}. Do not repeat it; do the work another way, or tell the person.",
		person: "{rule} refuses this call of {tool}.",
		change: "edit or remove {rule}",
	},
	CodeTaint: {
		model:  "this session has read private data and foreign content, so {tool}, which sends data out, does not run in it. Tell the person what was to be sent.",
		person: "{tool} sends data out, and the session has read private data and content that strangers may have written.",
		change: `{ "do": "allow", "tools": "{tool}" }`,
	},
	CodeSpend: {
		model:  "nothing is left of what this session may spend, so {tool} did not run. Finish with what you have, or tell the person.",
		person: "the session has used up its calls or its result bytes.",
		change: `"policy": { "spend": { "calls": N, "result_bytes": N } }`,
	},
	CodeServerDown: {
		model:     "the server of {tool} does not answer, so nothing was asked and nothing ran. Go on with something else and try once more later.",
		person:    "the server {server} does not run or does not answer.",
		change:    "mcp-gate status",
		retryable: true,
	},
	CodeUnverified: {
		model:     "the server of {tool} has not shown its definition yet, so nothing was asked and nothing ran. Try again shortly.",
		person:    "the definition of {tool} was not seen on this connection, so what was accepted may not be what would run.",
		change:    "mcp-gate status",
		retryable: true,
	},
	CodeArguments: {
		model:  "the arguments do not fit the schema of {tool}, so nothing was asked and nothing ran. Load its definition and correct them.",
		person: "the arguments do not fit the schema of {tool}, and the call needs your yes. A call that needs none goes to its server, which says itself what is wrong.",
	},
	CodeUnattended: {
		model:  "this call of {tool} needs a person's yes, and nobody attends this session. Do what does not depend on it and name it as open.",
		person: "this call of {tool} needs your yes, and the session runs unattended.",
		change: `"gate_fallback": "defer"`,
	},
	CodeNoPerson: {
		model:  "this call of {tool} needs a person's yes, and no person can be reached for it now. Do what does not depend on it and name it as open.",
		person: "this call of {tool} needs a better proof of your yes than any channel gives now.",
		change: "mcp-gate approver enroll",
	},
	CodeNoAnswer: {
		model:     "a person was asked about this call of {tool} and did not answer in time. Do what does not depend on it and name it as open.",
		person:    "you were asked about this call of {tool}, and the time ran out.",
		change:    `"gate_fallback": "defer"`,
		retryable: true,
	},
	CodeDeclined: {
		model:  "a person said no to this call of {tool}. Do not try another way round; say what is left undone.",
		person: "you, or another approver, said no to this call of {tool}.",
	},
	CodeDeferred: {
		model:  "this call of {tool} waits for a person's decision{ticket}. Do what does not depend on it, then stop and say what it waits for.",
		person: "this call of {tool} waits for your decision{ticket}.",
		change: "mcp-gate inbox ls",
	},
	CodeExpired: {
		model:     "this call of {tool} waited for a person until its time was over, and did not run.",
		person:    "this call of {tool} waited{ticket} until it expired.",
		change:    `"approval": { "expires": "24h" }`,
		retryable: true,
	},
	CodeCancelled: {
		model:     "this call of {tool} was taken back before it ran.",
		person:    "the caller took this call of {tool} back before it ran.",
		retryable: true,
	},
	CodeStale: {
		model:     "something about {tool} or this call changed after a person looked at it, so it did not run. Call it again if it is still needed.",
		person:    "what would run is not what was approved{ticket}, so nothing ran.",
		retryable: true,
	},
	CodeUnsettled: {
		model:  "it is not known whether this call of {tool} ran. Do not repeat it; tell the person, who has to look.",
		person: "the gate ended while this call of {tool} ran{ticket}; look whether it took effect.",
		change: "mcp-gate inbox settle",
	},
	CodeAlarm: {
		model:  "too many calls of this session asked for a person in a short time, so nobody was asked about {tool}. Stop and tell the person what you are doing.",
		person: "more calls asked for you than the alarm allows, so this call of {tool} took the fallback.",
		change: `"approval": { "alarm": N }`,
	},
	CodeAudit: {
		model:     "this call of {tool} could not be written down, so it did not run. Tell the person.",
		person:    "the audit log cannot be written, so nothing runs.",
		change:    "mcp-gate status",
		retryable: true,
	},
	CodeSize: {
		model:  "{tool} ran, and its result is larger than this client takes in one. It is kept: read the parts you need.",
		person: "the result of {tool} was larger than this client takes in one, so it is kept whole and given in parts.",
		change: `"artifacts": { "inline_bytes": N }`,
	},
}
