//go:build unix

package inbox

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// ownedByUs reports why a file is not to be trusted: somebody else than this
// user or root owns it, and could have written anything.
func ownedByUs(info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil // a file system that has no owners
	}
	if uid := os.Geteuid(); stat.Uid != 0 && int(stat.Uid) != uid {
		return fmt.Errorf("%s belongs to user %d, want %d", info.Name(), stat.Uid, uid)
	}
	return nil
}
