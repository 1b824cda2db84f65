package suggest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNearest(t *testing.T) {
	names := []string{"demo", "devices", "doctor", "help", "symbols", "time"}
	for _, tt := range []struct {
		name string
		want []string
	}{
		{"devices", []string{"devices"}},
		{"dev", []string{"devices"}},
		{"de", []string{"demo", "devices"}},
		{"tiem", []string{"time"}},
		{"tine", []string{"time"}},
		{"symbol", []string{"symbols"}},
		{"simbolss", []string{"symbols"}},
		{"docker", []string{"doctor"}},
		{"", nil},
		{"nothing", nil},
		{"ymbo", []string{"symbols"}},
		{"all-devices", []string{"devices"}},
		{"DOCTER", []string{"doctor"}},
		{"o", nil},
		{"x", nil},
	} {
		if diff := cmp.Diff(tt.want, Nearest(tt.name, names)); diff != "" {
			t.Errorf("Nearest(%q) (-want +got):\n%s", tt.name, diff)
		}
	}
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "abd", 1},
		{"abc", "ab", 1}, {"ab", "abc", 1}, {"ca", "abc", 3}, {"time", "demo", 3},
	} {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestText(t *testing.T) {
	names := []string{"demo", "devices", "doctor"}
	for name, want := range map[string]string{
		"demp": "; did you mean demo?", "de": "; did you mean demo or devices?", "nothing": "",
	} {
		if got := Text(name, names); got != want {
			t.Errorf("Text(%q) = %q, want %q", name, got, want)
		}
	}
}
