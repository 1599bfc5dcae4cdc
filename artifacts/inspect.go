package artifacts

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"sync"

	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/enum"
	"github.com/mcp-gate/mcp-gate/internal/offheap"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// A PartKind says what one part of a result is. The zero PartKind is none.
type PartKind uint8

const (
	PartText       PartKind = iota + 1 // a text block
	PartImage                          // an image block
	PartAudio                          // an audio block
	PartFile                           // an embedded resource, as text or blob
	PartLink                           // a link to a resource
	PartStructured                     // structuredContent
	PartOther                          // any other member or content type
)

var partKinds = enum.Of[PartKind]("kind of part", "text", "image", "audio", "file", "link", "structured", "other")

func (k PartKind) String() string                { return partKinds.Word(k) }
func (k PartKind) MarshalText() ([]byte, error)  { return partKinds.Marshal(k) }
func (k *PartKind) UnmarshalText(b []byte) error { return partKinds.Unmarshal(b, k) }

// A Part is one block of a result, or one member beside its blocks.
type Part struct {
	Pointer string // RFC 6901, such as "/content/0"
	Kind    PartKind
	Claimed string               // the media type its sender gave it, "" without
	Media   Media                // what its bytes say, where it has any
	Classes engagement.EgressSet // found in it
	Raw     json.RawMessage      // its bytes, within the result's
}

// Findings is what a result was found to carry.
type Findings struct {
	// Classes is the set of the classes found. It is empty for a plain sentence:
	// what that carries only its tool's declared class says.
	Classes engagement.EgressSet
	Parts   []Part // in order; the first maxParts of them
	Marks   Marks  // over all text
	// Partial says that looking stopped at a bound, or that the result is no
	// JSON object. Classes then holds both raw-data classes.
	Partial bool
}

const (
	maxParts = 1 << 10
	// maxLayers bounds text in JSON in text: each layer doubles the escapes, so
	// that real results have two or three.
	maxLayers = 6
	// expansion bounds the bytes looked at, all layers together, as a multiple
	// of the result's own.
	expansion = 32
)

// Inspect looks at a CallToolResult, or at the result of resources/read or
// prompts/get, and says what it carries, whatever its sender declared. Records
// (three or more rows of two or more fields, in any encoding and any layer of
// strings and base64) are row_level, and so are embedded files, blobs and
// unknown content; pictures have the class that their bytes show, the higher
// where that leaves doubt. Time and memory are bounded by a small multiple of
// the size. It never fails: what it cannot read it takes for the worst.
func Inspect(result json.RawMessage) Findings { return InspectRest(result, 0) }

// InspectRest is Inspect where it is settled that the result carries some
// classes: of rows, which cost most to find in text, it looks for no more then.
func InspectRest(result json.RawMessage, settled engagement.EgressSet) Findings {
	in := newInspector(len(result))
	in.settled = settled.Has(engagement.RowLevel)
	room, apart := roomFor(len(result))
	defer leave(room, apart)
	if block, text, ok := soleText(result, room); ok {
		in.part(Part{Pointer: "/content/0", Kind: PartText, Raw: block}, func() { in.text(text, 0) })
	} else {
		in.object(result)
	}
	in.all = in.all.Union(settled)
	return in.findings()
}

// InspectValue looks at any JSON value that an upstream sends, such as the data
// of an error or the parameters of a log message.
func InspectValue(value json.RawMessage) Findings {
	in := newInspector(len(value))
	in.part(Part{Kind: PartOther, Raw: value}, func() { in.value(value, 0) })
	return in.findings()
}

// inspector is the state of one look.
type inspector struct {
	found   engagement.EgressSet // in the part at hand
	all     engagement.EgressSet
	parts   []Part
	first   [1]Part // room for the only one that most results have
	marks   Marks
	partial bool
	settled bool // rows need not be found
	left    int  // bytes that may still be looked at
	frames  []frame
	fields  int      // of the array or object that was walked last
	texts   [][]byte // short texts of the blocks, which together may be rows
	joined  int
	wide    int // blocks that are an object of two or more fields
}

