package gate

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
)

const followed = "mcp-gate://hub/doc://one"

// What was never followed is ended by nobody and no fault.
func TestUnsubscribeWithoutASubscription(t *testing.T) {
	c, _, s := openShop(t, nil)
	if e := s.Unsubscribe(t.Context(), followed); e != nil {
		t.Error(e)
	}
	if got := c.calls("hub unsubscribe"); len(got) != 0 {
		t.Errorf("the server was told %q", got)
	}
}

// A client may take a subscription back before it has heard that it stands.
func TestASubscriptionIsTakenBackBeforeItStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, s := openShop(t, nil)
		asked, answer := make(chan bool, 1), make(chan error, 1)
		c.following = func() error {
			asked <- true
			return <-answer
		}
		done := make(chan *jsonrpc.Error, 2)
		go func() { done <- s.Subscribe(t.Context(), followed) }()
		<-asked
		go func() { done <- s.Unsubscribe(t.Context(), followed) }()
		synctest.Wait()
		answer <- nil
		if a, b := <-done, <-done; a != nil || b != nil {
			t.Errorf("%v, %v", a, b)
		}
		if got := c.calls("hub unsubscribe"); len(got) != 1 {
			t.Errorf("the server was told %q", got)
		}
	})
}

// Whoever waits for the answer that another is given goes on when it is there.
func TestWhoWaitsForASubscriptionGoesOn(t *testing.T) {
	for range 300 {
		var r relay
		var all sync.WaitGroup
		w := watch{server: "hub", name: "x"}
		asked, answer := make(chan bool), make(chan bool)
		count := func() {}
		all.Go(func() {
			r.follow(t.Context(), w, count, func() *jsonrpc.Error {
				close(asked)
				<-answer
				return nil
			}, nil)
		})
		<-asked
		for range 4 {
			all.Go(func() {
				r.follow(t.Context(), w, count, func() *jsonrpc.Error {
					t.Error("the server was told twice")
					return nil
				}, nil)
			})
		}
		close(answer)
		all.Wait()
		if r.follows[w].n != 5 {
			t.Fatalf("it is followed %d times", r.follows[w].n)
		}
	}
}

// Two subscribe at once and one of them goes while the server is asked: it is followed
// once, and no more when the other has gone too.
func TestSubscriptionsThatWaitAreTakenBackOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, s := openShop(t, nil)
		answer := make(chan error)
		c.following = func() error { return <-answer }
		done := make(chan *jsonrpc.Error, 2)
		for range 2 {
			go func() { done <- s.Subscribe(t.Context(), followed) }()
		}
		synctest.Wait()
		if e := s.Unsubscribe(t.Context(), followed); e != nil {
			t.Error(e)
		}
		answer <- nil
		if a, b := <-done, <-done; a != nil || b != nil {
			t.Errorf("%v, %v", a, b)
		}
		if got := c.calls("hub unsubscribe"); len(got) != 0 {
			t.Errorf("it is not followed any more: %q", got)
		}
		if e := s.Unsubscribe(t.Context(), followed); e != nil || len(c.calls("hub unsubscribe")) != 1 {
			t.Errorf("the server was told %q, %v", c.calls("hub unsubscribe"), e)
		}
	})
}

func TestWhoWaitsAsksItselfWhereTheServerRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, s := openShop(t, nil)
		answer := make(chan error)
		c.following = func() error { return <-answer }
		done := make(chan *jsonrpc.Error, 2)
		for range 2 {
			go func() { done <- s.Subscribe(t.Context(), followed) }()
		}
		synctest.Wait()
		answer <- &jsonrpc.Error{Code: -5, Message: "not now"}
		answer <- nil
		a, b := <-done, <-done
		if (a == nil) == (b == nil) {
			t.Errorf("%v, %v", a, b)
		}
		if e := s.Unsubscribe(t.Context(), followed); e != nil || len(c.calls("hub unsubscribe")) != 1 {
			t.Errorf("the server was told %q, %v", c.calls("hub unsubscribe"), e)
		}
	})
}
