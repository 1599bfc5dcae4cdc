package checkpoint

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// A ground is a root with a few files, and a keeper over it.
type ground struct {
	t    *testing.T
	root string
	out  string // a directory outside the root
	k    *Keeper
}

func newGround(t *testing.T) *ground {
	t.Helper()
	base := t.TempDir()
	g := &ground{t: t, root: filepath.Join(base, "project"), out: filepath.Join(base, "outside")}
	for _, dir := range []string{filepath.Join(g.root, "src"), g.out} {
		g.must(os.MkdirAll(dir, 0o755))
	}
	g.write("src/a.txt", "one\ntwo\n")
	g.must(os.WriteFile(filepath.Join(g.out, "secret"), []byte("secret\n"), 0o600))
	var err error
	g.k, err = Open(filepath.Join(base, "checkpoints"), []string{g.root})
	g.must(err)
	return g
}

func (g *ground) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

func (g *ground) path(rel string) string { return filepath.Join(g.root, filepath.FromSlash(rel)) }

func (g *ground) write(rel, content string) {
	g.t.Helper()
	g.must(os.MkdirAll(filepath.Dir(g.path(rel)), 0o755))
	g.must(os.WriteFile(g.path(rel), []byte(content), 0o644))
}

func (g *ground) is(rel, want string) {
	g.t.Helper()
	if got, err := os.ReadFile(g.path(rel)); err != nil || string(got) != want {
		g.t.Errorf("%s holds %q, %v, want %q", rel, got, err, want)
	}
}

func (g *ground) absent(rel string) {
	g.t.Helper()
	if _, err := os.Lstat(g.path(rel)); !errors.Is(err, fs.ErrNotExist) {
		g.t.Errorf("%s is there: %v", rel, err)
	}
}

// untouched fails the test when anything outside the root changed.
func (g *ground) untouched() {
	g.t.Helper()
	entries, err := os.ReadDir(g.out)
	if err != nil || len(entries) != 1 {
		g.t.Errorf("outside holds %v, %v", entries, err)
	}
	if b, err := os.ReadFile(filepath.Join(g.out, "secret")); err != nil || string(b) != "secret\n" {
		g.t.Errorf("the file outside holds %q, %v", b, err)
	}
}

// clean fails the test when a restore left files of its own behind.
func (g *ground) clean() {
	g.t.Helper()
	g.must(filepath.WalkDir(g.root, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(path), ".mcp-gate-") {
			g.t.Errorf("left behind: %s", path)
		}
		return err
	}))
}

// around takes a checkpoint of the files, lets call run, and seals it.
func (g *ground) around(call func(), rels ...string) (Copy, []Change) {
	g.t.Helper()
	paths := make([]string, len(rels))
	for i, rel := range rels {
		paths[i] = g.path(rel)
	}
	c, err := g.k.Take(paths)
	g.must(err)
	call()
	c, changes, err := g.k.Seal(c)
	g.must(err)
	return c, changes
}

func drift(err error) *DriftError {
	var d *DriftError
	errors.As(err, &d)
	return d
}

func TestBytesModeAndAbsenceComeBack(t *testing.T) {
	g := newGround(t)
	g.write("src/gone.txt", "was here\n")
	g.must(os.Chmod(g.path("src/a.txt"), 0o640))
	c, changes := g.around(func() {
		g.write("src/a.txt", "one\nTWO\nthree\n")
		g.must(os.Chmod(g.path("src/a.txt"), 0o755))
		g.must(os.Remove(g.path("src/gone.txt")))
		g.write("new/deep/b.txt", "b")
	}, "src/a.txt", "src/gone.txt", "new/deep/b.txt", "src/a.txt")
	if len(c.Files) != 3 || len(changes) != 3 {
		t.Fatalf("%d files, %d changes", len(c.Files), len(changes))
	}
	want := "--- src/a.txt\n+++ src/a.txt\n@@ -1,2 +1,3 @@\n one\n-two\n+TWO\n+three\n"
	if changes[0].Diff != want {
		t.Errorf("diff %q, want %q", changes[0].Diff, want)
	}
	if want := "--- /dev/null\n+++ new/deep/b.txt\n@@ -0,0 +1 @@\n+b\n\\ No newline at end of file\n"; runtime.GOOS != "windows" && changes[2].Diff != want {
		t.Errorf("diff %q, want %q", changes[2].Diff, want)
	}
	restored, err := g.k.Restore(c)
	if err != nil || len(restored) != 3 {
		t.Fatalf("restored %v, %v", restored, err)
	}
	g.is("src/a.txt", "one\ntwo\n")
	g.is("src/gone.txt", "was here\n")
	g.absent("new")
	if info, err := os.Stat(g.path("src/a.txt")); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	// A second time there is nothing to do, and that is no error.
	if restored, err := g.k.Restore(c); err != nil || len(restored) != 0 {
		t.Errorf("restored again %v, %v", restored, err)
	}
	g.clean()
}

