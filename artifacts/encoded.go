package artifacts

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/mcp-gate/mcp-gate/engagement"
)

const rowLevel = engagement.RowLevel

const (
	// minRun is the shortest run of base64 or hexadecimal digits looked into:
	// three short rows fit in no fewer.
	minRun = 24
	// minBlob is from where on bytes that nothing recognises are a file's
	// contents. Keys, digests and signatures are shorter.
	minBlob = 1 << 10
	// minAlphabet is how many different digits a run of base64 of minBlob bytes
	// has at least; rules, sequences of bases and the like have fewer.
	minAlphabet = 20
)

// digit says which bytes are digits of base64, in either alphabet.
var digit = func() (t [256]bool) {
	for c := 'a'; c <= 'z'; c++ {
		t[c], t[c-32] = true, true
	}
	for c := '0'; c <= '9'; c++ {
		t[c] = true
	}
	for _, c := range "+/-_" {
		t[c] = true
	}
	return t
}()

// padded says the same with the sign that fills up the last digits.
var padded = func() [256]bool { t := digit; t['='] = true; return t }()

// encoded looks into runs of base64 or hexadecimal digits and into data URIs.
func (in *inspector) encoded(b []byte, has *census, layer int) {
	if has[':'] > 0 && has[','] > 0 {
		in.dataURIs(b, layer)
	}
	if has['~'] > 1 {
		if whole, ok := from85(b); ok && layer < maxLayers && in.afford(len(whole)) {
			in.decoded(whole, layer)
		}
	}
	if digits := squeezed(b); digits != nil {
		in.run(digits, layer)
	}
	if nextRun(b, 0, &digit) == len(b) {
		return
	}
	for at := 0; at < len(b); {
		if at = nextRun(b, at, &padded); at == len(b) {
			return
		}
		if !digit[b[at]] {
			at++
			continue
		}
		end := runEnd(b, at)
		if end-at >= minRun {
			in.run(b[at:end], layer)
		}
		at = end // not one further: behind the sign of "photo=" the run begins at once
	}
}

// nextRun returns where minRun bytes of a kind begin to stand together, len(b)
// if they do nowhere. Where few do, it looks at one byte in minRun and the ones
// before it.
func nextRun(b []byte, at int, kind *[256]bool) int {
	for at+minRun <= len(b) {
		i := at + minRun - 1
		for i >= at && kind[b[i]] {
			i--
		}
		if i < at {
			return at
		}
		at = i + 1
	}
	return len(b)
}

// runEnd returns where the run of digits at i ends, padding included. Lines of
// one length, as MIME breaks base64, are one run.
func runEnd(b []byte, i int) int {
	start, width := i, 0
	for {
		line := i
		for i < len(b) && digit[b[i]] {
			i++
		}
		next := i
		for next < len(b) && next < i+2 && (b[next] == '\r' || b[next] == '\n') {
			next++
		}
		n := i - line
		if width == 0 {
			width = n
		}
		if next == i || n < minRun || n != width || next >= len(b) || !digit[b[next]] || wordLength(b[next:], width+1) > width {
			break
		}
		i = next
	}
	for i < len(b) && i-start > 1 && b[i] == '=' {
		i++
	}
	return i
}

func wordLength(b []byte, most int) int {
	n := 0
	for n < len(b) && n < most && digit[b[n]] {
		n++
	}
	return n
}

// run looks into one run of digits.
func (in *inspector) run(digits []byte, layer int) {
	if layer >= maxLayers || !in.afford(len(digits)) {
		in.partial = true
		return
	}
	if b, ok := fromHex(digits); ok {
		in.decoded(b, layer)
	}
	if b, ok := from32(digits); ok && isText(b) {
		in.text(b, layer+1)
	}
	if b, ok := fromBase64(digits); ok {
		if len(b) >= minBlob && alphabet(digits) < minAlphabet {
			return
		}
		in.decoded(b, layer)
	}
}

// decoded looks at the bytes that a run stood for: a recognised file, text, or
// a blob when it is large. Chance makes of a short word neither.
func (in *inspector) decoded(b []byte, layer int) {
	if m := in.blob(b, layer); m.Type != "" {
		return
	}
	text, wide := fromUTF16(b)
	if !wide {
		text = b
	}
	if isText(text) {
		in.text(text, layer+1)
	}
	if len(b) >= minBlob {
		in.found = in.found.Union(rows)
	}
}

