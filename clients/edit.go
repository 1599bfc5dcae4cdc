package clients

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// section that new entries are written into.
const ownSection = "servers"

// Apply returns the file's text with the plan carried out. Everything that is in
// the file stays as it is, byte for byte: comments, order, line ends. The caller
// should read the result as the product does before it is written anywhere.
func (t *Target) Apply(p Plan) ([]byte, error) {
	if !p.Changes() {
		return t.text, nil
	}
	if isYAML(t.name) {
		return t.applyYAML(p)
	}
	return t.applyJSON(p)
}

func isYAML(name string) bool {
	ext := strings.ToLower(filepath.Ext(name))
	return ext == ".yaml" || ext == ".yml"
}

func (t *Target) applyJSON(p Plan) ([]byte, error) {
	body, hadMark := bytes.CutPrefix(t.text, []byte("\ufeff"))
	crlf := bytes.Contains(body, []byte("\r\n"))
	body = bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n"))
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{\n}\n")
	}
	root, err := hujson.Parse(append(bytes.Clone(body), '\n')) // a comment on the last line needs its end
	if err != nil {
		return nil, fmt.Errorf("edit %s: %w", t.name, err)
	}
	top, ok := root.Value.(*hujson.Object)
	if !ok {
		return nil, fmt.Errorf("edit %s: it is no object", t.name)
	}
	for _, item := range p.Items {
		var err error
		switch item.Action {
		case Add:
			err = addEntry(top, item)
		case Replace:
			err = replaceEntry(top, t.own, item)
		}
		if err != nil {
			return nil, fmt.Errorf("edit %s: %w", t.name, err)
		}
	}
	out := root.Pack()
	out = out[:len(out)-1]
	if crlf {
		out = bytes.ReplaceAll(out, []byte("\n"), []byte("\r\n"))
	}
	if hadMark {
		out = append([]byte("\ufeff"), out...)
	}
	return out, nil
}

// addEntry appends an entry to the section, which is made where there is none.
func addEntry(top *hujson.Object, item Item) error {
	servers, err := objectAt(top, ownSection)
	if err != nil {
		return err
	}
	return appendMember(servers, item.Name, entryJSON(item), 2)
}

func objectAt(top *hujson.Object, key string) (*hujson.Object, error) {
	m := findMember(top, key)
	if m == nil {
		if err := appendMember(top, key, "{\n}", 1); err != nil {
			return nil, err
		}
		m = findMember(top, key)
	}
	if l, ok := m.Value.Value.(hujson.Literal); ok && l.Kind() == 'n' {
		m.Value.Value = &hujson.Object{AfterExtra: hujson.Extra("\n  ")}
	}
	o, ok := m.Value.Value.(*hujson.Object)
	if !ok {
		return nil, fmt.Errorf("%q is no object", key)
	}
	return o, nil
}

func findMember(o *hujson.Object, key string) *hujson.ObjectMember {
	for i := range slices.Backward(o.Members) {
		if name, ok := o.Members[i].Name.Value.(hujson.Literal); ok && name.String() == key {
			return &o.Members[i]
		}
	}
	return nil
}

// appendMember writes a member on a line of its own, indented as its brothers
// are, else by two spaces a level. A trailing comma is kept where there is one.
// The value's own lines begin with two spaces a level below the member.
func appendMember(o *hujson.Object, name, value string, level int) error {
	indent, unit := strings.Repeat("  ", level), "  "
	var after hujson.Extra
	if n := len(o.Members); n > 0 {
		last := &o.Members[n-1]
		if lead, ok := indentOf(last.Name.BeforeExtra); ok {
			indent = lead
		}
		if last.Value.AfterExtra != nil { // so there is a trailing comma
			after = hujson.Extra{}
		}
	}
	if strings.HasSuffix(indent, "\t") {
		unit = "\t"
	}
	if !bytes.Contains(o.AfterExtra, []byte("\n")) {
		o.AfterExtra = append(bytes.Clone(o.AfterExtra), []byte("\n"+strings.TrimSuffix(indent, unit))...)
	}
	v, err := hujson.Parse([]byte(relevel(value, indent, unit)))
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	// What stands before the closing brace, such as a comment about the last
	// member, stays before the new one.
	before, closing := splitLast(o.AfterExtra)
	v.BeforeExtra, v.AfterExtra = hujson.Extra(" "), after
	o.Members = append(o.Members, hujson.ObjectMember{
		Name:  hujson.Value{BeforeExtra: hujson.Extra(string(before) + "\n" + indent), Value: hujson.String(name)},
		Value: v,
	})
	o.AfterExtra = closing
	return nil
}

