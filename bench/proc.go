package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// What Linux tells of a process. Elsewhere there is nothing to read, and the
// columns stay empty.

// residentOf returns the memory that a process has resident now, and the most
// that it had since the start or the last resetPeak, in bytes.
func residentOf(pid int) (now, peak float64, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, false
	}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		n, _, _ := strings.Cut(strings.TrimSpace(value), " ")
		switch kb, _ := strconv.ParseFloat(n, 64); name {
		case "VmRSS":
			now = kb * 1024
		case "VmHWM":
			peak = kb * 1024
		}
	}
	return now, peak, peak > 0
}

// resetPeak lets the peak begin anew at what is resident now.
func resetPeak(pid int) bool {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0) == nil
}

// machine says in a line what this ran on.
func machine() string {
	s := fmt.Sprintf("%d CPUs, %s/%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, model, ok := strings.Cut(line, ":"); ok && strings.HasPrefix(name, "model name") {
				return s + ", " + strings.TrimSpace(model)
			}
		}
	}
	return s
}

// load is the number of runnable threads of the whole machine, the average of
// the last minute; negative where that is not known.
func load() float64 {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return -1
	}
	first, _, _ := strings.Cut(string(b), " ")
	n, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return -1
	}
	return n
}

// workFor keeps the processor busy until this process has used so much of it,
// or so much time has passed where that cannot be told.
func workFor(d time.Duration) {
	began, sum := time.Now(), sha256.Sum256(nil)
	for {
		used, ok := cpuOf(os.Getpid())
		if !ok {
			used = time.Since(began)
		}
		if used >= d {
			return
		}
		for range 10_000 {
			sum = sha256.Sum256(sum[:])
		}
	}
}
