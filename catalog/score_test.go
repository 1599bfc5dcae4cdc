package catalog

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"testing"

	"github.com/mcp-gate/mcp-gate/engagement"
)

// eachRow decodes the lines of a labelled file under testdata/catalog. Every
// file has two halves: "tuning", which the rules were looked at against, and
// "kept", which only scores.
func eachRow[T any](t testing.TB, file string, use func(row T, line []byte)) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "catalog", file))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<22)
	for sc.Scan() {
		var row T
		if err := json.Unmarshal(sc.Bytes(), &row); err != nil {
			t.Fatalf("%s: %v in %.80s", file, err, sc.Bytes())
		}
		use(row, slices.Clone(sc.Bytes()))
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
}

type classRow struct {
	Half, Server string
	Want         struct {
		Permission engagement.Permission
		Egress     engagement.Egress
		Domains    engagement.DomainSet
	}
}

// classScore counts what the bars are about.
type classScore struct {
	n, right                                   int
	destructive, destructiveMissed, asRead     int
	writes, writeAsRead, reads, readAsWrite    int
	egressRight, understated, tp, falsep, miss int
}

func (s *classScore) add(want, got Class) {
	s.n++
	if want.Permission == got.Permission {
		s.right++
	}
	if want.Permission == engagement.Destructive {
		s.destructive++
		if got.Permission != engagement.Destructive {
			s.destructiveMissed++
		}
		if got.Permission == engagement.Read {
			s.asRead++
		}
	}
	if want.Permission > engagement.Read {
		s.writes++
		if got.Permission == engagement.Read {
			s.writeAsRead++
		}
	} else {
		s.reads++
		if got.Permission > engagement.Read {
			s.readAsWrite++
		}
	}
	if want.Egress == got.Egress {
		s.egressRight++
	} else if got.Egress < want.Egress {
		s.understated++
	}
	for _, d := range engagement.Domains() {
		switch w, g := want.Domains.Has(d), got.Domains.Has(d); {
		case w && g:
			s.tp++
		case g:
			s.falsep++
		case w:
			s.miss++
		}
	}
}

func share(part, whole int) float64 { return float64(part) / float64(max(whole, 1)) }

// TestClassesHoldTheirBars scores the classes of labelled tools. The bars are
// those that the product promises on tools it has never seen, with a margin.
func TestClassesHoldTheirBars(t *testing.T) {
	scores := map[string]*classScore{"tuning": {}, "kept": {}}
	eachRow(t, "classes.jsonl", func(row classRow, line []byte) {
		tool, err := NewTool(Alias(row.Server), line)
		if err != nil {
			t.Fatal(err)
		}
		got := Classify(tool, Untrusted, Override{})
		want := Class{Permission: row.Want.Permission, Egress: row.Want.Egress, Domains: row.Want.Domains}
		scores[row.Half].add(want, got)
		if row.Half == "tuning" && os.Getenv("SHOW") != "" && (want.Permission != got.Permission || want.Egress != got.Egress || want.Domains != got.Domains) {
			t.Logf("%v: want %v %v %v, got %v %v %v: %s", tool.ID, want.Permission, want.Egress, want.Domains.List(), got.Permission, got.Egress, got.Domains.List(), got.Why)
		}
	})
	for half, s := range scores {
		f1 := share(2*s.tp, 2*s.tp+s.falsep+s.miss)
		t.Logf("%s: %d tools, permission %.3f, destructive as read %d, missed %.3f, write as read %d of %d, read as write %.3f, egress %.3f, understated %.3f, domains F1 %.3f",
			half, s.n, share(s.right, s.n), s.asRead, share(s.destructiveMissed, s.destructive), s.writeAsRead, s.writes, share(s.readAsWrite, s.reads), share(s.egressRight, s.n), share(s.understated, s.n), f1)
		for claim, ok := range map[string]bool{
			"no destructive tool is called read":        s.asRead == 0,
			"writes called read, at most .005":          share(s.writeAsRead, s.writes) <= .005,
			"destructive tools missed, at most .05":     share(s.destructiveMissed, s.destructive) <= .05,
			"reads called writes, at most .06":          share(s.readAsWrite, s.reads) <= .06,
			"permission right, at least .92":            share(s.right, s.n) >= .92,
			"egress right, at least .88":                share(s.egressRight, s.n) >= .88,
			"egress understated, at most .06":           share(s.understated, s.n) <= .06,
			"domains, micro-F1 at least .80":            f1 >= .80,
			"there are at least 240 tools in each half": s.n >= 240,
		} {
			if !ok {
				t.Errorf("%s: fails: %s", half, claim)
			}
		}
	}
}

