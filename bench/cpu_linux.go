package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuOf returns the processor time that a process has used, without its
// children, in nanoseconds: what /proc says of it counts in hundredths of a
// second. The number of the clock is made as clock_getcpuclockid(3) makes it.
func cpuOf(pid int) (time.Duration, bool) {
	const scheduler = 2
	var used unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduler), &used); err != nil {
		return 0, false
	}
	return time.Duration(used.Nano()), true
}
