package main

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/gate"
)

// largeAnswer is from where on an answer takes longer to look at than small
// ones should have to wait for it.
const largeAnswer = 128 << 10

// calm is how long nothing large is at work before small calls have it to themselves.
// An answer is at work for as long as it takes to look at it on a busy machine, this
// much a byte.
const (
	calm  = time.Second
	aByte = 100 * time.Nanosecond
)

// threads are how many of them run the gate.
//
// A large answer has two more than there are processors. Goroutines that are busy
// give way to others after 10 ms, and not to one whose answer comes meanwhile;
// threads that are busy give way at once to one that has waited.
//
// Small calls have one, where nothing but streams that can be polled is waited
// for: what a call's goroutines hand to each other then never wakes a thread,
// which would cost more than the call, and what several calls have to write comes
// together. Beside anything that computes for long one thread would have each of a
// call's steps wait for 10 ms and more. GOMAXPROCS in the environment goes before all
// of it.
var threads = newHands()

type hands struct {
	all   atomic.Int32 // as many as there are processors, by the last look
	fixed bool         // the environment says how many
	look  func() int   // how many there are now: a container's limit may change

	sparing atomic.Bool  // one is enough for small calls
	until   atomic.Int64 // when more are needed no longer, in nanoseconds
	long    atomic.Int32 // how much is at work that takes nobody knows how long

	mu  sync.Mutex // held while now changes
	now atomic.Int32
}

func newHands() *hands {
	h := &hands{fixed: os.Getenv("GOMAXPROCS") != "", look: processors}
	h.all.Store(int32(runtime.GOMAXPROCS(0)))
	h.now.Store(h.all.Load())
	return h
}

// spare lets small calls have one thread, once the start is over.
func (h *hands) spare() {
	h.until.Store(time.Now().Add(calm).UnixNano())
	h.sparing.Store(!h.fixed && h.all.Load() > 1)
}

// small is told of every call.
func (h *hands) small() {
	if h.sparing.Load() && h.now.Load() > 1 && h.long.Load() == 0 && time.Now().UnixNano() > h.until.Load() {
		h.set(1)
	}
}

// large is told of an answer of so many bytes, which small ones should not wait for.
func (h *hands) large(size int) {
	h.busyFor(time.Duration(size) * aByte)
	if all := h.all.Load(); !h.fixed && h.now.Load() < all+2 {
		h.set(all + 2)
	}
}

// busy is told of other work of which there is more than a call brings.
func (h *hands) busy() { h.busyFor(0) }

// atWork is told of what may compute for long, until done is called.
func (h *hands) atWork() (done func()) {
	h.long.Add(1)
	h.busy()
	return func() {
		h.busy()
		h.long.Add(-1)
	}
}

func (h *hands) busyFor(d time.Duration) {
	if !h.sparing.Load() {
		return
	}
	until := time.Now().Add(calm + d).UnixNano()
	for was := h.until.Load(); was < until && !h.until.CompareAndSwap(was, until); was = h.until.Load() {
	}
	if all := h.all.Load(); h.now.Load() < all {
		h.set(all)
	}
}

// processors are as many as Go would use. It follows the limit of a container by
// itself only until it is told a number.
func processors() int {
	runtime.SetDefaultGOMAXPROCS()
	return runtime.GOMAXPROCS(0)
}

func (h *hands) set(n int32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.now.Load() == n {
		return
	}
	if n > 1 {
		has := int32(h.look())
		n += has - h.all.Swap(has)
	}
	runtime.GOMAXPROCS(int(n))
	h.now.Store(n)
}

// flushing is an audit log that waits for the disk before a call that changes
// something. Go takes up to 10 ms to notice that its one thread waits there.
type flushing struct{ gate.Recorder }

func (f flushing) Record(e audit.Event) error {
	if e.Kind == audit.Intent && e.Class != engagement.Read.String() {
		threads.busy()
	}
	return f.Recorder.Record(e)
}
