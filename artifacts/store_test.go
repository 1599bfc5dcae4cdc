package artifacts

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	mrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-gate/mcp-gate/engagement"
)

var start = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// shop is a store in a folder, with a clock that the test sets.
type shop struct {
	*Store
	dir  string
	rows *FileRows
	mu   sync.Mutex
	now  time.Time
}

func (s *shop) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *shop) later(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

func openShop(t testing.TB, dir string, o Options) *shop {
	t.Helper()
	rows, err := OpenFileRows(filepath.Join(dir, "rows"))
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{dir: dir, rows: rows, now: time.Now()}
	o.Now, o.Random, o.Log = s.clock, rand.Reader, slog.New(slog.DiscardHandler)
	if s.Store, err = Open(context.Background(), dir, rows, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), rows.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *shop) keep(t testing.TB, content string, m Meta) Artifact {
	t.Helper()
	if m.Principal == "" {
		m.Principal = "local"
	}
	a, err := s.KeepBytes(t.Context(), []byte(content), m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (s *shop) content(t testing.TB, id string) string {
	t.Helper()
	h, err := s.Store.Open(t.Context(), id, "local")
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	b, err := io.ReadAll(h.Reader())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// files lists what lies in the store's folder.
func (s *shop) files(t testing.TB, sub string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(filepath.Join(s.dir, sub), func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			names = append(names, e.Name())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestWhatIsKeptComesBack(t *testing.T) {
	s := openShop(t, t.TempDir(), Options{})
	want := Meta{Media: "text/csv", URI: "a://b", Classes: engagement.EgressOf(engagement.RowLevel, engagement.Metadata), Withheld: true,
		Principal: "local", Session: "s_1", Origin: Origin{"crm", "list"}, Tables: TablesOf([]byte(csvRows)), Width: 3, Height: 4}
	a := s.keep(t, csvRows, want)
	sum := sha256.Sum256([]byte(csvRows))
	got, err := s.Get(t.Context(), a.ID, "local")
	if err != nil {
		t.Fatal(err)
	}
	if got.Digest != hex.EncodeToString(sum[:]) || got.Size != int64(len(csvRows)) || got.Media != want.Media || got.URI != want.URI ||
		got.Classes != want.Classes || !got.Withheld || got.Session != "s_1" || got.Origin != want.Origin || got.Width != 3 || got.Height != 4 ||
		len(got.Tables) != 1 || got.Tables[0].Rows != 3 || !got.Expires.Equal(got.Created.Add(7*24*time.Hour)) {
		t.Errorf("got %+v", got)
	}
	if c := s.content(t, a.ID); c != csvRows {
		t.Errorf("content %q, want %q", c, csvRows)
	}
	if runtime.GOOS != "windows" {
		for _, path := range []string{".", "files", "rows", "files/" + got.Digest[:2], "files/" + got.Digest[:2] + "/" + got.Digest, "rows/" + a.ID + ".json"} {
			info, err := os.Stat(filepath.Join(s.dir, path))
			if err != nil || info.Mode().Perm()&0o077 != 0 && path != "." {
				t.Errorf("%s: mode %v, %v; want nothing for others", path, info.Mode(), err)
			}
		}
	}
}

func TestEqualContentsAreKeptOnce(t *testing.T) {
	s := openShop(t, t.TempDir(), Options{})
	a, b := s.keep(t, "same", Meta{}), s.keep(t, "same", Meta{})
	if n := len(s.files(t, "files")); n != 1 || a.ID == b.ID {
		t.Errorf("%d files for one content, ids %s and %s", n, a.ID, b.ID)
	}
	if u, _, err := s.Usage(t.Context()); err != nil || u != (Usage{2, 4}) {
		t.Errorf("usage %+v, %v, want 2 artifacts of 4 bytes", u, err)
	}
	if err := s.Remove(t.Context(), a.ID, "local"); err != nil {
		t.Fatal(err)
	}
	if s.content(t, b.ID) != "same" {
		t.Error("removing one took the other's content")
	}
	if err := s.Remove(t.Context(), b.ID, "local"); err != nil || len(s.files(t, "files")) != 0 {
		t.Errorf("removing the last leaves %v, %v", s.files(t, "files"), err)
	}
}

func TestOneRefusalForEveryIDThatIsNone(t *testing.T) {
	s := openShop(t, t.TempDir(), Options{Keep: time.Hour})
	mine := s.keep(t, "mine", Meta{})
	foreign := s.keep(t, "foreign", Meta{Principal: "someone-else"})
	gone := s.keep(t, "gone", Meta{})
	damaged := s.keep(t, "damaged", Meta{})
	linked := s.keep(t, "linked", Meta{})
	s.replace(t, gone, nil)
	s.replace(t, damaged, func(path string) error { return os.WriteFile(path, []byte("DAMAGED"), 0o600) })
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("linked"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.replace(t, linked, func(path string) error { return os.Symlink(outside, path) })
	renamed := "a_" + strings.Repeat("b", 26)
	b, err := os.ReadFile(filepath.Join(s.dir, "rows", mine.ID+".json"))
	if err != nil {
		t.Fatal(err)
	}
	broken := "a_" + strings.Repeat("c", 26)
	for id, content := range map[string][]byte{renamed: b, broken: b[:len(b)/2]} {
		if err := os.WriteFile(filepath.Join(s.dir, "rows", id+".json"), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, id := range map[string]string{
		"empty": "", "traversal": "../../etc/passwd", "traversal in an id": "a_../../../../../../../etc/pa", "a file of the store": "files/" + mine.Digest,
		"a digest": mine.Digest, "forged": "a_" + strings.Repeat("a", 26), "upper case": strings.ToUpper(mine.ID), "too long": mine.ID + "a",
		"a NUL": mine.ID[:27] + "\x00", "a row's name": mine.ID + ".json", "foreign": foreign.ID, "without a file": gone.ID,
		"damaged": damaged.ID, "a link": linked.ID, "a renamed row": renamed, "a broken row": broken,
	} {
		if _, err := s.Store.Open(t.Context(), id, "local"); err != ErrNotFound {
			t.Errorf("%s: Open gives %v, want exactly %v", name, err, ErrNotFound)
		}
		if _, err := s.Read(t.Context(), id, "local", engagement.AllEgress(), Query{}); err != ErrNotFound {
			t.Errorf("%s: Read gives %v, want exactly %v", name, err, ErrNotFound)
		}
	}
	s.later(2 * time.Hour)
	if _, err := s.Read(t.Context(), mine.ID, "local", engagement.AllEgress(), Query{}); err != ErrNotFound {
		t.Errorf("expired: %v, want exactly %v", err, ErrNotFound)
	}
}

// replace takes an artifact's file away and puts something else in its place.
func (s *shop) replace(t *testing.T, a Artifact, with func(path string) error) {
	t.Helper()
	path := filepath.Join(s.dir, "files", a.Digest[:2], a.Digest)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if with != nil {
		if err := with(path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAShortIDFindsOnlyOnesOwn(t *testing.T) {
	s := openShop(t, t.TempDir(), Options{})
	a := s.keep(t, "x", Meta{})
	f := s.keep(t, "y", Meta{Principal: "someone-else"})
	if got, err := s.Find(t.Context(), a.ID[:12], "local"); err != nil || got.ID != a.ID {
		t.Errorf("found %v, %v", got.ID, err)
	}
	for _, id := range []string{f.ID[:12], f.ID, "a_", "a", ""} {
		if _, err := s.Find(t.Context(), id, "local"); err != ErrNotFound {
			t.Errorf("%q: %v, want %v", id, err, ErrNotFound)
		}
	}
}

func TestExtending(t *testing.T) {
	s := openShop(t, t.TempDir(), Options{Keep: time.Hour})
	a := s.keep(t, "x", Meta{})
	s.later(50 * time.Minute)
	if err := s.Extend(t.Context(), a.ID, "local"); err != nil {
		t.Fatal(err)
	}
	s.later(50 * time.Minute)
	if s.content(t, a.ID) != "x" {
		t.Error("not extended")
	}
	if err := s.Extend(t.Context(), a.ID, "someone-else"); err != ErrNotFound {
		t.Errorf("by somebody else: %v, want %v", err, ErrNotFound)
	}
}

func TestAFullStoreSaysHowToMakeRoom(t *testing.T) {
	s := openShop(t, t.TempDir(), Options{Quota: 1000, Keep: time.Hour})
	first := s.keep(t, strings.Repeat("a", 600), Meta{})
	_, err := s.KeepBytes(t.Context(), bytes.Repeat([]byte("b"), 600), Meta{Principal: "local"})
	var full *QuotaError
	if !errors.As(err, &full) || full.Used != 600 || full.Quota != 1000 || !strings.Contains(err.Error(), "artifacts rm") {
		t.Fatalf("got %v, want a *QuotaError", err)
	}
	if n := len(s.files(t, "writing")) + len(s.files(t, "files")); n != 1 {
		t.Errorf("%d files, want the first one only", n)
	}
	s.later(2 * time.Hour) // the first ran out and makes room by itself
	second := s.keep(t, strings.Repeat("c", 600), Meta{})
	s.keep(t, strings.Repeat("d", 399), Meta{})
	if _, err := s.Get(t.Context(), first.ID, "local"); err != ErrNotFound {
		t.Errorf("the first is still there: %v", err)
	}
	if s.content(t, second.ID) != strings.Repeat("c", 600) {
		t.Error("the second is not what was kept")
	}
}

func TestCollectionLeavesWhatIsRead(t *testing.T) {
	s := openShop(t, t.TempDir(), Options{Keep: time.Hour, Grace: time.Minute})
	a := s.keep(t, "being read", Meta{})
	h, err := s.Store.Open(t.Context(), a.ID, "local")
	if err != nil {
		t.Fatal(err)
	}
	s.later(2 * time.Hour)
	if n, err := s.Collect(t.Context()); n != 0 || err != nil {
		t.Errorf("collected %d, %v while it is read", n, err)
	}
	if b, err := io.ReadAll(h.Reader()); err != nil || string(b) != "being read" {
		t.Errorf("read %q, %v", b, err)
	}
	if err := errors.Join(h.Close(), h.Close()); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Collect(t.Context()); n != 1 || err != nil {
		t.Errorf("collected %d, %v after it was read, want 1", n, err)
	}
}

func TestOpeningCleansUp(t *testing.T) {
	dir := t.TempDir()
	s := openShop(t, dir, Options{Grace: time.Minute})
	a := s.keep(t, "kept", Meta{})
	old := time.Now().Add(-time.Hour)
	orphan := filepath.Join(dir, "files", "ab", strings.Repeat("ab", 32))
	young := filepath.Join(dir, "files", "ab", strings.Repeat("ac", 32))
	dead := filepath.Join(dir, "writing", "a_dead")
	half := filepath.Join(dir, "rows", ".a_x.1.tmp")
	if err := os.MkdirAll(filepath.Dir(orphan), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{orphan, young, dead, half} {
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if path != young {
			if err := os.Chtimes(path, old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	w, err := s.NewWriter(t.Context(), Meta{Principal: "local"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "being written"); err != nil {
		t.Fatal(err)
	}
	again := openShop(t, dir, Options{Grace: time.Minute}) // as another process does
	for path, want := range map[string]bool{orphan: false, young: true, dead: false, half: false} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s is there: %t, want %t", filepath.Base(path), err == nil, want)
		}
	}
	b, err := w.Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if again.content(t, a.ID) != "kept" || again.content(t, b.ID) != "being written" {
		t.Error("what was kept or being written is not there")
	}
}

func TestKeepingAndCollectingAtOnce(t *testing.T) {
	dir := t.TempDir()
	shops := []*shop{openShop(t, dir, Options{Grace: time.Nanosecond}), openShop(t, dir, Options{Grace: time.Nanosecond})}
	var wg sync.WaitGroup
	for i := range 4 {
		s := shops[i%2]
		wg.Go(func() {
			for n := range 15 {
				a, err := s.KeepBytes(t.Context(), fmt.Appendf(nil, "content %d", n%3), Meta{Principal: "local"})
				if err != nil {
					t.Error(err)
					return
				}
				h, err := s.Store.Open(t.Context(), a.ID, "local")
				if err != nil {
					t.Errorf("just kept: %v", err)
					return
				}
				b, err := io.ReadAll(h.Reader())
				if err := errors.Join(err, h.Close(), s.Remove(t.Context(), a.ID, "local")); err != nil || string(b) != fmt.Sprintf("content %d", n%3) {
					t.Errorf("read %q, %v", b, err)
				}
			}
		})
	}
	for range 10 {
		if _, err := shops[0].Collect(t.Context()); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	if left := shops[0].files(t, "files"); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestRowsOfFiles(t *testing.T) {
	s := openShop(t, t.TempDir(), Options{})
	a := s.keep(t, "x", Meta{})
	if err := s.rows.Put(t.Context(), a); !errors.Is(err, fs.ErrExist) {
		t.Errorf("an id twice: %v", err)
	}
	if err := s.rows.Put(t.Context(), Artifact{ID: "../x"}); err == nil {
		t.Error("a bad id was put")
	}
	until := start.Add(time.Hour)
	if err := s.rows.Touch(t.Context(), a.ID, until); err != nil {
		t.Fatal(err)
	}
	if got, err := s.rows.Get(t.Context(), a.ID); err != nil || !got.Expires.Equal(until) || got.Digest != a.Digest {
		t.Errorf("touched: %+v, %v", got, err)
	}
	if err := s.rows.Touch(t.Context(), "a_"+strings.Repeat("a", 26), until); !errors.Is(err, ErrNotFound) {
		t.Errorf("touching none: %v", err)
	}
	if err := errors.Join(s.rows.Delete(t.Context(), a.ID), s.rows.Delete(t.Context(), a.ID)); err != nil {
		t.Errorf("deleting twice: %v", err)
	}
}

// TestMain runs the program that the crash test kills.
func TestMain(m *testing.M) {
	if dir := os.Getenv("ARTIFACTS_CRASH_DIR"); dir != "" {
		writeUntilKilled(dir)
	}
	os.Exit(m.Run())
}

// writeUntilKilled keeps one content after another, each in pieces, and says
// which ones it was told are kept.
func writeUntilKilled(dir string) {
	rows, err := OpenFileRows(filepath.Join(dir, "rows"))
	if err != nil {
		panic(err)
	}
	s, err := Open(context.Background(), dir, rows, Options{Now: time.Now, Random: rand.Reader, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	for n := 0; ; n++ {
		w, err := s.NewWriter(context.Background(), Meta{Principal: "local", Media: "text/plain"})
		if err != nil {
			panic(err)
		}
		line := fmt.Sprintf("%d of %d\n", n, os.Getpid())
		for range 200 {
			if _, err := io.WriteString(w, line); err != nil {
				panic(err)
			}
		}
		a, err := w.Commit(context.Background())
		if err != nil {
			panic(err)
		}
		fmt.Println(a.ID, a.Digest)
	}
}

// Killed at any moment, the store opens clean: what was said to be kept is, and
// nothing that can be read is wrong.
func TestKilledWhileWriting(t *testing.T) {
	rounds := 20
	if os.Getenv("MCP_GATE_SOAK") != "" {
		rounds = 200
	}
	dir := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := mrand.New(mrand.NewPCG(9, 9))
	var promised []string
	for range rounds {
		promised = append(promised, killOne(t, exe, dir, r.IntN(8<<20))...)
	}
	if len(promised) < rounds/4 {
		t.Fatalf("only %d contents were kept in %d rounds", len(promised), rounds)
	}
	s := openShop(t, dir, Options{})
	s.later(2 * time.Hour) // past the grace
	if _, err := s.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, p := range promised {
		id, digest, _ := strings.Cut(p, " ")
		sum := sha256.Sum256([]byte(s.content(t, id)))
		if hex.EncodeToString(sum[:]) != digest {
			t.Fatalf("%s is not what was kept", id)
		}
	}
	list, err := s.List(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	digests := map[string]bool{}
	for _, a := range list {
		digests[a.Digest] = true
		if c := s.content(t, a.ID); int64(len(c)) != a.Size || strings.Count(c, "\n") != 200 {
			t.Fatalf("%s: %d bytes are readable of %d", a.ID, len(c), a.Size)
		}
	}
	if files := s.files(t, "files"); len(files) != len(digests) {
		t.Errorf("%d files for %d contents", len(files), len(digests))
	}
	if left := s.files(t, "writing"); len(left) != 0 {
		t.Errorf("half files are left: %v", left)
	}
}

// killOne runs the program, kills it after its first sign of life and as long as
// it takes to sum up so many bytes, and returns what it said was kept.
func killOne(t *testing.T, exe, dir string, work int) []string {
	t.Helper()
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "ARTIFACTS_CRASH_DIR="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var first [1]byte
	n, err := io.ReadFull(out, first[:])
	if err != nil {
		t.Fatalf("the program said nothing: %v", err)
	}
	sha256.Sum256(make([]byte, work))
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(out) // ends with the process
	_ = cmd.Wait()             // it was killed
	lines := strings.Split(string(first[:n])+string(rest), "\n")
	return lines[:len(lines)-1] // the last may be cut
}
