//go:build !race

package policy_test

// every is how many combinations of facts there are for each one that is tried.
const every = 1
