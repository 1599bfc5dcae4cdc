package clients

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// A Client is what is known about one program: where its files are and what it
// makes of the texts in them. Nothing else in this package is particular to one.
type Client struct {
	ID      string  // the word on the command line
	Name    string  // for people
	Checked string  // the day the row was compared with the vendor's pages or source, or with other tools' tables
	files   []place // where its files may be; the first of a kind is the usual one
	dialect dialect
}

// A place is a file as a template: {HOME}, {CONFIG} (XDG), {SUPPORT} (macOS),
// {APPDATA} and {LOCALAPPDATA} (Windows), {PROJECT}. A variable that is not set
// rules the place out.
type place struct {
	os    string // "darwin", "windows", "linux" (any other unix too), or "" for all
	scope string // "user" or "project"
	path  string
}

// A dialect is what a client makes of texts and numbers in its entries.
type dialect struct {
	plain      bool // ${NAME} and ${NAME:-default} are variables
	dollar     bool // so are $NAME and %NAME%
	env        bool // so is ${env:NAME}
	brace      bool // so is {env:NAME}
	unset      bool // a variable that is not set is empty
	folder     bool // ${workspaceFolder} and its like
	seconds    bool // a bare timeout is in seconds, else milliseconds; see unitKnown
	unitKnown  bool // false: below 1000 it is seconds
	autoByFile bool // the folder of a project file is the workspace
}

func user(os, path string) place { return place{os, "user", path} }
func project(path string) place  { return place{"", "project", "{PROJECT}/" + path} }
func home(path string) place     { return user("", "{HOME}/"+path) }
func codeUser(path string) []place {
	return []place{
		user("darwin", "{SUPPORT}/Code/User/"+path), user("windows", "{APPDATA}/Code/User/"+path), user("linux", "{CONFIG}/Code/User/"+path),
		user("darwin", "{SUPPORT}/Code - Insiders/User/"+path), user("windows", "{APPDATA}/Code - Insiders/User/"+path), user("linux", "{CONFIG}/Code - Insiders/User/"+path),
	}
}

// anything is the dialect of a file that nobody is known to have written: what
// looks like a reference is one.
var anything = dialect{plain: true, env: true, folder: true}

var table = []Client{
	{"claude-desktop", "Claude Desktop", "2026-11-30", []place{
		user("darwin", "{SUPPORT}/Claude/claude_desktop_config.json"),
		user("windows", "{APPDATA}/Claude/claude_desktop_config.json"),
		user("windows", "{LOCALAPPDATA}/Packages/Claude_pzs8sxrjxfjjc/LocalCache/Roaming/Claude/claude_desktop_config.json"),
		user("linux", "{CONFIG}/Claude/claude_desktop_config.json"),
	}, dialect{}},
	{"claude-code", "Claude Code", "2026-11-30", []place{
		user("", "{CLAUDE_CONFIG_DIR}/.claude.json"), home(".claude.json"), project(".mcp.json"),
	}, dialect{plain: true, unitKnown: true}},
	{"cursor", "Cursor", "2026-11-30", []place{home(".cursor/mcp.json"), project(".cursor/mcp.json")},
		dialect{env: true, folder: true, autoByFile: true}},
	{"vscode", "VS Code", "2026-11-30", append(codeUser("mcp.json"),
		home(".vscode-server/data/User/mcp.json"), project(".vscode/mcp.json")),
		dialect{env: true, folder: true, autoByFile: true}},
	{"codex", "Codex", "2026-11-30", []place{
		user("", "{CODEX_HOME}/config.toml"), home(".codex/config.toml"), project(".codex/config.toml"),
	}, dialect{seconds: true, unitKnown: true}},
	{"gemini", "Gemini CLI", "2026-11-30", []place{home(".gemini/settings.json"), project(".gemini/settings.json")},
		dialect{plain: true, dollar: true, unset: true, unitKnown: true}},
	{"windsurf", "Windsurf", "2026-11-30", []place{home(".codeium/windsurf/mcp_config.json"), home(".codeium/mcp_config.json")},
		dialect{env: true}},
	{"zed", "Zed", "2026-11-30", []place{
		user("windows", "{APPDATA}/Zed/settings.json"), user("darwin", "{HOME}/.config/zed/settings.json"),
		user("linux", "{FLATPAK_XDG_CONFIG_HOME}/zed/settings.json"), user("linux", "{CONFIG}/zed/settings.json"),
		project(".zed/settings.json"),
	}, dialect{unitKnown: true}},
	{"goose", "Goose", "2026-11-30", []place{
		user("windows", "{APPDATA}/Block/goose/config/config.yaml"), user("darwin", "{HOME}/.config/goose/config.yaml"),
		user("linux", "{CONFIG}/goose/config.yaml"), project(".goose/config.yaml"),
	}, dialect{plain: true, dollar: true, seconds: true, unitKnown: true}},
	{"cline", "Cline", "2026-11-30", append(codeUser("globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"),
		user("", "{CLINE_DIR}/data/settings/cline_mcp_settings.json"), home(".cline/data/settings/cline_mcp_settings.json")),
		dialect{env: true, seconds: true, unitKnown: true}},
	{"roo", "Roo Code", "2026-11-30", append(codeUser("globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json"), project(".roo/mcp.json")),
		dialect{env: true, folder: true, seconds: true, unitKnown: true, autoByFile: true}},
	{"lmstudio", "LM Studio", "2026-11-30", []place{home(".lmstudio/mcp.json"), home(".cache/lm-studio/mcp.json")}, dialect{}},
	{"opencode", "OpenCode", "2026-11-30", []place{
		home(".config/opencode/opencode.jsonc"), home(".config/opencode/opencode.json"), user("windows", "{LOCALAPPDATA}/opencode/opencode.json"),
		project("opencode.jsonc"), project("opencode.json"), project(".opencode/opencode.jsonc"), project(".opencode/opencode.json"),
	}, dialect{brace: true, unset: true, unitKnown: true}},
	{"continue", "Continue", "2026-11-30", []place{home(".continue/config.yaml"), home(".continue/config.json")}, dialect{}},
	{"copilot", "Copilot CLI", "2026-11-30", []place{home(".copilot/mcp-config.json"), project(".github/mcp.json")},
		dialect{plain: true, dollar: true, unitKnown: true}},
	{"junie", "Junie", "2026-11-30", []place{home(".junie/mcp/mcp.json"), project(".junie/mcp/mcp.json")}, dialect{}},
	{"kiro", "Kiro", "2026-11-30", []place{home(".kiro/settings/mcp.json"), project(".kiro/settings/mcp.json")}, dialect{plain: true}},
	{"antigravity", "Antigravity", "2026-11-30", []place{home(".gemini/config/mcp_config.json"), home(".gemini/antigravity/mcp_config.json")}, dialect{}},
	{"warp", "Warp", "2026-11-30", []place{home(".warp/.mcp.json"), project(".warp/.mcp.json")}, anything},
	{"amp", "Amp", "2026-11-30", []place{user("linux", "{CONFIG}/amp/settings.json"), home(".config/amp/settings.json")}, dialect{plain: true}},
}

