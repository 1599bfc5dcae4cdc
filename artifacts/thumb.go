package artifacts

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"

	"golang.org/x/image/draw"

	"github.com/mcp-gate/mcp-gate/engagement"
)

// maxPixels bounds what is decoded: four bytes each are held at once.
const maxPixels = 24 << 20

// ErrPicture says that bytes are no picture that can be shown at another size.
var ErrPicture = errors.New("not a picture that can be scaled")

// Thumbnail returns the picture b scaled down to fit into width by height,
// encoded anew, so that nothing but pixels is left of it: as PNG what was
// drawn, else as JPEG. A zero bound follows from the other and the picture's
// shape; it is never scaled up. Pictures of more than 24 million pixels, and formats without a decoder, are errors wrapping
// [ErrPicture].
func Thumbnail(b []byte, width, height int) ([]byte, Media, error) {
	config, err := dimensions(b)
	if err != nil {
		return nil, Media{}, fmt.Errorf("%w: %v", ErrPicture, err)
	}
	if config.Width <= 0 || config.Height <= 0 || config.Width > maxPixels/config.Height {
		return nil, Media{}, fmt.Errorf("%w: %d by %d pixels are too many", ErrPicture, config.Width, config.Height)
	}
	picture, err := decode(b)
	if err != nil {
		return nil, Media{}, fmt.Errorf("%w: %v", ErrPicture, err)
	}
	w, h := fit(config.Width, config.Height, width, height)
	scaled := image.NewRGBA(image.Rect(0, 0, w, h))
	draw.ApproxBiLinear.Scale(scaled, scaled.Bounds(), picture, picture.Bounds(), draw.Src, nil)
	m := Media{Width: w, Height: h, Class: Sniff(b).Class}
	var out bytes.Buffer
	if m.Class.Has(engagement.RawPixels) {
		m.Type = "image/jpeg"
		err = jpeg.Encode(&out, scaled, &jpeg.Options{Quality: 80})
	} else {
		m.Type = "image/png"
		err = png.Encode(&out, scaled)
	}
	if err != nil {
		return nil, Media{}, fmt.Errorf("scale picture: %w", err)
	}
	return out.Bytes(), m, nil
}

// fit returns the size of a w by h picture inside the bounds, 1 at least.
func fit(w, h, maxW, maxH int) (int, int) {
	scale := 1.0
	if maxW > 0 {
		scale = min(scale, float64(maxW)/float64(w))
	}
	if maxH > 0 {
		scale = min(scale, float64(maxH)/float64(h))
	}
	return max(1, int(float64(w)*scale+0.5)), max(1, int(float64(h)*scale+0.5))
}