func newInspector(size int) *inspector {
	in := &inspector{left: expansion*size + 1<<16}
	in.parts = in.first[:0]
	return in
}

func (in *inspector) findings() Findings {
	if in.partial {
		in.all = in.all.Union(rows).Union(raw)
	}
	return Findings{in.all, in.parts, in.marks, in.partial}
}

// afford takes n from what may be looked at.
func (in *inspector) afford(n int) bool {
	if in.left -= n; in.left < 0 {
		in.partial = true
		return false
	}
	return true
}

// part runs look over one part and notes what it found.
func (in *inspector) part(p Part, look func()) {
	in.found = 0
	look()
	p.Classes = in.found
	in.all = in.all.Union(in.found)
	if len(in.parts) == maxParts {
		in.partial = true
		return
	}
	in.parts = append(in.parts, p)
}

// rooms are for texts while they are looked at.
var rooms = sync.Pool{New: func() any { return new([]byte) }}

// maxRoom bounds the rooms that are kept. Those of larger texts are none of the
// heap's, where they would be garbage as the next large result comes.
const maxRoom = 1 << 20

// roomFor returns a room for a text, which may be apart from the heap. Nothing of it
// is kept once [leave] was called.
func roomFor(size int) (room *[]byte, apart []byte) {
	if size > maxRoom {
		apart = offheap.Take(size)
		part := apart[:0]
		return &part, apart
	}
	return rooms.Get().(*[]byte), nil
}

func leave(room *[]byte, apart []byte) {
	offheap.Give(apart)
	if apart == nil && cap(*room) <= maxRoom {
		rooms.Put(room)
	}
}

// soleText returns the block and the text of a result that is one block of text,
// spelt as encoders spell it. Most results are, and this one need not be taken
// apart. The text may lie in room, which grows.
func soleText(result []byte, room *[]byte) (block, text []byte, ok bool) {
	const before = `{"content":[`
	const head = before + `{"type":"text","text":"`
	if !bytes.HasPrefix(result, []byte(head)) {
		return nil, nil, false
	}
	for _, tail := range [...]string{`"}]}`, `"}],"isError":false}`, `"}],"isError":true}`} {
		end := len(result) - len(tail)
		if end < len(head) || string(result[end:]) != tail {
			continue
		}
		block, text = result[len(before):end+2], result[len(head):end]
		quoted := result[len(head)-1 : end+1]
		if bytes.IndexByte(text, '\\') >= 0 {
			*room, ok = strictjson.UnquoteWhole((*room)[:0], quoted)
			return block, *room, ok
		}
		if strictjson.Loose(quoted) != len(quoted) {
			return nil, nil, false
		}
		return block, text, true
	}
	return nil, nil, false
}

// object walks the members of a result. From here on it is known to be JSON.
func (in *inspector) object(result json.RawMessage) {
	value, _ := first(result)
	if len(value) == 0 || value[0] != '{' {
		in.partial = true
		return
	}
	eachMember(value, func(name string, value []byte) {
		switch {
		case (name == "content" || name == "contents" || name == "messages") && value[0] == '[':
			in.list(name, value)
		case name == "content" && value[0] == '{':
			in.block("/content", value)
		case name == "structuredContent":
			in.part(Part{Pointer: "/structuredContent", Kind: PartStructured, Raw: value}, func() { in.value(value, 0) })
		case (name == "isError" || name == "resultType") && isWordOf(value) || name == "_meta" && len(value) <= 2:
		default:
			in.part(Part{Pointer: pointer("", name), Kind: PartOther, Raw: value}, func() { in.value(value, 0) })
		}
	})
	in.together()
}

// list walks the blocks of content, the files of contents or the messages of a
// prompt.
func (in *inspector) list(name string, value []byte) {
	i := -1
	for element := range strictjson.Elements(value) {
		i++
		at := "/" + name + "/" + strconv.Itoa(i)
		switch {
		case element[0] != '{':
			in.part(Part{Pointer: at, Kind: PartOther, Raw: element}, func() {
				in.found = in.found.Union(rows)
				in.value(element, 0)
			})
		case name == "contents":
			in.part(Part{Pointer: at, Kind: PartFile, Raw: element}, func() { in.file(element) })
		case name == "messages":
			in.message(at, element)
		default:
			in.block(at, element)
		}
	}
}

