package artifacts

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/durable"
	"github.com/mcp-gate/mcp-gate/internal/ids"
)

var errBusy = errors.New("somebody else has the lock")

// Options are what a [Store] is handed. The zero value of a bound is its
// default.
type Options struct {
	Quota  int64         // bytes kept at most, all principals together; default 1 GiB
	Keep   time.Duration // how long an artifact is kept; default 7 days
	Grace  time.Duration // how old a file without a row must be to be removed; default 1 hour
	Now    func() time.Time
	Random io.Reader
	Log    *slog.Logger
}

// Store keeps contents by their digest, in files of mode 0600 under folders of
// mode 0700, and says in rows whose they are. Equal contents are kept once. It
// is safe for concurrent use, also by several processes over one folder.
//
// A file is written and synced before its row, and a row is removed before its
// file, so that whatever dies when, no row is without its whole file.
type Store struct {
	dir  *os.Root
	rows Rows
	o    Options

	// gate is held for reading while a content gets its name and its row, and
	// for writing while contents without rows are removed; the lock file says
	// the same to other processes.
	gate sync.RWMutex

	mu       sync.Mutex // guards what follows
	verified map[string]bool
	reading  map[string]int // open handles by digest
}

const lockName = "lock"

// Open opens the store in dir, which is created where it is not there, and
// removes what died half-done in it. Now, Random and Log of the options must
// be set. Close it when done; rows stay the caller's.
func Open(ctx context.Context, dir string, rows Rows, o Options) (*Store, error) {
	if o.Quota == 0 {
		o.Quota = 1 << 30
	}
	if o.Keep == 0 {
		o.Keep = 7 * 24 * time.Hour
	}
	if o.Grace == 0 {
		o.Grace = time.Hour
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open artifacts: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open artifacts: %w", err)
	}
	s := &Store{dir: root, rows: rows, o: o, verified: map[string]bool{}, reading: map[string]int{}}
	for _, sub := range []string{"files", "writing"} {
		if err := root.Mkdir(sub, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, errors.Join(fmt.Errorf("open artifacts: %w", err), root.Close())
		}
	}
	if _, err := s.Collect(ctx); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return s, nil
}

// Close releases the folder. Handles that are open stay readable.
func (s *Store) Close() error { return s.dir.Close() }

// Meta is what the keeper of a content knows about it.
type Meta struct {
	Media     string // media type; "" where unknown
	URI       string
	Classes   engagement.EgressSet
	Withheld  bool
	Principal string
	Session   string
	Origin    Origin
	Tables    []Table // what may be said of it, see [Tables]; bounded to 64 KiB of JSON
	Width     int     // of a picture
	Height    int
	Expires   time.Time // zero for the store's own time
}

// Keep keeps what r yields, which may be larger than memory.
func (s *Store) Keep(ctx context.Context, r io.Reader, m Meta) (Artifact, error) {
	w, err := s.NewWriter(ctx, m)
	if err != nil {
		return Artifact{}, err
	}
	if _, err := io.Copy(w, contextReader{ctx, r}); err != nil {
		return Artifact{}, errors.Join(err, w.Abort())
	}
	return w.Commit(ctx)
}

// KeepBytes keeps b.
func (s *Store) KeepBytes(ctx context.Context, b []byte, m Meta) (Artifact, error) {
	return s.Keep(ctx, bytes.NewReader(b), m)
}

type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (r contextReader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(b)
}

// A Writer takes a content in pieces. It is not safe for concurrent use. Either
// Commit or Abort must be called.
type Writer struct {
	s    *Store
	meta Meta
	name string // of the file that is being written
	f    *os.File
	sum  hash.Hash
	size int64
	used int64 // in the store besides
	made bool  // room was made for it
}

// NewWriter begins a content.
func (s *Store) NewWriter(ctx context.Context, m Meta) (*Writer, error) {
	used, err := s.rows.Usage(ctx)
	if err != nil {
		return nil, err
	}
	id, err := ids.New("a_", s.o.Random)
	if err != nil {
		return nil, err
	}
	unlock, err := s.lock(false)
	if err != nil {
		return nil, err
	}
	defer unlock()
	name := "writing/" + id
	f, err := s.dir.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("keep artifact: %w", err)
	}
	if err := lockFile(f, true, true); err != nil {
		return nil, errors.Join(fmt.Errorf("keep artifact: %w", err), f.Close(), s.dir.Remove(name))
	}
	return &Writer{s: s, meta: m, name: name, f: f, sum: sha256.New(), used: used.Bytes}, nil
}

