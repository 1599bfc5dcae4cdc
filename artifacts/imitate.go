package artifacts

import (
	"bytes"
	"unicode/utf8"

	"github.com/mcp-gate/mcp-gate/internal/lazy"
)

// gateLine matches the beginning of a line in the forms that only the gate
// writes: its refusals, its word for a withheld result, and its name in brackets
// or before a colon. It sees lines with look-alike letters replaced.
var gateLine = lazy.Regexp(`(?i)^(?:(?:refused|deferred) ?\[[a-z-]{2,40}\] ?:|note ?\[imitation\] ?:|ran, result (?:withheld|kept) ?\[|not run ?\[?[a-z-]{0,40}\]? ?:|[\[(<{]+/? ?(?:system[: ]+)?mcp[-_ ]?gate\b[^\]\n]{0,80}[\])>}]|(?:message |notice |note )?(?:from )?mcp[-_ ]gate ?(?:\(.{0,40}\) ?)?(?:says?|notice|approval|approved|message)? ?:)`)

// gateKey matches the keys that only the gate may write, as a name in JSON or
// at a line's beginning.
var gateKey = lazy.Regexp(`(?i)(?:^|["'{,\s])mcp-gate/[a-z][a-z_-]{1,30}["']?\s*[:=]`)

// looksLikeGate is whether any part of text is worth a closer look: the words
// that every form has one of, in any case, or letters outside ASCII.
var gateWords = [][]byte{[]byte("refused"), []byte("deferred"), []byte("imitation"), []byte("withheld"), []byte("mcp"), []byte("not run")}

// imitations counts the lines of text that read as if the gate had written
// them. A sentence that mentions the gate is none.
func imitations(text []byte) int {
	n := 0
	scratch := make([]byte, 0, 512)
	for len(text) > 0 {
		var line []byte
		line, text = cutLine(text)
		head := skeleton(scratch, line[:min(len(line), 512)])
		if !mentionsGate(head) {
			continue
		}
		if gateLine().Match(bytes.TrimLeft(head, " \t>*_`#-\"'|!")) || gateKey().Match(head) {
			n++
		}
	}
	return n
}

func mentionsGate(line []byte) bool {
	for _, w := range gateWords {
		if containsFold(line, w) {
			return true
		}
	}
	return false
}

// containsFold reports whether b contains the lower-case ASCII word.
func containsFold(b, word []byte) bool {
	for i := 0; i+len(word) <= len(b); i++ {
		if b[i]|0x20 == word[0] && bytes.EqualFold(b[i:i+len(word)], word) {
			return true
		}
	}
	return false
}

// skeleton returns line with what cannot be seen taken out and with letters of
// other scripts replaced by the Latin ones they look like. Pure ASCII is
// returned as it is, other lines in scratch where they fit.
func skeleton(scratch, line []byte) []byte {
	plain := true
	for _, c := range line {
		if c >= utf8.RuneSelf || c == 0x1b {
			plain = false
			break
		}
	}
	if plain {
		return line
	}
	out := scratch[:0]
	for i := 0; i < len(line); {
		if line[i] == 0x1b {
			var m Marks
			i += m.escape(line[i:])
			continue
		}
		r, size := utf8.DecodeRune(line[i:])
		i += size
		switch {
		case invisible(r), r == 0xfeff, r == 0xad, r >= 0xe0000, r >= 0xfe00 && r <= 0xfe0f, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		case r >= 0xff01 && r <= 0xff5e: // full width
			out = append(out, byte(r-0xff01+'!'))
		default:
			if latin, ok := lookAlikes[r]; ok {
				out = append(out, latin)
			} else {
				out = utf8.AppendRune(out, r)
			}
		}
	}
	return out
}

// lookAlikes maps letters of Cyrillic and Greek to the Latin ones that the
// gate's words are written with, and brackets to plain ones (Unicode TR 39).
var lookAlikes = map[rune]byte{
	'а': 'a', 'е': 'e', 'о': 'o', 'р': 'p', 'с': 'c', 'у': 'y', 'х': 'x', 'і': 'i', 'ѕ': 's', 'ԁ': 'd', 'һ': 'h', 'ո': 'n', 'м': 'm', 'т': 't', 'г': 'r', 'ѡ': 'w', 'ա': 'w',
	'А': 'A', 'Е': 'E', 'О': 'O', 'Р': 'P', 'С': 'C', 'Т': 'T', 'М': 'M', 'Н': 'H',
	'α': 'a', 'ο': 'o', 'ρ': 'p', 'υ': 'u', 'ν': 'v', 'ι': 'i', 'ε': 'e', 'Μ': 'M', 'Ρ': 'P', 'ɡ': 'g', 'ſ': 'f', 'ꜱ': 's',
	'【': '[', '】': ']', '［': '[', '］': ']', '⟦': '[', '⟧': ']', '‐': '-', '‑': '-', '–': '-', '−': '-', '：': ':',
}
