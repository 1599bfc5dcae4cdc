package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
	// oneEach has calls go one at a time. It is set once the server has sent a
	// request: which call that belongs to is known only while there is one call.
	// A call does not count while its server waits for our answer.
	oneEach bool
	own     bool // all calls are one owner's
	running map[*running]struct{}
	changed chan struct{} // where somebody waits for a turn: closed when one may be free; else nil
}

// running is one call.
type running struct {
	ctx   context.Context
	owner any
	asks  int // requests of the server about it that are not answered
}

func newCalls() calls {
	return calls{mu: new(sync.Mutex), running: map[*running]struct{}{}}
}

// enter counts a call in, after waiting for its turn where there are turns, until
// leave.
func (c *calls) enter(ctx context.Context, owner any) (*running, *Error) {
	r := &running{ctx: ctx, owner: owner}
	if !c.turn(ctx, func() { c.running[r] = struct{}{} }) {
		return nil, ended(ctx)
	}
	return r, nil
}

func (c *calls) leave(r *running) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, r)
	c.changes()
}

// turn waits until no call is being worked on, where calls go one at a time,
// and then calls take with mu held. It does not when ctx ends before.
func (c *calls) turn(ctx context.Context, take func()) bool {
	for {
		c.mu.Lock()
		if !c.oneEach || len(c.active()) == 0 {
			take()
			c.mu.Unlock()
			return true
		}
		if c.changed == nil {
			c.changed = make(chan struct{})
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// active are the calls that the server is working on. Called with mu held.
func (c *calls) active() []*running {
	var all []*running
	for r := range c.running {
		if r.asks == 0 {
			all = append(all, r)
		}
	}
	return all
}

func (c *calls) changes() {
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// only returns the one call that the server is working on, nil where there is
// none or more than one, or where another owner's call waits for an answer: a
// server may ask two things at once. It may have calls go one at a time from
// now on.
func (c *calls) only(oneEach bool) *running {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.oneEach = c.oneEach || oneEach && !c.own
	active := c.active()
	if len(active) == 0 && len(c.running) == 1 {
		for r := range c.running { // it asks two things at once
			active = append(active, r)
		}
	}
	if len(active) != 1 && !(c.own && len(active) > 1) {
		return nil
	}
	for r := range c.running {
		if r.owner != active[0].owner {
			return nil
		}
	}
	return active[0]
}

// backInLine is how long an answer of ours waits for the turn of its call.
// Afterwards the server gets it all the same, and what it asks next may belong
// to two calls.
const backInLine = 5 * time.Second

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
		ctx, cancel := context.WithTimeout(ctx, backInLine)
		defer cancel()
		if !c.turn(ctx, func() { r.asks-- }) {
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
		if r := in.s.calls.only(false); r != nil {
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
	if call == nil {
		if of = in.s.calls.only(m.Method != "roots/list"); of != nil { // which is about no call in particular
			call = of.ctx
		}
	}
	ctx, end := in.within(call)
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

// within returns the context of a request that belongs to call, nil for none. It
// ends with the call and with the connection; after end neither holds on to it.
func (in *inbound) within(call context.Context) (ctx context.Context, end context.CancelFunc) {
	if call == nil {
		return context.WithCancel(in.ctx)
	}
	ctx, cancel := context.WithCancel(WithOwner(call, in.s.owner))
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
