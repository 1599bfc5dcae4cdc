package inbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/enum"
)

// A View is everything that a person is shown about one frozen call, or about
// a grant that somebody proposes, as plain data. Strings are as foreign as
// they came: only [View.Card] makes them fit to be seen, and every rendering
// (terminal, page, notice, elicitation) is a layout of that card.
//
// A View is a value; nothing in it is changed after [Inbox.Ask] took it.
type View struct {
	// Ticket names the call; [Inbox.Ask] sets it.
	Ticket string         `json:"ticket,omitempty"`
	Tool   catalog.ToolID `json:"tool"`

	Class  engagement.Permission `json:"class"`
	Egress []engagement.Egress   `json:"egress"` // what the result may carry, least first
	// Undo says in the gate's words what puts the effect back; "" is nothing.
	Undo string `json:"undo,omitempty"`
	// Undoes is the journal entry whose call this one takes back; "" for none.
	Undoes string `json:"undoes,omitempty"`

	Principal string `json:"principal"`
	Client    string `json:"client,omitempty"` // what it calls itself, which proves nothing
	Session   string `json:"session,omitempty"`

	Definition Definition `json:"definition"`

	// Args are the frozen bytes of the arguments, "" where there are none.
	Args string `json:"args,omitempty"`
	// Last is the last call of this tool that a person approved, or nil.
	Last *LastCall `json:"last,omitempty"`
	// GoesTo is where the gate sends the arguments: a host, or a program.
	GoesTo string `json:"goes_to,omitempty"`

	Rule Rule `json:"rule"`

	Fallback engagement.GateFallback `json:"fallback"` // what silence leads to
	Wait     time.Duration           `json:"wait,omitempty"`
	Expires  time.Time               `json:"expires"`

	Level       Level `json:"level"`                  // of proof that a yes needs
	LoweredFrom Level `json:"lowered_from,omitempty"` // the default, where the owner asked for less

	// Proposal makes this the card of a grant instead of a call.
	Proposal *Terms `json:"proposal,omitempty"`
}

// A Definition says how the tool's definition stands to the accepted one.
type Definition struct {
	State  DefinitionState `json:"state"`
	Digest string          `json:"digest"`          // SHA-256 of the canonical definition, hex
	Since  time.Time       `json:"since,omitzero"`  // when it was accepted
	Diff   string          `json:"diff,omitempty"`  // unified diff, where it changed
	Notes  []string        `json:"notes,omitempty"` // what a scanner found in it
}

// A DefinitionState is one of the ways in which a definition is known.
type DefinitionState uint8

// The states of a definition as a card tells them.
const (
	DefinitionAccepted DefinitionState = iota + 1 // as it was accepted
	DefinitionNew                                 // nobody has seen it before
	DefinitionChanged                             // accepted once, different now
)

var definitionStates = enum.Of[DefinitionState]("definition state", "accepted", "new", "changed")

func (s DefinitionState) String() string                { return definitionStates.Word(s) }
func (s DefinitionState) MarshalText() ([]byte, error)  { return definitionStates.Marshal(s) }
func (s *DefinitionState) UnmarshalText(b []byte) error { return definitionStates.Unmarshal(b, s) }

// A LastCall is an earlier call that a person approved.
type LastCall struct {
	At   time.Time `json:"at"`
	Args string    `json:"args"` // its frozen argument bytes
}

// A Rule is the reason why a person is asked.
type Rule struct {
	Name   string `json:"name"`            // the rule's code or its place in the order of decision
	Where  string `json:"where,omitempty"` // file and line
	Reason string `json:"reason"`          // one sentence
}

// Digest returns the SHA-256 of the view as 64 hex digits. It covers every
// field, each with its length, so that no two views share one.
func (v View) Digest() string {
	d := newDigest("mcp-gate view 1")
	d.add(v.Ticket, v.Tool.Server, v.Tool.Tool, v.Class.String())
	d.list(words(v.Egress))
	d.add(v.Undo, v.Undoes, v.Principal, v.Client, v.Session)
	d.add(v.Definition.State.String(), v.Definition.Digest, stamp(v.Definition.Since), v.Definition.Diff)
	d.list(v.Definition.Notes)
	d.add(v.Args)
	if d.flag(v.Last != nil); v.Last != nil {
		d.add(stamp(v.Last.At), v.Last.Args)
	}
	d.add(v.GoesTo, v.Rule.Name, v.Rule.Where, v.Rule.Reason)
	d.add(v.Fallback.String(), v.Wait.String(), stamp(v.Expires), v.Level.String(), v.LoweredFrom.String())
	if d.flag(v.Proposal != nil); v.Proposal != nil {
		d.add(string(v.Proposal.message()))
	}
	return d.sum()
}

