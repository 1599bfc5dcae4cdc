package engagement_test

import (
	"encoding"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	. "github.com/mcp-gate/mcp-gate/engagement"
)

// meetRow says what the meet of two values is that differ in one field only.
type meetRow[R any] struct {
	field             string
	left, right       func(*R)
	want, wantSwapped func(*R) // wantSwapped is nil where the sides do not matter
}

func number(n int64) *int64 { return &n }

var limitsRows = []meetRow[Limits]{
	{field: "RequiredDomains",
		left:  func(l *Limits) { l.RequiredDomains = OnlyDomains(DomainsOf(DomainWeb, DomainVCS)) },
		right: func(l *Limits) { l.RequiredDomains = OnlyDomains(DomainsOf(DomainVCS, DomainMemory)) },
		want:  func(l *Limits) { l.RequiredDomains = OnlyDomains(DomainsOf(DomainVCS)) }},
	{field: "RequiredDomains",
		left:  func(l *Limits) { l.RequiredDomains = AllDomains() },
		right: func(l *Limits) { l.RequiredDomains = OnlyDomains(DomainsOf(Domains()...)) },
		want:  func(l *Limits) { l.RequiredDomains = OnlyDomains(DomainsOf(Domains()...)) }},
	{field: "RequiredModalities",
		left:  func(l *Limits) { l.RequiredModalities = ModalitiesOf(ModalityText, ModalityImage) },
		right: func(l *Limits) { l.RequiredModalities = ModalitiesOf(ModalityText, ModalityAudio) },
		want:  func(l *Limits) { l.RequiredModalities = ModalitiesOf(ModalityText, ModalityImage, ModalityAudio) }},
	{field: "Permission",
		left:  func(l *Limits) { l.Permission = SourceFileWrite },
		right: func(l *Limits) { l.Permission = ReversibleWrite },
		want:  func(l *Limits) { l.Permission = ReversibleWrite }},
	{field: "Permission",
		left:  func(l *Limits) { l.Permission = 0 },
		right: func(l *Limits) { l.Permission = Read },
		want:  func(l *Limits) { l.Permission = 0 }},
	{field: "ApprovalCeiling",
		left:  func(l *Limits) { l.ApprovalCeiling = SourceFileWrite },
		right: func(l *Limits) { l.ApprovalCeiling = Read },
		want:  func(l *Limits) { l.ApprovalCeiling = Read }},
	{field: "Egress",
		left:  func(l *Limits) { l.Egress = EgressOf(Metadata, RowLevel) },
		right: func(l *Limits) { l.Egress = EgressOf(Metadata, RawPixels) },
		want:  func(l *Limits) { l.Egress = EgressOf(Metadata) }},
	{field: "Spend.Calls",
		left:  func(l *Limits) { l.Spend.Calls = number(7) },
		right: func(l *Limits) { l.Spend.Calls = number(3) },
		want:  func(l *Limits) { l.Spend.Calls = number(3) }},
	{field: "Spend.Calls",
		left:  func(l *Limits) { l.Spend.Calls = nil },
		right: func(l *Limits) { l.Spend.Calls = number(0) },
		want:  func(l *Limits) { l.Spend.Calls = number(0) }},
	{field: "Spend.ResultBytes",
		left:  func(l *Limits) { l.Spend.ResultBytes = number(7) },
		right: func(l *Limits) { l.Spend.ResultBytes = number(3) },
		want:  func(l *Limits) { l.Spend.ResultBytes = number(3) }},
	{field: "Spend.ResultBytes",
		left:  func(l *Limits) { l.Spend.ResultBytes = nil },
		right: func(l *Limits) { l.Spend.ResultBytes = number(MaxSpend) },
		want:  func(l *Limits) { l.Spend.ResultBytes = number(MaxSpend) }},
	{field: "LeastSatisfaction",
		left:  func(l *Limits) { l.LeastSatisfaction = SatisfactionObserved },
		right: func(l *Limits) { l.LeastSatisfaction = SatisfactionCited },
		want:  func(l *Limits) { l.LeastSatisfaction = SatisfactionObserved }},
}

