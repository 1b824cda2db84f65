package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDuration(t *testing.T) {
	for _, tt := range []struct {
		d           time.Duration
		five, three string
	}{
		{0, "0ns", "0ns"},
		{999, "999ns", "999ns"},
		{1000, "1.0000us", "1.00us"},
		{12345, "12.345us", "12.3us"},
		{123456, "123.46us", "123us"},
		{ms, "1.0000ms", "1.00ms"},
		{10005376, "10.005ms", "10.0ms"},
		{time.Second, "1.0000s", "1.00s"},
		{123456 * time.Second, "123456s", "123456s"},
		{-1500, "-1.5000us", "-1.50us"},
		{-5, "-5ns", "-5ns"},
	} {
		if got := duration(tt.d); got != tt.five {
			t.Errorf("duration(%d) = %s, want %s", tt.d, got, tt.five)
		}
		if got := roundDuration(tt.d, 3); got != tt.three {
			t.Errorf("digits(%d, 3) = %s, want %s", tt.d, got, tt.three)
		}
	}
}

func TestShortDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		1: "1ns", us: "1us", 10 * us: "10us", 1500 * us: "1.5ms", 100 * ms: "100ms", time.Second: "1s", time.Minute: "1m", time.Hour: "1h", 90 * time.Second: "1m30s",
	} {
		if got := shortDuration(d); got != want {
			t.Errorf("shortDuration(%v) = %s, want %s", d, got, want)
		}
	}
}

func TestSizes(t *testing.T) {
	for _, tt := range []struct {
		text string
		want uint64
		back string // the result of size
	}{
		{"1", 1, "1B"},
		{"512B", 512, "512B"},
		{"1000", 1000, "1000B"},
		{"4k", 4096, "4KiB"},
		{"4K", 4096, "4KiB"},
		{"4KB", 4096, "4KiB"},
		{"4KiB", 4096, "4KiB"},
		{"4kib", 4096, "4KiB"},
		{"16MiB", 16 << 20, "16MiB"},
		{"1024M", 1 << 30, "1GiB"},
		{"64GiB", 64 << 30, "64GiB"},
	} {
		n, err := parseSize(tt.text)
		if err != nil || n != tt.want || size(n) != tt.back {
			t.Errorf("parseSize(%q) = %d, %v, which is %s", tt.text, n, err, size(n))
		}
	}
	for _, text := range []string{"", "0", "-1", "K", "iB", "1.5M", "65GiB", "18446744073709551615",
		"99999999999999999999G", "4 KiB", "4KK"} {
		if n, err := parseSize(text); err == nil {
			t.Errorf("parseSize(%q) = %d", text, n)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", ""},
		{"short", "short"},
		{"exactly 10", "exactly 10"},
		{"one two three", "one two\n  three"},
		{"  one two three four", "  one two\n  three\n  four"},
		{"unbreakable-word", "unbreakable-word"},
		{"unbreakable-word and more", "unbreakable-word\n  and more"},
		{"a unbreakable-word", "a\n  unbreakable-word"},
	} {
		if diff := cmp.Diff(tt.want, strings.Join(wrap(tt.text, "  ", 10), "\n")); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.text, diff)
		}
	}
}

// TestTerminal writes control sequences of terminals.
func TestTerminal(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "",
		"plain\tand\nlines, é µ 日本 🙂": "plain\tand\nlines, é µ 日本 🙂",
		"\x1b[2J\x1b]0;title\a\r\x7f": `\x1b[2J\x1b]0;title\x07\x0d\x7f`,
		"a\u009b31m\u0085b":           `a\u009b31m\u0085b`,
		"a\x9b31m\xff":                `a\x9b31m\xff`,
		"\u202egpj.exe\u2066\u200f":   `\u202egpj.exe\u2066\u200f`,
		"\uFFFD":                      "\uFFFD",
		"\x00":                        `\x00`,
	} {
		var b strings.Builder
		n, err := terminal{&b}.Write([]byte(text))
		if b.String() != want || n != len(text) || err != nil {
			t.Errorf("%q: %q, %d, %v; want %q", text, b.String(), n, err, want)
		}
	}
}

// TestControlCharactersInNames names a library with control sequences in its name. Texts must not
// contain them, and JSON does.
func TestControlCharactersInNames(t *testing.T) {
	const name = "/nowhere/\u009b2J\u202elib.so"
	for _, args := range [][]string{{"devices"}, {"doctor"}, {"demo"}, {"symbols"}, {"time"}} {
		for _, json := range []bool{false, true} {
			args := append(args, "-driver", name)
			if json {
				args = append(args, "-json")
			}
			var stdout, stderr strings.Builder
			run(t.Context(), args, &stdout, &stderr, os.LookupEnv)
			all := stdout.String() + stderr.String()
			if strings.Contains(all, "\u009b") != json {
				t.Errorf("%q: %q", args, all)
			}
		}
	}
}

// TestProgress checks that the line of the progress leaves nothing on the terminal.
func TestProgress(t *testing.T) {
	var b bytes.Buffer
	p := progress{w: &b}
	p.show(0, 12, "a long name")
	p.show(1, 12, "short")
	p.clear()
	p.clear()
	if diff := cmp.Diff("\r1 of 12: a long name\r2 of 12: short      \r              \r", b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	(&progress{}).show(0, 1, "nothing") // without a terminal
	if w := progressOf(terminal{&b}); w != nil {
		t.Errorf("a buffer is taken for a terminal: %v", w)
	}
}
