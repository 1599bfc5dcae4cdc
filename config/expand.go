package config

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/mcp-gate/mcp-gate/internal/lazy"
)

// expand fills in s.Launch from what was written: variables in every text, and a
// leading tilde in command, arguments and folder. Values of variables are never
// part of an error.
func (d *decoder) expand(e *serverEntry, s *Server, env Env) {
	x := &expander{d: d, entry: e, env: env}
	l := &s.Launch
	l.Command = x.path("command", e.command)
	l.Args = []string{}
	for i, a := range e.args {
		l.Args = append(l.Args, x.path(fmt.Sprintf("args[%d]", i), a))
	}
	l.Cwd = x.path("cwd", e.cwd)
	l.Env = x.variables("env", e.env)
	l.URL = x.text("url", e.url)
	l.Headers = x.variables("headers", e.headers)
	if e.auth != nil {
		filled := *e.auth
		filled.ClientID = x.text("auth.client_id", located{filled.ClientID, e.pos})
		filled.ClientSecret = x.text("auth.client_secret", located{filled.ClientSecret, e.pos})
		e.auth = &filled
	}
	if e.broken {
		return
	}
	x.check(l)
}

type expander struct {
	d     *decoder
	entry *serverEntry
	env   Env
}

func (x *expander) fault(at Pos, key, format string, args ...any) {
	x.d.fault(at, "%s.%s: %s", x.entry.path(), key, fmt.Sprintf(format, args...))
}

func (x *expander) text(key string, t located) string {
	out, err := expandVariables(t.text, x.env)
	if err != nil {
		x.fault(t.pos, key, "%v", err)
	}
	if !strings.ContainsAny(t.text, "$%") {
		return out // as most are, and none of the patterns need be compiled
	}
	for _, m := range plainRef().FindAllStringSubmatch(t.text, -1) {
		if value, set := x.env(m[1]); set && value == "" {
			x.d.note(t.pos, "%s.%s: variable %s is set and empty: set it, or write ${%s:-} where nothing is meant", x.entry.path(), key, m[1], m[1])
		}
	}
	if m := otherSpelling().FindStringSubmatch(t.text); m != nil {
		x.d.note(t.pos, "%s.%s: %s is passed on as it stands: write ${%s} for the variable", x.entry.path(), key, m[0], m[1]+m[2])
	}
	return out
}

