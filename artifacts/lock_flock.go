//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package artifacts

import (
	"errors"
	"os"
	"syscall"
)

// lockFile takes the lock of f, which goes with its holder whatever becomes of
// it: shared or alone, at once or not at all.
func lockFile(f *os.File, alone, wait bool) error {
	how := syscall.LOCK_SH
	if alone {
		how = syscall.LOCK_EX
	}
	if !wait {
		how |= syscall.LOCK_NB
	}
	for {
		err := syscall.Flock(int(f.Fd()), how)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return errBusy
		case !errors.Is(err, syscall.EINTR):
			return &os.PathError{Op: "lock", Path: f.Name(), Err: err}
		}
	}
}
