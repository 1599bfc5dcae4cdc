package audit

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"
)

// DamageKind says what is wrong with a file, as far as what is left tells.
type DamageKind string

const (
	Edited     DamageKind = "edited"     // a line is not the one that was written
	Dropped    DamageKind = "dropped"    // lines are gone from the beginning or the middle
	Inserted   DamageKind = "inserted"   // a line was added, or stands there twice
	Reordered  DamageKind = "reordered"  // lines changed places
	CutTail    DamageKind = "cut-tail"   // lines that were vouched for are gone from the end
	Unreadable DamageKind = "unreadable" // a line is no event at all
	BadHead    DamageKind = "bad-head"   // the head is gone, unreadable or not this log's
	Missing    DamageKind = "missing"    // a file that another one names is gone
)

// Damage is the first thing wrong with a file.
type Damage struct {
	File   string     `json:"file"`
	Line   int        `json:"line"` // from 1; 0 for the file as a whole
	Kind   DamageKind `json:"kind"`
	Detail string     `json:"detail"`
}

func (d Damage) String() string {
	place := d.File
	if d.Line > 0 {
		place += ":" + strconv.Itoa(d.Line)
	}
	return string(appendVisible(nil, fmt.Sprintf("%s: %s: %s", place, d.Kind, d.Detail), false))
}

// FileReport is what verification says of one file.
type FileReport struct {
	Name   string    `json:"name"`
	Events int       `json:"events"`
	First  time.Time `json:"first,omitzero"`
	Last   time.Time `json:"last,omitzero"`
	// Ended is set if the file has its closing line. One that has not is being
	// written, or its process died.
	Ended bool `json:"ended"`
	// Torn is set if the file ends in part of a line that its head never vouched
	// for: a write that a crash cut short.
	Torn bool `json:"torn,omitempty"`
	// Unanchored counts the last lines that fit the chain but that no head vouches
	// for; a crash between a write and its head leaves those of the write.
	Unanchored int     `json:"unanchored,omitempty"`
	Damage     *Damage `json:"damage,omitempty"`
}

// Dangling is an intent without an outcome: the call is under way, or its
// process died and the call may or may not have happened.
type Dangling struct {
	File  string `json:"file"`
	Line  int    `json:"line"`
	Event Event  `json:"event"`
}

// Report is what [Verify] found, files in order of their start.
type Report struct {
	Files    []FileReport `json:"files"`
	Events   int          `json:"events"`
	Keyed    bool         `json:"keyed"` // lines were authenticated, not only chained
	Dangling []Dangling   `json:"dangling,omitempty"`
}

// OK reports whether nothing was damaged. Torn lines, unanchored lines and
// dangling intents are no damage.
func (r Report) OK() bool { return len(r.Damages()) == 0 }

// Damages lists the first damage of every damaged file.
func (r Report) Damages() []Damage {
	var all []Damage
	for _, f := range r.Files {
		if f.Damage != nil {
			all = append(all, *f.Damage)
		}
	}
	return all
}

// VerifyOptions say what is known besides the folder.
type VerifyOptions struct {
	// Key is the one the chains were written with. With it every line and head
	// must be authentic; a chain written without a key is then reported as edited.
	// Without it macs are not looked at.
	Key []byte
	// Anchors are marks that were kept elsewhere ([Log.Head]).
	Anchors []Mark
}

// Verify checks all chains of a folder. It may run while they are written. The
// error says that the folder or a file could not be read; what was found wrong
// is in the report.
func Verify(dir fs.FS, opts VerifyOptions) (Report, error) {
	names, err := allNames(dir)
	if err != nil {
		return Report{}, fmt.Errorf("verify audit log: %w", err)
	}
	v := &verifier{dir: dir, sealer: newSealer(opts.Key), files: make(map[string]*scanned), open: make(map[callKey][]Dangling)}
	for _, name := range names {
		if err := v.load(name); err != nil {
			return Report{}, err
		}
	}
	for i := 0; i < len(v.order); i++ { // following a link may add a file
		if err := v.checkLinks(v.files[v.order[i]]); err != nil {
			return Report{}, err
		}
	}
	for _, m := range opts.Anchors {
		if err := v.checkMark(m, "an anchor kept elsewhere"); err != nil {
			return Report{}, err
		}
	}
	return v.report(), nil
}

