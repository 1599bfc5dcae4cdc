package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/mcp-gate/mcp-gate/checkpoint"
)

// AddEntry durably adds an entry to the journal.
func (s *Store) AddEntry(ctx context.Context, e checkpoint.Entry) error {
	body, err := exactly(e)
	if err != nil {
		return fmt.Errorf("keep journal entry %s: %w", e.ID, err)
	}
	err = s.update(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO journal (id, at, principal, state, body, revision) VALUES (?, ?, ?, ?, ?, ?)`,
			e.ID, micros(e.At), e.Principal, e.State.String(), body, e.Revision)
		return err
	})
	if err != nil {
		return fmt.Errorf("keep journal entry %s: %w", e.ID, err)
	}
	return nil
}

// ChangeEntry durably writes an entry when the stored revision is still the
// entry's, and reports whether.
func (s *Store) ChangeEntry(ctx context.Context, e checkpoint.Entry) (won bool, err error) {
	read := e.Revision
	e.Revision++
	body, err := exactly(e)
	if err != nil {
		return false, fmt.Errorf("change journal entry %s: %w", e.ID, err)
	}
	err = s.update(ctx, func(tx *sql.Tx) (err error) {
		won, err = changes(ctx, tx, `UPDATE journal SET state = ?, body = ?, revision = ? WHERE id = ? AND revision = ?`,
			e.State.String(), body, e.Revision, e.ID, read)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("change journal entry %s: %w", e.ID, err)
	}
	return won, nil
}

// Entry returns one entry, or an error wrapping [inbox.ErrNotFound].
func (s *Store) Entry(ctx context.Context, id string) (checkpoint.Entry, error) {
	db, err := s.reader(ctx)
	if err != nil {
		return checkpoint.Entry{}, err
	}
	e, err := scanEntry(db.QueryRowContext(ctx, `SELECT body FROM journal WHERE id = ?`, id))
	return e, found(err, "journal entry", id)
}

// Entries returns the newest entries first: of a principal, "" for all, whose
// id begins with prefix; at most limit, 0 for 1000.
func (s *Store) Entries(ctx context.Context, principal, prefix string, limit int) ([]checkpoint.Entry, error) {
	if limit <= 0 {
		limit = 1000
	}
	return list(ctx, s, "the journal", scanEntry, `SELECT body FROM journal WHERE ? IN (principal, '') AND substr(id, 1, ?) = ?
		ORDER BY at DESC, id LIMIT ?`, principal, len(prefix), prefix, limit)
}

func scanEntry(row scanner) (checkpoint.Entry, error) {
	var body string
	var e checkpoint.Entry
	if err := row.Scan(&body); err != nil {
		return e, err
	}
	err := json.Unmarshal([]byte(body), &e)
	return e, err
}
