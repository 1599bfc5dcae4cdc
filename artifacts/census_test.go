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
