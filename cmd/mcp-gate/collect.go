package main

import (
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// How much garbage may be there for a hundred bytes in use. GOGC in the
// environment goes before all of it.
const (
	garbageAtStart = 400 // a fifth of a start would be collecting what hardly is any
	garbageAtRest  = 100
	garbageOfCalls = 200 // saves a twentieth of the work of calls; a gate that carries none stays small
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

// collectLess is for a gate that carries calls, from the first one on.
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

// collectAsUsual ends the start.
func collectAsUsual() {
	garbage.Lock()
	defer garbage.Unlock()
	if !garbage.calls.Load() {
		setGarbage(garbageAtRest)
	}
}
