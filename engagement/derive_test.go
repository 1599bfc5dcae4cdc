package engagement_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	. "github.com/mcp-gate/mcp-gate/engagement"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestRequiredDomainsByAct(t *testing.T) {
	want := map[Act]string{
		ActConverse:    "filesystem, memory",
		ActAnswer:      "live-data, web, filesystem, memory",
		ActLocate:      "live-data, web, filesystem, memory, vcs",
		ActAnalyze:     "live-data, web, filesystem, code-exec, memory, vcs",
		ActAuthor:      "web, filesystem, memory, documents",
		ActModify:      "filesystem, code-exec, memory, documents, vcs",
		ActOperate:     "live-data, web, filesystem, code-exec, memory, messaging, documents, orchestration",
		ActVerify:      "filesystem, code-exec, memory, observability",
		ActOrchestrate: "filesystem, code-exec, memory, orchestration",
		ActGovern:      "filesystem, memory, documents, orchestration, observability",
	}
	for _, act := range Acts() {
		r := read(act, HorizonTurn, StakesInert, EvidenceNone)
		if got := derived(r).Limits.RequiredDomains.Set().String(); got != want[act] {
			t.Errorf("%v: %s\nwant %s", act, got, want[act])
		}
		r.Domains = DomainsOf(DomainMessaging)
		if got := Derive(r, DefaultAuthority(), false).Limits.RequiredDomains; got != OnlyDomains(Floor()) {
			t.Errorf("%v without a slice: %v, want the floor", act, got.Set())
		}
	}
}

func TestRequiredDomainsJoinWhatTheWholeReadingNeeds(t *testing.T) {
	r := read(ActConverse, HorizonTurn, StakesInert, EvidenceNone)
	r.AlternateActs = ActsOf(ActVerify)
	r.Domains = DomainsOf(DomainMessaging)
	if got, want := derived(r).Limits.RequiredDomains.Set().String(), "filesystem, code-exec, memory, messaging, observability"; got != want {
		t.Errorf("alternates and named domains: %s, want %s", got, want)
	}
	for _, evidence := range EvidenceLevels()[1:] {
		r := read(ActGovern, HorizonTurn, StakesInert, evidence)
		if got := derived(r).Limits.RequiredDomains; !got.Has(DomainLiveData) || !got.Has(DomainWeb) {
			t.Errorf("govern with %v evidence has only %v", evidence, got.Set())
		}
	}
}

func TestTheReadingsModalitiesAreRequired(t *testing.T) {
	r := NeutralReading()
	r.Modalities = ModalitiesOf(ModalityImage, ModalityFile)
	if got := derived(r).Limits.RequiredModalities; got != r.Modalities {
		t.Errorf("required %v, want %v", got, r.Modalities)
	}
}

// The sweep says each rule again, as a condition on the axes, and holds every
// reachable derivation against it.
func TestEveryRuleOverEveryReachableReading(t *testing.T) {
	eachReachable(func(r Reading, a Authority, slice bool) {
		p := Derive(r, a, slice).Posture
		cited, session := r.Evidence != EvidenceNone, r.Horizon.Rank() >= HorizonSession.Rank()
		costly := r.Stakes == StakesCostly || r.Stakes == StakesIrreversible
		structured := r.Act == ActModify || r.Act == ActVerify
		reasoned := r.Act == ActAnalyze || r.Act == ActAuthor || r.Act == ActModify || r.Act == ActOrchestrate
		for rule, holds := range map[string]bool{
			"managed":            p.Managed == session,
			"open commitment":    p.OpenCommitment == (r.Horizon == HorizonDurable),
			"checkpoint":         p.CheckpointBeforeEffect == (r.Act.Effectful() && r.Stakes != StakesInert),
			"reasoning":          p.Demand.ReasoningRequired == (reasoned || session),
			"evidence":           p.Demand.EvidenceRequired == cited,
			"structured output":  p.Demand.StructuredOutput == structured,
			"hil":                p.HIL == wantHIL(r, a),
			"hil is no envelope": p.HIL != HILEnvelope,
			"fallback":           (p.GateFallback == FallbackDefer) == (a.Attendance == AttendanceUnattended && r.Horizon == HorizonDurable),
			"proceed":            (p.Clarify == ClarifyProceed) == (r.Clarity == ClarityClear),
			"ask":                (p.Clarify == ClarifyAsk) == (r.Clarity != ClarityClear && costly),
			"urgency interrupt":  (p.Delivery.Urgency == UrgencyInterrupt) == (r.Stakes == StakesIrreversible),
			"urgency quiet":      (p.Delivery.Urgency == UrgencyQuiet) == (r.Attendance == AttendanceUnattended && !costly),
			"cadence":            p.Delivery.Cadence.Rank() == AttendanceUnattended.Rank()-r.Attendance.Rank(),
			"stop verification":  (p.Stop == StopVerification) == (r.Evidence == EvidenceVerified || r.Evidence == EvidenceAudited),
			"context full":       (p.Context == ContextFull) == (r.Horizon == HorizonDurable),
			"note":               p.Note == strings.Join(wantNotes(r, p.HIL), "\n"),
			"every word is set":  everyWordIsSet(p),
		} {
			if !holds {
				t.Fatalf("%s fails for %+v under %+v: %+v", rule, r, a, p)
			}
		}
	})
}

