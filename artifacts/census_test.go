package artifacts

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// A word is found wherever it stands and in whatever case, and nothing else is.
func TestFoldedFindsEveryWord(t *testing.T) {
	words := []string{"refused", "deferred", "mcp gate", "mcp_gate", "not run"}
	f := newFolded(words...)
	r := rand.New(rand.NewPCG(5, 5))
	parts := append([]string{"r", "e", " ", "ref", "use", "fused", "MCP", "mcp", "gate", "not", "run", "é", "\n", "_"}, words...)
	for range 200_000 {
		var b strings.Builder
		for range r.IntN(12) {
			p := parts[r.IntN(len(parts))]
			if r.IntN(3) == 0 {
				p = strings.ToUpper(p)
			}
			b.WriteString(p)
		}
		text := b.String()
		at, there := f.next([]byte(text), 0), false
		for _, w := range words {
			there = there || strings.Contains(strings.ToLower(text), w)
		}
		if found := at < len(text); found != there {
			t.Fatalf("found %v, there %v: %q", found, there, text)
		}
		if at < len(text) && !strings.HasPrefix(strings.ToLower(text[at:]), "ref") && !strings.ContainsAny(strings.ToLower(text[at:at+1]), "dmn") {
			t.Fatalf("nothing begins at %d of %q", at, text)
		}
	}
}

// Ascii85's marks may share their middle.
func TestMarksOfAscii85ThatOverlapHoldNothing(t *testing.T) {
	for _, text := range []string{"<~> ~", "a <~>", "<~~>", "~~ <~"} {
		if f := Inspect(textResult(text)); !f.Classes.Empty() {
			t.Errorf("%q: %v", text, f.Classes)
		}
	}
}

// What is passed over without a closer look is no row: a carriage return at the end,
// which means nothing, has each line looked at.
func TestSentencesArePassedOver(t *testing.T) {
	parts := strings.Split("a|He said|, |; |,|;|\"|\"so\"|1,234|.|!|?| |\n|\n|.\n|!\n|- -\n|x,y\n|x, y.\n|1, 2\n|\n\n|end; of it.\n|one 2 b\n|two 3 d\n|, \"|  \"", "|")
	r := rand.New(rand.NewPCG(9, 9))
	found, begun := 0, 0
	for range 100_000 {
		var b strings.Builder
		few := []string{parts[r.IntN(len(parts))], parts[r.IntN(len(parts))], parts[r.IntN(len(parts))], "\n", ".\n"}
		for range r.IntN(30) {
			b.WriteString(few[r.IntN(len(few))])
		}
		text := []byte(b.String())
		for _, delim := range []byte(",;") {
			got, ok := findDelimited(text, delim)
			want, should := findDelimited([]byte(b.String()+"\n\r"), delim)
			if ok != should || ok && (got.start != want.start || got.rows != want.rows || got.fields != want.fields) {
				t.Fatalf("%v %+v, with a closer look %v %+v: %q", ok, got, should, want, text)
			}
			if ok {
				found++
			}
			rest, is := findDelimited(text[sentencesSize(text, &unmarked):], delim)
			if rest.start += sentencesSize(text, &unmarked); is != ok || ok && (rest.start != got.start || rest.rows != got.rows || rest.fields != got.fields) {
				t.Fatalf("%v %+v behind the sentences, %v %+v in all: %q", is, rest, ok, got, text)
			}
		}
		if sentencesSize(text, &unmarked) > 0 {
			begun++
		}
	}
	if found < 1000 || begun < 1000 {
		t.Errorf("only %d tables, and %d that begin with sentences", found, begun)
	}
}

// Lines that end as sentences end every run of words, looked at or not: the space
// behind them has them looked at.
func TestSentencesEndRunsOfWords(t *testing.T) {
	parts := strings.Split("a|Ada Bern 3|Bo Oslo 4|Cy Rome 5|a=1 b=2|c=3 d=4|me@host.org x|.|;|,|)|\n|\n|.\n|\n\n|1 x y\n|2 z w\n|3 u v\n", "|")
	r := rand.New(rand.NewPCG(8, 8))
	found, begun := 0, 0
	for i := range 200_000 {
		var b strings.Builder
		for i%2 == 0 && r.IntN(2) == 0 {
			b.WriteString("So it is.\n")
		}
		for range r.IntN(24) {
			b.WriteString(parts[r.IntN(len(parts))])
		}
		text := b.String()
		got, want := isWords([]byte(text)), isWords([]byte(strings.ReplaceAll(text, "\n", " \n")))
		if got != want {
			t.Fatalf("%v, with a closer look %v: %q", got, want, text)
		}
		if size := sentencesSize([]byte(text), &unmarked); !strings.ContainsAny(text, "=@") && size > 0 {
			if rest := isWords([]byte(text[size:])); rest != got {
				t.Fatalf("%v behind the sentences, %v in all: %q", rest, got, text)
			}
			if got {
				begun++
			}
		}
		if got {
			found++
		}
	}
	if found < 1000 || begun < 100 {
		t.Errorf("only %d tables, %d behind sentences", found, begun)
	}
}

// The census of a large text is the same, and what it knows of neighbours is so.
func TestPairsAreCounted(t *testing.T) {
	parts := strings.Split("a|bc|é|, |; |,|;|\"|.|. |!|?|\n|.\n|\n\n|  | |\x00|\xff|\r\n|So it is.\n", "|")
	r := rand.New(rand.NewPCG(3, 3))
	gaps, ended := 0, 0
	for range 4000 {
		b := []byte{"S,\" \n"[r.IntN(5)]}
		few := []string{parts[r.IntN(len(parts))], parts[r.IntN(len(parts))], ".\n", "a"}
		for range r.IntN(30) {
			b = append(b, few[r.IntN(len(few))]...)
		}
		got, want := new(census), countBytes(b)
		got.countPairs(b)
		if [0x100]uint32(got[:0x100]) != [0x100]uint32(want[:0x100]) {
			t.Fatalf("counted %v, want %v: %q", got, want, b)
		}
		if got[gapless] == 1 == hasGap(b) {
			t.Fatalf("without a gap %d: %q", got[gapless], b)
		}
		size := sentencesSize(b, want)
		if sentencesSize(b, got) != size {
			t.Fatalf("%d bytes of sentences by the census, %d by a look: %q", sentencesSize(b, got), size, b)
		}
		if got[gapless] == 0 {
			gaps++
		}
		if got[sentences] == 1 && size > 0 {
			ended++
		}
	}
	if gaps < 400 || ended < 400 {
		t.Errorf("only %d texts with gaps, and %d of sentences", gaps, ended)
	}
}

func TestGapsAreFound(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for range 100_000 {
		b := make([]byte, r.IntN(40))
		for i := range b {
			b[i] = " ab!\n\xa0 "[r.IntN(7)]
			if r.IntN(3) > 0 {
				b[i] = 'x'
			}
		}
		if got, want := hasGap(b), strings.Contains(string(b), "  "); got != want {
			t.Fatalf("%v: %q", got, b)
		}
	}
}

// Most results are small: what looks at them should not cost more than they do.
func TestASmallTextCostsNoCensusOnTheHeap(t *testing.T) {
	result := textResult(strings.Repeat("The issue was closed by a merge. ", 6))
	if n := testing.AllocsPerRun(100, func() { InspectRest(result, rows) }); n > 3 {
		t.Errorf("%v allocations, want at most 3", n)
	}
}
