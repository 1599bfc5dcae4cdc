// Package vault keeps the small secrets of one home: answers that an import asked
// for, and what signing in to a server gave. Each is a file of its own, encrypted
// with AES-256-GCM under one key and bound to its name.
//
// The key is in the operating system's keychain where there is one, else in a
// file beside the secrets that only its owner may read. The latter keeps a secret
// out of a backup of single files and out of a search for tokens; it does not
// keep it from whoever can read the whole folder, and nothing here pretends so.
//
// The package knows nothing of what a secret is for. It logs nothing, and no
// error has a secret in it.
//
// To start:
//
//	v := vault.Open(vault.Options{Dir: home.Keys(), Keychain: vault.OSKeychain{}})
//	err := v.Put("secret/token", []byte("..."))
package vault

import (
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-gate/mcp-gate/internal/durable"
	"github.com/mcp-gate/mcp-gate/internal/flock"
	"github.com/mcp-gate/mcp-gate/internal/lazy"
)

// ErrNotFound says that there is no secret of that name.
var ErrNotFound = errors.New("no such secret")

// MaxBytes bounds one secret.
const MaxBytes = 1 << 20

// A Keychain is where the operating system keeps secrets for a person. Its
// methods may block while the person is asked to unlock it.
type Keychain interface {
	Get(service, user string) (string, error) // ErrNotFound where there is none
	Set(service, user, secret string) error
}

// Options say where secrets are kept.
type Options struct {
	Dir      string    // made at the first secret, for its owner alone
	Keychain Keychain  // nil is none
	Random   io.Reader // nil is crypto/rand
}

// A Vault is safe for concurrent use, also by several processes.
type Vault struct {
	o Options

	mu  sync.Mutex // guards what follows
	key []byte     // nil until it was needed
}

// Open returns the vault of a folder. Nothing is read or made before a secret is.
func Open(o Options) *Vault {
	if o.Random == nil {
		o.Random = rand.Reader
	}
	return &Vault{o: o}
}

// names are of the form kind/name; either part becomes part of a file's name.
var names = lazy.Regexp(`^[a-z]+/[A-Za-z0-9_][A-Za-z0-9_.-]{0,150}$`)

func (v *Vault) file(name string) (string, error) {
	if !names().MatchString(name) {
		return "", fmt.Errorf("%q cannot be the name of a secret", name)
	}
	return filepath.Join(v.o.Dir, strings.Replace(name, "/", "+", 1)+".sealed"), nil
}

// Get returns a secret; the error is ErrNotFound where there is none.
func (v *Vault) Get(name string) ([]byte, error) {
	path, err := v.file(name)
	if err != nil {
		return nil, err
	}
	sealed, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read secret %s: %w", name, err)
	}
	aead, err := v.aead(false)
	if err != nil {
		return nil, fmt.Errorf("read secret %s: %w", name, err)
	}
	size := aead.NonceSize()
	if len(sealed) < 1+size || sealed[0] != version {
		return nil, fmt.Errorf("read secret %s: %s is not a secret of this version", name, path)
	}
	plain, err := aead.Open(nil, sealed[1:1+size], sealed[1+size:], []byte(name))
	if err != nil {
		return nil, fmt.Errorf("read secret %s: it was written under another key, or changed since", name)
	}
	return plain, nil
}

// version is the first byte of a sealed file; a nonce and the sealed text follow.
const version = 1

// Put keeps a secret under a name, instead of one that is there.
func (v *Vault) Put(name string, secret []byte) error {
	path, err := v.file(name)
	if err != nil {
		return err
	}
	if len(secret) > MaxBytes {
		return fmt.Errorf("keep secret %s: it is larger than %d bytes", name, MaxBytes)
	}
	aead, err := v.aead(true)
	if err != nil {
		return fmt.Errorf("keep secret %s: %w", name, err)
	}
	nonce := make([]byte, aead.NonceSize())
	if _, err := io.ReadFull(v.o.Random, nonce); err != nil {
		return fmt.Errorf("keep secret %s: %w", name, err)
	}
	sealed := aead.Seal(append([]byte{version}, nonce...), nonce, secret, []byte(name))
	if err := durable.Replace(path, sealed); err != nil {
		return fmt.Errorf("keep secret %s: %w", name, err)
	}
	return nil
}

// Delete forgets a secret. One that is not there is no error.
func (v *Vault) Delete(name string) error {
	path, err := v.file(name)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget secret %s: %w", name, err)
	}
	return nil
}

