package artifacts

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	_ "image/gif"  // decoders that image.Decode finds by magic bytes
	_ "image/jpeg" // as above
	_ "image/png"  // as above

	_ "golang.org/x/image/bmp"  // as above
	_ "golang.org/x/image/tiff" // as above
	_ "golang.org/x/image/webp" // as above

	"github.com/mcp-gate/mcp-gate/engagement"
)

// Media is what the first bytes of a content say it is, whatever its sender
// called it.
type Media struct {
	Type   string               // media type, "" where nothing is recognised
	Class  engagement.EgressSet // what having it carries out
	Width  int                  // of a picture, in pixels, 0 where not told
	Height int                  // as Width
}

var (
	raw      = engagement.EgressOf(engagement.RawPixels)
	rendered = engagement.EgressOf(engagement.RenderedPixels)
	rows     = engagement.EgressOf(engagement.RowLevel)
)

// signatures are the beginnings of files, long ones first where one begins
// with another. The bytes are those of the formats' own specifications.
var signatures = []struct {
	at    int
	magic string
	media string
	class engagement.EgressSet
}{
	{0, "\x89PNG\r\n\x1a\n", "image/png", raw},
	{0, "\xff\xd8\xff", "image/jpeg", raw},
	{0, "GIF87a", "image/gif", raw},
	{0, "GIF89a", "image/gif", raw},
	{8, "WEBPVP8", "image/webp", raw},
	{0, "II*\x00", "image/tiff", raw}, // camera raw files are TIFF as well
	{0, "MM\x00*", "image/tiff", raw},
	{0, "II+\x00", "image/tiff", raw},
	{0, "MM\x00+", "image/tiff", raw},
	{0, "FUJIFILMCCD-RAW", "image/x-fuji-raf", raw},
	{0, "IIU\x00", "image/x-panasonic-rw2", raw},
	{0, "IIRO", "image/x-olympus-orf", raw},
	{0, "FOVb", "image/x-sigma-x3f", raw},
	{128, "DICM", "application/dicom", raw},
	{0, "SIMPLE  =", "image/fits", raw},
	{344, "n+1\x00", "application/x-nifti", raw},
	{0, "\x89HDF\r\n\x1a\n", "application/x-hdf5", raw},
	{0, "\x00\x00\x00\x0cJXL \r\n\x87\n", "image/jxl", raw},
	{0, "\xff\x0a", "image/jxl", raw},
	{0, "\x00\x00\x00\x0cjP  \r\n\x87\n", "image/jp2", raw},
	{0, "8BPS\x00", "image/vnd.adobe.photoshop", raw},
	{0, "v/1\x01", "image/x-exr", raw},
	{0, "#?RADIANCE", "image/vnd.radiance", raw},
	{0, "\x00\x00\x01\x00", "image/vnd.microsoft.icon", raw},
	{4, "ftyp", "video/mp4", raw}, // HEIC, AVIF, CR3, MP4, M4A
	{8, "WAVE", "audio/wav", raw},
	{8, "AVI ", "video/x-msvideo", raw},
	{0, "ID3", "audio/mpeg", raw},
	{0, "OggS", "audio/ogg", raw},
	{0, "fLaC", "audio/flac", raw},
	{0, "FORM", "audio/aiff", raw},
	{0, "\x1aE\xdf\xa3", "video/webm", raw},
	{0, "FLV\x01", "video/x-flv", raw},
	{0, "\x00\x00\x01\xba", "video/mpeg", raw},
	{0, "%PDF-", "application/pdf", rows},
	{0, "PK\x03\x04", "application/zip", rows},
	{0, "PK\x05\x06", "application/zip", rows},
	{0, "\x1f\x8b\x08", "application/gzip", rows},
	{0, "BZh", "application/x-bzip2", rows},
	{0, "\xfd7zXZ\x00", "application/x-xz", rows},
	{0, "7z\xbc\xaf\x27\x1c", "application/x-7z-compressed", rows},
	{0, "\x28\xb5\x2f\xfd", "application/zstd", rows},
	{0, "Rar!\x1a\x07", "application/vnd.rar", rows},
	{257, "ustar", "application/x-tar", rows},
	{0, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage", rows},
	{0, "SQLite format 3\x00", "application/vnd.sqlite3", rows},
	{0, "PAR1", "application/vnd.apache.parquet", rows},
	{0, "ARROW1", "application/vnd.apache.arrow.file", rows},
	{0, "Obj\x01", "application/vnd.apache.avro", rows},
	{0, "{\\rtf", "application/rtf", rows},
	{0, "\x7fELF", "application/x-elf", rows},
	{0, "\x00asm", "application/wasm", rows},
}

// Sniff says what b is by its bytes. Only PNG, GIF, lossless WebP and SVG can
// turn out to be rendered; every other picture, and one that leaves doubt, is
// raw pixels, and so is sound and film, which are media as they were stored.
func Sniff(b []byte) Media {
	for i := range signatures {
		s := &signatures[i]
		if len(b) <= s.at || b[s.at] != s.magic[0] || !bytes.HasPrefix(b[s.at:], []byte(s.magic)) {
			continue
		}
		m := Media{Type: s.media, Class: s.class}
		switch s.media {
		case "image/png":
			m.Class = classOfPNG(b)
		case "image/gif", "image/webp":
			m.Class = classOfDecoded(b)
		case "video/mp4":
			m.Type = brandOf(b)
		}
		if config, err := dimensions(b); err == nil {
			m.Width, m.Height = config.Width, config.Height
		}
		return m
	}
	if isBMP(b) {
		return Media{Type: "image/bmp", Class: raw}
	}
	if isSVG(b) {
		return Media{Type: "image/svg+xml", Class: rendered}
	}
	return Media{}
}

// dimensions and decode keep a fault in a decoder from being the gate's: what
// makes one panic is no picture.
func dimensions(b []byte) (config image.Config, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("read picture: %v", r)
		}
	}()
	config, _, err = image.DecodeConfig(bytes.NewReader(b))
	return config, err
}

func decode(b []byte) (picture image.Image, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("read picture: %v", r)
		}
	}()
	picture, _, err = image.Decode(bytes.NewReader(b))
	return picture, err
}

// brandOf names what an ISO base media file holds.
func brandOf(b []byte) string {
	if len(b) < 12 {
		return "video/mp4"
	}
	switch string(b[8:12]) {
	case "heic", "heix", "hevc", "mif1", "msf1":
		return "image/heic"
	case "avif", "avis":
		return "image/avif"
	case "crx ":
		return "image/x-canon-cr3"
	case "M4A ", "M4B ":
		return "audio/mp4"
	}
	return "video/mp4"
}

// isBMP wants more than the two letters that a bitmap begins with.
func isBMP(b []byte) bool {
	if len(b) < 26 || b[0] != 'B' || b[1] != 'M' {
		return false
	}
	header := binary.LittleEndian.Uint32(b[14:])
	return binary.LittleEndian.Uint32(b[6:]) == 0 && (header == 12 || header == 40 || header == 108 || header == 124)
}

func isSVG(b []byte) bool {
	head := b[:min(len(b), 1<<10)]
	at := bytes.Index(head, []byte("<svg"))
	if at < 0 {
		return false
	}
	before := bytes.TrimSpace(bytes.TrimPrefix(head[:at], []byte("\xef\xbb\xbf")))
	return len(before) == 0 || bytes.HasPrefix(before, []byte("<?xml")) || bytes.HasPrefix(before, []byte("<!"))
}
