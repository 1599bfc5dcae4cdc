package jsonrpc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-gate/mcp-gate/internal/offheap"
)

// keepOfLong is how much of each end of a too long line is kept, to find out
// which request it belongs to.
const keepOfLong = 4 << 10

// A TooLongError reports a line over the reader's limit. The line was skipped
// to its end, and reading goes on after it, unless it is Endless.
type TooLongError struct {
	Size, Limit int64
	Endless     bool // the line has no end within [LineReader.Most]
	more        bool // it goes on
	head, tail  []byte
}

func (e *TooLongError) Error() string {
	switch {
	case e.Endless:
		return fmt.Sprintf("a message has no end after %d bytes, over the limit of %d bytes", e.Size, e.Limit)
	case e.more:
		return fmt.Sprintf("message of %d bytes and more is over the limit of %d bytes", e.Size, e.Limit)
	}
	return fmt.Sprintf("message of %d bytes is over the limit of %d bytes", e.Size, e.Limit)
}

// ID returns the id of the message the line held, where it stands within the
// first or last 4 KiB; else nil.
func (e *TooLongError) ID() json.RawMessage {
	d := jsontext.NewDecoder(bytes.NewReader(e.head))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return nil
	}
	for {
		name, err := d.ReadToken()
		if err != nil || name.Kind() != '"' {
			break
		}
		isID := name.String() == "id"
		value, err := d.ReadValue()
		if err != nil {
			break
		}
		if isID {
			return validID(bytes.Clone(value))
		}
	}
	// The big member came first: the id may be what the line ends with. Before one
	// brace, since behind more it is a member's own.
	members, ended := bytes.CutSuffix(bytes.TrimSpace(e.tail), []byte{'}'})
	if i := bytes.LastIndex(members, []byte(`"id":`)); ended && i >= 0 {
		id := bytes.TrimSpace(members[i+len(`"id":`):])
		if validID(id) != nil && json.Valid(id) {
			return id
		}
	}
	return nil
}

// LineReader splits a stream into messages, a line each, as the stdio
// transport frames them. It accepts LF and CRLF, skips empty lines, takes a
// byte order mark off the very start, and gives a last line that has no line
// end. Not safe for concurrent use.
type LineReader struct {
	// Most is how many bytes of a line are skipped before it is Endless; 0 is no
	// bound.
	Most int64
	// Over, where it is set, is told of a line that is over the limit before its
	// rest is skipped.
	Over func(*TooLongError)

	r     *bufio.Reader
	limit int64
	begun bool
	room  []byte // where a long line is put together; nil between lines
}

// NewLineReader reads lines of at most limit bytes from r.
func NewLineReader(r io.Reader, limit int64) *LineReader {
	return &LineReader{r: bufio.NewReaderSize(r, 64<<10), limit: limit}
}

