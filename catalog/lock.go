package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// Lock is what was accepted of every server, by the server's key in the owner's
// configuration. The zero Lock is that of an owner who never started a server.
//
// Its text is made for people and for line merges: a line says all it says by
// itself, the lines are sorted, and nothing in them tells when or where they
// were written. Two people who accept different tools change different lines.
type Lock struct {
	Servers map[string]Record
	// Broken says why the lock could not be read. A broken lock accepts
	// nothing, holds everything, and is never written.
	Broken error
}

// Record is what was accepted of one server.
type Record struct {
	ServerID     string         // of the server whose definitions these were, 64 hex digits
	Tools        map[string]Pin // by the tool's own name
	Instructions *PinnedText    // nil: none were accepted
	// Bare says that the server had instructions and no tools: tools that it
	// shows later are seen for the first time.
	Bare bool
}

// Pin is one accepted definition: which bytes, and the class it was accepted
// with. The class leaves the owner's own word out, which is held over it.
type Pin struct {
	Digest     string // of the canonical definition, 64 hex digits
	Permission engagement.Permission
	Egress     engagement.Egress
	Domains    engagement.DomainSet
	// Despite are the kinds of blocking findings that a person took the
	// definition with, sorted. Nothing else may put one here.
	Despite []string
	// Rivals are what an unresolved merge left of one tool: two or more, which differ.
	// Nothing else of the Pin is set then, so that no definition is the accepted one.
	Rivals []Pin
}

// PinnedText is an accepted text of a server.
type PinnedText struct {
	Digest  string // SHA-256 of the whole text, 64 hex digits
	Text    string // at most 4 KiB of it, the most that is ever shown
	Despite []string
}

// lockHeader is the first line of every lock. A format that this package cannot
// read must begin with another one.
const lockHeader = "mcp-gate lock 1"

// maxPinnedText bounds the text kept of a server's instructions, in bytes.
// Clients show no more than 2 KB of all servers' together.
const maxPinnedText = 4 << 10

// A LockError says where a lock is not what it should be.
type LockError struct {
	Line, Column int // from 1; the column counts bytes
	Problem      string
}

func (e *LockError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Problem)
}

// Encode returns the lock's text. Equal locks have equal texts. A lock that is
// broken, or that [ParseLock] would not take back as it is, is an error.
func (l Lock) Encode() ([]byte, error) {
	if l.Broken != nil {
		return nil, fmt.Errorf("write a lock that could not be read: %w", l.Broken)
	}
	b := []byte(lockHeader + "\n")
	for _, key := range slices.Sorted(maps.Keys(l.Servers)) {
		r := l.Servers[key]
		name := string(strictjson.AppendString(nil, key))
		b = fmt.Appendf(b, "server %s %s", name, r.ServerID)
		if r.Bare {
			b = append(b, " bare"...)
		}
		b = append(b, '\n')
		if t := r.Instructions; t != nil {
			b = fmt.Appendf(b, "instructions %s %s %s", name, t.Digest, strictjson.AppendString(nil, t.Text))
			b = appendDespite(b, t.Despite)
		}
		for _, tool := range slices.Sorted(maps.Keys(r.Tools)) {
			pins := r.Tools[tool].Rivals
			if pins == nil {
				pins = []Pin{r.Tools[tool]}
			}
			for _, p := range pins {
				b = fmt.Appendf(b, "tool %s %s ", name, strictjson.AppendString(nil, tool))
				b = p.append(b)
			}
		}
	}
	back, err := ParseLock(b)
	switch {
	case err != nil:
		return nil, fmt.Errorf("write lock: %w", err)
	case !back.Equal(l):
		return nil, errors.New("write lock: a name in it is not valid UTF-8")
	}
	return b, nil
}

// append writes what a pin's line says of the definition.
func (p Pin) append(b []byte) []byte {
	b = fmt.Appendf(b, "%s %s %s %s", p.Digest, p.Permission, p.Egress, domainField(p.Domains))
	return appendDespite(b, p.Despite)
}

func appendDespite(b []byte, kinds []string) []byte {
	if len(kinds) > 0 {
		b = append(b, " despite:"+strings.Join(kinds, ",")...)
	}
	return append(b, '\n')
}

func domainField(set engagement.DomainSet) string {
	if set.Empty() {
		return "-"
	}
	return strings.ReplaceAll(set.String(), ", ", ",")
}

// Equal reports whether both locks accept the same.
func (l Lock) Equal(m Lock) bool {
	return (l.Broken == nil) == (m.Broken == nil) && maps.EqualFunc(l.Servers, m.Servers, Record.equal)
}

func (r Record) equal(s Record) bool {
	same := func(a, b *PinnedText) bool {
		return a == b || a != nil && b != nil && a.Digest == b.Digest && a.Text == b.Text && slices.Equal(a.Despite, b.Despite)
	}
	return r.ServerID == s.ServerID && r.Bare == s.Bare && same(r.Instructions, s.Instructions) && maps.EqualFunc(r.Tools, s.Tools, Pin.equal)
}

