package artifacts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/mcp-gate/mcp-gate/engagement"
)

// A Stub is what a client gets in the place of a content that is kept. Head and
// Tail are the content's own words and belong in blocks of their own: Note is
// the gate's.
type Stub struct {
	Note string
	Head string // "" for what is withheld or is no text
	Tail string
	Data json.RawMessage // the same facts for programs: an object
}

// StubFor writes the stub of an artifact for a caller to whom the classes are
// allowed. Of its content, which may be nil, it shows at most head and tail
// bytes, cut at the ends of lines, or of characters in a longer line. A
// withheld artifact shows neither them nor its address, and of its facts those
// that are allowed.
func StubFor(a Artifact, allowed engagement.EgressSet, content io.ReaderAt, head, tail int) (Stub, error) {
	if !a.Withheld {
		return openStub(a, allowed, content, head, tail)
	}
	if !allowed.Has(engagement.Metadata) {
		return Stub{
			Note: fmt.Sprintf("Kept as artifact %s. Nothing of it may leave.", a.ID),
			Data: encode(map[string]any{"artifact": a.ID, "withheld": true}),
		}, nil
	}
	note := fmt.Sprintf("%s. Its content may not leave", described(a))
	if len(a.Tables) > 0 && allowed.Has(engagement.Aggregates) {
		note += fmt.Sprintf("; read_artifact {\"artifact\":\"%s\"} gives its aggregates", a.ID)
	}
	return Stub{Note: note + ".", Data: stubData(a, allowed)}, nil
}

func described(a Artifact) string {
	s := fmt.Sprintf("%s of %s kept as artifact %s (sha256 %s", mediaOf(a), sizeWords(a.Size), a.ID, a.Digest)
	if a.Width > 0 {
		s += fmt.Sprintf(", %d by %d pixels", a.Width, a.Height)
	}
	return s + ")"
}

// mediaOf is the media type where it is one.
func mediaOf(a Artifact) string {
	if m := mediaWord(a.Media); m != "" {
		return m
	}
	return "application/octet-stream"
}

func openStub(a Artifact, allowed engagement.EgressSet, content io.ReaderAt, head, tail int) (Stub, error) {
	s := Stub{Data: stubData(a, allowed)}
	if strings.HasPrefix(a.Media, "image/") {
		s.Note = fmt.Sprintf("%s. See it smaller with read_artifact {\"artifact\":\"%s\",\"size\":{\"width\":512}}.", described(a), a.ID)
		return s, nil
	}
	if content != nil {
		var err error
		if s.Head, s.Tail, err = ends(content, a.Size, head, tail); err != nil {
			return Stub{}, fmt.Errorf("stub of artifact %s: %w", a.ID, err)
		}
	}
	shown := ""
	if s.Head != "" {
		shown = fmt.Sprintf("; its first %d and last %d bytes follow", len(s.Head), len(s.Tail))
	}
	s.Note = fmt.Sprintf("%s%s. Read on with read_artifact {\"artifact\":\"%s\",\"bytes\":{\"from\":%d}}, or by lines, pointer, query, rows and columns, or match.",
		described(a), shown, a.ID, len(s.Head))
	return s, nil
}

// stubData is the stub for programs.
func stubData(a Artifact, allowed engagement.EgressSet) json.RawMessage {
	d := struct {
		ID       string              `json:"artifact"`
		Media    string              `json:"mimeType"`
		URI      string              `json:"uri,omitempty"`
		Size     int64               `json:"size"`
		Digest   string              `json:"sha256"`
		Classes  []engagement.Egress `json:"egress"`
		Withheld bool                `json:"withheld"`
		Width    int                 `json:"width,omitempty"`
		Height   int                 `json:"height,omitempty"`
		Tables   []Table             `json:"tables,omitempty"`
		Expires  string              `json:"expires"`
	}{a.ID, mediaOf(a), a.URI, a.Size, a.Digest, a.Classes.List(), a.Withheld, a.Width, a.Height, Without(a.Tables, allowed), a.Expires.UTC().Format("2006-01-02T15:04:05Z")}
	if a.Withheld {
		d.URI = "" // an address can say as much as a record
	} else {
		d.Media = a.Media
	}
	return encode(d)
}

// encode marshals v without escaping for HTML. Only facts of this package are
// given to it, which always marshal.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return json.RawMessage(`{}`)
	}
	return bytes.TrimSpace(b.Bytes())
}

// ends returns the first and last bytes of a text; nothing of what is no text.
func ends(content io.ReaderAt, size int64, head, tail int) (string, string, error) {
	first, err := readSpan(content, 0, min(size, int64(head)))
	if err != nil {
		return "", "", err
	}
	if int64(len(first)) == size {
		return textOnly(first), "", nil
	}
	first = cutEnd(first)
	from := max(size-int64(tail), int64(len(first)))
	last, err := readSpan(content, from, size)
	if err != nil {
		return "", "", err
	}
	last = cutStart(last)
	if textOnly(first) == "" {
		return "", "", nil
	}
	return string(first), textOnly(last), nil
}

func textOnly(b []byte) string {
	if !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0 {
		return ""
	}
	return string(b)
}

func readSpan(content io.ReaderAt, from, to int64) ([]byte, error) {
	b := make([]byte, max(to-from, 0))
	n, err := content.ReadAt(b, from)
	if err != nil && !(errors.Is(err, io.EOF) && n == len(b)) {
		return nil, err
	}
	return b, nil
}

// cutEnd cuts b back to the end of its last whole line, or, where that would
// take more than half of it, of its last whole character.
func cutEnd(b []byte) []byte {
	if i := bytes.LastIndexByte(b, '\n'); i >= len(b)/2 {
		return b[:i+1]
	}
	return cutRune(b)
}

// cutRune cuts an unfinished character from the end of b.
func cutRune(b []byte) []byte {
	for n := 1; n <= utf8.UTFMax && n <= len(b); n++ {
		c := b[len(b)-n]
		if !utf8.RuneStart(c) {
			continue
		}
		if !utf8.FullRune(b[len(b)-n:]) {
			return b[:len(b)-n]
		}
		break
	}
	return b
}

// cutStart cuts b to begin with a whole line, or a whole character.
func cutStart(b []byte) []byte {
	if i := bytes.IndexByte(b, '\n'); i >= 0 && i < len(b)/2 {
		return b[i+1:]
	}
	for n := 0; n < utf8.UTFMax && len(b) > 0 && !utf8.RuneStart(b[0]); n++ {
		b = b[1:]
	}
	return b
}
