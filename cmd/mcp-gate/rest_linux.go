package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"
)

// giveBack hands the system the memory that only the start has used: freed heap,
// and pages of the program itself, most of which are libraries' initialisation.
// Pages that are needed again come back from the file.
func giveBack() error {
	debug.FreeOSMemory()
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("give back memory: %w", err)
	}
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return fmt.Errorf("give back memory: %w", err)
	}
	for _, m := range unchanged(bytes.NewReader(maps), program) {
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("give back memory: %w", errno)
		}
	}
	return nil
}

// mapping is a range of addresses.
type mapping struct{ from, to uintptr }

// unchanged returns the ranges at which a file is mapped that nobody may write
// to and of which no page differs from the file's: none is lost by letting go.
func unchanged(smaps io.Reader, file string) []mapping {
	var all []mapping
	var m mapping
	ours := false
	for s := bufio.NewScanner(smaps); s.Scan(); {
		var from, to uintptr
		var access string
		line := s.Text()
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &from, &to, &access); n == 3 { // else it says something about the last range
			m = mapping{from, to}
			ours = (access == "r-xp" || access == "r--p") && strings.HasSuffix(line, " "+file)
			continue
		}
		if value, ok := strings.CutPrefix(line, "Anonymous:"); ok && ours && strings.TrimSpace(value) == "0 kB" {
			all = append(all, m)
		}
	}
	return all
}
