//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package flock

import (
	"errors"
	"os"
	"syscall"
)

// Lock waits until no other process, and nobody else in this one, holds the
// file, and returns what lets it go. The lock goes with its holder, whatever
// becomes of it; the file stays.
func Lock(path string) (unlock func() error, err error) {
	return hold(os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600))
}

// LockDir is [Lock] for a folder that is there. It does nothing on systems that
// have no lock on folders: on those, one process uses it.
func LockDir(dir string) (unlock func() error, err error) {
	return hold(os.Open(dir))
}

func hold(f *os.File, err error) (func() error, error) {
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
		return nil, errors.Join(&os.PathError{Op: "lock", Path: f.Name(), Err: err}, f.Close())
	}
	return f.Close, nil
}