// Write takes the next piece. A *[QuotaError] says that it does not fit.
func (w *Writer) Write(b []byte) (int, error) {
	if err := w.fits(w.size + int64(len(b))); err != nil {
		return 0, err
	}
	n, err := w.f.Write(b)
	w.sum.Write(b[:n])
	w.size += int64(n)
	if err != nil {
		return n, fmt.Errorf("write artifact: %w", err)
	}
	return n, nil
}

// fits makes room once, by removing what ran out, where need would not fit. It
// has no context to obey, being called by Write; it only touches local files.
func (w *Writer) fits(need int64) error {
	if w.used+need <= w.s.o.Quota {
		return nil
	}
	if !w.made {
		w.made = true
		if _, err := w.s.Collect(context.Background()); err != nil {
			return err
		}
		u, err := w.s.rows.Usage(context.Background())
		if err != nil {
			return err
		}
		w.used = u.Bytes
	}
	if w.used+need <= w.s.o.Quota {
		return nil
	}
	return &QuotaError{Need: need, Used: w.used, Quota: w.s.o.Quota}
}

// Abort gives up what was written.
func (w *Writer) Abort() error {
	if err := errors.Join(w.f.Close(), w.s.dir.Remove(w.name)); err != nil {
		return fmt.Errorf("give up artifact: %w", err)
	}
	return nil
}

// Commit makes what was written an artifact. Where it fails nothing is kept.
func (w *Writer) Commit(ctx context.Context) (Artifact, error) {
	s := w.s
	if err := w.f.Sync(); err != nil {
		return Artifact{}, errors.Join(fmt.Errorf("sync artifact: %w", err), w.Abort())
	}
	a, err := w.artifact()
	if err != nil {
		return Artifact{}, errors.Join(err, w.Abort())
	}
	unlock, err := s.lock(false)
	if err != nil {
		return Artifact{}, errors.Join(err, w.Abort())
	}
	defer unlock()
	if err := w.place(a.Digest); err != nil {
		return Artifact{}, err
	}
	if err := s.rows.Put(ctx, a); err != nil {
		return Artifact{}, err // a file without a row is collected later
	}
	return a, nil
}

func (w *Writer) artifact() (Artifact, error) {
	m, now := w.meta, w.s.o.Now()
	id, err := ids.New("a_", w.s.o.Random)
	if err != nil {
		return Artifact{}, err
	}
	if m.Media == "" {
		m.Media = "application/octet-stream"
	}
	if m.Expires.IsZero() {
		m.Expires = now.Add(w.s.o.Keep)
	}
	return Artifact{
		ID: id, Digest: hex.EncodeToString(w.sum.Sum(nil)), Size: w.size, Media: m.Media, URI: m.URI, Classes: m.Classes,
		Withheld: m.Withheld, Principal: m.Principal, Session: m.Session, Origin: m.Origin, Created: now, Expires: m.Expires,
		Width: m.Width, Height: m.Height, Tables: boundTables(m.Tables),
	}, nil
}

// place gives the written file the name of its digest. One that is there
// already has the same content; being replaced, it is as young as this one.
func (w *Writer) place(digest string) error {
	s := w.s
	folder := "files/" + digest[:2]
	made := s.dir.Mkdir(folder, 0o700)
	if made != nil && !errors.Is(made, fs.ErrExist) {
		return errors.Join(fmt.Errorf("keep artifact: %w", made), w.Abort())
	}
	if err := w.f.Close(); err != nil {
		return errors.Join(fmt.Errorf("keep artifact: %w", err), s.dir.Remove(w.name))
	}
	if err := s.dir.Rename(w.name, fileName(digest)); err != nil {
		return errors.Join(fmt.Errorf("keep artifact: %w", err), s.dir.Remove(w.name))
	}
	s.mu.Lock()
	delete(s.verified, digest)
	s.mu.Unlock()
	err := s.syncFolder(folder)
	if made == nil {
		err = errors.Join(err, s.syncFolder("files"))
	}
	return err
}

func (s *Store) syncFolder(name string) error {
	sub, err := s.dir.OpenRoot(name)
	if err != nil {
		return fmt.Errorf("sync artifacts: %w", err)
	}
	return errors.Join(durable.SyncRoot(sub), sub.Close())
}

func fileName(digest string) string { return "files/" + digest[:2] + "/" + digest }