// check reports what a view lacks without which no honest card can be drawn.
func (v View) check() error {
	switch {
	case v.Tool.Server == "" || v.Tool.Tool == "":
		return errors.New("the view names no tool")
	case v.Class == 0 || v.Definition.State == 0 || v.Level == 0 || v.Fallback == 0:
		return errors.New("the view lacks its class, definition state, level or fallback")
	case v.Principal == "":
		return errors.New("the view names no principal")
	case v.Args != "" && !json.Valid([]byte(v.Args)):
		return errors.New("the view's arguments are not JSON")
	}
	return nil
}

// A Card is a view made fit to be seen: one sentence and rows in a fixed
// order. All its strings went through [Display]; only line feeds are left of
// the control characters. The gate's own remarks inside foreign text stand in
// ⟨⟩, which foreign text cannot contain.
type Card struct {
	Sentence string
	Rows     []Row
}

// A Row is one field of a card.
type Row struct {
	Label string
	Text  string // may have line breaks
	// Argument marks a row whose label is a JSON pointer into the arguments.
	// Such labels begin with "/", the gate's own never do.
	Argument bool
	// Changed marks an argument that differs from the last approved call.
	Changed bool
}

// Card returns the view as a person sees it. It has a row for every key of the
// arguments at any depth; long values are shown as head, tail, length and
// SHA-256.
func (v View) Card() Card { return v.card(cut{1200, 400}, cut{16_000, 2_000}) }

func (v View) card(values, texts cut) Card {
	c := Card{Sentence: v.sentence()}
	add := func(label, text string) {
		if text != "" {
			c.Rows = append(c.Rows, Row{Label: label, Text: text})
		}
	}
	if v.Proposal != nil {
		add("allows", v.Proposal.Sentence())
	}
	add("class", v.classText())
	add("takes back", DisplayLine(v.Undoes))
	add("asked by", v.askedBy())
	add("tool", v.definitionText(texts))
	add("arguments", v.argsText())
	c.Rows = append(c.Rows, argumentRows(v.Args, v.Last, values)...)
	add("goes to", DisplayLine(v.GoesTo))
	add("rule", v.ruleText())
	add("silence", v.silenceText())
	add("proof", v.proofText())
	return c
}

// deeds finish the sentence "X wants to use T, which ...".
var deeds = map[engagement.Permission]string{
	engagement.Read:            "only reads",
	engagement.ReversibleWrite: "changes things that a later call can put back",
	engagement.SourceFileWrite: "CHANGES FILES that belong to you",
	engagement.Destructive:     "does something that CANNOT BE UNDONE",
}

func (v View) sentence() string {
	who, tool := DisplayLine(v.Principal), DisplayLine(v.Tool.String())
	if v.Proposal != nil {
		return fmt.Sprintf("%s would be allowed to use %s without being asked each time.", who, shownList(v.Proposal.Tools))
	}
	return fmt.Sprintf("%s wants to use %s, which %s.", who, tool, deeds[v.Class])
}

func (v View) classText() string {
	undo := "there is no way back that the gate knows of"
	if v.Undo != "" {
		undo = "way back: " + DisplayLine(v.Undo)
	}
	if v.Class == engagement.Read {
		undo = "nothing to undo"
	}
	return fmt.Sprintf("%s; the result may carry %s; %s", v.Class, strings.Join(words(v.Egress), ", "), undo)
}

func (v View) askedBy() string {
	parts := []string{DisplayLine(v.Principal)}
	if v.Client != "" {
		parts = append(parts, `client calls itself "`+DisplayLine(v.Client)+`"`)
	}
	if v.Session != "" {
		parts = append(parts, "session "+DisplayLine(v.Session))
	}
	return strings.Join(parts, "; ")
}

func (v View) definitionText(texts cut) string {
	var b strings.Builder
	switch d := v.Definition; d.State {
	case DefinitionAccepted:
		b.WriteString("definition accepted")
		if !d.Since.IsZero() {
			fmt.Fprintf(&b, " %s", d.Since.UTC().Format(time.DateOnly))
		}
		b.WriteString(", unchanged")
	case DefinitionNew:
		b.WriteString("definition NEVER SEEN BEFORE")
	case DefinitionChanged:
		b.WriteString("definition CHANGED since it was accepted")
	}
	fmt.Fprintf(&b, " (SHA-256 %s)", DisplayLine(v.Definition.Digest))
	for _, note := range v.Definition.Notes {
		b.WriteString("\n" + DisplayLine(note))
	}
	if v.Definition.Diff != "" {
		b.WriteString("\n" + texts.apply(v.Definition.Diff, Display))
	}
	return b.String()
}

