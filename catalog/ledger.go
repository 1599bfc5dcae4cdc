package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/mcp-gate/mcp-gate/internal/durable"
	"github.com/mcp-gate/mcp-gate/internal/flock"
)

// maxLock bounds a lock that is read, in bytes: some 300,000 tools.
const maxLock = 64 << 20

// Ledger keeps the lock and the bytes of accepted definitions in files.
//
// Any number of processes may share them: a change is made to what is in the
// file at that moment, under a lock that the operating system takes away from a
// process that dies, and a reader sees the file before it or after it. Safe for
// concurrent use.
type Ledger struct {
	lock, dir string

	mu   sync.Mutex // guards what follows
	text []byte     // of the lock, as it was last taken apart
	last Lock       // what it said; nobody changes it
}

// NewLedger returns the ledger of a lock file and a folder of definitions. Both
// are made by the first change; their parent folders must exist by then.
func NewLedger(lockFile, catalogDir string) *Ledger {
	return &Ledger{lock: lockFile, dir: catalogDir}
}

// Load reads the lock. No file is an empty lock. With an error comes a lock that
// is broken, so that a caller who only reports the error holds everything.
func (d *Ledger) Load() (Lock, error) {
	l, _, err := d.load()
	return l, err
}

func (d *Ledger) load() (Lock, []byte, error) {
	text, err := readAtMost(d.lock, maxLock)
	if errors.Is(err, fs.ErrNotExist) {
		return Lock{Servers: map[string]Record{}}, nil, nil
	}
	if err != nil {
		err = fmt.Errorf("read accepted definitions: %w", err)
		return Lock{Broken: err}, nil, err
	}
	if l, ok := d.known(text); ok {
		return l, text, nil
	}
	l, err := ParseLock(text)
	if err != nil {
		err = fmt.Errorf("read accepted definitions: %s: %w", d.lock, err)
		return Lock{Broken: err}, nil, err
	}
	d.remember(text, l)
	return l, text, nil
}

// known is the lock with this text, where it was taken apart last. The caller
// may put other records into it.
func (d *Ledger) known(text []byte) (Lock, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.text == nil || !bytes.Equal(text, d.text) {
		return Lock{}, false
	}
	return Lock{Servers: maps.Clone(d.last.Servers)}, true
}

func (d *Ledger) remember(text []byte, l Lock) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.text, d.last = text, Lock{Servers: maps.Clone(l.Servers)}
}

func readAtMost(path string, n int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read from
	var text bytes.Buffer
	if info, err := f.Stat(); err == nil {
		text.Grow(int(min(info.Size(), n)) + bytes.MinRead)
	}
	if _, err = text.ReadFrom(io.LimitReader(f, n+1)); err == nil && int64(text.Len()) > n {
		err = fmt.Errorf("%s is larger than %d bytes", path, n)
	}
	return text.Bytes(), err
}

