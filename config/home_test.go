package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestFindHome(t *testing.T) {
	for _, tt := range []struct {
		name, flag, want string
		env              []string
	}{
		{"the flag first", "/f", "/f", []string{"MCP_GATE_HOME=/e", "HOME=/h"}},
		{"then the variable", "", "/e", []string{"MCP_GATE_HOME=/e", "HOME=/h"}},
		{"then the configuration folder", "", "/x/mcp-gate", []string{"MCP_GATE_HOME=", "XDG_CONFIG_HOME=/x", "HOME=/h"}},
		{"in the home folder", "", "/h/.config/mcp-gate", []string{"HOME=/h"}},
		{"a relative one is not used", "", "/h/.config/mcp-gate", []string{"XDG_CONFIG_HOME=x", "HOME=/h"}},
	} {
		if runtime.GOOS != "linux" && tt.flag == "" && tt.want != "/e" {
			continue // the folder has another name there; see TestUserConfigDir
		}
		if got, err := FindHome(tt.flag, fakeEnv(tt.env...)); err != nil || got.Dir != filepath.FromSlash(tt.want) {
			t.Errorf("%s: got %v, %v, want %s", tt.name, got, err, tt.want)
		}
	}
	if _, err := FindHome("", fakeEnv()); err == nil || !strings.Contains(err.Error(), "give --home DIR or set MCP_GATE_HOME") {
		t.Errorf("got %v, want what to do", err)
	}
	got, err := FindHome("rel", fakeEnv())
	if err != nil || !filepath.IsAbs(got.Dir) {
		t.Errorf("got %v, %v, want an absolute folder", got, err)
	}
}

func TestUserConfigDir(t *testing.T) {
	env := fakeEnv("HOME=/h", "APPDATA=/a", "XDG_CONFIG_HOME=/x")
	for goos, want := range map[string]string{"linux": "/x", "freebsd": "/x", "darwin": "/h/Library/Application Support", "windows": "/a"} {
		if got, err := userConfigDir(env, goos); err != nil || got != filepath.FromSlash(want) {
			t.Errorf("%s: got %q, %v, want %q", goos, got, err, want)
		}
		if _, err := userConfigDir(fakeEnv(), goos); err == nil {
			t.Errorf("%s: got no error without an environment", goos)
		}
	}
}

