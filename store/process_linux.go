package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
)

// hostID names the place in which a PID means something: the host, its boot
// and the PID namespace, so that containers that share a home are told apart.
var hostID = sync.OnceValue(func() string {
	host, _ := os.Hostname() // the rest tells as well
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	namespace, _ := os.Readlink("/proc/self/ns/pid")
	return strings.Join([]string{host, string(bytes.TrimSpace(boot)), namespace}, " ")
})

// birthOf returns when the process started, in the kernel's ticks since boot
// (field 22 of stat, see proc(5)), and whether there is one. A zombie is none.
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
	return string(fields[19]), string(fields[0]) != "Z" && string(fields[0]) != "X"
}
