package transport

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/mcp-gate/mcp-gate/gate"
	"github.com/mcp-gate/mcp-gate/internal/durable"
	"github.com/mcp-gate/mcp-gate/internal/flock"
	"github.com/mcp-gate/mcp-gate/policy"
)

// Token is what is kept of a bearer token: enough to know it again, and not
// enough to use it.
type Token struct {
	ID        string       `json:"id"`     // for people: 8 base32 characters
	SHA256    string       `json:"sha256"` // of the token, 64 hex digits
	Principal string       `json:"principal"`
	Scope     policy.Scope `json:"scope"`
	Profiles  []string     `json:"profiles"`         // names; "*" is every one, none is the default one
	Parent    string       `json:"parent,omitempty"` // the session that its sessions work for
	Created   time.Time    `json:"created"`

	digest []byte // the bytes of SHA256
}

// TokenFile keeps tokens in one JSON file, of which only its owner may read
// anything. It is safe for concurrent use, by processes too: one changes it at a
// time, under a lock beside the file, and what another changed is seen at once.
// It satisfies [Tokens].
type TokenFile struct {
	path string
	log  *slog.Logger
	now  func() time.Time
	rand io.Reader

	mu   sync.Mutex // guards what follows, and the file against other goroutines
	seen fs.FileInfo
	all  []Token // replaced, never changed
}

// OpenTokenFile returns the tokens in the file at path, which need not exist.
// Now and random may be nil for the system's own.
func OpenTokenFile(path string, log *slog.Logger, now func() time.Time, random io.Reader) (*TokenFile, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if now == nil {
		now = time.Now
	}
	if random == nil {
		random = rand.Reader
	}
	f := &TokenFile{path: path, log: log, now: now, rand: random}
	if err := f.load(); err != nil {
		return nil, err
	}
	return f, nil
}

// Lookup finds the token among those in the file now. While the file cannot be
// read, no token is known. The profiles must not be changed.
func (f *TokenFile) Lookup(token string) (gate.Identity, []string, bool) {
	sum := sha256.Sum256([]byte(token))
	var digest [2 * sha256.Size]byte
	hex.Encode(digest[:], sum[:])
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.load(); err != nil {
		f.log.Error("tokens cannot be read: none is accepted", "err", err)
		return gate.Identity{}, nil, false
	}
	var found *Token
	for i := range f.all { // all of them, so that the time tells nothing
		if subtle.ConstantTimeCompare(digest[:], f.all[i].digest) == 1 {
			found = &f.all[i]
		}
	}
	if found == nil {
		return gate.Identity{}, nil, false
	}
	return gate.Identity{Principal: found.Principal, Scope: found.Scope, Parent: found.Parent}, found.Profiles, true
}

// First mints a token if there is none at all, and otherwise returns "". The
// plain token is shown this once; the file keeps its digest.
func (f *TokenFile) First(principal string, scope policy.Scope) (plain string, err error) {
	err = f.change(func() (err error) {
		if len(f.all) > 0 {
			return nil
		}
		plain, _, err = f.add(Token{Principal: principal, Scope: scope, Profiles: []string{"*"}})
		return err
	})
	return plain, err
}

// Add mints a token for t's principal, scope, profiles and parent, and returns
// it, this once, with its id.
func (f *TokenFile) Add(t Token) (plain, id string, err error) {
	if t.Principal == "" {
		return "", "", errors.New("a token needs a principal")
	}
	err = f.change(func() (err error) {
		plain, id, err = f.add(t)
		return err
	})
	return plain, id, err
}

// change has edit change what is in the file now, while nobody else does.
func (f *TokenFile) change(edit func() error) (err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	unlock, err := flock.Lock(f.path + ".lock")
	if err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := f.load(); err != nil {
		return err
	}
	return edit()
}

func (f *TokenFile) add(t Token) (plain, id string, err error) {
	var secret [32]byte
	if _, err := io.ReadFull(f.rand, secret[:]); err != nil {
		return "", "", fmt.Errorf("make a token: %w", err)
	}
	plain = "mg_" + base64.RawURLEncoding.EncodeToString(secret[:]) // the prefix lets secret scanners find it
	sum := sha256.Sum256([]byte(plain))
	id = base32Lower.EncodeToString(sum[:5])
	t.ID, t.SHA256, t.Created = id, hex.EncodeToString(sum[:]), f.now().UTC().Truncate(time.Second)
	t.Profiles = slices.Clone(t.Profiles)
	if err := f.store(append(slices.Clone(f.all), t)); err != nil {
		return "", "", err
	}
	return plain, id, nil
}

// List returns the tokens in the order in which they were made.
func (f *TokenFile) List() ([]Token, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.load(); err != nil {
		return nil, err
	}
	return slices.Clone(f.all), nil
}

// Remove revokes the token with this id at once.
func (f *TokenFile) Remove(id string) error {
	return f.change(func() error {
		at := slices.IndexFunc(f.all, func(t Token) bool { return t.ID == id })
		if at < 0 {
			return &UnknownTokenError{id}
		}
		return f.store(slices.Delete(slices.Clone(f.all), at, at+1))
	})
}

// An UnknownTokenError says that there is no token with this id.
type UnknownTokenError struct{ ID string }

func (e *UnknownTokenError) Error() string { return fmt.Sprintf("there is no token %q", e.ID) }

// A LooseFileError says that others than its owner may read or write a file of
// secrets.
type LooseFileError struct {
	Path string
	Mode fs.FileMode
}

func (e *LooseFileError) Error() string {
	return fmt.Sprintf("%s is open to others (mode %04o): it must be 0600", e.Path, e.Mode.Perm())
}

type tokenFile struct {
	Tokens []Token `json:"tokens"`
}

// load reads the file if it is not the one that was read last.
func (f *TokenFile) load() error {
	info, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		f.seen, f.all = nil, nil
		return nil
	}
	if err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	if f.seen != nil && os.SameFile(f.seen, info) && f.seen.ModTime().Equal(info.ModTime()) &&
		f.seen.Size() == info.Size() && f.seen.Mode() == info.Mode() {
		return nil
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return &LooseFileError{f.path, info.Mode()}
	}
	b, err := os.ReadFile(f.path)
	if err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	var file tokenFile
	if err := json.Unmarshal(b, &file); err != nil {
		return fmt.Errorf("tokens: %s: %w", f.path, err)
	}
	for i := range file.Tokens {
		file.Tokens[i].digest = []byte(file.Tokens[i].SHA256)
	}
	f.seen, f.all = info, file.Tokens
	return nil
}

// store replaces the file in one step: a reader sees the old or the new one.
func (f *TokenFile) store(all []Token) error {
	b, err := json.MarshalIndent(tokenFile{all}, "", "  ")
	if err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	if err := durable.Replace(f.path, append(b, '\n')); err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	f.seen = nil // read again, so that what is used is what is kept
	return f.load()
}
