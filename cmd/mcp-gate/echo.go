//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package main

import "golang.org/x/sys/unix"

// echoOff keeps a terminal from showing what is typed, and changes nothing else
// of it: a switch of the line mode would tear a line that was typed already.
func echoOff(fd int) error {
	mode, err := unix.IoctlGetTermios(fd, ioctlGetTermios)
	if err != nil {
		return err
	}
	mode.Lflag &^= unix.ECHO
	mode.Lflag |= unix.ICANON | unix.ISIG
	mode.Iflag |= unix.ICRNL
	return unix.IoctlSetTermios(fd, ioctlSetTermios, mode)
}
