//go:build !linux

package main

import "io"

// clientStreams are those that serve speaks over.
func (a *app) clientStreams() (in io.Reader, out io.Writer, end func()) {
	return a.stdin, a.stdout, func() {}
}
