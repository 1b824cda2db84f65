package mutate

import (
	"testing"

	"github.com/purecu/purecu/internal/ptx/isa"
)

// TestFaults checks that each entry has a fault, and that the name of a fault tells which one it is.
func TestFaults(t *testing.T) {
	faults := Faults()
	names := make(map[string]bool)
	entries := make(map[*isa.Instruction]bool)
	for _, f := range faults {
		if names[f.String()] {
			t.Errorf("there are two faults %q", f)
		}
		names[f.String()] = true
		entries[f.Row] = true
	}
	for _, row := range isa.All() {
		if !entries[row] {
			t.Errorf("there is no fault for %s %s", row.Name, row.Modifiers)
		}
	}
	for _, u := range explain(faults) {
		t.Errorf("no fault is %q", u)
	}
	for name, why := range silent {
		found := false
		for _, row := range isa.All() {
			for _, s := range slotsOf(row) {
				found = found || s.name == name && len(s.options) > 1
			}
		}
		if !found {
			t.Errorf("no entry has a choice for %s (%s)", name, why)
		}
	}
}
