package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/mcp-gate/mcp-gate/checkpoint"
	"github.com/mcp-gate/mcp-gate/store"
	"github.com/mcp-gate/mcp-gate/transport"
)

const (
	// keptFor is how long what is over is kept where it proves nothing.
	keptFor = 30 * 24 * time.Hour
	// A gate tidies first a while after its start, which is busy, and then every
	// now and then.
	tidyFirst = time.Minute
	tidyPause = 10 * time.Minute
)

// goneResult stands in for the result of an old ticket.
var goneResult = json.RawMessage(`{"content":[{"type":"text","text":"The result of this call was kept for 30 days and is gone. Call the tool again if it is still needed."}],"isError":true}`)

// tidier removes what is over from a home. Other gates of the home may be at it
// at the same time.
type tidier struct {
	e *engine
	// last is when it said which sessions are in use. Those that others use are
	// known only where this process did not sleep since: then they said so, too.
	last time.Time
}

// tidy removes what ended more than keptFor before now. What fails is tried
// again the next time.
func (t *tidier) tidy(ctx context.Context, now time.Time) error {
	if _, err := os.Stat(t.e.home.DB()); err != nil {
		return nil // nobody was ever asked
	}
	now = now.Round(0) // the monotonic clock stands still while a machine sleeps
	before, db := now.Add(-keptFor), t.e.db
	errs := []error{db.Empty(ctx, before, goneResult), db.Bury(ctx, before, store.Life), t.sessions(ctx, now)}
	copies, err := db.PruneJournal(ctx, before)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	keeper, err := checkpoint.Open(filepath.Join(t.e.home.Dir, "checkpoints"), nil)
	if err == nil {
		err = keeper.Sweep(before, func(sum string) bool { return copies[sum] })
	}
	return errors.Join(append(errs, err)...)
}

// sessions says which sessions are in use, and forgets those that have not been
// for long.
func (t *tidier) sessions(ctx context.Context, now time.Time) error {
	tokens, err := transport.OpenTokenFile(t.e.tokenPath(), t.e.log, nil, nil)
	if err != nil {
		return err
	}
	all, err := tokens.List()
	if err != nil {
		return err
	}
	var parents []string
	for _, token := range all {
		parents = append(parents, token.Parent)
	}
	if err := t.e.db.StillUsed(ctx, t.e.gate.Kin(ctx, parents...), now); err != nil {
		return err
	}
	awake := now.Sub(t.last) < 2*tidyPause
	t.last = now
	if !awake {
		return nil
	}
	return t.e.db.Forget(ctx, now.Add(-keptFor))
}
