package gate

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/mcp-gate/mcp-gate/artifacts"
	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
	"github.com/mcp-gate/mcp-gate/policy"
)

const (
	// artifactScheme begins the URI of an artifact as a resource.
	artifactScheme = "artifact://"
	// artifactsRead stands for a look into an artifact where a tool's name
	// would, after the server that the artifact came from.
	artifactsRead = "artifacts/read"
	// artifactKey is the only member of an argument value that stands for the
	// content of an artifact.
	artifactKey = "$artifact"
)

const (
	maxWhole     = 16 << 20 // bytes of an artifact that is read whole, or of all that go into one call
	maxArguments = 8        // artifacts in the arguments of one call
)

// noArtifact is the answer for every id without an artifact, whatever the reason.
func noArtifact() Outcome {
	return Outcome{Result: refused(policy.CodeUnknown, "artifact", "there is no artifact of this id, or it is not kept any more. Call the tool again if its result is still needed.", "", false)}
}

// artifact returns an artifact that this session may know of.
func (s *Session) artifact(ctx context.Context, id string) (artifacts.Artifact, bool) {
	if s.g.opts.Kept == nil {
		return artifacts.Artifact{}, false
	}
	a, err := s.g.opts.Kept.Get(ctx, id, s.who.Principal)
	if err != nil && !errors.Is(err, artifacts.ErrNotFound) {
		s.g.opts.Log.Error("artifacts cannot be looked up", "error", err)
	}
	return a, err == nil && s.shows(a.Origin.Server)
}

// readArtifact is the meta tool that gives a slice of what was kept. It is judged as a
// reading call, under the artifact's classes and its server's policy.
func (s *Session) readArtifact(ctx context.Context, req Request) Outcome {
	c := s.newCall(req.Name, req.Args, req)
	c.front, c.readOnly = req.Name, true
	if out, ok := s.toSlice(ctx, c); !ok {
		return out
	}
	return s.road(ctx, c)
}

// toSlice makes a call read the slice that its arguments name. It is false where there is
// none, with the answer.
func (s *Session) toSlice(ctx context.Context, c *call) (Outcome, bool) {
	var want struct {
		Artifact string `json:"artifact"`
		artifacts.Query
	}
	d := json.NewDecoder(bytes.NewReader(orEmpty(c.args)))
	d.DisallowUnknownFields()
	err := d.Decode(&want)
	if err == nil {
		err = want.Query.Check()
	}
	if err != nil || want.Artifact == "" {
		return wrongShape("read_artifact", `takes {"artifact": "a_..."} and one of bytes, lines, pointer, query, rows and columns, match, size%s.`, because(strictjson.Misfit(err))), false
	}
	a, ok := s.artifact(ctx, want.Artifact)
	if !ok {
		return noArtifact(), false
	}
	s.local(c, a, func(ctx context.Context) (json.RawMessage, error) { return s.slice(ctx, c, a, want.Query) })
	return Outcome{}, true
}

// local has the gate itself answer a call, from what it keeps. Of an artifact that may
// not leave only aggregates are read.
func (s *Session) local(c *call, a artifacts.Artifact, answer func(context.Context) (json.RawMessage, error)) {
	c.known, c.local = true, answer
	c.entry = &catalog.Entry{
		Tool:  catalog.Tool{ID: catalog.ToolID{Server: a.Origin.Server, Tool: artifactsRead}},
		Class: catalog.Class{Permission: engagement.Read, Egress: engagement.Aggregates, Why: "read from what is kept"},
	}
	if classes := a.Classes.List(); s.open(a) && len(classes) > 0 {
		c.entry.Class.Egress = classes[len(classes)-1]
	}
	if origin, known := s.set().ByID(catalog.ToolID{Server: a.Origin.Server, Tool: a.Origin.Tool}); known {
		c.origin = origin
	}
}

// open reports whether the content of an artifact may leave now.
func (s *Session) open(a artifacts.Artifact) bool {
	return !a.Withheld && within(a.Classes, s.allowed(a.Origin.Server))
}

// notRead is the failure of a look into an artifact.
type notRead struct{ error }

func (e notRead) MayHaveRun() bool { return false }
func (e notRead) Kind() string     { return "artifact" }

