// Package ids draws the ids that people, models and files name things by: a
// letter that says of what, an underscore, and 128 random bits as 26 base32
// characters (RFC 4648, lower case). It knows nothing of what they name.
package ids

import (
	"encoding/base32"
	"fmt"
	"io"
	"strings"
)

const alphabet = "abcdefghijklmnopqrstuvwxyz234567"

var encoding = base32.NewEncoding(alphabet).WithPadding(base32.NoPadding)

// New returns prefix and 26 characters drawn from random, which must be a
// cryptographic source. An error is the source's own.
func New(prefix string, random io.Reader) (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("draw an id: %w", err)
	}
	return prefix + encoding.EncodeToString(b[:]), nil
}

// Valid reports whether s has the form of an id with this prefix.
func Valid(prefix, s string) bool {
	body, ok := strings.CutPrefix(s, prefix)
	return ok && len(body) == 26 && strings.Trim(body, alphabet) == ""
}
