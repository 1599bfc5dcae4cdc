package engagement_test

import (
	"fmt"

	"github.com/mcp-gate/mcp-gate/engagement"
)

// A desktop application knows what its user pressed. It describes the work as a
// reading and is told how to run it.
func ExampleDerive() {
	work := engagement.NeutralReading()
	work.Act = engagement.ActModify
	work.Stakes = engagement.StakesReversible
	work.Domains = engagement.DomainsOf(engagement.DomainMessaging)

	e := engagement.Derive(work, engagement.DefaultAuthority(), true)

	fmt.Println("load:", e.Limits.RequiredDomains.Set())
	fmt.Println("unasked up to:", e.Limits.ApprovalCeiling)
	fmt.Println("keep the person in the loop by:", e.Posture.HIL)
	fmt.Println("copy first:", e.Posture.CheckpointBeforeEffect)
	fmt.Println("show a:", e.Posture.Delivery.Shape)
	// Output:
	// load: filesystem, code-exec, memory, messaging, documents, vcs
	// unasked up to: reversible_write
	// keep the person in the loop by: review
	// copy first: true
	// show a: diff
}

// What the owner allows and what a plug-in was lent are both limits. Their meet
// exceeds neither, whatever either says.
func ExampleLimits_Meet() {
	owner := engagement.Unrestricted()
	owner.Egress = engagement.EgressOf(engagement.Metadata, engagement.Aggregates)

	calls := int64(20)
	lent := engagement.Unrestricted()
	lent.Permission = engagement.ReversibleWrite
	lent.Spend.Calls = &calls

	both := owner.Meet(lent)

	fmt.Println("may run:", both.Permission)
	fmt.Println("may leave:", both.Egress)
	fmt.Println("calls:", *both.Spend.Calls)
	fmt.Println("within the owner's:", both.IsAtMost(owner))
	// Output:
	// may run: reversible_write
	// may leave: metadata, aggregates
	// calls: 20
	// within the owner's: true
}

// A request with two parts keeps the tools of both and the caution of the stricter.
func ExampleCompose() {
	browse, test := engagement.NeutralReading(), engagement.NeutralReading()
	browse.Act = engagement.ActAnswer
	test.Act, test.Stakes = engagement.ActVerify, engagement.StakesIrreversible
	authority := engagement.DefaultAuthority()

	e := engagement.Compose(
		engagement.Derive(browse, authority, true),
		engagement.Derive(test, authority, true),
	)

	fmt.Println(e.Limits.RequiredDomains.Set())
	fmt.Println(e.Limits.ApprovalCeiling)
	fmt.Println(e.Posture.Note)
	// Output:
	// live-data, web, filesystem, code-exec, memory, observability
	// read
	// A step here cannot be undone: have it confirmed before you take it.
}
