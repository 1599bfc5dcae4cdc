package policy_test

import (
	"encoding"
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcp-gate/mcp-gate/engagement"
	. "github.com/mcp-gate/mcp-gate/policy"
)

func TestDefaultKeepsRawDataIn(t *testing.T) {
	for _, p := range []Policy{Default(), {}} {
		if p.Egress.Has(engagement.RowLevel) || p.Egress.Has(engagement.RawPixels) {
			t.Errorf("raw data leaves by default: %v", p.Egress)
		}
	}
	if got, want := Default().Egress.String(), "metadata, aggregates, rendered_pixels"; got != want {
		t.Errorf("default egress is %s, want %s", got, want)
	}
}

func TestFromFlags(t *testing.T) {
	p, err := FromFlags(true, false, []string{" row_level ", "", "\t", "metadata"})
	want := Policy{AllowSourceWrites: true, AllowWrites: true, Egress: DefaultEgress().With(engagement.RowLevel)}
	if err != nil || p != want {
		t.Errorf("got %+v, %v, want %+v", p, err, want)
	}
	if p, err := FromFlags(false, false, nil); err != nil || p != Default() {
		t.Errorf("no flags give %+v, %v, want the default", p, err)
	}
	p, err = FromFlags(true, true, []string{"row_level", "rows"})
	if err == nil || p != (Policy{}) || !strings.Contains(err.Error(), "metadata, aggregates, row_level, rendered_pixels, raw_pixels") {
		t.Errorf("an unknown class gives %+v, %v, want an error that lists the classes", p, err)
	}
}

// everyPolicy calls f with every policy there is, for a few principals.
func everyPolicy(f func(Policy)) {
	for bits := range 1 << 8 {
		for _, principal := range []string{"", "local", "local/editor"} {
			p := Policy{AllowSourceWrites: bits&1 != 0, AllowDestructive: bits&2 != 0, AllowWrites: bits&4 != 0, Principal: principal}
			for i, class := range engagement.EgressClasses() {
				if bits>>3&(1<<i) != 0 {
					p.Egress = p.Egress.With(class)
				}
			}
			f(p)
		}
	}
}

