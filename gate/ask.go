package gate

import (
	"encoding/base32"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// question is one frozen call that a person is being asked about. Nothing of
// it changes while the person reads; what they approve is what runs.
type question struct {
	session *Session
	call    *call
	whole   bool // the card was shown whole
	asked   time.Time
	expires time.Time
}

// tooFast is how soon no person can have answered: reading a card and
// pressing a key takes longer (research on clients that answer by themselves
// saw 5 to 50 ms).
const tooFast = 300 * time.Millisecond

// decisionForm is the form put to a client: one required choice, the refusal
// first, and nothing chosen beforehand. A client that accepts it empty has
// shown it to nobody.
var decisionForm = json.RawMessage(`{"type":"object","properties":{"decision":{"type":"string","title":"Decision","enum":["deny","allow_once"],"enumNames":["Deny","Allow this call once"]}},"required":["decision"]}`)

// denyForm is put where the form had no room for the whole call: what was not
// shown cannot be allowed there.
var denyForm = json.RawMessage(`{"type":"object","properties":{"decision":{"type":"string","title":"Decision","enum":["deny"],"enumNames":["Deny"]}},"required":["decision"]}`)

// The words of decisionForm.
const (
	decisionAllow = "allow_once"
	decisionDeny  = "deny"
)

// newID returns prefix and 26 base32 characters: 128 random bits and the two
// that are left over.
func newID(r io.Reader, prefix string) (string, error) {
	var b [17]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return "", fmt.Errorf("make an id: %w", err)
	}
	return prefix + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:]))[:26], nil
}

// answer is what a reply amounts to.
type answer int

const (
	answerAllow   answer = iota + 1
	answerDeny           // a person said no
	answerLater          // a person wants to decide later
	answerNothing        // nobody answered
)

// read tells what a reply is worth at the level of proof that a client can
// give. An accept without a choice, and any yes or no that came too fast, is
// nobody's; the channel is then not trusted again in this session.
func (r Reply) read() (a answer, unproven bool) {
	switch r.Action {
	case Cancelled:
		return answerLater, false
	case Declined:
		if r.After < tooFast {
			return answerNothing, true
		}
		return answerDeny, false
	case Accepted:
		switch {
		case r.Decision == decisionDeny:
			return answerDeny, false
		case r.Decision != decisionAllow || r.After < tooFast:
			return answerNothing, true
		}
		return answerAllow, false
	}
	return answerNothing, false
}

// maxQuestions is how many calls of a process may wait for a person. Beyond
// it the oldest question is given up.
const maxQuestions = 10_000

// park keeps a question until its answer comes.
func (g *Gate) park(ticket string, q *question) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.questions) >= maxQuestions {
		var oldest string
		for t, other := range g.questions {
			if oldest == "" || other.asked.Before(g.questions[oldest].asked) {
				oldest = t
			}
		}
		delete(g.questions, oldest)
	}
	g.questions[ticket] = q
}

// take returns the question of a ticket and forgets it, so that one yes runs
// one call. Another principal's ticket does not exist.
func (g *Gate) take(ticket, principal string) (*question, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	q, ok := g.questions[ticket]
	if !ok || q.session.who.Principal != principal {
		return nil, false
	}
	delete(g.questions, ticket)
	return q, true
}
