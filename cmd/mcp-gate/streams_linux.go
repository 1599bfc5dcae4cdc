package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// polled returns a stream of the client's as one on which a reader or writer that
// waits holds no thread, and whether it is one; end puts back what was changed.
//
// A pipe is opened once more, so that those who have it from the same parent do
// not find it changed. A socket cannot be; its end is the gate's own, unless a
// shell started the gate and goes on after it.
func polled(stream any, flag int) (file *os.File, end func(), ok bool) {
	f, isFile := stream.(*os.File)
	if !isFile {
		return nil, nil, false
	}
	info, err := f.Stat()
	if err != nil {
		return nil, nil, false
	}
	own, err := f.SyscallConn()
	if err != nil {
		return nil, nil, false
	}
	again, waits := -1, false
	err = own.Control(func(fd uintptr) {
		switch flags, _ := unix.FcntlInt(fd, unix.F_GETFL, 0); {
		case info.Mode()&os.ModeNamedPipe != 0: // fails without /proc, and where it is another user's
			again, _ = unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), flag|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		case info.Mode()&os.ModeSocket != 0:
			waits = flags&unix.O_NONBLOCK == 0
			if again, _ = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); again >= 0 {
				_ = unix.SetNonblock(again, true)
			}
		}
	})
	if err != nil || again < 0 {
		return nil, nil, false
	}
	return os.NewFile(uintptr(again), f.Name()), func() {
		if waits {
			_ = own.Control(func(fd uintptr) { _ = unix.SetNonblock(int(fd), false) })
		}
	}, true
}

// clientStreams are those that serve speaks over. Where both can be polled small
// calls are spared threads.
func (a *app) clientStreams() (in io.Reader, out io.Writer, end func()) {
	r, endIn, ok1 := polled(a.stdin, unix.O_RDONLY)
	w, endOut, ok2 := polled(a.stdout, unix.O_WRONLY)
	in, out = a.stdin, a.stdout
	var ends []func()
	if ok1 {
		in, ends = r, append(ends, endIn)
	}
	if ok2 {
		out, ends = w, append(ends, endOut)
	}
	if ok1 && ok2 {
		threads.spare()
	}
	return in, out, func() {
		for _, end := range ends {
			end()
		}
	}
}
