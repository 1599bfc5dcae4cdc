package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Entry is a tool of a set with what the gate holds of it.
type Entry struct {
	Tool
	Class Class
}

// Set is an immutable collection of tools, sorted by server, then by name,
// bytewise. It answers every question about names; nothing takes a name
// apart to find a tool.
type Set struct {
	entries []Entry
	byID    map[ToolID]int
	byBare  map[string][]int // a tool's own name -> everyone that has it
	byName  map[string]int   // the direct name
	names   []string         // the direct name of each entry
	index   func() *index    // made at the first search
}

// NewSet builds a set. Of two entries with one ID the first is kept. The
// reserved names are those of tools that stand beside the set in a client's
// list.
func NewSet(entries []Entry, reserved ...string) *Set {
	sorted := slices.Clone(entries)
	slices.SortStableFunc(sorted, func(a, b Entry) int {
		return cmp.Or(strings.Compare(a.ID.Server, b.ID.Server), strings.Compare(a.ID.Tool, b.ID.Tool))
	})
	sorted = slices.CompactFunc(sorted, func(a, b Entry) bool { return a.ID == b.ID })
	s := &Set{entries: sorted, byID: make(map[ToolID]int, len(sorted)), byBare: make(map[string][]int, len(sorted)), byName: make(map[string]int, len(sorted))}
	for i, e := range sorted {
		s.byID[e.ID] = i
		s.byBare[e.ID.Tool] = append(s.byBare[e.ID.Tool], i)
		name := DirectName(e.ID, reserved...)
		s.names = append(s.names, name)
		if _, taken := s.byName[name]; !taken { // else a server has two tools of one direct name
			s.byName[name] = i
		}
	}
	s.index = sync.OnceValue(func() *index { return newIndex(sorted) })
	return s
}

// Entries returns every tool in the set's order. The caller must not change
// the slice.
func (s *Set) Entries() []Entry { return s.entries }

// DirectName returns the name the entry at position i of [Set.Entries] has in
// direct exposure. Where a server's tools are named so that two come to one, it
// is the first one's; see [Set.ByDirectName].
func (s *Set) DirectName(i int) string { return s.names[i] }

// ByID returns the tool with this identity, which is the set's own and must not be
// changed; nil for none.
func (s *Set) ByID(id ToolID) (*Entry, bool) {
	i, ok := s.byID[id]
	if !ok {
		return nil, false
	}
	return &s.entries[i], true
}

// Unique reports whether no two servers offer a tool of this name.
func (s *Set) Unique(tool string) bool { return len(s.byBare[tool]) <= 1 }

// ByDirectName returns the tool that a client knows by this name, as ByID does.
func (s *Set) ByDirectName(name string) (*Entry, bool) {
	i, ok := s.byName[name]
	if !ok {
		return nil, false
	}
	return &s.entries[i], true
}

// An AmbiguousError says that a bare name belongs to several servers.
type AmbiguousError struct {
	Name string
	IDs  []ToolID
}

func (e *AmbiguousError) Error() string {
	var ids []string
	for _, id := range e.IDs {
		ids = append(ids, id.String())
	}
	return fmt.Sprintf("%q is a tool of several servers: say which of %s", e.Name, strings.Join(ids, ", "))
}

// Find returns the tool that a person or a model wrote: alias/tool, a bare
// name where it is unique, a direct name, or another spelling of it. The
// error is an [*AmbiguousError] for a bare name of several servers; a name
// that is nobody's gives ok false and no error.
func (s *Set) Find(name string) (e Entry, ok bool, err error) {
	if id, err := ParseToolID(name); err == nil {
		if e, ok := s.ByID(id); ok {
			return *e, true, nil
		}
	}
	switch same := s.byBare[name]; {
	case len(same) == 1:
		return s.entries[same[0]], true, nil
	case len(same) > 1:
		amb := &AmbiguousError{Name: name}
		for _, i := range same {
			amb.IDs = append(amb.IDs, s.entries[i].ID)
		}
		return Entry{}, false, amb
	}
	if e, ok := s.ByDirectName(name); ok {
		return *e, true, nil
	}
	for _, id := range Spelled(name) {
		if e, ok := s.ByID(id); ok {
			return *e, true, nil
		}
	}
	return Entry{}, false, nil
}

// Nearest returns up to n tools whose names are most like name, best first;
// none that has nothing in common with it.
func (s *Set) Nearest(name string, n int) []ToolID {
	type near struct {
		id   ToolID
		dist int
	}
	_, bare, ok := strings.Cut(name, "/")
	if !ok {
		bare = name
	}
	bare = strings.ToLower(bare)
	var all []near
	for _, e := range s.entries {
		tool := strings.ToLower(e.ID.Tool)
		d := min(distance(bare, tool), distance(strings.ToLower(name), e.ID.Server+"/"+tool))
		if d <= max(2, len(bare)/3) || bare != "" && strings.HasPrefix(tool, bare) {
			all = append(all, near{e.ID, d})
		}
	}
	slices.SortStableFunc(all, func(a, b near) int { return cmp.Compare(a.dist, b.dist) })
	var ids []ToolID
	for _, a := range all[:min(n, len(all))] {
		ids = append(ids, a.id)
	}
	return ids
}

// distance is the Levenshtein distance of the bytes of a and b.
func distance(a, b string) int {
	if len(a) > 128 || len(b) > 128 {
		return 128
	}
	prev := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := range len(a) {
		last := prev[0]
		prev[0] = i + 1
		for j := range len(b) {
			step := last
			if a[i] != b[j] {
				step++
			}
			last = prev[j+1]
			prev[j+1] = min(step, prev[j]+1, last+1)
		}
	}
	return prev[len(b)]
}
