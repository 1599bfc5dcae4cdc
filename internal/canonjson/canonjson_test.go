package canonjson

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestAppend(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"white space goes", " { \"a\" : [ 1 , 2 ] }\r\n\t", `{"a":[1,2]}`},
		{"members are sorted", `{"b":1,"a":2,"":3}`, `{"":3,"a":2,"b":1}`},
		{"nested members are sorted", `[{"b":{"d":1,"c":2},"a":0}]`, `[{"a":0,"b":{"c":2,"d":1}}]`},
		{"array order stays", `[3,1,2]`, `[3,1,2]`},
		{"a name that is a beginning of another comes first", `{"ab":1,"a":2}`, `{"a":2,"ab":1}`},
		{"an escaped name sorts by what it means", `{"b":1,"\u0061":2}`, `{"a":2,"b":1}`},
		// U+10000 is D800 DC00 in UTF-16 and so comes before U+E000; by code
		// point or by UTF-8 byte it would come after.
		{"sorted by UTF-16 code units", "{\"\ue000\":1,\"\U00010000\":2}", "{\"\U00010000\":2,\"\ue000\":1}"},
		{"the RFC's own sorting example", `{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`,
			"{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\",\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}"},
		{"strings take their shortest form", `"\u0041\/\u00e9\u001f\u0008\u2028"`, "\"A/é\\u001f\\b\u2028\""},
		{"markup is not escaped", `"\u003ca href='x'\u003e&"`, `"<a href='x'>&"`},
		{"literals", `[true,false,null]`, `[true,false,null]`},
		{"a scalar is a value", ` "x" `, `"x"`},
		{"empty containers", `[{},[],""]`, `[{},[],""]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Append(nil, []byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tt.want {
				t.Errorf("Append(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

func TestAppendKeepsNumberLiterals(t *testing.T) {
	for _, n := range []string{
		"0", "-0", "-0.0", "0.0", "1", "1.0", "1.50", "-1", "1e3", "1E3", "1E+3", "1e-3", "1E400", "-1e-400",
		"9007199254740993", "12345678901234567890", "0.1000000000000000055511151231257827",
		"333333333.33333329", "1e21", "123456789012345678901234567890.123456789",
	} {
		in := `{"n": ` + n + `, "a":[` + n + `]}`
		want := `{"a":[` + n + `],"n":` + n + `}`
		got, err := Append(nil, []byte(in))
		if err != nil {
			t.Errorf("Append(%s): %v", in, err)
		} else if string(got) != want {
			t.Errorf("Append(%s) = %s, want %s", in, got, want)
		}
	}
}

func TestAppendRefuses(t *testing.T) {
	tests := []struct{ name, in string }{
		{"nothing", ""},
		{"white space only", " \n"},
		{"a repeated name", `{"a":1,"a":1}`},
		{"a repeated name spelled with an escape", `{"a":1,"\u0061":1}`},
		{"a repeated name further down", `{"x":[{"a":1,"b":2,"a":3}]}`},
		{"invalid UTF-8", "\"\xff\""},
		{"invalid UTF-8 in a name", "{\"\xc3\":1}"},
		{"a lone high surrogate", `"\ud800"`},
		{"a lone low surrogate", `"\udc00"`},
		{"a second value", `1 2`},
		{"trailing text", `{} x`},
		{"a byte order mark", "\ufeff{}"},
		{"a comment", `{/*x*/}`},
		{"a trailing comma", `[1,]`},
		{"a leading zero", `01`},
		{"not a number", `NaN`},
		{"a raw control character", "\"\n\""},
		{"a cut value", `{"a":`},
		{"nesting without end", strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			prefix := []byte("kept")
			got, err := Append(prefix, []byte(tt.in))
			if err == nil {
				t.Fatalf("Append(%.60q) = %q, want an error", tt.in, got)
			}
			if string(got) != "kept" {
				t.Errorf("dst after an error = %.60q, want it as it was", got)
			}
			if _, ok := errors.AsType[*jsontext.SyntacticError](err); !ok {
				t.Errorf("error %v (%T) does not wrap a SyntacticError", err, err)
			}
		})
	}
}

func TestAppendLeavesSourceAndDestination(t *testing.T) {
	src := []byte(`{"b":1, "a":"\u0041"}`)
	before := bytes.Clone(src)
	dst := append(make([]byte, 0, 256), "head "...)
	got, err := Append(dst, src)
	if err != nil {
		t.Fatal(err)
	}
	if want := `head {"a":"A","b":1}`; string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !bytes.Equal(src, before) {
		t.Errorf("source became %q", src)
	}
}

func TestDigest(t *testing.T) {
	got, err := Digest([]byte(`{ "b":1, "a":2 }`))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(`{"a":2,"b":1}`))
	if want := hex.EncodeToString(sum[:]); got != want {
		t.Errorf("Digest = %s, want %s", got, want)
	}
	if got, err := Digest([]byte(`{`)); err == nil || got != "" {
		t.Errorf("Digest of a cut value = %q, %v, want an error and no digest", got, err)
	}
}

// value is a random JSON value that can be spelled in many ways.
type value struct {
	kind    int // 0 literal, 1 string, 2 array, 3 object
	literal string
	text    string
	items   []value
	names   []string
}

var runes = []rune("ab\"\\/\n\t\u0000\u001f\u007f\u0080é€<>&\u2028\ufb33\ue000😀\U00010000\U0010ffff")

func randomText(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(5) {
		b.WriteRune(runes[r.IntN(len(runes))])
	}
	return b.String()
}

func randomValue(r *rand.Rand, depth int) value {
	literals := []string{"null", "true", "false", "0", "-0", "1.0", "1E400", "12345678901234567890", "0.1e-7"}
	kind := r.IntN(4)
	if depth == 0 {
		kind = r.IntN(2)
	}
	v := value{kind: kind}
	switch kind {
	case 0:
		v.literal = literals[r.IntN(len(literals))]
	case 1:
		v.text = randomText(r)
	case 2:
		for range r.IntN(4) {
			v.items = append(v.items, randomValue(r, depth-1))
		}
	case 3:
		seen := map[string]bool{}
		for range r.IntN(5) {
			if name := randomText(r); !seen[name] {
				seen[name] = true
				v.names = append(v.names, name)
				v.items = append(v.items, randomValue(r, depth-1))
			}
		}
	}
	return v
}

// spell writes v with random white space, escapes and member order.
func (v value) spell(r *rand.Rand) string {
	space := func() string { return strings.Repeat([]string{" ", "\n", "\t", "\r"}[r.IntN(4)], r.IntN(2)) }
	var b strings.Builder
	b.WriteString(space())
	switch v.kind {
	case 0:
		b.WriteString(v.literal)
	case 1:
		b.WriteString(spellText(r, v.text))
	case 2:
		b.WriteByte('[')
		for i, item := range v.items {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(item.spell(r))
		}
		b.WriteString(space() + "]")
	case 3:
		b.WriteByte('{')
		for i, k := range r.Perm(len(v.names)) {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(space() + spellText(r, v.names[k]) + space() + ":" + v.items[k].spell(r))
		}
		b.WriteString(space() + "}")
	}
	b.WriteString(space())
	return b.String()
}

func spellText(r *rand.Rand, s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		must := c < 0x20 || c == '"' || c == '\\'
		switch {
		case !must && r.IntN(2) == 0:
			b.WriteRune(c)
		case c > 0xffff:
			fmt.Fprintf(&b, `\u%04x\u%04X`, 0xd800+(c-0x10000)>>10, 0xdc00+(c-0x10000)&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04X`, c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func TestLaws(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0)) // fixed, so a failure is a failure for everyone
	for range 5_000 {
		v := randomValue(r, 3)
		one, two := v.spell(r), v.spell(r)
		a, errA := Append(nil, []byte(one))
		b, errB := Append(nil, []byte(two))
		if errA != nil || errB != nil {
			t.Fatalf("%q: %v\n%q: %v", one, errA, two, errB)
		}
		if !bytes.Equal(a, b) {
			t.Fatalf("two spellings of one value differ\n%q -> %q\n%q -> %q", one, a, two, b)
		}
		again, err := Append(nil, a)
		if err != nil || !bytes.Equal(a, again) {
			t.Fatalf("not idempotent: %q -> %q, %v", a, again, err)
		}
		if isCanonical([]byte(one)) && one != string(a) {
			t.Fatalf("%q is taken for canonical, which is %q", one, a)
		}
		if !sameMeaning(t, []byte(one), a) {
			t.Fatalf("meaning changed: %q -> %q", one, a)
		}
	}
}

// sameMeaning compares through encoding/json, with literal numbers.
func sameMeaning(t *testing.T, a, b []byte) bool {
	t.Helper()
	return bytes.Equal(reencode(t, a), reencode(t, b))
}

func reencode(t *testing.T, b []byte) []byte {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("decode %q: %v", b, err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func FuzzAppend(f *testing.F) {
	for _, s := range []string{`{"b":1,"a":[1.0,-0,1E400]}`, `"\ud83d\ude00"`, "\"\xff\"", `{"a":1,"a":2}`, ` [ ] `, `{"\ue000":1,"\ud800\udc00":2}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		got, err := Append(nil, src)
		if isCanonical(src) && (err != nil || !bytes.Equal(got, src)) {
			t.Fatalf("%q is taken for canonical: %q, %v", src, got, err)
		}
		if err != nil {
			return
		}
		if !json.Valid(src) {
			t.Fatalf("accepted %q, which encoding/json refuses", src)
		}
		again, err := Append([]byte("x"), got)
		if err != nil || string(again) != "x"+string(got) {
			t.Fatalf("not idempotent: %q -> %q -> %q, %v", src, got, again, err)
		}
		if !sameMeaning(t, src, got) {
			t.Fatalf("meaning changed: %q -> %q", src, got)
		}
	})
}

// What is canonical and plain is known to be without being made anew; what is not
// is never taken for it.
func TestIsCanonical(t *testing.T) {
	for src, want := range map[string]bool{
		`{"a":[1,-20,0,-0,true,false,null,"x y"],"b":{},"c":[]}`: true,
		`"text"`: true, `0`: true, `{}`: true, `[]`: true, `true`: true, `{"":1,"A":1,"a":1}`: true,
		`{"b":1,"a":1}`: false, `{"a":1,"a":1}`: false, `{"a":1,}`: false, `[1,]`: false, `{"a": 1}`: false, ` 1`: false, `1 `: false,
		`"\u0061"`: false, `"é"`: false, "\"\x7f\"": false, "\"\t\"": false, `01`: false, `-`: false, `1.5`: false, `1e3`: false, `truex`: false, `tru`: false,
		`{"a"}`: false, `{"a":}`: false, `{"a":1`: false, `[`: false, `[1`: false, `[1 2]`: false, `"`: false, ``: false, `{}{}`: false, `{a:1}`: false, `1,2`: false,
		strings.Repeat("[", 40) + strings.Repeat("]", 40): false,
	} {
		if got := isCanonical([]byte(src)); got != want {
			t.Errorf("%q: %v, want %v", src, got, want)
		}
		if got, err := Append(nil, []byte(src)); want && (err != nil || string(got) != src) {
			t.Errorf("%q is canonical as %q, %v", src, got, err)
		}
	}
}

func BenchmarkDigest(b *testing.B) {
	src := []byte(`{"text":"` + strings.Repeat("0123456789abcdef", 4) + `"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Digest(src); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	src := []byte(`{"path":"notes/todo.md","content":"` + strings.Repeat("line of text ", 40) + `","mode":420,"append":false}`)
	dst := make([]byte, 0, 2*len(src))
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if dst, err = Append(dst[:0], src); err != nil {
			b.Fatal(err)
		}
	}
}
