package reader_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/reader"
)

var misses = flag.Bool("misses", false, "print each row of the development set that is read wrong")

// row is a labelled request. NeededDomains are what the work cannot do without.
type row struct {
	ID            string              `json:"id"`
	Text          string              `json:"text"`
	Act           engagement.Act      `json:"act"`
	NeededDomains []engagement.Domain `json:"needed_domains"`
	Stakes        engagement.Stakes   `json:"stakes"`
	Effectful     bool                `json:"effectful"`
}

func rows(t testing.TB, name string) []row {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "testdata", "reader", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []row
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var r row
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("%s: %v in %s", name, err, lines.Text())
		}
		out = append(out, r)
	}
	return out
}

func newReader(t testing.TB) *reader.Reader {
	t.Helper()
	r, err := reader.New()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// tally is what the bars are about, as counts.
type tally struct {
	rows, needed, kept, lost, losing, effectful, harmless, harmlessPrimary, acts, understated int
}

func (s *tally) add(r row, got engagement.Reading, bars engagement.Bars) (wrong string) {
	e := engagement.Derive(got, engagement.DefaultAuthority(), got.Confidence >= bars.Slice)
	has := e.Limits.RequiredDomains
	s.rows++
	s.kept += len(has.Set().List())
	missing := ""
	for _, d := range r.NeededDomains {
		s.needed++
		if !has.Has(d) {
			s.lost++
			missing += " -" + d.String()
		}
	}
	if missing != "" {
		s.losing++
		wrong += missing
	}
	if r.Effectful {
		s.effectful++
		if !anyEffectful(got) {
			s.harmless++
			wrong += " HARMLESS"
		}
		if !got.Act.Effectful() {
			s.harmlessPrimary++
		}
	}
	if got.Act == r.Act {
		s.acts++
	} else {
		wrong += " act=" + got.Act.String()
	}
	if got.Stakes < r.Stakes {
		s.understated++
		wrong += " stakes=" + got.Stakes.String()
	}
	return wrong
}

func anyEffectful(r engagement.Reading) bool {
	for _, a := range r.Acts().List() {
		if a.Effectful() {
			return true
		}
	}
	return false
}

func share(part, whole int) float64 { return float64(part) / float64(max(whole, 1)) }

// TestReadingMeetsTheBars scores two sets, both written and labelled for this project.
// The tables were tuned on the rows of dev.jsonl. Those of heldout.jsonl were written
// beforehand in another manner and never read while tuning, only counted: keep it
// so, and write new rows rather than open these. The bars are stricter than what
// the product asks of requests nobody here has seen, since unseen ones read worse.
func TestReadingMeetsTheBars(t *testing.T) {
	for _, name := range []string{"dev.jsonl", "heldout.jsonl"} {
		t.Run(name, func(t *testing.T) {
			r := newReader(t)
			var s tally
			set := rows(t, name)
			if len(set) < 180 {
				t.Fatalf("only %d rows", len(set))
			}
			for _, row := range set {
				got := r.Read(row.Text)
				if wrong := s.add(row, got, engagement.DefaultBars()); wrong != "" && *misses {
					t.Logf("%s %s %q:%s | %v alt %v %v %.2f", row.ID, row.Act, row.Text, wrong, got.Act, got.AlternateActs, got.Domains, got.Confidence)
				}
			}
			t.Logf("%d rows: domain recall %.3f, kept %.2f, losing %.3f, harmless %.3f (primary act alone %.3f), act %.3f, understated %.3f",
				s.rows, 1-share(s.lost, s.needed), share(s.kept, s.rows), share(s.losing, s.rows),
				share(s.harmless, s.effectful), share(s.harmlessPrimary, s.effectful), share(s.acts, s.rows), share(s.understated, s.rows))
			for _, bar := range []struct {
				what string
				ok   bool
			}{
				{"domain recall at least .98", 1-share(s.lost, s.needed) >= .98},
				{"at most 6.9 domains kept", share(s.kept, s.rows) <= 6.9},
				{"requests losing a domain at most .02", share(s.losing, s.rows) <= .02},
				{"effectful read as harmless at most .03", share(s.harmless, s.effectful) <= .03},
				{"effectful with a harmless primary act at most .06", share(s.harmlessPrimary, s.effectful) <= .06},
				{"primary act right at least .75", share(s.acts, s.rows) >= .75},
				{"stakes understated at most .05", share(s.understated, s.rows) <= .05},
			} {
				if !bar.ok {
					t.Errorf("missed: %s", bar.what)
				}
			}
		})
	}
}
