// Package flock locks a file against other processes, for the few moments in
// which a file that several gates of a home share is read, changed and
// replaced. It knows nothing of what the file is for.
package flock