// relevel indents the lines of a value as its member is. Texts in it have no
// line breaks, since JSON escapes them.
func relevel(value, indent, unit string) string {
	lines := strings.Split(value, "\n")
	for i, line := range lines[1:] {
		rest := strings.TrimLeft(line, " ")
		lines[i+1] = indent + strings.Repeat(unit, (len(line)-len(rest))/2) + rest
	}
	return strings.Join(lines, "\n")
}

// indentOf returns the spaces before a member that begins a line.
func indentOf(e hujson.Extra) (string, bool) {
	at := bytes.LastIndexByte(e, '\n')
	if at < 0 || len(bytes.TrimSpace(e[at:])) != 0 {
		return "", false
	}
	return string(e[at+1:]), true
}

// splitLast parts what stands before a closing brace from that brace's own line.
func splitLast(e hujson.Extra) (before, closing hujson.Extra) {
	at := bytes.LastIndexByte(e, '\n')
	if at < 0 {
		return e, hujson.Extra("\n")
	}
	return bytes.Clone(e[:at]), bytes.Clone(e[at:])
}

// endpointKeys are those of an entry that a source decides; all others are the
// owner's own.
var endpointKeys = []string{"command", "args", "env", "cwd", "url", "httpUrl", "serverUrl", "baseUrl", "headers", "type", "transport", "disabled", "enabled", "isActive"}

// replaceEntry puts the source's endpoint into an entry and leaves the owner's
// settings of it alone.
func replaceEntry(top *hujson.Object, own map[string]existing, item Item) error {
	var old existing
	for _, e := range own {
		if e.key == item.Name {
			old = e
		}
	}
	sec := findMember(top, old.section)
	if sec == nil {
		return errors.New("the entry is gone")
	}
	servers, ok := sec.Value.Value.(*hujson.Object)
	if !ok {
		return fmt.Errorf("%q is no object", old.section)
	}
	m := findMember(servers, old.key)
	entry, ok := m.Value.Value.(*hujson.Object)
	if !ok {
		return fmt.Errorf("%q is no object", old.key)
	}
	wanted := map[string]bool{}
	for _, f := range fieldsOf(item.Server, "") {
		wanted[f.key] = true
		if have := findMember(entry, f.key); have != nil {
			v, err := hujson.Parse([]byte(f.json))
			if err != nil {
				return err
			}
			have.Value.Value = v.Value
			continue
		}
		if err := appendMember(entry, f.key, f.json, 3); err != nil {
			return err
		}
	}
	entry.Members = slices.DeleteFunc(entry.Members, func(m hujson.ObjectMember) bool {
		key := m.Name.Value.(hujson.Literal).String()
		return slices.Contains(endpointKeys, key) && !wanted[key]
	})
	return nil
}

type jsonField struct{ key, json string }

