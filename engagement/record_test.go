package engagement_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	. "github.com/mcp-gate/mcp-gate/engagement"
)

const wholeReading = `{"act":"operate","alternate_acts":["modify"],"horizon":"turn","stakes":"irreversible","evidence":"none",
	"clarity":"clear","attendance":"interactive","modalities":["text"],"domains":[],"confidence":0.9}`

const wholeEngagement = `{"limits":{"required_domains":"all","required_modalities":["text"],"permission":"destructive",
	"approval_ceiling":"read","egress":["metadata","aggregates","row_level","rendered_pixels","raw_pixels"],
	"spend":{"calls":null,"result_bytes":4096},"least_satisfaction":"asserted"},
	"posture":{"managed":false,"open_commitment":false,"checkpoint_before_effect":true,"hil":"interrupt","gate_fallback":"deny",
	"clarify":"proceed","delivery":{"shape":"report","cadence":"live","urgency":"interrupt"},
	"demand":{"reasoning_required":false,"evidence_required":false,"structured_output":false},"stop":"effect","context":"working",
	"epistemic_stance":"operational","note":"A step here cannot be undone."}}`

func TestReadingRecord(t *testing.T) {
	var r Reading
	if err := json.Unmarshal([]byte(wholeReading), &r); err != nil {
		t.Fatal(err)
	}
	want := read(ActOperate, HorizonTurn, StakesIrreversible, EvidenceNone)
	want.AlternateActs = ActsOf(ActModify)
	if r != want {
		t.Errorf("got  %+v\nwant %+v", r, want)
	}
	got, err := json.Marshal(r)
	const canonical = `{"act":"operate","alternate_acts":["modify"],"attendance":"interactive","clarity":"clear","confidence":0.9,` +
		`"domains":[],"evidence":"none","horizon":"turn","modalities":["text"],"stakes":"irreversible"}`
	if err != nil || string(got) != canonical {
		t.Errorf("written as %s, %v\nwant %s", got, err, canonical)
	}
}

func TestWhatAReadingOrAuthorityLeavesOutIsNeutral(t *testing.T) {
	r, a := read(ActGovern, HorizonDurable, StakesCostly, EvidenceAudited), Authority{AutonomyManual, AttendanceUnattended}
	if err := json.Unmarshal([]byte(`{}`), &r); err != nil || r != NeutralReading() {
		t.Errorf("an empty reading is %+v, %v", r, err)
	}
	if err := json.Unmarshal([]byte(` {} `), &a); err != nil || a != DefaultAuthority() {
		t.Errorf("an empty authority is %+v, %v", a, err)
	}
	if err := json.Unmarshal([]byte(`{"modalities":[],"confidence":1}`), &r); err != nil || !r.Modalities.Empty() || r.Confidence != 1 {
		t.Errorf("an empty list is not what was left out: %+v, %v", r, err)
	}
	if err := json.Unmarshal([]byte(`{"autonomy":"manual"}`), &a); err != nil || a != (Authority{AutonomyManual, AttendanceInteractive}) {
		t.Errorf("got %+v, %v", a, err)
	}
}

func TestEngagementRecord(t *testing.T) {
	var e Engagement
	if err := json.Unmarshal([]byte(wholeEngagement), &e); err != nil {
		t.Fatal(err)
	}
	want := General()
	want.Limits.RequiredModalities = ModalitiesOf(ModalityText)
	want.Limits.ApprovalCeiling = Read
	want.Limits.Spend.ResultBytes = number(4096)
	want.Posture.CheckpointBeforeEffect = true
	want.Posture.Delivery = Delivery{Shape: ShapeReport, Cadence: CadenceLive, Urgency: UrgencyInterrupt}
	want.Posture.Stop, want.Posture.Context, want.Posture.Stance = StopEffect, ContextWorking, StanceOperational
	want.Posture.Note = "A step here cannot be undone."
	if !e.Equal(want) {
		t.Errorf("got  %+v\nwant %+v", e, want)
	}
	checkCanonical(t, e, wholeEngagement)
}

