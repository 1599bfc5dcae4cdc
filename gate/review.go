package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/checkpoint"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/internal/ids"
	"github.com/mcp-gate/mcp-gate/internal/strictjson"
	"github.com/mcp-gate/mcp-gate/policy"
)

// Keeper copies files before a call and puts them back. *checkpoint.Keeper is
// one.
type Keeper interface {
	Covers(path string) bool
	Take(paths []string) (checkpoint.Copy, error)
	Seal(c checkpoint.Copy) (checkpoint.Copy, []checkpoint.Change, error)
	Restore(c checkpoint.Copy) ([]string, error)
}

// Journal keeps what ran without being asked about, with its way back.
// *store.Store is one.
type Journal interface {
	AddEntry(ctx context.Context, e checkpoint.Entry) error
	ChangeEntry(ctx context.Context, e checkpoint.Entry) (bool, error)
	Entry(ctx context.Context, id string) (checkpoint.Entry, error)
}

// Inverse is the owner's declared way back: a tool of the same server, and its
// arguments, in which a string "$args/pointer" or "$result/pointer" stands for
// what the call was given or gave.
type Inverse struct {
	Tool string
	Args json.RawMessage
}

// wayBack is how one call can be undone.
type wayBack struct {
	paths   []string // local files that it may change
	keeper  Keeper   // of paths
	inverse *Inverse
}

func (w wayBack) exists() bool { return len(w.paths) > 0 || w.inverse != nil }

func (w wayBack) String() string {
	switch {
	case w.inverse != nil:
		return "a declared call of " + w.inverse.Tool
	case len(w.paths) > 0:
		return "a copy of " + strings.Join(w.paths, ", ")
	}
	return ""
}

// wayBackOf says how a call can be undone: by the owner's declared inverse, or by copies
// of the files that its arguments name. All of them must be inside the roots, else there
// is no way back.
func (s *Session) wayBackOf(c *call) wayBack {
	if c.unseen || c.noWayBack || c.entry.Class.Permission <= engagement.Read {
		return wayBack{}
	}
	server := s.g.server(c.entry.ID.Server)
	if server.Inverse != nil {
		if inverse := server.Inverse(c.entry.ID.Tool); inverse != nil {
			return wayBack{inverse: inverse}
		}
	}
	// A tool of another class does more than copies of files could undo.
	keeper := s.g.ruling().Keeper
	if c.entry.Class.Permission != engagement.SourceFileWrite || keeper == nil {
		return wayBack{}
	}
	paths, ok := s.pathsOf(c)
	if !ok {
		return wayBack{}
	}
	w := wayBack{keeper: keeper}
	for _, path := range paths {
		at, ok := server.follow(path)
		if !ok || !filepath.IsAbs(at) || !keeper.Covers(at) {
			return wayBack{}
		}
		w.paths = append(w.paths, at)
	}
	return w
}

// pathsOf are the local files that a call's arguments name: at the pointers that the
// owner declared, else wherever a value looks like a path. It is false where not all of
// them can be told.
func (s *Session) pathsOf(c *call) (paths []string, ok bool) {
	server := s.g.server(c.entry.ID.Server)
	var declared []string
	if server.Paths != nil {
		declared = server.Paths(c.entry.ID.Tool)
	}
	if declared == nil {
		return catalog.LocalPaths(c.args)
	}
	for _, pointer := range declared {
		raw, ok := at(c.args, pointer)
		if !ok || string(raw) == "null" {
			continue
		}
		var one string
		var many []string
		switch {
		case json.Unmarshal(raw, &one) == nil:
			many = []string{one}
		case json.Unmarshal(raw, &many) != nil:
			return nil, false
		}
		paths = append(paths, many...)
	}
	return paths, true
}

// at follows a JSON pointer (RFC 6901) through raw bytes.
func at(raw json.RawMessage, pointer string) (json.RawMessage, bool) {
	if pointer == "" {
		return raw, raw != nil
	}
	if pointer[0] != '/' || raw == nil {
		return nil, false
	}
	for _, token := range strings.Split(pointer[1:], "/") {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		if member, ok, err := strictjson.Get(raw, token); err == nil {
			if raw = member; !ok {
				return nil, false
			}
			continue
		}
		var list []json.RawMessage
		i, err := strconv.Atoi(token)
		if err != nil || json.Unmarshal(raw, &list) != nil || i < 0 || i >= len(list) {
			return nil, false
		}
		raw = list[i]
	}
	return raw, true
}

// argsFor is the inverse's arguments with the values of one call. A reference to a value
// that is not there is an error.
func (i *Inverse) argsFor(args, result json.RawMessage) (json.RawMessage, error) {
	if i.Args == nil {
		return json.RawMessage("{}"), nil
	}
	return substitute(i.Args, args, result)
}

