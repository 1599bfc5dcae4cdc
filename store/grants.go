package store

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcp-gate/mcp-gate/inbox"
)

// AddGrant implements [inbox.Store].
func (s *Store) AddGrant(ctx context.Context, g inbox.Grant) error {
	narrowed, err := json.Marshal(g.Narrowed)
	if err != nil {
		return fmt.Errorf("keep grant %s: %w", g.ID, err)
	}
	signed, err := exactly(g)
	if err != nil {
		return fmt.Errorf("keep grant %s: %w", g.ID, err)
	}
	err = s.update(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO grants (id, principal, signed, narrowed, used, last_used, revoked, revision)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			g.ID, g.Terms.Principal, signed, string(narrowed), g.Used, micros(g.LastUsed), micros(g.Revoked), g.Revision)
		return err
	})
	if err != nil {
		return fmt.Errorf("keep grant %s: %w", g.ID, err)
	}
	return nil
}

// exactly writes the JSON of v without escaping <, > and & in what is raw.
func exactly(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.String(), err
}

const grantColumns = `signed, narrowed, used, last_used, revoked, revision`

func scanGrant(row scanner) (inbox.Grant, error) {
	var signed, narrowed string
	var g, now inbox.Grant
	var lastUsed, revoked int64
	if err := row.Scan(&signed, &narrowed, &now.Used, &lastUsed, &revoked, &now.Revision); err != nil {
		return inbox.Grant{}, err
	}
	err := errors.Join(json.Unmarshal([]byte(signed), &g), json.Unmarshal([]byte(narrowed), &now.Narrowed))
	if err != nil {
		return inbox.Grant{}, fmt.Errorf("a grant as it is stored: %w", err)
	}
	// The signed body was written once; what changes is in the columns.
	g.Narrowed, g.Used, g.Revision = now.Narrowed, now.Used, now.Revision
	g.LastUsed, g.Revoked = fromMicros(lastUsed), fromMicros(revoked)
	return g, nil
}

// Grant implements [inbox.Store].
func (s *Store) Grant(ctx context.Context, id string) (inbox.Grant, error) {
	db, err := s.reader(ctx)
	if err != nil {
		return inbox.Grant{}, err
	}
	g, err := scanGrant(db.QueryRowContext(ctx, `SELECT `+grantColumns+` FROM grants WHERE id = ?`, id))
	return g, found(err, "grant", id)
}

// Grants implements [inbox.Store].
func (s *Store) Grants(ctx context.Context) ([]inbox.Grant, error) {
	return list(ctx, s, "grants", scanGrant, `SELECT `+grantColumns+` FROM grants ORDER BY seq`)
}

// ChangeGrant implements [inbox.Store].
func (s *Store) ChangeGrant(ctx context.Context, g inbox.Grant) (won bool, err error) {
	narrowed, err := exactly(g.Narrowed)
	if err != nil {
		return false, fmt.Errorf("change grant %s: %w", g.ID, err)
	}
	err = s.update(ctx, func(tx *sql.Tx) (err error) {
		won, err = changes(ctx, tx, `UPDATE grants SET narrowed = ?, used = ?, last_used = ?, revoked = ?, revision = revision + 1
			WHERE id = ? AND revision = ?`, narrowed, g.Used, micros(g.LastUsed), micros(g.Revoked), g.ID, g.Revision)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("change grant %s: %w", g.ID, err)
	}
	return won, nil
}
