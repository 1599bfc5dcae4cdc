package upstream

import (
	"errors"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// group is the process group of a child, named by the child's pid.
type group struct{}

// prepare gives the child a group of its own and has it killed when the gate
// dies: SIGKILL, since a child may ignore all else. What the child started
// then finds its stdin closed.
func (group) prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func (group) started(*exec.Cmd) {}

// wait waits for the child to end, kills what is left of its group, and then
// reaps it: until then its pid, and so the group's name, cannot be anybody
// else's.
func (g group) wait(cmd *exec.Cmd) {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	g.signal(cmd, true)
	_ = cmd.Wait() // how it ended is in cmd.ProcessState
}

// signal sends SIGTERM or SIGKILL to the whole group.
func (group) signal(cmd *exec.Cmd, kill bool) {
	sig := syscall.SIGTERM
	if kill {
		sig = syscall.SIGKILL
	}
	_ = syscall.Kill(-cmd.Process.Pid, sig) // ESRCH: it is gone already
}
