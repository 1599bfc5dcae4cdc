package catalog

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mcp-gate/mcp-gate/internal/canonjson"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// Change is one place where two definitions differ.
type Change struct {
	// Path leads to the place from the definition's root, as in
	// inputSchema.properties.to.enum[2]. An index is that of the new
	// definition, or of the old one for what was taken away.
	Path     string
	Old, New json.RawMessage // as written; nil where there is none
}

// Diff returns what differs between two definitions, in the order of the new
// one, what was taken away last in its object. It returns none for definitions
// that share a digest: order of members, spacing and escapes do not count.
func Diff(was, now json.RawMessage) ([]Change, error) {
	for _, raw := range []json.RawMessage{was, now} {
		if err := strictjson.Check(raw); err != nil {
			return nil, fmt.Errorf("compare definitions: %w", err)
		}
	}
	var d differ
	d.value("", was, now)
	return d.changes, nil
}

type differ struct{ changes []Change }

func (d *differ) add(path string, was, now json.RawMessage) {
	d.changes = append(d.changes, Change{path, was, now})
}

// value compares two values at one place. Both are strict JSON.
func (d *differ) value(path string, was, now json.RawMessage) {
	switch {
	case sameJSON(was, now):
	case was[0] == '{' && now[0] == '{':
		d.object(path, was, now)
	case was[0] == '[' && now[0] == '[':
		d.array(path, was, now)
	default:
		d.add(path, was, now)
	}
}

func sameJSON(a, b json.RawMessage) bool {
	if string(a) == string(b) {
		return true
	}
	x, errA := canonjson.Append(nil, a)
	y, errB := canonjson.Append(nil, b)
	return errA == nil && errB == nil && string(x) == string(y)
}

func (d *differ) object(path string, was, now json.RawMessage) {
	old, seen := map[string]json.RawMessage{}, map[string]bool{}
	for m := range strictjson.Object(was) {
		old[m.Name] = m.Value
	}
	for m := range strictjson.Object(now) {
		seen[m.Name] = true
		if before, ok := old[m.Name]; ok {
			d.value(memberPath(path, m.Name), before, m.Value)
		} else {
			d.add(memberPath(path, m.Name), nil, m.Value)
		}
	}
	for m := range strictjson.Object(was) {
		if !seen[m.Name] {
			d.add(memberPath(path, m.Name), m.Value, nil)
		}
	}
}

// array compares the items that both have in common, in order, and pairs what
// lies between them.
func (d *differ) array(path string, was, now json.RawMessage) {
	old, new := items(was), items(now)
	at := func(i int) string { return path + "[" + strconv.Itoa(i) + "]" }
	for _, e := range script(canonicalItems(old), canonicalItems(new)) {
		i, j := e.oldFrom, e.newFrom
		for ; i < e.oldTo && j < e.newTo; i, j = i+1, j+1 {
			d.value(at(j), old[i], new[j])
		}
		for ; i < e.oldTo; i++ {
			d.add(at(i), old[i], nil)
		}
		for ; j < e.newTo; j++ {
			d.add(at(j), nil, new[j])
		}
	}
}

func items(array json.RawMessage) []json.RawMessage {
	var all []json.RawMessage
	if json.Unmarshal(array, &all) != nil {
		return nil
	}
	return all
}

func canonicalItems(all []json.RawMessage) []string {
	keys := make([]string, len(all))
	for i, raw := range all {
		if b, err := canonjson.Append(nil, raw); err == nil {
			keys[i] = string(b)
		}
	}
	return keys
}

