package audit

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"strconv"
)

const macLen = 16 // bytes of the HMAC that are kept: 128 bits

// sealer authenticates lines and heads; a nil one leaves them bare. Not safe
// for concurrent use.
type sealer struct {
	mac hash.Hash
	sum [sha256.Size]byte
}

func newSealer(key []byte) *sealer {
	if len(key) == 0 {
		return nil
	}
	return &sealer{mac: hmac.New(sha256.New, key)}
}

// seal appends the mac member over covered. It comes last in its object, so
// that a reader finds what it covers by length alone.
func (s *sealer) seal(dst, covered []byte) []byte {
	if s == nil {
		return dst
	}
	s.mac.Reset()
	s.mac.Write(covered)
	s.mac.Sum(s.sum[:0])
	dst = append(dst, `,"mac":"`...)
	dst = hex.AppendEncode(dst, s.sum[:macLen])
	return append(dst, '"')
}

// holds reports whether object ends in the mac of what stands before it. A nil
// sealer has nothing to say against any.
func (s *sealer) holds(object []byte) bool {
	if s == nil {
		return true
	}
	const field = len(`,"mac":"`) + 2*macLen + len(`"}`)
	if len(object) < field {
		return false
	}
	covered := object[:len(object)-field]
	return hmac.Equal(append(s.seal(nil, covered), '}'), object[len(covered):])
}

// appendHead appends the head of a file. It has the same length for any count
// and fits in one page, so that it is overwritten in place by one pwrite an
// event, and a process that was killed leaves either the old or the new one.
func appendHead(dst []byte, file string, events uint64, digest []byte, s *sealer) []byte {
	const width = 20 // digits of the largest uint64
	start := len(dst)
	dst = append(dst, `{"file":"`...)
	dst = append(dst, file...)
	dst = append(dst, `","events":`...)
	var digits [width]byte
	number := strconv.AppendUint(digits[:0], events, 10)
	for range width - len(number) {
		dst = append(dst, ' ')
	}
	dst = append(dst, number...)
	dst = append(dst, `,"digest":"`...)
	dst = hex.AppendEncode(dst, digest)
	dst = append(dst, '"')
	return append(s.seal(dst, dst[start:]), '}', '\n')
}

// errEmptyHead is no damage as long as the log is empty too: its process died,
// or its disk was full, before the first line.
var errEmptyHead = errors.New("it is empty")

// readHead reads the head of a log file and gives its bytes for [sealer.holds].
func readHead(dir fs.FS, logName string) (Mark, []byte, error) {
	b, err := fs.ReadFile(dir, headName(logName))
	if err != nil {
		return Mark{}, nil, err
	}
	if len(b) == 0 {
		return Mark{}, nil, errEmptyHead
	}
	b = bytes.TrimSuffix(b, []byte("\n"))
	var m Mark
	if err := json.Unmarshal(b, &m); err != nil {
		return Mark{}, nil, fmt.Errorf("head of %s: %w", logName, err)
	}
	if m.File != logName {
		return Mark{}, nil, fmt.Errorf("head of %s is of another file", logName)
	}
	digest, err := hex.DecodeString(m.Digest)
	if err != nil || len(digest) != sha256.Size {
		return Mark{}, nil, fmt.Errorf("head of %s names no digest", logName)
	}
	// A count that a damaged name hides would read as zero and vouch for nothing.
	written := appendHead(nil, m.File, m.Events, digest, nil)
	if !bytes.HasPrefix(b, bytes.TrimSuffix(written, []byte("}\n"))) {
		return Mark{}, nil, fmt.Errorf("head of %s is not as it was written", logName)
	}
	return m, b, nil
}
