package main

import (
	"bufio"
	"bytes"
	"fmt"
	"image"
	"io"

	"github.com/mcp-gate/mcp-gate/artifacts"
)

// The most that a picture takes of a terminal, in characters.
const (
	pictureColumns = 80
	pictureLines   = 24
)

// draw shows a picture as a terminal can: two pixels a character, one over the
// other.
func draw(w io.Writer, content []byte) error {
	small, _, err := artifacts.Thumbnail(content, pictureColumns, 2*pictureLines)
	if err != nil {
		return err
	}
	m, _, err := image.Decode(bytes.NewReader(small))
	if err != nil {
		return fmt.Errorf("draw picture: %w", err)
	}
	out := bufio.NewWriter(w)
	b := m.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y += 2 {
		for x := b.Min.X; x < b.Max.X; x++ {
			colour := func(ground int, y int) {
				if y < b.Max.Y {
					r, g, b, _ := m.At(x, y).RGBA()
					fmt.Fprintf(out, "\x1b[%d;2;%d;%d;%dm", ground, r>>8, g>>8, b>>8)
				}
			}
			colour(38, y)
			colour(48, y+1)
			out.WriteString("▀")
		}
		out.WriteString("\x1b[0m\n")
	}
	return out.Flush()
}
