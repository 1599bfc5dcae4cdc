package clients

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/mcp-gate/mcp-gate/internal/lazy"
)

// product is the name that this program goes by in packages and images.
const product = "mcp-gate"

// markers are variables that only this program's own entry, or a process below
// it, has.
var markers = []string{"MCP_GATE_HOME", "MCP_GATE_DEPTH", "MCP_GATE_CLIENT"}

// isOwn reports whether an entry starts this very program, whatever it is wrapped
// in. The executable is this program's own path, "" where it is not known. A
// demonstration server of this program's is no gate.
func isOwn(e Endpoint, executable string) bool {
	for _, v := range e.Env {
		if slices.Contains(markers, v.Name) {
			return true
		}
	}
	if e.Command == "" {
		return false
	}
	return startsGate(append([]string{e.Command}, e.Args...), executable, 0)
}

// startsGate looks through package runners, containers and shells for the
// program that a command line really starts.
func startsGate(words []string, executable string, depth int) bool {
	if len(words) == 0 || depth > 4 {
		return false
	}
	program, rest := words[0], words[1:]
	if isGate(program, executable) {
		i := slices.IndexFunc(rest, func(w string) bool { return !strings.HasPrefix(w, "-") })
		return i < 0 || rest[i] != "sample"
	}
	deeper := func(words []string) bool { return startsGate(words, executable, depth+1) }
	switch baseOf(program) {
	case "npx", "bunx", "pnpx", "uvx":
		return deeper(runnerWords(rest))
	case "npm", "pnpm", "yarn", "bun", "uv", "pipx", "go", "mise", "deno":
		for i, w := range rest {
			if slices.Contains([]string{"exec", "dlx", "x", "run", "tool"}, w) {
				return deeper(runnerWords(rest[i+1:]))
			}
		}
	case "docker", "podman", "nerdctl":
		return imageIsGate(rest)
	case "sh", "bash", "zsh", "dash", "fish", "cmd", "powershell", "pwsh":
		return shellStartsGate(rest, deeper)
	case "ssh": // the line that the other machine's shell gets
		return shellStartsGate(wrappers["ssh"].behind(rest), deeper)
	default:
		if w, ok := wrappers[baseOf(program)]; ok {
			return deeper(w.behind(rest))
		}
	}
	return false
}

// A wrapper starts the program that is named behind its own words.
type wrapper struct {
	valued string // its options of one letter that the next word belongs to
	own    int    // how many words that are no options come first
}

var wrappers = map[string]wrapper{
	"env": {valued: "uC"}, "sudo": {valued: "ghpruCDRTU"}, "doas": {valued: "uC"}, "nice": {valued: "n"}, "ionice": {valued: "cn"},
	"nohup": {}, "setsid": {}, "time": {valued: "fo"}, "timeout": {valued: "ks", own: 1}, "stdbuf": {valued: "ioe"},
	"command": {}, "exec": {valued: "a"}, "caffeinate": {valued: "tw"}, "wsl": {valued: "du"},
	"ssh": {valued: "bcDEeFIiJLlmoOpQRSWw", own: 1},
}

// behind drops options with their values, assignments, and the wrapper's own words.
func (w wrapper) behind(words []string) []string {
	own := w.own
	for i := 0; i < len(words); i++ {
		switch word := words[i]; {
		case strings.HasPrefix(word, "-"):
			if len(word) == 2 && strings.Contains(w.valued, word[1:]) {
				i++
			}
		case strings.Contains(word, "="):
		case own > 0:
			own--
		default:
			return words[i:]
		}
	}
	return nil
}

// isGate reports whether a word names this program: by its file, whatever it is
// called there, or by the name of its file, package or image.
func isGate(word, executable string) bool {
	if executable != "" && (word == executable || sameFile(word, executable)) {
		return true
	}
	return baseOf(word) == product
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// baseOf strips folders, scopes, registries, versions and an extension.
func baseOf(word string) string {
	base := path.Base(strings.ReplaceAll(word, `\`, "/"))
	base, _, _ = strings.Cut(base, "@")
	base, _, _ = strings.Cut(base, ":")
	base = strings.ToLower(base)
	for _, ext := range []string{".exe", ".cmd", ".bat", ".ps1"} {
		base = strings.TrimSuffix(base, ext)
	}
	return base
}

// runnerWords drops a package runner's own options. What is named with --package
// counts as the program unless one follows.
func runnerWords(words []string) []string {
	named := ""
	for i := 0; i < len(words); i++ {
		w := words[i]
		option, value, joined := strings.Cut(w, "=")
		switch option {
		case "-p", "--package", "--from", "--with", "--python", "--registry", "--index", "-c", "--call", "--spec":
			if !joined && i+1 < len(words) {
				i++
				value = words[i]
			}
			switch {
			case option == "-c" || option == "--call":
				return fields(value)
			case option != "--python" && option != "--registry" && option != "--index":
				named = value
			}
		default:
			if !strings.HasPrefix(w, "-") {
				return words[i:]
			}
		}
	}
	if named != "" {
		return []string{named}
	}
	return nil
}

var gateImage = lazy.Regexp(`^([\w.-]+(:\d+)?/)*` + product + `(:[\w.-]+)?(@sha256:[0-9a-f]+)?$`)

// imageIsGate looks for the gate's image after "run". Values of options that
// name folders or hosts may have the same word in them and do not count.
func imageIsGate(words []string) bool {
	withValue := []string{"-v", "--volume", "--mount", "-w", "--workdir", "--name", "-e", "--env", "--env-file", "-h", "--hostname", "-l", "--label", "--network", "-u", "--user"}
	run := slices.IndexFunc(words, func(w string) bool { return w == "run" || w == "exec" })
	if run < 0 {
		return false
	}
	for i := run + 1; i < len(words); i++ {
		switch w := words[i]; {
		case slices.Contains(withValue, w):
			i++
		case gateImage().MatchString(w):
			return !slices.Contains(words[i+1:], "sample")
		}
	}
	return false
}

// shellStartsGate looks at each command of a shell's line.
func shellStartsGate(words []string, deeper func([]string) bool) bool {
	for i, w := range words {
		if strings.HasPrefix(w, "-") || strings.HasPrefix(w, "/") && len(w) == 2 {
			continue
		}
		line := strings.Join(words[i:], " ")
		for _, command := range regexp.MustCompile(`&&|\|\||[;|&\n]`).Split(line, -1) {
			if deeper(fields(command)) {
				return true
			}
		}
		return false
	}
	return false
}

// fields splits a shell's line at spaces outside quotes. It is enough to find a
// program's name, and runs nothing. Leading assignments are dropped.
func fields(line string) []string {
	var out []string
	var word strings.Builder
	quote, open := rune(0), false
	flush := func() {
		if open {
			out = append(out, word.String())
		}
		word.Reset()
		open = false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, open = r, true
		case quote == 0 && (r == ' ' || r == '\t'):
			flush()
		default:
			word.WriteRune(r)
			open = true
		}
	}
	flush()
	for len(out) > 0 && regexp.MustCompile(`^\w+=`).MatchString(out[0]) {
		out = out[1:]
	}
	return out
}
