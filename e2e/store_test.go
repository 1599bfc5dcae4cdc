//go:build unix

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A database that is deleted or replaced under a gate is noticed: what needs it
// is refused and says so, what does not goes on, and a person is told at once.
func TestADatabaseThatIsTakenAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	a := r.client(answering(allowOnce))
	if got := a.mustErase("before"); !strings.Contains(got, "erase did before") {
		t.Fatal(got)
	}
	path := filepath.Join(r.home, "state.db")
	saved, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		do   func() error
	}{
		{"deleted", func() error { return os.Remove(path) }},
		{"replaced", func() error { return os.WriteFile(path, saved, 0o600) }},
	} {
		if err := c.do(); err != nil {
			t.Fatal(err)
		}
		const want = "deleted or replaced while it ran; a person has to restart mcp-gate"
		if got := a.mustErase(c.name); !strings.Contains(got, want) {
			t.Errorf("%s: a call that needs it gives %s", c.name, got)
		}
		a.quick("quick " + c.name)
		for _, args := range [][]string{{"inbox"}, {"inbox", "approve", "t_a"}, {"grants", "ls"}} {
			if out, errs, code := command(t, r.home, args...); code == 0 || !strings.Contains(errs, want) {
				t.Errorf("%s: %v ends with %d: %s%s", c.name, args, code, out, errs)
			}
		}
		if out, errs, code := command(t, r.home, "status"); code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: status ends with %d: %s%s", c.name, code, out, errs)
		}
	}
	// Another gate would work on a file that the log of the first one belongs to.
	b := r.client(answering(allowOnce))
	if got := b.mustErase("second"); !strings.Contains(got, "deleted or replaced while it ran") {
		t.Errorf("a second gate beside it: %s", got)
	}
	b.quick("quick second")
	a.close()
	if n := r.ran(); n["deleted"]+n["replaced"]+n["second"] > 0 {
		t.Errorf("ran %v", n)
	}
	if got := b.mustErase("after"); !strings.Contains(got, "erase did after") {
		t.Errorf("after a new start: %s", got)
	}
}
