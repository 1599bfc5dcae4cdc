package policy_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/mcp-gate/mcp-gate/engagement"
	. "github.com/mcp-gate/mcp-gate/policy"
)

func reading(edit func(*engagement.Reading)) engagement.Reading {
	r := engagement.NeutralReading()
	r.Confidence = 1
	edit(&r)
	return r
}

func modify(r *engagement.Reading) {
	r.Act, r.Stakes = engagement.ActModify, engagement.StakesReversible
}

func operateForGood(r *engagement.Reading) {
	r.Act, r.Stakes = engagement.ActOperate, engagement.StakesIrreversible
}

func launched(edit func(*engagement.Reading)) Sources {
	s := Sources{Scope: ScopeAdmin, Authority: engagement.DefaultAuthority(), Bars: engagement.DefaultBars()}
	if edit != nil {
		r := reading(edit)
		s.Launch = &r
	}
	return s
}

func TestWhichPromptIsInForce(t *testing.T) {
	s := launched(nil).WithEngage(reading(modify))
	first, ok := s.WithPrompt(reading(modify))
	if !ok || first.Prompt == nil || first.Engage != nil {
		t.Errorf("a prompt takes force and ends what was declared: %+v %v", first, ok)
	}
	if s.Engage == nil {
		t.Error("the sources that the prompt came to were changed")
	}
	declared := first.WithEngage(reading(operateForGood))
	for name, edit := range map[string]func(*engagement.Reading){
		"one that converses":                func(r *engagement.Reading) { r.Act = engagement.ActConverse },
		"one that is not sure enough":       func(r *engagement.Reading) { modify(r); r.Confidence = 0.19 },
		"one whose confidence is no number": func(r *engagement.Reading) { modify(r); r.Confidence = math.NaN() },
	} {
		if got, ok := declared.WithPrompt(reading(edit)); ok || !reflect.DeepEqual(got, declared) {
			t.Errorf("%s leaves both in force: %+v %v", name, got, ok)
		}
	}
	next, ok := declared.WithPrompt(reading(func(r *engagement.Reading) { r.Act, r.Confidence = engagement.ActLocate, 0.2 }))
	if !ok || next.Prompt.Act != engagement.ActLocate || next.Engage != nil {
		t.Errorf("a newer prompt takes the older one's place: %+v %v", next, ok)
	}
	again := declared.WithEngage(reading(modify))
	if again.Engage.Act != engagement.ActModify || again.Prompt.Act != engagement.ActModify {
		t.Errorf("a newer declaration takes the older one's place only: %+v", again)
	}
}

