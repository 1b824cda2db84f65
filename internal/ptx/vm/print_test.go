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
