package inbox

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"strconv"
	"time"
)

// message is a sequence of byte strings, each behind its length, so that no
// two sequences are the same bytes. Bindings, views, decisions and grants are
// digested and signed in this form, never as JSON: there is one way to write
// it, and it needs no parser.
type message []byte

func newMessage(purpose string) message { return message(nil).add(purpose) }

func (m message) add(fields ...string) message {
	for _, f := range fields {
		m = binary.BigEndian.AppendUint64(m, uint64(len(f)))
		m = append(m, f...)
	}
	return m
}

func (m message) list(fields []string) message {
	return m.add(strconv.Itoa(len(fields))).add(fields...)
}

func (m message) time(t time.Time) message { return m.add(stamp(t)) }

// digest is the SHA-256 of a message.
type digest struct{ h hash.Hash }

func newDigest(purpose string) digest {
	d := digest{sha256.New()}
	d.add(purpose)
	return d
}

func (d digest) add(fields ...string) { d.h.Write(message(nil).add(fields...)) }

func (d digest) list(fields []string) { d.h.Write(message(nil).list(fields)) }

func (d digest) flag(set bool) { d.add(strconv.FormatBool(set)) }

func (d digest) sum() string { return hex.EncodeToString(d.h.Sum(nil)) }

// hexSHA256 returns the digest of plain bytes.
func hexSHA256(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// stamp writes a time so that equal instants are equal bytes. The zero time is
// the empty string. Stores keep microseconds, so no more are signed.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.UnixMicro(), 10)
}
