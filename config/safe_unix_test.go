//go:build unix

package config

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A fakeInfo is a file of the given owner and mode.
type fakeInfo struct {
	uid  uint32
	mode fs.FileMode
}

func (f fakeInfo) Name() string       { return "f" }
func (f fakeInfo) Size() int64        { return 0 }
func (f fakeInfo) Mode() fs.FileMode  { return f.mode }
func (f fakeInfo) ModTime() time.Time { return time.Time{} }
func (f fakeInfo) IsDir() bool        { return f.mode.IsDir() }
func (f fakeInfo) Sys() any           { return &syscall.Stat_t{Uid: f.uid} }

func TestWhoOwnsAFile(t *testing.T) {
	me := uint32(os.Geteuid())
	if err := safe("/f", fakeInfo{me, 0o600}); err != nil {
		t.Errorf("one's own: %v", err)
	}
	if err := safe("/f", fakeInfo{0, 0o644}); err != nil {
		t.Errorf("the administrator's: %v", err)
	}
	err := safe("/it's", fakeInfo{me + 4711, 0o600})
	if err == nil || !strings.Contains(err.Error(), "belongs to user") || !strings.Contains(err.Error(), `'/it'\''s'`) {
		t.Errorf("somebody else's: got %v, want it refused with a command that can be pasted", err)
	}
	if err := safe("/d", fakeInfo{me, fs.ModeDir | 0o777}); err == nil || !strings.Contains(err.Error(), "mode 0777") {
		t.Errorf("everybody's: got %v, want it refused", err)
	}
}

func TestUnsafeHomeIsRefused(t *testing.T) {
	h := Home{t.TempDir()}
	if err := os.WriteFile(h.Config(), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path string
		mode fs.FileMode
		fix  string
	}{
		{h.Dir, 0o770, "chmod 700"}, {h.Dir, 0o707, "chmod 700"}, {h.Dir, 0o755, ""},
		{h.Config(), 0o620, "chmod 600"}, {h.Config(), 0o602, "chmod 600"}, {h.Config(), 0o644, ""},
	} {
		before, err := os.Stat(tt.path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(tt.path, tt.mode); err != nil {
			t.Fatal(err)
		}
		_, _, err = h.Load(nil)
		unsafe := (*UnsafeError)(nil)
		switch {
		case tt.fix == "" && err != nil:
			t.Errorf("%s with mode %04o: got %v, want it read", tt.path, tt.mode, err)
		case tt.fix != "" && (!errors.As(err, &unsafe) || unsafe.Path != tt.path || !strings.Contains(err.Error(), tt.fix+" '"+tt.path+"'")):
			t.Errorf("%s with mode %04o: got %v, want it refused with %s", tt.path, tt.mode, err, tt.fix)
		}
		if err := os.Chmod(tt.path, before.Mode()); err != nil {
			t.Fatal(err)
		}
	}
}
