package catalog

import "testing"

// Patterns are compiled when they are first needed; here all of them are.
func TestPoisonPatternsCompile(t *testing.T) {
	for _, p := range poisons() {
		if p.pattern() == nil {
			t.Errorf("%s: no pattern", p.kind)
		}
	}
	if len(poisons()) < 20 {
		t.Errorf("%d patterns are read", len(poisons()))
	}
}
