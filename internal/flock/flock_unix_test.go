//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package flock

import (
	"path/filepath"
	"testing"
)

func TestOneHolderOfAFolder(t *testing.T) {
	dir := t.TempDir()
	oneAtATime(t, dir, LockDir)
	if _, err := LockDir(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("a folder that is not there is locked")
	}
}