// allNames lists log files, and those of which only the head is left.
func allNames(dir fs.FS) ([]string, error) {
	entries, err := fs.ReadDir(dir, ".")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		name := e.Name()
		if head, ok := strings.CutSuffix(name, headSuffix); ok {
			name = head + logSuffix
		}
		if strings.HasSuffix(name, logSuffix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

type digest = [sha256.Size]byte

// line is what checking needs of a line; the text itself is not kept.
type line struct {
	digest digest
	prev   string
	seq    uint64
	kind   string
	bad    string // why it is no event; empty for an event
	forged bool   // its mac does not hold
}

type scanned struct {
	name    string
	gone    bool // only the head is there
	lines   []line
	first   Event // the first line, if readable
	next    string
	start   time.Time
	end     time.Time
	torn    bool
	head    Mark
	headErr error
	damage  *Damage
}

type callKey struct{ chain, call string }

type verifier struct {
	dir    fs.FS
	sealer *sealer
	files  map[string]*scanned
	order  []string
	open   map[callKey][]Dangling // intents that wait for their outcome
}

func (v *verifier) load(name string) error {
	f, err := v.scan(name)
	if err != nil {
		return fmt.Errorf("verify audit file %s: %w", name, err)
	}
	f.damage = f.check()
	v.files[name] = f
	v.order = append(v.order, name)
	return nil
}

// scan reads a file. The head comes first: lines that a running process adds
// meanwhile are then more than it vouches for, never fewer.
func (v *verifier) scan(name string) (*scanned, error) {
	f := &scanned{name: name}
	head, raw, err := readHead(v.dir, name)
	if err == nil && !v.sealer.holds(raw) {
		err = errors.New("its mac does not hold")
	}
	f.head, f.headErr = head, err
	file, err := v.dir.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		f.gone = true
		return f, nil
	} else if err != nil {
		return nil, err
	}
	defer file.Close()
	r := bufio.NewReaderSize(file, 64<<10)
	for {
		text, err := readLine(r)
		if err == io.EOF {
			f.torn = len(text) > 0
			return f, nil
		} else if err != nil && !errors.Is(err, errLongLine) {
			return nil, err
		}
		v.add(f, text, err)
	}
}

func (v *verifier) add(f *scanned, text []byte, tooLong error) {
	l := line{digest: sha256.Sum256(text), forged: !v.sealer.holds(text)}
	w, err := parseLine(text)
	if err := cmp.Or(tooLong, err); err != nil {
		l.bad = err.Error()
		f.lines = append(f.lines, l)
		return
	}
	l.prev, l.seq, l.kind = w.Prev, w.Seq, w.Kind
	f.lines = append(f.lines, l)
	e := Event(w.fields)
	if len(f.lines) == 1 {
		f.first, f.start = e, e.Time
	}
	f.end = e.Time
	if e.Kind == Rotate {
		f.next = e.Next
	}
	v.pair(f, e)
}

// pair matches outcomes with intents, per chain and call.
func (v *verifier) pair(f *scanned, e Event) {
	if e.Call == "" {
		return
	}
	key := callKey{chainOf(f.name), e.Call}
	switch e.Kind {
	case Intent:
		v.open[key] = append(v.open[key], Dangling{f.name, len(f.lines), e})
	case Outcome:
		if waiting := v.open[key]; len(waiting) > 1 {
			v.open[key] = waiting[1:]
		} else {
			delete(v.open, key)
		}
	}
}

// chainOf cuts the number off a file's name.
func chainOf(name string) string {
	name = strings.TrimSuffix(name, logSuffix)
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		return name[:i]
	}
	return name
}

func (f *scanned) damaged(line int, kind DamageKind, format string, args ...any) *Damage {
	return &Damage{File: f.name, Line: line, Kind: kind, Detail: fmt.Sprintf(format, args...)}
}