// slice reads a part of an artifact and returns it as a result: the gate's note, then
// the content in a block of its own.
func (s *Session) slice(ctx context.Context, c *call, a artifacts.Artifact, q artifacts.Query) (json.RawMessage, error) {
	allowed := s.allowed(a.Origin.Server)
	slice, err := s.g.opts.Kept.Read(ctx, a.ID, s.who.Principal, allowed, q)
	var unfit *artifacts.QueryError
	switch {
	case errors.Is(err, artifacts.ErrNotFound):
		return noArtifact().Result, nil
	case errors.Is(err, artifacts.ErrWithheld):
		return refused(policy.CodeEgress, "step4.egress", "of this artifact only the aggregates may leave, where it has any: ask for it without bytes, lines, rows or match.", "", false), nil
	case errors.As(err, &unfit):
		return wrongShape("read_artifact", "does not fit this artifact: %v.", unfit).Result, nil
	case err != nil:
		return nil, notRead{err}
	}
	if s.open(a) {
		s.hasRead(ctx, c, a.Classes)
	}
	meta := fmt.Appendf(nil, `{"artifact":"%s","unit":"%s","from":%d,"to":%d,"total":%d,"left":%d}`, a.ID, slice.Unit, slice.From, slice.To, slice.Total, slice.Left())
	metas := []member{{metaPrefix + "slice", meta}}
	blocks := []json.RawMessage{artifacts.TextBlock(slice.Note(a.ID))}
	body := slice.Body
	switch {
	case strings.HasPrefix(slice.Media, "image/"):
		blocks = append(blocks, append(base64.StdEncoding.AppendEncode([]byte(`{"type":"image","data":"`), body), `","mimeType":"`+slice.Media+`"}`...))
	case slice.Media == "application/octet-stream":
		uri := fmt.Sprintf("%s%s#%d-%d", artifactScheme, a.ID, slice.From, slice.To)
		block := base64.StdEncoding.AppendEncode([]byte(`{"type":"resource","resource":{"uri":"`+uri+`","mimeType":"application/octet-stream","blob":"`), body)
		blocks = append(blocks, append(block, `"}}`...))
	default:
		text := string(body)
		if s.g.server(a.Origin.Server).Secrets {
			text, _ = artifacts.Redact(text)
		}
		marks := artifacts.MarkText([]byte(text))
		if raw := marksOf(marks); raw != nil {
			metas = append(metas, member{metaPrefix + "marks", raw})
		}
		if marks.Has(artifacts.MarkImitation) {
			blocks = append(blocks, imitationNote(&call{entry: &catalog.Entry{Tool: catalog.Tool{ID: catalog.ToolID(a.Origin)}}}))
		}
		blocks = append(blocks, artifacts.TextBlock(text))
	}
	return resultOf(false, blocks, nil, metas...), nil
}

// linkTo is the content block that leads a client to an artifact as a resource.
func linkTo(a artifacts.Artifact) json.RawMessage {
	b := append([]byte(`{"type":"resource_link","uri":"`+artifactScheme+a.ID+`","name":"`+a.ID+`","mimeType":`), strictjson.AppendString(nil, a.Media)...)
	return fmt.Appendf(b, `,"size":%d}`, a.Size)
}

// artifactResource answers a resources/read of an artifact, whole. It is false
// for a URI of another scheme.
func (s *Session) artifactResource(ctx context.Context, req Request) (Outcome, bool) {
	id, ok := strings.CutPrefix(req.Name, artifactScheme)
	if !ok || req.Method != "resources/read" {
		return Outcome{}, false
	}
	a, ok := s.artifact(ctx, id)
	if !ok {
		return Outcome{Error: noResource(req.Name)}, true
	}
	c := s.newCall(req.Name, req.Args, req)
	s.local(c, a, func(ctx context.Context) (json.RawMessage, error) { return s.wholeResource(ctx, c, a) })
	return s.road(ctx, c), true
}

func (s *Session) wholeResource(ctx context.Context, c *call, a artifacts.Artifact) (json.RawMessage, error) {
	if !s.open(a) {
		return refused(policy.CodeEgress, "step4.egress", "the content of this artifact may not leave.", "", false), nil
	}
	b, err := s.contentOf(ctx, a)
	if err != nil {
		return nil, notRead{err}
	}
	s.hasRead(ctx, c, a.Classes)
	out := append([]byte(`{"contents":[{"uri":"`+artifactScheme+a.ID+`","mimeType":`), strictjson.AppendString(nil, a.Media)...)
	if utf8.Valid(b) {
		text := string(b)
		if s.g.server(a.Origin.Server).Secrets {
			text, _ = artifacts.Redact(text)
		}
		out = append(strictjson.AppendString(append(out, `,"text":`...), text), `}]}`...)
		return out, nil
	}
	out = base64.StdEncoding.AppendEncode(append(out, `,"blob":"`...), b)
	return append(out, `"}]}`...), nil
}

