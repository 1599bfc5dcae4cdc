package signin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// ahead is how long before its end a token is renewed, and never more than
	// a fifth of its life.
	ahead = time.Minute
	// fresh is how young a renewed token may be that is not renewed again though it
	// is refused: it bounds how often a server that refuses every token makes the
	// gate ask for another.
	fresh = 10 * time.Second
	// pause is how long a renewal that failed is not tried again.
	pause = 5 * time.Second
)

// A Session gives the token of one server to its requests. It is safe for
// concurrent use.
type Session struct {
	c *Client
	s Server

	turn chan struct{} // held by who renews

	mu     sync.Mutex // guards what follows
	rec    *record    // as of stamp; nil where nobody signed in
	stamp  time.Time  // of what is kept
	read   bool
	failed error     // of the last renewal
	until  time.Time // failed counts until then
}

// Session returns the session of a server.
func (c *Client) Session(s Server) *Session {
	return &Session{c: c, s: s, turn: make(chan struct{}, 1)}
}

// Authorize returns the value of the Authorization header for a request, or ""
// where nobody signed in to the server. A challenge is what the server answered to
// a request that had the value refused before, "" for a request that was not made
// yet. The error is a *[NeededError] where only a person can help, such as with a
// scope that was not granted: the next sign-in asks for it.
func (s *Session) Authorize(ctx context.Context, challenge, refused string) (string, error) {
	rec, err := s.current()
	if err != nil {
		return "", err
	}
	now := s.c.o.Now()
	switch {
	case rec == nil && challenge == "":
		return "", nil
	case rec == nil:
		return "", s.needed("nobody signed in to it yet")
	case !rec.endsSoon(now) && (challenge == "" || refused != rec.header()):
		return rec.header(), nil
	case challenge != "" && refused == rec.header() && parseChallenge([]string{challenge}).tooLittle:
		return "", s.widen(ctx, parseChallenge([]string{challenge}).scopes)
	case challenge != "" && refused == rec.header() && rec.Renewed && now.Sub(rec.Obtained) < fresh:
		why := "it refuses a token that was renewed just now"
		if rec.Refresh != "" {
			why += fmt.Sprintf("; a call after %v asks for another, and if that is refused as well", wholeUp(fresh-now.Sub(rec.Obtained)))
		}
		return "", s.needed(why)
	}
	next, err := s.renew(ctx, rec)
	var needed *NeededError
	switch {
	case err == nil:
		return next.header(), nil
	case challenge == "" && !errors.As(err, &needed) && rec.valid(now):
		return rec.header(), nil // it holds a little longer
	}
	return "", err
}

func (r *record) header() string { return "Bearer " + r.Access }

func (r *record) valid(now time.Time) bool {
	return r.Access != "" && (r.Expires.IsZero() || now.Before(r.Expires))
}

func (r *record) endsSoon(now time.Time) bool {
	if r.Access == "" {
		return true
	}
	early := min(ahead, r.Expires.Sub(r.Obtained)/5)
	return !r.Expires.IsZero() && !now.Before(r.Expires.Add(-early))
}

func (s *Session) needed(why string) error { return &NeededError{s.s.Alias, why} }

// current returns what is kept, reading it anew if somebody signed in, out or
// renewed meanwhile.
func (s *Session) current() (*record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stamp := s.c.o.Vault.Stamp(nameOf(s.s.Alias))
	if s.read && stamp.Equal(s.stamp) {
		return s.rec, nil
	}
	rec, err := s.c.load(s.s)
	if err != nil {
		return nil, err
	}
	s.rec, s.stamp, s.read, s.failed = rec, stamp, true, nil
	return rec, nil
}

