package engagement_test

import (
	"encoding"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	. "github.com/mcp-gate/mcp-gate/engagement"
)

// The words of every vocabulary, in rank order where there is one. They are in
// files and scripts of other people and do not change.
func TestVocabularies(t *testing.T) {
	checkWords(t, Acts(), "converse, answer, locate, analyze, author, modify, operate, verify, orchestrate, govern")
	checkWords(t, Horizons(), "immediate, turn, session, durable")
	checkWords(t, AllStakes(), "inert, reversible, costly, irreversible")
	checkWords(t, EvidenceLevels(), "none, cited, verified, audited")
	checkWords(t, Clarities(), "clear, underspecified, ambiguous")
	checkWords(t, Attendances(), "interactive, supervised, unattended")
	checkWords(t, Modalities(), "text, image, audio, video, file")
	checkWords(t, Satisfactions(), "asserted, cited, observed, attested")
	checkWords(t, Stances(), "conversational, direct-answer, exploratory, analytical, generative, operational, diagnostic")
	checkWords(t, Autonomies(), "manual, delegated, autonomous")
	checkWords(t, GateFallbacks(), "deny, defer")
	checkWords(t, Permissions(), "read, reversible_write, source_file_write, destructive")
	checkWords(t, EgressClasses(), "metadata, aggregates, row_level, rendered_pixels, raw_pixels")
	checkWords(t, Domains(), "live-data, web, filesystem, code-exec, memory, messaging, documents, orchestration, vcs, observability")
	checkWords(t, HILs(), "review, envelope, defer, interrupt")
	checkWords(t, Clarifies(), "proceed, state-assumption, ask")
	checkWords(t, Shapes(), "prose, sources, findings, diff, matrix, table, artifact, report")
	checkWords(t, Cadences(), "digest, on-completion, live")
	checkWords(t, Urgencies(), "quiet, notify, interrupt")
	checkWords(t, Stops(), "message, inspection, effect, verification")
	checkWords(t, Contexts(), "minimal, recall, working, full")
	checkWords(t, Sources(), "lexical, declared")
}

type wordValue interface {
	~uint8
	encoding.TextMarshaler
	String() string
}

func checkWords[T wordValue, P interface {
	*T
	encoding.TextUnmarshaler
}](t *testing.T, all []T, want string) {
	t.Helper()
	var words []string
	for i, v := range all {
		words = append(words, v.String())
		text, err := v.MarshalText()
		if err != nil || string(text) != v.String() {
			t.Errorf("%v marshals to %q, %v", v, text, err)
		}
		back, err := Parse[T, P](v.String())
		if err != nil || back != v {
			t.Errorf("Parse(%q) = %v, %v", v.String(), back, err)
		}
		if ranked, ok := any(v).(interface{ Rank() int }); ok && ranked.Rank() != i {
			t.Errorf("%v ranks %d, want %d", v, ranked.Rank(), i)
		}
	}
	if got := strings.Join(words, ", "); got != want {
		t.Errorf("words are %s\nwant %s", got, want)
	}
	var zero T
	if text, err := zero.MarshalText(); err == nil {
		t.Errorf("the zero %T marshals to %q", zero, text)
	}
	if ranked, ok := any(zero).(interface{ Rank() int }); ok && ranked.Rank() != -1 {
		t.Errorf("the zero %T ranks %d, want -1", zero, ranked.Rank())
	}
	if _, err := Parse[T, P]("nope"); err == nil || !strings.HasSuffix(err.Error(), "want one of "+want) {
		t.Errorf("an unknown %T: %v, want an error that lists the words", zero, err)
	}
}

func TestWhichVocabulariesHaveAnOrder(t *testing.T) {
	type ranked interface{ Rank() int }
	for _, v := range []any{ActAnswer, ModalityText, StanceAnalytical, ShapeProse, DomainWeb} {
		if _, ok := v.(ranked); ok {
			t.Errorf("%T has a rank, though its words have no order", v)
		}
	}
	for _, v := range []any{HorizonTurn, StakesInert, EvidenceNone, ClarityClear, AttendanceInteractive, SatisfactionCited,
		AutonomyManual, Read, Metadata, HILReview, ClarifyAsk, CadenceLive, UrgencyQuiet, StopEffect, ContextFull} {
		if _, ok := v.(ranked); !ok {
			t.Errorf("%T has no rank", v)
		}
	}
}

func TestPredicatesOfTheAxes(t *testing.T) {
	checkHolds(t, "effectful", Acts(), Act.Effectful, ActModify, ActOperate, ActGovern)
	checkHolds(t, "opens a commitment", Horizons(), Horizon.OpensCommitment, HorizonDurable)
	checkHolds(t, "wants a checkpoint", AllStakes(), Stakes.WantsCheckpoint, StakesReversible, StakesCostly, StakesIrreversible)
	checkHolds(t, "needs approval", append(Permissions(), 0), Permission.NeedsApproval, SourceFileWrite, Destructive, 0)
	checkHolds(t, "structured", Shapes(), Shape.Structured, ShapeDiff, ShapeMatrix, ShapeTable)
	checkHolds(t, "under a ceiling of reversible_write", append(Permissions(), 0),
		func(p Permission) bool { return p.AtMost(ReversibleWrite) }, Read, ReversibleWrite)
}

