package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcp-gate/mcp-gate/engagement"
)

// ChargeCall takes one call off an account, durably and at once for all
// processes, unless nothing of what limit bounds is left. It reports whether the
// call was charged.
func (s *Store) ChargeCall(ctx context.Context, account string, limit engagement.Spend) (charged bool, err error) {
	err = s.update(ctx, func(tx *sql.Tx) error {
		calls, bytes, err := spent(ctx, tx, account)
		if err != nil || usedUp(calls, limit.Calls) || usedUp(bytes, limit.ResultBytes) {
			return err
		}
		charged = true
		return addSpend(ctx, tx, account, 1, 0)
	})
	if err != nil {
		return false, fmt.Errorf("charge %s: %w", account, err)
	}
	return charged, nil
}

func usedUp(used int64, limit *int64) bool { return limit != nil && used >= *limit }

// ChargeBytes takes the bytes of a result, n of them, off an account. They are
// known only after the call, so that the last one may go beyond its limit.
func (s *Store) ChargeBytes(ctx context.Context, account string, n int64) error {
	if err := s.update(ctx, func(tx *sql.Tx) error { return addSpend(ctx, tx, account, 0, n) }); err != nil {
		return fmt.Errorf("charge %s: %w", account, err)
	}
	return nil
}

func addSpend(ctx context.Context, tx *sql.Tx, account string, calls, bytes int64) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO spend (account, calls, bytes, updated) VALUES (?, ?, ?, unixepoch() * 1000000)
		ON CONFLICT (account) DO UPDATE SET calls = calls + excluded.calls, bytes = bytes + excluded.bytes, updated = excluded.updated`, account, calls, bytes)
	return err
}

// Spent returns what an account has used so far: calls, and bytes of results.
func (s *Store) Spent(ctx context.Context, account string) (calls, resultBytes int64, err error) {
	db, err := s.reader(ctx)
	if err != nil {
		return 0, 0, err
	}
	if calls, resultBytes, err = spent(ctx, db, account); err != nil {
		return 0, 0, fmt.Errorf("read the spend of %s: %w", account, err)
	}
	return calls, resultBytes, nil
}

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func spent(ctx context.Context, q querier, account string) (calls, bytes int64, err error) {
	err = q.QueryRowContext(ctx, `SELECT calls, bytes FROM spend WHERE account = ?`, account).Scan(&calls, &bytes)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return calls, bytes, err
}

// Taint adds marks, a set of bits, to an account and returns all that it has.
// Marks are never taken away. No marks only read.
func (s *Store) Taint(ctx context.Context, account string, marks uint8) (all uint8, err error) {
	if marks == 0 {
		return s.taint(ctx, account)
	}
	err = s.update(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `INSERT INTO taint (account, marks) VALUES (?, ?)
			ON CONFLICT (account) DO UPDATE SET marks = marks | excluded.marks RETURNING marks`, account, marks).Scan(&all)
	})
	if err != nil {
		return 0, fmt.Errorf("taint %s: %w", account, err)
	}
	return all, nil
}

func (s *Store) taint(ctx context.Context, account string) (marks uint8, err error) {
	db, err := s.reader(ctx)
	if err != nil {
		return 0, err
	}
	err = db.QueryRowContext(ctx, `SELECT marks FROM taint WHERE account = ?`, account).Scan(&marks)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("read the taint of %s: %w", account, err)
	}
	return marks, nil
}

// KeepSession keeps the record of a session, over an older one.
func (s *Store) KeepSession(ctx context.Context, id string, record json.RawMessage, now time.Time) error {
	err := s.update(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO sessions (id, record, updated) VALUES (?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET record = excluded.record, updated = excluded.updated`, id, string(record), micros(now))
		return err
	})
	if err != nil {
		return fmt.Errorf("keep session %s: %w", id, err)
	}
	return nil
}

// Session returns the last record of a session, or an error wrapping
// inbox.ErrNotFound.
func (s *Store) Session(ctx context.Context, id string) (record json.RawMessage, updated time.Time, err error) {
	db, err := s.reader(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	var text string
	var at int64
	err = db.QueryRowContext(ctx, `SELECT record, updated FROM sessions WHERE id = ?`, id).Scan(&text, &at)
	return json.RawMessage(text), fromMicros(at), found(err, "session", id)
}
