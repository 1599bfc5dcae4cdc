package policy

import (
	"encoding/json"
	"math/big"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mcp-gate/mcp-gate/catalog"
)

func TestDecimalsCompareExactly(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{
		{"1", "1.0", 0}, {"1", "1e0", 0}, {"10", "1E1", 0}, {"100e-2", "1", 0}, {"0.001e3", "1", 0}, {"0", "-0", 0}, {"0", "0e999", 0}, {"-0.0", "0", 0},
		{"9007199254740993", "9007199254740992", 1}, // 2^53+1: equal as float64
		{"0.1", "0.10000000000000001", -1},          // equal as float64
		{"0.3", "0.30000000000000004", -1},
		{"12345678901234567890", "12345678901234567891", -1},
		{"1e400", "1e401", -1}, {"-1e400", "-1e401", 1}, {"1e-400", "0", 1}, {"-1e-400", "0", -1},
		{"-1", "1", -1}, {"2", "10", -1}, {"-2", "-10", 1}, {"1.5", "1.25", 1}, {"99", "100", -1}, {"0.09", "0.1", -1},
		{"1e999999999999999", "1e999999999999998", 1}, {"1e-999999999999999", "1e999999999999999", -1},
		{"1e+5", "100000", 0}, {"1e0000000000000000000005", "100000", 0}, {"1e-0000000000000000000005", "0.00001", 0},
	}
	for _, tt := range tests {
		a, errA := parseDecimal(tt.a)
		b, errB := parseDecimal(tt.b)
		if errA != nil || errB != nil {
			t.Errorf("%s, %s: %v, %v", tt.a, tt.b, errA, errB)
			continue
		}
		if got := a.compare(b); got != tt.want {
			t.Errorf("compare(%s, %s) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
		if got := b.compare(a); got != -tt.want {
			t.Errorf("compare(%s, %s) = %d, want %d", tt.b, tt.a, got, -tt.want)
		}
	}
}

func TestWhatIsNoDecimal(t *testing.T) {
	for _, s := range []string{
		"", "-", "+1", "01", "-01", "1.", ".5", "1e", "1e+", "1e-", "1e+-5", "1e-+5", "1e5e5", "0x10", "NaN", "Infinity", "1 ", " 1", "1_000", "١",
		"1e1000000000000000", "1e-1000000000000000", "--1", "1.2.3", "1e1.5",
	} {
		if d, err := parseDecimal(s); err == nil {
			t.Errorf("%q is read as %+v", s, d)
		}
	}
}

// FuzzDecimal holds the order against math/big, and what is a number against the
// JSON parser.
func FuzzDecimal(f *testing.F) {
	for _, s := range []string{"0", "-0.5e-7", "1e+3", "12345678901234567890.125", "1.", "01", "1e999"} {
		f.Add(s, "1.25e2")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, errX := parseDecimal(a)
		y, errY := parseDecimal(b)
		if isNumber := json.Valid([]byte(a)) && strings.Trim(a, "0123456789+-.eE") == "" && a != ""; errX == nil && !isNumber {
			t.Fatalf("%q is no JSON number and was read as %+v", a, x)
		} else if errX == errNotDecimal && isNumber {
			t.Fatalf("%q is a JSON number and was not read", a)
		}
		if errX != nil || errY != nil || max(x.exp, y.exp, -x.exp, -y.exp) > 2000 {
			return
		}
		p, _ := new(big.Rat).SetString(a)
		q, _ := new(big.Rat).SetString(b)
		if p == nil || q == nil {
			return // big.Rat has a bound of its own
		}
		if got, want := x.compare(y), p.Cmp(q); got != want {
			t.Fatalf("compare(%q, %q) = %d, want %d", a, b, got, want)
		}
	})
}

func TestGlob(t *testing.T) {
	tests := []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true}, {"", "a", false}, {"a", "a", true}, {"a", "", false}, {"*", "", true}, {"*", "a/b\nc", true}, {"**", "abc", true},
		{"?", "é", true}, {"?", "", false}, {"??", "é", false}, {"*??", "€", false}, {"*???", "éé", false}, {"*?", "é", true},
		{"rm -rf*", "rm -rf /tmp/x", true}, {"rm -rf*", "ls; rm -rf /", false}, {"*rm -rf*", "ls; rm -rf /", true},
		{"a*b*c", "aXbYbZc", true}, {"a*b*c", "aXbYbZ", false}, {`\*`, "*", true}, {`\*`, "a", false}, {`\\`, `\`, true}, {`\a`, "a", true},
		{`a\`, `a\`, false}, {"*a", "aaab", false}, {"*.txt", "x.txt", true}, {"[ab]", "a", false}, {"[ab]", "[ab]", true},
		{"é*", "éa", true}, {"A", "a", false},
	}
	for _, tt := range tests {
		if got := glob(tt.pattern, tt.s); got != tt.want {
			t.Errorf("glob(%q, %q) = %v", tt.pattern, tt.s, got)
		}
	}
}

// FuzzGlob holds the matcher against the regular expression that says the same.
func FuzzGlob(f *testing.F) {
	f.Add("a*b?c", "aXXbéc")
	f.Add(`\**\?`, "*x?")
	f.Fuzz(func(t *testing.T, pattern, s string) {
		if !utf8.ValidString(pattern) || !utf8.ValidString(s) || strings.HasSuffix(strings.ReplaceAll(pattern, `\\`, ""), `\`) || len(pattern) > 64 {
			return
		}
		var re strings.Builder
		re.WriteString(`(?s)\A`)
		for i := 0; i < len(pattern); {
			r, n := utf8.DecodeRuneInString(pattern[i:])
			i += n
			switch r {
			case '*':
				re.WriteString(`.*`)
			case '?':
				re.WriteString(`.`)
			case '\\':
				r, n = utf8.DecodeRuneInString(pattern[i:])
				i += n
				fallthrough
			default:
				re.WriteString(regexp.QuoteMeta(string(r)))
			}
		}
		if got, want := glob(pattern, s), regexp.MustCompile(re.String()+`\z`).MatchString(s); got != want {
			t.Fatalf("glob(%q, %q) = %v, want %v", pattern, s, got, want)
		}
	})
}

func TestPatterns(t *testing.T) {
	tests := []struct {
		pattern string
		matches string // tools, with spaces between them
		not     string
	}{
		{"*", "github/x files/a/b", ""},
		{"github/*", "github/x github/a/b", "gitlab/x files/github"},
		{"*/delete_*", "github/delete_repo files/delete_", "github/undelete_x delete_x/get"},
		{"*/*", "github/x files/a/b", ""},
		{"github/get_?", "github/get_a", "github/get_ab github/get_"},
		{"GitHub/create_issue", "github/create_issue", "github/Create_issue"},
		{"github.com/tool", "github-com/tool", "github/tool"},
		{"my_server/x", "my-server/x", "myserver/x"},
		{"mcp__github__create_issue", "github/create_issue", "gitlab/create_issue"},
		{"mcp__my_server__create__issue", "my-server/create__issue", "my-server/issue"},
		{"mcp__github", "github/create_issue github/x", "gitlab/x"},
		{"mcp__*", "github/create_issue gitlab/x", ""},
		{"mcp__*__delete_*", "github/delete_x gitlab/delete_y", "github/get"},
		{"mcp__a/b", "mcp--a/b", "a/b"},
		{"github:create_*", "github/create_issue", "gitlab/create_issue"},
		{"github/a:b", "github/a:b", "github/a"},
		{"create_issue", "github/create_issue gitlab/create_issue", "github/create_issues"},
	}
	for _, tt := range tests {
		p, err := parsePattern(tt.pattern)
		if err != nil {
			t.Errorf("%s: %v", tt.pattern, err)
			continue
		}
		for _, name := range strings.Fields(tt.matches) {
			if id, _ := catalog.ParseToolID(name); !p.matches(id) {
				t.Errorf("%s does not match %s", tt.pattern, name)
			}
		}
		for _, name := range strings.Fields(tt.not) {
			if id, _ := catalog.ParseToolID(name); p.matches(id) {
				t.Errorf("%s matches %s", tt.pattern, name)
			}
		}
	}
	for _, bad := range []string{"", "github/", "/x", ":x", "mcp__", "mcp__a__", "git[hl]ub/*", "{a,b}/*", "!github/*", `a\/b`, "a b", strings.Repeat("a", maxPattern+1)} {
		if p, err := parsePattern(bad); err == nil {
			t.Errorf("%.20q is read as %v", bad, p)
		}
	}
}

func TestPointers(t *testing.T) {
	v, err := parseValue([]byte(`{"a":{"b":[1,{"c":true}],"":0,"m~n":2,"x/y":3},"null":null,"s":"text","n":5}`))
	if err != nil {
		t.Fatal(err)
	}
	for pointer, want := range map[string]string{
		"/a/b/0": "1", "/a/b/1/c": "true", "/a/": "0", "/a/m~0n": "2", "/a/x~1y": "3", "/null": "null", "/n": "5",
		"/nope": "absent", "/a/b/2": "absent", "/null/x": "absent",
		"/s/x": "problem", "/n/0": "problem", "/a/b/x": "problem", "/a/b/-": "problem", "/a/b/01": "problem", "/a/b/9999999999": "problem",
	} {
		tokens, err := parsePointer(pointer)
		if err != nil {
			t.Fatal(err)
		}
		found, exists, problem := lookUp(v, tokens)
		got := "absent"
		switch {
		case problem != "":
			got = "problem"
		case exists:
			b, _ := json.Marshal(found)
			got = string(b)
		}
		if got != want {
			t.Errorf("%s leads to %s, want %s", pointer, got, want)
		}
	}
	whole, err := parsePointer("")
	if found, exists, _ := lookUp(v, whole); err != nil || !exists || kindOf(found) != "an object" {
		t.Error("the empty pointer is not the whole value")
	}
	for _, bad := range []string{"a", "/a~", "/a~2", "a/b", "#/a"} {
		if tokens, err := parsePointer(bad); err == nil {
			t.Errorf("%q is read as %q", bad, tokens)
		}
	}
}

// FuzzPointer checks that a pointer built of any names leads to what is there, and
// that no pointer or value upsets the look-up.
func FuzzPointer(f *testing.F) {
	f.Add("a", "b~/", "/a/b~0~1", `{"a":{"b~/":1}}`)
	f.Fuzz(func(t *testing.T, outer, inner, pointer, value string) {
		if utf8.ValidString(outer) && utf8.ValidString(inner) {
			escape := strings.NewReplacer("~", "~0", "/", "~1").Replace
			tokens, err := parsePointer("/" + escape(outer) + "/" + escape(inner))
			if err != nil {
				t.Fatal(err)
			}
			v, exists, problem := lookUp(map[string]any{outer: map[string]any{inner: true}}, tokens)
			if v != true || !exists || problem != "" {
				t.Fatalf("%q, %q leads to %v %v %s", outer, inner, v, exists, problem)
			}
		}
		tokens, err := parsePointer(pointer)
		if err != nil {
			return
		}
		if v, err := parseValue([]byte(value)); err == nil {
			if _, exists, problem := lookUp(v, tokens); exists && problem != "" {
				t.Fatal("both there and a problem")
			}
		}
	})
}

func TestEqual(t *testing.T) {
	tests := []struct {
		a, b string
		want bool
	}{
		{`1`, `1.0`, true}, {`1`, `"1"`, false}, {`1e2000000000000000`, `1e2000000000000000`, true}, {`1e2000000000000000`, `1`, false},
		{`12345678901234567890`, `12345678901234567891`, false}, {`"a"`, `"\u0061"`, true}, {`"a"`, `"A"`, false},
		{`null`, `null`, true}, {`null`, `false`, false}, {`true`, `true`, true}, {`true`, `false`, false}, {`true`, `"true"`, false},
		{`[1,2]`, `[1.0,2]`, true}, {`[1,2]`, `[2,1]`, false}, {`[1]`, `[1,1]`, false}, {`[]`, `{}`, false}, {`"x"`, `["x"]`, false},
		{`{"a":1,"b":[{}]}`, `{"b":[{}],"a":1.0}`, true}, {`{"a":1}`, `{"a":1,"b":2}`, false}, {`{"a":1}`, `{"b":1}`, false}, {`{"a":1}`, `{"a":2}`, false}, {`{}`, `[]`, false},
	}
	for _, tt := range tests {
		a, _ := parseValue([]byte(tt.a))
		b, _ := parseValue([]byte(tt.b))
		if got, turned := equal(a, b, sameNumber), equal(b, a, sameNumber); got != tt.want || turned != tt.want {
			t.Errorf("%s and %s: %v and %v, want %v", tt.a, tt.b, got, turned, tt.want)
		}
	}
}
