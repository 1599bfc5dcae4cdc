package artifacts

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// A census is how often each byte stands in a text. Most of what is looked for
// needs some bytes, and need not be looked for where they are missing.
type census [0x100 + 2]uint32

// What is known of the neighbours in a text beside its bytes: 1 where it is so, and
// 0 also where nobody has looked.
const (
	gapless   = 0x100 + iota // no two spaces stand side by side
	sentences                // every byte may stand behind the one before it, by [inSentence]
)

// countBytes takes the census of a text. It is small enough to be written into
// its callers, whose stacks have the room.
func countBytes(text []byte) *census {
	c := new(census)
	c.count(text)
	return c
}

func (c *census) count(text []byte) {
	switch {
	case len(text) < 4<<10:
		for _, b := range text {
			c[b]++
		}
		return
	case len(text) >= 1<<20:
		c.countPairs(text)
		return
	}
	// By turns in four tables: what is counted twice in a row need not wait.
	var more [3]census
	for ; len(text) >= 4; text = text[4:] {
		c[text[0]]++
		more[0][text[1]]++
		more[1][text[2]]++
		more[2][text[3]]++
	}
	for _, b := range text {
		c[b]++
	}
	for i := range c {
		c[i] += more[0][i] + more[1][i] + more[2][i]
	}
}

// countPairs counts pairs of neighbours, which takes no longer where their table is
// small beside the text, and says more.
func (c *census) countPairs(text []byte) {
	pairs := new([1 << 16]uint32)
	for ; len(text) > 8; text = text[8:] {
		w := binary.LittleEndian.Uint64(text)
		pairs[uint16(w)]++
		pairs[uint16(w>>8)]++
		pairs[uint16(w>>16)]++
		pairs[uint16(w>>24)]++
		pairs[uint16(w>>32)]++
		pairs[uint16(w>>40)]++
		pairs[uint16(w>>48)]++
		pairs[uint16(w>>56)|uint16(text[8])<<8]++
	}
	for ; len(text) > 1; text = text[1:] {
		pairs[binary.LittleEndian.Uint16(text)]++
	}
	c[text[0]]++ // the last byte is the first of no pair
	c[gapless], c[sentences] = 1, 1
	for pair, n := range pairs {
		prev, next := byte(pair), byte(pair>>8)
		c[prev] += n
		if n > 0 && !inSentence(prev, next) {
			c[sentences] = 0
		}
	}
	if pairs[' '<<8|' '] > 0 {
		c[gapless] = 0
	}
}

// of is how many of some bytes there are.
func (c *census) of(some string) int {
	n := uint32(0)
	for i := range len(some) {
		n += c[some[i]]
	}
	return int(n)
}

// wide is how many bytes are outside ASCII.
func (c *census) wide() (n int) {
	for _, k := range c[0x80:0x100] {
		n += int(k)
	}
	return n
}

// controls is how many control characters there are that neither end a line nor
// are a tab.
func (c *census) controls() int {
	n := c[0x7f]
	for b, k := range c[:' '] {
		if b != '\n' && b != '\t' && b != '\r' && b != '\f' {
			n += k
		}
	}
	return int(n)
}

const (
	eachByte = 0x0101010101010101
	highBits = 0x80 * eachByte
)

// unusual returns where the next byte stands that is a control character or
// outside ASCII.
func unusual(b []byte, i int) int {
	for i+8 <= len(b) {
		w := binary.LittleEndian.Uint64(b[i:])
		if m := (w | (w - 0x20*eachByte) | (w + eachByte)) & highBits; m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
		i += 8
	}
	for i < len(b) && b[i] >= ' ' && b[i] < 0x7f {
		i++
	}
	return i
}

// folded finds words of at least seven letters and signs of ASCII, in any case,
// by looking at three bytes of every four.
type folded struct {
	heads [1 << 12]uint8 // by the hash of three bytes: 1 + the first place of a word that has them
	all   []foldedAt
}

type foldedAt struct {
	word string
	at   int // of the three bytes in the word
	next uint8
}

// foldedHash is that of the first three bytes of some, whose letters are small.
func foldedHash(small uint32) uint32 { return small << 8 * 0x9e3779b1 >> 20 }

const smallLetters = 0x20 * eachByte

func newFolded(words ...string) *folded {
	f := &folded{}
	for _, w := range words {
		for at := range 4 { // wherever the word begins, one of these is looked at
			head := &f.heads[foldedHash(binary.LittleEndian.Uint32([]byte(w[at:at+4]))|smallLetters&0xffffffff)]
			f.all = append(f.all, foldedAt{w, at, *head})
			*head = uint8(len(f.all))
		}
	}
	return f
}

// next returns where a word stands that is not known to end before i, or
// len(text).
func (f *folded) next(text []byte, i int) int {
	i = max(i, 0)
	for ; i+8 <= len(text); i += 8 {
		w := binary.LittleEndian.Uint64(text[i:]) | smallLetters
		n, m := f.heads[foldedHash(uint32(w))], f.heads[foldedHash(uint32(w>>32))]
		if n|m == 0 {
			continue
		}
		if at, ok := f.at(text, i, n); ok {
			return at
		}
		if at, ok := f.at(text, i+4, m); ok {
			return at
		}
	}
	for ; i+3 <= len(text); i += 4 {
		small := uint32(text[i]) | uint32(text[i+1])<<8 | uint32(text[i+2])<<16 | smallLetters&0xffffffff
		if at, ok := f.at(text, i, f.heads[foldedHash(small)]); ok {
			return at
		}
	}
	return len(text)
}

// at returns where the word begins that has the three bytes at i.
func (f *folded) at(text []byte, i int, n uint8) (int, bool) {
	for n != 0 {
		p := &f.all[n-1]
		n = p.next
		from := i - p.at
		if from >= 0 && from+len(p.word) <= len(text) && bytes.EqualFold(text[from:from+len(p.word)], []byte(p.word)) {
			return from, true
		}
	}
	return 0, false
}
