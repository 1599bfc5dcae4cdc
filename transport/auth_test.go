package transport

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-gate/mcp-gate/policy"
)

func openTokens(t *testing.T, path string) *TokenFile {
	t.Helper()
	f, err := OpenTokenFile(path, nil, func() time.Time { return time.Unix(1_800_000_000, 5) }, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestTokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys", "tokens.json")
	f := openTokens(t, path)
	first, err := f.First("local", policy.ScopeAdmin)
	if err != nil || !strings.HasPrefix(first, "mg_") || len(first) != 46 {
		t.Fatalf("First = %q, %v", first, err)
	}
	if again, err := f.First("local", policy.ScopeAdmin); again != "" || err != nil {
		t.Errorf("second First = %q, %v", again, err)
	}
	second, id, err := f.Add(Token{Principal: "ci", Scope: policy.ScopeRead, Profiles: []string{"build"}, Parent: "s_1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.Add(Token{Scope: policy.ScopeRead}); err == nil {
		t.Error("a token without a principal was minted")
	}

	other := openTokens(t, path) // another process
	who, profiles, ok := other.Lookup(second)
	if !ok || who.Principal != "ci" || who.Scope != policy.ScopeRead || who.Parent != "s_1" || !slices.Equal(profiles, []string{"build"}) {
		t.Errorf("Lookup = %+v %v %v", who, profiles, ok)
	}
	if who, profiles, ok := other.Lookup(first); !ok || who.Scope != policy.ScopeAdmin || !slices.Equal(profiles, []string{"*"}) {
		t.Errorf("Lookup of the first = %+v %v %v", who, profiles, ok)
	}
	for _, wrong := range []string{"", "mg_", first + "x", first[:45]} {
		if _, _, ok := other.Lookup(wrong); ok {
			t.Errorf("%q is known", wrong)
		}
	}

	b, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(b), first[3:]) || strings.Contains(string(b), second[3:]) {
		t.Errorf("the file holds a plain token: %v\n%s", err, b)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}

	if err := f.Remove(id); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := other.Lookup(second); ok {
		t.Error("a removed token is still known to another process")
	}
	var unknown *UnknownTokenError
	if err := f.Remove(id); !errors.As(err, &unknown) || unknown.ID != id {
		t.Errorf("Remove twice: %v", err)
	}
	list, err := other.List()
	if err != nil || len(list) != 1 || list[0].Principal != "local" || list[0].Created.Unix() != 1_800_000_000 {
		t.Errorf("List = %+v, %v", list, err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".tokens-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestChangesOfProcessesAreAllKept has each of several processes add tokens and
// revoke every other one of its own.
func TestChangesOfProcessesAreAllKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	const processes, tokens = 4, 10
	var want sync.Map
	var wg sync.WaitGroup
	for range processes {
		f := openTokens(t, path)
		wg.Go(func() {
			for n := range tokens {
				_, id, err := f.Add(Token{Principal: "ci", Scope: policy.ScopeRead})
				if err == nil && n%2 == 1 {
					err = f.Remove(id)
				} else {
					want.Store(id, true)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	all, err := openTokens(t, path).List()
	if err != nil || len(all) != processes*tokens/2 {
		t.Errorf("%d tokens are left, want %d: %v", len(all), processes*tokens/2, err)
	}
	for _, token := range all {
		if _, ok := want.Load(token.ID); !ok {
			t.Errorf("token %s was revoked and is there", token.ID)
		}
	}
}

func TestTokenFileThatCannotBeTrusted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	f := openTokens(t, path)
	token, err := f.First("local", policy.ScopeAdmin)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" {
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		var loose *LooseFileError
		if _, err := f.List(); !errors.As(err, &loose) {
			t.Errorf("a file open to others: %v", err)
		}
		if _, _, ok := f.Lookup(token); ok {
			t.Error("a token of a file open to others is known")
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, ok := f.Lookup(token); !ok {
		t.Error("the token is not known any more")
	}
	if err := os.WriteFile(path, []byte(`{"tokens":[{"scope":"emperor"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := f.Lookup(token); ok {
		t.Error("a token of a broken file is known")
	}
	if _, _, err := f.Add(Token{Principal: "x", Scope: policy.ScopeRead}); err == nil {
		t.Error("a broken file was overwritten")
	}
	if _, err := OpenTokenFile(path, nil, nil, nil); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("OpenTokenFile: %v", err)
	}
}