// check gives the first damage that the file and its head show by themselves.
func (f *scanned) check() *Damage {
	unused := errors.Is(f.headErr, errEmptyHead) || f.headErr == nil && f.head.Events == 0
	if unused && len(f.lines) == 0 {
		return nil // nothing was ever vouched for here
	}
	if f.gone {
		return f.damaged(0, Missing, "only its head is left, which vouches for %d events", f.head.Events)
	}
	if d := f.checkLines(); d != nil {
		return d
	}
	return f.checkHead()
}

func (f *scanned) checkLines() *Damage {
	for i := range f.lines {
		if d := f.checkLine(i); d != nil {
			return d
		}
	}
	return nil
}

func (f *scanned) checkLine(i int) *Damage {
	l := &f.lines[i]
	switch {
	case l.bad != "":
		return f.damaged(i+1, Unreadable, "not an event: %s", l.bad)
	case i == 0:
		return f.checkFirst()
	case f.lines[i-1].kind == Stop || f.lines[i-1].kind == Rotate:
		return f.damaged(i+1, Inserted, "a line after the one that ends the file")
	}
	due := f.lines[i-1].seq + 1
	fits := l.prev == hex.EncodeToString(f.lines[i-1].digest[:])
	switch {
	case fits && l.seq == due && !l.forged:
		return nil
	case fits && l.seq == due:
		return f.damaged(i+1, Edited, "its mac does not hold")
	case fits:
		return f.damaged(i+1, Edited, "it is event %d where event %d is due", l.seq, due)
	case l.seq == due && f.vouched(i):
		return f.damaged(i, Edited, "the next line names another digest for it")
	case l.seq == due:
		return f.damaged(i+1, Edited, "it does not name the digest of the line before it")
	case l.seq < due:
		return f.damaged(i+1, Inserted, "event %d where event %d is due", l.seq, due)
	case f.holds(i, due):
		return f.damaged(i+1, Reordered, "event %d where event %d is due, which stands further down", l.seq, due)
	default:
		return f.damaged(i+1, Dropped, "events %d to %d before it are missing", due, l.seq-1)
	}
}

func (f *scanned) checkFirst() *Damage {
	l := &f.lines[0]
	opens := l.kind == Start || l.kind == Continue
	switch {
	case !opens && slices.ContainsFunc(f.lines[1:], func(o line) bool { return o.kind == Start || o.kind == Continue }):
		return f.damaged(1, Reordered, "event %d where the file's opening line is due, which stands further down", l.seq)
	case !opens && l.seq > 1:
		return f.damaged(1, Dropped, "the file's opening line before event %d is missing", l.seq)
	case !opens, l.kind == Start && (l.seq != 1 || l.prev != ""), l.forged:
		return f.damaged(1, Edited, "not the line that opened the file")
	case f.first.File != f.name:
		return f.damaged(1, Edited, "the file was made under the name %s", cut(f.first.File, 120))
	}
	return nil
}

// vouched reports whether what follows line i names its digest.
func (f *scanned) vouched(i int) bool {
	own := hex.EncodeToString(f.lines[i].digest[:])
	if i+1 < len(f.lines) {
		return f.lines[i+1].prev == own
	}
	return f.headErr == nil && f.head.Events == uint64(len(f.lines)) && f.head.Digest == own
}

// holds reports whether event seq stands after line i.
func (f *scanned) holds(i int, seq uint64) bool {
	return slices.ContainsFunc(f.lines[i+1:], func(l line) bool { return l.bad == "" && l.seq == seq })
}

func (f *scanned) checkHead() *Damage {
	lines := uint64(len(f.lines))
	switch {
	case f.headErr != nil && errors.Is(f.headErr, fs.ErrNotExist):
		return f.damaged(0, BadHead, "the head is gone, so that a cut tail would not show")
	case f.headErr != nil:
		return f.damaged(0, BadHead, "%v", f.headErr)
	case f.head.Events > lines && f.torn:
		return f.damaged(len(f.lines)+1, CutTail, "cut off within this line; the head vouches for %d events", f.head.Events)
	}
	return f.checkAt(f.head, "the head")
}