func wantHIL(r Reading, a Authority) HIL {
	costly := r.Stakes.Rank() >= StakesCostly.Rank()
	rules := []struct {
		holds bool
		mode  HIL
	}{
		{costly && a.Attendance == AttendanceUnattended && r.Horizon == HorizonDurable, HILDefer},
		{r.Stakes == StakesIrreversible, HILInterrupt},
		{a.Autonomy == AutonomyManual, HILInterrupt},
		{a.Autonomy == AutonomyAutonomous, HILReview},
		{!costly && r.Act.Effectful(), HILReview},
		{true, HILInterrupt},
	}
	for _, rule := range rules {
		if rule.holds {
			return rule.mode
		}
	}
	return 0
}

func wantNotes(r Reading, hil HIL) []string {
	costly := r.Stakes.Rank() >= StakesCostly.Rank()
	var notes []string
	for _, n := range []struct {
		holds bool
		text  string
	}{
		{r.Clarity != ClarityClear && !costly, "Something was left open: take the likeliest meaning and say which assumption you took."},
		{r.Clarity != ClarityClear && costly, "Something was left open and a wrong guess is costly: put one specific question first."},
		{r.Evidence == EvidenceCited, "Give the source of each claim."},
		{r.Evidence == EvidenceVerified, "The runtime decides when this is complete, and it needs observed evidence: leave something that can be checked."},
		{r.Evidence == EvidenceAudited, "The runtime decides when this is complete, and it needs attested evidence: leave something that can be checked."},
		{hil == HILDefer, "Nobody can answer now: name what you need decided, then stop."},
		{r.Stakes == StakesIrreversible && hil != HILDefer, "A step here cannot be undone: have it confirmed before you take it."},
		{r.Stakes == StakesIrreversible && hil == HILDefer, "A step here cannot be undone: finish what comes before it, then name what awaits a yes."},
	} {
		if n.holds {
			notes = append(notes, n.text)
		}
	}
	return notes
}

func everyWordIsSet(p Posture) bool {
	_, err := p.MarshalJSON()
	return err == nil
}

