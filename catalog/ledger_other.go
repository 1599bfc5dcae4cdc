//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package catalog

func syncDir(string) error { return nil }
