package main

import (
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// The values of GOGC: how many bytes of garbage may pile up for a hundred bytes in use
// before it is collected. If the environment sets GOGC, none of them is used.
const (
	garbageAtStart = 400 // collecting would take a fifth of a start, and find little
	garbageAtRest  = 100
	garbageOfCalls = 200 // saves a twentieth of the work of calls, once there are any
)

var garbage struct {
	sync.Mutex
	calls atomic.Bool // set under the lock
}

func setGarbage(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// collectLess is called with each call. From the first one on less is collected.
func collectLess() {
	if garbage.calls.Load() {
		return
	}
	garbage.Lock()
	defer garbage.Unlock()
	if !garbage.calls.Swap(true) {
		setGarbage(garbageOfCalls)
	}
}

// collectAsUsual is called when the start is over.
func collectAsUsual() {
	garbage.Lock()
	defer garbage.Unlock()
	if !garbage.calls.Load() {
		setGarbage(garbageAtRest)
	}
}
