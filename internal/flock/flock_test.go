package flock

import (
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

func TestOneHolderAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	oneAtATime(t, path, Lock)
	if _, err := Lock(filepath.Join(path, "below a file")); err == nil {
		t.Error("a file that cannot be made is locked")
	}
}

func oneAtATime(t *testing.T, path string, lock func(string) (func() error, error)) {
	t.Helper()
	var holders, most atomic.Int32 // the kernel's lock is none that the race detector sees
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			unlock, err := lock(path)
			if err != nil {
				t.Error(err)
				return
			}
			if n := holders.Add(1); n > most.Load() {
				most.Store(n)
			}
			holders.Add(-1)
			if err := unlock(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := most.Load(); n != 1 {
		t.Errorf("%d held it at once", n)
	}
}
