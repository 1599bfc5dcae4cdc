package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Spent is what an account has used.
type Spent struct {
	Calls       int64
	ResultBytes int64
}

// A Budget is how much an account may use in all; a nil field is no bound.
type Budget struct {
	Calls       *int64
	ResultBytes *int64
}

// Charge adds cost to an account unless that would exceed the budget, durably
// and at once for all processes. It returns what the account has used then,
// and whether the cost was charged.
func (s *Store) Charge(ctx context.Context, account string, cost Spent, b Budget) (now Spent, charged bool, err error) {
	err = s.update(ctx, func(tx *sql.Tx) error {
		if now, err = spent(ctx, tx, account); err != nil {
			return err
		}
		sum := Spent{now.Calls + cost.Calls, now.ResultBytes + cost.ResultBytes}
		if over(sum.Calls, b.Calls) || over(sum.ResultBytes, b.ResultBytes) {
			return nil
		}
		now, charged = sum, true
		_, err := tx.ExecContext(ctx, `INSERT INTO spend (account, calls, bytes) VALUES (?, ?, ?)
			ON CONFLICT (account) DO UPDATE SET calls = excluded.calls, bytes = excluded.bytes`, account, sum.Calls, sum.ResultBytes)
		return err
	})
	if err != nil {
		return Spent{}, false, fmt.Errorf("charge %s: %w", account, err)
	}
	return now, charged, nil
}

func over(sum int64, bound *int64) bool { return bound != nil && sum > *bound }

// Spent returns what an account has used so far.
func (s *Store) Spent(ctx context.Context, account string) (Spent, error) {
	db, err := s.reader(ctx)
	if err != nil {
		return Spent{}, err
	}
	now, err := spent(ctx, db, account)
	if err != nil {
		return Spent{}, fmt.Errorf("read the spend of %s: %w", account, err)
	}
	return now, nil
}

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func spent(ctx context.Context, q querier, account string) (Spent, error) {
	var now Spent
	err := q.QueryRowContext(ctx, `SELECT calls, bytes FROM spend WHERE account = ?`, account).Scan(&now.Calls, &now.ResultBytes)
	if errors.Is(err, sql.ErrNoRows) {
		return Spent{}, nil
	}
	return now, err
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
