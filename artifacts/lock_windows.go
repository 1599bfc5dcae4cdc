package artifacts

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

var lockFileEx = syscall.NewLazyDLL("kernel32.dll").NewProc("LockFileEx")

// lockFile takes the lock of f, which goes with its holder whatever becomes of
// it: shared or alone, at once or not at all. The flags and the error are those
// that the documentation of LockFileEx gives.
func lockFile(f *os.File, alone, wait bool) error {
	const failImmediately, exclusive = 1, 2
	flags := uintptr(0)
	if alone {
		flags |= exclusive
	}
	if !wait {
		flags |= failImmediately
	}
	var at syscall.Overlapped
	ok, _, err := lockFileEx.Call(f.Fd(), flags, 0, 1, 0, uintptr(unsafe.Pointer(&at)))
	switch {
	case ok != 0:
		return nil
	case errors.Is(err, syscall.Errno(33)): // ERROR_LOCK_VIOLATION
		return errBusy
	}
	return &os.PathError{Op: "lock", Path: f.Name(), Err: err}
}
