package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mcp-gate/mcp-gate/internal/enum"
)

// State is how a definition stands against what was accepted. The zero State is
// none and is held like every state but [Accepted].
type State uint8

const (
	Accepted State = iota + 1 // it is what was accepted
	New                       // nobody accepted it, or it was accepted from another server
	Changed                   // it is not what was accepted
	Suspect                   // a blocking finding holds it
	Gone                      // it was accepted and its server does not offer it now
)

var states = enum.Of[State]("state", "accepted", "new", "changed", "suspect", "gone")

// States returns every State.
func States() []State { return states.All() }

func (s State) String() string                { return states.Word(s) }
func (s State) MarshalText() ([]byte, error)  { return states.Marshal(s) }
func (s *State) UnmarshalText(b []byte) error { return states.Unmarshal(b, s) }

// Offer is what one server shows of itself now.
type Offer struct {
	Key      string // in the owner's configuration
	ServerID string // of the configuration that started it, 64 hex digits
	Manual   bool   // nothing is accepted at first sight
	Tools    []Offered
	// Instructions is the server's own text, and Blocking the kinds of
	// blocking findings in it.
	Instructions string
	Blocking     []string
}

// Offered is one definition that a server shows.
type Offered struct {
	Tool     Tool
	Class    Class    // as inferred, without the owner's own word; none where it is on record
	Blocking []string // kinds of its findings in the blocking tier
	// Beside are the blocking kinds that it has only because of tools that
	// stand beside it. They hold what is not accepted yet, and nothing else: a
	// newcomer that imitates a tool must not cost the tool its place.
	Beside   []string
	Findings []Finding // all of them, for a person

	trust Trust // by which it is classed
}

// Status is how one tool of a server stands.
type Status struct {
	ID       ToolID
	State    State
	Why      string   // one line for people; "" where it is accepted
	Pinned   string   // the digest accepted last; "" where none was
	Offered  *Offered // nil where it is gone
	Unwaived []string // kinds of blocking findings that nobody took it with
}

// TextStatus is how a server's instructions stand. Its State is 0 where there
// are none and none were accepted.
type TextStatus struct {
	State  State
	Why    string
	Pinned *PinnedText // what was accepted last
	Text   string      // what is offered
	Digest string      // of Text; "" where it is empty
}

// Judgement is how everything a server offers stands.
type Judgement struct {
	Tools        []Status // sorted by name: what is offered and what is gone
	Instructions TextStatus
	// Record is what the lock shall hold of the server from now on; nil where
	// nothing is to be written.
	Record *Record
}

// State returns how the tool of this name stands, 0 where nobody knows it.
func (j Judgement) State(tool string) State {
	for _, s := range j.Tools {
		if s.ID.Tool == tool {
			return s.State
		}
	}
	return 0
}

// Judge holds an offer against the lock. It is a function of both alone.
//
// A key that the lock does not have is seen for the first time: what it shows
// is accepted and to be recorded, unless it is to be accepted by hand or a
// blocking finding holds it. An empty first answer is no sight of its tools, since
// servers give one while they warm up; its instructions are recorded alone then,
// if it has any. Under a known key nothing is recorded
// without a person: a definition that differs, one that was not there, and one
// that has a new finding are held one by one. What was accepted from another
// server, or with a lock that cannot be read, counts as not accepted.
func (l Lock) Judge(o Offer) Judgement {
	r, known := l.Servers[o.Key]
	bare := r.Bare && len(r.Tools) == 0 // or a merge has brought some
	if bare && r.ServerID != o.ServerID {
		r, known, bare = Record{}, false, false
	}
	first := l.Broken == nil && !known
	void := ""
	switch {
	case l.Broken != nil:
		r, void = Record{}, "the record of what was accepted cannot be read"
	case known && r.ServerID != o.ServerID:
		void = "its server is started in another way than when it was accepted"
	case first && o.Manual:
		void = byHand
	}
	j := Judgement{Instructions: judgeText(o, r.Instructions, void, first)}
	if bare && l.Broken == nil {
		if first = true; o.Manual {
			void = byHand
		}
	}
	j.Tools = l.tools(o, r, void, first)
	if first && !o.Manual && (len(j.Tools) > 0 || !known && j.Instructions.State == Accepted) {
		j.Record = firstRecord(o, j, r.Instructions)
	}
	return j
}