func substitute(template, args, result json.RawMessage) (json.RawMessage, error) {
	switch template[0] {
	case '"':
		var s string
		if err := json.Unmarshal(template, &s); err != nil {
			return nil, err
		}
		from, pointer, found := args, "", false
		if pointer, found = strings.CutPrefix(s, "$args"); !found {
			from = result
			if pointer, found = strings.CutPrefix(s, "$result"); !found {
				return template, nil
			}
		}
		value, ok := at(from, pointer)
		if !ok {
			return nil, fmt.Errorf("there is no %s", s)
		}
		return value, nil
	case '{':
		out := template
		for m, err := range strictjson.Object(template) {
			if err != nil {
				return nil, err
			}
			value, err := substitute(m.Value, args, result)
			if err != nil {
				return nil, err
			}
			if out, err = strictjson.Set(out, m.Name, value); err != nil {
				return nil, err
			}
		}
		return out, nil
	case '[':
		var list []json.RawMessage
		if err := json.Unmarshal(template, &list); err != nil {
			return nil, err
		}
		out := []byte{'['}
		for n, item := range list {
			value, err := substitute(item, args, result)
			if err != nil {
				return nil, err
			}
			if n > 0 {
				out = append(out, ',')
			}
			out = append(out, value...)
		}
		return append(out, ']'), nil
	}
	return template, nil
}

// checkpointed makes the way back before a call and returns the journal entry that is
// closed after the call; nil where the decision wants none. An error means that there is
// no way back.
func (s *Session) checkpointed(ctx context.Context, c *call, d policy.Decision) (*checkpoint.Entry, error) {
	if !d.Checkpoint {
		return nil, nil
	}
	id, err := ids.New("j_", s.g.opts.Rand)
	if err != nil {
		return nil, err
	}
	e := &checkpoint.Entry{
		ID: id, At: s.g.opts.Now(), Principal: s.who.Principal, Session: s.id, Ticket: c.ticket,
		Tool: c.entry.ID.String(), Args: c.digest, State: checkpoint.EntryOpen,
	}
	c.way = s.wayBackOf(c) // what the owner says may be another thing when the call is over
	switch {
	case !c.way.exists():
		return nil, errors.New("the owner has just taken its way back away")
	case c.way.inverse == nil:
		if e.Copy, err = c.way.keeper.Take(c.way.paths); err != nil {
			return nil, err
		}
	}
	if err := s.g.opts.Journal.AddEntry(ctx, *e); err != nil {
		return nil, err
	}
	return e, nil
}

// journal closes the entry of a call with what the call changed and what undoes it.
func (s *Session) journal(c *call, e *checkpoint.Entry, result json.RawMessage) {
	state := checkpoint.EntryKept
	var err error
	if c.way.inverse != nil {
		state = s.inverted(e, c.way.inverse, c, result)
	} else if e.Copy, e.Changes, err = c.way.keeper.Seal(e.Copy); err != nil {
		e.Note, state = "what it changed could not be looked at: "+err.Error(), checkpoint.EntryVoid
	} else if len(e.Changes) == 0 {
		e.Note, state = "it changed no file", checkpoint.EntryVoid
	}
	s.close(e, state, e.Note)
}

// close moves an entry, which only this call may change, to another state. A failure is
// logged.
func (s *Session) close(e *checkpoint.Entry, state checkpoint.EntryState, note string) {
	e.Note = note
	if err := s.step(context.Background(), e, state); err != nil {
		s.g.opts.Log.Error("a journal entry could not be closed", "entry", e.ID, "error", err)
	}
}

// step moves an entry to another state, unless somebody else has done so since it was
// read.
func (s *Session) step(ctx context.Context, e *checkpoint.Entry, state checkpoint.EntryState) error {
	if err := e.Step(state); err != nil {
		return err
	}
	won, err := s.g.opts.Journal.ChangeEntry(ctx, *e)
	if err == nil && !won {
		err = fmt.Errorf("journal entry %s was changed by somebody else at the same time", e.ID)
	}
	return err
}

// inverted stores the declared inverse with the values of a call that has run.
func (s *Session) inverted(e *checkpoint.Entry, inverse *Inverse, c *call, result json.RawMessage) checkpoint.EntryState {
	if result == nil || failed(result) {
		e.Note = "it failed, so there is nothing to take back"
		return checkpoint.EntryVoid
	}
	args, err := inverse.argsFor(c.args, result)
	if err != nil {
		e.Note = "its way back could not be filled in: " + err.Error()
		return checkpoint.EntryVoid
	}
	e.Inverse = fmt.Appendf(nil, `{"tool":%s,"args":%s}`, strictjson.AppendString(nil, c.entry.ID.Server+"/"+inverse.Tool), args)
	return checkpoint.EntryKept
}