// fieldsOf is an entry of this product's own, member by member. Only what is set
// is written.
func fieldsOf(s Server, preset string) []jsonField {
	var out []jsonField
	add := func(key, json string) { out = append(out, jsonField{key, json}) }
	str := func(v string) string { return string(hujson.String(v)) }
	if s.Command != "" {
		add("command", str(s.Command))
	}
	if len(s.Args) > 0 {
		words := make([]string, len(s.Args))
		for i, a := range s.Args {
			words[i] = str(a)
		}
		add("args", "["+strings.Join(words, ", ")+"]")
	}
	if s.URL != "" {
		add("url", str(s.URL))
	}
	if s.Type != "" {
		add("type", str(s.Type))
	}
	for _, p := range []struct {
		key   string
		pairs []Pair
	}{{"headers", s.Headers}, {"env", s.Env}} {
		if len(p.pairs) > 0 {
			add(p.key, pairsJSON(p.pairs))
		}
	}
	if s.Cwd != "" {
		add("cwd", str(s.Cwd))
	}
	if s.Timeout > 0 {
		add("timeout", str(timeoutText(s.Timeout)))
	}
	if s.Disabled {
		add("disabled", "true")
	}
	if preset != "" {
		add("preset", str(preset))
	}
	return out
}

func pairsJSON(pairs []Pair) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, p := range lastOfEach(pairs, func(p Pair) string { return p.Name }) {
		if i > 0 {
			b.WriteString(", ")
		}
		b.Write(hujson.String(p.Name))
		b.WriteString(": ")
		b.Write(hujson.String(p.Value))
	}
	b.WriteByte('}')
	return b.String()
}

// entryJSON is an entry over several lines.
func entryJSON(item Item) string {
	var b strings.Builder
	b.WriteString("{")
	for i, f := range fieldsOf(item.Server, item.preset) {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "\n  %q: %s", f.key, f.json)
	}
	b.WriteString("\n}")
	return b.String()
}

// applyYAML adds each entry on one line, in YAML's flow form, right below the
// line that opens the section, or at the end of a file that has none.
func (t *Target) applyYAML(p Plan) ([]byte, error) {
	end := "\n"
	if bytes.Contains(t.text, []byte("\r\n")) {
		end = "\r\n"
	}
	indent, at := "  ", -1
	sec := t.root.get(ownSection)
	if sec != nil && sec.kind == object && len(sec.members) > 0 {
		first := sec.members[0]
		key := slices.IndexFunc(t.root.members, func(m member) bool { return m.key == ownSection })
		if first.pos.Line == t.root.members[key].pos.Line {
			return nil, fmt.Errorf("edit %s: %q is written on one line: write a server a line, or add the entries by hand", t.name, ownSection)
		}
		indent, at = strings.Repeat(" ", first.pos.Col-1), t.root.members[key].pos.Line
	} else if sec != nil {
		return nil, fmt.Errorf("edit %s: %q is there and empty: take it out, or add the entries by hand", t.name, ownSection)
	}
	var lines strings.Builder
	for _, item := range p.Items {
		switch item.Action {
		case Replace:
			return nil, fmt.Errorf("edit %s: an entry of a YAML file is not replaced: change %s by hand", t.name, item.Name)
		case Add:
			fmt.Fprintf(&lines, "%s%s: {", indent, string(hujson.String(item.Name)))
			for i, f := range fieldsOf(item.Server, item.preset) {
				if i > 0 {
					lines.WriteString(", ")
				}
				fmt.Fprintf(&lines, "%s: %s", f.key, f.json)
			}
			lines.WriteString("}" + end)
		}
	}
	if at < 0 {
		out := bytes.Clone(t.text)
		if len(out) > 0 && !bytes.HasSuffix(out, []byte("\n")) {
			out = append(out, end...)
		}
		return append(append(out, ownSection+":"+end...), lines.String()...), nil
	}
	offset := 0
	for range at {
		next := bytes.IndexByte(t.text[offset:], '\n')
		if next < 0 {
			return nil, fmt.Errorf("edit %s: its lines could not be counted", t.name)
		}
		offset += next + 1
	}
	return slices.Concat(t.text[:offset], []byte(lines.String()), t.text[offset:]), nil
}
