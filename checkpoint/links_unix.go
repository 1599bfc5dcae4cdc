//go:build unix

package checkpoint

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// noBlock keeps the open of a pipe from waiting for its other end.
const noBlock = syscall.O_NONBLOCK | syscall.O_NOFOLLOW

// linksOf returns how many names the file has.
func linksOf(_ *os.File, info fs.FileInfo) (uint64, error) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, errors.New("the system does not tell how many names it has")
	}
	return uint64(stat.Nlink), nil
}
