package catalog

import (
	"bytes"
	"os"
	"reflect"
	"testing"
)

// A pack gives back what was packed, which is what the definition's own bytes
// would give.
func TestAPackSaysWhatTheDefinitionsSay(t *testing.T) {
	var tools []Tool
	for _, raw := range []string{
		toolA, toolB, `{"name":"bare"}`, `{"name":"no schema","inputSchema":null,"description":""}`,
		`{"inputSchema":{"properties":{"z":{},"a":{},"":{}}},"name":"x/\u00e9\n","title":"T","description":"D {\"properties\":{}}",
		"annotations":{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":"yes","title":"other"}}`,
		`{"name":"hints","annotations":{"title":"T","openWorldHint":true,"readOnlyHint":true}}`,
	} {
		tool, err := NewTool("git-hub", []byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		tools = append(tools, tool)
	}
	content := packed(tools)
	got, err := unpack("git-hub", content)
	if err != nil || len(got) != len(tools) {
		t.Fatalf("%d tools, %v", len(got), err)
	}
	for _, want := range tools {
		have := got[want.ID.Tool]
		if (have.Listable() == nil) != (want.Listable() == nil) {
			t.Errorf("%s: listable: %v, want %v", want.ID, have.Listable(), want.Listable())
		}
		have.unlisted = nil
		if !reflect.DeepEqual(have, want) {
			t.Errorf("got %+v, want %+v", have, want)
		}
	}
	for i := range content {
		altered := bytes.Clone(content)
		altered[i] ^= 1
		if _, err := unpack("git-hub", altered); err == nil {
			t.Fatalf("byte %d may be another", i)
		}
		if _, err := unpack("git-hub", content[:i]); err == nil {
			t.Fatalf("it may end at byte %d", i)
		}
	}
}

// What a crash can leave of the definitions' own files costs nothing, and what
// it can leave of a pack neither.
func TestAPackAndTheFilesStandInForEachOther(t *testing.T) {
	d, _ := newLedger(t)
	o := offer(t, toolA, toolB)
	take(t, d, o)
	want := entries(t, d, o)
	a := o.Tools[0].Tool
	for name, damage := range map[string]func() error{
		"the file is empty": func() error { return os.WriteFile(d.file(a.Digest), nil, 0o600) },
		"the file is gone":  func() error { return os.Remove(d.file(a.Digest)) },
		"the pack is empty": func() error { return os.WriteFile(d.packFile("git-hub"), nil, 0o600) },
		"the pack is of something else": func() error {
			return d.writePack("git-hub", []Tool{{ID: a.ID, Digest: a.Digest, Raw: []byte(toolA2)}})
		},
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		l, err := d.Load()
		if err != nil {
			t.Fatal(err)
		}
		shown, err := d.Shown(l, o, nil)
		if err != nil || len(shown) != 2 || string(shown[0].Raw) != toolA {
			t.Errorf("%s: shown are %v, %v", name, shown, err)
		}
		if got, err := d.Definition(a.ID, a.Digest); err != nil || string(got.Raw) != toolA {
			t.Errorf("%s: the definition is %s, %v", name, got.Raw, err)
		}
		for _, file := range []string{d.file(a.Digest), d.packFile("git-hub")} { // all is well again
			if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
		take(t, d, o)
		if got := entries(t, d, o); got != want {
			t.Errorf("%s, brought back: got\n%s\nwant\n%s", name, got, want)
		}
	}
}

// What one pack holds of a server stays there when another tool is accepted.
func TestAPackHoldsAllOfAServer(t *testing.T) {
	d, _ := newLedger(t)
	take(t, d, offer(t, toolA, toolB))
	more := offer(t, toolA, toolB, toolC)
	take(t, d, more)
	if _, err := d.Accept(more, Pick{"c", more.Tools[2].Tool.Digest}); err != nil {
		t.Fatal(err)
	}
	if pack := d.pack("git-hub"); len(pack) != 3 || pack["a"].Digest != more.Tools[0].Tool.Digest {
		t.Errorf("packed are %v", pack)
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(packed(nil))
	f.Fuzz(func(t *testing.T, body []byte) {
		u := unpacker{heads: string(body), raws: body}
		for range 100 {
			if u.tool("x"); u.bad {
				return
			}
		}
	})
}
