package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mcp-gate/mcp-gate/inbox"
)

var _ inbox.Store = (*Store)(nil)

// columns are all of a ticket's in the order in which scanTicket reads and
// ticketValues writes them.
const columns = `id, call_key, server, tool, principal, binding, args, view, level, repeatable, fallback, launch, owner, created,
	state, runner, claim, decided, started, finished, note, result, delivered, caller_gone, revision`

// bareColumns are the same without what may be large.
var bareColumns = strings.NewReplacer("args, view", "NULL, '{}'", " result,", " NULL,").Replace(columns)

const openStates = `('pending', 'approved', 'running', 'unknown')`

func ticketValues(t inbox.Ticket) ([]any, error) {
	binding, err := json.Marshal(t.Binding)
	if err != nil {
		return nil, err
	}
	view, err := json.Marshal(t.View)
	if err != nil {
		return nil, err
	}
	frozen := []any{
		t.ID, t.Binding.CallKey(), t.Binding.Server, t.Binding.Tool, t.Binding.Principal, string(binding),
		blob(t.Args), string(view), t.Level.String(), t.Repeatable, t.Fallback.String(), t.Launch, t.Owner, micros(t.Created),
	}
	return append(frozen, changing(t)...), nil
}

// changing are the values from State on.
func changing(t inbox.Ticket) []any {
	return []any{
		t.State.String(), t.Runner, t.Claim, micros(t.Decided), micros(t.Started), micros(t.Finished), t.Note,
		blob(t.Result), t.Delivered, t.CallerGone, t.Revision,
	}
}

// blob keeps the difference between no bytes and none at all.
func blob(raw json.RawMessage) any {
	if raw == nil {
		return nil
	}
	return []byte(raw)
}

func scanTicket(row scanner) (inbox.Ticket, error) {
	var t inbox.Ticket
	var callKey, server, tool, principal, binding, view, level, fallback, state string
	var created, decided, started, finished int64
	var args, result []byte
	err := row.Scan(&t.ID, &callKey, &server, &tool, &principal, &binding, &args, &view, &level, &t.Repeatable,
		&fallback, &t.Launch, &t.Owner, &created, &state, &t.Runner, &t.Claim, &decided, &started, &finished, &t.Note,
		&result, &t.Delivered, &t.CallerGone, &t.Revision)
	if err != nil {
		return inbox.Ticket{}, err
	}
	t.Args, t.Result = args, result
	t.Created, t.Decided, t.Started, t.Finished = fromMicros(created), fromMicros(decided), fromMicros(started), fromMicros(finished)
	err = errors.Join(
		json.Unmarshal([]byte(binding), &t.Binding), json.Unmarshal([]byte(view), &t.View),
		t.Level.UnmarshalText([]byte(level)), t.Fallback.UnmarshalText([]byte(fallback)), t.State.UnmarshalText([]byte(state)))
	if err != nil {
		return inbox.Ticket{}, fmt.Errorf("ticket %s as it is stored: %w", t.ID, err)
	}
	return t, nil
}

