package audit

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Record is an event as it stands in a file.
type Record struct {
	File  string
	Event Event
	Raw   []byte // the line, without its line feed: JSON
}

// Tail returns the last n events of all chains of a folder that keep wants
// (nil: all), oldest first, merged by time. Lines that are no events are passed
// over: finding them is [Verify]'s. It reads files from their ends, so that its
// cost follows n and not the size of the log; n < 1 gives none.
func Tail(dir fs.FS, n int, keep func(Event) bool) ([]Record, error) {
	records, err := NewFollower(dir, keep).Last(n)
	if err != nil {
		return nil, fmt.Errorf("tail audit log: %w", err)
	}
	return records, nil
}

// Follower reads events as they are added. It holds no file open between calls
// and is not safe for concurrent use.
type Follower struct {
	dir     fs.FS
	keep    func(Event) bool
	offsets map[string]int64 // how far each file has been read
}

// NewFollower returns one that has read nothing yet: without a call of Last,
// the first Next gives everything.
func NewFollower(dir fs.FS, keep func(Event) bool) *Follower {
	if keep == nil {
		keep = func(Event) bool { return true }
	}
	return &Follower{dir: dir, keep: keep, offsets: make(map[string]int64)}
}

// Last returns the last n events, as [Tail] does, and moves to the present end
// of every file: Next goes on from there without a gap or a repetition.
func (f *Follower) Last(n int) ([]Record, error) {
	names, err := logNames(f.dir)
	if err != nil {
		return nil, err
	}
	byChain := make(map[string][]string)
	for _, name := range names {
		byChain[chainOf(name)] = append(byChain[chainOf(name)], name)
	}
	var all []Record
	for _, files := range byChain {
		left := n
		for _, name := range slices.Backward(files) {
			records, err := f.lastOf(name, left)
			if err != nil {
				return nil, err
			}
			left -= len(records)
			all = append(all, records...)
		}
	}
	sortByTime(all)
	return all[max(0, len(all)-max(n, 0)):], nil
}

// Next returns the events that were added since the last call, merged by time
// among themselves. A line that is being written comes with a later call. The
// caller decides how often to look.
func (f *Follower) Next() ([]Record, error) {
	names, err := logNames(f.dir)
	if err != nil {
		return nil, fmt.Errorf("follow audit log: %w", err)
	}
	var all []Record
	for _, name := range names {
		records, err := f.nextOf(name)
		if err != nil {
			return nil, fmt.Errorf("follow audit log: %w", err)
		}
		all = append(all, records...)
	}
	sortByTime(all)
	return all, nil
}

func (f *Follower) nextOf(name string) ([]Record, error) {
	file, size, err := openAt(f.dir, name)
	if err != nil || file == nil {
		return nil, err
	}
	defer file.Close()
	if size <= f.offsets[name] {
		return nil, nil
	}
	r := bufio.NewReader(io.NewSectionReader(file, f.offsets[name], size-f.offsets[name]))
	var records []Record
	for {
		text, err := readLine(r)
		if errors.Is(err, io.EOF) {
			return records, nil
		} else if errors.Is(err, errLongLine) {
			// How long it was is not known any more; go on behind what was there.
			f.offsets[name] = size
			return records, nil
		} else if err != nil {
			return records, err
		}
		f.offsets[name] += int64(len(text)) + 1
		if rec, ok := f.record(name, text); ok {
			records = append(records, rec)
		}
	}
}

func (f *Follower) record(name string, text []byte) (Record, bool) {
	w, err := parseLine(text)
	if err != nil || !f.keep(Event(w.fields)) {
		return Record{}, false
	}
	return Record{File: name, Event: Event(w.fields), Raw: bytes.Clone(text)}, true
}

// lastOf returns up to n events from the end of a file, in no order.
func (f *Follower) lastOf(name string, n int) ([]Record, error) {
	file, size, err := openAt(f.dir, name)
	if err != nil || file == nil {
		return nil, err
	}
	defer file.Close()
	lines := backward{r: file, off: size}
	end, err := lines.skipPartial()
	if err != nil {
		return nil, err
	}
	f.offsets[name] = end
	var records []Record
	for len(records) < n {
		text, err := lines.prev()
		if err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		if rec, ok := f.record(name, text); ok {
			records = append(records, rec)
		}
	}
	return records, nil
}

type readerAtCloser interface {
	fs.File
	io.ReaderAt
}