func TestOnlyStanceAndNoteMayBeAbsent(t *testing.T) {
	var whole map[string]map[string]any
	if err := json.Unmarshal([]byte(wholeEngagement), &whole); err != nil {
		t.Fatal(err)
	}
	check := func(without string) {
		t.Helper()
		record, err := json.Marshal(whole)
		if err != nil {
			t.Fatal(err)
		}
		var e Engagement
		err = e.UnmarshalJSON(record)
		switch {
		case without == "epistemic_stance":
			if err != nil || e.Posture.Stance != StanceDirectAnswer {
				t.Errorf("without a stance: %v, %v, want direct-answer", e.Posture.Stance, err)
			}
		case without == "note":
			if err != nil || e.Posture.Note != "" {
				t.Errorf("without a note: %q, %v, want none", e.Posture.Note, err)
			}
		case err == nil || !strings.Contains(err.Error(), "missing "+without):
			t.Errorf("without %s: %v, want an error that names it", without, err)
		}
	}
	var walk func(object map[string]any)
	walk = func(object map[string]any) {
		for name, value := range object {
			delete(object, name)
			check(name)
			object[name] = value
			if inner, ok := value.(map[string]any); ok {
				walk(inner)
			}
		}
	}
	for half, object := range whole {
		delete(whole, half)
		check(half)
		whole[half] = object
		walk(object)
	}
}

func TestAStanceAndANoteAreWrittenAsTheyAre(t *testing.T) {
	e := General()
	got, err := e.MarshalJSON()
	if err != nil || !strings.Contains(string(got), `"epistemic_stance":"direct-answer"`) || strings.Contains(string(got), "note") {
		t.Errorf("got %s, %v, want the stance and no note", got, err)
	}
	e.Posture.Note = "a <b> & \"c\"\n\u2028\x01"
	got, err = e.MarshalJSON()
	if want := `"note":"a <b> & \"c\"\n` + "\u2028" + `\u0001"`; err != nil || !strings.Contains(string(got), want) {
		t.Errorf("got %s, %v, want %s in it", got, err, want)
	}
}

