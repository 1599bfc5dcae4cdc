//go:build unix

package config

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// safe returns a *[UnsafeError] if anybody but the person who runs the gate, or
// the administrator, may change the file or folder.
func safe(path string, info fs.FileInfo) error {
	quoted := "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return &UnsafeError{path, fmt.Sprintf("belongs to user %d", st.Uid), fmt.Sprintf("chown %d %s", os.Geteuid(), quoted)}
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		wanted := "600"
		if info.IsDir() {
			wanted = "700"
		}
		return &UnsafeError{path, fmt.Sprintf("may be written by others (mode %04o)", mode), fmt.Sprintf("chmod %s %s", wanted, quoted)}
	}
	return nil
}
