// Package checkpoint takes copies of local files before a call changes them,
// shows what changed, and puts the copies back.
//
// It is the only code of the product that writes a person's files, and it
// does so only in [Keeper.Restore], only inside the roots it was given, and
// only where what is there is still what the call left. It follows no links:
// each directory on the way is entered through a descriptor and compared with
// what its name said a moment before, so that a name swapped in between is an
// error and never another file. Hard links, pipes, devices and large files are
// refused, since a copy of them would promise what it cannot keep.
//
// It does not know tools, arguments or people; which paths a call names, its
// caller finds out. Start with [Open].
package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mcp-gate/mcp-gate/internal/durable"
	"github.com/mcp-gate/mcp-gate/internal/flock"
)

// What one checkpoint may hold. A file beyond is refused, and the call then
// has no way back.
const (
	MaxFile  = 16 << 20 // bytes of one file
	MaxTotal = 64 << 20 // bytes of all files of a checkpoint
	MaxFiles = 256
)

// A Keeper takes and restores copies. Safe for concurrent use; two restores of
// one file at once are refused by what they find, not by a lock.
type Keeper struct {
	blobs string // directory of the copies, by SHA-256
	roots []root
	// step is called with the name of each point at which somebody else may
	// change the files. Tests set it before use.
	step func(point string)
}

type root struct {
	names []string // the directory as configured, and with its links resolved
}

// Open returns a keeper that copies into dir and touches nothing outside the
// roots, which are absolute paths of directories.
func Open(dir string, roots []string) (*Keeper, error) {
	k := &Keeper{blobs: dir, step: func(string) {}}
	for _, name := range roots {
		if !filepath.IsAbs(name) {
			return nil, fmt.Errorf("checkpoint: root %s is not an absolute path", name)
		}
		r := root{names: []string{filepath.Clean(name)}}
		if real, err := filepath.EvalSymlinks(name); err == nil && real != r.names[0] {
			r.names = append(r.names, real)
		}
		k.roots = append(k.roots, r)
	}
	return k, nil
}

// Covers reports whether an absolute path lies inside one of the roots, going
// by its name; [Keeper.Take] follows no links and has the last word.
func (k *Keeper) Covers(path string) bool {
	clean := filepath.Clean(path)
	for _, r := range k.roots {
		for _, name := range r.names {
			if rel, err := filepath.Rel(name, clean); err == nil && filepath.IsLocal(rel) && rel != "." {
				return true
			}
		}
	}
	return false
}

// A Copy is one checkpoint as plain data; the contents are with the keeper.
type Copy struct {
	Files []File `json:"files"`
}

// A File is what a checkpoint knows of one path.
type File struct {
	Root string `json:"root"`
	Path string `json:"path"` // below Root, with slashes
	// Before is the file as the copy has it.
	Before State `json:"before"`
	// NewDirs are the directories above it that were not there, outermost first.
	NewDirs []string `json:"new_dirs,omitempty"`
	// After is the file as the call left it; nil until [Keeper.Seal].
	After *State `json:"after,omitempty"`
}

// Name returns the absolute path.
func (f File) Name() string { return filepath.Join(f.Root, filepath.FromSlash(f.Path)) }

// A State is what is at a path: nothing, or a regular file.
type State struct {
	Absent bool        `json:"absent,omitempty"`
	Mode   fs.FileMode `json:"mode,omitempty"` // permission bits
	Size   int64       `json:"size,omitempty"`
	SHA256 string      `json:"sha256,omitempty"` // hex
	// Odd says what else is there, where it is no plain file. It equals nothing.
	Odd string `json:"odd,omitempty"`
}

func (s State) same(t State) bool { return s == t && s.Odd == "" }

// left reports whether what is at a path now is what the call left: the same
// file, or a directory that the call made. What is in that one is not compared;
// nobody removes it unless it is empty.
func (f File) left(now State) bool { return now.same(*f.After) || f.madeDir() && now.Odd == directory }

func (f File) madeDir() bool { return f.Before.Absent && f.After.Odd == directory }

const directory = "a directory" // a State.Odd

// A RefusedError says why a path cannot be copied or restored.
type RefusedError struct{ Path, Reason string }

func (e *RefusedError) Error() string { return fmt.Sprintf("checkpoint %s: %s", e.Path, e.Reason) }

// A DriftError says that a file is no longer what the call left, so that
// putting the copy back would undo somebody else's work.
type DriftError struct {
	Path string
	// Aside is where the content that was found is kept, if it is not in its
	// place any more; "" where it is.
	Aside string
}

func (e *DriftError) Error() string {
	text := fmt.Sprintf("restore %s: it is no longer what the call left", e.Path)
	if e.Aside != "" {
		text += "; what the call left is at " + e.Aside
	}
	return text
}

