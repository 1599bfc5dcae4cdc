package store

import (
	"context"
	"database/sql"
	"fmt"
	"os"

	"github.com/mcp-gate/mcp-gate/inbox"
)

// Register implements [inbox.Store].
func (s *Store) Register(ctx context.Context, p inbox.Process) error {
	err := s.update(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT OR IGNORE INTO processes (id, pid, host, birth, started) VALUES (?, ?, ?, ?, ?)`,
			p.ID, p.PID, p.Host, p.Birth, micros(p.Started))
		return err
	})
	if err != nil {
		return fmt.Errorf("keep process %s: %w", p.ID, err)
	}
	return nil
}

// Process implements [inbox.Store].
func (s *Store) Process(ctx context.Context, id string) (inbox.Process, error) {
	db, err := s.reader(ctx)
	if err != nil {
		return inbox.Process{}, err
	}
	p := inbox.Process{ID: id}
	var started int64
	err = db.QueryRowContext(ctx, `SELECT pid, host, birth, started FROM processes WHERE id = ?`, id).Scan(&p.PID, &p.Host, &p.Birth, &started)
	p.Started = fromMicros(started)
	return p, found(err, "process", id)
}

// Self returns this process as others can find it again. Its ID is empty.
func Self() inbox.Process {
	pid := os.Getpid()
	birth, _ := birthOf(pid) // "" where the system does not tell
	return inbox.Process{PID: pid, Host: hostID(), Birth: birth}
}

// Life tells whether a process of [Self]'s making still is. A process of
// another host or container is [inbox.Unclear]: its PID means nothing here.
func Life(p inbox.Process) inbox.Life {
	if p.Host != hostID() || p.PID <= 0 {
		return inbox.Unclear
	}
	birth, there := birthOf(p.PID)
	if !there || p.Birth != "" && birth != "" && birth != p.Birth {
		return inbox.Dead
	}
	return inbox.Alive
}
