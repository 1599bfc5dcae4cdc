package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// headSize is how much of an answer is kept: enough for an id and 64 bytes of
// echo. The rest is read and dropped, so that the client costs the same
// whatever answers it.
const headSize = 512

// answer is what the client keeps of an answer.
type answer struct {
	head []byte // valid until the next trip on the same link
	size int
}

// link carries requests to a process. Its methods are called one at a time.
type link interface {
	// send sends what is not answered.
	send(line []byte) error
	// trip sends a request and waits for its answer.
	trip(line []byte) (answer, error)
	// load keeps n requests in flight for d and returns how many were answered.
	load(n int, d time.Duration, r *requests) (int, error)
	// whole is trip for an answer that is needed whole.
	whole(line []byte) ([]byte, error)
}

// requests makes echo requests with ids and texts that do not repeat, and
// knows what their answers must hold.
type requests struct {
	before, after string // around the arguments of echo
	next          atomic.Int64
}

const echoText = 64 // bytes

// text is what request id asks to have returned.
func text(id int64) string { return strings.Repeat(fmt.Sprintf("%016d", id), echoText/16) }

func (r *requests) echo() []byte {
	id := r.next.Add(1)
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s{"text":"%s"}%s}`+"\n", id, r.before, text(id), r.after)
}

// blob asks for a result of about size bytes.
func (r *requests) blob(size int) []byte {
	before := strings.Replace(r.before, `echo"`, `blob"`, 1)
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s{"bytes":%d}%s}`+"\n", r.next.Add(1), before, size, r.after)
}

