package artifacts

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// looked is what a look finds that takes no text for innocent.
func looked(text []byte) Findings {
	in := newInspector(len(text))
	in.look(text, 0)
	in.all = in.found
	return in.findings()
}

// In a text that is innocent a look finds nothing.
func TestTheInnocentHaveNothingToFind(t *testing.T) {
	parts := strings.Split(`a|bc|1|42|2.5|. |, |,|; |;|: |:| - | -> |(|)|[|]|{|}|<|>|="|"|'|/|@|_|-|+|%0A|\n|&amp;|~|<~|~>|data:|data:text/plain,|a/b| | | |é|`+
		"|\n|\t|\r\n|\x1b[8m|refused [egress]:|Refused|mcp gate says:|mcp-gate/meta: |mcp|not run:|1,2|a,b|(1,2)|name@host.org|QUJDREVGR0hJSktMTU5PUFFS|4142434445464748|", "|")
	parts = append(parts, "|", " | ")
	r := rand.New(rand.NewPCG(7, 11))
	innocent := 0
	for range 200_000 {
		var b []byte
		few := parts
		if r.IntN(2) == 0 { // few kinds of parts make rows
			few = []string{parts[r.IntN(len(parts))], parts[r.IntN(len(parts))], parts[r.IntN(len(parts))]}
		}
		for range 1 + r.IntN(24) {
			b = append(b, few[r.IntN(len(few))]...)
		}
		b = b[:min(len(b), maxInnocent)]
		if !isInnocent(b) {
			continue
		}
		innocent++
		if f := looked(b); !f.Classes.Empty() || f.Marks.Any() || f.Partial {
			t.Fatalf("%q is innocent, and has %v, marks %v", b, f.Classes, f.Marks.List())
		}
	}
	if innocent < 20_000 {
		t.Errorf("only %d of the texts were innocent", innocent)
	}
	if isInnocent(bytes.Repeat([]byte("a "), 200)) {
		t.Error("a long text is innocent")
	}
}
