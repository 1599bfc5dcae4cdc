package artifacts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-gate/mcp-gate/internal/durable"
)

// FileRows keeps rows as one small JSON file each, in the folder rows of the
// artifacts' own. It is safe for concurrent use, also by several processes.
type FileRows struct {
	dir *os.Root

	mu   sync.Mutex         // guards seen
	seen map[string]content // what rows point to, which never changes
}

type content struct {
	digest string
	size   int64
}

const maxRowFile = 1 << 20

// OpenFileRows opens the rows in dir, which is created with mode 0700 where it
// is not there. Close them when done.
func OpenFileRows(dir string) (*FileRows, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open artifact rows: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open artifact rows: %w", err)
	}
	return &FileRows{dir: root, seen: map[string]content{}}, nil
}

// Close releases the folder.
func (r *FileRows) Close() error { return r.dir.Close() }

func rowName(id string) string { return id + ".json" }

// Put implements [Rows].
func (r *FileRows) Put(_ context.Context, a Artifact) error {
	if !validID(a.ID) {
		return fmt.Errorf("put artifact row: bad id %.40q", a.ID)
	}
	b, err := json.Marshal(a)
	if err == nil && len(b) > maxRowFile {
		err = fmt.Errorf("its row has %d bytes, more than %d", len(b), maxRowFile)
	}
	if err == nil {
		err = r.write(a.ID, b, true)
	}
	if err != nil {
		return fmt.Errorf("put row of artifact %s: %w", a.ID, err)
	}
	return nil
}

// write puts a whole row file in place, or leaves what was there.
func (r *FileRows) write(id string, b []byte, isNew bool) error {
	name := rowName(id)
	if isNew {
		if _, err := r.dir.Lstat(name); err == nil {
			return fs.ErrExist
		}
	}
	temp := fmt.Sprintf(".%s.%d.tmp", id, os.Getpid())
	f, err := r.dir.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = r.dir.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(err, r.dir.Remove(temp))
	}
	return durable.SyncRoot(r.dir)
}

// Get implements [Rows].
func (r *FileRows) Get(_ context.Context, id string) (Artifact, error) {
	if !validID(id) {
		return Artifact{}, ErrNotFound
	}
	return r.read(id)
}

func (r *FileRows) read(id string) (Artifact, error) {
	f, err := openPlain(r.dir, rowName(id))
	if err != nil {
		return Artifact{}, fmt.Errorf("row of artifact: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxRowFile+1))
	if err != nil {
		return Artifact{}, fmt.Errorf("read row of artifact: %w", err)
	}
	var a Artifact
	if err := json.Unmarshal(b, &a); err != nil {
		return Artifact{}, fmt.Errorf("row of artifact %s: %w: %v", id, ErrNotFound, err)
	}
	if a.ID != id { // somebody renamed it
		return Artifact{}, ErrNotFound
	}
	return a, nil
}

// List implements [Rows]. A row that cannot be read is left out.
func (r *FileRows) List(_ context.Context, principal string) ([]Artifact, error) {
	ids, err := r.ids()
	if err != nil {
		return nil, err
	}
	var list []Artifact
	for _, id := range ids {
		a, err := r.read(id)
		if err == nil && (principal == "" || a.Principal == principal) {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b Artifact) int {
		if c := b.Created.Compare(a.Created); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return list, nil
}

func (r *FileRows) ids() ([]string, error) {
	entries, err := fs.ReadDir(r.dir.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("list artifact rows: %w", err)
	}
	var ids []string
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), ".json"); ok && validID(id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// alone holds off other changes of rows that are there: one that is touched
// must not come back after it was deleted.
func (r *FileRows) alone() (unlock func(), err error) {
	f, err := r.dir.OpenFile("lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock artifact rows: %w", err)
	}
	unlock = func() { _ = f.Close() } // which gives the lock back
	if err := lockFile(f, true, true); err != nil {
		unlock()
		return nil, fmt.Errorf("lock artifact rows: %w", err)
	}
	return unlock, nil
}

// Touch implements [Rows].
func (r *FileRows) Touch(ctx context.Context, id string, expires time.Time) error {
	unlock, err := r.alone()
	if err != nil {
		return err
	}
	defer unlock()
	a, err := r.Get(ctx, id)
	if err != nil {
		return err
	}
	a.Expires = expires
	b, err := json.Marshal(a)
	if err == nil {
		err = r.write(id, b, false)
	}
	if err != nil {
		return fmt.Errorf("touch row of artifact %s: %w", id, err)
	}
	return nil
}

// Delete implements [Rows].
func (r *FileRows) Delete(_ context.Context, id string) error {
	if !validID(id) {
		return nil
	}
	unlock, err := r.alone()
	if err != nil {
		return err
	}
	defer unlock()
	r.mu.Lock()
	delete(r.seen, id)
	r.mu.Unlock()
	if err := r.dir.Remove(rowName(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete row of artifact %s: %w", id, err)
	}
	return durable.SyncRoot(r.dir)
}

// Usage implements [Rows].
func (r *FileRows) Usage(_ context.Context) (Usage, error) {
	ids, err := r.ids()
	if err != nil {
		return Usage{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var u Usage
	counted := map[string]bool{}
	for _, id := range ids {
		c, ok := r.seen[id]
		if !ok {
			a, err := r.read(id)
			if err != nil {
				continue
			}
			c = content{a.Digest, a.Size}
			r.seen[id] = c
		}
		u.Artifacts++
		if !counted[c.digest] {
			counted[c.digest] = true
			u.Bytes += c.size
		}
	}
	return u, nil
}

// clean removes what writers that died left behind: files older than before.
func (r *FileRows) clean(before time.Time) {
	entries, err := fs.ReadDir(r.dir.FS(), ".")
	if err != nil {
		return
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), ".tmp") && info.ModTime().Before(before) {
			_ = r.dir.Remove(e.Name()) // the next opening tries again
		}
	}
}

// openPlain opens a regular file for reading and follows no link. The error
// wraps [ErrNotFound] where there is none.
func openPlain(dir *os.Root, name string) (*os.File, error) {
	before, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, ErrNotFound
	}
	f, err := dir.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	after, err := f.Stat()
	if err != nil || !after.Mode().IsRegular() {
		return nil, errors.Join(ErrNotFound, err, f.Close())
	}
	// A replacement by rename is a new file of the same name; one by a link is
	// what must not be followed.
	if now, err := dir.Lstat(name); err != nil || !now.Mode().IsRegular() || !os.SameFile(now, after) && !os.SameFile(before, after) {
		return nil, errors.Join(ErrNotFound, f.Close())
	}
	return f, nil
}
