package vault

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// chain is a keychain in memory; while err is set it refuses.
type chain struct {
	mu   sync.Mutex
	held map[string]string
	err  error
}

func (c *chain) Get(service, user string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.held[service+user]; ok && c.err == nil {
		return s, nil
	}
	return "", errors.Join(c.err, ErrNotFound)
}

func (c *chain) Set(service, user, secret string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.held[service+user] = secret
	}
	return c.err
}

func TestASecretComesBackFromEitherPlace(t *testing.T) {
	for name, k := range map[string]struct {
		keychain Keychain
		want     string
	}{
		"file":                  {nil, "file"},
		"keychain":              {&chain{held: map[string]string{}}, "keychain"},
		"keychain that refuses": {&chain{err: errors.New("locked")}, "file"},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Dir: filepath.Join(t.TempDir(), "keys"), Keychain: k.keychain}
			v := Open(o)
			if _, err := v.Get("secret/a"); !errors.Is(err, ErrNotFound) {
				t.Errorf("got %v before there is one", err)
			}
			if err := v.Put("secret/a", []byte("hunter2")); err != nil {
				t.Fatal(err)
			}
			got, err := Open(o).Get("secret/a") // another process
			if err != nil || string(got) != "hunter2" || v.Where() != k.want {
				t.Errorf("got %q from %s, %v", got, v.Where(), err)
			}
			lacks(t, o.Dir, "hunter2")
			if list, err := v.List("secret"); err != nil || !slices.Equal(list, []string{"secret/a"}) {
				t.Errorf("got %v, %v", list, err)
			}
			if err := errors.Join(v.Delete("secret/a"), v.Delete("secret/a")); err != nil {
				t.Error(err)
			}
			if _, err := v.Get("secret/a"); !errors.Is(err, ErrNotFound) {
				t.Errorf("got %v after it was deleted", err)
			}
		})
	}
}

// lacks fails if any file has the text, or may be read by others.
func lacks(t *testing.T, dir, text string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		t.Fatalf("%d files, %v", len(entries), err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte(text)) {
			t.Errorf("%s has the secret in it", e.Name())
		}
		if info, _ := e.Info(); info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", e.Name(), info.Mode())
		}
	}
}

func TestASecretIsBoundToItsNameAndKey(t *testing.T) {
	dir := t.TempDir()
	v := Open(Options{Dir: dir})
	if err := errors.Join(v.Put("secret/a", []byte("one")), v.Put("secret/b", []byte("two"))); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "secret+a.sealed"))
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{
		"another's file": data, "a flipped bit": append(data[:len(data)-1:len(data)-1], data[len(data)-1]^1), "nothing": nil, "another version": append([]byte{9}, data[1:]...),
	} {
		if err := os.WriteFile(filepath.Join(dir, "secret+b.sealed"), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := v.Get("secret/b"); err == nil {
			t.Errorf("%s is read as %q", name, got)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "vault.key"), []byte("no key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Dir: dir}).Get("secret/a"); err == nil || !strings.Contains(err.Error(), "no key") {
		t.Errorf("got %v", err)
	}
}

func TestAKeychainThatIsGoneIsNotReplaced(t *testing.T) {
	dir, c := t.TempDir(), &chain{held: map[string]string{}}
	if err := Open(Options{Dir: dir, Keychain: c}).Put("secret/a", []byte("x")); err != nil {
		t.Fatal(err)
	}
	c.err = errors.New("locked")
	for _, k := range []Keychain{c, nil} {
		v := Open(Options{Dir: dir, Keychain: k})
		if err := v.Put("secret/b", []byte("x")); err == nil || v.Where() != "keychain" {
			t.Errorf("got %v, key in %s", err, v.Where())
		}
	}
}

func TestNames(t *testing.T) {
	v := Open(Options{Dir: t.TempDir()})
	for _, name := range []string{"", "a", "secret/", "secret/..", "secret/.x", "secret/a/b", "secret/a b", "../x", "Secret/a", "secret/" + strings.Repeat("x", 200)} {
		if err := v.Put(name, nil); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
	if err := v.Put("secret/big", make([]byte, MaxBytes+1)); err == nil {
		t.Error("a secret over the bound is taken")
	}
}

func TestALockIsHeldByOneAtATime(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	var inside, count atomic.Int64 // the race detector knows nothing of locks on files
	for range 8 {
		wg.Go(func() {
			v := Open(Options{Dir: dir})
			for range 20 {
				unlock, err := v.Lock("signin/a")
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d hold the lock", n)
				}
				count.Add(1)
				inside.Add(-1)
				if err := unlock(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if count.Load() != 160 {
		t.Errorf("got %d, want 160", count.Load())
	}
}

func TestManyMakeOneKey(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if err := Open(Options{Dir: dir}).Put(fmt.Sprintf("secret/n%d", i), []byte("x")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	v := Open(Options{Dir: dir})
	for i := range 8 {
		if _, err := v.Get(fmt.Sprintf("secret/n%d", i)); err != nil {
			t.Error(err)
		}
	}
}
