package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// HomeVar is the variable that says where the home is.
const HomeVar = "MCP_GATE_HOME"

// A Home is the folder where one gate keeps all it has: what the owner wrote and
// what the gate writes. Several processes may share one.
type Home struct{ Dir string } // absolute

// FindHome returns the home that a flag names or, if that is empty, $MCP_GATE_HOME
// or else the folder mcp-gate in the person's configuration folder. It need not
// exist.
func FindHome(flag string, env Env) (Home, error) {
	dir := flag
	if dir == "" {
		dir, _ = env(HomeVar)
	}
	if dir == "" {
		base, err := userConfigDir(env, runtime.GOOS)
		if err != nil {
			return Home{}, fmt.Errorf("find home: %w: give --home DIR or set %s", err, HomeVar)
		}
		dir = filepath.Join(base, "mcp-gate")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Home{}, fmt.Errorf("find home: %w", err)
	}
	return Home{dir}, nil
}

// userConfigDir is os.UserConfigDir for an environment that is handed in.
func userConfigDir(env Env, goos string) (string, error) {
	get := func(name string) string { v, _ := env(name); return v }
	switch goos {
	case "windows":
		if dir := get("APPDATA"); dir != "" {
			return dir, nil
		}
		return "", errors.New("APPDATA is not set")
	case "darwin", "ios":
		if dir := get("HOME"); dir != "" {
			return filepath.Join(dir, "Library", "Application Support"), nil
		}
		return "", errors.New("HOME is not set")
	}
	if dir := get("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	if dir := get("HOME"); dir != "" {
		return filepath.Join(dir, ".config"), nil
	}
	return "", errors.New("neither XDG_CONFIG_HOME nor HOME is set")
}

// Config returns where the configuration is, if it is JSONC.
func (h Home) Config() string { return filepath.Join(h.Dir, "config.jsonc") }

// ConfigYAML returns where the configuration is, if it is YAML.
func (h Home) ConfigYAML() string { return filepath.Join(h.Dir, "config.yaml") }

// Lock returns the file of accepted definitions.
func (h Home) Lock() string { return filepath.Join(h.Dir, "mcp-gate.lock") }

// Catalog returns the folder of accepted definitions' bytes.
func (h Home) Catalog() string { return filepath.Join(h.Dir, "catalog") }

// DB returns the file of the database.
func (h Home) DB() string { return filepath.Join(h.Dir, "state.db") }

// Artifacts returns the folder of kept results.
func (h Home) Artifacts() string { return filepath.Join(h.Dir, "artifacts") }

// Audit returns the folder of audit logs.
func (h Home) Audit() string { return filepath.Join(h.Dir, "audit") }

// Keys returns the folder of keys.
func (h Home) Keys() string { return filepath.Join(h.Dir, "keys") }

// Run returns the folder of the sockets of running gates.
func (h Home) Run() string { return filepath.Join(h.Dir, "run") }

// An UnsafeError says that somebody else could change a file or folder that the
// gate must be able to rely on.
type UnsafeError struct {
	Path string
	Why  string // what is wrong with it
	Fix  string // a command that puts it right
}

func (e *UnsafeError) Error() string {
	return fmt.Sprintf("%s %s, so somebody else could change what the gate allows: run %s", e.Path, e.Why, e.Fix)
}

// Ensure creates the home if there is none, for its owner alone (mode 0700), and
// checks it as [Home.Check] does.
func (h Home) Ensure() error {
	if err := os.MkdirAll(filepath.Dir(h.Dir), 0o700); err != nil {
		return fmt.Errorf("create home %s: %w", h.Dir, err)
	}
	if err := os.Mkdir(h.Dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("create home %s: %w", h.Dir, err)
	}
	return h.Check()
}

// Check returns a *[UnsafeError] if the home, or a configuration file in it, may
// be written by others or belongs to somebody else. A home that does not exist is
// in order. Where files have no modes (Windows) nothing is checked.
func (h Home) Check() error {
	for _, path := range []string{h.Dir, h.Config(), h.ConfigYAML()} {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("check home: %w", err)
		}
		if path == h.Dir && !info.IsDir() {
			return fmt.Errorf("check home: %s is not a folder", path)
		}
		if path != h.Dir && !info.Mode().IsRegular() {
			return fmt.Errorf("check home: %s is not a file", path)
		}
		if err := safe(path, info); err != nil {
			return err
		}
	}
	return nil
}

// ConfigFile returns the configuration file that is there, or "" if none is. Two
// of them are an error: which one counts could not be told.
func (h Home) ConfigFile() (string, error) {
	var found []string
	for _, path := range []string{h.Config(), h.ConfigYAML()} {
		_, err := os.Stat(path)
		switch {
		case err == nil:
			found = append(found, path)
		case !errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("find configuration: %w", err)
		}
	}
	switch len(found) {
	case 0:
		return "", nil
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("find configuration: both %s and %s are there: keep one", found[0], found[1])
}

// Load checks the home and reads its configuration; see [Parse] for what it
// returns. Without a file it is [Default], and a note says where to write one.
func (h Home) Load(env Env) (Config, []Note, error) {
	if err := h.Check(); err != nil {
		return Config{}, nil, err
	}
	path, err := h.ConfigFile()
	if err != nil {
		return Config{}, nil, err
	}
	if path == "" {
		return Default(), []Note{{File: h.Config(), Text: `there is no configuration yet, so no servers: write {"servers": {...}} there`}}, nil
	}
	return Load(path, env)
}

// readBounded reads a file that must not be larger than [MaxFileBytes] by more
// than a byte, which is enough for the parser to refuse it.
func readBounded(r io.Reader) ([]byte, error) {
	return io.ReadAll(io.LimitReader(r, MaxFileBytes+1))
}
