// Package artifacts looks at what a tool's result really carries, keeps whole
// what is large or may not leave, and hands out bounded slices of it.
//
// It judges by the shape of the bytes: records in any encoding, embedded
// files, pictures, sound, text that hides something or speaks in the gate's
// name. What it finds is a set of egress classes; whether they may leave is for
// its caller to say. Where they may not, it says what may leave in their place:
// facts about tables, aggregates that single nobody out, a small picture.
//
// It does not know tools, policies, sessions or MCP connections, it shows
// nobody anything, and it never changes a result's bytes by itself.
//
// Start with [Inspect] for a result, [Open] for the place where results are
// kept, [Store.Keep] and [Store.Read] for one of them, and [Downgrade] for what
// may leave of one that may not.
package artifacts