func TestWhatARecordRefuses(t *testing.T) {
	reading := func(b string) error { return new(Reading).UnmarshalJSON([]byte(b)) }
	authority := func(b string) error { return new(Authority).UnmarshalJSON([]byte(b)) }
	whole := func(old, changed string) func(string) error {
		if !strings.Contains(wholeEngagement, old) {
			t.Fatalf("the record has no %s", old)
		}
		return func(string) error {
			return new(Engagement).UnmarshalJSON([]byte(strings.Replace(wholeEngagement, old, changed, 1)))
		}
	}
	for _, test := range []struct {
		name, record string
		read         func(string) error
		want         string // part of the error
	}{
		{"nothing", ``, reading, "reading: want an object, found nothing"},
		{"blanks", ` `, reading, "want an object, found nothing"},
		{"null", `null`, reading, `want an object, found "null"`},
		{"a list", `[]`, reading, `want an object, found "["`},
		{"half a record", `{"act":"answer"`, reading, "unexpected EOF"},
		{"a name that is none", `{act:1}`, reading, "reading: jsontext"},
		{"an unknown field", `{"acts":"answer"}`, reading, `unknown field "acts": want one of act, alternate_acts,`},
		{"a field in other letters", `{"Act":"answer"}`, reading, `unknown field "Act"`},
		{"a field twice", `{"act":"answer","act":"answer"}`, reading, "duplicate"},
		{"an unknown word", `{"act":"dance"}`, reading, `reading: act: unknown act "dance": want one of converse, answer`},
		{"a word in other letters", `{"act":"Answer"}`, reading, `unknown act "Answer"`},
		{"a word that is null", `{"act":null}`, reading, `act: want a word, found "null"`},
		{"a word that is a list", `{"act":["answer"]}`, reading, "act: want a word"},
		{"an unknown member", `{"alternate_acts":["dance"]}`, reading, `alternate_acts: unknown act "dance"`},
		{"a set that is null", `{"domains":null}`, reading, "domains: want an array of words"},
		{"a confidence above 1", `{"confidence":1.1}`, reading, `confidence: want a number from 0 to 1, found "1.1"`},
		{"a confidence below 0", `{"confidence":-0.1}`, reading, "from 0 to 1"},
		{"a confidence beyond floats", `{"confidence":1e999}`, reading, "from 0 to 1"},
		{"a confidence in quotes", `{"confidence":"1"}`, reading, "from 0 to 1"},
		{"bad UTF-8", "{\"act\":\"\xff\"}", reading, "invalid UTF-8"},
		{"what follows", `{} {}`, reading, "something follows"},
		{"what follows and is no JSON", `{}x`, reading, "something follows"},
		{"an unknown autonomy", `{"autonomy":"full"}`, authority, `authority: autonomy: unknown autonomy "full"`},
		{"an unknown field inside", "", whole(`"calls":null`, `"calls":null,"coins":1`), `engagement: limits: spend: unknown field "coins"`},
		{"a flag that is a number", "", whole(`"managed":false`, `"managed":0`), `posture: managed: want true or false, found "0"`},
		{"a bound below 0", "", whole(`"calls":null`, `"calls":-1`), "calls: want null or a whole number from 0"},
		{"a bound with a fraction", "", whole(`"calls":null`, `"calls":1.5`), "whole number"},
		{"a bound too high to be exact", "", whole(`"calls":null`, `"calls":9007199254740992`), "whole number"},
		{"a bound beyond integers", "", whole(`"calls":null`, `"calls":99999999999999999999`), "whole number"},
		{"a bound in quotes", "", whole(`"calls":null`, `"calls":"1"`), "whole number"},
		{"a note that is null", "", whole(`"note":"A step here cannot be undone."`, `"note":null`), "note: want a string"},
		{"a domain outside", "", whole(`"required_domains":"all"`, `"required_domains":["weather"]`), `unknown domain "weather"`},
	} {
		err := test.read(test.record)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want an error with %q", test.name, err, test.want)
		}
	}
	if err := reading(`{"act":"` + strings.Repeat("x", 1<<20) + `"}`); err == nil || len(err.Error()) > 300 {
		t.Error("an error repeats a word of any length")
	}
}

func TestARefusedRecordChangesNothing(t *testing.T) {
	r := read(ActVerify, HorizonSession, StakesCostly, EvidenceCited)
	before := r
	for _, bad := range []string{`{"act":"modify","stakes":"high"}`, `{"act":"modify"} x`} {
		if err := r.UnmarshalJSON([]byte(bad)); err == nil || r != before {
			t.Errorf("%s: %v, left %+v", bad, err, r)
		}
	}
}

func TestWhatARecordWillNotWrite(t *testing.T) {
	r := NeutralReading()
	for _, r.Confidence = range []float64{-0.1, 1.1, math.NaN(), math.Inf(1)} {
		if got, err := r.MarshalJSON(); err == nil {
			t.Errorf("a confidence of %v was written: %s", r.Confidence, got)
		}
	}
	if got, err := (Authority{}).MarshalJSON(); err == nil {
		t.Errorf("no authority was written: %s", got)
	}
	e := General()
	for _, n := range []int64{-1, MaxSpend + 1} {
		e.Limits.Spend.Calls = number(n)
		if got, err := e.MarshalJSON(); err == nil || !strings.Contains(err.Error(), "engagement: limits: spend: calls: want") {
			t.Errorf("a bound of %d was written: %s, %v", n, got, err)
		}
	}
	p := General().Posture
	p.Note = "\xff"
	if got, err := p.MarshalJSON(); err == nil {
		t.Errorf("a note that is no UTF-8 was written: %s", got)
	}
}

