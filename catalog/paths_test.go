package catalog

import (
	"slices"
	"testing"
)

func TestLocalPaths(t *testing.T) {
	for args, want := range map[string][]string{ // nil: they cannot all be told
		`{"path":"/r/a","content":"x"}`: {"/r/a"}, `{"paths":["/r/a","b"]}`: {"/r/a", "b"}, `{"n":1}`: {}, ``: {}, ` {"sourceFile": "a"} `: {"a"},
		// whatever the schema says of them
		`{"path":"/r/a","files":[{"path":"/o"},{"path":"b"}]}`: {"/r/a", "/o", "b"}, `{"dest_path":"/o","target":null,"file":true}`: {"/o"},
		`{"file":{"name":"x","path":"p"}}`: {"p"}, `{"files":[["a"]]}`: {"a"},
		// by their form
		`{"path":"a","to":"/o/x","out":["../o"],"name":"b/../../o"}`:                                                                                {"a", "/o/x", "../o", "b/../../o"},
		`{"path":"a","content":"/o\nb","old":"// as it was","new":"/* as it is */","at":"~5 minutes","by":"and/or","c":"/"}`:                        {"a"},
		`{"path":"a","doc":"notes.md","as":"src/new.test.ts","v":"1.25","mail":"me@example.com","at":"https://example.com/a.md","text":"see a.md"}`: {"a", "notes.md", "src/new.test.ts"},
		`{"path":"a","set":"x=y.z","dots":"...","end":"so.","code":"a.b()"}`:                                                                        {"a"},
		// cannot be followed
		`{"path":"a","to":"~/x"}`: nil, `{"path":"~me/x"}`: nil, `{"path":"a","uri":"FILE:///o"}`: nil, `{"path":5}`: nil, `{"path":"a","to":"\\\\host\\x"}`: nil,
		`{"path":"~me"}`: nil, `{"path":"a","dest":{"$artifact":{"id":"a_x"}}}`: nil, `{"files":{"src/x.js":"..."}}`: nil, `{"files":{"/o/path":"b"}}`: nil, `{"path":`: nil,
	} {
		got, ok := LocalPaths([]byte(args))
		if ok != (want != nil) || ok && !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", args, got, ok, want)
		}
	}
}