func (r *requests) other(method, params string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"%s","params":%s}`+"\n", r.next.Add(1), method, params)
}

// checkEcho reports an answer that is not the echo of its own request.
func checkEcho(a answer) error {
	id, err := strconv.ParseInt(string(member(a.head, `"id":`)), 10, 64)
	if err != nil || !bytes.Contains(a.head, []byte(text(id))) {
		return fmt.Errorf("not the echo that was asked for: %s", a.head)
	}
	return nil
}

// pipes is a link over a process's stdin and stdout.
type pipes struct {
	in   io.WriteCloser
	out  *bufio.Reader
	head [headSize]byte
}

func (p *pipes) send(line []byte) error {
	_, err := p.in.Write(line)
	return err
}

func (p *pipes) trip(line []byte) (answer, error) {
	if err := p.send(line); err != nil {
		return answer{}, err
	}
	return p.read()
}

// read reads one answer, passing over what is no answer.
func (p *pipes) read() (answer, error) {
	for {
		n, size := 0, 0
		for ended := false; !ended; {
			part, err := p.out.ReadSlice('\n')
			if err != nil && err != bufio.ErrBufferFull {
				return answer{}, fmt.Errorf("read: %w", err)
			}
			ended = err == nil
			n += copy(p.head[n:], part)
			size += len(part)
		}
		if head := p.head[:n]; member(head, `"id":`) != nil {
			return answer{head, size}, nil
		}
	}
}

func (p *pipes) whole(line []byte) ([]byte, error) {
	if err := p.send(line); err != nil {
		return nil, err
	}
	for {
		got, err := p.out.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("read: %w", err)
		}
		if member(got[:min(len(got), headSize)], `"id":`) != nil {
			return got, nil
		}
	}
}

func (p *pipes) load(n int, d time.Duration, r *requests) (int, error) {
	for range n {
		if err := p.send(r.echo()); err != nil {
			return 0, err
		}
	}
	answered := 0
	for end := time.Now().Add(d); n > 0; {
		a, err := p.read()
		if err == nil {
			err = checkEcho(a)
		}
		if err != nil {
			return answered, err
		}
		answered++
		if time.Now().After(end) {
			n--
		} else if err := p.send(r.echo()); err != nil {
			return answered, err
		}
	}
	return answered, nil
}

// web is a link over HTTP.
type web struct {
	url, token, session string
	client              *http.Client
}

func (w *web) post(line []byte) (*http.Response, error) {
	req, err := http.NewRequest(http.MethodPost, w.url, bytes.NewReader(bytes.TrimSuffix(line, []byte{'\n'})))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if w.token != "" {
		req.Header.Set("Authorization", "Bearer "+w.token)
	}
	if w.session != "" {
		req.Header.Set("Mcp-Session-Id", w.session)
		req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	resp, err := w.client.Do(req)
	if err == nil && resp.StatusCode >= 300 {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, headSize))
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%s: %s", resp.Status, body)
	}
	return resp, err
}

func (w *web) send(line []byte) error {
	resp, err := w.post(line)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

func (w *web) trip(line []byte) (answer, error) {
	resp, err := w.post(line)
	if err != nil {
		return answer{}, err
	}
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		w.session = id
	}
	head := make([]byte, headSize)
	n, err := io.ReadFull(resp.Body, head)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	rest, more := io.Copy(io.Discard, resp.Body)
	return answer{head[:n], n + int(rest)}, errors.Join(err, more, resp.Body.Close())
}

func (w *web) whole(line []byte) ([]byte, error) {
	resp, err := w.post(line)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	return body, errors.Join(err, resp.Body.Close())
}

func (w *web) load(n int, d time.Duration, r *requests) (int, error) {
	var answered atomic.Int64
	failed := make(chan error, n)
	end := time.Now().Add(d)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for time.Now().Before(end) {
				a, err := w.trip(r.echo())
				if err == nil {
					err = checkEcho(a)
				}
				if err != nil {
					failed <- err
					return
				}
				answered.Add(1)
			}
		})
	}
	wg.Wait()
	select {
	case err := <-failed:
		return int(answered.Load()), err
	default:
		return int(answered.Load()), nil
	}
}

// startWait is how long anything may take to be there.
const startWait = 30 * time.Second

// process is a running target and the link to it.
type process struct {
	link
	requests
	cmd   *exec.Cmd
	stdin io.Closer
	web   bool
	last  *words

	initialized, listed time.Duration     // after the start: initialize answered, list complete
	list                [sha256.Size]byte // of the list
	asked               int               // how often it was asked for until it was complete
}

// words keeps what a process said last on stderr, and hands out the lines that
// say where it listens.
type words struct {
	address chan [2]string // address and token
	ended   chan struct{}

	mu     sync.Mutex
	tail   []string
	locked int // lines that hold lockedText
}

func (w *words) read(r io.Reader) {
	defer close(w.ended)
	token, previous := "", ""
	for s := bufio.NewScanner(r); s.Scan(); {
		line := s.Text()
		if strings.Contains(previous, "bearer token") {
			token = line
		}
		previous = line
		if _, address, ok := strings.Cut(line, "listening on "); ok {
			w.address <- [2]string{address, token}
		}
		w.mu.Lock()
		w.tail = append(w.tail[max(0, len(w.tail)-9):], line)
		if strings.Contains(line, lockedText) {
			w.locked++
		}
		w.mu.Unlock()
	}
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.tail, "\n")
}

// start runs cmd, makes the handshake and waits until the list holds want
// filler tools (want is 0 where the list is not looked at).
func start(cmd *exec.Cmd, overHTTP bool, want int) (*process, error) {
	p := &process{cmd: cmd, web: overHTTP, last: &words{address: make(chan [2]string, 1), ended: make(chan struct{})}}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p.stdin = stdin
	go p.last.read(stderr)
	if err := p.connect(stdin, stdout); err == nil {
		err = p.greet(began, want)
		if err == nil {
			return p, nil
		}
		p.stop()
		return nil, fmt.Errorf("%w; its last words: %s", err, p.last)
	}
	p.stop()
	return nil, err
}

func (p *process) connect(in io.WriteCloser, out io.Reader) error {
	if !p.web {
		p.link = &pipes{in: in, out: bufio.NewReaderSize(out, 64<<10)}
		return nil
	}
	select {
	case at := <-p.last.address:
		p.link = &web{url: at[0], token: at[1], client: &http.Client{Transport: &http.Transport{
			MaxIdleConnsPerHost: 128, DisableCompression: true, WriteBufferSize: 32 << 10, ReadBufferSize: 32 << 10,
		}}}
		return nil
	case <-time.After(startWait):
		return fmt.Errorf("it does not listen; its last words: %s", p.last)
	}
}

func (p *process) greet(began time.Time, want int) error {
	a, err := p.trip(p.other("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}`))
	if err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	if !bytes.Contains(a.head, []byte(`"result"`)) {
		return fmt.Errorf("initialize: %s", a.head)
	}
	p.initialized = time.Since(began)
	if err := p.send([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n")); err != nil {
		return fmt.Errorf("initialized: %w", err)
	}
	for deadline := time.Now().Add(startWait); ; {
		list, err := p.whole(p.other("tools/list", `{}`))
		if err != nil {
			return fmt.Errorf("tools/list: %w", err)
		}
		p.listed = time.Since(began)
		p.asked++
		if have := bytes.Count(list, []byte("get_record_")); have >= want {
			_, result, _ := bytes.Cut(list, []byte(`"result":`)) // the id is another each time
			p.list = sha256.Sum256(result)
			return nil
		} else if time.Now().After(deadline) {
			return fmt.Errorf("tools/list: %d of %d tools after %v", have, want, startWait)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// stop ends the process: as its client would, then by force.
func (p *process) stop() {
	_ = p.stdin.Close()
	if p.web {
		_ = p.cmd.Process.Signal(os.Interrupt) // nothing else tells it that its client is gone
	}
	killed := time.AfterFunc(6*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer killed.Stop()
	<-p.last.ended
	_ = p.cmd.Wait() // how it ended says nothing here
}