func checkHolds[T comparable](t *testing.T, what string, all []T, holds func(T) bool, want ...T) {
	t.Helper()
	for _, v := range all {
		if got := holds(v); got != slices.Contains(want, v) {
			t.Errorf("%v %s: %v", v, what, got)
		}
	}
}

func TestSatisfiesComparesRanks(t *testing.T) {
	for _, a := range Satisfactions() {
		for _, least := range Satisfactions() {
			if got, want := a.Satisfies(least), a.Rank() >= least.Rank(); got != want {
				t.Errorf("%v satisfies %v: %v, want %v", a, least, got, want)
			}
		}
	}
}

func TestEvidenceAndItsLeastSatisfaction(t *testing.T) {
	want := []Satisfaction{SatisfactionAsserted, SatisfactionCited, SatisfactionObserved, SatisfactionAttested}
	for i, e := range EvidenceLevels() {
		if got := e.LeastSatisfaction(); got != want[i] {
			t.Errorf("%v is satisfied by %v, want %v", e, got, want[i])
		}
	}
}

func TestSets(t *testing.T) {
	s := DomainsOf(DomainVCS, DomainWeb, DomainVCS)
	if got, want := s.List(), []Domain{DomainWeb, DomainVCS}; !slices.Equal(got, want) {
		t.Errorf("list %v, want the order of the vocabulary, %v", got, want)
	}
	if got, want := s.String(), "web, vcs"; got != want {
		t.Errorf("string %q, want %q", got, want)
	}
	if !s.Has(DomainWeb) || s.Has(DomainMemory) {
		t.Errorf("%v has web %v, memory %v", s, s.Has(DomainWeb), s.Has(DomainMemory))
	}
	if got := s.With(0); got != s || got.Has(0) {
		t.Errorf("no domain became a member: %v", got)
	}
	if got := s.Intersect(DomainsOf(DomainWeb, DomainMemory)); got != DomainsOf(DomainWeb) {
		t.Errorf("intersection %v, want web", got)
	}
	if got := s.Union(DomainsOf(DomainMemory)); got != DomainsOf(DomainWeb, DomainVCS, DomainMemory) {
		t.Errorf("union %v, want web, memory, vcs", got)
	}
	if s.Empty() || !DomainsOf().Empty() {
		t.Error("empty is told wrongly")
	}
	if got := AllEgress().List(); !slices.Equal(got, EgressClasses()) {
		t.Errorf("every class of egress is %v", got)
	}
}

func TestSetsAsJSON(t *testing.T) {
	var s EgressSet
	if err := json.Unmarshal([]byte(`["raw_pixels","metadata"]`), &s); err != nil {
		t.Fatal(err)
	}
	if got, err := json.Marshal(s); err != nil || string(got) != `["metadata","raw_pixels"]` {
		t.Errorf("marshalled to %s, %v", got, err)
	}
	if got, err := json.Marshal(EgressSet(0)); err != nil || string(got) != `[]` {
		t.Errorf("the empty set marshalled to %s, %v", got, err)
	}
	if _, err := json.Marshal(EgressSet(1 << 9)); err == nil {
		t.Error("a set with what has no word was written")
	}
	for _, bad := range []string{`null`, `"metadata"`, `[1]`, `["meta"]`, `[""]`, `["metadata"`, `[["metadata"]]`, "[\"\xff\"]", `[] []`} {
		before := s
		if err := s.UnmarshalJSON([]byte(bad)); err == nil {
			t.Errorf("%s was read as %v", bad, s)
		}
		if s != before {
			t.Errorf("%s changed the set to %v", bad, s)
		}
	}
}

func TestRequiredDomains(t *testing.T) {
	all, none := AllDomains(), Required{}
	ten := OnlyDomains(DomainsOf(Domains()...))
	web := OnlyDomains(DomainsOf(DomainWeb))
	if !all.All() || ten.All() || none.All() || web.All() {
		t.Error("only all is all; the ten words of today are not")
	}
	if all.Set() != ten.Set() || web.Set() != DomainsOf(DomainWeb) || !none.Set().Empty() {
		t.Errorf("sets are %v, %v, %v", all.Set(), web.Set(), none.Set())
	}
	for _, r := range []Required{all, none, ten, web} {
		if got := r.Intersect(all); got != r {
			t.Errorf("all is no identity: %v became %v", r, got)
		}
		if got := r.Union(all); got != all {
			t.Errorf("all does not absorb %v: %v", r, got)
		}
		if !r.Admits(DomainsOf()) {
			t.Errorf("%v slices away a tool that declares nothing", r)
		}
	}
	declared := DomainsOf(DomainWeb, DomainVCS)
	if !all.Admits(declared) || !web.Admits(declared) || none.Admits(declared) || web.Admits(DomainsOf(DomainVCS)) {
		t.Error("a tool is in the slice where it serves a required domain, and only there")
	}
	for r, want := range map[Required]string{all: `"all"`, web: `["web"]`, none: `[]`} {
		got, err := json.Marshal(r)
		var back Required
		if err != nil || string(got) != want || json.Unmarshal(got, &back) != nil || back != r {
			t.Errorf("%v is written as %s, %v and read as %v", r, got, err, back)
		}
	}
	for _, bad := range []string{`null`, `"none"`, `["all"]`, `{}`, `tru`, `"all" 1`} {
		var r Required
		if err := json.Unmarshal([]byte(bad), &r); err == nil {
			t.Errorf("%s was read as %v", bad, r)
		}
	}
}
