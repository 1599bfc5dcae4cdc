//go:build !linux

package main

import "time"

// cpuOf is not known here.
func cpuOf(int) (time.Duration, bool) { return 0, false }