// checkAt compares the file with a mark that somebody keeps of it.
func (f *scanned) checkAt(m Mark, keeper string) *Damage {
	switch {
	case m.Events > uint64(len(f.lines)):
		return f.damaged(len(f.lines)+1, CutTail, "%s vouches for %d events, %d are there", keeper, m.Events, len(f.lines))
	case m.Events > 0 && m.Digest != hex.EncodeToString(f.lines[m.Events-1].digest[:]):
		return f.damaged(int(m.Events), Edited, "not the line that %s vouches for: it, or lines before it, were rewritten", keeper)
	}
	return nil
}

// checkLinks follows what a file says about others. Only a file that is whole
// itself is believed.
func (v *verifier) checkLinks(f *scanned) error {
	if f.damage != nil || len(f.lines) == 0 {
		return nil
	}
	keeper := "the first line of " + f.name
	for _, m := range f.first.Seen {
		if err := v.checkMark(m, keeper); err != nil {
			return err
		}
	}
	if f.first.Kind == Continue && f.damage == nil {
		f.damage = v.checkContinued(f)
	}
	if f.next == "" {
		return nil
	}
	_, err := v.find(f.next, "the last line of "+f.name)
	return err
}

// find gives a file that another one names, even if a running process began it
// after the folder was listed. One that is not there is recorded as missing.
func (v *verifier) find(name, keeper string) (*scanned, error) {
	if f := v.files[name]; f != nil {
		return f, nil
	}
	if _, err := fs.Stat(v.dir, name); err == nil {
		err := v.load(name)
		return v.files[name], err
	}
	f := &scanned{name: name, gone: true}
	f.damage = f.damaged(0, Missing, "%s names it", keeper)
	v.files[name] = f
	v.order = append(v.order, name)
	return f, nil
}

// checkContinued compares the seam of two files of a chain.
func (v *verifier) checkContinued(f *scanned) *Damage {
	if len(f.first.Seen) != 1 {
		return f.damaged(1, Edited, "it does not name the file that it continues")
	}
	before := v.files[f.first.Seen[0].File]
	if before == nil || before.gone || len(before.lines) == 0 {
		return nil // reported as missing
	}
	last := before.lines[len(before.lines)-1]
	if before.damage == nil && (last.seq+1 != f.lines[0].seq || hex.EncodeToString(last.digest[:]) != f.lines[0].prev) {
		return f.damaged(1, Edited, "it does not continue the last line of %s", before.name)
	}
	return nil
}

func (v *verifier) checkMark(m Mark, keeper string) error {
	f, err := v.find(m.File, keeper)
	if err != nil || f.damage != nil {
		return err
	}
	if f.gone {
		f.damage = f.damaged(0, Missing, "%s vouches for %d events of it", keeper, m.Events)
		return nil
	}
	f.damage = f.checkAt(m, keeper)
	return nil
}

func (v *verifier) report() Report {
	slices.Sort(v.order)
	r := Report{Keyed: v.sealer != nil}
	for _, name := range v.order {
		f := v.files[name]
		fr := FileReport{Name: name, Events: len(f.lines), First: f.start, Last: f.end, Torn: f.torn, Damage: f.damage}
		if n := len(f.lines); n > 0 {
			kind := f.lines[n-1].kind
			fr.Ended = kind == Stop || kind == Rotate
			if f.headErr == nil && f.head.Events < uint64(n) {
				fr.Unanchored = n - int(f.head.Events)
			}
		}
		r.Events += fr.Events
		r.Files = append(r.Files, fr)
	}
	for _, waiting := range v.open {
		r.Dangling = append(r.Dangling, waiting...)
	}
	slices.SortFunc(r.Dangling, func(a, b Dangling) int {
		return cmp.Or(a.Event.Time.Compare(b.Event.Time), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return r
}

var errLongLine = errors.New("longer than a line may be")

// readLine reads a line without its line feed. At the end it returns what is
// left with [io.EOF]; a line longer than maxLine is skipped to its end and comes
// cut with errLongLine.
func readLine(r *bufio.Reader) ([]byte, error) {
	var text []byte
	var long error
	for {
		part, err := r.ReadSlice('\n')
		if len(text)+len(part) > maxLine {
			part, long = part[:max(0, maxLine-len(text))], errLongLine
		}
		text = append(text, part...)
		switch {
		case err == nil && long != nil:
			return text, long
		case err == nil:
			return text[:len(text)-1], nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return text, err
		}
	}
}
