package store_test

import (
	"database/sql"
	"testing"
)

// openRaw opens the database behind the store's back, as an intruder or an
// administrator would.
func openRaw(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	must(t, err)
	return db
}
