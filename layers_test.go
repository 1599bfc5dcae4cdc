package mcpgate_test

import (
	"encoding/json"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/mcp-gate/mcp-gate/"

// anyone may import these: they know nothing of the product.
var anyone = []string{"internal/enum", "internal/canonjson", "internal/strictjson", "internal/jsonrpc", "internal/ids", "internal/flock", "internal/durable", "internal/lazy", "internal/sieve", "internal/offheap"}

// layers says who may import whom, of ours and of others beyond the standard
// library. A row lists lower layers only, so no cycle is possible, and a
// third-party name stands on as few rows as can be: to replace a library is to
// rewrite its rows. See ARCHITECTURE.md.
var layers = []struct {
	pkg    string
	ours   []string
	theirs []string
}{
	{"internal/enum", nil, nil},
	{"internal/canonjson", nil, []string{"github.com/go-json-experiment/json"}},
	{"internal/strictjson", nil, []string{"github.com/go-json-experiment/json"}},
	{"internal/ids", nil, nil},
	{"internal/lazy", nil, nil},
	{"internal/sieve", nil, nil},
	{"internal/flock", nil, []string{"golang.org/x/sys"}},
	{"internal/durable", nil, nil},
	{"internal/offheap", nil, []string{"golang.org/x/sys"}},
	{"internal/jsonrpc", nil, []string{"github.com/go-json-experiment/json", "golang.org/x/sys"}},
	{"engagement", nil, []string{"github.com/go-json-experiment/json"}},
	{"audit", nil, nil},
	{"checkpoint", nil, nil},
	{"vault", nil, []string{"github.com/zalando/go-keyring", "golang.org/x/sys"}},
	{"signin", []string{"vault"}, []string{"golang.org/x/oauth2"}},
	{"reader", []string{"engagement"}, []string{"github.com/kljensen/snowball"}},
	{"catalog", []string{"engagement"}, []string{"github.com/santhosh-tekuri/jsonschema/v6", "github.com/kljensen/snowball"}},
	{"artifacts", []string{"engagement"}, []string{"github.com/go-json-experiment/json", "golang.org/x/image", "golang.org/x/sys", "golang.org/x/text", "github.com/jmespath-community/go-jmespath"}},
	{"policy", []string{"engagement", "catalog"}, nil},
	{"prefix", []string{"engagement", "catalog"}, []string{"github.com/cespare/xxhash/v2"}},
	{"inbox", []string{"engagement", "catalog"}, []string{"golang.org/x/crypto"}},
	{"upstream", []string{"catalog"}, []string{"github.com/mark3labs/mcp-go", "golang.org/x/sys"}},
	{"gate", []string{"engagement", "catalog", "policy", "prefix", "inbox", "artifacts", "checkpoint", "audit"}, nil},
	{"transport", []string{"engagement", "policy", "gate"}, []string{"github.com/mark3labs/mcp-go"}},
	{"store", []string{"engagement", "catalog", "inbox", "checkpoint", "gate"}, []string{"modernc.org/sqlite"}},
	{"clients", []string{"catalog"}, []string{"github.com/tailscale/hujson", "github.com/goccy/go-yaml", "github.com/pelletier/go-toml/v2"}},
	{"config", []string{"engagement", "catalog", "policy", "prefix", "upstream", "transport"}, []string{"github.com/goccy/go-yaml", "github.com/tailscale/hujson"}},
	{"internal/fakemcp", nil, nil},
	{"internal/sample", nil, []string{"github.com/mark3labs/mcp-go"}},
}

type listed struct {
	ImportPath string
	Doc        string
	Imports    []string
}

func packages(t *testing.T) map[string]listed {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Doc,Imports", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	all := map[string]listed{}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p listed
		if err := dec.Decode(&p); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimPrefix(p.ImportPath, module)] = p
	}
}

func TestNobodyKnowsTheLayersAboveIt(t *testing.T) {
	all := packages(t)
	for _, row := range layers {
		p, ok := all[row.pkg]
		if !ok {
			continue // not built yet
		}
		delete(all, row.pkg)
		for _, imported := range p.Imports {
			switch own, isOurs := strings.CutPrefix(imported, module); {
			case isOurs && !slices.Contains(row.ours, own) && !slices.Contains(anyone, own):
				t.Errorf("%s imports %s, which its row does not list", row.pkg, own)
			case !isOurs && strings.Contains(strings.Split(imported, "/")[0], ".") && !slices.ContainsFunc(row.theirs, func(m string) bool { return imported == m || strings.HasPrefix(imported, m+"/") }):
				t.Errorf("%s imports %s, which its row does not list", row.pkg, imported)
			}
		}
	}
	for name := range all {
		if !strings.HasPrefix(name, "cmd/") && !strings.HasPrefix(name, "bench") && !strings.HasPrefix(name, "e2e") && name != strings.TrimSuffix(module, "/") && !strings.Contains(name, "testdata") {
			t.Errorf("%s has no row in the table of layers", name)
		}
	}
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	for name, p := range packages(t) {
		if p.Doc == "" && name != strings.TrimSuffix(module, "/") {
			t.Errorf("%s has no package comment", name)
		}
	}
}
