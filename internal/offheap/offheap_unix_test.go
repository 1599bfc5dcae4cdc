//go:build darwin || linux

package offheap

import (
	"bytes"
	"testing"
)

func TestTakeAndGive(t *testing.T) {
	const size = 3 << 20
	b := Take(size)
	if len(b) != size || cap(b) != size || bytes.Count(b, []byte{0}) != size {
		t.Fatalf("%d bytes of %d, not all of them zeros", len(b), cap(b))
	}
	b[0], b[size-1] = 1, 1
	Give(b[:0])
	Give(nil)
	if Take(0) != nil || Take(1<<62) != nil {
		t.Error("what cannot be had is given")
	}
}
