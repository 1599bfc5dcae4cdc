package gate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-gate/mcp-gate/artifacts"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/jsonrpc"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
	"github.com/mcp-gate/mcp-gate/policy"
)

// DefaultInline is how many bytes of text one result brings to a client: about
// 25,000 tokens, the size above which the client with the best known limit
// writes a result to disk.
const DefaultInline = 100_000

// pictureShare is how many bytes of a picture or a sound weigh as much as one byte of
// text: clients pay for their size on a screen, not for their bytes.
const pictureShare = 10

// fits reports whether a result of so many bytes goes to the client undivided.
func (s *Session) fits(size int) bool {
	bound := s.inline()
	return bound == 0 || int64(size) <= bound
}

// inline is how many bytes of text a result brings to this session's client; 0 is any
// number. In transparent exposure it has no bound unless the owner sets one.
func (s *Session) inline() int64 {
	if s.g.opts.Kept == nil {
		return 0
	}
	for _, name := range []string{s.who.Client, ""} {
		if bound := s.g.opts.Inline[name]; bound > 0 {
			return bound
		}
	}
	if s.profile.Exposure == Transparent {
		return 0
	}
	return DefaultInline
}

// load is one part of a large result with its weight.
type load struct {
	piece  artifacts.Piece
	weight int64
}

// sized returns the result with its largest parts kept and replaced, as many as it takes
// for the rest to fit the client. Resources and prompts are asked for to be read whole,
// so they stay.
func (p *parcel) sized(ctx context.Context) (json.RawMessage, []member) {
	bound := p.s.inline()
	if bound == 0 || int64(len(p.result)) <= bound || p.c.isAside() {
		return p.result, nil
	}
	var loads []load
	total := int64(0)
	for _, part := range p.found.Parts {
		piece, ok := artifacts.PieceOf(part)
		weight := int64(len(part.Raw))
		if part.Kind == artifacts.PartImage || part.Kind == artifacts.PartAudio {
			weight /= pictureShare
		}
		total += weight
		if ok {
			loads = append(loads, load{piece, weight})
		}
	}
	if total <= bound && !p.found.Partial {
		return p.result, nil
	}
	slices.SortStableFunc(loads, func(a, b load) int { return int(min(max(b.weight-a.weight, -1), 1)) })
	stub := bound/4 + 512
	var heavy []load
	for _, l := range loads {
		if total > bound && l.weight > stub {
			heavy, total = append(heavy, l), total-l.weight+stub
		}
	}
	if total > bound || len(heavy) == 0 || p.found.Partial {
		return p.keptAsOne(ctx)
	}
	return p.replaced(ctx, heavy)
}

// ends is how much of the beginning and the end of a kept text is shown.
func (p *parcel) ends() (head, tail int) {
	bound := p.s.inline()
	return int(min(bound/8, 4<<10)), int(min(bound/16, 1<<10))
}

// replaced puts stubs in the place of parts. A part that cannot be kept stays in the
// result: it may leave, and must not be lost.
func (p *parcel) replaced(ctx context.Context, heavy []load) (json.RawMessage, []member) {
	with := map[string][]json.RawMessage{}
	facts := []byte{'['}
	for _, l := range heavy {
		stub, err := p.stub(ctx, l.piece, p.c.declared().Union(l.piece.Part.Classes))
		if err != nil {
			continue
		}
		with[l.piece.Part.Pointer] = stub.blocks
		if len(facts) > 1 {
			facts = append(facts, ',')
		}
		facts = append(facts, stub.data...)
	}
	if len(with) == 0 {
		return p.result, nil
	}
	out, err := artifacts.Replace(p.result, with)
	if err != nil {
		p.s.g.opts.Log.Warn("a large result is passed on whole", "tool", p.c.entry.ID.String(), "error", err)
		return p.result, nil
	}
	metas := []member{{metaPrefix + "artifacts", append(facts, ']')}}
	if _, gone := with["/structuredContent"]; gone && p.schemaOffered() {
		return p.stubError(out, metas)
	}
	return out, metas
}

// stubError makes a result whose structured content is kept an error of a call
// that ran, since the client would hold a stub against the tool's schema.
func (p *parcel) stubError(out json.RawMessage, metas []member) (json.RawMessage, []member) {
	out, err := strictjson.Set(out, "isError", []byte("true"))
	if err != nil {
		return p.result, nil
	}
	text := fmt.Sprintf("ran, result kept [%s]: %s", policy.CodeSize, policy.CodeSize.ForModel(policy.About{Tool: p.c.entry.ID}))
	return withFirst(out, artifacts.TextBlock(text)), append(metas, ranMeta(policy.CodeSize, "result.size", ""))
}

// keptAsOne keeps the whole result as one, where it is large but no single part is.
func (p *parcel) keptAsOne(ctx context.Context) (json.RawMessage, []member) {
	piece := artifacts.Whole(p.result, p.found)
	stub, err := p.stub(ctx, piece, p.classes)
	if err != nil {
		return p.result, nil
	}
	out := resultOf(failed(p.result), stub.blocks, nil)
	metas := []member{{metaPrefix + "artifacts", append(append([]byte{'['}, stub.data...), ']')}}
	if p.schemaOffered() {
		return p.stubError(out, metas)
	}
	return out, metas
}

// standIn is a stub: as content blocks, and as data for programs.
type standIn struct {
	blocks []json.RawMessage
	data   json.RawMessage
}

// stub keeps a piece and returns what stands in for it.
func (p *parcel) stub(ctx context.Context, piece artifacts.Piece, classes engagement.EgressSet) (standIn, error) {
	a, err := p.keep(ctx, piece, classes, false, nil)
	if err != nil {
		return standIn{}, err
	}
	h, err := p.s.g.opts.Kept.Open(ctx, a.ID, p.s.who.Principal)
	if err != nil {
		return standIn{}, err
	}
	defer h.Close() //nolint:errcheck // only read from
	head, tail := p.ends()
	if piece.Part.Kind == artifacts.PartStructured {
		head, tail = head/4, 0 // its text blocks mostly say the same
	}
	stub, err := artifacts.StubFor(a, p.allowed, h, head, tail)
	if err != nil {
		return standIn{}, err
	}
	in := standIn{blocks: []json.RawMessage{artifacts.TextBlock(stub.Note)}, data: stub.Data}
	for _, text := range []string{stub.Head, stub.Tail} {
		if text != "" {
			in.blocks = append(in.blocks, artifacts.TextBlock(text))
		}
	}
	if p.c.client != nil && p.c.client.Modern() { // earlier clients may not know the type
		in.blocks = append(in.blocks, linkTo(a))
	}
	return in, nil
}

// sizedError returns an error as it is if it fits the client. The text of a larger one is
// kept, and the client gets its beginning and end.
func (p *parcel) sizedError(ctx context.Context, theirs *jsonrpc.Error) *jsonrpc.Error {
	raw := theirs.Raw()
	if p.s.fits(len(raw)) {
		return theirs
	}
	stub, err := p.stub(ctx, artifacts.Whole(raw, artifacts.Findings{Classes: p.classes}), p.classes)
	if err != nil {
		return theirs
	}
	var words []string
	for _, block := range stub.blocks {
		if text := stringOf(block, "text"); text != "" {
			words = append(words, text)
		}
	}
	data := append(append([]byte(`{"mcp-gate/artifacts":[`), stub.data...), `]}`...)
	return &jsonrpc.Error{Code: theirs.Code, Message: p.c.entry.ID.Server + " says: " + strings.Join(words, "\n"), Data: data}
}
