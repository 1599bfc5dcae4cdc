package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// An Error is one fault of a configuration file. Its text is one line:
//
//	config.jsonc:12:5: unknown key "comand" in servers.github: did you mean "command"?
type Error struct {
	File   string // as it was given to [Load] or [Parse]
	Pos    Pos
	Server string // the key of the server entry that it costs; empty where it costs the whole file
	Text   string // what is wrong and what to do, without the place
}

func (e *Error) Error() string { return place(e.File, e.Pos) + e.Text }

// An ErrorList is every fault of one file, in the order of the file.
type ErrorList []*Error

// Error returns one fault a line.
func (l ErrorList) Error() string {
	lines := make([]string, len(l))
	for i, e := range l {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives each fault to errors.Is and errors.As.
func (l ErrorList) Unwrap() []error {
	all := make([]error, len(l))
	for i, e := range l {
		all[i] = e
	}
	return all
}

// A Note is something worth telling about a file that is no fault: a key of
// another program that means nothing here, a server that is switched off.
type Note struct {
	File   string
	Pos    Pos    // zero where the note is about the whole file
	Server string // the key of the server entry, if it is about one
	Text   string
}

func (n Note) String() string { return place(n.File, n.Pos) + n.Text }

func place(file string, pos Pos) string {
	switch {
	case pos == Pos{} && file == "":
		return ""
	case pos == Pos{}:
		return file + ": "
	}
	return fmt.Sprintf("%s:%d:%d: ", file, pos.Line, pos.Col)
}

func byPlace(a, b Pos) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
}

// didYouMean ends an error about a word that is none of those known: with the
// nearest one where one is near, else with all of them.
func didYouMean(word string, known []string) string {
	if near := nearest(word, known); near != "" {
		return fmt.Sprintf(": did you mean %q?", near)
	}
	return ": want one of " + strings.Join(known, ", ")
}

// nearest returns the known word that a slip of the fingers turns into word, or
// the empty string. A third of its letters may differ, and at least one.
func nearest(word string, known []string) string {
	best, bestDistance := "", 1+max(1, len(word)/3)
	if len(word) > 64 {
		return ""
	}
	for _, k := range slices.Sorted(slices.Values(known)) {
		if d := editDistance(foldWord(word), foldWord(k)); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// foldWord makes spellings equal that differ in case and joints only, so that
// leastLevel finds least_level.
func foldWord(s string) string { return joints.Replace(strings.ToLower(s)) }

var joints = strings.NewReplacer("_", "", "-", "", " ", "")

// editDistance counts the insertions, removals, changes and swaps of
// neighbours that lead from a to b (optimal string alignment).
func editDistance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(last[j]+1, row[j-1]+1, change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
