package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/mcp-gate/mcp-gate/config"
)

// TestASlowGateKeepsItsRecord has one that accepts nothing for a while, so that
// nothing more can be put to it, beside one that is gone and one whose socket is.
func TestASlowGateKeepsItsRecord(t *testing.T) {
	h := config.Home{Dir: t.TempDir()}
	if err := os.MkdirAll(h.Run(), 0o700); err != nil {
		t.Fatal(err)
	}
	record := func(name string, pid int) running {
		r := running{PID: pid, Socket: filepath.Join(h.Run(), name+".sock")}
		raw, err := json.Marshal(r)
		if err == nil {
			err = os.WriteFile(filepath.Join(h.Run(), name+".json"), raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	record("nowhere", 1)
	gone := record("gone", 2)
	slow := record("slow", 3)
	for _, at := range []string{gone.Socket, slow.Socket} {
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err == nil {
			err = syscall.Bind(fd, &syscall.SockaddrUnix{Name: at})
		}
		if err == nil {
			err = syscall.Listen(fd, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		if at == gone.Socket {
			_ = syscall.Close(fd) // its name stays
			continue
		}
		defer syscall.Close(fd)
	}
	for {
		conn, err := net.Dial("unix", slow.Socket)
		if err != nil {
			break // it takes no more
		}
		defer conn.Close()
	}
	live, err := gates(h)
	if err != nil || len(live) != 1 || live[0].PID != 3 {
		t.Errorf("the gates that run are %+v, %v; want the slow one", live, err)
	}
	left, err := filepath.Glob(filepath.Join(h.Run(), "*"))
	if err != nil || len(left) != 2 {
		t.Errorf("left are %q, %v; want the record and the socket of the slow one", left, err)
	}
}
