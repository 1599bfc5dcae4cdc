package upstream

import (
	"os/exec"
	"unsafe"

	"golang.org/x/sys/windows"
)

// group is the job object of a child. Whatever the child starts is in it, too,
// and all of it ends when the last handle is closed, so also when the gate
// dies.
type group struct{ job windows.Handle }

func (group) prepare(*exec.Cmd) {}

// started puts the child into its job. Where that fails the child alone is
// watched.
func (g *group) started(cmd *exec.Cmd) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return
	}
	info := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{}
	info.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err == nil {
		var child windows.Handle
		child, err = windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(cmd.Process.Pid))
		if err == nil {
			err = windows.AssignProcessToJobObject(job, child)
			_ = windows.CloseHandle(child)
		}
	}
	if err != nil {
		_ = windows.CloseHandle(job)
		return
	}
	g.job = job
}

// wait waits for the child to end, and ends what is left in its job.
func (g *group) wait(cmd *exec.Cmd) {
	_ = cmd.Wait() // how it ended is in cmd.ProcessState
	if g.job != 0 {
		_ = windows.CloseHandle(g.job)
	}
}

// signal ends the job, or the child where it has none. There is no SIGTERM.
func (g *group) signal(cmd *exec.Cmd, _ bool) {
	if g.job != 0 {
		_ = windows.TerminateJobObject(g.job, 1)
		return
	}
	_ = cmd.Process.Kill()
}
