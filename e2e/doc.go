// Package e2e has no code of its own: its tests run the real binary in front
// of real servers that nobody here wrote, over real pipes, and with a client
// that nobody here wrote. make test installs what they need.
package e2e
