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
	pass := func(d time.Duration) { h.until.Add(-int64(d)) }
	calmly := func() { pass(2 * calm) }
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
	h.large(largeAnswer)
	want("beside a large answer", 4)
	h.small()
	want("soon after it", 4)
	calmly()
	h.small()
	want("later", 1)
	h.large(64 << 20)
	h.busy()
	calmly()
	h.small()
	want("beside the largest answer, which is still looked at", 4)
	pass(64 << 20 * aByte)
	h.small()
	want("once it is not", 1)
	first, second := h.atWork(), h.atWork()
	calmly()
	h.small()
	want("beside queries", 2)
	first()
	calmly()
	h.small()
	want("beside the one that goes on", 2)
	second()
	h.small()
	want("soon after it", 2)
	calmly()
	h.small()
	want("after all of them", 1)
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
	h.large(largeAnswer)
	want("where the environment says how many", 2)
}
