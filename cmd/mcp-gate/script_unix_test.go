//go:build unix

package main

import "testing"

// TestScriptsOfUnix runs the scripts that need a pseudo-terminal, or files with
// modes.
func TestScriptsOfUnix(t *testing.T) { runScripts(t, "../../testdata/script/unix") }
