package flock

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// Lock waits until no other process, and nobody else in this one, holds the
// file, and returns what lets it go. The lock goes with its holder, whatever
// becomes of it; the file stays.
func Lock(path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK, 0, 1, 0, &windows.Overlapped{})
	if err != nil {
		return nil, errors.Join(&os.PathError{Op: "lock", Path: path, Err: err}, f.Close())
	}
	return f.Close, nil
}

// LockDir is [Lock] for a folder that is there. It does nothing on systems that
// have no lock on folders: on those, one process uses it.
func LockDir(string) (unlock func() error, err error) {
	return func() error { return nil }, nil
}