// All returns every client, in the order of the table.
func All() []Client { return slices.Clone(table) }

// Find returns the client with that id.
func Find(id string) (Client, error) {
	var ids []string
	for _, c := range table {
		if c.ID == id {
			return c, nil
		}
		ids = append(ids, c.ID)
	}
	return Client{}, fmt.Errorf("unknown client %q: want one of %s, or the path of a file", id, strings.Join(ids, ", "))
}

// A File is where a client may keep its configuration.
type File struct {
	Path  string
	Scope string // "user" or "project"
}

// Files returns where the client's files may be on this machine, most usual
// first, whether they exist or not. The project is a folder, or "" for none.
func (c Client) Files(env func(string) (string, bool), goos, projectDir string) []File {
	var out []File
	for _, p := range c.files {
		if p.os != "" && p.os != goos && (p.os != "linux" || goos == "windows" || goos == "darwin") {
			continue
		}
		full, ok := p.expand(env, goos, projectDir)
		if ok && !slices.ContainsFunc(out, func(f File) bool { return f.Path == full }) { // the project may be the home
			out = append(out, File{full, p.scope})
		}
	}
	return out
}

func (p place) expand(env func(string) (string, bool), goos, projectDir string) (string, bool) {
	name, rest, _ := strings.Cut(strings.TrimPrefix(p.path, "{"), "}")
	get := func(name string) string { v, _ := env(name); return v }
	homeDir := get("HOME")
	if goos == "windows" {
		homeDir = get("USERPROFILE")
	}
	var base string
	switch name {
	case "HOME":
		base = homeDir
	case "SUPPORT":
		if homeDir != "" {
			base = homeDir + "/Library/Application Support"
		}
	case "CONFIG":
		if base = get("XDG_CONFIG_HOME"); base == "" && homeDir != "" {
			base = homeDir + "/.config"
		}
	case "PROJECT":
		base = projectDir
	default:
		base = get(name)
	}
	return base + rest, base != ""
}

// guess finds the client that a file belongs to by the end of its path, which
// for a name that several share must have a folder in it.
func guess(file string) (Client, bool) {
	file = strings.ReplaceAll(file, `\`, "/")
	best, length := Client{}, 0
	for _, c := range table {
		for _, p := range c.files {
			_, tail, _ := strings.Cut(p.path, "}/")
			if strings.HasSuffix("/"+file, "/"+tail) && len(tail) > length {
				best, length = c, len(tail)
			}
		}
	}
	if length == 0 {
		for _, c := range table[:1] { // one name is a client's alone wherever the file was copied to
			for _, p := range c.files {
				if path.Base(p.path) == path.Base(file) {
					return c, true
				}
			}
		}
	}
	return best, length > 0
}
