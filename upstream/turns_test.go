package upstream

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// turns is what calls of owners do with a server that has asked something.
type turns struct {
	t *testing.T
	c calls
}

func newTurns(t *testing.T) *turns {
	c := newCalls()
	c.whose(true)
	return &turns{t, c}
}

// enter begins a call; what it returns has a value once that is the owner's turn.
func (x *turns) enter(ctx context.Context, owner any) <-chan *running {
	in := make(chan *running, 1)
	go func() {
		if r, e := x.c.enter(ctx, owner); e == nil {
			in <- r
		}
	}()
	synctest.Wait()
	return in
}

// in is the call that has its turn.
func (x *turns) in(who string, in <-chan *running) *running {
	x.t.Helper()
	synctest.Wait()
	select {
	case r := <-in:
		return r
	default:
		x.t.Fatal(who + " has no turn")
		return nil
	}
}

func (x *turns) out(who string, in <-chan *running) {
	x.t.Helper()
	synctest.Wait()
	if len(in) > 0 {
		x.t.Fatal(who + " has a turn")
	}
}

// whose checks whose the next request of the server is.
func (x *turns) whose(want *running, wantSeveral bool) {
	x.t.Helper()
	if got, several := x.c.whose(true); got != want || several != wantSeveral {
		x.t.Errorf("what the server asks is about %v, one of several: %v; want %v, %v", got, several, want, wantSeveral)
	}
}

func TestOneOwnersCallsGoSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTurns(t)
		x.whose(nil, false)
		hangs := x.in("the first call", x.enter(t.Context(), "x"))
		x.whose(hangs, false)
		second := x.in("a call beside one that hangs", x.enter(t.Context(), "x"))
		x.whose(second, true)
		until := x.c.until(second)
		answered := x.c.asked(second)
		x.whose(hangs, false)
		both := x.c.asked(hangs)
		x.whose(second, true) // one of them asks two things at once
		both(t.Context())
		answered(t.Context())
		nobodys := x.in("a request of the gate's own", x.enter(t.Context(), nil))
		x.whose(second, true)
		x.c.leave(second)
		if until.Err() != nil {
			t.Error("a request that may be about the first call ended with the second")
		}
		x.whose(hangs, false)
		x.c.leave(hangs)
		if until.Err() == nil {
			t.Error("a request of an owner without calls goes on")
		}
		x.c.leave(nobodys)
		if len(x.c.lasting)+len(x.c.running)+len(x.c.waiting) != 0 {
			t.Errorf("left over: %+v", x.c)
		}
	})
}

func TestTwoOwnersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTurns(t)
		began := time.Now()
		first := x.in("x", x.enter(t.Context(), "x"))
		y := x.enter(t.Context(), "y")
		x.out("y beside x", y)
		next := x.enter(t.Context(), "x")
		x.out("x before y, who waits for longer", next)
		gone, giveUp := context.WithCancel(t.Context())
		z := x.enter(gone, "z")
		x.c.leave(first)
		ys := x.in("y", y)
		x.out("x beside y", next)
		x.whose(ys, false)
		giveUp()
		x.c.leave(ys)
		x.out("z, who gave up", z)
		last := x.in("x", next)
		if waited := time.Since(began); waited != 0 {
			t.Errorf("the turns took %v", waited)
		}

		// While the server waits for an answer of ours, others have their turn.
		answered := x.c.asked(last)
		ys = x.in("y while x is asked", x.enter(t.Context(), "y"))
		x.whose(nil, false) // x could be the one that asks
		back := make(chan struct{})
		go func() {
			answered(t.Context())
			close(back)
		}()
		synctest.Wait()
		y = x.enter(t.Context(), "y")
		x.out("y before an answer that waits", y)
		x.c.leave(ys)
		<-back
		x.out("y beside x", y)
		x.whose(last, false)
		if waited := time.Since(began); waited != 0 {
			t.Errorf("the answer waited %v", waited)
		}
		x.c.leave(last)
		ys = x.in("y", y)

		xs := x.c.asked(ys)
		last = x.in("x while y is asked", x.enter(t.Context(), "x"))
		xs(t.Context()) // x does not end
		if waited := time.Since(began); waited != backInLine {
			t.Errorf("the answer waited %v, want %v", waited, backInLine)
		}
		x.whose(nil, false)
		x.c.leave(ys)
		x.c.leave(last)
	})
}

// A call that hangs keeps other owners out, but not for ever, and its own owner
// not at all.
func TestACallThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTurns(t)
		began := time.Now()
		hangs := x.in("x", x.enter(t.Context(), "x"))
		failed := make(chan *Error)
		go func() {
			_, e := x.c.enter(t.Context(), "y")
			failed <- e
		}()
		synctest.Wait()
		mine := <-x.enter(t.Context(), "x")
		if waited := time.Since(began); waited != longCall {
			t.Errorf("a call of its owner waited %v, want %v", waited, longCall)
		}
		again := x.in("another one later", x.enter(t.Context(), "x"))
		e := <-failed
		if waited := time.Since(began); waited != longestWait || e == nil || e.Kind != Busy || e.Sent || !strings.Contains(e.Error(), `"connection": "session"`) {
			t.Errorf("the other owner's call: %v after %v", e, waited)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, e := x.c.enter(ctx, "y"); e == nil || e.Kind != Timeout {
			t.Errorf("a call whose time is over: %v", e)
		}
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		if _, e := x.c.enter(ctx, "y"); e == nil || e.Kind != Cancelled {
			t.Errorf("a call that is cancelled: %v", e)
		}
		x.c.leave(again)
		x.c.leave(mine)
		x.c.leave(hangs)
		x.c.leave(x.in("y", x.enter(t.Context(), "y")))
	})
}