var postureRows = []meetRow[Posture]{
	{field: "Managed",
		left:  func(p *Posture) { p.Managed = true },
		right: func(p *Posture) { p.Managed = false },
		want:  func(p *Posture) { p.Managed = true }},
	{field: "OpenCommitment",
		left:  func(p *Posture) { p.OpenCommitment = true },
		right: func(p *Posture) { p.OpenCommitment = false },
		want:  func(p *Posture) { p.OpenCommitment = true }},
	{field: "CheckpointBeforeEffect",
		left:  func(p *Posture) { p.CheckpointBeforeEffect = true },
		right: func(p *Posture) { p.CheckpointBeforeEffect = false },
		want:  func(p *Posture) { p.CheckpointBeforeEffect = true }},
	{field: "HIL",
		left:  func(p *Posture) { p.HIL = HILEnvelope },
		right: func(p *Posture) { p.HIL = HILDefer },
		want:  func(p *Posture) { p.HIL = HILDefer }},
	{field: "GateFallback",
		left:  func(p *Posture) { p.GateFallback = FallbackDefer },
		right: func(p *Posture) { p.GateFallback = FallbackDeny },
		want:  func(p *Posture) { p.GateFallback = FallbackDeny }},
	{field: "Clarify",
		left:  func(p *Posture) { p.Clarify = ClarifyStateAssumption },
		right: func(p *Posture) { p.Clarify = ClarifyAsk },
		want:  func(p *Posture) { p.Clarify = ClarifyAsk }},
	{field: "Delivery.Shape",
		left:        func(p *Posture) { p.Delivery.Shape = ShapeDiff },
		right:       func(p *Posture) { p.Delivery.Shape = ShapeTable },
		want:        func(p *Posture) { p.Delivery.Shape = ShapeDiff },
		wantSwapped: func(p *Posture) { p.Delivery.Shape = ShapeTable }},
	{field: "Delivery.Cadence",
		left:  func(p *Posture) { p.Delivery.Cadence = CadenceDigest },
		right: func(p *Posture) { p.Delivery.Cadence = CadenceOnCompletion },
		want:  func(p *Posture) { p.Delivery.Cadence = CadenceOnCompletion }},
	{field: "Delivery.Urgency",
		left:  func(p *Posture) { p.Delivery.Urgency = UrgencyQuiet },
		right: func(p *Posture) { p.Delivery.Urgency = UrgencyInterrupt },
		want:  func(p *Posture) { p.Delivery.Urgency = UrgencyInterrupt }},
	{field: "Demand.ReasoningRequired",
		left:  func(p *Posture) { p.Demand.ReasoningRequired = true },
		right: func(p *Posture) { p.Demand.ReasoningRequired = false },
		want:  func(p *Posture) { p.Demand.ReasoningRequired = true }},
	{field: "Demand.EvidenceRequired",
		left:  func(p *Posture) { p.Demand.EvidenceRequired = true },
		right: func(p *Posture) { p.Demand.EvidenceRequired = false },
		want:  func(p *Posture) { p.Demand.EvidenceRequired = true }},
	{field: "Demand.StructuredOutput",
		left:  func(p *Posture) { p.Demand.StructuredOutput = true },
		right: func(p *Posture) { p.Demand.StructuredOutput = false },
		want:  func(p *Posture) { p.Demand.StructuredOutput = true }},
	{field: "Stop",
		left:  func(p *Posture) { p.Stop = StopInspection },
		right: func(p *Posture) { p.Stop = StopEffect },
		want:  func(p *Posture) { p.Stop = StopEffect }},
	{field: "Context",
		left:  func(p *Posture) { p.Context = ContextMinimal },
		right: func(p *Posture) { p.Context = ContextWorking },
		want:  func(p *Posture) { p.Context = ContextWorking }},
	{field: "Stance",
		left:        func(p *Posture) { p.Stance = StanceDiagnostic },
		right:       func(p *Posture) { p.Stance = StanceAnalytical },
		want:        func(p *Posture) { p.Stance = StanceDiagnostic },
		wantSwapped: func(p *Posture) { p.Stance = StanceAnalytical }},
	{field: "Note",
		left:        func(p *Posture) { p.Note = "one" },
		right:       func(p *Posture) { p.Note = "two" },
		want:        func(p *Posture) { p.Note = "one\ntwo" },
		wantSwapped: func(p *Posture) { p.Note = "two\none" }},
	{field: "Note",
		left:  func(p *Posture) { p.Note = "one" },
		right: func(p *Posture) { p.Note = "" },
		want:  func(p *Posture) { p.Note = "one" }},
	{field: "Note",
		left:  func(p *Posture) { p.Note = "one\ntwo" },
		right: func(p *Posture) { p.Note = "one\ntwo" },
		want:  func(p *Posture) { p.Note = "one\ntwo" }},
	{field: "Note", // whole notes are compared, not their lines
		left:        func(p *Posture) { p.Note = "one\ntwo" },
		right:       func(p *Posture) { p.Note = "two" },
		want:        func(p *Posture) { p.Note = "one\ntwo\ntwo" },
		wantSwapped: func(p *Posture) { p.Note = "two\none\ntwo" }},
}

