//go:build unix

package main

import (
	"bytes"
	"strings"
	"testing"
)

// Status says what an enrolled key proves, and what it does not.
func TestStatusSaysWhatAYesProves(t *testing.T) {
	home, _ := homeWithKey(t)
	var out, said bytes.Buffer
	if code := run(t.Context(), []string{"--home", home.Dir, "status"}, strings.NewReader(""), &out, &said); code != 0 {
		t.Fatalf("exit %d: %s", code, &said)
	}
	for _, want := range []string{"proof  L1: an approver key is enrolled", "L2 needs the gate under another user", "an agent that runs as this user can"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("status does not say %q:\n%s", want, &out)
		}
	}
}