// contentOf reads an artifact whole, withheld or not.
func (s *Session) contentOf(ctx context.Context, a artifacts.Artifact) ([]byte, error) {
	if a.Size > maxWhole {
		return nil, fmt.Errorf("an artifact of %d bytes is too large to be read whole: the most is %d", a.Size, maxWhole)
	}
	h, err := s.g.opts.Kept.Open(ctx, a.ID, s.who.Principal)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(h.Reader())
	return b, errors.Join(err, h.Close())
}

// withArtifacts resolves the artifacts that a call's arguments refer to. The arguments
// that are judged, shown and frozen describe each with its digest, size and classes. The
// arguments that are sent hold its content. It is false where one cannot be had, with
// the answer.
func (s *Session) withArtifacts(ctx context.Context, c *call) (Outcome, bool) {
	if c.expanded != nil || c.local != nil || c.isAside() || s.profile.Exposure == Transparent || !bytes.Contains(c.args, []byte(artifactKey)) {
		return Outcome{}, true
	}
	f := &artifactPass{s: s, ctx: ctx}
	described, err := rewriteAll(c.args, f.describe)
	if err == nil && len(f.used) > 0 {
		c.args = described
		err = s.insertArtifacts(ctx, c)
	}
	switch {
	case errors.Is(err, artifacts.ErrNotFound):
		return noArtifact(), false
	case err != nil:
		return wrongShape(c.name, "cannot be given this artifact: %v.", err), false
	}
	return Outcome{}, true
}

// toSend are the arguments that the upstream gets.
func (c *call) toSend() json.RawMessage {
	if c.expanded != nil {
		return c.expanded
	}
	return c.args
}

// described is what takes the place of a reference to an artifact in the arguments that
// are judged.
type described struct {
	ID      string              `json:"id"`
	Digest  string              `json:"sha256"`
	Size    int64               `json:"size"`
	Media   string              `json:"mimeType"`
	Classes []engagement.Egress `json:"egress"`
}

// artifactPass replaces the artifacts in the arguments of a call, in one pass.
type artifactPass struct {
	s      *Session
	ctx    context.Context
	used   []artifacts.Artifact
	size   int64
	asJSON bool // contents that are JSON values go in as such, not as text
}

// describe turns the reference that a model wrote into a description.
func (f *artifactPass) describe(ref json.RawMessage) (json.RawMessage, error) {
	var id string
	if json.Unmarshal(ref, &id) != nil {
		return nil, fmt.Errorf(`{"%s": ID} takes an artifact's id`, artifactKey)
	}
	a, ok := f.s.artifact(f.ctx, id)
	if !ok {
		return nil, artifacts.ErrNotFound
	}
	if f.used = append(f.used, a); len(f.used) > maxArguments {
		return nil, fmt.Errorf("one call takes at most %d", maxArguments)
	}
	raw, err := json.Marshal(map[string]described{artifactKey: {a.ID, a.Digest, a.Size, a.Media, a.Classes.List()}})
	if err != nil {
		return nil, fmt.Errorf("describe artifact %s: %w", a.ID, err)
	}
	return raw, nil
}

// content turns a description into the content of the artifact.
func (f *artifactPass) content(ref json.RawMessage) (json.RawMessage, error) {
	var d described
	if err := json.Unmarshal(ref, &d); err != nil {
		return nil, err
	}
	a, ok := f.s.artifact(f.ctx, d.ID)
	if !ok || a.Digest != d.Digest {
		return nil, artifacts.ErrNotFound
	}
	if f.size += a.Size; f.size > maxWhole {
		return nil, fmt.Errorf("one call takes at most %d bytes", maxWhole)
	}
	f.used = append(f.used, a)
	b, err := f.s.contentOf(f.ctx, a)
	switch {
	case err != nil:
		return nil, err
	case f.asJSON && a.Media == "application/json" && strictjson.Check(b) == nil:
		return b, nil
	case utf8.Valid(b):
		return strictjson.AppendString(nil, string(b)), nil
	}
	return append(base64.StdEncoding.AppendEncode([]byte{'"'}, b), '"'), nil
}