func TestEachFieldOfLimitsMeetsOnItsOwn(t *testing.T) {
	testRows(t, limitsRows, randomLimits, Limits.Meet, Limits.Equal)
	for _, row := range limitsRows {
		narrow, wide := Unrestricted(), Unrestricted()
		row.want(&narrow)
		for _, side := range []func(*Limits){row.left, row.right} {
			wide = Unrestricted()
			side(&wide)
			if !narrow.IsAtMost(wide) {
				t.Errorf("%s: %+v is not at most %+v", row.field, narrow, wide)
			}
			if !narrow.Equal(wide) && wide.IsAtMost(narrow) {
				t.Errorf("%s: %+v is at most the narrower %+v", row.field, wide, narrow)
			}
		}
	}
}

func TestEachFieldOfPostureMeetsOnItsOwn(t *testing.T) {
	equal := func(a, b Posture) bool { return a == b }
	testRows(t, postureRows, randomPosture, Posture.Meet, equal)
}

// testRows checks each row on both sides, over several values of the other
// fields, and that every field has a row.
func testRows[R any](t *testing.T, rows []meetRow[R], random func(*rand.Rand) R, meet func(a, b R) R, equal func(a, b R) bool) {
	t.Helper()
	source := rand.New(rand.NewPCG(1, 0))
	covered := map[string]bool{}
	for _, row := range rows {
		covered[row.field] = true
		for range 20 {
			left := random(source)
			right, want, wantSwapped := left, left, left
			row.left(&left)
			row.right(&right)
			row.want(&want)
			row.want(&wantSwapped)
			if row.wantSwapped != nil {
				row.wantSwapped(&wantSwapped)
			}
			if got := meet(left, right); !equal(got, want) {
				t.Errorf("%s: %+v meets %+v:\n got %+v\nwant %+v", row.field, left, right, got, want)
			}
			if got := meet(right, left); !equal(got, wantSwapped) {
				t.Errorf("%s swapped: %+v meets %+v:\n got %+v\nwant %+v", row.field, right, left, got, wantSwapped)
			}
		}
	}
	for _, field := range fieldsOf(reflect.TypeFor[R]()) {
		if !covered[field] {
			t.Errorf("field %s has no row", field)
		}
	}
}

// fieldsOf returns the names of the fields that a meet treats one by one.
func fieldsOf(typ reflect.Type) []string {
	inner := []reflect.Type{reflect.TypeFor[Spend](), reflect.TypeFor[Delivery](), reflect.TypeFor[Demand]()}
	var names []string
	for field := range typ.Fields() {
		if !slices.Contains(inner, field.Type) {
			names = append(names, field.Name)
			continue
		}
		for _, name := range fieldsOf(field.Type) {
			names = append(names, field.Name+"."+name)
		}
	}
	return names
}

