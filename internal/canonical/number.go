package canonical

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// The magnitudes between which a number with a fraction is written without an exponent:
// those of ECMAScript.
const (
	leastPoint = -6
	mostPoint  = 21
)

// leastExponent bounds how small a number may be. How great one may be is bounded by
// the numbers of a float64.
const leastExponent = -1_000_000

// number writes a JSON number by its exact value: an integer as its digits, and any
// other as a decimal fraction or, if it is small, with an exponent.
func number(text string) (literal, error) {
	if f, _ := strconv.ParseFloat(text, 64); math.IsInf(f, 0) {
		return "", fmt.Errorf("it holds the number %.64q, which is beyond those of a float64", text)
	}
	rest, negative := strings.CutPrefix(text, "-")
	mantissa, power, _ := strings.Cut(strings.ToLower(rest), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return "0", nil
	}
	exponent := 0
	if power != "" {
		var err error
		if exponent, err = strconv.Atoi(power); err != nil || exponent < leastExponent {
			return "", fmt.Errorf("it holds the number %.64q, whose exponent is out of range", text)
		}
	}
	exponent -= len(fraction)
	short := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(short)
	out := decimal(short, exponent)
	if negative {
		out = "-" + out
	}
	return literal(out), nil
}

// decimal writes digits, of which neither the first nor the last is 0, times ten to the
// power of the exponent.
func decimal(digits string, exponent int) string {
	point := len(digits) + exponent // how many digits are before the decimal point
	switch {
	case exponent >= 0:
		return digits + strings.Repeat("0", exponent)
	case 0 < point && point <= mostPoint:
		return digits[:point] + "." + digits[point:]
	case leastPoint < point && point <= 0:
		return "0." + strings.Repeat("0", -point) + digits
	}
	if len(digits) > 1 {
		digits = digits[:1] + "." + digits[1:]
	}
	return digits + "e" + strconv.Itoa(point-1)
}