type queryRow struct {
	Half, Query string
	Want        []string // any of them; all of them where several
	Several     bool
}

// labelled is the set of the classified tools, which the queries are about.
func labelled(t testing.TB) *Set {
	var entries []Entry
	eachRow(t, "classes.jsonl", func(row classRow, line []byte) {
		tool, err := NewTool(Alias(row.Server), line)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, Entry{Tool: tool, Class: Classify(tool, Untrusted, Override{})})
	})
	return NewSet(entries)
}

// ranks are the positions of the wanted tools among the hits, from 1; 0 where
// a tool was not found.
func ranks(hits []Hit, want []string) []int {
	out := make([]int, len(want))
	for i, w := range want {
		out[i] = 1 + slices.IndexFunc(hits, func(h Hit) bool { return h.Entry.ID.String() == w })
	}
	return out
}

type searchScore struct {
	single, first, five  int
	gain                 float64
	several, whole       int
	found, wantedSeveral int
}

func (s *searchScore) add(row queryRow, at []int) {
	if row.Several {
		s.several++
		all := true
		for _, r := range at {
			s.wantedSeveral++
			if r > 0 && r <= 10 {
				s.found++
			} else {
				all = false
			}
		}
		if all {
			s.whole++
		}
		return
	}
	s.single++
	best := 0
	for _, r := range at {
		if r > 0 && (best == 0 || r < best) {
			best = r
		}
	}
	if best == 1 {
		s.first++
	}
	if best > 0 && best <= 5 {
		s.five++
	}
	if best > 0 && best <= 10 {
		s.gain += 1 / math.Log2(float64(best)+1)
	}
}

// TestSearchHoldsItsBars scores what queries in people's own words find among
// all the labelled tools. The queries share few words with the tools, so the
// bars are what the search adds to plain BM25 over name and description, which
// is what the product promises, and floors a little under what it has.
func TestSearchHoldsItsBars(t *testing.T) {
	set := labelled(t)
	plain := newPlain(set.Entries())
	scores, base := map[string]*searchScore{"tuning": {}, "kept": {}}, map[string]*searchScore{"tuning": {}, "kept": {}}
	eachRow(t, "queries.jsonl", func(row queryRow, _ []byte) {
		hits := set.Search(row.Query)
		at := ranks(hits, row.Want)
		scores[row.Half].add(row, at)
		base[row.Half].add(row, ranks(plain.search(row.Query), row.Want))
		if row.Half == "tuning" && os.Getenv("SHOW") != "" && (slices.Max(at) != 1 || row.Several) {
			var top []string
			for _, h := range hits[:min(len(hits), 6)] {
				top = append(top, fmt.Sprintf("%v %.1f", h.Entry.ID, h.Score))
			}
			t.Logf("%q want %v at %v: %v", row.Query, row.Want, at, top)
		}
	})
	for half, s := range scores {
		n, b := float64(s.single), base[half]
		t.Logf("%s: %d single: R@1 %.3f R@5 %.3f nDCG@10 %.3f; %d several: R@10 %.3f complete %.3f", half, s.single,
			float64(s.first)/n, float64(s.five)/n, s.gain/n, s.several, share(s.found, s.wantedSeveral), share(s.whole, s.several))
		t.Logf("%s: plain BM25: R@1 %.3f R@5 %.3f nDCG@10 %.3f; several: R@10 %.3f complete %.3f", half,
			float64(b.first)/n, float64(b.five)/n, b.gain/n, share(b.found, b.wantedSeveral), share(b.whole, b.several))
		for claim, ok := range map[string]bool{
			"R@1 is .17 over plain":             float64(s.first-b.first)/n >= .17,
			"R@5 is .16 over plain":             float64(s.five-b.five)/n >= .16,
			"nDCG@10 is .16 over plain":         (s.gain-b.gain)/n >= .16,
			"R@1 is at least .55":               float64(s.first)/n >= .55,
			"R@5 is at least .82":               float64(s.five)/n >= .82,
			"several: R@10 is at least .80":     share(s.found, s.wantedSeveral) >= .80,
			"several: complete is at least .64": share(s.whole, s.several) >= .64,
		} {
			if !ok {
				t.Errorf("%s: fails: %s", half, claim)
			}
		}
	}
}

