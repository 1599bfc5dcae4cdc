package audit

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"
)

// MaxArgs bounds the arguments in one line, in bytes.
const MaxArgs = 64 << 10

const (
	maxText = 512  // bytes of any one text in a line
	maxNote = 2048 // bytes of a note
	// maxLine is what a reader accepts. A line of ours is far shorter: every
	// text at its bound, each byte escaped as six, stays under it.
	maxLine = 1 << 20
)

// appendPlace appends the beginning of a line: its number, and its time as
// [appendTime] spells it.
func appendPlace(dst []byte, seq uint64, stamp []byte) []byte {
	dst = append(dst, `{"seq":`...)
	dst = strconv.AppendUint(dst, seq, 10)
	dst = append(dst, `,"time":"`...)
	return append(append(dst, stamp...), '"')
}

// appendBody appends what stands behind the place: the members of e, each with
// the comma before it. It is written by hand because it runs twice a call on the
// way to the upstream.
func appendBody(dst []byte, e *Event) []byte {
	dst = appendText(dst, `,"kind":"`, e.Kind, maxText)
	dst = appendText(dst, `,"call":"`, e.Call, maxText)
	dst = appendText(dst, `,"session":"`, e.Session, maxText)
	dst = appendText(dst, `,"principal":"`, e.Principal, maxText)
	dst = appendText(dst, `,"client":"`, e.Client, maxText)
	dst = appendText(dst, `,"profile":"`, e.Profile, maxText)
	dst = appendText(dst, `,"scope":"`, e.Scope, maxText)
	dst = appendText(dst, `,"tool":"`, e.Tool, maxText)
	dst = appendText(dst, `,"class":"`, e.Class, maxText)
	dst = appendText(dst, `,"egress":"`, e.Egress, maxText)
	dst = appendText(dst, `,"verdict":"`, e.Verdict, maxText)
	dst = appendText(dst, `,"code":"`, e.Code, maxText)
	dst = appendText(dst, `,"rule":"`, e.Rule, maxText)
	dst = appendText(dst, `,"slice":"`, e.Slice, maxText)
	dst = appendText(dst, `,"ticket":"`, e.Ticket, maxText)
	dst = appendText(dst, `,"level":"`, e.Level, maxText)
	dst = appendText(dst, `,"channel":"`, e.Channel, maxText)
	dst = appendText(dst, `,"binding":"`, e.Binding, maxText)
	dst = appendText(dst, `,"args_sha256":"`, e.ArgsDigest, maxText)
	dst = appendInt(dst, `,"args_bytes":`, e.ArgsSize)
	if n := len(e.Args); n > 0 && n <= MaxArgs && isOneLine(e.Args) {
		dst = appendVisible(append(dst, `,"args":`...), string(e.Args), false)
	}
	dst = appendInt(dst, `,"result_bytes":`, e.ResultSize)
	dst = appendMillis(dst, e.Duration)
	dst = appendText(dst, `,"outcome":"`, e.Outcome, maxText)
	dst = appendText(dst, `,"error":"`, e.ErrorCode, maxText)
	dst = appendText(dst, `,"note":"`, e.Note, maxNote)
	dst = appendText(dst, `,"file":"`, e.File, maxText)
	dst = appendText(dst, `,"next":"`, e.Next, maxText)
	return appendMarks(dst, e.Seen)
}

// isOneLine reports whether args are one JSON value without a line feed, so that
// they cannot end the line or its object.
func isOneLine(args json.RawMessage) bool {
	return bytes.IndexByte(args, '\n') < 0 && json.Valid(args)
}

// appendTime appends t in UTC with six digits of its second. Without those it is
// a form for which package time has a short way.
func appendTime(dst []byte, t time.Time) []byte {
	dst = t.UTC().AppendFormat(dst, time.RFC3339)
	dst[len(dst)-1] = '.' // the Z
	micros := t.Nanosecond() / 1000
	for unit := 100_000; unit > 0; unit /= 10 {
		dst = append(dst, byte('0'+micros/unit%10))
	}
	return append(dst, 'Z')
}

func appendMarks(dst []byte, marks []Mark) []byte {
	if len(marks) == 0 {
		return dst
	}
	dst = append(dst, `,"seen":[`...)
	for i, m := range marks {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '{')
		dst = appendQuoted(dst, `"file":"`, m.File, maxText)
		dst = append(dst, `,"events":`...)
		dst = strconv.AppendUint(dst, m.Events, 10)
		dst = appendQuoted(dst, `,"digest":"`, m.Digest, maxText)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// appendText appends a member unless its text is empty; key is all that stands
// before that, the quote of the text included.
func appendText(dst []byte, key, text string, limit int) []byte {
	if text == "" {
		return dst
	}
	return appendQuoted(dst, key, text, limit)
}

func appendInt(dst []byte, key string, n int64) []byte {
	if n == 0 {
		return dst
	}
	return strconv.AppendInt(append(dst, key...), n, 10)
}

func appendMillis(dst []byte, d time.Duration) []byte {
	us := d.Round(time.Microsecond).Microseconds()
	if us == 0 {
		return dst
	}
	return strconv.AppendFloat(append(dst, `,"duration_ms":`...), float64(us)/1000, 'f', -1, 64)
}

// appendQuoted appends a key and text as a JSON string of at most limit bytes of
// text. A tool's or client's name is foreign: whatever does not print (line feeds,
// escape sequences, bidirectional controls) is escaped, so that a record stays
// one line and a terminal that shows the file is not driven by it.
func appendQuoted(dst []byte, key, text string, limit int) []byte {
	return append(appendVisible(append(dst, key...), cut(text, limit), true), '"')
}

// plain are the bytes that stand in a JSON string as they are, and print.
var plain = func() (t [256]bool) {
	for c := ' '; c < 0x7f; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// appendVisible appends text with every character that does not print escaped
// as in JSON, and quotes and backslashes too if quoted is set.
func appendVisible(dst []byte, text string, quoted bool) []byte {
	i := 0
	for i < len(text) && plain[text[i]] {
		i++
	}
	dst = append(dst, text[:i]...) // mostly all of it
	for i < len(text) {
		c := text[i]
		if c < utf8.RuneSelf {
			i++
			switch {
			case quoted && (c == '"' || c == '\\'):
				dst = append(dst, '\\', c)
			case c < 0x20 || c == 0x7f:
				dst = appendEscape(dst, rune(c))
			default:
				dst = append(dst, c)
			}
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		if unicode.IsPrint(r) {
			dst = utf8.AppendRune(dst, r) // a bad byte becomes U+FFFD, which prints
		} else {
			dst = appendEscape(dst, r)
		}
		i += size
	}
	return dst
}

func appendEscape(dst []byte, r rune) []byte {
	if r > 0xffff {
		r -= 0x10000
		return appendEscape(appendEscape(dst, 0xd800+r>>10), 0xdc00+r&0x3ff)
	}
	const hexDigits = "0123456789abcdef"
	return append(dst, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

// cut shortens text to at most limit bytes, at a rune, with an ellipsis.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const ellipsis = "…"
	end := limit - len(ellipsis)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}