const byHand = "this server's tools are accepted by hand"

func (l Lock) tools(o Offer, r Record, void string, first bool) []Status {
	alias := Alias(o.Key)
	var all []Status
	offered := map[string]bool{}
	for i := range o.Tools {
		t := &o.Tools[i]
		name := t.Tool.ID.Tool
		if offered[name] {
			continue // a name can lead to one definition only: the first
		}
		offered[name] = true
		s := Status{ID: ToolID{alias, name}, Offered: t}
		pin, pinned := r.Tools[name]
		s.Pinned = pin.Digest
		same := pin.Digest == t.Tool.Digest
		if same && void == "" {
			s.Unwaived = without(t.Blocking, pin.Despite)
		} else {
			s.Unwaived = without(slices.Concat(t.Blocking, t.Beside), nil)
		}
		s.State, s.Why = standing(void, first, pinned, same, s.Unwaived)
		if pin.Rivals != nil {
			s.Pinned = pin.Rivals[0].Digest
			if s.Pinned == t.Tool.Digest { // the other one is what there is to compare
				s.Pinned = pin.Rivals[1].Digest
			}
			if s.State == Changed {
				s.Why = "mcp-gate.lock has several lines of it that differ" + pin.differIn() + ", as a merge leaves them"
			}
		}
		all = append(all, s)
	}
	for name, pin := range r.Tools {
		if !offered[name] {
			all = append(all, Status{ID: ToolID{alias, name}, State: Gone, Pinned: pin.Digest, Why: "its server does not offer it any more"})
		}
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.ID.Tool, b.ID.Tool) })
	return all
}

// standing is the state of something that is offered. A void record is one that
// does not count, for the reason given.
func standing(void string, first, pinned, same bool, findings []string) (State, string) {
	switch {
	case len(findings) > 0:
		return Suspect, "it looks unsafe: " + strings.Join(findings, ", ")
	case void != "":
		return New, void
	case first, pinned && same:
		return Accepted, ""
	case pinned:
		return Changed, "it is not what was accepted"
	}
	return New, "it came after its server was accepted"
}

// differIn says that rivals are one definition with several classes, which no diff of it
// would show.
func (p Pin) differIn() string {
	for _, r := range p.Rivals {
		if r.Digest != p.Rivals[0].Digest {
			return ""
		}
	}
	return " in its class"
}

func judgeText(o Offer, pinned *PinnedText, void string, first bool) TextStatus {
	s := TextStatus{Pinned: pinned, Text: o.Instructions}
	if o.Instructions != "" {
		s.Digest = TextDigest(o.Instructions)
	}
	switch {
	case s.Digest == "" && pinned == nil:
	case s.Digest == "":
		s.State, s.Why = Gone, "its server does not give it any more"
	default:
		var despite []string
		same := pinned != nil && pinned.Digest == s.Digest
		if same && void == "" {
			despite = pinned.Despite
		}
		s.State, s.Why = standing(void, first, pinned != nil, same, without(o.Blocking, despite))
	}
	return s
}

// firstRecord is what is written down of a server at first sight. Where all of
// its tools are held it still is one: what comes later is no first sight. Text is
// what was accepted of it while it had none.
func firstRecord(o Offer, j Judgement, text *PinnedText) *Record {
	r := &Record{ServerID: o.ServerID, Tools: map[string]Pin{}, Instructions: text, Bare: len(j.Tools) == 0}
	for _, s := range j.Tools {
		if s.State == Accepted {
			r.Tools[s.ID.Tool] = s.Offered.pin(nil)
		}
	}
	if text == nil && j.Instructions.State == Accepted {
		r.Instructions = pinText(o.Instructions, nil)
	}
	return r
}

func (t Offered) pin(despite []string) Pin {
	class := t.Class
	if class.Permission == 0 { // it was on record, and no longer is
		f := featuresOf(t.Tool)
		class = classify(t.Tool, &f, t.trust)
	}
	return Pin{Digest: t.Tool.Digest, Permission: class.Permission, Egress: class.Egress, Domains: class.Domains, Despite: despite}
}

