package artifacts

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// A Piece is the content of one part of a result as it would stand in a file:
// a text without its escapes, a picture or blob without its base64, structured
// content as the bytes that came.
type Piece struct {
	Part  Part
	Media string // media type: the claimed one of a file, else what the bytes say
	URI   string // of an embedded resource

	quoted []byte // a JSON string, nil for structured content
	base64 bool
}

// PieceOf returns the content of a part. It is false for a part that has none,
// such as a link.
func PieceOf(p Part) (Piece, bool) {
	piece := Piece{Part: p, Media: p.Claimed}
	switch p.Kind {
	case PartText:
		piece.quoted = memberOf(p.Raw, "text")
		piece.Media = "text/plain"
	case PartImage, PartAudio:
		piece.quoted, piece.base64 = memberOf(p.Raw, "data"), true
	case PartFile:
		resource := memberOf(p.Raw, "resource")
		if resource == nil {
			resource = p.Raw // of resources/read
		}
		piece.URI, piece.Media = unquoted(memberOf(resource, "uri")), unquoted(memberOf(resource, "mimeType"))
		if piece.quoted = memberOf(resource, "text"); piece.quoted == nil {
			piece.quoted, piece.base64 = memberOf(resource, "blob"), true
		}
	case PartStructured:
		piece.Media = "application/json"
		return piece, true
	default:
		return piece, false
	}
	if p.Media.Type != "" {
		piece.Media = p.Media.Type
	}
	if piece.Media == "" && !piece.base64 {
		piece.Media = "text/plain"
	}
	return piece, len(piece.quoted) >= 2 && piece.quoted[0] == '"'
}

// Whole returns the content of a result that is to be kept as one: the content
// of its only part, where it has only one, else the result's own bytes.
func Whole(result json.RawMessage, found Findings) Piece {
	if len(found.Parts) == 1 && !found.Partial {
		if piece, ok := PieceOf(found.Parts[0]); ok {
			return piece
		}
	}
	return Piece{Part: Part{Kind: PartOther, Classes: found.Classes, Raw: result}, Media: "application/json"}
}

func memberOf(object []byte, want string) []byte {
	var found []byte
	eachMember(object, func(name string, value []byte) {
		if name == want {
			found = value
		}
	})
	return found
}

// Len is about how many bytes the content has: exact for structured content
// and unescaped text, else no less than it has.
func (p Piece) Len() int {
	switch {
	case p.quoted == nil:
		return len(p.Part.Raw)
	case p.base64:
		return (len(p.quoted) + 1) / 4 * 3 // as if padded
	}
	return len(p.quoted) - 2
}

// Binary reports whether the content came as base64.
func (p Piece) Binary() bool { return p.base64 }

// Reader returns a reader of the content, which holds no copy of it.
func (p Piece) Reader() io.Reader {
	if p.quoted == nil {
		return bytes.NewReader(p.Part.Raw)
	}
	if !p.base64 {
		return &stringReader{raw: p.quoted[1 : len(p.quoted)-1]}
	}
	digits := bytes.TrimRight(p.quoted[1:len(p.quoted)-1], "= ")
	encoding := base64.RawStdEncoding
	if bytes.IndexByte(digits, '-') >= 0 || bytes.IndexByte(digits, '_') >= 0 {
		encoding = base64.RawURLEncoding
	}
	return base64.NewDecoder(encoding, &stringReader{raw: digits})
}

// stringReader reads what a JSON string says, escape by escape.
type stringReader struct {
	raw  []byte
	rest []byte // of an escape that did not fit
	buf  [utf8.UTFMax]byte
}

func (r *stringReader) Read(b []byte) (int, error) {
	n := 0
	for n < len(b) {
		switch {
		case len(r.rest) > 0:
			k := copy(b[n:], r.rest)
			n, r.rest = n+k, r.rest[k:]
		case len(r.raw) == 0:
			if n == 0 {
				return 0, io.EOF
			}
			return n, nil
		case r.raw[0] == '\\':
			r.rest = r.escape()
		default:
			run := r.raw
			if i := bytes.IndexByte(run[:min(len(run), len(b)-n)], '\\'); i >= 0 {
				run = run[:i]
			}
			k := copy(b[n:], run)
			n, r.raw = n+k, r.raw[k:]
		}
	}
	return n, nil
}

// escape takes one escape, or a pair for one character.
func (r *stringReader) escape() []byte {
	if len(r.raw) < 2 {
		r.raw = nil
		return nil
	}
	c := r.raw[1]
	if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
		r.raw = r.raw[2:]
		return append(r.buf[:0], "\"\\/\b\f\n\r\t"[i])
	}
	char, ok := unit(r.raw)
	if !ok {
		r.raw = r.raw[1:]
		return append(r.buf[:0], '\\')
	}
	r.raw = r.raw[6:]
	if utf16.IsSurrogate(char) {
		low, _ := unit(r.raw)
		if char = utf16.DecodeRune(char, low); char != utf8.RuneError {
			r.raw = r.raw[6:]
		}
	}
	return utf8.AppendRune(r.buf[:0], char)
}

// unit reads the UTF-16 unit of an escape.
func unit(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return utf8.RuneError, false
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return rune(n), err == nil
}

// Replace returns a result in which each part at a pointer of with is replaced
// by the blocks given for it, byte for byte the same elsewhere. Structured
// content that is replaced goes, and its blocks come behind those of content.
func Replace(result json.RawMessage, with map[string][]json.RawMessage) (json.RawMessage, error) {
	out := result
	content, ok, err := strictjson.Get(result, "content")
	if err != nil {
		return nil, fmt.Errorf("replace parts of a result: %w", err)
	}
	var blocks []byte
	add := func(b []byte) {
		if len(blocks) > 0 {
			blocks = append(blocks, ',')
		}
		blocks = append(blocks, b...)
	}
	if ok {
		i := -1
		for block := range strictjson.Elements(content) {
			i++
			instead, cut := with["/content/"+strconv.Itoa(i)]
			if !cut {
				add(block)
			}
			for _, b := range instead {
				add(b)
			}
		}
	}
	if instead, cut := with["/structuredContent"]; cut {
		for _, b := range instead {
			add(b)
		}
		if out, err = strictjson.Delete(out, "structuredContent"); err != nil {
			return nil, fmt.Errorf("replace parts of a result: %w", err)
		}
	}
	list := append(append([]byte{'['}, blocks...), ']')
	if out, err = strictjson.Set(out, "content", list); err != nil {
		return nil, fmt.Errorf("replace parts of a result: %w", err)
	}
	return out, nil
}

// TextBlock is a content block of the gate's own words. What an upstream said
// never stands in the same block.
func TextBlock(text string) json.RawMessage {
	b := append([]byte(`{"type":"text","text":`), strictjson.AppendString(nil, text)...)
	return append(b, '}')
}
