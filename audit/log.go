package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed is returned by [Log.Record] after [Log.Close].
var ErrClosed = errors.New("audit log is closed")

const (
	defaultMaxBytes = 16 << 20
	logSuffix       = ".jsonl"
	headSuffix      = ".head"
	// marksKept bounds what a first line says about other chains. Every chain but
	// those that started at the same moment is then named by a later one.
	marksKept = 4
	// maxWrite is the size from which lines that wait are written without those
	// behind them.
	maxWrite = 64 << 10
)

// Options say where and how a process writes its chain.
type Options struct {
	// Dir is made with mode 0700 if it is not there.
	Dir string
	// Now is the clock of file names and events. It may go backwards; Seq does not.
	Now func() time.Time
	// Process tells this process from all others that start in the same second,
	// for example pid and random digits. Lower-case letters, digits, '-'.
	Process string
	// Note stands in the first line, for example the build's version.
	Note string
	// MaxBytes is the size from which a file is followed by the next one; 0 is
	// 16 MiB.
	MaxBytes int64
	// Key authenticates lines and heads; empty for a bare chain. Any length; 32
	// random bytes are right.
	Key []byte
	// Sync makes Record wait for the disk (fsync, milliseconds) for an Intent
	// whose Class is not "read": the line is then there before the call can have
	// happened, even if the machine loses power. Nothing else is worth that
	// wait: an effect that left no line is the one thing that cannot be told
	// afterwards.
	Sync bool

	create func(dir, name string) (logFile, headFile, error) // nil outside tests
}

type logFile interface {
	io.Writer
	Truncate(size int64) error
	Sync() error
	Close() error
}

type headFile interface {
	io.WriterAt
	Close() error
}

// Log is one process's chain. Its methods are safe for concurrent use.
type Log struct {
	opts Options // immutable
	base string  // immutable: the files' names up to their number

	queue   sync.Mutex // guards waiting; never held across a write
	waiting []*turn    // events in the order of their lines

	disk   sync.Mutex    // held while the disk is waited for; taken before mu
	synced atomic.Uint64 // what the disk has, by number

	mu     sync.Mutex // guards what follows; held across the write, so that lines are whole and in order
	batch  []*turn    // being written
	file   logFile
	head   headFile
	name   string // of the current file
	first  Event  // its first line, until that is written
	number int    // of the newest file that was tried
	size   int64  // of the current file
	events uint64 // in the current file
	seq    uint64
	last   [sha256.Size]byte
	torn   bool // the file may end in part of a line, from size on
	sealer *sealer
	stamp  []byte            // the time of the lines that are added
	buf    []byte            // lines on their way
	lines  uint64            // in buf
	tip    [sha256.Size]byte // of the last of them
	closed bool
	looked time.Time // when the current file was last looked for under its name
}

// Open makes the folder and the first file of a new chain, and writes its
// first line. Two processes never share a file.
func Open(opts Options) (*Log, error) {
	if opts.Process == "" || strings.Trim(opts.Process, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return nil, fmt.Errorf("open audit log: process name %q: want lower-case letters, digits and '-'", opts.Process)
	}
	if opts.MaxBytes == 0 {
		opts.MaxBytes = defaultMaxBytes
	}
	if opts.create == nil {
		opts.create = createFiles
	}
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open audit log: %w", err)
	}
	seen, err := newestMarks(os.DirFS(opts.Dir), marksKept)
	if err != nil {
		return nil, fmt.Errorf("open audit log: %w", err)
	}
	l := &Log{
		opts: opts,
		base: opts.Now().UTC().Format("20060102T150405Z") + "-" + opts.Process,
		buf:  make([]byte, 0, 2048),

		sealer: newSealer(opts.Key),
	}
	file, head, name, err := l.prepare()
	if err != nil {
		return nil, fmt.Errorf("open audit log: %w", err)
	}
	l.enter(file, head, Event{Kind: Start, File: name, Seen: seen, Note: opts.Note})
	if err := l.begin(opts.Now()); err != nil {
		return nil, errors.Join(fmt.Errorf("open audit log: %w", err), file.Close(), head.Close())
	}
	return l, nil
}