// openAt opens a file for reading at any place. One that has gone meanwhile is
// a nil file of size 0.
func openAt(dir fs.FS, name string) (readerAtCloser, int64, error) {
	file, err := dir.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	} else if err != nil {
		return nil, 0, err
	}
	at, ok := file.(readerAtCloser)
	if !ok {
		return nil, 0, errors.Join(fmt.Errorf("read %s: the file system cannot read at an offset", name), file.Close())
	}
	info, err := file.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return at, info.Size(), nil
}

// backward reads lines from the end of a file to its beginning.
type backward struct {
	r   io.ReaderAt
	off int64  // what lies before off is not in buf yet
	buf []byte // what lies from off to the end of the next line to give
}

const backwardStep = 16 << 10

// more puts the bytes before off in front of buf.
func (b *backward) more() error {
	step := min(max(backwardStep, int64(len(b.buf))), b.off)
	if step == 0 {
		return io.EOF
	}
	grown := make([]byte, step+int64(len(b.buf)))
	if n, err := b.r.ReadAt(grown[:step], b.off-step); int64(n) < step {
		return cmp.Or(err, io.ErrUnexpectedEOF)
	}
	copy(grown[step:], b.buf)
	b.off, b.buf = b.off-step, grown
	return nil
}

// skipPartial drops what follows the last line feed, and returns the offset
// behind it.
func (b *backward) skipPartial() (int64, error) {
	for {
		if i := bytes.LastIndexByte(b.buf, '\n'); i >= 0 {
			b.buf = b.buf[:i+1]
			return b.off + int64(i) + 1, nil
		}
		if len(b.buf) > maxLine {
			b.buf = nil // no line of ours; look further up for one
		}
		if err := b.more(); err == io.EOF {
			b.buf = nil
			return 0, nil
		} else if err != nil {
			return 0, err
		}
	}
}

// prev returns the line before the one it returned last, without its line
// feed, or [io.EOF]. Of a line longer than maxLine it may give parts, which
// are no events.
func (b *backward) prev() ([]byte, error) {
	for {
		body := bytes.TrimSuffix(b.buf, []byte("\n"))
		if i := bytes.LastIndexByte(body, '\n'); i >= 0 {
			b.buf = b.buf[:i+1]
			return body[i+1:], nil
		}
		if len(b.buf) > maxLine {
			b.buf = nil
			return body, nil
		}
		if err := b.more(); err == io.EOF && len(b.buf) > 0 {
			b.buf = nil
			return body, nil
		} else if err != nil {
			return nil, err
		}
	}
}

// sortByTime puts events in order of time; those of one file with one time, or
// after a clock that went back, stay in order of the chain as far as time
// allows.
func sortByTime(records []Record) {
	slices.SortFunc(records, func(a, b Record) int {
		return cmp.Or(a.Event.Time.Compare(b.Event.Time), cmp.Compare(chainOf(a.File), chainOf(b.File)), cmp.Compare(a.Event.Seq, b.Event.Seq))
	})
}

// String gives the event as one line for people: time, kind, tool, what was
// decided and what came of it. Characters that do not print are escaped, also
// in a line that somebody else wrote.
func (e Event) String() string {
	parts := []string{e.Time.UTC().Format("2006-01-02 15:04:05.000"), fmt.Sprintf("%-8s", e.Kind), e.Tool}
	parts = append(parts, e.Verdict, bracketed(e.Code), e.Outcome, e.ErrorCode)
	if e.ResultSize > 0 {
		parts = append(parts, strconv.FormatInt(e.ResultSize, 10)+" bytes")
	}
	if e.Duration > 0 {
		parts = append(parts, e.Duration.Round(100*time.Microsecond).String())
	}
	for _, f := range []struct{ name, value string }{
		{"class", e.Class}, {"egress", e.Egress}, {"rule", e.Rule}, {"slice", e.Slice}, {"ticket", e.Ticket},
		{"level", e.Level}, {"channel", e.Channel}, {"who", e.Principal}, {"call", e.Call}, {"file", e.Next},
	} {
		if f.value != "" {
			parts = append(parts, f.name+"="+f.value)
		}
	}
	if e.Note != "" {
		parts = append(parts, "("+e.Note+")")
	}
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	return string(appendVisible(nil, strings.TrimRight(strings.Join(parts, " "), " "), false))
}

func bracketed(code string) string {
	if code == "" {
		return ""
	}
	return "[" + code + "]"
}
