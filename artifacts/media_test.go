package artifacts

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/color/palette"
	"image/draw"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math"
	"math/rand/v2"
	"testing"

	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"

	"github.com/mcp-gate/mcp-gate/engagement"
)

// photograph is a smooth scene with a sensor's noise.
func photograph(w, h int) *image.RGBA {
	r := rand.New(rand.NewPCG(1, 2))
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			v := 128 + 90*math.Sin(float64(x)/31)*math.Cos(float64(y)/23)
			n := func() uint8 { return uint8(max(0, min(255, v+r.NormFloat64()*4))) }
			m.Set(x, y, color.RGBA{n(), n(), n(), 255})
		}
	}
	return m
}

// radiograph is grey, noisy in the middle and black over most of its area.
func radiograph(w, h int) *image.Gray {
	r := rand.New(rand.NewPCG(1, 3))
	m := image.NewGray(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			d := math.Hypot(float64(x-w/2)/float64(w), float64(y-h/2)/float64(h))
			if d < 0.3 {
				m.SetGray(x, y, color.Gray{uint8(max(0, min(255, 160-300*d+r.NormFloat64()*6)))})
			}
		}
	}
	return m
}

// drawnChart has bars, axes and labels on white.
func drawnChart(w, h int) *image.RGBA {
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	draw.Draw(m, m.Bounds(), image.White, image.Point{}, draw.Src)
	for i := range 8 {
		c := color.RGBA{uint8(40 + 20*i), 90, uint8(220 - 20*i), 255}
		draw.Draw(m, image.Rect(20+i*w/10, h-20-(i+1)*h/12, 40+i*w/10, h-20), image.NewUniform(c), image.Point{}, draw.Src)
	}
	write(m, 20, 14, "Requests a day")
	return m
}

// terminal is dark and full of text.
func terminal(w, h int) *image.RGBA {
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	draw.Draw(m, m.Bounds(), image.NewUniform(color.RGBA{30, 30, 40, 255}), image.Point{}, draw.Src)
	for y := 14; y < h; y += 14 {
		write(m, 4, y, "go test ./... ok github.com/example/pkg 0.31s (cached)")
	}
	return m
}

func write(m draw.Image, x, y int, s string) {
	d := font.Drawer{Dst: m, Src: image.NewUniform(color.RGBA{200, 200, 90, 255}), Face: basicfont.Face7x13, Dot: fixed.P(x, y)}
	d.DrawString(s)
}

func pngOf(t testing.TB, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func jpegOf(t testing.TB, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, m, nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gifOf(t testing.TB, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := gif.Encode(&b, m, &gif.Options{NumColors: 256}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func paletted(m image.Image) *image.Paletted {
	p := image.NewPaletted(m.Bounds(), palette.Plan9)
	draw.FloydSteinberg.Draw(p, p.Bounds(), m, m.Bounds().Min)
	return p
}

// withChunk puts a chunk before a PNG's end.
func withChunk(b []byte, name string, data []byte) []byte {
	var c bytes.Buffer
	binary.Write(&c, binary.BigEndian, uint32(len(data)))
	c.WriteString(name)
	c.Write(data)
	binary.Write(&c, binary.BigEndian, crc32.ChecksumIEEE(c.Bytes()[4:]))
	end := len(b) - 12
	return append(append(bytes.Clone(b[:end]), c.Bytes()...), b[end:]...)
}

func TestDrawnOrSeen(t *testing.T) {
	deep := image.NewGray16(image.Rect(0, 0, 64, 64))
	chart := pngOf(t, drawnChart(320, 200))
	for name, tt := range map[string]struct {
		bytes []byte
		want  engagement.EgressSet
	}{
		"a chart":                        {chart, rendered},
		"a chart with a palette":         {pngOf(t, paletted(drawnChart(320, 200))), rendered},
		"a terminal":                     {pngOf(t, terminal(480, 300)), rendered},
		"a GIF of a chart":               {gifOf(t, drawnChart(320, 200)), rendered},
		"an SVG":                         {[]byte(`<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"><rect/></svg>`), rendered},
		"a photograph as PNG":            {pngOf(t, photograph(200, 150)), raw},
		"a photograph with a palette":    {pngOf(t, paletted(photograph(200, 150))), raw},
		"a photograph as GIF":            {gifOf(t, photograph(200, 150)), raw},
		"a photograph as JPEG":           {jpegOf(t, photograph(200, 150)), raw},
		"a chart as JPEG":                {jpegOf(t, drawnChart(320, 200)), raw},
		"a radiograph":                   {pngOf(t, radiograph(256, 256)), raw},
		"16 bits a sample":               {pngOf(t, deep), raw},
		"a PNG with camera data":         {withChunk(chart, "eXIf", []byte("MM\x00*")), raw},
		"a PNG that is cut":              {chart[:len(chart)/2], raw},
		"a PNG of nothing but its magic": {[]byte("\x89PNG\r\n\x1a\n"), raw},
		"a PNG with a file behind it":    {append(bytes.Clone(chart), csvRows...), rendered.Union(rows)},
		"a PNG with a file in a chunk":   {withChunk(chart, "zzZz", noise(20000)), rendered.Union(rows)},
		"a PNG with its program's name":  {withChunk(chart, "tEXt", []byte("Software\x00drawer")), rendered},
		"HEIC":                           {[]byte("\x00\x00\x00\x18ftypheic\x00\x00\x00\x00mif1heic"), raw},
		"DICOM":                          {append(make([]byte, 128), "DICM...."...), raw},
		"TIFF":                           {[]byte("II*\x00\x08\x00\x00\x00"), raw},
		"a film":                         {[]byte("\x1aE\xdf\xa3\x01\x00"), raw},
		"a bitmap":                       {append([]byte("BM\x00\x01\x00\x00\x00\x00\x00\x00\x36\x00\x00\x00\x28\x00\x00\x00"), make([]byte, 40)...), raw},
		"words that begin with BM":       {[]byte("BM is a pair of letters and no more than that"), none},
		"text":                           {[]byte("hello"), none},
	} {
		if got := Sniff(tt.bytes); got.Class != tt.want {
			t.Errorf("%s: %s is %v, want %v", name, got.Type, got.Class, tt.want)
		}
	}
	if got := Sniff(chart); got.Type != "image/png" || got.Width != 320 || got.Height != 200 {
		t.Errorf("a chart: %+v, want image/png of 320 by 200", got)
	}
}

func BenchmarkSniffPNG(b *testing.B) {
	for name, m := range map[string]image.Image{"terminal": terminal(1920, 1080), "photograph": photograph(1920, 1080)} {
		data := pngOf(b, m)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				Sniff(data)
			}
		})
	}
}
