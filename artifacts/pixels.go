package artifacts

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"io"

	"github.com/mcp-gate/mcp-gate/engagement"
)

// The bounds of looking into a picture: at most maxLook pixels are read, and no
// row or decoded picture may be larger than is cheap to hold.
const (
	maxLook      = 4 << 20
	maxRowBytes  = 1 << 18
	maxAncillary = 16 << 10 // text, profiles and the like that a PNG may carry beside its pixels
)

// classOfPNG tells what a program drew from what a camera or an instrument
// saw. Anything out of the ordinary (16 bits a sample, one bit, interlaced,
// camera data, damaged) is raw; bytes hidden beside the pixels are a file's.
func classOfPNG(b []byte) engagement.EgressSet {
	p, ok := parsePNG(b)
	class := raw
	if ok && p.judge() {
		class = rendered
	}
	if p.extra > maxAncillary || p.after > 0 {
		class = class.Union(rows)
	}
	return class
}

// pngFile is what of a PNG matters here.
type pngFile struct {
	width, height int
	bytesPerPixel int // 1 for palettes, whose samples of 2 or 4 bits are read as they are packed
	bits          int
	rowBytes      int
	data          [][]byte // the compressed pixels, in place
	extra         int      // bytes of chunks that showing it does not need
	after         int      // bytes behind its end
}

// parsePNG walks the chunks. It is false for what will not be looked into.
func parsePNG(b []byte) (pngFile, bool) {
	var p pngFile
	ok, ended := true, false
	for at := 8; at+12 <= len(b); {
		size := int(binary.BigEndian.Uint32(b[at:]))
		name := string(b[at+4 : at+8])
		if size < 0 || size > len(b)-at-12 {
			return p, false
		}
		chunk := b[at+8 : at+8+size]
		at += 12 + size
		switch name {
		case "IHDR":
			ok = p.header(chunk)
		case "IDAT":
			p.data = append(p.data, chunk)
		case "eXIf":
			ok = false
		case "PLTE", "tRNS", "gAMA", "cHRM", "sRGB", "bKGD", "pHYs", "tIME", "sBIT", "hIST", "IEND":
		default: // text, profiles, frames of an animation, private chunks
			p.extra += size
		}
		if name == "IEND" {
			p.after = len(b) - at
			ended = true
			break
		}
	}
	return p, ok && ended && p.rowBytes > 0
}

