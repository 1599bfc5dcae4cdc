package offheap

import "golang.org/x/sys/unix"

// inLarge asks for large pages, which a system need not have.
func inLarge(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }
