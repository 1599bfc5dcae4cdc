package transport

import (
	"sync"
	"time"
)

// session is a conn over HTTP: a legacy session by its Mcp-Session-Id, or the
// modern one of a token and profile.
type session struct {
	*conn
	name  string
	owner caller // whose it is: nobody else finds it
	lists paramHeaders

	refs  int // requests and streams that use it; guarded by sessions.mu
	used  time.Time
	timer *time.Timer
}

// sessions are all sessions over HTTP. One that nothing has used for a while
// ends. Safe for concurrent use.
type sessions struct {
	idle     time.Duration
	max      int
	perToken int // legacy ones; a token has a modern one a profile

	mu      sync.Mutex // guards what follows and the sessions' refs, used and timer
	m       map[string]*session
	stopped bool
}

func newSessions(idle time.Duration, limit, perToken int) *sessions {
	return &sessions{idle: idle, max: limit, perToken: perToken, m: make(map[string]*session)}
}

// add makes a legacy session, named by its session id, and takes hold of it;
// nil when there is no room. Whoever takes hold must release it. A token that
// has all it may have loses the one that it left unused for longest.
func (ss *sessions) add(owner caller, open func() *conn) *session {
	s, ended := ss.replace(owner, open)
	if ended != nil {
		ended.close()
	}
	return s
}

func (ss *sessions) replace(owner caller, open func() *conn) (made, ended *session) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	n, oldest := 0, (*session)(nil)
	for _, s := range ss.m {
		if s.private || s.owner.key != owner.key {
			continue
		}
		n++
		if s.refs == 0 && (oldest == nil || s.used.Before(oldest.used)) {
			oldest = s
		}
	}
	if n >= ss.perToken {
		if oldest == nil {
			return nil, nil
		}
		delete(ss.m, oldest.name)
		oldest.timer.Stop()
		ended = oldest
	}
	return ss.make("", owner, open), ended
}

// make makes a session under a name, or else under its session id.
func (ss *sessions) make(name string, owner caller, open func() *conn) *session {
	if ss.stopped || len(ss.m) >= ss.max {
		return nil
	}
	c := open()
	if c == nil {
		return nil
	}
	if name == "" {
		name = c.who.SessionID
	}
	s := &session{conn: c, name: name, owner: owner, refs: 1}
	s.timer = time.AfterFunc(ss.idle, func() { ss.expire(s) })
	ss.m[name] = s
	return s
}

// find takes hold of a legacy session; nil when the caller has none of this
// name.
func (ss *sessions) find(name string, c caller) *session {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s := ss.m[name]
	if s == nil || s.private || s.owner.key != c.key || s.owner.who.Profile != c.who.Profile {
		return nil
	}
	s.refs++
	return s
}

// share takes hold of the caller's one modern session, making it if there is
// none; nil when there is no room.
func (ss *sessions) share(c caller, open func() *conn) *session {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	name := "modern " + string(c.key[:]) + c.who.Profile
	if s := ss.m[name]; s != nil {
		s.refs++
		return s
	}
	s := ss.make(name, c, open)
	if s != nil {
		s.private = true
	}
	return s
}

func (ss *sessions) release(s *session) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s.refs--
	s.used = time.Now()
}

// expire ends s, unless it was used since the timer was set: then it looks again.
func (ss *sessions) expire(s *session) {
	ss.mu.Lock()
	left := ss.idle
	if s.refs == 0 {
		left -= time.Since(s.used)
	}
	idle := false
	switch {
	case ss.m[s.name] != s: // it ended meanwhile
	case left > 0:
		s.timer.Reset(left)
	default:
		delete(ss.m, s.name)
		idle = true
	}
	ss.mu.Unlock()
	if idle {
		s.close()
	}
}

// end ends s at once; requests that use it are cancelled.
func (ss *sessions) end(s *session) {
	ss.mu.Lock()
	if ss.m[s.name] == s {
		delete(ss.m, s.name)
	}
	s.timer.Stop()
	ss.mu.Unlock()
	s.close()
}

// stop lets no new session in and ends the streams that have no end.
func (ss *sessions) stop() {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.stopped = true
	for _, s := range ss.m {
		s.stop()
	}
}

// close ends all sessions and waits for what of them still runs, parked requests
// for one: whoever serves closes what they write to next.
func (ss *sessions) close() {
	ss.stop()
	ss.mu.Lock()
	all := make([]*session, 0, len(ss.m))
	for _, s := range ss.m {
		all = append(all, s)
	}
	ss.mu.Unlock()
	for _, s := range all {
		ss.end(s)
	}
	late := time.NewTimer(unwind)
	defer late.Stop()
	for _, s := range all {
		select {
		case <-s.ended:
		case <-late.C:
			s.log.Warn("a session did not end when it was closed")
			return
		}
	}
}
