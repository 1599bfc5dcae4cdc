package engagement_test

import (
	"encoding/json"
	"strings"
	"testing"

	. "github.com/mcp-gate/mcp-gate/engagement"
)

// The sixteen statements that the package is held to, one test each.

// read returns a clear, attended reading of text, with the given axes.
func read(act Act, horizon Horizon, stakes Stakes, evidence Evidence) Reading {
	r := NeutralReading()
	r.Act, r.Horizon, r.Stakes, r.Evidence = act, horizon, stakes, evidence
	r.Confidence = 0.9
	return r
}

func derived(r Reading) Engagement { return Derive(r, DefaultAuthority(), true) }

// eachReachable calls f with every combination of the axes that bear on a
// derivation. The person is as near to the reading as to the authority.
func eachReachable(f func(r Reading, a Authority, slice bool)) {
	r := NeutralReading()
	for _, r.Act = range Acts() {
		for _, r.Horizon = range Horizons() {
			for _, r.Stakes = range AllStakes() {
				for _, r.Evidence = range EvidenceLevels() {
					for _, r.Clarity = range Clarities() {
						for _, r.Attendance = range Attendances() {
							for _, autonomy := range Autonomies() {
								f(r, Authority{autonomy, r.Attendance}, true)
								f(r, Authority{autonomy, r.Attendance}, false)
							}
						}
					}
				}
			}
		}
	}
}

func TestStatement01DerivedLimitsStayUnderTheTopAndGrantNothing(t *testing.T) {
	n := 0
	eachReachable(func(r Reading, a Authority, slice bool) {
		n++
		l := Derive(r, a, slice).Limits
		if !l.IsAtMost(Unrestricted()) {
			t.Fatalf("%+v under %+v, slice %v: limits exceed the top: %+v", r, a, slice, l)
		}
		if l.Permission != Destructive || l.Egress != AllEgress() || l.Spend != (Spend{}) {
			t.Fatalf("%+v under %+v: permission, egress and spend are policy's, got %+v", r, a, l)
		}
	})
	if want := 10 * 4 * 4 * 4 * 3 * 3 * 3 * 2; n != want {
		t.Errorf("went over %d combinations, want %d", n, want)
	}
}

func TestStatement02AGreetingGetsOnlyTheFloor(t *testing.T) {
	e := derived(read(ActConverse, HorizonImmediate, StakesInert, EvidenceNone))
	if got, want := e.Limits.RequiredDomains, OnlyDomains(Floor()); got != want {
		t.Errorf("domains %v, want %v", got, want)
	}
	if e.Posture.Context != ContextMinimal || e.Posture.OpenCommitment || e.Posture.Note != "" {
		t.Errorf("got %+v, want minimal context, no commitment and no note", e.Posture)
	}
}

func TestStatement03EveryActKeepsTheFloor(t *testing.T) {
	for _, act := range Acts() {
		domains := derived(read(act, HorizonTurn, StakesReversible, EvidenceNone)).Limits.RequiredDomains
		if !domains.Has(DomainFilesystem) || !domains.Has(DomainMemory) {
			t.Errorf("%v has only %v", act, domains.Set())
		}
	}
}

func TestStatement04AnswerAndLocateReachLiveData(t *testing.T) {
	for _, act := range []Act{ActAnswer, ActLocate} {
		if domains := derived(read(act, HorizonTurn, StakesInert, EvidenceNone)).Limits.RequiredDomains; !domains.Has(DomainLiveData) {
			t.Errorf("%v has only %v", act, domains.Set())
		}
	}
}

func TestStatement05WhatMustBeCitedReachesLiveData(t *testing.T) {
	domains := derived(read(ActVerify, HorizonTurn, StakesInert, EvidenceCited)).Limits.RequiredDomains
	if !domains.Has(DomainLiveData) {
		t.Errorf("verify with cited evidence has only %v", domains.Set())
	}
}

func TestStatement06RequiredDomainsNarrowByIntersection(t *testing.T) {
	wide, narrow := Unrestricted(), Unrestricted()
	wide.RequiredDomains = OnlyDomains(DomainsOf(DomainWeb, DomainLiveData, DomainCodeExec))
	narrow.RequiredDomains = OnlyDomains(DomainsOf(DomainWeb))
	if got := wide.Meet(narrow).RequiredDomains; got != narrow.RequiredDomains {
		t.Errorf("met to %v, want web", got.Set())
	}
	if !narrow.IsAtMost(wide) || wide.IsAtMost(narrow) {
		t.Error("the wider set passes for at most the narrower")
	}
}

func TestStatement07DurableVerifiedWorkIsManagedAndCommitted(t *testing.T) {
	e := derived(read(ActModify, HorizonDurable, StakesReversible, EvidenceVerified))
	p := e.Posture
	if !p.Managed || !p.OpenCommitment || p.Context != ContextFull || p.Stop != StopVerification {
		t.Errorf("got %+v, want managed, committed, full context, stop at verification", p)
	}
	if e.Limits.LeastSatisfaction != SatisfactionObserved {
		t.Errorf("satisfied by %v, want observed", e.Limits.LeastSatisfaction)
	}
}