func TestHomePaths(t *testing.T) {
	h := Home{filepath.FromSlash("/h")}
	got := fmt.Sprint(h.Config(), h.ConfigYAML(), h.Lock(), h.Catalog(), h.DB(), h.Artifacts(), h.Audit(), h.Keys(), h.Run())
	want := "/h/config.jsonc/h/config.yaml/h/mcp-gate.lock/h/catalog/h/state.db/h/artifacts/h/audit/h/keys/h/run"
	if filepath.ToSlash(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestHomeIsCreatedForItsOwnerAlone(t *testing.T) {
	h := Home{filepath.Join(t.TempDir(), "a", "b")}
	if err := h.Ensure(); err != nil {
		t.Fatal(err)
	}
	if err := h.Ensure(); err != nil {
		t.Errorf("a second time: %v", err)
	}
	info, err := os.Stat(h.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
		t.Errorf("got mode %v, want 0700", info.Mode().Perm())
	}
	file := Home{filepath.Join(h.Dir, "file")}
	if err := os.WriteFile(file.Dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := file.Ensure(); err == nil || !strings.Contains(err.Error(), "is not a folder") {
		t.Errorf("got %v, want that it is no folder", err)
	}
}

func TestHomeLoad(t *testing.T) {
	h := Home{t.TempDir()}
	write := func(path, data string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	missing := Home{filepath.Join(h.Dir, "nowhere")}
	for _, home := range []Home{h, missing} {
		c, notes, err := home.Load(nil)
		if err != nil || !reflect.DeepEqual(c, Default()) || len(notes) != 1 || !strings.Contains(notes[0].String(), home.Config()+": there is no configuration yet") {
			t.Errorf("got %v %v %v, want the default and a hint", c, notes, err)
		}
	}
	write(h.ConfigYAML(), "servers: {a: {command: x}}\n")
	c, _, err := h.Load(nil)
	if err != nil || len(c.Servers) != 1 || c.File != h.ConfigYAML() {
		t.Errorf("got %v, %v, want the server of the YAML file", c, err)
	}
	write(h.Config(), "{}")
	if _, _, err = h.Load(nil); err == nil || !strings.Contains(err.Error(), "keep one") {
		t.Errorf("got %v, want both files named", err)
	}
	if err := os.Remove(h.ConfigYAML()); err != nil {
		t.Fatal(err)
	}
	write(h.Config(), "{\n  \"nope\": 1\n}")
	if _, _, err = h.Load(nil); err == nil || err.Error() != h.Config()+`:2:3: unknown key "nope": want one of `+strings.Join(fileShape.names(), ", ") {
		t.Errorf("got %v, want the fault with its place", err)
	}
}

func TestChildEnv(t *testing.T) {
	environ := []string{
		"HOME=/h", "PATH=/bin", "LANG=C.UTF-8", "LC_ALL=C", "TMPDIR=/tmp", "TERM=xterm", "USER=p", "LOGNAME=p", "SHELL=/bin/sh", "TZ=UTC",
		"HTTPS_PROXY=http://p.test:1", "http_proxy=http://me:secret@p.test", "ALL_PROXY=me:secret@p.test:1", "NO_PROXY=localhost,.test",
		"SSH_AUTH_SOCK=/s", "AWS_SECRET_ACCESS_KEY=y", "GITHUB_TOKEN=z", "MCP_GATE_HOME=/g", "BASH_FUNC_x%%=() { :; }", "SSL_CERT_FILE=() { x", "odd", "=C:=C:\\",
	}
	got := childEnv(map[string]string{"MINE": "1", "PATH": "/mine", "EMPTY": ""}, environ, false)
	want := []string{
		"EMPTY=", "HOME=/h", "HTTPS_PROXY=http://p.test:1", "LANG=C.UTF-8", "LC_ALL=C", "LOGNAME=p", "MCP_GATE_DEPTH=1", "MINE=1", "NO_PROXY=localhost,.test",
		"PATH=/mine", "SHELL=/bin/sh", "TERM=xterm", "TMPDIR=/tmp", "TZ=UTC", "USER=p",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	got = childEnv(map[string]string{"path": "mine"}, []string{"Path=theirs", "SystemRoot=C:\\Windows", "TOKEN=x", "lc_all=C", "Mcp_Gate_Depth=1"}, true)
	if want := []string{"MCP_GATE_DEPTH=2", "SystemRoot=C:\\Windows", "path=mine"}; !slices.Equal(got, want) {
		t.Errorf("windows: got %q, want %q", got, want)
	}
	if got := ChildEnv(nil, nil); !slices.Equal(got, []string{"MCP_GATE_DEPTH=1"}) {
		t.Errorf("of nothing: got %q", got)
	}
}

// A chain of gates, each started with the environment that the one before gives.
func TestDepthStopsALoop(t *testing.T) {
	var environ []string
	for started := 0; ; started++ {
		depth, err := Depth(fakeEnv(environ...))
		if depth != started {
			t.Fatalf("gate %d: got depth %d", started, depth)
		}
		if err == nil {
			environ = ChildEnv(nil, environ)
			continue
		}
		if loop := (*LoopError)(nil); !errors.As(err, &loop) || started != MaxDepth+1 || !strings.Contains(err.Error(), "gate number 3 in a row") {
			t.Fatalf("gate %d: got %v, want the third one refused", started, err)
		}
		break
	}
	for word, bad := range map[string]bool{"": false, "0": false, "1": false, "2": true, "-1": true, "x": true} {
		if _, err := Depth(fakeEnv("MCP_GATE_DEPTH=" + word)); (err != nil) != bad {
			t.Errorf("%q: got %v", word, err)
		}
	}
}

func TestWithoutSelf(t *testing.T) {
	home := Home{t.TempDir()}
	c := mustParse(t, "c.jsonc", `{"mcpServers": {
		"by-name": {"command": "mcp-gate", "args": ["serve"]},
		"by-path": {"command": "/opt/gate", "args": ["--home", "`+filepath.ToSlash(home.Dir)+`/", "serve"]},
		"exe": {"command": "C:\\bin\\mcp-gate.exe", "args": ["serve", "--client", "x"]},
		"runner": {"command": "npx", "args": ["-y", "mcp-gate@1.2.3", "serve"]},
		"container": {"command": "docker", "args": ["run", "-i", "ghcr.io/x/mcp-gate:latest", "serve"]},
		"same-home": {"command": "mcp-gate", "args": ["serve"], "env": {"MCP_GATE_HOME": "`+filepath.ToSlash(home.Dir)+`"}},
		"team": {"command": "mcp-gate", "args": ["--home=/team", "serve"]},
		"sample": {"command": "/opt/gate", "args": ["sample", "files"]},
		"folder": {"command": "npx", "args": ["server-filesystem", "/src/mcp-gate"]},
		"real": {"command": "x", "args": ["serve"]},
		"remote": {"url": "http://127.0.0.1/mcp-gate/serve"}
	}}`)
	got, notes := c.WithoutSelf("/opt/gate", home)
	var kept, left []string
	for _, s := range got.Servers {
		kept = append(kept, s.Alias)
	}
	for _, r := range got.Disabled {
		left = append(left, r.Alias)
	}
	if want := []string{"folder", "real", "remote", "sample", "team"}; !slices.Equal(kept, want) {
		t.Errorf("got %q kept, want %q", kept, want)
	}
	if want := []string{"by-name", "by-path", "container", "exe", "runner", "same-home"}; !slices.Equal(left, want) || len(notes) != len(want) {
		t.Errorf("got %q left out with %d notes, want %q", left, len(notes), want)
	}
	if len(c.Servers) != 11 || len(c.Disabled) != 0 {
		t.Error("the configuration it was asked of has changed")
	}
}