// isWordOf reports whether a value is what the protocol has in the place of a
// flag or a word, in which nothing fits.
func isWordOf(value []byte) bool {
	return len(value) <= 32 && value[0] != '{' && value[0] != '['
}

func (in *inspector) message(at string, message []byte) {
	eachMember(message, func(name string, value []byte) {
		switch {
		case name == "content" && value[0] == '{':
			in.block(at+"/content", value)
		case name == "content" && value[0] == '[':
			i := -1
			for element := range strictjson.Elements(value) {
				i++
				in.block(at+"/content/"+strconv.Itoa(i), element)
			}
		case name == "role" && isWordOf(value):
		default:
			in.part(Part{Pointer: pointer(at, name), Kind: PartOther, Raw: value}, func() { in.value(value, 0) })
		}
	})
}

// blockFields are the members of a content block that mean something here.
type blockFields struct {
	kind, mime, text, data, resource []byte
}

// block looks at one content block. Members that its type does not have are
// looked at too.
func (in *inspector) block(at string, raw []byte) {
	p := Part{Pointer: at, Kind: PartOther, Raw: raw}
	var f blockFields
	if raw[0] != '{' {
		in.part(p, func() { in.found = in.found.Union(rows); in.value(raw, 0) })
		return
	}
	twice := false
	note := func(field *[]byte, value []byte) {
		twice = twice || *field != nil
		*field = value
	}
	eachMember(raw, func(name string, value []byte) {
		switch name {
		case "type":
			note(&f.kind, value)
		case "mimeType":
			note(&f.mime, value)
		case "text":
			note(&f.text, value)
		case "data":
			note(&f.data, value)
		case "resource":
			note(&f.resource, value)
		}
	})
	if twice { // readers differ in which of the two they take
		in.part(p, func() { in.found = in.found.Union(rows); in.value(raw, 0) })
		return
	}
	p.Claimed = unquoted(f.mime)
	defer func(before int) { in.wide = min(in.wide, before+1) }(in.wide)
	known := map[string]bool{"type": true}
	switch unquoted(f.kind) {
	case "text":
		p.Kind, known["text"] = PartText, true
		in.part(p, func() { in.textBlock(f.text); in.others(raw, known) })
	case "image":
		p.Kind, known["data"] = PartImage, true
		in.partOf(&p, func() { in.picture(&p, f.data); in.others(raw, known) })
	case "audio":
		p.Kind, known["data"] = PartAudio, true
		in.partOf(&p, func() { in.sound(&p, f.data); in.others(raw, known) })
	case "resource":
		p.Kind, known["resource"] = PartFile, true
		in.part(p, func() { in.file(f.resource); in.others(raw, known) })
	case "resource_link":
		p.Kind = PartLink
		in.part(p, func() { in.others(raw, known) })
	default:
		in.part(p, func() { in.found = in.found.Union(rows); in.value(raw, 0) })
	}
}

// partOf is part for a look that also changes what is noted of the part.
func (in *inspector) partOf(p *Part, look func()) {
	noted := len(in.parts)
	in.part(*p, look)
	if noted < len(in.parts) {
		in.parts[noted].Media = p.Media
	}
}

// others looks at the members of a block beside the known ones.
func (in *inspector) others(block []byte, known map[string]bool) {
	eachMember(block, func(name string, value []byte) {
		if known[name] {
			return
		}
		in.fields = 0
		in.value(value, 1)
		if name != "_meta" {
			return
		}
		if in.fields >= minFields { // a row beside each text
			in.wide++
		}
		in.keep(value)
	})
}

// textBlock looks at a block's text, and keeps it when it is short: servers
// send each row of a list as a block of its own.
func (in *inspector) textBlock(quoted []byte) {
	if len(quoted) == 0 || quoted[0] != '"' {
		in.found = in.found.Union(rows)
		return
	}
	if text, ok := in.unquote(quoted); ok {
		in.blockText(text)
	}
}

