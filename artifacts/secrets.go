package artifacts

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-gate/mcp-gate/internal/lazy"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// The patterns were written for this project from what the issuers publish
// about the form of their keys, under the project's own licence. One that would
// often hit anything else has no place here: a redaction destroys what the
// model works with. near holds words of which the text must have one, value
// the group that is the secret (1 where not said), entropy the least bits a
// character, and mixed that letters and digits must both be in it.
//
//go:embed secrets.json
var secretFile []byte

type secretRule struct {
	Name    string   `json:"name"`
	Near    []string `json:"near"`
	Pattern string   `json:"pattern"`
	Value   int      `json:"value"`
	Entropy float64  `json:"entropy"`
	Mixed   bool     `json:"mixed"`

	re *regexp.Regexp
}

var secretRules = sync.OnceValue(func() []secretRule {
	var list []secretRule
	if err := json.Unmarshal(secretFile, &list); err != nil {
		panic(fmt.Sprintf("artifacts/secrets.json: %v", err)) // any test run shows it
	}
	for i := range list {
		list[i].re = regexp.MustCompile(list[i].Pattern)
		list[i].Value = max(list[i].Value, 1)
	}
	return list
})

// A Finding is a secret that was found and where; never what it is.
type Finding struct {
	Name       string // the rule's, such as "github-token"
	Start, End int    // bytes, in the text that was looked at
}

// redactedMark stands in a text where a secret was. No tool's own output has
// it, so that an argument which does was copied from a redacted text.
const (
	redactedStart = "[mcp-gate:redacted "
	redactedEnd   = "]"
)

// Redact returns text with every secret replaced by a mark that names its kind,
// and what was found, in order. Text without one is returned as it is.
func Redact(text string) (string, []Finding) {
	found := Secrets(text)
	if len(found) == 0 {
		return text, nil
	}
	var out strings.Builder
	at := 0
	for _, f := range found {
		out.WriteString(text[at:f.Start])
		out.WriteString(redactedStart + f.Name + redactedEnd)
		at = f.End
	}
	out.WriteString(text[at:])
	return out.String(), found
}

// Secrets finds the secrets in text, in order and apart from one another. Where
// two rules find the same, the one listed first names it.
func Secrets(text string) []Finding {
	if len(text) < 16 {
		return nil
	}
	var found []Finding
	for _, rule := range secretRules() {
		if !slices.ContainsFunc(rule.Near, func(w string) bool { return strings.Contains(text, w) }) {
			continue
		}
		for _, at := range rule.re.FindAllStringSubmatchIndex(text, -1) {
			start, end := at[2*rule.Value], at[2*rule.Value+1]
			if start >= 0 && rule.holds(text[start:end]) && !overlaps(found, start, end) {
				found = append(found, Finding{rule.Name, start, end})
			}
		}
	}
	slices.SortFunc(found, func(a, b Finding) int { return a.Start - b.Start })
	return found
}

func overlaps(found []Finding, start, end int) bool {
	return slices.ContainsFunc(found, func(f Finding) bool { return start < f.End && f.Start < end })
}

// stand-ins that documentation and templates use where a secret goes.
var standIn = lazy.Regexp(`(?i)example|placeholder|changeme|your[_-]|dummy|redacted|x{6,}|\*{4,}|\.{4,}|12345678|abcdefgh|process\.env|os\.environ|getenv`)

// holds reports whether a match is random enough to be a secret.
func (r *secretRule) holds(s string) bool {
	if r.Entropy > 0 && entropy(s) < r.Entropy {
		return false
	}
	if !r.Mixed {
		return !standIn().MatchString(s) || r.Entropy == 0
	}
	var lower, upper, digits int
	for _, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z':
			lower++
		case c >= 'A' && c <= 'Z':
			upper++
		case isDigit(c):
			digits++
		}
	}
	// A path, a dotted name or words with dashes is a reference to a secret.
	return digits >= 2 && lower+upper >= 2 && !standIn().MatchString(s) && !isReference(s)
}

var (
	uuidShape = lazy.Regexp(`(?i)^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$`)
	wordShape = lazy.Regexp(`^[A-Za-z]{2,}[0-9]{0,3}(?:[._/-][A-Za-z0-9]{1,12}){2,}$`)
)

func isReference(s string) bool {
	return uuidShape().MatchString(s) || strings.Count(s, "/") >= 2 && strings.HasPrefix(s, "/") || wordShape().MatchString(s) && entropy(s) < 4
}

// entropy is Shannon's, in bits a character.
func entropy(s string) float64 {
	var n [256]int
	for _, c := range []byte(s) {
		n[c]++
	}
	bits := 0.0
	for _, k := range n {
		if k > 0 {
			p := float64(k) / float64(len(s))
			bits -= p * math.Log2(p)
		}
	}
	return bits
}

// HasRedaction reports whether text holds the mark that [Redact] leaves, so
// that a call which would write it over the secret can be refused.
func HasRedaction(text []byte) bool { return bytes.Contains(text, []byte(redactedStart)) }

// RedactJSON redacts the strings of a JSON value, names included, and keeps
// every other byte. A secret that its name gives away ("password": "...") is
// found too. The offsets of its findings are those in value.
func RedactJSON(value json.RawMessage) (json.RawMessage, []Finding) {
	c := strictjson.NewCursor(value)
	var out []byte
	var found []Finding
	at := 0
	name, named := "", false // of the member whose value is next
	for {
		t := c.Next()
		if t.Kind == 0 {
			break
		}
		isValue := named
		named = t.Name
		if t.Kind != '"' {
			continue
		}
		text := unquoted(t.Raw)
		if t.Name {
			name = text
		}
		clean, hits := Redact(text)
		if len(hits) == 0 && isValue && underName(name, text) {
			clean, hits = redactedStart+"named-secret"+redactedEnd, []Finding{{Name: "named-secret"}}
		}
		if len(hits) == 0 {
			continue
		}
		end := c.Offset()
		start := end - len(t.Raw)
		out = strictjson.AppendString(append(out, value[at:start]...), clean)
		at = end
		for _, h := range hits {
			found = append(found, Finding{h.Name, start, end})
		}
	}
	if found == nil {
		return value, nil
	}
	return append(out, value[at:]...), found
}

// underName reports whether the member's name and value together are a secret.
func underName(name, text string) bool {
	if len(text) < 16 || len(text) > 512 {
		return false
	}
	return slices.ContainsFunc(Secrets(name+"="+text), func(f Finding) bool { return f.Start == len(name)+1 && f.End == len(name)+1+len(text) })
}
