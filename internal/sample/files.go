package sample

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

const (
	maxFile  = 4 << 20 // bytes of a file that is read as text
	maxWalk  = 20_000  // entries that a search looks at
	maxMatch = 500     // bytes of a matching line that are shown
)

func fileTools(f *folder) map[string]server.ToolHandlerFunc {
	s := files{f}
	return map[string]server.ToolHandlerFunc{
		"list_directory":   handler(s.list),
		"directory_tree":   handler(s.tree),
		"read_file":        handler(s.read),
		"read_many_files":  handler(s.readMany),
		"file_info":        handler(s.info),
		"search_files":     handler(s.searchNames),
		"search_text":      handler(s.searchText),
		"write_file":       handler(s.write),
		"append_to_file":   handler(s.append),
		"edit_file":        handler(s.edit),
		"create_directory": handler(s.mkdir),
		"move_file":        handler(s.move),
		"copy_file":        handler(s.copy),
		"delete_file":      handler(s.delete),
	}
}

// files works inside an [os.Root]: neither ".." nor a link leads out of it.
type files struct{ *folder }

type entry struct {
	Path     string `json:"path"`
	Type     string `json:"type"` // file, directory, link, other
	Size     int64  `json:"size"`
	Modified string `json:"modified"`
	Mode     string `json:"mode,omitempty"`
}

func describe(p string, info fs.FileInfo) entry {
	kind := "other"
	switch {
	case info.Mode().IsRegular():
		kind = "file"
	case info.IsDir():
		kind = "directory"
	case info.Mode()&fs.ModeSymlink != 0:
		kind = "link"
	}
	e := entry{Path: p, Type: kind, Modified: info.ModTime().UTC().Format(time.RFC3339)}
	if kind == "file" {
		e.Size = info.Size()
	}
	return e
}

func (e entry) line() string {
	if e.Type == "directory" {
		return e.Path + "/"
	}
	return fmt.Sprintf("%s  %d bytes  %s", e.Path, e.Size, e.Modified)
}

// clean makes a path's spelling unique and leaves judging it to the root.
func clean(p string) string {
	if p == "" {
		return "."
	}
	return path.Clean(p)
}

// half reports whether d is a file that is being written.
func half(d fs.DirEntry) bool { return strings.HasPrefix(d.Name(), newPrefix) }

// walk visits what lies under p, sorted, without following links. It stops
// with an error after maxWalk entries.
func (s files) walk(p string, visit func(p string, d fs.DirEntry) error) error {
	seen := 0
	return fs.WalkDir(s.root.FS(), clean(p), func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if seen++; seen > maxWalk {
			return fmt.Errorf("more than %d entries: give a folder further down", maxWalk)
		}
		if p == "." || half(d) {
			return nil
		}
		return visit(p, d)
	})
}

func (s files) list(a struct{ Path string }) (*mcp.CallToolResult, error) {
	found, err := fs.ReadDir(s.root.FS(), clean(a.Path))
	if err != nil {
		return nil, err
	}
	entries, text := []entry{}, []string{}
	for _, d := range found {
		if half(d) {
			continue
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile
		} else if err != nil {
			return nil, err
		}
		e := describe(path.Join(clean(a.Path), d.Name()), info)
		entries, text = append(entries, e), append(text, e.line())
	}
	if len(text) == 0 {
		text = []string{"(empty)"}
	}
	return mcp.NewToolResultStructured(map[string]any{"path": clean(a.Path), "entries": entries}, strings.Join(text, "\n")), nil
}