func (in *inspector) blockText(text []byte) {
	in.fields = 0
	in.text(text, 0)
	if len(text) > 0 && text[0] == '{' && in.fields >= minFields {
		in.wide++
	}
	in.keep(text)
}

// keep keeps a short text for the look at those of all blocks together.
func (in *inspector) keep(text []byte) {
	if len(text) <= 1<<12 && in.joined < 1<<20 {
		in.texts = append(in.texts, text)
		in.joined += len(text)
	}
}

// together looks at the short texts of all blocks as at the lines of one.
func (in *inspector) together() {
	if len(in.texts) < minRows && in.wide < minRows || in.all.Has(engagement.RowLevel) {
		return
	}
	in.found = 0
	for _, between := range []string{"\n", ""} { // rows, or a text cut anywhere
		joined := bytes.Join(in.texts, []byte(between))
		has := countBytes(joined)
		in.records(joined, has, 0)
		in.encoded(joined, has, 0)
	}
	if in.wide >= minRows {
		in.found = in.found.Union(rows)
	}
	if in.found.Empty() {
		return
	}
	in.all = in.all.Union(in.found)
	for i := range in.parts {
		if in.parts[i].Kind == PartText || in.wide >= minRows {
			in.parts[i].Classes = in.parts[i].Classes.Union(in.found)
		}
	}
}

// picture looks at the data of an image block. What cannot be recognised as one
// may be anything.
func (in *inspector) picture(p *Part, quoted []byte) {
	b, ok := in.decode(quoted)
	if !ok {
		in.found = in.found.Union(raw).Union(rows)
		return
	}
	p.Media = in.blob(b, 0)
	if !strings.HasPrefix(p.Media.Type, "image/") && p.Media.Type != "application/dicom" {
		in.found = in.found.Union(raw).Union(rows)
	}
}

// sound looks at the data of an audio block.
func (in *inspector) sound(p *Part, quoted []byte) {
	in.found = in.found.Union(raw)
	b, ok := in.decode(quoted)
	if !ok {
		in.found = in.found.Union(rows)
		return
	}
	p.Media = Sniff(b)
	if p.Media.Class.Has(engagement.RowLevel) {
		in.found = in.found.Union(rows)
	}
}

// file looks at an embedded resource: contents are row_level, and a picture is
// a picture however it is carried.
func (in *inspector) file(resource []byte) {
	if len(resource) == 0 || resource[0] != '{' {
		in.found = in.found.Union(rows)
		return
	}
	content := false
	eachMember(resource, func(name string, value []byte) {
		switch name {
		case "blob":
			content = true
			if b, ok := in.decode(value); !ok || in.blob(b, 0).Type == "" {
				in.found = in.found.Union(rows)
			}
		case "text":
			content = true
			in.found = in.found.Union(rows)
			in.value(value, 0)
		default:
			in.value(value, 1)
		}
	})
	if !content {
		in.found = in.found.Union(rows)
	}
}

// blob looks at decoded bytes and says what they are.
func (in *inspector) blob(b []byte, layer int) Media {
	m := Sniff(b)
	in.found = in.found.Union(m.Class)
	if m.Type == "image/svg+xml" {
		in.encoded(b, countBytes(b), layer+1) // pictures inside
	}
	return m
}

// text looks at the text of one layer.
func (in *inspector) text(b []byte, layer int) {
	if layer > maxLayers || !in.afford(len(b)) {
		in.partial = true
		return
	}
	switch innocent, runs := isInnocent(b); {
	case !innocent:
		in.look(b, layer)
	case runs:
		in.encoded(b, &unmarked, layer)
	}
}

// look looks at the text of one layer, whatever it is.
func (in *inspector) look(b []byte, layer int) {
	if decoded, ok := fromUTF16(b); ok {
		b = decoded
	}
	has := countBytes(b)
	in.marks = in.marks.plus(markText(b, has))
	in.records(b, has, layer)
	in.encoded(b, has, layer)
	if plain := revealed(b, has); plain != nil && in.afford(len(plain)) {
		has := countBytes(plain)
		in.records(plain, has, layer)
		in.encoded(plain, has, layer)
	}
}

