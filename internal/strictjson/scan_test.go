package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// seeds are the texts of the suite, and what the scan has cases for.
func seeds(f *testing.F) {
	raw, err := os.ReadFile("testdata/jsontestsuite.txt")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if fields := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3); len(fields) == 3 && fields[1] == "1" {
			if text, err := strconv.Unquote(fields[2]); err == nil {
				f.Add([]byte(text))
			}
		}
	}
	many := `{"a":1`
	for i := range 3 * maxLinear {
		many += fmt.Sprintf(`,"n%d":{"x":[%d],"y":{}}`, i, i)
	}
	for _, s := range []string{
		many + "}", many + `,"n40":1}`, `{"a":` + many + `},"b":` + many + `,"n7":0}}`, `[` + many + `},` + many + `}]`,
		`{"1234567\"":"1234567\\","é":"12345678é9\ud83d\ude00"}`, "\"1234567\x1f\"", "\"12345678\x7f\"", "\"1234567\xc3\"", `"\ud83d\u0041"`, `"\ud83dxxxxxxxx"`,
		`-`, `[-0.0e+0,1E-9,-1.]`, `[01]`, `[1 2]`, `{"a" 1}`, `{"a":1,}`, `[,]`, `{"a":1]`, `[1}`, "\t[\r\n]\x00",
	} {
		f.Add([]byte(s))
	}
}

// What the scan takes is what the decoder takes, but for names with escapes,
// and it takes objects apart in the same way.
func FuzzScan(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		s := newScan(false)
		scanned, want := s.whole(b), decoded(b)
		if scanned != (want == nil) && (scanned || bytes.IndexByte(b, '\\') < 0) {
			t.Fatalf("scanned %v, decoded: %v: %q", scanned, want, b)
		}
		if scanned && !json.Valid(b) {
			t.Fatalf("taken, though encoding/json does not: %q", b)
		}
		s.done()
		var all []string
		decodedObject(b, func(m Member, err error) bool {
			all = append(all, fmt.Sprintf("%q %q %d %d %d", m.Name, m.Value, m.Key, m.Start, m.End))
			return err == nil
		})
		for m, err := range Object(b) {
			got := fmt.Sprintf("%q %q %d %d %d", m.Name, m.Value, m.Key, m.Start, m.End)
			if len(all) == 0 || all[0] != got {
				t.Fatalf("Object gives %s (%v), the decoder %q: %q", got, err, all, b)
			}
			all = all[1:]
		}
		if len(all) > 0 {
			t.Fatalf("Object leaves out %q: %q", all, b)
		}
	})
}

// The same of the loose reading.
func FuzzLoose(f *testing.F) {
	seeds(f)
	f.Add([]byte(`{"a":1,"a":2,"\ud800":"` + "\xff" + `"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := jsontext.NewDecoder(bytes.NewReader(b), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
		value, err := d.ReadValue()
		end := Loose(b)
		if (err == nil) != (end >= 0) || err == nil && end != int(d.InputOffset()) {
			t.Fatalf("the scan ends at %d, the decoder at %d, %v, after %q: %q", end, d.InputOffset(), err, value, b)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	message := []byte(`{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"search","arguments":{"query":"open issues of the last week","limit":20}}}`)
	for name, check := range map[string]func([]byte) error{"scanned": Check, "decoded": decoded} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(message)))
			for b.Loop() {
				if err := check(message); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A cursor reads what the decoder reads, and stops where it does.
func FuzzCursor(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		d := jsontext.NewDecoder(bytes.NewBuffer(b), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
		c := NewCursor(b)
		for {
			in, n := d.StackIndex(d.StackDepth())
			kind := d.PeekKind()
			var raw []byte
			var err error
			if strings.IndexByte("{}[]", byte(kind)) >= 0 && kind != 0 {
				_, err = d.ReadToken()
			} else {
				raw, err = d.ReadValue()
			}
			got := c.Next()
			if err != nil || kind == 0 {
				if got.Kind != 0 || c.Offset() != int(d.InputOffset()) {
					t.Fatalf("%q at %d where the decoder stops at %d: %v: %q", got.Kind, c.Offset(), d.InputOffset(), err, b)
				}
				return
			}
			if got.Kind != byte(kind) || !bytes.Equal(got.Raw, raw) || got.Name != (in == '{' && n%2 == 0 && kind == '"') || c.Offset() != int(d.InputOffset()) || c.Depth() != d.StackDepth() {
				t.Fatalf("%q %q at %d, the decoder has %q %q at %d: %q", got.Kind, got.Raw, c.Offset(), kind, raw, d.InputOffset(), b)
			}
			if kind == '"' {
				if want, _ := jsontext.AppendUnquote([]byte("x"), raw); string(Unquote([]byte("x"), raw)) != string(want) {
					t.Fatalf("%q says %q, the decoder %q", raw, Unquote(nil, raw), want)
				}
			}
			if c.Depth() == 0 {
				if end := Loose(b); end != c.Offset() {
					t.Fatalf("the cursor ends at %d, the scan at %d: %q", c.Offset(), end, b)
				}
				return
			}
		}
	})
}

// Elements takes an array apart as the decoder does.
func FuzzElements(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var want []json.RawMessage
		if Check(b) != nil || json.Unmarshal(b, &want) != nil && bytes.IndexByte(b, '[') == 0 {
			return
		}
		for e := range Elements(b) {
			if len(want) == 0 || !bytes.Equal(want[0], e) {
				t.Fatalf("%q, want %q: %q", e, want, b)
			}
			want = want[1:]
		}
		if len(want) > 0 {
			t.Fatalf("left out %q: %q", want, b)
		}
	})
}

// One pass over a string tells and says what two do.
func FuzzUnquoteWhole(f *testing.F) {
	seeds(f)
	f.Add([]byte(`"a long text with \"quotes\", é, \u00e9 \ud83d\ude00 \ud83d and \\"`))
	f.Add([]byte("\"\xff\xfe not UTF-8 \\u0041\""))
	f.Add([]byte(`"ends within "what it" begins"`))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, ok := UnquoteWhole([]byte("x"), b)
		if want := len(b) > 0 && b[0] == '"' && Loose(b) == len(b); ok != want {
			t.Fatalf("%v that this is a string: %q", ok, b)
		}
		if want := []byte("x"); !ok && string(got) != string(want) || ok && string(got) != string(Unquote(want, b)) {
			t.Fatalf("says %q: %q", got, b)
		}
	})
}
