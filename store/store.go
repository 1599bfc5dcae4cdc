// Package store keeps what must outlive a gate process in one SQLite file that
// all gates of a home share: tickets, decisions, grants, spend, processes and
// the journal of changes that can be undone.
//
// It keeps and it locks; it decides nothing. What must happen once is a
// transaction, since the other side may be another process. The only SQL of
// the product is here.
//
// Start with [New], which touches no file: the database is made at the first
// use, so that a home in which nobody is ever asked has none.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/mcp-gate/mcp-gate/inbox"
)

// busyTimeout is how long a statement waits for another process's lock. A
// transaction here takes milliseconds; ten seconds of waiting mean that a
// foreign program holds the file.
const busyTimeout = 10 * time.Second

// readers is how many reads run beside the one writer of a process. More
// would only wait for the disk.
const readers = 4

// A Store is one home's database. Safe for concurrent use, by processes too.
type Store struct {
	// Guard, where it is set before the first use, is asked before the file is
	// opened; its error is what the use ends in.
	Guard func(ctx context.Context) error
	// OnChange, where it is set before the first use, is called before each change,
	// which waits for the disk.
	OnChange func()

	path string
	busy time.Duration // immutable; tests shorten it

	mu     sync.Mutex // guards what follows; held while the file is opened
	closed bool
	file   fs.FileInfo // the file that was opened
	write  *sql.DB     // one connection, so that a process's writers queue up fairly
	read   *sql.DB
}

// New returns the store in the file at path. Nothing is opened yet.
func New(path string) *Store { return &Store{path: path, busy: busyTimeout} }

// ErrClosed says that the store was closed.
var ErrClosed = errors.New("the store is closed")

// A NewerError says that a later version of this program wrote the database.
type NewerError struct {
	Path        string
	Have, Known int
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("%s has format %d, and this program knows up to %d", e.Path, e.Have, e.Known)
}

// Close closes the database. Calls after it return [ErrClosed]. It waits for
// calls that still run, since a connection in use is closed only where it is
// given back: nothing touches the files once Close has returned without error.
func (s *Store) Close() error {
	s.mu.Lock()
	write, read := s.write, s.read
	s.closed, s.write, s.read = true, nil, nil
	s.mu.Unlock()
	if write == nil {
		return nil
	}
	err := s.finish(read)
	return errors.Join(err, s.finish(write)) // last, since one that may only read leaves the log where it is
}

// finish closes a pool and waits until its last connection is.
func (s *Store) finish(pool *sql.DB) error {
	err := pool.Close()
	deadline := time.Now().Add(s.busy)
	for pause := 50 * time.Microsecond; pool.Stats().OpenConnections > 0; pause = min(2*pause, 10*time.Millisecond) {
		if time.Now().After(deadline) {
			return errors.Join(err, fmt.Errorf("close store %s: a call did not end within %s", s.path, s.busy))
		}
		time.Sleep(pause)
	}
	return err
}

// Here returns an error wrapping [inbox.ErrStoreGone] where the file that is open
// is no longer the one at the store's path. It opens none.
func (s *Store) Here() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.write == nil {
		return nil
	}
	return s.here()
}

// here looks at the path and not at the file: one without a name can be written
// all the same, and what another process decides never gets there.
func (s *Store) here() error {
	if info, err := os.Lstat(s.path); err != nil || !os.SameFile(info, s.file) {
		return fmt.Errorf("%w (%s)", inbox.ErrStoreGone, s.path)
	}
	return nil
}

// open returns the two pools, opening the file at the first call. An error is
// not remembered: the disk may be back at the next.
func (s *Store) open(ctx context.Context) (write, read *sql.DB, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Guard != nil && s.write == nil && !s.closed {
		s.mu.Unlock() // who is asked may look whether this very file is in its place
		err := s.Guard(ctx)
		s.mu.Lock()
		if err != nil {
			return nil, nil, fmt.Errorf("open store %s: %w", s.path, err)
		}
	}
	switch {
	case s.closed:
		return nil, nil, ErrClosed
	case s.write != nil:
		return s.write, s.read, s.here()
	}
	if err := s.prepareFile(); err != nil {
		return nil, nil, fmt.Errorf("open store %s: %w", s.path, err)
	}
	if s.file, err = os.Lstat(s.path); err != nil {
		return nil, nil, fmt.Errorf("open store %s: %w", s.path, err)
	}
	write, err = s.pool(1, "&_txlock=immediate")
	if err != nil {
		return nil, nil, fmt.Errorf("open store %s: %w", s.path, err)
	}
	if err := s.settle(ctx, func() error { return migrate(ctx, write, s.path) }); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open store %s: %w", s.path, err), write.Close())
	}
	if read, err = s.pool(readers, "&_pragma=query_only(1)"); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open store %s: %w", s.path, err), write.Close())
	}
	if err := s.here(); err != nil { // it may have gone while it was opened
		return nil, nil, errors.Join(fmt.Errorf("open store %s: %w", s.path, err), read.Close(), write.Close())
	}
	s.write, s.read = write, read
	return write, read, nil
}

