package main

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What the start has used is no longer resident, and what is needed of it comes
// back.
func TestGivesBackWhatOnlyTheStartUsed(t *testing.T) {
	before := fileKiB(t)
	if err := giveBack(); err != nil {
		t.Fatal(err)
	}
	if after := fileKiB(t); after >= before {
		t.Errorf("%d KiB of files are resident, %d before", after, before)
	}
	if !regexp.MustCompile(`^a+b$`).MatchString("aaab") {
		t.Error("the program has changed")
	}
}

func fileKiB(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssFile:")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestOnlyUnchangedPagesOfTheProgramAreLetGo(t *testing.T) {
	const smaps = `00400000-00500000 r-xp 00000000 fe:00 12 /bin/the gate
Rss:                 900 kB
Anonymous:             0 kB
00500000-00600000 r--p 00100000 fe:00 12 /bin/the gate
Anonymous:             4 kB
00600000-00700000 r--p 00200000 fe:00 12 /bin/the gate
Anonymous:             0 kB
00700000-00800000 rw-p 00300000 fe:00 12 /bin/the gate
Anonymous:             0 kB
7f0000000000-7f0000100000 r-xp 00000000 fe:00 13 /lib/libc.so
Anonymous:             0 kB
7f0000200000-7f0000300000 r--p 00000000 00:00 0
Anonymous:             0 kB
`
	want := []mapping{{0x400000, 0x500000}, {0x600000, 0x700000}}
	if got := unchanged(strings.NewReader(smaps), "/bin/the gate"); !slices.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}
