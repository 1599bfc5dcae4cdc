//go:build unix

package checkpoint

import (
	"os"
	"syscall"
	"testing"
)

func mkfifo(path string) error { return syscall.Mkfifo(path, 0o644) }

func TestOnlyAModeChanged(t *testing.T) {
	g := newGround(t)
	c, changes := g.around(func() { g.must(os.Chmod(g.path("src/a.txt"), 0o600)) }, "src/a.txt")
	if len(changes) != 1 || changes[0].Diff != "" {
		t.Errorf("changes %+v", changes)
	}
	_, err := g.k.Restore(c)
	g.must(err)
	if info, err := os.Stat(g.path("src/a.txt")); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
