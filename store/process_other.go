//go:build !linux && !darwin

package store

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"syscall"
)

// hostID names the place in which a PID means something.
var hostID = sync.OnceValue(func() string {
	host, _ := os.Hostname() // "" names one place as well, if only this one
	return host
})

// birthOf reports whether there is a process of that number. When it started
// is not told, so that a number that was given out again counts as alive: a
// ticket then waits for a person instead of being run twice.
func birthOf(pid int) (birth string, there bool) {
	p, err := os.FindProcess(pid)
	if err != nil {
		return "", false
	}
	defer p.Release()
	if runtime.GOOS == "windows" {
		return "", true
	}
	err = p.Signal(syscall.Signal(0))
	return "", err == nil || errors.Is(err, os.ErrPermission)
}
