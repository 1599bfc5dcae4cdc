package checkpoint

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestDiff(t *testing.T) {
	for name, c := range map[string]struct{ a, b, want string }{
		"equal":            {"a\n", "a\n", ""},
		"one line":         {"a\n", "b\n", "@@ -1 +1 @@\n-a\n+b\n"},
		"added to nothing": {"", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n"},
		"all removed":      {"a\n", "", "@@ -1 +0,0 @@\n-a\n"},
		"line end lost":    {"a\n", "a", "@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n"},
		"two hunks": {
			"1\n2\n3\n4\n5\n6\n7\n8\n9\n", "x\n2\n3\n4\n5\n6\n7\n8\ny\n",
			"@@ -1,4 +1,4 @@\n-1\n+x\n 2\n 3\n 4\n@@ -6,4 +6,4 @@\n 6\n 7\n 8\n-9\n+y\n",
		},
		"contexts that touch": {
			"1\n2\n3\n4\n5\n6\n7\n8\n", "x\n2\n3\n4\n5\n6\n7\ny\n",
			"@@ -1,8 +1,8 @@\n-1\n+x\n 2\n 3\n 4\n 5\n 6\n 7\n-8\n+y\n",
		},
	} {
		want := c.want
		if want != "" {
			want = "--- a\n+++ b\n" + want
		}
		if got := Diff("a", "b", []byte(c.a), []byte(c.b)); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if got := Diff("a", "b", []byte{0}, []byte("b")); !strings.HasPrefix(got, "binary content differs: a 1 bytes, SHA-256 ") {
		t.Errorf("binary: %q", got)
	}
}

func randomText(r *rand.Rand, lines int) []string {
	out := make([]string, lines)
	for i := range out {
		out[i] = fmt.Sprintf("%d\n", r.IntN(6))
	}
	return out
}

// The edits turn a into b, whatever the texts, and are never more than
// removing all and adding all.
func TestEditsLeadFromOneTextToTheOther(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 0))
	for range 3000 {
		a, b := randomText(r, r.IntN(30)), randomText(r, r.IntN(30))
		var fromA, toB []string
		for _, e := range compare(a, b) {
			if e.op != '+' {
				fromA = append(fromA, e.line)
			}
			if e.op != '-' {
				toB = append(toB, e.line)
			}
		}
		if strings.Join(fromA, "") != strings.Join(a, "") || strings.Join(toB, "") != strings.Join(b, "") {
			t.Fatalf("%q to %q gives %q to %q", a, b, fromA, toB)
		}
	}
}

func TestPatchAppliesIt(t *testing.T) {
	patch, err := exec.LookPath("patch")
	if err != nil {
		t.Log("no patch(1) here; the edits are checked by the test above")
		return
	}
	r := rand.New(rand.NewPCG(4, 0))
	for i := range 40 {
		a, b := randomText(r, r.IntN(60)), randomText(r, r.IntN(60))
		if i%4 == 0 && len(b) > 0 {
			b[len(b)-1] = "end"
		}
		file := filepath.Join(t.TempDir(), "a")
		if err := os.WriteFile(file, []byte(strings.Join(a, "")), 0o644); err != nil {
			t.Fatal(err)
		}
		diff := Diff("a", "a", []byte(strings.Join(a, "")), []byte(strings.Join(b, "")))
		if diff == "" {
			continue
		}
		cmd := exec.Command(patch, "--quiet", file)
		cmd.Stdin = strings.NewReader(diff)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("patch: %v: %s\n%s", err, out, diff)
		}
		got, _ := os.ReadFile(file) // an emptied file may be removed
		if string(got) != strings.Join(b, "") {
			t.Fatalf("patched to %q, want %q by\n%s", got, b, diff)
		}
	}
}

func TestFarApartTextsAreReplaced(t *testing.T) {
	var a, b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&a, "a%d\n", i)
		fmt.Fprintf(&b, "b%d\n", i)
	}
	if got := strings.Count(Diff("a", "b", []byte(a.String()), []byte(b.String())), "\n"); got != 10_003 {
		t.Errorf("%d lines", got)
	}
}