func (v View) argsText() string {
	if v.Proposal != nil && v.Args == "" {
		return ""
	}
	if v.Args == "" {
		return "none"
	}
	text := fmt.Sprintf("%d bytes, SHA-256 %s", len(v.Args), hexSHA256([]byte(v.Args)))
	if v.Last != nil {
		text += "; compared with the call approved " + shownTime(v.Last.At)
	}
	return text
}

func (v View) ruleText() string {
	text := DisplayLine(v.Rule.Name)
	if v.Rule.Where != "" {
		text += " (" + DisplayLine(v.Rule.Where) + ")"
	}
	return text + ": " + DisplayLine(v.Rule.Reason)
}

func (v View) silenceText() string {
	if v.Proposal != nil {
		return "nothing is allowed"
	}
	when := ""
	if v.Wait > 0 {
		when = "after " + v.Wait.String() + " "
	}
	if v.Fallback == engagement.FallbackDeny {
		return when + "the call is denied; nothing runs"
	}
	return when + "the question stays in the inbox until " + shownTime(v.Expires) + "; nothing runs before a yes"
}

func (v View) proofText() string {
	text := fmt.Sprintf("a yes needs level %s (%s)", v.Level, v.Level.Name())
	if v.LoweredFrom != 0 {
		text += fmt.Sprintf("; the owner LOWERED it from %s (%s)", v.LoweredFrom, v.LoweredFrom.Name())
	}
	return text
}

// Render lays the card out for a terminal of the given number of columns, at
// least 40. A line that foreign text broke begins with "| "; one that only the
// width broke is indented, so that no value can pretend to be another row.
func (v View) Render(columns int) string { return v.Card().Render(columns) }

// Render lays the card out for a terminal; see [View.Render].
func (c Card) Render(columns int) string {
	columns = max(columns, 40)
	var b strings.Builder
	wrap(&b, "", "", c.Sentence, columns)
	for _, r := range c.Rows {
		switch {
		case r.Argument:
			mark := "    "
			if r.Changed {
				mark = "  * "
			}
			wrap(&b, mark+r.Label+"  ", "      ", r.Text, columns)
		default:
			wrap(&b, fmt.Sprintf("  %-10s  ", r.Label), "              ", r.Text, columns)
		}
	}
	return b.String()
}

// wrap writes text after the lead, breaking it where it exceeds the columns.
func wrap(b *strings.Builder, lead, indent, text string, columns int) {
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			lead = indent + "| "
		}
		used := width(lead)
		b.WriteString(lead)
		for line != "" {
			part := fitting(line, columns-used)
			b.WriteString(strings.TrimRight(part, " "))
			if line = line[len(part):]; line != "" {
				b.WriteString("\n" + indent)
				used = width(indent)
			}
		}
		b.WriteByte('\n')
	}
}

// fitting returns the beginning of line that fits into the columns, broken
// after a space where there is one; at least one character.
func fitting(line string, columns int) string {
	used, space := 0, 0
	for i, r := range line {
		if used += width(string(r)); used > columns && i > 0 {
			if space > 0 {
				return line[:space]
			}
			return line[:i]
		}
		if r == ' ' {
			space = i + 1
		}
	}
	return line
}

// MaxElicitation is the most bytes that [View.Elicitation] returns. Clients
// show the message of a form in a dialogue, and cut longer ones silently.
const MaxElicitation = 6 << 10

// Elicitation lays the card out as the message of a client's form: plain text,
// no addresses of the gate's own, at most [MaxElicitation] bytes. Long values
// are cut harder until all rows fit. Where even that is not enough, whole is
// false and the text says so: such a form must not offer to allow.
func (v View) Elicitation() (text string, whole bool) {
	for _, c := range []struct{ values, texts cut }{
		{cut{800, 200}, cut{2000, 400}},
		{cut{200, 60}, cut{600, 200}},
		{cut{60, 20}, cut{100, 40}},
		{cut{12, 4}, cut{40, 10}},
	} {
		if text = v.card(c.values, c.texts).plain(); len(text) <= MaxElicitation {
			return text, true
		}
	}
	const note = "\n⟨… too much to be shown here; the whole card is in the inbox, and only there can this be allowed …⟩"
	return strings.ToValidUTF8(text[:MaxElicitation-len(note)], "") + note, false
}