func (p Pin) equal(q Pin) bool {
	return p.Digest == q.Digest && p.Permission == q.Permission && p.Egress == q.Egress && p.Domains == q.Domains &&
		slices.Equal(p.Despite, q.Despite) && slices.EqualFunc(p.Rivals, q.Rivals, Pin.equal)
}

// ParseLock reads a lock's text. The lines may stand in any order, as a merge
// leaves them; of a tool that is there twice with different values nothing is
// accepted. A server or its instructions twice is
// an error, and so is a tool of a server that has no line. Lines may end in CR
// LF. The error is a [*LockError], and the lock that comes with it is broken.
func ParseLock(text []byte) (Lock, error) {
	p := lockParser{lock: Lock{Servers: map[string]Record{}}, lines: map[string]int{}}
	if err := p.read(string(text)); err != nil {
		return Lock{Broken: err}, err
	}
	return p.lock, nil
}

type lockParser struct {
	lock  Lock
	lines map[string]int // what a line is about -> where it stands
	tools []lockLine     // of tools and instructions; their servers' lines may come later
}

func (p *lockParser) read(text string) error {
	rest, no := text, 0
	for rest != "" {
		no++
		line, after, ended := strings.Cut(rest, "\n")
		rest = after
		l := lockLine{no: no, text: strings.TrimSuffix(line, "\r")}
		switch {
		case no == 1 && l.text != lockHeader:
			return l.fault(fmt.Sprintf("want the line %q", lockHeader))
		case !ended:
			l.at = len(line)
			return l.fault("the last line does not end")
		case no == 1:
			continue
		}
		if err := p.line(l); err != nil {
			return err
		}
	}
	if no == 0 {
		return &LockError{1, 1, "the file is empty"}
	}
	for _, l := range p.tools {
		if err := p.member(l); err != nil {
			return err
		}
	}
	return nil
}

const howToResolve = "keep the lines of both sides without the marks, one for each server and one for each tool, then look at mcp-gate accept"

func (p *lockParser) line(l lockLine) error {
	for _, mark := range []string{"<<<<<<<", "=======", ">>>>>>>", "|||||||"} {
		if strings.HasPrefix(l.text, mark) {
			return l.fault("an unresolved merge: " + howToResolve)
		}
	}
	switch kind, _, _ := strings.Cut(l.text, " "); kind {
	case "server":
		l.at = len("server ")
		return p.server(l)
	case "tool", "instructions":
		p.tools = append(p.tools, l)
		return nil
	default:
		return l.fault(fmt.Sprintf("unknown word %.40q: want one of server, instructions, tool", kind))
	}
}

func (p *lockParser) server(l lockLine) error {
	key, err := l.quoted("the server's key")
	if err != nil {
		return err
	}
	id, err := l.digest("the server's id")
	if err != nil {
		return err
	}
	bare := strings.HasSuffix(l.text, " bare")
	if bare {
		l.pass("bare")
	}
	if err := l.end(); err != nil {
		return err
	}
	r, twice := p.lock.Servers[key]
	if twice && r.ServerID != id {
		return l.twice("server "+key, p.lines)
	}
	p.lines["server "+key] = l.no
	p.lock.Servers[key] = Record{ServerID: id, Tools: map[string]Pin{}, Bare: bare && (r.Bare || !twice)} // who has seen tools is right
	return nil
}

// member reads a line that belongs to a server.
func (p *lockParser) member(l lockLine) error {
	kind, _, _ := strings.Cut(l.text, " ")
	l.at = len(kind) + 1
	start := l
	key, err := l.quoted("the server's key")
	if err != nil {
		return err
	}
	r, ok := p.lock.Servers[key]
	if !ok {
		return start.fault(fmt.Sprintf("server %.80q has no line of its own", key))
	}
	if kind == "tool" {
		return p.tool(l, key, r)
	}
	t, err := l.pinnedText()
	if err != nil {
		return err
	}
	fresh := Record{Instructions: t}
	if r.Instructions != nil && !fresh.equal(Record{Instructions: r.Instructions}) {
		return l.twice("instructions "+key, p.lines)
	}
	p.lines["instructions "+key] = l.no
	r.Instructions = t
	p.lock.Servers[key] = r
	return nil
}

func (p *lockParser) tool(l lockLine, key string, r Record) error {
	name, err := l.quoted("the tool's name")
	if err != nil {
		return err
	}
	pin, err := l.pin()
	if err != nil {
		return err
	}
	if old, twice := r.Tools[name]; twice {
		pin = old.beside(pin)
	}
	r.Tools[name] = pin
	return nil
}

// beside is what two lines of one tool say: the same, or nothing that counts.
func (p Pin) beside(q Pin) Pin {
	if p.equal(q) || slices.ContainsFunc(p.Rivals, q.equal) {
		return p
	}
	rivals := slices.Clone(p.Rivals)
	if rivals == nil {
		rivals = []Pin{p}
	}
	rivals = append(rivals, q)
	slices.SortFunc(rivals, func(a, b Pin) int { return bytes.Compare(a.append(nil), b.append(nil)) })
	return Pin{Rivals: rivals}
}

