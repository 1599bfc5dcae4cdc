package artifacts

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"strings"

	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/lazy"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// thumbSide bounds a thumbnail that leaves in the place of a picture, in pixels.
const thumbSide = 256

// A Cut is what may leave of a result that may not leave whole.
type Cut struct {
	// Blocks are the content blocks that may leave, in order and as they came,
	// and thumbnails of pictures that may not.
	Blocks []json.RawMessage
	// Structured is the structured content where it may leave, else nil.
	Structured json.RawMessage
	// IsError is the result's own word on itself.
	IsError bool
	// Facts describes the parts that stay: an array of objects, for the model to
	// read as the gate's words. It is empty where metadata may not leave.
	Facts json.RawMessage
	Stay  int // how many parts stay
}

// A fact describes one part that stays.
type fact struct {
	Part    string              `json:"part"`
	Kind    PartKind            `json:"kind"`
	Media   string              `json:"mimeType,omitempty"`
	Bytes   int64               `json:"bytes"`
	Digest  string              `json:"sha256,omitempty"`
	Width   int                 `json:"width,omitempty"`
	Height  int                 `json:"height,omitempty"`
	Classes []engagement.Egress `json:"egress"`
	Tables  []Table             `json:"tables,omitempty"`
}

// Downgrade says what may leave of a result: a part whole when its tool's
// declared class and every class found in it are allowed, otherwise facts.
// Tables are the result's, from [Tables]. A thumbnail leaves for a picture that
// stays only because it is raw pixels, where rendered ones may leave.
func Downgrade(result json.RawMessage, found Findings, tables []Table, declared, allowed engagement.EgressSet) Cut {
	var c Cut
	facts := []fact{}
	for _, p := range found.Parts {
		classes := p.Classes.Union(declared)
		switch leaves := !found.Partial && within(classes, allowed); {
		case leaves && p.Kind == PartStructured:
			c.Structured = p.Raw
		case leaves && strings.HasPrefix(p.Pointer, "/content"):
			c.Blocks = append(c.Blocks, p.Raw)
		case leaves: // members that no client knows are not worth passing on
		default:
			c.Stay++
			if thumb, ok := thumbnailOf(p, classes, allowed, found.Partial); ok {
				c.Blocks = append(c.Blocks, thumb)
			}
			if allowed.Has(engagement.Metadata) {
				facts = append(facts, factOf(p, classes, tables, allowed))
			}
		}
	}
	for _, t := range Without(tables, allowed) {
		if t.Where == "/content" && c.Stay > 0 { // a row a block
			t.Where = ""
			facts = append(facts, fact{Part: "/content", Kind: PartText, Classes: found.Classes.Union(declared).List(), Tables: []Table{t}})
		}
	}
	if found.Partial {
		c.Stay = max(c.Stay, 1)
	}
	if raw, ok, err := strictjson.Get(result, "isError"); err == nil && ok {
		c.IsError = string(raw) == "true"
	}
	c.Facts = encode(facts)
	return c
}

// within reports whether every class is allowed.
func within(classes, allowed engagement.EgressSet) bool {
	return classes.Intersect(allowed) == classes
}

// maxFactDigest bounds the content that is read again for a fact's digest.
const maxFactDigest = 64 << 20

func factOf(p Part, classes engagement.EgressSet, tables []Table, allowed engagement.EgressSet) fact {
	f := fact{Part: p.Pointer, Kind: p.Kind, Bytes: int64(len(p.Raw)), Width: p.Media.Width, Height: p.Media.Height, Classes: classes.List()}
	if p.Kind == PartOther {
		f.Part = "/" // its name is the sender's
	}
	if piece, ok := PieceOf(p); ok {
		f.Media = mediaWord(piece.Media)
		if piece.Len() <= maxFactDigest {
			sum := sha256.New()
			if n, err := io.Copy(sum, piece.Reader()); err == nil {
				f.Bytes, f.Digest = n, hex.EncodeToString(sum.Sum(nil))
			}
		}
	}
	for _, t := range Without(tables, allowed) {
		if t.Where == p.Pointer {
			t.Where = ""
			f.Tables = append(f.Tables, t)
		}
	}
	return f
}

var mediaShape = lazy.Regexp(`^[a-z]{2,16}/[a-z0-9.+-]{1,64}$`)

// mediaWord returns a media type that is one; what a sender wrote in its place
// may be anything.
func mediaWord(s string) string {
	if mediaShape().MatchString(s) && !looksPersonal(s) {
		return s
	}
	return ""
}

// thumbnailOf returns the block of a small picture, where one may leave.
func thumbnailOf(p Part, classes, allowed engagement.EgressSet, partial bool) (json.RawMessage, bool) {
	piece, ok := PieceOf(p)
	if partial || p.Kind != PartImage || !ok || !allowed.Has(engagement.RenderedPixels) ||
		!within(classes, allowed.With(engagement.RawPixels)) || piece.Len() > maxFactDigest {
		return nil, false
	}
	b, err := io.ReadAll(piece.Reader())
	if err != nil {
		return nil, false
	}
	small, media, err := Thumbnail(b, thumbSide, thumbSide)
	if err != nil {
		return nil, false // the facts say what it is
	}
	block := []byte(`{"type":"image","data":"`)
	block = base64.StdEncoding.AppendEncode(block, small)
	return append(block, `","mimeType":"`+media.Type+`"}`...), true
}
