package upstream

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// maxAsking bounds the requests of one server that are being answered at once.
const maxAsking = 64

// calls knows which callers' calls a server is working on, to tell which of
// them a request of the server belongs to: MCP does not say on stdio. Safe for
// concurrent use.
type calls struct {
	mu *sync.Mutex // guards what follows, and the fields of what runs
	// apart keeps calls of different owners from overlapping. It is set once the
	// server has sent a request: whom that is for is known only while all calls
	// are one owner's. A call does not count while its server waits for our
	// answer, and what is nobody's never does.
	apart   bool
	own     bool // all calls are one owner's
	running map[*running]struct{}
	came    int64           // how many have run
	lasting map[any]lasting // by owner, where a request belongs to one of several calls
	waiting []*place        // who waits for a turn, the first one first
	changed chan struct{}   // where somebody waits for a turn: closed when one may be free; else nil
}

// running is one call.
type running struct {
	ctx   context.Context
	owner any // nil for nobody
	nth   int64
	since time.Time
	asks  int // requests of the server about it that are not answered
}

// place is one in the line of those that wait for a turn.
type place struct{ owner any }

// lasting is a context that ends with the last of an owner's calls.
type lasting struct {
	ctx context.Context
	end context.CancelFunc
}

const (
	// longCall is how long calls have to last for others of their owner to go
	// past those who wait. Shorter ones end soon if no more are let in, so
	// everybody gets a turn.
	longCall = 20 * time.Second
	// longestWait is how long a call waits for a turn: many clients give up
	// after a minute, and learn less from that.
	longestWait = 50 * time.Second
	// backInLine is how long an answer of ours waits for the turn of its call.
	// Afterwards the server gets it all the same, and what it asks next may
	// belong to two owners' calls.
	backInLine = 5 * time.Second
)

var errBusy = errors.New("another session's call is under way, and calls of two sessions do not overlap there, since it asks clients things " +
	`without saying about which call: try again later, or have the owner set "connection": "session" for it, which gives each session a connection of its own`)

func newCalls() calls {
	return calls{mu: new(sync.Mutex), running: map[*running]struct{}{}, lasting: map[any]lasting{}}
}

// enter counts a call in, after waiting for its owner's turn where there are
// turns, until leave.
func (c *calls) enter(ctx context.Context, owner any) (*running, *Error) {
	r := &running{ctx: ctx, owner: owner}
	if e := c.turn(ctx, owner, false, longestWait, func() {
		c.came++
		r.nth, r.since = c.came, time.Now()
		c.running[r] = struct{}{}
	}); e != nil {
		return nil, e
	}
	return r, nil
}

func (c *calls) leave(r *running) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, r)
	c.changes()
	l, ok := c.lasting[r.owner]
	if !ok {
		return
	}
	for other := range c.running {
		if other.owner == r.owner {
			return
		}
	}
	l.end()
	delete(c.lasting, r.owner)
}

// turn waits until owner's calls may go on and then calls take with mu held. First
// is for who goes before all that wait.
func (c *calls) turn(ctx context.Context, owner any, first bool, most time.Duration, take func()) *Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := len(c.waiting)
	if first {
		at = 0
	}
	if free, _ := c.free(owner, c.waiting[:at]); free {
		take()
		return nil
	}
	me := &place{owner}
	c.waiting = slices.Insert(c.waiting, at, me)
	defer func() {
		c.waiting = slices.DeleteFunc(c.waiting, func(p *place) bool { return p == me })
		c.changes()
	}()
	limit := time.NewTimer(most)
	defer limit.Stop()
	for {
		free, again := c.free(owner, c.waiting[:slices.Index(c.waiting, me)])
		if free {
			take()
			return nil
		}
		if c.changed == nil {
			c.changed = make(chan struct{})
		}
		changed := c.changed
		var look <-chan time.Time
		if again > 0 {
			look = time.After(again)
		}
		c.mu.Unlock()
		var e *Error
		select {
		case <-changed:
		case <-look:
		case <-limit.C:
			e = &Error{Kind: Busy, Err: errBusy}
		case <-ctx.Done():
			e = ended(ctx)
		}
		c.mu.Lock()
		if e != nil {
			return e
		}
	}
}

// free reports whether a call of owner may go on, where ahead wait for longer. Where
// it may once time has passed, again says when. Called with mu held.
func (c *calls) free(owner any, ahead []*place) (free bool, again time.Duration) {
	if !c.apart || owner == nil {
		return true, 0
	}
	var oldest *running // of its own
	for r := range c.running {
		switch {
		case r.asks > 0 || r.owner == nil:
		case r.owner != owner:
			return false, 0
		case oldest == nil || r.nth < oldest.nth:
			oldest = r
		}
	}
	for _, p := range ahead {
		if p.owner == owner {
			continue
		}
		if oldest == nil {
			return false, 0
		}
		left := longCall - time.Since(oldest.since)
		return left <= 0, max(left, 0)
	}
	return true, 0
}

