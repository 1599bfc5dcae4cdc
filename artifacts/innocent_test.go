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

// inRuns is what is found in the runs of digits of an innocent text.
func inRuns(text []byte) Findings {
	in := newInspector(len(text))
	in.encoded(text, &unmarked, 0)
	in.all = in.found
	return in.findings()
}

// In a text that is innocent a look finds nothing but what its runs of digits hold.
func TestTheInnocentHaveNothingToFind(t *testing.T) {
	parts := strings.Split(`a|bc|1|42|2.5|. |, |,|; |;|: |:| - | -> |(|)|[|]|{|}|<|>|="|"|'|/|@|_|-|+|%0A|\n|&amp;|~|<~|~>|data:|data:text/plain,|a/b| | | |é|`+
		"|\n|\t|\r\n|\x1b[8m|refused [egress]:|Refused|mcp gate says:|mcp-gate/meta: |mcp|not run:|1,2|a,b|(1,2)|name@host.org|QUJDREVGR0hJSktMTU5PUFFS|4142434445464748|YSxiCjEsMgozLDQKNSw2|612c620a312c320a332c340a352c36|", "|")
	parts = append(parts, "|", " | ")
	r := rand.New(rand.NewPCG(7, 11))
	innocent, withRuns := 0, 0
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
		without, runs := isInnocent(b)
		switch f := looked(b); {
		case !without:
		case runs:
			withRuns++
			if in := inRuns(b); in.Classes != f.Classes || in.Marks != f.Marks || in.Partial != f.Partial {
				t.Fatalf("%q has %v, marks %v, in its runs %v, marks %v", b, f.Classes, f.Marks.List(), in.Classes, in.Marks.List())
			}
		default:
			innocent++
			if f.Classes.Empty() && !f.Marks.Any() && !f.Partial {
				break
			}
			t.Fatalf("%q is innocent, and has %v, marks %v", b, f.Classes, f.Marks.List())
		}
	}
	if innocent < 20_000 || withRuns < 2_000 {
		t.Errorf("only %d of the texts were innocent, and %d but for runs of digits", innocent, withRuns)
	}
	if innocent, _ := isInnocent(bytes.Repeat([]byte("a "), 200)); innocent {
		t.Error("a long text is innocent")
	}
}
