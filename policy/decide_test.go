package policy_test

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-gate/mcp-gate/catalog"
	"github.com/mcp-gate/mcp-gate/engagement"
	. "github.com/mcp-gate/mcp-gate/policy"
)

func ref(do Do) Ref {
	return Ref{Do: do, Index: 3, Source: Source{File: "config.jsonc", Line: 12, Column: 5}, Note: "a note"}
}

// base is a call that runs: a reading tool in the slice, a person at hand.
func base() Call {
	return Call{
		Tool: catalog.ToolID{Server: "github", Tool: "get_issue"}, Known: true, Pin: PinAccepted, InSlice: true,
		Class: engagement.Read, Egress: engagement.Metadata,
		Limits: engagement.Unrestricted(), PermissionFrom: OriginToken, OnEgress: EgressBlock,
		HIL: engagement.HILInterrupt, GateFallback: engagement.FallbackDeny,
		Autonomy: engagement.AutonomyDelegated, Attendance: engagement.AttendanceInteractive, Stakes: engagement.StakesInert,
		Reach: L1, Ready: Ready,
	}
}

// write is a source-file write that is asked about.
func write(c *Call) {
	c.Tool.Tool, c.Class = "put_file", engagement.SourceFileWrite
	c.Limits.ApprovalCeiling = engagement.ReversibleWrite
}

// destroy is a destructive call that is asked about.
func destroy(c *Call) {
	c.Tool.Tool, c.Class = "delete_repo", engagement.Destructive
	c.Limits.ApprovalCeiling = engagement.ReversibleWrite
}

func rule(do Do) Outcome      { return Outcome{Do: do, By: ref(do)} }
func allowOutright() Outcome  { return Outcome{Do: DoAllow, By: ref(DoAllow), NamesTool: true} }
func grant(level Level) Grant { return Grant{ID: "g_1", NamesTool: true, Level: level} }
func tainted(c *Call)         { c.Taint = Taint{Private: true, Untrusted: true, SendsOut: true} }
func review(c *Call)          { c.HIL, c.CanUndo = engagement.HILReview, true }
func unattended(c *Call)      { c.Attendance = engagement.AttendanceUnattended }
func reversible(c *Call)      { c.Class = engagement.ReversibleWrite }
func fallsToInbox(c *Call)    { c.GateFallback = engagement.FallbackDefer }

func edits(list ...func(*Call)) func(*Call) {
	return func(c *Call) {
		for _, edit := range list {
			edit(c)
		}
	}
}

