// Package prefix makes the text that every conversation begins with, so that
// its bytes can stay in a model's cache.
//
// A prefix is three blocks: who the model is and the house rules, one short
// skill, and the catalogue of tools with the only cache breakpoint behind it. It
// is a function of what [Parts] holds and of nothing else: not of a person, a
// session, a clock, a path, the order in which servers start, or which of them
// are up. What it holds of the tools are accepted definitions.
//
// A client's tools/list shares its life. In meta exposure that list is constant
// for a build of the gate; where it holds the tools' own definitions,
// [Parts.Direct] has every server's heading name the bytes of them. So within
// one build and one exposure, equal fingerprints mean equal lists.
//
// The package does not slice, accept or judge, and it keeps nothing. Start with
// [Build]; [Prefix.Encode] writes a form, [Parse] reads one back, and [Diff]
// says which server changed what. [Brief] is a sub-agent's first turn, and
// [Instructions] what a client is told at the start.
package prefix

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/mcp-gate/mcp-gate/catalog"
)

// DefaultSkill is the name of the skill where the owner gave none.
const DefaultSkill = "dataset-triage"

// DefaultBudget bounds the catalogue where the owner said nothing, in estimated
// tokens; a smaller one than MinBudget counts as that.
const (
	DefaultBudget = 4000
	MinBudget     = 200
)

// DefaultIdentity says who the model is where the owner did not.
const DefaultIdentity = "You help a person with their work. You find out what they want to know by calling tools, " +
	"and you change something only when they asked for that change."

// DefaultRules are the house rules where the owner gave none.
const DefaultRules = `HOUSE RULES
1. Begin with what was asked, not with a tool that happens to be there.
2. The catalog below gives each tool's name and purpose; its definition comes from load_tool, several in one call. Load those you are about to use and no others. Then run one with call_tool: its name, and arguments that fit its definition.
3. State only what came back from a tool. Keep three things apart: the result itself, how you read it, and what you knew before.
4. What writes to the person's files or cannot be undone waits for their yes. A no is an answer: do not look for another way to the same end.
5. A large result comes as a stub: an artifact id, its start and its end. read_artifact gives the parts of it that you need.
6. Be brief. A machine wrote the answer, and the person will check it before they rely on it.`

// Parts are all that a prefix depends on.
type Parts struct {
	Identity  string // "" is DefaultIdentity
	Rules     string // "" is DefaultRules
	Skill     string // its name; "" is DefaultSkill
	SkillText string // may be empty
	// Tools are the accepted tools that the slice shows, in any order.
	Tools []catalog.Entry
	// Direct says that the client's own list holds the tools' definitions.
	Direct bool
	// Budget bounds the catalogue, in tokens as Estimate counts them; 0 is
	// DefaultBudget.
	Budget int
	// Estimate gives the tokens of a text, more for a longer one; nil is
	// [EstimateTokens].
	Estimate func(string) int
}

// EstimateTokens is a quarter of the text's bytes, rounded up.
func EstimateTokens(text string) int { return (len(text) + 3) / 4 }

// Prefix is a finished prefix. Values are immutable and comparable with ==.
type Prefix struct{ blocks [3]string }

// Build puts a prefix together. Equal parts, in whatever order their tools
// stand, give equal bytes.
func Build(p Parts) Prefix {
	return Prefix{[3]string{
		tidy(cmp.Or(p.Identity, DefaultIdentity)) + "\n\n" + tidy(cmp.Or(p.Rules, DefaultRules)),
		"SKILL " + cmp.Or(oneLine(p.Skill), DefaultSkill) + "\n" + tidy(p.SkillText),
		catalogText(p),
	}}
}

// tidy keeps the editor that a text was written with out of the bytes.
func tidy(s string) string {
	return strings.TrimSpace(strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\r\n", "\n"))
}

// Of returns the prefix that has these blocks, as another gate built them.
func Of(blocks [3]string) Prefix { return Prefix{blocks} }

// Blocks returns identity and rules, the skill, and the catalogue.
func (p Prefix) Blocks() [3]string { return p.blocks }

// Catalog returns the catalogue's text alone.
func (p Prefix) Catalog() string { return p.blocks[2] }

// Plain returns the plain form: the blocks with an empty line between them.
func (p Prefix) Plain() string { return strings.Join(p.blocks[:], "\n\n") }

// Fingerprint names the prefix: xxhash64 of the plain form, 16 hex digits. It
// tells whether bytes moved; it proves nothing against somebody who wants two
// prefixes to share one.
func (p Prefix) Fingerprint() string {
	return fmt.Sprintf("%016x", xxhash.Sum64String(p.Plain()))
}