// Admit implements [inbox.Store]. It looks and inserts in one transaction, so
// that a call which ends in between is seen as waiting or as done.
func (s *Store) Admit(ctx context.Context, t inbox.Ticket, since time.Time) (kept inbox.Ticket, err error) {
	values, err := ticketValues(t)
	if err != nil {
		return inbox.Ticket{}, fmt.Errorf("keep ticket %s: %w", t.ID, err)
	}
	err = s.update(ctx, func(tx *sql.Tx) error {
		key := t.Binding.CallKey()
		kept, err = scanTicket(tx.QueryRowContext(ctx, `SELECT `+columns+` FROM tickets
			WHERE call_key = ? AND state = 'done' AND delivered = 0 AND finished >= ? ORDER BY finished DESC LIMIT 1`, key, micros(since)))
		if errors.Is(err, sql.ErrNoRows) {
			kept, err = scanTicket(tx.QueryRowContext(ctx, `SELECT `+columns+` FROM tickets WHERE call_key = ? AND state IN `+openStates, key))
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		kept = t
		_, err := tx.ExecContext(ctx, `INSERT INTO tickets (`+columns+`) VALUES (`+placeholders(len(values))+`)`, values...)
		return err
	})
	if err != nil {
		return inbox.Ticket{}, fmt.Errorf("keep ticket %s: %w", t.ID, err)
	}
	return kept, nil
}

// Ticket implements [inbox.Store].
func (s *Store) Ticket(ctx context.Context, id string) (inbox.Ticket, error) {
	db, err := s.reader(ctx)
	if err != nil {
		return inbox.Ticket{}, err
	}
	t, err := scanTicket(db.QueryRowContext(ctx, `SELECT `+columns+` FROM tickets WHERE id = ?`, id))
	return t, found(err, "ticket", id)
}

// found turns "no row" into the inbox's word for it.
func found(err error, what, id string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("%s %s: %w", what, id, inbox.ErrNotFound)
	}
	return fmt.Errorf("read %s %s: %w", what, id, err)
}

// Change implements [inbox.Store]. The revision is the compare-and-set that
// lets one of any number of claims win.
func (s *Store) Change(ctx context.Context, t inbox.Ticket, d *inbox.Decision) (won bool, err error) {
	if _, err := t.State.MarshalText(); err != nil {
		return false, fmt.Errorf("change ticket %s: %w", t.ID, err)
	}
	read := t.Revision
	t.Revision++
	err = s.update(ctx, func(tx *sql.Tx) (err error) {
		won, err = changes(ctx, tx, `UPDATE tickets SET state = ?, runner = ?, claim = ?, decided = ?, started = ?, finished = ?, note = ?,
			result = ?, delivered = ?, caller_gone = ?, revision = ? WHERE id = ? AND revision = ?`,
			append(changing(t), t.ID, read)...)
		if err != nil || !won || d == nil {
			return err
		}
		return insertDecision(ctx, tx, *d, true)
	})
	if err != nil {
		return false, fmt.Errorf("change ticket %s to %s: %w", t.ID, t.State, err)
	}
	return won, nil
}

func insertDecision(ctx context.Context, tx *sql.Tx, d inbox.Decision, counted bool) error {
	body, err := json.Marshal(d)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO decisions (ticket, counted, at, body, channel, level, verdict) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		d.Ticket, counted, micros(d.At), string(body), d.Channel.String(), d.Level.String(), d.Verdict.String())
	return err
}

// Record implements [inbox.Store].
func (s *Store) Record(ctx context.Context, d inbox.Decision) error {
	err := s.update(ctx, func(tx *sql.Tx) error { return insertDecision(ctx, tx, d, false) })
	if err != nil {
		return fmt.Errorf("record a decision on %s: %w", d.Ticket, err)
	}
	return nil
}

// Decision implements [inbox.Store].
func (s *Store) Decision(ctx context.Context, ticket string) (inbox.Decision, error) {
	db, err := s.reader(ctx)
	if err != nil {
		return inbox.Decision{}, err
	}
	var body string
	err = db.QueryRowContext(ctx, `SELECT body FROM decisions WHERE ticket = ? AND counted = 1 ORDER BY seq DESC LIMIT 1`, ticket).Scan(&body)
	if err != nil {
		return inbox.Decision{}, found(err, "decision on", ticket)
	}
	return inbox.ParseDecision([]byte(body))
}

// Tickets implements [inbox.Store].
func (s *Store) Tickets(ctx context.Context, q inbox.Query) ([]inbox.Ticket, error) {
	where, values := conditions(q)
	if q.Limit <= 0 {
		q.Limit = 1000
	}
	columns := columns
	if q.Bare {
		columns = bareColumns
	}
	return list(ctx, s, "tickets", scanTicket, `SELECT `+columns+` FROM tickets WHERE `+where+` ORDER BY created DESC, id LIMIT ?`, append(values, q.Limit)...)
}