func TestDriftIsRefusedAndNothingTouched(t *testing.T) {
	for name, edit := range map[string]func(g *ground){
		"somebody edited it":     func(g *ground) { g.write("src/a.txt", "edited\n") },
		"somebody removed it":    func(g *ground) { g.must(os.Remove(g.path("src/a.txt"))) },
		"another mode":           func(g *ground) { g.must(os.Chmod(g.path("src/a.txt"), 0o600)) },
		"a link in its place":    func(g *ground) { g.link("src/a.txt", filepath.Join(g.out, "secret")) },
		"a directory instead":    func(g *ground) { g.must(os.Remove(g.path("src/a.txt"))); g.must(os.Mkdir(g.path("src/a.txt"), 0o755)) },
		"its new file came back": func(g *ground) { g.write("src/was.txt", "back\n") },
	} {
		g := newGround(t)
		g.write("src/was.txt", "x\n")
		g.write("src/z.txt", "x\n")
		c, _ := g.around(func() {
			g.write("src/z.txt", "changed\n")
			g.write("src/a.txt", "changed\n")
			g.must(os.Remove(g.path("src/was.txt")))
		}, "src/z.txt", "src/a.txt", "src/was.txt")
		edit(g)
		restored, err := g.k.Restore(c)
		if drift(err) == nil || len(restored) != 0 {
			t.Errorf("%s: restored %v, %v", name, restored, err)
		}
		g.is("src/z.txt", "changed\n")
		g.untouched()
		g.clean()
	}
}

