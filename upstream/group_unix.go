//go:build unix && !linux

package upstream

import (
	"os/exec"
	"syscall"
)

// group is the process group of a child, named by the child's pid.
type group struct{}

// prepare gives the child a group of its own. There is no parent-death signal
// here: when the gate is killed, children find their stdin closed.
func (group) prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

func (group) started(*exec.Cmd) {}

// wait waits for the child to end, reaps it, and kills what is left of its
// group.
func (g group) wait(cmd *exec.Cmd) {
	_ = cmd.Wait() // how it ended is in cmd.ProcessState
	g.signal(cmd, true)
}

// signal sends SIGTERM or SIGKILL to the whole group.
func (group) signal(cmd *exec.Cmd, kill bool) {
	sig := syscall.SIGTERM
	if kill {
		sig = syscall.SIGKILL
	}
	_ = syscall.Kill(-cmd.Process.Pid, sig) // ESRCH: it is gone already
}
