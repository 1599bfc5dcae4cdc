// Package e2e has no code of its own: its tests run the real binary in front
// of real servers that nobody here wrote, over real pipes, and with a client
// that nobody here wrote. make test installs what they need.
//
// Where it matters how often a call ran, the server is the program counting,
// and the client is the tests' own (rig_test.go): gates are killed, raced, and
// answered badly there.
package e2e
