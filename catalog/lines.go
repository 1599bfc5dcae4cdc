package catalog

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// longestLine is the longest definition that is read from a file of lines.
const longestLine = 16 << 20

// ErrLines is wrapped by what the functions over lines return when some line
// could not be read. Every other line was answered.
var ErrLines = errors.New("some lines could not be read")

// listed is one line of a catalog file.
type listed struct {
	id      json.RawMessage // as it came; the tool's name where there was none
	corpora []string
	tool    Tool
}

// readListed reads {"id","server","name",...} as one definition of the server.
func readListed(line []byte) (listed, error) {
	var l listed
	var server string
	for m, err := range strictjson.Object(line) {
		if err != nil {
			return l, err
		}
		switch m.Name {
		case "id":
			l.id = slices.Clone(m.Value)
		case "server":
			server = text(m.Value)
		case "corpora":
			_ = json.Unmarshal(m.Value, &l.corpora) // of another shape, it names no corpus
		}
	}
	t, err := NewTool(Alias(server), slices.Clone(line))
	if err != nil {
		return l, err
	}
	if l.tool = t; l.id == nil {
		l.id = strictjson.AppendString(nil, t.ID.String())
	}
	return l, nil
}

// answers reads lines and writes what answer gives for each, in order. A line
// that cannot be answered gives {"id":..., "error":...} in its place.
func answers(r io.Reader, w io.Writer, answer func(line []byte) (out, id []byte, err error)) error {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 64<<10), longestLine)
	out := bufio.NewWriter(w)
	failed := 0
	for sc.Scan() {
		if len(strings.TrimSpace(sc.Text())) == 0 {
			continue
		}
		line, id, err := answer(sc.Bytes())
		if err != nil {
			failed++
			line = []byte("{")
			if id != nil {
				line = append(append(append(line, `"id":`...), id...), ',')
			}
			line = append(strictjson.AppendString(append(line, `"error":`...), err.Error()), '}')
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return fmt.Errorf("write an answer: %w", err)
		}
	}
	if err := errors.Join(sc.Err(), out.Flush()); err != nil {
		return fmt.Errorf("read lines: %w", err)
	}
	if failed > 0 {
		return fmt.Errorf("%d lines: %w", failed, ErrLines)
	}
	return nil
}

// ClassifyLines reads tool definitions, one a line, and writes
// {"id","permission","egress","domains","why"} for each. The servers are not
// trusted. The error wraps [ErrLines] when a line was no definition.
func ClassifyLines(r io.Reader, w io.Writer) error {
	return answers(r, w, func(line []byte) ([]byte, []byte, error) {
		l, err := readListed(line)
		if err != nil {
			return nil, l.id, err
		}
		c := Classify(l.tool, Untrusted, Override{})
		out := append(append([]byte(`{"id":`), l.id...), fmt.Sprintf(`,"permission":"%s","egress":"%s","domains":[`, c.Permission, c.Egress)...)
		for i, d := range c.Domains.List() {
			if i > 0 {
				out = append(out, ',')
			}
			out = strictjson.AppendString(out, d.String())
		}
		return append(strictjson.AppendString(append(out, `],"why":`...), c.Why), '}'), nil, nil
	})
}

// ScanLines reads tool definitions, one a line, and writes {"id","findings"}
// for each. A line's "peers", if it has any, are the tools that stand beside
// it, as "alias/tool" or {"server","name"}. The error wraps [ErrLines] when a line was no
// definition.
func ScanLines(r io.Reader, w io.Writer) error {
	return answers(r, w, func(line []byte) ([]byte, []byte, error) {
		l, err := readListed(line)
		if err != nil {
			return nil, l.id, err
		}
		l.tool.Raw = definitionOnly(l.tool.Raw)
		out := append(append([]byte(`{"id":`), l.id...), `,"findings":[`...)
		for i, f := range Scan(l.tool, peersOf(line)) {
			if i > 0 {
				out = append(out, ',')
			}
			out = appendFinding(out, f)
		}
		return append(out, `]}`...), nil, nil
	})
}

func appendFinding(out []byte, f Finding) []byte {
	for _, m := range []struct{ name, value string }{{`{"kind":`, f.Kind}, {`,"tier":`, f.Tier.String()}, {`,"where":`, f.Where}, {`,"text":`, f.Text}} {
		out = strictjson.AppendString(append(out, m.name...), m.value)
	}
	return append(out, '}')
}

