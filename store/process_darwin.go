package store

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// hostID names the place in which a PID means something. The host's name
// changes with its network and counts only where there is no id.
var hostID = sync.OnceValue(func() string {
	if id, err := unix.Sysctl("kern.uuid"); err == nil && id != "" {
		return id
	}
	name, _ := os.Hostname() // "" names one place as well, if only this one
	return name
})

const zombie = 5 // SZOMB of sys/proc.h

// birthOf returns when the process started and whether there is one.
func birthOf(pid int) (birth string, there bool) {
	if err := unix.Kill(pid, 0); errors.Is(err, unix.ESRCH) {
		return "", false
	}
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return "", true // it cannot be told, and must not count as gone
	}
	start := info.Proc.P_starttime
	return fmt.Sprintf("%d.%06d", start.Sec, start.Usec), info.Proc.P_stat != zombie
}