// path expands a leading tilde as well. What a variable brings in is left alone.
func (x *expander) path(key string, t located) string {
	home, ok := homeOf(x.env, runtime.GOOS)
	if ok && (t.text == "~" || strings.HasPrefix(t.text, "~/") || runtime.GOOS == "windows" && strings.HasPrefix(t.text, `~\`)) {
		rest := t
		rest.text = t.text[1:]
		return home + x.text(key, rest)
	}
	return x.text(key, t)
}

func (x *expander) variables(key string, l []variable) map[string]string {
	if len(l) == 0 {
		return nil
	}
	out := make(map[string]string, len(l))
	for _, v := range l {
		out[v.name] = x.text(key+"."+quoteKey(v.name), v.value)
	}
	return out
}

// check refuses what can only be seen once variables have their values.
func (x *expander) check(l *Endpoint) {
	e := x.entry
	if l.URL == "" && strings.TrimSpace(l.Command) == "" {
		x.fault(e.command.pos, "command", "is empty once its variables are filled in")
	}
	if l.URL != "" {
		if err := checkURL(l.URL); err != nil {
			x.fault(e.url.pos, "url", "%v", err)
		}
	}
	for _, v := range e.env {
		switch {
		case !envName().MatchString(v.name):
			x.fault(v.pos, "env", "%q cannot be the name of a variable", cut(v.name))
		case v.name == DepthVar:
			x.fault(v.pos, "env", "%s is the gate's own: it counts how many gates are in a row", DepthVar)
		case strings.ContainsRune(l.Env[v.name], 0):
			x.fault(v.value.pos, "env."+quoteKey(v.name), "holds a NUL character")
		}
	}
	seen := map[string]bool{}
	for _, v := range e.headers {
		lower := strings.ToLower(v.name)
		switch {
		case !headerName().MatchString(v.name):
			x.fault(v.pos, "headers", "%q cannot be the name of a header", cut(v.name))
		case seen[lower]:
			x.fault(v.pos, "headers", "%q is there twice: the case of a header's name does not count", v.name)
		case strings.ContainsAny(l.Headers[v.name], "\r\n\x00"):
			x.fault(v.value.pos, "headers."+quoteKey(v.name), "holds a line break or a NUL character")
		}
		seen[lower] = true
	}
}

// homeOf returns the person's own folder, if the environment tells.
func homeOf(env Env, goos string) (string, bool) {
	name := "HOME"
	if goos == "windows" {
		name = "USERPROFILE"
	}
	home, ok := env(name)
	return home, ok && home != ""
}

// otherSpelling is a text that is nothing but a variable as some clients write it.
var otherSpelling = lazy.Regexp(`^(?:\$([A-Z_][A-Z0-9_]*)|%([A-Z_][A-Z0-9_]*)%)$`)

// plainRef is a reference to a variable without a default.
var plainRef = lazy.Regexp(`(?:^|[^$])\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}`)

var variableRef = lazy.Regexp(`^(env:)?([A-Za-z_][A-Za-z0-9_]*)(:-(.*))?$`)

// editorVariables are what some editors fill in and a gate cannot know.
var editorVariables = []string{
	"workspaceFolder", "workspaceFolderBasename", "workspaceRoot", "fileWorkspaceFolder", "file", "fileDirname",
	"relativeFile", "cwd", "pathSeparator", "execPath", "selectedText", "lineNumber", "extensionPath",
}

// expandVariables replaces ${NAME}, ${env:NAME} and ${NAME:-default} by their
// values, once: a value is never looked at again. "$${" stands for "${"; a "$"
// before anything else is only itself. The default counts where the variable is
// not set or empty, as in a shell.
func expandVariables(s string, env Env) (string, error) {
	var out strings.Builder
	for {
		at := strings.Index(s, "${")
		if at < 0 {
			out.WriteString(s)
			return out.String(), nil
		}
		if at > 0 && s[at-1] == '$' {
			out.WriteString(s[:at-1])
			out.WriteString("${")
			s = s[at+2:]
			continue
		}
		out.WriteString(s[:at])
		inner, rest, closed := strings.Cut(s[at+2:], "}")
		if !closed {
			return "", fmt.Errorf(`"${" is not closed: write "$${" where these characters are meant`)
		}
		value, err := lookUp(inner, env)
		if err != nil {
			return "", err
		}
		out.WriteString(value)
		s = rest
	}
}

// SecretPrefix begins the name under which an [Env] is asked for ${secret:NAME}:
// what the owner keeps beside the configuration. No variable of an environment has
// a colon in its name here, so whoever hands in an Env without secrets has none.
const SecretPrefix = "secret:"

var secretRef = lazy.Regexp(`^secret:[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

// lookUp gives the value of what stands between the braces.
func lookUp(ref string, env Env) (string, error) {
	if secretRef().MatchString(ref) {
		if value, ok := env(ref); ok {
			return value, nil
		}
		return "", fmt.Errorf("secret %s is not kept here: import the file that asked for it again, or write ${VAR} and set the variable", strings.TrimPrefix(ref, SecretPrefix))
	}
	if prefix, _, ok := strings.Cut(ref, ":"); ok && slices.Contains([]string{"input", "command", "config", "secret"}, prefix) {
		return "", fmt.Errorf("${%s} is filled in by another program: use ${VAR} and set the variable where the gate is started", cut(ref))
	}
	if slices.Contains(editorVariables, ref) {
		return "", fmt.Errorf("${%s} is known to an editor only: write the folder or name out", ref)
	}
	if ref == "userHome" {
		ref = "HOME"
		if home, ok := homeOf(env, runtime.GOOS); ok {
			return home, nil
		}
	}
	m := variableRef().FindStringSubmatch(ref)
	if m == nil || strings.Contains(m[4], "${") {
		return "", errors.New(`what stands in "${...}" is not a reference to a variable: want ${NAME} or ${NAME:-default}; write "$${" where these characters are meant`) // it may be a secret that was put there instead
	}
	name, hasDefault, fallback := m[2], m[3] != "", m[4]
	value, ok := env(name)
	switch {
	case hasDefault && value == "":
		return fallback, nil
	case !ok:
		return "", fmt.Errorf("variable %s is not set: set it where the gate is started, or write ${%s:-default}", name, name)
	}
	return value, nil
}