// decode returns the bytes of a base64 string in JSON.
func (in *inspector) decode(quoted []byte) ([]byte, bool) {
	text, ok := in.unquote(quoted)
	if !ok || !in.afford(len(text)) {
		return nil, false
	}
	return fromBase64(text)
}

// fromBase64 decodes either alphabet, padded or not, with line breaks or not.
func fromBase64(text []byte) ([]byte, bool) {
	text = bytes.TrimRight(text, "=\r\n ")
	encoding := base64.RawStdEncoding
	if bytes.IndexByte(text, '-') >= 0 || bytes.IndexByte(text, '_') >= 0 {
		encoding = base64.RawURLEncoding
	}
	out := make([]byte, encoding.DecodedLen(len(text)))
	n, err := encoding.Decode(out, text)
	return out[:n], err == nil
}

func fromHex(digits []byte) ([]byte, bool) {
	if len(digits)%2 != 0 {
		return nil, false
	}
	for _, c := range digits {
		if !isDigit(c) && (c|0x20 < 'a' || c|0x20 > 'f') {
			return nil, false
		}
	}
	out := make([]byte, len(digits)/2)
	_, err := hex.Decode(out, digits)
	return out, err == nil
}

func alphabet(digits []byte) int {
	var seen [256]bool
	n := 0
	for _, c := range digits {
		if !seen[c] {
			seen[c] = true
			n++
		}
	}
	return n
}

// fromUTF16 turns UTF-16 into UTF-8: where a byte order mark begins it, or where
// every other byte of its beginning is zero, as in text of Latin letters.
func fromUTF16(b []byte) ([]byte, bool) {
	if len(b) < 4 || len(b)%2 != 0 {
		return nil, false
	}
	big, marked := b[0] == 0xfe && b[1] == 0xff, b[0] == 0xff && b[1] == 0xfe
	if marked = marked || big; marked {
		b = b[2:]
	} else {
		head := b[:min(len(b), 64)]
		if big = b[0] == 0; b[0] != 0 && b[1] != 0 || len(head) < minRun {
			return nil, false
		}
		for i := 0; i < len(head); i += 2 {
			if (head[i] == 0) != big || (head[i+1] == 0) == big {
				return nil, false
			}
		}
	}
	units := make([]uint16, 0, len(b)/2)
	for i := 0; i < len(b); i += 2 {
		hi, lo := b[i+1], b[i]
		if big {
			hi, lo = lo, hi
		}
		units = append(units, uint16(hi)<<8|uint16(lo))
	}
	return []byte(string(utf16.Decode(units))), true
}

// isText reports whether b is UTF-8 in which nothing but line ends and tabs is
// a control character.
func isText(b []byte) bool {
	for _, c := range b[:min(len(b), 1<<12)] {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' && c != 0x1b && c != '\f' {
			return false
		}
	}
	return utf8.Valid(b)
}

// dataURIs looks into data: URIs that are not base64, whose digits are looked
// at anyway.
func (in *inspector) dataURIs(b []byte, layer int) {
	for {
		i := bytes.Index(b, []byte("data:"))
		if i < 0 || layer >= maxLayers {
			return
		}
		b = b[i+5:]
		head := b[:min(len(b), 128)]
		comma := bytes.IndexByte(head, ',')
		if comma < 0 || bytes.ContainsAny(head[:comma], " \n\"'") || bytes.Contains(head[:comma], []byte("base64")) || bytes.IndexByte(head[:comma], '/') < 0 {
			continue
		}
		body := b[comma+1:]
		if end := bytes.IndexAny(body, " \t\n\r\"'<>)"); end >= 0 {
			body = body[:end]
		}
		b = b[comma+1+len(body):]
		text, err := url.PathUnescape(string(body))
		if err != nil {
			in.found = in.found.Union(rows)
			continue
		}
		if m := in.blob([]byte(text), layer); m.Type == "" {
			in.text([]byte(text), layer+1)
		}
	}
}
