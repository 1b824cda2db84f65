package simnvml

import (
	"slices"
	"strings"
	"testing"

	"github.com/purecu/purecu/internal/profile"
)

// TestFacts makes the rows of an H200 from its facts: they are those that were recorded.
func TestFacts(t *testing.T) {
	recorded := h200Profile()
	for name, f := range parse(strings.Join(facts(profile.Default()), "")) {
		for args, got := range f.rows {
			want, there := answer{}, false
			if recorded[name] != nil {
				want, there = recorded[name].rows[args]
			}
			if !there || got.result != want.result || !slices.Equal(got.outs, want.outs) {
				t.Errorf("%s %s: %q, was recorded as %q", name, args, got, want)
			}
		}
	}
}

// TestFactsOfAll makes the rows of other GPUs. Only rows that were recorded may be replaced.
func TestFactsOfAll(t *testing.T) {
	for _, g := range profile.All() {
		p := recordingOf(g)
		for name, f := range parse(strings.Join(facts(g), "")) {
			for args := range f.rows {
				if _, there := h200Profile()[name].rows[args]; !there {
					t.Errorf("%s: %s %s was not recorded", g.Name, name, args)
				}
			}
		}
		if len(p) != len(h200Profile()) {
			t.Errorf("%s has %d functions, and an H200 %d", g.Name, len(p), len(h200Profile()))
		}
		if (p["GpmSampleGet"].rows["device gpmsample"].result == "0") != (g.Number >= 90) {
			t.Errorf("%s: GPM: %v", g.Name, p["GpmSampleGet"].rows)
		}
		if (p["DeviceGetRetiredPagesPendingStatus"].rows["device *"].result == "0") != (g.Memory.Rows == 0) {
			t.Errorf("%s: retired pages: %v", g.Name, p["DeviceGetRetiredPagesPendingStatus"].rows)
		}
	}
}
