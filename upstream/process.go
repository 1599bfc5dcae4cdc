package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// How a child is ended: its stdin is closed, and it has endTimeout to leave;
// then its process group gets SIGTERM, then SIGKILL. Together under 3 s.
const (
	endTimeout  = 1500 * time.Millisecond
	termTimeout = 1 * time.Second
	// drainTimeout is how long the output of a child that has ended may stay
	// open, held by a process that left its group.
	drainTimeout = 500 * time.Millisecond
)

// launcher starts child processes on one operating system thread, which lives
// as long as the pool: Linux sends the parent-death signal when the thread
// that forked ends, not the process.
type launcher struct {
	jobs chan func()
	done chan struct{}
}

func newLauncher() *launcher {
	return &launcher{jobs: make(chan func()), done: make(chan struct{})}
}

// run does the jobs until close. The thread ends with it, by design.
func (l *launcher) run() {
	runtime.LockOSThread()
	for {
		select {
		case job := <-l.jobs:
			job()
		case <-l.done:
			return
		}
	}
}

func (l *launcher) close() { close(l.done) }

// do runs job on the launcher's thread.
func (l *launcher) do(ctx context.Context, job func() error) error {
	result := make(chan error, 1)
	select {
	case l.jobs <- func() { result <- job() }:
		return <-result
	case <-ctx.Done():
		return ctx.Err()
	}
}

// process is a running child. Its group holds whatever it starts.
type process struct {
	cmd    *exec.Cmd
	group  group
	stdin  *os.File      // write end
	stdout *os.File      // read end; whoever reads it closes it
	exited chan struct{} // closed when the child has been reaped
	closed chan struct{} // closed when its stderr has been read to the end, too
}

// startProcess starts cfg's command. Everything the child writes to stderr
// goes to stderr from the start on.
func startProcess(ctx context.Context, cfg Server, l *launcher, stderr io.Writer) (*process, error) {
	if cfg.Environ != nil {
		cfg.Env = cfg.Environ()
	}
	path, err := lookPath(cfg)
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{Path: path, Args: cfg.Command, Dir: cfg.Dir, Env: cfg.Env}
	if cmd.Env == nil {
		cmd.Env = []string{} // nil would be the gate's own environment
	}
	p := &process{cmd: cmd, exited: make(chan struct{}), closed: make(chan struct{})}
	var ends pipes
	defer ends.closeChild()
	childIn, stdin := ends.make(true)
	childOut, stdout := ends.make(false)
	childErr, errors := ends.make(false)
	if ends.err != nil {
		ends.closeOurs()
		return nil, ends.err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = childIn, childOut, childErr
	p.stdin, p.stdout = stdin, stdout
	p.group.prepare(cmd)
	if err := l.do(ctx, cmd.Start); err != nil {
		ends.closeOurs()
		return nil, startFailure(cfg, err)
	}
	p.group.started(cmd)
	go p.watch(stderr, errors)
	return p, nil
}

// watch drains stderr and reaps the child.
func (p *process) watch(to io.Writer, stderr *os.File) {
	defer close(p.closed)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(to, stderr) // it ends when the pipe does
	}()
	p.group.wait(p.cmd)
	close(p.exited)
	// The group is gone. What still holds the pipes has left it, and nobody
	// waits for that.
	late := time.Now().Add(drainTimeout)
	_ = p.stdout.SetReadDeadline(late)
	_ = stderr.SetReadDeadline(late)
	<-drained
	_ = stderr.Close()
}

// end makes the child leave, and everything it started with it.
func (p *process) end() {
	_ = p.stdin.Close()
	if !within(p.exited, endTimeout) {
		p.group.signal(p.cmd, false)
		if !within(p.exited, termTimeout) {
			p.group.signal(p.cmd, true)
		}
	}
	<-p.exited
	<-p.closed
}

// within reports whether c is closed in d.
func within(c <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c:
		return true
	case <-t.C:
		return false
	}
}

// how says how the child ended, after exited is closed.
func (p *process) how() error {
	if p.cmd.ProcessState == nil {
		return errors.New("its process ended")
	}
	return fmt.Errorf("its process ended (%v)", p.cmd.ProcessState)
}

// pipes makes the three pipes of a child and closes them in the right places.
type pipes struct {
	child, ours []*os.File
	err         error
}

func (s *pipes) make(in bool) (child, ours *os.File) {
	r, w, err := os.Pipe()
	if err != nil {
		s.err = err
		return nil, nil
	}
	child, ours = w, r
	if in {
		child, ours = r, w
	}
	s.child = append(s.child, child)
	s.ours = append(s.ours, ours)
	return child, ours
}

func (s *pipes) closeChild() {
	for _, f := range s.child {
		_ = f.Close()
	}
}

func (s *pipes) closeOurs() {
	for _, f := range s.ours {
		_ = f.Close()
	}
}

// lookPath finds the program of cfg where the child itself would: in the PATH
// it is given, not in the gate's.
func lookPath(cfg Server) (string, error) {
	name := cfg.Command[0]
	if strings.ContainsRune(name, '/') || strings.ContainsRune(name, filepath.Separator) {
		return name, nil
	}
	path, ok := "", false
	for _, kv := range cfg.Env {
		if k, v, _ := strings.Cut(kv, "="); k == "PATH" || (runtime.GOOS == "windows" && strings.EqualFold(k, "path")) {
			path, ok = v, true
		}
	}
	if !ok || runtime.GOOS == "windows" { // there, PATHEXT and more take part
		found, err := exec.LookPath(name)
		if err != nil {
			return "", notFound(cfg, "PATH")
		}
		return found, nil
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue // an empty or relative entry would run what lies in the working directory
		}
		file := filepath.Join(dir, name)
		if st, err := os.Stat(file); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", notFound(cfg, "its PATH")
}

// errNoProgram is why a server did not start whose program is nowhere.
var errNoProgram = errors.New("not found")

func notFound(cfg Server, where string) *Error {
	hint := "install it, or give its full path in the configuration"
	if len(strings.Fields(cfg.Command[0])) > 1 {
		hint = `"command" is the name of one program: put what follows it into "args", a word each`
	}
	return &Error{
		Server: cfg.Alias, Kind: StartFailed, Hint: hint,
		Err: fmt.Errorf("command %q is %w in %s", cfg.Command[0], errNoProgram, where),
	}
}

// startFailure says why the operating system did not start the command.
func startFailure(cfg Server, err error) error {
	e := &Error{Server: cfg.Alias, Kind: StartFailed, Err: err, Hint: "check the server's command and cwd"}
	switch {
	case cfg.Dir != "" && !isDir(cfg.Dir):
		e.Hint, e.Err = "correct its cwd in the configuration", fmt.Errorf("its working directory %q does not exist", cfg.Dir)
	case errors.Is(err, os.ErrNotExist):
		return notFound(cfg, "the file system (nor perhaps the interpreter in its first line)")
	case errors.Is(err, os.ErrPermission):
		e.Hint = "make the file executable (chmod +x)"
	}
	return e
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}
