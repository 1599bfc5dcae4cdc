//go:build race

package policy_test

// every is how many combinations of facts there are for each one that is tried.
// The detector makes each cost twenty times as much and finds nothing in a pure
// function.
const every = 11