func (c *calls) changes() {
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// whose returns the call that a message of the server may be about, and whether it
// is one of several of the same owner: the newest then. It is nil where there is
// none, and where two owners have calls, even if one waits for an answer: a server
// may ask two things at once. A request has calls of different owners go apart from
// now on.
func (c *calls) whose(request bool) (newest *running, several bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.apart = c.apart || request && !c.own
	var owner any
	for r := range c.running {
		if r.owner != nil {
			owner = r.owner
		}
	}
	var working *running // the newest that does not wait for us
	all, active := 0, 0
	for r := range c.running {
		switch {
		case r.owner == nil && owner != nil:
			continue
		case r.owner != owner:
			return nil, false
		}
		all++
		if newest == nil || r.nth > newest.nth {
			newest = r
		}
		if r.asks > 0 {
			continue
		}
		active++
		if working == nil || r.nth > working.nth {
			working = r
		}
	}
	return cmp.Or(working, newest), active > 1 || active == 0 && all > 1
}

// until returns a context that ends with the last call of r's owner.
func (c *calls) until(r *running) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, ok := c.lasting[r.owner]
	if !ok {
		l.ctx, l.end = context.WithCancel(context.Background())
		if _, runs := c.running[r]; runs {
			c.lasting[r.owner] = l
		} else {
			l.end()
		}
	}
	return l.ctx
}

// asked lets others have their turn while r waits for an answer of ours. The
// function it returns takes the turn back, as far as it can be had.
func (c *calls) asked(r *running) (answered func(context.Context)) {
	if r == nil {
		return func(context.Context) {}
	}
	c.mu.Lock()
	r.asks++
	c.changes()
	c.mu.Unlock()
	return func(ctx context.Context) {
		if c.turn(ctx, r.owner, true, backInLine, func() { r.asks-- }) != nil {
			c.mu.Lock()
			r.asks--
			c.mu.Unlock()
		}
	}
}

// What a server may say unasked. One that goes on beyond it is read no faster, or
// it would have a core to itself; what it answers waits with it.
const (
	noticeBurst = 10_000
	noticeRate  = 5_000 // a second
	noticeLag   = 20    // how many are owed before a pause is worth one
)

// pace counts what a server says unasked. Safe for concurrent use.
type pace struct {
	mu   sync.Mutex
	left float64 // of the burst; below 0 it is ahead of its rate
	last time.Time
}

// next counts one more and returns how long to wait before the one after it.
func (p *pace) next(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last.IsZero() {
		p.left = noticeBurst
	}
	p.left = min(p.left+now.Sub(p.last).Seconds()*noticeRate, noticeBurst) - 1
	p.last = now
	if p.left > -noticeLag {
		return 0
	}
	return time.Duration(-p.left / noticeRate * float64(time.Second))
}

// inbound handles what a server sends unasked on one connection.
type inbound struct {
	s     *server
	ctx   context.Context // ends with the connection
	end   context.CancelFunc
	reply func(ctx context.Context, line []byte) // sends an answer

	wg sync.WaitGroup // the goroutines that answer

	mu     sync.Mutex // guards what follows
	asking map[string]context.CancelFunc
}

func newInbound(s *server, reply func(context.Context, []byte)) *inbound {
	in := &inbound{s: s, reply: reply, asking: map[string]context.CancelFunc{}}
	in.ctx, in.end = context.WithCancel(WithOwner(context.Background(), s.owner))
	return in
}

// close ends what is being answered and waits for it.
func (in *inbound) close() {
	in.end()
	in.wg.Wait()
}

// notification takes one notification; find returns the pending request that
// was given a progress token, or nil. Call is as in request.
func (in *inbound) notification(m jsonrpc.Message, find func(token string) *pending, call context.Context) {
	if pause := in.s.pace.next(time.Now()); pause > 0 {
		wait(in.ctx, pause)
	}
	switch m.Method {
	case "notifications/progress":
		if p := find(textMember(m.Params, "progressToken")); p == nil || !p.queue(m.Params) {
			in.s.tally.progress.Add(1)
		}
		return
	case "notifications/cancelled":
		in.cancel(m.Params)
		return
	case "notifications/tools/list_changed":
		in.s.listAgain()
		if in.s.base != nil {
			in.s.base.listAgain()
		}
	}
	if call == nil {
		call = in.ctx
		if r, several := in.s.calls.whose(false); r != nil && !several {
			call = r.ctx
		}
	}
	in.s.o.OnNotification(WithOwner(context.WithoutCancel(call), in.s.owner), in.s.cfg.Alias, m.Method, m.Params)
}