// Undo undoes a journalled call. Files are restored unless somebody has changed them
// since. A declared inverse is judged and run like any call. The entry must be the
// principal's own.
func (s *Session) Undo(ctx context.Context, id string, canAsk bool) (Outcome, error) {
	e, err := s.g.opts.Journal.Entry(ctx, id)
	if err != nil {
		return Outcome{}, err
	}
	if err := undoable(e); err != nil {
		return Outcome{}, err
	}
	if e.Inverse != nil {
		return s.undoByCall(ctx, e, canAsk)
	}
	keeper := s.g.ruling().Keeper
	if keeper == nil {
		return Outcome{}, fmt.Errorf("undo %s: the configuration names no roots any more: put back the folder of its files", e.ID)
	}
	c := &call{id: s.nextCall(), name: "review undo " + e.ID, known: true, digest: e.Args}
	c.entry = &catalog.Entry{
		Tool:  catalog.Tool{ID: catalog.ToolID{Server: "gate", Tool: "review-undo"}},
		Class: catalog.Class{Permission: engagement.SourceFileWrite, Egress: engagement.Metadata},
	}
	if err := s.g.opts.Audit.Record(s.event(audit.Intent, c, policy.Decision{Verdict: policy.Run, Rule: "review.undo"})); err != nil {
		return Outcome{}, fmt.Errorf("undo %s: %w", e.ID, err)
	}
	restored, restoreErr := keeper.Restore(e.Copy)
	files := "files"
	if len(restored) == 1 {
		files = "file"
	}
	done := audit.Event{Kind: audit.Outcome, Outcome: audit.OK, Note: fmt.Sprintf("%s of %s: %d %s", e.ID, e.Tool, len(restored), files)}
	if restoreErr != nil {
		done.Outcome, done.ErrorCode = audit.Error, "drift"
	}
	s.about(&done, c)
	if err := s.g.opts.Audit.Record(done); err != nil {
		return Outcome{}, errors.Join(restoreErr, err)
	}
	if restoreErr != nil {
		return Outcome{}, restoreErr
	}
	if err := s.step(ctx, &e, checkpoint.EntryUndone); err != nil {
		return Outcome{}, err
	}
	return Outcome{Result: textResult(false, append([]string{"put back:"}, restored...), nil)}, nil
}

// undoByCall undoes a call by its declared inverse.
func (s *Session) undoByCall(ctx context.Context, e checkpoint.Entry, canAsk bool) (Outcome, error) {
	var inverse struct {
		Tool string
		Args json.RawMessage
	}
	if err := json.Unmarshal(e.Inverse, &inverse); err != nil {
		return Outcome{}, fmt.Errorf("undo %s: %w", e.ID, err)
	}
	entry, known, err := s.find(ctx, inverse.Tool)
	if err != nil {
		return Outcome{}, err
	}
	c := s.newCall(inverse.Tool, inverse.Args, Request{CanAsk: canAsk})
	c.front, c.undoes, c.entry, c.known = "review undo", e.ID, &entry, known
	return s.road(ctx, c), nil
}

// undoable says why an entry cannot be undone now; nil where it can.
func undoable(e checkpoint.Entry) error {
	switch e.State {
	case checkpoint.EntryKept:
		return nil
	case checkpoint.EntryOpen:
		return fmt.Errorf("entry %s: its call has not ended, or the gate died with it; look at what it changed", e.ID)
	case checkpoint.EntryUndoing:
		return fmt.Errorf("entry %s: the call that takes it back was sent, and no answer is on record; look at %s before you do anything", e.ID, e.Tool)
	}
	if e.Note == "" {
		return fmt.Errorf("entry %s is %v", e.ID, e.State)
	}
	return fmt.Errorf("entry %s is %v: %s", e.ID, e.State, e.Note)
}

// reserve takes the entry of the call that this one undoes. It is the last step before
// the call is sent, so that of two calls that undo the same entry only one is sent.
func (s *Session) reserve(ctx context.Context, c *call) error {
	if c.undoes == "" {
		return nil
	}
	e, err := s.g.opts.Journal.Entry(ctx, c.undoes)
	if err != nil {
		return err
	}
	if err := undoable(e); err != nil {
		return err
	}
	return s.step(ctx, &e, checkpoint.EntryUndoing)
}

// tookBack settles a reserved entry by the outcome of the call that undoes it.
func (s *Session) tookBack(c *call, came string) {
	if c.undoes == "" {
		return
	}
	e, err := s.g.opts.Journal.Entry(context.Background(), c.undoes)
	if err != nil {
		s.g.opts.Log.Error("a journal entry could not be read", "entry", c.undoes, "error", err)
		return
	}
	switch came {
	case audit.OK:
		s.close(&e, checkpoint.EntryUndone, "")
	case audit.Unknown: // it stays as it is: nobody knows
	default:
		s.close(&e, checkpoint.EntryKept, "the call that was to take it back failed")
	}
}
