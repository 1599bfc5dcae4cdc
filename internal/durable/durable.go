// Package durable puts whole files in place. Whoever reads sees the old file or
// the new one, also after a crash, and what a function returned for outlives one
// of the machine. It locks nothing: see package flock.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// Replace makes a file, or puts it in the place of another, for its owner alone.
func Replace(path string, content []byte) error {
	if err := Write(path, content, 0o600); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// Write is Replace with a mode, for those who write several files into a folder:
// their names outlive a crash of the machine once [SyncDir] has returned.
func Write(path string, content []byte, mode fs.FileMode) error {
	return beside(path, content, mode, os.Rename)
}

// Create makes a file that must not be there yet, for its owner alone; else the
// error wraps [fs.ErrExist]. Of any number of processes one succeeds.
func Create(path string, content []byte) error {
	err := beside(path, content, 0o600, func(temp, path string) error {
		return errors.Join(os.Link(temp, path), os.Remove(temp))
	})
	if err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// beside writes a file beside its place and has put bring it there.
func beside(path string, content []byte, mode fs.FileMode, put func(temp, path string) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // with mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil && mode != 0o600 {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = put(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // put may have taken it away
	}
	return err
}

// SyncDir makes the names in a folder outlive a crash of the machine, where the
// system can: Windows cannot flush a folder and has a journal for names, and some
// file systems, those of other machines above all, flush files alone.
func SyncDir(dir string) error {
	return flush(func() (*os.File, error) { return os.Open(dir) })
}

// SyncRoot is [SyncDir] for a folder that is open.
func SyncRoot(dir *os.Root) error {
	return flush(func() (*os.File, error) { return dir.Open(".") })
}

func flush(open func() (*os.File, error)) error {
	switch runtime.GOOS {
	case "windows", "plan9", "js", "wasip1":
		return nil
	}
	f, err := open()
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, f.Close())
}
