package vm

import "testing"

// TestLimited checks that no specification of printf asks for much memory.
func TestLimited(t *testing.T) {
	for spec, want := range map[string]string{
		"":                        "",
		"5":                       "5",
		"-08.3":                   "-08.3",
		"10.0":                    "10.0",
		"2147483647":              "4096",
		".2000000000":             ".4096",
		"99999999999999999999.1":  "4096.1",
		"-4097.4096":              "-4096.4096",
		"00000000000000000000007": "00000000000000000000007",
	} {
		if got := limited(spec); got != want {
			t.Errorf("%q: %q, want %q", spec, got, want)
		}
	}
	if text := float(limited("2147483647"), 'f', 1); len(text) != mostDigits {
		t.Errorf("%d bytes", len(text))
	}
}

// TestPadded checks that widths and precisions of texts count bytes.
func TestPadded(t *testing.T) {
	for _, c := range []struct {
		spec, text string
		cut        bool
		want       string
	}{
		{"", "abc", true, "abc"},
		{"5", "abc", true, "  abc"},
		{"-5", "abc", true, "abc  "},
		{"5.2", "abc", true, "   ab"},
		{"-4.1", "abc", true, "a   "},
		{".0", "abc", true, ""},
		{".", "abc", true, ""},
		{"2", "abc", true, "abc"},
		{"05", "abc", true, "  abc"},
		{"4", "é", true, "  é"},
		{".1", "é", true, "\xc3"},
		{".2", "\xff\xfe\xfd", true, "\xff\xfe"},
		{"4", "\xff", false, "   \xff"},
		{"4.0", "c", false, "   c"},
	} {
		if got := padded(c.spec, c.text, c.cut); got != c.want {
			t.Errorf("%q of %q: %q, want %q", c.spec, c.text, got, c.want)
		}
	}
}
