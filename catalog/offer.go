package catalog

import (
	"encoding/json"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// NewOffer classes and scans what a server shows now. Accepted are the accepted
// tools of all servers: nobody may imitate the names of another server's, and
// what is the very definition of its own has its class on record. The caller sets
// the fields that say which server it is.
func NewOffer(tools []Tool, trust Trust, instructions string, accepted []Tool) Offer {
	o := Offer{Instructions: instructions, Blocking: BlockingKinds(scanText(instructions))}
	looks := make([]string, len(tools))
	alike := map[string][]Tool{} // by how a name looks: a tool of each spelling, a few of them
	for i, t := range tools {
		looks[i] = skeleton(t.ID.Tool)
		alike[looks[i]] = nil
	}
	stand := func(look string, t Tool) {
		if few, ok := alike[look]; ok && len(few) < 8 && len(imitations(t, few)) == len(few) {
			alike[look] = append(few, t)
		}
	}
	recorded := map[string]string{} // digests by name
	for _, t := range accepted {
		if len(tools) > 0 && t.ID.Server == tools[0].ID.Server {
			recorded[t.ID.Tool] = t.Digest
		} else {
			stand(skeleton(t.ID.Tool), t)
		}
	}
	for i, t := range tools {
		stand(looks[i], t)
	}
	if len(tools) > 0 {
		o.Tools = make([]Offered, len(tools))
	}
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(tools)/fewTools+1) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(tools); i = int(next.Add(1)) - 1 {
				t := tools[i]
				o.Tools[i] = newOffered(t, trust, alike[looks[i]], recorded[t.ID.Tool] != t.Digest)
			}
		})
	}
	all.Wait()
	return o
}

// fewTools are looked at sooner than another goroutine is up.
const fewTools = 32

// newOffered looks at one definition. Alike are tools whose names look as its own;
// whether it is classed is said.
func newOffered(t Tool, trust Trust, alike []Tool, classed bool) Offered {
	var names scanner
	if others := imitations(t, alike); others != nil {
		names.name(t, others)
	}
	f := featuresOf(t)
	own := scan(t, &f, nil)
	o := Offered{
		Tool: t, trust: trust,
		Blocking: BlockingKinds(own), Beside: BlockingKinds(names.found), Findings: append(own, names.found...),
	}
	if classed {
		o.Class = classify(t, &f, trust)
	}
	return o
}

// imitations leaves out the tools whose name is the same word in another case or
// with other separators: list-tables beside list_tables is a habit, no mask.
func imitations(t Tool, alike []Tool) []Tool {
	spelling := func(name string) string { return strings.ToLower(separators.Replace(name)) }
	var others []Tool
	for _, p := range alike {
		if p.ID.Tool != t.ID.Tool && spelling(p.ID.Tool) != spelling(t.ID.Tool) {
			others = append(others, p)
		}
	}
	return others
}

var separators = strings.NewReplacer("-", "_", ".", "_", " ", "_")

// BlockingKinds returns the kinds of the findings that hold a definition,
// sorted, each once.
func BlockingKinds(findings []Finding) []string {
	var kinds []string
	for _, f := range findings {
		if f.Tier == Block {
			kinds = append(kinds, f.Kind)
		}
	}
	return without(kinds, nil)
}

// scanText looks at a text that is no part of a definition as if it were the
// description of one.
func scanText(text string) []Finding {
	if text == "" {
		return nil
	}
	raw := append([]byte(`{"name":"instructions","description":`), strictjson.AppendString(nil, text)...)
	return Scan(Tool{ID: ToolID{Tool: "instructions"}, Raw: json.RawMessage(append(raw, '}')), Description: text}, nil)
}
