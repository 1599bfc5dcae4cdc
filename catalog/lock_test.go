package catalog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-gate/mcp-gate/engagement"
)

// names that have broken formats before.
var oddNames = []string{"a", "get_issue", "github.com/x/y", "with space", `quo"te`, `back\slash`, "line\nbreak", "ünï", "\u202eevil", "tab\there", "", "-", "tool", "\x00"}

func randomDigest(r *rand.Rand) string { return TextDigest(fmt.Sprint(r.Uint64())) }

func randomDespite(r *rand.Rand) []string {
	if r.IntN(4) > 0 {
		return nil
	}
	return [][]string{{"bidi"}, {"ansi", "tag-block"}}[r.IntN(2)]
}

func randomPin(r *rand.Rand) Pin {
	return Pin{
		Digest:     randomDigest(r),
		Permission: engagement.Permissions()[r.IntN(4)],
		Egress:     engagement.EgressClasses()[r.IntN(5)],
		Domains:    engagement.DomainSet(r.UintN(1 << 10)),
		Despite:    randomDespite(r),
	}
}

func randomRecord(r *rand.Rand) Record {
	rec := Record{ServerID: randomDigest(r), Tools: map[string]Pin{}}
	for range r.IntN(6) {
		rec.Tools[oddNames[r.IntN(len(oddNames))]] = randomPin(r)
	}
	if r.IntN(4) == 0 {
		rec.Tools["torn"] = randomPin(r).beside(randomPin(r)).beside(randomPin(r))
	}
	if r.IntN(2) == 0 {
		text := "Use it.\n\"Well\" \u2028 <&>"
		rec.Instructions = &PinnedText{Digest: TextDigest(text), Text: text, Despite: randomDespite(r)}
	}
	return rec
}

func randomLock(r *rand.Rand) Lock {
	l := Lock{Servers: map[string]Record{}}
	for range r.IntN(5) {
		l.Servers[oddNames[r.IntN(len(oddNames))]] = randomRecord(r)
	}
	return l
}

func encode(t *testing.T, l Lock) string {
	t.Helper()
	b, err := l.Encode()
	if err != nil {
		t.Fatalf("encode %+v: %v", l, err)
	}
	return string(b)
}

func TestALockReadsBackAsItWasWritten(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0))
	for range 400 {
		l := randomLock(r)
		text := encode(t, l)
		back, err := ParseLock([]byte(text))
		if err != nil || !back.Equal(l) {
			t.Fatalf("%+v became %+v, %v, through\n%s", l, back, err, text)
		}
		if again := encode(t, back); again != text {
			t.Fatalf("one lock has two texts:\n%s\n%s", text, again)
		}
		lines := strings.SplitAfter(strings.TrimPrefix(text, lockHeader+"\n"), "\n")
		r.Shuffle(len(lines)-1, func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
		shuffled, err := ParseLock([]byte(lockHeader + "\n" + strings.Join(lines, "")))
		if err != nil || !shuffled.Equal(l) {
			t.Fatalf("the order of lines changes what they say: %v\n%s", err, text)
		}
		windows, err := ParseLock([]byte(strings.ReplaceAll(text, "\n", "\r\n")))
		if err != nil || !windows.Equal(l) {
			t.Fatalf("line ends of another system change what a lock says: %v", err)
		}
	}
}

