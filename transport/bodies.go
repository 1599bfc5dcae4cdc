package transport

import (
	"crypto/sha256"
	"errors"
	"io"
	"sync"
)

// bodies counts the bytes of the messages of each token that are being read or
// served, so that nobody with a token fills the memory with large ones side by
// side: a session's own account begins only where a message has been read. Safe
// for concurrent use.
type bodies struct {
	max int64 // of one token; one message alone always fits

	mu   sync.Mutex // guards what follows
	held map[[sha256.Size]byte]int64
}

var errCrowded = errors.New("too many bytes at once")

// body is one message on its way in. Read takes its bytes into the account,
// which done clears.
type body struct {
	of  *bodies
	key [sha256.Size]byte
	r   io.Reader
	n   int64
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	b.n += int64(n)
	held := b.of.held[b.key] + int64(n)
	b.of.held[b.key] = held
	if held > b.n && held > b.of.max { // others' are among them
		return n, errCrowded
	}
	return n, err
}

func (b *body) done() {
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	if held := b.of.held[b.key] - b.n; held > 0 {
		b.of.held[b.key] = held
	} else {
		delete(b.of.held, b.key)
	}
}