func TestShapeStopContextAndStanceByAct(t *testing.T) {
	type row struct {
		act     Act
		shape   Shape
		cited   Shape // with cited evidence
		stop    Stop
		context Context
		stance  Stance
		sure    Stance // with cited evidence
	}
	for _, want := range []row{
		{ActConverse, ShapeProse, ShapeSources, StopMessage, ContextMinimal, StanceConversational, StanceConversational},
		{ActAnswer, ShapeProse, ShapeSources, StopMessage, ContextRecall, StanceDirectAnswer, StanceAnalytical},
		{ActLocate, ShapeFindings, ShapeFindings, StopInspection, ContextRecall, StanceExploratory, StanceExploratory},
		{ActAnalyze, ShapeProse, ShapeSources, StopInspection, ContextRecall, StanceAnalytical, StanceAnalytical},
		{ActAuthor, ShapeArtifact, ShapeArtifact, StopInspection, ContextRecall, StanceGenerative, StanceGenerative},
		{ActModify, ShapeDiff, ShapeDiff, StopEffect, ContextWorking, StanceOperational, StanceOperational},
		{ActOperate, ShapeReport, ShapeReport, StopEffect, ContextWorking, StanceOperational, StanceOperational},
		{ActVerify, ShapeMatrix, ShapeMatrix, StopInspection, ContextWorking, StanceDiagnostic, StanceDiagnostic},
		{ActOrchestrate, ShapeReport, ShapeReport, StopInspection, ContextRecall, StanceExploratory, StanceExploratory},
		{ActGovern, ShapeReport, ShapeReport, StopEffect, ContextRecall, StanceOperational, StanceOperational},
	} {
		plain := derived(read(want.act, HorizonTurn, StakesInert, EvidenceNone)).Posture
		cited := derived(read(want.act, HorizonTurn, StakesInert, EvidenceCited)).Posture
		got := row{want.act, plain.Delivery.Shape, cited.Delivery.Shape, plain.Stop, plain.Context, plain.Stance, cited.Stance}
		if got != want {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
}

func TestAnAlternateActCountsWhereAnyActDoes(t *testing.T) {
	base := read(ActOrchestrate, HorizonTurn, StakesReversible, EvidenceNone)
	for _, alternate := range Acts() {
		r := base
		r.AlternateActs = ActsOf(alternate)
		p := derived(r).Posture
		wantHIL, wantStance := HILInterrupt, StanceExploratory
		if alternate.Effectful() {
			wantHIL, wantStance = HILReview, StanceOperational
		}
		wantContext := ContextRecall
		if alternate == ActModify || alternate == ActVerify || alternate == ActOperate {
			wantContext = ContextWorking
		}
		if p.HIL != wantHIL || p.Stance != wantStance || p.Context != wantContext || p.CheckpointBeforeEffect != alternate.Effectful() {
			t.Errorf("with %v: %+v, want %v, %v, %v", alternate, p, wantHIL, wantStance, wantContext)
		}
		if p.Stop != StopInspection || p.Delivery.Shape != ShapeReport {
			t.Errorf("with %v: stop %v, shape %v, want the primary act's", alternate, p.Stop, p.Delivery.Shape)
		}
	}
}

func TestApprovalCeilings(t *testing.T) {
	want := map[Autonomy][]Permission{ // inert, reversible, costly, irreversible
		AutonomyManual:     {Read, Read, Read, Read},
		AutonomyDelegated:  {ReversibleWrite, ReversibleWrite, ReversibleWrite, Read},
		AutonomyAutonomous: {SourceFileWrite, SourceFileWrite, ReversibleWrite, Read},
	}
	for autonomy, row := range want {
		for i, stakes := range AllStakes() {
			a := Authority{autonomy, AttendanceInteractive}
			if got := a.ApprovalCeiling(stakes); got != row[i] {
				t.Errorf("%v, %v: %v, want %v", autonomy, stakes, got, row[i])
			}
			r := read(ActAnswer, HorizonTurn, stakes, EvidenceNone)
			if got := Derive(r, a, true).Limits.ApprovalCeiling; got != row[i] {
				t.Errorf("%v, %v derives %v, want %v", autonomy, stakes, got, row[i])
			}
		}
	}
}

func TestGateFallbackDefersOnlyWhereTheQuestionCanWait(t *testing.T) {
	for _, attendance := range Attendances() {
		for _, horizon := range Horizons() {
			want := FallbackDeny
			if attendance == AttendanceUnattended && horizon == HorizonDurable {
				want = FallbackDefer
			}
			if got := (Authority{AutonomyManual, attendance}).GateFallback(horizon); got != want {
				t.Errorf("%v, %v: %v, want %v", attendance, horizon, got, want)
			}
		}
	}
}

func TestApplyAuthorityMeetsTheCeilingAndSetsTheFallback(t *testing.T) {
	e := General()
	e.Limits.ApprovalCeiling = Read
	got := ApplyAuthority(e, Authority{AutonomyAutonomous, AttendanceUnattended}, HorizonDurable, StakesInert)
	want := e
	want.Posture.GateFallback = FallbackDefer
	if !got.Equal(want) {
		t.Errorf("got %+v, want the lower ceiling kept and the fallback set", got)
	}
	want.Posture.GateFallback = FallbackDeny
	if got := ApplyAuthority(got, DefaultAuthority(), HorizonDurable, StakesInert); !got.Equal(want) {
		t.Errorf("got %+v, want the fallback of the authority in force", got)
	}
}

func TestAnUnknownLoosensNothing(t *testing.T) {
	whole := read(ActModify, HorizonTurn, StakesReversible, EvidenceNone)
	if got := derived(whole).Posture.HIL; got != HILReview {
		t.Fatalf("hil %v, want review to start from", got)
	}
	unknown := whole
	unknown.Stakes = 0
	e := derived(unknown)
	if e.Posture.HIL != HILInterrupt || e.Limits.ApprovalCeiling != 0 {
		t.Errorf("unknown stakes: hil %v, ceiling %v, want interrupt and none", e.Posture.HIL, e.Limits.ApprovalCeiling)
	}
	if got := Derive(whole, Authority{}, true).Limits.ApprovalCeiling; got != 0 {
		t.Errorf("no authority: ceiling %v, want none", got)
	}
	if got := derived(Reading{}); got.Limits.LeastSatisfaction != 0 || got.Posture.Clarify == ClarifyProceed {
		t.Errorf("nothing known derives %+v", got)
	}
	if _, err := derived(Reading{}).MarshalJSON(); err == nil {
		t.Error("an engagement of unknowns was written as a record")
	}
}

func TestConfidenceBars(t *testing.T) {
	bars, a := DefaultBars(), Authority{AutonomyManual, AttendanceUnattended}
	r := read(ActOperate, HorizonDurable, StakesCostly, EvidenceCited)
	full, floor := Derive(r, a, true), Derive(r, a, false)
	orienting := ApplyAuthority(Orienting(), a, r.Horizon, r.Stakes)
	if orienting.Limits.ApprovalCeiling != Read || orienting.Posture.GateFallback != FallbackDefer {
		t.Fatalf("authority is not in %+v", orienting)
	}
	for _, test := range []struct {
		confidence float64
		source     Source
		want       Engagement
	}{
		{1, SourceLexical, full},
		{0.5, SourceLexical, full},
		{math.Nextafter(0.5, 0), SourceLexical, floor},
		{0.2, SourceLexical, floor},
		{math.Nextafter(0.2, 0), SourceLexical, orienting},
		{0, SourceLexical, orienting},
		{math.NaN(), SourceLexical, orienting},
		{0, 0, orienting},
		{0, SourceDeclared, full},
	} {
		r.Confidence = test.confidence
		if got := bars.Engage(r, a, test.source); !got.Equal(test.want) {
			t.Errorf("%v reading of %v: got %+v\nwant %+v", test.source, test.confidence, got, test.want)
		}
	}
	r.Confidence = 0.5
	if got := (Bars{Slice: 0.9, Orient: 0.6}).Engage(r, a, SourceLexical); !got.Equal(orienting) {
		t.Errorf("the owner's bars are not used: %+v", got)
	}
}

func TestWithoutAReadingAuthorityStillHolds(t *testing.T) {
	want := General()
	want.Limits.ApprovalCeiling = Read
	if got := Unread(Authority{AutonomyManual, AttendanceInteractive}); !got.Equal(want) {
		t.Errorf("got %+v, want general under a ceiling of read", got)
	}
	want.Limits.ApprovalCeiling = ReversibleWrite
	if got := Unread(DefaultAuthority()); !got.Equal(want) {
		t.Errorf("got %+v, want general under a ceiling of reversible_write", got)
	}
}

func TestANewReadingOnlyAddsCaution(t *testing.T) {
	a := DefaultAuthority()
	edit := Derive(read(ActModify, HorizonTurn, StakesReversible, EvidenceNone), a, true).Posture
	question := read(ActAnswer, HorizonTurn, StakesInert, EvidenceNone)
	if got := edit.Refine(Derive(question, a, true).Posture, LeastHIL(question, a)); got.HIL != HILReview ||
		!got.CheckpointBeforeEffect || got.Stop != StopEffect ||
		got.Delivery.Shape != ShapeProse || got.Stance != StanceDirectAnswer || got.Context != ContextRecall {
		t.Errorf("an inert question left %+v", got)
	}
	deletion := read(ActOperate, HorizonTurn, StakesIrreversible, EvidenceNone)
	if got := edit.Refine(Derive(deletion, a, true).Posture, LeastHIL(deletion, a)); got.HIL != HILInterrupt ||
		!strings.Contains(got.Note, "cannot be undone") {
		t.Errorf("an irreversible step left %+v", got)
	}
}

func TestLeastHIL(t *testing.T) {
	unattended := Authority{AutonomyAutonomous, AttendanceUnattended}
	manual := Authority{AutonomyManual, AttendanceInteractive}
	for _, test := range []struct {
		name string
		r    Reading
		a    Authority
		want HIL
	}{
		{"costly and nobody there", read(ActOperate, HorizonDurable, StakesCostly, EvidenceNone), unattended, HILDefer},
		{"irreversible and nobody there", read(ActOperate, HorizonDurable, StakesIrreversible, EvidenceNone), unattended, HILDefer},
		{"reversible and nobody there", read(ActOperate, HorizonDurable, StakesReversible, EvidenceNone), unattended, 0},
		{"irreversible", read(ActAnswer, HorizonTurn, StakesIrreversible, EvidenceNone), DefaultAuthority(), HILInterrupt},
		{"manual", read(ActAnswer, HorizonTurn, StakesInert, EvidenceNone), manual, HILInterrupt},
		{"costly with somebody there", read(ActOperate, HorizonDurable, StakesCostly, EvidenceNone), DefaultAuthority(), 0},
	} {
		if got := LeastHIL(test.r, test.a); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func TestGeneralAndOrienting(t *testing.T) {
	want := Engagement{
		Limits: Limits{
			RequiredDomains:   AllDomains(),
			Permission:        Destructive,
			ApprovalCeiling:   Destructive,
			Egress:            EgressOf(Metadata, Aggregates, RowLevel, RenderedPixels, RawPixels),
			LeastSatisfaction: SatisfactionAsserted,
		},
		Posture: Posture{
			HIL: HILInterrupt, GateFallback: FallbackDeny, Clarify: ClarifyProceed,
			Delivery: Delivery{Shape: ShapeProse, Cadence: CadenceLive, Urgency: UrgencyNotify},
			Stop:     StopMessage, Context: ContextRecall, Stance: StanceDirectAnswer,
		},
	}
	if got := General(); !got.Equal(want) {
		t.Errorf("general is %+v", got)
	}
	want.Limits.RequiredDomains = OnlyDomains(DomainsOf(DomainFilesystem, DomainMemory))
	if got := Orienting(); !got.Equal(want) {
		t.Errorf("orienting is %+v", got)
	}
}

// The golden file shows derivations whole, as a person would look one up.
func TestDerivedEngagementsGolden(t *testing.T) {
	var out bytes.Buffer
	for _, line := range strings.Split(strings.TrimSpace(goldenTasks), "\n") {
		name, task, _ := strings.Cut(line, ": ")
		var derived, pretty bytes.Buffer
		if bad, err := DeriveLines(strings.NewReader(task), &derived, true); bad != 0 || err != nil {
			t.Fatalf("%s: %v\n%s", name, err, derived.Bytes())
		}
		if err := json.Indent(&pretty, derived.Bytes(), "", "  "); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "# %s\n# %s\n%s\n", name, task, pretty.Bytes())
	}
	const golden = "../testdata/engagement/derived.golden"
	if *update {
		if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), want) {
		t.Errorf("derivations differ from %s; look at `go test ./engagement -update` and git diff\n%s", golden, out.Bytes())
	}
}

const goldenTasks = `
a greeting: {"reading":{"act":"converse","horizon":"immediate"}}
a question with sources: {"reading":{"act":"answer","evidence":"cited"}}
where something is, left vague: {"reading":{"act":"locate","clarity":"underspecified"}}
an analysis over a session: {"reading":{"act":"analyze","horizon":"session","evidence":"cited","modalities":["text","image"]}}
a document to write: {"reading":{"act":"author","alternate_acts":["modify"],"stakes":"reversible"}}
a change that is verified: {"reading":{"act":"modify","horizon":"durable","stakes":"reversible","evidence":"verified"}}
a deletion that is not clear: {"reading":{"act":"operate","stakes":"irreversible","clarity":"ambiguous","domains":["observability"]}}
a nightly operation: {"reading":{"act":"operate","horizon":"durable","stakes":"irreversible","attendance":"unattended"},"authority":{"autonomy":"delegated","attendance":"unattended"}}
an unattended check: {"reading":{"act":"verify","horizon":"durable","attendance":"unattended"}}
a campaign by hand: {"reading":{"act":"orchestrate","horizon":"session"},"authority":{"autonomy":"manual"}}
a rule to set, audited: {"reading":{"act":"govern","stakes":"costly","evidence":"audited","attendance":"supervised"},"authority":{"autonomy":"autonomous","attendance":"supervised"}}
`
