package audit

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestMain lets the test binary be the process that is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("AUDIT_TEST_WRITE_UNTIL_KILLED"); dir != "" {
		writeUntilKilled(dir)
	}
	os.Exit(m.Run())
}

func writeUntilKilled(dir string) {
	l, err := Open(Options{Dir: dir, Now: time.Now, Process: fmt.Sprint(os.Getpid()), MaxBytes: 10_000})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for g := range writersKilled - 1 {
		go callUntilKilled(l, fmt.Sprint("g", g, "-"))
	}
	callUntilKilled(l, "c")
}

// writersKilled is how many calls a killed process has under way.
const writersKilled = 4

func callUntilKilled(l *Log, name string) {
	for i := 0; ; i++ {
		call := fmt.Sprint(name, i)
		if err := l.Record(intent(call)); err != nil {
			os.Exit(1)
		}
		fmt.Println(call) // the call itself: from here on it may have happened
		if err := l.Record(outcome(call)); err != nil {
			os.Exit(1)
		}
	}
}

// A process that is killed at any moment leaves a folder that verifies, in
// which every call that can have happened has its intent.
func TestKilledWriter(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for round := range 3 {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), "AUDIT_TEST_WRITE_UNTIL_KILLED="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		happened, lines := map[string]bool{}, bufio.NewScanner(out)
		for i := 0; i < 50*(round+1) && lines.Scan(); i++ {
			happened[lines.Text()] = true
		}
		if r := verify(t, dir, VerifyOptions{}); !r.OK() {
			t.Errorf("while it writes: %v", r.Damages())
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
			happened[lines.Text()] = true
		}
		if err := cmd.Wait(); err == nil {
			t.Error("the writer ended by itself")
		}
		r := verify(t, dir, VerifyOptions{})
		if !r.OK() || len(r.Dangling) > writersKilled*(round+1) {
			t.Errorf("killed: damages %v, %d dangling intents of %d processes", r.Damages(), len(r.Dangling), round+1)
		}
		written, err := Tail(os.DirFS(dir), 1<<20, func(e Event) bool { return e.Kind == Intent })
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range written {
			delete(happened, rec.Event.Call)
		}
		for call := range happened {
			t.Errorf("call %q happened and has no intent", call)
		}
	}
}