func TestStatement08AuditedWorkNeedsAttestation(t *testing.T) {
	least := derived(read(ActModify, HorizonSession, StakesReversible, EvidenceAudited)).Limits.LeastSatisfaction
	if least != SatisfactionAttested {
		t.Errorf("satisfied by %v, want attested", least)
	}
	if SatisfactionAsserted.Satisfies(least) || SatisfactionCited.Satisfies(least) {
		t.Error("asserted or cited satisfies audited work")
	}
}

func TestStatement09AmbiguityAsksOnlyWhereItCouldHurt(t *testing.T) {
	low := read(ActAnswer, HorizonTurn, StakesInert, EvidenceNone)
	high := read(ActOperate, HorizonTurn, StakesIrreversible, EvidenceNone)
	low.Clarity, high.Clarity = ClarityAmbiguous, ClarityAmbiguous
	if got := derived(low).Posture.Clarify; got != ClarifyStateAssumption {
		t.Errorf("inert answer: %v, want state-assumption", got)
	}
	if got := derived(high).Posture.Clarify; got != ClarifyAsk {
		t.Errorf("irreversible operate: %v, want ask", got)
	}
}

func TestStatement10UnattendedCostlyDurableWorkDefers(t *testing.T) {
	r := read(ActOperate, HorizonDurable, StakesCostly, EvidenceNone)
	p := Derive(r, Authority{AutonomyDelegated, AttendanceUnattended}, true).Posture
	if p.HIL != HILDefer || p.GateFallback != FallbackDefer {
		t.Errorf("hil %v, fallback %v, want defer and defer", p.HIL, p.GateFallback)
	}
}

func TestStatement11UnattendedInertWorkRollsUpQuietly(t *testing.T) {
	r := read(ActVerify, HorizonDurable, StakesInert, EvidenceNone)
	r.Attendance = AttendanceUnattended
	if d := derived(r).Posture.Delivery; d.Cadence != CadenceDigest || d.Urgency != UrgencyQuiet {
		t.Errorf("got %+v, want digest and quiet", d)
	}
}

func TestStatement12IrreversibleWorkInterruptsAndSaysSo(t *testing.T) {
	p := derived(read(ActOperate, HorizonTurn, StakesIrreversible, EvidenceNone)).Posture
	if p.HIL != HILInterrupt || p.Delivery.Urgency != UrgencyInterrupt {
		t.Errorf("hil %v, urgency %v, want interrupt and interrupt", p.HIL, p.Delivery.Urgency)
	}
	if !strings.Contains(p.Note, "cannot be undone") {
		t.Errorf("note %q does not say that a step cannot be undone", p.Note)
	}
}

func TestStatement13SessionAnalysisWithCitationsDemandsReasoningAndEvidence(t *testing.T) {
	d := derived(read(ActAnalyze, HorizonSession, StakesInert, EvidenceCited)).Posture.Demand
	if !d.ReasoningRequired || !d.EvidenceRequired {
		t.Errorf("got %+v, want reasoning and evidence", d)
	}
}

func TestStatement14AnEffectfulAlternateCheckpointsButOwesNoEffect(t *testing.T) {
	r := read(ActVerify, HorizonSession, StakesReversible, EvidenceNone)
	r.AlternateActs = ActsOf(ActModify)
	if p := derived(r).Posture; !p.CheckpointBeforeEffect || p.Stop != StopInspection {
		t.Errorf("verify or modify: checkpoint %v, stop %v, want true and inspection", p.CheckpointBeforeEffect, p.Stop)
	}
	alone := read(ActAnswer, HorizonTurn, StakesReversible, EvidenceNone)
	if p := derived(alone).Posture; p.CheckpointBeforeEffect || p.Stop != StopMessage {
		t.Errorf("answer alone: checkpoint %v, stop %v, want false and message", p.CheckpointBeforeEffect, p.Stop)
	}
}

func TestStatement15AMeetOfEngagementsIsAtMostEachSide(t *testing.T) {
	a := derived(read(ActModify, HorizonSession, StakesCostly, EvidenceVerified))
	b := derived(read(ActAnswer, HorizonTurn, StakesInert, EvidenceNone))
	if met := a.Meet(b).Limits; !met.IsAtMost(a.Limits) || !met.IsAtMost(b.Limits) {
		t.Errorf("%+v exceeds a side", met)
	}
}

func TestStatement16ADomainOutsideTheVocabularyIsRefused(t *testing.T) {
	var set DomainSet
	err := json.Unmarshal([]byte(`["web","weather"]`), &set)
	if err == nil || !strings.Contains(err.Error(), `"weather"`) || !strings.Contains(err.Error(), "live-data, web, filesystem") {
		t.Errorf("got %v, want an error that names weather and lists the vocabulary", err)
	}
}