// Take copies the files at the absolute paths, durably, before a call. A path
// at which there is nothing is recorded as absent. One path that cannot be
// copied is a *[RefusedError], and there is no checkpoint then.
func (k *Keeper) Take(paths []string) (Copy, error) {
	if len(paths) > MaxFiles {
		return Copy{}, &RefusedError{paths[MaxFiles], fmt.Sprintf("more than %d files", MaxFiles)}
	}
	var c Copy
	var total int64
	seen := map[string]bool{}
	for _, path := range paths {
		f, err := k.locate(path)
		if err != nil {
			return Copy{}, err
		}
		if seen[f.Name()] {
			continue
		}
		seen[f.Name()] = true
		state, content, err := k.look(&f)
		if err != nil {
			return Copy{}, err
		}
		if state.Odd != "" {
			return Copy{}, &RefusedError{path, "it is " + state.Odd}
		}
		if total += state.Size; total > MaxTotal {
			return Copy{}, &RefusedError{path, fmt.Sprintf("all files together are larger than %d bytes", MaxTotal)}
		}
		if f.Before = state; !state.Absent {
			if err := k.keep(state.SHA256, content); err != nil {
				return Copy{}, fmt.Errorf("checkpoint %s: %w", path, err)
			}
		}
		c.Files = append(c.Files, f)
	}
	return c, nil
}

// locate finds the root of a path without looking at the disk.
func (k *Keeper) locate(path string) (File, error) {
	if !filepath.IsAbs(path) {
		return File{}, &RefusedError{path, "it is not an absolute path"}
	}
	if strings.ContainsRune(path, 0) {
		return File{}, &RefusedError{path, "it contains a zero byte"}
	}
	for _, r := range k.roots {
		for _, name := range r.names {
			rel, err := filepath.Rel(name, filepath.Clean(path))
			if err == nil && rel != "." && filepath.IsLocal(rel) {
				return File{Root: name, Path: filepath.ToSlash(rel)}, nil
			}
		}
	}
	return File{}, &RefusedError{path, "it is outside the roots"}
}

// look opens the file's directory and reads what is there.
func (k *Keeper) look(f *File) (State, []byte, error) {
	dir, missing, err := k.enter(*f)
	if err != nil {
		return State{}, nil, err
	}
	defer dir.Close()
	if len(missing) > 0 {
		f.NewDirs = missing
		return State{Absent: true}, nil, nil
	}
	return k.read(dir, f.Name(), base(f.Path))
}

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// enter walks to the directory of the file, a descriptor at a time. Directories
// that are not there are returned; dir is the last one that is.
func (k *Keeper) enter(f File) (dir *os.Root, missing []string, err error) {
	dir, err = os.OpenRoot(f.Root)
	if err != nil {
		return nil, nil, &RefusedError{f.Name(), err.Error()}
	}
	parts := strings.Split(f.Path, "/")
	for i, part := range parts[:len(parts)-1] {
		next, err := k.descend(dir, part)
		if errors.Is(err, fs.ErrNotExist) {
			for j := i; j < len(parts)-1; j++ {
				missing = append(missing, strings.Join(parts[:j+1], "/"))
			}
			return dir, missing, nil
		}
		dir.Close()
		if err != nil {
			return nil, nil, &RefusedError{f.Name(), err.Error()}
		}
		dir = next
	}
	return dir, nil, nil
}

func (k *Keeper) descend(dir *os.Root, name string) (*os.Root, error) {
	named, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !named.IsDir() {
		return nil, fmt.Errorf("%s is %s, not a directory", name, kind(named.Mode()))
	}
	k.step("directory")
	next, err := dir.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	opened, err := next.Stat(".")
	if err == nil && !os.SameFile(named, opened) {
		err = fmt.Errorf("%s was replaced while it was entered", name)
	}
	if err != nil {
		next.Close()
		return nil, err
	}
	return next, nil
}

// read returns the state and content of a name in dir. What is no plain file
// is told by Odd; an error means that it could not be told.
func (k *Keeper) read(dir *os.Root, path, name string) (State, []byte, error) {
	named, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return State{Absent: true}, nil, nil
	}
	if err != nil {
		return State{}, nil, &RefusedError{path, err.Error()}
	}
	if !named.Mode().IsRegular() {
		return State{Odd: kind(named.Mode())}, nil, nil
	}
	k.step("file")
	f, err := dir.OpenFile(name, os.O_RDONLY|noBlock, 0)
	if err != nil {
		return State{}, nil, &RefusedError{path, err.Error()}
	}
	defer f.Close()
	state, content, err := readOpen(f, named)
	if err != nil {
		return State{}, nil, &RefusedError{path, err.Error()}
	}
	return state, content, nil
}

