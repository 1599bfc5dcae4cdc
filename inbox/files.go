package inbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// maxKeyFile bounds the files of the directory of keys.
const maxKeyFile = 4 << 20

// readPrivateFile reads a file that only its owner may read or write. A link,
// or a file that others can reach, is an error: whoever can write it decides
// who approves.
func readPrivateFile(path string) ([]byte, error) {
	before, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !os.SameFile(before, info) {
		return nil, fmt.Errorf("%s was replaced while it was opened", path)
	}
	if err := ownedByUs(info); err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s has mode %04o, want 0600", path, info.Mode().Perm())
	}
	b, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if len(b) > maxKeyFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxKeyFile)
	}
	return b, err
}

// createFile makes a new file, 0600, whole or not at all: it is written beside
// its place, synced, and linked there. A file that is there already is an
// error wrapping [fs.ErrExist].
func createFile(path string, content []byte) error {
	temp, err := writeTemp(path, content)
	if err != nil {
		return err
	}
	defer os.Remove(temp)
	if err := os.Link(temp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// replaceFile puts content in the place of a file that holds old, where nil is
// no file. A lock file keeps others out; one that is left after a crash says
// so and has to be removed by hand.
func replaceFile(path string, old, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("another command changes it, or was killed doing so: %w", err)
	}
	defer os.Remove(lock.Name())
	defer lock.Close()
	now, err := readPrivateFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !bytes.Equal(now, old) {
		return errors.New("it changed in the meantime")
	}
	temp, err := writeTemp(path, content)
	if err != nil {
		return err
	}
	defer os.Remove(temp)
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func writeTemp(path string, content []byte) (name string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return "", err
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	if _, err := f.Write(content); err != nil {
		return "", err
	}
	return f.Name(), f.Sync()
}

// syncDir makes a new name in the directory durable, where the system can.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
