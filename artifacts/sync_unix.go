//go:build unix

package artifacts

import (
	"errors"
	"fmt"
	"os"
)

// syncDir makes the names in dir outlive a crash of the machine.
func syncDir(dir *os.Root) error {
	d, err := dir.Open(".")
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}
