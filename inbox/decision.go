package inbox

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcp-gate/mcp-gate/internal/enum"
)

// A Level says what proves that a person decided, weakest first. The zero
// Level is none: it satisfies nothing, and nothing satisfies it.
type Level uint8

const (
	L0 Level = iota + 1 // cooperative: a client that declared elicitation answered
	L1                  // presence: a key that only a person can use signed
	L2                  // boundary: L1, and another OS user, host or container holds gate, keys and store
	L3                  // team: an identity provider's person, who did not ask for the call
)

var levels = enum.Of[Level]("level of proof", "L0", "L1", "L2", "L3")

// AtLeast reports whether proof of level l is enough where need is asked for.
func (l Level) AtLeast(need Level) bool { return need != 0 && l >= need }

// Name says in a word what the level rests on.
func (l Level) Name() string {
	return map[Level]string{L0: "cooperative", L1: "presence", L2: "boundary", L3: "team"}[l]
}

func (l Level) String() string                { return levels.Word(l) }
func (l Level) MarshalText() ([]byte, error)  { return levels.Marshal(l) }
func (l *Level) UnmarshalText(b []byte) error { return levels.Unmarshal(b, l) }

// A Verdict is what a person decided.
type Verdict uint8

const (
	Allow        Verdict = iota + 1 // this frozen call may run once
	Deny                            // it may not
	SettleDone                      // an unknown call did happen
	SettleFailed                    // an unknown call did not
)

var verdicts = enum.Of[Verdict]("verdict", "allow", "deny", "settle-done", "settle-failed")

func (v Verdict) String() string                { return verdicts.Word(v) }
func (v Verdict) MarshalText() ([]byte, error)  { return verdicts.Marshal(v) }
func (v *Verdict) UnmarshalText(b []byte) error { return verdicts.Unmarshal(b, v) }

// A Channel is the way by which a person answered.
type Channel uint8

const (
	Elicitation Channel = iota + 1 // a form in the client
	Terminal                       // the inbox on a terminal
	Page                           // the console page
)

var channels = enum.Of[Channel]("channel", "elicitation", "terminal", "page")

func (c Channel) String() string                { return channels.Word(c) }
func (c Channel) MarshalText() ([]byte, error)  { return channels.Marshal(c) }
func (c *Channel) UnmarshalText(b []byte) error { return channels.Unmarshal(b, c) }

// A Decision is what a person decided about one frozen call. Its signature
// covers every other field, so that a row of a store proves nothing by being
// there: executors verify it with [Ring.Verify].
type Decision struct {
	Ticket    string    `json:"ticket"`
	Verdict   Verdict   `json:"verdict"`
	Binding   string    `json:"binding"` // digest of the ticket's binding, hex
	View      string    `json:"view"`    // digest of what the person was shown, hex
	Level     Level     `json:"level"`
	Channel   Channel   `json:"channel"`
	Key       string    `json:"key,omitempty"` // id of the key that signed
	At        time.Time `json:"at"`            // to the microsecond
	Note      string    `json:"note,omitempty"`
	Signature []byte    `json:"signature,omitempty"` // over Message, by Key
}

// maxDecision bounds what [ParseDecision] reads; a note is a sentence or two.
const maxDecision = 64 << 10

// MaxNote is the longest note a decision may carry, in bytes.
const MaxNote = 4 << 10

// Message returns the bytes that are signed.
func (d Decision) Message() []byte {
	return newMessage("mcp-gate decision 1").
		add(d.Ticket, d.Verdict.String(), d.Binding, d.View, d.Level.String(), d.Channel.String(), d.Key).
		time(d.At).add(d.Note)
}

// Sign returns d signed by the given key.
func (d Decision) Sign(key Signer) (Decision, error) {
	d.Key = key.KeyID()
	d.At = d.At.Truncate(time.Microsecond)
	signature, err := key.Sign(d.Message())
	if err != nil {
		return Decision{}, fmt.Errorf("sign the decision on %s: %w", d.Ticket, err)
	}
	d.Signature = signature
	return d, nil
}

// ParseDecision reads a decision as [json.Marshal] writes it, for surfaces
// that get it from elsewhere. It checks shape and words, and proves nothing.
func ParseDecision(b []byte) (Decision, error) {
	if len(b) > maxDecision {
		return Decision{}, fmt.Errorf("read a decision: %d bytes are more than %d", len(b), maxDecision)
	}
	var d Decision
	if err := strictUnmarshal(b, &d); err != nil {
		return Decision{}, fmt.Errorf("read a decision: %w", err)
	}
	return d, d.check()
}

