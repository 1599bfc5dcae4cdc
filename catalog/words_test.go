package catalog

import "testing"

// Every pattern of words/poison.txt is RE2, and is ruled out by words for most
// texts: one that was not would be tried on all of them.
func TestPatterns(t *testing.T) {
	p := poisons()
	for i := range p.kinds {
		p.patterns.Regexp(i) // it panics where it is none
	}
	if left := p.patterns.Candidates("xx yy zz"); left != nil {
		t.Errorf("the patterns %v are tried on every text", left)
	}
}
