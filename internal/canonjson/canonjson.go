// Package canonjson gives the one sequence of bytes that stands for a JSON
// value wherever bytes are compared, digested, signed or cached.
//
// The form is RFC 8785 (JSON Canonicalization Scheme) with one departure:
// number literals are kept as they were written. No white space, strings in
// their shortest escape form, object members sorted by the UTF-16 code units
// of their names. Invalid UTF-8, lone surrogates and repeated member names are
// errors, as the RFC wants.
//
// The departure, and what follows from it:
//
//   - RFC 8785 passes every number through an IEEE 754 double, so that
//     12345678901234567890 becomes 12345678901234567000 and 1E400 cannot be
//     written at all. Here two values that differ in a digit stay different,
//     which is what an approval or a digest of a definition needs.
//   - In exchange 1, 1.0, 1e0 and -0, 0 are different values. A sender that
//     respells a number has changed the bytes, and is treated so.
//   - For a value whose numbers are all written as RFC 8785 would write them,
//     the bytes equal the RFC's.
//
// The package neither limits size nor interprets values; bound foreign input
// first (internal/strictjson). Nesting deeper than 10 000 is an error. Start
// with [Append], or [Digest] where only the name of the bytes is needed.
package canonjson

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// form is set once and never written again. The zero value of every option
// left out is the strict one: no duplicate names, no invalid UTF-8.
var form = []jsontext.Options{
	jsontext.CanonicalizeRawInts(false),
	jsontext.CanonicalizeRawFloats(false),
}

// Append appends the canonical form of the one JSON value in src to dst. White
// space around the value is allowed, anything else after it is an error. On an
// error dst comes back as it was. src is not modified and may be reused; it
// must not overlap dst. Safe for concurrent use.
//
// An error wraps a [*jsontext.SyntacticError] with the byte offset and the JSON
// pointer; its text may quote a member name of src.
func Append(dst, src []byte) ([]byte, error) {
	start := len(dst)
	dst = append(dst, src...)
	v := jsontext.Value(dst[start:])
	if err := v.Canonicalize(form...); err != nil {
		return dst[:start], fmt.Errorf("canonical json: %w", err)
	}
	return append(dst[:start], v...), nil
}

// Digest returns the SHA-256 of the canonical form of src as 64 lower-case hex
// digits. Values that are equal but for member order, white space and string
// escapes share a digest.
func Digest(src []byte) (hexSHA256 string, err error) {
	if isCanonical(src) {
		return named(src), nil
	}
	room := rooms.Get().(*[]byte)
	defer rooms.Put(room)
	canonical, err := Append((*room)[:0], src)
	if err != nil {
		return "", err
	}
	if cap(canonical) <= maxRoom {
		*room = canonical
	}
	return named(canonical), nil
}

func named(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	var digits [2 * sha256.Size]byte
	hex.Encode(digits[:], sum[:])
	return string(digits[:])
}

// rooms are where canonical forms stand while they are digested.
var rooms = sync.Pool{New: func() any { return new([]byte) }}

// maxRoom is the largest of them that is kept.
const maxRoom = 64 << 10
