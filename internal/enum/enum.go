// Package enum gives a small closed set of words the same behaviour everywhere:
// a list of its values, a word for each, and an error that lists the valid
// words when it meets another. It holds the bodies; the type that uses it
// declares its own constants, String, MarshalText and UnmarshalText in terms of
// them. It knows no order and no default: the zero value of a type is no value.
//
// To start:
//
//	type Colour uint8
//
//	const (
//		Red Colour = iota + 1
//		Green
//	)
//
//	var colours = enum.Of[Colour]("colour", "red", "green")
//
//	func (c Colour) String() string { return colours.Word(c) }
package enum

import (
	"fmt"
	"slices"
	"strings"
)

// Words are the words of the type T. The value i+1 is word i, so that the zero
// T has none. Words are immutable and safe for concurrent use.
type Words[T ~uint8] struct {
	noun  string
	words []string
}

// Of returns the words of T in the order of its constants, at most 255 of them.
// The noun names the kind of word in errors, as in `unknown colour "teal"`.
func Of[T ~uint8](noun string, words ...string) Words[T] {
	return Words[T]{noun, slices.Clone(words)}
}

// All returns every value of T in the order of its constants, in a slice that
// the caller owns.
func (w Words[T]) All() []T {
	all := make([]T, len(w.words))
	for i := range all {
		all[i] = T(i + 1)
	}
	return all
}

// Word returns the word of v, or, for people who debug, the noun and the number
// of a value that has none, such as colour(0).
func (w Words[T]) Word(v T) string {
	if word, ok := w.word(v); ok {
		return word
	}
	return w.wordless(v)
}

// wordless is apart so that what formatting needs of the stack is not asked
// for on every way through Word.
//
//go:noinline
func (w Words[T]) wordless(v T) string { return fmt.Sprintf("%s(%d)", w.noun, v) }

// Marshal returns the word of v as the body of MarshalText. A value without a
// word is a *[NoValueError], so that a record which forgot a field is not written.
func (w Words[T]) Marshal(v T) ([]byte, error) {
	word, ok := w.word(v)
	if !ok {
		return nil, &NoValueError{w.noun, int(v)}
	}
	return []byte(word), nil
}

// Unmarshal stores in v the value whose word text is, as the body of
// UnmarshalText. Any other text, the empty one included, is an
// *[UnknownWordError] and leaves v as it was.
func (w Words[T]) Unmarshal(text []byte, v *T) error {
	for i, word := range w.words {
		if word == string(text) {
			*v = T(i + 1)
			return nil
		}
	}
	return &UnknownWordError{w.noun, string(text), slices.Clone(w.words)}
}

// Parse returns the value whose word is given, or an *[UnknownWordError].
func (w Words[T]) Parse(word string) (T, error) {
	var v T
	err := w.Unmarshal([]byte(word), &v)
	return v, err
}

func (w Words[T]) word(v T) (string, bool) {
	if v == 0 || int(v) > len(w.words) {
		return "", false
	}
	return w.words[v-1], true
}

// An UnknownWordError says that a word is none of a closed set.
type UnknownWordError struct {
	Noun string   // the kind of word, such as "act"
	Word string   // what was found instead
	Want []string // every valid word, in the order of the set
}

func (e *UnknownWordError) Error() string {
	return fmt.Sprintf("unknown %s %.64q: want one of %s", e.Noun, e.Word, strings.Join(e.Want, ", "))
}

// A NoValueError says that a value which has no word was to be written: the
// zero value, or a number outside the set.
type NoValueError struct {
	Noun  string // the kind of word, such as "act"
	Value int    // the number found, 0 where a field was never set
}

func (e *NoValueError) Error() string {
	return fmt.Sprintf("%s(%d) has no word", e.Noun, e.Value)
}