// insertArtifacts puts the contents of the artifacts that a call's arguments describe
// into the arguments that are sent: text as text, anything else in base64, and a JSON
// value as such where only that fits the tool's schema.
func (s *Session) insertArtifacts(ctx context.Context, c *call) error {
	if !bytes.Contains(c.args, []byte(artifactKey)) || s.profile.Exposure == Transparent || c.isAside() {
		return nil
	}
	f := &artifactPass{s: s, ctx: ctx}
	expanded, err := rewriteAll(c.args, f.content)
	if err != nil || len(f.used) == 0 {
		return err
	}
	if c.entry.Fits(expanded) != nil {
		g := &artifactPass{s: s, ctx: ctx, asJSON: true}
		if other, err := rewrite(c.args, g.content); err == nil && c.entry.Fits(other) == nil {
			expanded = other
		}
	}
	c.expanded = expanded
	for _, a := range f.used {
		c.carried = c.carried.Union(a.Classes)
	}
	return nil
}

// carriedBy are the classes of the artifacts that arguments describe.
func (s *Session) carriedBy(args json.RawMessage) (classes engagement.EgressSet) {
	if !bytes.Contains(args, []byte(artifactKey)) {
		return 0
	}
	_, err := rewrite(args, func(ref json.RawMessage) (json.RawMessage, error) {
		var d described
		if json.Unmarshal(ref, &d) == nil {
			classes = classes.With(d.Classes...)
		}
		return ref, nil
	})
	if err != nil {
		return engagement.AllEgress()
	}
	return classes
}

// rewriteAll is rewrite for the arguments of a call. An artifact must not take the place
// of all of them: their names would be neither judged nor shown.
func rewriteAll(args json.RawMessage, give func(ref json.RawMessage) (json.RawMessage, error)) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(args, &members); err != nil {
		return nil, err
	}
	if _, is := members[artifactKey]; is && len(members) == 1 {
		return nil, fmt.Errorf("it stands for the value of an argument, not for all arguments")
	}
	return rewrite(args, give)
}

// rewrite returns a JSON value in which every object whose only member is the
// artifact key is replaced by what give makes of that member. All else keeps
// its bytes, but for space in what holds one.
func rewrite(v json.RawMessage, give func(ref json.RawMessage) (json.RawMessage, error)) (json.RawMessage, error) {
	if !bytes.Contains(v, []byte(artifactKey)) {
		return v, nil
	}
	switch v[0] {
	case '{':
		var members []strictjson.Member
		for m, err := range strictjson.Object(v) {
			if err != nil {
				return nil, err
			}
			members = append(members, m)
		}
		if len(members) == 1 && members[0].Name == artifactKey {
			return give(members[0].Value)
		}
		out := []byte{'{'}
		for i, m := range members {
			value, err := rewrite(m.Value, give)
			if err != nil {
				return nil, err
			}
			if i > 0 {
				out = append(out, ',')
			}
			out = append(append(strictjson.AppendString(out, m.Name), ':'), value...)
		}
		return append(out, '}'), nil
	case '[':
		var list []json.RawMessage
		if err := json.Unmarshal(v, &list); err != nil {
			return nil, err
		}
		for i, e := range list {
			value, err := rewrite(e, give)
			if err != nil {
				return nil, err
			}
			list[i] = value
		}
		return append(append([]byte{'['}, bytes.Join(asBytes(list), []byte{','})...), ']'), nil
	}
	return v, nil
}

// overwrites refuses a call whose arguments hold the mark of a blacked-out secret. It
// would write the mark over the secret.
func (s *Session) overwrites(c *call) (Outcome, bool) {
	if c.local != nil || c.entry.Class.Permission == engagement.Read || !redacted(c.args) {
		return Outcome{}, false
	}
	e := s.event(audit.Refusal, c, policy.Decision{Verdict: policy.Deny, Code: policy.CodeArguments, Rule: "secrets"})
	s.g.writeDown(e)
	return wrongShape(c.entry.ID.String(), "was given text in which secrets are blacked out: written back, it would destroy them. Change only what stands around them, or leave the step to the person."), true
}

// redacted reports whether arguments hold a mark, spelt with escapes or not.
func redacted(args json.RawMessage) bool {
	if artifacts.HasRedaction(args) {
		return true
	}
	if !bytes.Contains(args, []byte(`\u`)) {
		return false
	}
	var v any
	if json.Unmarshal(args, &v) != nil {
		return false
	}
	plain, err := json.Marshal(v)
	return err == nil && artifacts.HasRedaction(plain)
}