// memberPath goes on to a member. A name that could be taken for something else
// stands as a JSON string in brackets.
func memberPath(path, name string) string {
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$-") != "" {
		return path + "[" + string(strictjson.AppendString(nil, name)) + "]"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// Text shows the change to a person: a line with +, - or ~ and the path, and
// below it, indented, the value or what of it differs. A text of one line shows
// its words, as in [-taken away-]{+put in+}, a longer one its lines. Show makes
// a foreign text fit to be looked at; nil is [Visible]. The text ends with a
// line break.
func (c Change) Text(show func(string) string) string {
	if show == nil {
		show = Visible
	}
	path := show(c.Path)
	if path == "" {
		path = "(the whole definition)"
	}
	switch {
	case c.Old == nil:
		return "+ " + path + "\n" + indent(shown(c.New, show))
	case c.New == nil:
		return "- " + path + "\n" + indent(shown(c.Old, show))
	case c.Old[0] == '"' && c.New[0] == '"':
		was, now := text(c.Old), text(c.New)
		if strings.Contains(was, "\n") || strings.Contains(now, "\n") {
			return "~ " + path + "\n" + lineDiff(was, now, show)
		}
		return "~ " + path + "\n" + indent(wordDiff(was, now, show))
	}
	return "~ " + path + "\n" + indent("- "+shown(c.Old, show)) + indent("+ "+shown(c.New, show))
}

// shown is a value for a person: a string as its text, anything else as JSON.
func shown(raw json.RawMessage, show func(string) string) string {
	if raw[0] == '"' {
		return show(text(raw))
	}
	return show(string(raw))
}

func indent(s string) string {
	return "    " + strings.ReplaceAll(s, "\n", "\n    ") + "\n"
}

// edit says that old[oldFrom:oldTo] became new[newFrom:newTo].
type edit struct{ oldFrom, oldTo, newFrom, newTo int }

// maxCells bounds the work and the memory of one comparison. What is larger is
// shown as one change from the first difference to the last.
const maxCells = 1 << 22

// script returns the edits that turn a into b, keeping a longest common
// subsequence.
func script(a, b []string) []edit {
	head := 0
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	x, y := a[head:len(a)-tail], b[head:len(b)-tail]
	if len(x) == 0 && len(y) == 0 {
		return nil
	}
	if len(x)*len(y) > maxCells {
		return []edit{{head, head + len(x), head, head + len(y)}}
	}
	width := len(y) + 1
	common := make([]int32, (len(x)+1)*width) // length of the longest one from i, j on
	for i := len(x) - 1; i >= 0; i-- {
		for j := len(y) - 1; j >= 0; j-- {
			if x[i] == y[j] {
				common[i*width+j] = common[(i+1)*width+j+1] + 1
			} else {
				common[i*width+j] = max(common[(i+1)*width+j], common[i*width+j+1])
			}
		}
	}
	return walk(x, y, common, head)
}

func walk(x, y []string, common []int32, head int) []edit {
	var edits []edit
	width := len(y) + 1
	i, j, fromI, fromJ := 0, 0, 0, 0
	flush := func() {
		if fromI < i || fromJ < j {
			edits = append(edits, edit{head + fromI, head + i, head + fromJ, head + j})
		}
	}
	for i < len(x) && j < len(y) {
		switch {
		case x[i] == y[j]:
			flush()
			i, j = i+1, j+1
			fromI, fromJ = i, j
		case common[(i+1)*width+j] >= common[i*width+j+1]:
			i++
		default:
			j++
		}
	}
	i, j = len(x), len(y)
	flush()
	return edits
}

// nearby is how much that stayed is shown around what did not: words in a text
// of one line, lines in a longer one.
const nearbyWords, nearbyLines = 16, 2

func wordDiff(was, now string, show func(string) string) string {
	a, b := tokens(was), tokens(now)
	var out strings.Builder
	at := 0
	keep := func(to int, first, last bool) {
		kept := a[at:to]
		before, after := nearbyWords, nearbyWords
		if first {
			before = 0
		}
		if last {
			after = 0
		}
		if len(kept) > before+after+1 {
			out.WriteString(show(strings.Join(kept[:before], "")) + "…" + show(strings.Join(kept[len(kept)-after:], "")))
			return
		}
		out.WriteString(show(strings.Join(kept, "")))
	}
	for n, e := range script(a, b) {
		keep(e.oldFrom, n == 0, false)
		if e.oldTo > e.oldFrom {
			out.WriteString("[-" + show(strings.Join(a[e.oldFrom:e.oldTo], "")) + "-]")
		}
		if e.newTo > e.newFrom {
			out.WriteString("{+" + show(strings.Join(b[e.newFrom:e.newTo], "")) + "+}")
		}
		at = e.oldTo
	}
	keep(len(a), at == 0, true)
	return out.String()
}

// tokens cuts a text into words, runs of space, and single other characters.
func tokens(s string) []string {
	kind := func(r rune) int {
		switch {
		case unicode.IsSpace(r):
			return 1
		case unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r), r == '_':
			return 2
		}
		return 0
	}
	var all []string
	start, last := 0, -1
	for i, r := range s {
		k := kind(r)
		if i > 0 && (k == 0 || k != last) {
			all = append(all, s[start:i])
			start = i
		}
		last = k
	}
	if start < len(s) {
		all = append(all, s[start:])
	}
	return all
}