// prepareFile makes the file with the mode it shall have, since SQLite would
// take the umask's; its WAL and shared memory get the mode of the database.
func (s *Store) prepareFile() error {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return err
	}
	log, _ := os.Lstat(s.path + "-wal") // before the file: whoever makes that makes its log later
	info, err := os.Lstat(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		if log != nil {
			return fmt.Errorf("it was deleted or moved away, and what belongs to it is still there: end every mcp-gate of this home, "+
				"then put the file back, or delete %[1]s-wal and %[1]s-shm to begin with an empty one", s.path)
		}
		f, err := os.OpenFile(s.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, fs.ErrExist) {
			return nil // another gate was first
		}
		if err != nil {
			return err
		}
		return f.Close()
	}
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("it is not a regular file")
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("it has mode %04o, want 0600: others could approve calls", info.Mode().Perm())
	}
	return nil
}

func (s *Store) pool(connections int, extra string) (*sql.DB, error) {
	path, err := filepath.Abs(s.path)
	if err != nil {
		return nil, err
	}
	// FULL syncs the log at each commit: what a call returned for is on the
	// disk. With NORMAL a power cut could undo a "running".
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: fmt.Sprintf(
		"_pragma=busy_timeout(%d)&_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=foreign_keys(1)%s",
		s.busy.Milliseconds(), extra)}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

// settle repeats f while it fails because the file is locked: several gates
// that start at once all switch it to WAL, for which SQLite does not wait.
func (s *Store) settle(ctx context.Context, f func() error) error {
	deadline := time.NewTimer(s.busy)
	defer deadline.Stop()
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		err := f()
		if !isBusy(err) {
			return err
		}
		again := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			again.Stop()
			return errors.Join(err, ctx.Err())
		case <-deadline.C:
			again.Stop()
			return err
		case <-again.C:
		}
	}
}

func isBusy(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && (e.Code()&0xff == sqlite3.SQLITE_BUSY || e.Code()&0xff == sqlite3.SQLITE_LOCKED)
}

// update runs f in one transaction that holds the write lock from its start.
func (s *Store) update(ctx context.Context, f func(tx *sql.Tx) error) error {
	if s.OnChange != nil {
		s.OnChange()
	}
	db, _, err := s.open(ctx)
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("store: commit: %w", err)
	}
	return nil
}

// reader returns the pool for reads.
func (s *Store) reader(ctx context.Context) (*sql.DB, error) {
	_, db, err := s.open(ctx)
	return db, err
}

// changes runs an update of one row if it is still as it was read, and reports
// whether it was.
func changes(ctx context.Context, tx *sql.Tx, query string, values ...any) (bool, error) {
	res, err := tx.ExecContext(ctx, query, values...)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n == 1, err
}

type scanner interface{ Scan(dest ...any) error }

