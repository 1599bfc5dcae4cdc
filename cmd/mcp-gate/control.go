package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mcp-gate/mcp-gate/config"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/gate"
	"github.com/mcp-gate/mcp-gate/store"
)

// A running gate leaves a record in HOME/run and answers on a local socket. The
// socket tells its status and takes readings of prompts, which can only add
// caution; nothing that allows more goes over it.

// running is the record of one gate process.
type running struct {
	PID     int       `json:"pid"`
	Parent  int       `json:"parent"`
	Client  string    `json:"client_session,omitempty"` // the client's own id of its session, where it gave one
	Project string    `json:"project,omitempty"`
	Started time.Time `json:"started"`
	Socket  string    `json:"socket"`
}

// question is one line to a gate's socket; reply is the line it answers with.
type controlQuestion struct {
	Op      string              `json:"op"` // status, prompt or adopt
	Reading *engagement.Reading `json:"reading,omitempty"`
	Session string              `json:"session,omitempty"` // to adopt from
}

type controlReply struct {
	Error   string     `json:"error,omitempty"`
	Status  *statusDoc `json:"status,omitempty"`
	InForce bool       `json:"in_force,omitempty"`
	Note    string     `json:"note,omitempty"`
	Given   gate.Given `json:"given,omitzero"`
}

// statusDoc is what a running gate says of itself.
type statusDoc struct {
	running
	Version  string       `json:"version"`
	Config   configDoc    `json:"config"`
	Fault    string       `json:"fault,omitempty"` // why it keeps nothing any more
	Sessions []sessionDoc `json:"sessions"`
	Servers  []serverDoc  `json:"servers"`
}

type sessionDoc struct {
	ID         string                `json:"id"`
	Parent     string                `json:"parent,omitempty"`
	Principal  string                `json:"principal"`
	Engagement engagement.Engagement `json:"engagement"`
}

// controlServer answers on the socket until it is closed.
type controlServer struct {
	e        *engine
	self     running
	record   string
	dir      string // of the socket, where it is our own to remove
	listener net.Listener
	wg       sync.WaitGroup
}

// maxSocketPath is the longest path of a Unix socket that every system takes.
const maxSocketPath = 100

// Where a path at home is longer: the beginning of a folder's name among the
// temporary files, before digits alone, and the name of the socket in it.
const (
	socketFolder = "mcp-gate-"
	socketName   = "s"
)

func (e *engine) control(a *app) (*controlServer, error) {
	if err := os.MkdirAll(e.home.Run(), 0o700); err != nil {
		return nil, err
	}
	c := &controlServer{e: e, self: running{PID: os.Getpid(), Parent: os.Getppid(), Started: time.Now()}}
	c.self.Client, _ = a.env("CLAUDE_CODE_SESSION_ID")
	if c.self.Project, _ = a.env("CLAUDE_PROJECT_DIR"); c.self.Project == "" {
		c.self.Project, _ = os.Getwd()
	}
	base := processName()
	c.self.Socket = filepath.Join(e.home.Run(), base+".sock")
	if len(c.self.Socket) > maxSocketPath {
		sweepSockets(os.TempDir())
		dir, err := os.MkdirTemp("", socketFolder)
		if err != nil {
			return nil, err
		}
		c.dir, c.self.Socket = dir, filepath.Join(dir, socketName)
	}
	var err error
	if c.listener, err = net.Listen("unix", c.self.Socket); err != nil {
		return nil, fmt.Errorf("listen on the local socket: %w", err)
	}
	if err := os.Chmod(c.self.Socket, 0o600); err != nil {
		return nil, errors.Join(err, c.listener.Close())
	}
	raw, err := json.Marshal(c.self)
	if err != nil {
		return nil, errors.Join(err, c.listener.Close())
	}
	c.record = filepath.Join(e.home.Run(), base+".json")
	if err := os.WriteFile(c.record, raw, 0o600); err != nil {
		return nil, errors.Join(err, c.listener.Close())
	}
	c.wg.Go(c.serve)
	return c, nil
}

// Close takes the record away and ends the socket.
func (c *controlServer) Close() {
	_ = os.Remove(c.record) // a stale record is passed over
	_ = c.listener.Close()  // removes the socket
	if c.dir != "" {
		_ = os.RemoveAll(c.dir)
	}
	c.wg.Wait()
}

func (c *controlServer) serve() {
	for {
		conn, err := c.listener.Accept()
		if err != nil {
			return // closed
		}
		c.wg.Go(func() { c.answer(conn) })
	}
}

func (c *controlServer) answer(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	line, err := bufio.NewReader(io.LimitReader(conn, 1<<20)).ReadBytes('\n')
	if err != nil {
		return
	}
	var q controlQuestion
	reply := controlReply{}
	if err := json.Unmarshal(line, &q); err != nil {
		reply.Error = err.Error()
	} else {
		reply = c.reply(q)
	}
	if raw, err := json.Marshal(reply); err == nil {
		_, _ = conn.Write(append(raw, '\n')) // who asked may have gone
	}
}