// Update changes the lock. It hands edit what is in the file, with no other
// process changing it meanwhile, and writes what edit leaves; edit returns the
// definitions whose bytes the new lock needs. What is the same as before is not
// written. On an error the file is as it was.
func (d *Ledger) Update(edit func(*Lock) ([]Tool, error)) (_ Lock, err error) {
	unlock, err := flock.Lock(d.lock + ".guard")
	if err != nil {
		return Lock{}, fmt.Errorf("change accepted definitions: %w", err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	l, before, err := d.load()
	if err != nil {
		return l, err
	}
	keep, err := edit(&l)
	if err != nil {
		return l, err
	}
	after, err := l.Encode()
	if err != nil {
		return l, err
	}
	if err := d.keep(l, keep); err != nil { // first: a lock never names bytes that are not there
		return l, err
	}
	if string(after) == string(before) || (before == nil && len(l.Servers) == 0) {
		return l, nil
	}
	if err := durable.Replace(d.lock, after); err != nil {
		return l, fmt.Errorf("write accepted definitions: %w", err)
	}
	d.remember(after, l)
	return l, nil
}

// Take judges an offer and records what is accepted at first sight. The
// judgement holds even with an error, which then means that the lock could not
// be read and everything is held, that a first sight could not be recorded and
// is held, or that lost bytes could not be brought back.
func (d *Ledger) Take(o Offer) (Judgement, error) {
	l, err := d.Load()
	j := l.Judge(o)
	if err != nil {
		return j, err
	}
	if r, known := l.Servers[o.Key]; !known || r.Bare {
		d.noteBare(o)
	}
	if j.Record == nil {
		return j, d.keepMissing(j)
	}
	_, err = d.Update(func(l *Lock) ([]Tool, error) {
		j = l.Judge(o) // another process may have been first
		if j.Record != nil {
			l.Servers[o.Key] = *j.Record
		}
		return j.accepted(), nil
	})
	if err != nil {
		return Lock{Broken: err}.Judge(o), err
	}
	return j, nil
}

// Accept records what a person picked from an offer; see [Lock.Accept].
func (d *Ledger) Accept(o Offer, picks ...Pick) (Lock, error) {
	return d.Update(func(l *Lock) ([]Tool, error) {
		if err := l.Accept(o, picks...); err != nil {
			return nil, err
		}
		return l.Judge(o).accepted(), nil
	})
}

// bareFile is there for a server that showed no tools when it was seen last, or
// did not answer, and none before.
func (d *Ledger) bareFile(key, serverID string) string {
	sum := sha256.Sum256([]byte(key + "\x00" + serverID))
	return filepath.Join(d.dir, hex.EncodeToString(sum[:16])+".bare")
}

// Bare reports whether a server of which nothing is on record was seen, started
// in this way, and had no tools or did not answer. It is no part of the lock:
// what it shows later is still a first sight.
func (d *Ledger) Bare(key, serverID string) bool {
	_, err := os.Lstat(d.bareFile(key, serverID))
	return err == nil
}

// noteBare notes that a server has no tools, or that it has some. Where that
// fails the next start waits for it once more.
func (d *Ledger) noteBare(o Offer) {
	path := d.bareFile(o.Key, o.ServerID)
	if len(o.Tools) > 0 {
		_ = os.Remove(path)
		return
	}
	d.NoteSilent(o.Key, o.ServerID)
}

// NoteSilent notes that a server did not answer. See [Ledger.Bare].
func (d *Ledger) NoteSilent(key, serverID string) {
	if d.Bare(key, serverID) || os.MkdirAll(d.dir, 0o700) != nil {
		return
	}
	_ = os.WriteFile(d.bareFile(key, serverID), nil, 0o600)
}

func (j Judgement) accepted() []Tool {
	var tools []Tool
	for _, s := range j.Tools {
		if s.State == Accepted {
			tools = append(tools, s.Offered.Tool)
		}
	}
	return tools
}

// keepMissing brings back the bytes of accepted definitions that were lost or
// altered.
func (d *Ledger) keepMissing(j Judgement) error {
	var lost []Tool
	packs := map[string]map[string]Tool{}
	for _, t := range j.accepted() {
		pack, ok := packs[t.ID.Server]
		if !ok {
			pack = d.pack(t.ID.Server)
			packs[t.ID.Server] = pack
		}
		if pack[t.ID.Tool].Digest != t.Digest {
			lost = append(lost, t)
		}
	}
	if lost == nil {
		return nil
	}
	_, err := d.Update(func(*Lock) ([]Tool, error) { return lost, nil })
	return err
}

func (d *Ledger) file(digest string) string { return filepath.Join(d.dir, digest+".json") }

// keep stores definitions under their digests, and packs them with what else the
// lock holds of their servers. Bytes that are there already stay: of the
// spellings of one definition, the one accepted first is shown. What was kept
// outlasts a crash by the packs alone, so that a thousand definitions wait for
// the disk once.
func (d *Ledger) keep(l Lock, tools []Tool) error {
	if len(tools) == 0 {
		return nil
	}
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return fmt.Errorf("keep definitions: %w", err)
	}
	fresh := map[string]map[string]Tool{} // by alias and name
	for _, t := range tools {
		kept, err := d.keepOne(t)
		if err != nil {
			return fmt.Errorf("keep the definition of %v: %w", t.ID, err)
		}
		if fresh[t.ID.Server] == nil {
			fresh[t.ID.Server] = map[string]Tool{}
		}
		fresh[t.ID.Server][t.ID.Tool] = kept
	}
	for alias, few := range fresh {
		pack := d.pack(alias)
		for key, r := range l.Servers {
			if Alias(key) != alias {
				continue
			}
			for name, pin := range r.Tools {
				if old := pack[name]; few[name].Digest == "" && pin.Rivals == nil && old.Digest == pin.Digest {
					few[name] = old
				}
			}
		}
		all := make([]Tool, 0, len(few))
		for _, name := range slices.Sorted(maps.Keys(few)) {
			all = append(all, few[name])
		}
		if err := d.writePack(alias, all); err != nil {
			return fmt.Errorf("keep the definitions of %s: %w", alias, err)
		}
	}
	return durable.SyncDir(d.dir)
}

// keepOne writes the file of a definition, unless it is there, and returns what
// is in it then.
func (d *Ledger) keepOne(t Tool) (Tool, error) {
	path := d.file(t.Digest)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		if old, err := d.Definition(t.ID, t.Digest); err == nil {
			return old, nil
		}
		return t, durable.Write(path, t.Raw, 0o600)
	}
	if err != nil {
		return t, err
	}
	_, err = f.Write(t.Raw)
	return t, errors.Join(err, f.Close())
}

