package main

import (
	"os"
	"runtime/debug"
	"sync"
)

// collectLess lets three times of what is in use be there before the rest is
// collected, which saves a twentieth of the work of calls. A gate that
// carries none stays as small as it is; GOGC in the environment goes before.
var collectLess = sync.OnceFunc(func() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200)
	}
})