// lockLine is one line and how far it was read.
type lockLine struct {
	no   int
	text string
	at   int
}

func (l *lockLine) fault(problem string) error {
	return &LockError{Line: l.no, Column: min(l.at, len(l.text)) + 1, Problem: problem}
}

func (l *lockLine) twice(about string, lines map[string]int) error {
	kind, _, _ := strings.Cut(about, " ")
	l.at = 0
	return l.fault(fmt.Sprintf("line %d says something else of the same %s; after a merge: %s", lines[about], kind, howToResolve))
}

// word takes what stands before the next single space.
func (l *lockLine) word(what string) (string, error) {
	if l.at >= len(l.text) {
		return "", l.fault(what + " is missing")
	}
	word, _, _ := strings.Cut(l.text[l.at:], " ")
	if word == "" {
		return "", l.fault("one space too many")
	}
	return word, nil
}

func (l *lockLine) pass(word string) { l.at += len(word) + 1 }

func (l *lockLine) end() error {
	if l.at <= len(l.text) {
		return l.fault("the line should end here")
	}
	return nil
}

// quoted takes a JSON string.
func (l *lockLine) quoted(what string) (string, error) {
	if l.at >= len(l.text) || l.text[l.at] != '"' {
		return "", l.fault("want " + what + " as a JSON string")
	}
	end := l.at + 1
	for end < len(l.text) && l.text[end] != '"' {
		if l.text[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(l.text) {
		return "", l.fault("the string does not end")
	}
	raw := l.text[l.at : end+1]
	s := raw[1 : len(raw)-1]
	if strings.ContainsFunc(s, func(r rune) bool { return r == '\\' || r < ' ' || r > '~' }) {
		var err error
		if s, err = unquoted(raw); err != nil {
			return "", l.fault(err.Error())
		}
	}
	if end+1 < len(l.text) && l.text[end+1] != ' ' {
		l.at = end + 1
		return "", l.fault("want one space after the string")
	}
	l.pass(raw)
	return s, nil
}

// unquoted decodes a JSON string.
func unquoted(raw string) (s string, err error) {
	if err := strictjson.Check([]byte(raw)); err != nil {
		return "", err
	}
	err = json.Unmarshal([]byte(raw), &s)
	return s, err
}

func (l *lockLine) digest(what string) (string, error) {
	word, err := l.word(what)
	if err != nil {
		return "", err
	}
	if !isDigest(word) {
		return "", l.fault(what + ": want 64 hex digits in lower case")
	}
	l.pass(word)
	return word, nil
}

func isDigest(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

func (l *lockLine) pin() (Pin, error) {
	var p Pin
	var err error
	if p.Digest, err = l.digest("the definition's digest"); err != nil {
		return p, err
	}
	for _, field := range []struct {
		what string
		into interface{ UnmarshalText([]byte) error }
	}{{"the permission class", &p.Permission}, {"the egress class", &p.Egress}} {
		word, err := l.word(field.what)
		if err != nil {
			return p, err
		}
		if err := field.into.UnmarshalText([]byte(word)); err != nil {
			return p, l.fault(err.Error())
		}
		l.pass(word)
	}
	if p.Domains, err = l.domains(); err != nil {
		return p, err
	}
	p.Despite, err = l.despite()
	return p, err
}

func (l *lockLine) domains() (engagement.DomainSet, error) {
	var set engagement.DomainSet
	word, err := l.word(`the domains ("-" for none)`)
	if err != nil {
		return set, err
	}
	if word != "-" {
		for name := range strings.SplitSeq(word, ",") {
			var d engagement.Domain
			if err := d.UnmarshalText([]byte(name)); err != nil {
				return set, l.fault(err.Error())
			}
			set = set.With(d)
		}
	}
	l.pass(word)
	return set, nil
}

func (l *lockLine) pinnedText() (*PinnedText, error) {
	t := &PinnedText{}
	var err error
	if t.Digest, err = l.digest("the text's digest"); err != nil {
		return nil, err
	}
	if t.Text, err = l.quoted("the text"); err != nil {
		return nil, err
	}
	t.Despite, err = l.despite()
	return t, err
}

// despite takes the kinds of findings at the end of a line, where there are any.
func (l *lockLine) despite() ([]string, error) {
	if l.at > len(l.text) {
		return nil, nil
	}
	word, err := l.word("despite:")
	if err != nil {
		return nil, err
	}
	list, ok := strings.CutPrefix(word, "despite:")
	if !ok {
		return nil, l.fault("want the end of the line, or despite:KIND,KIND")
	}
	kinds := strings.Split(list, ",")
	for i, k := range kinds {
		if !isKind(k) || (i > 0 && kinds[i-1] >= k) {
			return nil, l.fault("despite: want kinds of findings, sorted, with commas between them")
		}
	}
	l.pass(word)
	return kinds, l.end()
}

// isKind reports whether a kind of finding can stand in a lock.
func isKind(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}
