package engagement

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxLine is the length in bytes of the longest line that is read, without its end.
const MaxLine = 16 << 20

// DeriveLines reads a `{"reading":{...},"authority":{...}}` record from each line
// of r and writes its engagement to w as a line of canonical JSON. A record that
// is left out is the neutral one.
//
// A line that is no such record, a blank or an overlong one included, gives
// {"error":"..."} in its place and is counted in bad. The last line needs no end.
// What was written is flushed before more input is waited for. The error is one
// of reading r or writing w, and ends the work.
func DeriveLines(r io.Reader, w io.Writer, slice bool) (bad int, err error) {
	return eachLine(r, w, func(dst, line []byte) ([]byte, error) {
		var work task
		if err := taskRecord.unmarshal(line, &work); err != nil {
			return nil, err
		}
		return Derive(work.reading, work.authority, slice).AppendCanonical(dst)
	})
}

// MeetLines reads an array of engagements from each line and writes their
// [Engagement.Meet], from left to right. An empty array is an error: nothing
// bounds what it would allow. Lines are treated as in [DeriveLines].
func MeetLines(r io.Reader, w io.Writer) (bad int, err error) {
	return eachLine(r, w, func(dst, line []byte) ([]byte, error) {
		all, err := readEngagements(line)
		if err != nil {
			return nil, err
		}
		if len(all) == 0 {
			return nil, errors.New("meet: want at least one engagement, found none")
		}
		met := all[0]
		for _, e := range all[1:] {
			met = met.Meet(e)
		}
		return met.AppendCanonical(dst)
	})
}

// ComposeLines reads an array of engagements from each line and writes what
// [Compose] gives for them. Lines are treated as in [DeriveLines].
func ComposeLines(r io.Reader, w io.Writer) (bad int, err error) {
	return eachLine(r, w, func(dst, line []byte) ([]byte, error) {
		all, err := readEngagements(line)
		if err != nil {
			return nil, err
		}
		return Compose(all...).AppendCanonical(dst)
	})
}

// A task is what one line of [DeriveLines] holds.
type task struct {
	reading   Reading
	authority Authority
}

var taskRecord = record[task]{
	noun:    "line",
	neutral: func() task { return task{NeutralReading(), DefaultAuthority()} },
	partial: true,
	fields: []field[task]{
		nested("authority", func(t *task) *Authority { return &t.authority }, &authorityRecord),
		nested("reading", func(t *task) *Reading { return &t.reading }, &readingRecord),
	},
}

// engagements is a JSON array of them.
type engagements []Engagement

func readEngagements(line []byte) (all engagements, err error) {
	if err := unmarshalValue(line, &all); err != nil {
		return nil, fmt.Errorf("line: %w", err)
	}
	return all, nil
}

func (all *engagements) readFrom(d *jsontext.Decoder) error {
	if _, err := next(d, "an array of engagements", '['); err != nil {
		return err
	}
	for d.PeekKind() != ']' {
		e := engagementRecord.neutral()
		if err := engagementRecord.readFrom(d, &e); err != nil {
			return fmt.Errorf("engagement %d: %w", len(*all), err)
		}
		*all = append(*all, e)
	}
	_, err := d.ReadToken()
	return err
}

// eachLine writes what answer appends for each line of r, or its error.
func eachLine(r io.Reader, w io.Writer, answer func(dst, line []byte) ([]byte, error)) (bad int, err error) {
	in, out := bufio.NewReaderSize(r, 64<<10), bufio.NewWriterSize(w, 64<<10)
	var line, answered []byte
	for {
		line, err = readLine(in, line[:0])
		switch {
		case err == io.EOF:
			return bad, out.Flush()
		case err == nil:
			answered, err = answer(answered[:0], line)
		case err != errLineTooLong:
			return bad, errors.Join(err, out.Flush())
		}
		if err != nil {
			bad++
			answered = appendError(answered[:0], err)
		}
		out.Write(append(answered, '\n')) // an error is kept, and Flush returns it
		if in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return bad, err
			}
		}
	}
}

var errLineTooLong = fmt.Errorf("line: longer than %d bytes", MaxLine)

// readLine appends the next line to dst, without its end. At the end of r there
// is no line and the error is io.EOF. A line that is too long is skipped whole.
func readLine(r *bufio.Reader, dst []byte) ([]byte, error) {
	tooLong := false
	for {
		chunk, err := r.ReadSlice('\n')
		text := bytes.TrimSuffix(chunk, []byte("\n"))
		tooLong = tooLong || len(dst)+len(text) > MaxLine
		if !tooLong {
			dst = append(dst, text...)
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF && (len(dst) > 0 || tooLong):
			err = nil // the last line, which has no end
		}
		if err == nil && tooLong {
			err = errLineTooLong
		}
		return dst, err
	}
}

// appendError appends {"error":"..."}. What the message quotes of a line may be
// no UTF-8; such bytes are replaced.
func appendError(dst []byte, err error) []byte {
	dst = append(dst, `{"error":`...)
	dst, _ = jsontext.AppendQuote(dst, err.Error())
	return append(dst, '}')
}
