package config

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// DepthVar is the variable that tells a child how many gates stand above it.
const DepthVar = "MCP_GATE_DEPTH"

// MaxDepth is how deep a gate may stand below another: a gate behind a gate is
// of use (a team's gate behind a person's), a third one is a loop.
const MaxDepth = 1

// A LoopError says that a gate was started by a gate that was itself started by
// one, so that starting servers would go on without end.
type LoopError struct{ Depth int }

func (e *LoopError) Error() string {
	return fmt.Sprintf("start a gate: this is gate number %d in a row, and at most %d may follow one another: "+
		"a server in the configuration of one of them starts a gate again", e.Depth+1, MaxDepth+1)
}

// Depth returns how many gates stand above this process: 0 for one that a client
// or a person started. It is a *[LoopError] if they are too many; then nothing
// must be started. A marker that is no number counts as too deep.
func Depth(env Env) (int, error) {
	word, ok := env(DepthVar)
	if !ok || word == "" {
		return 0, nil
	}
	depth, err := strconv.Atoi(word)
	if err != nil || depth < 0 {
		depth = MaxDepth + 1
	}
	if depth > MaxDepth {
		return depth, &LoopError{depth}
	}
	return depth, nil
}

// inherited are the variables that a child gets from the gate beside those its
// entry declares: who and where the person is and how to find programs (the list
// that MCP's own libraries pass on), the language and the time zone that output is
// written in, where temporary files go, and how to get out through a proxy or
// past a company's certificate, without which npx and uvx fetch nothing. None is
// a secret; see also [passesOn].
var inherited = map[bool][]string{
	false: {
		"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER",
		"LANG", "LANGUAGE", "TZ", "TMPDIR",
		"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
	},
	true: { // Windows, where programs do not start without most of these
		"APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "NUMBER_OF_PROCESSORS", "OS", "PATH", "PATHEXT",
		"PROCESSOR_ARCHITECTURE", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP",
		"TMP", "USERDOMAIN", "USERNAME", "USERPROFILE", "WINDIR",
		"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
	},
}

// ChildEnv returns the environment of a server's process, sorted, as os/exec
// takes it: the declared variables, the inherited ones of environ (which is as
// os.Environ gives it) that are not declared, and the depth marker. Other
// variables of the gate, and so the secrets of other servers, are not in it.
func ChildEnv(declared map[string]string, environ []string) []string {
	return childEnv(declared, environ, runtime.GOOS == "windows")
}

func childEnv(declared map[string]string, environ []string, windows bool) []string {
	fold := func(name string) string {
		if windows {
			return strings.ToUpper(name)
		}
		return name
	}
	taken := map[string]bool{fold(DepthVar): true}
	for name := range declared {
		taken[fold(name)] = true
	}
	depth := 0
	child := map[string]string{}
	for _, pair := range environ {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			continue
		}
		if fold(name) == DepthVar {
			depth, _ = strconv.Atoi(value) // Depth has refused what is no number
		}
		if !taken[fold(name)] && passesOn(fold(name), value, windows) {
			child[name] = value
		}
	}
	maps.Copy(child, declared)
	child[DepthVar] = strconv.Itoa(depth + 1)
	out := make([]string, 0, len(child))
	for _, name := range slices.Sorted(maps.Keys(child)) {
		out = append(out, name+"="+child[name])
	}
	return out
}

// passesOn reports whether a variable that nobody declared reaches a child. A
// shell's exported function does not, since it is code; a proxy's address that
// has a password in it does not, since that is a secret: declare it.
func passesOn(name, value string, windows bool) bool {
	if !slices.Contains(inherited[windows], name) && (windows || !strings.HasPrefix(name, "LC_")) {
		return false
	}
	if strings.HasPrefix(value, "()") {
		return false
	}
	if strings.HasSuffix(strings.ToUpper(name), "_PROXY") && strings.Contains(value, "@") {
		return false
	}
	return true
}

// WithoutSelf leaves out every server that would start this very gate again: the
// entry that a client has for the gate, pasted or imported along with the others.
// It becomes one of c.Disabled, and a note says so. The executable is this
// program's own path.
func (c Config) WithoutSelf(executable string, home Home) (Config, []Note) {
	var notes []Note
	var kept []Server
	for _, s := range c.Servers {
		if !s.startsGate(executable, home.Dir) {
			kept = append(kept, s)
			continue
		}
		c.Disabled = append(slices.Clip(c.Disabled), Refused{Key: s.Key, Alias: s.Alias, Section: s.Section, Pos: s.Pos})
		notes = append(notes, Note{c.File, s.Pos, s.Key, fmt.Sprintf("%s.%s would start this gate again and is left out", s.Section, quoteKey(s.Key))})
	}
	c.Servers = kept
	slices.SortFunc(c.Disabled, func(a, b Refused) int { return strings.Compare(a.Alias, b.Alias) })
	return c, notes
}

// startsGate reports whether a server is a gate that serves the same home.
// Package runners and containers that are given the gate's name count too. One
// that names no home counts as the same; one with another home does not, and is
// bounded by [Depth].
func (s Server) startsGate(executable, home string) bool {
	words := append([]string{s.Launch.Command}, s.Launch.Args...)
	at := slices.IndexFunc(words, func(w string) bool { return isGate(w, executable) })
	if at < 0 || !slices.Contains(words[at+1:], "serve") {
		return false
	}
	dir := s.homeOf(words[at+1:])
	return dir == "" || sameDir(dir, home)
}

// homeOf returns the home that an entry gives to the gate it starts, or "".
func (s Server) homeOf(args []string) string {
	for i, a := range args {
		if dir, ok := strings.CutPrefix(a, "--home="); ok {
			return dir
		}
		if a == "--home" && i+1 < len(args) {
			return args[i+1]
		}
	}
	return s.Launch.Env[HomeVar]
}

// isGate reports whether a word of a command line names this program: by path,
// by file name, or as a package or image with that name and perhaps a version.
func isGate(w, executable string) bool {
	if w == "" {
		return false
	}
	if w == executable {
		return true
	}
	base := path.Base(strings.ReplaceAll(w, `\`, "/"))
	base, _, _ = strings.Cut(base, "@")
	base, _, _ = strings.Cut(base, ":")
	return strings.TrimSuffix(base, ".exe") == "mcp-gate"
}

func sameDir(a, b string) bool {
	resolve := func(dir string) string {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
		return filepath.Clean(dir)
	}
	return resolve(a) == resolve(b)
}
