//go:build unix

package jsonrpc

import (
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// instant writes to a file as much as it takes at once. Not safe for concurrent
// use.
type instant struct {
	file  syscall.RawConn
	b     []byte // what is being written
	n     int    // how much of it was
	write func(fd uintptr) bool
}

// instantly returns what writes to w without waiting; nil where that cannot be
// known: w is no file, or one that makes its writers wait.
func instantly(w io.Writer) *instant {
	f, ok := w.(*os.File)
	if !ok {
		return nil
	}
	file, err := f.SyscallConn()
	if err != nil {
		return nil
	}
	never := false
	err = file.Control(func(fd uintptr) {
		flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
		never = err == nil && flags&unix.O_NONBLOCK != 0
	})
	if err != nil || !never {
		return nil
	}
	i := &instant{file: file}
	i.write = func(fd uintptr) bool {
		if n, err := unix.Write(int(fd), i.b); err == nil {
			i.n = n
		}
		return true
	}
	return i
}

// some returns how many of the first bytes of b were written. What went wrong
// shows when the rest is.
func (i *instant) some(b []byte) int {
	i.b, i.n = b, 0
	_ = i.file.Write(i.write)
	i.b = nil
	return i.n
}
