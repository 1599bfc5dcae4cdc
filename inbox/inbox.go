// Package inbox keeps the questions that only a person can answer.
//
// A call that needs a person becomes a [Ticket]: its arguments frozen, its
// [Binding] digested, its [View] kept as it is shown. A person's answer is a
// signed [Decision] over those digests, or a signed [Grant] made ahead of the
// call. Whoever runs a call claims its ticket; the package verifies signature,
// level, binding and expiry at that moment, and of any number of claims one
// succeeds. A call is promised to run at most once.
//
// The package knows neither MCP nor upstreams, nor what a tool does. It
// compares bindings and does not judge. What lasts is in a [Store] that it is
// handed; so are the clock, randomness and the knowledge which process lives.
//
// A gate is handed an [*Inbox], which can ask, wait, claim and finish, and has
// no way to approve. What people's commands hold is a [*Desk]. Start with
// [New].
package inbox