func TestWithoutAReadingTheSessionIsGeneralUnderItsAuthority(t *testing.T) {
	got := launched(nil).Combine()
	want := Combined{engagement.Unread(engagement.DefaultAuthority()), engagement.DefaultAuthority(), engagement.StakesInert, OriginToken}
	if !got.Engagement.Equal(want.Engagement) || got.Authority != want.Authority || got.Stakes != want.Stakes || got.PermissionFrom != want.PermissionFrom {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestTheLaunchIsTakenAtItsWord(t *testing.T) {
	s := launched(func(r *engagement.Reading) { modify(r); r.Confidence = 0 })
	got := s.Combine()
	want := engagement.Derive(*s.Launch, s.Authority, true)
	if !got.Engagement.Equal(want) || got.Stakes != engagement.StakesReversible {
		t.Errorf("got %+v, want %+v", got.Engagement, want)
	}
}

func TestHILRisesOnlyWhereAReadingInsists(t *testing.T) {
	s := launched(modify) // review
	hil := func(s Sources) engagement.HIL { return s.Combine().Engagement.Posture.HIL }
	if got := hil(s); got != engagement.HILReview {
		t.Fatalf("the launch has %v, want review", got)
	}
	question, _ := s.WithPrompt(reading(func(r *engagement.Reading) { r.Act = engagement.ActAnswer })) // derives interrupt by its last rule
	if got := hil(question); got != engagement.HILReview {
		t.Errorf("a question raised it to %v", got)
	}
	danger, _ := s.WithPrompt(reading(operateForGood))
	if got := hil(danger); got != engagement.HILInterrupt {
		t.Errorf("an irreversible step left it at %v", got)
	}
	if got := hil(question.WithEngage(reading(operateForGood))); got != engagement.HILInterrupt {
		t.Errorf("a declared irreversible step left it at %v", got)
	}
	unattended := s
	unattended.Authority.Attendance = engagement.AttendanceUnattended
	durable := reading(func(r *engagement.Reading) {
		r.Act, r.Stakes, r.Horizon = engagement.ActOperate, engagement.StakesCostly, engagement.HorizonDurable
	})
	if got := hil(unattended.WithEngage(durable)); got != engagement.HILDefer {
		t.Errorf("a costly commitment that nobody attends left it at %v", got)
	}
	if got := hil(launched(operateForGood).WithEngage(reading(modify))); got != engagement.HILInterrupt {
		t.Errorf("a harmless declaration lowered it to %v", got)
	}
}

func TestShapeStanceAndContextAreTheNewestReadings(t *testing.T) {
	s := launched(modify)
	s, _ = s.WithPrompt(reading(func(r *engagement.Reading) { r.Act = engagement.ActVerify }))
	s = s.WithEngage(reading(func(r *engagement.Reading) { r.Act = engagement.ActLocate }))
	p := s.Combine().Engagement.Posture
	if p.Delivery.Shape != engagement.ShapeFindings || p.Stance != engagement.StanceExploratory || p.Context != engagement.ContextRecall {
		t.Errorf("got %v %v %v, want those of locate", p.Delivery.Shape, p.Stance, p.Context)
	}
}

func TestRequiredDomains(t *testing.T) {
	s := launched(func(r *engagement.Reading) { r.Act = engagement.ActVerify })
	domains := func(s Sources) string { return s.Combine().Engagement.Limits.RequiredDomains.Set().String() }
	atLaunch := domains(s)
	if atLaunch != "filesystem, code-exec, memory, observability" {
		t.Fatalf("the launch needs %s", atLaunch)
	}
	prompted, _ := s.WithPrompt(reading(func(r *engagement.Reading) { r.Act = engagement.ActAuthor }))
	if got := domains(prompted); got != "web, filesystem, memory, documents" {
		t.Errorf("a prompt needs %s, want its own", got)
	}
	unsure, _ := s.WithPrompt(reading(func(r *engagement.Reading) { r.Act, r.Confidence = engagement.ActAuthor, 0.4 }))
	if got := domains(unsure); got != "filesystem, memory" {
		t.Errorf("an unsure prompt needs %s, want the floor", got)
	}
	prompted.Enforce = true
	if got := domains(prompted); got != atLaunch {
		t.Errorf("enforced, it needs %s, want the launch's", got)
	}
	parent := launched(func(r *engagement.Reading) { r.Act = engagement.ActAuthor }).Combine()
	s.Parent = &parent
	if got := domains(s); got != "filesystem, memory" {
		t.Errorf("with a parent it needs %s, want what both need", got)
	}
}

func TestStakesOnlyRise(t *testing.T) {
	s := launched(modify)
	s, _ = s.WithPrompt(reading(func(r *engagement.Reading) { r.Stakes = engagement.StakesCostly }))
	s = s.WithEngage(reading(func(r *engagement.Reading) { r.Stakes = engagement.StakesInert }))
	if got := s.Combine().Stakes; got != engagement.StakesCostly {
		t.Errorf("got %v, want costly", got)
	}
	if got := s.WithEngage(reading(func(r *engagement.Reading) { r.Stakes = 0 })).Combine().Stakes; got != engagement.StakesIrreversible {
		t.Errorf("unstated stakes give %v, want the highest", got)
	}
}

func TestAChildStaysInsideItsParent(t *testing.T) {
	parentSources := launched(operateForGood)
	parentSources.Scope = ScopeWrite
	parentSources.Authority = engagement.Authority{Autonomy: engagement.AutonomyManual, Attendance: engagement.AttendanceSupervised}
	parent := parentSources.Combine()
	child := launched(modify)
	child.Authority = engagement.Authority{Autonomy: engagement.AutonomyAutonomous, Attendance: engagement.AttendanceInteractive}
	child.Parent = &parent
	got := child.Combine()
	if !got.Engagement.Limits.IsAtMost(parent.Engagement.Limits) || got.PermissionFrom != OriginParent {
		t.Errorf("limits %+v by %v exceed the parent's", got.Engagement.Limits, got.PermissionFrom)
	}
	if got.Authority != parentSources.Authority || got.Stakes != engagement.StakesIrreversible || got.Engagement.Posture.HIL != engagement.HILInterrupt {
		t.Errorf("authority %+v, stakes %v, mode %v", got.Authority, got.Stakes, got.Engagement.Posture.HIL)
	}
	child.Scope = ScopeRead
	if got := child.Combine(); got.PermissionFrom != OriginToken {
		t.Errorf("the ceiling is ascribed to %v, want the token", got.PermissionFrom)
	}
	child.Authority.Attendance = 0
	if got := child.Combine().Authority.Attendance; got != 0 {
		t.Errorf("unknown attendance became %v", got)
	}
}

func TestWhoHoldsThePermissionDown(t *testing.T) {
	readOnly := Default()
	readOnly.AllowWrites = false
	for _, tt := range []struct {
		scope Scope
		owner Policy
		class engagement.Permission
		want  Origin
	}{
		{ScopeAdmin, Default(), engagement.Destructive, OriginToken}, {ScopeAdmin, readOnly, engagement.Read, OriginOwner},
		{ScopeWrite, Default(), engagement.ReversibleWrite, OriginToken}, {ScopeWrite, readOnly, engagement.Read, OriginOwner},
		{ScopeRead, readOnly, engagement.Read, OriginOwner}, {ScopeRead, Default(), engagement.Read, OriginToken}, {0, Default(), engagement.Read, OriginToken},
	} {
		s := launched(nil)
		s.Scope = tt.scope
		limits, from := s.Combine().Under(tt.owner.Limits())
		if limits.Permission != tt.class || from != tt.want || limits.Egress != DefaultEgress() {
			t.Errorf("%v under %+v: %v by %v, want %v by %v", tt.scope, tt.owner, limits.Permission, from, tt.class, tt.want)
		}
	}
}

func TestFillSetsWhatTheSessionSettles(t *testing.T) {
	s := launched(modify)
	combined := s.Combine()
	c := Call{Known: true, Class: engagement.Read}
	combined.Fill(&c, Default().Limits())
	limits, from := combined.Under(Default().Limits())
	want := Call{
		Known: true, Class: engagement.Read, Limits: limits, PermissionFrom: from, HIL: engagement.HILReview, GateFallback: engagement.FallbackDeny,
		CheckpointBefore: true, Autonomy: engagement.AutonomyDelegated, Attendance: engagement.AttendanceInteractive, Stakes: engagement.StakesReversible,
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
}

func randomReading(r *rand.Rand) engagement.Reading {
	pick := func(n int) int { return r.IntN(n) }
	return engagement.Reading{
		Act: engagement.Acts()[pick(10)], AlternateActs: engagement.ActsOf(engagement.Acts()[pick(10)]), Horizon: engagement.Horizons()[pick(4)],
		Stakes: engagement.AllStakes()[pick(4)], Evidence: engagement.EvidenceLevels()[pick(4)], Clarity: engagement.Clarities()[pick(3)],
		Attendance: engagement.Attendances()[pick(3)], Modalities: engagement.ModalitiesOf(engagement.Modalities()[pick(5)]), Confidence: r.Float64(),
	}
}

// Whatever a prompt, an agent or a parent says, it takes power away and adds
// caution, the required domains apart, which are no power.
func TestNothingSaidLaterWidensASession(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 0))
	for range 20_000 {
		launch, prompt, declared := randomReading(r), randomReading(r), randomReading(r)
		s := Sources{
			Scope: Scopes()[r.IntN(4)], Bars: engagement.DefaultBars(), Enforce: r.IntN(2) == 0,
			Authority: engagement.Authority{Autonomy: engagement.Autonomies()[r.IntN(3)], Attendance: engagement.Attendances()[r.IntN(3)]},
		}
		if r.IntN(3) > 0 {
			s.Launch = &launch
		}
		steps := []Sources{s}
		prompted, _ := s.WithPrompt(prompt)
		steps = append(steps, prompted, prompted.WithEngage(declared))
		parent := Sources{Scope: Scopes()[r.IntN(4)], Bars: s.Bars, Launch: &declared, Authority: engagement.DefaultAuthority()}.Combine()
		child := prompted.WithEngage(declared)
		child.Parent = &parent
		steps = append(steps, child)
		for i := 1; i < len(steps); i++ {
			before, after := steps[i-1].Combine(), steps[i].Combine()
			b, a := before.Engagement.Limits, after.Engagement.Limits
			if i < 3 {
				a.RequiredDomains, b.RequiredDomains = engagement.AllDomains(), engagement.AllDomains()
			}
			if !a.IsAtMost(b) {
				t.Fatalf("step %d widened the limits\nfrom %+v\nto   %+v", i, b, a)
			}
			p, q := before.Engagement.Posture, after.Engagement.Posture
			if q.HIL < p.HIL || q.CheckpointBeforeEffect != p.CheckpointBeforeEffect && p.CheckpointBeforeEffect ||
				q.GateFallback > p.GateFallback || after.Stakes < before.Stakes || after.Authority.Autonomy > before.Authority.Autonomy {
				t.Fatalf("step %d lowered caution\nfrom %+v\nto   %+v", i, before, after)
			}
			if s.Enforce && i < 3 && after.Engagement.Limits.RequiredDomains != before.Engagement.Limits.RequiredDomains {
				t.Fatalf("step %d moved an enforced slice", i)
			}
		}
	}
}

func TestACombinedRecordComesBack(t *testing.T) {
	want := launched(modify).Combine()
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Combined
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if !got.Engagement.Equal(want.Engagement) || got.Authority != want.Authority || got.Stakes != want.Stakes || got.PermissionFrom != want.PermissionFrom {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