func (c *controlServer) reply(q controlQuestion) controlReply {
	switch {
	case q.Op == "status":
		return controlReply{Status: c.e.status(c.self)}
	case q.Op == "prompt" && q.Reading != nil:
		var r controlReply
		for _, s := range c.e.gate.Sessions() {
			if s.Prompt(*q.Reading) {
				r.InForce, r.Note = true, s.Engagement().Posture.Note
			}
		}
		return r
	case q.Op == "adopt":
		for _, s := range c.e.gate.Sessions() {
			if s.ID() == q.Session {
				given, err := s.Adopt(context.Background())
				if err != nil {
					return controlReply{Error: err.Error()}
				}
				return controlReply{Given: given}
			}
		}
		return controlReply{}
	}
	return controlReply{Error: fmt.Sprintf("unknown question %q", q.Op)}
}

func (e *engine) status(self running) *statusDoc {
	doc := &statusDoc{running: self, Version: version(), Config: e.reading.Load().configDoc, Sessions: []sessionDoc{}, Servers: e.serverDocs()}
	if err := e.db.Here(); err != nil {
		doc.Fault = err.Error()
	}
	for _, s := range e.gate.Sessions() {
		doc.Sessions = append(doc.Sessions, docOfSession(s))
	}
	return doc
}

func docOfSession(s *gate.Session) sessionDoc {
	return sessionDoc{ID: s.ID(), Parent: s.Parent(), Principal: s.Principal(), Engagement: s.Engagement()}
}

// gates returns the records of the gates of a home that still run, which one too
// busy to answer does. Records of dead ones are removed.
func gates(h config.Home) ([]running, error) {
	files, err := filepath.Glob(filepath.Join(h.Run(), "*.json"))
	if err != nil {
		return nil, err
	}
	var live []running
	for _, file := range files {
		raw, err := os.ReadFile(file)
		var r running
		if err != nil || json.Unmarshal(raw, &r) != nil {
			continue
		}
		conn, err := net.DialTimeout("unix", r.Socket, time.Second)
		if err == nil {
			_ = conn.Close()
		} else if nobodyListens(err) { // the process is gone
			_ = os.Remove(file)
			_ = os.Remove(strings.TrimSuffix(file, ".json") + ".sock")
			continue
		}
		live = append(live, r)
	}
	return live, nil
}

// nobodyListens reports whether a socket could not be dialled because there is
// none, or nobody who would answer. The number is what Windows says for that.
func nobodyListens(err error) bool {
	const refused = syscall.Errno(10061)
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) || runtime.GOOS == "windows" && errors.Is(err, refused)
}

// adopt has whichever other gate of the home has a session keep its record, and
// returns what the session was given; nothing where no gate has it.
func (e *engine) adopt(ctx context.Context, id string) (gate.Given, error) {
	live, err := gates(e.home)
	if err != nil {
		return gate.Given{}, err
	}
	var errs []error // of those that do not answer: another may have it
	for _, r := range live {
		if r.PID == os.Getpid() {
			continue
		}
		reply, err := r.ask(ctx, controlQuestion{Op: "adopt", Session: id})
		if err == nil && reply.Given.List != nil {
			return reply.Given, nil
		}
		errs = append(errs, err)
	}
	return gate.Given{}, errors.Join(errs...)
}

// errNoSession says that no gate has such a session, and none left a record.
var errNoSession = errors.New("mcp-gate status shows those that live")

// sessionID completes the beginning of the id of a session that lives, and finds
// one that has left a record by its whole id.
func sessionID(ctx context.Context, h config.Home, db *store.Store, log *slog.Logger, begins string) (string, error) {
	live, err := gates(h)
	if err != nil {
		return "", err
	}
	var found []string
	for _, r := range live {
		reply, err := r.ask(ctx, controlQuestion{Op: "status"})
		if err != nil {
			log.Warn("a gate does not answer", "pid", r.PID, "error", err)
			continue
		}
		for _, s := range reply.Status.Sessions {
			if strings.HasPrefix(s.ID, begins) {
				found = append(found, s.ID)
			}
		}
	}
	switch {
	case len(found) > 1:
		return "", fmt.Errorf("%q begins the id of more than one session: %s", begins, strings.Join(found, ", "))
	case len(found) == 1:
		return found[0], nil
	}
	if _, _, err := db.Session(ctx, begins); err != nil {
		return "", fmt.Errorf("there is no session %q: %w", begins, errNoSession)
	}
	return begins, nil
}

// ask puts a question to a running gate.
func (r running) ask(ctx context.Context, q controlQuestion) (controlReply, error) {
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "unix", r.Socket)
	if err != nil {
		return controlReply{}, fmt.Errorf("reach gate %d: %w", r.PID, err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })()
	raw, err := json.Marshal(q)
	if err != nil {
		return controlReply{}, err
	}
	if _, err := conn.Write(append(raw, '\n')); err != nil {
		return controlReply{}, fmt.Errorf("reach gate %d: %w", r.PID, err)
	}
	var reply controlReply
	if err := json.NewDecoder(io.LimitReader(conn, maxInput)).Decode(&reply); err != nil {
		return controlReply{}, fmt.Errorf("reach gate %d: %w", r.PID, err)
	}
	if reply.Error != "" {
		return reply, errors.New(reply.Error)
	}
	return reply, nil
}
