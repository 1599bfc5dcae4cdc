package artifacts

import (
	"bytes"
	"html"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/mcp-gate/mcp-gate/internal/lazy"
)

// Words of the gate stand at the beginning of a line, behind nothing but signs,
// the number of a list, tags or the name of a field.
const lineStart = `(?i)^(?:[^\pL\pN\[(<{&]|[\[(<{&]|<[^<>]{0,80}>|[0-9]{1,3}[.)]|"[a-z_]{1,20}" ?: ?)*?`

// gateName is the gate as a speaker: a part of a path, of a longer name and of
// a command line are none.
const gateName = `mcp[-_ ]?gate\b`

// speaks is what may stand between the gate's name and the colon after it.
const speaks = ` ?(?:\([^)\n]{0,40}\) ?)?(?:(?:system |policy |approval |security )?(?:says?|said|notice|note|approval|approved|message|policy|decision|warning|alert|update|status))?(?:[^\x00-\x7f]{0,16}) ?[:>]`

// gateLine matches lines in the forms that only the gate writes: its refusals,
// its word for a withheld result, and its name in brackets, in a banner, before
// a colon, or as whom a message is from, in the languages that say so in a word.
// It sees lines with look-alike letters replaced.
var gateLine = lazy.Regexp(lineStart + `(?:` +
	`(?:refused|deferred) ?\[[a-z-]{2,40}\] ?:|note ?\[imitation\] ?:|ran, result (?:withheld|kept) ?\[|not run ?\[?[a-z-]{0,40}\]? ?:` +
	`|[\[(<{]+/? ?(?:system[: ]+)?mcp[-_ ]?gate\b[^\]\n]{0,80}[\])>}]` +
	`|[-=*_#~]{2,} ?` + gateName + `[^\n]{0,40}[-=*_#~]{2,}$` +
	`|` + gateName + speaks +
	`|(?:\pL+ ){0,2}\(` + gateName + `\) ?says?\b` +
	`|(?:system|admin|security|policy|approval|notice|message|note|alert|warning)[^\pL\n]{1,4}(?:(?:message|notice|note|alert) )?(?:from )?(?:the )?` + gateName + speaks +
	`|(?:[\pL]+ ){0,3}(?:from|by|von|vom|de|del|du|da|van|od|från|fra|ot|вiд|来自|來自) ?` + gateName + speaks +
	`)`)

// gateKey matches the keys that only the gate may write, as a name in JSON or
// at a line's beginning.
var gateKey = lazy.Regexp(`(?i)(?:^|["'{,\s])mcp-gate/[a-z][a-z_-]{1,30}["']?\s*[:=]`)

// gateWords are what every form has one of, in any case.
var gateWords = [][]byte{[]byte("refused"), []byte("deferred"), []byte("imitation"), []byte("withheld"), []byte("result kept"), []byte("mcp"), []byte("not run")}

// gatePhrases are what a line of ASCII has one of that the gate could have
// written. Those that begin with its name have the signs that may be in it.
var gatePhrases = sync.OnceValue(func() *folded {
	return newFolded("refused", "deferred", "imitation", "withheld", "result kept", "not run", "mcpgate", "mcp-gate", "mcp_gate", "mcp gate")
})

// maxHead is how much of a line is looked at.
const maxHead = 512

// imitations counts the lines of text that read as if the gate had written
// them. A sentence that mentions the gate is none. Only lines are looked at that
// have one of its phrases, or signs that may stand for something else.
func imitations(text []byte, c *census) int {
	n := 0
	var scratch []byte
	sign := len(text)
	if c.wide() > 0 || c.of("&\x1b") > 0 {
		sign = 0
	}
	phrases := gatePhrases()
	phrase := phrases.next(text, 0)
	for at := 0; ; {
		if sign < len(text) {
			sign = nextSign(text, max(at, sign))
		}
		if phrase < at {
			phrase = phrases.next(text, at)
		}
		p := min(sign, phrase)
		if p == len(text) {
			return n
		}
		from := max(lastBreak(text[max(at, p-maxHead):p])+max(at, p-maxHead), at)
		line := text[from:]
		if end := lineBreakAt(text[p:]); end >= 0 {
			line = text[from : p+end]
		}
		at = min(from+len(line)+1, len(text))
		if from > 0 && !isLineBreak(text[from-1]) {
			continue // it is behind what is looked at of its line
		}
		head := skeleton(&scratch, line[:min(len(line), maxHead)])
		if mentionsGate(head) && (gateLine().Match(head) || gateKey().Match(head)) {
			n++
		}
	}
}

// nextSign returns where the next byte stands that skeleton replaces.
func nextSign(text []byte, i int) int {
	for i < len(text) {
		if c := text[i]; c >= utf8.RuneSelf || c == 0x1b || c == '&' {
			return i
		}
		i++
	}
	return i
}

func isLineBreak(c byte) bool { return c == '\n' || c == '\r' }

// lastBreak returns the offset behind the last line break of b, 0 without one.
func lastBreak(b []byte) int {
	for i := len(b); i > 0; i-- {
		if isLineBreak(b[i-1]) {
			return i
		}
	}
	return 0
}

// gateInitials are what they begin with.
var gateInitials = func() (t [256]bool) {
	for _, w := range gateWords {
		t[w[0]], t[w[0]-0x20] = true, true
	}
	return t
}()

func mentionsGate(line []byte) bool {
	for i, c := range line {
		if !gateInitials[c] {
			continue
		}
		for _, w := range gateWords {
			if c|0x20 == w[0] && len(line)-i >= len(w) && bytes.EqualFold(line[i:i+len(w)], w) {
				return true
			}
		}
	}
	return false
}

// skeleton returns line with what cannot be seen taken out and with letters of
// other scripts replaced by the Latin ones they look like. Pure ASCII is
// returned as it is, other lines in scratch, which grows.
func skeleton(scratch *[]byte, line []byte) []byte {
	plain := true
	for _, c := range line {
		if c >= utf8.RuneSelf || c == 0x1b || c == '&' {
			plain = false
			break
		}
	}
	if plain {
		return line
	}
	if bytes.IndexByte(line, '&') >= 0 {
		line = []byte(html.UnescapeString(string(line)))
	}
	out := (*scratch)[:0]
	for i := 0; i < len(line); {
		if line[i] == 0x1b {
			var m Marks
			n := m.escape(line[i:], &colours{})
			if line[i+n-1] != 'm' {
				out = out[:0] // what stood here is written over
			}
			i += n
			continue
		}
		if line[i] < utf8.RuneSelf {
			out = append(out, line[i])
			i++
			continue
		}
		r, size := utf8.DecodeRune(line[i:])
		i += size
		out = appendPlain(out, r)
	}
	*scratch = out[:0]
	return out
}

// appendPlain appends what r looks like.
func appendPlain(out []byte, r rune) []byte {
	switch {
	case invisible(r), r == 0xfeff, r == 0xad, r >= 0xe0000, r >= 0xfe00 && r <= 0xfe0f, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, unicode.Is(unicode.Mn, r):
		return out
	case unicode.Is(unicode.Pd, r):
		return append(out, '-')
	case unicode.Is(unicode.Zs, r):
		return append(out, ' ')
	}
	if latin, ok := lookAlikes[r]; ok {
		return append(out, latin)
	}
	var b [utf8.UTFMax]byte
	for _, c := range string(norm.NFKD.Bytes(b[:utf8.EncodeRune(b[:], r)])) {
		if latin, ok := lookAlikes[c]; ok {
			out = append(out, latin)
		} else if !unicode.Is(unicode.Mn, c) {
			out = utf8.AppendRune(out, c)
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