func (c Card) plain() string {
	var b strings.Builder
	b.WriteString(c.Sentence)
	for _, r := range c.Rows {
		b.WriteByte('\n')
		if r.Changed {
			b.WriteString("* ")
		}
		b.WriteString(r.Label + ": " + strings.ReplaceAll(r.Text, "\n", "\n| "))
	}
	return b.String()
}

// Notice returns the line for a desktop notice or a webhook: class, tool and
// ticket, and nothing of the arguments, since others relay it.
func (v View) Notice() string {
	return fmt.Sprintf("%s: %s waits for a person (%s)", v.Class, DisplayLine(v.Tool.String()), v.Ticket)
}

// argumentRows returns a row for every key at any depth of the raw arguments,
// in their order, then one for each that the last approved call had and this
// one has not.
func argumentRows(raw string, last *LastCall, values cut) []Row {
	args := flatten(raw)
	before := map[string]string{}
	if last != nil {
		for _, a := range flatten(last.Args) {
			before[a.path] = a.value
		}
	}
	var rows []Row
	for _, a := range args {
		was, known := before[a.path]
		delete(before, a.path)
		row := Row{Label: a.label(), Text: a.shown(values), Argument: true}
		switch {
		case last == nil || known && was == a.value:
		case known:
			row.Changed = true
			row.Text += "\n⟨was⟩ " + argument{value: was}.shown(values)
		default:
			row.Changed = true
			row.Text += " ⟨new⟩"
		}
		rows = append(rows, row)
	}
	if last != nil {
		for _, a := range flatten(last.Args) {
			if _, gone := before[a.path]; gone {
				rows = append(rows, Row{Label: a.label(), Text: "⟨not given this time⟩", Argument: true, Changed: true})
			}
		}
	}
	return rows
}

// An argument is one leaf of the arguments. Its value is decoded text in
// quotes, a number as it was written, or a whole array of such.
type argument struct {
	path  string // JSON pointer
	value string
}

func (a argument) label() string { return cut{160, 40}.apply(a.path, DisplayLine) }

func (a argument) shown(c cut) string { return c.apply(a.value, Display) }

// flatten walks raw and returns its leaves in order. Arrays without objects
// are one leaf. Bytes that are not JSON are one leaf with themselves as value,
// so that nothing is ever left out.
func flatten(raw string) []argument {
	if raw == "" {
		return nil
	}
	d := json.NewDecoder(strings.NewReader(raw))
	d.UseNumber()
	out, err := flattenValue(d, "", nil)
	if err != nil {
		return []argument{{"/", raw}}
	}
	if len(out) == 1 && out[0].path == "" {
		out[0].path = "/" // an empty object, or no object at all
	}
	return out
}

func flattenValue(d *json.Decoder, path string, out []argument) ([]argument, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	open, ok := token.(json.Delim)
	if !ok {
		return append(out, argument{path, literal(token)}), nil
	}
	start := len(out)
	for i := 0; d.More(); i++ {
		name := strconv.Itoa(i)
		if open == '{' {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			name = pointerEscaper.Replace(key.(string))
		}
		if out, err = flattenValue(d, path+"/"+name, out); err != nil {
			return nil, err
		}
	}
	if _, err := d.Token(); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if open == '[' {
		return joinLeaves(out, start, path), nil
	}
	if len(out) == start {
		out = append(out, argument{path, "{}"})
	}
	return out, nil
}

// joinLeaves makes one leaf of an array whose elements are all leaves: its
// elements have no keys, and a row each would drown the rest.
func joinLeaves(out []argument, start int, path string) []argument {
	var b bytes.Buffer
	b.WriteByte('[')
	for i, a := range out[start:] {
		if a.path != path+"/"+strconv.Itoa(i) {
			return out
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(a.value)
	}
	b.WriteByte(']')
	return append(out[:start], argument{path, b.String()})
}

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

func literal(token json.Token) string {
	switch t := token.(type) {
	case string:
		return `"` + t + `"`
	case nil:
		return "null"
	default:
		return fmt.Sprint(t)
	}
}

func shownList(items []string) string {
	shown := make([]string, len(items))
	for i, item := range items {
		shown[i] = DisplayLine(item)
	}
	return strings.Join(shown, ", ")
}

func shownTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

func words[T fmt.Stringer](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = v.String()
	}
	return out
}
