package upstream

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// stderrKept is how much of a server's stderr is kept.
const stderrKept = 64 << 10

// ring keeps the last bytes that were written to it. Safe for concurrent use.
type ring struct {
	mu   sync.Mutex // guards what follows
	buf  []byte
	at   int  // where the next byte goes once buf is full
	full bool // older bytes have been lost
	size int
}

func newRing(size int) *ring { return &ring{size: size} }

// Write never fails and never waits.
func (r *ring) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(b)
	if n > r.size {
		b, r.full = b[n-r.size:], true
	}
	if room := r.size - len(r.buf); room > 0 {
		take := min(room, len(b))
		r.buf = append(r.buf, b[:take]...)
		b = b[take:]
	}
	for len(b) > 0 {
		r.full = true
		c := copy(r.buf[r.at:], b)
		r.at = (r.at + c) % r.size
		b = b[c:]
	}
	return n, nil
}

// text returns what is kept, printable, from the first whole line on.
func (r *ring) text() string {
	r.mu.Lock()
	all := string(r.buf[r.at:]) + string(r.buf[:r.at])
	cut := r.full
	r.mu.Unlock()
	if cut {
		if _, rest, ok := strings.Cut(all, "\n"); ok {
			all = rest
		}
	}
	return printable(all)
}

// lastLines returns the last n lines that are not blank, joined by " | ", at
// most 400 bytes of them.
func (r *ring) lastLines(n int) string {
	lines := strings.Split(r.text(), "\n")
	var last []string
	for i := len(lines) - 1; i >= 0 && len(last) < n; i-- {
		if line := strings.TrimSpace(lines[i]); line != "" {
			last = append([]string{line}, last...)
		}
	}
	text := strings.Join(last, " | ")
	if len(text) > 400 {
		cut := len(text) - 400
		for cut < len(text) && !utf8.RuneStart(text[cut]) {
			cut++
		}
		text = "..." + text[cut:]
	}
	return text
}

// printable makes every rune visible that a terminal or a page could obey
// instead of show. Line ends and tabs stay.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n' || r == '\t' || (unicode.IsPrint(r) && !unicode.Is(unicode.Cf, r)):
			b.WriteRune(r)
		case r == '\r':
		default:
			const hex = "0123456789abcdef"
			if r < 0x100 {
				b.WriteString(`\x` + string(hex[r>>4]) + string(hex[r&15]))
			} else {
				b.WriteString(`\u{`)
				for shift := 20; shift >= 0; shift -= 4 {
					if d := r >> shift & 15; d != 0 || r>>shift > 0 || shift == 0 {
						b.WriteByte(hex[d])
					}
				}
				b.WriteByte('}')
			}
		}
	}
	return b.String()
}