func conditions(q inbox.Query) (string, []any) {
	terms, values := []string{"1"}, []any{}
	add := func(term string, v ...any) {
		terms = append(terms, term)
		values = append(values, v...)
	}
	if q.Prefix != "" {
		add("substr(id, 1, ?) = ?", len(q.Prefix), q.Prefix)
	}
	if q.Principal != "" {
		add("principal = ?", q.Principal)
	}
	if q.Server != "" {
		add("server = ?", q.Server)
	}
	if q.Tool != "" {
		add("tool = ?", q.Tool)
	}
	if !q.Since.IsZero() {
		add("created >= ?", micros(q.Since))
	}
	if len(q.States) > 0 {
		words := make([]any, len(q.States))
		for i, state := range q.States {
			words[i] = state.String()
		}
		add("state IN ("+placeholders(len(words))+")", words...)
	}
	return strings.Join(terms, " AND "), values
}

// Stats implements [inbox.Store].
func (s *Store) Stats(ctx context.Context, since time.Time) (inbox.Stats, error) {
	db, err := s.reader(ctx)
	if err != nil {
		return inbox.Stats{}, err
	}
	st := inbox.Stats{States: map[string]int{}, Answers: []inbox.AnswerCount{}, Took: map[string]int64{}}
	steps := []func(context.Context, *sql.DB, int64, *inbox.Stats) error{countStates, countAnswers, timeAnswers, countGrants, countReviews}
	for _, step := range steps {
		if err := step(ctx, db, micros(since), &st); err != nil {
			return inbox.Stats{}, fmt.Errorf("count tickets: %w", err)
		}
	}
	return st, nil
}

func countStates(ctx context.Context, db *sql.DB, since int64, st *inbox.Stats) error {
	return each(ctx, db, `SELECT state, count(*) FROM tickets WHERE created >= ? GROUP BY state`, []any{since}, func(rows scanner) error {
		var state string
		var n int
		err := rows.Scan(&state, &n)
		st.States[state] = n
		st.Asks += n
		return err
	})
}

func countAnswers(ctx context.Context, db *sql.DB, since int64, st *inbox.Stats) error {
	const query = `SELECT channel, level, verdict, count(*) FROM decisions WHERE counted = 1 AND at >= ? GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`
	return each(ctx, db, query, []any{since}, func(rows scanner) error {
		var channel, level, verdict string
		var a inbox.AnswerCount
		if err := rows.Scan(&channel, &level, &verdict, &a.Count); err != nil {
			return err
		}
		st.Answers = append(st.Answers, a)
		last := &st.Answers[len(st.Answers)-1]
		return errors.Join(last.Channel.UnmarshalText([]byte(channel)), last.Level.UnmarshalText([]byte(level)), last.Verdict.UnmarshalText([]byte(verdict)))
	})
}

func timeAnswers(ctx context.Context, db *sql.DB, since int64, st *inbox.Stats) error {
	var took []int64
	const query = `SELECT decided - created FROM tickets WHERE decided > 0 AND created >= ? ORDER BY 1`
	err := each(ctx, db, query, []any{since}, func(rows scanner) error {
		var n int64
		err := rows.Scan(&n)
		took = append(took, n/1000)
		return err
	})
	if len(took) > 0 {
		st.Took["p50"], st.Took["p90"] = took[(len(took)-1)*50/100], took[(len(took)-1)*90/100]
	}
	return err
}

func countGrants(ctx context.Context, db *sql.DB, since int64, st *inbox.Stats) error {
	return each(ctx, db, `SELECT coalesce(sum(used), 0) FROM grants WHERE last_used >= ?`, []any{since}, func(rows scanner) error {
		return rows.Scan(&st.Grants)
	})
}

func countReviews(ctx context.Context, db *sql.DB, since int64, st *inbox.Stats) error {
	return each(ctx, db, `SELECT count(*) FROM journal WHERE at >= ?`, []any{since}, func(rows scanner) error {
		return rows.Scan(&st.Reviews)
	})
}
