package artifacts

import "bytes"

// maxInnocent bounds the texts that [isInnocent] tells of: none of its counts
// can be more than a byte holds.
const maxInnocent = 255

// Counts of the bytes of a short text, a byte of a word each.
const (
	countNeedy  = 8 * iota // what some look may begin at
	countStops             // full stops
	countSplits            // what records of one line are apart by
	countOpen              // round brackets
	countColons
	countCommas
	countOther // neither digits of base64 nor space
)

// innocence has what each byte adds to the counts.
var innocence = func() (t [256]uint64) {
	for c := range t {
		b := byte(c)
		if c < ' ' || c >= 0x7f || bytes.IndexByte([]byte("&<=[\\%{~"), b) >= 0 {
			t[c] |= 1 << countNeedy
		}
		if bytes.IndexByte([]byte(";|>})]"), b) >= 0 {
			t[c] |= 1 << countSplits
		}
		if !padded[c] && b != ' ' {
			t[c] |= 1 << countOther
		}
	}
	t['.'] |= 1 << countStops
	t['('] |= 1 << countOpen
	t[':'] |= 1 << countColons
	t[','] |= 1 << countCommas
	return t
}()

// isInnocent reports whether a look at text can find nothing, without that look,
// but perhaps in runs of digits: most strings of a JSON value are a few words, or
// one that names something. It knows of each look what it cannot do without, so
// that whoever adds one has to see to it here.
func isInnocent(text []byte) (innocent, runs bool) {
	if len(text) > maxInnocent {
		return false, false
	}
	n := uint64(0)
	for _, c := range text {
		n += innocence[c]
	}
	count := func(which int) int { return int(n >> which & 0xff) }
	switch {
	case count(countNeedy) > 0,
		count(countStops) >= madeLeast, count(countSplits) >= madeLeast, // isMadeInLine
		count(countOpen) >= minRows, // isBrackets
		count(countColons) > 0 && count(countCommas) > 0 && bytes.Contains(text, []byte("data:")),
		gatePhrases().next(text, 0) != len(text):
		return false, false
	}
	return true, len(text) >= minRun && (count(countOther) == 0 || nextRun(text, 0, &digit) < len(text))
}

// unmarked is the census of a text without the bytes that mark what is encoded,
// as the innocent are.
var unmarked census
