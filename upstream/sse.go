package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// errEventSize is wrapped when an event, or a line of it, is over the limit. No
// more is read of its stream: what is on it may have no end.
var errEventSize = errors.New("event is too large")

// events reads a stream of server-sent events: WHATWG HTML, section 9.2.6.
// Not safe for concurrent use.
type events struct {
	r     *bufio.Reader
	limit int64
	begun bool // the byte order mark, if any, is behind
	crLF  bool // the last line ended in CR: an LF that follows belongs to it

	lastID string        // of the last event that was complete; what a resumption names
	retry  time.Duration // the pause that the server asks for before a resumption; 0 if none
}

// event is one event with data.
type event struct {
	name       string // "" counts as message
	data       []byte // the lines of data with LF between; the caller's
	unfinished bool   // the stream ended in it
}

func newEvents(r io.Reader, limit int64) *events {
	return &events{r: bufio.NewReaderSize(r, 16<<10), limit: limit}
}

// next returns the next event that has data. The error is the stream's own,
// or wraps errEventSize.
func (e *events) next() (event, error) {
	var ev event
	var id string
	hasID, hasData, size := false, false, int64(0)
	tooLarge := func() (event, error) {
		if hasID {
			e.lastID = id // else a resumption brings it again
		}
		return event{}, fmt.Errorf("%w: over the limit of %d bytes", errEventSize, e.limit)
	}
	for {
		line, err := e.line()
		if errors.Is(err, errEventSize) {
			return tooLarge()
		}
		if err != nil {
			if hasData && errors.Is(err, io.EOF) {
				ev.unfinished = true
				return ev, nil
			}
			return event{}, err
		}
		if len(line) == 0 {
			if hasID {
				e.lastID = id
			}
			if hasData {
				return ev, nil
			}
			ev, hasID = event{}, false
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			ev.name = string(value)
		case "data":
			if size += int64(len(value)) + 1; size > e.limit {
				return tooLarge()
			}
			if hasData {
				ev.data = append(ev.data, '\n')
			}
			ev.data, hasData = append(ev.data, value...), true
		case "id":
			if !bytes.ContainsRune(value, 0) {
				id, hasID = string(value), true
			}
		case "retry":
			e.setRetry(string(value))
		}
	}
}

func (e *events) setRetry(digits string) {
	if ms, err := strconv.ParseUint(digits, 10, 31); err == nil && strings.Trim(digits, "0123456789") == "" {
		e.retry = time.Duration(ms) * time.Millisecond
	}
}

// line returns the next line without its end, which is LF, CR or CRLF. It
// never waits for more than the line needs. The bytes are good until the next
// call.
func (e *events) line() ([]byte, error) {
	var line []byte
	for {
		if _, err := e.r.Peek(1); err != nil {
			if len(line) > 0 && errors.Is(err, io.EOF) {
				return line, nil
			}
			return nil, err
		}
		chunk, _ := e.r.Peek(e.r.Buffered()) // what is there is there
		if e.crLF {
			e.crLF = false
			if chunk[0] == '\n' {
				e.skip(1)
				continue
			}
		}
		end := bytes.IndexAny(chunk, "\r\n")
		take := chunk
		if end >= 0 {
			take = chunk[:end]
		}
		if int64(len(line)+len(take)) > e.limit+16 {
			return nil, errEventSize
		}
		line = append(line, take...)
		if end < 0 {
			e.skip(len(chunk))
			continue
		}
		e.crLF = chunk[end] == '\r'
		e.skip(end + 1)
		if !e.begun {
			e.begun = true
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		return line, nil
	}
}

// skip discards bytes that were peeked at.
func (e *events) skip(n int) { _, _ = e.r.Discard(n) }
