package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// only fails unless the folder holds this one file with this content and mode.
func only(t *testing.T, path, want string, mode fs.FileMode) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("it holds %q, %v, want %q", got, err, want)
	}
	if info, err := os.Stat(path); err == nil && runtime.GOOS != "windows" && info.Mode().Perm() != mode {
		t.Errorf("it has mode %v, want %v", info.Mode().Perm(), mode)
	}
	if all, err := os.ReadDir(filepath.Dir(path)); err != nil || len(all) != 1 {
		t.Errorf("beside it: %v, %v", all, err)
	}
}

func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, text := range []string{"one", "two", ""} {
		if err := Replace(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		only(t, path, text, 0o600)
	}
	if err := Write(path, []byte("three"), 0o644); err != nil {
		t.Fatal(err)
	}
	only(t, path, "three", 0o644)
}

func TestNothingIsLeftWhereAFileCannotBePut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.MkdirAll(filepath.Join(path, "in it"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, put := range map[string]func() error{
		"Replace": func() error { return Replace(path, nil) },
		"Create":  func() error { return Create(path, nil) },
	} {
		if put() == nil {
			t.Errorf("%s put a file in the place of a folder", name)
		}
		if all, err := os.ReadDir(filepath.Dir(path)); err != nil || len(all) != 1 {
			t.Errorf("%s left %v, %v", name, all, err)
		}
	}
}

func TestOneOfManyCreates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	var made atomic.Value
	var wg sync.WaitGroup
	for n := range 16 {
		text := fmt.Sprint(n)
		wg.Go(func() {
			switch err := Create(path, []byte(text)); {
			case err == nil:
				if !made.CompareAndSwap(nil, text) {
					t.Error("two made the file")
				}
			case !errors.Is(err, fs.ErrExist):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	only(t, path, made.Load().(string), 0o600)
}
