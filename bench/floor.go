package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// floor is the bare proxy that everything is held against. It starts its
// upstreams as children and copies lines both ways. Of what it carries it
// changes only the prefix of tools' names, by which it tells the upstreams
// apart, and it joins their answers to what all were asked. It checks nothing,
// decodes nothing, writes nothing down, and believes that ids do not repeat.
type floor struct {
	stdin   []io.Writer
	deliver func(line []byte) // to the client; safe for concurrent use
	asking  atomic.Int32      // how many requests all upstreams were asked

	mu    sync.Mutex // guards asked
	asked map[string]*poll
}

// poll is a request that all upstreams were asked.
type poll struct {
	left  int
	tools [][]byte // by upstream: the elements of its list
	last  []byte
}

func startFloor(n int, upstream []string, deliver func([]byte)) (*floor, error) {
	f := &floor{deliver: deliver, asked: map[string]*poll{}}
	for i := range n {
		in, out, err := child(upstream...)
		if err != nil {
			return nil, err
		}
		f.stdin = append(f.stdin, in)
		go func() {
			r := bufio.NewReaderSize(out, 64<<10)
			for line, err := r.ReadBytes('\n'); err == nil; line, err = r.ReadBytes('\n') {
				f.fromUpstream(i, line)
			}
		}()
	}
	return f, nil
}

func (f *floor) fromClient(line []byte) {
	if at := bytes.Index(line, []byte(`"name":"s`)); at >= 0 && bytes.Contains(line, []byte(`"tools/call"`)) {
		from := at + len(`"name":"s`)
		end := from + bytes.Index(line[from:], []byte("__"))
		i, _ := strconv.Atoi(string(line[from:end]))
		_, _ = f.stdin[i].Write(append(line[:from-1:from-1], line[end+2:]...)) // a child that is gone ends the run
		return
	}
	if id := member(line, `"id":`); id != nil {
		f.mu.Lock()
		f.asked[string(id)] = &poll{left: len(f.stdin), tools: make([][]byte, len(f.stdin))}
		f.mu.Unlock()
		f.asking.Add(1)
	}
	for _, w := range f.stdin {
		_, _ = w.Write(line)
	}
}

func (f *floor) fromUpstream(i int, line []byte) {
	if f.asking.Load() == 0 {
		f.deliver(line)
		return
	}
	id := string(member(line[:min(len(line), 100)], `"id":`))
	f.mu.Lock()
	p := f.asked[id]
	if p == nil {
		f.mu.Unlock()
		f.deliver(line)
		return
	}
	defer f.mu.Unlock()
	p.last = line
	if _, list, ok := bytes.Cut(line, []byte(`"tools":[`)); ok {
		p.tools[i] = bytes.ReplaceAll(bytes.TrimSuffix(list, []byte("]}}\n")), []byte(`{"name":"`), fmt.Appendf(nil, `{"name":"s%d__`, i))
	}
	if p.left--; p.left > 0 {
		return
	}
	delete(f.asked, id)
	f.asking.Add(-1)
	if p.tools[0] != nil {
		p.last = []byte(`{"jsonrpc":"2.0","id":` + id + `,"result":{"tools":[`)
		p.last = append(append(p.last, bytes.Join(p.tools, []byte{','})...), "]}}\n"...)
	}
	f.deliver(p.last)
}

// floorStdio is the floor between pipes.
func floorStdio(n int, upstream []string) error {
	var mu sync.Mutex
	f, err := startFloor(n, upstream, func(line []byte) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = os.Stdout.Write(line)
	})
	if err != nil {
		return err
	}
	r := bufio.NewReaderSize(os.Stdin, 64<<10)
	for line, err := r.ReadBytes('\n'); err == nil; line, err = r.ReadBytes('\n') {
		f.fromClient(line)
	}
	return nil
}

// floorHTTP is the floor behind HTTP: a message a request.
func floorHTTP(n, tools int) error {
	var waiting sync.Map // id -> chan []byte
	f, err := startFloor(n, upstreamArgs(tools, 0, 0), func(line []byte) {
		if c, ok := waiting.LoadAndDelete(string(member(line[:min(len(line), 100)], `"id":`))); ok {
			c.(chan []byte) <- line
		}
	})
	if err != nil {
		return err
	}
	return listen(func(w http.ResponseWriter, r *http.Request) {
		line, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client is gone
		}
		id := member(line, `"id":`)
		answer := make(chan []byte, 1)
		if id != nil {
			waiting.Store(string(id), answer)
		}
		f.fromClient(append(line, '\n'))
		if id == nil {
			reply(w, nil)
			return
		}
		reply(w, <-answer)
	})
}

// pipe is less than the floor: two loops that copy whatever comes, with no
// notion of a message. No proxy of more than one upstream can do so little.
func pipe(tools int) error {
	in, out, err := child("upstream", "-tools", strconv.Itoa(tools))
	if err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(os.Stdout, out)
	}()
	_, err = io.Copy(in, os.Stdin)
	_ = in.Close()
	<-done
	return err
}

// upstreamArgs start this program as an upstream.
func upstreamArgs(tools int, delay, work time.Duration) []string {
	return []string{"upstream", "-tools", strconv.Itoa(tools), "-delay", delay.String(), "-work", work.String()}
}

// child starts this program in another mode.
func child(args ...string) (io.WriteCloser, io.Reader, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(self, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	return in, out, cmd.Start()
}