func TestDecide(t *testing.T) {
	zero, one := int64(0), int64(1)
	tests := []struct {
		name    string
		edit    func(*Call)
		verdict Verdict
		code    Code
		rule    string
	}{
		{"the zero call is denied", func(c *Call) { *c = Call{} }, Deny, CodeUnknown, "step1.unknown"},
		{"a known reading tool runs", func(c *Call) {}, Run, 0, "step7.run"},
		{"an unknown tool is denied", func(c *Call) { c.Known = false }, Deny, CodeUnknown, "step1.unknown"},
		{"a hidden tool is as good as unknown", func(c *Call) { c.Outcome = rule(DoHide) }, Deny, CodeUnknown, "step1.unknown"},
		{"a changed definition is held", func(c *Call) { c.Pin = PinChanged }, Deny, CodeHeld, "step1.held"},
		{"a hidden and held tool is unknown", func(c *Call) { c.Pin, c.Outcome = PinChanged, rule(DoHide) }, Deny, CodeUnknown, "step1.unknown"},
		{"outside an advisory slice it runs", func(c *Call) { c.InSlice = false }, Run, 0, "step7.run"},
		{"outside an enforced slice it does not", func(c *Call) { c.InSlice, c.Enforce = false, true }, Deny, CodeOutsideSlice, "step2.slice"},
		{"the token's ceiling is a scope", edits(reversible, func(c *Call) { c.Limits.Permission = engagement.Read }), Deny, CodeScope, "step3.permission"},
		{"the owner's ceiling is read-only", edits(reversible, func(c *Call) { c.Limits.Permission, c.PermissionFrom = engagement.Read, OriginOwner }), Deny, CodeReadOnly, "step3.permission"},
		{"no class counts as destructive", func(c *Call) { c.Class, c.Limits.Permission = 0, engagement.SourceFileWrite }, Deny, CodeScope, "step3.permission"},
		{"a number that is no class counts as destructive", func(c *Call) { c.Class, c.Limits.Permission = 99, engagement.SourceFileWrite }, Deny, CodeScope, "step3.permission"},
		{"no allow rule widens the ceiling", edits(reversible, func(c *Call) { c.Limits.Permission, c.Outcome = engagement.Read, allowOutright() }), Deny, CodeScope, "step3.permission"},
		{"data that may not leave blocks the call", func(c *Call) { c.Egress, c.Limits.Egress = engagement.RowLevel, DefaultEgress() }, Deny, CodeEgress, "step4.egress"},
		{"no egress class counts as records", func(c *Call) { c.Egress, c.Limits.Egress = 0, DefaultEgress() }, Deny, CodeEgress, "step4.egress"},
		{"a number that is no egress class counts as records", func(c *Call) { c.Egress, c.Limits.Egress = 99, DefaultEgress() }, Deny, CodeEgress, "step4.egress"},
		{"downgrading lets it go on", func(c *Call) {
			c.Egress, c.Limits.Egress, c.OnEgress = engagement.RowLevel, DefaultEgress(), EgressDowngrade
		}, Run, 0, "step7.run"},
		{"a deny rule denies", func(c *Call) { c.Outcome = rule(DoDeny) }, Deny, CodeRule, "step5.deny"},
		{"an ask rule asks about reading", func(c *Call) { c.Outcome = rule(DoAsk) }, Ask, 0, "step6.ask-rule"},
		{"a defer rule parks reading", func(c *Call) { c.Outcome = rule(DoDefer) }, Defer, CodeDeferred, "step6.defer-rule"},
		{"a defer rule parks whatever else would run it", edits(reversible, review, tainted, func(c *Call) { c.Outcome, c.Grant = rule(DoDefer), grant(L1) }), Defer, CodeDeferred, "step6.defer-rule"},
		{"a reversible write under the ceiling runs", reversible, Run, 0, "step7.run"},
		{"one above it is asked about", edits(reversible, func(c *Call) { c.Limits.ApprovalCeiling = engagement.Read }), Ask, 0, "step6.ceiling"},
		{"a source-file write is asked about", write, Ask, 0, "step6.class"},
		{"also where the ceiling would hold it", edits(write, func(c *Call) { c.Limits.ApprovalCeiling = engagement.Destructive }), Ask, 0, "step6.class"},
		{"a flag does not skip the question", edits(write, func(c *Call) { c.AllowSourceWrites = true }), Ask, 0, "step6.class"},
		{"an allow rule is the owner's yes", edits(write, func(c *Call) { c.Outcome = rule(DoAllow) }), Run, 0, "step6.allow-rule"},
		{"an allow rule is no ground where none is needed", func(c *Call) { c.Outcome = rule(DoAllow) }, Run, 0, "step7.run"},
		{"but not under manual autonomy", edits(write, func(c *Call) { c.Outcome, c.Autonomy = allowOutright(), engagement.AutonomyManual }), Ask, 0, "step6.class"},
		{"nor for a destructive tool that it does not name", edits(destroy, func(c *Call) { c.Outcome = rule(DoAllow) }), Ask, 0, "step6.class"},
		{"for one that it names it is", edits(destroy, func(c *Call) { c.Outcome = allowOutright() }), Run, 0, "step6.allow-rule"},
		{"taint asks about what sends out", tainted, Ask, 0, "step6.taint"},
		{"private data alone is no taint", edits(tainted, func(c *Call) { c.Taint.Untrusted = false }), Run, 0, "step7.run"},
		{"foreign content alone is none", edits(tainted, func(c *Call) { c.Taint.Private = false }), Run, 0, "step7.run"},
		{"what does not send out is not asked about", edits(tainted, func(c *Call) { c.Taint.SendsOut = false }), Run, 0, "step7.run"},
		{"taint can be switched off", edits(tainted, func(c *Call) { c.Taint.Mode = TaintOff }), Run, 0, "step7.run"},
		{"or deny", edits(tainted, func(c *Call) { c.Taint.Mode = TaintDeny }), Deny, CodeTaint, "step6.taint"},
		{"denied taint does not even park", edits(tainted, func(c *Call) { c.Taint.Mode, c.Outcome = TaintDeny, rule(DoDefer) }), Deny, CodeTaint, "step6.taint"},
		{"an allow rule naming the tool lifts taint", edits(tainted, func(c *Call) { c.Outcome = allowOutright() }), Run, 0, "step7.run"},
		{"one by a pattern does not", edits(tainted, func(c *Call) { c.Outcome = rule(DoAllow) }), Ask, 0, "step6.taint"},
		{"under manual autonomy none does", edits(tainted, func(c *Call) { c.Outcome, c.Autonomy = allowOutright(), engagement.AutonomyManual }), Ask, 0, "step6.taint"},
		{"nobody is asked about a server that is down", edits(write, func(c *Call) { c.Ready = ServerDown }), Deny, CodeServerDown, "step6.ready"},
		{"nor where readiness is not known", edits(write, func(c *Call) { c.Ready = 0 }), Deny, CodeServerDown, "step6.ready"},
		{"nor about an unverified definition", edits(write, func(c *Call) { c.Ready = Unverified }), Deny, CodeUnverified, "step6.ready"},
		{"nor about arguments that do not fit", edits(write, func(c *Call) { c.Ready = BadArguments }), Deny, CodeArguments, "step6.ready"},
		{"what needs nobody does not wait for that", func(c *Call) { c.Ready = ServerDown }, Run, 0, "step7.run"},
		{"a grant runs it", edits(write, func(c *Call) { c.Grant = grant(L0) }), Run, 0, "step6.grant"},
		{"not against an ask rule", edits(write, func(c *Call) { c.Grant, c.Outcome = grant(L1), rule(DoAsk) }), Ask, 0, "step6.ask-rule"},
		{"not against taint", edits(write, tainted, func(c *Call) { c.Grant = grant(L1) }), Ask, 0, "step6.taint"},
		{"not under manual autonomy", edits(write, func(c *Call) { c.Grant, c.Autonomy = grant(L1), engagement.AutonomyManual }), Ask, 0, "step6.class"},
		{"not where stakes are irreversible", edits(write, func(c *Call) { c.Grant, c.Stakes = grant(L1), engagement.StakesIrreversible }), Ask, 0, "step6.class"},
		{"not where stakes are unknown", edits(write, func(c *Call) { c.Grant, c.Stakes = grant(L1), 0 }), Ask, 0, "step6.class"},
		{"a grant of too little proof does not run a destructive call", edits(destroy, func(c *Call) { c.Grant = grant(L0) }), Ask, 0, "step6.class"},
		{"nor does one by a pattern", edits(destroy, func(c *Call) { c.Grant = grant(L1); c.Grant.NamesTool = false }), Ask, 0, "step6.class"},
		{"one with the proof that names it does", edits(destroy, func(c *Call) { c.Grant = grant(L1) }), Run, 0, "step6.grant"},
		{"review acts where the call can be undone", edits(reversible, review, func(c *Call) { c.Limits.ApprovalCeiling = engagement.Read }), Review, 0, "step6.review"},
		{"not where it cannot", edits(reversible, review, func(c *Call) { c.Limits.ApprovalCeiling, c.CanUndo = engagement.Read, false }), Ask, 0, "step6.ceiling"},
		{"review of a source-file write needs the owner's flag", edits(write, review), Ask, 0, "step6.class"},
		{"with the flag it acts", edits(write, review, func(c *Call) { c.AllowSourceWrites = true }), Review, 0, "step6.review"},
		{"review is not for destructive calls", edits(destroy, review, func(c *Call) { c.AllowDestructive = true }), Ask, 0, "step6.class"},
		{"nor for costly stakes", edits(write, review, func(c *Call) { c.AllowSourceWrites, c.Stakes = true, engagement.StakesCostly }), Ask, 0, "step6.class"},
		{"nor against an ask rule", edits(write, review, func(c *Call) { c.AllowSourceWrites, c.Outcome = true, rule(DoAsk) }), Ask, 0, "step6.ask-rule"},
		{"nor under manual autonomy", edits(write, review, func(c *Call) { c.AllowSourceWrites, c.Autonomy = true, engagement.AutonomyManual }), Ask, 0, "step6.class"},
		{"hil defer parks", edits(write, func(c *Call) { c.HIL = engagement.HILDefer }), Defer, CodeDeferred, "step6.hil-defer"},
		{"unattended takes the fallback: deny", edits(write, unattended), Deny, CodeUnattended, "step6.fallback"},
		{"unattended takes the fallback: defer", edits(write, unattended, fallsToInbox), Defer, CodeDeferred, "step6.fallback"},
		{"unknown attendance is unattended", edits(write, func(c *Call) { c.Attendance = 0 }), Deny, CodeUnattended, "step6.fallback"},
		{"no fallback denies", edits(write, unattended, func(c *Call) { c.GateFallback = 0 }), Deny, CodeUnattended, "step6.fallback"},
		{"the owner's fallback replaces the posture's", edits(write, unattended, fallsToInbox, func(c *Call) { c.OwnerFallback = engagement.FallbackDeny }), Deny, CodeUnattended, "step6.fallback"},
		{"in either direction", edits(write, unattended, func(c *Call) { c.OwnerFallback = engagement.FallbackDefer }), Defer, CodeDeferred, "step6.fallback"},
		{"no channel takes the fallback", edits(write, func(c *Call) { c.Reach = 0 }), Deny, CodeNoPerson, "step6.fallback"},
		{"a channel that proves too little does too", edits(destroy, func(c *Call) { c.Reach = L0 }), Deny, CodeNoPerson, "step6.fallback"},
		{"the owner may ask for less", edits(destroy, func(c *Call) { c.Reach, c.Least = L0, L0 }), Ask, 0, "step6.class"},
		{"or for more", edits(write, func(c *Call) { c.Least = L2 }), Deny, CodeNoPerson, "step6.fallback"},
		{"no calls left is no call", func(c *Call) { c.Left.Calls = &zero }, Deny, CodeSpend, "step8.spend"},
		{"the last call runs", func(c *Call) { c.Left.Calls = &one }, Run, 0, "step7.run"},
		{"no bytes left is no call", func(c *Call) { c.Left.ResultBytes = &zero }, Deny, CodeSpend, "step8.spend"},
		{"the last byte may be overshot", func(c *Call) { c.Left.ResultBytes = &one }, Run, 0, "step7.run"},
		{"nobody is asked about what could not be paid", edits(write, func(c *Call) { c.Left.Calls = &zero }), Deny, CodeSpend, "step8.spend"},
		{"nor is it parked", edits(write, func(c *Call) { c.Left.Calls, c.Outcome = &zero, rule(DoDefer) }), Deny, CodeSpend, "step8.spend"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := base()
			tt.edit(&c)
			d := Decide(c)
			if d.Verdict != tt.verdict || d.Code != tt.code || d.Rule != tt.rule {
				t.Errorf("got %v %v by %s, want %v %v by %s", d.Verdict, d.Code, d.Rule, tt.verdict, tt.code, tt.rule)
			}
		})
	}
}