func lineDiff(was, now string, show func(string) string) string {
	a, b := strings.Split(was, "\n"), strings.Split(now, "\n")
	var out strings.Builder
	put := func(mark string, lines []string) {
		for _, l := range lines {
			out.WriteString("    " + mark + show(l) + "\n")
		}
	}
	edits := script(a, b)
	at := 0
	for n, e := range edits {
		kept := a[at:e.oldFrom]
		switch {
		case n == 0 && len(kept) > nearbyLines:
			put("  ", append([]string{"…"}, kept[len(kept)-nearbyLines:]...))
		case n > 0 && len(kept) > 2*nearbyLines+1:
			put("  ", kept[:nearbyLines])
			put("  ", append([]string{"…"}, kept[len(kept)-nearbyLines:]...))
		default:
			put("  ", kept)
		}
		put("- ", a[e.oldFrom:e.oldTo])
		put("+ ", b[e.newFrom:e.newTo])
		at = e.oldTo
	}
	rest := a[at:]
	put("  ", rest[:min(nearbyLines, len(rest))])
	if len(rest) > nearbyLines {
		put("  ", []string{"…"})
	}
	return out.String()
}

// widestGap is how many spaces may stand in a row before their number is shown
// instead: a payload that is pushed out of sight stays in sight.
const widestGap = 8

// Visible returns a foreign text as a person can look at it. Line breaks stay.
// Every other control or format character, everything that is drawn as nothing
// or as something else from one font to the next, and every character of
// another script inside a Latin word becomes its number, as in \u{202e}; a long
// run of spaces becomes its length. A backslash stays as it is, so the text is
// for looking at, not for reading back.
func Visible(s string) string {
	var out strings.Builder
	for start := 0; start < len(s); {
		end := start
		for end < len(s) && isWordByte(s[end]) {
			end++
		}
		if end > start {
			out.WriteString(visibleWord(s[start:end]))
			start = end
			continue
		}
		end = start
		for end < len(s) && s[end] == ' ' {
			end++
		}
		switch {
		case end-start > widestGap:
			fmt.Fprintf(&out, "[%d spaces]", end-start)
		case end > start:
			out.WriteString(s[start:end])
		default:
			out.WriteByte(s[start])
			end++
		}
		start = end
	}
	return out.String()
}

// isWordByte reports whether a byte can be a part of a word or of a character
// that has to be looked at.
func isWordByte(b byte) bool {
	return b >= utf8.RuneSelf || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || (b < ' ' && b != '\n') || b == 0x7f
}

func visibleWord(w string) string {
	latin := strings.ContainsFunc(w, func(r rune) bool { return unicode.Is(unicode.Latin, r) })
	var out strings.Builder
	for i, r := range w {
		switch size := utf8.RuneLen(r); {
		case r == utf8.RuneError && !strings.HasPrefix(w[i:], "\uFFFD"):
			fmt.Fprintf(&out, `\x%02x`, w[i])
		case unseen(r), latin && unicode.IsLetter(r) && !unicode.Is(unicode.Latin, r):
			fmt.Fprintf(&out, `\u{%x}`, r)
		default:
			out.WriteString(w[i : i+size])
		}
	}
	return out.String()
}

// unseen reports whether a character cannot be told from nothing, or from
// another, by looking at it.
func unseen(r rune) bool {
	return !unicode.IsGraphic(r) || // controls, formats, private use, surrogates, not assigned
		(r != ' ' && unicode.In(r, unicode.Zs)) ||
		unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