// request answers one request of the server, in a goroutine where it takes
// more than a moment. Call is the context of the call that the request
// belongs to, nil where the connection does not tell.
func (in *inbound) request(m jsonrpc.Message, call context.Context) {
	switch {
	case m.Method == "ping":
		in.reply(in.ctx, jsonrpc.AppendResult(nil, m.ID, json.RawMessage("{}")))
		return
	case in.s.o.OnRequest == nil:
		in.refuse(m, jsonrpc.CodeMethodNotFound, "mcp-gate answers no "+m.Method)
		return
	}
	var of *running
	owner := in.s.owner
	if call == nil {
		several := false
		of, several = in.s.calls.whose(m.Method != "roots/list") // which is about no call in particular
		switch {
		case several: // then it is known only whose it is
			call, owner = in.s.calls.until(of), of.owner
		case of != nil:
			call = of.ctx
		}
	}
	ctx, end := in.within(call, owner)
	key := string(m.ID)
	in.mu.Lock()
	_, twice := in.asking[key]
	full := len(in.asking) >= maxAsking || in.ctx.Err() != nil
	if !twice && !full {
		in.asking[key] = end
		in.wg.Add(1)
	}
	in.mu.Unlock()
	if twice || full {
		end()
		in.refuse(m, jsonrpc.CodeInternal, "too many requests at once, or an id used twice")
		return
	}
	in.s.asking.Add(1)
	go func() {
		defer in.wg.Done()
		defer in.s.asking.Add(-1)
		defer end()
		in.ask(ctx, m, of)
	}()
}

// within returns the context of a request that belongs to call, nil for none, and to
// owner. It ends with the call and with the connection; after end neither holds on to it.
func (in *inbound) within(call context.Context, owner any) (ctx context.Context, end context.CancelFunc) {
	if call == nil {
		return context.WithCancel(in.ctx)
	}
	ctx, cancel := context.WithCancel(WithOwner(call, owner))
	stop := context.AfterFunc(in.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// ask has the owner of the pool answer m, and sends the answer unless the
// server has taken its request back.
func (in *inbound) ask(ctx context.Context, m jsonrpc.Message, of *running) {
	answered := in.s.calls.asked(of)
	result, e := in.s.o.OnRequest(ctx, in.s.cfg.Alias, m.Method, m.Params)
	answered(ctx)
	in.mu.Lock()
	_, wanted := in.asking[string(m.ID)]
	delete(in.asking, string(m.ID))
	in.mu.Unlock()
	switch {
	case !wanted:
	case e != nil:
		in.reply(in.ctx, jsonrpc.AppendError(nil, m.ID, e))
	default:
		in.reply(in.ctx, jsonrpc.AppendResult(nil, m.ID, result))
	}
}

// cancel takes back a request of the server: it gets no answer any more.
func (in *inbound) cancel(params json.RawMessage) {
	id, _, err := strictjson.Get(params, "requestId")
	if err != nil {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if cancel := in.asking[string(id)]; cancel != nil {
		delete(in.asking, string(id))
		cancel()
	}
}

func (in *inbound) refuse(m jsonrpc.Message, code int64, why string) {
	in.reply(in.ctx, jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: code, Message: why}))
}

// textMember returns the member of obj that is a string, else "".
func textMember(obj json.RawMessage, name string) string {
	raw, ok, err := strictjson.Get(obj, name)
	if err != nil || !ok {
		return ""
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return ""
	}
	return text
}

// looseID finds the id of an answer that is no acceptable JSON, so that the
// call it was meant for can be told. It looks at nesting and strings only. What
// has a method is no answer: its id is the server's own.
func looseID(line []byte) (found json.RawMessage) {
	depth := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			end := stringEnd(line, i)
			if depth == 1 && string(line[i:end]) == `"method"` && bytes.HasPrefix(bytes.TrimLeft(line[end:], " \t"), []byte(":")) {
				return nil
			}
			if depth == 1 && found == nil && string(line[i:end]) == `"id"` {
				found = looseValue(line[end:])
			}
			i = end - 1
		}
	}
	return found
}

// stringEnd returns the offset after the string that begins at line[i].
func stringEnd(line []byte, i int) int {
	for i++; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(line)
}

// looseValue returns the number or short string after a colon at the start of
// rest, else nil.
func looseValue(rest []byte) json.RawMessage {
	i := 0
	for i < len(rest) && (rest[i] == ' ' || rest[i] == '\t') {
		i++
	}
	if i == len(rest) || rest[i] != ':' {
		return nil
	}
	for i++; i < len(rest) && (rest[i] == ' ' || rest[i] == '\t'); i++ {
	}
	end := i
	for end < len(rest) && (rest[end] == '"' || rest[end] == '.' || (rest[end] >= '0' && rest[end] <= '9')) {
		end++
	}
	if end == i {
		return nil
	}
	return rest[i:end]
}

// ourID turns an id as a server spells it into the number that was given out:
// servers exist that answer "7" or 7.0 to 7, and a hang would be worse than
// taking that. Loose reports whether it was spelled differently.
func ourID(raw json.RawMessage) (id string, loose bool, err error) {
	s := string(raw)
	if len(s) > 2 && s[0] == '"' && s[len(s)-1] == '"' {
		s, loose = s[1:len(s)-1], true
	}
	if len(s) > 2 && s[len(s)-2:] == ".0" {
		s, loose = s[:len(s)-2], true
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return "", false, errors.New("not an id of ours")
		}
	}
	if s == "" || len(s) > 19 {
		return "", false, errors.New("not an id of ours")
	}
	return s, loose, nil
}
