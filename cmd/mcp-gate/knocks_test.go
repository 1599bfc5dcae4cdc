package main

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-gate/mcp-gate/audit"
)

// Requests without a token are written down, and cannot fill the log.
func TestRefusedRequestsShareALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes []string
		var mu sync.Mutex // guards notes: a timer writes them, too
		written := func() []string { mu.Lock(); defer mu.Unlock(); return slices.Clone(notes) }
		k := &knocks{record: func(e audit.Event) error {
			mu.Lock()
			defer mu.Unlock()
			notes = append(notes, e.Note)
			return nil
		}, failed: func(err error) { t.Error(err) }}
		for range 1000 {
			k.refused("this token is not known", "127.0.0.1:1")
		}
		if got := written(); len(got) != 1 {
			t.Fatalf("at once: %q", got)
		}
		time.Sleep(knockEach + time.Second)
		synctest.Wait()
		k.refused("a bearer token is required", "127.0.0.1:2")
		k.refused("a bearer token is required", "127.0.0.1:3")
		k.flush()
		want := []string{
			"1 HTTP request refused: this token is not known; from 127.0.0.1:1",
			"999 HTTP requests refused, the last one: this token is not known; from 127.0.0.1:1",
			"1 HTTP request refused: a bearer token is required; from 127.0.0.1:2",
			"1 HTTP request refused: a bearer token is required; from 127.0.0.1:3",
		}
		if got := written(); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