func pinText(text string, despite []string) *PinnedText {
	t := &PinnedText{Digest: TextDigest(text), Text: strings.ToValidUTF8(text, "\uFFFD"), Despite: despite}
	if len(t.Text) > maxPinnedText {
		cut := maxPinnedText
		for !utf8.RuneStart(t.Text[cut]) {
			cut--
		}
		t.Text = t.Text[:cut]
	}
	return t
}

// TextDigest names a server's instructions: the SHA-256 of the text's bytes, 64
// hex digits.
func TextDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// without returns the sorted words of a that are not in b, nil where none are.
func without(a, b []string) []string {
	var left []string
	for _, w := range slices.Sorted(slices.Values(a)) {
		if !slices.Contains(b, w) && !slices.Contains(left, w) {
			left = append(left, w)
		}
	}
	return left
}

// Pick is one thing of a server that a person accepts.
type Pick struct {
	Tool string // "" is the server's instructions
	// Digest is what the person was shown. "" accepts that it is gone: what
	// was accepted of it is forgotten.
	Digest string
}

// A MovedError says that what a person accepted is not what is offered now.
type MovedError struct {
	ID         ToolID // without a tool: the server's instructions
	Shown, Now string // digests; "" is gone
}

func (e *MovedError) Error() string {
	what := e.ID.String()
	if e.ID.Tool == "" {
		what = "the text of " + e.ID.Server
	}
	name := func(digest string) string {
		if digest == "" {
			return "gone"
		}
		return digest[:min(12, len(digest))]
	}
	return fmt.Sprintf("%s changed while it was looked at: shown %s, now %s", what, name(e.Shown), name(e.Now))
}

// Accept records what a person picked from an offer, with the findings it has.
// Accepting anything of a server that is started in another way than before
// forgets all that was accepted of the former one. The error is a [*MovedError]
// where a pick is not what is offered; nothing is recorded then.
func (l *Lock) Accept(o Offer, picks ...Pick) error {
	if l.Broken != nil {
		return fmt.Errorf("accept tools of %s: %w", o.Key, l.Broken)
	}
	if len(picks) == 0 {
		return nil
	}
	j := l.Judge(o)
	r, known := l.Servers[o.Key]
	if !known || r.ServerID != o.ServerID {
		r = Record{ServerID: o.ServerID, Bare: true}
	}
	r.Tools = maps.Clone(r.Tools)
	if r.Tools == nil {
		r.Tools = map[string]Pin{}
	}
	for _, p := range picks {
		if err := r.take(o, j, p); err != nil {
			return err
		}
	}
	r.Bare = r.Bare && len(o.Tools) == 0
	if l.Servers == nil {
		l.Servers = map[string]Record{}
	}
	l.Servers[o.Key] = r
	return nil
}

func (r *Record) take(o Offer, j Judgement, p Pick) error {
	if p.Tool == "" {
		return r.takeText(o, j, p)
	}
	for _, s := range j.Tools {
		if s.ID.Tool != p.Tool {
			continue
		}
		switch {
		case s.Offered == nil && p.Digest == "":
			delete(r.Tools, p.Tool)
			return nil
		case s.Offered == nil:
			return &MovedError{ID: s.ID, Shown: p.Digest}
		case s.Offered.Tool.Digest != p.Digest:
			return &MovedError{ID: s.ID, Shown: p.Digest, Now: s.Offered.Tool.Digest}
		}
		r.Tools[p.Tool] = s.Offered.pin(without(s.Offered.Blocking, nil))
		return nil
	}
	return &MovedError{ID: ToolID{Alias(o.Key), p.Tool}, Shown: p.Digest}
}

func (r *Record) takeText(o Offer, j Judgement, p Pick) error {
	switch now := j.Instructions.Digest; {
	case now != p.Digest:
		return &MovedError{ID: ToolID{Server: Alias(o.Key)}, Shown: p.Digest, Now: now}
	case now == "":
		r.Instructions = nil
	default:
		r.Instructions = pinText(o.Instructions, without(o.Blocking, nil))
	}
	return nil
}

// Under returns the class that an accepted tool has: the owner's word where
// there is one, else what was accepted.
func (p Pin) Under(owner Override) Class {
	return owner.over(Class{Permission: p.Permission, Egress: p.Egress, Domains: p.Domains, Why: fmt.Sprintf("%s as accepted", p.Permission)})
}