func (d Decision) check() error {
	switch {
	case !ValidTicketID(d.Ticket):
		return fmt.Errorf("decision: %q is no ticket", d.Ticket)
	case d.Verdict == 0 || d.Level == 0 || d.Channel == 0:
		return errors.New("decision: it lacks its verdict, level or channel")
	case d.At.IsZero():
		return errors.New("decision: it has no time")
	case len(d.Note) > MaxNote:
		return fmt.Errorf("decision: a note of %d bytes is longer than %d", len(d.Note), MaxNote)
	}
	return nil
}

// A ProofError says why a decision or grant proves nothing.
type ProofError struct {
	Of     string // the ticket or grant
	Reason string
}

func (e *ProofError) Error() string { return fmt.Sprintf("proof for %s: %s", e.Of, e.Reason) }

// A LevelError says that the proof is good but too weak for the call.
type LevelError struct {
	Ticket     string
	Have, Need Level
}

func (e *LevelError) Error() string {
	return fmt.Sprintf("decide %s: needs proof of level %s (%s), have %s (%s)", e.Ticket, e.Need, e.Need.Name(), e.Have, e.Have.Name())
}

// An Answer is what a form offers a person.
type Answer uint8

const (
	AnswerDeny    Answer = iota + 1
	AnswerLater          // leave it in the inbox
	AnswerOnce           // this call
	AnswerSession        // these very arguments for the rest of the session
)

var answers = enum.Of[Answer]("answer", "deny", "later", "allow-once", "allow-session")

func (a Answer) String() string                { return answers.Word(a) }
func (a Answer) MarshalText() ([]byte, error)  { return answers.Marshal(a) }
func (a *Answer) UnmarshalText(b []byte) error { return answers.Unmarshal(b, a) }

// Offered returns what a form over a channel of level reach may offer for a
// call that needs level need, deny first. A card that is not whole, or a
// channel too weak, offers no yes; a destructive class is allowed one call at
// a time.
func Offered(need, reach Level, whole, destructive bool) []Answer {
	offered := []Answer{AnswerDeny, AnswerLater}
	if !whole || !reach.AtLeast(need) {
		return offered
	}
	if offered = append(offered, AnswerOnce); !destructive {
		offered = append(offered, AnswerSession)
	}
	return offered
}

var answerTitles = map[Answer]string{
	AnswerDeny:    "Deny",
	AnswerLater:   "Decide later",
	AnswerOnce:    "Allow once",
	AnswerSession: "Allow exactly this for the session",
}

// FormSchema returns the requestedSchema of a form that offers the answers:
// one required enum "decision" without a default, and a note to the model.
func FormSchema(offered []Answer) json.RawMessage {
	titles := make([]string, len(offered))
	for i, a := range offered {
		titles[i] = answerTitles[a]
	}
	list := func(words []string) string {
		b, err := json.Marshal(words)
		if err != nil { // strings of ours always marshal
			panic(err)
		}
		return string(b)
	}
	return json.RawMessage(`{"type":"object","properties":{"decision":{"type":"string","title":"Decision","enum":` +
		list(words(offered)) + `,"enumNames":` + list(titles) + `}},"required":["decision"]}`)
}

// MinHumanAnswer is the least time in which a person reads a card and answers;
// whatever comes back faster was not a person.
const MinHumanAnswer = 300 * time.Millisecond

// Heard judges what a client returned for a form: action is the client's word
// (accept, decline, cancel, or anything else where nothing came back),
// decision the form's field, after the time the answer took. Person reports
// whether one can have answered; where not, the answer is [AnswerLater] and
// the channel counts as unproven for its session.
func Heard(action, decision string, after time.Duration, offered []Answer) (answer Answer, person bool) {
	if after < MinHumanAnswer {
		return AnswerLater, false
	}
	switch action {
	case "decline":
		return AnswerDeny, true
	case "cancel":
		return AnswerLater, true
	case "accept":
		for _, a := range offered {
			if a.String() == decision {
				return a, true
			}
		}
	}
	return AnswerLater, false
}

// verifyEd25519 is how keys of kinds gate and passphrase are checked.
func verifyEd25519(public, message, signature []byte) error {
	if len(public) != ed25519.PublicKeySize || !ed25519.Verify(public, message, signature) {
		return errors.New("the signature does not fit")
	}
	return nil
}
