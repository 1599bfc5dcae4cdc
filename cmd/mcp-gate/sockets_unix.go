//go:build unix

package main

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// sweepSockets takes away the folders that killed gates left among the temporary
// files: see [abandoned]. What cannot be taken away stays.
func sweepSockets(temp string) {
	folders, err := os.ReadDir(temp)
	if err != nil {
		return
	}
	for _, f := range folders {
		digits, ok := strings.CutPrefix(f.Name(), socketFolder)
		if dir := filepath.Join(temp, f.Name()); ok && strings.Trim(digits, "0123456789") == "" && abandoned(dir) {
			_ = os.Remove(filepath.Join(dir, socketName))
			_ = os.Remove(dir) // empty, or it stays
		}
	}
}

// abandoned reports whether a folder is a killed gate's: this user's alone, with
// nothing in it but a socket at which nobody listens. A gate that is about to
// listen at its own has made the folder just now.
func abandoned(dir string) bool {
	const settled = time.Minute
	info, err := os.Lstat(dir)
	if err != nil || info.Mode() != os.ModeDir|0o700 || time.Since(info.ModTime()) < settled {
		return false
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Geteuid() {
		return false
	}
	content, err := os.ReadDir(dir)
	if err != nil || len(content) != 1 || content[0].Name() != socketName || content[0].Type() != os.ModeSocket {
		return false
	}
	conn, err := net.DialTimeout("unix", filepath.Join(dir, socketName), time.Second)
	if err != nil {
		return errors.Is(err, syscall.ECONNREFUSED)
	}
	_ = conn.Close()
	return false
}
