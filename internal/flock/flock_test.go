package flock

import (
	"path/filepath"
	"sync"
	"testing"
)

func TestOneHolderAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	holders, most := 0, 0
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			unlock, err := Lock(path)
			if err != nil {
				t.Error(err)
				return
			}
			holders++ // guarded by the lock itself
			most = max(most, holders)
			holders--
			if err := unlock(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if most != 1 {
		t.Errorf("%d held it at once", most)
	}
	if _, err := Lock(filepath.Join(path, "below a file")); err == nil {
		t.Error("a file that cannot be made is locked")
	}
}