func TestTheTextOfALock(t *testing.T) {
	d := strings.Repeat("ab", 32)
	l := Lock{Servers: map[string]Record{
		"github": {ServerID: d, Instructions: &PinnedText{Digest: d, Text: "Read <first>\n"}, Tools: map[string]Pin{
			"get":       {Digest: d, Permission: engagement.Read, Egress: engagement.RowLevel, Domains: engagement.DomainsOf(engagement.DomainVCS, engagement.DomainWeb)},
			"Weird one": {Digest: d, Permission: engagement.Destructive, Egress: engagement.Metadata, Despite: []string{"ansi", "bidi"}},
		}},
		"Files/A": {ServerID: d},
		"Words":   {ServerID: d, Instructions: &PinnedText{Digest: d, Text: "Hi."}, Bare: true},
	}}
	want := strings.ReplaceAll(`mcp-gate lock 1
server "Files/A" D
server "Words" D bare
instructions "Words" D "Hi."
server "github" D
instructions "github" D "Read <first>\n"
tool "github" "Weird one" D destructive metadata - despite:ansi,bidi
tool "github" "get" D read row_level web,vcs
`, " D", " "+d)
	if got := encode(t, l); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// mergeLines is what a line merge without conflicts does: from the base,
// what either side took out, and in, what either side put in.
func mergeLines(base, a, b string) string {
	split := func(s string) []string { return strings.SplitAfter(s, "\n") }
	var merged []string
	for _, l := range split(base) {
		if slices.Contains(split(a), l) && slices.Contains(split(b), l) {
			merged = append(merged, l)
		}
	}
	for _, side := range []string{a, b} {
		for _, l := range split(side) {
			if !slices.Contains(split(base), l) && !slices.Contains(merged, l) {
				merged = append(merged, l)
			}
		}
	}
	return strings.Join(merged, "")
}

func clone(t *testing.T, l Lock) Lock {
	t.Helper()
	c, err := ParseLock([]byte(encode(t, l)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestIndependentChangesMergeLineByLine(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 0))
	for range 150 {
		base := randomLock(r)
		base.Servers["shared"] = randomRecord(r)
		base.Servers["left"], base.Servers["right"] = randomRecord(r), randomRecord(r)
		a, b, both := clone(t, base), clone(t, base), clone(t, base)
		change := func(server, tool string, locks ...Lock) {
			whole, pin := randomRecord(r), randomPin(r)
			for _, l := range locks {
				l.Servers[server+" own"] = whole
				l.Servers["shared"].Tools[tool] = pin
				delete(l.Servers, server)
			}
		}
		change("left", "left_tool", a, both)
		change("right", "right_tool", b, both)
		x := mergeLines(encode(t, base), encode(t, a), encode(t, b))
		y := mergeLines(encode(t, base), encode(t, b), encode(t, a))
		ab, errAB := ParseLock([]byte(x))
		ba, errBA := ParseLock([]byte(y))
		if errAB != nil || errBA != nil || !ab.Equal(ba) || !ab.Equal(both) {
			t.Fatalf("%v %v\n%s\n%s", errAB, errBA, x, y)
		}
	}
}

func TestABadLockIsBrokenAndSaysWhere(t *testing.T) {
	d, e := strings.Repeat("0", 64), strings.Repeat("f", 64)
	head := lockHeader + "\n"
	server := `server "s" ` + d + "\n"
	for name, tt := range map[string]struct {
		text string
		line int
		col  int
		says string
	}{
		"nothing":                  {"", 1, 1, "empty"},
		"another format":           {"mcp-gate lock 2\n", 1, 1, "want the line"},
		"a JSON lock":              {"{}\n", 1, 1, "want the line"},
		"an unfinished merge":      {head + server + "<<<<<<< HEAD\n", 3, 1, "an unresolved merge: keep the lines of both sides without the marks"},
		"a word it does not know":  {head + "sever\n", 2, 1, "want one of server"},
		"an empty line":            {head + "\n", 2, 1, "unknown word"},
		"a cut line":               {head + server + `tool "s" "t" ` + d, 3, 78, "does not end"},
		"a short digest":           {head + `server "s" 12` + "\n", 2, 12, "64 hex digits"},
		"a digest in upper case":   {head + `server "s" ` + strings.ToUpper(e) + "\n", 2, 12, "64 hex digits"},
		"more after the end":       {head + strings.TrimSpace(server) + " x\n", 2, 77, "should end"},
		"a space too many":         {head + `server "s"  ` + d + "\n", 2, 12, "one space"},
		"a space at the end":       {head + strings.TrimSpace(server) + " \n", 2, 77, "should end"},
		"no quotes":                {head + `server s ` + d + "\n", 2, 8, "JSON string"},
		"a string without an end":  {head + `server "s ` + d + "\n", 2, 8, "does not end"},
		"a bad escape":             {head + `server "\x" ` + d + "\n", 2, 8, ""},
		"a lone surrogate":         {head + `server "\ud800" ` + d + "\n", 2, 8, ""},
		"a class nobody knows":     {head + server + `tool "s" "t" ` + d + " reed row_level -\n", 3, 79, "want one of read"},
		"an egress nobody knows":   {head + server + `tool "s" "t" ` + d + " read rows -\n", 3, 84, "want one of metadata"},
		"a domain nobody knows":    {head + server + `tool "s" "t" ` + d + " read row_level vcs,weather\n", 3, 94, "weather"},
		"no domains":               {head + server + `tool "s" "t" ` + d + " read row_level\n", 3, 93, "missing"},
		"a tool of nobody":         {head + server + `tool "z" "t" ` + d + " read row_level -\n", 3, 6, "no line of its own"},
		"two ids of one server":    {head + server + `server "s" ` + e + "\n", 3, 1, "line 2"},
		"findings that are none":   {head + server + `tool "s" "t" ` + d + " read row_level - despite:\n", 3, 96, "despite"},
		"findings in disorder":     {head + server + `tool "s" "t" ` + d + " read row_level - despite:b,a\n", 3, 96, "sorted"},
		"something after them":     {head + server + `tool "s" "t" ` + d + " read row_level - despite:b x\n", 3, 106, "should end"},
		"a stranger at the end":    {head + server + `tool "s" "t" ` + d + " read row_level - since:2020\n", 3, 96, "despite"},
		"two texts of one server":  {head + server + `instructions "s" ` + d + ` "a"` + "\n" + `instructions "s" ` + d + ` "b"` + "\n", 4, 1, "line 3"},
		"a carriage return inside": {head + "server \"s\"\r " + d + "\n", 2, 11, "one space"},
	} {
		l, err := ParseLock([]byte(tt.text))
		var at *LockError
		if !errors.As(err, &at) || l.Broken == nil || l.Servers != nil {
			t.Errorf("%s: got %+v, %v", name, l, err)
			continue
		}
		if at.Line != tt.line || at.Column != tt.col || !strings.Contains(at.Problem, tt.says) {
			t.Errorf("%s: got %v, want line %d, column %d and %q", name, at, tt.line, tt.col, tt.says)
		}
	}
}

// Of a tool that a merge left twice nothing is accepted until a person has seen it;
// the other tools of its server are as accepted as before.
func TestAToolThatAMergeLeftTwiceIsHeldAlone(t *testing.T) {
	dir := t.TempDir()
	d := NewLedger(dir+"/lock", dir+"/catalog")
	one, two := defined(t, "s", `{"name":"torn","description":"One"}`), defined(t, "s", `{"name":"torn","description":"Two"}`)
	whole := defined(t, "s", `{"name":"whole","description":"All"}`)
	offer := func(tools ...Tool) Offer {
		o := NewOffer(tools, false, "", nil)
		o.Key, o.ServerID = "s", strings.Repeat("5", 64)
		return o
	}
	if _, err := d.Take(offer(one, whole)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(dir + "/lock")
	if err != nil {
		t.Fatal(err)
	}
	merged := string(text) + strings.Replace(lineOf(string(text), `"torn"`), one.Digest, two.Digest, 1)
	if err := os.WriteFile(dir+"/lock", []byte(merged), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, shown := range []Tool{one, two} {
		j, err := d.Take(offer(shown, whole))
		if err != nil || j.State("whole") != Accepted || j.State("torn") != Changed || !strings.Contains(j.Tools[0].Why, "several lines") || j.Tools[0].Pinned == shown.Digest {
			t.Errorf("%s is shown: %v, %+v", shown.Description, err, j.Tools)
		}
	}
	classes := Record{ServerID: strings.Repeat("5", 64), Tools: map[string]Pin{"torn": Pin{Digest: one.Digest, Permission: engagement.Read}.beside(Pin{Digest: one.Digest, Permission: engagement.Destructive})}}
	if j := (Lock{Servers: map[string]Record{"s": classes}}).Judge(offer(one)); j.State("torn") != Changed || !strings.Contains(j.Tools[0].Why, "in its class") {
		t.Errorf("one definition with two classes: %+v", j.Tools)
	}
	other := offer(defined(t, "t", `{"name":"beside"}`))
	other.Key = "t"
	if _, err := d.Take(other); err != nil { // another server's first sight writes the lock
		t.Fatal(err)
	}
	l, err := d.Load()
	if entries, lost := d.Entries(l, "s", strings.Repeat("5", 64), nil); err != nil || lost != nil || len(entries) != 1 || len(l.Servers["s"].Tools["torn"].Rivals) != 2 {
		t.Fatalf("%v, %v: %+v of %+v", err, lost, entries, l)
	}
	if l, err = d.Accept(offer(two, whole), Pick{"torn", two.Digest}); err != nil || l.Judge(offer(two, whole)).State("torn") != Accepted || l.Judge(offer(one, whole)).State("torn") != Changed {
		t.Errorf("accepted: %v, %+v", err, l)
	}
}

// lineOf is the line of a text that has a word.
func lineOf(text, word string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			return line
		}
	}
	return ""
}

func TestTheSameLineTwiceSaysNothingNew(t *testing.T) {
	l := Lock{Servers: map[string]Record{"s": randomRecord(rand.New(rand.NewPCG(3, 0)))}}
	text := encode(t, l)
	back, err := ParseLock([]byte(text + strings.TrimPrefix(text, lockHeader+"\n")))
	if err != nil || !back.Equal(l) {
		t.Errorf("a union merge of the same change: %v", err)
	}
}

func TestWhatCouldNotBeReadBackIsNotWritten(t *testing.T) {
	good := Pin{Digest: strings.Repeat("a", 64), Permission: engagement.Read, Egress: engagement.Metadata}
	for name, edit := range map[string]func(*Pin){
		"no class":       func(p *Pin) { p.Permission = 0 },
		"no egress":      func(p *Pin) { p.Egress = 0 },
		"no digest":      func(p *Pin) { p.Digest = "" },
		"an odd finding": func(p *Pin) { p.Despite = []string{"a b"} },
	} {
		p := good
		edit(&p)
		if _, err := (Lock{Servers: map[string]Record{"s": {ServerID: good.Digest, Tools: map[string]Pin{"t": p}}}}).Encode(); err == nil {
			t.Errorf("%s: it was written", name)
		}
	}
	if _, err := (Lock{Servers: map[string]Record{"\xff": {ServerID: good.Digest}}}).Encode(); err == nil {
		t.Error("a key that is no text was written as another one")
	}
	if _, err := (Lock{Broken: errors.New("x")}).Encode(); err == nil {
		t.Error("a lock that could not be read was written")
	}
}

func FuzzParseLock(f *testing.F) {
	r := rand.New(rand.NewPCG(4, 0))
	for range 20 {
		if b, err := randomLock(r).Encode(); err == nil {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := ParseLock(b)
		if err != nil {
			return
		}
		text, err := l.Encode()
		if err != nil {
			t.Fatalf("took %q and cannot write it: %v", b, err)
		}
		back, err := ParseLock(text)
		if err != nil || !back.Equal(l) {
			t.Fatalf("%q does not read back: %v", text, err)
		}
	})
}
