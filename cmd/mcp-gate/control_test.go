package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestAGateThatDoesNotAnswerIsNotWaitedForOnceTheCommandEnds(t *testing.T) {
	dir, err := os.MkdirTemp("", "gate") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	r := running{PID: 1, Socket: filepath.Join(dir, "s")}
	l, err := net.Listen("unix", r.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if conn, err := l.Accept(); err == nil {
			defer conn.Close()
			cancel()
			<-t.Context().Done()
		}
	}()
	began := time.Now()
	if _, err := r.ask(ctx, controlQuestion{Op: "status"}); err == nil {
		t.Error("an answer came from nobody")
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("waited %s", took)
	}
}
