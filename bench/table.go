package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// measure names what is measured, with its unit.
type measure string

const (
	echo50      measure = "echo p50, us"
	echo99      measure = "echo p99, us"
	calls1      measure = "calls/s, 1 in flight"
	calls8      measure = "calls/s, 8 in flight"
	calls64     measure = "calls/s, 64 in flight"
	cpu8        measure = "CPU us a call, 8 in flight"
	cpu64       measure = "CPU us a call, 64 in flight"
	largeTime   measure = "10 MB result, ms"
	largeCPU    measure = "10 MB result, CPU ms"
	largeGrowth measure = "10 MB result, memory growth / payload"
	listReady   measure = "10,000 tools, start to list, ms"
	listTime    measure = "10,000 tools, list again, ms"
	listCPU     measure = "10,000 tools, list again, CPU ms"
	listMemory  measure = "10,000 tools, resident MB"
	idleMemory  measure = "idle, resident MB"
	loadMemory  measure = "after load, resident MB"
)

func coldInitialized(n int) measure {
	return measure(fmt.Sprintf("cold start, %d servers, initialize answered, ms", n))
}

func coldListed(n int) measure {
	return measure(fmt.Sprintf("cold start, %d servers, complete list, ms", n))
}

// sample is one figure of one round.
type sample struct {
	measure measure
	target  target
	round   int
	value   float64
}

// table holds all figures of a run in the order they came.
type table []sample

func (t *table) add(m measure, of target, round int, value float64) {
	*t = append(*t, sample{m, of, round, value})
}

// spread is what is said of a figure over the rounds.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Rounds int     `json:"rounds"`
}

func spreadOf(values []float64) *spread {
	if len(values) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(values))
	mid := len(sorted) / 2
	median := sorted[mid]
	if len(sorted)%2 == 0 {
		median = (sorted[mid-1] + median) / 2
	}
	return &spread{rounded(median), rounded(sorted[0]), rounded(sorted[len(sorted)-1]), len(sorted)}
}

// rounded keeps four digits, which is more than such figures are good for.
func rounded(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-3)
	return math.Round(math.Round(v/unit)*unit*1e6) / 1e6
}

// row is one target's figures for one measure. A ratio is taken within each
// round, and its spread is that of the ratios.
type row struct {
	Measure measure `json:"measure"`
	Target  string  `json:"target"`
	Figure  *spread `json:"figure"`
	Floor   *spread `json:"times_floor,omitempty"`
	Direct  *spread `json:"times_direct,omitempty"`
}

func (t table) rows() []row {
	var rows []row
	at := map[string]int{}
	figures, ofFloor, ofDirect := [][]float64{}, [][]float64{}, [][]float64{}
	for _, s := range t {
		key := string(s.measure) + "\x00" + s.target.name
		i, ok := at[key]
		if !ok {
			i = len(rows)
			at[key] = i
			rows = append(rows, row{Measure: s.measure, Target: s.target.name})
			figures, ofFloor, ofDirect = append(figures, nil), append(ofFloor, nil), append(ofDirect, nil)
		}
		figures[i] = append(figures[i], s.value)
		if base, ok := t.find(s.measure, s.target.floor, s.round); ok {
			ofFloor[i] = append(ofFloor[i], s.value/base)
		}
		if base, ok := t.find(s.measure, strings.Replace(s.target.floor, "floor", "direct", 1), s.round); ok {
			ofDirect[i] = append(ofDirect[i], s.value/base)
		}
	}
	for i := range rows {
		rows[i].Figure, rows[i].Floor, rows[i].Direct = spreadOf(figures[i]), spreadOf(ofFloor[i]), spreadOf(ofDirect[i])
	}
	return rows
}

// find returns a figure that something can be divided by.
func (t table) find(m measure, target string, round int) (float64, bool) {
	for _, s := range t {
		if s.measure == m && s.target.name == target && s.round == round && s.value > 0 {
			return s.value, true
		}
	}
	return 0, false
}

// document is a run for programs.
type document struct {
	Date    time.Time `json:"date"`
	Gate    string    `json:"gate"`
	Machine string    `json:"machine"`
	Load    []float64 `json:"load"` // of the machine, before and after
	Rounds  int       `json:"rounds"`
	Seconds float64   `json:"seconds"`
	Rows    []row     `json:"rows"`
	Faults  []string  `json:"faults,omitempty"`
}

func (d document) writeJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(d)
}

// writeText prints a table for people, a measure a block.
func (d document) writeText(w io.Writer) error {
	fmt.Fprintf(w, "%s; %s\n%s; load %.1f before, %.1f after; %d rounds in %.0f s\n", d.Date.Format("2006-01-02"), d.Gate, d.Machine, d.Load[0], d.Load[1], d.Rounds, d.Seconds)
	fmt.Fprintln(w, "median over rounds [least, most]; x is a ratio within each round, then its median")
	rows := slices.Clone(d.Rows)
	order := map[measure]int{}
	for i, r := range rows {
		if _, ok := order[r.Measure]; !ok {
			order[r.Measure] = i
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(order[a.Measure]-order[b.Measure], slices.Index(targetNames, a.Target)-slices.Index(targetNames, b.Target))
	})
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	last := measure("")
	for _, r := range rows {
		if r.Measure != last {
			fmt.Fprintf(tab, "\n%s\t\t\tx floor\t\tx direct\n", r.Measure)
			last = r.Measure
		}
		fmt.Fprintf(tab, "  %s\t%s\t%s\t%s\t%s\t%s\n", r.Target, short(r.Figure.Median), r.Figure.bounds(), r.Floor.ratio(), r.Floor.bounds(), r.Direct.ratio())
	}
	for _, f := range d.Faults {
		fmt.Fprintf(tab, "\nnot measured: %s\n", f)
	}
	return tab.Flush()
}

func short(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func (s *spread) bounds() string {
	if s == nil || s.Rounds < 2 {
		return ""
	}
	return fmt.Sprintf("[%s, %s]", short(s.Min), short(s.Max))
}

func (s *spread) ratio() string {
	if s == nil {
		return ""
	}
	return fmt.Sprintf("%.2f", s.Median)
}
