//go:build darwin || linux

package offheap

import "golang.org/x/sys/unix"

// Take returns so many bytes of zeros, nil where the system has none to give. Only
// what is written to takes memory.
func Take(size int) []byte {
	if size <= 0 {
		return nil
	}
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil
	}
	if size > largeFrom {
		inLarge(b[largeFrom:])
	}
	return b
}

// largeFrom is where a text begins to lie in pages of two megabytes, the first of
// which costs a short text more than it saves. All of ten megabytes in small pages
// are 2,560 faults, six times the work.
const largeFrom = 2 << 20

// Give gives back what Take returned, as a whole.
func Give(b []byte) {
	if b == nil {
		return
	}
	if err := unix.Munmap(b[:cap(b)]); err != nil {
		panic("offheap: " + err.Error()) // it is no memory of Take's
	}
}