// records looks for rows in text, until some were found.
func (in *inspector) records(b []byte, has *census, layer int) {
	if in.found.Has(engagement.RowLevel) {
		return
	}
	if text := bytes.TrimSpace(b); len(text) > 1 && (text[0] == '{' || text[0] == '[') {
		if in.json(text, layer+1) == len(text) {
			return // it is one JSON value, whose line breaks mean nothing
		}
	}
	if in.found.Has(engagement.RowLevel) {
		return
	}
	if !in.settled && looksLikeRecords(b, has) {
		in.found = in.found.Union(rows)
		return
	}
	if has.of("{[") > 0 {
		in.embedded(b, layer)
	}
	for way := range 4 {
		if in.found.Has(engagement.RowLevel) || layer >= maxLayers {
			return
		}
		var plain []byte // not through a list of functions, for which every census would be on the heap
		switch way {
		case 0:
			plain = unescaped(b, has)
		case 1:
			plain = plainer(b, has)
		case 2:
			plain = relined(b, has)
		case 3:
			plain = flat(b, has)
		}
		if plain != nil && in.afford(len(plain)) {
			in.records(plain, countBytes(plain), layer+1)
		}
	}
	if in.settled || in.found.Has(engagement.RowLevel) {
		return
	}
	some := sample(b)
	if hasLines(some, madeLeast) && (isMade(some) || isTight(some) || isByTurns(some) || isColumns(b, has)) || isMadeInLine(some) {
		in.found = in.found.Union(rows)
	}
}

// maxValues bounds how many JSON values are looked for in one text.
const maxValues = 64

// embedded looks into JSON values in a text, at the beginning of a line or
// after a space.
func (in *inspector) embedded(b []byte, layer int) {
	tries, values := 0, 0
	for at := 0; at < len(b); {
		i := bytes.IndexAny(b[at:], "{[")
		if i < 0 {
			return
		}
		at += i
		if at > 0 && isWord(b[at-1]) || at+1 < len(b) && b[at] == '{' && bytes.IndexByte([]byte("\"} \n\r\t"), b[at+1]) < 0 {
			at++
			continue
		}
		if tries++; tries > maxValues {
			return // rows beyond are still seen as brackets
		}
		in.fields = 0
		size := in.json(b[at:], layer+1)
		if in.fields >= minFields {
			if values++; values >= minRows { // one a line, with words between
				in.found = in.found.Union(rows)
			}
		}
		if in.found.Has(engagement.RowLevel) {
			return
		}
		at += max(size, 1)
	}
}

// value looks at a JSON value.
func (in *inspector) value(b []byte, layer int) {
	if layer > maxLayers || !in.afford(len(b)) {
		in.partial = true
		return
	}
	in.json(b, layer)
}

// str looks at a string inside a JSON value.
func (in *inspector) str(quoted []byte, layer int) {
	if len(quoted) < 12 && bytes.IndexByte(quoted, '\\') < 0 && isASCII(quoted) {
		return // nothing fits in
	}
	text, ok := in.unquote(quoted)
	if ok {
		in.text(text, layer+1)
	}
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= 0x7f {
			return false
		}
	}
	return true
}

// unquote returns what a JSON string says: a part of it where nothing is
// escaped, else a copy.
func (in *inspector) unquote(quoted []byte) ([]byte, bool) {
	if len(quoted) < 2 || quoted[0] != '"' {
		return nil, false
	}
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1], true
	}
	if !in.afford(len(quoted)) {
		return nil, false
	}
	return strictjson.Unquote(nil, quoted), true
}

// unquoted returns what a string says, "" for any other value.
func unquoted(quoted []byte) string {
	if len(quoted) < 2 || quoted[0] != '"' {
		return ""
	}
	return string(strictjson.Unquote(nil, quoted))
}

func pointer(at, name string) string {
	return at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