func TestEqualSeesEachFieldOfLimits(t *testing.T) {
	for _, row := range limitsRows {
		a, b := Unrestricted(), Unrestricted()
		row.left(&a)
		row.right(&b)
		if a.Equal(b) {
			t.Errorf("%s: %+v equals %+v", row.field, a, b)
		}
		row.left(&b)
		if !a.Equal(b) {
			t.Errorf("%s: %+v differs from %+v", row.field, a, b)
		}
	}
}

func TestTheZeroLimitsPermitNothing(t *testing.T) {
	var zero Limits
	for _, class := range Permissions() {
		if class.AtMost(zero.Permission) || class.AtMost(zero.ApprovalCeiling) {
			t.Errorf("%v is under a ceiling of the zero limits", class)
		}
	}
	for _, class := range EgressClasses() {
		if zero.Egress.Has(class) {
			t.Errorf("%v may leave under the zero limits", class)
		}
	}
	for _, satisfaction := range Satisfactions() {
		if satisfaction.Satisfies(zero.LeastSatisfaction) {
			t.Errorf("%v satisfies the zero limits", satisfaction)
		}
	}
	if !zero.RequiredDomains.Set().Empty() || zero.RequiredDomains.All() {
		t.Errorf("the zero limits load %v", zero.RequiredDomains.Set())
	}
	if met := Unrestricted().Meet(zero); met.Permission != 0 || met.ApprovalCeiling != 0 || !met.Egress.Empty() {
		t.Errorf("meeting the zero limits leaves %+v", met)
	}
	if _, err := zero.MarshalJSON(); err == nil {
		t.Error("the zero limits were written as a record")
	}
}

// checkLimitsLaws checks the laws of the lattice for three values.
func checkLimitsLaws(t *testing.T, a, b, c Limits) {
	t.Helper()
	top := Unrestricted()
	for law, holds := range map[string]bool{
		"idempotent":            a.Meet(a).Equal(a),
		"commutative":           a.Meet(b).Equal(b.Meet(a)),
		"associative":           a.Meet(b.Meet(c)).Equal(a.Meet(b).Meet(c)),
		"identity":              a.Meet(top).Equal(a) && top.Meet(a).Equal(a),
		"never widens":          a.Meet(b).IsAtMost(a) && a.Meet(b).IsAtMost(b),
		"widest of the lower":   !(c.IsAtMost(a) && c.IsAtMost(b)) || c.IsAtMost(a.Meet(b)),
		"at most the top":       a.IsAtMost(top),
		"order by meet":         a.IsAtMost(b) == a.Meet(b).Equal(a),
		"order is not mutual":   !(a.IsAtMost(b) && b.IsAtMost(a)) || a.Equal(b),
		"wider only in nothing": !exceeds(a.Meet(b), a) && !exceeds(a.Meet(b), b),
	} {
		if !holds {
			t.Fatalf("%s fails for\na=%+v\nb=%+v\nc=%+v", law, a, b, c)
		}
	}
}

// exceeds says, in terms of what each field permits and without Meet, whether a
// permits something that b does not.
func exceeds(a, b Limits) bool {
	for _, d := range Domains() {
		if a.RequiredDomains.Has(d) && !b.RequiredDomains.Has(d) {
			return true
		}
	}
	for _, m := range Modalities() {
		if b.RequiredModalities.Has(m) && !a.RequiredModalities.Has(m) {
			return true
		}
	}
	for _, p := range Permissions() {
		if p.AtMost(a.Permission) && !p.AtMost(b.Permission) || p.AtMost(a.ApprovalCeiling) && !p.AtMost(b.ApprovalCeiling) {
			return true
		}
	}
	for _, class := range EgressClasses() {
		if a.Egress.Has(class) && !b.Egress.Has(class) {
			return true
		}
	}
	for _, s := range Satisfactions() {
		if s.Satisfies(a.LeastSatisfaction) && !s.Satisfies(b.LeastSatisfaction) {
			return true
		}
	}
	more := func(a, b *int64) bool { return b != nil && (a == nil || *a > *b) }
	return more(a.Spend.Calls, b.Spend.Calls) || more(a.Spend.ResultBytes, b.Spend.ResultBytes)
}

