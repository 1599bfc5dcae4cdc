package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// Record is one rule as the configuration holds it. A field that is left out
// matches everything; one that is there and empty is an error. All fields of a
// rule must match. [Compile] checks it and gives the errors.
type Record struct {
	Do        string               // hide, deny, ask, defer or allow
	Tools     Words                // patterns over server/tool; see below
	Class     Words                // permission classes
	Egress    Words                // declared egress classes
	Principal Words                // patterns over the caller's identity; * is any run of characters
	Scope     Words                // token scopes
	Args      map[string]ArgRecord // by JSON pointer into the arguments; all must hold
	Match     []Example            // calls that the rule must match
	NotMatch  []Example            // calls that it must not match
	Note      string               // the owner's remark
	Source    Source               // where it stands; not a part of the record's JSON
}

// ArgRecord is the tests on one place in the arguments. All that are given must
// hold. A place that does not exist matches nothing but Absent; a value of a kind
// that a test cannot be put to makes the rule fail, see [Compile].
type ArgRecord struct {
	Eq        json.RawMessage   // equal as JSON, numbers by their exact value
	In        []json.RawMessage // equal to one of them
	Glob      Words             // a string that matches one: * any run of characters, ? one, \ quotes
	PathUnder Words             // a path that is one of these folders or below it, links resolved
	Regex     string            // a string in which RE2 finds a match; ^ and $ bind it to the ends
	Min, Max  json.RawMessage   // a number, both bounds inclusive; a bound may be a string of digits
	Present   bool              // it exists, null included
	Absent    bool              // it does not exist
	MaxLen    *int              // at most so many characters, elements or members
}

// Example is a call that a rule is checked against when it is compiled. Written
// as a bare string it is a tool. What it leaves out is taken to suit the rule.
type Example struct {
	Tool      string // server/tool
	Class     string
	Egress    string
	Principal string
	Scope     string
	Args      json.RawMessage // nil is no arguments
}

// Source is where a rule stands. Zero line and column are not known.
type Source struct {
	File         string
	Line, Column int
}

func (s Source) String() string {
	switch {
	case s.File == "":
		return ""
	case s.Line == 0:
		return s.File
	case s.Column == 0:
		return fmt.Sprintf("%s:%d", s.File, s.Line)
	}
	return fmt.Sprintf("%s:%d:%d", s.File, s.Line, s.Column)
}

// Words is a list of words that may be written as a single one. Nil is a field
// that was left out.
type Words []string

func (w *Words) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil && string(bytes.TrimSpace(b)) != "null" {
		*w = Words{one}
		return nil
	}
	list := []string{}
	if json.Unmarshal(b, &list) != nil || list == nil {
		return fmt.Errorf("want a word or a list of words, have %.40s", b)
	}
	*w = list
	return nil
}

// A Problem is one thing that is wrong with a rule. Index is the rule's place in
// the list from 0; Field is the path inside the rule, such as args./path.min, and
// empty for the rule as a whole; Choices is what would be valid, where that is a
// list.
type Problem struct {
	Index   int
	Field   string
	Text    string
	Choices []string
	Source  Source
}

func (p *Problem) Error() string {
	var b strings.Builder
	if at := p.Source.String(); at != "" {
		b.WriteString(at + ": ")
	}
	fmt.Fprintf(&b, "rules[%d]", p.Index)
	if p.Field != "" {
		b.WriteString(".")
	} else {
		b.WriteString(": ")
	}
	return b.String() + p.Within()
}

// Within says what is wrong where inside the rule, for rules that stand in no list.
func (p *Problem) Within() string {
	text := p.Text
	if p.Field != "" {
		text = p.Field + ": " + text
	}
	if len(p.Choices) > 0 {
		text += ": want one of " + strings.Join(p.Choices, ", ")
	}
	return text
}

// field is a member of a record: its name and where its value goes.
type field struct {
	name string
	into any
}

// decode reads the members of an object into the fields. The first thing wrong
// comes back as a *[Problem] without an index.
func decode(b []byte, fields []field) error {
	for m, err := range strictjson.Object(b) {
		if err != nil {
			return &Problem{Text: err.Error()}
		}
		if problem := decodeMember(m, fields); problem != nil {
			return problem
		}
	}
	return nil
}

func decodeMember(m strictjson.Member, fields []field) error {
	names := make([]string, len(fields))
	for i, f := range fields {
		if names[i] = f.name; f.name != m.Name {
			continue
		}
		err := json.Unmarshal(m.Value, f.into)
		if err == nil {
			return nil
		}
		if inner, ok := err.(*Problem); ok {
			return &Problem{Field: joinField(m.Name, inner.Field), Text: inner.Text, Choices: inner.Choices}
		}
		return &Problem{Field: m.Name, Text: strictjson.Misfit(err).Error()}
	}
	return &Problem{Field: m.Name, Text: "unknown field", Choices: names}
}

func joinField(outer, inner string) string {
	if inner == "" {
		return outer
	}
	return outer + "." + inner
}

// UnmarshalJSON reads a rule strictly: an unknown field is a *[Problem] that
// lists the valid ones.
func (r *Record) UnmarshalJSON(b []byte) error {
	var args argRecords
	var match, notMatch examples
	read := Record{Source: r.Source}
	err := decode(b, []field{
		{"do", &read.Do}, {"tools", &read.Tools}, {"class", &read.Class}, {"egress", &read.Egress},
		{"principal", &read.Principal}, {"scope", &read.Scope}, {"args", &args},
		{"match", &match}, {"not_match", &notMatch}, {"note", &read.Note},
	})
	if err != nil {
		return err
	}
	read.Args, read.Match, read.NotMatch = args, match, notMatch
	*r = read
	return nil
}

// argRecords keeps the pointer in what is wrong below it.
type argRecords map[string]ArgRecord

func (a *argRecords) UnmarshalJSON(b []byte) error {
	read := argRecords{}
	for m, err := range strictjson.Object(b) {
		if err != nil {
			return &Problem{Text: err.Error()}
		}
		var one ArgRecord
		if err := decodeMember(m, []field{{m.Name, &one}}); err != nil {
			return err
		}
		read[m.Name] = one
	}
	*a = read
	return nil
}

func (a *ArgRecord) UnmarshalJSON(b []byte) error {
	var read ArgRecord
	err := decode(b, []field{
		{"eq", &read.Eq}, {"in", &read.In}, {"glob", &read.Glob}, {"path_under", &read.PathUnder}, {"regex", &read.Regex},
		{"min", &read.Min}, {"max", &read.Max}, {"present", &read.Present}, {"absent", &read.Absent}, {"max_len", &read.MaxLen},
	})
	if err != nil {
		return err
	}
	*a = read
	return nil
}

// examples is one example or a list of them.
type examples []Example

func (e *examples) UnmarshalJSON(b []byte) error {
	if trimmed := bytes.TrimSpace(b); len(trimmed) > 0 && trimmed[0] == '[' {
		return json.Unmarshal(b, (*[]Example)(e))
	}
	var one Example
	if err := json.Unmarshal(b, &one); err != nil {
		return err
	}
	*e = examples{one}
	return nil
}

func (e *Example) UnmarshalJSON(b []byte) error {
	var tool string
	if json.Unmarshal(b, &tool) == nil && tool != "" {
		*e = Example{Tool: tool}
		return nil
	}
	var read Example
	err := decode(b, []field{
		{"tool", &read.Tool}, {"class", &read.Class}, {"egress", &read.Egress},
		{"principal", &read.Principal}, {"scope", &read.Scope}, {"args", &read.Args},
	})
	if err != nil {
		return err
	}
	*e = read
	return nil
}
