package catalog

import (
	"unicode"
	"unicode/utf8"
)

// EstimateTokens returns about how many tokens a language model is charged for
// b, JSON or prose. It is an estimate and must be shown as one: it knows no
// vocabulary, only how long the pieces are that byte-pair encodings make of
// letters, digits, marks and spaces. On tool definitions it stays within a
// tenth of OpenAI's o200k encoding, see the test; other encodings differ from
// that one by as much again.
func EstimateTokens(b []byte) int {
	var t tokenCount
	for i := 0; i < len(b); {
		c := b[i]
		n := 1
		switch {
		case c >= utf8.RuneSelf:
			var r rune
			r, n = utf8.DecodeRune(b[i:])
			t.foreign(r)
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			n = run(b[i:], isLetter)
			t.word(b[i : i+n])
		case c >= '0' && c <= '9':
			n = run(b[i:], isDigit)
			t.tokens += float64((n + 2) / 3)
		case c == ' ':
			if n = run(b[i:], isSpace); n > 1 {
				t.tokens++ // one space belongs to the word after it
			}
		case c == '\n' || c == '\t' || c == '\r':
			n = run(b[i:], isSpace)
			t.tokens++
		default:
			n = run(b[i:], isMark)
			t.marks(n)
		}
		i += n
	}
	return int(t.tokens + 0.5)
}

type tokenCount struct{ tokens float64 }

// word adds a run of letters, which is cut where lower case goes up and, when
// long, into pieces.
func (t *tokenCount) word(w []byte) {
	start := 0
	for i := 1; i <= len(w); i++ {
		if i < len(w) && !(isUpper(w[i]) && !isUpper(w[i-1])) {
			continue
		}
		t.tokens += piecesOf(i - start)
		start = i
	}
}

// The shares were fitted to the encoding of about 1,300 tool definitions.
const (
	longWord   = 9    // letters; most words up to here are one token
	pieceOf    = 6.5  // letters a token in what is longer
	markTokens = 0.58 // of a token, each mark beyond the first of a run
	firstMark  = 0.90
)

func piecesOf(letters int) float64 {
	if letters <= longWord {
		return 1
	}
	return 1 + float64(letters-longWord)/pieceOf
}

// marks adds a run of punctuation: JSON's usual groups are tokens of their own.
func (t *tokenCount) marks(n int) {
	t.tokens += firstMark + markTokens*float64(max(0, (n-2)/2))
}

// foreign adds a character beyond ASCII.
func (t *tokenCount) foreign(r rune) {
	switch {
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul):
		t.tokens += 0.75
	case unicode.IsLetter(r):
		t.tokens += 0.4
	case r > 0xffff:
		t.tokens += 2
	default:
		t.tokens++
	}
}

func run(b []byte, in func(byte) bool) int {
	n := 0
	for n < len(b) && in(b[n]) {
		n++
	}
	return max(n, 1)
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func isUpper(c byte) bool  { return c >= 'A' && c <= 'Z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isSpace(c byte) bool  { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }
func isMark(c byte) bool {
	return c < utf8.RuneSelf && !isLetter(c) && !isDigit(c) && !isSpace(c)
}