// checkPostureLaws checks the laws of postures; what has no order is set aside.
func checkPostureLaws(t *testing.T, a, b, c Posture) {
	t.Helper()
	ordered := func(p Posture) Posture {
		p.Delivery.Shape, p.Stance, p.Note = 0, 0, ""
		return p
	}
	for law, holds := range map[string]bool{
		"idempotent":          a.Meet(a) == a,
		"commutative":         ordered(a.Meet(b)) == ordered(b.Meet(a)),
		"associative":         ordered(a.Meet(b.Meet(c))) == ordered(a.Meet(b).Meet(c)),
		"as cautious":         !lessCautious(a.Meet(b), a) && !lessCautious(a.Meet(b), b),
		"the left side leads": a.Meet(b).Delivery.Shape == a.Delivery.Shape && a.Meet(b).Stance == a.Stance,
		"notes are kept":      strings.HasPrefix(a.Meet(b).Note, a.Note) && strings.HasSuffix(a.Meet(b).Note, b.Note),
	} {
		if !holds {
			t.Fatalf("%s fails for\na=%+v\nb=%+v\nc=%+v", law, a, b, c)
		}
	}
}

// lessCautious says, rank by rank and without Meet, whether a is less cautious
// than b in some field.
func lessCautious(a, b Posture) bool {
	dropped := func(a, b bool) bool { return b && !a }
	return dropped(a.Managed, b.Managed) || dropped(a.OpenCommitment, b.OpenCommitment) ||
		dropped(a.CheckpointBeforeEffect, b.CheckpointBeforeEffect) ||
		a.HIL.Rank() < b.HIL.Rank() ||
		a.GateFallback != FallbackDeny && b.GateFallback == FallbackDeny ||
		a.Clarify.Rank() < b.Clarify.Rank() ||
		a.Delivery.Cadence.Rank() < b.Delivery.Cadence.Rank() || a.Delivery.Urgency.Rank() < b.Delivery.Urgency.Rank() ||
		dropped(a.Demand.ReasoningRequired, b.Demand.ReasoningRequired) ||
		dropped(a.Demand.EvidenceRequired, b.Demand.EvidenceRequired) ||
		dropped(a.Demand.StructuredOutput, b.Demand.StructuredOutput) ||
		a.Stop.Rank() < b.Stop.Rank() || a.Context.Rank() < b.Context.Rank()
}

func TestLawsOverRandomEngagements(t *testing.T) {
	source := rand.New(rand.NewPCG(1, 0)) // fixed, so that a failure is one for everybody
	for range 20_000 {
		a, b, c := randomEngagement(source), randomEngagement(source), randomEngagement(source)
		checkLimitsLaws(t, a.Limits, b.Limits, c.Limits)
		checkPostureLaws(t, a.Posture, b.Posture, c.Posture)
		checkEngagementLaws(t, a, b, c)
	}
}

func TestLawsOverEveryReachableReading(t *testing.T) {
	source := rand.New(rand.NewPCG(2, 0))
	last, beforeLast := General(), Orienting()
	eachReachable(func(r Reading, a Authority, slice bool) {
		r.AlternateActs = randomSet(source, Acts())
		r.Domains = randomSet(source, Domains())
		e := Derive(r, a, slice)
		checkLimitsLaws(t, e.Limits, last.Limits, beforeLast.Limits)
		checkPostureLaws(t, e.Posture, last.Posture, beforeLast.Posture)
		checkEngagementLaws(t, e, last, beforeLast)
		if source.IntN(20) == 0 { // partners from all over the space, not only neighbours
			last, beforeLast = e, last
		}
	})
}

