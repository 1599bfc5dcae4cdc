package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mcp-gate/mcp-gate/internal/lazy"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// Limits are what a client bears of a tool's definition. The zero Limits are
// those of a client that bears everything.
type Limits struct {
	Name        int  // characters of a name; 0 is any number
	Description int  // bytes of a description; 0 is any number
	Strict      bool // it passes schemas on to a provider that takes few keywords
}

// strictNames is how long a tool's name may be for every provider.
const strictNames = 64

var strictToolName = lazy.Regexp(`^[a-zA-Z0-9_-]+$`)

// Tailored is a tool as a client within some limits gets it.
type Tailored struct {
	Raw         json.RawMessage
	Alterations []Alteration // none where Raw is as it was
	back        *names
}

// Own returns arguments that fit the client's definition as they fit the
// server's: with the server's own names. Args must be strict JSON.
func (t Tailored) Own(args json.RawMessage) json.RawMessage { return t.back.back(args) }

// Tailor fits a definition, whose name is settled already, to what a client
// bears. It is the same for the same definition and limits, and the very bytes
// where these ask for nothing else.
func (l Limits) Tailor(t Tool, raw json.RawMessage) (Tailored, error) {
	out := Tailored{Raw: raw}
	description := t.Description
	if l.Strict {
		schema, alterations, rules, back := strictForm(t.InputSchema)
		out.Alterations, out.back = alterations, back
		if string(schema) != string(t.InputSchema) {
			if err := out.set("inputSchema", schema); err != nil {
				return Tailored{}, fmt.Errorf("definition of %v: %w", t.ID, err)
			}
		}
		if len(rules) > 0 {
			description = sentences(description, rules)
		}
	}
	if cut := cutText(description, l.Description); cut != description {
		out.Alterations = append(out.Alterations, Alteration{At: "description", What: fmt.Sprintf("cut from %d bytes to %d; load_tool gives all", len(description), len(cut))})
		description = cut
	}
	if description != t.Description {
		if err := out.set("description", strictjson.AppendString(nil, description)); err != nil {
			return Tailored{}, fmt.Errorf("definition of %v: %w", t.ID, err)
		}
	}
	return out, nil
}

func (t *Tailored) set(member string, value json.RawMessage) (err error) {
	t.Raw, err = strictjson.Set(t.Raw, member, value)
	return err
}

// cutText cuts a text to at most n bytes, at a rune, and marks that; n 0 is any
// number.
func cutText(s string, n int) string {
	const mark = " …"
	if n <= 0 || len(s) <= n {
		return s
	}
	end := max(0, n-len(mark))
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return strings.TrimRight(s[:end], " \n\t") + mark
}

// Names gives each of some tools the name that a client within these limits
// knows it by: the one in plain where that fits, else as much of it as fits and
// hex digits of SHA-256(alias, NUL, tool). Where two tools meet in one name, in
// spite of that, both get more digits, so that none can take another's place.
// Reserved are names that are given already.
func (l Limits) Names(ids []ToolID, plain []string, reserved ...string) []string {
	limit := l.Name
	if l.Strict && (limit == 0 || limit > strictNames) {
		limit = strictNames
	}
	names := slices.Clone(plain)
	if limit == 0 && !l.Strict {
		return names
	}
	holders := map[string]int{}
	for _, name := range reserved {
		holders[name]++
	}
	digits := make([]int, len(ids))
	for i, name := range plain {
		if limit > 0 && len(name) > limit || l.Strict && !strictToolName().MatchString(name) {
			digits[i] = 8
			names[i] = cutName(ids[i], name, limit, digits[i])
		}
		holders[names[i]]++
	}
	for i, name := range names {
		if digits[i] > 0 && holders[name] > 1 {
			names[i] = cutName(ids[i], plain[i], limit, min(32, limit-2))
		}
	}
	return names
}

// cutName is as much of a name as leaves room for a tail of hex digits.
func cutName(id ToolID, plain string, limit, digits int) string {
	sum := sha256.Sum256([]byte(id.Server + "\x00" + id.Tool))
	tail := "_" + hex.EncodeToString(sum[:])[:digits]
	plain = strings.TrimSuffix(plain, tail) // a direct name that was cut before
	name := strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && strictToolName().MatchString(string(r)) {
			return r
		}
		return '_'
	}, plain)
	if limit == 0 {
		limit = len(name) + len(tail)
	}
	return name[:min(len(name), limit-len(tail))] + tail
}
