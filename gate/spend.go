package gate

import (
	"context"

	"github.com/mcp-gate/mcp-gate/engagement"
)

// What a session uses up is counted only while something bounds it, so that a
// call without a limit writes nothing. The count is kept in the store: a
// session's account is shared with those that work for it, in whatever process.

// limited reports whether a limit bounds anything.
func limited(limit engagement.Spend) bool { return limit.Calls != nil || limit.ResultBytes != nil }

// spent is what an account has used.
type spent struct {
	calls, bytes int64
	unknown      bool // it cannot be read
}

func (s *Session) spent() *spent {
	calls, bytes, err := s.g.opts.Sessions.Spent(context.Background(), s.spendAccount())
	if err != nil {
		s.g.opts.Log.Error("what is left to spend is not known: nothing runs that would be charged", "session", s.id, "error", err)
	}
	return &spent{calls, bytes, err != nil}
}

// leaves is what remains of a limit. It is nothing where what was used is not known.
func (u spent) leaves(limit engagement.Spend) engagement.Spend {
	if u.unknown {
		return engagement.Spend{Calls: new(int64), ResultBytes: new(int64)}
	}
	rest := func(bound *int64, used int64) *int64 {
		if bound == nil {
			return nil
		}
		rest := *bound - used
		return &rest
	}
	return engagement.Spend{Calls: rest(limit.Calls, u.calls), ResultBytes: rest(limit.ResultBytes, u.bytes)}
}

// spendLimit is what the session may use up in all.
func (s *Session) spendLimit() engagement.Spend {
	return s.g.ruling().Spend.Meet(s.authorityNow().Engagement.Limits.Spend)
}

// charge takes one call off what the session may spend, and reports whether the call may
// run. It is atomic, so that calls side by side cannot overspend.
func (s *Session) charge(ctx context.Context) bool {
	limit := s.spendLimit()
	if !limited(limit) {
		return true
	}
	charged, err := s.g.opts.Sessions.ChargeCall(context.WithoutCancel(ctx), s.spendAccount(), limit)
	if err != nil {
		s.g.opts.Log.Error("a call could not be charged, so it does not run", "session", s.id, "error", err)
	}
	return charged
}

// chargeBytes takes a result off after the call; one call may overshoot.
func (s *Session) chargeBytes(n int64) {
	if n == 0 || !limited(s.spendLimit()) {
		return
	}
	if err := s.g.opts.Sessions.ChargeBytes(context.Background(), s.spendAccount(), n); err != nil {
		s.g.opts.Log.Error("a result could not be charged", "session", s.id, "bytes", n, "error", err)
	}
}
