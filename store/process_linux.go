package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
)

// hostID names the place in which a PID means something: the machine and the
// PID namespace, so that containers that share a home are told apart. The
// host's name may change while it runs and counts only where there is no id.
var hostID = sync.OnceValue(func() string {
	machine, _ := os.ReadFile("/etc/machine-id")
	if machine = bytes.TrimSpace(machine); len(machine) == 0 {
		name, _ := os.Hostname() // "" names one place as well, if only this one
		machine = []byte(name)
	}
	namespace, _ := os.Readlink("/proc/self/ns/pid")
	return string(machine) + " " + namespace
})

var bootID = sync.OnceValue(func() string {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // without it, ticks alone tell
	return string(bytes.TrimSpace(boot))
})

// birthOf returns in which boot and when the process started, in the kernel's
// ticks since boot (field 22 of stat, see proc(5)), and whether there is one.
// A zombie is none.
func birthOf(pid int) (birth string, there bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, fs.ErrNotExist) {
		return "", false
	}
	// The name in parentheses may hold anything, spaces and parentheses too.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if err != nil || len(fields) < 20 {
		return "", true // it cannot be told, and must not count as gone
	}
	state, ticks := string(fields[0]), string(fields[19])
	return bootID() + " " + ticks, state != "Z" && state != "X"
}
