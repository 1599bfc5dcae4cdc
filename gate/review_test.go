package gate

import (
	"path/filepath"
	"strings"
	"testing"
)

// One file of which no copy is made is enough for a question, whatever argument
// names it and whatever the schema says of that.
func TestReviewLooksForEveryFile(t *testing.T) {
	for name, tt := range map[string]struct {
		more  string   // arguments beside path
		paths []string // declared by the owner
		asks  bool
	}{
		"none":                           {``, nil, false},
		"another in the roots":           {`,"copies":[{"path":"ROOT/b.txt"}]`, nil, false},
		"one in a list of objects":       {`,"copies":[{"path":"/outside/b.txt"}]`, nil, true},
		"one that the schema leaves out": {`,"dest_path":"/outside/b.txt"`, nil, true},
		"one under another name":         {`,"to":"/outside/b.txt"`, nil, true},
		"one that nobody sees":           {`,"destination":{"$artifact":7,"x":1}`, nil, true},
		"where the owner says there is":  {`,"to":"/outside/b.txt"`, []string{"/path", "/to"}, true},
		"no text where there should be":  {`,"to":["/outside",["b.txt"]]`, []string{"/path", "/to"}, true},
		"where the owner says none is":   {`,"to":"/outside/b.txt","dest":null`, []string{"/path", "/dest"}, false},
	} {
		r, s, root := reviewing(t, func(o *Options) {
			if tt.paths != nil {
				o.Servers[0].Paths = func(string) []string { return tt.paths }
			}
		})
		args := `{"path":"ROOT/a.txt"` + tt.more + `,"text":"x"}`
		args = strings.ReplaceAll(args, "ROOT", filepath.ToSlash(root))
		if out := through(t, s, "hub/save_file", args); (out.Ask != nil) != tt.asks || len(r.caller.calls()) == 1 == tt.asks {
			t.Errorf("%s: asked %+v after %d calls, want a question: %v", name, out.Ask, len(r.caller.calls()), tt.asks)
		}
	}
}

// A path that only its server can follow is resolved by nobody else, so that a
// rule about it narrows.
func TestWhatAPathIsRelativeTo(t *testing.T) {
	here := func(path string) (string, error) { return filepath.ToSlash(filepath.Join("/gate", path)), nil }
	for name, tt := range map[string]struct {
		server Server
		want   string
	}{
		"the server's folder":   {Server{Dir: "/srv"}, "/srv/a"},
		"the gate's":            {Server{}, "a"},
		"folders that it named": {Server{Dir: "/srv", Folders: true}, ""},
	} {
		if at, ok := tt.server.follow("a"); ok != (tt.want != "") || ok && filepath.ToSlash(at) != tt.want {
			t.Errorf("%s: %q, %v, want %q", name, at, ok, tt.want)
		}
		if at, ok := tt.server.follow("/x/a"); !ok || at != "/x/a" {
			t.Errorf("%s: an absolute path is %q, %v", name, at, ok)
		}
		if got := tt.server.resolved(here, []string{"~/.ssh/id", "~me", "file:///etc/passwd", `\\host\x`}); len(got) != 0 {
			t.Errorf("%s: resolved %v", name, got)
		}
	}
}
