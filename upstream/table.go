package upstream

import (
	"encoding/json"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
)

// table holds the requests of one connection that wait for an answer. Safe
// for concurrent use.
type table struct {
	s       *server
	batches atomic.Bool // the version that was agreed on has batches

	mu      sync.Mutex // guards what follows
	waiting map[string]*pending
	err     error         // why no request may wait any more
	over    chan struct{} // closed once none does either
	closed  bool          // over is
}

func newTable(s *server) *table {
	return &table{s: s, waiting: map[string]*pending{}, over: make(chan struct{})}
}

// add lets p wait, unless the connection is over.
func (t *table) add(p *pending) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.waiting[p.id] = p
	}
	return t.err
}

// take removes and returns the request with this id, or nil.
func (t *table) take(id string) *pending {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.waiting[id]
	delete(t.waiting, id)
	t.closeIfEmpty()
	return p
}

// byToken returns the request with this progress token, or nil.
func (t *table) byToken(token string) *pending {
	if len(token) < 2 || token[0] != 'g' {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiting[token[1:]]
}

// fail ends every request that is waiting, and the table. The first reason
// counts.
func (t *table) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end(err)
}

// failIdle does it unless a request is waiting that will have an end, and reports
// whether the table is over.
func (t *table) failIdle(err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.waiting {
		if p.method != listenMethod {
			return false
		}
	}
	t.end(err)
	return true
}

// end is called with mu held.
func (t *table) end(err error) {
	if t.err == nil {
		t.err = err
	}
	for _, p := range t.waiting {
		p.settle(Response{}, &Error{Kind: Lost, Sent: true, Err: t.err})
	}
	clear(t.waiting)
	t.closeIfEmpty()
}

// shut lets no further request wait; the table is over once those that wait
// have their answers. It reports whether it was open.
func (t *table) shut(err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return false
	}
	t.err = err
	t.closeIfEmpty()
	return true
}

// closeIfEmpty is called with mu held.
func (t *table) closeIfEmpty() {
	if t.err != nil && len(t.waiting) == 0 && !t.closed {
		t.closed = true
		close(t.over)
	}
}

func (t *table) why() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

func (t *table) lost() <-chan struct{} { return t.over }

// answered gives the answer m to the request it names; where there is none it
// is counted and dropped.
func (t *table) answered(m jsonrpc.Message) {
	if p := t.claim(m.ID); p != nil {
		p.settle(answer(m))
	}
}

func (t *table) claim(raw json.RawMessage) *pending {
	id, loose, err := ourID(raw)
	if err != nil {
		t.s.tally.unknown.Add(1)
		return nil
	}
	p := t.take(id)
	switch {
	case p != nil && loose:
		if t.s.tally.quoted.Add(1) == 1 {
			t.s.log.Warn("server spells the ids of its answers differently; they are taken all the same")
		}
	case p == nil && t.s.gaveOut(id):
		t.s.tally.late.Add(1)
	case p == nil:
		t.s.tally.unknown.Add(1)
	}
	return p
}

// bad handles bytes that are no acceptable message, for the reason err: the
// calls they answer fail, the connection lives on.
func (t *table) bad(message []byte, err error) {
	known := false
	for one := range looseMessages(message) {
		known = t.failCall(looseID(one), &Error{Kind: Invalid, Sent: true, Err: err}) || known
	}
	if known {
		return
	}
	t.s.tally.garbage.Add(1)
	begins := printable(string(message[:min(len(message), 200)]))
	if t.s.noteGarbage(begins) {
		t.s.log.Warn("server sends what is no message; that is skipped", "begins", begins, "err", err)
	}
}

// noteGarbage keeps the first of what a server sends that is no message, and
// reports whether this was it.
func (s *server) noteGarbage(begins string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.garbage == ""
	if first {
		s.garbage = begins
	}
	return first
}

// failCall ends the request that raw names and reports whether there was one.
func (t *table) failCall(raw json.RawMessage, e *Error) bool {
	id, _, err := ourID(raw)
	if err != nil {
		return false
	}
	p := t.take(id)
	if p == nil {
		return false
	}
	p.settle(Response{}, e)
	return true
}

// gaveOut reports whether a request has had this id.
func (s *server) gaveOut(id string) bool {
	n, err := strconv.ParseInt(id, 10, 64)
	return err == nil && n > 0 && n <= s.ids.Load()
}