// renew replaces the token of old, one caller at a time in all processes of the
// home: who comes second finds the new one. The renewal itself outlives its
// caller, since a refresh token may count only once.
func (s *Session) renew(ctx context.Context, old *record) (*record, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.turn }()
	s.mu.Lock()
	failed, until := s.failed, s.until
	s.mu.Unlock()
	if left := until.Sub(s.c.o.Now()); failed != nil && left > 0 {
		return nil, again(failed, left)
	}
	unlock, err := s.c.o.Vault.Lock(nameOf(s.s.Alias))
	if err != nil {
		return nil, err
	}
	defer func() { _ = unlock() }() // only the descriptor's
	s.mu.Lock()
	s.read = false // two writes may bear one time
	s.mu.Unlock()
	rec, err := s.current()
	switch {
	case err != nil:
		return nil, err
	case rec == nil:
		return nil, s.needed("nobody signed in to it yet")
	case rec.Access != old.Access && rec.valid(s.c.o.Now()):
		return rec, nil
	case rec.Refresh == "":
		return nil, s.needed("the sign-in is over")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTime)
	defer cancel()
	next, err := s.c.renew(ctx, s.s, rec)
	if err != nil {
		return nil, s.fail(rec, err)
	}
	if err := s.c.save(s.s, next); err != nil {
		return nil, fmt.Errorf("keep the new token of %s: %w", s.s.Alias, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rec, s.stamp, s.failed = next, s.c.o.Vault.Stamp(nameOf(s.s.Alias)), nil
	return next, nil
}

// widen notes the scopes that the server wants on top of those granted, for the
// next sign-in to ask for, and says who can help. A renewal brings no scope.
func (s *Session) widen(ctx context.Context, scopes []string) error {
	beyond := func(have []string) []string {
		return slices.DeleteFunc(slices.Clone(scopes), func(sc string) bool { return slices.Contains(have, sc) })
	}
	switch {
	case len(scopes) == 0:
		return fmt.Errorf("it says that what was granted is not enough, and not what would be: if you know, run mcp-gate auth login %s --scope with all that is needed", s.s.Alias)
	case s.s.Scopes != nil && len(beyond(s.s.Scopes)) > 0:
		return fmt.Errorf("it wants scope %s, which auth.scopes of the configuration leaves out", strings.Join(beyond(s.s.Scopes), " "))
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.turn }()
	unlock, err := s.c.o.Vault.Lock(nameOf(s.s.Alias))
	if err != nil {
		return err
	}
	defer func() { _ = unlock() }() // only the descriptor's
	rec, err := s.c.load(s.s)
	switch {
	case err != nil:
		return err
	case rec == nil:
		return s.needed("nobody signed in to it yet")
	case len(beyond(rec.Scopes)) == 0:
		return fmt.Errorf("it says that scope %s is not enough, which was granted: the account that signed in may not do this", strings.Join(scopes, " "))
	}
	if wanted := union(rec.Wanted, scopes); len(wanted) > len(rec.Wanted) {
		rec.Wanted = wanted
		if err := s.c.save(s.s, rec); err != nil {
			return err
		}
	}
	return s.needed("it wants scope " + strings.Join(beyond(rec.Scopes), " ") + ", which the sign-in does not have")
}

// fail remembers why a renewal failed. A refresh token that was refused is
// forgotten, so that it is not shown again.
func (s *Session) fail(rec *record, err error) error {
	var refused *tokenError
	if errors.As(err, &refused) && refused.over() {
		spent := *rec
		spent.Refresh, spent.Access = "", ""
		if err := s.c.save(s.s, &spent); err != nil {
			return fmt.Errorf("forget the refused sign-in of %s: %w", s.s.Alias, err)
		}
		return s.needed(fmt.Sprintf("the sign-in is over (%v)", refused))
	}
	err = fmt.Errorf("renew the sign-in of %s: %w", s.s.Alias, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed, s.until = err, s.c.o.Now().Add(pause)
	return again(err, pause)
}

// again is err of a renewal that is tried again once left is over.
func again(err error, left time.Duration) error {
	return fmt.Errorf("%w; a call after %v tries again", err, wholeUp(left))
}

// wholeUp is d in whole seconds: after them it is over.
func wholeUp(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}