func checkEngagementLaws(t *testing.T, a, b, c Engagement) {
	t.Helper()
	met, composed := a.Meet(b), Compose(a, b)
	domains := a.Limits.RequiredDomains.Union(b.Limits.RequiredDomains)
	narrowed := composed
	narrowed.Limits.RequiredDomains = met.Limits.RequiredDomains
	for law, holds := range map[string]bool{
		"a meet is of both halves":            met.Limits.Equal(a.Limits.Meet(b.Limits)) && met.Posture == a.Posture.Meet(b.Posture),
		"a strand alone is itself":            Compose(a).Equal(a),
		"composing joins domains":             composed.Limits.RequiredDomains == domains,
		"composing meets all else":            narrowed.Equal(met),
		"composing goes from left to right":   Compose(a, b, c).Equal(Compose(composed, c)),
		"composing stays under the top":       composed.Limits.IsAtMost(Unrestricted()),
		"equal only where both halves are so": a.Equal(b) == (a.Limits.Equal(b.Limits) && a.Posture == b.Posture),
	} {
		if !holds {
			t.Fatalf("%s fails for\na=%+v\nb=%+v\nc=%+v", law, a, b, c)
		}
	}
}

func TestComposeOfNothingIsGeneral(t *testing.T) {
	if got := Compose(); !got.Equal(General()) {
		t.Errorf("got %+v", got)
	}
}

func TestMeetLeavesItsOperandsAlone(t *testing.T) {
	a, b := Unrestricted(), Unrestricted()
	a.Spend.Calls, b.Spend.Calls = number(5), number(3)
	a.Meet(b)
	if *a.Spend.Calls != 5 || *b.Spend.Calls != 3 || a.Permission != Destructive {
		t.Errorf("operands are now %+v and %+v", a, b)
	}
}

func randomEngagement(r *rand.Rand) Engagement {
	return Engagement{randomLimits(r), randomPosture(r)}
}

// randomLimits often lands on the edges: all domains, no class, no bound.
func randomLimits(r *rand.Rand) Limits {
	l := Limits{
		RequiredDomains:    OnlyDomains(randomSet(r, Domains())),
		RequiredModalities: randomSet(r, Modalities()),
		Permission:         Permission(r.IntN(len(Permissions()) + 1)),
		ApprovalCeiling:    Permission(r.IntN(len(Permissions()) + 1)),
		Egress:             randomSet(r, EgressClasses()),
		Spend:              Spend{randomBound(r), randomBound(r)},
		LeastSatisfaction:  one(r, Satisfactions()),
	}
	if r.IntN(4) == 0 {
		l.RequiredDomains = AllDomains()
	}
	return l
}

func randomPosture(r *rand.Rand) Posture {
	return Posture{
		Managed:                r.IntN(2) == 0,
		OpenCommitment:         r.IntN(2) == 0,
		CheckpointBeforeEffect: r.IntN(2) == 0,
		HIL:                    one(r, HILs()),
		GateFallback:           one(r, GateFallbacks()),
		Clarify:                one(r, Clarifies()),
		Delivery:               Delivery{one(r, Shapes()), one(r, Cadences()), one(r, Urgencies())},
		Demand:                 Demand{r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(2) == 0},
		Stop:                   one(r, Stops()),
		Context:                one(r, Contexts()),
		Stance:                 one(r, Stances()),
		Note:                   one(r, []string{"", "", "a", "b", "a\nb", "\"quoted\" <b> \u2028"}),
	}
}

func randomReading(r *rand.Rand) Reading {
	return Reading{
		Act:           one(r, Acts()),
		AlternateActs: randomSet(r, Acts()),
		Horizon:       one(r, Horizons()),
		Stakes:        one(r, AllStakes()),
		Evidence:      one(r, EvidenceLevels()),
		Clarity:       one(r, Clarities()),
		Attendance:    one(r, Attendances()),
		Modalities:    randomSet(r, Modalities()),
		Domains:       randomSet(r, Domains()),
		Confidence:    one(r, []float64{0, 1, 0.2, 0.5, r.Float64(), r.Float64() * 1e-9}),
	}
}

func one[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func randomBound(r *rand.Rand) *int64 {
	return one(r, []*int64{nil, number(0), number(1), number(1000), number(MaxSpend), number(r.Int64N(10))})
}

func randomSet[T interface {
	Act | Modality | Domain | Egress
	encoding.TextMarshaler
	String() string
}](r *rand.Rand, all []T) Set[T] {
	return Set[T](r.Uint64N(1 << len(all)))
}
