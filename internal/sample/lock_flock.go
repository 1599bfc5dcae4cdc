//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sample

import (
	"errors"
	"os"
	"syscall"
)

// lockDir waits until no other process holds the folder. The lock goes with
// its holder, whatever becomes of it.
func lockDir(dir string) (unlock func() error, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(&os.PathError{Op: "lock", Path: dir, Err: err}, f.Close())
	}
	return f.Close, nil
}