func TestDescribeAndBackIsTheSamePolicy(t *testing.T) {
	everyPolicy(func(p Policy) {
		if got := p.Describe().Policy(); got != p {
			t.Fatalf("%+v came back as %+v", p, got)
		}
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var got Policy
		if err := json.Unmarshal(b, &got); err != nil || got != p {
			t.Fatalf("%+v came back from %s as %+v, %v", p, b, got, err)
		}
	})
	p := Policy{Egress: engagement.EgressOf(engagement.RawPixels, engagement.Metadata, engagement.RowLevel)}
	b, _ := json.Marshal(p)
	want := `{"allow_source_writes":false,"allow_destructive":false,"allow_writes":false,"egress":["metadata","row_level","raw_pixels"],"principal":null}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
}

func TestARecordThatLacksFieldsIsReadSafely(t *testing.T) {
	base := Default()
	noWrites, empty, named := base, base, base
	noWrites.AllowWrites, empty.Egress, named.Principal = false, 0, "token-1"
	for in, want := range map[string]Policy{
		`{}`: base,
		`{"allow_source_writes":null,"allow_destructive":null,"allow_writes":null,"egress":null,"principal":null}`: base,
		`{"allow_writes":false}`:     noWrites,
		`{"egress":[]}`:              empty,
		`{"principal":"token-1"}`:    named,
		`{"egress":["row_level"]}`:   {AllowWrites: true, Egress: engagement.EgressOf(engagement.RowLevel)},
		`{"allow_destructive":true}`: {AllowWrites: true, AllowDestructive: true, Egress: DefaultEgress()},
	} {
		var got Policy
		if err := json.Unmarshal([]byte(in), &got); err != nil || got != want {
			t.Errorf("%s gives %+v, %v, want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{`{"egress":["rows"]}`, `{"allow_writes":"no"}`, `[]`} {
		got := base
		if err := json.Unmarshal([]byte(in), &got); err == nil || got != base {
			t.Errorf("%s gives %+v, %v, want an error and the policy as it was", in, got, err)
		}
	}
}

func TestNoScopeWidensAPolicy(t *testing.T) {
	scopes := append(Scopes(), 0, 99)
	everyPolicy(func(p Policy) {
		for _, s := range scopes {
			n := p.NarrowedBy(s, "token-1")
			if n.Principal != "token-1" {
				t.Fatalf("%v left the principal %q", s, n.Principal)
			}
			for _, class := range engagement.Permissions() {
				for _, egress := range engagement.EgressClasses() {
					c := Capability{class, egress}
					if Permitted(c, n) && !Permitted(c, p) {
						t.Fatalf("%v lets %+v do %+v", s, p, c)
					}
					if Permitted(c, n) && !class.AtMost(s.Limits().Permission) {
						t.Fatalf("%v lets a call of %v through, above its own limits", s, class)
					}
				}
			}
			if !n.Limits().Meet(s.Limits()).IsAtMost(p.Limits()) {
				t.Fatalf("the limits of %+v under %v exceed it", p, s)
			}
		}
		if n := p.NarrowedBy(ScopeAdmin, p.Principal); n != p {
			t.Fatalf("admin changed %+v to %+v", p, n)
		}
	})
}

func TestScopes(t *testing.T) {
	for scope, want := range map[Scope]engagement.Permission{
		ScopeRead: engagement.Read, ScopeWrite: engagement.ReversibleWrite, ScopeBridge: engagement.ReversibleWrite,
		ScopeAdmin: engagement.Destructive, 0: engagement.Read, 99: engagement.Read,
	} {
		limits := engagement.Unrestricted()
		limits.Permission = want
		if got := scope.Limits(); !got.Equal(limits) {
			t.Errorf("%v has limits %+v, want only the permission lowered, to %v", scope, got, want)
		}
	}
	for word, want := range map[string]Scope{
		"read": ScopeRead, "write": ScopeWrite, "bridge": ScopeBridge, "admin": ScopeAdmin,
		"": ScopeRead, "Admin": ScopeRead, " admin": ScopeRead, "admin,write": ScopeRead, "аdmin": ScopeRead, "root": ScopeRead,
	} {
		if got := ScopeOf(word); got != want {
			t.Errorf("ScopeOf(%q) = %v, want %v", word, got, want)
		}
	}
}

func TestPermitted(t *testing.T) {
	all := Policy{true, true, true, engagement.AllEgress(), ""}
	tests := []struct {
		name string
		c    Capability
		p    Policy
		want bool
	}{
		{"reading needs only its egress", Capability{engagement.Read, engagement.Metadata}, Policy{Egress: DefaultEgress()}, true},
		{"egress that is not allowed stays", Capability{engagement.Read, engagement.RowLevel}, Default(), false},
		{"a reversible write needs writes", Capability{engagement.ReversibleWrite, engagement.Metadata}, Policy{true, true, false, DefaultEgress(), ""}, false},
		{"and runs with them", Capability{engagement.ReversibleWrite, engagement.Metadata}, Default(), true},
		{"a source-file write needs its flag", Capability{engagement.SourceFileWrite, engagement.Metadata}, Elevated(Default(), engagement.Destructive), false},
		{"and runs with it", Capability{engagement.SourceFileWrite, engagement.Metadata}, Elevated(Default(), engagement.SourceFileWrite), true},
		{"but not without writes", Capability{engagement.SourceFileWrite, engagement.Metadata}, Policy{true, true, false, DefaultEgress(), ""}, false},
		{"a destructive call needs its flag", Capability{engagement.Destructive, engagement.Metadata}, Elevated(Default(), engagement.SourceFileWrite), false},
		{"and runs with it", Capability{engagement.Destructive, engagement.Metadata}, Elevated(Default(), engagement.Destructive), true},
		{"but not without writes", Capability{engagement.Destructive, engagement.Metadata}, Policy{true, true, false, DefaultEgress(), ""}, false},
		{"no class is never permitted", Capability{0, engagement.Metadata}, all, false},
		{"no egress class is never permitted", Capability{engagement.Read, 0}, all, false},
		{"the zero policy permits nothing", Capability{engagement.Read, engagement.Metadata}, Policy{}, false},
	}
	for _, tt := range tests {
		if got := Permitted(tt.c, tt.p); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}

func TestElevatedSwitchesOneFlagOfACopy(t *testing.T) {
	p := Default()
	for class, want := range map[engagement.Permission]Policy{
		engagement.Read: p, engagement.ReversibleWrite: p, 0: p,
		engagement.SourceFileWrite: {AllowSourceWrites: true, AllowWrites: true, Egress: p.Egress},
		engagement.Destructive:     {AllowDestructive: true, AllowWrites: true, Egress: p.Egress},
	} {
		if got := Elevated(p, class); got != want {
			t.Errorf("elevated for %v: %+v, want %+v", class, got, want)
		}
	}
	if p != Default() {
		t.Error("the policy itself was changed")
	}
}

func TestPolicyAsLimits(t *testing.T) {
	limits := engagement.Unrestricted()
	limits.Egress = DefaultEgress()
	if got := Elevated(Default(), engagement.Destructive).Limits(); !got.Equal(limits) {
		t.Errorf("the default policy has limits %+v, want only egress lowered", got)
	}
	readOnly := Default()
	readOnly.AllowWrites = false
	if got := readOnly.Limits().Permission; got != engagement.Read {
		t.Errorf("without writes the ceiling is %v, want read", got)
	}
}

func TestPresets(t *testing.T) {
	for preset, want := range map[Preset]string{
		PresetStrict: "metadata, aggregates, rendered_pixels", PresetWorkbench: "metadata, aggregates, row_level, rendered_pixels", 0: "",
	} {
		if got := preset.Egress().String(); got != want {
			t.Errorf("%v lets out %q, want %q", preset, got, want)
		}
	}
}

func TestLevels(t *testing.T) {
	for _, class := range append(engagement.Permissions(), 0) {
		want := L0
		if class == engagement.Destructive || class == 0 {
			want = L1
		}
		if got := LeastLevel(class); got != want {
			t.Errorf("%v needs %v, want %v", class, got, want)
		}
	}
	for i, level := range Levels() {
		if level.Rank() != i {
			t.Errorf("%v has rank %d, want %d", level, level.Rank(), i)
		}
		for j, least := range Levels() {
			if got := level.Reaches(least); got != (i >= j) {
				t.Errorf("%v reaches %v: %v", level, least, got)
			}
		}
		if level.Reaches(0) || Level(0).Reaches(level) {
			t.Errorf("no level is reached by or reaches %v", level)
		}
	}
}

// word is what every enum of the package is.
type word interface {
	comparable
	encoding.TextMarshaler
	String() string
}

func checkWords[T word, P interface {
	*T
	encoding.TextUnmarshaler
}](t *testing.T, all []T, want string) {
	t.Helper()
	var words []string
	for _, v := range all {
		words = append(words, v.String())
		b, err := v.MarshalText()
		var back T
		if err == nil {
			err = P(&back).UnmarshalText(b)
		}
		if err != nil || back != v || string(b) != v.String() {
			t.Errorf("%v came back as %v, %v", v, back, err)
		}
	}
	if got := strings.Join(words, " "); got != want {
		t.Errorf("the words are %q, want %q", got, want)
	}
	var zero T
	if _, err := zero.MarshalText(); err == nil {
		t.Errorf("the zero of %q is written", want)
	}
	if err := P(&zero).UnmarshalText([]byte("nope")); err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(want, " ", ", ")) {
		t.Errorf("an unknown word gives %v, want an error that lists %s", err, want)
	}
}

func TestWords(t *testing.T) {
	checkWords(t, Scopes(), "read write bridge admin")
	checkWords(t, ScopeStates(), "can_execute can_analyze can_recommend outside_domain")
	checkWords(t, Presets(), "strict workbench")
	checkWords(t, Levels(), "L0 L1 L2 L3")
	checkWords(t, Pins(), "accepted new changed suspect gone moved")
	checkWords(t, Origins(), "owner token launch prompt engage parent")
	checkWords(t, OnEgresses(), "block downgrade")
	checkWords(t, TaintModes(), "off ask deny")
	checkWords(t, Readinesses(), "ready server-down unverified bad-arguments")
	checkWords(t, Verdicts(), "run review ask defer deny")
	checkWords(t, Dos(), "hide deny ask defer allow")
	checkWords(t, FindingKinds(), "unreachable conflict no-tool ambiguous impossible")
	// Codes are used by scripts and by readers of old logs: none is ever renamed.
	checkWords(t, Codes(), "unknown held outside-slice scope read-only egress rule taint spend server-down unverified arguments "+
		"unattended no-person no-answer declined deferred expired cancelled stale unsettled alarm audit size")
}