// A directory that the call made goes again while it is empty, and stays with
// all that is in it where it is not.
func TestADirectoryThatTheCallMadeIsTakenBack(t *testing.T) {
	made := func() (*ground, Copy) {
		g := newGround(t)
		c, changes := g.around(func() { g.must(os.MkdirAll(g.path("new/deep"), 0o755)) }, "new/deep")
		if len(changes) != 1 || changes[0].Diff != "now: a directory\n" {
			t.Errorf("changes %+v", changes)
		}
		return g, c
	}
	g, c := made()
	for _, want := range []int{1, 0} {
		if restored, err := g.k.Restore(c); err != nil || len(restored) != want {
			t.Fatalf("restored %v, %v", restored, err)
		}
		g.absent("new")
		g.clean()
	}
	for name, edit := range map[string]func(g *ground){
		"a file in it":        func(g *ground) { g.write("new/deep/mine.txt", "mine\n") },
		"a file in its place": func(g *ground) { g.must(os.Remove(g.path("new/deep"))); g.write("new/deep", "mine\n") },
		"a link in its place": func(g *ground) { g.link("new/deep", g.out) },
		"a file in it while it is taken out": func(g *ground) {
			g.k.step = func(point string) {
				if point == "aside" {
					g.write("new/"+asideOf(c.Files[0])+"/mine.txt", "mine\n")
				}
			}
		},
	} {
		g, c := made()
		edit(g)
		if restored, err := g.k.Restore(c); err == nil || len(restored) != 0 {
			t.Errorf("%s: restored %v, %v", name, restored, err)
		}
		if _, err := os.Lstat(g.path("new/deep")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		g.untouched()
		g.clean()
	}
}

func (g *ground) link(rel, target string) {
	g.t.Helper()
	if err := os.Remove(g.path(rel)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		g.t.Fatal(err)
	}
	g.must(os.Symlink(target, g.path(rel)))
}

func TestWhatCannotBeCopiedIsRefused(t *testing.T) {
	g := newGround(t)
	g.link("link.txt", g.path("src/a.txt"))
	g.link("linked", g.path("src"))
	g.link("out", g.out)
	g.must(os.Link(g.path("src/a.txt"), g.path("hard.txt")))
	g.write("plain.txt", "x")
	if runtime.GOOS != "windows" {
		g.must(mkfifo(g.path("pipe")))
	}
	f, err := os.Create(g.path("large"))
	g.must(err)
	g.must(errors.Join(f.Truncate(MaxFile+1), f.Close()))
	for name, path := range map[string]string{
		"a symbolic link":          g.path("link.txt"),
		"through a link":           g.path("linked/a.txt"),
		"through a link, outside":  g.path("out/secret"),
		"a new file behind a link": g.path("out/new"),
		"a hard link":              g.path("hard.txt"),
		"a pipe":                   g.path("pipe"),
		"a directory":              g.path("src"),
		"too large":                g.path("large"),
		"outside":                  filepath.Join(g.out, "secret"),
		"outside by dots":          g.root + "/src/../../outside/secret",
		"the root itself":          g.root,
		"a sibling by prefix":      g.root + "x/a",
		"a relative path":          "src/a.txt",
		"a file as a directory":    g.path("plain.txt/x"),
		"a zero byte":              g.path("a\x00b"),
	} {
		if runtime.GOOS == "windows" && name == "a pipe" {
			continue
		}
		var refused *RefusedError
		if c, err := g.k.Take([]string{path}); !errors.As(err, &refused) {
			t.Errorf("%s: took %+v, %v", name, c, err)
		}
	}
	many := make([]string, MaxFiles+1)
	if _, err := g.k.Take(many); err == nil {
		t.Error("took too many")
	}
}

// Somebody swaps names at every point at which they could.
func TestSwapsAreNoticedAtEveryStep(t *testing.T) {
	swaps := map[string]func(g *ground){
		"file -> link outside": func(g *ground) { g.link("src/a.txt", filepath.Join(g.out, "secret")) },
		"file -> other file": func(g *ground) {
			g.write("src/other", "other\n")
			g.must(os.Rename(g.path("src/other"), g.path("src/a.txt")))
		},
		"dir -> link outside": func(g *ground) {
			g.must(os.Rename(g.path("src"), g.path("moved")))
			g.must(os.Symlink(g.out, g.path("src")))
			g.must(os.WriteFile(filepath.Join(g.out, "a.txt"), []byte("outside\n"), 0o644))
		},
		"dir -> link inside": func(g *ground) {
			g.must(os.Rename(g.path("src"), g.path("moved")))
			g.must(os.Symlink("moved", g.path("src")))
		},
	}
	for name, swap := range swaps {
		for _, point := range []string{"directory", "file", "compared", "aside", "taken out"} {
			for _, phase := range []string{"take", "restore"} {
				t.Run(name+" at "+point+" of "+phase, func(t *testing.T) { swapAt(t, swap, point, phase) })
			}
		}
	}
}

func swapAt(t *testing.T, swap func(*ground), point, phase string) {
	g := newGround(t)
	once := false
	arm := func() {
		g.k.step = func(at string) {
			if at == point && !once {
				once = true
				swap(g)
			}
		}
	}
	if phase == "take" {
		arm()
	}
	c, err := g.k.Take([]string{g.path("src/a.txt")})
	if phase == "take" {
		// What was copied is the file that had the name at one moment, in the
		// directory that had its name then: never the one a link leads to.
		if err == nil && c.Files[0].Before.SHA256 != hash([]byte("one\ntwo\n")) && c.Files[0].Before.SHA256 != hash([]byte("other\n")) {
			t.Errorf("took %+v through a swap", c)
		}
		g.outsideIsWhole()
		return
	}
	g.must(err)
	g.write("src/a.txt", "changed\n")
	c, _, err = g.k.Seal(c)
	g.must(err)
	arm()
	restored, err := g.k.Restore(c)
	g.outsideIsWhole()
	if once && err == nil {
		// Allowed only where the restore was done with the names that were swapped.
		b, readErr := os.ReadFile(filepath.Join(g.root, "moved", "a.txt"))
		if readErr != nil || string(b) != "one\ntwo\n" {
			t.Errorf("restored %v through a swap; the moved file is %q, %v", restored, b, readErr)
		}
	}
}

// outsideIsWhole fails the test when the keeper wrote outside the root.
func (g *ground) outsideIsWhole() {
	g.t.Helper()
	for name, want := range map[string]string{"secret": "secret\n", "a.txt": "outside\n"} {
		b, err := os.ReadFile(filepath.Join(g.out, name))
		if err == nil && string(b) != want || err != nil && !(errors.Is(err, fs.ErrNotExist) && name == "a.txt") {
			g.t.Errorf("outside/%s holds %q, %v", name, b, err)
		}
	}
	entries, err := os.ReadDir(g.out)
	if err != nil || len(entries) > 2 {
		g.t.Errorf("outside holds %v, %v", entries, err)
	}
}

// An edit that is made between the comparison and the restore is kept.
func TestAnEditInTheGapIsPutBack(t *testing.T) {
	g := newGround(t)
	c, _ := g.around(func() { g.write("src/a.txt", "changed\n") }, "src/a.txt")
	g.k.step = func(at string) {
		if at == "compared" {
			g.write("src/a.txt", "edited in the gap\n")
		}
	}
	if _, err := g.k.Restore(c); drift(err) == nil || drift(err).Aside != "" {
		t.Errorf("restored over an edit: %v", err)
	}
	g.is("src/a.txt", "edited in the gap\n")
	g.clean()

	// Somebody makes a new file while the old one is out of its place.
	g = newGround(t)
	c, _ = g.around(func() { g.write("src/a.txt", "changed\n") }, "src/a.txt")
	g.k.step = func(at string) {
		if at == "taken out" {
			g.write("src/a.txt", "new in the gap\n")
		}
	}
	_, err := g.k.Restore(c)
	if drift(err) == nil || drift(err).Aside == "" {
		t.Fatalf("restored over a new file: %v", err)
	}
	g.is("src/a.txt", "new in the gap\n")
	g.is("src/"+drift(err).Aside, "changed\n")
}

func TestAnInterruptedRestoreCanBeRepeated(t *testing.T) {
	g := newGround(t)
	c, _ := g.around(func() { g.write("src/a.txt", "changed\n") }, "src/a.txt")
	for _, point := range []string{"compared", "aside", "taken out"} {
		g.k.step = func(at string) {
			if at == point {
				panic("killed")
			}
		}
		func() {
			defer func() { _ = recover() }()
			_, _ = g.k.Restore(c)
		}()
	}
	g.k.step = func(string) {}
	if _, err := g.k.Restore(c); err != nil {
		t.Fatal(err)
	}
	g.is("src/a.txt", "one\ntwo\n")
	g.clean()
}

func TestADamagedCopyIsNotRestored(t *testing.T) {
	g := newGround(t)
	c, _ := g.around(func() { g.write("src/a.txt", "changed\n") }, "src/a.txt")
	g.must(os.WriteFile(filepath.Join(g.k.blobs, c.Files[0].Before.SHA256), []byte("x"), 0o600))
	if _, err := g.k.Restore(c); err == nil {
		t.Error("restored a damaged copy")
	}
	c.Files[0].Before.SHA256 = "../../outside/secret"
	if _, err := g.k.Restore(c); err == nil {
		t.Error("restored a copy by a path")
	}
	g.is("src/a.txt", "changed\n")
}

func TestCopiesArePrivateAndSwept(t *testing.T) {
	g := newGround(t)
	c, _ := g.around(func() {}, "src/a.txt")
	path := filepath.Join(g.k.blobs, c.Files[0].Before.SHA256)
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("copy: %v, %v", info.Mode(), err)
	}
	later := time.Now().Add(time.Hour)
	g.must(g.k.Sweep(later, func(sum string) bool { return sum == c.Files[0].Before.SHA256 }))
	if _, err := os.Stat(path); err != nil {
		t.Error("a copy that is wanted was swept")
	}
	g.must(g.k.Sweep(later, func(string) bool { return false }))
	if _, err := os.Stat(path); err == nil {
		t.Error("a copy that nobody wants was kept")
	}
}

func TestAnUnsealedCheckpointIsNotRestored(t *testing.T) {
	g := newGround(t)
	c, err := g.k.Take([]string{g.path("src/a.txt")})
	g.must(err)
	if _, err := g.k.Restore(c); err == nil {
		t.Error("restored what nobody sealed")
	}
}

func TestJournalSteps(t *testing.T) {
	legal := map[EntryState][]EntryState{EntryOpen: {EntryKept, EntryVoid}, EntryKept: {EntryUndone, EntryUndoing}, EntryUndoing: {EntryUndone, EntryKept}}
	for _, from := range entryStates.All() {
		for _, to := range entryStates.All() {
			e := Entry{State: from}
			if err := e.Step(to); (err == nil) != slices.Contains(legal[from], to) {
				t.Errorf("%v -> %v: %v", from, to, err)
			}
		}
	}
}

// A copy that is taken again is as good as new: the entry that names it comes
// after the sweep has read which are wanted.
func TestACopyThatIsTakenAgainIsNotSwept(t *testing.T) {
	g := newGround(t)
	c, _ := g.around(func() {}, "src/a.txt")
	path := filepath.Join(g.k.blobs, c.Files[0].Before.SHA256)
	old := time.Now().Add(-time.Hour)
	g.must(os.Chtimes(path, old, old))
	g.around(func() {}, "src/a.txt")
	g.must(g.k.Sweep(old.Add(time.Minute), func(string) bool { return false }))
	if _, err := os.Stat(path); err != nil {
		t.Error("a copy that was just taken was swept")
	}
}
