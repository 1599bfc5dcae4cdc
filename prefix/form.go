package prefix

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/mcp-gate/mcp-gate/internal/canonjson"
	"github.com/mcp-gate/mcp-gate/internal/enum"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// Form is how a prefix is written. The zero Form is none.
type Form uint8

const (
	Anthropic Form = iota + 1 // the "system" array of the Messages API, cache breakpoint on its last block
	OpenAI                    // an array of one system message, for Chat Completions and Responses alike
	Plain                     // the text itself
)

var forms = enum.Of[Form]("prefix form", "anthropic", "openai", "plain")

// Forms returns every Form.
func Forms() []Form { return forms.All() }

func (f Form) String() string                { return forms.Word(f) }
func (f Form) MarshalText() ([]byte, error)  { return forms.Marshal(f) }
func (f *Form) UnmarshalText(b []byte) error { return forms.Unmarshal(b, f) }

// Encode returns the prefix in a form. The JSON forms are canonical and stand on
// one line; no form ends with a line break that the text does not have.
func (p Prefix) Encode(f Form) ([]byte, error) {
	switch f {
	case Anthropic:
		return p.anthropic()
	case OpenAI:
		b := append([]byte(`[{"role":"system","content":`), strictjson.AppendString(nil, p.Plain())...)
		return canonjson.Append(nil, append(b, "}]"...))
	case Plain:
		return []byte(p.Plain()), nil
	}
	_, err := f.MarshalText()
	return nil, fmt.Errorf("write a prefix: %w", err)
}

func (p Prefix) anthropic() ([]byte, error) {
	b := []byte{'['}
	for i, block := range p.blocks {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"type":"text","text":`...)
		b = strictjson.AppendString(b, block)
		if i == len(p.blocks)-1 {
			b = append(b, `,"cache_control":{"type":"ephemeral"}`...)
		}
		b = append(b, '}')
	}
	return canonjson.Append(nil, append(b, ']'))
}

// Parse reads a prefix back from any of its forms. Where an owner's own text
// holds the line that a block begins with, the plain form does not tell where
// the blocks meet; the bytes are the same all the same. Line breaks at the end
// are those of the file it was kept in.
func Parse(b []byte) (Prefix, error) {
	b = bytes.TrimRight(b, "\r\n")
	if len(b) == 0 || b[0] != '[' {
		return parsePlain(string(b))
	}
	if err := strictjson.Check(b); err != nil {
		return Prefix{}, fmt.Errorf("read a prefix: %w", err)
	}
	var parts []struct{ Text, Content *string }
	if err := json.Unmarshal(b, &parts); err != nil {
		return Prefix{}, fmt.Errorf("read a prefix: %w", strictjson.Misfit(err))
	}
	var p Prefix
	switch {
	case len(parts) == 1 && parts[0].Content != nil:
		return parsePlain(*parts[0].Content)
	case len(parts) != len(p.blocks):
		return Prefix{}, fmt.Errorf("read a prefix: want %d blocks or one system message, have %d values", len(p.blocks), len(parts))
	}
	for i, part := range parts {
		if part.Text == nil {
			return Prefix{}, fmt.Errorf("read a prefix: block %d has no text", i)
		}
		p.blocks[i] = *part.Text
	}
	return p, nil
}

func parsePlain(s string) (Prefix, error) {
	front := strings.LastIndex(s, "\n\n"+catalogHead+"\n")
	skill := strings.Index(s, "\n\nSKILL ")
	if skill < 0 || front < skill {
		return Prefix{}, errors.New("read a prefix: this is none in plain form: a skill or a catalog is missing")
	}
	return Prefix{[3]string{s[:skill], s[skill+2 : front], s[front+2:]}}, nil
}
