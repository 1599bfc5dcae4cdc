package prefix

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
)

func TestADiffNamesTheServerThatDidIt(t *testing.T) {
	was := few(t)
	now := append([]catalog.Entry{
		entry(t, "github", "get_issue", "Returns one issue. And more.", engagement.Read),
		entry(t, "github", "new_one", "Is new", engagement.Read),
		entry(t, "beta", "x", "Y", engagement.Read),
	}, was[1:5]...) // zoo is gone
	now[4].Class.Permission = engagement.Destructive // create_issue
	var got []string
	for _, c := range Diff(Build(Parts{Tools: was}), Build(Parts{Tools: now, SkillText: "Sort."})) {
		got = append(got, c.String())
	}
	want := []string{
		"skill changed",
		"beta is new",
		`github/create_issue changed: "` + createIssue + ` [reversible_write]" became "` + createIssue + ` [destructive]"`,
		`github/get_issue changed: "get_issue: Returns one issue of a repository [read]" became "get_issue [read]"`,
		"github/new_one is new",
		"zoo is gone",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

const createIssue = "create_issue: Opens an issue in a repository and assigns it to the people whose names are given, if they have a right to see it, or to nobody; labels that do not exist…"

func TestADiffTellsWhatOnlyFollowed(t *testing.T) {
	tools := many(t, rand.New(rand.NewPCG(10, 0)), 120, 4)
	fewer := slices.DeleteFunc(slices.Clone(tools), func(e catalog.Entry) bool { return e.ID.Server == "server-03" })
	for _, budget := range []int{700, 1000, 2000, 3000, 4000, 5000} {
		moved, did := 0, map[string]bool{}
		for _, c := range Diff(Build(Parts{Tools: fewer, Budget: budget}), Build(Parts{Tools: tools, Budget: budget})) {
			if c.Refit {
				moved++
			} else {
				did[c.Server] = true
			}
		}
		if len(did) != 1 || !did["server-03"] {
			t.Errorf("budget %d: %v did it, %d lines followed", budget, did, moved)
		}
	}
}

func TestAChangeBehindAFoldIsNoRefit(t *testing.T) {
	tools := many(t, rand.New(rand.NewPCG(11, 0)), 60, 2)
	small := Parts{Tools: tools, Budget: 250}
	more := small
	more.Tools = append(slices.Clone(tools), entry(t, "server-00", "another", "", engagement.Read))
	changes := Diff(Build(small), Build(more))
	if len(changes) != 1 || changes[0].Server != "server-00" || changes[0].Refit {
		t.Errorf("got %+v", changes)
	}
}

func TestEqualPrefixesDifferInNothing(t *testing.T) {
	for name, p := range pinned(t) {
		if got := Diff(Build(p.parts), Build(p.parts)); got != nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, p := range pinned(f) {
		for _, form := range Forms() {
			if b, err := Build(p.parts).Encode(form); err == nil && len(b) < 4000 {
				f.Add(b)
			}
		}
	}
	base := Build(Parts{Tools: few(f)})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse(b)
		if err != nil {
			return
		}
		for _, c := range append(Diff(base, p), Diff(p, base)...) {
			if c.Old == c.New {
				t.Fatalf("%+v is no change", c)
			}
		}
	})
}