// Definition returns the kept definition with this digest as the tool's. Bytes
// that are not what their name says are an error, like a missing file, which
// wraps [fs.ErrNotExist].
func (d *Ledger) Definition(id ToolID, digest string) (Tool, error) {
	t, err := d.filed(id, digest)
	if err == nil {
		return t, nil
	}
	packed := d.pack(id.Server)[id.Tool]
	if packed.Digest != digest {
		return Tool{}, err
	}
	if t, old := checked(packed); old == nil {
		return t, nil
	}
	return Tool{}, err
}

// checked reads a packed definition anew: its bytes must be what its head says.
func checked(packed Tool) (Tool, error) {
	t, err := NewTool(packed.ID.Server, packed.Raw)
	if err == nil && (t.ID != packed.ID || t.Digest != packed.Digest) {
		err = fmt.Errorf("definition of %v: the pack holds other bytes than it says", packed.ID)
	}
	return t, err
}

// filed is Definition from the definition's own file.
func (d *Ledger) filed(id ToolID, digest string) (Tool, error) {
	if !isDigest(digest) {
		return Tool{}, fmt.Errorf("definition of %v: %.80q is no digest", id, digest)
	}
	raw, err := readAtMost(d.file(digest), maxLock)
	if err != nil {
		return Tool{}, fmt.Errorf("definition of %v: %w", id, err)
	}
	t, err := NewTool(id.Server, raw)
	switch {
	case err != nil:
		return Tool{}, err
	case t.Digest != digest:
		return Tool{}, fmt.Errorf("definition of %v: %s holds other bytes than its name says", id, d.file(digest))
	case t.ID != id:
		return Tool{}, fmt.Errorf("definition of %v: %s defines %v", id, d.file(digest), t.ID)
	}
	return t, nil
}

// Entries returns what was accepted of a server, from the files alone, sorted
// by name: the same whether the server runs or not. It is empty for a server
// that is started in another way than when it was accepted. A definition whose
// bytes are lost or altered is left out; the error, which joins one for each,
// leaves the others true. Owner gives the owner's word on a tool; nil: none.
//
// Definitions come from the server's pack, which is believed by its checksum:
// they are for lists and searches until the server shows what it has.
// [Ledger.Shown] looks at each.
func (d *Ledger) Entries(l Lock, key, serverID string, owner func(tool string) Override) ([]Entry, error) {
	return d.entries(l, key, serverID, owner, func(t Tool) (Tool, bool) { return t, true })
}

// Shown is Entries for a server that shows these tools now. Each definition is
// held against its digest.
func (d *Ledger) Shown(l Lock, o Offer, owner func(tool string) Override) ([]Entry, error) {
	shown := map[string]Tool{}
	for _, t := range o.Tools {
		shown[t.Tool.ID.Tool] = t.Tool
	}
	return d.entries(l, o.Key, o.ServerID, owner, func(packed Tool) (Tool, bool) {
		if now := shown[packed.ID.Tool]; now.Digest == packed.Digest && bytes.Equal(now.Raw, packed.Raw) {
			now.unlisted = packed.unlisted
			return now, true // its digest was taken when it came
		}
		t, err := checked(packed)
		return t, err == nil
	})
}

func (d *Ledger) entries(l Lock, key, serverID string, owner func(tool string) Override, believe func(packed Tool) (Tool, bool)) ([]Entry, error) {
	r := l.Servers[key]
	if l.Broken != nil || r.ServerID != serverID {
		return nil, nil
	}
	var entries []Entry
	var lost []error
	pack := d.pack(Alias(key))
	for _, name := range slices.Sorted(maps.Keys(r.Tools)) {
		if r.Tools[name].Rivals != nil {
			continue // nobody knows which of them was accepted
		}
		t, digest := pack[name], r.Tools[name].Digest
		ok := t.Digest == digest
		if ok {
			t, ok = believe(t)
		}
		if !ok {
			var err error
			if t, err = d.filed(ToolID{Alias(key), name}, digest); err != nil {
				lost = append(lost, err)
				continue
			}
		}
		var word Override
		if owner != nil {
			word = owner(name)
		}
		entries = append(entries, Entry{Tool: t, Class: r.Tools[name].Under(word)})
	}
	return entries, errors.Join(lost...)
}
