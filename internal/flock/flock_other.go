//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package flock

import "sync"

var mutex sync.Mutex // these systems have no lock on files: one process uses a home

// Lock waits until no other process, and nobody else in this one, holds the
// file, and returns what lets it go. The lock goes with its holder, whatever
// becomes of it; the file stays.
func Lock(string) (unlock func() error, err error) {
	mutex.Lock()
	return func() error { mutex.Unlock(); return nil }, nil
}

// LockDir is [Lock] for a folder that is there. It does nothing on systems that
// have no lock on folders: on those, one process uses it.
func LockDir(string) (unlock func() error, err error) {
	return func() error { return nil }, nil
}
