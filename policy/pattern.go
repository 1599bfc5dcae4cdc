package policy

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/mcp-gate/mcp-gate/catalog"
)

// maxPattern bounds a pattern, in bytes: matching takes at most that many steps
// for each byte of what it is held against.
const maxPattern = 1024

// inNoPattern are the characters that other programs' patterns give a meaning.
const inNoPattern = "[]{}\\! \t\r\n"

// pattern matches the names of tools. It has two halves, one for the server's
// alias and one for the tool's own name, which may hold slashes itself. In each,
// * is any run of characters and ? is one. Neither crosses from one half into
// the other, so a/* is every tool of the server a and of no other.
type pattern struct {
	server, tool string
	bare         bool // written without a server: the tool of that name of any server
}

// parsePattern reads a pattern in any of these spellings. The server half is
// turned into an alias, since nothing else can match one.
//
//	github/create_*          this product's own
//	create_issue             the tool of that name, whatever its server
//	*                        every tool
//	mcp__github__create_*    as some hosts write it; mcp__github is all of its tools
//	github:create_*          as others do
func parsePattern(s string) (pattern, error) {
	switch {
	case s == "":
		return pattern{}, errors.New("an empty pattern matches nothing")
	case len(s) > maxPattern:
		return pattern{}, fmt.Errorf("pattern is longer than %d bytes", maxPattern)
	case strings.ContainsAny(s, inNoPattern):
		return pattern{}, fmt.Errorf("pattern %q: only * and ? are special, and [ ] { } \\ ! and space are in no pattern", s)
	}
	server, tool, bare := splitPattern(s)
	if server == "" || tool == "" {
		return pattern{}, fmt.Errorf("pattern %q: want server/tool", s)
	}
	return pattern{aliasPattern(server), tool, bare}, nil
}

func splitPattern(s string) (server, tool string, bare bool) {
	if rest, ok := strings.CutPrefix(s, "mcp__"); ok {
		server, tool, named := strings.Cut(rest, "__")
		if !named {
			tool = "*"
		}
		if !strings.Contains(server, "/") {
			return server, tool, false
		}
	}
	if i := strings.IndexAny(s, "/:"); i >= 0 {
		return s[:i], s[i+1:], false
	}
	return "*", s, s != "*"
}

// aliasPattern turns what is literal in the server half into an alias.
func aliasPattern(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r == '*' || r == '?' {
			b.WriteRune(r)
		} else {
			b.WriteString(catalog.Alias(string(r)))
		}
	}
	return b.String()
}

// outright reports whether the pattern is the name of one tool of one server.
func (p pattern) outright() bool { return isLiteral(p.server) && isLiteral(p.tool) }

func isLiteral(s string) bool { return !strings.ContainsAny(s, "*?") }

func (p pattern) matches(id catalog.ToolID) bool {
	return glob(p.server, id.Server) && glob(p.tool, id.Tool)
}

// glob reports whether s matches, where * is any run of characters, slashes
// included, ? is one character, and a backslash takes the next byte literally.
// It takes at most len(pattern)*len(s) steps and allocates nothing.
func glob(pattern, s string) bool {
	p, i := 0, 0
	for p < len(pattern) && i < len(s) && pattern[p] == s[i] && !isSpecial(pattern[p]) {
		p, i = p+1, i+1 // most patterns are told apart by how they begin
	}
	star, mark := -1, 0 // the last star, and where what it stands for ends
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			if star, mark = p, i; star+1 == len(pattern) {
				return true
			}
			p++
			continue
		case p < len(pattern) && pattern[p] == '?':
			p++
			i += runeLen(s[i:])
			continue
		}
		if width := literalAt(pattern, p, s[i]); width > 0 {
			p, i = p+width, i+1
			continue
		}
		if star < 0 {
			return false
		}
		mark += runeLen(s[mark:])
		p, i = star+1, mark
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

func isSpecial(c byte) bool { return c == '*' || c == '?' || c == '\\' }

// literalAt returns how many bytes of the pattern at p stand for the byte c, 0 if
// they do not.
func literalAt(pattern string, p int, c byte) int {
	switch {
	case p+1 < len(pattern) && pattern[p] == '\\' && pattern[p+1] == c:
		return 2
	case p < len(pattern) && pattern[p] == c && c != '\\':
		return 1
	}
	return 0
}

func runeLen(s string) int {
	_, n := utf8.DecodeRuneInString(s)
	return n
}
