package prefix

import (
	"fmt"
	"slices"
	"strings"
)

// Change is one thing in which two prefixes differ.
type Change struct {
	Part   string // "identity and rules", "skill" or "catalog"
	Server string // whose line it is; "" outside the catalogue and for its own words
	Tool   string // "" is the server's own line
	// Old and New are the line, or outside the catalogue the whole text; "" is
	// not there.
	Old, New string
	// Refit says that nothing differs but how much of it has room: the change of
	// some other line moved it.
	Refit bool
}

// String is the change in one line for people, without the texts of parts.
func (c Change) String() string {
	what := c.Part
	if c.Server != "" {
		what = c.Server
	}
	if c.Tool != "" {
		what += "/" + c.Tool
	}
	switch {
	case c.Refit:
		return what + " has another length"
	case c.Old == "":
		return what + " is new"
	case c.New == "":
		return what + " is gone"
	case c.Server == "":
		return what + " changed"
	}
	return fmt.Sprintf("%s changed: %q became %q", what, strings.TrimPrefix(c.Old, "- "), strings.TrimPrefix(c.New, "- "))
}

// Diff says what changed from one prefix to the next, in the order of the text,
// servers by name. The servers of changes that are no refit are those who did it.
func Diff(was, now Prefix) []Change {
	var all []Change
	for i, part := range []string{"identity and rules", "skill"} {
		if was.blocks[i] != now.blocks[i] {
			all = append(all, Change{Part: part, Old: was.blocks[i], New: now.blocks[i]})
		}
	}
	if was.blocks[2] == now.blocks[2] {
		return all
	}
	a, b := readSections(was.blocks[2]), readSections(now.blocks[2])
	for _, name := range merged(a.order, b.order) {
		all = append(all, diffSection(name, a.byName[name], b.byName[name], min(a.room, b.room))...)
	}
	return all
}

// section is one server's lines, or under no name those before the first.
type section struct {
	head  string // the server's own line
	order []string
	lines map[string]string // by tool, as its line names it
}

type sections struct {
	order  []string
	byName map[string]*section
	room   int // bytes of the longest purpose
}

func readSections(text string) sections {
	s := sections{order: []string{""}, byName: map[string]*section{"": {}}}
	at := s.byName[""]
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case strings.HasPrefix(line, "## "):
			name := strings.TrimPrefix(line, "## ")
			if i := strings.IndexAny(name, " :"); i >= 0 {
				name = name[:i]
			}
			at = &section{head: line, lines: map[string]string{}}
			s.order, s.byName[name] = append(s.order, name), at
		case strings.HasPrefix(line, "- ") && at.lines != nil:
			name := toolOfLine(line)
			at.order = append(at.order, name)
			at.lines[name] = line
			purpose, _ := purposeOf(line)
			s.room = max(s.room, len(purpose))
		default:
			at.head += "\n" + line
		}
	}
	return s
}

// toolOfLine is the name that a line is about, as it stands there.
func toolOfLine(line string) string {
	name := strings.TrimPrefix(line, "- ")
	if strings.HasPrefix(name, `"`) {
		for i := 1; i < len(name); i++ {
			switch name[i] {
			case '\\':
				i++
			case '"':
				return name[:i+1]
			}
		}
	}
	if i := strings.IndexByte(name, ' '); i >= 0 {
		return strings.TrimSuffix(name[:i], ":")
	}
	return name
}

// diffSection compares one server's lines. In both texts some purpose had that much
// room.
func diffSection(name string, was, now *section, room int) []Change {
	change := func(c Change) Change {
		c.Part, c.Server = "catalog", name
		return c
	}
	switch {
	case was == nil:
		return []Change{change(Change{New: now.head})}
	case now == nil:
		return []Change{change(Change{Old: was.head})}
	}
	var all []Change
	folded := strings.Contains(was.head, ": ") || strings.Contains(now.head, ": ")
	if was.head != now.head {
		c := change(Change{Old: was.head, New: now.head})
		c.Refit = name != "" && folded && mark(was.head) == mark(now.head) && was.count() == now.count() && (len(was.order) > 0) != (len(now.order) > 0)
		all = append(all, c)
		if folded && (len(was.order) == 0 || len(now.order) == 0) {
			return all // one side does not name its tools
		}
	}
	for _, tool := range merged(was.order, now.order) {
		if a, b := was.lines[tool], now.lines[tool]; a != b {
			all = append(all, change(Change{Tool: tool, Old: a, New: b, Refit: a != "" && b != "" && refitted(a, b, room)}))
		}
	}
	return all
}

// mark is what a server's line names its definitions by, "" where it does not.
func mark(head string) string {
	own, _, _ := strings.Cut(strings.TrimPrefix(head, "## "), ":")
	_, m, _ := strings.Cut(own, " ")
	return m
}

// count is how many tools a server has, as far as its lines tell.
func (s *section) count() int {
	if len(s.order) > 0 {
		return len(s.order)
	}
	n := 0
	for field := range strings.FieldsFuncSeq(s.head, func(r rune) bool { return r == '(' || r == ';' || r == ')' || r == ':' }) {
		if _, err := fmt.Sscanf(strings.TrimSpace(field), "%d tool", &n); err == nil {
			return n
		}
	}
	return n
}

// purposeOf takes a line apart.
func purposeOf(line string) (purpose, class string) {
	at := strings.LastIndex(line, " [")
	if at < 0 {
		return line, ""
	}
	_, purpose, _ = strings.Cut(line[:at], ": ")
	return purpose, line[at:]
}

// refitted reports whether two lines of one tool differ only in where the
// purpose was cut. One that is missing where it would have had room is another.
func refitted(a, b string, room int) bool {
	x, classX := purposeOf(a)
	y, classY := purposeOf(b)
	if len(x) > len(y) {
		x, y = y, x
	}
	short, cut := strings.CutSuffix(x, "…")
	return classX == classY && (x == "" && len(y) > room || cut && strings.HasPrefix(y, short))
}

// merged returns the names of both lists, sorted, each once.
func merged(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
