package policy

import (
	"cmp"
	"errors"
	"strconv"
	"strings"
)

// decimal is the exact value of a JSON number: 0.digits times ten to the power
// exp, with the sign. No float64 is involved, so a bound of 0.1 or of
// 9007199254740993 means what it says.
type decimal struct {
	negative bool
	digits   string // without zeros at either end; empty is zero
	exp      int64
}

// maxExponentDigits bounds the exponents that are read. Nothing real comes near;
// what does is refused rather than guessed at.
const maxExponentDigits = 15

var errNotDecimal = errors.New("not a decimal number")

// parseDecimal reads a number literal as JSON writes it. It takes any number of
// digits and allocates none for a literal without a point.
func parseDecimal(literal string) (decimal, error) {
	rest, negative := strings.CutPrefix(literal, "-")
	mantissa, exponent := rest, ""
	if i := strings.IndexAny(rest, "eE"); i >= 0 {
		mantissa, exponent = rest[:i], rest[i+1:]
	}
	whole, fraction, point := strings.Cut(mantissa, ".")
	if !allDigits(whole) || len(whole) > 1 && whole[0] == '0' || point && !allDigits(fraction) {
		return decimal{}, errNotDecimal
	}
	exp := int64(0)
	if len(mantissa) < len(rest) {
		var err error
		if exp, err = parseExponent(exponent); err != nil {
			return decimal{}, err
		}
	}
	exp += int64(len(whole))
	digits := whole + fraction
	trimmed := strings.TrimLeft(digits, "0")
	exp -= int64(len(digits) - len(trimmed))
	trimmed = strings.TrimRight(trimmed, "0")
	if trimmed == "" {
		return decimal{}, nil
	}
	return decimal{negative, trimmed, exp}, nil
}

func parseExponent(s string) (int64, error) {
	unsigned := s
	if s != "" && (s[0] == '+' || s[0] == '-') {
		unsigned = s[1:]
	}
	if !allDigits(unsigned) {
		return 0, errNotDecimal
	}
	if len(strings.TrimLeft(unsigned, "0")) > maxExponentDigits {
		return 0, errors.New("exponent out of bounds")
	}
	return strconv.ParseInt(s, 10, 64)
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// compare returns -1, 0 or 1 as a is less than, equal to or greater than b.
func (a decimal) compare(b decimal) int {
	if a.sign() != b.sign() {
		return cmp.Compare(a.sign(), b.sign())
	}
	magnitude := cmp.Compare(a.exp, b.exp)
	if magnitude == 0 {
		magnitude = cmp.Compare(a.digits, b.digits)
	}
	if a.negative {
		return -magnitude
	}
	return magnitude
}

func (a decimal) sign() int {
	switch {
	case a.digits == "":
		return 0
	case a.negative:
		return -1
	}
	return 1
}
