package jsonschema

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ours are the files that the library does not have as they are here.
var ours = []string{"compiler.go", "draft.go", "doc.go"}

// The copy is the library that go.mod names: where that one is renewed, so is
// this, by copying it anew and making the change of doc.go again.
func TestTheRestIsTheLibrary(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/santhosh-tekuri/jsonschema/v6").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	library := strings.TrimSpace(string(out))
	compared := 0
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") || slices.Contains(ours, path) {
			return err
		}
		here, err := os.ReadFile(path)
		there, err2 := os.ReadFile(filepath.Join(library, path))
		if !bytes.Equal(here, there) {
			t.Errorf("%s is not what the library has: copy it from %s", path, library)
		}
		compared++
		return errors.Join(err, err2)
	})
	if err != nil || compared < 30 {
		t.Fatalf("%d files compared: %v", compared, err)
	}
}

func TestNothingIsCompiledWhenAProgramBegins(t *testing.T) {
	if Draft4.sch != nil || Draft2020.sch != nil {
		t.Fatal("the schemas of schemas are there before anybody asked for a compiler")
	}
	NewCompiler()
	for _, d := range []*Draft{Draft4, Draft6, Draft7, Draft2019, Draft2020} {
		if d.sch == nil {
			t.Errorf("%v is not compiled", d)
		}
		for name, s := range d.allVocabs {
			if s == nil {
				t.Errorf("%v: %s is not compiled", d, name)
			}
		}
	}
}
