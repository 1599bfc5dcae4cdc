package main

import (
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func holdsAThread(t *testing.T, f *os.File) bool {
	t.Helper()
	own, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	flags := 0
	if err := own.Control(func(fd uintptr) { flags, err = unix.FcntlInt(fd, unix.F_GETFL, 0) }); err != nil {
		t.Fatal(err)
	}
	return flags&unix.O_NONBLOCK == 0
}

// waiting is a stream as a parent hands it over: reading it holds a thread.
func waiting(t *testing.T, f *os.File) *os.File {
	t.Helper()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	handed := os.NewFile(uintptr(fd), "handed over")
	t.Cleanup(func() { _ = handed.Close() })
	return handed
}

// A stream that can be polled gives what the other one would, ends with it, and
// leaves it as it was.
func TestPolledStreams(t *testing.T) {
	pipe := func(t *testing.T) (in *os.File, feed io.WriteCloser) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		return waiting(t, r), w
	}
	socket := func(t *testing.T) (in *os.File, feed io.WriteCloser) {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		ours := os.NewFile(uintptr(fds[1]), "")
		conn, err := net.FileConn(ours)
		if err != nil {
			t.Fatal(err)
		}
		_ = ours.Close()
		return waiting(t, os.NewFile(uintptr(fds[0]), "")), conn
	}
	for name, make := range map[string]func(*testing.T) (*os.File, io.WriteCloser){"a pipe": pipe, "a socket": socket} {
		t.Run(name, func(t *testing.T) {
			in, feed := make(t)
			f, end, ok := polled(in, unix.O_RDONLY)
			if !ok {
				t.Fatal("it cannot be polled")
			}
			if err := f.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Errorf("it holds a thread: %v", err)
			}
			if name == "a pipe" && !holdsAThread(t, in) {
				t.Error("the pipe itself was changed")
			}
			go func() {
				_, _ = io.WriteString(feed, "line\n")
				_ = feed.Close()
			}()
			if got, err := io.ReadAll(f); string(got) != "line\n" || err != nil {
				t.Errorf("read %q, %v", got, err)
			}
			_ = f.Close()
			if end(); !holdsAThread(t, in) {
				t.Error("it stays changed")
			}
		})
	}
	if _, _, ok := polled(os.Stdin, unix.O_RDONLY); ok {
		if info, err := os.Stdin.Stat(); err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
			t.Error("what is neither a pipe nor a socket was taken for one")
		}
	}
}