// plain is BM25 over the words of name and description, the baseline.
type plain struct {
	entries []Entry
	counts  []map[string]float64
	length  []float64
	df      map[string]float64
	average float64
}

func newPlain(entries []Entry) *plain {
	p := &plain{entries: entries, df: map[string]float64{}}
	for _, e := range entries {
		counts := map[string]float64{}
		ws := words(e.ID.Tool + " " + strings.ToLower(e.Description))
		for _, w := range ws {
			counts[w]++
		}
		for w := range counts {
			p.df[w]++
		}
		p.counts, p.length = append(p.counts, counts), append(p.length, float64(len(ws)))
		p.average += float64(len(ws)) / float64(len(entries))
	}
	return p
}

func (p *plain) search(query string) []Hit {
	var hits []Hit
	for i, e := range p.entries {
		var score float64
		for _, w := range words(strings.ToLower(query)) {
			if f := p.counts[i][w]; f > 0 {
				n := float64(len(p.entries))
				score += math.Log(1+(n-p.df[w]+.5)/(p.df[w]+.5)) * f * 2.2 / (f + 1.2*(.25+.75*p.length[i]/p.average))
			}
		}
		if score > 0 {
			hits = append(hits, Hit{Entry: e, Score: score})
		}
	}
	slices.SortStableFunc(hits, func(a, b Hit) int { return cmp.Compare(b.Score, a.Score) })
	return hits
}

type poisonRow struct {
	Half, Kind        string
	Poisoned, Certain bool // certain: of a kind that is found without fail
	Tool              json.RawMessage
}

// TestScannerHoldsItsBars scores poisoned definitions and benign ones that
// look like them.
func TestScannerHoldsItsBars(t *testing.T) {
	type counts struct{ n, blocked, shown int }
	byKind := map[string]map[string]*counts{"tuning": {}, "kept": {}}
	total := map[string]*counts{}
	count := func(m map[string]*counts, key string, found []Finding) {
		if m[key] == nil {
			m[key] = &counts{}
		}
		m[key].n++
		if slices.ContainsFunc(found, func(f Finding) bool { return f.Tier == Block }) {
			m[key].blocked++
		}
		if len(found) > 0 {
			m[key].shown++
		}
	}
	eachRow(t, "poisoned.jsonl", func(row poisonRow, _ []byte) {
		tool, err := NewTool("s", row.Tool)
		if err != nil {
			t.Fatal(err)
		}
		found := Scan(tool, nil)
		count(byKind[row.Half], row.Kind, found)
		group := "benign"
		if row.Certain {
			group = "certain"
		} else if row.Poisoned {
			group = "graded"
		}
		count(total, row.Half+" "+group, found)
		if row.Half == "tuning" && os.Getenv("SHOW") != "" && row.Poisoned != (len(found) > 0) {
			t.Logf("%s %s %q: %v", row.Kind, tool.ID.Tool, tool.Description, found)
		}
	})
	for half, kinds := range byKind {
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			c := kinds[kind]
			t.Logf("%s %s: %d, blocked %d, any %d", half, kind, c.n, c.blocked, c.shown)
		}
		benign, certain, graded := total[half+" benign"], total[half+" certain"], total[half+" graded"]
		for claim, ok := range map[string]bool{
			"no benign definition is blocked":           benign.blocked == 0,
			"benign definitions shown, at most .05":     share(benign.shown, benign.n) <= .05,
			"every certain kind is blocked":             certain.blocked == certain.n,
			"the graded kinds are found, at least .70":  share(graded.shown, graded.n) >= .70,
			"there are at least 70 poisoned, 45 benign": certain.n+graded.n >= 70 && benign.n >= 45,
		} {
			if !ok {
				t.Errorf("%s: fails: %s: benign %+v, certain %+v, graded %+v", half, claim, *benign, *certain, *graded)
			}
		}
	}
}
