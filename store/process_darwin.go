package store

import (
	"errors"
	"os"
	"sync"
	"syscall"
)

// hostID names the place in which a PID means something. The host's name
// changes with its network and counts only where there is no id.
var hostID = sync.OnceValue(func() string {
	if id, err := syscall.Sysctl("kern.uuid"); err == nil && id != "" {
		return id
	}
	name, _ := os.Hostname() // "" names one place as well, if only this one
	return name
})

var bootID = sync.OnceValue(func() string {
	id, _ := syscall.Sysctl("kern.bootsessionuuid") // "" tells no boot from another
	return id
})

// birthOf returns in which boot there is a process of that number, and whether
// there is. A number that was given out again within one boot counts as alive:
// its tickets then wait for a person instead of being run twice.
func birthOf(pid int) (birth string, there bool) {
	return bootID(), !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}