// definitionOnly leaves out the members that a catalog file adds.
func definitionOnly(raw json.RawMessage) json.RawMessage {
	for _, name := range []string{"id", "server", "corpora", "peers"} {
		if less, err := strictjson.Delete(raw, name); err == nil {
			raw = less
		}
	}
	return raw
}

func peersOf(line []byte) []Tool {
	raw, ok, err := strictjson.Get(line, "peers")
	if err != nil || !ok {
		return nil
	}
	var names []string
	var peers []Tool
	if json.Unmarshal(raw, &names) != nil {
		var tools []struct{ Server, Name string }
		if json.Unmarshal(raw, &tools) != nil {
			return nil
		}
		for _, t := range tools {
			peers = append(peers, Tool{ID: ToolID{Alias(t.Server), t.Name}})
		}
		return peers
	}
	for _, n := range names {
		id, err := ParseToolID(n)
		if err != nil {
			id = ToolID{Tool: n}
		}
		peers = append(peers, Tool{ID: id})
	}
	return peers
}

// FindLines reads a catalog of tool definitions, one a line, and a batch of
// {"qid","query","corpus"?}, and writes {"qid","ranked","scope"} for each query
// in order: the ids of the best hits, at most top of them, and the scope state
// of those hits where everything may run, outside_domain where none fits. A query with a corpus searches only
// the tools whose "corpora" name it.
func FindLines(catalog, batch io.Reader, w io.Writer, top int) error {
	f := finder{byID: map[ToolID]json.RawMessage{}, sets: map[string]*Set{}}
	bad := f.read(catalog)
	if bad != nil && !errors.Is(bad, ErrLines) {
		return bad
	}
	err := answers(batch, w, func(line []byte) ([]byte, []byte, error) {
		var q struct {
			QID    json.RawMessage `json:"qid"`
			Query  string          `json:"query"`
			Corpus string          `json:"corpus"`
		}
		if err := strictjson.Check(line); err != nil {
			return nil, nil, err
		}
		if err := json.Unmarshal(line, &q); err != nil {
			return nil, nil, strictjson.Misfit(err)
		}
		if q.QID == nil {
			q.QID = json.RawMessage("null")
		}
		set := f.set(q.Corpus)
		hits := set.Search(q.Query)
		fits := set.FitOf(q.Query, hits).Fits
		hits = hits[:min(len(hits), max(top, 0))]
		out := append(append([]byte(`{"qid":`), q.QID...), `,"ranked":[`...)
		for i, h := range hits {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, f.byID[h.Entry.ID]...)
		}
		return append(out, `],"scope":"`+scopeOf(hits, fits)+`"}`...), nil, nil
	})
	return errors.Join(bad, err)
}

// scopeOf is the scope state of hits that may all run, if any of them fits.
func scopeOf(hits []Hit, fits bool) string {
	switch {
	case !fits:
		return "outside_domain"
	case slices.ContainsFunc(hits, func(h Hit) bool { return h.Entry.Class.Permission > engagement.Read }):
		return "can_execute"
	}
	return "can_analyze"
}

// finder searches a catalog file, whole or by corpus.
type finder struct {
	entries []Entry
	corpora [][]string
	byID    map[ToolID]json.RawMessage
	sets    map[string]*Set
}

func (f *finder) read(catalog io.Reader) error {
	return answers(catalog, io.Discard, func(line []byte) ([]byte, []byte, error) {
		l, err := readListed(line)
		if err != nil {
			return nil, nil, err
		}
		for f.byID[l.tool.ID] != nil { // a file may list one tool twice under two ids
			l.tool.ID.Server += "-"
		}
		f.byID[l.tool.ID] = l.id
		f.entries = append(f.entries, Entry{Tool: l.tool, Class: Classify(l.tool, Untrusted, Override{})})
		f.corpora = append(f.corpora, l.corpora)
		return nil, nil, nil
	})
}

func (f *finder) set(corpus string) *Set {
	if s, ok := f.sets[corpus]; ok {
		return s
	}
	entries := f.entries
	if corpus != "" {
		entries = nil
		for i, e := range f.entries {
			if slices.Contains(f.corpora[i], corpus) {
				entries = append(entries, e)
			}
		}
	}
	s := NewSet(entries)
	f.sets[corpus] = s
	return s
}