// List returns the names of a kind, sorted.
func (v *Vault) List(kind string) ([]string, error) {
	entries, err := os.ReadDir(v.o.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list secrets: %w", err)
	}
	var out []string
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".sealed")
		if name, isKind := strings.CutPrefix(name, kind+"+"); ok && isKind {
			out = append(out, kind+"/"+name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// Stamp says when a secret was last written, so that a holder of a copy can tell
// that it is old; it is the zero time where there is no such secret.
func (v *Vault) Stamp(name string) time.Time {
	path, err := v.file(name)
	if err != nil {
		return time.Time{}
	}
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// Lock waits until nobody else, in this process or another, holds the lock of a
// name, and takes it. It does not keep others from reading. The lock goes with
// the process, whatever becomes of it.
func (v *Vault) Lock(name string) (unlock func() error, err error) {
	path, err := v.file(name)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(v.o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("lock secret %s: %w", name, err)
	}
	unlock, err = flock.Lock(strings.TrimSuffix(path, ".sealed") + ".lock")
	if err != nil {
		return nil, fmt.Errorf("lock secret %s: %w", name, err)
	}
	return unlock, nil
}

// Where says where the key is: "keychain", "file", or "" before there is one.
func (v *Vault) Where() string {
	switch {
	case exists(v.keyFile()):
		return "file"
	case exists(v.markFile()):
		return "keychain"
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (v *Vault) keyFile() string { return filepath.Join(v.o.Dir, "vault.key") }

// markFile says that the key is in the keychain, so that a keychain that is not
// reached is told from one that was never used.
func (v *Vault) markFile() string { return filepath.Join(v.o.Dir, "vault.keychain") }

func (v *Vault) aead(create bool) (cipher.AEAD, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.key == nil {
		key, err := v.findKey(create)
		if err != nil {
			return nil, err
		}
		v.key = key
	}
	block, err := aes.NewCipher(v.key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

func (v *Vault) findKey(create bool) ([]byte, error) {
	if create {
		if err := os.MkdirAll(v.o.Dir, 0o700); err != nil {
			return nil, err
		}
		unlock, err := flock.Lock(filepath.Join(v.o.Dir, "vault.lock"))
		if err != nil {
			return nil, err
		}
		defer func() { _ = unlock() }() // only the descriptor's
	}
	switch v.Where() {
	case "file":
		text, err := os.ReadFile(v.keyFile())
		if err != nil {
			return nil, fmt.Errorf("read the key: %w", err)
		}
		return decodeKey(string(text), v.keyFile())
	case "keychain":
		if v.o.Keychain == nil {
			return nil, errors.New("the key is in the keychain, which is switched off here")
		}
		text, err := v.ask(func() (string, error) { return v.o.Keychain.Get(service, v.user()) })
		if err != nil {
			return nil, fmt.Errorf("read the key from the keychain: %w", err)
		}
		return decodeKey(text, "the keychain")
	}
	if !create {
		return nil, errors.New("there is no key")
	}
	return v.makeKey()
}

// makeKey makes a key and puts it into the keychain, or into a file where none
// takes it.
func (v *Vault) makeKey() ([]byte, error) {
	key := make([]byte, keySize)
	if _, err := io.ReadFull(v.o.Random, key); err != nil {
		return nil, err
	}
	text := base64.StdEncoding.EncodeToString(key)
	if v.o.Keychain != nil {
		back, err := v.ask(func() (string, error) {
			if err := v.o.Keychain.Set(service, v.user(), text); err != nil {
				return "", err
			}
			return v.o.Keychain.Get(service, v.user())
		})
		if err == nil && back == text {
			return key, durable.Replace(v.markFile(), []byte("the key is in the keychain, as "+service+" / "+v.user()+"\n"))
		}
	}
	return key, durable.Replace(v.keyFile(), []byte(text+"\n"))
}

const (
	keySize = 32
	service = "mcp-gate"
	// patience is how long a keychain may take: a person may have to unlock it.
	patience = 30 * time.Second
)

// user tells homes apart within one keychain.
func (v *Vault) user() string {
	dir, err := filepath.Abs(v.o.Dir)
	if err != nil {
		dir = v.o.Dir
	}
	return cmp.Or(filepath.ToSlash(dir), "home")
}

// ask bounds a keychain that does not answer. What is abandoned ends with the
// process at the latest.
func (v *Vault) ask(f func() (string, error)) (string, error) {
	type answer struct {
		text string
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		text, err := f()
		got <- answer{text, err}
	}()
	select {
	case a := <-got:
		return a.text, a.err
	case <-time.After(patience):
		return "", fmt.Errorf("it did not answer within %v", patience)
	}
}

func decodeKey(text, from string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil || len(key) != keySize {
		return nil, fmt.Errorf("what %s holds is no key", from)
	}
	return key, nil
}
