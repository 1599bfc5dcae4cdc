package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/mcp-gate/mcp-gate/internal/durable"
)

// Names of files that a restore makes beside the one it restores. They begin
// with the same letters as its content's digest, so that two restores of
// different files in one directory do not meet.
const (
	newName   = ".mcp-gate-new-"
	asideName = ".mcp-gate-aside-"
)

// Restore puts the files of a sealed checkpoint back: bytes, permission bits
// and absence; not owner, times or extended attributes.
//
// It first compares every file with what the call left; if one differs, it is
// a *[DriftError] and nothing is touched. It compares again, under a name that
// nobody else uses, at the moment it takes a file out of its place, so that an
// edit made in between is found and put back.
//
// Files are restored one after the other; the paths of those that are done are
// returned also with an error. A restore that was interrupted can be repeated:
// files that are as before the call already count as done.
func (k *Keeper) Restore(c Copy) (restored []string, err error) {
	for _, f := range c.Files {
		if f.After == nil {
			return nil, &RefusedError{f.Name(), "nobody recorded what the call left"}
		}
		if _, err := k.drifted(f); err != nil {
			return nil, err
		}
	}
	for _, f := range c.Files {
		done, err := k.drifted(f)
		if err == nil && !done {
			k.step("compared")
			err = k.restore(f)
		}
		if err != nil {
			return restored, err
		}
		if !done {
			restored = append(restored, f.Name())
		}
	}
	return restored, nil
}

// drifted compares a file with what the call left; done says that it is as
// before the call already.
func (k *Keeper) drifted(f File) (done bool, err error) {
	at := f
	now, _, err := k.look(&at)
	switch {
	case err != nil:
		return false, err
	case now.same(f.Before):
		return true, nil
	case f.left(now):
		return false, k.emptied(f)
	case now.Absent && k.interrupted(f):
		return false, nil
	}
	return false, &DriftError{Path: f.Name()}
}

// interrupted reports whether an earlier restore took what the call left out
// of its place and was killed before it put the copy there.
func (k *Keeper) interrupted(f File) bool {
	aside := f
	aside.Path = f.Path[:len(f.Path)-len(base(f.Path))] + asideOf(f)
	now, _, err := k.look(&aside)
	return err == nil && f.left(now)
}

// emptied is an error where the call made a directory and there is something
// in it, whoever put it there.
func (k *Keeper) emptied(f File) error {
	if !f.madeDir() {
		return nil
	}
	parent, _, err := k.enter(f)
	if err != nil {
		return err
	}
	defer parent.Close()
	dir, err := k.descend(parent, base(f.Path))
	if err != nil {
		return &DriftError{Path: f.Name()}
	}
	defer dir.Close()
	d, err := dir.Open(".")
	if err != nil {
		return &RefusedError{f.Name(), err.Error()}
	}
	defer d.Close()
	if names, err := d.Readdirnames(1); len(names) > 0 {
		return &RefusedError{f.Name(), "the directory that the call made is not empty: empty it, or leave it"}
	} else if !errors.Is(err, io.EOF) {
		return &RefusedError{f.Name(), err.Error()}
	}
	return nil
}

func asideOf(f File) string { return asideName + hash([]byte(f.Path))[:16] }
func newOf(f File) string   { return newName + hash([]byte(f.Path))[:16] }

func (k *Keeper) restore(f File) error {
	content, err := k.content(f.Before)
	if err != nil {
		return fmt.Errorf("restore %s: %w", f.Name(), err)
	}
	dir, missing, err := k.enter(f)
	if err != nil {
		return err
	}
	defer dir.Close()
	if len(missing) > 0 {
		return &DriftError{Path: f.Name()}
	}
	if !f.Before.Absent {
		if err := writeNew(dir, newOf(f), content, f.Before.Mode); err != nil {
			return fmt.Errorf("restore %s: %w", f.Name(), err)
		}
		defer dir.Remove(newOf(f)) // its second name is the file's by then
	}
	if !f.After.Absent {
		if err := k.takeOut(dir, f); err != nil {
			return err
		}
	}
	k.step("taken out")
	if err := k.putIn(dir, f); err != nil {
		return err
	}
	if err := durable.SyncRoot(dir); err != nil {
		return fmt.Errorf("restore %s: %w", f.Name(), err)
	}
	return k.removeDirs(f)
}

// writeNew writes the copy under a name of our own, synced. A file of that
// name is what an interrupted restore left, and is never a link that leads
// elsewhere: it is removed and made anew.
func writeNew(dir *os.Root, name string, content []byte, mode fs.FileMode) error {
	if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Chmod(mode)
	}
	return errors.Join(err, f.Sync(), f.Close())
}

// takeOut moves what is at the file's name aside, looks at it there, and puts
// it back where it is not what the call left.
func (k *Keeper) takeOut(dir *os.Root, f File) error {
	name, aside := base(f.Path), asideOf(f)
	if _, err := dir.Lstat(aside); err == nil {
		if _, err := dir.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return nil // an interrupted restore did it
		}
		return &RefusedError{f.Name(), aside + " is in the way beside it"}
	}
	if err := dir.Rename(name, aside); err != nil {
		return &DriftError{Path: f.Name()}
	}
	k.step("aside")
	now, _, err := k.read(dir, f.Name(), aside)
	if err == nil && f.left(now) {
		return nil
	}
	return k.putBack(dir, f)
}

// putBack undoes takeOut: what was moved aside goes back, unless something
// else is in its place by now.
func (k *Keeper) putBack(dir *os.Root, f File) error {
	name, aside := base(f.Path), asideOf(f)
	drift := &DriftError{Path: f.Name()}
	if _, err := dir.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		drift.Aside = aside
		return drift
	}
	// What is aside may be of any kind, a link or a directory too, so that a
	// second name is not always possible.
	if err := dir.Rename(aside, name); err != nil {
		drift.Aside = aside
		return errors.Join(drift, err)
	}
	return drift
}

// putIn gives the copy its place. A second name, unlike a rename, fails where
// somebody made a file there in the meantime.
func (k *Keeper) putIn(dir *os.Root, f File) error {
	name, aside := base(f.Path), asideOf(f)
	if !f.Before.Absent {
		if err := dir.Link(newOf(f), name); err != nil {
			drift := &DriftError{Path: f.Name()}
			if f.After.Absent {
				return errors.Join(drift, err)
			}
			return errors.Join(k.putBack(dir, f), err)
		}
		if err := dir.Remove(newOf(f)); err != nil {
			return fmt.Errorf("restore %s: %w", f.Name(), err)
		}
	}
	if f.After.Absent {
		return nil
	}
	if err := dir.Remove(aside); err != nil {
		if f.madeDir() { // something was put into it since it was found empty
			return errors.Join(k.putBack(dir, f), err)
		}
		return fmt.Errorf("restore %s: %w", f.Name(), err)
	}
	return nil
}

// removeDirs removes the directories that the call made, as far as they are
// empty.
func (k *Keeper) removeDirs(f File) error {
	for _, path := range slices.Backward(f.NewDirs) {
		dir, missing, err := k.enter(File{Root: f.Root, Path: path})
		if err != nil {
			return err
		}
		if len(missing) == 0 {
			// One that is not empty holds somebody else's files and stays.
			if info, err := dir.Lstat(base(path)); err == nil && info.IsDir() {
				_ = dir.Remove(base(path))
			}
		}
		dir.Close()
	}
	return nil
}