// createFiles makes the head before the log, so that a log without a head is
// never a crash's doing.
func createFiles(dir, name string) (logFile, headFile, error) {
	head, err := os.OpenFile(filepath.Join(dir, headName(name)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, errors.Join(err, head.Close())
	}
	return file, head, nil
}

func headName(logName string) string { return strings.TrimSuffix(logName, logSuffix) + headSuffix }

// prepare makes the file after the current one, empty, with its head.
func (l *Log) prepare() (logFile, headFile, string, error) {
	l.number++ // a number is not tried twice: a failed attempt may have left a file
	name := fmt.Sprintf("%s.%04d%s", l.base, l.number, logSuffix)
	file, head, err := l.opts.create(l.opts.Dir, name)
	if err != nil {
		return nil, nil, "", err
	}
	if _, err := head.WriteAt(appendHead(nil, name, 0, make([]byte, sha256.Size), l.sealer), 0); err != nil {
		return nil, nil, "", errors.Join(err, file.Close(), head.Close())
	}
	return file, head, name, nil
}

func (l *Log) enter(file logFile, head headFile, first Event) {
	l.file, l.head, l.name, l.first = file, head, first.File, first
	l.size, l.events, l.torn = 0, 0, false
}

// begin writes the current file's first line unless it is there already.
func (l *Log) begin(now time.Time) error {
	if l.events > 0 {
		return nil
	}
	return l.append(&l.first, now)
}

// turn is an event on its way into the file.
type turn struct {
	kind string
	body []byte // of its line: all but its place in the chain
	seq  uint64
	err  error
	file logFile     // the one it is in
	done atomic.Bool // set last
}

// turns that were taken, with the room of their bodies.
var turns = sync.Pool{New: func() any { return new(turn) }}

// Record writes one event and returns once the kernel has it; Seq, Time and
// the fields that tie files together are set here. An error means that the
// event may be missing from the record or is not vouched for: what it would
// have told of must not be done, or must be answered as an error. The log stays
// usable, and a later event may succeed.
func (l *Log) Record(e Event) error {
	e.File, e.Next, e.Seen = "", "", nil
	t := turns.Get().(*turn)
	defer turns.Put(t)
	t.kind, t.body = e.Kind, appendBody(t.body[:0], &e)
	t.done.Store(false)
	l.queue.Lock()
	l.waiting = append(l.waiting, t)
	l.queue.Unlock()
	runtime.Gosched() // others that are about to record may share the write
	if !t.done.Load() {
		l.mu.Lock()
		if !t.done.Load() { // whoever comes first writes for all who wait
			l.writeWaiting()
		}
		l.mu.Unlock()
	}
	if t.err == nil && l.opts.Sync && e.Kind == Intent && e.Class != "read" {
		return l.sync(t.file, t.seq)
	}
	return t.err
}

// writeWaiting writes every event that waits, in as few writes as files and
// the buffer allow.
func (l *Log) writeWaiting() {
	l.queue.Lock()
	l.batch, l.waiting = l.waiting, l.batch[:0]
	l.queue.Unlock()
	for rest := l.batch; len(rest) > 0; {
		n, err := l.writeSome(rest)
		for _, t := range rest[:n] {
			t.err, t.file = err, l.file
			t.done.Store(true)
		}
		rest = rest[n:]
	}
}

// writeSome writes the first of turns and returns how many it has settled.
func (l *Log) writeSome(turns []*turn) (int, error) {
	if l.closed {
		return 1, fmt.Errorf("record %s: %w", turns[0].kind, ErrClosed)
	}
	now := l.opts.Now()
	if l.size >= l.opts.MaxBytes || l.lost(now) {
		if err := l.rotate(now); err != nil {
			return len(turns), fmt.Errorf("start the file after %s: %w", l.name, err)
		}
	}
	if err := l.begin(now); err != nil {
		return len(turns), err
	}
	l.stamp = appendTime(l.stamp[:0], now) // of all of them
	for i, t := range turns {
		l.addLine(t.body)
		t.seq = l.seq + l.lines
		if room := l.opts.MaxBytes - l.size; int64(len(l.buf)) >= min(room, maxWrite) {
			return i + 1, l.flush()
		}
	}
	return len(turns), l.flush()
}

// sync waits until the disk has the event numbered seq, which is in file. One
// wait serves all whose lines were written before it began, and holds up nobody
// who writes.
func (l *Log) sync(file logFile, seq uint64) error {
	l.disk.Lock()
	defer l.disk.Unlock()
	if l.synced.Load() >= seq {
		return nil
	}
	l.mu.Lock()
	if l.file == file {
		seq = l.seq
	}
	name := l.name
	l.mu.Unlock()
	err := file.Sync()
	switch {
	case l.synced.Load() >= seq: // rotating, or closing, waited for the disk as well
		return nil
	case err != nil:
		return fmt.Errorf("sync audit file %s: %w", name, err)
	}
	l.synced.Store(seq)
	return nil
}

// lost reports whether the current file is not to be found under its name any
// more, as after somebody moved the folder away: what is written to it then is
// gone. It looks once a second. The next file names it, so that Verify misses it.
func (l *Log) lost(now time.Time) bool {
	if since := now.Sub(l.looked); since >= 0 && since < time.Second {
		return false
	}
	l.looked = now
	file, ok := l.file.(*os.File)
	if !ok {
		return false
	}
	open, err := file.Stat()
	if err != nil {
		return false // a write will say why
	}
	there, err := os.Stat(filepath.Join(l.opts.Dir, l.name))
	if lost := errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(open, there); !lost {
		return false
	}
	_ = os.MkdirAll(l.opts.Dir, 0o700) // without it the next file cannot be made, which is said
	return true
}

// rotate makes the next file first, so that the old one is only left once
// there is somewhere to go.
func (l *Log) rotate(now time.Time) error {
	file, head, name, err := l.prepare()
	if err != nil {
		return err
	}
	lines := l.events
	err = l.append(&Event{Kind: Rotate, Next: name}, now)
	if l.events == lines {
		return errors.Join(err, file.Close(), head.Close())
	}
	first := Event{Kind: Continue, File: name, Seen: []Mark{l.mark()}}
	err = errors.Join(err, l.endFile())
	l.enter(file, head, first)
	return err
}

// endFile has the disk take the current file, and closes it.
func (l *Log) endFile() error {
	err := l.file.Sync()
	if err == nil {
		l.synced.Store(l.seq)
	}
	return errors.Join(err, l.file.Close(), l.head.Close())
}

// append writes e as the next line and then the head.
func (l *Log) append(e *Event, now time.Time) error {
	l.stamp = appendTime(l.stamp[:0], now)
	l.addLine(appendBody(nil, e))
	return l.flush()
}

// addLine puts the line with this body into the buffer as the next one.
func (l *Log) addLine(body []byte) {
	if l.lines == 0 {
		l.tip = l.last
	}
	l.lines++
	start, seq := len(l.buf), l.seq+l.lines
	b := append(appendPlace(l.buf, seq, l.stamp), body...)
	b = append(b, `,"prev":"`...)
	if seq > 1 {
		b = hex.AppendEncode(b, l.tip[:])
	}
	b = append(b, '"')
	b = append(l.sealer.seal(b, b[start:]), '}')
	l.tip = sha256.Sum256(b[start:])
	l.buf = append(b, '\n')
}

// flush writes the lines of the buffer and then the head. If they do not get
// through whole they are taken back, and take no numbers.
func (l *Log) flush() error {
	lines := l.lines
	defer func() { l.buf, l.lines = l.buf[:0], 0 }()
	if err := l.mend(); err != nil {
		return err
	}
	if n, err := l.file.Write(l.buf); err != nil {
		l.torn = n > 0
		return errors.Join(fmt.Errorf("write audit file %s: %w", l.name, err), l.mend())
	}
	l.seq += lines
	l.events += lines
	l.size += int64(len(l.buf))
	l.last = l.tip
	l.buf = appendHead(l.buf[:0], l.name, l.events, l.last[:], l.sealer)
	if _, err := l.head.WriteAt(l.buf, 0); err != nil {
		return fmt.Errorf("write head of audit file %s: %w", l.name, err)
	}
	return nil
}

// mend cuts off the part of a line that a failed write left behind.
func (l *Log) mend() error {
	if !l.torn {
		return nil
	}
	if err := l.file.Truncate(l.size); err != nil {
		return fmt.Errorf("mend audit file %s: %w", l.name, err)
	}
	l.torn = false
	return nil
}

func (l *Log) mark() Mark {
	return Mark{File: l.name, Events: l.events, Digest: hex.EncodeToString(l.last[:])}
}

// Head says how far the current file has come. Kept somewhere else, it is an
// anchor for [Verify].
func (l *Log) Head() Mark {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mark()
}

// Close writes the last line, waits for the disk and closes the files. A
// second Close does nothing.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	now := l.opts.Now()
	err := l.begin(now)
	if err == nil {
		err = l.append(&Event{Kind: Stop}, now)
	}
	return errors.Join(err, l.endFile())
}

// newestMarks reads the heads of the newest files, oldest first. Heads that
// cannot be read are passed over: verification reports them.
func newestMarks(dir fs.FS, limit int) ([]Mark, error) {
	names, err := logNames(dir)
	if err != nil {
		return nil, err
	}
	var marks []Mark
	for _, name := range slices.Backward(names) {
		if len(marks) == limit {
			break
		}
		if m, _, err := readHead(dir, name); err == nil && m.Events > 0 {
			marks = append(marks, m)
		}
	}
	slices.Reverse(marks)
	return marks, nil
}

// logNames lists the log files of a folder in order of their start.
func logNames(dir fs.FS) ([]string, error) {
	entries, err := fs.ReadDir(dir, ".")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries { // sorted by name
		if strings.HasSuffix(e.Name(), logSuffix) && e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}
