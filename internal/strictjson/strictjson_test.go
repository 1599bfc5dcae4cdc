package strictjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestCheckRefusesWhatReadersUnderstandDifferently(t *testing.T) {
	deep := strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1)
	for name, in := range map[string]string{
		"empty":                    ``,
		"duplicate name":           `{"a":1,"a":2}`,
		"duplicate name, deep":     `{"x":[{"a":1,"b":0,"a":2}]}`,
		"duplicate by an escape":   `{"a":1,"\u0061":2}`,
		"trailing value":           `{} {}`,
		"trailing comma":           `[1,]`,
		"NaN":                      `NaN`,
		"Infinity":                 `[-Infinity]`,
		"leading zero":             `01`,
		"lone high surrogate":      `"\ud800"`,
		"lone low surrogate":       `"\udc00x"`,
		"invalid UTF-8":            "\"\xff\"",
		"overlong UTF-8":           "\"\xc0\xaf\"",
		"surrogate in UTF-8":       "\"\xed\xa0\x80\"",
		"raw control byte":         "\"a\x01b\"",
		"comment":                  `{/**/}`,
		"single quotes":            `{'a':1}`,
		"too deep":                 deep,
		"cut":                      `{"a":`,
		"byte order mark":          "\ufeff{}",
		"NUL after the value":      "{}\x00",
		"an unquoted member name":  `{a:1}`,
		"a number with plus":       `[+1]`,
		"a number with bare point": `[1.]`,
	} {
		if Check([]byte(in)) == nil {
			t.Errorf("%s: accepted %.40q", name, in)
		}
	}
}

func TestCheckAcceptsEveryStrictValue(t *testing.T) {
	for _, in := range []string{
		`null`, ` true `, `-0`, `12345678901234567890`, `1E400`, `"\ud83d\ude00"`, `{"":{"":[]}}`,
		`{"a":1,"A":2}`, strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth),
		`"` + strings.Repeat("[", 3*MaxDepth) + `"`, "\t{\n}\r",
	} {
		if err := Check([]byte(in)); err != nil {
			t.Errorf("%.40q: %v", in, err)
		}
	}
}

func TestSetAndDeleteKeepEveryOtherByte(t *testing.T) {
	tests := []struct{ name, obj, key, value, set, deleted string }{
		{"in the middle", `{"a" : 1, "b":2 ,"c":3}`, "b", `"x"`, `{"a" : 1, "b":"x" ,"c":3}`, `{"a" : 1 ,"c":3}`},
		{"the first", `{ "a":1, "b":2}`, "a", `0`, `{ "a":0, "b":2}`, `{ "b":2}`},
		{"the last", `{"a":1,"b":2 }`, "b", `0`, `{"a":1,"b":0 }`, `{"a":1 }`},
		{"the only one", `{ "a":1 }`, "a", `0`, `{ "a":0 }`, `{  }`},
		{"none", `{"a":1 }`, "z", `[0]`, `{"a":1 ,"z":[0]}`, `{"a":1 }`},
		{"an empty object", `{}`, "z", `0`, `{"z":0}`, `{}`},
		{"an escaped name", `{"\u0061":1,"b\"c":2}`, "a", `0`, `{"\u0061":0,"b\"c":2}`, `{"b\"c":2}`},
	}
	for _, tt := range tests {
		set, err := Set([]byte(tt.obj), tt.key, []byte(tt.value))
		if err != nil || string(set) != tt.set {
			t.Errorf("%s: Set gives %s, %v, want %s", tt.name, set, err, tt.set)
		}
		deleted, err := Delete([]byte(tt.obj), tt.key)
		if err != nil || string(deleted) != tt.deleted {
			t.Errorf("%s: Delete gives %s, %v, want %s", tt.name, deleted, err, tt.deleted)
		}
	}
}

func TestObjectRefusesWhatIsNotOne(t *testing.T) {
	for in, want := range map[string]string{
		`[]`: "an array", `"s"`: "a string", `1`: "a number", `null`: "null", `true`: "true or false",
		`{"a":1} x`: "more than one", `{"a":1,"a":1}`: "duplicate", `{"a"`: "too early",
	} {
		if _, _, err := Get([]byte(in), "a"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Get of %s: %v, want %q in it", in, err, want)
		}
	}
}

func TestFoldedNamesTheImitated(t *testing.T) {
	if got, ok := Folded("param\u017f", "method", "params"); !ok || got != "params" {
		t.Errorf("the long s is not seen as a fold of params: %q %v", got, ok)
	}
	if _, ok := Folded("params", "method", "params"); ok {
		t.Error("an exact name is called an imitation")
	}
}

func TestAppendStringRepairsBadUTF8(t *testing.T) {
	if got := string(AppendString(nil, "<a&b>\xff\n")); got != `"<a&b>`+"\uFFFD"+`\n"` {
		t.Errorf("got %s", got)
	}
}

// What Check accepts, the standard library accepts, and edits leave it valid.
func FuzzCheck(f *testing.F) {
	for _, s := range []string{`{"a":[1,{"b":null}]}`, `{"a":1,"a":2}`, `"\ud800"`, "{\"k\\\\\":1,\"\\\"\":2}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if Check(b) != nil {
			return
		}
		if !json.Valid(b) {
			t.Fatalf("accepted what encoding/json refuses: %q", b)
		}
		if bytes.TrimSpace(b)[0] != '{' {
			return
		}
		for m, err := range Object(b) {
			if err != nil {
				t.Fatalf("Object refuses what Check accepts: %v", err)
			}
			if b[m.Key] != '"' {
				t.Fatalf("Key of %q is not a quote in %q", m.Name, b)
			}
			out, err := Delete(b, m.Name)
			if err != nil || Check(out) != nil {
				t.Fatalf("Delete %q of %q gives %q, %v", m.Name, b, out, err)
			}
			out, err = Set(b, m.Name, []byte("0"))
			if err != nil || Check(out) != nil {
				t.Fatalf("Set %q of %q gives %q, %v", m.Name, b, out, err)
			}
		}
	})
}