func TestConfidenceIsWrittenAsCanonicalJSONAsks(t *testing.T) {
	for confidence, want := range map[float64]string{
		0: "0", math.Copysign(0, -1): "0", 1: "1", 0.1: "0.1", 1e-7: "1e-7", 0.30000000000000004: "0.30000000000000004",
	} {
		r := NeutralReading()
		r.Confidence = confidence
		if got, err := r.MarshalJSON(); err != nil || !strings.Contains(string(got), `"confidence":`+want+`,`) {
			t.Errorf("%v: %s, %v, want %s", confidence, got, err, want)
		}
	}
	var r Reading
	if err := r.UnmarshalJSON([]byte(`{"confidence":-0}`)); err != nil || math.Signbit(r.Confidence) {
		t.Errorf("-0 is read as %v, %v", r.Confidence, err)
	}
}

func TestRandomRecordsRoundTripAsCanonicalJSON(t *testing.T) {
	source := rand.New(rand.NewPCG(3, 0))
	for range 500 {
		r := randomReading(source)
		a := Authority{one(source, Autonomies()), one(source, Attendances())}
		e := randomEngagement(source)
		e.Limits.Permission, e.Limits.ApprovalCeiling = one(source, Permissions()), one(source, Permissions())
		var r2 Reading
		var a2 Authority
		var e2 Engagement
		var l2 Limits
		var p2 Posture
		roundTrip(t, r, &r2)
		roundTrip(t, a, &a2)
		roundTrip(t, e, &e2)
		roundTrip(t, e.Limits, &l2)
		roundTrip(t, e.Posture, &p2)
		if r2 != r || a2 != a || !e2.Equal(e) || !l2.Equal(e.Limits) || p2 != e.Posture {
			t.Fatalf("%+v\n%+v\n%+v came back as\n%+v\n%+v\n%+v", r, a, e, r2, a2, e2)
		}
	}
}

func roundTrip(t *testing.T, v json.Marshaler, back json.Unmarshaler) {
	t.Helper()
	written, err := v.MarshalJSON()
	if err != nil {
		t.Fatalf("%+v: %v", v, err)
	}
	checkCanonical(t, v, string(written))
	if err := back.UnmarshalJSON(written); err != nil {
		t.Fatalf("%s: %v", written, err)
	}
}

// checkCanonical checks that v is written as the canonical form of want.
func checkCanonical(t *testing.T, v json.Marshaler, want string) {
	t.Helper()
	canonical := jsontext.Value(want)
	if err := canonical.Canonicalize(); err != nil {
		t.Fatal(err)
	}
	if got, err := v.MarshalJSON(); err != nil || string(got) != string(canonical) {
		t.Errorf("written as %s, %v\nwant %s", got, err, canonical)
	}
}

func FuzzReading(f *testing.F) {
	f.Add([]byte(wholeReading))
	f.Add([]byte(`{"confidence":1e-7,"domains":["vcs","web","vcs"]}`))
	f.Fuzz(func(t *testing.T, b []byte) { fuzzRecord(t, b, func(a, b Reading) bool { return a == b }) })
}

func FuzzAuthority(f *testing.F) {
	f.Add([]byte(`{"autonomy":"delegated","attendance":"interactive"}`))
	f.Fuzz(func(t *testing.T, b []byte) { fuzzRecord(t, b, func(a, b Authority) bool { return a == b }) })
}

func FuzzEngagement(f *testing.F) {
	f.Add([]byte(wholeEngagement))
	f.Fuzz(func(t *testing.T, b []byte) { fuzzRecord(t, b, Engagement.Equal) })
}

// fuzzRecord checks that whatever is read can be written as canonical JSON and
// read again as the same.
func fuzzRecord[R json.Marshaler, P interface {
	*R
	json.Unmarshaler
}](t *testing.T, b []byte, equal func(a, b R) bool) {
	var first, second R
	if P(&first).UnmarshalJSON(b) != nil {
		return
	}
	roundTrip(t, first, P(&second))
	if !equal(first, second) {
		t.Errorf("%s was read as %+v and then as %+v", b, first, second)
	}
}
