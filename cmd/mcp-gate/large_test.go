package main

import (
	"runtime"
	"testing"
	"time"
)

func TestSmallCallsHaveOneThread(t *testing.T) {
	before := runtime.GOMAXPROCS(2)
	defer runtime.GOMAXPROCS(before)
	there := 2
	h := &hands{look: func() int { return there }}
	h.all.Store(2)
	h.now.Store(2)
	want := func(when string, n int) {
		t.Helper()
		if got := runtime.GOMAXPROCS(0); got != n {
			t.Errorf("%s there are %d threads, want %d", when, got, n)
		}
	}
	calmly := func() { h.last.Store(time.Now().Add(-2 * calm).UnixNano()) }
	h.small()
	want("where streams hold a thread", 2)
	h.spare()
	h.small()
	want("during the start", 2)
	calmly()
	h.small()
	want("after the start", 1)
	h.busy()
	want("while definitions are judged", 2)
	calmly()
	h.small()
	want("after that", 1)
	h.large()
	want("beside a large answer", 4)
	h.small()
	want("soon after it", 4)
	calmly()
	h.small()
	want("later", 1)
	there = 3
	h.busy()
	want("once there are more processors", 3)
	h = &hands{fixed: true}
	h.all.Store(2)
	runtime.GOMAXPROCS(2)
	h.now.Store(2)
	h.spare()
	calmly()
	h.small()
	h.large()
	want("where the environment says how many", 2)
}
