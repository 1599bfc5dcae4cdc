package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mcp-gate/mcp-gate/checkpoint"
	"github.com/mcp-gate/mcp-gate/inbox"
)

// What follows removes what is over and proves nothing any more. Each function is
// a transaction, or several of which each leaves the store whole; any number of
// processes may call them at any time, and none of them makes a database.

// emptyAtOnce is how many tickets are emptied in one transaction, so that calls
// of other processes wait for a moment only.
const emptyAtOnce = 200

// Empty takes the arguments and results out of tickets that ended before a
// time; instead stands in for a result. Their state, binding and decisions stay,
// and so does everything of a ticket that is open, which an unknown one is.
func (s *Store) Empty(ctx context.Context, before time.Time, instead json.RawMessage) error {
	for {
		var n int64
		err := s.update(ctx, func(tx *sql.Tx) error {
			res, err := tx.ExecContext(ctx, `UPDATE tickets SET emptied = 1, revision = revision + 1, args = NULL,
				result = CASE WHEN result IS NULL THEN NULL ELSE ? END,
				view = json_remove(view, '$.args', '$.last')
				WHERE id IN (SELECT id FROM tickets WHERE emptied = 0 AND finished < ? AND state NOT IN `+openStates+` LIMIT ?)`,
				blob(instead), micros(before), emptyAtOnce)
			if err == nil {
				n, err = res.RowsAffected()
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("empty old tickets: %w", err)
		}
		if n < emptyAtOnce {
			return nil
		}
	}
}

// StillUsed notes that sessions and accounts are in use, so that [Store.Forget]
// keeps them. It writes once a day at most.
func (s *Store) StillUsed(ctx context.Context, ids []string, now time.Time) error {
	if len(ids) == 0 {
		return nil
	}
	values := []any{micros(now), micros(now.Add(-24 * time.Hour))}
	for _, id := range ids {
		values = append(values, id)
	}
	in := placeholders(len(ids))
	err := s.update(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `UPDATE sessions SET updated = ? WHERE updated < ? AND id IN (`+in+`)`, values...); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `UPDATE spend SET updated = ? WHERE updated < ? AND account IN (`+in+`)`, values...)
		return err
	})
	if err != nil {
		return fmt.Errorf("note which sessions are in use: %w", err)
	}
	return nil
}

// Forget removes the records of sessions, and what they spent, that nobody has
// used since a time.
func (s *Store) Forget(ctx context.Context, before time.Time) error {
	err := s.update(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM sessions WHERE updated < ?`, micros(before)); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM spend WHERE updated < ?`, micros(before))
		return err
	})
	if err != nil {
		return fmt.Errorf("forget old sessions: %w", err)
	}
	return nil
}

// Bury removes processes that were started before a time and are dead by what
// life says: one without a row is taken for dead, too.
func (s *Store) Bury(ctx context.Context, before time.Time, life func(inbox.Process) inbox.Life) error {
	old, err := list(ctx, s, "processes", func(row scanner) (p inbox.Process, err error) {
		return p, row.Scan(&p.ID, &p.PID, &p.Host, &p.Birth)
	}, `SELECT id, pid, host, birth FROM processes WHERE started < ?`, micros(before))
	if err != nil {
		return err
	}
	err = s.update(ctx, func(tx *sql.Tx) error {
		for _, p := range old {
			if life(p) != inbox.Dead {
				continue
			}
			if _, err := tx.ExecContext(ctx, `DELETE FROM processes WHERE id = ?`, p.ID); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("forget dead processes: %w", err)
	}
	return nil
}

// Settled are the states of a journal entry behind which nothing is open.
const settledEntries = `('kept', 'void', 'undone')`

// PruneJournal removes entries from before a time that are settled, and returns
// the SHA-256 of the copies that those which stay need.
func (s *Store) PruneJournal(ctx context.Context, before time.Time) (copies map[string]bool, err error) {
	err = s.update(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM journal WHERE at < ? AND state IN `+settledEntries, micros(before))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("prune the journal: %w", err)
	}
	db, err := s.reader(ctx)
	if err != nil {
		return nil, err
	}
	copies = map[string]bool{}
	err = each(ctx, db, `SELECT body FROM journal`, nil, func(row scanner) error {
		var body string
		var e struct{ Copy checkpoint.Copy }
		if err := row.Scan(&body); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(body), &e); err != nil {
			return err
		}
		for _, f := range e.Copy.Files {
			copies[f.Before.SHA256] = true
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read which copies the journal needs: %w", err)
	}
	return copies, nil
}
