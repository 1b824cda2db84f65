package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// oneLine returns a text without line breaks.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// sentence returns a text that ends with a period and a space.
func sentence(s string) string { return strings.TrimSuffix(s, ".") + ". " }

// count returns a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// orUnknown returns a text, or a question mark if there is none.
func orUnknown(s string) string {
	if s == "" {
		return "?"
	}
	return s
}

// wrap breaks a text into lines of at most width bytes, if its words allow it. All lines but the
// first begin with indent.
func wrap(text, indent string, width int) []string {
	var lines []string
	for len(text) > width {
		begin := len(text) - len(strings.TrimLeft(text, " "))
		cut := strings.LastIndexByte(text[:width+1], ' ')
		if cut <= begin {
			if cut = strings.IndexByte(text[begin:], ' '); cut < 0 {
				break
			}
			cut += begin
		}
		lines = append(lines, strings.TrimRight(text[:cut], " "))
		text = indent + strings.TrimLeft(text[cut:], " ")
	}
	return append(lines, text)
}

// duration returns a time with five digits and its unit, in ASCII.
func duration(d time.Duration) string { return roundDuration(d, 5) }

// roundDuration returns a time with n roundDuration and its unit, in ASCII.
func roundDuration(d time.Duration, n int) string {
	ns := float64(d)
	switch a := max(ns, -ns); {
	case a < 1e3:
		return strconv.Itoa(int(d)) + "ns"
	case a < 1e6:
		return decimal(ns/1e3, n) + "us"
	case a < 1e9:
		return decimal(ns/1e6, n) + "ms"
	}
	return decimal(ns/1e9, n) + "s"
}

// decimal returns a number with n digits, or more if its integer part has more.
func decimal(v float64, n int) string {
	after := n - 1
	for a := max(v, -v); after > 0 && a >= 10; a /= 10 {
		after--
	}
	return strconv.FormatFloat(v, 'f', after, 64)
}

// shortDuration returns a round time, such as "10ms", in ASCII.
func shortDuration(d time.Duration) string {
	s := strings.ReplaceAll(d.String(), "µ", "u")
	for _, zero := range []string{"m0s", "h0m"} { // 1m0s is 1m
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// size returns a round number of bytes, such as "16MiB".
func size(n uint64) string {
	for _, u := range units() {
		if n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatUint(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatUint(n, 10) + "B"
}

type unit struct {
	name  string
	bytes uint64
}

// units returns the units of sizes, the largest first.
func units() []unit {
	return []unit{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}
}

// gibibytes returns a number of bytes in GiB.
func gibibytes(n uint64) string { return fmt.Sprintf("%.1f", float64(n)/(1<<30)) }

// set returns the function of a flag that parses its text, and sets to.
func set[T any](to *T, parse func(string) (T, error)) func(string) error {
	return func(s string) error {
		v, err := parse(s)
		if err == nil {
			*to = v
		}
		return err
	}
}

// listOf returns a function that parses a list with commas in between.
func listOf[T any](parse func(string) (T, error)) func(string) ([]T, error) {
	return func(s string) (list []T, err error) {
		for item := range strings.SplitSeq(s, ",") {
			v, err := parse(strings.TrimSpace(item))
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	}
}

// countOf returns a function that parses a number of things.
func countOf(things string) func(string) (int, error) {
	return func(s string) (int, error) {
		n, err := strconv.ParseUint(s, 10, 31)
		if err != nil || n == 0 {
			return 0, fmt.Errorf("the number of %s is a whole number from 1", things)
		}
		return int(n), nil
	}
}

// durationWithin returns a function that parses a duration with limits.
func durationWithin(least, most time.Duration, example string) func(string) (time.Duration, error) {
	return func(s string) (time.Duration, error) {
		d, err := time.ParseDuration(s)
		if err != nil || d < least || d > most {
			return 0, fmt.Errorf("%q is no duration from %v to %v, such as %s", s, least, most, example)
		}
		return d, nil
	}
}

// parseSize parses the size of a copy.
func parseSize(s string) (uint64, error) {
	const maxSize = 64 << 30
	factor, number := uint64(1), strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(s), "IB"), "B")
	for _, u := range units() {
		if rest, ok := strings.CutSuffix(number, u.name[:1]); ok {
			number, factor = rest, u.bytes
		}
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || n == 0 || n > maxSize/factor {
		return 0, fmt.Errorf("%q is no size from 1B to %s, such as 4KiB or 16MiB", s, size(maxSize))
	}
	return n * factor, nil
}