func (p *pngFile) header(h []byte) bool {
	if len(h) != 13 {
		return false
	}
	p.width, p.height = int(binary.BigEndian.Uint32(h)), int(binary.BigEndian.Uint32(h[4:]))
	p.bits = int(h[8])
	samples := map[byte]int{0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[h[9]]
	palette := h[9] == 3
	if samples == 0 || h[12] != 0 || p.width <= 0 || p.height <= 0 || p.width > maxRowBytes ||
		p.bits != 8 && !(palette && (p.bits == 2 || p.bits == 4)) {
		return false
	}
	p.bytesPerPixel = samples
	p.rowBytes = (p.width*samples*p.bits + 7) / 8
	return p.rowBytes <= maxRowBytes
}

// judge reads rows from the top, as many as the bound allows, one at a time.
func (p *pngFile) judge() bool {
	readers := make([]io.Reader, len(p.data))
	for i, d := range p.data {
		readers[i] = bytes.NewReader(d)
	}
	z, err := zlib.NewReader(io.MultiReader(readers...))
	if err != nil {
		return false
	}
	defer z.Close()
	look := newLook()
	row, above := make([]byte, 1+p.rowBytes), make([]byte, 1+p.rowBytes)
	for y := range p.height {
		if y*p.width > maxLook {
			break
		}
		if _, err := io.ReadFull(z, row); err != nil || !unfilter(row, above[1:], p.bytesPerPixel) {
			return false
		}
		p.see(look, row[1:], above[1:], y > 0)
		row, above = above, row
	}
	return look.rendered()
}

// see counts the pixels of one row. A packed row counts a byte of it as one.
func (p *pngFile) see(look *look, row, above []byte, hasAbove bool) {
	n := p.bytesPerPixel
	for i := 0; i+n <= len(row); i += n {
		var v, left, up uint32
		for k := range n {
			v = v<<8 | uint32(row[i+k])
			up = up<<8 | uint32(above[i+k])
			if i > 0 {
				left = left<<8 | uint32(row[i-n+k])
			}
		}
		look.add(v, i > 0 && v == left, hasAbove && v == up)
	}
}

// unfilter undoes the filter that row[0] names, as the PNG specification
// (section 9.2) defines it.
func unfilter(row, above []byte, n int) bool {
	kind := row[0]
	cur := row[1:]
	for i := range cur {
		var a, c int
		if i >= n {
			a, c = int(cur[i-n]), int(above[i-n])
		}
		b := int(above[i])
		switch kind {
		case 0:
			return true
		case 1:
			cur[i] += byte(a)
		case 2:
			cur[i] += byte(b)
		case 3:
			cur[i] += byte((a + b) / 2)
		case 4:
			cur[i] += byte(paeth(a, b, c))
		default:
			return false
		}
	}
	return kind <= 4
}

func paeth(a, b, c int) int {
	pa, pb, pc := abs(b-c), abs(a-c), abs(a+b-2*c)
	switch {
	case pa <= pb && pa <= pc:
		return a
	case pb <= pc:
		return b
	}
	return c
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}

// classOfDecoded looks into a GIF or WebP that is small enough to decode whole.
// A lossy WebP is taken for a photograph.
func classOfDecoded(b []byte) engagement.EgressSet {
	if len(b) > 15 && string(b[8:12]) == "WEBP" && string(b[12:16]) != "VP8L" {
		return raw
	}
	config, err := dimensions(b)
	if err != nil || config.Width*config.Height > maxLook || config.Width <= 0 || config.Height <= 0 {
		return raw
	}
	picture, err := decode(b)
	if err != nil {
		return raw
	}
	look, bounds := newLook(), picture.Bounds()
	above := make([]uint32, bounds.Dx())
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		var left uint32
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			r, g, bl, a := picture.At(x, y).RGBA()
			v := r>>8<<24 | g>>8<<16 | bl>>8<<8 | a>>8
			look.add(v, x > bounds.Min.X && v == left, y > bounds.Min.Y && v == above[x-bounds.Min.X])
			left, above[x-bounds.Min.X] = v, v
		}
	}
	if look.rendered() {
		return rendered
	}
	return raw
}

// look is what is counted of a picture. Pixels come from row to row.
type look struct {
	total int
	flat  int               // equal to the one before or above
	of    map[uint32][2]int // per value: all, and flat ones; the first maxColours values only
	more  int               // pixels of values beyond those

	last    uint32 // the value that pending counts, which saves most look-ups
	pending [2]int
}

const maxColours = 4096

func newLook() *look { return &look{of: map[uint32][2]int{}} }

func (l *look) add(v uint32, sameLeft, sameUp bool) {
	if v != l.last {
		l.settle()
		l.last = v
	}
	l.total++
	l.pending[0]++
	if sameLeft || sameUp {
		l.flat++
		l.pending[1]++
	}
}

func (l *look) settle() {
	n, known := l.of[l.last]
	if !known && len(l.of) >= maxColours {
		l.more += l.pending[0]
	} else {
		l.of[l.last] = [2]int{n[0] + l.pending[0], n[1] + l.pending[1]}
	}
	l.pending = [2]int{}
}

// rendered reports whether the picture was drawn. A drawing has a ground of one
// value, and areas of one value also in what stands out from it; what a sensor
// saw has neither, however large its black border is, and has the first only
// where it was reduced to few colours. The bounds were set with drawn charts,
// windows and text on one side and noisy, smooth, reduced and black-bordered
// pictures on the other; between them lies doubt, and doubt is raw.
func (l *look) rendered() bool {
	l.settle()
	var ground [2]int
	for _, n := range l.of {
		if n[0] > ground[0] {
			ground = n
		}
	}
	figure, flat := l.total-ground[0], l.flat-ground[1]
	switch {
	case l.total < 64 || l.more > l.total/8:
		return false
	case l.flat*100 >= l.total*92:
		return true
	case ground[0]*100 < l.total*35:
		return false
	case flat*2 >= figure:
		return true
	}
	return len(l.of) <= 64 && flat*5 >= figure
}