// readOpen reads a file through its descriptor, provided that it is the one
// that was named.
func readOpen(f *os.File, named fs.FileInfo) (State, []byte, error) {
	before, err := f.Stat()
	if err != nil {
		return State{}, nil, err
	}
	links, err := linksOf(f, before)
	switch {
	case err != nil:
		return State{}, nil, err
	case !before.Mode().IsRegular() || !os.SameFile(named, before):
		return State{}, nil, errors.New("it was replaced while it was opened")
	case links != 1:
		return State{Odd: fmt.Sprintf("a file with %d names", links)}, nil, nil
	case before.Size() > MaxFile:
		return State{Odd: fmt.Sprintf("a file of %d bytes, more than %d", before.Size(), MaxFile)}, nil, nil
	}
	content, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return State{}, nil, err
	}
	after, err := f.Stat()
	if err != nil {
		return State{}, nil, err
	}
	if after.Size() != int64(len(content)) || !after.ModTime().Equal(before.ModTime()) || after.Mode() != before.Mode() {
		return State{}, nil, errors.New("it changed while it was read")
	}
	return State{Mode: before.Mode() & modeBits, Size: int64(len(content)), SHA256: hash(content)}, content, nil
}

// modeBits are what is restored of a mode.
const modeBits = fs.ModePerm

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func kind(m fs.FileMode) string {
	switch m & fs.ModeType {
	case fs.ModeSymlink:
		return "a symbolic link"
	case fs.ModeDir:
		return directory
	case fs.ModeNamedPipe:
		return "a pipe"
	case fs.ModeSocket:
		return "a socket"
	case 0:
		return "a file"
	}
	return "a device"
}

// keep writes a copy to its place, synced, unless it is there. Then it is as good
// as new, so that a sweep under way leaves it.
func (k *Keeper) keep(sum string, content []byte) (err error) {
	if err := os.MkdirAll(k.blobs, 0o700); err != nil {
		return err
	}
	unlock, err := flock.Lock(k.blobs + ".lock")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	path := filepath.Join(k.blobs, sum)
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		now := time.Now()
		return os.Chtimes(path, now, now)
	}
	return durable.Replace(path, content)
}

// content returns a copy, checked against its name.
func (k *Keeper) content(s State) ([]byte, error) {
	if s.Absent {
		return nil, nil
	}
	if len(s.SHA256) != 2*sha256.Size || strings.Trim(s.SHA256, "0123456789abcdef") != "" {
		return nil, fmt.Errorf("%q names no copy", s.SHA256)
	}
	b, err := os.ReadFile(filepath.Join(k.blobs, s.SHA256))
	if err != nil {
		return nil, err
	}
	if hash(b) != s.SHA256 {
		return nil, fmt.Errorf("the copy %s is damaged", s.SHA256)
	}
	return b, nil
}

// A Change is what a call did to one file.
type Change struct {
	Path string `json:"path"`
	Diff string `json:"diff"` // unified; "" where only the mode changed
}

// Seal records what the call left and returns the checkpoint with it, and the
// changes to those files that changed. A file that cannot be read any more, or
// is no plain file now, is recorded as odd and cannot be restored, but for a
// directory that was not there before and is empty.
func (k *Keeper) Seal(c Copy) (Copy, []Change, error) {
	sealed := Copy{Files: make([]File, len(c.Files))}
	var changes []Change
	for i, f := range c.Files {
		at := f
		now, content, err := k.look(&at)
		if err != nil {
			now = State{Odd: err.Error()}
		}
		f.After = &now
		sealed.Files[i] = f
		if now.same(f.Before) {
			continue
		}
		before, err := k.content(f.Before)
		if err != nil {
			return c, nil, fmt.Errorf("show what changed in %s: %w", f.Name(), err)
		}
		change := Change{Path: f.Name()}
		if change.Diff = "now: " + now.Odd + "\n"; now.Odd == "" {
			change.Diff = Diff(label(f.Path, f.Before), label(f.Path, now), before, content)
		}
		changes = append(changes, change)
	}
	return sealed, changes, nil
}

func label(path string, s State) string {
	if s.Absent {
		return os.DevNull
	}
	return path
}

// Sweep removes copies that were last made before the given time and that keep
// does not want. What another process makes meanwhile stays.
func (k *Keeper) Sweep(before time.Time, keep func(sha256 string) bool) error {
	entries, err := os.ReadDir(k.blobs)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sweep checkpoints: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if !keep(e.Name()) {
			errs = append(errs, k.sweep(filepath.Join(k.blobs, e.Name()), before))
		}
	}
	return errors.Join(errs...)
}

func (k *Keeper) sweep(path string, before time.Time) (err error) {
	unlock, err := flock.Lock(k.blobs + ".lock")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || !info.Mode().IsRegular() || !info.ModTime().Before(before) {
		return err
	}
	return os.Remove(path)
}