// each hands every row of a query to f, until f fails.
func each(ctx context.Context, db *sql.DB, query string, values []any, f func(scanner) error) error {
	rows, err := db.QueryContext(ctx, query, values...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// list returns every row of a query; what names them in an error.
func list[T any](ctx context.Context, s *Store, what string, scan func(scanner) (T, error), query string, values ...any) ([]T, error) {
	db, err := s.reader(ctx)
	if err != nil {
		return nil, err
	}
	var out []T
	err = each(ctx, db, query, values, func(row scanner) error {
		v, err := scan(row)
		out = append(out, v)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", what, err)
	}
	return out, nil
}

// migrations bring a database from version i to i+1. They are only ever added
// to; all that are needed run in one transaction.
var migrations = []string{`
CREATE TABLE tickets (
	id          TEXT PRIMARY KEY,
	call_key    TEXT NOT NULL,
	server      TEXT NOT NULL,
	tool        TEXT NOT NULL,
	principal   TEXT NOT NULL,
	binding     TEXT NOT NULL,
	args        BLOB,
	view        TEXT NOT NULL,
	level       TEXT NOT NULL,
	repeatable  INTEGER NOT NULL,
	fallback    TEXT NOT NULL,
	launch      TEXT NOT NULL,
	owner       TEXT NOT NULL,
	created     INTEGER NOT NULL,
	state       TEXT NOT NULL,
	runner      TEXT NOT NULL,
	claim       TEXT NOT NULL,
	decided     INTEGER NOT NULL,
	started     INTEGER NOT NULL,
	finished    INTEGER NOT NULL,
	note        TEXT NOT NULL,
	result      BLOB,
	delivered   INTEGER NOT NULL,
	caller_gone INTEGER NOT NULL,
	revision    INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX ticket_open ON tickets (call_key) WHERE state IN ('pending', 'approved', 'running', 'unknown');
CREATE INDEX ticket_undelivered ON tickets (call_key, finished) WHERE state = 'done' AND delivered = 0;
CREATE INDEX ticket_state ON tickets (state, created);
CREATE INDEX ticket_created ON tickets (created);
CREATE INDEX ticket_tool ON tickets (server, tool, created);

CREATE TABLE decisions (
	seq     INTEGER PRIMARY KEY AUTOINCREMENT,
	ticket  TEXT NOT NULL,
	counted INTEGER NOT NULL,
	at      INTEGER NOT NULL,
	body    TEXT NOT NULL,
	channel TEXT NOT NULL,
	level   TEXT NOT NULL,
	verdict TEXT NOT NULL
) STRICT;
CREATE INDEX decision_ticket ON decisions (ticket, seq);

CREATE TABLE grants (
	seq       INTEGER PRIMARY KEY AUTOINCREMENT,
	id        TEXT NOT NULL UNIQUE,
	principal TEXT NOT NULL,
	signed    TEXT NOT NULL,
	narrowed  TEXT NOT NULL,
	used      INTEGER NOT NULL,
	last_used INTEGER NOT NULL,
	revoked   INTEGER NOT NULL,
	revision  INTEGER NOT NULL
) STRICT;
CREATE INDEX grant_principal ON grants (principal);

CREATE TABLE processes (
	id      TEXT PRIMARY KEY,
	pid     INTEGER NOT NULL,
	host    TEXT NOT NULL,
	birth   TEXT NOT NULL,
	started INTEGER NOT NULL
) STRICT;

CREATE TABLE spend (
	account TEXT PRIMARY KEY,
	calls   INTEGER NOT NULL,
	bytes   INTEGER NOT NULL
) STRICT;

CREATE TABLE taint (
	account TEXT PRIMARY KEY,
	marks   INTEGER NOT NULL
) STRICT;

CREATE TABLE sessions (
	id      TEXT PRIMARY KEY,
	record  TEXT NOT NULL,
	updated INTEGER NOT NULL
) STRICT;

CREATE TABLE journal (
	id        TEXT PRIMARY KEY,
	at        INTEGER NOT NULL,
	principal TEXT NOT NULL,
	state     TEXT NOT NULL,
	body      TEXT NOT NULL,
	revision  INTEGER NOT NULL
) STRICT;
CREATE INDEX journal_at ON journal (at);
`, `
ALTER TABLE tickets ADD COLUMN emptied INTEGER NOT NULL DEFAULT 0;
CREATE INDEX ticket_full ON tickets (finished) WHERE emptied = 0;
ALTER TABLE spend ADD COLUMN updated INTEGER NOT NULL DEFAULT 0;
UPDATE spend SET updated = unixepoch() * 1000000;
`}

// applicationID marks the file as ours: "mcpg".
const applicationID = 0x6d637067

func migrate(ctx context.Context, db *sql.DB, path string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after the commit
	var version, application int
	if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if err := tx.QueryRowContext(ctx, "PRAGMA application_id").Scan(&application); err != nil {
		return err
	}
	switch {
	case version > len(migrations):
		return &NewerError{path, version, len(migrations)}
	case version > 0 && application != applicationID:
		return fmt.Errorf("%s is the database of another program", path)
	case version == len(migrations):
		return nil
	}
	for _, m := range migrations[version:] {
		if _, err := tx.ExecContext(ctx, m); err != nil {
			return fmt.Errorf("migrate from format %d: %w", version, err)
		}
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d; PRAGMA application_id = %d", len(migrations), applicationID)); err != nil {
		return fmt.Errorf("migrate from format %d: %w", version, err)
	}
	return tx.Commit()
}

// micros is how times are kept. The zero time is 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

// placeholders returns "?, ?, ?" for n values.
func placeholders(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }
