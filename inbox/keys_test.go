package inbox_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/mcp-gate/mcp-gate/inbox"
)

// testDir lives as long as the test binary.
var testDir string

func TestMain(m *testing.M) {
	var err error
	if testDir, err = os.MkdirTemp("", "inbox-test"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(testDir)
	os.Exit(code)
}

// plainKey signs without a passphrase, as an authenticator would.
type plainKey struct{ private ed25519.PrivateKey }

func newPlainKey() plainKey {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	return plainKey{private}
}

func (k plainKey) KeyID() string                 { return k.entry().Key }
func (k plainKey) Sign(m []byte) ([]byte, error) { return ed25519.Sign(k.private, m), nil }
func (k plainKey) entry() inbox.Approver {
	public := k.private.Public().(ed25519.PublicKey)
	return inbox.Approver{Key: inbox.KeyID(public), Kind: inbox.KeyPassphrase, Public: public, Label: "key", Created: noon}
}

func openRing(t *testing.T, dir string) *inbox.Ring {
	t.Helper()
	gate, err := inbox.LoadGateKey(dir, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r, err := inbox.OpenRing(dir, gate, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestASecondKeyNeedsTheFirst(t *testing.T) {
	dir := t.TempDir()
	first, second, third := newPlainKey(), newPlainKey(), newPlainKey()
	r := openRing(t, dir)
	if r.Reach() != inbox.L0 {
		t.Errorf("reach without a key is %v", r.Reach())
	}
	if err := r.Enroll(first.entry(), first, noon); err != nil {
		t.Fatal(err)
	}
	if err := r.Enroll(second.entry(), second, noon); err == nil {
		t.Error("a ring that is behind added a second first key")
	}
	r = openRing(t, dir)
	var need *inbox.NeedsKeyError
	if err := r.Enroll(second.entry(), second, noon); !errors.As(err, &need) || r.Reach() != inbox.L1 {
		t.Errorf("a second key signed for itself: %v, reach %v", err, r.Reach())
	}
	if err := r.Enroll(second.entry(), first, noon); err != nil {
		t.Fatal(err)
	}
	r = openRing(t, dir)
	if err := r.Remove(first.KeyID(), third, noon); err == nil {
		t.Error("a stranger removed a key")
	}
	if err := r.Remove(first.KeyID(), second, noon); err != nil {
		t.Fatal(err)
	}
	r = openRing(t, dir)
	if got := r.Approvers(); len(got) != 1 || got[0].Key != second.KeyID() {
		t.Errorf("enrolled are %+v", got)
	}
	if err := r.Enroll(third.entry(), first, noon); err == nil {
		t.Error("a removed key enrolled another")
	}
}

func TestAForgedListOfApproversCountsForNothing(t *testing.T) {
	dir := t.TempDir()
	first, intruder := newPlainKey(), newPlainKey()
	if err := openRing(t, dir).Enroll(first.entry(), first, noon); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	if err := openRing(t, other).Enroll(intruder.entry(), intruder, noon); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "approvers.jsonl")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	forged, err := os.ReadFile(filepath.Join(other, "approvers.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	gate, err := inbox.LoadGateKey(dir, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"a line added":    append(bytes.Clone(good), forged...),
		"a line before":   append(bytes.Clone(forged), good...),
		"cut short":       good[:len(good)-1],
		"another key":     bytes.Replace(good, []byte(first.KeyID()), []byte(intruder.KeyID()), 1),
		"a byte changed":  bytes.Replace(good, []byte(`"label":"key"`), []byte(`"label":"kez"`), 1),
		"an unknown word": bytes.Replace(good, []byte("passphrase"), []byte("gate"), 1),
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := inbox.OpenRing(dir, gate, false, nil); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if runtime.GOOS != "windows" {
		if err := errors.Join(os.WriteFile(path, good, 0o600), os.Chmod(path, 0o644)); err != nil {
			t.Fatal(err)
		}
		if _, err := inbox.OpenRing(dir, gate, false, nil); err == nil {
			t.Error("a list that others can read was read")
		}
	}
}

func TestAPassphraseOpensItsKeyOnly(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := inbox.NewApproverKey(dir, "x", []byte("short"), rand.Reader, noon); err == nil {
		t.Error("a short passphrase was taken")
	}
	key, entry, err := inbox.NewApproverKey(dir, "laptop", []byte("correct horse"), rand.Reader, noon)
	if err != nil {
		t.Fatal(err)
	}
	if err := openRing(t, dir).Enroll(entry, key, noon); err != nil {
		t.Fatal(err)
	}
	r := openRing(t, dir)
	if _, err := r.Unlock(entry.Key, []byte("correct house")); !errors.Is(err, inbox.ErrPassphrase) {
		t.Errorf("a wrong passphrase: %v", err)
	}
	opened, err := r.Unlock(entry.Key, []byte("correct horse"))
	if err != nil {
		t.Fatal(err)
	}
	if opened.KeyID() != entry.Key {
		t.Errorf("opened %s, want %s", opened.KeyID(), entry.Key)
	}
	opened.Forget()
	if _, err := opened.Sign([]byte("x")); err == nil || opened.KeyID() != entry.Key {
		t.Error("a forgotten key signs")
	}
	path := filepath.Join(dir, entry.Key+".key")
	sealed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("key file: %v, %v", info.Mode(), err)
	}
	for name, edit := range map[string][2]string{
		"less memory":      {`"memory":65536`, `"memory":8192`},
		"all memory":       {`"memory":65536`, `"memory":4294967295`},
		"another label":    {"laptop", "desktop"},
		"an unknown field": {`{"version"`, `{"x":1,"version"`},
	} {
		if err := os.WriteFile(path, bytes.Replace(sealed, []byte(edit[0]), []byte(edit[1]), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Unlock(entry.Key, []byte("correct horse")); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
}

func TestGatesThatStartAtOnceAgreeOnTheirKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	ids := make([]string, 16)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			k, err := inbox.LoadGateKey(dir, rand.Reader)
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = k.KeyID()
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("keys %v", ids)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestLaunchIsKeyed(t *testing.T) {
	a, errA := inbox.LoadGateKey(t.TempDir(), rand.Reader)
	b, errB := inbox.LoadGateKey(t.TempDir(), rand.Reader)
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	if a.Launch("npx", "x") == a.Launch("npxx", "") ||
		a.Launch("npx", "x") == b.Launch("npx", "x") || a.Launch("a", "b") == a.Launch("ab") {
		t.Error("launch digests")
	}
}

func TestAFollowingRingSeesLaterEnrolments(t *testing.T) {
	dir := t.TempDir()
	gate, err := inbox.LoadGateKey(dir, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ring, err := inbox.OpenRing(dir, gate, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	live := ring.Follow()
	if got := live.Reach(); got != inbox.L0 {
		t.Fatalf("without a key the reach is %v", got)
	}
	key, approver, err := inbox.NewApproverKey(dir, "me", []byte("a good passphrase"), rand.Reader, time.Unix(1_800_000_000, 0))
	if err != nil {
		t.Fatal(err)
	}
	if err := ring.Enroll(approver, key, time.Unix(1_800_000_000, 0)); err != nil {
		t.Fatal(err)
	}
	if got := live.Reach(); got != inbox.L1 || len(live.Approvers()) != 1 {
		t.Errorf("after an enrolment the reach is %v", got)
	}
	if got := ring.Reach(); got != inbox.L0 {
		t.Errorf("the ring that was read before reaches %v", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "approvers.jsonl"), []byte("broken\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := live.Reach(); got != inbox.L0 {
		t.Errorf("a broken list reaches %v", got)
	}
}

// What a command that was killed while it wrote leaves behind keeps nobody from
// enrolling a key, and of two that do it at once one is told so.
func TestAKilledCommandLocksNobodyOut(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "approvers.jsonl.lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	keys := []plainKey{newPlainKey(), newPlainKey()}
	errs := make([]error, len(keys))
	var wg sync.WaitGroup
	for i, k := range keys {
		r := openRing(t, dir)
		wg.Go(func() { errs[i] = r.Enroll(k.entry(), k, noon) })
	}
	wg.Wait()
	if (errs[0] == nil) == (errs[1] == nil) {
		t.Errorf("got %v and %v, want one key enrolled", errs[0], errs[1])
	}
	if got := openRing(t, dir).Reach(); got == inbox.L0 {
		t.Errorf("reach is %v", got)
	}
}