// Next returns the next line that is not blank, without surrounding space.
// The caller owns it. The error is [*TooLongError], after which Next may be
// called again unless it is Endless, or the stream's own, io.EOF at its end.
func (l *LineReader) Next() ([]byte, error) {
	for {
		line, err := l.line()
		if !l.begun && len(line) > 0 {
			l.begun = true
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		line = bytes.TrimSpace(line)
		if len(line) > 0 {
			return line, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// line reads up to the next LF. It returns data with a nil error, or no data
// with an error; a last line without an end is data.
func (l *LineReader) line() ([]byte, error) {
	var long []byte // what came so far of a line that is longer than the buffer
	defer func() { offheap.Give(l.room); l.room = nil }()
	for {
		part, err := l.r.ReadSlice('\n')
		size := len(long) + len(part)
		switch {
		case err == nil && long == nil:
			if int64(len(part)) > l.limit {
				return nil, &TooLongError{Size: int64(len(part)), Limit: l.limit, head: headOf(part), tail: tailOf(part)}
			}
			return bytes.Clone(part), nil
		case err == nil || err == bufio.ErrBufferFull:
			if int64(size) > l.limit {
				return nil, l.skip(size, [][]byte{long, part}, err == nil)
			}
			if long == nil {
				l.room = offheap.Take(int(min(l.limit, math.MaxInt)))
				long = l.room[:0]
			}
			if size >= emptyAt && len(long) < emptyAt {
				collectLines()
			}
			long = append(long, part...)
			if err == nil {
				return l.whole(long), nil
			}
		case size > 0 && errors.Is(err, io.EOF):
			return slices.Concat(long, part), nil
		default:
			return nil, err
		}
	}
}

// whole returns a long line as a part of the heap.
func (l *LineReader) whole(long []byte) []byte {
	if len(long) >= emptyAt {
		uncollected.Add(int64(len(long)))
	}
	if l.room == nil {
		return long
	}
	return bytes.Clone(long)
}

const (
	// emptyAt is the size from which a line may become a large one.
	emptyAt = 1 << 20
	// largeLine is how many bytes of large lines may be garbage when the next one comes.
	largeLine = 4 << 20
)

// uncollected is how many bytes of large lines have come since garbage was last
// collected for one.
var uncollected atomic.Int64

// collectLines makes room for a large line where there were others, most of which are
// garbage by now: the collector by itself would let several of them pile up.
func collectLines() {
	if uncollected.Load() >= largeLine && uncollected.Swap(0) >= largeLine {
		runtime.GC() // a limit set lower for a moment is cheaper, and not always heard; two at once leave it there
	}
}

// skip reads past the rest of a line that became too long, of which parts
// came, size bytes together.
func (l *LineReader) skip(size int, parts [][]byte, ended bool) error {
	e := &TooLongError{Limit: l.limit, Size: int64(size)}
	for _, p := range parts {
		if e.head = append(e.head, headOf(p)...); len(e.head) >= keepOfLong {
			break
		}
	}
	e.head, e.tail = headOf(e.head), tailOf(parts[len(parts)-1])
	if !ended && l.Over != nil {
		now := *e
		now.more, now.tail = true, nil // where it is cut says nothing of its end
		l.Over(&now)
	}
	for !ended {
		if l.Most > 0 && e.Size > l.Most {
			e.Endless, e.tail = true, nil
			return e
		}
		next, err := l.r.ReadSlice('\n')
		e.Size += int64(len(next))
		e.tail = tailOf(append(e.tail, next...))
		switch err {
		case nil:
			ended = true
		case bufio.ErrBufferFull:
		default: // the stream is over: what it was still stands
			ended = true
		}
	}
	return e
}

func headOf(b []byte) []byte { return bytes.Clone(b[:min(len(b), keepOfLong)]) }
func tailOf(b []byte) []byte { return bytes.Clone(b[max(0, len(b)-keepOfLong):]) }

// maxQueued is how many bytes may wait for a peer that does not read before
// Send makes its caller wait too.
const maxQueued = 4 << 20

// batchSize is how many bytes of small lines leave in one write.
const batchSize = 64 << 10

// ErrClosed is returned by a [LineWriter] after Close.
var ErrClosed = errors.New("the writer is closed")

// LineWriter puts whole lines on a stream in the order in which Send was
// called. Send writes by itself where that cannot make it wait, which spares a
// small message the way through another goroutine. What the stream does not take
// at once one goroutine writes, so a peer that does not read holds up nobody but
// itself. Lines that wait leave in one write. Safe for concurrent use.
type LineWriter struct {
	w    io.Writer
	now  *instant      // nil where w may make a write wait
	wake chan struct{} // the goroutine is to write
	done chan struct{} // closed when the goroutine has ended

	batch []byte   // small parts on their way; its own who set writing
	parts [][]byte // what is in batch, to be used again; the same

	mu      sync.Mutex    // guards what follows
	queue   [][]byte      // parts of lines
	queued  int           // bytes in queue
	writing bool          // somebody writes what is in queue, and hands that on to the goroutine at most
	room    chan struct{} // where somebody waits for room: closed when the queue empties; else nil
	err     error         // the first failed write; nothing is written after it
	closed  bool
}

// NewLineWriter starts the goroutine that writes to w what Send does not;
// [LineWriter.Close] ends it.
func NewLineWriter(w io.Writer) *LineWriter {
	l := &LineWriter{w: w, now: instantly(w), wake: make(chan struct{}, 1), done: make(chan struct{})}
	go l.run()
	return l
}

// Send queues a line, whose parts are the writer's from then on, and its line
// end. It waits only while more than 4 MiB are queued, until ctx ends. A nil
// error means queued, not received; an error means that no byte of the line
// will be written.
func (l *LineWriter) Send(ctx context.Context, line ...[]byte) error {
	size := len(lineEnd)
	for _, part := range line {
		size += len(part)
	}
	for {
		l.mu.Lock()
		switch {
		case l.err != nil:
			defer l.mu.Unlock()
			return l.err
		case l.closed:
			defer l.mu.Unlock()
			return ErrClosed
		case l.queued == 0 || l.queued+size <= maxQueued:
			l.queue = append(append(l.queue, line...), lineEnd)
			l.queued += size
			mine := !l.writing
			l.writing = true
			l.mu.Unlock()
			if mine {
				l.begin(size)
			}
			return nil
		}
		if l.room == nil {
			l.room = make(chan struct{})
		}
		room := l.room
		l.mu.Unlock()
		select {
		case <-room:
		case <-l.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close writes what is queued and ends the goroutine, or gives up when ctx
// ends; then the caller should close the stream itself. It returns the first
// error of a write.
func (l *LineWriter) Close(ctx context.Context) error {
	l.mu.Lock()
	l.closed = true
	mine := !l.writing
	l.writing = true
	l.mu.Unlock()
	if mine {
		l.wake <- struct{}{}
	}
	select {
	case <-l.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Done is closed once nothing more will be written: after Close, or after a
// write failed.
func (l *LineWriter) Done() <-chan struct{} { return l.done }

// turns is how often Send looks for what others have queued while it wrote,
// before it leaves that to the goroutine.
const turns = 4

// begin writes what is queued as far as the stream takes it at once, and leaves
// the rest to the goroutine. size is that of a line in the queue.
func (l *LineWriter) begin(size int) {
	if l.now != nil && size < batchSize {
		runtime.Gosched() // others that are about to send may share the write
		for range turns {
			parts, more := l.take(batchSize)
			if !more {
				return
			}
			if parts == nil {
				break
			}
			for _, part := range parts {
				l.batch = append(l.batch, part...)
			}
			n := l.now.some(l.batch)
			l.batch = append(l.batch[:0], l.batch[n:]...)
			if len(l.batch) > 0 {
				break
			}
		}
	}
	l.wake <- struct{}{} // it is waiting, since nobody else was writing
}

// take empties the queue where it holds less than most bytes. More is false, and
// whoever asked writes no longer, where there is nothing and nothing will be said
// about the end.
func (l *LineWriter) take(most int) (parts [][]byte, more bool) {
	clear(l.parts)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case len(l.queue) == 0:
		l.writing = l.closed
		return nil, l.closed
	case l.queued >= most:
		return nil, true
	}
	parts = l.queue
	l.queue, l.queued, l.parts = l.parts[:0], 0, parts
	if l.room != nil {
		close(l.room)
		l.room = nil
	}
	return parts, true
}

func (l *LineWriter) run() {
	defer close(l.done)
	for range l.wake {
		err := l.flush() // what Send has left
		for err == nil {
			parts, more := l.take(math.MaxInt)
			if !more {
				break
			}
			if parts == nil {
				return // Close was called
			}
			err = l.write(parts)
		}
		if err != nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.err = fmt.Errorf("write message: %w", err)
			l.queue = nil
			return
		}
	}
}

// lineEnd ends each line.
var lineEnd = []byte{'\n'}

// write puts parts of lines on the stream. Small ones leave together; a large
// one is not copied.
func (l *LineWriter) write(parts [][]byte) error {
	for _, part := range parts {
		if len(part) >= batchSize {
			if err := l.flush(); err != nil {
				return err
			}
			if _, err := l.w.Write(part); err != nil {
				return err
			}
			continue
		}
		l.batch = append(l.batch, part...)
		if len(l.batch) >= batchSize {
			if err := l.flush(); err != nil {
				return err
			}
		}
	}
	return l.flush()
}

func (l *LineWriter) flush() error {
	if len(l.batch) == 0 {
		return nil
	}
	_, err := l.w.Write(l.batch)
	l.batch = l.batch[:0]
	return err
}