func (s files) tree(a struct {
	Path  string
	Depth int
}) (*mcp.CallToolResult, error) {
	if a.Depth == 0 {
		a.Depth = 4
	}
	base := clean(a.Path)
	var b strings.Builder
	b.WriteString(base + "/\n")
	err := s.walk(base, func(p string, d fs.DirEntry) error {
		if p == base {
			return nil
		}
		inner := p
		if base != "." {
			inner = strings.TrimPrefix(p, base+"/")
		}
		level := strings.Count(inner, "/") + 1
		b.WriteString(strings.Repeat("  ", level) + d.Name())
		if d.IsDir() {
			b.WriteByte('/')
		}
		b.WriteByte('\n')
		if d.IsDir() && level >= a.Depth {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return mcp.NewToolResultText(b.String()), nil
}

// text reads a file that must be UTF-8 and not too large.
func (s files) text(p string) (string, error) {
	info, err := s.root.Stat(clean(p))
	if err != nil {
		return "", err
	}
	switch {
	case info.IsDir():
		return "", fmt.Errorf("%s is a directory: list it instead", p)
	case info.Size() > maxFile:
		return "", fmt.Errorf("%s has %d bytes, more than the %d that can be read", p, info.Size(), maxFile)
	}
	b, err := s.root.ReadFile(clean(p))
	if err != nil {
		return "", err
	}
	if !utf8.Valid(b) {
		return "", fmt.Errorf("%s is not text (%d bytes)", p, len(b))
	}
	return string(b), nil
}

func (s files) read(a struct {
	Path       string
	FirstLine  int  `json:"first_line"`
	LineCount  int  `json:"line_count"`
	LineNumber bool `json:"line_numbers"`
}) (*mcp.CallToolResult, error) {
	text, err := s.text(a.Path)
	if err != nil {
		return nil, err
	}
	if a.FirstLine == 0 && a.LineCount == 0 && !a.LineNumber {
		return mcp.NewToolResultText(text), nil
	}
	lines := slices.Collect(strings.Lines(text))
	first := max(a.FirstLine, 1)
	if first > len(lines) {
		return nil, fmt.Errorf("%s has %d lines; there is no line %d", a.Path, len(lines), first)
	}
	part, _ := page(lines, first-1, a.LineCount, len(lines))
	if a.LineNumber {
		for i := range part {
			part[i] = fmt.Sprintf("%6d  %s", first+i, part[i])
		}
	}
	return mcp.NewToolResultText(strings.Join(part, "")), nil
}

func (s files) readMany(a struct{ Paths []string }) (*mcp.CallToolResult, error) {
	var b strings.Builder
	failed := 0
	for _, p := range a.Paths {
		text, err := s.text(p)
		if err != nil {
			failed++
			text = "could not be read: " + plain(err) + "\n"
		}
		fmt.Fprintf(&b, "=== %s ===\n%s\n", p, text)
	}
	result := mcp.NewToolResultText(b.String())
	result.IsError = failed == len(a.Paths)
	return result, nil
}

func (s files) info(a struct{ Path string }) (*mcp.CallToolResult, error) {
	info, err := s.root.Lstat(clean(a.Path))
	if err != nil {
		return nil, err
	}
	e := describe(clean(a.Path), info)
	e.Mode = info.Mode().Perm().String()
	return mcp.NewToolResultStructured(e, fmt.Sprintf("%s: %s, %d bytes, %s, modified %s", e.Path, e.Type, e.Size, e.Mode, e.Modified)), nil
}

func (s files) searchNames(a struct {
	Path, Pattern string
	Limit         int
}) (*mcp.CallToolResult, error) {
	if _, err := path.Match(a.Pattern, ""); err != nil {
		return nil, fmt.Errorf("pattern %q: %w", a.Pattern, err)
	}
	var hits []string
	err := s.walk(a.Path, func(p string, d fs.DirEntry) error {
		name := p
		if !strings.Contains(a.Pattern, "/") {
			name = d.Name()
		}
		if ok, _ := path.Match(a.Pattern, name); ok && !d.IsDir() {
			hits = append(hits, p)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return listed(hits, a.Limit, "no file matches"), nil
}

func (s files) searchText(a struct {
	Path, Query, Include string
	Regex                bool
	CaseSensitive        bool `json:"case_sensitive"`
	Limit                int
}) (*mcp.CallToolResult, error) {
	expr := a.Query
	if !a.Regex {
		expr = regexp.QuoteMeta(expr)
	}
	if !a.CaseSensitive {
		expr = "(?i)" + expr
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, fmt.Errorf("query: %w", err)
	}
	if _, err := path.Match(a.Include, ""); err != nil {
		return nil, fmt.Errorf("include %q: %w", a.Include, err)
	}
	var hits []string
	err = s.walk(a.Path, func(p string, d fs.DirEntry) error {
		if ok, _ := path.Match(a.Include, d.Name()); !d.Type().IsRegular() || a.Include != "" && !ok {
			return nil
		}
		text, err := s.text(p)
		if err != nil {
			return nil // gone meanwhile, or no text
		}
		hits = append(hits, matching(p, text, re)...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return listed(hits, a.Limit, "no line matches"), nil
}

func matching(p, text string, re *regexp.Regexp) []string {
	var hits []string
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, maxFile+1)
	for n := 1; lines.Scan(); n++ {
		if line := lines.Text(); re.MatchString(line) {
			hits = append(hits, fmt.Sprintf("%s:%d: %s", p, n, strings.ToValidUTF8(line[:min(len(line), maxMatch)], "")))
		}
	}
	return hits
}

func listed(hits []string, limit int, none string) *mcp.CallToolResult {
	if len(hits) == 0 {
		return mcp.NewToolResultText(none)
	}
	part, next := page(hits, 0, limit, 100)
	text := strings.Join(part, "\n")
	if next > 0 {
		text += fmt.Sprintf("\n(%d more: raise limit or narrow the search)", len(hits)-next)
	}
	return mcp.NewToolResultText(text)
}

func (s files) write(a struct {
	Path, Content string
	CreateParents bool `json:"create_parents"`
	Overwrite     *bool
}) (*mcp.CallToolResult, error) {
	p := clean(a.Path)
	err := s.locked(func() error {
		if a.CreateParents {
			if err := s.root.MkdirAll(path.Dir(p), 0o755); err != nil {
				return err
			}
		}
		info, err := s.root.Stat(p)
		switch {
		case err == nil && info.IsDir():
			return fmt.Errorf("%s is a directory", p)
		case err == nil && a.Overwrite != nil && !*a.Overwrite:
			return fmt.Errorf("%s exists and overwrite is false", p)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		}
		return replace(s.root, p, []byte(a.Content))
	})
	return said(err, "wrote %d bytes to %s", len(a.Content), p)
}

func (s files) append(a struct{ Path, Content string }) (*mcp.CallToolResult, error) {
	p := clean(a.Path)
	var size int
	err := s.locked(func() error {
		old, err := s.text(p)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		size = len(old) + len(a.Content)
		return replace(s.root, p, []byte(old+a.Content))
	})
	return said(err, "appended %d bytes to %s, which now has %d", len(a.Content), p, size)
}

func (s files) edit(a struct {
	Path       string
	OldText    string `json:"old_text"`
	NewText    string `json:"new_text"`
	ReplaceAll bool   `json:"replace_all"`
}) (*mcp.CallToolResult, error) {
	p := clean(a.Path)
	count := 0
	err := s.locked(func() error {
		text, err := s.text(p)
		if err != nil {
			return err
		}
		count = strings.Count(text, a.OldText)
		switch {
		case count == 0:
			return fmt.Errorf("old_text does not occur in %s", p)
		case count > 1 && !a.ReplaceAll:
			return fmt.Errorf("old_text occurs %d times in %s: give more of its surroundings, or set replace_all", count, p)
		}
		return replace(s.root, p, []byte(strings.ReplaceAll(text, a.OldText, a.NewText)))
	})
	return said(err, "replaced %d occurrence(s) in %s", count, p)
}

func (s files) mkdir(a struct{ Path string }) (*mcp.CallToolResult, error) {
	p := clean(a.Path)
	return said(s.locked(func() error { return s.root.MkdirAll(p, 0o755) }), "directory %s is there", p)
}

func (s files) move(a struct{ Source, Destination string }) (*mcp.CallToolResult, error) {
	from, to := clean(a.Source), clean(a.Destination)
	err := s.locked(func() error {
		if _, err := s.root.Lstat(to); err == nil {
			return fmt.Errorf("%s exists already: move or delete it first", to)
		}
		return s.root.Rename(from, to)
	})
	return said(err, "moved %s to %s", from, to)
}

func (s files) copy(a struct{ Source, Destination string }) (*mcp.CallToolResult, error) {
	from, to := clean(a.Source), clean(a.Destination)
	err := s.locked(func() error {
		if _, err := s.root.Lstat(to); err == nil {
			return fmt.Errorf("%s exists already: move or delete it first", to)
		}
		b, err := s.root.ReadFile(from)
		if err != nil {
			return err
		}
		return replace(s.root, to, b)
	})
	return said(err, "copied %s to %s", from, to)
}

func (s files) delete(a struct {
	Path      string
	Recursive bool
}) (*mcp.CallToolResult, error) {
	p := clean(a.Path)
	err := s.locked(func() error {
		if p == "." {
			return errors.New("the project folder itself cannot be deleted")
		}
		if _, err := s.root.Lstat(p); err != nil {
			return err
		}
		if a.Recursive {
			return s.root.RemoveAll(p)
		}
		return s.root.Remove(p)
	})
	return said(err, "deleted %s", p)
}

// said is the result of a change that has nothing to tell but that it happened.
func said(err error, format string, args ...any) (*mcp.CallToolResult, error) {
	if err != nil {
		return nil, err
	}
	return mcp.NewToolResultText(fmt.Sprintf(format, args...)), nil
}
