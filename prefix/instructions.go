package prefix

import (
	"fmt"
	"slices"
	"strings"
)

// Bounds of what a client is told at the start, in bytes. Clients cut it at 2 KB.
const (
	maxInstructions = 2 << 10
	maxGateText     = 1 << 10
)

// ServerText is what a server says of itself, as it was accepted.
type ServerText struct{ Server, Text string }

const instructionsHead = "\n\nWhat the servers say of themselves:"

// leastText is the least of a server's text that is worth its place.
const leastText = 40

// Instructions returns a client's instructions: the gate's own text, cut at 1 KB,
// then what the servers say, by name, each shortened to the same length so that
// all of it stays within 2 KB. Where that length would be too little, the last
// ones by name are left out and counted. The order of the servers' texts does
// not matter; one that is empty says nothing.
func Instructions(gate string, servers []ServerText) string {
	gate = cutAtWord(tidy(gate), maxGateText)
	var texts []ServerText
	for _, s := range servers {
		if text := oneLine(s.Text); text != "" {
			texts = append(texts, ServerText{oneLine(s.Server), text})
		}
	}
	if len(texts) == 0 {
		return gate
	}
	slices.SortFunc(texts, func(a, b ServerText) int {
		return strings.Compare(a.Server+"\x00"+a.Text, b.Server+"\x00"+b.Text)
	})
	for width := maxInstructions; width >= leastText; width = width * 3 / 4 {
		if s := gate + servedText(texts, width, 0); len(s) <= maxInstructions {
			return s
		}
	}
	for left := 1; left < len(texts); left++ {
		if s := gate + servedText(texts[:len(texts)-left], leastText, left); len(s) <= maxInstructions {
			return s
		}
	}
	return gate
}

func servedText(texts []ServerText, width, left int) string {
	var b strings.Builder
	b.WriteString(instructionsHead)
	for _, t := range texts {
		b.WriteString("\n" + t.Server + ": " + cutAtWord(t.Text, width))
	}
	if left > 0 {
		fmt.Fprintf(&b, "\n(and %d more)", left)
	}
	return b.String()
}

// cutAtWord returns at most n bytes of a text, with an ellipsis where it was cut.
func cutAtWord(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = strings.ToValidUTF8(s[:n-len("…")], "") // a character that was cut in two goes
	if i := strings.LastIndexAny(s, " \n"); i > len(s)/3 {
		s = s[:i]
	}
	return strings.TrimRight(s, " \n,;:") + "…"
}
