//go:build unix

package upstream

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestStartsThatFail(t *testing.T) {
	plain := file(t, "#!/bin/sh\n")
	tests := []struct {
		name   string
		server Server
		want   []string
	}{
		{"no such command", Server{Command: []string{"no-such-mcp"}, Env: []string{"PATH=/bin"}}, []string{`"no-such-mcp" is not found in its PATH`}},
		{"no such file", Server{Command: []string{"/no/such"}}, []string{`"/no/such" is not found in the file system`}},
		{"no such folder", Server{Command: []string{"/bin/sh"}, Dir: "/no/such"}, []string{`working directory "/no/such" does not exist`}},
		{"not executable", Server{Command: []string{plain}}, []string{"permission denied"}},
		{"exit at spawn", fake("a", "-fault", "exit"), []string{"exit status 3", `cannot open the \x1b[31mdatabase`}},
		{"exit in initialize", fake("a", "-fault", "exit-init"), []string{"exit status 4"}},
		{"exit in mid-answer", fake("a", "-fault", "half-init"), []string{"exit status 5"}},
		{"no MCP at all", Server{Command: []string{"/bin/sh", "-c", "echo 'usage: \033[1mfoo'; exit 2"}}, []string{"exit status 2", `such as "usage: \x1b[1mfoo"`}},
		{"unknown version", fake("a", "-version", "2031-01-01"), []string{`"2031-01-01"`, `"2025-11-25"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.server.Alias = "a"
			// Another server is none the worse for it.
			r := start(t, Options{Backoff: func(int) time.Duration { return time.Hour }}, tt.server, fake("b")).settled()
			e := r.wrong(StartFailed, "echo", "")
			contains(t, e.Error(), append(tt.want, "server a did not start")...)
			if e.MayHaveRun() || e.Hint == "" {
				t.Errorf("may have run %v, hint %q", e.MayHaveRun(), e.Hint)
			}
			st := r.Status()
			if st[0].State != Failed || st[0].LastError == "" || st[1].State != Ready {
				t.Errorf("status %+v", st)
			}
			if _, err := r.Call(t.Context(), "b", toolCall("echo", "")); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWholeLineAsCommand(t *testing.T) {
	r := start(t, Options{}, Server{Alias: "a", Command: []string{"npx -y pkg"}, Env: []string{"PATH=/bin"}}).settled()
	contains(t, r.wrong(StartFailed, "echo", "").Hint, `put what follows it into "args"`)
}

func TestHangInInitialize(t *testing.T) {
	cfg := fake("a", "-fault", "hang-init,stubborn")
	cfg.StartTimeout = 500 * time.Millisecond
	r := start(t, Options{Backoff: func(int) time.Duration { return time.Hour }}, cfg)
	e := r.wrong(StartFailed, "echo", "")
	contains(t, e.Error(), "did not answer initialize within")
}

func TestServersThatEndInMidCall(t *testing.T) {
	for _, tt := range []struct{ name, tool, args, want string }{
		{"exit", "exit", `{"n":7}`, "exit status 7"},
		{"killed", "kill", "", "signal: killed"},
		{"in mid-line", "half", "", "exit status 6"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := start(t, Options{}, fake("a")).settled()
			var wg sync.WaitGroup
			var waiting [3]*Error
			for i := range waiting {
				wg.Go(func() { waiting[i] = r.wrong(Lost, "hang", "") })
			}
			r.state("calls under way", func(Status) bool { return true })
			e := r.wrong(Lost, tt.tool, tt.args)
			contains(t, e.Error(), "server a went away before it answered tools/call", tt.want, "may or may not have run")
			if e.After > 10*time.Second || !e.MayHaveRun() {
				t.Errorf("after %v, may have run %v", e.After, e.MayHaveRun())
			}
			// Those that were waiting may have come before or after the end.
			r.wrong(Lost, tt.tool, tt.args)
			for range 3 {
				r.must("pid", "")
			}
			r.stop()
			wg.Wait()
			if n := r.Status()[0].Starts; n < 3 {
				t.Errorf("started %d times", n)
			}
		})
	}
}

func TestRestartAfterIdleCrash(t *testing.T) {
	r := start(t, Options{Backoff: func(int) time.Duration { return time.Hour }}, fake("a")).settled()
	pid := r.state("a pid", func(s Status) bool { return s.PID != 0 }).PID
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// The first restart does not wait for the hour.
	st := r.state("another pid", func(s Status) bool { return s.State == Ready && s.PID != 0 && s.PID != pid })
	if st.Starts != 2 {
		t.Errorf("started %d times, want 2", st.Starts)
	}
	r.must("echo", "")
	// The second does.
	r.wrong(Lost, "exit", `{"n":1}`)
	r.state("a pause", func(s Status) bool { return s.State == Failed && time.Until(s.NextTry) > time.Minute })
	e := r.wrong(NotRunning, "echo", "")
	contains(t, e.Error(), "exit status 1")
	if e.MayHaveRun() {
		t.Error("it cannot have run")
	}
}

func TestParallelFirstCallsShareOneStart(t *testing.T) {
	starts := file(t, "")
	cfg := fake("a", "-starts", starts)
	cfg.Lazy = true
	r := start(t, Options{}, cfg).settled()
	if st := r.Status()[0]; st.State != Idle {
		t.Fatalf("a lazy server is %v before its first call", st.State)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { r.must("echo", "") })
	}
	wg.Wait()
	if got := lines(t, starts); len(got) != 1 {
		t.Errorf("started %d times, want once", len(got))
	}
	r.wrong(Lost, "exit", "")
	r.state("idle again", func(s Status) bool { return s.State == Idle })
	r.must("echo", "")
}

// gone waits until no process has this pid, or a zombie's.
func gone(t *testing.T, pid int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for alive(pid) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d is still there", pid)
		}
		runtime.Gosched()
	}
}

func alive(pid int) bool {
	if runtime.GOOS == "linux" {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			return false
		}
		_, rest, _ := strings.Cut(string(b), ") ")
		return !strings.HasPrefix(rest, "Z")
	}
	return syscall.Kill(pid, 0) == nil
}

func TestNothingIsLeftBehind(t *testing.T) {
	pids := file(t, "")
	r := start(t, Options{}, fake("a", "-fault", "stubborn,grandchild", "-starts", pids)).settled()
	r.stop()
	got := lines(t, pids)
	if len(got) != 2 {
		t.Fatalf("pids %v", got)
	}
	for _, s := range got {
		pid, _ := strconv.Atoi(s)
		gone(t, pid)
	}
	if st := r.Status()[0]; st.State != Stopped {
		t.Errorf("state %v", st.State)
	}
	e := r.wrong(NotRunning, "echo", "")
	contains(t, e.Error(), "shutting down")
}

func TestGrandchildEndsWithACrash(t *testing.T) {
	pids := file(t, "")
	r := start(t, Options{}, fake("a", "-fault", "grandchild", "-starts", pids)).settled()
	r.wrong(Lost, "exit", `{"n":1}`)
	pid, _ := strconv.Atoi(lines(t, pids)[1])
	gone(t, pid)
}

func TestKilledGateLeavesNothing(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Log("no parent-death signal here: only the well-behaved child is checked")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{{}, {"-fault", "stubborn"}} {
		if runtime.GOOS != "linux" && len(flags) > 0 {
			continue
		}
		pids := file(t, "")
		gate := exec.Command(self, append([]string{"gate", "-starts", pids}, flags...)...)
		out, err := gate.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := gate.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "settled\n" {
			t.Fatalf("the gate said %q, %v", line, err)
		}
		_ = gate.Process.Kill()
		_ = gate.Wait() // it was killed
		for _, s := range lines(t, pids) {
			pid, _ := strconv.Atoi(s)
			gone(t, pid)
		}
	}
}

// A shell in between, as npx is: what it started reads the same stdin, and so
// learns of the gate's death.
func TestKilledGateLeavesNoGrandchild(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pids := file(t, "")
	script := filepath.Join(t.TempDir(), "wrap.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n'"+self+"' fake-mcp -starts '"+pids+"'\ntrue\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	gate := exec.CommandContext(ctx, self, "gate-sh", script)
	out, err := gate.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := gate.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "settled\n" {
		t.Fatalf("the gate said %q, %v", line, err)
	}
	_ = gate.Process.Kill()
	_ = gate.Wait() // it was killed
	pid, _ := strconv.Atoi(lines(t, pids)[0])
	gone(t, pid)
}

func TestStderrFlood(t *testing.T) {
	r := start(t, Options{}, fake("a", "-stderr", strconv.Itoa(16<<20))).settled()
	r.must("stderr", `{"n":33554432}`)
	r.must("echo", "")
	if got := len(r.Status()[0].Stderr); got == 0 || got > stderrKept {
		t.Errorf("%d bytes of stderr were kept", got)
	}
}

func TestHugeLineTakesBoundedMemory(t *testing.T) {
	r := start(t, Options{MaxMessage: 1 << 20}, fake("a")).settled()
	r.must("echo", "")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r.wrong(TooLarge, "long", `{"n":100000000}`)
	runtime.ReadMemStats(&after)
	if got := (int64(after.HeapSys) - int64(before.HeapSys)) >> 20; got > 16 {
		t.Errorf("the heap grew by %d MiB for a line over the limit of 1 MiB", got)
	}
	r.must("echo", "")
}

func TestChildSeesOnlyItsEnvironment(t *testing.T) {
	t.Setenv("MCP_GATE_TEST_SECRET", "s")
	cfg := fake("a")
	cfg.Env = []string{"ONE=1"}
	r := start(t, Options{}, cfg).settled()
	var got struct{ Env []string }
	if err := json.Unmarshal([]byte(r.must("env", "")), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Env) != 1 || got.Env[0] != "ONE=1" {
		t.Errorf("the child has %v", got.Env)
	}
}

// Two servers that never answer initialize cost a third one nothing.
func TestSlowServersDelayNobody(t *testing.T) {
	r := start(t, Options{}, fake("a"), fake("b", "-fault", "hang-init"), fake("c", "-fault", "hang-init"))
	r.state("a ready", func(s Status) bool { return s.State == Ready && s.Listed })
	r.must("echo", "")
}

func TestChildThatClosesItsPipes(t *testing.T) {
	r := start(t, Options{}, fake("a")).settled()
	r.must("deaf", "")
	// A call may still fit into the pipe before that is closed: then the
	// notice that nobody waits for it finds out, or the next call.
	for r.Status()[0].Starts == 1 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := r.tool(ctx, "hang", "")
		cancel()
		if err == nil {
			t.Fatal("a deaf server answered")
		}
	}
	r.state("the end of it", func(s Status) bool { return s.Starts == 2 && s.State == Ready })
	contains(t, r.logs.String(), "closed its standard input")
	e := r.wrong(Lost, "mute", "")
	contains(t, e.Error(), "closed its standard output")
	r.must("echo", "")
}

// One server ends again and again; the others keep every answer, and when all
// is over no descriptor is left open.
func TestNeighboursOfACrashingServer(t *testing.T) {
	before := descriptors(t)
	r := start(t, Options{}, fake("a"), fake("b"), fake("c", "-fault", "noise"), fake("d", "-stderr", "1000000")).settled()
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 30 {
			r.wrong(Lost, "exit", `{"n":1}`)
		}
	})
	for _, alias := range []string{"b", "c", "d"} {
		for worker := range 4 {
			wg.Go(func() {
				for i := range 100 {
					nonce := fmt.Sprintf(`"nonce":"%s-%d-%d."`, alias, worker, i)
					resp, err := r.Call(t.Context(), alias, toolCall("echo", "{"+nonce+"}"))
					if err != nil || !strings.Contains(string(resp.Result), nonce) {
						t.Errorf("%s got %s, %v", nonce, resp.Result, err)
					}
				}
			})
		}
	}
	wg.Wait()
	for _, st := range r.Status()[1:] {
		if st.Starts != 1 {
			t.Errorf("server %s was started %d times", st.Alias, st.Starts)
		}
	}
	r.stop()
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors are open, %d were", after, before)
	}
}

// descriptors counts the pipes that this process holds.
func descriptors(t *testing.T) (n int) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range all {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(to, "pipe:") {
			n++
		}
	}
	return n
}

// A child that is frozen can neither answer nor leave by itself.
func TestFrozenChild(t *testing.T) {
	r := start(t, Options{}, fake("a")).settled()
	pid := r.state("a pid", func(s Status) bool { return s.PID != 0 }).PID
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := syscall.Wait4(pid, nil, syscall.WUNTRACED, nil); err != nil { // its threads stop one by one
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	resp, err := r.tool(ctx, "echo", "")
	wantKind(t, Timeout, resp, err)
	r.stop()
	gone(t, pid)
}
