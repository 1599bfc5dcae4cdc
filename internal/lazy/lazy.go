// Package lazy makes what many commands never need when it is first asked for.
package lazy

import (
	"regexp"
	"sync"
)

// Regexp returns a function that compiles expr at its first call and gives the
// same pattern ever after; it may be called from many goroutines. It panics, at
// that first call, where regexp.MustCompile would. The gate has some hundred
// patterns for tools it sees for the first time; compiling them took 40 ms of
// every command.
func Regexp(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
