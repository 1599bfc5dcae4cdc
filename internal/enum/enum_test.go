package enum_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/mcp-gate/mcp-gate/internal/enum"
)

type colour uint8

const (
	red colour = iota + 1
	green
)

var colours = enum.Of[colour]("colour", "red", "green")

func TestEveryValueHasItsWordAndBack(t *testing.T) {
	if got, want := colours.All(), []colour{red, green}; !slices.Equal(got, want) {
		t.Fatalf("All() = %v, want %v", got, want)
	}
	for _, c := range colours.All() {
		text, err := colours.Marshal(c)
		if err != nil || string(text) != colours.Word(c) {
			t.Errorf("Marshal(%d) = %q, %v, want %q", c, text, err, colours.Word(c))
		}
		if got, err := colours.Parse(colours.Word(c)); err != nil || got != c {
			t.Errorf("Parse(%q) = %d, %v, want %d", colours.Word(c), got, err, c)
		}
	}
}

func TestUnknownWordListsTheValidOnesAndLeavesTheValue(t *testing.T) {
	for _, word := range []string{"teal", "", "Red", "red "} {
		c := green
		err := colours.Unmarshal([]byte(word), &c)
		var unknown *enum.UnknownWordError
		if !errors.As(err, &unknown) || unknown.Word != word || !slices.Equal(unknown.Want, []string{"red", "green"}) {
			t.Errorf("Unmarshal(%q) = %v, want an UnknownWordError with red, green", word, err)
		}
		if c != green {
			t.Errorf("Unmarshal(%q) changed the value to %d", word, c)
		}
	}
	_, err := colours.Parse("teal")
	if got, want := err.Error(), `unknown colour "teal": want one of red, green`; got != want {
		t.Errorf("error is %q, want %q", got, want)
	}
}

func TestAValueWithoutAWordIsNotWritten(t *testing.T) {
	for _, c := range []colour{0, 3, 255} {
		_, err := colours.Marshal(c)
		var none *enum.NoValueError
		if !errors.As(err, &none) || none.Value != int(c) {
			t.Errorf("Marshal(%d) = %v, want a NoValueError", c, err)
		}
	}
	if got, want := colours.Word(0), "colour(0)"; got != want {
		t.Errorf("Word(0) = %q, want %q", got, want)
	}
	_, err := colours.Marshal(0)
	if got, want := err.Error(), "colour(0) has no word"; got != want {
		t.Errorf("error is %q, want %q", got, want)
	}
}

func TestTheListsAreTheCallersOwn(t *testing.T) {
	colours.All()[0] = green
	_, err := colours.Parse("teal")
	err.(*enum.UnknownWordError).Want[0] = "pink"
	if got := colours.Word(red); got != "red" || colours.All()[0] != red {
		t.Errorf("a caller's change reached the set: first word %q, first value %d", got, colours.All()[0])
	}
}
