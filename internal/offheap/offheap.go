// Package offheap has memory for large texts that are needed for a moment. It is
// given back to the system at once, and none of it becomes garbage. Whoever takes
// some must keep no part of it once it is given back.
package offheap
