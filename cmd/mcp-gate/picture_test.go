package main

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"strings"
	"testing"
)

func TestAPictureIsDrawnTwoPixelsACharacter(t *testing.T) {
	m := image.NewRGBA(image.Rect(0, 0, 2, 3))
	for i, c := range []color.RGBA{{255, 0, 0, 255}, {0, 255, 0, 255}, {0, 0, 255, 255}, {9, 9, 9, 255}, {1, 2, 3, 255}, {4, 5, 6, 255}} {
		m.SetRGBA(i%2, i/2, c)
	}
	var content, got bytes.Buffer
	if err := png.Encode(&content, m); err != nil {
		t.Fatal(err)
	}
	if err := draw(&got, content.Bytes()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(got.String(), "\n")
	if len(lines) != 3 || strings.Count(lines[0], "▀") != 2 || !strings.HasSuffix(lines[1], "▀\x1b[0m") || strings.Contains(lines[1], "\x1b[48;") {
		t.Errorf("drawn as %q", got.String())
	}
	if err := draw(&got, []byte("no picture")); err == nil {
		t.Error("what is no picture is drawn")
	}
}
