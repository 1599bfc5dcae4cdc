package main

import (
	"os"
	"runtime"
	"sync"
)

// largeAnswer is from where on an answer takes longer to look at than small
// ones should have to wait for it.
const largeAnswer = 128 << 10

// besideLarge lets two more threads run than there are processors, from the
// first large answer on. Goroutines that are busy give way to others after 10 ms,
// and not to one whose answer comes meanwhile; threads that are busy give way at
// once to one that has waited. Small calls alone are a little cheaper without.
// GOMAXPROCS in the environment goes before it.
var besideLarge = sync.OnceFunc(func() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 2)
	}
})
