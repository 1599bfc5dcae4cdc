package clients

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcp-gate/mcp-gate/internal/lazy"
)

// A translator turns the texts of one client into this product's own: what is a
// variable to that client stays a reference to it, and what is not stays as it
// stands. Values of variables are never looked up.
type translator struct {
	dialect
	verbatim bool // texts stay as they are: the file is this product's own

	folder string // what ${workspaceFolder} is, or ""
	bundle string // what ${__dirname} is, in the manifest of a bundle; else ""
	goos   string
	secret func(id string) (string, error) // the name under which the answer to an input is kept

	needs []string // inputs that were referred to
	vars  []string // variables that were referred to and have no default
}

var (
	plainRef  = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?$`)
	dollarRef = lazy.Regexp(`^\$([A-Za-z_][A-Za-z0-9_]*)`)
	percent   = lazy.Regexp(`^%([A-Za-z_][A-Za-z0-9_()]*)%`)
	braceRef  = lazy.Regexp(`^\{(env|file):([^{}]*)\}`)
	secretRef = lazy.Regexp(`^[A-Za-z0-9_.-]+$`)
)

// folders are the names that editors have for the folder that is open.
var folders = []string{"workspaceFolder", "workspaceRoot", "fileWorkspaceFolder", "cwd", "projectRoot"}

// text translates one text. The error says which reference cannot be taken over.
func (t *translator) text(s string) (string, error) {
	if t.verbatim {
		return s, nil
	}
	var out strings.Builder
	for s != "" {
		done, err := t.next(s, &out)
		if err != nil {
			return "", err
		}
		s = s[done:]
	}
	return out.String(), nil
}

// next translates what s begins with and returns how many bytes that were.
func (t *translator) next(s string, out *strings.Builder) (int, error) {
	if strings.HasPrefix(s, "${{") {
		return 0, fmt.Errorf("%s is filled in by another program: use ${VAR} and set the variable", upTo(s, "}}"))
	}
	if strings.HasPrefix(s, "${") {
		inner, _, closed := strings.Cut(s[2:], "}")
		if !closed {
			out.WriteString("$${")
			return 2, nil
		}
		text, err := t.reference(inner)
		out.WriteString(text)
		return len(inner) + 3, err
	}
	if m := braceRef().FindStringSubmatch(s); m != nil && t.brace {
		if m[1] == "file" {
			return 0, fmt.Errorf("%s is the content of a file: put it into a variable", m[0])
		}
		out.WriteString(t.variable(m[2]))
		return len(m[0]), nil
	}
	if t.dialect.dollar {
		m := dollarRef().FindStringSubmatch(s)
		if m == nil && t.goos == "windows" {
			m = percent().FindStringSubmatch(s)
		}
		if m != nil {
			out.WriteString(t.variable(m[1]))
			return len(m[0]), nil
		}
	}
	out.WriteByte(s[0])
	return 1, nil
}

// reference translates what stands between "${" and "}".
func (t *translator) reference(inner string) (string, error) {
	whole := "${" + inner + "}"
	kind, rest, hasKind := strings.Cut(inner, ":")
	if name, of := strings.CutPrefix(inner, "user_config."); of && t.bundle != "" {
		kind, rest, hasKind = "input", name, true
	}
	switch {
	case t.bundle != "" && inner == "__dirname":
		return strings.ReplaceAll(t.bundle, "${", "$${"), nil
	case hasKind && kind == "env" && t.env:
		return t.named(rest, "env:")
	case hasKind && kind == "input":
		name, err := t.secret(rest)
		if err != nil {
			return "", fmt.Errorf("%s: %w", whole, err)
		}
		if !slices.Contains(t.needs, rest) {
			t.needs = append(t.needs, rest)
		}
		return "${secret:" + name + "}", nil
	case hasKind && slices.Contains([]string{"command", "config", "workspaceFolder", "secret", "prompt", "user_config"}, kind) && !strings.HasPrefix(rest, "-"):
		return "", fmt.Errorf("%s is filled in by an editor: write its value out", whole)
	case t.dialect.folder && slices.Contains(folders, inner):
		return t.workspace(whole, func(dir string) string { return dir })
	case t.dialect.folder && inner == "workspaceFolderBasename":
		return t.workspace(whole, filepath.Base)
	case t.dialect.folder && (inner == "pathSeparator" || inner == "/"):
		if t.goos == "windows" {
			return `\`, nil
		}
		return "/", nil
	case t.dialect.folder && inner == "userHome":
		return whole, nil
	case t.dialect.plain && plainRef().MatchString(inner):
		return t.named(inner, "")
	}
	return "$" + whole, nil // no reference to that client: the "$" before it keeps it as it is
}

func (t *translator) named(ref, prefix string) (string, error) {
	if !plainRef().MatchString(ref) {
		return "", fmt.Errorf("${%s%s} is not a reference to a variable", prefix, ref)
	}
	name, _, hasDefault := strings.Cut(ref, ":-")
	if !hasDefault {
		if t.unset {
			return "${" + prefix + name + ":-}", nil
		}
		t.use(name)
	}
	return "${" + prefix + ref + "}", nil
}

func (t *translator) variable(name string) string {
	if t.unset {
		return "${" + name + ":-}"
	}
	t.use(name)
	return "${" + name + "}"
}

func (t *translator) use(name string) {
	if !slices.Contains(t.vars, name) {
		t.vars = append(t.vars, name)
	}
}

func (t *translator) workspace(whole string, part func(string) string) (string, error) {
	if t.folder == "" {
		return "", fmt.Errorf("%s is the folder that is open in the editor: say which with --folder DIR", whole)
	}
	return strings.ReplaceAll(part(t.folder), "${", "$${"), nil
}

func upTo(s, end string) string {
	if i := strings.Index(s, end); i >= 0 {
		return s[:i+len(end)]
	}
	return s[:min(len(s), 40)]
}