func TestWhatADecisionSaysBesideItsVerdict(t *testing.T) {
	tests := []struct {
		name string
		edit func(*Call)
		want Decision // without About
	}{
		{"going on outside the slice is marked", func(c *Call) { c.InSlice = false },
			Decision{Verdict: Run, Rule: "step7.run", OutsideSlice: true}},
		{"a downgraded write is cut", edits(reversible, func(c *Call) {
			c.Egress, c.Limits.Egress, c.OnEgress = engagement.RawPixels, DefaultEgress(), EgressDowngrade
		}), Decision{Verdict: Run, Rule: "step7.run", Cut: true}},
		{"what is denied after it is not", func(c *Call) {
			c.Egress, c.Limits.Egress, c.OnEgress, c.Outcome = engagement.RawPixels, DefaultEgress(), EgressDowngrade, rule(DoDeny)
		}, Decision{Verdict: Deny, Code: CodeRule, Rule: "step5.deny", By: ref(DoDeny)}},
		{"an ask says its proof and what silence means", edits(destroy, fallsToInbox),
			Decision{Verdict: Ask, Rule: "step6.class", Level: L1, Fallback: engagement.FallbackDefer, Elevate: true}},
		{"a parked one needs the same proof", edits(destroy, func(c *Call) { c.Outcome = rule(DoDefer) }),
			Decision{Verdict: Defer, Code: CodeDeferred, Rule: "step6.defer-rule", By: ref(DoDefer), Level: L1, Elevate: true}},
		{"a write under review is copied where it can be", edits(reversible, review),
			Decision{Verdict: Run, Rule: "step7.run", Checkpoint: true, Journal: true}},
		{"where it cannot, there is no way back", edits(reversible, review, func(c *Call) { c.CanUndo = false }),
			Decision{Verdict: Run, Rule: "step7.run", NoWayBack: true}},
		{"a reading under review is not copied", review, Decision{Verdict: Run, Rule: "step7.run"}},
		{"review copies and journals", edits(write, review, func(c *Call) { c.AllowSourceWrites = true }),
			Decision{Verdict: Review, Rule: "step6.review", Checkpoint: true, Journal: true}},
		{"the first write is copied in every mode", edits(reversible, func(c *Call) { c.CheckpointBefore, c.FirstWrite, c.CanUndo = true, true, true }),
			Decision{Verdict: Run, Rule: "step7.run", Checkpoint: true, Journal: true}},
		{"the second is not", edits(reversible, func(c *Call) { c.CheckpointBefore, c.CanUndo = true, true }),
			Decision{Verdict: Run, Rule: "step7.run"}},
		{"an approved destructive call that the flag allows is not elevated", edits(destroy, func(c *Call) { c.AllowDestructive = true }),
			Decision{Verdict: Ask, Rule: "step6.class", Level: L1, Fallback: engagement.FallbackDeny}},
		{"the owner's rule is elevated too", edits(write, func(c *Call) { c.Outcome = rule(DoAllow) }),
			Decision{Verdict: Run, Rule: "step6.allow-rule", By: ref(DoAllow), Elevate: true}},
		{"a grant is named", edits(write, func(c *Call) { c.Grant = grant(L1) }),
			Decision{Verdict: Run, Rule: "step6.grant", Grant: "g_1", Elevate: true}},
		{"a grant is not spent on what cannot be paid", edits(write, func(c *Call) { c.Grant, c.Left.Calls = grant(L1), new(int64) }),
			Decision{Verdict: Deny, Code: CodeSpend, Rule: "step8.spend"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := base()
			tt.edit(&c)
			got := Decide(c)
			got.About = About{}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestAHiddenToolCannotBeToldFromOneThatDoesNotExist(t *testing.T) {
	hidden, unknown := base(), base()
	hidden.Outcome, unknown.Known = rule(DoHide), false
	hidden.Nearest = []string{"github/list_issues", hidden.Tool.String()}
	unknown.Nearest = []string{"github/list_issues"}
	h, u := Decide(hidden), Decide(unknown)
	if h.ForModel() != u.ForModel() || h.Rule != u.Rule || h.Code != u.Code || h.Retryable() != u.Retryable() {
		t.Errorf("a model sees the difference:\nhidden  %s %s\nunknown %s %s", h.Rule, h.ForModel(), u.Rule, u.ForModel())
	}
	if want := "there is no tool github/get_issue. Nearest: github/list_issues. Search for what you want to do instead."; h.ForModel() != want {
		t.Errorf("got  %s\nwant %s", h.ForModel(), want)
	}
	if !h.By.Set() || u.By.Set() || !strings.Contains(h.Reason(), "config.jsonc:12:5") {
		t.Errorf("the person does not see the hiding rule: %s", h.Reason())
	}
}

func TestReasonsNameTheRuleOrTheGround(t *testing.T) {
	for _, tt := range []struct {
		edit func(*Call)
		want string
	}{
		{func(*Call) {}, "github/get_issue is of class read, which needs no person here."},
		{func(c *Call) { c.Outcome = rule(DoDeny) }, "rules[3] (config.jsonc:12:5) refuses this call of github/get_issue."},
		{func(c *Call) { c.Outcome = rule(DoDefer) }, "rules[3] (config.jsonc:12:5) parks this call of github/get_issue for you."},
		{func(c *Call) { c.Outcome = rule(DoAsk) }, "rules[3] (config.jsonc:12:5) asks you about this call of github/get_issue."},
		{edits(write, func(c *Call) { c.HIL = engagement.HILDefer }), "this call of github/put_file waits for your decision."},
		{func(c *Call) { c.Pin = PinMoved }, "github/get_issue is held back because its server is started or reached in another way than when it was accepted."},
		{func(c *Call) { c.Pin = PinSuspect }, "github/get_issue is held back because its definition looks unsafe."},
	} {
		c := base()
		tt.edit(&c)
		if got := Decide(c).Reason(); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

// An axis is one fact of a call and every value of it that is tried.
type axis []func(*Call)

func values[T any](set func(*Call, T), all ...T) axis {
	var a axis
	for _, v := range all {
		a = append(a, func(c *Call) { set(c, v) })
	}
	return a
}

// coreAxes are the facts whose every combination is tried.
func coreAxes() []axis {
	return []axis{
		values(func(c *Call, v engagement.Permission) { c.Class = v }, engagement.Permissions()...),
		values(func(c *Call, v engagement.Egress) { c.Egress = v }, engagement.EgressClasses()...),
		values(func(c *Call, v Scope) { c.Limits = c.Limits.Meet(v.Limits()) }, Scopes()...),
		values(func(c *Call, v engagement.HIL) { c.HIL = v }, engagement.HILs()...),
		values(func(c *Call, v engagement.GateFallback) { c.GateFallback = v }, engagement.GateFallbacks()...),
		values(func(c *Call, v engagement.Permission) { c.Limits.ApprovalCeiling = v }, engagement.Permissions()...),
		values(func(c *Call, v Grant) { c.Grant = v }, Grant{}, Grant{"g_1", false, L1}, grant(L1)),
		values(func(c *Call, v bool) { c.CanUndo = v }, false, true),
		values(func(c *Call, v Outcome) { c.Outcome = v }, Outcome{}, rule(DoHide), rule(DoDeny), rule(DoAsk), rule(DoDefer), rule(DoAllow), allowOutright()),
		{func(c *Call) { c.InSlice = true }, func(c *Call) { c.InSlice = false }, func(c *Call) { c.InSlice, c.Enforce = false, true }},
		values(func(c *Call, v Pin) { c.Pin = v }, Pins()...),
	}
}

// otherAxes are the rest, tried with the core ones at random, values that are none
// among them.
func otherAxes() []axis {
	zero, one := int64(0), int64(1)
	return []axis{
		values(func(c *Call, v engagement.Permission) { c.Class = v }, append(engagement.Permissions(), 0)...),
		values(func(c *Call, v engagement.Egress) { c.Egress = v }, append(engagement.EgressClasses(), 0)...),
		values(func(c *Call, v engagement.EgressSet) { c.Limits.Egress = v }, 0, PresetStrict.Egress(), PresetWorkbench.Egress(), engagement.AllEgress()),
		values(func(c *Call, v engagement.HIL) { c.HIL = v }, append(engagement.HILs(), 0)...),
		values(func(c *Call, v Grant) { c.Grant = v }, Grant{}, grant(0), grant(L0), Grant{"g_1", false, L1}, grant(L1)),
		values(func(c *Call, v OnEgress) { c.OnEgress = v }, 0, EgressBlock, EgressDowngrade),
		values(func(c *Call, v Origin) { c.PermissionFrom = v }, 0, OriginOwner, OriginToken, OriginParent),
		values(func(c *Call, v bool) { c.AllowSourceWrites = v }, false, true),
		values(func(c *Call, v bool) { c.AllowDestructive = v }, false, true),
		values(func(c *Call, v Taint) { c.Taint = v }, Taint{}, Taint{true, true, true, 0}, Taint{true, true, true, TaintDeny}, Taint{true, true, true, TaintOff}),
		values(func(c *Call, v engagement.GateFallback) { c.OwnerFallback = v }, 0, engagement.FallbackDeny, engagement.FallbackDefer),
		values(func(c *Call, v bool) { c.CheckpointBefore = v }, false, true),
		values(func(c *Call, v bool) { c.FirstWrite = v }, false, true),
		values(func(c *Call, v engagement.Autonomy) { c.Autonomy = v }, append(engagement.Autonomies(), 0, 99)...),
		values(func(c *Call, v engagement.Attendance) { c.Attendance = v }, append(engagement.Attendances(), 0, 99)...),
		values(func(c *Call, v engagement.Stakes) { c.Stakes = v }, append(engagement.AllStakes(), 0, 99)...),
		values(func(c *Call, v Level) { c.Least = v }, append(Levels(), 0)...),
		values(func(c *Call, v Level) { c.Reach = v }, append(Levels(), 0)...),
		values(func(c *Call, v Readiness) { c.Ready = v }, append(Readinesses(), Ready, Ready, Ready, 0)...),
		values(func(c *Call, v *int64) { c.Left.Calls = v }, nil, nil, nil, &zero, &one),
		values(func(c *Call, v bool) { c.Known = v }, true, true, true, false),
	}
}

// everyCombination calls f with the call edited by every combination.
func everyCombination(c Call, axes []axis, f func(Call)) {
	if len(axes) == 0 {
		f(c)
		return
	}
	for _, edit := range axes[0] {
		next := c
		edit(&next)
		everyCombination(next, axes[1:], f)
	}
}

func TestEveryCombinationKeepsTheInvariants(t *testing.T) {
	n := 0
	everyCombination(base(), coreAxes(), func(c Call) {
		if n++; n%every == 0 {
			holds(t, c)
		}
	})
	if want := 4 * 5 * 4 * 4 * 2 * 4 * 3 * 2 * 7 * 3 * 6; n != want {
		t.Errorf("there are %d combinations, want %d", n, want)
	}
}

func TestRandomCallsKeepTheInvariants(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 0)) // fixed, so a failure is a failure for everyone
	axes := append(coreAxes(), otherAxes()...)
	seen := map[string]int{}
	for range 600_000 / every {
		c := base()
		for _, a := range axes {
			a[r.IntN(len(a))](&c)
		}
		if r.IntN(8) > 0 { // most calls get past the first two steps
			c.Known, c.Pin, c.InSlice = true, PinAccepted, true
		}
		if r.IntN(3) > 0 {
			c.Limits.Permission, c.Limits.Egress = engagement.Destructive, engagement.AllEgress()
		}
		seen[holds(t, c).Rule]++
	}
	for _, rule := range []string{
		"step1.unknown", "step1.held", "step2.slice", "step3.permission", "step4.egress", "step5.deny", "step6.defer-rule",
		"step6.ask-rule", "step6.taint", "step6.class", "step6.ceiling", "step6.ready", "step6.grant", "step6.review",
		"step6.hil-defer", "step6.fallback", "step6.allow-rule", "step7.run", "step8.spend",
	} {
		if seen[rule] == 0 {
			t.Errorf("no call was settled by %s, so nothing was tested about it", rule)
		}
	}
}

// holds checks one decision against what must be true of every one, and against
// the plain statement of the steps.
func holds(t *testing.T, c Call) Decision {
	d := Decide(c)
	class, egress := c.Class, c.Egress
	if class == 0 {
		class = engagement.Destructive
	}
	if egress == 0 {
		egress = engagement.RowLevel
	}
	goesOn := d.Verdict != Deny
	unasked := d.Verdict == Run || d.Verdict == Review
	named := c.Outcome.Do == DoAllow && c.Outcome.NamesTool
	granted := d.Grant != "" && d.Grant == c.Grant.ID
	manual := c.Autonomy != engagement.AutonomyDelegated && c.Autonomy != engagement.AutonomyAutonomous
	for _, claim := range [...]struct {
		text   string
		broken bool
	}{
		{"a verdict is one of five", !slices.Contains(Verdicts(), d.Verdict)},
		{"nothing goes above the permission ceiling", goesOn && class > c.Limits.Permission},
		{"no destructive call without a yes", unasked && class == engagement.Destructive && !granted && !named},
		{"a destructive grant names its tool", granted && class == engagement.Destructive && !c.Grant.NamesTool},
		{"no source-file write without a yes or review", unasked && class == engagement.SourceFileWrite && !granted && c.Outcome.Do != DoAllow && !(d.Verdict == Review && d.Checkpoint && d.Journal && c.CanUndo && c.AllowSourceWrites)},
		{"nothing that may not leave leaves whole", goesOn && !d.Cut && !c.Limits.Egress.Has(egress)},
		{"only downgrading lets a call go on cut", d.Cut && c.OnEgress != EgressDowngrade},
		{"every decision names its rule", d.Rule == "" || !strings.HasPrefix(d.Rule, "step")},
		{"every refusal has a code", d.Verdict == Deny && d.Code == 0},
		{"every refusal by a rule names the owner's", d.Code == CodeRule && !d.By.Set()},
		{"only deny and defer have a code", (d.Code != 0) != (d.Verdict == Deny || d.Verdict == Defer)},
		{"held, unknown and enforced never go on", goesOn && (!c.Known || c.Pin != PinAccepted || !c.InSlice && c.Enforce)},
		{"hide and deny never go on", goesOn && (c.Outcome.Do == DoHide || c.Outcome.Do == DoDeny)},
		{"ask and defer rules never go unasked", unasked && (c.Outcome.Do == DoAsk || c.Outcome.Do == DoDefer)},
		{"manual autonomy runs no write above reading", unasked && manual && (class.NeedsApproval() || class > c.Limits.ApprovalCeiling)},
		{"nothing is asked that could not be", d.Verdict == Ask && (c.Reach < d.Level || c.Reach == 0 || c.Ready != Ready)},
		{"a question says its proof", (d.Verdict == Ask || d.Verdict == Defer) != (d.Level != 0)},
		{"nothing goes on unpaid", goesOn && c.Left.Calls != nil && *c.Left.Calls == 0},
		{"a copy is only taken where one can be", d.Checkpoint && (!c.CanUndo || class == engagement.Read)},
		{"what is denied has no side effects", d.Verdict == Deny && (d.Cut || d.Checkpoint || d.Journal || d.Elevate || d.Grant != "")},
		{"a tainted session sends nothing out by itself", unasked && c.Taint == (Taint{true, true, true, 0}) && !named},
	} {
		if claim.broken {
			t.Fatalf("%s: broken by\n%+v\nwhich got %+v", claim.text, c, d)
		}
	}
	if verdict, code := plainly(c, class, egress); d.Verdict != verdict || d.Code != code {
		t.Fatalf("got %v %v, and read plainly the steps give %v %v, for\n%+v", d.Verdict, d.Code, verdict, code, c)
	}
	return d
}

// plainly states the steps once more, as one list of conditions of which the first
// that holds decides. It shares no code with Decide.
func plainly(c Call, class engagement.Permission, egress engagement.Egress) (Verdict, Code) {
	rank := func(p engagement.Permission) int { return p.Rank() }
	in := func(v uint8, set ...uint8) bool { return slices.Contains(set, v) }
	manual := !in(uint8(c.Autonomy), 2, 3)
	destructive, sourceFile := class == engagement.Destructive, class == engagement.SourceFileWrite
	named := c.Outcome.Do == DoAllow && c.Outcome.NamesTool
	taint := c.Taint.Private && c.Taint.Untrusted && c.Taint.SendsOut && c.Taint.Mode != TaintOff && !(named && !manual)
	least := c.Least
	if least == 0 {
		if least = L0; destructive {
			least = L1
		}
	}
	owner := c.Outcome.Do == DoAllow && !manual && (!destructive || named)
	asked := c.Outcome.Do == DoAsk || taint
	person := asked || c.Outcome.Do == DoDefer || !owner && (sourceFile || destructive || rank(class) > rank(c.Limits.ApprovalCeiling))
	covered := c.Grant.ID != "" && c.Grant.Level >= least && (!destructive || c.Grant.NamesTool)
	fallback := c.GateFallback
	if c.OwnerFallback != 0 {
		fallback = c.OwnerFallback
	}
	parks := fallback == engagement.FallbackDefer
	broke := c.Left.Calls != nil && *c.Left.Calls <= 0
	unready := CodeServerDown
	if c.Ready == Unverified {
		unready = CodeUnverified
	} else if c.Ready == BadArguments {
		unready = CodeArguments
	}
	scopeCode := CodeScope
	if c.PermissionFrom == OriginOwner {
		scopeCode = CodeReadOnly
	}
	attended := in(uint8(c.Attendance), 1, 2)
	for _, step := range [...]struct {
		when    bool
		verdict Verdict
		code    Code
	}{
		{!c.Known || c.Outcome.Do == DoHide, Deny, CodeUnknown},
		{c.Pin != PinAccepted, Deny, CodeHeld},
		{!c.InSlice && c.Enforce, Deny, CodeOutsideSlice},
		{rank(class) > rank(c.Limits.Permission), Deny, scopeCode},
		{!c.Limits.Egress.Has(egress) && c.OnEgress != EgressDowngrade, Deny, CodeEgress},
		{c.Outcome.Do == DoDeny, Deny, CodeRule},
		{taint && c.Taint.Mode == TaintDeny, Deny, CodeTaint},
		{!person && broke, Deny, CodeSpend},
		{!person, Run, 0},
		{c.Ready != Ready, Deny, unready},
		{c.Outcome.Do == DoDefer && !broke, Defer, CodeDeferred},
		{c.Outcome.Do == DoDefer, Deny, CodeSpend},
		{covered && !asked && !manual && in(uint8(c.Stakes), 1, 2, 3) && !broke, Run, 0},
		{covered && !asked && !manual && in(uint8(c.Stakes), 1, 2, 3), Deny, CodeSpend},
		{c.HIL == engagement.HILReview && !asked && class == engagement.ReversibleWrite && !manual && in(uint8(c.Stakes), 1, 2) && c.CanUndo && !broke, Review, 0},
		{c.HIL == engagement.HILReview && !asked && sourceFile && c.AllowSourceWrites && !manual && in(uint8(c.Stakes), 1, 2) && c.CanUndo && !broke, Review, 0},
		{c.HIL == engagement.HILDefer && !broke, Defer, CodeDeferred},
		{(c.HIL == engagement.HILDefer || attended && c.Reach >= least || parks) && broke, Deny, CodeSpend},
		{!attended && parks, Defer, CodeDeferred},
		// A review that cannot be paid for is refused for that, not for the fallback.
		{broke && c.HIL == engagement.HILReview && !asked && !manual && in(uint8(c.Stakes), 1, 2) && c.CanUndo && (class == engagement.ReversibleWrite || sourceFile && c.AllowSourceWrites), Deny, CodeSpend},
		{!attended, Deny, CodeUnattended},
		{c.Reach < least && parks, Defer, CodeDeferred},
		{c.Reach < least, Deny, CodeNoPerson},
	} {
		if step.when {
			return step.verdict, step.code
		}
	}
	return Ask, 0
}