// lock holds off, or waits for, the collection of files; alone is the
// collection itself.
func (s *Store) lock(alone bool) (unlock func(), err error) {
	f, err := s.dir.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock artifacts: %w", err)
	}
	if alone {
		s.gate.Lock()
	} else {
		s.gate.RLock()
	}
	release := func() {
		_ = f.Close() // which gives the lock back
		if alone {
			s.gate.Unlock()
		} else {
			s.gate.RUnlock()
		}
	}
	if err := lockFile(f, alone, true); err != nil {
		release()
		return nil, fmt.Errorf("lock artifacts: %w", err)
	}
	return release, nil
}

// Get returns the artifact of an id for its principal. Every reason not to is
// [ErrNotFound].
func (s *Store) Get(ctx context.Context, id, principal string) (Artifact, error) {
	if !validID(id) {
		return Artifact{}, ErrNotFound
	}
	a, err := s.rows.Get(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return Artifact{}, ErrNotFound
	}
	if err != nil {
		return Artifact{}, err
	}
	if a.ID != id || a.Principal != principal || !s.o.Now().Before(a.Expires) || !validDigest(a.Digest) {
		return Artifact{}, ErrNotFound
	}
	return a, nil
}

func validDigest(d string) bool {
	b, err := hex.DecodeString(d)
	return err == nil && len(b) == sha256.Size && d == strings.ToLower(d)
}

// Find returns the one artifact of a principal whose id begins so, as people
// shorten ids. None and several are both [ErrNotFound].
func (s *Store) Find(ctx context.Context, beginning, principal string) (Artifact, error) {
	if validID(beginning) {
		return s.Get(ctx, beginning, principal)
	}
	list, err := s.List(ctx, principal)
	if err != nil {
		return Artifact{}, err
	}
	var found []Artifact
	for _, a := range list {
		if len(beginning) > 2 && strings.HasPrefix(a.ID, beginning) {
			found = append(found, a)
		}
	}
	if len(found) != 1 {
		return Artifact{}, ErrNotFound
	}
	return found[0], nil
}

// List returns the artifacts of a principal that have not run out, newest first.
func (s *Store) List(ctx context.Context, principal string) ([]Artifact, error) {
	list, err := s.rows.List(ctx, principal)
	if err != nil {
		return nil, err
	}
	kept := list[:0]
	for _, a := range list {
		if s.o.Now().Before(a.Expires) {
			kept = append(kept, a)
		}
	}
	return kept, nil
}

// Remove removes an artifact of a principal, and its file unless another has
// the same content.
func (s *Store) Remove(ctx context.Context, id, principal string) error {
	a, err := s.Get(ctx, id, principal)
	if err != nil {
		return err
	}
	if err := s.rows.Delete(ctx, a.ID); err != nil {
		return err
	}
	_, err = s.collect(ctx, func(digest string, _ time.Time) bool { return digest == a.Digest })
	return err
}

// Extend keeps an artifact of a principal for the store's time from now on, and
// never for less than it would have been kept.
func (s *Store) Extend(ctx context.Context, id, principal string) error {
	a, err := s.Get(ctx, id, principal)
	if err != nil {
		return err
	}
	until := s.o.Now().Add(s.o.Keep)
	if !until.After(a.Expires) {
		return nil
	}
	if err := s.rows.Touch(ctx, id, until); err != nil {
		return notFound(err)
	}
	return nil
}

// Usage says how much is kept, and of how much.
func (s *Store) Usage(ctx context.Context) (used Usage, quota int64, err error) {
	used, err = s.rows.Usage(ctx)
	return used, s.o.Quota, err
}

// Collect removes the rows that ran out, files that no row points to, and
// what writers left that died. Files younger than the grace, and such as are
// being read by this process, stay for the next time; readers in others keep
// theirs until they close it. It returns how many files went.
func (s *Store) Collect(ctx context.Context) (int, error) {
	list, err := s.rows.List(ctx, "")
	if err != nil {
		return 0, err
	}
	now := s.o.Now()
	gone := map[string]bool{}
	for _, a := range list {
		if now.Before(a.Expires) {
			continue
		}
		if err := s.rows.Delete(ctx, a.ID); err != nil {
			return 0, err
		}
		gone[a.Digest] = true
	}
	if r, ok := s.rows.(*FileRows); ok {
		r.clean(now.Add(-s.o.Grace))
	}
	return s.collect(ctx, func(digest string, modified time.Time) bool {
		return gone[digest] || modified.Before(now.Add(-s.o.Grace))
	})
}

