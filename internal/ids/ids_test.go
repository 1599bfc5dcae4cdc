package ids

import (
	"crypto/rand"
	"strings"
	"testing"
)

func TestIdsAreAllDifferentAndHaveTheirForm(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		id, err := New("t_", rand.Reader)
		if err != nil || seen[id] || !Valid("t_", id) {
			t.Fatalf("drew %q, %v", id, err)
		}
		seen[id] = true
	}
	for _, s := range []string{"", "t_", "t_" + strings.Repeat("a", 25), "t_" + strings.Repeat("a", 27), "t_" + strings.Repeat("A", 26), "t_" + strings.Repeat("1", 26), "a_" + strings.Repeat("a", 26), "t_../" + strings.Repeat("a", 23)} {
		if Valid("t_", s) {
			t.Errorf("%q counts as an id", s)
		}
	}
	if _, err := New("t_", strings.NewReader("short")); err == nil {
		t.Error("a source that ends gives an id")
	}
}
