// Package engagement is the vocabulary of authority. It settles, before any tool
// is touched, what a reading of the work and the authority in force mean: what is
// loaded, what must be asked, and how a result is delivered.
//
// An [Engagement] has two halves. [Limits] is all that grants or withholds power;
// limits combine by Meet, which can only narrow, so a review of safety may stop at
// limits.go. [Posture] is style and routing; an error in it costs quality and not
// safety.
//
// The package knows no tool, server, clock, file or protocol. Everything in it is
// a plain value and a pure function, safe for concurrent use, and small enough to
// be checked by enumeration. It does not decide about a call (package policy) and
// does not read a request's text (package reader).
//
// To start, describe the work as a [Reading] and call [Derive]; combine what
// several origins allow with [Limits.Meet] or [Engagement.Meet].
package engagement
