package main

import (
	"bytes"
	"cmp"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-gate/mcp-gate/config"
)

// shellTime is how long a login shell may take to say its PATH.
const shellTime = 3 * time.Second

// A programFinder looks for servers' programs where a terminal finds them. A gate that
// is started from a desktop's icon has a PATH without what version managers and
// package managers put there. It is safe for concurrent use.
type programFinder struct {
	environ []string
	goos    string

	once     sync.Once
	extended string // PATH, then the login shell's, then well-known folders
}

// environFor returns the environment that a server's program gets its PATH from:
// the gate's own where that finds the program, else one with the PATH that does.
// A program that is named by its path gets its own folder at the end, since what
// runs it often lies beside it. It may have to wait for the login shell.
func (f *programFinder) environFor(s config.Server) []string {
	if _, own := s.Launch.Env["PATH"]; own || f.goos == "windows" || s.Launch.Command == "" {
		return f.environ
	}
	path := f.get("PATH")
	if strings.ContainsRune(s.Launch.Command, '/') {
		return f.with(joinPaths(path, filepath.Dir(s.Launch.Command)))
	}
	if isIn(path, s.Launch.Command) {
		return f.environ
	}
	f.once.Do(func() { f.extended = joinPaths(path, f.shellPath(), f.wellKnown()) })
	if isIn(f.extended, s.Launch.Command) {
		return f.with(f.extended)
	}
	return f.environ
}

func (f *programFinder) get(name string) string {
	value := ""
	for _, pair := range f.environ {
		if v, ok := strings.CutPrefix(pair, name+"="); ok {
			value = v
		}
	}
	return value
}

func (f *programFinder) with(path string) []string {
	out := slices.DeleteFunc(slices.Clone(f.environ), func(pair string) bool { return strings.HasPrefix(pair, "PATH=") })
	return append(out, "PATH="+path)
}

// shellPath asks the person's login shell for its PATH, "" where it does not say.
// It is asked for all variables, since shells differ in how one is printed.
func (f *programFinder) shellPath() string {
	shell := f.get("SHELL")
	if !filepath.IsAbs(shell) {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), shellTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, shell, "-l", "-c", "env")
	cmd.Env = config.ChildEnv(nil, f.environ)
	cmd.WaitDelay = time.Second // what its start-up files leave running does not hold it
	out, err := cmd.Output()
	if err != nil && len(out) == 0 {
		return ""
	}
	path := ""
	for line := range bytes.Lines(out) {
		if v, ok := strings.CutPrefix(strings.TrimRight(string(line), "\r\n"), "PATH="); ok {
			path = v
		}
	}
	return path
}

// wellKnown are folders in which package and version managers put programs. Of
// several versions the one that was installed last comes first.
func (f *programFinder) wellKnown() string {
	var out []string
	if home := f.get("HOME"); home != "" {
		for _, dir := range []string{
			".local/bin", ".volta/bin", ".asdf/shims", ".local/share/mise/shims", ".pyenv/shims", ".bun/bin", ".deno/bin", ".cargo/bin", "go/bin",
		} {
			out = append(out, filepath.Join(home, dir))
		}
		for _, versions := range []string{".nvm/versions/node/*/bin", ".local/share/fnm/node-versions/*/installation/bin"} {
			found, err := filepath.Glob(filepath.Join(home, versions))
			if err != nil {
				continue
			}
			slices.SortFunc(found, func(a, b string) int { return cmp.Or(modified(b).Compare(modified(a)), strings.Compare(b, a)) })
			out = append(out, found...)
		}
	}
	return strings.Join(append(out, "/opt/homebrew/bin", "/usr/local/bin", "/home/linuxbrew/.linuxbrew/bin", "/snap/bin"), string(filepath.ListSeparator))
}

func modified(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// joinPaths joins lists of folders, each folder once and absolute ones only: the
// others would run what lies in the folder that a program is started in.
func joinPaths(lists ...string) string {
	var out []string
	for _, list := range lists {
		for _, dir := range filepath.SplitList(list) {
			if filepath.IsAbs(dir) && !slices.Contains(out, dir) {
				out = append(out, dir)
			}
		}
	}
	return strings.Join(out, string(filepath.ListSeparator))
}

func isIn(path, name string) bool {
	for _, dir := range filepath.SplitList(path) {
		info, err := os.Stat(filepath.Join(dir, name))
		if err == nil && filepath.IsAbs(dir) && info.Mode().IsRegular() && info.Mode()&(fs.ModePerm&0o111) != 0 {
			return true
		}
	}
	return false
}

func newProgramFinder(environ []string) *programFinder {
	return &programFinder{environ: environ, goos: runtime.GOOS}
}
