//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package sample

// lockDir does nothing: on these systems one process serves a folder.
func lockDir(string) (unlock func() error, err error) {
	return func() error { return nil }, nil
}
