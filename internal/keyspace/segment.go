package keyspace

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Widths of the numbers in keys. Frozen.
const (
	timeDigits     = 15
	counterDigits  = 10
	revisionDigits = 19
)

// MaxCounter is the greatest run and attempt that a key can hold. Frozen.
const MaxCounter = 9_999_999_999

// MaxTime is the latest instant that a key can hold, in the year 33658. A later
// one is stored as this one. Frozen.
var MaxTime = time.UnixMilli(999_999_999_999_999).UTC() //nolint:gochecknoglobals // a constant; Go has none of this type

const hexDigits = "0123456789ABCDEF"

// escape returns the segment in the form that keys hold it.
func escape(segment string) string {
	extra := 0
	for i := range len(segment) {
		if mustEscape(segment[i]) {
			extra += 2
		}
	}
	if extra == 0 {
		return segment
	}
	b := make([]byte, 0, len(segment)+extra)
	for i := range len(segment) {
		c := segment[i]
		if mustEscape(c) {
			b = append(b, '%', hexDigits[c>>4], hexDigits[c&0xf])
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}

func mustEscape(c byte) bool {
	return c == '/' || c == '%' || c < 0x20 || c == 0x7f
}

// wellFormed says whether s is a name that a key may hold.
func wellFormed(s string) bool {
	return s != "" && utf8.ValidString(s) && !strings.Contains(s, "\x00")
}

// unescape is the inverse of escape. It refuses what escape never writes, and the
// names that no caller may use.
func unescape(segment string) (string, error) {
	s, err := decodeEscapes(segment)
	if err != nil {
		return "", err
	}
	switch {
	case !wellFormed(s):
		return "", fmt.Errorf("segment %q: want at least 1 byte of UTF-8 without NUL", segment)
	case escape(s) != segment:
		return "", fmt.Errorf("segment %q is not in its only form", segment)
	}
	return s, nil
}

func decodeEscapes(segment string) (string, error) {
	if !strings.Contains(segment, "%") {
		return segment, nil
	}
	b := make([]byte, 0, len(segment))
	for i := 0; i < len(segment); i++ {
		c := segment[i]
		if c == '%' {
			if i+2 >= len(segment) {
				return "", fmt.Errorf("segment %q ends inside an escape", segment)
			}
			n, err := strconv.ParseUint(segment[i+1:i+3], 16, 8)
			if err != nil {
				return "", fmt.Errorf("segment %q: bad escape %q", segment, segment[i:i+3])
			}
			c, i = byte(n), i+2
		}
		b = append(b, c)
	}
	return string(b), nil
}

// counter renders n, bounded by 0 and MaxCounter.
func counter(n int64) string { return number(min(n, MaxCounter), counterDigits) }

// number renders n, zero-padded; a negative n is written as zero.
func number(n int64, digits int) string {
	s := strconv.FormatInt(max(n, 0), 10)
	if len(s) >= digits {
		return s
	}
	return strings.Repeat("0", digits-len(s)) + s
}

func parseNumber(s string, digits int) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil || len(s) != digits {
		return 0, fmt.Errorf("%q is not a number of %d digits", s, digits)
	}
	return int64(n), nil
}

// instant renders t in whole Unix milliseconds, bounded by 1970 and MaxTime.
func instant(t time.Time) string {
	switch {
	case t.After(MaxTime):
		t = MaxTime
	case t.Before(time.UnixMilli(0)):
		t = time.UnixMilli(0)
	}
	return number(t.UnixMilli(), timeDigits)
}

func parseInstant(s string) (time.Time, error) {
	n, err := parseNumber(s, timeDigits)
	return time.UnixMilli(n).UTC(), err
}
