package catalog

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// pathWords are the words by which arguments that name local files go.
// Written for this project from the schemas of common file servers.
var pathWords = []string{"path", "paths", "file", "files", "filename", "filepath", "filenames", "dir", "directory", "folder", "source", "destination", "src", "dst", "dest", "target"}

// LocalPaths returns the texts among the arguments of a call that name local files,
// in their order: those under a name of such, at any depth and whatever the schema
// says of it, and those that are written as no other text is. It is false where
// there may be one that cannot be followed.
func LocalPaths(args json.RawMessage) ([]string, bool) {
	var p localPaths
	args = bytes.TrimSpace(args)
	ok := len(args) == 0 || p.walk(args, false)
	return p, ok
}

type localPaths []string

// walk looks at a value; named says that it stands under the name of a path.
func (p *localPaths) walk(v json.RawMessage, named bool) bool {
	switch v[0] {
	case '{':
		return p.members(v, named)
	case '[':
		var list []json.RawMessage
		if json.Unmarshal(v, &list) != nil {
			return false
		}
		for _, e := range list {
			if !p.walk(e, named) {
				return false
			}
		}
		return true
	case '"':
		var s string
		if json.Unmarshal(v, &s) != nil {
			return false
		}
		if !named && !writtenAsPath(s) && !writtenAsFile(s) {
			return true
		}
		*p = append(*p, s)
		return !ServerFollows(s)
	}
	return !named || v[0] == 'n' || v[0] == 't' || v[0] == 'f'
}

// members looks at an object. One under the name of a path names it in a member;
// else its own names may be the paths, or it stands for something else.
func (p *localPaths) members(v json.RawMessage, named bool) bool {
	found := false
	for m, err := range strictjson.Object(v) {
		if err != nil || writtenAsPath(m.Name) {
			return false
		}
		is := namesPath(m.Name)
		found = found || is
		if !p.walk(m.Value, is) {
			return false
		}
	}
	return found || !named
}

func namesPath(name string) bool {
	ws := words(name)
	return len(ws) > 0 && (slices.Contains(pathWords, ws[len(ws)-1]) || slices.Contains(pathWords, strings.ToLower(name)))
}

// writtenAsPath reports whether a text is a path by its form alone. Paragraphs and
// comments of programs are not.
func writtenAsPath(s string) bool {
	if strings.ContainsAny(s, "\r\n") || len(s) > 4096 {
		return false
	}
	rooted := len(s) > 1 && s[0] == '/' && s[1] != ' ' && s[1] != '*' && !strings.HasPrefix(s, "// ")
	up := strings.HasPrefix(s, "../") || strings.HasPrefix(s, `..\`) || strings.Contains(s, "/../")
	home := s == "~" || strings.HasPrefix(s, "~") && strings.ContainsAny(s, `/\`)
	return rooted || up || home || !strings.HasPrefix(s, "~") && ServerFollows(s)
}

// writtenAsFile reports whether a text may be the name of a file by its form alone:
// one word with an extension, in folders or not. What else is written so costs a look
// at a file that is not there.
func writtenAsFile(s string) bool {
	dot := strings.LastIndexByte(s, '.')
	if dot < 1 || len(s) > 255 || strings.Contains(s, "://") || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || strings.ContainsRune(`@:"<>|?*(){}[],;=`, r) }) {
		return false
	}
	extension := s[dot+1:]
	return len(extension) > 0 && len(extension) <= 10 && strings.IndexFunc(extension, unicode.IsLetter) >= 0 &&
		!strings.ContainsFunc(extension, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) && s[dot-1] != '/'
}

// ServerFollows reports whether a text is a path that only its server can follow: a
// home folder, an address, a drive of another system.
func ServerFollows(s string) bool {
	drive := len(s) > 2 && s[1] == ':' && (s[2] == '\\' || s[2] == '/')
	return strings.HasPrefix(s, "~") || strings.HasPrefix(strings.ToLower(s), "file:") || (drive || strings.HasPrefix(s, `\\`)) && !filepath.IsAbs(s)
}
