package engagement

import (
	"encoding"
	"strings"
)

// element is a word of a vocabulary that sets are built of.
type element interface {
	Act | Modality | Domain | Egress
	encoding.TextMarshaler
	String() string
}

// Set is a set of words of one vocabulary. The zero Set is empty. Values are
// immutable, comparable with ==, and hold no more than the vocabulary does.
type Set[T element] uint16

// Has reports whether v is in the set. The zero value is in none.
func (s Set[T]) Has(v T) bool { return s&bit(v) != 0 }

// With returns the set with the given words added.
func (s Set[T]) With(words ...T) Set[T] {
	for _, v := range words {
		s |= bit(v)
	}
	return s
}

// Union returns the words that are in either set.
func (s Set[T]) Union(t Set[T]) Set[T] { return s | t }

// Intersect returns the words that are in both sets.
func (s Set[T]) Intersect(t Set[T]) Set[T] { return s & t }

// Empty reports whether the set has no word.
func (s Set[T]) Empty() bool { return s == 0 }

// List returns the words of the set in the order of their vocabulary.
func (s Set[T]) List() []T {
	list := []T{}
	for v := T(1); v <= 16; v++ {
		if s.Has(v) {
			list = append(list, v)
		}
	}
	return list
}

// String returns the words of the set in the order of their vocabulary, with
// commas between them.
func (s Set[T]) String() string {
	words := []string{}
	for _, v := range s.List() {
		words = append(words, v.String())
	}
	return strings.Join(words, ", ")
}

// bit is the place of v in a set. The zero value wraps around to a place beyond
// the last one and so has none.
func bit[T element](v T) Set[T] { return 1 << (v - 1) }