// collect removes the files that no row points to and that are due.
func (s *Store) collect(ctx context.Context, due func(digest string, modified time.Time) bool) (int, error) {
	unlock, err := s.lock(true)
	if err != nil {
		return 0, err
	}
	defer unlock()
	s.cleanWriting()
	list, err := s.rows.List(ctx, "")
	if err != nil {
		return 0, err
	}
	kept := map[string]bool{}
	for _, a := range list {
		kept[a.Digest] = true
	}
	removed := 0
	err = fs.WalkDir(s.dir.FS(), "files", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return nil // gone since
		}
		digest := e.Name()
		if kept[digest] || s.isRead(digest) || !due(digest, info.ModTime()) {
			return nil
		}
		if err := s.dir.Remove(path); err != nil {
			s.o.Log.Warn("an artifact's file stays", "file", digest, "err", err)
			return nil
		}
		removed++
		return nil
	})
	if err != nil {
		return removed, fmt.Errorf("collect artifacts: %w", err)
	}
	return removed, nil
}

func (s *Store) isRead(digest string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reading[digest] > 0
}

// cleanWriting removes the files of writers that died: nobody has their lock,
// nor is about to have it, the store's being held alone.
func (s *Store) cleanWriting() {
	entries, err := fs.ReadDir(s.dir.FS(), "writing")
	if err != nil {
		return
	}
	for _, e := range entries {
		name := "writing/" + e.Name()
		f, err := s.dir.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		free := lockFile(f, true, false) == nil
		_ = f.Close() // nothing was written through it
		if free {
			_ = s.dir.Remove(name) // the next collection tries again
		}
	}
}

// A Handle is the content of an artifact, open for reading. Collection leaves
// it alone until Close.
type Handle struct {
	Artifact
	f    *os.File
	s    *Store
	once sync.Once
}

// Open opens the whole content of an artifact, withheld or not: for another
// call that takes it as an argument, and for its owner. What a model reads goes
// through [Store.Read]. The first opening checks the content against its digest.
func (s *Store) Open(ctx context.Context, id, principal string) (*Handle, error) {
	a, err := s.Get(ctx, id, principal)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.reading[a.Digest]++
	s.mu.Unlock()
	h := &Handle{Artifact: a, s: s}
	if h.f, err = openPlain(s.dir, fileName(a.Digest)); err != nil {
		h.forget()
		return nil, notFound(err)
	}
	if err := s.verify(ctx, h); err != nil {
		_ = h.Close() // nothing was written through it
		return nil, notFound(err)
	}
	return h, nil
}

func notFound(err error) error {
	if errors.Is(err, ErrNotFound) {
		return ErrNotFound
	}
	return fmt.Errorf("open artifact: %w", err)
}

// verify compares the content with its digest, once in a process.
func (s *Store) verify(ctx context.Context, h *Handle) error {
	s.mu.Lock()
	done := s.verified[h.Digest]
	s.mu.Unlock()
	info, err := h.f.Stat()
	if err != nil {
		return fmt.Errorf("open artifact: %w", err)
	}
	if info.Size() != h.Size {
		s.o.Log.Error("an artifact's file is not what was kept", "artifact", h.ID, "want", h.Size, "have", info.Size())
		return ErrNotFound
	}
	if done {
		return nil
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, contextReader{ctx, io.NewSectionReader(h.f, 0, h.Size)}); err != nil {
		return fmt.Errorf("check artifact: %w", err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != h.Digest {
		s.o.Log.Error("an artifact's file is not what was kept", "artifact", h.ID)
		return ErrNotFound
	}
	s.mu.Lock()
	s.verified[h.Digest] = true
	s.mu.Unlock()
	return nil
}

// ReadAt implements [io.ReaderAt].
func (h *Handle) ReadAt(b []byte, off int64) (int, error) { return h.f.ReadAt(b, off) }

// Reader returns a reader of the whole content, independent of others.
func (h *Handle) Reader() *io.SectionReader { return io.NewSectionReader(h.f, 0, h.Size) }

// Close lets go of the content. Closing twice is no error.
func (h *Handle) Close() error {
	var err error
	h.once.Do(func() {
		h.forget()
		err = h.f.Close()
	})
	return err
}

func (h *Handle) forget() {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	if h.s.reading[h.Digest]--; h.s.reading[h.Digest] <= 0 {
		delete(h.s.reading, h.Digest)
	}
}
