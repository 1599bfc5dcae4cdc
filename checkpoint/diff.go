package checkpoint

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	contextLines = 3
	// maxEdits bounds the work and memory of a comparison, which grow with its
	// square. Files further apart are shown as replaced from the first
	// difference to the last.
	maxEdits = 1000
)

// Diff returns a unified diff of two texts with three lines of context, "" for
// equal ones. Content that is no UTF-8 text is told by size and SHA-256. The
// names head the diff; text is shown as it is, control characters included.
func Diff(nameA, nameB string, a, b []byte) string {
	if bytes.Equal(a, b) {
		return ""
	}
	if !isText(a) || !isText(b) {
		return fmt.Sprintf("binary content differs: %s %d bytes, SHA-256 %s; %s %d bytes, SHA-256 %s\n",
			nameA, len(a), hash(a), nameB, len(b), hash(b))
	}
	linesA, linesB := lines(a), lines(b)
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", nameA, nameB)
	for _, h := range hunks(compare(linesA, linesB), contextLines) {
		h.write(&out)
	}
	return out.String()
}

func isText(b []byte) bool { return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 }

// lines splits after each line feed; the last line may lack one.
func lines(b []byte) []string {
	all := strings.SplitAfter(string(b), "\n")
	if all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	return all
}

// An edit is one line of a comparison: ' ' in both, '-' in a, '+' in b.
type edit struct {
	op   byte
	line string
}

// compare returns the shortest edits from a to b (Myers, "An O(ND) Difference
// Algorithm and Its Variations", 1986), between a common beginning and end.
func compare(a, b []string) []edit {
	var head, foot []edit
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		head = append(head, edit{' ', a[0]})
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		foot = append(foot, edit{' ', a[len(a)-1]})
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	out := append(head, middle(a, b)...)
	for i := len(foot) - 1; i >= 0; i-- {
		out = append(out, foot[i])
	}
	return out
}

// middle runs the algorithm forwards, keeping the furthest points of each
// round, and then walks back through them.
func middle(a, b []string) []edit {
	n, m := len(a), len(b)
	limit := min(n+m, maxEdits)
	furthest := make([]int, 2*limit+2) // x by diagonal k = x-y, at index k+limit
	var rounds [][]int
	for d := 0; d <= limit; d++ {
		rounds = append(rounds, append([]int(nil), furthest[limit-d:limit+d+1]...))
		for k := -d; k <= d; k += 2 {
			x := 0
			switch {
			case d == 0:
			case k == -d || k != d && furthest[limit+k-1] < furthest[limit+k+1]:
				x = furthest[limit+k+1]
			default:
				x = furthest[limit+k-1] + 1
			}
			for x < n && x-k < m && a[x] == b[x-k] {
				x++
			}
			furthest[limit+k] = x
			if x >= n && x-k >= m {
				return walkBack(a, b, rounds)
			}
		}
	}
	return replaced(a, b)
}

func replaced(a, b []string) []edit {
	out := make([]edit, 0, len(a)+len(b))
	for _, line := range a {
		out = append(out, edit{'-', line})
	}
	for _, line := range b {
		out = append(out, edit{'+', line})
	}
	return out
}

// walkBack follows the rounds from the end; rounds[d] holds the furthest
// points before round d for the diagonals -d to d.
func walkBack(a, b []string, rounds [][]int) []edit {
	var reversed []edit
	x, y := len(a), len(b)
	for d := len(rounds) - 1; d > 0; d-- {
		at := func(k int) int { return rounds[d][k+d] }
		k := x - y
		before := k - 1
		if k == -d || k != d && at(k-1) < at(k+1) {
			before = k + 1
		}
		fromX := at(before)
		fromY := fromX - before
		for x > fromX && y > fromY {
			reversed = append(reversed, edit{' ', a[x-1]})
			x, y = x-1, y-1
		}
		if before == k+1 {
			reversed = append(reversed, edit{'+', b[y-1]})
		} else {
			reversed = append(reversed, edit{'-', a[x-1]})
		}
		x, y = fromX, fromY
	}
	for ; x > 0; x-- { // round 0 is a run of equal lines
		reversed = append(reversed, edit{' ', a[x-1]})
	}
	out := make([]edit, len(reversed))
	for i, e := range reversed {
		out[len(reversed)-1-i] = e
	}
	return out
}

// A hunk is a run of edits with its place in both texts.
type hunk struct {
	beforeA, beforeB int // lines before it
	edits            []edit
}

// hunks cuts edits into runs of changes with their context; runs whose context
// would touch are one.
func hunks(edits []edit, context int) []hunk {
	var out []hunk
	from, to := 0, 0 // of the run being built
	a, b, doneTo := 0, 0, 0
	flush := func() {
		for _, e := range edits[doneTo:from] {
			a, b = a+inA(e), b+inB(e)
		}
		out = append(out, hunk{a, b, edits[from:to]})
		for _, e := range edits[from:to] {
			a, b = a+inA(e), b+inB(e)
		}
		doneTo = to
	}
	for i, e := range edits {
		if e.op == ' ' {
			continue
		}
		if start := max(i-context, 0); to == 0 || start > to {
			if to > 0 {
				flush()
			}
			from = start
		}
		to = min(i+context+1, len(edits))
	}
	if to > 0 {
		flush()
	}
	return out
}

func inA(e edit) int {
	if e.op == '+' {
		return 0
	}
	return 1
}

func inB(e edit) int {
	if e.op == '-' {
		return 0
	}
	return 1
}

func (h hunk) write(out *strings.Builder) {
	countA, countB := 0, 0
	for _, e := range h.edits {
		countA, countB = countA+inA(e), countB+inB(e)
	}
	fmt.Fprintf(out, "@@ -%s +%s @@\n", span(h.beforeA, countA), span(h.beforeB, countB))
	for _, e := range h.edits {
		out.WriteByte(e.op)
		out.WriteString(e.line)
		if !strings.HasSuffix(e.line, "\n") {
			out.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

// span writes the first line and the number of lines as diff does: an empty
// span names the line before it, a count of one is left out.
func span(before, count int) string {
	switch count {
	case 0:
		return fmt.Sprintf("%d,0", before)
	case 1:
		return fmt.Sprint(before + 1)
	}
	return fmt.Sprintf("%d,%d", before+1, count)
}
